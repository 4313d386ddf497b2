/* nn_attr.c: attributes of modules: what is assigned goes to the tree, to the class's settings in C, or stays Python's.
 *
 * Place in the flow: nn.c's type has the functions. Invariant: names of parameters, buffers and children are found in
 * the object's own dictionary, so that reading them takes no detour; only assigning looks at kinds. */
#include "nn.h"

static int listed(const module_object *o, PyObject *name)
{
  PyObject *const lists[] = {o->parameters, o->buffers, o->modules};
  for (int i = 0; i < 3; i++) {
    int there = lists[i] ? PyDict_Contains(lists[i], name) : 0;
    if (there) return there;
  }
  return 0;
}

/* An argument that the class was made with: what is assigned reaches C. */
static int set_argument(const module_object *o, int i, PyObject *value)
{
  const cnpy_form *made = &o->cls->make;
  cnpy_form *one = PyMem_Calloc(1, sizeof *one);
  cnpy_bound b;
  if (!one) return PyErr_NoMemory(), -1;
  one->info.name = made->info.name;
  one->info.sig = made->info.sig;
  one->info.nparams = one->npositional = 1;
  one->info.params[0] = made->info.params[i];
  one->kind[0] = made->kind[i];
  one->elements_optional[0] = made->elements_optional[i];
  one->names[0] = made->names[i];
  b.strict = false;
  b.heap = NULL;
  PyObject *given = made->kind[i] == CNPY_BOOL && PyLong_Check(value) ? (PyObject_IsTrue(value) ? Py_True : Py_False)
                                                                      : value;
  int fits = cnpy_bind(&b, one, 0, NULL, &given, 1, NULL), status = -1;
  if (fits == 0) cnpy_misfit(&b, one, o->cls->cls->name);
  if (fits == 1 && !(status = cn_module_set_arg(o->m, made->info.params[i].name, b.value[0]))) status = 0;
  else if (fits == 1) cnpy_raise();
  cnpy_unbind(&b);
  PyMem_Free(one);
  return status ? -1 : 0;
}

static int argument_index(const module_object *o, PyObject *name)
{
  if (!o->cls->has_make) return -1;
  for (int i = 0; i < o->cls->make.info.nparams; i++)
    if (o->cls->make.names[i] == name || PyUnicode_Compare(o->cls->make.names[i], name) == 0) return i;
  return -1;
}

/* What is no part of the tree: settings of the class, forward, tensors in the place of removed parameters. */
static int set_plain(PyObject *self, PyObject *name, PyObject *value)
{
  module_object *o = cnpy_mo(self);
  if (PyUnicode_Compare(name, cnpy_nn.str_forward) == 0) {
    o->patched = value != NULL;
    if (cnpy_choose_trampoline(self)) return -1;
  } else if (value && !o->cls->foreign) {
    int i = argument_index(o, name);
    if (cnpy_is_tensor(value)) {
      const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
      if (text) cn_module_set_removed(o->m, text, cnpy_t(value));
    } else if (i >= 0 && o->cls->make.kind[i] != CNPY_MODULE && o->cls->make.kind[i] != CNPY_TENSOR &&
               !PyCallable_Check(value) && set_argument(o, i, value))
      return -1;
  }
  return PyObject_GenericSetAttr(self, name, value);
}

static int set_attr(PyObject *self, PyObject *name, PyObject *value)
{
  module_object *o = cnpy_mo(self);
  bool part = value && (cnpy_is_module(value) || (cnpy_is_tensor(value) && !Py_IS_TYPE(value, cnpy.tensor)));
  if (!o->m && !part) return PyObject_GenericSetAttr(self, name, value);
  if (!cnpy_started(self)) return -1;
  int known = part ? 1 : listed(o, name);
  if (known < 0) return -1;
  if (!known) return set_plain(self, name, value);
  PyObject *done = value ? PyObject_CallMethod(self, "_assign", "OO", name, value)
                         : PyObject_CallMethod(self, "_remove", "O", name);
  Py_XDECREF(done);
  return done ? 0 : -1;
}

/* Methods, not the type's slot: a program may then go past them with object.__setattr__, to hide a module from its
 * owner's tree. */
PyObject *cnpy_module_setattr(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
  if (n != 2) return cnpy_fail(PyExc_TypeError, "__setattr__() takes a name and a value");
  return set_attr(self, args[0], args[1]) ? NULL : Py_NewRef(Py_None);
}

PyObject *cnpy_module_delattr(PyObject *self, PyObject *name)
{
  return set_attr(self, name, NULL) ? NULL : Py_NewRef(Py_None);
}

/* _set_attribute(name, value): what setattr does with what is no part of the tree */
PyObject *cnpy_set_attribute(PyObject *self, PyObject *args)
{
  PyObject *name, *value;
  if (!cnpy_started(self) || !PyArg_ParseTuple(args, "UO:_set_attribute", &name, &value)) return NULL;
  if (set_plain(self, name, value)) return NULL;
  Py_RETURN_NONE;
}

/* _set_removed(name, tensor): what the class in C computes with in the place of a parameter that was removed */
PyObject *cnpy_set_removed(PyObject *self, PyObject *args)
{
  PyObject *tensor;
  const char *name;
  if (!cnpy_started(self) || !PyArg_ParseTuple(args, "sO!:_set_removed", &name, cnpy.tensor_base, &tensor)) return NULL;
  return PyBool_FromLong(cn_module_set_removed(cnpy_m(self), name, cnpy_t(tensor)));
}

static PyObject *get_training(PyObject *self, void *Py_UNUSED(closure))
{
  return PyBool_FromLong(!cnpy_m(self) || cn_module_training(cnpy_m(self)));
}

static int set_training(PyObject *self, PyObject *value, void *Py_UNUSED(closure))
{
  int on = value ? PyObject_IsTrue(value) : -1;
  if (on < 0 || !cnpy_started(self)) return -1;
  cn_module_set_training(cnpy_m(self), on);
  return 0;
}

static PyObject *get_dictionary(PyObject *self, void *which)
{
  module_object *o = cnpy_mo(self);
  PyObject *const lists[] = {o->parameters, o->buffers, o->modules};
  PyObject *list = lists[(size_t)which];
  if (list) return Py_NewRef(list);
  cnpy_started(self);
  if (!PyErr_Occurred()) cnpy_fail(PyExc_AttributeError, "the module is being taken down");
  return NULL;
}

/* module._parameters = {...}: the dictionary stays the object that writes to C, and takes those entries. */
static int set_dictionary(PyObject *self, PyObject *value, void *which)
{
  PyObject *list = get_dictionary(self, which), *done = NULL;
  if (list && !value) cnpy_fail(PyExc_AttributeError, "a module's dictionaries cannot be deleted");
  else if (list) done = PyObject_CallMethod(list, "become", "O", value);
  Py_XDECREF(list);
  Py_XDECREF(done);
  return done ? 0 : -1;
}

static PyObject *get_class_name(PyObject *self, void *Py_UNUSED(closure))
{
  module_object *o = cnpy_mo(self);
  if (!o->m || o->cls->foreign) Py_RETURN_NONE;
  return PyUnicode_FromString(o->m->cls->name);
}

PyGetSetDef cnpy_module_getset[] = {
    {"training", get_training, set_training, "Is it in training mode, not evaluation?", NULL},
    {"_parameters", get_dictionary, set_dictionary, "Parameters by name.", (void *)0},
    {"_buffers", get_dictionary, set_dictionary, "Buffers by name.", (void *)1},
    {"_modules", get_dictionary, set_dictionary, "Children by name.", (void *)2},
    {"_class_name", get_class_name, NULL, "The name of its class in C; None for one written in Python.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
