/* code.c: kernels of a program's own: hands their text to the device's backend, and launches. See cairn/code.h. */
#include <cairn/code.h>

#include "base/alloc.h"
#include "base/state.h"
#include "ops/families.h"
#include "registry.h"
#include "stream.h"

struct cn_code {
  cn_device device;
  void *made; /* the backend's, which keeps it */
};

cn_code *cn_code_new(cn_device device, const char *text, const char *entry, const char *options)
{
  cni_init();
  const cn_backend *b = cn_err() ? NULL : cni_backend_of(device);
  if (!b) return NULL;
  if (!text || !entry) return cni_fail(CN_ERR_TYPE, "code: the text or the kernel's name is missing (NULL)"), NULL;
  if (!b->code_find)
    return cni_fail(CN_ERR_UNSUPPORTED, "code: the device %s takes no kernels of programs", b->name), NULL;
  cn_code *c = cni_alloc_zero(sizeof *c);
  if (!c) return NULL;
  c->device = device;
  if (!b->code_find(cni_device_index(device), &c->made, text, entry, options ? options : "")) return c;
  cni_free(c, sizeof *c);
  return NULL;
}

void cn_code_free(cn_code *c)
{
  if (c) cni_free(c, sizeof *c);
}

int cn_code_run(cn_code *c, const cn_code_launch *launch, void *const *arguments)
{
  if (cn_err()) return cn_err();
  if (!c || !launch) return cni_fail(CN_ERR_TYPE, "code_run: the kernel or the launch is missing (NULL)");
  cn_code_launch full = *launch;
  for (int i = 0; i < 3; i++) {
    if (!full.grid[i]) full.grid[i] = 1;
    if (!full.block[i]) full.block[i] = 1;
  }
  return cni_backend_of(c->device)->code_launch(cni_device_index(c->device), c->made, &full, arguments,
                                                cni_stream_in_use(c->device));
}
