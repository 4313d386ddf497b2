/* control_cases.h: functions with branches and loops in them, and how they are compared: as they are and as graphs. */
#ifndef TESTS_GRAPH_CONTROL_CASES_H
#define TESTS_GRAPH_CONTROL_CASES_H

#include <cairn/cairn.h>

#include "tensors.h"

enum { MOST = 8 };

void ok(int status); /* fails the test with the library's message */
/* A function that is run as it is and as a graph, optimised, printed and parsed, for the same inputs: all results must
 * be equal, to the bit. */
void both(cn_graph_fn fn, size_t nout, cn_tensor *const *in, size_t nin, void *payload);
/* Likewise the gradients of its inputs. */
void both_gradients(cn_graph_fn fn, size_t nout, cn_tensor *const *in, size_t nin, void *payload);

/* What the functions below are given, the same in all tests. */
typedef struct operands {
  cn_tensor *cell[4];   /* of recurrent and branches: h (4), xs (5, 3), w (4, 3), u (4, 4) */
  cn_tensor *across[4]; /* ... with xs (3, 5) */
  cn_tensor *none[4];   /* ... with xs (0, 3): no steps */
  cn_tensor *rows[3];   /* of mapped */
  cn_tensor *pair[2];   /* of grown */
  cn_tensor *noises[2]; /* of noise */
} operands;
operands operands_of_cases(void);

typedef struct differentiated {
  cn_graph_fn fn;
  void *payload;
  size_t nin, nout;
} differentiated;
int gradients(cn_tensor **out, cn_tensor *const *in, void *payload); /* payload: a differentiated */

/* Branches of two results. */
int twice(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload);
int plus(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *w);
int choose(cn_tensor **out, cn_tensor *const *in, void *w); /* twice or plus, by the sign of in[0]'s sum */

/* A step of a recurrent network; payload: a cell. */
typedef struct cell {
  cn_tensor *w, *u; /* (H, X), (H, H) */
} cell;
int step(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload);
typedef struct scanned {
  bool reverse;
  int64_t dim;
} scanned;
/* in: h (H), xs (T, X), w, u; payload: a scanned */
int recurrent(cn_tensor **out, cn_tensor *const *in, void *payload);
int branches(cn_tensor **out, cn_tensor *const *in, void *payload);  /* the same, with a branch in each step */

int per_row(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *w);
int mapped(cn_tensor **out, cn_tensor *const *in, void *payload);  /* in: x, y (T, X), w (H, X); per_row of each */
int small(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload); /* is in[1] below 20? */
int growing(cn_tensor **out, cn_tensor *const *in, void *payload); /* in: a count, x, w; payload: max_steps */
int grown(cn_tensor **out, cn_tensor *const *in, void *payload);   /* in: x, w; the last x alone */
int noisy(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload);
int noise(cn_tensor **out, cn_tensor *const *in, void *combine);   /* in: x (X), xs (T, X); combine: noisy, say */

#endif
