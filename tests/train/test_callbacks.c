/* test_callbacks.c: the callbacks that come with cn_fit: stopping early, checkpoints of the best, progress on a
 * terminal and in a pipe, CSV, TensorBoard.
 *
 * `test_callbacks FOLDER` leaves the logs of a fit that was stopped and went on there, for test_logs_live.py. */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE
#include <cairn/ext/system.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runs.h"
#include "test.h"

/* A metric that goes as it is told, epoch by epoch. */
typedef struct script {
  const double *values;
  int epochs; /* seen */
} script;

static int follow(cn_fitting *fit, void *payload)
{
  script *s = payload;
  s->epochs++;
  return cn_fitting_set(fit, "quality", s->values[cn_fitting_run(fit)->epoch - 1]);
}

static int fit_script(script *s, int64_t epochs, cn_callback other, const char *resume)
{
  small_run r;
  assert_int_equal(small_run_begin(&r), 0);
  int status = cn_fit(r.net, r.opt, r.loader, .epochs = epochs, .resume = resume,
                      .callbacks = CN_CALLBACKS({.epoch_end = follow, .payload = s}, other,
                                                cn_callback_last(temporary("script.safetensors"), 0)));
  small_run_end(&r);
  return status;
}

static void stops_when_nothing_improves(void **state)
{
  (void)state;
  static const double values[] = {5, 4, 3.95, 4.5, 3.9, 3.1, 3.2, 3.3, NAN, 1};
  script s = {values, 0};
  assert_int_equal(fit_script(&s, 10, cn_callback_early_stop("quality", 3, 0), NULL), 1);
  assert_int_equal(s.epochs, 9);
  s.epochs = 0;
  assert_int_equal(fit_script(&s, 10, cn_callback_early_stop("quality", 3, 0.2), NULL), 1);
  assert_int_equal(s.epochs, 5);
  /* what it has waited is part of a checkpoint */
  s.epochs = 0;
  CHECK(fit_script(&s, 4, cn_callback_early_stop("quality", 3, 0.2), NULL));
  assert_int_equal(fit_script(&s, 10, cn_callback_early_stop("quality", 3, 0.2), temporary("script.safetensors")), 1);
  assert_int_equal(s.epochs, 5);
  assert_int_equal(fit_script(&s, 1, cn_callback_early_stop("absent", 1, 0), NULL), CN_ERR_VALUE);
  assert_non_null(strstr(cn_err_message(), "absent"));
  cn_err_clear();
  cn_callback bad = cn_callback_early_stop("quality", 0, 0);
  assert_true(cn_err() == CN_ERR_VALUE && !bad.epoch_end);
  cn_err_clear();
}

static int64_t epoch_of(const char *path)
{
  cn_run run = {.epoch = -1};
  CHECK(cn_run_load(path, &run, NULL));
  return run.epoch;
}

static void keeps_the_best(void **state)
{
  (void)state;
  static const double values[] = {5, 4, 4.5, 3, 7};
  script s = {values, 0};
  const char *path = temporary("best.safetensors"), *stale = temporary("best.safetensors.part-abc123");
  assert_int_equal(cn_file_append(stale, "x", 1), 0);
  CHECK(fit_script(&s, 3, cn_callback_best(path, "quality"), NULL));
  assert_int_equal(epoch_of(path), 2);
  assert_true(cn_path_kind_of(stale) == CN_PATH_NONE); /* what a killed writer left */
  CHECK(fit_script(&s, 5, cn_callback_best(path, "quality"), temporary("script.safetensors")));
  assert_int_equal(epoch_of(path), 4);
  small_run r; /* more is better where the metric says so */
  assert_int_equal(small_run_begin(&r), 0);
  cn_metric *accuracy = cn_metric_accuracy();
  CHECK(cn_fit(r.net, r.opt, r.loader, .epochs = 6, .metrics = CN_METRICS(accuracy),
               .callbacks = CN_CALLBACKS(cn_callback_best(path, "accuracy"))));
  assert_true(epoch_of(path) > 1);
  cn_metric_free(accuracy);
  small_run_end(&r);
}

/* ---- progress ---- */

static int fit_with_progress(int64_t epochs)
{
  small_run r;
  cn_metric *accuracy = cn_metric_accuracy();
  if (small_run_begin(&r)) return 1;
  cn_loader *validation = cn_loader_new(some_digits(CN_TEST, 10, false), .batch = 5);
  int status = cn_fit(r.net, r.opt, r.loader, .epochs = epochs, .validation = validation,
                      .metrics = CN_METRICS(accuracy), .callbacks = CN_CALLBACKS(cn_callback_progress()));
  cn_metric_free(accuracy);
  cn_loader_free(validation);
  small_run_end(&r);
  return status != 0;
}

/* What a child prints whose standard output is `out`, read from `in`. */
static void printed(char *text, size_t size, int in, int out, int64_t epochs)
{
  size_t n = 0;
  ssize_t got;
  int status;
  fflush(stdout);
  pid_t child = fork();
  if (!child) {
    dup2(out, STDOUT_FILENO);
    close(in);
    _exit(fit_with_progress(epochs));
  }
  close(out);
  while (n + 1 < size && (got = read(in, text + n, size - 1 - n)) > 0) n += (size_t)got;
  text[n] = 0;
  close(in);
  waitpid(child, &status, 0);
  assert_int_equal(status, 0);
}

static void a_pipe_gets_a_line_an_epoch(void **state)
{
  (void)state;
  int ends[2];
  static char text[1 << 14];
  assert_int_equal(pipe(ends), 0);
  printed(text, sizeof text, ends[0], ends[1], 2);
  assert_null(strchr(text, '\r'));
  char *second = strchr(text, '\n');
  assert_non_null(second);
  assert_int_equal(strncmp(text, "epoch 1/2  0:0", 14), 0);
  assert_int_equal(strncmp(second, "\nepoch 2/2  0:0", 15), 0);
  static const char *const words[] = {" samples/s", "  loss ", "  accuracy ", "  val_loss ", "  val_accuracy "};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) assert_non_null(strstr(second, words[i]));
  assert_string_equal(strchr(second + 1, '\n'), "\n");
}

static void a_terminal_gets_a_line_that_moves(void **state)
{
  (void)state;
  static char text[1 << 18];
  int master = posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || grantpt(master) || unlockpt(master)) SKIP_TEST("no terminal can be opened");
  int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
  if (slave < 0) SKIP_TEST("no terminal can be opened");
  printed(text, sizeof text, master, slave, 200); /* long enough to be drawn some times */
  assert_non_null(strstr(text, "\repoch 1/200 [=="));
  assert_non_null(strstr(text, "  eta "));
  assert_non_null(strstr(text, "\x1b[K"));
  assert_non_null(strstr(text, "epoch 200/200  0:0"));
}

/* ---- CSV ---- */

static int odd_names(cn_fitting *fit, void *payload)
{
  (void)payload;
  cn_fitting_set(fit, "a, \"b\"", 1.0 / 3);
  return cn_fitting_set(fit, "nothing", NAN);
}

static void csv_has_a_row_an_epoch(void **state)
{
  (void)state;
  small_run r;
  const char *path = temporary("fit.csv");
  assert_int_equal(small_run_begin(&r), 0);
  CHECK(cn_fit(r.net, r.opt, r.loader, .epochs = 2,
               .callbacks = CN_CALLBACKS(cn_callback_rate(), {.epoch_end = odd_names}, cn_callback_csv(path))));
  cn_mapping file;
  CHECK(cn_map_open(&file, path));
  static const char head[] = "epoch,loss,lr,\"a, \"\"b\"\"\",nothing\r\n1,";
  assert_true(file.size > sizeof head);
  assert_memory_equal(file.data, head, sizeof head - 1);
  static const char tail[] = ",0.003,0.3333333333333333,\r\n";
  assert_memory_equal(file.data + file.size - (sizeof tail - 1), tail, sizeof tail - 1);
  cn_map_close(&file);
  small_run_end(&r);
}

/* ---- a fit that was stopped and went on, with all logs ---- */

static int stop_soon(cn_fitting *fit, void *payload)
{
  if (payload && cn_fitting_run(fit)->step == 10) cn_fitting_stop(fit);
  return 0;
}

static int write_logs(const char *folder)
{
  static int yes = 1;
  char path[900], csv[900];
  snprintf(path, sizeof path, "%s/run.safetensors", folder);
  snprintf(csv, sizeof csv, "%s/fit.csv", folder);
  if (cn_folder_make(folder)) return 1;
  for (int part = 0; part < 2; part++) {
    small_run r;
    cn_metric *accuracy = cn_metric_accuracy();
    if (small_run_begin(&r)) return 1;
    cn_loader *validation = cn_loader_new(some_digits(CN_TEST, 10, false), .batch = 5);
    cn_callback stopping = {.batch_end = stop_soon, .payload = part ? NULL : &yes};
    int status = cn_fit(r.net, r.opt, r.loader, .epochs = 4, .validation = validation,
                        .metrics = CN_METRICS(accuracy), .resume = path,
                        .callbacks = CN_CALLBACKS(cn_callback_rate(), stopping, cn_callback_csv(csv),
                                                  cn_callback_events(folder), cn_callback_last(path, 4)));
    cn_metric_free(accuracy);
    cn_loader_free(validation);
    small_run_end(&r);
    if (status < 0) fprintf(stderr, "%s\n", cn_err_message());
    if (status != !part) return 1;
  }
  return 0;
}

static void logs_of_a_fit_that_went_on(void **state)
{
  (void)state;
  assert_int_equal(write_logs(temporary("logs")), 0);
}

int main(int argc, char **argv)
{
  if (argc == 2) return write_logs(argv[1]);
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_pipe_gets_a_line_an_epoch), cmocka_unit_test(a_terminal_gets_a_line_that_moves),
    cmocka_unit_test(stops_when_nothing_improves), cmocka_unit_test(keeps_the_best),
    cmocka_unit_test(csv_has_a_row_an_epoch), cmocka_unit_test(logs_of_a_fit_that_went_on)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  remove_temporary();
  return failed;
}
