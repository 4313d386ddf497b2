/* clip.c: gradients cut to size: all together by their norm, or each element by its value.
 *
 * Invariant: nothing here reads a value, so that clipping neither waits for a device nor stands in the way of a
 * capture. */
#include <math.h>

#include "optim.h"
#include "scalar.h"

/* The norm of the norms of all gradients; NULL with no error where there is none. */
static cn_tensor *total_norm(cn_tensor *const *params, size_t n, double type)
{
  cn_tensor **norms = cn_alloc((n + 1) * sizeof *norms), *total = NULL;
  size_t count = 0;
  if (!norms) return NULL;
  for (size_t i = 0; i < n && !cn_err(); i++) {
    cn_tensor *g = cn_grad_of(params[i]);
    cn_tensor *norm = g ? cn_linalg_vector_norm(g, .ord = type) : NULL;
    if (norm && count) norm = cn_to_device(norm, cn_device_of(norms[0]));
    if (norm) norms[count++] = norm;
  }
  if (count && !cn_err()) total = cn_linalg_vector_norm(cn_stack(norms, count, .dim = 0), .ord = type);
  cn_free(norms, (n + 1) * sizeof *norms);
  return total;
}

static cn_tensor *multiply(cn_tensor *g, cn_tensor *factor)
{
  return cn_mul_(g, cn_device_of(g) == cn_device_of(factor) ? factor : cn_to_device(factor, cn_device_of(g)));
}
static cn_tensor *keep_above(cn_tensor *g, cn_tensor *least) { return cn_clamp_min_(g, least); }
static cn_tensor *keep_below(cn_tensor *g, cn_tensor *most) { return cn_clamp_max_(g, most); }

/* Changes every gradient in its place, all in one way, so that a device may do it at once. */
static int change_all(cn_tensor *const *params, size_t n, cn_tensor *(*change)(cn_tensor *g, cn_tensor *by),
                      cn_tensor *by)
{
  int status = cn_updates_begin(NULL);
  if (status) return status;
  for (size_t i = 0; i < n && !cn_err(); i++) {
    cn_tensor *g = cn_grad_of(params[i]);
    if (g) change(g, by);
  }
  status = cn_updates_end();
  return status ? status : cn_err();
}

cn_tensor *cn_clip_grad_norm(cn_tensor *const *params, size_t n, double max_norm, double norm_type)
{
  if (cn_err()) return NULL;
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  cn_tensor *total = total_norm(params, n, norm_type == 0 ? 2 : norm_type);
  if (total) {
    cn_tensor *factor = cn_true_divide(cn_num(max_norm), cni_shifted(total, 1e-6));
    if (factor && (factor = cn_clamp_max(factor, cn_num(1)))) change_all(params, n, multiply, factor);
  } else if (!cn_err()) total = cn_zeros(NULL, 0);
  cn_no_grad_end(saved);
  if (total && !cn_err()) return cn_scope_return(s, total);
  cn_scope_end(s);
  return NULL;
}

int cn_clip_grad_value(cn_tensor *const *params, size_t n, double clip_value)
{
  if (cn_err()) return cn_err();
  if (!(clip_value >= 0)) return cn_err_set(CN_ERR_VALUE, "clip_grad_value: the value must not be below 0");
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  if (!change_all(params, n, keep_above, cn_num(-clip_value)))
    change_all(params, n, keep_below, cn_num(clip_value));
  cn_no_grad_end(saved);
  cn_scope_end(s);
  return cn_err();
}

cn_tensor *cn_optim_clip_norm(cn_optim *opt, double max_norm)
{
  size_t n = 0, at = 0;
  if (cn_err()) return NULL;
  for (size_t i = 0; i < cn_optim_ngroups(opt); i++) n += opt->groups[i].n;
  cn_tensor **all = cn_alloc((n + 1) * sizeof *all);
  if (!all) return NULL;
  for (size_t i = 0; i < cn_optim_ngroups(opt); i++)
    for (size_t k = 0; k < opt->groups[i].n; k++) all[at++] = opt->groups[i].v[k].param;
  cn_tensor *total = cn_clip_grad_norm(all, n, max_norm, 2);
  cn_free(all, (n + 1) * sizeof *all);
  return total;
}
