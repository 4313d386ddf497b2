/* scaler.c: scales losses so that gradients of float16 do not vanish, and skips steps in which they overflowed.
 *
 * Place in the flow: around cn_optim_step. While code is captured nobody knows whether gradients are finite: a step is
 * computed, and what it wrote is taken or left by a select. Where the scale is on a device and the step one that can be
 * skipped there (cni_optim_decide), nobody needs to. Invariant: a device is otherwise waited for once in a step of an
 * optimiser, however many gradients there are. */
#include <cairn/ext/graph.h>
#include <cairn/ext/parts.h>
#include <math.h>

#include "optim.h"
#include "scalar.h"

/* What happened to an optimiser's gradients since the last update. */
typedef struct entry {
  const cn_optim *opt;
  bool stepped;
  cn_tensor *found; /* owned: did they overflow? NULL: there are none */
  /* While code is captured: */
  bool captured;
  cn_tensor **before; /* owned: what a step may write, as it was; NULL: was not there */
  size_t nbefore;
} entry;

struct cn_grad_scaler {
  cn_tensor *scale; /* float32, zero-dimensional */
  cn_tensor *good;  /* float64, likewise, beside it: steps without overflow in a row */
  cn_tensor *settings; /* written to when growth, backoff or interval change: they are numbers in captured code */
  double growth, backoff;
  int64_t interval;
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
  cn_device device = o->device && s->enabled ? o->device : CN_CPU;
  s->scale = cn_keep(cn_full_with(NULL, 0, or_default(o->init_scale, 65536),
                                  CN_OPTS(cn_full_opts, .dtype = CN_F32, .device = device)));
  s->good = cn_keep(cn_full_with(NULL, 0, 0, CN_OPTS(cn_full_opts, .dtype = CN_F64, .device = device)));
  s->settings = cn_keep(cn_from_data(&(int64_t){0}, NULL, 0, CN_I64));
  cn_scope_end(scope);
  if (s->scale && s->good && s->settings && !cn_err()) return s;
  cn_grad_scaler_free(s);
  return NULL;
}

static void drop_before(entry *e)
{
  for (size_t i = 0; i < e->nbefore; i++) cn_release(e->before[i]);
  cn_free(e->before, e->nbefore * sizeof *e->before);
  e->before = NULL;
  e->nbefore = 0;
}

static void drop_entries(cn_grad_scaler *s)
{
  for (size_t i = 0; i < s->n; i++) {
    cn_release(s->v[i].found);
    drop_before(&s->v[i]);
  }
  s->n = 0;
}

void cn_grad_scaler_free(cn_grad_scaler *s)
{
  if (!s) return;
  drop_entries(s);
  cn_release(s->scale);
  cn_release(s->good);
  cn_release(s->settings);
  cn_free(s->v, s->cap * sizeof *s->v);
  cn_free(s, sizeof *s);
}

/* A number, for ops with x: on its device, or on the host. */
static cn_tensor *beside(cn_tensor *number, const cn_tensor *x)
{
  cn_device is = cn_device_of(number), wanted = cn_device_of(x);
  return is == wanted || is == CN_CPU ? number : cn_to_device(number, wanted);
}

cn_tensor *cn_grad_scaler_scale(cn_grad_scaler *s, cn_tensor *loss)
{
  return s && s->enabled && loss ? cn_mul(loss, beside(s->scale, loss)) : loss;
}

/* What a capture left half done is over with it. */
static entry *find(cn_grad_scaler *s, const cn_optim *opt)
{
  if (s->n && s->v[0].captured && !cn_tracing()) drop_entries(s);
  for (size_t i = 0; i < s->n; i++)
    if (s->v[i].opt == opt) return &s->v[i];
  return NULL;
}

/* Multiplies all gradients, which a device may do at once. */
static int multiply_all(cn_optim *opt, cn_tensor *inverse)
{
  int status = inverse ? cn_updates_begin(NULL) : cn_err();
  if (status) return status;
  for (size_t i = 0; i < opt->ngroups; i++)
    for (size_t k = 0; k < opt->groups[i].n && !cn_err(); k++) {
      cn_tensor *g = cn_grad_of(opt->groups[i].v[k].param);
      if (g && cn_dtype_of(g) == CN_F16)
        cn_err_set(CN_ERR_VALUE, "grad_scaler: gradients of float16 cannot be unscaled; keep parameters in float32 and "
                   "compute under cn_autocast");
      else if (g) cn_mul_(g, beside(inverse, g));
    }
  status = cn_updates_end();
  return status ? status : cn_err();
}

/* The largest element of all gradients, not finite if any is not, where the first gradient is; borrowed. */
static cn_tensor *worst_of(cn_optim *opt)
{
  cn_tensor *worst = NULL;
  for (size_t i = 0; i < opt->ngroups; i++)
    for (size_t k = 0; k < opt->groups[i].n && !cn_err(); k++) {
      cn_tensor *g = cn_grad_of(opt->groups[i].v[k].param);
      cn_tensor *most = g ? cn_linalg_vector_norm(g, .ord = HUGE_VAL) : NULL;
      if (most && worst) most = cn_to_device(most, cn_device_of(worst));
      if (most) worst = worst ? cn_maximum(worst, most) : most;
    }
  return worst;
}

int cn_grad_scaler_unscale(cn_grad_scaler *s, cn_optim *opt)
{
  if (cn_err()) return cn_err();
  if (!s || !opt) return cn_err_set(CN_ERR_TYPE, "grad_scaler: it, or the optimiser, is missing (NULL)");
  if (!s->enabled) return CN_OK;
  if (find(s, opt)) return cn_err_set(CN_ERR_VALUE, "grad_scaler: unscaled or stepped already since the last update");
  int status = cn_grow((void **)&s->v, &s->cap, s->n + 1, sizeof *s->v);
  if (status) return status;
  cn_scope *scope = cn_scope_begin();
  int saved = cn_no_grad_begin();
  status = multiply_all(opt, cn_cast(cn_reciprocal(cni_wide(s->scale)), CN_F32));
  if (!status) {
    cn_tensor *worst = worst_of(opt), *found = worst ? cn_logical_not(cn_isfinite(worst)) : NULL;
    s->v[s->n++] = (entry){opt, .captured = cn_tracing(), .found = cn_keep(found)};
  }
  cn_no_grad_end(saved);
  cn_scope_end(scope);
  return status ? status : cn_err();
}

/* ---- steps ---- */

enum { SLOTS = 1 + CNI_OPTIM_STATES };

/* What a step of the optimiser writes and keeps: parameter k of group i, and its state. */
static cn_tensor *slot_of(const cn_optim *opt, size_t i, size_t k, int slot)
{
  const cni_memory *m = &opt->groups[i].v[k];
  return slot ? m->state[slot - 1] : m->param;
}

static size_t count_slots(const cn_optim *opt)
{
  size_t n = 0;
  for (size_t i = 0; i < opt->ngroups; i++) n += opt->groups[i].n * SLOTS;
  return n;
}

static int note_before(entry *e, const cn_optim *opt)
{
  size_t n = 0;
  if (!(e->before = cn_alloc_zero(count_slots(opt) * sizeof *e->before))) return cn_err();
  e->nbefore = count_slots(opt);
  cn_scope *scope = cn_scope_begin();
  int saved = cn_no_grad_begin();
  for (size_t i = 0; i < opt->ngroups; i++)
    for (size_t k = 0; k < opt->groups[i].n; k++)
      for (int slot = 0; slot < SLOTS; slot++, n++) {
        cn_tensor *t = slot_of(opt, i, k, slot);
        if (t) e->before[n] = cn_keep(cn_clone(t));
      }
  cn_no_grad_end(saved);
  cn_scope_end(scope);
  return cn_err();
}

/* t is what the step made of it, unless gradients overflowed. What the step itself has made begins with a run. */
static int choose(cn_tensor *found, cn_tensor *before, cn_tensor *t)
{
  if (!before) before = cn_trace_first(t);
  cn_tensor *keep = cn_device_of(t) == cn_device_of(found) ? found : cn_to_device(found, cn_device_of(t));
  return cn_copy_(t, cn_where(keep, before, t)) ? CN_OK : cn_err();
}

int cn_grad_scaler_stepped(cn_grad_scaler *s, cn_optim *opt)
{
  if (cn_err()) return cn_err();
  entry *e = s && opt && s->enabled ? find(s, opt) : NULL;
  if (!e || !e->captured || !e->found) return CN_OK;
  size_t n = 0;
  int status = CN_OK, saved = cn_no_grad_begin();
  for (size_t i = 0; i < opt->ngroups; i++)
    for (size_t k = 0; k < opt->groups[i].n; k++)
      for (int slot = 0; slot < SLOTS && !status; slot++, n++) {
        cn_tensor *t = slot_of(opt, i, k, slot);
        cn_scope *scope = cn_scope_begin();
        if (t) status = choose(e->found, e->before[n], t);
        cn_scope_end(scope);
      }
  cn_no_grad_end(saved);
  drop_before(e);
  return status;
}

/* A step that is captured: what it writes is noted as it is. Numbers that it counts lie where gradients do. */
static int begin_captured(entry *e, cn_optim *opt)
{
  int status = CN_OK;
  if (e->found && opt->cls->skippable) status = cni_scalars_to(opt, cn_device_of(e->found));
  return status ? status : note_before(e, opt);
}

/* Must the device be waited for? */
static bool decided_there(const entry *e, cn_optim *opt, bool plain)
{
  return plain && cn_device_of(e->found) != CN_CPU && cni_optim_decide(opt, e->found);
}

int cn_grad_scaler_may_step(cn_grad_scaler *s, cn_optim *opt, bool plain)
{
  if (cn_err()) return cn_err();
  if (!s || !opt) return cn_err_set(CN_ERR_TYPE, "grad_scaler: it, or the optimiser, is missing (NULL)");
  if (!s->enabled) return 1;
  entry *e = find(s, opt);
  if (e && e->stepped) return cn_err_set(CN_ERR_VALUE, "grad_scaler: stepped already since the last update");
  int status = e ? CN_OK : cn_grad_scaler_unscale(s, opt);
  if (status) return status;
  e = find(s, opt);
  if (cn_tracing() && !e->captured)
    return cn_err_set(CN_ERR_CAPTURE, "grad_scaler: gradients were unscaled outside of the captured code, which steps");
  e->stepped = true;
  if (e->captured) status = begin_captured(e, opt);
  if (status || e->captured || !e->found || decided_there(e, opt, plain)) return status || cn_err() ? cn_err() : 1;
  bool overflow = cn_item(e->found) != 0;
  return cn_err() ? cn_err() : !overflow;
}

int cn_grad_scaler_step(cn_grad_scaler *s, cn_optim *opt)
{
  int may = cn_grad_scaler_may_step(s, opt, true);
  if (may != 1) return may;
  int status = cn_optim_step(opt);
  if (!status) status = cn_grad_scaler_stepped(s, opt);
  return status ? status : 1;
}

/* ---- the next scale ---- */

static int set_scale(cn_grad_scaler *s, double value)
{
  float scale = (float)value;
  return cn_copy_from_data(s->scale, &scale, sizeof scale);
}

static int set_good(cn_grad_scaler *s, double good) { return cn_copy_from_data(s->good, &good, sizeof good); }

/* By what was found in all optimisers' gradients; those without any did not overflow. */
static int update_scale(cn_grad_scaler *s)
{
  cn_tensor *found = NULL;
  int status = cn_trace_depends(s->settings);
  for (size_t i = 0; i < s->n && !status; i++) {
    cn_tensor *one = s->v[i].found ? cn_to_device(s->v[i].found, cn_device_of(s->scale)) : NULL;
    found = found && one ? cn_logical_or(found, one) : one ? one : found;
  }
  if (!found) found = cn_ne(s->good, s->good);
  if (status || cn_err()) return cn_err();
  return cn_scale_update_(s->scale, s->good, found, s->growth, s->backoff, (double)s->interval);
}

int cn_grad_scaler_update(cn_grad_scaler *s)
{
  if (cn_err()) return cn_err();
  if (!s) return cn_err_set(CN_ERR_TYPE, "grad_scaler: it is missing (NULL)");
  if (!s->enabled) return CN_OK;
  find(s, NULL);
  if (!s->n) return cn_err_set(CN_ERR_VALUE, "grad_scaler: nothing was unscaled or stepped since the last update");
  cn_scope *scope = cn_scope_begin();
  int saved = cn_no_grad_begin(), status = update_scale(s);
  cn_no_grad_end(saved);
  cn_scope_end(scope);
  if (!status) drop_entries(s);
  return status;
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
    if (!status) status = cn_tree_put(out, "_growth_tracker", cn_tree_int((int64_t)cn_item(s->good)));
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
  int status = cn_copy_from_data(s->settings, &(int64_t){0}, sizeof(int64_t));
  if (!status) status = set_good(s, (double)cn_tree_as_int(cn_tree_get(state, "_growth_tracker"), 0));
  return status ? status : set_scale(s, scale);
}
