/* lists.c: lists of tensors and tensors of strings, for Python: one entry for each of the library's functions.
 *
 * Place in the flow: below cairn/lists.py and cairn/strings.py, whose objects are pairs of tensors. Invariant: results
 * are new references, made in a scope of their own. */
#include <cairn/lists.h>
#include <cairn/strings.h>
#include <string.h>

#include "cairn_py.h"

enum { MOST = 1 << 16 }; /* tensors of one call */

/* What one call is given. */
typedef struct given {
  cn_tensor **t;     /* NULL where None stands; more than are there are NULL, too */
  size_t n;
  int64_t ints[CN_MAX_DIMS + 2];
  int nints;         /* -1: None */
  cn_dtype dtype;    /* CN_DTYPE_NONE: not given */
} given;

typedef struct made {
  cn_tensor *t[2];
  size_t n;
} made;

static int one(made *m, cn_tensor *t)
{
  m->t[0] = t;
  m->n = 1;
  return t ? CN_OK : cn_err();
}

static int pair(made *m, int status, cn_tensor *first, cn_tensor *second)
{
  m->t[0] = first;
  m->t[1] = second;
  m->n = 2;
  return status;
}

#define LIST(g) (&(const cn_list){(g)->t[0], (g)->t[1]})
#define STRINGS(g, at) (&(const cn_strings){(g)->t[at], (g)->t[(at) + 1]})

/* ---- lists: a function each, from the tensors and ints that it takes ---- */

static int list_make(made *m, const given *g)
{
  cn_list l = {NULL, NULL};
  int status = cn_list_make(&l, g->t, g->n);
  return pair(m, status, l.data, l.shapes);
}
static int list_empty(made *m, const given *g)
{
  cn_list l = {NULL, NULL};
  int status = cn_list_empty(&l, g->dtype, (int)g->ints[0], CN_DEVICE_DEFAULT);
  return pair(m, status, l.data, l.shapes);
}
static int list_rows(made *m, const given *g)
{
  cn_list l = {NULL, NULL};
  int status = cn_list_rows(&l, g->t[0]);
  return pair(m, status, l.data, l.shapes);
}
static int list_split(made *m, const given *g)
{
  cn_list l = {NULL, NULL};
  int status = cn_list_split(&l, g->t[0], g->t[1], g->ints[0], g->ints[1] != 0);
  return pair(m, status, l.data, l.shapes);
}
static int list_insert(made *m, const given *g)
{
  cn_list l = {NULL, NULL};
  int status = cn_list_insert(&l, LIST(g), g->t[2], g->t[3]);
  return pair(m, status, l.data, l.shapes);
}
static int list_erase(made *m, const given *g)
{
  cn_list l = {NULL, NULL};
  int status = cn_list_erase(&l, LIST(g), g->t[2]);
  return pair(m, status, l.data, l.shapes);
}
static int list_take(made *m, const given *g)
{
  cn_list l = {NULL, NULL};
  int status = cn_list_take(&l, LIST(g), g->t[2]);
  return pair(m, status, l.data, l.shapes);
}
static int list_length(made *m, const given *g) { return one(m, cn_list_length(LIST(g))); }

/* The sizes among the ints, from number `at` on, where there are as many as members have dimensions. */
static const int64_t *known(const given *g, int at, int *status)
{
  if (g->nints <= at) return NULL;
  if (!g->t[1] || cn_ndim(g->t[1]) != 2 || cn_size(g->t[1], 1) != g->nints - at)
    *status = cn_err_set(CN_ERR_SHAPE, "list: the shape has another number of dimensions than the members");
  return g->ints + at;
}
static int list_at(made *m, const given *g)
{
  int status = CN_OK;
  const int64_t *shape = known(g, 0, &status);
  return status ? status : one(m, cn_list_at(LIST(g), g->t[2], shape));
}
static int list_concat(made *m, const given *g)
{
  int status = CN_OK;
  const int64_t *shape = known(g, 1, &status);
  return status ? status : one(m, cn_list_concat(LIST(g), g->ints[0], shape));
}
static int list_stack(made *m, const given *g)
{
  int status = CN_OK;
  const int64_t *shape = known(g, 1, &status);
  return status ? status : one(m, cn_list_stack(LIST(g), g->ints[0], shape));
}

/* ---- strings ---- */

static int strings_equal(made *m, const given *g) { return one(m, cn_strings_equal(STRINGS(g, 0), STRINGS(g, 2))); }
static int strings_concat(made *m, const given *g)
{
  cn_strings s = {NULL, NULL};
  int status = cn_strings_concat(&s, STRINGS(g, 0), STRINGS(g, 2));
  return pair(m, status, s.bytes, s.lengths);
}
static int strings_count(made *m, const given *g) { return one(m, cn_strings_count(STRINGS(g, 0))); }
static int strings_take(made *m, const given *g)
{
  cn_strings s = {NULL, NULL};
  int status = cn_strings_take(&s, STRINGS(g, 0), g->t[2]);
  return pair(m, status, s.bytes, s.lengths);
}
static int strings_find(made *m, const given *g) { return one(m, cn_strings_find(STRINGS(g, 0), STRINGS(g, 2))); }
static int strings_lookup(made *m, const given *g)
{
  return one(m, cn_strings_lookup(STRINGS(g, 0), STRINGS(g, 2), g->t[4], g->t[5]));
}
static int strings_format(made *m, const given *g)
{
  cn_strings s = {NULL, NULL};
  int status = cn_strings_format(&s, g->t[0]);
  return pair(m, status, s.bytes, s.lengths);
}
static int strings_parse(made *m, const given *g) { return one(m, cn_strings_parse(STRINGS(g, 0), g->dtype)); }

static const struct row {
  const char *name;
  int (*fn)(made *m, const given *g);
} rows[] = {
  {"list_make", list_make},         {"list_empty", list_empty},         {"list_rows", list_rows},
  {"list_split", list_split},       {"list_insert", list_insert},       {"list_erase", list_erase},
  {"list_take", list_take},         {"list_length", list_length},       {"list_at", list_at},
  {"list_concat", list_concat},     {"list_stack", list_stack},         {"strings_equal", strings_equal},
  {"strings_concat", strings_concat}, {"strings_count", strings_count}, {"strings_take", strings_take},
  {"strings_find", strings_find},   {"strings_lookup", strings_lookup}, {"strings_format", strings_format},
  {"strings_parse", strings_parse},
};

/* ---- calls ---- */

enum { SPARE = 6 }; /* as many tensors as any function asks for */

static int take_tensors(given *g, PyObject *list)
{
  g->n = (size_t)PyList_Size(list);
  g->t = g->n <= MOST ? PyMem_Calloc(g->n + SPARE, sizeof *g->t) : NULL;
  if (!g->t) return PyErr_NoMemory(), -1;
  for (size_t i = 0; i < g->n; i++) {
    PyObject *t = PyList_GetItem(list, (Py_ssize_t)i);
    if (t == Py_None) continue;
    if (!cnpy_is_tensor(t)) return cnpy_fail(PyExc_TypeError, "expected a tensor"), -1;
    g->t[i] = cnpy_t(t);
  }
  return 0;
}

static PyObject *call_row(const struct row *row, given *g)
{
  made m = {{NULL, NULL}, 0};
  cn_scope *scope = cn_scope_begin();
  int status = row->fn(&m, g);
  PyObject *result = status ? cnpy_raise() : cnpy_wrap_list(m.t, m.n);
  cn_scope_end(scope);
  return result;
}

/* _lists(name, tensors, ints or None, dtype or None) -> list of tensors */
static PyObject *call(PyObject *Py_UNUSED(module), PyObject *args)
{
  const char *name;
  PyObject *list, *ints, *dtype, *result = NULL;
  given g = {.nints = -1};
  size_t i = 0;
  if (!PyArg_ParseTuple(args, "sO!OO:_lists", &name, &PyList_Type, &list, &ints, &dtype)) return NULL;
  while (i < sizeof rows / sizeof *rows && strcmp(rows[i].name, name)) i++;
  bool good = i < sizeof rows / sizeof *rows && !take_tensors(&g, list);
  if (good && ints != Py_None) good = (g.nints = cnpy_to_ints(ints, g.ints, CN_MAX_DIMS + 2)) >= 0;
  if (good && dtype != Py_None) good = !cnpy_to_dtype(dtype, &g.dtype);
  if (good) result = call_row(&rows[i], &g);
  else if (!PyErr_Occurred()) cnpy_fail(PyExc_ValueError, "_lists: there is no %s", name);
  PyMem_Free(g.t);
  return result;
}

/* ---- strings from and to Python ---- */

/* _strings_from(list of bytes, shape) -> [bytes, lengths] */
static PyObject *strings_from(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *list, *shape;
  int64_t dims[CN_MAX_DIMS], count = 1;
  if (!PyArg_ParseTuple(args, "O!O:_strings_from", &PyList_Type, &list, &shape)) return NULL;
  int ndim = cnpy_to_ints(shape, dims, CN_MAX_DIMS);
  if (ndim < 0) return NULL;
  size_t n = (size_t)PyList_Size(list);
  for (int i = 0; i < ndim; i++) count *= dims[i];
  if (count != (int64_t)n) return cnpy_fail(PyExc_ValueError, "strings: the shape does not fit");
  const char **texts = PyMem_Malloc((n + 1) * sizeof *texts);
  if (!texts) return PyErr_NoMemory();
  for (size_t i = 0; i < n; i++) {
    PyObject *text = PyList_GetItem(list, (Py_ssize_t)i);
    texts[i] = PyBytes_Check(text) ? PyBytes_AsString(text) : NULL;
    if (texts[i] && strlen(texts[i]) == (size_t)PyBytes_Size(text)) continue;
    PyMem_Free(texts);
    return cnpy_fail(PyExc_ValueError, "strings: element %zu is no string, or has a zero in it", i);
  }
  cn_strings s;
  made m = {{NULL, NULL}, 2};
  cn_scope *scope = cn_scope_begin();
  int status = cn_strings_from(&s, texts, dims, (size_t)ndim);
  if (!status) m.t[0] = s.bytes, m.t[1] = s.lengths;
  PyObject *result = status ? cnpy_raise() : cnpy_wrap_list(m.t, m.n);
  cn_scope_end(scope);
  PyMem_Free(texts);
  return result;
}

static PyMethodDef functions[] = {
  {"_lists", call, METH_VARARGS, "_lists(name, tensors, ints, dtype) -> list of tensors"},
  {"_strings_from", strings_from, METH_VARARGS, "_strings_from(list of bytes, shape) -> [bytes, lengths]"},
  {NULL, NULL, 0, NULL},
};

int cnpy_add_lists(PyObject *module) { return PyModule_AddFunctions(module, functions); }
