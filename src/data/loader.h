/* loader.h: what loader.c shares: threads that make batches ahead (workers.c), and the default way of putting a batch
 * together one sample at a time (collate.c). */
#ifndef CNI_DATA_LOADER_H
#define CNI_DATA_LOADER_H

#include <cairn/data.h>

/* Copies a sample to row `row` of a batch of n; row 0 makes the batch. */
int cni_stack_add(cn_batch *batch, size_t row, const cn_sample *sample, size_t n);

/* ---- workers ---- */

enum { CNI_MESSAGE = 600 };

/* A batch, or why there is none. */
typedef struct cni_worker_result {
  cn_batch batch;
  int error; /* a cn_status */
  char message[CNI_MESSAGE];
} cni_worker_result;

/* Makes item `number`, on any thread; leaves no error set. */
typedef void (*cni_make_fn)(cni_worker_result *made, int64_t number, void *payload);

typedef struct cni_workers cni_workers;
cni_workers *cni_workers_new(int threads, int ahead, cni_make_fn make, void *payload); /* NULL: no memory */
void cni_workers_free(cni_workers *w); /* waits for what is being made; NULL is fine */
/* Items first .. end - 1 are made from now on. They must have been stopped, or never run. */
void cni_workers_run(cni_workers *w, int64_t first, int64_t end);
void cni_workers_stop(cni_workers *w); /* waits, and drops what was made ahead */
/* The next item, in order; waits for it. false: no thread could be started. */
bool cni_workers_next(cni_worker_result *made, cni_workers *w);

#endif
