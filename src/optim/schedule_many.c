/* schedule_many.c: rates by a function of the program's own, and schedules made of others: together, or one after the
 * other. */
#include <string.h>

#include "schedule.h"

/* ---- by a function ---- */

static double factor_of(cn_schedule *s, size_t g)
{
  return s->group_fn ? s->group_fn(s, g, s->payload) : s->fn(s->epoch, s->payload);
}

static double lambda_rate(cn_schedule *s, size_t g) { return s->base[g] * factor_of(s, g); }
static const cni_schedule_class lambda = {.name = "LambdaLR", .rate = lambda_rate};

static double multiplicative_rate(cn_schedule *s, size_t g)
{
  double lr = cni_group_lr(s->opt, g);
  return s->initial ? lr : lr * factor_of(s, g);
}
static const cni_schedule_class multiplicative = {.name = "MultiplicativeLR", .rate = multiplicative_rate};

static const cni_schedule_class own = {.name = "LRScheduler", .rate = factor_of};

static cn_schedule *by_function(const cni_schedule_class *cls, cn_optim *opt, const cn_schedule *how, int64_t epoch)
{
  cn_schedule *s = cni_schedule_new(cls, opt);
  if (!s) return NULL;
  s->fn = how->fn;
  s->group_fn = how->group_fn;
  s->payload = how->payload;
  if (s->fn || s->group_fn) return cni_schedule_begin(s, epoch);
  cn_err_set(CN_ERR_TYPE, "%s: the function is missing (NULL)", cls->name);
  cn_schedule_free(s);
  return NULL;
}

cn_schedule *cn_lr_lambda(cn_optim *opt, cn_lr_fn fn, void *payload)
{
  return by_function(&lambda, opt, &(cn_schedule){.fn = fn, .payload = payload}, -1);
}

cn_schedule *cn_lr_multiplicative(cn_optim *opt, cn_lr_fn fn, void *payload)
{
  return by_function(&multiplicative, opt, &(cn_schedule){.fn = fn, .payload = payload}, -1);
}

cn_schedule *cn_lr_by(const char *kind, cn_optim *opt, cn_group_lr_fn fn, void *payload, int64_t last_epoch)
{
  static const cni_schedule_class *const kinds[] = {&lambda, &multiplicative, &own};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (kind && !strcmp(kind, kinds[i]->name))
      return by_function(kinds[i], opt, &(cn_schedule){.group_fn = fn, .payload = payload}, last_epoch);
  if (!cn_err()) cn_err_set(CN_ERR_VALUE, "schedule: '%s' is none by a function", kind ? kind : "(NULL)");
  return NULL;
}

/* ---- of others ---- */

static int check_parts(const char *who, cn_optim *opt, cn_schedule *const *parts, size_t n)
{
  if (!n) return cn_err_set(CN_ERR_VALUE, "%s: needs at least one schedule", who);
  for (size_t i = 0; i < n; i++) {
    if (!parts[i]) return cn_err() ? cn_err() : cn_err_set(CN_ERR_TYPE, "%s: schedule %zu is missing (NULL)", who, i);
    if (parts[i]->cls->step_metric)
      return cn_err_set(CN_ERR_VALUE, "%s: %s needs a metric and cannot be a part", who, parts[i]->cls->name);
    if (parts[i]->opt != opt)
      return cn_err_set(CN_ERR_VALUE, "%s: its schedules belong to different optimisers", who);
  }
  return CN_OK;
}

/* Takes the parts over, also on failure. */
static cn_schedule *of_parts(const cni_schedule_class *cls, cn_optim *opt, cn_schedule *const *parts, size_t n)
{
  cn_schedule *s = !cn_err() && !check_parts(cls->name, opt, parts, n) ? cni_schedule_new(cls, opt) : NULL;
  if (s) {
    s->parts = cn_alloc_zero(n * sizeof *s->parts);
    s->milestones = s->parts ? cn_alloc_zero(n * sizeof *s->milestones) : NULL;
    if (!s->milestones) {
      cn_free(s->parts, n * sizeof *s->parts);
      s->parts = NULL;
      cn_schedule_free(s);
      s = NULL;
    }
  }
  if (!s) {
    for (size_t i = 0; i < n; i++) cn_schedule_free(parts[i]);
    return NULL;
  }
  memcpy(s->parts, parts, n * sizeof *s->parts);
  s->nparts = n;
  return s;
}

static int chained_step(cn_schedule *s)
{
  int status = CN_OK;
  s->epoch++;
  for (size_t i = 0; i < s->nparts && !status; i++) status = cn_schedule_step(s->parts[i]);
  return status ? status : cni_schedule_note(s);
}
static const cni_schedule_class chained = {.name = "ChainedScheduler", .step = chained_step};

cn_schedule *cn_lr_chained(cn_schedule *const *schedules, size_t n)
{
  cn_schedule *s = of_parts(&chained, n && schedules[0] ? schedules[0]->opt : NULL, schedules, n);
  if (!s || !cni_schedule_note(s)) return s;
  cn_schedule_free(s);
  return NULL;
}

/* Which part this epoch belongs to. */
static size_t part_of(const cn_schedule *s)
{
  size_t i = 0;
  while (i + 1 < s->nparts && s->milestones[i] <= s->epoch) i++;
  return i;
}

static int note_part(cn_schedule *s, const cn_schedule *part)
{
  memcpy(s->last, part->last, s->n * sizeof *s->last);
  return CN_OK;
}

static int sequential_step(cn_schedule *s)
{
  s->epoch++;
  size_t i = part_of(s);
  cn_schedule *part = s->parts[i];
  bool begins = i > 0 && s->milestones[i - 1] == s->epoch;
  int status = begins ? cni_schedule_jump(part, 0) : cn_schedule_step(part);
  return status ? status : note_part(s, part);
}
static const cni_schedule_class sequential = {.name = "SequentialLR", .step = sequential_step};

/* Parts took their first step when they were made: back before it. */
static void undo(cn_schedule *s)
{
  if (!s->nparts) s->epoch--;
  for (size_t i = 0; i < s->nparts; i++) undo(s->parts[i]);
}

cn_schedule *cn_lr_sequential(cn_optim *opt, cn_schedule *const *schedules, size_t n, const int64_t *milestones)
{
  double lr;
  cn_schedule *s = of_parts(&sequential, opt, schedules, n);
  if (!s) return NULL;
  int status = CN_OK;
  if (n > 1 && !milestones) status = cn_err_set(CN_ERR_TYPE, "SequentialLR: the milestones are missing (NULL)");
  for (size_t i = 0; i + 1 < n && !status; i++) s->milestones[i] = milestones[i];
  for (size_t g = 0; g < s->n && !status; g++)
    if (cni_group_extra(opt, g, "initial_lr", &lr)) status = cni_group_set_lr(opt, g, lr);
  if (!status) {
    undo(s);
    s->epoch = 0;
    cn_schedule *first = s->parts[part_of(s)];
    status = cni_schedule_first(first);
    if (!status) status = note_part(s, first);
  }
  if (!status) return s;
  cn_schedule_free(s);
  return NULL;
}
