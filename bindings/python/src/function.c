/* function.c: custom functions written in Python.
 *
 * Place in the flow: cairn.autograd.Function.apply runs forward in Python with recording off, then calls
 * _function_apply with the tensors that went in and came out; the core records them as one node, whose backward calls
 * the context's _run_backward. Invariant: a context object knows its core context exactly as long as that lives, so
 * saved tensors are read from there, with their versions checked, and nowhere else. */
#include <cairn/autograd.h>
#include <string.h>

#include "autograd.h"

typedef struct context_object {
  PyObject_HEAD
  cn_context *raw;                      /* not owned; NULL before recording and after the record is gone */
  PyObject *outputs, *saved, *dirty, *constant; /* borrowed, only while _function_apply runs: tuples */
  unsigned char *present;               /* which saved places hold a tensor, not None */
  Py_ssize_t nsaved;
  cn_function function;                 /* how the core calls it, under its own name */
  char name[112];
} context_object;

static PyTypeObject *context_type;

static context_object *context_of(PyObject *self) { return (context_object *)(void *)self; }

/* ---- what the core calls ---- */

static bool holds(PyObject *tuple, PyObject *item)
{
  for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); i++)
    if (PyTuple_GetItem(tuple, i) == item) return true;
  return false;
}

/* Forward has run in Python; here its results are handed over. The GIL is held. */
static int give_results(cn_context *ctx, cn_tensor **outputs, cn_tensor *const *inputs)
{
  context_object *self = cn_context_payload(ctx);
  int status = CN_OK;
  (void)inputs;
  self->raw = ctx;
  for (Py_ssize_t i = 0; i < PyTuple_Size(self->outputs) && !status; i++) {
    PyObject *o = PyTuple_GetItem(self->outputs, i);
    outputs[i] = cnpy_t(o);
    if (holds(self->dirty, o)) status = cn_context_mark_dirty(ctx, (size_t)i);
    if (!status && holds(self->constant, o)) status = cn_context_mark_non_differentiable(ctx, (size_t)i);
  }
  for (Py_ssize_t i = 0; i < self->nsaved && !status; i++) {
    PyObject *o = PyTuple_GetItem(self->saved, i);
    cn_tensor *t = self->present[i] ? cnpy_t(o) : NULL;
    if (t) status = cn_context_save(ctx, &t, 1);
  }
  return status;
}

/* Takes what Python's backward returned: one tensor or None per input. */
static int take_gradients(PyObject *result, cn_tensor **gin)
{
  for (Py_ssize_t i = 0; i < PyTuple_Size(result); i++) {
    PyObject *o = PyTuple_GetItem(result, i);
    if (o == Py_None) continue;
    if (!(gin[i] = cnpy_callback_result(o))) return cn_err();
  }
  return CN_OK;
}

static int run_backward(cn_context *ctx, cn_tensor **gin, cn_tensor *const *g)
{
  PyGILState_STATE gil = PyGILState_Ensure();
  context_object *self = cn_context_payload(ctx);
  PyObject *object = Py_NewRef((PyObject *)self), *count = PyObject_GetAttrString(object, "_noutputs");
  Py_ssize_t n = count ? PyLong_AsSsize_t(count) : -1;
  PyObject *grads = n < 0 ? NULL : PyTuple_New(n), *result = NULL;
  for (Py_ssize_t i = 0; grads && i < n; i++) {
    PyObject *o = g[i] ? cnpy_wrap_borrowed(g[i]) : Py_NewRef(Py_None);
    if (!o || PyTuple_SetItem(grads, i, o)) Py_CLEAR(grads);
  }
  if (grads) result = PyObject_CallMethod(object, "_run_backward", "(O)", grads);
  int status = result ? take_gradients(result, gin) : CN_ERR_GRAD;
  if (!result) cn_err_set(CN_ERR_GRAD, "%s: a Python exception was raised", self->name);
  Py_XDECREF(result);
  Py_XDECREF(grads);
  Py_XDECREF(count);
  Py_DECREF(object);
  PyGILState_Release(gil);
  return status;
}

static void forget(void *payload)
{
  if (!Py_IsInitialized()) return;
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *type, *value, *traceback; /* of an exception on its way */
  PyErr_Fetch(&type, &value, &traceback);
  context_of(payload)->raw = NULL;
  if (PyObject_SetAttrString(payload, "_very", Py_None)) PyErr_Clear(); /* what it has saved goes with the record */
  PyErr_Restore(type, value, traceback);
  cnpy_callback_free(payload);
  PyGILState_Release(gil);
}

/* ---- applying ---- */

static int note_saved(context_object *self, PyObject *saved)
{
  self->nsaved = PyTuple_Size(saved);
  PyMem_Free(self->present);
  self->present = PyMem_Calloc((size_t)self->nsaved + 1, 1);
  if (!self->present) return PyErr_NoMemory(), -1;
  for (Py_ssize_t i = 0; i < self->nsaved; i++) {
    PyObject *o = PyTuple_GetItem(saved, i);
    self->present[i] = cnpy_is_tensor(o);
    if (o == Py_None || cnpy_is_tensor(o)) continue;
    PyErr_Format(PyExc_TypeError, "save_for_backward: expected a Tensor or None, not %R", (PyObject *)Py_TYPE(o));
    return -1;
  }
  return 0;
}

/* The tuple of results: what was returned itself where the core left it alone (or it was written in place). */
static PyObject *results(PyObject *given, cn_tensor *const *outputs, Py_ssize_t n)
{
  PyObject *result = PyTuple_New(n);
  for (Py_ssize_t i = 0; result && i < n; i++) {
    PyObject *o = PyTuple_GetItem(given, i);
    o = cnpy_t(o) == outputs[i] ? Py_NewRef(o) : cnpy_wrap_borrowed(outputs[i]);
    if (!o || PyTuple_SetItem(result, i, o)) Py_CLEAR(result);
  }
  return result;
}

static PyObject *record(context_object *self, PyObject *inputs)
{
  enum { MOST_INPUTS = 64, MOST_RESULTS = 16 };
  cn_tensor *in[MOST_INPUTS], *out[MOST_RESULTS];
  Py_ssize_t nin = PyTuple_Size(inputs), nout = PyTuple_Size(self->outputs);
  if (nin > MOST_INPUTS || nout > MOST_RESULTS)
    return cnpy_fail(PyExc_RuntimeError, "%s: at most %d tensors can go in and %d come out", self->name, MOST_INPUTS,
                     MOST_RESULTS);
  for (Py_ssize_t i = 0; i < nin; i++) in[i] = cnpy_t(PyTuple_GetItem(inputs, i));
  cn_scope *scope = cn_scope_begin();
  Py_INCREF((PyObject *)self); /* the record's, given back by forget */
  int status = cn_function_apply(out, (size_t)nout, &self->function, in, (size_t)nin, self);
  PyObject *result = status ? cnpy_raise() : results(self->outputs, out, nout);
  cn_scope_end(scope);
  return result;
}

/* _function_apply(context, name, inputs, outputs, saved, dirty, constant) -> tuple: inputs and outputs are tuples of
 * tensors only; dirty and constant those of the outputs that were written in place or carry no gradient. */
PyObject *cnpy_function_apply(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *context, *inputs, *outputs, *saved, *dirty, *constant;
  const char *name;
  PyTypeObject *tuple = &PyTuple_Type;
  if (!PyArg_ParseTuple(args, "O!sO!O!O!O!O!:_function_apply", context_type, &context, &name, tuple, &inputs, tuple,
                        &outputs, tuple, &saved, tuple, &dirty, tuple, &constant))
    return NULL;
  for (int k = 0; k < 2; k++)
    for (Py_ssize_t i = 0; i < PyTuple_Size(k ? outputs : inputs); i++)
      if (!cnpy_is_tensor(PyTuple_GetItem(k ? outputs : inputs, i)))
        return cnpy_fail(PyExc_TypeError, "%s: expected tensors", name);
  context_object *self = context_of(context);
  if (self->raw) return cnpy_fail(PyExc_RuntimeError, "%s: a context serves one call only", name);
  if (note_saved(self, saved)) return NULL;
  PyOS_snprintf(self->name, sizeof self->name, "%s", name);
  self->function = (cn_function){sizeof(cn_function), self->name, give_results, run_backward, forget};
  self->outputs = outputs;
  self->saved = saved;
  self->dirty = dirty;
  self->constant = constant;
  PyObject *result = record(self, inputs);
  self->outputs = self->saved = self->dirty = self->constant = NULL;
  return result;
}

/* ---- the context object ---- */

static PyObject *get_saved(PyObject *object, void *Py_UNUSED(closure))
{
  context_object *self = context_of(object);
  if (!self->nsaved) return PyTuple_New(0);
  if (!self->raw)
    return cnpy_fail(PyExc_RuntimeError, "saved_tensors: they were freed by a backward, or nothing was recorded; give "
                                         "backward retain_graph=True to go through twice");
  PyObject *result = PyTuple_New(self->nsaved);
  cn_scope *scope = cn_scope_begin();
  size_t k = 0;
  for (Py_ssize_t i = 0; result && i < self->nsaved; i++) {
    cn_tensor *t = self->present[i] ? cn_context_saved(self->raw, k++) : NULL;
    PyObject *o = !self->present[i] ? Py_NewRef(Py_None) : t ? cnpy_wrap_borrowed(t) : cnpy_raise();
    if (!o || PyTuple_SetItem(result, i, o)) Py_CLEAR(result);
  }
  cn_scope_end(scope);
  return result;
}

static void context_dealloc(PyObject *object)
{
  PyTypeObject *type = Py_TYPE(object);
  PyMem_Free(context_of(object)->present);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF(type);
}

static PyGetSetDef context_getset[] = {
  {"saved_tensors", get_saved, NULL, "The tensors given to save_for_backward.", NULL}, {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot context_slots[] = {{Py_tp_dealloc, (void *)context_dealloc},
                                      {Py_tp_getset, context_getset},
                                      {Py_tp_doc, (void *)"What cairn.autograd.function.FunctionCtx is made from."},
                                      {0, NULL}};
static PyType_Spec context_spec = {"cairn._C.ContextBase", sizeof(context_object), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, context_slots};

int cnpy_add_function(PyObject *module)
{
  context_type = cnpy_add_type(module, &context_spec);
  return context_type ? 0 : -1;
}

int cnpy_add_autograd(PyObject *module)
{
  return cnpy_add_nodes(module) || cnpy_add_function(module) || cnpy_add_saved(module) ? -1 : 0;
}
