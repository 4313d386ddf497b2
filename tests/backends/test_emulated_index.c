/* test_emulated_index.c: reading and writing whole rows by index on the CUDA plugin, emulated (test_emulated.c),
 * against the CPU: rows of every width in bytes, shorter than a warp and longer than a piece, few and many of them,
 * moved and folded; numbers from the end and numbers that are out of range; and that the emulation lets threads take
 * turns in more than one order. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "emulated.h"

enum { ROWS = 29 };

typedef struct kind {
  int64_t n, many; /* elements of a row; how many rows are asked for */
  cn_dtype type;
  int64_t skip; /* elements in front of the first row */
} kind;

/* 16 bytes at a time: a row is a pack, part of a warp, one and a half warps, several pieces; then 8, 4, 2 and 1. */
static const kind kinds[] = {
    {8, 40, CN_BF16, 0},  {56, 300, CN_BF16, 0}, {384, 70, CN_BF16, 0}, {9000, 3, CN_BF16, 0}, {4, 9, CN_F64, 0},
    {20, 90, CN_BF16, 0}, {384, 9, CN_BF16, 4},  {34, 50, CN_BF16, 0},  {77, 50, CN_BF16, 0},  {1027, 5, CN_U8, 0},
    {3, 2000, CN_F32, 0}, {8, 40, CN_BF16, 1},   {1, 40, CN_F32, 0},    {36, 40, CN_F32, 0},   {36, 40, CN_F32, 1},
};

static cn_tensor *filled(int64_t rows, const kind *k)
{
  cn_tensor *x = cn_randint(-100, 100, CN_SHAPE(k->skip + rows * k->n));
  return cn_cast(k->type == CN_U8 ? cn_abs(x) : x, k->type);
}
/* Rows behind the first elements, which are not where packs begin then. */
static cn_tensor *rows_of(cn_tensor *x, int64_t rows, const kind *k)
{
  return cn_reshape(cn_slice(x, 0, k->skip, CN_NONE), CN_SHAPE(rows, k->n));
}

/* x on the CPU and y on the device are the same bit for bit. */
static void same(const char *op, const kind *k, cn_tensor *x, cn_tensor *y)
{
  char what[100];
  snprintf(what, sizeof what, "%s of %lld rows of %lld, %s", op, (long long)k->many, (long long)k->n,
           cn_dtype_name(k->type));
  close_to(what, x, y, 0);
}

static void reading(void **state)
{
  (void)state;
  need_device();
  for (size_t c = 0; c < sizeof kinds / sizeof *kinds; c++) {
    const kind *k = &kinds[c];
    cn_scope *s = cn_scope_begin();
    cn_seed(c);
    cn_tensor *all = filled(ROWS, k), *x = rows_of(all, ROWS, k), *y = rows_of(there(all), ROWS, k);
    cn_tensor *i = cn_randint(0, ROWS, CN_SHAPE(k->many)), *j = cn_sub(i, cn_int(ROWS)), *far = there(j);
    same("index_select", k, cn_index_select(x, 0, i), cn_index_select(y, 0, there(i)));
    same("index", k, cn_index(x, &j, 1), cn_index(y, &far, 1));
    same("embedding", k, cn_embedding(i, x, -1), cn_embedding(there(i), y, -1));
    cn_tensor *three = cn_reshape(cn_index_select(x, 0, i), CN_SHAPE(k->many, k->n, 1));
    cn_tensor *wide = cn_contiguous(cn_expand(three, CN_SHAPE(k->many, k->n, 3)));
    cn_tensor *l = cn_randint(0, k->n, CN_SHAPE(7));
    same("index_select in the middle", k, cn_index_select(wide, 1, l), cn_index_select(there(wide), 1, there(l)));
    cn_scope_end(s);
  }
}

static void writing(void **state)
{
  (void)state;
  need_device();
  for (size_t c = 0; c < sizeof kinds / sizeof *kinds; c++) {
    const kind *k = &kinds[c];
    cn_scope *s = cn_scope_begin();
    cn_seed(c);
    int64_t n = k->many < ROWS ? k->many : ROWS; /* each place once: who comes last is not said */
    cn_tensor *all = filled(ROWS, k), *x = rows_of(all, ROWS, k), *y = rows_of(there(all), ROWS, k);
    cn_tensor *more = filled(k->many, k), *from = rows_of(more, k->many, k);
    cn_tensor *there_too = rows_of(there(more), k->many, k);
    cn_tensor *i = cn_cast(cn_slice(cn_randperm(ROWS), 0, 0, n), CN_I64);
    cn_tensor *p = cn_slice(from, 0, 0, n), *q = cn_slice(there_too, 0, 0, n);
    same("index_copy", k, cn_index_copy(x, 0, i, p), cn_index_copy(y, 0, there(i), q));
    cn_tensor *to[] = {cn_sub(i, cn_int(ROWS))}, *to_there[] = {there(to[0])};
    same("index_put", k, cn_index_put(x, to, 1, p), cn_index_put(y, to_there, 1, q));
    cn_tensor *again = cn_randint(0, ROWS, CN_SHAPE(k->many)); /* whole numbers, whose sums float32 has exactly */
    cn_tensor *sum = cn_index_add(cn_cast(x, CN_F32), 0, again, cn_cast(from, CN_F32), .alpha = 2);
    same("index_add", k, sum,
             cn_index_add(cn_cast(y, CN_F32), 0, there(again), cn_cast(there_too, CN_F32), .alpha = 2));
    same("index_add of its type", k, cn_index_add(cn_zeros_like(x), 0, i, p),
             cn_index_add(cn_zeros_like(y), 0, there(i), q));
    cn_scope_end(s);
  }
}

/* What is out of range is reported, and nothing of it is read or written. */
static void out_of_range(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  cn_tensor *y = there(cn_ones(CN_SHAPE(ROWS, 64))), *i = there(cn_full(CN_SHAPE(40), ROWS, .dtype = CN_I64));
  cn_tensor *list[] = {there(cn_full(CN_SHAPE(3), -ROWS - 1, .dtype = CN_I64))};
  for (int k = 0; k < 3; k++) {
    cn_tensor *done = k == 0   ? cn_index_select(y, 0, i)
                      : k == 1 ? cn_index(y, list, 1)
                               : cn_index_add(y, 0, i, there(cn_ones(CN_SHAPE(40, 64))));
    int now = cn_err();
    if (!now) now = cn_device_sync(gpu);
    if (now != CN_ERR_INDEX) fail_msg("%d: %s", k, cn_err_message());
    cn_err_clear();
    if (k == 2 && done) close_to("what was there", cn_ones(CN_SHAPE(ROWS, 64)), done, 0);
  }
  cn_scope_end(s);
}

/* Who writes one place last is whose turn was last. */
static void threads_take_turns(void **state)
{
  (void)state;
  need_device();
  enum { N = 200, ORDERS = 5 };
  const char *before = getenv("SIMT_ORDER");
  if (!before) SKIP_TEST("threads take turns in the emulation alone");
  cn_scope *s = cn_scope_begin();
  cn_tensor *from = there(cn_arange(0, N, .dtype = CN_F32)), *i = there(cn_zeros(CN_SHAPE(N), .dtype = CN_I64));
  int differ = 0;
  for (int order = 0; order <= ORDERS; order++) {
    char number[8];
    snprintf(number, sizeof number, "%d", order);
    setenv("SIMT_ORDER", number, 1);
    double last = cn_item(cn_scatter(there(cn_zeros(CN_SHAPE(1))), 0, i, from));
    if (!order) assert_int_equal(last, N - 1);
    else differ += last != N - 1;
  }
  setenv("SIMT_ORDER", before, 1);
  assert_true(differ > ORDERS / 2);
  cn_scope_end(s);
}

int main(int argc, char **argv)
{
  (void)argc;
  emulate(argv);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reading),
      cmocka_unit_test(writing),
      cmocka_unit_test(out_of_range),
      cmocka_unit_test(threads_take_turns),
  };
  return cmocka_run_group_tests(tests, find_emulated, NULL);
}
