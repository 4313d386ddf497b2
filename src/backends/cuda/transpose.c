/* transpose.c: copies whose two sides have their neighbours along different dims: transposes, channels-last and back.
 *
 * Place in the flow: cni_cuda_copy_desc asks here first; everything else is a generated loop. Invariant: only types
 * whose conversion is a rounding of floats, or none at all, are taken. */
#include <string.h>

#include "plugin.h"

enum { SIDE = 64, LEAST_SIDE = 8, LEAST = 4096, MOST_BATCH = 65535 };

/* As in kernels/transpose.cu. */
typedef struct job {
  const void *x;
  void *y;
  int64_t rows, cols, x_row, y_col, batch;
  int32_t nbatch, unused;
  int64_t shape[CN_MAX_DIMS], xstride[CN_MAX_DIMS], ystride[CN_MAX_DIMS];
} job;

/* Dims that lie behind one another in both tensors become one: the pixels of an image, say. */
static void merge(cn_desc *to, cn_desc *from)
{
  int n = 0;
  for (int i = 0; i < to->ndim; i++) {
    if (to->shape[i] == 1) continue;
    bool joins = n && to->strides[n - 1] == to->strides[i] * to->shape[i] &&
                 from->strides[n - 1] == from->strides[i] * to->shape[i];
    int at = joins ? n - 1 : n++;
    to->shape[at] = to->shape[i] * (joins ? to->shape[at] : 1);
    to->strides[at] = to->strides[i];
    from->strides[at] = from->strides[i];
  }
  to->ndim = from->ndim = n;
  memcpy(from->shape, to->shape, sizeof to->shape);
}

/* A dim of some length whose elements are neighbours; -1: there is none. */
static int neighbours(const cn_desc *d)
{
  for (int i = d->ndim - 1; i >= 0; i--)
    if (d->strides[i] == 1 && d->shape[i] >= LEAST_SIDE) return i;
  return -1;
}

static bool converts(int from, int to)
{
  return from == to || (cni_cuda_is_float(from) && cni_cuda_is_float(to));
}

/* How many neighbours of this size can be moved at a time where a line has n of them and lines are `apart`: 16 bytes at
 * most, and 8 elements. */
static int run_length(const void *data, size_t size, int64_t n, int64_t apart, const job *j, const int64_t *strides)
{
  int64_t bits = n | apart | (int64_t)((uintptr_t)data / size);
  for (int i = 0; i < j->nbatch; i++) bits |= strides[i];
  int run = size < 2 ? 8 : (int)(16 / size);
  while (bits % run) run /= 2;
  return (uintptr_t)data % size ? 1 : run;
}

static void describe(job *j, const cn_desc *to, const cn_desc *from, int row, int col)
{
  memset(j, 0, sizeof *j);
  j->x = from->data;
  j->y = to->data;
  j->rows = to->shape[row];
  j->cols = to->shape[col];
  j->x_row = from->strides[row];
  j->y_col = to->strides[col];
  j->batch = to->numel / (j->rows * j->cols);
  for (int i = 0; i < to->ndim; i++) {
    if (i == row || i == col) continue;
    j->shape[j->nbatch] = to->shape[i];
    j->xstride[j->nbatch] = from->strides[i];
    j->ystride[j->nbatch++] = to->strides[i];
  }
}

int cni_cuda_transpose(cni_cuda_device *d, const char *name, const cn_desc *to, const cn_desc *from)
{
  if (to->numel < LEAST || from->weak || from->device == CN_CPU || from->ndim != to->ndim) return CN_REFUSED;
  if (memcmp(to->shape, from->shape, (size_t)to->ndim * sizeof *to->shape) != 0) return CN_REFUSED;
  cn_desc y = *to, x = *from;
  merge(&y, &x);
  int row = neighbours(&y), col = neighbours(&x);
  if (row < 0 || col < 0 || row == col || !converts(x.dtype, y.dtype)) return CN_REFUSED;
  if (x.strides[row] < 2 || y.strides[col] < 2) return CN_REFUSED; /* broadcast, or as good as dense */
  job j;
  describe(&j, &y, &x, row, col);
  bool same = x.dtype == y.dtype;
  cni_cuda_code code = {.file = "transpose.cu", .entry = "transpose"};
  code.types[0] = same ? cni_cuda_bits_of(x.dtype) : x.dtype;
  code.types[1] = same ? code.types[0] : y.dtype;
  code.number = run_length(j.x, cn_element_size(x.dtype), j.cols, j.x_row, &j, j.xstride) +
                16 * run_length(j.y, cn_element_size(y.dtype), j.rows, j.y_col, &j, j.ystride);
  int64_t tiles = ((j.rows + SIDE - 1) / SIDE) * ((j.cols + SIDE - 1) / SIDE);
  cni_cuda_grid grid = {tiles, j.batch < MOST_BATCH ? j.batch : MOST_BATCH, CNI_CUDA_THREADS, 0};
  return cni_cuda_run(d, name, &code, grid, &j);
}
