/* vmap.h: functions of one example made functions of a batch, without a loop.
 *
 * Between cn_vmap_begin and cn_vmap_end a tensor that cn_batched made stands for one example of a batch: it has the
 * shape of one, and every op on it computes all of them at once. Code that is written for one example needs no change;
 * values of an example cannot be read (cn_item), since there are many. Gradients flow through, outside and inside.
 */
#ifndef CAIRN_VMAP_H
#define CAIRN_VMAP_H

#include "tensor.h"

CN_BEGIN_DECLS

/* What ops that draw random numbers do inside: */
typedef enum cn_vmap_randomness {
  CN_RANDOM_ERROR,     /* fail */
  CN_RANDOM_DIFFERENT, /* draw numbers for each example */
  CN_RANDOM_SAME       /* draw once, for all of them */
} cn_vmap_randomness;

#define CN_NOT_MAPPED INT64_MIN /* in place of a dimension: all examples share this tensor */

/* ---- the function form ---- */
/* outputs: noutputs of them, set by the function (borrowed); inputs: one example each. 0 or a negative status. */
typedef int (*cn_vmap_fn)(cn_tensor **outputs, cn_tensor *const *inputs, void *payload);
typedef struct cn_vmap_opts {
  size_t size;
  const struct cn_guard *guard;
  cn_ints in_dims;  /* which dimension of each input is the batch, or CN_NOT_MAPPED; one stands for all; default 0 */
  cn_ints out_dims; /* where it goes in each output; CN_NOT_MAPPED: the output is the same for all; default 0 */
  cn_vmap_randomness randomness;
  int64_t chunk;    /* examples at once, to bound memory; 0: all */
} cn_vmap_opts;
/* Calls fn for all examples of the inputs. The outputs belong to the innermost scope. vmaps nest. */
CN_API int cn_vmap_with(cn_tensor **outputs, size_t noutputs, cn_vmap_fn fn, cn_tensor *const *inputs, size_t ninputs,
                        void *payload, const cn_vmap_opts *opts);

/* ---- its parts, for bindings ---- */
/* Begins a vmap over `size` examples. Returns its number, or a negative status. */
CN_API int64_t cn_vmap_begin(int64_t size, cn_vmap_randomness randomness);
/* The same with the number of one that has ended: what stood for an example of it does so again. For backward passes of
 * functions that saved such tensors. */
CN_API int64_t cn_vmap_again(int64_t size, cn_vmap_randomness randomness, int64_t vmap);
/* Ends it, the innermost one. What stands for an example of it cannot be used then. */
CN_API int cn_vmap_end(int64_t vmap);
CN_API int cn_vmap_depth(void); /* how many are running in this thread */
/* One example of t, whose dimension dim is the batch of that vmap. */
CN_API cn_tensor *cn_batched(cn_tensor *t, int64_t dim, int64_t vmap);
/* All examples of t, the batch as dimension dim. Of a tensor that is the same for all: expanded. */
CN_API cn_tensor *cn_unbatched(cn_tensor *t, int64_t dim, int64_t vmap);
CN_API bool cn_is_batched(const cn_tensor *t); /* does it stand for one example of some vmap? */
CN_API bool cn_is_batched_in(const cn_tensor *t, int64_t vmap);
/* t as an example of every vmap that is running, each with the same values: a gradient by it is then one for each
 * example, not their sum. t itself where none is running. */
CN_API cn_tensor *cn_batched_all(cn_tensor *t);
/* What ops ran example by example, because they have no rule, since the process began; for tests. */
CN_API size_t cn_vmap_loops(void);

CN_END_DECLS

#ifndef __cplusplus
#define cn_vmap(outputs, noutputs, fn, inputs, ninputs, ...)                  \
  cn_vmap_with(outputs, noutputs, fn, inputs, ninputs, CN_HEAD(__VA_ARGS__, ), \
               CN_OPTS(cn_vmap_opts, CN_TAIL(__VA_ARGS__, )))
#endif

#endif
