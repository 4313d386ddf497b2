/* state_dict.c: the state of an optimiser as a tree, in the shape of PyTorch's state_dict, and back.
 *
 * Place in the flow: checkpoints and files of other programs above, groups and memories of optim.h below. Invariant:
 * loading changes nothing unless all of it fits. */
#include <cairn/kw.h>
#include <math.h>
#include <string.h>

#include "optim.h"

/* ---- a class's keys: "lr betas foreach=None" ---- */

typedef struct key {
  char name[32];
  char value[24]; /* what stands behind '='; "" for an argument */
} key;

static bool next_key(const char **s, key *k)
{
  *s += strspn(*s, " ");
  size_t n = strcspn(*s, " "), name = strcspn(*s, "= ");
  if (!n || name >= sizeof k->name || n - name >= sizeof k->value + 1) return false;
  memcpy(k->name, *s, name);
  k->name[name] = 0;
  k->value[0] = 0;
  if (name < n) {
    memcpy(k->value, *s + name + 1, n - name - 1);
    k->value[n - name - 1] = 0;
  }
  *s += n;
  return true;
}

int cni_add_extras(cni_group *g, const cni_optim_class *cls)
{
  const char *s = cls->keys;
  int status = CN_OK;
  for (key k; !status && next_key(&s, &k);) {
    if (!k.value[0]) continue;
    bool none = !strcmp(k.value, "None");
    status = cn_tree_put(g->extra, k.name, none ? cn_tree_none() : cn_tree_bool(!strcmp(k.value, "True")));
  }
  return status;
}

/* ---- writing ---- */

static cn_tree *list_tree(const cn_value *v)
{
  cn_tree *tuple = cn_tree_tuple();
  int status = tuple ? CN_OK : cn_err();
  for (int i = 0; i < v->n && !status; i++) { /* NaN stands for None: Adafactor's first epsilon */
    double x = v->tag == CN_V_FLOATS ? v->u.fs[i] : 0;
    status = cn_tree_push(tuple, v->tag == CN_V_INTS ? cn_tree_int(v->u.is[i])
                                 : isnan(x)          ? cn_tree_none()
                                                     : cn_tree_float(x));
  }
  if (!status) return tuple;
  cn_tree_free(tuple);
  return NULL;
}

static cn_tree *value_tree(const cn_value *v)
{
  switch (v->tag) {
  case CN_V_INT: return cn_tree_int(v->u.i);
  case CN_V_FLOAT: return cn_tree_float(v->u.f);
  case CN_V_BOOL: return cn_tree_bool(v->u.i != 0);
  case CN_V_STR: return cn_tree_str(v->u.s);
  case CN_V_INTS:
  case CN_V_FLOATS: return list_tree(v);
  default: return cn_tree_none();
  }
}

static bool written(const cn_tree *dict, const char *name) { return cn_tree_get(dict, name) != NULL; }

static cn_tree *settings_tree(const cn_optim *opt, const cni_group *g)
{
  cn_tree *out = cn_tree_dict();
  const char *s = opt->cls->keys;
  int status = out ? CN_OK : cn_err();
  for (key k; !status && next_key(&s, &k);) {
    const cn_value *v = cn_args_get(g->args, k.name);
    cn_tree *value = !strcmp(k.name, "lr") ? cn_tree_float(cn_item(g->lr))
                     : v && v->tag == CN_V_NONE && opt->cls->left_out
                         ? opt->cls->left_out(cn_args_values(g->args), k.name)
                     : v ? value_tree(v)
                         : cn_tree_copy(cn_tree_get(g->extra, k.name), false);
    status = cn_tree_put(out, k.name, value);
  }
  for (size_t i = 0; i < cn_tree_size(g->extra) && !status; i++) { /* initial_lr and its like */
    const char *name = cn_tree_key(g->extra, i, NULL);
    if (name && !written(out, name)) status = cn_tree_put(out, name, cn_tree_copy(cn_tree_at(g->extra, i), false));
  }
  if (!status) return out;
  cn_tree_free(out);
  return NULL;
}

cn_tree *cn_optim_group(cn_optim *opt, size_t group)
{
  cni_group g = {0};
  if (cn_err()) return NULL;
  if (opt && group < opt->ngroups) return settings_tree(opt, &opt->groups[group]);
  if (!opt || group > opt->ngroups) {
    cn_err_set(CN_ERR_INDEX, "%s: has no group %zu", cn_optim_name(opt), group);
    return NULL;
  }
  if (cni_new_group(&g, opt)) return NULL;
  cn_tree *out = settings_tree(opt, &g);
  cni_group_drop(&g);
  return out;
}

static cn_tree *group_tree(const cn_optim *opt, const cni_group *g, int64_t first)
{
  cn_tree *out = settings_tree(opt, g), *numbers = out ? cn_tree_list() : NULL;
  int status = numbers ? CN_OK : cn_err();
  for (size_t i = 0; i < g->n && !status; i++) status = cn_tree_push(numbers, cn_tree_int(first + (int64_t)i));
  if (!status && !cn_tree_put(out, "params", numbers)) return out;
  if (status) cn_tree_free(numbers);
  cn_tree_free(out);
  return NULL;
}

static int put_memory(const cn_optim *opt, cn_tree *state, int64_t number, const cni_memory *m)
{
  cn_tree *out = NULL;
  int status = CN_OK;
  for (int i = 0; i < CNI_OPTIM_STATES && !status; i++) {
    const cni_state_name *name = &opt->cls->states[i];
    if (!name->name || !m->state[i]) continue;
    if (!out && !(out = cn_tree_dict())) return cn_err();
    bool whole = name->scalar && opt->cls->whole_steps;
    status = cn_tree_put(out, name->name,
                         whole ? cn_tree_int((int64_t)cn_item(m->state[i])) : cn_tree_tensor(m->state[i]));
  }
  if (!status && out) return cn_tree_put_index(state, number, out);
  cn_tree_free(out);
  return status;
}

cn_tree *cn_optim_state(cn_optim *opt)
{
  if (cn_err() || !opt) return NULL;
  cn_tree *out = cn_tree_dict(), *state = cn_tree_dict(), *groups = cn_tree_list();
  int status = out && state && groups ? CN_OK : cn_err();
  int64_t first = 0;
  for (size_t i = 0; i < opt->ngroups && !status; first += (int64_t)opt->groups[i++].n) {
    const cni_group *g = &opt->groups[i];
    for (size_t k = 0; k < g->n && !status; k++) status = put_memory(opt, state, first + (int64_t)k, &g->v[k]);
    if (!status) status = cn_tree_push(groups, group_tree(opt, g, first));
  }
  if (!status && opt->cls->save) status = opt->cls->save(opt, state);
  if (status) {
    cn_tree_free(state);
    cn_tree_free(groups);
  } else {
    status = cn_tree_put(out, "state", state);
    int after = cn_tree_put(out, "param_groups", groups);
    if (!status) status = after;
  }
  if (!status) return out;
  cn_tree_free(out);
  return NULL;
}

cn_tree *cn_optim_memory(cn_optim *opt, size_t group, size_t i)
{
  if (cn_err() || !cn_optim_param(opt, group, i)) {
    if (!cn_err()) cn_err_set(CN_ERR_INDEX, "%s: has no such parameter", cn_optim_name(opt));
    return NULL;
  }
  cn_tree *all = cn_tree_dict(), *out = NULL;
  int status = all ? put_memory(opt, all, 0, &opt->groups[group].v[i]) : cn_err();
  if (!status && opt->cls->save && !group && !i) status = opt->cls->save(opt, all);
  cn_tree *found = status ? NULL : cn_tree_get_index(all, 0);
  if (!status) out = found ? cn_tree_copy(found, false) : cn_tree_dict();
  cn_tree_free(all);
  return out;
}

/* ---- reading ---- */

/* A number, whether it was kept as one or as a tensor. */
static bool as_number(const cn_tree *t, double *value)
{
  cn_tree_kind kind = cn_tree_kind_of(t);
  if (kind == CN_TREE_TENSOR && cn_numel(cn_tree_as_tensor(t)) == 1) *value = cn_item(cn_tree_as_tensor(t));
  else if (kind == CN_TREE_FLOAT || kind == CN_TREE_INT || kind == CN_TREE_BOOL) *value = cn_tree_as_float(t, 0);
  else return false;
  return true;
}

static int bad_setting(const cn_optim *opt, const char *name)
{
  if (cn_err()) return cn_err();
  return cn_err_set(CN_ERR_VALUE, "%s: the state has a %s of another kind", cn_optim_name(opt), name);
}

static int read_list(const cn_optim *opt, cn_args **args, const char *name, const cn_tree *t)
{
  double room[8];
  size_t n = cn_tree_size(t);
  if (n > sizeof room / sizeof *room) return bad_setting(opt, name);
  for (size_t i = 0; i < n; i++)
    if (cn_tree_kind_of(cn_tree_at(t, i)) == CN_TREE_NONE) room[i] = NAN;
    else if (!as_number(cn_tree_at(t, i), &room[i])) return bad_setting(opt, name);
  return cn_args_set(args, name, cn_v_floats(room, n));
}

static int read_setting(const cn_optim *opt, cn_args **args, int i, const cn_tree *t)
{
  cn_op_param p;
  double x = 0;
  if (cn_signature_param(&p, opt->signature, i)) return cn_err();
  cn_tree_kind kind = cn_tree_kind_of(t);
  if (kind == CN_TREE_NONE) return p.optional ? cn_args_set(args, p.name, cn_v_none()) : bad_setting(opt, p.name);
  if (kind == CN_TREE_STR) return cn_args_set(args, p.name, cn_v_str(cn_tree_as_str(t, NULL)));
  if (kind == CN_TREE_LIST || kind == CN_TREE_TUPLE) return read_list(opt, args, p.name, t);
  if (!as_number(t, &x)) return bad_setting(opt, p.name);
  return cn_args_set(args, p.name,
                     !strncmp(p.type, "bool", 4)  ? cn_v_bool(x != 0)
                     : !strncmp(p.type, "int", 3) ? cn_v_int((int64_t)x)
                                                  : cn_v_float(x));
}

/* A group as the state has it, with its parameters and no memories yet. */
static int read_group(cni_group *to, const cn_optim *opt, const cni_group *from, const cn_tree *tree)
{
  double lr = cn_item(from->lr);
  to->args = cn_args_copy(from->args);
  to->extra = cn_tree_copy(from->extra, false);
  int status = to->args && to->extra ? CN_OK : cn_err();
  for (size_t i = 0; i < cn_tree_size(tree) && !status; i++) {
    const char *name = cn_tree_key(tree, i, NULL);
    const cn_tree *value = cn_tree_at(tree, i);
    int param = name ? cn_signature_find(opt->signature, name) : -1;
    if (!name || !strcmp(name, "params")) continue;
    if (param >= 0) status = read_setting(opt, &to->args, param, value);
    else status = cn_tree_put(to->extra, name, cn_tree_copy(value, false));
    if (!strcmp(name, "lr") && !as_number(value, &lr)) status = bad_setting(opt, name);
  }
  if (!status) status = cni_optim_check(opt, to->args);
  if (!status && !(to->lr = cn_keep(cn_full_with(NULL, 0, lr, CN_OPTS(cn_full_opts, .dtype = CN_F64,
                                                                      .device = CN_CPU)))))
    status = cn_err();
  return status;
}

/* One value as this parameter keeps it: a copy in its type and place, or a number on the host. */
static cn_tensor *read_value(const cn_tree *t, const cni_state_name *name, cn_tensor *param)
{
  double x;
  cn_dtype number = cn_default_dtype() == CN_F64 ? CN_F64 : CN_F32;
  cn_tensor *v = cn_tree_as_tensor(t);
  if (name->scalar)
    return as_number(t, &x) ? cn_full_with(NULL, 0, x, CN_OPTS(cn_full_opts, .dtype = number, .device = CN_CPU))
                            : NULL;
  if (!v) return NULL;
  v = cn_cast(cn_to_device(v, cn_device_of(param)), cn_dtype_of(param));
  return v == cn_tree_as_tensor(t) || (v && cn_is_view(v)) ? cn_clone(v) : v;
}

static int read_memory(cni_memory *to, const cn_optim *opt, const cn_tree *tree)
{
  for (int i = 0; i < CNI_OPTIM_STATES; i++) {
    const cni_state_name *name = &opt->cls->states[i];
    const cn_tree *t = name->name ? cn_tree_get(tree, name->name) : NULL;
    if (!t || cn_tree_kind_of(t) == CN_TREE_NONE) continue;
    cn_tensor *value = read_value(t, name, to->param);
    if (!value)
      return cn_err()
                 ? cn_err()
                 : cn_err_set(CN_ERR_VALUE, "%s: the state has a %s of another kind", cn_optim_name(opt), name->name);
    to->state[i] = cn_keep(value);
  }
  return CN_OK;
}

static void groups_drop(cni_group *groups, size_t n)
{
  for (size_t i = 0; groups && i < n; i++) {
    for (size_t k = 0; k < groups[i].n; k++)
      for (int j = 0; j < CNI_OPTIM_STATES; j++) cn_release(groups[i].v[k].state[j]);
    cn_free(groups[i].v, groups[i].cap * sizeof *groups[i].v);
    cn_args_free(groups[i].args);
    cn_release(groups[i].lr);
    cn_tree_free(groups[i].extra);
  }
  cn_free(groups, (n + 1) * sizeof *groups);
}

static int read_groups(cni_group *to, const cn_optim *opt, const cn_tree *state)
{
  const cn_tree *groups = cn_tree_get(state, "param_groups"), *memories = cn_tree_get(state, "state");
  if (cn_tree_size(groups) != opt->ngroups)
    return cn_err_set(CN_ERR_VALUE, "%s: the state has %zu groups of parameters, not %zu", cn_optim_name(opt),
                      cn_tree_size(groups), opt->ngroups);
  int status = CN_OK;
  for (size_t i = 0; i < opt->ngroups && !status; i++) {
    const cn_tree *tree = cn_tree_at(groups, i), *numbers = cn_tree_get(tree, "params");
    const cni_group *from = &opt->groups[i];
    if (cn_tree_size(numbers) != from->n)
      return cn_err_set(CN_ERR_VALUE, "%s: group %zu of the state has %zu parameters, not %zu", cn_optim_name(opt), i,
                        cn_tree_size(numbers), from->n);
    status = read_group(&to[i], opt, from, tree);
    if (!status) status = cn_grow((void **)&to[i].v, &to[i].cap, from->n, sizeof *to[i].v);
    for (size_t k = 0; k < from->n && !status; k++) {
      int64_t number = cn_tree_as_int(cn_tree_at(numbers, k), -1);
      to[i].v[to[i].n++] = (cni_memory){.param = from->v[k].param};
      status = read_memory(&to[i].v[k], opt, cn_tree_get_index(memories, number));
    }
  }
  return status;
}

/* What was read takes the place of what was there; the tensors of rates stay the same objects. */
static int take_over(cn_optim *opt, cni_group *read)
{
  if (cni_settings_changed(opt)) return cn_err();
  for (size_t i = 0; i < opt->ngroups; i++) {
    cni_group *g = &opt->groups[i], *r = &read[i], old = *g;
    double lr = cn_item(r->lr);
    int status = cn_copy_from_data(g->lr, &lr, sizeof lr);
    if (status) return status;
    g->args = r->args, r->args = old.args;
    if ((status = cni_group_write_beta(opt, g))) return status;
    g->extra = r->extra, r->extra = old.extra;
    for (size_t k = 0; k < g->n; k++)
      for (int j = 0; j < CNI_OPTIM_STATES; j++) {
        cn_tensor *was = g->v[k].state[j];
        g->v[k].state[j] = r->v[k].state[j];
        r->v[k].state[j] = was;
      }
  }
  return CN_OK;
}

int cn_optim_load(cn_optim *opt, const cn_tree *state)
{
  if (cn_err()) return cn_err();
  if (!opt || !state) return cn_err_set(CN_ERR_TYPE, "optimiser: it, or the state to load, is missing (NULL)");
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  cni_group *read = cn_alloc_zero((opt->ngroups + 1) * sizeof *read);
  int status = read ? read_groups(read, opt, state) : cn_err();
  if (!status && opt->cls->load) status = opt->cls->load(opt, cn_tree_get(state, "state"));
  if (!status) status = take_over(opt, read);
  cn_no_grad_end(saved);
  cn_scope_end(s);
  if (read) groups_drop(read, opt->ngroups);
  return status;
}

int cn_optim_remember(cn_optim *opt, size_t group, size_t i, const cn_tree *memory)
{
  cn_tensor *param = cn_optim_param(opt, group, i);
  if (cn_err()) return cn_err();
  if (!param) return cn_err_set(CN_ERR_INDEX, "%s: has no such parameter", cn_optim_name(opt));
  cni_memory *m = &opt->groups[group].v[i], read = {.param = param};
  cn_tree *all = opt->cls->load && !group && !i ? cn_tree_dict() : NULL;
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin(), status = read_memory(&read, opt, memory);
  if (!status && all && memory) status = cn_tree_put_index(all, 0, cn_tree_copy(memory, false));
  if (!status && all) status = opt->cls->load(opt, all);
  cn_no_grad_end(saved);
  cn_scope_end(s);
  for (int k = 0; k < CNI_OPTIM_STATES; k++) {
    const char *name = opt->cls->states[k].name;
    const cn_tensor *given = name ? cn_tree_as_tensor(cn_tree_get(memory, name)) : NULL;
    bool same = given && given == m->state[k]; /* it stays the tensor that others may hold */
    cn_release(status || same ? read.state[k] : m->state[k]);
    if (!status && !same) m->state[k] = read.state[k];
  }
  cn_tree_free(all);
  return status;
}
