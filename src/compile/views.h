/* views.h: results of compiled functions that show inputs or tensors from outside (views.c).
 *
 * Place in the flow: executable.c notes them while the function is captured and leaves them out of the graph's outputs;
 * compile.c makes them behind every run. Invariant: such a result is no copy: writing into it writes where the
 * function's own would have. */
#ifndef CNI_COMPILE_VIEWS_H
#define CNI_COMPILE_VIEWS_H

#include <cairn/compile.h>

#include "graph/ir.h"
#include "tensor/tensor.h"

enum { CNI_VIEW_STEPS = 8 };
typedef struct cni_view_step {
  const cni_opinfo *info;
  cn_value *args; /* owned */
  int nargs;
  size_t size;
} cni_view_step;

/* What a result shows: input `input` of the call, or `outside`; neither: it is an output of the graph. */
typedef struct cni_seen {
  int input;
  cn_tensor *outside; /* owned */
  cni_view_step steps[CNI_VIEW_STEPS]; /* the last one first */
  int nsteps;
} cni_seen;

struct cni_capture;
static inline bool cni_is_seen(const cni_seen *s) { return s->input >= 0 || s->outside; }
/* Notes what t, a result that is captured, shows. handles: the call's inputs there, n of them. 1: noted, 0: it is
 * memory of its own, negative: an error. */
int cni_seen_note(cni_seen *s, cn_tensor *t, struct cni_capture *cap, cn_tensor *const *handles, size_t n);
cn_tensor *cni_seen_make(const cni_seen *s, const cn_compile_call *call); /* borrowed; NULL with the error set */
void cni_seen_free(cni_seen *s);

#endif
