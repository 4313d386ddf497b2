/* recording.h: a device's work that is recorded once, by hand, and repeated: CUDA graphs.
 *
 * Between begin and end what the calling thread queues on the device is kept instead of run; a replay queues all of it,
 * as one launch where the device can. Replays read and write the very memory that the recorded work named: a program
 * fills its inputs in place (cn_copy_), replays, and reads the results where they were made. Memory that was taken
 * meanwhile is the pool's, and stays what it is as long as a recording of the pool or a tensor in it lives. Nothing may
 * be read from the device while work is recorded: values, sizes that depend on data, waits are errors.
 *
 * What the host adds is that of each replay: random numbers go on where the thread's are, tensors in host memory that
 * the device reads (rates) are read again, and where calls of the host made them (Adam's step counts) these calls are
 * made again. Everything else of the host happens once. Compiled functions (cn_compile) do all of it by themselves. */
#ifndef CAIRN_RECORDING_H
#define CAIRN_RECORDING_H

#include "base.h"

CN_BEGIN_DECLS

typedef struct cn_recording cn_recording;
typedef struct cn_recording_pool cn_recording_pool;

/* Memory for recordings. Several may share it where they are replayed in the order they were made in, never two at a
 * time: what one gave back while it was made, the next may use. Owned. */
CN_API CN_MUST_USE cn_recording_pool *cn_recording_pool_new(cn_device device);
CN_API void cn_recording_pool_free(cn_recording_pool *pool); /* what recordings and tensors have of it stays */

/* Begins one in this thread; owned. NULL with the error set: the device records nothing, or the thread does already. */
CN_API CN_MUST_USE cn_recording *cn_recording_begin(cn_recording_pool *pool);
/* 0, or an error: something that cannot be recorded was asked for meanwhile. In the thread that began. */
CN_API int cn_recording_end(cn_recording *r);
/* Queues the recorded work, in the stream in use. */
CN_API int cn_recording_replay(cn_recording *r);
/* After the replays that are queued. One that was not ended is dropped. NULL is fine. */
CN_API void cn_recording_free(cn_recording *r);
CN_API bool cn_recording_now(cn_device device); /* does this thread record on it? */
CN_API bool cn_device_records(cn_device device); /* can work of the device be recorded? */

CN_END_DECLS
#endif
