/* grouped.c: products of which each group has its own: kernels/grouped_core.cu for 16-bit floats whose memory comes in
 * packs, kernels/grouped.cu for all others.
 *
 * Place in the flow: the kernels of "grouped_product". Invariant: where groups end is read by the device alone; what
 * is launched follows from sizes. */
#include <string.h>

#include "plugin.h"

enum { A, B, OFFS };
enum { CUT_ROWS, CUT_COLUMNS, CUT_SUM };
enum { PACK = 8, ALIGN = 16, STEP = 32 /* rows of a tile are a multiple */, COLS = 128, MOST_ROWS = 128, SIDE = 64 };
enum { DEEP = 64, STAGES = 3, TURNED_A = 1, TURNED_B = 2, FORM_ROWS = 2 };

/* As in kernels/grouped.cuh. */
typedef struct job {
  const void *a, *b;
  void *y;
  const void *ends;
  int64_t ends_step, m, n, k, groups, slots;
  int64_t a_row, a_col, a_step, b_row, b_col, b_step, y_row, y_col, y_step;
  int32_t cut, wide, pairs, unused;
  cni_cuda_slot fault;
} job;

typedef struct operand {
  const cn_desc *d;
  void *data, *copy;
  size_t bytes;
  int64_t row, col, step;
} operand;

static operand operand_of(const cn_desc *d)
{
  const int64_t *stride = d->strides + d->ndim - 2;
  return (operand){d, d->data, NULL, 0, stride[0], stride[1], d->ndim == 3 ? d->strides[0] : 0};
}

static job job_of(const cn_call *c, const operand *a, const operand *b)
{
  const cn_desc *y = cn_desc_of(c->out[0]), *ends = cn_desc_of(c->in[OFFS]);
  operand to = operand_of(y);
  return (job){.a = a->data, .b = b->data, .y = y->data, .ends = ends->data, .ends_step = ends->strides[0],
               .m = y->shape[y->ndim - 2], .n = y->shape[y->ndim - 1], .k = a->d->shape[a->d->ndim - 1],
               .groups = ends->shape[0], .a_row = a->row, .a_col = a->col, .a_step = a->step, .b_row = b->row,
               .b_col = b->col, .b_step = b->step, .y_row = to.row, .y_col = to.col, .y_step = to.step,
               .cut = b->d->ndim == 3 ? CUT_ROWS : a->d->ndim == 3 ? CUT_COLUMNS : CUT_SUM,
               .wide = ends->dtype == CN_I64,
               .pairs = to.col == 1 && (uintptr_t)y->data % cn_element_bytes(y->dtype, 2) == 0};
}

static int64_t parts(int64_t n, int64_t of) { return (n + of - 1) / of; }

/* Blocks for tiles of this size, however the groups are cut: each can begin and end within a tile. At least one, which
 * looks at the ends. 0: more than a launch has. */
static int64_t blocks_of(job *j, int64_t rows, int64_t cols)
{
  int64_t more = 2 * (j->groups + 1), down = parts(j->m, rows), across = parts(j->n, cols), others;
  j->slots = j->cut == CUT_ROWS ? down + more : j->cut == CUT_COLUMNS ? across + more : down;
  others = j->cut == CUT_ROWS ? across : j->cut == CUT_COLUMNS ? down : across * j->groups;
  if (j->slots == 0 || others == 0) return j->slots = 1;
  return j->slots <= INT32_MAX / others ? j->slots * others : 0;
}

static int too_large(cn_call *c) { return cni_cuda_refuse(c, "more tiles than a launch has blocks"); }

/* ---- any strides ---- */

static int plain(cn_call *c)
{
  operand a = operand_of(cn_desc_of(c->in[A])), b = operand_of(cn_desc_of(c->in[B]));
  const cn_desc *y = cn_desc_of(c->out[0]);
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  if (!d) return CN_ERR_DEVICE;
  job j = job_of(c, &a, &b);
  j.fault = cni_cuda_slot_for(d, name);
  int64_t blocks = blocks_of(&j, SIDE, SIDE);
  if (!blocks) return too_large(c);
  cni_cuda_code code = {.file = "grouped.cu", .entry = "grouped", .types = {a.d->dtype, y->dtype}};
  return cni_cuda_run(d, name, &code, (cni_cuda_grid){blocks, 1, CNI_CUDA_THREADS, 0}, &j);
}

/* ---- packs ---- */

/* Do its matrices lie in packs, with neighbours along their rows (of memory) or, turned, along their columns? */
static bool is_packed(const operand *x, int64_t near, int64_t far)
{
  return near == 1 && far % PACK == 0 && x->step % PACK == 0 && (uintptr_t)x->data % ALIGN == 0;
}
static bool lies_in_rows(const operand *x) { return is_packed(x, x->col, x->row); }
static bool lies_in_columns(const operand *x) { return is_packed(x, x->row, x->col); }

/* Copies what does not, with rows that are padded. */
static int pack(cni_cuda_device *d, const char *name, operand *x)
{
  if (lies_in_rows(x) || lies_in_columns(x)) return CN_OK;
  cn_desc to = *x->d;
  const int last = to.ndim - 1;
  x->col = 1;
  x->row = parts(to.shape[last], PACK) * PACK;
  x->step = to.ndim == 3 ? x->row * to.shape[1] : 0;
  x->bytes = cn_element_bytes(to.dtype, x->row * (to.ndim == 3 ? to.shape[0] : 1) * to.shape[last - 1]);
  x->copy = x->data = to.data = cni_cuda_scratch(d, name, x->bytes);
  if (!x->copy) return CN_ERR_MEMORY;
  to.strides[last] = 1;
  to.strides[last - 1] = x->row;
  if (to.ndim == 3) to.strides[0] = x->step;
  return to.numel ? cni_cuda_copy_desc(d, name, &to, x->d) : CN_OK;
}

static void drop(cni_cuda_device *d, operand *x)
{
  if (x->copy) cni_cuda_free(d, x->copy, x->bytes ? x->bytes : 1);
}

/* Rows of a tile: about as many as a group has, since the rest of one would be done for nothing. */
static int64_t tile_rows(const job *j)
{
  int64_t rows = j->cut == CUT_ROWS && j->groups ? parts(j->m, j->groups) : j->m, fit = STEP;
  while (fit < rows && fit < MOST_ROWS) fit *= 2;
  return fit;
}

static int launch(cn_call *c, cni_cuda_device *d, const char *name, const operand *a, const operand *b)
{
  const int from = a->d->dtype, to = cn_desc_of(c->out[0])->dtype;
  job j = job_of(c, a, b);
  j.fault = cni_cuda_slot_for(d, name);
  const int64_t rows = tile_rows(&j), blocks = blocks_of(&j, rows, COLS);
  if (!blocks) return too_large(c);
  const int turned = (lies_in_rows(a) ? 0 : TURNED_A) | (lies_in_rows(b) ? TURNED_B : 0);
  cni_cuda_code code = {.file = "grouped_core.cu", .entry = "grouped_core", .types = {from, to},
                        .form = turned | (int)(rows / STEP) << FORM_ROWS};
  cni_cuda_grid grid = {.x = blocks, .y = 1, .threads = CNI_CUDA_THREADS, .carveout = 100,
                        .shared = cn_element_bytes(from, STAGES * (rows + COLS) * DEEP)};
  return cni_cuda_run(d, name, &code, grid, &j);
}

static int core(cn_call *c)
{
  operand a = operand_of(cn_desc_of(c->in[A])), b = operand_of(cn_desc_of(c->in[B]));
  const char *name = cni_cuda_host->op_name(c->op);
  if (a.d->dtype != CN_BF16 && a.d->dtype != CN_F16) return cni_cuda_refuse(c, "not of 16-bit floats");
  cni_cuda_device *d = cni_cuda_of(c);
  if (!d) return CN_ERR_DEVICE;
  if (d->major < 8) return cni_cuda_refuse(c, "no Tensor Cores that take both types");
  if (d->most_shared < STAGES * (MOST_ROWS + COLS) * DEEP * 2) return cni_cuda_refuse(c, "too little shared memory");
  int status = pack(d, name, &a);
  if (!status) status = pack(d, name, &b);
  if (!status) status = launch(c, d, name, &a, &b);
  drop(d, &a);
  drop(d, &b);
  return status;
}

const cn_kernel cni_cuda_grouped_kernels[] = {
    {"grouped_product", "grouped_core.cu", core},
    {"grouped_product", "grouped.cu", plain},
    {NULL, NULL, NULL},
};
