/* drivers.h: what is done with every sample. Each driver runs one sample; test_ops.c walks the files. */
#ifndef TESTS_OPS_DRIVERS_H
#define TESTS_OPS_DRIVERS_H

#include "golden.h"

enum outcome { PASS, SKIP, FAIL };

typedef struct family {
  const char *name;
  double scale;      /* of the tolerances of results (compare.c) */
  double grad_scale; /* ... and of gradients */
} family;

typedef struct trial {
  const family *family;
  const sample *s;
  const golden_record *golden; /* NULL: none */
  char *why;                   /* of FAIL and SKIP */
  size_t size;
} trial;

typedef enum outcome (*driver_fn)(const trial *t);

/* Says why and returns FAIL or SKIP. */
enum outcome trial_fail(const trial *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
enum outcome trial_skip(const trial *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

enum outcome drive_oracle(const trial *t);    /* results and gradients against PyTorch's; errors where they belong */
enum outcome drive_layouts(const trial *t);   /* other memory layouts of the same values */
enum outcome drive_gradcheck(const trial *t); /* gradients against finite differences, first and second order */
enum outcome drive_inplace(const trial *t);   /* the in-place form against the other one */
enum outcome drive_memory(const trial *t);    /* every allocation failed in turn */
enum outcome drive_threads(const trial *t);   /* one thread against several */
enum outcome drive_mirror(const trial *t);    /* the mirror device, or CAIRN_TEST_DEVICE, against the CPU */
enum outcome drive_capture(const trial *t);   /* a captured graph of forward and gradient against eager */
enum outcome drive_compiled(const trial *t);  /* a compiled function of the op, and its gradient, against eager */
enum outcome drive_refusals(const trial *t);  /* kernels that refuse have touched nothing */
enum outcome drive_saved(const trial *t);     /* writes between an op and its backward, as PyTorch allows them */
enum outcome drive_lists(const trial *t);     /* lists of numbers in C's options against the generic entry */

enum outcome drive_stablehlo(const trial *t); /* forward and gradient as StableHLO, for stablehlo.py to run */
enum outcome drive_onnx(const trial *t);      /* forward and gradient as ONNX models, read again; for onnxruntime */
enum outcome drive_lower(const trial *t);     /* kernel calls and views as loops (graph/loop) against kernels */

enum outcome drive_vmap(const trial *t);      /* batches of examples against a loop over them */

void looped_ops(void **state); /* behind all: which ops run example by example there (vmap.c) */
void lowered_ops(void **state); /* behind all: how many ops were (lower.c) */
/* Tests of lists that are not about samples (lists.c). */
void lists_of_modules(void **state);
void lists_of_optims(void **state);
void lists_given_twice(void **state);
void lists_mean_what_they_say(void **state);

/* ---- what a driver leaves out, and why (exceptions.c) ---- */
/* The reason for which this driver leaves this sample out; NULL: it does not. */
const char *exception_for(const char *driver, const sample *s);

/* Does the op give gradients at all? */
static inline bool differentiable(const sample *s)
{
  return !(s->info->row->flags & (CN_OP_NO_GRAD | CN_OP_SHAPE_ONLY));
}

#endif
