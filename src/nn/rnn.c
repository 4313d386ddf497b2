/* rnn.c: RNN, LSTM and GRU: networks of several recurrent layers, in one or both directions, over sequences of one
 * length or packed ones of several.
 *
 * Place in the flow: one direction of one layer is the op recurrent_sequence; projections go step by step, and a single
 * step is a cell. Invariant: parameters stand in PyTorch's order and under its names: for each layer and direction
 * weight_ih, weight_hh, bias_ih and bias_hh if any, weight_hr with projections. */
#include <cairn/ext/parts.h>
#include <cairn/graph.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nn.h"

/* What a module keeps of its arguments, in one form for all three classes. */
typedef struct rnn {
  const char *mode; /* of recurrent_sequence */
  int64_t input, hidden, projected; /* projected: size of what goes out, hidden without a projection */
  int64_t layers, directions, gates;
  int per; /* parameters of one direction */
  bool bias, batch_first, bidirectional;
  double dropout;
} rnn;

/* ---- making ---- */

static int check_sizes(const cn_module *m, const rnn *r, int64_t projection)
{
  const char *name = m->cls->name;
  if (r->input < 0) return cn_err_set(CN_ERR_VALUE, "%s: input_size cannot be negative", name);
  if (r->hidden < 1) return cn_err_set(CN_ERR_VALUE, "%s: hidden_size must be above zero", name);
  if (r->layers < 1 || r->layers > 1 << 20) return cn_err_set(CN_ERR_VALUE, "%s: num_layers must be above zero", name);
  if (!(r->dropout >= 0 && r->dropout <= 1))
    return cn_err_set(CN_ERR_VALUE, "%s: dropout is a probability between 0 and 1", name);
  if (projection < 0 || projection >= r->hidden)
    return cn_err_set(CN_ERR_VALUE, "%s: proj_size must be positive, or 0 for none, and less than hidden_size", name);
  if (r->dropout > 0 && r->layers == 1)
    cn_warn("%s: dropout acts between layers: with num_layers=1 it has no effect", name);
  return CN_OK;
}

static void add_weight(cn_module *m, const char *what, int64_t layer, bool reverse, const cn_value *place,
                       const int64_t *shape, size_t ndim)
{
  char name[64];
  snprintf(name, sizeof name, "%s_l%lld%s", what, (long long)layer, reverse ? "_reverse" : "");
  cni_add_uniform(m, name, place, shape, ndim, 1 / sqrt((double)((const rnn *)m->data)->hidden));
}

static int make(cn_module *m, rnn r, int64_t projection, const cn_value *place)
{
  if (check_sizes(m, &r, projection)) return cn_err();
  r.projected = projection ? projection : r.hidden;
  r.directions = r.bidirectional ? 2 : 1;
  r.gates = *r.mode == 'l' ? 4 : *r.mode == 'g' ? 3 : 1;
  r.per = 2 + 2 * r.bias + (projection > 0);
  *(rnn *)m->data = r;
  int64_t width = r.gates * r.hidden;
  for (int64_t layer = 0; layer < r.layers && !cn_err(); layer++)
    for (int64_t d = 0; d < r.directions; d++) {
      int64_t in = layer ? r.projected * r.directions : r.input;
      add_weight(m, "weight_ih", layer, d, place, CN_SHAPE(width, in));
      add_weight(m, "weight_hh", layer, d, place, CN_SHAPE(width, r.projected));
      if (r.bias) add_weight(m, "bias_ih", layer, d, place, CN_SHAPE(width));
      if (r.bias) add_weight(m, "bias_hh", layer, d, place, CN_SHAPE(width));
      if (projection) add_weight(m, "weight_hr", layer, d, place, CN_SHAPE(projection, r.hidden));
    }
  return cn_err();
}

/* Settings that may change later. */
static void reread(cn_module *m)
{
  const cn_args *args = cn_module_args(m);
  rnn *r = m->data;
  if (!args) return;
  r->batch_first = cn_args_get(args, "batch_first")->u.i;
  r->dropout = cn_args_get(args, "dropout")->u.f;
}

static int rnn_init(cn_module *m, const cn_value *a)
{
  bool relu = !strcmp(a[3].u.s, "relu");
  if (!relu && strcmp(a[3].u.s, "tanh"))
    return cn_err_set(CN_ERR_VALUE, "RNN: nonlinearity is 'tanh' or 'relu', not '%s'", a[3].u.s);
  rnn r = {.mode = relu ? "relu" : "tanh", .input = a[0].u.i, .hidden = a[1].u.i, .layers = a[2].u.i,
           .bias = a[4].u.i, .batch_first = a[5].u.i, .dropout = a[6].u.f, .bidirectional = a[7].u.i};
  return make(m, r, 0, &a[8]);
}

static int gated_init(cn_module *m, const cn_value *a, const char *mode, int64_t projection, const cn_value *place)
{
  rnn r = {.mode = mode, .input = a[0].u.i, .hidden = a[1].u.i, .layers = a[2].u.i, .bias = a[3].u.i,
           .batch_first = a[4].u.i, .dropout = a[5].u.f, .bidirectional = a[6].u.i};
  return make(m, r, projection, place);
}

static int lstm_init(cn_module *m, const cn_value *a) { return gated_init(m, a, "lstm", a[7].u.i, &a[8]); }
static int gru_init(cn_module *m, const cn_value *a) { return gated_init(m, a, "gru", 0, &a[7]); }

/* ---- one direction of one layer ---- */

typedef struct weights {
  cn_tensor *ih, *hh, *b_ih, *b_hh, *hr;
} weights;

static weights weights_of(const cn_module *m, const rnn *r, int64_t index)
{
  size_t at = (size_t)index * (size_t)r->per;
  weights w = {cn_module_slot(m, at), cn_module_slot(m, at + 1), NULL, NULL, NULL};
  if (r->bias) w.b_ih = cn_module_slot(m, at + 2), w.b_hh = cn_module_slot(m, at + 3);
  if (r->projected != r->hidden) w.hr = cn_module_slot(m, at + (size_t)r->per - 1);
  return w;
}

/* What is run over. rows: (T, B, n), or (N, n) of packed sequences. */
typedef struct course {
  const rnn *r;
  const int64_t *sizes; /* sequences that have step t; NULL: all do */
  int64_t steps, batch;
} course;

static cn_tensor *run_sequence(const course *c, const weights *w, bool reverse, cn_tensor *x, cn_tensor **h,
                               cn_tensor **mem)
{
  cn_tensor *all[] = {x, w->ih, w->hh, *h, w->b_ih, w->b_hh, *mem}, *y = NULL, *last_h = NULL, *last_c = NULL;
  bool keep = false;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) keep = keep || (cn_grad_enabled() && cn_needs_grad(all[i]));
  cn_recurrent_sequence(&y, &last_h, &last_c, NULL, all[0], all[1], all[2], all[3], all[4], all[5], all[6], c->r->mode,
                        .reverse = reverse, .keep = keep,
                        .batch_sizes = {c->sizes, c->sizes ? (size_t)c->steps : 0});
  *h = last_h;
  if (*mem) *mem = last_c;
  return y;
}

static cn_tensor *run_cell(const course *c, const weights *w, cn_tensor *x, cn_tensor **h, cn_tensor **mem)
{
  cn_tensor *step = cn_select(x, 0, 0);
  switch (*c->r->mode) {
  case 'l': cn_lstm_cell(h, mem, step, CN_TENSORS(*h, *mem), w->ih, w->hh, w->b_ih, w->b_hh); break;
  case 'g': *h = cn_gru_cell(step, *h, w->ih, w->hh, w->b_ih, w->b_hh); break;
  case 't': *h = cn_rnn_tanh_cell(step, *h, w->ih, w->hh, w->b_ih, w->b_hh); break;
  default: *h = cn_rnn_relu_cell(step, *h, w->ih, w->hh, w->b_ih, w->b_hh);
  }
  return cn_err() ? NULL : cn_unsqueeze(*h, 0);
}

/* Pieces of n sizes along dimension 0, in a tree of a few at a time, so that their gradients are joined and not added
 * up one by one. */
static void split_rows(cn_tensor **out, cn_tensor *x, const int64_t *sizes, int64_t n)
{
  enum { FEW = 8 };
  int64_t sums[FEW] = {0}, count = n < FEW ? n : FEW;
  cn_tensor *piece[FEW] = {NULL};
  if (n == 1) out[0] = x;
  if (n <= 1 || !x) return;
  for (int64_t i = 0; i < count; i++)
    for (int64_t k = i * n / count; k < (i + 1) * n / count; k++) sums[i] += sizes[k];
  cn_split_copy(piece, FEW, x, sums, (size_t)count, 0);
  for (int64_t i = 0; i < count; i++) {
    int64_t at = i * n / count;
    split_rows(out + at, piece[i], sizes + at, (i + 1) * n / count - at);
  }
}

/* A state for the n sequences of the next step. Those that end leave their last state in *ended, newest first; those
 * that begin (in reverse) come from the first states. */
static cn_tensor *for_rows(cn_tensor *x, int64_t n, cn_tensor *first, cn_tensor **ended)
{
  int64_t have = cn_size(x, 0);
  if (n > have) return cn_cat(CN_TENSORS(x, cn_narrow(first, 0, have, n - have)));
  if (n == have) return x;
  cn_tensor *done = cn_narrow(x, 0, n, have - n);
  *ended = *ended ? cn_cat(CN_TENSORS(done, *ended)) : done;
  return cn_narrow(x, 0, 0, n);
}

static void lstm_step(const weights *w, cn_tensor *hh_t, cn_tensor *given, cn_tensor **h, cn_tensor **mem)
{
  cn_tensor *g[4] = {NULL}, *gates = cn_addmm(given, *h, hh_t);
  int64_t each = gates ? cn_size(gates, 1) / 4 : 0;
  cn_split_copy(g, 4, gates, (const int64_t[]){each, each, each, each}, 4, 1);
  *mem = cn_gated_sum(g[1], *mem, cn_gated_tanh(g[0], g[2]));
  *h = cn_linear(cn_gated_tanh(g[3], *mem), w->hr, NULL);
}

/* An LSTM whose output is projected, step by step. in, out: room for a tensor a step. */
static cn_tensor *run_steps(const course *c, const weights *w, bool reverse, cn_tensor *x, cn_tensor **h,
                            cn_tensor **mem, cn_tensor **in, cn_tensor **out, const int64_t *rows)
{
  cn_tensor *first[2] = {*h, *mem}, *ended[2] = {NULL, NULL}, *hh_t = cn_t(w->hh);
  cn_tensor *bias = w->b_ih ? cn_add(w->b_ih, w->b_hh) : NULL, *given = cn_linear(x, w->ih, bias);
  if (given && !c->sizes) given = cn_flatten(given, .end_dim = 1); /* (T B, 4 H) */
  split_rows(in, given, rows, c->steps);
  if (reverse) *h = cn_narrow(*h, 0, 0, rows[c->steps - 1]), *mem = cn_narrow(*mem, 0, 0, rows[c->steps - 1]);
  for (int64_t s = 0; s < c->steps && !cn_err(); s++) {
    int64_t t = reverse ? c->steps - 1 - s : s;
    *h = for_rows(*h, rows[t], first[0], &ended[0]);
    *mem = for_rows(*mem, rows[t], first[1], &ended[1]);
    lstm_step(w, hh_t, in[t], h, mem);
    out[t] = *h;
  }
  if (cn_err()) return NULL;
  if (ended[0]) *h = cn_cat(CN_TENSORS(*h, ended[0])), *mem = cn_cat(CN_TENSORS(*mem, ended[1]));
  return c->sizes ? cn_cat(out, (size_t)c->steps) : cn_stack(out, (size_t)c->steps);
}

static cn_tensor *run_projected(const course *c, const weights *w, bool reverse, cn_tensor *x, cn_tensor **h,
                                cn_tensor **mem)
{
  size_t n = (size_t)c->steps, bytes = 2 * n * sizeof(cn_tensor *);
  cn_tensor **room = cn_alloc_zero(bytes), *y = NULL;
  int64_t *rows = cn_alloc(n * sizeof *rows);
  for (size_t t = 0; rows && t < n; t++) rows[t] = c->sizes ? c->sizes[t] : c->batch;
  if (room && rows) y = run_steps(c, w, reverse, x, h, mem, room, room + n, rows);
  cn_free(rows, n * sizeof *rows);
  cn_free(room, bytes);
  return y;
}

static cn_tensor *run_direction(const course *c, const weights *w, bool reverse, cn_tensor *x, cn_tensor **h,
                                cn_tensor **mem)
{
  if (!x || cn_err()) return NULL;
  if (w->hr) return run_projected(c, w, reverse, x, h, mem);
  if (c->steps == 1 && !c->sizes && !cn_tracing_sizes()) return run_cell(c, w, x, h, mem);
  return run_sequence(c, w, reverse, x, h, mem);
}

/* ---- all of them ---- */

/* x: (T, B, n) or (N, n); h0, c0: (layers directions, B, .); states: room for 2 * layers * directions. */
static cn_tensor *run_layers(cn_module *m, const course *c, cn_tensor *x, cn_tensor *h0, cn_tensor *c0,
                             cn_tensor **states)
{
  const rnn *r = c->r;
  int64_t count = r->layers * r->directions;
  for (int64_t layer = 0; layer < r->layers && x; layer++) {
    cn_tensor *y[2] = {NULL, NULL};
    for (int64_t d = 0; d < r->directions; d++) {
      int64_t i = layer * r->directions + d;
      weights w = weights_of(m, r, i);
      states[i] = cn_select(h0, 0, i);
      states[count + i] = c0 ? cn_select(c0, 0, i) : NULL;
      y[d] = run_direction(c, &w, d == 1, x, &states[i], &states[count + i]);
    }
    x = cn_err() ? NULL : r->directions == 2 ? cn_cat(y, 2, .dim = -1) : y[0];
    if (r->dropout > 0 && cn_module_training(m) && layer + 1 < r->layers) x = cn_dropout(x, .p = r->dropout);
  }
  return x;
}

/* A state as (layers directions, B, size): the given one, checked, or zeros. */
static cn_tensor *state_of(const cn_module *m, const course *c, cn_tensor *given, bool single, int64_t size,
                           cn_tensor *x, const char *name)
{
  int64_t count = c->r->layers * c->r->directions;
  if (!given)
    return cn_zeros(CN_SHAPE(count, c->batch, size), .dtype = cn_dtype_of(x), .device = cn_device_of(x));
  if (cn_ndim(given) != (single ? 2 : 3)) {
    cn_err_set(CN_ERR_SHAPE, "%s: %s has %d dimensions, with this input it must have %d", m->cls->name, name,
               cn_ndim(given), single ? 2 : 3);
    return NULL;
  }
  if (single) given = cn_unsqueeze(given, 1);
  if (!given) return NULL;
  if (cn_size(given, 0) == count && cn_size(given, 1) == c->batch && cn_size(given, 2) == size) return given;
  cn_err_set(CN_ERR_SHAPE, "%s: %s must be (%lld, %lld, %lld), not (%lld, %lld, %lld)", m->cls->name, name,
             (long long)count, (long long)c->batch, (long long)size, (long long)cn_size(given, 0),
             (long long)cn_size(given, 1), (long long)cn_size(given, 2));
  return NULL;
}

static int check_input(const cn_module *m, const rnn *r, cn_tensor *x, bool packed)
{
  int ndim = cn_ndim(x);
  if (packed ? ndim != 2 : ndim != 2 && ndim != 3)
    return cn_err_set(CN_ERR_SHAPE, "%s: expected %s, got an input of %d dimensions", m->cls->name,
                      packed ? "packed rows (N, input_size)" : "an input of 2 or 3 dimensions", ndim);
  if (cn_size(x, -1) == r->input) return CN_OK;
  return cn_err_set(CN_ERR_SHAPE, "%s: the input's last size is %lld, input_size is %lld", m->cls->name,
                    (long long)cn_size(x, -1), (long long)r->input);
}

/* Runs over x in the layout of the op and gives results in that of the call. single: one sequence, no batch. */
static int run(cn_module *m, cn_module_call *call, course *c, cn_tensor *x, bool single, cn_tensor *h, cn_tensor *mem)
{
  const rnn *r = c->r;
  bool lstm = r->gates == 4;
  if (!c->sizes) c->steps = cn_size(x, 0), c->batch = cn_size(x, 1);
  if (lstm && !h != !mem) return cn_err_set(CN_ERR_TYPE, "%s: h_0 and c_0 are given together", m->cls->name);
  h = state_of(m, c, h, single, r->projected, x, "h_0");
  if (lstm) mem = state_of(m, c, mem, single, r->hidden, x, "c_0");
  if (cn_err()) return cn_err();
  if (!c->steps) return cn_err_set(CN_ERR_SHAPE, "%s: the sequence has no steps", m->cls->name);
  size_t count = (size_t)(r->layers * r->directions), bytes = 2 * count * sizeof(cn_tensor *);
  cn_tensor **states = cn_alloc_zero(bytes);
  if (!states) return CN_ERR_MEMORY;
  cn_tensor *y = run_layers(m, c, x, h, mem, states);
  if (y && !c->sizes && single) y = cn_squeeze(y, .dim = CN_INTS(1));
  else if (y && !c->sizes && r->batch_first) y = cn_transpose(y, 0, 1);
  for (size_t i = 0; y && i < (lstm ? 2U : 1U) && i + 1 < call->nout; i++) {
    cn_tensor *last = cn_stack(states + i * count, count);
    call->out[i + 1] = single ? cn_squeeze(last, .dim = CN_INTS(1)) : last;
  }
  call->out[0] = y;
  cn_free(states, bytes);
  return cn_err();
}

static int run_packed(cn_module *m, cn_module_call *call, course *c, cn_tensor *sizes, cn_tensor *h, cn_tensor *mem)
{
  if (cn_ndim(sizes) != 1 || cn_dtype_of(sizes) != CN_I64 || !cn_numel(sizes))
    return cn_err_set(CN_ERR_SHAPE, "%s: batch_sizes must be int64 numbers, one for each step", m->cls->name);
  size_t bytes = (size_t)cn_numel(sizes) * sizeof(int64_t);
  int64_t *list = cn_alloc(bytes);
  if (!list) return CN_ERR_MEMORY;
  int status = cn_to_data(list, bytes, sizes);
  if (!status && list[0] < 1) status = cn_err_set(CN_ERR_VALUE, "%s: batch_sizes must be positive", m->cls->name);
  int64_t sum = 0;
  for (int64_t t = 0; !status && t < cn_numel(sizes); t++) {
    sum += list[t];
    if (list[t] < 1 || list[t] > list[t ? t - 1 : 0])
      status = cn_err_set(CN_ERR_VALUE, "%s: batch_sizes must be positive and never grow", m->cls->name);
  }
  if (!status && sum != cn_size(call->args[0].u.t, 0))
    status = cn_err_set(CN_ERR_SHAPE, "%s: batch_sizes add up to %lld rows, but there are %lld", m->cls->name,
                        (long long)sum, (long long)cn_size(call->args[0].u.t, 0));
  c->sizes = list, c->steps = cn_numel(sizes), c->batch = list[0];
  if (!status) status = run(m, call, c, call->args[0].u.t, false, h, mem);
  cn_free(list, bytes);
  return status;
}

static int forward(cn_module *m, cn_module_call *call, bool memory)
{
  const rnn *r = m->data;
  cn_tensor *x = call->args[0].u.t, *h = call->args[1].u.t, *mem = memory ? call->args[2].u.t : NULL;
  cn_tensor *sizes = call->args[memory ? 3 : 2].u.t;
  course c = {r, NULL, 0, 0};
  if (check_input(m, r, x, sizes != NULL)) return cn_err();
  if (sizes) return run_packed(m, call, &c, sizes, h, mem);
  bool single = cn_ndim(x) == 2;
  if (single) x = cn_unsqueeze(x, 1);
  else if (r->batch_first) x = cn_transpose(x, 0, 1);
  return x ? run(m, call, &c, x, single, h, mem) : cn_err();
}

static int rnn_forward(cn_module *m, cn_module_call *call) { return forward(m, call, false); }
static int lstm_forward(cn_module *m, cn_module_call *call) { return forward(m, call, true); }

/* ---- looking ---- */

static void rnn_print(const cn_module *m, cn_text *t)
{
  const rnn *r = m->data;
  cn_text_putf(t, "%lld, %lld", (long long)r->input, (long long)r->hidden);
  if (r->projected != r->hidden) cn_text_putf(t, ", proj_size=%lld", (long long)r->projected);
  if (r->layers != 1) cn_text_putf(t, ", num_layers=%lld", (long long)r->layers);
  if (!r->bias) cn_text_put(t, ", bias=False");
  if (r->batch_first) cn_text_put(t, ", batch_first=True");
  if (r->dropout > 0) {
    cn_value p = cn_v_float(r->dropout);
    cn_text_put(t, ", dropout=");
    cni_put_value(t, &p, "float");
  }
  if (r->bidirectional) cn_text_put(t, ", bidirectional=True");
}

static double rnn_work(const cn_module *m, const cn_module_call *call)
{
  const rnn *r = m->data;
  double rows = r->input ? (double)cn_numel(call->args[0].u.t) / (double)r->input : 0, each = 0;
  for (int64_t layer = 0; layer < r->layers; layer++) {
    int64_t in = layer ? r->projected * r->directions : r->input;
    each += (double)(r->directions * r->gates * r->hidden) * (double)(in + r->projected);
    if (r->projected != r->hidden) each += (double)(r->directions * r->hidden) * (double)r->projected;
  }
  return rows * each;
}

#define STATES "(Tensor input, Tensor? h_0=None, Tensor? batch_sizes=None) -> (Tensor output, Tensor h_n)"
#define REST .data_size = sizeof(rnn), .print = rnn_print, .work = rnn_work, .changed = reread

static const cn_module_class rnn_class = {
  CN_MODULE_CLASS,
  .name = "RNN",
  .sig = "RNN(int input_size, int hidden_size, int num_layers=1, str nonlinearity='tanh', bool bias=True, "
         "bool batch_first=False, float dropout=0.0, bool bidirectional=False, device? device=None, "
         "dtype? dtype=None) -> Module ; rnn",
  .doc = "Layers of h = tanh(W x + b + U h + c) over sequences (T, B, n), (B, T, n) with batch_first, (T, n), or "
         "packed rows (N, n) with batch_sizes.",
  .call = STATES, .init = rnn_init, .forward = rnn_forward, REST};

static const cn_module_class lstm_class = {
  CN_MODULE_CLASS,
  .name = "LSTM",
  .sig = "LSTM(int input_size, int hidden_size, int num_layers=1, bool bias=True, bool batch_first=False, "
         "float dropout=0.0, bool bidirectional=False, int proj_size=0, device? device=None, dtype? dtype=None) "
         "-> Module ; lstm",
  .doc = "Layers of long short-term memory over sequences (T, B, n), (B, T, n) with batch_first, (T, n), or packed "
         "rows (N, n) with batch_sizes.",
  .call = "(Tensor input, Tensor? h_0=None, Tensor? c_0=None, Tensor? batch_sizes=None) "
          "-> (Tensor output, Tensor h_n, Tensor c_n)",
  .init = lstm_init, .forward = lstm_forward, REST};

static const cn_module_class gru_class = {
  CN_MODULE_CLASS,
  .name = "GRU",
  .sig = "GRU(int input_size, int hidden_size, int num_layers=1, bool bias=True, bool batch_first=False, "
         "float dropout=0.0, bool bidirectional=False, device? device=None, dtype? dtype=None) -> Module ; gru",
  .doc = "Layers of gated recurrent units over sequences (T, B, n), (B, T, n) with batch_first, (T, n), or packed "
         "rows (N, n) with batch_sizes.",
  .call = STATES, .init = gru_init, .forward = rnn_forward, REST};

const cn_module_class *const cni_nn_rnn_classes[] = {&rnn_class, &lstm_class, &gru_class, NULL};
