/* rows.h: what families of rows share beside emit.h. */
#ifndef CNI_STABLEHLO_ROWS_H
#define CNI_STABLEHLO_ROWS_H

#include "row.h"

/* ---- elements at places (gather.c); what is out of range is left out or cut to the ends, as XLA does ---- */
/* x at `index` along dim: the dims of the index take that dim's place. */
cni_hval cni_hlo_take(cni_hlo *h, cni_hval x, int dim, cni_hval index);
/* Element by element: index has x's dims, and its sizes or smaller ones but along dim. */
cni_hval cni_hlo_take_along(cni_hlo *h, cni_hval x, int dim, cni_hval index);
/* x with `values` put where they were taken from: op "add", "multiply", "maximum", "minimum", or "set". values has the
 * dims of take's result. */
cni_hval cni_hlo_put(cni_hlo *h, const char *op, cni_hval x, int dim, cni_hval index, cni_hval values);
cni_hval cni_hlo_put_along(cni_hlo *h, const char *op, cni_hval x, int dim, cni_hval index, cni_hval values);

/* ---- loops (loop.c) ---- */
enum { CNI_HLO_CARRIED = 32 };
/* Carries n values, at most CNI_HLO_CARRIED, through `count` steps; body replaces them by the next ones, of the same
 * types. step: int32. */
typedef void (*cni_hbody)(cni_hlo *h, cni_hval step, cni_hval *carried, void *payload);
void cni_hlo_loop(cni_hlo *h, int64_t count, int n, cni_hval *carried, cni_hbody body, void *payload);
/* The same for as long as `goes_on` gives a bool without dims that is true; the step counts as well. */
typedef cni_hval (*cni_hgoes)(cni_hlo *h, cni_hval step, const cni_hval *carried, void *payload);
void cni_hlo_while(cni_hlo *h, cni_hgoes goes_on, int n, cni_hval *carried, cni_hbody body, void *payload);
/* An operation with regions: open gives its results, whose types are in out, their ids; then for each region a block,
 * what it computes and return, with "  }, {\n" between two of them; close. */
void cni_hlo_open(cni_hlo *h, const char *op, int nout, cni_hval *out, int nin, const cni_hval *in);
void cni_hlo_block(cni_hlo *h, int n, const cni_hval *like, cni_hval *arguments);
void cni_hlo_return(cni_hlo *h, int n, const cni_hval *v);
void cni_hlo_close(cni_hlo *h, const char *attrs, int nout, const cni_hval *out, int nin, const cni_hval *in);
/* Slice i (a value without dims) of one dim, which goes; and x with that slice replaced. */
cni_hval cni_hlo_at(cni_hlo *h, cni_hval x, int dim, cni_hval i);
cni_hval cni_hlo_set_at(cni_hlo *h, cni_hval x, int dim, cni_hval i, cni_hval row);

/* Sorts along dim: values, then what goes with them; of numbers NaN comes last, or first if descending. Stable. */
void cni_hlo_sort(cni_hlo *h, int n, cni_hval *x, int dim, bool descending);

/* ---- primitives that take as many steps as their numbers ask for (steps.c) ---- */
/* What primitive `name` of a program gives, in *out; false: it is none of these. Numbers get the shape. */
bool cni_hlo_steps(cni_hlo *h, const char *name, int type, cni_hval *x, int ndim, const int64_t *shape, cni_hval *out);

/* ---- several devices (mesh.c) ---- */
/* What the node's op shard says, for h's mesh: the text of its sharding. 0 or the error that was set. */
enum { CNI_HLO_SHARDING = 512 };
int cni_hlo_shard_text(char *text, const cni_hlo *h, const char *partition, int ndim, const int64_t *shape);

/* A formula's prefix along dim by doubling steps: op is a text over a (before) and b (at). */
cni_hval cni_hlo_scan(cni_hlo *h, const char *op, cni_hval neutral, cni_hval x, int dim);

#endif
