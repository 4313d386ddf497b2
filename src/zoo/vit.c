/* vit.c: vision transformers: an image as a sequence of patches, and a token in front that learns its class.
 *
 * Place in the flow: a family of the zoo. Invariant: names of parameters and first weights are torchvision's. */
#include <math.h>

#include "zoo.h"

typedef struct plan {
  int patch, layers, heads, width, inner;
} plan;

typedef struct dropouts {
  double all, attention;
} dropouts;

static const double EPS = 1e-6; /* of layer norms */

static cn_module *norm(int64_t width) { return cn_nn_layer_norm(CN_SHAPE(width), .eps = EPS); }

/* ---- a layer ---- */

static const cn_module_class mlp_class = {CN_MODULE_CLASS, .name = "MLPBlock", .forward = cn_forward_children};

static cn_module *mlp_linear(int64_t in, int64_t out)
{
  cn_module *m = cn_nn_linear(in, out);
  if (m && !cn_init_xavier_uniform(cn_module_slot(m, 0), 1)) cn_init_normal(cn_module_slot(m, 1), 0, 1e-6);
  return m;
}

static cn_module *mlp(int64_t width, int64_t inner, double dropout)
{
  cn_module *m = cn_module_new(&mlp_class);
  cni_add(m, NULL, mlp_linear(width, inner));
  cni_add(m, NULL, cn_nn_gelu());
  cni_add(m, NULL, cn_nn_dropout(.p = cni_given(dropout)));
  cni_add(m, NULL, mlp_linear(inner, width));
  cni_add(m, NULL, cn_nn_dropout(.p = cni_given(dropout)));
  return m;
}

enum { LN_1, ATTENTION, DROPOUT, LN_2, MLP };

/* x: (N, T, width) */
static cn_tensor *layer_apply(cn_module *m, cn_tensor *x)
{
  cn_tensor *y = cn_forward(cn_module_child(m, LN_1), x);
  y = cn_forward(cn_module_child(m, DROPOUT), cn_forward(cn_module_child(m, ATTENTION), y, y, y));
  x = cn_add(y, x);
  return cn_add(x, cn_forward(cn_module_child(m, MLP), cn_forward(cn_module_child(m, LN_2), x)));
}

static const cn_module_class layer_class = {CN_MODULE_CLASS, .name = "EncoderBlock", .apply = layer_apply};

static cn_module *layer(const plan *p, const dropouts *d)
{
  cn_module *m = cn_module_new(&layer_class);
  cni_add(m, "ln_1", norm(p->width));
  cni_add(m, "self_attention",
          cn_nn_multihead_attention(p->width, p->heads, .dropout = d->attention, .batch_first = true));
  cni_add(m, "dropout", cn_nn_dropout(.p = cni_given(d->all)));
  cni_add(m, "ln_2", norm(p->width));
  cni_add(m, "mlp", mlp(p->width, p->inner, d->all));
  return m;
}

/* ---- all layers ---- */

/* Slot: pos_embedding (1, T, width). Children: dropout, layers, ln. */
static int encoder_forward(cn_module *m, cn_module_call *call)
{
  cn_tensor *x = cn_add(call->args[0].u.t, cn_module_slot(m, 0));
  for (size_t i = 0; i < cn_module_nchildren(m); i++) x = cn_forward(cn_module_child(m, i), x);
  call->out[0] = x;
  return cn_err();
}

static const cn_module_class encoder_class = {CN_MODULE_CLASS, .name = "Encoder", .forward = encoder_forward};

static cn_module *encoder(const plan *p, const dropouts *d, int64_t places)
{
  cn_module *m = cn_module_new(&encoder_class), *layers = cn_nn_sequential_of(NULL, 0);
  cn_tensor *positions = cn_zeros(CN_SHAPE(1, places, p->width));
  if (m && positions && !cn_init_normal(positions, 0, 0.02)) cn_module_add_parameter(m, "pos_embedding", positions);
  for (int i = 0; i < p->layers; i++) {
    cn_text name = {0};
    cn_text_putf(&name, "encoder_layer_%d", i);
    cni_add(layers, name.s, layer(p, d));
    cn_text_free(&name);
  }
  cni_add(m, "dropout", cn_nn_dropout(.p = cni_given(d->all)));
  cni_add(m, "layers", layers);
  cni_add(m, "ln", norm(p->width));
  return m;
}

/* ---- the network ---- */

typedef struct vit {
  int64_t image;
} vit;

/* x: (N, C, image, image). Slot: class_token (1, 1, width). Children: conv_proj, encoder, heads. */
static cn_tensor *vit_apply(cn_module *m, cn_tensor *x)
{
  const vit *d = m->data;
  if (cn_ndim(x) != 4 || cn_size(x, 2) != d->image || cn_size(x, 3) != d->image) {
    cn_err_set(CN_ERR_SHAPE, "vit: images must be (N, C, %lld, %lld); .image makes a network for others",
               (long long)d->image, (long long)d->image);
    return NULL;
  }
  cn_tensor *patches = cn_flatten(cn_forward(cn_module_child(m, 0), x), .start_dim = 2); /* (N, width, T) */
  cn_tensor *first = cn_expand(cn_module_slot(m, 0), CN_SHAPE(cn_size(x, 0), -1, -1));
  cn_tensor *y = cn_cat(CN_TENSORS(first, cn_transpose(patches, 1, 2)), .dim = 1);
  y = cn_select(cn_forward(cn_module_child(m, 1), y), 1, 0);
  return cn_forward(cn_module_child(m, 2), y);
}

static const cn_module_class vit_class = {CN_MODULE_CLASS, .name = "VisionTransformer", .data_size = sizeof(vit),
  .apply = vit_apply};

/* The deviation is that of the normal distribution before it is cut off at +-2, as torchvision has it. */
static cn_module *patches(const plan *p, int64_t channels)
{
  cn_module *m = cn_nn_conv2d(channels, p->width, p->patch, .stride = CN_INTS(p->patch));
  double inputs = (double)channels * p->patch * p->patch;
  if (m && !cn_init_trunc_normal(cn_module_slot(m, 0), 0, sqrt(1 / inputs), -2, 2)) cn_init_zeros(cn_module_slot(m, 1));
  return m;
}

static cn_module *head(int64_t in, int64_t classes)
{
  cn_module *m = cn_nn_sequential_of(NULL, 0), *linear = cn_nn_linear(in, classes);
  if (linear && !cn_init_zeros(cn_module_slot(linear, 0))) cn_init_zeros(cn_module_slot(linear, 1));
  cni_add(m, "head", linear);
  return m;
}

static cn_module *make_vit(const cni_model *row, const cn_zoo_opts *o)
{
  const plan *p = row->plan;
  int64_t image = cni_or(o->image, 224), channels = cni_or(o->channels, 3), side = image / p->patch;
  if (image < p->patch || image % p->patch) {
    cn_err_set(CN_ERR_VALUE, "%s: the side of images, %lld, must be a multiple of %d", row->name, (long long)image,
               p->patch);
    return NULL;
  }
  dropouts d = {cni_setting_float(o->config, "dropout", 0), cni_setting_float(o->config, "attention_dropout", 0)};
  cn_module *m = cn_module_new(&vit_class);
  if (m) {
    ((vit *)m->data)->image = image;
    cn_module_add_parameter(m, "class_token", cn_zeros(CN_SHAPE(1, 1, p->width)));
  }
  cni_add(m, "conv_proj", patches(p, channels));
  cni_add(m, "encoder", encoder(p, &d, side * side + 1));
  cni_add(m, "heads", head(p->width, cni_or(o->classes, 1000)));
  return cni_made(m);
}

static const cni_setting_row settings[] = {{"dropout", CN_TREE_FLOAT}, {"attention_dropout", CN_TREE_FLOAT}, {0}};

#define VIT(name, doc, file, ...) \
  {name, doc, make_vit, CNI_IMAGES | CNI_IMAGE, &(const plan){__VA_ARGS__}, NULL, file, settings}

const cni_model cni_zoo_vit[] = {
  VIT("vit_b_16", "vision transformer, 12 layers, patches of 16", "vit_b_16-c867db91.pth", 16, 12, 12, 768, 3072),
  VIT("vit_b_32", "vision transformer, 12 layers, patches of 32", "vit_b_32-d86f8d99.pth", 32, 12, 12, 768, 3072),
  VIT("vit_l_16", "vision transformer, 24 layers, patches of 16", "vit_l_16-852ce7e3.pth", 16, 24, 16, 1024, 4096),
  VIT("vit_l_32", "vision transformer, 24 layers, patches of 32", "vit_l_32-c7638314.pth", 32, 24, 16, 1024, 4096),
  VIT("vit_h_14", "vision transformer, 32 layers, patches of 14", NULL, 14, 32, 16, 1280, 5120),
  {0},
};
