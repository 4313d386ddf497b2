/* dnn_disk.c: cuDNN's plans on disk, as its JSON, and what became of rivals of ours that were tried beside them.
 *
 * Place in the flow: dnn.c loads a plan before it makes one, and stores what it made or chose. Invariant: a file's
 * name holds the hash of what the plan is made of, of cuDNN's and the driver's version and of the device, so that no
 * other finds it. */
#include "dnn.h"

#ifdef CNI_HAVE_CUDNN_H
#include <stdio.h>
#include <string.h>

/* What stands behind the hash: the plan of the engine that was fastest, and a rival's result: one of these words, and
 * how. */
static const char TRIED[] = "-tried", RIVAL[] = "-rival", WON[] = "won", LOST[] = "lost";

bool cni_dnn_read_workspace(cni_dnn_plan *p)
{
  int64_t n = 0;
  cudnnStatus_t s = cni_cuda_dnn()->cudnnBackendGetAttribute(p->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                             CUDNN_TYPE_INT64, 1, &n, &p->workspace);
  return s == CUDNN_STATUS_SUCCESS;
}

/* how: what decided which engine it is. */
static void file_name(char *name, size_t size, uint64_t key, cni_cuda_device *d, const char *how)
{
  char device[128] = "";
  int driver = 0;
  size_t version = cni_cuda_dnn()->cudnnGetVersion();
  cni_cuda_driver()->cuDeviceGetName(device, sizeof device, d->id);
  if (cni_cuda_driver()->cuDriverGetVersion) cni_cuda_driver()->cuDriverGetVersion(&driver);
  key = cn_hash_more(key, &version, sizeof version);
  key = cn_hash_more(key, &driver, sizeof driver);
  key = cn_hash_more(key, device, strlen(device));
  snprintf(name, size, "cudnn-%016llx%s.json", (unsigned long long)key, how);
}

bool cni_dnn_read_plan(cni_dnn_plan *p, cudnnHandle_t h, const char *text, size_t size)
{
  const cni_cuda_dnn_table *dnn = cni_cuda_dnn();
  cudnnStatus_t s = dnn->cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &p->plan);
  if (s != CUDNN_STATUS_SUCCESS) p->plan = NULL;
  if (p->plan) s = dnn->cudnnBackendSetAttribute(p->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &h);
  if (p->plan && s == CUDNN_STATUS_SUCCESS)
    s = dnn->cudnnBackendSetAttribute(p->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                      (int64_t)size, text);
  if (p->plan && s == CUDNN_STATUS_SUCCESS) s = dnn->cudnnBackendFinalize(p->plan);
  if (p->plan && s == CUDNN_STATUS_SUCCESS && cni_dnn_read_workspace(p)) return true;
  if (p->plan) dnn->cudnnBackendDestroyDescriptor(p->plan);
  p->plan = NULL;
  return false;
}

char *cni_dnn_store(const cni_dnn_plan *p, uint64_t key, cni_cuda_device *d, size_t *size)
{
  const cni_cuda_dnn_table *dnn = cni_cuda_dnn();
  char name[64];
  int64_t n = 0, got = 0;
  file_name(name, sizeof name, key, d, p->settled ? TRIED : "");
  if (dnn->cudnnBackendGetAttribute(p->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 0, &n,
                                    NULL) != CUDNN_STATUS_SUCCESS ||
      n <= 0)
    return NULL;
  char *text = cni_cuda_host->memory(*size = (size_t)n);
  if (text && dnn->cudnnBackendGetAttribute(p->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, n,
                                            &got, text) == CUDNN_STATUS_SUCCESS) {
    cni_cuda_host->cache_store(name, text, *size);
    return text;
  }
  if (text) cni_cuda_host->free_memory(text, *size);
  return NULL;
}

static bool load_beaten(uint64_t key, cni_cuda_device *d)
{
  char name[64];
  size_t size = 0;
  file_name(name, sizeof name, key, d, RIVAL);
  char *text = cni_cuda_host->cache_load(name, &size);
  bool beaten = text && size >= sizeof WON && !memcmp(text, WON, sizeof WON - 1);
  if (text) cni_cuda_host->free_memory(text, size);
  return beaten;
}

void cni_dnn_store_beaten(uint64_t key, cni_cuda_device *d, bool beaten, const char *how)
{
  char name[64], text[320];
  file_name(name, sizeof name, key, d, RIVAL);
  int n = snprintf(text, sizeof text, "%s: %.300s", beaten ? WON : LOST, how);
  cni_cuda_host->cache_store(name, text, (size_t)n);
}

char *cni_dnn_load(uint64_t key, cni_cuda_device *d, size_t *size, cni_dnn_plan *p)
{
  char name[64];
  file_name(name, sizeof name, key, d, TRIED);
  char *text = cni_cuda_host->cache_load(name, size);
  p->settled = text != NULL;
  p->beaten = p->settled && load_beaten(key, d);
  file_name(name, sizeof name, key, d, "");
  return text ? text : cni_cuda_host->cache_load(name, size);
}
#endif
