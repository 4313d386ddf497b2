/* test_external.c: tensors that lie in other files: over 2 GiB of them mapped, not read; what leaves the folder
 * refused. */
#define _DEFAULT_SOURCE
#include <cairn/cairn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../unit/test.h"
#include "write.h"

enum { FLOAT = 1, WIDTH = 4 };

/* ---- a folder, made once ---- */

static char folder[] = "/tmp/cairn-onnx-XXXXXX";

static const char *in_folder(const char *name)
{
  static char path[4][256];
  static int next;
  char *p = path[next++ % 4];
  snprintf(p, sizeof path[0], "%s/%s", folder, name);
  return p;
}

static int make_folder(void **state)
{
  (void)state;
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
  static const char *const names[] = {"m.onnx",    "w.bin", "link.bin", "out.bin",
                                      "sub/w.bin", "pipe",  "sub",      "other/m.onnx"};
  (void)state;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) remove(in_folder(names[i]));
  remove(in_folder("other"));
  return remove(folder);
}

/* A file of this size of which only `text`, at its place, takes room. */
static void sparse_file(const char *name, int64_t size, int64_t at, const void *bytes, size_t n)
{
  FILE *f = fopen(in_folder(name), "wb");
  assert_non_null(f);
  assert_int_equal(ftruncate(fileno(f), size), 0);
  assert_int_equal(fseeko(f, at, SEEK_SET), 0);
  assert_int_equal(fwrite(bytes, 1, n, f), n);
  fclose(f);
}

/* ---- models ---- */

static void put_pair(cn_text *m, const char *key, const char *value)
{
  cn_text pair = {0};
  put_text(&pair, 1, key);
  put_text(&pair, 2, value);
  put_message(m, 13, &pair);
}

/* y = Gather(w, i), w a table in a file. */
static void write_model(const char *path, const char *location, int64_t rows, const char *offset)
{
  cn_text g = {0}, t = {0};
  put_int(&t, 1, rows);
  put_int(&t, 1, WIDTH);
  put_int(&t, 2, FLOAT);
  put_text(&t, 8, "w");
  put_pair(&t, "location", location);
  if (offset) put_pair(&t, "offset", offset);
  put_int(&t, 14, 1);
  put_message(&g, 5, &t);
  put_node(&g, "Gather", "w i", "y", NULL);
  put_value(&g, 11, "i", 7);
  put_value(&g, 12, "y", FLOAT);
  cn_text m = model_of(&g, 17);
  FILE *f = fopen(in_folder(path), "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(m.s, 1, m.n, f), m.n);
  fclose(f);
  cn_text_free(&m);
}

static void refused(const char *location, const char *words)
{
  write_model("m.onnx", location, 2, NULL);
  cn_onnx *o = cn_onnx_load(in_folder("m.onnx"));
  assert_null(o);
  if (!strstr(cn_err_message(), words)) fail_msg("'%s' is not in '%s'", words, cn_err_message());
  cn_err_clear();
}

static void loaded(const char *model)
{
  cn_onnx *o = cn_onnx_load(in_folder(model));
  if (!o) fail_msg("%s", cn_err_message());
  cn_onnx_free(o);
}

/* Bytes of this process that are in memory; -1: the system does not say. */
static int64_t resident(void)
{
  long pages = -1, all;
  FILE *f = fopen("/proc/self/statm", "r");
  if (!f) return -1;
  if (fscanf(f, "%ld %ld", &all, &pages) != 2) pages = -1;
  fclose(f);
  return pages < 0 ? -1 : (int64_t)pages * sysconf(_SC_PAGESIZE);
}

/* ---- tests ---- */

/* 3 GiB, of which one row is looked up: what is read is a few pages. */
static void more_than_2_gib(void **state)
{
  const int64_t size = INT64_C(3) << 30, rows = (size - 4096) / (WIDTH * (int64_t)sizeof(float)), last = rows - 1;
  const float row[WIDTH] = {1, 2, 3, 4};
  float got[WIDTH];
  (void)state;
  if (sizeof(size_t) < 8) SKIP_TEST("addresses are too short");
  sparse_file("w.bin", size, size - (int64_t)sizeof row, row, sizeof row);
  write_model("m.onnx", "w.bin", rows, "4096");
  int64_t before = resident();
  cn_memory_stats mine, now;
  cn_memory_get_stats(&mine);
  cn_onnx *o = cn_onnx_load(in_folder("m.onnx"));
  if (!o) fail_msg("%s", cn_err_message());
  cn_scope *scope = cn_scope_begin();
  cn_tensor *at = cn_from_data(&last, CN_SHAPE(1), CN_I64), *y;
  assert_int_equal(cn_onnx_run(&y, o, &at), 0);
  assert_int_equal(cn_to_data(got, sizeof got, y), 0);
  assert_memory_equal(got, row, sizeof row);
  cn_memory_get_stats(&now);
  assert_true(now.peak < mine.peak + (64 << 20));
  if (before >= 0) assert_true(resident() < before + (64 << 20));
  cn_scope_end(scope);
  cn_onnx_free(o);
}

/* A place behind the end, or one that does not fit. */
static void places_that_are_not_there(void **state)
{
  static const char *const offsets[] = {"4096", "18446744073709551615", "-4", "x", "1e99"};
  (void)state;
  sparse_file("w.bin", 64, 0, "x", 1);
  for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
    write_model("m.onnx", "w.bin", 2, offsets[i]);
    assert_null(cn_onnx_load(in_folder("m.onnx")));
    cn_err_clear();
  }
  write_model("m.onnx", "w.bin", INT64_C(1) << 60, NULL); /* whose bytes are no number of 64 bits */
  assert_null(cn_onnx_load(in_folder("m.onnx")));
  cn_err_clear();
  refused("nowhere.bin", "cannot be found");
}

/* Links may lead about inside of the folder, and a model that is one brings its own. */
static void links(void **state)
{
  (void)state;
  assert_int_equal(mkdir(in_folder("sub"), 0755), 0);
  assert_int_equal(mkdir(in_folder("other"), 0755), 0);
  sparse_file("sub/w.bin", 64, 0, "x", 1);
  assert_int_equal(symlink("sub/w.bin", in_folder("link.bin")), 0);
  write_model("m.onnx", "link.bin", 2, NULL);
  loaded("m.onnx");
  write_model("m.onnx", "sub/w.bin", 2, NULL);
  loaded("m.onnx");
  assert_int_equal(symlink("/etc/hosts", in_folder("out.bin")), 0);
  refused("out.bin", "links lead out of the model's folder");
  assert_int_equal(mkfifo(in_folder("pipe"), 0644), 0);
  refused("pipe", "is no file");
  refused("sub", "is no file");
  refused("../w.bin", "not in the model's folder");
  write_model("m.onnx", "w.bin", 2, NULL); /* in sub, a folder below other's own */
  assert_int_equal(rename(in_folder("m.onnx"), in_folder("sub/m.onnx")), 0);
  assert_int_equal(symlink("../sub/m.onnx", in_folder("other/m.onnx")), 0);
  cn_onnx *o = cn_onnx_load(in_folder("other/m.onnx"));
  assert_null(o); /* other has no w.bin */
  cn_err_clear();
  assert_int_equal(symlink("../sub/w.bin", in_folder("other/w.bin")), 0);
  loaded("other/m.onnx");
  remove(in_folder("other/w.bin"));
  remove(in_folder("sub/m.onnx"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(more_than_2_gib),
      cmocka_unit_test(places_that_are_not_there),
      cmocka_unit_test(links),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
