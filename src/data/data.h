/* data.h: what the files of this folder share.
 *
 * Place in the flow: dataset.c (life of data sets) <- rows.c, combine.c, readers <- sampler.c <- loader.c. Everything
 * stands on public headers alone. */
#ifndef CNI_DATA_DATA_H
#define CNI_DATA_DATA_H

#include <cairn/data.h>
#include <cairn/ext/system.h>

/* ---- data sets ---- */

/* The given set, or NULL with an error set where a maker before it failed. */
cn_dataset *cni_dataset_given(const char *who, cn_dataset *set);
cn_dataset *cni_dataset_named(cn_dataset *set, const char *name); /* a constant text */
/* Samples stacked by the class itself: 0, an error, or 1 where it has no way. The indices must be in range. */
int cni_dataset_batch(cn_batch *batch, cn_dataset *set, const int64_t *indices, size_t n);
/* What a set of this class was made with; NULL for sets of others. */
void *cni_dataset_data(const cn_dataset *set, const cn_dataset_class *cls);
void cni_dataset_take_labels(cn_dataset *to, const cn_dataset *from);
void cni_batch_clear(cn_batch *batch);

/* Rows of tensors, of which the first may be uint8 and come out as float32, divided by `divisor`. */
cn_dataset *cni_dataset_rows(const char *name, cn_tensor *const *tensors, size_t n, float divisor);

/* ---- random order ---- */

/* A number that stands for one epoch of a seed: the seed of all its draws. */
uint64_t cni_epoch_seed(uint64_t seed, int64_t epoch);
void cni_shuffle(int64_t *v, int64_t n, uint64_t seed); /* each order is as likely as any other */

/* ---- files ---- */

/* A file that may be gzipped: mapped, or unpacked into memory of its own. */
typedef struct cni_file {
  const unsigned char *data;
  size_t size;
  cn_mapping mapping;
  void *unpacked; /* of `size` bytes; NULL: the mapping itself */
} cni_file;
int cni_file_open(cni_file *file, const char *path);
void cni_file_close(cni_file *file);

#endif
