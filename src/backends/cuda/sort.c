/* sort.c: sort, topk and kthvalue along a dim.
 *
 * Place in the flow: launches of kernels/sort.cu, which says how rows are sorted. Invariant: operands are brought into
 * rows first, the dim innermost, so that kernels know rows alone. */
#include <string.h>

#include "plugin.h"

/* FEW: first ones of a long row that are found by groups, with room for FEW_ITEMS; PART_LEAST: elements of a part. */
enum { SHORT = 2048, FEW = 512, FEW_ITEMS = 2048, PART_LEAST = 8192 };
enum { ITEM_WIDE = 16, ITEM = 8, MOST_ROWS = 65535, BLOCKS_PER_UNIT = 8 };

/* Elements of a block of the radix sort: TILE in kernels/sort.cu. */
static int64_t tile_of(int size) { return (int64_t)CNI_CUDA_THREADS * (size == 8 ? 8 : 16); }

/* As in kernels/sort.cu. */
typedef struct job {
  const void *x;
  void *values, *indices;
  int64_t rows, n, k;
  int32_t flip, only_last, padded, shift;
  int32_t tiles, pass, passes, unused;
  void *keys_in, *keys_out;
  uint32_t *order_in, *order_out, *totals, *tickets;
  uint64_t *status;
  const int64_t *from;
  int64_t part;
} job;

typedef struct call {
  cni_cuda_device *d;
  const char *name;
  int type, size; /* of elements: type, bytes */
  int passes;     /* of a radix sort; 0: as many as the type has bytes */
} call;

static int launch(const call *k, job *j, const char *entry, cni_cuda_grid grid)
{
  cni_cuda_code code = {.file = "sort.cu", .entry = entry, .types = {k->type}};
  return cni_cuda_run(k->d, k->name, &code, grid, j);
}

/* One block per row, or part of one. */
static int by_block(const call *k, job *j, const char *entry, int64_t items)
{
  j->padded = 2;
  while (j->padded < items) j->padded *= 2;
  int64_t most = (int64_t)k->d->units * 32, blocks = j->rows * j->tiles;
  cni_cuda_grid grid = {blocks < most ? blocks : most, 1, CNI_CUDA_THREADS, 0};
  grid.shared = (size_t)j->padded * (size_t)(k->size == 8 ? ITEM_WIDE : ITEM);
  return launch(k, j, entry, grid);
}

/* The first few of rows so few that they leave the device idle: those of parts of a row, and the first of them. */
static int few_by_parts(const call *k, job *j, int64_t parts)
{
  int64_t n = j->rows * parts * j->k;
  size_t value_bytes = ((size_t)n * (size_t)k->size + 255) / 256 * 256, bytes = value_bytes + (size_t)n * 8;
  char *memory = cni_cuda_scratch(k->d, k->name, bytes);
  if (!memory) return CN_ERR_MEMORY;
  job first = *j, then = *j;
  first.tiles = (int32_t)parts;
  first.only_last = 0;
  first.values = memory;
  first.indices = memory + value_bytes;
  then.x = memory;
  then.from = first.indices;
  then.n = parts * j->k;
  then.part = j->n / parts;
  int status = by_block(k, &first, "sort_few", FEW_ITEMS);
  if (!status)
    status = then.n <= SHORT ? by_block(k, &then, "sort_short", then.n) : by_block(k, &then, "sort_few", FEW_ITEMS);
  cni_cuda_free(k->d, memory, bytes);
  return status;
}

static int by_groups(const call *k, job *j)
{
  int64_t wanted = 2 * (int64_t)k->d->units / j->rows, most = j->n / PART_LEAST, parts = wanted < most ? wanted : most;
  return parts > 1 ? few_by_parts(k, j, parts) : by_block(k, j, "sort_few", FEW_ITEMS);
}

/* ---- long rows: eight bits a pass, between two pairs of buffers ---- */

/* Words that are zero when the first pass begins: totals and tickets; and when each does: status. */
static size_t total_words(const job *j) { return (size_t)(j->rows * j->passes) * 257; }
static size_t status_words(const job *j) { return (size_t)(j->rows * j->tiles) * 256; }

static int radix_passes(const call *k, job *j, void *keys[2], uint32_t *orders[2])
{
  int64_t blocks = (j->n + tile_of(k->size) - 1) / tile_of(k->size), most = (int64_t)k->d->units * BLOCKS_PER_UNIT;
  cni_cuda_grid tiles = {j->tiles, j->rows, CNI_CUDA_THREADS, 0};
  j->tickets = j->totals + j->rows * j->passes * 256;
  int status = cni_cuda_zero(k->d, j->totals, total_words(j) * sizeof *j->totals);
  if (!status)
    status = launch(k, j, "radix_totals", (cni_cuda_grid){blocks < most ? blocks : most, j->rows, CNI_CUDA_THREADS, 0});
  for (int i = 0; i < j->passes && !status; i++) {
    j->pass = i;
    j->keys_in = keys[i % 2], j->keys_out = keys[(i + 1) % 2];
    j->order_in = orders[i % 2], j->order_out = orders[(i + 1) % 2];
    status = cni_cuda_zero(k->d, j->status, status_words(j) * sizeof *j->status);
    if (!status) status = launch(k, j, "radix_move", tiles);
  }
  return status;
}

/* So many rows at a time as fit a grid. */
static int by_radix(const call *k, job *whole)
{
  job j = *whole;
  int64_t rows = whole->rows < MOST_ROWS ? whole->rows : MOST_ROWS;
  size_t n = (size_t)(rows * j.n), key = k->size == 8 ? 8 : 4, keys_bytes = (n * key + 255) / 256 * 256;
  size_t order_bytes = (n * 4 + 255) / 256 * 256;
  j.tiles = (int32_t)((j.n + tile_of(k->size) - 1) / tile_of(k->size));
  j.passes = k->passes ? k->passes : k->type == CN_BOOL ? 1 : k->size;
  j.rows = rows;
  size_t status_bytes = status_words(&j) * sizeof *j.status;
  size_t bytes = 2 * keys_bytes + 2 * order_bytes + status_bytes + total_words(&j) * sizeof *j.totals;
  char *memory = cni_cuda_scratch(k->d, k->name, bytes);
  if (!memory) return CN_ERR_MEMORY;
  void *keys[2] = {memory, memory + keys_bytes};
  uint32_t *orders[2] = {(uint32_t *)(void *)(memory + 2 * keys_bytes),
                         (uint32_t *)(void *)(memory + 2 * keys_bytes + order_bytes)};
  j.status = (uint64_t *)(void *)(memory + 2 * keys_bytes + 2 * order_bytes);
  j.totals = (uint32_t *)(void *)((char *)j.status + status_bytes);
  int status = CN_OK;
  for (int64_t done = 0; done < whole->rows && !status; done += rows) {
    j.rows = whole->rows - done < rows ? whole->rows - done : rows;
    j.x = (const char *)whole->x + done * j.n * k->size;
    j.values = whole->values ? (char *)whole->values + done * j.k * k->size : NULL;
    j.indices = (int64_t *)whole->indices + done * j.k;
    status = radix_passes(k, &j, keys, orders);
  }
  cni_cuda_free(k->d, memory, bytes);
  return status;
}

int cni_cuda_order(cni_cuda_device *d, const char *name, const int64_t *keys, int64_t n, int64_t most, int64_t *sorted,
                   int64_t *order)
{
  call k = {.d = d, .name = name, .type = CN_I64, .size = 8, .passes = 1};
  job j = {.x = keys, .values = sorted, .indices = order, .rows = 1, .n = n, .k = n};
  if (n > UINT32_MAX - tile_of(k.size))
    return cni_cuda_host->fail(CN_ERR_UNSUPPORTED, "%s: more than 2^32 places cannot be put in order", name);
  while (k.passes < 8 && most >> (8 * k.passes)) k.passes++;
  return by_radix(&k, &j);
}

/* The k-th alone of long rows where k is large: all of them in order, then one. */
static int by_radix_last(const call *k, job *j, cni_cuda_operand *values, cni_cuda_operand *indices)
{
  job all = *j;
  size_t vbytes = (size_t)(j->rows * j->k * k->size), ibytes = (size_t)(j->rows * j->k) * 8;
  all.only_last = 0;
  all.values = cni_cuda_scratch(k->d, k->name, vbytes);
  all.indices = cni_cuda_scratch(k->d, k->name, ibytes);
  int status = all.values && all.indices ? by_radix(k, &all) : CN_ERR_MEMORY;
  cn_desc from = {.numel = j->rows, .ndim = 1, .dtype = k->type, .device = indices->dense.device};
  from.shape[0] = j->rows;
  from.strides[0] = j->k;
  cn_desc to = from;
  to.strides[0] = 1;
  from.data = (char *)all.values + (j->k - 1) * k->size;
  to.data = values->data;
  if (!status) status = cni_cuda_copy_desc(k->d, k->name, &to, &from);
  from.dtype = to.dtype = CN_I64;
  from.data = (int64_t *)all.indices + j->k - 1;
  to.data = indices->data;
  if (!status) status = cni_cuda_copy_desc(k->d, k->name, &to, &from);
  if (all.values) cni_cuda_free(k->d, all.values, vbytes);
  if (all.indices) cni_cuda_free(k->d, all.indices, ibytes);
  return status;
}

/* ---- the ops ---- */

/* desc with dim moved behind the others. */
static cn_desc with_last(const cn_desc *d, int dim)
{
  cn_desc m = *d;
  if (d->ndim == 0) return m;
  for (int i = dim; i + 1 < d->ndim; i++) m.shape[i] = d->shape[i + 1], m.strides[i] = d->strides[i + 1];
  m.shape[d->ndim - 1] = d->shape[dim];
  m.strides[d->ndim - 1] = d->strides[dim];
  return m;
}

/* A result of kthvalue as if its dim had been kept. */
static cn_desc kept_dim(const cn_desc *y, const cn_desc *x, int dim)
{
  cn_desc m = *y;
  if (y->ndim == x->ndim) return m;
  for (int i = y->ndim; i > dim; i--) m.shape[i] = m.shape[i - 1], m.strides[i] = m.strides[i - 1];
  m.shape[dim] = 1;
  m.strides[dim] = 1;
  m.ndim = x->ndim;
  return m;
}

/* The first k in order of each line along dim; only_last: the k-th. */
static int run(cn_call *c, int dim, bool descending, int64_t count, bool only_last)
{
  const cn_desc *x = cn_desc_of(c->in[0]);
  call k = {cni_cuda_of(c), cni_cuda_host->op_name(c->op), x->dtype, (int)cn_element_size(x->dtype)};
  cni_cuda_operand ox = {0}, ov = {0}, oi = {0};
  if (!k.d) return CN_ERR_DEVICE;
  if (!cni_cuda_known(x->dtype)) return cni_cuda_refuse(c, "a type for storage only");
  if (x->numel == 0 || count == 0) return CN_OK;
  int64_t n = x->ndim ? x->shape[dim] : 1;
  if (n > UINT32_MAX - tile_of(k.size)) return cni_cuda_refuse(c, "a line of more than 2^32 elements");
  cn_desc values = kept_dim(cn_desc_of(c->out[0]), x, dim), indices = kept_dim(cn_desc_of(c->out[1]), x, dim);
  cn_desc mx = with_last(x, dim), mv = with_last(&values, dim), mi = with_last(&indices, dim);
  int status = cni_cuda_take(&ox, k.d, k.name, &mx, 0);
  if (!status) status = cni_cuda_room(&ov, k.d, k.name, &mv, 0);
  if (!status) status = cni_cuda_room(&oi, k.d, k.name, &mi, 0);
  job j = {.x = ox.data, .values = ov.data, .indices = oi.data, .rows = x->numel / n, .n = n, .k = count, .tiles = 1};
  j.flip = descending;
  j.only_last = only_last;
  if (status) (void)0;
  else if (n <= SHORT) status = by_block(&k, &j, "sort_short", n);
  else if (count <= FEW) status = by_groups(&k, &j);
  else if (count <= SHORT) status = by_block(&k, &j, "sort_first", count);
  else if (only_last) status = by_radix_last(&k, &j, &ov, &oi);
  else status = by_radix(&k, &j);
  cni_cuda_drop(&ox, k.d);
  status = cni_cuda_give(&ov, k.d, k.name, status);
  return cni_cuda_give(&oi, k.d, k.name, status);
}

/* sort(input, dim, descending, stable) */
static int sort_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]);
  int dim = cni_cuda_dim(c->args[1].u.i, x->ndim);
  return run(c, dim, c->args[2].u.i != 0, x->ndim ? x->shape[dim] : 1, false);
}

/* topk(input, k, dim, largest, sorted): in order whether asked for or not */
static int topk_kernel(cn_call *c)
{
  int ndim = cn_desc_of(c->in[0])->ndim, dim = cni_cuda_dim(c->args[2].u.i, ndim);
  return run(c, dim, c->args[3].u.i != 0, ndim ? c->args[1].u.i : 1, false);
}

/* kthvalue(input, k, dim, keepdim) */
static int kthvalue_kernel(cn_call *c)
{
  return run(c, cni_cuda_dim(c->args[2].u.i, cn_desc_of(c->in[0])->ndim), false, c->args[1].u.i, true);
}

const cn_kernel cni_cuda_sort_kernels[] = {
    {"sort", "sort.cu", sort_kernel},
    {"topk", "sort.cu", topk_kernel},
    {"kthvalue", "sort.cu", kthvalue_kernel},
    {NULL, NULL, NULL},
};
