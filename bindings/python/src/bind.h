/* bind.h: Python arguments bound to one signature (bind.c), for the callers: ops (call.c), and what is made by name:
 * modules, optimisers, schedules. */
#ifndef CAIRN_PY_BIND_H
#define CAIRN_PY_BIND_H

#include "cairn_py.h"

/* What a parameter takes; the order is that of `kinds` in bind.c. */
enum cnpy_kind {
  CNPY_TENSOR,
  CNPY_TENSORS,
  CNPY_INT,
  CNPY_INTS,
  CNPY_FLOAT,
  CNPY_FLOATS,
  CNPY_BOOL,
  CNPY_STR,
  CNPY_DTYPE,
  CNPY_DEVICE,
  CNPY_SCALAR,
  CNPY_INTS_OR_STR,
  CNPY_MODULE
};

/* A signature as Python calls it: an op's, or that of a class (op is NULL then). */
typedef struct cnpy_form {
  const cn_op *op;
  cn_op_info info;
  enum cnpy_kind kind[CN_MAX_ARGS];
  bool elements_optional[CN_MAX_ARGS]; /* Tensor?[] */
  PyObject *names[CN_MAX_ARGS];        /* interned */
  int npositional;                     /* parameters that may be given by position */
  bool counted;                        /* its one positional parameter besides self is an int[]: t.view(2, 3) */
  PyTypeObject *result;                /* the named tuple of an op with several results; made when needed */
} cnpy_form;

enum { CNPY_WORDS = 192 }; /* room for lists before the heap is asked */

/* The arguments of one call. */
typedef struct cnpy_bound {
  cn_value value[CN_MAX_ARGS];
  int n; /* values up to the last one given */
  PyObject *given[CN_MAX_ARGS]; /* borrowed */
  /* Keywords beside the signature; borrowed. */
  PyObject *out, *requires_grad, *memory_format, *pin_memory, *generator;
  const char *layout; /* its name; NULL: not asked for */
  bool strict; /* numbers are no tensors and tensors no numbers: tells overloads apart */
  const char *why; /* why it did not fit, for the error message; `at` is the argument */
  PyObject *at;
  const char *name;
  uint64_t words[CNPY_WORDS];
  size_t used;
  void *heap; /* chain of further blocks */
  cn_tensor *made[CN_MAX_ARGS]; /* complex numbers as tensors; owned */
  int nmade;
} cnpy_bound;

/* 1: bound. 0: the arguments do not fit (why, at, name say why; no exception). -1: an exception is set. */
int cnpy_bind(cnpy_bound *b, const cnpy_form *form, unsigned flags, PyObject *self, PyObject *const *args,
              Py_ssize_t nargs, PyObject *kwnames);
void cnpy_unbind(cnpy_bound *b);
/* Fills a form from the op's row; -1 with an exception. */
int cnpy_form_init(cnpy_form *form, const char *op);
/* The same from a signature; its text, for error messages, must stay. */
int cnpy_form_from(cnpy_form *form, const cn_signature *signature, const char *text);
/* _numpy_words() -> {numpy's word: the parameter that it stands for where a form has none of that name}. */
PyObject *cnpy_numpy_words(PyObject *module, PyObject *none);
/* Raises TypeError for arguments that did not fit the one form. Returns NULL. */
PyObject *cnpy_misfit(const cnpy_bound *b, const cnpy_form *form, const char *name);

#endif
