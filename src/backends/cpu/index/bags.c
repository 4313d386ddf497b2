/* bags.c: the CPU kernels of bag_sum, bag_sum_grad and bag_max.
 *
 * Place in the flow: the family of ops/embedding_bag.c; loops in bags_isa.c. Sums are shared among threads by bags,
 * their gradient, which many bags add to the same rows of, by columns. Invariant: the elements of a bag are taken in
 * order, and bags too where rows are added to, so results never depend on the number of threads; ends of bags and rows
 * are checked before anything is written. */
#include "bags.h"

#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/reduce/moments.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "index.h"

enum { GRAIN_WORK = 1 << 14 /* numbers */, COLUMNS = 16 /* a line of the cache, or two */ };
enum { FIRST, INPUT, OFFSETS, FACTORS };

typedef struct job {
  const cni_bag_table *loops;
  int type; /* of the loops */
  size_t elem;
  int64_t bags, n, m, length, skip;
  const int64_t *rows, *begins; /* begins NULL: all bags have that length */
  const char *factors;
  size_t factor_size;
  bool mean;
  char *table, *each; /* (., m), (bags, m) */
  int64_t *which;
} job;

static cni_bag bag_at(const job *j, int64_t i)
{
  const int64_t from = j->begins ? j->begins[i] : i * j->length;
  const int64_t to = !j->begins ? from + j->length : i + 1 < j->bags ? j->begins[i + 1] : j->n;
  return (cni_bag){j->rows + from, j->factors ? j->factors + (size_t)from * j->factor_size : NULL, to - from, j->skip};
}

static char *each_at(const job *j, int64_t i) { return j->each + (size_t)(i * j->m) * j->elem; }

static void sum_bags(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  for (int64_t i = begin; i < end; i++) {
    const cni_bag bag = bag_at(j, i);
    j->loops->sum[j->type](each_at(j, i), j->table, &bag, j->m, j->mean);
  }
}

static void max_bags(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  for (int64_t i = begin; i < end; i++) {
    const cni_bag bag = bag_at(j, i);
    j->loops->max[j->type](each_at(j, i), j->which + i * j->m, j->table, &bag, j->m);
  }
}

static void spread_columns(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  const int64_t from = begin * COLUMNS, to = end * COLUMNS < j->m ? end * COLUMNS : j->m;
  for (int64_t i = 0; i < j->bags; i++) {
    const cni_bag bag = bag_at(j, i);
    j->loops->spread[j->type == CNI_BAG_F64](j->table, each_at(j, i), &bag, j->m, from, to, j->mean);
  }
}

/* ---- operands ---- */

typedef struct operands {
  cni_numbers rows, begins;
  cni_operand table, each, factors;
} operands;

static int type_of(int dtype)
{
  return dtype == CN_F16 ? CNI_BAG_F16 : dtype == CN_BF16 ? CNI_BAG_BF16 : dtype == CN_F64 ? CNI_BAG_F64 : CNI_BAG_F32;
}

static int check_begins(const cn_call *c, const job *j)
{
  for (int64_t i = 0; j->begins && i < j->bags; i++) {
    const int64_t least = i ? j->begins[i - 1] : 0, most = i ? j->n : 0;
    if (j->begins[i] < least || j->begins[i] > most)
      return cn_call_fail(c, CN_ERR_INDEX, "bag %lld begins at %lld, but must begin between %lld and %lld",
                          (long long)i, (long long)j->begins[i], (long long)least, (long long)most);
  }
  return CN_OK;
}

/* What all of them have; the rest of the job is the caller's. */
static int open_bags(job *j, operands *o, cn_call *c, const cn_desc *table, int dtype, int64_t skip)
{
  const cn_desc *input = cn_desc_of(c->in[INPUT]), *offsets = c->in[OFFSETS] ? cn_desc_of(c->in[OFFSETS]) : NULL;
  const cn_desc *factors = c->nin > FACTORS && c->in[FACTORS] ? cn_desc_of(c->in[FACTORS]) : NULL;
  const int wide = dtype == CN_F64 ? CN_F64 : CN_F32;
  *o = (operands){.rows = {.copy = NULL}};
  *j = (job){.loops = CNI_BY_ISA(cni_bag_table), .type = type_of(dtype), .elem = cni_dtype_size(dtype),
             .n = input->numel, .m = table->shape[1], .length = offsets ? 0 : input->shape[1], .skip = skip,
             .bags = offsets ? offsets->numel : input->shape[0], .factor_size = cni_dtype_size(wide)};
  int status = cni_numbers_open(&o->rows, input, true);
  if (!status && offsets) status = cni_numbers_open(&o->begins, offsets, true);
  if (!status && input->numel) status = cni_numbers_check(c, &o->rows, table->shape[0], 0);
  if (!status && factors) status = cni_operand_take(&o->factors, factors, wide, NULL);
  j->rows = o->rows.d.data;
  if (offsets) j->begins = o->begins.d.data;
  if (factors) j->factors = o->factors.data;
  return status ? status : check_begins(c, j);
}

static void close_bags(operands *o)
{
  cni_numbers_close(&o->rows);
  cni_numbers_close(&o->begins);
  cni_operand_drop(&o->factors);
}

/* Bags that are worth handing to a thread. */
static int64_t grain_of(const job *j)
{
  const double work = (double)j->m * (1 + (double)j->n / (double)(j->bags ? j->bags : 1));
  return work < GRAIN_WORK ? (int64_t)(GRAIN_WORK / (work < 1 ? 1 : work)) + 1 : 1;
}

/* ---- the kernels ---- */

/* bag_sum(weight, input, offsets, factors, padding, mean), bag_max(weight, input, offsets, padding) */
static int gather_bags(cn_call *c, cni_range_fn loop, int64_t skip, bool mean)
{
  const cn_desc *w = cn_desc_of(c->in[FIRST]), *y = cn_desc_of(c->out[0]);
  const cn_desc *which = c->nout > 1 && c->out[1] ? cn_desc_of(c->out[1]) : NULL;
  operands o;
  job j;
  cni_operand at = {0};
  int status = open_bags(&j, &o, c, w, w->dtype, skip);
  j.mean = mean;
  if (!status) status = cni_operand_take(&o.table, w, w->dtype, NULL);
  if (!status) status = cni_operand_room(&o.each, y, y->dtype, NULL);
  if (!status && which) status = cni_operand_room(&at, which, CN_I64, NULL);
  j.table = o.table.data;
  j.each = o.each.data;
  j.which = at.data;
  if (!status && y->numel) cni_parallel_for(j.bags, grain_of(&j), loop, &j);
  close_bags(&o);
  cni_operand_drop(&o.table);
  cni_operand_put(&o.each, y, status);
  if (which) cni_operand_put(&at, which, status);
  return status;
}

static int64_t padding_of(const cn_value *v) { return v->u.i < 0 ? INT64_MIN : v->u.i; }

static int bag_sum(cn_call *c) { return gather_bags(c, sum_bags, padding_of(&c->args[4]), c->args[5].u.i); }

static int bag_max(cn_call *c)
{
  if (cn_desc_of(c->in[INPUT])->numel > INT32_MAX) {
    c->refusal = "more elements than its loops number";
    return CN_REFUSED;
  }
  return gather_bags(c, max_bags, padding_of(&c->args[3]), false);
}

/* bag_sum_grad(grad, input, offsets, factors, rows, padding, mean) */
static int bag_sum_grad(cn_call *c)
{
  const cn_desc *g = cn_desc_of(c->in[FIRST]), *y = cn_desc_of(c->out[0]);
  const int wide = y->dtype == CN_F64 ? CN_F64 : CN_F32;
  operands o;
  job j;
  int status = open_bags(&j, &o, c, y, wide, padding_of(&c->args[5]));
  j.mean = c->args[6].u.i;
  if (!status) status = cni_operand_take(&o.each, g, wide, NULL);
  if (!status) status = cni_operand_room(&o.table, y, wide, NULL);
  j.each = o.each.data;
  j.table = o.table.data;
  if (!status && y->numel) {
    memset(j.table, 0, (size_t)y->numel * j.elem);
    const double work = (double)COLUMNS * (double)j.n;
    cni_parallel_for((j.m + COLUMNS - 1) / COLUMNS, work < GRAIN_WORK ? (int64_t)(GRAIN_WORK / (work + 1)) + 1 : 1,
                     spread_columns, &j);
  }
  close_bags(&o);
  cni_operand_drop(&o.each);
  cni_operand_put(&o.table, y, status);
  return status;
}

const cn_kernel cni_cpu_bags_kernels[] = {
    {"bag_sum", "bags", bag_sum},
    {"bag_sum_grad", "columns", bag_sum_grad},
    {"bag_max", "bags", bag_max},
    {NULL, NULL, NULL},
};
