/* ext/graph.h: graphs from inside, for exporters, devices and plugins: reading, building, changing, rewriting.
 *
 * A graph is flat and functional: nodes stand in an order in which every value is made before it is read, and nothing
 * is ever written over. Values and nodes have numbers from 0; a change that drops some (cn_graph_remove_dead) gives
 * the others new ones. Structs that are filled in begin with their size, which the caller sets: {sizeof v}.
 */
#ifndef CAIRN_EXT_GRAPH_H
#define CAIRN_EXT_GRAPH_H

#include "../graph.h"
#include "op.h"

CN_BEGIN_DECLS

/* ---- values while a function is compiled ---- */
/* Code that cannot be captured for all values of an integer says so: a compiled function is then captured again, for
 * the values that its inputs have (integers and bools of one element in host memory), which are part of its programs'
 * keys from then on. Where there are many values in turn, calls run as they are. */
CN_API void cn_trace_wants_values(void);
/* Is the tensor such an input, which may be read with the trace paused (cn_trace_pause)? */
CN_API bool cn_trace_is_value(const cn_tensor *t);

/* ---- reading ---- */
typedef enum cn_value_kind {
  CN_VALUE_INPUT,  /* given to each run */
  CN_VALUE_STATE,  /* a tensor from outside, which a run may also set */
  CN_VALUE_SCALAR, /* a number; a weak one does not raise types */
  CN_VALUE_RESULT, /* made by a node */
  CN_VALUE_CONST   /* a small tensor that belongs to the graph and never changes */
} cn_value_kind;

typedef struct cn_value_info {
  size_t size;
  int32_t kind;             /* a cn_value_kind */
  int32_t dtype, ndim;      /* of numbers: float64, int64 or bool, and 0 */
  int32_t index;            /* INPUT, STATE: which; RESULT: which result of its node */
  int32_t node;             /* RESULT: its maker; -1 otherwise */
  cn_device device;
  bool weak;                /* SCALAR, INPUT: a number */
  double number;            /* SCALAR of float64 */
  int64_t integer;          /* SCALAR of other types */
  cn_tensor *tensor;        /* CONST; STATE that is bound; borrowed. NULL otherwise */
  int64_t shape[CN_MAX_DIMS]; /* as traced */
} cn_value_info;

typedef struct cn_graph_node {
  size_t size;
  const cn_op *op;
  const char *name;     /* the op's */
  const cn_value *args; /* one per parameter; those of tensors have a tag and a count, but no pointer: see in */
  const int *in;        /* values: the tensors among args, lists laid flat; -1 where an optional is absent */
  const int *out;
  int32_t nargs, nin, nout;
  int32_t draw;         /* random ops: which draw of the graph its numbers are; -1: none */
  int32_t scope;        /* -1: none */
  int32_t nsubs;
  cn_graph *const *subs; /* the graphs that a branch or loop holds: see below */
} cn_graph_node;

/* Branches and loops are nodes that hold graphs, which read their own inputs alone; what they need from outside is an
 * operand of the node. These names are no ops that programs call: cairn/control.h makes such nodes.
 *
 *   cond(Tensor pred, Tensor[] operands)                            {operands -> results} {operands -> results}
 *   while(Tensor[] carried, Tensor[] operands, int max_steps=0)     {carried, operands -> one element}
 *                                                                   {carried, operands -> carried, ys}
 *   scan(Tensor[] carried, Tensor[] xs, Tensor[] operands, Tensor? steps, int length, bool reverse=False,
 *        bool countdown=False)                                      {carried, a row of each x, operands -> carried, ys}
 *   map(Tensor[] xs, Tensor[] operands, int length)                 {a row of each x, operands -> ys}
 *
 * Results are the last carried values, and ys with a row for each step; a while that has max_steps gives how many steps
 * it took (int64) as the last one. A scan with `steps` (int64) does that many, and its other rows are zero. Random
 * numbers: step s draws s times what the graph draws behind the node's own draw; with countdown the last step done is
 * step 0. A host_call holds no graph, but a C function. */

/* A part of the program that has a name, or the call of an op that is made of others. */
typedef struct cn_graph_scope {
  size_t size;
  int32_t parent;           /* stands before it; -1: none */
  const char *name, *kind;  /* "layer1.0", "Conv2d"; NULL for calls */
  const cn_op *op;          /* of a call; NULL otherwise */
  const cn_value *args;     /* of a call: as a node's */
  const int *in, *out;      /* ... -1 also where the value is not known */
  int32_t nargs, nin, nout;
} cn_graph_scope;

/* The gradient of a state that a run uses or sets. */
typedef struct cn_graph_gradient {
  size_t size;
  int32_t state; /* -1: of a tensor that the graph does not read */
  int32_t value; /* what it becomes; -1: no value */
  bool cleared;  /* it is taken away */
} cn_graph_gradient;

/* Each fills what it is asked for. 0, or an error when there is none of that number. Pointers are the graph's, until it
 * changes. */
CN_API size_t cn_graph_values(const cn_graph *graph); /* how many; nodes, inputs, outputs, states: see graph.h */
CN_API int cn_graph_value_at(cn_value_info *value, const cn_graph *graph, int i);
CN_API int cn_graph_node_at(cn_graph_node *node, const cn_graph *graph, int i);
/* What each node costs at the traced sizes, one after the other: parts of ops that are made of others are added up, a
 * branch counts as its dearer side, a loop as its steps, one of a while. 0 or an error. */
CN_API int cn_graph_costs(cn_cost *costs, const cn_graph *graph);
CN_API size_t cn_graph_draws(const cn_graph *graph); /* of random numbers, which nodes name */
/* How many counters behind the offset of a run draw i begins; for as many draws as there are: how many a run takes.
 * Negative: there is no such draw. */
CN_API int64_t cn_graph_draw_offset(const cn_graph *graph, size_t i);
/* What a pointwise node computes: steps over registers, which hold its inputs first, then constants, then a step's
 * result each. The text has four parts, as in "2|1.5,@3|mul 0 2;add 4 1|5": how many inputs; constants, @3 being
 * the number that argument 3 is (of the op "pointwise" itself: element 3 of its numbers); steps with their
 * operands, by the names of pointwise.def; results. Registers hold float32, float64, int64 or uint64, whichever
 * `compute` is computed in. A program of updates or of a group has types of its own:
 * "float32:f32,int32:i64|2:f32|to:f32 1;add:f32 0 3;to:i64:int8 4|5:int8" loads inputs, computes steps and stores
 * results as it says; to:i64:int8 goes by way of int8. */
typedef struct cn_graph_formula {
  size_t size;
  const char *text;  /* stays */
  int32_t compute;   /* a cn_dtype: what the call computes for */
  uint64_t rounded;  /* bit i: input i is rounded to that type before it is used */
} cn_graph_formula;
CN_API int cn_graph_formula_at(cn_graph_formula *formula, const cn_graph *graph, int node);
CN_API size_t cn_graph_scopes(const cn_graph *graph);
CN_API int cn_graph_scope_at(cn_graph_scope *scope, const cn_graph *graph, int i);
CN_API size_t cn_graph_gradients(const cn_graph *graph);
CN_API int cn_graph_gradient_at(cn_graph_gradient *gradient, const cn_graph *graph, int i);
/* Values by their place; negative when there is none: what input i is, output i is, reading state i gives, and state i
 * holds after a run (-1: it is not written); input_final: what a run writes into what it was given as input i (-1). */
CN_API int cn_graph_input(const cn_graph *graph, size_t i);
CN_API int cn_graph_input_final(const cn_graph *graph, size_t i);
CN_API int cn_graph_output(const cn_graph *graph, size_t i);
CN_API int cn_graph_state_value(const cn_graph *graph, size_t i);
CN_API int cn_graph_state_final(const cn_graph *graph, size_t i);

/* Who reads a value. */
typedef enum cn_use_kind {
  CN_USE_NODE,
  CN_USE_OUTPUT,
  CN_USE_STATE,   /* a state holds it after a run */
  CN_USE_GRADIENT,
  CN_USE_INPUT    /* a run writes it into what it was given */
} cn_use_kind;
typedef struct cn_graph_use {
  int32_t kind;  /* a cn_use_kind */
  int32_t index; /* which node, output, state, gradient or input */
  int32_t slot;  /* NODE: which of its inputs */
} cn_graph_use;
/* How many, in *uses, in the order of nodes; negative on failure. The list is the graph's, until it changes. */
CN_API int cn_graph_users(const cn_graph_use **uses, cn_graph *graph, int value);

/* ---- sizes that may differ from run to run ---- */
typedef struct cn_graph_size {
  size_t size;
  const char *name; /* the graph's */
  int64_t traced, min, max;
} cn_graph_size;
CN_API size_t cn_graph_sizes(const cn_graph *graph);
CN_API int cn_graph_size_at(cn_graph_size *size, const cn_graph *graph, int i);
/* A number that follows from them: an operation on two others. A ratio is a float, and the whole of an expression. */
typedef enum cn_expr_op {
  CN_EXPR_CONST = 1, /* value */
  CN_EXPR_SIZE,      /* the graph's size number `value` */
  CN_EXPR_ADD,
  CN_EXPR_SUB,
  CN_EXPR_MUL,
  CN_EXPR_DIV, /* rounded down */
  CN_EXPR_MIN,
  CN_EXPR_MAX,
  CN_EXPR_RATIO
} cn_expr_op;
typedef struct cn_graph_expr {
  size_t size;
  int32_t op;   /* a cn_expr_op */
  int32_t a, b; /* operands: expressions */
  int64_t value;
} cn_graph_expr;
CN_API int cn_graph_expr_at(cn_graph_expr *expr, const cn_graph *graph, int i); /* from 1 on */
/* Which expression gives a size of an input, or the first size of a result that depends on data; a number (SCALAR);
 * element `element` of an argument of a node (0 of a plain number). 0: it is as it stands there. */
CN_API int cn_graph_dim_expr(const cn_graph *graph, int value, int dim);
CN_API int cn_graph_number_expr(const cn_graph *graph, int value);
CN_API int cn_graph_arg_expr(const cn_graph *graph, int node, int arg, int element);
/* The shapes of all values at other sizes (one for each of the graph's): CN_MAX_DIMS numbers a value. 0 or an error. */
CN_API int cn_graph_shapes(int64_t *shapes, const cn_graph *graph, const int64_t *sizes);

/* ---- building ---- */
#define CN_CONST_MOST 4096 /* elements of a constant: what is larger is a state */

CN_API CN_MUST_USE cn_graph *cn_graph_new(void); /* owned; NULL when out of memory */
/* The same graph once more, bound to the same tensors; values, nodes, states and scopes keep their numbers. Owned. */
CN_API CN_MUST_USE cn_graph *cn_graph_copy(const cn_graph *graph);
/* Each returns the new value, or a negative status. A state is bound to t; a constant is a copy of it. */
CN_API int cn_graph_add_input(cn_graph *graph, cn_device device, cn_dtype dtype, int ndim, const int64_t *shape);
CN_API int cn_graph_add_state(cn_graph *graph, cn_tensor *t);
CN_API int cn_graph_add_const(cn_graph *graph, cn_tensor *t);
CN_API int cn_graph_add_number(cn_graph *graph, cn_value number); /* weak: an int, float or bool */
/* Calls op: its results' types are inferred. args: one per parameter, missing trailing ones get their defaults; tensors
 * come from `in`, one for each parameter that is a tensor (-1: absent) and n for each that is a list,
 * cn_v_tensors(NULL, n). *nout: capacity in, count out. The node goes where cn_graph_at says. The node's number, or a
 * negative status. */
CN_API int cn_graph_add_node(int *out, size_t *nout, cn_graph *graph, const cn_op *op, const cn_value *args,
                             size_t nargs, const int *in, size_t nin);
/* The same for a branch or a loop, by its name; it holds the graphs `subs` from then on, also where it fails. Random
 * numbers that they draw get a draw of the graph. */
CN_API int cn_graph_add_control(int *out, size_t *nout, cn_graph *graph, const char *name, const cn_value *args,
                                size_t nargs, const int *in, size_t nin, cn_graph *const *subs, size_t nsubs);
/* New nodes go before this node (-1: to the end), into this scope (-1: none). */
CN_API int cn_graph_at(cn_graph *graph, int before, int scope);
CN_API int cn_graph_add_scope(cn_graph *graph, int parent, const char *name, const char *kind); /* its number */
CN_API int cn_graph_add_output(cn_graph *graph, int value);
CN_API int cn_graph_set_final(cn_graph *graph, size_t state, int value); /* -1: a run does not write it */

/* ---- changing ---- */
/* Whoever reads `from` reads `to`: same type and shape, made before all of them. Returns how many did. Where both are
 * given to the caller of a run they stay two values, since those must not share memory: 0. */
CN_API int cn_graph_replace(cn_graph *graph, int from, int to);

/* ---- rewriting ---- */
typedef struct cn_match cn_match;
/* A rewrite: where a part of a graph looks like the pattern, and the condition holds, the replacement takes its place.
 *
 *   pattern      a call of an op: "neg(neg(x))", or a choice of calls; of several results it is the first. In the place
 *                of a tensor: another call, a name (the same name is the same value everywhere), "c = sub(x, y)" for a
 *                name and what it is made by, a number (a scalar, or a constant of one element, of that value, -0.0 is
 *                not 0; ~0.7: also what float32 makes of it), "#name" for any such number, "{x, y}" for a list, "none",
 *                "(p | q)" for the first of these that fits, "cast?(x, _)" for cast(x, _) or x alone. In the place of
 *                an attribute: a literal, or $name. "_" is anything. Missing trailing arguments have their defaults.
 *                Operands of add, mul, maximum, minimum, eq, ne, logical_and and logical_or stand in either order.
 *   replacement  a name, or calls made of the pattern's names and literals; #name also in the place of an
 *                attribute. A name that nothing was found for is an absent tensor.
 *
 * What the replacement makes must have type, shape and memory order of what it replaces, or it is not taken. Inner
 * values of the pattern that others read stay. */
typedef struct cn_rewrite {
  const char *name, *pattern;
  bool (*when)(const cn_match *match); /* NULL: always */
  const char *replacement;
  bool any_sizes; /* holds at all sizes; otherwise not applied to values whose sizes may change from run to run */
} cn_rewrite;

/* What a condition can ask. Of a name or $name of the pattern; "" is the value that will be replaced. */
CN_API const cn_graph *cn_match_graph(const cn_match *match);
CN_API int cn_match_value(const cn_match *match, const char *name);            /* negative: there is none */
CN_API const cn_value *cn_match_attribute(const cn_match *match, const char *name); /* NULL: there is none */
CN_API bool cn_match_number(double *number, const cn_match *match, const char *name); /* of a #name; false: none */
/* What a condition can give: the value of a $name that only the replacement has: a number, none, or integers, which are
 * copied. false: there is no such name, or no room; the condition does not hold then. */
CN_API bool cn_match_give(const cn_match *match, const char *name, cn_value value);

/* Applies rows until none fits. Returns how often one did, or a negative status (a row that cannot be read is one). */
CN_API int cn_graph_rewrite(cn_graph *graph, const cn_rewrite *rows, size_t n);
/* Rows that cn_graph_optimise applies, too. They must outlive the process's use of them. 0, or an error that says which
 * row cannot be read. */
CN_API int cn_rewrite_register(const cn_rewrite *rows, size_t n);

/* ---- files: what cn_graph_save and cn_graph_load, and other formats, need ---- */
#define CN_GRAPH_FORMAT 2 /* of texts that cn_graph_parse reads */
/* Which format its text is of, so that older libraries read what they can: 1; 2 where a node defines a size. */
CN_API int cn_graph_format(const cn_graph *graph);
CN_API int cn_graph_can_save(const cn_graph *graph); /* 0, or the error: why its states cannot stand in a file */
/* What a state is called in a file: its name, or "state.3", written to room (32 bytes do). NULL: there is none. */
CN_API const char *cn_graph_state_key(const cn_graph *graph, size_t i, char *room, size_t size);
/* Binds a state to a tensor that was read: moved to the state's device and memory order; it takes a gradient where the
 * graph gives it one. */
CN_API int cn_graph_bind_loaded(cn_graph *graph, size_t i, cn_tensor *t);

/* ---- replaying ---- */
typedef struct cn_replay_opts {
  size_t size;
  const struct cn_guard *guard;
  bool no_writes; /* states, inputs and gradients of leaves stay as they are */
  /* Ops that are computed by their decomposition where there is a kernel, too; NULL: none. Composite ops always are. */
  bool (*decompose)(const cn_op *op, void *payload);
  void *payload;
} cn_replay_opts;
/* Calls the graph's ops one after the other, as the program did that was traced, under the modes of the thread: results
 * carry gradients where inputs or states do, autocast casts, a graph that is captured takes the nodes over. Outputs are
 * borrowed from the scope, and may look into inputs and states as the program's did. Inputs have the traced number of
 * dimensions and sizes; their types and devices, and those of states, may be others, as far as the ops allow it.
 * cn_graph_run is faster where none of this is wanted. */
CN_API int cn_graph_replay_with(cn_tensor **outputs, const cn_graph *graph, cn_tensor *const *inputs,
                                const cn_replay_opts *opts);
/* Computes it as a module's forward does: by a run, where nobody looks at ops; else replayed, with its composite ops
 * whole, as the program called them. states: what is read and written instead of each; NULL, or NULL there: itself. */
CN_API int cn_graph_call(cn_tensor **outputs, cn_graph *graph, cn_tensor *const *inputs, cn_tensor *const *states);
/* Type, device and shape that the results would have for such inputs; nothing is computed. */
CN_API int cn_graph_infer(cn_graph_value *outputs, const cn_graph *graph, const cn_graph_value *inputs);

/* ---- tracing ---- */
/* While a function is traced: numbers that are part of what is recorded follow from t, which is written to whenever
 * they change. A compiled function is then captured again (cn_compile); a graph of cn_trace stays as it is. Where
 * nothing is traced it does nothing. 0 or CN_ERR_MEMORY. */
CN_API int cn_trace_depends(cn_tensor *t);
/* The same of a number that cn_int made: what is recorded holds whenever it is what it is now. sets: the function sets
 * it itself, so that from here on what it was before does not matter. */
CN_API int cn_trace_reads(cn_tensor *number);
CN_API int cn_trace_sets(cn_tensor *number);

/* ---- lifting ---- */
/* Folds calls of ops that are made of others back into one node each, where nothing inside is used outside: the
 * outermost calls that `wanted` takes (NULL: all ops that programs can call). A plan of such a graph is made of their
 * parts again. Returns how many were folded, or a negative status. */
CN_API int cn_graph_lift(cn_graph *graph, bool (*wanted)(const cn_op *op, void *payload), void *payload);
/* Neighbouring pointwise nodes become one node of the op "pointwise", which computes all of them in one pass over
 * memory. For a graph that is only run from now on: such a node has no gradient. Results are the same to the bit; those
 * of float16 and bfloat16 are where `exact`, else what lies between the nodes of a group stays float32. How many groups
 * there are, those in branches and loops included, or an error. */
CN_API int cn_graph_fuse(cn_graph *graph, bool exact);
/* Before cn_graph_fuse, for a graph that is only run from now on, and whose results may be rounded otherwise: batch
 * norms by running statistics become parts of the layers before them, and what follows from weights alone is computed
 * when those change. Kernels may take ways that lose a few roundings more. How much it changed, or an error. */
CN_API int cn_graph_join(cn_graph *graph);

CN_END_DECLS

#ifndef __cplusplus
/* cn_graph_replay(outputs, graph, inputs, .no_writes = true) */
#define cn_graph_replay(outputs, graph, ...) \
  cn_graph_replay_with(outputs, graph, CN_HEAD(__VA_ARGS__, ), CN_OPTS(cn_replay_opts, CN_TAIL(__VA_ARGS__, )))
#endif

#endif
