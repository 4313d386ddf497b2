/* unet.c: U-Net: images in, a score of each class for each pixel out; what was seen on the way down is joined in on the
 * way up.
 *
 * Place in the flow: a family of the zoo. Invariant: parameters are named as in the widespread PyTorch version
 * (inc.double_conv.0.weight, down1.maxpool_conv.1.double_conv.0.weight, up1.up.weight, outc.conv.weight). */
#include "zoo.h"

static const cn_module_class double_conv_class = {CN_MODULE_CLASS, .name = "DoubleConv",
  .forward = cn_forward_children};

static cn_module *double_conv(int64_t in, int64_t out)
{
  cn_module *m = cn_module_new(&double_conv_class);
  cni_add(m, "double_conv",
          cn_nn_sequential(cni_zoo_conv(in, out, 3, 1), cn_nn_batch_norm2d(out), cni_relu(),
                           cni_zoo_conv(out, out, 3, 1), cn_nn_batch_norm2d(out), cni_relu()));
  return m;
}

static const cn_module_class down_class = {CN_MODULE_CLASS, .name = "Down", .forward = cn_forward_children};

static cn_module *down(int64_t in, int64_t out)
{
  cn_module *m = cn_module_new(&down_class);
  cni_add(m, "maxpool_conv", cn_nn_sequential(cn_nn_max_pool2d(2), double_conv(in, out)));
  return m;
}

/* x: from below; beside: of twice its size, or a row or column more. Children: up, conv. */
static int up_forward(cn_module *m, cn_module_call *call)
{
  cn_tensor *x = cn_forward(cn_module_child(m, 0), call->args[0].u.t), *beside = call->args[1].u.t;
  if (!x) return cn_err();
  int64_t rows = cn_size(beside, 2) - cn_size(x, 2), columns = cn_size(beside, 3) - cn_size(x, 3);
  if (rows || columns)
    x = cn_constant_pad_nd(x, CN_SHAPE(columns / 2, columns - columns / 2, rows / 2, rows - rows / 2));
  call->out[0] = cn_forward(cn_module_child(m, 1), cn_cat(CN_TENSORS(beside, x), .dim = 1));
  return cn_err();
}

static const cn_module_class up_class = {
  CN_MODULE_CLASS,
  .name = "Up", .call = "(Tensor x, Tensor beside) -> Tensor", .forward = up_forward};

static cn_module *up(int64_t in, int64_t out)
{
  cn_module *m = cn_module_new(&up_class);
  cni_add(m, "up", cn_nn_conv_transpose2d(in, in / 2, 2, .stride = CN_INTS(2)));
  cni_add(m, "conv", double_conv(in, out));
  return m;
}

static const cn_module_class out_class = {CN_MODULE_CLASS, .name = "OutConv", .forward = cn_forward_children};

enum { DEPTH = 4 };

/* Children: inc, down1 to 4, up1 to 4, outc. */
static cn_tensor *unet_apply(cn_module *m, cn_tensor *x)
{
  cn_tensor *seen[DEPTH + 1];
  if (cn_ndim(x) != 4 || cn_size(x, 2) >> DEPTH < 1 || cn_size(x, 3) >> DEPTH < 1) {
    cn_err_set(CN_ERR_SHAPE, "unet: images must be (N, C, H, W) with sides of %d or more", 1 << DEPTH);
    return NULL;
  }
  for (size_t i = 0; i <= DEPTH; i++)
    if (!(seen[i] = x = cn_forward(cn_module_child(m, i), x))) return NULL;
  for (size_t i = 0; i < DEPTH; i++) x = cn_forward(cn_module_child(m, 1 + DEPTH + i), x, seen[DEPTH - 1 - i]);
  return cn_forward(cn_module_child(m, 1 + 2 * DEPTH), x);
}

static const cn_module_class unet_class = {CN_MODULE_CLASS, .name = "UNet", .apply = unet_apply};

static cn_module *make_unet(const cni_model *row, const cn_zoo_opts *o)
{
  static const char *const downs[] = {"down1", "down2", "down3", "down4"}, *const ups[] = {"up1", "up2", "up3", "up4"};
  (void)row;
  cn_module *m = cn_module_new(&unet_class), *out = cn_module_new(&out_class);
  cni_add(m, "inc", double_conv(cni_or(o->channels, 3), 64));
  for (int i = 0; i < DEPTH; i++) cni_add(m, downs[i], down((int64_t)64 << i, (int64_t)128 << i));
  for (int i = 0; i < DEPTH; i++) cni_add(m, ups[i], up((int64_t)1024 >> i, (int64_t)512 >> i));
  cni_add(out, "conv", cn_nn_conv2d(64, cni_or(o->classes, 2), 1));
  cni_add(m, "outc", out);
  return cni_made(m);
}

const cni_model cni_zoo_unet[] = {
  {"unet", "U-Net for segmentation: scores of 2 classes (.classes) for each pixel", make_unet, CNI_IMAGES, NULL, NULL,
   NULL, NULL},
  {0},
};
