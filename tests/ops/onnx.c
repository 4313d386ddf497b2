/* onnx.c: the driver that writes a sample, forward, then forward and gradient, as an ONNX model. It must be written, or
 * name an op that has no form there; cairn's own importer must read the model and compute what eager gives. With
 * CAIRN_ONNX_OUT=FOLDER the model, the inputs and what eager gives go to FOLDER/FAMILY.cases, which
 * tests/python/test_onnx_export.py gives to onnx's checker and to onnxruntime, in the form of stablehlo.c.
 * CAIRN_ONNX_OPSET=N: for that opset. */
#include <cairn/ext/onnx.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/tensor.h"
#include "traced.h"
#include "written.h"

/* Random numbers are the runtime's own: of those a model is written, and read again, but not compared. */
typedef struct written {
  const trial *t;
  const traced *k;
  const call_result *want;
  cn_tensor *model; /* its bytes */
  bool random;
} written;

/* ---- for others ---- */

/* Outputs in the graph's order: results, then gradients. */
static size_t outputs_of(cn_tensor **out, bool *gradient, const written *w)
{
  size_t n = 0;
  for (size_t i = 0; i < w->k->nout; i++)
    if (w->k->has_out[i]) gradient[n] = false, out[n++] = w->want->out[i];
  for (int i = 0; i < SAMPLE_INPUTS; i++)
    if (w->k->has_grad[i]) gradient[n] = true, out[n++] = w->want->grad[i];
  return n;
}

static double scale_of(const written *w, bool gradient)
{
  double scale = gradient ? w->t->family->grad_scale : w->t->family->scale;
  double single = tolerance_of(CN_F32, 1).rtol / tolerance_of(CN_F64, 1).rtol;
  return exception_for("onnx single", w->t->s) ? scale * single : scale;
}

static bool put_case(FILE *f, const written *w)
{
  cn_tensor *out[MOST_OUTPUTS];
  bool gradient[MOST_OUTPUTS], good = true;
  size_t n = outputs_of(out, gradient, w);
  fprintf(f, "sample %s\nmodule %lld\n", w->t->s->text, (long long)cn_numel(w->model));
  for (size_t i = 0; i < w->k->ninputs; i++) case_describe(f, "in", w->k->c->in[w->k->input[i]]), fputc('\n', f);
  for (size_t i = 0; i < n; i++) {
    tolerance own = tolerance_of((int)cn_dtype_of(out[i]), scale_of(w, gradient[i])), other = own;
    if (gradient[i]) other = tolerance_of((int)cn_dtype_of(out[0]), scale_of(w, true));
    if (other.rtol > own.rtol) own = other;
    case_describe(f, w->random ? "random" : "out", out[i]);
    fprintf(f, " %g %g\n", own.rtol, own.atol);
  }
  fprintf(f, "end\n");
  good = case_bytes(f, w->model);
  for (size_t i = 0; i < w->k->ninputs && good; i++) good = case_bytes(f, w->k->c->in[w->k->input[i]]);
  for (size_t i = 0; i < n && good; i++) good = case_bytes(f, out[i]);
  return good;
}

/* onnxruntime has no complex numbers; the importer reads them. */
static bool is_complex(const written *w)
{
  bool found = false;
  for (size_t i = 0; i < w->k->ninputs; i++) found |= cn_dtype_is_complex(cn_dtype_of(w->k->c->in[w->k->input[i]]));
  return found;
}

static enum outcome write_case(const written *w)
{
  const char *folder = getenv("CAIRN_ONNX_OUT");
  char path[600];
  if (!folder || exception_for("onnx values", w->t->s) || is_complex(w)) return PASS;
  snprintf(path, sizeof path, "%s/%s.cases", folder, w->t->family->name);
  FILE *f = fopen(path, "ab");
  bool good = f && put_case(f, w);
  if (f && fclose(f)) good = false;
  return good ? PASS : trial_fail(w->t, "%s cannot be written", path);
}

/* ---- by cairn's own importer ---- */

static enum outcome compare(const written *w, cn_tensor *const *have)
{
  cn_tensor *out[MOST_OUTPUTS];
  bool gradient[MOST_OUTPUTS];
  char detail[300] = "";
  size_t n = outputs_of(out, gradient, w);
  for (size_t i = 0; i < n && !w->random; i++)
    if (!same_tensors(have[i], out[i], 4 * scale_of(w, gradient[i]), detail, sizeof detail))
      return trial_fail(w->t, "read again: output %zu: %s", i, detail);
  return PASS;
}

static enum outcome read_again(const written *w)
{
  cn_tensor *inputs[SAMPLE_INPUTS], *have[2 * MOST_OUTPUTS] = {NULL}; /* new values of inputs, too */
  const char *reason = exception_for("onnx again", w->t->s);
  if (reason) return PASS;
  cn_onnx *m = cn_onnx_load_memory(cn_data(w->model), (size_t)cn_numel(w->model));
  for (size_t i = 0; i < w->k->ninputs; i++) inputs[i] = w->k->c->in[w->k->input[i]];
  int saved = cn_no_grad_begin(), status = m ? cn_onnx_run(have, m, inputs) : -1;
  cn_no_grad_end(saved);
  enum outcome o = status ? trial_fail(w->t, "read again: %s", cn_err_message()) : compare(w, have);
  cn_onnx_free(m);
  return o;
}

/* ---- writing ---- */

/* Does the message name an op that has no form there? */
static bool is_refusal(const char *message)
{
  char name[64];
  const char *at = strstr(message, "onnx: ");
  if (cn_err() != CN_ERR_UNSUPPORTED || !at) return false;
  snprintf(name, sizeof name, "%.*s", (int)strcspn(at + 6, ":"), at + 6);
  return cn_op_find(name) && cn_onnx_problem(cn_op_find(name));
}

static enum outcome write_graph(written *w, const cn_graph *g)
{
  const char *reason = exception_for("onnx", w->t->s);
  w->random = cn_graph_draws(g) > 0;
  const char *asked = getenv("CAIRN_ONNX_OPSET");
  int opset = asked ? (int)strtol(asked, NULL, 10) : w->random ? 21 : 0; /* onnxruntime's random numbers end there */
  w->model = cn_onnx_bytes(g, .writes = true, .opset = opset);
  if (!w->model && reason && cn_err() == CN_ERR_UNSUPPORTED) return cn_err_clear(), trial_skip(w->t, "%s", reason);
  if (!w->model && is_refusal(cn_err_message())) return cn_err_clear(), trial_skip(w->t, "it has no form");
  if (!w->model) return trial_fail(w->t, "%s", cn_err_message());
  enum outcome o = write_case(w);
  return o == PASS ? read_again(w) : o;
}

static enum outcome drive(const trial *t, bool grad)
{
  call c;
  call_result want = {0};
  traced k;
  cn_tensor *inputs[SAMPLE_INPUTS];
  if (call_make(&c, t->s, &(call_setup){.grad = grad})) return trial_fail(t, "inputs: %s", cn_err_message());
  cn_seed(1);
  enum outcome o = PASS;
  if (call_run_grad(&want, &c, NULL, NULL)) o = trial_fail(t, "eager: %s", cn_err_message());
  traced_plan(&k, &c, &want);
  for (size_t i = 0; i < k.ninputs; i++) inputs[i] = c.in[k.input[i]];
  cn_seed(1);
  cn_graph *g = o == PASS && k.noutputs ? cn_trace(traced_run, k.noutputs, inputs, k.ninputs, &k) : NULL;
  written w = {.t = t, .k = &k, .want = &want};
  if (g) o = write_graph(&w, g);
  else if (o == PASS && k.noutputs && cn_err() == CN_ERR_CAPTURE && exception_for("data dependent", t->s))
    cn_err_clear();
  else if (o == PASS && k.noutputs) o = trial_fail(t, "trace: %s", cn_err_message());
  cn_err_clear();
  cn_graph_free(g);
  call_result_free(&want);
  call_free(&c);
  return o;
}

enum outcome drive_onnx(const trial *t)
{
  const char *values = exception_for("stablehlo values", t->s);
  if (t->s->must_fail || t->s->large || sample_is_sparse(t->s)) return PASS;
  if (values) return trial_skip(t, "%s", values);
  enum outcome o = drive(t, false);
  bool grad = differentiable(t->s) && !sample_has_range(t->s, '!', false);
  return o == PASS && grad && !getenv("CAIRN_ONNX_FORWARD") ? drive(t, true) : o;
}
