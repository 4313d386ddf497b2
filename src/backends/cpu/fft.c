/* fft.c: the kernel of discrete Fourier transforms of any length, along lines of pairs (real, imaginary).
 *
 * Flow: a plan per call (factors, roots of unity); each line is gathered into double precision, transformed by
 * passes of
 * radix 4, 2, 3, 5 or any small prime, and written out. A length with a large prime factor becomes a convolution of a
 * power of two (Bluestein). Invariant: a line is computed by one thread, so results do not depend on their number. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/parallel.h"
#include "base/state.h"
#include "cpu.h"

enum { MOST_FACTORS = 64, MOST_PRIME = 61, GRAIN_WORK = 1 << 15 };

typedef struct cplx {
  double re, im;
} cplx;

typedef struct plan {
  int64_t n, inner; /* inner: the power of two of a convolution; 0: none */
  int factors[MOST_FACTORS], nfactors;
  cplx *roots;       /* (n): exp(-2 pi i k / n) */
  cplx *chirp;       /* (n): exp(-pi i k k / n), for a convolution */
  cplx *kernel;      /* (inner): its transform */
  cplx *inner_roots; /* (inner) */
  int inner_factors[MOST_FACTORS], ninner;
} plan;

static cplx times(cplx a, cplx b) { return (cplx){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
static cplx plus(cplx a, cplx b) { return (cplx){a.re + b.re, a.im + b.im}; }
static cplx minus(cplx a, cplx b) { return (cplx){a.re - b.re, a.im - b.im}; }

/* exp(-2 pi i k / n), from an angle of at most an eighth of a turn. 0 <= k < n */
static cplx root(int64_t k, int64_t n)
{
  const double turn = 6.283185307179586476925;
  bool low = 2 * k > n; /* mirrored about the real axis */
  if (low) k = n - k;
  bool left = 4 * k > n; /* ... the imaginary one; now in units of 1 / 4n */
  int64_t q = left ? 2 * n - 4 * k : 4 * k; /* 4 k' with k' = n / 2 - k */
  bool swap = 2 * q > n;                     /* ... the diagonal */
  int64_t e = swap ? n - q : q;
  double angle = turn * (double)e / (4 * (double)n), c = cos(angle), s = sin(angle);
  double re = swap ? s : c, im = swap ? c : s;
  return (cplx){left ? -re : re, low ? im : -im};
}

/* ---- passes: from x to y, each of n; s: product of the radices before ---- */

static void pass2(cplx *y, const cplx *x, const cplx *w, int64_t n, int64_t s)
{
  int64_t q = n / s / 2;
  for (int64_t p = 0; p < q; p++) {
    const cplx *a = x + s * p, *b = x + s * (p + q);
    cplx f = w[p * s], *to = y + s * 2 * p;
    for (int64_t k = 0; k < s; k++) {
      to[k] = plus(a[k], b[k]);
      to[k + s] = times(minus(a[k], b[k]), f);
    }
  }
}

static void pass4(cplx *y, const cplx *x, const cplx *w, int64_t n, int64_t s)
{
  int64_t q = n / s / 4;
  for (int64_t p = 0; p < q; p++) {
    const cplx *a = x + s * p, *b = a + s * q, *c = b + s * q, *d = c + s * q;
    cplx f1 = w[p * s], f2 = w[2 * p * s], f3 = w[3 * p * s], *to = y + s * 4 * p;
    for (int64_t k = 0; k < s; k++) {
      cplx ac = plus(a[k], c[k]), am = minus(a[k], c[k]), bd = plus(b[k], d[k]), bm = minus(b[k], d[k]);
      cplx turned = {bm.im, -bm.re}; /* times -i */
      to[k] = plus(ac, bd);
      to[k + s] = times(plus(am, turned), f1);
      to[k + 2 * s] = times(minus(ac, bd), f2);
      to[k + 3 * s] = times(minus(am, turned), f3);
    }
  }
}

/* An odd radix: inputs j and r - j meet conjugate roots, so that their sums and differences meet real numbers. */
static inline void pass_odd(cplx *y, const cplx *x, const cplx *w, int64_t n, int64_t s, int r)
{
  int64_t q = n / s / r, step = n / r;
  cplx u[MOST_PRIME], sums[MOST_PRIME / 2 + 1], gaps[MOST_PRIME / 2 + 1];
  int half = (r - 1) / 2;
  for (int j = 0; j < r; j++) u[j] = w[j * step];
  for (int64_t p = 0; p < q; p++)
    for (int64_t k = 0; k < s; k++) {
      const cplx *from = x + k + s * p;
      cplx *to = y + k + s * r * p, first = from[0], sum = first;
      for (int j = 1; j <= half; j++) {
        sums[j] = plus(from[s * q * j], from[s * q * (r - j)]);
        gaps[j] = minus(from[s * q * j], from[s * q * (r - j)]);
        sum = plus(sum, sums[j]);
      }
      to[0] = sum;
      for (int t = 1; t <= half; t++) {
        cplx even = first, odd = {0, 0};
        for (int j = 1, m = t; j <= half; j++, m += t - (m + t >= r ? r : 0)) {
          even = plus(even, (cplx){sums[j].re * u[m].re, sums[j].im * u[m].re});
          odd = plus(odd, (cplx){gaps[j].re * u[m].im, gaps[j].im * u[m].im});
        }
        to[s * t] = times((cplx){even.re - odd.im, even.im + odd.re}, w[p * t * s]);
        to[s * (r - t)] = times((cplx){even.re + odd.im, even.im - odd.re}, w[p * (r - t) * s]);
      }
    }
}

static void pass3(cplx *y, const cplx *x, const cplx *w, int64_t n, int64_t s) { pass_odd(y, x, w, n, s, 3); }
static void pass5(cplx *y, const cplx *x, const cplx *w, int64_t n, int64_t s) { pass_odd(y, x, w, n, s, 5); }

/* Transforms x in place; y: as much room. */
static void run_passes(cplx *x, cplx *y, const cplx *w, int64_t n, const int *factors, int nfactors)
{
  cplx *from = x, *to = y;
  int64_t s = 1;
  for (int i = 0; i < nfactors; i++) {
    if (factors[i] == 4) pass4(to, from, w, n, s);
    else if (factors[i] == 2) pass2(to, from, w, n, s);
    else if (factors[i] == 3) pass3(to, from, w, n, s);
    else if (factors[i] == 5) pass5(to, from, w, n, s);
    else pass_odd(to, from, w, n, s, factors[i]);
    s *= factors[i];
    cplx *other = from;
    from = to;
    to = other;
  }
  if (from != x) memcpy(x, from, (size_t)n * sizeof *x);
}

/* ---- plans ---- */

/* The radices of n; 0 when a prime factor is too large. */
static int factorise(int64_t n, int *factors)
{
  int count = 0;
  while (n % 4 == 0) factors[count++] = 4, n /= 4;
  for (int p = 2; p <= MOST_PRIME; p++)
    while (n % p == 0) factors[count++] = p, n /= p;
  return n == 1 ? count : -1;
}

static size_t plan_room(const plan *p) { return (size_t)(2 * p->n + 2 * p->inner) * sizeof(cplx); }

/* Fills a plan; its memory is one block at roots. 0 or CN_ERR_MEMORY. */
static int make_plan(plan *p, int64_t n)
{
  *p = (plan){.n = n};
  p->nfactors = factorise(n, p->factors);
  if (p->nfactors < 0)
    for (p->inner = 1; p->inner < 2 * n - 1;) p->inner *= 2;
  p->roots = cni_alloc(plan_room(p));
  if (!p->roots) return CN_ERR_MEMORY;
  p->chirp = p->roots + n;
  p->kernel = p->chirp + n;
  p->inner_roots = p->kernel + p->inner;
  for (int64_t k = 0; k < n; k++) p->roots[k] = root(k, n);
  if (!p->inner) return CN_OK;
  int64_t m = p->inner, square = 0; /* k k mod 2 n */
  size_t bytes = (size_t)m * sizeof(cplx);
  cplx *room = cni_alloc(bytes);
  if (!room) return CN_ERR_MEMORY;
  p->ninner = factorise(m, p->inner_factors);
  for (int64_t k = 0; k < m; k++) p->inner_roots[k] = root(k, m);
  memset(p->kernel, 0, bytes);
  for (int64_t k = 0; k < n; k++) {
    cplx c = root(square, 2 * n);
    p->chirp[k] = c;
    p->kernel[k] = (cplx){c.re, -c.im};
    if (k) p->kernel[m - k] = p->kernel[k];
    square = (square + 2 * k + 1) % (2 * n);
  }
  run_passes(p->kernel, room, p->inner_roots, m, p->inner_factors, p->ninner);
  cni_free(room, bytes);
  return CN_OK;
}

/* x: (n), work: 2 max(n, inner) */
static void transform(const plan *p, cplx *x, cplx *work)
{
  if (!p->inner) {
    run_passes(x, work, p->roots, p->n, p->factors, p->nfactors);
    return;
  }
  int64_t m = p->inner;
  for (int64_t k = 0; k < m; k++) work[k] = k < p->n ? times(x[k], p->chirp[k]) : (cplx){0, 0};
  run_passes(work, work + m, p->inner_roots, m, p->inner_factors, p->ninner);
  for (int64_t k = 0; k < m; k++) { /* the inverse is the forward one with both parts exchanged */
    cplx y = times(work[k], p->kernel[k]);
    work[k] = (cplx){y.im, y.re};
  }
  run_passes(work, work + m, p->inner_roots, m, p->inner_factors, p->ninner);
  for (int64_t k = 0; k < p->n; k++) {
    cplx y = {work[k].im / (double)m, work[k].re / (double)m};
    x[k] = times(y, p->chirp[k]);
  }
}

/* ---- fft_lines(input (..., n, 2), inverse, scaling) ---- */

typedef struct job {
  const plan *p;
  const cn_desc *in, *out;
  bool inverse;
  double scale;
} job;

static int64_t line_offset(const cn_desc *d, int64_t line)
{
  int64_t offset = 0;
  for (int i = d->ndim - 3; i >= 0; i--) {
    offset += line % d->shape[i] * d->strides[i];
    line /= d->shape[i];
  }
  return offset;
}

static double load(const cn_desc *d, int64_t at)
{
  return d->dtype == CN_F64 ? ((const double *)d->data)[at] : (double)((const float *)d->data)[at];
}

static void store(const cn_desc *d, int64_t at, double x)
{
  if (d->dtype == CN_F64) ((double *)d->data)[at] = x;
  else ((float *)d->data)[at] = (float)x;
}

static void lines(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  const cn_desc *in = j->in, *out = j->out;
  int64_t n = j->p->n, room = n + 2 * (j->p->inner > n ? j->p->inner : n);
  int64_t step = in->strides[in->ndim - 2], part = in->strides[in->ndim - 1];
  int64_t out_step = out->strides[out->ndim - 2], out_part = out->strides[out->ndim - 1];
  size_t bytes = (size_t)room * sizeof(cplx);
  cplx *x = cni_alloc(bytes);
  for (int64_t line = begin; x && line < end; line++) {
    int64_t from = line_offset(in, line), to = line_offset(out, line);
    for (int64_t k = 0; k < n; k++) {
      cplx v = {load(in, from + k * step), load(in, from + k * step + part)};
      x[k] = j->inverse ? (cplx){v.im, v.re} : v;
    }
    transform(j->p, x, x + n);
    for (int64_t k = 0; k < n; k++) {
      store(out, to + k * out_step, j->scale * (j->inverse ? x[k].im : x[k].re));
      store(out, to + k * out_step + out_part, j->scale * (j->inverse ? x[k].re : x[k].im));
    }
  }
  cni_free(x, bytes);
}

static int fft_kernel(cn_call *c)
{
  plan p;
  const cn_desc *in = cn_desc_of(c->in[0]), *out = cn_desc_of(c->out[0]);
  int64_t n = in->shape[in->ndim - 2], scaling = c->args[2].u.i;
  if (in->numel == 0) return CN_OK;
  int status = make_plan(&p, n);
  if (!status) {
    double size = (double)n;
    job j = {&p, in, out, c->args[1].u.i != 0, scaling == 0 ? 1 : scaling == 1 ? 1 / sqrt(size) : 1 / size};
    cni_parallel_for(in->numel / n / 2, GRAIN_WORK / (16 * n) + 1, lines, &j);
    status = cni_state()->err;
  }
  cni_free(p.roots, plan_room(&p));
  return status;
}

const cn_kernel cni_cpu_fft_kernels[] = {
    {"fft_lines", "reference", fft_kernel},
    {NULL, NULL, NULL},
};
