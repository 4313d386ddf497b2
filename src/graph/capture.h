/* capture.h: what one capture knows while it goes on, shared by the files that record it.
 *
 * Place in the flow: trace.c begins and ends a capture; capture.c is the mode that records calls; leaves.c watches
 * gradients of leaves, random.c the numbers that are drawn, scopes.c which part of the program runs. */
#ifndef CNI_GRAPH_CAPTURE_H
#define CNI_GRAPH_CAPTURE_H

#include "ir.h"
#include "ops/apply.h"

/* What is known of one memory: needed once it is external, or was written to. */
typedef struct cni_memory_record {
  cni_storage *storage; /* owned */
  cn_tensor *root;      /* owned alias: the geometry that `value` has */
  int value;            /* the whole memory's present value */
  int state;            /* index in the graph's states; -1: made during capture */
  uint64_t writes;
} cni_memory_record;

/* A tensor from outside that gradients add up in, or go on from, and what its gradient was when the capture met it. */
typedef struct cni_leaf {
  cn_tensor *tensor;     /* owned */
  struct cni_node *node; /* the tensor's */
  cn_tensor *before;     /* owned; NULL: none */
  bool touched;          /* its gradient was read, added to or replaced */
  bool replaced;         /* ... and replaced before anything else: what it was does not matter */
} cni_leaf;

/* Calls that may hand their input back as in eager code (contiguous, of what is), in the order in which traces at
 * several sizes meet them: what the first trace did, the others do, so that all have the same nodes. */
typedef enum cni_shortcut { CNI_SHORTCUT_NONE, CNI_SHORTCUT_TAKEN, CNI_SHORTCUT_REFUSED } cni_shortcut;
typedef struct cni_shortcuts {
  unsigned char *all; /* cni_shortcut of each */
  size_t n, cap, known; /* known: of an earlier round, whose refusals hold */
  size_t met;   /* in this trace */
  bool fixed;   /* the first trace is done */
  bool refused; /* out: one that was taken is none at other sizes */
} cni_shortcuts;

/* Sizes of results that depend on data, in the order in which a trace meets them: what they are taken for. */
typedef struct cni_counted {
  const int64_t *v;
  size_t n;
  size_t met; /* out: how many there were; those behind n were taken for some number */
  cni_shortcuts *shortcuts; /* of a trace that is one of several; NULL: none are taken */
} cni_counted;

/* In a sub-graph: a tensor from outside, and the input that stands for it. */
typedef struct cni_met {
  cn_tensor *from, *to; /* owned */
  cn_tensor *first;     /* owned: `to` with the history that it begins with; NULL: it carries no gradient */
  size_t input;         /* which of the sub-graph's */
} cni_met;

typedef struct cni_capture {
  cn_graph *g;
  cni_counted *counted; /* NULL: results whose size depends on data are refused */
  struct cni_capture *outer; /* a sub-graph's: the capture that it is a part of; NULL: it is none */
  cni_met *met;
  size_t nmet, met_cap;
  cni_met *written; /* ... whole memories that the sub-graph writes to: all that looks into one is made from it */
  size_t nwritten, written_cap;
  uint64_t serial; /* tells handles of this capture from others' */
  cni_memory_record *memories;
  size_t nmemories, memories_cap;
  cni_leaf *leaves;
  size_t nleaves, leaves_cap;
  int *open; /* scopes, the innermost last */
  size_t nopen, open_cap;
  size_t depth; /* of the scope around it */
  cni_live *live; /* its handles' memories */
  const bool *parts; /* per input, where whoever captures says so: it is a part of a larger memory; NULL: none is */
  bool escaped;   /* after its end: some are still there, which somebody outside keeps */
  bool hooked;    /* the code hung a hook on a gradient */
  cn_tensor **values; /* the inputs whose values are part of what is captured; borrowed. NULL: none is */
  size_t nvalues;
  bool wants_values; /* the code asks for that */
  size_t writes;  /* to tensors from outside, so far */
  bool leaves_are_inside; /* what reaches leaves is collected by whoever captures: it is nothing that a run assigns */
  bool grad;           /* gradients were on when it began: what switches them off is the program */
  int own;             /* ... or the capture itself, while this is not 0 */
  uint64_t seed, base; /* where random numbers stood when it began */
} cni_capture;

static inline cni_capture *cni_capturing(void) { return cni_state()->capture; }

/* trace.c */
/* Begins a capture in this thread; 0 or an error. Every begin that succeeded needs an end, which returns the graph
 * where status is 0; else NULL with the error set. */
int cni_trace_begin(cni_capture *cap);
cn_graph *cni_trace_end(cni_capture *cap, int status);
cn_tensor *cni_trace_input(cni_capture *cap, const cn_desc *d); /* one more input like this; borrowed, NULL: an error */
int cni_trace_output(cni_capture *cap, cn_tensor *t);           /* one more output */

/* inside.c: sub-graphs */
int cni_trace_begin_inside(cni_capture *cap); /* as cni_trace_begin, as a part of the capture that goes on */
bool cni_same_tensor(const cn_tensor *a, const cn_tensor *b); /* the same elements, with the same history */
cn_tensor *cni_bring_one_inside(cn_tensor *t); /* what stands for t in the sub-graph; borrowed, NULL: an error */
cn_tensor *cni_bring_one_written(cn_tensor *t); /* ... where it is about to be written to */
/* `input`, the last one of the capture, stands for the memory of t, a tensor from outside that is no view. 0 or
 * CN_ERR_MEMORY. */
int cni_bring_memory(cni_capture *cap, cn_tensor *t, cn_tensor *input);
cn_tensor *cni_root_of(cn_tensor *t); /* capture.c: the tensor that a view looks into; itself where it is none */
/* A control node (control.h) on the tensors `in`, of as many results. The sub-graphs are taken over, also where it
 * fails. */
typedef struct cni_control_call {
  const cni_opinfo *info;
  const cn_value *args; /* one per parameter; those of tensors have a tag and a count */
  cn_tensor *const *in;
  int nin, nout;
  cn_graph *const *subs;
  int nsubs;
  struct cni_host *host;
  int draw; /* -1: none */
} cni_control_call;
int cni_capture_control(cn_tensor **out, cni_capture *cap, const cni_control_call *call); /* borrowed results */

/* cn_trace, without a second thought: counted: as in cni_capture. */
cn_graph *cni_trace_counted(cn_graph_fn fn, size_t noutputs, cn_tensor *const *inputs, size_t ninputs, void *payload,
                            cni_counted *counted);

/* count.c */
bool cni_has_unknown(const cn_call *c); /* does a size of its results depend on data? */
/* Chooses these sizes; then notes in the call's node which counts they are. 0 or an error. */
int cni_count_begin(cni_capture *cap, cni_applying *a, int *count);
void cni_count_end(cni_capture *cap, const cn_call *c, int node, int count);

/* capture.c */
/* Adds a call with its results, of these types, or nothing. Its node; negative on failure. */
int cni_capture_call(cni_capture *cap, const cni_opinfo *info, const cn_value *args, int nargs, const int *in, int nin,
                     const cn_desc *results, int nout);
bool cni_capture_has(cni_capture *cap, const cn_tensor *t); /* is it a tensor of this capture, or of memory it knows? */
int cni_capture_mode(cni_applying *a); /* the last mode: records instead of running */
int cni_capture_value(cni_capture *cap, cn_tensor *t); /* its present value; external memory becomes a state */
int cni_capture_read(cni_capture *cap, cn_tensor *t);  /* ... for a node that reads it */
/* A tensor without memory that stands for a value; owned. strides NULL: contiguous. */
cn_tensor *cni_capture_handle(const cni_capture *cap, cn_device device, int dtype, int ndim, const int64_t *shape,
                              const int64_t *strides, int value);

/* An op counts from the beginning of t's memory, or looks beyond t: an error where t is a part of an input of which the
 * capture has nothing else. */
int cni_capture_place_read(cn_tensor *t);
bool cni_capture_shortcut(bool could); /* does this call hand its input back? could: at the sizes at hand it may */
int cni_capture_now(const cni_capture *cap, int input); /* what the memory of this input value holds now */
/* Autograd keeps an alias of a view without its record: it stands for the view's present value. 0 or an error. */
int cni_capture_saves(cn_tensor *alias, cn_tensor *view);
void cni_capture_hooked(void);
int cni_capture_known(cni_capture *cap, cn_tensor *t); /* the same, where it has one already; -1: it has not */

/* scopes.c */
static inline int cni_scope_now(const cni_capture *cap) { return cap->nopen ? cap->open[cap->nopen - 1] : -1; }
/* Around the decomposition of a composite op: the scope, negative on failure; its end returns status, or its own. */
int cni_scope_call_begin(const cni_opinfo *info, const cn_call *c);
int cni_scope_call_end(int scope, const cn_call *c, int status);

/* leaves.c */
/* Autograd says: the gradient of this leaf is about to be read or added to (replaced: to be set or cleared). t may be
 * NULL where only its node is known. 0 or an error. */
int cni_leaf_touched(cn_tensor *t, struct cni_node *node, bool replaced);
int cni_leaf_met(cni_capture *cap, cn_tensor *t); /* t is read by captured code */
int cni_leaves_finish(cni_capture *cap);          /* what was left in leaves becomes values of the graph */
void cni_leaves_restore(cni_capture *cap);        /* leaves get back what they had; frees the records */

/* random.c */
void cni_draws_begin(cni_capture *cap);
int cni_draw(cni_capture *cap, const cn_call *c); /* the draw of a random call; negative on failure */
/* The draw of that many numbers there: one that is known, or the next. */
int cni_draw_at(cni_capture *cap, uint64_t offset, uint64_t count, const char *who);
int cni_draw_count(cni_capture *cap, const char *who, uint64_t count); /* of so many numbers */
uint64_t cni_draw_begins(const cni_capture *cap, int draw); /* at which offset */
void cni_draws_end(cni_capture *cap);

#endif
