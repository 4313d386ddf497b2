/* conv.c: convolutions and transposed convolutions of signals, images and volumes: one row each, the same code for all.
 *
 * Place in the flow: rows of classes over the ops conv1d to conv_transpose3d. Invariant: the class stands first in its
 * row, so that m->cls of its modules is the row. */
#include <math.h>
#include <string.h>

#include "one_op.h"

enum { WEIGHT, BIAS, MOST_DIMS = 3 };

typedef struct conv_class {
  cn_module_class cls;
  int dims;
  bool transposed;
  const char *op, *op_by_word; /* the second takes padding 'same' or 'valid' */
} conv_class;

/* The arguments of the constructor, wherever they stand in its signature. */
typedef struct conv {
  int64_t in, out, groups;
  const int64_t *kernel, *stride, *padding, *output_padding, *dilation; /* dims numbers each */
  const char *word; /* of padding, which is NULL then */
  const char *mode; /* of padding */
  bool bias;
  const cn_value *place;
  int dims;
  bool transposed;
} conv;

static conv read_args(const cn_module *m)
{
  const conv_class *row = (const conv_class *)m->cls;
  const cn_value *a = cni_args(m);
  bool t = row->transposed, word = a[4].tag == CN_V_STR;
  return (conv){
    .in = a[0].u.i,
    .out = a[1].u.i,
    .kernel = a[2].u.is,
    .stride = a[3].u.is,
    .padding = word ? NULL : a[4].u.is,
    .word = word ? a[4].u.s : NULL,
    .output_padding = t ? a[5].u.is : NULL,
    .groups = a[6].u.i,
    .bias = a[7].u.i != 0,
    .dilation = a[t ? 8 : 5].u.is,
    .mode = a[t ? 9 : 8].u.s,
    .place = &a[t ? 10 : 9],
    .dims = row->dims,
    .transposed = t,
  };
}

/* ---- making ---- */

static bool all_are(const int64_t *v, int n, int64_t value)
{
  for (int i = 0; i < n; i++)
    if (v[i] != value) return false;
  return true;
}

static int check(const char *who, const conv *c)
{
  static const char *const modes[] = {"zeros", "reflect", "replicate", "circular"};
  bool known = false;
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) known |= !strcmp(c->mode, modes[i]);
  if (c->in < 0 || c->out < 0) return cn_err_set(CN_ERR_VALUE, "%s: numbers of channels cannot be negative", who);
  if (c->groups < 1) return cn_err_set(CN_ERR_VALUE, "%s: groups is %lld, must be positive", who, (long long)c->groups);
  if (c->in % c->groups || c->out % c->groups)
    return cn_err_set(CN_ERR_VALUE, "%s: in_channels (%lld) and out_channels (%lld) must be multiples of groups (%lld)",
                      who, (long long)c->in, (long long)c->out, (long long)c->groups);
  for (int i = 0; i < c->dims; i++)
    if (c->kernel[i] < 1 || c->stride[i] < 1 || c->dilation[i] < 1 || (c->padding && c->padding[i] < 0))
      return cn_err_set(CN_ERR_VALUE, "%s: kernel_size, stride and dilation must be positive, padding not negative",
                        who);
  if (c->word && strcmp(c->word, "same") && strcmp(c->word, "valid"))
    return cn_err_set(CN_ERR_VALUE, "%s: padding is numbers, 'same' or 'valid', not '%s'", who, c->word);
  if (c->word && !strcmp(c->word, "same") && !all_are(c->stride, c->dims, 1))
    return cn_err_set(CN_ERR_VALUE, "%s: padding 'same' needs a stride of 1", who);
  if (!known)
    return cn_err_set(CN_ERR_VALUE, "%s: padding_mode is 'zeros', 'reflect', 'replicate' or 'circular', not '%s'", who,
                      c->mode);
  if (c->transposed && strcmp(c->mode, "zeros"))
    return cn_err_set(CN_ERR_VALUE, "%s: only padding_mode 'zeros' is possible", who);
  return CN_OK;
}

static int conv_init(cn_module *m, const cn_value *a)
{
  (void)a;
  conv c = read_args(m);
  if (check(m->cls->name, &c)) return cn_err();
  int64_t shape[2 + MOST_DIMS] = {c.out, c.in / c.groups};
  if (c.transposed) shape[0] = c.in, shape[1] = c.out / c.groups;
  double fan_in = (double)shape[1];
  for (int i = 0; i < c.dims; i++) {
    shape[2 + i] = c.kernel[i];
    fan_in *= (double)c.kernel[i];
  }
  double bound = fan_in > 0 ? 1 / sqrt(fan_in) : 0;
  cni_add_uniform(m, "weight", c.place, shape, (size_t)c.dims + 2, bound);
  if (c.bias) cni_add_uniform(m, "bias", c.place, CN_SHAPE(c.out), bound);
  else cni_add_absent(m, "bias");
  return cn_err();
}

/* ---- computing ---- */

/* The input with its border, where that is not of zeros: pairs of sizes, of the last dimension first. */
static cn_tensor *padded(const conv *c, cn_tensor *x)
{
  int64_t pad[2 * MOST_DIMS];
  for (int i = 0; i < c->dims; i++) {
    int d = c->dims - 1 - i;
    int64_t total = c->padding ? 2 * c->padding[d] : *c->word == 's' ? c->dilation[d] * (c->kernel[d] - 1) : 0;
    pad[2 * i] = total / 2;
    pad[2 * i + 1] = total - total / 2;
  }
  return cn_pad(x, pad, (size_t)(2 * c->dims), .mode = c->mode);
}

static cn_tensor *conv_apply(cn_module *m, cn_tensor *x)
{
  static const int64_t none[MOST_DIMS];
  const conv_class *row = (const conv_class *)m->cls;
  conv c = read_args(m);
  size_t dims = (size_t)c.dims;
  cn_tensor *y = NULL;
  bool border = strcmp(c.mode, "zeros") != 0;
  if (border) x = padded(&c, x);
  cn_value padding = c.word && !border ? cn_v_str(c.word) : cn_v_ints(border ? none : c.padding, dims);
  cn_value args[] = {cn_v_tensor(x), cn_v_tensor(cn_module_slot(m, WEIGHT)), cn_v_tensor(cn_module_slot(m, BIAS)),
                     cn_v_ints(c.stride, dims), padding, cn_v_ints(c.dilation, dims), cn_v_int(c.groups)};
  cni_call_op(&y, 1, padding.tag == CN_V_STR ? row->op_by_word : row->op, args, sizeof args / sizeof *args, NULL);
  return y;
}

/* What to add to the smallest size that the arguments allow, so that the result has the size that the caller wants.
 * Several sizes give the same input when stride is above 1. */
static int fit_output(int64_t *extra, const cn_module *m, const conv *c, const cn_tensor *x, const cn_value *wanted)
{
  int lead = wanted->n - c->dims; /* the caller may name batch and channels too */
  if ((cn_ndim(x) != c->dims + 1 && cn_ndim(x) != c->dims + 2) || (lead && lead != cn_ndim(x) - c->dims))
    return cn_err_set(CN_ERR_SHAPE, "%s: output_size has %d numbers, must have %d or as many as the input",
                      m->cls->name, wanted->n, c->dims);
  for (int d = 0; d < c->dims; d++) {
    int64_t size = wanted->u.is[lead + d];
    int64_t least = (cn_size(x, d - c->dims) - 1) * c->stride[d] - 2 * c->padding[d] +
                    c->dilation[d] * (c->kernel[d] - 1) + 1;
    extra[d] = size - least;
    if (extra[d] < 0 || extra[d] >= c->stride[d])
      return cn_err_set(CN_ERR_SHAPE, "%s: output_size %lld is not possible here, %lld to %lld are", m->cls->name,
                        (long long)size, (long long)least, (long long)(least + c->stride[d] - 1));
  }
  return CN_OK;
}

static int transposed_forward(cn_module *m, cn_module_call *call)
{
  conv c = read_args(m);
  size_t dims = (size_t)c.dims;
  int64_t extra[MOST_DIMS];
  cn_tensor *x = call->args[0].u.t;
  if (call->args[1].tag == CN_V_INTS) {
    if (fit_output(extra, m, &c, x, &call->args[1])) return cn_err();
    c.output_padding = extra;
  }
  cn_value args[] = {cn_v_tensor(x), cn_v_tensor(cn_module_slot(m, WEIGHT)), cn_v_tensor(cn_module_slot(m, BIAS)),
                     cn_v_ints(c.stride, dims), cn_v_ints(c.padding, dims), cn_v_ints(c.output_padding, dims),
                     cn_v_int(c.groups), cn_v_ints(c.dilation, dims)};
  return cni_call_op(call->out, 1, ((const conv_class *)m->cls)->op, args, sizeof args / sizeof *args, NULL);
}

static double conv_work(const cn_module *m, const cn_module_call *call)
{
  conv c = read_args(m);
  const cn_tensor *each = c.transposed ? call->args[0].u.t : call->out[0];
  double work = (double)cn_numel(each) * (double)((c.transposed ? c.out : c.in) / c.groups);
  for (int i = 0; i < c.dims; i++) work *= (double)c.kernel[i];
  return work;
}

/* ---- printing ---- */

static void put_unless(cn_text *t, const char *name, const int64_t *v, int n, int64_t usual)
{
  if (!v || all_are(v, n, usual)) return;
  cn_text_putf(t, ", %s=", name);
  cni_put_ints(t, v, n);
}

static void conv_print(const cn_module *m, cn_text *t)
{
  conv c = read_args(m);
  cn_text_putf(t, "%lld, %lld, kernel_size=", (long long)c.in, (long long)c.out);
  cni_put_ints(t, c.kernel, c.dims);
  cn_text_put(t, ", stride=");
  cni_put_ints(t, c.stride, c.dims);
  if (c.word) cn_text_putf(t, ", padding=%s", c.word);
  put_unless(t, "padding", c.padding, c.dims, 0);
  put_unless(t, "dilation", c.dilation, c.dims, 1);
  put_unless(t, "output_padding", c.output_padding, c.dims, 0);
  if (c.groups != 1) cn_text_putf(t, ", groups=%lld", (long long)c.groups);
  if (!cn_module_slot(m, BIAS)) cn_text_put(t, ", bias=False");
  if (strcmp(c.mode, "zeros")) cn_text_putf(t, ", padding_mode=%s", c.mode);
}

/* ---- the classes ---- */

#define ROW .init = conv_init, .apply = conv_apply, .print = conv_print, .work = conv_work
#define TRANSPOSED                                                                                              \
  .call = "(Tensor input, int[]? output_size=None) -> Tensor", .init = conv_init, .forward = transposed_forward, \
  .print = conv_print, .work = conv_work

/* clang-format off */
static const conv_class conv1d = {
  {CN_MODULE_CLASS, .name = "Conv1d",
   .sig = "Conv1d(int in_channels, int out_channels, int[1] kernel_size, int[1] stride=1, int[1]|str padding=0, "
          "int[1] dilation=1, int groups=1, bool bias=True, str padding_mode='zeros', device? device=None, "
          "dtype? dtype=None) -> Module ; conv1d",
   .doc = "Cross-correlation of signals (N, C, L) or (C, L) with learnt kernels, plus bias. padding is sizes, "
          "'valid' or 'same'; padding_mode is 'zeros', 'reflect', 'replicate' or 'circular'. Weight and bias start "
          "uniform in +-1/sqrt(in_channels / groups * kernel size).", ROW},
  1, false, "conv1d", "conv1d_padding"};
static const conv_class conv2d = {
  {CN_MODULE_CLASS, .name = "Conv2d",
   .sig = "Conv2d(int in_channels, int out_channels, int[2] kernel_size, int[2] stride=1, int[2]|str padding=0, "
          "int[2] dilation=1, int groups=1, bool bias=True, str padding_mode='zeros', device? device=None, "
          "dtype? dtype=None) -> Module ; conv2d",
   .doc = "Cross-correlation of images (N, C, H, W) or (C, H, W) with learnt kernels, plus bias. See Conv1d.", ROW},
  2, false, "conv2d", "conv2d_padding"};
static const conv_class conv3d = {
  {CN_MODULE_CLASS, .name = "Conv3d",
   .sig = "Conv3d(int in_channels, int out_channels, int[3] kernel_size, int[3] stride=1, int[3]|str padding=0, "
          "int[3] dilation=1, int groups=1, bool bias=True, str padding_mode='zeros', device? device=None, "
          "dtype? dtype=None) -> Module ; conv3d",
   .doc = "Cross-correlation of volumes (N, C, D, H, W) or (C, D, H, W) with learnt kernels, plus bias. See Conv1d.",
   ROW},
  3, false, "conv3d", "conv3d_padding"};
static const conv_class conv_transpose1d = {
  {CN_MODULE_CLASS, .name = "ConvTranspose1d",
   .sig = "ConvTranspose1d(int in_channels, int out_channels, int[1] kernel_size, int[1] stride=1, int[1] padding=0, "
          "int[1] output_padding=0, int groups=1, bool bias=True, int[1] dilation=1, str padding_mode='zeros', "
          "device? device=None, dtype? dtype=None) -> Module ; conv_transpose1d",
   .doc = "Transposed convolution of signals (N, C, L) or (C, L): each element adds a kernel to the result. A call "
          "may say the output_size. Weight and bias start uniform in +-1/sqrt(out_channels / groups * kernel size).",
   TRANSPOSED},
  1, true, "conv_transpose1d", NULL};
static const conv_class conv_transpose2d = {
  {CN_MODULE_CLASS, .name = "ConvTranspose2d",
   .sig = "ConvTranspose2d(int in_channels, int out_channels, int[2] kernel_size, int[2] stride=1, int[2] padding=0, "
          "int[2] output_padding=0, int groups=1, bool bias=True, int[2] dilation=1, str padding_mode='zeros', "
          "device? device=None, dtype? dtype=None) -> Module ; conv_transpose2d",
   .doc = "Transposed convolution of images (N, C, H, W) or (C, H, W). See ConvTranspose1d.", TRANSPOSED},
  2, true, "conv_transpose2d", NULL};
static const conv_class conv_transpose3d = {
  {CN_MODULE_CLASS, .name = "ConvTranspose3d",
   .sig = "ConvTranspose3d(int in_channels, int out_channels, int[3] kernel_size, int[3] stride=1, int[3] padding=0, "
          "int[3] output_padding=0, int groups=1, bool bias=True, int[3] dilation=1, str padding_mode='zeros', "
          "device? device=None, dtype? dtype=None) -> Module ; conv_transpose3d",
   .doc = "Transposed convolution of volumes (N, C, D, H, W) or (C, D, H, W). See ConvTranspose1d.", TRANSPOSED},
  3, true, "conv_transpose3d", NULL};
/* clang-format on */

const cn_module_class *const cni_nn_conv_classes[] = {
  &conv1d.cls, &conv2d.cls, &conv3d.cls, &conv_transpose1d.cls, &conv_transpose2d.cls, &conv_transpose3d.cls, NULL};
