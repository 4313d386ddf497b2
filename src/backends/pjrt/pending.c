/* pending.c: the program that is being collected: calls of ops that were not run yet.
 *
 * Place in the flow: record.c and strided.c add calls; whoever needs numbers has it run (cni_pjrt_flush): it is made a
 * graph, the graph a text, the text a compiled program, unless one that looks the same was compiled before. Invariant:
 * a call's results are values that are `pending` until then; calls whose results nobody can ask for any more are left
 * out. / */
#include "program.h"

#include <string.h>

#define host cni_pjrt_host

enum { MOST_RESULTS = 8, LONG = 2000 }; /* calls after which a program is run all the same */

typedef struct node {
  const cn_op *op;
  cn_value *args; /* in one block with what they point to, and the operands */
  pjrt_operand *in;
  size_t bytes;
  pjrt_value *out[MOST_RESULTS];
  int nargs, nin, nout;
  bool draws, needed;
} node;

static struct pending {
  node *nodes;
  size_t n, cap;
  uint64_t seed, offset, next; /* of random numbers: where the first call draws, and the next one has to */
  bool draws;
} pending[PJRT_DEVICES];

/* ---- copies of arguments ---- */

static size_t list_bytes(const cn_value *v)
{
  size_t n = (size_t)v->n;
  if (v->tag == CN_V_INTS) return n * sizeof(int64_t);
  if (v->tag == CN_V_FLOATS) return n * sizeof(double);
  return v->tag == CN_V_STR ? (strlen(v->u.s) + 8) / 8 * 8 : 0;
}

/* What a list or a text is made of; tensors are in the operands. */
static void copy_arg(cn_value *to, const cn_value *from, char **room)
{
  size_t n = list_bytes(from);
  *to = *from;
  if (from->tag == CN_V_TENSOR || from->tag == CN_V_TENSORS) to->u.t = NULL;
  if (!n) return;
  size_t used = from->tag == CN_V_STR ? strlen(from->u.s) + 1 : n;
  memset(*room, 0, n);
  memcpy(*room, from->u.s, used);
  to->u.s = *room;
  *room += n;
}

static int copy_call(node *to, const pjrt_call *c)
{
  size_t head = (size_t)c->nargs * sizeof *c->args + (size_t)c->nin * sizeof *c->in;
  *to = (node){.op = c->op, .nargs = c->nargs, .nin = c->nin, .nout = c->nout, .draws = c->draws, .bytes = head + 8};
  for (int i = 0; i < c->nargs; i++) to->bytes += list_bytes(&c->args[i]);
  if (!(to->args = host->memory(to->bytes))) return CN_ERR_MEMORY;
  to->in = (pjrt_operand *)(void *)(to->args + c->nargs);
  char *room = (char *)to->args + head;
  for (int i = 0; i < c->nargs; i++) copy_arg(&to->args[i], &c->args[i], &room);
  if (c->nin) memcpy(to->in, c->in, (size_t)c->nin * sizeof *c->in);
  return CN_OK;
}

/* ---- collecting ---- */

static void pin(pjrt_value *v)
{
  if (!v) return;
  cni_pjrt_value_keep(v);
  v->pins++;
}

static void unpin(pjrt_value *v)
{
  if (!v) return;
  v->pins--;
  cni_pjrt_value_release(v);
}

/* Random calls of one program draw behind each other. */
static int order_draws(int index, const pjrt_call *c)
{
  struct pending *p = &pending[index];
  bool follows = p->draws && p->seed == c->seed && p->next == c->offset;
  int status = p->draws && !follows ? cni_pjrt_flush(index) : CN_OK;
  if (!p->draws) p->seed = c->seed, p->offset = c->offset;
  p->draws = true;
  p->next = c->offset + c->counters;
  return status;
}

/* How a result lies on a mesh: as the op shard says; like the first operand of its shape that is split; whole. */
static int choose_split(int index, const pjrt_call *c, pjrt_value *v)
{
  const cn_mesh *mesh = cni_pjrt_mesh(index);
  if (!mesh) return CN_OK;
  if (c->nargs == 2 && c->args[1].tag == CN_V_STR && !strcmp(host->op_name(c->op), "shard"))
    return host->make->partition_read(&v->split, mesh, c->args[1].u.s, v->ndim, v->shape);
  for (int i = 0; i < c->nin; i++) {
    const pjrt_value *x = c->in[i].value;
    bool same = x && x->ndim == v->ndim && !memcmp(x->shape, v->shape, (size_t)v->ndim * sizeof *v->shape);
    if (!same || !cni_pjrt_is_split(&x->split)) continue;
    v->split = x->split;
    break;
  }
  return CN_OK;
}

int cni_pjrt_collect(int index, const pjrt_call *c, pjrt_value *const *out)
{
  struct pending *p = &pending[index];
  if (c->nout > MOST_RESULTS) return host->fail(CN_ERR_UNSUPPORTED, "pjrt: %s: too many results", host->op_name(c->op));
  int status = c->draws ? order_draws(index, c) : CN_OK;
  for (int i = 0; i < c->nout && !status; i++) status = choose_split(index, c, out[i]);
  if (!status) status = cni_pjrt_room((void **)&p->nodes, &p->cap, p->n + 1, sizeof *p->nodes);
  if (!status) status = copy_call(&p->nodes[p->n], c);
  if (status) return status;
  node *n = &p->nodes[p->n++];
  for (int i = 0; i < n->nin; i++) pin(n->in[i].value);
  for (int i = 0; i < n->nout; i++) {
    pin(n->out[i] = out[i]);
    out[i]->pending = true;
  }
  return CN_OK;
}

pjrt_value *cni_pjrt_op(int index, const char *op, const cn_value *args, int nargs, const pjrt_operand *in, int nin,
                        int dtype, int ndim, const int64_t *shape)
{
  pjrt_call c = {.op = host->make->find(op), .args = args, .in = in, .nargs = nargs, .nin = nin, .nout = 1};
  pjrt_value *v = c.op ? cni_pjrt_value_new(index, dtype, ndim, shape) : NULL;
  if (!c.op) host->fail(CN_ERR_INTERNAL, "pjrt: there is no op %s", op);
  if (v && cni_pjrt_collect(index, &c, &v)) {
    cni_pjrt_value_release(v);
    return NULL;
  }
  return v;
}

const cn_value cni_pjrt_slot = {CN_V_TENSOR, 1, {0}};

pjrt_value *cni_pjrt_shaped(int index, pjrt_value *v, int ndim, const int64_t *shape)
{
  bool same = v->ndim == ndim;
  for (int i = 0; i < ndim && same; i++) same = v->shape[i] == shape[i];
  if (same) return v;
  pjrt_operand in = cni_pjrt_operand(v);
  const cn_value args[] = {cni_pjrt_slot, cn_v_ints(shape, (size_t)ndim)};
  pjrt_value *made = cni_pjrt_op(index, "reshape", args, 2, &in, 1, v->dtype, ndim, shape);
  cni_pjrt_value_release(v);
  return made;
}

pjrt_value *cni_pjrt_sliced(int index, pjrt_value *v, int dim, int64_t from, int64_t len, int64_t step)
{
  int64_t shape[CN_MAX_DIMS];
  if (!from && len == v->shape[dim]) return v;
  memcpy(shape, v->shape, sizeof shape);
  shape[dim] = len;
  pjrt_operand in = cni_pjrt_operand(v);
  const cn_value args[] = {cni_pjrt_slot, cn_v_int(dim), cn_v_int(from), cn_v_int(from + (len - 1) * step + 1),
                           cn_v_int(step)};
  pjrt_value *made = cni_pjrt_op(index, "slice", args, 5, &in, 1, v->dtype, v->ndim, shape);
  cni_pjrt_value_release(v);
  return made;
}

pjrt_value *cni_pjrt_split_like(int index, pjrt_value *v, const pjrt_value *like)
{
  pjrt_operand in = cni_pjrt_operand(v);
  const cn_value args[] = {cni_pjrt_slot};
  pjrt_call c = {.op = host->make->find("clone"), .args = args, .in = &in, .nargs = 1, .nin = 1, .nout = 1};
  pjrt_value *made = cni_pjrt_value_new(index, v->dtype, v->ndim, v->shape);
  if (made && cni_pjrt_collect(index, &c, &made)) {
    cni_pjrt_value_release(made);
    made = NULL;
  }
  if (made) made->split = like->split;
  cni_pjrt_value_release(v);
  return made;
}

int cni_pjrt_settle(int index) { return pending[index].n > LONG ? cni_pjrt_flush(index) : CN_OK; }

static void drop_nodes(struct pending *p)
{
  for (size_t i = 0; i < p->n; i++) {
    node *n = &p->nodes[i];
    for (int k = 0; k < n->nin; k++) unpin(n->in[k].value);
    for (int k = 0; k < n->nout; k++) {
      if (n->out[k]->pending) n->out[k]->failed = true; /* left out, or not run */
      n->out[k]->pending = false;
      unpin(n->out[k]);
    }
    host->free_memory(n->args, n->bytes);
  }
  p->n = 0;
  p->draws = false;
}

/* ---- what there is to run ---- */

/* Inputs and results of the program, and their places: inputs come first. */
typedef struct plan {
  int index;
  struct pending *p;
  pjrt_value **in, **out;
  size_t nin, nout, in_cap, out_cap;
  int nplaces;
} plan;

enum { UNUSED = -1, USED = -2 };

static void mark(struct pending *p)
{
  for (size_t i = 0; i < p->n; i++) {
    node *n = &p->nodes[i];
    for (int k = 0; k < n->nin; k++)
      if (n->in[k].value) n->in[k].value->place = UNUSED;
    for (int k = 0; k < n->nout; k++) n->out[k]->place = UNUSED;
  }
  for (size_t i = p->n; i-- > 0;) {
    node *n = &p->nodes[i];
    n->needed = n->draws; /* those behind it count from where it ends */
    for (int k = 0; k < n->nout; k++)
      n->needed = n->needed || n->out[k]->place == USED || n->out[k]->refs > n->out[k]->pins;
    for (int k = 0; k < n->nin && n->needed; k++)
      if (n->in[k].value) n->in[k].value->place = USED;
  }
}

static int list(pjrt_value ***values, size_t *n, size_t *cap, pjrt_value *v)
{
  int status = cni_pjrt_room((void **)values, cap, *n + 1, sizeof **values);
  if (!status) (*values)[(*n)++] = v;
  return status;
}

static int make_plan(plan *k)
{
  int status = CN_OK;
  mark(k->p);
  for (size_t i = 0; i < k->p->n && !status; i++) {
    node *n = &k->p->nodes[i];
    for (int j = 0; j < n->nin && n->needed && !status; j++) {
      pjrt_value *v = n->in[j].value;
      if (!v || v->pending || v->place >= 0) continue;
      v->place = k->nplaces++;
      status = list(&k->in, &k->nin, &k->in_cap, v);
    }
  }
  for (size_t i = 0; i < k->p->n && !status; i++) {
    node *n = &k->p->nodes[i];
    for (int j = 0; j < n->nout && n->needed && !status; j++) {
      n->out[j]->place = k->nplaces++;
      if (n->out[j]->refs > n->out[j]->pins) status = list(&k->out, &k->nout, &k->out_cap, n->out[j]);
    }
  }
  return status;
}

/* ---- what it looks like: the key that compiled programs are found by ---- */

static void put_value(pjrt_text *t, const cn_value *v)
{
  int64_t head[2] = {v->tag, v->n};
  cni_pjrt_put(t, head, sizeof head);
  size_t n = list_bytes(v);
  if (n) cni_pjrt_put(t, v->u.s, n);
  else if (v->tag != CN_V_NONE && v->tag != CN_V_TENSOR && v->tag != CN_V_TENSORS) cni_pjrt_put(t, &v->u, sizeof v->u);
}

static void put_node(pjrt_text *t, const node *n)
{
  const int64_t head[4] = {(int64_t)(intptr_t)n->op, n->nargs, n->nin, n->nout};
  cni_pjrt_put(t, head, sizeof head);
  for (int i = 0; i < n->nargs; i++) put_value(t, &n->args[i]);
  for (int i = 0; i < n->nin; i++) {
    const int64_t place = n->in[i].value ? n->in[i].value->place : UNUSED;
    cni_pjrt_put(t, &place, sizeof place);
    if (!n->in[i].value) put_value(t, &n->in[i].number);
  }
}

static int describe(pjrt_text *t, const plan *k)
{
  const int64_t head[4] = {'K', k->index, (int64_t)k->nin, (int64_t)k->nout};
  cni_pjrt_put(t, head, sizeof head);
  for (size_t i = 0; i < k->nin; i++) {
    const int64_t type[2] = {k->in[i]->dtype, k->in[i]->ndim};
    cni_pjrt_put(t, type, sizeof type);
    cni_pjrt_put(t, k->in[i]->shape, (size_t)k->in[i]->ndim * sizeof *k->in[i]->shape);
    cni_pjrt_put(t, &k->in[i]->split, sizeof k->in[i]->split);
  }
  for (size_t i = 0; i < k->p->n; i++)
    if (k->p->nodes[i].needed) put_node(t, &k->p->nodes[i]);
  for (size_t i = 0; i < k->nout; i++) {
    const int64_t place = k->out[i]->place;
    cni_pjrt_put(t, &place, sizeof place);
    cni_pjrt_put(t, &k->out[i]->split, sizeof k->out[i]->split);
  }
  return t->failed ? CN_ERR_MEMORY : CN_OK;
}

/* ---- the graph of it ---- */

static int add_node(cn_graph *g, const node *n, int *ids)
{
  int room[64], *in = room, made[MOST_RESULTS];
  size_t nout = (size_t)n->nout, bytes = ((size_t)n->nin + 1) * sizeof *in;
  if (n->nin > 64 && !(in = host->memory(bytes))) return CN_ERR_MEMORY;
  int status = CN_OK;
  for (int i = 0; i < n->nin && status >= 0; i++) {
    const pjrt_operand *o = &n->in[i];
    if (o->value) in[i] = ids[o->value->place];
    else if (o->number.tag == CN_V_NONE) in[i] = -1;
    else status = in[i] = host->make->add_number(g, o->number);
  }
  if (status >= 0)
    status = host->make->add_node(made, &nout, g, n->op, n->args, (size_t)n->nargs, in, (size_t)n->nin);
  if (in != room) host->free_memory(in, bytes);
  for (int i = 0; i < n->nout && status >= 0; i++) ids[n->out[i]->place] = made[i];
  return status < 0 ? status : CN_OK;
}

static int fill_graph(cn_graph *g, const plan *k, int *ids)
{
  int status = CN_OK;
  cn_device device = cni_pjrt_device_number(k->index);
  for (size_t i = 0; i < k->nin && status >= 0; i++)
    status = ids[i] = host->make->add_input(g, device, (cn_dtype)k->in[i]->dtype, k->in[i]->ndim, k->in[i]->shape);
  for (size_t i = 0; i < k->p->n && status >= 0; i++)
    if (k->p->nodes[i].needed) status = add_node(g, &k->p->nodes[i], ids);
  for (size_t i = 0; i < k->nout && status >= 0; i++) status = host->make->add_output(g, ids[k->out[i]->place]);
  return status < 0 ? status : CN_OK;
}

enum { SHARDING = PJRT_SHARDING };

/* How values lie on a mesh, as texts in `room`, which has place for n. */
static void put_shardings(const char **texts, char *room, const cn_mesh *mesh, pjrt_value *const *v, size_t n)
{
  for (size_t i = 0; i < n; i++)
    texts[i] = cni_pjrt_sharding(room + i * SHARDING, mesh, &v[i]->split, v[i]->ndim);
}

/* The text of a graph, told how arguments and results lie where there is a mesh. */
static char *text_of(const cn_graph *g, const plan *k)
{
  cn_stablehlo_opts opts = {.size = sizeof opts, .mesh = cni_pjrt_mesh(k->index), .shardy = cni_pjrt_shardy()};
  size_t n = k->nin + k->nout, bytes = n * (SHARDING + sizeof(char *)) + 1;
  if (!opts.mesh) return host->make->stablehlo(g, &opts);
  const char **texts = host->memory(bytes);
  if (!texts) return NULL;
  char *room = (char *)(texts + n);
  put_shardings(texts, room, opts.mesh, k->in, k->nin);
  put_shardings(texts + k->nin, room + k->nin * SHARDING, opts.mesh, k->out, k->nout);
  opts.shardings = texts, opts.nshardings = k->nin;
  opts.result_shardings = texts + k->nin, opts.nresult_shardings = k->nout;
  char *text = host->make->stablehlo(g, &opts);
  host->free_memory(texts, bytes);
  return text;
}

static int compile(pjrt_code **code, const plan *k)
{
  size_t bytes = ((size_t)k->nplaces + 1) * sizeof(int);
  cn_graph *g = host->make->graph();
  int *ids = g ? host->memory(bytes) : NULL;
  int status = ids ? fill_graph(g, k, ids) : CN_ERR_MEMORY;
  char *text = status ? NULL : text_of(g, k);
  if (!status) status = text ? cni_pjrt_code_find(code, k->index, text, strlen(text), k->nout) : CN_ERR_UNSUPPORTED;
  if (text) host->make->string_free(text);
  if (ids) host->free_memory(ids, bytes);
  if (g) host->make->free(g);
  return status;
}

/* ---- running ---- */

/* Key and offset of random numbers stand behind the inputs. */
static int add_random(plan *k)
{
  const uint64_t numbers[2] = {k->p->seed, k->p->offset};
  int status = CN_OK;
  for (int i = 0; i < 2 && k->p->draws && !status; i++) {
    pjrt_value *v = cni_pjrt_value_of(k->index, CN_U64, 0, NULL, &numbers[i], sizeof numbers[i]);
    status = v ? list(&k->in, &k->nin, &k->in_cap, v) : CN_ERR_MEMORY;
    if (v && status) cni_pjrt_value_release(v);
  }
  return status;
}

static int run(plan *k)
{
  pjrt_text key = {0};
  pjrt_code *code = NULL;
  size_t plain = k->nin;
  int status = describe(&key, k);
  if (!status && !(code = cni_pjrt_known(key.s, key.n))) {
    status = compile(&code, k);
    if (!status) status = cni_pjrt_note(key.s, key.n, code);
  }
  cni_pjrt_text_free(&key);
  if (!status) status = add_random(k);
  if (!status) status = cni_pjrt_code_run(code, k->index, k->in, k->nin, NULL, k->out, k->nout);
  while (k->nin > plain) cni_pjrt_value_release(k->in[--k->nin]);
  return status;
}

int cni_pjrt_flush(int index)
{
  struct pending *p = &pending[index];
  plan k = {.index = index, .p = p};
  if (!p->n) return CN_OK;
  int status = make_plan(&k);
  if (!status && k.nout) status = run(&k);
  drop_nodes(p);
  if (k.in) host->free_memory(k.in, k.in_cap * sizeof *k.in);
  if (k.out) host->free_memory(k.out, k.out_cap * sizeof *k.out);
  return status;
}

void cni_pjrt_pending_exit(void)
{
  for (int i = 0; i < PJRT_DEVICES; i++) {
    drop_nodes(&pending[i]);
    if (pending[i].nodes) host->free_memory(pending[i].nodes, pending[i].cap * sizeof(node));
    pending[i] = (struct pending){0};
  }
}
