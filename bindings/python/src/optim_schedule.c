/* optim_schedule.c: ScheduleBase, the Python object of a rate schedule of the library.
 *
 * Place in the flow: cairn.optim.lr_scheduler; schedules written in Python are functions that the library calls for the
 * next rates. Invariant: an object keeps alive what its schedule points to: the optimiser, the function, and the
 * objects of its parts, which have lost their schedules when it goes. */
#include <string.h>

#include "optim.h"

typedef struct schedule_object {
  PyObject_HEAD
  cn_schedule *s;               /* owned, unless taken */
  bool taken;                   /* it is a part of another one, which owns it */
  PyObject *optim, *parts, *fn; /* parts: a tuple or NULL; fn: what returns factors or rates, or NULL */
  PyObject *asked;              /* what returns rates in the place of a formula of the library, or NULL */
} schedule_object;

static PyTypeObject *schedule_type;

static schedule_object *object_of(PyObject *self) { return (schedule_object *)(void *)self; }

/* ---- life ---- */

static schedule_object *new_object(PyObject *optim)
{
  allocfunc alloc = (allocfunc)PyType_GetSlot(schedule_type, Py_tp_alloc);
  schedule_object *self = (schedule_object *)(void *)alloc(schedule_type, 0);
  if (self) self->optim = Py_NewRef(optim);
  return self;
}

/* Parts lose their schedules, and those their own. */
static void bereave(schedule_object *self)
{
  self->s = NULL;
  for (Py_ssize_t i = 0; self->parts && i < PyTuple_Size(self->parts); i++)
    bereave(object_of(PyTuple_GetItem(self->parts, i)));
}

static void schedule_dealloc(PyObject *o)
{
  schedule_object *self = object_of(o);
  PyTypeObject *type = Py_TYPE(o);
  if (!self->taken) {
    cn_schedule_free(self->s);
    bereave(self);
  }
  Py_CLEAR(self->parts);
  Py_CLEAR(self->fn);
  Py_CLEAR(self->asked);
  Py_CLEAR(self->optim);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(o);
  Py_DECREF(type);
}

/* The object once its schedule is there; the pending error as an exception otherwise. */
static PyObject *finished(schedule_object *self, cn_schedule *s)
{
  self->s = s;
  if (s && !PyErr_Occurred()) return (PyObject *)self;
  cnpy_raise();
  Py_DECREF((PyObject *)self);
  return NULL;
}

/* ---- making ---- */

/* Numbers, one per group, into room that PyMem_Free gives back. */
static double *read_list(PyObject *list, size_t n)
{
  double *v = PyMem_Malloc((n + 1) * sizeof *v);
  if (!v) return (double *)PyErr_NoMemory();
  if (PyTuple_Check(list) && (size_t)PyTuple_Size(list) == n) {
    for (size_t i = 0; i < n; i++) v[i] = PyFloat_AsDouble(PyTuple_GetItem(list, (Py_ssize_t)i));
    if (!PyErr_Occurred()) return v;
  } else cnpy_fail(PyExc_ValueError, "a list must have a number for each of the %zu groups", n);
  PyMem_Free(v);
  return NULL;
}

/* schedule(optim, name, settings, lists): of a class; lists: {name: a tuple with a number for each group}. */
static PyObject *make(PyObject *Py_UNUSED(module), PyObject *args)
{
  enum { MOST = 4 };
  static cnpy_form *forms[CNPY_CLASSES];
  const char *name;
  PyObject *optim, *settings, *lists, *key, *value;
  cn_lr_list list[MOST];
  size_t n = 0;
  Py_ssize_t at = 0;
  cnpy_bound b;
  if (!PyArg_ParseTuple(args, "O!sO!O!:_schedule", cnpy_optim_type, &optim, &name, &PyDict_Type, &settings,
                        &PyDict_Type, &lists))
    return NULL;
  const cnpy_form *form = cnpy_class_form(forms, cn_schedule_class_at, name);
  if (!form || cnpy_bind_dict(&b, form, settings)) return NULL;
  while (PyDict_Next(lists, &at, &key, &value) && n < MOST) {
    list[n].name = PyUnicode_AsUTF8AndSize(key, NULL);
    list[n].v = list[n].name ? read_list(value, cn_optim_ngroups(cnpy_opt(optim))) : NULL;
    if (!list[n].v) break;
    n++;
  }
  schedule_object *self = PyErr_Occurred() ? NULL : new_object(optim);
  PyObject *made = NULL;
  if (self) made = finished(self, cn_schedule_make_lists(name, cnpy_opt(optim), b.value, (size_t)b.n, list, n));
  while (n) PyMem_Free((void *)(uintptr_t)list[--n].v);
  cnpy_unbind(&b);
  return made;
}

/* fn(object, epoch, group) -> float. The object does not know its schedule before that has begun: it is told here. */
static double call(cn_schedule *s, size_t group, schedule_object *self, PyObject *fn)
{
  PyGILState_STATE gil = PyGILState_Ensure();
  double rate = 0;
  cn_schedule *before = self->s;
  self->s = s;
  PyObject *result = PyErr_Occurred() ? NULL : PyObject_CallFunction(fn, "OLn", (PyObject *)self,
                                                                     (long long)cn_schedule_epoch(s),
                                                                     (Py_ssize_t)group);
  if (result) rate = PyFloat_AsDouble(result);
  if (PyErr_Occurred() && !cn_err()) cn_err_set(CN_ERR_GRAD, "schedule: a Python exception was raised");
  Py_XDECREF(result);
  self->s = before;
  PyGILState_Release(gil);
  return rate;
}

static double call_function(cn_schedule *s, size_t group, void *payload)
{
  return call(s, group, payload, ((schedule_object *)payload)->fn);
}

static double call_asked(cn_schedule *s, size_t group, void *payload)
{
  return call(s, group, payload, ((schedule_object *)payload)->asked);
}

/* schedule_by(optim, kind, fn, last_epoch) */
static PyObject *make_by(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *optim, *fn;
  const char *kind;
  long long last;
  if (!PyArg_ParseTuple(args, "O!sOL:_schedule_by", cnpy_optim_type, &optim, &kind, &fn, &last)) return NULL;
  schedule_object *self = new_object(optim);
  if (!self) return NULL;
  self->fn = Py_NewRef(fn);
  return finished(self, cn_lr_by(kind, cnpy_opt(optim), call_function, self, last));
}

static double call_scale(double x, void *payload)
{
  PyGILState_STATE gil = PyGILState_Ensure();
  double scale = 0;
  PyObject *result = PyErr_Occurred() ? NULL : PyObject_CallFunction(((schedule_object *)payload)->fn, "d", x);
  if (result) scale = PyFloat_AsDouble(result);
  if (PyErr_Occurred() && !cn_err()) cn_err_set(CN_ERR_GRAD, "schedule: a Python exception was raised");
  Py_XDECREF(result);
  PyGILState_Release(gil);
  return scale;
}

/* scale_by(fn, by_epoch): of CyclicLR. */
static PyObject *schedule_scale_by(PyObject *o, PyObject *args)
{
  PyObject *fn;
  int by_epoch;
  schedule_object *self = object_of(o);
  if (!PyArg_ParseTuple(args, "Op:scale_by", &fn, &by_epoch)) return NULL;
  if (cn_lr_cyclic_scale(self->s, call_scale, self, by_epoch != 0)) return cnpy_raise();
  Py_XDECREF(self->fn);
  self->fn = Py_NewRef(fn);
  Py_RETURN_NONE;
}

/* schedule_of(optim, parts, milestones): one after the other, or all at once where milestones is None. The parts'
 * objects go on showing them. */
static PyObject *make_of(PyObject *Py_UNUSED(module), PyObject *args)
{
  enum { MOST = 32 };
  PyObject *optim, *parts, *when;
  cn_schedule *list[MOST];
  int64_t milestones[MOST];
  if (!PyArg_ParseTuple(args, "O!O!O:_schedule_of", cnpy_optim_type, &optim, &PyTuple_Type, &parts, &when)) return NULL;
  Py_ssize_t n = PyTuple_Size(parts);
  if (n < 1 || n > MOST) return cnpy_fail(PyExc_ValueError, "between 1 and %d schedules are possible", MOST);
  if (when != Py_None && cnpy_to_ints(when, milestones, MOST) < 0) return NULL;
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *part = PyTuple_GetItem(parts, i);
    if (!PyObject_TypeCheck(part, schedule_type) || object_of(part)->taken)
      return cnpy_fail(PyExc_ValueError, "schedule %zd is part of another one already", i);
    for (Py_ssize_t k = 0; k < i; k++)
      if (PyTuple_GetItem(parts, k) == part) return cnpy_fail(PyExc_ValueError, "schedule %zd is there twice", i);
    if (object_of(part)->optim != optim)
      return cnpy_fail(PyExc_ValueError, "schedule %zd belongs to another optimizer", i);
    list[i] = object_of(part)->s;
  }
  schedule_object *self = new_object(optim);
  if (!self) return NULL;
  cn_schedule *s = when == Py_None ? cn_lr_chained(list, (size_t)n)
                                   : cn_lr_sequential(cnpy_opt(optim), list, (size_t)n, milestones);
  for (Py_ssize_t i = 0; i < n; i++) object_of(PyTuple_GetItem(parts, i))->taken = true; /* also on failure */
  self->parts = Py_NewRef(parts);
  if (!s) bereave(self);
  return finished(self, s);
}

/* ---- stepping and looking ---- */

static cn_schedule *there(PyObject *self)
{
  cn_schedule *s = object_of(self)->s;
  if (!s) cnpy_fail(PyExc_RuntimeError, "the schedule is gone with the one that it was a part of");
  return s;
}

static PyObject *done(int status)
{
  if (status || PyErr_Occurred()) return cnpy_raise();
  Py_RETURN_NONE;
}

static PyObject *schedule_step(PyObject *self, PyObject *Py_UNUSED(none))
{
  cn_schedule *s = there(self);
  return s ? done(cn_schedule_step(s)) : NULL;
}

static PyObject *schedule_step_metric(PyObject *self, PyObject *metric)
{
  cn_schedule *s = there(self);
  double value = PyFloat_AsDouble(metric);
  if (!s || PyErr_Occurred()) return NULL;
  return done(cn_schedule_step_metric(s, value));
}

static PyObject *schedule_jump(PyObject *self, PyObject *epoch)
{
  cn_schedule *s = there(self);
  double value = PyFloat_AsDouble(epoch);
  if (!s || PyErr_Occurred()) return NULL;
  return done(cn_schedule_jump(s, value));
}

static PyObject *rates(PyObject *self, double (*one)(const cn_schedule *, size_t))
{
  cn_schedule *s = there(self);
  if (!s) return NULL;
  Py_ssize_t n = (Py_ssize_t)cn_optim_ngroups(cnpy_opt(object_of(self)->optim));
  PyObject *list = PyList_New(n);
  for (Py_ssize_t i = 0; list && i < n; i++) {
    PyObject *rate = PyFloat_FromDouble(one(s, (size_t)i));
    if (!rate || PyList_SetItem(list, i, rate)) Py_CLEAR(list);
  }
  return list;
}

/* rewind(rates, fn): before the first step again, at these rates; then fn(object, epoch, group) returns them, unless it
 * is None. */
static PyObject *schedule_rewind(PyObject *o, PyObject *args)
{
  schedule_object *self = object_of(o);
  cn_schedule *s = there(o);
  PyObject *list, *fn;
  if (!s || !PyArg_ParseTuple(args, "O!O:rewind", &PyTuple_Type, &list, &fn)) return NULL;
  double *v = read_list(list, cn_optim_ngroups(cnpy_opt(self->optim)));
  if (!v) return NULL;
  bool asks = fn != Py_None;
  Py_XDECREF(self->asked);
  self->asked = asks ? Py_NewRef(fn) : NULL;
  int status = cn_schedule_rewind(s, v, asks ? call_asked : NULL, self);
  PyMem_Free(v);
  return done(status);
}

static double next_rate(const cn_schedule *s, size_t group)
{
  return cn_schedule_next((cn_schedule *)(uintptr_t)s, group);
}

/* next(): what the library's own formula returns for this epoch */
static PyObject *schedule_next(PyObject *self, PyObject *Py_UNUSED(none))
{
  PyObject *found = rates(self, next_rate);
  if (!PyErr_Occurred()) return found;
  Py_XDECREF(found);
  cn_err_clear();
  return NULL;
}

static PyObject *schedule_last(PyObject *self, PyObject *Py_UNUSED(none)) { return rates(self, cn_schedule_lr); }
static PyObject *schedule_base(PyObject *self, PyObject *Py_UNUSED(none)) { return rates(self, cn_schedule_base); }

static PyObject *schedule_epoch(PyObject *self, PyObject *Py_UNUSED(none))
{
  cn_schedule *s = there(self);
  return s ? PyLong_FromLongLong(cn_schedule_epoch(s)) : NULL;
}

static PyObject *schedule_state(PyObject *self, PyObject *Py_UNUSED(none))
{
  cn_schedule *s = there(self);
  cn_tree *tree = s ? cn_schedule_state(s) : NULL;
  PyObject *made = tree ? cnpy_from_tree(tree) : PyErr_Occurred() ? NULL : cnpy_raise();
  cn_tree_free(tree);
  return made;
}

static PyObject *schedule_load(PyObject *self, PyObject *state)
{
  cn_schedule *s = there(self);
  cn_tree *tree = s ? cnpy_to_tree(state) : NULL;
  if (!tree) return NULL;
  int status = cn_schedule_load(s, tree);
  cn_tree_free(tree);
  return done(status);
}

static PyMethodDef methods[] = {
  {"step", schedule_step, METH_NOARGS, "step()\n--\n\nThe next rates."},
  {"step_metric", schedule_step_metric, METH_O, "step_metric(metric)\n--\n\nThe next rates, by a metric."},
  {"jump", schedule_jump, METH_O, "jump(epoch)\n--\n\nThe rates of an epoch."},
  {"scale_by", schedule_scale_by, METH_VARARGS, "scale_by(fn, by_epoch)\n--\n\nThe height of CyclicLR's cycles."},
  {"rewind", schedule_rewind, METH_VARARGS, "rewind(rates, fn)\n--\n\nBefore the first step; then fn is asked."},
  {"next", schedule_next, METH_NOARGS, "next()\n--\n\nThe rates of this epoch by the library's formula."},
  {"last", schedule_last, METH_NOARGS, "last()\n--\n\nThe rates that were set last."},
  {"base", schedule_base, METH_NOARGS, "base()\n--\n\nThe rates at the beginning."},
  {"epoch", schedule_epoch, METH_NOARGS, "epoch()\n--\n\nThe last epoch."},
  {"state", schedule_state, METH_NOARGS, "state()\n--\n\nIts state."},
  {"load", schedule_load, METH_O, "load(state)\n--\n\nTakes over a state, or a part of one."},
  {NULL, NULL, 0, NULL}};
static PyType_Slot slots[] = {{Py_tp_dealloc, (void *)schedule_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_doc, (void *)"A rate schedule of the library."},
                              {0, NULL}};
static PyType_Spec spec = {"cairn._C.ScheduleBase", sizeof(schedule_object), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
static PyMethodDef functions[] = {
  {"_schedule", make, METH_VARARGS, "A rate schedule of a class."},
  {"_schedule_by", make_by, METH_VARARGS, "A rate schedule by a function."},
  {"_schedule_of", make_of, METH_VARARGS, "A rate schedule of others."},
  {NULL, NULL, 0, NULL}};

int cnpy_add_schedules(PyObject *module)
{
  schedule_type = cnpy_add_type(module, &spec);
  return schedule_type && !PyModule_AddFunctions(module, functions) ? 0 : -1;
}
