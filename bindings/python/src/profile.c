/* profile.c: profiles and NVTX for cairn.profiler and cairn.cuda.nvtx.
 *
 * Place in the flow: the Python modules of these names, which have the classes, call these. Invariant: a capsule owns
 * its profile. */
#include <cairn/profile.h>
#include <stdio.h>

#include "cairn_py.h"

static const char profile_name[] = "cairn.profile";

static void profile_drop(PyObject *capsule) { cn_profile_free(PyCapsule_GetPointer(capsule, profile_name)); }

/* ---- where the program is ---- */

/* "train.py(12): step" of this frame, and a line's end; false: no more can be said. */
static bool put_frame(char *text, size_t *at, size_t size, PyObject *frame)
{
  PyObject *code = PyObject_GetAttrString(frame, "f_code");
  PyObject *file = code ? PyObject_GetAttrString(code, "co_filename") : NULL;
  PyObject *name = file ? PyObject_GetAttrString(code, "co_name") : NULL;
  const char *path = name ? PyUnicode_AsUTF8AndSize(file, NULL) : NULL;
  const char *function = path ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
  int n = function ? snprintf(text + *at, size - *at, "%s(%d): %s\n", path,
                              PyFrame_GetLineNumber((PyFrameObject *)frame), function) : -1;
  Py_XDECREF(name);
  Py_XDECREF(file);
  Py_XDECREF(code);
  bool fits = n >= 0 && (size_t)n < size - *at;
  if (fits) *at += (size_t)n;
  else text[*at] = 0;
  return fits;
}

/* The lines of the program, the innermost first. */
static const char *where(void *payload)
{
  static _Thread_local char text[8192];
  size_t at = 0;
  (void)payload;
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject *frame = PyErr_Occurred() ? NULL : Py_XNewRef((PyObject *)PyEval_GetFrame());
  text[0] = 0;
  while (frame && frame != Py_None && put_frame(text, &at, sizeof text, frame)) {
    PyObject *back = PyObject_GetAttrString(frame, "f_back");
    Py_DECREF(frame);
    frame = back;
  }
  if (PyErr_Occurred()) PyErr_Clear();
  Py_XDECREF(frame);
  PyGILState_Release(state);
  return text;
}

/* ---- profiles ---- */

static PyObject *begin(PyObject *module, PyObject *args)
{
  cn_profile_opts opts = {.size = sizeof opts};
  int stacks;
  (void)module;
  if (!PyArg_ParseTuple(args, "Ip", &opts.what, &stacks)) return NULL;
  if (stacks) opts.where = where;
  cn_profile *p = cn_profile_begin_with(&opts);
  return p ? PyCapsule_New(p, profile_name, profile_drop) : cnpy_raise();
}

/* (name, shapes, depth, kind, begin, end, device, device_begin, device_end, module, detail, where, thread, sequence,
 * flops, products, read, written, allocated, freed) */
static PyObject *entry_of(const cn_profile_entry *e)
{
  char device[64], name[128];
  PyObject *from = e->timed ? PyFloat_FromDouble(e->device_begin) : Py_NewRef(Py_None);
  PyObject *to = e->timed ? PyFloat_FromDouble(e->device_end) : Py_NewRef(Py_None);
  return Py_BuildValue("(zziiddsNNsszKKddddLL)",
                       e->kind == CN_ENTRY_BACKWARD ? cnpy_backward_name(e->name, name, sizeof name) : e->name,
                       e->shapes, e->depth, (int)e->kind, e->begin, e->end,
                       cn_device_name(device, sizeof device, e->device), from, to, e->module, e->detail, e->where,
                       (unsigned long long)e->thread, (unsigned long long)e->sequence, e->flops, e->products, e->read,
                       e->written, (long long)e->allocated, (long long)e->freed);
}

static PyObject *list_of(PyObject *profile, size_t (*count)(const cn_profile *),
                         PyObject *(*at)(const cn_profile *, size_t))
{
  const cn_profile *p = PyCapsule_GetPointer(profile, profile_name);
  PyObject *list = p ? PyList_New(0) : NULL;
  for (size_t i = 0; list && i < count(p); i++) {
    PyObject *made = at(p, i);
    if (!made || PyList_Append(list, made)) Py_CLEAR(list);
    Py_XDECREF(made);
  }
  return list;
}

static PyObject *entry_at(const cn_profile *p, size_t i)
{
  cn_profile_entry e = {.size = sizeof e};
  return cn_profile_at(&e, p, i) ? cnpy_raise() : entry_of(&e);
}

static PyObject *change_at(const cn_profile *p, size_t i)
{
  cn_profile_memory m = {.size = sizeof m};
  char device[64];
  if (cn_profile_memory_at(&m, p, i)) return cnpy_raise();
  return Py_BuildValue("(dsLLK)", m.time, cn_device_name(device, sizeof device, m.device), (long long)m.bytes,
                       (long long)m.total, (unsigned long long)m.thread);
}

static PyObject *entries(PyObject *module, PyObject *profile)
{
  (void)module;
  return list_of(profile, cn_profile_count, entry_at);
}

static PyObject *memory(PyObject *module, PyObject *profile)
{
  (void)module;
  return list_of(profile, cn_profile_memory_count, change_at);
}

static PyObject *dropped(PyObject *module, PyObject *profile)
{
  (void)module;
  const cn_profile *p = PyCapsule_GetPointer(profile, profile_name);
  return p ? PyLong_FromSize_t(cn_profile_dropped(p)) : NULL;
}

/* Ends, joins or leaves, without the lock: devices may be waited for. */
static PyObject *act(PyObject *profile, int (*action)(cn_profile *))
{
  cn_profile *p = PyCapsule_GetPointer(profile, profile_name);
  int status;
  if (!p) return NULL;
  Py_BEGIN_ALLOW_THREADS status = action(p);
  Py_END_ALLOW_THREADS if (status) return cnpy_raise();
  Py_RETURN_NONE;
}

static PyObject *end(PyObject *module, PyObject *profile)
{
  (void)module;
  return act(profile, cn_profile_end);
}

static PyObject *join(PyObject *module, PyObject *profile)
{
  (void)module;
  return act(profile, cn_profile_join);
}

static PyObject *leave(PyObject *module, PyObject *profile)
{
  (void)module;
  return act(profile, cn_profile_leave);
}

static PyObject *range_begin(PyObject *module, PyObject *args)
{
  const char *name;
  (void)module;
  if (!PyArg_ParseTuple(args, "s", &name)) return NULL;
  if (cn_profile_range_begin(name)) return cnpy_raise();
  Py_RETURN_NONE;
}

static PyObject *range_end(PyObject *module, PyObject *unused)
{
  (void)module, (void)unused;
  cn_profile_range_end();
  Py_RETURN_NONE;
}

/* ---- NVTX ---- */

static PyObject *nvtx_mark(PyObject *module, PyObject *args)
{
  const char *message;
  (void)module;
  if (!PyArg_ParseTuple(args, "s", &message)) return NULL;
  if (cn_nvtx_mark(message)) return cnpy_raise();
  Py_RETURN_NONE;
}

static PyObject *nvtx_push(PyObject *module, PyObject *args)
{
  const char *message;
  int depth;
  (void)module;
  if (!PyArg_ParseTuple(args, "s", &message)) return NULL;
  return cn_nvtx_push(&depth, message) ? cnpy_raise() : PyLong_FromLong(depth);
}

static PyObject *nvtx_pop(PyObject *module, PyObject *unused)
{
  int depth;
  (void)module, (void)unused;
  return cn_nvtx_pop(&depth) ? cnpy_raise() : PyLong_FromLong(depth);
}

static PyObject *nvtx_start(PyObject *module, PyObject *args)
{
  const char *message;
  uint64_t range = 0;
  (void)module;
  if (!PyArg_ParseTuple(args, "s", &message)) return NULL;
  return cn_nvtx_start(&range, message) ? cnpy_raise() : PyLong_FromUnsignedLongLong(range);
}

static PyObject *nvtx_end(PyObject *module, PyObject *args)
{
  unsigned long long range;
  (void)module;
  if (!PyArg_ParseTuple(args, "K", &range)) return NULL;
  if (cn_nvtx_end(range)) return cnpy_raise();
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
  {"_profile_begin", begin, METH_VARARGS, "Begins a profile of this thread's ops."},
  {"_profile_end", end, METH_O, "Ends it."},
  {"_profile_entries", entries, METH_O, "Its entries."},
  {"_profile_memory", memory, METH_O, "What its tensors took and gave back."},
  {"_profile_dropped", dropped, METH_O, "How many entries there was no room for."},
  {"_profile_join", join, METH_O, "This thread takes part."},
  {"_profile_leave", leave, METH_O, "This thread takes part no longer."},
  {"_profile_range_begin", range_begin, METH_VARARGS, "A range of the program's."},
  {"_profile_range_end", range_end, METH_NOARGS, "Ends the innermost."},
  {"_nvtx_mark", nvtx_mark, METH_VARARGS, "A mark."},
  {"_nvtx_push", nvtx_push, METH_VARARGS, "A nested range; its depth."},
  {"_nvtx_pop", nvtx_pop, METH_NOARGS, "Ends the innermost; its depth."},
  {"_nvtx_start", nvtx_start, METH_VARARGS, "A range that may end in another thread; its number."},
  {"_nvtx_end", nvtx_end, METH_VARARGS, "Ends it."},
  {NULL, NULL, 0, NULL},
};

int cnpy_add_profiles(PyObject *module) { return PyModule_AddFunctions(module, functions); }
