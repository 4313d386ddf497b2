/* lbfgs.c: LBFGS: quasi-Newton steps from a history of gradients, over all parameters at once, with an optional line
 * search (lbfgs_search.c).
 *
 * Place in the flow: cn_optim_step_closure -> minimise. Invariant: what survives a step is in the optimiser's data and
 * owned by it. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "lbfgs.h"
#include "scalar.h"

typedef struct pair {
  cn_tensor *y, *s, *ro; /* difference of gradients, step, 1 / (y s) */
} pair;

typedef struct data {
  int64_t evals, iters;
  cn_tensor *d, *before, *h_diag; /* direction, last flat gradient, scale of the first guess (NULL: 1) */
  double t, loss_before;
  pair *old;
  size_t n, cap;
} data;

static void pair_drop(pair *p)
{
  cn_release(p->y);
  cn_release(p->s);
  cn_release(p->ro);
}

static void data_free(void *of)
{
  data *b = of;
  cn_release(b->d);
  cn_release(b->before);
  cn_release(b->h_diag);
  for (size_t i = 0; i < b->n; i++) pair_drop(&b->old[i]);
  cn_free(b->old, b->cap * sizeof *b->old);
  memset(b, 0, sizeof *b);
}

static int check(const cn_value *values)
{
  cni_lbfgs_settings a = cni_lbfgs_settings_of(values);
  if (cni_at_least("LBFGS", "history_size", (double)a.history_size, 1)) return cn_err();
  if (!a.line_search_fn || !strcmp(a.line_search_fn, "strong_wolfe")) return CN_OK;
  return cn_err_set(CN_ERR_VALUE, "LBFGS: line_search_fn must be 'strong_wolfe', not '%s'", a.line_search_fn);
}

static int64_t most_evals(const cni_lbfgs_settings *a)
{
  return a->max_eval == CN_NONE ? a->max_iter * 5 / 4 : a->max_eval;
}

/* ---- the direction ---- */

static int remember(data *b, cn_tensor *y, cn_tensor *s, cn_tensor *ys, int64_t most)
{
  if (b->n && (int64_t)b->n >= most) {
    pair_drop(&b->old[0]);
    memmove(b->old, b->old + 1, --b->n * sizeof *b->old);
  }
  cn_tensor *ro = cn_reciprocal(ys), *scale = cn_true_divide(ys, cn_dot(y, y));
  if (!ro || !scale || cn_grow((void **)&b->old, &b->cap, b->n + 1, sizeof *b->old)) return cn_err();
  b->old[b->n++] = (pair){cn_keep(y), cn_keep(s), cn_keep(ro)};
  return cni_own(&b->h_diag, scale);
}

/* x + k y; k may be 0, which as an option would mean its default. */
static cn_tensor *moved(cn_tensor *x, cn_tensor *y, double k) { return k == 0 ? x : cn_add(x, y, .alpha = k); }

/* The inverse Hessian, as the history has it, times minus the gradient. */
static cn_tensor *newton_direction(data *b, cn_tensor *grad)
{
  double *al = cn_alloc((b->n + 1) * sizeof *al);
  cn_tensor *q = al ? cn_neg(grad) : NULL;
  for (size_t i = b->n; i-- > 0 && q;) {
    cn_tensor *k = cn_mul(cn_dot(b->old[i].s, q), b->old[i].ro);
    al[i] = k ? cn_item(k) : 0;
    q = k ? moved(q, b->old[i].y, -al[i]) : NULL;
  }
  if (q && b->h_diag) q = cn_mul(q, b->h_diag);
  for (size_t i = 0; i < b->n && q; i++) {
    cn_tensor *k = cn_mul(cn_dot(b->old[i].y, q), b->old[i].ro);
    q = k ? moved(q, b->old[i].s, al[i] - cn_item(k)) : NULL;
  }
  cn_free(al, (b->n + 1) * sizeof *al);
  return q;
}

static int find_direction(data *b, cn_tensor *grad, int64_t history)
{
  cn_scope *scope = cn_scope_begin();
  int status = CN_OK;
  if (b->iters == 1) status = cni_own(&b->d, cn_neg(grad));
  else {
    cn_tensor *y = cn_sub(grad, b->before), *s = b->t == 0 ? cn_zeros_like(b->d) : cn_mul(b->d, cn_num(b->t));
    cn_tensor *ys = y && s ? cn_dot(y, s) : NULL;
    if (!ys) status = cn_err();
    else if (cn_item(ys) > 1e-10) status = remember(b, y, s, ys, history);
    if (!status) status = cni_own(&b->d, newton_direction(b, grad));
  }
  if (!status) status = cni_own(&b->before, grad);
  cn_scope_end(scope);
  return status;
}

/* ---- steps ---- */

typedef struct run {
  cn_optim *opt;
  data *b;
  cni_lbfgs_settings a;
  cn_closure fn;
  void *payload;
  cn_tensor *grad; /* flat; owned */
  double loss;
  int64_t evals;
  bool optimal;
} run;

static double item(cn_tensor *x) { return x ? cn_item(x) : 0; }
static double largest(cn_tensor *x)
{
  cn_scope *s = cn_scope_begin();
  double most = x ? item(cn_max(cn_abs(x))) : 0;
  cn_scope_end(s);
  return most;
}

static double sum_and_slope(const run *r, double *slope)
{
  cn_scope *s = cn_scope_begin();
  double sum = item(cn_sum(cn_abs(r->grad)));
  *slope = item(cn_dot(r->grad, r->b->d));
  cn_scope_end(s);
  return sum;
}

static int search_line(run *r, double slope)
{
  const cni_group *g = &r->opt->groups[0];
  cni_line line = {r->opt, r->fn, r->payload, r->b->d, NULL, r->a.maximize};
  cni_point from = {0, r->loss, slope, r->grad}, best = {.t = r->b->t};
  int64_t evals = 0;
  cn_scope *s = cn_scope_begin();
  int status = (line.start = cn_alloc((g->n + 1) * sizeof *line.start)) ? CN_OK : cn_err();
  for (size_t i = 0; i < g->n && !status; i++)
    if (!(line.start[i] = cn_clone(g->v[i].param))) status = cn_err();
  if (!status)
    status = cni_strong_wolfe(&line, &best, &from, 1e-9, most_evals(&r->a) - r->evals, &evals);
  cn_free(line.start, (g->n + 1) * sizeof *line.start);
  cn_scope_end(s);
  if (!status) {
    cni_own(&r->grad, best.grad);
    r->loss = best.loss;
    r->b->t = best.t;
    status = cni_move(r->opt, best.t, r->b->d);
  }
  cn_release(best.grad);
  r->evals += evals;
  r->b->evals += evals;
  return status;
}

static int plain_step(run *r, bool last)
{
  int status = cni_move(r->opt, r->b->t, r->b->d);
  if (status || last) return status; /* nothing looks at the loss any more */
  status = cni_evaluate(r->opt, r->fn, r->payload, r->a.maximize, &r->loss, &r->grad);
  r->evals++;
  r->b->evals++;
  return status;
}

/* One iteration; returns 1 to go on, 0 at the end, or an error. */
static int iterate(run *r, bool last, double lr)
{
  data *b = r->b;
  double tolerance = r->a.tolerance_change, slope;
  b->iters++;
  int status = find_direction(b, r->grad, r->a.history_size);
  if (status) return status;
  b->loss_before = r->loss;
  double sum = sum_and_slope(r, &slope);
  b->t = b->iters == 1 ? fmin(1, 1 / sum) * lr : lr;
  if (cn_err()) return cn_err();
  if (slope > -tolerance) return 0;
  status = r->a.line_search_fn ? search_line(r, slope) : plain_step(r, last);
  if (status) return status;
  r->optimal = largest(r->grad) <= r->a.tolerance_grad;
  if (last || r->evals >= most_evals(&r->a) || r->optimal) return cn_err();
  if (largest(b->d) * fabs(b->t) <= tolerance) return cn_err();
  return cn_err() ? cn_err() : fabs(r->loss - b->loss_before) >= tolerance;
}

static cn_tensor *minimise(cn_optim *opt, cn_closure fn, void *payload)
{
  int saved = cn_enable_grad_begin();
  cn_tensor *first = fn(payload);
  cn_enable_grad_end(saved);
  if (!first || !opt->ngroups || !opt->groups[0].n) return first;
  run r = {.opt = opt, .b = opt->data, .fn = fn, .payload = payload};
  r.a = cni_lbfgs_settings_of(cn_args_values(opt->groups[0].args));
  double lr = cn_item(opt->groups[0].lr);
  int status = cni_take_gradient(opt, first, r.a.maximize, &r.loss, &r.grad);
  r.evals = 1;
  r.b->evals++;
  int64_t most = r.a.max_iter;
  if (!status && largest(r.grad) > r.a.tolerance_grad)
    for (int64_t i = 1, more = 1; i <= most && more == 1; i++) more = status = iterate(&r, i == most, lr);
  cn_release(r.grad);
  return status < 0 || cn_err() ? NULL : first;
}

/* ---- state: PyTorch keeps it with the first parameter ---- */

static int put_tensor(cn_tree *to, const char *name, cn_tensor *t)
{
  return cn_tree_put(to, name, t ? cn_tree_tensor(t) : cn_tree_none());
}

static int put_history(cn_tree *to, const data *b, const char *name, size_t offset)
{
  cn_tree *list = cn_tree_list();
  int status = list ? CN_OK : cn_err();
  for (size_t i = 0; i < b->n && !status; i++) {
    cn_tensor *t = *(cn_tensor **)(void *)((char *)&b->old[i] + offset);
    status = cn_tree_push(list, cn_tree_tensor(t));
  }
  if (!status) return cn_tree_put(to, name, list);
  cn_tree_free(list);
  return status;
}

static int save(cn_optim *opt, cn_tree *state)
{
  const data *b = opt->data;
  if (!b->evals) return CN_OK;
  cn_tree *to = cn_tree_dict();
  int status = to ? CN_OK : cn_err();
  if (!status) status = cn_tree_put(to, "func_evals", cn_tree_int(b->evals));
  if (!status) status = cn_tree_put(to, "n_iter", cn_tree_int(b->iters));
  if (!status && b->iters) {
    status = put_tensor(to, "d", b->d);
    if (!status) status = cn_tree_put(to, "t", cn_tree_float(b->t));
    if (!status) status = put_history(to, b, "old_dirs", offsetof(pair, y));
    if (!status) status = put_history(to, b, "old_stps", offsetof(pair, s));
    if (!status) status = put_history(to, b, "ro", offsetof(pair, ro));
    if (!status) status = b->h_diag ? put_tensor(to, "H_diag", b->h_diag) : cn_tree_put(to, "H_diag", cn_tree_int(1));
    if (!status) status = put_tensor(to, "prev_flat_grad", b->before);
    if (!status) status = cn_tree_put(to, "prev_loss", cn_tree_float(b->loss_before));
  }
  if (!status) return cn_tree_put_index(state, 0, to);
  cn_tree_free(to);
  return status;
}

/* A copy of a tensor of the state; NULL where there is none. */
static cn_tensor *take(const cn_tree *t)
{
  cn_tensor *v = cn_tree_as_tensor(t);
  return v ? cn_keep(cn_clone(v)) : NULL;
}

static double number(const cn_tree *t)
{
  cn_tensor *v = cn_tree_as_tensor(t);
  return v ? cn_item(v) : cn_tree_as_float(t, 0);
}

static int load(cn_optim *opt, const cn_tree *state)
{
  const cn_tree *from = cn_tree_get_index(state, 0), *y = cn_tree_get(from, "old_dirs");
  const cn_tree *s = cn_tree_get(from, "old_stps"), *ro = cn_tree_get(from, "ro");
  data b = {.evals = cn_tree_as_int(cn_tree_get(from, "func_evals"), 0),
            .iters = cn_tree_as_int(cn_tree_get(from, "n_iter"), 0), .d = take(cn_tree_get(from, "d")),
            .before = take(cn_tree_get(from, "prev_flat_grad")), .h_diag = take(cn_tree_get(from, "H_diag")),
            .t = number(cn_tree_get(from, "t")), .loss_before = number(cn_tree_get(from, "prev_loss"))};
  size_t n = cn_tree_size(y);
  bool fits = cn_tree_size(s) == n && cn_tree_size(ro) == n && (!b.iters || (b.d && b.before));
  int status = cn_err() ? cn_err() : fits ? cn_grow((void **)&b.old, &b.cap, n, sizeof *b.old) : CN_ERR_VALUE;
  for (size_t i = 0; i < n && !status; i++) {
    pair *p = &b.old[b.n++];
    *p = (pair){take(cn_tree_at(y, i)), take(cn_tree_at(s, i)), take(cn_tree_at(ro, i))};
    if (!p->y || !p->s || !p->ro) status = cn_err() ? cn_err() : CN_ERR_VALUE;
  }
  if (status) {
    data_free(&b);
    return cn_err() ? cn_err() : cn_err_set(CN_ERR_VALUE, "LBFGS: the state's history is not whole");
  }
  data_free(opt->data);
  *(data *)opt->data = b;
  return CN_OK;
}

/* PyTorch computes max_eval when it is made, and reads a number from a state. */
static cn_tree *left_out(const cn_value *a, const char *name)
{
  cni_lbfgs_settings s = cni_lbfgs_settings_of(a);
  return !strcmp(name, "max_eval") ? cn_tree_int(most_evals(&s)) : cn_tree_none();
}

static const cni_optim_class lbfgs = {
  .sig = "LBFGS(float lr=1, int max_iter=20, int? max_eval=None, float tolerance_grad=1e-07, "
         "float tolerance_change=1e-09, int history_size=100, str? line_search_fn=None, bool maximize=False) "
         "-> Optimizer ; lbfgs",
  .doc = "Limited-memory quasi-Newton method, stepped by cn_optim_step_closure; line_search_fn may be 'strong_wolfe'.",
  .keys = "lr max_iter max_eval tolerance_grad tolerance_change history_size line_search_fn maximize",
  .not_negative = "lr",
  .check = check,
  .left_out = left_out,
  .minimise = minimise,
  .data_size = sizeof(data),
  .free = data_free,
  .save = save,
  .load = load,
};

const cni_optim_class *const cni_optim_lbfgs_classes[] = {&lbfgs, NULL};
