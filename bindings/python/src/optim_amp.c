/* optim_amp.c: mixed precision (autocast, the scaling of losses), ways of attention, and averages of parameters.
 *
 * Place in the flow: beside optim.c; cairn.amp and cairn.optim.swa_utils stand on it. Invariant: every autocast region
 * that begins here ends with the setting that its begin returned. */
#include <cairn/autograd.h>

#include "optim.h"

/* ---- autocast ---- */

/* _autocast_begin(host, dtype or None) -> int, to be given to _autocast_end; host: for the CPU, not other devices */
static PyObject *autocast_begin(PyObject *Py_UNUSED(module), PyObject *args)
{
  cn_dtype id = CN_DTYPE_NONE;
  int host;
  PyObject *dtype;
  if (!PyArg_ParseTuple(args, "pO:_autocast_begin", &host, &dtype)) return NULL;
  if (dtype != Py_None && cnpy_to_dtype(dtype, &id)) return NULL;
  int saved = cn_autocast_begin_on(host ? CN_AUTOCAST_CPU : CN_AUTOCAST_DEVICES, id);
  return cn_err() ? cnpy_raise() : PyLong_FromLong(saved);
}

static PyObject *autocast_end(PyObject *Py_UNUSED(module), PyObject *saved)
{
  long value = PyLong_AsLong(saved);
  if (value == -1 && PyErr_Occurred()) return NULL;
  cn_autocast_end((int)value);
  Py_RETURN_NONE;
}

static PyObject *autocast_dtype(PyObject *Py_UNUSED(module), PyObject *host)
{
  int on_host = PyObject_IsTrue(host);
  if (on_host < 0) return NULL;
  cn_dtype id = cn_autocast_dtype_on(on_host ? CN_AUTOCAST_CPU : CN_AUTOCAST_DEVICES);
  return id == CN_DTYPE_NONE ? Py_NewRef(Py_None) : cnpy_dtype_of(id);
}

/* ---- ways of attention ---- */

/* _attention_ways(bits of cn_attention_way) -> the bits before */
static PyObject *attention_ways(PyObject *Py_UNUSED(module), PyObject *ways)
{
  unsigned long value = PyLong_AsUnsignedLong(ways);
  if (value == (unsigned long)-1 && PyErr_Occurred()) return NULL;
  return PyLong_FromUnsignedLong(cn_attention_begin((unsigned)value));
}

/* ---- GradScalerBase ---- */

typedef struct scaler_object {
  PyObject_HEAD
  cn_grad_scaler *s; /* owned */
} scaler_object;

static cn_grad_scaler *scaler_of(PyObject *self) { return ((scaler_object *)(void *)self)->s; }

/* GradScalerBase(init_scale, growth_factor, backoff_factor, growth_interval, enabled, device) */
static PyObject *scaler_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
  double scale, growth, backoff;
  long long interval;
  int enabled;
  const char *name;
  (void)kwargs;
  if (!PyArg_ParseTuple(args, "dddLps:GradScalerBase", &scale, &growth, &backoff, &interval, &enabled, &name))
    return NULL;
  cn_device device = enabled ? cn_device_find(name) : CN_CPU;
  if (!device) return cnpy_raise();
  cn_grad_scaler *s = cn_grad_scaler_new(.init_scale = scale, .growth_factor = growth, .backoff_factor = backoff,
                                         .growth_interval = interval, .disabled = !enabled, .device = device);
  if (!s) return cnpy_raise();
  scaler_object *self = (scaler_object *)(void *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (!self) {
    cn_grad_scaler_free(s);
    return NULL;
  }
  self->s = s;
  return (PyObject *)self;
}

static void scaler_dealloc(PyObject *self)
{
  PyTypeObject *type = Py_TYPE(self);
  cn_grad_scaler_free(scaler_of(self));
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

static PyObject *scaler_scale(PyObject *self, PyObject *loss)
{
  if (!cnpy_is_tensor(loss)) return cnpy_fail(PyExc_ValueError, "scale: expected a tensor or an iterable of them");
  cn_scope *scope = cn_scope_begin();
  cn_tensor *scaled = cn_keep(cn_grad_scaler_scale(scaler_of(self), cnpy_t(loss)));
  cn_scope_end(scope);
  return cnpy_wrap(scaled);
}

static PyObject *scaler_unscale(PyObject *self, PyObject *optim)
{
  int status;
  if (!PyObject_TypeCheck(optim, cnpy_optim_type)) return cnpy_fail(PyExc_TypeError, "unscale: expected an optimizer");
  Py_BEGIN_ALLOW_THREADS status = cn_grad_scaler_unscale(scaler_of(self), cnpy_opt(optim));
  Py_END_ALLOW_THREADS if (status) return cnpy_raise();
  Py_RETURN_NONE;
}

static PyObject *scaler_may_step(PyObject *self, PyObject *args)
{
  PyObject *optim;
  int may, plain;
  if (!PyArg_ParseTuple(args, "O!p:may_step", cnpy_optim_type, &optim, &plain)) return NULL;
  Py_BEGIN_ALLOW_THREADS may = cn_grad_scaler_may_step(scaler_of(self), cnpy_opt(optim), plain != 0);
  Py_END_ALLOW_THREADS return may < 0 ? cnpy_raise() : PyBool_FromLong(may);
}

static PyObject *scaler_stepped(PyObject *self, PyObject *optim)
{
  if (!PyObject_TypeCheck(optim, cnpy_optim_type)) return cnpy_fail(PyExc_TypeError, "step: expected an optimizer");
  if (cn_grad_scaler_stepped(scaler_of(self), cnpy_opt(optim))) return cnpy_raise();
  Py_RETURN_NONE;
}

static PyObject *scaler_update(PyObject *self, PyObject *Py_UNUSED(none))
{
  if (cn_grad_scaler_update(scaler_of(self))) return cnpy_raise();
  Py_RETURN_NONE;
}

static PyObject *scaler_get(PyObject *self, PyObject *Py_UNUSED(none))
{
  double scale = cn_grad_scaler_get(scaler_of(self));
  return cn_err() ? cnpy_raise() : PyFloat_FromDouble(scale);
}

static PyObject *scaler_state(PyObject *self, PyObject *Py_UNUSED(none))
{
  cn_tree *tree = cn_grad_scaler_state(scaler_of(self));
  PyObject *made = tree ? cnpy_from_tree(tree) : cnpy_raise();
  cn_tree_free(tree);
  return made;
}

static PyObject *scaler_load(PyObject *self, PyObject *state)
{
  cn_tree *tree = cnpy_to_tree(state);
  if (!tree) return NULL;
  int status = cn_grad_scaler_load(scaler_of(self), tree);
  cn_tree_free(tree);
  if (status) return cnpy_raise();
  Py_RETURN_NONE;
}

static PyMethodDef scaler_methods[] = {
  {"scale", scaler_scale, METH_O, "scale(loss)\n--\n\nThe loss times the scale."},
  {"unscale", scaler_unscale, METH_O, "unscale(optim)\n--\n\nDivides its gradients by the scale."},
  {"may_step", scaler_may_step, METH_VARARGS,
   "may_step(optim, plain)\n--\n\nUnscales if need be; are all gradients finite? plain: a device may decide."},
  {"stepped", scaler_stepped, METH_O, "stepped(optim)\n--\n\nAfter its step: takes it back where they are not."},
  {"update", scaler_update, METH_NOARGS, "update()\n--\n\nThe next scale."},
  {"get", scaler_get, METH_NOARGS, "get()\n--\n\nThe scale."},
  {"state", scaler_state, METH_NOARGS, "state()\n--\n\nIts state."},
  {"load", scaler_load, METH_O, "load(state)\n--\n\nTakes over a state."},
  {NULL, NULL, 0, NULL}};
static PyType_Slot scaler_slots[] = {{Py_tp_new, (void *)scaler_new},
                                     {Py_tp_dealloc, (void *)scaler_dealloc},
                                     {Py_tp_methods, scaler_methods},
                                     {Py_tp_doc, (void *)"What cairn.amp.GradScaler is made from."},
                                     {0, NULL}};
static PyType_Spec scaler_spec = {"cairn._C.GradScalerBase", sizeof(scaler_object), 0, Py_TPFLAGS_DEFAULT,
                                  scaler_slots};

/* ---- averages ---- */

/* _average(to, from, decay, count, buffers): modules; decay 0: the mean; count: a tensor. */
static PyObject *average(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *to, *from, *count;
  double decay;
  int buffers, status;
  if (!PyArg_ParseTuple(args, "O!O!dO!p:_average", cnpy.module_base, &to, cnpy.module_base, &from, &decay,
                        cnpy.tensor_base, &count, &buffers))
    return NULL;
  Py_BEGIN_ALLOW_THREADS status =
    cn_average_follow_counted(cnpy_m(to), cnpy_m(from), decay, cnpy_t(count), buffers != 0);
  Py_END_ALLOW_THREADS if (status) return cnpy_raise();
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
  {"_autocast_begin", autocast_begin, METH_VARARGS, "Switches autocast; returns the old setting."},
  {"_autocast_end", autocast_end, METH_O, "The old setting again."},
  {"_autocast_dtype", autocast_dtype, METH_O, "The type that ops compute in; None: autocast is off."},
  {"_attention_ways", attention_ways, METH_O, "Sets which ways attention may take; returns the old setting."},
  {"_average", average, METH_VARARGS, "One update of averages of a module's parameters."},
  {NULL, NULL, 0, NULL}};

int cnpy_add_amp(PyObject *module)
{
  return cnpy_add_type(module, &scaler_spec) && !PyModule_AddFunctions(module, functions) ? 0 : -1;
}
