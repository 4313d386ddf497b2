/* infer.h: what infer rules share: reading arguments, promotion, broadcasting. See also ext/op.h.
 *
 * Invariant: everything here reports errors as "op: message" and returns the code. */
#ifndef CNI_OPS_INFER_H
#define CNI_OPS_INFER_H

#include <cairn/ext/op.h>
#include <string.h>

#include "base/convert.h"
#include "base/dtype.h"
#include "base/state.h"
#include "tensor/tensor.h"

/* ---- attributes by parameter index ---- */
static inline int64_t cni_arg_int(const cn_value *args, int i) { return args[i].u.i; }
static inline int64_t cni_arg_int_or(const cn_value *args, int i, int64_t otherwise)
{
  return args[i].tag == CN_V_NONE ? otherwise : args[i].u.i;
}
static inline double cni_arg_float(const cn_value *args, int i)
{
  return args[i].tag == CN_V_FLOAT ? args[i].u.f : (double)args[i].u.i;
}
static inline bool cni_arg_bool(const cn_value *args, int i) { return args[i].u.i != 0; }
static inline bool cni_arg_none(const cn_value *args, int i) { return args[i].tag == CN_V_NONE; }
static inline const char *cni_arg_str(const cn_value *args, int i)
{
  return args[i].tag == CN_V_STR ? args[i].u.s : "";
}
static inline bool cni_arg_is(const cn_value *args, int i, const char *word)
{
  return args[i].tag == CN_V_STR && !strcmp(args[i].u.s, word);
}

/* The type a set of tensors computes in: PyTorch's three tiers (tensors with dims, 0-d tensors, numbers).
 * CN_DTYPE_NONE with the error set when they do not mix. NULL entries are skipped. */
int cni_result_type(const cn_call *c, cn_tensor *const *in, int n);
/* The error of a check_within (check.c), for its kernels: `why` and the value that is outside. */
int cni_check_failed(const char *why, double value);
/* Is this what reserve_draws gives? (dropout.c) */
enum { CNI_DRAWS_BEGIN = 2 }; /* numbers: the key and the first counter */
int cni_check_draws(const cn_call *c, const cn_tensor *draws);
/* Is a dtype argument one? Before anything is asked about it. */
int cni_check_dtype(const cn_call *c, int64_t dtype);
/* Broadcast shape of the inputs in[0..n) into shape/ndim; an error that shows the shapes. */
int cni_broadcast_inputs(const cn_call *c, cn_tensor *const *in, int n, int *ndim, int64_t *shape);
/* Gives result i the memory order of the first input that has its shape and is dense (channels-last propagates). */
void cni_follow_strides(cn_call *c, int i, cn_tensor *const *in, int n);
/* Dims of an int[]? argument as a bit mask (none or empty: all). Negative status on bad or repeated dims. */
int cni_dims_mask(const cn_call *c, const cn_value *dims, int ndim, uint32_t *mask);
/* ... empty list means no dims at all. */
int cni_dims_mask_strict(const cn_call *c, const cn_value *dims, int ndim, uint32_t *mask);

/* Integer types become the default float type. */
static inline int cni_float_type(int dtype)
{
  return cni_dtype_is_float(dtype) ? dtype : (int)cni_state()->default_dtype;
}
/* The type that sums and statistics of this type are kept in. */
static inline int cni_wide_type(int dtype) { return dtype == CN_F64 ? CN_F64 : CN_F32; }
/* May an integer tensor be scaled by it? */
static inline bool cni_is_whole(double x) { return x == (double)cni_f64_to_i64(x); }
/* Same shape as input `of`, fresh and in its memory order. */
int cni_infer_like(cn_call *c, int i, int of, int dtype);

#endif
