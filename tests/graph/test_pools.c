/* test_pools.c: max pools whose places nobody reads do not find them (src/graph/passes/pools.c): the text shows
 * max_pool2d_values, and the numbers are eager's to the bit, of windows of many shapes, with NaN, infinities and zeros
 * of both signs among the elements. */
#include <cairn/cairn.h>
#include <cairn/ext/graph.h>
#include <math.h>
#include <string.h>

#include "tensors.h"

typedef struct windows {
  int64_t h, w, kernel[2], stride[2], padding[2], dilation[2];
  bool ceil_mode, places; /* places: they are results, too */
} windows;

static int pool(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  const windows *p = payload;
  cn_tensor *at;
  cn_max_pool2d_with_indices_opts o = {.size = sizeof o, .stride = {p->stride, 2}, .padding = {p->padding, 2},
                                       .dilation = {p->dilation, 2}, .ceil_mode = p->ceil_mode};
  if (cn_max_pool2d_with_indices_with(&out[0], &at, in[0], p->kernel, 2, &o)) return cn_err();
  if (p->places) out[1] = at;
  return CN_OK;
}

/* Few different numbers, so that many are equal. */
static cn_tensor *image(const windows *p, cn_dtype dtype)
{
  static const float numbers[] = {0.0f, -0.0f, 1, -1, 2, INFINITY, -INFINITY, 0.0f, -0.0f, 0.5f, -3, NAN};
  float v[2 * 3 * 64 * 64];
  size_t n = (size_t)(2 * 3 * p->h * p->w);
  uint32_t x = 12345;
  for (size_t i = 0; i < n; i++) {
    x = x * 1664525u + 1013904223u;
    v[i] = numbers[(x >> 16) % (i % 7 ? 11 : 12)];
  }
  return cn_cast(cn_from_data(v, CN_SHAPE(2, 3, p->h, p->w), CN_F32), dtype);
}

static void check(windows p, cn_dtype dtype)
{
  cn_scope *s = cn_scope_begin();
  size_t nout = p.places ? 2 : 1;
  cn_tensor *x = image(&p, dtype), *want[2], *have[2];
  assert_int_equal(pool(want, &x, &p), 0);
  cn_graph *g = cn_trace(pool, nout, &x, 1, &p);
  assert_non_null(g);
  assert_true(cn_graph_optimise(g) >= 0);
  assert_true(cn_graph_fuse(g, true) >= 0);
  assert_int_equal(cn_graph_verify(g), 0);
  bool trimmed = !p.places && dtype != CN_F64;
  char *text = cn_graph_to_string(g);
  assert_int_equal(strstr(text, "max_pool2d_values(") != NULL, trimmed);
  assert_int_equal(strstr(text, "max_pool2d_with_indices(") != NULL, !trimmed);
  cn_string_free(text);
  assert_int_equal(cn_graph_run(have, g, &x), 0);
  for (size_t i = 0; i < nout; i++) assert_same(have[i], want[i]);
  cn_graph_free(g);
  cn_scope_end(s);
}

static void test_same_bits(void **state)
{
  static const windows all[] = {
    {6, 60, {2, 2}, {2, 2}, {0, 0}, {1, 1}, false, false},   {5, 31, {2, 2}, {2, 2}, {1, 1}, {1, 1}, true, false},
    {9, 62, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false, false},   {9, 33, {3, 3}, {2, 2}, {0, 0}, {1, 1}, true, false},
    {7, 40, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false, false},   {4, 50, {2, 3}, {1, 3}, {1, 1}, {2, 2}, false, false},
    {8, 64, {1, 4}, {1, 4}, {0, 0}, {1, 1}, false, false},   {8, 18, {1, 4}, {1, 4}, {0, 0}, {1, 1}, false, false},
    {7, 63, {1, 4}, {1, 4}, {0, 0}, {1, 1}, false, false},   {5, 5, {5, 5}, {1, 1}, {2, 2}, {1, 1}, false, false},
    {64, 64, {7, 7}, {3, 5}, {3, 3}, {1, 1}, false, false},  {3, 3, {2, 2}, {2, 2}, {0, 0}, {1, 1}, true, false},
    {6, 12, {1, 3}, {1, 3}, {0, 0}, {1, 1}, false, false},   {13, 13, {13, 13}, {1, 1}, {6, 6}, {1, 1}, false, false},
    {8, 300, {3, 3}, {2, 2}, {1, 1}, {1, 1}, true, false},   {9, 280, {4, 9}, {1, 1}, {2, 4}, {1, 2}, false, false},
    {40, 30, {17, 2}, {2, 1}, {8, 1}, {1, 1}, false, false}, {7, 290, {3, 5}, {1, 4}, {1, 2}, {1, 1}, false, false},
  };
  (void)state;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    check(all[i], CN_F32);
    check(all[i], CN_F64);
    check(all[i], CN_F16);
  }
}

/* Places that are results, or that a gradient reads, are found. */
static void test_places_wanted(void **state)
{
  (void)state;
  check((windows){6, 60, {2, 2}, {2, 2}, {0, 0}, {1, 1}, false, true}, CN_F32);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_same_bits, clear_errors),
      cmocka_unit_test_setup(test_places_wanted, clear_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
