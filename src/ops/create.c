/* create.c: the family of ops that make tensors: constants, ranges, random numbers, copies and casts.
 *
 * Invariant: random results depend on (seed, offset, element index) only, so the number of threads never shows. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <cairn/ops.h>
#include <math.h>

#include "families.h"
#include "shorthand.h"

/* The dtype and device arguments that creation ops end with. */
static int float_dtype(const cn_value *v) { return v->tag == CN_V_NONE ? (int)cn_default_dtype() : (int)v->u.i; }

static void use_device(cn_call *c, const cn_value *v)
{
  if (v->tag != CN_V_NONE) c->device = (cn_device)v->u.i;
}

/* ---- from a size ---- */

/* Parameters of empty, rand and randn: size, dtype, device. */
static int sized_infer(cn_call *c)
{
  use_device(c, &c->args[2]);
  return cn_call_result(c, 0, float_dtype(&c->args[1]), c->args[0].n, c->args[0].u.is);
}

static int random_infer(cn_call *c)
{
  int status = sized_infer(c);
  if (!status && !cni_dtype_is_float(c->spec[0].dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "draws floating-point numbers, not %s",
                        cn_dtype_name((cn_dtype)c->spec[0].dtype));
  return status;
}

/* full(size, fill_value, dtype, device): without a dtype the value's own kind decides. */
static int full_infer(cn_call *c)
{
  const cn_value *v = &c->args[1];
  int dtype = c->args[2].tag != CN_V_NONE ? (int)c->args[2].u.i
              : v->tag == CN_V_BOOL       ? CN_BOOL
              : v->tag == CN_V_INT        ? CN_I64
                                          : (int)cn_default_dtype();
  use_device(c, &c->args[3]);
  return cn_call_result(c, 0, dtype, c->args[0].n, c->args[0].u.is);
}

static int zeros_decompose(cn_call *c)
{
  c->out[0] = cn_full_with(c->args[0].u.is, (size_t)c->args[0].n, 0,
                           &(cn_full_opts){.size = sizeof(cn_full_opts), .dtype = (cn_dtype)float_dtype(&c->args[1]),
                                           .device = (cn_device)cni_arg_int_or(c->args, 2, 0)});
  return cn_err();
}

static int ones_decompose(cn_call *c)
{
  c->out[0] = cn_full_with(c->args[0].u.is, (size_t)c->args[0].n, 1,
                           &(cn_full_opts){.size = sizeof(cn_full_opts), .dtype = (cn_dtype)float_dtype(&c->args[1]),
                                           .device = (cn_device)cni_arg_int_or(c->args, 2, 0)});
  return cn_err();
}

/* ---- like another tensor: dtype, memory order and device follow it ---- */

/* given: dtype and device, of which nothing else is read, so that a tensor without data will do. */
static int like_infer_given(cn_call *c, const cn_value *given)
{
  use_device(c, &given[1]);
  return cni_infer_like(c, 0, 0, given->tag == CN_V_NONE ? c->in[0]->d.dtype : (int)given->u.i);
}
static int like_infer(cn_call *c) { return like_infer_given(c, &c->args[1]); }
static int full_like_infer(cn_call *c) { return like_infer_given(c, &c->args[2]); }

static int filled_like(cn_call *c, double value)
{
  c->out[0] = cn_full_like_with(c->in[0], value,
                                &(cn_full_like_opts){.size = sizeof(cn_full_like_opts),
                                                     .dtype = (cn_dtype)cni_arg_int_or(c->args, 1, 0),
                                                     .device = (cn_device)cni_arg_int_or(c->args, 2, 0)});
  return cn_err();
}
static int zeros_like_decompose(cn_call *c) { return filled_like(c, 0); }
static int ones_like_decompose(cn_call *c) { return filled_like(c, 1); }

/* ---- ranges ---- */

/* arange(start, end, step, dtype, device) */
static int arange_infer(cn_call *c)
{
  double start = cni_arg_float(c->args, 0), end = cni_arg_float(c->args, 1), step = cni_arg_float(c->args, 2);
  bool ints = c->args[0].tag != CN_V_FLOAT && c->args[1].tag != CN_V_FLOAT && c->args[2].tag != CN_V_FLOAT;
  if (!(step > 0 || step < 0)) return cn_call_fail(c, CN_ERR_VALUE, "step must not be zero");
  if (!isfinite(start) || !isfinite(end)) return cn_call_fail(c, CN_ERR_VALUE, "start and end must be finite");
  if ((end - start) / step < 0)
    return cn_call_fail(c, CN_ERR_VALUE, "end %g cannot be reached from start %g with step %g", end, start, step);
  double length = ceil((end - start) / step);
  if (length > 4e18) return cn_call_fail(c, CN_ERR_SHAPE, "the range is too long");
  int64_t n = (int64_t)length;
  int dtype = c->args[3].tag != CN_V_NONE ? (int)c->args[3].u.i : ints ? CN_I64 : (int)cn_default_dtype();
  use_device(c, &c->args[4]);
  return cn_call_result(c, 0, dtype, 1, &n);
}

/* linspace(start, end, steps, dtype, device) */
static int linspace_infer(cn_call *c)
{
  int64_t n = cni_arg_int(c->args, 2);
  if (n < 0) return cn_call_fail(c, CN_ERR_VALUE, "steps must not be negative, but is %lld", (long long)n);
  use_device(c, &c->args[4]);
  return cn_call_result(c, 0, float_dtype(&c->args[3]), 1, &n);
}

/* logspace(start, end, steps, base, dtype, device) */
static int logspace_decompose(cn_call *c)
{
  int64_t steps = cni_arg_int(c->args, 2);
  double base = cni_arg_float(c->args, 3), start = cni_arg_float(c->args, 0), end = cni_arg_float(c->args, 1);
  cn_dtype dtype = (cn_dtype)cni_arg_int_or(c->args, 4, (int64_t)cn_default_dtype());
  cn_device device = (cn_device)cni_arg_int_or(c->args, 5, 0);
  if (steps < 0) return cn_call_fail(c, CN_ERR_VALUE, "steps must not be negative, but is %lld", (long long)steps);
  int status = cni_check_dtype(c, (int64_t)dtype);
  if (status) return status;
  if (steps == 1) end = start; /* and not rounded, as in PyTorch */
  else if (!cni_dtype_is_float((int)dtype)) start = trunc(start), end = trunc(end);
  else start = cni_stored(start, (int)dtype), end = cni_stored(end, (int)dtype);
  cn_tensor *x = cn_linspace(start, end, steps, .dtype = CN_F64, .device = device);
  c->out[0] = cni_in_type(cn_pow(cn_num(base), x), (int)dtype);
  return cn_err();
}

/* eye(n, m, dtype, device) */
static int eye_infer(cn_call *c)
{
  int64_t n = cni_arg_int(c->args, 0), shape[2] = {n, cni_arg_int_or(c->args, 1, n)};
  use_device(c, &c->args[3]);
  return cn_call_result(c, 0, float_dtype(&c->args[2]), 2, shape);
}

/* ---- random ---- */

/* randint(low, high, size, dtype, device) */
static int randint_infer(cn_call *c)
{
  int64_t low = cni_arg_int(c->args, 0), high = cni_arg_int(c->args, 1);
  if (low >= high)
    return cn_call_fail(c, CN_ERR_VALUE, "low %lld must be below high %lld", (long long)low, (long long)high);
  use_device(c, &c->args[4]);
  int dtype = c->args[3].tag == CN_V_NONE ? CN_I64 : (int)c->args[3].u.i;
  return cn_call_result(c, 0, dtype, c->args[2].n, c->args[2].u.is);
}

static int randperm_infer(cn_call *c)
{
  int64_t n = cni_arg_int(c->args, 0);
  if (n < 0) return cn_call_fail(c, CN_ERR_VALUE, "n must not be negative");
  use_device(c, &c->args[2]);
  return cn_call_result(c, 0, c->args[1].tag == CN_V_NONE ? CN_I64 : (int)c->args[1].u.i, 1, &n);
}

static int bernoulli_infer(cn_call *c)
{
  if (!cni_dtype_is_float(c->in[0]->d.dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "takes probabilities of a floating-point type");
  return cni_infer_like(c, 0, 0, c->in[0]->d.dtype);
}

/* As in PyTorch the draw carries a gradient, of zero. */
static int bernoulli_vjp(cn_vjp *v)
{
  v->gin[0] = NULL;
  return CN_OK;
}

/* ---- copies ---- */

/* copy(input, src): the in-place form copy_ is what matters; the result has input's shape and type. */
static int copy_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d, *s = &c->in[1]->d;
  char have[CNI_SHAPE_TEXT], want[CNI_SHAPE_TEXT];
  if (!cni_broadcasts_to(s->ndim, s->shape, d->ndim, d->shape))
    return cn_call_fail(c, CN_ERR_SHAPE, "a tensor of shape %s cannot be copied into one of shape %s",
                        cni_shape_text(have, sizeof have, s->ndim, s->shape),
                        cni_shape_text(want, sizeof want, d->ndim, d->shape));
  return cni_infer_like(c, 0, 0, d->dtype);
}
static int copy_vjp(cn_vjp *v)
{
  if (v->need[1]) v->gin[1] = v->g[0];
  return CN_OK; /* the old value is gone: its gradient is zero */
}

static int clone_infer(cn_call *c) { return cni_infer_like(c, 0, 0, c->in[0]->d.dtype); }
static int same_vjp(cn_vjp *v)
{
  v->gin[0] = v->g[0];
  return CN_OK;
}

static int cast_infer(cn_call *c)
{
  return cni_infer_like(c, 0, 0, (int)cni_arg_int(c->args, 1));
}

static int contiguous_copy_infer(cn_call *c)
{
  return cn_call_result(c, 0, c->in[0]->d.dtype, c->in[0]->d.ndim, c->in[0]->d.shape);
}

static int channels_last_infer(cn_call *c)
{
  int ndim = c->in[0]->d.ndim;
  if (ndim != 4 && ndim != 5) return cn_call_fail(c, CN_ERR_SHAPE, "takes 4 or 5 dimensions, not %d", ndim);
  int status = contiguous_copy_infer(c);
  if (status) return status;
  cni_channels_last_strides(ndim, c->spec[0].shape, c->spec[0].strides);
  c->spec[0].has_strides = true;
  return CN_OK;
}

/* In a graph: the input itself, seen as another value, where it is row-major at the sizes that are inferred for. */
static int contiguous_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  if (!cni_is_contiguous(d->ndim, d->shape, d->strides)) return contiguous_copy_infer(c);
  return cn_call_view(c, 0, 0, d->ndim, d->shape, d->strides, 0);
}
static cn_tensor *same_scatter(const cn_call *c, cn_tensor *base, cn_tensor *src)
{
  (void)c, (void)base;
  return src;
}

static int contiguous_decompose(cn_call *c)
{
  c->out[0] = cn_is_contiguous(c->in[0]) ? c->in[0] : cn_contiguous_copy(c->in[0]);
  return cn_err();
}

/* fill(input, value): value is a number or a tensor without dimensions. */
static int fill_infer(cn_call *c)
{
  if (c->in[1]->d.ndim) return cn_call_fail(c, CN_ERR_SHAPE, "value must be a number or a zero-dimensional tensor");
  return cni_infer_like(c, 0, 0, c->in[0]->d.dtype);
}
static int fill_vjp(cn_vjp *v)
{
  if (v->need[1]) v->gin[1] = cn_sum_with(v->g[0], NULL);
  return cn_err();
}

/* to_device(input, device) */
static int to_device_infer(cn_call *c)
{
  c->device = (cn_device)cni_arg_int(c->args, 1);
  return cni_infer_like(c, 0, 0, c->in[0]->d.dtype);
}
static int to_device_vjp(cn_vjp *v)
{
  v->gin[0] = cn_to_device(v->g[0], v->in_meta[0].device);
  return cn_err();
}

/* ---- memory in another order ---- */

/* empty_strided(size, stride, dtype, device) */
static int empty_strided_decompose(cn_call *c)
{
  const cn_value *size = &c->args[0], *stride = &c->args[1];
  int64_t span = 1, reach;
  if (size->n != stride->n) return cn_call_fail(c, CN_ERR_VALUE, "size and stride must be equally long");
  for (int i = 0; i < size->n; i++) {
    if (size->u.is[i] < 0 || stride->u.is[i] < 0)
      return cn_call_fail(c, CN_ERR_VALUE, "sizes and strides must not be negative");
    if (size->u.is[i] == 0) span = 0;
  }
  for (int i = 0; span && i < size->n; i++)
    if (__builtin_mul_overflow(size->u.is[i] - 1, stride->u.is[i], &reach) ||
        __builtin_add_overflow(span, reach, &span))
      return cn_call_fail(c, CN_ERR_SHAPE, "the strides are too large");
  cn_tensor *memory = cn_empty(CN_SHAPE(span), .dtype = (cn_dtype)cni_arg_int_or(c->args, 2, CN_DTYPE_NONE),
                               .device = (cn_device)cni_arg_int_or(c->args, 3, CN_DEVICE_DEFAULT));
  c->out[0] = cn_as_strided(memory, size->u.is, (size_t)size->n, stride->u.is, (size_t)stride->n, 0);
  return cn_err();
}

/* empty_permuted(size, physical_layout, dtype, device): the dims from the outermost in memory inwards. */
static int empty_permuted_decompose(cn_call *c)
{
  const cn_value *size = &c->args[0], *layout = &c->args[1];
  int64_t shape[CN_MAX_DIMS], back[CN_MAX_DIMS];
  bool seen[CN_MAX_DIMS] = {false};
  if (size->n != layout->n)
    return cn_call_fail(c, CN_ERR_VALUE, "size and physical_layout must be equally long");
  for (int i = 0; i < size->n; i++) {
    int64_t dim = layout->u.is[i];
    if (dim < 0 || dim >= size->n || seen[dim])
      return cn_call_fail(c, CN_ERR_VALUE, "physical_layout must name each dimension once");
    seen[dim] = true;
    shape[i] = size->u.is[dim];
    back[dim] = i;
  }
  cn_tensor *memory = cn_empty(shape, (size_t)size->n, .dtype = (cn_dtype)cni_arg_int_or(c->args, 2, CN_DTYPE_NONE),
                               .device = (cn_device)cni_arg_int_or(c->args, 3, CN_DEVICE_DEFAULT));
  c->out[0] = cn_permute(memory, back, (size_t)size->n);
  return cn_err();
}

/* clang-format off */
const cn_op cni_create_ops[] = {
  {.sig = "empty(int[] size, *, dtype? dtype=None, device? device=None) -> Tensor",
   .doc = "A tensor of that size whose elements are not set.",
   .flags = CN_OP_ANY_DTYPE | CN_OP_NO_GRAD, .infer = sized_infer},
  {.sig = "empty_strided(int[] size, int[] stride, *, dtype? dtype=None, device? device=None) -> Tensor ; complex",
   .doc = "A tensor of that size and stride whose values are not set.",
   .flags = CN_OP_COMPOSITE, .decompose = empty_strided_decompose},
  {.sig = "empty_permuted(int[] size, int[] physical_layout, *, dtype? dtype=None, device? device=None) -> Tensor "
          "; complex",
   .doc = "A tensor of that size whose values are not set; physical_layout lists its dimensions from the outermost in "
          "memory to the innermost.",
   .flags = CN_OP_COMPOSITE, .decompose = empty_permuted_decompose},
  {.sig = "full(int[] size, Scalar fill_value, *, dtype? dtype=None, device? device=None) -> Tensor",
   .doc = "A tensor with every element set to fill_value.",
   .flags = CN_OP_ANY_DTYPE | CN_OP_NO_GRAD, .infer = full_infer},
  {.sig = "zeros(int[] size, *, dtype? dtype=None, device? device=None) -> Tensor ; complex",
   .doc = "A tensor of zeros.",
   .flags = CN_OP_COMPOSITE, .decompose = zeros_decompose},
  {.sig = "ones(int[] size, *, dtype? dtype=None, device? device=None) -> Tensor ; complex",
   .doc = "A tensor of ones.",
   .flags = CN_OP_COMPOSITE, .decompose = ones_decompose},
  {.sig = "empty_like(Tensor input, *, dtype? dtype=None, device? device=None) -> Tensor",
   .doc = "A tensor of input's shape and memory order, not set; dtype and device, where not given, are its too.",
   .flags = CN_OP_ANY_DTYPE | CN_OP_NO_GRAD | CN_OP_SHAPE_ONLY, .infer = like_infer},
  {.sig = "full_like(Tensor input, Scalar fill_value, *, dtype? dtype=None, device? device=None) -> Tensor",
   .doc = "A tensor like input with every element set to fill_value.",
   .flags = CN_OP_ANY_DTYPE | CN_OP_NO_GRAD | CN_OP_SHAPE_ONLY, .infer = full_like_infer},
  {.sig = "zeros_like(Tensor input, *, dtype? dtype=None, device? device=None) -> Tensor ; complex",
   .doc = "A tensor of zeros like input.",
   .flags = CN_OP_COMPOSITE, .decompose = zeros_like_decompose},
  {.sig = "ones_like(Tensor input, *, dtype? dtype=None, device? device=None) -> Tensor ; complex",
   .doc = "A tensor of ones like input.",
   .flags = CN_OP_COMPOSITE, .decompose = ones_like_decompose},
  {.sig = "arange(Scalar start, Scalar end, Scalar step=1, *, dtype? dtype=None, device? device=None) -> Tensor",
   .doc = "start, start + step, ... up to but without end.",
   .flags = CN_OP_NO_GRAD, .infer = arange_infer},
  {.sig = "linspace(Scalar start, Scalar end, int steps, *, dtype? dtype=None, device? device=None) -> Tensor",
   .doc = "steps evenly spaced numbers from start to end, both included.",
   .flags = CN_OP_NO_GRAD, .infer = linspace_infer},
  {.sig = "logspace(Scalar start, Scalar end, int steps, float base=10, *, dtype? dtype=None, device? device=None) "
          "-> Tensor",
   .doc = "Powers of base whose exponents are evenly spaced from start to end, both included.",
   .flags = CN_OP_COMPOSITE, .decompose = logspace_decompose},
  {.sig = "eye(int n, int? m=None, *, dtype? dtype=None, device? device=None) -> Tensor",
   .doc = "An n by m matrix (m: n) with ones on the diagonal.",
   .flags = CN_OP_NO_GRAD, .infer = eye_infer},
  {.sig = "rand(int[] size, *, dtype? dtype=None, device? device=None) -> Tensor",
   .doc = "Uniform random numbers in [0, 1).",
   .flags = CN_OP_NO_GRAD | CN_OP_RANDOM, .infer = random_infer},
  {.sig = "randn(int[] size, *, dtype? dtype=None, device? device=None) -> Tensor",
   .doc = "Random numbers of the standard normal distribution.",
   .flags = CN_OP_NO_GRAD | CN_OP_RANDOM, .infer = random_infer},
  {.sig = "rand_like(Tensor input, *, dtype? dtype=None, device? device=None) -> Tensor",
   .doc = "Uniform random numbers in [0, 1), like input.",
   .flags = CN_OP_NO_GRAD | CN_OP_RANDOM | CN_OP_SHAPE_ONLY, .infer = like_infer},
  {.sig = "randn_like(Tensor input, *, dtype? dtype=None, device? device=None) -> Tensor",
   .doc = "Standard normal random numbers, like input.",
   .flags = CN_OP_NO_GRAD | CN_OP_RANDOM | CN_OP_SHAPE_ONLY, .infer = like_infer},
  {.sig = "randint(int low, int high, int[] size, *, dtype? dtype=None, device? device=None) -> Tensor",
   .doc = "Random integers from low up to but without high.",
   .flags = CN_OP_NO_GRAD | CN_OP_RANDOM, .infer = randint_infer},
  {.sig = "randperm(int n, *, dtype? dtype=None, device? device=None) -> Tensor",
   .doc = "The integers 0 to n - 1 in random order.",
   .flags = CN_OP_NO_GRAD | CN_OP_RANDOM, .infer = randperm_infer},
  {.sig = "bernoulli(Tensor input) -> Tensor ; method",
   .doc = "1 with the probability that input says, 0 otherwise.",
   .flags = CN_OP_RANDOM, .infer = bernoulli_infer, .vjp = bernoulli_vjp},
  {.sig = "copy(Tensor input, Tensor src) -> Tensor ; method inplace",
   .doc = "src broadcast to input's shape and cast to its type; copy_ writes it into input.",
   .flags = CN_OP_ANY_DTYPE | CN_OP_ALIAS_SAFE, .infer = copy_infer, .vjp = copy_vjp},
  {.sig = "fill(Tensor input, Tensor|Scalar value) -> Tensor ; method inplace",
   .doc = "input with every element set to value.",
   .flags = CN_OP_ANY_DTYPE | CN_OP_ALIAS_SAFE, .infer = fill_infer, .vjp = fill_vjp},
  {.sig = "clone(Tensor input) -> Tensor ; method",
   .doc = "A copy with memory of its own, in input's memory order.",
   .flags = CN_OP_ANY_DTYPE, .infer = clone_infer, .vjp = same_vjp},
  {.sig = "contiguous_copy(Tensor input) -> Tensor ; internal grad_fn_CloneBackward0",
   .doc = "A row-major copy.",
   .flags = CN_OP_ANY_DTYPE, .infer = contiguous_copy_infer, .vjp = same_vjp},
  {.sig = "channels_last(Tensor input) -> Tensor ; method",
   .doc = "A copy whose channels lie next to each other in memory (NHWC or NDHWC); the shape stays.",
   .flags = CN_OP_ANY_DTYPE, .infer = channels_last_infer, .vjp = same_vjp},
  {.sig = "contiguous(Tensor input) -> Tensor ; method complex",
   .doc = "input itself when it is row-major, else a row-major copy.",
   .flags = CN_OP_COMPOSITE | CN_OP_VIEW, .infer = contiguous_infer, .vjp = same_vjp,
   .decompose = contiguous_decompose, .scatter = same_scatter},
  {.sig = "cast(Tensor input, dtype dtype) -> Tensor ; method grad_fn_ToCopyBackward0",
   .doc = "input in another type. Floats outside an integer type's range give a defined but meaningless number.",
   .flags = CN_OP_ANY_DTYPE, .infer = cast_infer, .vjp = same_vjp},
  {.sig = "to_device(Tensor input, device device) -> Tensor ; method",
   .doc = "A copy on that device.",
   .flags = CN_OP_ANY_DTYPE, .infer = to_device_infer, .vjp = to_device_vjp},
};
/* clang-format on */
CNI_FAMILY(create);
