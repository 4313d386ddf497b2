/* compiled.c: the driver that calls a sample's op through cn_compile, twice: results and gradients, what is written
 * into inputs, and how many random numbers are drawn are eager's, to the bit. With gradients and without, on the CPU
 * and on the mirror device, which takes graphs whole.
 *
 * A gradient that comes in another memory order than its result has is brought into that order before a program sees
 * it, so that sums of it may be rounded otherwise: the gradients given here come in the order of the results.
 *
 * Invariant: what capture may refuse ("reads data" and "larger memory" in exceptions.c) runs as it is; everything else
 * is one program, which both calls run. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>

#include "drivers.h"
#include "tensor/tensor.h"

/* The sample made twice: for eager and for the compiled function, which may write to their inputs. */
typedef struct both {
  const trial *t;
  const char *what;
  call eager, compiled;
  call_result want, have;
} both;

/* The op, of the inputs that the call has; the rest of its arguments are the payload's. */
static int run_op(cn_compile_call *k)
{
  call c = *(const call *)k->payload;
  call_result r = {0};
  for (int i = 0; i < c.nin; i++) c.in[i] = cn_keep(c.in[i]);
  for (int i = 0; i < c.nin; i++)
    if (k->inputs[i]) call_set_input(&c, i, k->inputs[i]);
  int status = call_run(&r, &c, NULL);
  k->noutputs = 0;
  for (size_t i = 0; !status && i < r.nout; i++)
    if (r.out[i]) k->outputs[k->noutputs++] = cni_scope_add(cn_keep(r.out[i]));
  call_result_free(&r);
  call_free(&c);
  return status;
}

/* Which results are absent is known from eager. */
static int run_compiled(both *b, cn_compiled *f)
{
  cn_tensor *out[SAMPLE_RESULTS];
  size_t n = 0;
  cn_compile_call k = {.inputs = b->compiled.in, .ninputs = (size_t)b->compiled.nin, .outputs = out,
                       .noutputs = SAMPLE_RESULTS, .payload = &b->compiled};
  int status = cn_compiled_call(f, &k);
  for (size_t i = 0; !status && i < b->want.nout; i++, b->have.nout++)
    if (b->want.out[i] && n < k.noutputs) b->have.out[i] = cn_keep(out[n++]);
  return status ? status : call_grad(&b->have, &b->compiled, NULL, true);
}

/* ---- comparing ---- */

static enum outcome compare_inputs(const both *b)
{
  char detail[300] = "";
  for (int i = 0; i < b->eager.nin; i++)
    if (b->eager.in[i] && !same_tensors(b->compiled.in[i], b->eager.in[i], 0, detail, sizeof detail))
      return trial_fail(b->t, "%s: input %d is left different: %s", b->what, i, detail);
  return PASS;
}

static enum outcome compare(const both *b)
{
  char detail[300] = "";
  if (!same_results(&b->have, &b->want, 0, detail, sizeof detail)) return trial_fail(b->t, "%s: %s", b->what, detail);
  for (size_t i = 0; i < b->want.nout; i++)
    if (b->want.out[i] && cn_needs_grad(b->have.out[i]) != cn_needs_grad(b->want.out[i]))
      return trial_fail(b->t, "%s: whether result %zu has a gradient", b->what, i);
  return compare_inputs(b);
}

/* One call of each kind. */
static enum outcome compare_calls(both *b, cn_compiled *f)
{
  uint64_t seed, drawn, same;
  cn_scope *scope = cn_scope_begin();
  cn_seed(1);
  int want = call_run(&b->want, &b->eager, NULL);
  if (!want) want = call_grad(&b->want, &b->eager, NULL, true);
  cn_err_clear();
  cn_random_state(&seed, &drawn);
  cn_seed(1);
  int have = run_compiled(b, f);
  cn_random_state(&seed, &same);
  enum outcome o = PASS;
  if (want != have) o = trial_fail(b->t, "%s: is %d (%s), not %d", b->what, have, cn_err_message(), want);
  else if (!want) o = compare(b);
  if (o == PASS && !want && same != drawn) o = trial_fail(b->t, "%s: draws other random numbers", b->what);
  cn_err_clear();
  call_result_free(&b->want);
  call_result_free(&b->have);
  cn_scope_end(scope);
  return o;
}

static enum outcome compare_counts(const both *b, const cn_compiled *f)
{
  cn_compile_stats s;
  cn_compile_stats_get(&s, sizeof s, f);
  if (b->t->s->must_fail || (s.executables == 1 && s.runs == 2)) return PASS;
  bool may = exception_for("reads data", b->t->s) || exception_for("larger memory", b->t->s) ||
             sample_is_sparse(b->t->s); /* sizes of what is there */
  if (s.eager_calls == 2 && may) return PASS;
  return trial_fail(b->t, "%s: %zu programs, %zu runs, %zu calls as they are", b->what, s.executables, s.runs,
                    s.eager_calls);
}

static enum outcome twice(const trial *t, const call_setup *setup, const char *what)
{
  both b = {.t = t, .what = what};
  int status = call_make(&b.eager, t->s, setup);
  if (!status && (status = call_make(&b.compiled, t->s, setup))) call_free(&b.eager);
  if (status && t->s->must_fail) return cn_err_clear(), PASS; /* not even the inputs */
  cn_compiled *f = status ? NULL : cn_compile(run_op, .name = t->s->info->name);
  enum outcome o = f ? PASS : trial_fail(t, "%s: %s", what, cn_err_message());
  for (int k = 0; k < 2 && o == PASS; k++) o = compare_calls(&b, f);
  if (o == PASS) o = compare_counts(&b, f);
  cn_compiled_free(f);
  if (status) return o;
  call_free(&b.eager);
  call_free(&b.compiled);
  return o;
}

static void no_message(cn_log_level level, const char *message, void *payload)
{
  (void)level, (void)message, (void)payload;
}

static enum outcome on_mirror(const trial *t, bool grad)
{
  if (t->s->must_fail || exception_for("mirror", t->s) || !cn_device_count("mirror")) return PASS;
  cn_device before = cn_default_device(), mirror = cn_device_find("mirror");
  cn_set_default_device(mirror); /* creation ops have no input that says where */
  enum outcome o = twice(t, &(call_setup){.grad = grad, .device = mirror}, "compiled on the mirror");
  cn_set_default_device(before);
  return o;
}

enum outcome drive_compiled(const trial *t)
{
  const char *reason = exception_for("capture", t->s);
  bool grad = differentiable(t->s) && !sample_has_range(t->s, '!', false);
  if (reason) return trial_skip(t, "%s", reason);
  cn_set_log(no_message, NULL); /* calls that run as they are say so */
  setenv("CAIRN_COMPILE", "exact", 1); /* halves are rounded where eager rounds them */
  enum outcome o = grad ? twice(t, &(call_setup){.grad = true}, "compiled") : PASS;
  if (o == PASS) o = twice(t, &(call_setup){0}, "compiled without gradients");
  if (o == PASS) o = on_mirror(t, grad);
  unsetenv("CAIRN_COMPILE");
  cn_set_log(NULL, NULL);
  return o;
}
