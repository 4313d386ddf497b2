/* fuzz_npy.c: any bytes as an npy file: as they are, and as a header (up to the last brace) whose length is right. */
#include <stdlib.h>
#include <string.h>

#include "touch.h"

enum { MEMORY_LIMIT = 256 << 20, HEAD = 10 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  cn_memory_set_caching(false);
  cn_memory_set_limit(MEMORY_LIMIT);
  read_bytes(data, size, cni_format_npy.read);
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
  read_bytes(file, size + HEAD, cni_format_npy.read);
  free(file);
  return 0;
}
