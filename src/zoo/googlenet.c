/* googlenet.c: GoogLeNet: blocks of four branches side by side, and two classifiers on the way that help training.
 *
 * Place in the flow: a family of the zoo. Invariant: names of parameters, first weights and what forward gives in
 * training are torchvision's. */
#include <string.h>

#include "zoo.h"

/* ---- parts ---- */

/* conv, bn */
static cn_tensor *basic_apply(cn_module *m, cn_tensor *x)
{
  return cn_relu_(cn_forward(cn_module_child(m, 1), cn_forward(cn_module_child(m, 0), x)));
}

static const cn_module_class basic_class = {CN_MODULE_CLASS, .name = "BasicConv2d", .apply = basic_apply};

static cn_module *basic(int64_t in, int64_t out, int64_t kernel, int64_t stride)
{
  cn_module *m = cn_module_new(&basic_class);
  cni_add(m, "conv", cni_zoo_conv(in, out, kernel, stride));
  cni_add(m, "bn", cn_nn_batch_norm2d(out, .eps = 0.001));
  return m;
}

static cn_tensor *inception_apply(cn_module *m, cn_tensor *x)
{
  cn_tensor *y[4];
  for (size_t i = 0; i < 4; i++) y[i] = cn_forward(cn_module_child(m, i), x);
  return cn_cat(y, 4, .dim = 1);
}

static const cn_module_class inception_class = {CN_MODULE_CLASS, .name = "Inception", .apply = inception_apply};

/* Channels: in; of the 1 x 1 branch; before and behind the second and the third one; behind the pooling. */
typedef struct branches {
  const char *name;
  int in, one, before2, two, before3, three, pooled;
} branches;

static cn_module *inception(const branches *b)
{
  cn_module *m = cn_module_new(&inception_class);
  cni_add(m, "branch1", basic(b->in, b->one, 1, 1));
  cni_add(m, "branch2", cn_nn_sequential(basic(b->in, b->before2, 1, 1), basic(b->before2, b->two, 3, 1)));
  /* The paper has a kernel of 5 here; torchvision's weights are of one of 3. */
  cni_add(m, "branch3", cn_nn_sequential(basic(b->in, b->before3, 1, 1), basic(b->before3, b->three, 3, 1)));
  cn_module *pool = cn_nn_max_pool2d(3, .stride = CN_INTS(1), .padding = CN_INTS(1), .ceil_mode = true);
  cni_add(m, "branch4", cn_nn_sequential(pool, basic(b->in, b->pooled, 1, 1)));
  return m;
}

/* x: (B, C, H, W). Children: conv, fc1, fc2, dropout. */
static cn_tensor *aux_apply(cn_module *m, cn_tensor *x)
{
  cn_tensor *y = cn_forward(cn_module_child(m, 0), cn_adaptive_avg_pool2d(x, CN_SHAPE(4, 4)));
  y = cn_relu_(cn_forward(cn_module_child(m, 1), cn_flatten(y, .start_dim = 1)));
  return cn_forward(cn_module_child(m, 2), cn_forward(cn_module_child(m, 3), y));
}

static const cn_module_class aux_class = {CN_MODULE_CLASS, .name = "InceptionAux", .apply = aux_apply};

static cn_module *aux(int64_t in, int64_t classes, double dropout)
{
  cn_module *m = cn_module_new(&aux_class);
  cni_add(m, "conv", basic(in, 128, 1, 1));
  cni_add(m, "fc1", cn_nn_linear(128 * 4 * 4, 1024));
  cni_add(m, "fc2", cn_nn_linear(1024, classes));
  cni_add(m, "dropout", cn_nn_dropout(.p = cni_given(dropout)));
  return m;
}

/* ---- the network ---- */

enum { AUX_LOGITS, TRANSFORM_INPUT };

/* From the mean and deviation of ImageNet to a half each. x: (B, 3, H, W) */
static cn_tensor *transformed(cn_tensor *x)
{
  static const double scale[] = {0.229 / 0.5, 0.224 / 0.5, 0.225 / 0.5};
  static const double shift[] = {(0.485 - 0.5) / 0.5, (0.456 - 0.5) / 0.5, (0.406 - 0.5) / 0.5};
  cn_tensor *t[2] = {cn_from_data(scale, CN_SHAPE(3, 1, 1), CN_F64), cn_from_data(shift, CN_SHAPE(3, 1, 1), CN_F64)};
  for (int i = 0; i < 2; i++) t[i] = cn_to_device(cn_cast(t[i], cn_dtype_of(x)), cn_device_of(x));
  return cn_add(cn_mul(x, t[0]), t[1]);
}

/* Up to, without, the child of that name; *i goes on. */
static cn_tensor *run_to(cn_module *m, const char *name, size_t *i, cn_tensor *x)
{
  for (; x && *i < cn_module_nchildren(m) && strcmp(cn_module_child_name(m, *i), name) != 0; ++*i)
    x = cn_forward(cn_module_child(m, *i), x);
  return x;
}

/* Children: all blocks in order, aux1 and aux2 where they are, avgpool, dropout, fc. In training the classifiers on the
 * way see what goes into inception4b and 4e. */
static int googlenet_forward(cn_module *m, cn_module_call *call)
{
  const cn_value *a = cn_args_values(cn_module_args(m));
  bool helped = cn_module_training(m) && a[AUX_LOGITS].u.i;
  cn_tensor *x = call->args[0].u.t, *helpers[2] = {NULL};
  size_t i = 0;
  if (a[TRANSFORM_INPUT].u.i) x = transformed(x);
  for (int k = 0; k < 2; k++) {
    cn_module *helper = helped ? cn_module_find(m, k ? "aux2" : "aux1") : NULL;
    x = run_to(m, k ? "inception4e" : "inception4b", &i, x);
    if (helper) helpers[k] = cn_forward(helper, x);
  }
  x = run_to(m, cn_module_find(m, "aux1") ? "aux1" : "avgpool", &i, x);
  cn_module *last[] = {cn_module_find(m, "avgpool"), cn_module_find(m, "dropout"), cn_module_find(m, "fc")};
  x = cn_flatten(cn_forward(last[0], x), .start_dim = 1);
  call->out[0] = cn_forward(last[2], cn_forward(last[1], x));
  if (call->nout > 1) call->out[1] = helpers[1];
  if (call->nout > 2) call->out[2] = helpers[0];
  return cn_err();
}

static const cn_module_class googlenet_class = {
  CN_MODULE_CLASS,
  .name = "GoogLeNet",
  .sig = "GoogLeNet(bool aux_logits, bool transform_input) -> Module",
  .call = "(Tensor x) -> (Tensor logits, Tensor aux_logits2, Tensor aux_logits1)",
  .forward = googlenet_forward,
  .print = cni_print_nothing,
};

static cn_module *pool(int64_t kernel) { return cn_nn_max_pool2d(kernel, .stride = CN_INTS(2), .ceil_mode = true); }

static void add_blocks(cn_module *m, int64_t channels)
{
  static const branches blocks[] = {
    {"inception3a", 192, 64, 96, 128, 16, 32, 32},    {"inception3b", 256, 128, 128, 192, 32, 96, 64},
    {"maxpool3", 3, 0, 0, 0, 0, 0, 0},                {"inception4a", 480, 192, 96, 208, 16, 48, 64},
    {"inception4b", 512, 160, 112, 224, 24, 64, 64},  {"inception4c", 512, 128, 128, 256, 24, 64, 64},
    {"inception4d", 512, 112, 144, 288, 32, 64, 64},  {"inception4e", 528, 256, 160, 320, 32, 128, 128},
    {"maxpool4", 2, 0, 0, 0, 0, 0, 0},                {"inception5a", 832, 256, 160, 320, 32, 128, 128},
    {"inception5b", 832, 384, 192, 384, 48, 128, 128}};
  cni_add(m, "conv1", basic(channels, 64, 7, 2));
  cni_add(m, "maxpool1", pool(3));
  cni_add(m, "conv2", basic(64, 64, 1, 1));
  cni_add(m, "conv3", basic(64, 192, 3, 1));
  cni_add(m, "maxpool2", pool(3));
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
    cni_add(m, blocks[i].name, blocks[i].one ? inception(&blocks[i]) : pool(blocks[i].in));
}

static int draw(cn_module *layer) { return cn_init_trunc_normal(cn_module_slot(layer, 0), 0, 0.01, -2, 2); }

/* The weights that torchvision publishes are for transformed images, and their classifiers on the way were not trained:
 * with them the one is on and the other off, as there. */
static cn_module *make_googlenet(const cni_model *row, const cn_zoo_opts *o)
{
  bool published = o->pretrained && cni_is_published(row, o->pretrained);
  bool helped = cni_setting_bool(o->config, "aux_logits", !published);
  bool transform = cni_setting_bool(o->config, "transform_input", published);
  int64_t classes = cni_or(o->classes, 1000), channels = cni_or(o->channels, 3);
  double dropout = cni_setting_float(o->config, "dropout", 0.2);
  double aux_dropout = cni_setting_float(o->config, "dropout_aux", 0.7);
  if (transform && channels != 3) {
    cn_err_set(CN_ERR_VALUE, "%s: transform_input is for images of 3 channels", row->name);
    return NULL;
  }
  cn_module *m = cn_module_new_with(&googlenet_class, (const cn_value[]){cn_v_bool(helped), cn_v_bool(transform)}, 2);
  add_blocks(m, channels);
  if (helped) cni_add(m, "aux1", aux(512, classes, aux_dropout));
  if (helped) cni_add(m, "aux2", aux(528, classes, aux_dropout));
  cni_add(m, "avgpool", cn_nn_adaptive_avg_pool2d(1));
  cni_add(m, "dropout", cn_nn_dropout(.p = cni_given(dropout)));
  cni_add(m, "fc", cn_nn_linear(1024, classes));
  if (!o->pretrained && cni_setting_bool(o->config, "init_weights", true)) cni_init_layers(m, draw, draw);
  return cni_made(m);
}

static const cni_setting_row settings[] = {{"aux_logits", CN_TREE_BOOL},   {"transform_input", CN_TREE_BOOL},
                                           {"init_weights", CN_TREE_BOOL}, {"dropout", CN_TREE_FLOAT},
                                           {"dropout_aux", CN_TREE_FLOAT}, {0}};

const cni_model cni_zoo_googlenet[] = {
  {"googlenet", "GoogLeNet, with two classifiers on the way in training", make_googlenet, CNI_IMAGES, NULL, NULL,
   "googlenet-1378be20.pth", settings},
  {0},
};
