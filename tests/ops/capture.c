/* capture.c: the driver that records a sample, forward and gradient, as a graph, and runs the graph on the sample's
 * tensors: it must give what eager gives, to the bit, twice, and survive its own text form.
 *
 * Invariant: a call that depends on data in C may refuse to be captured, and nothing else may (the list of "data
 * dependent" in exceptions.c). What fails by its values is captured all the same and fails when it runs. */
#include <cairn/ext/graph.h>
#include <string.h>

#include "tensor/tensor.h"
#include "traced.h"

int traced_run(cn_tensor **outputs, cn_tensor *const *inputs, void *payload)
{
  const traced *k = payload;
  call c = *k->c;
  call_result r = {0};
  size_t n = 0;
  for (int i = 0; i < c.nin; i++) c.in[i] = cn_keep(c.in[i]);
  for (size_t i = 0; i < k->ninputs; i++) {
    bool grad = cn_needs_grad(k->c->in[k->input[i]]);
    cn_tensor *t = grad ? cn_requires_grad(cn_detach(inputs[i]), true) : inputs[i];
    call_set_input(&c, k->input[i], t);
  }
  int status = cn_err();
  if (!status) status = call_run_grad(&r, &c, NULL, NULL);
  for (size_t i = 0; !status && i < k->nout; i++)
    if (k->has_out[i]) outputs[n++] = cni_scope_add(cn_keep(r.out[i]));
  for (int i = 0; !status && i < SAMPLE_INPUTS; i++)
    if (k->has_grad[i]) outputs[n++] = cni_scope_add(cn_keep(r.grad[i]));
  call_result_free(&r);
  call_free(&c);
  return status;
}

void traced_plan(traced *k, const call *c, const call_result *want)
{
  memset(k, 0, sizeof *k);
  k->c = c;
  k->nout = want->nout;
  for (int i = 0; i < c->nin; i++)
    if (c->in[i] && !c->in[i]->d.weak) k->input[k->ninputs++] = i;
  for (size_t i = 0; i < want->nout; i++) k->noutputs += k->has_out[i] = want->out[i] != NULL;
  for (int i = 0; i < SAMPLE_INPUTS; i++) k->noutputs += k->has_grad[i] = want->grad[i] != NULL;
}

static enum outcome compare(const trial *t, const traced *k, cn_tensor *const *have, const call_result *want,
                            const char *what)
{
  char detail[300] = "";
  size_t n = 0;
  for (size_t i = 0; i < k->nout; i++)
    if (k->has_out[i] && !same_tensors(have[n++], want->out[i], 0, detail, sizeof detail))
      return trial_fail(t, "%s: result %zu: %s", what, i, detail);
  for (int i = 0; i < SAMPLE_INPUTS; i++)
    if (k->has_grad[i] && !same_tensors(have[n++], want->grad[i], 0, detail, sizeof detail))
      return trial_fail(t, "%s: gradient of input %d: %s", what, i, detail);
  return PASS;
}

/* The graph's ops through the door, with gradients: as eager, to the bit. */
static enum outcome call_again(const trial *t, const traced *k, const cn_graph *g, const call_result *want, bool grad,
                               const char *what)
{
  cn_tensor *inputs[SAMPLE_INPUTS], *outputs[MOST_OUTPUTS] = {NULL};
  call_result r = {.nout = k->nout};
  size_t n = 0;
  int saved = grad ? cn_enable_grad_begin() : cn_no_grad_begin();
  for (size_t i = 0; i < k->ninputs; i++) inputs[i] = k->c->in[k->input[i]];
  cn_seed(1);
  int status = cn_graph_replay(outputs, g, inputs);
  for (size_t i = 0; !status && grad && i < k->nout; i++)
    if (k->has_out[i]) r.out[i] = cn_keep(outputs[n++]);
  if (!status && grad) status = call_grad(&r, k->c, NULL, false);
  cn_no_grad_end(saved);
  enum outcome o = status ? trial_fail(t, "%s: %s", what, cn_err_message()) : compare(t, k, outputs, want, what);
  for (int i = 0; grad && o == PASS && i < SAMPLE_INPUTS; i++) {
    char detail[300] = "";
    if (!r.grad[i] != !want->grad[i]) o = trial_fail(t, "%s: gradient of input %d is there, or is not", what, i);
    else if (r.grad[i] && !same_tensors(r.grad[i], want->grad[i], 0, detail, sizeof detail))
      o = trial_fail(t, "%s: gradient of input %d: %s", what, i, detail);
  }
  call_result_free(&r);
  return o;
}

static enum outcome replay(const trial *t, const traced *k, cn_graph *g, const call_result *want, const char *what)
{
  cn_tensor *inputs[SAMPLE_INPUTS], *outputs[MOST_OUTPUTS] = {NULL};
  for (size_t i = 0; i < k->ninputs; i++) inputs[i] = k->c->in[k->input[i]];
  cn_seed(1);
  if (cn_graph_verify(g)) return trial_fail(t, "%s: verify: %s", what, cn_err_message());
  if (cn_graph_run(outputs, g, inputs)) return trial_fail(t, "%s: %s", what, cn_err_message());
  return compare(t, k, outputs, want, what);
}

/* Shows the first line in which two texts differ. */
static enum outcome differ(const trial *t, const char *a, const char *b)
{
  size_t same = 0;
  while (a[same] && a[same] == b[same]) same++;
  while (same && a[same - 1] != '\n') same--;
  return trial_fail(t, "the text form does not read back as itself:\n    %.*s\n    %.*s",
                    (int)strcspn(a + same, "\n"), a + same, (int)strcspn(b + same, "\n"), b + same);
}

/* The text form, read back, must be the same text and run alike. */
static enum outcome reread(const trial *t, const traced *k, cn_graph *g, const call_result *want)
{
  char *text = cn_graph_to_string(g), *again = NULL;
  cn_graph *copy = text ? cn_graph_parse(text) : NULL;
  enum outcome o = PASS;
  if (!copy) o = trial_fail(t, "text: %s", cn_err_message());
  for (size_t i = 0; copy && i < cn_graph_states(g); i++) cn_graph_bind(copy, i, cn_graph_state(g, i));
  if (copy) again = cn_graph_to_string(copy);
  if (o == PASS && (!again || strcmp(text, again))) o = differ(t, text, again ? again : "");
  if (o == PASS) o = replay(t, k, copy, want, "from its text");
  cn_graph_free(copy);
  cn_string_free(text);
  cn_string_free(again);
  return o;
}

/* ---- lifted ---- */

/* The op alone, without its gradient: what lift folds into one node again. */
static int run_forward(cn_tensor **outputs, cn_tensor *const *inputs, void *payload)
{
  const traced *k = payload;
  call c = *k->c;
  call_result r = {0};
  size_t n = 0;
  int saved = cn_no_grad_begin();
  for (int i = 0; i < c.nin; i++) c.in[i] = cn_keep(c.in[i]);
  for (size_t i = 0; i < k->ninputs; i++) call_set_input(&c, k->input[i], inputs[i]);
  int status = call_run(&r, &c, NULL);
  for (size_t i = 0; !status && i < k->nout; i++)
    if (k->has_out[i]) outputs[n++] = cni_scope_add(cn_keep(r.out[i]));
  call_result_free(&r);
  call_free(&c);
  cn_no_grad_end(saved);
  return status;
}

static enum outcome lift(const trial *t, const call *c, const call_result *want)
{
  traced k;
  cn_tensor *inputs[SAMPLE_INPUTS];
  traced_plan(&k, c, want);
  k.noutputs = 0;
  memset(k.has_grad, 0, sizeof k.has_grad);
  for (size_t i = 0; i < k.nout; i++) k.noutputs += k.has_out[i];
  for (size_t i = 0; i < k.ninputs; i++) inputs[i] = c->in[k.input[i]];
  cn_graph *g = cn_trace(run_forward, k.noutputs, inputs, k.ninputs, &k);
  if (!g) return trial_fail(t, "trace without gradient: %s", cn_err_message());
  enum outcome o = cn_graph_lift(g, NULL, NULL) < 0 ? trial_fail(t, "lift: %s", cn_err_message()) : PASS;
  if (o == PASS) o = replay(t, &k, g, want, "lifted");
  if (o == PASS) o = call_again(t, &k, g, want, true, "lifted, called again");
  if (o == PASS) o = reread(t, &k, g, want);
  if (o == PASS && cn_graph_optimise(g) < 0) o = trial_fail(t, "lifted, optimise: %s", cn_err_message());
  if (o == PASS) o = replay(t, &k, g, want, "lifted and optimised");
  cn_graph_free(g);
  return o;
}

static enum outcome capture(const trial *t, const call *c, const call_result *want)
{
  traced k;
  cn_tensor *inputs[SAMPLE_INPUTS];
  traced_plan(&k, c, want);
  for (size_t i = 0; i < k.ninputs; i++) inputs[i] = c->in[k.input[i]];
  if (!k.noutputs) return PASS;
  cn_graph *g = cn_trace(traced_run, k.noutputs, inputs, k.ninputs, &k);
  if (!g && cn_err() == CN_ERR_CAPTURE && exception_for("data dependent", t->s)) return PASS;
  if (!g) return trial_fail(t, "trace: %s", cn_err_message());
  enum outcome o = replay(t, &k, g, want, "replay");
  if (o == PASS) o = replay(t, &k, g, want, "second replay");
  if (o == PASS) o = call_again(t, &k, g, want, false, "called again");
  if (o == PASS) o = reread(t, &k, g, want);
  if (o == PASS && cn_graph_remove_dead(g) < 0) o = trial_fail(t, "remove dead: %s", cn_err_message());
  if (o == PASS) o = replay(t, &k, g, want, "without dead nodes");
  if (o == PASS && cn_graph_optimise(g) < 0) o = trial_fail(t, "optimise: %s", cn_err_message());
  if (o == PASS) o = replay(t, &k, g, want, "optimised");
  if (o == PASS) o = reread(t, &k, g, want);
  if (o == PASS && cn_graph_fuse(g, true) < 0) o = trial_fail(t, "fuse: %s", cn_err_message());
  if (o == PASS) o = replay(t, &k, g, want, "fused");
  cn_graph_free(g);
  return o == PASS ? lift(t, c, want) : o;
}

/* ---- what must fail ---- */

static int run_failing(cn_tensor **outputs, cn_tensor *const *inputs, void *payload)
{
  const traced *k = payload;
  call c = *k->c;
  call_result r = {0};
  for (int i = 0; i < c.nin; i++) c.in[i] = cn_keep(c.in[i]);
  for (size_t i = 0; i < k->ninputs; i++) call_set_input(&c, k->input[i], inputs[i]);
  int status = call_run(&r, &c, NULL);
  for (size_t i = 0; !status && i < k->noutputs; i++) outputs[i] = cni_scope_add(cn_keep(r.out[i]));
  call_result_free(&r);
  call_free(&c);
  return status;
}

/* The call fails with that status when it is run; traced, it fails then, or when the graph runs. */
static enum outcome fail_captured(const trial *t, const call *c, int status)
{
  traced k;
  cn_tensor *inputs[SAMPLE_INPUTS], *outputs[MOST_OUTPUTS] = {NULL};
  traced_plan(&k, c, &(call_result){0});
  k.noutputs = t->s->info->list_result ? 0 : (size_t)t->s->info->nresults;
  for (size_t i = 0; i < k.ninputs; i++) inputs[i] = c->in[k.input[i]];
  cn_graph *g = cn_trace(run_failing, k.noutputs, inputs, k.ninputs, &k);
  int have = g ? cn_graph_remove_dead(g) : cn_err();
  if (have == CN_ERR_CAPTURE && exception_for("data dependent", t->s)) have = status;
  if (g && have >= 0) have = cn_graph_run(outputs, g, inputs);
  cn_graph_free(g);
  return have == status ? PASS : trial_fail(t, "captured, it is %d (%s), not %d", have, cn_err_message(), status);
}

static enum outcome must_fail(const trial *t)
{
  call c;
  call_result r = {0};
  if (call_make(&c, t->s, &(call_setup){0})) return cn_err_clear(), PASS; /* not even the inputs */
  int status = call_run(&r, &c, NULL);
  cn_err_clear();
  cn_scope *scope = cn_scope_begin();
  enum outcome o = status ? fail_captured(t, &c, status) : trial_fail(t, "must be an error, but is not");
  cn_err_clear();
  cn_scope_end(scope);
  call_result_free(&r);
  call_free(&c);
  return o;
}

enum outcome drive_capture(const trial *t)
{
  call c;
  call_result want = {0};
  const char *reason = exception_for("capture", t->s);
  if (t->s->must_fail) return must_fail(t);
  if (reason) return trial_skip(t, "%s", reason);
  bool grad = differentiable(t->s) && !sample_has_range(t->s, '!', false);
  if (call_make(&c, t->s, &(call_setup){.grad = grad})) return trial_fail(t, "inputs: %s", cn_err_message());
  cn_seed(1);
  int status = call_run_grad(&want, &c, NULL, NULL);
  cn_scope *scope = cn_scope_begin();
  enum outcome o = status ? trial_fail(t, "%s", cn_err_message()) : capture(t, &c, &want);
  cn_err_clear();
  cn_scope_end(scope);
  call_result_free(&want);
  call_free(&c);
  return o;
}
