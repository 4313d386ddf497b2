/* host_access.c: values from host memory into tensors and back.
 *
 * Place in the flow: where user data enters and leaves; other devices are reached through the cni_memory
 * table. Invariant: host arrays are row-major in the tensor's own type: nothing is converted here but single
 * elements. */
#include <string.h>

#include "base/convert.h"
#include "base/dtype.h"
#include "tensor.h"

/* ---- making ---- */

static int copy_in(const cn_tensor *t, void *to, const void *host, size_t size)
{
  if (size == 0) return CN_OK;
  if (t->d.device != CN_CPU) return cni_memory.copy_in(t->d.device, to, host, size);
  memcpy(to, host, size);
  return CN_OK;
}

cn_tensor *cn_from_data(const void *data, const int64_t *shape, size_t ndim, cn_dtype dtype)
{
  const cn_state *st = cni_state();
  int64_t numel = 0;
  if (st->err) return NULL;
  if (!cni_dtype_valid(dtype)) {
    cni_fail(CN_ERR_DTYPE, "from_data: %d is not a data type", (int)dtype);
    return NULL;
  }
  int n = ndim > CN_MAX_DIMS ? CN_MAX_DIMS + 1 : (int)ndim;
  if (n > 0 && n <= CN_MAX_DIMS && !shape) {
    cni_fail(CN_ERR_VALUE, "from_data: the shape is missing");
    return NULL;
  }
  if (cni_shape_check("from_data", n, shape, cni_dtype_size((int)dtype), &numel)) return NULL;
  if (numel > 0 && !data) {
    cni_fail(CN_ERR_VALUE, "from_data: data is NULL");
    return NULL;
  }
  cn_tensor *t = cni_tensor_new(st->default_device, (int)dtype, n, shape, NULL);
  if (!t) return NULL;
  if (copy_in(t, t->d.data, data, cni_dtype_bytes((int)dtype, numel))) {
    cni_tensor_release(t);
    return NULL;
  }
  return cni_scope_add(t);
}

cn_tensor *cni_weak_scalar(int dtype, const void *value)
{
  cn_tensor *t = cni_tensor_new(CN_CPU, dtype, 0, NULL, NULL);
  if (!t) return NULL;
  memcpy(t->d.data, value, cni_dtype_size(dtype));
  t->d.weak = 1;
  return t;
}

static cn_tensor *number(int dtype, const void *value)
{
  cn_tensor *t = cni_state()->err ? NULL : cni_weak_scalar(dtype, value);
  return t ? cni_scope_add(t) : NULL;
}

cn_tensor *cn_num(double value) { return number(CN_F64, &value); }
cn_tensor *cn_int(int64_t value) { return number(CN_I64, &value); }
cn_tensor *cn_complex_num(double real, double imag) { return number(CN_C128, (double[]){real, imag}); }
cn_tensor *cn_bool(bool value) { return number(CN_BOOL, &(uint8_t){value}); }

cn_tensor *cn_floats(const float *values, size_t n)
{
  int64_t shape = n > INT64_MAX ? INT64_MAX : (int64_t)n;
  return cn_from_data(values, &shape, 1, CN_F32);
}

/* ---- may it be read? ---- */

static int check(const char *who, const cn_tensor *t)
{
  int err = cni_state()->err;
  if (err) return err;
  if (!t) return cni_fail(CN_ERR_TYPE, "%s: the tensor is NULL", who);
  if (t->batch)
    return cni_fail(CN_ERR_VALUE, "vmap: It looks like you're calling .item() on a Tensor, or reading its values "
                                  "(%s): it stands for one example of a batch, and has no single value. Compute with "
                                  "ops in its place, or "
                    "read the results outside of vmap", who);
  if (cni_is_sparse(t))
    return cni_fail(CN_ERR_UNSUPPORTED, "%s: a sparse tensor has no memory of its own; cn_to_dense (to_dense()) gives "
                    "it one, cn_values (values()) is what it holds", who);
  if ((cni_state()->modes & CNI_MODE_CAPTURE && !t->d.weak) || (!t->d.data && t->d.numel > 0))
    return cni_fail(CN_ERR_CAPTURE,
                    "%s: cannot read a value while a graph is being captured: compute with where, cond or while in its "
                    "place, or read it outside", who);
  return CN_OK;
}

static void *host_memory(const char *who, cn_tensor *t)
{
  if (check(who, t)) return NULL;
  if (t->d.device == CN_CPU || t->d.weak) return cni_storage_settle(t->storage) ? NULL : t->d.data;
  cni_fail(CN_ERR_DEVICE, "%s: the tensor is not on the CPU; copy it there with cn_to_device or cn_to_data", who);
  return NULL;
}

void *cni_tensor_host(cn_tensor *t) { return host_memory("host access", t); }
const void *cn_data_const(cn_tensor *t) { return host_memory("data", t); }

void *cn_data(cn_tensor *t)
{
  void *data = host_memory("data", t);
  if (data) atomic_store_explicit(&t->storage->shown, true, memory_order_relaxed);
  return data;
}

cn_tensor *cn_tensor_sole(cn_tensor *t)
{
  if (t) atomic_store_explicit(&t->storage->shown, false, memory_order_relaxed);
  return t;
}

/* ---- rows of strided memory and back ---- */

static void copy_row(char *to, int64_t tstep, const char *from, int64_t fstep, int64_t elem, int64_t n)
{
  if (tstep == elem && fstep == elem) {
    memcpy(to, from, (size_t)(n * elem));
    return;
  }
  for (int64_t k = 0; k < n; k++) memcpy(to + k * tstep, from + k * fstep, (size_t)elem);
}

/* Between a row-major array and the elements of d, whose first one lies at `first`: out of d when `pack`,
 * else into. */
static void copy_elements(char *array, char *first, const cn_desc *d, bool pack)
{
  int64_t elem = (int64_t)cni_dtype_size(d->dtype), index[CN_MAX_DIMS] = {0};
  int last = d->ndim - 1;
  if (d->numel == 0) return;
  int64_t n = d->ndim ? d->shape[last] : 1, step = d->ndim ? d->strides[last] * elem : elem;
  for (;;) {
    if (pack) copy_row(array, elem, first, step, elem, n);
    else copy_row(first, step, array, elem, elem, n);
    array += n * elem;
    int i = last - 1;
    for (; i >= 0; i--) {
      first += d->strides[i] * elem;
      if (++index[i] < d->shape[i]) break;
      first -= d->shape[i] * d->strides[i] * elem;
      index[i] = 0;
    }
    if (i < 0) return;
  }
}

/* The same for a tensor on another device: its whole range comes to the host, and goes back when it was
 * written. */
static int copy_device_elements(void *array, cn_tensor *t, bool pack)
{
  int64_t below, above, elem = (int64_t)cni_dtype_size(t->d.dtype);
  cni_span(&t->d, &below, &above);
  below *= elem;
  size_t size = (size_t)(below + (above + 1) * elem);
  char *device = (char *)t->d.data - below, *host = cni_alloc(size);
  if (!host) return CN_ERR_MEMORY;
  int status = cni_memory.copy_out(t->d.device, host, device, size);
  if (!status) {
    copy_elements(array, host + below, &t->d, pack);
    if (!pack) status = cni_memory.copy_in(t->d.device, device, host, size);
  }
  cni_free(host, size);
  return status;
}

/* ---- out and in ---- */

int cn_to_data(void *data, size_t size, cn_tensor *t)
{
  int status = check("to_data", t);
  if (status) return status;
  size_t bytes = cn_tensor_nbytes(t);
  if (size < bytes)
    return cni_fail(CN_ERR_VALUE, "to_data: the tensor has %zu bytes, but there is room for %zu", bytes, size);
  if (bytes == 0) return CN_OK;
  if (!data) return cni_fail(CN_ERR_VALUE, "to_data: data is NULL");
  bool packed = cni_is_contiguous(t->d.ndim, t->d.shape, t->d.strides);
  if (t->d.device != CN_CPU)
    return packed ? cni_memory.copy_out(t->d.device, data, t->d.data, bytes) : copy_device_elements(data, t, true);
  if (packed) memcpy(data, t->d.data, bytes);
  else copy_elements(data, t->d.data, &t->d, true);
  return CN_OK;
}

/* May t be overwritten from `size` bytes? */
static int check_write(const cn_tensor *t, const void *data, size_t size)
{
  int status = check("copy_from_data", t);
  if (status) return status;
  size_t bytes = cn_tensor_nbytes(t);
  if (size != bytes)
    return cni_fail(CN_ERR_VALUE, "copy_from_data: the tensor has %zu bytes, but %zu were given", bytes, size);
  if (bytes && !data) return cni_fail(CN_ERR_VALUE, "copy_from_data: data is NULL");
  if (t->d.weak) return cni_fail(CN_ERR_VALUE, "copy_from_data: a number (cn_num) cannot be written to");
  if (cni_may_overlap(t->d.ndim, t->d.shape, t->d.strides))
    return cni_fail(CN_ERR_VALUE, "copy_from_data: several elements of the tensor share one memory location "
                                  "(an expanded tensor, say); clone it before writing");
  return CN_OK;
}

int cn_copy_from_data(cn_tensor *t, const void *data, size_t size)
{
  int status = check_write(t, data, size);
  if (!status && size) status = cni_storage_settle(t->storage);
  if (status || size == 0) return status;
  char *array = (char *)(uintptr_t)data; /* only read when it is not packed into */
  if (cni_is_contiguous(t->d.ndim, t->d.shape, t->d.strides)) status = copy_in(t, t->d.data, data, size);
  else if (t->d.device == CN_CPU) copy_elements(array, t->d.data, &t->d, false);
  else status = copy_device_elements(array, t, false);
  if (!status) cni_count_write(t);
  return status;
}

/* ---- one element ---- */

static int read_first(const char *who, cn_tensor *t, double *f, int64_t *i)
{
  char element[8];
  const void *at = element;
  int status = check(who, t);
  if (status) return status;
  if (t->d.numel == 0) return cni_fail(CN_ERR_VALUE, "%s: the tensor has no elements", who);
  if (cni_dtype_is_complex(t->d.dtype))
    return cni_fail(CN_ERR_DTYPE, "%s: %s is no real number; read both parts with cn_to_data", who,
                    cni_dtype_rows[t->d.dtype].name);
  if (t->d.device == CN_CPU || t->d.weak) at = t->d.data;
  else status = cni_memory.copy_out(t->d.device, element, t->d.data, cni_dtype_size(t->d.dtype));
  if (status) return status;
  if (f) *f = cni_load_f64(at, 0, t->d.dtype);
  if (i) *i = cni_load_i64(at, 0, t->d.dtype);
  return CN_OK;
}

static int read_item(const char *who, cn_tensor *t, double *f, int64_t *i)
{
  if (!cni_state()->err && t && t->d.numel != 1)
    return cni_fail(CN_ERR_VALUE, "%s: takes a tensor of one element, but this one has %lld", who,
                    (long long)t->d.numel);
  return read_first(who, t, f, i);
}

double cn_item(cn_tensor *t)
{
  double value = 0;
  read_item("item", t, &value, NULL);
  return value;
}

int64_t cn_item_int(cn_tensor *t)
{
  int64_t value = 0;
  read_item("item_int", t, NULL, &value);
  return value;
}
