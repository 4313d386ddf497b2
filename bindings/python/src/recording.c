/* recording.c: work that a device records and repeats, for cairn.cuda.graphs: pools and recordings as capsules.
 *
 * Place in the flow: cairn/cuda/graphs.py, which has the classes, calls these. Invariant: a capsule owns its own. */
#include <cairn/recording.h>

#include "cairn_py.h"

static const char pool_name[] = "cairn.recording_pool", recording_name[] = "cairn.recording";

static void pool_drop(PyObject *capsule) { cn_recording_pool_free(PyCapsule_GetPointer(capsule, pool_name)); }
static void recording_drop(PyObject *capsule) { cn_recording_free(PyCapsule_GetPointer(capsule, recording_name)); }

static PyObject *pool_new(PyObject *module, PyObject *device)
{
  cn_device id;
  (void)module;
  if (cnpy_to_device(device, &id)) return NULL;
  cn_recording_pool *pool = cn_recording_pool_new(id);
  return pool ? PyCapsule_New(pool, pool_name, pool_drop) : cnpy_raise();
}

static PyObject *begin(PyObject *module, PyObject *pool)
{
  (void)module;
  cn_recording_pool *p = PyCapsule_GetPointer(pool, pool_name);
  if (!p) return NULL;
  cn_recording *r = cn_recording_begin(p);
  return r ? PyCapsule_New(r, recording_name, recording_drop) : cnpy_raise();
}

static PyObject *end(PyObject *module, PyObject *recording)
{
  (void)module;
  cn_recording *r = PyCapsule_GetPointer(recording, recording_name);
  if (!r) return NULL;
  if (cn_recording_end(r)) return cnpy_raise();
  Py_RETURN_NONE;
}

static PyObject *replay(PyObject *module, PyObject *recording)
{
  (void)module;
  cn_recording *r = PyCapsule_GetPointer(recording, recording_name);
  int status;
  if (!r) return NULL;
  Py_BEGIN_ALLOW_THREADS status = cn_recording_replay(r);
  Py_END_ALLOW_THREADS if (status) return cnpy_raise();
  Py_RETURN_NONE;
}

static PyObject *recording_now(PyObject *module, PyObject *device)
{
  cn_device id;
  (void)module;
  return cnpy_to_device(device, &id) ? NULL : PyBool_FromLong(cn_recording_now(id));
}

static PyMethodDef functions[] = {
  {"_recording_pool", pool_new, METH_O, "Memory for recordings on a device."},
  {"_recording_begin", begin, METH_O, "Begins a recording in this thread, with a pool's memory."},
  {"_recording_end", end, METH_O, "Ends it."},
  {"_recording_replay", replay, METH_O, "Queues its work."},
  {"_recording_now", recording_now, METH_O, "Does this thread record on the device?"},
  {NULL, NULL, 0, NULL},
};

int cnpy_add_recordings(PyObject *module) { return PyModule_AddFunctions(module, functions); }
