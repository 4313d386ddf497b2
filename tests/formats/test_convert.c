/* test_convert.c: files from one format into another. Without arguments a test of that; with arguments the program that
 * test_live.py drives against PyTorch, NumPy and safetensors:
 *   test_convert convert IN OUT     reads one file and writes the other, by its ending
 *   test_convert list FILE          prints every value of it, a line each
 *   test_convert gunzip IN OUT      unpacks a gzip file */
#include <cairn/cairn.h>
#include <cairn/ext/system.h>
#include <cairn/io.h>
#include <stdio.h>

#include "listing.h"
#include "test.h"

/* ---- the program ---- */

static int unpack(const char *from, const char *to)
{
  cn_mapping m;
  void *bytes;
  size_t size;
  int status = cn_map_open(&m, from);
  if (!status) status = cn_gunzip(&bytes, &size, m.data, m.size);
  cn_writer *w = status ? NULL : cn_writer_open(to);
  if (w) cn_writer_put(w, bytes, size);
  if (w) status = cn_writer_commit(w);
  if (!status) cn_free(bytes, size);
  cn_map_close(&m);
  return status;
}

static int program(int argc, char **argv)
{
  bool converts = argc == 4 && !strcmp(argv[1], "convert"), lists = argc == 3 && !strcmp(argv[1], "list");
  bool unpacks = argc == 4 && !strcmp(argv[1], "gunzip");
  if (!converts && !lists && !unpacks) {
    fprintf(stderr, "usage: test_convert [convert IN OUT | list FILE | gunzip IN OUT]\n");
    return 2;
  }
  cn_tree *tree = unpacks ? NULL : cn_load(argv[2]);
  if (unpacks) unpack(argv[2], argv[3]);
  if (tree && converts) cn_save(argv[3], tree);
  char *text = tree && lists ? listing(tree) : NULL;
  if (text) fputs(text, stdout);
  cn_string_free(text);
  cn_tree_free(tree);
  if (cn_err()) fprintf(stderr, "%s\n", cn_err_message());
  return cn_err() ? 1 : 0;
}

/* ---- the test ---- */

static cn_tree *weights(void)
{
  cn_tree *tree = cn_tree_dict();
  cn_scope *s = cn_scope_begin();
  cn_tree_put(tree, "a.weight", cn_tree_tensor(cn_randn(CN_SHAPE(3, 5))));
  cn_tree_put(tree, "a.bias", cn_tree_tensor(cn_arange(0, 4)));
  cn_tree_put(tree, "scalar", cn_tree_tensor(cn_full(CN_SCALAR_SHAPE, 2.5)));
  cn_tree_put(tree, "empty", cn_tree_tensor(cn_zeros(CN_SHAPE(0, 3))));
  cn_scope_end(s);
  return tree;
}

static bool same(cn_tensor *a, cn_tensor *b)
{
  return cn_dtype_of(a) == cn_dtype_of(b) && cn_numel(a) == cn_numel(b) && cn_ndim(a) == cn_ndim(b) &&
         (!cn_numel(a) || !memcmp(cn_data(a), cn_data(b), cn_tensor_nbytes(a)));
}

/* Through every format that holds a dictionary of tensors, and back to the first. */
static void goes_round(void **state)
{
  (void)state;
  static const char *const names[] = {"a.safetensors", "b.npz", "c.pt", "d.safetensors"};
  cn_tree *first = weights(), *tree = cn_tree_copy(first, false);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    assert_int_equal(cn_save(scratch(names[i]), tree), 0);
    cn_tree_free(tree);
    tree = cn_load(scratch(names[i]));
    if (!tree) fail_msg("%s: %s", names[i], cn_err_message());
  }
  assert_int_equal(cn_tree_size(tree), cn_tree_size(first));
  for (size_t i = 0; i < cn_tree_size(first); i++) {
    const char *key = cn_tree_key(first, i, NULL);
    assert_true(same(cn_tree_as_tensor(cn_tree_at(first, i)), cn_tree_as_tensor(cn_tree_get(tree, key))));
  }
  cn_tree_free(tree);
  cn_tree_free(first);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) cn_file_remove(scratch(names[i]));
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(goes_round)};
  if (argc > 1) return program(argc, argv);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
