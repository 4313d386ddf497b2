/* outside.c: calls of ops that a program registered while it ran (cn_op_register), by name.
 *
 * Place in the flow: cairn.utils.cpp_extension loads a library whose ops these are; Python calls them here, with the
 * binding that the table's own ops have. Invariant: an op that was called once keeps its entry for good, as the table
 * keeps its row. */
#include <string.h>

#include "cairn_py.h"

typedef struct outside {
  struct outside *next;
  cnpy_entry entry;
  const char *ops[2];
  char name[];
} outside;

static outside *known; /* never freed: see above */

static cnpy_entry *entry_of(const char *name)
{
  for (outside *o = known; o; o = o->next)
    if (!strcmp(o->name, name)) return &o->entry;
  if (!cn_op_find(name)) {
    cnpy_fail(PyExc_AttributeError, "there is no op '%s'", name);
    return NULL;
  }
  size_t length = strlen(name) + 1;
  outside *o = PyMem_Calloc(1, sizeof *o + length);
  if (!o) {
    PyErr_NoMemory();
    return NULL;
  }
  memcpy(o->name, name, length);
  o->ops[0] = o->name;
  o->entry = (cnpy_entry){.name = o->name, .ops = o->ops};
  o->next = known;
  known = o;
  return &o->entry;
}

static PyObject *call_registered(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
  (void)module;
  const char *name = nargs > 0 && PyUnicode_Check(args[0]) ? PyUnicode_AsUTF8AndSize(args[0], NULL) : NULL;
  if (!name) return PyErr_Occurred() ? NULL : cnpy_fail(PyExc_TypeError, "_call_registered: expected an op's name");
  cnpy_entry *entry = entry_of(name);
  return entry ? cnpy_call(entry, NULL, args + 1, nargs - 1, kwnames, false) : NULL;
}

PyMethodDef cnpy_outside_functions[] = {
    {"_call_registered", (PyCFunction)(void (*)(void))call_registered, METH_FASTCALL | METH_KEYWORDS,
     "_call_registered(name, *args, **kwargs): an op of the table by its name."},
    {NULL, NULL, 0, NULL},
};
