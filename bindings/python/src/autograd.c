/* autograd.c: gradients in Python: what TensorBase has of them, backward and grad, hooks, modes.
 *
 * Place in the flow: tensor.c adds the methods and attributes to TensorBase, module.c the functions to _C; the Python
 * package cairn.autograd stands on them. Custom functions are in function.c. Invariant: the engine walks without the
 * GIL; whatever it calls back takes the GIL, and leaves a Python exception set for cnpy_raise to find. */
#include "autograd.h"

#include <cairn/autograd.h>
#include <cairn/ops.h>

/* ---- callbacks ---- */

/* PyErr_Fetch: its successor came to the stable ABI later than 3.11. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

/* Releases a Python object from wherever the core drops it; an exception that is on its way stays. */
void cnpy_callback_free(void *payload)
{
  if (!payload || !Py_IsInitialized()) return;
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  Py_DECREF((PyObject *)payload);
  PyErr_Restore(type, value, trace);
  PyGILState_Release(gil);
}

/* A tensor that Python returned, as the core wants it: borrowed from the innermost scope. */
cn_tensor *cnpy_callback_result(PyObject *o) { return cn_scope_give(cn_keep(cnpy_t(o))); }

/* A hook: payload is the Python function. None leaves the gradient as it is. */
static cn_tensor *call_hook(cn_tensor *grad, void *payload)
{
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *fn = payload, *arg = cnpy_wrap_borrowed(grad);
  cn_tensor *gradient = NULL;
  Py_INCREF(fn); /* it may remove itself */
  PyObject *result = arg ? PyObject_CallFunctionObjArgs(fn, arg, NULL) : NULL;
  if (result && result != Py_None && !cnpy_is_tensor(result))
    PyErr_Format(PyExc_TypeError, "hook: expected a Tensor or None, not %R", (PyObject *)Py_TYPE(result));
  else if (result && result != Py_None) gradient = cnpy_callback_result(result);
  if (PyErr_Occurred()) cn_err_set(CN_ERR_GRAD, "hook: a Python exception was raised");
  Py_XDECREF(result);
  Py_XDECREF(arg);
  Py_DECREF(fn);
  PyGILState_Release(gil);
  return gradient;
}

static PyObject *tensor_register_hook(PyObject *self, PyObject *fn)
{
  if (!PyCallable_Check(fn)) return cnpy_fail(PyExc_TypeError, "register_hook: the hook must be callable");
  if (!cn_needs_grad(cnpy_t(self)))
    return cnpy_fail(PyExc_RuntimeError, "register_hook: the tensor does not require a gradient");
  Py_INCREF(fn);
  int64_t id = cn_hook_add_owned(cnpy_t(self), call_hook, fn, cnpy_callback_free);
  return id < 0 ? cnpy_raise() : cnpy_handle_new(cnpy_t(self), id);
}

/* fn(grad) after each time that backward has added to this leaf's gradient. */
static PyObject *tensor_register_after(PyObject *self, PyObject *fn)
{
  if (!PyCallable_Check(fn))
    return cnpy_fail(PyExc_TypeError, "register_post_accumulate_grad_hook: the hook must be callable");
  Py_INCREF(fn);
  int64_t id = cn_hook_add_after(cnpy_t(self), call_hook, fn, cnpy_callback_free);
  return id < 0 ? cnpy_raise() : cnpy_handle_new(cnpy_t(self), id);
}

/* ---- the engine ---- */

static _Thread_local bool anomaly; /* look for NaN in backward: detect_anomaly of this thread */

/* Handles of a tuple of tensors (or None, when allowed), in memory of PyMem. NULL with the exception set. */
static cn_tensor **handles(PyObject *tuple, const char *what, bool none_ok)
{
  Py_ssize_t n = PyTuple_Size(tuple);
  cn_tensor **room = n < 0 ? NULL : PyMem_Malloc(((size_t)n + 1) * sizeof *room);
  if (!room) return (cn_tensor **)(n < 0 ? NULL : PyErr_NoMemory());
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *o = PyTuple_GetItem(tuple, i);
    if (cnpy_is_tensor(o)) room[i] = cnpy_t(o);
    else if (none_ok && o == Py_None) room[i] = NULL;
    else {
      PyErr_Format(PyExc_TypeError, "%s: expected a Tensor%s, not %R", what, none_ok ? " or None" : "",
                   (PyObject *)Py_TYPE(o));
      PyMem_Free(room);
      return NULL;
    }
  }
  return room;
}

/* One walk without the GIL: backward into the leaves (ninputs 0), or gradients of the inputs. */
static int walk(cn_tensor **grads, cn_tensor **outputs, size_t noutputs, cn_tensor **inputs, size_t ninputs,
                const cn_grad_opts *opts)
{
  int status;
  bool was = anomaly ? cn_detect_anomaly(true) : false;
  Py_BEGIN_ALLOW_THREADS
  status = ninputs ? cn_grad_with(grads, outputs, noutputs, inputs, ninputs, opts)
                   : cn_backward_all(outputs, noutputs, opts);
  Py_END_ALLOW_THREADS
  if (anomaly) cn_detect_anomaly(was);
  return status;
}

/* backward(inputs=...): adds a gradient to what the tensor has so far, as the engine does for leaves. */
static int add_gradient(cn_tensor *t, cn_tensor *g, bool create)
{
  cn_tensor *have = cn_grad_of(t);
  if (!have) return cn_set_grad(t, create ? g : cn_clone(g));
  if (create || cn_needs_grad(have)) return cn_set_grad(t, cn_add_with(have, g, NULL));
  return cn_add_inplace_with(have, g, NULL) ? CN_OK : cn_err();
}

static int add_gradients(cn_tensor **inputs, cn_tensor **grads, size_t n, bool create)
{
  int saved = create ? cn_enable_grad_begin() : cn_no_grad_begin(), status = CN_OK;
  for (size_t i = 0; i < n && !status; i++) {
    bool again = false;
    for (size_t k = 0; k < i; k++) again |= inputs[k] == inputs[i];
    if (grads[i] && !again) status = add_gradient(inputs[i], grads[i], create);
  }
  if (create) cn_enable_grad_end(saved);
  else cn_no_grad_end(saved);
  return status ? status : cn_err();
}

/* _backward(tensors, gradients, retain_graph, create_graph, inputs): tuples; gradients may hold None; inputs may be
 * None. */
static PyObject *backward(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *tensors, *gradients, *chosen;
  int retain, create, status = -1;
  if (!PyArg_ParseTuple(args, "O!O!ppO:_backward", &PyTuple_Type, &tensors, &PyTuple_Type, &gradients, &retain, &create,
                        &chosen))
    return NULL;
  if (chosen != Py_None && !PyTuple_Check(chosen)) return PyErr_Format(PyExc_TypeError, "backward: inputs as a tuple");
  size_t n = (size_t)PyTuple_Size(tensors), ninputs = chosen == Py_None ? 0 : (size_t)PyTuple_Size(chosen);
  if (n != (size_t)PyTuple_Size(gradients))
    return cnpy_fail(PyExc_RuntimeError, "backward: %zu tensors but %zu gradients", n,
                     (size_t)PyTuple_Size(gradients));
  cn_tensor **outputs = handles(tensors, "backward", false);
  cn_tensor **seeds = outputs ? handles(gradients, "backward: gradient", true) : NULL;
  cn_tensor **inputs = seeds && ninputs ? handles(chosen, "backward: inputs", false) : NULL;
  cn_tensor **grads = inputs ? PyMem_Calloc(ninputs, sizeof *grads) : NULL;
  if (seeds && !PyErr_Occurred()) {
    cn_grad_opts opts = {.size = sizeof opts, .grad_outputs = seeds, .retain_graph = retain, .create_graph = create,
                         .allow_unused = true};
    cn_scope *scope = cn_scope_begin();
    status = walk(grads, outputs, n, inputs, ninputs, &opts);
    if (!status && ninputs) status = add_gradients(inputs, grads, ninputs, create);
    cn_scope_end(scope);
    if (status) cnpy_raise();
  }
  PyMem_Free(outputs);
  PyMem_Free(seeds);
  PyMem_Free(inputs);
  PyMem_Free(grads);
  if (PyErr_Occurred()) return NULL;
  Py_RETURN_NONE;
}

static PyObject *wrapped(cn_tensor **grads, size_t n)
{
  PyObject *result = PyTuple_New((Py_ssize_t)n);
  for (size_t i = 0; result && i < n; i++) {
    PyObject *g = grads[i] ? cnpy_wrap_borrowed(grads[i]) : Py_NewRef(Py_None);
    if (!g || PyTuple_SetItem(result, (Py_ssize_t)i, g)) Py_CLEAR(result);
  }
  return result;
}

/* _grad(outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused) -> tuple of Tensor or None */
static PyObject *grad(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *tensors, *chosen, *gradients, *result = NULL;
  int retain, create, unused;
  if (!PyArg_ParseTuple(args, "O!O!O!ppp:_grad", &PyTuple_Type, &tensors, &PyTuple_Type, &chosen, &PyTuple_Type,
                        &gradients, &retain, &create, &unused))
    return NULL;
  size_t n = (size_t)PyTuple_Size(tensors), ninputs = (size_t)PyTuple_Size(chosen);
  if (n != (size_t)PyTuple_Size(gradients))
    return cnpy_fail(PyExc_RuntimeError, "grad: %zu outputs but %zu grad_outputs", n, (size_t)PyTuple_Size(gradients));
  if (!ninputs) return cnpy_fail(PyExc_ValueError, "grad: at least one input is needed");
  cn_tensor **outputs = handles(tensors, "grad: outputs", false);
  cn_tensor **seeds = outputs ? handles(gradients, "grad: grad_outputs", true) : NULL;
  cn_tensor **inputs = seeds ? handles(chosen, "grad: inputs", false) : NULL;
  cn_tensor **grads = inputs ? PyMem_Calloc(ninputs, sizeof *grads) : NULL;
  if (grads) {
    cn_grad_opts opts = {.size = sizeof opts, .grad_outputs = seeds, .retain_graph = retain, .create_graph = create,
                         .allow_unused = unused};
    cn_scope *scope = cn_scope_begin();
    result = walk(grads, outputs, n, inputs, ninputs, &opts) ? cnpy_raise() : wrapped(grads, ninputs);
    cn_scope_end(scope);
  } else if (inputs) PyErr_NoMemory();
  PyMem_Free(outputs);
  PyMem_Free(seeds);
  PyMem_Free(inputs);
  PyMem_Free(grads);
  return result;
}

/* A tensor, or a sequence of tensors, as a tuple; new reference. */
static PyObject *as_tuple(PyObject *o)
{
  return cnpy_is_tensor(o) ? PyTuple_Pack(1, o) : PySequence_Tuple(o);
}

/* t.backward(gradient=None, retain_graph=None, create_graph=False, inputs=None) */
static PyObject *tensor_backward(PyObject *self, PyObject *args, PyObject *kwargs)
{
  static char *names[] = {"gradient", "retain_graph", "create_graph", "inputs", NULL};
  PyObject *gradient = Py_None, *retain = Py_None, *inputs = Py_None, *result = NULL;
  int create = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OOpO:backward", names, &gradient, &retain, &create, &inputs))
    return NULL;
  int keep = retain == Py_None ? create : PyObject_IsTrue(retain);
  if (keep < 0) return NULL;
  PyObject *chosen = inputs == Py_None ? Py_NewRef(Py_None) : as_tuple(inputs);
  if (chosen && chosen != Py_None && !PyTuple_Size(chosen))
    PyErr_SetString(PyExc_RuntimeError, "backward: inputs is empty");
  PyObject *call = chosen && !PyErr_Occurred() ? Py_BuildValue("((O)(O)NNO)", self, gradient, PyBool_FromLong(keep),
                                                               PyBool_FromLong(create), chosen)
                                               : NULL;
  if (call) result = backward(NULL, call);
  Py_XDECREF(call);
  Py_XDECREF(chosen);
  return result;
}

/* ---- gradients as attributes ---- */

static cnpy_tensor *held(PyObject *self) { return (cnpy_tensor *)(void *)self; }

static void hold(PyObject *self, PyObject *grad)
{
  PyObject *old = held(self)->grad;
  held(self)->grad = Py_XNewRef(grad);
  Py_XDECREF(old);
}

/* The gradient of a tensor that records lives in the core, so that the engine can add to it; the Python object in
 * cnpy_tensor.grad is only remembered. A tensor that does not record has it there alone. */
static PyObject *get_grad(PyObject *self, void *Py_UNUSED(closure))
{
  cn_tensor *t = cnpy_t(self), *g = cn_grad_of(t);
  if (!g && held(self)->grad && cn_needs_grad(t)) hold(self, NULL);
  if (!g && held(self)->grad) return Py_NewRef(held(self)->grad);
  if (!g) {
    if (!cn_is_leaf(t) && !cn_retains_grad(t) &&
        PyErr_WarnEx(PyExc_UserWarning, "grad: this tensor is the result of an op and keeps no gradient; call "
                                        "retain_grad() on it before backward, or look at a leaf", 1))
      return NULL;
    Py_RETURN_NONE;
  }
  if (cn_tracing()) return cnpy_wrap_borrowed(g); /* one without a value is not remembered beyond the capture */
  if (!held(self)->grad || cnpy_t(held(self)->grad) != g) {
    PyObject *o = cnpy_wrap_borrowed(g);
    if (!o) return NULL;
    hold(self, o);
    Py_DECREF(o);
  }
  return Py_NewRef(held(self)->grad);
}

static int check_grad(cn_tensor *t, cn_tensor *g)
{
  bool same = cn_ndim(t) == cn_ndim(g);
  for (int i = 0; same && i < cn_ndim(t); i++) same = cn_shape(t)[i] == cn_shape(g)[i];
  if (!same) cnpy_fail(PyExc_RuntimeError, "grad: its shape differs from the tensor's");
  else if (cn_dtype_of(t) != cn_dtype_of(g))
    cnpy_fail(PyExc_RuntimeError, "grad: a %s gradient for a %s tensor", cn_dtype_name(cn_dtype_of(g)),
              cn_dtype_name(cn_dtype_of(t)));
  else if (cn_device_of(t) != cn_device_of(g)) cnpy_fail(PyExc_RuntimeError, "grad: it is on another device");
  else return 0;
  return -1;
}

static int set_grad(PyObject *self, PyObject *value, void *Py_UNUSED(closure))
{
  cn_tensor *t = cnpy_t(self);
  if (!value || value == Py_None) {
    hold(self, NULL);
    if (cn_set_grad(t, NULL)) cn_err_clear();
    return 0;
  }
  if (!cnpy_is_tensor(value)) {
    PyErr_Format(PyExc_TypeError, "grad: expected a Tensor or None, not %R", (PyObject *)Py_TYPE(value));
    return -1;
  }
  if (value == self) return cnpy_fail(PyExc_RuntimeError, "grad: a tensor cannot be its own gradient"), -1;
  if (check_grad(t, cnpy_t(value))) return -1;
  if (cn_needs_grad(t) && cn_set_grad(t, cnpy_t(value))) return cnpy_raise(), -1;
  hold(self, cn_tracing() && cn_needs_grad(t) ? NULL : value);
  return 0;
}

static PyObject *get_requires_grad(PyObject *self, void *Py_UNUSED(closure))
{
  return PyBool_FromLong(cn_needs_grad(cnpy_t(self)));
}

/* Switching keeps the gradient that is there. */
static int switch_grad(PyObject *self, bool on)
{
  cn_tensor *t = cnpy_t(self);
  if (on == cn_needs_grad(t)) return 0;
  if (!cn_is_leaf(t))
    return cnpy_fail(PyExc_RuntimeError, "requires_grad: only leaves can be switched off; use detach() for the result "
                                         "of an op"), -1;
  if (on && !cn_dtype_is_float(cn_dtype_of(t)) && !cn_dtype_is_complex(cn_dtype_of(t)))
    return cnpy_fail(PyExc_RuntimeError,
                     "requires_grad: only floating-point and complex tensors can have gradients, not %s",
                     cn_dtype_name(cn_dtype_of(t))), -1;
  PyObject *grad = get_grad(self, NULL);
  if (!grad) return -1;
  int status = cn_requires_grad(t, on) ? 0 : -1;
  if (!status && on && grad != Py_None) status = cn_set_grad(t, cnpy_t(grad));
  if (status) cnpy_raise();
  Py_DECREF(grad);
  return status ? -1 : 0;
}

static int set_requires_grad(PyObject *self, PyObject *value, void *Py_UNUSED(closure))
{
  if (!value || !PyBool_Check(value)) {
    PyErr_SetString(PyExc_TypeError, "requires_grad: must be True or False");
    return -1;
  }
  return switch_grad(self, value == Py_True);
}

static PyObject *tensor_requires_grad(PyObject *self, PyObject *args, PyObject *kwargs)
{
  static char *names[] = {"requires_grad", NULL};
  int on = 1;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|p:requires_grad_", names, &on)) return NULL;
  return switch_grad(self, on) ? NULL : Py_NewRef(self);
}

static PyObject *tensor_detach(PyObject *self, PyObject *Py_UNUSED(none))
{
  cn_tensor *t = cnpy_t(self);
  if (cn_is_view(t) && cn_needs_grad(t))
    return cnpy_fail(PyExc_RuntimeError, "detach_: a view cannot leave its base's record; use detach()");
  if (!cn_needs_grad(t)) return Py_NewRef(self);
  if (cn_is_leaf(t)) return switch_grad(self, false) ? NULL : Py_NewRef(self);
  cn_scope *scope = cn_scope_begin();
  cn_tensor *plain = cn_keep(cn_detach(t));
  cn_scope_end(scope);
  if (!plain) return cnpy_raise();
  cnpy_replace(self, plain);
  return Py_NewRef(self);
}

/* Hooks stay with the old values' record, which is dropped. */
/* A view cannot take other memory: its Python object gets another tensor. */
static int replace_view(PyObject *self, cn_tensor *plain, bool records)
{
  cn_err_clear();
  cn_tensor *kept = cn_keep(plain);
  if (records && !cn_requires_grad(kept, true)) {
    cn_release(kept);
    return -1;
  }
  cnpy_replace(self, kept);
  return 0;
}

/* The tensor itself takes the other memory, so that modules and optimisers that hold it see it. */
static PyObject *tensor_set_data(PyObject *self, PyObject *other)
{
  cn_tensor *t = cnpy_t(self);
  if (!cnpy_is_tensor(other)) return cnpy_fail(PyExc_TypeError, "data: must be a Tensor");
  bool records = cn_needs_grad(t);
  if (!cn_is_leaf(t)) return cnpy_fail(PyExc_RuntimeError, "data: of the result of a recorded op; use a leaf");
  PyObject *grad = get_grad(self, NULL);
  if (!grad) return NULL;
  cn_scope *scope = cn_scope_begin();
  cn_tensor *plain = cn_detach(cnpy_t(other));
  int failed = !plain || (cn_set_data(t, plain) && replace_view(self, plain, records));
  cn_scope_end(scope);
  bool keep = !failed && records && grad != Py_None;
  if (keep && cn_set_grad(cnpy_t(self), cnpy_t(grad))) cn_err_clear(); /* it fits no more */
  Py_DECREF(grad);
  if (failed) return cnpy_raise();
  Py_RETURN_NONE;
}

static PyObject *tensor_data(PyObject *self, PyObject *Py_UNUSED(none))
{
  cn_scope *scope = cn_scope_begin();
  return cnpy_wrap(cnpy_take(scope, cn_data_of(cnpy_t(self))));
}

static PyObject *tensor_retain_grad(PyObject *self, PyObject *Py_UNUSED(none))
{
  cn_tensor *t = cnpy_t(self);
  if (!cn_needs_grad(t))
    return cnpy_fail(PyExc_RuntimeError, "retain_grad: the tensor does not require a gradient");
  if (!cn_is_leaf(t) && cn_retain_grad(t)) return cnpy_raise();
  Py_RETURN_NONE;
}

static PyObject *get_is_leaf(PyObject *self, void *Py_UNUSED(closure))
{
  return PyBool_FromLong(cn_is_leaf(cnpy_t(self)));
}
static PyObject *get_retains_grad(PyObject *self, void *Py_UNUSED(closure))
{
  return PyBool_FromLong(cn_retains_grad(cnpy_t(self)));
}
static PyObject *get_version(PyObject *self, void *Py_UNUSED(closure))
{
  return PyLong_FromUnsignedLongLong(cn_tensor_version(cnpy_t(self)));
}
static PyObject *get_output_nr(PyObject *self, void *Py_UNUSED(closure))
{
  int result;
  cn_node_release(cn_node_of(cnpy_t(self), &result));
  return PyLong_FromLong(result);
}
static PyObject *get_grad_fn(PyObject *self, void *Py_UNUSED(closure))
{
  if (cn_is_leaf(cnpy_t(self))) Py_RETURN_NONE;
  return cnpy_node_wrap(cn_node_of(cnpy_t(self), NULL));
}
static PyObject *tensor_is_inference(PyObject *self, PyObject *Py_UNUSED(none))
{
  return PyBool_FromLong(cn_is_inference(cnpy_t(self)));
}
static PyObject *tensor_is_view(PyObject *self, PyObject *Py_UNUSED(none))
{
  return PyBool_FromLong(cn_is_view(cnpy_t(self)));
}

/* ---- modes ---- */

enum { MODE_NO_GRAD, MODE_GRAD, MODE_INFERENCE };

/* _mode_begin(mode) -> what _mode_end takes. Recording stays off inside inference mode, as torch has it. */
static PyObject *mode_begin(PyObject *Py_UNUSED(module), PyObject *mode)
{
  long which = PyLong_AsLong(mode);
  if (which == -1 && PyErr_Occurred()) return NULL;
  if (which == MODE_INFERENCE) return PyLong_FromLong(cn_inference_begin());
  if (which == MODE_GRAD && !cn_inference_enabled()) return PyLong_FromLong(cn_enable_grad_begin());
  return PyLong_FromLong(cn_no_grad_begin());
}

/* inference_mode(False): an ordinary stretch, recording, inside inference mode. */
static PyObject *mode_normal(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
  return PyLong_FromLong(cn_enable_grad_begin());
}

static PyObject *mode_end(PyObject *Py_UNUSED(module), PyObject *saved)
{
  long value = PyLong_AsLong(saved);
  if (value == -1 && PyErr_Occurred()) return NULL;
  cn_inference_end((int)value);
  Py_RETURN_NONE;
}

static PyObject *grad_enabled(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
  return PyBool_FromLong(cn_grad_enabled());
}
static PyObject *inference_enabled(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
  return PyBool_FromLong(cn_inference_enabled());
}

/* _set_anomaly(on) -> the old setting; of this thread's backward walks. */
static PyObject *set_anomaly(PyObject *Py_UNUSED(module), PyObject *on)
{
  int value = PyObject_IsTrue(on);
  if (value < 0) return NULL;
  bool was = anomaly;
  anomaly = value;
  return PyBool_FromLong(was);
}
static PyObject *anomaly_enabled(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
  return PyBool_FromLong(anomaly);
}

/* ---- tables ---- */

#define WITH_KEYWORDS(f) (PyCFunction)(void (*)(void)) f, METH_VARARGS | METH_KEYWORDS

PyMethodDef cnpy_autograd_methods[] = {
  {"backward", WITH_KEYWORDS(tensor_backward),
   "backward(gradient=None, retain_graph=None, create_graph=False, inputs=None)\n--\n\n"
   "Adds the gradients of this tensor to the .grad of the leaves it was computed from (or of inputs)."},
  {"requires_grad_", WITH_KEYWORDS(tensor_requires_grad),
   "requires_grad_(requires_grad=True)\n--\n\nMakes ops on this leaf record; returns the tensor."},
  {"detach_", tensor_detach, METH_NOARGS, "Cuts the tensor off from its history, in place; returns it."},
  {"retain_grad", tensor_retain_grad, METH_NOARGS, "Keeps the gradient of this result in .grad, too."},
  {"is_inference", tensor_is_inference, METH_NOARGS, "Was the tensor made in inference mode?"},
  {"_is_view", tensor_is_view, METH_NOARGS, "Does the tensor share the memory of the one it was made from?"},
  {"register_hook", tensor_register_hook, METH_O,
   "register_hook(hook)\n--\n\nCalls hook(grad) when this tensor's gradient is known; a tensor that it returns takes "
   "the gradient's place. Returns a handle with remove()."},
  {"_register_after", tensor_register_after, METH_O, "Calls fn(grad) when backward has added to a leaf's gradient."},
  {"_data", tensor_data, METH_NOARGS, "The same memory without history, with a version of its own."},
  {"_set_data", tensor_set_data, METH_O,
   "_set_data(other)\n--\n\nt.data = other: other's values from now on; a leaf stays a leaf with its gradient."},
  {NULL, NULL, 0, NULL}};

PyGetSetDef cnpy_autograd_getset[] = {
  {"grad", get_grad, set_grad, "The gradient so far, or None.", NULL},
  {"requires_grad", get_requires_grad, set_requires_grad, "Do ops on this tensor record for backward?", NULL},
  {"is_leaf", get_is_leaf, NULL, "False for results of recorded ops.", NULL},
  {"grad_fn", get_grad_fn, NULL, "The recorded call that made this tensor; None for leaves.", NULL},
  {"retains_grad", get_retains_grad, NULL, "Was retain_grad() called on this result?", NULL},
  {"output_nr", get_output_nr, NULL, "Which result of grad_fn this is.", NULL},
  {"_version", get_version, NULL, "Writes to this tensor's memory so far.", NULL},
  {NULL, NULL, NULL, NULL, NULL}};

PyMethodDef cnpy_autograd_functions[] = {
  {"_backward", backward, METH_VARARGS, NULL},
  {"_grad", grad, METH_VARARGS, NULL},
  {"_function_apply", cnpy_function_apply, METH_VARARGS, NULL},
  {"_mode_begin", mode_begin, METH_O, NULL},
  {"_mode_normal", mode_normal, METH_NOARGS, NULL},
  {"_mode_end", mode_end, METH_O, NULL},
  {"is_grad_enabled", grad_enabled, METH_NOARGS, "is_grad_enabled()\n--\n\nAre ops recorded on this thread?"},
  {"is_inference_mode_enabled", inference_enabled, METH_NOARGS,
   "is_inference_mode_enabled()\n--\n\nIs inference mode on in this thread?"},
  {"_set_anomaly", set_anomaly, METH_O, NULL},
  {"is_anomaly_enabled", anomaly_enabled, METH_NOARGS,
   "is_anomaly_enabled()\n--\n\nIs anomaly detection on in this thread?"},
  {NULL, NULL, 0, NULL}};
