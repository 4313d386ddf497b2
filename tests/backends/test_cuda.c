/* test_cuda.c: the CUDA plugin against the CPU on the same samples: copies, casts, pointwise ops and their
 * gradients, sums, products, late failures, a training step. Skipped, with the reason, where there is no
 * device or no plugin.
 *
 * Pointwise results must be equal bit for bit when this CPU fuses multiply-adds as the GPU does; sums and
 * products add in another order and are compared with a tolerance. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "on_cuda.h"

#include <cairn/ext/parts.h>

#include "backends/cpu/isa.h"

static double exact(void) { return cni_cpu_isa() > CNI_ISA_BASE ? 0 : 1e-6; }

/* ---- devices, memory ---- */

static void without_device(void **state)
{
  (void)state;
  if (gpu) SKIP_TEST("there is a CUDA device");
  assert_int_equal(cn_device_count("cuda"), 0);
  assert_int_equal(cn_err(), 0);
  assert_int_equal(cn_device_find("cuda"), CN_DEVICE_DEFAULT);
  assert_int_equal(cn_err(), CN_ERR_DEVICE);
  cn_err_clear();
}

static void information(void **state)
{
  (void)state;
  need_gpu();
  cn_device_info info;
  assert_int_equal(cn_device_info_get(&info, gpu), 0);
  print_message("%s, %s, %d multiprocessors, %.1f GiB\n", info.name, info.arch, info.units,
                (double)info.memory_total / (1 << 30));
  assert_true(info.units > 0 && info.memory_total > 0 && info.memory_free > 0);
}

static void copies(void **state)
{
  (void)state;
  need_gpu();
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_randn(CN_SHAPE(37, 21)), *y = there(x);
  assert_int_equal(cn_device_of(y), gpu);
  close_to("round trip", x, y, 0);
  close_to("transposed", cn_transpose(x, 0, 1), there(cn_transpose(x, 0, 1)), 0);
  close_to("view", cn_transpose(x, 0, 1), cn_transpose(y, 0, 1), 0);
  close_to("row-major copy", cn_contiguous_copy(cn_transpose(x, 0, 1)),
           cn_contiguous_copy(cn_transpose(y, 0, 1)), 0);
  close_to("slice", cn_slice(x, 1, 2, CN_NONE, .step = 3), cn_clone(cn_slice(y, 1, 2, CN_NONE, .step = 3)),
           0);
  close_to("flip", cn_clone(cn_slice(x, 0, CN_NONE, CN_NONE, .step = 2)),
           cn_clone(cn_slice(y, 0, CN_NONE, CN_NONE, .step = 2)), 0);
  close_to("full", cn_full(CN_SHAPE(5, 3), 2.5), cn_full(CN_SHAPE(5, 3), 2.5, .device = gpu), 0);
  close_to("integers", cn_full(CN_SHAPE(7), 3, .dtype = CN_U8),
           cn_full(CN_SHAPE(7), 3, .dtype = CN_U8, .device = gpu), 0);
  close_to("empty", cn_ones(CN_SHAPE(0, 4)), cn_ones(CN_SHAPE(0, 4), .device = gpu), 0);
  close_to("one", cn_ones(CN_SCALAR_SHAPE), cn_ones(CN_SCALAR_SHAPE, .device = gpu), 0);
  assert_null(cn_data(y));
  cn_err_clear();
  cn_scope_end(s);
}

/* ---- pinned memory ---- */

static void pinned(void **state)
{
  (void)state;
  need_gpu();
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_randn(CN_SHAPE(301, 77)), *p = cn_pin_memory(x, gpu);
  fine();
  assert_true(cn_is_pinned(p) && !cn_is_pinned(x));
  assert_ptr_equal(cn_pin_memory(p, gpu), p);
  close_to("pinned", x, there(p), 0);
  close_to("from its middle", cn_select(x, 0, 200), there(cn_select(p, 0, 200)), 0);
  close_to("transposed", cn_transpose(x, 0, 1), there(cn_pin_memory(cn_transpose(x, 0, 1), gpu)), 0);
  close_to("strided", cn_slice(x, 1, 1, CN_NONE, .step = 3),
           there(cn_pin_memory(cn_slice(x, 1, 1, CN_NONE, .step = 3), gpu)), 0);
  cn_scope_end(s);
  fine();
}

/* Blocks are given back while copies from them are queued behind slow work, and taken again, in several sizes. */
static void pinned_reuse(void **state)
{
  (void)state;
  need_gpu();
  enum { ROUNDS = 200, N = 300000 };
  cn_tensor *copies[ROUNDS] = {NULL}, *busy = NULL;
  cn_scope *s = cn_scope_begin();
  assert_int_equal(cn_set(&busy, cn_full(CN_SHAPE(2048, 2048), 0.5, .device = gpu)), 0);
  cn_scope_end(s);
  for (int i = 0; i < ROUNDS; i++) {
    s = cn_scope_begin();
    if (i % 4 == 0) cn_mm(busy, busy);
    cn_tensor *p = cn_pin_memory(cn_full(CN_SHAPE(N + 100000 * (i % 3)), i), gpu);
    fine();
    assert_true(cn_is_pinned(p));
    assert_int_equal(cn_set(&copies[i], there(p)), 0);
    if (i % 50 == 30) cn_add_(p, cn_num(1000)); /* waits for the copy */
    if (i % 50 == 40) ((float *)cn_data(p))[0] = 1000;
    cn_scope_end(s);
  }
  for (int i = 0; i < ROUNDS; i++) {
    s = cn_scope_begin();
    close_to("reused", cn_full(CN_SHAPE(N + 100000 * (i % 3)), i), copies[i], 0);
    cn_scope_end(s);
    cn_release(copies[i]);
  }
  cn_release(busy);
}

static void pinned_batches(void **state)
{
  (void)state;
  need_gpu();
  for (int no_pin = 0; no_pin < 2; no_pin++) {
    cn_loader *here = cn_loader_new(cn_digits(CN_TRAIN), .batch = 64, .shuffle = true, .seed = 3);
    cn_loader *gone = cn_loader_new(cn_digits(CN_TRAIN), .batch = 64, .shuffle = true, .seed = 3, .workers = 2,
                                    .device = gpu, .no_pin = no_pin);
    cn_batch a, b;
    while (cn_loader_next(&a, here) == 1) {
      assert_int_equal(cn_loader_next(&b, gone), 1);
      cn_scope *s = cn_scope_begin();
      close_to("batch", a.x, b.x, 0);
      close_to("classes", a.y, b.y, 0);
      cn_scope_end(s);
    }
    cn_loader_free(here);
    cn_loader_free(gone);
    fine();
  }
}

static void casts(void **state)
{
  (void)state;
  need_gpu();
  static const cn_dtype types[] = {CN_F64, CN_F16, CN_BF16, CN_I64, CN_I32,  CN_I16,    CN_I8,
                                   CN_U8,  CN_U16, CN_U32,  CN_U64, CN_BOOL, CN_F8E4M3, CN_F8E5M2};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *x = cn_mul(cn_randn(CN_SHAPE(19, 23)), cn_num(30)), *y = cn_cast(x, types[i]);
    close_to(cn_dtype_name(types[i]), y, cn_cast(there(x), types[i]), 0);
    close_to("and back", cn_cast(y, CN_F32), cn_cast(there(y), CN_F32), 0);
    close_to("strided", cn_cast(cn_transpose(x, 0, 1), types[i]),
             cn_cast(cn_transpose(there(x), 0, 1), types[i]), 0);
    cn_scope_end(s);
  }
}

/* scaled_mm by the library, against float32 on the CPU. Its sums of 8-bit floats have some 14 bits. */
static void scaled_products(void **state)
{
  (void)state;
  need_gpu();
  static const int64_t sizes[][3] = {{64, 128, 96}, {17, 256, 48}, {33, 40, 30}};
  static const cn_dtype types[] = {CN_BF16, CN_F16, CN_F32, CN_F8E4M3};
  cn_seed(2);
  for (int i = 0; i < 3 * 4 * 8; i++) {
    cn_scope *s = cn_scope_begin();
    const int64_t m = sizes[i / 32][0], k = sizes[i / 32][1], n = sizes[i / 32][2];
    cn_dtype to = types[i / 8 % 4];
    bool lines = i & 1, fast = i & 4;
    cn_tensor *a = cn_cast(cn_randn(CN_SHAPE(m, k)), CN_F8E4M3);
    cn_tensor *b = cn_cast(cn_randn(CN_SHAPE(n, k)), fast ? CN_F8E5M2 : CN_F8E4M3);
    cn_tensor *rows = lines ? cn_rand(CN_SHAPE(m, 1)) : cn_rand(CN_SCALAR_SHAPE);
    cn_tensor *cols = lines ? cn_rand(CN_SHAPE(1, n)) : cn_rand(CN_SHAPE(1));
    cn_tensor *bias = i & 2 ? cn_cast(cn_randn(CN_SHAPE(n)), to == CN_F8E4M3 ? CN_BF16 : to) : NULL, *y[2];
    for (int far = 0; far < 2; far++)
      y[far] = cn_scaled_mm(far ? there(a) : a, cn_transpose(far ? there(b) : b, 0, 1), far ? there(rows) : rows,
                            far ? there(cols) : cols, .bias = bias && far ? there(bias) : bias, .out_dtype = to,
                            .use_fast_accum = fast);
    close_to(cn_dtype_name(to), y[0], y[1], to == CN_F8E4M3 ? 0.15 : 0.02);
    cn_scope_end(s);
  }
}

/* ---- pointwise ---- */

static cn_tensor *gelu(cn_tensor *x) { return cn_gelu(x); }
static cn_tensor *gelu_tanh(cn_tensor *x) { return cn_gelu(x, .approximate = "tanh"); }
static cn_tensor *softplus(cn_tensor *x) { return cn_softplus(x, .beta = 2); }
static cn_tensor *positive_log(cn_tensor *x) { return cn_log(cn_add(cn_mul(x, x), cn_num(0.1))); }

static const struct {
  const char *name;
  cn_tensor *(*fn)(cn_tensor *);
} unary[] = {
    {"gelu", gelu},        {"gelu tanh", gelu_tanh}, {"softplus", softplus}, {"log", positive_log},
    {"exp", cn_exp},       {"silu", cn_silu},        {"tanh", cn_tanh},      {"sigmoid", cn_sigmoid},
    {"erf", cn_erf},       {"sin", cn_sin},          {"atan", cn_atan},      {"relu", cn_relu},
    {"abs", cn_abs},       {"floor", cn_floor},      {"neg", cn_neg},        {"expm1", cn_expm1},
    {"lgamma", cn_lgamma},
};

static void pointwise(void **state)
{
  (void)state;
  need_gpu();
  static const cn_dtype types[] = {CN_F32, CN_F64, CN_BF16, CN_F16};
  cn_seed(1);
  for (size_t k = 0; k < sizeof unary / sizeof *unary; k++)
    for (int i = 0; i < (k < 4 ? 4 : 1); i++) { /* a few in every type: compiling takes time */
      cn_scope *s = cn_scope_begin();
      cn_tensor *x = cn_cast(cn_mul(cn_randn(CN_SHAPE(67, 31)), cn_num(3)), types[i]);
      close_to(unary[k].name, unary[k].fn(x), unary[k].fn(there(x)), exact());
      cn_scope_end(s);
    }
}

static void broadcasts(void **state)
{
  (void)state;
  need_gpu();
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_randn(CN_SHAPE(6, 31, 17)), *row = cn_randn(CN_SHAPE(17)),
            *col = cn_randn(CN_SHAPE(31, 1));
  cn_tensor *transposed = cn_transpose(cn_randn(CN_SHAPE(6, 17, 31)), 1, 2),
            *part = cn_slice(x, 2, 1, CN_NONE, .step = 2);
  cn_tensor *gx = there(x), *gpart = cn_slice(gx, 2, 1, CN_NONE, .step = 2);
  close_to("row", cn_add(x, row), cn_add(gx, there(row)), 0);
  close_to("col", cn_add(col, x, .alpha = 0.5), cn_add(there(col), gx, .alpha = 0.5), 0);
  close_to("transposed", cn_mul(x, transposed), cn_mul(gx, there(transposed)), 0);
  close_to("number", cn_mul(x, cn_num(1.5)), cn_mul(gx, cn_num(1.5)), 0);
  close_to("host 0-d", cn_mul(x, cn_select(row, 0, 3)), cn_mul(gx, cn_select(row, 0, 3)), 0);
  close_to("part", cn_sub(part, cn_num(1)), cn_sub(gpart, cn_num(1)), 0);
  close_to("unaligned", cn_exp(cn_slice(row, 0, 1, CN_NONE)), cn_exp(cn_slice(there(row), 0, 1, CN_NONE)),
           exact());
  close_to("compare", cn_gt(x, col), cn_gt(gx, there(col)), 0);
  close_to("where", cn_where(cn_gt(x, cn_num(0)), x, row), cn_where(cn_gt(gx, cn_num(0)), gx, there(row)), 0);
  close_to("mixed", cn_add(x, cn_cast(row, CN_BF16)), cn_add(gx, there(cn_cast(row, CN_BF16))), 0);
  cn_tensor *a = cn_clone(x), *b = cn_clone(gx);
  cn_add_(cn_select(a, 1, 2), row);
  cn_add_(cn_select(b, 1, 2), there(row));
  close_to("in place", a, b, 0);
  cn_scope_end(s);
}

static void integers(void **state)
{
  (void)state;
  need_gpu();
  cn_scope *s = cn_scope_begin();
  cn_tensor *a = cn_randint(-1000, 1000, CN_SHAPE(40, 9)), *b = cn_randint(1, 9, CN_SHAPE(9));
  close_to("mul", cn_mul(a, b), cn_mul(there(a), there(b)), 0);
  close_to("floor_divide", cn_floor_divide(a, b), cn_floor_divide(there(a), there(b)), 0);
  cn_tensor *bytes = cn_cast(a, CN_U8);
  close_to("bytes", cn_mul(bytes, bytes), cn_mul(there(bytes), there(bytes)), 0);
  assert_int_equal(cn_device_sync(gpu), 0);
  cn_floor_divide(there(a), cn_zeros(CN_SHAPE(9), .dtype = CN_I64, .device = gpu));
  int code = cn_err(); /* at once under CAIRN_SYNC=1, else late */
  assert_int_equal(code ? code : cn_device_sync(gpu), CN_ERR_VALUE);
  assert_non_null(strstr(cn_err_message(), "floor_divide"));
  cn_err_clear();
  assert_int_equal(cn_device_sync(gpu), 0);
  cn_scope_end(s);
}

/* ---- gradients: of the sum of fn's result times a fixed weight ---- */

typedef cn_tensor *(*graph_fn)(cn_tensor *const *x);

static void check_gradient(const char *name, graph_fn fn, cn_tensor *const *x, int n, double tol)
{
  cn_tensor *grads[2][4], *y[2];
  for (int k = 0; k < 2; k++) {
    cn_tensor *leaves[4];
    for (int i = 0; i < n; i++) leaves[i] = cn_requires_grad(k ? there(x[i]) : cn_clone(x[i]), true);
    y[k] = fn(leaves);
    fine();
    cn_seed(77);
    cn_tensor *weight = cn_randn(cn_shape(y[k]), (size_t)cn_ndim(y[k]), .dtype = cn_dtype_of(y[k]));
    cn_tensor *loss = cn_sum(cn_mul(y[k], k ? there(weight) : weight));
    if (cn_backward(loss)) print_error("%s: %s\n", name, cn_err_message());
    fine();
    for (int i = 0; i < n; i++) grads[k][i] = cn_grad_of(leaves[i]);
  }
  close_to(name, y[0], y[1], tol);
  for (int i = 0; i < n; i++) close_to(name, grads[0][i], grads[1][i], tol);
}

static cn_tensor *add_graph(cn_tensor *const *x) { return cn_add(x[0], x[1], .alpha = 0.5); }
static cn_tensor *gelu_graph(cn_tensor *const *x) { return cn_gelu(cn_mul(x[0], x[1])); }
static cn_tensor *sum_graph(cn_tensor *const *x) { return cn_sum(x[0], .dim = CN_INTS(1)); }
static cn_tensor *mean_graph(cn_tensor *const *x)
{
  return cn_mean(cn_mul(x[0], x[0]), .dim = CN_INTS(0, 2), .keepdim = true);
}
static cn_tensor *matmul_graph(cn_tensor *const *x) { return cn_matmul(x[0], x[1]); }
static cn_tensor *linear_graph(cn_tensor *const *x) { return cn_linear(x[0], x[1], x[2]); }

static void gradients(void **state)
{
  (void)state;
  need_gpu();
  cn_seed(2);
  static const cn_dtype types[] = {CN_F32, CN_F64, CN_BF16};
  for (int i = 0; i < 3; i++) {
    cn_scope *s = cn_scope_begin();
    double tol = rough(types[i]);
    cn_tensor *x = cn_cast(cn_randn(CN_SHAPE(4, 6, 10)), types[i]),
              *row = cn_cast(cn_randn(CN_SHAPE(10)), types[i]);
    cn_tensor *w = cn_cast(cn_randn(CN_SHAPE(10, 5)), types[i]),
              *batch = cn_cast(cn_randn(CN_SHAPE(4, 10, 3)), types[i]);
    cn_tensor *weight = cn_cast(cn_randn(CN_SHAPE(7, 10)), types[i]),
              *bias = cn_cast(cn_randn(CN_SHAPE(7)), types[i]);
    check_gradient("add", add_graph, (cn_tensor *[]){x, row}, 2, tol);
    check_gradient("gelu", gelu_graph, (cn_tensor *[]){x, row}, 2, tol);
    check_gradient("sum", sum_graph, &x, 1, tol);
    check_gradient("mean", mean_graph, &x, 1, tol);
    check_gradient("matmul", matmul_graph, (cn_tensor *[]){x, w}, 2, tol);
    check_gradient("batched matmul", matmul_graph, (cn_tensor *[]){x, batch}, 2, tol);
    check_gradient("linear", linear_graph, (cn_tensor *[]){x, weight, bias}, 3, tol);
    cn_scope_end(s);
  }
}

/* ---- sums ---- */

static void sums_of(cn_tensor *x, double tol)
{
  cn_tensor *y = there(x);
  close_to("all", cn_sum(x), cn_sum(y), tol);
  close_to("rows", cn_sum(x, .dim = CN_INTS(-1)), cn_sum(y, .dim = CN_INTS(-1)), tol);
  close_to("columns", cn_sum(x, .dim = CN_INTS(0)), cn_sum(y, .dim = CN_INTS(0)), tol);
  close_to("middle", cn_sum(x, .dim = CN_INTS(1), .keepdim = true),
           cn_sum(y, .dim = CN_INTS(1), .keepdim = true), tol);
  close_to("outer and inner", cn_sum(x, .dim = CN_INTS(0, 2)), cn_sum(y, .dim = CN_INTS(0, 2)), tol);
  close_to("transposed", cn_sum(cn_transpose(x, 0, 2), .dim = CN_INTS(1)),
           cn_sum(cn_transpose(y, 0, 2), .dim = CN_INTS(1)), tol);
}

static void sums(void **state)
{
  (void)state;
  need_gpu();
  static const cn_dtype types[] = {CN_F32, CN_F64, CN_F16, CN_BF16, CN_I64, CN_I8, CN_BOOL};
  cn_seed(3);
  for (int i = 0; i < 7; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *x = cn_mul(cn_randn(CN_SHAPE(35, 6, 70)), cn_num(i < 4 ? 1 : 20));
    sums_of(i == 6 ? cn_gt(x, cn_num(0)) : cn_cast(x, types[i]), i < 4 ? rough(types[i]) : 0);
    cn_scope_end(s);
  }
  cn_scope *s = cn_scope_begin();
  cn_tensor *big = cn_rand(CN_SHAPE(1500, 1100)), *y = there(big); /* several blocks share an output */
  close_to("big", cn_sum(big), cn_sum(y), 1e-6);
  close_to("big mean", cn_mean(big, .dim = CN_INTS(0)), cn_mean(y, .dim = CN_INTS(0)), 1e-6);
  close_to("big rows", cn_sum(big, .dim = CN_INTS(1)), cn_sum(y, .dim = CN_INTS(1)), 1e-6);
  close_to("in double", cn_sum(big, .dtype = CN_F64), cn_sum(y, .dtype = CN_F64), 1e-12);
  close_to("twice the same", cn_sum(y), cn_sum(y), 0);
  close_to("of nothing", cn_sum(cn_ones(CN_SHAPE(0, 3)), .dim = CN_INTS(0)),
           cn_sum(cn_ones(CN_SHAPE(0, 3), .device = gpu), .dim = CN_INTS(0)), 0);
  cn_scope_end(s);
}

/* ---- products ---- */

static void products(void **state)
{
  (void)state;
  need_gpu();
  static const cn_dtype types[] = {CN_F32, CN_F64, CN_F16, CN_BF16};
  cn_seed(4);
  for (int form = 0; form < 8; form++) {
    cn_scope *s = cn_scope_begin();
    int i = form / 2;
    int64_t deep = form % 2 ? 600 : 40; /* by the library, and small */
    double tol = rough(types[i]);
    cn_tensor *a = cn_cast(cn_mul(cn_randn(CN_SHAPE(33, deep)), cn_num(deep > 40 ? 0.2 : 1)), types[i]),
              *b = cn_cast(cn_randn(CN_SHAPE(deep, 25)), types[i]);
    cn_tensor *transposed = cn_transpose(cn_cast(cn_randn(CN_SHAPE(25, deep)), types[i]), 0, 1), *ga = there(a),
              *gb = there(b);
    close_to("plain", cn_mm(a, b), cn_mm(ga, gb), tol);
    close_to("right transposed", cn_mm(a, transposed), cn_mm(ga, there(transposed)), tol);
    close_to("left transposed", cn_mm(cn_transpose(b, 0, 1), cn_transpose(a, 0, 1)),
             cn_mm(cn_transpose(gb, 0, 1), cn_transpose(ga, 0, 1)), tol);
    close_to("every second",
             cn_mm(cn_slice(a, 1, 0, CN_NONE, .step = 2), cn_slice(b, 0, 0, CN_NONE, .step = 2)),
             cn_mm(cn_slice(ga, 1, 0, CN_NONE, .step = 2), cn_slice(gb, 0, 0, CN_NONE, .step = 2)), tol);
    close_to("odd offset", cn_mm(cn_slice(a, 1, 3, CN_NONE), cn_slice(b, 0, 3, CN_NONE)),
             cn_mm(cn_slice(ga, 1, 3, CN_NONE), cn_slice(gb, 0, 3, CN_NONE)), tol);
    close_to("vector", cn_matmul(a, cn_select(b, 1, 2)), cn_matmul(ga, cn_select(gb, 1, 2)), tol);
    cn_tensor *left = cn_cast(cn_randn(CN_SHAPE(3, 1, 8, 12)), types[i]),
              *right = cn_cast(cn_randn(CN_SHAPE(5, 12, 4)), types[i]);
    close_to("batches", cn_matmul(left, right), cn_matmul(there(left), there(right)), tol);
    close_to("over nothing", cn_mm(cn_slice(a, 1, 0, 0), cn_slice(b, 0, 0, 0)),
             cn_mm(cn_slice(ga, 1, 0, 0), cn_slice(gb, 0, 0, 0)), 0);
    cn_scope_end(s);
  }
  cn_scope *s = cn_scope_begin();
  cn_tensor *n = cn_randint(-9, 9, CN_SHAPE(6, 7));
  close_to("integers", cn_matmul(n, cn_transpose(n, 0, 1)), cn_matmul(there(n), cn_transpose(there(n), 0, 1)),
           0);
  cn_scope_end(s);
}

/* ---- the rest: ops without a kernel here, and everything together ---- */

static void others(void **state)
{
  (void)state;
  need_gpu();
  cn_scope *s = cn_scope_begin();
  cn_seed(6);
  cn_tensor *r = cn_randn(CN_SHAPE(100)), *x = cn_randn(CN_SHAPE(8, 5)), *y = there(x), *pair[2] = {x, x},
            *gpair[2] = {y, y};
  cn_seed(6);
  close_to("random", r, cn_randn(CN_SHAPE(100), .device = gpu), 0);
  close_to("cat", cn_cat(pair, 2, .dim = 1), cn_cat(gpair, 2, .dim = 1), 0);
  cn_tensor *values[2], *places[2];
  assert_int_equal(cn_sort(&values[0], &places[0], x, .dim = 1), 0);
  assert_int_equal(cn_sort(&values[1], &places[1], y, .dim = 1), 0);
  close_to("sorted", values[0], values[1], 0);
  close_to("places", places[0], places[1], 0);
  close_to("softmax", cn_softmax(x, 1), cn_softmax(y, 1), 1e-6);
  close_to("nonzero", cn_nonzero(cn_relu(x)), cn_nonzero(cn_relu(y)), 0);
  cn_scope_end(s);
}

/* What a kernel finds wrong is an error of the next wait, with the op's name; then the device works on. */
static void late(const char *op, int code)
{
  int now = cn_err(); /* at once under CAIRN_SYNC=1 */
  assert_int_equal(now ? now : cn_device_sync(gpu), code);
  if (!strstr(cn_err_message(), op)) fail_msg("%s: %s", op, cn_err_message());
  cn_err_clear();
  assert_int_equal(cn_device_sync(gpu), 0);
}

static void faults(void **state)
{
  (void)state;
  need_gpu();
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = there(cn_randn(CN_SHAPE(4, 5))), *bad = there(cn_full(CN_SHAPE(3), 9, .dtype = CN_I64));
  assert_int_equal(cn_device_sync(gpu), 0);
  cn_index_select(x, 0, bad);
  late("index_select", CN_ERR_INDEX);
  cn_cross_entropy(x, there(cn_full(CN_SHAPE(4), 5, .dtype = CN_I64)));
  late("cross_entropy", CN_ERR_INDEX);
  cn_bernoulli(there(cn_full(CN_SHAPE(4), 1.5)));
  late("bernoulli", CN_ERR_VALUE);
  close_to("after faults", cn_full(CN_SHAPE(4), 2), cn_add(cn_ones(CN_SHAPE(4), .device = gpu), cn_num(1)), 0);
  cn_scope_end(s);
}

/* Sizes that no sample has: rows that a block keeps in shared memory, rows too long for that, sums in several parts,
 * long sorts and scans, odd lengths that no vector access fits. */
static void large(void **state)
{
  (void)state;
  need_gpu();
  static const int64_t widths[] = {1000, 1500, 4097, 50304, 120001};
  cn_seed(8);
  for (int i = 0; i < 5; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *x = cn_randn(CN_SHAPE(5, widths[i])), *y = there(x), *half = cn_cast(x, CN_BF16), *ghalf = there(half);
    cn_tensor *w = cn_randn(CN_SHAPE(widths[i])), *v[4];
    close_to("softmax", cn_softmax(x, 1), cn_softmax(y, 1), 1e-6);
    close_to("softmax bf16", cn_softmax(half, 1), cn_softmax(ghalf, 1), 1e-2);
    close_to("log_softmax, columns", cn_log_softmax(x, 0), cn_log_softmax(y, 0), 1e-5);
    cn_tensor *gw = there(w);
    close_to("layer_norm", cn_layer_norm(x, &widths[i], 1, w, w), cn_layer_norm(y, &widths[i], 1, gw, gw), 1e-4);
    close_to("var", cn_var(x), cn_var(y), 1e-5);
    close_to("argmax", cn_argmax(x, 1), cn_argmax(y, 1), 0);
    close_to("columns", cn_sum(x, .dim = CN_INTS(0)), cn_sum(y, .dim = CN_INTS(0)), 1e-5);
    close_to("cumsum", cn_cumsum(x, 1), cn_cumsum(y, 1), 1e-3);
    close_to("cumsum of columns", cn_cumsum(cn_transpose(x, 0, 1), 0), cn_cumsum(cn_transpose(y, 0, 1), 0), 1e-3);
    assert_int_equal(cn_sort(&v[0], &v[1], x, .dim = 1, .descending = true), 0);
    assert_int_equal(cn_sort(&v[2], &v[3], y, .dim = 1, .descending = true), 0);
    close_to("sort", v[0], v[2], 0);
    close_to("order", v[1], v[3], 0);
    assert_int_equal(cn_topk(&v[0], &v[1], half, 37, .dim = 1), 0); /* many ties */
    assert_int_equal(cn_topk(&v[2], &v[3], ghalf, 37, .dim = 1), 0);
    close_to("topk", v[0], v[2], 0);
    close_to("places of topk", v[1], v[3], 0);
    close_to("nonzero", cn_nonzero(cn_gt(x, cn_num(1))), cn_nonzero(cn_gt(y, cn_num(1))), 0);
    cn_tensor *classes = cn_randint(0, widths[i], CN_SHAPE(5));
    close_to("cross_entropy", cn_cross_entropy(x, classes), cn_cross_entropy(y, there(classes)), 1e-5);
    cn_tensor *wide = cn_randn(CN_SHAPE(3, 70 + i, 90)), *tall = cn_contiguous_copy(cn_transpose(wide, 1, 2));
    close_to("transposed copy", tall, cn_contiguous_copy(cn_transpose(there(wide), 1, 2)), 0);
    cn_scope_end(s);
  }
}

static cn_tensor *attention_graph(cn_tensor *const *x)
{
  return cn_scaled_dot_product_attention(x[0], x[1], x[2], .is_causal = true);
}
static cn_tensor *open_attention_graph(cn_tensor *const *x)
{
  return cn_scaled_dot_product_attention(x[0], x[1], x[2]);
}
static cn_tensor *conv_graph(cn_tensor *const *x) { return cn_conv2d(x[0], x[1], x[2], .padding = CN_INTS(1)); }
static cn_tensor *turned(cn_tensor *x) { return cn_contiguous_copy(cn_transpose(x, 1, 2)); }
/* (B, T, H, D) in memory */
static cn_tensor *inner_heads_graph(cn_tensor *const *x)
{
  cn_tensor *t[3];
  for (int i = 0; i < 3; i++) t[i] = cn_transpose(turned(x[i]), 1, 2);
  return attention_graph(t);
}

static void library_graphs(void **state)
{
  (void)state;
  need_gpu();
  static const cn_dtype types[] = {CN_BF16, CN_F16, CN_F32};
  cn_seed(9);
  for (int i = 0; i < 3; i++) {
    cn_scope *s = cn_scope_begin();
    double tol = types[i] == CN_F32 ? 1e-4 : 6e-2;
    cn_tensor *qkv[3], *weight = cn_mul(cn_randn(CN_SHAPE(24, 16, 3, 3)), cn_num(0.1));
    cn_tensor *conv[3] = {cn_randn(CN_SHAPE(3, 16, 9, 11)), weight, cn_randn(CN_SHAPE(24))};
    for (int k = 0; k < 3; k++) {
      qkv[k] = cn_cast(cn_randn(CN_SHAPE(2, 3, 77, 64)), types[i]);
      conv[k] = cn_cast(conv[k], types[i]);
    }
    check_gradient("causal attention", attention_graph, qkv, 3, tol);
    check_gradient("attention", open_attention_graph, qkv, 3, tol);
    check_gradient("attention of inner heads", inner_heads_graph, qkv, 3, tol);
    check_gradient("conv2d", conv_graph, conv, 3, types[i] == CN_F32 ? 1e-3 : 0.2);
    cn_scope_end(s);
  }
}

/* What cuDNN adds and lets through behind a convolution. */
static void convolutions(void **state)
{
  (void)state;
  need_gpu();
  static const int64_t one[] = {1, 1};
  cn_seed(19);
  for (int form = 0; form < 16; form++) {
    cn_scope *s = cn_scope_begin();
    cn_dtype type = form & 8 ? CN_BF16 : CN_F16;
    cn_tensor *in[] = {cn_randn(CN_SHAPE(3, 16, 9, 11)), cn_mul(cn_randn(CN_SHAPE(24, 16, 3, 3)), cn_num(0.1)),
                       cn_randn(CN_SHAPE(24)), cn_randn(CN_SHAPE(3, 24, 9, 11))}, *y[2];
    for (int k = 0; k < 4; k++) in[k] = cn_cast(k % 3 ? in[k] : cn_channels_last(in[k]), type);
    for (int far = 0; far < 2; far++) {
      cn_tensor *t[4];
      for (int k = 0; k < 4; k++) t[k] = far ? there(in[k]) : in[k];
      y[far] = cn_conv2d_fused(t[0], t[1], form & 1 ? t[2] : NULL, one, 2, one, 2, one, 2, 1, form & 2 ? t[3] : NULL,
                               form & 4);
    }
    close_to("conv2d_fused", y[0], y[1], type == CN_F16 ? 1e-2 : 8e-2);
    cn_scope_end(s);
  }
}

/* A first layer for images is folded, and enough work to try engines on: the run that tries is right, and so are those
 * by the engine that stayed. */
static cn_tensor *first_graph(cn_tensor *const *x)
{
  return cn_conv2d(x[0], x[1], x[2], .stride = CN_INTS(2), .padding = CN_INTS(3));
}

static void first_layers(void **state)
{
  (void)state;
  need_gpu();
  cn_seed(20);
  for (int form = 0; form < 4; form++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *x[] = {cn_randn(CN_SHAPE(2, 3, 66, 70)), cn_mul(cn_randn(CN_SHAPE(32, 3, 7, 7)), cn_num(0.1)),
                      cn_randn(CN_SHAPE(32))};
    for (int k = 0; k < 3; k++)
      x[k] = cn_cast(form & 1 && k < 2 ? cn_channels_last(x[k]) : x[k], form & 2 ? CN_BF16 : CN_F16);
    for (int run = 0; run < 2; run++) check_gradient("a first layer", first_graph, x, 3, form & 2 ? 0.1 : 2e-2);
    cn_scope_end(s);
  }
}

/* Groups of few channels, the odd one of "same" behind; the first is a sample of PyTorch's. */
static cn_tensor *dilated_groups_graph(cn_tensor *const *x)
{
  return cn_conv1d_padding(x[0], x[1], x[2], .padding = "same", .dilation = CN_INTS(2), .groups = 2);
}
static cn_tensor *groups_graph(cn_tensor *const *x)
{
  return cn_conv1d_padding(x[0], x[1], x[2], .padding = "same", .groups = 2);
}
static cn_tensor *deep_graph(cn_tensor *const *x) /* enough to try engines on */
{
  return cn_conv2d(x[0], x[1], x[2], .padding = CN_INTS(1), .groups = 32);
}

static void groups_of_few(void **state)
{
  (void)state;
  need_gpu();
  static const cn_dtype types[] = {CN_BF16, CN_F16, CN_F32};
  cn_seed(21);
  for (int i = 0; i < 3; i++) {
    cn_scope *s = cn_scope_begin();
    double tol = types[i] == CN_F32 ? 1e-3 : 0.1;
    cn_tensor *x[] = {cn_randn(CN_SHAPE(2, 2, 4)), cn_randn(CN_SHAPE(2, 1, 4)), cn_randn(CN_SHAPE(2))};
    cn_tensor *wide[] = {cn_randn(CN_SHAPE(2, 6, 9)), cn_randn(CN_SHAPE(4, 3, 2)), cn_randn(CN_SHAPE(4))};
    cn_tensor *deep[] = {cn_randn(CN_SHAPE(4, 32, 96, 96)), cn_randn(CN_SHAPE(32, 1, 3, 3)), cn_randn(CN_SHAPE(32))};
    cn_tensor *four[] = {cn_randn(CN_SHAPE(4, 128, 28, 28)), cn_mul(cn_randn(CN_SHAPE(128, 4, 3, 3)), cn_num(0.2)),
                         cn_randn(CN_SHAPE(128))};
    for (int k = 0; k < 3; k++) {
      x[k] = cn_cast(x[k], types[i]);
      wide[k] = cn_cast(wide[k], types[i]);
      deep[k] = cn_cast(deep[k], types[i]);
      four[k] = cn_cast(four[k], types[i]);
    }
    check_gradient("two groups of one channel, dilated", dilated_groups_graph, x, 3, tol);
    check_gradient("two groups of one channel", groups_graph, x, 3, tol);
    check_gradient("two groups of three channels", groups_graph, wide, 3, tol);
    check_gradient("32 groups of one channel", deep_graph, deep, 3, types[i] == CN_F32 ? 1e-2 : tol);
    check_gradient("32 groups of four channels", deep_graph, four, 3, types[i] == CN_F32 ? 1e-2 : tol);
    cn_scope_end(s);
  }
}

static void train(cn_tensor **parameters, cn_tensor *x, cn_tensor *target)
{
  for (int step = 0; step < 5; step++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *hidden = cn_gelu(cn_linear(x, parameters[0], parameters[1]));
    cn_tensor *diff = cn_sub(cn_linear(hidden, parameters[2], NULL), target);
    assert_int_equal(cn_backward(cn_mean(cn_mul(diff, diff))), 0);
    int saved = cn_no_grad_begin();
    for (int i = 0; i < 3; i++) {
      cn_sub_(parameters[i], cn_grad_of(parameters[i]), .alpha = 0.1);
      cn_zero_grad(parameters[i]);
    }
    cn_no_grad_end(saved);
    cn_scope_end(s);
    fine();
  }
}

static void training(void **state)
{
  (void)state;
  need_gpu();
  cn_scope *s = cn_scope_begin();
  cn_seed(5);
  cn_tensor *x = cn_randn(CN_SHAPE(32, 10)), *target = cn_randn(CN_SHAPE(32, 4));
  cn_tensor *first[3] = {cn_randn(CN_SHAPE(16, 10)), cn_randn(CN_SHAPE(16)), cn_randn(CN_SHAPE(4, 16))},
            *a[3], *b[3];
  for (int i = 0; i < 3; i++) {
    a[i] = cn_requires_grad(cn_clone(first[i]), true);
    b[i] = cn_requires_grad(there(first[i]), true);
  }
  train(a, x, target);
  train(b, there(x), there(target));
  for (int i = 0; i < 3; i++) close_to("parameter", a[i], b[i], 1e-4);
  cn_scope_end(s);
}

static void nothing(void **state) { (void)state; }

/* test_cuda [NAME]: all tests, or that one. */
int main(int argc, char **argv)
{
  if (argc > 0) find_plugin(argv[0]);
  struct CMUnitTest tests[] = {
      cmocka_unit_test(without_device), cmocka_unit_test(information), cmocka_unit_test(copies),
      cmocka_unit_test(casts),
      cmocka_unit_test(scaled_products), cmocka_unit_test(pointwise), cmocka_unit_test(broadcasts),
      cmocka_unit_test(integers),       cmocka_unit_test(sums),        cmocka_unit_test(products),
      cmocka_unit_test(gradients),      cmocka_unit_test(others),      cmocka_unit_test(training),
      cmocka_unit_test(faults),         cmocka_unit_test(large),       cmocka_unit_test(library_graphs),
      cmocka_unit_test(convolutions),   cmocka_unit_test(first_layers),
      cmocka_unit_test(groups_of_few),
      cmocka_unit_test(pinned),         cmocka_unit_test(pinned_reuse), cmocka_unit_test(pinned_batches),
  };
  for (size_t i = 0; argc > 1 && i < sizeof tests / sizeof *tests; i++)
    if (strcmp(tests[i].name, argv[1]) != 0) tests[i].test_func = nothing;
  return cmocka_run_group_tests(tests, set_up, NULL);
}
