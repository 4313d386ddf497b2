/* test_readers.c: data files against what others' readers make of them (golden/make.py), and files that are broken. */
#define _POSIX_C_SOURCE 200809L
#include <cairn/cairn.h>
#include <cairn/data.h>
#include <cairn/io.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "test.h"

#define FOLDER CN_TEST_SOURCE_DIR "/tests/data/golden/"

static cn_tree *golden;

static int load_golden(void **state)
{
  (void)state;
  golden = cn_load(FOLDER "readers.safetensors");
  return golden ? 0 : -1;
}

static int free_golden(void **state)
{
  (void)state;
  cn_tree_free(golden);
  return 0;
}

/* All of a data set's field, stacked. */
static cn_tensor *whole_field(cn_dataset *set, size_t field)
{
  cn_batch b;
  cn_loader *l = cn_loader_new(cn_dataset_keep(set), .batch = cn_dataset_length(set));
  assert_int_equal(cn_loader_next(&b, l), 1);
  assert_true(field < b.n);
  cn_tensor *t = cn_keep(b.v[field]);
  cn_loader_free(l);
  return cn_scope_give(t);
}

static void same(cn_tensor *got, const char *name)
{
  cn_tensor *expected = cn_tree_as_tensor(cn_tree_get(golden, name));
  if (!got || !expected) fail_msg("%s: %s", name, cn_err_message());
  if (cn_dtype_of(got) != cn_dtype_of(expected) || cn_tensor_nbytes(got) != cn_tensor_nbytes(expected))
    fail_msg("%s: another type or size", name);
  if (cn_ndim(got) != cn_ndim(expected)) fail_msg("%s: another shape", name);
  size_t size = cn_tensor_nbytes(got);
  char *a = malloc(size), *b = malloc(size);
  cn_to_data(a, size, got);
  cn_to_data(b, size, expected);
  const float *x = (const float *)(void *)a, *y = (const float *)(void *)b;
  bool equal = true;
  if (cn_dtype_of(got) != CN_F32) equal = !memcmp(a, b, size);
  for (size_t i = 0; cn_dtype_of(got) == CN_F32 && i < size / 4; i++)
    equal = equal && (x[i] == y[i] || (isnan(x[i]) && isnan(y[i])));
  free(a), free(b);
  if (!equal) fail_msg("%s: other values", name);
}

static void tables_of_numbers(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_dataset *set = cn_csv(FOLDER "table.csv", .header = true, .target_classes = true);
  if (!set) fail_msg("%s", cn_err_message());
  assert_int_equal(cn_dataset_length(set), 6);
  same(whole_field(set, 0), "table.csv/x");
  same(whole_field(set, 1), "table.csv/y");
  assert_string_equal(cn_dataset_label(set, 0), "bird");
  assert_string_equal(cn_dataset_label(set, 2), "dog \"big\"");
  cn_dataset_release(set);
  set = cn_csv(FOLDER "table.csv", .header = true, .target = "kind", .target_classes = true);
  assert_int_equal(cn_dataset_length(set), 6);
  cn_dataset_release(set);
  set = cn_csv(FOLDER "numbers.csv", .delimiter = ';', .target = "");
  if (!set) fail_msg("%s", cn_err_message());
  same(whole_field(set, 0), "numbers.csv/all");
  cn_dataset_release(set);
  set = cn_csv(FOLDER "numbers.csv", .delimiter = ';', .target = "1");
  assert_int_equal(cn_size(whole_field(set, 0), 1), 3);
  assert_int_equal(cn_dtype_of(whole_field(set, 1)), CN_F32);
  cn_dataset_release(set);
  cn_scope_end(s);
}

/* A file with this text; its name is good until the next call. */
static const char *file_of(const void *bytes, size_t size)
{
  static char path[256];
  const char *tmp = getenv("TMPDIR");
  snprintf(path, sizeof path, "%s/cairn-test-data-%ld", tmp ? tmp : "/tmp", (long)getpid());
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(bytes, 1, size, f), size);
  fclose(f);
  return path;
}

static void refused(void *made, const char *what)
{
  if (made) fail_msg("was taken: %s", what);
  if (!cn_err_message()[0] || !strstr(cn_err_message(), what)) fail_msg("\"%s\" lacks \"%s\"", cn_err_message(), what);
  cn_err_clear();
}

static void bad_tables_say_where(void **state)
{
  (void)state;
#define TABLE(text) file_of(text, sizeof(text) - 1)
  refused(cn_csv(TABLE("1,2\n3\n")), "line 2: has fewer");
  refused(cn_csv(TABLE("1,2\n3,4,5\n")), "line 2: has more");
  refused(cn_csv(TABLE("a,b\n1,2\n")), ".header = true");
  refused(cn_csv(TABLE("1,cat\n")), ".target_classes = true");
  refused(cn_csv(TABLE("1,2\n\n3,\"4\n")), "line 4: a quote is not closed");
  refused(cn_csv(TABLE("1,\"2\"x\n")), "behind a closing quote");
  refused(cn_csv(TABLE("")), "is empty");
  refused(cn_csv(TABLE("1\n2\n")), "one column");
  refused(cn_csv(TABLE("1,2\n"), .target = "7"), "no column \"7\"");
  refused(cn_csv(TABLE("1,2\n"), .delimiter = '"'), "delimiter");
  refused(cn_csv("/nowhere/at/all.csv"), "/nowhere/at/all.csv");
  cn_dataset *set = cn_csv(TABLE("1,2\r3,4\r"));
  assert_int_equal(cn_dataset_length(set), 2);
  cn_dataset_release(set);
  set = cn_csv(TABLE("a,b\n"), .header = true);
  assert_int_equal(cn_dataset_length(set), 0);
  cn_dataset_release(set);
  set = cn_csv(TABLE("0.5,10\n0.25,9\n1,10\n"), .target_classes = true); /* numbers sort as numbers */
  assert_string_equal(cn_dataset_label(set, 0), "9");
  cn_dataset_release(set);
}

static void arrays_of_bytes(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  same(cn_load_idx(FOLDER "images.idx3"), "images.idx3");
  same(cn_load_idx(FOLDER "shorts.idx2"), "shorts.idx2");
  cn_dataset *set = cn_idx(FOLDER "images.idx3", FOLDER "labels.idx1.gz");
  if (!set) fail_msg("%s", cn_err_message());
  same(whole_field(set, 1), "labels.idx1.gz");
  cn_tensor *x = whole_field(set, 0);
  assert_int_equal(cn_ndim(x), 4);
  assert_int_equal(cn_size(x, 1), 1);
  cn_tensor *expected = cn_true_divide(cn_tree_as_tensor(cn_tree_get(golden, "images.idx3")), cn_num(255));
  assert_true(cn_item(cn_all(cn_eq(x, cn_unsqueeze(expected, 1)))));
  cn_dataset_release(set);
  const char *files[] = {FOLDER "cifar10.bin", FOLDER "cifar10.bin"};
  set = cn_cifar(files, 2, 10);
  assert_int_equal(cn_dataset_length(set), 6);
  assert_string_equal(cn_dataset_label(set, 3), "cat");
  cn_dataset_release(set);
  const char *hundred[] = {FOLDER "cifar100.bin"};
  set = cn_cifar(hundred, 1, 100);
  same(whole_field(set, 1), "cifar100.bin/y");
  cn_tensor *bytes = cn_cast(cn_round(cn_mul(whole_field(set, 0), cn_num(255))), CN_U8);
  same(bytes, "cifar100.bin/x");
  cn_dataset_release(set);
  cn_tensor *y;
  assert_int_equal(cn_load_cifar(&x, &y, hundred, 1, 100), 0);
  same(x, "cifar100.bin/x");
  same(y, "cifar100.bin/y");
  refused(cn_cifar(hundred, 1, 10), "whole number");
  refused(cn_load_idx(FOLDER "table.csv"), "not an IDX");
  refused(cn_load_idx(file_of("\0\0\10\3\177\177\177\177\177\177\177\177\177\177\177\177", 16)), "shape");
  refused(cn_load_idx(file_of("\0\0\10\1\0\0\0\4abc", 11)), "shape");
  cn_scope_end(s);
}

static void sounds(void **state)
{
  (void)state;
  const char *names[] = {"u8.wav", "i16.wav", "i24.wav", "i32.wav", "f32.wav", "f64.wav"};
  cn_scope *s = cn_scope_begin();
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char path[512];
    int rate = 0;
    snprintf(path, sizeof path, FOLDER "%s", names[i]);
    same(cn_wav_load(path, &rate), names[i]);
    assert_int_equal(rate, i == 2 ? 22050 : 8000);
  }
  cn_tensor *sound = cn_wav_load(FOLDER "i16.wav", NULL), *back;
  const char *path = file_of("", 0);
  assert_int_equal(cn_wav_save(path, sound, 44100), 0);
  int rate = 0;
  back = cn_wav_load(path, &rate);
  assert_int_equal(rate, 44100);
  assert_true(cn_item(cn_all(cn_eq(sound, back))));
  assert_int_equal(cn_wav_save(path, cn_mul(sound, cn_num(1000)), 44100), 0); /* too loud is cut off */
  assert_float_equal(cn_item(cn_max(cn_wav_load(path, NULL))), 32767.0 / 32768, 0);
  assert_int_equal(cn_wav_save(path, cn_ones(CN_SCALAR_SHAPE), 44100), CN_ERR_SHAPE);
  cn_err_clear();
  refused(cn_wav_load(FOLDER "table.csv", NULL), "not a WAV");
  refused(cn_wav_load(file_of("RIFF\4\0\0\0WAVE", 12), NULL), "lacks");
  cn_scope_end(s);
}

static void digits(void **state)
{
  (void)state;
  cn_dataset *train = cn_digits(CN_TRAIN), *test = cn_digits(CN_TEST), *all = cn_digits(CN_ALL);
  cn_scope *s = cn_scope_begin();
  assert_int_equal(cn_dataset_length(train), 1437);
  assert_int_equal(cn_dataset_length(test), 360);
  assert_int_equal(cn_dataset_length(all), 1797);
  cn_tensor *x = whole_field(all, 0), *y = whole_field(all, 1);
  assert_float_equal(cn_item(cn_mul(cn_sum(cn_cast(x, CN_F64)), cn_num(16))), 561718, 0); /* of the original */
  assert_int_equal(cn_item_int(cn_sum(y)), 8070);
  assert_float_equal(((float *)cn_data(x))[2], 5.0 / 16, 0);
  assert_string_equal(cn_dataset_label(all, 7), "7");
  cn_tensor *last = whole_field(test, 1);
  assert_true(cn_item(cn_all(cn_eq(last, cn_narrow(y, 0, 1437, 360)))));
  cn_scope_end(s);
  cn_dataset_release(train), cn_dataset_release(test), cn_dataset_release(all);
}

static void tokens(void **state)
{
  (void)state;
  uint16_t v[100];
  for (int i = 0; i < 100; i++) v[i] = (uint16_t)(i * 600);
  const char *path = file_of(v, sizeof v);
  cn_scope *s = cn_scope_begin();
  cn_dataset *set = cn_token_file(path, CN_U16, 8, 4);
  assert_int_equal(cn_dataset_length(set), (100 - 9) / 4 + 1);
  cn_sample sample;
  assert_int_equal(cn_dataset_get(&sample, set, 22), 0);
  assert_int_equal(((int64_t *)cn_data(sample.v[0]))[0], 88 * 600);
  assert_int_equal(((int64_t *)cn_data(sample.v[1]))[7], 96 * 600);
  cn_sample_clear(&sample);
  cn_tensor *x = whole_field(set, 0);
  assert_int_equal(cn_size(x, 1), 8);
  assert_int_equal(((int64_t *)cn_data(x))[8], 4 * 600);
  cn_dataset_release(set);
  set = cn_token_tensor(cn_from_data(v, CN_SHAPE(100), CN_U16), 99, 0);
  assert_int_equal(cn_dataset_length(set), 1);
  cn_dataset_release(set);
  set = cn_token_tensor(cn_from_data(v, CN_SHAPE(100), CN_U16), 100, 1);
  assert_int_equal(cn_dataset_length(set), 0);
  cn_dataset_release(set);
  refused(cn_token_file(path, CN_F32, 8, 4), "float32");
  refused(cn_token_file(path, CN_U16, 0, 4), "windows");
  refused(cn_token_file(file_of("abc", 3), CN_U16, 1, 1), "whole number");
  cn_scope_end(s);
}

static void files_of_tensors(void **state)
{
  (void)state;
  char path[80];
  snprintf(path, sizeof path, "%s.safetensors", file_of("", 0));
  cn_scope *s = cn_scope_begin();
  cn_tree *tree = cn_tree_dict();
  cn_tree_put(tree, "y", cn_tree_tensor(cn_arange(0, 5, .dtype = CN_I64)));
  cn_tree_put(tree, "x", cn_tree_tensor(cn_reshape(cn_arange(0, 10, .dtype = CN_F32), CN_SHAPE(5, 2))));
  assert_int_equal(cn_save(path, tree), 0);
  cn_tree_free(tree);
  cn_dataset *set = cn_dataset_load(path);
  if (!set) fail_msg("%s", cn_err_message());
  assert_int_equal(cn_dataset_length(set), 5);
  cn_tensor *x = whole_field(set, 0), *y = whole_field(set, 1);
  assert_int_equal(cn_ndim(x), 2);
  assert_float_equal(cn_item(cn_sum(x)), 45, 0);
  assert_int_equal(cn_item_int(cn_sum(y)), 10);
  cn_dataset_release(set);
  remove(path);
  cn_scope_end(s);
  refused(cn_dataset_load(FOLDER "table.csv"), "table.csv");
}

static void survives_no_memory(void **state)
{
  (void)state;
  cn_memory_set_caching(false);
  for (uint64_t k = 1; k < 400; k++) {
    cn_memory_fail_at(k);
    cn_dataset *table = cn_csv(FOLDER "table.csv", .header = true, .target_classes = true);
    cn_dataset *idx = cn_idx(FOLDER "images.idx3", FOLDER "labels.idx1.gz");
    cn_dataset *cifar = cn_cifar((const char *const[]){FOLDER "cifar10.bin"}, 1, 10);
    cn_dataset *tokens_set = cn_token_file(FOLDER "images.idx3", CN_U16, 4, 2);
    bool failed = cn_err() != 0;
    cn_memory_fail_at(0);
    cn_err_clear();
    cn_dataset_release(table), cn_dataset_release(idx), cn_dataset_release(cifar), cn_dataset_release(tokens_set);
    if (!failed && k > 100) break;
  }
  cn_memory_set_caching(true);
}

/* The MNIST files are not in the repository: CAIRN_TEST_MNIST names their folder. */
static void mnist(void **state)
{
  (void)state;
  const char *folder = getenv("CAIRN_TEST_MNIST");
  if (!folder) SKIP_TEST("CAIRN_TEST_MNIST names no folder");
  char images[512], labels[512];
  snprintf(images, sizeof images, "%s/t10k-images-idx3-ubyte.gz", folder);
  snprintf(labels, sizeof labels, "%s/t10k-labels-idx1-ubyte.gz", folder);
  cn_dataset *set = cn_idx(images, labels);
  if (!set) fail_msg("%s", cn_err_message());
  cn_scope *s = cn_scope_begin();
  assert_int_equal(cn_dataset_length(set), 10000);
  assert_float_equal(cn_item(cn_mean(whole_field(set, 0))), 0.1325, 1e-4); /* known of the test images */
  assert_int_equal(cn_item_int(cn_narrow(whole_field(set, 1), 0, 0, 1)), 7);
  cn_scope_end(s);
  cn_dataset_release(set);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(tables_of_numbers), cmocka_unit_test(bad_tables_say_where), cmocka_unit_test(arrays_of_bytes),
    cmocka_unit_test(sounds),            cmocka_unit_test(digits),               cmocka_unit_test(tokens),
    cmocka_unit_test(files_of_tensors),  cmocka_unit_test(survives_no_memory),   cmocka_unit_test(mnist),
  };
  int failed = cmocka_run_group_tests(tests, load_golden, free_golden);
  remove(file_of("", 0));
  return failed;
}
