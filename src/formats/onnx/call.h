/* call.h: what a family of operators sees: the form of its rows, and one node's call. Internal.
 *
 * A row says what an operator is: in words that name an op of cairn and its arguments (template.c), or, where those do
 * not say it, by a builder, a function that calls public ops. A builder asks for inputs and attributes by the functions
 * below and sets results; what it makes belongs to a scope that ends with the node. 0 or an error, which the walk
 * (run.c) completes with the node, the operator and the opset. */
#ifndef CNI_ONNX_CALL_H
#define CNI_ONNX_CALL_H

#include <cairn/cairn.h>

#include "model.h"
#include "value.h"

typedef struct cni_onnx_call cni_onnx_call;

/* ---- rows ---- */
enum cni_onnx_flags {
  /* Its results are never known numbers (value.h), whatever its inputs are: it draws random numbers, runs sub-graphs,
   * or gives what is no tensor. */
  CNI_ONNX_FRESH = 1
};

typedef struct cni_onnx_op {
  const char *name;
  const char *text; /* a template: see template.h; NULL: a builder */
  int (*build)(cni_onnx_call *call);
  uint16_t since; /* the first opset for which it holds, up to the next row of this name */
  uint16_t flags;
} cni_onnx_op;

/* How rows are written: ONNX_TEXT("Relu", 1, "relu(%0)"), ONNX_BUILD("Conv", 1, conv). A table ends with {NULL}. */
#define ONNX_TEXT(name, since, text)                                                                                 \
  {                                                                                                                  \
    name, text, NULL, since, 0                                                                                       \
  }
#define ONNX_BUILD(name, since, build)                                                                               \
  {                                                                                                                  \
    name, NULL, build, since, 0                                                                                      \
  }
#define ONNX_FRESH(name, since, build)                                                                               \
  {                                                                                                                  \
    name, NULL, build, since, CNI_ONNX_FRESH                                                                         \
  }

/* ---- one node's call ---- */
struct cni_onnx_call {
  const cni_onnx_node *node;
  const struct cni_onnx_frame *frame; /* run.h */
  cn_onnx_value *const *in;           /* nin of them, borrowed; NULL: left out */
  cn_onnx_value **out;                /* nout, owned by the call: see cni_onnx_out */
  size_t nin, nout;
  int64_t opset;
  cni_arena room;      /* goes with the call */
  cn_onnx_value *made; /* so does this: see cni_onnx_once */
};

typedef struct cni_onnx_ints {
  const int64_t *v; /* NULL: not given, or the error is set */
  size_t n;
} cni_onnx_ints;
typedef struct cni_onnx_floats {
  const double *v;
  size_t n;
} cni_onnx_floats;

/* Sets the error; returns code. */
int cni_onnx_fail(const cni_onnx_call *call, int code, const char *format, ...) CN_PRINTF(3, 4);

/* ---- inputs ---- */
static inline bool cni_onnx_has(const cni_onnx_call *call, size_t i)
{
  return i < call->nin && call->in[i] && call->in[i]->kind != CN_ONNX_NONE;
}
cn_tensor *cni_onnx_in(const cni_onnx_call *call,
                       size_t i); /* borrowed; NULL with the error set: no tensor is there */
cn_tensor *cni_onnx_maybe(const cni_onnx_call *call, size_t i); /* NULL without an error where it is left out */
/* Input i for a pointwise op. Where a graph is captured, a floating number that is known, and alone beside a tensor of
 * its type, is given as a number, which passes over the graph can look at. The results are the same to the bit. */
cn_tensor *cni_onnx_operand(cni_onnx_call *call, size_t i);
cn_onnx_value *cni_onnx_value_in(const cni_onnx_call *call, size_t i); /* of any kind; NULL with the error set */
int cni_onnx_strings_in(cn_strings *out, const cni_onnx_call *call, size_t i);
/* Input i for an operator that only moves elements, for cni_onnx_out_moved: strings as the places that they have there,
 * types that ops do not compute with as others of the same bits or numbers. */
cn_tensor *cni_onnx_in_moved(const cni_onnx_call *call, size_t i);
/* All tensors from input `first` on, borrowed; NULL with the error set. */
cn_tensor *const *cni_onnx_rest(cni_onnx_call *call, size_t first, size_t *n);
/* The numbers of an input that cairn takes as arguments. Where a graph is captured they must be known (value.h), which
 * otherwise is the error of any value that is read then. Not given: v is NULL, without an error. */
cni_onnx_ints cni_onnx_ints_in(cni_onnx_call *call, size_t i);
cni_onnx_floats cni_onnx_floats_in(cni_onnx_call *call, size_t i);
/* ... of one element; otherwise: what it is where it is not given. */
int64_t cni_onnx_int_in(cni_onnx_call *call, size_t i, int64_t otherwise);
double cni_onnx_float_in(cni_onnx_call *call, size_t i, double otherwise);
bool cni_onnx_is_known(const cni_onnx_call *call, size_t i); /* its numbers can be asked for, or it is left out */

/* ---- attributes ---- */
/* Inside of a function's body those that refer to the function's own are followed. NULL: not given. */
const cni_onnx_attr *cni_onnx_attr_of(const cni_onnx_call *call, const char *name);
int64_t cni_onnx_int(const cni_onnx_call *call, const char *name, int64_t otherwise);
double cni_onnx_float(const cni_onnx_call *call, const char *name, double otherwise);
const char *cni_onnx_text(const cni_onnx_call *call, const char *name, const char *otherwise);
cni_onnx_ints cni_onnx_ints_of(const cni_onnx_call *call, const char *name);     /* v NULL: not given */
cni_onnx_floats cni_onnx_floats_of(const cni_onnx_call *call, const char *name); /* likewise */
cn_onnx_value *cni_onnx_tensor_of(const cni_onnx_call *call, const char *name);  /* borrowed; NULL: not given */
/* A type as TensorProto.DataType; CN_DTYPE_NONE with the error set where cairn has none. */
cn_dtype cni_onnx_dtype_of(const cni_onnx_call *call, const char *name, cn_dtype otherwise);
/* "axis", as 0..ndim-1; negative with the error set where it is out of range. */
int64_t cni_onnx_axis(const cni_onnx_call *call, int64_t axis, int64_t ndim);

/* What an operator makes of its attributes alone, such as tables, at its first run, outside of any graph that is
 * captured, and then keeps with the model. Borrowed, for the call; NULL with the error set. */
cn_onnx_value *cni_onnx_once(cni_onnx_call *call, cn_onnx_value *(*make)(cni_onnx_call *call));

/* ---- results ---- */
static inline bool cni_onnx_wants(const cni_onnx_call *call, size_t i)
{
  return i < call->nout && call->node->outputs[i] >= 0;
}
/* Sets result i, if anybody wants it; a NULL t fails. 0 or the error. */
int cni_onnx_out(cni_onnx_call *call, size_t i, cn_tensor *t);
int cni_onnx_out_strings(cni_onnx_call *call, size_t i, const cn_strings *strings);
/* Elements of input `from`, as cni_onnx_in_moved gave them. */
int cni_onnx_out_moved(cni_onnx_call *call, size_t i, cn_tensor *t, size_t from);
int cni_onnx_out_value(cni_onnx_call *call, size_t i, cn_onnx_value *value); /* takes it over, on failure too */
/* Sets result i to int64 numbers that follow from sizes, so that they are known: a vector, or one of no dimensions. */
int cni_onnx_out_ints(cni_onnx_call *call, size_t i, const int64_t *v, size_t n, bool scalar);

/* ---- sub-graphs ---- */
/* The graph of an attribute; NULL with the error set. */
const cni_onnx_graph *cni_onnx_graph_of(const cni_onnx_call *call, const char *name);
/* Walks it: inputs are borrowed, as many as it has; outputs owned, as many as it has, none on failure. */
int cni_onnx_walk_inside(cn_onnx_value **outputs, const cni_onnx_call *call, const cni_onnx_graph *graph,
                         cn_onnx_value *const *inputs, size_t ninputs);

/* ---- operators in words of others (standard.c) ---- */
/* Runs the builder that the default domain has of this name, in an opset when it meant the same; results are the
 * call's. The second: of other inputs (NULL: left out), borrowed. */
int cni_onnx_standard(cni_onnx_call *call, const char *name, int64_t opset);
int cni_onnx_standard_of(cni_onnx_call *call, const char *name, int64_t opset, cn_tensor *const *inputs, size_t n);
/* Result 0 as it was set so far, borrowed; NULL: nobody wants it, or it was not set. */
static inline cn_tensor *cni_onnx_result(const cni_onnx_call *call)
{
  return call->nout && call->out[0] ? call->out[0]->t : NULL;
}

/* ---- the rest ---- */
/* Calls an op by its row with values of its signature; results belong to the scope. 0, or the error, which
 * stays set. */
int cni_onnx_op_call(cn_tensor **out, size_t *nout, const cn_op *op, const cn_value *args, size_t nargs);
/* ... of one result, by name; NULL with the error set. */
cn_tensor *cni_onnx_op1(const char *name, const cn_value *args, size_t nargs);
static inline cn_onnx_value *cni_onnx_take(cn_tensor *t) { return t ? cn_onnx_value_tensor(t) : NULL; }
cn_device cni_onnx_device(const cni_onnx_call *call); /* where what is made of nothing goes */
void *cni_onnx_room(cni_onnx_call *call, size_t count,
                    size_t size); /* zeroed, until the call ends; NULL: the error */

/* ---- the table (table.c) ---- */
typedef struct cni_onnx_family {
  const char *name, *domain;
  const cni_onnx_op *ops;
} cni_onnx_family;
extern const cni_onnx_family cni_onnx_families[]; /* ends with a NULL name */
/* The row for an operator in an opset of its domain; NULL: there is none. *known: there are rows of that name. */
const cni_onnx_op *cni_onnx_find(const char *domain, const char *name, int64_t opset, bool *known);

#endif
