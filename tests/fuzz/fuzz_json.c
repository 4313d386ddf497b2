/* fuzz_json.c: any bytes as JSON: refused with an error, or a tree whose text reads back to the same text. */
#include <cairn/tree.h>
#include <stdlib.h>
#include <string.h>

#include "touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  cn_memory_set_caching(false);
  char *copy = malloc(size + 1); /* of just that size: reading behind it is seen */
  if (!copy) return 0;
  memcpy(copy, data, size);
  char *exact = realloc(copy, size ? size : 1);
  cn_tree *tree = cn_tree_from_json(exact, size);
  if ((tree == NULL) != (cn_err() != 0)) abort();
  char *text = tree ? cn_tree_to_json(tree, (int)(size % 3)) : NULL;
  if (tree && !text && cn_err() != CN_ERR_VALUE) abort(); /* nested as deeply as can be */
  cn_err_clear();
  cn_tree *again = text ? cn_tree_from_json(text, strlen(text)) : NULL;
  char *twin = again ? cn_tree_to_json(again, (int)(size % 3)) : NULL;
  if (text && (!twin || strcmp(text, twin) != 0)) abort();
  cn_string_free(text);
  cn_string_free(twin);
  cn_tree_free(again);
  cn_tree_free(tree);
  cn_err_clear();
  free(exact);
  return 0;
}
