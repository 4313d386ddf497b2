/* pool_fractional.c: the family of pools whose windows begin at random steps, so that sizes shrink by any factor.
 *
 * Place in the flow: composites of gather and max: the indices of all windows are made as integers, and the gradient
 * goes back through gather. Invariant: the random numbers come in as a tensor, one for each dimension of each plane,
 * and nothing else is random. */
#include <cairn/kw.h>

#include "families.h"
#include "shorthand.h"

/* Where the windows of one dimension begin and what they hold, (N, C, count, kernel). samples: (N, C) in [0, 1). */
static cn_tensor *window_indices(cn_tensor *samples, int64_t size, int64_t count, int64_t kernel)
{
  cn_dtype dtype = cn_dtype_of(samples);
  cn_device device = cn_device_of(samples);
  cn_tensor *u = cn_unsqueeze(samples, -1), *last = cn_int(size - kernel);
  cn_tensor *i = cn_arange(0, (double)count, .dtype = CN_I64, .device = device);
  cn_tensor *start = cn_mul(cn_zeros_like(u, .dtype = CN_I64), i); /* one window: at the end */
  if (count > 1) {
    cn_tensor *step = cn_cast(cn_true_divide(last, cn_int(count - 1)), dtype);
    step = device == CN_CPU ? step : cn_to_device(step, device);
    start = cn_sub(cn_cast(cn_mul(cn_add(cn_cast(i, dtype), u), step), CN_I64), cn_cast(cn_mul(u, step), CN_I64));
  }
  start = cn_where(cn_eq(i, cn_int(count - 1)), last, start);
  return cn_add(cn_unsqueeze(start, -1), cn_arange(0, (double)kernel, .dtype = CN_I64, .device = device));
}

static int check_sizes(const cn_call *c, int n, const cn_desc *x, const int64_t *kernel, const int64_t *count)
{
  const cn_desc *u = &c->in[1]->d;
  if (x->ndim != n + 1 && x->ndim != n + 2)
    return cn_call_fail(c, CN_ERR_SHAPE, "takes an input of %d or %d dimensions, not %d", n + 1, n + 2, x->ndim);
  for (int i = 1; i < x->ndim; i++)
    if (x->shape[i] < 1) return cn_call_fail(c, CN_ERR_SHAPE, "an input without elements has no windows");
  for (int i = 0; i < n; i++) {
    int64_t size = x->shape[x->ndim - n + i];
    if (kernel[i] < 1 || count[i] < 1 || kernel[i] > size - count[i] + 1)
      return cn_call_fail(c, CN_ERR_SHAPE, "%lld windows of %lld elements do not fit a size of %lld",
                          (long long)count[i], (long long)kernel[i], (long long)size);
  }
  int64_t planes = x->ndim == n + 2 ? x->shape[0] : 1, channels = x->shape[x->ndim - n - 1];
  if (u->ndim != 3 || u->shape[0] < planes || u->shape[1] != channels || u->shape[2] != n)
    return cn_call_fail(c, CN_ERR_SHAPE, "random_samples must be (%lld, %lld, %d), or for more images",
                        (long long)planes, (long long)channels, n);
  return CN_OK;
}

/* (input, kernel_size, output_size, random_samples) over the last n dimensions */
static int pool(cn_call *c, int n)
{
  const cn_desc *d = &c->in[0]->d;
  const int64_t *kernel = c->args[1].u.is, *count = c->args[2].u.is;
  int64_t shape[CN_MAX_DIMS], windows = 1, elements = 1;
  int status = check_sizes(c, n, d, kernel, count);
  if (status) return status;
  cn_tensor *x = d->ndim == n + 1 ? cn_unsqueeze(c->in[0], 0) : c->in[0], *at = cn_int(0);
  if (!x) return cn_err();
  cn_tensor *samples = cn_narrow(c->in[1], 0, 0, x->d.shape[0]);
  for (int i = 0; i < n; i++) { /* at: (N, C, count 0, ..., kernel 0, ...), indices in the flattened plane */
    int sample = n == 2 ? 1 - i : i; /* in images the first number is the width's, as in PyTorch */
    cn_tensor *indices = window_indices(cn_select(samples, -1, sample), x->d.shape[2 + i], count[i], kernel[i]);
    for (int k = 0; k < 2 * n + 2; k++) shape[k] = k < 2 ? x->d.shape[k] : 1;
    shape[2 + i] = count[i];
    shape[2 + n + i] = kernel[i];
    at = cn_add(cn_mul(at, cn_int(x->d.shape[2 + i])), cn_reshape(indices, shape, (size_t)(2 * n + 2)));
    windows *= count[i];
    elements *= kernel[i];
  }
  cn_tensor *flat = cn_reshape(at, CN_SHAPE(x->d.shape[0], x->d.shape[1], windows * elements)), *best = NULL;
  cn_tensor *y = cn_gather(cn_flatten(x, .start_dim = 2), 2, flat), *index = NULL;
  const int64_t by_window[4] = {x->d.shape[0], x->d.shape[1], windows, elements};
  cn_max_dim(&best, &index, cn_reshape(y, by_window, 4), -1, .keepdim = true);
  cn_tensor *where = cn_gather(cn_reshape(flat, by_window, 4), -1, index);
  int first = d->ndim == n + 1 ? 1 : 0;
  for (int k = 0; k < n; k++) shape[2 + k] = count[k];
  c->out[0] = cn_reshape(best, shape + first, (size_t)(n + 2 - first));
  c->out[1] = cn_reshape(where, shape + first, (size_t)(n + 2 - first));
  return cn_err();
}

static int fractional_max_pool2d_decompose(cn_call *c) { return pool(c, 2); }
static int fractional_max_pool3d_decompose(cn_call *c) { return pool(c, 3); }

/* clang-format off */
const cn_op cni_pool_fractional_ops[] = {
  {.sig = "fractional_max_pool2d_with_indices(Tensor input, int[2] kernel_size, int[2] output_size, "
          "Tensor random_samples) -> (Tensor output, Tensor indices) ; nn tuple",
   .doc = "The largest element of each of output_size windows of images (N, C, H, W) or (C, H, W), which begin at "
          "steps that random_samples (N, C, 2) in [0, 1) settles, and where in its image it was.",
   .flags = CN_OP_COMPOSITE, .decompose = fractional_max_pool2d_decompose},
  {.sig = "fractional_max_pool3d_with_indices(Tensor input, int[3] kernel_size, int[3] output_size, "
          "Tensor random_samples) -> (Tensor output, Tensor indices) ; nn tuple",
   .doc = "fractional_max_pool2d_with_indices over volumes; random_samples is (N, C, 3).",
   .flags = CN_OP_COMPOSITE, .decompose = fractional_max_pool3d_decompose},
};
/* clang-format on */
CNI_FAMILY(pool_fractional);
