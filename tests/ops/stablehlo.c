/* stablehlo.c: the driver that writes a sample, forward and gradient, as StableHLO text. Without more it must be
 * written, or name an op that has no form there. With CAIRN_STABLEHLO_OUT=FOLDER the text, the inputs and what eager
 * gives go to FOLDER/FAMILY.cases, which tests/python/test_stablehlo.py compiles and runs:
 *
 *     sample add(f32[3], f32[3])
 *     module 1234                      bytes of the text
 *     in float32 1 3                   each argument: type, dims; seed and offset of random numbers last
 *     out float32 1 3 1e-05 1e-06      each result, and the tolerance that the op's family has
 *     end                              then the text, the inputs' and the results' bytes, row-major */
#include <cairn/ext/stablehlo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/tensor.h"
#include "traced.h"
#include "written.h"

/* Outputs in the graph's order: results, then gradients. */
static size_t outputs_of(cn_tensor **out, cn_tensor **like, const traced *k, const call_result *want)
{
  size_t n = 0;
  for (size_t i = 0; i < k->nout; i++)
    if (k->has_out[i]) like[n] = NULL, out[n++] = want->out[i];
  for (int i = 0; i < SAMPLE_INPUTS; i++)
    if (k->has_grad[i]) like[n] = want->out[0], out[n++] = want->grad[i];
  return n;
}

/* Arguments: states (what results are weighed with, for their gradient), then inputs. */
static size_t arguments_of(cn_tensor **in, const traced *k, const cn_graph *g)
{
  size_t n = 0;
  for (size_t i = 0; i < cn_graph_states(g); i++) in[n++] = cn_graph_state(g, i);
  for (size_t i = 0; i < k->ninputs; i++) in[n++] = k->c->in[k->input[i]];
  return n;
}

static bool put_case(FILE *f, const trial *t, const traced *k, const cn_graph *g, const char *text,
                     const call_result *want, const uint64_t *random)
{
  cn_tensor *in[MOST_OUTPUTS + SAMPLE_INPUTS];
  size_t nin = arguments_of(in, k, g);
  cn_tensor *out[MOST_OUTPUTS], *like[MOST_OUTPUTS];
  size_t n = outputs_of(out, like, k, want);
  bool good = true;
  fprintf(f, "sample %s\nmodule %zu\n", t->s->text, strlen(text));
  for (size_t i = 0; i < nin; i++) case_describe(f, "in", in[i]), fputc('\n', f);
  if (random) fputs("in uint64 0\nin uint64 0\n", f);
  for (size_t i = 0; i < n; i++) {
    double scale = like[i] ? t->family->grad_scale : t->family->scale;
    tolerance own = tolerance_of((int)cn_dtype_of(out[i]), scale), other = own;
    if (like[i]) other = tolerance_of((int)cn_dtype_of(like[i]), scale);
    if (other.rtol > own.rtol) own = other;
    case_describe(f, "out", out[i]);
    fprintf(f, " %g %g\n", own.rtol, own.atol);
  }
  fprintf(f, "end\n%s", text);
  for (size_t i = 0; i < nin && good; i++) good = case_bytes(f, in[i]);
  if (random && good) good = fwrite(random, sizeof *random, 2, f) == 2;
  for (size_t i = 0; i < n && good; i++) good = case_bytes(f, out[i]);
  return good;
}

static enum outcome write_case(const trial *t, const traced *k, const cn_graph *g, const char *text,
                               const call_result *want, const uint64_t *random)
{
  const char *folder = getenv("CAIRN_STABLEHLO_OUT");
  char path[600];
  if (!folder) return PASS;
  snprintf(path, sizeof path, "%s/%s.cases", folder, t->family->name);
  FILE *f = fopen(path, "ab");
  bool good = f && put_case(f, t, k, g, text, want, random);
  if (f && fclose(f)) good = false;
  return good ? PASS : trial_fail(t, "%s cannot be written", path);
}

/* Does the message name an op that has no form there, or a size that depends on data? */
static bool is_refusal(const char *message)
{
  char name[64];
  const char *at = strstr(message, "stablehlo: ");
  if (cn_err() != CN_ERR_UNSUPPORTED || !at) return false;
  if (strstr(message, "depends on data")) return true;
  snprintf(name, sizeof name, "%.*s", (int)strcspn(at + 11, ":"), at + 11);
  return cn_op_find(name) && cn_stablehlo_problem(cn_op_find(name));
}

static enum outcome write_graph(const trial *t, const traced *k, const cn_graph *g, const call_result *want)
{
  const char *reason = exception_for("stablehlo", t->s);
  uint64_t random[2];
  char *text = cn_stablehlo_text(g);
  if (!text && reason && cn_err() == CN_ERR_UNSUPPORTED) return cn_err_clear(), trial_skip(t, "%s", reason);
  if (!text && is_refusal(cn_err_message())) return cn_err_clear(), trial_skip(t, "it has no form");
  if (!text) return trial_fail(t, "%s", cn_err_message());
  cn_seed(1);
  cn_random_state(&random[0], &random[1]);
  enum outcome o = reason ? trial_fail(t, "it has a form, though the table says: %s", reason) : PASS;
  if (o == PASS) o = write_case(t, k, g, text, want, cn_graph_draws(g) ? random : NULL);
  cn_string_free(text);
  return o;
}

enum outcome drive_stablehlo(const trial *t)
{
  call c;
  call_result want = {0};
  traced k;
  cn_tensor *inputs[SAMPLE_INPUTS];
  const char *values = exception_for("stablehlo values", t->s);
  if (t->s->must_fail || t->s->large || sample_is_sparse(t->s)) return PASS;
  if (values) return trial_skip(t, "%s", values);
  bool grad = differentiable(t->s) && !sample_has_range(t->s, '!', false);
  if (call_make(&c, t->s, &(call_setup){.grad = grad})) return trial_fail(t, "inputs: %s", cn_err_message());
  cn_seed(1);
  enum outcome o = PASS;
  if (call_run_grad(&want, &c, NULL, NULL)) o = trial_fail(t, "eager: %s", cn_err_message());
  traced_plan(&k, &c, &want);
  for (size_t i = 0; i < k.ninputs; i++) inputs[i] = c.in[k.input[i]];
  cn_seed(1);
  cn_graph *g = o == PASS && k.noutputs ? cn_trace(traced_run, k.noutputs, inputs, k.ninputs, &k) : NULL;
  if (g) o = write_graph(t, &k, g, &want);
  else if (o == PASS && k.noutputs && cn_err() == CN_ERR_CAPTURE && exception_for("data dependent", t->s))
    cn_err_clear();
  else if (o == PASS && k.noutputs) o = trial_fail(t, "trace: %s", cn_err_message());
  cn_err_clear();
  cn_graph_free(g);
  call_result_free(&want);
  call_free(&c);
  return o;
}
