/* fuzz_image.c: any bytes as an image: refused with an error, or read into pixels that are all there. The first byte
 * says how many channels are wanted. */
#include <cairn/cairn.h>
#include <cairn/data.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static const int channels[] = {0, 1, 3, 4};
  if (size < 1) return 0;
  cn_memory_set_caching(false);
  cn_scope *s = cn_scope_begin();
  cn_tensor *t = cn_image_decode(data + 1, size - 1, channels[data[0] % 4]);
  if ((t == NULL) != (cn_err() != 0)) abort();
  if (t && (cn_ndim(t) != 3 || (channels[data[0] % 4] && cn_size(t, 0) != channels[data[0] % 4]))) abort();
  if (t) {
    size_t n = cn_tensor_nbytes(t);
    unsigned char *copy = malloc(n);
    if (copy) cn_to_data(copy, n, t);
    free(copy);
  }
  cn_err_clear();
  cn_scope_end(s);
  return 0;
}
