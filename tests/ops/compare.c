/* compare.c: are two results the same? Integers and bools exactly, floats within a tolerance by type:
 *
 *     float64 1e-10, float32 1e-5 (absolute 1e-6), float16 2e-3, bfloat16 1.6e-2
 *
 * times the scale of the op's family (test_ops.c), which is larger where an op adds many products up. Invariant: a
 * NaN equals only a NaN, an infinity only itself. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/convert.h"
#include "base/dtype.h"
#include "golden.h"
#include "tensor/tensor.h"

tolerance tolerance_of(int dtype, double scale)
{
  if (cn_dtype_is_complex((cn_dtype)dtype)) dtype = cni_dtype_part(dtype);
  switch (dtype) {
  case CN_F64: return (tolerance){1e-10 * scale, 1e-11 * scale};
  case CN_F32: return (tolerance){1e-5 * scale, 1e-6 * scale};
  case CN_F16: return (tolerance){2e-3 * scale, 2e-3 * scale};
  case CN_BF16: return (tolerance){1.6e-2 * scale, 1.6e-2 * scale};
  default: return (tolerance){0, 0};
  }
}

static bool close_enough(const void *a, const void *b, int64_t i, int dtype, tolerance t)
{
  if (!cn_dtype_is_float((cn_dtype)dtype)) return cni_load_i64(a, i, dtype) == cni_load_i64(b, i, dtype);
  double x = cni_load_f64(a, i, dtype), y = cni_load_f64(b, i, dtype);
  if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
  if (t.rtol == 0) return x == y && signbit(x) == signbit(y);
  return x == y || fabs(x - y) <= t.atol + t.rtol * fabs(y);
}

static bool same_elements(const void *a, const void *b, int64_t n, int dtype, tolerance t, char *why, size_t size)
{
  if (cni_dtype_is_complex(dtype)) return same_elements(a, b, 2 * n, cni_dtype_part(dtype), t, why, size);
  for (int64_t i = 0; i < n; i++) {
    if (close_enough(a, b, i, dtype, t)) continue;
    if (cn_dtype_is_float((cn_dtype)dtype))
      snprintf(why, size, "element %lld: %.9g should be %.9g", (long long)i, cni_load_f64(a, i, dtype),
               cni_load_f64(b, i, dtype));
    else
      snprintf(why, size, "element %lld: %lld should be %lld", (long long)i, (long long)cni_load_i64(a, i, dtype),
               (long long)cni_load_i64(b, i, dtype));
    return false;
  }
  return true;
}

/* The elements in row-major order; given to free(). NULL with `why` set. */
static void *host_copy(cn_tensor *t, char *why, size_t size)
{
  size_t bytes = cn_tensor_nbytes(t);
  void *data = malloc(bytes + 1);
  if (data && !cn_to_data(data, bytes, t)) return data;
  snprintf(why, size, "cannot be read: %s", cn_err_message());
  cn_err_clear();
  free(data);
  return NULL;
}

static bool same_shape(cn_tensor *t, int dtype, int ndim, const int64_t *shape, char *why, size_t size)
{
  char have[160], want[160];
  const cn_desc *d = cn_desc_of(t);
  if (d->ndim == ndim && !memcmp(d->shape, shape, (size_t)ndim * sizeof *shape) && (!dtype || d->dtype == dtype))
    return true;
  snprintf(why, size, "%s%s should be %s%s", cn_dtype_name((cn_dtype)d->dtype),
           cni_shape_text(have, sizeof have, d->ndim, d->shape), dtype ? cn_dtype_name((cn_dtype)dtype) : "",
           cni_shape_text(want, sizeof want, ndim, shape));
  return false;
}

/* PyTorch worked in int64 (any_dtype): its values are converted to the type found here. */
static void *in_type_of(const golden_tensor *g, int dtype, int64_t n)
{
  void *data = malloc((size_t)n * 8 + 1);
  bool ints = !cn_dtype_is_float((cn_dtype)g->dtype);
  for (int64_t i = 0; data && i < n; i++) {
    if (ints) cni_store_i64(data, i, dtype, cni_load_i64(g->data, i, g->dtype));
    else cni_store_f64(data, i, dtype, cni_load_f64(g->data, i, g->dtype));
  }
  return data;
}

bool same_as_golden(cn_tensor *t, const golden_tensor *g, int flags, double scale, char *why, size_t size)
{
  if (!t || !g->dtype) {
    snprintf(why, size, "is %s", t ? "there, PyTorch gives none" : "missing");
    return !t && !g->dtype;
  }
  int dtype = (int)cn_dtype_of(t);
  bool any_dtype = flags & GOLDEN_ANY_DTYPE;
  if (!same_shape(t, any_dtype ? 0 : g->dtype, g->ndim, g->shape, why, size)) return false;
  if (g->channels_last && !(flags & GOLDEN_ANY_ORDER) && !cn_is_channels_last(t)) {
    snprintf(why, size, "is not channels-last, as in PyTorch");
    return false;
  }
  if (!g->data) return true;
  void *mine = host_copy(t, why, size), *golden = any_dtype ? in_type_of(g, dtype, cn_numel(t)) : NULL;
  bool same = mine && same_elements(mine, any_dtype ? golden : g->data, cn_numel(t), dtype,
                                    tolerance_of(dtype, scale), why, size);
  free(mine);
  free(golden);
  return same;
}

static bool same_within(cn_tensor *a, cn_tensor *b, tolerance t, char *why, size_t size)
{
  const cn_desc *d = cn_desc_of(b);
  if (!a || !b) {
    snprintf(why, size, "one of the two is missing");
    return a == b;
  }
  if (!same_shape(a, d->dtype, d->ndim, d->shape, why, size)) return false;
  void *x = host_copy(a, why, size), *y = host_copy(b, why, size);
  bool same = x && y && same_elements(x, y, d->numel, d->dtype, t, why, size);
  free(x);
  free(y);
  return same;
}

bool same_tensors(cn_tensor *a, cn_tensor *b, double scale, char *why, size_t size)
{
  return same_within(a, b, tolerance_of(b ? cn_desc_of(b)->dtype : 0, scale), why, size);
}

/* A gradient is computed in its op's type and then cast to its input's: the coarser of the two judges it. */
static tolerance tolerance_of_gradient(cn_tensor *grad, cn_tensor *result, double scale)
{
  tolerance a = tolerance_of((int)cn_dtype_of(grad), scale);
  tolerance b = result ? tolerance_of((int)cn_dtype_of(result), scale) : a;
  return a.rtol > b.rtol ? a : b;
}

static bool all_zero(cn_tensor *t, char *why, size_t size)
{
  void *data = t ? host_copy(t, why, size) : NULL;
  bool zero = !t || data;
  int dtype = (int)cn_dtype_of(t), parts = t && cni_dtype_is_complex(dtype) ? 2 : 1;
  if (parts == 2) dtype = cni_dtype_part(dtype);
  for (int64_t i = 0; t && zero && i < parts * cn_numel(t); i++) zero = cni_load_f64(data, i, dtype) == 0;
  free(data);
  if (!zero) snprintf(why, size, "is missing on one side and not zero on the other");
  return zero;
}

bool same_results(const call_result *a, const call_result *b, double scale, char *why, size_t size)
{
  char detail[300] = "";
  if (a->nout != b->nout) {
    snprintf(why, size, "%zu results should be %zu", a->nout, b->nout);
    return false;
  }
  for (size_t i = 0; i < a->nout; i++) {
    if (same_tensors(a->out[i], b->out[i], scale, detail, sizeof detail)) continue;
    snprintf(why, size, "result %zu: %s", i, detail);
    return false;
  }
  for (int i = 0; i < SAMPLE_INPUTS; i++) {
    cn_tensor *x = a->grad[i], *y = b->grad[i];
    bool same =
        x && y ? same_within(x, y, tolerance_of_gradient(y, b->nout ? b->out[0] : NULL, scale), detail, sizeof detail)
               : all_zero(x ? x : y, detail, sizeof detail);
    if (same) continue;
    snprintf(why, size, "gradient of input %d: %s", i, detail);
    return false;
  }
  return true;
}
