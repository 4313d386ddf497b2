/* fuzz_zip.c: any bytes as a zip archive, all of whose entries are unpacked, as compressed data and as a gzip file. */
#include <stdlib.h>
#include <string.h>

#include "formats/formats.h"
#include "formats/zip/inflate.h"
#include "touch.h"

enum { MEMORY_LIMIT = 256 << 20, INFLATED_MOST = 1 << 24 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void as_zip(const uint8_t *data, size_t size)
{
  cni_zip zip;
  cni_source *s = cni_source_memory(data, size, "fuzz");
  int status = cni_zip_open(&zip, s);
  if ((status != 0) != (cn_err() != 0)) abort();
  for (size_t i = 0; !status && i < zip.n; i++) {
    cni_source *part = cni_zip_read(&zip, &zip.entries[i], true);
    volatile unsigned char sum = 0;
    for (size_t k = 0; part && k < part->size; k++) sum = (unsigned char)(sum + part->data[k]);
    if ((part == NULL) != (cn_err() != 0)) abort();
    cni_source_free(part);
    cn_err_clear();
  }
  cni_zip_close(&zip);
  cni_source_free(s);
  cn_err_clear();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  cn_memory_set_caching(false);
  cn_memory_set_limit(MEMORY_LIMIT);
  as_zip(data, size);
  cni_bytes out = {0};
  size_t used, unpacked;
  void *bytes;
  cni_inflate(&out, INFLATED_MOST, data, size, &used);
  if (used > size || out.n > INFLATED_MOST) abort();
  cn_free(out.bytes, out.cap);
  cn_err_clear();
  int status = cn_gunzip(&bytes, &unpacked, data, size);
  if ((status != 0) != (cn_err() != 0)) abort();
  cn_free(bytes, unpacked);
  cn_err_clear();
  return 0;
}
