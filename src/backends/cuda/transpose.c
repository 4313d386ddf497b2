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

/* How many neighbours can be moved at a time on both sides, 8 bytes of the wider type at most. */
static int run_length(const job *j, size_t from, size_t to)
{
  size_t most = 8 / (from > to ? from : to);
  int64_t bits = j->rows | j->cols | j->x_row | j->y_col | (int64_t)((uintptr_t)j->x / from | (uintptr_t)j->y / to);
  for (int i = 0; i < j->nbatch; i++) bits |= j->xstride[i] | j->ystride[i];
  int n = most > 1 ? (int)most : 1;
  while (bits % n) n /= 2;
  return (uintptr_t)j->x % from || (uintptr_t)j->y % to ? 1 : n;
}

int cni_cuda_transpose(cni_cuda_device *d, const char *name, const cn_desc *to, const cn_desc *from)
{
  if (to->numel < LEAST || from->weak || from->device == CN_CPU || from->ndim != to->ndim) return CN_REFUSED;
  if (memcmp(to->shape, from->shape, (size_t)to->ndim * sizeof *to->shape) != 0) return CN_REFUSED;
  int row = neighbours(to), col = neighbours(from);
  if (row < 0 || col < 0 || row == col || !converts(from->dtype, to->dtype)) return CN_REFUSED;
  if (from->strides[row] < 2 || to->strides[col] < 2) return CN_REFUSED; /* broadcast, or as good as dense */
  job j;
  memset(&j, 0, sizeof j);
  j.x = from->data;
  j.y = to->data;
  j.rows = to->shape[row];
  j.cols = to->shape[col];
  j.x_row = from->strides[row];
  j.y_col = to->strides[col];
  j.batch = to->numel / (j.rows * j.cols);
  for (int i = 0; i < to->ndim; i++) {
    if (i == row || i == col || to->shape[i] == 1) continue;
    j.shape[j.nbatch] = to->shape[i];
    j.xstride[j.nbatch] = from->strides[i];
    j.ystride[j.nbatch++] = to->strides[i];
  }
  bool same = from->dtype == to->dtype;
  cni_cuda_code code = {.file = "transpose.cu", .entry = "transpose"};
  code.types[0] = same ? cni_cuda_bits_of(from->dtype) : from->dtype;
  code.types[1] = same ? code.types[0] : to->dtype;
  code.number = run_length(&j, cn_element_size(from->dtype), cn_element_size(to->dtype));
  int64_t tiles = ((j.rows + SIDE - 1) / SIDE) * ((j.cols + SIDE - 1) / SIDE);
  cni_cuda_grid grid = {tiles, j.batch < MOST_BATCH ? j.batch : MOST_BATCH, CNI_CUDA_THREADS, 0};
  return cni_cuda_run(d, name, &code, grid, &j);
}
