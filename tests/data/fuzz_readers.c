/* fuzz_readers.c: any bytes as a file of data: CSV, IDX, CIFAR, WAV, tokens (the first byte says which). Refused with
 * an error, or a data set whose samples can all be got. */
#define _POSIX_C_SOURCE 200809L
#include <cairn/cairn.h>
#include <cairn/data.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char path[256];
static void remove_file(void) { remove(path); }

static bool write_file(const uint8_t *data, size_t size)
{
  if (!path[0]) {
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/cairn-fuzz-readers-%ld", tmp ? tmp : "/tmp", (long)getpid());
    atexit(remove_file);
  }
  FILE *f = fopen(path, "wb");
  if (!f) return false;
  bool done = fwrite(data, 1, size, f) == size;
  return fclose(f) == 0 && done;
}

static cn_dataset *read_as(int kind)
{
  const char *const files[] = {path};
  cn_tensor *t;
  switch (kind) {
  case 0: return cn_csv(path);
  case 1: return cn_csv(path, .header = true, .target_classes = true);
  case 2: return cn_csv(path, .delimiter = ';', .target = "");
  case 3: return cn_idx(path, NULL);
  case 4: return cn_cifar(files, 1, 10);
  case 5: return cn_cifar(files, 1, 100);
  case 6: return cn_token_file(path, CN_U16, 3, 2);
  default: t = cn_wav_load(path, NULL); return t ? cn_dataset_tensors(&t, 1) : NULL;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (size < 1 || !write_file(data + 1, size - 1)) return 0;
  cn_memory_set_caching(false);
  cn_scope *s = cn_scope_begin();
  cn_dataset *set = read_as(data[0] % 8);
  if ((set == NULL) != (cn_err() != 0)) abort();
  int64_t n = cn_dataset_length(set);
  for (int64_t i = 0; i < n; i += 1 + n / 100) {
    cn_sample sample;
    if (cn_dataset_get(&sample, set, i)) abort();
    cn_sample_clear(&sample);
  }
  cn_err_clear();
  cn_dataset_release(set);
  cn_scope_end(s);
  return 0;
}
