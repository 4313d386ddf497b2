/* onnx.c: models in ONNX's files, for Python.
 *
 * Place in the flow: below cairn/onnx/__init__.py, which turns what users have into tensors. Values are here: a
 * Tensor; None, an empty optional; a list, a sequence; a pair of Tensors, strings (bytes, lengths); (None, keys,
 * values), a map. Invariant: what is made here belongs to Python objects or goes. */
#include <cairn/graph.h>
#include <cairn/onnx.h>
#include <string.h>

#include "files.h"

static PyTypeObject *onnx_type;

static void drop(void *held) { cn_onnx_free(held); }

static void onnx_dealloc(PyObject *self)
{
  cn_onnx_free(cnpy_held(self));
  cnpy_holder_free(self);
}

/* Onnx(path or bytes, device or None, folder or None) */
static PyObject *onnx_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
  PyObject *from, *device, *path = NULL;
  const char *folder;
  cn_onnx_opts opts = {.size = sizeof opts};
  cn_onnx *made;
  if (kwargs && PyDict_Size(kwargs)) return cnpy_fail(PyExc_TypeError, "Onnx takes no keywords");
  if (!PyArg_ParseTuple(args, "OOz:Onnx", &from, &device, &folder)) return NULL;
  if (device != Py_None && cnpy_to_device(device, &opts.device)) return NULL;
  opts.folder = folder;
  if (PyBytes_Check(from)) {
    const char *bytes = PyBytes_AsString(from);
    size_t size = (size_t)PyBytes_Size(from);
    Py_BEGIN_ALLOW_THREADS made = cn_onnx_load_memory_with(bytes, size, &opts);
    Py_END_ALLOW_THREADS return cnpy_hold(type, made, drop);
  }
  if (!PyUnicode_FSConverter(from, &path)) return NULL;
  const char *name = PyBytes_AsString(path);
  Py_BEGIN_ALLOW_THREADS made = cn_onnx_load_with(name, &opts);
  Py_END_ALLOW_THREADS Py_DECREF(path);
  return cnpy_hold(type, made, drop);
}

/* ---- values ---- */

static cn_onnx_value *to_value(PyObject *o);

static cn_onnx_value *to_sequence(PyObject *list)
{
  size_t n = (size_t)PyList_Size(list);
  cn_onnx_value **items = PyMem_Calloc(n + 1, sizeof *items), *made = NULL;
  bool good = items != NULL;
  if (!items) PyErr_NoMemory();
  for (size_t i = 0; good && i < n; i++) good = (items[i] = to_value(PyList_GetItem(list, (Py_ssize_t)i))) != NULL;
  if (good && !(made = cn_onnx_value_sequence(items, n))) cnpy_raise();
  for (size_t i = 0; items && i < n; i++) cn_onnx_value_release(items[i]);
  PyMem_Free(items);
  return made;
}

static cn_onnx_value *to_map(PyObject *keys, PyObject *values)
{
  cn_onnx_value *k = to_value(keys), *v = k ? to_value(values) : NULL, *made = v ? cn_onnx_value_map(k, v) : NULL;
  if (v && !made) cnpy_raise();
  cn_onnx_value_release(k);
  cn_onnx_value_release(v);
  return made;
}

/* Owned; NULL with the exception set. */
static cn_onnx_value *to_value(PyObject *o)
{
  Py_ssize_t n = PyTuple_Check(o) ? PyTuple_Size(o) : 0;
  cn_onnx_value *made = NULL;
  if (PyList_Check(o)) return to_sequence(o);
  if (n == 3) return to_map(PyTuple_GetItem(o, 1), PyTuple_GetItem(o, 2));
  if (o == Py_None) made = cn_onnx_value_none();
  else if (cnpy_is_tensor(o)) made = cn_onnx_value_tensor(cnpy_t(o));
  else if (n == 2 && cnpy_is_tensor(PyTuple_GetItem(o, 0)) && cnpy_is_tensor(PyTuple_GetItem(o, 1)))
    made = cn_onnx_value_strings(&(cn_strings){cnpy_t(PyTuple_GetItem(o, 0)), cnpy_t(PyTuple_GetItem(o, 1))});
  else return cnpy_fail(PyExc_TypeError, "onnx: a value is neither tensor, strings, list nor None"), NULL;
  if (!made) cnpy_raise();
  return made;
}

static PyObject *from_value(const cn_onnx_value *v)
{
  cn_strings s;
  size_t n = cn_onnx_value_size(v);
  cn_tensor *t = cn_onnx_value_as_tensor(v);
  if (t) return cnpy_wrap_borrowed(t);
  if (cn_onnx_value_as_strings(&s, v))
    return Py_BuildValue("(NN)", cnpy_wrap_borrowed(s.bytes), cnpy_wrap_borrowed(s.lengths));
  if (cn_onnx_value_kind(v) == CN_ONNX_MAP)
    return Py_BuildValue("(ONN)", Py_None, from_value(cn_onnx_value_at(v, 0)), from_value(cn_onnx_value_at(v, 1)));
  if (cn_onnx_value_kind(v) == CN_ONNX_NONE) Py_RETURN_NONE;
  PyObject *list = PyList_New((Py_ssize_t)n);
  for (size_t i = 0; list && i < n; i++) {
    PyObject *item = from_value(cn_onnx_value_at(v, i));
    if (item && !PyList_SetItem(list, (Py_ssize_t)i, item)) continue;
    Py_DECREF(list);
    return NULL;
  }
  return list;
}

/* ---- running ---- */

/* What a dictionary of values says, as C has it; names last as long as the dictionary. -1 with the exception set. */
static int to_feeds(cn_onnx_feed *feeds, PyObject *items)
{
  for (Py_ssize_t i = 0; i < PyList_Size(items); i++) {
    PyObject *pair = PyList_GetItem(items, i);
    feeds[i].name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(pair, 0), NULL);
    feeds[i].value = feeds[i].name ? to_value(PyTuple_GetItem(pair, 1)) : NULL;
    if (!feeds[i].value) return -1;
  }
  return 0;
}

static PyObject *run(const cn_onnx *o, const cn_onnx_feed *feeds, size_t nfeeds, const char **names, size_t n)
{
  cn_onnx_value **made = PyMem_Calloc(n + 1, sizeof *made);
  if (!made) return PyErr_NoMemory();
  int status;
  Py_BEGIN_ALLOW_THREADS cn_scope *scope = cn_scope_begin();
  status = cn_onnx_run_named(made, names, n, o, feeds, nfeeds);
  cn_scope_end(scope);
  Py_END_ALLOW_THREADS PyObject *list = status || PyErr_Occurred() ? cnpy_raise() : PyList_New((Py_ssize_t)n);
  for (size_t i = 0; list && i < n; i++) {
    PyObject *value = from_value(made[i]);
    if (value && !PyList_SetItem(list, (Py_ssize_t)i, value)) continue;
    Py_DECREF(list);
    list = NULL;
  }
  for (size_t i = 0; !status && i < n; i++) cn_onnx_value_release(made[i]);
  PyMem_Free(made);
  return list;
}

/* run(dict of values, list of names or None) -> list of values */
static PyObject *onnx_run(PyObject *self, PyObject *args)
{
  PyObject *given, *wanted, *result = NULL;
  const cn_onnx *o = cnpy_held(self);
  if (!PyArg_ParseTuple(args, "O!O:run", &PyDict_Type, &given, &wanted)) return NULL;
  bool some = wanted != Py_None;
  if (some && !PyList_Check(wanted)) return cnpy_fail(PyExc_TypeError, "run: names must be a list");
  size_t n = some ? (size_t)PyList_Size(wanted) : cn_onnx_outputs(o), nfeeds = (size_t)PyDict_Size(given);
  PyObject *items = PyDict_Items(given);
  const char **names = some ? cnpy_texts(wanted, (Py_ssize_t)n) : NULL;
  cn_onnx_feed *feeds = items ? PyMem_Calloc(nfeeds + 1, sizeof *feeds) : NULL;
  if (items && !feeds) PyErr_NoMemory();
  if (feeds && (!some || names) && !to_feeds(feeds, items)) result = run(o, feeds, nfeeds, names, n);
  for (size_t i = 0; feeds && i < nfeeds; i++) cn_onnx_value_release(feeds[i].value);
  PyMem_Free(feeds);
  PyMem_Free((void *)names);
  Py_XDECREF(items);
  return result;
}

/* ---- what it takes and gives ---- */

/* A size: a number, a name, or None. */
static PyObject *size_of(const cn_onnx_info *info, int i)
{
  if (info->shape[i] >= 0) return PyLong_FromLongLong(info->shape[i]);
  if (info->symbols[i]) return PyUnicode_FromString(info->symbols[i]);
  Py_RETURN_NONE;
}

/* (name, kind, dtype or None, shape or None, optional) */
static PyObject *describe(const cn_onnx_info *info)
{
  static const char *const kinds[] = {"none", "tensor", "strings", "sequence", "map"};
  PyObject *shape = info->ndim < 0 ? Py_NewRef(Py_None) : PyTuple_New(info->ndim);
  for (int i = 0; shape && i < info->ndim; i++) {
    PyObject *size = size_of(info, i);
    if (size && !PyTuple_SetItem(shape, i, size)) continue;
    Py_DECREF(shape);
    return NULL;
  }
  PyObject *dtype = info->dtype ? cnpy_dtype_of(info->dtype) : Py_NewRef(Py_None);
  return Py_BuildValue("(ssNNO)", info->name, kinds[info->kind], dtype, shape, info->optional ? Py_True : Py_False);
}

static PyObject *list_infos(const cn_onnx *o, size_t n, int (*at)(cn_onnx_info *, const cn_onnx *, size_t))
{
  PyObject *list = PyList_New((Py_ssize_t)n);
  for (size_t i = 0; list && i < n; i++) {
    cn_onnx_info info;
    PyObject *said = at(&info, o, i) ? cnpy_raise() : describe(&info);
    if (said && !PyList_SetItem(list, (Py_ssize_t)i, said)) continue;
    Py_DECREF(list);
    return NULL;
  }
  return list;
}

static PyObject *onnx_inputs(PyObject *self, PyObject *Py_UNUSED(unused))
{
  return list_infos(cnpy_held(self), cn_onnx_inputs(cnpy_held(self)), cn_onnx_input_at);
}

static PyObject *onnx_outputs(PyObject *self, PyObject *Py_UNUSED(unused))
{
  return list_infos(cnpy_held(self), cn_onnx_outputs(cnpy_held(self)), cn_onnx_output_at);
}

static PyObject *onnx_opset(PyObject *self, PyObject *domain)
{
  const char *name = PyUnicode_AsUTF8AndSize(domain, NULL);
  return name ? PyLong_FromLongLong(cn_onnx_opset(cnpy_held(self), name)) : NULL;
}

static PyObject *onnx_metadata(PyObject *self, PyObject *key)
{
  const char *name = PyUnicode_AsUTF8AndSize(key, NULL),
             *value = name ? cn_onnx_metadata(cnpy_held(self), name) : NULL;
  if (!name) return NULL;
  if (!value) Py_RETURN_NONE;
  return PyUnicode_FromString(value);
}

/* ---- training it further, and keeping it as a graph ---- */

static PyObject *onnx_weights(PyObject *self, PyObject *Py_UNUSED(unused))
{
  const cn_onnx *o = cnpy_held(self);
  PyObject *list = PyList_New((Py_ssize_t)cn_onnx_weights(o));
  for (size_t i = 0; list && i < cn_onnx_weights(o); i++) {
    cn_onnx_weight w;
    PyObject *row = cn_onnx_weight_at(&w, o, i)
                        ? cnpy_raise()
                        : Py_BuildValue("(ssNO)", w.name, w.path, cnpy_wrap_borrowed(w.tensor),
                                        w.trained ? Py_True : Py_False);
    if (row && !PyList_SetItem(list, (Py_ssize_t)i, row)) continue;
    Py_DECREF(list);
    return NULL;
  }
  return list;
}

static PyObject *onnx_graph(PyObject *self, PyObject *tensors)
{
  cn_onnx *o = cnpy_held(self);
  size_t n = cn_onnx_inputs(o);
  if (!PyList_Check(tensors) || (size_t)PyList_Size(tensors) != n)
    return cnpy_fail(PyExc_TypeError, "graph: it takes a list of a tensor for each input");
  cn_tensor **in = PyMem_Calloc(n + 1, sizeof *in);
  bool good = in != NULL;
  for (size_t i = 0; good && i < n; i++) {
    PyObject *t = PyList_GetItem(tensors, (Py_ssize_t)i);
    if ((good = cnpy_is_tensor(t))) in[i] = cnpy_t(t);
  }
  cn_scope *scope = cn_scope_begin();
  cn_graph *g = good ? cn_onnx_graph(o, in) : NULL;
  cn_scope_end(scope);
  bool made = in != NULL;
  PyMem_Free(in);
  if (!made) return PyErr_NoMemory();
  return good ? cnpy_graph_hold(g) : cnpy_fail(PyExc_TypeError, "graph: an input is no tensor");
}

/* ---- functions of the module ---- */

/* _onnx_tensor(bytes) -> value: a TensorProto by itself */
static PyObject *read_tensor(PyObject *Py_UNUSED(module), PyObject *bytes)
{
  char *data;
  Py_ssize_t size;
  if (PyBytes_AsStringAndSize(bytes, &data, &size)) return NULL;
  cn_onnx_value *v = cn_onnx_value_read(data, (size_t)size);
  PyObject *made = v ? from_value(v) : cnpy_raise();
  cn_onnx_value_release(v);
  return made;
}

/* _onnx_operators() -> list of (domain, name, since) */
static PyObject *operators(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
  const char *name, *domain;
  int64_t since;
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && (name = cn_onnx_operator_at(i, &domain, &since)); i++) {
    PyObject *row = Py_BuildValue("(ssL)", domain, name, (long long)since);
    if (!row || PyList_Append(list, row)) Py_CLEAR(list);
    Py_XDECREF(row);
  }
  return list;
}

static PyMethodDef methods[] = {
    {"run", onnx_run, METH_VARARGS, "run(values, names)\n--\n\nThe outputs of these names, or all of them."},
    {"inputs", onnx_inputs, METH_NOARGS, "inputs()\n--\n\n(name, kind, dtype, shape, optional) of each."},
    {"outputs", onnx_outputs, METH_NOARGS, "outputs()\n--\n\nThe same of the outputs."},
    {"opset", onnx_opset, METH_O, "opset(domain)\n--\n\nThe version of a domain's operators; 0: none."},
    {"weights", onnx_weights, METH_NOARGS, "weights()\n--\n\n(name, path, tensor, trained) of each."},
    {"graph", onnx_graph, METH_O, "graph(tensors)\n--\n\nIt as a GraphBase, for all sizes that it leaves open."},
    {"metadata", onnx_metadata, METH_O, "metadata(key)\n--\n\nA text of the file's metadata, or None."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot slots[] = {{Py_tp_new, (void *)onnx_new},
                              {Py_tp_dealloc, (void *)onnx_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_doc, (void *)"A model from an ONNX file."},
                              {0, NULL}};
static PyType_Spec spec = {"cairn._C.Onnx", sizeof(cnpy_holder), 0, Py_TPFLAGS_DEFAULT, slots};
static PyMethodDef functions[] = {
    {"_onnx_tensor", read_tensor, METH_O, "_onnx_tensor(bytes) -> value"},
    {"_onnx_operators", operators, METH_NOARGS, "_onnx_operators() -> list of (domain, name, since)"},
    {NULL, NULL, 0, NULL},
};

int cnpy_add_onnx(PyObject *module)
{
  onnx_type = cnpy_add_type(module, &spec);
  return onnx_type ? PyModule_AddFunctions(module, functions) : -1;
}
