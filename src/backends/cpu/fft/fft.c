/* fft.c: kernels of discrete Fourier transforms of any length: fft_c2c (pairs to pairs), fft_r2c (real numbers to
 * the first half of their transform) and fft_c2r (back).
 *
 * Flow: a plan per call (fft_plan.h) -> lines in parallel: several at a time in the lanes of vectors, or one after
 * the other, each cut into columns (and then its two stages in parallel, if there are few lines). 2 h real numbers are
 * transformed as h pairs. Invariant: how a line is done depends on the shape alone, so results do not depend on the
 * number of threads. */
#include <math.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "base/state.h"
#include "fft_plan.h"

enum {
  GRAIN_WORK = 1 << 15,    /* points worth waking a thread for */
  GROUPED_POINTS = 128,    /* up to here lines go together, if there are enough, */
  GROUPED_MOST = 1024,     /* or up to here, if one alone would fill the lanes badly */
  SHARED_POINTS = 1 << 15, /* from here the stages of a line are shared between threads */
};

typedef enum kind { PAIRS, TO_HALF, FROM_HALF } kind;

typedef struct job {
  const cni_fft_plan *p;
  const cn_desc *in, *out;
  kind kind;
  bool inverse, odd;                 /* odd: real lines of an odd number of points, done as pairs */
  bool in_dense, out_dense;          /* lines are contiguous */
  int64_t points;                    /* of a line of numbers: n */
  int64_t lines;
  int64_t in_scalars, out_scalars;   /* of a line */
  double scale;
} job;

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t parts(int64_t n, int64_t size) { return (n + size - 1) / size; }

/* ---- lines in memory ---- */

/* dims after the batch: 2 for pairs (n, 2), 1 for real numbers. */
static char *line_at(const cn_desc *d, int dims, int64_t line)
{
  const int64_t size = d->dtype == CN_F64 ? 8 : 4;
  int64_t offset = 0;
  for (int i = d->ndim - dims - 1; i >= 0; i--) {
    offset += line % d->shape[i] * d->strides[i];
    line /= d->shape[i];
  }
  return (char *)d->data + offset * size;
}

static bool dense_lines(const cn_desc *d, int dims)
{
  const int64_t *s = d->strides + d->ndim - dims;
  return dims == 1 ? s[0] == 1 : s[1] == 1 && s[0] == 2;
}

/* `dense` = the line at `strided`, or the other way round; dense numbers may be doubles where the line's are floats. */
static void copy_line(const cn_desc *d, int dims, char *strided, char *dense, int64_t scalars, bool out, bool f64)
{
  const int64_t *s = d->strides + d->ndim - dims, outer = dims == 1 ? 0 : s[0], inner = dims == 1 ? s[0] : s[1];
  for (int64_t i = 0; i < scalars; i++) {
    int64_t at = dims == 1 ? i * inner : i / 2 * outer + i % 2 * inner;
    if (d->dtype == CN_F64) {
      double *x = (double *)(void *)strided + at, *y = (double *)(void *)dense + i;
      if (out) *x = *y;
      else *y = *x;
    } else if (f64) {
      float *x = (float *)(void *)strided + at;
      double *y = (double *)(void *)dense + i;
      if (out) *x = (float)*y;
      else *y = (double)*x;
    } else {
      float *x = (float *)(void *)strided + at, *y = (float *)(void *)dense + i;
      if (out) *x = *y;
      else *y = *x;
    }
  }
}

static int in_dims(const job *j) { return j->kind == TO_HALF ? 1 : 2; }
static int out_dims(const job *j) { return j->kind == FROM_HALF ? 1 : 2; }

/* ---- several lines at a time ---- */

/* Bytes: three times the columns, and dense copies of lines in and out. */
static int64_t column_bytes(const cni_fft_plan *p) { return 2 * p->loops->lanes * p->size; }

static size_t group_room(const job *j)
{
  const cni_fft_plan *p = j->p;
  int64_t copies = (j->in_dense ? 0 : j->in_scalars + 16) + (j->out_dense ? 0 : j->out_scalars + 16);
  return (size_t)(2 * (p->n + 1) * column_bytes(p) + copies * p->loops->lanes * p->size);
}

static void transform_columns(const job *j, const void *const *in, void *const *out, int count, char *x, char *y)
{
  const cni_fft_plan *p = j->p;
  const cni_fft_loops *f = p->loops;
  const cni_fft_form form = j->inverse ? CNI_FFT_SWAPPED : CNI_FFT_PAIRS;
  if (j->kind == PAIRS) {
    f->load_lines(x, in, j->in_scalars, form);
    f->store_lines(out, count, f->columns(&p->c, x, y), j->out_scalars, form, j->scale);
  } else if (j->kind == TO_HALF) {
    f->load_lines(x, in, j->in_scalars, j->odd ? CNI_FFT_REAL : CNI_FFT_PAIRS);
    char *done = f->columns(&p->c, x, y), *other = done == x ? y : x;
    if (!j->odd) f->split_columns(other, done, p->half, p->n);
    f->store_lines(out, count, j->odd ? done : other, j->out_scalars, CNI_FFT_PAIRS, j->scale);
  } else {
    f->load_lines(x, in, j->in_scalars, CNI_FFT_PAIRS);
    if (j->odd) f->mirror_columns(x, p->n);
    else f->join_columns(y, x, p->half, p->n);
    char *done = j->odd ? f->columns(&p->c, x, y) : f->columns(&p->c, y, x);
    if (j->odd) f->store_lines(out, count, done + column_bytes(p) / 2, j->out_scalars, CNI_FFT_REAL, j->scale);
    else f->store_lines(out, count, done, j->out_scalars, CNI_FFT_SWAPPED, j->scale);
  }
}

/* Items: groups of `lanes` lines. */
static void groups(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  const cni_fft_plan *p = j->p;
  const int lanes = p->loops->lanes;
  size_t bytes = group_room(j);
  char *x = cni_scratch_alloc(bytes);
  if (!x) return;
  char *y = x + (p->n + 1) * column_bytes(p), *in_copies = y + (p->n + 1) * column_bytes(p);
  char *out_copies = in_copies + (j->in_dense ? 0 : (j->in_scalars + 16) * lanes * p->size);
  for (int64_t item = begin; item < end; item++) {
    int count = (int)least(lanes, j->lines - item * lanes);
    const void *in[CNI_FFT_LANES];
    void *out[CNI_FFT_LANES], *home[CNI_FFT_LANES];
    for (int i = 0; i < lanes; i++) { /* what is too much reads the first line again */
      int64_t line = item * lanes + (i < count ? i : 0);
      char *from = line_at(j->in, in_dims(j), line);
      in[i] = from;
      out[i] = home[i] = line_at(j->out, out_dims(j), line);
      if (!j->out_dense) out[i] = out_copies + i * (j->out_scalars + 16) * p->size;
      if (j->in_dense) continue;
      char *copy = in_copies + i * (j->in_scalars + 16) * p->size;
      copy_line(j->in, in_dims(j), from, copy, j->in_scalars, false, p->f64);
      in[i] = copy;
    }
    transform_columns(j, in, out, count, x, y);
    for (int i = 0; !j->out_dense && i < count; i++)
      copy_line(j->out, out_dims(j), home[i], out[i], j->out_scalars, true, p->f64);
  }
  cni_scratch_free(x, bytes);
}

/* ---- one line, as (n1, n2) pairs ---- */

typedef struct stages {
  const cni_fft_plan *p;
  const char *in;
  char *out, *z; /* z: (blocks of n1, n2) columns */
  bool swap_in, swap_out;
  double scale;
} stages;

static size_t stage_room(const cni_fft_plan *p) { return (size_t)(2 * most(p->n1, p->n2) * column_bytes(p)); }

/* Items: blocks of columns. room: stage_room. */
static void first_stage(const stages *s, int64_t begin, int64_t end, char *room)
{
  const cni_fft_plan *p = s->p;
  const cni_fft_loops *f = p->loops;
  const int64_t column = column_bytes(p);
  for (int64_t b = begin; b < end; b++) {
    int64_t at = b * f->lanes;
    int count = (int)least(f->lanes, p->n2 - at);
    f->load_columns(room, s->in + 2 * at * p->size, p->n1, p->n2, count, s->swap_in);
    void *done = f->columns(&p->c1, room, room + p->n1 * column);
    f->twiddle_transpose(s->z + at * column, done, (const char *)p->twiddle + b * p->n1 * column, p->n1, p->n2,
                         count);
  }
}

/* Items: blocks of rows. */
static void second_stage(const stages *s, int64_t begin, int64_t end, char *room)
{
  const cni_fft_plan *p = s->p;
  const cni_fft_loops *f = p->loops;
  for (int64_t b = begin; b < end; b++) {
    int64_t at = b * f->lanes;
    void *done = f->columns(&p->c2, s->z + b * p->n2 * column_bytes(p), room);
    f->store_columns(s->out + 2 * at * p->size, done, p->n2, p->n1, (int)least(f->lanes, p->n1 - at), s->swap_out,
                     s->scale);
  }
}

static void first_range(int64_t begin, int64_t end, void *payload)
{
  const stages *s = payload;
  char *room = cni_scratch_alloc(stage_room(s->p));
  if (!room) return;
  first_stage(s, begin, end, room);
  cni_scratch_free(room, stage_room(s->p));
}

static void second_range(int64_t begin, int64_t end, void *payload)
{
  const stages *s = payload;
  char *room = cni_scratch_alloc(stage_room(s->p));
  if (!room) return;
  second_stage(s, begin, end, room);
  cni_scratch_free(room, stage_room(s->p));
}

static int64_t z_bytes(const cni_fft_plan *p) { return parts(p->n1, p->loops->lanes) * p->n2 * column_bytes(p); }

/* out may be in. room: z_bytes + stage_room. */
static void split_line(const cni_fft_plan *p, const char *in, char *out, bool swap_in, bool swap_out, double scale,
                       char *room)
{
  stages s = {p, in, out, room, swap_in, swap_out, scale};
  int64_t first = parts(p->n2, p->loops->lanes), second = parts(p->n1, p->loops->lanes);
  if (p->n >= SHARED_POINTS) {
    cni_parallel_for(first, 1, first_range, &s);
    cni_parallel_for(second, 1, second_range, &s);
    return;
  }
  first_stage(&s, 0, first, room + z_bytes(p));
  second_stage(&s, 0, second, room + z_bytes(p));
}

static int64_t line_room(const cni_fft_plan *p)
{
  const cni_fft_plan *q = p->inner ? p->inner : p;
  return z_bytes(q) + (int64_t)stage_room(q) + (p->inner ? 2 * q->n * p->size : 0);
}

/* in and out: n pairs, dense; out may be in. */
static void transform_line(const cni_fft_plan *p, const char *in, char *out, bool swap_in, bool swap_out,
                           double scale, char *room)
{
  if (!p->inner) {
    split_line(p, in, out, swap_in, swap_out, scale, room);
    return;
  }
  /* x swapped times conj b is x times b, swapped. */
  const cni_fft_plan *q = p->inner;
  const cni_fft_loops *f = p->loops;
  char *t = room, *rest = t + 2 * q->n * p->size;
  memset(t + 2 * p->n * p->size, 0, (size_t)(2 * (q->n - p->n) * p->size));
  f->multiply(t, in, (const char *)p->chirp + (swap_in ? 0 : 2 * p->n * p->size), p->n, swap_in, 1);
  split_line(q, t, t, false, false, 1, rest);
  f->multiply(t, t, p->kernel, q->n, true, 1 / (double)q->n);
  split_line(q, t, t, false, false, 1, rest);
  f->multiply(out, t, p->chirp, p->n, !swap_out, scale);
}

/* A line of real numbers as pairs, and the whole of a transform from its half; n odd. */
static void widen(const job *j, const char *in, char *to)
{
  const int64_t size = j->p->size, n = j->points;
  memset(to, 0, (size_t)(2 * n * size));
  if (j->kind == TO_HALF) {
    for (int64_t k = 0; k < n; k++) memcpy(to + 2 * k * size, in + k * size, (size_t)size);
    return;
  }
  memcpy(to, in, (size_t)size);
  memcpy(to + 2 * size, in + 2 * size, (size_t)((j->in_scalars - 2) * size));
  for (int64_t k = 1; 2 * k < n; k++) {
    if (j->p->f64) {
      double *x = (double *)(void *)to;
      x[2 * (n - k)] = x[2 * k], x[2 * (n - k) + 1] = -x[2 * k + 1];
    } else {
      float *x = (float *)(void *)to;
      x[2 * (n - k)] = x[2 * k], x[2 * (n - k) + 1] = -x[2 * k + 1];
    }
  }
}

/* in, out: dense lines. t: (points + 1) pairs of room. */
static void one_line(const job *j, const char *in, char *out, char *t, char *room)
{
  const cni_fft_plan *p = j->p;
  if (j->kind == PAIRS) {
    transform_line(p, in, out, j->inverse, j->inverse, j->scale, room);
  } else if (j->odd) {
    bool back = j->kind == FROM_HALF;
    widen(j, in, t);
    transform_line(p, t, t, back, back, j->scale, room);
    if (!back) memcpy(out, t, (size_t)(j->out_scalars * p->size));
    for (int64_t k = 0; back && k < j->points; k++) memcpy(out + k * p->size, t + 2 * k * p->size, (size_t)p->size);
  } else if (j->kind == TO_HALF) {
    transform_line(p, in, out, false, false, 1, room);
    p->loops->split(out, p->half, p->n, j->scale);
  } else {
    p->loops->join(t, in, p->half, p->n);
    transform_line(p, t, out, true, true, j->scale, room);
  }
}

/* Items: lines. */
static void lines(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  const cni_fft_plan *p = j->p;
  const int64_t size = p->size, pairs = (j->points + 32) * 2 * size / 64 * 64;
  size_t bytes = (size_t)(line_room(p) + 3 * pairs);
  char *room = cni_scratch_alloc(bytes);
  if (!room) return;
  char *t = room + line_room(p), *in_copy = t + pairs, *out_copy = in_copy + pairs;
  for (int64_t line = begin; line < end; line++) {
    char *in = line_at(j->in, in_dims(j), line), *out = line_at(j->out, out_dims(j), line);
    if (!j->in_dense) copy_line(j->in, in_dims(j), in, in_copy, j->in_scalars, false, p->f64);
    one_line(j, j->in_dense ? in : in_copy, j->out_dense ? out : out_copy, t, room);
    if (!j->out_dense) copy_line(j->out, out_dims(j), out, out_copy, j->out_scalars, true, p->f64);
  }
  cni_scratch_free(room, bytes);
}

/* ---- calls ---- */

static int run(const cn_call *c, job *j, int64_t scaling)
{
  j->in = cn_desc_of(c->in[0]);
  j->out = cn_desc_of(c->out[0]);
  if (j->out->numel == 0) return CN_OK;
  const int64_t n = j->points;
  const double size = (double)n;
  j->in_scalars = j->kind == PAIRS ? 2 * n : j->kind == TO_HALF ? n : 2 * (n / 2 + 1);
  j->out_scalars = j->kind == PAIRS ? 2 * n : j->kind == FROM_HALF ? n : 2 * (n / 2 + 1);
  j->lines = j->out->numel / j->out_scalars;
  j->odd = j->kind != PAIRS && n % 2;
  j->scale = scaling == 0 ? 1 : scaling == 1 ? 1 / sqrt(size) : 1 / size;
  const int64_t whole = j->kind == PAIRS || j->odd ? n : n / 2;
  const bool smooth = cni_fft_is_smooth(whole), f64 = j->in->dtype == CN_F64 || !smooth;
  const bool as_it_is = f64 == (j->in->dtype == CN_F64); /* convolutions cost digits: they are done in double */
  j->in_dense = as_it_is && dense_lines(j->in, in_dims(j));
  j->out_dense = as_it_is && dense_lines(j->out, out_dims(j));
  cni_fft_plan p;
  const double fill = cni_fft_fill(whole, f64);
  bool grouped = smooth && (fill == 0 || (j->lines >= 4 && whole <= GROUPED_POINTS) ||
                            (j->lines >= 16 && whole <= GROUPED_MOST && fill < 0.8));
  int status = cni_fft_plan_open(&p, f64, whole, !grouped, j->kind != PAIRS && !j->odd);
  j->p = &p;
  if (!status) {
    int64_t lanes = grouped ? p.loops->lanes : 1;
    bool shared = !grouped && n >= SHARED_POINTS && j->lines < 2 * cn_num_threads();
    if (shared) lines(0, j->lines, j);
    else cni_parallel_for(parts(j->lines, lanes), GRAIN_WORK / (n * lanes) + 1, grouped ? groups : lines, j);
    status = cni_state()->err;
  }
  cni_fft_plan_close(&p);
  return status;
}

/* fft_c2c(input (..., n, 2), inverse, scaling) */
static int fft_kernel(cn_call *c)
{
  const cn_desc *in = cn_desc_of(c->in[0]);
  job j = {.kind = PAIRS, .points = in->shape[in->ndim - 2], .inverse = c->args[1].u.i != 0};
  return run(c, &j, c->args[2].u.i);
}

/* fft_r2c(input (..., n), scaling) */
static int rfft_kernel(cn_call *c)
{
  const cn_desc *in = cn_desc_of(c->in[0]);
  job j = {.kind = TO_HALF, .points = in->shape[in->ndim - 1]};
  return run(c, &j, c->args[1].u.i);
}

/* fft_c2r(input (..., n / 2 + 1, 2), n, scaling) */
static int irfft_kernel(cn_call *c)
{
  job j = {.kind = FROM_HALF, .points = c->args[1].u.i};
  return run(c, &j, c->args[2].u.i);
}

const cn_kernel cni_cpu_fft_kernels[] = {
    {"fft_c2c", "columns", fft_kernel},
    {"fft_r2c", "columns", rfft_kernel},
    {"fft_c2r", "columns", irfft_kernel},
    {NULL, NULL, NULL},
};
