/* random_call.h: makes up calls of ops: tensors and attributes, sensible and senseless, from one number each.
 *
 * Place in the flow: test_api_calls.c runs what is made here. Invariant: a call follows from its seed alone, so that
 * any one can be made again by itself. */
#ifndef TESTS_FUZZ_RANDOM_CALL_H
#define TESTS_FUZZ_RANDOM_CALL_H

#include <cairn/cairn.h>

/* ---- numbers ---- */
typedef struct rng {
  uint64_t s;
} rng;
uint64_t rng_next(rng *r);
int64_t rng_below(rng *r, int64_t n); /* 0..n-1 */
bool rng_one_in(rng *r, int n);
double rng_unit(rng *r); /* [0, 1) */

/* ---- one call ---- */
enum { CALL_LIST = 40, CALL_TENSORS = 64, CALL_TEXT = 6000, CALL_STRING = 400 };

typedef struct random_call {
  cn_op_info info;
  const cn_op *op;
  cn_value args[CN_MAX_ARGS + 1];
  size_t nargs, capacity;           /* capacity: room for results, often what is needed */
  cn_tensor *dest;                  /* NULL: a fresh result */
  cn_tensor *tensors[CALL_TENSORS]; /* all that take part, of the innermost scope */
  size_t ntensors;
  bool grad;   /* some require a gradient */
  bool traced; /* run it captured as well, and compare */
  /* what the arguments point to */
  int64_t ints[CN_MAX_ARGS][CALL_LIST];
  double floats[CN_MAX_ARGS][CALL_LIST];
  cn_tensor *lists[CN_MAX_ARGS][CALL_LIST];
  char strings[CN_MAX_ARGS][CALL_STRING];
  char text[CALL_TEXT]; /* the call, for messages */
  size_t length;
} random_call;

/* Makes a call of a random op (or of `op`, when that is not NULL). Its tensors belong to the innermost scope. 0, or
 * an error (of memory, say). */
int random_call_make(random_call *c, uint64_t seed, const cn_op *op);

/* For calls outside the op table. random_theme chooses shape and type that the tensors after it resemble. NULL on
 * error. */
void random_theme(rng *r);
cn_tensor *random_tensor(rng *r, bool grad);
int64_t random_int(rng *r);
double random_float(rng *r);

#endif
