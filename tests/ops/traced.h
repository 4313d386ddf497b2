/* traced.h: a sample as a graph: the op and its gradient, of the sample's inputs (capture.c). */
#ifndef TESTS_OPS_TRACED_H
#define TESTS_OPS_TRACED_H

#include "drivers.h"

enum { MOST_OUTPUTS = SAMPLE_RESULTS + SAMPLE_INPUTS };

typedef struct traced {
  const call *c;            /* the call whose attributes and numbers the graph bakes in */
  int input[SAMPLE_INPUTS]; /* which of its inputs each input of the graph is */
  size_t ninputs;
  bool has_out[SAMPLE_RESULTS],
      has_grad[SAMPLE_INPUTS]; /* what eager gave: the outputs of the graph, in this order */
  size_t nout, noutputs;
} traced;

/* Which outputs the graph has is known from the eager run. */
void traced_plan(traced *k, const call *c, const call_result *want);
/* The function that is traced: the op, and its gradient, of fresh leaves over the inputs. payload: a traced. */
int traced_run(cn_tensor **outputs, cn_tensor *const *inputs, void *payload);

#endif
