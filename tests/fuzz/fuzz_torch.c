/* fuzz_torch.c: any bytes as a PyTorch file, and as the pickle in an archive that has a few storages. */
#include <stdlib.h>
#include <string.h>

#include "formats/torch.h"
#include "touch.h"

enum { MEMORY_LIMIT = 256 << 20, STORAGES = 3, STORAGE = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An archive with the pickle and storages 0, 1, ..., without the work of finding them in a zip file. */
static void as_pickle(const uint8_t *data, size_t size)
{
  char names[STORAGES + 1][16] = {"a/data.pkl", "a/data/0", "a/data/1", "a/data/2"};
  size_t whole = size + STORAGES * STORAGE;
  uint8_t *bytes = calloc(1, whole);
  if (!bytes) return;
  if (size) memcpy(bytes, data, size);
  cni_source *s = cni_source_memory(bytes, whole, "fuzz");
  cni_zip_entry entries[STORAGES + 1];
  cni_zip zip = {.source = s, .entries = entries, .n = STORAGES + 1, .places = cn_tree_dict()};
  for (int i = 0; i <= STORAGES; i++) {
    uint64_t at = i ? size + (size_t)(i - 1) * STORAGE : 0, length = i ? STORAGE : size;
    entries[i] = (cni_zip_entry){.name = names[i], .data = at, .packed = length, .size = length};
    cn_tree_put(zip.places, names[i], cn_tree_int(i));
  }
  cn_tree *tree = cni_read_torch_zip(s, &zip);
  cn_tree_free(zip.places);
  cni_source_free(s);
  free(bytes);
  if (!finish(tree)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  cn_memory_set_caching(false);
  cn_memory_set_limit(MEMORY_LIMIT);
  if (!finish(cn_load_memory(data, size))) abort();
  as_pickle(data, size);
  cni_source *s = cni_source_memory(data, size, "fuzz");
  if (size && !finish(cni_read_torch_legacy(s))) abort();
  cni_source_free(s);
  return 0;
}
