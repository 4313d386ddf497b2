/* test_transforms.c: transforms at random: distributions as torchvision's, the same draws for the same sample, on
 * data sets and in lists; mixup. What they do to pixels is test_images.c's. */
#include <cairn/cairn.h>
#include <cairn/data.h>
#include <math.h>

#include "test.h"

/* (3, h, w): channel 0 has the row, channel 1 the column of each pixel, from 1 on; channel 2 is 255. */
static cn_tensor *map_of_places(int64_t h, int64_t w)
{
  cn_tensor *t = cn_empty(CN_SHAPE(3, h, w), .dtype = CN_U8);
  unsigned char *p = cn_data(t);
  for (int64_t y = 0; y < h; y++)
    for (int64_t x = 0; x < w; x++) {
      p[y * w + x] = (unsigned char)(y + 1);
      p[(h + y) * w + x] = (unsigned char)(x + 1);
      p[(2 * h + y) * w + x] = 255;
    }
  return t;
}

static int at(cn_tensor *image, int c, int64_t y, int64_t x)
{
  const int64_t *s = cn_strides(image);
  return ((const unsigned char *)cn_data(image))[c * s[0] + y * s[1] + x * s[2]];
}

/* Applies t to one image with the draws of sample i. */
static cn_tensor *drawn(cn_transform *t, cn_tensor *image, uint64_t i)
{
  cn_draws d = {99, i, 0};
  return cn_transform_apply(t, image, &d);
}

static void crops_everywhere_alike(void **state)
{
  (void)state;
  cn_transform *t = cn_transform_random_crop(4, 6, 2);
  int tops[9] = {0}, lefts[7] = {0};
  for (uint64_t i = 0; i < 9000; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *image = drawn(t, map_of_places(8, 8), i);
    assert_int_equal(cn_size(image, 1), 4);
    assert_int_equal(cn_size(image, 2), 6);
    for (int64_t y = 0; y < 4; y++)
      for (int64_t x = 0; x < 6; x++) {
        int row = at(image, 0, y, x);
        if (!row) continue; /* padding */
        bool first_row = y == 0 || !at(image, 0, y - 1, x), first_column = x == 0 || !at(image, 1, y, x - 1);
        if (first_row && first_column) tops[row - 1 - y + 2]++, lefts[at(image, 1, y, x) - 1 - x + 2]++;
      }
    cn_scope_end(s);
  }
  for (int i = 0; i < 9; i++) assert_in_range(tops[i], 870, 1130);
  for (int i = 0; i < 7; i++) assert_in_range(lefts[i], 1140, 1430);
  cn_scope *s = cn_scope_begin();
  assert_null(drawn(t, map_of_places(1, 1), 0)); /* 5 x 5 with its padding */
  assert_int_equal(cn_err(), CN_ERR_SHAPE);
  cn_err_clear();
  cn_scope_end(s);
  cn_transform_free(t);
}

static void flips_as_often_as_said(void **state)
{
  (void)state;
  cn_transform *t = cn_transform_random_flip(0.3, 0.8);
  int across = 0, down = 0;
  for (uint64_t i = 0; i < 4000; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *image = drawn(t, map_of_places(3, 5), i);
    across += at(image, 1, 0, 0) == 5;
    down += at(image, 0, 0, 0) == 3;
    cn_scope_end(s);
  }
  assert_in_range(across, 1100, 1300);
  assert_in_range(down, 3110, 3290);
  cn_transform_free(t);
}

/* The window that was cut out shows in the corners' colours; area and proportions are what torchvision draws. */
static void windows_have_their_shapes(void **state)
{
  (void)state;
  cn_transform *t = cn_transform_random_resized_crop(64, 64, 0.25, 1);
  double areas = 0, logs = 0, squares = 0;
  enum { N = 1500 };
  for (uint64_t i = 0; i < N; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *image = drawn(t, map_of_places(200, 200), i);
    assert_int_equal(cn_size(image, 1), 64);
    double h = (at(image, 0, 63, 32) - at(image, 0, 0, 32)) * 64.0 / 63;
    double w = (at(image, 1, 32, 63) - at(image, 1, 32, 0)) * 64.0 / 63;
    areas += h * w / 40000;
    logs += log(w / h);
    squares += log(w / h) * log(w / h);
    cn_scope_end(s);
  }
  assert_float_equal(areas / N, 0.58, 0.03); /* below the mean of 0.25 and 1: the largest do not fit in every shape */
  assert_float_equal(logs / N, 0, 0.02);
  assert_float_equal(squares / N, pow(log(4.0 / 3), 2) / 3, 0.008);
  cn_transform_free(t);
}

static void turns_and_moves_within_bounds(void **state)
{
  (void)state;
  cn_transform *t = cn_transform_random_affine(0, 0.25, 1, 1, 0);
  double sum = 0;
  int most = 0;
  for (uint64_t i = 0; i < 500; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *image = drawn(t, map_of_places(41, 41), i);
    int moved = 21 - at(image, 1, 20, 20);
    assert_true(abs(moved) <= 10);
    if (abs(moved) > most) most = abs(moved);
    sum += moved;
    cn_scope_end(s);
  }
  assert_int_equal(most, 10);
  assert_float_equal(sum / 500, 0, 0.9);
  cn_transform_free(t);
  t = cn_transform_random_rotation(30);
  int left = 0;
  for (uint64_t i = 0; i < 500; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *image = drawn(t, map_of_places(41, 41), i);
    left += at(image, 0, 20, 35) > 21; /* against the clock: the right side comes from below */
    assert_int_equal(at(image, 0, 20, 20), 21);
    cn_scope_end(s);
  }
  assert_in_range(left, 190, 290);
  cn_transform_free(t);
}

static void jitter_and_erasing(void **state)
{
  (void)state;
  cn_transform *t = cn_transform_color_jitter(0.5, 0, 0, 0), *hole = cn_transform_random_erasing(0.5);
  double sum = 0, area = 0;
  int erased = 0;
  for (uint64_t i = 0; i < 2000; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *grey = cn_full(CN_SHAPE(3, 2, 2), 0.5), *bright = drawn(t, grey, i);
    float v = ((float *)cn_data(bright))[0];
    assert_true(v >= 0.25f && v <= 0.75f);
    sum += v;
    cn_tensor *image = drawn(hole, cn_ones(CN_SHAPE(1, 30, 30)), i);
    double left = cn_item(cn_sum(image));
    erased += left < 900;
    area += left < 900 ? 1 - left / 900 : 0;
    cn_scope_end(s);
  }
  assert_float_equal(sum / 2000, 0.5, 0.01);
  assert_in_range(erased, 930, 1070);
  assert_float_equal(area / erased, 0.17, 0.02);
  cn_transform_free(t), cn_transform_free(hole);
}

static cn_tensor *twice(cn_tensor *image, cn_draws *draws, void *payload)
{
  (void)draws;
  return cn_mul(image, cn_num(*(const double *)payload));
}

/* A whole chain over a data set: the same on any number of threads, and different from epoch to epoch. */
static void chains_repeat(void **state)
{
  (void)state;
  double factor = 2, mean[] = {0.3}, std[] = {0.5}, sums[3][2];
  for (int workers = 0; workers < 3; workers++) {
    cn_transform *t =
      CN_TRANSFORMS(cn_transform_resize(12, 10), cn_transform_random_crop(8, 8, 1), cn_transform_random_flip(0.5, 0.1),
                    cn_transform_random_affine(10, 0.1, 0.9, 1.1, 5), cn_transform_color_jitter(0.3, 0.3, 0, 0),
                    cn_transform_new(twice, &factor, NULL), cn_transform_normalize(mean, std, 1),
                    cn_transform_random_erasing(0.5));
    cn_dataset *set = cn_dataset_transform(cn_digits(CN_TEST), t);
    cn_loader *l = cn_loader_new(set, .batch = 50, .workers = workers, .seed = 3, .shuffle = true);
    for (int epoch = 0; epoch < 2; epoch++) {
      cn_batch b;
      sums[workers][epoch] = 0;
      while (cn_loader_next(&b, l) == 1) {
        cn_scope *s = cn_scope_begin();
        assert_int_equal(cn_size(b.x, 2), 8);
        cn_tensor *weights = cn_reshape(cn_arange(0, (double)b.size), CN_SHAPE(b.size, 1, 1, 1));
        sums[workers][epoch] += cn_item(cn_sum(cn_mul(b.x, weights)));
        cn_scope_end(s);
      }
      if (cn_err()) fail_msg("%s", cn_err_message());
    }
    cn_loader_free(l);
  }
  assert_true(sums[0][0] == sums[1][0] && sums[0][0] == sums[2][0]);
  assert_true(sums[0][1] == sums[1][1] && sums[0][1] == sums[2][1]);
  assert_true(sums[0][0] != sums[0][1]);
}

static void mixes_pairs(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  double sum = 0, squares = 0;
  const int64_t classes[] = {2, 0, 1};
  for (uint64_t i = 0; i < 1000; i++) {
    cn_scope *inner = cn_scope_begin();
    cn_tensor *x = cn_from_data(((float[]){1, 2, 3}), CN_SHAPE(3, 1), CN_F32);
    cn_tensor *y = cn_from_data(classes, CN_SHAPE(3), CN_I64);
    cn_draws d = {4, i, 0};
    assert_int_equal(cn_mixup(&x, &y, 4, 0.4, &d), 0);
    const float *v = cn_data(y), *mixed = cn_data(x);
    double part = v[2]; /* of sample 0 itself; the rest is of the last one, class 1 */
    assert_float_equal(v[1], 1 - part, 1e-6);
    assert_float_equal(mixed[0], part * 1 + (1 - part) * 3, 1e-5);
    assert_float_equal(v[4 + 0] + v[4 + 2], 1, 1e-6);
    sum += part, squares += part * part;
    cn_scope_end(inner);
  }
  assert_float_equal(sum / 1000, 0.5, 0.05);
  assert_float_equal(squares / 1000 - pow(sum / 1000, 2), 0.25 / 1.8, 0.015); /* of a beta distribution */
  cn_tensor *x = cn_ones(CN_SHAPE(3)), *y = cn_ones(CN_SHAPE(2));
  assert_int_equal(cn_mixup(&x, &y, 4, 0.4, NULL), CN_ERR_SHAPE);
  cn_err_clear();
  cn_scope_end(s);
}

static void survives_no_memory(void **state)
{
  (void)state;
  cn_memory_set_caching(false);
  double mean[] = {0.3, 0.3, 0.3}, std[] = {0.5, 0.5, 0.5};
  for (uint64_t k = 1; k < 400; k++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *image = map_of_places(20, 20);
    cn_memory_fail_at(k);
    cn_transform *t = CN_TRANSFORMS(cn_transform_random_resized_crop(8, 8, 0, 0), cn_transform_random_flip(1, 0),
                                    cn_transform_random_rotation(20), cn_transform_color_jitter(0.1, 0.1, 0.1, 0.1),
                                    cn_transform_normalize(mean, std, 3), cn_transform_grayscale(1));
    cn_tensor *made = t ? cn_transform_apply(t, image, NULL) : NULL;
    cn_memory_fail_at(0);
    bool failed = !made;
    assert_true(failed == (cn_err() != 0));
    cn_err_clear();
    cn_transform_free(t);
    cn_scope_end(s);
    if (!failed && k > 60) break;
  }
  cn_memory_set_caching(true);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(crops_everywhere_alike),        cmocka_unit_test(flips_as_often_as_said),
    cmocka_unit_test(windows_have_their_shapes),     cmocka_unit_test(turns_and_moves_within_bounds),
    cmocka_unit_test(jitter_and_erasing),            cmocka_unit_test(chains_repeat),
    cmocka_unit_test(mixes_pairs),                   cmocka_unit_test(survives_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
