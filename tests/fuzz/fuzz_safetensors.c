/* fuzz_safetensors.c: any bytes as a safetensors file: as they are, and as a header (up to the last brace) whose length
 * is right, with the tensors' bytes behind it. */
#include <stdlib.h>
#include <string.h>

#include "touch.h"

enum { MEMORY_LIMIT = 256 << 20, LENGTH = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  cn_memory_set_caching(false);
  cn_memory_set_limit(MEMORY_LIMIT);
  read_bytes(data, size, cni_format_safetensors.read);
  size_t header = size;
  while (header && data[header - 1] != '}') header--;
  uint8_t *file = malloc(size + LENGTH);
  if (!file) return 0;
  for (int i = 0; i < LENGTH; i++) file[i] = (uint8_t)((uint64_t)header >> 8 * i);
  if (size) memcpy(file + LENGTH, data, size);
  read_bytes(file, size + LENGTH, cni_format_safetensors.read);
  free(file);
  return 0;
}
