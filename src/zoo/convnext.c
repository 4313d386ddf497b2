/* convnext.c: ConvNeXt: a convolutional network with the habits of transformers: layer norms, GELU, wide steps.
 *
 * Place in the flow: a family of the zoo. Invariant: names of parameters and first weights are torchvision's. */
#include "zoo.h"

typedef struct plan {
  int width, third; /* channels in the beginning; blocks of the third stage, the others have 3 */
  double drop;      /* stochastic depth of the last block */
} plan;

enum { STAGES = 4 };
static const double EPS = 1e-6; /* of layer norms */

/* ---- norms and orders ---- */

/* Over the channels of x: (B, C, H, W). Slots: weight (C), bias (C). */
static cn_tensor *norm_apply(cn_module *m, cn_tensor *x)
{
  const cn_value *a = cn_args_values(cn_module_args(m));
  cn_tensor *y = cn_layer_norm(cn_permute(x, CN_SHAPE(0, 2, 3, 1)), a[0].u.is, (size_t)a[0].n, cn_module_slot(m, 0),
                               cn_module_slot(m, 1), .eps = cni_given(a[1].u.f));
  return cn_permute(y, CN_SHAPE(0, 3, 1, 2));
}

static void norm_print(const cn_module *m, cn_text *text)
{
  const cn_value *a = cn_args_values(cn_module_args(m));
  cn_text_putf(text, "(%lld,), eps=%g, elementwise_affine=True, bias=True", (long long)a[0].u.is[0], a[1].u.f);
}

static int norm_init(cn_module *m, const cn_value *a)
{
  cn_module_add_parameter(m, "weight", cn_ones(a[0].u.is, (size_t)a[0].n));
  cn_module_add_parameter(m, "bias", cn_zeros(a[0].u.is, (size_t)a[0].n));
  return cn_err();
}

static const cn_module_class norm_class = {
  CN_MODULE_CLASS,
  .name = "LayerNorm2d",
  .sig = "LayerNorm2d(int[] normalized_shape, float eps, bool elementwise_affine=True) -> Module",
  .init = norm_init,
  .apply = norm_apply,
  .print = norm_print,
};

static cn_module *norm(int64_t width)
{
  return cn_module_make_class(&norm_class, (const cn_value[]){cn_v_ints(&width, 1), cn_v_float(EPS)}, 2);
}

static cn_tensor *permute_apply(cn_module *m, cn_tensor *x)
{
  const cn_value *dims = cn_args_values(cn_module_args(m));
  return cn_permute(x, dims->u.is, (size_t)dims->n);
}

static const cn_module_class permute_class = {
  CN_MODULE_CLASS,
  .name = "Permute", .sig = "Permute(int[] dims) -> Module", .apply = permute_apply, .print = cni_print_nothing};

static cn_module *permute(const int64_t *dims, size_t n)
{
  return cn_module_new_with(&permute_class, (const cn_value[]){cn_v_ints(dims, n)}, 1);
}

/* ---- a block ---- */

/* Slot: layer_scale (C, 1, 1). Children: block, stochastic_depth. */
static cn_tensor *block_apply(cn_module *m, cn_tensor *x)
{
  cn_tensor *y = cn_mul(cn_module_slot(m, 0), cn_forward(cn_module_child(m, 0), x));
  return cn_add(cn_forward(cn_module_child(m, 1), y), x);
}

static const cn_module_class block_class = {CN_MODULE_CLASS, .name = "CNBlock", .apply = block_apply};

static cn_module *block(int64_t width, double scale, double drop)
{
  cn_module *m = cn_module_new(&block_class);
  if (m) cn_module_add_parameter(m, "layer_scale", cn_full(CN_SHAPE(width, 1, 1), scale, .dtype = CN_F32));
  cni_add(m, "block",
          cn_nn_sequential(cn_nn_conv2d(width, width, 7, .padding = CN_INTS(3), .groups = width),
                           permute(CN_SHAPE(0, 2, 3, 1)), cn_nn_layer_norm(CN_SHAPE(width), .eps = EPS),
                           cn_nn_linear(width, 4 * width), cn_nn_gelu(), cn_nn_linear(4 * width, width),
                           permute(CN_SHAPE(0, 3, 1, 2))));
  cni_add(m, "stochastic_depth", cni_stochastic_depth(drop));
  return m;
}

/* ---- the network ---- */

/* features, avgpool, classifier, which makes flat what it gets */
static cn_tensor *convnext_apply(cn_module *m, cn_tensor *x)
{
  for (size_t i = 0; i < 3; i++) x = cn_forward(cn_module_child(m, i), x);
  return x;
}

static const cn_module_class convnext_class = {CN_MODULE_CLASS, .name = "ConvNeXt", .apply = convnext_apply};

static int draw(cn_module *layer)
{
  int status = cn_init_trunc_normal(cn_module_slot(layer, 0), 0, 0.02, -2, 2);
  return status ? status : cni_zero_bias(layer);
}

static cn_module *features(const plan *p, const cn_zoo_opts *o)
{
  double scale = cni_setting_float(o->config, "layer_scale", 1e-6);
  double drop = cni_setting_float(o->config, "stochastic_depth_prob", p->drop);
  int64_t width = p->width, done = 0, last = 3 * (STAGES - 1) + p->third - 1;
  cn_module *m = cn_nn_sequential_of(NULL, 0), *stem = cni_conv_norm_of(width);
  cni_add(stem, NULL, cn_nn_conv2d(cni_or(o->channels, 3), width, 4, .stride = CN_INTS(4)));
  cni_add(stem, NULL, norm(width));
  cni_add(m, NULL, stem);
  for (int i = 0; i < STAGES; i++) {
    cn_module *stage = cn_nn_sequential_of(NULL, 0);
    for (int k = 0; k < (i == 2 ? p->third : 3); k++, done++)
      cni_add(stage, NULL, block(width, scale, drop * (double)done / (double)last));
    cni_add(m, NULL, stage);
    if (i + 1 == STAGES) break;
    cni_add(m, NULL, cn_nn_sequential(norm(width), cn_nn_conv2d(width, 2 * width, 2, .stride = CN_INTS(2))));
    width *= 2;
  }
  return m;
}

static cn_module *make_convnext(const cni_model *row, const cn_zoo_opts *o)
{
  const plan *p = row->plan;
  int64_t width = (int64_t)p->width << (STAGES - 1);
  cn_module *m = cn_module_new(&convnext_class);
  cni_add(m, "features", features(p, o));
  cni_add(m, "avgpool", cn_nn_adaptive_avg_pool2d(1));
  cni_add(m, "classifier",
          cn_nn_sequential(norm(width), cn_nn_flatten(), cn_nn_linear(width, cni_or(o->classes, 1000))));
  if (!o->pretrained) cni_init_layers(m, draw, draw);
  return cni_made(m);
}

static const cni_setting_row settings[] = {
  {"layer_scale", CN_TREE_FLOAT}, {"stochastic_depth_prob", CN_TREE_FLOAT}, {0}};

#define CONVNEXT(name, doc, file, ...) \
  {name, doc, make_convnext, CNI_IMAGES, &(const plan){__VA_ARGS__}, NULL, file, settings}

const cni_model cni_zoo_convnext[] = {
  CONVNEXT("convnext_tiny", "ConvNeXt, tiny", "convnext_tiny-983f1562.pth", 96, 9, 0.1),
  CONVNEXT("convnext_small", "ConvNeXt, small", "convnext_small-0c510722.pth", 96, 27, 0.4),
  CONVNEXT("convnext_base", "ConvNeXt, base", "convnext_base-6075fbad.pth", 128, 27, 0.5),
  CONVNEXT("convnext_large", "ConvNeXt, large", "convnext_large-ea097f82.pth", 192, 27, 0.5),
  {0},
};
