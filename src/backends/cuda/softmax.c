/* softmax.c: softmax and log_softmax along one dim, and their gradients.
 *
 * Place in the flow: chooses how a line is shared among threads (kernels/softmax.cu). Invariant: operands are row-major
 * here; others are copied first. */
#include <string.h>

#include "plugin.h"
#include "rows.h"

/* As in kernels/softmax.cu. */
typedef struct job {
  const void *x, *b;
  void *y;
  int64_t rows, n, inner;
  int32_t stash, unused;
} job;

enum { RESIDENT = 1024, FEW_RESIDENT = 768, PACKS = 4 }; /* threads of a multiprocessor, as the bounds there have it */

static int launch(cni_cuda_device *d, const char *name, job *j, const char *kind, int from, int to)
{
  int inputs = j->b ? 2 : 1;
  if (j->inner > 1) {
    cni_cuda_code code = {.file = "softmax.cu", .entry = "softmax_lines", .types = {from, to}, .op = kind, .number = 1};
    return cni_cuda_run(d, name, &code, cni_cuda_grid_for(d, j->rows), j);
  }
  const void *pointers[] = {j->x, j->b, j->y};
  cni_cuda_rows r = cni_cuda_rows_plan(j->rows, j->n, from, to, inputs, PACKS, pointers, 3);
  cni_cuda_code code = {.file = "softmax.cu", .entry = "softmax_rows", .types = {from, to}, .op = kind};
  int64_t size = (int64_t)cn_element_size(from), out = (int64_t)cn_element_size(to);
  cni_cuda_rows_ahead(&r, d, inputs, j->n * size * inputs, (int)(16 / (size > out ? size : out) * size),
                      r.packs && (j->b || !(r.form & CNI_ROWS_EVEN)) ? FEW_RESIDENT : RESIDENT);
  code.number = r.packs;
  code.threads = r.grid.threads;
  code.form = r.form;
  j->stash = r.grid.shared != 0;
  return cni_cuda_run(d, name, &code, r.grid, j);
}

/* x, and b where it is a gradient, along dim into the call's result. */
static int run(cn_call *c, const char *kind, const cn_desc *x, const cn_desc *b, int dim)
{
  const cn_desc *y = cn_desc_of(c->out[0]);
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_operand ox = {0}, ob = {0}, oy = {0};
  if (!d) return CN_ERR_DEVICE;
  if (!cni_cuda_is_float(y->dtype)) return cni_cuda_refuse(c, "not for this type");
  if (y->numel == 0) return CN_OK;
  bool widens = x->dtype == y->dtype || (y->dtype == CN_F32 && cni_cuda_is_float(x->dtype) && x->dtype != CN_F64);
  int from = widens && !b ? x->dtype : y->dtype;
  cni_cuda_lines l = cni_cuda_lines_of(y, dim);
  int status = cni_cuda_take(&ox, d, name, x, from);
  if (!status && b) status = cni_cuda_take(&ob, d, name, b, from);
  if (!status) status = cni_cuda_room(&oy, d, name, y, 0);
  job j = {ox.data, ob.data, oy.data, l.outer * l.inner, l.n, l.inner, 0, 0};
  if (!status) status = launch(d, name, &j, kind, from, y->dtype);
  cni_cuda_drop(&ox, d);
  cni_cuda_drop(&ob, d);
  return cni_cuda_give(&oy, d, name, status);
}

/* softmax(input, dim, dtype) */
static int forward(cn_call *c, const char *kind)
{
  const cn_desc *x = cn_desc_of(c->in[0]);
  return run(c, kind, x, NULL, cni_cuda_dim(c->args[1].u.i, x->ndim));
}
static int softmax_kernel(cn_call *c) { return forward(c, "softmax"); }
static int log_softmax_kernel(cn_call *c) { return forward(c, "log_softmax"); }

/* softmax_backward(grad, output, dim) */
static int backward(cn_call *c, const char *kind)
{
  const cn_desc *g = cn_desc_of(c->in[0]);
  return run(c, kind, g, cn_desc_of(c->in[1]), cni_cuda_dim(c->args[2].u.i, g->ndim));
}
static int softmax_backward_kernel(cn_call *c) { return backward(c, "softmax_grad"); }
static int log_softmax_backward_kernel(cn_call *c) { return backward(c, "log_softmax_grad"); }

const cn_kernel cni_cuda_softmax_kernels[] = {
    {"softmax", "softmax.cu", softmax_kernel},
    {"log_softmax", "softmax.cu", log_softmax_kernel},
    {"softmax_backward", "softmax.cu", softmax_backward_kernel},
    {"log_softmax_backward", "softmax.cu", log_softmax_backward_kernel},
    {NULL, NULL, NULL},
};
