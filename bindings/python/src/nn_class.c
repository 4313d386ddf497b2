/* nn_class.c: Python classes and classes in C: making modules by name, giving modules made in C their Python objects,
 * classes in C for those written in Python.
 *
 * Place in the flow: the generated layers call _make from __init__; cnpy_wrap_module serves zoo and files.
 * Invariant: a module has at most one Python object, which cn_module_object names as long as it lives. */
#include "nn.h"

#include <string.h>

/* ---- classes of C with their forms ---- */

static cnpy_class *known;

/* "(Tensor input) -> (Tensor output, Tensor h_n)": how many come out. */
static int count_results(const char *call)
{
  const char *made = call ? strstr(call, "->") : NULL;
  int n = 1;
  for (; made && *made; made++) n += *made == ',';
  return n;
}

cnpy_class *cnpy_class_of(const cn_module_class *cls)
{
  for (cnpy_class *c = known; c; c = c->next)
    if (c->cls == cls) return c;
  const cn_signature *make = cn_module_class_signature(cls), *call = cn_module_class_call(cls);
  cnpy_class *c = call ? PyMem_Calloc(1, sizeof *c) : NULL;
  if (!c) {
    if (call) PyErr_NoMemory();
    else cnpy_raise();
    return NULL;
  }
  c->cls = cls;
  c->has_make = make != NULL;
  c->nresults = count_results(cls->call);
  const char *text = cls->call ? cls->call : "(Tensor input) -> Tensor";
  if ((make && cnpy_form_from(&c->make, make, cls->sig)) || cnpy_form_from(&c->call, call, text)) {
    PyMem_Free(c);
    return NULL;
  }
  c->next = known;
  return known = c;
}

/* ---- attributes from arguments ---- */

/* A setting that torch keeps as it was given: one number where all are equal. */
static PyObject *as_given(const cn_value *v, PyObject *given, const char *type)
{
  if (given) return Py_NewRef(given);
  PyObject *list = cnpy_from_value(v, type);
  bool equal = v->tag == CN_V_INTS && v->n > 0;
  for (int i = 1; equal && i < v->n; i++) equal = v->u.is[i] == v->u.is[0];
  if (!list || !equal) return list;
  PyObject *one = PyTuple_GetItem(list, 0);
  Py_XINCREF(one);
  Py_DECREF(list);
  return one;
}

/* Is there a slot or child of that name? Arguments with such names ("bias") are no attributes. */
static bool has_part(const cn_module *m, const char *name)
{
  cn_named slot;
  for (size_t i = 0; cn_module_slot_at(&slot, m, i); i++)
    if (slot.name && !strcmp(slot.name, name)) return true;
  for (size_t i = 0; i < cn_module_nchildren(m); i++)
    if (!strcmp(cn_module_child_name(m, i), name)) return true;
  return false;
}

static int set_arguments(PyObject *self, PyObject *dict, const cnpy_class *c, const cnpy_bound *b)
{
  const cn_args *args = cn_module_args(cnpy_m(self));
  const cn_value *values = args ? cn_args_values(args) : NULL;
  PyObject *keep = PyObject_GetAttrString((PyObject *)Py_TYPE(self), "_given");
  int status = keep ? 0 : -1;
  for (int i = 0; !status && args && i < c->make.info.nparams; i++) {
    const cn_op_param *p = &c->make.info.params[i];
    bool place = !strcmp(p->name, "device") || !strcmp(p->name, "dtype") || *p->name == '_';
    if (place || values[i].tag == CN_V_MODULE || !strncmp(p->type, "Module", 6) || has_part(cnpy_m(self), p->name))
      continue;
    int listed = PySequence_Contains(keep, c->make.names[i]);
    PyObject *given = b && i < b->n ? b->given[i] : NULL;
    PyObject *value = listed == 1 ? as_given(&values[i], given, p->type) : cnpy_from_value(&values[i], p->type);
    if (listed < 0 || !value || PyDict_SetItem(dict, c->make.names[i], value)) status = -1;
    Py_XDECREF(value);
  }
  Py_XDECREF(keep);
  return status;
}

/* ---- adopting ---- */

/* Parameters of the trees that are being adopted, by the address of their tensor: modules that share one share its
 * object, too. Each keeps its tensor, so no address is used twice meanwhile. */
static PyObject *adopted;
static int adopting;

/* An object of class Parameter around the tensor, which is taken over. */
static PyObject *new_parameter(cn_tensor *t)
{
  PyTypeObject *type = (PyTypeObject *)(void *)cnpy_nn.parameter;
  allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  cnpy_tensor *o = (cnpy_tensor *)(void *)alloc(type, 0);
  if (!o) {
    cn_release(t);
    return NULL;
  }
  o->t = t;
  o->grad = NULL;
  return (PyObject *)o;
}

static PyObject *wrap_parameter(cn_tensor *t)
{
  PyObject *key = PyLong_FromVoidPtr(t), *o = key ? PyDict_GetItemWithError(adopted, key) : NULL;
  if (o) Py_INCREF(o);
  else if (key && !PyErr_Occurred() && (o = new_parameter(cn_keep(t))) && PyDict_SetItem(adopted, key, o)) Py_CLEAR(o);
  Py_XDECREF(key);
  return o;
}

/* Both the dictionary of its kind and the object's own, which is where attributes are found. The dictionary's own
 * method would write to C, where it stands already. */
static int list_part(PyObject *entries, PyObject *dict, const char *name, PyObject *value)
{
  int status = value ? PyDict_SetItemString(entries, name, value) : -1;
  if (!status) status = PyDict_SetItemString(dict, name, value);
  Py_XDECREF(value);
  return status;
}

static PyObject *slot_object(const cn_named *slot)
{
  if (!slot->tensor) return Py_NewRef(Py_None);
  return slot->buffer ? cnpy_wrap_borrowed(slot->tensor) : wrap_parameter(slot->tensor);
}

static int list_parts(module_object *o, PyObject *dict)
{
  cn_named slot;
  for (size_t i = 0; cn_module_slot_at(&slot, o->m, i); i++) {
    if (!slot.name) continue;
    if (slot.buffer && !slot.persistent) {
      PyObject *set = PyObject_GetAttrString(o->buffers, "transient");
      PyObject *done = set ? PyObject_CallMethod(set, "add", "s", slot.name) : NULL;
      Py_XDECREF(set);
      Py_XDECREF(done);
      if (!done) return -1;
    }
    if (list_part(slot.buffer ? o->buffers : o->parameters, dict, slot.name, slot_object(&slot))) return -1;
  }
  for (size_t i = 0; i < cn_module_nchildren(o->m); i++) {
    PyObject *child = cnpy_wrap_module(cn_module_keep(cn_module_child(o->m, i)));
    if (list_part(o->modules, dict, cn_module_child_name(o->m, i), child)) return -1;
  }
  return 0;
}

static int make_dictionaries(module_object *o, PyObject *dict)
{
  PyObject *handle = cnpy_tree_handle(o->m);
  PyObject **room[] = {&o->parameters, &o->buffers, &o->modules};
  for (int kind = 0; handle && kind < 3; kind++) {
    PyObject *made = PyObject_CallFunction(cnpy_nn.entries, "iOO", kind, handle, dict), *before = *room[kind];
    *room[kind] = made;
    Py_XDECREF(before);
    if (!made) Py_CLEAR(handle);
  }
  Py_XDECREF(handle);
  return handle ? 0 : -1;
}

/* Does C call Python for it? Where a program's class says how forward goes. */
static int choose_forward(PyObject *self, const cnpy_class *c)
{
  module_object *o = cnpy_mo(self);
  PyObject *type = (PyObject *)Py_TYPE(self), *forward = PyObject_GetAttr(type, cnpy_nn.str_forward);
  PyObject *own = forward ? PyObject_GetAttrString(type, "_own_forward") : NULL;
  int truth = own ? PyObject_IsTrue(own) : -1;
  o->native = forward == cnpy_nn.native_forward || (forward && PyObject_HasAttrString(forward, "_native"));
  cn_module_set_forward(o->m, truth == 1 && !c->foreign ? cnpy_module_trampoline : NULL);
  Py_XDECREF(forward);
  Py_XDECREF(own);
  return truth < 0 ? -1 : 0;
}

static const cnpy_class *twin_of(PyTypeObject *type);

/* Tables name a class that a program has derived from one of the library's. The name is kept with the class. */
static int show_as(PyObject *self, const cnpy_class *c)
{
  PyObject *name = c->foreign ? NULL : PyObject_GetAttrString((PyObject *)Py_TYPE(self), "__name__");
  const char *text = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
  const cnpy_class *twin = text && strcmp(text, c->cls->name) ? twin_of(Py_TYPE(self)) : NULL;
  cn_module_set_shown(cnpy_m(self), twin ? twin->cls->name : NULL);
  Py_XDECREF(name);
  return PyErr_Occurred() ? -1 : 0;
}

int cnpy_adopt(PyObject *self, cn_module *m, const cnpy_class *c, const cnpy_bound *b)
{
  module_object *o = cnpy_mo(self);
  PyObject *dict = PyObject_GetAttr(self, cnpy_nn.str_dict);
  if (o->m) cn_module_become(o->m, m); /* made anew: who holds it sees what it is now */
  else o->m = m;
  o->cls = c;
  o->patched = o->hooked = false;
  cn_module_set_object(o->m, self);
  int status = dict ? make_dictionaries(o, dict) : -1;
  if (!status) status = show_as(self, c);
  if (!status) status = choose_forward(self, c);
  if (!status) status = set_arguments(self, dict, c, b);
  if (!adopting++) adopted = PyDict_New();
  if (!status) status = adopted ? list_parts(o, dict) : -1;
  if (!--adopting) Py_CLEAR(adopted);
  Py_XDECREF(dict);
  return status;
}

/* ---- making ---- */

typedef cn_module *maker(const cn_module_class *cls, const cn_value *args, size_t n);

static PyObject *make_by(maker *make, PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
  const char *name = nargs ? PyUnicode_AsUTF8AndSize(args[0], NULL) : NULL;
  if (!name) return PyErr_Occurred() ? NULL : cnpy_fail(PyExc_TypeError, "the name of a class is missing");
  const cn_module_class *cls = cn_module_class_find(name);
  if (!cls) return cnpy_fail(PyExc_NotImplementedError, "there is no class '%s' in the library", name);
  cnpy_class *c = cnpy_class_of(cls);
  if (!c) return NULL;
  if (!c->has_make) return cnpy_fail(PyExc_TypeError, "%s cannot be made by its name", name);
  cnpy_bound b;
  b.strict = false;
  b.heap = NULL;
  int fits = cnpy_bind(&b, &c->make, 0, NULL, args + 1, nargs - 1, kwnames), status = -1;
  if (fits == 0) cnpy_misfit(&b, &c->make, name);
  if (fits == 1) {
    cn_module *m = make(cls, b.value, (size_t)b.n);
    if (!m) cnpy_raise();
    else status = cnpy_adopt(self, m, c, &b);
  }
  cnpy_unbind(&b);
  if (status) return NULL;
  Py_RETURN_NONE;
}

/* _make(name, *args, **kwargs) */
PyObject *cnpy_module_make(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
  return make_by(cn_module_make_class, self, args, nargs, kwnames);
}

/* _make_bare: without the parts that init would add */
PyObject *cnpy_module_make_bare(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
  return make_by(cn_module_new_with, self, args, nargs, kwnames);
}

/* The class in C of a class written in Python: its name, and calls that go to Python. */
static const cnpy_class *twin_of(PyTypeObject *type)
{
  PyObject *key = (PyObject *)type, *capsule = PyDict_GetItemWithError(cnpy_nn.twins, key);
  if (capsule) return PyCapsule_GetPointer(capsule, NULL);
  PyObject *name = PyErr_Occurred() ? NULL : PyObject_GetAttrString(key, "__name__");
  const char *text = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
  cn_module_class *cls = text ? PyMem_Calloc(1, sizeof *cls + strlen(text) + 1) : NULL;
  cnpy_class *c = NULL;
  if (cls) {
    char *copy = (char *)(cls + 1);
    memcpy(copy, text, strlen(text) + 1);
    *cls = (cn_module_class){
      CN_MODULE_CLASS,
      .name = copy,
      .call = "(Tensor? x0=None, Tensor? x1=None, Tensor? x2=None, Tensor? x3=None, Tensor? x4=None, "
              "Tensor? x5=None, Tensor? x6=None, Tensor? x7=None) -> (Tensor y0, Tensor y1, Tensor y2, Tensor y3, "
              "Tensor y4, Tensor y5, Tensor y6, Tensor y7)",
      .forward = cnpy_module_forward_python};
    c = cnpy_class_of(cls);
    if (!c) PyMem_Free(cls);
  }
  Py_XDECREF(name);
  if (!c) return NULL;
  c->foreign = true;
  capsule = PyCapsule_New(c, NULL, NULL);
  int status = capsule ? PyDict_SetItem(cnpy_nn.twins, key, capsule) : -1;
  Py_XDECREF(capsule);
  return status ? NULL : c;
}

/* _begin(): a module of a class written in Python */
PyObject *cnpy_module_begin(PyObject *self, PyObject *Py_UNUSED(unused))
{
  const cnpy_class *c = twin_of(Py_TYPE(self));
  if (!c) return NULL;
  cn_module *m = cn_module_new(c->cls);
  if (!m) return cnpy_raise();
  if (cnpy_adopt(self, m, c, NULL)) return NULL;
  Py_RETURN_NONE;
}

/* _copy_from(other): what other is, without its parts */
PyObject *cnpy_module_copy_from(PyObject *self, PyObject *other)
{
  if (!cnpy_is_module(other) || !cnpy_m(other)) return cnpy_fail(PyExc_TypeError, "_copy_from: expected a Module");
  cn_module *m = cn_module_copy_bare(cnpy_m(other));
  if (!m) return cnpy_raise();
  if (cnpy_adopt(self, m, cnpy_mo(other)->cls, NULL)) return NULL;
  Py_RETURN_NONE;
}

/* ---- modules made in C ---- */

/* The Python class for a name in C; a new one for names that have none. Borrowed. */
static PyObject *class_named(const char *name)
{
  PyObject *known_class = PyDict_GetItemString(cnpy_nn.classes, name);
  if (known_class) return known_class;
  PyObject *made = PyObject_CallMethod(cnpy_nn.module, "_class_for", "s", name);
  if (made && PyDict_SetItemString(cnpy_nn.classes, name, made)) Py_CLEAR(made);
  Py_XDECREF(made); /* the dictionary has it */
  return made;
}

PyObject *cnpy_wrap_module(cn_module *m)
{
  if (!m) return cnpy_raise();
  PyObject *object = cn_module_object(m);
  if (object) {
    Py_INCREF(object);
    cn_module_release(m);
    return object;
  }
  cnpy_class *c = cnpy_nn.module ? cnpy_class_of(m->cls) : NULL;
  PyObject *type = c ? class_named(m->cls->name) : NULL;
  if (!type) {
    if (!PyErr_Occurred()) cnpy_fail(PyExc_RuntimeError, "cairn.nn is not there");
    cn_module_release(m);
    return NULL;
  }
  object = PyType_GenericNew((PyTypeObject *)(void *)type, NULL, NULL);
  if (!object) cn_module_release(m);
  else if (cnpy_adopt(object, m, c, NULL)) Py_CLEAR(object);
  PyObject *done = object ? PyObject_CallMethod(object, "_wrapped", NULL) : NULL;
  if (object && !done) Py_CLEAR(object);
  Py_XDECREF(done);
  return object;
}

/* ---- what Python tells ---- */

static PyObject *set_classes(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *module, *parameter, *entries, *classes;
  if (!PyArg_ParseTuple(args, "OOOO!", &module, &parameter, &entries, &PyDict_Type, &classes)) return NULL;
  cnpy_nn.module = cnpy_own(Py_NewRef(module));
  cnpy_nn.parameter = cnpy_own(Py_NewRef(parameter));
  cnpy_nn.entries = cnpy_own(Py_NewRef(entries));
  cnpy_nn.classes = cnpy_own(Py_NewRef(classes));
  if (!cnpy_nn.module || !cnpy_nn.parameter || !cnpy_nn.entries || !cnpy_nn.classes) return NULL;
  Py_RETURN_NONE;
}

static PyObject *set_global_hooks(PyObject *Py_UNUSED(module), PyObject *on)
{
  cnpy_nn.global_hooks = PyObject_IsTrue(on) == 1;
  Py_RETURN_NONE;
}

PyMethodDef cnpy_nn_class_functions[] = {
    {"_set_module_classes", set_classes, METH_VARARGS, "Module, Parameter, a maker of dictionaries, classes by name."},
    {"_set_global_module_hooks", set_global_hooks, METH_O, "Are there hooks for all modules?"},
    {NULL, NULL, 0, NULL},
};
