/* shorthand.h: small words that gradients and decompositions written in public ops share.
 *
 * Invariant: each may be given NULL (a failed op) and then returns NULL, so that expressions need no checks. */
#ifndef CNI_OPS_SHORTHAND_H
#define CNI_OPS_SHORTHAND_H

#include <cairn/ext/parts.h>
#include <cairn/ops.h>

#include "infer.h"

/* Is what runs now recorded? In a gradient: is that gradient to be differentiated again? */
static inline bool cni_recording(void) { return !cni_state()->no_grad; }

static inline cn_tensor *cni_in_type(cn_tensor *t, int dtype)
{
  return t && t->d.dtype != dtype ? cn_cast(t, (cn_dtype)dtype) : t;
}

/* The type of absolute values: of complex types that of their parts, of others themselves. */
static inline int cni_real_type(int dtype) { return cni_dtype_is_complex(dtype) ? cni_dtype_part(dtype) : dtype; }

static inline bool cni_is_half(int dtype) { return dtype == CN_F16 || dtype == CN_BF16; }

/* A number as a tensor of this type holds it; wider types than float32 hold all of it. */
static inline double cni_stored(double x, int dtype)
{
  if (dtype == CN_F16) return (double)cni_f16_to_f32(cni_f32_to_f16((float)x));
  if (dtype == CN_BF16) return (double)cni_bf16_to_f32(cni_f32_to_bf16((float)x));
  return dtype == CN_F32 ? (double)(float)x : x;
}

/* While a graph is captured what is recorded must not depend on which sizes are 1. */
static inline bool cni_capturing_now(void) { return cni_state()->capture != NULL; }

/* ... and which are is not known: the graph is to serve them all. */
static inline bool cni_tracing_sizes(void) { return cni_capturing_now() && cni_state()->tracing_sizes; }

/* The size that a tensor of one int64 says: read or, while a graph is captured, a size of the graph. Check the error.
 * (repeat_interleave.c) */
int64_t cni_size_in(cn_tensor *n);

/* x in memory of its own, where it may be a view of `of`. In a graph that depends on the sizes of a run, so the copy is
 * always there; the planner drops one that is not needed. */
static inline cn_tensor *cni_apart(cn_tensor *x, const cn_tensor *of)
{
  return x && (cni_capturing_now() || x->storage == of->storage) ? cn_contiguous_copy(x) : x;
}

/* x: (..., m, n) as (..., n, m) */
static inline cn_tensor *cni_swapped(cn_tensor *x) { return cn_transpose(x, -2, -1); }

/* ... and conjugated where it is complex */
static inline cn_tensor *cni_adjoint(cn_tensor *x)
{
  return x && cni_dtype_is_complex(x->d.dtype) ? cn_conj(cni_swapped(x)) : cni_swapped(x);
}

/* Zeros of an input's shape and place. */
static inline cn_tensor *cni_zeros_of(const cn_meta *m, cn_dtype dtype)
{
  cn_zeros_opts o = {.size = sizeof o, .dtype = dtype, .device = m->device};
  return cn_zeros_with(m->shape, (size_t)m->ndim, &o);
}

/* A number among a call's arguments, as a weak scalar; a complex one is a list of two. */
static inline cn_tensor *cni_number(const cn_value *v)
{
  if (v->tag == CN_V_FLOATS) return cn_complex_num(v->u.fs[0], v->u.fs[1]);
  return v->tag == CN_V_FLOAT ? cn_num(v->u.f) : cn_int(v->u.i);
}

/* A number as an option, where 0 itself would ask for the default. */
static inline int64_t cni_option(int64_t x) { return x ? x : CN_ZERO; }
static inline double cni_option_float(double x) { return x == 0 ? (double)CN_ZERO : x; }

/* With at least n dims: new ones in front, but a matrix gets its third behind, and a vector lies between two. */
static inline cn_tensor *cni_at_least_nd(cn_tensor *x, int64_t n)
{
  if (cn_ndim(x) == 0) x = cn_unsqueeze(x, 0);
  if (n > 1 && x && cn_ndim(x) == 1) x = cn_unsqueeze(x, 0);
  if (n > 2 && x && cn_ndim(x) == 2) x = cn_unsqueeze(x, 2);
  return x;
}

#endif
