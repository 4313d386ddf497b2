/* formats.h: the readers and writers behind cn_load and cn_save. Internal. */
#ifndef CNI_FORMATS_FORMATS_H
#define CNI_FORMATS_FORMATS_H

#include <cairn/io.h>

#include "source.h"
#include "zip.h"

/* Readers: an owned tree; NULL with the error set. */
cn_tree *cni_read_safetensors(cni_source *source);
cn_tree *cni_read_npy(cni_source *source); /* a tensor */
cn_tree *cni_read_npz(cni_source *source, const cni_zip *zip);
cn_tree *cni_read_torch_zip(cni_source *source, const cni_zip *zip);
cn_tree *cni_read_torch_legacy(cni_source *source);
bool cni_is_torch_zip(const cni_zip *zip);
bool cni_is_torch_legacy(const cni_source *source);

/* Writers: put the whole file; 0 or an error. */
int cni_write_safetensors(cn_writer *writer, const cn_tree *tree);
int cni_write_npy(cn_writer *writer, const cn_tree *tree);
int cni_write_npz(cn_writer *writer, const cn_tree *tree);
int cni_write_torch(cn_writer *writer, const cn_tree *tree);

/* A tensor's elements, row-major, in host memory, from any device: itself or a copy that the scope owns. NULL with the
 * error set. */
cn_tensor *cni_on_host(cn_tensor *t);
/* Puts a tensor's elements, row-major; from any device. */
int cni_put_tensor(cn_writer *writer, cn_tensor *t);

#endif
