/* prepared.h: what kernels made of weights (packed, transformed), kept by an executable for all of its contexts.
 *
 * Place in the flow: graph/run.c says of a call which of its inputs stay as they are (cn_call.keep); the dispatcher
 * asks the implementation that it chose what it would make of them (cn_kernel.prepare) and finds that here. Invariant:
 * what is handed out was made of the very elements that the inputs have now: the same memory, not written to since, and
 * of which nobody outside has the address. */
#ifndef CNI_OPS_PREPARED_H
#define CNI_OPS_PREPARED_H

#include <cairn/ext/backend.h>

struct cni_prepared_item;
typedef struct cni_prepared_store cni_prepared_store;

/* Of one node, in one context. */
typedef struct cni_prepared_slot {
  struct cni_prepared_item *item; /* a reference; NULL: none */
  uint64_t seen;                  /* how often the inputs had been written to at the last run, and one; 0: no run yet */
} cni_prepared_slot;

/* What cn_call.keep points to. */
typedef struct cni_keep {
  cni_prepared_store *store;
  cni_prepared_slot *slot;
  uint32_t stays; /* bit i: input i is a weight */
} cni_keep;

/* One for an executable; counted. NULL with the error set. */
cni_prepared_store *cni_prepared_store_new(void);
cni_prepared_store *cni_prepared_store_keep(cni_prepared_store *store);
void cni_prepared_store_release(cni_prepared_store *store);
void cni_prepared_slot_clear(cni_prepared_slot *slot);

/* What the implementation made of the call's weights, now or earlier, until the next call with the same slot; NULL:
 * nothing, it is not worth it, or there is no memory: run does without. Weights are worth it that are the same in two
 * runs that follow each other. Sets no error. */
const cn_prepared *cni_prepared_for(const cn_call *call, const cn_kernel *kernel);
size_t cni_prepared_made(void); /* for tests: so far, by all executables */

#endif
