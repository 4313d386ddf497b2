/* fuzz_safetensors.c: any bytes as a safetensors file: as they are, and as a header (up to the last brace) whose length
 * is right, with the tensors' bytes behind it. */
#include <stdlib.h>
#include <string.h>

#include "formats/formats.h"
#include "touch.h"

enum { MEMORY_LIMIT = 256 << 20, LENGTH = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_file(const uint8_t *bytes, size_t size)
{
  uint8_t *copy = malloc(size ? size : 1);
  if (!copy) return;
  if (size) memcpy(copy, bytes, size);
  cni_source *s = cni_source_memory(copy, size, "fuzz");
  cn_tree *tree = cni_read_safetensors(s);
  cni_source_free(s);
  free(copy);
  if (!finish(tree)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  cn_memory_set_caching(false);
  cn_memory_set_limit(MEMORY_LIMIT);
  try_file(data, size);
  size_t header = size;
  while (header && data[header - 1] != '}') header--;
  uint8_t *file = malloc(size + LENGTH);
  if (!file) return 0;
  for (int i = 0; i < LENGTH; i++) file[i] = (uint8_t)((uint64_t)header >> 8 * i);
  if (size) memcpy(file + LENGTH, data, size);
  try_file(file, size + LENGTH);
  free(file);
  return 0;
}
