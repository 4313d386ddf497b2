/* nn_tree.c: the tree in C behind a module's dictionaries: what they are told is written there.
 *
 * Place in the flow: cairn/nn/_entries.py calls _module_put and _module_drop from its dictionaries.
 * Invariant: a handle keeps the module in C and nothing of Python, so dictionaries make no cycles. */
#include <string.h>

#include "nn.h"

enum kind { PARAMETER, BUFFER, CHILD };

static void drop_handle(PyObject *capsule) { cn_module_release(PyCapsule_GetPointer(capsule, "cairn.module")); }

PyObject *cnpy_tree_handle(cn_module *m)
{
  PyObject *capsule = PyCapsule_New(cn_module_keep(m), "cairn.module", drop_handle);
  if (!capsule) cn_module_release(m);
  return capsule;
}

static long child_index(const cn_module *m, const char *name)
{
  for (size_t i = 0; i < cn_module_nchildren(m); i++)
    if (!strcmp(cn_module_child_name(m, i), name)) return (long)i;
  return -1;
}

/* The slot of that name; -1: none. */
static long slot_index(const cn_module *m, const char *name, cn_named *slot)
{
  for (size_t i = 0; cn_module_slot_at(slot, m, i); i++)
    if (slot->name && !strcmp(slot->name, name)) return (long)i;
  return -1;
}

static int put_child(cn_module *m, const char *name, PyObject *value)
{
  cn_named slot;
  long at = child_index(m, name);
  if (slot_index(m, name, &slot) >= 0 && cn_module_remove(m, name)) return cn_err();
  if (value == Py_None) return at < 0 ? CN_OK : cn_module_remove(m, name);
  cn_module *child = cn_module_keep(cnpy_m(value));
  return at < 0 ? cn_module_add(m, name, child) : cn_module_set_child(m, (size_t)at, child);
}

/* Added absent and then set: adding would make it require a gradient. */
static int put_slot(cn_module *m, const char *name, PyObject *value, enum kind kind, bool persistent)
{
  cn_named slot;
  cn_tensor *t = value == Py_None ? NULL : cnpy_t(value);
  if (child_index(m, name) >= 0 && cn_module_remove(m, name)) return cn_err();
  long at = slot_index(m, name, &slot);
  if (at >= 0 && (slot.buffer != (kind == BUFFER) || (slot.buffer && slot.persistent != persistent))) {
    if (cn_module_remove(m, name)) return cn_err();
    at = -1;
  }
  if (at < 0)
    at = kind == BUFFER ? cn_module_add_buffer(m, name, NULL, persistent) : cn_module_add_parameter(m, name, NULL);
  return at < 0 ? (int)at : cn_module_set_slot(m, (size_t)at, t);
}

/* _module_put(handle, kind, name, value, persistent) */
static PyObject *module_put(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *handle, *value;
  const char *name;
  int kind, persistent;
  if (!PyArg_ParseTuple(args, "OisOp:_module_put", &handle, &kind, &name, &value, &persistent)) return NULL;
  cn_module *m = PyCapsule_GetPointer(handle, "cairn.module");
  if (!m) return NULL;
  bool fits = value == Py_None || (kind == CHILD ? cnpy_is_module(value) && cnpy_m(value) : cnpy_is_tensor(value));
  if (!fits)
    return PyErr_Format(PyExc_TypeError, "'%s' must be %s or None, not %R", name,
                        kind == CHILD ? "a Module whose __init__ has run" : "a Tensor", (PyObject *)Py_TYPE(value));
  int status = kind == CHILD ? put_child(m, name, value) : put_slot(m, name, value, (enum kind)kind, persistent);
  if (status < 0) return cnpy_raise();
  Py_RETURN_NONE;
}

/* _module_drop(handle, name): whether the class in C counts on the place is C's to know. */
static PyObject *module_drop(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *handle;
  const char *name;
  cn_named slot;
  if (!PyArg_ParseTuple(args, "Os:_module_drop", &handle, &name)) return NULL;
  cn_module *m = PyCapsule_GetPointer(handle, "cairn.module");
  if (!m) return NULL;
  if (child_index(m, name) < 0 && slot_index(m, name, &slot) < 0) Py_RETURN_NONE;
  if (cn_module_remove(m, name)) return cnpy_raise();
  Py_RETURN_NONE;
}

PyMethodDef cnpy_nn_tree_functions[] = {
    {"_module_put", module_put, METH_VARARGS, "Sets a parameter (0), buffer (1) or child (2) in the tree in C."},
    {"_module_drop", module_drop, METH_VARARGS, "Removes a part from the tree in C."},
    {NULL, NULL, 0, NULL},
};
