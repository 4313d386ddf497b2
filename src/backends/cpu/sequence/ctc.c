/* ctc.c: CPU kernels of the CTC loss: the sum over all ways to stretch labels over time, forward, and the shares of
 * those ways that pass each label at each time, backward.
 *
 * Labels are read as blank, l1, blank, l2, ..., blank: `states` of them. alpha[t][k] is the logarithm of the
 * probability of all ways up to time t that end in state k, beta[t][k] of those from t on that begin there.
 * Place in the flow: the dispatcher calls these for ctc_rows and ctc_rows_grad. Invariant: sequences are independent;
 * each is computed by one thread, in double whatever the type. */
#include <math.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "base/maths.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "base/state.h"
#include "tensor/tensor.h"

typedef struct ctc {
  cn_desc x, targets; /* (T, N, C); (N, S) or (labels) */
  const int64_t *input_lengths, *target_lengths, *starts; /* starts: of each sequence in targets, in elements */
  cn_desc grad, out; /* (N); (T, N, C) */
  int64_t blank, longest; /* longest: labels of a sequence */
  bool zero_infinity;
  double *room; /* `each` numbers for every sequence: made by the caller, so that ranges never run out of memory */
  int64_t each;
} ctc;

static double read_float(const cn_desc *d, int64_t at)
{
  return d->dtype == CN_F64 ? ((const double *)d->data)[at] : (double)((const float *)d->data)[at];
}
static void write_float(const cn_desc *d, int64_t at, double value)
{
  if (d->dtype == CN_F64) ((double *)d->data)[at] = value;
  else ((float *)d->data)[at] = (float)value;
}

static double add_logs(double a, double b)
{
  double most = a > b ? a : b, least = a > b ? b : a;
  return least == -INFINITY ? most : most + cnm_log1p(cnm_exp(least - most));
}

static int64_t label(const ctc *p, int64_t n, int64_t state)
{
  if (state % 2 == 0) return p->blank;
  int64_t step = p->targets.strides[p->targets.ndim - 1];
  return ((const int64_t *)p->targets.data)[p->starts[n] + state / 2 * step];
}
static double log_prob(const ctc *p, int64_t t, int64_t n, int64_t c)
{
  return read_float(&p->x, t * p->x.strides[0] + n * p->x.strides[1] + c * p->x.strides[2]);
}

/* Fills alpha: (steps, states); returns the loss. */
static double run_forward(const ctc *p, int64_t n, double *alpha)
{
  int64_t steps = p->input_lengths[n], states = 2 * p->target_lengths[n] + 1;
  if (steps == 0) return states == 1 ? 0 : INFINITY;
  for (int64_t k = 0; k < states; k++) alpha[k] = k < 2 ? log_prob(p, 0, n, label(p, n, k)) : -INFINITY;
  for (int64_t t = 1; t < steps; t++) {
    const double *last = alpha + (t - 1) * states;
    for (int64_t k = 0; k < states; k++) {
      int64_t here = label(p, n, k);
      double sum = last[k];
      if (k > 0) sum = add_logs(sum, last[k - 1]);
      if (k > 1 && label(p, n, k - 2) != here) sum = add_logs(sum, last[k - 2]);
      alpha[t * states + k] = sum + log_prob(p, t, n, here);
    }
  }
  const double *end = alpha + (steps - 1) * states;
  return -(states > 1 ? add_logs(end[states - 1], end[states - 2]) : end[0]);
}

/* ---- forward ---- */

static void forward_range(int64_t begin, int64_t end, void *payload)
{
  const ctc *p = payload;
  for (int64_t n = begin; n < end; n++) {
    double loss = run_forward(p, n, p->room + n * p->each);
    write_float(&p->out, n * p->out.strides[0], p->zero_infinity && loss == INFINITY ? 0 : loss);
  }
}

/* ---- backward ---- */

/* beta at a time from beta at the next. last: the final time, where ways may end in the last two states. */
static void step_back(const ctc *p, int64_t n, int64_t t, bool last, double *beta, const double *next, int64_t states)
{
  for (int64_t k = 0; k < states; k++) {
    int64_t here = label(p, n, k);
    double sum = last ? (k >= states - 2 ? 0 : -INFINITY) : next[k];
    if (!last && k + 1 < states) sum = add_logs(sum, next[k + 1]);
    if (!last && k + 2 < states && label(p, n, k + 2) != here) sum = add_logs(sum, next[k + 2]);
    beta[k] = sum + log_prob(p, t, n, here);
  }
}

/* ways: (C), the logarithm of the probability of all ways through each label at a time. */
static void write_gradient(const ctc *p, int64_t n, int64_t t, const double *ways, double loss, double scale)
{
  int64_t at = t * p->out.strides[0] + n * p->out.strides[1];
  for (int64_t c = 0; c < p->x.shape[2]; c++) {
    double lp = log_prob(p, t, n, c);
    write_float(&p->out, at + c * p->out.strides[2], (cnm_exp(lp) - cnm_exp(ways[c] + loss - lp)) * scale);
  }
}

static void run_backward(const ctc *p, int64_t n, double *alpha, double *beta, double *ways)
{
  int64_t steps = p->input_lengths[n], states = 2 * p->target_lengths[n] + 1, classes = p->x.shape[2];
  double scale = read_float(&p->grad, n * p->grad.strides[0]), loss = run_forward(p, n, alpha);
  bool nothing = p->zero_infinity && loss == INFINITY;
  for (int64_t t = p->x.shape[0] - 1; t >= 0; t--) {
    int64_t at = t * p->out.strides[0] + n * p->out.strides[1];
    if (nothing || t >= steps) {
      for (int64_t c = 0; c < classes; c++) write_float(&p->out, at + c * p->out.strides[2], 0);
      continue;
    }
    double *now = beta + t % 2 * states, *next = beta + (t + 1) % 2 * states;
    step_back(p, n, t, t == steps - 1, now, next, states);
    for (int64_t c = 0; c < classes; c++) ways[c] = -INFINITY;
    for (int64_t k = 0; k < states; k++) {
      double *w = &ways[label(p, n, k)];
      *w = add_logs(*w, alpha[t * states + k] + now[k]);
    }
    write_gradient(p, n, t, ways, loss, scale);
  }
}

static void backward_range(int64_t begin, int64_t end, void *payload)
{
  const ctc *p = payload;
  int64_t states = 2 * p->longest + 1, steps = p->x.shape[0];
  for (int64_t n = begin; n < end; n++) {
    double *alpha = p->room + n * p->each;
    run_backward(p, n, alpha, alpha + steps * states, alpha + (steps + 2) * states);
  }
}

/* ---- arguments ---- */

/* Checks lengths and labels of sequence n, whose labels begin at *start among `labels`. */
static int check_sequence(const cn_call *c, ctc *p, int64_t n, int64_t labels)
{
  int64_t steps = p->input_lengths[n], count = p->target_lengths[n];
  if (steps < 0 || steps > p->x.shape[0])
    return cn_call_fail(c, CN_ERR_VALUE, "input_lengths[%lld] is %lld, but must lie between 0 and %lld", (long long)n,
                        (long long)steps, (long long)p->x.shape[0]);
  if (count < 0 || count > labels)
    return cn_call_fail(c, CN_ERR_VALUE, "target_lengths[%lld] is %lld, but targets have %lld labels left",
                        (long long)n, (long long)count, (long long)labels);
  if (count > p->longest) p->longest = count;
  for (int64_t k = 0; k < count; k++) {
    int64_t l = label(p, n, 2 * k + 1);
    if (l < 0 || l >= p->x.shape[2])
      return cn_call_fail(c, CN_ERR_INDEX, "label %lld of sequence %lld is not among %lld", (long long)l, (long long)n,
                          (long long)p->x.shape[2]);
  }
  return CN_OK;
}

/* Lengths as plain arrays in room (3 N numbers), starts of the targets; everything checked. */
static int read_sequences(const cn_call *c, ctc *p, int first, int64_t *room)
{
  int64_t n_all = p->x.shape[1], used = 0;
  for (int k = 0; k < 2; k++) {
    const cn_desc *l = cn_desc_of(c->in[first + 2 + k]);
    for (int64_t n = 0; n < n_all; n++) room[k * n_all + n] = ((const int64_t *)l->data)[n * l->strides[0]];
  }
  p->input_lengths = room;
  p->target_lengths = room + n_all;
  p->starts = room + 2 * n_all;
  for (int64_t n = 0; n < n_all; n++) {
    bool flat = p->targets.ndim == 1;
    room[2 * n_all + n] = flat ? used * p->targets.strides[0] : n * p->targets.strides[0];
    int status = check_sequence(c, p, n, flat ? p->targets.shape[0] - used : p->targets.shape[1]);
    if (status) return status;
    used += p->target_lengths[n];
  }
  return CN_OK;
}

/* Runs a range function over all sequences, with room for two more time steps and a number per class: what the
 * gradient wants. */
static int run_ranges(ctc *p, cni_range_fn each)
{
  int64_t states, all;
  if (__builtin_mul_overflow(p->x.shape[0] + 2, 2 * p->longest + 1, &states) ||
      __builtin_add_overflow(states, p->x.shape[2], &p->each) ||
      __builtin_mul_overflow(p->each, p->x.shape[1] * (int64_t)sizeof(double), &all))
    return cni_fail(CN_ERR_MEMORY, "ctc_rows: the ways of %lld sequences do not fit in memory",
                    (long long)p->x.shape[1]);
  p->room = cni_scratch_alloc((size_t)all + 1);
  if (!p->room) return CN_ERR_MEMORY;
  cni_parallel_for(p->x.shape[1], 1, each, p);
  cni_scratch_free(p->room, (size_t)all + 1);
  return cn_err();
}

static int run(cn_call *c, int first, cni_range_fn each)
{
  const cn_desc *x = cn_desc_of(c->in[first]);
  ctc p = {.x = *x, .targets = *cn_desc_of(c->in[first + 1]), .out = *cn_desc_of(c->out[0]),
           .blank = c->args[first + 4].u.i, .zero_infinity = c->args[first + 5].u.i != 0};
  if (first) p.grad = *cn_desc_of(c->in[0]);
  size_t bytes = (size_t)(3 * x->shape[1] + 1) * sizeof(int64_t);
  int64_t *room = cni_scratch_alloc(bytes);
  if (!room) return CN_ERR_MEMORY;
  int status = read_sequences(c, &p, first, room);
  if (!status) status = run_ranges(&p, each);
  cni_scratch_free(room, bytes);
  return status;
}

static int ctc_rows_kernel(cn_call *c) { return run(c, 0, forward_range); }
static int ctc_rows_grad_kernel(cn_call *c) { return run(c, 1, backward_range); }

const cn_kernel cni_cpu_ctc_kernels[] = {
    {"ctc_rows", "reference", ctc_rows_kernel},
    {"ctc_rows_grad", "reference", ctc_rows_grad_kernel},
    {NULL, NULL, NULL},
};
