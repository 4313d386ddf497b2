/* conv_planes.c: images laid out with their borders for the own convolution kernels. See conv_direct.h.
 *
 * Invariant: planes are filled whole, borders included, before a kernel reads them; what lies behind the last one is
 * read as part of a vector but never reaches a result. */
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "conv_direct.h"
#include "cpu.h"

enum {
  SET_BYTES = 4 << 20, /* planes that are filled before they are used */
  GRAIN_COPY = 1 << 15 /* elements worth waking a thread for */
};

const cni_conv_kernels *cni_conv_kernels_of(int dtype)
{
  bool f64 = dtype == CN_F64;
#if defined(__x86_64__)
  switch (cni_cpu_isa()) {
  case CNI_ISA_AVX512: return &cni_conv_kernels_avx512[f64];
  case CNI_ISA_AVX2: return &cni_conv_kernels_avx2[f64];
  default: break;
  }
#endif
  return &cni_conv_kernels_base[f64];
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

/* ---- planes ---- */

int cni_conv_planes_begin(cni_conv_planes *f, const cni_conv *v, const cni_conv_tensor *t, int64_t stack)
{
  const int64_t size[2] = {t->shape[2], t->shape[3]}, taps[2] = {v->kh, v->kw}, out[2] = {v->oh, v->ow};
  int64_t reach[2];
  f->t = t;
  f->dtype = v->dtype;
  f->size = v->dtype == CN_F64 ? 8 : 4;
  for (int d = 0; d < 2; d++) {
    reach[d] = (taps[d] - 1) * v->dilation[d] / v->stride[d];
    f->by_input = v->kind != CNI_CONV_INPUT;
    f->period[d] = cni_conv_period(v, d);
    f->phases[d] = f->by_input ? cni_least(taps[d], f->period[d]) : 1;
    f->step[d] = f->by_input ? v->stride[d] : 1;
    f->tap_step[d] = v->dilation[d];
    f->lead[d] = f->by_input ? v->padding[d] : reach[d];
    f->rows[d] =
        (f->by_input ? out[d] : (v->x.shape[2 + d] - 1 + v->padding[d]) / v->stride[d] + 1) + reach[d];
    f->extent[d] = size[d];
  }
  f->images = v->n;
  f->channels = t->shape[1];
  f->stack = stack;
  f->pitch = f->rows[1];
  f->plane = f->rows[0] * f->rows[1];
  f->channel = f->plane * stack * f->phases[0] * f->phases[1];
  f->block = f->channel * f->channels;
  double bytes = (double)f->rows[0] * (double)f->rows[1] * (double)stack *
                 (double)(f->phases[0] * f->phases[1]) * (double)f->channels * (double)f->size;
  if (bytes > 1e15) return cni_fail_memory(SIZE_MAX);
  int64_t blocks = cni_parts(v->n, stack);
  f->set = bytes > 0 ? (int64_t)(SET_BYTES / bytes) : blocks;
  if (f->set < 1) f->set = 1;
  if (f->set > blocks) f->set = blocks;
  /* Kernels read whole vectors: up to one behind the end. */
  f->bytes = (size_t)(f->set * f->block) * f->size + 128;
  f->data = cni_alloc(f->bytes);
  return f->data ? CN_OK : CN_ERR_MEMORY;
}

void cni_conv_planes_end(cni_conv_planes *f) { cni_free(f->data, f->bytes); }

/* Short runs, for which a call of memcpy costs more than the copy. */
static inline void copy_bytes(char *dst, const char *src, int64_t n)
{
  for (; n >= 32; n -= 32, dst += 32, src += 32) memcpy(dst, src, 32);
  if (n & 16) memcpy(dst, src, 16), dst += 16, src += 16;
  if (n & 8) memcpy(dst, src, 8), dst += 8, src += 8;
  if (n & 4) memcpy(dst, src, 4);
}

static inline void clear_bytes(char *dst, int64_t n)
{
  for (; n >= 8; n -= 8, dst += 8) memset(dst, 0, 8);
  if (n) memset(dst, 0, 4);
}

/* Positions [first, last) of phase `residue` that lie inside the image: position q shows q * step + residue - lead. */
static void inside(const cni_conv_planes *f, int d, int64_t residue, int64_t *first, int64_t *last)
{
  int64_t behind = f->lead[d] - residue, end = f->extent[d] + behind;
  *first = behind > 0 ? cni_parts(behind, f->step[d]) : 0;
  *last = end > 0 ? cni_least(cni_parts(end, f->step[d]), f->rows[d]) : 0;
  if (*first > f->rows[d]) *first = f->rows[d];
  if (*last < *first) *last = *first;
}

/* One phase of one channel of one image. dst: (rows, pitch) */
static void fill_plane(const cni_conv_planes *f, char *dst, int64_t n, int64_t c, const int64_t *residue)
{
  const int64_t size = (int64_t)f->size, pitch = f->pitch * size, *s = f->t->strides;
  int64_t y0, y1, x0, x1, elem = (int64_t)cni_dtype_size(f->dtype);
  inside(f, 0, residue[0], &y0, &y1);
  inside(f, 1, residue[1], &x0, &x1);
  int64_t y = y0 * f->step[0] + residue[0] - f->lead[0], x = x0 * f->step[1] + residue[1] - f->lead[1];
  const char *src = f->t->data + (n * s[0] + c * s[1] + y * s[2] + x * s[3]) * elem;
  if (y1 == y0 || x1 == x0) {
    memset(dst, 0, (size_t)(f->rows[0] * pitch));
  } else if (elem == size && s[3] * f->step[1] == 1) {
    int64_t left = x0 * size, width = (x1 - x0) * size, right = pitch - left - width,
            row = f->step[0] * s[2] * size;
    memset(dst, 0, (size_t)(y0 * pitch));
    char *to = dst + y0 * pitch;
    for (int64_t q = y0; q < y1; q++, to += pitch, src += row) {
      clear_bytes(to, left);
      copy_bytes(to + left, src, width);
      clear_bytes(to + left + width, right);
    }
    memset(to, 0, (size_t)((f->rows[0] - y1) * pitch));
  } else {
    cn_desc from = {.data = (char *)src,
                    .numel = (y1 - y0) * (x1 - x0),
                    .dtype = f->dtype,
                    .ndim = 2,
                    .device = CN_CPU,
                    .shape = {y1 - y0, x1 - x0},
                    .strides = {s[2] * f->step[0], s[3] * f->step[1]}};
    cn_desc to = from;
    memset(dst, 0, (size_t)(f->rows[0] * pitch));
    to.data = dst + (y0 * f->pitch + x0) * size;
    to.dtype = size == 8 ? CN_F64 : CN_F32;
    to.strides[0] = f->pitch;
    to.strides[1] = 1;
    cni_cpu_copy(&to, &from);
  }
}

/* Items are channels of blocks. */
static void fill_range(int64_t begin, int64_t end, void *payload)
{
  const cni_conv_planes *f = payload;
  for (int64_t item = begin; item < end; item++) {
    int64_t block = item / f->channels, c = item % f->channels, first = (f->first + block) * f->stack;
    char *to = f->data + (block * f->block + c * f->channel) * (int64_t)f->size;
    for (int64_t i = 0; i < f->phases[0]; i++)
      for (int64_t j = 0; j < f->phases[1]; j++)
        for (int64_t s = 0; s < f->stack; s++, to += f->plane * (int64_t)f->size) {
          int64_t residue[2] = {i * f->tap_step[0] % f->step[0], j * f->tap_step[1] % f->step[1]};
          if (first + s < f->images) fill_plane(f, to, first + s, c, residue);
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

/* Where tap (i, j) of the window at the origin lies in a channel's planes. */
int64_t cni_conv_tap(const cni_conv_planes *f, int64_t i, int64_t j)
{
  int64_t phase = i % f->period[0] * f->phases[1] + j % f->period[1];
  return phase * f->stack * f->plane + i * f->tap_step[0] / f->step[0] * f->pitch +
         j * f->tap_step[1] / f->step[1];
}
