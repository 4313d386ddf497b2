/* data_loader.c: NativeLoader: one epoch of a data set of the library, made by its own threads.
 *
 * Place in the flow: cairn.utils.data.DataLoader draws the order and hands it over with the number of the batch to
 * begin with. Invariant: the workers never need the GIL, so waiting for them without it cannot lock up. */
#include "data.h"

#include <string.h>

typedef struct order {
  int64_t n;
  int64_t v[];
} order;

typedef struct loader_object {
  PyObject_HEAD
  cn_loader *loader; /* owned; NULL once closed */
  bool over;
} loader_object;

static PyTypeObject *loader_type;

static loader_object *of(PyObject *self) { return (loader_object *)(void *)self; }

/* ---- the order as a sampler ---- */

static int64_t order_length(void *data) { return ((order *)data)->n; }

static int order_fill(int64_t *indices, void *data, uint64_t seed, int64_t epoch)
{
  const order *o = data;
  (void)seed, (void)epoch;
  if (o->n) memcpy(indices, o->v, (size_t)o->n * sizeof *indices);
  return CN_OK;
}

static void order_free(void *data)
{
  order *o = data;
  cn_free(o, sizeof *o + (size_t)o->n * sizeof *o->v);
}

static order *order_of(cn_tensor *t)
{
  if (cn_dtype_of(t) != CN_I64 || cn_ndim(t) != 1) {
    PyErr_SetString(PyExc_TypeError, "the order must be a row of int64");
    return NULL;
  }
  size_t n = (size_t)cn_numel(t), size = n * sizeof(int64_t);
  order *o = cn_alloc(sizeof *o + size);
  if (o) o->n = (int64_t)n;
  if (o && (!n || !cn_to_data(o->v, size, t))) return o;
  if (o) order_free(o);
  cnpy_raise();
  return NULL;
}

/* ---- the object ---- */

/* Goes to a batch of the epoch. */
static int begin_at(cn_loader *l, int64_t number)
{
  cn_tree *state = number ? cn_loader_state(l) : NULL;
  if (!number) return CN_OK;
  int status = state ? cn_tree_put(state, "next", cn_tree_int(number)) : cn_err();
  if (!status) status = cn_loader_load(l, state);
  cn_tree_free(state);
  return status;
}

static PyObject *loader_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
  PyObject *set, *indices;
  long long batch, first;
  int drop_last, workers, prefetch;
  unsigned long long seed;
  if (!PyArg_ParseTuple(args, "O!O!LpiiKL:NativeLoader", cnpy_dataset_type, &set, cnpy.tensor_base, &indices, &batch,
                        &drop_last, &workers, &prefetch, &seed, &first))
    return NULL;
  order *o = order_of(cnpy_t(indices));
  if (!o) return NULL;
  cn_sampler sampler = {order_length, order_fill, order_free, o};
  cn_loader_opts opts = {.size = sizeof opts, .batch = batch, .drop_last = drop_last, .workers = workers,
                         .prefetch = prefetch, .seed = seed | 1, .device = CN_CPU, .sampler = &sampler};
  cn_loader *l = cn_loader_new_with(cn_dataset_keep(cnpy_set(set)), &opts);
  PyObject *self = l && !begin_at(l, first) ? cnpy_alloc_object(type) : cnpy_raise();
  if (self) of(self)->loader = l;
  else cn_loader_free(l);
  return self;
}

static PyObject *close_loader(PyObject *self, PyObject *Py_UNUSED(none))
{
  cn_loader *l = of(self)->loader;
  of(self)->loader = NULL;
  Py_BEGIN_ALLOW_THREADS
  cn_loader_free(l);
  Py_END_ALLOW_THREADS
  Py_RETURN_NONE;
}

static void loader_dealloc(PyObject *self)
{
  Py_XDECREF(close_loader(self, NULL));
  cnpy_free_object(self);
}

static PyObject *list_of(const cn_batch *b)
{
  PyObject *list = PyList_New((Py_ssize_t)b->n);
  for (size_t i = 0; list && i < b->n; i++) {
    PyObject *t = cnpy_wrap_borrowed(b->v[i]);
    if (!t || PyList_SetItem(list, (Py_ssize_t)i, t)) Py_CLEAR(list);
  }
  return list;
}

static PyObject *loader_next(PyObject *self)
{
  cn_loader *l = of(self)->loader;
  cn_batch b;
  int status;
  if (!l || of(self)->over) return NULL;
  of(self)->loader = NULL; /* nobody else may close it meanwhile */
  Py_BEGIN_ALLOW_THREADS
  status = cn_loader_next(&b, l);
  Py_END_ALLOW_THREADS
  of(self)->loader = l;
  if (status == 1) return list_of(&b);
  if (status < 0) return cnpy_raise();
  of(self)->over = true;
  return NULL;
}

static PyObject *loader_iter(PyObject *self) { return Py_NewRef(self); }

static PyMethodDef methods[] = {{"close", close_loader, METH_NOARGS, "close()\n--\n\nEnds its threads."},
                                {NULL, NULL, 0, NULL}};
static PyType_Slot slots[] = {{Py_tp_new, (void *)loader_new},
                              {Py_tp_dealloc, (void *)loader_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_iter, (void *)loader_iter},
                              {Py_tp_iternext, (void *)loader_next},
                              {Py_tp_doc, (void *)"dataset, order, batch, drop_last, workers, prefetch, seed, first"},
                              {0, NULL}};
static PyType_Spec spec = {"cairn._C.NativeLoader", sizeof(loader_object), 0, Py_TPFLAGS_DEFAULT, slots};

int cnpy_add_loader(PyObject *module)
{
  loader_type = cnpy_add_type(module, &spec);
  return loader_type ? 0 : -1;
}
