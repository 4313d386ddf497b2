/* fuzz_npy.c: any bytes as an npy file: as they are, and as a header (up to the last brace) whose length is right. */
#include <stdlib.h>
#include <string.h>

#include "formats/formats.h"
#include "touch.h"

enum { MEMORY_LIMIT = 256 << 20, HEAD = 10 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_file(const uint8_t *bytes, size_t size)
{
  uint8_t *copy = malloc(size ? size : 1);
  if (!copy) return;
  if (size) memcpy(copy, bytes, size);
  cni_source *s = cni_source_memory(copy, size, "fuzz");
  cn_tree *tree = cni_read_npy(s);
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
  uint8_t *file = malloc(size + HEAD);
  if (!file || header > 0xffff) {
    free(file);
    return 0;
  }
  memcpy(file, "\x93NUMPY\1\0", 8);
  file[8] = (uint8_t)(header & 0xff);
  file[9] = (uint8_t)(header >> 8);
  if (size) memcpy(file + HEAD, data, size);
  try_file(file, size + HEAD);
  free(file);
  return 0;
}
