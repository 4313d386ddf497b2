/* test_code.c: kernels of a program's own (cairn/code.h): refused where a device takes none; on CUDA compiled, launched
 * in order, and an error with the compiler's words where a text is wrong. */
#include "test.h"

#include <cairn/cairn.h>
#include <cairn/kw.h>

static const char text[] = "extern \"C\" __global__ void scale(float *x, int n, float by)\n"
                           "{\n"
                           "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                           "  if (i < n) x[i] *= by + ADDED;\n"
                           "}\n";

static void other_devices(void **state)
{
  (void)state;
  const cn_device devices[] = {CN_CPU, cn_device_find("mirror")};
  for (int i = 0; i < 2; i++) {
    assert_null(cn_code_new(devices[i], text, "scale", NULL));
    assert_int_equal(cn_err(), CN_ERR_UNSUPPORTED);
    cn_err_clear();
  }
  assert_int_not_equal(cn_code_run(NULL, NULL, NULL), 0);
  cn_err_clear();
}

static void launches(void **state)
{
  (void)state;
  if (cn_device_count("cuda") < 1) SKIP_TEST("no CUDA device");
  cn_scope *s = cn_scope_begin();
  cn_device gpu = cn_device_find("cuda");
  assert_null(cn_code_new(gpu, text, "scale", NULL)); /* ADDED is not known */
  assert_non_null(strstr(cn_err_message(), "ADDED"));
  cn_err_clear();
  cn_code *code = cn_code_new(gpu, text, "scale", "-DADDED=1");
  if (!code) fail_msg("%s", cn_err_message());
  cn_tensor *x = cn_add(cn_zeros(CN_SHAPE(1000), .device = gpu), cn_num(2));
  void *data = cn_desc_of(x)->data;
  int n = 1000;
  float by = 4;
  void *arguments[] = {&data, &n, &by};
  cn_code_launch l = {.size = sizeof l, .grid = {4}, .block = {256}};
  for (int i = 0; i < 2; i++) assert_int_equal(cn_code_run(code, &l, arguments), 0);
  assert_true(cn_item(cn_sum(x)) == 50 * 1000);
  cn_code_free(code);
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(other_devices), cmocka_unit_test(launches)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
