/* compile_key.c: what compiled functions depend on of modules and objects, as bytes.
 *
 * Place in the flow: cairn/compiler.py asks at every call, and makes a new program where the bytes are others. Of a
 * module of the library the tree in C has everything (cn_module_key); one that is written in Python, or has hooks, also
 * reads its attributes: constants, tensors by their identity, lists, tuples and dictionaries of those. Invariant: other
 * objects are baked into programs, and count as equal; a tensor's address is its own as long as a program reads it. */
#include <string.h>

#include "nn.h"

enum { DEPTH = 4, MOST = 100 }; /* of nested containers, and their elements: larger ones are data */

typedef struct words {
  uint64_t few[512], *v; /* v: few, or owned */
  size_t n, cap;
  PyObject *names; /* of attributes that count: a set */
} words;

static void start(words *w, PyObject *names)
{
  w->v = w->few;
  w->n = 0;
  w->cap = sizeof w->few / sizeof *w->few;
  w->names = names;
}

static void end(words *w)
{
  if (w->v != w->few) PyMem_Free(w->v);
}

/* Room for n more; 0 with the exception set. */
static int reserve(words *w, size_t n)
{
  if (w->n + n <= w->cap) return 1;
  size_t cap = 2 * (w->n + n);
  uint64_t *more = PyMem_Malloc(cap * sizeof *more);
  if (!more) return PyErr_NoMemory(), 0;
  memcpy(more, w->v, w->n * sizeof *more);
  end(w);
  w->v = more;
  w->cap = cap;
  return 1;
}

static int put(words *w, char kind, uint64_t word)
{
  if (!reserve(w, 2)) return 0;
  w->v[w->n++] = (uint64_t)kind;
  w->v[w->n++] = word;
  return 1;
}

static int put_pointer(words *w, char kind, const void *p) { return put(w, kind, (uint64_t)(uintptr_t)p); }

static int put_hash(words *w, char kind, PyObject *o)
{
  Py_hash_t h = PyObject_Hash(o);
  return h == -1 && PyErr_Occurred() ? 0 : put(w, kind, (uint64_t)h);
}

static int put_float(words *w, PyObject *o)
{
  double d = PyFloat_AsDouble(o);
  uint64_t bits;
  memcpy(&bits, &d, sizeof bits);
  return put(w, 'f', bits);
}

static int put_int(words *w, PyObject *o)
{
  int large;
  long long i = PyLong_AsLongLongAndOverflow(o, &large);
  return large ? put_hash(w, 'I', o) : put(w, 'i', (uint64_t)i);
}

static int put_value(words *w, PyObject *o, int depth);

static int put_list(words *w, PyObject *o, int depth)
{
  bool list = PyList_Check(o);
  Py_ssize_t n = list ? PyList_Size(o) : PyTuple_Size(o);
  if (depth == DEPTH || n > MOST) return put(w, '?', 0);
  int good = put(w, list ? 'l' : 't', (uint64_t)n);
  for (Py_ssize_t i = 0; i < n && good; i++)
    good = put_value(w, list ? PyList_GetItem(o, i) : PyTuple_GetItem(o, i), depth + 1);
  return good;
}

static int put_dict(words *w, PyObject *o, int depth)
{
  PyObject *key, *value;
  Py_ssize_t at = 0, n = PyDict_Size(o);
  if (depth == DEPTH || n > MOST) return put(w, '?', 0);
  int good = put(w, 'd', (uint64_t)n);
  while (good && PyDict_Next(o, &at, &key, &value))
    good = put_value(w, key, depth + 1) && put_value(w, value, depth + 1);
  return good;
}

static int put_value(words *w, PyObject *o, int depth)
{
  if (o == Py_None || PyBool_Check(o)) return put_pointer(w, 'c', o);
  if (PyFloat_CheckExact(o)) return put_float(w, o);
  if (PyLong_CheckExact(o)) return put_int(w, o);
  if (PyUnicode_CheckExact(o)) return put_hash(w, 's', o);
  if (cnpy_is_tensor(o)) return put_pointer(w, 'T', cnpy_t(o));
  if (cnpy_is_dtype(o) || cnpy_is_device(o)) return put_hash(w, 'p', o);
  if (PyList_CheckExact(o) || PyTuple_CheckExact(o)) return put_list(w, o, depth);
  if (PyDict_Check(o)) return put_dict(w, o, depth);
  return put(w, '?', 0);
}

/* The attributes of a module that count; its parts are in the tree in C. */
static int put_attributes(words *w, PyObject *object)
{
  PyObject *dict = PyObject_GetAttr(object, cnpy_nn.str_dict), *name, *value;
  Py_ssize_t at = 0;
  int good = dict != NULL;
  while (good && PyDict_Next(dict, &at, &name, &value)) {
    int counts = cnpy_is_module(value) ? 0 : PySet_Contains(w->names, name);
    good = !counts || (counts > 0 && put_hash(w, 'n', name) && put_value(w, value, 0));
  }
  Py_XDECREF(dict);
  return good;
}

static int put_python(words *w, const cn_module *m)
{
  PyObject *o = cn_module_object(m);
  const module_object *own = o ? cnpy_mo(o) : NULL;
  if (own && (own->cls->foreign || !own->native || own->hooked || own->patched) &&
      !(put_pointer(w, 'm', m) && put_attributes(w, o)))
    return 0;
  for (size_t i = 0; i < cn_module_nchildren(m); i++)
    if (cn_module_child(m, i) && !put_python(w, cn_module_child(m, i))) return 0;
  return 1;
}

static int put_module(words *w, const cn_module *m)
{
  size_t bytes = cn_module_key(w->v, w->cap * sizeof *w->v, m);
  if (bytes > w->cap * sizeof *w->v) {
    if (!reserve(w, bytes / sizeof *w->v)) return 0;
    cn_module_key(w->v, w->cap * sizeof *w->v, m);
  }
  w->n = bytes / sizeof *w->v;
  return put_python(w, m);
}

static PyObject *as_bytes(words *w, int good)
{
  PyObject *result = good ? PyBytes_FromStringAndSize((const char *)w->v, (Py_ssize_t)(w->n * sizeof *w->v)) : NULL;
  end(w);
  return result;
}

/* _module_key(module, names) -> bytes: others where parameters, buffers, parts, modes or those attributes are. */
static PyObject *module_key(PyObject *Py_UNUSED(self), PyObject *args)
{
  PyObject *module, *names;
  words w;
  if (!PyArg_ParseTuple(args, "O!O!:_module_key", cnpy.module_base, &module, &PySet_Type, &names)) return NULL;
  start(&w, names);
  return as_bytes(&w, put_module(&w, cnpy_m(module)));
}

/* _attribute_keys(object) -> {name: bytes} */
static PyObject *attribute_keys(PyObject *Py_UNUSED(self), PyObject *object)
{
  PyObject *dict = PyObject_GetAttr(object, cnpy_nn.str_dict), *result = dict ? PyDict_New() : NULL, *name, *value;
  Py_ssize_t at = 0;
  bool good = result != NULL;
  while (good && PyDict_Next(dict, &at, &name, &value)) {
    words w;
    start(&w, NULL);
    PyObject *bytes = as_bytes(&w, put_value(&w, value, 0));
    good = bytes && !PyDict_SetItem(result, name, bytes);
    Py_XDECREF(bytes);
  }
  Py_XDECREF(dict);
  if (!good) Py_CLEAR(result);
  return result;
}

PyMethodDef cnpy_compile_key_functions[] = {
    {"_module_key", module_key, METH_VARARGS, "Bytes that are others where what a program depends on is."},
    {"_attribute_keys", attribute_keys, METH_O, "The same for each attribute of an object."},
    {NULL, NULL, 0, NULL},
};
