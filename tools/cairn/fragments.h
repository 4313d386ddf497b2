/* fragments.h: how a product is cut into what Tensor Cores take at a time, and what sums of few bits lose.
 *
 * Place in the flow: tensorcore.c is the command; fragments.c counts and adds, fragments_svg.c draws. Invariant: the
 * same arguments give the same numbers on every machine; nothing here is measured. */
#ifndef CAIRN_COMMAND_FRAGMENTS_H
#define CAIRN_COMMAND_FRAGMENTS_H

#include <cairn/ext/system.h>

/* An instruction, (m x k) times (k x n) at once; its type, and how many bytes an element has. */
typedef struct fragment {
  const char *name, *type;
  int m, n, k, item;
} fragment;
/* The first of the type whose name begins so; name NULL: of the type. NULL: there is none. */
const fragment *fragment_find(const char *name, const char *type);

typedef struct tiling {
  const fragment *f;
  int64_t m, k, n;          /* of the product */
  int64_t down, along, across; /* fragments: over rows, depth, columns */
  int64_t tile_m, tile_n;   /* of the result, by a block of threads */
  int64_t tiles, units, waves; /* of them; multiprocessors; times that all of those have one */
  double by_fragments, by_waves; /* useful operations of those done; busy multiprocessors of all */
  int load;                 /* bytes that rows of both factors can be loaded by: 16 where they are aligned */
} tiling;
void fragments_of(tiling *t, const fragment *f, int64_t m, int64_t k, int64_t n, int64_t units);

/* ---- sums ---- */
enum { FRAGMENT_SUMS = 4 };
typedef struct sum_error {
  const char *sum;              /* "float32, a fragment at a time" */
  double mean, largest;         /* from float64's sum of the same factors, of the largest result */
  double whole;                 /* largest from float64's sum of the factors as they were given */
  bool overflow;                /* some sum was beyond the type's largest number */
} sum_error;
/* left (m, k), right (k, n): factors in float64. Looks at up to 64 rows and 64 columns, evenly spread; *looked: how
 * many results. */
void fragments_errors(sum_error errors[FRAGMENT_SUMS], int64_t *looked, const tiling *t, const double *left,
                      const double *right);

int fragments_svg(cn_text *out, const tiling *t, const sum_error *errors);

#endif
