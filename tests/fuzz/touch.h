/* touch.h: reads files in memory, and every byte of every tensor in their trees, so that the sanitizers see where they
 * lie. */
#ifndef TESTS_FUZZ_TOUCH_H
#define TESTS_FUZZ_TOUCH_H

#include <cairn/cairn.h>
#include <cairn/ext/system.h>
#include <stdlib.h>
#include <string.h>

#include "formats/formats.h"

static inline void touch(const cn_tree *tree)
{
  enum { MOST = 1 << 20 }; /* a view may have any number of elements of the same memory */
  cn_tensor *t = cn_tree_as_tensor(tree);
  if (t && cn_numel(t) <= MOST) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *c = cn_contiguous(t);
    const unsigned char *p = c && cn_numel(c) ? cn_data(c) : NULL;
    volatile unsigned char sum = 0;
    for (size_t i = 0; p && i < cn_tensor_nbytes(c); i++) sum = (unsigned char)(sum + p[i]);
    cn_scope_end(s);
  }
  for (size_t i = 0; i < cn_tree_size(tree); i++) touch(cn_tree_at(tree, i));
}

/* Either a tree or an error; gives both back. */
static inline bool finish(cn_tree *tree)
{
  bool consistent = (tree == NULL) == (cn_err() != 0);
  touch(tree);
  cn_tree_free(tree);
  cn_err_clear();
  return consistent;
}

/* The bytes as a file of a format, in memory of their own size, so that reading past their end is seen. */
static inline void read_bytes(const uint8_t *bytes, size_t size, cn_tree *(*reader)(cni_source *))
{
  uint8_t *copy = malloc(size ? size : 1);
  if (!copy) return;
  if (size) memcpy(copy, bytes, size);
  cni_source *s = cni_source_memory(copy, size, "fuzz");
  cn_tree *tree = reader(s);
  cni_source_free(s);
  free(copy);
  if (!finish(tree)) abort();
}

#endif
