/* sparse_products.c: the family of products with sparse matrices, and the rules of mm, matmul and their kind.
 *
 * Place in the flow: the rules end in coo_mm, csr_mm and sampled_mm, which take dense parts and have kernels on the CPU
 * (cpu/index/sparse.c). The gradients of these three are these three again. Invariant: values of one row are added up
 * in their order. */
#include <cairn/ext/parts.h>

#include "families.h"
#include "sparse.h"

/* ---- coo_mm(row, col, values, dense, rows): result[row[i]] += values[i] * dense[col[i]] ---- */

enum { LINES, COL, VALUES, DENSE };

static int check_product(cn_call *c, int64_t *shape)
{
  const cn_desc *col = &c->in[COL]->d, *values = &c->in[VALUES]->d, *dense = &c->in[DENSE]->d;
  if (c->in[LINES]->d.ndim != 1 || col->ndim != 1 || values->ndim != 1 || dense->ndim != 2 ||
      col->shape[0] != values->shape[0])
    return cn_call_fail(c, CN_ERR_SHAPE, "takes vectors of places and values, and a matrix");
  if (values->dtype != dense->dtype)
    return cn_call_fail(c, CN_ERR_DTYPE, "values and dense must have the same type, not %s and %s",
                        cn_dtype_name((cn_dtype)values->dtype), cn_dtype_name((cn_dtype)dense->dtype));
  shape[1] = dense->shape[1];
  return cn_call_result(c, 0, dense->dtype, 2, shape);
}

static int coo_mm_infer(cn_call *c)
{
  int64_t shape[2] = {cni_arg_int(c->args, 4)};
  if (c->in[LINES]->d.ndim == 1 && c->in[LINES]->d.shape[0] != c->in[COL]->d.numel)
    return cn_call_fail(c, CN_ERR_SHAPE, "row and col must have the same size");
  return check_product(c, shape);
}

/* values (n) times rows of dense, each added to its row. */
static cn_tensor *gathered_mm(cn_tensor *row, cn_tensor *col, cn_tensor *values, cn_tensor *dense, int64_t rows)
{
  if (cn_err()) return NULL;
  int dtype = dense->d.dtype;
  bool half = cni_is_half(dtype);
  cn_tensor *wide = half ? cn_cast(dense, CN_F32) : dense;
  if (half) values = cn_cast(values, CN_F32);
  cn_tensor *terms = cn_mul(cn_index_select(wide, 0, col), cn_unsqueeze(values, 1));
  if (!terms) return NULL;
  cn_tensor *zeros = cn_zeros(CN_SHAPE(rows, dense->d.shape[1]), .dtype = cn_dtype_of(terms),
                              .device = dense->d.device);
  return cni_in_type(cn_index_add(zeros, 0, row, terms), dtype);
}

static int coo_mm_decompose(cn_call *c)
{
  c->out[0] = gathered_mm(c->in[LINES], c->in[COL], c->in[VALUES], c->in[DENSE], cni_arg_int(c->args, 4));
  return cn_err();
}

static int coo_mm_vjp(cn_vjp *v)
{
  cn_tensor *row = v->in[LINES], *col = v->in[COL];
  if (v->need[VALUES]) v->gin[VALUES] = cn_sampled_mm(v->g[0], v->in[DENSE], row, col);
  if (v->need[DENSE]) v->gin[DENSE] = cn_coo_mm(col, row, v->in[VALUES], v->g[0], v->in_meta[DENSE].shape[0]);
  return cn_err();
}

/* ---- csr_mm(crow, col, values, dense) ---- */

static int csr_mm_infer(cn_call *c)
{
  int64_t shape[2] = {c->in[LINES]->d.numel - 1};
  if (shape[0] < 0) return cn_call_fail(c, CN_ERR_SHAPE, "crow must have at least one element");
  return check_product(c, shape);
}

static int csr_mm_decompose(cn_call *c)
{
  cn_tensor *row = cni_rows_of(c->in[LINES], c->in[COL]->d.shape[0]);
  c->out[0] = gathered_mm(row, c->in[COL], c->in[VALUES], c->in[DENSE], c->in[LINES]->d.numel - 1);
  return cn_err();
}

static int csr_mm_vjp(cn_vjp *v)
{
  cn_tensor *col = v->in[COL], *row = cni_rows_of(v->in[LINES], cn_size(col, 0));
  if (v->need[VALUES]) v->gin[VALUES] = cn_sampled_mm(v->g[0], v->in[DENSE], row, col);
  if (v->need[DENSE]) v->gin[DENSE] = cn_coo_mm(col, row, v->in[VALUES], v->g[0], v->in_meta[DENSE].shape[0]);
  return cn_err();
}

/* ---- sampled_mm(a, b, row, col): result[i] = a[row[i]] . b[col[i]] ---- */

static int sampled_mm_infer(cn_call *c)
{
  const cn_desc *a = &c->in[0]->d, *b = &c->in[1]->d, *row = &c->in[2]->d, *col = &c->in[3]->d;
  if (a->ndim != 2 || b->ndim != 2 || a->shape[1] != b->shape[1] || row->ndim != 1 || col->ndim != 1 ||
      row->shape[0] != col->shape[0])
    return cn_call_fail(c, CN_ERR_SHAPE, "takes two matrices with rows of one size, and vectors of places");
  if (a->dtype != b->dtype) return cn_call_fail(c, CN_ERR_DTYPE, "the matrices must have the same type");
  return cn_call_result(c, 0, a->dtype, 1, row->shape);
}

static cn_tensor *gathered_dots(cn_tensor *a, cn_tensor *b, cn_tensor *row, cn_tensor *col)
{
  cn_tensor *terms = cn_mul(cn_index_select(a, 0, row), cn_index_select(b, 0, col));
  if (!terms) return NULL;
  cn_dtype dtype = (cn_dtype)terms->d.dtype;
  return cn_sum(terms, .dim = CN_INTS(1), .dtype = dtype);
}

static int sampled_mm_decompose(cn_call *c)
{
  c->out[0] = gathered_dots(c->in[0], c->in[1], c->in[2], c->in[3]);
  return cn_err();
}

static int sampled_mm_vjp(cn_vjp *v)
{
  cn_tensor *row = v->in[2], *col = v->in[3];
  if (v->need[0]) v->gin[0] = cn_coo_mm(row, col, v->g[0], v->in[1], v->in_meta[0].shape[0]);
  if (v->need[1]) v->gin[1] = cn_coo_mm(col, row, v->g[0], v->in[0], v->in_meta[1].shape[0]);
  return cn_err();
}

/* ---- sparse times dense ---- */

static bool complex_parts(const cn_tensor *a, const cn_tensor *b)
{
  return cni_dtype_is_complex(a->d.dtype) || cni_dtype_is_complex(b->d.dtype);
}

/* s (rows, k), x (k, m) dense; of one type. */
static cn_tensor *times_dense(cn_tensor *s, cn_tensor *x)
{
  const cni_sparse *p = s->sparse;
  if (s->d.layout == CN_LAYOUT_CSR && !complex_parts(s, x)) return cn_csr_mm(p->index, p->plain, p->values, x);
  if (s->d.layout == CN_LAYOUT_CSC && !complex_parts(s, x))
    return cn_coo_mm(p->plain, cni_rows_of(p->index, cn_nnz(s)), p->values, x, s->d.shape[0]);
  if (!(s = cni_as_coo(s))) return NULL;
  cn_tensor *row = cni_index_row(s->sparse->index, 0), *col = cni_index_row(s->sparse->index, 1);
  if (complex_parts(s, x)) return gathered_mm(row, col, s->sparse->values, x, s->d.shape[0]);
  return cn_coo_mm(row, col, s->sparse->values, x, s->d.shape[0]);
}

static cn_tensor *swapped(cn_tensor *s) { return cn_transpose(s, 0, 1); }

/* Each value of a meets the row of b that its column names; places that are hit twice are added up. */
static cn_tensor *times_sparse(cn_tensor *a, cn_tensor *b)
{
  a = cni_coalesced(cni_as_coo(a)), b = cni_coalesced(cni_as_coo(b));
  if (!a || !b) return NULL;
  const int64_t shape[2] = {a->d.shape[0], b->d.shape[1]}, rows = b->d.shape[0];
  cn_tensor *row = cni_index_row(a->sparse->index, 0), *col = cni_index_row(a->sparse->index, 1);
  cn_tensor *begins = cni_begins_of(cni_index_row(b->sparse->index, 0), rows);
  cn_tensor *from = cn_index_select(cn_slice(begins, 0, 0, rows), 0, col);
  cn_tensor *each = cn_sub(cn_index_select(cn_slice(begins, 0, 1, rows + 1), 0, col), from);
  cn_tensor *which = each ? cn_repeat_interleave_indices(each, CN_NONE) : NULL; /* the value of a, of each product */
  if (!which) return NULL;
  cn_tensor *before = cn_sub(cn_cumsum(each, 0), each);
  cn_tensor *count = cn_arange(0, (double)cn_size(which, 0), .dtype = CN_I64, .device = a->d.device);
  cn_tensor *at = cn_add(cn_sub(count, cn_index_select(before, 0, which)), cn_index_select(from, 0, which));
  cn_tensor *keys = cn_add(cn_mul(cn_index_select(row, 0, which), cn_int(shape[1])),
                           cn_index_select(cni_index_row(b->sparse->index, 1), 0, at));
  cn_tensor *terms = cn_mul(cn_index_select(a->sparse->values, 0, which), cn_index_select(b->sparse->values, 0, at));
  cn_tensor *sums = cni_sum_by_key(&keys, terms);
  return cni_coo(cni_of_keys(keys, 2, shape), sums, 2, shape, true);
}

static int check_matrices(const cn_call *c, const cn_tensor *a, const cn_tensor *b)
{
  if (a->d.ndim != 2 || b->d.ndim != 2)
    return cn_call_fail(c, CN_ERR_SHAPE, "takes matrices, not %d and %d dimensions", a->d.ndim, b->d.ndim);
  if (a->d.shape[1] != b->d.shape[0])
    return cn_call_fail(c, CN_ERR_SHAPE, "a matrix of (%lld, %lld) cannot be multiplied by one of (%lld, %lld)",
                        (long long)a->d.shape[0], (long long)a->d.shape[1], (long long)b->d.shape[0],
                        (long long)b->d.shape[1]);
  if ((cni_is_sparse(a) && a->sparse->dense_dim) || (cni_is_sparse(b) && b->sparse->dense_dim))
    return cn_call_fail(c, CN_ERR_SHAPE, "sparse matrices must have no dense dimensions");
  if (a->d.dtype != b->d.dtype)
    return cn_call_fail(c, CN_ERR_DTYPE, "the matrices must have the same type, not %s and %s",
                        cn_dtype_name(cn_dtype_of(a)), cn_dtype_name(cn_dtype_of(b)));
  return CN_OK;
}

/* a x b, at least one of them sparse. The result of two sparse ones has the layout of the first. */
static cn_tensor *product(const cn_call *c, cn_tensor *a, cn_tensor *b)
{
  if (!a || !b || cn_err() || check_matrices(c, a, b)) return NULL;
  if (cni_is_sparse(a) && cni_is_sparse(b)) {
    cn_tensor *both = times_sparse(a, b);
    return both && a->d.layout != CN_LAYOUT_COO && !cni_in_blocks(a->d.layout) ? cni_in_layout_of(both, a) : both;
  }
  if (cni_is_sparse(a)) return times_dense(a, b);
  cn_tensor *turned = swapped(b); /* (b^T a^T)^T */
  return turned ? swapped(times_dense(turned, cn_transpose(a, 0, 1))) : NULL;
}

int cni_sparse_mm(cn_call *c)
{
  c->out[0] = product(c, c->in[0], c->in[1]);
  return cn_err();
}

/* ---- mv, matmul, bmm ---- */

static cn_tensor *times_vector(const cn_call *c, cn_tensor *s, cn_tensor *x)
{
  if (cni_is_sparse(x)) return cn_call_fail(c, CN_ERR_UNSUPPORTED, "the vector must be dense"), NULL;
  cn_tensor *column = product(c, s, cn_unsqueeze(x, 1));
  return column ? cn_squeeze(column, .dim = CN_INTS(1)) : NULL;
}

int cni_sparse_mv(cn_call *c)
{
  if (c->in[0]->d.ndim != 2 || c->in[1]->d.ndim != 1)
    return cn_call_fail(c, CN_ERR_SHAPE, "takes a matrix and a vector");
  c->out[0] = times_vector(c, c->in[0], c->in[1]);
  return cn_err();
}

/* (B, m, k) x (B, k, n) as one product of (B m, B k), whose blocks are the batches. */
static cn_tensor *batched(const cn_call *c, cn_tensor *s, cn_tensor *x)
{
  if (!(s = cni_as_coo(s))) return NULL;
  if (s->d.ndim != 3 || x->d.ndim != 3 || s->sparse->dense_dim || s->d.shape[0] != x->d.shape[0] ||
      s->d.shape[2] != x->d.shape[1])
    return cn_call_fail(c, CN_ERR_SHAPE, "the batches or matrices do not fit"), NULL;
  if (cni_is_sparse(x)) return cn_call_fail(c, CN_ERR_UNSUPPORTED, "the second batch must be dense"), NULL;
  const int64_t *shape = s->d.shape, n = x->d.shape[2];
  cn_tensor *b = cni_index_row(s->sparse->index, 0);
  cn_tensor *row = cn_add(cn_mul(b, cn_int(shape[1])), cni_index_row(s->sparse->index, 1));
  cn_tensor *col = cn_add(cn_mul(b, cn_int(shape[2])), cni_index_row(s->sparse->index, 2));
  cn_tensor *flat = cn_reshape(x, CN_SHAPE(shape[0] * shape[2], n));
  if (!flat) return NULL;
  cn_tensor *y = complex_parts(s, x) ? gathered_mm(row, col, s->sparse->values, flat, shape[0] * shape[1])
                                     : cn_coo_mm(row, col, s->sparse->values, flat, shape[0] * shape[1]);
  return cn_reshape(y, CN_SHAPE(shape[0], shape[1], n));
}

int cni_sparse_bmm(cn_call *c)
{
  if (!cni_is_sparse(c->in[0])) return cn_call_fail(c, CN_ERR_UNSUPPORTED, "the first batch must be the sparse one");
  c->out[0] = batched(c, c->in[0], c->in[1]);
  return cn_err();
}

int cni_sparse_matmul(cn_call *c)
{
  cn_tensor *a = c->in[0], *b = c->in[1];
  if (a->d.ndim == 2 && b->d.ndim == 1) c->out[0] = times_vector(c, a, b);
  else if (a->d.ndim == 1 && b->d.ndim == 2 && !cni_is_sparse(a)) c->out[0] = times_vector(c, swapped(b), a);
  else if (a->d.ndim == 3) return cni_sparse_bmm(c);
  else c->out[0] = product(c, a, b);
  return cn_err();
}

/* ---- beta * input + alpha * (a x b) ---- */

static bool is_number(const cn_value *v, double x) { return v->tag != CN_V_FLOATS && cni_arg_float(v, 0) == x; }

static int add_product(cn_call *c, cn_tensor *y, const cn_value *beta, const cn_value *alpha)
{
  cn_tensor *input = c->in[0];
  if (y && !is_number(alpha, 1)) y = cn_mul(y, cni_number(alpha));
  if (is_number(beta, 0)) c->out[0] = y;
  else c->out[0] = cn_add(is_number(beta, 1) ? input : cn_mul(input, cni_number(beta)), y);
  return cn_err();
}

int cni_sparse_addmm(cn_call *c)
{
  return add_product(c, product(c, c->in[1], c->in[2]), &c->args[3], &c->args[4]);
}

int cni_sparse_addmv(cn_call *c)
{
  return add_product(c, times_vector(c, c->in[1], c->in[2]), &c->args[3], &c->args[4]);
}

/* ---- sparse_sampled_addmm(input, mat1, mat2, beta, alpha) ---- */

/* The places of a compressed or COO matrix, (n) each, in the order of its values. */
static int places_of(cn_tensor *s, cn_tensor **row, cn_tensor **col)
{
  const cni_sparse *p = s->sparse;
  if (cni_is_coo(s)) {
    *row = cni_index_row(p->index, 0);
    *col = cni_index_row(p->index, 1);
  } else {
    cn_tensor *major = cni_rows_of(p->index, cn_nnz(s));
    *row = cni_by_rows(s->d.layout) ? major : p->plain;
    *col = cni_by_rows(s->d.layout) ? p->plain : major;
  }
  return cn_err();
}

static int sparse_sampled_addmm_decompose(cn_call *c)
{
  cn_tensor *s = c->in[0], *a = c->in[1], *b = c->in[2], *row, *col;
  if (!cni_is_sparse(s) || cni_in_blocks(s->d.layout) || s->d.ndim != 2 || s->sparse->dense_dim)
    return cn_call_fail(c, CN_ERR_TYPE, "input must be a sparse matrix, by rows or of coordinates");
  if (cni_is_sparse(a) || cni_is_sparse(b)) return cn_call_fail(c, CN_ERR_TYPE, "mat1 and mat2 must be dense");
  if (check_matrices(c, a, b)) return cn_err();
  if (a->d.shape[0] != s->d.shape[0] || b->d.shape[1] != s->d.shape[1])
    return cn_call_fail(c, CN_ERR_SHAPE, "the product of mat1 and mat2 must have the shape of input");
  if (places_of(s, &row, &col)) return cn_err();
  cn_tensor *turned = cn_transpose(b, 0, 1);
  cn_tensor *dots = complex_parts(a, b) ? gathered_dots(a, turned, row, col) : cn_sampled_mm(a, turned, row, col);
  cn_tensor *values = is_number(&c->args[4], 1) ? dots : cn_mul(dots, cni_number(&c->args[4]));
  if (!is_number(&c->args[3], 0))
    values = cn_add(is_number(&c->args[3], 1) ? cni_values(s) : cn_mul(cni_values(s), cni_number(&c->args[3])), values);
  c->out[0] = cni_with_values(s, values);
  return cn_err();
}

/* ---- sparse_mm_reduce(input, mat2, reduce) ---- */

static int sparse_mm_reduce_decompose(cn_call *c)
{
  cn_tensor *s = c->in[0], *x = c->in[1], *row, *col;
  if (!cni_is_sparse(s) || cni_is_sparse(x) || cni_in_blocks(s->d.layout) || s->d.ndim != 2)
    return cn_call_fail(c, CN_ERR_TYPE, "takes a sparse matrix and a dense one");
  if (check_matrices(c, s, x)) return cn_err();
  if (cni_arg_is(c->args, 2, "sum")) {
    c->out[0] = times_dense(s, x);
    return cn_err();
  }
  if (!cni_arg_is(c->args, 2, "mean") && !cni_arg_is(c->args, 2, "amax") && !cni_arg_is(c->args, 2, "amin"))
    return cn_call_fail(c, CN_ERR_VALUE, "reduce must be 'sum', 'mean', 'amax' or 'amin', not '%s'",
                        cni_arg_str(c->args, 2));
  if (places_of(s, &row, &col)) return cn_err();
  cn_tensor *terms = cn_mul(cn_index_select(x, 0, col), cn_unsqueeze(cni_values(s), 1));
  cn_tensor *zeros = cn_zeros(CN_SHAPE(s->d.shape[0], x->d.shape[1]), .dtype = cn_dtype_of(x), .device = c->device);
  c->out[0] = cn_index_reduce(zeros, 0, row, terms, cni_arg_str(c->args, 2), .no_include_self = true);
  return cn_err();
}

/* clang-format off */
const cn_op cni_sparse_products_ops[] = {
  {.sig = "coo_mm(Tensor row, Tensor col, Tensor values, Tensor dense, int rows) -> Tensor ; internal",
   .doc = "The product of a sparse matrix of that many rows, values (n) at row and col, and dense (k, m).",
   .infer = coo_mm_infer, .vjp = coo_mm_vjp, .decompose = coo_mm_decompose,
   .needs = {[VALUES] = CN_IN(LINES) | CN_IN(COL) | CN_IN(DENSE), [DENSE] = CN_IN(LINES) | CN_IN(COL) | CN_IN(VALUES)}},
  {.sig = "csr_mm(Tensor crow, Tensor col, Tensor values, Tensor dense) -> Tensor ; internal",
   .doc = "The same of a sparse matrix by rows, which begin at crow (rows + 1) among col and values (n).",
   .infer = csr_mm_infer, .vjp = csr_mm_vjp, .decompose = csr_mm_decompose,
   .needs = {[VALUES] = CN_IN(LINES) | CN_IN(COL) | CN_IN(DENSE), [DENSE] = CN_IN(LINES) | CN_IN(COL) | CN_IN(VALUES)}},
  {.sig = "sampled_mm(Tensor a, Tensor b, Tensor row, Tensor col) -> Tensor ; internal",
   .doc = "Those elements of a (m, k) times the transpose of b (n, k) that lie at row and col.",
   .infer = sampled_mm_infer, .vjp = sampled_mm_vjp, .decompose = sampled_mm_decompose,
   .needs = {[0] = CN_IN(1) | CN_IN(2) | CN_IN(3), [1] = CN_IN(0) | CN_IN(2) | CN_IN(3)}},
  {.sig = "sparse_sampled_addmm(Tensor input, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
   .doc = "beta * input + alpha * (mat1 x mat2) at the places of the sparse input alone.",
   .flags = CN_OP_COMPOSITE | CN_OP_SPARSE, .decompose = sparse_sampled_addmm_decompose},
  {.sig = "sparse_mm_reduce(Tensor input, Tensor mat2, str reduce) -> Tensor",
   .doc = "The product of a sparse matrix and a dense one in which the terms of an element are reduced by 'sum', "
          "'mean', 'amax' or 'amin'.",
   .flags = CN_OP_COMPOSITE | CN_OP_SPARSE, .decompose = sparse_mm_reduce_decompose},
};
/* clang-format on */
CNI_FAMILY(sparse_products);
