/* check.c: finding wrong numbers: the mode that names the first op which made a NaN or Inf, and cn_gradcheck.
 *
 * Invariant: checking never changes what is computed; it only reads. */
#include <cairn/ops.h>
#include <math.h>

#include "autograd.h"
#include "base/dtype.h"

bool cn_detect_anomaly(bool on)
{
  cn_state *s = cni_state();
  bool was = s->modes & CNI_MODE_CHECK;
  s->modes = on ? s->modes | CNI_MODE_CHECK : s->modes & ~(uint32_t)CNI_MODE_CHECK;
  return was;
}

/* Are all elements finite? Runs ops of its own, below all modes. */
static bool all_finite(cn_tensor *t)
{
  cn_state *s = cni_state();
  uint32_t modes = s->modes;
  bool no_grad = s->no_grad;
  size_t depth = cni_scope_push();
  s->modes = 0;
  s->no_grad = true;
  cn_tensor *ok = cn_all_with(cn_isfinite(t), NULL);
  bool fine = ok && cn_item(ok) > 0;
  s->modes = modes;
  s->no_grad = no_grad;
  cni_scope_pop(depth);
  return fine;
}

int cni_check_mode(cni_applying *a)
{
  int status = cni_apply_next(a);
  cn_state *s = cni_state();
  for (int i = 0; !status && i < a->c.nout; i++) {
    cn_tensor *t = a->c.out[i];
    if (!t || t->d.weak || !cni_dtype_is_float(t->d.dtype) || !t->d.data || a->c.spec[i].view_of >= 0) continue;
    if (all_finite(t)) continue;
    if (s->err) status = s->err;
    else if (s->op_name)
      status =
          cni_fail(CN_ERR_VALUE, "anomaly: %s made a NaN or Inf in the backward of %s", a->info->name, s->op_name);
    else status = cni_fail(CN_ERR_VALUE, "anomaly: %s made a NaN or Inf", a->info->name);
  }
  if (status) cni_drop_results(&a->c);
  return status;
}

/* ---- gradcheck ---- */

typedef struct check {
  cn_scalar_fn fn;
  void *payload;
  double eps, atol, rtol;
} check;

static int value_at(const check *k, cn_tensor *const *in, double *value)
{
  size_t depth = cni_scope_push();
  cn_tensor *y = k->fn(in, k->payload);
  *value = y ? cn_item(y) : 0;
  cni_scope_pop(depth);
  return cn_err();
}

/* Central difference of fn in one element, which is put back afterwards. */
static int slope_at(const check *k, cn_tensor *const *in, double *x, double *slope)
{
  double was = *x, up, down;
  *x = was + k->eps;
  int status = value_at(k, in, &up);
  *x = was - k->eps;
  if (!status) status = value_at(k, in, &down);
  *x = was;
  if (!status) *slope = (up - down) / (2 * k->eps);
  return status;
}

static int check_input(const check *k, cn_tensor *const *in, size_t i, cn_tensor *grad)
{
  double *x = cn_data(in[i]);
  const double *g = grad ? cn_data(cn_contiguous(cn_to_dense_with(grad, NULL))) : NULL;
  if (!x || cn_err()) return cn_err();
  for (int64_t e = 0; e < cn_numel(in[i]); e++) {
    double slope, have = g ? g[e] : 0;
    int status = slope_at(k, in, &x[e], &slope);
    if (status) return status;
    if (fabs(have - slope) <= k->atol + k->rtol * fabs(slope)) continue;
    return cni_fail(CN_ERR_GRAD,
                    "gradcheck: input %zu, element %lld: the gradient is %.10g, finite differences give %.10g", i,
                    (long long)e, have, slope);
  }
  return CN_OK;
}

static int check_first(const check *k, cn_tensor *const *in, size_t n)
{
  cn_tensor *grads[64], *wanted[64];
  size_t depth = cni_scope_push(), m = 0;
  cn_tensor *y = k->fn(in, k->payload);
  for (size_t i = 0; i < n; i++)
    if (in[i] && cn_needs_grad(in[i])) wanted[m++] = in[i];
  cn_grad_opts o = {.size = sizeof o, .allow_unused = true};
  for (size_t i = 0; i < m; i++) grads[i] = NULL; /* what does not depend on the inputs has zero gradients */
  int status = !y ? cn_err() : cn_needs_grad(y) ? cn_grad_with(grads, &y, 1, wanted, m, &o) : CN_OK;
  for (size_t i = 0, w = 0; !status && i < n; i++)
    if (w < m && in[i] == wanted[w]) status = check_input(k, in, i, grads[w++]);
  cni_scope_pop(depth);
  return status;
}

typedef struct second {
  const check *k;
  size_t n;
} second;

/* A scalar made of all first gradients, each element with a weight of its own. */
static cn_tensor *gradient_sum(cn_tensor *const *in, void *payload)
{
  const second *s = payload;
  cn_tensor *grads[64], *wanted[64], *total = NULL;
  size_t m = 0;
  int saved = cn_enable_grad_begin();
  cn_tensor *y = s->k->fn(in, s->k->payload);
  for (size_t i = 0; i < s->n; i++)
    if (in[i] && cn_needs_grad(in[i])) wanted[m++] = in[i];
  cn_grad_opts o = {.size = sizeof o, .allow_unused = true, .create_graph = true};
  if (y && !cn_grad_with(grads, &y, 1, wanted, m, &o))
    for (size_t i = 0; i < m; i++) {
      if (!grads[i]) continue;
      grads[i] = cn_to_dense_with(grads[i], NULL);
      cn_arange_opts a = {.size = sizeof a, .dtype = CN_F64};
      cn_tensor *w = cn_sin(cn_add_with(cn_arange_with(0, (double)cn_numel(grads[i]), &a), cn_num(1), NULL));
      cn_tensor *part = cn_sum_with(cn_mul(cn_reshape(grads[i], CN_SHAPE(-1)), w), NULL);
      total = total ? cn_add_with(total, part, NULL) : part;
    }
  cn_enable_grad_end(saved);
  return total ? total : cn_mul(y, cn_num(0));
}

int cn_gradcheck_with(cn_scalar_fn fn, cn_tensor *const *inputs, size_t ninputs, void *payload,
                      const cn_gradcheck_opts *opts)
{
  cn_gradcheck_opts none = {.size = sizeof none};
  if (!opts) opts = &none;
  if (cn_err()) return cn_err();
  if (ninputs > 64) return cni_fail(CN_ERR_UNSUPPORTED, "gradcheck: at most 64 inputs");
  for (size_t i = 0; i < ninputs; i++)
    if (inputs[i] && cn_needs_grad(inputs[i]) && (inputs[i]->d.dtype != CN_F64 || !cn_is_contiguous(inputs[i])))
      return cni_fail(CN_ERR_DTYPE, "gradcheck: input %zu must be a contiguous float64 tensor", i);
  check k = {fn, payload, opts->eps > 0 ? opts->eps : 1e-6, opts->atol > 0 ? opts->atol : 1e-5,
             opts->rtol > 0 ? opts->rtol : 1e-3};
  int status = check_first(&k, inputs, ninputs);
  if (status || !opts->second_order) return status;
  second s = {&k, ninputs};
  check k2 = {gradient_sum, &s, k.eps, k.atol, k.rtol};
  return check_first(&k2, inputs, ninputs);
}
