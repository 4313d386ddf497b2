/* recording.h: what files of backends/common show each other of recordings made by hand (cairn/recording.h).
 *
 * Invariant: what a thread records is seen by no other. */
#ifndef CNI_COMMON_RECORDING_H
#define CNI_COMMON_RECORDING_H

#include <cairn/recording.h>
#include <stdatomic.h>

#include "base/state.h"
#include "ops/table.h"

/* How many threads record; almost always none, so that others need look no further. */
extern atomic_int cni_recorders;
cn_recording *cni_recording_here(void); /* that this thread makes; NULL: none */
static inline cn_recording *cni_recording_at_work(void)
{
  return CNI_UNLIKELY(atomic_load_explicit(&cni_recorders, memory_order_relaxed)) ? cni_recording_here() : NULL;
}

/* A kernel's call while this thread records (dispatch.c). */
int cni_recording_call(cn_recording *r, cn_call *call, const cni_opinfo *info);
/* Memory (memory.c): the pool that serves the device now, or NULL; and a block of others that is given back: true when
 * it is kept until the recording ends. */
cn_recording_pool *cni_recording_pool_for(cn_device device);
bool cni_recording_frees(cn_device device, void *memory, size_t size, void *stream);

/* ---- recording_pool.c ---- */
cn_device cni_pool_device(const cn_recording_pool *pool);
cn_recording_pool *cni_pool_keep(cn_recording_pool *pool); /* adds a reference, which cn_recording_pool_free drops */
void *cni_pool_alloc(cn_recording_pool *pool, size_t size); /* NULL without an error, or out of host memory */
bool cni_pool_give_back(void *memory);                      /* false: it is not of a pool */

#endif
