/* window.c: rows of pools, windows as columns, and resampling. See row.h.
 *
 * A window is walked tap by tap: each tap is a slice of the image, so that all windows take a step at once. What is
 * linear along one dim (resampling, adaptive means) is a product with a matrix, which the op itself makes here of an
 * identity: a constant of the text. */
#include <cairn/kw.h>
#include <string.h>

#include "rows.h"

typedef struct window {
  int64_t size[2], step[2], pad[2], inner[2];
  int64_t in[2], out[2]; /* of an image and its result */
} window;

static cni_hval batched(cni_hlo *h, cni_hval x) { return x.ndim == 4 ? x : cni_hlo_insert_dim(h, x, 0, 1); }

static void give(cni_hcall *c, int i, cni_hval y)
{
  c->out[i] = cni_hlo_reshape(c->h, cni_hlo_cast(c->h, y, c->out[i].dtype), c->out[i].ndim, c->out[i].shape);
}

/* Two numbers of one or two. */
static void pair(const cni_hcall *c, int i, int64_t *to)
{
  for (int k = 0; k < 2; k++) to[k] = cni_harg_at(c, i, k);
}

static window window_of(const cni_hcall *c, const cni_hval *in, const cni_hval *out, int size, int step, int pad,
                        int inner)
{
  window w = {.inner = {1, 1}};
  pair(c, size, w.size);
  if (step < 0 || cni_harg_none(c, step) || (c->args[step].tag == CN_V_INTS && !c->args[step].n))
    memcpy(w.step, w.size, sizeof w.step);
  else pair(c, step, w.step);
  pair(c, pad, w.pad);
  if (inner >= 0) pair(c, inner, w.inner);
  for (int k = 0; k < 2; k++) {
    w.in[k] = in->shape[in->ndim - 2 + k];
    w.out[k] = out->shape[out->ndim - 2 + k];
  }
  return w;
}

/* x with a border as wide as the windows reach. */
static cni_hval bordered(cni_hlo *h, cni_hval x, const window *w, cni_hval value)
{
  int64_t low[4] = {0}, high[4] = {0};
  for (int k = 0; k < 2; k++) {
    low[2 + k] = w->pad[k];
    high[2 + k] = (w->out[k] - 1) * w->step[k] + (w->size[k] - 1) * w->inner[k] + 1 - w->in[k] - w->pad[k];
  }
  return cni_hlo_pad(h, x, value, low, high, NULL);
}

/* Tap (i, j) of all windows of a bordered image. */
static cni_hval tap(cni_hlo *h, cni_hval x, const window *w, int64_t i, int64_t j)
{
  int64_t from[4] = {0}, to[4], step[4] = {1, 1, w->step[0], w->step[1]}, at[2] = {i, j};
  for (int k = 0; k < 4; k++) to[k] = x.shape[k];
  for (int k = 0; k < 2; k++) {
    from[2 + k] = at[k] * w->inner[k];
    to[2 + k] = from[2 + k] + (w->out[k] - 1) * w->step[k] + 1;
  }
  return cni_hlo_slice(h, x, from, to, step);
}

/* ---- the largest ---- */

/* Where each window's first element inside of the image lies, along one dim, as a tensor of the results' shape. */
static cni_hval first_inside(cni_hlo *h, const window *w, int k, const int64_t *shape)
{
  cni_hval i = cni_hlo_iota(h, CN_I64, 4, shape, 2 + k);
  return CNI_HLO_EXPR(h, "t = a * b - c; t < 0 ? t + (d - 1 - t) / d * d : t", CN_I64, i, cni_hlo_int(w->step[k]),
                      cni_hlo_int(w->pad[k]), cni_hlo_int(w->inner[k]));
}

static cni_hval better(cni_hlo *h, cni_hval v, cni_hval best)
{
  return CNI_HLO_EXPR(h, "(a > b) | (a != a)", v.dtype, v, best);
}

static void max_pool(cni_hcall *c)
{
  cni_hlo *h = c->h;
  window w = window_of(c, &c->in[0], &c->out[0], 1, 2, 3, 4);
  cni_hval x = bordered(h, batched(h, c->in[0]), &w, cni_hlo_extreme(h, c->in[0].dtype, true));
  int64_t shape[4] = {x.shape[0], x.shape[1], w.out[0], w.out[1]};
  cni_hval best = cni_hlo_expand(h, cni_hlo_extreme(h, x.dtype, true), 4, shape);
  cni_hval rows = cni_hlo_iota(h, CN_I64, 4, shape, 2), cols = cni_hlo_iota(h, CN_I64, 4, shape, 3);
  cni_hval corner = CNI_HLO_EXPR(h, "(a * c) * e + b * d", CN_I64, rows, cols, cni_hlo_int(w.step[0]),
                                 cni_hlo_int(w.step[1]), cni_hlo_int(w.in[1]));
  cni_hval at = CNI_HLO_EXPR(h, "a * c + b", CN_I64, first_inside(h, &w, 0, shape), first_inside(h, &w, 1, shape),
                             cni_hlo_int(w.in[1]));
  for (int64_t i = 0; i < w.size[0] && !h->failed; i++)
    for (int64_t j = 0; j < w.size[1] && !h->failed; j++) {
      cni_hval v = tap(h, x, &w, i, j), take = better(h, v, best);
      int64_t e = (i * w.inner[0] - w.pad[0]) * w.in[1] + j * w.inner[1] - w.pad[1];
      best = cni_hlo_select(h, take, v, best);
      at = cni_hlo_select(h, take, cni_hlo_binary(h, "add", corner, cni_hlo_int(e)), at);
    }
  give(c, 0, best);
  give(c, 1, at);
}

/* max_pool2d_backward(grad, indices, input_size): each plane's gradients go to their places. */
static void max_pool_backward(cni_hcall *c)
{
  cni_hlo *h = c->h;
  const cni_hval *out = &c->out[0];
  int n = out->ndim;
  int64_t planes = n == 4 ? out->shape[0] * out->shape[1] : out->shape[0];
  int64_t to[2] = {planes, out->shape[n - 2] * out->shape[n - 1]};
  int64_t from[2] = {planes, planes ? cni_hlo_numel(&c->in[0]) / planes : 0};
  int type = cni_hlo_wide(out->dtype);
  cni_hval zero = cni_hlo_splat(h, cni_hlo_num(0), type, 2, to);
  cni_hval g = cni_hlo_reshape(h, cni_hlo_cast(h, c->in[0], type), 2, from);
  give(c, 0, cni_hlo_put_along(h, "add", zero, 1, cni_hlo_reshape(h, c->in[1], 2, from), g));
}

/* Of n elements, window k of `out` begins and ends here. */
static void adaptive_range(int64_t n, int64_t out, int64_t k, int64_t *begin, int64_t *end)
{
  *begin = k * n / out;
  *end = ((k + 1) * n + out - 1) / out;
}

static void adaptive_max_pool(cni_hcall *c)
{
  cni_hlo *h = c->h;
  cni_hval x = batched(h, c->in[0]), at[2];
  int64_t out[2], most[2] = {0, 0}, begin, end, shape[4] = {x.shape[0], x.shape[1]};
  for (int k = 0; k < 2; k++) {
    shape[2 + k] = out[k] = c->out[0].shape[c->out[0].ndim - 2 + k];
    for (int64_t i = 0; i < out[k]; i++) {
      adaptive_range(x.shape[2 + k], out[k], i, &begin, &end);
      if (end - begin > most[k]) most[k] = end - begin;
    }
  }
  cni_hval best = cni_hlo_expand(h, cni_hlo_extreme(h, x.dtype, true), 4, shape), place = {.id = -1};
  for (int64_t t = 0; t < most[0] * most[1] && !h->failed; t++) {
    int64_t step[2] = {t / most[1], t % most[1]};
    for (int k = 0; k < 2; k++) {
      cni_hval i = cni_hlo_iota(h, CN_I64, 1, &out[k], 0);
      at[k] = CNI_HLO_EXPR(h, "min(a * b / c + d, ((a + 1) * b + c - 1) / c - 1)", CN_I64, i,
                           cni_hlo_int(x.shape[2 + k]), cni_hlo_int(out[k]), cni_hlo_int(step[k]));
    }
    cni_hval v = cni_hlo_take(h, cni_hlo_take(h, x, 2, at[0]), 3, at[1]);
    cni_hval e = CNI_HLO_EXPR(h, "a * c + b", CN_I64, cni_hlo_broadcast(h, at[0], 4, shape, (int64_t[]){2}),
                              cni_hlo_broadcast(h, at[1], 4, shape, (int64_t[]){3}), cni_hlo_int(x.shape[3]));
    cni_hval take = better(h, v, best);
    place = t ? cni_hlo_select(h, take, e, place) : e;
    best = cni_hlo_select(h, take, v, best);
  }
  give(c, 0, best);
  give(c, 1, place);
}

/* ---- means ---- */

/* By what the sum over each window is divided. */
static cni_hval divisors(cni_hcall *c, const window *w, int first, int dtype)
{
  bool whole = cni_harg_int(c, first) != 0; /* count_include_pad; then divisor_override */
  cni_hval n[2];
  if (!cni_harg_none(c, first + 1))
    return cni_hlo_splat(c->h, cni_hlo_int(cni_harg_int(c, first + 1)), dtype, 2, w->out);
  for (int k = 0; k < 2; k++) {
    cni_hval i = cni_hlo_iota(c->h, CN_I64, 2, w->out, k);
    const char *text = whole ? "t = a * b - c; min(t + d, e + c) - t" : "t = a * b - c; min(t + d, e) - max(t, 0)";
    n[k] = CNI_HLO_EXPR(c->h, text, CN_I64, i, cni_hlo_int(w->step[k]), cni_hlo_int(w->pad[k]), cni_hlo_int(w->size[k]),
                        cni_hlo_int(w->in[k]));
  }
  return cni_hlo_convert(c->h, cni_hlo_binary(c->h, "multiply", n[0], n[1]), dtype);
}

static void avg_pool(cni_hcall *c)
{
  cni_hlo *h = c->h;
  window w = window_of(c, &c->in[0], &c->out[0], 1, 2, 3, -1);
  int type = cni_hlo_wide(c->in[0].dtype);
  cni_hval x = bordered(h, cni_hlo_cast(h, batched(h, c->in[0]), type), &w, cni_hlo_num(0));
  cni_hwindow v = cni_hlo_window(4);
  for (int k = 0; k < 2; k++) v.size[2 + k] = w.size[k], v.step[2 + k] = w.step[k];
  cni_hval sum = cni_hlo_reduce_window(h, "add", x, &v), n = divisors(c, &w, 5, type);
  give(c, 0, cni_hlo_binary(h, "divide", sum, cni_hlo_expand(h, n, 4, sum.shape)));
}

/* avg_pool2d_backward(grad, input_size, kernel_size, stride, padding, ceil_mode, count_include_pad,
 * divisor_override) */
static void avg_pool_backward(cni_hcall *c)
{
  cni_hlo *h = c->h;
  window w = window_of(c, &c->out[0], &c->in[0], 2, 3, 4, -1);
  int type = cni_hlo_wide(c->in[0].dtype);
  cni_hval g = cni_hlo_cast(h, batched(h, c->in[0]), type), n = divisors(c, &w, 6, type);
  int64_t low[4] = {0}, high[4] = {0}, inner[4] = {0};
  cni_hwindow v = cni_hlo_window(4);
  for (int k = 0; k < 2; k++) {
    v.size[2 + k] = w.size[k];
    inner[2 + k] = w.step[k] - 1;
    low[2 + k] = w.size[k] - 1 - w.pad[k];
    high[2 + k] = w.in[k] + w.size[k] - 1 - low[2 + k] - ((w.out[k] - 1) * w.step[k] + 1);
  }
  g = cni_hlo_binary(h, "divide", g, cni_hlo_expand(h, n, 4, g.shape));
  give(c, 0, cni_hlo_reduce_window(h, "add", cni_hlo_pad(h, g, cni_hlo_num(0), low, high, inner), &v));
}

/* ---- what is linear along a dim ---- */

/* The op of this call with other arguments, of an identity of n rows in this shape: the rows of its matrix (n, m). */
static cni_hval matrix_of(cni_hcall *c, const char *op, const cn_value *args, int64_t n, int64_t m,
                          const int64_t *shape, int ndim, int dtype)
{
  cni_hval v = {.id = -1};
  cn_value given[CN_MAX_ARGS];
  cn_tensor *made = NULL;
  size_t nout = 1;
  cn_scope *scope = cn_scope_begin();
  memcpy(given, args, (size_t)c->nargs * sizeof *given);
  cn_tensor *eye = cn_reshape(cn_eye(n, n, .dtype = (cn_dtype)dtype, .device = CN_CPU), shape, (size_t)ndim);
  given[0] = cn_v_tensor(eye);
  if (!eye || cn_op_call(&made, &nout, cn_op_find(op), given, (size_t)c->nargs, NULL)) c->h->failed = true;
  else v = cni_hlo_data(c->h, cn_data(cn_contiguous(made)), dtype, 2, (int64_t[]){n, m});
  if (made) cn_release(made);
  cn_scope_end(scope);
  return v;
}

/* x with its dim multiplied by a matrix (n, m), or by its transpose. */
static cni_hval along(cni_hlo *h, cni_hval x, int dim, cni_hval matrix, bool back)
{
  cni_hdot d = {.nover = 1, .over_a = {dim}, .over_b = {back}};
  int64_t order[CN_MAX_DIMS];
  cni_hval y = cni_hlo_dot(h, x, matrix, &d, matrix.dtype);
  for (int k = 0; k < x.ndim; k++) order[k] = k < dim ? k : k == dim ? x.ndim - 1 : k - 1;
  return cni_hlo_transpose(h, y, order);
}

/* resample(input, dim, size, mode, ...), resample_backward(grad, dim, input_size, mode, ...) */
static void resample(cni_hcall *c)
{
  cni_hlo *h = c->h;
  cni_hval x = c->in[0];
  cn_value args[CN_MAX_ARGS];
  bool back = c->text != NULL, bytes = x.dtype == CN_U8;
  int dim = cni_harg_dim(c, 1, x.ndim), type = x.dtype == CN_F32 ? CN_F32 : CN_F64;
  int64_t n = back ? c->out[0].shape[dim] : x.shape[dim], m = back ? x.shape[dim] : c->out[0].shape[dim];
  memcpy(args, c->args, (size_t)c->nargs * sizeof *args);
  args[1] = cn_v_int(1), args[2] = cn_v_int(m);
  cni_hval matrix = matrix_of(c, "resample", args, n, m, (int64_t[]){n, n}, 2, type);
  cni_hval y = along(h, cni_hlo_cast(h, x, type), dim, matrix, back);
  if (bytes) y = CNI_HLO_EXPR(h, "min(max(floor(a + 0.5), 0), 255)", type, y);
  give(c, 0, y);
}

/* adaptive_avg_pool2d(input, output_size), and its gradient. */
static void adaptive(cni_hcall *c)
{
  cni_hlo *h = c->h;
  bool back = c->text != NULL;
  int type = c->in[0].dtype == CN_F64 ? CN_F64 : CN_F32;
  cni_hval x = cni_hlo_cast(h, batched(h, c->in[0]), type);
  const cni_hval *small = back ? &c->in[0] : &c->out[0], *large = back ? &c->out[0] : &c->in[0];
  for (int k = 0; k < 2; k++) {
    int64_t n = large->shape[large->ndim - 2 + k], m = small->shape[small->ndim - 2 + k];
    int64_t shape[3] = {n, n, 1}, size[2] = {m, 1};
    cn_value args[CN_MAX_ARGS] = {cn_v_none(), cn_v_ints(size, 2)};
    cni_hcall as = *c;
    as.nargs = 2;
    x = along(h, x, 2 + k, matrix_of(&as, "adaptive_avg_pool2d", args, n, m, shape, 3, type), back);
  }
  give(c, 0, x);
}

/* ---- windows as columns ---- */

/* im2col(input, kernel_size, dilation, padding, stride): (N, C * taps, windows) */
static void im2col(cni_hcall *c)
{
  cni_hlo *h = c->h;
  cni_hval x = batched(h, c->in[0]);
  window w = {.inner = {1, 1}};
  pair(c, 1, w.size), pair(c, 2, w.inner), pair(c, 3, w.pad), pair(c, 4, w.step);
  for (int k = 0; k < 2; k++) {
    w.in[k] = x.shape[2 + k];
    w.out[k] = (w.in[k] + 2 * w.pad[k] - (w.size[k] - 1) * w.inner[k] - 1) / w.step[k] + 1;
  }
  int taps = (int)(w.size[0] * w.size[1]);
  cni_hval *parts = cn_alloc_zero((size_t)taps * sizeof *parts);
  x = bordered(h, x, &w, cni_hlo_num(0));
  for (int t = 0; t < taps && parts && !h->failed; t++)
    parts[t] = cni_hlo_insert_dim(h, tap(h, x, &w, t / w.size[1], t % w.size[1]), 2, 1);
  if (parts) give(c, 0, cni_hlo_concat(h, taps, parts, 2));
  else h->failed = true;
  if (parts) cn_free(parts, (size_t)taps * sizeof *parts);
}

/* col2im(input, output_size, kernel_size, dilation, padding, stride): what overlaps is added up. */
static void col2im(cni_hcall *c)
{
  cni_hlo *h = c->h;
  window w = {.inner = {1, 1}};
  int type = cni_hlo_wide(c->in[0].dtype);
  pair(c, 1, w.in), pair(c, 2, w.size), pair(c, 3, w.inner), pair(c, 4, w.pad), pair(c, 5, w.step);
  for (int k = 0; k < 2; k++)
    w.out[k] = (w.in[k] + 2 * w.pad[k] - (w.size[k] - 1) * w.inner[k] - 1) / w.step[k] + 1;
  int n = c->in[0].ndim;
  int64_t taps = w.size[0] * w.size[1], batch = n == 3 ? c->in[0].shape[0] : 1;
  int64_t split[5] = {batch, c->in[0].shape[n - 2] / taps, taps, w.out[0], w.out[1]};
  cni_hval x = cni_hlo_reshape(h, cni_hlo_cast(h, c->in[0], type), 5, split), sum = {.id = -1};
  for (int64_t t = 0; t < taps && !h->failed; t++) {
    int64_t low[4] = {0}, high[4] = {0}, inner[4] = {0, 0, w.step[0] - 1, w.step[1] - 1};
    int64_t at[2] = {t / w.size[1], t % w.size[1]};
    for (int k = 0; k < 2; k++) {
      low[2 + k] = at[k] * w.inner[k] - w.pad[k];
      high[2 + k] = w.in[k] - low[2 + k] - ((w.out[k] - 1) * w.step[k] + 1);
    }
    cni_hval part = cni_hlo_drop_dim(h, cni_hlo_slice_dim(h, x, 2, t, t + 1, 1), 2);
    part = cni_hlo_pad(h, part, cni_hlo_num(0), low, high, inner);
    sum = t ? cni_hlo_binary(h, "add", sum, part) : part;
  }
  give(c, 0, sum);
}

const cni_hrow cni_hlo_window_rows[] = {{"max_pool2d_with_indices", max_pool, NULL},
                                        {"max_pool2d_backward", max_pool_backward, NULL},
                                        {"adaptive_max_pool2d_with_indices", adaptive_max_pool, NULL},
                                        {"avg_pool2d", avg_pool, NULL},
                                        {"avg_pool2d_backward", avg_pool_backward, NULL},
                                        {"adaptive_avg_pool2d", adaptive, NULL},
                                        {"adaptive_avg_pool2d_backward", adaptive, "back"},
                                        {"resample", resample, NULL},
                                        {"resample_backward", resample, "back"},
                                        {"im2col", im2col, NULL},
                                        {"col2im", col2im, NULL},
                                        {NULL, NULL, NULL}};
