/* data.h: what the files of the data part share: data.c (data sets), data_loader.c, data_image.c (images, transforms),
 * data_text.c (tokenizers). */
#ifndef CAIRN_PY_DATA_H
#define CAIRN_PY_DATA_H

#include <cairn/data.h>

#include "cairn_py.h"

typedef struct cnpy_dataset {
  PyObject_HEAD
  cn_dataset *set; /* owned */
} cnpy_dataset;
extern PyTypeObject *cnpy_dataset_type;
static inline cn_dataset *cnpy_set(PyObject *o) { return ((cnpy_dataset *)(void *)o)->set; } /* borrowed */
PyObject *cnpy_wrap_dataset(cn_dataset *set); /* takes it over; NULL raises the pending cn_ error */

/* The transform that a NativeTransform holds, once more: owned, for a data set or a list. */
cn_transform *cnpy_transform_of(PyObject *o);
extern PyTypeObject *cnpy_transform_type;

/* The tokenizer that a NativeTokenizer holds, borrowed; NULL with TypeError for other objects. */
cn_tokenizer *cnpy_tokenizer_of(PyObject *o);

/* A new object of one of these types, with its fields zero. */
PyObject *cnpy_alloc_object(PyTypeObject *type);
void cnpy_free_object(PyObject *self);
/* 64 bits from this thread's random numbers. */
uint64_t cnpy_draw_seed(void);

int cnpy_add_loader(PyObject *module);
int cnpy_add_images(PyObject *module);
int cnpy_add_text(PyObject *module);

#endif
