/* sparse.c: the CPU kernels of products with sparse matrices: coo_mm, csr_mm and sampled_mm.
 *
 * Place in the flow: the family of ops/sparse_products.c; loops in sparse_isa.c. Places that do not stand row by row
 * are counted into rows first, in their order. Threads share rows of the result. Invariant: the values of a row are
 * added up in order, so results do not depend on the number of threads; every index is checked before it is used. */
#include "sparse.h"

#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/reduce/moments.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "index.h"

enum { GRAIN_WORK = 1 << 15 }; /* multiply-adds worth handing to a thread */

static int type_of(int dtype)
{
  switch (dtype) {
  case CN_F16: return CNI_SPARSE_F16;
  case CN_BF16: return CNI_SPARSE_BF16;
  case CN_F32: return CNI_SPARSE_F32;
  case CN_F64: return CNI_SPARSE_F64;
  default: return -1;
  }
}

static int64_t grain_of(double work, int64_t units)
{
  const double each = work / (double)(units ? units : 1);
  return each < GRAIN_WORK ? (int64_t)(GRAIN_WORK / (each < 1 ? 1 : each)) + 1 : 1;
}

/* ---- products ---- */

typedef struct product {
  const cni_sparse_table *loops;
  int type;
  size_t elem, wide; /* bytes of an element, of a factor */
  int64_t m;
  const int64_t *begins, *cols;
  const char *factors, *dense;
  char *out;
} product;

static void multiply_rows(int64_t begin, int64_t end, void *payload)
{
  const product *p = payload;
  for (int64_t r = begin; r < end; r++) {
    const int64_t from = p->begins[r], n = p->begins[r + 1] - from;
    p->loops->row[p->type](p->out + (size_t)(r * p->m) * p->elem, p->dense, p->cols + from,
                           p->factors + (size_t)from * p->wide, n, p->m);
  }
}

/* Room for places counted into rows. */
typedef struct sorted {
  int64_t *begins, *cols;
  char *factors; /* NULL: places were in order, and the tensors are used as they are */
  size_t begins_size, cols_size, factors_size;
} sorted;

static void sorted_close(sorted *s)
{
  cni_scratch_free(s->begins, s->begins_size);
  cni_scratch_free(s->cols, s->cols_size);
  cni_scratch_free(s->factors, s->factors_size);
}

/* begins[r] is where row r begins; true where the rows stand in order already. */
static bool count_rows(int64_t *begins, const int64_t *row, int64_t n, int64_t rows)
{
  bool in_order = true;
  memset(begins, 0, (size_t)(rows + 1) * sizeof *begins);
  for (int64_t i = 0; i < n; i++) {
    begins[row[i] + 1]++;
    in_order &= !i || row[i - 1] <= row[i];
  }
  for (int64_t r = 0; r < rows; r++) begins[r + 1] += begins[r];
  return in_order;
}

/* Moves columns and factors behind one another by rows; begins ends as it was. */
static void move_to_rows(sorted *s, const int64_t *row, const int64_t *col, const char *factors, int64_t n,
                         int64_t rows, size_t wide)
{
  for (int64_t i = 0; i < n; i++) {
    const int64_t to = s->begins[row[i]]++;
    s->cols[to] = col[i];
    memcpy(s->factors + (size_t)to * wide, factors + (size_t)i * wide, wide);
  }
  memmove(s->begins + 1, s->begins, (size_t)rows * sizeof *s->begins);
  s->begins[0] = 0;
}

static int sort_places(sorted *s, product *p, const int64_t *row, int64_t n, int64_t rows)
{
  s->begins_size = (size_t)(rows + 1) * sizeof *s->begins;
  if (!(s->begins = cni_scratch_alloc(s->begins_size))) return CN_ERR_MEMORY;
  p->begins = s->begins;
  if (count_rows(s->begins, row, n, rows)) return CN_OK;
  s->cols_size = (size_t)n * sizeof *s->cols;
  s->factors_size = (size_t)n * p->wide;
  if (!(s->cols = cni_scratch_alloc(s->cols_size)) || !(s->factors = cni_scratch_alloc(s->factors_size)))
    return CN_ERR_MEMORY;
  move_to_rows(s, row, p->cols, p->factors, n, rows, p->wide);
  p->cols = s->cols;
  p->factors = s->factors;
  return CN_OK;
}

static int check_begins(const cn_call *c, const int64_t *begins, int64_t rows, int64_t n)
{
  bool good = begins[0] == 0 && begins[rows] == n;
  for (int64_t r = 0; r < rows; r++) good &= begins[r] <= begins[r + 1];
  return good ? CN_OK : cn_call_fail(c, CN_ERR_INDEX, "where rows begin must rise from 0 to the number of values");
}

static void run_product(product *p, int64_t rows, int64_t n)
{
  cni_parallel_for(rows, grain_of((double)(n + rows) * (double)p->m, rows), multiply_rows, p);
}

/* coo_mm(row, col, values, dense, rows); csr_mm(crow, col, values, dense): the first is `lines` */
static int multiply(cn_call *c, bool csr)
{
  const cn_desc *values = cn_desc_of(c->in[2]), *dense = cn_desc_of(c->in[3]), *y = cn_desc_of(c->out[0]);
  const int type = type_of(y->dtype), wide = y->dtype == CN_F64 ? CN_F64 : CN_F32;
  if (type < 0) {
    c->refusal = "its loops are for floating-point numbers";
    return CN_REFUSED;
  }
  const int64_t n = values->shape[0], rows = y->shape[0];
  cni_numbers lines = {.copy = NULL}, cols = {.copy = NULL};
  cni_operand factors = {0}, table = {0}, out = {0};
  sorted s = {NULL};
  product p = {.loops = CNI_BY_ISA(cni_sparse_table), .type = type, .elem = cni_dtype_size(y->dtype),
               .wide = cni_dtype_size(wide), .m = y->shape[1]};
  int status = cni_numbers_open(&lines, cn_desc_of(c->in[0]), true);
  if (!status) status = cni_numbers_open(&cols, cn_desc_of(c->in[1]), true);
  if (!status && n) status = cni_numbers_check(c, &cols, dense->shape[0], 0);
  if (!status && n && !csr) status = cni_numbers_check(c, &lines, rows, 0);
  if (!status && csr) status = check_begins(c, lines.d.data, rows, n);
  if (!status) status = cni_operand_take(&factors, values, wide, NULL);
  if (!status) status = cni_operand_take(&table, dense, y->dtype, NULL);
  if (!status) status = cni_operand_room(&out, y, y->dtype, NULL);
  p.cols = cols.d.data, p.factors = factors.data, p.dense = table.data, p.out = out.data;
  if (!status && csr) p.begins = lines.d.data;
  if (!status && !csr) status = sort_places(&s, &p, lines.d.data, n, rows);
  if (!status && y->numel) run_product(&p, rows, n);
  sorted_close(&s);
  cni_numbers_close(&lines);
  cni_numbers_close(&cols);
  cni_operand_drop(&factors);
  cni_operand_drop(&table);
  cni_operand_put(&out, y, status);
  return status;
}

static int coo_mm(cn_call *c) { return multiply(c, false); }
static int csr_mm(cn_call *c) { return multiply(c, true); }

/* ---- sampled_mm(a, b, row, col) ---- */

typedef struct sampling {
  cni_sparse_dot_fn dot;
  size_t elem;
  int64_t k;
  const int64_t *row, *col;
  const char *a, *b;
  char *out;
} sampling;

static void sample_places(int64_t begin, int64_t end, void *payload)
{
  const sampling *s = payload;
  const size_t step = (size_t)s->k * s->elem;
  for (int64_t i = begin; i < end; i++)
    s->dot(s->out + (size_t)i * s->elem, s->a + (size_t)s->row[i] * step, s->b + (size_t)s->col[i] * step, s->k);
}

static int sampled_mm(cn_call *c)
{
  const cn_desc *a = cn_desc_of(c->in[0]), *b = cn_desc_of(c->in[1]), *y = cn_desc_of(c->out[0]);
  const int type = type_of(y->dtype);
  if (type < 0) {
    c->refusal = "its loops are for floating-point numbers";
    return CN_REFUSED;
  }
  const cni_sparse_table *loops = CNI_BY_ISA(cni_sparse_table);
  cni_numbers row = {.copy = NULL}, col = {.copy = NULL};
  cni_operand left = {0}, right = {0}, out = {0};
  int status = cni_numbers_open(&row, cn_desc_of(c->in[2]), true);
  if (!status) status = cni_numbers_open(&col, cn_desc_of(c->in[3]), true);
  if (!status && y->numel) status = cni_numbers_check(c, &row, a->shape[0], 0);
  if (!status && y->numel) status = cni_numbers_check(c, &col, b->shape[0], 0);
  if (!status) status = cni_operand_take(&left, a, y->dtype, NULL);
  if (!status) status = cni_operand_take(&right, b, y->dtype, NULL);
  if (!status) status = cni_operand_room(&out, y, y->dtype, NULL);
  sampling s = {loops->dot[type], cni_dtype_size(y->dtype), a->shape[1], row.d.data, col.d.data, left.data, right.data,
                out.data};
  if (!status && y->numel)
    cni_parallel_for(y->numel, grain_of((double)y->numel * (double)(s.k + 4), y->numel), sample_places, &s);
  cni_numbers_close(&row);
  cni_numbers_close(&col);
  cni_operand_drop(&left);
  cni_operand_drop(&right);
  cni_operand_put(&out, y, status);
  return status;
}

const cn_kernel cni_cpu_sparse_kernels[] = {
    {"coo_mm", "rows", coo_mm},
    {"csr_mm", "rows", csr_mm},
    {"sampled_mm", "dots", sampled_mm},
    {NULL, NULL, NULL},
};
