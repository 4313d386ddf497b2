/* efficientnet.c: EfficientNet B0 to B7: one network, made wider and deeper by rule.
 *
 * Place in the flow: a family of the zoo. Invariant: names of parameters and first weights are torchvision's. */
#include <math.h>

#include "zoo.h"

typedef struct plan {
  double wider, deeper, dropout;
  double eps, momentum; /* of batch norms; 0: their own */
} plan;

typedef struct stage {
  int widen, kernel, stride, out, blocks;
} stage;

enum { STAGES = 7 };
static const stage stages[STAGES] = {{1, 3, 1, 16, 1},  {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2}, {6, 3, 2, 80, 3},
                                     {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1}};

static int64_t blocks_of(const plan *p, int i) { return (int64_t)ceil(stages[i].blocks * p->deeper); }

static cn_module *sigmoid(void) { return cn_nn_sigmoid(); }

/* ---- a block ---- */

static cn_module *block(const plan *p, const stage *s, int64_t in, int64_t out, int64_t stride, double drop)
{
  cni_style style = {p->eps, p->momentum, cni_silu}, plain = {p->eps, p->momentum, NULL};
  int64_t middle = cni_divisible((double)(in * s->widen));
  cn_module *m = cni_mb_conv(stride == 1 && in == out, out), *layers = cn_nn_sequential_of(NULL, 0);
  if (middle != in) cni_add(layers, NULL, cni_conv_norm(&style, in, middle, 1, 1, 1));
  cni_add(layers, NULL, cni_conv_norm(&style, middle, middle, s->kernel, stride, middle));
  cni_add(layers, NULL, cni_squeeze_excitation(middle, in / 4 ? in / 4 : 1, cni_silu, sigmoid));
  cni_add(layers, NULL, cni_conv_norm(&plain, middle, out, 1, 1, 1));
  cni_add(m, "block", layers);
  cni_add(m, "stochastic_depth", cni_stochastic_depth(drop));
  return m;
}

/* All stages; blocks are left out with a probability that grows with their depth, up to `drop`. *width: channels. */
static void add_stages(cn_module *features, const plan *p, int64_t *width, double drop)
{
  int64_t all = 0, done = 0;
  for (int i = 0; i < STAGES; i++) all += blocks_of(p, i);
  for (int i = 0; i < STAGES; i++) {
    cn_module *made = cn_nn_sequential_of(NULL, 0);
    int64_t out = cni_divisible(stages[i].out * p->wider);
    for (int64_t k = 0; k < blocks_of(p, i); k++, done++) {
      int64_t stride = k ? 1 : stages[i].stride;
      cni_add(made, NULL, block(p, &stages[i], *width, out, stride, drop * (double)done / (double)all));
      *width = out;
    }
    cni_add(features, NULL, made);
  }
}

/* ---- the network ---- */

/* features, avgpool, classifier */
static int efficientnet_forward(cn_module *m, cn_module_call *call)
{
  return cni_forward_classifier(m, call, 3, false);
}

static const cn_module_class efficientnet_class = {
  CN_MODULE_CLASS, .name = "EfficientNet", .forward = efficientnet_forward};

static int draw_linear(cn_module *layer)
{
  double most = 1 / sqrt((double)cn_size(cn_module_slot(layer, 0), 0));
  int status = cn_init_uniform(cn_module_slot(layer, 0), -most, most);
  return status ? status : cni_zero_bias(layer);
}

static cn_module *make_efficientnet(const cni_model *row, const cn_zoo_opts *o)
{
  const plan *p = row->plan;
  cni_style style = {p->eps, p->momentum, cni_silu};
  int64_t width = cni_divisible(32 * p->wider);
  double dropout = cni_setting_float(o->config, "dropout", p->dropout);
  cn_module *features = cn_nn_sequential_of(NULL, 0), *m = cn_module_new(&efficientnet_class);
  cni_add(features, NULL, cni_conv_norm(&style, cni_or(o->channels, 3), width, 3, 2, 1));
  add_stages(features, p, &width, cni_setting_float(o->config, "stochastic_depth_prob", 0.2));
  cni_add(features, NULL, cni_conv_norm(&style, width, 4 * width, 1, 1, 1));
  cni_add(m, "features", features);
  cni_add(m, "avgpool", cn_nn_adaptive_avg_pool2d(1));
  cni_add(m, "classifier",
          cn_nn_sequential(cn_nn_dropout(.p = cni_given(dropout), .inplace = true),
                           cn_nn_linear(4 * width, cni_or(o->classes, 1000))));
  if (!o->pretrained) cni_init_layers(m, cni_draw_fan_out, draw_linear);
  return cni_made(m);
}

static const cni_setting_row settings[] = {{"dropout", CN_TREE_FLOAT}, {"stochastic_depth_prob", CN_TREE_FLOAT}, {0}};

#define B(n, file, ...)                                                                               \
  {"efficientnet_b" #n, "EfficientNet B" #n, make_efficientnet, CNI_IMAGES, &(const plan){__VA_ARGS__}, NULL, \
   "efficientnet_b" #n file, settings}

const cni_model cni_zoo_efficientnet[] = {
  B(0, "_rwightman-7f5810bc.pth", 1.0, 1.0, 0.2, 0, 0),
  B(1, "-c27df63c.pth", 1.0, 1.1, 0.2, 0, 0),
  B(2, "_rwightman-c35c1473.pth", 1.1, 1.2, 0.3, 0, 0),
  B(3, "_rwightman-b3899882.pth", 1.2, 1.4, 0.3, 0, 0),
  B(4, "_rwightman-23ab8bcd.pth", 1.4, 1.8, 0.4, 0, 0),
  B(5, "_lukemelas-1a07897c.pth", 1.6, 2.2, 0.4, 0.001, 0.01),
  B(6, "_lukemelas-24a108a5.pth", 1.8, 2.6, 0.5, 0.001, 0.01),
  B(7, "_lukemelas-c5b4e57e.pth", 2.0, 3.1, 0.5, 0.001, 0.01),
  {0},
};
