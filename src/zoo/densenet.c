/* densenet.c: DenseNet 121 to 201: layers each of which sees the results of all before it.
 *
 * Place in the flow: a family of the zoo. Invariant: names of parameters are torchvision's. */
#include "zoo.h"

typedef struct plan {
  int growth, layers[4], width; /* channels that a layer adds; layers of the blocks; channels in the beginning */
} plan;

/* ---- a layer ---- */

/* Children: norm1, relu1, conv1, norm2, relu2, conv2. x: (B, all channels so far, H, W) */
static cn_tensor *layer_apply(cn_module *m, cn_tensor *x)
{
  double p = cn_args_values(cn_module_args(m))[0].u.f;
  for (size_t i = 0; i < 6; i++) x = cn_forward(cn_module_child(m, i), x);
  return p > 0 && cn_module_training(m) ? cn_dropout(x, .p = p) : x;
}

static const cn_module_class layer_class = {
  CN_MODULE_CLASS,
  .name = "_DenseLayer",
  .sig = "_DenseLayer(float drop_rate) -> Module",
  .apply = layer_apply,
  .print = cni_print_nothing,
};

static cn_module *layer(int64_t in, int64_t growth, int64_t bn_size, double drop_rate)
{
  int64_t middle = bn_size * growth;
  cn_module *m = cn_module_new_with(&layer_class, (const cn_value[]){cn_v_float(drop_rate)}, 1);
  cni_add(m, "norm1", cn_nn_batch_norm2d(in));
  cni_add(m, "relu1", cni_relu());
  cni_add(m, "conv1", cni_zoo_conv(in, middle, 1, 1));
  cni_add(m, "norm2", cn_nn_batch_norm2d(middle));
  cni_add(m, "relu2", cni_relu());
  cni_add(m, "conv2", cni_zoo_conv(middle, growth, 3, 1));
  return m;
}

/* ---- a block ---- */

/* What a layer has seen is dropped when its result stands beside it. */
static int block_forward(cn_module *m, cn_module_call *call)
{
  cn_tensor *x = cn_keep(call->args[0].u.t);
  for (size_t i = 0; x && i < cn_module_nchildren(m); i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *more = cn_keep(cn_cat(CN_TENSORS(x, cn_forward(cn_module_child(m, i), x)), .dim = 1));
    cn_scope_end(s);
    cn_release(x);
    x = more;
  }
  call->out[0] = x ? cn_scope_give(x) : NULL;
  return cn_err();
}

static const cn_module_class block_class = {CN_MODULE_CLASS, .name = "_DenseBlock", .forward = block_forward};

static void add_numbered(cn_module *m, const char *name, int i, cn_module *child)
{
  cn_text text = {0};
  cn_text_putf(&text, "%s%d", name, i + 1);
  cni_add(m, text.s, child);
  cn_text_free(&text);
}

static const cn_module_class transition_class = {
  CN_MODULE_CLASS, .name = "_Transition", .forward = cn_forward_children};

/* Half the channels, half the sides. */
static cn_module *transition(int64_t in)
{
  cn_module *m = cn_module_new(&transition_class);
  cni_add(m, "norm", cn_nn_batch_norm2d(in));
  cni_add(m, "relu", cni_relu());
  cni_add(m, "conv", cni_zoo_conv(in, in / 2, 1, 1));
  cni_add(m, "pool", cn_nn_avg_pool2d(2, .stride = CN_INTS(2)));
  return m;
}

/* ---- the network ---- */

/* features, classifier */
static cn_tensor *densenet_apply(cn_module *m, cn_tensor *x)
{
  cn_tensor *y = cn_relu_(cn_forward(cn_module_child(m, 0), x));
  y = cn_flatten(cn_adaptive_avg_pool2d(y, CN_SHAPE(1, 1)), .start_dim = 1);
  return cn_forward(cn_module_child(m, 1), y);
}

static const cn_module_class densenet_class = {CN_MODULE_CLASS, .name = "DenseNet", .apply = densenet_apply};

static int draw(cn_module *layer) { return cn_init_kaiming_normal(cn_module_slot(layer, 0)); }

static cn_module *make_densenet(const cni_model *row, const cn_zoo_opts *o)
{
  const plan *p = row->plan;
  int64_t width = p->width, bn_size = cni_setting(o->config, "bn_size", 4);
  double drop_rate = cni_setting_float(o->config, "drop_rate", 0);
  if (bn_size < 1 || bn_size > 1 << 16 || !(drop_rate >= 0 && drop_rate <= 1)) {
    cn_err_set(CN_ERR_VALUE, "%s: bn_size must be 1 or more, and drop_rate between 0 and 1", row->name);
    return NULL;
  }
  cn_module *m = cn_module_new(&densenet_class), *features = cn_nn_sequential_of(NULL, 0);
  cni_add(features, "conv0", cni_zoo_conv(cni_or(o->channels, 3), width, 7, 2));
  cni_add(features, "norm0", cn_nn_batch_norm2d(width));
  cni_add(features, "relu0", cni_relu());
  cni_add(features, "pool0", cn_nn_max_pool2d(3, .stride = CN_INTS(2), .padding = CN_INTS(1)));
  for (int i = 0; i < 4; i++) {
    cn_module *block = cn_module_new(&block_class);
    for (int k = 0; k < p->layers[i]; k++, width += p->growth)
      add_numbered(block, "denselayer", k, layer(width, p->growth, bn_size, drop_rate));
    add_numbered(features, "denseblock", i, block);
    if (i == 3) break;
    add_numbered(features, "transition", i, transition(width));
    width /= 2;
  }
  cni_add(features, "norm5", cn_nn_batch_norm2d(width));
  cni_add(m, "features", features);
  cni_add(m, "classifier", cn_nn_linear(width, cni_or(o->classes, 1000)));
  if (!o->pretrained) cni_init_layers(m, draw, cni_zero_bias);
  return cni_made(m);
}

static const cni_setting_row settings[] = {{"bn_size", CN_TREE_INT}, {"drop_rate", CN_TREE_FLOAT}, {0}};

#define DENSENET(name, doc, file, ...) \
  {name, doc, make_densenet, CNI_IMAGES, &(const plan){__VA_ARGS__}, NULL, file, settings}

const cni_model cni_zoo_densenet[] = {
  DENSENET("densenet121", "DenseNet with 121 layers", "densenet121-a639ec97.pth", 32, {6, 12, 24, 16}, 64),
  DENSENET("densenet161", "DenseNet with 161 layers", "densenet161-8d451a50.pth", 48, {6, 12, 36, 24}, 96),
  DENSENET("densenet169", "DenseNet with 169 layers", "densenet169-b2777c0a.pth", 32, {6, 12, 32, 32}, 64),
  DENSENET("densenet201", "DenseNet with 201 layers", "densenet201-c1103571.pth", 32, {6, 12, 48, 32}, 64),
  {0},
};
