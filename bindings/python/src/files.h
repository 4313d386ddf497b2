/* files.h: what the files of the parts for saving, logging, metrics and networks by name share. */
#ifndef CAIRN_PY_FILES_H
#define CAIRN_PY_FILES_H

#include "cairn_py.h"

/* A Python object that owns one thing of the library's. */
typedef struct cnpy_holder {
  PyObject_HEAD
  void *held; /* NULL once it is closed */
} cnpy_holder;

/* A new object of the type that takes `held` over; held NULL raises the pending cn_ error. `drop` gets it when there
 * is no object. */
PyObject *cnpy_hold(PyTypeObject *type, void *held, void (*drop)(void *));
static inline void *cnpy_held(PyObject *o) { return ((cnpy_holder *)(void *)o)->held; } /* borrowed */
void cnpy_holder_free(PyObject *self); /* the object alone: what it held is gone already */
PyObject *cnpy_done(int status);       /* None, or the pending cn_ error */
/* The n texts of a list as C has them, as long as the list lives; PyMem_Free. NULL with an exception. */
const char **cnpy_texts(PyObject *list, Py_ssize_t n);

PyObject *cnpy_graph_onnx(PyObject *graph, PyObject *args); /* onnx_save.c */
PyObject *cnpy_onnx_refused(PyObject *module, PyObject *none);
int cnpy_add_events(PyObject *module);  /* files_events.c */
int cnpy_add_metrics(PyObject *module); /* zoo_metrics.c */

#endif
