/* solve.h: finds the expression of sizes that gives certain numbers at certain sizes.
 *
 * Place in the flow: probe.c traces a function at several sizes and asks for each number that differs. Invariant: an
 * expression that is returned gives the numbers asked for, at all these sizes; whether it does at others is for the
 * caller to try. */
#ifndef CNI_GRAPH_SOLVE_H
#define CNI_GRAPH_SOLVE_H

#include "expr.h"

enum { CNI_PROBES_MOST = 256 };

/* An expression that is known, with its value at each probe; `low` and `high`: where it is smallest and largest. */
typedef struct cni_known {
  int expr;
  int64_t *at;
  int low, high;
} cni_known;

/* Numbers that were asked for, so that they are looked for once. */
typedef struct cni_asked {
  uint64_t hash;
  int expr, effort; /* 0: not found with that effort */
  int64_t *at;
} cni_asked;

typedef struct cni_solver {
  cni_exprs x;
  size_t nprobes;
  bool halve;        /* among the constants that fit take the middle one: for later rounds, which try others */
  cni_known *known;  /* the sizes, then what was found */
  size_t nknown, known_cap;
  cni_known *parts;  /* the sizes divided by small numbers: for larger expressions, once others have failed */
  size_t nparts, parts_cap;
  cni_asked *asked;
  size_t nasked, asked_cap;
} cni_solver;

/* sizes: nprobes rows of nsizes. 0 or CN_ERR_MEMORY; free it in any case. */
int cni_solver_begin(cni_solver *s, const int64_t *sizes, size_t nprobes, size_t nsizes);
void cni_solver_free(cni_solver *s);

enum { CNI_SOLVE_QUICK = 1, CNI_SOLVE_WHOLE = 2 }; /* effort */
/* The simplest expression that gives values[k] at probe k. 0: none was found; negative: out of memory. */
int cni_solve(cni_solver *s, const int64_t *values, int effort);
/* The same for floats: counts, and ratios of them. */
int cni_solve_real(cni_solver *s, const double *values, int effort);

#endif
