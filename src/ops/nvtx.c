/* nvtx.c: NVTX, by which programs name what they do for NVIDIA's profilers. See cairn/profile.h.
 *
 * Place in the flow: profiles put ranges around ops (profile.c), programs their own. The library is opened at the first
 * call. Invariant: it counts as absent unless every function was found. */
#include <cairn/ext/system.h>
#include <cairn/profile.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/state.h"

static struct {
  void (*mark)(const char *message);
  int (*push)(const char *message);
  int (*pop)(void);
  uint64_t (*start)(const char *message);
  void (*end)(uint64_t range);
} nvtx;
static bool found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool take(void *library, void *function, const char *name)
{
  void *symbol = library ? cn_library_symbol(library, name) : NULL;
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

/* By the loader's search, then in pip's folders, of both of their forms. */
static void *open_library(const char *name)
{
  static const char *const below[] = {"cu13/lib", "nvtx/lib"};
  char path[1024];
  void *library = cn_library_open(name);
  const char *folders[] = {cn_env("CAIRN_CUDA_LIBRARIES"), cn_library_folders()};
  for (int k = 0; k < 2; k++)
    for (const char *at = folders[k] ? folders[k] : ""; *at && !library;) {
      int n = (int)strcspn(at, ":");
      snprintf(path, sizeof path, "%.*s/%s", n, at, name);
      library = cn_library_open(path);
      for (int i = 0; i < 2 && !library; i++) {
        snprintf(path, sizeof path, "%.*s/%s/%s", n, at, below[i], name);
        library = cn_library_open(path);
      }
      at += n + (at[n] == ':');
    }
  return library;
}

static void load(void)
{
  static const char *const names[] = {"libnvtx3interop.so.1", "libnvtx3interop.so", "libnvToolsExt.so.1"};
  for (int i = 0; i < 3 && !found; i++) {
    void *library = open_library(names[i]);
    found = take(library, &nvtx.mark, "nvtxMarkA") && take(library, &nvtx.push, "nvtxRangePushA") &&
            take(library, &nvtx.pop, "nvtxRangePop") && take(library, &nvtx.start, "nvtxRangeStartA") &&
            take(library, &nvtx.end, "nvtxRangeEnd");
  }
}

bool cn_nvtx_available(void)
{
  pthread_once(&once, load);
  return found;
}

static int need(void)
{
  if (cn_nvtx_available()) return CN_OK;
  return cni_fail(CN_ERR_UNSUPPORTED, "nvtx: neither libnvtx3interop.so.1 nor libnvToolsExt.so.1 was found");
}

int cn_nvtx_mark(const char *message)
{
  int status = need();
  if (!status) nvtx.mark(message);
  return status;
}

int cn_nvtx_push(int *depth, const char *message)
{
  int status = need(), at = status ? 0 : nvtx.push(message);
  if (depth) *depth = at;
  return status;
}

int cn_nvtx_pop(int *depth)
{
  int status = need(), at = status ? 0 : nvtx.pop();
  if (depth) *depth = at;
  return status;
}

int cn_nvtx_start(uint64_t *range, const char *message)
{
  int status = need();
  if (!status) *range = nvtx.start(message);
  return status;
}

int cn_nvtx_end(uint64_t range)
{
  int status = need();
  if (!status) nvtx.end(range);
  return status;
}
