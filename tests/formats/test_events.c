/* test_events.c: files of events for TensorBoard: framing, checksums, names, refusals, failing allocations.
 *
 * `test_events FOLDER` writes a log of every kind there, which test_events_live.py reads with TensorBoard's code. */
#define _DEFAULT_SOURCE
#include <cairn/cairn.h>
#include <cairn/events.h>
#include <cairn/ext/system.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "test.h"

/* ---- one of each kind ---- */

static cn_module *small_net(void)
{
  cn_module *features = cn_nn_sequential(cn_nn_conv2d(1, 4, 3), cn_nn_relu());
  return cn_nn_sequential(features, cn_nn_flatten(), cn_nn_linear(4 * 6 * 6, 10));
}

static void write_pictures(cn_events *log)
{
  cn_tensor *ramp = cn_true_divide(cn_arange(0, 60), cn_num(60));
  cn_events_image(log, "picture", cn_reshape(ramp, CN_SHAPE(3, 4, 5)), 1);
  cn_tensor *many = cn_cast(cn_reshape(cn_arange(0, 10 * 6 * 7), CN_SHAPE(10, 1, 6, 7)), CN_U8);
  cn_events_image(log, "grid", many, 2);
  cn_tensor *wide = cn_cast(cn_remainder(cn_arange(0, 300 * 200), cn_int(7)), CN_U8);
  cn_events_image(log, "grey", cn_reshape(wide, CN_SHAPE(300, 200)), 3);
}

static void write_tables(cn_events *log)
{
  static const char *const labels[] = {"one", "two\tparts", "three", "four", "five"};
  cn_tree *settings = cn_tree_dict(), *metrics = cn_tree_dict();
  cn_tree_put(settings, "lr", cn_tree_float(0.125));
  cn_tree_put(settings, "batch", cn_tree_int(64));
  cn_tree_put(settings, "optimiser", cn_tree_str("adam"));
  cn_tree_put(settings, "nesterov", cn_tree_bool(true));
  cn_tree_put(metrics, "final/accuracy", cn_tree_float(0.75));
  cn_events_hparams(log, settings, metrics);
  cn_tree_free(settings);
  cn_tree_free(metrics);
  cn_tensor *points = cn_reshape(cn_true_divide(cn_arange(0, 15), cn_num(4)), CN_SHAPE(5, 3));
  cn_events_embedding(log, "letters/a", points, labels, cn_zeros(CN_SHAPE(5, 1, 4, 6)), 7);
  cn_events_embedding(log, "bare", points, NULL, NULL, 0);
}

/* Everything that the live check looks for; 0 or the error. */
static int write_all(const char *folder)
{
  cn_scope *s = cn_scope_begin();
  cn_events *log = cn_events_open(folder);
  for (int64_t step = 0; step < 10; step++) cn_events_scalar(log, "loss", 1 / (1 + (double)step), step);
  cn_tensor *spread = cn_sub(cn_true_divide(cn_arange(0, 1000), cn_num(100)), cn_num(4.5));
  cn_events_histogram(log, "weights", spread, 3);
  cn_events_histogram(log, "constant", cn_full(CN_SHAPE(5), 2.5), 3);
  cn_events_histogram(log, "diverged", cn_full(CN_SHAPE(5), NAN), 3);
  write_pictures(log);
  cn_events_text(log, "note", "some **bold** words", 4);
  cn_tensor *labels = cn_remainder(cn_arange(0, 50), cn_int(3));
  cn_events_pr_curve(log, "curve", cn_eq(labels, cn_int(0)), cn_true_divide(cn_arange(0, 50), cn_num(49)), 5);
  cn_module *net = small_net();
  cn_tensor *x = cn_rand(CN_SHAPE(2, 1, 8, 8));
  cn_events_graph(log, net, &x, 1);
  cn_module_release(net);
  write_tables(log);
  cn_events_close(log);
  cn_scope_end(s);
  return cn_err();
}

/* ---- reading back what tfrecord.c wrote ---- */

static uint32_t crc32c(const unsigned char *p, size_t n)
{
  uint32_t c = ~0u;
  for (size_t i = 0; i < n; i++) {
    c ^= p[i];
    for (int k = 0; k < 8; k++) c = c >> 1 ^ (c & 1 ? 0x82f63b78u : 0);
  }
  return ~c;
}

static uint64_t little(const unsigned char *p, int n)
{
  uint64_t v = 0;
  for (int i = n - 1; i >= 0; i--) v = v << 8 | p[i];
  return v;
}

static uint32_t unmasked(uint64_t v)
{
  uint32_t rotated = (uint32_t)v - 0xa282ead8u;
  return rotated >> 17 | rotated << 15;
}

static void folder_for(char *folder, size_t size, const char *name)
{
  const char *tmp = getenv("TMPDIR");
  snprintf(folder, size, "%s/cairn-events-%d-%s", tmp ? tmp : "/tmp", (int)getpid(), name);
}

static void remove_all(const char *folder)
{
  cn_names names;
  char path[1200];
  assert_int_equal(cn_folder_list(&names, folder), 0);
  for (size_t i = 0; i < names.n; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, names.v[i]);
    if (cn_path_kind_of(path) == CN_PATH_FOLDER) remove_all(path);
    else unlink(path);
  }
  cn_names_free(&names);
  rmdir(folder);
}

/* The one file of events in a folder. */
static void find_file(char *path, size_t size, const char *folder)
{
  cn_names names;
  assert_int_equal(cn_folder_list(&names, folder), 0);
  path[0] = 0;
  for (size_t i = 0; i < names.n; i++)
    if (!strncmp(names.v[i], "events.out.tfevents.", 20)) snprintf(path, size, "%s/%s", folder, names.v[i]);
  cn_names_free(&names);
}

/* How many records; each must have good checksums, and the first must name the version. */
static size_t count_records(const char *folder)
{
  char path[1200];
  cn_mapping file;
  size_t n = 0, at = 0;
  assert_int_equal(crc32c((const unsigned char *)"123456789", 9), 0xe3069283u);
  find_file(path, sizeof path, folder);
  assert_int_equal(cn_map_open(&file, path), 0);
  while (at < file.size) {
    assert_true(file.size - at >= 16);
    const unsigned char *p = file.data + at;
    uint64_t length = little(p, 8);
    assert_int_equal(unmasked(little(p + 8, 4)), crc32c(p, 8));
    assert_true(length <= file.size - at - 16);
    assert_int_equal(unmasked(little(p + 12 + length, 4)), crc32c(p + 12, (size_t)length));
    if (!n) assert_memory_equal(p + 12 + 9, "\x1a\x0d" "brain.Event:2", 15);
    at += (size_t)length + 16;
    n++;
  }
  assert_int_equal(at, file.size);
  cn_map_close(&file);
  return n;
}

static void records_are_whole(void **state)
{
  (void)state;
  char folder[1000];
  folder_for(folder, sizeof folder, "all");
  assert_int_equal(write_all(folder), 0);
  /* version, 10 losses, 3 histograms, 3 pictures, text, curve, graph, 3 + 1 of settings */
  assert_int_equal(count_records(folder), 1 + 10 + 3 + 3 + 1 + 1 + 1 + 4);
  remove_all(folder);
}

/* A log can say when things happened, and its file can have a name that a program finds again. */
static void times_and_names_are_taken(void **state)
{
  (void)state;
  char folder[1000], path[1200];
  cn_mapping file;
  double seconds = 0;
  folder_for(folder, sizeof folder, "time");
  cn_events *log = cn_events_open_as(folder, ".mine");
  assert_int_equal(cn_events_set_time(log, 12.5), 0);
  assert_int_equal(cn_events_scalar(log, "x", 1, 0), 0);
  assert_int_equal(cn_events_set_time(log, NAN), CN_ERR_VALUE);
  cn_err_clear();
  cn_events_close(log);
  assert_int_equal(count_records(folder), 2);
  find_file(path, sizeof path, folder);
  assert_string_equal(path + strlen(path) - 5, ".mine");
  assert_int_equal(cn_map_open(&file, path), 0);
  memcpy(&seconds, file.data + little(file.data, 8) + 16 + 12 + 1, sizeof seconds);
  assert_true(seconds == 12.5);
  cn_map_close(&file);
  remove_all(folder);
  assert_null(cn_events_open_as(folder, "a/b"));
  assert_int_equal(cn_err(), CN_ERR_VALUE);
  cn_err_clear();
  assert_int_equal(cn_events_set_time(NULL, 1), CN_ERR_TYPE);
  cn_err_clear();
}

static void flushing_shows_what_was_logged(void **state)
{
  (void)state;
  char folder[1000];
  folder_for(folder, sizeof folder, "flush/below");
  cn_events *log = cn_events_open(folder);
  assert_non_null(log);
  assert_int_equal(count_records(folder), 1);
  assert_int_equal(cn_events_scalar(log, "x", 1, 0), 0);
  assert_int_equal(cn_events_flush(log), 0);
  assert_int_equal(count_records(folder), 2);
  for (int i = 0; i < 5000; i++) assert_int_equal(cn_events_scalar(log, "x", i, i), 0);
  assert_true(count_records(folder) > 2); /* much is written without being asked */
  cn_events_close(log);
  assert_int_equal(count_records(folder), 5002);
  folder_for(folder, sizeof folder, "flush");
  remove_all(folder);
}

/* A disk that is full for a while: nothing is lost, and no record is cut. */
static void a_full_disk_cuts_no_record(void **state)
{
  (void)state;
  char folder[1000];
  struct rlimit before, small;
  folder_for(folder, sizeof folder, "full");
  cn_events *log = cn_events_open(folder);
  assert_non_null(log);
  for (int i = 0; i < 100; i++) assert_int_equal(cn_events_scalar(log, "x", i, i), 0);
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  small = (struct rlimit){1000, before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  int status = cn_events_flush(log);
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  assert_int_equal(status, CN_ERR_IO);
  cn_err_clear();
  assert_int_equal(count_records(folder), 1);
  cn_events_close(log);
  assert_int_equal(count_records(folder), 101);
  remove_all(folder);
}

static void wrong_things_are_refused(void **state)
{
  (void)state;
  char folder[1000];
  folder_for(folder, sizeof folder, "wrong");
  cn_scope *s = cn_scope_begin();
  cn_events *log = cn_events_open(folder);
  cn_tensor *x = cn_zeros(CN_SHAPE(3)), *ints = cn_arange(0, 4, .dtype = CN_I64);
  REFUSED(cn_events_scalar(NULL, "a", 0, 0), CN_ERR_TYPE);
  REFUSED(cn_events_scalar(log, "", 0, 0), CN_ERR_VALUE);
  REFUSED(cn_events_text(log, "a", NULL, 0), CN_ERR_TYPE);
  REFUSED(cn_events_histogram(log, "a", NULL, 0), CN_ERR_TYPE);
  REFUSED(cn_events_image(log, "a", x, 0), CN_ERR_SHAPE);
  REFUSED(cn_events_image(log, "a", cn_zeros(CN_SHAPE(5, 2, 2)), 0), CN_ERR_SHAPE);
  REFUSED(cn_events_image(log, "a", cn_zeros(CN_SHAPE(3, 0, 2)), 0), CN_ERR_SHAPE);
  REFUSED(cn_events_image(log, "a", cn_reshape(ints, CN_SHAPE(2, 2)), 0), CN_ERR_DTYPE);
  REFUSED(cn_events_pr_curve(log, "a", x, ints, 0), CN_ERR_SHAPE);
  REFUSED(cn_events_pr_curve(log, "a", ints, ints, 0), CN_ERR_VALUE);
  REFUSED(cn_events_embedding(log, "a", x, NULL, NULL, 0), CN_ERR_SHAPE);
  REFUSED(cn_events_embedding(log, "a", cn_zeros(CN_SHAPE(3, 2)), NULL, x, 0), CN_ERR_SHAPE);
  cn_tree *list = cn_tree_list();
  REFUSED(cn_events_hparams(log, list, NULL), CN_ERR_TYPE);
  cn_tree_free(list);
  REFUSED(cn_events_graph(log, NULL, NULL, 0), CN_ERR_TYPE);
  cn_events_close(log);
  assert_int_equal(count_records(folder), 1);
  remove_all(folder);
  assert_null(cn_events_open("/dev/null/nothing"));
  REFUSED(cn_err(), CN_ERR_IO);
  cn_scope_end(s);
}

static void failing_allocations_leave_whole_records(void **state)
{
  (void)state;
  char folder[1000];
  cn_memory_stats before, after;
  folder_for(folder, sizeof folder, "memory");
  assert_int_equal(write_all(folder), 0); /* what is made once is made */
  remove_all(folder);
  cn_memory_set_caching(false);
  cn_memory_trim();
  cn_memory_get_stats(&before);
  bool failed = true;
  for (uint64_t k = 1; failed; k += 1 + k / 24) {
    cn_memory_fail_at(k);
    int status = write_all(folder);
    cn_memory_fail_at(0);
    failed = status != 0;
    if (failed) assert_int_equal(status, CN_ERR_MEMORY);
    cn_err_clear();
    cn_memory_get_stats(&after);
    assert_int_equal(after.in_use, before.in_use);
    if (cn_path_kind_of(folder) == CN_PATH_FOLDER) {
      cn_names names;
      cn_folder_list(&names, folder);
      if (names.n && strncmp(names.v[0], "events", 6) == 0) assert_true(count_records(folder) >= 1);
      cn_names_free(&names);
      remove_all(folder);
    }
  }
  cn_memory_set_caching(true);
}

int main(int argc, char **argv)
{
  if (argc == 2) {
    int status = write_all(argv[1]);
    if (status) fprintf(stderr, "%s\n", cn_err_message());
    return status != 0;
  }
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(records_are_whole), cmocka_unit_test(times_and_names_are_taken),
    cmocka_unit_test(flushing_shows_what_was_logged),
    cmocka_unit_test(a_full_disk_cuts_no_record), cmocka_unit_test(wrong_things_are_refused),
    cmocka_unit_test(failing_allocations_leave_whole_records)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
