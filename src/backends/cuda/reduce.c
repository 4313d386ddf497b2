/* reduce.c: every reduction over dims: sums, products, extremes and where they stand, counts, variances, norms.
 *
 * Place in the flow: plans for the one kernel of kernels/reduce.cu, which says how work is shared. Invariant: the plan
 * depends on shapes, strides and the device alone, so a sum is the same every time. */
#include <math.h>
#include <string.h>

#include "plugin.h"

enum {
  THREADS = CNI_CUDA_THREADS,
  THREADS_PER_UNIT = 2048,
  MOST_PARTS = 65535,
  LEAST_WORK = 16,
  AT_ONCE = 4, /* rows that a thread reads together: ROWS_AT_ONCE in kernels/reduce.cu */
  MANY_PACKS = 16, /* of a lane, where there are lanes enough for the device so */
  LEAST_LANES = 8, /* side by side: they read a line of memory */
  LEAST_LINE = 256, /* bytes */
  FEW_COLUMNS = 64, /* threads side by side where blocks share rows: fewer parts are left to be joined */
  STATE = 24,
  JOINED = 8 /* results side by side in a block that joins parts */
};

/* As in kernels/reduce.cu. */
typedef struct job {
  const void *x;
  void *y, *y2, *partial;
  long long outputs, count, chunk;
  int parts, lanes, columns, nk, nr, stage, vectors, root;
  double number;
  long long ksize[CN_MAX_DIMS], kin[CN_MAX_DIMS];
  long long rsize[CN_MAX_DIMS], rin[CN_MAX_DIMS];
  int64_t per_block; /* results; the kernel does not read it */
} job;

/* ---- the plan ---- */

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

/* Joins neighbouring dims that are one run in memory. */
static int merge(int n, long long *size, long long *stride)
{
  int m = 0;
  for (int i = 1; i < n; i++) {
    bool one = stride[m] == stride[i] * size[i];
    if (one) size[m] *= size[i];
    else size[++m] = size[i];
    stride[m] = stride[i];
  }
  return n ? m + 1 : 0;
}

/* in_order: reduced dims keep the input's order, because elements are numbered. */
static void plan_dims(job *j, const cn_desc *x, uint32_t mask, bool in_order)
{
  j->outputs = j->count = 1;
  for (int i = 0; i < x->ndim; i++) {
    bool reduced = mask >> i & 1;
    *(reduced ? &j->count : &j->outputs) *= x->shape[i];
    if (x->shape[i] == 1) continue;
    if (!reduced) {
      j->ksize[j->nk] = x->shape[i];
      j->kin[j->nk++] = x->strides[i];
      continue;
    }
    int at = j->nr++;
    for (; !in_order && at > 0 && magnitude(j->rin[at - 1]) < magnitude(x->strides[i]); at--) {
      j->rsize[at] = j->rsize[at - 1];
      j->rin[at] = j->rin[at - 1];
    }
    j->rsize[at] = x->shape[i];
    j->rin[at] = x->strides[i];
  }
  j->nk = merge(j->nk, j->ksize, j->kin);
  j->nr = merge(j->nr, j->rsize, j->rin);
}

static int power_of_two(int64_t least, int most)
{
  int n = 1;
  while (n < most && n < least) n *= 2;
  return n;
}

/* How many threads of a block, of which each reads so many bytes, lie side by side over `results`: as many as leave
 * none idle in the last block, if that is enough for whole lines of memory. */
static int side_by_side(int64_t results, int bytes)
{
  int all = power_of_two(results, THREADS);
  int64_t even = results & -results;
  return even * bytes >= LEAST_LINE && even < all ? (int)even : all;
}

/* Elements that a thread takes at a time: 16 bytes (8 elements at most) of one result's (rows, which begin anywhere),
 * or of neighbouring results' (columns). 1: the memory does not allow it. */
static int vector_length(const job *j, int dtype, bool rows)
{
  int size = (int)cn_element_size(dtype), length = 16 / size < 8 ? 16 / size : 8, last = j->nk - 1;
  if (rows) return j->nr == 1 && j->rin[0] == 1 && j->count >= 2 * length ? length : 1;
  bool fits = j->nr == 1 && (uintptr_t)j->x % (uintptr_t)(length * size) == 0 && last >= 0 && j->kin[last] == 1 &&
              j->ksize[last] % length == 0 && j->rin[0] % length == 0;
  for (int i = 0; i < last; i++) fits = fits && j->kin[i] % length == 0;
  return fits ? length : 1;
}

/* Threads that share a row of `packs`: few, with several packs each, where there are rows enough to fill the device. */
static int row_lanes(int64_t rows, int64_t packs, int units)
{
  int64_t least = packs < LEAST_LANES ? packs : LEAST_LANES, few = packs / MANY_PACKS;
  int lanes = power_of_two(few > least ? few : least, THREADS);
  if (rows * lanes >= (int64_t)units * THREADS_PER_UNIT * 2) return lanes;
  return power_of_two(rows >= (int64_t)units * 8 ? packs / AT_ONCE : packs, THREADS);
}

/* columns: the op folds several results in one thread. */
static void plan_work(job *j, int units, int dtype, bool columns)
{
  bool rows = j->nr && (!j->nk || magnitude(j->rin[j->nr - 1]) <= magnitude(j->kin[j->nk - 1]));
  int length = rows || columns ? vector_length(j, dtype, rows) : 1;
  int64_t results = rows ? j->outputs : j->outputs / length; /* threads side by side over results */
  j->vectors = length > 1;
  j->columns = !rows;
  if (rows) j->lanes = row_lanes(j->outputs, j->count / length, units);
  else {
    int side = side_by_side(results, length * (int)cn_element_size(dtype));
    if (length > 1 && side > FEW_COLUMNS) side = FEW_COLUMNS;
    j->lanes = THREADS / side;
    int64_t least = results <= THREADS ? AT_ONCE : LEAST_WORK; /* where blocks are few, threads wait for memory once */
    while (j->lanes > 1 && j->lanes * least > j->count) j->lanes /= 2;
  }
  /* Threads that take 16 bytes of several rows at a time fill the device sooner. */
  int64_t wanted = (int64_t)units * (THREADS_PER_UNIT >> (!rows && length > 1)) / (results * j->lanes);
  int64_t each = (int64_t)j->lanes * (rows ? length : 1), most = j->count / (each * LEAST_WORK);
  int64_t parts = wanted < most ? wanted : most;
  if (parts > MOST_PARTS) parts = MOST_PARTS;
  if (parts < 1) parts = 1;
  j->chunk = (j->count + parts - 1) / parts;
  j->chunk = (j->chunk + each - 1) / each * each;
  j->parts = j->count ? (int)((j->count + j->chunk - 1) / j->chunk) : 1;
  j->per_block = THREADS / j->lanes * (rows ? 1 : length);
}

static uint32_t mask_of(const cn_value *dims, int ndim)
{
  uint32_t mask = 0;
  if (dims->tag == CN_V_NONE || (dims->tag != CN_V_INT && dims->n == 0)) return ndim ? (1u << ndim) - 1 : 1;
  for (int i = 0; i < (dims->tag == CN_V_INT ? 1 : dims->n); i++)
    mask |= 1u << cni_cuda_dim(dims->tag == CN_V_INT ? dims->u.i : dims->u.is[i], ndim);
  return mask;
}

/* ---- launching ---- */

static int launch(cni_cuda_device *d, const char *name, job *j, const cni_cuda_code *code)
{
  cni_cuda_code first = *code;
  if (j->columns && j->vectors) {
    first.entry = "reduce_columns";
    first.number |= 8; /* COLUMNS in kernels/reduce.cu */
  }
  size_t bytes = (size_t)j->outputs * (size_t)j->parts * STATE;
  if (j->parts > 1 && !(j->partial = cni_cuda_scratch(d, name, bytes))) return CN_ERR_MEMORY;
  int64_t per = j->per_block;
  cni_cuda_grid grid = {(j->outputs + per - 1) / per, j->parts, THREADS, 0};
  int status = cni_cuda_run(d, name, &first, grid, j);
  if (j->parts == 1) return status;
  j->stage = 1;
  j->columns = 1; /* parts lie behind each other */
  j->lanes = THREADS / power_of_two(j->outputs, JOINED);
  while (j->lanes > 1 && j->lanes > j->parts) j->lanes /= 2;
  per = THREADS / j->lanes;
  grid = (cni_cuda_grid){(j->outputs + per - 1) / per, 1, THREADS, 0};
  if (!status) status = cni_cuda_run(d, name, code, grid, j);
  cni_cuda_free(d, j->partial, bytes); /* whoever gets it next comes after in the stream */
  return status;
}

/* What one op asks of the engine. */
typedef struct request {
  const char *op;           /* in kernels/reduce.cu */
  const cn_value *dims;     /* NULL: all */
  const cn_desc *y, *index; /* results; either may be NULL */
  int type;                 /* T1 */
  bool in_order, root;
  int order;                /* N */
  double number;
} request;

static int reduce(cn_call *c, const request *r)
{
  static const cn_value all = {CN_V_NONE, 0, {0}};
  const cn_desc *x = cn_desc_of(c->in[0]);
  cni_cuda_device *d = cni_cuda_of(c);
  job j;
  if (!d) return CN_ERR_DEVICE;
  if (!cni_cuda_known(x->dtype) || !cni_cuda_known(r->type)) return cni_cuda_refuse(c, "a type for storage only");
  memset(&j, 0, sizeof j);
  j.x = x->data;
  j.y = r->y ? r->y->data : NULL;
  j.y2 = r->index ? r->index->data : NULL;
  j.root = r->root;
  j.number = r->number;
  const cn_desc *shaped = r->y ? r->y : r->index; /* all(x, dim=[]) reduces nothing: its result has x's shape */
  bool none = r->dims && r->dims->tag == CN_V_INTS && r->dims->n == 0 && shaped->ndim == x->ndim &&
              !memcmp(shaped->shape, x->shape, (size_t)x->ndim * sizeof *x->shape);
  plan_dims(&j, x, none ? 0 : mask_of(r->dims ? r->dims : &all, x->ndim), r->in_order);
  if (j.outputs == 0) return CN_OK;
  bool heavy = !strcmp(r->op, "var_op") || !strcmp(r->op, "logsumexp_op"); /* too long for several results a thread */
  plan_work(&j, d->units, x->dtype, !heavy);
  cni_cuda_code code = {.file = "reduce.cu", .entry = "reduce", .types = {x->dtype, r->type}, .op = r->op};
  code.number = r->order;
  return launch(d, cni_cuda_host->op_name(c->op), &j, &code);
}

/* ---- the ops ---- */

static const cn_desc *result(const cn_call *c, int i) { return cn_desc_of(c->out[i]); }

static double number_of(const cn_value *v) { return v->tag == CN_V_FLOAT ? v->u.f : (double)v->u.i; }

/* (input, dim, ...) with one result */
static int listed(cn_call *c, const char *op)
{
  request r = {.op = op, .dims = &c->args[1], .y = result(c, 0), .type = result(c, 0)->dtype};
  return reduce(c, &r);
}
static int sum_kernel(cn_call *c) { return listed(c, "sum_op"); }
static int mean_kernel(cn_call *c) { return listed(c, "mean_op"); }
static int prod_dim_kernel(cn_call *c) { return listed(c, "prod_op"); }
static int any_kernel(cn_call *c) { return listed(c, "any_op"); }
static int all_kernel(cn_call *c) { return listed(c, "all_op"); }
static int count_kernel(cn_call *c) { return listed(c, "count_op"); }
static int amax_kernel(cn_call *c) { return listed(c, "max_op"); }
static int amin_kernel(cn_call *c) { return listed(c, "min_op"); }
static int logsumexp_kernel(cn_call *c)
{
  if (!cni_cuda_is_float(cn_desc_of(c->in[0])->dtype)) return cni_cuda_refuse(c, "integers are cast first");
  return listed(c, "logsumexp_op");
}

/* (input) over all dims */
static int whole(cn_call *c, const char *op)
{
  request r = {.op = op, .y = result(c, 0), .type = result(c, 0)->dtype};
  return reduce(c, &r);
}
static int prod_kernel(cn_call *c) { return whole(c, "prod_op"); }
static int max_kernel(cn_call *c) { return whole(c, "max_op"); }
static int min_kernel(cn_call *c) { return whole(c, "min_op"); }

/* argmax(input, dim, keepdim); max_dim(input, dim, keepdim) -> (values, indices) */
static int position(cn_call *c, const char *op, bool values)
{
  request r = {.op = op, .dims = &c->args[1], .in_order = true, .type = cn_desc_of(c->in[0])->dtype};
  if (values) r.y = result(c, 0);
  r.index = result(c, values ? 1 : 0);
  return reduce(c, &r);
}
static int argmax_kernel(cn_call *c) { return position(c, "max_op", false); }
static int argmin_kernel(cn_call *c) { return position(c, "min_op", false); }
static int max_dim_kernel(cn_call *c) { return position(c, "max_op", true); }
static int min_dim_kernel(cn_call *c) { return position(c, "min_op", true); }

/* var(input, dim, correction, keepdim), and with the mean */
static int variance(cn_call *c, bool root)
{
  request r = {.op = "var_op", .dims = &c->args[1], .y = result(c, 0), .type = result(c, 0)->dtype, .root = root};
  r.number = number_of(&c->args[2]);
  if (c->nout > 1) r.index = result(c, 1); /* the kernel's second result is the mean */
  return reduce(c, &r);
}
static int var_kernel(cn_call *c) { return variance(c, false); }
static int std_kernel(cn_call *c) { return variance(c, true); }

/* linalg_vector_norm(input, ord, dim, keepdim, dtype): orders 1, 2 and infinity, which is 3 there; the others, and what
 * has no largest element, are left to the decomposition. */
static int norm_kernel(cn_call *c)
{
  double order = number_of(&c->args[1]);
  request r = {.op = "norm_op", .dims = &c->args[2], .y = result(c, 0), .type = result(c, 0)->dtype};
  bool largest = order == HUGE_VAL && cn_desc_of(c->in[0])->numel;
  r.order = largest ? 3 : order == 1 ? 1 : 2;
  if (order != 1 && order != 2 && !largest) return cni_cuda_refuse(c, "an order that its decomposition does as well");
  if (!cni_cuda_is_float(r.type)) return cni_cuda_refuse(c, "not for this type");
  return reduce(c, &r);
}

const cn_kernel cni_cuda_reduce_kernels[] = {
    {"sum", "reduce.cu", sum_kernel},
    {"mean", "reduce.cu", mean_kernel},
    {"prod", "reduce.cu", prod_kernel},
    {"prod_dim", "reduce.cu", prod_dim_kernel},
    {"any", "reduce.cu", any_kernel},
    {"all", "reduce.cu", all_kernel},
    {"count_nonzero", "reduce.cu", count_kernel},
    {"amax", "reduce.cu", amax_kernel},
    {"amin", "reduce.cu", amin_kernel},
    {"max", "reduce.cu", max_kernel},
    {"min", "reduce.cu", min_kernel},
    {"argmax", "reduce.cu", argmax_kernel},
    {"argmin", "reduce.cu", argmin_kernel},
    {"max_dim", "reduce.cu", max_dim_kernel},
    {"min_dim", "reduce.cu", min_dim_kernel},
    {"var", "reduce.cu", var_kernel},
    {"std", "reduce.cu", std_kernel},
    {"var_mean", "reduce.cu", var_kernel},
    {"std_mean", "reduce.cu", std_kernel},
    {"linalg_vector_norm", "reduce.cu", norm_kernel},
    {"logsumexp", "reduce.cu", logsumexp_kernel},
    {NULL, NULL, NULL},
};
