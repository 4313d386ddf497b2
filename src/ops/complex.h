/* complex.h: how calls with complex tensors are lowered to ops on real ones, and what the rules share.
 *
 * Place in the flow: apply asks cni_complex_lower before it looks at an op's own rules; complex_rules*.c hold the
 * formulas. Invariant: like shorthand.h, each helper may be given NULL and then returns NULL. */
#ifndef CNI_OPS_COMPLEX_H
#define CNI_OPS_COMPLEX_H

#include "shorthand.h"
#include "table.h"

/* For a call with a complex tensor, or a complex dtype as argument: *lowered becomes what computes its results out of
 * simpler ops; NULL where the op does so itself. An error where it is not for complex numbers. */
int cni_complex_lower(const cni_opinfo *info, const cn_call *c, int (**lowered)(cn_call *call));

/* Are complex numbers among its Scalar arguments read by its rule? Then they are CN_V_FLOATS of two. */
bool cni_complex_numbers(const cni_opinfo *info);
/* Is there one? */
bool cni_has_complex_number(const cni_opinfo *info, const cn_value *args);
/* What the tag complex_pairs does. */
int cni_on_pairs(cn_call *c);

typedef struct cni_z {
  cn_tensor *re, *im;
} cni_z;

/* Does a dtype argument ask for complex results? */
static inline bool cni_wants_complex(const cn_value *dtype)
{
  return dtype->tag == CN_V_INT && cni_dtype_valid(dtype->u.i) && cni_dtype_is_complex((int)dtype->u.i);
}
static inline bool cni_is_z(const cn_tensor *t) { return t && cni_dtype_is_complex(t->d.dtype); }
/* Does memory lie as view_as_complex wants it? */
bool cni_is_pairs(const cn_tensor *t);
/* Views of both parts; imaginary parts of a real tensor are zeros. */
cni_z cni_parts(cn_tensor *t);
static inline cn_tensor *cni_joined(cni_z z) { return cn_complex(z.re, z.im); }
/* Pairs (..., 2) as complex numbers: a view where memory lies so, else of a copy. */
cn_tensor *cni_from_pairs(cn_tensor *t);
/* In the complex type `dtype`, and on that device; real numbers get imaginary parts of zero. */
cn_tensor *cni_as_complex(cn_tensor *t, int dtype, cn_device device);
/* a times i */
cn_tensor *cni_times_i(cn_tensor *a);
/* The call once more with other tensors in place of its own (NULL stands for an absent one); op of one result. */
cn_tensor *cni_call_again(const cn_call *c, cn_tensor *const *in);

/* The rules. */
#define RULE(name) int cni_complex_##name(cn_call *c);
#define RULE_WHEN(name) RULE(name) bool cni_complex_##name##_when(const cn_call *c);
#define RULE_NUMBERS(name) RULE(name)
#include "complex_rules.def"
#undef RULE
#undef RULE_WHEN
#undef RULE_NUMBERS

#endif
