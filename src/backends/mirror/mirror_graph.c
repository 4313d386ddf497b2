/* mirror_graph.c: graphs that the mirror takes whole: one job runs all nodes, with the CPU's kernels, as a device that
 * compiles graphs would.
 *
 * Place in the flow: graph_compile copies what it reads of the graph (mirror_graph); graph_launch queues a job that
 * knows the addresses of one run; the stream's thread goes through the nodes. Invariants: nothing of the caller's is
 * used after compile and launch have returned; an executable lives until its last queued run is over. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "mirror.h"

#define host cni_mirror_host

typedef struct step {
  cn_graph_node node; /* its lists are the executable's own */
  cn_value *args;
  size_t args_size;
  int *ids; /* in, then out */
  cn_spec *specs;
  int32_t compute;
} step;

typedef struct mirror_graph {
  _Atomic int refs;
  step *steps;
  cn_value_info *values;
  cn_desc *consts; /* per value: where it is one, with memory of the executable's own */
  int *inputs, *states, *wanted;
  size_t nsteps, nvalues, ninputs, nstates, nwanted, ndraws;
} mirror_graph;

/* ---- copies of what is read ---- */

static void *copied(const void *from, size_t size)
{
  void *to = host->memory(size);
  if (to && size) memcpy(to, from, size);
  return to;
}

static void *zeros(size_t size)
{
  void *to = host->memory(size);
  return to ? memset(to, 0, size) : NULL;
}

static size_t const_bytes(const cn_desc *d) { return cn_element_bytes(d->dtype, d->numel) + 1; }

static void release(mirror_graph *g)
{
  if (atomic_fetch_sub(&g->refs, 1) != 1) return;
  for (size_t i = 0; g->steps && i < g->nsteps; i++) {
    step *s = &g->steps[i];
    if (s->args) host->free_memory(s->args, s->args_size);
    if (s->ids) host->free_memory(s->ids, (size_t)(s->node.nin + s->node.nout) * sizeof *s->ids);
    if (s->specs) host->free_memory(s->specs, (size_t)s->node.nout * sizeof *s->specs);
  }
  for (size_t i = 0; g->consts && i < g->nvalues; i++)
    if (g->consts[i].data) host->free_memory(g->consts[i].data, const_bytes(&g->consts[i]));
  if (g->consts) host->free_memory(g->consts, g->nvalues * sizeof *g->consts);
  if (g->steps) host->free_memory(g->steps, g->nsteps * sizeof *g->steps);
  if (g->values) host->free_memory(g->values, g->nvalues * sizeof *g->values);
  if (g->inputs) host->free_memory(g->inputs, (g->ninputs + g->nstates + g->nwanted) * sizeof *g->inputs);
  host->free_memory(g, sizeof *g);
}

static int copy_step(step *s, const cn_whole_graph *whole, int i)
{
  s->node.size = sizeof s->node;
  if (host->graph->node_at(&s->node, whole->graph, i)) return CN_ERR_INTERNAL;
  size_t nin = (size_t)s->node.nin, nout = (size_t)s->node.nout;
  s->args = cni_mirror_args(s->node.args, s->node.nargs, &s->args_size);
  s->ids = s->args ? host->memory((nin + nout) * sizeof *s->ids) : NULL;
  s->specs = s->ids ? copied(whole->specs[i], nout * sizeof *s->specs) : NULL;
  if (!s->specs) return CN_ERR_MEMORY;
  if (nin) memcpy(s->ids, s->node.in, nin * sizeof *s->ids);
  memcpy(s->ids + nin, s->node.out, nout * sizeof *s->ids);
  s->compute = whole->compute[i];
  return CN_OK;
}

static bool is_contiguous(const cn_desc *d)
{
  int64_t stride = 1;
  for (int i = d->ndim; i-- > 0; stride *= d->shape[i])
    if (d->shape[i] > 1 && d->strides[i] != stride) return false;
  return true;
}

/* Constants are the graph's, which may be gone when it runs; they are small: a copy of each, once it is there. */
static int copy_const(cn_desc *to, const cn_tensor *t, int index)
{
  cn_desc d = *cn_desc_of(t);
  bool here = d.device != CN_CPU;
  if (!is_contiguous(&d)) return CN_REFUSED;
  int status = here ? cni_mirror_sync(index) : CN_OK;
  const void *from = here && d.data ? mirror_show(d.data) : d.data;
  d.device = CN_CPU;
  if (status) return status;
  if (!(d.data = host->memory(const_bytes(&d)))) return CN_ERR_MEMORY;
  if (d.numel) memcpy(d.data, from, const_bytes(&d) - 1);
  *to = d;
  return CN_OK;
}

static int copy_graph(mirror_graph *g, const cn_whole_graph *whole, int index)
{
  int status = CN_OK;
  for (size_t i = 0; i < g->nvalues && !status; i++) {
    g->values[i].size = sizeof g->values[i];
    status = host->graph->value_at(&g->values[i], whole->graph, (int)i);
    if (!status && g->values[i].kind == CN_VALUE_CONST) status = copy_const(&g->consts[i], g->values[i].tensor, index);
  }
  for (size_t i = 0; i < g->ninputs; i++) g->inputs[i] = host->graph->input(whole->graph, i);
  for (size_t i = 0; i < g->nstates; i++) g->states[i] = host->graph->state_value(whole->graph, i);
  if (g->nwanted) memcpy(g->wanted, whole->wanted, g->nwanted * sizeof *g->wanted);
  for (size_t i = 0; i < g->nsteps && !status; i++) status = copy_step(&g->steps[i], whole, (int)i);
  return status;
}

int cni_mirror_graph_compile(int index, void **executable, const cn_whole_graph *whole)
{
  const cn_graph_reader *read = host->graph;
  mirror_graph *g = zeros(sizeof *g);
  if (!g) return CN_ERR_MEMORY;
  atomic_init(&g->refs, 1);
  g->nsteps = read->nodes(whole->graph);
  g->nvalues = read->values(whole->graph);
  g->ninputs = read->inputs(whole->graph);
  g->nstates = read->states(whole->graph);
  g->ndraws = read->draws(whole->graph);
  g->nwanted = whole->nwanted;
  g->steps = zeros(g->nsteps * sizeof *g->steps);
  g->values = g->steps ? zeros(g->nvalues * sizeof *g->values) : NULL;
  g->consts = g->values ? zeros(g->nvalues * sizeof *g->consts) : NULL;
  g->inputs = g->consts ? zeros((g->ninputs + g->nstates + g->nwanted) * sizeof *g->inputs) : NULL;
  g->states = g->inputs + g->ninputs;
  g->wanted = g->states + g->nstates;
  int status = g->inputs ? copy_graph(g, whole, index) : CN_ERR_MEMORY;
  if (status) release(g);
  else *executable = g;
  return status;
}

void cni_mirror_graph_free(int index, void *executable)
{
  (void)index;
  release(executable);
}

/* ---- one run ---- */

typedef struct run {
  mirror_job head;
  mirror_graph *g; /* a reference */
  cn_desc *desc;   /* of inputs, states, wanted values: host addresses */
  uint64_t *draws;
  uint64_t seed, offset;
} run;

/* What the stream's thread has for a run: a tensor for each value, and the memory of those between nodes. */
typedef struct going {
  run *r;
  cn_tensor **now;
  void **memory;
  size_t *bytes;
} going;

static cn_tensor *number(const cn_value_info *v)
{
  cn_desc d = {.size = sizeof d, .data = (void *)(uintptr_t)(v->dtype == CN_F64 ? (const void *)&v->number
                                                                             : (const void *)&v->integer),
               .numel = 1, .dtype = v->dtype, .device = CN_CPU, .weak = v->weak};
  return host->wrap(&d);
}

static int begin(going *k)
{
  const mirror_graph *g = k->r->g;
  size_t given = g->ninputs + g->nstates;
  for (size_t i = 0; i < given + g->nwanted; i++) /* inputs, states, wanted: their ids lie one behind the other */
    if (!(k->now[g->inputs[i]] = host->wrap(&k->r->desc[i]))) return CN_ERR_MEMORY;
  for (size_t i = 0; i < g->nvalues; i++) {
    int kind = g->values[i].kind;
    if (kind == CN_VALUE_SCALAR) k->now[i] = number(&g->values[i]);
    else if (kind == CN_VALUE_CONST) k->now[i] = host->wrap(&g->consts[i]);
    if ((kind == CN_VALUE_SCALAR || kind == CN_VALUE_CONST) && !k->now[i]) return CN_ERR_MEMORY;
  }
  return CN_OK;
}

/* A tensor for a result: a look into an input, memory that was given, or memory of the run's own. */
static int make_result(going *k, const step *s, int i)
{
  int id = s->ids[s->node.nin + i];
  const cn_spec *spec = &s->specs[i];
  if (k->now[id]) return CN_OK;
  cn_desc d = {.size = sizeof d, .numel = 1, .dtype = spec->dtype, .ndim = spec->ndim, .device = CN_CPU};
  for (int n = 0; n < spec->ndim; n++) d.numel *= spec->shape[n];
  memcpy(d.shape, spec->shape, sizeof d.shape);
  memcpy(d.strides, spec->strides, sizeof d.strides);
  size_t elem = cn_element_bytes(spec->dtype, 1);
  if (spec->view_of >= 0) {
    const cn_desc *of = cn_desc_of(k->now[s->ids[spec->view_of]]);
    d.data = (char *)of->data + spec->offset * (int64_t)elem;
  } else {
    k->bytes[id] = cn_element_bytes(spec->dtype, d.numel) + 1;
    if (!(d.data = k->memory[id] = host->memory(k->bytes[id]))) return CN_ERR_MEMORY;
  }
  return (k->now[id] = host->wrap(&d)) ? CN_OK : CN_ERR_MEMORY;
}

static int run_step(going *k, const step *s)
{
  cn_value args[CN_MAX_ARGS];
  cn_tensor *out[8];
  size_t bytes = ((size_t)s->node.nin + 1) * sizeof(cn_tensor *);
  int status = s->node.nout <= 8 ? CN_OK : CN_ERR_INTERNAL;
  for (int i = 0; i < s->node.nout && !status; i++) status = make_result(k, s, i);
  if (status || s->specs[0].view_of >= 0) return status;
  cn_tensor **in = host->memory(bytes);
  if (!in) return CN_ERR_MEMORY;
  for (int i = 0; i < s->node.nin; i++) in[i] = s->ids[i] >= 0 ? k->now[s->ids[i]] : NULL;
  for (int i = 0; i < s->node.nout; i++) out[i] = k->now[s->ids[s->node.nin + i]];
  memcpy(args, s->args, (size_t)s->node.nargs * sizeof *args); /* runs on several streams share the step */
  host->graph->fill(args, s->node.op, in);
  cn_call c = {.op = s->node.op, .args = args, .in = in, .out = out, .spec = s->specs, .nargs = s->node.nargs,
               .nin = s->node.nin, .nout = s->node.nout, .device = CN_CPU, .compute = s->compute};
  if (s->node.draw >= 0) c.seed = k->r->seed, c.offset = k->r->offset + k->r->draws[s->node.draw];
  status = host->run_cpu(&c);
  host->free_memory(in, bytes);
  return status;
}

static int go(going *k)
{
  const mirror_graph *g = k->r->g;
  int status = begin(k);
  for (size_t i = 0; i < g->nsteps && !status; i++) status = run_step(k, &g->steps[i]);
  for (size_t i = 0; i < g->nvalues; i++) {
    if (k->now[i]) host->release_tensor(k->now[i]);
    if (k->memory[i]) host->free_memory(k->memory[i], k->bytes[i]);
  }
  return status;
}

static void run_late(mirror_job *head, int index)
{
  run *r = (run *)(void *)head;
  size_t n = r->g->nvalues, bytes = n * (sizeof(cn_tensor *) + sizeof(void *) + sizeof(size_t));
  char *room = zeros(bytes), message[MIRROR_MESSAGE - 100], full[MIRROR_MESSAGE];
  going k = {r, (cn_tensor **)(void *)room, (void **)(void *)(room + n * sizeof(cn_tensor *)),
             (size_t *)(void *)(room + n * (sizeof(cn_tensor *) + sizeof(void *)))};
  int status = room ? go(&k) : CN_ERR_MEMORY, code = host->take_error(message, sizeof message);
  if (room) host->free_memory(room, bytes);
  if (status) {
    snprintf(full, sizeof full, "%s (found while a graph ran on the device)", message[0] ? message : "failed");
    cni_mirror_keep_failure(index, code ? code : status, full);
  }
  release(r->g);
}

static _Atomic size_t launched;

size_t cni_mirror_graph_runs(void) { return atomic_load(&launched); }

static void show(cn_desc *d, const cn_tensor *t)
{
  *d = *cn_desc_of(t);
  d->device = CN_CPU;
  if (d->data) d->data = mirror_show(d->data);
}

int cni_mirror_graph_launch(int index, void *executable, const cn_graph_launch *l)
{
  mirror_graph *g = executable;
  size_t n = g->ninputs + g->nstates + g->nwanted;
  size_t bytes = sizeof(run) + n * sizeof(cn_desc) + g->ndraws * sizeof(uint64_t);
  run *r = host->memory(bytes);
  if (!r) return CN_ERR_MEMORY;
  *r = (run){.head = {.size = bytes, .run = run_late}, .g = g, .desc = (cn_desc *)(void *)(r + 1), .seed = l->seed,
             .offset = l->offset};
  r->draws = (uint64_t *)(void *)(r->desc + n);
  for (size_t i = 0; i < g->ninputs; i++) show(&r->desc[i], l->in[i]);
  for (size_t i = 0; i < g->nstates; i++) show(&r->desc[g->ninputs + i], l->states[i]);
  for (size_t i = 0; i < g->nwanted; i++) show(&r->desc[g->ninputs + g->nstates + i], l->out[i]);
  if (g->ndraws) memcpy(r->draws, l->draws, g->ndraws * sizeof *r->draws);
  atomic_fetch_add(&g->refs, 1);
  atomic_fetch_add(&launched, 1);
  if (cni_mirror_enqueue(index, l->stream, &r->head))
    return cni_mirror_waits ? cni_mirror_stream_sync(index, l->stream) : CN_OK;
  release(g);
  host->free_memory(r, bytes);
  return host->fail(CN_ERR_MEMORY, "graph: the mirror's stream could not be started");
}
