/* squeezenet.c: SqueezeNet 1.0 and 1.1: blocks that go down to few channels and up again, with few parameters.
 *
 * Place in the flow: a family of the zoo. Invariant: names of parameters are torchvision's. */
#include "zoo.h"

/* The first convolution, and a set of bits: behind which of the blocks there is a pooling. */
typedef struct plan {
  int width, kernel, pools;
} plan;

/* ---- a block ---- */

enum { SQUEEZE, SQUEEZE_ACTIVATION, EXPAND1, EXPAND1_ACTIVATION, EXPAND3, EXPAND3_ACTIVATION };

/* A child and the activation behind it. */
static cn_tensor *two(cn_module *m, size_t i, cn_tensor *x)
{
  return cn_forward(cn_module_child(m, i + 1), cn_forward(cn_module_child(m, i), x));
}

static cn_tensor *fire_apply(cn_module *m, cn_tensor *x)
{
  cn_tensor *y = two(m, SQUEEZE, x);
  return cn_cat(CN_TENSORS(two(m, EXPAND1, y), two(m, EXPAND3, y)), .dim = 1);
}

static const cn_module_class fire_class = {
  CN_MODULE_CLASS,
  .name = "Fire", .sig = "Fire(int inplanes) -> Module", .apply = fire_apply, .print = cni_print_nothing};

static cn_module *fire(int64_t in, int64_t squeezed)
{
  cn_module *m = cn_module_new_with(&fire_class, (const cn_value[]){cn_v_int(in)}, 1);
  cni_add(m, "squeeze", cn_nn_conv2d(in, squeezed, 1));
  cni_add(m, "squeeze_activation", cni_relu());
  cni_add(m, "expand1x1", cn_nn_conv2d(squeezed, 4 * squeezed, 1));
  cni_add(m, "expand1x1_activation", cni_relu());
  cni_add(m, "expand3x3", cn_nn_conv2d(squeezed, 4 * squeezed, 3, .padding = CN_INTS(1)));
  cni_add(m, "expand3x3_activation", cni_relu());
  return m;
}

/* ---- the network ---- */

/* features, classifier, whose last layer pools */
static cn_tensor *squeezenet_apply(cn_module *m, cn_tensor *x)
{
  return cn_flatten(two(m, 0, x), .start_dim = 1);
}

static const cn_module_class squeezenet_class = {
  CN_MODULE_CLASS,
  .name = "SqueezeNet",
  .sig = "SqueezeNet(int num_classes) -> Module",
  .apply = squeezenet_apply,
  .print = cni_print_nothing,
};

static cn_module *pool(void) { return cn_nn_max_pool2d(3, .stride = CN_INTS(2), .ceil_mode = true); }

static int draw(cn_module *layer)
{
  int status = cn_init_kaiming_uniform(cn_module_slot(layer, 0));
  return status ? status : cni_zero_bias(layer);
}

static cn_module *make_squeezenet(const cni_model *row, const cn_zoo_opts *o)
{
  static const int squeezed[] = {16, 16, 32, 32, 48, 48, 64, 64};
  const plan *p = row->plan;
  int64_t width = p->width, classes = cni_or(o->classes, 1000);
  cn_module *m = cn_module_new_with(&squeezenet_class, (const cn_value[]){cn_v_int(classes)}, 1);
  cn_module *features = cn_nn_sequential(
      cn_nn_conv2d(cni_or(o->channels, 3), width, p->kernel, .stride = CN_INTS(2)), cni_relu(), pool());
  for (size_t i = 0; i < sizeof squeezed / sizeof *squeezed; i++) {
    cni_add(features, NULL, fire(width, squeezed[i]));
    width = 8 * squeezed[i];
    if (p->pools >> i & 1) cni_add(features, NULL, pool());
  }
  cn_module *last = cn_nn_conv2d(width, classes, 1);
  cni_add(m, "features", features);
  cni_add(m, "classifier",
          cn_nn_sequential(cn_nn_dropout(.p = cni_given(cni_setting_float(o->config, "dropout", 0.5))), last,
                           cni_relu(), cn_nn_adaptive_avg_pool2d(1)));
  if (!o->pretrained && !cni_init_layers(m, draw, NULL)) cni_draw_small(last);
  return cni_made(m);
}

static const cni_setting_row settings[] = {{"dropout", CN_TREE_FLOAT}, {0}};

const cni_model cni_zoo_squeezenet[] = {
  {"squeezenet1_0", "SqueezeNet 1.0", make_squeezenet, CNI_IMAGES, &(const plan){96, 7, 1 << 2 | 1 << 6}, NULL,
   "squeezenet1_0-b66bff10.pth", settings},
  {"squeezenet1_1", "SqueezeNet 1.1", make_squeezenet, CNI_IMAGES, &(const plan){64, 3, 1 << 1 | 1 << 3}, NULL,
   "squeezenet1_1-b8a52dc0.pth", settings},
  {0},
};
