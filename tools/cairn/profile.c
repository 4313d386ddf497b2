/* profile.c: `cairn profile`: what a network's runs take on this machine, by op and by module, and what bounds them.
 *
 * Place in the flow: the network, or a saved graph, runs a few times under a profile; report.c adds up. Invariant: only
 * the sizes of inputs matter to what is measured, so they are random. */
#include <cairn/cairn.h>
#include <cairn/ext/graph.h>
#include <cairn/ext/system.h>
#include <cairn/optimisers.h>
#include <cairn/profile.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "model.h"
#include "report.h"

const char help_profile[] =
    "The network is a FILE.cfg, a name of the zoo, a checkpoint, or a graph that cn_graph_save wrote.\n"
    "\n"
    "  --input SIZES    of one sample: 3,224,224; for language models the number of tokens\n"
    "  --batch N        samples at a time; 1\n"
    "  --train          whole steps: forward, backward, SGD\n"
    "  --compiled       as one program\n"
    "  --threads N      so many threads; all\n"
    "  --runs N         so many runs; as many as take two seconds, at least 3\n"
    "  --depth N        modules inside of up to N others; 2\n"
    "  --rows N         so many ops; 20\n"
    "  --json FILE      all numbers\n"
    "  --trace FILE     the runs on a time line, for https://ui.perfetto.dev\n"
    "  --roofline FILE  a picture (.svg): what ops reach of what this machine lets them\n";

typedef struct wanted {
  const char *what, *sizes, *json, *trace, *roofline;
  int64_t batch, threads, runs, depth, rows;
  bool train, compiled;
} wanted;

/* What runs. */
typedef struct subject {
  model m;
  cn_graph *graph; /* owned; NULL: it is a network */
  cn_optim *optim; /* of training steps */
  cn_compiled *compiled;
  cn_tensor **inputs; /* owned, each of them too */
  size_t ninputs;
  int64_t shape[CN_MAX_DIMS];
  size_t ndim;
} subject;

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

static int run(subject *s)
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

/* Inputs of floats, or of whole numbers where the net takes no others. */
static int find_input(subject *s)
{
  int status = room_for_inputs(s, 1);
  for (int whole = 0; whole < 2 && !status; whole++) {
    cn_scope *scope = cn_scope_begin();
    cn_release(s->inputs[0]);
    s->inputs[0] = cn_keep(random_input(whole ? CN_I64 : CN_F32, s->shape, s->ndim));
    cn_scope_end(scope);
    status = s->inputs[0] ? run(s) : cn_err();
    if (!status || whole || s->ndim != 2 || status == CN_ERR_MEMORY) break;
    cn_err_clear();
    status = CN_OK;
  }
  return status;
}

static int open_net(subject *s, const wanted *w)
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
  return cn_err() ? cn_err() : find_input(s);
}

static int open_subject(subject *s, const wanted *w)
{
  const char *dot = strrchr(w->what, '.');
  if (dot && !strcmp(dot, ".safetensors") && cn_path_kind_of(w->what) == CN_PATH_FILE && !w->train) {
    int status = open_graph(s, w->what);
    if (s->graph) return status;
    cn_err_clear(); /* weights of a network that is described beside them */
  }
  return open_net(s, w);
}

static void close_subject(subject *s)
{
  for (size_t i = 0; s->inputs && i < s->ninputs; i++) cn_release(s->inputs[i]);
  cn_free(s->inputs, (s->ninputs + 1) * sizeof *s->inputs);
  cn_compiled_free(s->compiled);
  cn_optim_free(s->optim);
  cn_graph_free(s->graph);
  model_close(&s->m);
}

/* ---- measuring ---- */

enum { MOST_RUNS = 200, WARM = 3 };

/* How many runs take two seconds, after a few that warm up. */
static int count_runs(subject *s, int64_t asked)
{
  double least = 0;
  for (int i = 0; i < WARM; i++) {
    double begin = cn_clock(), took;
    if (run(s)) return -1;
    took = cn_clock() - begin;
    if (!i || took < least) least = took;
  }
  double fit = least > 0 ? 2 / least : MOST_RUNS;
  return asked ? (int)asked : fit < 3 ? 3 : fit > MOST_RUNS ? MOST_RUNS : (int)fit;
}

static cn_profile *profile_runs(subject *s, int runs, double *begins)
{
  cn_profile *p = cn_profile_begin(CN_PROFILE_SHAPES | CN_PROFILE_COSTS | CN_PROFILE_MODULES | CN_PROFILE_NODES |
                                   CN_PROFILE_MEMORY | CN_PROFILE_DEVICES);
  int status = p ? CN_OK : cn_err();
  for (int i = 0; i < runs && !status; i++) {
    begins[i] = cn_clock();
    status = run(s);
  }
  begins[runs] = cn_clock();
  if (p && !status) status = cn_profile_end(p);
  if (!status) return p;
  cn_profile_free(p);
  return NULL;
}

static int write_text(const char *path, const cn_text *t)
{
  cn_writer *out = t->failed ? NULL : cn_writer_open(path);
  if (!out) return cn_err() ? cn_err() : CN_ERR_MEMORY;
  cn_writer_put(out, t->s ? t->s : "", t->n);
  return cn_writer_commit(out);
}

static int write_all(const report *r, const cn_profile *p, const wanted *w)
{
  cn_text table = {0}, json = {0}, trace = {0}, picture = {0};
  int status = report_print(&table, r, (int)w->depth, (int)w->rows);
  if (!status) fputs(table.s ? table.s : "", stdout);
  if (!status && w->json && !(status = report_json(&json, r))) status = write_text(w->json, &json);
  if (!status && w->trace && !(status = report_trace(&trace, p))) status = write_text(w->trace, &trace);
  if (!status && w->roofline && !(status = roofline_svg(&picture, r))) status = write_text(w->roofline, &picture);
  cn_text_free(&table);
  cn_text_free(&json);
  cn_text_free(&trace);
  cn_text_free(&picture);
  return status;
}

static int measure(subject *s, const wanted *w)
{
  double begins[MOST_RUNS + 1];
  cn_memory_stats stats;
  report r = {.what = w->what, .ndim = s->ndim, .threads = cn_num_threads()};
  r.how = w->train ? w->compiled ? "training steps, compiled" : "training steps"
          : w->compiled ? "forward, compiled" : s->graph ? "a graph" : "forward";
  r.planned = w->compiled || s->graph;
  memcpy(r.shape, s->shape, sizeof r.shape);
  if ((r.runs = count_runs(s, w->runs)) < 0) return cn_err();
  cn_memory_reset_peak();
  cn_profile *p = profile_runs(s, r.runs, begins);
  cn_memory_get_stats(&stats);
  r.held = stats.peak;
  int status = p ? cn_device_measure(&r.gflops, &r.gbps, CN_CPU) : cn_err();
  if (!status) status = report_of(&r, p, begins);
  if (!status) status = write_all(&r, p, w);
  report_free(&r);
  cn_profile_free(p);
  return status;
}

/* ---- the command ---- */

static bool whole(int64_t *value, const char *text, int64_t least, int64_t most)
{
  return command_whole(value, text) && *value >= least && *value <= most;
}

int command_profile(int argc, char **argv)
{
  wanted w = {.batch = 1, .depth = 2, .rows = 20};
  const char *batch = NULL, *threads = NULL, *runs = NULL, *depth = NULL, *rows = NULL;
  int64_t some[CN_MAX_DIMS];
  const command_flag flags[] = {
    {"--input", &w.sizes, NULL}, {"--batch", &batch, NULL},    {"--train", NULL, &w.train},
    {"--compiled", NULL, &w.compiled}, {"--threads", &threads, NULL}, {"--runs", &runs, NULL},
    {"--depth", &depth, NULL},   {"--rows", &rows, NULL},      {"--json", &w.json, NULL},
    {"--trace", &w.trace, NULL}, {"--roofline", &w.roofline, NULL}, {NULL, NULL, NULL}};
  int n = command_parse(argc, argv, flags, &w.what, 1);
  if (n < 0) return 2;
  if (!n) return command_missing(argv[0], "which network?");
  if (!whole(&w.batch, batch, 1, INT_MAX)) return command_usage(argv[0], batch);
  if (!whole(&w.threads, threads, 0, 4096)) return command_usage(argv[0], threads);
  if (!whole(&w.runs, runs, 0, MOST_RUNS) || (runs && !w.runs)) return command_usage(argv[0], runs);
  if (!whole(&w.depth, depth, 0, INT_MAX)) return command_usage(argv[0], depth);
  if (!whole(&w.rows, rows, 0, INT_MAX)) return command_usage(argv[0], rows);
  if (w.sizes && !command_sizes(some, CN_MAX_DIMS - 1, w.sizes)) return command_usage(argv[0], w.sizes);
  if (w.threads) cn_set_num_threads((int)w.threads);
  subject s = {.m = {NULL, NULL, false}};
  int status = open_subject(&s, &w);
  if (!status) status = measure(&s, &w);
  close_subject(&s);
  return status || cn_err() ? command_failed() : 0;
}
