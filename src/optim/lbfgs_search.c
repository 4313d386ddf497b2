/* lbfgs_search.c: the line search of LBFGS: a point where the loss has fallen enough and the slope has flattened
 * enough (the strong Wolfe conditions), by cubic interpolation within a bracket.
 *
 * Place in the flow: lbfgs.c -> cni_strong_wolfe -> the closure. Invariant: between evaluations the parameters are
 * where the line begins. */
#include <math.h>

#include "lbfgs.h"
#include "scalar.h"

static const double enough_fall = 1e-4, enough_flat = 0.9;

/* ---- evaluating ---- */

static cn_tensor *flat_gradient(cn_optim *opt)
{
  const cni_group *g = &opt->groups[0];
  cn_tensor **parts = cn_alloc((g->n + 1) * sizeof *parts), *flat = NULL;
  if (!parts) return NULL;
  bool whole = true;
  for (size_t i = 0; i < g->n && whole; i++) {
    cn_tensor *p = g->v[i].param, *grad = cn_grad_of(p);
    parts[i] = grad ? cn_reshape(grad, CN_SHAPE(-1)) : cn_zeros(CN_SHAPE(cn_numel(p)), .dtype = cn_dtype_of(p),
                                                                .device = cn_device_of(p));
    whole = parts[i] != NULL;
  }
  if (whole) flat = cn_cat(parts, g->n, .dim = 0);
  cn_free(parts, (g->n + 1) * sizeof *parts);
  return flat;
}

int cni_take_gradient(cn_optim *opt, cn_tensor *value, bool maximize, double *loss, cn_tensor **grad)
{
  cn_scope *s = cn_scope_begin();
  *loss = cn_item(value);
  cn_tensor *flat = cn_err() ? NULL : flat_gradient(opt);
  if (maximize && flat) {
    *loss = -*loss;
    flat = cn_neg(flat);
  }
  int status = cni_own(grad, flat);
  cn_scope_end(s);
  return status;
}

int cni_evaluate(cn_optim *opt, cn_closure fn, void *payload, bool maximize, double *loss, cn_tensor **grad)
{
  cn_scope *s = cn_scope_begin();
  int saved = cn_enable_grad_begin();
  cn_tensor *value = fn(payload);
  cn_enable_grad_end(saved);
  if (!value && !cn_err()) cn_err_set(CN_ERR_VALUE, "LBFGS: the function to minimise returned NULL");
  int status = value ? cni_take_gradient(opt, value, maximize, loss, grad) : cn_err();
  cn_scope_end(s);
  return status;
}

int cni_move(cn_optim *opt, double t, cn_tensor *d)
{
  const cni_group *g = &opt->groups[0];
  int64_t at = 0;
  if (t == 0) return CN_OK;
  cn_scope *s = cn_scope_begin();
  for (size_t i = 0; i < g->n && !cn_err(); i++) {
    cn_tensor *p = g->v[i].param;
    cn_tensor *part = cn_reshape(cn_narrow(d, 0, at, cn_numel(p)), cn_shape(p), (size_t)cn_ndim(p));
    at += cn_numel(p);
    if (part) cn_add_(p, part, .alpha = t);
  }
  cn_scope_end(s);
  return cn_err();
}

int cni_line_try(const cni_line *line, cni_point *p)
{
  const cni_group *g = &line->opt->groups[0];
  int status = cni_move(line->opt, p->t, line->d);
  if (!status) status = cni_evaluate(line->opt, line->fn, line->payload, line->maximize, &p->loss, &p->grad);
  for (size_t i = 0; i < g->n && !status; i++)
    if (!cn_copy_(g->v[i].param, line->start[i])) status = cn_err();
  if (status) return status;
  cn_scope *s = cn_scope_begin();
  cn_tensor *slope = cn_dot(p->grad, line->d);
  p->slope = slope ? cn_item(slope) : 0;
  cn_scope_end(s);
  return cn_err();
}

/* ---- points ---- */

/* The lowest place of the cubic through two points with their slopes, within bounds. */
static double interpolate(const cni_point *a, const cni_point *b, double low, double high)
{
  double d1 = a->slope + b->slope - 3 * (a->loss - b->loss) / (a->t - b->t), square = d1 * d1 - a->slope * b->slope;
  if (!(square >= 0)) return (low + high) / 2;
  double d2 = sqrt(square), at;
  if (a->t <= b->t) at = b->t - (b->t - a->t) * ((b->slope + d2 - d1) / (b->slope - a->slope + 2 * d2));
  else at = a->t - (a->t - b->t) * ((a->slope + d2 - d1) / (a->slope - b->slope + 2 * d2));
  return fmin(fmax(at, low), high);
}

static int copy_point(cni_point *to, const cni_point *from)
{
  cn_tensor *had = to->grad;
  *to = *from;
  to->grad = cn_keep(from->grad);
  cn_release(had);
  return CN_OK;
}

typedef struct search {
  const cni_line *line;
  const cni_point *from;
  cni_point bracket[2], now;
  bool done, single; /* single: the bracket is one point */
  int64_t tries, most, *evals;
} search;

static int try_now(search *s)
{
  int status = cni_line_try(s->line, &s->now);
  ++*s->evals;
  return status;
}

static bool too_high(const search *s)
{
  return s->now.loss > s->from->loss + enough_fall * s->now.t * s->from->slope;
}

static bool flat_enough(const search *s) { return fabs(s->now.slope) <= -enough_flat * s->from->slope; }

/* ---- the two phases ---- */

/* Goes on, farther each time, until a lowest place must lie behind. */
static int find_bracket(search *s)
{
  cni_point before = {0};
  copy_point(&before, s->from);
  int status = try_now(s);
  for (s->tries = 0; !status && s->tries < s->most; s->tries++) {
    bool rises = too_high(s) || (s->tries > 1 && s->now.loss >= before.loss);
    if (!rises && flat_enough(s)) {
      copy_point(&s->bracket[0], &s->now);
      s->done = s->single = true;
      break;
    }
    if (rises || s->now.slope >= 0) {
      copy_point(&s->bracket[0], &before);
      copy_point(&s->bracket[1], &s->now);
      break;
    }
    double t = s->now.t, next = interpolate(&before, &s->now, t + 0.01 * (t - before.t), t * 10);
    copy_point(&before, &s->now);
    s->now.t = next;
    status = try_now(s);
  }
  if (!status && s->tries == s->most) {
    copy_point(&s->bracket[0], s->from);
    copy_point(&s->bracket[1], &s->now);
  }
  cn_release(before.grad);
  return status;
}

/* Where to try next in the bracket; not too near its ends twice in a row. */
static double next_try(const search *s, bool *stuck)
{
  const cni_point *b = s->bracket;
  double low = fmin(b[0].t, b[1].t), high = fmax(b[0].t, b[1].t), near = 0.1 * (high - low);
  double t = interpolate(&b[0], &b[1], low, high);
  if (fmin(high - t, t - low) >= near) *stuck = false;
  else if (*stuck || t >= high || t <= low) {
    t = fabs(t - high) < fabs(t - low) ? high - near : low + near;
    *stuck = false;
  } else *stuck = true;
  return t;
}

static int narrow_bracket(search *s, double tolerance, double d_max)
{
  cni_point *b = s->bracket;
  bool stuck = false;
  int low = b[0].loss <= b[1].loss ? 0 : 1, status = CN_OK;
  while (!status && !s->done && s->tries < s->most && fabs(b[1].t - b[0].t) * d_max >= tolerance) {
    s->now.t = next_try(s, &stuck);
    if ((status = try_now(s))) break;
    s->tries++;
    if (too_high(s) || s->now.loss >= b[low].loss) {
      copy_point(&b[1 - low], &s->now);
      low = b[0].loss <= b[1].loss ? 0 : 1;
      continue;
    }
    if (flat_enough(s)) s->done = true;
    else if (s->now.slope * (b[1 - low].t - b[low].t) >= 0) copy_point(&b[1 - low], &b[low]);
    copy_point(&b[low], &s->now);
  }
  if (low) copy_point(&b[0], &b[1]); /* the result */
  return status;
}

int cni_strong_wolfe(const cni_line *line, cni_point *best, const cni_point *from, double tolerance, int64_t most,
                     int64_t *evals)
{
  search s = {.line = line, .from = from, .now = {.t = best->t}, .most = most, .evals = evals};
  cn_scope *scope = cn_scope_begin();
  cn_tensor *size = cn_max(cn_abs(line->d));
  double d_max = size ? cn_item(size) : 0;
  cn_scope_end(scope);
  int status = cn_err() ? cn_err() : find_bracket(&s);
  if (!status && !s.single) status = narrow_bracket(&s, tolerance, d_max);
  if (!status) copy_point(best, &s.bracket[0]);
  cn_release(s.now.grad);
  cn_release(s.bracket[0].grad);
  cn_release(s.bracket[1].grad);
  return status;
}
