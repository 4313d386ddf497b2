/* ir.h: the graph itself: values and nodes.
 *
 * Place in the flow: capture.c writes it, passes change it, text_form.c prints it, plan.c and run.c execute it.
 * Invariants (checked by cn_graph_verify): nodes stand in an order in which every value is made before it is read; a
 * value has one maker; the graph is functional: in-place writes have become new values, and states say which value they
 * end up with. */
#ifndef CNI_GRAPH_IR_H
#define CNI_GRAPH_IR_H

#include <cairn/ext/graph.h>
#include <pthread.h>

#include "expr.h"
#include "ops/table.h"

enum cni_value_kind {
  CNI_VALUE_INPUT = CN_VALUE_INPUT,
  CNI_VALUE_STATE = CN_VALUE_STATE,
  CNI_VALUE_SCALAR = CN_VALUE_SCALAR,
  CNI_VALUE_RESULT = CN_VALUE_RESULT,
  CNI_VALUE_CONST = CN_VALUE_CONST
};

typedef struct cni_gvalue {
  enum cni_value_kind kind;
  int32_t dtype, ndim;
  cn_device device;
  int32_t index;   /* which input, state or scalar; RESULT: which result of the node */
  int32_t node;    /* RESULT: its maker */
  bool weak;       /* SCALAR, INPUT: a number that does not raise types */
  bool lent;       /* INPUT of a graph that a node holds: a weight of the graph around it, in every run (plan.c) */
  double number;   /* SCALAR: its value (float types), ... */
  int64_t integer; /* ... (other types) */
  int64_t shape[CN_MAX_DIMS]; /* as traced */
  int32_t dims[CN_MAX_DIMS];  /* INPUT: the expression of each size that may vary; 0: it may not. RESULT whose first
                               * size depends on data: dims[0] is that size of the graph */
  int32_t count;   /* RESULT, while it is captured: ... which of the trace's counts it is, from 1 on */
  int32_t expr;    /* SCALAR: the expression that gives it; 0: none */
  bool has_strides; /* was not row-major when traced; inputs of another order are brought into it before a run */
  int64_t strides[CN_MAX_DIMS];
  cn_tensor *tensor; /* CONST: its data, owned, row-major */
} cni_gvalue;

/* A size that may differ from run to run. Some input has a dim that is it, or a result of a node that counts. */
enum { CNI_SIZE_NAME = 32 };
typedef struct cni_gsize {
  char name[CNI_SIZE_NAME];
  int64_t traced, min, max; /* within min..max the graph is known to hold */
} cni_gsize;

/* Which number of a call's arguments follows from sizes: element `element` of argument `arg` (0 for a plain number). */
typedef struct cni_gsym {
  int32_t arg, element, expr;
} cni_gsym;
typedef struct cni_gsyms {
  cni_gsym *v;
  size_t n, cap;
} cni_gsyms;

/* Random numbers that are taken one after the other: how many. */
typedef struct cni_gdraw {
  int64_t count;
  int32_t expr; /* where the count follows from sizes; 0: it does not */
} cni_gdraw;

typedef struct cni_gnode {
  const cni_opinfo *info;
  cn_value *args; /* attributes, in one block with their lists; tensor slots keep tag and count */
  int nargs;
  size_t args_size;
  int *in; /* value ids; -1 where an optional is absent */
  int nin;
  int *out;
  int nout;
  cni_gsyms syms;
  int draw; /* random ops: which of the graph's draws its numbers are; -1: none */
  int scope; /* which of the graph's; -1: none */
  bool quiet; /* while it is captured: the program switched gradients off around it */
  cn_graph **subs; /* owned: the graphs that cond, while, scan and map hold (control.h) */
  int nsubs;
  struct cni_host *host; /* of a host call; a reference */
} cni_gnode;

enum { CNI_STATE_NAME = 1024 };
typedef struct cni_gstate {
  cn_tensor *tensor; /* owned; NULL in a parsed graph until bound */
  int value;         /* what reading it gives */
  int final;         /* what it holds after a run; -1: unchanged */
  char *name;        /* owned; NULL: it has none */
  bool trained;      /* a leaf that requires a gradient */
  struct cni_carried *carried; /* owned; NULL: it is a tensor of the program's */
} cni_gstate;

/* A state that is the cast of another one (passes/carry.c), of which only the graph knows. */
typedef struct cni_carried {
  size_t of;         /* the other state */
  struct cni_storage *from; /* owned: the memory that it is the cast of, ... */
  uint64_t version;  /* ... and as of when; 0: it is to be made anew */
} cni_carried;

/* Kinds of scopes with a meaning: a function with a backward of its own, and a checkpoint, which has none. */
#define CNI_SCOPE_FUNCTION "function"
#define CNI_SCOPE_CHECKPOINT "checkpoint"

/* Where nodes come from: a module's forward or another part of the program that has a name, or the call of a composite
 * op, whose tensors are the values `in` and `out` (-1: absent, or of no single value). */
typedef struct cni_gscope {
  int parent;           /* -1: none */
  char *name, *kind;    /* owned: "layer1.0" and "Conv2d"; NULL for calls */
  const void *owner;    /* while it is captured: the module */
  const cni_opinfo *op; /* of a call; NULL otherwise */
  cn_value *args;       /* as a node's */
  size_t args_size;
  int *in, *out;
  int nargs, nin, nout;
  cni_gsyms syms;
} cni_gscope;

/* The gradient of a leaf that the traced code used or replaced: what it must be before a run, and is after it. */
enum cni_leaf_before { CNI_GRAD_ABSENT, CNI_GRAD_GIVEN, CNI_GRAD_ANY };
enum cni_leaf_after { CNI_GRAD_KEPT, CNI_GRAD_CLEARED, CNI_GRAD_VALUE };

typedef struct cni_gleaf {
  cn_tensor *tensor; /* owned; NULL: the tensor of `state` */
  int state;         /* the state that is this leaf; -1: the graph never reads it */
  enum cni_leaf_before before;
  enum cni_leaf_after after;
  cn_tensor *given;  /* GIVEN: that tensor, owned */
  int value;         /* VALUE: the gradient */
} cni_gleaf;

/* What infer says of a value at the traced sizes. */
typedef struct cni_gtype {
  cn_tensor *handle; /* owned: type, shape and strides; numbers and constants: the tensor itself. NULL: not yet known */
  int root;          /* the value whose elements this one shows; itself unless it is a view */
  int64_t base;      /* of a view: elements from root's first one to its own */
  bool varies;       /* its sizes may change from run to run */
  bool counted;      /* ... since the first one depends on data */
} cni_gtype;

typedef struct cni_types {
  cni_gtype *v;
  size_t n, cap;
} cni_types;

/* What the graph follows from besides its inputs (cn_trace_depends, cn_trace_reads, cn_trace_sets). */
typedef enum cni_depend_kind { CNI_DEPEND_VERSION, CNI_DEPEND_NUMBER, CNI_DEPEND_NONE } cni_depend_kind;
typedef struct cni_gdepend {
  cn_tensor *tensor; /* owned */
  cni_depend_kind kind; /* NONE: the function set it before it read it */
  uint64_t then;        /* the version of its memory when it was traced, or what the number was */
} cni_gdepend;
typedef struct cni_gdepends {
  cni_gdepend *v;
  size_t n, cap;
} cni_gdepends;
void cni_depends_free(cni_gdepends *d);
bool cni_depends_hold(const cni_gdepends *d); /* are they as they were? */
uint64_t cni_depend_now(const cn_tensor *t, cni_depend_kind kind);

struct cn_graph {
  cni_gvalue *values;
  size_t nvalues, values_cap;
  cni_gnode *nodes;
  size_t nnodes, nodes_cap;
  int *inputs; /* value ids */
  size_t ninputs, inputs_cap;
  cni_gstate *states;
  size_t nstates, states_cap;
  int *outputs;
  size_t noutputs, outputs_cap;
  cni_gleaf *leaves;
  size_t nleaves, leaves_cap;
  cni_gdraw *draws; /* in order: a run begins where the thread stands */
  size_t ndraws, draws_cap;
  cni_gscope *scopes;
  size_t nscopes, scopes_cap;
  cni_gsize *sizes;
  size_t nsizes, sizes_cap;
  cni_exprs exprs; /* of sizes */
  int *input_finals; /* per input: what a run writes into the caller's tensor; -1: nothing */
  size_t input_finals_cap;
  bool closed; /* nobody will ask for gradients through it */
  bool fast;   /* kernels may round otherwise (cn_call.fast) */
  int before, scope; /* where cn_graph_add_node puts nodes: before this one (-1: the end), in this scope */
  cni_types types;   /* infer.c: of its values, while it is built or changed */
  struct cni_uses *uses; /* uses.c: NULL: not counted since the last change */
  struct cn_graph *lifted; /* replay.c: with composite ops whole; NULL: not yet */
  cni_gdepends depends;
  struct cni_plan *plan; /* plan.c: of the last sizes; NULL: none yet */
  struct cni_prepared_store *prepared; /* what kernels made of its weights, for all plans; NULL: none yet */
  struct cni_segments *segments; /* segments.c: where a size is defined by a node; NULL: not cut yet */
  struct cni_weights *weights; /* passes/weights.c: states that follow from others; NULL: there are none */
  size_t ninner; /* so many of the last inputs are values of a graph that this is a part of (segments.c): of any sizes
                  * and memory order */
  pthread_mutex_t lock;  /* of plans and uses: several threads may run a graph */
};

int cni_graph_add_value(cn_graph *g, const cni_gvalue *v);              /* its id; negative on failure */
int cni_graph_list_input(cn_graph *g, int value);                       /* that value is the next input */
int cni_graph_add_list(int **list, size_t *n, size_t *cap, int value);
/* Copies args and ids. Result ids are set by the caller afterwards (out starts as -1). The node's index; negative on
 * failure. */
int cni_graph_add_node(cn_graph *g, const cni_opinfo *info, const cn_value *args, int nargs, const int *in, int nin,
                       int nout);
int cni_graph_add_result(cn_graph *g, int node, int index, const cn_desc *d); /* its value; negative on failure */
/* The node holds these graphs from now on; 0, or CN_ERR_MEMORY: they stay the caller's. */
int cni_gnode_hold(cni_gnode *n, cn_graph *const *subs, int nsubs);
int cni_gnode_copy_held(cni_gnode *to, const cni_gnode *from); /* copy.c: graphs, and whom it calls */
void cni_gnode_free(cni_gnode *n);   /* what it owns */
void cni_gscope_free(cni_gscope *s);
void cni_plan_free(struct cni_plan *plan);
void cni_segments_free(struct cni_segments *segments);
/* run.c: dense strides of this shape whose dims lie in memory as an input's traced ones did. */
void cni_traced_order(const cni_gvalue *v, const int64_t *shape, int64_t *strides);
uint32_t cni_op_version(const cni_opinfo *info); /* at least 1 */
int cni_syms_add(cni_gsyms *s, int arg, int element, int expr); /* 0 or CN_ERR_MEMORY */
#define CNI_SIZE_MOST 1048576 /* of a size where nothing is known; see graph.h */
int cni_graph_add_size(cn_graph *g, const char *name, int64_t traced, int64_t min, int64_t max);
int cni_graph_add_count(cn_graph *g, int64_t traced, int64_t most); /* one of 0..most, under the next free name: u0 */
/* Replaces number `element` of a value: an integer, or a float. */
void cni_value_put(cn_value *v, int element, int64_t integer, double number);
/* Plans and uses are of another graph from now on. */
void cni_graph_changed(cn_graph *g);
static inline bool cni_is_value(const cn_graph *g, int v) { return v >= 0 && (size_t)v < g->nvalues; }

/* ---- infer.c ---- */
/* Runs a node's infer: in: its inputs' tensors, of which only types count; args: CN_MAX_ARGS, slots of tensors may be
 * empty. Fills spec (strides too), *compute and *device. A composite op's results are found by a capture. */
int cni_infer_node(cn_spec *spec, int32_t *compute, cn_device *device, const cn_graph *g, const cni_gnode *n,
                   const cn_value *args, cn_tensor **in);
/* The call that a node is, on these tensors; without results and specs, which are the caller's. */
void cni_node_call(cn_call *c, const cn_graph *g, const cni_gnode *n, const cn_value *args, cn_tensor *const *in);
/* What a call of the node finds as the thread's default type and device: those that its results show, whatever the
 * thread has now. */
typedef struct cni_defaults {
  cn_dtype dtype;
  cn_device device;
} cni_defaults;
void cni_defaults_begin(cni_defaults *saved, const cn_graph *g, const cni_gnode *n);
void cni_defaults_end(const cni_defaults *saved);
/* Puts tensors back into the slots of args. */
void cni_fill_slots(const cni_opinfo *info, cn_value *args, cn_tensor *const *in);
/* Types of all values that have none yet; nodes in order. */
int cni_types_fill(cni_types *t, const cn_graph *g);
int cni_types_of_node(cni_types *t, const cn_graph *g, int node); /* of one, whose inputs have types */
void cni_types_free(cni_types *t);
/* Is value a what b is: type, shape and memory order? */
bool cni_same_type(const cni_types *t, int a, int b);
cn_tensor *cni_number_tensor(const cni_gvalue *v); /* a scalar's, owned */
/* Is it a number with a value? A number that is an input of the graph has none before a run. */
static inline bool cni_is_number(const cn_tensor *t) { return cn_desc_of(t)->weak && cn_desc_of(t)->data; }
/* trace.c: the decomposition of a composite op's call, captured: its inputs are the call's tensors that are no numbers,
 * its outputs the call's results, which are described in c->spec. Owned; NULL with the error set. */
cn_graph *cni_trace_call(cn_call *c);
int cni_capture_infer(cn_call *c); /* ... where only the results' types are asked for */

/* ---- passes/carry.c ---- */
/* Makes those states anew whose other state was written by somebody else. */
int cni_carried_refresh(const cn_graph *g);
void cni_carried_written(const cn_graph *g); /* a run has written both */
void cni_carried_free(cni_carried *c);

/* ---- passes/weights.c ---- */
int cni_weights_refresh(const cn_graph *g); /* makes those states anew whose weights were written to */
int cni_weights_copy(cn_graph *to, const cn_graph *g); /* `to`, a copy, has its own */
void cni_weights_free(struct cni_weights *w);

/* ---- uses.c ---- */
void cni_uses_free(struct cni_uses *uses);
bool cni_handed_out(const cn_graph *g, int value); /* an output or a gradient: a run gives it memory of its own */

/* sizes.c: the values of all expressions for these inputs: owned, exprs.n of them. Checks that inputs that share a size
 * agree, and that each size is in its range. NULL with the error set. */
int64_t *cni_size_values(const cn_graph *g, cn_tensor *const *inputs);
int cni_plain_size(const cn_graph *g, const cni_gvalue *v, int dim); /* which size a dim is, itself; -1: it is none */
/* A node has found a size: the values of all expressions with it. 0, or an error: it is out of its range. */
int cni_size_found(const cn_graph *g, int64_t *values, int size, int64_t found);
/* The value of an expression at the traced sizes, also as a float: NAN where it is undefined. */
int64_t cni_expr_traced(const cn_graph *g, int expr, double *number);
/* parse_words.c: an expression of the graph's sizes from its text; negative where it is none. */
int cni_expression_parse(cn_graph *g, const char *text);
const char *cni_size_name_fault(const char *name); /* why a size cannot have it; NULL: it can */
/* The number that an expression gives; 0, or an error that names `what`. number may be NULL. */
int cni_size_number(const cn_graph *g, const int64_t *values, int expr, const char *what, int64_t *integer,
                    double *number);

#endif
