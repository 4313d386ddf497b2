/* graph.c: graphs, for Python: one object holds one of the library's.
 *
 * Place in the flow: below cairn/export.py and cairn/jit.py. A function of tensors, fn(list) -> list, is traced; sizes
 * that vary are named. Invariant: while a graph runs other threads of Python go on. */
#include <cairn/ext/graph.h>
#include <cairn/ext/stablehlo.h>
#include <cairn/mesh.h>
#include <string.h>

#include "autograd.h"
#include "files.h"

static PyTypeObject *graph_type;

/* ---- tracing ---- */

typedef struct traced {
  PyObject *fn;
  size_t ninputs, noutputs;
  bool counting; /* the first trace only tells how many results there are */
  PyObject *type, *value, *trace; /* the last exception: at some sizes a function may fail, which ends their range */
} traced;

static void drop_exception(traced *k)
{
  Py_CLEAR(k->type);
  Py_CLEAR(k->value);
  Py_CLEAR(k->trace);
}

static int take_results(traced *k, PyObject *made, cn_tensor **outputs)
{
  Py_ssize_t n = PyList_Check(made) ? PyList_Size(made) : -1;
  if (k->counting) k->noutputs = n < 0 ? 0 : (size_t)n;
  if (n < 0 || (size_t)n != k->noutputs)
    return cn_err_set(CN_ERR_CAPTURE, "trace: the function does not give the same number of tensors at all sizes");
  for (Py_ssize_t i = 0; i < n && !k->counting; i++)
    if (!(outputs[i] = cnpy_callback_result(PyList_GetItem(made, i)))) return cn_err();
  return CN_OK;
}

/* Held by the caller of trace: the GIL. */
static int run_function(cn_tensor **outputs, cn_tensor *const *inputs, void *payload)
{
  traced *k = payload;
  PyObject *in = cnpy_wrap_list(inputs, k->ninputs), *made = in ? cnpy_call1(k->fn, in) : NULL;
  drop_exception(k);
  int status = made ? take_results(k, made, outputs) : cn_err_set(CN_ERR_CAPTURE, "trace: a Python exception");
  if (!made) PyErr_Fetch(&k->type, &k->value, &k->trace);
  Py_XDECREF(made);
  Py_XDECREF(in);
  return status;
}

/* One (input, dim, symbol, min, max) of the list that is given. */
static int to_dim(cn_free_dim *dim, PyObject *tuple)
{
  Py_ssize_t input;
  long long min, max;
  if (!PyTuple_Check(tuple)) return cnpy_fail(PyExc_TypeError, "GraphBase: expected tuples"), -1;
  if (!PyArg_ParseTuple(tuple, "nisLL", &input, &dim->dim, &dim->symbol, &min, &max)) return -1;
  dim->input = (size_t)input;
  dim->min = min;
  dim->max = max;
  return 0;
}

static cn_graph *trace(traced *k, cn_tensor *const *in, const cn_free_dim *dims, size_t ndims)
{
  k->counting = true;
  cn_graph *first = cn_trace(run_function, 0, in, k->ninputs, k);
  cn_graph_free(first);
  k->counting = false;
  if (!first) return NULL;
  return ndims ? cn_trace_dynamic(run_function, k->noutputs, in, k->ninputs, dims, ndims, k)
               : cn_trace(run_function, k->noutputs, in, k->ninputs, k);
}

static PyObject *trace_lists(PyTypeObject *type, traced *k, PyObject *tensors, PyObject *given)
{
  size_t n = (size_t)PyList_Size(tensors), ndims = (size_t)PyList_Size(given);
  cn_tensor **in = PyMem_Calloc(n + 1, sizeof *in);
  cn_free_dim *dims = PyMem_Calloc(ndims + 1, sizeof *dims);
  bool good = in && dims;
  for (size_t i = 0; good && i < n; i++) {
    PyObject *t = PyList_GetItem(tensors, (Py_ssize_t)i);
    if ((good = cnpy_is_tensor(t))) in[i] = cnpy_t(t);
    else cnpy_fail(PyExc_TypeError, "GraphBase: expected tensors");
  }
  for (size_t i = 0; good && i < ndims; i++) good = !to_dim(&dims[i], PyList_GetItem(given, (Py_ssize_t)i));
  k->ninputs = n;
  cn_scope *scope = cn_scope_begin();
  cn_graph *g = good ? trace(k, in, dims, ndims) : NULL;
  cn_scope_end(scope);
  PyMem_Free(in);
  PyMem_Free(dims);
  if (!good && !PyErr_Occurred()) return PyErr_NoMemory();
  if (!good) return NULL;
  if (!g && k->type) { /* what went wrong in Python says more than that something did */
    cn_err_clear();
    PyErr_Restore(k->type, k->value, k->trace);
    return NULL;
  }
  drop_exception(k);
  return g ? cnpy_hold(type, g, (void (*)(void *))cn_graph_free) : cnpy_raise();
}

PyObject *cnpy_graph_hold(cn_graph *g)
{
  return g ? cnpy_hold(graph_type, g, (void (*)(void *))cn_graph_free) : cnpy_raise();
}

/* GraphBase(fn, tensors, dims): what fn computes. */
static PyObject *graph_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
  PyObject *tensors, *dims;
  traced k = {NULL, 0, 0, false, NULL, NULL, NULL};
  if (kwargs && PyDict_Size(kwargs)) return cnpy_fail(PyExc_TypeError, "GraphBase takes no keywords");
  if (!PyArg_ParseTuple(args, "OO!O!:GraphBase", &k.fn, &PyList_Type, &tensors, &PyList_Type, &dims)) return NULL;
  return trace_lists(type, &k, tensors, dims);
}

static void graph_dealloc(PyObject *self)
{
  cn_graph_free(cnpy_held(self));
  cnpy_holder_free(self);
}

/* ---- methods ---- */

/* The tensors of a list of n into `to`; 0, or -1 with an exception. */
static int take_tensors(cn_tensor **to, PyObject *list, size_t n, const char *what)
{
  if (!PyList_Check(list) || (size_t)PyList_Size(list) != n)
    return cnpy_fail(PyExc_TypeError, "graph: it takes %zu %s", n, what), -1;
  for (size_t i = 0; i < n; i++) {
    PyObject *t = PyList_GetItem(list, (Py_ssize_t)i);
    if (!cnpy_is_tensor(t)) return cnpy_fail(PyExc_TypeError, "graph: expected tensors"), -1;
    to[i] = cnpy_t(t);
  }
  return 0;
}

/* call(tensors, states): by a run, or replayed where gradients or other modes want to see its ops. */
static PyObject *call(PyObject *self, PyObject *args)
{
  cn_graph *g = cnpy_held(self);
  size_t nin = cn_graph_inputs(g), nout = cn_graph_outputs(g), nstates = cn_graph_states(g);
  PyObject *tensors, *states;
  if (!PyArg_ParseTuple(args, "OO:call", &tensors, &states)) return NULL;
  cn_tensor **in = PyMem_Calloc(nin + nout + nstates + 1, sizeof *in), **out = in + nin, **slots = out + nout;
  if (!in) return PyErr_NoMemory();
  if (take_tensors(in, tensors, nin, "tensors") || take_tensors(slots, states, nstates, "states"))
    return PyMem_Free(in), NULL;
  cn_scope *scope = cn_scope_begin();
  int status;
  Py_BEGIN_ALLOW_THREADS status = cn_graph_call(out, g, in, slots);
  Py_END_ALLOW_THREADS PyObject *made = status ? cnpy_raise() : cnpy_wrap_list(out, nout);
  cn_scope_end(scope);
  PyMem_Free(in);
  return made;
}

static PyObject *run(PyObject *self, PyObject *tensors)
{
  cn_graph *g = cnpy_held(self);
  size_t nin = cn_graph_inputs(g), nout = cn_graph_outputs(g);
  cn_tensor **in = PyMem_Calloc(nin + nout + 1, sizeof *in), **out = in + nin;
  if (!in) return PyErr_NoMemory();
  if (take_tensors(in, tensors, nin, "tensors")) return PyMem_Free(in), NULL;
  cn_scope *scope = cn_scope_begin();
  int status;
  Py_BEGIN_ALLOW_THREADS status = cn_graph_run(out, g, in);
  Py_END_ALLOW_THREADS PyObject *made = status ? cnpy_raise() : cnpy_wrap_list(out, nout);
  cn_scope_end(scope);
  PyMem_Free(in);
  return made;
}

static PyObject *text(PyObject *self, PyObject *Py_UNUSED(none))
{
  char *s = cn_graph_to_string(cnpy_held(self));
  PyObject *made = s ? PyUnicode_FromString(s) : cnpy_raise();
  cn_string_free(s);
  return made;
}

/* How arguments or results lie on a mesh: texts of one part for each dim, or None for whole, become those of the
 * partitioner. at: gives type and shape of each. Owned: PyMem_Free. NULL with the exception set. */
enum { SHARDING = 512 };
static const char **read_shardings(PyObject *list, const cn_stablehlo_opts *opts, const cn_graph *g, size_t nstates)
{
  const cn_mesh *mesh = opts->mesh;
  size_t n = opts->nshardings;
  const char **texts = PyMem_Calloc(n + 1, sizeof *texts + SHARDING);
  char *room = (char *)(texts + n + 1);
  if (!texts) return (const char **)(void *)PyErr_NoMemory();
  bool good = (size_t)PyList_Size(list) <= n;
  if (!good) cnpy_fail(PyExc_ValueError, "stablehlo: %zu shardings, and there are %zu tensors", PyList_Size(list), n);
  for (Py_ssize_t i = 0; good && i < PyList_Size(list); i++, room += SHARDING) {
    PyObject *one = PyList_GetItem(list, i);
    cn_value_info v = {sizeof v};
    cn_partition p;
    if (one == Py_None) continue;
    size_t k = (size_t)i;
    int value = k < nstates ? cn_graph_state_value(g, k) : cn_graph_input(g, k - nstates);
    PyObject *bytes = PyUnicode_AsUTF8String(one);
    good = bytes && !cn_graph_value_at(&v, g, value) &&
           !cn_partition_read(&p, mesh, PyBytes_AsString(bytes), v.ndim, v.shape);
    if (good) texts[i] = (opts->shardy ? cn_stablehlo_shardy : cn_stablehlo_sharding)(room, SHARDING, mesh, &p, v.ndim);
    else if (bytes) cnpy_raise();
    Py_XDECREF(bytes);
  }
  if (!good) PyMem_Free(texts);
  return good ? texts : NULL;
}

/* stablehlo(constants, donate, axes, shardings, shardy, states): axes None is one device. Results that are the new
 * value of an argument lie as that does. states: how many are arguments, others being constants; 0: all are. */
static PyObject *stablehlo(PyObject *self, PyObject *args)
{
  int constants, donate, shardy;
  Py_ssize_t given;
  PyObject *axes, *list;
  cn_mesh mesh;
  const cn_graph *g = cnpy_held(self);
  if (!PyArg_ParseTuple(args, "ppOO!pn:stablehlo", &constants, &donate, &axes, &PyList_Type, &list, &shardy, &given))
    return NULL;
  cn_stablehlo_opts opts = {
      .size = sizeof opts, .constants = constants != 0, .donate = donate != 0, .shardy = shardy != 0,
      .nstates = (size_t)given};
  size_t nstates = constants ? 0 : given ? (size_t)given : cn_graph_states(g);
  if (axes != Py_None) {
    opts.nshardings = nstates + cn_graph_inputs(g);
    if (cnpy_to_mesh(axes, &mesh)) return NULL;
    opts.mesh = &mesh;
    if (!(opts.shardings = read_shardings(list, &opts, g, nstates))) return NULL;
  }
  char *s = cn_stablehlo_text_with(g, &opts);
  PyObject *made = s ? PyUnicode_FromString(s) : cnpy_raise();
  cn_string_free(s);
  PyMem_Free((void *)(uintptr_t)opts.shardings);
  return made;
}

/* _stablehlo_refused() -> a dictionary: ops that have no form there, and why. */
static PyObject *stablehlo_refused(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
  PyObject *made = PyDict_New();
  cn_op_info info;
  for (int i = 0; made && i < cn_op_count(); i++) {
    const char *why = cn_stablehlo_problem(cn_op_at(i));
    if (!why || cn_op_describe(&info, cn_op_at(i))) continue;
    PyObject *text = PyUnicode_FromString(why);
    if (!text || PyDict_SetItemString(made, info.name, text)) Py_CLEAR(made);
    Py_XDECREF(text);
  }
  return made;
}

static PyObject *save(PyObject *self, PyObject *path)
{
  PyObject *bytes;
  if (!PyUnicode_FSConverter(path, &bytes)) return NULL;
  int status = cn_graph_save(cnpy_held(self), PyBytes_AsString(bytes));
  Py_DECREF(bytes);
  return cnpy_done(status);
}

static PyObject *optimise(PyObject *self, PyObject *Py_UNUSED(none))
{
  int changes = cn_graph_optimise(cnpy_held(self));
  return changes < 0 ? cnpy_raise() : PyLong_FromLong(changes);
}

static PyObject *name_states(PyObject *self, PyObject *module)
{
  if (!cnpy_is_module(module)) return cnpy_fail(PyExc_TypeError, "expected a module");
  int named = cn_module_name_states(cnpy_m(module), cnpy_held(self));
  return cnpy_done(named < 0 ? named : CN_OK);
}

/* bind(i, tensor) */
static PyObject *bind(PyObject *self, PyObject *args)
{
  Py_ssize_t i;
  PyObject *t;
  if (!PyArg_ParseTuple(args, "nO:bind", &i, &t)) return NULL;
  if (!cnpy_is_tensor(t)) return cnpy_fail(PyExc_TypeError, "graph: expected a tensor");
  return cnpy_done(cn_graph_bind(cnpy_held(self), (size_t)i, cnpy_t(t)));
}

/* A dictionary: name -> tensor. */
static PyObject *states(PyObject *self, PyObject *Py_UNUSED(none))
{
  const cn_graph *g = cnpy_held(self);
  PyObject *made = PyDict_New();
  for (size_t i = 0; made && i < cn_graph_states(g); i++) {
    char number[32];
    PyOS_snprintf(number, sizeof number, "state.%zu", i);
    const char *name = cn_graph_state_name(g, i);
    PyObject *t = cnpy_wrap_borrowed(cn_graph_state(g, i));
    if (!t || PyDict_SetItemString(made, name ? name : number, t)) Py_CLEAR(made);
    Py_XDECREF(t);
  }
  return made;
}

static PyObject *described(const cn_graph *g, size_t n, int (*at)(cn_graph_value *, const cn_graph *, size_t))
{
  PyObject *list = PyList_New((Py_ssize_t)n);
  for (size_t i = 0; list && i < n; i++) {
    cn_graph_value v;
    PyObject *pair = at(&v, g, i) ? cnpy_raise() : NULL;
    if (!PyErr_Occurred()) pair = Py_BuildValue("(NN)", cnpy_dtype_of(v.dtype), cnpy_size_of(v.shape, v.ndim));
    if (!pair || PyList_SetItem(list, (Py_ssize_t)i, pair)) Py_CLEAR(list);
  }
  return list;
}

static PyObject *inputs(PyObject *self, PyObject *Py_UNUSED(none))
{
  return described(cnpy_held(self), cn_graph_inputs(cnpy_held(self)), cn_graph_input_at);
}

static PyObject *outputs(PyObject *self, PyObject *Py_UNUSED(none))
{
  return described(cnpy_held(self), cn_graph_outputs(cnpy_held(self)), cn_graph_output_at);
}

/* _graph_load(path) */
static PyObject *load(PyObject *Py_UNUSED(module), PyObject *path)
{
  PyObject *bytes;
  if (!PyUnicode_FSConverter(path, &bytes)) return NULL;
  cn_graph *g = cn_graph_load(PyBytes_AsString(bytes));
  Py_DECREF(bytes);
  return cnpy_graph_hold(g);
}

static PyMethodDef methods[] = {
  {"run", run, METH_O, "run(tensors) -> tensors"},
  {"call", call, METH_VARARGS, "call(tensors, states) -> tensors: with gradients and other modes."},
  {"text", text, METH_NOARGS, "The graph as text."},
  {"stablehlo", stablehlo, METH_VARARGS,
   "stablehlo(constants, donate, axes, shardings, shardy, states): it as StableHLO text."},
  {"onnx", cnpy_graph_onnx, METH_VARARGS, "onnx(path, opset, inputs, outputs, external, no_weights, weights_as_inputs, "
                                          "writes, folding, doc): it as an ONNX model; bytes where path is None."},
  {"save", save, METH_O, "Writes it and its states as a file."},
  {"optimise", optimise, METH_NOARGS, "Computes what is constant once, and nothing twice; how many changes."},
  {"name_states", name_states, METH_O, "States get the names that a module has for them."},
  {"bind", bind, METH_VARARGS, "bind(i, tensor): state i is that tensor."},
  {"states", states, METH_NOARGS, "Its states: name -> tensor."},
  {"inputs", inputs, METH_NOARGS, "Type and shape of each input."},
  {"outputs", outputs, METH_NOARGS, "Type and shape of each output."},
  {NULL, NULL, 0, NULL},
};
static PyMethodDef functions[] = {
  {"_graph_load", load, METH_O, "A graph from its file."},
  {"_stablehlo_refused", stablehlo_refused, METH_NOARGS, "Ops that have no form in StableHLO, and why."},
  {"_onnx_refused", cnpy_onnx_refused, METH_NOARGS, "Ops that cannot be written to an ONNX model, and why."},
  {NULL, NULL, 0, NULL},
};
static PyType_Slot slots[] = {{Py_tp_new, (void *)graph_new},
                              {Py_tp_dealloc, (void *)graph_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_doc, (void *)"fn, tensors, dims"},
                              {0, NULL}};
static PyType_Spec spec = {"cairn._C.GraphBase", sizeof(cnpy_holder), 0, Py_TPFLAGS_DEFAULT, slots};

int cnpy_add_graph(PyObject *module)
{
  if (!(graph_type = cnpy_add_type(module, &spec))) return -1;
  return PyModule_AddFunctions(module, functions);
}
