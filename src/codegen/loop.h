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
char *cni_source_text(const cn_source *source, size_t *size);

#endif
