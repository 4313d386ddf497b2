/* test_profile.c: profiles: which entries there are, how they nest, and their times on the device. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "test.h"

#include <cairn/cairn.h>
#include <cairn/kw.h>
#include <cairn/profile.h>

#include "emulated.h"

static cn_profile_entry entry_at(const cn_profile *p, size_t i)
{
  cn_profile_entry e = {.size = sizeof e};
  assert_int_equal(cn_profile_at(&e, p, i), 0);
  return e;
}

static void ops_of_the_host(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(2, 3)), *y = cn_ones(CN_SHAPE(3));
  cn_profile *p = cn_profile_begin(CN_PROFILE_DEVICES | CN_PROFILE_SHAPES);
  assert_non_null(p);
  assert_null(cn_profile_begin(0));
  cn_err_clear();
  cn_profile_range_begin("outer");
  cn_add(x, y);
  cn_profile_range_end();
  cn_sum(x);
  cn_add(x, cn_ones(CN_SHAPE(7))); /* fails */
  assert_int_equal(cn_err(), CN_ERR_SHAPE);
  cn_err_clear();
  assert_int_equal(cn_profile_end(p), 0);
  cn_mul(x, x); /* no more */
  cn_profile_range_begin("nothing");
  cn_profile_range_end();
  cn_profile_entry outer = entry_at(p, 0), add = entry_at(p, 1), sum = entry_at(p, 2);
  assert_string_equal(outer.name, "outer");
  assert_true(outer.range && !outer.depth && !outer.timed);
  assert_string_equal(add.name, "add");
  assert_string_equal(add.shapes, "[[2, 3], [3]]");
  assert_true(!add.range && add.depth == 1 && !add.timed && add.device == CN_CPU);
  assert_true(outer.begin <= add.begin && add.begin <= add.end && add.end <= outer.end && outer.end <= sum.begin);
  assert_string_equal(sum.name, "sum");
  cn_profile_entry none = {.size = sizeof none};
  assert_int_not_equal(cn_profile_at(&none, p, cn_profile_count(p)), 0);
  cn_err_clear();
  cn_profile_free(p);
  cn_scope_end(s);
}

static int square(cn_compile_call *k)
{
  k->outputs[0] = cn_mul(k->inputs[0], k->inputs[0]);
  return cn_err();
}

static void work_on(cn_device device)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_to_device(cn_ones(CN_SHAPE(64, 64)), device), *y = NULL;
  cn_compiled *c = cn_compile(square);
  cn_compile_call k = {.inputs = &x, .ninputs = 1, .outputs = &y, .noutputs = 1};
  assert_int_equal(cn_compiled_call(c, &k), 0);
  cn_profile *p = cn_profile_begin(CN_PROFILE_DEVICES);
  cn_exp(cn_transpose(x, 0, 1));
  cn_matmul(x, x);
  assert_int_equal(cn_compiled_call(c, &k), 0);
  assert_int_equal(cn_profile_end(p), 0);
  double last = 0;
  int graphs = 0, products = 0;
  for (size_t i = 0; i < cn_profile_count(p); i++) {
    cn_profile_entry e = entry_at(p, i);
    graphs += !strcmp(e.name, "graph");
    products += !strcmp(e.name, "matmul") || !strcmp(e.name, "mm");
    assert_int_equal(e.timed, strcmp(e.name, "transpose") != 0); /* a view is no work */
    if (!e.timed) continue;
    assert_int_equal(e.device, device);
    assert_true(e.device_begin <= e.device_end);
    if (!e.depth) assert_true(e.device_begin >= last - 1e-6); /* one stream: in order */
    if (!e.depth) last = e.device_end;
  }
  assert_int_equal(graphs, 1);
  assert_true(products > 0);
  cn_profile_free(p);
  p = cn_profile_begin(0);
  cn_exp(x);
  assert_int_equal(cn_profile_end(p), 0);
  assert_int_equal(cn_profile_count(p), 1);
  assert_false(entry_at(p, 0).timed);
  cn_profile_free(p);
  cn_compiled_free(c);
  cn_scope_end(s);
}

static void work_on_devices(void **state)
{
  (void)state;
  work_on(cn_device_find("mirror"));
  if (cn_device_count("cuda") > 0) work_on(cn_device_find("cuda"));
}

/* Without the library each call says so; with it there are ranges, which nobody watches. */
static void nvtx(void **state)
{
  (void)state;
  int expected = cn_nvtx_available() ? CN_OK : CN_ERR_UNSUPPORTED;
  uint64_t range = 0;
  assert_int_equal(cn_nvtx_push(NULL, "a"), expected);
  cn_err_clear();
  assert_int_equal(cn_nvtx_pop(NULL), expected);
  cn_err_clear();
  assert_int_equal(cn_nvtx_mark("b"), expected);
  cn_err_clear();
  assert_int_equal(cn_nvtx_start(&range, "c"), expected);
  cn_err_clear();
  assert_int_equal(cn_nvtx_end(range), expected);
  cn_err_clear();
  cn_profile *p = cn_profile_begin(CN_PROFILE_NVTX);
  assert_int_equal(p != NULL, !expected);
  cn_err_clear();
  cn_scope *s = cn_scope_begin();
  cn_ones(CN_SHAPE(3));
  if (p) assert_int_equal(cn_profile_end(p), 0);
  if (p) assert_int_equal(cn_profile_count(p), 0);
  cn_profile_free(p);
  cn_scope_end(s);
}

int main(int argc, char **argv)
{
  if (argc > 0 && cn_device_count("cuda") < 1) emulate(argv); /* so that the plugin takes part */
  const struct CMUnitTest tests[] = {cmocka_unit_test(ops_of_the_host), cmocka_unit_test(work_on_devices),
                                     cmocka_unit_test(nvtx)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
