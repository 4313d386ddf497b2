/* ml.c: features as ai.onnx.ml's operators pick, scale and join them. See call.h, ml.h. */
#include <math.h>
#include <string.h>

#include "formats/onnx/ml.h"

/* Columns of the last dimension by their numbers; a vector is one row. */
static int array_feature_extractor(cni_onnx_call *c)
{
  const cn_onnx_value *v = cni_onnx_value_in(c, 0);
  cn_tensor *at = cni_onnx_in(c, 1);
  bool text = v && v->kind == CN_ONNX_STRINGS;
  cn_tensor *x = !v ? NULL : text ? v->lengths : cni_onnx_in(c, 0);
  int64_t shape[CN_MAX_DIMS], ndim = cn_ndim(x);
  if (!x || !at || ndim < 1) return cn_err() ? cn_err() : cni_onnx_fail(c, CN_ERR_SHAPE, "it takes (..., features)");
  at = cn_reshape(at, CN_SHAPE(cn_numel(at)));
  for (int64_t d = 0; d < ndim; d++) shape[d] = cn_size(x, d);
  if (ndim == 1) shape[ndim++] = 1, shape[0] = 1;
  shape[ndim - 1] = cn_numel(at);
  if (!text) return cni_onnx_out(c, 0, cn_reshape(cn_index_select(x, -1, at), shape, (size_t)ndim));
  int64_t columns = cn_size(x, -1), rows = columns ? cn_numel(x) / columns : 0;
  cn_tensor *begins = cn_mul(cn_arange(0, (double)rows, .dtype = CN_I64), cn_int(columns));
  cn_strings taken = {NULL, NULL};
  at = cn_reshape(cn_add(cn_unsqueeze(begins, 1), at), shape, (size_t)ndim);
  cn_strings_take(&taken, &(cn_strings){v->t, v->lengths}, at);
  return cni_onnx_out_strings(c, 0, &taken);
}

/* Matrices side by side as float32; each cut, or zeros put behind, to the columns that it should have. */
static int feature_vectorizer(cni_onnx_call *c)
{
  size_t n;
  cn_tensor *const *all = cni_onnx_rest(c, 0, &n);
  cni_onnx_ints sizes = cni_onnx_ints_of(c, "inputdimensions");
  cn_tensor **parts = all ? cni_onnx_room(c, n + 1, sizeof *parts) : NULL;
  if (!parts || !n || (sizes.v && sizes.n != n))
    return cn_err() ? cn_err() : cni_onnx_fail(c, CN_ERR_VALUE, "inputdimensions does not fit its inputs");
  for (size_t i = 0; i < n; i++) {
    cn_tensor *x = cn_cast(all[i], CN_F32);
    if (cn_ndim(x) == 1) x = cn_unsqueeze(x, 0);
    if (!x || cn_ndim(x) != 2) return cni_onnx_fail(c, CN_ERR_SHAPE, "features are matrices, or vectors");
    int64_t pad[] = {0, sizes.v ? sizes.v[i] - cn_size(x, 1) : 0};
    parts[i] = pad[1] ? cn_constant_pad_nd(x, pad, 2) : x;
  }
  return cni_onnx_out(c, 0, cn_cat(parts, n, .dim = 1));
}

/* Numbers of a list of floats or of whole ones, in x's type; NULL: neither is given. */
static cn_tensor *either(const cni_onnx_call *c, const char *floats, const char *ints, cn_dtype dtype)
{
  cn_tensor *t = cni_onnx_ml_vector(c, floats, dtype);
  return t || cn_err() ? t : cni_onnx_ml_vector(c, ints, dtype);
}

static int imputer(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0);
  bool real = x && cn_dtype_is_float(cn_dtype_of(x));
  cn_tensor *values = x ? either(c, "imputed_value_floats", "imputed_value_int64s", cn_dtype_of(x)) : NULL;
  double missing = cni_onnx_float(c, "replaced_value_float", 0);
  int64_t whole = cni_onnx_int(c, "replaced_value_int64", 0);
  if (!x || cn_err()) return cn_err();
  if (!values || (cn_numel(values) != 1 && cn_numel(values) != cn_size(x, -1)))
    return cni_onnx_fail(c, CN_ERR_VALUE, "it has neither one value nor one for each feature");
  cn_tensor *gone = !real ? cn_eq(x, cn_int(whole)) : isnan(missing) ? cn_isnan(x) : cn_eq(x, cn_num(missing));
  return cni_onnx_out(c, 0, cn_where(gone, values, x));
}

static int scaler(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_ml_float(cni_onnx_in(c, 0));
  cn_dtype dtype = cn_dtype_of(x);
  cn_tensor *offset = x ? cni_onnx_ml_vector(c, "offset", dtype) : NULL;
  cn_tensor *scale = x ? cni_onnx_ml_vector(c, "scale", dtype) : NULL;
  if (offset) x = cn_sub(x, offset);
  if (scale) x = cn_mul(x, scale);
  return cni_onnx_out(c, 0, x ? cn_cast(x, CN_F32) : NULL);
}

/* What rows are divided by; a row of zeros stays. */
static int normalizer(cni_onnx_call *c)
{
  const char *norm = cni_onnx_text(c, "norm", "MAX");
  cn_tensor *x = cni_onnx_ml_float(cni_onnx_in(c, 0)), *by;
  if (!x || cn_ndim(x) < 1) return cn_err() ? cn_err() : cni_onnx_fail(c, CN_ERR_SHAPE, "it takes (N, features)");
  cn_ints last = CN_INTS(-1);
  if (!strcmp(norm, "MAX")) by = cn_amax(x, .dim = last, .keepdim = true);
  else if (!strcmp(norm, "L1")) by = cn_sum(cn_abs(x), .dim = last, .keepdim = true);
  else if (!strcmp(norm, "L2")) by = cn_sqrt(cn_sum(cn_mul(x, x), .dim = last, .keepdim = true));
  else return cni_onnx_fail(c, CN_ERR_VALUE, "norm is '%s'", norm);
  cn_tensor *y = cn_div(x, cn_where(cn_eq(by, cn_int(0)), cn_num(1), by));
  return cni_onnx_out(c, 0, y ? cn_cast(y, CN_F32) : NULL);
}

const cni_onnx_op cni_onnx_ml_ops[] = {
    ONNX_BUILD("ArrayFeatureExtractor", 1, array_feature_extractor),
    ONNX_TEXT("Binarizer", 1, "cast(gt(%0, $threshold=0.0), @0)"),
    ONNX_BUILD("FeatureVectorizer", 1, feature_vectorizer),
    ONNX_BUILD("Imputer", 1, imputer),
    ONNX_BUILD("Normalizer", 1, normalizer),
    ONNX_BUILD("Scaler", 1, scaler),
    {NULL, NULL, NULL, 0, 0},
};
