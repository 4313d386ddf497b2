/* recurrent.c: recurrent networks of one layer: RNN, GRU, LSTM. See call.h.
 *
 * Each direction is a run over all steps, forward or backward, of a kernel (recurrent_sequence) where the network is
 * one that it knows, and else of formulas step by step. Sequences of their own lengths run as whole ones: what lies
 * behind an end changes nothing before it, and backwards a sequence is turned around within its length first; so
 * lengths need not be known where a graph is captured. Invariant: inside tensors are (steps, batch, ...). */
#include <cairn/ext/parts.h>
#include <string.h>

#include "formats/onnx/quant.h"

enum { MOST_GATES = 4, FUNCTIONS = 3 };

typedef enum net_kind { RNN, GRU, LSTM } net_kind;

typedef enum function {
  AFFINE,
  ELU,
  HARD_SIGMOID,
  LEAKY_RELU,
  RELU,
  SCALED_TANH,
  SIGMOID,
  SOFTPLUS,
  SOFTSIGN,
  TANH,
  THRESHOLDED_RELU
} function;

typedef struct activation {
  function f;
  double alpha, beta;
} activation;

typedef struct net {
  net_kind kind;
  int64_t steps, batch, hidden, ways;
  int gates, nfunctions;
  bool batch_first, linear_before_reset, input_forget, plain; /* plain: the functions are the usual ones */
  double clip;                                                /* 0: none */
  activation f[2 * FUNCTIONS];
  const char *mode; /* recurrent_sequence's; NULL: it does not know this network */
  cn_tensor *x, *w, *r, *b, *h0, *c0, *p;
  cn_tensor *scales[2], *zeros[2]; /* of w and r where these are quantised: columns of gates; else NULL */
  const cni_onnx_call *call;
  cn_tensor *seen, *turned, *last; /* of lengths: (T, B, 1) in the sequence; (T, B) turned around; (1, B) the last */
} net;

/* One direction: its own weights and states. */
typedef struct way {
  cn_tensor *x, *w, *r, *wb, *rb, *h, *c, *p;
  cn_tensor *scales[2], *zeros[2];
  const activation *f;
  bool reverse;
} way;

/* What it gives: states after each step, and after the last. all_c: only where lengths ask for it. */
typedef struct made {
  cn_tensor *y, *h, *c, *all_c;
} made;

/* ---- activations ---- */

/* Names in any case, and what alpha and beta are if they are not given; takes: which of them it has. */
static const struct {
  const char *name;
  double alpha, beta;
  int takes;
} functions[] = {
    [AFFINE] = {"affine", 1, 0, 2},
    [ELU] = {"elu", 1, 0, 1},
    [HARD_SIGMOID] = {"hardsigmoid", 0.2, 0.5, 2},
    [LEAKY_RELU] = {"leakyrelu", 0.01, 0, 1},
    [RELU] = {"relu", 0, 0, 0},
    [SCALED_TANH] = {"scaledtanh", 1, 1, 2},
    [SIGMOID] = {"sigmoid", 0, 0, 0},
    [SOFTPLUS] = {"softplus", 0, 0, 0},
    [SOFTSIGN] = {"softsign", 0, 0, 0},
    [TANH] = {"tanh", 0, 0, 0},
    [THRESHOLDED_RELU] = {"thresholdedrelu", 1, 0, 1},
};

static bool same_name(const char *lower, const char *name)
{
  for (; *lower && *name; lower++, name++)
    if (*lower != (*name >= 'A' && *name <= 'Z' ? *name + ('a' - 'A') : *name)) return false;
  return *lower == *name;
}

static int function_of(const cni_onnx_call *c, const char *name)
{
  for (int i = 0; i <= THRESHOLDED_RELU; i++)
    if (same_name(functions[i].name, name)) return i;
  return cni_onnx_fail(c, CN_ERR_VALUE, "'%s' is no activation of a recurrent network", name);
}

/* Alphas and betas are used up by the functions that take some, in order. */
static int read_activations(net *n, const cni_onnx_call *c)
{
  static const function usual[][FUNCTIONS] = {
      [RNN] = {TANH}, [GRU] = {SIGMOID, TANH}, [LSTM] = {SIGMOID, TANH, TANH}};
  const cni_onnx_attr *names = cni_onnx_attr_of(c, "activations");
  cni_onnx_floats alphas = cni_onnx_floats_of(c, "activation_alpha"),
                  betas = cni_onnx_floats_of(c, "activation_beta");
  size_t a = 0, b = 0, count = (size_t)(n->ways * n->nfunctions);
  if (names && (names->kind != CNI_ATTR_STRINGS || names->n != count))
    return cni_onnx_fail(c, CN_ERR_VALUE, "activations must be %zu names", count);
  n->plain = true;
  for (size_t i = 0; i < count; i++) {
    function standard = usual[n->kind][i % (size_t)n->nfunctions];
    int f = names ? function_of(c, names->ss[i]) : (int)standard;
    if (f < 0) return f;
    activation *to = &n->f[i];
    *to = (activation){(function)f, functions[f].alpha, functions[f].beta};
    if (functions[f].takes > 0 && a < alphas.n) to->alpha = alphas.v[a++];
    if (functions[f].takes > 1 && b < betas.n) to->beta = betas.v[b++];
    n->plain = n->plain && to->f == standard;
  }
  return cn_err();
}

static cn_tensor *activate(const activation *a, cn_tensor *x)
{
  switch (a->f) {
  case AFFINE: return cn_add(cn_mul(x, cn_num(a->alpha)), cn_num(a->beta));
  case ELU: return cn_where(cn_lt(x, cn_int(0)), cn_mul(cn_expm1(x), cn_num(a->alpha)), x);
  case HARD_SIGMOID: return cn_clamp(cn_add(cn_mul(x, cn_num(a->alpha)), cn_num(a->beta)), cn_int(0), cn_int(1));
  case LEAKY_RELU: return cn_where(cn_lt(x, cn_int(0)), cn_mul(x, cn_num(a->alpha)), x);
  case RELU: return cn_relu(x);
  case SCALED_TANH: return cn_mul(cn_tanh(cn_mul(x, cn_num(a->beta))), cn_num(a->alpha));
  case SIGMOID: return cn_sigmoid(x);
  case SOFTPLUS: return cn_softplus(x);
  case SOFTSIGN: return cn_softsign(x);
  case TANH: return cn_tanh(x);
  default: return cn_where(cn_ge(x, cn_num(a->alpha)), x, cn_int(0));
  }
}

/* ---- the kernel ---- */

/* Gates in the order that cairn has: i f g o of i o f g, r z n of z r n. dim: where they lie. */
static cn_tensor *reordered(const net *n, cn_tensor *t)
{
  static const int64_t order[][MOST_GATES] = {[GRU] = {1, 0, 2}, [LSTM] = {0, 2, 3, 1}};
  cn_tensor *parts[MOST_GATES];
  if (!t || n->kind == RNN) return t;
  for (int i = 0; i < n->gates; i++) parts[i] = cn_narrow(t, 0, order[n->kind][i] * n->hidden, n->hidden);
  return cn_cat(parts, (size_t)n->gates);
}

static int run_kernel(made *m, const net *n, const way *d)
{
  cn_tensor *saved;
  bool keep = n->kind == LSTM && n->last;
  int status = cn_recurrent_sequence(&m->y, &m->h, &m->c, &saved, d->x, reordered(n, d->w), reordered(n, d->r), d->h,
                                     reordered(n, d->wb), reordered(n, d->rb), d->c, n->mode, .reverse = d->reverse,
                                     .keep = keep);
  if (!status && keep) m->all_c = cn_narrow(saved, 2, n->gates * n->hidden, n->hidden);
  return status;
}

/* ---- formulas ---- */

static cn_tensor *clipped(const net *n, cn_tensor *x)
{
  return n->clip > 0 ? cn_clamp(x, cn_num(-n->clip), cn_num(n->clip)) : x;
}

static cn_tensor *gate(const net *n, cn_tensor *all, int i) { return cn_narrow(all, -1, i * n->hidden, n->hidden); }

static cn_tensor *part(const net *n, cn_tensor *rows, int i, int count)
{
  return rows ? cn_narrow(rows, 0, i * n->hidden, count * n->hidden) : NULL;
}

/* What comes from the input (of 0) or from the state (of 1): its product with their weights. */
static cn_tensor *product(const net *n, const way *d, int of, cn_tensor *x, cn_tensor *bias)
{
  cn_tensor *w = of ? d->r : d->w;
  if (!d->scales[of]) return cn_linear(x, w, bias);
  cn_tensor *y = cni_onnx_dynamic_product(n->call, x, w, d->scales[of], d->zeros[of]);
  return y && bias ? cn_add(y, bias) : y;
}

/* given: (B, gates) of the input. The next states from *h and *c. */
static void lstm_step(const net *n, const way *d, cn_tensor *given, cn_tensor **h, cn_tensor **c)
{
  cn_tensor *all = cn_add(given, product(n, d, 1, *h, NULL)), *i = gate(n, all, 0), *o = gate(n, all, 1), *f;
  if (d->p) i = cn_add(i, cn_mul(part(n, d->p, 0, 1), *c));
  i = activate(&d->f[0], clipped(n, i));
  if (n->input_forget) f = cn_rsub(i, cn_int(1));
  else {
    f = gate(n, all, 2);
    if (d->p) f = cn_add(f, cn_mul(part(n, d->p, 2, 1), *c));
    f = activate(&d->f[0], clipped(n, f));
  }
  *c = cn_add(cn_mul(f, *c), cn_mul(i, activate(&d->f[1], clipped(n, gate(n, all, 3)))));
  if (d->p) o = cn_add(o, cn_mul(part(n, d->p, 1, 1), *c));
  *h = cn_mul(activate(&d->f[0], clipped(n, o)), activate(&d->f[2], *c));
}

static void gru_step(const net *n, const way *d, cn_tensor *given, cn_tensor **h, cn_tensor **c)
{
  cn_tensor *gates =
      cn_add(cn_narrow(given, -1, 0, 2 * n->hidden), cn_linear(*h, part(n, d->r, 0, 2), part(n, d->rb, 0, 2)));
  gates = activate(&d->f[0], clipped(n, gates));
  cn_tensor *z = gate(n, gates, 0), *r = gate(n, gates, 1), *w = part(n, d->r, 2, 1), *b = part(n, d->rb, 2, 1);
  cn_tensor *from = n->linear_before_reset ? cn_mul(r, cn_linear(*h, w, b)) : cn_linear(cn_mul(r, *h), w, b);
  cn_tensor *new = activate(&d->f[1], clipped(n, cn_add(gate(n, given, 2), from)));
  (void)c;
  *h = cn_add(cn_mul(cn_rsub(z, cn_int(1)), new), cn_mul(z, *h));
}

static void rnn_step(const net *n, const way *d, cn_tensor *given, cn_tensor **h, cn_tensor **c)
{
  (void)c;
  *h = activate(&d->f[0], clipped(n, cn_add(given, cn_linear(*h, d->r, NULL))));
}

/* One step in a scope of its own: what lives on are the states. */
static int step_inside(const net *n, const way *d, cn_tensor *given, made *m)
{
  static void (*const steps[])(const net *, const way *, cn_tensor *, cn_tensor **,
                               cn_tensor **) = {[RNN] = rnn_step, [GRU] = gru_step, [LSTM] = lstm_step};
  cn_scope *scope = cn_scope_begin();
  if (!scope) return cn_err();
  steps[n->kind](n, d, given, &m->h, &m->c);
  cn_tensor *h = cn_keep(m->h), *c = cn_keep(m->c);
  cn_scope_end(scope);
  m->h = h ? cn_scope_give(h) : NULL;
  m->c = c ? cn_scope_give(c) : NULL;
  return cn_err();
}

static int run_formulas(made *m, const net *n, const way *d, cni_onnx_call *c)
{
  cn_tensor **ys = cni_onnx_room(c, (size_t)n->steps + 1, sizeof(cn_tensor *));
  cn_tensor **cs = cni_onnx_room(c, (size_t)n->steps + 1, sizeof(cn_tensor *));
  bool separate = n->kind == GRU; /* its hidden bias is added where its reset gate can multiply it */
  cn_tensor *bias = d->wb && !separate ? cn_add(d->wb, d->rb) : d->wb;
  cn_tensor *given = product(n, d, 0, d->x, bias);
  m->h = d->h;
  m->c = d->c;
  if (!given || !ys || !cs) return cn_err();
  for (int64_t s = 0; s < n->steps; s++) {
    int64_t t = d->reverse ? n->steps - 1 - s : s;
    if (cn_limits_check() || step_inside(n, d, cn_select(given, 0, t), m)) return cn_err();
    ys[t] = m->h;
    cs[t] = m->c;
  }
  m->y = n->steps ? cn_stack(ys, (size_t)n->steps) : cn_narrow(given, -1, 0, n->hidden);
  if (n->kind == LSTM && n->last && n->steps) m->all_c = cn_stack(cs, (size_t)n->steps);
  return cn_err();
}

/* ---- lengths ---- */

/* Which steps are in the sequences, where each step lies when they are turned around, and which is the last. */
static int read_lengths(net *n, cni_onnx_call *c)
{
  cn_tensor *lens = cni_onnx_maybe(c, 4);
  if (!lens || !n->steps) return cn_err();
  if (cn_ndim(lens) != 1 || cn_shape(lens)[0] != n->batch)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "sequence_lens must have one number for each of %lld sequences",
                         (long long)n->batch);
  lens = cn_clamp(cn_cast(lens, CN_I64), cn_int(0), cn_int(n->steps));
  cn_tensor *t = cn_unsqueeze(cn_arange(0, (double)n->steps, .dtype = CN_I64, .device = cn_device_of(n->x)), 1);
  cn_tensor *in = cn_lt(t, lens);
  n->seen = cn_unsqueeze(in, 2);
  n->turned = cn_where(in, cn_sub(cn_sub(lens, cn_int(1)), t), t);
  n->last = cn_unsqueeze(cn_sub(lens, cn_int(1)), 0);
  return cn_err();
}

/* Rows of x (T, B, k) at these steps (t, B). */
static cn_tensor *steps_at(cn_tensor *x, cn_tensor *at)
{
  if (!x || !at) return NULL;
  return cn_gather(x, 0, cn_expand(cn_unsqueeze(at, 2), CN_SHAPE(cn_shape(at)[0], cn_shape(x)[1], cn_shape(x)[2])));
}

/* The state after a sequence's last step; that before it where it has none. */
static cn_tensor *state_at_end(const net *n, cn_tensor *all, cn_tensor *before)
{
  cn_tensor *end = cn_select(steps_at(all, cn_clamp(n->last, cn_int(0), NULL)), 0, 0);
  return cn_where(cn_ge(cn_unsqueeze(cn_select(n->last, 0, 0), 1), cn_int(0)), end, before);
}

/* A single step is one by formulas: the kernel would first have the weights in cairn's order, which takes longer. */
static int run_way(made *m, const net *n, way d, cni_onnx_call *c)
{
  bool lengths = n->last != NULL, turn = lengths && d.reverse;
  if (turn) {
    d.x = steps_at(d.x, n->turned);
    d.reverse = false;
  }
  bool kernel = n->mode && n->steps && (n->steps > 1 || cn_tracing_sizes());
  int status = kernel ? run_kernel(m, n, &d) : run_formulas(m, n, &d, c);
  if (status || !lengths) return status;
  m->h = state_at_end(n, m->y, d.h);
  if (n->kind == LSTM) m->c = state_at_end(n, m->all_c, d.c);
  if (turn) m->y = steps_at(m->y, n->turned);
  m->y = cn_where(n->seen, m->y, cn_int(0));
  return cn_err();
}

/* ---- a node ---- */

static int check_shape(const cni_onnx_call *c, const char *what, const cn_tensor *t, int64_t a, int64_t b, int64_t k)
{
  bool fits = !t || (cn_ndim(t) == (k < 0 ? 2 : 3) && cn_shape(t)[0] == a && cn_shape(t)[1] == b &&
                     (k < 0 || cn_shape(t)[2] == k));
  if (fits) return CN_OK;
  if (k < 0)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "%s must have shape (%lld, %lld)", what, (long long)a, (long long)b);
  return cni_onnx_fail(c, CN_ERR_SHAPE, "%s must have shape (%lld, %lld, %lld)", what, (long long)a, (long long)b,
                       (long long)k);
}

static int check_net(const net *n, const cni_onnx_call *c)
{
  int64_t width = n->gates * n->hidden, given = cni_onnx_int(c, "hidden_size", n->hidden);
  if (given != n->hidden)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "hidden_size is %lld, the weights have %lld", (long long)given,
                         (long long)n->hidden);
  int64_t size = cn_shape(n->x)[2];
  bool turned = n->scales[0] != NULL; /* rows of those are what gates are of those of floats */
  if (check_shape(c, "W", n->w, n->ways, turned ? size : width, turned ? width : size) ||
      check_shape(c, "R", n->r, n->ways, turned ? n->hidden : width, turned ? width : n->hidden) ||
      check_shape(c, "B", n->b, n->ways, 2 * width, -1) ||
      check_shape(c, "initial_h", n->h0, n->ways, n->batch, n->hidden) ||
      check_shape(c, "initial_c", n->c0, n->ways, n->batch, n->hidden))
    return cn_err();
  return check_shape(c, "P", n->p, n->ways, 3 * n->hidden, -1);
}

static int read_direction(net *n, bool *reverse, const cni_onnx_call *c)
{
  const char *direction = cni_onnx_text(c, "direction", "forward");
  *reverse = same_name("reverse", direction);
  n->ways = same_name("bidirectional", direction) ? 2 : 1;
  if (n->ways == 1 && !*reverse && !same_name("forward", direction))
    return cni_onnx_fail(c, CN_ERR_VALUE, "direction is '%s'", direction);
  return cn_err();
}

/* Which of recurrent_sequence's networks it is; the kernel knows neither clips nor peepholes. */
static const char *mode_of(const net *n)
{
  bool same = n->ways == 1 || n->f[0].f == n->f[1].f;
  if (n->clip > 0 || n->p || n->input_forget || n->scales[0]) return NULL;
  if (n->kind == RNN && n->f[0].f == RELU && same) return "relu";
  if (!n->plain || (n->kind == GRU && !n->linear_before_reset)) return NULL;
  return n->kind == RNN ? "tanh" : n->kind == GRU ? "gru" : "lstm";
}

static int read_net(net *n, bool *reverse, cni_onnx_call *c)
{
  n->call = c;
  n->gates = n->kind == RNN ? 1 : n->kind == GRU ? 3 : 4;
  n->nfunctions = (int)n->kind + 1;
  n->x = cni_onnx_in(c, 0);
  n->w = cni_onnx_in(c, 1);
  n->r = cni_onnx_in(c, 2);
  n->b = cni_onnx_maybe(c, 3);
  n->h0 = cni_onnx_maybe(c, 5);
  n->c0 = n->kind == LSTM ? cni_onnx_maybe(c, 6) : NULL;
  n->p = n->kind == LSTM ? cni_onnx_maybe(c, 7) : NULL;
  if (cn_err() || read_direction(n, reverse, c) || read_activations(n, c)) return cn_err();
  if (cn_ndim(n->x) != 3 || cn_ndim(n->r) != 3)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "X, W and R must have three dimensions");
  n->batch_first = cni_onnx_int(c, "layout", 0) != 0;
  n->linear_before_reset = cni_onnx_int(c, "linear_before_reset", 0) != 0;
  n->input_forget = cni_onnx_int(c, "input_forget", 0) != 0;
  n->clip = cni_onnx_float(c, "clip", 0);
  if (n->batch_first) {
    n->x = cn_transpose(n->x, 0, 1);
    if (n->h0) n->h0 = cn_transpose(n->h0, 0, 1);
    if (n->c0) n->c0 = cn_transpose(n->c0, 0, 1);
  }
  if (cn_err()) return cn_err();
  n->steps = cn_shape(n->x)[0];
  n->batch = cn_shape(n->x)[1];
  n->hidden = cn_shape(n->r)[n->scales[0] ? 1 : 2];
  n->mode = mode_of(n);
  return check_net(n, c) ? cn_err() : read_lengths(n, c);
}

static cn_tensor *of_way(cn_tensor *t, int64_t i) { return t && cn_ndim(t) ? cn_select(t, 0, i) : NULL; }

static way way_of(const net *n, int64_t i, bool reverse)
{
  int64_t width = n->gates * n->hidden;
  cn_tensor *zero =
      n->h0 && (n->c0 || n->kind != LSTM)
          ? NULL
          : cn_zeros(CN_SHAPE(n->batch, n->hidden), .dtype = cn_dtype_of(n->x), .device = cn_device_of(n->x));
  cn_tensor *b = n->b ? cn_select(n->b, 0, i) : NULL;
  return (way){.x = n->x,
               .w = cn_select(n->w, 0, i),
               .r = cn_select(n->r, 0, i),
               .wb = b ? cn_narrow(b, 0, 0, width) : NULL,
               .rb = b ? cn_narrow(b, 0, width, width) : NULL,
               .h = n->h0 ? cn_select(n->h0, 0, i) : zero,
               .c = n->kind != LSTM ? NULL
                    : n->c0         ? cn_select(n->c0, 0, i)
                                    : zero,
               .p = n->p ? cn_select(n->p, 0, i) : NULL,
               .scales = {of_way(n->scales[0], i), of_way(n->scales[1], i)},
               .zeros = {of_way(n->zeros[0], i), of_way(n->zeros[1], i)},
               .f = n->f + i * n->nfunctions,
               .reverse = reverse};
}

/* What the directions gave, as dimension `dim`. */
static int out_joined(cni_onnx_call *c, size_t i, cn_tensor *const *of, const net *n, int64_t dim)
{
  return cni_onnx_wants(c, i) ? cni_onnx_out(c, i, cn_stack(of, (size_t)n->ways, .dim = dim)) : CN_OK;
}

static int run_net(cni_onnx_call *c, net n)
{
  cn_tensor *ys[2], *hs[2], *cs[2];
  bool reverse = false;
  if (read_net(&n, &reverse, c)) return cn_err();
  for (int64_t i = 0; i < n.ways; i++) {
    made m = {NULL, NULL, NULL, NULL};
    way d = way_of(&n, i, reverse || i == 1);
    if (cn_err() || run_way(&m, &n, d, c)) return cn_err();
    ys[i] = n.batch_first ? cn_transpose(m.y, 0, 1) : m.y;
    hs[i] = m.h;
    cs[i] = m.c;
  }
  int64_t first = n.batch_first ? 1 : 0;
  if (out_joined(c, 0, ys, &n, 1 + first) || out_joined(c, 1, hs, &n, first)) return cn_err();
  return n.kind == LSTM ? out_joined(c, 2, cs, &n, first) : CN_OK;
}

static int rnn(cni_onnx_call *c) { return run_net(c, (net){.kind = RNN}); }
static int gru(cni_onnx_call *c) { return run_net(c, (net){.kind = GRU}); }
static int lstm(cni_onnx_call *c) { return run_net(c, (net){.kind = LSTM}); }

int cni_onnx_dynamic_lstm(cni_onnx_call *c)
{
  net n = {.kind = LSTM, .scales = {cni_onnx_in(c, 8), cni_onnx_in(c, 10)}};
  n.zeros[0] = cni_onnx_maybe(c, 9);
  n.zeros[1] = cni_onnx_maybe(c, 11);
  return cn_err() ? cn_err() : run_net(c, n);
}

const cni_onnx_op cni_onnx_recurrent_ops[] = {
    ONNX_BUILD("RNN", 1, rnn),
    ONNX_BUILD("GRU", 1, gru),
    ONNX_BUILD("LSTM", 1, lstm),
    {NULL, NULL, NULL, 0, 0},
};
