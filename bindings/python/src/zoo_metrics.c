/* zoo_metrics.c: metrics of the library for Python: one object holds one cn_metric.
 *
 * Place in the flow: below cairn/metrics.py. Invariant: a batch that does not fit raises and does not count. */
#include <cairn/train.h>
#include <string.h>

#include "files.h"

static cn_metric *of(PyObject *self) { return cnpy_held(self); }
static void free_metric(void *metric) { cn_metric_free(metric); }

static int to_averaging(const char *name, cn_averaging *average)
{
  static const char *const names[] = {[CN_MACRO] = "macro", [CN_MICRO] = "micro", [CN_WEIGHTED] = "weighted"};
  for (int i = CN_MACRO; i <= CN_WEIGHTED; i++)
    if (!strcmp(name, names[i])) return *average = (cn_averaging)i, 0;
  return cnpy_fail(cnpy.value_error, "average must be 'macro', 'micro' or 'weighted', not '%s'", name), -1;
}

static cn_metric *make(const char *kind, long long n, cn_averaging average)
{
  if (!strcmp(kind, "accuracy")) return cn_metric_accuracy();
  if (!strcmp(kind, "top_k")) return cn_metric_top_k(n);
  if (!strcmp(kind, "precision")) return cn_metric_precision(n, average);
  if (!strcmp(kind, "recall")) return cn_metric_recall(n, average);
  if (!strcmp(kind, "f1")) return cn_metric_f1(n, average);
  if (!strcmp(kind, "confusion")) return cn_metric_confusion(n);
  if (!strcmp(kind, "auc")) return cn_metric_auc();
  if (!strcmp(kind, "perplexity")) return cn_metric_perplexity();
  if (!strcmp(kind, "mean_iou")) return cn_metric_mean_iou(n);
  cnpy_fail(PyExc_ValueError, "there is no metric '%s'", kind);
  return NULL;
}

/* MetricBase(kind, n=0, average="macro"); MetricBase("mean", name=...) */
static PyObject *metric_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
  const char *kind, *average = "macro", *name = "mean";
  long long n = 0;
  cn_averaging how;
  if (kwargs && PyDict_Size(kwargs)) return cnpy_fail(PyExc_TypeError, "MetricBase takes no keywords");
  if (!PyArg_ParseTuple(args, "s|Lss:MetricBase", &kind, &n, &average, &name)) return NULL;
  if (to_averaging(average, &how)) return NULL;
  return cnpy_hold(type, !strcmp(kind, "mean") ? cn_metric_mean(name) : make(kind, n, how), free_metric);
}

static void metric_dealloc(PyObject *self)
{
  cn_metric_free(of(self));
  cnpy_holder_free(self);
}

static PyObject *update(PyObject *self, PyObject *args)
{
  PyObject *output, *target;
  if (!PyArg_ParseTuple(args, "O!O!:update", cnpy.tensor_base, &output, cnpy.tensor_base, &target)) return NULL;
  cn_scope *scope = cn_scope_begin();
  int status = cn_metric_update(of(self), cnpy_t(output), cnpy_t(target));
  cn_scope_end(scope);
  return cnpy_done(status);
}

static PyObject *add(PyObject *self, PyObject *args)
{
  double value, weight = 1;
  if (!PyArg_ParseTuple(args, "d|d:add", &value, &weight)) return NULL;
  return cnpy_done(cn_metric_add(of(self), value, weight));
}

static PyObject *value(PyObject *self, PyObject *unused)
{
  (void)unused;
  double v = cn_metric_value(of(self));
  return cn_err() ? cnpy_raise() : PyFloat_FromDouble(v);
}

static PyObject *tensor(PyObject *self, PyObject *unused)
{
  (void)unused;
  cn_scope *scope = cn_scope_begin();
  cn_tensor *t = cn_metric_tensor(of(self));
  if (!t && !cn_err()) {
    cn_scope_end(scope);
    Py_RETURN_NONE;
  }
  return cnpy_wrap(cnpy_take(scope, t));
}

static PyObject *reset(PyObject *self, PyObject *unused)
{
  (void)unused;
  cn_metric_reset(of(self));
  return cnpy_done(cn_err());
}

static PyObject *get_name(PyObject *self, void *unused)
{
  (void)unused;
  return PyUnicode_FromString(cn_metric_name(of(self)));
}

static PyObject *get_better(PyObject *self, void *unused)
{
  (void)unused;
  return PyBool_FromLong(cn_metric_higher_is_better(of(self)));
}

static PyMethodDef methods[] = {
  {"update", update, METH_VARARGS, "update(output, target)\n--\n\nOne batch more."},
  {"add", add, METH_VARARGS, "add(value, weight=1)\n--\n\nOne value more, for means."},
  {"value", value, METH_NOARGS, "value()\n--\n\nOf all batches since the last reset; nan: there is none."},
  {"tensor", tensor, METH_NOARGS, "tensor()\n--\n\nThe whole of it, where it is more than a number; or None."},
  {"reset", reset, METH_NOARGS, "reset()\n--\n\nForgets all batches."},
  {NULL, NULL, 0, NULL},
};
static PyGetSetDef getset[] = {
  {"name", get_name, NULL, "What it is called in logs.", NULL},
  {"higher_is_better", get_better, NULL, "Whether a greater value is the better one.", NULL},
  {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot slots[] = {{Py_tp_new, (void *)metric_new},
                              {Py_tp_dealloc, (void *)metric_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, getset},
                              {Py_tp_doc, (void *)"A metric of the library."},
                              {0, NULL}};
static PyType_Spec spec = {"cairn._C.MetricBase", sizeof(cnpy_holder), 0, Py_TPFLAGS_DEFAULT, slots};

int cnpy_add_metrics(PyObject *module) { return cnpy_add_type(module, &spec) ? 0 : -1; }
