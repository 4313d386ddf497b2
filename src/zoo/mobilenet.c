/* mobilenet.c: MobileNet v2 and v3: blocks that widen, filter each channel by itself, and narrow again.
 *
 * Place in the flow: a family of the zoo. Invariant: names of parameters are torchvision's. */
#include "zoo.h"

static const cni_setting_row settings[] = {{"dropout", CN_TREE_FLOAT}, {0}},
                             v3_settings[] = {{"dropout", CN_TREE_FLOAT}, {"dilated", CN_TREE_BOOL},
                                              {"reduced_tail", CN_TREE_BOOL}, {0}};

/* ---- version 2 ---- */

static cn_module *relu6(void) { return cn_nn_relu6(.inplace = true); }

static const cni_style v2_style = {.activation = relu6};

static cn_module *v2_block(int64_t in, int64_t out, int64_t stride, int64_t widen)
{
  int64_t width = in * widen;
  cn_module *conv = cn_nn_sequential_of(NULL, 0), *m = cni_inverted_residual(stride == 1 && in == out, out);
  if (widen != 1) cni_add(conv, NULL, cni_conv_norm(&v2_style, in, width, 1, 1, 1));
  cni_add(conv, NULL, cni_conv_norm(&v2_style, width, width, 3, stride, width));
  cni_add(conv, NULL, cni_zoo_conv(width, out, 1, 1));
  cni_add(conv, NULL, cn_nn_batch_norm2d(out));
  cni_add(m, "conv", conv);
  return m;
}

/* features, classifier */
static int v2_forward(cn_module *m, cn_module_call *call) { return cni_forward_classifier(m, call, 2, true); }

static const cn_module_class v2_class = {
  CN_MODULE_CLASS,
  .name = "MobileNetV2",
  .sig = "MobileNetV2(int last_channel) -> Module",
  .forward = v2_forward,
  .print = cni_print_nothing,
};

static cn_module *make_v2(const cni_model *row, const cn_zoo_opts *o)
{
  static const struct {
    int widen, out, blocks, stride;
  } stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  (void)row;
  int64_t width = 32, last = 1280;
  cn_module *features = cn_nn_sequential_of(NULL, 0);
  cn_module *m = cn_module_new_with(&v2_class, (const cn_value[]){cn_v_int(last)}, 1);
  cni_add(features, NULL, cni_conv_norm(&v2_style, cni_or(o->channels, 3), width, 3, 2, 1));
  for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
    for (int k = 0; k < stages[i].blocks; k++) {
      cni_add(features, NULL, v2_block(width, stages[i].out, k ? 1 : stages[i].stride, stages[i].widen));
      width = stages[i].out;
    }
  cni_add(features, NULL, cni_conv_norm(&v2_style, width, last, 1, 1, 1));
  cni_add(m, "features", features);
  cni_add(m, "classifier",
          cn_nn_sequential(cn_nn_dropout(.p = cni_given(cni_setting_float(o->config, "dropout", 0.2))),
                           cn_nn_linear(last, cni_or(o->classes, 1000))));
  if (!o->pretrained) cni_init_layers(m, cni_draw_fan_out, cni_draw_small);
  return cni_made(m);
}

/* ---- version 3 ---- */

/* kernel: 0 ends a list. excited: with squeeze and excitation; hard: Hardswish, not ReLU. */
typedef struct step {
  int kernel, middle, out;
  bool excited, hard;
  int stride;
} step;

typedef struct plan {
  const step *steps;
  int last; /* features before the classes */
} plan;

static const step small[] = {
  {3, 16, 16, 1, 0, 2},  {3, 72, 24, 0, 0, 2},  {3, 88, 24, 0, 0, 1},  {5, 96, 40, 1, 1, 2},
  {5, 240, 40, 1, 1, 1}, {5, 240, 40, 1, 1, 1}, {5, 120, 48, 1, 1, 1}, {5, 144, 48, 1, 1, 1},
  {5, 288, 96, 1, 1, 2}, {5, 576, 96, 1, 1, 1}, {5, 576, 96, 1, 1, 1}, {0},
};
static const step large[] = {
  {3, 16, 16, 0, 0, 1},   {3, 64, 24, 0, 0, 2},   {3, 72, 24, 0, 0, 1},   {5, 72, 40, 1, 0, 2},
  {5, 120, 40, 1, 0, 1},  {5, 120, 40, 1, 0, 1},  {3, 240, 80, 0, 1, 2},  {3, 200, 80, 0, 1, 1},
  {3, 184, 80, 0, 1, 1},  {3, 184, 80, 0, 1, 1},  {3, 480, 112, 1, 1, 1}, {3, 672, 112, 1, 1, 1},
  {5, 672, 160, 1, 1, 2}, {5, 960, 160, 1, 1, 1}, {5, 960, 160, 1, 1, 1}, {0},
};

#define V3_NORM .eps = 0.001, .momentum = 0.01
static const cni_style soft_style = {V3_NORM, cni_relu}, hard_style = {V3_NORM, cni_hardswish},
                       plain_style = {V3_NORM, NULL};

static cn_module *plain_relu(void) { return cn_nn_relu(); }
static cn_module *hardsigmoid(void) { return cn_nn_hardsigmoid(); }

/* The convolution of each channel by itself; one whose places lie apart does not halve sizes. */
static cn_module *v3_filter(const cni_style *style, const step *s, int64_t apart)
{
  if (apart == 1) return cni_conv_norm(style, s->middle, s->middle, s->kernel, s->stride, s->middle);
  cn_module *m = cni_conv_norm_of(s->middle);
  cni_add(m, NULL, cn_nn_conv2d(s->middle, s->middle, s->kernel, .padding = CN_INTS(apart * (s->kernel / 2)),
                                .dilation = CN_INTS(apart), .groups = s->middle, .no_bias = true));
  cni_add(m, NULL, cn_nn_batch_norm2d(s->middle, .eps = style->eps, .momentum = style->momentum));
  cni_add(m, NULL, style->activation());
  return m;
}

static cn_module *v3_block(const step *s, int64_t in, int64_t apart)
{
  const cni_style *style = s->hard ? &hard_style : &soft_style;
  cn_module *m = cni_inverted_residual(s->stride == 1 && in == s->out, s->out), *block = cn_nn_sequential_of(NULL, 0);
  if (s->middle != in) cni_add(block, NULL, cni_conv_norm(style, in, s->middle, 1, 1, 1));
  cni_add(block, NULL, v3_filter(style, s, apart));
  if (s->excited)
    cni_add(block, NULL, cni_squeeze_excitation(s->middle, cni_divisible(s->middle / 4), plain_relu, hardsigmoid));
  cni_add(block, NULL, cni_conv_norm(&plain_style, s->middle, s->out, 1, 1, 1));
  cni_add(m, "block", block);
  return m;
}

/* features, avgpool, classifier */
static int v3_forward(cn_module *m, cn_module_call *call) { return cni_forward_classifier(m, call, 3, false); }

static const cn_module_class v3_class = {CN_MODULE_CLASS, .name = "MobileNetV3", .forward = v3_forward};

static cn_module *make_v3(const cni_model *row, const cn_zoo_opts *o)
{
  const plan *p = row->plan;
  bool dilated = cni_setting_bool(o->config, "dilated", false);
  int64_t width = 16, last = p->last;
  int part = cni_setting_bool(o->config, "reduced_tail", false) ? 2 : 1, tail = 0; /* steps of the last stage */
  cn_module *features = cn_nn_sequential_of(NULL, 0), *m = cn_module_new(&v3_class);
  cni_add(features, NULL, cni_conv_norm(&hard_style, cni_or(o->channels, 3), width, 3, 2, 1));
  for (const step *s = p->steps; s->kernel; s++) {
    step now = *s;
    if (!s[3].kernel || tail) { /* the last three */
      now.out /= part;
      if (tail++) now.middle /= part;
    }
    cni_add(features, NULL, v3_block(&now, width, tail && dilated ? 2 : 1));
    width = now.out;
  }
  last /= part;
  cni_add(features, NULL, cni_conv_norm(&hard_style, width, 6 * width, 1, 1, 1));
  cni_add(m, "features", features);
  cni_add(m, "avgpool", cn_nn_adaptive_avg_pool2d(1));
  double dropout = cni_setting_float(o->config, "dropout", 0.2);
  cni_add(m, "classifier",
          cn_nn_sequential(cn_nn_linear(6 * width, last), cni_hardswish(),
                           cn_nn_dropout(.p = cni_given(dropout), .inplace = true),
                           cn_nn_linear(last, cni_or(o->classes, 1000))));
  if (!o->pretrained) cni_init_layers(m, cni_draw_fan_out, cni_draw_small);
  return cni_made(m);
}

const cni_model cni_zoo_mobilenet[] = {
  {"mobilenet_v2", "MobileNet v2", make_v2, CNI_IMAGES, NULL, NULL, "mobilenet_v2-7ebf99e0.pth", settings},
  {"mobilenet_v3_small", "MobileNet v3, small", make_v3, CNI_IMAGES, &(const plan){small, 1024}, NULL,
   "mobilenet_v3_small-047dcff4.pth", v3_settings},
  {"mobilenet_v3_large", "MobileNet v3, large", make_v3, CNI_IMAGES, &(const plan){large, 1280}, NULL,
   "mobilenet_v3_large-5c1a4163.pth", v3_settings},
  {0},
};
