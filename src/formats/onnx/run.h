/* run.h: a walk over a graph's nodes, and what it holds. Internal. */
#ifndef CNI_ONNX_RUN_H
#define CNI_ONNX_RUN_H

#include "call.h"

struct cn_onnx {
  cni_onnx_model *model;
  const cni_onnx_name **inputs; /* in the arena: those without an initialiser */
  size_t ninputs;
  struct cni_onnx_place *nodes; /* in the arena: see look.c */
  size_t nnodes;
};
int cni_onnx_list_nodes(cn_onnx *model);
/* What a type says, seen from outside: an optional is what it may hold. */
void cni_onnx_describe(cn_onnx_info *info, const cni_onnx_name *name);

/* The values of one graph while it is walked. */
typedef struct cni_onnx_frame {
  const cni_onnx_model *model;
  const struct cni_onnx_frame *outer; /* of the graph around; NULL: a model's graph, a function's body */
  const cni_onnx_graph *graph;
  const cni_onnx_call *caller; /* of the function in whose body this is; NULL: none */
  cn_onnx_value **slots;       /* owned */
  bool track;                  /* known numbers are looked after */
  bool keep;                   /* values stay to the end, whoever wanted them */
  int depth;                   /* graphs and functions around */
  const bool *only;            /* the nodes that are walked; NULL: all */
} cni_onnx_frame;

/* Room for the values of a graph. cni_onnx_frame_end in any case. */
int cni_onnx_frame_begin(cni_onnx_frame *frame, const cni_onnx_frame *outer, const cni_onnx_graph *graph);
void cni_onnx_frame_end(cni_onnx_frame *frame);
int cni_onnx_feed_slot(cni_onnx_frame *frame, int32_t slot, cn_onnx_value *value); /* keeps it */
/* Initialisers go where nothing was fed, then nodes are walked. */
int cni_onnx_walk(cni_onnx_frame *frame);
cn_onnx_value *cni_onnx_slot(const cni_onnx_frame *frame, cni_onnx_ref ref); /* borrowed; NULL: absent */
/* The graph's results, owned; none on failure. */
int cni_onnx_results(cn_onnx_value **outputs, const cni_onnx_frame *frame);

#endif
