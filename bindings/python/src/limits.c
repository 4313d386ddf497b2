/* limits.c: limits of time and threads, for Python: one object is begun and ended by one thread, and cancelled by any.
 *
 * Place in the flow: below cairn/_limits.py. Invariant: the object lives as long as its limits hold, since the library
 * looks at its flag without asking Python. */
#include <cairn/base.h>
#include <stdatomic.h>

#include "files.h"

typedef struct limits {
  PyObject_HEAD
  cn_limits *begun; /* NULL: they do not hold */
  unsigned long thread;
  double timeout; /* 0: none */
  int threads;    /* 0: all */
  _Atomic bool cancelled;
} limits;

static limits *limits_of(PyObject *self) { return (limits *)(void *)self; }
static bool is_cancelled(void *payload) { return atomic_load(&((limits *)payload)->cancelled); }

static PyObject *limits_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
  double timeout;
  int threads;
  if (kwargs && PyDict_Size(kwargs)) return cnpy_fail(PyExc_TypeError, "LimitsBase takes no keywords");
  if (!PyArg_ParseTuple(args, "di:LimitsBase", &timeout, &threads)) return NULL;
  PyObject *self = PyType_GenericAlloc(type, 0);
  if (!self) return NULL;
  limits *l = limits_of(self);
  l->begun = NULL;
  l->thread = 0;
  l->timeout = timeout;
  l->threads = threads;
  atomic_init(&l->cancelled, false);
  return self;
}

static PyObject *begin(PyObject *self, PyObject *Py_UNUSED(none))
{
  limits *l = limits_of(self);
  cn_limits_opts o = {sizeof o, NULL, l->timeout, l->threads, is_cancelled, l};
  if (l->begun) return cnpy_fail(PyExc_RuntimeError, "limits: they hold already; make others for another block");
  if (!(l->begun = cn_limits_begin_with(&o))) return cnpy_raise();
  l->thread = PyThread_get_thread_ident();
  Py_INCREF(self);
  Py_RETURN_NONE;
}

static PyObject *end(PyObject *self, PyObject *Py_UNUSED(none))
{
  limits *l = limits_of(self);
  if (!l->begun) return cnpy_fail(PyExc_RuntimeError, "limits: they do not hold");
  if (l->thread != PyThread_get_thread_ident()) return cnpy_fail(PyExc_RuntimeError, "limits: another thread's");
  cn_limits_end(l->begun);
  l->begun = NULL;
  Py_DECREF(self);
  Py_RETURN_NONE;
}

static PyObject *cancel(PyObject *self, PyObject *Py_UNUSED(none))
{
  atomic_store(&limits_of(self)->cancelled, true);
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
  {"begin", begin, METH_NOARGS, "From now on they hold for what this thread computes."},
  {"end", end, METH_NOARGS, "They hold no longer."},
  {"cancel", cancel, METH_NOARGS, "What is computed within them stops. From any thread."},
  {NULL, NULL, 0, NULL},
};
static PyType_Slot slots[] = {{Py_tp_new, (void *)limits_new},
                              {Py_tp_dealloc, (void *)cnpy_holder_free},
                              {Py_tp_methods, methods},
                              {Py_tp_doc, (void *)"timeout, threads"},
                              {0, NULL}};
static PyType_Spec spec = {"cairn._C.LimitsBase", sizeof(limits), 0, Py_TPFLAGS_DEFAULT, slots};

int cnpy_add_limits(PyObject *module) { return cnpy_add_type(module, &spec) ? 0 : -1; }
