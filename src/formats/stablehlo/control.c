/* control.c: branches and loops, which hold graphs: stablehlo.if and stablehlo.while.
 *
 * Place in the flow: module.c asks for every node. ext/graph.h says what each kind holds. Invariant: a step draws the
 * random numbers that it draws on the CPU; rows that no step writes are zero. */
#include <string.h>

#include "rows.h"

typedef struct looping {
  cni_hcall *c;
  const cn_graph *cond, *body;
  int ncarried, nxs, noperands, nys;
  int64_t length;
  bool counted, reverse, countdown;
  cni_hval steps;               /* how many; absent in a loop that asks */
  cni_hval *args, *results;     /* of the graphs */
  cni_hval *in, *out, *now;     /* the step, carried values, rows so far */
} looping;

static cni_hval solid(cni_hlo *h, cni_hval v) { return v.number ? cni_hlo_splat(h, v, v.dtype, 0, NULL) : v; }

/* ---- branches ---- */

static void branch(cni_hcall *c, const cn_graph_node *n)
{
  cni_hlo *h = c->h;
  size_t bytes = (size_t)(c->nin + c->nout + 1) * sizeof(cni_hval);
  cni_hval pred = cni_hlo_cast(h, solid(h, c->in[0]), CN_BOOL), *args = cn_alloc_zero(bytes);
  cni_hval offset = h->offset;
  if (!args) h->failed = true;
  for (int k = 1; k < c->nin && args; k++) args[k - 1] = solid(h, c->in[k]);
  if (h->offset.id >= 0 && n->draw >= 0) offset = cni_hlo_binary(h, "add", offset, cni_hlo_int(c->draw));
  pred = cni_hlo_reshape(h, pred, 0, NULL);
  cni_hlo_open(h, "if", c->nout, c->out, 1, &pred);
  for (int k = 0; k < 2 && !h->failed; k++) {
    cni_hval *results = args + c->nin;
    if (k) cn_text_put(&h->t, "  }, {\n");
    cni_hlo_graph(h, n->subs[k], args, results, &offset);
    cni_hlo_return(h, c->nout, results);
  }
  if (!h->failed) cni_hlo_close(h, "", c->nout, c->out, 1, &pred);
  if (args) cn_free(args, bytes);
}

/* ---- loops ---- */

/* The offset of a step's random numbers. */
static cni_hval offset_of(looping *l, cni_hval step)
{
  cni_hlo *h = l->c->h;
  int64_t draws = cn_graph_draw_offset(l->body, cn_graph_draws(l->body));
  if (h->offset.id < 0 || !draws) return h->offset;
  return CNI_HLO_EXPR(h, "a + c + u64(b) * d", CN_U64, h->offset, step, cni_hlo_int(l->c->draw), cni_hlo_int(draws));
}

static cni_hval counted_back(looping *l, cni_hval step, bool back)
{
  return back ? CNI_HLO_EXPR(l->c->h, "b - 1 - a", CN_I32, step, l->steps) : step;
}

static void write_step(looping *l)
{
  cni_hlo *h = l->c->h;
  cni_hval *now = l->now, row = counted_back(l, now[0], l->reverse);
  cni_hval offset = offset_of(l, counted_back(l, now[0], l->countdown));
  int n = 0;
  for (int k = 0; k < l->ncarried; k++) l->args[n++] = now[1 + k];
  for (int k = 0; k < l->nxs; k++) l->args[n++] = cni_hlo_at(h, l->c->in[l->ncarried + k], 0, row);
  for (int k = 0; k < l->noperands; k++) l->args[n++] = solid(h, l->c->in[l->ncarried + l->nxs + k]);
  cni_hlo_graph(h, l->body, l->args, l->results, &offset);
  for (int k = 0; k < l->ncarried && !h->failed; k++) now[1 + k] = l->results[k];
  for (int k = l->ncarried; k < l->ncarried + l->nys && !h->failed; k++)
    now[1 + k] = cni_hlo_set_at(h, now[1 + k], 0, row, l->results[k]);
  if (!h->failed) now[0] = cni_hlo_binary(h, "add", now[0], cni_hlo_int(1));
}

static cni_hval goes_on(looping *l)
{
  cni_hlo *h = l->c->h;
  cni_hval go = {.id = -1}, below;
  if (l->cond) {
    int n = 0;
    for (int k = 0; k < l->ncarried; k++) l->args[n++] = l->now[1 + k];
    for (int k = 0; k < l->noperands; k++) l->args[n++] = solid(h, l->c->in[l->ncarried + k]);
    cni_hlo_graph(h, l->cond, l->args, &go, &h->offset);
    if (!h->failed) go = cni_hlo_reshape(h, cni_hlo_cast(h, go, CN_BOOL), 0, NULL);
    if (!l->length) return go;
  }
  below = cni_hlo_compare(h, "LT", l->now[0], l->steps);
  return l->cond ? cni_hlo_binary(h, "and", go, below) : below;
}

static void write_loop(looping *l)
{
  cni_hcall *c = l->c;
  cni_hlo *h = c->h;
  int n = 1 + l->ncarried + l->nys;
  l->in[0] = cni_hlo_splat(h, cni_hlo_int(0), CN_I32, 0, NULL);
  for (int k = 0; k < l->ncarried; k++) l->in[1 + k] = solid(h, c->in[k]);
  for (int k = l->ncarried; k < n - 1; k++)
    l->in[1 + k] = cni_hlo_splat(h, cni_hlo_int(0), c->out[k].dtype, c->out[k].ndim, c->out[k].shape);
  memcpy(l->out, l->in, (size_t)n * sizeof *l->out);
  cni_hlo_open(h, "while", n, l->out, n, l->in);
  cni_hlo_block(h, n, l->in, l->now);
  cni_hval go = goes_on(l);
  cni_hlo_return(h, 1, &go);
  cn_text_put(&h->t, "  }, {\n");
  cni_hlo_block(h, n, l->in, l->now);
  if (!h->failed) write_step(l);
  cni_hlo_return(h, n, l->now);
  cni_hlo_close(h, "", n, l->out, n, l->in);
  for (int k = 0; k < n - 1; k++) c->out[k] = l->out[1 + k];
  if (l->counted && !h->failed)
    c->out[n - 1] = cni_hlo_reshape(h, cni_hlo_convert(h, l->out[0], CN_I64), c->out[n - 1].ndim, c->out[n - 1].shape);
}

static void loop(looping *l)
{
  cni_hcall *c = l->c;
  size_t bytes = (size_t)(4 * (c->nin + c->nout) + 16) * sizeof(cni_hval), part = (size_t)(c->nin + c->nout + 3);
  cni_hval *room = cn_alloc_zero(bytes);
  if (!room) {
    c->h->failed = true;
    return;
  }
  l->nys = (int)cn_graph_outputs(l->body) - l->ncarried;
  l->args = room, l->results = l->args + c->nin + 1, l->in = l->results + c->nout + 2;
  l->out = l->in + part, l->now = l->out + part;
  write_loop(l);
  cn_free(room, bytes);
}

static cni_hval steps_of(cni_hcall *c, int64_t length)
{
  cni_hval n = cni_hlo_splat(c->h, cni_hlo_int(length), CN_I32, 0, NULL), given = c->in[c->nin - 1];
  if (!cni_hlo_there(&given)) return n;
  given = cni_hlo_reshape(c->h, cni_hlo_convert(c->h, solid(c->h, given), CN_I32), 0, NULL);
  return CNI_HLO_EXPR(c->h, "min(max(a, 0), b)", CN_I32, given, n);
}

bool cni_hlo_control(cni_hcall *c, const cn_graph_node *n)
{
  looping l = {.c = c, .body = n->nsubs ? n->subs[n->nsubs - 1] : NULL};
  if (!n->nsubs) return false;
  if (!strcmp(n->name, "cond")) {
    branch(c, n);
  } else if (!strcmp(n->name, "while")) {
    l.cond = n->subs[0], l.ncarried = c->args[0].n, l.noperands = c->args[1].n, l.length = cni_harg_int(c, 2);
    l.counted = l.length > 0;
    l.steps = cni_hlo_splat(c->h, cni_hlo_int(l.length), CN_I32, 0, NULL);
    loop(&l);
  } else if (!strcmp(n->name, "scan")) {
    l.ncarried = c->args[0].n, l.nxs = c->args[1].n, l.noperands = c->args[2].n, l.length = cni_harg_int(c, 4);
    l.reverse = cni_harg_int(c, 5), l.countdown = cni_harg_int(c, 6);
    l.steps = steps_of(c, l.length);
    loop(&l);
  } else if (!strcmp(n->name, "map")) {
    l.nxs = c->args[0].n, l.noperands = c->args[1].n, l.length = cni_harg_int(c, 2);
    l.steps = cni_hlo_splat(c->h, cni_hlo_int(l.length), CN_I32, 0, NULL);
    loop(&l);
  } else {
    cni_hlo_fail(c->h, CN_ERR_UNSUPPORTED, "%s: it has no form in StableHLO", n->name);
  }
  return true;
}
