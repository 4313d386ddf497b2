/* test_graphs.c: random programs, run at once and as a graph: as traced, optimised, lifted, fused, and read back from
 * text. All must give the same, to the bit: results, gradients, and what the program left in the tensors that it wrote
 * to.
 *
 * A program is a handful of steps from the table below on a pool of tensors: formulas, reductions, views, writes
 * through views, products, random draws, composite ops, branches and loops that write to what is outside; half of them
 * go backward at the end. 500 programs, with CAIRN_LONG=1 10,000. CAIRN_FUZZ_SEED=n takes other ones, CAIRN_CALL=i runs
 * one alone.
 *
 * Others have steps with sizes that depend on data, and run as compiled functions, for inputs with other counts. */
#define _POSIX_C_SOURCE 200809L
#include <cairn/cairn.h>
#include <cairn/ext/graph.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random_call.h"
#include "test.h"

enum { SHORT = 500, LONG = 10000, COUNTED_SHORT = 60, COUNTED_LONG = 1500 };
enum { POOL = 10, MOST_STEPS = 16, INPUTS = 3, OUTPUTS = POOL + INPUTS, STATES = 2 };

typedef struct program {
  uint64_t seed;
  bool gradient;              /* the first state is a leaf, and a loss goes backward */
  cn_tensor *state[STATES];   /* from outside; programs write to the second */
  cn_tensor *saved[STATES];   /* what they held */
  rng r;
  cn_tensor *pool[POOL];
  size_t n;
  bool counts;                /* some steps have sizes that depend on data */
  cn_tensor *some;            /* the last of those */
  bool branches;              /* or loops: it had one */
} program;

static int64_t below(program *p, int64_t n) { return rng_below(&p->r, n); }
static cn_tensor *any(program *p) { return p->pool[below(p, (int64_t)p->n)]; }

static int64_t any_dim(program *p, const cn_tensor *x) { return cn_ndim(x) ? below(p, cn_ndim(x)) : 0; }

/* Numbers that rewrites look at, and others. */
static cn_tensor *number(program *p)
{
  switch (below(p, 7)) {
  case 0: return cn_num(0);
  case 1: return cn_num(1);
  case 2: return cn_num(-0.0);
  case 3: return cn_int(0);
  case 4: return cn_int(1);
  case 5: return cn_num(0.5);
  default: return cn_int(3);
  }
}

static bool same_shape(const cn_tensor *a, const cn_tensor *b)
{
  return cn_ndim(a) == cn_ndim(b) && !memcmp(cn_shape(a), cn_shape(b), (size_t)cn_ndim(a) * sizeof(int64_t));
}

/* A tensor that goes with x: one of its shape, or a number. */
static cn_tensor *beside(program *p, const cn_tensor *x)
{
  cn_tensor *y = any(p);
  return same_shape(x, y) ? y : number(p);
}

/* ---- steps ---- */

static cn_tensor *formula(program *p)
{
  static cn_tensor *(*const of[])(cn_tensor *) = {cn_neg, cn_abs,    cn_relu, cn_tanh, cn_sigmoid, cn_sin,
                                                  cn_exp, cn_square, cn_neg,  cn_abs,  cn_relu};
  cn_tensor *x = of[below(p, (int64_t)(sizeof of / sizeof *of))](any(p));
  return rng_one_in(&p->r, 3) ? cn_neg(x) : x;
}

static cn_tensor *binary(program *p)
{
  cn_tensor *x = any(p), *y = beside(p, x);
  switch (below(p, 7)) {
  case 0: return cn_add(x, y);
  case 1: return cn_sub(x, y);
  case 2: return cn_mul(x, y);
  case 3: return cn_true_divide(x, y);
  case 4: return cn_maximum(x, y);
  case 5: return cn_where(cn_gt(x, y), x, y);
  default: return cn_mul(y, x);
  }
}

static cn_tensor *reduction(program *p)
{
  cn_tensor *x = any(p);
  int64_t dim = any_dim(p, x);
  switch (below(p, 6)) {
  case 0: return cn_sum(x, .dim = CN_INTS(dim), .keepdim = true);
  case 1: return cn_mean(x, .dim = CN_INTS(dim), .keepdim = true);
  case 2: return cn_softmax(x, dim);
  case 3: return cn_cumsum(x, dim);
  case 4: return cn_amax(x, .dim = CN_INTS(dim), .keepdim = true);
  default: return cn_sum(x);
  }
}

static cn_tensor *part(program *p, cn_tensor *x)
{
  int64_t dim = any_dim(p, x), size = cn_ndim(x) ? cn_size(x, dim) : 1;
  if (!cn_ndim(x)) return cn_unsqueeze(x, 0);
  switch (below(p, 6)) {
  case 0: return cn_transpose(x, dim, any_dim(p, x));
  case 1: return cn_narrow(x, dim, size / 2, size - size / 2);
  case 2: return cn_slice(x, dim, 0, size, .step = 2);
  case 3: return cn_ndim(x) < 4 ? cn_unsqueeze(x, dim) : cn_select(x, dim, 0);
  case 4: return cn_expand(x, cn_shape(x), (size_t)cn_ndim(x));
  default: return cn_select(x, dim, size - 1);
  }
}

static cn_tensor *look(program *p)
{
  cn_tensor *x = any(p);
  switch (below(p, 6)) {
  case 0: return cn_reshape(x, CN_SHAPE(-1));
  case 1: return cn_reshape(cn_reshape(x, CN_SHAPE(-1)), cn_shape(x), (size_t)cn_ndim(x));
  case 2: return cn_clone(x);
  case 3: return cn_contiguous(x);
  case 4: return cn_cast(cn_cast(x, CN_F64), CN_F32);
  default: return part(p, x);
  }
}

/* Writes into a part of a tensor; with gradients the program may then fail, at once and traced alike. */
static cn_tensor *writing(program *p)
{
  cn_tensor *x = rng_one_in(&p->r, 3) ? p->state[1] : rng_one_in(&p->r, 2) ? any(p) : cn_clone(any(p));
  if (!x || (p->gradient && !rng_one_in(&p->r, 3) && x != p->state[1])) return x;
  cn_tensor *v = rng_one_in(&p->r, 2) ? part(p, x) : x;
  if (!v) return NULL;
  switch (below(p, 4)) {
  case 0: cn_mul_(v, number(p)); break;
  case 1: cn_add_(v, beside(p, v)); break;
  case 2: cn_copy_(v, beside(p, v)); break;
  default: cn_fill_(v, number(p)); break;
  }
  return x;
}

static cn_tensor *product(program *p)
{
  cn_tensor *x = any(p), *y = any(p);
  if (cn_ndim(x) != 2) return cn_square(x);
  if (cn_ndim(y) == 2 && cn_size(y, 1) == cn_size(x, 1)) return cn_matmul(x, cn_transpose(y, 0, 1));
  if (cn_size(x, 1) == cn_size(p->state[0], 1)) return cn_linear(x, p->state[0], NULL);
  return cn_matmul(x, cn_transpose(x, 0, 1));
}

static cn_tensor *drawing(program *p)
{
  cn_tensor *x = any(p);
  switch (below(p, 4)) {
  case 0: return cn_dropout(x, .p = 0.25);
  case 1: return cn_mul(x, cn_rand_like(x));
  case 2: return cn_add(x, cn_randn(cn_shape(x), (size_t)cn_ndim(x)));
  default: return cn_normal(x, cn_num(0.5));
  }
}

static cn_tensor *composed(program *p)
{
  cn_tensor *x = any(p);
  switch (below(p, 6)) {
  case 0: return cn_ndim(x) ? cn_layer_norm(x, CN_SHAPE(cn_size(x, -1)), NULL, NULL) : cn_mish(x);
  case 1: return cn_gelu(x);
  case 2: return cn_smooth_l1_loss(x, cn_detach(x));
  case 3: return cn_stack(CN_TENSORS(x, x));
  case 4: return cn_ndim(x) ? cn_flip(x, CN_SHAPE(0)) : cn_hardswish(x);
  default: return cn_ndim(x) ? cn_cat(CN_TENSORS(x, cn_neg(x)), .dim = any_dim(p, x)) : cn_softplus(x);
  }
}

static cn_tensor *constant(program *p)
{
  cn_tensor *x = any(p);
  switch (below(p, 3)) {
  case 0: return cn_mul(cn_ones(cn_shape(x), (size_t)cn_ndim(x)), cn_num(1.5));
  case 1: return cn_mul(x, cn_add(cn_full(CN_SHAPE(1), 0.5), cn_num(0.5)));
  default: return cn_add(cn_arange(0, 6, .dtype = CN_F32), cn_num(1));
  }
}

/* ---- branches and loops ---- */

/* What a branch or a step does: the same whenever it is called. */
typedef struct body {
  uint64_t seed;
  cn_tensor *state; /* from outside */
} body;

static cn_tensor *shaped(const body *b, uint64_t branch, cn_tensor *x)
{
  static cn_tensor *(*const of[])(cn_tensor *) = {cn_neg, cn_tanh, cn_sigmoid, cn_sin, cn_square, cn_relu};
  rng r = {(b->seed * 2 + branch) * 0x9e3779b97f4a7c15u + 1};
  for (int64_t i = rng_below(&r, 3); i >= 0; i--) x = of[rng_below(&r, 6)](x);
  if (rng_one_in(&r, 2)) cn_add_(cn_select(b->state, 0, rng_below(&r, 4)), cn_num(0.25));
  if (rng_one_in(&r, 3)) cn_mul_(b->state, cn_num(0.5));
  return cn_add(x, cn_sum(b->state));
}

static int yes_or_step(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  const body *b = payload;
  *nout = nin;
  out[0] = shaped(b, 0, in[0]);
  if (nin < 2) return cn_err();
  out[0] = cn_tanh(cn_add(cn_mul(in[0], cn_num(0.5)), in[1]));
  out[1] = shaped(b, 0, cn_mul(out[0], b->seed % 3 ? in[1] : cn_rand_like(in[1])));
  return cn_err();
}

static int no(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  *nout = nin;
  out[0] = shaped(payload, 1, in[0]);
  return cn_err();
}

static int is_small(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)nin, (void)payload;
  *nout = 1;
  out[0] = cn_lt(cn_sum(cn_abs(in[0])), cn_num(20));
  return cn_err();
}

static cn_tensor *control(program *p)
{
  cn_tensor *x = cn_clone(any(p)), *last = NULL, *ys = NULL; /* not what is written to, by another name */
  body b = {(uint64_t)below(p, 1000), p->state[1]};
  int64_t kind = below(p, 3);
  size_t n = 1;
  p->branches = true;
  if (kind == 0 || !cn_ndim(x)) cn_cond(&ys, &n, cn_gt(cn_sum(x), cn_num(0)), &x, 1, yes_or_step, no, &b);
  else if (kind == 1) cn_while(&ys, &x, 1, is_small, no, &b, .max_steps = 3);
  else {
    cn_tensor *first = cn_select(x, 0, 0);
    cn_scan(&last, &ys, &n, &first, 1, &x, 1, yes_or_step, &b, .reverse = b.seed % 2);
  }
  return ys;
}

static cn_tensor *(*const steps[])(program *p) = {formula, formula, binary,  binary,  binary,   reduction, look,
                                                  look,    look,    writing, writing, product,  drawing,   composed,
                                                  constant, control};

/* By way of other types, whose memory rounds: programs of every fourth seed have such steps as well. */
static cn_tensor *typed(program *p)
{
  cn_tensor *x = any(p), *whole = cn_cast(cn_mul(x, cn_num(100)), CN_I32), *half = cn_cast(x, CN_BF16);
  switch (below(p, 7)) {
  case 0: return cn_cast(cn_mul(cn_cast(whole, CN_I8), cn_int(3)), CN_F32);
  case 1: return cn_cast(cn_mul(cn_square(whole), cn_square(whole)), CN_F32);
  case 2: return cn_cast(cn_bitwise_and(cn_gt(x, cn_num(0)), cn_lt(cn_abs(x), cn_num(1))), CN_F32);
  case 3: return cn_cast(cn_add(cn_mul(half, half), cn_exp(half)), CN_F32);
  case 4: return cn_cast(cn_floor_divide(whole, cn_int(7)), CN_F32);
  case 5: return cn_cast(cn_sin(cn_add(cn_cast(x, CN_F64), whole)), CN_F32);
  default: return cn_where(cn_ne(cn_cast(cn_cast(x, CN_F16), CN_F32), x), cn_cast(half, CN_F32), cn_mul(x, whole));
  }
}

/* The rows with a positive sum, and the first one, by way of a list. */
static cn_tensor *listed(cn_tensor *x)
{
  cn_list l;
  const int64_t shape[1] = {cn_size(x, 1)};
  cn_tensor *rows = cn_reshape(cn_nonzero(cn_gt(cn_sum(x, .dim = CN_INTS(1)), cn_num(0))), CN_SHAPE(-1));
  if (!rows || cn_list_rows(&l, x) || cn_list_take(&l, &l, rows)) return NULL;
  return cn_list_insert(&l, &l, cn_select(x, 0, 0), NULL) ? NULL : cn_list_stack(&l, 0, shape);
}

/* As many elements, or rows, as a mask says; what comes back has a size that does not depend on data. */
static cn_tensor *counting(program *p)
{
  cn_tensor *x = any(p), *mask = cn_gt(x, cn_num(0)), *rows;
  switch (below(p, 7)) {
  case 0: p->some = cn_masked_select(x, mask); break;
  case 1: p->some = cn_tanh(cn_index(x, &mask, 1)); break;
  case 2: p->some = cn_cast(cn_nonzero(x), CN_F32); break;
  case 3: p->some = cn_add(cn_masked_select(x, mask), cn_masked_select(cn_neg(x), mask)); break;
  case 4: return cn_masked_scatter(x, mask, cn_mul(cn_masked_select(x, mask), cn_num(2)));
  case 5:
    if (cn_ndim(x) != 2 || cn_size(x, 0) == 0) return cn_square(x);
    p->some = listed(x);
    break;
  default:
    if (cn_ndim(x) != 2) return cn_square(x);
    rows = cn_reshape(cn_nonzero(cn_gt(cn_sum(x, .dim = CN_INTS(1)), cn_num(0))), CN_SHAPE(-1));
    p->some = cn_softmax(cn_dropout(cn_index_select(x, 0, rows), .p = 0.25), 1);
  }
  if (!p->some) return NULL;
  if (rng_one_in(&p->r, 2)) p->some = cn_cat(CN_TENSORS(p->some, cn_exp(p->some)));
  return cn_div(cn_sum(p->some), cn_num((double)(1 + cn_size(p->some, 0))));
}

/* ---- a program ---- */

/* Keeps sizes small. */
static bool fits(const cn_tensor *x) { return cn_numel(x) <= 4096 && cn_ndim(x) <= 5; }

static int backward(program *p, cn_tensor **outputs)
{
  cn_tensor *loss = cn_num(0);
  for (size_t i = 0; loss && i < p->n; i++) loss = cn_add(loss, cn_sum(p->pool[i]));
  if (!loss || !cn_needs_grad(loss)) return cn_err();
  int status = cn_backward(loss);
  outputs[p->n + INPUTS - 1] = cn_clone(loss);
  return status;
}

static int run(cn_tensor **outputs, cn_tensor *const *inputs, void *payload)
{
  program *p = payload;
  int64_t count;
  p->r.s = p->seed * 0x9e3779b97f4a7c15u + 1;
  p->n = 0;
  p->some = NULL;
  p->branches = false;
  for (int i = 0; i < INPUTS; i++) p->pool[p->n++] = inputs[i];
  p->pool[p->n++] = cn_linear(cn_transpose(inputs[2], 0, 1), p->state[0], NULL);
  p->pool[p->n++] = cn_mul(p->state[1], cn_num(1));
  count = 3 + below(p, MOST_STEPS - 3);
  for (int64_t i = 0; i < count && !cn_err(); i++) {
    bool other = p->seed % 4 == 2 && below(p, 3) == 0;
    cn_tensor *x = p->counts && below(p, 3) == 0 ? counting(p) : other ? typed(p) : NULL;
    if (!x && !cn_err()) x = steps[below(p, (int64_t)(sizeof steps / sizeof *steps))](p);
    if (!x || !fits(x)) continue;
    if (p->n < POOL) p->pool[p->n++] = x;
    else p->pool[INPUTS + below(p, POOL - INPUTS)] = x;
  }
  for (size_t i = 0; i < p->n && !cn_err(); i++) outputs[i] = cn_clone(p->pool[i]);
  for (size_t i = p->n; i < OUTPUTS && !cn_err(); i++) outputs[i] = cn_clone(inputs[0]);
  if (p->some && !cn_err()) outputs[OUTPUTS - 2] = cn_clone(p->some);
  if (p->gradient && !cn_err()) backward(p, outputs);
  return cn_err();
}

/* ---- comparing ---- */

typedef struct outcome {
  cn_tensor *out[OUTPUTS], *state[STATES], *grad; /* owned by the scope */
  uint64_t offset; /* of random numbers */
} outcome;

/* NaN whatever its bits: what IEEE 754 leaves open is the compiler's choice. */
static cn_tensor *plain(cn_tensor *x)
{
  if (!cn_dtype_is_float(cn_dtype_of(x))) return cn_contiguous(x);
  return cn_contiguous(cn_where(cn_isnan(x), cn_cast(cn_num(NAN), cn_dtype_of(x)), x));
}

static bool same(cn_tensor *a, cn_tensor *b)
{
  if (!a || !b) return a == b;
  if (!same_shape(a, b) || cn_dtype_of(a) != cn_dtype_of(b)) return false;
  a = plain(a);
  b = plain(b);
  return !memcmp(cn_data(a), cn_data(b), (size_t)cn_numel(a) * cn_dtype_size(cn_dtype_of(a)));
}

static void reset(program *p)
{
  int saved = cn_no_grad_begin();
  for (int i = 0; i < STATES; i++) cn_copy_(p->state[i], p->saved[i]);
  cn_no_grad_end(saved);
  cn_set_grad(p->state[0], NULL);
  cn_seed(p->seed);
}

static void finish(program *p, outcome *o)
{
  for (int i = 0; i < STATES; i++) o->state[i] = cn_detach(cn_clone(p->state[i]));
  o->grad = cn_grad_of(p->state[0]);
  if (o->grad) o->grad = cn_clone(o->grad);
  cn_random_state(NULL, &o->offset);
}

static void show(const program *p, const char *how, const char *what, size_t i, const cn_graph *g)
{
  char *text = g ? cn_graph_to_string(g) : NULL;
  fail_msg("program %llu, %s: %s %zu differs (CAIRN_CALL)\n%s", (unsigned long long)p->seed, how, what, i,
           text ? text : "");
  cn_string_free(text);
}

static void run_graph(program *p, cn_graph *g, cn_tensor *const *inputs, const outcome *want, const char *how)
{
  outcome have = {{NULL}};
  if (cn_graph_verify(g)) fail_msg("program %llu, %s: %s", (unsigned long long)p->seed, how, cn_err_message());
  reset(p);
  if (strcmp(how, "replayed") ? cn_graph_run(have.out, g, inputs) : cn_graph_replay(have.out, g, inputs))
    fail_msg("program %llu, %s: %s", (unsigned long long)p->seed, how, cn_err_message());
  finish(p, &have);
  for (size_t i = 0; i < OUTPUTS; i++)
    if (!same(have.out[i], want->out[i])) show(p, how, "result", i, g);
  for (size_t i = 0; i < STATES; i++)
    if (!same(have.state[i], want->state[i])) show(p, how, "state", i, g);
  if (!same(have.grad, want->grad)) show(p, how, "gradient", 0, g);
  if (have.offset != want->offset) show(p, how, "the random state", 0, g);
}

static void run_text(program *p, const cn_graph *g, cn_tensor *const *inputs, const outcome *want)
{
  char *text = cn_graph_to_string(g), *again;
  cn_graph *copy = cn_graph_parse(text);
  if (!copy) fail_msg("program %llu: %s", (unsigned long long)p->seed, cn_err_message());
  again = cn_graph_to_string(copy);
  assert_string_equal(text, again);
  for (size_t i = 0; i < cn_graph_states(g); i++) assert_int_equal(cn_graph_bind(copy, i, cn_graph_state(g, i)), 0);
  if (!cn_graph_gradients(g)) run_graph(p, copy, inputs, want, "from text");
  cn_string_free(text);
  cn_string_free(again);
  cn_graph_free(copy);
}

/* Neighbours made one node; they are nodes like others, in the text, too. */
static void run_fused(program *p, cn_tensor *const *inputs, const outcome *want)
{
  cn_tensor *given[INPUTS];
  reset(p);
  cn_graph *g = cn_trace(run, OUTPUTS, inputs, INPUTS, p);
  if (!g || cn_graph_optimise(g) < 0 || cn_graph_fuse(g, true) < 0)
    fail_msg("program %llu, fused: %s", (unsigned long long)p->seed, cn_err_message());
  for (int i = 0; i < 2; i++) {
    for (int k = 0; k < INPUTS; k++) given[k] = cn_clone(inputs[k]);
    if (i) run_text(p, g, given, want);
    else run_graph(p, g, given, want, "fused");
  }
  cn_graph_free(g);
}

/* false: the program is one that fails. */
static bool compare(program *p, cn_tensor *const *inputs)
{
  outcome want = {{NULL}};
  reset(p);
  cn_tensor *given[INPUTS];
  for (int i = 0; i < INPUTS; i++) given[i] = cn_clone(inputs[i]);
  if (run(want.out, given, p)) {
    cn_err_clear();
    return false;
  }
  finish(p, &want);
  reset(p);
  cn_graph *g = cn_trace(run, OUTPUTS, inputs, INPUTS, p);
  if (!g && p->branches && cn_err() == CN_ERR_GRAD) { /* a branch that was not taken writes what backward needs */
    cn_err_clear();
    return false;
  }
  if (!g) fail_msg("program %llu: %s", (unsigned long long)p->seed, cn_err_message());
  for (int i = 0; i < 5; i++) {
    static const char *const how[] = {"as traced", "replayed", "a second time", "optimised", "optimised and lifted"};
    for (int k = 0; k < INPUTS; k++) given[k] = cn_clone(inputs[k]);
    if (i == 3 && cn_graph_optimise(g) < 0) fail_msg("program %llu: %s", (unsigned long long)p->seed, cn_err_message());
    if (i == 4 && cn_graph_lift(g, NULL, NULL) < 0)
      fail_msg("program %llu: %s", (unsigned long long)p->seed, cn_err_message());
    run_graph(p, g, given, &want, how[i]);
  }
  for (int k = 0; k < INPUTS; k++) given[k] = cn_clone(inputs[k]);
  run_text(p, g, given, &want);
  cn_graph_free(g);
  run_fused(p, inputs, &want);
  return true;
}

static bool run_one(uint64_t seed)
{
  cn_scope *s = cn_scope_begin();
  cn_seed(seed);
  cn_tensor *inputs[INPUTS] = {cn_randn(CN_SHAPE(4, 6)), cn_randn(CN_SHAPE(4, 6)), cn_randn(CN_SHAPE(6, 4))};
  program p = {.seed = seed, .gradient = seed % 2 == 1, .state = {cn_randn(CN_SHAPE(5, 6)), cn_randn(CN_SHAPE(4, 6))}};
  for (int i = 0; i < STATES; i++) p.saved[i] = cn_clone(p.state[i]);
  cn_requires_grad(p.state[0], p.gradient);
  bool ran = compare(&p, inputs);
  cn_scope_end(s);
  return ran;
}

/* ---- sizes that depend on data ---- */

static int run_compiled(cn_compile_call *k)
{
  k->noutputs = OUTPUTS;
  return run(k->outputs, k->inputs, k->payload);
}

/* At once, and compiled. False: the program is one that fails. */
static bool compare_compiled(program *p, cn_compiled *c, cn_tensor *const *inputs)
{
  outcome want = {{NULL}}, have = {{NULL}};
  cn_tensor *given[INPUTS];
  reset(p);
  for (int i = 0; i < INPUTS; i++) given[i] = cn_clone(inputs[i]);
  if (run(want.out, given, p)) {
    cn_err_clear();
    return false;
  }
  finish(p, &want);
  reset(p);
  for (int i = 0; i < INPUTS; i++) given[i] = cn_clone(inputs[i]);
  cn_compile_call k = {.inputs = given, .ninputs = INPUTS, .outputs = have.out, .noutputs = OUTPUTS, .payload = p};
  if (cn_compiled_call(c, &k)) fail_msg("program %llu: %s", (unsigned long long)p->seed, cn_err_message());
  finish(p, &have);
  for (size_t i = 0; i < OUTPUTS; i++)
    if (!same(have.out[i], want.out[i])) show(p, "compiled", "result", i, NULL);
  for (size_t i = 0; i < STATES; i++)
    if (!same(have.state[i], want.state[i])) show(p, "compiled", "state", i, NULL);
  if (!same(have.grad, want.grad)) show(p, "compiled", "gradient", 0, NULL);
  if (have.offset != want.offset) show(p, "compiled", "the random state", 0, NULL);
  return true;
}

/* How many of its calls ran a program. */
static size_t run_counted(uint64_t seed)
{
  cn_scope *s = cn_scope_begin();
  cn_compile_stats stats;
  cn_compiled *c = cn_compile(run_compiled);
  cn_seed(seed);
  program p = {.seed = seed, .gradient = seed % 2 == 1, .counts = true,
               .state = {cn_randn(CN_SHAPE(5, 6)), cn_randn(CN_SHAPE(4, 6))}};
  for (int i = 0; i < STATES; i++) p.saved[i] = cn_clone(p.state[i]);
  cn_requires_grad(p.state[0], p.gradient);
  for (uint64_t turn = 0; turn < 4; turn++) {
    cn_seed(seed + 1000 * turn);
    cn_tensor *inputs[INPUTS] = {cn_randn(CN_SHAPE(4, 6)), cn_randn(CN_SHAPE(4, 6)), cn_randn(CN_SHAPE(6, 4))};
    if (!compare_compiled(&p, c, inputs)) break;
  }
  cn_compile_stats_get(&stats, sizeof stats, c);
  cn_compiled_free(c);
  cn_scope_end(s);
  return stats.runs;
}

static void test_counted_programs(void **state)
{
  (void)state;
  const char *only = getenv("CAIRN_CALL"), *seed = getenv("CAIRN_FUZZ_SEED");
  uint64_t first = seed ? strtoull(seed, NULL, 10) << 20 : 0;
  size_t n = getenv("CAIRN_LONG") ? COUNTED_LONG : COUNTED_SHORT, ran = 0;
  setenv("CAIRN_COMPILE", "exact", 1); /* halves are rounded where the program rounds them */
  if (only) {
    run_counted(strtoull(only, NULL, 10));
    return;
  }
  static const uint64_t found[] = {78, 519, 1081, 18917359641}; /* something once */
  for (size_t i = 0; i < sizeof found / sizeof *found; i++) ran += run_counted(found[i]);
  for (size_t i = 0; i < n; i++) ran += run_counted(first + i);
  if (ran < n) fail_msg("only %zu of %zu calls ran a program", ran, 4 * n);
}

/* Programs that found something once. */
static void test_known_programs(void **state)
{
  static const uint64_t seeds[] = {8, 455, 1753, 3153329, 8393263};
  (void)state;
  for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) assert_true(run_one(seeds[i]));
}

static void test_programs(void **state)
{
  (void)state;
  const char *only = getenv("CAIRN_CALL"), *seed = getenv("CAIRN_FUZZ_SEED");
  uint64_t first = seed ? strtoull(seed, NULL, 10) << 20 : 0;
  if (only) {
    run_one(strtoull(only, NULL, 10));
    return;
  }
  int n = getenv("CAIRN_LONG") ? LONG : SHORT, ran = 0;
  for (int i = 0; i < n; i++) ran += run_one(first + (uint64_t)i);
  if (ran < n / 2) fail_msg("only %d of %d programs ran", ran, n);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_known_programs), cmocka_unit_test(test_programs),
                                     cmocka_unit_test(test_counted_programs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
