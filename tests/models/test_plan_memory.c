/* test_plan_memory.c: networks of the zoo, inference and training steps: their memory plans take at most a twentieth
 * more than what lives at once at the fullest moment, which is what no plan can do without. With CAIRN_LONG all
 * networks of up to 100 million parameters. */
#include <cairn/cairn.h>
#include <cairn/compile.h>
#include <cairn/zoo.h>
#include <stdio.h>

#include "small.h"
#include "test.h"

enum { BATCH = 2, TOKENS = 12, RUNS = 3 };

typedef struct work {
  cn_module *net;
  cn_optim *optim; /* NULL: inference */
} work;

static int compute(cn_compile_call *k)
{
  work *w = k->payload;
  cn_tensor *y = cn_forward(w->net, k->inputs[0]);
  k->noutputs = 1;
  k->outputs[0] = y;
  if (!w->optim) return cn_err();
  cn_optim_zero_grad(w->optim);
  k->outputs[0] = cn_mean(cn_square(y));
  cn_backward(k->outputs[0]);
  cn_optim_step(w->optim);
  return cn_err();
}

/* Calls it until it is known what kernels take while they run, and reads what is said of its memory. */
static void check_program(const char *name, work *w, cn_tensor *x)
{
  cn_compiled *fast = cn_compile(compute, .fullgraph = true, .name = name);
  cn_tensor *out = NULL;
  cn_compile_call k = {.inputs = &x, .ninputs = 1, .outputs = &out, .noutputs = 1, .payload = w};
  for (int i = 0; i < RUNS; i++) {
    cn_scope *s = cn_scope_begin();
    k.noutputs = 1;
    if (cn_compiled_call(fast, &k)) fail_msg("%s: %s", name, cn_err_message());
    cn_scope_end(s);
  }
  k.noutputs = 1;
  char *text = cn_compiled_explain(fast, &k);
  size_t planned = 0, least = 0;
  const char *said = text ? strstr(text, " groups; ") : NULL;
  if (!said || sscanf(said, " groups; %zu bytes of memory, of which %zu at once", &planned, &least) != 2)
    fail_msg("%s: nothing is said of memory: %.200s", name, text ? text : cn_err_message());
  if (planned < least || planned > least + least / 20)
    fail_msg("%s, %s: %zu bytes are planned where %zu live at once", name, w->optim ? "training" : "inference", planned,
             least);
  cn_string_free(text);
  cn_compiled_free(fast);
}

static void check_network(const char *name, cn_module *net, cn_tensor *x)
{
  work w = {.net = net};
  cn_module_train(net, false);
  int saved = cn_inference_begin();
  check_program(name, &w, x);
  cn_inference_end(saved);
  cn_module_train(net, true);
  w.optim = cn_optim_adamw(net, .lr = 1e-3);
  check_program(name, &w, x);
  cn_optim_free(w.optim);
  cn_module_release(net);
}

static cn_tensor *tokens(int64_t vocab) { return cn_randint(0, vocab, CN_SHAPE(BATCH, TOKENS)); }

/* Of networks for images, the side that is large enough for the network and small enough for a test. */
static int64_t side_of(const char *name)
{
  return !strcmp(name, "lenet") ? 28 : cn_zoo_takes(name, "image") ? 32 : 64;
}

static void check_image_network(const char *name)
{
  cn_scope *s = cn_scope_begin();
  bool sized = cn_zoo_takes(name, "image");
  int64_t side = side_of(name), channels = strcmp(name, "lenet") ? 3 : 1;
  cn_module *net = cn_zoo(name, .image = sized ? side : 0);
  if (!net) fail_msg("%s: %s", name, cn_err_message());
  check_network(name, net, cn_randn(CN_SHAPE(BATCH, channels, side, side)));
  cn_scope_end(s);
}

static int64_t parameters_of(const char *name)
{
  cn_device before = cn_default_device();
  cn_set_default_device(cn_device_find("meta"));
  cn_module *m = cn_zoo(name);
  cn_set_default_device(before);
  int64_t n = m ? cn_module_count(m, false) : 0;
  cn_module_release(m);
  return n;
}

static void image_networks_need_little_more(void **state)
{
  static const char *const some[] = {"lenet",         "resnet18",        "mobilenet_v2", "mobilenet_v3_small",
                                     "squeezenet1_1", "efficientnet_b0", "googlenet",    "densenet121",
                                     "convnext_tiny", "unet"};
  const char *name;
  (void)state;
  for (size_t i = 0; i < sizeof some / sizeof *some; i++) check_image_network(some[i]);
  for (size_t i = 0; getenv("CAIRN_LONG") && cn_zoo_at(i, &name, NULL); i++)
    if (!cn_zoo_takes(name, "vocab") && parameters_of(name) < 100 * 1000 * 1000) check_image_network(name);
}

static void language_models_need_little_more(void **state)
{
  (void)state;
  for (int i = 0; i < SMALL_MODELS; i++) {
    cn_scope *s = cn_scope_begin();
    check_network(small_models[i].name, small(i), tokens(SMALL_VOCAB));
    cn_scope_end(s);
  }
  cn_scope *s = cn_scope_begin();
  check_network("bert", small_made("bert", small_bert, 0), tokens(SMALL_VOCAB));
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(image_networks_need_little_more),
    cmocka_unit_test(language_models_need_little_more),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
