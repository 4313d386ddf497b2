/* transfer.c: to_device for every pair of devices, made of the backends' copy_in, copy_out and copy_across.
 *
 * Place in the flow: registered for each backend as its implementation of to_device; runs for the device that
 * receives. Invariant: bytes cross between devices only as dense runs in the result's layout; strides are
 * dealt with on the device the data comes from. */
#include "transfer.h"

#include "base/alloc.h"
#include "base/dtype.h"
#include "ops/apply.h"
#include "registry.h"
#include "stream.h"
#include "tensor/tensor.h"

enum { PIECE = 64 << 20 }; /* bytes of host memory between two devices */

static bool is_host(cn_device device)
{
  const cn_backend *b = cni_backend_of(device);
  return b && b->host_memory;
}

static int through_host(cn_device to_device, char *to, cn_device from_device, const char *from, size_t size)
{
  size_t room = size < PIECE ? size : PIECE;
  void *host = cni_alloc(room);
  int status = host ? CN_OK : CN_ERR_MEMORY;
  for (size_t done = 0; done < size && !status; done += room) {
    size_t n = size - done < room ? size - done : room;
    status = cni_memory.copy_out(from_device, host, from + done, n);
    if (!status) status = cni_memory.copy_in(to_device, to + done, host, n);
  }
  cni_free(host, room);
  return status;
}

/* What is queued on `after` from now on waits for what is queued on `before`. */
static int in_order(const cn_backend *b, cn_device before, cn_device after)
{
  int from = cni_device_index(before), to = cni_device_index(after);
  void *event = b->event_new ? b->event_new(from, false) : NULL;
  if (!event) return cni_memory.sync(before);
  int status = b->event_record(from, event, cni_stream_in_use(before));
  if (!status) status = b->event_wait(to, event, cni_stream_in_use(after));
  b->event_free(from, event);
  return status;
}

/* Between two devices of one backend: queued by the receiving one, when the other has come so far; the other waits for
 * it in turn, before it uses that memory again. */
static int across(const cn_backend *b, const cn_desc *to, const cn_desc *from, size_t size)
{
  int status = in_order(b, from->device, to->device);
  if (!status)
    status = b->copy_across(cni_device_index(to->device), to->data, cni_device_index(from->device), from->data, size,
                            cni_stream_in_use(to->device));
  return status ? status : in_order(b, to->device, from->device);
}

static int move_bytes(const cn_desc *to, const cn_desc *from)
{
  size_t size = cni_dtype_bytes(to->dtype, to->numel);
  if (size == 0) return CN_OK;
  if (from->weak || is_host(from->device)) return cni_memory.copy_in(to->device, to->data, from->data, size);
  if (is_host(to->device)) return cni_memory.copy_out(from->device, to->data, from->data, size);
  const cn_backend *b = cni_backend_of(to->device);
  if (b == cni_backend_of(from->device) && b->copy_across) return across(b, to, from, size);
  return through_host(to->device, to->data, from->device, from->data, size);
}

/* to_device(input, device). infer gave the result input's memory order, or row-major where input is not
 * dense; then a dense copy is made where input is. */
int cni_transfer_kernel(cn_call *c)
{
  cn_tensor *x = c->in[0], *y = c->out[0];
  if (x->d.device == y->d.device) return cni_copy_elements(y, x);
  cni_storage_lend(x->storage);
  if (cni_same_layout(&y->d, &x->d)) return move_bytes(&y->d, &x->d);
  cn_tensor *dense = cni_tensor_new(x->d.device, x->d.dtype, x->d.ndim, x->d.shape, y->d.strides);
  if (!dense) return CN_ERR_MEMORY;
  int status = cni_copy_elements(dense, x);
  if (!status) status = move_bytes(&y->d, &dense->d);
  cni_tensor_release(dense);
  return status;
}
