/* zoo.h: what the families of networks share: their rows in the zoo, building blocks, settings.
 *
 * Place in the flow: above layers (cairn/nn.h), below zoo.c, which makes a network by its name. A family is one file:
 * what its networks differ in stands in a table, the structure is written once. */
#ifndef CNI_ZOO_ZOO_H
#define CNI_ZOO_ZOO_H

#include <cairn/autograd.h>
#include <cairn/ext/system.h>
#include <cairn/kw.h>
#include <cairn/nn.h>
#include <cairn/zoo.h>

/* ---- rows ---- */

/* Which options a network takes. */
enum cni_takes {
  CNI_CLASSES = 1,
  CNI_CHANNELS = 2,
  CNI_IMAGE = 4,
  CNI_VOCAB = 8,
  CNI_CONFIG = 16,
  CNI_IMAGES = CNI_CLASSES | CNI_CHANNELS,
  CNI_TEXT = CNI_VOCAB | CNI_CONFIG
};

/* A setting of torchvision's networks: what a value in .config must be. CN_TREE_FLOAT takes whole numbers too. */
typedef struct cni_setting_row {
  const char *name;
  cn_tree_kind kind;
} cni_setting_row;

typedef struct cni_model cni_model;
struct cni_model {
  const char *name, *doc;
  /* An untrained network; options it does not take are zero, and with o->pretrained no weights need be drawn. NULL with
   * the error set. */
  cn_module *(*make)(const cni_model *row, const cn_zoo_opts *o);
  int takes;
  const void *plan; /* what this network differs in from others of its family */
  const char *base; /* the child that files may hold alone, or whose name they may leave out: "transformer" */
  const char *weights; /* the file that PyTorch's server has for it; NULL: none */
  const cni_setting_row *settings; /* those that .config may have; ends with a row without name. NULL: see takes */
};

/* The files with rows, each with a table that ends with a row without name. */
#define CNI_ZOO_FAMILIES(X)                                                                                    \
  X(stacks) X(resnet) X(squeezenet) X(googlenet) X(densenet) X(mobilenet) X(efficientnet) X(convnext) X(vit) X(unet) \
  X(recurrent) X(gpt2) X(llama) X(bert)
#define CNI_ZOO_DECLARE(name) extern const cni_model cni_zoo_##name[];
CNI_ZOO_FAMILIES(CNI_ZOO_DECLARE)
#undef CNI_ZOO_DECLARE

/* ---- building; all of it goes on after an error, whose end is cni_made ---- */

static inline int64_t cni_or(int64_t value, int64_t otherwise) { return value ? value : otherwise; }

/* A number as an option, where zero itself is CN_ZERO. */
static inline double cni_given(double v) { return v != 0 ? v : (double)CN_ZERO; }

/* cn_module_add that may get no module to add to. */
void cni_add(cn_module *m, const char *name, cn_module *child);
/* The module, or NULL when anything failed, and then it is freed. */
cn_module *cni_made(cn_module *m);
/* Layers as torchvision writes them. The convolution keeps sizes (padding k / 2) and has no bias. */
cn_module *cni_zoo_conv(int64_t in, int64_t out, int64_t kernel, int64_t stride);
cn_module *cni_relu(void); /* in place */
/* Forward of torchvision's classifiers: the first n children one after the other, what the last of them gets made flat
 * (with `pool` after a mean over each channel). Children that a program adds behind them are not run. */
int cni_forward_classifier(cn_module *m, cn_module_call *call, size_t n, bool pool);

/* Draws the first weights of every Conv2d and Linear below m, each with its function; NULL leaves them as they are. */
typedef int cni_draw(cn_module *layer);
int cni_init_layers(cn_module *m, cni_draw *conv, cni_draw *linear);
int cni_draw_fan_out(cn_module *layer); /* kaiming_normal(fan_out, relu), biases zero */
int cni_draw_small(cn_module *layer);   /* normal with deviation 0.01, biases zero */
int cni_zero_bias(cn_module *layer);    /* where it has one */
/* As transformers does: Linear, Conv1D and Embedding normal with that deviation, biases zero. */
int cni_init_transformer(cn_module *m, double std);

bool cni_is(const cn_module *m, const char *cls); /* by the name of its class */

/* ---- parts that several of torchvision's families share (parts.c) ---- */

typedef cn_module *cni_layer(void); /* makes a layer without settings */
cn_module *cni_silu(void);          /* in place */
cn_module *cni_hardswish(void);     /* in place */

/* How a network's convolutions go on: a batch norm, of zeros its default, and an activation; NULL: none. */
typedef struct cni_style {
  double eps, momentum;
  cni_layer *activation;
} cni_style;
/* A Conv2dNormActivation: a convolution as cni_zoo_conv's, the norm, the activation. */
cn_module *cni_conv_norm(const cni_style *style, int64_t in, int64_t out, int64_t kernel, int64_t stride,
                         int64_t groups);
cn_module *cni_conv_norm_of(int64_t out); /* one without children yet, which gives `out` channels */
/* Channels (B, width, H, W) each times a number that is computed from the means of all of them. */
cn_module *cni_squeeze_excitation(int64_t width, int64_t squeezed, cni_layer *activation, cni_layer *scale);
/* In training whole samples are zero with probability p, the others divided by 1 - p. */
cn_module *cni_stochastic_depth(double p);
/* A block that adds its input where `same` says that shapes fit: y = child 0 of x, through child 1 where there is one,
 * + x. Children are the caller's to add. */
cn_module *cni_inverted_residual(bool same, int64_t out);
cn_module *cni_mb_conv(bool same, int64_t out); /* the same under EfficientNet's name */
int64_t cni_divisible(double v); /* the multiple of 8 next to v, not less than nine tenths of it */
void cni_print_nothing(const cn_module *m, cn_text *text); /* for classes whose arguments torchvision does not print */

/* ---- settings of transformers ---- */
int64_t cni_setting(const cn_tree *config, const char *key, int64_t otherwise); /* also where it is null */
double cni_setting_float(const cn_tree *config, const char *key, double otherwise);
bool cni_setting_bool(const cn_tree *config, const char *key, bool otherwise);
const char *cni_setting_text(const cn_tree *config, const char *key, const char *otherwise);
/* Sets the error unless all of them are positive and not absurd. names: as in the configuration. */
int cni_check_sizes(const char *who, const char *const *names, const int64_t *sizes, size_t n);

/* A function of transformers by its name there ("gelu_new"). NULL with the error set. */
cn_module *cni_activation(const char *name);

/* How many tokens of a text a BertModel is meant to see; 0: not a BertModel. */
int64_t cni_bert_longest(const cn_module *m);

/* ---- pretrained weights (weights.c) ---- */
/* Are these the weights that the row names: "imagenet", or that file wherever it lies? */
bool cni_is_published(const cni_model *row, const char *pretrained);
/* Where .pretrained lies on this machine: a path as it is; "imagenet" and addresses are fetched. Owned; NULL with the
 * error set. */
char *cni_weights_path(const cni_model *row, const char *pretrained);
int cni_load_pretrained(cn_module *m, const cni_model *row, const char *path);
/* The settings beside a file of weights, or in its folder: config.json. Owned; NULL, without error, where none are. */
cn_tree *cni_config_beside(const char *path);

#endif
