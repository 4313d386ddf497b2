/* pool.c: pooling layers: largest elements, means, norms of windows; windows that cover the input; and back again.
 *
 * Place in the flow: rows of classes over the ops of pooling (one_op.h). Invariant: the class stands first in its row,
 * so that m->cls of its modules is the row. */
#include "one_op.h"

enum { MOST_DIMS = 3 };

/* A row whose op has a sibling that also gives indices. */
typedef struct pool_class {
  cni_one_op one;
  int dims;
  const char *op_with_indices;
  int flag; /* the number of return_indices among the arguments; -1: there is none */
} pool_class;

static const pool_class *row_of(const cn_module *m) { return (const pool_class *)m->cls; }

/* Calls the row's op with the values given, and its sibling when indices are wanted. */
static int call_pool(cn_module *m, cn_module_call *call, const cn_value *values, int n)
{
  const pool_class *row = row_of(m);
  cn_tensor *out[2] = {NULL, NULL};
  bool indices = row->flag >= 0 && cni_args(m)[row->flag].u.i;
  int status =
      cni_call_op(out, indices ? 2 : 1, indices ? row->op_with_indices : row->one.op, values, (size_t)n, NULL);
  call->out[0] = out[0];
  if (call->nout > 1) call->out[1] = out[1];
  return status;
}

static int pool_forward(cn_module *m, cn_module_call *call)
{
  cn_value values[CN_MAX_ARGS] = {call->args[0]};
  int n = 1 + cni_op_args(m, values + 1, row_of(m)->one.args);
  return call_pool(m, call, values, n);
}

/* Sizes that are None stay as the input's. */
static int adaptive_forward(cn_module *m, cn_module_call *call)
{
  int64_t size[MOST_DIMS];
  int dims = row_of(m)->dims;
  const cn_tensor *x = call->args[0].u.t;
  if (cn_ndim(x) != dims + 1 && cn_ndim(x) != dims + 2)
    return cn_err_set(CN_ERR_SHAPE, "%s: takes %d or %d dimensions, not %d", m->cls->name, dims + 1, dims + 2,
                      cn_ndim(x));
  for (int i = 0; i < dims; i++) {
    int64_t given = cni_args(m)[0].u.is[i];
    size[i] = given == CN_NONE ? cn_size(x, i - dims) : given;
  }
  cn_value values[] = {call->args[0], cn_v_ints(size, (size_t)dims)};
  return call_pool(m, call, values, 2);
}

static int unpool_forward(cn_module *m, cn_module_call *call)
{
  const cn_value *a = cni_args(m);
  cn_value values[] = {call->args[0], call->args[1], a[0], a[1], a[2], call->args[2]};
  return call_pool(m, call, values, 6);
}

/* ---- windows at random steps ---- */

enum { KERNEL, SIZE, RATIO, RETURN_INDICES, SAMPLES };

static int fractional_init(cn_module *m, const cn_value *a)
{
  bool size = a[SIZE].tag == CN_V_INTS, ratio = a[RATIO].tag == CN_V_FLOATS;
  if (size == ratio)
    return cn_err_set(CN_ERR_VALUE, "%s: takes either output_size or output_ratio", m->cls->name);
  for (int i = 0; ratio && i < a[RATIO].n; i++)
    if (!(a[RATIO].u.fs[i] > 0 && a[RATIO].u.fs[i] < 1))
      return cn_err_set(CN_ERR_VALUE, "%s: output_ratio must lie between 0 and 1", m->cls->name);
  int slot = cn_module_add_buffer(m, "_random_samples", a[SAMPLES].tag == CN_V_TENSOR ? a[SAMPLES].u.t : NULL, true);
  return slot < 0 ? slot : CN_OK;
}

static int fractional_forward(cn_module *m, cn_module_call *call)
{
  const cn_value *a = cni_args(m);
  int dims = row_of(m)->dims;
  cn_tensor *x = call->args[0].u.t, *samples = cn_module_slot(m, 0), *out[2] = {NULL, NULL};
  int64_t size[MOST_DIMS];
  if (cn_ndim(x) != dims + 1 && cn_ndim(x) != dims + 2)
    return cn_err_set(CN_ERR_SHAPE, "%s: takes %d or %d dimensions, not %d", m->cls->name, dims + 1, dims + 2,
                      cn_ndim(x));
  for (int i = 0; i < dims; i++)
    size[i] = a[SIZE].tag == CN_V_INTS ? a[SIZE].u.is[i] : (int64_t)((double)cn_size(x, i - dims) * a[RATIO].u.fs[i]);
  if (!samples) {
    int64_t batch = cn_ndim(x) == dims + 2 ? cn_size(x, 0) : 1;
    samples = cn_rand(CN_SHAPE(batch, cn_size(x, -dims - 1), dims), .dtype = cn_dtype_of(x), .device = cn_device_of(x));
  }
  cn_value values[] = {call->args[0], a[KERNEL], cn_v_ints(size, (size_t)dims), cn_v_tensor(samples)};
  int status = cni_call_op(out, 2, row_of(m)->op_with_indices, values, 4, NULL);
  call->out[0] = out[0];
  if (a[RETURN_INDICES].u.i && call->nout > 1) call->out[1] = out[1];
  return status;
}

/* ---- the classes ---- */

#define INDICES "(Tensor input) -> (Tensor output, Tensor indices)"
#define ROW .forward = pool_forward, .print = cni_one_op_print
#define MAX .call = INDICES, ROW
#define ADAPTIVE .forward = adaptive_forward, .print = cni_one_op_print
#define UNPOOL \
  .call = "(Tensor input, Tensor indices, int[]? output_size=None) -> Tensor", .forward = unpool_forward, \
  .print = cni_one_op_print
#define FRACTIONAL .call = INDICES, .init = fractional_init, .forward = fractional_forward, .print = cni_one_op_print

/* clang-format off */
static const pool_class max_pool1d = {
  {{CN_MODULE_CLASS, .name = "MaxPool1d",
    .sig = "MaxPool1d(int[1] kernel_size, int[1]? stride=None, int[1] padding=0, int[1] dilation=1, "
           "bool return_indices=False, bool ceil_mode=False) -> Module ; max_pool1d",
    .doc = "The largest element of each window of signals (N, C, L) or (C, L), and where it was when return_indices "
           "is set. stride None means kernel_size.", MAX},
   "max_pool1d", "01235", "*kernel_size *^stride *padding *dilation ceil_mode"},
  1, "max_pool1d_with_indices", 4};
static const pool_class max_pool2d = {
  {{CN_MODULE_CLASS, .name = "MaxPool2d",
    .sig = "MaxPool2d(int[2] kernel_size, int[2]? stride=None, int[2] padding=0, int[2] dilation=1, "
           "bool return_indices=False, bool ceil_mode=False) -> Module ; max_pool2d",
    .doc = "The largest element of each window of images (N, C, H, W) or (C, H, W). See MaxPool1d.", MAX},
   "max_pool2d", "01235", "*kernel_size *^stride *padding *dilation ceil_mode"},
  2, "max_pool2d_with_indices", 4};
static const pool_class max_pool3d = {
  {{CN_MODULE_CLASS, .name = "MaxPool3d",
    .sig = "MaxPool3d(int[3] kernel_size, int[3]? stride=None, int[3] padding=0, int[3] dilation=1, "
           "bool return_indices=False, bool ceil_mode=False) -> Module ; max_pool3d",
    .doc = "The largest element of each window of volumes (N, C, D, H, W) or (C, D, H, W). See MaxPool1d.", MAX},
   "max_pool3d", "01235", "*kernel_size *^stride *padding *dilation ceil_mode"},
  3, "max_pool3d_with_indices", 4};

static const pool_class max_unpool1d = {
  {{CN_MODULE_CLASS, .name = "MaxUnpool1d",
    .sig = "MaxUnpool1d(int[1] kernel_size, int[1]? stride=None, int[1] padding=0) -> Module ; max_unpool1d",
    .doc = "Puts what MaxPool1d gave back where its indices say, with zeros elsewhere. A call may say the "
           "output_size.",
    UNPOOL},
   "max_unpool1d", NULL, "kernel_size ^stride padding"},
  1, NULL, -1};
static const pool_class max_unpool2d = {
  {{CN_MODULE_CLASS, .name = "MaxUnpool2d",
    .sig = "MaxUnpool2d(int[2] kernel_size, int[2]? stride=None, int[2] padding=0) -> Module ; max_unpool2d",
    .doc = "Puts what MaxPool2d gave back where its indices say. See MaxUnpool1d.", UNPOOL},
   "max_unpool2d", NULL, "kernel_size ^stride padding"},
  2, NULL, -1};
static const pool_class max_unpool3d = {
  {{CN_MODULE_CLASS, .name = "MaxUnpool3d",
    .sig = "MaxUnpool3d(int[3] kernel_size, int[3]? stride=None, int[3] padding=0) -> Module ; max_unpool3d",
    .doc = "Puts what MaxPool3d gave back where its indices say. See MaxUnpool1d.", UNPOOL},
   "max_unpool3d", NULL, "kernel_size ^stride padding"},
  3, NULL, -1};

static const pool_class avg_pool1d = {
  {{CN_MODULE_CLASS, .name = "AvgPool1d",
    .sig = "AvgPool1d(int[1] kernel_size, int[1]? stride=None, int[1] padding=0, bool ceil_mode=False, "
           "bool count_include_pad=True) -> Module ; avg_pool1d",
    .doc = "The mean of each window of signals (N, C, L) or (C, L). stride None means kernel_size; padding counts as "
           "zeros, or not at all when count_include_pad is false.", ROW},
   "avg_pool1d", "01234", "kernel_size ^stride padding"},
  1, NULL, -1};
static const pool_class avg_pool2d = {
  {{CN_MODULE_CLASS, .name = "AvgPool2d",
    .sig = "AvgPool2d(int[2] kernel_size, int[2]? stride=None, int[2] padding=0, bool ceil_mode=False, "
           "bool count_include_pad=True, int? divisor_override=None) -> Module ; avg_pool2d",
    .doc = "The mean of each window of images (N, C, H, W) or (C, H, W); divisor_override replaces the number of "
           "elements. See AvgPool1d.", ROW},
   "avg_pool2d", "012345", "*kernel_size *^stride *padding"},
  2, NULL, -1};
static const pool_class avg_pool3d = {
  {{CN_MODULE_CLASS, .name = "AvgPool3d",
    .sig = "AvgPool3d(int[3] kernel_size, int[3]? stride=None, int[3] padding=0, bool ceil_mode=False, "
           "bool count_include_pad=True, int? divisor_override=None) -> Module ; avg_pool3d",
    .doc = "The mean of each window of volumes (N, C, D, H, W) or (C, D, H, W). See AvgPool2d.", ROW},
   "avg_pool3d", "012345", "*kernel_size *^stride *padding"},
  3, NULL, -1};

static const pool_class lp_pool1d = {
  {{CN_MODULE_CLASS, .name = "LPPool1d",
    .sig = "LPPool1d(float norm_type, int[1] kernel_size, int[1]? stride=None, bool ceil_mode=False) "
           "-> Module ; lp_pool1d",
    .doc = "The norm of each window of signals (N, C, L) or (C, L): the root of the sum of powers by norm_type.",
    ROW},
   "lp_pool1d", "0123", "norm_type *kernel_size *stride ceil_mode"},
  1, NULL, -1};
static const pool_class lp_pool2d = {
  {{CN_MODULE_CLASS, .name = "LPPool2d",
    .sig = "LPPool2d(float norm_type, int[2] kernel_size, int[2]? stride=None, bool ceil_mode=False) "
           "-> Module ; lp_pool2d",
    .doc = "The norm of each window of images (N, C, H, W) or (C, H, W). See LPPool1d.", ROW},
   "lp_pool2d", "0123", "norm_type *kernel_size *stride ceil_mode"},
  2, NULL, -1};
static const pool_class lp_pool3d = {
  {{CN_MODULE_CLASS, .name = "LPPool3d",
    .sig = "LPPool3d(float norm_type, int[3] kernel_size, int[3]? stride=None, bool ceil_mode=False) "
           "-> Module ; lp_pool3d",
    .doc = "The norm of each window of volumes (N, C, D, H, W) or (C, D, H, W). See LPPool1d.", ROW},
   "lp_pool3d", "0123", "norm_type *kernel_size *stride ceil_mode"},
  3, NULL, -1};

static const pool_class adaptive_avg_pool1d = {
  {{CN_MODULE_CLASS, .name = "AdaptiveAvgPool1d",
    .sig = "AdaptiveAvgPool1d(int[1] output_size) -> Module ; adaptive_avg_pool1d",
    .doc = "The means of output_size windows that cover signals (N, C, L) or (C, L). A size of None stays as it is.",
    ADAPTIVE},
   "adaptive_avg_pool1d", NULL, "*output_size"},
  1, NULL, -1};
static const pool_class adaptive_avg_pool2d = {
  {{CN_MODULE_CLASS, .name = "AdaptiveAvgPool2d",
    .sig = "AdaptiveAvgPool2d(int[2] output_size) -> Module ; adaptive_avg_pool2d",
    .doc = "The means of output_size windows that cover images (N, C, H, W) or (C, H, W). See AdaptiveAvgPool1d.",
    ADAPTIVE},
   "adaptive_avg_pool2d", NULL, "*output_size"},
  2, NULL, -1};
static const pool_class adaptive_avg_pool3d = {
  {{CN_MODULE_CLASS, .name = "AdaptiveAvgPool3d",
    .sig = "AdaptiveAvgPool3d(int[3] output_size) -> Module ; adaptive_avg_pool3d",
    .doc = "The means of output_size windows that cover volumes (N, C, D, H, W) or (C, D, H, W). See "
           "AdaptiveAvgPool1d.",
    ADAPTIVE},
   "adaptive_avg_pool3d", NULL, "*output_size"},
  3, NULL, -1};

static const pool_class adaptive_max_pool1d = {
  {{CN_MODULE_CLASS, .name = "AdaptiveMaxPool1d",
    .sig = "AdaptiveMaxPool1d(int[1] output_size, bool return_indices=False) -> Module ; adaptive_max_pool1d",
    .doc = "The largest elements of output_size windows that cover signals (N, C, L) or (C, L), and where they were "
           "when return_indices is set. A size of None stays as it is.", .call = INDICES, ADAPTIVE},
   "adaptive_max_pool1d", NULL, "*output_size"},
  1, "adaptive_max_pool1d_with_indices", 1};
static const pool_class adaptive_max_pool2d = {
  {{CN_MODULE_CLASS, .name = "AdaptiveMaxPool2d",
    .sig = "AdaptiveMaxPool2d(int[2] output_size, bool return_indices=False) -> Module ; adaptive_max_pool2d",
    .doc = "The largest elements of output_size windows that cover images (N, C, H, W) or (C, H, W). See "
           "AdaptiveMaxPool1d.", .call = INDICES, ADAPTIVE},
   "adaptive_max_pool2d", NULL, "*output_size"},
  2, "adaptive_max_pool2d_with_indices", 1};
static const pool_class adaptive_max_pool3d = {
  {{CN_MODULE_CLASS, .name = "AdaptiveMaxPool3d",
    .sig = "AdaptiveMaxPool3d(int[3] output_size, bool return_indices=False) -> Module ; adaptive_max_pool3d",
    .doc = "The largest elements of output_size windows that cover volumes (N, C, D, H, W) or (C, D, H, W). See "
           "AdaptiveMaxPool1d.", .call = INDICES, ADAPTIVE},
   "adaptive_max_pool3d", NULL, "*output_size"},
  3, "adaptive_max_pool3d_with_indices", 1};

static const pool_class fractional_max_pool2d = {
  {{CN_MODULE_CLASS, .name = "FractionalMaxPool2d",
    .sig = "FractionalMaxPool2d(int[2] kernel_size, int[2]? output_size=None, float[2]? output_ratio=None, "
           "bool return_indices=False, Tensor? _random_samples=None) -> Module ; fractional_max_pool2d",
    .doc = "The largest element of windows of images (N, C, H, W) or (C, H, W) that begin at random steps. The size "
           "of the result is output_size, or output_ratio of the input's. _random_samples (N, C, 2) in [0, 1) "
           "settles the steps.",
    FRACTIONAL},
   NULL, NULL, NULL},
  2, "fractional_max_pool2d_with_indices", RETURN_INDICES};
static const pool_class fractional_max_pool3d = {
  {{CN_MODULE_CLASS, .name = "FractionalMaxPool3d",
    .sig = "FractionalMaxPool3d(int[3] kernel_size, int[3]? output_size=None, float[3]? output_ratio=None, "
           "bool return_indices=False, Tensor? _random_samples=None) -> Module ; fractional_max_pool3d",
    .doc = "The largest element of windows of volumes (N, C, D, H, W) or (C, D, H, W) that begin at random steps. "
           "See FractionalMaxPool2d.", FRACTIONAL},
   NULL, NULL, NULL},
  3, "fractional_max_pool3d_with_indices", RETURN_INDICES};
/* clang-format on */

#define CLASS(row) &(row).one.cls
#define DIMS(name) CLASS(name##1d), CLASS(name##2d), CLASS(name##3d)

const cn_module_class *const cni_nn_pool_classes[] = {
  DIMS(max_pool), DIMS(max_unpool), DIMS(avg_pool), DIMS(lp_pool), DIMS(adaptive_avg_pool), DIMS(adaptive_max_pool),
  &fractional_max_pool2d.one.cls, &fractional_max_pool3d.one.cls, NULL};
