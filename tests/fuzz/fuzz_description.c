/* fuzz_description.c: any bytes as a description file: refused with an error, or a description whose text reads back to
 * the same text and whose net and solver are made or refused. */
#include <cairn/cairn.h>
#include <cairn/train.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Nets as large as a fuzzer can ask for are not what is tested here. */
enum { MEMORY = 256 << 20 };

/* A path could name any file. */
static bool names_files(const cn_description *d)
{
  return cn_description_get(d, "data", "set") || cn_description_get(d, "data", "tokens") ||
         cn_description_get(d, "net", "pretrained");
}

static void make(const cn_description *d)
{
  bool each;
  cn_module *net = cn_description_net(d);
  if ((net == NULL) != (cn_err() != 0)) abort();
  cn_err_clear();
  cn_module_release(cn_description_loss(d));
  cn_err_clear();
  cn_optim *opt = net ? cn_description_optim(d, net) : NULL;
  cn_schedule_free(opt ? cn_description_schedule(d, opt, 3, &each) : NULL);
  cn_optim_free(opt);
  cn_err_clear();
  cn_module_release(net);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  cn_memory_set_caching(false);
  cn_memory_set_limit(MEMORY);
  char *exact = malloc(size ? size : 1); /* of just that size: reading behind it is seen */
  if (!exact) return 0;
  memcpy(exact, data, size);
  cn_description *d = cn_description_read(exact, size, "fuzz");
  if ((d == NULL) != (cn_err() != 0)) abort();
  cn_err_clear();
  char *text = d ? cn_description_to_string(d) : NULL;
  cn_description *again = text ? cn_description_read(text, strlen(text), "again") : NULL;
  char *twin = again ? cn_description_to_string(again) : NULL;
  if (text && (!twin || strcmp(text, twin) != 0)) abort();
  cn_err_clear();
  if (d && !names_files(d)) make(d);
  cn_string_free(twin);
  cn_description_free(again);
  cn_string_free(text);
  cn_description_free(d);
  free(exact);
  return 0;
}
