/* memory_events.c: what happened to a device's memory, for cairn.cuda.memory._snapshot.
 *
 * Place in the flow: functions of the extension beside module.c's. Invariant: while the library tells events no object
 * of Python is made or freed, since those might be tensors of the device. */
#include "cairn_py.h"

typedef struct events {
  cn_memory_event *v;
  size_t n, room;
} events;

/* Where host memory is out the rest is left out. */
static void add_event(const cn_memory_event *e, void *payload)
{
  events *all = payload;
  if (all->n == all->room) {
    size_t room = all->room ? 2 * all->room : 256;
    cn_memory_event *v = PyMem_Realloc(all->v, room * sizeof *v);
    if (!v) return;
    all->v = v, all->room = room;
  }
  all->v[all->n++] = *e;
}

/* Each event as (action, at, bytes, stream, op, microseconds). */
static PyObject *device_memory_events(PyObject *module, PyObject *device)
{
  cn_device id;
  events all = {NULL, 0, 0};
  (void)module;
  if (cnpy_to_device(device, &id)) return NULL;
  PyObject *list = cn_device_memory_events(add_event, &all, id) ? cnpy_raise() : PyList_New((Py_ssize_t)all.n);
  for (size_t i = 0; list && i < all.n; i++) {
    const cn_memory_event *e = &all.v[i];
    PyObject *one = Py_BuildValue("(iKKKzK)", (int)e->action, e->at, e->bytes, e->stream, e->op, e->microseconds);
    if (!one || PyList_SetItem(list, (Py_ssize_t)i, one)) Py_CLEAR(list);
  }
  PyMem_Free(all.v);
  return list;
}

static PyObject *device_memory_record(PyObject *module, PyObject *args)
{
  PyObject *device;
  Py_ssize_t n;
  cn_device id;
  (void)module;
  if (!PyArg_ParseTuple(args, "On", &device, &n) || cnpy_to_device(device, &id)) return NULL;
  if (cn_device_memory_record(id, n > 0 ? (size_t)n : 0)) return cnpy_raise();
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
  {"_device_memory_events", device_memory_events, METH_O, "What happened to a device's memory."},
  {"_device_memory_record", device_memory_record, METH_VARARGS, "Keeps so many events from now on; 0: none."},
  {NULL, NULL, 0, NULL},
};

int cnpy_add_memory_events(PyObject *module) { return PyModule_AddFunctions(module, functions); }
