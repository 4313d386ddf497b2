/* compile.c: compiled functions, for Python: one object holds one of the library's.
 *
 * Place in the flow: below cairn/compiler.py, which takes arguments apart into tensors and the rest, for which it has a
 * number (the key), and puts results together again by the note that the function left. A call comes with the function
 * that computes it, in case it must be captured or run: fn(list of tensors, whether it runs as it is) -> (list of
 * tensors, note). Invariant: while a program runs other threads of Python go on. */
#include <cairn/compile.h>

#include "autograd.h"
#include "files.h"

enum { MOST_RESULTS = 4096 };

typedef struct python_call {
  PyObject *fn;
  int64_t key;
} python_call;

/* ---- what the library calls ---- */

/* The tensors of the list that the function returned, kept alive by the scope. */
static int take_results(cn_compile_call *call, PyObject *list)
{
  Py_ssize_t n = PyList_Check(list) ? PyList_Size(list) : -1;
  if (n < 0 || (size_t)n > call->noutputs) return cn_err_set(CN_ERR_VALUE, "compile: too many results");
  for (Py_ssize_t i = 0; i < n; i++)
    if (!(call->outputs[i] = cnpy_callback_result(PyList_GetItem(list, i)))) return cn_err();
  call->noutputs = (size_t)n;
  return CN_OK;
}

int cnpy_capture_failed(const char *who)
{
  bool capture = PyErr_ExceptionMatches(cnpy.capture_error);
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return cn_err_set(CN_ERR_UNSUPPORTED, "%s: interrupted", who);
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject *text = value ? PyObject_Str(value) : NULL, *bytes = text ? PyUnicode_AsUTF8String(text) : NULL;
  const char *message = bytes ? PyBytes_AsString(bytes) : "it cannot be captured";
  int status = capture ? cn_err_set(CN_ERR_CAPTURE, "%s", message)
                       : cn_err_set(CN_ERR_VALUE, "%s: a Python exception: %.300s", who, message);
  Py_XDECREF(bytes);
  Py_XDECREF(text);
  PyErr_Clear();
  if (!capture) {
    PyErr_Restore(type, value, trace);
    return status;
  }
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  return status;
}

/* A function that is captured at several sizes may fail at some: what it raised there is forgotten, unless it is no
 * error (an interrupt). 0: nothing is pending any more. */
static int forget_error(void)
{
  if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception)) PyErr_Clear();
  return PyErr_Occurred() ? cnpy_capture_failed("compile") : CN_OK;
}

static int compute(cn_compile_call *call)
{
  const python_call *k = call->payload;
  PyObject *in = cnpy_wrap_list(call->inputs, call->ninputs), *as_is = call->ran_as_is ? Py_True : Py_False;
  PyObject *made = in ? PyObject_CallFunctionObjArgs(k->fn, in, as_is, NULL) : NULL;
  int status;
  if (made && PyTuple_Check(made) && PyTuple_Size(made) == 2) {
    status = take_results(call, PyTuple_GetItem(made, 0));
    if (!status) call->note = Py_NewRef(PyTuple_GetItem(made, 1));
  } else status = cnpy_capture_failed("compile");
  Py_XDECREF(made);
  Py_XDECREF(in);
  return status;
}

static int run_function(cn_compile_call *call)
{
  PyGILState_STATE gil = PyGILState_Ensure();
  int status = forget_error();
  if (!status) status = compute(call);
  PyGILState_Release(gil);
  return status;
}

static void put_key(cn_key *key, const cn_compile_call *call)
{
  const python_call *k = call->payload;
  cn_key_put(key, &k->key, sizeof k->key, "what is no tensor (an argument, a module's mode or parameters, a constant)");
}

static bool note_same(const void *a, const void *b)
{
  PyGILState_STATE gil = PyGILState_Ensure();
  int same = PyObject_RichCompareBool((PyObject *)(uintptr_t)a, (PyObject *)(uintptr_t)b, Py_EQ);
  if (same < 0) PyErr_Clear(); /* what cannot be compared is another */
  PyGILState_Release(gil);
  return same > 0;
}

static void note_free(void *note)
{
  if (!Py_IsInitialized()) return;
  PyGILState_STATE gil = PyGILState_Ensure();
  Py_DECREF((PyObject *)note);
  PyGILState_Release(gil);
}

/* ---- the object ---- */

static void compiled_free(void *compiled) { cn_compiled_free(compiled); }

static PyObject *compiled_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
  const char *name;
  int fullgraph, fast;
  if (kwargs && PyDict_Size(kwargs)) return cnpy_fail(PyExc_TypeError, "CompiledBase takes no keywords");
  if (!PyArg_ParseTuple(args, "spp:CompiledBase", &name, &fullgraph, &fast)) return NULL;
  cn_compile_opts o = {.size = sizeof o, .fullgraph = fullgraph, .key = put_key, .note_free = note_free,
                       .note_same = note_same, .name = name, .fast = fast};
  return cnpy_hold(type, cn_compile_with(run_function, &o), compiled_free);
}

static void compiled_dealloc(PyObject *self)
{
  cn_compiled_free(cnpy_held(self));
  cnpy_holder_free(self);
}

/* The call of (list of tensors and floats, key, fn), made in a scope; 0, or -1 with an exception. Its arrays are
 * PyMem_Free'd by end_call. */
static int begin_call(cn_compile_call *call, python_call *k, PyObject *args)
{
  PyObject *list;
  long long key;
  if (!PyArg_ParseTuple(args, "O!LO:CompiledBase", &PyList_Type, &list, &key, &k->fn)) return -1;
  k->key = key;
  size_t n = (size_t)PyList_Size(list);
  cn_tensor **in = PyMem_Malloc((n + 1 + MOST_RESULTS) * sizeof *in);
  if (!in) return PyErr_NoMemory(), -1;
  *call = (cn_compile_call){.inputs = in, .ninputs = n, .outputs = in + n + 1, .noutputs = MOST_RESULTS, .payload = k};
  for (size_t i = 0; i < n; i++) {
    PyObject *t = PyList_GetItem(list, (Py_ssize_t)i);
    if (PyFloat_Check(t)) in[i] = cn_num(PyFloat_AsDouble(t));
    else if (cnpy_is_tensor(t)) in[i] = cnpy_t(t);
    else return PyMem_Free(in), cnpy_fail(PyExc_TypeError, "compile: expected tensors and floats"), -1;
  }
  return 0;
}

static void end_call(cn_compile_call *call)
{
  PyMem_Free((void *)(uintptr_t)call->inputs);
}

/* The results; one that is an input is that very object. */
static PyObject *results_of(const cn_compile_call *call, PyObject *inputs)
{
  PyObject *out = cnpy_wrap_list(call->outputs, call->noutputs);
  for (size_t i = 0; out && i < call->noutputs; i++)
    for (size_t k = 0; out && k < call->ninputs; k++)
      if (call->outputs[i] == call->inputs[k] &&
          PyList_SetItem(out, (Py_ssize_t)i, Py_NewRef(PyList_GetItem(inputs, (Py_ssize_t)k))))
        Py_CLEAR(out);
  return out;
}

/* call(tensors, key, fn) -> (tensors, note) */
static PyObject *compiled_call(PyObject *self, PyObject *args)
{
  cn_compile_call call;
  python_call k;
  cn_scope *scope = cn_scope_begin();
  int status = begin_call(&call, &k, args);
  if (status) return cn_scope_end(scope), NULL;
  cnpy_hold_warnings();
  Py_BEGIN_ALLOW_THREADS status = cn_compiled_call(cnpy_held(self), &call);
  Py_END_ALLOW_THREADS if (!status && forget_error()) status = cn_err();
  PyObject *out = status ? cnpy_raise() : results_of(&call, PyTuple_GetItem(args, 0));
  cn_scope_end(scope);
  PyObject *result = out ? PyTuple_Pack(2, out, call.note ? (PyObject *)call.note : Py_None) : NULL;
  Py_XDECREF(out);
  if (call.ran_as_is) Py_XDECREF((PyObject *)call.note);
  if (cnpy_say_warnings()) Py_CLEAR(result);
  end_call(&call);
  return result;
}

/* explain(tensors, key, fn) -> str */
static PyObject *compiled_explain(PyObject *self, PyObject *args)
{
  cn_compile_call call;
  python_call k;
  cn_scope *scope = cn_scope_begin();
  if (begin_call(&call, &k, args)) return cn_scope_end(scope), NULL;
  char *text = cn_compiled_explain(cnpy_held(self), &call);
  cn_scope_end(scope);
  PyObject *result = text && !forget_error() ? PyUnicode_FromString(text) : cnpy_raise();
  cn_string_free(text);
  end_call(&call);
  return result;
}

static PyObject *dictionary(const cn_compiled *compiled)
{
  cn_compile_stats s;
  cn_compile_stats_get(&s, sizeof s, compiled);
  return Py_BuildValue("{snsnsnsnsnsn}", "executables", (Py_ssize_t)s.executables, "runs", (Py_ssize_t)s.runs,
                       "recompiles", (Py_ssize_t)s.recompiles, "eager_calls", (Py_ssize_t)s.eager_calls, "groups",
                       (Py_ssize_t)s.groups, "code", (Py_ssize_t)s.code);
}

static PyObject *compiled_stats(PyObject *self, PyObject *Py_UNUSED(none)) { return dictionary(cnpy_held(self)); }

/* ---- functions ---- */

static PyObject *all_stats(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none)) { return dictionary(NULL); }

static PyObject *reset_stats(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
  cn_compile_stats_reset();
  Py_RETURN_NONE;
}

static PyObject *tracing(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
  return PyBool_FromLong(cn_tracing());
}

/* ---- computing something again (cairn/utils/checkpoint.py) ---- */

/* _random_state() -> (seed, offset) of the thread, which a captured function may ask for, too. */
static PyObject *random_state(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
  uint64_t seed, offset;
  cn_random_state(&seed, &offset);
  return Py_BuildValue("KK", (unsigned long long)seed, (unsigned long long)offset);
}

static PyObject *set_random_state(PyObject *Py_UNUSED(module), PyObject *args)
{
  unsigned long long seed, offset;
  if (!PyArg_ParseTuple(args, "KK:_random_set_state", &seed, &offset)) return NULL;
  cn_random_set_state(seed, offset);
  Py_RETURN_NONE;
}

/* _recompute_begin() -> scope: until _trace_scope_end(scope) a graph that is captured computes something again: no pass
 * may take it for the first time. */
static PyObject *recompute_begin(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
  int scope = cn_trace_scope_begin("checkpoint", "recompute", NULL);
  return cn_err() ? cnpy_raise() : PyLong_FromLong(scope);
}

static PyObject *scope_end(PyObject *Py_UNUSED(module), PyObject *scope)
{
  long number = PyLong_AsLong(scope);
  if (number == -1 && PyErr_Occurred()) return NULL;
  cn_trace_scope_end((int)number);
  Py_RETURN_NONE;
}

cn_tensor *cnpy_weak_input(PyObject *o)
{
  PyObject *t = PyObject_GetAttrString(o, "_tensor");
  cn_tensor *found = t && cnpy_is_tensor(t) ? cnpy_t(t) : NULL;
  if (t && !found) cnpy_fail(PyExc_TypeError, "expected a tensor");
  Py_XDECREF(t); /* o has it */
  return found;
}

/* _set_weak_class(class): objects of it stand for an input of the graph that is captured, their _tensor. */
static PyObject *set_weak_class(PyObject *Py_UNUSED(self), PyObject *type)
{
  cnpy.weak = cnpy_own(Py_NewRef(type));
  if (!cnpy.weak) return NULL;
  Py_RETURN_NONE;
}

static PyMethodDef compiled_methods[] = {
  {"call", compiled_call, METH_VARARGS, "call(tensors, key, fn) -> (tensors, note)"},
  {"explain", compiled_explain, METH_VARARGS, "explain(tensors, key, fn) -> str: what would run."},
  {"stats", compiled_stats, METH_NOARGS, "Counts of this function."},
  {NULL, NULL, 0, NULL},
};
static PyMethodDef functions[] = {
  {"_compile_stats", all_stats, METH_NOARGS, "Counts of all compiled functions."},
  {"_compile_stats_reset", reset_stats, METH_NOARGS, "They begin at 0 again."},
  {"_random_state", random_state, METH_NOARGS, "Seed and offset of this thread's random numbers."},
  {"_random_set_state", set_random_state, METH_VARARGS, "They go on from there."},
  {"_recompute_begin", recompute_begin, METH_NOARGS, "What follows was computed before."},
  {"_trace_scope_end", scope_end, METH_O, "Ends what _recompute_begin began."},
  {"_tracing", tracing, METH_NOARGS, "Is a graph being captured in this thread?"},
  {"_set_weak_class", set_weak_class, METH_O, "The class of floats that are inputs of a graph."},
  {NULL, NULL, 0, NULL},
};
static PyType_Slot compiled_slots[] = {{Py_tp_new, (void *)compiled_new},
                                       {Py_tp_dealloc, (void *)compiled_dealloc},
                                       {Py_tp_methods, compiled_methods},
                                       {Py_tp_doc, (void *)"name, fullgraph, fast"},
                                       {0, NULL}};
static PyType_Spec compiled_spec = {"cairn._C.CompiledBase", sizeof(cnpy_holder), 0, Py_TPFLAGS_DEFAULT,
                                    compiled_slots};

int cnpy_add_compile(PyObject *module)
{
  if (!cnpy_add_type(module, &compiled_spec) || PyModule_AddFunctions(module, functions)) return -1;
  return PyModule_AddFunctions(module, cnpy_compile_key_functions);
}
