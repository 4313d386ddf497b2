/* batch.h: calls with examples of batches (vmap) become calls on whole batches.
 *
 * A tensor with `batch` stands for one example: its own description is that of one, the tensor it holds has the batch
 * as its first dim, always. Of nested vmaps the inner one's examples hold an example of the outer one.
 * Place in the flow: the door (apply.c) asks here behind complex numbers and composites, above autograd and capture: so
 * records, graphs and kernels see whole batches alone. batch_rules.def says which op is computed how.
 * Invariant: a rule works for the innermost vmap among its tensors; while it runs that one counts as ended, so the ops
 * that it calls meet the outer ones. */
#ifndef CNI_OPS_BATCH_H
#define CNI_OPS_BATCH_H

#include <cairn/ops.h>

#include "apply.h"

/* A vmap that is running. */
typedef struct cni_vmap {
  uint64_t id;
  int64_t size;
  int randomness; /* a cn_vmap_randomness */
  struct cni_vmap *outer;
} cni_vmap;

/* One call, as rules see it. */
typedef struct cni_batching {
  const cni_opinfo *info;
  cn_call *c;         /* with one example: its shapes, its results inferred */
  const cni_vmap *vmap;
  int64_t size;       /* of the batch */
  cn_tensor **in;     /* the call's tensors: (size, ...) where `is`, others as they are */
  bool *is;
  cn_tensor *dest;    /* (size, ...): where result 0 goes; NULL */
  cn_value *args;     /* the arguments, of which rules may change those that are no tensors */
  cn_tensor **room;   /* for elements of lists */
  cn_tensor **out;    /* results: (size, ...), borrowed. With dest, out[0] NULL: it was written */
} cni_batching;

typedef int (*cni_batch_rule)(cni_batching *b);

/* The innermost vmap that one of these tensors is an example of; NULL: none. One that has ended is an error. */
int cni_batch_innermost(const cni_vmap **vmap, cn_tensor *const *tensors, size_t n);
/* ... that a call belongs to: where random numbers are drawn, the innermost that is running. */
int cni_batch_find(const cni_vmap **vmap, const cni_applying *a, const cn_state *st);
/* Has the op a rule though it is made of others? */
bool cni_batch_has_rule(const cni_opinfo *info);
int cni_batch_run(cni_applying *a, const cni_vmap *vmap);
/* All examples of t in that vmap, as first dim; expanded where they share t. Examples of inner vmaps stay such.
 * Borrowed. */
cn_tensor *cni_batch_taken(cn_tensor *t, uint64_t vmap);

/* ---- for rules (batch.c) ---- */
/* The op itself on b->in, with b->args, into b->dest or b->out. */
int cni_batch_call(cni_batching *b);
/* Input i as a batch of its own: expanded where it is not one. Borrowed. */
cn_tensor *cni_batch_of(const cni_batching *b, int i);
cn_tensor *cni_batch_expanded(const cni_batching *b, cn_tensor *t); /* one tensor for all, as a batch */
/* (size, ...) with ones behind the batch, so that what follows has `rank` dims. */
cn_tensor *cni_batch_lined_up(cn_tensor *t, int rank);
/* Dims of one example (negative ones too) as dims of the batch. */
static inline int64_t cni_batch_dim(int64_t dim, int ndim) { return (dim < 0 ? dim + (ndim ? ndim : 1) : dim) + 1; }
/* (size, a, ...) as (size * a, ...), and back. */
cn_tensor *cni_batch_fold(cn_tensor *t);
cn_tensor *cni_batch_unfold(const cni_batching *b, cn_tensor *t);
/* t in the shape (front..., its dims from `from` on). */
cn_tensor *cni_batch_shaped(cn_tensor *t, const int64_t *front, int nfront, int from);
static inline cn_tensor *cni_batch_to_front(cn_tensor *t, int64_t dim)
{
  return cn_movedim(t, (const int64_t[]){dim}, 1, (const int64_t[]){0}, 1);
}

/* Ways that many ops share (batch_ways.c, batch_loop.c). */
int cni_batch_each(cni_batching *b);
int cni_batch_along(cni_batching *b);
int cni_batch_cut(cni_batching *b);
int cni_batch_whole(cni_batching *b);
int cni_batch_lead(cni_batching *b);
int cni_batch_fold3(cni_batching *b);
int cni_batch_fold4(cni_batching *b);
int cni_batch_made(cni_batching *b);
int cni_batch_refused(cni_batching *b);
int cni_batch_loop(cni_batching *b);

/* Rules of their own. */
#define WAY(op, way)
#define RULE(op) int cni_batch_op_##op(cni_batching *b);
#include "batch_rules.def"
#undef WAY
#undef RULE

#endif
