/* profile.c: profiles and NVTX for cairn.profiler and cairn.cuda.nvtx.
 *
 * Place in the flow: the Python modules of these names, which have the classes, call these. Invariant: a capsule owns
 * its profile. */
#include <cairn/profile.h>

#include "cairn_py.h"

static const char profile_name[] = "cairn.profile";

static void profile_drop(PyObject *capsule) { cn_profile_free(PyCapsule_GetPointer(capsule, profile_name)); }

static PyObject *begin(PyObject *module, PyObject *args)
{
  unsigned what;
  (void)module;
  if (!PyArg_ParseTuple(args, "I", &what)) return NULL;
  cn_profile *p = cn_profile_begin(what);
  return p ? PyCapsule_New(p, profile_name, profile_drop) : cnpy_raise();
}

/* (name, shapes, depth, range, begin, end, device, device_begin, device_end) */
static PyObject *entry_of(const cn_profile_entry *e)
{
  char device[64];
  PyObject *from = e->timed ? PyFloat_FromDouble(e->device_begin) : Py_NewRef(Py_None);
  PyObject *to = e->timed ? PyFloat_FromDouble(e->device_end) : Py_NewRef(Py_None);
  return Py_BuildValue("(sziOddsNN)", e->name, e->shapes, e->depth, e->range ? Py_True : Py_False, e->begin, e->end,
                       cn_device_name(device, sizeof device, e->device), from, to);
}

static PyObject *end(PyObject *module, PyObject *profile)
{
  (void)module;
  cn_profile *p = PyCapsule_GetPointer(profile, profile_name);
  int status;
  if (!p) return NULL;
  Py_BEGIN_ALLOW_THREADS status = cn_profile_end(p);
  Py_END_ALLOW_THREADS if (status) return cnpy_raise();
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < cn_profile_count(p); i++) {
    cn_profile_entry e = {.size = sizeof e};
    PyObject *made = cn_profile_at(&e, p, i) ? cnpy_raise() : entry_of(&e);
    if (!made || PyList_Append(list, made)) Py_CLEAR(list);
    Py_XDECREF(made);
  }
  return list;
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
  {"_profile_end", end, METH_O, "Ends it; its entries."},
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
