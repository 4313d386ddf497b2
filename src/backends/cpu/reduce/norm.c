/* norm.c: layer norm and RMS norm on the CPU, forward and backward.
 *
 * Place in the flow: kernels of ops/norm.c; loops in moments_isa.c. The input is (M, N): M rows, each
 * normalised by itself. Invariant: sums over rows (the gradients of weight and bias) are taken in pieces that
 * depend on M alone and joined in order, so results never depend on the number of threads. */
#include <math.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/walk/cast.h"
#include "backends/cpu/walk/nontemporal.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "moments.h"
#include "ops/infer.h"
#include "tensor/tensor.h"

enum { GRAIN = 8192, PIECES = 32, ROWS = 256, NONTEMPORAL_ROW = 32768 /* bytes */ };

typedef struct job {
  const cni_moment_loops *loops;
  bool centered, single; /* layer norm rather than RMS norm; computed in float32 */
  int64_t rows, n, size; /* M, N, bytes of an element of the compute type */
  double eps;
  const char *x, *g, *w, *b; /* x, g: (M, N); w, b: (N) or NULL */
  char *y;                   /* (M, N); NULL: not wanted */
  void *mean, *rstd;         /* (M) of the compute type; mean NULL for RMS norm */
  bool nontemporal;          /* y goes past the caches */
  cni_cast_fn load, store;   /* x and y are of a small float type, converted row by row; NULL: they are not */
  int64_t small;             /* bytes of its elements */
  int64_t piece;             /* rows per piece of backward */
  bool want_w, want_b;
  double *sums; /* (pieces, 2, N) */
} job;

static double get(const job *j, const void *array, int64_t i)
{
  if (!array) return 0;
  return j->single ? (double)((const float *)array)[i] : ((const double *)array)[i];
}

static void set(const job *j, void *array, int64_t i, double value)
{
  if (!array) return;
  if (j->single) ((float *)array)[i] = (float)value;
  else ((double *)array)[i] = value;
}

/* Row i of x, normalised to y; both of the compute type. */
static void forward_row(const job *j, int64_t i, char *y, const char *x)
{
  double mean = 0, square;
  if (j->centered) {
    cni_moment m = j->loops->row(x, j->n);
    mean = m.mean;
    square = m.m2;
  } else {
    square = j->loops->square_row(x, j->n);
  }
  double rstd = 1 / sqrt(square / (double)j->n + j->eps);
  set(j, j->mean, i, mean);
  set(j, j->rstd, i, rstd);
  j->loops->normalize_row(y, x, j->w, j->b, j->n, mean, rstd);
}

static void forward_rows(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  _Alignas(64) char row[NONTEMPORAL_ROW], raw[NONTEMPORAL_ROW];
  for (int64_t i = begin; i < end; i++) {
    int64_t at = i * j->n * (j->load ? j->small : j->size);
    if (j->load) {
      j->load(raw, j->x + at, (size_t)j->n);
      forward_row(j, i, row, raw);
      j->store(j->y + at, row, (size_t)j->n);
    } else {
      forward_row(j, i, j->nontemporal ? row : j->y + at, j->x + at);
      if (j->nontemporal) cni_nontemporal_copy(j->y + at, row, (size_t)(j->n * j->size));
    }
  }
  if (j->nontemporal) cni_nontemporal_end();
}

/* ---- backward ---- */

static void grad_row(const job *j, int64_t i)
{
  _Alignas(64) char row[NONTEMPORAL_ROW];
  int64_t at = i * j->n * j->size;
  double mean = get(j, j->mean, i), rstd = get(j, j->rstd, i), sums[2];
  j->loops->grad_sums_row(sums, j->g + at, j->x + at, j->w, j->n, mean, rstd);
  j->loops->grad_row(j->nontemporal ? row : j->y + at, j->g + at, j->x + at, j->w, j->n, mean, rstd,
                     j->centered ? sums[0] / (double)j->n : 0, sums[1] / (double)j->n);
  if (j->nontemporal) cni_nontemporal_copy(j->y + at, row, (size_t)(j->n * j->size));
}

/* Adds n running sums of the compute type to sums, and starts them afresh. */
static void flush(const job *j, double *sums, void *acc)
{
  for (int64_t k = 0; acc && k < j->n; k++) sums[k] += get(j, acc, k);
  if (acc) memset(acc, 0, (size_t)(j->n * j->size));
}

/* Pieces [begin, end) of the rows: their gradients, and what they add to those of weight and bias. */
static void backward_pieces(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  size_t bytes = (size_t)(2 * j->n * j->size);
  char *room = cni_scratch_alloc_zero(bytes);
  if (!room) return; /* the error is set, and reaches the caller */
  void *gw = j->want_w ? room : NULL, *gb = j->want_b ? room + bytes / 2 : NULL;
  for (int64_t p = begin; p < end; p++) {
    double *sums = j->sums + p * 2 * j->n;
    int64_t first = p * j->piece, stop = first + j->piece < j->rows ? first + j->piece : j->rows;
    for (int64_t i = first; i < stop; i++) {
      int64_t at = i * j->n * j->size;
      if (j->y) grad_row(j, i);
      j->loops->grad_affine_row(gw, gb, j->g + at, j->x + at, j->n, get(j, j->mean, i), get(j, j->rstd, i));
      if ((i - first) % ROWS < ROWS - 1 && i < stop - 1) continue;
      flush(j, sums, gw);
      flush(j, sums + j->n, gb);
    }
  }
  if (j->nontemporal) cni_nontemporal_end();
  cni_scratch_free(room, bytes);
}

static void backward_rows(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  for (int64_t i = begin; i < end; i++) grad_row(j, i);
  if (j->nontemporal) cni_nontemporal_end();
}

/* Joins the pieces' sums and writes them as the gradient of weight (0) or bias (1). */
static void put_sums(const job *j, int64_t pieces, int which, const cn_desc *y)
{
  double *first = j->sums + which * j->n;
  for (int64_t p = 1; p < pieces; p++)
    for (int64_t k = 0; k < j->n; k++) first[k] += first[2 * p * j->n + k];
  cni_cast_find(CN_F64, y->dtype)(y->data, first, (size_t)j->n);
}

static int run_backward(job *j, const cn_desc *gw, const cn_desc *gb)
{
  int64_t grain = j->n < GRAIN ? GRAIN / j->n : 1;
  if (!j->want_w && !j->want_b) {
    if (j->y) cni_parallel_for(j->rows, grain, backward_rows, j);
    return CN_OK;
  }
  j->piece = (j->rows + PIECES - 1) / PIECES;
  if (j->piece < grain) j->piece = grain;
  int64_t pieces = (j->rows + j->piece - 1) / j->piece;
  if (pieces == 0) pieces = 1;
  size_t bytes = (size_t)(pieces * 2 * j->n) * sizeof *j->sums;
  if (!(j->sums = cni_scratch_alloc_zero(bytes))) return CN_ERR_MEMORY;
  cni_parallel_for(pieces, 1, backward_pieces, j);
  if (j->want_w) put_sums(j, pieces, 0, gw);
  if (j->want_b) put_sums(j, pieces, 1, gb);
  cni_scratch_free(j->sums, bytes);
  return cn_err();
}

/* ---- kernels ---- */

static void describe(job *j, const cn_desc *x, const cn_value *shape, bool centered)
{
  enum cni_compute class = cni_compute_class(x->dtype);
  *j = (job){.loops = cni_moment_loops_of(class), .centered = centered, .single = class == CNI_C_F32, .n = 1};
  j->size = j->single ? 4 : 8;
  for (int i = 0; i < shape->n; i++) j->n *= shape->u.is[i];
  j->rows = j->n ? x->numel / j->n : 0;
}

/* (input, normalized_shape, weight, [bias], eps) */
static int forward(cn_call *c, bool centered)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]);
  int compute = cni_compute_dtype(cni_compute_class(x->dtype));
  cni_operand ox, ow, ob, oy = {.owned = NULL};
  job j;
  describe(&j, x, &c->args[1], centered);
  j.eps = cni_arg_float(c->args, centered ? 4 : 3);
  j.mean = centered ? cn_desc_of(c->out[1])->data : NULL;
  j.rstd = cn_desc_of(c->out[centered ? 2 : 1])->data;
  cn_tensor *bias = centered ? c->in[2] : NULL;
  bool by_rows = x->dtype != compute && y->dtype == x->dtype && j.n * j.size <= NONTEMPORAL_ROW &&
                 cni_is_contiguous(x->ndim, x->shape, x->strides) && cni_is_contiguous(y->ndim, y->shape, y->strides);
  if (by_rows) {
    j.load = cni_cast_find(x->dtype, compute), j.store = cni_cast_find(compute, x->dtype);
    j.small = (int64_t)cni_dtype_size(x->dtype);
  }
  int status = cni_operand_take(&ox, by_rows ? NULL : x, compute, NULL);
  status |= cni_operand_take(&ow, c->in[1] ? cn_desc_of(c->in[1]) : NULL, compute, NULL);
  status |= cni_operand_take(&ob, bias ? cn_desc_of(bias) : NULL, compute, NULL);
  if (!by_rows) status |= cni_operand_room(&oy, y, compute, NULL);
  if (!status) {
    j.x = by_rows ? x->data : ox.data, j.w = ow.data, j.b = ob.data, j.y = by_rows ? y->data : oy.data;
    j.nontemporal = !by_rows && j.n * j.size <= NONTEMPORAL_ROW && cni_nontemporal_pays(2 * x->numel * j.size);
    cni_parallel_for(j.rows, j.n < GRAIN ? GRAIN / (j.n ? j.n : 1) : 1, forward_rows, &j);
  }
  cni_operand_drop(&ox), cni_operand_drop(&ow), cni_operand_drop(&ob);
  if (!by_rows) cni_operand_put(&oy, y, status);
  return status ? CN_ERR_MEMORY : CN_OK;
}

/* (grad_out, input, normalized_shape, [mean], rstd, weight, output_mask) */
static int backward(cn_call *c, bool centered)
{
  const cn_desc *g = cn_desc_of(c->in[0]), *x = cn_desc_of(c->in[1]), *y = cn_desc_of(c->out[0]);
  const int64_t *mask = c->args[centered ? 6 : 5].u.is;
  int compute = cni_compute_dtype(cni_compute_class(x->dtype)), wants = c->args[centered ? 6 : 5].n;
  cn_tensor *weight = c->in[centered ? 4 : 3];
  cni_operand ox, og, ow, om, os, oy = {.owned = NULL};
  job j;
  describe(&j, x, &c->args[2], centered);
  j.want_w = wants > 1 && mask[1];
  j.want_b = centered && wants > 2 && mask[2];
  bool want_x = wants > 0 && mask[0];
  int status = cni_operand_take(&ox, x, compute, NULL);
  status |= cni_operand_take(&og, g, compute, NULL);
  status |= cni_operand_take(&ow, weight ? cn_desc_of(weight) : NULL, compute, NULL);
  status |= cni_operand_take(&om, centered ? cn_desc_of(c->in[2]) : NULL, compute, NULL);
  status |= cni_operand_take(&os, cn_desc_of(c->in[centered ? 3 : 2]), compute, NULL);
  if (want_x) status |= cni_operand_room(&oy, y, compute, NULL);
  if (!status) {
    j.x = ox.data, j.g = og.data, j.w = ow.data, j.mean = om.data, j.rstd = os.data,
    j.y = want_x ? oy.data : NULL;
    j.nontemporal = j.n * j.size <= NONTEMPORAL_ROW && cni_nontemporal_pays(3 * x->numel * j.size);
    status = j.n ? run_backward(&j, j.want_w ? cn_desc_of(c->out[1]) : NULL,
                                j.want_b ? cn_desc_of(c->out[2]) : NULL)
                 : CN_OK;
  }
  cni_operand_drop(&ox), cni_operand_drop(&og), cni_operand_drop(&ow), cni_operand_drop(&om),
      cni_operand_drop(&os);
  if (want_x) cni_operand_put(&oy, y, status);
  return status ? CN_ERR_MEMORY : CN_OK;
}

static int layer_norm_kernel(cn_call *c) { return forward(c, true); }
static int rms_norm_kernel(cn_call *c) { return forward(c, false); }
static int layer_norm_backward_kernel(cn_call *c) { return backward(c, true); }
static int rms_norm_backward_kernel(cn_call *c) { return backward(c, false); }

const cn_kernel cni_cpu_norm_kernels[] = {
    {"native_layer_norm", "vector loops", layer_norm_kernel},
    {"native_layer_norm_backward", "vector loops", layer_norm_backward_kernel},
    {"native_rms_norm", "vector loops", rms_norm_kernel},
    {"native_rms_norm_backward", "vector loops", rms_norm_backward_kernel},
    {NULL, NULL, NULL},
};
