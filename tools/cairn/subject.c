/* subject.c: see subject.h. */
#include "subject.h"

#include <cairn/cairn.h>
#include <cairn/ext/graph.h>
#include <cairn/ext/system.h>
#include <limits.h>
#include <string.h>

#include "command.h"

/* ---- one run ---- */

/* A loss that such an output may have: of classes, or of what comes next, else of numbers. */
static cn_tensor *loss_of(cn_tensor *y)
{
  int n = cn_ndim(y);
  if (n == 3) y = cn_reshape(y, CN_SHAPE(-1, cn_size(y, 2)));
  if (n == 2 || n == 3) return cn_cross_entropy(y, cn_zeros(CN_SHAPE(cn_size(y, 0)), .dtype = CN_I64));
  return cn_mean(cn_mul(y, y));
}

static int run_net(cn_compile_call *call)
{
  subject *s = call->payload;
  if (s->optim) cn_optim_zero_grad(s->optim);
  cn_tensor *y = cn_forward_one(s->m.net, call->inputs, call->ninputs);
  if (y && s->optim) {
    y = loss_of(y);
    cn_backward(y);
    cn_optim_step(s->optim);
  }
  call->outputs[0] = y;
  return cn_err();
}

static int run_graph(const subject *s)
{
  size_t n = cn_graph_outputs(s->graph);
  cn_tensor **outputs = cn_alloc((n + 1) * sizeof *outputs);
  int status = outputs ? cn_graph_run(outputs, s->graph, s->inputs) : cn_err();
  cn_free(outputs, (n + 1) * sizeof *outputs);
  return status;
}

int subject_run(subject *s)
{
  cn_tensor *y = NULL;
  cn_compile_call call = {.inputs = s->inputs, .ninputs = s->ninputs, .outputs = &y, .noutputs = 1, .payload = s};
  cn_scope *scope = cn_scope_begin();
  int saved = s->optim ? 0 : cn_no_grad_begin();
  int status = s->graph ? run_graph(s) : s->compiled ? cn_compiled_call(s->compiled, &call) : run_net(&call);
  if (!s->optim) cn_no_grad_end(saved);
  cn_scope_end(scope);
  return status;
}

/* ---- what runs ---- */

static cn_tensor *random_input(cn_dtype dtype, const int64_t *shape, size_t ndim)
{
  bool floats = cn_dtype_is_float(dtype);
  return floats ? cn_randn(shape, ndim, .dtype = dtype) : cn_zeros(shape, ndim, .dtype = dtype);
}

static int room_for_inputs(subject *s, size_t n)
{
  s->ninputs = n;
  s->inputs = cn_alloc_zero((n + 1) * sizeof *s->inputs);
  return s->inputs ? CN_OK : cn_err();
}

static int open_graph(subject *s, const char *path)
{
  if (!(s->graph = cn_graph_load(path))) return cn_err();
  int status = room_for_inputs(s, cn_graph_inputs(s->graph));
  for (size_t i = 0; i < s->ninputs && !status; i++) {
    cn_value_info v = {sizeof v};
    status = cn_graph_value_at(&v, s->graph, cn_graph_input(s->graph, i));
    cn_scope *scope = cn_scope_begin();
    if (!status) s->inputs[i] = cn_keep(random_input((cn_dtype)v.dtype, v.shape, (size_t)v.ndim));
    cn_scope_end(scope);
    if (!i) memcpy(s->shape, v.shape, sizeof s->shape), s->ndim = (size_t)v.ndim;
  }
  return status ? status : cn_err();
}

/* ---- graphs ---- */

static int traced(cn_tensor **outputs, cn_tensor *const *inputs, void *payload)
{
  cn_compile_call call = {.inputs = inputs, .ninputs = 1, .outputs = outputs, .noutputs = 1, .payload = payload};
  return run_net(&call);
}

/* Attention with its projections stays in parts, which are products. */
static bool is_whole(const cn_op *op, void *payload)
{
  (void)payload;
  return op != cn_op_find("multi_head_attention");
}

/* The graph of a run, as calls of ops: nothing is computed. */
static int trace(subject *s)
{
  cn_scope *scope = cn_scope_begin();
  int saved = s->optim ? 0 : cn_no_grad_begin();
  cn_graph *g = cn_trace(traced, 1, s->inputs, 1, s);
  if (!s->optim) cn_no_grad_end(saved);
  cn_scope_end(scope);
  if (g) cn_module_name_states(s->m.net, g);
  if (g && cn_graph_lift(g, is_whole, NULL) < 0) {
    cn_graph_free(g);
    return cn_err();
  }
  s->graph = g;
  return cn_err();
}

/* Inputs of floats, or of whole numbers where the net takes no others. */
static int find_input(subject *s, bool tracing)
{
  int status = room_for_inputs(s, 1);
  for (int whole = 0; whole < 2 && !status; whole++) {
    cn_scope *scope = cn_scope_begin();
    cn_release(s->inputs[0]);
    s->inputs[0] = cn_keep(random_input(whole ? CN_I64 : CN_F32, s->shape, s->ndim));
    cn_scope_end(scope);
    status = !s->inputs[0] ? cn_err() : tracing ? trace(s) : subject_run(s);
    if (!status || whole || s->ndim != 2 || status == CN_ERR_MEMORY) break;
    cn_err_clear();
    status = CN_OK;
  }
  return status;
}

static int open_net(subject *s, const subject_wanted *w)
{
  char weights[COMMAND_PATH];
  int status = model_find(&s->m, weights, w->what);
  if (!status && w->sizes) status = cn_description_set(s->m.description, "net", "input", w->sizes);
  if (!status) s->m.net = cn_description_net(s->m.description);
  if (!s->m.net) return cn_err();
  cn_module_train(s->m.net, w->train);
  s->shape[0] = w->batch;
  s->ndim = model_sample(s->shape + 1, &s->m) + 1;
  if (!cn_err() && w->train) s->optim = cn_optim_sgd(s->m.net, .lr = 1e-6);
  if (!cn_err() && w->compiled) s->compiled = cn_compile(run_net);
  return cn_err() ? cn_err() : find_input(s, w->traced);
}

int subject_open(subject *s, const subject_wanted *w)
{
  const char *dot = strrchr(w->what, '.');
  if (dot && !strcmp(dot, ".safetensors") && cn_path_kind_of(w->what) == CN_PATH_FILE && !w->train) {
    int status = open_graph(s, w->what);
    if (s->graph) return status;
    cn_err_clear(); /* weights of a network that is described beside them */
  }
  return open_net(s, w);
}

void subject_close(subject *s)
{
  for (size_t i = 0; s->inputs && i < s->ninputs; i++) cn_release(s->inputs[i]);
  cn_free(s->inputs, (s->ninputs + 1) * sizeof *s->inputs);
  cn_compiled_free(s->compiled);
  cn_optim_free(s->optim);
  cn_graph_free(s->graph);
  model_close(&s->m);
}

int subject_count_runs(subject *s, int64_t asked, double seconds)
{
  enum { WARM = 3 };
  double least = 0;
  for (int i = 0; i < WARM; i++) {
    double begin = cn_clock(), took;
    if (subject_run(s)) return -1;
    took = cn_clock() - begin;
    if (!i || took < least) least = took;
  }
  double fit = least > 0 ? seconds / least : SUBJECT_RUNS;
  return asked ? (int)asked : fit < 3 ? 3 : fit > SUBJECT_RUNS ? SUBJECT_RUNS : (int)fit;
}

/* ---- options ---- */

bool subject_sizes(subject_wanted *w, const char *batch, const char **wrong)
{
  int64_t some[CN_MAX_DIMS];
  w->batch = 1;
  *wrong = batch;
  if (!command_whole(&w->batch, batch) || w->batch < 1 || w->batch > INT_MAX) return false;
  *wrong = w->sizes;
  return !w->sizes || command_sizes(some, CN_MAX_DIMS - 1, w->sizes);
}
