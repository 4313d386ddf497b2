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
  char *room;      /* cni_rows_waiting(p) buffers for these rows, so many bytes apart */
  long long pitch;
  const cni_row_fold *fold;
  long long rows, count; /* rows, at most CNI_ROWS_MOST, and their elements */
} cni_rows_call;
enum { CNI_ROWS_MOST = 8 };
typedef int (*cni_rows_fn)(const cni_rows_call *call);
int cni_rows_waiting(const cni_program *p, unsigned style);

/* How texts are written; other bits, if any, are none. */
enum { CNI_STYLE_EXP16 = 1 }; /* float32 exponentials by AVX-512's own instructions, as the kernels have them */

enum { CNI_BLOCK_NAME = 32 };
void cni_block_name(char name[CNI_BLOCK_NAME], const cni_program *p); /* of its function */
/* Can it be written so? Typed programs whose constants are literals. */
bool cni_block_possible(const cni_program *p);
/* What loop a step stands in: with others, with others that keep compilers from vectorising theirs, or alone, as a call
 * of cng_exps. */
enum cni_step_loop { CNI_LOOP_PLAIN, CNI_LOOP_BRANCHES, CNI_LOOP_EXP };
enum cni_step_loop cni_step_loop_of(const cni_program *p, int step, unsigned style);
/* rows_text.c: the function of a program with steps along rows. */
void cni_rows_text(cn_text *t, const cn_source *s, unsigned style);
/* The text of a unit with the functions of all of them. Owned, cni_free(text, *size); NULL: no memory. */
char *cni_blocks_text(const cni_program *const *programs, size_t n, unsigned style, size_t *size);

#endif
