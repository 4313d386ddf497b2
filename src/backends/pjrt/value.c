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
  v->nbuffers = cni_pjrt_parts(device);
  v->buffers = &v->one;
  memset(&v->split, -1, sizeof v->split);
  if (v->nbuffers > 1 && !(v->buffers = host->memory((size_t)v->nbuffers * sizeof *v->buffers))) {
    host->free_memory(v, sizeof *v);
    return NULL;
  }
  memset(v->buffers, 0, (size_t)v->nbuffers * sizeof *v->buffers);
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

static void drop_buffers(pjrt_value *v)
{
  for (int k = 0; k < v->nbuffers; k++) {
    if (!v->buffers[k]) continue;
    pjrt_buffer_destroy args = {.size = sizeof args, .buffer = v->buffers[k]};
    cni_pjrt_check(cni_pjrt->buffer_destroy(&args), "giving a buffer back");
    v->buffers[k] = NULL;
  }
}

void cni_pjrt_value_release(pjrt_value *v)
{
  if (!v || --v->refs) return;
  drop_host(v);
  drop_buffers(v);
  if (v->buffers != &v->one) host->free_memory(v->buffers, (size_t)v->nbuffers * sizeof *v->buffers);
  host->free_memory(v, sizeof *v);
}

/* Bytes of an array to one device. The plugin may read them after it has returned: that is waited for, and is short. */
static int send(pjrt_buffer **buffer, int device, const void *bytes, int type, int ndim, const int64_t *shape)
{
  static const char nothing[8];
  pjrt_client_upload args = {.size = sizeof args, .client = cni_pjrt_client, .data = bytes ? bytes : nothing,
                             .type = type, .dims = shape, .ndims = (size_t)ndim, .keep = PJRT_UNTIL_TRANSFERRED,
                             .device = cni_pjrt_device(device)};
  int status = cni_pjrt_check(cni_pjrt->client_upload(&args), "sending a tensor to the device");
  if (status) return status;
  *buffer = args.buffer;
  return cni_pjrt_await(args.done, "sending a tensor to the device");
}

/* To each device of a mesh its part. */
static int send_parts(pjrt_value *v, int type)
{
  size_t elem = cn_element_size(v->dtype), bytes = v->bytes + 1;
  bool split = cni_pjrt_is_split(&v->split);
  char *room = split ? host->memory(bytes) : NULL;
  int status = split && !room ? CN_ERR_MEMORY : CN_OK;
  for (int k = 0; k < v->nbuffers && !status; k++) {
    pjrt_box box;
    cni_pjrt_box(&box, v->device, k, &v->split, v->ndim, v->shape);
    if (split && v->bytes) cni_pjrt_box_copy(v->held, room, false, &box, v->ndim, v->shape, elem);
    status = send(&v->buffers[k], cni_pjrt_part(v->device, k), split ? room : v->held, type, v->ndim, box.shape);
  }
  if (room) host->free_memory(room, bytes);
  return status;
}

int cni_pjrt_value_upload(pjrt_value *v)
{
  if (v->buffers[0]) return CN_OK;
  int type = cni_pjrt_type(v->dtype);
  if (v->failed || v->pending || type == PJRT_NO_TYPE)
    return host->fail(CN_ERR_DEVICE, "pjrt: %s", v->failed ? "the program that makes this tensor has failed"
                                                            : "this tensor's type cannot be on the device");
  int status = send_parts(v, type);
  if (status) drop_buffers(v);
  else drop_host(v);
  return status;
}

/* All of one device's part; the event tells of what failed while the program ran that makes it. */
static int receive(pjrt_buffer *buffer, void *to, size_t size)
{
  pjrt_buffer_download args = {.size = sizeof args, .buffer = buffer, .to = to, .to_size = size};
  int status = cni_pjrt_check(cni_pjrt->buffer_download(&args), "reading a tensor");
  if (status) return status;
  cni_pjrt_unlock();
  status = cni_pjrt_await(args.done, "reading a tensor");
  cni_pjrt_lock();
  return status;
}

static int download_all(pjrt_value *v, char *to)
{
  size_t elem = cn_element_size(v->dtype);
  if (!cni_pjrt_is_split(&v->split)) return receive(v->buffers[0], to, v->bytes);
  char *room = host->memory(v->bytes);
  int status = room ? CN_OK : CN_ERR_MEMORY;
  for (int k = 0; k < v->nbuffers && !status; k++) {
    pjrt_box box;
    size_t size = elem;
    cni_pjrt_box(&box, v->device, k, &v->split, v->ndim, v->shape);
    for (int d = 0; d < v->ndim; d++) size *= (size_t)box.shape[d];
    if (!box.first) continue;
    status = receive(v->buffers[k], room, size);
    if (!status) cni_pjrt_box_copy(to, room, true, &box, v->ndim, v->shape, elem);
  }
  if (room) host->free_memory(room, v->bytes);
  return status;
}

int cni_pjrt_value_download(pjrt_value *v, void *to, size_t from, size_t size)
{
  if (v->failed) return host->fail(CN_ERR_DEVICE, "pjrt: the program that makes this tensor has failed");
  if (v->held || !v->bytes) {
    if (size) memcpy(to, (char *)v->held + from, size);
    return CN_OK;
  }
  if (!v->buffers[0]) return host->fail(CN_ERR_INTERNAL, "pjrt: a tensor that was not computed yet is read");
  cni_pjrt_value_keep(v);
  bool whole = size == v->bytes;
  void *room = whole ? to : host->memory(v->bytes);
  int status = room ? download_all(v, room) : CN_ERR_MEMORY;
  if (!status && !whole) memcpy(to, (char *)room + from, size);
  if (room && !whole) host->free_memory(room, v->bytes);
  cni_pjrt_value_release(v);
  return status;
}
