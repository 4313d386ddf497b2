/* stream.c: streams and events of devices, for Python: one object holds one of the library's.
 *
 * Place in the flow: below cairn/_streams.py, which keeps which stream a thread uses. Invariant: what may wait lets
 * other threads of Python go on. */
#include <cairn/device.h>

#include "files.h"

static PyTypeObject *stream_type, *event_type;

/* The stream of an argument: None is the device's own, NULL. -1 with TypeError for other objects. */
static int to_stream(PyObject *o, cn_stream **stream)
{
  *stream = NULL;
  if (o == Py_None) return 0;
  if (!PyObject_TypeCheck(o, stream_type)) {
    PyErr_Format(PyExc_TypeError, "expected a stream, not %R", (PyObject *)Py_TYPE(o));
    return -1;
  }
  *stream = cnpy_held(o);
  return 0;
}

/* True, False, or the pending cn_ error. */
static PyObject *yes_or_no(int status) { return status < 0 ? cnpy_raise() : PyBool_FromLong(status); }

/* ---- streams ---- */

static void stream_release(void *stream) { cn_stream_release(stream); }

static PyObject *stream_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
  PyObject *device;
  int priority;
  cn_device id;
  if (kwargs && PyDict_Size(kwargs)) return cnpy_fail(PyExc_TypeError, "StreamBase takes no keywords");
  if (!PyArg_ParseTuple(args, "Oi:StreamBase", &device, &priority) || cnpy_to_device(device, &id)) return NULL;
  return cnpy_hold(type, cn_stream_new(id, priority), stream_release);
}

static void stream_dealloc(PyObject *self)
{
  cn_stream_release(cnpy_held(self));
  cnpy_holder_free(self);
}

static PyObject *stream_handle(PyObject *self, PyObject *Py_UNUSED(none))
{
  return PyLong_FromVoidPtr(cn_stream_handle(cnpy_held(self)));
}

static PyObject *stream_sync(PyObject *self, PyObject *Py_UNUSED(none))
{
  int status;
  Py_BEGIN_ALLOW_THREADS status = cn_stream_sync(cnpy_held(self));
  Py_END_ALLOW_THREADS return cnpy_done(status);
}

static PyObject *stream_query(PyObject *self, PyObject *Py_UNUSED(none))
{
  return yes_or_no(cn_stream_query(cnpy_held(self)));
}

/* ---- events ---- */

static void event_free(void *event) { cn_event_free(event); }

static PyObject *event_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
  PyObject *device;
  int timing;
  cn_device id;
  if (kwargs && PyDict_Size(kwargs)) return cnpy_fail(PyExc_TypeError, "EventBase takes no keywords");
  if (!PyArg_ParseTuple(args, "Op:EventBase", &device, &timing) || cnpy_to_device(device, &id)) return NULL;
  return cnpy_hold(type, cn_event_new(id, timing), event_free);
}

static void event_dealloc(PyObject *self)
{
  cn_event_free(cnpy_held(self));
  cnpy_holder_free(self);
}

static PyObject *event_record(PyObject *self, PyObject *stream)
{
  cn_stream *s;
  return to_stream(stream, &s) ? NULL : cnpy_done(cn_event_record(cnpy_held(self), s));
}

/* wait(stream): later work of the stream comes after the event. */
static PyObject *event_wait(PyObject *self, PyObject *stream)
{
  cn_stream *s;
  return to_stream(stream, &s) ? NULL : cnpy_done(cn_stream_wait(s, cnpy_held(self)));
}

static PyObject *event_query(PyObject *self, PyObject *Py_UNUSED(none))
{
  return yes_or_no(cn_event_query(cnpy_held(self)));
}

static PyObject *event_sync(PyObject *self, PyObject *Py_UNUSED(none))
{
  int status;
  Py_BEGIN_ALLOW_THREADS status = cn_event_sync(cnpy_held(self));
  Py_END_ALLOW_THREADS return cnpy_done(status);
}

static PyObject *event_elapsed(PyObject *self, PyObject *to)
{
  double milliseconds;
  if (!PyObject_TypeCheck(to, event_type)) return cnpy_fail(PyExc_TypeError, "elapsed: expected an event");
  if (cn_event_elapsed(&milliseconds, cnpy_held(self), cnpy_held(to))) return cnpy_raise();
  return PyFloat_FromDouble(milliseconds);
}

/* ---- functions ---- */

/* _stream_use(device, stream or None) */
static PyObject *use(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *device, *stream;
  cn_device id;
  cn_stream *s;
  if (!PyArg_ParseTuple(args, "OO:_stream_use", &device, &stream)) return NULL;
  if (cnpy_to_device(device, &id) || to_stream(stream, &s)) return NULL;
  return cnpy_done(cn_stream_use(id, s));
}

/* _record_stream(tensor, stream) */
static PyObject *record_stream(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *tensor, *stream;
  if (!PyArg_ParseTuple(args, "O!O!:_record_stream", cnpy.tensor_base, &tensor, stream_type, &stream)) return NULL;
  return cnpy_done(cn_tensor_record_stream(cnpy_t(tensor), cnpy_held(stream)));
}

static PyMethodDef stream_methods[] = {
  {"handle", stream_handle, METH_NOARGS, "Its address, of the device's kind; 0 where it has none."},
  {"sync", stream_sync, METH_NOARGS, "Waits for all its work."},
  {"query", stream_query, METH_NOARGS, "Is nothing left to do?"},
  {NULL, NULL, 0, NULL},
};
static PyMethodDef event_methods[] = {
  {"record", event_record, METH_O, "Stands for what is queued in the stream by now; None: in the one in use."},
  {"wait", event_wait, METH_O, "Later work of the stream comes after it; None: of the device's own."},
  {"query", event_query, METH_NOARGS, "Is it passed, or was it never recorded?"},
  {"sync", event_sync, METH_NOARGS, "Waits for it."},
  {"elapsed", event_elapsed, METH_O, "Milliseconds from it to another."},
  {NULL, NULL, 0, NULL},
};
static PyMethodDef functions[] = {
  {"_stream_use", use, METH_VARARGS, "Work of this thread on the device goes there; None: to the device's own."},
  {"_record_stream", record_stream, METH_VARARGS, "The tensor's memory is used in that stream too."},
  {NULL, NULL, 0, NULL},
};
static PyType_Slot stream_slots[] = {{Py_tp_new, (void *)stream_new},
                                     {Py_tp_dealloc, (void *)stream_dealloc},
                                     {Py_tp_methods, stream_methods},
                                     {Py_tp_doc, (void *)"device, priority"},
                                     {0, NULL}};
static PyType_Slot event_slots[] = {{Py_tp_new, (void *)event_new},
                                    {Py_tp_dealloc, (void *)event_dealloc},
                                    {Py_tp_methods, event_methods},
                                    {Py_tp_doc, (void *)"device, timing"},
                                    {0, NULL}};
static PyType_Spec stream_spec = {"cairn._C.StreamBase", sizeof(cnpy_holder), 0, Py_TPFLAGS_DEFAULT, stream_slots};
static PyType_Spec event_spec = {"cairn._C.EventBase", sizeof(cnpy_holder), 0, Py_TPFLAGS_DEFAULT, event_slots};

int cnpy_add_streams(PyObject *module)
{
  if (!(stream_type = cnpy_add_type(module, &stream_spec))) return -1;
  if (!(event_type = cnpy_add_type(module, &event_spec))) return -1;
  bool failed = PyModule_AddFunctions(module, functions) || cnpy_add_recordings(module) ||
                cnpy_add_profiles(module) || cnpy_add_code(module) ||
                cnpy_add_memory_events(module);
  return failed ? -1 : 0;
}
