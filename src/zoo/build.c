/* build.c: what networks are put together with: children in order, first weights, settings. See zoo.h.
 *
 * Invariant: every function here may be called after an error, and then does nothing but free what it was given. */
#include <string.h>

#include "zoo.h"

/* ---- children ---- */

void cni_add(cn_module *m, const char *name, cn_module *child)
{
  if (m) cn_module_add(m, name, child);
  else cn_module_release(child);
}

cn_module *cni_made(cn_module *m)
{
  if (!cn_err()) return m;
  cn_module_release(m);
  return NULL;
}

cn_module *cni_zoo_conv(int64_t in, int64_t out, int64_t kernel, int64_t stride)
{
  return cn_nn_conv2d(in, out, kernel, .stride = CN_INTS(stride), .padding = CN_INTS(kernel / 2), .no_bias = true);
}

cn_module *cni_relu(void) { return cn_nn_relu(.inplace = true); }

/* A value between two children is dropped as soon as the next one has used it. */
int cni_forward_classifier(cn_module *m, cn_module_call *call, size_t n, bool pool)
{
  if (cn_module_nchildren(m) < n) return cn_err_set(CN_ERR_VALUE, "%s: some of its layers are gone", m->cls->name);
  cn_tensor *x = cn_keep(call->args[0].u.t); /* (B, C, H, W) */
  for (size_t i = 0; x && i < n; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *y = x;
    if (i + 1 == n && pool) y = cn_adaptive_avg_pool2d(y, CN_SHAPE(1, 1));
    if (i + 1 == n) y = cn_flatten(y, .start_dim = 1); /* (B, C * H * W) */
    y = cn_keep(cn_forward(cn_module_child(m, i), y));
    cn_scope_end(s);
    cn_release(x);
    x = y;
  }
  call->out[0] = x ? cn_scope_give(x) : NULL;
  return cn_err();
}

bool cni_is(const cn_module *m, const char *cls) { return !strcmp(m->cls->name, cls); }

/* ---- first weights ---- */

enum { WEIGHT, BIAS }; /* slots of Linear, Conv2d and the like */

int cni_zero_bias(cn_module *layer)
{
  cn_tensor *bias = cn_module_slot(layer, BIAS);
  return bias ? cn_init_zeros(bias) : CN_OK;
}

static int normal(cn_module *m, double std)
{
  int status = cn_init_normal(cn_module_slot(m, WEIGHT), 0, std);
  return status ? status : cni_zero_bias(m);
}

int cni_draw_small(cn_module *layer) { return normal(layer, 0.01); }

int cni_draw_fan_out(cn_module *layer)
{
  int status = cn_init_kaiming_normal(cn_module_slot(layer, WEIGHT), .mode = "fan_out", .nonlinearity = "relu");
  return status ? status : cni_zero_bias(layer);
}

typedef struct draws {
  cni_draw *conv, *linear;
} draws;

static int init_layer(cn_module *m, const char *path, void *payload)
{
  const draws *d = payload;
  (void)path;
  if (d->conv && cni_is(m, "Conv2d")) return d->conv(m);
  return d->linear && cni_is(m, "Linear") ? d->linear(m) : CN_OK;
}

int cni_init_layers(cn_module *m, cni_draw *conv, cni_draw *linear)
{
  draws d = {conv, linear};
  return cn_err() ? cn_err() : cn_module_visit(m, init_layer, &d);
}

static int init_part(cn_module *m, const char *path, void *std)
{
  (void)path;
  bool drawn = cni_is(m, "Linear") || cni_is(m, "Conv1D") || cni_is(m, "Embedding");
  return drawn ? normal(m, *(double *)std) : CN_OK;
}

int cni_init_transformer(cn_module *m, double std)
{
  return cn_err() ? cn_err() : cn_module_visit(m, init_part, &std);
}

/* ---- settings ---- */

int64_t cni_setting(const cn_tree *config, const char *key, int64_t otherwise)
{
  return cn_tree_as_int(cn_tree_get(config, key), otherwise);
}

double cni_setting_float(const cn_tree *config, const char *key, double otherwise)
{
  return cn_tree_as_float(cn_tree_get(config, key), otherwise);
}

bool cni_setting_bool(const cn_tree *config, const char *key, bool otherwise)
{
  return cn_tree_as_bool(cn_tree_get(config, key), otherwise);
}

const char *cni_setting_text(const cn_tree *config, const char *key, const char *otherwise)
{
  return cn_tree_as_str(cn_tree_get(config, key), otherwise);
}

int cni_check_sizes(const char *who, const char *const *names, const int64_t *sizes, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    int64_t most = strstr(names[i], "layer") ? 10000 : (int64_t)1 << 30; /* so that products of sizes are numbers */
    if (sizes[i] < 1 || sizes[i] > most)
      return cn_err_set(CN_ERR_VALUE, "%s: %s is %lld, it must be from 1 to %lld", who, names[i], (long long)sizes[i],
                        (long long)most);
  }
  return CN_OK;
}

cn_module *cni_activation(const char *name)
{
  static const char *const tanh_gelu[] = {"gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_accurate"};
  for (size_t i = 0; i < sizeof tanh_gelu / sizeof *tanh_gelu; i++)
    if (!strcmp(name, tanh_gelu[i])) return cn_nn_gelu(.approximate = "tanh");
  if (!strcmp(name, "gelu") || !strcmp(name, "gelu_python")) return cn_nn_gelu();
  if (!strcmp(name, "relu")) return cn_nn_relu();
  if (!strcmp(name, "silu") || !strcmp(name, "swish")) return cn_nn_silu();
  if (!strcmp(name, "tanh")) return cn_nn_tanh();
  cn_err_set(CN_ERR_UNSUPPORTED, "zoo: no activation is called \"%s\"; there are gelu, gelu_new, relu, silu, tanh",
             name);
  return NULL;
}
