/* moments.h: mean and squared deviations along dims, and the loops of the normalisations built on them.
 *
 * Place in the flow: moments.c (var, std), norm.c (layer and RMS norm), batch_norm.c and group_norm.c. Invariant:
 * moments are joined over blocks that depend on the shape alone, so results never depend on the number of threads. */
#ifndef CNI_CPU_MOMENTS_H
#define CNI_CPU_MOMENTS_H

#include "reduce.h"

/* How many elements, their mean, and the sum of their squared deviations from it. */
typedef struct cni_moment {
  double count, mean, m2;
} cni_moment;

/* The loops for one float type T. Pointers are to T unless they say double. */
typedef struct cni_moment_loops {
  cni_moment (*row)(const void *x, int64_t n); /* n > 0 */
  /* Columns: acc[j] += (x[j] - center[j])^2 over the rows */
  void (*deviations)(void *acc, const void *x, const void *center, int64_t nrows, int64_t stride, int64_t n);
  /* ---- layer and RMS norm ---- */
  double (*square_row)(const void *x, int64_t n); /* sum of squares */
  /* y = (x - mean) * rstd * w + b; w and b may be NULL */
  void (*normalize_row)(void *y, const void *x, const void *w, const void *b, int64_t n, double mean,
                        double rstd);
  /* sums[0] = sum g w, sums[1] = sum g w h, where h = (x - mean) * rstd; w may be NULL */
  void (*grad_sums_row)(double *sums, const void *g, const void *x, const void *w, int64_t n, double mean,
                        double rstd);
  /* y = rstd * (g w - a - h * b) */
  void (*grad_row)(void *y, const void *g, const void *x, const void *w, int64_t n, double mean, double rstd,
                   double a, double b);
  /* gw[j] += g h, gb[j] += g; either may be NULL */
  void (*grad_affine_row)(void *gw, void *gb, const void *g, const void *x, int64_t n, double mean,
                          double rstd);
  /* ---- batch norm ---- */
  void (*scale_row)(void *y, const void *x, int64_t n, double a, double b); /* x * a + b */
  void (*scale_columns)(void *y, const void *x, const void *a, const void *b, int64_t n);
  /* sums[0] += sum g, sums[1] += sum g (x - mean) */
  void (*dots_row)(double *sums, const void *g, const void *x, int64_t n, double mean);
  void (*dots_columns)(void *sg, void *sgx, const void *g, const void *x, const void *mean, int64_t n);
  /* y = k * (g - a - (x - mean) * b) */
  void (*channel_grad_row)(void *y, const void *g, const void *x, int64_t n, double k, double a, double mean,
                           double b);
  void (*channel_grad_columns)(void *y, const void *g, const void *x, const void *k, const void *a,
                               const void *mean, const void *b, int64_t n);
  /* ---- group norm ---- */
  void (*plane_grad_row)(void *y, const void *g, const void *x, int64_t n, double k, double mean, double a,
                         double b); /* g * k - (x - mean) * a - b */
} cni_moment_loops;

typedef struct cni_moment_table {
  cni_moment_loops loops[2]; /* CNI_C_F32, CNI_C_F64 */
} cni_moment_table;

CNI_DECLARE_BY_ISA(cni_moment_table, cni_moment_table);

const cni_moment_loops *cni_moment_loops_of(enum cni_compute class);

/* Receives the moments of n results, from element `at` of the result on, `stride` apart. Called from several
 * threads. */
typedef void (*cni_moment_sink)(void *payload, int64_t at, int64_t stride, const cni_moment *m, int64_t n);
/* Moments of x over the dims of mask. 0 or CN_ERR_MEMORY. */
int cni_moments(const cn_desc *x, uint32_t mask, cni_moment_sink sink, void *payload);

/* Element c of t (channels), or `otherwise` where there is no t; in batch_norm.c. */
double cni_load_channel(const cn_tensor *t, int64_t c, double otherwise);

/* An operand in the type and layout that loops want: the tensor's own memory where it fits, else a copy. */
typedef struct cni_operand {
  void *data;  /* NULL for an absent tensor */
  void *owned; /* the copy */
  size_t bytes;
  cn_desc view; /* of data */
} cni_operand;

/* d may be NULL. strides (of d's shape, in elements) may be NULL for row-major. 0 or CN_ERR_MEMORY. */
int cni_operand_take(cni_operand *o, const cn_desc *d, int dtype, const int64_t *strides);
/* The same for a result: nothing is read. cni_operand_put copies it into d if it has to, unless `status` is
 * an error. */
int cni_operand_room(cni_operand *o, const cn_desc *d, int dtype, const int64_t *strides);
void cni_operand_put(cni_operand *o, const cn_desc *d, int status);
void cni_operand_drop(cni_operand *o); /* a zeroed one is fine */

#endif
