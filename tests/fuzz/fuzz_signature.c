/* fuzz_signature.c: any bytes as the signature of an op: refused with an error, or parsed into parameters and results
 * that stay within their arrays. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ops/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const cni_opinfo *info)
{
  if (info->nparams < 0 || info->nparams > CN_MAX_ARGS || info->nresults < 0 || info->nresults > CNI_MAX_RESULTS)
    abort();
  if (info->naliases < 0 || info->naliases > CNI_MAX_ALIASES) abort();
  for (int i = 0; i < info->naliases; i++)
    if (!info->aliases[i][0] || !memchr(info->aliases[i], 0, sizeof info->aliases[i])) abort();
  if (info->ntensors > info->nparams || memchr(info->name, 0, sizeof info->name) == NULL) abort();
  for (int i = 0; i < info->nparams; i++) {
    const cni_param *p = &info->params[i];
    if (!memchr(p->name, 0, sizeof p->name) || !memchr(p->def_text, 0, sizeof p->def_text)) abort();
    if (p->def.tag == CN_V_INTS && (p->def.n < 0 || p->def.n > CNI_MAX_FIXED)) abort();
    for (int k = 0; p->def.tag == CN_V_INTS && k < p->def.n; k++)
      if (p->def.u.is != p->def_list.i) abort();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  char *text = malloc(size + 1);
  if (!text) return 0;
  memcpy(text, data, size);
  text[size] = 0;
  cni_opinfo info;
  memset(&info, 0, sizeof info);
  cn_memory_set_caching(false);
  int status = cni_signature_parse(&info, text);
  if ((status != 0) != (cn_err() != 0)) abort();
  if (!status) check(&info);
  cn_err_clear();
  if (info.params) cni_free(info.params, (size_t)info.nparams * sizeof *info.params);
  free(text);
  return 0;
}
