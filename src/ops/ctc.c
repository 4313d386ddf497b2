/* ctc.c: the family of the connectionist temporal classification loss: the likelihood of a label sequence, summed over
 * all ways to stretch it, with blanks between, over the time steps.
 *
 * Place in the flow: ctc_loss brings its arguments into one form and reduces; the sums over ways are kernels of their
 * own, forward and backward. Invariant: lengths and labels are data: only kernels read them. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>

#include "families.h"
#include "shorthand.h"

enum { LOG_PROBS, TARGETS, INPUT_LENGTHS, TARGET_LENGTHS };

/* ctc_rows(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity); also of its gradient, where
 * `first` inputs come before. */
static int check_rows(cn_call *c, int first)
{
  const cn_desc *x = &c->in[first + LOG_PROBS]->d, *t = &c->in[first + TARGETS]->d;
  int64_t blank = cni_arg_int(c->args, first + 4);
  if (x->ndim != 3) return cn_call_fail(c, CN_ERR_SHAPE, "log_probs must be (T, N, C), not of %d dims", x->ndim);
  if (x->dtype != CN_F32 && x->dtype != CN_F64)
    return cn_call_fail(c, CN_ERR_DTYPE, "log_probs must be float32 or float64, not %s",
                        cn_dtype_name((cn_dtype)x->dtype));
  if (t->ndim != 1 && (t->ndim != 2 || t->shape[0] != x->shape[1]))
    return cn_call_fail(c, CN_ERR_SHAPE, "targets must be (N, S) or laid one after another, with N %lld",
                        (long long)x->shape[1]);
  for (int i = INPUT_LENGTHS; i <= TARGET_LENGTHS; i++) {
    const cn_desc *l = &c->in[first + i]->d;
    if (l->ndim != 1 || l->shape[0] != x->shape[1])
      return cn_call_fail(c, CN_ERR_SHAPE, "%s must be of size batch_size: %lld numbers",
                          i == INPUT_LENGTHS ? "input_lengths" : "target_lengths", (long long)x->shape[1]);
  }
  for (int i = TARGETS; i <= TARGET_LENGTHS; i++)
    if (c->in[first + i]->d.dtype != CN_I64)
      return cn_call_fail(c, CN_ERR_DTYPE, "targets and lengths must be int64, not %s",
                          cn_dtype_name((cn_dtype)c->in[first + i]->d.dtype));
  if (blank < 0 || blank >= x->shape[2])
    return cn_call_fail(c, CN_ERR_INDEX, "blank must be in label range: %lld of %lld", (long long)blank,
                        (long long)x->shape[2]);
  return CN_OK;
}
static int ctc_rows_infer(cn_call *c)
{
  int status = check_rows(c, 0);
  return status ? status : cn_call_result(c, 0, c->in[0]->d.dtype, 1, &c->in[0]->d.shape[1]);
}
/* Arguments (grad, ...those of ctc_rows). grad: (N) */
static int ctc_rows_grad_infer(cn_call *c)
{
  const cn_desc *x = &c->in[1]->d, *g = &c->in[0]->d;
  int status = check_rows(c, 1);
  if (status) return status;
  if (g->ndim != 1 || g->shape[0] != x->shape[1] || g->dtype != x->dtype)
    return cn_call_fail(c, CN_ERR_SHAPE, "grad must be one number a sequence, of log_probs' type");
  return cn_call_result(c, 0, x->dtype, 3, x->shape);
}
static int ctc_rows_vjp(cn_vjp *v)
{
  v->gin[0] = cn_ctc_rows_grad(v->g[0], v->in[0], v->in[1], v->in[2], v->in[3], cni_arg_int(v->args, 4),
                               cni_arg_bool(v->args, 5));
  return cn_err();
}

static int check_integers(const cn_call *c)
{
  for (int i = TARGETS; i <= TARGET_LENGTHS; i++)
    if (cni_dtype_is_float(c->in[i]->d.dtype))
      return cn_call_fail(c, CN_ERR_DTYPE, "targets and lengths must be integers, not %s",
                          cn_dtype_name((cn_dtype)c->in[i]->d.dtype));
  if (!cni_dtype_is_float(c->in[LOG_PROBS]->d.dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "log_probs must be floating-point numbers, not %s",
                        cn_dtype_name((cn_dtype)c->in[LOG_PROBS]->d.dtype));
  return CN_OK;
}
/* ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity) */
static int ctc_loss_decompose(cn_call *c)
{
  int dtype = c->in[LOG_PROBS]->d.dtype, status = check_integers(c);
  if (status) return status;
  bool single = c->in[LOG_PROBS]->d.ndim == 2;
  cn_tensor *x = cni_in_type(c->in[LOG_PROBS], cni_wide_type(dtype)), *in[4];
  for (int i = TARGETS; i <= TARGET_LENGTHS; i++) in[i] = cni_in_type(c->in[i], CN_I64);
  if (single) {
    x = cn_unsqueeze(x, 1);
    if (in[TARGETS] && in[TARGETS]->d.ndim == 1) in[TARGETS] = cn_unsqueeze(in[TARGETS], 0);
    for (int i = INPUT_LENGTHS; i <= TARGET_LENGTHS; i++) in[i] = cn_reshape(in[i], CN_SHAPE(-1));
  }
  cn_tensor *rows = cn_ctc_rows(x, in[TARGETS], in[INPUT_LENGTHS], in[TARGET_LENGTHS], cni_arg_int(c->args, 4),
                                cni_arg_bool(c->args, 6));
  if (single) rows = cn_squeeze(rows, .dim = CN_INTS(0));
  cn_tensor *sizes = cn_clamp_min(in[TARGET_LENGTHS], cn_int(1));
  if (cni_arg_is(c->args, 5, "mean")) rows = cn_mean(cn_true_divide(rows, cni_in_type(sizes, cni_wide_type(dtype))));
  else if (cni_arg_is(c->args, 5, "sum")) rows = cn_sum(rows);
  else if (!cni_arg_is(c->args, 5, "none"))
    return cn_call_fail(c, CN_ERR_VALUE, "%s is not a valid value for reduction; use 'none', 'mean' or 'sum'",
                        cni_arg_str(c->args, 5));
  c->out[0] = cni_in_type(rows, dtype);
  return cn_err();
}

/* clang-format off */
const cn_op cni_ctc_ops[] = {
  {.sig = "ctc_rows(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank, "
          "bool zero_infinity) -> Tensor ; internal",
   .doc = "The loss of each sequence. log_probs: (T, N, C), targets: (N, S) or all labels one after another, lengths: "
          "(N), int64. An impossible target costs infinity, or 0 with zero_infinity.",
   .infer = ctc_rows_infer, .vjp = ctc_rows_vjp,
   .needs = {[0] = CN_IN(0) | CN_IN(1) | CN_IN(2) | CN_IN(3)}, .copied = CN_IN(2) | CN_IN(3)},
  {.sig = "ctc_rows_grad(Tensor grad, Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, "
          "int blank, bool zero_infinity) -> Tensor ; internal",
   .doc = "The gradient of ctc_rows, as PyTorch gives it: exp(log_probs) less the share of ways through a label, which "
          "differs from the derivative by what log_softmax takes away again. It has no gradient itself.",
   .flags = CN_OP_NO_GRAD, .infer = ctc_rows_grad_infer},
  {.sig = "ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank=0, "
          "str reduction='mean', bool zero_infinity=False) -> Tensor ; nn amp_f32_host",
   .doc = "Connectionist temporal classification loss. log_probs: (T, N, C) of log_softmax, or (T, C); targets: (N, S) "
          "or all labels one after another. 'mean' divides each loss by its target's length first. Gradients are those "
          "of the scores before log_softmax; there is no second order.",
   .flags = CN_OP_COMPOSITE, .decompose = ctc_loss_decompose},
};
/* clang-format on */
CNI_FAMILY(ctc);
