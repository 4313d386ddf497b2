/* test_images.c: images read and written, changed as torchvision changes them (golden/make.py), and hostile ones. */
#define _POSIX_C_SOURCE 200809L
#include <cairn/cairn.h>
#include <cairn/data.h>
#include <cairn/ext/system.h>
#include <cairn/io.h>
#include <math.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

#define FOLDER CN_TEST_SOURCE_DIR "/tests/data/golden/"

static cn_tree *readers, *changed;
static bool have_plugin;

static int begin(void **state)
{
  (void)state;
  readers = cn_load(FOLDER "readers.safetensors");
  changed = cn_load(FOLDER "transforms.safetensors");
  have_plugin = cn_plugin_open("image") != NULL;
  if (!have_plugin) print_message("libcairn_image.so is not built here: nothing is decoded\n");
  return readers && changed ? 0 : -1;
}

static int end(void **state)
{
  (void)state;
  cn_tree_free(readers), cn_tree_free(changed);
  return 0;
}

/* ---- comparing ---- */

/* How far two images are from each other, as the largest difference and the share of elements over `eps`. */
static double worst, share;
static bool compare(cn_tensor *got, cn_tensor *expected, double eps)
{
  if (!got || !expected || cn_ndim(got) != cn_ndim(expected)) return false;
  for (int d = 0; d < cn_ndim(got); d++)
    if (cn_size(got, d) != cn_size(expected, d)) return false;
  if (cn_dtype_of(got) != cn_dtype_of(expected)) return false;
  cn_tensor *gap = cn_abs(cn_sub(cn_cast(got, CN_F64), cn_cast(expected, CN_F64)));
  worst = cn_item(cn_max(gap));
  share = cn_item(cn_mean(cn_cast(cn_gt(gap, cn_num(eps)), CN_F64)));
  return true;
}

static void close_to(cn_tensor *got, cn_tensor *expected, const char *name, double eps, double allowed)
{
  if (!compare(got, expected, eps))
    fail_msg("%s: another shape or type: %lld x %lld x %lld; %s", name, (long long)cn_size(got, 0),
             (long long)cn_size(got, 1), (long long)cn_size(got, 2), cn_err_message());
  if (share > allowed || isnan(worst)) fail_msg("%s: %.2f %% differ, by up to %g", name, 100 * share, worst);
}

static cn_tensor *expected_of(const char *name) { return cn_tree_as_tensor(cn_tree_get(readers, name)); }

static const char *path_of(const char *name)
{
  static char path[512];
  snprintf(path, sizeof path, FOLDER "%s", name);
  return path;
}

/* ---- files ---- */

static void reads_as_the_file_says(void **state)
{
  (void)state;
  if (!have_plugin) SKIP_TEST("built without libpng and libjpeg");
  const char *names[] = {"grey1.png",  "grey2.png",         "grey4.png",      "grey8.png",
                         "grey16.png", "rgb.png",           "rgba.png",       "grey_alpha.png",
                         "palette.png", "palette_alpha.png", "interlaced.png", "grey.jpg",
                         "colour.jpg", "progressive.jpg",   "fine.jpg",       "cmyk.jpg"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    cn_scope *s = cn_scope_begin();
    bool lossy = strstr(names[i], ".jpg") != NULL;
    close_to(cn_image_load(path_of(names[i]), 0), expected_of(names[i]), names[i], lossy ? 2 : 0, 0.002);
    cn_scope_end(s);
  }
}

static void converts_channels(void **state)
{
  (void)state;
  if (!have_plugin) SKIP_TEST("built without libpng and libjpeg");
  const char *names[] = {"grey1.png", "grey16.png", "rgb.png", "rgba.png", "grey_alpha.png", "palette_alpha.png",
                         "grey.jpg",  "fine.jpg",   "cmyk.jpg"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *as_is = cn_image_load(path_of(names[i]), 0), *rgb = cn_image_load(path_of(names[i]), 3);
    cn_tensor *rgba = cn_image_load(path_of(names[i]), 4), *grey = cn_image_load(path_of(names[i]), 1);
    if (!grey || !rgba) fail_msg("%s: %s", names[i], cn_err_message());
    int64_t own = cn_size(as_is, 0);
    assert_int_equal(cn_size(grey, 0), 1);
    assert_int_equal(cn_size(rgb, 0), 3);
    assert_int_equal(cn_size(rgba, 0), 4);
    cn_tensor *colours = cn_narrow(as_is, 0, 0, own >= 3 ? 3 : 1);
    colours = cn_expand(colours, CN_SHAPE(3, cn_size(as_is, 1), cn_size(as_is, 2)));
    close_to(rgb, colours, names[i], 0, 0);
    close_to(cn_narrow(rgba, 0, 0, 3), colours, names[i], 0, 0);
    bool has_alpha = own == 4 || own == 2;
    cn_tensor *alpha = has_alpha ? cn_narrow(as_is, 0, own - 1, 1) : cn_full_like(grey, 255);
    close_to(cn_narrow(rgba, 0, 3, 1), alpha, names[i], 0, 0);
    close_to(grey, cn_image_grayscale(cn_contiguous(colours), 1), names[i], 2, 0.001);
    cn_scope_end(s);
  }
}

static const char *scratch(const char *ending)
{
  static char path[256];
  const char *tmp = getenv("TMPDIR");
  snprintf(path, sizeof path, "%s/cairn-test-image-%ld.%s", tmp ? tmp : "/tmp", (long)getpid(), ending);
  return path;
}

static void writes_what_it_reads(void **state)
{
  (void)state;
  if (!have_plugin) SKIP_TEST("built without libpng and libjpeg");
  cn_scope *s = cn_scope_begin();
  const char *names[] = {"grey8.png", "rgb.png", "rgba.png"};
  for (int i = 0; i < 3; i++) {
    assert_int_equal(cn_image_save(scratch("png"), cn_contiguous(expected_of(names[i]))), 0);
    close_to(cn_image_load(scratch("png"), 0), expected_of(names[i]), names[i], 0, 0);
    void *bytes;
    size_t size;
    assert_int_equal(cn_image_encode_png(&bytes, &size, expected_of(names[i])), 0);
    close_to(cn_image_decode(bytes, size, 0), expected_of(names[i]), names[i], 0, 0);
    cn_free(bytes, size);
  }
  cn_tensor *photo = expected_of("fine.jpg");
  assert_int_equal(cn_image_save(scratch("jpg"), photo), 0);
  cn_tensor *level = cn_image_grayscale(photo, 1), *back = cn_image_load(scratch("jpg"), 1);
  close_to(back, level, "JPEG", 16, 0.02); /* colours lose more: every other pixel has its own */
  assert_int_equal(cn_image_save(scratch("png"), cn_image_float(photo)), 0); /* floats in [0, 1] */
  close_to(cn_image_load(scratch("png"), 3), photo, "floats", 0, 0);
  assert_int_equal(cn_image_save(scratch("bmp"), photo), CN_ERR_VALUE);
  cn_err_clear();
  assert_int_equal(cn_image_save(scratch("jpg"), expected_of("rgba.png")), CN_ERR_IO);
  cn_err_clear();
  assert_int_equal(cn_image_save(scratch("png"), cn_ones(CN_SHAPE(3, 4))), CN_ERR_SHAPE);
  cn_err_clear();
  remove(scratch("png")), remove(scratch("jpg"));
  cn_scope_end(s);
}

/* What is written without libpng, read with it. */
static void plain_files_are_read(void **state)
{
  (void)state;
  if (!have_plugin) SKIP_TEST("built without libpng and libjpeg");
  cn_scope *s = cn_scope_begin();
  const int64_t widths[] = {1, 7, 30000, 70000}; /* a line may need several blocks */
  for (int i = 0; i < 4; i++)
    for (int channels = 1; channels <= 4; channels += channels == 1 ? 2 : 1) {
      cn_text text = {0};
      cn_tensor *pixels = cn_cast(cn_mul(cn_rand(CN_SHAPE(2, widths[i], channels)), cn_num(256)), CN_U8);
      assert_int_equal(cn_png_write(&text, cn_data(pixels), 2, widths[i], channels), 0);
      cn_tensor *back = cn_image_decode(text.s, text.n, 0);
      close_to(back, cn_permute(pixels, CN_SHAPE(2, 0, 1)), "plain PNG", 0, 0);
      cn_text_free(&text);
    }
  cn_scope_end(s);
}

static void jpeg_in_memory(void **state)
{
  (void)state;
  if (!have_plugin) SKIP_TEST("built without libpng and libjpeg");
  cn_scope *s = cn_scope_begin();
  cn_tensor *image = cn_image_load(FOLDER "grey.jpg", 1); /* colours are kept coarser than light */
  void *bytes;
  size_t coarse = 0, fine = 0;
  assert_int_equal(cn_image_encode_jpeg(&bytes, &coarse, image, 10), 0);
  cn_free(bytes, coarse);
  assert_int_equal(cn_image_encode_jpeg(&bytes, &fine, image, 98), 0);
  close_to(cn_image_decode(bytes, fine, 1), image, "JPEG", 6, 0.02);
  cn_free(bytes, fine);
  assert_true(coarse < fine);
  assert_int_equal(cn_image_encode_jpeg(&bytes, &fine, image, 101), CN_ERR_VALUE);
  assert_null(bytes);
  cn_err_clear();
  cn_scope_end(s);
}

/* In a process that does not find the plugin. */
static int without_plugin(void)
{
  cn_tensor *t = cn_image_load(FOLDER "rgb.png", 3);
  bool told = !t && cn_err() == CN_ERR_UNSUPPORTED && strstr(cn_err_message(), "libpng-dev");
  void *bytes;
  size_t size = 0;
  cn_err_clear();
  int status = cn_image_encode_png(&bytes, &size, cn_zeros(CN_SHAPE(3, 5, 5), .dtype = CN_U8));
  cn_free(bytes, size);
  return told && !status && size > 50 ? 0 : 1;
}

static const char *program;

static void says_what_is_missing(void **state)
{
  (void)state;
  pid_t child = fork();
  if (!child) {
    setenv("CAIRN_PLUGIN_PATH", "/nowhere", 1);
    execl(program, program, "without", (char *)NULL);
    _exit(2);
  }
  int status = -1;
  waitpid(child, &status, 0);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

static void folders_are_classes(void **state)
{
  (void)state;
  if (!have_plugin) SKIP_TEST("built without libpng and libjpeg");
  char base[256], path[384];
  const char *tmp = getenv("TMPDIR");
  const char *files[] = {"b/two.png", "b/deep/er.PNG", "a/one.png", "b/note.txt", "stray.png"};
  snprintf(base, sizeof base, "%s/cairn-test-folder-%ld", tmp ? tmp : "/tmp", (long)getpid());
  snprintf(path, sizeof path, "%s/b/deep", base), cn_folder_make(path);
  snprintf(path, sizeof path, "%s/a", base), cn_folder_make(path);
  cn_scope *s = cn_scope_begin();
  for (int i = 0; i < 5; i++) {
    cn_image_save(scratch("png"), expected_of("rgb.png"));
    snprintf(path, sizeof path, "%s/%s", base, files[i]);
    assert_int_equal(rename(scratch("png"), path), 0);
  }
  cn_dataset *set = cn_image_folder(base);
  if (!set) fail_msg("%s", cn_err_message());
  assert_int_equal(cn_dataset_length(set), 3);
  assert_string_equal(cn_dataset_label(set, 1), "b");
  int64_t label = -1;
  snprintf(path, sizeof path, "%s/b/two.png", base);
  assert_string_equal(cn_image_folder_file(set, 2, &label), path);
  assert_int_equal(label, 1);
  assert_null(cn_image_folder_file(set, 3, NULL));
  assert_null(cn_image_folder_file(NULL, 0, NULL));
  cn_sample sample;
  assert_int_equal(cn_dataset_get(&sample, set, 2), 0);
  assert_int_equal(cn_item_int(sample.v[1]), 1);
  close_to(sample.v[0], expected_of("rgb.png"), "folder", 0, 0);
  cn_sample_clear(&sample);
  cn_dataset_release(set);
  for (int i = 0; i < 5; i++) snprintf(path, sizeof path, "%s/%s", base, files[i]), remove(path);
  snprintf(path, sizeof path, "%s/a", base);
  assert_null(cn_image_folder(base)); /* a class without images */
  cn_err_clear();
  assert_null(cn_image_folder(path)); /* no classes */
  cn_err_clear();
  rmdir(path);
  snprintf(path, sizeof path, "%s/b/deep", base), rmdir(path);
  snprintf(path, sizeof path, "%s/b", base), rmdir(path);
  rmdir(base);
  cn_scope_end(s);
}

/* ---- hostile files ---- */

static void broken_images_are_errors(void **state)
{
  (void)state;
  if (!have_plugin) SKIP_TEST("built without libpng and libjpeg");
  const char *names[] = {"rgb.png", "interlaced.png", "palette_alpha.png", "colour.jpg", "progressive.jpg", "cmyk.jpg"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    cn_mapping m;
    assert_int_equal(cn_map_open(&m, path_of(names[i])), 0);
    unsigned char *copy = malloc(m.size);
    for (size_t cut = 0; cut < m.size - 2; cut += 1 + cut / 40) { /* truncated anywhere */
      cn_scope *s = cn_scope_begin();
      memcpy(copy, m.data, cut);
      if (cut < m.size - 12 && cn_image_decode(copy, cut, 3)) fail_msg("%s cut at %zu was read", names[i], cut);
      cn_err_clear();
      cn_scope_end(s);
    }
    for (size_t at = 8; at < m.size; at += 1 + at / 60) /* other bytes: anything but a crash */
      for (int flip = 1; flip < 256; flip <<= 3) {
        cn_scope *s = cn_scope_begin();
        memcpy(copy, m.data, m.size);
        copy[at] ^= (unsigned char)flip;
        cn_image_decode(copy, m.size, (int)(at % 2) * 3);
        cn_err_clear();
        cn_scope_end(s);
      }
    free(copy);
    cn_map_close(&m);
  }
}

/* Sizes that the file's bytes cannot hold are refused before anything is allocated by them. */
static void huge_claims_are_refused(void **state)
{
  (void)state;
  if (!have_plugin) SKIP_TEST("built without libpng and libjpeg");
  cn_memory_stats before, after;
  const char *names[] = {"rgb.png", "colour.jpg"};
  for (int i = 0; i < 2; i++) {
    cn_mapping m;
    assert_int_equal(cn_map_open(&m, path_of(names[i])), 0);
    unsigned char *copy = malloc(m.size);
    memcpy(copy, m.data, m.size);
    if (i == 0) {
      const unsigned char head[] = {0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff};
      memcpy(copy + 16, head, 8);
      uint32_t crc = 0xffffffff; /* of the changed head */
      for (int k = 12; k < 29; k++) {
        crc ^= copy[k];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
      }
      crc = ~crc;
      for (int k = 0; k < 4; k++) copy[29 + k] = (unsigned char)(crc >> (24 - 8 * k));
    } else
      for (size_t k = 2; k + 9 < m.size; k++)
        if (copy[k] == 0xff && copy[k + 1] == 0xc0) memset(copy + k + 5, 0xff, 4);
    cn_memory_get_stats(&before);
    cn_memory_reset_peak();
    assert_null(cn_image_decode(copy, m.size, 3));
    assert_non_null(strstr(cn_err_message(), "pixels"));
    cn_memory_get_stats(&after);
    assert_true(after.peak < before.in_use + (1 << 20));
    cn_err_clear();
    free(copy);
    cn_map_close(&m);
  }
  assert_null(cn_image_decode("GIF89a", 6, 3));
  cn_err_clear();
  assert_null(cn_image_decode(NULL, 0, 3));
  cn_err_clear();
  assert_null(cn_image_load(path_of("rgb.png"), 2));
  cn_err_clear();
}

/* ---- as torchvision changes them ---- */

enum { ARGS = 8 };

static cn_tensor *change(const char *name, cn_tensor *image, const double *a)
{
  cn_transform *t = NULL;
  if (!strcmp(name, "resize")) return cn_image_resize(image, (int64_t)a[0], (int64_t)a[1]);
  if (!strcmp(name, "crop")) return cn_image_crop(image, (int64_t)a[0], (int64_t)a[1], (int64_t)a[2], (int64_t)a[3]);
  if (!strcmp(name, "flip")) return cn_image_flip(image, a[0] > 0, a[1] > 0);
  if (!strcmp(name, "rotate")) return cn_image_rotate(image, a[0]);
  if (!strcmp(name, "affine")) return cn_image_affine(image, a[0], a[1], a[2], a[3], a[4], a[5]);
  if (!strcmp(name, "brightness")) return cn_image_brightness(image, a[0]);
  if (!strcmp(name, "contrast")) return cn_image_contrast(image, a[0]);
  if (!strcmp(name, "saturation")) return cn_image_saturation(image, a[0]);
  if (!strcmp(name, "hue")) return cn_image_hue(image, a[0]);
  if (!strcmp(name, "grayscale")) return cn_image_grayscale(image, (int)a[0]);
  if (!strcmp(name, "erase")) return cn_image_erase(image, (int64_t)a[0], (int64_t)a[1], (int64_t)a[2], (int64_t)a[3]);
  if (!strcmp(name, "normalize")) return cn_image_normalize(image, a, a + 3, 3);
  if (!strcmp(name, "center_crop")) t = cn_transform_center_crop((int64_t)a[0], (int64_t)a[1]);
  if (!strcmp(name, "resize_short")) t = cn_transform_resize((int64_t)a[0], 0);
  if (!strcmp(name, "resize_short_turned")) {
    t = cn_transform_resize((int64_t)a[0], 0);
    image = cn_transpose(image, 1, 2);
  }
  if (!t) fail_msg("no function %s", name);
  cn_tensor *made = cn_transform_apply(t, image, NULL);
  cn_transform_free(t);
  return made;
}

/* One case, with the image's channels side by side and as planes. */
static void check_case(const char *key, cn_tensor *expected)
{
  char name[64];
  double a[ARGS] = {0};
  const char *slash = strchr(key, '/'), *colon = strchr(key, ':');
  if (!slash || !colon) return;
  snprintf(name, sizeof name, "%.*s", (int)(colon - slash - 1), slash + 1);
  char *at = (char *)(uintptr_t)colon;
  for (int i = 0; i < ARGS && *at; i++) a[i] = strtod(at + 1, &at);
  bool bytes = key[0] == 'u' && strcmp(name, "normalize");
  cn_tensor *image = cn_tree_as_tensor(cn_tree_get(changed, key[0] == 'u' ? "u8" : "f32"));
  cn_tensor *beside = cn_permute(cn_contiguous(cn_permute(image, CN_SHAPE(1, 2, 0))), CN_SHAPE(2, 0, 1));
  bool rotated = !strcmp(name, "rotate") || !strcmp(name, "affine"),
       mixed = !strcmp(name, "contrast") || !strcmp(name, "saturation") || !strcmp(name, "hue");
  double eps = bytes ? 0 : 2e-6, allowed = rotated ? 0.01 : mixed && bytes ? 0.01 : 0;
  close_to(change(name, image, a), expected, key, eps, allowed);
  if (!rotated) assert_true(worst <= (bytes ? 1 : 1e-5)); /* where bytes differ, by one level */
  cn_tensor *again = change(name, beside, a);
  close_to(again, expected, key, eps, allowed);
}

static void changes_as_torchvision(void **state)
{
  (void)state;
  int cases = 0;
  for (size_t i = 0; i < cn_tree_size(changed); i++) {
    const char *key = cn_tree_key(changed, i, NULL);
    cn_tensor *expected = cn_tree_as_tensor(cn_tree_at(changed, i));
    cn_scope *s = cn_scope_begin();
    if (expected) check_case(key, expected), cases++;
    cn_scope_end(s);
  }
  assert_true(cases > 60);
}

static void refuses_nonsense(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *image = cn_tree_as_tensor(cn_tree_get(changed, "u8")), *odd = cn_zeros(CN_SHAPE(2, 5, 5), .dtype = CN_U8);
  cn_tensor *(*const with_factor[])(cn_tensor *, double) = {cn_image_brightness, cn_image_contrast,
                                                            cn_image_saturation};
  for (int i = 0; i < 3; i++) {
    assert_null(with_factor[i](image, -1)), cn_err_clear();
    assert_null(with_factor[i](odd, 1)), cn_err_clear();
    assert_null(with_factor[i](NULL, 1)), cn_err_clear();
  }
  assert_null(cn_image_hue(image, 0.6)), cn_err_clear();
  assert_null(cn_image_resize(image, 0, 4)), cn_err_clear();
  assert_null(cn_image_resize(cn_zeros(CN_SHAPE(3, 0, 4), .dtype = CN_U8), 2, 2)), cn_err_clear();
  assert_null(cn_image_resize(cn_zeros(CN_SHAPE(3, 4, 4), .dtype = CN_I64), 2, 2)), cn_err_clear();
  assert_null(cn_image_resize(cn_zeros(CN_SHAPE(4, 4)), 2, 2)), cn_err_clear();
  assert_null(cn_image_crop(image, 0, 0, -1, 2)), cn_err_clear();
  assert_null(cn_image_crop(image, INT64_MIN, INT64_MAX, 4, 4)), cn_err_clear();
  assert_null(cn_image_erase(image, 0, INT64_MAX, 4, INT64_MAX)), cn_err_clear();
  assert_non_null(cn_image_crop(image, 1000, 1000, 3, 3));
  assert_null(cn_image_affine(image, 0, 0, 0, 0, 0, 0)), cn_err_clear();
  assert_null(cn_image_normalize(image, (double[]){0, 0}, (double[]){1, 1}, 2)), cn_err_clear();
  assert_null(cn_image_normalize(image, (double[]){0}, (double[]){0}, 1)), cn_err_clear();
  assert_null(cn_image_grayscale(image, 2)), cn_err_clear();
  assert_null(cn_transform_resize(0, 0)), cn_err_clear();
  assert_null(cn_transform_random_flip(2, 0)), cn_err_clear();
  assert_null(cn_transform_random_resized_crop(2, 2, 1, 0.5)), cn_err_clear();
  assert_null(cn_transform_color_jitter(0, 0, 0, 0.7)), cn_err_clear();
  assert_null(CN_TRANSFORMS(cn_transform_float(), cn_transform_random_erasing(-1))), cn_err_clear();
  assert_null(cn_dataset_transform(cn_digits(CN_TEST), NULL)), cn_err_clear();
  assert_null(cn_image_load(NULL, 3)), cn_err_clear();
  assert_null(cn_image_folder(NULL)), cn_err_clear();
  assert_int_equal(cn_image_save(NULL, image), CN_ERR_TYPE), cn_err_clear();
  assert_int_equal(cn_wav_save(NULL, cn_zeros(CN_SHAPE(4)), 8000), CN_ERR_TYPE), cn_err_clear();
  cn_scope_end(s);
}

/* The plugin lies in the build folder, two above this program. */
static void find_plugin(const char *path)
{
  char folder[1000];
  const char *slash = strrchr(path, '/');
  if (!slash) return;
  snprintf(folder, sizeof folder, "%.*s/../..", (int)(slash - path), path);
  setenv("CAIRN_PLUGIN_PATH", folder, 0);
}

/* libjpeg has memory of each thread's own, and the leak check of gcc 12 crashes on that of a library loaded later.
 * Without it the states of threads would count as lost: so there is one thread, and main gives its state back. */
const char *__lsan_default_options(void);
const char *__lsan_default_options(void) { return "use_tls=0"; }

int main(int argc, char **argv)
{
  program = argv[0];
  cn_set_num_threads(1);
  if (argc < 2) find_plugin(program);
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(reads_as_the_file_says),   cmocka_unit_test(converts_channels),
    cmocka_unit_test(writes_what_it_reads),     cmocka_unit_test(jpeg_in_memory),
    cmocka_unit_test(folders_are_classes),
    cmocka_unit_test(broken_images_are_errors), cmocka_unit_test(huge_claims_are_refused),
    cmocka_unit_test(plain_files_are_read),     cmocka_unit_test(says_what_is_missing),
    cmocka_unit_test(changes_as_torchvision),   cmocka_unit_test(refuses_nonsense),
  };
  int failed = argc > 1 ? without_plugin() : cmocka_run_group_tests(tests, begin, end);
  cn_state_free(cn_state_swap(NULL));
  return failed;
}
