/* nn.c: ModuleBase, the Python object of a module: life, calls from Python and from C. Attributes
 * are in nn_attr.c.
 *
 * Place in the flow: cairn.nn.Module, a Python class, derives from it. A call goes to the forward of the class in C,
 * or to one written in Python; C reaches the latter through the trampoline. Invariant: the object owns its module in
 * C and the three dictionaries; the module in C knows the object, and owns nothing of Python. */
#include "nn.h"

#include <cairn/profile.h>

#include "autograd.h"

enum { MOST_RESULTS = 8 };

nn_globals cnpy_nn;

/* ---- life ---- */

static int module_traverse(PyObject *self, visitproc visit, void *arg)
{
  module_object *o = cnpy_mo(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(o->parameters);
  Py_VISIT(o->buffers);
  Py_VISIT(o->modules);
  return 0;
}

static int module_clear(PyObject *self)
{
  module_object *o = cnpy_mo(self);
  Py_CLEAR(o->parameters);
  Py_CLEAR(o->buffers);
  Py_CLEAR(o->modules);
  return 0;
}

static void module_dealloc(PyObject *self)
{
  PyTypeObject *type = Py_TYPE(self);
  cn_module *m = cnpy_m(self);
  PyObject_GC_UnTrack(self);
  module_clear(self);
  if (m && cn_module_object(m) == self) cn_module_set_object(m, NULL);
  cn_module_release(m);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

int cnpy_started(PyObject *self)
{
  if (cnpy_m(self)) return 1;
  PyErr_Format(PyExc_AttributeError, "%R: Module.__init__() has not been called", (PyObject *)Py_TYPE(self));
  return 0;
}

/* ---- calls: the class's forward in C ---- */

/* A call of Python that is on its way through C, where hooks of C run: what forward is to get, and what it returned. */
typedef struct frame {
  cn_module *m;
  PyObject *forward, *args, *kwargs, *result; /* forward NULL: the class's */
  cn_tensor *given[MOST_RESULTS];
  size_t ngiven;
  bool used;
  struct frame *outer;
} frame;
static _Thread_local frame *current;
static _Thread_local cn_module *called; /* by C, whose hooks have run: the call of its object need not run them again */

/* The object that went in where it came out again; a new one otherwise. */
static PyObject *result_object(cn_tensor *t, const cnpy_bound *b)
{
  for (int i = 0; i < b->n; i++)
    if (b->value[i].tag == CN_V_TENSOR && b->value[i].u.t == t) return Py_NewRef(b->given[i]);
  return cnpy_wrap_borrowed(t);
}

static PyObject *results(cn_tensor *const *out, int n, const cnpy_bound *b)
{
  while (n > 1 && !out[n - 1]) n--;
  if (n == 1) return result_object(out[0], b);
  PyObject *tuple = PyTuple_New(n);
  for (int i = 0; tuple && i < n; i++) {
    PyObject *o = out[i] ? result_object(out[i], b) : Py_NewRef(Py_None);
    if (!o || PyTuple_SetItem(tuple, i, o)) Py_CLEAR(tuple);
  }
  return tuple;
}

static bool long_call(const cnpy_bound *b)
{
  for (int i = 0; i < b->n; i++)
    if (b->value[i].tag == CN_V_TENSOR && cn_numel(b->value[i].u.t) >= CNPY_LONG_CALL) return true;
  return false;
}

/* Through the hooks of C, where there are some; Python's have run, so a replaced forward must not run them again. */
static int run_native(module_object *o, cn_tensor **out, const cnpy_bound *b, bool hooks)
{
  size_t nout = (size_t)o->cls->nresults, n = (size_t)b->n;
  if (!hooks || (o->hooked && !cn_module_hooked(o->m))) return cn_forward_class(out, nout, o->m, b->value, n);
  frame f = {.m = o->m, .outer = current};
  if (o->hooked) current = &f;
  int status = cn_forward_values(out, nout, o->m, b->value, n);
  if (o->hooked) current = f.outer;
  return status;
}

static PyObject *native_call(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, bool hooks)
{
  module_object *o = cnpy_mo(self);
  cnpy_bound b;
  cn_tensor *out[MOST_RESULTS] = {NULL};
  PyObject *result = NULL;
  int status;
  b.strict = false;
  b.heap = NULL;
  int fits = cnpy_bind(&b, &o->cls->call, 0, NULL, args, nargs, kwnames);
  if (fits == 0) cnpy_misfit(&b, &o->cls->call, o->cls->cls->name);
  if (fits == 1) {
    cn_scope *scope = cn_scope_begin();
    if (long_call(&b)) {
      Py_BEGIN_ALLOW_THREADS
      status = run_native(o, out, &b, hooks);
      Py_END_ALLOW_THREADS
    } else status = run_native(o, out, &b, hooks);
    result = status ? cnpy_raise() : results(out, o->cls->nresults, &b);
    cn_scope_end(scope);
  }
  cnpy_unbind(&b);
  return result;
}

/* The same from a tuple and a dictionary. */
static PyObject *native_call_tuple(PyObject *self, PyObject *args, PyObject *kwargs)
{
  enum { MOST = 2 * CN_MAX_ARGS };
  PyObject *items[MOST], *key, *value, *names = NULL;
  Py_ssize_t n = PyTuple_Size(args), nkw = kwargs ? PyDict_Size(kwargs) : 0, at = 0, k = 0;
  if (n + nkw > MOST) return cnpy_fail(PyExc_TypeError, "%s: too many arguments", cnpy_mo(self)->cls->cls->name);
  for (Py_ssize_t i = 0; i < n; i++) items[i] = PyTuple_GetItem(args, i);
  if (nkw && !(names = PyTuple_New(nkw))) return NULL;
  while (nkw && PyDict_Next(kwargs, &at, &key, &value)) {
    items[n + k] = value;
    PyTuple_SetItem(names, k++, Py_NewRef(key));
  }
  PyObject *result = native_call(self, items, n, names, true);
  Py_XDECREF(names);
  return result;
}

/* forward(...): the class's, without hooks */
static PyObject *module_forward(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
  if (!cnpy_started(self)) return NULL;
  if (!cnpy_mo(self)->cls->foreign) return native_call(self, args, nargs, kwnames, false);
  PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(self), "__name__");
  if (name) PyErr_Format(PyExc_NotImplementedError, "Module [%U] is missing the required \"forward\" function", name);
  Py_XDECREF(name);
  return NULL;
}

/* ---- calls: a forward written in Python ---- */

/* The tensors in what forward returned: one, or those of a tuple or list. */
static int take_results(PyObject *result, cn_tensor **out, size_t nout)
{
  bool several = PyTuple_Check(result) || PyList_Check(result);
  Py_ssize_t n = several ? PySequence_Size(result) : 1;
  size_t k = 0;
  for (Py_ssize_t i = 0; i < n && k < nout; i++) {
    PyObject *item = several ? PySequence_GetItem(result, i) : Py_NewRef(result);
    if (item && cnpy_is_tensor(item)) out[k++] = cnpy_callback_result(item);
    Py_XDECREF(item);
  }
  if (!k) cn_err_set(CN_ERR_TYPE, "forward: Python returned no tensor");
  return (int)k;
}

static int run_frame(frame *f, cn_module *m, cn_module_call *call)
{
  f->used = true;
  if (!f->forward) return cn_forward_class(call->out, call->nout, m, call->args, call->nargs);
  f->result = PyObject_Call(f->forward, f->args, f->kwargs);
  if (!f->result) return cn_err_set(CN_ERR_VALUE, "%s: a Python exception was raised", m->cls->name);
  int n = take_results(f->result, call->out, call->nout < MOST_RESULTS ? call->nout : MOST_RESULTS);
  if (!n) cn_err_clear(); /* C's hooks see nothing, and Python gets what it returned */
  for (int i = 0; i < n; i++) f->given[i] = call->out[i];
  f->ngiven = (size_t)n;
  return CN_OK;
}

/* A call that C made: its tensors, and numbers as the signature has them. */
static PyObject *call_arguments(cn_module *m, const cn_module_call *call)
{
  cnpy_class *c = cnpy_class_of(m->cls);
  size_t n = c ? call->nargs : 0;
  while (n && (call->args[n - 1].tag == CN_V_NONE || (call->args[n - 1].tag == CN_V_TENSOR && !call->args[n - 1].u.t)))
    n--;
  PyObject *args = c ? PyTuple_New((Py_ssize_t)n) : NULL;
  for (size_t i = 0; args && i < n; i++) {
    PyObject *o = cnpy_from_value(&call->args[i], c->call.info.params[i].type);
    if (!o || PyTuple_SetItem(args, (Py_ssize_t)i, o)) Py_CLEAR(args);
  }
  return args;
}

static int call_object(PyObject *self, cn_module *m, cn_module_call *call)
{
  cn_module *outer = called;
  called = m;
  PyObject *args = call_arguments(m, call), *result = args ? PyObject_Call(self, args, NULL) : NULL;
  called = outer;
  int status = CN_OK;
  if (!result) status = cn_err_set(CN_ERR_VALUE, "%s: a Python exception was raised", m->cls->name);
  else if (!take_results(result, call->out, call->nout)) status = cn_err();
  Py_XDECREF(result);
  Py_XDECREF(args);
  return status;
}

int cnpy_module_trampoline(cn_module *m, cn_module_call *call, void *payload)
{
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *self = payload;
  frame *f = current;
  int status;
  Py_XINCREF(self);
  PyErr_Clear(); /* of an earlier call, where C went another way */
  if (f && f->m == m && !f->used) status = run_frame(f, m, call);
  else if (self) status = call_object(self, m, call);
  else status = cn_err_set(CN_ERR_VALUE, "%s: its Python object is gone", m->cls->name);
  Py_XDECREF(self);
  PyGILState_Release(gil);
  return status;
}

int cnpy_module_forward_python(cn_module *m, cn_module_call *call)
{
  return cnpy_module_trampoline(m, call, cn_module_object(m));
}

/* What Python returned, where C's hooks left it alone; their tensors otherwise. */
static PyObject *after_hooks(frame *f, cn_tensor *const *out)
{
  bool same = true;
  for (size_t i = 0; i < f->ngiven; i++) same = same && out[i] == f->given[i];
  if (same) return Py_NewRef(f->result);
  if (cnpy_is_tensor(f->result)) return cnpy_wrap_borrowed(out[0]);
  PyObject *tuple = PyTuple_New((Py_ssize_t)f->ngiven);
  for (size_t i = 0; tuple && i < f->ngiven; i++) {
    PyObject *o = cnpy_wrap_borrowed(out[i]);
    if (!o || PyTuple_SetItem(tuple, (Py_ssize_t)i, o)) Py_CLEAR(tuple);
  }
  return tuple;
}

/* Who runs when C calls it: Python, where it has hooks or a forward that is not the library's. */
int cnpy_choose_trampoline(PyObject *self)
{
  module_object *o = cnpy_mo(self);
  if (o->cls->foreign) return 0;
  PyObject *own = PyObject_GetAttrString((PyObject *)Py_TYPE(self), "_own_forward");
  int truth = own ? PyObject_IsTrue(own) : -1;
  Py_XDECREF(own);
  if (truth < 0) return -1;
  cn_module_set_forward(o->m, truth || o->hooked || o->patched ? cnpy_module_trampoline : NULL);
  return 0;
}

/* Calls forward by way of C, so that C's hooks see the call (cn_summary). */
static PyObject *through_c(PyObject *self, PyObject *forward, PyObject *args, PyObject *kwargs)
{
  frame f = {.m = cnpy_m(self), .forward = forward, .args = args, .kwargs = kwargs, .outer = current};
  cn_tensor *in[MOST_RESULTS] = {NULL}, *out[MOST_RESULTS] = {NULL};
  cn_value values[MOST_RESULTS];
  size_t n = 0;
  const cnpy_class *c = cnpy_mo(self)->cls;
  for (Py_ssize_t i = 0; i < PyTuple_Size(args) && n < MOST_RESULTS && n < (size_t)c->call.info.nparams; i++)
    if (cnpy_is_tensor(PyTuple_GetItem(args, i))) in[n] = cnpy_t(PyTuple_GetItem(args, i)), n++;
  for (size_t i = 0; i < n; i++) values[i] = cn_v_tensor(in[i]);
  cn_scope *scope = cn_scope_begin();
  current = &f;
  if (!c->foreign) cn_module_set_forward(f.m, cnpy_module_trampoline); /* the library's own, written in Python */
  int status = cn_forward_values(out, MOST_RESULTS, f.m, values, n);
  current = f.outer;
  if (cnpy_choose_trampoline(self)) status = -1;
  PyObject *returned = status || !f.result ? cnpy_raise() : after_hooks(&f, out);
  cn_scope_end(scope);
  Py_XDECREF(f.result);
  return returned;
}

/* Python's forward by itself; a graph that is captured learns whose it is. */
static PyObject *call_forward(cn_module *m, PyObject *forward, PyObject *args, PyObject *kwargs)
{
  if (!cn_tracing() && !cn_profile_on(CN_PROFILE_MODULES)) return PyObject_Call(forward, args, kwargs);
  int scope = cn_module_scope_begin(m);
  if (scope < 0) return cnpy_raise();
  PyObject *result = PyObject_Call(forward, args, kwargs);
  cn_trace_scope_end(scope);
  return result;
}

static PyObject *plain_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
  const module_object *o = cnpy_mo(self);
  if (o->native && !o->patched && !o->cls->foreign) return native_call_tuple(self, args, kwargs);
  PyObject *forward = PyObject_GetAttr(self, cnpy_nn.str_forward);
  if (!forward) return NULL;
  bool hooks = cn_module_hooked(o->m) && called != o->m;
  if (called == o->m) called = NULL;
  PyObject *result = hooks ? through_c(self, forward, args, kwargs) : call_forward(o->m, forward, args, kwargs);
  Py_DECREF(forward);
  return result;
}

static PyObject *module_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
  if (!cnpy_started(self)) return NULL;
  if (!cnpy_mo(self)->hooked && !cnpy_nn.global_hooks) return plain_call(self, args, kwargs);
  PyObject *empty = kwargs ? Py_NewRef(kwargs) : PyDict_New();
  PyObject *result = empty ? PyObject_CallMethod(self, "_call_hooked", "(OO)", args, empty) : NULL;
  Py_XDECREF(empty);
  return result;
}

/* _call_plain(args, kwargs): a call without Python's hooks */
static PyObject *call_plain(PyObject *self, PyObject *args)
{
  PyObject *tuple, *dict;
  if (!cnpy_started(self) || !PyArg_ParseTuple(args, "O!O!:_call_plain", &PyTuple_Type, &tuple, &PyDict_Type, &dict))
    return NULL;
  return plain_call(self, tuple, dict);
}

/* ---- methods ---- */

/* _set_hooked(on): Python has hooks for it; calls from C then go through Python. */
static PyObject *set_hooked(PyObject *self, PyObject *on)
{
  if (!cnpy_started(self)) return NULL;
  cnpy_mo(self)->hooked = PyObject_IsTrue(on) == 1;
  if (cnpy_choose_trampoline(self)) return NULL;
  Py_RETURN_NONE;
}

/* _set_patched(on): C asks Python for its forward, whatever its class. */
static PyObject *set_patched(PyObject *self, PyObject *on)
{
  if (!cnpy_started(self)) return NULL;
  cnpy_mo(self)->patched = PyObject_IsTrue(on) == 1;
  if (cnpy_choose_trampoline(self)) return NULL;
  Py_RETURN_NONE;
}

static PyObject *move_to(PyObject *self, PyObject *args)
{
  PyObject *device, *dtype;
  cn_device to = CN_DEVICE_DEFAULT;
  cn_dtype type = CN_DTYPE_NONE;
  int status;
  if (!cnpy_started(self) || !PyArg_ParseTuple(args, "OO:_to", &device, &dtype)) return NULL;
  if ((device != Py_None && cnpy_to_device(device, &to)) || (dtype != Py_None && cnpy_to_dtype(dtype, &type)))
    return NULL;
  Py_BEGIN_ALLOW_THREADS
  status = cn_module_to(cnpy_m(self), to, type);
  Py_END_ALLOW_THREADS
  if (status) return cnpy_raise();
  Py_RETURN_NONE;
}

static PyObject *describe(PyObject *self, PyObject *Py_UNUSED(unused))
{
  if (!cnpy_started(self)) return NULL;
  if (cnpy_mo(self)->cls->foreign) return PyUnicode_FromString("");
  char *text = cn_module_describe(cnpy_m(self));
  PyObject *string = text ? PyUnicode_FromString(text) : cnpy_raise();
  cn_string_free(text);
  return string;
}

static PyObject *arguments(PyObject *self, PyObject *Py_UNUSED(unused))
{
  return cnpy_started(self) ? cnpy_from_args(cn_module_args(cnpy_m(self))) : NULL;
}

#define FAST(f) (PyCFunction)(void (*)(void))(f), METH_FASTCALL | METH_KEYWORDS
static PyMethodDef methods[] = {
    {"forward", FAST(module_forward), "forward($self, /, *input)\n--\n\nWhat the class computes, without hooks."},
    {"_make", FAST(cnpy_module_make), "_make(name, *args, **kwargs): a module of that class in C."},
    {"_make_bare", FAST(cnpy_module_make_bare), "The same without the parts that the class adds."},
    {"_begin", cnpy_module_begin, METH_NOARGS, "A module of a class written in Python."},
    {"_copy_from", cnpy_module_copy_from, METH_O, "Becomes what another module is, without its parts."},
    {"_call_plain", call_plain, METH_VARARGS, "_call_plain(args, kwargs): a call without Python's hooks."},
    {"__setattr__", (PyCFunction)(void (*)(void))cnpy_module_setattr, METH_FASTCALL, "setattr(self, name, value)."},
    {"__delattr__", cnpy_module_delattr, METH_O, "delattr(self, name)."},
    {"_set_attribute", cnpy_set_attribute, METH_VARARGS, "Sets what is no part of the tree."},
    {"_set_removed", cnpy_set_removed, METH_VARARGS, "Puts a tensor into the place of a removed parameter."},
    {"_set_hooked", set_hooked, METH_O, "Are there hooks of Python?"},
    {"_set_patched", set_patched, METH_O, "Does C call forward in Python?"},
    {"_to", move_to, METH_VARARGS, "_to(device, dtype): moves parameters and buffers."},
    {"_describe", describe, METH_NOARGS, "What is printed between the brackets."},
    {"_arguments", arguments, METH_NOARGS, "What it was made with, by name."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_traverse, (void *)module_traverse},
    {Py_tp_clear, (void *)module_clear},
    {Py_tp_dealloc, (void *)module_dealloc},
    {Py_tp_call, (void *)module_call},
    {Py_tp_methods, methods},
    {Py_tp_getset, cnpy_module_getset},
    {Py_tp_doc, (void *)"What cairn.nn.Module is made from."},
    {0, NULL},
};
static PyType_Spec spec = {"cairn._C.ModuleBase", sizeof(module_object), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};

int cnpy_add_nn(PyObject *module)
{
  PyMethodDef *const lists[] = {cnpy_nn_class_functions, cnpy_nn_tree_functions, cnpy_nn_init_functions,
                                cnpy_nn_packed_functions};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    if (PyModule_AddFunctions(module, lists[i])) return -1;
  cnpy.module_base = cnpy_add_type(module, &spec);
  if (!cnpy.module_base) return -1;
  cnpy_nn.twins = cnpy_own(PyDict_New());
  cnpy_nn.str_forward = cnpy_own(PyUnicode_InternFromString("forward"));
  cnpy_nn.str_dict = cnpy_own(PyUnicode_InternFromString("__dict__"));
  cnpy_nn.native_forward = cnpy_own(PyObject_GetAttrString((PyObject *)cnpy.module_base, "forward"));
  return cnpy_nn.twins && cnpy_nn.str_forward && cnpy_nn.str_dict && cnpy_nn.native_forward ? 0 : -1;
}
