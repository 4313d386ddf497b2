/* recurrent_sequence.c: one direction of one layer of a recurrent network over all its steps, and its gradient.
 *
 * Place in the flow: recurrent.c makes networks of it; kernels run the steps, or the formulas here, in public ops.
 * Its gradient is recurrent_sequence_grad, or, where gradients of gradients are recorded, those formulas: what a step
 * keeps for its gradient (`saved`) is a result like the others, so it has a gradient too. Invariant: rows of a step are
 * the first of the batch, as many as batch_sizes says, never more than of the step before; rows that end keep their
 * last state, and in reverse rows begin late. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>

#include "base/alloc.h"
#include "cost.h"
#include "families.h"
#include "recurrent.h"
#include "shorthand.h"

/* ---- what rules and formulas know of a sequence ---- */

typedef struct sequence {
  cni_recurrent mode;
  bool reverse, packed; /* packed: with batch_sizes, tensors of all steps are (N, ...), else (T, B, ...) */
  int64_t steps, batch, hidden, rows; /* rows: of all steps */
  const int64_t *sizes; /* of steps; NULL: all have the whole batch */
} sequence;

/* The step that is done as number s. */
static int64_t step_at(const sequence *q, int64_t s) { return q->reverse ? q->steps - 1 - s : s; }
static int64_t size_of(const sequence *q, int64_t t) { return q->sizes ? q->sizes[t] : q->batch; }

static int mode_of(const char *name, cni_recurrent *mode)
{
  for (int i = CNI_RNN_TANH; i <= CNI_GRU; i++)
    if (!strcmp(name, cni_recurrent_name((cni_recurrent)i))) return *mode = (cni_recurrent)i, CN_OK;
  return CN_ERR_VALUE;
}

/* Reads mode, reverse and batch_sizes, which stand at args[first], first + 1 and `last`. all: a tensor of all steps;
 * h0: (B, H). */
static sequence sequence_of(const cn_value *args, int first, int last, int ndim, const int64_t *all, const int64_t *h0)
{
  sequence q = {.reverse = cni_arg_bool(args, first + 1), .packed = !cni_arg_none(args, last), .batch = h0[0],
                .hidden = h0[1]};
  mode_of(cni_arg_str(args, first), &q.mode);
  q.steps = q.packed ? args[last].n : all[0];
  q.rows = q.packed ? all[0] : all[0] * (ndim > 1 ? all[1] : 1);
  if (q.packed) q.sizes = args[last].u.is;
  return q;
}

/* ---- recurrent_sequence(input, w_ih, w_hh, h0, b_ih, b_hh, c0, mode, reverse, keep, batch_sizes) ---- */

enum { INPUT, W_IH, W_HH, H0, B_IH, B_HH, C0, MODE, REVERSE, KEEP, SIZES }; /* its parameters */

static int check_sizes(const cn_call *c, const sequence *q)
{
  int64_t sum = 0;
  for (int64_t t = 0; q->sizes && t < q->steps; t++) {
    if (q->sizes[t] < 1 || q->sizes[t] > (t ? q->sizes[t - 1] : q->batch))
      return cn_call_fail(c, CN_ERR_VALUE, "batch_sizes must be positive and never grow, from at most %lld",
                          (long long)q->batch);
    sum += q->sizes[t];
  }
  if (q->steps < 1) return cn_call_fail(c, CN_ERR_SHAPE, "the sequence has no steps");
  if (q->sizes && (sum != q->rows || q->sizes[0] != q->batch))
    return cn_call_fail(c, CN_ERR_SHAPE, "batch_sizes add up to %lld rows, but there are %lld", (long long)sum,
                        (long long)q->rows);
  return CN_OK;
}

static int check_operands(const cn_call *c, const sequence *q)
{
  const cn_desc *x = &c->in[INPUT]->d, *w = &c->in[W_IH]->d, *u = &c->in[W_HH]->d, *h = &c->in[H0]->d;
  int64_t width = cni_recurrent_gates(q->mode) * q->hidden;
  if (w->ndim != 2 || u->ndim != 2 || w->shape[0] != width || u->shape[0] != width || u->shape[1] != q->hidden ||
      x->shape[x->ndim - 1] != w->shape[1] || (!q->packed && x->shape[1] != q->batch))
    return cn_call_fail(c, CN_ERR_SHAPE, "the input, weights and states do not fit %d gates of %lld columns",
                        cni_recurrent_gates(q->mode), (long long)q->hidden);
  for (int i = B_IH; i <= B_HH; i++)
    if (c->in[i] && (c->in[i]->d.ndim != 1 || c->in[i]->d.shape[0] != width))
      return cn_call_fail(c, CN_ERR_SHAPE, "a bias must have one number for each of %lld columns", (long long)width);
  if ((q->mode == CNI_LSTM) != (c->in[C0] != NULL))
    return cn_call_fail(c, CN_ERR_VALUE, "c0 is given with an LSTM and with no other");
  if (c->in[C0] && !cni_same_shape(2, h->shape, c->in[C0]->d.ndim, c->in[C0]->d.shape))
    return cn_call_fail(c, CN_ERR_SHAPE, "c0 must have the shape of h0");
  for (int i = W_IH; i <= C0; i++)
    if (c->in[i] && (c->in[i]->d.dtype != x->dtype || !cni_dtype_is_float(x->dtype)))
      return cn_call_fail(c, CN_ERR_DTYPE, "all tensors must have one floating-point type, but are %s and %s",
                          cn_dtype_name((cn_dtype)x->dtype), cn_dtype_name((cn_dtype)c->in[i]->d.dtype));
  return CN_OK;
}

static int sequence_infer(cn_call *c)
{
  const cn_desc *x = &c->in[INPUT]->d, *h = &c->in[H0]->d;
  cni_recurrent mode;
  bool packed = !cni_arg_none(c->args, SIZES);
  if (mode_of(cni_arg_str(c->args, MODE), &mode))
    return cn_call_fail(c, CN_ERR_VALUE, "mode must be lstm, gru, tanh or relu");
  if (x->ndim != (packed ? 2 : 3) || h->ndim != 2)
    return cn_call_fail(c, CN_ERR_SHAPE, "takes (T, B, n), or (N, n) with batch_sizes, and states (B, H)");
  sequence q = sequence_of(c->args, MODE, SIZES, x->ndim, x->shape, h->shape);
  int status = check_sizes(c, &q);
  if (!status) status = check_operands(c, &q);
  if (status) return status;
  int64_t shape[3] = {x->shape[0], x->ndim == 3 ? x->shape[1] : q.hidden, q.hidden}, none = 0;
  int saved = cni_arg_bool(c->args, KEEP) ? cni_recurrent_saved(mode) : 0;
  status = cn_call_result(c, 0, x->dtype, x->ndim, shape);
  if (!status) status = cn_call_result(c, 1, x->dtype, 2, h->shape);
  if (!status)
    status = mode == CNI_LSTM ? cn_call_result(c, 2, x->dtype, 2, h->shape) : cn_call_result(c, 2, x->dtype, 1, &none);
  shape[x->ndim - 1] = saved * q.hidden;
  if (!status)
    status = saved ? cn_call_result(c, 3, x->dtype, x->ndim, shape) : cn_call_result(c, 3, x->dtype, 1, &none);
  return status;
}

/* ---- the formulas: states with the rows of a step ---- */

/* x with n rows: its first ones, or all and then those of `whole`. */
static cn_tensor *with_rows(cn_tensor *x, int64_t n, cn_tensor *whole)
{
  int64_t have = x ? cn_size(x, 0) : n;
  if (n < have) return cn_narrow(x, 0, 0, n);
  return n > have ? cn_cat(((cn_tensor *[]){x, cn_narrow(whole, 0, have, n - have)}), 2) : x;
}

/* States of rows that have ended, in the order they did: the rows behind the others'. */
typedef struct ended {
  cn_tensor **list; /* room for each step and one more */
  int64_t n;
} ended;

/* Rows of x from n on end. */
static void end_rows(ended *e, cn_tensor *x, int64_t n)
{
  int64_t have = x ? cn_size(x, 0) : n;
  if (x && n == 0) e->list[e->n++] = x;
  else if (n < have) e->list[e->n++] = cn_narrow(x, 0, n, have - n);
}

/* The states of all rows. */
static cn_tensor *all_ended(ended *e)
{
  for (int64_t i = 0; i < e->n / 2; i++) {
    cn_tensor *t = e->list[i];
    e->list[i] = e->list[e->n - 1 - i];
    e->list[e->n - 1 - i] = t;
  }
  return e->n == 1 ? e->list[0] : cn_cat(e->list, (size_t)e->n);
}

/* Arrays of one entry a step. */
typedef struct room {
  cn_tensor **a, **b, **c, **d;
  ended h, m;     /* states h and c */
  int64_t *sizes;
  size_t bytes;
  void *memory;
} room;

static int make_room(room *r, const sequence *q)
{
  size_t n = (size_t)q->steps;
  memset(r, 0, sizeof *r);
  r->bytes = (6 * n + 2) * sizeof(cn_tensor *) + n * sizeof(int64_t);
  cn_tensor **p = r->memory = cni_alloc_zero(r->bytes);
  if (!p) return CN_ERR_MEMORY;
  r->a = p, r->b = p + n, r->c = p + 2 * n, r->d = p + 3 * n;
  r->h.list = p + 4 * n, r->m.list = p + 5 * n + 1;
  r->sizes = (int64_t *)(void *)(p + 6 * n + 2);
  for (size_t t = 0; t < n; t++) r->sizes[t] = size_of(q, (int64_t)t);
  return CN_OK;
}

/* A tensor of all steps as (N, columns). */
static cn_tensor *flat(cn_tensor *x)
{
  return x && x->d.ndim == 3 ? cn_reshape(x, CN_SHAPE(x->d.shape[0] * x->d.shape[1], x->d.shape[2])) : x;
}

/* Pieces of all steps joined, in the shape of a tensor of all steps with so many columns. */
static cn_tensor *joined(const sequence *q, cn_tensor **pieces, int64_t columns)
{
  cn_tensor *x = q->steps == 1 ? pieces[0] : cn_cat(pieces, (size_t)q->steps);
  return q->packed ? x : cn_reshape(x, CN_SHAPE(q->steps, q->batch, columns));
}

/* In place of a result that a kind of network does not have. */
static cn_tensor *nothing(const cn_tensor *like)
{
  return cn_zeros(CN_SHAPE(0), .dtype = (cn_dtype)like->d.dtype, .device = like->d.device);
}

/* ---- forward ---- */

/* What the inputs of all steps give, (N, gates): with all biases, but a GRU's hidden one, which is multiplied. */
static cn_tensor *from_inputs(cni_recurrent mode, cn_tensor *const *in)
{
  cn_tensor *bias = in[B_IH];
  if (mode != CNI_GRU && in[B_HH]) bias = bias ? cn_add(bias, in[B_HH]) : in[B_HH];
  return cn_linear(flat(in[INPUT]), in[W_IH], bias);
}

/* One step: given (n, gates) and the states h, c (n, H) to the next ones, and what it keeps (n, saved). */
static cn_tensor *forward_step(cni_recurrent mode, cn_tensor *given, cn_tensor *w_t, cn_tensor *bias, cn_tensor **h,
                               cn_tensor **c)
{
  cn_tensor *x[4] = {NULL}, *y[3] = {NULL};
  if (mode == CNI_GRU) {
    cni_split_columns(x, given, 3);
    cni_split_columns(y, bias ? cn_addmm(bias, *h, w_t) : cn_mm(*h, w_t), 3);
    cn_tensor *r = cn_sigmoid(cn_add(x[0], y[0])), *z = cn_sigmoid(cn_add(x[1], y[1]));
    cn_tensor *n = cn_tanh(cn_add(x[2], cn_mul(r, y[2])));
    *h = cn_lerp(n, *h, z);
    return cn_cat(((cn_tensor *[]){r, z, n, y[2]}), 4, .dim = 1);
  }
  cn_tensor *gates = cn_addmm(given, *h, w_t);
  if (mode != CNI_LSTM) {
    *h = mode == CNI_RNN_TANH ? cn_tanh(gates) : cn_relu(gates);
    return NULL;
  }
  cni_split_columns(x, gates, 4);
  cn_tensor *i = cn_sigmoid(x[0]), *f = cn_sigmoid(x[1]), *g = cn_tanh(x[2]), *o = cn_sigmoid(x[3]);
  *c = cn_add(cn_mul(f, *c), cn_mul(i, g));
  *h = cn_mul(o, cn_tanh(*c));
  return cn_cat(((cn_tensor *[]){i, f, g, o, *c}), 5, .dim = 1);
}

static void forward_steps(cn_call *call, const sequence *q, room *r, bool keep)
{
  cn_tensor *const *in = call->in, *w_t = cn_t(in[W_HH]), *h = NULL, *c = NULL;
  cn_tensor **given = r->a, **out = r->b, **saved = r->c;
  cni_split_rows(given, from_inputs(q->mode, in), r->sizes, q->steps);
  for (int64_t s = 0; s < q->steps; s++) {
    int64_t t = step_at(q, s), n = size_of(q, t);
    end_rows(&r->h, h, n);
    end_rows(&r->m, c, n);
    h = s ? with_rows(h, n, in[H0]) : with_rows(in[H0], n, NULL);
    if (in[C0]) c = s ? with_rows(c, n, in[C0]) : with_rows(in[C0], n, NULL);
    saved[t] = forward_step(q->mode, given[t], w_t, in[B_HH], &h, &c);
    out[t] = h;
  }
  end_rows(&r->h, h, 0);
  end_rows(&r->m, c, 0);
  int width = cni_recurrent_saved(q->mode);
  call->out[0] = joined(q, out, q->hidden);
  call->out[1] = all_ended(&r->h);
  call->out[2] = in[C0] ? all_ended(&r->m) : nothing(in[0]);
  call->out[3] = keep && width ? joined(q, saved, width * q->hidden) : nothing(in[0]);
}

/* Does it run in another type between the first step and the last? 16-bit floats do, in float32. */
static bool is_low(const cn_desc *d) { return d->dtype != cni_wide_type(d->dtype); }

/* Results in the type of the call. */
static int narrowed(cn_call *c, int type)
{
  for (int i = 0; i < c->nout; i++) c->out[i] = cni_in_type(c->out[i], type);
  return cn_err();
}

static int wide_sequence(cn_call *c)
{
  cn_tensor *in[C0 + 1];
  const cn_value *sizes = &c->args[SIZES];
  int type = c->in[INPUT]->d.dtype;
  bool packed = !cni_arg_none(c->args, SIZES);
  for (int i = 0; i <= C0; i++) in[i] = cni_in_type(c->in[i], cni_wide_type(type));
  cn_recurrent_sequence(&c->out[0], &c->out[1], &c->out[2], &c->out[3], in[INPUT], in[W_IH], in[W_HH], in[H0],
                        in[B_IH], in[B_HH], in[C0], cni_arg_str(c->args, MODE),
                        .reverse = cni_arg_bool(c->args, REVERSE), .keep = cni_arg_bool(c->args, KEEP),
                        .batch_sizes = {packed ? sizes->u.is : NULL, packed ? (size_t)sizes->n : 0});
  return narrowed(c, type);
}

static int sequence_decompose(cn_call *c)
{
  const cn_desc *x = &c->in[INPUT]->d;
  if (is_low(x)) return wide_sequence(c);
  sequence q = sequence_of(c->args, MODE, SIZES, x->ndim, x->shape, c->in[H0]->d.shape);
  room r;
  int status = make_room(&r, &q);
  if (status) return status;
  forward_steps(c, &q, &r, cni_arg_bool(c->args, KEEP));
  cni_free(r.memory, r.bytes);
  return cn_err();
}

/* ---- backward ---- */

/* What the gradient reads, and the gradients of the results: NULL where zero. */
typedef struct backward {
  cn_tensor *w, *h0, *c0, *output, *saved;
  cn_tensor *g_output, *g_h, *g_c, *g_saved;
} backward;

typedef struct gradients {
  cn_tensor *given, *hidden, *h0, *c0; /* hidden: of what a GRU adds to given; of the others it is given's */
} gradients;

/* y (1 - y) g and (1 - y^2) g */
static cn_tensor *sigmoid_gradient(cn_tensor *g, cn_tensor *y) { return cn_mul(g, cn_mul(y, cn_sub(cn_num(1), y))); }
static cn_tensor *tanh_gradient(cn_tensor *g, cn_tensor *y) { return cn_mul(g, cn_sub(cn_num(1), cn_mul(y, y))); }
static cn_tensor *plus(cn_tensor *a, cn_tensor *b) { return !b ? a : !a ? b : cn_add(a, b); }

/* saved: i f g o c; more: their gradients as results, or NULLs. *c: the gradient of the cell, after and then before.
 * dh: (n, H) */
static cn_tensor *lstm_step_gradient(cn_tensor **saved, cn_tensor **more, cn_tensor *c_before, cn_tensor *dh,
                                     cn_tensor **c)
{
  cn_tensor *i = saved[0], *f = saved[1], *g = saved[2], *o = saved[3], *t = cn_tanh(saved[4]);
  cn_tensor *dc = plus(cn_add(*c, tanh_gradient(cn_mul(dh, o), t)), more[4]);
  cn_tensor *d[4] = {sigmoid_gradient(plus(cn_mul(dc, g), more[0]), i),
                     sigmoid_gradient(plus(cn_mul(dc, c_before), more[1]), f),
                     tanh_gradient(plus(cn_mul(dc, i), more[2]), g),
                     sigmoid_gradient(plus(cn_mul(dh, t), more[3]), o)};
  *c = cn_mul(dc, f);
  return cn_cat(d, 4, .dim = 1);
}

/* saved: r z n and the hidden part of n. *h: the gradient of the state, after and then (less w's part) before. */
static cn_tensor *gru_step_gradient(cn_tensor **saved, cn_tensor **more, cn_tensor *h_before, cn_tensor **h,
                                    cn_tensor **hidden)
{
  cn_tensor *r = saved[0], *z = saved[1], *n = saved[2], *dh = *h;
  cn_tensor *dz = sigmoid_gradient(plus(cn_mul(dh, cn_sub(h_before, n)), more[1]), z);
  cn_tensor *dn = tanh_gradient(plus(cn_mul(dh, cn_sub(cn_num(1), z)), more[2]), n);
  cn_tensor *dr = sigmoid_gradient(plus(cn_mul(dn, saved[3]), more[0]), r);
  *h = cn_mul(dh, z);
  *hidden = cn_cat(((cn_tensor *[]){dr, dz, plus(cn_mul(dn, r), more[3])}), 3, .dim = 1);
  return cn_cat(((cn_tensor *[]){dr, dz, dn}), 3, .dim = 1);
}

static cn_tensor *rnn_step_gradient(cni_recurrent mode, cn_tensor *y, cn_tensor *dh)
{
  return mode == CNI_RNN_TANH ? tanh_gradient(dh, y) : cn_where(cn_gt(y, cn_num(0)), dh, cn_num(0));
}

/* The state before the step that is done as number s, for n rows: all: that of each step, first: before all. */
static cn_tensor *before(const sequence *q, cn_tensor **all, cn_tensor *first, int64_t s, int64_t n)
{
  return s ? with_rows(all[step_at(q, s - 1)], n, first) : with_rows(first, n, NULL);
}

/* Splits saved and its gradient into the groups of each step: groups[t * 5 + i]; cells[t] is the last. */
static void split_saved(const sequence *q, room *r, cn_tensor *x, cn_tensor **groups)
{
  int count = cni_recurrent_saved(q->mode);
  cn_tensor **pieces = r->d;
  if (!x || !count) return;
  cni_split_rows(pieces, flat(x), r->sizes, q->steps);
  for (int64_t t = 0; t < q->steps; t++) cni_split_columns(groups + 5 * t, pieces[t], count);
}

/* All steps, last first. groups: saved and then its gradient, five of each a step. r->a: outputs, r->b: their
 * gradients; gradients of given go to r->d, of hidden to r->c. */
static gradients backward_steps(const sequence *q, const backward *b, room *r, cn_tensor **groups, cn_tensor **cells)
{
  cn_tensor **more = groups + 5 * q->steps, *dh = NULL, *dc = NULL, *dg;
  cn_meta m = {.ndim = 2, .device = b->h0->d.device, .shape = b->h0->d.shape};
  cn_tensor *zeros = cni_zeros_of(&m, (cn_dtype)b->h0->d.dtype);
  cn_tensor *g_h = b->g_h ? b->g_h : zeros, *g_c = b->g_c ? b->g_c : zeros;
  bool lstm = q->mode == CNI_LSTM, gru = q->mode == CNI_GRU;
  for (int64_t s = q->steps - 1; s >= 0; s--) {
    int64_t t = step_at(q, s), n = size_of(q, t);
    end_rows(&r->h, dh, n);
    end_rows(&r->m, dc, n);
    dh = plus(dh ? with_rows(dh, n, g_h) : with_rows(g_h, n, NULL), r->b[t]);
    if (lstm) dc = dc ? with_rows(dc, n, g_c) : with_rows(g_c, n, NULL);
    if (lstm) {
      dg = lstm_step_gradient(groups + 5 * t, more + 5 * t, before(q, cells, b->c0, s, n), dh, &dc);
      dh = cn_mm(dg, b->w);
    } else if (gru) {
      dg = gru_step_gradient(groups + 5 * t, more + 5 * t, before(q, r->a, b->h0, s, n), &dh, &r->c[t]);
      dh = cn_addmm(dh, r->c[t], b->w);
    } else {
      dg = rnn_step_gradient(q->mode, r->a[t], dh);
      dh = cn_mm(dg, b->w);
    }
    r->d[t] = dg;
  }
  end_rows(&r->h, dh, 0);
  end_rows(&r->m, dc, 0);
  int64_t width = cni_recurrent_gates(q->mode) * q->hidden;
  gradients g = {.given = joined(q, r->d, width), .h0 = all_ended(&r->h)};
  if (gru) g.hidden = joined(q, r->c, width);
  if (lstm) g.c0 = all_ended(&r->m);
  return g;
}

static backward widened(const backward *b)
{
  int wide = cni_wide_type(b->h0->d.dtype);
  return (backward){.w = cni_in_type(b->w, wide), .h0 = cni_in_type(b->h0, wide), .c0 = cni_in_type(b->c0, wide),
                    .output = cni_in_type(b->output, wide), .saved = cni_in_type(b->saved, wide),
                    .g_output = cni_in_type(b->g_output, wide), .g_h = cni_in_type(b->g_h, wide),
                    .g_c = cni_in_type(b->g_c, wide), .g_saved = cni_in_type(b->g_saved, wide)};
}

static gradients explicit_gradients(const sequence *q, const backward *given)
{
  gradients g = {0};
  const backward widest = widened(given), *b = &widest;
  int type = given->h0->d.dtype;
  room r;
  size_t bytes = (size_t)q->steps * 11 * sizeof(cn_tensor *);
  cn_tensor **groups = cni_alloc_zero(bytes), **cells = groups + 10 * q->steps;
  if (!groups || make_room(&r, q)) {
    cni_free(groups, bytes);
    return g;
  }
  split_saved(q, &r, b->saved, groups);
  split_saved(q, &r, b->g_saved, groups + 5 * q->steps);
  for (int64_t t = 0; t < q->steps; t++) cells[t] = groups[5 * t + 4];
  cni_split_rows(r.a, flat(b->output), r.sizes, q->steps);
  if (b->g_output) cni_split_rows(r.b, flat(b->g_output), r.sizes, q->steps);
  if (!cn_err()) g = backward_steps(q, b, &r, groups, cells);
  cni_free(r.memory, r.bytes);
  cni_free(groups, bytes);
  return (gradients){cni_in_type(g.given, type), cni_in_type(g.hidden, type), cni_in_type(g.h0, type),
                     cni_in_type(g.c0, type)};
}

/* The states before all steps, (N, H): outputs moved by a step, and the first states. */
static cn_tensor *states_before(const sequence *q, cn_tensor *output, cn_tensor *h0)
{
  cn_tensor *y = flat(output), *moved = NULL;
  room r;
  if (!y || !h0) return NULL;
  if (!q->sizes) {
    cn_tensor *most = cn_narrow(y, 0, q->reverse ? q->batch : 0, q->rows - q->batch);
    cn_tensor *both[2] = {q->reverse ? most : h0, q->reverse ? h0 : most};
    return cn_cat(both, 2);
  }
  if (make_room(&r, q)) return NULL;
  cni_split_rows(r.a, y, r.sizes, q->steps);
  for (int64_t s = 0; s < q->steps; s++) {
    int64_t t = step_at(q, s);
    r.b[t] = before(q, r.a, h0, s, size_of(q, t));
  }
  moved = q->steps == 1 ? r.b[0] : cn_cat(r.b, (size_t)q->steps);
  cni_free(r.memory, r.bytes);
  return moved;
}

/* `saved` of a call that did not keep it. */
static cn_tensor *saved_again(const cn_vjp *v, const sequence *q)
{
  cn_tensor *const *in = v->in, *saved = NULL;
  cn_recurrent_sequence(NULL, NULL, NULL, &saved, in[INPUT], in[W_IH], in[W_HH], in[H0], in[B_IH], in[B_HH], in[C0],
                        cni_arg_str(v->args, MODE), .reverse = q->reverse, .keep = true,
                        .batch_sizes = {q->sizes, q->packed ? (size_t)q->steps : 0});
  return saved;
}

static int sequence_vjp(cn_vjp *v)
{
  const cn_meta *x = &v->in_meta[INPUT];
  sequence q = sequence_of(v->args, MODE, SIZES, x->ndim, x->shape, v->in_meta[H0].shape);
  backward b = {.w = v->in[W_HH], .h0 = v->in[H0], .c0 = v->in[C0], .output = v->out[0], .saved = v->out[3],
                .g_output = v->g[0], .g_h = v->g[1], .g_c = v->g[2], .g_saved = v->g[3]};
  gradients g = {0};
  bool keep = cni_arg_bool(v->args, KEEP);
  if (q.mode != CNI_LSTM) b.g_c = NULL;
  if (!cni_recurrent_saved(q.mode) || !keep) b.g_saved = NULL;
  if (cni_recurrent_saved(q.mode) && !keep) b.saved = saved_again(v, &q);
  if (cn_err()) return cn_err();
  if (cni_recording() || b.g_saved) g = explicit_gradients(&q, &b);
  else
    cn_recurrent_sequence_grad(&g.given, &g.hidden, &g.h0, &g.c0, b.w, b.h0, b.output, b.saved, b.c0, b.g_output,
                               b.g_h, b.g_c, cni_arg_str(v->args, MODE), .reverse = q.reverse,
                               .batch_sizes = {q.sizes, q.packed ? (size_t)q.steps : 0});
  if (cn_err()) return cn_err();
  cn_tensor *given = flat(g.given), *hidden = q.mode == CNI_GRU ? flat(g.hidden) : given;
  if (v->need[INPUT]) v->gin[INPUT] = cn_reshape(cn_mm(given, v->in[W_IH]), x->shape, (size_t)x->ndim);
  if (v->need[W_IH]) v->gin[W_IH] = cn_mm(cn_t(given), flat(v->in[INPUT]));
  if (v->need[W_HH]) v->gin[W_HH] = cn_mm(cn_t(hidden), states_before(&q, b.output, b.h0));
  if (v->need[B_IH] || v->need[B_HH]) v->gin[B_IH] = v->gin[B_HH] = cn_sum(given, .dim = CN_INTS(0));
  if (v->need[B_HH] && q.mode == CNI_GRU) v->gin[B_HH] = cn_sum(hidden, .dim = CN_INTS(0));
  v->gin[H0] = g.h0;
  if (q.mode == CNI_LSTM) v->gin[C0] = g.c0;
  return cn_err();
}

/* ---- recurrent_sequence_grad(w_hh, h0, output, saved, c0, g_output, g_h, g_c, mode, reverse, batch_sizes) ---- */

enum { GRAD_MODE = 8, GRAD_REVERSE = 9, GRAD_SIZES = 10 }; /* its parameters */

static bool shaped(const cn_tensor *t, int ndim, const int64_t *shape)
{
  return !t || cni_same_shape(t->d.ndim, t->d.shape, ndim, shape);
}

static int grad_infer(cn_call *c)
{
  const cn_desc *w = &c->in[0]->d, *h = &c->in[1]->d, *y = &c->in[2]->d;
  cni_recurrent mode;
  bool packed = !cni_arg_none(c->args, GRAD_SIZES);
  if (mode_of(cni_arg_str(c->args, GRAD_MODE), &mode))
    return cn_call_fail(c, CN_ERR_VALUE, "mode must be lstm, gru, tanh or relu");
  if (y->ndim != (packed ? 2 : 3) || h->ndim != 2)
    return cn_call_fail(c, CN_ERR_SHAPE, "output and states must have the shapes of recurrent_sequence's");
  sequence q = sequence_of(c->args, GRAD_MODE, GRAD_SIZES, y->ndim, y->shape, h->shape);
  int status = check_sizes(c, &q), count = cni_recurrent_saved(mode);
  if (status) return status;
  int64_t width = cni_recurrent_gates(mode) * q.hidden, none = 0;
  int64_t saved[3] = {y->shape[0], y->shape[1], 0};
  saved[y->ndim - 1] = count * q.hidden;
  if (w->ndim != 2 || w->shape[0] != width || w->shape[1] != q.hidden || y->shape[y->ndim - 1] != q.hidden ||
      (!packed && y->shape[1] != q.batch) || (count && !shaped(c->in[3], y->ndim, saved)) ||
      !shaped(c->in[4], 2, h->shape) || !shaped(c->in[5], y->ndim, y->shape) || !shaped(c->in[6], 2, h->shape) ||
      !shaped(c->in[7], 2, h->shape) || (mode == CNI_LSTM) != (c->in[4] != NULL))
    return cn_call_fail(c, CN_ERR_SHAPE, "tensors must have the shapes of recurrent_sequence's");
  for (int i = 0; i < c->nin; i++)
    if (c->in[i] && (c->in[i]->d.dtype != w->dtype || !cni_dtype_is_float(w->dtype)))
      return cn_call_fail(c, CN_ERR_DTYPE, "all tensors must have one floating-point type");
  int64_t wide[3] = {y->shape[0], y->shape[1], 0};
  wide[y->ndim - 1] = width;
  status = cn_call_result(c, 0, w->dtype, y->ndim, wide);
  if (!status)
    status = mode == CNI_GRU ? cn_call_result(c, 1, w->dtype, y->ndim, wide) : cn_call_result(c, 1, w->dtype, 1, &none);
  if (!status) status = cn_call_result(c, 2, w->dtype, 2, h->shape);
  if (!status)
    status = mode == CNI_LSTM ? cn_call_result(c, 3, w->dtype, 2, h->shape) : cn_call_result(c, 3, w->dtype, 1, &none);
  return status;
}

static int grad_decompose(cn_call *c)
{
  cn_tensor *const *in = c->in;
  const cn_desc *y = &in[2]->d;
  sequence q = sequence_of(c->args, GRAD_MODE, GRAD_SIZES, y->ndim, y->shape, in[1]->d.shape);
  backward b = {.w = in[0], .h0 = in[1], .output = in[2], .saved = in[3], .c0 = in[4], .g_output = in[5],
                .g_h = in[6], .g_c = in[7]};
  if (is_low(y)) { /* in float32 there may be a kernel */
    const backward w = widened(&b);
    cn_recurrent_sequence_grad(&c->out[0], &c->out[1], &c->out[2], &c->out[3], w.w, w.h0, w.output, w.saved, w.c0,
                               w.g_output, w.g_h, w.g_c, cni_arg_str(c->args, GRAD_MODE), .reverse = q.reverse,
                               .batch_sizes = {q.sizes, q.packed ? (size_t)q.steps : 0});
    return narrowed(c, y->dtype);
  }
  gradients g = explicit_gradients(&q, &b);
  c->out[0] = g.given;
  c->out[1] = g.hidden ? g.hidden : nothing(in[2]);
  c->out[2] = g.h0;
  c->out[3] = g.c0 ? g.c0 : nothing(in[2]);
  return cn_err();
}

#define BIASES (CN_IN(B_IH) | CN_IN(B_HH)) /* to make `saved` again */
#define SAVED (CN_IN(INPUT) | CN_IN(W_IH) | CN_IN(W_HH) | CN_IN(H0) | BIASES | CN_IN(C0) | CN_OUT(0) | CN_OUT(3))

/* clang-format off */
const cn_op cni_recurrent_sequence_ops[] = {
  {.sig = "recurrent_sequence(Tensor input, Tensor w_ih, Tensor w_hh, Tensor h0, Tensor? b_ih, Tensor? b_hh, "
          "Tensor? c0, str mode, bool reverse=False, bool keep=False, int[]? batch_sizes=None) "
          "-> (Tensor output, Tensor h, Tensor c, Tensor saved) ; internal amp_low",
   .doc = "One direction of one layer of a recurrent network (mode lstm, gru, tanh or relu) over all steps. input: "
          "(T, B, n); w_ih: (gates H, n), w_hh: (gates H, H), b_ih and b_hh: (gates H); h0, and of an LSTM c0: (B, H). "
          "With batch_sizes input is (N, n), the rows of each step after those of the step before. Gives the states "
          "after each step and after the last; with keep also what a gradient reads.",
   .cost = cni_cost_recurrent, .infer = sequence_infer, .vjp = sequence_vjp, .decompose = sequence_decompose,
   .needs = {SAVED, SAVED, SAVED, SAVED, SAVED, SAVED, SAVED}},
  {.sig = "recurrent_sequence_grad(Tensor w_hh, Tensor h0, Tensor output, Tensor saved, Tensor? c0, Tensor? g_output, "
          "Tensor? g_h, Tensor? g_c, str mode, bool reverse=False, int[]? batch_sizes=None) "
          "-> (Tensor g_given, Tensor g_hidden, Tensor g_h0, Tensor g_c0) ; internal",
   .doc = "Gradients of recurrent_sequence's operands but the weights, given its results; g_hidden: of what a GRU adds "
          "to given. Carries no gradient itself: where gradients of gradients are recorded, explicit formulas take its "
          "place.",
   .flags = CN_OP_NO_GRAD, .cost = cni_cost_recurrent_grad, .infer = grad_infer, .decompose = grad_decompose},
};
/* clang-format on */
CNI_FAMILY(recurrent_sequence);
