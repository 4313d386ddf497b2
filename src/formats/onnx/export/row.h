/* row.h: the table: how each op that is written directly becomes operators of ONNX. Internal.
 *
 * Place in the flow: graph.c finds a node's op here by its name; what has no row, or whose row refuses the call, goes
 * by its formula (pointwise.c), or is taken apart into what it is made of. Families are files; families.def names
 * them. Invariant: a row gives each result the type that the graph says.
 *
 *     ROW("softmax", 13, "Softmax(R(a), axis=$dim)"),      in words: expr.c; from opset 13 on
 *     BUILD("conv2d", 13, conv),                           what words cannot say: a function
 *
 * Of several rows of an op the first that the opset has and that does not refuse is taken. */
#ifndef CNI_ONNX_EXPORT_ROW_H
#define CNI_ONNX_EXPORT_ROW_H

#include "emit.h"

struct cni_oxwalk;

/* A node that is being written. */
typedef struct cni_oxcall {
  cni_ox *x;
  const cn_op *op;
  const char *name;
  const cn_value *args; /* one per parameter */
  const cni_oxval *in;  /* tensors among them, lists laid flat; absent ones are not there (cni_ox_there) */
  cni_oxval *out;       /* to fill; before, their types */
  int nargs, nin, nout;
  const cn_graph *graph; /* the node in it: for sizes, and formulas */
  int node;
  struct cni_oxwalk *walk;
  const char *text; /* what the row tells its function */
} cni_oxcall;

typedef struct cni_oxrow {
  const char *op;
  bool (*build)(cni_oxcall *c); /* false: it refuses this call, and has made nothing */
  const char *text;
  int since; /* opset */
} cni_oxrow;

bool cni_ox_words(cni_oxcall *c); /* writes c->text (expr.c) */
#define ROW(op, since, text)                                                                                         \
  {                                                                                                                  \
    op, cni_ox_words, text, since                                                                                    \
  }
#define BUILD(op, since, build)                                                                                      \
  {                                                                                                                  \
    op, build, NULL, since                                                                                           \
  }
#define BUILD_AS(op, since, build, text)                                                                             \
  {                                                                                                                  \
    op, build, text, since                                                                                           \
  }

/* The first row for an op behind `after` (NULL: from the beginning) that the opset has; NULL: there is none. */
const cni_oxrow *cni_ox_row(const char *op, int opset, const cni_oxrow *after);

/* ---- arguments by their place. One that follows from sizes is an error where it must be known ---- */
int64_t cni_oxarg_int(const cni_oxcall *c, int i);
double cni_oxarg_float(const cni_oxcall *c, int i);
const char *cni_oxarg_text(const cni_oxcall *c, int i); /* "" where there is none */
static inline bool cni_oxarg_none(const cni_oxcall *c, int i) { return c->args[i].tag == CN_V_NONE; }
bool cni_oxarg_open(const cni_oxcall *c, int i);         /* does any of its numbers follow from sizes? */
int cni_oxarg_count(const cni_oxcall *c, int i);         /* of a list; 1 of a number */
int64_t cni_oxarg_at(const cni_oxcall *c, int i, int k); /* element k of a list; a number stands for all */
int cni_oxarg_dim(const cni_oxcall *c, int i, int ndim);
uint32_t cni_oxarg_dims(const cni_oxcall *c, int i, int ndim); /* a mask; all where there is no list */
int cni_oxarg_find(const cni_oxcall *c, const char *name);     /* the place of a parameter; negative: there is none */
/* Element k as a size: a number, or what it is made of. */
cni_oxval cni_oxarg_size(const cni_oxcall *c, int i, int k);
/* Element k as a value of a type, of no dims. */
cni_oxval cni_oxarg_value(const cni_oxcall *c, int i, int k, int dtype);
/* Number i of an operand list: where parameter i's tensors begin among c->in. */
int cni_oxarg_in(const cni_oxcall *c, int i);
int cni_oxarg_tensors(const cni_oxcall *c, int i); /* how many: 1, or of a list */

bool cni_ox_reads(const cni_oxcall *c, int value); /* does anything read that value of the graph? */
/* An operand as the type of result k; a number becomes a constant. */
cni_oxval cni_ox_as(const cni_oxcall *c, int in, int out);
/* A result, cast to its type where it has another. */
void cni_ox_give(cni_oxcall *c, int k, cni_oxval v);
/* What small floats are computed in. */
static inline int cni_ox_wide(int dtype) { return dtype == CN_F16 || dtype == CN_BF16 ? CN_F32 : dtype; }
/* ---- graphs (graph.c) ---- */
/* Writes what a graph computes of these inputs; outputs: all of its. */
void cni_ox_write_graph(cni_ox *x, const cn_graph *g, const cni_oxval *inputs, cni_oxval *outputs);
bool cni_ox_pointwise(cni_oxcall *c);
bool cni_ox_control(cni_oxcall *c, const cn_graph_node *n); /* false: it is no branch or loop */
/* A graph's expression of sizes as a value of one element, or a number (sizes.c). */
cni_oxval cni_ox_size_of(const cni_oxcall *c, int expr);

#endif
