/* rnn_cell.c: RNNCell, LSTMCell, GRUCell: one step of a recurrent layer. See rnn.c for whole sequences. */
#include <math.h>
#include <string.h>

#include "nn.h"

enum { W_IH, W_HH, B_IH, B_HH };             /* slots */
enum { INPUT_SIZE, HIDDEN_SIZE, WITH_BIAS }; /* arguments of all three */

static int cell_init(cn_module *m, const cn_value *a, int64_t gates, const cn_value *place)
{
  int64_t in = a[INPUT_SIZE].u.i, hidden = a[HIDDEN_SIZE].u.i;
  if (in < 0 || hidden < 0) return cn_err_set(CN_ERR_VALUE, "%s: sizes cannot be negative", m->cls->name);
  double bound = hidden > 0 ? 1 / sqrt((double)hidden) : 0;
  cni_add_uniform(m, "weight_ih", place, CN_SHAPE(gates * hidden, in), bound);
  cni_add_uniform(m, "weight_hh", place, CN_SHAPE(gates * hidden, hidden), bound);
  if (a[WITH_BIAS].u.i) {
    cni_add_uniform(m, "bias_ih", place, CN_SHAPE(gates * hidden), bound);
    cni_add_uniform(m, "bias_hh", place, CN_SHAPE(gates * hidden), bound);
  } else {
    cni_add_absent(m, "bias_ih");
    cni_add_absent(m, "bias_hh");
  }
  return cn_err();
}

/* The given state, checked, or zeros. input: (B, n) or (n). */
static cn_tensor *state_of(const cn_module *m, cn_tensor *given, cn_tensor *x, const char *name)
{
  int64_t in = cni_args(m)[INPUT_SIZE].u.i, hidden = cni_args(m)[HIDDEN_SIZE].u.i;
  int ndim = cn_ndim(x);
  if ((ndim != 1 && ndim != 2) || cn_size(x, -1) != in)
    cn_err_set(CN_ERR_SHAPE, "%s: the input must be (batch, %lld) or (%lld)", m->cls->name, (long long)in,
               (long long)in);
  else if (given && (cn_ndim(given) != ndim || cn_size(given, -1) != hidden ||
                     (ndim == 2 && cn_size(given, 0) != cn_size(x, 0))))
    cn_err_set(CN_ERR_SHAPE, "%s: %s must be as the input is, with %lld columns", m->cls->name, name,
               (long long)hidden);
  if (cn_err() || given) return cn_err() ? NULL : given;
  int64_t shape[2] = {ndim == 2 ? cn_size(x, 0) : hidden, hidden};
  return cn_zeros(shape, (size_t)ndim, .dtype = cn_dtype_of(x), .device = cn_device_of(x));
}

static double cell_work(const cn_module *m, const cn_module_call *call)
{
  const cn_value *a = cni_args(m);
  cn_tensor *x = call->args[0].u.t;
  double rows = cn_ndim(x) == 2 ? (double)cn_size(x, 0) : 1;
  return rows * (double)cn_size(cn_module_slot(m, W_HH), 0) * (double)(a[INPUT_SIZE].u.i + a[HIDDEN_SIZE].u.i);
}

static void cell_print(const cn_module *m, cn_text *t)
{
  const cn_value *a = cni_args(m);
  cn_text_putf(t, "%lld, %lld", (long long)a[INPUT_SIZE].u.i, (long long)a[HIDDEN_SIZE].u.i);
  if (!a[WITH_BIAS].u.i) cn_text_put(t, ", bias=False");
  const cn_value *kind = cn_args_get(cn_module_args(m), "nonlinearity");
  if (kind && strcmp(kind->u.s, "tanh")) cn_text_putf(t, ", nonlinearity=%s", kind->u.s);
}

/* ---- RNNCell ---- */

static int rnn_cell_init(cn_module *m, const cn_value *a) { return cell_init(m, a, 1, &a[4]); }

static int rnn_cell_forward(cn_module *m, cn_module_call *call)
{
  const char *kind = cni_args(m)[3].u.s;
  cn_tensor *x = call->args[0].u.t, *h = state_of(m, call->args[1].u.t, x, "hx");
  cn_tensor *w[4];
  for (size_t i = 0; i < 4; i++) w[i] = cn_module_slot(m, i);
  if (!h) return cn_err();
  if (!strcmp(kind, "tanh")) call->out[0] = cn_rnn_tanh_cell(x, h, w[W_IH], w[W_HH], w[B_IH], w[B_HH]);
  else if (!strcmp(kind, "relu")) call->out[0] = cn_rnn_relu_cell(x, h, w[W_IH], w[W_HH], w[B_IH], w[B_HH]);
  else return cn_err_set(CN_ERR_VALUE, "RNNCell: nonlinearity is 'tanh' or 'relu', not '%s'", kind);
  return cn_err();
}

static const cn_module_class rnn_cell = {
  CN_MODULE_CLASS,
  .name = "RNNCell",
  .sig = "RNNCell(int input_size, int hidden_size, bool bias=True, str nonlinearity='tanh', device? device=None, "
         "dtype? dtype=None) -> Module ; rnn_cell",
  .doc = "One step h = tanh(W x + b + U h + c) of a recurrent layer, for (B, n) or (n).",
  .call = "(Tensor input, Tensor? hx=None) -> Tensor",
  .init = rnn_cell_init,
  .forward = rnn_cell_forward,
  .print = cell_print,
  .work = cell_work,
};

/* ---- LSTMCell ---- */

static int lstm_cell_init(cn_module *m, const cn_value *a) { return cell_init(m, a, 4, &a[3]); }

static int lstm_cell_forward(cn_module *m, cn_module_call *call)
{
  cn_tensor *x = call->args[0].u.t, *h = call->args[1].u.t, *c = call->args[2].u.t, *next_c = NULL;
  if (!h != !c) return cn_err_set(CN_ERR_TYPE, "LSTMCell: h_0 and c_0 are given together");
  h = state_of(m, h, x, "h_0");
  c = h ? state_of(m, c, x, "c_0") : NULL;
  if (!c) return cn_err();
  cn_lstm_cell(&call->out[0], &next_c, x, CN_TENSORS(h, c), cn_module_slot(m, W_IH), cn_module_slot(m, W_HH),
               cn_module_slot(m, B_IH), cn_module_slot(m, B_HH));
  if (call->nout > 1) call->out[1] = next_c;
  return cn_err();
}

static const cn_module_class lstm_cell = {
  CN_MODULE_CLASS,
  .name = "LSTMCell",
  .sig = "LSTMCell(int input_size, int hidden_size, bool bias=True, device? device=None, dtype? dtype=None) "
         "-> Module ; lstm_cell",
  .doc = "One step of long short-term memory, for (B, n) or (n).",
  .call = "(Tensor input, Tensor? h_0=None, Tensor? c_0=None) -> (Tensor h_1, Tensor c_1)",
  .init = lstm_cell_init,
  .forward = lstm_cell_forward,
  .print = cell_print,
  .work = cell_work,
};

/* ---- GRUCell ---- */

static int gru_cell_init(cn_module *m, const cn_value *a) { return cell_init(m, a, 3, &a[3]); }

static int gru_cell_forward(cn_module *m, cn_module_call *call)
{
  cn_tensor *x = call->args[0].u.t, *h = state_of(m, call->args[1].u.t, x, "hx");
  if (!h) return cn_err();
  call->out[0] = cn_gru_cell(x, h, cn_module_slot(m, W_IH), cn_module_slot(m, W_HH), cn_module_slot(m, B_IH),
                             cn_module_slot(m, B_HH));
  return cn_err();
}

static const cn_module_class gru_cell = {
  CN_MODULE_CLASS,
  .name = "GRUCell",
  .sig = "GRUCell(int input_size, int hidden_size, bool bias=True, device? device=None, dtype? dtype=None) "
         "-> Module ; gru_cell",
  .doc = "One step of a gated recurrent unit, for (B, n) or (n).",
  .call = "(Tensor input, Tensor? hx=None) -> Tensor",
  .init = gru_cell_init,
  .forward = gru_cell_forward,
  .print = cell_print,
  .work = cell_work,
};

const cn_module_class *const cni_nn_rnn_cell_classes[] = {&rnn_cell, &lstm_cell, &gru_cell, NULL};
