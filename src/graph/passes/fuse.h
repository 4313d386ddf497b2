/* fuse.h: what the parts of fusion share: fuse.c finds groups, fuse_rows.c says what may stand in them along rows,
 * fuse_program.c writes a group as one program, fuse_replace.c puts a node of that in their place.
 *
 * Place in the flow: cn_graph_fuse, behind all other passes, on graphs that are only run from then on. Invariant: a
 * group computes what its nodes did, to the bit, but for halves that need not be exact, and is within the limits
 * below. */
#ifndef CNI_GRAPH_FUSE_H
#define CNI_GRAPH_FUSE_H

#include "graph/ir.h"
#include "ops/program.h"

/* What may be part of a group. */
enum cni_part_kind {
  CNI_PART_NONE,
  CNI_PART_ROW,     /* a pointwise op */
  CNI_PART_PROGRAM, /* the op "pointwise": gradients of such */
  CNI_PART_CAST,
  CNI_PART_REDUCTION, /* along rows */
  CNI_PART_VIEW       /* of one value for each row */
};

/* At most: values between steps are to stay in the cache. */
enum { CNI_GROUP_MEMBERS = 32, CNI_GROUP_STEPS = 64, CNI_GROUP_OPERANDS = 18 };

bool cni_has_kernels(const cni_opinfo *info, cn_device device); /* ... of its own for the op */
/* norms.c: batch norms and what stands behind them become one node each. How many did, or a negative status. */
int cni_norms_join(cn_graph *g, bool exact);
/* add_norms.c: layer and RMS norms with the additions and casts around them become one node each; likewise. */
int cni_add_norms_join(cn_graph *g);
/* gelus.c: gelus with the products before them; likewise. */
int cni_gelus_join(cn_graph *g, bool exact);
/* sums.c: small products with the additions behind them; likewise. */
int cni_sums_join(cn_graph *g);
/* pools.c: max pools whose places nobody reads do not find them; likewise. */
int cni_pools_trim(cn_graph *g);

/* clamps.c: convolutions take what limits their results along; likewise. */
int cni_clamps_join(cn_graph *g);

/* ---- fuse_replace.c: 1: done; 0: nodes stay as they are; negative: the error is set ---- */
int cni_fuse_range(cn_graph *g, int begin, int end, bool exact); /* nodes from begin to before end, where that pays */
int cni_fuse_pair(cn_graph *g, int node, bool exact); /* a node and the one behind it, whether it pays or not */

/* What a node is as a part; *steps: how many it has. */
enum cni_part_kind cni_fuse_part(const cn_graph *g, const cni_gnode *n, int *steps);

/* ---- fuse_rows.c: groups with reductions along rows ---- */
/* Rows: the elements of dense memory along its last dims. */
typedef struct cni_row_space {
  const cn_desc *full; /* of all rows */
  int dims;            /* so many of its last dims are a row */
  int64_t count;       /* elements of a row */
} cni_row_space;
enum cni_row_form { CNI_ROW_OTHER, CNI_ROW_WHOLE, CNI_ROW_KEPT, CNI_ROW_BARE }; /* bare: without the dims of rows */
enum cni_row_form cni_row_form_of(const cni_row_space *s, const cn_desc *y);
int cni_row_prim(const cni_gnode *n); /* which step along rows a reduction is; 0: it is none of those */
bool cni_row_space_of(cni_row_space *s, const cn_graph *g, const cni_gnode *n); /* false: it is no such reduction */
bool cni_row_space_same(const cni_row_space *a, const cni_row_space *b);
/* As cni_fuse_part, of reductions and views. */
enum cni_part_kind cni_row_part(const cn_graph *g, const cni_gnode *n, int *steps);
/* May a part stand in a group of these rows? */
bool cni_row_fits(const cn_graph *g, const cni_gnode *n, const cni_row_space *s, enum cni_part_kind kind);
/* Does it compute whole rows of a value that is one for each row? Long rows are not read again for that. */
bool cni_row_again(const cni_row_space *s, const cn_graph *g, const cni_gnode *n, int value);
/* Does it read a member's value as one of its own row? A bare one lies along the last dims of others. */
bool cni_row_reads(const cni_row_space *s, const cn_graph *g, const cni_gnode *n, int value);
/* How a member of result y reads x from outside: 0 whole rows, 1 one value for each row; -1: it cannot be said so. */
int cni_row_operand(const cni_row_space *s, const cn_desc *y, const cn_desc *x);
/* Readers of a view get one each. 1: there are reductions along rows at all; 0: there are none; negative: an error. */
int cni_row_views(cn_graph *g);

/* ---- fuse_program.c ---- */
/* A group as a program: its inputs are values of the graph. */
typedef struct cni_group_program {
  const cni_program *program;
  int in[CNI_GROUP_OPERANDS];
} cni_group_program;
/* Members, in order; the values that are read outside. exact: halves are rounded between members. rows: those of its
 * reductions; NULL: it has none. */
typedef struct cni_fuse_group {
  const int *members, *out;
  int nmembers, nout;
  bool exact;
  const cni_row_space *rows;
} cni_fuse_group;
/* 1: done; 0: it cannot be one, or is larger than groups may be; negative: the error is set. */
int cni_fuse_program(cni_group_program *p, const cn_graph *g, const cni_fuse_group *group);

#endif
