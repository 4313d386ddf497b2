/* optim.c: the life of optimisers, their groups of parameters and settings, and a step through all of them.
 *
 * Place in the flow: cn_optim_step -> for each parameter with a gradient: the class's update, an op of one pass over
 * memory. Invariant: a step runs without recording gradients and leaves nothing in the caller's scope. */
#include "optim.h"

#include <cairn/kw.h>
#include <cairn/ext/graph.h>
#include <cairn/graph.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- numbers that are tensors ---- */

/* These, and the state, live longer than a capture: what makes them is not recorded. */
static cn_tensor *new_scalar(double value, cn_dtype dtype, cn_device device)
{
  void *trace = cn_trace_pause();
  cn_tensor *t = cn_full_with(NULL, 0, value,
                              CN_OPTS(cn_full_opts, .dtype = dtype, .device = device ? device : CN_CPU));
  cn_trace_resume(trace);
  return t;
}

int cni_state_begin(cni_param_step *s, int i, cn_tensor *value)
{
  if (!value) return cn_err();
  s->m->state[i] = cn_keep(value);
  return CN_OK;
}

cn_tensor *cni_state_like(cni_param_step *s, int i, double value)
{
  if (s->m->state[i]) return s->m->state[i];
  void *trace = cn_trace_pause();
  int status = cni_state_begin(s, i, cn_full_like(s->param, value));
  cn_trace_resume(trace);
  return status ? NULL : s->m->state[i];
}

cn_tensor *cni_state_scalar(cni_param_step *s, int i, double value)
{
  if (s->m->state[i]) return s->m->state[i];
  cn_dtype dtype = cn_default_dtype() == CN_F64 ? CN_F64 : CN_F32;
  return cni_state_begin(s, i, new_scalar(value, dtype, s->opt->scalars)) ? NULL : s->m->state[i];
}

cn_tensor *cni_rate(cni_param_step *s, int i)
{
  if (s->m->rate[i]) return s->m->rate[i];
  return s->m->rate[i] = cn_keep(new_scalar(0, CN_F64, s->opt->scalars));
}

double cni_rate_now(const cni_param_step *s)
{
  void *trace = cn_trace_pause();
  double rate = cn_item(s->lr);
  cn_trace_resume(trace);
  return rate;
}

cn_tensor *cni_count_step(cni_param_step *s, int i)
{
  cn_tensor *step = cni_state_scalar(s, i, 0);
  return step && cn_add_(step, cn_num(1)) ? cn_cast(step, CN_F64) : NULL;
}

int cni_at_least(const char *who, const char *what, double value, double least)
{
  char number[CN_NUMBER_TEXT];
  if (value >= least) return CN_OK;
  return cn_err_set(CN_ERR_VALUE, "%s: %s must not be below %g, but is %s", who, what, least,
                    cn_number_write(number, value, false));
}

static int check_betas(const char *who, const double *betas)
{
  for (int i = 0; i < 2; i++)
    if (!(betas[i] >= 0 && betas[i] < 1))
      return cn_err_set(CN_ERR_VALUE, "%s: betas[%d] must be in [0, 1), but is %g", who, i, betas[i]);
  return CN_OK;
}

int cni_optim_check(const cn_optim *opt, const cn_args *args)
{
  const cni_optim_class *cls = opt->cls;
  const char *who = cn_signature_name(opt->signature), *s = cls->not_negative ? cls->not_negative : "";
  for (size_t n; (s += strspn(s, " "), n = strcspn(s, " ")); s += n) {
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)n, s);
    if (cni_at_least(who, name, cn_args_get(args, name)->u.f, 0)) return cn_err();
  }
  if (cls->betas && check_betas(who, cn_args_get(args, "betas")->u.fs)) return cn_err();
  return cls->check ? cls->check(cn_args_values(args)) : CN_OK;
}

int cni_settings_changed(cn_optim *opt)
{
  const double change = 1; /* that it is written counts, not what */
  return cn_copy_from_data(opt->settings, &change, sizeof change);
}

/* ---- groups ---- */

static void memory_drop(cni_memory *m)
{
  cn_release(m->param);
  for (int i = 0; i < CNI_OPTIM_STATES; i++) cn_release(m->state[i]);
  for (int i = 0; i < CNI_OPTIM_RATES; i++) cn_release(m->rate[i]);
}

void cni_group_drop(cni_group *g)
{
  for (size_t i = 0; i < g->n; i++) memory_drop(&g->v[i]);
  cn_free(g->v, g->cap * sizeof *g->v);
  cn_args_free(g->args);
  cn_release(g->lr);
  cn_release(g->beta);
  cn_release(g->rest);
  cn_tree_free(g->extra);
}

static bool has_param(const cn_optim *opt, const cni_group *more, const cn_tensor *p)
{
  for (size_t i = 0; i < opt->ngroups; i++)
    for (size_t k = 0; k < opt->groups[i].n; k++)
      if (opt->groups[i].v[k].param == p) return true;
  for (size_t k = 0; k < more->n; k++)
    if (more->v[k].param == p) return true;
  return false;
}

static int check_param(const cn_optim *opt, const cni_group *g, cn_tensor *p)
{
  const char *who = cn_optim_name(opt);
  if (!p) return cn_err_set(CN_ERR_TYPE, "%s: a parameter is missing (NULL)", who);
  if (!cn_is_leaf(p))
    return cn_err_set(CN_ERR_VALUE, "%s: only leaves can be optimised, not results of ops", who);
  if (has_param(opt, g, p)) return cn_err_set(CN_ERR_VALUE, "%s: a parameter is in two groups, or twice in one", who);
  return opt->cls->check_param ? opt->cls->check_param(p) : CN_OK;
}

static cni_param_step param_step_of(cn_optim *opt, cni_group *g, size_t i)
{
  cni_memory *m = &g->v[i];
  return (cni_param_step){.a = cn_args_values(g->args), .lr = g->lr, .beta = g->beta, .rest = g->rest,
                          .param = m->param, .m = m, .opt = opt};
}

/* The number that is cycled, among these settings. */
static double cycled_of(const cn_optim *opt, const cn_args *args)
{
  const cn_value *v = cn_args_get(args, opt->cls->cycled);
  return v->tag == CN_V_FLOATS ? v->u.fs[0] : v->u.f;
}

int cni_group_write_beta(const cn_optim *opt, cni_group *g)
{
  if (!opt->cls->cycled) return CN_OK;
  const double beta = cycled_of(opt, g->args), rest = 1 - beta;
  if (!g->beta) g->beta = cn_keep(new_scalar(beta, CN_F64, CN_CPU));
  if (!g->rest) g->rest = cn_keep(new_scalar(rest, CN_F64, CN_CPU));
  if (!g->beta || !g->rest) return cn_err();
  int status = cn_copy_from_data(g->beta, &beta, sizeof beta);
  return status ? status : cn_copy_from_data(g->rest, &rest, sizeof rest);
}

static int fill_group(cn_optim *opt, cni_group *g, cn_tensor *const *params, size_t n)
{
  int lr = cn_signature_find(opt->signature, "lr");
  if (!(g->args = cn_args_copy(opt->args))) return cn_err();
  cn_tensor *rate = new_scalar(cn_args_values(g->args)[lr].u.f, CN_F64, CN_CPU);
  if (!rate) return cn_err();
  g->lr = cn_keep(rate);
  if (cni_group_write_beta(opt, g)) return cn_err();
  if (!(g->extra = cn_tree_dict()) || cni_add_extras(g, opt->cls)) return cn_err();
  int status = cn_grow((void **)&g->v, &g->cap, n, sizeof *g->v);
  for (size_t i = 0; i < n && !status; i++) {
    if ((status = check_param(opt, g, params[i]))) break;
    g->v[g->n++] = (cni_memory){.param = cn_keep(params[i])};
    cni_param_step s = param_step_of(opt, g, i);
    if (opt->cls->begin) status = opt->cls->begin(&s);
  }
  return status;
}

int cn_optim_add(cn_optim *opt, cn_tensor *const *params, size_t n)
{
  cni_group g = {0};
  if (cn_err()) return cn_err();
  if (!opt) return cn_err_set(CN_ERR_TYPE, "optimiser: it is missing (NULL)");
  if (opt->cls->minimise && opt->ngroups)
    return cn_err_set(CN_ERR_VALUE, "%s: has one group of parameters only", cn_optim_name(opt));
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin(), status = fill_group(opt, &g, params, n);
  cn_no_grad_end(saved);
  cn_scope_end(s);
  if (!status) status = cn_grow((void **)&opt->groups, &opt->groups_cap, opt->ngroups + 1, sizeof *opt->groups);
  if (!status) status = cni_settings_changed(opt);
  if (status) {
    cni_group_drop(&g);
    return status;
  }
  opt->groups[opt->ngroups] = g;
  return (int)opt->ngroups++;
}

/* ---- life ---- */

static int add_module(cn_optim *opt, cn_module *net)
{
  cn_named_list list = {0};
  int status = cn_module_named(&list, net, CN_PARAMETERS);
  cn_tensor **params = status ? NULL : cn_alloc((list.n + 1) * sizeof *params);
  if (!params) status = cn_err();
  else {
    for (size_t i = 0; i < list.n; i++) params[i] = list.v[i].tensor;
    status = list.n ? cn_optim_add(opt, params, list.n)
                    : cn_err_set(CN_ERR_VALUE, "%s: the module has no parameters", cn_optim_name(opt));
    cn_free(params, (list.n + 1) * sizeof *params);
  }
  cn_named_free(&list);
  return status < 0 ? status : CN_OK;
}

cn_optim *cn_optim_make(const char *name, cn_module *net, const cn_value *args, size_t n)
{
  const cn_signature *sig;
  const cni_optim_class *cls = cn_err() ? NULL : cni_optim_class_find(name, &sig);
  cn_optim *opt = cls ? cn_alloc_zero(sizeof *opt) : NULL;
  if (!opt) return NULL;
  *opt = (cn_optim){.cls = cls, .signature = sig, .net = cn_module_keep(net), .args = cn_args_new(sig, args, n)};
  int status = opt->args ? cni_optim_check(opt, opt->args) : cn_err();
  cn_scope *scope = cn_scope_begin();
  if (!status && !(opt->settings = cn_keep(new_scalar(0, CN_F64, CN_CPU)))) status = cn_err();
  cn_scope_end(scope);
  if (!status && cls->data_size && !(opt->data = cn_alloc_zero(cls->data_size))) status = cn_err();
  if (!status && net) status = add_module(opt, net);
  if (!status) return opt;
  cn_optim_free(opt);
  return NULL;
}

void cn_optim_free(cn_optim *opt)
{
  if (!opt) return;
  for (size_t i = 0; i < opt->ngroups; i++) cni_group_drop(&opt->groups[i]);
  cn_free(opt->groups, opt->groups_cap * sizeof *opt->groups);
  if (opt->data && opt->cls->free) opt->cls->free(opt->data);
  cn_free(opt->data, opt->cls->data_size);
  cn_args_free(opt->args);
  cn_module_release(opt->net);
  cn_release(opt->settings);
  cn_release(opt->unless);
  cn_free(opt, sizeof *opt);
}

/* ---- looking and setting ---- */

const char *cn_optim_name(const cn_optim *opt) { return opt ? cn_signature_name(opt->signature) : "optimiser"; }
size_t cn_optim_ngroups(const cn_optim *opt) { return opt ? opt->ngroups : 0; }

static cni_group *group_at(const cn_optim *opt, size_t i) { return opt && i < opt->ngroups ? &opt->groups[i] : NULL; }

size_t cn_optim_nparams(const cn_optim *opt, size_t group)
{
  const cni_group *g = group_at(opt, group);
  return g ? g->n : 0;
}

cn_tensor *cn_optim_param(const cn_optim *opt, size_t group, size_t i)
{
  const cni_group *g = group_at(opt, group);
  return g && i < g->n ? g->v[i].param : NULL;
}

bool cn_optim_cycles(const cn_optim *opt) { return opt && opt->cls->cycled; }

cn_tensor *cn_optim_lr(const cn_optim *opt, size_t group)
{
  const cni_group *g = group_at(opt, group);
  return g ? g->lr : NULL;
}

const cn_args *cn_optim_args(const cn_optim *opt, size_t group)
{
  const cni_group *g = group_at(opt, group);
  return g ? g->args : NULL;
}

static int no_setting(const cn_optim *opt, size_t group, const char *name)
{
  if (!group_at(opt, group)) return cn_err_set(CN_ERR_INDEX, "%s: has no group %zu", cn_optim_name(opt), group);
  return cn_err_set(CN_ERR_VALUE, "%s: has no number called %s", cn_optim_name(opt), name ? name : "(NULL)");
}

const cn_value *cni_group_get(const cn_optim *opt, size_t group, const char *name)
{
  const cni_group *g = group_at(opt, group);
  return g && name ? cn_args_get(g->args, name) : NULL;
}

bool cni_group_extra(const cn_optim *opt, size_t group, const char *name, double *value)
{
  const cni_group *g = group_at(opt, group);
  cn_tree *found = g ? cn_tree_get(g->extra, name) : NULL;
  cn_tree_kind kind = cn_tree_kind_of(found);
  if (kind != CN_TREE_FLOAT && kind != CN_TREE_INT && kind != CN_TREE_BOOL) return false;
  *value = cn_tree_as_float(found, 0);
  return true;
}

int cni_group_put(cn_optim *opt, size_t group, const char *name, double value)
{
  cni_group *g = group_at(opt, group);
  return g ? cn_tree_put(g->extra, name, cn_tree_float(value)) : no_setting(opt, group, name);
}

double cn_optim_get(const cn_optim *opt, size_t group, const char *name)
{
  double extra;
  const cn_value *v = cni_group_get(opt, group, name);
  if (v && !strcmp(name, "lr")) return cn_item(opt->groups[group].lr);
  if (v && v->tag == CN_V_FLOAT) return v->u.f;
  if (v && (v->tag == CN_V_INT || v->tag == CN_V_BOOL)) return (double)v->u.i;
  if (!v && name && cni_group_extra(opt, group, name, &extra)) return extra;
  no_setting(opt, group, name);
  return NAN;
}

int cni_group_set_lr(cn_optim *opt, size_t group, double lr)
{
  cni_group *g = group_at(opt, group);
  if (cn_err()) return cn_err();
  return g ? cn_copy_from_data(g->lr, &lr, sizeof lr) : no_setting(opt, group, "lr");
}

static bool same_setting(const cn_value *a, const cn_value *b)
{
  if (a->tag != b->tag || a->n != b->n) return false;
  if (a->tag == CN_V_FLOATS) return !memcmp(a->u.fs, b->u.fs, (size_t)a->n * sizeof *a->u.fs);
  if (a->tag == CN_V_INTS) return !memcmp(a->u.is, b->u.is, (size_t)a->n * sizeof *a->u.is);
  return a->tag == CN_V_STR ? !strcmp(a->u.s, b->u.s) : a->u.i == b->u.i;
}

/* Does a captured step hold for both of these settings of the one that is cycled? Which formula is used must be the
 * same: whether there is a momentum, which form of the mean its weight asks for, and the second of betas. */
static bool steps_hold(const cn_optim *opt, const char *name, const cn_args *before, const cn_args *after)
{
  if (!opt->cls->cycled || strcmp(name, opt->cls->cycled)) return false;
  const cn_value *a = cn_args_get(before, name), *b = cn_args_get(after, name);
  const double x = cycled_of(opt, before), y = cycled_of(opt, after);
  if (a->tag != CN_V_FLOATS) return (x == 0) == (y == 0);
  return a->u.fs[1] == b->u.fs[1] && (1 - x >= 0.5) == (1 - y >= 0.5);
}

int cni_group_set(cn_optim *opt, size_t group, const char *name, cn_value value)
{
  cni_group *g = group_at(opt, group);
  if (cn_err()) return cn_err();
  if (!g) return no_setting(opt, group, name);
  cn_args *changed = cn_args_copy(g->args);
  int status = changed ? cn_args_set(&changed, name, value) : cn_err();
  if (!status) status = cni_optim_check(opt, changed);
  if (!status) {
    cn_args *old = g->args;
    bool same = same_setting(cn_args_get(old, name), cn_args_get(changed, name));
    bool holds = !strcmp(name, "lr") || steps_hold(opt, name, old, changed);
    g->args = changed;
    changed = old;
    if (!same && !holds) status = cni_settings_changed(opt);
    if (!same && !status) status = cni_group_write_beta(opt, g);
  }
  cn_args_free(changed);
  return status;
}

int cn_optim_set_value(cn_optim *opt, size_t group, const char *name, cn_value value)
{
  if (cn_err()) return cn_err();
  if (cn_tracing())
    return cn_err_set(CN_ERR_CAPTURE, "%s: settings are numbers, which a captured step cannot change: change %s (or "
                      "step the schedule) outside of it", cn_optim_name(opt), name);
  if (!cni_group_get(opt, group, name)) return no_setting(opt, group, name);
  int status = cni_group_set(opt, group, name, value);
  if (status || strcmp(name, "lr")) return status;
  return cni_group_set_lr(opt, group, cni_group_get(opt, group, name)->u.f);
}

int cn_optim_set(cn_optim *opt, size_t group, const char *name, double value)
{
  const cn_value *v = cni_group_get(opt, group, name);
  cn_op_param p;
  if (!v) return no_setting(opt, group, name);
  if (cn_signature_param(&p, opt->signature, cn_signature_find(opt->signature, name))) return cn_err();
  if (strchr(p.type, '[') || !strncmp(p.type, "str", 3)) return no_setting(opt, group, name);
  return cn_optim_set_value(opt, group, name, !strncmp(p.type, "bool", 4)  ? cn_v_bool(value != 0)
                                              : !strncmp(p.type, "int", 3) ? cn_v_int((int64_t)value)
                                                                           : cn_v_float(value));
}

int cn_optim_note(cn_optim *opt, size_t group, const char *name, cn_tree *value)
{
  cni_group *g = group_at(opt, group);
  if (g && name && !cn_err()) return cn_tree_put(g->extra, name, value);
  cn_tree_free(value);
  return cn_err() ? cn_err() : no_setting(opt, group, name);
}

int cn_optim_replace(cn_optim *opt, size_t group, size_t i, cn_tensor *param)
{
  cni_group *g = group_at(opt, group), none = {0};
  if (cn_err()) return cn_err();
  if (!g || i >= g->n) return cn_err_set(CN_ERR_INDEX, "%s: has no such parameter", cn_optim_name(opt));
  if (g->v[i].param == param) return CN_OK;
  int status = check_param(opt, &none, param);
  if (status) return status;
  cn_release(g->v[i].param);
  g->v[i].param = cn_keep(param);
  return CN_OK;
}

int cni_new_group(cni_group *g, cn_optim *opt)
{
  cn_scope *s = cn_scope_begin();
  int status = fill_group(opt, g, NULL, 0);
  cn_scope_end(s);
  if (status) cni_group_drop(g);
  return status;
}

/* ---- steps ---- */

static int check_grad(cni_param_step *s)
{
  const cn_desc *p = cn_desc_of(s->param), *g = cn_desc_of(s->grad);
  bool same = p->ndim == g->ndim && !memcmp(p->shape, g->shape, (size_t)p->ndim * sizeof *p->shape);
  if (same && cn_is_sparse(s->grad) && !s->opt->cls->sparse)
    return cn_err_set(CN_ERR_UNSUPPORTED, "%s: does not support sparse gradients; SGD, Adagrad and SparseAdam do",
                      cn_optim_name(s->opt));
  return same ? CN_OK : cn_err_set(CN_ERR_SHAPE, "%s: a gradient has another shape than its parameter",
                                   cn_optim_name(s->opt));
}

static int update_one(cni_param_step *s)
{
  return cn_is_sparse(s->grad) ? s->opt->cls->sparse(s) : s->opt->cls->update(s);
}

/* For each parameter that has a gradient. */
static int each_step(cn_optim *opt, int (*fn)(cni_param_step *s))
{
  int status = CN_OK;
  for (size_t i = 0; fn && i < opt->ngroups; i++)
    for (size_t k = 0; k < opt->groups[i].n && !status; k++) {
      cni_param_step s = param_step_of(opt, &opt->groups[i], k);
      if (!(s.grad = cn_grad_of(s.param))) continue;
      cn_scope *scope = cn_scope_begin();
      status = fn(&s);
      if (!status) status = cn_err();
      cn_scope_end(scope);
    }
  return status;
}

static int step_all(cn_optim *opt)
{
  int status = cn_trace_depends(opt->settings);
  if (!status) status = each_step(opt, check_grad);
  if (!status) status = each_step(opt, opt->cls->rates);
  return status ? status : each_step(opt, update_one);
}

/* ---- steps that a device decides ---- */

static int move_scalar(cn_tensor **t, cn_device device)
{
  if (!*t || cn_device_of(*t) == device) return CN_OK;
  cn_scope *scope = cn_scope_begin();
  void *trace = cn_trace_pause();
  cn_tensor *moved = cn_keep(cn_to_device(*t, device));
  cn_trace_resume(trace);
  cn_scope_end(scope);
  if (!moved) return cn_err();
  cn_release(*t);
  *t = moved;
  return CN_OK;
}

int cni_scalars_to(cn_optim *opt, cn_device device)
{
  int status = CN_OK;
  opt->scalars = device;
  for (size_t i = 0; i < opt->ngroups; i++)
    for (size_t k = 0; k < opt->groups[i].n; k++) {
      cni_memory *m = &opt->groups[i].v[k];
      for (int j = 0; j < CNI_OPTIM_STATES && !status; j++)
        if (opt->cls->states[j].scalar) status = move_scalar(&m->state[j], device);
      for (int j = 0; j < CNI_OPTIM_RATES && !status; j++) status = move_scalar(&m->rate[j], device);
    }
  return status;
}

bool cni_optim_decide(cn_optim *opt, cn_tensor *unless)
{
  cn_device device = cn_device_of(unless);
  for (size_t i = 0; i < opt->ngroups; i++) {
    if (!opt->cls->skippable || !opt->cls->skippable(cn_args_values(opt->groups[i].args))) return false;
    for (size_t k = 0; k < opt->groups[i].n; k++)
      if (cn_grad_of(opt->groups[i].v[k].param) && cn_device_of(opt->groups[i].v[k].param) != device) return false;
  }
  if (cni_scalars_to(opt, device)) return false;
  cn_release(opt->unless);
  opt->unless = cn_keep(unless);
  return true;
}

/* Where the device cannot decide, its flag is waited for. */
static int step_unless(cn_optim *opt)
{
  cn_tensor *unless = opt->unless;
  opt->unless = NULL;
  int begun = cn_updates_begin(unless), status = begun == CN_REFUSED ? CN_OK : begun;
  bool skipped = begun == CN_REFUSED && cn_item(unless) != 0;
  if (!status && !skipped) status = step_all(opt);
  if (begun != CN_REFUSED) {
    int queued = cn_updates_end();
    if (!status) status = queued;
  }
  cn_release(unless);
  return status ? status : cn_err();
}

int cn_optim_step(cn_optim *opt)
{
  if (cn_err()) return cn_err();
  if (!opt) return cn_err_set(CN_ERR_TYPE, "optimiser: it is missing (NULL)");
  if (opt->cls->minimise)
    return cn_err_set(CN_ERR_VALUE, "%s: evaluates several times a step; use cn_optim_step_closure",
                      cn_optim_name(opt));
  int saved = cn_no_grad_begin(), status = step_unless(opt);
  cn_no_grad_end(saved);
  return status;
}

cn_tensor *cn_optim_step_closure(cn_optim *opt, cn_closure fn, void *payload)
{
  if (cn_err() || !opt || !fn) {
    if (!cn_err()) cn_err_set(CN_ERR_TYPE, "optimiser: it, or the function to minimise, is missing (NULL)");
    return NULL;
  }
  if (!opt->cls->minimise) {
    int saved = cn_enable_grad_begin();
    cn_tensor *loss = fn(payload);
    cn_enable_grad_end(saved);
    return loss && !cn_optim_step(opt) ? loss : NULL;
  }
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  cn_tensor *loss = opt->cls->minimise(opt, fn, payload);
  cn_no_grad_end(saved);
  if (cn_err()) loss = NULL;
  if (loss) return cn_scope_return(s, loss);
  cn_scope_end(s);
  return NULL;
}

int cn_optim_zero_grad(cn_optim *opt)
{
  int status = cn_err();
  for (size_t i = 0; opt && i < opt->ngroups; i++)
    for (size_t k = 0; k < opt->groups[i].n && !status; k++) status = cn_zero_grad(opt->groups[i].v[k].param);
  return status;
}
