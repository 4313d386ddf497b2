/* test_numerics.c: what devices may round, and whether results must repeat: settings of the process (device.h). */
#include <cairn/cairn.h>
#include <string.h>

#include "base/numerics.h"
#include "test.h"

static int warnings;
static void count(cn_log_level level, const char *message, void *payload)
{
  (void)payload;
  warnings += level == CN_LOG_WARNING && strstr(message, "deterministic") != NULL;
}

static void precisions(void **state)
{
  (void)state;
  int first = cni_numerics();
  assert_int_equal(cn_matmul_precision(), CN_PRECISION_FLOAT32);
  assert_int_equal(cn_set_matmul_precision(CN_PRECISION_BF16), CN_OK);
  assert_int_equal(cn_set_conv_precision(CN_PRECISION_TF32), CN_OK);
  assert_int_equal(cn_matmul_precision(), CN_PRECISION_BF16);
  assert_int_equal(cn_conv_precision(), CN_PRECISION_TF32);
  assert_int_not_equal(cni_numerics(), first);
  assert_int_equal(cn_set_conv_precision((cn_precision)3), CN_ERR_VALUE);
  assert_non_null(strstr(cn_err_message(), "cn_set_conv_precision"));
  cn_err_clear();
  assert_int_equal(cn_conv_precision(), CN_PRECISION_TF32);
  cn_set_matmul_precision(CN_PRECISION_FLOAT32);
  cn_set_conv_precision(CN_PRECISION_FLOAT32);
  assert_int_equal(cni_numerics(), first);
}

/* An op that adds in no fixed order: nothing, one warning, an error. */
static void not_deterministic(void **state)
{
  static const char op[] = "an_op", other[] = "another";
  (void)state;
  cn_set_log(count, NULL);
  assert_int_equal(cn_deterministic_mode(), CN_DETERMINISTIC_OFF);
  assert_int_equal(cni_not_deterministic(op), CN_OK);
  cn_set_deterministic(CN_DETERMINISTIC_CONV);
  assert_int_equal(cni_not_deterministic(op), CN_OK);
  assert_int_equal(warnings, 0);
  cn_set_deterministic(CN_DETERMINISTIC_WARN);
  for (int i = 0; i < 3; i++) assert_int_equal(cni_not_deterministic(op), CN_OK);
  assert_int_equal(warnings, 1);
  assert_int_equal(cni_not_deterministic(other), CN_OK);
  assert_int_equal(warnings, 2);
  cn_set_deterministic(CN_DETERMINISTIC_FAIL);
  assert_int_equal(cni_not_deterministic(op), CN_ERR_UNSUPPORTED);
  assert_non_null(strstr(cn_err_message(), "an_op"));
  cn_err_clear();
  assert_int_equal(cn_set_deterministic((cn_deterministic)-1), CN_ERR_VALUE);
  cn_err_clear();
  cn_set_deterministic(CN_DETERMINISTIC_OFF);
  cn_set_log(NULL, NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(precisions), cmocka_unit_test(not_deterministic)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
