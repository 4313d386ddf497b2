/* torch.h: what reading and writing PyTorch's files share. Internal. */
#ifndef CNI_FORMATS_TORCH_H
#define CNI_FORMATS_TORCH_H

#include "formats.h"
#include "pickle.h"

enum { CNI_TORCH_DEEPEST = 200 }; /* nesting of lists and dictionaries */

/* The type that a class of storages ("torch.FloatStorage") holds; CN_U8: untyped ones; CN_DTYPE_NONE: no such one. */
cn_dtype cni_torch_storage_dtype(const cni_item *global);
const char *cni_torch_storage_name(cn_dtype dtype); /* "FloatStorage"; NULL: only an untyped one can hold it */
cn_dtype cni_torch_dtype(const cni_item *global); /* "torch.float8_e4m3fn"; CN_DTYPE_NONE when it is no dtype */

cn_tree *cni_read_torch_legacy(cni_source *source); /* pickles in a row, as before release 1.6 */

/* ---- reading: what calls in a pickle mean (torch_call.c) ---- */

typedef struct cni_torch_storage {
  cni_source *bytes; /* owned; NULL until found */
  const char *key;   /* in the pickle; not terminated */
  size_t key_size;
  size_t element;    /* bytes of one, as its first user said */
  uint64_t wanted;   /* bytes that its users said it has */
  size_t uses;       /* tensors in it */
  cn_tensor *base;   /* all of it, for tensors that share it; owned */
  cn_dtype base_dtype;
} cni_torch_storage;

/* A storage as one value of the pickle names it, and a tensor in it. */
typedef struct cni_torch_view {
  size_t storage; /* number in storages */
  cn_dtype dtype;
  int64_t offset, numel; /* in elements, of the part of the storage that is meant */
  const cni_item *size, *stride; /* tuples of a tensor; NULL for the storage itself */
  cn_tensor *made; /* owned */
} cni_torch_view;

typedef struct cni_torch {
  cni_source *source;
  const cni_zip *zip; /* NULL: the older form */
  const char *prefix; /* of the archive's names, with its slash; prefix_size characters of it */
  size_t prefix_size;
  cni_torch_storage *storages;
  size_t nstorages, storages_cap;
  cn_tree *keys; /* of storages: key -> number */
  cni_torch_view *views;
  size_t nviews, views_cap;
} cni_torch;

enum { CNI_TORCH_VIEW = 1 }; /* the type of a CNI_PICKLED_OBJECT whose index is a view's */

extern const cni_pickle_meaning cni_torch_meaning; /* its payload is to be a cni_torch */
void cni_torch_free(cni_torch *t);

/* The tensor of a view; borrowed from t. NULL with the error set. (torch_call.c) */
cn_tensor *cni_torch_tensor(cni_torch *t, size_t view);

#endif
