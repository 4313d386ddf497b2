/* common.h: what the tests of optimisers share: golden files, arguments and comparisons. */
#ifndef TESTS_OPTIM_COMMON_H
#define TESTS_OPTIM_COMMON_H

#include <cairn/cairn.h>

#include "test.h"

cn_tree *golden_load(const char *name); /* tests/optim/NAME; the test fails when it cannot be read */
/* The values of a class's parameters that a JSON dictionary names; the others get their defaults. room: for lists. */
enum { ARGS_MOST = 16, ARGS_ROOM = 64 };
typedef struct arguments {
  cn_value v[ARGS_MOST];
  double floats[ARGS_ROOM];
  int64_t ints[ARGS_ROOM];
  size_t n, used;
} arguments;
void arguments_read(arguments *a, const char *sig, const cn_tree *dict);
const char *optim_signature(const char *name);
const char *schedule_signature(const char *name);

/* The largest difference, as a multiple of the size of the elements wanted. */
double difference(cn_tensor *have, cn_tensor *want);
bool same_bits(cn_tensor *a, cn_tensor *b);
bool same_trees(const cn_tree *a, const cn_tree *b); /* bit for bit, with the order of keys */

#endif
