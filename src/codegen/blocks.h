/* blocks.h: typed programs as C functions over blocks: the same steps as an interpreter's, but with values between them
 * in registers of the processor.
 *
 * Place in the flow: backends/cpu/jit has such texts compiled, pointwise.c calls the functions in place of its loops
 * over single steps; operands are loaded, converted, broadcast, split and stored around them by the same code either
 * way. Invariant: a text depends on its programs alone, and computes the bits that the loops of pointwise_isa.c do. */
#ifndef CNI_CODEGEN_BLOCKS_H
#define CNI_CODEGEN_BLOCKS_H

#include <cairn/ext/host.h>

#include "ops/program.h"

/* y: per result its block; x: per input; as registers hold them. n: elements, at most CNI_BLOCK_MOST. Returns 0, or, of
 * the first step that divides an integer by zero, its number + 1: results may then be anything. y may be the same
 * pointer as an operand, but never overlaps one otherwise. */
typedef int (*cni_block_fn)(void *const *y, const void *const *x, long long n);
enum { CNI_BLOCK_MOST = 1024 };

/* The same for programs with steps along rows. An input's row is `step` elements behind the one before it, of one of
 * which nothing but the first element is read; results are dense. */
union cni_wide;
typedef void (*cni_row_fold)(union cni_wide *out, const void *x, int64_t nrows, int64_t stride, int64_t n);
enum { CNI_ROW_FOLDS = 6 }; /* of float32 and of float64: sum, largest, smallest */
typedef struct cni_rows_call {
  void *const *y;
  const void *const *x;
  const long long *step;
  char *room;      /* cni_rows_waiting(p) buffers for a row, so many bytes apart */
  long long pitch;
  const cni_row_fold *fold;
  long long rows, count; /* rows, and their elements */
} cni_rows_call;
typedef int (*cni_rows_fn)(const cni_rows_call *call);
int cni_rows_waiting(const cni_program *p);

enum { CNI_BLOCK_NAME = 32 };
void cni_block_name(char name[CNI_BLOCK_NAME], const cni_program *p); /* of its function */
/* Can it be written so? Typed programs whose constants are literals. */
bool cni_block_possible(const cni_program *p);
bool cni_block_branches(const cni_program *p, int step); /* would it keep a loop from being vectorised? */
void cni_rows_text(cn_text *t, const cn_source *s); /* rows_text.c: the function of a program with steps along rows */
/* The text of a unit with the functions of all of them. Owned, cni_free(text, *size); NULL: no memory. */
char *cni_blocks_text(const cni_program *const *programs, size_t n, size_t *size);

#endif
