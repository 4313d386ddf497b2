/* test_networks.c: training steps of four networks, an MLP, a CNN, an LSTM and a GPT, with dropout and checkpointed
 * parts: compiled, 50 steps give what eager steps give, to the bit; so does a run that goes on in the middle from a
 * file, in new modules and a new program. On the CPU; on the mirror device, which records whole steps and repeats
 * them; and there without the optimiser's step, whose rates and counts are in host memory: such graphs it takes
 * whole. */
#include <stdio.h>

#include "backends/mirror/mirror.h"
#include "graph/run.h"
#include "tensors.h"
#include "training.h"

enum { STEPS = 50, MIDDLE = 23, MOST_PARTS = 4, WIDTH = 16, HEADS = 2, WORDS = 11, LENGTH = 6 };

/* Children of a net that are computed again in backward. */
typedef struct part {
  cn_module *net;
  size_t from, to;
} part;

typedef struct trainer {
  const struct network *kind;
  cn_module *net;
  cn_optim *optim;
  bool apart; /* the optimiser's step is not part of the program */
  part parts[MOST_PARTS]; /* they outlive backward */
  int nparts;
} trainer;

typedef struct network {
  const char *name;
  cn_module *(*make)(void);
  cn_tensor *(*forward)(trainer *t, cn_tensor *x);
  cn_tensor *(*input)(void);
  int64_t classes, targets;
} network;

static int run_children(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  const part *p = payload;
  out[0] = in[0];
  for (size_t i = p->from; i < p->to; i++) out[0] = cn_forward(cn_module_child(p->net, i), out[0]);
  return cn_err();
}

static cn_tensor *plain(trainer *t, size_t from, size_t to, cn_tensor *x)
{
  run_children(&x, &x, &(part){t->net, from, to});
  return x;
}

static cn_tensor *checkpointed(trainer *t, cn_checkpoint_fn fn, size_t from, size_t to, cn_tensor *x)
{
  cn_tensor *y = NULL;
  part *p = &t->parts[t->nparts++];
  *p = (part){t->net, from, to};
  return cn_checkpoint(&y, 1, fn, &x, 1, p) ? NULL : y;
}

/* ---- the networks ---- */

static cn_module *mlp(void)
{
  return cn_nn_sequential(cn_nn_linear(12, 32), cn_nn_relu(), cn_nn_dropout(.p = 0.3), cn_nn_linear(32, 32),
                          cn_nn_gelu(), cn_nn_dropout(.p = 0.2), cn_nn_batch_norm1d(32), cn_nn_linear(32, 5));
}
static cn_tensor *mlp_forward(trainer *t, cn_tensor *x)
{
  return plain(t, 6, 8, checkpointed(t, run_children, 3, 6, plain(t, 0, 3, x)));
}
static cn_tensor *mlp_input(void) { return cn_randn(CN_SHAPE(8, 12)); }

static cn_module *cnn(void)
{
  return cn_nn_sequential(cn_nn_conv2d(2, 6, 3, .padding = CN_INTS(1)), cn_nn_batch_norm2d(6), cn_nn_relu(),
                          cn_nn_conv2d(6, 6, 3, .padding = CN_INTS(1)), cn_nn_relu(), cn_nn_dropout2d(.p = 0.25),
                          cn_nn_max_pool2d(2), cn_nn_flatten(), cn_nn_dropout(.p = 0.1), cn_nn_linear(96, 5));
}
static cn_tensor *cnn_forward(trainer *t, cn_tensor *x)
{
  return plain(t, 6, 10, checkpointed(t, run_children, 3, 6, plain(t, 0, 3, x)));
}
static cn_tensor *cnn_input(void) { return cn_randn(CN_SHAPE(4, 2, 8, 8)); }

static cn_module *lstm(void)
{
  return cn_nn_sequential(cn_nn_linear(6, 10),
                          cn_nn_lstm(10, 12, .num_layers = 2, .dropout = 0.2, .batch_first = true),
                          cn_nn_dropout(.p = 0.2), cn_nn_linear(12, 5));
}
static cn_tensor *lstm_forward(trainer *t, cn_tensor *x) /* (B, T, 6) */
{
  return plain(t, 2, 4, cn_select(checkpointed(t, run_children, 1, 2, plain(t, 0, 1, x)), 1, -1));
}
static cn_tensor *lstm_input(void) { return cn_randn(CN_SHAPE(4, 7, 6)); }

enum { GPT_NORM, GPT_QKV, GPT_OUT, GPT_NORM2, GPT_UP, GPT_GELU, GPT_DOWN, GPT_DROP, GPT_PARTS };

static cn_module *gpt_block(void)
{
  const int64_t width[] = {WIDTH};
  return cn_nn_sequential(cn_nn_layer_norm(width, 1), cn_nn_linear(WIDTH, 3 * WIDTH), cn_nn_linear(WIDTH, WIDTH),
                          cn_nn_layer_norm(width, 1), cn_nn_linear(WIDTH, 4 * WIDTH), cn_nn_gelu(),
                          cn_nn_linear(4 * WIDTH, WIDTH), cn_nn_dropout(.p = 0.1));
}

static cn_module *gpt(void)
{
  return cn_nn_sequential(cn_nn_embedding(WORDS, WIDTH), cn_nn_embedding(LENGTH, WIDTH), gpt_block(), gpt_block(),
                          cn_nn_layer_norm((const int64_t[]){WIDTH}, 1), cn_nn_linear(WIDTH, WORDS));
}

static cn_tensor *attend(cn_module *block, cn_tensor *x) /* (B, T, C) */
{
  int64_t b = cn_size(x, 0), n = cn_size(x, 1);
  cn_tensor *qkv[3], *all = cn_forward(cn_module_child(block, GPT_QKV), x);
  if (cn_split(qkv, 3, all, WIDTH, .dim = 2) != 3) return NULL;
  for (int i = 0; i < 3; i++)
    qkv[i] = cn_transpose(cn_view(qkv[i], CN_SHAPE(b, n, HEADS, WIDTH / HEADS)), 1, 2);
  cn_tensor *y = cn_scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], NULL, .dropout_p = 0.1, .is_causal = true);
  return cn_forward(cn_module_child(block, GPT_OUT), cn_reshape(cn_transpose(y, 1, 2), CN_SHAPE(b, n, WIDTH)));
}

static int run_block(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  const part *p = payload;
  cn_module *block = cn_module_child(p->net, p->from);
  cn_tensor *x = cn_add(in[0], attend(block, cn_forward(cn_module_child(block, GPT_NORM), in[0]))), *y;
  run_children(&y, &x, &(part){block, GPT_NORM2, GPT_PARTS});
  out[0] = cn_add(x, y);
  return cn_err();
}

static cn_tensor *gpt_forward(trainer *t, cn_tensor *ids) /* (B, T) */
{
  cn_tensor *places = cn_arange(0, LENGTH, .dtype = CN_I64, .device = cn_device_of(ids));
  cn_tensor *x = cn_add(plain(t, 0, 1, ids), plain(t, 1, 2, places));
  for (size_t i = 2; i < 4; i++) x = checkpointed(t, run_block, i, i + 1, x);
  return cn_reshape(plain(t, 4, 6, x), CN_SHAPE(-1, WORDS));
}
static cn_tensor *gpt_input(void) { return cn_randint(0, WORDS, CN_SHAPE(3, LENGTH)); }

static const network networks[] = {{"mlp", mlp, mlp_forward, mlp_input, 5, 8},
                                   {"cnn", cnn, cnn_forward, cnn_input, 5, 4},
                                   {"lstm", lstm, lstm_forward, lstm_input, 5, 4},
                                   {"gpt", gpt, gpt_forward, gpt_input, WORDS, 3 * LENGTH}};

/* ---- training ---- */

typedef struct place {
  cn_device device;
  bool apart;
} place;

static trainer trainer_new(const network *kind, const place *at, uint64_t seed)
{
  cn_seed(seed);
  trainer t = {.kind = kind, .net = kind->make(), .apart = at->apart};
  cn_module_to(t.net, at->device, CN_DTYPE_NONE);
  t.optim = cn_optim_adamw(t.net, .lr = 0.01);
  if (cn_err()) fail_msg("%s: %s", kind->name, cn_err_message());
  return t;
}

static void trainer_free(trainer *t)
{
  cn_optim_free(t->optim);
  cn_module_release(t->net);
}

static void update(trainer *t)
{
  cn_optim_step(t->optim);
  cn_optim_zero_grad(t->optim);
}

static int step(cn_compile_call *k)
{
  trainer *t = k->payload;
  t->nparts = 0;
  k->outputs[0] = cn_cross_entropy(t->kind->forward(t, k->inputs[0]), k->inputs[1]);
  cn_backward(k->outputs[0]);
  clip(t->net);
  if (!t->apart) update(t);
  k->noutputs = 1;
  return cn_err();
}

/* The batch of a step is its own; dropout's numbers run on from step to step. c NULL: as it is. */
static double train(trainer *t, cn_compiled *c, int i, const place *at)
{
  uint64_t seed, offset;
  cn_scope *s = cn_scope_begin();
  cn_random_state(&seed, &offset);
  cn_seed(1000 + (uint64_t)i);
  cn_tensor *in[2] = {t->kind->input(), cn_randint(0, t->kind->classes, CN_SHAPE(t->kind->targets))}, *loss;
  for (int k = 0; k < 2; k++) in[k] = cn_to_device(in[k], at->device);
  cn_random_set_state(seed, offset);
  cn_compile_call call = {.inputs = in, .ninputs = 2, .outputs = &loss, .noutputs = 1, .payload = t};
  if (c ? cn_compiled_call(c, &call) : step(&call)) fail_msg("%s, step %d: %s", t->kind->name, i, cn_err_message());
  if (t->apart) update(t);
  double value = cn_item(loss);
  cn_scope_end(s);
  return value;
}

/* ---- the comparison ---- */

typedef struct record {
  double loss[STEPS];
  uint64_t offset; /* of random numbers, behind the last */
} record;

static void assert_nets_equal(const trainer *a, const trainer *b)
{
  cn_scope *s = cn_scope_begin();
  cn_named_list x, y;
  cn_module_named(&x, a->net, CN_PARAMETERS | CN_BUFFERS);
  cn_module_named(&y, b->net, CN_PARAMETERS | CN_BUFFERS);
  assert_int_equal(x.n, y.n);
  for (size_t i = 0; i < x.n; i++)
    if (!same_tensors(x.v[i].tensor, y.v[i].tensor)) fail_msg("%s: %s differs", a->kind->name, x.v[i].name);
  cn_named_free(&x);
  cn_named_free(&y);
  cn_scope_end(s);
}

static void assert_compiled(const cn_compiled *c, size_t runs)
{
  cn_compile_stats stats;
  cn_compile_stats_get(&stats, sizeof stats, c);
  assert_int_equal(stats.eager_calls, 0);
  assert_int_equal(stats.executables, 1);
  assert_int_equal(stats.runs, runs);
}

/* Steps first to STEPS - 1 by one program; a checkpoint is written before step MIDDLE if there is a path for it. */
static void run_compiled(trainer *t, const record *want, int first, const place *at, const char *path)
{
  cn_compiled *c = cn_compile(step, .fullgraph = true);
  size_t whole = cni_mirror_graph_runs(), recorded = cni_recorded_runs();
  for (int i = first; i < STEPS; i++) {
    if (i == MIDDLE && path && cn_run_save(path, &(cn_run){.net = t->net, .opt = t->optim, .step = i}, NULL))
      fail_msg("%s: %s", t->kind->name, cn_err_message());
    double loss = train(t, c, i, at);
    if (memcmp(&loss, &want->loss[i], sizeof loss))
      fail_msg("%s, step %d: %.17g, eager %.17g", t->kind->name, i, loss, want->loss[i]);
  }
  uint64_t offset;
  cn_random_state(NULL, &offset);
  assert_int_equal(offset, want->offset);
  assert_compiled(c, (size_t)(STEPS - first));
  bool mirror = at->device != CN_CPU;
  assert_int_equal(cni_mirror_graph_runs() - whole, mirror && at->apart ? STEPS - first : 0);
  assert_int_equal(cni_recorded_runs() - recorded, mirror && !at->apart ? STEPS - first - 1 : 0);
  cn_compiled_free(c);
}

static void compare(const network *kind, const place *at)
{
  char path[64];
  record want;
  snprintf(path, sizeof path, "test_networks_%s.safetensors", kind->name);
  trainer eager = trainer_new(kind, at, 5), fast = trainer_new(kind, at, 5);
  cn_seed(7);
  for (int i = 0; i < STEPS; i++) want.loss[i] = train(&eager, NULL, i, at);
  cn_random_state(NULL, &want.offset);
  cn_seed(7);
  run_compiled(&fast, &want, 0, at, path);
  assert_nets_equal(&eager, &fast);

  trainer again = trainer_new(kind, at, 99); /* other weights, other numbers */
  cn_run run = {.net = again.net, .opt = again.optim};
  if (cn_run_load(path, &run, NULL)) fail_msg("%s: %s", kind->name, cn_err_message());
  assert_int_equal(run.step, MIDDLE);
  run_compiled(&again, &want, MIDDLE, at, NULL);
  assert_nets_equal(&eager, &again);
  assert_true(want.loss[STEPS - 1] != want.loss[0]);
  trainer_free(&eager);
  trainer_free(&fast);
  trainer_free(&again);
  remove(path);
}

static void on_the_cpu(void **state) { compare(*state, &(place){CN_CPU, false}); }
static void recorded(void **state) { compare(*state, &(place){cn_device_find("mirror"), false}); }
static void taken_whole(void **state) { compare(*state, &(place){cn_device_find("mirror"), true}); }

#define ROW(i, f) {#f, f, clear_errors, NULL, (void *)(uintptr_t)&networks[i]}
#define ROWS(f) ROW(0, f), ROW(1, f), ROW(2, f), ROW(3, f)

int main(void)
{
  const struct CMUnitTest tests[] = {ROWS(on_the_cpu), ROWS(recorded), ROWS(taken_whole)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
