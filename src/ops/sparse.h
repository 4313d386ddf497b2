/* sparse.h: how calls with sparse tensors are lowered to ops on their parts, and what the rules share.
 *
 * Place in the flow: apply asks cni_sparse_lower before it looks at an op's own rules; sparse_*.c hold the rules.
 * Invariant: like shorthand.h, each helper may be given NULL and then returns NULL; results belong to the scope. */
#ifndef CNI_OPS_SPARSE_H
#define CNI_OPS_SPARSE_H

#include <cairn/autograd.h>
#include <cairn/kw.h>

#include "apply.h"
#include "shorthand.h"
#include "table.h"

/* For a call with a sparse tensor: *lowered becomes what computes its results out of its parts. An error where the op
 * is not for sparse tensors. */
int cni_sparse_lower(const cni_opinfo *info, const cn_call *c, int (**lowered)(cn_call *call));
/* Writes a result into a sparse destination: its values where both have the same places, else dest gets its parts. */
int cni_sparse_write(const char *who, cn_tensor *dest, cn_tensor *result);

/* add_ and sub_ of a sparse tensor and a dense one, dest: 0, an error, or CN_REFUSED where the call is another. */
int cni_sparse_add_into(const cn_call *c, int id, cn_tensor *dest);

static inline bool cni_is_coo(const cn_tensor *t) { return t && t->d.layout == CN_LAYOUT_COO; }
/* Whose compressed dimension is the first of the two: rows. */
static inline bool cni_by_rows(int layout) { return layout == CN_LAYOUT_CSR || layout == CN_LAYOUT_BSR; }
static inline bool cni_in_blocks(int layout) { return layout == CN_LAYOUT_BSR || layout == CN_LAYOUT_BSC; }

/* ---- making ---- */
/* Another handle over t's memory, with t's history. */
cn_tensor *cni_own_handle(cn_tensor *t);
/* indices: (sparse_dim, n) int64, values: (n, dense...). The sparse tensor takes the handle of its values. */
cn_tensor *cni_coo(cn_tensor *indices, cn_tensor *values, int ndim, const int64_t *shape, bool coalesced);
cn_tensor *cni_compressed(cn_layout layout, cn_tensor *index, cn_tensor *plain, cn_tensor *values, int ndim,
                          const int64_t *shape, int dense_dim);
/* The same places and shape, other values. */
cn_tensor *cni_with_values(cn_tensor *like, cn_tensor *values);
/* Nothing is there: zeros of that shape, with n dense dims behind the sparse ones. */
cn_tensor *cni_coo_empty(int ndim, const int64_t *shape, int dense_dim, int dtype, cn_device device);

/* ---- COO ---- */
static inline cn_tensor *cni_coo_indices(const cn_tensor *s) { return s ? s->sparse->index : NULL; }
static inline cn_tensor *cni_values(const cn_tensor *s) { return s ? s->sparse->values : NULL; }
static inline int cni_sparse_dims(const cn_tensor *s) { return s->d.ndim - s->sparse->dense_dim; }
/* Row i of indices, (n). */
static inline cn_tensor *cni_index_row(cn_tensor *indices, int64_t i) { return cn_select(indices, 0, i); }
/* The number of each place, (n), row by row over the first `dims` dimensions of shape; indices: (dims or more, n). */
cn_tensor *cni_keys(cn_tensor *indices, int dims, const int64_t *shape);
/* Back: (dims, n). */
cn_tensor *cni_of_keys(cn_tensor *keys, int dims, const int64_t *shape);
/* values, (n, ...), added up where keys, (n), are equal: keys become those that occur, in order. Returns the sums. */
cn_tensor *cni_sum_by_key(cn_tensor **keys, cn_tensor *values);
cn_tensor *cni_coalesced(cn_tensor *s); /* s itself where it is */
int64_t cni_sizes_times(const int64_t *shape, int n); /* how many there are in the first n dims */
/* The gradient of a table (rows, width) whose rows `index` (n) got these (n, width); those numbered padding get none
 * (negative: all do). */
cn_tensor *cni_sparse_rows(cn_tensor *each, cn_tensor *index, int64_t padding, const cn_meta *table);

/* ---- from one layout to another (sparse_convert.c) ---- */
cn_tensor *cni_dense(cn_tensor *s);  /* t itself where it is dense */
cn_tensor *cni_as_coo(cn_tensor *s); /* likewise; blocks come apart */
/* In the layout of another sparse tensor, blocks included. */
cn_tensor *cni_in_layout_of(cn_tensor *s, const cn_tensor *like);
/* The number of the row of each value, (n), where rows begin at crow, (rows + 1); and back. */
cn_tensor *cni_rows_of(cn_tensor *crow, int64_t n);
cn_tensor *cni_begins_of(cn_tensor *rows, int64_t count);

/* The rules. */
#define SPARSE_AS_IS(name)
#define SPARSE_LINEAR(name)
#define SPARSE_EACH(name)
#define SPARSE_RULE(name) int cni_sparse_##name(cn_call *c);
#define SPARSE_RULE_ANY(name) SPARSE_RULE(name)
#include "sparse_rules.def"
#undef SPARSE_AS_IS
#undef SPARSE_LINEAR
#undef SPARSE_EACH
#undef SPARSE_RULE
#undef SPARSE_RULE_ANY

#endif
