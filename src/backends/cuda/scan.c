/* scan.c: running sums, products and extremes along a dim.
 *
 * Place in the flow: launches of kernels/scan.cu. Invariant: how a line is cut into pieces depends on shapes and the
 * device alone. */
#include <string.h>

#include "plugin.h"

enum { ROW_PIECE = 8192, COLUMN_PIECE = 64, STATE = 16, MOST_CHUNKS = 4096 };

/* As in kernels/scan.cu. */
typedef struct job {
  const void *x;
  void *y, *index, *totals;
  int64_t outer, n, inner, chunk, chunks;
  int32_t aligned, unused;
} job;

/* Few lines of many elements are cut, so that the device is filled. */
static void plan(job *j, const cni_cuda_device *d)
{
  int64_t lines = j->outer * j->inner, each = j->inner == 1 ? 1 : CNI_CUDA_THREADS;
  int64_t piece = j->inner == 1 ? ROW_PIECE : COLUMN_PIECE;
  int64_t wanted = (int64_t)d->units * 4 * each / lines, most = j->n / piece;
  j->chunks = wanted < most ? wanted : most;
  if (j->chunks > MOST_CHUNKS) j->chunks = MOST_CHUNKS;
  if (j->chunks < 2) j->chunks = 1;
  j->chunk = (j->n + j->chunks - 1) / j->chunks;
  if (j->inner == 1 && j->chunks > 1) j->chunk = (j->chunk + 2047) / 2048 * 2048;
  j->chunks = (j->n + j->chunk - 1) / j->chunk;
}

static int launch(cni_cuda_device *d, const char *name, job *j, const char *op, int type)
{
  cni_cuda_code code = {.file = "scan.cu", .entry = "scan_apply", .types = {type}, .op = op};
  int64_t lines = j->outer * j->inner;
  cni_cuda_grid grid = cni_cuda_grid_for(d, lines), flat = grid;
  if (j->inner == 1) grid.x = j->outer < (int64_t)d->units * 32 ? j->outer : (int64_t)d->units * 32;
  grid.y = j->chunks;
  if (j->chunks == 1) return cni_cuda_run(d, name, &code, grid, j);
  size_t bytes = (size_t)(lines * j->chunks) * STATE;
  j->totals = cni_cuda_scratch(d, name, bytes);
  if (!j->totals) return CN_ERR_MEMORY;
  code.entry = "scan_totals";
  int status = cni_cuda_run(d, name, &code, grid, j);
  code.entry = "scan_carries";
  if (!status) status = cni_cuda_run(d, name, &code, flat, j);
  code.entry = "scan_apply";
  if (!status) status = cni_cuda_run(d, name, &code, grid, j);
  cni_cuda_free(d, j->totals, bytes);
  return status;
}

/* (input, dim, ...) -> result, or (values, indices) */
static int scan(cn_call *c, const char *op)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]);
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_operand ox = {0}, oy = {0}, oi = {0};
  if (!d) return CN_ERR_DEVICE;
  if (!cni_cuda_known(y->dtype)) return cni_cuda_refuse(c, "a type for storage only");
  if (y->numel == 0) return CN_OK;
  cni_cuda_lines l = cni_cuda_lines_of(x, cni_cuda_dim(c->args[1].u.i, x->ndim));
  int status = cni_cuda_take(&ox, d, name, x, y->dtype);
  if (!status) status = cni_cuda_room(&oy, d, name, y, 0);
  if (!status && c->nout > 1) status = cni_cuda_room(&oi, d, name, cn_desc_of(c->out[1]), CN_I64);
  job j = {ox.data, oy.data, oi.data, NULL, l.outer, l.n, l.inner, 0, 0, 0, 0};
  uintptr_t eight = 8 * cn_element_size(y->dtype);
  j.aligned = l.n % 8 == 0 && ((uintptr_t)j.x | (uintptr_t)j.y) % eight == 0;
  if (!status) {
    plan(&j, d);
    status = launch(d, name, &j, op, y->dtype);
  }
  cni_cuda_drop(&ox, d);
  status = cni_cuda_give(&oy, d, name, status);
  return oi.desc ? cni_cuda_give(&oi, d, name, status) : status;
}

static int cumsum_kernel(cn_call *c) { return scan(c, "sum_op"); }
static int cumprod_kernel(cn_call *c) { return scan(c, "prod_op"); }
static int cummax_kernel(cn_call *c) { return scan(c, "max_op"); }
static int cummin_kernel(cn_call *c) { return scan(c, "min_op"); }
static int logcumsumexp_kernel(cn_call *c) { return scan(c, "log_op"); }

const cn_kernel cni_cuda_scan_kernels[] = {
    {"cumsum", "scan.cu", cumsum_kernel},
    {"cumprod", "scan.cu", cumprod_kernel},
    {"cummax", "scan.cu", cummax_kernel},
    {"cummin", "scan.cu", cummin_kernel},
    {"logcumsumexp", "scan.cu", logcumsumexp_kernel},
    {NULL, NULL, NULL},
};
