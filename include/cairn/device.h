/* device.h: which devices there are, and what they are like. */
#ifndef CAIRN_DEVICE_H
#define CAIRN_DEVICE_H

#include "base.h"
#include "ext/backend.h"

CN_BEGIN_DECLS

/* "cpu", "cuda:1", "mirror": loads the backend's plugin if need be. CN_DEVICE_DEFAULT with the error set when there
 * is no such device. */
CN_API cn_device cn_device_find(const char *name);
/* Writes "cpu" or "cuda:1"; returns text. */
CN_API const char *cn_device_name(char *text, size_t size, cn_device device);
CN_API int cn_device_info_get(cn_device_info *info, cn_device device);
/* Devices of a backend that can be used here: 0 when it is absent. Sets no error. */
CN_API int cn_device_count(const char *backend);
/* Waits for all work queued on a device, by others of this process too; late failures are reported here. */
CN_API int cn_device_sync(cn_device device);
/* The queue that cairn's work on a device is in, for those who bring or fetch memory in order with it: a CUstream
 * (cudaStream_t) on CUDA. NULL where there is none. */
CN_API void *cn_device_stream(cn_device device);
/* Bytes of a device's own memory that tensors of this process hold, and the most so far. 0 for devices that work in
 * host memory, which cn_memory_get_stats counts. */
CN_API void cn_device_memory(size_t *in_use, size_t *peak, cn_device device);
CN_API void cn_device_memory_reset_peak(cn_device device); /* from now on */
/* Adds a backend written outside cairn. The table must outlive its use. */
CN_API int cn_backend_register(const cn_backend *backend);
/* The name of the i-th backend in use; NULL past the last. */
CN_API const char *cn_backend_name(int i);
/* The implementations of an op on a backend, in the order they are tried: writes up to `capacity` names and
 * answers how many there are. 0: it runs by its decomposition, or is a view, or cannot run there. Sets no
 * error. */
CN_API size_t cn_op_kernels(const char **names, size_t capacity, const cn_op *op, const char *backend);
/* Measures rather than looks up: f32 GFLOP/s of a matrix product and GB/s of a copy (read + write). Takes a second.
 */
CN_API int cn_device_measure(double *gflops, double *gbps, cn_device device);

CN_END_DECLS
#endif
