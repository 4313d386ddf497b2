/* schedule_plateau.c: ReduceLROnPlateau, which looks at a metric instead of the epoch.
 *
 * Place in the flow: a class of schedule.c's table; cn_schedule_step_metric hands it the metric. Invariant: a rate only
 * ever falls, and never below min_lr. */
#include <math.h>

#include "schedule.h"

enum { BEST, BAD_EPOCHS, COOLDOWN };

static int plateau_begin(cn_schedule *s)
{
  if (cni_schedule_float(s, "factor") >= 1)
    return cn_err_set(CN_ERR_VALUE, "ReduceLROnPlateau: factor must be below 1");
  if (!cni_schedule_is(s, "mode", "min") && !cni_schedule_is(s, "mode", "max")) return cni_schedule_bad_word(s, "mode");
  if (!cni_schedule_is(s, "threshold_mode", "rel") && !cni_schedule_is(s, "threshold_mode", "abs"))
    return cni_schedule_bad_word(s, "threshold_mode");
  s->number[BEST] = cni_schedule_is(s, "mode", "min") ? HUGE_VAL : -HUGE_VAL;
  s->epoch = 0;
  return CN_OK;
}

static bool is_better(const cn_schedule *s, double metric)
{
  double by = cni_schedule_float(s, "threshold"), best = s->number[BEST];
  bool relative = cni_schedule_is(s, "threshold_mode", "rel");
  if (cni_schedule_is(s, "mode", "min")) return metric < (relative ? best * (1 - by) : best - by);
  return metric > (relative ? best * (by + 1) : best + by);
}

static int plateau_step(cn_schedule *s, double metric)
{
  s->epoch++;
  if (is_better(s, metric)) {
    s->number[BEST] = metric;
    s->number[BAD_EPOCHS] = 0;
  } else s->number[BAD_EPOCHS]++;
  if (s->number[COOLDOWN] > 0) {
    s->number[COOLDOWN]--;
    s->number[BAD_EPOCHS] = 0;
  }
  if (s->number[BAD_EPOCHS] > (double)cni_schedule_int(s, "patience")) {
    for (size_t g = 0; g < s->n; g++) {
      double old = cni_group_lr(s->opt, g);
      double lr = fmax(old * cni_schedule_float(s, "factor"), cni_schedule_of(s, "min_lr", g));
      if (old - lr > cni_schedule_float(s, "eps")) cni_group_set_lr(s->opt, g, lr);
    }
    s->number[COOLDOWN] = (double)cni_schedule_int(s, "cooldown");
    s->number[BAD_EPOCHS] = 0;
  }
  return cni_schedule_note(s);
}

static const cni_schedule_class plateau = {
  .name = "ReduceLROnPlateau",
  .sig = "ReduceLROnPlateau(str mode='min', float factor=0.1, int patience=10, float threshold=0.0001, "
         "str threshold_mode='rel', int cooldown=0, float min_lr=0, float eps=1e-08) -> Scheduler ; reduce_on_plateau",
  .doc = "The rate times factor when a metric has not got better for more than patience epochs.",
  .numbers = {"best", "num_bad_epochs", "cooldown_counter"},
  .begin = plateau_begin, .step_metric = plateau_step,
};

const cni_schedule_class *const cni_schedule_plateau_classes[] = {&plateau, NULL};
