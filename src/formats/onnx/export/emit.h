/* emit.h: a model while it is made: values, nodes, constants, graphs inside of graphs. Internal.
 *
 * Place in the flow: rows (row.h) make nodes with these; graph.c walks the graph, proto.c writes what was made.
 * Invariant: nodes stand in an order in which every value is made before it is read; a value knows its type, and its
 * sizes at the traced ones, with a bit for each that may be another in a run. After a failure values are absent,
 * nothing more is made, and the error is set. */
#ifndef CNI_ONNX_EXPORT_EMIT_H
#define CNI_ONNX_EXPORT_EMIT_H

#include <cairn/ext/graph.h>
#include <cairn/ext/system.h>

#include "formats/onnx/model.h"

/* A value of the model, by its number; or a number that becomes a constant of the type it is used with. */
typedef struct cni_oxval {
  int id; /* negative: absent, or a number */
  bool number;
  int dtype, ndim;
  double f;      /* numbers: of float64, and ... */
  int64_t i;     /* ... of int64 and bool */
  uint32_t open; /* dims whose size may differ from the one traced */
  int64_t shape[CN_MAX_DIMS];
} cni_oxval;

/* What a name stands for. */
typedef struct cni_oxname {
  const char *text;  /* in the arena; NULL: it gets one when the model is written */
  const char *hint;  /* the operator that made it */
  cn_tensor *tensor; /* an initialiser's, owned; NULL: none */
  const void *bytes; /* ... or its bytes, in the arena */
  int64_t nbytes;
  int dtype, ndim;
  const int64_t *shape;       /* in the arena: of initialisers, inputs and outputs */
  const char *const *symbols; /* of an input's or output's sizes; NULL: fixed */
  bool fixed;                 /* its text must not change: an input, or a state */
  bool made;                  /* a node of the outermost graph makes it */
  int maker;                  /* the node that does; -1: none */
} cni_oxname;

typedef struct cni_oxnode {
  const char *op;
  const int *in, *out; /* numbers of names; -1: left out */
  int nin, nout;
  int graph;         /* in which it stands */
  const char *attrs; /* AttributeProtos, as fields of the node */
  size_t attrs_n;
  const int *subs; /* attributes that are graphs: their numbers, */
  const char *const *sub_names;
  int nsubs;
} cni_oxnode;

typedef struct cni_oxgraph {
  int parent;
  int *inputs, *outputs; /* names, in the arena */
  int ninputs, noutputs;
} cni_oxgraph;

/* A size that was asked for: it is a value of its own already. */
typedef struct cni_oxsize {
  int of, dim, graph;
  cni_oxval is;
} cni_oxsize;

typedef struct cni_ox {
  cni_arena arena;
  cni_oxname *names;
  size_t nnames, names_cap;
  cni_oxnode *nodes;
  size_t nnodes, nodes_cap;
  cni_oxgraph *graphs;
  size_t ngraphs, graphs_cap;
  cni_oxsize *sizes;
  size_t nsizes, sizes_cap;
  cn_text attrs;      /* of the node that is made next, */
  int subs[2], nsubs; /* ... and its graphs */
  const char *sub_names[2];
  int opset, graph, depth; /* graph: where nodes go now */
  const char *hint;        /* the op that is being written */
  bool failed;
} cni_ox;

static inline bool cni_ox_there(const cni_oxval *v) { return v->id >= 0 || v->number; }
static inline cni_oxval cni_ox_absent(void) { return (cni_oxval){.id = -1}; }
int cni_ox_fail(cni_ox *x, int code, const char *format, ...) CN_PRINTF(3, 4); /* returns code */
void cni_ox_free(cni_ox *x);
const char *cni_ox_word(cni_ox *x, const char *s, size_t n); /* a copy in the arena */
bool cni_ox_is_taken(const cni_ox *x, const char *name);     /* by an input, an output or a state */
bool cni_ox_is_float(int dtype);
bool cni_ox_is_signed(int dtype);

/* ---- attributes of the operator that is made next; what build.c makes meanwhile leaves them alone ---- */
void cni_ox_int(cni_ox *x, const char *name, int64_t v);
void cni_ox_float(cni_ox *x, const char *name, double v);
void cni_ox_text(cni_ox *x, const char *name, const char *v);
void cni_ox_texts(cni_ox *x, const char *name, const char *const *v, int n);
void cni_ox_ints(cni_ox *x, const char *name, const int64_t *v, int n);
void cni_ox_graph(cni_ox *x, const char *name, int graph);
void cni_ox_zeros(cni_ox *x, const char *name, int dtype, double value); /* a tensor of one element */

/* ---- nodes ---- */
/* A value without a maker: a graph's input; or the result of a node that the caller makes. */
cni_oxval cni_ox_fresh(cni_ox *x, int dtype, int ndim, const int64_t *shape, uint32_t open);
/* An operator as it is, on operands of the types that it takes; out: their types, to be filled with their numbers. */
void cni_ox_node(cni_ox *x, const char *op, int nin, const cni_oxval *in, int nout, cni_oxval *out);
/* One result. Operands that onnxruntime has no kernel for (types.def) go by way of a wider type, and the result back;
 * numbers take the type of the first operand that is none. Its type is what types.def says; its shape what the operands
 * broadcast to, which cni_ox_shaped puts right. */
cni_oxval cni_ox_emit(cni_ox *x, const char *op, int nin, const cni_oxval *in);
#define CNI_OX_EMIT(x, op, ...)                                                                                      \
  cni_ox_emit(x, op, (int)(sizeof((cni_oxval[]){__VA_ARGS__}) / sizeof(cni_oxval)), (cni_oxval[]){__VA_ARGS__})
cni_oxval cni_ox_shaped(cni_oxval v, int ndim, const int64_t *shape, uint32_t open);
/* The type in which onnxruntime computes this operator for operands of that type. */
int cni_ox_kernel_type(const cni_ox *x, const char *op, int dtype);

/* ---- graphs inside of nodes ---- */
int cni_ox_graph_begin(cni_ox *x); /* nodes go there from now on; its number */
void cni_ox_graph_end(cni_ox *x, int graph, int nin, const cni_oxval *in, int nout, const cni_oxval *out);
cni_oxval cni_ox_identity(cni_ox *x, cni_oxval v);

/* ---- numbers and constants ---- */
cni_oxval cni_ox_num(double f);
cni_oxval cni_ox_whole(int64_t i);
cni_oxval cni_ox_const(cni_ox *x, cni_oxval number, int dtype); /* without dims */
cni_oxval cni_ox_solid(cni_ox *x, cni_oxval v, int dtype);      /* numbers as constants, others as they are */
cni_oxval cni_ox_data(cni_ox *x, const void *bytes, int dtype, int ndim, const int64_t *shape); /* copied */
cni_oxval cni_ox_list(cni_ox *x, const int64_t *v, int n);          /* int64, of one dim */
cni_oxval cni_ox_tensor(cni_ox *x, cn_tensor *t, const char *name); /* an initialiser, kept; name may be NULL */
cni_oxval cni_ox_limit(cni_ox *x, int dtype, bool lowest);          /* its smallest or largest number; infinities */

/* ---- sizes: int64 of one element, or numbers ---- */
cni_oxval cni_ox_size(cni_ox *x, cni_oxval v, int dim);
cni_oxval cni_ox_sizes(cni_ox *x, int n, const cni_oxval *sizes); /* as one vector */
cni_oxval cni_ox_shape(cni_ox *x, cni_oxval v);                   /* all of a value's */
cni_oxval cni_ox_count(cni_ox *x, cni_oxval v, uint32_t dims);    /* the product of some */
cni_oxval cni_ox_math(cni_ox *x, const char *op, cni_oxval a,
                      cni_oxval b); /* "Add", "Sub", "Mul", "Div", "Min", "Max" */

/* ---- types and shapes ---- */
cni_oxval cni_ox_cast(cni_ox *x, cni_oxval v, int dtype); /* as cairn does */
cni_oxval cni_ox_reshape(cni_ox *x, cni_oxval v, int ndim, const cni_oxval *sizes);
cni_oxval cni_ox_reshape_like(cni_ox *x, cni_oxval v, cni_oxval like); /* to the sizes of another value */
cni_oxval cni_ox_expand(cni_ox *x, cni_oxval v, int ndim, const cni_oxval *sizes);
cni_oxval cni_ox_transpose(cni_ox *x, cni_oxval v, const int64_t *order);
cni_oxval cni_ox_swap(cni_ox *x, cni_oxval v, int a, int b);
cni_oxval cni_ox_unsqueeze(cni_ox *x, cni_oxval v, int dim);
cni_oxval cni_ox_squeeze(cni_ox *x, cni_oxval v, int dim);
/* Elements from .. to of one dim; `to` absent: to the end. */
cni_oxval cni_ox_slice(cni_ox *x, cni_oxval v, int dim, cni_oxval from, cni_oxval to, int64_t step);
cni_oxval cni_ox_concat(cni_ox *x, int n, const cni_oxval *v, int dim);
/* "ReduceSum" and the like over the dims of the mask, which stay, of size 1, or go. */
cni_oxval cni_ox_reduce(cni_ox *x, const char *op, cni_oxval v, uint32_t dims, bool keep);
/* A value of these sizes, of one number. */
cni_oxval cni_ox_full(cni_ox *x, int dtype, int ndim, const cni_oxval *sizes, double value);
cni_oxval cni_ox_matmul(cni_ox *x, cni_oxval a, cni_oxval b);
cni_oxval cni_ox_where(cni_ox *x, cni_oxval p, cni_oxval a, cni_oxval b);
cni_oxval cni_ox_binary(cni_ox *x, const char *op, cni_oxval a, cni_oxval b); /* operands of one type, or numbers */

/* ---- in words (expr.c) ---- */
/* "x = a * 2; Where(x > b, x, Exp(b))" over a, b, c, ..., which stand for in[0], in[1], ...; T is what a `type` is. */
cni_oxval cni_ox_expr(cni_ox *x, const char *text, int type, int n, const cni_oxval *in);
#define CNI_OX_EXPR(x, text, type, ...)                                                                              \
  cni_ox_expr(x, text, type, (int)(sizeof((cni_oxval[]){__VA_ARGS__}) / sizeof(cni_oxval)),                          \
              (cni_oxval[]){__VA_ARGS__})
/* A primitive of pointwise programs, by its name. */
cni_oxval cni_ox_primitive(cni_ox *x, const char *name, int type, int n, const cni_oxval *in);
bool cni_ox_has_primitive(const char *name, int type);

#endif
