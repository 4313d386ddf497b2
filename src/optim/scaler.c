/* scaler.c: scales losses so that gradients of float16 do not vanish, and skips steps in which they overflowed.
 *
 * Invariant: a device is waited for once in a step of an optimiser, however many gradients there are. */
#include <math.h>

#include "optim.h"
#include "scalar.h"

/* What happened to an optimiser's gradients since the last update. */
typedef struct entry {
  const cn_optim *opt;
  bool stepped, overflow;
} entry;

struct cn_grad_scaler {
  cn_tensor *scale; /* float32, zero-dimensional */
  double growth, backoff;
  int64_t interval, good; /* good: steps without overflow in a row */
  bool enabled;
  entry *v;
  size_t n, cap;
};

static double or_default(double x, double otherwise) { return x == 0 ? otherwise : x; }

cn_grad_scaler *cn_grad_scaler_new_with(const cn_grad_scaler_opts *opts)
{
  cn_grad_scaler_opts room;
  const cn_grad_scaler_opts *o = cn_err() ? NULL : cn_opts_read(&room, sizeof room, opts, "grad_scaler");
  cn_grad_scaler *s = o ? cn_alloc_zero(sizeof *s) : NULL;
  if (!s) return NULL;
  s->growth = or_default(o->growth_factor, 2);
  s->backoff = or_default(o->backoff_factor, 0.5);
  s->interval = o->growth_interval ? o->growth_interval : 2000;
  s->enabled = !o->disabled;
  if (s->growth <= 1 || s->backoff >= 1 || s->backoff <= 0 || s->interval < 1)
    cn_err_set(CN_ERR_VALUE, "grad_scaler: the growth factor must be above 1, the backoff factor below 1, the interval "
               "above 0");
  cn_scope *scope = cn_scope_begin();
  s->scale = cn_keep(cn_full_with(NULL, 0, or_default(o->init_scale, 65536),
                                  CN_OPTS(cn_full_opts, .dtype = CN_F32, .device = CN_CPU)));
  cn_scope_end(scope);
  if (s->scale && !cn_err()) return s;
  cn_grad_scaler_free(s);
  return NULL;
}

void cn_grad_scaler_free(cn_grad_scaler *s)
{
  if (!s) return;
  cn_release(s->scale);
  cn_free(s->v, s->cap * sizeof *s->v);
  cn_free(s, sizeof *s);
}

cn_tensor *cn_grad_scaler_scale(cn_grad_scaler *s, cn_tensor *loss)
{
  return s && s->enabled && loss ? cn_mul(loss, s->scale) : loss;
}

static entry *find(cn_grad_scaler *s, const cn_optim *opt)
{
  for (size_t i = 0; i < s->n; i++)
    if (s->v[i].opt == opt) return &s->v[i];
  return NULL;
}

/* Divides the gradients by the scale; *worst (borrowed), where the first gradient is: the largest element of all, not
 * finite if any is not. */
static int unscale_all(const cn_grad_scaler *s, cn_optim *opt, cn_tensor **worst)
{
  cn_tensor *inverse = cn_cast(cn_reciprocal(cni_wide(s->scale)), CN_F32);
  *worst = NULL;
  for (size_t i = 0; i < opt->ngroups; i++)
    for (size_t k = 0; k < opt->groups[i].n && !cn_err(); k++) {
      cn_tensor *g = cn_grad_of(opt->groups[i].v[k].param);
      if (!g) continue;
      if (cn_dtype_of(g) == CN_F16)
        return cn_err_set(CN_ERR_VALUE, "grad_scaler: gradients of float16 cannot be unscaled; keep parameters in "
                          "float32 and compute under cn_autocast");
      cn_mul_(g, inverse);
      cn_tensor *most = cn_linalg_vector_norm(g, .ord = HUGE_VAL);
      most = cni_wide(most);
      if (most && *worst) most = cn_to_device(most, cn_device_of(*worst));
      *worst = most && *worst ? cn_maximum(*worst, most) : most;
    }
  return cn_err();
}

int cn_grad_scaler_unscale(cn_grad_scaler *s, cn_optim *opt)
{
  if (cn_err()) return cn_err();
  if (!s || !opt) return cn_err_set(CN_ERR_TYPE, "grad_scaler: it, or the optimiser, is missing (NULL)");
  if (!s->enabled) return CN_OK;
  if (find(s, opt)) return cn_err_set(CN_ERR_VALUE, "grad_scaler: unscaled or stepped already since the last update");
  int status = cn_grow((void **)&s->v, &s->cap, s->n + 1, sizeof *s->v);
  if (status) return status;
  cn_tensor *worst;
  cn_scope *scope = cn_scope_begin();
  int saved = cn_no_grad_begin();
  status = unscale_all(s, opt, &worst);
  if (!status) s->v[s->n++] = (entry){opt, false, worst && !isfinite(cn_item(worst))};
  cn_no_grad_end(saved);
  cn_scope_end(scope);
  return status ? status : cn_err();
}

int cn_grad_scaler_may_step(cn_grad_scaler *s, cn_optim *opt)
{
  if (cn_err()) return cn_err();
  if (!s || !opt) return cn_err_set(CN_ERR_TYPE, "grad_scaler: it, or the optimiser, is missing (NULL)");
  int status = CN_OK;
  if (s->enabled) {
    entry *e = find(s, opt);
    if (e && e->stepped) return cn_err_set(CN_ERR_VALUE, "grad_scaler: stepped already since the last update");
    if (!e) status = cn_grad_scaler_unscale(s, opt);
    if (status) return status;
    e = find(s, opt);
    e->stepped = true;
    if (e->overflow) return 0;
  }
  return 1;
}

int cn_grad_scaler_step(cn_grad_scaler *s, cn_optim *opt)
{
  int may = cn_grad_scaler_may_step(s, opt);
  if (may != 1) return may;
  int status = cn_optim_step(opt);
  return status ? status : 1;
}

static int set_scale(cn_grad_scaler *s, double value)
{
  float scale = (float)value;
  return cn_copy_from_data(s->scale, &scale, sizeof scale);
}

int cn_grad_scaler_update(cn_grad_scaler *s)
{
  if (cn_err()) return cn_err();
  if (!s) return cn_err_set(CN_ERR_TYPE, "grad_scaler: it is missing (NULL)");
  if (!s->enabled) return CN_OK;
  if (!s->n) return cn_err_set(CN_ERR_VALUE, "grad_scaler: nothing was unscaled or stepped since the last update");
  bool overflow = false;
  for (size_t i = 0; i < s->n; i++) overflow |= s->v[i].overflow;
  double scale = cn_item(s->scale), larger = (float)(scale * s->growth);
  s->n = 0;
  s->good = overflow ? 0 : s->good + 1;
  if (overflow) return set_scale(s, scale * s->backoff);
  if (s->good < s->interval) return CN_OK;
  s->good = 0;
  return isfinite(larger) ? set_scale(s, larger) : CN_OK;
}

double cn_grad_scaler_get(cn_grad_scaler *s) { return s && s->enabled ? cn_item(s->scale) : 1; }

cn_tree *cn_grad_scaler_state(cn_grad_scaler *s)
{
  cn_tree *out = cn_err() || !s ? NULL : cn_tree_dict();
  if (!out) return NULL;
  int status = CN_OK;
  if (s->enabled) { /* a disabled one has an empty state */
    status = cn_tree_put(out, "scale", cn_tree_float(cn_item(s->scale)));
    if (!status) status = cn_tree_put(out, "growth_factor", cn_tree_float(s->growth));
    if (!status) status = cn_tree_put(out, "backoff_factor", cn_tree_float(s->backoff));
    if (!status) status = cn_tree_put(out, "growth_interval", cn_tree_int(s->interval));
    if (!status) status = cn_tree_put(out, "_growth_tracker", cn_tree_int(s->good));
  }
  if (!status) return out;
  cn_tree_free(out);
  return NULL;
}

int cn_grad_scaler_load(cn_grad_scaler *s, const cn_tree *state)
{
  if (cn_err()) return cn_err();
  if (!s || cn_tree_kind_of(state) != CN_TREE_DICT)
    return cn_err_set(CN_ERR_TYPE, "grad_scaler: it, or the state to load, is missing");
  if (!s->enabled) return CN_OK;
  double scale = cn_tree_as_float(cn_tree_get(state, "scale"), NAN);
  if (isnan(scale)) return cn_err_set(CN_ERR_VALUE, "grad_scaler: the state has no scale");
  s->growth = cn_tree_as_float(cn_tree_get(state, "growth_factor"), s->growth);
  s->backoff = cn_tree_as_float(cn_tree_get(state, "backoff_factor"), s->backoff);
  s->interval = cn_tree_as_int(cn_tree_get(state, "growth_interval"), s->interval);
  s->good = cn_tree_as_int(cn_tree_get(state, "_growth_tracker"), 0);
  return set_scale(s, scale);
}
