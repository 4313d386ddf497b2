/* test_golden.c: files that PyTorch, NumPy and safetensors wrote are read as they mean, hostile ones are refused with a
 * message that says why, and cut or changed ones never do harm. The files come from golden.py. */
#include <cairn/cairn.h>
#include <cairn/ext/system.h>
#include <cairn/io.h>
#include <stdio.h>

#include "listing.h"
#include "test.h"

#define GOLDEN CN_TEST_SOURCE_DIR "/tests/formats/golden/"

static char *text_of(const char *path)
{
  cn_mapping m;
  if (cn_map_open(&m, path)) return NULL;
  char *text = cn_string_copy_bytes(m.data ? (const char *)m.data : "", m.size);
  cn_map_close(&m);
  return text;
}

static void join(char *path, size_t size, const char *folder, const char *name, const char *ending)
{
  snprintf(path, size, "%s%s%s", folder, name, ending);
}

static bool ends_with(const char *name, const char *ending)
{
  size_t n = strlen(name), k = strlen(ending);
  return n > k && !strcmp(name + n - k, ending);
}

/* Folders, what files should hold, and the list of messages are no files to read. */
static bool is_golden(const char *name)
{
  return !ends_with(name, ".expected") && strcmp(name, "bad") != 0 && strcmp(name, "bad.txt") != 0 &&
         strcmp(name, "gzip") != 0;
}

/* Both from the file and from memory. */
static void check_file(const char *name)
{
  char path[500];
  join(path, sizeof path, GOLDEN, name, ".expected");
  char *expected = text_of(path);
  assert_non_null(expected);
  join(path, sizeof path, GOLDEN, name, "");
  for (int from_memory = 0; from_memory < 2; from_memory++) {
    cn_mapping m;
    assert_int_equal(cn_map_open(&m, path), 0);
    cn_tree *tree = from_memory ? cn_load_memory(m.data, m.size) : cn_load(path);
    cn_map_close(&m);
    if (!tree) fail_msg("%s: %s", name, cn_err_message());
    char *text = listing(tree);
    size_t at = 0;
    while (text[at] && text[at] == expected[at]) at++;
    while (at && text[at - 1] != '\n') at--; /* the first line that differs */
    if (strcmp(text, expected) != 0) fail_msg("%s: expected\n%.200s\nbut got\n%.200s", name, expected + at, text + at);
    cn_string_free(text);
    cn_tree_free(tree);
  }
  cn_string_free(expected);
}

static void reads_files_of_others(void **state)
{
  (void)state;
  cn_names names;
  size_t count = 0;
  assert_int_equal(cn_folder_list(&names, GOLDEN), 0);
  for (size_t i = 0; i < names.n; i++)
    if (is_golden(names.v[i])) {
      check_file(names.v[i]);
      count++;
    }
  cn_names_free(&names);
  assert_true(count > 20);
}

static void refuses_hostile_files(void **state)
{
  (void)state;
  char *list = text_of(GOLDEN "bad.txt"), path[500];
  size_t count = 0, wrong = 0;
  assert_non_null(list);
  for (char *line = list, *next; *line; line = next) {
    char *tab = strchr(line, '\t'), *end = strchr(line, '\n');
    assert_true(tab && end && tab < end);
    *tab = *end = 0;
    next = end + 1;
    join(path, sizeof path, GOLDEN "bad/", line, "");
    cn_tree *tree = cn_load(path);
    if (tree || !strstr(cn_err_message(), tab + 1)) {
      print_error("%s: '%s' should say '%s'\n", line, tree ? "(was read)" : cn_err_message(), tab + 1);
      wrong++;
    }
    cn_tree_free(tree);
    cn_err_clear();
    count++;
  }
  cn_string_free(list);
  assert_true(count > 80);
  assert_int_equal(wrong, 0);
}

/* Whatever comes of it: a tree or an error, and never both or none. */
static void try_bytes(const void *bytes, size_t size)
{
  cn_tree *tree = cn_load_memory(bytes, size);
  assert_int_equal(tree == NULL, cn_err() != 0);
  cn_tree_free(tree);
  cn_err_clear();
}

/* Every beginning of a file, and the file with each of its bytes changed in two ways (larger files: some of them). */
static void mangle(const char *folder, const char *name)
{
  char path[500];
  cn_mapping m;
  join(path, sizeof path, folder, name, "");
  assert_int_equal(cn_map_open(&m, path), 0);
  size_t step = 1 + m.size / (getenv("CAIRN_LONG") ? 2000 : 60);
  for (size_t i = 0; i < m.size; i += step) {
    /* A copy of just that size: reading behind it would be seen. */
    void *copy = malloc(i + 1);
    assert_non_null(copy);
    memcpy(copy, m.data, i);
    try_bytes(copy, i);
    free(copy);
    unsigned char old = m.data[i];
    m.data[i] = old ^ 0xff;
    try_bytes(m.data, m.size);
    m.data[i] = old ^ 1;
    try_bytes(m.data, m.size);
    m.data[i] = old;
  }
  cn_map_close(&m);
}

static void survives_mangled_files(void **state)
{
  (void)state;
  for (int bad = 0; bad < 2; bad++) {
    cn_names names;
    const char *folder = bad ? GOLDEN "bad/" : GOLDEN;
    assert_int_equal(cn_folder_list(&names, folder), 0);
    for (size_t i = 0; i < names.n; i++)
      if (bad || is_golden(names.v[i])) mangle(folder, names.v[i]);
    cn_names_free(&names);
  }
}

/* Each allocation in turn fails: an error, nothing lost, and afterwards the file is read as before. */
static void survives_failing_memory(void **state)
{
  (void)state;
  static const char *const names[] = {"types.safetensors", "mixed.pt", "legacy.pt", "packed.npz", "plain.json"};
  char path[500];
  cn_memory_set_caching(false);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    join(path, sizeof path, GOLDEN, names[i], "");
    cn_tree_free(cn_load(path));
    cn_memory_stats before, after;
    cn_memory_get_stats(&before);
    cn_tree *tree = NULL;
    for (uint64_t k = 1; !tree && k < 10000; k += 1 + k / 100) {
      cn_memory_fail_at(k);
      tree = cn_load(path);
      cn_memory_fail_at(0);
      assert_int_equal(tree == NULL, cn_err() != 0);
      if (!tree) assert_int_equal(cn_err(), CN_ERR_MEMORY);
      cn_err_clear();
      if (tree) break;
      cn_memory_get_stats(&after);
      assert_int_equal(before.in_use, after.in_use);
    }
    assert_non_null(tree);
    cn_tree_free(tree);
  }
  cn_memory_set_caching(true);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(reads_files_of_others),
    cmocka_unit_test(refuses_hostile_files),
    cmocka_unit_test(survives_mangled_files),
    cmocka_unit_test(survives_failing_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
