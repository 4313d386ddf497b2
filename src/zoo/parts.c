/* parts.c: what several of torchvision's families are put together from: convolutions with norm and activation, squeeze
 * and excitation, stochastic depth, blocks with a shortcut. See zoo.h.
 *
 * Place in the flow: between layers (cairn/nn.h) and the families. Invariant: classes, children and arguments have
 * torchvision's names, so that paths and attributes of other languages are the same. */
#include <string.h>

#include "zoo.h"

void cni_print_nothing(const cn_module *m, cn_text *text)
{
  (void)m;
  cn_text_put(text, "");
}

cn_module *cni_silu(void) { return cn_nn_silu(.inplace = true); }
cn_module *cni_hardswish(void) { return cn_nn_hardswish(.inplace = true); }

int64_t cni_divisible(double v)
{
  int64_t made = (int64_t)(v + 4) / 8 * 8;
  if (made < 8) made = 8;
  return (double)made < 0.9 * v ? made + 8 : made;
}

/* ---- a convolution, its norm and its activation ---- */

static const cn_module_class conv_norm_class = {
  CN_MODULE_CLASS,
  .name = "Conv2dNormActivation",
  .sig = "Conv2dNormActivation(int out_channels) -> Module",
  .forward = cn_forward_children,
  .print = cni_print_nothing,
};

cn_module *cni_conv_norm_of(int64_t out)
{
  return cn_module_new_with(&conv_norm_class, (const cn_value[]){cn_v_int(out)}, 1);
}

cn_module *cni_conv_norm(const cni_style *style, int64_t in, int64_t out, int64_t kernel, int64_t stride,
                         int64_t groups)
{
  cn_module *m = cni_conv_norm_of(out);
  cni_add(m, NULL, cn_nn_conv2d(in, out, kernel, .stride = CN_INTS(stride), .padding = CN_INTS(kernel / 2),
                                .groups = groups, .no_bias = true));
  cni_add(m, NULL, cn_nn_batch_norm2d(out, .eps = style->eps, .momentum = style->momentum));
  if (style->activation) cni_add(m, NULL, style->activation());
  return m;
}

/* ---- squeeze and excitation ---- */

enum { AVGPOOL, FC1, FC2, ACTIVATION, SCALE };

/* x: (B, C, H, W) */
static cn_tensor *excite_apply(cn_module *m, cn_tensor *x)
{
  static const size_t order[] = {AVGPOOL, FC1, ACTIVATION, FC2, SCALE};
  cn_tensor *y = x; /* (B, C, 1, 1) in the end */
  for (size_t i = 0; i < sizeof order / sizeof *order; i++) y = cn_forward(cn_module_child(m, order[i]), y);
  return cn_mul(y, x);
}

static const cn_module_class excite_class = {CN_MODULE_CLASS, .name = "SqueezeExcitation", .apply = excite_apply};

cn_module *cni_squeeze_excitation(int64_t width, int64_t squeezed, cni_layer *activation, cni_layer *scale)
{
  cn_module *m = cn_module_new(&excite_class);
  cni_add(m, "avgpool", cn_nn_adaptive_avg_pool2d(1));
  cni_add(m, "fc1", cn_nn_conv2d(width, squeezed, 1));
  cni_add(m, "fc2", cn_nn_conv2d(squeezed, width, 1));
  cni_add(m, "activation", activation());
  cni_add(m, "scale_activation", scale());
  return m;
}

/* ---- stochastic depth ---- */

enum { P, MODE };

static int depth_init(cn_module *m, const cn_value *a)
{
  if (!(a[P].u.f >= 0 && a[P].u.f <= 1))
    return cn_err_set(CN_ERR_VALUE, "%s: p is a probability, between 0 and 1", m->cls->name);
  if (strcmp(a[MODE].u.s, "row") != 0 && strcmp(a[MODE].u.s, "batch") != 0)
    return cn_err_set(CN_ERR_VALUE, "%s: mode is row or batch, not \"%s\"", m->cls->name, a[MODE].u.s);
  return CN_OK;
}

/* One number for each sample, or for all of them; x: (B, ...) */
static cn_tensor *depth_apply(cn_module *m, cn_tensor *x)
{
  const cn_value *a = cn_args_values(cn_module_args(m));
  double stay = 1 - a[P].u.f;
  int64_t shape[CN_MAX_DIMS];
  if (!cn_module_training(m) || stay >= 1) return x;
  for (int i = 0; i < cn_ndim(x); i++) shape[i] = i || strcmp(a[MODE].u.s, "row") ? 1 : cn_size(x, 0);
  cn_tensor *room = cn_empty(shape, (size_t)cn_ndim(x), .dtype = cn_dtype_of(x), .device = cn_device_of(x));
  cn_tensor *stays = cn_bernoulli_p(room, .p = cni_given(stay));
  return cn_mul(x, stay > 0 ? cn_div(stays, cn_num(stay)) : stays);
}

static const cn_module_class depth_class = {
  CN_MODULE_CLASS,
  .name = "StochasticDepth",
  .sig = "StochasticDepth(float p, str mode) -> Module",
  .init = depth_init,
  .apply = depth_apply,
};

cn_module *cni_stochastic_depth(double p)
{
  return cn_module_make_class(&depth_class, (const cn_value[]){cn_v_float(p), cn_v_str("row")}, 2);
}

/* ---- blocks with a shortcut ---- */

static cn_tensor *shortcut_apply(cn_module *m, cn_tensor *x)
{
  cn_tensor *y = cn_forward(cn_module_child(m, 0), x);
  if (!cn_args_values(cn_module_args(m))[0].u.i) return y;
  if (cn_module_child(m, 1)) y = cn_forward(cn_module_child(m, 1), y);
  return cn_add(y, x);
}

static const cn_module_class inverted_residual_class = {
  CN_MODULE_CLASS,
  .name = "InvertedResidual",
  .sig = "InvertedResidual(bool use_res_connect, int out_channels) -> Module",
  .apply = shortcut_apply,
  .print = cni_print_nothing,
};
static const cn_module_class mb_conv_class = {
  CN_MODULE_CLASS,
  .name = "MBConv",
  .sig = "MBConv(bool use_res_connect, int out_channels) -> Module",
  .apply = shortcut_apply,
  .print = cni_print_nothing,
};

static cn_module *shortcut(const cn_module_class *cls, bool same, int64_t out)
{
  return cn_module_new_with(cls, (const cn_value[]){cn_v_bool(same), cn_v_int(out)}, 2);
}

cn_module *cni_inverted_residual(bool same, int64_t out) { return shortcut(&inverted_residual_class, same, out); }
cn_module *cni_mb_conv(bool same, int64_t out) { return shortcut(&mb_conv_class, same, out); }
