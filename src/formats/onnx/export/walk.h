/* walk.h: a graph that is being written: its values as they are in the model. Internal. */
#ifndef CNI_ONNX_EXPORT_WALK_H
#define CNI_ONNX_EXPORT_WALK_H

#include "row.h"

/* How many times shapes are looked at: as traced, and at two other sizes. */
enum { CNI_OX_PROBES = 3 };

typedef struct cni_oxwalk {
  cni_ox *x;
  const cn_graph *g;
  cni_oxval *vals; /* per value */
  bool *read;
  size_t nvals;
  int64_t *shapes; /* CNI_OX_PROBES times CN_MAX_DIMS a value; NULL: all sizes are fixed */
  int64_t *sizes;  /* ... and those of the graph */
} cni_oxwalk;

int cni_oxwalk_begin(cni_oxwalk *w, cni_ox *x, const cn_graph *g); /* 0 or an error, which is set */
void cni_oxwalk_end(cni_oxwalk *w);
void cni_oxwalk_nodes(cni_oxwalk *w); /* writes what is read */
cni_oxval cni_oxwalk_get(cni_oxwalk *w, int value);
void cni_oxwalk_mark(cni_oxwalk *w, int value);            /* it is read */
cni_oxval cni_oxwalk_type(const cni_oxwalk *w, int value); /* without a number */

/* ---- sizes.c ---- */
int cni_oxwalk_probe(cni_oxwalk *w);
const int64_t *cni_oxwalk_dim(const cni_oxwalk *w, int probe, int value); /* its sizes then */
/* What a size is called: the graph's name of it; NULL: it is fixed, or none of the graph's alone. */
const char *cni_oxwalk_symbol(const cni_oxwalk *w, int value, int dim);

/* ---- parts.c ---- */
void cni_ox_parts(cni_oxcall *c); /* the call as what its op is made of */

/* ---- order.c: names and what is not needed; proto: model.c ---- */

#endif
