/* scalar.h: arithmetic of zero-dimensional float64 tensors: what rates are computed with.
 *
 * Invariant: each may be given NULL (a failed op) and then returns NULL, so that expressions need no checks. */
#ifndef CNI_OPTIM_SCALAR_H
#define CNI_OPTIM_SCALAR_H

#include <cairn/kw.h>

static inline cn_tensor *cni_plus(cn_tensor *x, cn_tensor *y) { return x && y ? cn_add(x, y) : NULL; }
static inline cn_tensor *cni_minus(cn_tensor *x, cn_tensor *y) { return x && y ? cn_sub(x, y) : NULL; }
static inline cn_tensor *cni_times(cn_tensor *x, cn_tensor *y) { return x && y ? cn_mul(x, y) : NULL; }
static inline cn_tensor *cni_over(cn_tensor *x, cn_tensor *y) { return x && y ? cn_true_divide(x, y) : NULL; }
static inline cn_tensor *cni_scaled(cn_tensor *x, double k) { return x ? cn_mul(x, cn_num(k)) : NULL; }
static inline cn_tensor *cni_shifted(cn_tensor *x, double k) { return x ? cn_add(x, cn_num(k)) : NULL; }
static inline cn_tensor *cni_one_minus(cn_tensor *x) { return x ? cn_sub(cn_num(1), x) : NULL; }
static inline cn_tensor *cni_base_to(double base, cn_tensor *x) { return x ? cn_pow(cn_num(base), x) : NULL; }
static inline cn_tensor *cni_to_power(cn_tensor *x, double power) { return x ? cn_pow(x, cn_num(power)) : NULL; }
static inline cn_tensor *cni_wide(cn_tensor *x) { return x ? cn_cast(x, CN_F64) : NULL; }

/* 1 - lr * weight_decay */
static inline cn_tensor *cni_decay(cn_tensor *lr, double weight_decay)
{
  return cni_one_minus(cni_scaled(lr, weight_decay));
}

#endif
