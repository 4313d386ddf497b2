/* fft.h: what fft.c has of fft_isa.c: discrete Fourier transforms of vectors of numbers, one table per
 * instruction set and type.
 *
 * Place in the flow: a transform of n points is done on n columns, each a vector of real parts and one of imaginary
 * parts; the lanes are other lines, or other parts of the same one. Invariant: lanes never mix, except where a
 * function says so. */
#ifndef CNI_CPU_FFT_H
#define CNI_CPU_FFT_H

#include <stdbool.h>
#include <stdint.h>

#include "backends/cpu/isa.h"

enum { CNI_FFT_FACTORS = 64, CNI_FFT_PRIME = 61, CNI_FFT_LANES = 16 /* at most */ };

/* How n columns are transformed: a pass per factor. */
typedef struct cni_fft_columns {
  int64_t n;
  int nfactors, factors[CNI_FFT_FACTORS];
  const void *twiddles; /* pass after pass: (n / s / r, r - 1) pairs for radix r, s the product of those before */
  const void *primes;   /* for each factor above 8, its roots of unity: (r) pairs */
} cni_fft_columns;

/* Where the scalars of a line meet the vectors of a column. */
typedef enum cni_fft_form {
  CNI_FFT_PAIRS,   /* scalar i is vector i */
  CNI_FFT_SWAPPED, /* ... vector i ^ 1: real and imaginary parts change places */
  CNI_FFT_REAL     /* ... vector 2 i; imaginary parts are 0 when read, left out when written */
} cni_fft_form;

/* Columns: (n, 2, lanes), aligned to 64 bytes. All pointers are to the table's type. */
typedef struct cni_fft_loops {
  int lanes;
  /* Transforms; the result is in one of the two, and is returned. */
  void *(*columns)(const cni_fft_columns *c, void *x, void *room);
  /* `scalars` of each of `lanes` lines to columns and back, the first `count` lines times `scale`. */
  void (*load_lines)(void *x, const void *const *line, int64_t scalars, cni_fft_form form);
  void (*store_lines)(void *const *line, int count, const void *x, int64_t scalars, cni_fft_form form,
                      double scale);
  /* Columns of one line, (rows, width) pairs: column j of `count` <= lanes neighbours. */
  void (*load_columns)(void *x, const void *in, int64_t rows, int64_t width, int count, bool swap);
  void (*store_columns)(void *out, const void *x, int64_t rows, int64_t width, int count, bool swap, double scale);
  /* x: (rows) columns times `twiddle`, the twiddle factors in the same layout, transposed by blocks of lanes x lanes
   * and laid into to: (blocks of rows, width) columns at its columns [0, count). */
  void (*twiddle_transpose)(void *to, const void *x, const void *twiddle, int64_t rows, int64_t width, int count);
  /* Fills `twiddle`, (rows) columns: products of row r's `lane`, pairs (rows, lanes), with its `start`, pairs
   * (rows). */
  void (*twiddle)(void *twiddle, const double *lane, const double *start, int64_t rows);
  /* Pairs out[k] = a[k] * b[k] * scale, with real and imaginary parts swapped afterwards. */
  void (*multiply)(void *out, const void *a, const void *b, int64_t n, bool swap, double scale);
  /* The transform of 2 h real numbers from that of h pairs made of them, and the way back: x: (h + 1) pairs in
   * place; w: exp(-2 pi i k / 2 h). */
  void (*split)(void *x, const void *w, int64_t h, double scale);
  void (*join)(void *to, const void *x, const void *w, int64_t h);
  /* The same on columns; join_columns leaves real and imaginary parts swapped. */
  void (*split_columns)(void *to, const void *x, const void *w, int64_t h);
  void (*join_columns)(void *to, const void *x, const void *w, int64_t h);
  /* From the first half of a real line's transform, n odd, to all of it, parts swapped. */
  void (*mirror_columns)(void *x, int64_t n);
} cni_fft_loops;

/* [0] float, [1] double */
CNI_DECLARE_BY_ISA(cni_fft_loops, cni_fft_loops, [2]);

#endif
