/* ext/onnx.h: how ops become operators of ONNX, for listings and tests. What writes models is cairn/onnx.h.
 */
#ifndef CAIRN_EXT_ONNX_H
#define CAIRN_EXT_ONNX_H

#include "../onnx.h"
#include "graph.h"

CN_BEGIN_DECLS

/* Why an op cannot be part of a model whatever it is called with: a sentence that stays. NULL: it can. Of branches and
 * loops, which are no ops, op is NULL: they can. */
CN_API const char *cn_onnx_problem(const cn_op *op);
/* How an op gets there: "row" (as operators), "formula" (step by step), "parts" (what it is made of), "no". */
CN_API const char *cn_onnx_way(const cn_op *op);

CN_END_DECLS

#endif
