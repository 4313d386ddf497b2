/* fft_plan.c: makes the tables of Fourier transforms; see fft_plan.h. Roots of unity are exact to the last digit of a
 * double for small n and products of two such beyond. */
#include "fft_plan.h"

#include <math.h>
#include <string.h>

#include "backends/cpu/isa.h"
#include "base/alloc.h"

typedef struct cplx {
  double re, im;
} cplx;

static inline cplx times(cplx a, cplx b) { return (cplx){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

static void *block(cni_fft_plan *p, int64_t count, int64_t size)
{
  size_t bytes;
  if (cni_mul_overflows((size_t)count, (size_t)size, &bytes)) {
    cn_err_set(CN_ERR_MEMORY, "fft: too many points");
    return NULL;
  }
  void *memory = cni_alloc(bytes);
  if (memory) p->blocks[p->nblocks++] = (cni_fft_block){memory, bytes};
  return memory;
}

/* ---- roots of unity ---- */

/* exp(-2 pi i k / n), from an angle of at most an eighth of a turn. 0 <= k < n */
static cplx root(int64_t k, int64_t n)
{
  const double turn = 6.283185307179586476925;
  bool low = 2 * k > n; /* mirrored about the real axis */
  if (low) k = n - k;
  bool left = 4 * k > n;                    /* ... the imaginary one; now in units of 1 / 4n */
  int64_t q = left ? 2 * n - 4 * k : 4 * k; /* 4 k' with k' = n / 2 - k */
  bool swap = 2 * q > n;                    /* ... the diagonal */
  int64_t e = swap ? n - q : q;
  double angle = turn * (double)e / (4 * (double)n), c = cos(angle), s = sin(angle);
  double re = swap ? s : c, im = swap ? c : s;
  return (cplx){left ? -re : re, low ? im : -im};
}

/* All n of them: coarse[k >> bits] fine[k & (1 << bits) - 1]. */
typedef struct roots {
  int64_t n;
  int bits;
  cplx *fine, *coarse;
  size_t bytes;
} roots;

static int roots_open(roots *r, int64_t n)
{
  *r = (roots){.n = n};
  while (n > 64 && (INT64_C(1) << 2 * r->bits) < n) r->bits++;
  int64_t fine = INT64_C(1) << r->bits, coarse = (n >> r->bits) + 1;
  r->bytes = (size_t)(fine + coarse) * sizeof(cplx);
  r->fine = cni_alloc(r->bytes);
  if (!r->fine) return CN_ERR_MEMORY;
  r->coarse = r->fine + fine;
  for (int64_t k = 0; k < fine; k++) r->fine[k] = root(k, n);
  for (int64_t k = 0; k < coarse && k << r->bits < n; k++) r->coarse[k] = root(k << r->bits, n);
  return CN_OK;
}

static inline cplx root_at(const roots *r, int64_t k)
{
  cplx c = r->coarse[k >> r->bits];
  return r->bits ? times(c, r->fine[k & ((INT64_C(1) << r->bits) - 1)]) : c;
}

static void roots_close(roots *r) { cni_free(r->fine, r->bytes); }

static inline void put(const cni_fft_plan *p, void *to, int64_t at, cplx x)
{
  if (p->f64) {
    ((double *)to)[2 * at] = x.re;
    ((double *)to)[2 * at + 1] = x.im;
  } else {
    ((float *)to)[2 * at] = (float)x.re;
    ((float *)to)[2 * at + 1] = (float)x.im;
  }
}

/* ---- columns ---- */

/* The radices of n; -1 when a prime factor is too large. */
static int factorise(int64_t n, int *factors)
{
  int count = 0, twos = 0;
  while (n % 2 == 0) twos++, n /= 2;
  while (twos == 2 || twos == 4 || (twos > 4 && twos % 3)) factors[count++] = 4, twos -= 2;
  while (twos >= 3) factors[count++] = 8, twos -= 3;
  if (twos) factors[count++] = 2;
  for (int p = 3; p <= CNI_FFT_PRIME; p += 2)
    while (n % p == 0) factors[count++] = p, n /= p;
  return n == 1 ? count : -1;
}

bool cni_fft_is_smooth(int64_t n)
{
  int factors[CNI_FFT_FACTORS];
  return factorise(n, factors) >= 0;
}

/* r: the roots of a multiple of n. */
static int make_columns(cni_fft_plan *p, cni_fft_columns *c, int64_t n, const roots *r)
{
  const int64_t unit = r->n / n;
  int64_t primes = 0, at = 0, s = 1;
  *c = (cni_fft_columns){.n = n};
  c->nfactors = factorise(n, c->factors);
  for (int i = 0; i < c->nfactors; i++) primes += c->factors[i] > 8 ? c->factors[i] : 0;
  char *table = block(p, 2 * (n + primes + 1), p->size);
  if (!table) return CN_ERR_MEMORY;
  c->twiddles = table;
  for (int i = 0; i < c->nfactors; i++) {
    int64_t radix = c->factors[i], q = n / s / radix;
    for (int64_t k = 0; k < q; k++)
      for (int64_t t = 1; t < radix; t++) put(p, table, at++, root_at(r, k * t * s * unit));
    s *= radix;
  }
  c->primes = table + 2 * at * p->size;
  for (int i = 0; i < c->nfactors; i++)
    for (int64_t k = 0; c->factors[i] > 8 && k < c->factors[i]; k++) put(p, table, at++, root(k, c->factors[i]));
  return CN_OK;
}

/* ---- lines as matrices ---- */

/* The part of the lanes that n1 rows and n2 columns fill. */
static double fill_of(int64_t n1, int64_t n2, int lanes)
{
  return (double)n1 / (double)((n1 + lanes - 1) / lanes * lanes) * (double)n2 /
         (double)((n2 + lanes - 1) / lanes * lanes);
}

/* How many rows: as little room in the lanes is wasted as can be, then as square as can be. 0: cannot be split. */
static int64_t rows_of(int64_t n, int lanes)
{
  int64_t best = 0;
  double least = 0;
  for (int64_t d = 2; d * d <= n; d++) {
    if (n % d) continue;
    double cost = (1 + 0.05 * log2((double)(n / d) / (double)d)) / fill_of(d, n / d, lanes);
    if (!best || cost < least) best = d, least = cost;
  }
  return best;
}

double cni_fft_fill(int64_t n, bool f64)
{
  const cni_fft_loops *by_type = CNI_BY_ISA(cni_fft_loops);
  int64_t rows = rows_of(n, by_type[f64].lanes);
  return rows ? fill_of(rows, n / rows, by_type[f64].lanes) : 0;
}

static int make_twiddle(cni_fft_plan *p, const roots *r)
{
  const int lanes = p->loops->lanes;
  const int64_t blocks = (p->n2 + lanes - 1) / lanes, n1 = p->n1;
  size_t bytes = (size_t)(n1 * (lanes + 1)) * sizeof(cplx);
  cplx *lane = cni_alloc(bytes);
  p->twiddle = block(p, blocks * n1 * 2 * lanes, p->size);
  if (!p->twiddle || !lane) {
    cni_free(lane, bytes);
    return CN_ERR_MEMORY;
  }
  cplx *start = lane + n1 * lanes;
  for (int64_t k = 0; k < n1; k++)
    for (int64_t j = 0; j < lanes; j++) lane[k * lanes + j] = root_at(r, k * j % p->n);
  for (int64_t b = 0; b < blocks; b++) {
    for (int64_t k = 0; k < n1; k++) start[k] = root_at(r, k * b * lanes % p->n);
    p->loops->twiddle((char *)p->twiddle + b * n1 * 2 * lanes * p->size, &lane->re, &start->re, n1);
  }
  cni_free(lane, bytes);
  return CN_OK;
}

/* ---- plans ---- */

static int make_smooth(cni_fft_plan *p, bool by_line)
{
  roots r;
  int status = roots_open(&r, p->n);
  if (status) return status;
  p->n1 = by_line ? rows_of(p->n, p->loops->lanes) : 0;
  p->n2 = p->n1 ? p->n / p->n1 : 0;
  if (!p->n1) {
    status = make_columns(p, &p->c, p->n, &r);
  } else {
    status = make_columns(p, &p->c1, p->n1, &r);
    p->c2 = p->c1;
    if (!status && p->n2 != p->n1) status = make_columns(p, &p->c2, p->n2, &r);
    if (!status) status = make_twiddle(p, &r);
  }
  roots_close(&r);
  return status;
}

static void run_inner(const cni_fft_plan *inner, void *x, void *z, void *y)
{
  const cni_fft_loops *f = inner->loops;
  const int lanes = f->lanes;
  const int64_t n1 = inner->n1, n2 = inner->n2, column = 2 * lanes * inner->size;
  char *to = z, *room = y, *other = room + (n1 > n2 ? n1 : n2) * column;
  for (int64_t j = 0; j < n2; j += lanes) {
    int count = n2 - j < lanes ? (int)(n2 - j) : lanes;
    f->load_columns(room, (char *)x + 2 * j * inner->size, n1, n2, count, false);
    void *done = f->columns(&inner->c1, room, other);
    f->twiddle_transpose(to + j * column, done, (char *)inner->twiddle + j / lanes * n1 * column, n1, n2, count);
  }
  for (int64_t k = 0; k < n1; k += lanes) {
    int count = n1 - k < lanes ? (int)(n1 - k) : lanes;
    void *done = f->columns(&inner->c2, to + k / lanes * n2 * column, room);
    f->store_columns((char *)x + 2 * k * inner->size, done, n2, n1, count, false, 1);
  }
}

static int make_convolution(cni_fft_plan *p)
{
  int64_t m = 256, square = 0, n = p->n; /* k k mod 2 n */
  while (m < 2 * n - 1) m *= 2;
  if (m >= 512 && m / 16 * 9 >= 2 * n - 1) m = m / 16 * 9; /* (24, 24) and the like */
  else if (m >= 1024 && m / 64 * 49 >= 2 * n - 1) m = m / 64 * 49;
  p->inner = block(p, 1, sizeof *p->inner);
  if (!p->inner) return CN_ERR_MEMORY;
  p->inner->nblocks = 0;
  int status = cni_fft_plan_open(p->inner, p->f64, m, true, false);
  p->chirp = block(p, 4 * n, p->size);
  p->kernel = block(p, 2 * m, p->size);
  roots r;
  if (status || !p->chirp || !p->kernel || roots_open(&r, 2 * n)) return CN_ERR_MEMORY;
  memset(p->kernel, 0, (size_t)(2 * m * p->size));
  for (int64_t k = 0; k < n; k++) {
    cplx c = root_at(&r, square);
    put(p, p->chirp, n + k, c);
    c.im = -c.im;
    put(p, p->chirp, k, c);
    put(p, p->kernel, k, c);
    if (k) put(p, p->kernel, m - k, c);
    square = (square + 2 * k + 1) % (2 * n);
  }
  roots_close(&r);
  const int64_t lanes = p->loops->lanes, n1 = p->inner->n1, n2 = p->inner->n2;
  size_t room = (size_t)(((n1 + lanes - 1) / lanes * n2 + 2 * (n1 > n2 ? n1 : n2)) * 2 * lanes * p->size);
  char *z = cni_alloc(room);
  if (!z) return CN_ERR_MEMORY;
  run_inner(p->inner, p->kernel, z, z + (n1 + lanes - 1) / lanes * n2 * 2 * lanes * p->size);
  cni_free(z, room);
  return CN_OK;
}

int cni_fft_plan_open(cni_fft_plan *p, bool f64, int64_t n, bool by_line, bool half)
{
  const cni_fft_loops *by_type = CNI_BY_ISA(cni_fft_loops);
  *p = (cni_fft_plan){.loops = &by_type[f64], .f64 = f64, .size = f64 ? 8 : 4, .n = n};
  int status = cni_fft_is_smooth(n) ? make_smooth(p, by_line) : make_convolution(p);
  if (status || !half) return status;
  roots r;
  p->half = block(p, 2 * (n + 1), p->size);
  if (!p->half || roots_open(&r, 2 * n)) return CN_ERR_MEMORY;
  for (int64_t k = 0; k <= n; k++) put(p, p->half, k, root_at(&r, k));
  roots_close(&r);
  return CN_OK;
}

void cni_fft_plan_close(cni_fft_plan *p)
{
  if (p->inner) cni_fft_plan_close(p->inner);
  while (p->nblocks--) cni_free(p->blocks[p->nblocks].memory, p->blocks[p->nblocks].bytes);
}
