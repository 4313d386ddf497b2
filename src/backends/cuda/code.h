/* code.h: which kernel of which .cu file, for which types: what a text is made of (code.c) and code is found by
 * (kernel.c). */
#ifndef CNI_CUDA_CODE_H
#define CNI_CUDA_CODE_H

#include <cairn/ext/op.h>

enum { CNI_CUDA_THREADS = 256, CNI_CUDA_TYPES = 4, CNI_CUDA_HEAD = 400 };
typedef struct cni_cuda_text {
  const char *name, *text;
} cni_cuda_text;
extern const cni_cuda_text cni_cuda_texts[]; /* written by CMake; ends with name NULL */
/* A kernel of a file, for these element types: T0, T1, ... there. */
typedef struct cni_cuda_code {
  const char *file, *entry;
  int types[CNI_CUDA_TYPES]; /* cn_dtypes, or 0 */
  const char *op;            /* what OP stands for there; NULL: nothing */
  int number;                /* what N stands for there */
  int threads;               /* of a block; 0: CNI_CUDA_THREADS */
  int form;                  /* what FORM stands for there: bits, of which rows.cuh has the first */
  bool exact;                /* no multiplication is fused with an addition: results are the CPU's bit for bit */
} cni_cuda_code;

/* The text of a file; NULL: there is none of that name. */
const char *cni_cuda_file_text(const char *name);
/* The lines that stand in front of it. Returns their length. */
size_t cni_cuda_code_head(char head[CNI_CUDA_HEAD], const cni_cuda_code *code);

#endif
