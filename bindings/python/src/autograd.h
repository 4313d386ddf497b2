/* autograd.h: what autograd.c and function.c share. */
#ifndef CNPY_AUTOGRAD_H
#define CNPY_AUTOGRAD_H

#include "cairn_py.h"

/* Gives back a Python object that the core owned; from any thread, with or without the GIL. */
void cnpy_callback_free(void *payload);
/* The tensor of a Python object, borrowed from the innermost scope; NULL with the cn_ error set. */
cn_tensor *cnpy_callback_result(PyObject *o);
/* Where a function that is captured raised: the error for the library. What cannot be captured is the library's to
 * decide on; any other exception stays set, for the caller. */
int cnpy_capture_failed(const char *who);

/* A grad_fn object that takes the node over; None for NULL. */
PyObject *cnpy_node_wrap(cn_node *node);
/* What removes a hook of t; keeps t alive. */
PyObject *cnpy_handle_new(cn_tensor *t, int64_t id);
int cnpy_add_nodes(PyObject *module);
int cnpy_add_function(PyObject *module);
int cnpy_add_saved(PyObject *module); /* saved.c */
PyObject *cnpy_function_apply(PyObject *module, PyObject *args);

#endif
