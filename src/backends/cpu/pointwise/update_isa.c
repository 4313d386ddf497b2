/* update_isa.c: the updates of ops/update_rules.inc as loops over elements, with all values in registers; compiled once
 * per instruction set. Only those of update_loops.h have one: a program gives the same bits in more time.
 *
 * Place in the flow: the leaves below update.c. Invariant: primitives and rules are those of the programs, so results
 * are theirs bit for bit. */
#include <string.h>

#include "backends/cpu/isa.h"
#include "ops/pointwise_fn.h"
#include "ops/pointwise_kinds.h"
#include "update_loops.h"

/* ---- primitives of float types as functions ---- */

#define SKIP(make, name, f)
#define USE(make, name, f) make(name, f)
#define PWP1 PW1
#define PWP2 PW2
#define PW1(name, kind, f, ...) FLOATS_##kind(FUNCTION1, name, f)
#define PW2(name, kind, f, ...) FLOATS_##kind(FUNCTION2, name, f)
#define PWP3(name, kind, f, ...) FLOATS_##kind(FUNCTION3, name, f)
#define FUNCTION1(name, f) CNM_FN T PRIM(name)(T a) { return (T)(f); }
#define FUNCTION2(name, f) CNM_FN T PRIM(name)(T a, T b) { return (T)(f); }
#define FUNCTION3(name, f) CNM_FN T PRIM(name)(T a, T b, T c) { return (T)(f); }

#define T float
#define M(fn) cnm_##fn##f
#define F(fn) cnp_##fn##_f32
#define PRIM(name) f32_##name
#include "ops/pointwise.def"
#undef T
#undef M
#undef F
#undef PRIM
#define T double
#define M(fn) cnm_##fn
#define F(fn) cnp_##fn##_f64
#define PRIM(name) f64_##name
#include "ops/pointwise.def"
#undef T
#undef M
#undef F
#undef PRIM

/* ---- rules: a value is a number ---- */

typedef struct f32_operands {
  const float *in, *attr;
} f32_operands;
typedef struct f64_operands {
  const double *in, *attr;
} f64_operands;

#define RULE_FN CNM_FN
#define PASS o
#define UNUSED_CONTEXT (void)o
#define IN(i) o->in[i]
#define ATTR(i) o->attr[i]
#define K(x) (VALUE)(x)

#define VALUE float
#define NAMED(f) f32_##f
#define CONTEXT const f32_operands *o
#define OP1(p, x) f32_##p(x)
#define OP2(p, x, y) f32_##p(x, y)
#define OP3(p, x, y, z) f32_##p(x, y, z)
#include "ops/update_rules.inc"
#undef VALUE
#undef NAMED
#undef CONTEXT
#undef OP1
#undef OP2
#undef OP3
#define VALUE double
#define NAMED(f) f64_##f
#define CONTEXT const f64_operands *o
#define OP1(p, x) f64_##p(x)
#define OP2(p, x, y) f64_##p(x, y)
#define OP3(p, x, y, z) f64_##p(x, y, z)
#include "ops/update_rules.inc"

static void adam_rates(double *out, const double *in, const double *attr)
{
  f64_rule_adam_rates(&(f64_operands){in, attr}, 0, out);
}

/* ---- loops ---- */

/* Results, then the gradient, have the parameter's shape; the other inputs are numbers. What is the same for all
 * elements is copied first: the compiler cannot know that results do not lie over it. */
#define LOOP(op, variant) \
  static void loop_##op##_##variant(float *const *out, const float *const *in, const float *scalar, \
                                    const float *attr, int64_t n) \
  { \
    enum { results = CNI_RESULTS_##op, full = results + 1, single = CNI_INPUTS_##op - full }; \
    float numbers[CN_MAX_ARGS], same[single]; \
    const float *const x0 = in[0], *const x1 = in[1], *const x2 = in[2]; \
    const float *const x3 = in[full > 3 ? 3 : 0], *const x4 = in[full > 4 ? 4 : 0]; \
    float *const y0 = out[0], *const y1 = out[1], *const y2 = out[results > 2 ? 2 : 0]; \
    float *const y3 = out[results > 3 ? 3 : 0]; \
    memcpy(numbers, attr, sizeof numbers); \
    memcpy(same, scalar, sizeof same); \
    CNI_IVDEP for (int64_t i = 0; i < n; i++) \
    { \
      const float full_of[] = {x0[i], x1[i], x2[i], x3[i], x4[i]}; \
      float v[full + single], y[4]; \
      for (int k = 0; k < full; k++) v[k] = full_of[k]; \
      for (int k = 0; k < single; k++) v[full + k] = same[k]; \
      f32_rule_##op(&(f32_operands){v, numbers}, variant, y); \
      y0[i] = y[0]; \
      y1[i] = y[1]; \
      if (results > 2) y2[i] = y[2]; \
      if (results > 3) y3[i] = y[3]; \
    } \
  }

CNI_UPDATE_LOOPS(LOOP, LOOP)

#define ENTRY(op, variant) {#op, variant, loop_##op##_##variant},
static const cni_update_entry entries[] = {CNI_UPDATE_LOOPS(ENTRY, ENTRY){NULL, 0, NULL}};

const cni_update_table CNI_ISA_NAME(cni_update_table) = {entries, adam_rates};
