/* meta.h: the backend of tensors without data. See meta.c. */
#ifndef CNI_META_META_H
#define CNI_META_META_H

#include <cairn/ext/host.h>

const cn_backend *cni_meta_backend(const cn_host *host);

#endif
