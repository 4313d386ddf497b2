/* schedule.c: the life of learning-rate schedules: making, stepping, state. See schedule.h. */
#include "schedule.h"

#include <cairn/graph.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#define TABLE(name) cni_schedule_##name##_classes,
static const cni_schedule_class *const *const tables[] = {CNI_SCHEDULE_FAMILIES(TABLE)};
#undef TABLE
enum { TABLES = sizeof tables / sizeof *tables, MOST = 32 };

static const cni_schedule_class *class_at(size_t i)
{
  for (size_t t = 0; t < TABLES; t++)
    for (size_t k = 0; tables[t][k]; k++)
      if (!i--) return tables[t][k];
  return NULL;
}

bool cn_schedule_class_at(size_t i, const char **name, const char **sig, const char **doc)
{
  const cni_schedule_class *cls = class_at(i);
  if (!cls) return false;
  *name = cls->name;
  *sig = cls->sig;
  *doc = cls->doc;
  return true;
}

/* Parsed once, kept until exit. */
static const cn_signature *signature_of(size_t i)
{
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static cn_signature *parsed[MOST];
  pthread_mutex_lock(&lock);
  if (!parsed[i]) parsed[i] = cn_signature_parse(class_at(i)->sig);
  const cn_signature *found = parsed[i];
  pthread_mutex_unlock(&lock);
  return found;
}

/* ---- life ---- */

cn_schedule *cni_schedule_new(const cni_schedule_class *cls, cn_optim *opt)
{
  if (cn_err()) return NULL;
  if (!opt) {
    cn_err_set(CN_ERR_TYPE, "%s: the optimiser is missing (NULL)", cls->name);
    return NULL;
  }
  cn_schedule *s = cn_alloc_zero(sizeof *s);
  if (!s) return NULL;
  *s = (cn_schedule){.cls = cls, .opt = opt, .epoch = -1, .n = opt->ngroups};
  s->base = cn_alloc_zero((s->n + 1) * sizeof *s->base);
  s->last = s->base ? cn_alloc_zero((s->n + 1) * sizeof *s->last) : NULL;
  if (s->last) return s;
  cn_schedule_free(s);
  return NULL;
}

void cn_schedule_free(cn_schedule *s)
{
  if (!s) return;
  for (size_t i = 0; i < s->nparts; i++) cn_schedule_free(s->parts[i]);
  cn_free(s->parts, s->nparts * sizeof *s->parts);
  cn_free(s->milestones, s->nparts * sizeof *s->milestones);
  for (int i = 0; i < CNI_SCHEDULE_LISTS; i++) cn_free((void *)(uintptr_t)s->list[i].v, s->n * sizeof *s->list[i].v);
  cn_args_free(s->args);
  cn_free(s->base, (s->n + 1) * sizeof *s->base);
  cn_free(s->last, (s->n + 1) * sizeof *s->last);
  cn_free(s, sizeof *s);
}

double cni_schedule_of(const cn_schedule *s, const char *name, size_t group)
{
  for (int i = 0; i < CNI_SCHEDULE_LISTS; i++)
    if (s->list[i].v && !strcmp(s->list[i].name, name)) return s->list[i].v[group];
  return cni_schedule_float(s, name);
}

double cni_group_lr(const cn_optim *opt, size_t group) { return cn_optim_get(opt, group, "lr"); }

int cni_schedule_note(cn_schedule *s)
{
  for (size_t i = 0; i < s->n; i++) s->last[i] = cni_group_lr(s->opt, i);
  return cn_err();
}

/* A group's first rate is kept in the group, so that schedules made later begin with the same one. */
static int find_base(cn_schedule *s, bool resumed)
{
  for (size_t i = 0; i < s->n; i++) {
    if (cni_group_extra(s->opt, i, "initial_lr", &s->base[i])) continue;
    if (resumed)
      return cn_err_set(CN_ERR_VALUE, "%s: last_epoch needs an optimiser whose groups have an initial_lr: load its "
                        "state first", s->cls->name);
    s->base[i] = cni_group_lr(s->opt, i);
    if (cni_group_put(s->opt, i, "initial_lr", s->base[i])) return cn_err();
  }
  return cn_err();
}

int cni_schedule_first(cn_schedule *s)
{
  s->steps = 0;
  s->initial = true;
  return cn_schedule_step(s);
}

cn_schedule *cni_schedule_begin(cn_schedule *s, int64_t last_epoch)
{
  s->epoch = last_epoch;
  int status = s->cls->begin ? s->cls->begin(s) : CN_OK;
  if (!status && !s->cls->step_metric) status = find_base(s, last_epoch >= 0);
  if (!status) status = s->cls->step_metric ? cni_schedule_note(s) : cni_schedule_first(s);
  if (!status) return s;
  cn_schedule_free(s);
  return NULL;
}

/* Copies lists of numbers, one for each group, for settings of the signature. */
static int take_lists(cn_schedule *s, const cn_lr_list *lists, size_t n)
{
  if (n > CNI_SCHEDULE_LISTS) return cn_err_set(CN_ERR_VALUE, "%s: too many lists", s->cls->name);
  for (size_t i = 0; i < n; i++) {
    int at = cn_signature_find(s->signature, lists[i].name);
    cn_op_param p;
    if (at < 0 || cn_signature_param(&p, s->signature, at) || strcmp(p.type, "float"))
      return cn_err_set(CN_ERR_VALUE, "%s: has no number called %s", s->cls->name, lists[i].name);
    double *v = cn_alloc(s->n * sizeof *v);
    if (!v) return cn_err();
    memcpy(v, lists[i].v, s->n * sizeof *v);
    s->list[i] = (cn_lr_list){p.name, v};
  }
  return CN_OK;
}

cn_schedule *cn_schedule_make(const char *name, cn_optim *opt, const cn_value *args, size_t n)
{
  return cn_schedule_make_lists(name, opt, args, n, NULL, 0);
}

cn_schedule *cn_schedule_make_lists(const char *name, cn_optim *opt, const cn_value *args, size_t n,
                                    const cn_lr_list *lists, size_t nlists)
{
  const cni_schedule_class *cls;
  if (cn_err()) return NULL;
  for (size_t i = 0; (cls = class_at(i)); i++) {
    if (!name || strcmp(cls->name, name)) continue;
    cn_schedule *s = cni_schedule_new(cls, opt);
    if (!s) return NULL;
    if (!(s->signature = signature_of(i)) || !(s->args = cn_args_new(s->signature, args, n)) ||
        take_lists(s, lists, nlists)) {
      cn_schedule_free(s);
      return NULL;
    }
    const cn_value *last = cni_schedule_arg(s, "last_epoch");
    return cni_schedule_begin(s, last ? last->u.i : -1);
  }
  cn_err_set(CN_ERR_UNSUPPORTED, "schedule: there is no class %s", name ? name : "(NULL)");
  return NULL;
}

/* ---- stepping ---- */

/* All rates are computed before the first is set. */
static int set_rates(cn_schedule *s, bool closed)
{
  for (size_t i = 0; i < s->n; i++)
    s->last[i] = closed && s->cls->closed ? s->cls->closed(s, i)
                 : s->asked               ? s->asked(s, i, s->asker)
                                          : s->cls->rate(s, i);
  for (size_t i = 0; i < s->n && !cn_err(); i++) {
    cni_group_set_lr(s->opt, i, s->last[i]);
    if (s->cls->momentum) s->cls->momentum(s, i);
  }
  return cn_err();
}

/* Room for groups that the optimiser has got since the schedule was made; they began with the rate they have. */
static int check_groups(cn_schedule *s)
{
  if (cn_tracing()) /* before anything is counted */
    return cn_err_set(CN_ERR_CAPTURE, "%s: a schedule cannot step while a graph is captured: step it outside",
                      s->cls->name);
  size_t n = cn_optim_ngroups(s->opt);
  if (cn_err() || n == s->n) return cn_err();
  for (int i = 0; i < CNI_SCHEDULE_LISTS; i++)
    if (n < s->n || s->list[i].v)
      return cn_err_set(CN_ERR_VALUE, "%s: the optimiser has other groups than when the schedule was made",
                        s->cls->name);
  double *base = cn_alloc_zero((n + 1) * sizeof *base), *last = base ? cn_alloc_zero((n + 1) * sizeof *last) : NULL;
  if (!last) {
    cn_free(base, (n + 1) * sizeof *base);
    return cn_err();
  }
  memcpy(base, s->base, s->n * sizeof *base);
  memcpy(last, s->last, s->n * sizeof *last);
  for (size_t i = s->n; i < n; i++)
    if (!cni_group_extra(s->opt, i, "initial_lr", &base[i])) base[i] = cni_group_lr(s->opt, i);
  cn_free(s->base, (s->n + 1) * sizeof *s->base);
  cn_free(s->last, (s->n + 1) * sizeof *s->last);
  s->base = base, s->last = last, s->n = n;
  return cn_err();
}

static int step_in_run(void *schedule) { return cn_schedule_step(schedule); }

/* Does it, or a part of it, change other settings than rates? */
static bool cycles_momentum(const cn_schedule *s)
{
  const cn_value *momentum = s->args ? cn_args_get(s->args, "cycle_momentum") : NULL;
  bool cycles = momentum && momentum->u.i;
  for (size_t i = 0; i < s->nparts; i++) cycles |= cycles_momentum(s->parts[i]);
  return cycles;
}

/* Each run steps it where the captured code does. */
static int step_captured(cn_schedule *s)
{
  if (!cn_optim_cycles(s->opt) && cycles_momentum(s))
    return cn_err_set(CN_ERR_CAPTURE, "%s: changes the momentum, which is part of a captured step: step it outside",
                      s->cls->name);
  return cn_optim_call_for_rates(s->opt, step_in_run, s, NULL);
}

int cn_schedule_step(cn_schedule *s)
{
  if (cn_err()) return cn_err();
  if (!s) return cn_err_set(CN_ERR_TYPE, "schedule: it is missing (NULL)");
  if (s->cls->step_metric)
    return cn_err_set(CN_ERR_VALUE, "%s: steps by a metric; use cn_schedule_step_metric", s->cls->name);
  if (cn_tracing()) return step_captured(s);
  if (check_groups(s)) return cn_err();
  s->steps++;
  if (!s->cls->step) s->epoch++;
  int status = s->cls->step ? s->cls->step(s) : set_rates(s, false);
  s->initial = false;
  return status;
}

int cn_schedule_rewind(cn_schedule *s, const double *rates, cn_group_lr_fn fn, void *payload)
{
  if (cn_err()) return cn_err();
  if (!s || s->cls->step_metric || s->nparts)
    return cn_err_set(CN_ERR_VALUE, "schedule: one that steps by a metric, or has parts, cannot be asked");
  for (size_t i = 0; i < s->n; i++) cni_group_set_lr(s->opt, i, rates[i]);
  s->asked = fn;
  s->asker = payload;
  s->epoch--;
  s->steps = 0;
  s->initial = true;
  return s->cls->begin ? s->cls->begin(s) : cn_err();
}

double cn_schedule_next(cn_schedule *s, size_t group)
{
  return s && group < s->n && s->cls->rate ? s->cls->rate(s, group) : NAN;
}

int cni_schedule_jump(cn_schedule *s, int64_t epoch)
{
  s->epoch = epoch;
  return set_rates(s, true);
}

int cn_schedule_jump(cn_schedule *s, double epoch)
{
  if (cn_err()) return cn_err();
  if (!s) return cn_err_set(CN_ERR_TYPE, "schedule: it is missing (NULL)");
  if (s->cls->step_metric || (s->cls->step && !s->cls->jump))
    return cn_err_set(CN_ERR_VALUE, "%s: cannot go to an epoch; step it", s->cls->name);
  if (check_groups(s)) return cn_err();
  s->steps++;
  return s->cls->jump ? s->cls->jump(s, epoch) : cni_schedule_jump(s, (int64_t)epoch);
}

int cn_schedule_step_metric(cn_schedule *s, double metric)
{
  if (cn_err()) return cn_err();
  if (!s) return cn_err_set(CN_ERR_TYPE, "schedule: it is missing (NULL)");
  if (!s->cls->step_metric) return cn_schedule_step(s);
  return check_groups(s) ? cn_err() : s->cls->step_metric(s, metric);
}

const char *cn_schedule_name(const cn_schedule *s) { return s ? s->cls->name : NULL; }

double cn_schedule_lr(const cn_schedule *s, size_t group) { return s && group < s->n ? s->last[group] : NAN; }
double cn_schedule_base(const cn_schedule *s, size_t group) { return s && group < s->n ? s->base[group] : NAN; }
int64_t cn_schedule_epoch(const cn_schedule *s) { return s ? s->epoch : 0; }

/* ---- state ---- */

static int put_rates(cn_tree *to, const char *name, const double *rates, size_t n)
{
  cn_tree *list = cn_tree_list();
  int status = list ? CN_OK : cn_err();
  for (size_t i = 0; i < n && !status; i++) status = cn_tree_push(list, cn_tree_float(rates[i]));
  if (!status) return cn_tree_put(to, name, list);
  cn_tree_free(list);
  return status;
}

/* PyTorch counts them: {30: 1, 80: 1}. */
static cn_tree *counts_tree(const cn_value *v)
{
  cn_tree *out = cn_tree_dict();
  int status = out ? CN_OK : cn_err();
  for (int i = 0; i < v->n && !status; i++) {
    int64_t times = cn_tree_as_int(cn_tree_get_index(out, v->u.is[i]), 0);
    status = cn_tree_put_index(out, v->u.is[i], cn_tree_int(times + 1));
  }
  if (!status) return out;
  cn_tree_free(out);
  return NULL;
}

static int put_args(cn_tree *to, const cn_schedule *s)
{
  int status = CN_OK;
  for (int i = 0; s->args && i < cn_signature_size(s->signature) && !status; i++) {
    cn_op_param p;
    const cn_value *v = &cn_args_values(s->args)[i];
    if (cn_signature_param(&p, s->signature, i) || !strcmp(p.name, "last_epoch")) continue;
    if (v->tag == CN_V_INT) status = cn_tree_put(to, p.name, cn_tree_int(v->u.i));
    else if (v->tag == CN_V_FLOAT) status = cn_tree_put(to, p.name, cn_tree_float(v->u.f));
    else if (v->tag == CN_V_BOOL) status = cn_tree_put(to, p.name, cn_tree_bool(v->u.i != 0));
    else if (v->tag == CN_V_STR) status = cn_tree_put(to, p.name, cn_tree_str(v->u.s));
    else if (v->tag == CN_V_INTS) status = cn_tree_put(to, p.name, counts_tree(v));
  }
  return status;
}

static int put_parts(cn_tree *to, cn_schedule *s)
{
  if (!s->nparts) return CN_OK;
  cn_tree *list = cn_tree_list();
  int status = list ? CN_OK : cn_err();
  for (size_t i = 0; i < s->nparts && !status; i++) status = cn_tree_push(list, cn_schedule_state(s->parts[i]));
  if (!status) return cn_tree_put(to, "_schedulers", list);
  cn_tree_free(list);
  return status;
}

cn_tree *cn_schedule_state(cn_schedule *s)
{
  cn_tree *out = cn_err() || !s ? NULL : cn_tree_dict();
  if (!out) return NULL;
  int status = put_args(out, s);
  if (!status) status = put_rates(out, "base_lrs", s->base, s->n);
  if (!status) status = cn_tree_put(out, "last_epoch", cn_tree_int(s->epoch));
  if (!status) status = cn_tree_put(out, "_step_count", cn_tree_int(s->steps));
  if (!status) status = put_rates(out, "_last_lr", s->last, s->n);
  for (int i = 0; i < CNI_SCHEDULE_NUMBERS && s->cls->numbers[i] && !status; i++)
    status = cn_tree_put(out, s->cls->numbers[i], cn_tree_float(s->number[i]));
  if (!status) status = put_parts(out, s);
  if (!status) return out;
  cn_tree_free(out);
  return NULL;
}

static void read_rates(double *to, size_t n, const cn_tree *list)
{
  for (size_t i = 0; i < n && i < cn_tree_size(list); i++) to[i] = cn_tree_as_float(cn_tree_at(list, i), to[i]);
}

/* Numbers and words among the arguments. */
static int read_args(cn_schedule *s, const cn_tree *state)
{
  cn_args *args = s->args ? cn_args_copy(s->args) : NULL;
  int status = s->args && !args ? cn_err() : CN_OK;
  for (int i = 0; args && i < cn_signature_size(s->signature) && !status; i++) {
    cn_op_param p;
    if (cn_signature_param(&p, s->signature, i)) continue;
    const cn_tree *t = cn_tree_get(state, p.name);
    cn_tree_kind kind = cn_tree_kind_of(t);
    if (kind == CN_TREE_STR) status = cn_args_set(&args, p.name, cn_v_str(cn_tree_as_str(t, "")));
    else if (kind == CN_TREE_BOOL) status = cn_args_set(&args, p.name, cn_v_bool(cn_tree_as_bool(t, false)));
    else if (kind == CN_TREE_INT || kind == CN_TREE_FLOAT)
      status = cn_args_set(&args, p.name, !strncmp(p.type, "int", 3) ? cn_v_int(cn_tree_as_int(t, 0))
                                                                    : cn_v_float(cn_tree_as_float(t, 0)));
  }
  if (status || !args) {
    cn_args_free(args);
    return status;
  }
  cn_args_free(s->args);
  s->args = args;
  return CN_OK;
}

int cn_schedule_load(cn_schedule *s, const cn_tree *state)
{
  if (cn_err()) return cn_err();
  const cn_tree *parts = cn_tree_get(state, "_schedulers"), *rates = cn_tree_get(state, "_last_lr");
  if (!s || cn_tree_kind_of(state) != CN_TREE_DICT)
    return cn_err_set(CN_ERR_TYPE, "schedule: it, or the state to load, is missing");
  if (cn_tree_size(parts) != s->nparts || (rates && cn_tree_size(rates) != s->n))
    return cn_err_set(CN_ERR_VALUE, "%s: the state is of a schedule with other parts or groups", s->cls->name);
  int status = read_args(s, state);
  for (size_t i = 0; i < s->nparts && !status; i++) status = cn_schedule_load(s->parts[i], cn_tree_at(parts, i));
  if (status) return status;
  read_rates(s->base, s->n, cn_tree_get(state, "base_lrs"));
  read_rates(s->last, s->n, rates);
  s->epoch = cn_tree_as_int(cn_tree_get(state, "last_epoch"), s->epoch);
  s->steps = cn_tree_as_int(cn_tree_get(state, "_step_count"), s->steps);
  for (int i = 0; i < CNI_SCHEDULE_NUMBERS && s->cls->numbers[i]; i++)
    s->number[i] = cn_tree_as_float(cn_tree_get(state, s->cls->numbers[i]), s->number[i]);
  return CN_OK;
}
