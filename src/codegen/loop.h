/* loop.h: from a pointwise call to a loop that can be rendered, compiled and run.
 *
 * Place in the flow: backends ask (through cn_host) for a call's cn_source, look for compiled code under
 * its key, and only when there is none for its text. Invariant: a source's text depends on its key alone;
 * everything that changes from call to call is in source->loop. */
#ifndef CNI_CODEGEN_LOOP_H
#define CNI_CODEGEN_LOOP_H

#include <cairn/ext/host.h>

/* See cn_host. 0 or an error. */
int cni_pointwise_source(cn_source *source, const cn_call *call, cn_lang lang);
int cni_copy_source(cn_source *source, const cn_desc *to, const cn_desc *from, cn_lang lang);
void cni_source_end(cn_source *source);
char *cni_source_text(const cn_source *source, size_t *size);

/* Where the parts of the arguments lie (ext/host.h). */
static inline void **cni_loop_ptr(const cn_source *s) { return (void **)(void *)(s->loop + 1); }
typedef union cni_loop_scalar {
  double f;
  int64_t i;
} cni_loop_scalar;
static inline cni_loop_scalar *cni_loop_scalars(const cn_source *s)
{
  return (cni_loop_scalar *)(void *)(cni_loop_ptr(s) + s->nout + s->nin);
}
/* Of dim d: its size, then each operand's stride. */
static inline int64_t *cni_loop_dim(const cn_source *s, int d)
{
  return (int64_t *)(void *)(cni_loop_scalars(s) + s->nscalar) + d * (1 + s->nout + s->nin);
}

#endif
