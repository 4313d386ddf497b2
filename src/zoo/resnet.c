/* resnet.c: ResNet 18 to 152: stages of blocks whose input is added to their output.
 *
 * Place in the flow: a family of the zoo. Invariant: names of parameters are torchvision's. */
#include "zoo.h"

typedef struct plan {
  int blocks[4];
  bool bottleneck;
} plan;

/* ---- blocks ---- */

enum { BASIC = 2, BOTTLENECK = 3 }; /* convolutions in a block */

/* Children: conv1, bn1, conv2, bn2, (conv3, bn3,) relu, (downsample). */
static cn_tensor *block_apply(cn_module *m, size_t convolutions, cn_tensor *x)
{
  cn_module *relu = cn_module_child(m, 2 * convolutions), *shortcut = cn_module_child(m, 2 * convolutions + 1);
  cn_tensor *y = x;
  for (size_t i = 0; y && i < convolutions; i++) {
    y = cn_forward(cn_module_child(m, 2 * i + 1), cn_forward(cn_module_child(m, 2 * i), y));
    if (i + 1 < convolutions) y = cn_forward(relu, y);
  }
  return cn_forward(relu, cn_add_(y, shortcut ? cn_forward(shortcut, x) : x));
}

static cn_tensor *basic_apply(cn_module *m, cn_tensor *x) { return block_apply(m, BASIC, x); }
static cn_tensor *bottleneck_apply(cn_module *m, cn_tensor *x) { return block_apply(m, BOTTLENECK, x); }

static const cn_module_class basic_block = {.name = "BasicBlock", .apply = basic_apply};
static const cn_module_class bottleneck = {.name = "Bottleneck", .apply = bottleneck_apply};

static void add_pair(cn_module *m, int i, int64_t in, int64_t out, int64_t kernel, int64_t stride)
{
  static const char *const convs[] = {"conv1", "conv2", "conv3"}, *const norms[] = {"bn1", "bn2", "bn3"};
  cni_add(m, convs[i], cni_conv(in, out, kernel, stride));
  cni_add(m, norms[i], cn_nn_batch_norm2d(out));
}

static cn_module *block(bool deep, int64_t in, int64_t width, int64_t stride)
{
  int64_t out = deep ? 4 * width : width;
  cn_module *m = cn_module_new(deep ? &bottleneck : &basic_block);
  if (deep) {
    add_pair(m, 0, in, width, 1, 1);
    add_pair(m, 1, width, width, 3, stride);
    add_pair(m, 2, width, out, 1, 1);
  } else {
    add_pair(m, 0, in, width, 3, stride);
    add_pair(m, 1, width, width, 3, 1);
  }
  cni_add(m, "relu", cni_relu());
  if (stride != 1 || in != out)
    cni_add(m, "downsample", cn_nn_sequential(cni_conv(in, out, 1, stride), cn_nn_batch_norm2d(out)));
  return m;
}

/* ---- the network ---- */

static const cn_module_class resnet_class = {.name = "ResNet", .forward = cn_forward_children};

static cn_module *make_resnet(const cni_model *row, const cn_zoo_opts *o)
{
  static const char *const names[] = {"layer1", "layer2", "layer3", "layer4"};
  const plan *p = row->plan;
  int64_t width = 64;
  cn_module *m = cn_module_new(&resnet_class);
  cni_add(m, "conv1", cni_conv(cni_or(o->channels, 3), width, 7, 2));
  cni_add(m, "bn1", cn_nn_batch_norm2d(width));
  cni_add(m, "relu", cni_relu());
  cni_add(m, "maxpool", cn_nn_max_pool2d(3, .stride = {2}, .padding = {1}));
  for (int i = 0; i < 4; i++) {
    cn_module *stage = cn_nn_sequential_of(NULL, 0);
    for (int k = 0; k < p->blocks[i]; k++) {
      cni_add(stage, NULL, block(p->bottleneck, width, (int64_t)64 << i, i && !k ? 2 : 1));
      width = ((int64_t)64 << i) * (p->bottleneck ? 4 : 1);
    }
    cni_add(m, names[i], stage);
  }
  cni_add(m, "avgpool", cn_nn_adaptive_avg_pool2d(1));
  cni_add(m, "flatten", cn_nn_flatten());
  cni_add(m, "fc", cn_nn_linear(width, cni_or(o->classes, 1000)));
  if (!o->pretrained) cni_init_convolutions(m, false);
  return cni_made(m);
}

#define RESNET(name, doc, file, ...) {name, doc, make_resnet, CNI_IMAGES, &(const plan){__VA_ARGS__}, NULL, file}

const cni_model cni_zoo_resnet[] = {
  RESNET("resnet18", "ResNet with 18 layers", "resnet18-f37072fd.pth", {2, 2, 2, 2}, false),
  RESNET("resnet34", "ResNet with 34 layers", "resnet34-b627a593.pth", {3, 4, 6, 3}, false),
  RESNET("resnet50", "ResNet with 50 layers", "resnet50-11ad3fa6.pth", {3, 4, 6, 3}, true),
  RESNET("resnet101", "ResNet with 101 layers", "resnet101-cd907fc2.pth", {3, 4, 23, 3}, true),
  RESNET("resnet152", "ResNet with 152 layers", "resnet152-f82ba261.pth", {3, 8, 36, 3}, true),
  {0},
};
