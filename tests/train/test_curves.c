/* test_curves.c: four small networks trained for 30 steps from PyTorch's start have PyTorch's losses and end with its
 * parameters. What PyTorch computed is in golden/curves.safetensors, made by curves.py.
 *
 * Bounds: losses to 1e-5 relative and parameters to 1e-5 of their norm; 30 steps in float32 with sums in another order
 * drift apart by about 1e-6. */
#include <cairn/cairn.h>
#include <math.h>
#include <stdio.h>

#include "test.h"

enum { STEPS = 30, HEADS = 2, SEQ = 12, VOCAB = 40, DIM = 16, HEAD = DIM / HEADS };

/* ---- numbers: as in curves.py ---- */

static cn_tensor *fill(const int64_t *shape, size_t ndim, uint64_t seed, float scale)
{
  cn_tensor *t = cn_empty(shape, ndim);
  float *v = cn_data(t);
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (int64_t i = 0; i < cn_numel(t); i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    v[i] = scale * ((float)(int32_t)(state >> 32) / 2147483648.0f);
  }
  return t;
}

/* Label i is (7 (i + from) + 3) mod classes. */
static cn_tensor *labels(int64_t n, int64_t classes, int64_t from)
{
  cn_tensor *t = cn_empty(CN_SHAPE(n), .dtype = CN_I64);
  int64_t *v = cn_data(t);
  for (int64_t i = 0; i < n; i++) v[i] = ((i + from) % n * 7 + 3) % classes;
  return t;
}

static void fill_parameters(cn_module *net)
{
  cn_named_list list;
  int saved = cn_no_grad_begin();
  assert_int_equal(cn_module_named(&list, net, CN_PARAMETERS), 0);
  for (size_t i = 0; i < list.n; i++) {
    cn_tensor *p = list.v[i].tensor;
    int64_t fan = cn_ndim(p) > 1 ? cn_numel(p) / cn_size(p, 0) : 100;
    const char *dot = strrchr(list.v[i].name, '.');
    bool scale = cn_ndim(p) == 1 && dot && !strcmp(dot, ".weight");
    cn_tensor *v = fill(cn_shape(p), (size_t)cn_ndim(p), 100 + i, (float)(1 / sqrt((double)fan)));
    cn_copy_(p, scale ? cn_add(v, cn_num(1)) : v);
  }
  cn_no_grad_end(saved);
  cn_named_free(&list);
}

/* ---- networks of classes of their own ---- */

static cn_tensor *tagger_apply(cn_module *m, cn_tensor *x)
{
  cn_tensor *h = cn_forward(cn_module_child(m, 0), x);
  return cn_flatten(cn_forward(cn_module_child(m, 1), h), .end_dim = 1);
}

static const cn_module_class tagger = {CN_MODULE_CLASS, .name = "Tagger", .apply = tagger_apply};

enum { NORM1, NORM2, QKV, PROJ, UP, DOWN };

static cn_tensor *layer_apply(cn_module *m, cn_tensor *x)
{
  int64_t b = cn_size(x, 0), t = cn_size(x, 1);
  cn_tensor *qkv = cn_forward(cn_module_child(m, QKV), cn_forward(cn_module_child(m, NORM1), x));
  qkv = cn_permute(cn_reshape(qkv, CN_SHAPE(b, t, 3, HEADS, HEAD)), CN_SHAPE(2, 0, 3, 1, 4));
  cn_tensor *a = cn_scaled_dot_product_attention(cn_select(qkv, 0, 0), cn_select(qkv, 0, 1), cn_select(qkv, 0, 2),
                                                 .is_causal = true);
  a = cn_reshape(cn_transpose(a, 1, 2), CN_SHAPE(b, t, DIM));
  cn_tensor *h = cn_add(x, cn_forward(cn_module_child(m, PROJ), a));
  cn_tensor *f = cn_gelu(cn_forward(cn_module_child(m, UP), cn_forward(cn_module_child(m, NORM2), h)));
  return cn_add(h, cn_forward(cn_module_child(m, DOWN), f));
}

static const cn_module_class layer_class = {CN_MODULE_CLASS, .name = "Layer", .apply = layer_apply};

static cn_module *layer(void)
{
  cn_module *m = cn_module_new(&layer_class);
  cn_module_add(m, "n1", cn_nn_layer_norm(CN_SHAPE(DIM)));
  cn_module_add(m, "n2", cn_nn_layer_norm(CN_SHAPE(DIM)));
  /* Keys have no bias: its gradient is zero but for rounding, which Adam would make steps of. */
  cn_module_add(m, "qkv", cn_nn_linear(DIM, 3 * DIM, .no_bias = true));
  cn_module_add(m, "proj", cn_nn_linear(DIM, DIM));
  cn_module_add(m, "up", cn_nn_linear(DIM, 4 * DIM));
  cn_module_add(m, "down", cn_nn_linear(4 * DIM, DIM));
  return m;
}

static cn_tensor *gpt_apply(cn_module *m, cn_tensor *ids)
{
  cn_tensor *h = cn_add(cn_forward(cn_module_child(m, 0), ids), cn_module_get(m, "pos.weight"));
  for (size_t i = 2; i < cn_module_nchildren(m); i++) h = cn_forward(cn_module_child(m, i), h);
  return cn_flatten(h, .end_dim = 1);
}

static const cn_module_class gpt = {CN_MODULE_CLASS, .name = "GPT", .apply = gpt_apply};

/* ---- comparing ---- */

static cn_tensor *golden(const cn_tree *file, const char *name, const char *key)
{
  char full[128];
  snprintf(full, sizeof full, "%s/%s", name, key);
  cn_tensor *t = cn_tree_as_tensor(cn_tree_get(file, full));
  if (!t) fail_msg("no %s in the golden file", full);
  return t;
}

static void train(cn_module *net, cn_optim *opt, cn_tensor *x, cn_tensor *y, double *losses)
{
  for (int i = 0; i < STEPS; i++) {
    cn_scope *s = cn_scope_begin();
    cn_optim_zero_grad(opt);
    cn_tensor *loss = cn_cross_entropy(cn_forward(net, x), y);
    cn_backward(loss);
    cn_optim_step(opt);
    losses[i] = cn_item(loss);
    cn_scope_end(s);
  }
}

/* Takes net and opt over. */
static void compare(const char *name, cn_module *net, cn_optim *opt, cn_tensor *x, cn_tensor *y)
{
  double losses[STEPS];
  cn_tree *file = cn_load(CN_TEST_SOURCE_DIR "/tests/train/golden/curves.safetensors");
  assert_non_null(file);
  train(net, opt, x, y, losses);
  assert_int_equal(cn_err(), 0);
  const float *want = cn_data(golden(file, name, "losses"));
  for (int i = 0; i < STEPS; i++)
    if (!(fabs(losses[i] - (double)want[i]) <= 1e-5 * fabs((double)want[i])))
      fail_msg("%s: loss of step %d is %g, PyTorch's %g", name, i, losses[i], (double)want[i]);
  assert_true(losses[STEPS - 1] < losses[0]);
  cn_named_list list;
  assert_int_equal(cn_module_named(&list, net, CN_PARAMETERS), 0);
  for (size_t i = 0; i < list.n; i++) {
    int saved = cn_no_grad_begin();
    cn_tensor *theirs = golden(file, name, list.v[i].name);
    double off = cn_item(cn_linalg_vector_norm(cn_sub(list.v[i].tensor, theirs)));
    double norm = cn_item(cn_linalg_vector_norm(theirs));
    cn_no_grad_end(saved);
    if (!(off <= 1e-5 * norm)) fail_msg("%s: %s is off by %g of its norm", name, list.v[i].name, off / norm);
  }
  cn_named_free(&list);
  cn_tree_free(file);
  cn_optim_free(opt);
  cn_module_release(net);
}

static void mlp_follows(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *net = cn_nn_sequential(cn_nn_linear(20, 32), cn_nn_relu(), cn_nn_identity(), cn_nn_linear(32, 7));
  fill_parameters(net);
  cn_optim *opt = cn_optim_sgd(net, .lr = 0.01, .momentum = 0.9, .nesterov = true, .weight_decay = 1e-3);
  compare("mlp", net, opt, fill(CN_SHAPE(16, 20), 1, 1.7f), labels(16, 7, 0));
  cn_scope_end(s);
}

static void cnn_follows(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *net = cn_nn_sequential(cn_nn_conv2d(1, 6, 3, .padding = CN_INTS(1), .no_bias = true),
                                    cn_nn_batch_norm2d(6), cn_nn_relu(), cn_nn_max_pool2d(2),
                                    cn_nn_conv2d(6, 8, 3, .stride = CN_INTS(2)), cn_nn_gelu(),
                                    cn_nn_flatten(), cn_nn_linear(8, 5));
  fill_parameters(net);
  compare("cnn", net, cn_optim_adam(net, .lr = 3e-3), fill(CN_SHAPE(10, 1, 8, 8), 1, 1.7f), labels(10, 5, 0));
  cn_scope_end(s);
}

static void lstm_follows(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *net = cn_module_new(&tagger);
  cn_module_add(net, "rnn", cn_nn_lstm(6, 12, .num_layers = 2, .batch_first = true, .bidirectional = true));
  cn_module_add(net, "out", cn_nn_linear(24, 9));
  fill_parameters(net);
  cn_optim *opt = cn_optim_rmsprop(net, .lr = 1e-3, .momentum = 0.5);
  compare("lstm", net, opt, fill(CN_SHAPE(4, 5, 6), 1, 1.7f), labels(20, 9, 0));
  cn_scope_end(s);
}

static void gpt_follows(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *net = cn_module_new(&gpt);
  cn_module_add(net, "tok", cn_nn_embedding(VOCAB, DIM));
  cn_module_add(net, "pos", cn_nn_embedding(SEQ, DIM));
  cn_module_add(net, "layers", cn_nn_sequential(layer(), layer()));
  cn_module_add(net, "norm", cn_nn_layer_norm(CN_SHAPE(DIM)));
  cn_module_add(net, "head", cn_nn_linear(DIM, VOCAB, .no_bias = true));
  fill_parameters(net);
  cn_tensor *ids = cn_reshape(labels(3 * SEQ, VOCAB, 0), CN_SHAPE(3, SEQ));
  compare("gpt", net, cn_optim_adamw(net, .lr = 3e-3), ids, labels(3 * SEQ, VOCAB, 1));
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(mlp_follows), cmocka_unit_test(cnn_follows),
    cmocka_unit_test(lstm_follows), cmocka_unit_test(gpt_follows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
