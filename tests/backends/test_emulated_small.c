/* test_emulated_small.c: what small networks use of the CUDA plugin, emulated (test_emulated.c): products, losses and
 * sums of few rows, updates that are launched together. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "test.h"

#include <cairn/cairn.h>
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <cairn/recording.h>
#include <math.h>
#include <stdio.h>

#include "emulated.h"
#include "graph/run.h"

/* Small products: parts of a tile, k over one chunk and none, any strides, batches, a bias; and the plain kernel. */
static void products(void **state)
{
  (void)state;
  need_device();
  static const cn_dtype types[] = {CN_F32, CN_F64, CN_F16, CN_BF16};
  cn_seed(17);
  for (int i = 0; i < 4; i++) {
    cn_scope *s = cn_scope_begin();
    double tol = types[i] == CN_F64 ? 1e-12 : types[i] == CN_F32 ? 1e-5 : types[i] == CN_F16 ? 2e-3 : 2e-2;
    cn_tensor *a = cn_cast(cn_randn(CN_SHAPE(33, 130)), types[i]), *b = cn_cast(cn_randn(CN_SHAPE(130, 25)), types[i]);
    cn_tensor *ga = there(a), *gb = there(b), *bias = cn_cast(cn_randn(CN_SHAPE(33)), types[i]);
    close_to("mm", cn_mm(a, b), cn_mm(ga, gb), tol);
    close_to("mm, turned", cn_mm(cn_t(b), cn_t(a)), cn_mm(cn_t(gb), cn_t(ga)), tol);
    close_to("mm of every second", cn_mm(cn_slice(a, 1, 1, CN_NONE, .step = 2), cn_slice(b, 0, 1, CN_NONE, .step = 2)),
             cn_mm(cn_slice(ga, 1, 1, CN_NONE, .step = 2), cn_slice(gb, 0, 1, CN_NONE, .step = 2)), tol);
    close_to("mm over nothing", cn_mm(cn_slice(a, 1, 0, 0), cn_slice(b, 0, 0, 0)),
             cn_mm(cn_slice(ga, 1, 0, 0), cn_slice(gb, 0, 0, 0)), 0);
    close_to("linear", cn_linear(cn_t(b), a, bias), cn_linear(cn_t(gb), ga, there(bias)), tol);
    cn_tensor *x = cn_cast(cn_randn(CN_SHAPE(3, 7, 12)), types[i]), *w = cn_cast(cn_randn(CN_SHAPE(5, 12)), types[i]);
    close_to("linear of rows", cn_linear(x, w, NULL), cn_linear(there(x), there(w), NULL), tol);
    close_to("bmm", cn_bmm(x, cn_transpose(x, 1, 2)), cn_bmm(there(x), cn_transpose(there(x), 1, 2)), tol);
    cn_scope_end(s);
  }
  cn_scope *s = cn_scope_begin();
  cn_tensor *deep = cn_mul(cn_randn(CN_SHAPE(70, 300)), cn_num(0.2)), *n = cn_randint(-9, 9, CN_SHAPE(6, 7));
  close_to("mm by the plain kernel", cn_mm(deep, cn_t(deep)), cn_mm(there(deep), cn_t(there(deep))), 1e-5);
  close_to("mm of integers", cn_mm(n, cn_t(n)), cn_mm(there(n), cn_t(there(n))), 0);
  cn_scope_end(s);
}

/* What is added to a product of 16-bit floats is added before the only rounding: the sum may be far smaller. */
static void added_products(void **state)
{
  (void)state;
  need_device();
  static const cn_dtype types[] = {CN_F16, CN_BF16};
  cn_seed(19);
  for (int i = 0; i < 2; i++) {
    cn_scope *s = cn_scope_begin();
    const double unit = types[i] == CN_F16 ? 0x1p-11 : 0x1p-8;
    cn_tensor *a = cn_cast(cn_randn(CN_SHAPE(3, 20, 40)), types[i]);
    cn_tensor *b = cn_cast(cn_randn(CN_SHAPE(3, 40, 24)), types[i]);
    cn_tensor *wide = cn_bmm(cn_cast(a, CN_F64), cn_cast(b, CN_F64));
    cn_tensor *in = cn_cast(cn_neg(wide), types[i]), *ga = there(a), *gb = there(b), *gin = there(in);
    cn_tensor *want[3] = {cn_add(wide, cn_cast(in, CN_F64)), cn_add(cn_mul(wide, cn_num(2)), cn_cast(in, CN_F64))};
    want[2] = cn_select(want[0], 0, 1);
    cn_tensor *have[] = {cn_baddbmm(gin, ga, gb), cn_baddbmm(gin, ga, gb, .alpha = 2),
                         cn_addmm(cn_select(gin, 0, 1), cn_select(ga, 0, 1), cn_select(gb, 0, 1))};
    for (int j = 0; j < 3; j++) {
      assert_int_equal(cn_dtype_of(have[j]), types[i]);
      cn_tensor *off = cn_abs(cn_sub(cn_cast(cn_to_device(have[j], CN_CPU), CN_F64), want[j]));
      cn_tensor *most = cn_add(cn_mul(cn_abs(want[j]), cn_num(unit)), cn_num(5e-5));
      const double beyond = cn_item(cn_max(cn_sub(off, most)));
      if (!(beyond <= 0)) fail_msg("sum %d in %s: %g beyond a rounding", j, cn_dtype_name(types[i]), beyond);
    }
    close_to("bmm into float32", wide, cn_bmm_dtype(ga, gb, CN_F32), 1e-5);
    cn_scope_end(s);
  }
}

/* Losses of few rows, by one block, and of many; of rows for a warp each and for a block. */
static void losses(void **state)
{
  (void)state;
  need_device();
  static const int64_t sizes[][2] = {{1, 10}, {33, 10}, {64, 300}, {65, 10}, {5, 1500}};
  cn_seed(18);
  for (int i = 0; i < 5; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *x = cn_randn(sizes[i], 2), *target = cn_randint(0, sizes[i][1], CN_SHAPE(sizes[i][0])), *y = there(x);
    cn_tensor *a = cn_requires_grad(x, true), *b = cn_requires_grad(y, true);
    cn_tensor *want = cn_cross_entropy(a, target), *have = cn_cross_entropy(b, there(target));
    close_to("cross entropy", want, have, 1e-6);
    assert_int_equal(cn_backward(want), 0);
    assert_int_equal(cn_backward(have), 0);
    close_to("its gradient", cn_grad_of(a), cn_grad_of(b), 1e-6);
    cn_tensor *all = cn_randn(CN_SHAPE(sizes[i][0], 32));
    close_to("sums of columns", cn_sum(all, .dim = CN_INTS(0)), cn_sum(there(all), .dim = CN_INTS(0)), 1e-5);
    close_to("largest sizes", cn_linalg_vector_norm(all, .ord = INFINITY, .dim = CN_INTS(0)),
             cn_linalg_vector_norm(there(all), .ord = INFINITY, .dim = CN_INTS(0)), 0);
    cn_scope_end(s);
  }
}

/* The first few of long rows: in no order, so equal that there is no room for all within the bound, and in order. */
static void first_few(void **state)
{
  (void)state;
  need_device();
  static const cn_dtype types[] = {CN_F32, CN_BF16, CN_F64, CN_U8};
  cn_seed(20);
  for (int i = 0; i < 8; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *x = cn_mul(cn_randn(CN_SHAPE(3, 5003)), cn_num(i < 4 ? 1000 : 1)), *v[4]; /* rows that begin anywhere */
    x = cn_cast(types[i % 4] == CN_U8 ? cn_abs(cn_div(x, cn_num(20))) : x, types[i % 4]);
    if (i == 4) assert_int_equal(cn_sort(&x, &v[1], x), 0);
    cn_tensor *far = there(x);
    int64_t k = i < 4 ? 50 : 512;
    assert_int_equal(cn_topk(&v[0], &v[1], x, k), 0);
    assert_int_equal(cn_topk(&v[2], &v[3], far, k), 0);
    close_to("topk", v[0], v[2], 0);
    close_to("places of topk", v[1], v[3], 0);
    assert_int_equal(cn_kthvalue(&v[0], &v[1], x, 7), 0);
    assert_int_equal(cn_kthvalue(&v[2], &v[3], far, 7), 0);
    close_to("kthvalue", v[0], v[2], 0);
    close_to("place of kthvalue", v[1], v[3], 0);
    cn_tensor *row = cn_slice(cn_flatten(cn_cat(CN_TENSORS(x, x, x))), 0, 1, CN_NONE); /* parts, with ties */
    assert_int_equal(cn_topk(&v[0], &v[1], row, k), 0);
    assert_int_equal(cn_topk(&v[2], &v[3], there(row), k), 0);
    close_to("topk of one row", v[0], v[2], 0);
    close_to("places of topk of one row", v[1], v[3], 0);
    assert_int_equal(cn_kthvalue(&v[0], &v[1], row, k - 3), 0);
    assert_int_equal(cn_kthvalue(&v[2], &v[3], there(row), k - 3), 0);
    close_to("kthvalue of one row", v[0], v[2], 0);
    close_to("its place", v[1], v[3], 0);
    cn_scope_end(s);
  }
}

/* Updates that may be launched together: of memory apart, of memory that another writes, and of one that it reads. */
static void descend_all(cn_tensor *const *p, cn_tensor *rate)
{
  cn_tensor *part = cn_slice(p[0], 0, 8, 24), *turned = cn_neg(p[3]); /* turned: gone before the end */
  assert_int_equal(cn_updates_begin(NULL), 0);
  cn_descend_(p[0], p[1], rate);
  cn_descend_(p[2], p[1], rate);
  cn_descend_(part, cn_slice(p[1], 0, 0, 16), rate);
  cn_descend_(p[3], p[2], rate);
  cn_descend_(p[1], p[3], rate);
  cn_scope *s = cn_scope_begin();
  cn_descend_(p[2], cn_add(turned, p[1]), rate);
  cn_scope_end(s);
  cn_descend_(p[3], cn_exp(p[0]), rate);
  assert_int_equal(cn_updates_end(), 0);
}

static void joined_updates(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  cn_seed(19);
  cn_tensor *here[4], *far[4], *rate = cn_full(CN_SCALAR_SHAPE, 0.25, .dtype = CN_F64);
  for (int i = 0; i < 4; i++) {
    here[i] = cn_randn(CN_SHAPE(40));
    far[i] = there(here[i]);
  }
  descend_all(here, rate);
  descend_all(far, rate);
  for (int i = 0; i < 4; i++) close_to("joined updates", here[i], far[i], 1e-6);
  cn_scope_end(s);
}

/* Updates that the device makes or not, as a flag says when they run. */
static void skipped_updates(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  cn_tensor *rate = cn_full(CN_SCALAR_SHAPE, 0.5, .dtype = CN_F64);
  for (int skip = 0; skip < 2; skip++) {
    cn_tensor *flag = there(cn_full(CN_SCALAR_SHAPE, skip, .dtype = CN_BOOL)), *p[3];
    for (int i = 0; i < 3; i++) p[i] = there(cn_ones(CN_SHAPE(5, 4)));
    assert_int_equal(cn_updates_begin(flag), 0);
    cn_descend_(p[0], p[2], rate);
    cn_descend_(p[1], p[2], rate);
    cn_descend_(cn_slice(p[2], 1, 1, 3), cn_slice(p[0], 1, 0, 2), rate); /* strided, by itself */
    assert_int_equal(cn_updates_end(), 0);
    for (int i = 0; i < 2; i++)
      close_to("an update", cn_full(CN_SHAPE(5, 4), skip ? 1 : 0.5), p[i], 0);
    close_to("a strided update", cn_full(CN_SHAPE(5, 2), skip ? 1 : 0.75), cn_slice(p[2], 1, 1, 3), 0);
  }
  assert_int_equal(cn_updates_begin(cn_full(CN_SCALAR_SHAPE, 1, .dtype = CN_BOOL)), CN_REFUSED);
  cn_scope_end(s);
}

/* ---- loss scaling: a device decides, and nothing waits for it ---- */

enum { SCALED_STEPS = 9 };
typedef struct scaled {
  cn_tensor *p[2];
  cn_optim *opt;
  cn_grad_scaler *scaler;
} scaled;

static scaled scaled_new(cn_device device, int kind)
{
  cn_seed(21);
  scaled t;
  for (int i = 0; i < 2; i++) {
    cn_tensor *p = cn_to_device(cn_randn(CN_SHAPE(4, 3)), device);
    t.p[i] = cn_keep(cn_requires_grad(p, true));
  }
  t.opt = kind == 0   ? cn_optim_sgd(NULL, .lr = 0.1)
          : kind == 1 ? cn_optim_sgd(NULL, .lr = 0.1, .momentum = 0.9)
          : kind == 2 ? cn_optim_adam(NULL, .lr = 0.1)
                      : cn_optim_adamw(NULL, .lr = 0.1, .amsgrad = true);
  assert_int_equal(cn_optim_add(t.opt, t.p, 2), 0);
  t.scaler = cn_grad_scaler_new(.init_scale = 8, .growth_interval = 2, .device = device);
  return t;
}

static void scaled_free(scaled *t)
{
  cn_optim_free(t->opt);
  cn_grad_scaler_free(t->scaler);
  for (int i = 0; i < 2; i++) cn_release(t->p[i]);
}

/* factor: what makes gradients overflow. */
static void scaled_step(scaled *t, cn_tensor *factor)
{
  cn_tensor *loss = cn_mul(cn_add(cn_sum(cn_square(t->p[0])), cn_sum(cn_exp(t->p[1]))), factor);
  assert_int_equal(cn_backward(cn_grad_scaler_scale(t->scaler, loss)), 0);
  assert_true(cn_grad_scaler_step(t->scaler, t->opt) >= 0);
  assert_int_equal(cn_grad_scaler_update(t->scaler), 0);
  assert_int_equal(cn_optim_zero_grad(t->opt), 0);
}

/* Steps 0, 3 and 4 overflow. Those on the device but the first are recorded, in which a wait is an error. */
static void scaling(void **state)
{
  (void)state;
  need_device();
  for (int kind = 0; kind < 4; kind++) {
    cn_scope *s = cn_scope_begin();
    scaled here = scaled_new(CN_CPU, kind), far = scaled_new(gpu, kind);
    cn_tensor *factor = there(cn_full(CN_SCALAR_SHAPE, 1));
    cn_recording_pool *pool = cn_recording_pool_new(gpu);
    cn_recording *work = NULL;
    for (int i = 0; i < SCALED_STEPS; i++) {
      float by = i == 0 || i == 3 || i == 4 ? INFINITY : 1;
      scaled_step(&here, cn_full(CN_SCALAR_SHAPE, by));
      assert_int_equal(cn_copy_from_data(factor, &by, sizeof by), 0);
      if (i == 0) scaled_step(&far, factor);
      else if (i == 1) {
        work = cn_recording_begin(pool);
        assert_non_null(work);
        scaled_step(&far, factor);
        assert_int_equal(cn_recording_end(work), 0);
      }
      if (i) assert_int_equal(cn_recording_replay(work), 0);
      for (int k = 0; k < 2; k++) close_to("a scaled step", cn_detach(here.p[k]), cn_detach(far.p[k]), 1e-6);
      assert_true(cn_grad_scaler_get(here.scaler) == cn_grad_scaler_get(far.scaler));
    }
    cn_recording_free(work);
    cn_recording_pool_free(pool);
    scaled_free(&here);
    scaled_free(&far);
    cn_scope_end(s);
  }
}

static int compiled_step(cn_compile_call *k)
{
  scaled_step(k->payload, k->inputs[0]);
  k->outputs[0] = cn_add(k->inputs[0], cn_num(1));
  k->noutputs = 1;
  return cn_err();
}

/* The same as a compiled function, which the device records: it would not if something in it waited. */
static void compiled_scaling(void **state)
{
  (void)state;
  need_device();
  for (int kind = 1; kind < 3; kind++) {
    cn_scope *s = cn_scope_begin();
    scaled here = scaled_new(CN_CPU, kind), far = scaled_new(gpu, kind);
    cn_compiled *c = cn_compile(compiled_step);
    size_t before = cni_recorded_runs();
    for (int i = 0; i < SCALED_STEPS; i++) {
      bool bad = i == 0 || i == 3 || i == 4;
      cn_tensor *factor = cn_full(CN_SCALAR_SHAPE, bad ? INFINITY : 1), *in = there(factor), *out;
      cn_compile_call k = {.inputs = &in, .ninputs = 1, .outputs = &out, .noutputs = 1, .payload = &far};
      scaled_step(&here, factor);
      assert_int_equal(cn_compiled_call(c, &k), 0);
      for (int j = 0; j < 2; j++) close_to("a compiled step", cn_detach(here.p[j]), cn_detach(far.p[j]), 1e-6);
      assert_true(cn_grad_scaler_get(here.scaler) == cn_grad_scaler_get(far.scaler));
    }
    assert_int_equal(cni_recorded_runs() - before, SCALED_STEPS - 1);
    cn_compiled_free(c);
    scaled_free(&here);
    scaled_free(&far);
    cn_scope_end(s);
  }
}

int main(int argc, char **argv)
{
  if (argc > 0) emulate(argv);
  const struct CMUnitTest tests[] = {cmocka_unit_test(products), cmocka_unit_test(losses), cmocka_unit_test(first_few),
                                     cmocka_unit_test(added_products),
                                     cmocka_unit_test(joined_updates), cmocka_unit_test(skipped_updates),
                                     cmocka_unit_test(scaling), cmocka_unit_test(compiled_scaling)};
  return cmocka_run_group_tests(tests, find_emulated, NULL);
}
