/* sparse_make.c: the family of ops that make sparse tensors of indices and values, and give these parts back.
 *
 * Place in the flow: composites; what they check on the way are ops too (check_within), so that nothing is waited for.
 * Invariant: no index of a sparse tensor points outside of it; the values part is a handle of its own, so that what is
 * said of the sparse tensor (requires a gradient) is not said of the tensor that the caller gave. */
#include <cairn/ext/parts.h>

#include "families.h"
#include "sparse.h"

/* ---- what is given ---- */

static cn_tensor *given_values(cn_tensor *values)
{
  bool viewable = cn_is_contiguous(values);
  return cni_own_handle(viewable ? values : cn_contiguous(values));
}

/* int64 or int32, as it was given; row-major, without history. */
static cn_tensor *given_indices(const cn_call *c, cn_tensor *t, bool keep_i32)
{
  if (cni_is_sparse(t)) return cn_call_fail(c, CN_ERR_TYPE, "indices must be dense"), NULL;
  if (!cni_dtype_is_int(t->d.dtype) || !cni_dtype_computes(t->d.dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "indices must be an int64 tensor, not %s", cn_dtype_name(cn_dtype_of(t))),
           NULL;
  cn_tensor *in_type = t->d.dtype == CN_I64 || (keep_i32 && t->d.dtype == CN_I32) ? t : cn_cast(t, CN_I64);
  return cn_contiguous(in_type ? cn_to_device(in_type, c->device) : NULL);
}

static int check_range(const cn_call *c, cn_tensor *t, int64_t low, int64_t high, const char *why)
{
  (void)c;
  if (!t) return cn_err();
  return !t->d.numel || cn_check_within(t, (double)low, (double)high, why) ? CN_OK : cn_err();
}

/* ---- sparse_coo_tensor(indices, values, size, is_coalesced) ---- */

/* The smallest size that holds all indices. */
static int infer_size(cn_call *c, cn_tensor *indices, const cn_tensor *values, int64_t *shape)
{
  int64_t dims = indices->d.shape[0];
  for (int64_t i = 0; i < dims; i++) {
    if (indices->d.shape[1] == 0) {
      shape[i] = 0;
      continue;
    }
    cn_tensor *row = cni_index_row(indices, i);
    if (check_range(c, row, 0, INT64_MAX, "sparse_coo_tensor: found negative index")) return cn_err();
    shape[i] = cni_size_in(cn_amax(row)) + 1;
  }
  memcpy(shape + dims, values->d.shape + 1, (size_t)(values->d.ndim - 1) * sizeof *shape);
  return cn_err();
}

static int check_size(cn_call *c, cn_tensor *indices, const cn_tensor *values, int64_t *shape)
{
  const cn_value *size = &c->args[2];
  const int64_t dims = indices->d.shape[0];
  if (size->n != dims + values->d.ndim - 1)
    return cn_call_fail(c, CN_ERR_SHAPE, "number of dimensions must be sparse_dim (%lld) + dense_dim (%d), but got %d",
                        (long long)dims, values->d.ndim - 1, size->n);
  for (int i = 0; i < size->n; i++) {
    shape[i] = size->u.is[i];
    if (shape[i] < 0) return cn_call_fail(c, CN_ERR_SHAPE, "size %lld is negative", (long long)shape[i]);
    if (i >= dims && shape[i] != values->d.shape[i - dims + 1])
      return cn_call_fail(c, CN_ERR_SHAPE, "values has incorrect size: dimension %d is %lld, but size says %lld",
                          i - (int)dims + 1, (long long)values->d.shape[i - dims + 1], (long long)shape[i]);
    if (i < dims && check_range(c, cni_index_row(indices, i), 0, shape[i] - 1,
                                "sparse_coo_tensor: size is inconsistent with indices"))
      return cn_err();
  }
  return CN_OK;
}

static int sparse_coo_tensor_decompose(cn_call *c)
{
  int64_t shape[CN_MAX_DIMS];
  cn_tensor *indices = given_indices(c, c->in[0], false), *values = c->in[1];
  if (!indices) return cn_err();
  if (cni_is_sparse(values)) return cn_call_fail(c, CN_ERR_TYPE, "values must be dense");
  if (indices->d.ndim != 2)
    return cn_call_fail(c, CN_ERR_SHAPE, "indices must be sparse_dim x nnz, but got %d dimensions", indices->d.ndim);
  if (values->d.ndim == 0) values = cn_expand(values, CN_SHAPE(indices->d.shape[1]));
  if (!values) return cn_err();
  if (values->d.shape[0] != indices->d.shape[1])
    return cn_call_fail(c, CN_ERR_SHAPE, "indices and values must have same nnz, but got nnz from indices: %lld, "
                        "nnz from values: %lld", (long long)indices->d.shape[1], (long long)values->d.shape[0]);
  if (indices->d.shape[0] + values->d.ndim - 1 > CN_MAX_DIMS)
    return cn_call_fail(c, CN_ERR_SHAPE, "at most %d dimensions", CN_MAX_DIMS);
  int ndim = (int)indices->d.shape[0] + values->d.ndim - 1;
  bool sized = !cni_arg_none(c->args, 2);
  int status = sized ? check_size(c, indices, values, shape) : infer_size(c, indices, values, shape);
  if (status) return status;
  c->out[0] = cni_coo(cni_own_handle(indices), given_values(values), ndim, shape, cni_arg_bool(c->args, 3));
  return cn_err();
}

/* ---- sparse_compressed_tensor(compressed_indices, plain_indices, values, size, layout) ---- */

static int layout_named(const char *name)
{
  if (!strncmp(name, "sparse_", 7)) name += 7;
  static const char *const names[] = {"csr", "csc", "bsr", "bsc"};
  for (int i = 0; i < 4; i++)
    if (!strcmp(name, names[i])) return CN_LAYOUT_CSR + i;
  return -1;
}

/* The parts of a compressed tensor, and what follows from their sizes. */
typedef struct pressed {
  cn_tensor *index, *plain, *values;
  int layout, batch, dense_dim, ndim;
  int64_t block[2], shape[CN_MAX_DIMS];
} pressed;

static int check_parts(const cn_call *c, pressed *p)
{
  const cn_desc *index = &p->index->d, *plain = &p->plain->d, *values = &p->values->d;
  int blocks = cni_in_blocks(p->layout) ? 2 : 0;
  p->batch = index->ndim - 1;
  p->dense_dim = values->ndim - p->batch - 1 - blocks;
  p->ndim = p->batch + 2 + p->dense_dim;
  if (index->ndim < 1 || plain->ndim != index->ndim || p->dense_dim < 0)
    return cn_call_fail(c, CN_ERR_SHAPE, "compressed_indices of %d, plain_indices of %d and values of %d dimensions do "
                        "not fit", index->ndim, plain->ndim, values->ndim);
  if (p->ndim > CN_MAX_DIMS) return cn_call_fail(c, CN_ERR_SHAPE, "at most %d dimensions", CN_MAX_DIMS);
  for (int i = 0; i <= p->batch; i++)
    if (plain->shape[i] != values->shape[i] || (i < p->batch && index->shape[i] != plain->shape[i]))
      return cn_call_fail(c, CN_ERR_SHAPE, "the batches or numbers of indices and values differ");
  if (index->shape[p->batch] < 1)
    return cn_call_fail(c, CN_ERR_SHAPE, "compressed_indices must have at least one element in each batch");
  for (int i = 0; i < 2; i++) p->block[i] = blocks ? values->shape[p->batch + 1 + i] : 1;
  return CN_OK;
}

/* Sizes, given or as small as they may be. Both dims of blocks are counted in elements. */
static int find_size(const cn_call *c, pressed *p)
{
  const cn_value *size = &c->args[3];
  int first = p->batch, along = cni_by_rows(p->layout) ? 0 : 1;
  int64_t count = p->index->d.shape[p->batch] - 1;
  memcpy(p->shape, p->index->d.shape, (size_t)p->batch * sizeof *p->shape);
  memcpy(p->shape + first + 2, p->values->d.shape + p->values->d.ndim - p->dense_dim,
         (size_t)p->dense_dim * sizeof *p->shape);
  p->shape[first + along] = count * p->block[along];
  if (size->tag == CN_V_NONE) {
    int64_t most = p->plain->d.numel ? cni_size_in(cni_in_type(cn_amax(p->plain), CN_I64)) + 1 : 0;
    p->shape[first + 1 - along] = most * p->block[1 - along];
    return cn_err();
  }
  if (size->n != p->ndim)
    return cn_call_fail(c, CN_ERR_SHAPE, "size has %d dimensions, but the parts have %d", size->n, p->ndim);
  p->shape[first + 1 - along] = size->u.is[first + 1 - along];
  for (int i = 0; i < p->ndim; i++)
    if (size->u.is[i] != p->shape[i] || size->u.is[i] < 0)
      return cn_call_fail(c, CN_ERR_SHAPE, "size %lld of dimension %d does not fit the indices and values, which have "
                          "%lld", (long long)size->u.is[i], i, (long long)p->shape[i]);
  if (p->block[1 - along] && p->shape[first + 1 - along] % p->block[1 - along])
    return cn_call_fail(c, CN_ERR_SHAPE, "size %lld is not a multiple of the block's %lld",
                        (long long)p->shape[first + 1 - along], (long long)p->block[1 - along]);
  return CN_OK;
}

static int check_indices(const cn_call *c, const pressed *p)
{
  int at = p->batch + (cni_by_rows(p->layout) ? 1 : 0);
  int64_t block = p->block[at - p->batch], n = p->plain->d.shape[p->batch], rows = p->index->d.shape[p->batch] - 1;
  int64_t most = block ? p->shape[at] / block - 1 : -1;
  if (check_range(c, p->plain, 0, most, "sparse_compressed_tensor: plain_indices are not within the size"))
    return cn_err();
  const char *ends = "sparse_compressed_tensor: compressed_indices must begin with 0 and end with the number of values";
  if (check_range(c, cn_select(p->index, -1, 0), 0, 0, ends) || check_range(c, cn_select(p->index, -1, -1), n, n, ends))
    return cn_err();
  return rows ? check_range(c, cn_diff(p->index, NULL, NULL), 0, n, "sparse_compressed_tensor: compressed_indices must "
                                                                    "not fall") : CN_OK;
}

static int compressed(cn_call *c, int layout)
{
  pressed p = {.layout = layout, .index = given_indices(c, c->in[0], true)};
  p.plain = p.index ? given_indices(c, c->in[1], true) : NULL;
  if (!p.plain) return cn_err();
  if (p.index->d.dtype != p.plain->d.dtype)
    return cn_call_fail(c, CN_ERR_DTYPE, "compressed_indices and plain_indices must have the same type");
  if (cni_is_sparse(c->in[2])) return cn_call_fail(c, CN_ERR_TYPE, "values must be dense");
  p.values = c->in[2];
  int status = check_parts(c, &p);
  if (!status) status = find_size(c, &p);
  if (!status) status = check_indices(c, &p);
  if (status) return status;
  c->out[0] = cni_compressed((cn_layout)layout, cni_own_handle(p.index), cni_own_handle(p.plain),
                             given_values(p.values), p.ndim, p.shape, p.dense_dim);
  return cn_err();
}

static int sparse_compressed_tensor_decompose(cn_call *c)
{
  int layout = layout_named(cni_arg_str(c->args, 4));
  if (layout < 0)
    return cn_call_fail(c, CN_ERR_VALUE, "layout must be 'csr', 'csc', 'bsr' or 'bsc', not '%s'",
                        cni_arg_str(c->args, 4));
  return compressed(c, layout);
}

static int sparse_csr_tensor_decompose(cn_call *c) { return compressed(c, CN_LAYOUT_CSR); }
static int sparse_csc_tensor_decompose(cn_call *c) { return compressed(c, CN_LAYOUT_CSC); }
static int sparse_bsr_tensor_decompose(cn_call *c) { return compressed(c, CN_LAYOUT_BSR); }
static int sparse_bsc_tensor_decompose(cn_call *c) { return compressed(c, CN_LAYOUT_BSC); }

/* ---- parts ---- */

static int part_of(cn_call *c, cn_tensor *(*part)(cn_tensor *s), bool (*has)(int layout), const char *which)
{
  cn_tensor *s = c->in[0];
  if (!cni_is_sparse(s) || !has(s->d.layout))
    return cn_call_fail(c, CN_ERR_TYPE, "expected a tensor of layout %s, but got %s", which,
                        cni_layout_name(s->d.layout));
  if (cni_is_coo(s) && !s->sparse->coalesced)
    return cn_call_fail(c, CN_ERR_VALUE, "cannot be had of an uncoalesced tensor, call cn_coalesce (.coalesce()) "
                        "first");
  c->out[0] = cni_own_handle(part(s));
  return cn_err();
}

static cn_tensor *index_part(cn_tensor *s) { return s->sparse->index; }
static cn_tensor *plain_part(cn_tensor *s) { return s->sparse->plain; }
static cn_tensor *values_part(cn_tensor *s) { return s->sparse->values; }
static bool is_coo(int layout) { return layout == CN_LAYOUT_COO; }
static bool is_any(int layout) { return layout != CN_LAYOUT_STRIDED; }
static bool is_by_rows(int layout) { return cni_by_rows(layout); }
static bool is_by_columns(int layout) { return layout == CN_LAYOUT_CSC || layout == CN_LAYOUT_BSC; }

static int indices_decompose(cn_call *c) { return part_of(c, index_part, is_coo, "sparse_coo"); }
static int values_decompose(cn_call *c) { return part_of(c, values_part, is_any, "sparse_coo or a compressed one"); }
static int crow_indices_decompose(cn_call *c) { return part_of(c, index_part, is_by_rows, "sparse_csr or sparse_bsr"); }
static int col_indices_decompose(cn_call *c) { return part_of(c, plain_part, is_by_rows, "sparse_csr or sparse_bsr"); }
static int ccol_indices_decompose(cn_call *c)
{
  return part_of(c, index_part, is_by_columns, "sparse_csc or sparse_bsc");
}
static int row_indices_decompose(cn_call *c)
{
  return part_of(c, plain_part, is_by_columns, "sparse_csc or sparse_bsc");
}

/* sparse_parts(input) -> (indices, values): of COO, coalesced or not, as they are */
static int sparse_parts_decompose(cn_call *c)
{
  cn_tensor *s = c->in[0];
  if (!cni_is_coo(s)) return cn_call_fail(c, CN_ERR_TYPE, "expected a tensor of layout sparse_coo, but got %s",
                                          cni_layout_name(s->d.layout));
  c->out[0] = cni_own_handle(s->sparse->index);
  c->out[1] = cni_own_handle(s->sparse->values);
  return cn_err();
}

static int coalesce_decompose(cn_call *c)
{
  if (!cni_is_coo(c->in[0]))
    return cn_call_fail(c, CN_ERR_TYPE, "expected a tensor of layout sparse_coo, but got %s",
                        cni_layout_name(c->in[0]->d.layout));
  c->out[0] = cni_coalesced(c->in[0]);
  return cn_err();
}

/* clang-format off */
#define MAKES CN_OP_COMPOSITE | CN_OP_SPARSE
const cn_op cni_sparse_make_ops[] = {
  {.sig = "sparse_coo_tensor(Tensor indices, Tensor values, int[]? size=None, *, bool is_coalesced=False) -> Tensor "
          "; grad_fn_SparseCooTensorWithDimsAndTensorsBackward0",
   .doc = "A sparse tensor of coordinates: indices (sparse_dim, n) are the places of values (n, ...), all else is "
          "zero; values at one place add up. Without size it is as large as the indices ask for. is_coalesced says "
          "that places are in order and different.",
   .flags = MAKES, .decompose = sparse_coo_tensor_decompose},
  {.sig = "sparse_compressed_tensor(Tensor compressed_indices, Tensor plain_indices, Tensor values, int[]? size=None, "
          "*, str layout='csr') -> Tensor",
   .doc = "A sparse tensor by rows ('csr', in blocks 'bsr') or columns ('csc', 'bsc'): compressed_indices (..., rows + "
          "1) says where each begins among plain_indices (..., n) and values (..., n, ...).",
   .flags = MAKES, .decompose = sparse_compressed_tensor_decompose},
  {.sig = "sparse_csr_tensor(Tensor crow_indices, Tensor col_indices, Tensor values, int[]? size=None) -> Tensor",
   .doc = "A sparse tensor by rows: crow_indices (..., rows + 1) says where each row begins among col_indices and "
          "values (..., n).",
   .flags = MAKES, .decompose = sparse_csr_tensor_decompose},
  {.sig = "sparse_csc_tensor(Tensor ccol_indices, Tensor row_indices, Tensor values, int[]? size=None) -> Tensor",
   .doc = "A sparse tensor by columns, as sparse_csr_tensor by rows.",
   .flags = MAKES, .decompose = sparse_csc_tensor_decompose},
  {.sig = "sparse_bsr_tensor(Tensor crow_indices, Tensor col_indices, Tensor values, int[]? size=None) -> Tensor",
   .doc = "A sparse tensor by rows of blocks: values are (..., n, block rows, block columns).",
   .flags = MAKES, .decompose = sparse_bsr_tensor_decompose},
  {.sig = "sparse_bsc_tensor(Tensor ccol_indices, Tensor row_indices, Tensor values, int[]? size=None) -> Tensor",
   .doc = "A sparse tensor by columns of blocks: values are (..., n, block rows, block columns).",
   .flags = MAKES, .decompose = sparse_bsc_tensor_decompose},
  {.sig = "coalesce(Tensor input) -> Tensor ; method",
   .doc = "A COO tensor with each place once, in order: values of equal places are added up.",
   .flags = MAKES, .decompose = coalesce_decompose},
  {.sig = "indices(Tensor input) -> Tensor ; method",
   .doc = "The places of a coalesced COO tensor's values, (sparse_dim, n).",
   .flags = MAKES, .decompose = indices_decompose},
  {.sig = "values(Tensor input) -> Tensor ; method",
   .doc = "The values of a sparse tensor: of COO, coalesced, (n, ...); of compressed ones (..., n, ...).",
   .flags = MAKES, .decompose = values_decompose},
  {.sig = "crow_indices(Tensor input) -> Tensor ; method",
   .doc = "Where each row (of blocks) begins among the values of a CSR or BSR tensor, (..., rows + 1).",
   .flags = MAKES, .decompose = crow_indices_decompose},
  {.sig = "col_indices(Tensor input) -> Tensor ; method",
   .doc = "The column (of blocks) of each value of a CSR or BSR tensor, (..., n).",
   .flags = MAKES, .decompose = col_indices_decompose},
  {.sig = "ccol_indices(Tensor input) -> Tensor ; method",
   .doc = "Where each column (of blocks) begins among the values of a CSC or BSC tensor, (..., columns + 1).",
   .flags = MAKES, .decompose = ccol_indices_decompose},
  {.sig = "row_indices(Tensor input) -> Tensor ; method",
   .doc = "The row (of blocks) of each value of a CSC or BSC tensor, (..., n).",
   .flags = MAKES, .decompose = row_indices_decompose},
  {.sig = "sparse_parts(Tensor input) -> (Tensor indices, Tensor values) ; internal",
   .doc = "Indices and values of a COO tensor as they are, coalesced or not.",
   .flags = MAKES, .decompose = sparse_parts_decompose},
};
/* clang-format on */
CNI_FAMILY(sparse_make);
