/* resnet.c: ResNet 18 to 152, ResNeXt and wide ResNet: stages of blocks whose input is added to their output.
 *
 * Place in the flow: a family of the zoo. Invariant: names of parameters are torchvision's. */
#include "zoo.h"

typedef struct plan {
  int blocks[4];
  bool bottleneck;
  int groups, width; /* of a bottleneck: its middle convolution, and the channels of a group in the first stage */
} plan;

/* ---- blocks ---- */

enum { BASIC = 2, BOTTLENECK = 3 }; /* convolutions in a block */

/* Children in torchvision's order: conv1, bn1, relu, conv2, bn2, (downsample), or conv1, bn1, conv2, bn2, conv3, bn3,
 * relu, (downsample). */
static cn_tensor *block_apply(cn_module *m, size_t convolutions, cn_tensor *x)
{
  size_t at = convolutions == BASIC ? 2 : 6;
  cn_module *relu = cn_module_child(m, at), *shortcut = cn_module_child(m, 2 * convolutions + 1);
  cn_tensor *y = x;
  for (size_t i = 0; y && i < convolutions; i++) {
    size_t pair = 2 * i + (2 * i >= at);
    y = cn_forward(cn_module_child(m, pair + 1), cn_forward(cn_module_child(m, pair), y));
    if (i + 1 < convolutions) y = cn_forward(relu, y);
  }
  return cn_forward(relu, cn_add_(y, shortcut ? cn_forward(shortcut, x) : x));
}

static cn_tensor *basic_apply(cn_module *m, cn_tensor *x) { return block_apply(m, BASIC, x); }
static cn_tensor *bottleneck_apply(cn_module *m, cn_tensor *x) { return block_apply(m, BOTTLENECK, x); }

static const cn_module_class basic_block = {CN_MODULE_CLASS, .name = "BasicBlock", .apply = basic_apply};
static const cn_module_class bottleneck = {CN_MODULE_CLASS, .name = "Bottleneck", .apply = bottleneck_apply};

static void add_pair(cn_module *m, int i, int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t groups)
{
  static const char *const convs[] = {"conv1", "conv2", "conv3"}, *const norms[] = {"bn1", "bn2", "bn3"};
  cni_add(m, convs[i], cn_nn_conv2d(in, out, kernel, .stride = CN_INTS(stride), .padding = CN_INTS(kernel / 2),
                                    .groups = groups, .no_bias = true));
  cni_add(m, norms[i], cn_nn_batch_norm2d(out));
}

static cn_module *block(const plan *p, int64_t in, int64_t width, int64_t stride)
{
  bool deep = p->bottleneck;
  int64_t out = deep ? 4 * width : width, groups = p->groups;
  int64_t middle = width * p->width / 64 * groups;
  cn_module *m = cn_module_new(deep ? &bottleneck : &basic_block);
  if (deep) {
    add_pair(m, 0, in, middle, 1, 1, 1);
    add_pair(m, 1, middle, middle, 3, stride, groups);
    add_pair(m, 2, middle, out, 1, 1, 1);
  } else {
    add_pair(m, 0, in, width, 3, stride, 1);
    cni_add(m, "relu", cni_relu());
    add_pair(m, 1, width, width, 3, 1, 1);
  }
  if (deep) cni_add(m, "relu", cni_relu());
  if (stride != 1 || in != out)
    cni_add(m, "downsample", cn_nn_sequential(cni_zoo_conv(in, out, 1, stride), cn_nn_batch_norm2d(out)));
  return m;
}

/* ---- the network ---- */

enum { PARTS = 10 }; /* conv1, bn1, relu, maxpool, layer1 to layer4, avgpool, fc */

static int resnet_forward(cn_module *m, cn_module_call *call) { return cni_forward_classifier(m, call, PARTS, false); }

static const cn_module_class resnet_class = {CN_MODULE_CLASS, .name = "ResNet", .forward = resnet_forward};

/* The last norm of a block is zero, so that the block gives its input as it is. */
static int start_at_zero(cn_module *m, const char *path, void *payload)
{
  (void)path, (void)payload;
  bool deep = m->cls == &bottleneck;
  return deep || m->cls == &basic_block ? cn_init_zeros(cn_module_get(m, deep ? "bn3.weight" : "bn2.weight")) : CN_OK;
}

static cn_module *make_resnet(const cni_model *row, const cn_zoo_opts *o)
{
  static const char *const names[] = {"layer1", "layer2", "layer3", "layer4"};
  const plan *p = row->plan;
  int64_t width = 64;
  cn_module *m = cn_module_new(&resnet_class);
  cni_add(m, "conv1", cni_zoo_conv(cni_or(o->channels, 3), width, 7, 2));
  cni_add(m, "bn1", cn_nn_batch_norm2d(width));
  cni_add(m, "relu", cni_relu());
  cni_add(m, "maxpool", cn_nn_max_pool2d(3, .stride = CN_INTS(2), .padding = CN_INTS(1)));
  for (int i = 0; i < 4; i++) {
    cn_module *stage = cn_nn_sequential_of(NULL, 0);
    for (int k = 0; k < p->blocks[i]; k++) {
      cni_add(stage, NULL, block(p, width, (int64_t)64 << i, i && !k ? 2 : 1));
      width = ((int64_t)64 << i) * (p->bottleneck ? 4 : 1);
    }
    cni_add(m, names[i], stage);
  }
  cni_add(m, "avgpool", cn_nn_adaptive_avg_pool2d(1));
  cni_add(m, "fc", cn_nn_linear(width, cni_or(o->classes, 1000)));
  if (!o->pretrained) cni_init_layers(m, cni_draw_fan_out, NULL);
  if (!o->pretrained && !cn_err() && cni_setting_bool(o->config, "zero_init_residual", false))
    cn_module_visit(m, start_at_zero, NULL);
  return cni_made(m);
}

static const cni_setting_row settings[] = {{"zero_init_residual", CN_TREE_BOOL}, {0}};

#define RESNET(name, doc, file, ...) \
  {name, doc, make_resnet, CNI_IMAGES, &(const plan){__VA_ARGS__}, NULL, file, settings}

const cni_model cni_zoo_resnet[] = {
  RESNET("resnet18", "ResNet with 18 layers", "resnet18-f37072fd.pth", {2, 2, 2, 2}, false, 1, 64),
  RESNET("resnet34", "ResNet with 34 layers", "resnet34-b627a593.pth", {3, 4, 6, 3}, false, 1, 64),
  RESNET("resnet50", "ResNet with 50 layers", "resnet50-11ad3fa6.pth", {3, 4, 6, 3}, true, 1, 64),
  RESNET("resnet101", "ResNet with 101 layers", "resnet101-cd907fc2.pth", {3, 4, 23, 3}, true, 1, 64),
  RESNET("resnet152", "ResNet with 152 layers", "resnet152-f82ba261.pth", {3, 8, 36, 3}, true, 1, 64),
  RESNET("resnext50_32x4d", "ResNeXt with 50 layers", "resnext50_32x4d-1a0047aa.pth", {3, 4, 6, 3}, true, 32, 4),
  RESNET("resnext101_32x8d", "ResNeXt with 101 layers", "resnext101_32x8d-110c445d.pth", {3, 4, 23, 3}, true, 32, 8),
  RESNET("resnext101_64x4d", "ResNeXt with 101 layers", "resnext101_64x4d-173b62eb.pth", {3, 4, 23, 3}, true, 64, 4),
  RESNET("wide_resnet50_2", "Wide ResNet with 50 layers", "wide_resnet50_2-9ba9bcbe.pth", {3, 4, 6, 3}, true, 1, 128),
  RESNET("wide_resnet101_2", "Wide ResNet with 101 layers", "wide_resnet101_2-d733dc28.pth", {3, 4, 23, 3}, true, 1,
         128),
  {0},
};
