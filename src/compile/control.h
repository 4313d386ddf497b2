/* control.h: branches and loops while a graph is captured: functions as sub-graphs, nodes that hold them, and their
 * gradients.
 *
 * Place in the flow: control.c (the public functions) -> control_capture.c, which captures a function with its backward
 * as one graph -> control_cond.c and control_loop.c, which record the node, and, where results carry gradients, do so
 * as a custom function whose backward records another node. Invariant: sub-graphs read their inputs alone; what the
 * functions read outside is an operand of the node, in the same place for all of its sub-graphs. */
#ifndef CNI_COMPILE_CONTROL_H
#define CNI_COMPILE_CONTROL_H

#include <cairn/control.h>

#include "compile.h"
#include "graph/capture.h"
#include "graph/control.h"

enum { CNI_MOST_RESULTS = 1024 }; /* of a function that is given to a branch or loop */

/* ---- control_capture.c ---- */
/* A function that was captured. Inputs of the graph: those given, those met outside, then gradients of results that
 * carry some; outputs: results, then gradients of inputs. */
typedef struct cni_captured {
  cn_graph *g;       /* owned */
  size_t ngiven, nresults;
  cn_tensor **met;   /* owned, and the tensors */
  size_t nmet;
  bool *carries;     /* per result: does it carry a gradient? */
  int *gradient;     /* per input, given or met: which gradient among the outputs behind results; -1: none flows */
  size_t ngradients;
} cni_captured;

/* What is captured: a function, with inputs like these; wants: which of them carry gradients (NULL: none is asked
 * for). */
typedef struct cni_to_capture {
  const char *who; /* for messages: "scan" */
  cn_control_fn fn;
  void *payload;
  const cn_desc *given;
  const bool *wants;
  size_t ngiven;
} cni_to_capture;
int cni_capture_function(cni_captured *f, const cni_to_capture *what);
void cni_captured_free(cni_captured *f);
/* Gives all of them the tensors that any of them met, in one order. */
int cni_captured_unite(cni_captured *const *all, int n);

/* A value of a graph, or, where value is -1, its stand-in: an input that nobody reads, or zeros. */
typedef struct cni_wire {
  int value;
  cn_graph_value type;
  bool weak; /* an input that is a number */
} cni_wire;
/* The graph with these inputs and outputs, optimised. Owned; g stays. NULL with the error set. */
cn_graph *cni_arrange(cn_graph *g, const cni_wire *in, size_t nin, const cni_wire *out, size_t nout);
cni_wire cni_wire_of(const cn_graph *g, int value);
cn_graph_value cni_type_of(const cn_graph *g, int value);
bool cni_type_same(const cn_graph_value *a, const cn_graph_value *b);
cn_tensor *cni_zeros_typed(const cn_graph_value *type, int64_t rows); /* rows -1: no such dimension. Borrowed */

/* ---- the nodes ---- */
/* A call under capture. Operands are brought inside, and are no numbers. */
int cni_capture_cond(cn_tensor **out, size_t *nout, cn_tensor *pred, cn_tensor *const *operands, size_t noperands,
                     cn_control_fn true_fn, cn_control_fn false_fn, void *payload);

typedef struct cni_loop {
  cni_control_kind kind;      /* while, scan or map */
  const char *who;
  cn_control_fn fn, cond;     /* cond: of while */
  void *payload;
  cn_tensor *const *in;       /* carried, then xs, with rows along their first dimension */
  size_t ncarried, nxs;
  int64_t length;             /* rows; while: max_steps, 0: none */
  bool reverse;
} cni_loop;
/* out: the last carried values, then ys; *nout: room, then count. */
int cni_capture_loop(cn_tensor **out, size_t *nout, const cni_loop *loop);

#endif
