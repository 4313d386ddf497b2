/* train.c: cairn's side of training steps and inference of whole networks: the models of the rows `mlp_step`,
 * `lenet_step`, `lstm_step`, `gpt_step`, `resnet18_train`, `resnet18_infer_b1` and `_b8`, each as it is and compiled,
 * and `gpt_generate`; `gpt_bf16_step` under autocast, `resnet18_bf16_infer_b1` and `_b8` with everything in bfloat16.
 *
 * Networks are made of modules and optimisers as a program would. Invariant: parameters start with the numbers of
 * bench_fill, the i-th of a network with seed 100 + i, as in torch_train.py; the check is the loss after three steps.
 */
#include "side.h"

#include <cairn/compile.h>
#include <cairn/zoo.h>
#include <math.h>

static cn_module *net;
static cn_optim *opt;
static cn_compiled *fast; /* its step; NULL: not captured yet */
static cn_tensor *x, *y; /* a batch and its labels */

/* ---- networks ---- */

static cn_module *mlp(void)
{
  return cn_nn_sequential(cn_nn_linear(784, 512), cn_nn_relu(), cn_nn_linear(512, 512), cn_nn_relu(),
                          cn_nn_linear(512, 10));
}

static cn_module *lenet(void)
{
  return cn_nn_sequential(cn_nn_conv2d(1, 32, 3), cn_nn_relu(), cn_nn_conv2d(32, 64, 3), cn_nn_relu(),
                          cn_nn_max_pool2d(2), cn_nn_flatten(), cn_nn_linear(64 * 12 * 12, 128), cn_nn_relu(),
                          cn_nn_linear(128, 10));
}

/* A tag for every step of a sequence: (B, T, 128) -> (B T, 128). */
static cn_tensor *tagger_apply(cn_module *m, cn_tensor *in)
{
  cn_tensor *h = cn_forward(cn_module_child(m, 0), in);
  return cn_flatten(cn_forward(cn_module_child(m, 1), h), .end_dim = 1);
}

static const cn_module_class tagger_class = {CN_MODULE_CLASS, .name = "Tagger", .apply = tagger_apply};

static cn_module *tagger(void)
{
  cn_module *m = cn_module_new(&tagger_class);
  cn_module_add(m, "rnn", cn_nn_lstm(128, 256, .batch_first = true));
  cn_module_add(m, "out", cn_nn_linear(256, 128));
  return m;
}

/* ---- a small GPT, pre-norm, with learned positions ---- */

enum { VOCAB = 512, DIM = 256, DEPTH = 4, HEADS = 4, SEQ = 128, HEAD = DIM / HEADS };
enum { NORM1, NORM2, QKV, PROJ, UP, DOWN };

static cn_tensor *keys[DEPTH], *values[DEPTH]; /* (1, heads, seq, head): what generation remembers */
static int64_t at = -1;                        /* tokens in them; -1: the whole sequence at once */

static cn_tensor *attend(int64_t layer, cn_tensor *q, cn_tensor *k, cn_tensor *v)
{
  if (at < 0) return cn_scaled_dot_product_attention(q, k, v, .is_causal = true);
  cn_copy_(cn_slice(keys[layer], 2, at, at + 1), k);
  cn_copy_(cn_slice(values[layer], 2, at, at + 1), v);
  return cn_scaled_dot_product_attention(q, cn_slice(keys[layer], 2, 0, at + 1), cn_slice(values[layer], 2, 0, at + 1));
}

static cn_tensor *block_apply(cn_module *m, cn_tensor *in) /* in: (B, T, C) */
{
  int64_t b = cn_size(in, 0), t = cn_size(in, 1), layer = *(const int64_t *)m->data;
  cn_tensor *qkv = cn_forward(cn_module_child(m, QKV), cn_forward(cn_module_child(m, NORM1), in));
  qkv = cn_permute(cn_reshape(qkv, CN_SHAPE(b, t, 3, HEADS, HEAD)), CN_SHAPE(2, 0, 3, 1, 4));
  cn_tensor *a = attend(layer, cn_select(qkv, 0, 0), cn_select(qkv, 0, 1), cn_select(qkv, 0, 2));
  a = cn_reshape(cn_transpose(a, 1, 2), CN_SHAPE(b, t, DIM));
  cn_tensor *h = cn_add(in, cn_forward(cn_module_child(m, PROJ), a));
  cn_tensor *f = cn_gelu(cn_forward(cn_module_child(m, UP), cn_forward(cn_module_child(m, NORM2), h)));
  return cn_add(h, cn_forward(cn_module_child(m, DOWN), f));
}

static const cn_module_class block_class = {CN_MODULE_CLASS, .name = "Layer", .data_size = sizeof(int64_t),
  .apply = block_apply};

static cn_module *block(int64_t layer)
{
  cn_module *m = cn_module_new(&block_class);
  *(int64_t *)m->data = layer;
  cn_module_add(m, "n1", cn_nn_layer_norm(CN_SHAPE(DIM)));
  cn_module_add(m, "n2", cn_nn_layer_norm(CN_SHAPE(DIM)));
  cn_module_add(m, "qkv", cn_nn_linear(DIM, 3 * DIM));
  cn_module_add(m, "proj", cn_nn_linear(DIM, DIM));
  cn_module_add(m, "up", cn_nn_linear(DIM, 4 * DIM));
  cn_module_add(m, "down", cn_nn_linear(4 * DIM, DIM));
  return m;
}

static cn_tensor *gpt_apply(cn_module *m, cn_tensor *ids) /* (B, T) -> (B T, vocab) */
{
  int64_t from = at < 0 ? 0 : at, t = cn_size(ids, 1);
  cn_tensor *where = cn_slice(cn_module_get(m, "pos.weight"), 0, from, from + t);
  cn_tensor *h = cn_add(cn_forward(cn_module_child(m, 0), ids), where);
  for (size_t i = 2; i < cn_module_nchildren(m); i++) h = cn_forward(cn_module_child(m, i), h);
  return cn_flatten(h, .end_dim = 1);
}

static const cn_module_class gpt_class = {CN_MODULE_CLASS, .name = "GPT", .apply = gpt_apply};

static cn_module *gpt(void)
{
  cn_module *m = cn_module_new(&gpt_class), *layers = cn_nn_sequential_of(NULL, 0);
  cn_module_add(m, "tok", cn_nn_embedding(VOCAB, DIM));
  cn_module_add(m, "pos", cn_nn_embedding(SEQ, DIM));
  for (int64_t i = 0; i < DEPTH; i++) cn_module_add(layers, NULL, block(i));
  cn_module_add(m, "layers", layers);
  cn_module_add(m, "norm", cn_nn_layer_norm(CN_SHAPE(DIM)));
  cn_module_add(m, "head", cn_nn_linear(DIM, VOCAB, .no_bias = true));
  return m;
}

static cn_module *resnet(void) { return cn_zoo("resnet18"); }

/* ---- making them ready ---- */

/* Matrices spread by the square root of what meets in one result, scales around 1, the rest around 0. */
static void fill_parameters(void)
{
  cn_named_list list;
  int saved = cn_no_grad_begin();
  cn_module_named(&list, net, CN_PARAMETERS);
  for (size_t i = 0; i < list.n; i++) {
    cn_tensor *p = list.v[i].tensor;
    int64_t fan = cn_ndim(p) > 1 ? cn_numel(p) / cn_size(p, 0) : 100;
    const char *dot = strrchr(list.v[i].name, '.');
    bool scale = cn_ndim(p) == 1 && dot && !strcmp(dot, ".weight");
    cn_tensor *v = side_fill(cn_shape(p), (size_t)cn_ndim(p), 100 + i, (float)(1 / sqrt((double)fan)));
    cn_copy_(p, scale ? cn_add(v, cn_num(1)) : v);
  }
  cn_no_grad_end(saved);
  cn_named_free(&list);
}

static void clear(void)
{
  cn_compiled_free(fast);
  cn_optim_free(opt);
  cn_module_release(net);
  fast = NULL;
  opt = NULL;
  net = NULL;
  at = -1;
}

static cn_tensor *labels(int64_t n, int64_t classes)
{
  cn_tensor *t = cn_empty(CN_SHAPE(n), .dtype = CN_I64);
  int64_t *v = cn_data(t);
  for (int64_t i = 0; v && i < n; i++) v[i] = bench_label(i, classes);
  return t;
}

static void ready(cn_module *made, cn_tensor *input, int64_t nlabels, int64_t classes)
{
  net = made;
  if (!net) return;
  fill_parameters();
  cn_set(&x, input);
  if (nlabels) cn_set(&y, labels(nlabels, classes));
}

static void prepare_mlp(void)
{
  clear();
  ready(mlp(), side_fill(CN_SHAPE(128, 784), 1, 1.7f), 128, 10);
  opt = cn_optim_adam(net, .lr = 1e-3);
}

static void prepare_lenet(void)
{
  clear();
  ready(lenet(), side_fill(CN_SHAPE(64, 1, 28, 28), 1, 1.7f), 64, 10);
  opt = cn_optim_adam(net, .lr = 1e-3);
}

static void prepare_lstm(void)
{
  clear();
  ready(tagger(), side_fill(CN_SHAPE(32, 64, 128), 1, 1.7f), 32 * 64, 128);
  opt = cn_optim_adam(net, .lr = 1e-3);
}

static void prepare_gpt(void)
{
  clear();
  ready(gpt(), cn_reshape(labels(8 * SEQ, VOCAB), CN_SHAPE(8, SEQ)), 8 * SEQ, VOCAB);
  opt = cn_optim_adamw(net, .lr = 3e-4);
}

static void prepare_resnet(void)
{
  clear();
  ready(resnet(), side_fill(CN_SHAPE(8, 3, 224, 224), 1, 1.7f), 8, 1000);
  opt = cn_optim_sgd(net, .lr = 0.01, .momentum = 0.9);
}

static void prepare_resnet_infer(void)
{
  clear();
  ready(resnet(), side_fill(CN_SHAPE(now->n[0], 3, 224, 224), 1, 1.7f), 0, 0);
  cn_module_train(net, false);
}

static void prepare_resnet_half(void)
{
  prepare_resnet_infer();
  cn_module_to(net, CN_CPU, CN_BF16);
  cn_set(&x, cn_cast(x, CN_BF16));
}

static void prepare_generate(void)
{
  clear();
  ready(gpt(), cn_zeros(CN_SHAPE(1, 1), .dtype = CN_I64), 0, 0);
  for (int i = 0; i < DEPTH; i++) {
    cn_set(&keys[i], cn_zeros(CN_SHAPE(1, HEADS, SEQ, HEAD)));
    cn_set(&values[i], cn_zeros(CN_SHAPE(1, HEADS, SEQ, HEAD)));
  }
}

/* ---- the work ---- */

static cn_tensor *step_of(cn_tensor *input, cn_tensor *target)
{
  cn_optim_zero_grad(opt);
  cn_tensor *loss = cn_cross_entropy(cn_forward(net, input), target);
  cn_backward(loss);
  cn_optim_step(opt);
  return loss;
}

static void step(void) { result[0] = step_of(x, y); }

/* The forward pass under autocast. */
static void half_step(void)
{
  cn_optim_zero_grad(opt);
  int saved = cn_autocast_begin(CN_BF16);
  result[0] = cn_cross_entropy(cn_forward(net, x), y);
  cn_autocast_end(saved);
  cn_backward(result[0]);
  cn_optim_step(opt);
}

/* The whole step as one program. */
static int captured(cn_compile_call *k)
{
  k->outputs[0] = step_of(k->inputs[0], k->inputs[1]);
  k->noutputs = 1;
  return cn_err();
}

static void compiled_step(void)
{
  cn_tensor *const in[] = {x, y};
  if (!fast) fast = cn_compile(captured, .fullgraph = true, .name = now->name);
  cn_compiled_call(fast, &(cn_compile_call){.inputs = in, .ninputs = 2, .outputs = result, .noutputs = 1});
}

static void infer(void)
{
  int saved = cn_inference_begin();
  result[0] = cn_forward(net, x);
  cn_inference_end(saved);
}

static int captured_forward(cn_compile_call *k)
{
  k->outputs[0] = cn_forward(net, k->inputs[0]);
  k->noutputs = 1;
  return cn_err();
}

static void compiled_infer(void)
{
  int saved = cn_inference_begin();
  if (!fast) fast = cn_compile(captured_forward, .fullgraph = true, .name = now->name);
  cn_compiled_call(fast, &(cn_compile_call){.inputs = &x, .ninputs = 1, .outputs = result, .noutputs = 1});
  cn_inference_end(saved);
}

/* 128 tokens, the likeliest each time. */
static void generate(void)
{
  int saved = cn_inference_begin();
  cn_tensor *token = cn_keep(x), *out[SEQ];
  for (at = 0; at < SEQ; at++) {
    cn_scope *s = cn_scope_begin();
    out[at] = cn_keep(cn_argmax(cn_forward(net, token), -1, .keepdim = true)); /* (1, 1) */
    cn_scope_end(s);
    cn_release(token);
    token = cn_keep(out[at]);
  }
  at = -1;
  cn_release(token);
  result[0] = cn_cat(out, SEQ);
  for (int i = 0; i < SEQ; i++) cn_release(out[i]);
  cn_inference_end(saved);
}

/* torch_train.py has the same table. */
static const struct side_case works[] = {
  {"mlp_step", "", "step", 1, prepare_mlp, step, {0}, true},
  {"mlp_step", "compiled", "step", 1, prepare_mlp, compiled_step, {0}, true},
  {"lenet_step", "", "step", 1, prepare_lenet, step, {0}, true},
  {"lenet_step", "compiled", "step", 1, prepare_lenet, compiled_step, {0}, true},
  {"lstm_step", "", "token", 32 * 64, prepare_lstm, step, {0}, true},
  {"lstm_step", "compiled", "token", 32 * 64, prepare_lstm, compiled_step, {0}, true},
  {"gpt_step", "", "token", 8 * SEQ, prepare_gpt, step, {0}, true},
  {"gpt_step", "compiled", "token", 8 * SEQ, prepare_gpt, compiled_step, {0}, true},
  {"gpt_bf16_step", "", "token", 8 * SEQ, prepare_gpt, half_step, {0}, true},
  {"resnet18_train", "", "image", 8, prepare_resnet, step, {0}, true},
  {"resnet18_train", "compiled", "image", 8, prepare_resnet, compiled_step, {0}, true},
  {"resnet18_infer_b1", "", "image", 1, prepare_resnet_infer, infer, {1}, false},
  {"resnet18_infer_b1", "compiled", "image", 1, prepare_resnet_infer, compiled_infer, {1}, false},
  {"resnet18_infer_b8", "", "image", 8, prepare_resnet_infer, infer, {8}, false},
  {"resnet18_infer_b8", "compiled", "image", 8, prepare_resnet_infer, compiled_infer, {8}, false},
  {"resnet18_bf16_infer_b1", "", "image", 1, prepare_resnet_half, infer, {1}, false},
  {"resnet18_bf16_infer_b8", "", "image", 8, prepare_resnet_half, infer, {8}, false},
  {"gpt_generate", "", "token", SEQ, prepare_generate, generate, {0}, false},
};

/* The check sees what two updates did. */
static void two_more_steps(void)
{
  for (int i = 0; opt && i < 2; i++) now->call();
}

int main(int argc, char **argv)
{
  side_finish = two_more_steps;
  return side_serve(argc, argv, works, sizeof works / sizeof *works);
}
