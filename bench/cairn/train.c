/* train.c: cairn's side of training steps of whole networks: the models of the rows `mlp_step`, `lenet_step`,
 * `lstm_step`, `gpt_step`, `resnet18_train`, each as it is and compiled, `gpt_bf16_step` under autocast, and
 * `gpt_generate`.
 *
 * Networks are made of modules and optimisers as a program would. Invariant: parameters start as networks.h says; the
 * check is the loss after three steps.
 */
#include "networks.h"

#include <cairn/compile.h>
#include <cairn/zoo.h>

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

static cn_module *resnet(void) { return cn_zoo("resnet18"); }

/* ---- making them ready ---- */

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

static void ready(cn_module *made, cn_tensor *input, int64_t nlabels, int64_t classes)
{
  net = made;
  if (!net) return;
  fill_parameters(net);
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
  {"gpt_generate", "", "token", SEQ, prepare_generate, generate, {0}, false},
};

/* The check sees what two updates did. */
static void two_more_steps(void)
{
  for (int i = 0; opt && i < 2; i++) now->call();
}

/* ---- what a compiled step costs before it runs as it will (bench/first) ---- */

static int traced(cn_tensor **out, cn_tensor *const *in, void *unused)
{
  (void)unused;
  out[0] = step_of(in[0], in[1]);
  return cn_err();
}

static double milliseconds_of(void (*call)(void))
{
  double begin = bench_now();
  cn_scope *s = cn_scope_begin();
  call();
  cn_scope_end(s);
  return (bench_now() - begin) * 1e3;
}

static void trace(void)
{
  cn_tensor *const in[] = {x, y};
  cn_graph_free(cn_trace(traced, 1, in, 2, NULL));
}

/* The first sample of the batch: a step takes less then, and what else there is shows. */
static void keep_one(void)
{
  int64_t batch = cn_size(x, 0);
  cn_set(&y, cn_clone(cn_slice(y, 0, 0, cn_size(y, 0) / batch)));
  cn_set(&x, cn_clone(cn_slice(x, 0, 0, 1)));
}

/* The trace alone, the first call, and the fastest of some later ones, in milliseconds. */
static int print_first(const char *name)
{
  size_t i = 0, n = sizeof works / sizeof *works;
  while (i < n && (strcmp(works[i].name, name) || works[i].call != compiled_step)) i++;
  if (i == n) return fprintf(stderr, "%s is no compiled step\n", name), 2;
  now = &works[i];
  cn_scope *s = cn_scope_begin();
  now->prepare();
  keep_one();
  step(); /* the library starts; kernels pack; memory is there */
  double tracing = milliseconds_of(trace), first = milliseconds_of(compiled_step), later = 1e9;
  for (int k = 0; k < 5; k++) later = fmin(later, milliseconds_of(compiled_step));
  cn_scope_end(s);
  printf("%.2f %.2f %.2f\n", tracing, first, later);
  if (cn_err()) fprintf(stderr, "%s\n", cn_err_message());
  return cn_err() ? 1 : 0;
}

int main(int argc, char **argv)
{
  if (argc == 3 && !strcmp(argv[1], "--first")) return print_first(argv[2]);
  side_finish = two_more_steps;
  return side_serve(argc, argv, works, sizeof works / sizeof *works);
}
