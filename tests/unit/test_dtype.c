/* test_dtype.c: the table of types, promotion, and conversion between every two types, against PyTorch's
 * results (golden/dtype_cases.inc) and against values written down by hand. */
#include "test.h"

#include <cairn/base.h>
#include <math.h>

#include "../golden/dtype_cases.inc"
#include "backends/cpu/isa.h"
#include "backends/cpu/walk/cast.h"
#include "base/convert.h"
#include "base/dtype.h"

enum { COUNT = 65536 };
#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static void names_and_sizes(void **state)
{
  (void)state;
  for (int i = CN_DTYPE_NONE + 1; i < CN_DTYPE_COUNT; i++) {
    const cni_dtype_row *row = &cni_dtype_rows[i];
    assert_non_null(row->name);
    assert_int_equal(cn_dtype_find(row->name), i);
    assert_int_equal(cn_dtype_find(row->short_name), i);
    if (row->alias) assert_int_equal(cn_dtype_find(row->alias), i);
    assert_true(row->size * 8 >= row->bits);
    assert_int_equal(row->computes, i < CN_F8E4M3);
  }
  assert_string_equal(cn_dtype_name(CN_F32), "float32");
  assert_string_equal(cn_dtype_name(CN_F8E4M3), "float8_e4m3fn");
  assert_string_equal(cn_dtype_name(CN_DTYPE_NONE), "none");
  assert_string_equal(cn_dtype_name((cn_dtype)1000), "none");
  assert_int_equal(cn_dtype_find("none"), CN_DTYPE_NONE);
  assert_int_equal(cn_dtype_find("float33"), CN_DTYPE_NONE);
  assert_int_equal(cn_dtype_find(NULL), CN_DTYPE_NONE);
  assert_int_equal(cn_dtype_size(CN_F64), 8);
  assert_int_equal(cn_dtype_size(CN_I4), 1);
  assert_int_equal(cn_dtype_size((cn_dtype)-1), 0);
  for (int i = 1; i < CN_DTYPE_COUNT; i++) {
    assert_int_equal(cn_dtype_bytes((cn_dtype)i, 7), 7 * cn_dtype_size((cn_dtype)i)); /* none is packed yet */
    assert_int_equal(cn_element_bytes(i, 7), cn_dtype_bytes((cn_dtype)i, 7));
  }
  assert_int_equal(cn_dtype_bytes(CN_F32, 0), 0);
  assert_int_equal(cn_dtype_bytes((cn_dtype)1000, 3), 0);
  assert_true(cn_dtype_is_float(CN_BF16) && !cn_dtype_is_float(CN_I64) && !cn_dtype_is_float(CN_BOOL));
  assert_true(cn_dtype_is_int(CN_U2) && !cn_dtype_is_int(CN_BOOL) && !cn_dtype_is_int(CN_F16));
  assert_true(cn_dtype_is_signed(CN_I8) && cn_dtype_is_signed(CN_F16) && !cn_dtype_is_signed(CN_U64));
}

static void promotion(void **state)
{
  (void)state;
  for (size_t i = 0; i < LENGTH(promote_cases); i++)
    assert_int_equal(cn_promote_types(promote_cases[i].a, promote_cases[i].b), promote_cases[i].result);
  for (int a = 1; a < CN_DTYPE_COUNT; a++)
    for (int b = 1; b < CN_DTYPE_COUNT; b++) {
      int p = cni_promote(a, b);
      assert_int_equal(p, cni_promote(b, a));
      if (a == b) assert_int_equal(p, a);
      else if ((a >= CN_F8E4M3 && a < CN_C64) || (b >= CN_F8E4M3 && b < CN_C64)) assert_int_equal(p, CN_DTYPE_NONE);
      else assert_int_equal(cni_promote(p, a), p);
    }
  assert_int_equal(cn_promote_types(CN_U16, CN_I16), CN_I32);
  assert_int_equal(cn_promote_types(CN_U64, CN_I64), CN_F64);
  assert_int_equal(cn_promote_types(CN_DTYPE_NONE, CN_F32), CN_DTYPE_NONE);
}

/* ---- casts against PyTorch ---- */
static uint64_t mix(uint64_t x)
{
  x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
  return x ^ x >> 31;
}

/* The patterns that golden/dtype_cases.py makes. Too-large floats on their way to an integer become 1. */
static void make_patterns(void *array, int dtype, int to)
{
  size_t size = cni_dtype_size(dtype);
  bool tame = cni_dtype_is_float(dtype) && cni_dtype_is_int(to);
  for (uint64_t i = 0; i < COUNT; i++) {
    uint64_t x = i;
    if (dtype == CN_BOOL) x = i & 1;
    else if (size > 2) x = mix(i + 1) >> (64 - 8 * size);
    if (size > 2 && i >= COUNT / 2 && !cni_dtype_is_float(dtype)) x >>= i % (8 * size);
    memcpy((char *)array + i * size, &x, size); /* the low bytes come first */
    if (!tame) continue;
    double v = cni_load_f64(array, (int64_t)i, dtype);
    if (!isfinite(v) || fabs(v) >= 0x1p31) cni_store_f64(array, (int64_t)i, dtype, 1.0);
  }
}

static uint64_t checksum(const void *array, int dtype)
{
  size_t size = cni_dtype_size(dtype);
  uint64_t sum = 0;
  for (uint64_t i = 0; i < COUNT; i++) {
    uint64_t x = 0;
    memcpy(&x, (const char *)array + i * size, size);
    if (cni_dtype_is_float(dtype) && isnan(cni_load_f64(array, (int64_t)i, dtype))) x = UINT64_MAX;
    sum += mix(x ^ i * UINT64_C(0x9E3779B97F4A7C15));
  }
  return sum;
}

static void casts_as_pytorch(void **state)
{
  (void)state;
  char *from = malloc(COUNT * 8), *to = malloc(COUNT * 8);
  assert_non_null(from);
  assert_non_null(to);
  for (size_t i = 0; i < LENGTH(cast_cases); i++) {
    int a = (int)cast_cases[i].from, b = (int)cast_cases[i].to;
    make_patterns(from, a, b);
    cni_cast_find(a, b)(to, from, COUNT);
    if (checksum(to, b) != cast_cases[i].sum)
      fail_msg("%s to %s differs", cni_dtype_rows[a].name, cni_dtype_rows[b].name);
  }
  free(from);
  free(to);
}

/* Every instruction set gives the bits of the plain one, for every pair and for odd lengths. */
static void casts_agree_between_levels(void **state)
{
  (void)state;
  enum { N = 4099 };
  char *from = malloc(COUNT * 8), *want = malloc(N * 8), *got = malloc(N * 8);
  assert_true(from && want && got);
  for (int a = 1; a < CN_C64; a++) { /* complex numbers go part by part: test_complex.c */
    make_patterns(from, a, CN_F32);
    for (int b = 1; b < CN_C64; b++) {
      cni_cpu_isa_cap(CNI_ISA_BASE);
      cni_cast_find(a, b)(want, from, N);
      for (int level = CNI_ISA_BASE + 1; level <= CNI_ISA_BEST; level++) {
        cni_cpu_isa_cap(level);
        cni_cast_find(a, b)(got, from, N);
        assert_memory_equal(got, want, N * cni_dtype_size(b));
      }
    }
  }
  cni_cpu_isa_cap(-1);
  assert_null(cni_cast_find(0, CN_F32));
  assert_null(cni_cast_find(CN_F32, CN_DTYPE_COUNT));
  free(from);
  free(want);
  free(got);
}

static int64_t as_int(double v, int dtype)
{
  char element[8];
  cni_store_f64(element, 0, dtype, v);
  return cni_load_i64(element, 0, dtype);
}

static double as_float(double v, int dtype)
{
  char element[8];
  cni_store_f64(element, 0, dtype, v);
  return cni_load_f64(element, 0, dtype);
}

static void float_to_integer_is_defined(void **state)
{
  (void)state;
  assert_int_equal(as_int(NAN, CN_I64), INT64_MIN);
  assert_int_equal(as_int(1e19, CN_I64), INT64_MIN);
  assert_int_equal(as_int(INFINITY, CN_I32), INT32_MIN);
  assert_int_equal(as_int(-3e9, CN_I32), INT32_MIN);
  assert_int_equal(as_int(-2147483648.9, CN_I32), INT32_MIN);
  assert_int_equal(as_int(-1.9, CN_I32), -1);
  assert_int_equal(as_int(300.7, CN_U8), 44);
  assert_int_equal(as_int(-1.5, CN_U8), 255);
  assert_int_equal(as_int(NAN, CN_U8), 0);
  assert_int_equal(as_int(200.0, CN_I8), -56);
  assert_int_equal(as_int(-1.0, CN_U32), 4294967295);
  assert_int_equal(as_int(1e10, CN_U32), 1410065408);
  assert_int_equal((uint64_t)as_int(0x1p63, CN_U64) == UINT64_C(1) << 63, 1);
  assert_int_equal(as_int(0x1p64, CN_U64), 0);
  assert_int_equal(as_int(NAN, CN_BOOL), 1);
  assert_int_equal(as_int(-0.0, CN_BOOL), 0);
  assert_int_equal(as_int(1e-300, CN_BOOL), 1);
  assert_int_equal(as_int(9.9, CN_I4), -7);
  assert_int_equal(as_int(-1.0, CN_U4), 15);
  assert_int_equal(as_int(2.0, CN_I2), -2);
  assert_int_equal(as_int(7.0, CN_U2), 3);
}

static void small_floats(void **state)
{
  (void)state;
  static const double f4[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (uint8_t i = 0; i < 16; i++) {
    double v = cni_load_f64(&i, 0, CN_F4E2M1);
    assert_float_equal(v, (i & 8 ? -1 : 1) * f4[i & 7], 0);
    assert_int_equal(cni_f32_to_f4e2m1((float)v), i);
  }
  assert_float_equal(as_float(2.5, CN_F4E2M1), 2, 0); /* ties go to even */
  assert_float_equal(as_float(5.0, CN_F4E2M1), 4, 0);
  assert_float_equal(as_float(1e9, CN_F4E2M1), 6, 0);
  assert_float_equal(as_float(NAN, CN_F4E2M1), 0, 0);
  assert_float_equal(as_float(1e9, CN_F8E4M3), 448, 0);
  assert_float_equal(as_float(-INFINITY, CN_F8E4M3), -448, 0);
  assert_float_equal(as_float(NAN, CN_F8E4M3), NAN, 0);
  assert_float_equal(as_float(61440, CN_F8E5M2), INFINITY, 0);
  assert_float_equal(as_float(248, CN_F8E4M3FNUZ), NAN, 0);
  assert_float_equal(as_float(3.0, CN_F8E8M0), 4, 0);
  assert_float_equal(as_float(0.0, CN_F8E8M0), 0x1p-127, 0);
  assert_float_equal(as_float(65519.0, CN_F16), 65504, 0);
  assert_float_equal(as_float(65520.0, CN_F16), INFINITY, 0);
  assert_float_equal(as_float(0x1p-25, CN_F16), 0, 0);
  assert_float_equal(as_float(0x1.8p-25, CN_F16), 0x1p-24, 0);
  assert_float_equal(as_float(3.4e38, CN_BF16), INFINITY, 0);
  assert_float_equal(as_float(NAN, CN_BF16), NAN, 0);
  for (uint32_t i = 0; i < 65536; i++) { /* there and back */
    float v = cni_f16_to_f32((uint16_t)i), b = cni_bf16_to_f32((uint16_t)i);
    if (!isnan(v)) assert_int_equal(cni_f32_to_f16(v), i);
    if (!isnan(b)) assert_int_equal(cni_f32_to_bf16(b), i);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_and_sizes),           cmocka_unit_test(promotion),
      cmocka_unit_test(casts_as_pytorch),          cmocka_unit_test(casts_agree_between_levels),
      cmocka_unit_test(float_to_integer_is_defined), cmocka_unit_test(small_floats),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
