/* loops.h: Loop and Scan as loops that graphs hold (cairn/control.h), for what cannot be unrolled while a graph is
 * captured. Internal. */
#ifndef CNI_ONNX_LOOPS_H
#define CNI_ONNX_LOOPS_H

#include "call.h"

enum { CNI_ONNX_UNROLLED = 32 }; /* steps that a captured loop is at most unrolled to */

/* A body, which takes and gives `ncarried` values from step to step. */
typedef struct cni_onnx_loop {
  cni_onnx_call *call;
  const cni_onnx_graph *body;
  size_t ncarried, nrows; /* nrows: results of each step that are stacked */
  cn_onnx_value **in;     /* all inputs of the body; loops.c fills and empties it */
  cn_onnx_value **made;   /* all results of the body */
} cni_onnx_loop;

/* Steps from number `first` on, as long as the condition says and fewer than `most` were made (NULL: no bound), of a
 * body that gives no rows. carried: ncarried borrowed values, replaced by owned ones. */
int cni_onnx_loop_while(cni_onnx_loop *loop, cn_onnx_value **carried, int64_t first, cn_tensor *condition,
                        cn_tensor *most);
/* `steps` steps of Loop's body, whose condition stays true; rows: nrows stacked tensors, of the scope. */
int cni_onnx_loop_steps(cni_onnx_loop *loop, cn_onnx_value **carried, cn_tensor **rows, cn_onnx_value *condition,
                        int64_t steps);
/* A step of Scan's body for each row of xs. */
int cni_onnx_loop_rows(cni_onnx_loop *loop, cn_onnx_value **carried, cn_tensor **rows, cn_tensor *const *xs,
                       size_t nxs);

#endif
