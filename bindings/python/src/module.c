/* module.c: the module cairn._C: what import makes, exceptions, settings, devices.
 *
 * Place in the flow: the package's __init__ imports it and gives it the classes written in Python. Invariant: import
 * makes types and looks at no device; threads, plugins and maths libraries come with the first call that needs them. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bind.h"

cnpy_globals cnpy;

PyObject *cnpy_own(PyObject *object)
{
  if (!cnpy.owned && !(cnpy.owned = PyList_New(0))) Py_CLEAR(object);
  if (object && PyList_Append(cnpy.owned, object)) Py_CLEAR(object);
  Py_XDECREF(object);
  return object;
}

PyTypeObject *cnpy_add_type(PyObject *module, PyType_Spec *spec)
{
  PyTypeObject *type = (PyTypeObject *)(void *)cnpy_own(PyType_FromSpec(spec));
  return type && !PyModule_AddType(module, type) ? type : NULL;
}

/* ---- errors ---- */

static PyObject *exception_of(int code)
{
  switch (code) {
  case CN_ERR_MEMORY: return cnpy.memory_error;
  case CN_ERR_VALUE: return cnpy.value_error;
  case CN_ERR_INDEX: return PyExc_IndexError;
  case CN_ERR_TYPE: return PyExc_TypeError;
  case CN_ERR_UNSUPPORTED: return PyExc_NotImplementedError;
  case CN_ERR_IO: return PyExc_OSError;
  case CN_ERR_DEVICE: return cnpy.device_error;
  case CN_ERR_CAPTURE: return cnpy.capture_error;
  case CN_ERR_TIMEOUT: return PyExc_TimeoutError;
  case CN_ERR_CANCELLED: return cnpy.cancelled_error;
  default: return PyExc_RuntimeError;
  }
}

PyObject *cnpy_raise(void)
{
  int code = cn_err();
  if (!PyErr_Occurred())
    PyErr_SetString(exception_of(code), code ? cn_err_message() : "cairn: failed without a reason");
  cn_err_clear();
  return NULL;
}

PyObject *cnpy_fail(PyObject *type, const char *format, ...)
{
  char text[1000];
  va_list ap;
  va_start(ap, format);
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  PyErr_SetString(type, text);
  return NULL;
}

/* An exception with two parents (b NULL: one): torch and Python programs catch now the one, now the other. */
static PyObject *new_exception(PyObject *module, const char *name, const char *doc, PyObject *a, PyObject *b)
{
  char full[64];
  PyOS_snprintf(full, sizeof full, "cairn.%s", name);
  PyObject *bases = b ? PyTuple_Pack(2, a, b) : PyTuple_Pack(1, a);
  PyObject *made = bases ? PyErr_NewExceptionWithDoc(full, doc, bases, NULL) : NULL;
  Py_XDECREF(bases);
  if (made && PyModule_AddObjectRef(module, name, made)) Py_CLEAR(made);
  return cnpy_own(made);
}

/* ---- settings ---- */

static PyObject *set_classes(PyObject *module, PyObject *args)
{
  PyObject *tensor, *size, *repr;
  (void)module;
  if (!PyArg_ParseTuple(args, "O!O!O", &PyType_Type, &tensor, &PyType_Type, &size, &repr)) return NULL;
  if (!PyType_IsSubtype((PyTypeObject *)(void *)tensor, cnpy.tensor_base))
    return cnpy_fail(PyExc_TypeError, "the tensor class must derive from TensorBase");
  cnpy.tensor = (PyTypeObject *)(void *)cnpy_own(Py_NewRef(tensor));
  cnpy.size = (PyTypeObject *)(void *)cnpy_own(Py_NewRef(size));
  cnpy.named_repr = cnpy_own(Py_NewRef(repr));
  if (!cnpy.tensor || !cnpy.size || !cnpy.named_repr) return NULL;
  Py_RETURN_NONE;
}

static PyObject *set_num_threads(PyObject *module, PyObject *n)
{
  int64_t threads;
  (void)module;
  if (cnpy_to_int(n, &threads)) return NULL;
  if (threads <= 0 || threads > 4096)
    return cnpy_fail(PyExc_RuntimeError, "set_num_threads expects a positive integer");
  if (cn_set_num_threads((int)threads)) return cnpy_raise();
  Py_RETURN_NONE;
}

static PyObject *get_num_threads(PyObject *module, PyObject *unused)
{
  (void)module, (void)unused;
  return PyLong_FromLong(cn_num_threads());
}

/* What devices may round, and whether results repeat, as numbers of device.h's enums. Those given are set. */
static PyObject *numerics(PyObject *module, PyObject *args)
{
  int matmul = (int)cn_matmul_precision(), conv = (int)cn_conv_precision(), mode = (int)cn_deterministic_mode();
  PyObject *before = Py_BuildValue("(iii)", matmul, conv, mode);
  (void)module;
  if (!before || !PyArg_ParseTuple(args, "|iii", &matmul, &conv, &mode)) {
    Py_XDECREF(before);
    return NULL;
  }
  if (!cn_set_matmul_precision((cn_precision)matmul) && !cn_set_conv_precision((cn_precision)conv) &&
      !cn_set_deterministic((cn_deterministic)mode))
    return before;
  Py_DECREF(before);
  return cnpy_raise();
}

static PyObject *set_default_dtype(PyObject *module, PyObject *dtype)
{
  cn_dtype id;
  (void)module;
  if (cnpy_to_dtype(dtype, &id)) return NULL;
  if (cn_set_default_dtype(id)) return cnpy_raise();
  Py_RETURN_NONE;
}

static PyObject *get_default_dtype(PyObject *module, PyObject *unused)
{
  (void)module, (void)unused;
  return cnpy_dtype_of(cn_default_dtype());
}

static PyObject *set_default_device(PyObject *module, PyObject *device)
{
  cn_device id = CN_CPU;
  (void)module;
  if (device != Py_None && cnpy_to_device(device, &id)) return NULL;
  cn_set_default_device(id);
  Py_RETURN_NONE;
}

static PyObject *get_default_device(PyObject *module, PyObject *unused)
{
  (void)module, (void)unused;
  return cnpy_device_of(cn_default_device());
}

static PyObject *promote_types(PyObject *module, PyObject *args)
{
  PyObject *a, *b;
  cn_dtype x, y;
  (void)module;
  if (!PyArg_ParseTuple(args, "OO:promote_types", &a, &b) || cnpy_to_dtype(a, &x) || cnpy_to_dtype(b, &y))
    return NULL;
  return cnpy_dtype_of(cn_promote_types(x, y));
}

int cnpy_line_width = 80;

static PyObject *set_print_options(PyObject *module, PyObject *args)
{
  cn_print_options o = {0, 0, 0, 0, 0};
  (void)module;
  if (!PyArg_ParseTuple(args, "iiiii:_set_print_options", &o.precision, &o.threshold, &o.edge_items, &o.line_width,
                        &o.scientific))
    return NULL;
  cn_set_print_options(&o);
  cnpy_line_width = o.line_width > 0 ? o.line_width : 80;
  Py_RETURN_NONE;
}

static PyObject *memory_stats(PyObject *module, PyObject *unused)
{
  cn_memory_stats s;
  (void)module, (void)unused;
  cn_memory_get_stats(&s);
  return Py_BuildValue("{s:n,s:n,s:n,s:K}", "in_use", (Py_ssize_t)s.in_use, "cached", (Py_ssize_t)s.cached, "peak",
                       (Py_ssize_t)s.peak, "allocations", (unsigned long long)s.allocations);
}

static PyObject *memory_trim(PyObject *module, PyObject *unused)
{
  (void)module, (void)unused;
  cn_memory_trim();
  Py_RETURN_NONE;
}

static PyObject *version(PyObject *module, PyObject *unused)
{
  (void)module, (void)unused;
  return PyUnicode_FromString(cn_version());
}

/* ---- devices ---- */

static PyObject *device_count(PyObject *module, PyObject *args)
{
  const char *backend;
  int n;
  (void)module;
  if (!PyArg_ParseTuple(args, "s:_device_count", &backend)) return NULL;
  Py_BEGIN_ALLOW_THREADS n = cn_device_count(backend);
  Py_END_ALLOW_THREADS return PyLong_FromLong(n);
}

static PyObject *library_folders(PyObject *module, PyObject *args)
{
  const char *folders = NULL;
  (void)module;
  if (!PyArg_ParseTuple(args, "|s", &folders)) return NULL;
  if (folders && cn_library_folders_set(folders)) return cnpy_raise();
  return PyUnicode_FromString(cn_library_folders());
}

static PyObject *device_sync(PyObject *module, PyObject *device)
{
  cn_device id;
  int status;
  (void)module;
  if (cnpy_to_device(device, &id)) return NULL;
  Py_BEGIN_ALLOW_THREADS status = cn_device_sync(id);
  Py_END_ALLOW_THREADS if (status) return cnpy_raise();
  Py_RETURN_NONE;
}

static PyObject *device_stream(PyObject *module, PyObject *device)
{
  cn_device id;
  (void)module;
  return cnpy_to_device(device, &id) ? NULL : PyLong_FromVoidPtr(cn_device_stream(id));
}

static PyObject *device_memory(PyObject *module, PyObject *device)
{
  cn_device id;
  size_t in_use, peak, reserved, most;
  (void)module;
  if (cnpy_to_device(device, &id)) return NULL;
  cn_device_memory(&in_use, &peak, id);
  cn_device_memory_reserved(&reserved, &most, id);
  return Py_BuildValue("{s:n,s:n,s:n,s:n}", "allocated", (Py_ssize_t)in_use, "peak", (Py_ssize_t)peak, "reserved",
                       (Py_ssize_t)reserved, "reserved_peak", (Py_ssize_t)most);
}

/* {"used": ((now, peak, total) of all, of small, of large blocks), ..., "retries": n} */
static PyObject *device_memory_stats(PyObject *module, PyObject *device)
{
  cn_device id;
  cn_device_memory_stats s = {.size = sizeof s};
  (void)module;
  if (cnpy_to_device(device, &id)) return NULL;
  if (cn_device_memory_get_stats(&s, id)) return cnpy_raise();
  const struct {
    const char *name;
    const cn_memory_count *counts;
  } of[] = {{"blocks", s.blocks}, {"used", s.used}, {"asked", s.asked}, {"segments", s.segments},
            {"reserved", s.reserved}};
  PyObject *all = Py_BuildValue("{s:(KKK),s:(KKK),s:K,s:K,s:K}", "gaps", s.gaps[0], s.gaps[1], s.gaps[2], "gap_bytes",
                                s.gap_bytes[0], s.gap_bytes[1], s.gap_bytes[2], "retries", s.retries, "failures",
                                s.failures, "limit", s.limit);
  for (size_t i = 0; all && i < sizeof of / sizeof *of; i++) {
    const cn_memory_count *c = of[i].counts;
    PyObject *one = Py_BuildValue("((KKK)(KKK)(KKK))", c[0].now, c[0].peak, c[0].total, c[1].now, c[1].peak, c[1].total,
                                  c[2].now, c[2].peak, c[2].total);
    if (!one || PyDict_SetItemString(all, of[i].name, one)) Py_CLEAR(all);
    Py_XDECREF(one);
  }
  return all;
}

typedef struct pieces {
  cn_memory_piece *v;
  size_t n, room;
} pieces;

/* Without Python, which might free tensors meanwhile. Where host memory is out the rest is left out. */
static void add_piece(const cn_memory_piece *p, void *payload)
{
  pieces *all = payload;
  if (all->n == all->room) {
    size_t room = all->room ? 2 * all->room : 64;
    cn_memory_piece *v = PyMem_Realloc(all->v, room * sizeof *v);
    if (!v) return;
    all->v = v, all->room = room;
  }
  all->v[all->n++] = *p;
}

/* Each piece as (segment, at, bytes, asked, stream, op, used, small). */
static PyObject *device_memory_pieces(PyObject *module, PyObject *device)
{
  cn_device id;
  pieces all = {NULL, 0, 0};
  (void)module;
  if (cnpy_to_device(device, &id)) return NULL;
  PyObject *list = cn_device_memory_pieces(add_piece, &all, id) ? cnpy_raise() : PyList_New((Py_ssize_t)all.n);
  for (size_t i = 0; list && i < all.n; i++) {
    const cn_memory_piece *p = &all.v[i];
    PyObject *one = Py_BuildValue("(KKKKKzNN)", p->segment, p->at, p->bytes, p->asked, p->stream, p->op,
                                  PyBool_FromLong(p->used), PyBool_FromLong(p->small));
    if (!one || PyList_SetItem(list, (Py_ssize_t)i, one)) Py_CLEAR(list);
  }
  PyMem_Free(all.v);
  return list;
}

/* (now, peak, total) of blocks, bytes, used, used_bytes. With a second argument the peaks start again. */
static PyObject *device_pinned_stats(PyObject *module, PyObject *args)
{
  PyObject *device;
  int reset = 0;
  cn_device id;
  cn_pinned_stats s;
  (void)module;
  if (!PyArg_ParseTuple(args, "O|p:_device_pinned_stats", &device, &reset) || cnpy_to_device(device, &id)) return NULL;
  if (reset) cn_device_pinned_reset_peak(id);
  cn_device_pinned_stats(&s, id);
  return Py_BuildValue("((KKK)(KKK)(KKK)(KKK))", s.blocks.now, s.blocks.peak, s.blocks.total, s.bytes.now, s.bytes.peak,
                       s.bytes.total, s.used.now, s.used.peak, s.used.total, s.used_bytes.now, s.used_bytes.peak,
                       s.used_bytes.total);
}

/* What becomes of calls that have to wait for a device, as a number of cn_wait_mode; sets it where one is given. */
static PyObject *wait_mode(PyObject *module, PyObject *args)
{
  int mode = (int)cn_wait_mode_now(), before = mode;
  (void)module;
  if (!PyArg_ParseTuple(args, "|i:_wait_mode", &mode)) return NULL;
  return cn_set_wait_mode((cn_wait_mode)mode) ? cnpy_raise() : PyLong_FromLong(before);
}

static PyObject *device_memory_set_limit(PyObject *module, PyObject *args)
{
  PyObject *device;
  Py_ssize_t bytes;
  cn_device id;
  (void)module;
  if (!PyArg_ParseTuple(args, "On:_device_memory_set_limit", &device, &bytes)) return NULL;
  if (cnpy_to_device(device, &id)) return NULL;
  if (cn_device_memory_set_limit(id, (size_t)bytes)) return cnpy_raise();
  Py_RETURN_NONE;
}

static PyObject *device_memory_trim(PyObject *module, PyObject *device)
{
  cn_device id;
  int status;
  (void)module;
  if (cnpy_to_device(device, &id)) return NULL;
  Py_BEGIN_ALLOW_THREADS status = cn_device_memory_trim(id);
  Py_END_ALLOW_THREADS if (status) return cnpy_raise();
  Py_RETURN_NONE;
}

static PyObject *device_memory_reset_peak(PyObject *module, PyObject *device)
{
  cn_device id;
  (void)module;
  if (cnpy_to_device(device, &id)) return NULL;
  cn_device_memory_reset_peak(id);
  Py_RETURN_NONE;
}

static PyObject *device_info(PyObject *module, PyObject *device)
{
  cn_device id;
  cn_device_info i;
  (void)module;
  if (cnpy_to_device(device, &id)) return NULL;
  if (cn_device_info_get(&i, id)) return cnpy_raise();
  return Py_BuildValue("{s:s,s:s,s:i,s:i,s:d,s:d,s:K,s:K,s:d,s:d,s:(KKK),s:(iiii),s:(iii),s:i,s:(iii),s:(ii),s:y#}",
                       "name", i.name, "arch", i.arch, "units", i.units, "threads", i.threads, "clock_mhz",
                       i.clock_mhz, "memory_mhz", i.memory_mhz, "memory_total", (unsigned long long)i.memory_total,
                       "memory_free", (unsigned long long)i.memory_free, "peak_gflops", i.peak_gflops, "peak_gbps",
                       i.peak_gbps, "cache", (unsigned long long)i.cache[0], (unsigned long long)i.cache[1],
                       (unsigned long long)i.cache[2], "blocks", i.warp, i.threads_of_block, i.threads_of_unit,
                       i.registers_of_unit, "shared", i.shared_of_block, i.shared_of_block_most, i.shared_of_unit,
                       "memory_bits", i.memory_bits, "pci", i.pci_domain, i.pci_bus, i.pci_device, "board",
                       (int)i.integrated, (int)i.on_shared_board, "uuid", i.uuid, (Py_ssize_t)sizeof i.uuid);
}

static PyObject *op_names(PyObject *module, PyObject *unused)
{
  (void)module, (void)unused;
  PyObject *list = PyList_New(0);
  for (int i = 0; list && i < cn_op_count(); i++) {
    cn_op_info info;
    PyObject *name = cn_op_describe(&info, cn_op_at(i)) ? NULL : PyUnicode_FromString(info.name);
    if (!name || PyList_Append(list, name)) Py_CLEAR(list);
    Py_XDECREF(name);
  }
  return list;
}

char cnpy_package[16] = "cairn";

static PyObject *set_package(PyObject *Py_UNUSED(module), PyObject *name)
{
  const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
  if (!text || strlen(text) >= sizeof cnpy_package)
    return cnpy_fail(PyExc_TypeError, "_set_package: expected a short name");
  PyObject *before = PyUnicode_FromString(cnpy_package);
  strncpy(cnpy_package, text, sizeof cnpy_package - 1);
  return before;
}

static PyMethodDef functions[] = {
    {"_set_classes", set_classes, METH_VARARGS,
     "What is written in Python: Tensor, Size, a printer of named tuples."},
    {"set_num_threads", set_num_threads, METH_O, "set_num_threads(n)\n--\n\nThreads that ops of this process use."},
    {"get_num_threads", get_num_threads, METH_NOARGS,
     "get_num_threads()\n--\n\nThreads that ops of this process use."},
    {"_numerics", numerics, METH_VARARGS, "What devices may round, and whether results repeat; given: set."},
    {"set_default_dtype", set_default_dtype, METH_O,
     "set_default_dtype(d)\n--\n\nThe type of floats made from Python numbers, in this thread."},
    {"get_default_dtype", get_default_dtype, METH_NOARGS, "get_default_dtype()\n--\n\nSee set_default_dtype."},
    {"set_default_device", set_default_device, METH_O,
     "set_default_device(device)\n--\n\nWhere this thread makes tensors when nothing says where."},
    {"get_default_device", get_default_device, METH_NOARGS, "get_default_device()\n--\n\nSee set_default_device."},
    {"promote_types", promote_types, METH_VARARGS,
     "promote_types(type1, type2)\n--\n\nThe type that tensors of these two types compute in."},
    {"_set_print_options", set_print_options, METH_VARARGS,
     "precision, threshold, edge items, line width; 0: default"},
    {"_memory_stats", memory_stats, METH_NOARGS, "Host memory: in use, cached, peak, allocations."},
    {"_memory_trim", memory_trim, METH_NOARGS, "Gives unused host memory back."},
    {"_version", version, METH_NOARGS, "The version of the library."},
    {"_device_count", device_count, METH_VARARGS, "Devices of a backend that can be used here."},
    {"_library_folders", library_folders, METH_VARARGS, "Where plugins look for libraries of others: sets, returns."},
    {"_device_sync", device_sync, METH_O, "Waits for all work of a device."},
    {"_device_stream", device_stream, METH_O, "The address of the queue that a device's work is in; 0 without one."},
    {"_current_cuda", cnpy_set_current, METH_O, "Which device \"cuda\" means; returns the one before; -1 only asks."},
    {"_device_memory", device_memory, METH_O, "Bytes of a device: held by tensors, taken from it, the most of both."},
    {"_device_memory_stats", device_memory_stats, METH_O, "Counts of blocks and segments of a device's memory."},
    {"_device_memory_pieces", device_memory_pieces, METH_O, "The pieces of a device's memory."},
    {"_device_pinned_stats", device_pinned_stats, METH_VARARGS, "Counts of a device's pinned memory."},
    {"_wait_mode", wait_mode, METH_VARARGS, "What becomes of calls that have to wait for a device."},
    {"_device_memory_set_limit", device_memory_set_limit, METH_VARARGS, "Bytes that may be taken; 0: no limit."},
    {"_device_memory_trim", device_memory_trim, METH_O, "Gives back what is kept for the next tensors."},
    {"_device_memory_reset_peak", device_memory_reset_peak, METH_O, "The peak starts again from now."},
    {"_device_info", device_info, METH_O, "Name, architecture, units, memory and peaks of a device."},
    {"_op_names", op_names, METH_NOARGS, "The names of all ops in the table."},
    {"_numpy_words", cnpy_numpy_words, METH_NOARGS, "numpy's words for parameters, and which they stand for."},
    {"_set_package", set_package, METH_O, "What constants say they belong to; returns what they said before."},
    {"_set_warn", cnpy_set_warn, METH_O, "What is called with the text of each warning of the library."},
    {NULL, NULL, 0, NULL},
};

/* ---- the module ---- */

static int add_all(PyObject *module)
{
  PyMethodDef *const lists[] = {cnpy_op_functions, functions, cnpy_convert_functions, cnpy_exchange_functions,
                                cnpy_autograd_functions, cnpy_override_functions, cnpy_outside_functions};
  for (size_t i = 0; i < sizeof lists / sizeof *lists;
       i++) /* first: channels_last is a constant before it is an op */
    if (PyModule_AddFunctions(module, lists[i])) return -1;
  cnpy.value_error = new_exception(module, "InvalidArgumentError",
                                   "A value that makes no sense: a ValueError, and a RuntimeError as in torch.",
                                   PyExc_ValueError, PyExc_RuntimeError);
  cnpy.memory_error =
      new_exception(module, "OutOfMemoryError", "Out of memory: a MemoryError, and a RuntimeError as in torch.",
                    PyExc_MemoryError, PyExc_RuntimeError);
  cnpy.device_error = new_exception(module, "AcceleratorError", "A device is not there, or its work has failed.",
                                    PyExc_RuntimeError, NULL);
  cnpy.capture_error =
      new_exception(module, "CaptureError", "What is asked for cannot be part of a graph that is captured.",
                    PyExc_RuntimeError, NULL);
  cnpy.cancelled_error = new_exception(module, "Cancelled", "The limits that this was computed in were cancelled.",
                                       PyExc_RuntimeError, NULL);
  if (!cnpy.device_error || !cnpy.capture_error || !cnpy.cancelled_error) return -1;
  if (!cnpy.value_error || !cnpy.memory_error || cnpy_add_types(module) || cnpy_add_tensor(module)) return -1;
  if (cnpy_add_random(module) || cnpy_add_autograd(module) || cnpy_add_nn(module)) return -1;
  return cnpy_add_optim(module) || cnpy_add_data(module) || cnpy_add_files(module) || cnpy_add_zoo(module) ||
                 cnpy_add_streams(module) || cnpy_add_compile(module) || cnpy_add_control(module) ||
                 cnpy_add_lists(module) || cnpy_add_graph(module) || cnpy_add_mesh(module) ||
                 cnpy_add_limits(module) || cnpy_add_vmap(module) || cnpy_add_onnx(module)
             ? -1
             : 0;
}

/* What the module owns refers back to it (methods have their globals), so the collector must see it: at exit nothing is
 * left then. */
static int traverse_module(PyObject *module, visitproc visit, void *arg)
{
  (void)module;
  Py_VISIT(cnpy.owned);
  return 0;
}

static int clear_module(PyObject *module)
{
  (void)module;
  cnpy_leave_warnings();
  Py_CLEAR(cnpy.owned);
  return 0;
}

static void free_module(void *module) { clear_module(module); }

static int exec_module(PyObject *module)
{
  if (!cnpy.owned) return cnpy_take_warnings(), add_all(module);
  cnpy_fail(PyExc_ImportError, "cairn is loaded already: one interpreter of a process can have it");
  return -1;
}

PyMODINIT_FUNC PyInit__C(void);
PyMODINIT_FUNC PyInit__C(void)
{
  static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)exec_module}, {0, NULL}};
  static PyModuleDef definition = {.m_base = PyModuleDef_HEAD_INIT,
                                   .m_name = "cairn._C",
                                   .m_doc = "The C half of cairn.",
                                   .m_slots = slots,
                                   .m_traverse = traverse_module,
                                   .m_clear = clear_module,
                                   .m_free = free_module};
  return PyModuleDef_Init(&definition);
}
