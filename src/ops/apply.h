/* apply.h: the only door through which an op runs: infer -> modes -> kernel.
 *
 * Place in the flow: the generated public functions (api.gen.c) and cn_op_call end here. */
#ifndef CNI_OPS_APPLY_H
#define CNI_OPS_APPLY_H

#include "base/state.h"
#include "table.h"
#include "tensor/tensor.h"

/* One call on its way through the modes. Lives on apply's stack. */
typedef struct cni_applying {
  cn_call c;
  const cni_opinfo *info;
  cn_tensor *dest;   /* result 0 is written into it; NULL: fresh results. See cni_dest */
  uint32_t mask;     /* modes still to run */
  int (*lowered)(cn_call *call); /* what makes the results out of real ops, where tensors are complex; NULL: the op */
} cni_applying;

/* Where result i of a call with a destination goes: of several results each goes over the input of its number. */
static inline cn_tensor *cni_dest(const cni_applying *a, int i) { return a->c.nout > 1 ? a->c.in[i] : a->dest; }

/* Public bodies: results belong to the innermost scope. args must hold one value per parameter. */
cn_tensor *cni_apply1(int op_id, cn_value *args, int nargs, cn_tensor *dest);
int cni_applyn(int op_id, cn_value *args, int nargs, cn_tensor **out, int nout);
int cni_apply_over(int op_id, cn_value *args, int nargs); /* several results in place */
int cni_apply_list(int op_id, cn_value *args, int nargs, cn_tensor **out, size_t capacity);

/* For ops with parameters of int[N]: fits those among args (cni_fit_list). room: one for each parameter. */
int cni_fit_lists(int op_id, cn_value *args, cni_few *room);

/* The door itself: results are owned by the caller. *nout: capacity in, count out. dest: the first tensor among args
 * where the op has several results. */
int cni_apply(const cni_opinfo *info, const cn_value *args, int nargs, cn_tensor *dest, cn_tensor **out, int *nout);

/* Composites that run on this thread, the innermost first: what their ops save of inputs whose bits are in the mask may
 * be written to before backward (cn_op.copied). */
typedef struct cni_copying {
  const struct cni_copying *around;
  const cn_call *call;
  uint32_t mask; /* CN_IN bits; 0 is not in the list */
} cni_copying;
/* Does one of them say so of this storage? */
bool cni_copies(const cni_copying *c, const struct cni_storage *s);

/* Modes: a handler does its part and calls cni_apply_next, which runs the remaining modes and then the kernel. */
typedef int (*cni_mode_fn)(cni_applying *a);
extern cni_mode_fn cni_mode_handlers[CNI_MODE_COUNT];
int cni_apply_next(cni_applying *a);
/* The parts of its end. make_results: memory for all results that infer described, as views where it says so. */
int cni_make_results(cn_call *c);
int cni_apply_run(cni_applying *a);     /* memory and kernel */
void cni_drop_results(cn_call *c);      /* after a failure: no result stays */

/* Runs a kernel for a call whose results are allocated: filled by backends/common. 0, an error, or CN_REFUSED when no
 * implementation took it. */
extern int (*cni_run_kernel)(cn_call *call, const cni_opinfo *info);

/* Copies src's elements into dst (broadcast, any dtypes, same device), below all modes. Counts as a write. */
int cni_copy_elements(cn_tensor *dst, cn_tensor *src);

/* Random ops: how far draws for a result of this shape advance the state's offset. */
static inline uint64_t cni_draws_of(const cn_op *op, const cn_value *args, int ndim, const int64_t *shape)
{
  uint64_t n = 1;
  bool later = (op->flags & CN_OP_RESERVES) != 0;
  int dims = later ? args[0].n : ndim;
  for (int i = 0; i < dims; i++) n *= (uint64_t)(later ? args[0].u.is : shape)[i];
  return n;
}
static inline uint64_t cni_random_draws(const cn_call *c)
{
  return cni_draws_of(c->op, c->args, c->spec[0].ndim, c->spec[0].shape);
}

#endif
