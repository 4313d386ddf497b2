/* int8.c: products and convolutions of quantised numbers, as products of int8 matrices with sums in int32. See quant.h.
 *
 * With zero points u and v the sum over k of (a - u)(b - v) is that of ab, less u times that of b, less v times that of
 * a - u; int32 wraps, so that a result that fits is right whatever lies between. Invariant: bits do not depend on
 * whether a zero point is known. */
#include <string.h>

#include "quant.h"
#include "window.h"

/* ---- operands ---- */

/* Whether all its numbers are `what`, where they can be looked at without waiting; else no. */
static bool all_are(cn_tensor *known, int64_t what)
{
  int32_t v[CNI_ONNX_SMALL];
  bool same = false;
  if (!known || cn_numel(known) > CNI_ONNX_SMALL) return false;
  void *paused = cn_trace_pause();
  if (!cn_to_data(v, sizeof v, cn_cast(known, CN_I32))) {
    same = true;
    for (int64_t i = 0; i < cn_numel(known); i++) same = same && v[i] == what;
  }
  cn_trace_resume(paused);
  return same;
}

static int int8_of(cni_onnx_int8 *out, const cni_onnx_call *c, cn_tensor *x, cn_tensor *zero, cn_tensor *known,
                   int64_t axis)
{
  cn_dtype dtype = cn_dtype_of(x);
  bool shift = dtype == CN_U8;
  if (cn_err()) return cn_err();
  if (dtype != CN_I8 && dtype != CN_U8)
    return cni_onnx_fail(c, CN_ERR_DTYPE, "it takes int8 and uint8, not %s", cn_dtype_name(dtype));
  out->q = shift ? cn_view_dtype(cn_bitwise_xor(x, cn_int(128)), CN_I8) : x;
  out->zero = NULL;
  if (!zero && shift) out->zero = cn_full(CN_SCALAR_SHAPE, -128, .dtype = CN_I32, .device = cn_device_of(x));
  if (!zero || all_are(known, shift ? 128 : 0)) return cn_err();
  zero = cn_cast(zero, CN_I32);
  if (shift) zero = cn_sub(zero, cn_int(128));
  out->zero = cn_ndim(zero) < 2 || cn_ndim(zero) != cn_ndim(x) ? cni_onnx_per_axis(c, zero, x, axis, 0) : zero;
  return cn_err();
}

int cni_onnx_int8_of(cni_onnx_int8 *out, const cni_onnx_call *c, cn_tensor *x, cn_tensor *zero, int64_t axis)
{
  return int8_of(out, c, x, zero, NULL, axis);
}

int cni_onnx_int8_in(cni_onnx_int8 *out, const cni_onnx_call *c, size_t i, size_t zero, int64_t axis)
{
  cn_tensor *x = cni_onnx_in(c, i), *z = cni_onnx_maybe(c, zero), *known = NULL;
  if (!x || cn_err()) return cn_err();
  if (z && c->in[zero]->known) known = c->in[zero]->known;
  else if (z && !cn_tracing() && cn_device_of(z) == CN_CPU) known = z;
  return int8_of(out, c, x, z, known, axis);
}

/* ---- products ---- */

/* The batches of both, broadcast, as one dimension. */
static cn_tensor *batched(cn_tensor *x, const int64_t *batch, size_t n, int64_t all)
{
  int64_t shape[CN_MAX_DIMS + 2], rows = cn_size(x, -2), columns = cn_size(x, -1);
  memcpy(shape, batch, n * sizeof *shape);
  shape[n] = rows;
  shape[n + 1] = columns;
  return cn_reshape(cn_expand(x, shape, n + 2), CN_SHAPE(all, rows, columns));
}

static cn_tensor *product(cn_tensor *a, cn_tensor *b)
{
  int64_t shape[CN_MAX_DIMS], rows = 1, k = cn_size(a, -1), na = cn_ndim(a), nb = cn_ndim(b), all = 1;
  int64_t m = cn_size(a, -2), n = cn_size(b, -1), nd = na > nb ? na : nb;
  if (cn_err()) return NULL;
  for (int64_t d = 0; d < nd - 2; d++) {
    int64_t i = d - (nd - na), j = d - (nd - nb), mine = i < 0 ? 1 : cn_shape(a)[i];
    shape[d] = mine == 1 && j >= 0 ? cn_shape(b)[j] : mine;
    all *= shape[d];
  }
  if (nb == 2) {
    for (int64_t d = 0; d < na - 1; d++) rows *= cn_shape(a)[d];
    b = cn_mm_dtype(cn_reshape(a, CN_SHAPE(rows, k)), b, CN_I32);
  } else {
    size_t nbatch = (size_t)nd - 2;
    b = cn_bmm_dtype(batched(a, shape, nbatch, all), batched(b, shape, nbatch, all), CN_I32);
  }
  shape[nd - 2] = m;
  shape[nd - 1] = n;
  return cn_reshape(b, shape, (size_t)nd);
}

static cn_tensor *sums(cn_tensor *x, int64_t dim)
{
  return cn_sum(x, .dim = CN_INTS(dim), .keepdim = true, .dtype = CN_I32);
}

cn_tensor *cni_onnx_int8_product(cni_onnx_int8 a, cni_onnx_int8 b)
{
  bool row = cn_ndim(a.q) == 1, column = cn_ndim(b.q) == 1;
  if (row) a.q = cn_unsqueeze(a.q, 0);
  if (column) b.q = cn_unsqueeze(b.q, 1);
  cn_tensor *t = product(a.q, b.q);
  if (a.zero) t = cn_sub(t, cn_mul(a.zero, sums(b.q, -2)));
  if (b.zero) {
    cn_tensor *rest = sums(a.q, -1);
    if (a.zero) rest = cn_sub(rest, cn_mul(a.zero, cn_int(cn_size(a.q, -1))));
    t = cn_sub(t, cn_mul(b.zero, rest));
  }
  if (column) t = cn_squeeze(t, .dim = CN_INTS(-1));
  return row ? cn_squeeze(t, .dim = CN_INTS(column ? -1 : -2)) : t;
}

cn_tensor *cni_onnx_dynamic_product(const cni_onnx_call *c, cn_tensor *x, cn_tensor *b, cn_tensor *scale,
                                    cn_tensor *zero)
{
  cni_onnx_scaled a;
  cni_onnx_int8 left, right;
  if (!b || !scale || cni_onnx_quantize_dynamic(&a, c, x) || cni_onnx_int8_of(&left, c, a.q, a.zero, -2) ||
      cni_onnx_int8_of(&right, c, b, zero, -1))
    return NULL;
  cn_tensor *sums = cni_onnx_int8_product(left, right);
  cn_tensor *unit = cn_mul(a.scale, cn_numel(scale) == 1 ? cn_reshape(scale, CN_SCALAR_SHAPE) : scale);
  return sums && unit ? cn_mul(cn_cast(sums, cn_dtype_of(unit)), unit) : NULL;
}

/* ---- convolutions ---- */

/* x with its zero point around it. */
static cn_tensor *padded(cni_onnx_window *w, cni_onnx_int8 x)
{
  cni_onnx_window same = *w;
  bool none = true;
  for (int i = 0; i < w->n; i++) none = none && !w->before[i] && !w->after[i];
  if (none) return x.q;
  cn_tensor *inside = cn_ones_like(cn_narrow(cn_narrow(x.q, 0, 0, 1), 1, 0, 1), .dtype = CN_BOOL);
  cn_tensor *q = cni_onnx_window_pad(w, x.q, 0);
  return x.zero ? cn_where(cni_onnx_window_pad(&same, inside, 0), q, cn_cast(x.zero, CN_I8)) : q;
}

/* What lies in the windows, a column for each: (group, C / group * kernel, N * places), so that what lies side by side
 * in x does so here; places: sizes behind (N, M). */
static cn_tensor *columns_of(const cni_onnx_window *w, cn_tensor *x, int64_t group, int64_t *places)
{
  int64_t shape[2 * CN_MAX_DIMS], perm[2 * CN_MAX_DIMS], n = cn_size(x, 0), k = cn_size(x, 1) / group, columns = n;
  size_t nd = 0, np = 0, spatial = (size_t)w->n;
  for (size_t i = 0; i < spatial; i++) {
    x = cn_unfold(x, (int64_t)i + 2, (w->kernel[i] - 1) * w->dilation[i] + 1, w->stride[i]);
    if (w->dilation[i] > 1) x = cn_slice(x, -1, 0, CN_NONE, .step = w->dilation[i]);
    if (cn_err()) return NULL;
    places[i] = cn_size(x, (int64_t)i + 2);
    columns *= places[i];
    k *= w->kernel[i];
  }
  shape[nd++] = n;
  shape[nd++] = group;
  shape[nd++] = cn_size(x, 1) / group;
  for (size_t i = 0; i < 2 * spatial; i++) shape[nd++] = cn_size(x, (int64_t)i + 2);
  perm[np++] = 1;
  perm[np++] = 2;
  for (size_t i = 0; i < spatial; i++) perm[np++] = (int64_t)(i + spatial) + 3;
  perm[np++] = 0;
  for (size_t i = 0; i < spatial; i++) perm[np++] = (int64_t)i + 3;
  return cn_reshape(cn_permute(cn_reshape(x, shape, nd), perm, np), CN_SHAPE(group, k, columns));
}

cn_tensor *cni_onnx_int8_conv(const cni_onnx_call *c, cni_onnx_int8 x, cni_onnx_int8 w)
{
  cni_onnx_window at;
  int64_t group = cni_onnx_int(c, "group", 1), shape[CN_MAX_DIMS];
  if (cn_err()) return NULL;
  int64_t m = cn_size(w.q, 0), k = m ? cn_numel(w.q) / m : 0;
  if (cn_ndim(w.q) != cn_ndim(x.q) || group < 1 || m % group || cn_size(x.q, 1) != group * cn_size(w.q, 1))
    return cni_onnx_fail(c, CN_ERR_SHAPE, "input, weights and groups do not fit"), NULL;
  if (x.zero && cn_ndim(x.zero)) return cni_onnx_fail(c, CN_ERR_SHAPE, "the input has one zero point"), NULL;
  if (cni_onnx_window_of(&at, c, x.q, cn_shape(w.q) + 2)) return NULL;
  size_t n = (size_t)at.n;
  cni_onnx_int8 a = {cn_reshape(w.q, CN_SHAPE(group, m / group, k)), w.zero};
  cni_onnx_int8 b = {columns_of(&at, padded(&at, x), group, shape + 2), x.zero};
  if (a.zero && cn_ndim(a.zero)) a.zero = cn_reshape(a.zero, CN_SHAPE(group, m / group, 1));
  if (group == 1) a.q = cn_squeeze(a.q, .dim = CN_INTS(0)), b.q = cn_squeeze(b.q, .dim = CN_INTS(0));
  if (group == 1 && a.zero && cn_ndim(a.zero)) a.zero = cn_squeeze(a.zero, .dim = CN_INTS(0));
  cn_tensor *t = cni_onnx_int8_product(a, b); /* (group, m / group, N * places) */
  shape[0] = m;
  shape[1] = cn_size(x.q, 0);
  return cn_transpose(cn_reshape(t, shape, n + 2), 0, 1);
}
