/* files.c: save and load of trees, and checkpoints of runs, for Python.
 *
 * Place in the flow: below cairn/serialization.py, which decides what is a tree and what needs Python's pickle.
 * Invariant: other Python threads run while a file is read or written; what is written to a Python file object is
 * written with the GIL held. */
#include <cairn/io.h>
#include <cairn/train.h>
#include <string.h>

#include "files.h"
#include "optim.h"

PyObject *cnpy_hold(PyTypeObject *type, void *held, void (*drop)(void *))
{
  if (!held) return cnpy_raise();
  PyObject *o = ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (o) ((cnpy_holder *)(void *)o)->held = held;
  else drop(held);
  return o;
}

void cnpy_holder_free(PyObject *self)
{
  PyTypeObject *type = Py_TYPE(self);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

PyObject *cnpy_done(int status)
{
  if (status || PyErr_Occurred()) return cnpy_raise();
  Py_RETURN_NONE;
}

const char **cnpy_texts(PyObject *list, Py_ssize_t n)
{
  const char **texts = PyMem_Malloc(((size_t)n + 1) * sizeof *texts);
  if (!texts) PyErr_NoMemory();
  for (Py_ssize_t i = 0; texts && i < n; i++) {
    texts[i] = PyUnicode_AsUTF8AndSize(PyList_GetItem(list, i), NULL);
    if (texts[i]) continue;
    PyMem_Free(texts);
    texts = NULL;
  }
  return texts;
}

/* ---- trees ---- */

/* The tree as Python has it, and its end; NULL raises the pending error. */
static PyObject *taken(cn_tree *tree)
{
  PyObject *made = tree ? cnpy_from_tree(tree) : cnpy_raise();
  cn_tree_free(tree);
  return made;
}

static PyObject *load_path(PyObject *module, PyObject *args)
{
  PyObject *path;
  cn_tree *tree;
  (void)module;
  if (!PyArg_ParseTuple(args, "O&:_load", PyUnicode_FSConverter, &path)) return NULL;
  const char *name = PyBytes_AsString(path);
  Py_BEGIN_ALLOW_THREADS
  tree = cn_load(name);
  Py_END_ALLOW_THREADS
  Py_DECREF(path);
  return taken(tree);
}

static PyObject *load_bytes(PyObject *module, PyObject *bytes)
{
  Py_buffer b;
  cn_tree *tree;
  (void)module;
  if (PyObject_GetBuffer(bytes, &b, PyBUF_SIMPLE)) return NULL;
  Py_BEGIN_ALLOW_THREADS
  tree = cn_load_memory(b.buf, (size_t)b.len);
  Py_END_ALLOW_THREADS
  PyBuffer_Release(&b);
  return taken(tree);
}

static int to_format(const char *name, cn_format *format)
{
  const cn_format_info *f;
  for (size_t i = 0; (f = cn_format_at(i)); i++)
    if (!strcmp(name, f->name)) return *format = f->format, 0;
  return cnpy_fail(PyExc_ValueError, "save: there is no format '%s'", name), -1;
}

/* _tensor_format(path): of the format of tensors alone that its ending stands for, the name and whether it holds just
 * one; None: there is none. */
static PyObject *tensor_format(PyObject *module, PyObject *path)
{
  PyObject *bytes;
  (void)module;
  if (!PyUnicode_FSConverter(path, &bytes)) return NULL;
  const cn_format_info *f = cn_format_named(PyBytes_AsString(bytes));
  Py_DECREF(bytes);
  if (!f || (f->holds != CN_HOLDS_ARRAY && f->holds != CN_HOLDS_TENSORS)) Py_RETURN_NONE;
  return Py_BuildValue("(sO)", f->name, f->holds == CN_HOLDS_ARRAY ? Py_True : Py_False);
}

/* _save(path, tree, format) */
static PyObject *save_path(PyObject *module, PyObject *args)
{
  PyObject *path, *data;
  const char *name;
  cn_format format;
  int status = -1;
  (void)module;
  if (!PyArg_ParseTuple(args, "O&Os:_save", PyUnicode_FSConverter, &path, &data, &name)) return NULL;
  const char *file = PyBytes_AsString(path);
  cn_tree *tree = to_format(name, &format) ? NULL : cnpy_to_tree(data);
  if (tree) {
    Py_BEGIN_ALLOW_THREADS
    status = cn_save_as(file, tree, format);
    Py_END_ALLOW_THREADS
  }
  cn_tree_free(tree);
  Py_DECREF(path);
  return tree ? cnpy_done(status) : NULL;
}

/* Hands bytes to a Python file object. An exception stays set and is raised when the save has ended. */
static int write_python(const void *bytes, size_t size, void *payload)
{
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *part = PyBytes_FromStringAndSize(bytes, (Py_ssize_t)size);
  PyObject *result = part ? PyObject_CallMethod(payload, "write", "O", part) : NULL;
  bool failed = !result;
  Py_XDECREF(part);
  Py_XDECREF(result);
  PyGILState_Release(gil);
  return failed ? cn_err_set(CN_ERR_IO, "save: the file object failed") : CN_OK;
}

/* _save_to(file, tree, format) */
static PyObject *save_object(PyObject *module, PyObject *args)
{
  PyObject *file, *data;
  const char *name;
  cn_format format;
  int status;
  (void)module;
  if (!PyArg_ParseTuple(args, "OOs:_save_to", &file, &data, &name) || to_format(name, &format)) return NULL;
  cn_tree *tree = cnpy_to_tree(data);
  if (!tree) return NULL;
  Py_BEGIN_ALLOW_THREADS
  status = cn_save_to(write_python, file, tree, format);
  Py_END_ALLOW_THREADS
  cn_tree_free(tree);
  return cnpy_done(status);
}

/* ---- checkpoints ---- */

static int read_parts(cn_run *run, PyObject *net, PyObject *opt)
{
  if (net != Py_None && !cnpy_is_module(net))
    return cnpy_fail(PyExc_TypeError, "checkpoint: the model must be a Module"), -1;
  if (opt != Py_None && !PyObject_TypeCheck(opt, cnpy_optim_type))
    return cnpy_fail(PyExc_TypeError, "checkpoint: the optimizer must be an Optimizer"), -1;
  run->net = net == Py_None ? NULL : cnpy_m(net);
  run->opt = opt == Py_None ? NULL : cnpy_opt(opt);
  return 0;
}

/* _run_save(path, module or None, optimiser or None, epoch, step, extra) */
static PyObject *run_save(PyObject *self, PyObject *args)
{
  PyObject *path, *net, *opt, *extra;
  long long epoch, step;
  cn_run run = {0};
  int status = -1;
  (void)self;
  if (!PyArg_ParseTuple(args, "O&OOLLO:_run_save", PyUnicode_FSConverter, &path, &net, &opt, &epoch, &step, &extra))
    return NULL;
  const char *file = PyBytes_AsString(path);
  cn_tree *tree = read_parts(&run, net, opt) ? NULL : cnpy_to_tree(extra);
  run.epoch = epoch, run.step = step;
  if (tree) status = cn_run_save(file, &run, tree);
  cn_tree_free(tree);
  Py_DECREF(path);
  return tree ? cnpy_done(status) : NULL;
}

/* _run_load(path, module or None, optimiser or None) -> (epoch, step, extra) */
static PyObject *run_load(PyObject *self, PyObject *args)
{
  PyObject *path, *net, *opt;
  cn_run run = {0};
  cn_tree *extra = NULL;
  (void)self;
  if (!PyArg_ParseTuple(args, "O&OO:_run_load", PyUnicode_FSConverter, &path, &net, &opt)) return NULL;
  int status = read_parts(&run, net, opt);
  if (!status && cn_run_load(PyBytes_AsString(path), &run, &extra)) status = -1;
  Py_DECREF(path);
  if (status) return cnpy_raise();
  PyObject *more = extra ? taken(extra) : Py_NewRef(Py_None);
  return more ? Py_BuildValue("LLN", (long long)run.epoch, (long long)run.step, more) : NULL;
}

static PyMethodDef functions[] = {
  {"_load", load_path, METH_VARARGS, "_load(path)\n--\n\nWhat a file of weights or arrays holds; mapped."},
  {"_load_bytes", load_bytes, METH_O, "_load_bytes(bytes)\n--\n\nThe same of a file's bytes; copied."},
  {"_save", save_path, METH_VARARGS, "_save(path, data, format)\n--\n\nWrites a file, whole or not at all."},
  {"_tensor_format", tensor_format, METH_O,
   "_tensor_format(path)\n--\n\nName of the format of tensors alone that the ending stands for, and does it hold one?"},
  {"_save_to", save_object, METH_VARARGS, "_save_to(file, data, format)\n--\n\nWrites to an object with write()."},
  {"_run_save", run_save, METH_VARARGS,
   "_run_save(path, module, optimiser, epoch, step, extra)\n--\n\nWrites a checkpoint of a run."},
  {"_run_load", run_load, METH_VARARGS,
   "_run_load(path, module, optimiser)\n--\n\nGoes on from a checkpoint: epoch, step, extra."},
  {NULL, NULL, 0, NULL},
};

int cnpy_add_files(PyObject *module)
{
  return PyModule_AddFunctions(module, functions) || cnpy_add_events(module) ? -1 : 0;
}
