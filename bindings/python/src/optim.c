/* optim.c: OptimBase, the Python object of an optimiser of the library.
 *
 * Place in the flow: cairn.optim keeps groups as dictionaries of Python and hands here what changes in them; a step is
 * one call. Invariant: the optimiser's parameters are those that the groups list when a step begins: a parameter whose
 * tensor was replaced (p.data = ..., a move to another device) is looked up anew. */
#include "optim.h"

#include <string.h>

#include "autograd.h"

PyTypeObject *cnpy_optim_type;

static cn_optim *opt_of(PyObject *self) { return cnpy_opt(self); }

/* ---- binding by signature ---- */

const cnpy_form *cnpy_class_form(cnpy_form **room, cnpy_class_at at, const char *wanted)
{
  const char *name, *sig, *doc;
  for (size_t i = 0; i < CNPY_CLASSES && at(i, &name, &sig, &doc); i++) {
    if (strcmp(name, wanted)) continue;
    if (room[i]) return room[i];
    cn_signature *parsed = cn_signature_parse(sig); /* it stays as long as the form */
    cnpy_form *form = parsed ? PyMem_Calloc(1, sizeof *form) : NULL;
    if (!form) return parsed ? (const cnpy_form *)PyErr_NoMemory() : (const cnpy_form *)cnpy_raise();
    if (cnpy_form_from(form, parsed, sig)) {
      PyMem_Free(form);
      return NULL;
    }
    return room[i] = form;
  }
  cnpy_fail(PyExc_ValueError, "there is no class '%s'", wanted);
  return NULL;
}

int cnpy_bind_dict(cnpy_bound *b, const cnpy_form *form, PyObject *dict)
{
  PyObject *values[CN_MAX_ARGS], *key, *value;
  Py_ssize_t n = PyDict_Size(dict), at = 0, i = 0;
  PyObject *names = n <= CN_MAX_ARGS ? PyTuple_New(n) : NULL;
  if (!names) {
    if (!PyErr_Occurred()) cnpy_fail(PyExc_TypeError, "%s(): too many arguments", form->info.name);
    return -1;
  }
  for (; PyDict_Next(dict, &at, &key, &value); i++) {
    values[i] = value;
    PyTuple_SetItem(names, i, Py_NewRef(key));
  }
  memset(b, 0, sizeof *b);
  int fits = cnpy_bind(b, form, 0, NULL, values, 0, names);
  if (!fits) cnpy_misfit(b, form, form->info.name);
  Py_DECREF(names);
  return fits == 1 ? 0 : -1;
}

/* ---- life ---- */

/* OptimBase(name, settings): of a class, without groups yet. */
static PyObject *optim_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
  static cnpy_form *forms[CNPY_CLASSES];
  const char *name;
  PyObject *settings;
  cnpy_bound b;
  (void)kwargs;
  if (!PyArg_ParseTuple(args, "sO!:OptimBase", &name, &PyDict_Type, &settings)) return NULL;
  const cnpy_form *form = cnpy_class_form(forms, cn_optim_class_at, name);
  if (!form || cnpy_bind_dict(&b, form, settings)) return NULL;
  cn_optim *opt = cn_optim_make(name, NULL, b.value, (size_t)b.n);
  cnpy_unbind(&b);
  if (!opt) return cnpy_raise();
  cnpy_optim *self = (cnpy_optim *)(void *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (!self) {
    cn_optim_free(opt);
    return NULL;
  }
  self->opt = opt;
  self->form = form;
  return (PyObject *)self;
}

static void optim_dealloc(PyObject *self)
{
  PyTypeObject *type = Py_TYPE(self);
  cn_optim_free(opt_of(self));
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

/* ---- groups ---- */

/* add(params) -> int: a group of these tensors (a tuple). */
static PyObject *optim_add(PyObject *self, PyObject *params)
{
  if (!PyTuple_Check(params)) return cnpy_fail(PyExc_TypeError, "add: expected a tuple of tensors");
  Py_ssize_t n = PyTuple_Size(params);
  cn_tensor **list = PyMem_Malloc(((size_t)n + 1) * sizeof *list);
  if (!list) return PyErr_NoMemory();
  Py_ssize_t i = 0;
  for (; i < n && cnpy_is_tensor(PyTuple_GetItem(params, i)); i++) list[i] = cnpy_t(PyTuple_GetItem(params, i));
  int number = i < n ? -1 : cn_optim_add(opt_of(self), list, (size_t)n);
  PyMem_Free(list);
  if (i < n) return cnpy_fail(PyExc_TypeError, "add: expected a tuple of tensors");
  return number < 0 ? cnpy_raise() : PyLong_FromLong(number);
}

static PyObject *from_owned_tree(cn_tree *tree)
{
  PyObject *made = tree ? cnpy_from_tree(tree) : cnpy_raise();
  cn_tree_free(tree);
  return made;
}

static PyObject *optim_group(PyObject *self, PyObject *number)
{
  int64_t group;
  if (cnpy_to_int(number, &group)) return NULL;
  return from_owned_tree(cn_optim_group(opt_of(self), (size_t)group));
}

/* A setting of the class, by its type. */
static PyObject *put_setting(PyObject *self, size_t group, PyObject *name, PyObject *value, int at)
{
  const cnpy_form *form = ((cnpy_optim *)(void *)self)->form;
  cnpy_bound b;
  PyObject *one = PyDict_New();
  int status = one && !PyDict_SetItem(one, name, value) ? cnpy_bind_dict(&b, form, one) : -1;
  Py_XDECREF(one);
  if (status) return NULL;
  status = cn_optim_set_value(opt_of(self), group, form->info.params[at].name, b.value[at]);
  cnpy_unbind(&b);
  if (status) return cnpy_raise();
  Py_RETURN_TRUE;
}

/* put(group, name, value) -> bool: sets it; False for what the library cannot keep (an object of Python). */
static PyObject *optim_put(PyObject *self, PyObject *args)
{
  Py_ssize_t group;
  PyObject *name, *value;
  if (!PyArg_ParseTuple(args, "nUO:put", &group, &name, &value)) return NULL;
  const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
  const cnpy_form *form = ((cnpy_optim *)(void *)self)->form;
  if (!text) return NULL;
  for (int i = 0; i < form->info.nparams; i++)
    if (!strcmp(form->info.params[i].name, text)) return put_setting(self, (size_t)group, name, value, i);
  cn_tree *tree = cnpy_to_tree(value);
  if (!tree && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();
    Py_RETURN_FALSE;
  }
  if (!tree) return NULL;
  if (cn_optim_note(opt_of(self), (size_t)group, text, tree)) return cnpy_raise();
  Py_RETURN_TRUE;
}

/* A rate that is a tensor: its number, or in a captured step the tensor itself. */
static void take_rate(cn_optim *opt, size_t group, cn_tensor *lr)
{
  if (!cn_tracing()) {
    cn_optim_set(opt, group, "lr", cn_item(lr));
    return;
  }
  cn_scope *scope = cn_scope_begin();
  int saved = cn_no_grad_begin();
  cn_copy_(cn_optim_lr(opt, group), cn_to_device(lr, CN_CPU));
  cn_no_grad_end(saved);
  cn_scope_end(scope);
}

/* One group's parameters as the list has them now, and a rate that is a tensor. */
static int sync_group(cn_optim *opt, size_t group, PyObject *dict)
{
  PyObject *params = PyDict_Check(dict) ? PyDict_GetItemString(dict, "params") : NULL;
  if (!params || !PyList_Check(params) || (size_t)PyList_Size(params) != cn_optim_nparams(opt, group)) {
    cnpy_fail(PyExc_RuntimeError, "%s: the parameters of group %zu have changed; use add_param_group",
              cn_optim_name(opt), group);
    return -1;
  }
  for (Py_ssize_t i = 0; i < PyList_Size(params); i++) {
    PyObject *p = PyList_GetItem(params, i);
    if (!cnpy_is_tensor(p)) return cnpy_fail(PyExc_TypeError, "%s: a parameter is no tensor", cn_optim_name(opt)), -1;
    if (cnpy_t(p) == cn_optim_param(opt, group, (size_t)i)) continue;
    if (cn_optim_replace(opt, group, (size_t)i, cnpy_t(p))) return cnpy_raise(), -1;
  }
  PyObject *lr = PyDict_GetItemString(dict, "lr");
  if (lr && cnpy_is_tensor(lr)) take_rate(opt, group, cnpy_t(lr));
  return cn_err() ? cnpy_raise(), -1 : 0;
}

/* sync(param_groups) */
static PyObject *optim_sync(PyObject *self, PyObject *groups)
{
  cn_optim *opt = opt_of(self);
  if (!PyList_Check(groups) || (size_t)PyList_Size(groups) != cn_optim_ngroups(opt))
    return cnpy_fail(PyExc_RuntimeError, "%s: param_groups has other groups than were added; use add_param_group",
                     cn_optim_name(opt));
  for (Py_ssize_t i = 0; i < PyList_Size(groups); i++)
    if (sync_group(opt, (size_t)i, PyList_GetItem(groups, i))) return NULL;
  Py_RETURN_NONE;
}

/* ---- steps ---- */

static PyObject *optim_step(PyObject *self, PyObject *Py_UNUSED(none))
{
  int status;
  Py_BEGIN_ALLOW_THREADS status = cn_optim_step(opt_of(self));
  Py_END_ALLOW_THREADS if (status) return cnpy_raise();
  Py_RETURN_NONE;
}

typedef struct closure {
  PyObject *fn, *first; /* first: what it returned the first time, owned */
} closure;

/* The loss as a tensor, borrowed from the innermost scope; a number becomes one. */
static cn_tensor *loss_of(PyObject *o)
{
  if (cnpy_is_tensor(o)) return cnpy_callback_result(o);
  cn_tensor *t = cnpy_from_data(o, CN_F64, CN_CPU);
  return t ? cn_scope_give(t) : NULL;
}

static cn_tensor *call_closure(void *payload)
{
  PyGILState_STATE gil = PyGILState_Ensure();
  closure *c = payload;
  PyObject *result = PyObject_CallFunctionObjArgs(c->fn, NULL);
  cn_tensor *loss = result ? loss_of(result) : NULL;
  if (!loss && !cn_err()) cn_err_set(CN_ERR_GRAD, "closure: a Python exception was raised");
  if (!c->first) c->first = result;
  else Py_XDECREF(result);
  PyGILState_Release(gil);
  return loss;
}

/* minimise(closure): a step that evaluates by itself; returns what the closure did the first time. */
static PyObject *optim_minimise(PyObject *self, PyObject *fn)
{
  closure c = {fn, NULL};
  cn_tensor *loss;
  cn_scope *scope = cn_scope_begin();
  Py_BEGIN_ALLOW_THREADS loss = cn_optim_step_closure(opt_of(self), call_closure, &c);
  Py_END_ALLOW_THREADS cn_scope_end(scope);
  if (loss) return c.first;
  Py_XDECREF(c.first);
  return cnpy_raise();
}

/* ---- state ---- */

static PyObject *optim_state(PyObject *self, PyObject *Py_UNUSED(none))
{
  return from_owned_tree(cn_optim_state(opt_of(self)));
}

static PyObject *optim_load(PyObject *self, PyObject *state)
{
  cn_tree *tree = cnpy_to_tree(state);
  if (!tree) return NULL;
  int status = cn_optim_load(opt_of(self), tree);
  cn_tree_free(tree);
  if (status) return cnpy_raise();
  Py_RETURN_NONE;
}

/* Puts into a dictionary what is not there yet or is another tensor, so that objects stay the same. */
static int merge(PyObject *into, const cn_tree *tree)
{
  int status = 0;
  for (size_t i = 0; i < cn_tree_size(tree) && !status; i++) {
    const char *key = cn_tree_key(tree, i, NULL);
    PyObject *had = key ? PyDict_GetItemString(into, key) : NULL;
    cn_tensor *t = cn_tree_as_tensor(cn_tree_at(tree, i));
    if (!key || (t && had && cnpy_is_tensor(had) && cnpy_t(had) == t)) continue;
    PyObject *value = cnpy_from_tree(cn_tree_at(tree, i));
    status = value ? PyDict_SetItemString(into, key, value) : -1;
    Py_XDECREF(value);
  }
  return status;
}

/* memory(group, i, into) -> bool: what is remembered of a parameter, into a dictionary; False: nothing. */
static PyObject *optim_memory(PyObject *self, PyObject *args)
{
  Py_ssize_t group, i;
  PyObject *into;
  if (!PyArg_ParseTuple(args, "nnO!:memory", &group, &i, &PyDict_Type, &into)) return NULL;
  cn_tree *tree = cn_optim_memory(opt_of(self), (size_t)group, (size_t)i);
  if (!tree) return cnpy_raise();
  bool any = cn_tree_size(tree) > 0;
  int status = merge(into, tree);
  cn_tree_free(tree);
  return status ? NULL : PyBool_FromLong(any);
}

/* remember(group, i, memory) */
static PyObject *optim_remember(PyObject *self, PyObject *args)
{
  Py_ssize_t group, i;
  PyObject *memory;
  if (!PyArg_ParseTuple(args, "nnO:remember", &group, &i, &memory)) return NULL;
  cn_tree *tree = cnpy_to_tree(memory);
  if (!tree) return NULL;
  int status = cn_optim_remember(opt_of(self), (size_t)group, (size_t)i, tree);
  cn_tree_free(tree);
  if (status) return cnpy_raise();
  Py_RETURN_NONE;
}

static int call_python(void *fn)
{
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *done = PyObject_CallNoArgs(fn);
  int status = done ? CN_OK : cn_err_set(CN_ERR_VALUE, "optimiser: a Python exception");
  Py_XDECREF(done);
  PyGILState_Release(gil);
  return status;
}

static void drop_python(void *fn)
{
  if (!Py_IsInitialized()) return;
  PyGILState_STATE gil = PyGILState_Ensure();
  Py_DECREF((PyObject *)fn);
  PyGILState_Release(gil);
}

/* call_for_rates(fn): each run of the code that is captured calls it here; it sets the rates. */
static PyObject *optim_call_for_rates(PyObject *self, PyObject *fn)
{
  if (cn_optim_call_for_rates(cnpy_opt(self), call_python, Py_NewRef(fn), drop_python)) return cnpy_raise();
  Py_RETURN_NONE;
}

static PyObject *optim_cycles(PyObject *self, PyObject *ignored)
{
  (void)ignored;
  return PyBool_FromLong(cn_optim_cycles(cnpy_opt(self)));
}

static PyMethodDef methods[] = {
  {"cycles", optim_cycles, METH_NOARGS, "cycles()\n--\n\nDo captured steps follow a momentum that goes round?"},
  {"call_for_rates", optim_call_for_rates, METH_O, "call_for_rates(fn)\n--\n\nEach run of captured code calls it."},
  {"add", optim_add, METH_O, "add(params)\n--\n\nA group of these tensors; returns its number."},
  {"group", optim_group, METH_O, "group(i)\n--\n\nThe settings of a group; past the last, those of a new one."},
  {"put", optim_put, METH_VARARGS, "put(i, name, value)\n--\n\nSets something of a group."},
  {"sync", optim_sync, METH_O, "sync(param_groups)\n--\n\nTakes over tensors that were replaced."},
  {"step", optim_step, METH_NOARGS, "step()\n--\n\nUpdates the parameters."},
  {"minimise", optim_minimise, METH_O, "minimise(closure)\n--\n\nA step that evaluates the closure as it needs."},
  {"state", optim_state, METH_NOARGS, "state()\n--\n\nAll of the state, by number of the parameters."},
  {"load", optim_load, METH_O, "load(state)\n--\n\nTakes over a state."},
  {"memory", optim_memory, METH_VARARGS, "memory(group, i, into)\n--\n\nWhat is remembered of a parameter."},
  {"remember", optim_remember, METH_VARARGS, "remember(group, i, memory)\n--\n\nReplaces it."},
  {NULL, NULL, 0, NULL}};
static PyType_Slot slots[] = {{Py_tp_new, (void *)optim_new},
                              {Py_tp_dealloc, (void *)optim_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_doc, (void *)"An optimiser of the library."},
                              {0, NULL}};
static PyType_Spec spec = {"cairn._C.OptimBase", sizeof(cnpy_optim), 0, Py_TPFLAGS_DEFAULT, slots};

int cnpy_add_optim(PyObject *module)
{
  cnpy_optim_type = cnpy_add_type(module, &spec);
  return cnpy_optim_type && !cnpy_add_schedules(module) && !cnpy_add_amp(module) ? 0 : -1;
}
