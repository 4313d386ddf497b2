/* code.c: see code.h. Invariant: nothing here needs a device, the driver or cairn: tests compile every file without. */
#include "code.h"

#include <stdio.h>
#include <string.h>

/* Element types as kernels/common.cuh calls them. */
static const char *const type_names[] = {
    [CN_BOOL] = "b8", [CN_U8] = "u8",   [CN_I8] = "i8",   [CN_I16] = "i16", [CN_I32] = "i32",   [CN_I64] = "i64",
    [CN_U16] = "u16", [CN_U32] = "u32", [CN_U64] = "u64", [CN_F16] = "f16", [CN_BF16] = "bf16", [CN_F32] = "f32",
    [CN_F64] = "f64",
};

const char *cni_cuda_file_text(const char *name)
{
  for (const cni_cuda_text *t = cni_cuda_texts; t->name; t++)
    if (!strcmp(t->name, name)) return t->text;
  return NULL;
}

size_t cni_cuda_code_head(char head[CNI_CUDA_HEAD], const cni_cuda_code *code)
{
  size_t at = (size_t)snprintf(head, CNI_CUDA_HEAD, "#define THREADS %d\n#define N %d\n#define FORM %d\n",
                               code->threads ? code->threads : CNI_CUDA_THREADS, code->number, code->form);
  if (code->entry)
    at += (size_t)snprintf(head + at, CNI_CUDA_HEAD - at, "#define ONLY 1\n#define WANT_%.60s 1\n", code->entry);
  if (code->op) at += (size_t)snprintf(head + at, CNI_CUDA_HEAD - at, "#define OP %.100s\n", code->op);
  for (int i = 0; i < CNI_CUDA_TYPES; i++)
    if (code->types[i])
      at += (size_t)snprintf(head + at, CNI_CUDA_HEAD - at, "#define T%d %s\n", i, type_names[code->types[i]]);
  return at;
}
