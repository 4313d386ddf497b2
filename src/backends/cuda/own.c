/* own.c: kernels of a program's own (cairn/code.h): texts that NVRTC compiles, launched in the stream in use.
 *
 * Place in the flow: the table's code_find and code_launch; compile.c keeps what was compiled, in memory by the text's
 * hash and on disk. Invariant: a function stays as long as the process, so that a launch that is queued, or recorded,
 * finds it. */
#include <string.h>

#include "plugin.h"

/* The text of a kernel is there already: copied, because whoever compiles it frees it. */
static char *copy_text(const void *payload, size_t *size)
{
  *size = strlen(payload) + 1;
  char *copy = cni_cuda_host->memory(*size);
  if (copy) memcpy(copy, payload, *size);
  return copy;
}

int cni_cuda_code_find(int index, void **code, const char *text, const char *entry, const char *options)
{
  CUfunction function = NULL;
  cni_cuda_device *d = cni_cuda_use(index);
  if (!d) return CN_ERR_DEVICE;
  uint64_t key = cn_hash_more(CN_HASH_BEGIN, text, strlen(text) + 1);
  key = cn_hash_more(cn_hash_more(key, entry, strlen(entry) + 1), options, strlen(options) + 1);
  int status = cni_cuda_function_with(&function, d, key, entry, CNI_CUDA_FUSED, options, copy_text, text);
  *code = function;
  return status;
}

int cni_cuda_code_launch(int index, void *code, const cn_code_launch *l, void *const *arguments, void *stream)
{
  cni_cuda_device *d = cni_cuda_enter(index, stream);
  if (!d) return CN_ERR_DEVICE;
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  CUresult result = CUDA_SUCCESS;
  if (l->shared > 48 << 10)
    result = cu->cuFuncSetAttribute(code, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)l->shared);
  if (result == CUDA_SUCCESS)
    result = cu->cuLaunchKernel(code, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2],
                                (unsigned)l->shared, cni_cuda_now(d)->stream, (void **)(uintptr_t)arguments, NULL);
  int status = cni_cuda_check(result, "launching a kernel of the program's");
  return status ? status : cni_cuda_launched(d, "a kernel of the program's");
}
