/* conv_planes.c: images laid out with their borders for the own convolution kernels. See conv_direct.h.
 *
 * Invariant: planes are filled whole, borders included, before a kernel reads them; what lies behind the last one is
 * read as part of a vector but never reaches a result. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "base/state.h"
#include "conv_direct.h"

enum {
  SET_BYTES = 4 << 20, /* planes that are filled before they are used */
  GRAIN_COPY = 1 << 15 /* elements worth waking a thread for */
};

const cni_conv_kernels *cni_conv_kernels_of(int dtype)
{
  const cni_conv_kernels *by_type = CNI_BY_ISA(cni_conv_kernels);
  return &by_type[dtype == CN_F64];
}

int64_t cni_even_grain(int64_t items, int64_t grain)
{
  const int64_t threads = cn_num_threads();
  int64_t best = grain, least = 0;
  for (int64_t rounds = 4; rounds > 0; rounds--) { /* ranges of each thread */
    int64_t each = cni_parts(items, rounds * threads), cost = cni_parts(cni_parts(items, each), threads) * each;
    if (each < grain || (least && cost >= least)) continue;
    least = cost;
    best = each;
  }
  return best;
}

/* ---- phases of the stride ---- */

static int64_t gcd(int64_t a, int64_t b)
{
  while (b) {
    int64_t t = a % b;
    a = b;
    b = t;
  }
  return a;
}

/* Taps i and i + period see the same phase of the image. */
int64_t cni_conv_period(const cni_conv *v, int dim)
{
  return v->stride[dim] / gcd(v->stride[dim], v->dilation[dim]);
}

/* ---- layout ---- */

/* Rows and columns of a plane: results of one image and what windows reach beyond them. */
static void plane_size(const cni_conv *v, bool tight, int64_t *rows)
{
  const int64_t taps[2] = {v->kh, v->kw}, out[2] = {v->oh, v->ow}, in[2] = {v->h, v->w};
  bool by_input = v->kind != CNI_CONV_INPUT;
  for (int d = 0; d < 2; d++) {
    int64_t reach = (taps[d] - 1) * v->dilation[d] / v->stride[d];
    rows[d] = (by_input ? out[d] : (in[d] - 1 + v->padding[d]) / v->stride[d] + 1) + reach;
  }
  if (tight) rows[1] = by_input ? v->ow : v->w;
}

/* Lanes that one image takes when s of them lie behind each other. */
static double cost_of(const cni_conv *v, bool tight, int64_t s, int lanes, int64_t *run)
{
  int64_t rows[2], ny = v->kind == CNI_CONV_INPUT ? v->h : v->oh,
                   nx = v->kind == CNI_CONV_INPUT ? v->w : v->ow;
  plane_size(v, tight, rows);
  *run = (s - 1) * rows[0] * rows[1] + (ny - 1) * rows[1] + nx;
  return (double)(cni_parts(*run, lanes) * lanes) / (double)s;
}

cni_conv_fit cni_conv_fit_of(const cni_conv *v, int lanes)
{
  enum { LONGEST = 512, MOST = 64, WORTH = 16 };
  cni_conv_fit best = {1, false};
  int64_t run, rows = v->kind == CNI_CONV_INPUT ? v->c / v->groups : v->k / v->groups;
  bool single = v->stride[0] == 1 && v->stride[1] == 1;
  if (v->kind == CNI_CONV_INPUT && !single) return best; /* several products share the planes */
  double least = cost_of(v, false, 1, lanes, &run);
  /* Tight planes take more copying, which many rows of weights make good for. */
  bool may_tight = v->kw > 1 && v->kw <= 16 && rows * v->kh >= WORTH;
  for (int tight = 0; tight <= may_tight; tight++)
    for (int64_t s = 1; s <= v->n && s <= MOST; s *= 2) {
      double cost = cost_of(v, tight, s, lanes, &run);
      if (s > 1 && run > LONGEST) break;
      if (cost < least * (tight > best.tight ? 0.88 : 0.95)) {
        least = cost;
        best = (cni_conv_fit){s, tight};
      }
    }
  return best;
}

/* ---- planes ---- */

int cni_conv_planes_begin(cni_conv_planes *f, const cni_conv *v, const cni_conv_tensor *t, cni_conv_fit fit)
{
  const int64_t taps[2] = {v->kh, v->kw};
  *f = (cni_conv_planes){.t = t};
  f->dtype = v->dtype;
  f->size = v->dtype == CN_F64 ? 8 : 4;
  f->by_input = v->kind != CNI_CONV_INPUT;
  f->native = cni_dtype_size(v->dtype) == f->size && t->strides[3] <= 8;
  f->tight = fit.tight;
  plane_size(v, fit.tight, f->rows);
  for (int d = 0; d < 2; d++) {
    f->period[d] = cni_conv_period(v, d);
    f->phases[d] = f->by_input ? cni_least(taps[d], f->period[d]) : 1;
    f->step[d] = f->by_input ? v->stride[d] : 1;
    f->stride[d] = v->stride[d];
    f->tap_step[d] = v->dilation[d];
    f->lead[d] = f->by_input ? v->padding[d] : (taps[d] - 1) * v->dilation[d] / v->stride[d];
    f->extent[d] = t->shape[2 + d];
  }
  if (fit.tight) {
    f->phases[1] = f->period[1] = v->kw;
    f->lead[1] = v->padding[1];
  }
  f->images = v->n;
  f->channels = t->shape[1];
  f->stack = fit.stack;
  f->pitch = f->rows[1];
  f->plane = f->rows[0] * f->rows[1];
  f->channel = f->plane * f->stack * f->phases[0] * f->phases[1];
  f->block = f->channel * f->channels;
  double bytes = (double)f->rows[0] * (double)f->rows[1] * (double)f->stack *
                 (double)(f->phases[0] * f->phases[1]) * (double)f->channels * (double)f->size;
  if (bytes > 1e15) return cni_fail_memory(SIZE_MAX);
  int64_t blocks = cni_parts(v->n, f->stack);
  f->set = bytes > 0 ? (int64_t)(SET_BYTES / bytes) : blocks;
  if (f->set < 1) f->set = 1;
  if (f->set > blocks) f->set = blocks;
  return CN_OK;
}

int cni_conv_planes_alloc(cni_conv_planes *f, int64_t set)
{
  f->set = set;
  f->bytes =
      (size_t)(set * f->block) * f->size + 128; /* kernels read whole vectors: up to one behind the end */
  f->data = cni_scratch_alloc(f->bytes);
  return f->data ? CN_OK : CN_ERR_MEMORY;
}

void cni_conv_planes_free(cni_conv_planes *f) { cni_scratch_free(f->data, f->bytes); }

/* Short runs, for which a call of memcpy costs more than the copy: two pieces that may overlap. n: a multiple of 4 */
static inline void copy_bytes(char *dst, const char *src, int64_t n)
{
  for (; n > 64; n -= 32, dst += 32, src += 32) memcpy(dst, src, 32);
  if (n > 32) memcpy(dst, src, 32), memcpy(dst + n - 32, src + n - 32, 32);
  else if (n > 16) memcpy(dst, src, 16), memcpy(dst + n - 16, src + n - 16, 16);
  else if (n > 8) memcpy(dst, src, 8), memcpy(dst + n - 8, src + n - 8, 8);
  else memcpy(dst, src, 4), memcpy(dst + n - 4, src + n - 4, 4);
}

/* A native row, every `step`-th element. */
static inline void copy_row(char *dst, const char *src, int64_t n, int64_t step, size_t size)
{
  if (step == 1) {
    copy_bytes(dst, src, n * (int64_t)size);
  } else if (size == 4) {
    for (int64_t i = 0; i < n; i++) memcpy(dst + 4 * i, src + 4 * i * step, 4);
  } else {
    for (int64_t i = 0; i < n; i++) memcpy(dst + 8 * i, src + 8 * i * step, 8);
  }
}

/* Position 0 of a phase shows this coordinate. */
static int64_t shift_of(const cni_conv_planes *f, int d, int64_t phase)
{
  if (d == 0 || !f->tight) return phase * f->tap_step[d] % f->step[d] - f->lead[d];
  return f->by_input ? phase * f->tap_step[d] - f->lead[d] : f->lead[d] - phase * f->tap_step[d];
}

/* What one phase shows: positions [y0, y1) x [x0, x1) lie inside the image, the first of them at element `from` of a
 * channel. */
typedef struct window {
  int64_t y0, y1, x0, x1, from;
  bool whole; /* nothing but the image: no border to clear */
} window;

static void inside(const cni_conv_planes *f, int d, int64_t shift, int64_t *first, int64_t *last)
{
  int64_t end = f->extent[d] - shift;
  *first = shift < 0 ? cni_least(cni_parts(-shift, f->step[d]), f->rows[d]) : 0;
  *last = end > 0 ? cni_least(cni_parts(end, f->step[d]), f->rows[d]) : 0;
  if (*last < *first) *last = *first;
}

static window window_of(const cni_conv_planes *f, int64_t i, int64_t j)
{
  window w;
  int64_t y = shift_of(f, 0, i), x = shift_of(f, 1, j);
  inside(f, 0, y, &w.y0, &w.y1);
  inside(f, 1, x, &w.x0, &w.x1);
  if (w.x0 == w.x1) w.y1 = w.y0;
  w.whole = w.y0 == 0 && w.y1 == f->rows[0] && w.x0 == 0 && w.x1 == f->rows[1];
  w.from = (w.y0 * f->step[0] + y) * f->t->strides[2] + (w.x0 * f->step[1] + x) * f->t->strides[3];
  return w;
}

/* Elements of another type or layout, into a cleared plane. */
static void fill_cast(const cni_conv_planes *f, char *dst, const char *src, const window *w)
{
  const int64_t *s = f->t->strides;
  cn_desc from = {.data = (char *)src, .dtype = f->dtype, .ndim = 2, .device = CN_CPU};
  from.shape[0] = w->y1 - w->y0;
  from.shape[1] = w->x1 - w->x0;
  from.numel = from.shape[0] * from.shape[1];
  from.strides[0] = s[2] * f->step[0];
  from.strides[1] = s[3] * f->step[1];
  cn_desc to = from;
  to.data = dst + (w->y0 * f->pitch + w->x0) * (int64_t)f->size;
  to.dtype = f->size == 8 ? CN_F64 : CN_F32;
  to.strides[0] = f->pitch;
  to.strides[1] = 1;
  cni_cpu_copy(&to, &from);
}

/* One phase of one channel of one image. dst: (rows, pitch) */
static void fill_plane(const cni_conv_planes *f, char *dst, const char *src, const window *w)
{
  const int64_t size = (int64_t)f->size, pitch = f->pitch * size, *s = f->t->strides;
  const int64_t row = f->step[0] * s[2] * size, n = w->x1 - w->x0, step = s[3] * f->step[1];
  if (!w->whole) memset(dst, 0, (size_t)(f->rows[0] * pitch));
  if (w->y0 == w->y1) return;
  if (!f->native) {
    fill_cast(f, dst, src, w);
    return;
  }
  dst += w->y0 * pitch + w->x0 * size;
  for (int64_t q = w->y0; q < w->y1; q++, dst += pitch, src += row) copy_row(dst, src, n, step, f->size);
}

/* Items are channels of blocks. */
static void fill_range(int64_t begin, int64_t end, void *payload)
{
  const cni_conv_planes *f = payload;
  const int64_t *s = f->t->strides, size = (int64_t)f->size, elem = (int64_t)cni_dtype_size(f->dtype);
  for (int64_t phase = 0; phase < f->phases[0] * f->phases[1]; phase++) {
    window w = window_of(f, phase / f->phases[1], phase % f->phases[1]);
    int64_t block = begin / f->channels, c = begin % f->channels;
    for (int64_t item = begin; item < end; item++) {
      char *to = f->data + (block * f->block + c * f->channel + phase * f->stack * f->plane) * size;
      int64_t first = (f->first + block) * f->stack, images = cni_least(f->stack, f->images - first);
      const char *from = f->t->data + (first * s[0] + c * s[1] + w.from) * elem;
      for (int64_t k = 0; k < images; k++, to += f->plane * size, from += s[0] * elem)
        fill_plane(f, to, from, &w);
      if (++c == f->channels) c = 0, block++;
    }
  }
}

int64_t cni_conv_planes_fill(cni_conv_planes *f, int64_t first)
{
  int64_t blocks = cni_least(f->set, cni_parts(f->images, f->stack) - first), items = blocks * f->channels;
  f->first = first;
  cni_parallel_for(items, cni_grain((double)items * (double)f->channel, items, GRAIN_COPY), fill_range, f);
  return blocks;
}

int64_t cni_conv_tap(const cni_conv_planes *f, int64_t i, int64_t j)
{
  int64_t down = i * f->tap_step[0], right = f->tight ? 0 : j * f->tap_step[1];
  int64_t phase = i % f->period[0] * f->phases[1] + j % f->period[1];
  if (f->by_input) return phase * f->stack * f->plane + down / f->step[0] * f->pitch + right / f->step[1];
  phase = f->tight ? j : 0;
  down = f->lead[0] - down / f->stride[0];
  right = f->tight ? 0 : f->lead[1] - right / f->stride[1];
  return phase * f->stack * f->plane + down * f->pitch + right;
}
