/* code.c: kernels of a program's own, for cairn.cuda.kernels. Invariant: a capsule owns its kernel. */
#include <cairn/code.h>

#include "cairn_py.h"

enum { MOST_ARGUMENTS = 256 };
static const char code_name[] = "cairn.code";

static void code_drop(PyObject *capsule) { cn_code_free(PyCapsule_GetPointer(capsule, code_name)); }

static PyObject *code_new(PyObject *module, PyObject *args)
{
  PyObject *device;
  const char *text, *entry, *options;
  cn_device id;
  cn_code *code;
  (void)module;
  if (!PyArg_ParseTuple(args, "Osss", &device, &text, &entry, &options) || cnpy_to_device(device, &id)) return NULL;
  Py_BEGIN_ALLOW_THREADS code = cn_code_new(id, text, entry, options);
  Py_END_ALLOW_THREADS return code ? PyCapsule_New(code, code_name, code_drop) : cnpy_raise();
}

/* values: a list of bytes. */
static int addresses(void **to, PyObject *values)
{
  Py_ssize_t n = PyList_Size(values);
  if (n < 0) return -1;
  if (n > MOST_ARGUMENTS) {
    PyErr_Format(PyExc_ValueError, "a kernel of more than %d arguments", MOST_ARGUMENTS);
    return -1;
  }
  for (Py_ssize_t i = 0; i < n; i++)
    if (!(to[i] = PyBytes_AsString(PyList_GetItem(values, i)))) return -1;
  return 0;
}

static PyObject *code_run(PyObject *module, PyObject *args)
{
  PyObject *capsule, *values;
  cn_code_launch l = {.size = sizeof l};
  Py_ssize_t shared;
  void *arguments[MOST_ARGUMENTS];
  (void)module;
  if (!PyArg_ParseTuple(args, "O(III)(III)nO", &capsule, &l.grid[0], &l.grid[1], &l.grid[2], &l.block[0], &l.block[1],
                        &l.block[2], &shared, &values))
    return NULL;
  cn_code *code = PyCapsule_GetPointer(capsule, code_name);
  if (!code || addresses(arguments, values)) return NULL;
  l.shared = shared < 0 ? 0 : (size_t)shared;
  if (cn_code_run(code, &l, arguments)) return cnpy_raise();
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
  {"_code_new", code_new, METH_VARARGS, "Compiles a kernel: device, text, name, options."},
  {"_code_run", code_run, METH_VARARGS, "Launches it: grid, block, shared memory, bytes of each argument."},
  {NULL, NULL, 0, NULL},
};

int cnpy_add_code(PyObject *module) { return PyModule_AddFunctions(module, functions); }
