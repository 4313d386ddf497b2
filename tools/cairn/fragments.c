/* fragments.c: see fragments.h. */
#include "fragments.h"

#include <math.h>
#include <string.h>

static const fragment table[] = {
  {"mma.m16n8k16", "bf16", 16, 8, 16, 2},       {"mma.m16n8k16", "f16", 16, 8, 16, 2},
  {"mma.m16n8k8", "tf32", 16, 8, 8, 4},         {"mma.m16n8k32", "fp8", 16, 8, 32, 1},
  {"wgmma.m64n128k16", "bf16", 64, 128, 16, 2}, {"wgmma.m64n64k16", "bf16", 64, 64, 16, 2},
  {"wgmma.m64n256k16", "bf16", 64, 256, 16, 2}, {"wgmma.m64n128k16", "f16", 64, 128, 16, 2},
  {"wgmma.m64n128k8", "tf32", 64, 128, 8, 4},   {"wgmma.m64n128k32", "fp8", 64, 128, 32, 1}};

const fragment *fragment_find(const char *name, const char *type)
{
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if ((!name || !strncmp(table[i].name, name, strlen(name))) && !strcmp(table[i].type, type)) return &table[i];
  return NULL;
}

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Of rows of n elements, one behind the other. */
static int aligned(int64_t n, int item)
{
  int bytes = 16;
  while (bytes > item && n * item % bytes) bytes /= 2;
  return bytes;
}

void fragments_of(tiling *t, const fragment *f, int64_t m, int64_t k, int64_t n, int64_t units)
{
  enum { BLOCK = 128 }; /* a usual tile of a block of threads */
  *t = (tiling){.f = f, .m = m, .k = k, .n = n, .units = units};
  t->down = ceil_div(m, f->m);
  t->along = ceil_div(k, f->k);
  t->across = ceil_div(n, f->n);
  t->tile_m = f->m > BLOCK ? f->m : BLOCK;
  t->tile_n = f->n > BLOCK ? f->n : BLOCK;
  t->tiles = ceil_div(m, t->tile_m) * ceil_div(n, t->tile_n);
  t->waves = units ? ceil_div(t->tiles, units) : 1;
  t->by_fragments = (double)m * (double)k * (double)n / ((double)(t->down * f->m) * (double)(t->along * f->k) *
                                                         (double)(t->across * f->n));
  t->by_waves = units ? (double)t->tiles / (double)(t->waves * units) : 1;
  int rows = aligned(k, f->item), columns = aligned(n, f->item);
  t->load = rows < columns ? rows : columns;
}

/* ---- numbers of few bits ---- */

typedef struct format {
  const char *name;
  int bits, least; /* of the significand; the least exponent, of 2^least the unit is not smaller */
  double most;
} format;

static const format float32 = {"float32", 24, -125, 3.4028234663852886e38}, float16 = {"f16", 11, -13, 65504},
                    bfloat16 = {"bf16", 8, -125, 3.3895313892515355e38},
                    tf32 = {"tf32", 11, -125, 3.4011621342146535e38},
                    e4m3 = {"fp8", 4, -5, 448};

/* The nearest number of the format, ties to the even one; beyond its largest: infinity. */
static double rounded(double x, const format *f)
{
  int exponent;
  if (x == 0 || !isfinite(x)) return x;
  frexp(x, &exponent);
  if (exponent < f->least) exponent = f->least;
  double unit = ldexp(1, exponent - f->bits), y = rint(x / unit) * unit;
  return fabs(y) > f->most ? copysign(INFINITY, y) : y;
}

static const format *factors_of(const char *type)
{
  static const format *const all[] = {&float16, &bfloat16, &tf32, &e4m3};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (!strcmp(all[i]->name, type)) return all[i];
  return &bfloat16;
}

static const struct way {
  const char *name;
  const format *sum;
  bool fragments; /* the products of a fragment are added exactly, then rounded once */
} ways[FRAGMENT_SUMS] = {{"float32, a fragment at a time", &float32, true},
                         {"float32, one by one", &float32, false},
                         {"float16, a fragment at a time", &float16, true},
                         {"bfloat16, a fragment at a time", &bfloat16, true}};

typedef struct place {
  const tiling *t;
  const format *in;
  const double *left, *right; /* a row, k of it; the first of a column, n apart */
} place;

static double sum_by(const place *p, const struct way *w)
{
  double sum = 0, part = 0;
  int64_t each = w->fragments ? p->t->f->k : 1;
  for (int64_t q = 0; q < p->t->k; q++) {
    part += rounded(p->left[q], p->in) * rounded(p->right[q * p->t->n], p->in);
    if ((q + 1) % each && q + 1 < p->t->k) continue;
    sum = rounded(sum + part, w->sum);
    part = 0;
  }
  return sum;
}

static double exact(const place *p, bool given)
{
  double sum = 0;
  for (int64_t q = 0; q < p->t->k; q++)
    sum += given ? p->left[q] * p->right[q * p->t->n]
                 : rounded(p->left[q], p->in) * rounded(p->right[q * p->t->n], p->in);
  return sum;
}

static void look(sum_error *errors, double *scale, const place *p)
{
  double want = exact(p, false), given = exact(p, true);
  *scale = fmax(*scale, fabs(want));
  for (int i = 0; i < FRAGMENT_SUMS; i++) {
    double got = sum_by(p, &ways[i]), off = fabs(got - want);
    if (!isfinite(got)) {
      errors[i].overflow = true;
      continue;
    }
    errors[i].mean += off;
    errors[i].largest = fmax(errors[i].largest, off);
    errors[i].whole = fmax(errors[i].whole, fabs(got - given));
  }
}

void fragments_errors(sum_error errors[FRAGMENT_SUMS], int64_t *looked, const tiling *t, const double *left,
                      const double *right)
{
  enum { MOST = 64 };
  int64_t rows = t->m < MOST ? t->m : MOST, columns = t->n < MOST ? t->n : MOST;
  double scale = 0;
  for (int i = 0; i < FRAGMENT_SUMS; i++) errors[i] = (sum_error){.sum = ways[i].name};
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) {
      place p = {t, factors_of(t->f->type), left + i * t->m / rows * t->k, right + j * t->n / columns};
      look(errors, &scale, &p);
    }
  *looked = rows * columns;
  for (int i = 0; i < FRAGMENT_SUMS && scale > 0; i++) {
    errors[i].mean /= scale * (double)*looked;
    errors[i].largest /= scale;
    errors[i].whole /= scale;
  }
}
