/* matmul_int8_isa.c: one row of a product of int8 matrices, added up in int32; compiled once per instruction set.
 *
 * Place in the flow: the leaf below matmul_int8.c. Invariant: sums of integers are the same in any order, so all levels
 * give the same bits. */
#include <string.h>

#include "backends/cpu/isa.h"
#include "matmul_int8.h"

/* Columns at a time, so that their sums stay in L1, and rows of b at a time, so that they are loaded rarely. */
enum { COLUMNS = 2048, ROWS = 4 };

static void add_rows(int32_t *c, const int32_t *f, const int8_t *b, int64_t b_row, int64_t n)
{
  const int8_t *b0 = b, *b1 = b + b_row, *b2 = b1 + b_row, *b3 = b2 + b_row;
  CNI_IVDEP for (int64_t j = 0; j < n; j++) c[j] += f[0] * b0[j] + f[1] * b1[j] + f[2] * b2[j] + f[3] * b3[j];
}

static void row(int32_t *c, const int8_t *a, int64_t a_col, const int8_t *b, int64_t b_row, int64_t n, int64_t k)
{
  memset(c, 0, (size_t)n * sizeof *c);
  for (int64_t at = 0; at < n; at += COLUMNS) {
    int64_t m = n - at < COLUMNS ? n - at : COLUMNS, t = 0;
    for (; t + ROWS <= k; t += ROWS) {
      int32_t f[ROWS];
      for (int i = 0; i < ROWS; i++) f[i] = a[(t + i) * a_col];
      add_rows(c + at, f, b + t * b_row + at, b_row, m);
    }
    for (; t < k; t++)
      for (int64_t j = 0; j < m; j++) c[at + j] += a[t * a_col] * b[t * b_row + at + j];
  }
}

static void quads(uint32_t *to, const int8_t *from, int64_t b_row, int count, int width, int64_t k)
{
  for (int64_t t = 0; t < k; t += 4, to += width) {
    const uint8_t *x = (const uint8_t *)from + t * b_row, *y = x + b_row, *z = y + b_row, *w = z + b_row;
    if (t + 3 < k)
      for (int i = 0; i < count; i++)
        to[i] = x[i] | (uint32_t)y[i] << 8 | (uint32_t)z[i] << 16 | (uint32_t)w[i] << 24;
    else
      for (int i = 0; i < count; i++)
        to[i] = x[i] | (t + 1 < k ? (uint32_t)y[i] << 8 : 0) | (t + 2 < k ? (uint32_t)z[i] << 16 : 0);
    for (int i = count; i < width; i++) to[i] = 0;
  }
}

static void words(uint32_t *to, const int8_t *from, int64_t b_row, int count, int width, int64_t k)
{
  for (int64_t t = 0; t < k; t += 2, to += width) {
    const int8_t *x = from + t * b_row, *y = x + b_row;
    if (t + 1 < k)
      for (int i = 0; i < count; i++) to[i] = cni_word_pair(x[i], y[i]);
    else
      for (int i = 0; i < count; i++) to[i] = cni_word_pair(x[i], 0);
    for (int i = count; i < width; i++) to[i] = 0;
  }
}

static void flip(uint32_t *quads, int64_t n)
{
  CNI_IVDEP for (int64_t i = 0; i < n; i++) quads[i] ^= 0x80808080u;
}

/* The numbers of a quadruple are taken apart by shifts, so that vectors need no bytes. */
static void add_up(int32_t *sums, const uint32_t *quads, int width, int64_t depth)
{
  memset(sums, 0, (size_t)width * sizeof *sums);
  for (int64_t t = 0; t < depth; t++, quads += width)
    CNI_IVDEP for (int i = 0; i < width; i++)
    {
      const uint32_t q = quads[i];
      sums[i] += ((int32_t)(q << 24) >> 24) + ((int32_t)(q << 16) >> 24);
      sums[i] += ((int32_t)(q << 8) >> 24) + ((int32_t)q >> 24);
    }
}

const cni_int8_loops CNI_ISA_NAME(cni_int8_loops) = {row, quads, words, flip, add_up};
