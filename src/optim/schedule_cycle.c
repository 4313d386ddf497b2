/* schedule_cycle.c: schedules that go up and down, with the momentum if asked for: CyclicLR, OneCycleLR.
 *
 * Invariant: limits of a cycle are kept in the optimiser's groups, as in PyTorch, so that its state is whole. */
#include <math.h>
#include <string.h>

#include "schedule.h"

static const double pi = 3.14159265358979323846;

/* ---- momentum: the setting `momentum`, or the first of `betas` ---- */

static int set_momentum(const cn_schedule *s, size_t g, double value)
{
  const cn_value *betas = cni_group_get(s->opt, g, "betas");
  if (!betas) return cni_group_set(s->opt, g, "momentum", cn_v_float(value));
  double both[2] = {value, betas->u.fs[1]};
  return cni_group_set(s->opt, g, "betas", cn_v_floats(both, 2));
}

/* The limits of the momentum, from the highest on. */
static int begin_momentum(cn_schedule *s)
{
  if (!cni_schedule_int(s, "cycle_momentum")) return CN_OK;
  for (size_t g = 0; g < s->n; g++) {
    double high = cni_schedule_of(s, "max_momentum", g), low = cni_schedule_of(s, "base_momentum", g);
    if (!cni_group_get(s->opt, g, "betas") && !cni_group_get(s->opt, g, "momentum"))
      return cn_err_set(CN_ERR_VALUE, "%s: %s has no momentum to cycle; set no_cycle_momentum", s->cls->name,
                        cn_optim_name(s->opt));
    if (s->epoch >= 0) continue;
    if (set_momentum(s, g, high) || cni_group_put(s->opt, g, "max_momentum", high) ||
        cni_group_put(s->opt, g, "base_momentum", low))
      return cn_err();
  }
  return CN_OK;
}

/* ---- CyclicLR ---- */

static int cyclic_begin(cn_schedule *s)
{
  if (!cni_schedule_is(s, "mode", "triangular") && !cni_schedule_is(s, "mode", "triangular2") &&
      !cni_schedule_is(s, "mode", "exp_range"))
    return cni_schedule_bad_word(s, "mode");
  const cn_value *down = cni_schedule_arg(s, "step_size_down");
  if (cni_schedule_int(s, "step_size_up") < 1 || (down->tag == CN_V_INT && down->u.i < 0))
    return cn_err_set(CN_ERR_VALUE, "CyclicLR: its steps up and down must be above 0");
  for (size_t g = 0; g < s->n && s->epoch < 0; g++)
    if (cni_group_set_lr(s->opt, g, cni_schedule_of(s, "base_lr", g))) return cn_err();
  return begin_momentum(s);
}

/* A range as high as the cycle is now. */
static double cyclic_height(const cn_schedule *s, double range)
{
  const cn_value *down = cni_schedule_arg(s, "step_size_down");
  double up = (double)cni_schedule_int(s, "step_size_up");
  double total = up + (down->tag == CN_V_INT ? (double)down->u.i : up);
  double ratio = up / total, at = (double)s->epoch, cycle = floor(1 + at / total), x = 1 + at / total - cycle;
  double part = x <= ratio ? x / ratio : (x - 1) / (ratio - 1);
  double scale = s->scale_fn                       ? s->scale_fn(s->scale_by_epoch ? at : cycle, s->payload)
                 : cni_schedule_is(s, "mode", "triangular2") ? 1 / pow(2, cycle - 1)
                 : cni_schedule_is(s, "mode", "exp_range") ? pow(cni_schedule_float(s, "gamma"), at)
                                                   : 1;
  return range * part * scale;
}

static double cyclic_rate(cn_schedule *s, size_t g)
{
  double low = cni_schedule_of(s, "base_lr", g);
  return low + cyclic_height(s, cni_schedule_of(s, "max_lr", g) - low);
}

static void cyclic_momentum(cn_schedule *s, size_t g)
{
  double low = cni_schedule_of(s, "base_momentum", g), high = cni_schedule_of(s, "max_momentum", g);
  if (cni_schedule_int(s, "cycle_momentum")) set_momentum(s, g, high - cyclic_height(s, high - low));
}

static const cni_schedule_class cyclic = {
  .name = "CyclicLR",
  .sig = "CyclicLR(float base_lr, float max_lr, int step_size_up=2000, int? step_size_down=None, "
         "str mode='triangular', float gamma=1.0, bool cycle_momentum=True, float base_momentum=0.8, "
         "float max_momentum=0.9, int last_epoch=-1) -> Scheduler ; cyclic",
  .doc = "Up and down between base_lr and max_lr; mode triangular, triangular2 (each cycle half as high) or exp_range.",
  .begin = cyclic_begin, .rate = cyclic_rate, .momentum = cyclic_momentum,
};

int cn_lr_cyclic_scale(cn_schedule *s, cn_lr_scale_fn fn, void *payload, bool by_epoch)
{
  if (cn_err()) return cn_err();
  if (!s || s->cls != &cyclic) return cn_err_set(CN_ERR_TYPE, "CyclicLR: it is missing, or of another class");
  s->scale_fn = fn;
  s->payload = payload;
  s->scale_by_epoch = by_epoch;
  return CN_OK;
}

/* ---- OneCycleLR ---- */

static double total_steps(const cn_schedule *s)
{
  const cn_value *total = cni_schedule_arg(s, "total_steps");
  if (total->tag == CN_V_INT) return (double)total->u.i;
  const cn_value *epochs = cni_schedule_arg(s, "epochs"), *each = cni_schedule_arg(s, "steps_per_epoch");
  return epochs->tag == CN_V_INT && each->tag == CN_V_INT ? (double)epochs->u.i * (double)each->u.i : 0;
}

static int one_cycle_begin(cn_schedule *s)
{
  double start = cni_schedule_float(s, "pct_start");
  if (total_steps(s) < 1)
    return cn_err_set(CN_ERR_VALUE, "OneCycleLR: needs total_steps, or epochs and steps_per_epoch, above 0");
  if (!(start >= 0 && start <= 1)) return cn_err_set(CN_ERR_VALUE, "OneCycleLR: pct_start must be between 0 and 1");
  if (!cni_schedule_is(s, "anneal_strategy", "cos") && !cni_schedule_is(s, "anneal_strategy", "linear"))
    return cni_schedule_bad_word(s, "anneal_strategy");
  for (size_t g = 0; g < s->n && s->epoch < 0; g++) {
    double high = cni_schedule_of(s, "max_lr", g), low = high / cni_schedule_float(s, "div_factor");
    if (cni_group_put(s->opt, g, "initial_lr", low) || cni_group_put(s->opt, g, "max_lr", high) ||
        cni_group_put(s->opt, g, "min_lr", low / cni_schedule_float(s, "final_div_factor")))
      return cn_err();
  }
  return begin_momentum(s);
}

typedef struct phase {
  double end;
  const char *lr[2], *momentum[2]; /* from, to */
} phase;

/* The phase that the epoch is in; *part: how far. */
static phase phase_of(const cn_schedule *s, double *part)
{
  double total = total_steps(s), start = cni_schedule_float(s, "pct_start") * total, at = (double)s->epoch, begin = 0;
  const phase two[] = {{start - 1, {"initial_lr", "max_lr"}, {"max_momentum", "base_momentum"}},
                       {total - 1, {"max_lr", "min_lr"}, {"base_momentum", "max_momentum"}}};
  const phase three[] = {{start - 1, {"initial_lr", "max_lr"}, {"max_momentum", "base_momentum"}},
                         {2 * start - 2, {"max_lr", "initial_lr"}, {"base_momentum", "max_momentum"}},
                         {total - 1, {"initial_lr", "min_lr"}, {"max_momentum", "max_momentum"}}};
  bool all = cni_schedule_int(s, "three_phase");
  const phase *list = all ? three : two;
  int n = all ? 3 : 2, i = 0;
  while (i < n - 1 && at > list[i].end) begin = list[i++].end;
  *part = (at - begin) / (list[i].end - begin);
  return list[i];
}

static double between(const cn_schedule *s, size_t g, const char *const *ends, double part)
{
  double from = cn_optim_get(s->opt, g, ends[0]), to = cn_optim_get(s->opt, g, ends[1]);
  if (cni_schedule_is(s, "anneal_strategy", "linear")) return (to - from) * part + from;
  return to + (from - to) / 2 * (cos(pi * part) + 1);
}

static double one_cycle_rate(cn_schedule *s, size_t g)
{
  double part;
  phase p = phase_of(s, &part);
  if ((double)s->epoch > total_steps(s))
    cn_err_set(CN_ERR_VALUE, "OneCycleLR: stepped %lld times, but has %lld steps", (long long)s->epoch,
               (long long)total_steps(s));
  return between(s, g, p.lr, part);
}

static void one_cycle_momentum(cn_schedule *s, size_t g)
{
  double part;
  phase p = phase_of(s, &part);
  if (cni_schedule_int(s, "cycle_momentum")) set_momentum(s, g, between(s, g, p.momentum, part));
}

static const cni_schedule_class one_cycle = {
  .name = "OneCycleLR",
  .sig = "OneCycleLR(float max_lr, int? total_steps=None, int? epochs=None, int? steps_per_epoch=None, "
         "float pct_start=0.3, str anneal_strategy='cos', bool cycle_momentum=True, float base_momentum=0.85, "
         "float max_momentum=0.95, float div_factor=25.0, float final_div_factor=10000.0, bool three_phase=False, "
         "int last_epoch=-1) -> Scheduler ; one_cycle",
  .doc = "Up to max_lr and then far down, once, in total_steps steps.",
  .begin = one_cycle_begin, .rate = one_cycle_rate, .momentum = one_cycle_momentum,
};

const cni_schedule_class *const cni_schedule_cycle_classes[] = {&cyclic, &one_cycle, NULL};
