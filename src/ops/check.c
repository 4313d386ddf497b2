/* check.c: the op that objects to values: other ops put it in front of what they compute, where PyTorch looks at the
 * numbers and raises an error.
 *
 * Place in the flow: a kernel on the CPU (backends/cpu/reduce/check.c). Being an op, the check happens where the data
 * is, when it is there: on a device in its order, in a captured graph at each run. Invariant: no other op reads values
 * to decide whether to fail. */
#include <cairn/kw.h>
#include <cairn/ops.h>

#include "families.h"
#include "reduce.h"

/* check_within(input, low, high, why) */
static int check_within_infer(cn_call *c)
{
  int status = cni_check_computes(c, c->in[0]->d.dtype);
  return status ? status : cn_call_result(c, 0, CN_BOOL, 0, NULL);
}

/* For devices without a kernel of their own: two reductions, which are waited for. */
static int check_within_decompose(cn_call *c)
{
  double low = cni_arg_float(c->args, 1), high = cni_arg_float(c->args, 2), least = low, most = high;
  if (c->in[0]->d.numel) {
    least = cn_item(cn_amin(c->in[0]));
    most = cn_item(cn_amax(c->in[0]));
  }
  if (cn_err()) return cn_err();
  if (!(least >= low && most <= high)) return cni_check_failed(cni_arg_str(c->args, 3), least >= low ? most : least);
  c->out[0] = cn_ones(CN_SCALAR_SHAPE, .dtype = CN_BOOL, .device = c->device);
  return cn_err();
}

int cni_check_failed(const char *why, double value) { return cni_fail(CN_ERR_VALUE, "%s, but one is %g", why, value); }

/* clang-format off */
const cn_op cni_check_ops[] = {
  {.sig = "check_within(Tensor input, float low, float high, str why) -> Tensor ; internal",
   .doc = "True, or an error that begins with why, where an element is not between low and high, or NaN.",
   .flags = CN_OP_NO_GRAD | CN_OP_CHECKS, .infer = check_within_infer, .decompose = check_within_decompose},
};
/* clang-format on */
CNI_FAMILY(check);
