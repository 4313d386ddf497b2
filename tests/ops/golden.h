/* golden.h: PyTorch's results (tests/golden/FAMILY.golden, made by tests/golden/make.py), and comparing with them. */
#ifndef TESTS_OPS_GOLDEN_H
#define TESTS_OPS_GOLDEN_H

#include "sample.h"

typedef struct golden_tensor {
  int dtype; /* 0: absent; GOLDEN_UNKNOWN: PyTorch does not say */
  int ndim;
  bool channels_last;
  int64_t shape[CN_MAX_DIMS];
  const void *data; /* NULL where only shape and type are known */
} golden_tensor;

enum { GOLDEN_UNKNOWN = 255 };
enum golden_status { GOLDEN_VALUES = 0, GOLDEN_SHAPES = 2, GOLDEN_NOTHING = 3 };

typedef struct golden_record {
  uint64_t hash;
  enum golden_status status;
  bool any_dtype;
  int nout, ngrad;
  golden_tensor *tensors; /* results, then gradients */
} golden_record;

typedef struct golden_file {
  char *data;
  golden_record *records;
  size_t count;
} golden_file;

/* 0, or -1 with a message. */
int golden_read(golden_file *file, const char *family, char *message, size_t size);
void golden_free(golden_file *file);
const golden_record *golden_find(const golden_file *file, uint64_t hash); /* NULL: not there */

/* ---- comparing (compare.c); each returns true, or false with what differs in `why` ---- */
typedef struct tolerance {
  double rtol, atol;
} tolerance;
/* How far results of that type may differ. Integers and bool: not at all. */
tolerance tolerance_of(int dtype, double scale);

/* flags: GOLDEN_ANY_DTYPE, and GOLDEN_ANY_ORDER: memory order is not compared (gradients). */
enum { GOLDEN_ANY_DTYPE = 1, GOLDEN_ANY_ORDER = 2 };
bool same_as_golden(cn_tensor *t, const golden_tensor *g, int flags, double scale, char *why, size_t size);
/* Two tensors: same type and shape, and same elements within the tolerance; scale 0: the same bits (all NaNs are
 * one). */
bool same_tensors(cn_tensor *a, cn_tensor *b, double scale, char *why, size_t size);
/* Results and gradients of two runs. A missing gradient equals one of zeros. */
bool same_results(const call_result *a, const call_result *b, double scale, char *why, size_t size);

#endif
