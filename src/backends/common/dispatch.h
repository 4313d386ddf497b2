/* dispatch.h: which implementations an op has on a backend, and which of them takes a call.
 *
 * Place in the flow: registry.c hands over each backend's kernel rows; apply's cni_run_kernel comes here. Invariant: an
 * implementation is asked before anything is touched, and what it said is kept by the call's signature. */
#ifndef CNI_COMMON_DISPATCH_H
#define CNI_COMMON_DISPATCH_H

#include <cairn/ext/backend.h>

#include "ops/table.h"

/* Implementations of one op on one backend, in the order they are tried. */
typedef struct cni_kernel_list {
  int n;
  cn_kernel items[];
} cni_kernel_list;

/* What takes a call: the implementation and what it said. kernel NULL: none, only the op's decomposition is left. */
typedef struct cni_choice {
  const cn_kernel *kernel;
  int next;     /* the place in the list behind it, where it goes on should the kernel refuse all the same */
  cn_plan plan; /* size 0: it was not asked */
} cni_choice;

/* Puts these rows (ends with op NULL, each of row_size bytes) in front of those that backend b has already, then brings
 * each op's list into the order that CAIRN_KERNEL asks for. */
int cni_kernels_add(int b, const char *backend_name, const cn_kernel *rows, size_t row_size);
/* Implementations of an op on backend b: its own, else those of "pointwise" or "*". NULL: none. */
const cni_kernel_list *cni_kernels_at(int b, const cni_opinfo *info);
void cni_kernels_free(int b);

/* Asks the implementations, from place `from` of the list on. For planners, and for the dispatcher itself. */
void cni_kernel_choose(cni_choice *choice, const cn_call *call, const cni_kernel_list *list, int from);
/* Runs the first implementation that takes the call; CN_REFUSED when none does. */
int cni_dispatch(cn_call *call, const cni_opinfo *info);
int cni_dispatch_now(cn_call *call, const cni_opinfo *info); /* ... also while this thread records (recording.c) */
/* Runs a chosen implementation with the workspace that it asked for. */
int cni_dispatch_chosen(cn_call *call, const cni_choice *choice);
void cni_dispatch_forget(cn_state *state); /* frees the choices that a thread keeps */

/* ---- CAIRN_KERNEL (override.c) ---- */
/* "conv2d=direct,matmul=onednn,*=-lapack": for ops of that name or group (a `*` stands for any beginning or end) the
 * named implementation is tried first; with a minus it is left out. */
typedef enum cni_wish { CNI_AS_LISTED, CNI_FIRST, CNI_LEFT_OUT } cni_wish;
cni_wish cni_kernel_wish(const cni_opinfo *info, const char *implementation);
/* Warns of entries that mean no implementation, of plugins' either: those are loaded if there are any left. */
void cni_kernel_wishes_check(void);

#endif
