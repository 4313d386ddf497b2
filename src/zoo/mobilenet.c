/* mobilenet.c: MobileNet v2: blocks that widen, filter each channel by itself, and narrow again.
 *
 * Place in the flow: a family of the zoo. Invariant: names of parameters are torchvision's. */
#include "zoo.h"

static const cn_module_class norm_activation = {CN_MODULE_CLASS, .name = "Conv2dNormActivation",
  .forward = cn_forward_children};

static cn_module *conv_norm_relu6(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t groups)
{
  cn_module *m = cn_module_new(&norm_activation);
  cni_add(m, NULL, cn_nn_conv2d(in, out, kernel, .stride = CN_INTS(stride), .padding = CN_INTS(kernel / 2),
                                .groups = groups, .no_bias = true));
  cni_add(m, NULL, cn_nn_batch_norm2d(out));
  cni_add(m, NULL, cn_nn_relu6(.inplace = true));
  return m;
}

/* The input is added where it has the output's shape. Child: conv. */
typedef struct inverted {
  bool shortcut;
} inverted;

static cn_tensor *inverted_apply(cn_module *m, cn_tensor *x)
{
  const inverted *d = m->data;
  cn_tensor *y = cn_forward(cn_module_child(m, 0), x);
  return d->shortcut ? cn_add(x, y) : y;
}

static const cn_module_class inverted_residual = {
  CN_MODULE_CLASS,
  .name = "InvertedResidual", .data_size = sizeof(inverted), .apply = inverted_apply};

static cn_module *block(int64_t in, int64_t out, int64_t stride, int64_t widen)
{
  int64_t width = in * widen;
  cn_module *conv = cn_nn_sequential_of(NULL, 0), *m = cn_module_new(&inverted_residual);
  if (m) ((inverted *)m->data)->shortcut = stride == 1 && in == out;
  if (widen != 1) cni_add(conv, NULL, conv_norm_relu6(in, width, 1, 1, 1));
  cni_add(conv, NULL, conv_norm_relu6(width, width, 3, stride, width));
  cni_add(conv, NULL, cni_zoo_conv(width, out, 1, 1));
  cni_add(conv, NULL, cn_nn_batch_norm2d(out));
  cni_add(m, "conv", conv);
  return m;
}

/* features, classifier */
static int mobilenet_forward(cn_module *m, cn_module_call *call) { return cni_forward_classifier(m, call, 2, true); }

static const cn_module_class mobilenet_class = {CN_MODULE_CLASS, .name = "MobileNetV2", .forward = mobilenet_forward};

static cn_module *make_mobilenet(const cni_model *row, const cn_zoo_opts *o)
{
  static const struct {
    int widen, out, blocks, stride;
  } stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  (void)row;
  int64_t width = 32, last = 1280;
  cn_module *features = cn_nn_sequential_of(NULL, 0), *m = cn_module_new(&mobilenet_class);
  cni_add(features, NULL, conv_norm_relu6(cni_or(o->channels, 3), width, 3, 2, 1));
  for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
    for (int k = 0; k < stages[i].blocks; k++) {
      cni_add(features, NULL, block(width, stages[i].out, k ? 1 : stages[i].stride, stages[i].widen));
      width = stages[i].out;
    }
  cni_add(features, NULL, conv_norm_relu6(width, last, 1, 1, 1));
  cni_add(m, "features", features);
  cni_add(m, "classifier", cn_nn_sequential(cn_nn_dropout(.p = 0.2), cn_nn_linear(last, cni_or(o->classes, 1000))));
  if (!o->pretrained) cni_init_convolutions(m, true);
  return cni_made(m);
}

const cni_model cni_zoo_mobilenet[] = {
  {"mobilenet_v2", "MobileNet v2", make_mobilenet, CNI_IMAGES, NULL, NULL, "mobilenet_v2-7ebf99e0.pth"},
  {0},
};
