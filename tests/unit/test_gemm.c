/* test_gemm.c: matrix products against three plain loops in double precision: sizes around every tile
 * edge, all layouts, every instruction set this machine has; then what the seam promises beyond the
 * numbers. */
#include "test.h"

#include <math.h>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/isa.h"

enum layout { ROWS, COLUMNS, PADDED_ROWS, PADDED_COLUMNS, LOOSE, BACKWARDS, REPEATED, LAYOUTS };
static const double UNTOUCHED = 777;

/* The thread sanitizer slows the plain loops forty times over: it gets a share of the cases. */
#if defined(__SANITIZE_THREAD__)
enum { SHARE = 9 };
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
enum { SHARE = 9 };
#else
enum { SHARE = 1 };
#endif
#else
enum { SHARE = 1 };
#endif

typedef struct matrix {
  char *memory; /* exactly as long as its last element needs, so that the sanitizer sees every step too far */
  char *data;
  int64_t rows, cols, row, col, length;
  cn_dtype dtype;
} matrix;

static uint64_t random_state = 88172645463325252u;

static int64_t random_below(int64_t n)
{
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (int64_t)(random_state >> 11) % n;
}
static double random_value(void) { return (double)random_below(2001) / 1000.0 - 1.0; }

static double get_at(const matrix *x, int64_t at)
{
  const void *data = x->data;
  return x->dtype == CN_F64 ? ((const double *)data)[at] : (double)((const float *)data)[at];
}
static void set_at(matrix *x, int64_t at, double value)
{
  void *data = x->data;
  if (x->dtype == CN_F64) ((double *)data)[at] = value;
  else ((float *)data)[at] = (float)value;
}
static double get(const matrix *x, int64_t i, int64_t j) { return get_at(x, i * x->row + j * x->col); }
static void set(matrix *x, int64_t i, int64_t j, double value) { set_at(x, i * x->row + j * x->col, value); }

static void set_steps(matrix *x, enum layout layout)
{
  int64_t pad = 1 + random_below(5);
  switch (layout) {
  case ROWS: x->row = x->cols, x->col = 1; break;
  case COLUMNS: x->row = 1, x->col = x->rows; break;
  case PADDED_ROWS: x->row = x->cols + pad, x->col = 1; break;
  case PADDED_COLUMNS: x->row = 1, x->col = x->rows + pad; break;
  case LOOSE: x->row = 3 * x->cols + pad, x->col = 3; break;
  case BACKWARDS: x->row = -x->cols, x->col = 1; break;
  default: x->row = 0, x->col = 1; break;
  }
}

static matrix make(cn_dtype dtype, int64_t rows, int64_t cols, enum layout layout)
{
  matrix x = {.rows = rows, .cols = cols, .dtype = dtype};
  set_steps(&x, layout);
  int64_t first = layout == BACKWARDS && rows ? (rows - 1) * cols : 0;
  int64_t last = rows && cols ? (rows - 1) * x.row + (cols - 1) * x.col + first : -1;
  x.length = (layout == BACKWARDS && rows ? rows * cols : last + 1);
  size_t size = cn_dtype_size(dtype);
  x.memory = malloc((size_t)x.length * size + 1);
  assert_non_null(x.memory);
  x.data = x.memory;
  for (int64_t i = 0; i < x.length; i++) set_at(&x, i, UNTOUCHED);
  x.data = x.memory + (size_t)first * size;
  return x;
}

static matrix make_random(cn_dtype dtype, int64_t rows, int64_t cols, enum layout layout)
{
  matrix x = make(dtype, rows, cols, layout);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j++) set(&x, i, j, random_value());
  return x;
}

static cni_gemm product_of(const matrix *a, const matrix *b, matrix *c, double alpha, double beta)
{
  return (cni_gemm){.m = a->rows,
                    .n = b->cols,
                    .k = a->cols,
                    .a = a->data,
                    .a_row = a->row,
                    .a_col = a->col,
                    .b = b->data,
                    .b_row = b->row,
                    .b_col = b->col,
                    .c = c->data,
                    .c_row = c->row,
                    .c_col = c->col,
                    .alpha = alpha,
                    .beta = beta};
}

static int run(const cni_gemm *g, cn_dtype dtype)
{
  return dtype == CN_F64 ? cni_gemm_f64(g) : cni_gemm_f32(g);
}

/* One element by hand; *size is the sum of absolute values, which bounds the rounding. */
static double expected(const matrix *a, const matrix *b, int64_t i, int64_t j, double *size)
{
  double sum = 0;
  *size = 1;
  for (int64_t k = 0; k < a->cols; k++) {
    double p = get(a, i, k) * get(b, k, j);
    sum += p;
    *size += fabs(p);
  }
  return sum;
}

/* Elements of c that no row and column names must be as they were. */
static void check_gaps(const matrix *c)
{
  if (c->row == 0) return;
  char *named = calloc((size_t)c->length + 1, 1);
  assert_non_null(named);
  for (int64_t i = 0; i < c->rows; i++)
    for (int64_t j = 0; j < c->cols; j++) named[i * c->row + j * c->col] = 1;
  for (int64_t i = 0; i < c->length; i++)
    if (!named[i]) assert_float_equal(get_at(c, i), UNTOUCHED, 0);
  free(named);
}

static void check_element(const matrix *a, const matrix *b, const matrix *c, int64_t i, int64_t j,
                          double alpha, double before)
{
  const double unit = c->dtype == CN_F64 ? 4e-15 : 2e-6;
  double size, want = alpha * expected(a, b, i, j, &size) + before, got = get(c, i, j);
  if (!(fabs(got - want) <= unit * size))
    fail_msg("%s %s: %d x %d x %d, steps %d %d, %d %d, %d %d: [%d, %d] is %.9g, not %.9g",
             cn_dtype_name(c->dtype), cni_cpu_isa_name(cni_cpu_isa()), (int)a->rows, (int)b->cols,
             (int)a->cols, (int)a->row, (int)a->col, (int)b->row, (int)b->col, (int)c->row, (int)c->col,
             (int)i, (int)j, got, want);
}

static void check_one(cn_dtype dtype, int64_t m, int64_t n, int64_t k, const enum layout *layout,
                      double alpha, double beta)
{
  matrix a = make_random(dtype, m, k, layout[0]), b = make_random(dtype, k, n, layout[1]);
  matrix c = make_random(dtype, m, n, layout[2]), before = make(CN_F64, m, n, ROWS);
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      if (beta == 0) set(&c, i, j, (double)NAN);
      set(&before, i, j, beta == 0 ? 0 : get(&c, i, j));
    }
  cni_gemm g = product_of(&a, &b, &c, alpha, beta);
  assert_int_equal(run(&g, dtype), 0);
  /* Large results are sampled, their last row and column in full. */
  bool sample = m * n > 8000;
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++)
      if (!sample || i == m - 1 || j == n - 1 || random_below(m * n) < 500)
        check_element(&a, &b, &c, i, j, alpha, beta * get(&before, i, j));
  check_gaps(&c);
  free(a.memory), free(b.memory), free(c.memory), free(before.memory);
}

static void check_random(cn_dtype dtype, int64_t m, int64_t n, int64_t k)
{
  static const double scales[] = {1, 1, 0, -0.5, 2};
  enum layout layout[3] = {(enum layout)random_below(LAYOUTS), (enum layout)random_below(LAYOUTS),
                           (enum layout)random_below(LOOSE + 1)};
  check_one(dtype, m, n, k, layout, scales[random_below(5)], scales[1 + random_below(4)]);
}

/* Runs `body` under every level the machine has. */
static void on_each_isa(void (*body)(cn_dtype dtype))
{
  cni_cpu_isa_cap(-1);
  int most = cni_cpu_isa();
  for (int level = 0; level <= most; level++) {
    cni_cpu_isa_cap(level);
    assert_int_equal(cni_cpu_isa(), level);
    body(CN_F32);
    body(CN_F64);
  }
  cni_cpu_isa_cap(-1);
}

static void small_body(cn_dtype dtype)
{
  for (int i = 0; i < 120 / SHARE; i++) check_random(dtype, random_below(71), random_below(71), random_below(71));
  for (int i = 0; i < 40 / SHARE; i++) check_random(dtype, 1, random_below(600), random_below(300));
  for (int i = 0; i < 40 / SHARE; i++) check_random(dtype, random_below(300), 1, random_below(600));
}

static void large_body(cn_dtype dtype)
{
  static const int64_t sizes[][3] = {{150, 130, 600}, {300, 290, 520}, {97, 1025, 300},
                                     {1030, 33, 120}, {64, 64, 1500},  {129, 200, 1024},
                                     {29, 300, 700},  {200, 7, 400},   {5, 900, 900},
                                     {57, 530, 1024} /* rows that collide, two blocks of columns, uneven panels */};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    enum layout plain[3] = {ROWS, ROWS, ROWS};
    check_one(dtype, sizes[i][0], sizes[i][1], sizes[i][2], plain, 1, 0);
    check_random(dtype, sizes[i][0], sizes[i][1], sizes[i][2]);
  }
}

static void every_layout_body(cn_dtype dtype)
{
  for (int i = 0; i < LAYOUTS * LAYOUTS * (LOOSE + 1); i += SHARE) {
    enum layout layout[3] = {(enum layout)(i % LAYOUTS), (enum layout)(i / LAYOUTS % LAYOUTS),
                             (enum layout)(i / LAYOUTS / LAYOUTS)};
    check_one(dtype, 33, 37, 19, layout, 1, i % 2);
    check_one(dtype, 90, 72, 65, layout, -2, i % 3);
  }
}

static void small_products(void **state)
{
  (void)state;
  on_each_isa(small_body);
}
static void large_products(void **state)
{
  (void)state;
  on_each_isa(large_body);
}
static void every_layout(void **state)
{
  (void)state;
  on_each_isa(every_layout_body);
}

static void empty_body(cn_dtype dtype)
{
  static const enum layout plain[3] = {ROWS, ROWS, ROWS};
  check_one(dtype, 0, 5, 3, plain, 1, 0);
  check_one(dtype, 5, 0, 3, plain, 1, 1);
  check_one(dtype, 0, 0, 0, plain, 1, 1);
  check_one(dtype, 7, 40, 0, plain, 1, 0);   /* writes zeros over NaN */
  check_one(dtype, 7, 40, 0, plain, 3, 0.5); /* scales */
}
static void empty_dimensions(void **state)
{
  (void)state;
  on_each_isa(empty_body);
}

/* 0 * inf must be NaN: no kernel may skip zeros. */
static void nan_body(cn_dtype dtype)
{
  static const int64_t sizes[][3] = {{5, 9, 7}, {1, 150, 8}, {40, 1, 33}, {100, 100, 100}, {3, 2, 1}};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
    matrix a = make(dtype, m, k, ROWS), b = make_random(dtype, k, n, ROWS), c = make(dtype, m, n, ROWS);
    for (int64_t i = 0; i < m * k; i++) set_at(&a, i, 0);
    for (int64_t j = 0; j < n; j += 2) set(&b, k - 1, j, (double)INFINITY);
    cni_gemm g = product_of(&a, &b, &c, 1, 0);
    assert_int_equal(run(&g, dtype), 0);
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++) assert_true(j % 2 ? get(&c, i, j) == 0 : isnan(get(&c, i, j)));
    free(a.memory), free(b.memory), free(c.memory);
  }
}
static void nan_and_infinity(void **state)
{
  (void)state;
  on_each_isa(nan_body);
}

/* The same bits on any number of threads. */
static void threads_body(cn_dtype dtype)
{
  static const int64_t sizes[][3] = {{257, 301, 700}, {1, 4001, 600},  {4001, 1, 600}, {561, 40, 300},
                                     {1681, 20, 256}, {256, 256, 256}, {12, 3000, 300}};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (int layouts = 0; layouts < 4; layouts++) {
      int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
      matrix a = make_random(dtype, m, k, (enum layout)(layouts & 1));
      matrix b = make_random(dtype, k, n, (enum layout)(layouts >> 1)), c[2];
      for (int i = 0; i < 2; i++) {
        c[i] = make(dtype, m, n, ROWS);
        cn_set_num_threads(i ? 3 : 1);
        cni_gemm g = product_of(&a, &b, &c[i], 1, 0);
        assert_int_equal(run(&g, dtype), 0);
      }
      assert_memory_equal(c[0].memory, c[1].memory, (size_t)(m * n) * cn_dtype_size(dtype));
      free(a.memory), free(b.memory), free(c[0].memory), free(c[1].memory);
    }
  cn_set_num_threads(0);
}
static void thread_count_changes_nothing(void **state)
{
  (void)state;
  on_each_isa(threads_body);
}

static void batch_body(cn_dtype dtype)
{
  static const int64_t sizes[][4] = {{6, 10, 20, 30}, {40, 65, 64, 66}, {3, 130, 140, 150}, {0, 4, 4, 4}};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    int64_t batch = sizes[s][0], m = sizes[s][1], n = sizes[s][2], k = sizes[s][3];
    matrix a = make_random(dtype, batch * m, k, ROWS), b = make_random(dtype, k, n, ROWS); /* b serves all */
    matrix c = make(dtype, batch * m, n, ROWS), whole = make(dtype, batch * m, n, ROWS);
    cni_gemm g = product_of(&a, &b, &c, 1, 0);
    g.m = m;
    assert_int_equal(cni_gemm_batch(dtype, &g, batch, m * k, 0, m * n), 0);
    g.m = batch * m;
    g.c = whole.data;
    assert_int_equal(run(&g, dtype), 0);
    double unit = dtype == CN_F64 ? 1e-14 : 1e-5;
    for (int64_t i = 0; i < c.length; i++)
      assert_float_equal(get_at(&c, i), get_at(&whole, i), unit * (double)k);
    free(a.memory), free(b.memory), free(c.memory), free(whole.memory);
  }
}
static void batches(void **state)
{
  (void)state;
  on_each_isa(batch_body);
}

static void batch_refuses_integers(void **state)
{
  (void)state;
  cni_gemm g = {.m = 1, .n = 1, .k = 1};
  assert_int_equal(cni_gemm_batch(CN_I32, &g, 1, 0, 0, 0), CN_ERR_DTYPE);
  cn_err_clear();
}

/* The packing buffer is the only allocation; without it the product reports and leaves. */
static void out_of_memory(void **state)
{
  (void)state;
  matrix a = make_random(CN_F32, 300, 700, COLUMNS), b = make_random(CN_F32, 700, 300, COLUMNS);
  matrix c = make(CN_F32, 300, 300, ROWS);
  cni_gemm g = product_of(&a, &b, &c, 1, 0);
  cn_memory_set_caching(false);
  cn_memory_trim();
  cn_memory_fail_at(1);
  assert_int_equal(cni_gemm_f32(&g), CN_ERR_MEMORY);
  assert_int_equal(cn_err(), CN_ERR_MEMORY);
  cn_err_clear();
  cn_memory_fail_at(0);
  cn_memory_set_caching(true);
  assert_int_equal(cni_gemm_f32(&g), 0);
  free(a.memory), free(b.memory), free(c.memory);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(small_products),   cmocka_unit_test(large_products),
      cmocka_unit_test(every_layout),     cmocka_unit_test(empty_dimensions),
      cmocka_unit_test(nan_and_infinity), cmocka_unit_test(thread_count_changes_nothing),
      cmocka_unit_test(batches),          cmocka_unit_test(batch_refuses_integers),
      cmocka_unit_test(out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
