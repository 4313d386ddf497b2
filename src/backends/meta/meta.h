/* meta.h: the backend of tensors without data, for init.c; meta.c says what it is. Invariant: one instance. */
#ifndef CNI_META_META_H
#define CNI_META_META_H

#include <cairn/ext/host.h>

const cn_backend *cni_meta_backend(const cn_host *host);

#endif
