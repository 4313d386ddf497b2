/* ml.c: see ml.h. */
#include "ml.h"

#include <math.h>
#include <string.h>

cn_tensor *cni_onnx_ml_table(const cni_onnx_call *c, const void *data, const int64_t *shape, size_t ndim,
                             cn_dtype dtype)
{
  if (cn_err()) return NULL;
  void *paused = cn_trace_pause();
  cn_tensor *t = cn_from_data(data, shape, ndim, dtype);
  if (t) t = cn_to_device(t, cni_onnx_device(c));
  cn_trace_resume(paused);
  return t;
}

cn_tensor *cni_onnx_ml_vector(const cni_onnx_call *c, const char *name, cn_dtype dtype)
{
  const cni_onnx_attr *a = cni_onnx_attr_of(c, name);
  if (!a || (a->kind != CNI_ATTR_INTS && a->kind != CNI_ATTR_FLOATS)) {
    if (a) cni_onnx_fail(c, CN_ERR_TYPE, "attribute '%s' is no list of numbers", name);
    return NULL;
  }
  bool whole = a->kind == CNI_ATTR_INTS;
  int64_t size = (int64_t)a->n;
  const void *data = whole ? (const void *)a->is : (const void *)a->fs;
  cn_tensor *t = cni_onnx_ml_table(c, data, &size, 1, whole ? CN_I64 : CN_F64);
  void *paused = cn_trace_pause();
  if (t && cn_dtype_of(t) != dtype) t = cn_cast(t, dtype);
  cn_trace_resume(paused);
  return t;
}

int cni_onnx_ml_strings(cn_strings *out, size_t *n, const cni_onnx_call *c, const char *name)
{
  const cni_onnx_attr *a = cni_onnx_attr_of(c, name);
  *n = 0;
  if (!a) return cn_err();
  if (a->kind != CNI_ATTR_STRINGS) return cni_onnx_fail(c, CN_ERR_TYPE, "attribute '%s' is no strings", name);
  *n = a->n;
  void *paused = cn_trace_pause();
  cn_strings_from(out, a->ss, &(int64_t){(int64_t)a->n}, 1);
  cn_trace_resume(paused);
  return cn_err();
}

cn_tensor *cni_onnx_ml_float(cn_tensor *x) { return x && cn_dtype_of(x) != CN_F64 ? cn_cast(x, CN_F32) : x; }

cn_tensor *cni_onnx_ml_matrix_in(const cni_onnx_call *c, size_t i)
{
  cn_tensor *x = cni_onnx_ml_float(cni_onnx_in(c, i));
  if (!x) return NULL;
  if (cn_ndim(x) == 1) return cn_unsqueeze(x, 0);
  if (cn_ndim(x) != 2) return cni_onnx_fail(c, CN_ERR_SHAPE, "features are a matrix, or a vector"), NULL;
  return x;
}

/* Softmax in which what is 0 stays 0. */
static cn_tensor *softmax_zero(cn_tensor *x)
{
  cn_tensor *most = cn_amax(x, .dim = CN_INTS(1), .keepdim = true);
  cn_tensor *e = cn_where(cn_gt(cn_abs(x), cn_num(1e-7)), cn_exp(cn_sub(x, most)), cn_mul(x, cn_exp(cn_neg(most))));
  cn_tensor *sum = cn_sum(e, .dim = CN_INTS(1), .keepdim = true);
  return cn_where(cn_eq(sum, cn_int(0)), cn_num(0.5), cn_div(e, sum));
}

/* The normal distribution's quantile, by the approximation that other runtimes use. */
static cn_tensor *probit(cn_tensor *x)
{
  const double a = 0.147, pi = 3.14159265358979323846;
  cn_tensor *y = cn_sub(cn_mul(x, cn_num(2)), cn_int(1)),
            *log = cn_log(cn_mul(cn_rsub(y, cn_int(1)), cn_add(y, cn_int(1))));
  cn_tensor *v = cn_add(cn_mul(log, cn_num(0.5)), cn_num(2 / (pi * a)));
  cn_tensor *root = cn_sqrt(cn_sub(cn_sqrt(cn_sub(cn_mul(v, v), cn_mul(log, cn_num(1 / a)))), v));
  return cn_mul(cn_mul(cn_sign(y), root), cn_num(1.41421356));
}

cn_tensor *cni_onnx_ml_post(const cni_onnx_call *c, cn_tensor *scores, const char *how)
{
  if (!scores || cn_err()) return NULL;
  if (!strcmp(how, "NONE")) return scores;
  if (!strcmp(how, "SOFTMAX")) return cn_softmax(scores, 1);
  if (!strcmp(how, "LOGISTIC")) return cn_sigmoid(scores);
  if (!strcmp(how, "SOFTMAX_ZERO")) return softmax_zero(scores);
  if (!strcmp(how, "PROBIT")) return probit(scores);
  return cni_onnx_fail(c, CN_ERR_VALUE, "post_transform is '%s'", how), NULL;
}

cn_tensor *cni_onnx_ml_transformed(const cni_onnx_call *c, cn_tensor *scores)
{
  return cni_onnx_ml_post(c, scores, cni_onnx_text(c, "post_transform", "NONE"));
}

cn_tensor *cni_onnx_ml_both(cn_tensor *s, bool like_probability)
{
  cn_tensor *other = like_probability ? cn_rsub(s, cn_int(1)) : cn_neg(s);
  return s && other ? cn_cat(CN_TENSORS(other, s), .dim = 1) : NULL;
}

size_t cni_onnx_ml_nlabels(const cni_onnx_call *c, const char *ints)
{
  const cni_onnx_attr *a = cni_onnx_attr_of(c, "classlabels_strings"), *b = cni_onnx_attr_of(c, ints);
  return a && a->n ? a->n : b ? b->n : 0;
}

int cni_onnx_ml_out_labels(cni_onnx_call *c, cn_tensor *places, const char *ints)
{
  cn_strings words, taken = {NULL, NULL};
  size_t n;
  if (!places || !cni_onnx_wants(c, 0) || cni_onnx_ml_strings(&words, &n, c, "classlabels_strings")) return cn_err();
  if (!n) {
    cn_tensor *labels = cni_onnx_ml_vector(c, ints, CN_I64);
    return cni_onnx_out(c, 0, labels ? cn_index_select(labels, 0, places) : cn_err() ? NULL : places);
  }
  cn_strings_take(&taken, &words, places);
  return cni_onnx_out_strings(c, 0, &taken);
}
