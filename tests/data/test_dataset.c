/* test_dataset.c: data sets in memory and made of others, their samples and labels. */
#include <cairn/cairn.h>
#include <cairn/data.h>

#include "test.h"

/* x: (n, 2) counting from 0, y: (n) the number of the row. */
static cn_dataset *counting(int64_t n)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_reshape(cn_arange(0, 2.0 * (double)n, .dtype = CN_F32), CN_SHAPE(n, 2));
  cn_tensor *y = cn_arange(0, (double)n, .dtype = CN_I64);
  cn_dataset *set = cn_dataset_tensors((cn_tensor *const[]){x, y}, 2);
  cn_scope_end(s);
  return set;
}

/* The number of sample i, which its y is. */
static int64_t number(cn_dataset *set, int64_t i)
{
  cn_sample sample;
  assert_int_equal(cn_dataset_get(&sample, set, i), 0);
  assert_int_equal(sample.n, 2);
  int64_t y = cn_item_int(sample.v[1]);
  cn_sample_clear(&sample);
  return y;
}

static void rows_of_tensors(void **state)
{
  (void)state;
  cn_dataset *set = counting(5);
  cn_sample sample;
  assert_int_equal(cn_dataset_length(set), 5);
  assert_string_equal(cn_dataset_name(set), "tensors");
  assert_int_equal(cn_dataset_get(&sample, set, 3), 0);
  assert_int_equal(cn_ndim(sample.v[0]), 1);
  assert_float_equal(((float *)cn_data(sample.v[0]))[1], 7, 0);
  cn_sample_clear(&sample);
  assert_int_equal(cn_dataset_get(&sample, set, 5), CN_ERR_INDEX);
  cn_err_clear();
  assert_int_equal(cn_dataset_get(&sample, set, -1), CN_ERR_INDEX);
  cn_err_clear();
  cn_dataset_release(set);
  cn_scope *s = cn_scope_begin();
  assert_null(cn_dataset_tensors((cn_tensor *const[]){cn_ones(CN_SHAPE(3)), cn_ones(CN_SHAPE(4))}, 2));
  assert_int_equal(cn_err(), CN_ERR_SHAPE);
  cn_err_clear();
  assert_null(cn_dataset_tensors((cn_tensor *const[]){cn_ones(CN_SCALAR_SHAPE)}, 1));
  cn_err_clear();
  assert_null(cn_dataset_tensors(NULL, 0));
  cn_err_clear();
  cn_scope_end(s);
}

static void parts_and_joins(void **state)
{
  (void)state;
  cn_dataset *all = cn_dataset_concat((cn_dataset *const[]){counting(4), counting(0), counting(3)}, 3);
  assert_int_equal(cn_dataset_length(all), 7);
  const int64_t expected[] = {0, 1, 2, 3, 0, 1, 2};
  for (int i = 0; i < 7; i++) assert_int_equal(number(all, i), expected[i]);
  cn_dataset *some = cn_dataset_subset(cn_dataset_range(all, 2, 6), (const int64_t[]){3, 0}, 2);
  assert_int_equal(cn_dataset_length(some), 2);
  assert_int_equal(number(some, 0), 1);
  assert_int_equal(number(some, 1), 2);
  cn_dataset_release(some);
  assert_null(cn_dataset_range(counting(3), 2, 4));
  cn_err_clear();
  assert_null(cn_dataset_subset(counting(3), (const int64_t[]){3}, 1));
  cn_err_clear();
  assert_null(cn_dataset_concat((cn_dataset *const[]){counting(3), NULL}, 2));
  assert_int_equal(cn_err(), CN_ERR_TYPE);
  cn_err_clear();
}

static void splits_at_random(void **state)
{
  (void)state;
  cn_dataset *set = counting(100), *parts[3], *again[3];
  const int64_t sizes[] = {70, 20, 10};
  int seen[100] = {0}, moved = 0;
  assert_int_equal(cn_dataset_split(parts, set, sizes, 3, 7), 0);
  assert_int_equal(cn_dataset_split(again, set, sizes, 3, 7), 0);
  for (int p = 0; p < 3; p++)
    for (int64_t i = 0; i < sizes[p]; i++) {
      int64_t n = number(parts[p], i);
      seen[n]++;
      moved += n != i;
      assert_int_equal(n, number(again[p], i));
    }
  for (int i = 0; i < 100; i++) assert_int_equal(seen[i], 1);
  assert_true(moved > 80);
  for (int p = 0; p < 3; p++) cn_dataset_release(parts[p]), cn_dataset_release(again[p]);
  assert_int_equal(cn_dataset_split(parts, set, sizes, 2, 7), CN_ERR_VALUE);
  cn_err_clear();
  cn_dataset_release(set);
}

static int add_noise(cn_sample *sample, cn_draws *draws, void *payload)
{
  (*(int *)payload)++;
  return cn_set(&sample->v[0], cn_add(sample->v[0], cn_num(cn_draw_uniform(draws))));
}

static void maps_with_draws(void **state)
{
  (void)state;
  int calls = 0;
  cn_dataset *set = cn_dataset_map(counting(6), add_noise, &calls, NULL);
  cn_sample a, b, c;
  cn_draws same = {5, 3, 0}, other = {6, 3, 0};
  cn_draws again = same;
  assert_int_equal(cn_dataset_sample(&a, set, 3, &same), 0);
  assert_int_equal(cn_dataset_sample(&b, set, 3, &again), 0);
  assert_int_equal(cn_dataset_sample(&c, set, 3, &other), 0);
  assert_int_equal(calls, 3);
  assert_memory_equal(cn_data(a.v[0]), cn_data(b.v[0]), 8);
  assert_true(((float *)cn_data(a.v[0]))[0] != ((float *)cn_data(c.v[0]))[0]);
  cn_sample_clear(&a), cn_sample_clear(&b), cn_sample_clear(&c);
  cn_dataset_release(set);
}

static void labels_go_along(void **state)
{
  (void)state;
  cn_dataset *set = counting(4);
  assert_null(cn_dataset_label(set, 0));
  assert_int_equal(cn_dataset_set_labels(set, (const char *const[]){"cat", "dog"}, 2), 0);
  set = cn_dataset_range(set, 1, 3);
  assert_string_equal(cn_dataset_label(set, 1), "dog");
  assert_null(cn_dataset_label(set, 2));
  cn_dataset_release(set);
}

static void draws_are_even(void **state)
{
  (void)state;
  int counts[7] = {0};
  double sum = 0, squares = 0, normal = 0, normal_squares = 0;
  enum { N = 70000 };
  for (uint64_t i = 0; i < N; i++) {
    cn_draws d = {1, i, 0};
    double u = cn_draw_uniform(&d), z = cn_draw_normal(&d);
    assert_true(u >= 0 && u < 1);
    sum += u, squares += u * u, normal += z, normal_squares += z * z;
    counts[cn_draw_below(&d, 7)]++;
  }
  assert_float_equal(sum / N, 0.5, 0.005);
  assert_float_equal(squares / N, 1.0 / 3, 0.005);
  assert_float_equal(normal / N, 0, 0.02);
  assert_float_equal(normal_squares / N, 1, 0.03);
  for (int i = 0; i < 7; i++) assert_in_range(counts[i], 9600, 10400);
  cn_draws d = {1, 2, 0};
  for (int i = 0; i < 100; i++) assert_in_range(cn_draw_below(&d, INT64_MAX), 0, INT64_MAX - 1);
  assert_int_equal(cn_draw_below(&d, 1), 0);
}

/* Everything of above with each allocation failing once. */
static void survives_no_memory(void **state)
{
  (void)state;
  cn_memory_set_caching(false);
  for (uint64_t k = 1; k < 400; k++) {
    cn_dataset *parts[2] = {NULL};
    cn_sample sample = {.n = 0};
    cn_memory_fail_at(k);
    cn_dataset *set = cn_dataset_concat((cn_dataset *const[]){counting(4), counting(6)}, 2);
    if (set) cn_dataset_set_labels(set, (const char *const[]){"a", "b"}, 2);
    set = cn_dataset_range(set, 1, 9);
    int calls = 0;
    set = cn_dataset_map(set, add_noise, &calls, NULL);
    if (set && !cn_err()) cn_dataset_split(parts, set, (const int64_t[]){3, 5}, 2, 1);
    if (set && !cn_err()) cn_dataset_get(&sample, parts[1], 2);
    bool failed = cn_err() != 0;
    cn_memory_fail_at(0);
    cn_sample_clear(&sample);
    cn_dataset_release(parts[0]), cn_dataset_release(parts[1]), cn_dataset_release(set);
    cn_err_clear();
    if (!failed && k > 60) break;
  }
  cn_memory_set_caching(true);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(rows_of_tensors), cmocka_unit_test(parts_and_joins),  cmocka_unit_test(splits_at_random),
    cmocka_unit_test(maps_with_draws), cmocka_unit_test(labels_go_along),  cmocka_unit_test(draws_are_even),
    cmocka_unit_test(survives_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
