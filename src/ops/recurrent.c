/* recurrent.c: the family of recurrent networks: cells, and sequences of several layers in one or both directions.
 *
 * Place in the flow: composites. One direction of a layer is recurrent_sequence; cells, single steps and projections
 * are matrix products and pointwise programs.
 * Invariant: layouts of weights, gates and states are PyTorch's: gates i f g o of an LSTM, r z n of a GRU. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>

#include "base/alloc.h"
#include "build.h"
#include "families.h"
#include "linalg.h"
#include "pointwise.h"
#include "recurrent.h"
#include "shorthand.h"

/* ---- what a step does to each element; three inputs at most, so that gradients of gradients are programs too ---- */

static int build_gated_tanh(cni_builder *b, int variant) { return (void)variant, MUL(SIGMOID(0), TANH(1)); }
static cni_pointwise pw_gated_tanh = {CNI_FLT, 2, NULL, build_gated_tanh, NULL, {0}};

static int build_gated_sum(cni_builder *b, int variant) { return (void)variant, ADD(MUL(SIGMOID(0), 1), 2); }
static cni_pointwise pw_gated_sum = {CNI_FLT, 3, NULL, build_gated_sum, NULL, {0}};

static int build_sigmoid_sum(cni_builder *b, int variant) { return (void)variant, SIGMOID(ADD(0, 1)); }
static cni_pointwise pw_sigmoid_sum = {CNI_FLT, 2, NULL, build_sigmoid_sum, NULL, {0}};

static int build_tanh_addcmul(cni_builder *b, int variant) { return (void)variant, TANH(ADD(0, MUL(1, 2))); }
static cni_pointwise pw_tanh_addcmul = {CNI_FLT, 3, NULL, build_tanh_addcmul, NULL, {0}};

/* ---- split_copy(input, sizes, dim): pieces whose gradients come back in one piece ---- */

enum { MOST_PIECES = 8 };

static int split_copy_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  const cn_value *sizes = &c->args[1];
  int dim = cn_call_dim(c, cni_arg_int(c->args, 2), x->ndim), status = CN_OK;
  int64_t shape[CN_MAX_DIMS], sum = 0;
  if (dim < 0) return dim;
  for (int i = 0; i < sizes->n; i++) {
    if (sizes->u.is[i] < 0) return cn_call_fail(c, CN_ERR_VALUE, "sizes must not be negative");
    sum += sizes->u.is[i];
  }
  if (sizes->n < 1 || sizes->n > MOST_PIECES || sizes->n > c->nout)
    return cn_call_fail(c, CN_ERR_VALUE, "takes 1 to %d sizes, not %d", MOST_PIECES, sizes->n);
  if (x->ndim == 0 || sum != x->shape[dim])
    return cn_call_fail(c, CN_ERR_SHAPE, "the sizes do not add up to the dim's");
  memcpy(shape, x->shape, sizeof shape);
  c->nout = sizes->n;
  for (int i = 0; i < sizes->n && !status; i++) {
    shape[dim] = sizes->u.is[i];
    status = cn_call_result(c, i, x->dtype, x->ndim, shape);
  }
  return status;
}

static int split_copy_decompose(cn_call *c)
{
  int64_t at = 0, dim = cni_arg_int(c->args, 2);
  for (int i = 0; i < c->nout; at += c->args[1].u.is[i++])
    c->out[i] = cn_contiguous_copy(cn_narrow(c->in[0], dim, at, c->args[1].u.is[i]));
  return cn_err();
}

static int split_copy_vjp(cn_vjp *v)
{
  cn_tensor *g[MOST_PIECES];
  for (int i = 0; i < v->nout; i++)
    g[i] = v->g[i] ? v->g[i] : cni_zeros_of(&v->out_meta[i], (cn_dtype)v->out_meta[i].dtype);
  v->gin[0] = cn_cat(g, (size_t)v->nout, .dim = cni_arg_int(v->args, 2));
  return cn_err();
}

void cni_split_rows(cn_tensor **out, cn_tensor *x, const int64_t *sizes, int64_t n)
{
  int64_t sums[MOST_PIECES] = {0}, count = n < MOST_PIECES ? n : MOST_PIECES;
  cn_tensor *piece[MOST_PIECES] = {NULL};
  if (n <= 1) {
    if (n) out[0] = x;
    return;
  }
  for (int64_t i = 0; i < count; i++)
    for (int64_t k = i * n / count; k < (i + 1) * n / count; k++) sums[i] += sizes[k];
  cn_split_copy(piece, MOST_PIECES, x, sums, (size_t)count, 0);
  for (int64_t i = 0; i < count; i++) {
    int64_t at = i * n / count;
    cni_split_rows(out + at, piece[i], sizes + at, (i + 1) * n / count - at);
  }
}

void cni_split_columns(cn_tensor **out, cn_tensor *x, int count)
{
  int64_t sizes[MOST_PIECES] = {0}, each = x ? cn_size(x, -1) / count : 0;
  for (int i = 0; i < count; i++) sizes[i] = each, out[i] = NULL;
  cn_split_copy(out, (size_t)count, x, sizes, (size_t)count, -1);
}

/* ---- steps ---- */

/* The weights of one direction of one layer. */
typedef struct weights {
  cn_tensor *ih, *hh, *b_ih, *b_hh, *hr;
  cn_tensor *hh_t; /* hh transposed */
} weights;

/* What the inputs x (..., n) of any number of steps give: (..., gates). A GRU's hidden bias is multiplied, so it stays
 * apart. */
static cn_tensor *from_input(cni_recurrent mode, cn_tensor *x, const weights *w)
{
  cn_tensor *bias = w->b_ih;
  if (mode != CNI_GRU && bias) bias = cn_add(bias, w->b_hh);
  return cn_linear(x, w->ih, bias);
}

/* One step: from_input's part and the states h (B, H), c to the next ones. */
static void step(cni_recurrent mode, cn_tensor *given, const weights *w, cn_tensor **h, cn_tensor **c)
{
  cn_tensor *x[4], *y[4];
  if (mode == CNI_GRU) {
    cni_split_columns(x, given, 3);
    cni_split_columns(y, cn_linear(*h, w->hh, w->b_hh), 3);
    cn_tensor *fresh = cn_tanh_addcmul(x[2], cn_sigmoid_sum(x[0], y[0]), y[2]);
    *h = cn_lerp(fresh, *h, cn_sigmoid_sum(x[1], y[1]));
    return;
  }
  cn_tensor *gates = cn_addmm(given, *h, w->hh_t);
  if (mode != CNI_LSTM) {
    *h = mode == CNI_RNN_TANH ? cn_tanh(gates) : cn_relu(gates);
    return;
  }
  cni_split_columns(x, gates, 4);
  *c = cn_gated_sum(x[1], *c, cn_gated_tanh(x[0], x[2]));
  *h = cn_gated_tanh(x[3], *c);
  if (w->hr) *h = cn_linear(*h, w->hr, NULL);
}

const char *cni_recurrent_name(cni_recurrent mode)
{
  static const char *const names[] = {
      [CNI_RNN_TANH] = "tanh", [CNI_RNN_RELU] = "relu", [CNI_LSTM] = "lstm", [CNI_GRU] = "gru"};
  return names[mode];
}

/* ---- cells ---- */

static int cell(cn_call *call, cni_recurrent mode, int first, int memory)
{
  cn_tensor *const *in = call->in;
  int at = memory ? first + 2 : first + 1;
  weights w = {in[at], in[at + 1], in[at + 2], in[at + 3], NULL, cn_t(in[at + 1])};
  cn_tensor *h = in[first], *c = memory ? in[first + 1] : NULL, *x = in[0];
  bool single = x->d.ndim == 1;
  if (!w.b_ih != !w.b_hh) return cn_call_fail(call, CN_ERR_VALUE, "takes both biases or none");
  if (x->d.ndim < 1 || x->d.ndim > 2 || h->d.ndim != x->d.ndim)
    return cn_call_fail(call, CN_ERR_SHAPE, "the input and the states must have 1 or 2 dimensions, as many each");
  if (single) x = cn_unsqueeze(x, 0), h = cn_unsqueeze(h, 0), c = c ? cn_unsqueeze(c, 0) : NULL;
  step(mode, from_input(mode, x, &w), &w, &h, &c);
  call->out[0] = single ? cn_squeeze(h, .dim = CN_INTS(0)) : h;
  if (memory) call->out[1] = single ? cn_squeeze(c, .dim = CN_INTS(0)) : c;
  return cn_err();
}

static int lstm_cell_decompose(cn_call *c)
{
  if (c->args[1].n != 2) return cn_call_fail(c, CN_ERR_VALUE, "hx must hold two tensors, h and c");
  return cell(c, CNI_LSTM, 1, 1);
}
static int gru_cell_decompose(cn_call *c) { return cell(c, CNI_GRU, 1, 0); }
static int rnn_tanh_cell_decompose(cn_call *c) { return cell(c, CNI_RNN_TANH, 1, 0); }
static int rnn_relu_cell_decompose(cn_call *c) { return cell(c, CNI_RNN_RELU, 1, 0); }

/* ---- sequences ---- */

typedef struct network {
  cni_recurrent mode;
  cn_tensor *const *params;
  cn_tensor *h0, *c0; /* (layers * directions, B, H) */
  int per;            /* parameters of one direction */
  int64_t layers, directions;
  bool biases;
} network;

static weights weights_of(const network *n, int64_t index)
{
  cn_tensor *const *p = n->params + index * n->per;
  weights w = {p[0], p[1], NULL, NULL, NULL, cn_t(p[1])};
  if (n->biases) w.b_ih = p[2], w.b_hh = p[3];
  if (n->per == (n->biases ? 5 : 3)) w.hr = p[n->per - 1];
  return w;
}

/* Does anything recorded depend on it? */
static bool has_history(const cn_tensor *t) { return t && (t->node || cni_tensor_stale(t)); }

/* One direction of one layer over x (T, B, n): outputs (T, B, H), and the last states in place of the first. */
static cn_tensor *run_sequence(const network *n, const weights *w, bool backward, cn_tensor *x, cn_tensor **h,
                               cn_tensor **c)
{
  if (!x || !*h) return NULL;
  bool keep = cni_recording() && (has_history(x) || has_history(w->ih) || has_history(w->hh) || has_history(*h) ||
                                  has_history(*c) || has_history(w->b_ih) || has_history(w->b_hh));
  cn_tensor *y = NULL, *last_h = NULL, *last_c = NULL, *saved = NULL;
  cn_recurrent_sequence(&y, &last_h, &last_c, &saved, x, w->ih, w->hh, *h, w->b_ih, w->b_hh, *c,
                        cni_recurrent_name(n->mode), .reverse = backward, .keep = keep);
  *h = last_h;
  if (*c) *c = last_c;
  return y;
}

/* The same, step by step, with projections; given: from_input's part of x. */
static cn_tensor *run_steps(const network *n, const weights *w, bool backward, cn_tensor *given, cn_tensor **h,
                            cn_tensor **c)
{
  if (!given || !*h) return NULL;
  int64_t steps = cn_size(given, 0);
  size_t bytes = 2 * (size_t)steps * sizeof(cn_tensor *);
  cn_tensor **out = cni_alloc_zero(bytes), **in = out + steps, *y;
  int64_t *ones = cni_alloc((size_t)steps * sizeof *ones);
  for (int64_t i = 0; ones && i < steps; i++) ones[i] = 1;
  if (out && ones) cni_split_rows(in, given, ones, steps);
  for (int64_t i = 0; out && ones && i < steps; i++) {
    int64_t t = backward ? steps - 1 - i : i;
    step(n->mode, cn_squeeze(in[t], .dim = CN_INTS(0)), w, h, c);
    out[t] = *h;
  }
  y = out && ones ? cn_stack(out, (size_t)steps) : NULL;
  cni_free(ones, (size_t)steps * sizeof *ones);
  cni_free(out, bytes);
  return y;
}

/* One direction of one layer over x (T, B, n): outputs (T, B, H), and the last states. */
static cn_tensor *run_direction(const network *n, int64_t index, bool backward, cn_tensor *x, cn_tensor **h,
                                cn_tensor **c)
{
  weights w = weights_of(n, index);
  *h = cn_select(n->h0, 0, index);
  *c = n->c0 ? cn_select(n->c0, 0, index) : NULL;
  if (!w.hr && (cn_size(x, 0) > 1 || cni_tracing_sizes())) return run_sequence(n, &w, backward, x, h, c);
  return run_steps(n, &w, backward, from_input(n->mode, x, &w), h, c);
}

/* All layers. y: (T, B, directions * H); hs, cs: layers * directions states. */
static cn_tensor *run_layers(const network *n, cn_tensor *x, double dropout, cn_tensor **hs, cn_tensor **cs)
{
  for (int64_t layer = 0; layer < n->layers; layer++) {
    cn_tensor *y[2] = {NULL, NULL};
    for (int64_t d = 0; d < n->directions; d++) {
      int64_t index = layer * n->directions + d;
      y[d] = run_direction(n, index, d == 1, x, &hs[index], &cs[index]);
    }
    x = n->directions == 2 ? cn_cat(y, 2, .dim = -1) : y[0];
    if (dropout > 0 && layer + 1 < n->layers) x = cn_dropout(x, .p = dropout);
  }
  return x;
}

static int check_network(const cn_call *c, const network *n, cn_tensor *x, int nparams, double dropout)
{
  int64_t count = n->layers * n->directions;
  if (n->layers < 1 || n->layers > 1 << 20) return cn_call_fail(c, CN_ERR_VALUE, "num_layers must be at least 1");
  if (x->d.ndim != 3) return cn_call_fail(c, CN_ERR_SHAPE, "the input must have 3 dimensions, but has %d", x->d.ndim);
  if (!(dropout >= 0 && dropout <= 1)) return cn_call_fail(c, CN_ERR_VALUE, "dropout must lie between 0 and 1");
  int least = n->biases ? 4 : 2, most = least + (n->mode == CNI_LSTM);
  if (n->per * count != nparams || n->per < least || n->per > most)
    return cn_call_fail(c, CN_ERR_VALUE, "%d parameters do not fit %lld layers of %lld directions", nparams,
                        (long long)n->layers, (long long)n->directions);
  for (int i = 0; i < nparams; i++)
    if (n->params[i]->d.ndim < 1) return cn_call_fail(c, CN_ERR_SHAPE, "parameter %d has no dimensions", i);
  if (n->h0->d.ndim != 3 || n->h0->d.shape[0] != count || (n->c0 && (n->c0->d.ndim != 3 || n->c0->d.shape[0] != count)))
    return cn_call_fail(c, CN_ERR_SHAPE, "states must have 3 dimensions, the first of size %lld", (long long)count);
  return CN_OK;
}

/* NAME(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first) */
static int sequence(cn_call *c, cni_recurrent mode)
{
  int states = mode == CNI_LSTM ? 2 : 1, nparams = c->nin - 1 - states;
  bool batch_first = cni_arg_bool(c->args, 8);
  double dropout = cni_arg_bool(c->args, 6) ? cni_arg_float(c->args, 5) : 0;
  if (mode == CNI_LSTM && c->args[1].n != 2)
    return cn_call_fail(c, CN_ERR_VALUE, "hx must hold two tensors, h0 and c0");
  network n = {mode, c->in + 1 + states, c->in[1], mode == CNI_LSTM ? c->in[2] : NULL, 0, cni_arg_int(c->args, 4),
               cni_arg_bool(c->args, 7) ? 2 : 1, cni_arg_bool(c->args, 3)};
  if (n.layers > 0 && n.layers < 1 << 20) n.per = (int)(nparams / (n.layers * n.directions));
  int status = check_network(c, &n, c->in[0], nparams, dropout);
  if (status) return status;
  cn_tensor *x = batch_first ? cn_transpose(c->in[0], 0, 1) : c->in[0];
  if (!x) return cn_err();
  if (x->d.shape[0] == 0) return cn_call_fail(c, CN_ERR_SHAPE, "the sequence has no steps");
  size_t count = (size_t)(n.layers * n.directions), bytes = 2 * count * sizeof(cn_tensor *);
  cn_tensor **hs = cni_alloc_zero(bytes);
  if (!hs) return CN_ERR_MEMORY;
  cn_tensor *y = run_layers(&n, x, dropout, hs, hs + count);
  c->out[0] = batch_first ? cn_transpose(y, 0, 1) : y;
  if (y) c->out[1] = cn_stack(hs, count);
  if (y && mode == CNI_LSTM) c->out[2] = cn_stack(hs + count, count);
  cni_free(hs, bytes);
  return cn_err();
}
static int lstm_decompose(cn_call *c) { return sequence(c, CNI_LSTM); }
static int gru_decompose(cn_call *c) { return sequence(c, CNI_GRU); }
static int rnn_tanh_decompose(cn_call *c) { return sequence(c, CNI_RNN_TANH); }
static int rnn_relu_decompose(cn_call *c) { return sequence(c, CNI_RNN_RELU); }

/* clang-format off */
const cn_op cni_recurrent_ops[] = {
  {.sig = "gated_tanh(Tensor gate, Tensor input) -> Tensor ; internal grad_fn_MulBackward0",
   .doc = "sigmoid(gate) tanh(input): what an LSTM writes to its memory, and what it gives out.",
   PROGRAM(gated_tanh), .copied = CN_IN(1)},
  {.sig = "gated_sum(Tensor gate, Tensor input, Tensor other) -> Tensor ; internal grad_fn_AddBackward0",
   .doc = "sigmoid(gate) input + other: the memory of an LSTM after a step.",
   PROGRAM(gated_sum)},
  {.sig = "sigmoid_sum(Tensor input, Tensor other) -> Tensor ; internal",
   .doc = "sigmoid(input + other): a gate of a GRU.",
   PROGRAM(sigmoid_sum)},
  {.sig = "tanh_addcmul(Tensor input, Tensor gate, Tensor other) -> Tensor ; internal",
   .doc = "tanh(input + gate other): what a GRU would write.",
   PROGRAM(tanh_addcmul)},
  {.sig = "split_copy(Tensor input, int[] sizes, int dim) -> Tensor[] ; internal",
   .doc = "Copies of up to 8 consecutive pieces along dim. Their gradients are joined at once, where those of views "
          "would each be added into zeros.",
   .infer = split_copy_infer, .vjp = split_copy_vjp, .decompose = split_copy_decompose},
  {.sig = "lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> "
          "(Tensor h, Tensor c) ; amp_low_device",
   .doc = "One step of an LSTM: input (B, n) or (n), hx the states (h, c), w_ih (4 H, n), w_hh (4 H, H).",
   .flags = CN_OP_COMPOSITE, .decompose = lstm_cell_decompose},
  {.sig = "gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor "
          "; amp_low_device",
   .doc = "One step of a GRU: input (B, n) or (n), hx the state, w_ih (3 H, n), w_hh (3 H, H).",
   .flags = CN_OP_COMPOSITE, .decompose = gru_cell_decompose, .copied = CN_IN(1)},
  {.sig = "rnn_tanh_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> "
          "Tensor ; amp_low_device",
   .doc = "tanh(w_ih input + b_ih + w_hh hx + b_hh): one step of a plain recurrent network.",
   .flags = CN_OP_COMPOSITE, .decompose = rnn_tanh_cell_decompose},
  {.sig = "rnn_relu_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> "
          "Tensor ; amp_low_device",
   .doc = "relu(w_ih input + b_ih + w_hh hx + b_hh): one step of a plain recurrent network.",
   .flags = CN_OP_COMPOSITE, .decompose = rnn_relu_cell_decompose},
  {.sig = "lstm(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool "
          "train, "
          "bool bidirectional, bool batch_first) -> (Tensor output, Tensor hy, Tensor cy)",
   .doc = "An LSTM over a sequence (T, B, n), or (B, T, n) with batch_first. hx: h0 and c0 (layers * directions, B, "
          "H); "
          "params, for each layer and direction: w_ih, w_hh, with has_biases b_ih, b_hh, with projections w_hr. "
          "Dropout "
          "comes between layers.",
   .flags = CN_OP_COMPOSITE, .decompose = lstm_decompose, .copied = CN_IN(0)},
  {.sig = "gru(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, "
          "bool bidirectional, bool batch_first) -> (Tensor output, Tensor hy)",
   .doc = "A GRU over a sequence; arguments as lstm's, with one state.",
   .flags = CN_OP_COMPOSITE, .decompose = gru_decompose, .copied = CN_IN(0)},
  {.sig = "rnn_tanh(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool "
          "train, bool bidirectional, bool batch_first) -> (Tensor output, Tensor hy)",
   .doc = "A recurrent network with tanh over a sequence; arguments as gru's.",
   .flags = CN_OP_COMPOSITE, .decompose = rnn_tanh_decompose, .copied = CN_IN(0)},
  {.sig = "rnn_relu(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool "
          "train, bool bidirectional, bool batch_first) -> (Tensor output, Tensor hy)",
   .doc = "A recurrent network with relu over a sequence; arguments as gru's.",
   .flags = CN_OP_COMPOSITE, .decompose = rnn_relu_decompose, .copied = CN_IN(0)},
};
/* clang-format on */
CNI_FAMILY(recurrent);
