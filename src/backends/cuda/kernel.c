/* kernel.c: kernels from the .cu files that the plugin carries as text.
 *
 * Place in the flow: kernel files name a file, an entry and the element types; compile.c makes or finds the code.
 * Invariant: what a text is compiled from is the file and the lines written in front of it here, so equal descriptions
 * have equal code. */
#include <string.h>

#include "plugin.h"

enum { BLOCKS_PER_UNIT = 16 };

char *cni_cuda_code_text(const cni_cuda_code *code, size_t *size)
{
  const char *body = cni_cuda_file_text(code->file);
  char head[CNI_CUDA_HEAD];
  if (!body) {
    cni_cuda_host->fail(CN_ERR_INTERNAL, "cuda: there is no kernel file %s", code->file);
    return NULL;
  }
  size_t at = cni_cuda_code_head(head, code), length = strlen(body);
  *size = at + length + 1;
  char *text = cni_cuda_host->memory(*size);
  if (!text) return NULL;
  memcpy(text, head, at);
  memcpy(text + at, body, length + 1);
  return text;
}

static char *text_of(const void *payload, size_t *size) { return cni_cuda_code_text(payload, size); }

int cni_cuda_kernel(CUfunction *function, cni_cuda_device *d, const cni_cuda_code *code)
{
  uint64_t key = cn_hash_more(CN_HASH_BEGIN, code->file, strlen(code->file) + 1);
  key = cn_hash_more(key, code->entry, strlen(code->entry) + 1);
  key = cn_hash_more(key, code->types, sizeof code->types);
  key = cn_hash_more(key, &code->number, sizeof code->number);
  key = cn_hash_more(key, &code->threads, sizeof code->threads);
  key = cn_hash_more(key, &code->form, sizeof code->form);
  if (code->op) key = cn_hash_more(key, code->op, strlen(code->op));
  cni_cuda_maths maths = code->exact ? CNI_CUDA_EXACT : CNI_CUDA_FUSED;
  return cni_cuda_function(function, d, key, code->entry, maths, text_of, code);
}

int cni_cuda_run(cni_cuda_device *d, const char *name, const cni_cuda_code *code, cni_cuda_grid grid, void *argument)
{
  CUfunction function;
  int status = cni_cuda_kernel(&function, d, code);
  return status ? status : cni_cuda_launch(d, name, function, grid, argument);
}

cni_cuda_grid cni_cuda_grid_for(const cni_cuda_device *d, int64_t n)
{
  int64_t blocks = (n + CNI_CUDA_THREADS - 1) / CNI_CUDA_THREADS, most = (int64_t)d->units * BLOCKS_PER_UNIT;
  return (cni_cuda_grid){blocks < most ? blocks : most, 1, CNI_CUDA_THREADS, 0};
}

int cni_cuda_bits_of(int dtype)
{
  switch (cn_element_size(dtype)) {
  case 1: return CN_U8;
  case 2: return CN_U16;
  case 4: return CN_U32;
  default: return CN_U64;
  }
}

int cni_cuda_refuse(cn_call *c, const char *why)
{
  c->refusal = why;
  return CN_REFUSED;
}
