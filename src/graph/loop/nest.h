/* nest.h: the loop form: what one op computes, as loops over numbers.
 *
 *     for n < 2, o < 8, y < 6, x < 6
 *     over c < 3, i < 3, j < 3
 *     load f32 = %0[n, c, y + i - 1, x + j - 1] if 0 <= y + i - 1 < 6, 0 <= x + j - 1 < 6 else 0
 *     load f32 = %1[o, c, i, j]
 *     do float32:f32,float32:f32||mul:f32 0 1|2:float32
 *     sum f32 from 0
 *     then load f32 = %2[o]
 *     then do float32:f32,float32:f32||add:f32 0 1|2:float32
 *     store float32 [n, o, y, x]
 *
 * A nest has axes; for each point of those behind "for" it stores every result once, those behind "over" are reduced. A
 * load reads an operand at an index: expressions of axes (+, -, *, //), and of integers that loads before it gave
 * (#0: a gather); where a condition does not hold it gives a number instead (padding). "load i64 = expression" is the
 * index itself. Loads are the inputs of a typed pointwise program, which is computed at every point; with reduced axes
 * its results are accumulated, and a second program makes of these, and of further loads, what is stored.
 *
 * Place in the flow: lower.c writes an op's call as nests; nest_text.c writes and reads the text above, nest_verify.c
 * checks that every index stays inside; the CPU runs them block by block (backends/cpu/loop), and C export will render
 * them. Invariant: a nest that was verified touches no memory outside of its operands, whatever they hold. */
#ifndef CNI_GRAPH_LOOP_NEST_H
#define CNI_GRAPH_LOOP_NEST_H

#include "graph/expr.h"
#include "ops/program.h"

enum { CNI_AXIS_NAME = 16, CNI_NEST_AXES = 24 };

typedef struct cni_axis {
  char name[CNI_AXIS_NAME];
  int64_t size;
} cni_axis;

/* A condition: 0 <= expr < below. */
typedef struct cni_guard {
  int expr;
  int64_t below;
} cni_guard;

typedef struct cni_load {
  int operand; /* -1: the value is index[0] itself */
  enum cni_compute class;
  int ndim, index[CN_MAX_DIMS];
  int nguards;
  cni_guard guard[CN_MAX_DIMS];
  double otherwise;
  bool late; /* behind the reduction: for the second program */
} cni_load;

enum cni_fold { CNI_FOLD_SUM, CNI_FOLD_PROD, CNI_FOLD_MAX, CNI_FOLD_MIN, CNI_FOLDS };
extern const char *const cni_fold_names[CNI_FOLDS];
enum cni_prim cni_fold_prim(enum cni_fold fold); /* the step that adds one value to what there is */

typedef struct cni_accumulator {
  enum cni_fold fold;
  enum cni_compute class;
  double from;
} cni_accumulator;

typedef struct cni_store {
  int dtype, ndim, index[CN_MAX_DIMS];
} cni_store;

/* An operand's type and shape, as the nest takes it. */
typedef struct cni_nest_operand {
  int dtype, ndim;
  int64_t shape[CN_MAX_DIMS];
} cni_nest_operand;

typedef struct cni_nest {
  int naxes, nfor; /* the first nfor are those of the results, the others are reduced */
  cni_axis axis[CNI_NEST_AXES];
  cni_exprs exprs; /* variable i: axis i; CNI_NEST_AXES + k: the integer that load k gave */
  cni_load *loads;
  size_t nloads, loads_cap;
  const cni_program *body, *then; /* then: NULL where nothing is reduced */
  cni_accumulator fold[CNI_MAX_RESULTS]; /* per result of body, where something is */
  cni_store store[CNI_MAX_RESULTS];
  int nstores;
} cni_nest;

void cni_nest_free(cni_nest *n);
/* Parts while one is made: an axis or expression's number, or a negative status. */
int cni_nest_axis(cni_nest *n, const char *name, int64_t size); /* in order: those of results first */
int cni_nest_variable(cni_nest *n, int axis);
int cni_nest_gathered(cni_nest *n, int load);
cni_load *cni_nest_load(cni_nest *n, int operand, enum cni_compute class, bool late); /* NULL: no memory */
int cni_nest_guard(cni_load *l, int expr, int64_t below);

/* nest_verify.c: are all parts of one another's types, and does every index stay inside its operand? 0 or an error that
 * says where. */
int cni_nest_verify(const cni_nest *n, const cni_nest_operand *operands, int noperands,
                    const cni_nest_operand *results, int nresults);

/* nest_text.c */
char *cni_nest_to_string(const cni_nest *n); /* owned; NULL with the error set */
int cni_nest_parse(cni_nest *n, const char *text); /* 0, or an error that says where; n is empty before */

/* ---- lower.c ---- */
/* The call as a nest; CN_REFUSED where its op has no such form. */
int cni_lower(cni_nest *n, const cn_call *call);
bool cni_lowers(const cn_op *op); /* does it have one? */

#endif
