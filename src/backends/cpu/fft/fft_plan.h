/* fft_plan.h: how a transform of n points is done, and the tables it needs.
 *
 * Place in the flow: fft.c makes a plan per call and runs it over the lines. A number of points with a large prime
 * factor becomes a convolution (Bluestein), that is two transforms of a power of two. Any other can be done on columns
 * whose lanes are lines; or, as n1 n2 points, on one line: columns of n1 points, twiddle factors, columns of n2. */
#ifndef CNI_CPU_FFT_PLAN_H
#define CNI_CPU_FFT_PLAN_H

#include <stddef.h>

#include "fft.h"

typedef struct cni_fft_block {
  void *memory;
  size_t bytes;
} cni_fft_block;

typedef struct cni_fft_plan {
  const cni_fft_loops *loops;
  bool f64;
  int64_t size; /* bytes of a number */
  int64_t n, n1, n2;             /* n1 = 0: not split */
  cni_fft_columns c, c1, c2;     /* of n (unless a convolution), n1 and n2 points */
  void *twiddle;                 /* (blocks of n2, n1) columns: exp(-2 pi i k1 j2 / n) */
  struct cni_fft_plan *inner;    /* NULL unless a convolution */
  void *chirp, *kernel;          /* (2, n) pairs: exp(pi i k k / n), their conjugates; (inner): the first's transform */
  void *half;                    /* (n + 1) pairs: exp(-2 pi i k / 2 n), if asked for */
  int nblocks;
  cni_fft_block blocks[16];
} cni_fft_plan;

/* by_line: lines are transformed one by one. half: lines are 2 n real numbers. 0 or CN_ERR_MEMORY; in both cases
 * cni_fft_plan_close is due. */
int cni_fft_plan_open(cni_fft_plan *p, bool f64, int64_t n, bool by_line, bool half);
void cni_fft_plan_close(cni_fft_plan *p);
/* Whether n points have small prime factors only. */
bool cni_fft_is_smooth(int64_t n);
/* The part of the lanes that one line of n points fills; 0: it cannot be split. */
double cni_fft_fill(int64_t n, bool f64);

#endif
