/* repeat_interleave.c: the CPU kernel of repeat_interleave_indices: positions from counts.
 *
 * Place in the flow: the family of ops/repeat_interleave.c. Invariant: the result is allocated once its size is known,
 * unless the call says it. */
#include "backends/cpu/cpu.h"
#include "base/convert.h"
#include "base/dtype.h"
#include "tensor/tensor.h"

/* The sum of the counts; negative with an error where one is negative. */
static int64_t total_of(const cn_call *c, const cn_desc *x)
{
  int64_t total = 0;
  for (int64_t i = 0; i < x->numel; i++) {
    int64_t n = cni_load_i64(x->data, i * x->strides[0], x->dtype);
    if (n < 0) return cn_call_fail(c, CN_ERR_VALUE, "repeats must not be negative, but one is %lld", (long long)n);
    if (__builtin_add_overflow(total, n, &total)) return cn_call_fail(c, CN_ERR_SHAPE, "the result is too large");
  }
  return total;
}

static int repeat_interleave_indices_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]);
  int64_t total = total_of(c, x), at = 0;
  if (total < 0) return (int)total;
  if (!c->spec[0].data_dependent && total != c->args[1].u.i)
    return cn_call_fail(c, CN_ERR_VALUE, "repeats add up to %lld, but output_size is %lld", (long long)total,
                        (long long)c->args[1].u.i);
  if (c->spec[0].data_dependent) c->out[0] = cni_tensor_new(c->device, x->dtype, 1, &total, NULL);
  if (!c->out[0]) return CN_ERR_MEMORY;
  const cn_desc *y = cn_desc_of(c->out[0]);
  for (int64_t i = 0; i < x->numel; i++) {
    int64_t n = cni_load_i64(x->data, i * x->strides[0], x->dtype);
    for (int64_t k = 0; k < n; k++) cni_store_i64(y->data, at++ * y->strides[0], y->dtype, i);
  }
  return CN_OK;
}

const cn_kernel cni_cpu_repeat_interleave_kernels[] = {
    {"repeat_interleave_indices", "reference", repeat_interleave_indices_kernel}, {NULL, NULL, NULL}};
