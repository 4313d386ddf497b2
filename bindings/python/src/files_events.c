/* files_events.c: logs for TensorBoard, for Python: one object holds one file of events.
 *
 * Place in the flow: below cairn.utils.tensorboard.SummaryWriter. Invariant: a closed log refuses everything but being
 * closed again. */
#include <cairn/events.h>

#include "files.h"

static PyTypeObject *events_type;

/* The log; NULL with ValueError when it is closed. */
static cn_events *of(PyObject *self)
{
  cn_events *e = cnpy_held(self);
  if (!e) cnpy_fail(PyExc_ValueError, "the log is closed");
  return e;
}

static void close_events(void *events) { cn_events_close(events); }

static PyObject *events_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
  PyObject *folder;
  const char *suffix = "";
  if (kwargs && PyDict_Size(kwargs)) return cnpy_fail(PyExc_TypeError, "Events takes no keywords");
  if (!PyArg_ParseTuple(args, "O&|s:Events", PyUnicode_FSConverter, &folder, &suffix)) return NULL;
  PyObject *made = cnpy_hold(type, cn_events_open_as(PyBytes_AsString(folder), suffix), close_events);
  Py_DECREF(folder);
  return made;
}

static PyObject *events_close(PyObject *self, PyObject *unused)
{
  cn_events *e = cnpy_held(self);
  (void)unused;
  ((cnpy_holder *)(void *)self)->held = NULL;
  int status = e ? cn_events_flush(e) : CN_OK;
  cn_events_close(e);
  return cnpy_done(status);
}

static void events_dealloc(PyObject *self)
{
  cn_events_close(cnpy_held(self));
  cn_err_clear(); /* nobody is there to be told */
  cnpy_holder_free(self);
}

static PyObject *events_flush(PyObject *self, PyObject *unused)
{
  cn_events *e = of(self);
  (void)unused;
  return e ? cnpy_done(cn_events_flush(e)) : NULL;
}

static PyObject *set_time(PyObject *self, PyObject *seconds)
{
  cn_events *e = of(self);
  double t = e ? PyFloat_AsDouble(seconds) : -1;
  return e && !PyErr_Occurred() ? cnpy_done(cn_events_set_time(e, t)) : NULL;
}

static PyObject *restart(PyObject *self, PyObject *step)
{
  int64_t n;
  cn_events *e = of(self);
  return e && !cnpy_to_int(step, &n) ? cnpy_done(cn_events_restart(e, n)) : NULL;
}

static PyObject *put_scalar(PyObject *self, PyObject *args)
{
  const char *tag;
  double value;
  long long step;
  PyObject *type = Py_None;
  cn_dtype dtype;
  cn_events *e = of(self);
  if (!e || !PyArg_ParseTuple(args, "sdL|O:scalar", &tag, &value, &step, &type)) return NULL;
  if (type == Py_None) return cnpy_done(cn_events_scalar(e, tag, value, step));
  return cnpy_to_dtype(type, &dtype) ? NULL : cnpy_done(cn_events_scalar_as(e, tag, value, dtype, step));
}

static PyObject *put_text(PyObject *self, PyObject *args)
{
  const char *tag, *text;
  long long step;
  cn_events *e = of(self);
  if (!e || !PyArg_ParseTuple(args, "ssL:text", &tag, &text, &step)) return NULL;
  return cnpy_done(cn_events_text(e, tag, text, step));
}

/* histogram(tag, tensor, step, limits or None): limits is a buffer of doubles */
static PyObject *put_histogram(PyObject *self, PyObject *args)
{
  const char *tag;
  PyObject *tensor, *limits = Py_None;
  long long step;
  Py_buffer view;
  cn_events *e = of(self);
  if (!e || !PyArg_ParseTuple(args, "sO!L|O:histogram", &tag, cnpy.tensor_base, &tensor, &step, &limits)) return NULL;
  if (limits == Py_None) return cnpy_done(cn_events_histogram(e, tag, cnpy_t(tensor), step));
  if (PyObject_GetBuffer(limits, &view, PyBUF_SIMPLE)) return NULL;
  int status = cn_events_histogram_at(e, tag, cnpy_t(tensor), view.buf, (size_t)view.len / sizeof(double), step);
  PyBuffer_Release(&view);
  return cnpy_done(status);
}

static PyObject *put_image(PyObject *self, PyObject *args)
{
  const char *tag;
  PyObject *tensor;
  long long step;
  cn_events *e = of(self);
  if (!e || !PyArg_ParseTuple(args, "sO!L:image", &tag, cnpy.tensor_base, &tensor, &step)) return NULL;
  return cnpy_done(cn_events_image(e, tag, cnpy_t(tensor), step));
}

static PyObject *put_pr_curve(PyObject *self, PyObject *args)
{
  const char *tag;
  PyObject *labels, *predictions;
  long long step;
  Py_ssize_t thresholds;
  cn_events *e = of(self);
  if (!e || !PyArg_ParseTuple(args, "sO!O!Ln:pr_curve", &tag, cnpy.tensor_base, &labels, cnpy.tensor_base, &predictions,
                              &step, &thresholds))
    return NULL;
  if (thresholds < 0) thresholds = 0;
  return cnpy_done(cn_events_pr_curve_at(e, tag, cnpy_t(labels), cnpy_t(predictions), (size_t)thresholds, step));
}

/* graph(module, tensors) */
static PyObject *put_graph(PyObject *self, PyObject *args)
{
  enum { MOST = 32 };
  PyObject *net, *inputs;
  cn_tensor *in[MOST];
  cn_events *e = of(self);
  if (!e || !PyArg_ParseTuple(args, "O!O!:graph", cnpy.module_base, &net, &PyTuple_Type, &inputs)) return NULL;
  Py_ssize_t n = PyTuple_Size(inputs);
  if (n > MOST) return cnpy_fail(PyExc_ValueError, "graph: more than %d inputs", MOST);
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *t = PyTuple_GetItem(inputs, i);
    if (!cnpy_is_tensor(t)) return cnpy_fail(PyExc_TypeError, "graph: the inputs must be tensors");
    in[i] = cnpy_t(t);
  }
  if (!cnpy_m(net)) return cnpy_fail(PyExc_RuntimeError, "graph: the module's __init__ was not called");
  cn_scope *scope = cn_scope_begin();
  int status = cn_events_graph(e, cnpy_m(net), in, (size_t)n);
  cn_scope_end(scope);
  return cnpy_done(status);
}

static PyObject *put_hparams(PyObject *self, PyObject *args)
{
  PyObject *settings, *figures;
  cn_events *e = of(self);
  if (!e || !PyArg_ParseTuple(args, "OO:hparams", &settings, &figures)) return NULL;
  cn_tree *s = cnpy_to_tree(settings), *f = s ? cnpy_to_tree(figures) : NULL;
  int status = f ? cn_events_hparams(e, s, f) : CN_OK;
  bool made = f != NULL;
  cn_tree_free(s);
  cn_tree_free(f);
  return made ? cnpy_done(status) : NULL;
}

/* embedding(tag, points, labels or None, images or None, step) */
static PyObject *put_embedding(PyObject *self, PyObject *args)
{
  const char *tag, **texts = NULL;
  PyObject *points, *labels, *images;
  long long step;
  cn_events *e = of(self);
  if (!e || !PyArg_ParseTuple(args, "sO!OOL:embedding", &tag, cnpy.tensor_base, &points, &labels, &images, &step))
    return NULL;
  if (images != Py_None && !cnpy_is_tensor(images))
    return cnpy_fail(PyExc_TypeError, "embedding: the images must be a tensor");
  if (labels != Py_None) {
    Py_ssize_t n = PyList_Check(labels) ? PyList_Size(labels) : -1;
    if (n != cn_size(cnpy_t(points), 0))
      return cnpy_fail(PyExc_ValueError, "embedding: %lld points and %lld labels",
                       (long long)cn_size(cnpy_t(points), 0), (long long)n);
    if (!(texts = cnpy_texts(labels, n))) return NULL;
  }
  int status = cn_events_embedding(e, tag, cnpy_t(points), texts, images == Py_None ? NULL : cnpy_t(images), step);
  PyMem_Free(texts);
  return cnpy_done(status);
}

static PyMethodDef methods[] = {
  {"close", events_close, METH_NOARGS, "close()\n--\n\nWrites what is left."},
  {"flush", events_flush, METH_NOARGS, "flush()\n--\n\nWrites what was logged so far."},
  {"set_time", set_time, METH_O, "set_time(seconds)\n--\n\nThe time of what comes next; 0: the clock's."},
  {"restart", restart, METH_O, "restart(step)\n--\n\nWhat earlier files say of this step and later ones is void."},
  {"scalar", put_scalar, METH_VARARGS, "scalar(tag, value, step, dtype=None)\n--\n\nA number; dtype: as a tensor."},
  {"text", put_text, METH_VARARGS, "text(tag, markdown, step)\n--\n\nA text."},
  {"histogram", put_histogram, METH_VARARGS,
   "histogram(tag, tensor, step, limits=None)\n--\n\nHow elements are spread."},
  {"image", put_image, METH_VARARGS, "image(tag, tensor, step)\n--\n\n(H, W), (C, H, W) or (N, C, H, W)."},
  {"pr_curve", put_pr_curve, METH_VARARGS,
   "pr_curve(tag, labels, predictions, step, thresholds)\n--\n\nPrecision and recall at so many thresholds."},
  {"graph", put_graph, METH_VARARGS, "graph(module, inputs)\n--\n\nHow the module computes on these inputs."},
  {"hparams", put_hparams, METH_VARARGS, "hparams(settings, figures)\n--\n\nSettings of a run and what it reached."},
  {"embedding", put_embedding, METH_VARARGS,
   "embedding(tag, points, labels, images, step)\n--\n\nPoints for the projector."},
  {NULL, NULL, 0, NULL},
};
static PyType_Slot slots[] = {{Py_tp_new, (void *)events_new},
                              {Py_tp_dealloc, (void *)events_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_doc, (void *)"A file of events that TensorBoard reads."},
                              {0, NULL}};
static PyType_Spec spec = {"cairn._C.Events", sizeof(cnpy_holder), 0, Py_TPFLAGS_DEFAULT, slots};

int cnpy_add_events(PyObject *module)
{
  events_type = cnpy_add_type(module, &spec);
  return events_type ? 0 : -1;
}
