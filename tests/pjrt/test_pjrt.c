/* test_pjrt.c: the PJRT backend on a plugin for tests, without a compiler: devices, buffers both ways, memory that is only
 * a name, and what happens when the plugin refuses or fails late. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "on_pjrt.h"

static void information(void **state)
{
  (void)state;
  need_device();
  cn_device_info info;
  char name[64];
  assert_int_equal(cn_device_count("pjrt"), 2);
  assert_int_equal(cn_device_info_get(&info, there), 0);
  assert_string_equal(info.name, "a device for tests");
  assert_string_equal(info.arch, "fake 1.0");
  assert_true(info.memory_total == 1 << 30 && info.memory_free == (1 << 30) - (1 << 20));
  assert_string_equal(cn_device_name(name, sizeof name, cn_device_find("pjrt:1")), "pjrt:1");
  assert_int_equal(cn_device_find("fake:1"), cn_device_find("pjrt:1")); /* by what the platform calls itself */
  assert_int_equal(cn_device_find("fake"), there);
  fine();
  assert_int_equal(cn_device_find("pjrt:2"), CN_DEVICE_DEFAULT);
  expect_error(CN_ERR_DEVICE, "device 'pjrt:2' is not there");
}

/* Tensors go there and back in every type, whole and in parts; nothing is computed for that. */
static void copies(void **state)
{
  (void)state;
  need_device();
  static const cn_dtype types[] = {CN_F32, CN_F64, CN_F16, CN_BF16, CN_I8, CN_I16, CN_I32, CN_I64, CN_U8, CN_BOOL};
  size_t compiled = count().compiled;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *x = cn_cast(cn_mul(cn_randn(CN_SHAPE(5, 7)), cn_num(3)), types[i]), *y = to(x);
    assert_int_equal(cn_device_of(y), there);
    close_to(cn_dtype_name(types[i]), x, y, 0);
    close_to("a row", cn_select(x, 0, 3), cn_select(y, 0, 3), 0);
    close_to("an element", cn_select(cn_select(x, 0, 4), 0, 6), cn_select(cn_select(y, 0, 4), 0, 6), 0);
    assert_null(cn_data(y)); /* there is no address that could be read */
    cn_err_clear();
    cn_scope_end(s);
  }
  cn_scope *s = cn_scope_begin();
  close_to("none", cn_ones(CN_SHAPE(0, 4)), to(cn_ones(CN_SHAPE(0, 4))), 0);
  close_to("one", cn_ones(CN_SCALAR_SHAPE), to(cn_ones(CN_SCALAR_SHAPE)), 0);
  cn_tensor *x = cn_randn(CN_SHAPE(40)), *y = cn_to_device(to(x), cn_device_find("pjrt:1"));
  assert_true(cn_device_of(y) != there);
  close_to("the other device", x, y, 0);
  cn_scope_end(s);
  assert_int_equal(count().compiled, compiled);
  fine();
}

int main(int argc, char **argv)
{
  (void)argc;
  use_fake(argv[0]);
  setenv("CAIRN_CACHE", "off", 1);
  const struct CMUnitTest tests[] = {cmocka_unit_test(information), cmocka_unit_test(copies)};
  return cmocka_run_group_tests(tests, find_device, NULL);
}
