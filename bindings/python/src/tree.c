/* tree.c: nested Python data as trees and back (state dictionaries, checkpoints), and values of signatures as Python
 * objects (what a layer or an optimiser was made with).
 *
 * Invariant: a tensor in a tree is the very tensor of the Python object, shared, never copied. */
#include "cairn_py.h"

#include <string.h>

/* ---- trees -> Python ---- */

static PyObject *list_of(const cn_tree *tree, bool tuple)
{
  Py_ssize_t n = (Py_ssize_t)cn_tree_size(tree);
  PyObject *made = tuple ? PyTuple_New(n) : PyList_New(n);
  for (Py_ssize_t i = 0; made && i < n; i++) {
    PyObject *item = cnpy_from_tree(cn_tree_at(tree, (size_t)i));
    if (!item) Py_CLEAR(made);
    else if (tuple) PyTuple_SetItem(made, i, item);
    else PyList_SetItem(made, i, item);
  }
  return made;
}

/* Borrowed; NULL with the error set. */
static PyObject *ordered_dict(void)
{
  static PyObject *type;
  if (!type) {
    PyObject *module = PyImport_ImportModule("collections");
    type = module ? cnpy_own(PyObject_GetAttrString(module, "OrderedDict")) : NULL;
    Py_XDECREF(module);
  }
  return type;
}

static PyObject *dict_of(const cn_tree *tree)
{
  PyObject *type = cn_tree_is_ordered(tree) ? ordered_dict() : (PyObject *)&PyDict_Type;
  PyObject *made = type ? PyObject_CallNoArgs(type) : NULL;
  for (size_t i = 0; made && i < cn_tree_size(tree); i++) {
    int64_t index = 0;
    const char *text = cn_tree_key(tree, i, &index);
    PyObject *key = text ? PyUnicode_FromString(text) : PyLong_FromLongLong(index);
    PyObject *value = key ? cnpy_from_tree(cn_tree_at(tree, i)) : NULL;
    if (!value || PyObject_SetItem(made, key, value)) Py_CLEAR(made);
    Py_XDECREF(key);
    Py_XDECREF(value);
  }
  return made;
}

PyObject *cnpy_from_tree(const cn_tree *tree)
{
  switch (cn_tree_kind_of(tree)) {
  case CN_TREE_BOOL: return PyBool_FromLong(cn_tree_as_bool(tree, false));
  case CN_TREE_INT: return PyLong_FromLongLong(cn_tree_as_int(tree, 0));
  case CN_TREE_FLOAT: return PyFloat_FromDouble(cn_tree_as_float(tree, 0));
  case CN_TREE_STR: {
    const char *text = cn_tree_as_str(tree, "");
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)cn_tree_str_size(tree), "surrogateescape");
  }
  case CN_TREE_TENSOR: return cnpy_wrap_borrowed(cn_tree_as_tensor(tree));
  case CN_TREE_LIST: return list_of(tree, false);
  case CN_TREE_TUPLE: return list_of(tree, true);
  case CN_TREE_DICT: return dict_of(tree);
  case CN_TREE_NONE: break;
  }
  return Py_NewRef(Py_None);
}

/* ---- Python -> trees ---- */

/* A tree that could not be made or filled: the pending error becomes the exception. */
static cn_tree *checked(cn_tree *tree, int status)
{
  if (tree && !status) return tree;
  cn_tree_free(tree);
  cnpy_raise();
  return NULL;
}

static cn_tree *text_tree(PyObject *o)
{
  PyObject *bytes = PyUnicode_AsEncodedString(o, "utf-8", "surrogateescape");
  char *text;
  Py_ssize_t n;
  cn_tree *tree = NULL;
  if (bytes && !PyBytes_AsStringAndSize(bytes, &text, &n)) tree = checked(cn_tree_str_bytes(text, (size_t)n), 0);
  Py_XDECREF(bytes);
  return tree;
}

static cn_tree *sequence_tree(PyObject *o)
{
  cn_tree *tree = checked(PyTuple_Check(o) ? cn_tree_tuple() : cn_tree_list(), 0);
  Py_ssize_t n = PySequence_Size(o);
  for (Py_ssize_t i = 0; tree && i < n; i++) {
    PyObject *item = PySequence_GetItem(o, i);
    cn_tree *below = item ? cnpy_to_tree(item) : NULL;
    Py_XDECREF(item);
    if (!below) {
      cn_tree_free(tree);
      return NULL;
    }
    tree = checked(tree, cn_tree_push(tree, below));
  }
  return tree;
}

static cn_tree *put(cn_tree *tree, PyObject *key, cn_tree *value)
{
  if (PyLong_Check(key)) {
    int64_t index = PyLong_AsLongLong(key);
    if (index == -1 && PyErr_Occurred()) {
      cn_tree_free(value);
      cn_tree_free(tree);
      return NULL;
    }
    return checked(tree, cn_tree_put_index(tree, index, value));
  }
  const char *text = PyUnicode_Check(key) ? PyUnicode_AsUTF8AndSize(key, NULL) : NULL;
  if (text) return checked(tree, cn_tree_put(tree, text, value));
  if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "keys must be str or int, not %R", (PyObject *)Py_TYPE(key));
  cn_tree_free(value);
  cn_tree_free(tree);
  return NULL;
}

static cn_tree *mapping_tree(PyObject *o)
{
  cn_tree *tree = checked(cn_tree_dict(), 0);
  PyObject *items = tree ? PyMapping_Items(o) : NULL;
  Py_ssize_t n = items ? PyList_Size(items) : 0;
  if (!items) {
    cn_tree_free(tree);
    return NULL;
  }
  cn_tree_set_ordered(tree, ordered_dict() && (PyObject *)Py_TYPE(o) == ordered_dict());
  for (Py_ssize_t i = 0; tree && i < n; i++) {
    PyObject *pair = PyList_GetItem(items, i);
    cn_tree *value = cnpy_to_tree(PyTuple_GetItem(pair, 1));
    if (value) tree = put(tree, PyTuple_GetItem(pair, 0), value);
    else {
      cn_tree_free(tree);
      tree = NULL;
    }
  }
  Py_DECREF(items);
  return tree;
}

static cn_tree *number_tree(PyObject *o)
{
  cn_value v;
  int fits = cnpy_to_number(o, &v);
  if (fits == 1 && v.tag == CN_V_FLOAT) return checked(cn_tree_float(v.u.f), 0);
  if (fits == 1) return checked(v.tag == CN_V_BOOL ? cn_tree_bool(v.u.i != 0) : cn_tree_int(v.u.i), 0);
  if (!fits)
    PyErr_Format(PyExc_TypeError, "only tensors, numbers, texts, None and lists and dictionaries of them can be saved, "
                 "not %R", (PyObject *)Py_TYPE(o));
  return NULL;
}

cn_tree *cnpy_to_tree(PyObject *o)
{
  cn_tree *tree = NULL;
  if (o == Py_None) return checked(cn_tree_none(), 0);
  if (cnpy_is_tensor(o)) return checked(cn_tree_tensor(cnpy_t(o)), 0);
  if (PyUnicode_Check(o)) return text_tree(o);
  bool list = PyList_Check(o) || PyTuple_Check(o);
  if (!list && (PyDict_Check(o) || PyObject_HasAttrString(o, "items"))) list = false;
  else if (!list) return number_tree(o);
  if (Py_EnterRecursiveCall(" in nested data")) return NULL;
  tree = list ? sequence_tree(o) : mapping_tree(o);
  Py_LeaveRecursiveCall();
  return tree;
}

/* ---- values of signatures ---- */

static PyObject *number_of(const cn_value *v, const char *type)
{
  if (!strncmp(type, "dtype", 5)) return v->u.i ? cnpy_dtype_of((cn_dtype)v->u.i) : Py_NewRef(Py_None);
  if (!strncmp(type, "device", 6)) return v->u.i ? cnpy_device_of((cn_device)v->u.i) : Py_NewRef(Py_None);
  return PyLong_FromLongLong(v->u.i);
}

static PyObject *tuple_of(const cn_value *v)
{
  PyObject *made = PyTuple_New(v->n);
  for (int i = 0; made && i < v->n; i++) {
    PyObject *item = v->tag == CN_V_INTS     ? PyLong_FromLongLong(v->u.is[i])
                     : v->tag == CN_V_FLOATS ? PyFloat_FromDouble(v->u.fs[i])
                     : v->u.ts[i]            ? cnpy_wrap_borrowed(v->u.ts[i])
                                             : Py_NewRef(Py_None);
    if (!item) Py_CLEAR(made);
    else PyTuple_SetItem(made, i, item);
  }
  return made;
}

PyObject *cnpy_from_value(const cn_value *v, const char *type)
{
  switch ((cn_value_tag)v->tag) {
  case CN_V_INT: return number_of(v, type);
  case CN_V_FLOAT: return PyFloat_FromDouble(v->u.f);
  case CN_V_BOOL: return PyBool_FromLong(v->u.i != 0);
  case CN_V_STR: return PyUnicode_FromString(v->u.s);
  case CN_V_TENSOR: return v->u.t ? cnpy_wrap_borrowed(v->u.t) : Py_NewRef(Py_None);
  case CN_V_INTS:
  case CN_V_FLOATS:
  case CN_V_TENSORS: return tuple_of(v);
  default: return Py_NewRef(Py_None);
  }
}

PyObject *cnpy_from_args(const cn_args *args)
{
  PyObject *made = PyDict_New();
  const cn_signature *s = args ? cn_args_signature(args) : NULL;
  const cn_value *values = args ? cn_args_values(args) : NULL;
  for (int i = 0; made && s && i < cn_signature_size(s); i++) {
    cn_op_param p;
    PyObject *value = cn_signature_param(&p, s, i) ? cnpy_raise() : cnpy_from_value(&values[i], p.type);
    if (!value || PyDict_SetItemString(made, p.name, value)) Py_CLEAR(made);
    Py_XDECREF(value);
  }
  return made;
}
