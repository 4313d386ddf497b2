/* ctc.c: rows of the CTC loss: the sum over all ways to stretch labels over time, forward and backward. See row.h.
 *
 * Labels are read as blank, l1, blank, l2, ..., blank: K states. A sequence's states behind its own are computed, but
 * no way leads back from them. Invariant: logarithms of probabilities, in float64, as on the CPU. */
#include <string.h>

#include "rows.h"

typedef struct ctc {
  cni_hval x, emit;        /* (T, N, C); (T, N, K): of the label of each state */
  cni_hval labels, states; /* (N, K); (N, K): how many states the sequence has */
  cni_hval steps;          /* (N, K): its time steps */
  cni_hval jump;           /* (N, K): may a way come from two states before? */
  int64_t t, n, k, classes;
} ctc;

static cni_hval lower(cni_hlo *h, const cni_hval *like)
{
  return cni_hlo_splat(h, cni_hlo_num(-1.0 / 0.0), like->dtype, like->ndim, like->shape);
}

static cni_hval add_logs(cni_hlo *h, cni_hval a, cni_hval b)
{
  return CNI_HLO_EXPR(h, "m = max(a, b); n = min(a, b); n == -inf ? m : m + log1p(exp(n - m))", CN_F64, a, b);
}

/* (N) to all of K. */
static cni_hval to_states(cni_hlo *h, cni_hval v, const ctc *p)
{
  const int64_t shape[2] = {p->n, p->k};
  return cni_hlo_broadcast(h, v, 2, shape, (int64_t[]){0});
}

/* x moved by `by` states, towards the end or, negative, the beginning. */
static cni_hval moved(cni_hlo *h, cni_hval x, int64_t by)
{
  int64_t k = x.shape[1], n = by < 0 ? -by : by;
  if (n >= k) return lower(h, &x);
  x = by > 0 ? cni_hlo_slice_dim(h, x, 1, 0, k - n, 1) : cni_hlo_slice_dim(h, x, 1, n, k, 1);
  return cni_hlo_pad_dim(h, x, cni_hlo_num(-1.0 / 0.0), 1, by > 0 ? n : 0, by > 0 ? 0 : n);
}

/* The label of each state: (N, S) or all of them one after another. */
static cni_hval read_labels(cni_hlo *h, ctc *p, cni_hval targets, cni_hval lengths, int64_t blank)
{
  const int64_t shape[2] = {p->n, p->k};
  cni_hval state = cni_hlo_iota(h, CN_I64, 2, shape, 1), at = CNI_HLO_EXPR(h, "a / 2", CN_I64, state), found;
  if (!cni_hlo_numel(&targets)) return cni_hlo_splat(h, cni_hlo_int(blank), CN_I64, 2, shape);
  if (targets.ndim == 1) {
    cni_hval end = cni_hlo_scan(h, "a + b", cni_hlo_int(0), lengths, 0);
    at = CNI_HLO_EXPR(h, "a + b", CN_I64, at, to_states(h, cni_hlo_binary(h, "subtract", end, lengths), p));
  }
  at = CNI_HLO_EXPR(h, "min(a, b)", CN_I64, at, cni_hlo_int(targets.shape[targets.ndim - 1] - 1));
  found = targets.ndim == 1 ? cni_hlo_take(h, targets, 0, at) : cni_hlo_take_along(h, targets, 1, at);
  return CNI_HLO_EXPR(h, "(b & 1) == 0 ? c : a", CN_I64, found, state, cni_hlo_int(blank));
}

/* Arguments from `first` on. */
static ctc begin(cni_hcall *c, int first)
{
  cni_hlo *h = c->h;
  const cni_hval *in = c->in + first;
  ctc p = {.x = cni_hlo_cast(h, in[0], CN_F64), .t = in[0].shape[0], .n = in[0].shape[1], .classes = in[0].shape[2],
           .k = 2 * in[1].shape[in[1].ndim - 1] + 1};
  const int64_t shape[3] = {p.t, p.n, p.k};
  p.labels = read_labels(h, &p, in[1], in[3], cni_harg_int(c, first + 4));
  p.steps = to_states(h, in[2], &p);
  p.states = to_states(h, CNI_HLO_EXPR(h, "2 * a + 1", CN_I64, in[3]), &p);
  p.emit = cni_hlo_take_along(h, p.x, 2, cni_hlo_broadcast(h, p.labels, 3, shape, (int64_t[]){1, 2}));
  cni_hval before = cni_hlo_slice_dim(h, p.labels, 1, 0, p.k > 2 ? p.k - 2 : 0, 1);
  before = cni_hlo_pad_dim(h, before, cni_hlo_int(-1), 1, p.k > 2 ? 2 : p.k, 0);
  cni_hval state = cni_hlo_iota(h, CN_I64, 2, p.labels.shape, 1);
  p.jump = CNI_HLO_EXPR(h, "(a != b) & (c > 1)", CN_I64, p.labels, before, state);
  return p;
}

/* ---- forward ---- */

/* carried: the ways up to now (N, K), and those of all times (T, N, K) where they are kept. */
static void forward_step(cni_hlo *h, cni_hval step, cni_hval *carried, void *payload)
{
  const ctc *p = payload;
  cni_hval last = carried[0], emit = cni_hlo_at(h, p->emit, 0, step);
  cni_hval state = cni_hlo_iota(h, CN_I64, 2, last.shape, 1);
  cni_hval t = cni_hlo_expand(h, cni_hlo_convert(h, step, CN_I64), 2, last.shape);
  cni_hval start = CNI_HLO_EXPR(h, "b < 2 ? a : -inf", CN_F64, emit, state);
  cni_hval two = CNI_HLO_EXPR(h, "b ? a : -inf", CN_F64, moved(h, last, 2), p->jump);
  cni_hval sum = add_logs(h, add_logs(h, last, moved(h, last, 1)), two);
  carried[0] = CNI_HLO_EXPR(h, "t = b == 0 ? a : c + d; b < e ? t : f", CN_F64, start, t, sum, emit, p->steps, last);
  carried[1] = cni_hlo_set_at(h, carried[1], 0, step, carried[0]);
}

/* The loss of each sequence; all: the ways of all times. */
static cni_hval forward(cni_hlo *h, ctc *p, cni_hval *all)
{
  cni_hval none = lower(h, &(cni_hval){.dtype = CN_F64, .ndim = 2, .shape = {p->n, p->k}});
  cni_hval carried[2] = {none, lower(h, &p->emit)};
  if (p->t && p->n) cni_hlo_loop(h, p->t, 2, carried, forward_step, p);
  cni_hval state = cni_hlo_iota(h, CN_I64, 2, none.shape, 1);
  cni_hval end = CNI_HLO_EXPR(h, "b == c - 1 ? a : -inf", CN_F64, carried[0], state, p->states);
  cni_hval label = CNI_HLO_EXPR(h, "b == c - 2 ? a : -inf", CN_F64, carried[0], state, p->states);
  end = add_logs(h, cni_hlo_reduce(h, "maximum", end, 2), cni_hlo_reduce(h, "maximum", label, 2));
  cni_hval steps = cni_hlo_slice_dim(h, p->steps, 1, 0, 1, 1), states = cni_hlo_slice_dim(h, p->states, 1, 0, 1, 1);
  steps = cni_hlo_drop_dim(h, steps, 1), states = cni_hlo_drop_dim(h, states, 1);
  if (all) *all = carried[1];
  return CNI_HLO_EXPR(h, "b == 0 ? (c == 1 ? 0 : inf) : -a", CN_F64, end, steps, states);
}

static void rows(cni_hcall *c)
{
  ctc p = begin(c, 0);
  cni_hval loss = forward(c->h, &p, NULL);
  if (cni_harg_int(c, 5)) loss = CNI_HLO_EXPR(c->h, "a == inf ? 0 : a", CN_F64, loss);
  c->out[0] = cni_hlo_cast(c->h, loss, c->out[0].dtype);
}

/* ---- backward ---- */

typedef struct backward {
  ctc p;
  cni_hval ways, loss, scale; /* (T, N, K); (N, C) both */
  bool zero;
} backward;

/* The logarithm of all ways through each class: (N, C) of (N, K). */
static cni_hval by_class(cni_hlo *h, const ctc *p, cni_hval ways)
{
  const int64_t shape[3] = {p->n, p->k, p->classes};
  cni_hval class = cni_hlo_iota(h, CN_I64, 3, shape, 2);
  cni_hval label = cni_hlo_broadcast(h, p->labels, 3, shape, (int64_t[]){0, 1});
  cni_hval wide = cni_hlo_broadcast(h, ways, 3, shape, (int64_t[]){0, 1});
  wide = CNI_HLO_EXPR(h, "b == c ? a : -inf", CN_F64, wide, class, label);
  cni_hval most = cni_hlo_reduce(h, "maximum", wide, 2);
  cni_hval most3 = cni_hlo_broadcast(h, most, 3, shape, (int64_t[]){0, 2});
  cni_hval part = CNI_HLO_EXPR(h, "a == -inf ? 0 : exp(a - b)", CN_F64, wide, most3);
  return CNI_HLO_EXPR(h, "a == -inf ? a : a + log(b)", CN_F64, most, cni_hlo_reduce(h, "add", part, 2));
}

/* carried: the ways from here on (N, K), the gradient (T, N, C). */
static void backward_step(cni_hlo *h, cni_hval step, cni_hval *carried, void *payload)
{
  const backward *b = payload;
  const ctc *p = &b->p;
  cni_hval t = CNI_HLO_EXPR(h, "b - a", CN_I32, step, cni_hlo_int(p->t - 1)), next = carried[0];
  cni_hval emit = cni_hlo_at(h, p->emit, 0, t), x = cni_hlo_at(h, p->x, 0, t), ways = cni_hlo_at(h, b->ways, 0, t);
  cni_hval time = cni_hlo_expand(h, cni_hlo_convert(h, t, CN_I64), 2, next.shape);
  cni_hval state = cni_hlo_iota(h, CN_I64, 2, next.shape, 1);
  cni_hval two = moved(h, CNI_HLO_EXPR(h, "b ? a : -inf", CN_F64, next, p->jump), -2);
  cni_hval sum = add_logs(h, add_logs(h, next, moved(h, next, -1)), two);
  cni_hval end = CNI_HLO_EXPR(h, "(b >= c - 2) & (b < c) ? a * 0 : -inf", CN_F64,
                              cni_hlo_splat(h, cni_hlo_num(0), CN_F64, 2, next.shape), state, p->states);
  sum = CNI_HLO_EXPR(h, "c == d - 1 ? b : a", CN_F64, sum, end, time, p->steps);
  carried[0] = CNI_HLO_EXPR(h, "c < d ? a + b : -inf", CN_F64, sum, emit, time, p->steps);
  cni_hval through = by_class(h, p, CNI_HLO_EXPR(h, "a + b", CN_F64, ways, carried[0]));
  cni_hval row = CNI_HLO_EXPR(h, "(exp(a) - exp(b + c - a)) * d", CN_F64, x, through, b->loss, b->scale);
  cni_hval steps = cni_hlo_drop_dim(h, cni_hlo_slice_dim(h, p->steps, 1, 0, 1, 1), 1);
  steps = cni_hlo_broadcast(h, steps, 2, row.shape, (int64_t[]){0});
  time = cni_hlo_expand(h, cni_hlo_convert(h, t, CN_I64), 2, row.shape);
  row = CNI_HLO_EXPR(h, b->zero ? "(b < c) & (d != inf) ? a : 0" : "b < c ? a : 0", CN_F64, row, time, steps, b->loss);
  carried[1] = cni_hlo_set_at(h, carried[1], 0, t, row);
}

/* ctc_rows_grad(grad, ...) */
static void rows_grad(cni_hcall *c)
{
  cni_hlo *h = c->h;
  backward b = {.p = begin(c, 1), .zero = cni_harg_int(c, 6) != 0};
  const int64_t shape[2] = {b.p.n, b.p.classes};
  b.loss = cni_hlo_broadcast(h, forward(h, &b.p, &b.ways), 2, shape, (int64_t[]){0});
  b.scale = cni_hlo_broadcast(h, cni_hlo_cast(h, c->in[0], CN_F64), 2, shape, (int64_t[]){0});
  cni_hval none = lower(h, &(cni_hval){.dtype = CN_F64, .ndim = 2, .shape = {b.p.n, b.p.k}});
  cni_hval carried[2] = {none, cni_hlo_splat(h, cni_hlo_num(0), CN_F64, 3, b.p.x.shape)};
  if (b.p.t && b.p.n) cni_hlo_loop(h, b.p.t, 2, carried, backward_step, &b);
  c->out[0] = cni_hlo_cast(h, carried[1], c->out[0].dtype);
}

const cni_hrow cni_hlo_ctc_rows[] = {{"ctc_rows", rows, NULL}, {"ctc_rows_grad", rows_grad, NULL}, {NULL, NULL, NULL}};
