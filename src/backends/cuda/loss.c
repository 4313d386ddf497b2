/* loss.c: cross_entropy_rows and its gradient, in one pass over the logits each.
 *
 * Place in the flow: launches of kernels/loss.cu. Invariant: nothing is read back: how many rows count is found on the
 * device, classes out of range are a fault that the next wait reports. */
#include <string.h>

#include "plugin.h"
#include "rows.h"

/* FEW: rows that one block takes, a warp each if it can; SOME: rows that each block may count. */
enum { JOIN_THREADS = 1024, FEW = 64, SOME = 1024, WARP = 32, PACKS = 4 };
/* Threads that a multiprocessor runs at once, as the bounds there have it; of float64. */
enum { RESIDENT = 1024, WIDE_RESIDENT = 512 };

/* As in kernels/loss.cu. */
typedef struct job {
  const void *x;
  const void *target;
  void *lse, *parts, *loss;
  const void *g;
  void *y;
  void *count;
  int64_t rows, n, ignore;
  int32_t reduce, mean, blocks, unused;
  cni_cuda_slot fault;
} job;

static cni_cuda_rows plan_of(const job *j, int type)
{
  const void *pointers[] = {j->x, j->y};
  return cni_cuda_rows_plan(j->rows, j->n, type, type, 1, PACKS, pointers, 2);
}

/* How loss_rows is run: few rows by one block, a warp each, if they can be. */
static cni_cuda_rows forward_plan(const cni_cuda_device *d, const job *j, int type)
{
  cni_cuda_rows r = plan_of(j, type);
  if (j->reduce && j->rows <= FEW && r.packs > 0) {
    r.grid.x = 1;
    while (r.grid.threads < JOIN_THREADS && r.grid.threads < j->rows * WARP) r.grid.threads *= 2;
  }
  int resident = cn_element_size(type) > 4 ? WIDE_RESIDENT : RESIDENT;
  if (r.packs) cni_cuda_rows_ahead(&r, d, 1, (int64_t)cn_element_bytes(type, j->n), 16, resident);
  else { /* gone over once, the next packs on their way in registers: small blocks, which wait for each other less */
    int64_t most = (int64_t)d->units * (resident / CNI_CUDA_THREADS);
    r.grid.shared = 0;
    r.grid.threads = CNI_CUDA_THREADS;
    r.grid.x = j->rows < most ? j->rows : most;
  }
  return r;
}

static int launch_rows(cni_cuda_device *d, const char *name, job *j, const char *entry, int type, int loss,
                       cni_cuda_rows r)
{
  cni_cuda_code code = {.file = "loss.cu", .entry = entry, .types = {type, loss}};
  code.number = r.packs;
  code.threads = r.grid.threads;
  code.form = r.form;
  return cni_cuda_run(d, name, &code, r.grid, j);
}

static int launch_join(cni_cuda_device *d, const char *name, job *j, int type, int loss)
{
  cni_cuda_code code = {.file = "loss.cu", .entry = "loss_join", .types = {type, loss}, .threads = JOIN_THREADS};
  return cni_cuda_run(d, name, &code, (cni_cuda_grid){1, 1, JOIN_THREADS, 0}, j);
}

/* Before backward: how many of many rows count. */
static int launch_count(cni_cuda_device *d, const char *name, job *j, int type, int loss)
{
  cni_cuda_code code = {.file = "loss.cu", .entry = "loss_count", .types = {type, loss}};
  int status = cni_cuda_zero(d, j->count, 8);
  return status ? status : cni_cuda_run(d, name, &code, cni_cuda_grid_for(d, j->rows), j);
}

/* cross_entropy_rows(input, target, ignore_index, reduction, wide) -> (loss, lse) */
static int forward_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *loss = cn_desc_of(c->out[0]);
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_operand ox = {0}, ot = {0};
  job j;
  if (!d) return CN_ERR_DEVICE;
  memset(&j, 0, sizeof j);
  j.rows = x->shape[0];
  j.n = x->shape[1];
  j.ignore = c->args[2].u.i;
  j.reduce = strcmp(c->args[3].u.s, "none") != 0;
  j.mean = !strcmp(c->args[3].u.s, "mean");
  j.lse = cn_desc_of(c->out[1])->data;
  j.loss = loss->data;
  j.fault = cni_cuda_slot_for(d, name);
  int status = cni_cuda_take(&ox, d, name, x, 0);
  if (!status) status = cni_cuda_take(&ot, d, name, cn_desc_of(c->in[1]), CN_I64);
  j.x = ox.data;
  j.target = ot.data;
  cni_cuda_rows r = forward_plan(d, &j, x->dtype);
  j.blocks = j.rows ? (int32_t)r.grid.x : 0;
  bool joins = j.reduce && j.blocks != 1;
  size_t bytes = (size_t)j.blocks * 16;
  if (!status && joins && !(j.parts = cni_cuda_scratch(d, name, bytes))) status = CN_ERR_MEMORY;
  if (!status && j.rows) status = launch_rows(d, name, &j, "loss_rows", x->dtype, loss->dtype, r);
  if (!status && joins) status = launch_join(d, name, &j, x->dtype, loss->dtype);
  if (j.parts) cni_cuda_free(d, j.parts, bytes ? bytes : 1);
  cni_cuda_drop(&ox, d);
  cni_cuda_drop(&ot, d);
  return status;
}

/* cross_entropy_rows_grad(grad, input, target, lse, ignore_index, reduction) */
static int backward_kernel(cn_call *c)
{
  const cn_desc *g = cn_desc_of(c->in[0]), *x = cn_desc_of(c->in[1]), *y = cn_desc_of(c->out[0]);
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_operand og = {0}, ox = {0}, ot = {0}, ol = {0}, oy = {0};
  job j;
  if (!d) return CN_ERR_DEVICE;
  if (x->numel == 0) return CN_OK;
  memset(&j, 0, sizeof j);
  j.rows = x->shape[0];
  j.n = x->shape[1];
  j.ignore = c->args[4].u.i;
  j.reduce = g->ndim == 0;
  j.mean = !strcmp(c->args[5].u.s, "mean");
  int loss = g->dtype == x->dtype ? x->dtype : cni_cuda_wide(x->dtype);
  int status = cni_cuda_take(&og, d, name, g, loss);
  if (!status) status = cni_cuda_take(&ox, d, name, x, 0);
  if (!status) status = cni_cuda_take(&ot, d, name, cn_desc_of(c->in[2]), CN_I64);
  if (!status) status = cni_cuda_take(&ol, d, name, cn_desc_of(c->in[3]), cni_cuda_wide(x->dtype));
  if (!status) status = cni_cuda_room(&oy, d, name, y, 0);
  bool counts = j.mean && j.rows > SOME;
  if (!status && counts && !(j.count = cni_cuda_scratch(d, name, 8))) status = CN_ERR_MEMORY;
  j.g = og.data, j.x = ox.data, j.target = ot.data, j.lse = ol.data, j.y = oy.data;
  if (!status && counts) status = launch_count(d, name, &j, x->dtype, loss);
  cni_cuda_rows r = plan_of(&j, x->dtype);
  r.grid.shared = 0; /* rows are gone over once, without waiting for any of it */
  if (!status) status = launch_rows(d, name, &j, "loss_grad", x->dtype, loss, r);
  if (j.count) cni_cuda_free(d, j.count, 8);
  cni_cuda_drop(&og, d);
  cni_cuda_drop(&ox, d);
  cni_cuda_drop(&ot, d);
  cni_cuda_drop(&ol, d);
  return cni_cuda_give(&oy, d, name, status);
}

const cn_kernel cni_cuda_loss_kernels[] = {
    {"cross_entropy_rows", "loss.cu", forward_kernel},
    {"cross_entropy_rows_grad", "loss.cu", backward_kernel},
    {NULL, NULL, NULL},
};
