/* compile.h: compiled functions inside: keys, and the programs that are found by them.
 *
 * Place in the flow: cn_compiled_call (compile.c) reads the call's key (key.c), finds or captures a program
 * (executable.c), and runs it: one graph, or, where results carry gradients, a forward graph as a custom function whose
 * backward is another (joint.c). Invariant: a program never changes once it can be found. */
#ifndef CNI_COMPILE_COMPILE_H
#define CNI_COMPILE_COMPILE_H

#include <cairn/compile.h>
#include <pthread.h>
#include <stdatomic.h>

#include "graph/ir.h"
#include "tensor/tensor.h"
#include "views.h"

/* ---- keys (key.c) ---- */
struct cn_key {
  unsigned char *bytes;
  size_t n, cap;
  struct cni_key_part {
    const char *what; /* a text that stays */
    int input;        /* which; -1: none */
    size_t first;     /* its bytes begin there */
  } *parts;
  size_t nparts, parts_cap;
  bool failed, named; /* named: it has parts, and bytes of its own, so that it may be kept */
  unsigned char few[512]; /* where the bytes of one without names lie, as long as they fit */
};

/* What among the inputs is part of the program and not given to its runs, because the function asks for it. */
typedef struct cni_by_value {
  bool leaves;  /* that require gradients: the function leaves gradients in them */
  bool numbers; /* floats that are weak: the function reads them */
  bool values;  /* integers of one element in host memory: it cannot be captured for all of theirs */
} cni_by_value;
bool cni_is_by_value(const cn_tensor *t); /* such an integer? */
/* named: with what messages need, to be kept; most calls only look for their program. */
int cni_key_read(cn_key *key, const cn_compile_call *call, const cn_compile_opts *opts, const cni_by_value *known,
                 bool named);
bool cni_is_part(const cn_tensor *t); /* of a larger memory? */
bool cni_key_same(const cn_key *a, const cn_key *b);
/* Says where two keys differ first, into text. */
void cni_key_difference(char *text, size_t size, const cn_key *now, const cn_key *before);
void cni_key_free(cn_key *key);

/* ---- programs (executable.c) ---- */
/* Where a value that backward needs comes from. */
typedef struct cni_kept {
  enum { CNI_KEPT_INPUT, CNI_KEPT_STATE, CNI_KEPT_RESULT } from;
  int index; /* of the program's inputs, the whole graph's states, or the forward graph's outputs */
} cni_kept;

/* The backward graph of calls for some of whose results no gradient comes. */
typedef struct cni_backward_graph {
  struct cni_backward_graph *next;
  uint64_t absent; /* bit i: that of result i is not there */
  cn_graph *graph; /* of the inputs of the whole one; NULL: the whole one with zeros, as there is none without them */
  int *gradient;   /* as cni_executable's */
  size_t n;
} cni_backward_graph;

/* What is done with the notes of a function's programs. */
typedef struct cni_notes {
  void (*free)(void *note);
  bool (*same)(const void *a, const void *b);
} cni_notes;

typedef struct cni_executable {
  struct cni_executable *next;
  _Atomic int32_t refs;
  cn_key key;
  char *why_eager;      /* owned: why it cannot be captured; such calls run as they are. NULL: it can */
  int status;           /* ... and the error's code */
  _Atomic bool tried_again; /* what a first call makes (an optimiser's momentum) may be there at the second */
  void *note;
  cni_notes notes;
  cni_gdepends depends; /* what numbers in it follow from */
  int *inputs;          /* per input of the graph: which of the call's */
  size_t ninputs;
  size_t noutputs;      /* of the graph */
  cni_seen *seen;       /* per result of the call: what it shows */
  size_t nresults;
  cn_graph *forward;
  bool counts;          /* forward has sizes that depend on data, and a run may find one out of its range */
  size_t groups[2];     /* of forward and backward */
  _Atomic uint32_t runs; /* so far, up to the one that asks for code */
  cn_graph *single[2];  /* both before nodes were grouped, for who asks: gradients of gradients, absent.c, checks */
  /* Where results carry gradients: */
  cn_graph *backward;   /* from kept values and gradients of results to gradients; NULL: they do not */
  cn_tensor **leaves;   /* owned: from outside, leaves and others, which get gradients besides inputs */
  size_t nleaves;
  cn_tensor **states;   /* owned: of CNI_KEPT_STATE */
  cni_kept *kept;
  size_t nkept;
  bool *carries;        /* per output: has it a gradient? */
  bool hooked;          /* hooks hang on tensors inside */
  int *gradient;        /* per input, then leaf: which output of backward; -1: none flows */
  cni_backward_graph *others; /* found so far, under the lock */
  pthread_mutex_t lock;
} cni_executable;

/* Captures a call. fast: it may be rounded otherwise. Owned; NULL with the error set when there is no memory or the
 * function failed by itself; a function that cannot be captured gives a program that says why. *retry: more of the
 * inputs must be known, *known says which: read the key again. */
cni_executable *cni_executable_new(cn_compile_fn fn, const cn_compile_call *call, const cni_notes *notes, bool fast,
                                   cni_by_value *known, bool *retry);
/* What the call computes, before anything was made simpler. Owned; NULL with the error set. */
cn_graph *cni_capture_plain(cn_compile_fn fn, const cn_compile_call *call, const cni_notes *notes, cni_by_value known);
/* counted.c: do two captures of a call at different counts say the same of its results? 0, or the error: what not. */
int cni_counted_same(const cni_executable *a, const cni_executable *b);
/* One that says why there is none; owned. */
cni_executable *cni_executable_refused(int status, const char *why);
void cni_executable_release(cni_executable *p);
static inline cni_executable *cni_executable_keep(cni_executable *p)
{
  atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
  return p;
}
/* Do the things outside that it depends on still hold: types of states, which leaves have gradients? */
bool cni_executable_holds(const cni_executable *p);
size_t cni_executable_nodes(const cni_executable *p);
size_t cni_executable_groups(const cni_executable *p); /* nodes that do the work of several (cn_graph_fuse) */
/* code.c: asks for machine code of its groups; how many of them have some. */
void cni_executable_want_code(const cni_executable *p);
size_t cni_executable_coded(const cni_executable *p);
/* Two names of one memory, of which the program writes to one: it does not see that through the other. NULL: there are
 * none; else what they are. */
const char *cni_executable_conflict(const cni_executable *p, const cn_compile_call *call);

/* ---- halves (split.c) ---- */
/* A graph of forward and backward (inputs: the function's, then gradients of results; outputs: the function's, then
 * gradients), cut in two. */
typedef struct cni_halves {
  size_t ninputs, noutputs; /* the function's own: set before it is cut */
  cn_graph *forward;        /* owned; its outputs: the function's, then what backward needs of CNI_KEPT_RESULT */
  cn_graph *backward;       /* owned; its inputs: what is kept, then the gradients of results */
  cni_kept *kept;           /* owned */
  size_t nkept;
  cn_tensor **states;       /* owned: of CNI_KEPT_STATE */
} cni_halves;
int cni_cut_in_halves(cni_halves *halves, const cn_graph *whole); /* 0 or an error; what there is then is to be freed */
void cni_halves_free(cni_halves *halves);
int cni_executable_split(cni_executable *p, const cn_graph *whole); /* the halves become the program's */

/* absent.c: the backward graph without the gradients of these results (bit i: result i); NULL with the error set. */
const cni_backward_graph *cni_backward_without(cni_executable *p, uint64_t absent);
void cni_backward_graphs_free(cni_backward_graph *list);

/* joint.c: runs a program whose results carry gradients. in: its inputs. */
int cni_joint_run(cni_executable *p, cn_tensor **out, cn_tensor *const *in);

/* control_replay.c: what graph/replay.c calls through cni_hooks. */
struct cni_replayed;
int cni_replay_control(cn_tensor **out, const struct cni_replayed *call);
/* ... once for each example of that vmap (control_batch.c) */
struct cni_vmap;
int cni_replay_batch(cn_tensor **out, const struct cni_replayed *call, const struct cni_vmap *vmap);

#endif
