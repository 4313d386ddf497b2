/* value.c: arrays that never change: where each is kept, and its way to the device and back.
 *
 * Place in the flow: memory.c knows which value lies where; pending.c and whole.c make values and give them to
 * programs. Invariant: a value's elements are the same wherever it is kept; one that is counted by nobody is gone. */
#include <string.h>

#include "plugin.h"

#define host cni_pjrt_host

int cni_pjrt_type(int dtype)
{
  static const struct {
    int dtype, type;
  } types[] = {
      {CN_F32, PJRT_F32}, {CN_F64, PJRT_F64}, {CN_F16, PJRT_F16}, {CN_BF16, PJRT_BF16}, {CN_I8, PJRT_S8},
      {CN_I16, PJRT_S16}, {CN_I32, PJRT_S32}, {CN_I64, PJRT_S64}, {CN_U8, PJRT_U8}, {CN_U16, PJRT_U16},
      {CN_U32, PJRT_U32}, {CN_U64, PJRT_U64}, {CN_BOOL, PJRT_PRED},
  };
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (types[i].dtype == dtype) return types[i].type;
  return PJRT_NO_TYPE;
}

void cni_pjrt_value_is(pjrt_value *v, int dtype, int ndim, const int64_t *shape)
{
  v->dtype = dtype;
  v->ndim = ndim;
  v->numel = 1;
  for (int i = 0; i < ndim; i++) v->numel *= v->shape[i] = shape[i];
}

pjrt_value *cni_pjrt_value_new(int device, int dtype, int ndim, const int64_t *shape)
{
  pjrt_value *v = host->memory(sizeof *v);
  if (!v) return NULL;
  memset(v, 0, sizeof *v);
  v->refs = 1;
  v->device = device;
  cni_pjrt_value_is(v, dtype, ndim, shape);
  if (dtype != CN_DTYPE_NONE) v->bytes = cn_element_bytes(dtype, v->numel);
  return v;
}

pjrt_value *cni_pjrt_value_of(int device, int dtype, int ndim, const int64_t *shape, const void *bytes, size_t size)
{
  pjrt_value *v = cni_pjrt_value_new(device, dtype, ndim, shape);
  if (!v) return NULL;
  v->bytes = size;
  if (size && !(v->held = host->memory(size))) {
    cni_pjrt_value_release(v);
    return NULL;
  }
  if (size) memcpy(v->held, bytes, size);
  return v;
}

pjrt_value *cni_pjrt_value_keep(pjrt_value *v)
{
  v->refs++;
  return v;
}

static void drop_host(pjrt_value *v)
{
  if (v->held) host->free_memory(v->held, v->bytes);
  v->held = NULL;
}

void cni_pjrt_value_release(pjrt_value *v)
{
  if (!v || --v->refs) return;
  drop_host(v);
  if (v->buffer) {
    pjrt_buffer_destroy args = {.size = sizeof args, .buffer = v->buffer};
    cni_pjrt_check(cni_pjrt->buffer_destroy(&args), "giving a buffer back");
  }
  host->free_memory(v, sizeof *v);
}

/* The plugin may read the bytes after it has returned: they are waited for, which is short, and given back. */
int cni_pjrt_value_upload(pjrt_value *v)
{
  if (v->buffer) return CN_OK;
  int type = cni_pjrt_type(v->dtype);
  if (v->failed || v->pending || type == PJRT_NO_TYPE)
    return host->fail(CN_ERR_DEVICE, "pjrt: %s", v->failed ? "the program that makes this tensor has failed"
                                                            : "this tensor's type cannot be on the device");
  static const char nothing[8];
  pjrt_client_upload args = {.size = sizeof args, .client = cni_pjrt_client, .data = v->held ? v->held : nothing,
                             .type = type, .dims = v->shape, .ndims = (size_t)v->ndim, .keep = PJRT_UNTIL_TRANSFERRED,
                             .device = cni_pjrt_device(v->device)};
  int status = cni_pjrt_check(cni_pjrt->client_upload(&args), "sending a tensor to the device");
  if (status) return status;
  v->buffer = args.buffer;
  status = cni_pjrt_await(args.done, "sending a tensor to the device");
  if (!status) drop_host(v);
  return status;
}

/* All of it; the event tells of what failed while the program ran that makes it. */
static int download_all(pjrt_value *v, void *to)
{
  pjrt_buffer_download args = {.size = sizeof args, .buffer = v->buffer, .to = to, .to_size = v->bytes};
  int status = cni_pjrt_check(cni_pjrt->buffer_download(&args), "reading a tensor");
  if (status) return status;
  cni_pjrt_unlock();
  status = cni_pjrt_await(args.done, "reading a tensor");
  cni_pjrt_lock();
  return status;
}

int cni_pjrt_value_download(pjrt_value *v, void *to, size_t from, size_t size)
{
  if (v->failed) return host->fail(CN_ERR_DEVICE, "pjrt: the program that makes this tensor has failed");
  if (v->held || !v->bytes) {
    if (size) memcpy(to, (char *)v->held + from, size);
    return CN_OK;
  }
  if (!v->buffer) return host->fail(CN_ERR_INTERNAL, "pjrt: a tensor that was not computed yet is read");
  cni_pjrt_value_keep(v);
  bool whole = size == v->bytes;
  void *room = whole ? to : host->memory(v->bytes);
  int status = room ? download_all(v, room) : CN_ERR_MEMORY;
  if (!status && !whole) memcpy(to, (char *)room + from, size);
  if (room && !whole) host->free_memory(room, v->bytes);
  cni_pjrt_value_release(v);
  return status;
}
