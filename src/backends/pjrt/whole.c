/* whole.c: graphs as one program: a compiled training step is one launch.
 *
 * Place in the flow: graph/whole.c asks for an executable when it makes a plan, and launches it. States that a run
 * writes are given away with it: the program computes their new values in their memory, which is theirs already when
 * the launch returns. How arguments lie on a mesh is known at the launch: until then the text has a mark in each place,
 * and it is compiled once for each way. Invariant: a value that anything else holds is never given away. */
#include <stdio.h>
#include <string.h>

#include "program.h"

#define host cni_pjrt_host

typedef struct argument {
  int dtype, ndim;
  bool weak;
  int64_t shape[CN_MAX_DIMS];
  int final; /* which of the wanted values it becomes; -1: it is not written, or by none of them */
} argument;

typedef struct whole {
  pjrt_code *code; /* on a mesh: for arguments that lie as `splits` says, NULL at first */
  size_t ninputs, nstates, nwanted;
  bool draws;
  pjrt_text text;       /* on a mesh, with marks "{#3}" for how argument 3 lies */
  cn_partition *splits; /* per argument; per wanted value what the op shard says */
  argument args[];      /* states, then inputs */
} whole;

static size_t whole_bytes(size_t ninputs, size_t nstates)
{
  return sizeof(whole) + (ninputs + nstates) * sizeof(argument);
}

static size_t split_bytes(const whole *w) { return (w->ninputs + w->nstates + w->nwanted) * sizeof *w->splits; }

/* ---- what a program takes ---- */

static int wanted_place(const cn_whole_graph *g, int value)
{
  for (size_t i = 0; value >= 0 && i < g->nwanted; i++)
    if (g->wanted[i] == value) return (int)i;
  return -1;
}

static int describe(argument *a, const cn_whole_graph *g, int value, int final)
{
  cn_value_info v = {.size = sizeof v};
  int status = host->graph->value_at(&v, g->graph, value);
  if (status) return status;
  *a = (argument){.dtype = v.dtype, .ndim = v.ndim, .weak = v.weak, .final = wanted_place(g, final)};
  memcpy(a->shape, v.shape, sizeof a->shape);
  return CN_OK;
}

/* A program of types that the device has none for is run node by node, and those nodes on the host. */
static int check_types(const whole *w, const cn_whole_graph *g)
{
  for (size_t i = 0; i < w->ninputs + w->nstates; i++)
    if (!cni_pjrt_type(w->args[i].dtype)) return CN_REFUSED;
  for (size_t i = 0; i < g->nwanted; i++) {
    cn_value_info v = {.size = sizeof v};
    int status = host->graph->value_at(&v, g->graph, g->wanted[i]);
    if (status) return status;
    if (!cni_pjrt_type(v.dtype)) return CN_REFUSED;
  }
  return CN_OK;
}

/* ---- meshes ---- */

enum { MARK = 32 };

/* The argument that a wanted value is the new value of; -1: none. */
static int source_of(const whole *w, size_t wanted)
{
  for (size_t i = 0; i < w->ninputs + w->nstates; i++)
    if (w->args[i].final == (int)wanted) return (int)i;
  return -1;
}

/* What the op shard says of a wanted value that it makes; else whole. */
static int split_said(cn_partition *p, const cn_mesh *mesh, const cn_graph *g, int value)
{
  cn_value_info v = {.size = sizeof v};
  cn_graph_node n = {.size = sizeof n};
  memset(p, -1, sizeof *p);
  int status = host->graph->value_at(&v, g, value);
  if (!status && v.kind == CN_VALUE_RESULT) status = host->graph->node_at(&n, g, v.node);
  if (status || v.kind != CN_VALUE_RESULT || n.nsubs || strcmp(n.name, "shard") != 0) return status;
  return host->make->partition_read(p, mesh, n.args[1].u.s, v.ndim, v.shape);
}

static char *marked_text(whole *w, int index, const cn_whole_graph *g, cn_stablehlo_opts *opts)
{
  size_t n = w->ninputs + w->nstates, bytes = n * (sizeof(char *) + MARK) + 1;
  const char **texts = host->memory(bytes);
  char *room = (char *)(texts + n);
  int status = texts && (w->splits = host->memory(split_bytes(w))) ? CN_OK : CN_ERR_MEMORY;
  opts->mesh = cni_pjrt_mesh(index), opts->shardy = cni_pjrt_shardy();
  for (size_t i = 0; i < n && !status; i++) {
    snprintf(room + i * MARK, MARK, "{#%zu}", i);
    texts[i] = room + i * MARK;
  }
  for (size_t i = 0; i < w->nwanted && !status; i++)
    status = split_said(&w->splits[n + i], opts->mesh, g->graph, g->wanted[i]);
  opts->shardings = texts, opts->nshardings = n;
  char *text = status ? NULL : host->make->stablehlo(g->graph, opts);
  if (text) cni_pjrt_put(&w->text, text, strlen(text) + 1);
  if (texts) host->free_memory(texts, bytes);
  return text;
}

/* The text with the arguments' splits in place of the marks. */
static void fill_marks(pjrt_text *to, const whole *w, int index)
{
  char sharding[PJRT_SHARDING];
  const cn_mesh *mesh = cni_pjrt_mesh(index);
  const char *from = w->text.s, *mark;
  while ((mark = strstr(from, "{#"))) {
    size_t i = 0;
    cni_pjrt_put(to, from, (size_t)(mark - from));
    for (from = mark + 2; *from != '}'; from++) i = i * 10 + (size_t)(*from - '0');
    from++;
    cni_pjrt_sharding(sharding, mesh, &w->splits[i], w->args[i].ndim);
    cni_pjrt_put(to, sharding, strlen(sharding));
  }
  cni_pjrt_put(to, from, strlen(from));
}

/* The code for arguments that lie as these do. */
static int code_for(whole *w, int index, pjrt_value *const *args)
{
  bool same = w->code != NULL;
  pjrt_text text = {0};
  if (!w->text.s) return CN_OK;
  for (size_t i = 0; i < w->ninputs + w->nstates; i++) {
    same = same && !memcmp(&w->splits[i], &args[i]->split, sizeof args[i]->split);
    w->splits[i] = args[i]->split;
  }
  if (same) return CN_OK;
  cni_pjrt_code_release(w->code);
  w->code = NULL;
  fill_marks(&text, w, index);
  int status = text.failed ? CN_ERR_MEMORY : cni_pjrt_code_find(&w->code, index, text.s, text.n, w->nwanted);
  if (!status) cni_pjrt_code_keep(w->code);
  cni_pjrt_text_free(&text);
  return status;
}

/* How results lie. */
static void split_results(pjrt_value **out, const whole *w, pjrt_value *const *args)
{
  for (size_t i = 0; i < w->nwanted && w->text.s; i++) {
    int source = source_of(w, i);
    out[i]->split = source < 0 ? w->splits[w->ninputs + w->nstates + i] : args[source]->split;
  }
}

/* ---- compiling ---- */

/* No text: an op has no form there. The nodes then run one by one, which collects most of them into programs all the
 * same; why is told by CAIRN_VERBOSE=dispatch. */
static int compile(whole *w, int index, const cn_whole_graph *g)
{
  char message[256];
  cn_stablehlo_opts opts = {.size = sizeof opts, .donate = true, .wanted = g->wanted, .nwanted = g->nwanted};
  bool several = cni_pjrt_mesh(index) != NULL;
  char *text = several ? marked_text(w, index, g, &opts) : host->make->stablehlo(g->graph, &opts);
  if (!text) {
    int code = host->take_error(message, sizeof message);
    host->log(CN_LOG_DEBUG, "pjrt: a graph is run node by node: %s", message);
    return code == CN_ERR_MEMORY ? host->fail(code, "%s", message) : CN_REFUSED;
  }
  int status = w->text.failed ? CN_ERR_MEMORY : CN_OK;
  if (!several) status = cni_pjrt_code_find(&w->code, index, text, strlen(text), w->nwanted);
  host->make->string_free(text);
  if (!status && !several) cni_pjrt_code_keep(w->code);
  return status;
}

int cni_pjrt_graph_compile(int index, void **executable, const cn_whole_graph *g)
{
  size_t ninputs = host->graph->inputs(g->graph), nstates = host->graph->states(g->graph);
  whole *w = host->memory(whole_bytes(ninputs, nstates));
  if (!w) return CN_ERR_MEMORY;
  *w = (whole){.ninputs = ninputs, .nstates = nstates, .nwanted = g->nwanted};
  w->draws = host->graph->draws(g->graph) > 0;
  int status = g->nwanted ? CN_OK : CN_REFUSED;
  for (size_t i = 0; i < nstates && !status; i++)
    status = describe(&w->args[i], g, host->graph->state_value(g->graph, i), host->graph->state_final(g->graph, i));
  for (size_t i = 0; i < ninputs && !status; i++)
    status = describe(&w->args[nstates + i], g, host->graph->input(g->graph, i), host->graph->input_final(g->graph, i));
  if (!status) status = check_types(w, g);
  cni_pjrt_lock();
  if (!status) status = compile(w, index, g);
  cni_pjrt_unlock();
  if (!status) *executable = w;
  else cni_pjrt_graph_free(index, w);
  return status;
}

void cni_pjrt_graph_free(int index, void *executable)
{
  whole *w = executable;
  (void)index;
  cni_pjrt_lock();
  cni_pjrt_code_release(w->code);
  cni_pjrt_unlock();
  cni_pjrt_text_free(&w->text);
  if (w->splits) host->free_memory(w->splits, split_bytes(w));
  host->free_memory(w, whole_bytes(w->ninputs, w->nstates));
}

/* ---- launching ---- */

/* One run: values of states, inputs and random numbers, which of them stay, and results. */
typedef struct run {
  pjrt_value **args, **out;
  bool *keep;
  size_t nargs;
} run;

static int check_tensor(const argument *a, const cn_desc *d)
{
  bool same = d->dtype == a->dtype && d->ndim == a->ndim;
  for (int i = 0; i < a->ndim && same; i++) same = d->shape[i] == a->shape[i];
  return same ? CN_OK
              : host->fail(CN_ERR_SHAPE, "pjrt: a tensor has another type or shape than the program was compiled for");
}

static int add_argument(run *r, int index, const argument *a, const cn_tensor *t)
{
  const cn_desc *d = cn_desc_of(t);
  bool here = !d->weak && d->device != CN_CPU;
  int status = check_tensor(a, d);
  if (status) return status;
  if (here) cni_pjrt_numbered(d->device);
  pjrt_value *v = here ? cni_pjrt_read_tensor(index, d)
                       : cni_pjrt_value_of(index, d->dtype, d->ndim, d->shape, d->data,
                                           cn_element_bytes(d->dtype, d->numel));
  if (!v) return CN_ERR_DEVICE;
  r->args[r->nargs++] = v;
  return CN_OK;
}

static int add_number(run *r, int index, uint64_t number)
{
  pjrt_value *v = cni_pjrt_value_of(index, CN_U64, 0, NULL, &number, sizeof number);
  if (!v) return CN_ERR_MEMORY;
  r->args[r->nargs++] = v;
  return CN_OK;
}

/* All that the program reads, which may have to be computed first. */
static int gather(run *r, int index, const whole *w, const cn_graph_launch *l)
{
  bool waits = false;
  int status = CN_OK;
  for (size_t i = 0; i < w->nstates && !status; i++) status = add_argument(r, index, &w->args[i], l->states[i]);
  for (size_t i = 0; i < w->ninputs && !status; i++)
    status = add_argument(r, index, &w->args[w->nstates + i], l->in[i]);
  if (w->draws && !status) status = add_number(r, index, l->seed);
  if (w->draws && !status) status = add_number(r, index, l->offset);
  for (size_t i = 0; i < r->nargs && !status; i++) waits = waits || r->args[i]->pending;
  if (waits) status = cni_pjrt_flush(index);
  for (size_t i = 0; i < r->nargs; i++) /* held by its tensor and by this run: else somebody else needs it later */
    r->keep[i] = r->args[i]->refs > 2;
  for (size_t i = 0; i < w->nwanted && !status; i++) {
    const cn_desc *d = cn_desc_of(l->out[i]);
    if (!(r->out[i] = cni_pjrt_value_new(index, d->dtype, d->ndim, d->shape))) status = CN_ERR_MEMORY;
  }
  return status;
}

/* Results go where they were asked for; a state that was given away is what it became. */
static int hand_over(const run *r, int index, const whole *w, const cn_graph_launch *l)
{
  int status = CN_OK;
  for (size_t i = 0; i < w->nwanted && !status; i++)
    status = cni_pjrt_write_tensor(index, cn_desc_of(l->out[i]), r->out[i]);
  for (size_t i = 0; i < w->nstates + w->ninputs && !status; i++) {
    const cn_tensor *t = i < w->nstates ? l->states[i] : l->in[i - w->nstates];
    const cn_desc *d = cn_desc_of(t);
    bool given = w->args[i].final >= 0 && !r->keep[i] && d->device != CN_CPU && !d->weak;
    if (given) status = cni_pjrt_write_tensor(index, d, r->out[w->args[i].final]);
  }
  return status;
}

int cni_pjrt_graph_launch(int index, void *executable, const cn_graph_launch *l)
{
  whole *w = executable;
  size_t most = w->ninputs + w->nstates + 2, bytes = (most + w->nwanted) * sizeof(pjrt_value *) + most;
  char *room = host->memory(bytes);
  if (!room) return CN_ERR_MEMORY;
  memset(room, 0, bytes);
  run r = {.args = (pjrt_value **)(void *)room};
  r.out = r.args + most;
  r.keep = (bool *)(r.out + w->nwanted);
  cni_pjrt_lock();
  int status = gather(&r, index, w, l);
  if (!status) status = code_for(w, index, r.args);
  if (!status) split_results(r.out, w, r.args);
  if (!status) status = cni_pjrt_code_run(w->code, index, r.args, r.nargs, r.keep, r.out, w->nwanted);
  if (!status) status = hand_over(&r, index, w, l);
  for (size_t i = 0; i < r.nargs; i++) cni_pjrt_value_release(r.args[i]);
  for (size_t i = 0; i < w->nwanted; i++) cni_pjrt_value_release(r.out[i]);
  cni_pjrt_unlock();
  host->free_memory(room, bytes);
  return status;
}
