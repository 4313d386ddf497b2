/* schedule.h: what the files of schedules share: how a schedule is described, and what it keeps.
 *
 * Place in the flow: class tables (schedule_plain.c, _cycle.c, _plateau.c, _many.c) give the next rate of a group;
 * schedule.c steps, saves and loads. Invariant: rates are those of PyTorch's chainable forms: made from the rate that a
 * group has, so that schedules can be combined. */
#ifndef CNI_OPTIM_SCHEDULE_H
#define CNI_OPTIM_SCHEDULE_H

#include <string.h>

#include "optim.h"

enum { CNI_SCHEDULE_NUMBERS = 4, CNI_SCHEDULE_LISTS = 4 };

typedef struct cni_schedule_class {
  const char *name;
  const char *sig, *doc; /* sig NULL: made by a function of its own */
  const char *numbers[CNI_SCHEDULE_NUMBERS]; /* names of what it keeps besides epochs and rates */
  int (*begin)(cn_schedule *s);                     /* checks arguments, prepares groups */
  double (*rate)(cn_schedule *s, size_t group);     /* of s->epoch */
  double (*closed)(cn_schedule *s, size_t group);   /* the same, from the epoch alone; NULL: rate */
  void (*momentum)(cn_schedule *s, size_t group);   /* ... and what else it moves */
  int (*step)(cn_schedule *s);                      /* instead of the usual step */
  int (*jump)(cn_schedule *s, double epoch);        /* instead of the usual jump */
  int (*step_metric)(cn_schedule *s, double metric);
} cni_schedule_class;

struct cn_schedule {
  const cni_schedule_class *cls;
  const cn_signature *signature; /* NULL where the class has none */
  cn_args *args;
  cn_optim *opt;
  int64_t epoch, steps;
  bool initial;       /* the step that its making takes */
  double *base, *last; /* rates by group: at the beginning, and those set last */
  size_t n;
  double number[CNI_SCHEDULE_NUMBERS];
  cn_lr_fn fn;
  cn_group_lr_fn group_fn; /* instead of fn */
  cn_group_lr_fn asked;    /* gives the rates in the place of cls->rate; may be NULL */
  void *asker;
  cn_lr_scale_fn scale_fn; /* CyclicLR; may be NULL */
  bool scale_by_epoch;
  void *payload;
  cn_lr_list list[CNI_SCHEDULE_LISTS]; /* owned: settings with a value for each group */
  cn_schedule **parts; /* owned */
  int64_t *milestones; /* nparts - 1 of them */
  size_t nparts;
};

#define CNI_SCHEDULE_FAMILIES(X) X(plain) X(cycle) X(plateau)
#define CNI_SCHEDULE_DECLARE(name) extern const cni_schedule_class *const cni_schedule_##name##_classes[];
CNI_SCHEDULE_FAMILIES(CNI_SCHEDULE_DECLARE)

/* Without arguments yet. NULL with the error set. */
cn_schedule *cni_schedule_new(const cni_schedule_class *cls, cn_optim *opt);
/* Begins: initial rates, base rates and the first step. Frees s and returns NULL on failure. */
cn_schedule *cni_schedule_begin(cn_schedule *s, int64_t last_epoch);
int cni_schedule_first(cn_schedule *s); /* the step that its making takes, counted anew */
int cni_schedule_jump(cn_schedule *s, int64_t epoch); /* to an epoch, by the closed form if there is one */
int cni_schedule_note(cn_schedule *s);  /* s->last: the rates that groups have */
double cni_group_lr(const cn_optim *opt, size_t group);

static inline const cn_value *cni_schedule_arg(const cn_schedule *s, const char *name)
{
  return cn_args_get(s->args, name);
}
/* Is the argument this word? And the error for one that it cannot be. */
static inline bool cni_schedule_is(const cn_schedule *s, const char *name, const char *word)
{
  return !strcmp(cni_schedule_arg(s, name)->u.s, word);
}
static inline int cni_schedule_bad_word(const cn_schedule *s, const char *name)
{
  return cn_err_set(CN_ERR_VALUE, "%s: %s cannot be '%s'", s->cls->name, name, cni_schedule_arg(s, name)->u.s);
}
static inline double cni_schedule_float(const cn_schedule *s, const char *name)
{
  return cni_schedule_arg(s, name)->u.f;
}
/* A group's own value of a setting, or the one for all. */
double cni_schedule_of(const cn_schedule *s, const char *name, size_t group);
static inline int64_t cni_schedule_int(const cn_schedule *s, const char *name)
{
  return cni_schedule_arg(s, name)->u.i;
}

#endif
