/* linear.c: linear models and support vector machines of ai.onnx.ml, for all rows at once as products of matrices. See
 * call.h, ml.h. */
#include <math.h>
#include <string.h>

#include "formats/onnx/ml.h"

/* ---- linear models ---- */

/* x times coefficients, (rows of them, features), plus intercepts; NULL with the error set. */
static cn_tensor *linear(cni_onnx_call *c, cn_tensor *x, int64_t rows)
{
  cn_dtype dtype = cn_dtype_of(x);
  cn_tensor *w = x ? cni_onnx_ml_vector(c, "coefficients", dtype) : NULL;
  cn_tensor *b = x ? cni_onnx_ml_vector(c, "intercepts", dtype) : NULL;
  if (cn_err()) return NULL;
  int64_t features = cn_size(x, 1);
  if (rows < 0 && w && features) rows = cn_numel(w) / features;
  if (!w || rows < 1 || cn_numel(w) != rows * features || (b && cn_numel(b) != 1 && cn_numel(b) != rows))
    return cni_onnx_fail(c, CN_ERR_SHAPE, "its coefficients do not fit %lld features", (long long)features), NULL;
  return cn_linear(x, cn_reshape(w, CN_SHAPE(rows, features)),
                   b && cn_numel(b) != rows ? cn_expand(b, CN_SHAPE(rows)) : b);
}

static int linear_regressor(cni_onnx_call *c)
{
  cn_tensor *t = linear(c, cni_onnx_ml_matrix_in(c, 0), cni_onnx_int(c, "targets", 1));
  t = cni_onnx_ml_transformed(c, t);
  return cni_onnx_out(c, 0, t ? cn_cast(t, CN_F32) : NULL);
}

/* One score for two classes is that of the second one. */
static int linear_classifier(cni_onnx_call *c)
{
  cn_tensor *t = linear(c, cni_onnx_ml_matrix_in(c, 0), -1), *at;
  size_t labels = cni_onnx_ml_nlabels(c, "classlabels_ints");
  if (!t) return cn_err();
  if (cn_size(t, 1) == 1 && labels == 2) t = cni_onnx_ml_both(t, false);
  if (labels && cn_size(t, 1) != (int64_t)labels)
    return cni_onnx_fail(c, CN_ERR_VALUE, "%zu labels for %lld scores", labels, (long long)cn_size(t, 1));
  at = cn_argmax(t, 1);
  t = cni_onnx_ml_transformed(c, t);
  if (cni_onnx_ml_out_labels(c, at, "classlabels_ints")) return cn_err();
  return cni_onnx_out(c, 1, t ? cn_cast(t, CN_F32) : NULL);
}

/* ---- support vector machines ---- */

/* kernel(x, y) of each row of x (N, features) with each of y (M, features). */
static cn_tensor *kernel(cni_onnx_call *c, cn_tensor *x, cn_tensor *y)
{
  const char *type = cni_onnx_text(c, "kernel_type", "LINEAR");
  cni_onnx_floats p = cni_onnx_floats_of(c, "kernel_params");
  double gamma = p.n > 0 ? p.v[0] : 0, coef0 = p.n > 1 ? p.v[1] : 0, degree = p.n > 2 ? p.v[2] : 0;
  cn_dtype dtype = cn_dtype_of(x);
  if (!x || !y || cn_err()) return NULL;
  if (!strcmp(type, "RBF")) { /* in float64, as squares of distances are differences of large numbers */
    x = cn_cast(x, CN_F64);
    y = cn_cast(y, CN_F64);
    cn_tensor *xx = cn_sum(cn_mul(x, x), .dim = CN_INTS(1), .keepdim = true),
              *yy = cn_sum(cn_mul(y, y), .dim = CN_INTS(1));
    cn_tensor *square = cn_sub(cn_add(xx, yy), cn_mul(cn_matmul(x, cn_transpose(y, 0, 1)), cn_int(2)));
    return cn_cast(cn_exp(cn_mul(cn_clamp(square, cn_int(0), NULL), cn_num(-gamma))), dtype);
  }
  cn_tensor *dot = cn_matmul(x, cn_transpose(y, 0, 1));
  if (!strcmp(type, "LINEAR")) return dot;
  dot = cn_add(cn_mul(dot, cn_num(gamma)), cn_num(coef0));
  if (!strcmp(type, "POLY")) return cn_pow(dot, cn_num(degree));
  if (!strcmp(type, "SIGMOID")) return cn_tanh(dot);
  return cni_onnx_fail(c, CN_ERR_VALUE, "kernel_type is '%s'", type), NULL;
}

/* kernel_type is that of a linear model where there are no support vectors. */
static int svm_regressor(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_ml_matrix_in(c, 0);
  int64_t supports = cni_onnx_int(c, "n_supports", 0), features = x ? cn_size(x, 1) : 0;
  cn_dtype dtype = cn_dtype_of(x);
  if (!x) return cn_err();
  cn_tensor *w = cni_onnx_ml_vector(c, "coefficients", dtype), *rho = cni_onnx_ml_vector(c, "rho", dtype), *t;
  if (!w || !rho || cn_numel(rho) < 1 || cn_numel(w) != (supports > 0 ? supports : features))
    return cn_err() ? cn_err() : cni_onnx_fail(c, CN_ERR_SHAPE, "its coefficients or rho do not fit");
  if (supports > 0) {
    cn_tensor *sv = cni_onnx_ml_vector(c, "support_vectors", dtype);
    if (!sv || cn_numel(sv) != supports * features)
      return cn_err() ? cn_err() : cni_onnx_fail(c, CN_ERR_SHAPE, "its support vectors do not fit the features");
    x = kernel(c, x, cn_reshape(sv, CN_SHAPE(supports, features)));
  }
  t = cn_add(cn_matmul(x, cn_unsqueeze(w, 1)), cn_narrow(rho, 0, 0, 1));
  if (cni_onnx_int(c, "one_class", 0)) t = cn_where(cn_gt(t, cn_int(0)), cn_num(1), cn_num(-1));
  else t = cni_onnx_ml_transformed(c, t);
  return cni_onnx_out(c, 0, t ? cn_cast(t, CN_F32) : NULL);
}

/* Between each two of k classes there is a machine: pair (i, j), i < j, in order. */
typedef struct pairs {
  int64_t classes, n, supports;
  double *weights; /* (n, supports) */
  double *first;   /* (n, classes): 1 where i is the class */
  double *second;  /* ... where j is */
} pairs;

/* Coefficients, (classes - 1, supports), as the weights of pairs: those of i's support vectors against j are in row
 * j - 1, those of j's against i in row i. */
static int read_pairs(pairs *p, cni_onnx_call *c, cni_onnx_ints per_class)
{
  cni_onnx_floats w = cni_onnx_floats_of(c, "coefficients");
  int64_t k = p->classes = (int64_t)per_class.n, row = 0;
  int64_t *begins = cni_onnx_room(c, per_class.n + 1, sizeof *begins);
  if (!begins || cn_err()) return cn_err();
  for (int64_t i = 0; i < k; i++) {
    if (per_class.v[i] < 0 || per_class.v[i] > INT32_MAX)
      return cni_onnx_fail(c, CN_ERR_VALUE, "vectors_per_class is out of range");
    begins[i + 1] = begins[i] + per_class.v[i];
  }
  p->supports = begins[k];
  p->n = k * (k - 1) / 2;
  if (k < 2 || k > 4096 || !p->supports || w.n != (size_t)((k - 1) * p->supports))
    return cni_onnx_fail(c, CN_ERR_VALUE, "its coefficients do not fit its classes");
  p->weights = cni_onnx_room(c, (size_t)(p->n * p->supports), sizeof(double));
  p->first = cni_onnx_room(c, (size_t)(p->n * k), sizeof(double));
  p->second = cni_onnx_room(c, (size_t)(p->n * k), sizeof(double));
  if (!p->weights || !p->first || !p->second) return cn_err();
  for (int64_t i = 0; i < k; i++)
    for (int64_t j = i + 1; j < k; j++, row++) {
      double *to = p->weights + row * p->supports;
      for (int64_t s = begins[i]; s < begins[i + 1]; s++) to[s] = w.v[(j - 1) * p->supports + s];
      for (int64_t s = begins[j]; s < begins[j + 1]; s++) to[s] = w.v[i * p->supports + s];
      p->first[row * k + i] = p->second[row * k + j] = 1;
    }
  return CN_OK;
}

static cn_tensor *table(const cni_onnx_call *c, const double *v, int64_t rows, int64_t columns, cn_dtype dtype)
{
  cn_tensor *t = cni_onnx_ml_table(c, v, (int64_t[]){rows, columns}, 2, CN_F64);
  void *paused = cn_trace_pause();
  t = t ? cn_cast(t, dtype) : NULL;
  cn_trace_resume(paused);
  return t;
}

/* Probabilities (N, k) whose ratios are as near as can be to those of pairs, r (N, k, k): a fixed-point iteration, a
 * class at a time, in which a row that has come near enough stays as it is. */
static cn_tensor *coupled(cn_tensor *r, int64_t k)
{
  cn_tensor *eye = cn_eye(k, k, .dtype = cn_dtype_of(r), .device = cn_device_of(r));
  cn_tensor *squares = cn_mul(r, r), *swapped = cn_transpose(r, 1, 2);
  cn_tensor *diagonal = cn_sum(squares, .dim = CN_INTS(1)), *q = cn_neg(cn_mul(r, swapped)); /* (N, k), (N, k, k) */
  q = cn_add(cn_mul(q, cn_rsub(eye, cn_int(1))), cn_mul(cn_unsqueeze(diagonal, 2), eye));
  cn_tensor *p = cn_full_like(diagonal, 1 / (double)k);
  for (int64_t round = 0; round < (k > 100 ? k : 100) && p; round++) {
    cn_tensor *qp = cn_squeeze(cn_matmul(q, cn_unsqueeze(p, 2)), .dim = CN_INTS(2));
    cn_tensor *pqp = cn_sum(cn_mul(p, qp), .dim = CN_INTS(1), .keepdim = true), *now = p;
    cn_tensor *error = cn_amax(cn_abs(cn_sub(qp, pqp)), .dim = CN_INTS(1), .keepdim = true);
    cn_tensor *on = cn_ge(error, cn_num(0.005 / (double)k));
    if (!cn_tracing() && !(cn_item(cn_any(on)) != 0)) break;
    for (int64_t t = 0; t < k; t++) {
      cn_tensor *own = cn_narrow(diagonal, 1, t, 1), *mine = cn_narrow(qp, 1, t, 1);
      cn_tensor *diff = cn_div(cn_sub(pqp, mine), own), *all = cn_add(diff, cn_int(1));
      cn_tensor *more = cn_mul(diff, cn_add(cn_mul(diff, own), cn_mul(mine, cn_int(2))));
      pqp = cn_div(cn_add(pqp, more), cn_mul(all, all));
      qp = cn_div(cn_add(qp, cn_mul(diff, cn_select(q, 1, t))), all);
      now = cn_div(cn_add(now, cn_mul(diff, cn_narrow(eye, 0, t, 1))), all);
    }
    p = cn_where(on, now, p);
  }
  return p;
}

/* Pairs' scores (N, n) as probabilities of classes, by the sigmoids prob_a and prob_b. */
static cn_tensor *probabilities(cni_onnx_call *c, cn_tensor *scores, const pairs *p, cn_tensor *first,
                                cn_tensor *second)
{
  cn_dtype dtype = cn_dtype_of(scores);
  cn_tensor *a = cni_onnx_ml_vector(c, "prob_a", dtype), *b = cni_onnx_ml_vector(c, "prob_b", dtype);
  if (!a || !b || cn_numel(a) != p->n || cn_numel(b) != p->n)
    return cni_onnx_fail(c, CN_ERR_VALUE, "prob_a and prob_b have not one number for each pair"), NULL;
  cn_tensor *v = cn_rsub(cn_sigmoid(cn_add(cn_mul(scores, a), b)), cn_int(1));
  v = cn_clamp(v, cn_num(1e-7), cn_num(1 - 1e-7));
  /* r[i, j] = v, r[j, i] = 1 - v: sums over pairs of places */
  cn_tensor *place = cn_mul(cn_unsqueeze(first, 2), cn_unsqueeze(second, 1)); /* (n, k, k) */
  cn_tensor *up = cn_reshape(place, CN_SHAPE(p->n, p->classes * p->classes));
  cn_tensor *down = cn_reshape(cn_transpose(place, 1, 2), CN_SHAPE(p->n, p->classes * p->classes));
  cn_tensor *r = cn_add(cn_matmul(v, up), cn_matmul(cn_rsub(v, cn_int(1)), down));
  return r ? coupled(cn_reshape(r, CN_SHAPE(cn_size(v, 0), p->classes, p->classes)), p->classes) : NULL;
}

/* Scores (N, columns) and the class of each row: votes of pairs. */
static cn_tensor *by_pairs(cni_onnx_call *c, cn_tensor *x, cni_onnx_ints per_class, cn_tensor **at, bool *likely)
{
  pairs p = {0};
  cn_dtype dtype = cn_dtype_of(x);
  if (read_pairs(&p, c, per_class)) return NULL;
  cn_tensor *sv = cni_onnx_ml_vector(c, "support_vectors", dtype), *rho = cni_onnx_ml_vector(c, "rho", dtype);
  const cni_onnx_attr *prob = cni_onnx_attr_of(c, "prob_a");
  int64_t features = cn_size(x, 1);
  if (!sv || !rho || cn_numel(sv) != p.supports * features || cn_numel(rho) != p.n)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "its support vectors or rho do not fit"), NULL;
  cn_tensor *w = table(c, p.weights, p.n, p.supports, dtype);
  cn_tensor *first = table(c, p.first, p.n, p.classes, dtype), *second = table(c, p.second, p.n, p.classes, dtype);
  if (cn_err()) return NULL;
  cn_tensor *k = kernel(c, x, cn_reshape(sv, CN_SHAPE(p.supports, features)));
  cn_tensor *scores = cn_add(cn_matmul(k, cn_transpose(w, 0, 1)), rho),
            *yes = cn_cast(cn_gt(scores, cn_int(0)), dtype);
  *at = cn_argmax(cn_add(cn_matmul(yes, first), cn_matmul(cn_rsub(yes, cn_int(1)), second)), 1);
  *likely = prob && prob->n;
  return *likely && scores ? probabilities(c, scores, &p, first, second) : scores;
}

static int svm_classifier(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_ml_matrix_in(c, 0), *at = NULL, *t;
  cni_onnx_ints per_class = cni_onnx_ints_of(c, "vectors_per_class");
  int64_t labels = (int64_t)cni_onnx_ml_nlabels(c, "classlabels_ints");
  bool likely = false;
  if (!x || cn_err()) return cn_err();
  if (per_class.n) t = by_pairs(c, x, per_class, &at, &likely);
  else {
    cn_tensor *rho = cni_onnx_ml_vector(c, "rho", cn_dtype_of(x));
    t = linear(c, x, labels > 1 ? labels : 1);
    t = t && rho && cn_numel(rho) ? cn_add(t, cn_narrow(rho, 0, 0, 1)) : t;
    at = t ? cn_argmax(t, 1) : NULL;
  }
  if (!t) return cn_err();
  if (cn_size(t, 1) == 1 && labels <= 2) {
    if (!per_class.n) at = cn_cast(cn_squeeze(cn_gt(t, cn_int(0)), .dim = CN_INTS(1)), CN_I64);
    t = cni_onnx_ml_both(t, false);
  }
  if (cni_onnx_ml_out_labels(c, at, "classlabels_ints")) return cn_err();
  t = cni_onnx_ml_transformed(c, t);
  return cni_onnx_out(c, 1, t ? cn_cast(t, CN_F32) : NULL);
}

const cni_onnx_op cni_onnx_linear_ops[] = {
    ONNX_BUILD("LinearClassifier", 1, linear_classifier),
    ONNX_BUILD("LinearRegressor", 1, linear_regressor),
    ONNX_BUILD("SVMClassifier", 1, svm_classifier),
    ONNX_BUILD("SVMRegressor", 1, svm_regressor),
    {NULL, NULL, NULL, 0, 0},
};
