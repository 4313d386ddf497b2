/* io.h: files of weights and arrays: safetensors, PyTorch's .pt and .pth, NumPy's .npy and .npz; gzip.
 *
 * What a file holds is a tree (tree.h). Nothing in a file is ever executed, and any bytes are read or refused with an
 * error. Files are written whole or not at all.
 */
#ifndef CAIRN_IO_H
#define CAIRN_IO_H

#include "ext/system.h"
#include "tree.h"

CN_BEGIN_DECLS

typedef enum cn_format {
  CN_FORMAT_AUTO, /* reading: by content; writing: by the name's ending */
  CN_FORMAT_SAFETENSORS,
  CN_FORMAT_TORCH,  /* zip; reading takes the old form too */
  CN_FORMAT_NPY,    /* one array */
  CN_FORMAT_NPZ,
  CN_FORMAT_JSON, /* settings without tensors */
} cn_format;

/* What is known of a format: for listings, and for programs that write what a user names. */
typedef enum cn_format_holds {
  CN_HOLDS_ARRAY,    /* one tensor */
  CN_HOLDS_TENSORS,  /* a dictionary of tensors */
  CN_HOLDS_SETTINGS, /* a tree without tensors */
  CN_HOLDS_TREE      /* any tree */
} cn_format_holds;
typedef struct cn_format_info {
  cn_format format;
  const char *name;    /* "safetensors" */
  const char *endings; /* of files' names, with a blank between: ".pt .pth" */
  cn_format_holds holds;
} cn_format_info;
CN_API const cn_format_info *cn_format_at(size_t i);             /* NULL past the last */
CN_API const cn_format_info *cn_format_named(const char *path); /* by a file's ending; NULL: none has that one */

/* Reads a file, whatever it is called. Tensors whose bytes are stored as they are share the mapped file: they are paged
 * in when touched, and a page that is written to is copied, so that the file never changes. It may be replaced or
 * removed meanwhile, but must not be cut short in place. Owned; NULL with the error set.
 *
 * safetensors: a dictionary of tensors, with the file's metadata, if any, as a dictionary of texts "__metadata__".
 * PyTorch: what was saved; views share their storage as they did; sizes are tuples, sets lists, types and devices texts
 * ("torch.float16", "cuda:0"); the checksums of storages are not looked at. Objects of other classes, functions,
 * TorchScript and NumPy's scalars are refused by name. NumPy: a tensor, or a dictionary of them. JSON: as tree.h. */
CN_API CN_MUST_USE cn_tree *cn_load(const char *path);
CN_API CN_MUST_USE cn_tree *cn_load_memory(const void *bytes, size_t size); /* copies what it needs */
/* Writes a tree: safetensors and npz take a flat dictionary of tensors (safetensors also text, as metadata under
 * "__metadata__"), npy a tensor, torch any tree, json one without tensors. A failure leaves what was there. */
CN_API int cn_save(const char *path, const cn_tree *tree);
CN_API int cn_save_as(const char *path, const cn_tree *tree, cn_format format);
CN_API int cn_save_to(cn_sink sink, void *payload, const cn_tree *tree, cn_format format); /* not CN_FORMAT_AUTO */
CN_API cn_format cn_format_of(const void *bytes, size_t size, const char *path); /* CN_FORMAT_AUTO: unknown */

/* Unpacks a gzip file in memory (several members give their contents one after the other). Owned: cn_free(*bytes,
 * *size). */
CN_API int cn_gunzip(void **bytes, size_t *size, const void *from, size_t from_size);
CN_API bool cn_is_gzip(const void *bytes, size_t size);

/* One array. */
CN_API cn_tensor *cn_load_npy(const char *path); /* borrowed from the scope */
CN_API int cn_save_npy(const char *path, cn_tensor *t);

/* A safetensors file that stays open: it is checked when it is opened, tensors are made when asked for. */
typedef struct cn_safetensors cn_safetensors;
CN_API CN_MUST_USE cn_safetensors *cn_safetensors_open(const char *path);
CN_API void cn_safetensors_close(cn_safetensors *file); /* tensors made from it live on */
CN_API size_t cn_safetensors_count(const cn_safetensors *file);
CN_API const char *cn_safetensors_name(const cn_safetensors *file, size_t i);
CN_API cn_tensor *cn_safetensors_get(cn_safetensors *file, const char *name); /* borrowed from the scope */
CN_API const char *cn_safetensors_metadata(const cn_safetensors *file, const char *key); /* NULL: none */

/* Appends a PNG file to text: pixels row by row, the channels (1 grey, 2 with alpha, 3 colour, 4 with alpha) of each
 * side by side. Needs no image library. */
CN_API int cn_png_write(cn_text *text, const unsigned char *pixels, int64_t height, int64_t width, int channels);

CN_END_DECLS
#endif
