/* sparse_convert.c: the family of ops between dense tensors and sparse layouts.
 *
 * Place in the flow: composites over index_add (to_dense), index_select (to_sparse) and ops on indices. Compressed
 * layouts are all read alike: as a batch of matrices of blocks, of 1 x 1 where there are none. Invariant: the gradient
 * of a value is that of its place. */
#include <cairn/ext/parts.h>

#include "api.gen.h"
#include "families.h"
#include "sparse.h"

/* ---- indices ---- */

cn_tensor *cni_rows_of(cn_tensor *crow, int64_t n)
{
  cn_tensor *each = crow ? cni_in_type(cn_diff(crow, NULL, NULL), CN_I64) : NULL;
  return each ? cn_repeat_interleave_indices(each, n) : NULL;
}

cn_tensor *cni_begins_of(cn_tensor *rows, int64_t count)
{
  cn_tensor *all = rows ? cn_arange(0, (double)count + 1, .dtype = CN_I64, .device = cn_device_of(rows)) : NULL;
  return all ? cn_searchsorted(rows, all, NULL) : NULL;
}

/* A compressed tensor as it is read: blocks (b, r, c) of sizes `block`, where b counts batches. */
typedef struct grid {
  cn_tensor *b, *r, *c, *values; /* (n), (n), (n), (n, block..., dense...); n counts over all batches */
  int64_t batches, rows, cols, block[2];
  int batch_dims, dense_dim;
} grid;

static int read_grid(grid *g, cn_tensor *s)
{
  const cni_sparse *p = s->sparse;
  const cn_desc *v = &p->values->d;
  int by_rows = cni_by_rows(s->d.layout), blocks = cni_in_blocks(s->d.layout);
  g->dense_dim = p->dense_dim;
  g->batch_dims = s->d.ndim - 2 - p->dense_dim;
  g->batches = cni_sizes_times(s->d.shape, g->batch_dims);
  for (int i = 0; i < 2; i++) g->block[i] = blocks ? v->shape[g->batch_dims + 1 + i] : 1;
  g->rows = g->block[0] ? s->d.shape[g->batch_dims] / g->block[0] : 0;
  g->cols = g->block[1] ? s->d.shape[g->batch_dims + 1] / g->block[1] : 0;
  int64_t count = by_rows ? g->rows : g->cols, n = v->shape[g->batch_dims], shape[CN_MAX_DIMS + 2];
  cn_tensor *each = cn_reshape(cn_diff(p->index, NULL, NULL), CN_SHAPE(g->batches * count));
  cn_tensor *number = cn_repeat_interleave_indices(cni_in_type(each, CN_I64), g->batches * n);
  cn_tensor *plain = cni_in_type(cn_reshape(p->plain, CN_SHAPE(g->batches * n)), CN_I64);
  cn_tensor *size = cn_int(count ? count : 1);
  g->b = cn_floor_divide(number, size);
  cn_tensor *major = cn_remainder(number, size);
  g->r = by_rows ? major : plain;
  g->c = by_rows ? plain : major;
  int k = 0;
  shape[k++] = g->batches * n;
  shape[k++] = g->block[0];
  shape[k++] = g->block[1];
  for (int i = 0; i < g->dense_dim; i++) shape[k++] = v->shape[v->ndim - g->dense_dim + i];
  g->values = cn_reshape(p->values, shape, (size_t)k);
  return cn_err();
}

/* ---- to_dense ---- */

/* values (n, dense...) at their keys, in a tensor of that shape. */
static cn_tensor *spread(cn_tensor *keys, cn_tensor *values, int64_t count, int ndim, const int64_t *shape)
{
  int64_t flat[CN_MAX_DIMS + 3];
  if (!keys || !values) return NULL;
  cn_dtype dtype = cn_dtype_of(values), sums = dtype == CN_BOOL ? CN_U8 : dtype;
  memcpy(flat, values->d.shape, (size_t)values->d.ndim * sizeof *flat);
  flat[0] = count;
  cn_tensor *zeros = cn_zeros(flat, (size_t)values->d.ndim, .dtype = sums, .device = cn_device_of(values));
  cn_tensor *sum = cn_index_add(zeros, 0, keys, cni_in_type(values, (int)sums));
  return cn_reshape(cni_in_type(sum, (int)dtype), shape, (size_t)ndim);
}

static cn_tensor *coo_to_dense(cn_tensor *s)
{
  int dims = cni_sparse_dims(s);
  return spread(cni_keys(s->sparse->index, dims, s->d.shape), s->sparse->values, cni_sizes_times(s->d.shape, dims),
                s->d.ndim, s->d.shape);
}

/* (b, r, c, block, dense) -> (b, r, block rows, c, block columns, dense) -> the shape of s */
static cn_tensor *grid_to_dense(cn_tensor *s)
{
  grid g;
  int64_t shape[CN_MAX_DIMS + 3], order[CN_MAX_DIMS + 3] = {0, 1, 3, 2, 4};
  if (read_grid(&g, s)) return NULL;
  cn_tensor *rows = cn_add(cn_mul(g.b, cn_int(g.rows)), g.r), *keys = cn_add(cn_mul(rows, cn_int(g.cols)), g.c);
  int n = 0;
  const int64_t sizes[] = {g.batches, g.rows, g.cols, g.block[0], g.block[1]};
  for (; n < 5; n++) shape[n] = sizes[n];
  for (int i = 0; i < g.dense_dim; i++, n++) shape[n] = s->d.shape[s->d.ndim - g.dense_dim + i], order[n] = n;
  if (n > CN_MAX_DIMS) return cni_fail(CN_ERR_SHAPE, "to_dense: too many dimensions"), NULL;
  cn_tensor *blocks = spread(keys, g.values, g.batches * g.rows * g.cols, n, shape);
  return cn_reshape(cn_permute(blocks, order, (size_t)n), s->d.shape, (size_t)s->d.ndim);
}

cn_tensor *cni_dense(cn_tensor *s)
{
  if (!s || !cni_is_sparse(s)) return s;
  return cni_is_coo(s) ? coo_to_dense(s) : grid_to_dense(s);
}

static int to_dense_decompose(cn_call *c)
{
  if (!cni_arg_none(c->args, 2) && !cni_arg_bool(c->args, 2) && cni_is_sparse(c->in[0]) && cn_needs_grad(c->in[0]))
    return cn_call_fail(c, CN_ERR_UNSUPPORTED, "masked_grad=False is not there: the gradient of a sparse tensor has "
                        "its places");
  cn_tensor *dense = cni_dense(c->in[0]);
  c->out[0] = cni_arg_none(c->args, 1) || !dense ? dense : cni_in_type(dense, (int)cni_arg_int(c->args, 1));
  return cn_err();
}

/* ---- to COO ---- */

/* The places where x, (sparse..., dense...), has something, and what. */
static cn_tensor *dense_to_coo(cn_tensor *x, int dims)
{
  int64_t flat[CN_MAX_DIMS + 1];
  int dense = x->d.ndim - dims;
  cn_tensor *there = cn_ne(cn_detach(x), cn_int(0));
  if (dims == 0) there = cn_any(cn_reshape(there, CN_SHAPE(-1)));
  else if (dense) {
    memcpy(flat, x->d.shape, (size_t)dims * sizeof *flat);
    flat[dims] = cni_sizes_times(x->d.shape + dims, dense);
    there = cn_any(cn_reshape(there, flat, (size_t)dims + 1), .dim = CN_INTS(-1));
  }
  cn_tensor *places = cn_nonzero(there);
  if (!places) return NULL;
  cn_tensor *indices = cn_contiguous(cn_transpose(places, 0, 1));
  flat[0] = cni_sizes_times(x->d.shape, dims);
  memcpy(flat + 1, x->d.shape + dims, (size_t)dense * sizeof *flat);
  cn_tensor *rows = cn_reshape(x, flat, (size_t)dense + 1);
  return cni_coo(indices, cn_index_select(rows, 0, cni_keys(indices, dims, x->d.shape)), x->d.ndim, x->d.shape, true);
}

/* Every element of every block, (n * block rows * block columns); blocks of 1 x 1 as they are. */
static cn_tensor *grid_to_coo(cn_tensor *s)
{
  grid g;
  cn_tensor *rows[CN_MAX_DIMS];
  int64_t shape[CN_MAX_DIMS + 2];
  if (read_grid(&g, s)) return NULL;
  int64_t n = cn_size(g.values, 0), block = g.block[0] * g.block[1];
  bool blocks = cni_in_blocks(s->d.layout), order = s->d.layout == CN_LAYOUT_CSR;
  if (blocks) {
    cn_tensor *within = cn_arange(0, (double)block, .dtype = CN_I64, .device = s->d.device);
    cn_tensor *wide = cn_int(g.block[1] ? g.block[1] : 1);
    g.r = cn_flatten(cn_add(cn_unsqueeze(cn_mul(g.r, cn_int(g.block[0])), 1), cn_floor_divide(within, wide)));
    g.c = cn_flatten(cn_add(cn_unsqueeze(cn_mul(g.c, cn_int(g.block[1])), 1), cn_remainder(within, wide)));
    g.b = cn_repeat_interleave(g.b, block, 0);
  }
  for (int i = g.batch_dims - 1; i >= 0; i--) {
    cn_tensor *size = cn_int(s->d.shape[i] ? s->d.shape[i] : 1);
    rows[i] = cn_remainder(g.b, size);
    g.b = cn_floor_divide(g.b, size);
  }
  rows[g.batch_dims] = g.r;
  rows[g.batch_dims + 1] = g.c;
  shape[0] = n * block;
  memcpy(shape + 1, s->d.shape + s->d.ndim - g.dense_dim, (size_t)g.dense_dim * sizeof *shape);
  cn_tensor *values = cn_reshape(g.values, shape, (size_t)g.dense_dim + 1);
  cn_tensor *indices = cn_err() ? NULL : cn_stack(rows, (size_t)g.batch_dims + 2, .dim = 0);
  cn_tensor *coo = cni_coo(indices, values, s->d.ndim, s->d.shape, order);
  return order ? coo : cni_coalesced(coo);
}

cn_tensor *cni_as_coo(cn_tensor *s) { return !s || !cni_is_sparse(s) || cni_is_coo(s) ? s : grid_to_coo(s); }

/* Other dims sparse than before: dense ones become indices of all their elements, and the other way round. */
static cn_tensor *with_sparse_dims(cn_tensor *s, int dims)
{
  return dims == cni_sparse_dims(s) ? s : dense_to_coo(cni_dense(s), dims);
}

static int bad_layout(const cn_call *c, const char *name)
{
  return cn_call_fail(c, CN_ERR_VALUE, "'%s' is not a layout that can be asked for", name);
}

/* ---- to compressed layouts ---- */

/* (b, r, block rows, c, block columns, dense) of x, (batch..., rows, columns, dense...), as (b, r, c, ...), or
 * (b, c, r, ...) for layouts by columns. */
static cn_tensor *in_grid(cn_tensor *x, const grid *g, bool by_rows)
{
  int64_t shape[CN_MAX_DIMS + 5] = {g->batches, g->rows, g->block[0], g->cols, g->block[1]};
  int64_t order[CN_MAX_DIMS + 5] = {0, by_rows ? 1 : 3, by_rows ? 3 : 1, 2, 4};
  int n = 5;
  for (int i = 0; i < g->dense_dim; i++, n++) shape[n] = x->d.shape[x->d.ndim - g->dense_dim + i], order[n] = n;
  if (n > CN_MAX_DIMS) return cni_fail(CN_ERR_SHAPE, "to_sparse: too many dimensions"), NULL;
  return cn_contiguous(cn_permute(cn_reshape(x, shape, (size_t)n), order, (size_t)n));
}

/* The numbers of the blocks (b, major, minor) that are there, (n), in order; from a dense tensor of blocks. */
static cn_tensor *blocks_there(cn_tensor *blocks)
{
  int64_t count = cni_sizes_times(blocks->d.shape, 3);
  int64_t size = cni_sizes_times(blocks->d.shape + 3, blocks->d.ndim - 3);
  cn_tensor *each = cn_reshape(cn_ne(cn_detach(blocks), cn_int(0)), CN_SHAPE(count, size));
  cn_tensor *found = cn_nonzero(cn_any(each, .dim = CN_INTS(1)));
  return cn_reshape(found, CN_SHAPE(-1));
}

/* Keys of the blocks in order, and their values, as parts of a compressed tensor; the same number in each batch. */
static cn_tensor *press(const cn_call *c, cn_layout layout, cn_tensor *keys, cn_tensor *values, const grid *g,
                        int ndim, const int64_t *shape)
{
  int64_t major = cni_by_rows(layout) ? g->rows : g->cols, minor = cni_by_rows(layout) ? g->cols : g->rows;
  int64_t sizes[CN_MAX_DIMS + 3], n = g->batches ? cn_size(keys, 0) / g->batches : 0;
  if (cn_err()) return NULL;
  cn_tensor *lines = cn_floor_divide(keys, cn_int(minor ? minor : 1));
  cn_tensor *first = cn_arange(0, (double)g->batches, .dtype = CN_I64, .device = cn_device_of(keys));
  cn_tensor *begins = cni_begins_of(lines, g->batches * major);
  if (g->batches != 1) { /* each batch has its own beginning */
    cn_tensor *at = cn_add(cn_unsqueeze(cn_mul(first, cn_int(major)), 1),
                           cn_arange(0, (double)major + 1, .dtype = CN_I64, .device = cn_device_of(keys)));
    cn_tensor *bases = cn_mul(first, cn_int(n));
    begins = cn_sub(cn_reshape(cn_index_select(begins, 0, cn_flatten(at)), CN_SHAPE(g->batches, major + 1)),
                    cn_unsqueeze(bases, 1));
    cn_tensor *ends = g->batches && begins ? cn_select(begins, 1, -1) : NULL;
    if (ends && !cn_check_within(ends, (double)n, (double)n, "to_sparse: each batch must have as many values"))
      return NULL;
    if (!begins || cn_err()) return NULL;
  }
  int k = g->batch_dims;
  memcpy(sizes, shape, (size_t)k * sizeof *sizes);
  sizes[k] = major + 1;
  cn_tensor *index = cn_reshape(begins, sizes, (size_t)k + 1);
  sizes[k] = n;
  cn_tensor *plain = cn_reshape(cn_remainder(keys, cn_int(minor ? minor : 1)), sizes, (size_t)k + 1);
  k++;
  if (cni_in_blocks(layout)) sizes[k++] = g->block[0], sizes[k++] = g->block[1];
  for (int i = 0; i < g->dense_dim; i++) sizes[k++] = shape[ndim - g->dense_dim + i];
  (void)c;
  return cni_compressed(layout, index, plain, cn_reshape(values, sizes, (size_t)k), ndim, shape, g->dense_dim);
}

static int read_sizes(const cn_call *c, grid *g, const cn_tensor *x, const int64_t *block, int dense_dim)
{
  *g = (grid){.block = {block[0], block[1]}, .dense_dim = dense_dim, .batch_dims = x->d.ndim - 2 - dense_dim};
  if (g->batch_dims < 0 || dense_dim < 0)
    return cn_call_fail(c, CN_ERR_SHAPE, "needs at least two dimensions besides the dense ones, but input has %d",
                        x->d.ndim);
  g->batches = cni_sizes_times(x->d.shape, g->batch_dims);
  const int64_t *size = x->d.shape + g->batch_dims;
  if (block[0] < 1 || block[1] < 1 || size[0] % block[0] || size[1] % block[1])
    return cn_call_fail(c, CN_ERR_SHAPE, "a matrix of %lld x %lld does not consist of blocks of %lld x %lld",
                        (long long)size[0], (long long)size[1], (long long)block[0], (long long)block[1]);
  g->rows = size[0] / block[0];
  g->cols = size[1] / block[1];
  return CN_OK;
}

/* A COO matrix, whose places stay though a value is zero, by rows or columns. */
static cn_tensor *coo_to_lines(const cn_call *c, cn_tensor *s, cn_layout layout)
{
  grid g;
  s = cni_coalesced(s);
  if (!s || read_sizes(c, &g, s, (int64_t[]){1, 1}, s->sparse->dense_dim)) return NULL;
  cn_tensor *keys = cni_keys(s->sparse->index, 2, s->d.shape), *values = s->sparse->values;
  if (!cni_by_rows(layout)) {
    cn_tensor *indices = s->sparse->index, *order;
    keys = cn_add(cn_mul(cni_index_row(indices, 1), cn_int(g.rows)), cni_index_row(indices, 0));
    if (cn_sort(&keys, &order, keys, .stable = true)) return NULL;
    values = cn_index_select(values, 0, order);
  }
  return press(c, layout, keys, values, &g, s->d.ndim, s->d.shape);
}

static cn_tensor *to_compressed(const cn_call *c, cn_tensor *x, cn_layout layout, const int64_t *block, int dense_dim)
{
  grid g;
  if (!x || cn_err()) return NULL;
  if (x->d.layout == (int)layout && !cni_in_blocks(layout)) return x;
  if (cni_is_sparse(x) && !cni_in_blocks(layout)) {
    cn_tensor *coo = cni_as_coo(x);
    if (coo && cni_sparse_dims(coo) == 2) return coo_to_lines(c, coo, layout);
  }
  if (cni_is_sparse(x)) dense_dim = x->sparse->dense_dim, x = cni_dense(x);
  if (!x || read_sizes(c, &g, x, block, dense_dim)) return NULL;
  cn_tensor *blocks = in_grid(x, &g, cni_by_rows(layout)), *keys = blocks ? blocks_there(blocks) : NULL;
  if (!keys) return NULL;
  int64_t flat[CN_MAX_DIMS];
  flat[0] = cni_sizes_times(blocks->d.shape, 3);
  memcpy(flat + 1, blocks->d.shape + 3, (size_t)(blocks->d.ndim - 3) * sizeof *flat);
  cn_tensor *values = cn_index_select(cn_reshape(blocks, flat, (size_t)blocks->d.ndim - 2), 0, keys);
  return press(c, layout, keys, values, &g, x->d.ndim, x->d.shape);
}

cn_tensor *cni_in_layout_of(cn_tensor *s, const cn_tensor *like)
{
  const cn_call c = {.op = cni_ops[CNI_OP_to_sparse]->row}; /* as errors name it */
  int64_t block[2] = {1, 1};
  if (!s || s->d.layout == like->d.layout || cni_is_coo(like)) return cni_as_coo(s);
  if (cni_in_blocks(like->d.layout))
    memcpy(block, like->sparse->values->d.shape + like->sparse->plain->d.ndim, sizeof block);
  return to_compressed(&c, s, cn_layout_of(like), block, like->sparse->dense_dim);
}

/* ---- the ops ---- */

static int block_of(const cn_call *c, int at, int64_t *block)
{
  const cn_value *v = &c->args[at];
  block[0] = block[1] = 1;
  if (v->tag == CN_V_NONE) return cn_call_fail(c, CN_ERR_VALUE, "blocksize must be given for layouts of blocks");
  if (v->n != 2) return cn_call_fail(c, CN_ERR_VALUE, "blocksize must be two numbers, not %d", v->n);
  memcpy(block, v->u.is, sizeof(int64_t[2]));
  return CN_OK;
}

/* to_sparse(input, sparse_dim, layout, blocksize, dense_dim) */
static int to_sparse_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0];
  const char *name = cni_arg_none(c->args, 2) ? "coo" : cni_arg_str(c->args, 2);
  int64_t block[2] = {1, 1};
  if (!strncmp(name, "sparse_", 7)) name += 7;
  if (!strcmp(name, "coo")) {
    int given = x->d.ndim - (cni_is_sparse(x) ? x->sparse->dense_dim : (int)cni_arg_int_or(c->args, 4, 0));
    int64_t dims = cni_arg_int_or(c->args, 1, given);
    if (dims < 0 || dims > x->d.ndim || (dims == 0 && x->d.ndim > 0))
      return cn_call_fail(c, CN_ERR_VALUE, "sparse_dim must be between 1 and %d, but is %lld", x->d.ndim,
                          (long long)dims);
    c->out[0] = cni_is_sparse(x) ? with_sparse_dims(cni_as_coo(x), (int)dims) : dense_to_coo(x, (int)dims);
    return cn_err();
  }
  static const char *const names[] = {"csr", "csc", "bsr", "bsc"};
  int at = 0;
  while (at < 4 && strcmp(names[at], name) != 0) at++;
  if (at == 4) return bad_layout(c, name);
  cn_layout layout = (cn_layout)(CN_LAYOUT_CSR + at);
  if (cni_in_blocks(layout) && block_of(c, 3, block)) return cn_err();
  c->out[0] = to_compressed(c, x, layout, block, (int)cni_arg_int_or(c->args, 4, 0));
  return cn_err();
}

static int to_lines(cn_call *c, cn_layout layout)
{
  c->out[0] = to_compressed(c, c->in[0], layout, (int64_t[]){1, 1}, (int)cni_arg_int_or(c->args, 1, 0));
  return cn_err();
}
static int to_blocks(cn_call *c, cn_layout layout)
{
  int64_t block[2];
  if (block_of(c, 1, block)) return cn_err();
  c->out[0] = to_compressed(c, c->in[0], layout, block, (int)cni_arg_int_or(c->args, 2, 0));
  return cn_err();
}
static int to_sparse_csr_decompose(cn_call *c) { return to_lines(c, CN_LAYOUT_CSR); }
static int to_sparse_csc_decompose(cn_call *c) { return to_lines(c, CN_LAYOUT_CSC); }
static int to_sparse_bsr_decompose(cn_call *c) { return to_blocks(c, CN_LAYOUT_BSR); }
static int to_sparse_bsc_decompose(cn_call *c) { return to_blocks(c, CN_LAYOUT_BSC); }

/* ---- sparse_mask(input, mask) ---- */

/* Rows of `sparse` at the keys of another's places, zeros where it has none. Both in order. */
static cn_tensor *values_at(cn_tensor *s, cn_tensor *keys)
{
  int dims = cni_sparse_dims(s);
  cn_tensor *have = cni_keys(s->sparse->index, dims, s->d.shape);
  int64_t n = cn_size(have, 0);
  if (cn_err()) return NULL;
  if (n == 0) {
    int64_t shape[CN_MAX_DIMS];
    memcpy(shape, s->sparse->values->d.shape, (size_t)s->sparse->values->d.ndim * sizeof *shape);
    shape[0] = cn_size(keys, 0);
    return cn_zeros(shape, (size_t)s->sparse->values->d.ndim, .dtype = cn_dtype_of(s), .device = cn_device_of(s));
  }
  cn_tensor *at = cn_clamp_max(cn_searchsorted(have, keys, NULL), cn_int(n - 1));
  cn_tensor *hit = cn_eq(cn_index_select(have, 0, at), keys);
  cn_tensor *rows = cn_index_select(s->sparse->values, 0, at);
  int64_t shape[CN_MAX_DIMS] = {-1};
  for (int i = 1; rows && i < rows->d.ndim; i++) shape[i] = 1;
  return rows ? cn_where(cn_reshape(hit, shape, (size_t)rows->d.ndim), rows, cn_int(0)) : NULL;
}

static cn_tensor *mask_coo(cn_tensor *x, cn_tensor *mask)
{
  int dims = cni_sparse_dims(mask), dense = mask->sparse->dense_dim;
  int64_t flat[CN_MAX_DIMS + 1] = {cni_sizes_times(mask->d.shape, dims)};
  cn_tensor *keys = cni_keys(mask->sparse->index, dims, mask->d.shape);
  if (cni_is_sparse(x)) {
    x = cni_coalesced(cni_as_coo(x));
    return cni_with_values(mask, x ? values_at(x, keys) : NULL);
  }
  memcpy(flat + 1, mask->d.shape + dims, (size_t)dense * sizeof *flat);
  return cni_with_values(mask, cn_index_select(cn_reshape(x, flat, (size_t)dense + 1), 0, keys));
}

static int sparse_mask_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0], *mask = c->in[1];
  if (!cni_is_sparse(mask)) return cn_call_fail(c, CN_ERR_TYPE, "mask must be sparse");
  if (!cn_same_shape(x, mask)) return cn_call_fail(c, CN_ERR_SHAPE, "input and mask must have the same shape");
  cn_tensor *places = cni_coalesced(cni_as_coo(mask));
  cn_tensor *have = cni_as_coo(x);
  if (!places || !have) return cn_err();
  if (cni_is_sparse(x) && cni_sparse_dims(have) != cni_sparse_dims(places))
    return cn_call_fail(c, CN_ERR_SHAPE, "input and mask must have as many sparse dimensions");
  cn_tensor *masked = mask_coo(have, places);
  c->out[0] = masked ? cni_in_layout_of(masked, mask) : NULL;
  return cn_err();
}

/* ---- sparse_spdiags(diagonals, offsets, shape, layout) ---- */

/* Row i of diagonals lies at (j - offset, j), for each column j within the shape. */
static int sparse_spdiags_decompose(cn_call *c)
{
  cn_tensor *diagonals = c->in[0], *offsets = c->in[1];
  const cn_value *size = &c->args[2];
  if (diagonals->d.ndim == 1) diagonals = cn_unsqueeze(diagonals, 0);
  if (offsets->d.ndim == 0) offsets = cn_unsqueeze(offsets, 0);
  if (!diagonals || !offsets) return cn_err();
  if (size->n != 2 || diagonals->d.ndim != 2 || offsets->d.ndim != 1 || offsets->d.numel != diagonals->d.shape[0])
    return cn_call_fail(c, CN_ERR_SHAPE, "takes a matrix of diagonals, as many offsets, and a shape of two sizes");
  if (offsets->d.dtype != CN_I64) return cn_call_fail(c, CN_ERR_DTYPE, "offsets must be int64");
  cn_tensor *sorted, *order;
  if (cn_sort(&sorted, &order, offsets)) return cn_err();
  if (offsets->d.numel > 1 && !cn_check_within(cn_diff(sorted, NULL, NULL), 1, (double)INT64_MAX,
                                               "spdiags: offsets must be different"))
    return cn_err();
  cn_tensor *col = cn_expand(cn_arange(0, (double)diagonals->d.shape[1], .dtype = CN_I64, .device = c->device),
                             diagonals->d.shape, 2);
  cn_tensor *row = cn_sub(col, cn_unsqueeze(offsets, 1));
  cn_tensor *inside = cn_logical_and(cn_logical_and(cn_ge(row, cn_int(0)), cn_lt(row, cn_int(size->u.is[0]))),
                                     cn_lt(col, cn_int(size->u.is[1])));
  cn_tensor *keep = cn_reshape(cn_nonzero(cn_reshape(inside, CN_SHAPE(-1))), CN_SHAPE(-1));
  cn_tensor *rows[] = {cn_index_select(cn_reshape(row, CN_SHAPE(-1)), 0, keep),
                       cn_index_select(cn_reshape(col, CN_SHAPE(-1)), 0, keep)};
  if (cn_err()) return cn_err();
  cn_tensor *values = cn_index_select(cn_reshape(diagonals, CN_SHAPE(-1)), 0, keep);
  cn_tensor *made = cni_coo(cn_stack(rows, 2, .dim = 0), values, 2, size->u.is, false);
  c->out[0] = cni_arg_none(c->args, 3) ? made : cn_to_sparse(made, CN_NONE, CN_NONE, .layout = cni_arg_str(c->args, 3));
  return cn_err();
}

/* clang-format off */
#define MAKES CN_OP_COMPOSITE | CN_OP_SPARSE
const cn_op cni_sparse_convert_ops[] = {
  {.sig = "to_dense(Tensor input, dtype? dtype=None, *, bool? masked_grad=None) -> Tensor ; method",
   .doc = "A sparse tensor as a dense one; a dense one as it is. The gradient has the places of input.",
   .flags = MAKES, .decompose = to_dense_decompose},
  {.sig = "to_sparse(Tensor input, int? sparse_dim=None, *, str? layout=None, int[]? blocksize=None, "
          "int? dense_dim=None) -> Tensor ; method",
   .doc = "What is not zero in input as a sparse tensor, of layout 'coo' unless 'csr', 'csc', 'bsr' or 'bsc' is asked "
          "for. The first sparse_dim dimensions are for indices, those behind lie in the values.",
   .flags = MAKES, .decompose = to_sparse_decompose},
  {.sig = "to_sparse_csr(Tensor input, int? dense_dim=None) -> Tensor ; method",
   .doc = "input as a sparse tensor by rows.",
   .flags = MAKES, .decompose = to_sparse_csr_decompose},
  {.sig = "to_sparse_csc(Tensor input, int? dense_dim=None) -> Tensor ; method",
   .doc = "input as a sparse tensor by columns.",
   .flags = MAKES, .decompose = to_sparse_csc_decompose},
  {.sig = "to_sparse_bsr(Tensor input, int[] blocksize, int? dense_dim=None) -> Tensor ; method",
   .doc = "input as a sparse tensor by rows of blocks of that size.",
   .flags = MAKES, .decompose = to_sparse_bsr_decompose},
  {.sig = "to_sparse_bsc(Tensor input, int[] blocksize, int? dense_dim=None) -> Tensor ; method",
   .doc = "input as a sparse tensor by columns of blocks of that size.",
   .flags = MAKES, .decompose = to_sparse_bsc_decompose},
  {.sig = "sparse_mask(Tensor input, Tensor mask) -> Tensor ; method",
   .doc = "The elements of input at the places of the sparse mask, which has input's shape; zeros among them stay.",
   .flags = MAKES, .decompose = sparse_mask_decompose},
  {.sig = "sparse_spdiags(Tensor diagonals, Tensor offsets, int[] shape, str? layout=None) -> Tensor",
   .doc = "A sparse matrix of that shape whose diagonals are the rows of a matrix: row i lies at offsets[i], its j-th "
          "number in column j.",
   .flags = MAKES, .decompose = sparse_spdiags_decompose},
};
/* clang-format on */
CNI_FAMILY(sparse_convert);
