/* nn_init.c: initialisers, gradient clipping and other functions about modules and their parameters, for cairn.nn.init
 * and cairn.nn.utils. Invariant: a tensor that is initialised stays the object that was given. */
#include <cairn/optimiser.h>
#include <math.h>
#include <string.h>

#include "nn.h"

/* What every initialiser gets; each reads what it needs. */
typedef struct wanted {
  cn_tensor *t;
  double p[4];
  const char *mode, *nonlinearity;
} wanted;

static cn_init_kaiming_opts kaiming(const wanted *w)
{
  return (cn_init_kaiming_opts){
    .size = sizeof(cn_init_kaiming_opts), .a = w->p[0], .mode = w->mode, .nonlinearity = w->nonlinearity};
}

static int kaiming_uniform(const wanted *w)
{
  cn_init_kaiming_opts opts = kaiming(w);
  return cn_init_kaiming_uniform_with(w->t, &opts);
}

static int kaiming_normal(const wanted *w)
{
  cn_init_kaiming_opts opts = kaiming(w);
  return cn_init_kaiming_normal_with(w->t, &opts);
}

static int uniform(const wanted *w) { return cn_init_uniform(w->t, w->p[0], w->p[1]); }
static int normal(const wanted *w) { return cn_init_normal(w->t, w->p[0], w->p[1]); }
static int constant(const wanted *w) { return cn_init_constant(w->t, w->p[0]); }
static int eye(const wanted *w) { return cn_init_eye(w->t); }
static int dirac(const wanted *w) { return cn_init_dirac(w->t, (int64_t)w->p[0]); }
static int xavier_uniform(const wanted *w) { return cn_init_xavier_uniform(w->t, w->p[0]); }
static int xavier_normal(const wanted *w) { return cn_init_xavier_normal(w->t, w->p[0]); }
static int orthogonal(const wanted *w) { return cn_init_orthogonal(w->t, w->p[0]); }
static int sparse(const wanted *w) { return cn_init_sparse(w->t, w->p[0], w->p[1]); }
static int trunc_normal(const wanted *w)
{
  return cn_init_trunc_normal(w->t, w->p[0], w->p[1], w->p[2], w->p[3]);
}

static const struct {
  const char *name;
  int (*run)(const wanted *w);
} initialisers[] = {
  {"uniform", uniform},       {"normal", normal},
  {"constant", constant},     {"eye", eye},
  {"dirac", dirac},           {"xavier_uniform", xavier_uniform},
  {"sparse", sparse},         {"xavier_normal", xavier_normal},
  {"orthogonal", orthogonal}, {"kaiming_uniform", kaiming_uniform},
  {"trunc_normal", trunc_normal}, {"kaiming_normal", kaiming_normal},
};

/* _init(name, tensor, p0, p1, p2, p3, mode, nonlinearity, generator) -> tensor */
static PyObject *init(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *tensor, *generator;
  const char *name;
  wanted w = {.t = NULL};
  if (!PyArg_ParseTuple(args, "sO!ddddzzO:_init", &name, cnpy.tensor_base, &tensor, &w.p[0], &w.p[1], &w.p[2], &w.p[3],
                        &w.mode, &w.nonlinearity, &generator))
    return NULL;
  w.t = cnpy_t(tensor);
  size_t i = 0, n = sizeof initialisers / sizeof *initialisers;
  while (i < n && strcmp(initialisers[i].name, name)) i++;
  if (i == n) return cnpy_fail(PyExc_ValueError, "there is no initialiser '%s'", name);
  if (cnpy_generator_begin(generator)) return NULL;
  int status = initialisers[i].run(&w);
  cnpy_generator_end(generator);
  return status ? cnpy_raise() : Py_NewRef(tensor);
}

static PyObject *gain(PyObject *Py_UNUSED(module), PyObject *args)
{
  const char *name;
  double param;
  if (!PyArg_ParseTuple(args, "sd:_init_gain", &name, &param)) return NULL;
  double value = cn_init_gain(name, param);
  return cn_err() ? cnpy_raise() : PyFloat_FromDouble(value);
}

/* ---- gradients ---- */

/* The tensors of a tuple, in memory of PyMem; NULL with the exception set. */
static cn_tensor **tensors_of(PyObject *tuple, size_t *n)
{
  *n = (size_t)PyTuple_Size(tuple);
  cn_tensor **list = PyMem_Malloc((*n + 1) * sizeof *list);
  if (!list) return (cn_tensor **)PyErr_NoMemory();
  for (size_t i = 0; i < *n; i++) {
    PyObject *o = PyTuple_GetItem(tuple, (Py_ssize_t)i);
    if (cnpy_is_tensor(o)) list[i] = cnpy_t(o);
    else {
      PyMem_Free(list);
      PyErr_Format(PyExc_TypeError, "expected tensors, not %R", (PyObject *)Py_TYPE(o));
      return NULL;
    }
  }
  return list;
}

/* _clip_grad_norm(parameters, max_norm, norm_type) -> the norm that all gradients together had */
static PyObject *clip_grad_norm(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *tuple;
  double most, type;
  size_t n;
  if (!PyArg_ParseTuple(args, "O!dd:_clip_grad_norm", &PyTuple_Type, &tuple, &most, &type)) return NULL;
  cn_tensor **list = tensors_of(tuple, &n);
  if (!list) return NULL;
  cn_scope *scope = cn_scope_begin();
  cn_tensor *norm = cn_clip_grad_norm(list, n, most, type);
  PyObject *result = norm ? cnpy_wrap_borrowed(norm) : cnpy_raise();
  cn_scope_end(scope);
  PyMem_Free(list);
  return result;
}

static PyObject *clip_grad_value(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *tuple;
  double most;
  size_t n;
  if (!PyArg_ParseTuple(args, "O!d:_clip_grad_value", &PyTuple_Type, &tuple, &most)) return NULL;
  cn_tensor **list = tensors_of(tuple, &n);
  if (!list) return NULL;
  cn_scope *scope = cn_scope_begin();
  int status = cn_clip_grad_value(list, n, most);
  cn_scope_end(scope);
  PyMem_Free(list);
  if (status) return cnpy_raise();
  Py_RETURN_NONE;
}

/* ---- of single classes ---- */

/* _adaptive(module, input, predict): log probabilities of all classes, or the likeliest class */
static PyObject *adaptive(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *net, *input;
  int predict;
  if (!PyArg_ParseTuple(args, "O!O!p:_adaptive", cnpy.module_base, &net, cnpy.tensor_base, &input, &predict))
    return NULL;
  cn_scope *scope = cn_scope_begin();
  cn_tensor *made = predict ? cn_nn_adaptive_predict(cnpy_m(net), cnpy_t(input))
                            : cn_nn_adaptive_log_prob(cnpy_m(net), cnpy_t(input));
  PyObject *result = made ? cnpy_wrap_borrowed(made) : cnpy_raise();
  cn_scope_end(scope);
  return result;
}

static PyObject *subsequent_mask(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *dtype, *device;
  long long size;
  cn_dtype type = CN_DTYPE_NONE;
  cn_device to = CN_DEVICE_DEFAULT;
  if (!PyArg_ParseTuple(args, "LOO:_square_subsequent_mask", &size, &dtype, &device)) return NULL;
  if ((dtype != Py_None && cnpy_to_dtype(dtype, &type)) || (device != Py_None && cnpy_to_device(device, &to)))
    return NULL;
  cn_scope *scope = cn_scope_begin();
  cn_tensor *mask = cn_nn_square_subsequent_mask(size, type, to);
  PyObject *result = mask ? cnpy_wrap_borrowed(mask) : cnpy_raise();
  cn_scope_end(scope);
  return result;
}

PyMethodDef cnpy_nn_init_functions[] = {
    {"_init", init, METH_VARARGS, "Writes an initialiser's values into a tensor."},
    {"_init_gain", gain, METH_VARARGS, "What a nonlinearity wants its inputs multiplied by."},
    {"_clip_grad_norm", clip_grad_norm, METH_VARARGS, "Scales gradients so that their norm is at most that."},
    {"_clip_grad_value", clip_grad_value, METH_VARARGS, "Limits each element of gradients."},
    {"_adaptive", adaptive, METH_VARARGS, "Log probabilities, or the likeliest class, of an adaptive softmax."},
    {"_square_subsequent_mask", subsequent_mask, METH_VARARGS, "A mask under which no place sees a later one."},
    {NULL, NULL, 0, NULL},
};
