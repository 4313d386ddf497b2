/* schedule_plain.c: schedules that are one formula: steps, factors, lines, powers, cosines, and the way to
 * a fixed rate (SWALR). */
#include <math.h>

#include "schedule.h"

static const double pi = 3.14159265358979323846;

static int whole_and_positive(const cn_schedule *s, const char *name)
{
  if (cni_schedule_int(s, name) > 0) return CN_OK;
  return cn_err_set(CN_ERR_VALUE, "%s: %s must be above 0", s->cls->name, name);
}

static int in_range(const cn_schedule *s, const char *name, double low, double high)
{
  double x = cni_schedule_float(s, name);
  if (x >= low && x <= high) return CN_OK;
  return cn_err_set(CN_ERR_VALUE, "%s: %s must be between %g and %g, but is %g", s->cls->name, name, low, high, x);
}

static double present(const cn_schedule *s, size_t g) { return cni_group_lr(s->opt, g); }

/* ---- StepLR ---- */

static int step_begin(cn_schedule *s) { return whole_and_positive(s, "step_size"); }
static double step_rate(cn_schedule *s, size_t g)
{
  bool due = s->epoch != 0 && s->epoch % cni_schedule_int(s, "step_size") == 0;
  return due ? present(s, g) * cni_schedule_float(s, "gamma") : present(s, g);
}
static double step_closed(cn_schedule *s, size_t g)
{
  return s->base[g] * pow(cni_schedule_float(s, "gamma"), (double)(s->epoch / cni_schedule_int(s, "step_size")));
}
static const cni_schedule_class step = {
  .name = "StepLR",
  .sig = "StepLR(int step_size, float gamma=0.1, int last_epoch=-1) -> Scheduler ; step",
  .doc = "The rate times gamma every step_size epochs.",
  .begin = step_begin, .rate = step_rate, .closed = step_closed,
};

/* ---- MultiStepLR ---- */

static double multi_step_rate(cn_schedule *s, size_t g)
{
  const cn_value *m = cni_schedule_arg(s, "milestones");
  int due = 0;
  for (int i = 0; i < m->n; i++) due += m->u.is[i] == s->epoch;
  return due ? present(s, g) * pow(cni_schedule_float(s, "gamma"), due) : present(s, g);
}
static double multi_step_closed(cn_schedule *s, size_t g)
{
  const cn_value *m = cni_schedule_arg(s, "milestones");
  int passed = 0;
  for (int i = 0; i < m->n; i++) passed += m->u.is[i] <= s->epoch;
  return s->base[g] * pow(cni_schedule_float(s, "gamma"), passed);
}
static const cni_schedule_class multi_step = {
  .name = "MultiStepLR",
  .sig = "MultiStepLR(int[] milestones, float gamma=0.1, int last_epoch=-1) -> Scheduler ; multi_step",
  .doc = "The rate times gamma at each of these epochs.",
  .rate = multi_step_rate, .closed = multi_step_closed,
};

/* ---- ConstantLR ---- */

static int constant_begin(cn_schedule *s) { return in_range(s, "factor", 0, 1); }
static double constant_rate(cn_schedule *s, size_t g)
{
  double factor = cni_schedule_float(s, "factor");
  if (s->epoch == 0) return present(s, g) * factor;
  return s->epoch == cni_schedule_int(s, "total_iters") ? present(s, g) * (1 / factor) : present(s, g);
}
static double constant_closed(cn_schedule *s, size_t g)
{
  double factor = cni_schedule_float(s, "factor");
  return s->base[g] * (factor + (s->epoch >= cni_schedule_int(s, "total_iters") ? 1 - factor : 0));
}
static const cni_schedule_class constant = {
  .name = "ConstantLR",
  .sig = "ConstantLR(float factor=0.3333333333333333, int total_iters=5, int last_epoch=-1) -> Scheduler ; constant",
  .doc = "The rate times factor until total_iters epochs have passed.",
  .begin = constant_begin, .rate = constant_rate, .closed = constant_closed,
};

/* ---- LinearLR ---- */

static int linear_begin(cn_schedule *s)
{
  if (in_range(s, "start_factor", 0x1p-1022, 1) || in_range(s, "end_factor", 0, 1)) return cn_err();
  return whole_and_positive(s, "total_iters");
}
static double linear_rate(cn_schedule *s, size_t g)
{
  double start = cni_schedule_float(s, "start_factor"), end = cni_schedule_float(s, "end_factor");
  int64_t total = cni_schedule_int(s, "total_iters");
  if (s->epoch == 0) return present(s, g) * start;
  if (s->initial || s->epoch > total) return present(s, g);
  return present(s, g) * (1 + (end - start) / ((double)total * start + (double)(s->epoch - 1) * (end - start)));
}
static double linear_closed(cn_schedule *s, size_t g)
{
  double start = cni_schedule_float(s, "start_factor"), end = cni_schedule_float(s, "end_factor");
  double total = (double)cni_schedule_int(s, "total_iters");
  return s->base[g] * (start + (end - start) * fmin(total, (double)s->epoch) / total);
}
static const cni_schedule_class linear = {
  .name = "LinearLR",
  .sig = "LinearLR(float start_factor=0.3333333333333333, float end_factor=1.0, int total_iters=5, int last_epoch=-1) "
         "-> Scheduler ; linear",
  .doc = "The rate times a factor that goes from start_factor to end_factor in total_iters epochs.",
  .begin = linear_begin, .rate = linear_rate, .closed = linear_closed,
};

/* ---- ExponentialLR ---- */

static double exponential_rate(cn_schedule *s, size_t g)
{
  return s->initial ? present(s, g) : present(s, g) * cni_schedule_float(s, "gamma");
}
static double exponential_closed(cn_schedule *s, size_t g)
{
  return s->base[g] * pow(cni_schedule_float(s, "gamma"), (double)s->epoch);
}
static const cni_schedule_class exponential = {
  .name = "ExponentialLR",
  .sig = "ExponentialLR(float gamma, int last_epoch=-1) -> Scheduler ; exponential",
  .doc = "The rate times gamma in every epoch.",
  .rate = exponential_rate, .closed = exponential_closed,
};

/* ---- PolynomialLR ---- */

static int polynomial_begin(cn_schedule *s) { return whole_and_positive(s, "total_iters"); }
static double polynomial_rate(cn_schedule *s, size_t g)
{
  double total = (double)cni_schedule_int(s, "total_iters"), at = (double)s->epoch;
  if (s->initial || at > total) return present(s, g);
  return present(s, g) * pow((1 - at / total) / (1 - (at - 1) / total), cni_schedule_float(s, "power"));
}
static double polynomial_closed(cn_schedule *s, size_t g)
{
  double total = (double)cni_schedule_int(s, "total_iters");
  return s->base[g] * pow(1 - fmin(total, (double)s->epoch) / total, cni_schedule_float(s, "power"));
}
static const cni_schedule_class polynomial = {
  .name = "PolynomialLR",
  .sig = "PolynomialLR(int total_iters=5, float power=1.0, int last_epoch=-1) -> Scheduler ; polynomial",
  .doc = "The rate falls to 0 in total_iters epochs, as (1 - epoch / total_iters)^power.",
  .begin = polynomial_begin, .rate = polynomial_rate, .closed = polynomial_closed,
};

/* ---- CosineAnnealingLR ---- */

static int cosine_begin(cn_schedule *s) { return whole_and_positive(s, "T_max"); }
static double cosine_closed(cn_schedule *s, size_t g)
{
  double low = cni_schedule_float(s, "eta_min"), half = (double)cni_schedule_int(s, "T_max");
  return low + (s->base[g] - low) * (1 + cos(pi * (double)s->epoch / half)) / 2;
}
static double cosine_rate(cn_schedule *s, size_t g)
{
  double low = cni_schedule_float(s, "eta_min"), at = (double)s->epoch;
  int64_t half = cni_schedule_int(s, "T_max");
  if (s->initial) return present(s, g);
  if (s->steps == 1 && s->epoch > 0) return cosine_closed(s, g);
  if ((s->epoch - 1 - half) % (2 * half) == 0) /* from the lowest point upwards: the ratio below would divide by 0 */
    return present(s, g) + (s->base[g] - low) * (1 - cos(pi / (double)half)) / 2;
  return (1 + cos(pi * at / (double)half)) / (1 + cos(pi * (at - 1) / (double)half)) * (present(s, g) - low) + low;
}
static const cni_schedule_class cosine = {
  .name = "CosineAnnealingLR",
  .sig = "CosineAnnealingLR(int T_max, float eta_min=0.0, int last_epoch=-1) -> Scheduler ; cosine_annealing",
  .doc = "Half a cosine from the rate down to eta_min in T_max epochs, and back.",
  .begin = cosine_begin, .rate = cosine_rate, .closed = cosine_closed,
};

/* ---- CosineAnnealingWarmRestarts ---- */

enum { T_CUR, T_I };

static int restarts_begin(cn_schedule *s)
{
  if (whole_and_positive(s, "T_0") || whole_and_positive(s, "T_mult")) return cn_err();
  s->number[T_CUR] = (double)s->epoch;
  s->number[T_I] = (double)cni_schedule_int(s, "T_0");
  return CN_OK;
}
static double restarts_rate(cn_schedule *s, size_t g)
{
  double low = cni_schedule_float(s, "eta_min");
  return low + (s->base[g] - low) * (1 + cos(pi * s->number[T_CUR] / s->number[T_I])) / 2;
}
static int restarts_step(cn_schedule *s)
{
  if (s->epoch < 0) s->number[T_CUR] = 0;
  else if (++s->number[T_CUR] >= s->number[T_I]) {
    s->number[T_CUR] = fmod(s->number[T_CUR], s->number[T_I]);
    s->number[T_I] *= (double)cni_schedule_int(s, "T_mult");
  }
  return cni_schedule_jump(s, s->epoch + 1);
}
/* To an epoch that need not be whole: which restart it is in, and how far. */
static int restarts_jump(cn_schedule *s, double epoch)
{
  double first = (double)cni_schedule_int(s, "T_0"), times = (double)cni_schedule_int(s, "T_mult");
  if (epoch < 0) return cn_err_set(CN_ERR_VALUE, "%s: the epoch must not be below 0", s->cls->name);
  double n = times > 1 ? floor(log(epoch / first * (times - 1) + 1) / log(times)) : 0;
  s->number[T_I] = first * pow(times, n);
  s->number[T_CUR] = times > 1 ? epoch - first * (pow(times, n) - 1) / (times - 1) : fmod(epoch, first);
  if (epoch < first) s->number[T_I] = first, s->number[T_CUR] = epoch;
  return cni_schedule_jump(s, (int64_t)floor(epoch));
}
static const cni_schedule_class restarts = {
  .name = "CosineAnnealingWarmRestarts",
  .sig = "CosineAnnealingWarmRestarts(int T_0, int T_mult=1, float eta_min=0.0, int last_epoch=-1) -> Scheduler "
         "; cosine_annealing_warm_restarts",
  .doc = "Half cosines down to eta_min: the first takes T_0 epochs, each further one T_mult times as many.",
  .numbers = {"T_cur", "T_i"},
  .begin = restarts_begin, .rate = restarts_rate, .step = restarts_step, .jump = restarts_jump,
};

/* ---- WarmupCosineLR ---- */

static int warmup_begin(cn_schedule *s)
{
  if (in_range(s, "min_factor", 0, 1) || whole_and_positive(s, "total_steps")) return cn_err();
  int64_t warm = cni_schedule_int(s, "warmup_steps");
  if (warm >= 0 && warm <= cni_schedule_int(s, "total_steps")) return CN_OK;
  return cn_err_set(CN_ERR_VALUE, "WarmupCosineLR: warmup_steps must be between 0 and total_steps");
}
static double warmup_rate(cn_schedule *s, size_t g)
{
  int64_t warm = cni_schedule_int(s, "warmup_steps"), rest = cni_schedule_int(s, "total_steps") - warm;
  double low = cni_schedule_float(s, "min_factor"), at = (double)(s->epoch - warm);
  if (s->epoch < warm) return s->base[g] * ((double)(s->epoch + 1) / (double)warm);
  double part = rest > 0 ? fmin(1, at / (double)rest) : 1;
  return s->base[g] * (low + (1 - low) * (1 + cos(pi * part)) / 2);
}
static const cni_schedule_class warmup = {
  .name = "WarmupCosineLR",
  .sig = "WarmupCosineLR(int warmup_steps, int total_steps, float min_factor=0.0, int last_epoch=-1) -> Scheduler "
         "; warmup_cosine",
  .doc = "The rate rises in a line over warmup_steps, then falls as half a cosine to min_factor of it at total_steps.",
  .begin = warmup_begin, .rate = warmup_rate,
};

/* ---- SWALR ---- */

static int swa_begin(cn_schedule *s)
{
  if (!cni_schedule_is(s, "anneal_strategy", "cos") && !cni_schedule_is(s, "anneal_strategy", "linear"))
    return cni_schedule_bad_word(s, "anneal_strategy");
  if (cni_schedule_int(s, "anneal_epochs") < 0)
    return cn_err_set(CN_ERR_VALUE, "SWALR: anneal_epochs must not be below 0");
  for (size_t g = 0; g < s->n; g++)
    if (cni_group_put(s->opt, g, "swa_lr", cni_schedule_of(s, "swa_lr", g))) return cn_err();
  return CN_OK;
}

static double annealed(const cn_schedule *s, double epochs)
{
  double t = fmax(0, fmin(1, epochs / fmax(1, (double)cni_schedule_int(s, "anneal_epochs"))));
  return cni_schedule_is(s, "anneal_strategy", "cos") ? (1 - cos(pi * t)) / 2 : t;
}

static double swa_rate(cn_schedule *s, size_t g)
{
  double epochs = (double)(s->steps - 1), goal = cn_optim_get(s->opt, g, "swa_lr"), lr = cni_group_lr(s->opt, g);
  if (cni_schedule_int(s, "anneal_epochs") == 0) epochs = fmax(1, epochs);
  double before = annealed(s, epochs - 1), now = annealed(s, epochs);
  double first = before == 1 ? goal : (lr - before * goal) / (1 - before);
  return goal * now + first * (1 - now);
}

static const cni_schedule_class swa = {
  .name = "SWALR",
  .sig = "SWALR(float swa_lr, int anneal_epochs=10, str anneal_strategy='cos', int last_epoch=-1) -> Scheduler ; swa",
  .doc = "From the present rate to swa_lr in anneal_epochs, then constant: for stochastic weight averaging.",
  .begin = swa_begin, .rate = swa_rate,
};

const cni_schedule_class *const cni_schedule_plain_classes[] = {
  &step, &multi_step, &constant, &linear, &exponential, &polynomial, &cosine, &restarts, &warmup, &swa, NULL};
