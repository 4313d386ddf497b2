/* inplace.c: the driver of in-place forms: written over its first input, an op must give what it gives otherwise, or
 * fail and leave that input alone. Gradients through the in-place form are compared too. */
#include "drivers.h"

static int category(int dtype)
{
  return dtype == CN_BOOL ? 0 : cn_dtype_is_complex((cn_dtype)dtype) ? 3 : cn_dtype_is_float((cn_dtype)dtype) ? 2 : 1;
}

/* May this result be written over dest, by the rules of tensor.h and PyTorch? */
static bool may_write(const sample *s, int which, cn_tensor *dest, cn_tensor *result)
{
  const cn_desc *d = cn_desc_of(dest), *r = cn_desc_of(result);
  bool expanded = s->literals[which].layout == 'e' && d->shape[0] > 1 && d->numel > 0;
  if (d->weak || expanded || d->ndim != r->ndim || category(r->dtype) > category(d->dtype)) return false;
  for (int i = 0; i < d->ndim; i++)
    if (d->shape[i] != r->shape[i]) return false;
  return true;
}

static enum outcome must_refuse(const trial *t, int status, cn_tensor *dest)
{
  call fresh;
  char detail[300] = "";
  if (!status) return trial_fail(t, "in place must be an error here, but is not");
  cn_err_clear();
  if (call_make(&fresh, t->s, &(call_setup){0})) return trial_fail(t, "inputs: %s", cn_err_message());
  bool same = same_tensors(dest, fresh.in[0], 0, detail, sizeof detail);
  call_free(&fresh);
  return same ? PASS : trial_fail(t, "a refused in-place call changed its input: %s", detail);
}

static enum outcome must_equal(const trial *t, int status, cn_tensor *out, cn_tensor *dest, cn_tensor *want)
{
  char detail[300] = "";
  if (status) return trial_fail(t, "in place: %s", cn_err_message());
  if (out != dest) return trial_fail(t, "in place: the result is not the tensor that was written");
  cn_scope *scope = cn_scope_begin();
  cn_tensor *cast = cn_dtype_of(want) == cn_dtype_of(dest) ? want : cn_cast(want, cn_dtype_of(dest));
  bool same = same_tensors(dest, cast, 0, detail, sizeof detail);
  cn_scope_end(scope);
  return same ? PASS : trial_fail(t, "in place: %s", detail);
}

/* Runs the in-place form: result i goes over input i. Two results over one tensor are refused. */
static enum outcome write_over(const trial *t, call *c, const call_result *want, bool twice)
{
  call_result have = {0};
  uint64_t version[SAMPLE_RESULTS];
  bool may = !twice || want->nout == 1;
  enum outcome o = PASS;
  for (int i = 0; i < (int)want->nout; i++) {
    may = may && may_write(t->s, i, c->in[i], want->out[i]);
    version[i] = cn_tensor_version(c->in[i]);
  }
  cn_seed(1); /* as the first time */
  int status = call_run(&have, c, c->in[0]);
  if (!may) o = twice ? PASS : must_refuse(t, status, c->in[0]);
  for (int i = 0; i < (int)want->nout && may && o == PASS; i++) {
    o = must_equal(t, status, have.out[i], c->in[i], want->out[i]);
    if (o == PASS && cn_tensor_version(c->in[i]) != version[i] + 1)
      o = trial_fail(t, "in place: the version moved by %d", (int)(cn_tensor_version(c->in[i]) - version[i]));
  }
  call_result_free(&have);
  return o;
}

/* Forward: op(x, ...) against op_(x, ...); with `twice` the second input is x itself. */
static enum outcome compare_forward(const trial *t, bool twice)
{
  call c;
  call_result want = {0};
  if (call_make(&c, t->s, &(call_setup){0})) return trial_fail(t, "inputs: %s", cn_err_message());
  if (twice) call_set_input(&c, 1, c.in[0]);
  enum outcome o;
  if (call_run(&want, &c, NULL)) o = twice ? PASS : trial_fail(t, "%s", cn_err_message());
  else o = write_over(t, &c, &want, twice);
  cn_err_clear();
  call_result_free(&want);
  call_free(&c);
  return o;
}

/* x.clone().op_(...) must have the gradients of op(x, ...). */
static enum outcome compare_gradients(const trial *t)
{
  call c;
  call_result want = {0}, have = {0};
  cn_tensor *leaves[SAMPLE_INPUTS];
  char detail[300] = "";
  enum outcome o = PASS;
  if (call_make(&c, t->s, &(call_setup){.grad = true})) return trial_fail(t, "inputs: %s", cn_err_message());
  cn_scope *scope = cn_scope_begin();
  for (int i = 0; i < c.nin; i++) leaves[i] = cn_keep(c.in[i]);
  bool fits = !call_run_grad(&want, &c, NULL, NULL) && cn_needs_grad(want.out[0]) && c.in[0] &&
              cn_dtype_of(want.out[0]) == cn_dtype_of(c.in[0]) && may_write(t->s, 0, c.in[0], want.out[0]);
  if (fits) {
    call_set_input(&c, 0, cn_clone(c.in[0]));
    if (call_run_grad(&have, &c, c.in[0], leaves)) o = trial_fail(t, "in place, gradient: %s", cn_err_message());
    else if (!same_results(&have, &want, t->family->grad_scale, detail, sizeof detail))
      o = trial_fail(t, "in place, %s", detail);
  }
  cn_err_clear();
  call_result_free(&want);
  call_result_free(&have);
  for (int i = 0; i < c.nin; i++) cn_release(leaves[i]);
  cn_scope_end(scope);
  call_free(&c);
  return o;
}

enum outcome drive_inplace(const trial *t)
{
  const sample *s = t->s;
  if (!s->info->inplace || sample_is_sparse(s) || s->must_fail || s->large || s->args[0].kind != ARG_ONE) return PASS;
  if (s->items[s->args[0].first].kind != ITEM_TENSOR) return PASS;
  enum outcome o = compare_forward(t, false);
  bool second = s->info->nparams > 1 && s->args[1].kind == ARG_ONE &&
                s->items[s->args[1].first].kind == ITEM_TENSOR;
  if (o == PASS && second) o = compare_forward(t, true);
  if (o == PASS && differentiable(s) && !sample_has_range(s, '!', false)) o = compare_gradients(t);
  return o;
}
