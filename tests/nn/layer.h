/* layer.h: cases of golden files (golden.py) as C tests use them: a module made from its arguments, and its call. */
#ifndef CAIRN_TESTS_NN_LAYER_H
#define CAIRN_TESTS_NN_LAYER_H

#include <cairn/cairn.h>

#define LAYER_FOLDER CN_TEST_SOURCE_DIR "/tests/nn/golden"

enum { LAYER_RESULTS = 8, LAYER_LISTS = 16, LAYER_NAME = 256 };

/* One case and what was made for it. Texts and tensors belong to the file. */
typedef struct layer {
  const cn_tree *file, *json;
  size_t number;
  cn_module *module;
  int64_t ints[LAYER_LISTS][LAYER_LISTS]; /* what lists among arguments point to */
  double floats[LAYER_LISTS][LAYER_LISTS];
  size_t nlists;
  cn_value call[CN_MAX_ARGS];
  cn_tensor *leaves[CN_MAX_ARGS]; /* what call[i] is a copy of, where a gradient is wanted */
  int failures;
} layer;

/* The cases of a golden file (both to be freed). Fails the test when it cannot be read. */
cn_tree *layer_open(const char *name, cn_tree **file);
const char *layer_label(const layer *l);
/* Prints what is not as it should be, with the case's label, and counts it. */
void layer_differs(layer *l, const char *format, ...) CN_PRINTF(2, 3);
/* The tensor of that name of this case; NULL when the file has none. */
cn_tensor *layer_tensor(const layer *l, const char *format, ...) CN_PRINTF(2, 3);
/* Makes the case's module, with modules among its arguments. Owned; NULL with the error set. */
cn_module *layer_make(layer *l);
/* Fills call and leaves with fresh tensors of the scope. */
void layer_read_call(layer *l);
/* Forward, and backward from the stored gradients of results of that mode. 0 or an error. */
int layer_call(layer *l, cn_tensor **out, const char *mode);

/* main's work: runs a test for each golden file (its state is the file's name), and `last` (may be NULL). */
int layer_main(const char *group, void (*test)(void **state), void (*last)(void **state));

#endif
