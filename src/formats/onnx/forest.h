/* forest.h: ensembles of trees as tables that walks look up. Internal. */
#ifndef CNI_ONNX_FOREST_H
#define CNI_ONNX_FOREST_H

#include "ml.h"

/* The tables, members of a sequence. Nodes have a feature, a split, and where they lead: yes, no, and, where some node
 * tells it from no, what is missing; leaves have a number, and by it weights and a target. */
enum { FEATURE, SPLIT, NEXT, LEAF_OF, WEIGHT, TARGET, ROOTS, FACTS, TABLES };
/* Numbers in FACTS. WAYS_USED: entries of NEXT for each node; DENSE: leaves have a weight for each target; POSITIVE: no
 * weight is negative; ONLY: the one target that all weights have, -1: there are more. */
enum { DEPTH, WAYS_USED, COLUMNS, TARGETS, DENSE, POSITIVE, ONLY, NFACTS };
enum { YES, NO, MISSING, WAYS };

/* How trees' results become one. */
enum { AVERAGE, SUM, MIN, MAX };
int cni_onnx_aggregation(const cni_onnx_call *c); /* by the attribute; negative with the error set */
double cni_onnx_none_of(int how);                 /* what is there before any tree gave a result */

/* The tables of a call's attributes; for cni_onnx_once. */
cn_onnx_value *cni_onnx_forest(cni_onnx_call *c);

#endif
