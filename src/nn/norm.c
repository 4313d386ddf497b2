/* norm.c: layers that normalise: by batch, instance, layer, group, root mean square, and over neighbouring channels.
 *
 * Place in the flow: classes over the ops of the same names. Invariant: running statistics and their count are buffers
 * that change in forward while training and nowhere else, without ever reading a value back, so that a step can be
 * captured. */
#include "nn.h"

/* ---- what batch and instance norm share ---- */

enum { WEIGHT, BIAS, MEAN, VAR, COUNT };                                             /* slots */
enum { FEATURES, EPS, MOMENTUM, AFFINE, TRACK, DEVICE, DTYPE, WITH_BIAS };           /* arguments */

typedef struct channel_norm {
  cn_module_class cls; /* must be first */
  int least, most;     /* dimensions of the input; of instance norm `least` is one sample */
} channel_norm;

static const channel_norm *kind_of(const cn_module *m) { return (const channel_norm *)(const void *)m->cls; }

static int channel_init(cn_module *m, const cn_value *a)
{
  int64_t n = a[FEATURES].u.i;
  bool affine = a[AFFINE].u.i, track = a[TRACK].u.i;
  if (n < 0) return cn_err_set(CN_ERR_VALUE, "%s: num_features cannot be negative", m->cls->name);
  if (affine) cni_add_constant(m, "weight", &a[DEVICE], CN_SHAPE(n), 1);
  else cni_add_absent(m, "weight");
  if (affine && a[WITH_BIAS].u.i) cni_add_constant(m, "bias", &a[DEVICE], CN_SHAPE(n), 0);
  else cni_add_absent(m, "bias");
  cn_tensor *mean = NULL, *var = NULL, *count = NULL;
  if (track) {
    mean = cn_fill_(cni_new_empty(&a[DEVICE], CN_SHAPE(n)), cn_num(0));
    var = cn_fill_(cni_new_empty(&a[DEVICE], CN_SHAPE(n)), cn_num(1));
    count = cn_zeros(CN_SCALAR_SHAPE, .dtype = CN_I64, .device = mean ? cn_device_of(mean) : CN_DEVICE_DEFAULT);
  }
  cn_module_add_buffer(m, "running_mean", mean, true);
  cn_module_add_buffer(m, "running_var", var, true);
  cn_module_add_buffer(m, "num_batches_tracked", count, true);
  return cn_err();
}

static int check_dims(const cn_module *m, const cn_tensor *x)
{
  const channel_norm *kind = kind_of(m);
  int ndim = cn_ndim(x);
  if (ndim >= kind->least && ndim <= kind->most) return CN_OK;
  if (kind->least == kind->most)
    return cn_err_set(CN_ERR_SHAPE, "%s: expected a %d-D input, got %d-D", m->cls->name, kind->least, ndim);
  return cn_err_set(CN_ERR_SHAPE, "%s: expected an input of %d to %d dimensions, got %d", m->cls->name, kind->least,
                    kind->most, ndim);
}

static void channel_print(const cn_module *m, cn_text *t)
{
  cn_text_putf(t, "%lld", (long long)cni_args(m)[FEATURES].u.i);
  cni_put_arg(t, m, EPS);
  cni_put_arg(t, m, MOMENTUM);
  cni_put_arg(t, m, AFFINE);
  cn_text_putf(t, ", bias=%s", cn_module_slot(m, BIAS) ? "True" : "False");
  cni_put_arg(t, m, TRACK);
}

/* Normalising counts one multiply-add an element. */
static double norm_work(const cn_module *m, const cn_module_call *call)
{
  (void)m;
  return (double)cn_numel(call->out[0]);
}

/* ---- batch norm ---- */

/* Without a momentum the running statistics are plain means over all batches so far: each moves them by 1 / count. */
static cn_tensor *cumulative(cn_module *m, cn_tensor *x, double eps)
{
  cn_tensor *y = NULL, *mean = NULL, *var = NULL, *running[2] = {cn_module_slot(m, MEAN), cn_module_slot(m, VAR)};
  cn_native_batch_norm(&y, &mean, NULL, &var, x, cn_module_slot(m, WEIGHT), cn_module_slot(m, BIAS), running[0],
                       running[1], true, eps);
  if (!y) return NULL;
  int saved = cn_no_grad_begin();
  cn_tensor *now[2] = {mean, var};
  for (int i = 0; i < 2; i++) {
    cn_dtype type = cn_dtype_of(running[i]);
    cn_tensor *step = cn_reciprocal(cn_cast(cn_module_slot(m, COUNT), type));
    cn_lerp_(running[i], cn_cast(cn_detach(now[i]), type), step);
  }
  cn_no_grad_end(saved);
  return cn_err() ? NULL : y;
}

static cn_tensor *batch_norm_apply(cn_module *m, cn_tensor *x)
{
  const cn_value *a = cni_args(m);
  bool training = cn_module_training(m), has = cn_module_slot(m, MEAN) != NULL, update = training && has;
  if (check_dims(m, x)) return NULL;
  if (update && cn_module_slot(m, COUNT) && !cn_add_(cn_module_slot(m, COUNT), cn_int(1))) return NULL;
  if (update && a[MOMENTUM].tag == CN_V_NONE) return cumulative(m, x, a[EPS].u.f);
  /* Statistics that are not tracked while training must not move. */
  cn_tensor *mean = !training || a[TRACK].u.i ? cn_module_slot(m, MEAN) : NULL;
  cn_tensor *var = !training || a[TRACK].u.i ? cn_module_slot(m, VAR) : NULL;
  double momentum = a[MOMENTUM].tag == CN_V_NONE ? 0 : a[MOMENTUM].u.f;
  return cn_batch_norm(x, mean, var, cn_module_slot(m, WEIGHT), cn_module_slot(m, BIAS), .training = training || !has,
                       .momentum = cni_option(momentum), .eps = cni_option(a[EPS].u.f));
}

#define BATCH_NORM                                                                                                    \
  .init = channel_init, .apply = batch_norm_apply, .print = channel_print, .work = norm_work

static const channel_norm batch_norm1d = {
  {CN_MODULE_CLASS, .name = "BatchNorm1d",
   .sig = "BatchNorm1d(int num_features, float eps=1e-5, float? momentum=0.1, bool affine=True, "
          "bool track_running_stats=True, device? device=None, dtype? dtype=None, *, bool bias=True) "
          "-> Module ; batch_norm1d",
   .doc = "Each channel of (N, C) or (N, C, L) with mean 0 and variance 1 over the batch, then * weight + bias. "
          "Evaluation uses running statistics; without momentum (NAN in C) they are means over all batches.",
   BATCH_NORM}, 2, 3};

static const channel_norm batch_norm2d = {
  {CN_MODULE_CLASS, .name = "BatchNorm2d",
   .sig = "BatchNorm2d(int num_features, float eps=1e-5, float? momentum=0.1, bool affine=True, "
          "bool track_running_stats=True, device? device=None, dtype? dtype=None, *, bool bias=True) "
          "-> Module ; batch_norm2d",
   .doc = "BatchNorm1d for (N, C, H, W).",
   BATCH_NORM}, 4, 4};

static const channel_norm batch_norm3d = {
  {CN_MODULE_CLASS, .name = "BatchNorm3d",
   .sig = "BatchNorm3d(int num_features, float eps=1e-5, float? momentum=0.1, bool affine=True, "
          "bool track_running_stats=True, device? device=None, dtype? dtype=None, *, bool bias=True) "
          "-> Module ; batch_norm3d",
   .doc = "BatchNorm1d for (N, C, D, H, W).",
   BATCH_NORM}, 5, 5};

static const channel_norm sync_batch_norm = {
  {CN_MODULE_CLASS, .name = "SyncBatchNorm",
   .sig = "SyncBatchNorm(int num_features, float eps=1e-5, float? momentum=0.1, bool affine=True, "
          "bool track_running_stats=True, device? device=None, dtype? dtype=None, *, bool bias=True) "
          "-> Module ; sync_batch_norm",
   .doc = "Batch norm of (N, C, ...) over the batches of all processes; with one process, over its own.",
   BATCH_NORM}, 2, CN_MAX_DIMS};

/* ---- instance norm ---- */

static cn_tensor *instance_norm_apply(cn_module *m, cn_tensor *x)
{
  const cn_value *a = cni_args(m);
  if (check_dims(m, x)) return NULL;
  bool alone = cn_ndim(x) == kind_of(m)->least; /* one sample without the dimension of the batch */
  int64_t channels = cn_size(x, alone ? 0 : 1), n = a[FEATURES].u.i;
  if (channels != n && (a[AFFINE].u.i || a[TRACK].u.i)) {
    cn_err_set(CN_ERR_SHAPE, "%s: made for %lld channels, the input has %lld", m->cls->name, (long long)n,
               (long long)channels);
    return NULL;
  }
  if (channels != n) cn_warn("%s: made for %lld channels, the input has %lld", m->cls->name, (long long)n,
                             (long long)channels);
  double momentum = a[MOMENTUM].tag == CN_V_NONE ? 0 : a[MOMENTUM].u.f;
  cn_tensor *y = cn_instance_norm(alone ? cn_unsqueeze(x, 0) : x, cn_module_slot(m, MEAN), cn_module_slot(m, VAR),
                                  cn_module_slot(m, WEIGHT), cn_module_slot(m, BIAS),
                                  .no_use_input_stats = !cn_module_training(m) && a[TRACK].u.i,
                                  .momentum = cni_option(momentum), .eps = cni_option(a[EPS].u.f));
  return alone ? cn_squeeze(y, .dim = CN_INTS(0)) : y;
}

#define INSTANCE_NORM                                                                                                 \
  .init = channel_init, .apply = instance_norm_apply, .print = channel_print, .work = norm_work

static const channel_norm instance_norm1d = {
  {CN_MODULE_CLASS, .name = "InstanceNorm1d",
   .sig = "InstanceNorm1d(int num_features, float eps=1e-5, float? momentum=0.1, bool affine=False, "
          "bool track_running_stats=False, device? device=None, dtype? dtype=None, *, bool bias=True) "
          "-> Module ; instance_norm1d",
   .doc = "Each channel of each sample of (N, C, L) or (C, L) with mean 0 and variance 1.",
   INSTANCE_NORM}, 2, 3};

static const channel_norm instance_norm2d = {
  {CN_MODULE_CLASS, .name = "InstanceNorm2d",
   .sig = "InstanceNorm2d(int num_features, float eps=1e-5, float? momentum=0.1, bool affine=False, "
          "bool track_running_stats=False, device? device=None, dtype? dtype=None, *, bool bias=True) "
          "-> Module ; instance_norm2d",
   .doc = "InstanceNorm1d for (N, C, H, W) or (C, H, W).",
   INSTANCE_NORM}, 3, 4};

static const channel_norm instance_norm3d = {
  {CN_MODULE_CLASS, .name = "InstanceNorm3d",
   .sig = "InstanceNorm3d(int num_features, float eps=1e-5, float? momentum=0.1, bool affine=False, "
          "bool track_running_stats=False, device? device=None, dtype? dtype=None, *, bool bias=True) "
          "-> Module ; instance_norm3d",
   .doc = "InstanceNorm1d for (N, C, D, H, W) or (C, D, H, W).",
   INSTANCE_NORM}, 4, 5};

/* ---- LayerNorm and RMSNorm ---- */

enum { SHAPE, SHAPE_EPS, ELEMENTWISE, LAYER_BIAS }; /* arguments; RMSNorm has no bias */

static int check_shape(const cn_module *m, const cn_value *shape)
{
  for (int i = 0; i < shape->n; i++)
    if (shape->u.is[i] < 0) return cn_err_set(CN_ERR_VALUE, "%s: sizes cannot be negative", m->cls->name);
  if (shape->n) return CN_OK;
  return cn_err_set(CN_ERR_VALUE, "%s: normalized_shape has no dimensions", m->cls->name);
}

static int layer_norm_init(cn_module *m, const cn_value *a)
{
  const int64_t *shape = a[SHAPE].u.is;
  size_t n = (size_t)a[SHAPE].n;
  if (check_shape(m, &a[SHAPE])) return cn_err();
  if (a[ELEMENTWISE].u.i) cni_add_constant(m, "weight", &a[4], shape, n, 1);
  else cni_add_absent(m, "weight");
  if (a[ELEMENTWISE].u.i && a[LAYER_BIAS].u.i) cni_add_constant(m, "bias", &a[4], shape, n, 0);
  else cni_add_absent(m, "bias");
  return cn_err();
}

static cn_tensor *layer_norm_apply(cn_module *m, cn_tensor *x)
{
  const cn_value *a = cni_args(m);
  return cn_layer_norm(x, a[SHAPE].u.is, (size_t)a[SHAPE].n, cn_module_slot(m, WEIGHT), cn_module_slot(m, BIAS),
                       .eps = cni_option(a[SHAPE_EPS].u.f));
}

static void layer_norm_print(const cn_module *m, cn_text *t)
{
  cni_put_ints(t, cni_args(m)[SHAPE].u.is, cni_args(m)[SHAPE].n);
  cni_put_arg(t, m, SHAPE_EPS);
  cni_put_arg(t, m, ELEMENTWISE);
  cn_text_putf(t, ", bias=%s", cn_module_slot(m, BIAS) ? "True" : "False");
}

static const cn_module_class layer_norm = {
  CN_MODULE_CLASS,
  .name = "LayerNorm",
  .sig = "LayerNorm(int[] normalized_shape, float eps=1e-5, bool elementwise_affine=True, bool bias=True, "
         "device? device=None, dtype? dtype=None) -> Module ; layer_norm",
  .doc = "The last dimensions, of that shape, with mean 0 and variance 1, then * weight + bias for each element.",
  .init = layer_norm_init,
  .apply = layer_norm_apply,
  .print = layer_norm_print,
  .work = norm_work,
};

static int rms_norm_init(cn_module *m, const cn_value *a)
{
  if (check_shape(m, &a[SHAPE])) return cn_err();
  if (a[ELEMENTWISE].u.i) cni_add_constant(m, "weight", &a[3], a[SHAPE].u.is, (size_t)a[SHAPE].n, 1);
  else cni_add_absent(m, "weight");
  return cn_err();
}

static cn_tensor *rms_norm_apply(cn_module *m, cn_tensor *x)
{
  const cn_value *a = cni_args(m);
  return cn_rms_norm(x, a[SHAPE].u.is, (size_t)a[SHAPE].n, cn_module_slot(m, WEIGHT),
                     .eps = a[SHAPE_EPS].tag == CN_V_NONE ? 0 : cni_option(a[SHAPE_EPS].u.f));
}

static void rms_norm_print(const cn_module *m, cn_text *t)
{
  cni_put_ints(t, cni_args(m)[SHAPE].u.is, cni_args(m)[SHAPE].n);
  cni_put_arg(t, m, SHAPE_EPS);
  cni_put_arg(t, m, ELEMENTWISE);
}

static const cn_module_class rms_norm = {
  CN_MODULE_CLASS,
  .name = "RMSNorm",
  .sig = "RMSNorm(int[] normalized_shape, float? eps=None, bool elementwise_affine=True, device? device=None, "
         "dtype? dtype=None) -> Module ; rms_norm",
  .doc = "The last dimensions, of that shape, over their root mean square, then * weight. eps is the type's own when "
         "None.",
  .init = rms_norm_init,
  .apply = rms_norm_apply,
  .print = rms_norm_print,
  .work = norm_work,
};

/* ---- GroupNorm ---- */

enum { GROUPS, CHANNELS, GROUP_EPS, GROUP_AFFINE, GROUP_DEVICE, GROUP_DTYPE, GROUP_BIAS };

static int group_norm_init(cn_module *m, const cn_value *a)
{
  int64_t groups = a[GROUPS].u.i, n = a[CHANNELS].u.i;
  if (groups < 1 || n < 0 || n % groups)
    return cn_err_set(CN_ERR_VALUE, "GroupNorm: %lld channels do not fall into %lld groups", (long long)n,
                      (long long)groups);
  if (a[GROUP_AFFINE].u.i) cni_add_constant(m, "weight", &a[GROUP_DEVICE], CN_SHAPE(n), 1);
  else cni_add_absent(m, "weight");
  if (a[GROUP_AFFINE].u.i && a[GROUP_BIAS].u.i) cni_add_constant(m, "bias", &a[GROUP_DEVICE], CN_SHAPE(n), 0);
  else cni_add_absent(m, "bias");
  return cn_err();
}

static cn_tensor *group_norm_apply(cn_module *m, cn_tensor *x)
{
  const cn_value *a = cni_args(m);
  return cn_group_norm(x, a[GROUPS].u.i, cn_module_slot(m, WEIGHT), cn_module_slot(m, BIAS),
                       .eps = cni_option(a[GROUP_EPS].u.f));
}

static void group_norm_print(const cn_module *m, cn_text *t)
{
  const cn_value *a = cni_args(m);
  cn_text_putf(t, "%lld, %lld", (long long)a[GROUPS].u.i, (long long)a[CHANNELS].u.i);
  cni_put_arg(t, m, GROUP_EPS);
  cni_put_arg(t, m, GROUP_AFFINE);
  cn_text_putf(t, ", bias=%s", cn_module_slot(m, BIAS) ? "True" : "False");
}

static const cn_module_class group_norm = {
  CN_MODULE_CLASS,
  .name = "GroupNorm",
  .sig = "GroupNorm(int num_groups, int num_channels, float eps=1e-5, bool affine=True, device? device=None, "
         "dtype? dtype=None, *, bool bias=True) -> Module ; group_norm",
  .doc = "Groups of channels of each sample with mean 0 and variance 1, then * weight + bias per channel.",
  .init = group_norm_init,
  .apply = group_norm_apply,
  .print = group_norm_print,
  .work = norm_work,
};

/* ---- LocalResponseNorm ---- */

static int local_response_norm_init(cn_module *m, const cn_value *a)
{
  (void)m;
  return a[0].u.i > 0 ? CN_OK : cn_err_set(CN_ERR_VALUE, "LocalResponseNorm: size must be positive");
}

static cn_tensor *local_response_norm_apply(cn_module *m, cn_tensor *x)
{
  const cn_value *a = cni_args(m);
  return cn_local_response_norm(x, a[0].u.i, .alpha = cni_option(a[1].u.f), .beta = cni_option(a[2].u.f),
                                .k = cni_option(a[3].u.f));
}

static void local_response_norm_print(const cn_module *m, cn_text *t)
{
  cn_text_putf(t, "%lld", (long long)cni_args(m)[0].u.i);
  for (int i = 1; i < 4; i++) cni_put_arg(t, m, i);
}

static const cn_module_class local_response_norm = {
  CN_MODULE_CLASS,
  .name = "LocalResponseNorm",
  .sig = "LocalResponseNorm(int size, float alpha=1e-4, float beta=0.75, float k=1.0) -> Module ; local_response_norm",
  .doc = "x / (k + alpha * mean of the squares of `size` neighbouring channels) ^ beta.",
  .init = local_response_norm_init,
  .apply = local_response_norm_apply,
  .print = local_response_norm_print,
  .work = norm_work,
};

const cn_module_class *const cni_nn_norm_classes[] = {
  &batch_norm1d.cls,    &batch_norm2d.cls,    &batch_norm3d.cls,    &sync_batch_norm.cls, &instance_norm1d.cls,
  &instance_norm2d.cls, &instance_norm3d.cls, &layer_norm,          &rms_norm,            &group_norm,
  &local_response_norm, NULL};
