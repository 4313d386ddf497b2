/* row.h: the table: how each op that is written directly becomes operations.
 *
 * Place in the flow: module.c finds a node's op here by its name; what has no row and no formula is taken apart into
 * what it is made of. Families are files; families.def names them. Invariant: a row looks at the node and its operands'
 * types alone, and gives each result the type that the graph says. */
#ifndef CNI_STABLEHLO_ROW_H
#define CNI_STABLEHLO_ROW_H

#include "emit.h"

/* A node that is being written. */
typedef struct cni_hcall {
  cni_hlo *h;
  const cn_op *op;
  const char *name;
  const cn_value *args; /* one per parameter */
  const cni_hval *in;   /* tensors among them, lists laid flat; absent ones are not there (cni_hlo_there) */
  cni_hval *out;        /* to fill; before, their types */
  int nargs, nin, nout;
  int64_t draw;         /* random ops: where their counters begin behind the offset */
  const cn_graph *graph; /* ... and the node in it, for the few that need more */
  int node;
  /* Which row of several that share a function. */
  const char *text;
} cni_hcall;

typedef struct cni_hrow {
  const char *op;
  void (*lower)(cni_hcall *c);
  const char *text; /* what the function is told: a formula, an operation's name */
} cni_hrow;

/* Rows of all families; an op without a row: NULL. */
const cni_hrow *cni_hlo_row(const char *op);

/* ---- arguments by their place ---- */
static inline int64_t cni_harg_int(const cni_hcall *c, int i) { return c->args[i].u.i; }
static inline double cni_harg_float(const cni_hcall *c, int i)
{
  return c->args[i].tag == CN_V_FLOAT ? c->args[i].u.f : (double)c->args[i].u.i;
}
static inline bool cni_harg_none(const cni_hcall *c, int i) { return c->args[i].tag == CN_V_NONE; }
/* Element k of a list; a number stands for all. */
static inline int64_t cni_harg_at(const cni_hcall *c, int i, int k)
{
  const cn_value *v = &c->args[i];
  return v->tag == CN_V_INT ? v->u.i : v->u.is[v->n == 1 ? 0 : k];
}
static inline int cni_harg_dim(const cni_hcall *c, int i, int ndim)
{
  int64_t d = c->args[i].u.i;
  return (int)(d < 0 ? d + (ndim ? ndim : 1) : d);
}
uint32_t cni_harg_dims(const cni_hcall *c, int i, int ndim); /* a mask; all where there is no list */

/* An operand without dims or as weak number, as type `dtype`, of the shape of `like`. */
cni_hval cni_hlo_as(cni_hlo *h, cni_hval x, int dtype, const cni_hval *like);
/* What float16 and bfloat16 are computed in. */
static inline int cni_hlo_wide(int dtype) { return dtype == CN_F16 || dtype == CN_BF16 ? CN_F32 : dtype; }

/* ---- graphs inside of graphs (module.c) ---- */
/* Writes what a graph computes of these inputs; results: n of its outputs. draw: where its random numbers begin. */
void cni_hlo_graph(cni_hlo *h, const cn_graph *g, const cni_hval *inputs, cni_hval *outputs, const cni_hval *offset);
void cni_hlo_pointwise(cni_hcall *c);
bool cni_hlo_control(cni_hcall *c, const cn_graph_node *n); /* false: it is no branch or loop */

#endif
