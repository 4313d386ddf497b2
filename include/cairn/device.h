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
/* Why a backend has none although one was asked for: its plugin's library cannot be used, say. The text stays; NULL:
 * there is nothing to say. Sets no error. */
CN_API const char *cn_device_absent(const char *backend);
/* Waits for all work queued on a device, by others of this process too; late failures are reported here. */
CN_API int cn_device_sync(cn_device device);
/* The stream that this thread's work on a device is in, for those who bring or fetch memory in order with it: a
 * CUstream (cudaStream_t) on CUDA. NULL where there is none. */
CN_API void *cn_device_stream(cn_device device);

/* ---- streams and events ---- */
/* Work of one stream is done in order; two streams may overlap, in no order but by events. A device has one of its own,
 * which everything goes into until a thread uses another. On devices that have no streams (the CPU) one stands for the
 * only queue there is, so that programs need not tell them apart. Memory belongs to the stream that was in use when it
 * was allocated: before another stream reads a tensor, let it wait (cn_event_record here, cn_stream_wait there), and
 * say that it does (cn_tensor_record_stream), so that the memory is not given away too early. */
typedef struct cn_stream cn_stream;
typedef struct cn_event cn_event;
/* Lower priorities go first, where a device has them; 0 is normal. Owned; a thread that uses it holds a reference too,
 * and what is queued when the last is gone still runs. */
CN_API CN_MUST_USE cn_stream *cn_stream_new(cn_device device, int priority);
CN_API CN_MUST_USE cn_stream *cn_stream_keep(cn_stream *stream); /* adds a reference; returns stream. NULL is fine */
CN_API void cn_stream_release(cn_stream *stream);
CN_API cn_device cn_stream_device(const cn_stream *stream);
CN_API void *cn_stream_handle(const cn_stream *stream); /* of the device's kind; NULL where there is none */
/* From now on this thread's work on the device goes there; NULL: into the device's own. */
CN_API int cn_stream_use(cn_device device, cn_stream *stream);
CN_API cn_stream *cn_stream_current(cn_device device); /* borrowed; NULL: the device's own */
CN_API int cn_stream_sync(cn_stream *stream);          /* waits; late failures are reported here */
CN_API CN_MUST_USE int cn_stream_query(cn_stream *stream); /* 1: nothing left to do, 0: not yet, negative: an error */
CN_API int cn_stream_wait(cn_stream *stream, cn_event *event); /* its later work waits; NULL: the device's own */
CN_API int cn_tensor_record_stream(cn_tensor *t, cn_stream *stream);
/* A point in a stream. timing: for cn_event_elapsed. Owned. */
CN_API CN_MUST_USE cn_event *cn_event_new(cn_device device, bool timing);
CN_API void cn_event_free(cn_event *event);
CN_API int cn_event_record(cn_event *event, cn_stream *stream); /* NULL: the stream in use */
CN_API CN_MUST_USE int cn_event_query(cn_event *event); /* 1: passed, or never recorded; 0: not yet */
CN_API int cn_event_sync(cn_event *event);
CN_API int cn_event_elapsed(double *milliseconds, cn_event *from, cn_event *to);

/* ---- numerics ---- */
/* How far devices may round for speed, and whether a second run repeats the first bit for bit; of this process, and
 * part of what a compiled program is made for. The CPU's float32 is float32 and its results repeat, whatever is set
 * here. */
typedef enum cn_precision {
  CN_PRECISION_FLOAT32, /* factors of float32 products are taken as they are */
  CN_PRECISION_TF32,    /* they may be rounded to 11 bits: Tensor Cores multiply those several times as fast */
  CN_PRECISION_BF16     /* or to 8 */
} cn_precision;
CN_API int cn_set_matmul_precision(cn_precision precision); /* of products of matrices, and all that is made of them */
CN_API cn_precision cn_matmul_precision(void);
CN_API int cn_set_conv_precision(cn_precision precision); /* of convolutions; CN_PRECISION_BF16 is TF32 there */
CN_API cn_precision cn_conv_precision(void);
/* Kernels that add in no fixed order, or are chosen by a clock, give way to others. At first what CAIRN_DETERMINISTIC
 * says: 0 (off), conv, warn, 1 (fail). */
typedef enum cn_deterministic {
  CN_DETERMINISTIC_OFF,
  CN_DETERMINISTIC_CONV, /* those of convolutions alone */
  CN_DETERMINISTIC_WARN, /* all; an op that has no others warns, once */
  CN_DETERMINISTIC_FAIL  /* all; such an op fails with CN_ERR_UNSUPPORTED */
} cn_deterministic;
CN_API int cn_set_deterministic(cn_deterministic mode);
CN_API cn_deterministic cn_deterministic_mode(void);

/* What becomes of calls, in any thread, in which the host has to wait for a device's work: reading a value, a copy to
 * the host, a size that depends on data, cn_stream_sync. Waiting for an event or for all work is no such call. */
typedef enum cn_wait_mode {
  CN_WAIT_SILENT,
  CN_WAIT_WARN,
  CN_WAIT_FAIL /* with CN_ERR_DEVICE, before it waits */
} cn_wait_mode;
CN_API int cn_set_wait_mode(cn_wait_mode mode);
CN_API cn_wait_mode cn_wait_mode_now(void);

/* Bytes of a device's own memory that tensors of this process hold, and the most so far. 0 for devices that work in
 * host memory, which cn_memory_get_stats counts. */
CN_API void cn_device_memory(size_t *in_use, size_t *peak, cn_device device);
CN_API void cn_device_memory_reset_peak(cn_device device); /* from now on */
/* Bytes taken from the device for tensors, those that are kept for the next ones too, and the most so far; what
 * cn_device_memory says where nothing is kept. trim gives back what is kept. */
CN_API void cn_device_memory_reserved(size_t *now, size_t *peak, cn_device device);
CN_API int cn_device_memory_trim(cn_device device);
/* More numbers (ext/backend.h); zero where the device does not count them. Set stats->size first. */
CN_API int cn_device_memory_get_stats(cn_device_memory_stats *stats, cn_device device);
/* Calls each for the pieces of a device's memory (ext/backend.h), one segment after another, neighbours in order; it
 * must not call the library. An error on devices that have none. */
CN_API int cn_device_memory_pieces(void (*each)(const cn_memory_piece *piece, void *payload), void *payload,
                                   cn_device device);
/* From now on a device's last so many events (ext/backend.h) are kept; 0: none, and those that were are dropped.
 * cn_device_memory_events calls each for them, the oldest first; it must not call the library. Errors on devices that
 * keep none. */
CN_API int cn_device_memory_record(cn_device device, size_t events);
CN_API int cn_device_memory_events(void (*each)(const cn_memory_event *event, void *payload), void *payload,
                                   cn_device device);
/* What there is of pinned memory, and how much of it tensors have or queued copies read: blocks, then bytes. Zeros
 * where a device has none. */
CN_API void cn_device_pinned_stats(cn_pinned_stats *stats, cn_device device);
CN_API void cn_device_pinned_reset_peak(cn_device device); /* from now on */
/* What this process may take from the device, as cn_device_memory_reserved counts it; 0: no limit. Beyond it tensors
 * are out of memory (CN_ERR_MEMORY). An error on devices that cannot keep to one. */
CN_API int cn_device_memory_set_limit(cn_device device, size_t bytes);
/* Adds a backend written outside cairn. The table must outlive its use. */
CN_API int cn_backend_register(const cn_backend *backend);
/* The name of the i-th backend in use; NULL past the last. */
CN_API const char *cn_backend_name(int i);
/* The implementations of an op on a backend, in the order they are tried: writes up to `capacity` names and
 * returns how many there are. 0: it runs by its decomposition, or is a view, or cannot run there. Sets no
 * error. */
CN_API size_t cn_op_kernels(const char **names, size_t capacity, const cn_op *op, const char *backend);
/* Measures rather than looks up: f32 GFLOP/s of a matrix product and GB/s of a copy (read + write). Takes a second.
 */
CN_API int cn_device_measure(double *gflops, double *gbps, cn_device device);
/* The same of a matrix product of another type. */
CN_API int cn_device_measure_product(double *gflops, cn_dtype dtype, cn_device device);

CN_END_DECLS
#endif
