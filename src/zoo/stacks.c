/* stacks.c: networks that are a stack of convolutions and a stack of linear layers: LeNet, AlexNet, VGG.
 *
 * Place in the flow: a family of the zoo. Invariant: a network is a list of steps; the same code builds all. Names of
 * parameters are torchvision's; LeNet's those of PyTorch's tutorials. */
#include "zoo.h"

typedef enum kind { END, CONV, POOL, LINEAR, DROP } kind;

/* CONV and POOL: kernel, stride, padding; CONV and LINEAR have `out` and a ReLU behind. */
typedef struct step {
  kind kind;
  int out, kernel, stride, padding;
} step;

/* features and classifier become numbered children of these names. `side`: of the pooled images between them. The
 * classifier ends with a Linear to the classes. */
typedef struct plan {
  const cn_module_class *cls;
  const step *features, *classifier;
  int side;
  bool norm;        /* a BatchNorm2d behind each convolution */
  bool own_weights; /* the weights start as torchvision's VGG does, not as layers do by themselves */
} plan;

/* ---- building ---- */

static cn_module *features(const plan *p, int64_t channels, int64_t *out)
{
  cn_module *m = cn_nn_sequential_of(NULL, 0);
  for (const step *s = p->features; s->kind; s++) {
    if (s->kind == POOL) {
      cni_add(m, NULL, cn_nn_max_pool2d(s->kernel, .stride = CN_INTS(s->stride)));
      continue;
    }
    cni_add(m, NULL, cn_nn_conv2d(channels, s->out, s->kernel, .stride = CN_INTS(s->stride),
                                  .padding = CN_INTS(s->padding)));
    if (p->norm) cni_add(m, NULL, cn_nn_batch_norm2d(s->out));
    cni_add(m, NULL, cni_relu());
    channels = s->out;
  }
  *out = channels;
  return m;
}

static cn_module *classifier(const plan *p, int64_t in, int64_t classes, double dropout)
{
  cn_module *m = cn_nn_sequential_of(NULL, 0);
  for (const step *s = p->classifier; s->kind; s++) {
    if (s->kind == DROP) {
      cni_add(m, NULL, cn_nn_dropout(.p = cni_given(dropout)));
      continue;
    }
    cni_add(m, NULL, cn_nn_linear(in, s->out));
    cni_add(m, NULL, cni_relu());
    in = s->out;
  }
  cni_add(m, NULL, cn_nn_linear(in, classes));
  return m;
}

/* features, avgpool, classifier */
static int stacks_forward(cn_module *m, cn_module_call *call) { return cni_forward_classifier(m, call, 3, false); }

static cn_module *make_stacks(const cni_model *row, const cn_zoo_opts *o)
{
  const plan *p = row->plan;
  int64_t width = 0;
  cn_module *m = cn_module_new(p->cls);
  cni_add(m, "features", features(p, cni_or(o->channels, 3), &width));
  cni_add(m, "avgpool", cn_nn_adaptive_avg_pool2d(p->side));
  cni_add(m, "classifier", classifier(p, width * p->side * p->side, cni_or(o->classes, 1000),
                                      cni_setting_float(o->config, "dropout", 0.5)));
  if (p->own_weights && !o->pretrained && cni_setting_bool(o->config, "init_weights", true))
    cni_init_layers(m, cni_draw_fan_out, cni_draw_small);
  return cni_made(m);
}

/* ---- AlexNet ---- */

static const step alexnet_features[] = {
  {CONV, 64, 11, 4, 2}, {POOL, 0, 3, 2, 0},   {CONV, 192, 5, 1, 2}, {POOL, 0, 3, 2, 0}, {CONV, 384, 3, 1, 1},
  {CONV, 256, 3, 1, 1}, {CONV, 256, 3, 1, 1}, {POOL, 0, 3, 2, 0},   {0},
};
static const step alexnet_classifier[] = {
  {.kind = DROP}, {LINEAR, .out = 4096}, {.kind = DROP}, {LINEAR, .out = 4096}, {0},
};
static const cn_module_class alexnet_class = {CN_MODULE_CLASS, .name = "AlexNet", .forward = stacks_forward};
static const cni_setting_row alexnet_settings[] = {{"dropout", CN_TREE_FLOAT}, {0}};
static const plan alexnet = {&alexnet_class, alexnet_features, alexnet_classifier, 6, false, false};

/* ---- VGG: blocks of convolutions of one width, a pooling behind each ---- */

#define C1(n) {CONV, n, 3, 1, 1}
#define C2(n) C1(n), C1(n)
#define C3(n) C2(n), C1(n)
#define C4(n) C3(n), C1(n)
#define P {POOL, 0, 2, 2, 0}
static const step vgg_a[] = {C1(64), P, C1(128), P, C2(256), P, C2(512), P, C2(512), P, {0}};
static const step vgg_b[] = {C2(64), P, C2(128), P, C2(256), P, C2(512), P, C2(512), P, {0}};
static const step vgg_d[] = {C2(64), P, C2(128), P, C3(256), P, C3(512), P, C3(512), P, {0}};
static const step vgg_e[] = {C2(64), P, C2(128), P, C4(256), P, C4(512), P, C4(512), P, {0}};
#undef P

static const step vgg_classifier[] = {
  {LINEAR, .out = 4096}, {.kind = DROP}, {LINEAR, .out = 4096}, {.kind = DROP}, {0},
};
static const cn_module_class vgg_class = {CN_MODULE_CLASS, .name = "VGG", .forward = stacks_forward};
static const cni_setting_row vgg_settings[] = {{"dropout", CN_TREE_FLOAT}, {"init_weights", CN_TREE_BOOL}, {0}};
#define VGG(name, doc, file, steps, norm)                                                                             \
  {name, doc, make_stacks, CNI_IMAGES, &(const plan){&vgg_class, steps, vgg_classifier, 7, norm, true}, NULL, file, \
   vgg_settings}

/* ---- LeNet ---- */

static const cn_module_class lenet_class = {CN_MODULE_CLASS, .name = "LeNet", .forward = cn_forward_children};

static cn_module *make_lenet(const cni_model *row, const cn_zoo_opts *o)
{
  int64_t image = cni_or(o->image, 28), side = (image / 2 - 4) / 2;
  if (image < 12) {
    cn_err_set(CN_ERR_VALUE, "%s: images of side %lld are too small, they must be 12 or more", row->name,
               (long long)image);
    return NULL;
  }
  cn_module *m = cn_module_new(&lenet_class);
  cni_add(m, "conv1", cn_nn_conv2d(cni_or(o->channels, 1), 6, 5, .padding = CN_INTS(2)));
  cni_add(m, "relu1", cni_relu());
  cni_add(m, "pool1", cn_nn_max_pool2d(2));
  cni_add(m, "conv2", cn_nn_conv2d(6, 16, 5));
  cni_add(m, "relu2", cni_relu());
  cni_add(m, "pool2", cn_nn_max_pool2d(2));
  cni_add(m, "flatten", cn_nn_flatten());
  cni_add(m, "fc1", cn_nn_linear(16 * side * side, 120));
  cni_add(m, "relu3", cni_relu());
  cni_add(m, "fc2", cn_nn_linear(120, 84));
  cni_add(m, "relu4", cni_relu());
  cni_add(m, "fc3", cn_nn_linear(84, cni_or(o->classes, 10)));
  return cni_made(m);
}

const cni_model cni_zoo_stacks[] = {
  {"lenet", "LeNet-5: images of 28 x 28 (.image), 10 classes", make_lenet, CNI_IMAGES | CNI_IMAGE, NULL, NULL, NULL,
   NULL},
  {"alexnet", "AlexNet as in torchvision: 1000 classes", make_stacks, CNI_IMAGES, &alexnet, NULL,
   "alexnet-owt-7be5be79.pth", alexnet_settings},
  VGG("vgg11", "VGG with 11 layers", "vgg11-8a719046.pth", vgg_a, false),
  VGG("vgg11_bn", "VGG with 11 layers and batch norm", "vgg11_bn-6002323d.pth", vgg_a, true),
  VGG("vgg13", "VGG with 13 layers", "vgg13-19584684.pth", vgg_b, false),
  VGG("vgg13_bn", "VGG with 13 layers and batch norm", "vgg13_bn-abd245e5.pth", vgg_b, true),
  VGG("vgg16", "VGG with 16 layers", "vgg16-397923af.pth", vgg_d, false),
  VGG("vgg16_bn", "VGG with 16 layers and batch norm", "vgg16_bn-6c64b313.pth", vgg_d, true),
  VGG("vgg19", "VGG with 19 layers", "vgg19-dcbb9e9d.pth", vgg_e, false),
  VGG("vgg19_bn", "VGG with 19 layers and batch norm", "vgg19_bn-c79401a0.pth", vgg_e, true),
  {0},
};
