/* drivers.c: the drivers that compare a sample with PyTorch, with other layouts, thread counts and devices.
 *
 * Invariant: a driver leaves no error pending, no scope open, and all settings as it found them. */
#include "drivers.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum outcome trial_fail(const trial *t, const char *format, ...)
{
  va_list ap;
  va_start(ap, format);
  vsnprintf(t->why, t->size, format, ap);
  va_end(ap);
  return FAIL;
}

enum outcome trial_skip(const trial *t, const char *format, ...)
{
  va_list ap;
  va_start(ap, format);
  vsnprintf(t->why, t->size, format, ap);
  va_end(ap);
  return SKIP;
}

/* ---- oracle ---- */

static enum outcome must_fail(const trial *t)
{
  call c;
  call_result r;
  int status = call_make(&c, t->s, &(call_setup){0});
  if (!status) status = call_run(&r, &c, NULL);
  bool said = cn_err_message()[0] != 0, agrees = cn_err() == status;
  if (!status) call_result_free(&r);
  cn_err_clear();
  call_free(&c);
  if (!status) return trial_fail(t, "must be an error, but is not");
  if (status == CN_ERR_INTERNAL || status == CN_ERR_MEMORY || !said || !agrees)
    return trial_fail(t, "the error is not a clean one: status %d", status);
  return PASS;
}

static enum outcome check_results(const trial *t, const call_result *r)
{
  const golden_record *g = t->golden;
  char detail[300] = "";
  if ((int)r->nout != g->nout) return trial_fail(t, "%zu results should be %d", r->nout, g->nout);
  for (int i = 0; i < g->nout; i++)
    if (!same_as_golden(r->out[i], &g->tensors[i], g->any_dtype, t->family->scale, detail, sizeof detail))
      return trial_fail(t, "result %d: %s", i, detail);
  return PASS;
}

static enum outcome check_grads(const trial *t, const call *c, const call_result *r)
{
  const golden_record *g = t->golden;
  char detail[300] = "";
  if (c->nin != g->ngrad && g->ngrad) return trial_fail(t, "%d inputs should be %d", c->nin, g->ngrad);
  call_result golden = {0}, mine = {0};
  for (int i = 0; i < g->ngrad; i++) {
    const golden_tensor *want = &g->tensors[g->nout + i];
    cn_tensor *have = r->grad[i];
    if (want->dtype == GOLDEN_UNKNOWN) continue;
    if (have && want->dtype) {
      if (!same_as_golden(have, want, GOLDEN_ANY_ORDER, t->family->grad_scale, detail, sizeof detail))
        return trial_fail(t, "gradient of input %d: %s", i, detail);
      continue;
    }
    if (!have && !want->dtype) continue;
    cn_scope *scope = cn_scope_begin(); /* one side has none: the other must be zero */
    mine.grad[i] = have;
    if (want->dtype)
      golden.grad[i] = cn_from_data(want->data, want->shape, (size_t)want->ndim, (cn_dtype)want->dtype);
    bool same = same_results(&mine, &golden, 1, detail, sizeof detail);
    mine.grad[i] = golden.grad[i] = NULL;
    cn_scope_end(scope);
    if (!same) return trial_fail(t, "%s", detail);
  }
  return PASS;
}

static bool versions_changed(const call *c, const uint64_t *before)
{
  for (int i = 0; i < c->nin; i++)
    if (c->in[i] && cn_tensor_version(c->in[i]) != before[i]) return true;
  return false;
}

enum outcome drive_oracle(const trial *t)
{
  call c;
  call_result r = {0};
  uint64_t versions[SAMPLE_INPUTS] = {0};
  if (t->s->must_fail) return must_fail(t);
  if (t->s->large) return PASS;
  if (!t->golden) return trial_fail(t, "is not in the golden file: run tests/golden/make.py %s", t->family->name);
  if (t->golden->status == GOLDEN_NOTHING) return PASS;
  bool grad = differentiable(t->s) && !sample_has_range(t->s, '!', false);
  if (call_make(&c, t->s, &(call_setup){.grad = grad})) return trial_fail(t, "inputs: %s", cn_err_message());
  for (int i = 0; i < c.nin; i++) versions[i] = cn_tensor_version(c.in[i]);
  int status = grad ? call_run_grad(&r, &c, NULL, NULL) : call_run(&r, &c, NULL);
  enum outcome o = status ? trial_fail(t, "%s", cn_err_message()) : PASS;
  if (!status) o = check_results(t, &r);
  if (o == PASS && grad && t->golden->status == GOLDEN_VALUES && !exception_for("oracle gradient", t->s))
    o = check_grads(t, &c, &r);
  if (o == PASS && versions_changed(&c, versions) && !exception_for("inputs unchanged", t->s))
    o = trial_fail(t, "the op changed an input");
  cn_err_clear();
  call_result_free(&r);
  call_free(&c);
  return o;
}

/* ---- the same sample, run in two ways ---- */

static int run_with(const trial *t, const call_setup *setup, call_result *r)
{
  call c;
  uint64_t seed, offset;
  memset(r, 0, sizeof *r);
  cn_random_state(&seed, &offset);
  int status = call_make(&c, t->s, setup);
  if (!status) status = setup->grad ? call_run_grad(r, &c, NULL, NULL) : call_run(r, &c, NULL);
  cn_random_set_state(seed, offset);
  call_free(&c);
  return status;
}

/* The first run is what the second should be. scale 0: to the bit. */
static enum outcome compare_runs(const trial *t, const call_setup *a, const call_setup *b, double scale,
                                 const char *what)
{
  call_result want = {0}, have = {0};
  char detail[300] = "";
  enum outcome o = PASS;
  if (run_with(t, a, &want)) o = trial_fail(t, "%s", cn_err_message());
  else if (run_with(t, b, &have)) o = trial_fail(t, "%s: %s", what, cn_err_message());
  else if (!same_results(&have, &want, scale, detail, sizeof detail)) o = trial_fail(t, "%s: %s", what, detail);
  cn_err_clear();
  call_result_free(&want);
  call_result_free(&have);
  return o;
}

static bool wants_grad(const sample *s) { return differentiable(s) && !sample_has_range(s, '!', false); }

enum outcome drive_layouts(const trial *t)
{
  static const char layouts[] = {'t', 's', 'r'};
  const char *reason = exception_for("layouts", t->s);
  if (t->s->must_fail || (t->golden && t->golden->status == GOLDEN_SHAPES)) return PASS;
  if (reason) return trial_skip(t, "%s", reason);
  call_setup plain = {.contiguous = true, .grad = wants_grad(t->s)}, other = {.grad = plain.grad};
  double scale = t->family->grad_scale * (t->s->large ? 50 : 1); /* more terms, more ways to add them up */
  if (sample_has_layout(t->s)) {
    call_setup written = {.grad = plain.grad};
    enum outcome o = compare_runs(t, &plain, &written, scale, "the layout as written");
    if (o != PASS) return o;
  }
  for (size_t i = 0; i < sizeof layouts; i++) {
    char what[32];
    other.layout = layouts[i];
    snprintf(what, sizeof what, "all inputs .%c", layouts[i]);
    enum outcome o = compare_runs(t, &plain, &other, scale, what);
    if (o != PASS) return o;
  }
  return PASS;
}

enum outcome drive_threads(const trial *t)
{
  call_setup setup = {.grad = wants_grad(t->s)};
  call_result one, several;
  char detail[300] = "";
  int before = cn_num_threads();
  enum outcome o = PASS;
  if (t->s->must_fail || exception_for("threads", t->s)) return PASS;
  cn_set_num_threads(1);
  int status = run_with(t, &setup, &one);
  cn_set_num_threads(3);
  int again = run_with(t, &setup, &several);
  cn_set_num_threads(before);
  if (status || again) o = trial_fail(t, "%s", cn_err_message());
  else if (!same_results(&several, &one, 0, detail, sizeof detail)) o = trial_fail(t, "three threads: %s", detail);
  cn_err_clear();
  call_result_free(&one);
  call_result_free(&several);
  return o;
}

/* What fails on the CPU fails on the device, at the call or when the device is waited for, for the same reason. */
static enum outcome fails_there(const trial *t, cn_device device)
{
  call_result r;
  cn_device before = cn_default_device();
  int want = run_with(t, &(call_setup){0}, &r);
  call_result_free(&r);
  cn_err_clear();
  cn_set_default_device(device);
  int have = run_with(t, &(call_setup){.device = device}, &r);
  cn_set_default_device(before);
  call_result_free(&r);
  cn_err_clear();
  int late = cn_device_sync(device);
  enum outcome o = PASS;
  if ((have ? have : late) != want)
    o = trial_fail(t, "fails with %d, but on the device with %d (%s)", want, have ? have : late, cn_err_message());
  cn_err_clear();
  return o;
}

enum outcome drive_mirror(const trial *t)
{
  const char *reason = exception_for("mirror", t->s), *asked = getenv("CAIRN_TEST_DEVICE");
  const char *name = asked ? asked : "mirror";
  /* The mirror runs the CPU's kernels: its bits must be the same. */
  double scale = asked ? t->family->grad_scale * (t->s->large ? 50 : 1) : 0;
  if (!cn_device_count(name)) return trial_skip(t, "there is no such device");
  if (!reason && asked) reason = exception_for("elsewhere", t->s);
  if (reason) return trial_skip(t, "%s", reason);
  cn_device mirror = cn_device_find(name);
  if (t->s->must_fail) return fails_there(t, mirror);
  call_setup cpu = {.grad = wants_grad(t->s) && !(asked && exception_for("gradient elsewhere", t->s))};
  call_setup device = {.grad = cpu.grad, .device = mirror};
  cn_device before = cn_default_device();
  call_result want, have;
  char detail[300] = "";
  int status = run_with(t, &cpu, &want);
  cn_set_default_device(mirror); /* creation ops have no input that says where */
  int again = run_with(t, &device, &have);
  cn_set_default_device(before);
  enum outcome o = PASS;
  if (status || again) o = trial_fail(t, "%s", cn_err_message());
  else if (!same_results(&have, &want, scale, detail, sizeof detail)) o = trial_fail(t, "on the device: %s", detail);
  for (size_t i = 0; o == PASS && i < have.nout; i++)
    if (have.out[i] && cn_device_of(have.out[i]) != mirror) o = trial_fail(t, "result %zu is not on the device", i);
  cn_err_clear();
  call_result_free(&want);
  call_result_free(&have);
  return o;
}
