/* index.c: t[...] and t[...] = value.
 *
 * Place in the flow: an index is taken apart into items; integers, slices, None and Ellipsis become views one after the
 * other (select, slice, unsqueeze), index tensors and masks are gathered and applied at the end by one `index` or
 * `index_put`. Writing goes through the same views, so that histories and shared memory follow. Invariant: the dims
 * left of `dim` are done with; the list of index tensors covers `covered` of them. */
#include "cairn_py.h"

#include <cairn/vmap.h>
#include <string.h>

/* ---- ops ---- */

enum which { SELECT, SLICE, UNSQUEEZE, EXPAND, VIEW, CAST, TO_DEVICE, INDEX, INDEX_PUT, COPY, FILL, WHICH };
static const char *const op_names[WHICH] = {"select",    "slice", "unsqueeze", "expand", "view", "cast",
                                            "to_device", "index", "index_put", "copy",   "fill"};

static cn_tensor *call(enum which which, const cn_value *args, size_t nargs, cn_tensor *dest, int64_t work)
{
  static const cn_op *ops[WHICH];
  cn_tensor *out = NULL;
  size_t nout = 1;
  int status;
  if (!ops[which]) ops[which] = cn_op_find(op_names[which]);
  if (work < CNPY_LONG_CALL) status = cn_op_call(&out, &nout, ops[which], args, nargs, dest);
  else {
    PyThreadState *thread = PyEval_SaveThread();
    status = cn_op_call(&out, &nout, ops[which], args, nargs, dest);
    PyEval_RestoreThread(thread);
  }
  if (!status) return out;
  if (status == CN_ERR_SHAPE && which == INDEX) { /* indices that do not go together */
    PyErr_SetString(PyExc_IndexError, cn_err_message());
    cn_err_clear();
  } else cnpy_raise();
  return NULL;
}

static cn_tensor *call_int(enum which which, cn_tensor *t, int64_t value)
{
  cn_value args[2] = {cn_v_tensor(t), cn_v_int(value)};
  return call(which, args, 2, NULL, which == CAST || which == TO_DEVICE ? cn_numel(t) : 0);
}

/* ---- items ---- */

enum kind { INTEGER, RANGE, ELLIPSIS, NEW_DIM, TRUTH, POSITIONS };
enum { MAX_ITEMS = 64 };

typedef struct item {
  enum kind kind;
  int64_t value;   /* INTEGER, TRUTH */
  PyObject *slice; /* RANGE; borrowed */
  cn_tensor *t;    /* POSITIONS: integers or a bool mask; owned */
} item;

typedef struct items {
  int n;
  int64_t specified; /* dims that they take */
  item item[MAX_ITEMS];
} items;

static void drop_items(items *all)
{
  for (int i = 0; i < all->n; i++)
    if (all->item[i].kind == POSITIONS) cn_release(all->item[i].t);
}

static int bad_index(PyObject *o)
{
  PyObject *name = PyType_GetName(Py_TYPE(o));
  if (name)
    PyErr_Format(PyExc_IndexError, "only integers, slices (`:`), ellipsis (`...`), None, integer and bool tensors are "
                                   "valid indices (got %U)", name);
  Py_XDECREF(name);
  return -1;
}

static int set_integer(item *it, PyObject *o)
{
  int beyond = 0;
  PyObject *index = PyLong_CheckExact(o) ? Py_NewRef(o) : PyNumber_Index(o);
  if (!index) {
    PyErr_Clear();
    return bad_index(o);
  }
  it->kind = INTEGER;
  it->value = PyLong_AsLongLongAndOverflow(index, &beyond);
  Py_DECREF(index);
  if (!beyond) return 0;
  PyErr_SetString(PyExc_ValueError, "index: the number is too large for int64");
  return -1;
}

/* A tensor without dims is a number; it stays a tensor where it has no single value: while a graph is captured, and
 * where it stands for one example of a batch. */
static int set_scalar(item *it, cn_tensor *t)
{
  cn_dtype dtype = cn_dtype_of(t);
  if (cn_is_batched(t)) {
    it->kind = POSITIONS;
    it->t = cn_keep(t);
    return 0;
  }
  int64_t value = cn_item_int(t);
  if (cn_err() == CN_ERR_CAPTURE && dtype != CN_BOOL && dtype != CN_U8) {
    cn_err_clear();
    it->kind = POSITIONS;
    it->t = cn_keep(t);
    return 0;
  }
  if (cn_err()) {
    cnpy_raise();
    return -1;
  }
  it->kind = dtype == CN_BOOL || dtype == CN_U8 ? TRUTH : INTEGER;
  it->value = it->kind == TRUTH ? value != 0 : value;
  return 0;
}

static int set_tensor(item *it, cn_tensor *t)
{
  cn_dtype dtype = cn_dtype_of(t);
  if (dtype != CN_BOOL && !cn_dtype_is_int(dtype)) {
    PyErr_Format(PyExc_IndexError, "tensors used as indices must be of an integer type or bool, not %s",
                 cn_dtype_name(dtype));
    return -1;
  }
  if (cn_ndim(t) == 0) return set_scalar(it, t);
  it->kind = POSITIONS;
  if (dtype != CN_U8) {
    it->t = cn_keep(t);
    return 0;
  }
  if (PyErr_WarnEx(PyExc_UserWarning, "indexing with a uint8 mask is deprecated; use a bool mask", 1)) return -1;
  it->t = call_int(CAST, t, CN_BOOL);
  return it->t ? 0 : -1;
}

/* Lists, ranges, arrays: bools and uint8 stay masks, all else is positions. */
static int set_sequence(item *it, PyObject *o)
{
  cn_tensor *t = cnpy_from_data(o, CN_DTYPE_NONE, CN_CPU);
  cn_dtype dtype = cn_dtype_of(t);
  if (t && dtype != CN_BOOL && dtype != CN_U8 && dtype != CN_I64) {
    cn_tensor *longs = call_int(CAST, t, CN_I64);
    cn_release(t);
    t = longs;
  }
  int status = t ? set_tensor(it, t) : -1;
  cn_release(t);
  return status;
}

static int set_item(item *it, PyObject *o)
{
  it->t = NULL;
  it->slice = o;
  if (PyLong_CheckExact(o)) return set_integer(it, o);
  it->kind = PySlice_Check(o) ? RANGE : o == Py_Ellipsis ? ELLIPSIS : o == Py_None ? NEW_DIM : TRUTH;
  if (it->kind != TRUTH) return 0;
  it->value = o == Py_True;
  if (PyBool_Check(o)) return 0;
  if (cnpy_is_tensor(o)) return set_tensor(it, cnpy_t(o));
  if (PyList_Check(o) || PyTuple_Check(o) || cnpy_is_ndarray(o)) return set_sequence(it, o);
  if (PyIndex_Check(o)) return set_integer(it, o);
  return PySequence_Check(o) ? set_sequence(it, o) : bad_index(o);
}

static int dims_taken(const item *it)
{
  if (it->kind == INTEGER || it->kind == RANGE) return 1;
  if (it->kind != POSITIONS) return 0;
  return cn_dtype_of(it->t) == CN_BOOL ? cn_ndim(it->t) : 1;
}

static int add_item(items *all, PyObject *o)
{
  if (!o) return -1;
  if (all->n == MAX_ITEMS) {
    PyErr_Format(PyExc_IndexError, "too many indices: at most %d are possible", MAX_ITEMS);
    return -1;
  }
  if (set_item(&all->item[all->n], o)) return -1;
  all->specified += dims_taken(&all->item[all->n++]);
  return 0;
}

/* A list that holds lists, slices, tensors, None or ... stands for the tuple of them, as it did in old numpy. */
static bool stands_for_tuple(PyObject *o)
{
  if (!PyList_Check(o) || PyList_Size(o) >= 32) return false;
  for (Py_ssize_t i = 0; i < PyList_Size(o); i++) {
    PyObject *e = PyList_GetItem(o, i);
    if (PyList_Check(e) || PyTuple_Check(e) || PySlice_Check(e) || e == Py_None || e == Py_Ellipsis ||
        cnpy_is_tensor(e) || cnpy_is_ndarray(e))
      return true;
  }
  return false;
}

/* 0, or -1 with the exception set; to be dropped in either case. */
static int read_items(items *all, PyObject *index)
{
  all->n = 0;
  all->specified = 0;
  bool list = stands_for_tuple(index);
  if (!list && !PyTuple_Check(index)) return add_item(all, index);
  if (list && PyErr_WarnEx(PyExc_UserWarning,
                           "a list of several indices is read as a tuple; write x[tuple(seq)], or "
                           "x[tensor(seq)] where the list is one index", 1))
    return -1;
  Py_ssize_t n = PySequence_Size(index);
  for (Py_ssize_t i = 0; i < n; i++)
    if (add_item(all, list ? PyList_GetItem(index, i) : PyTuple_GetItem(index, i))) return -1;
  return 0;
}

/* ---- views ---- */

static cn_tensor *select_at(cn_tensor *t, int64_t dim, int64_t i)
{
  int ndim = cn_ndim(t);
  if (dim >= ndim) {
    if (ndim) PyErr_Format(PyExc_IndexError, "too many indices for tensor of dimension %d", ndim);
    else
      PyErr_SetString(PyExc_IndexError, "invalid index of a 0-dim tensor: use tensor.item() to get its number");
    return NULL;
  }
  int64_t size = cn_shape(t)[dim];
  if (i < -size || i >= size) {
    PyErr_Format(PyExc_IndexError, "index %lld is out of bounds for dimension %lld with size %lld", (long long)i,
                 (long long)dim, (long long)size);
    return NULL;
  }
  cn_value args[3] = {cn_v_tensor(t), cn_v_int(dim), cn_v_int(i < 0 ? i + size : i)};
  return call(SELECT, args, 3, NULL, 0);
}

/* Owned; t itself (kept) when the slice takes everything. */
static cn_tensor *slice_at(cn_tensor *t, int64_t dim, PyObject *slice)
{
  Py_ssize_t start, stop, step;
  if (dim >= cn_ndim(t)) {
    PyErr_Format(PyExc_IndexError, cn_ndim(t) ? "too many indices for tensor of dimension %d"
                                              : "a tensor of dimension %d cannot be sliced", cn_ndim(t));
    return NULL;
  }
  if (PySlice_Unpack(slice, &start, &stop, &step)) return NULL;
  if (step <= 0) {
    PyErr_SetString(PyExc_ValueError, "step must be greater than zero");
    return NULL;
  }
  int64_t size = cn_shape(t)[dim];
  PySlice_AdjustIndices((Py_ssize_t)size, &start, &stop, step);
  if (start == 0 && stop == size && step == 1) return cn_keep(t);
  if (stop < start) stop = start;
  cn_value args[5] = {cn_v_tensor(t), cn_v_int(dim), cn_v_int(start), cn_v_int(stop), cn_v_int(step)};
  return call(SLICE, args, 5, NULL, 0);
}

/* A view of all of t. */
static cn_tensor *whole(cn_tensor *t)
{
  cn_value args[2] = {cn_v_tensor(t), cn_v_ints(cn_shape(t), (size_t)cn_ndim(t))};
  return call(EXPAND, args, 2, NULL, 0);
}

/* ---- taking the index apart ---- */

typedef struct picked {
  cn_tensor *t; /* self with its views; owned */
  int64_t dim;  /* of t, where the next item applies */
  int n;
  int64_t covered; /* dims of t that the list covers */
  cn_tensor *list[2 * CN_MAX_DIMS]; /* owned; NULL for a whole dim */
} picked;

static void drop_picked(picked *p)
{
  cn_release(p->t);
  for (int i = 0; i < p->n; i++) cn_release(p->list[i]);
}

/* Takes over t. NULL: the exception is set. */
static int replace_view(picked *p, cn_tensor *t)
{
  if (!t) return -1;
  cn_release(p->t);
  p->t = t;
  return 0;
}

/* Gathers an index tensor (taken over) for the dims from p->dim on. */
static int gather(picked *p, cn_tensor *index, int dims)
{
  if (!index) return -1;
  if (p->dim + dims > cn_ndim(p->t) || p->n + p->dim - p->covered >= CN_MAX_DIMS) {
    cn_release(index);
    PyErr_Format(PyExc_IndexError, "too many indices for tensor of dimension %d", cn_ndim(p->t));
    return -1;
  }
  cn_device device = cn_device_of(p->t);
  if (cn_device_of(index) != device) {
    cn_tensor *there = call_int(TO_DEVICE, index, device);
    cn_release(index);
    if (!(index = there)) return -1;
  }
  for (; p->covered < p->dim; p->covered++) p->list[p->n++] = NULL;
  p->list[p->n++] = index;
  p->covered += dims;
  p->dim += dims;
  return 0;
}

/* True and False: a new dim of size 1 or 0. */
static int apply_truth(picked *p, bool truth)
{
  static const int64_t zero[1] = {0};
  int64_t size = truth;
  if (replace_view(p, call_int(UNSQUEEZE, p->t, p->dim))) return -1;
  cn_scope *scope = cn_scope_begin();
  return gather(p, cnpy_take(scope, cn_from_data(zero, &size, 1, CN_I64)), 1);
}

static int apply_item(picked *p, const item *it, int64_t skipped)
{
  int status = 0;
  switch (it->kind) {
  case INTEGER: return replace_view(p, select_at(p->t, p->dim, it->value));
  case RANGE: status = replace_view(p, slice_at(p->t, p->dim, it->slice)); break;
  case ELLIPSIS: p->dim += skipped; return 0;
  case NEW_DIM: status = replace_view(p, call_int(UNSQUEEZE, p->t, p->dim)); break;
  case TRUTH: return apply_truth(p, it->value != 0);
  case POSITIONS: return gather(p, cn_keep(it->t), dims_taken(it));
  }
  p->dim++;
  return status;
}

/* Applies an index to self: views in p->t, what is left to gather in p->list. 0, or -1 with everything dropped. */
static int pick(picked *p, cn_tensor *self, PyObject *index)
{
  items all;
  p->t = cn_keep(self);
  p->dim = p->covered = p->n = 0;
  int status = read_items(&all, index), ndim = cn_ndim(self);
  if (!status && all.specified > ndim) {
    PyErr_Format(PyExc_IndexError, "too many indices for tensor of dimension %d", ndim);
    status = -1;
  }
  for (int i = 0; !status && i < all.n; i++) status = apply_item(p, &all.item[i], ndim - all.specified);
  drop_items(&all);
  if (status) drop_picked(p);
  return status;
}

/* ---- reading ---- */

static PyObject *read_by_pick(cn_tensor *self, PyObject *index)
{
  picked p;
  if (pick(&p, self, index)) return NULL;
  cn_tensor *t;
  if (p.n) {
    cn_value args[2] = {cn_v_tensor(p.t), cn_v_tensors(p.list, (size_t)p.n)};
    t = call(INDEX, args, 2, NULL, cn_numel(p.t));
  } else t = p.t == self ? whole(self) : cn_keep(p.t);
  drop_picked(&p);
  return t ? cnpy_wrap(t) : NULL;
}

PyObject *cnpy_getitem(PyObject *self, PyObject *index)
{
  cn_tensor *t = cnpy_t(self), *view;
  if (cnpy_overrides_on()) {
    PyObject *result = cnpy_override("__getitem__", self, &index, 1, NULL);
    if (result != Py_NotImplemented) return result;
    Py_DECREF(result);
  }
  if (PyLong_CheckExact(index)) {
    int beyond = 0;
    int64_t i = PyLong_AsLongLongAndOverflow(index, &beyond);
    if (beyond) return PyErr_Format(PyExc_ValueError, "index: the number is too large for int64");
    view = select_at(t, 0, i);
  } else if (PySlice_Check(index)) {
    view = slice_at(t, 0, index);
    if (view == t) {
      cn_release(view);
      view = whole(t);
    }
  } else if (index == Py_None) view = call_int(UNSQUEEZE, t, 0);
  else if (index == Py_Ellipsis) view = whole(t);
  else return read_by_pick(t, index);
  return view ? cnpy_wrap(view) : NULL;
}

/* ---- writing ---- */

/* What is assigned, as an owned tensor: numbers in self's type (too large ones are errors). */
static cn_tensor *value_for(cn_tensor *self, PyObject *value)
{
  cn_value number;
  if (cnpy_is_tensor(value)) return cn_keep(cnpy_t(value));
  int is_number = PyComplex_Check(value) ? 1 : cnpy_to_number(value, &number);
  if (is_number < 0) return NULL;
  if (is_number) return cnpy_from_data(value, cn_dtype_of(self), CN_CPU);
  PyObject *name = PyType_GetName(Py_TYPE(value));
  if (name)
    PyErr_Format(PyExc_TypeError, "can't assign a %U to a tensor of type %s", name, cn_dtype_name(cn_dtype_of(self)));
  Py_XDECREF(name);
  return NULL;
}

/* Leading dims of size 1 say nothing: drops them, and moves the value to t's device. Takes over value. */
static cn_tensor *fitted(cn_tensor *value, cn_tensor *t)
{
  int lead = 0, ndim = cn_ndim(value);
  while (lead < ndim && cn_shape(value)[lead] == 1) lead++;
  cn_tensor *result = value;
  if (lead) {
    cn_value args[2] = {cn_v_tensor(value), cn_v_ints(cn_shape(value) + lead, (size_t)(ndim - lead))};
    result = call(VIEW, args, 2, NULL, 0);
    cn_release(value);
  }
  if (!result || cn_device_of(result) == cn_device_of(t) || (cn_ndim(result) == 0 && cn_device_of(result) == CN_CPU))
    return result;
  value = result;
  result = call_int(TO_DEVICE, value, cn_device_of(t));
  cn_release(value);
  return result;
}

/* t = value, in place. */
static int assign(cn_tensor *t, cn_tensor *value)
{
  cn_value args[2] = {cn_v_tensor(t), cn_v_tensor(value)};
  cn_tensor *done = call(cn_ndim(value) ? COPY : FILL, args, 2, t, cn_numel(t));
  cn_release(done);
  return done ? 0 : -1;
}

static int put(picked *p, cn_tensor *value)
{
  cn_value args[3] = {cn_v_tensor(p->t), cn_v_tensors(p->list, (size_t)p->n), cn_v_tensor(value)};
  cn_tensor *done = call(INDEX_PUT, args, 3, p->t, cn_numel(p->t));
  cn_release(done);
  return done ? 0 : -1;
}

int cnpy_setitem(PyObject *self, PyObject *index, PyObject *value)
{
  picked p;
  if (!value) {
    PyErr_SetString(PyExc_TypeError, "Tensor does not support deleting items");
    return -1;
  }
  cn_tensor *t = cn_keep(cnpy_t(self)); /* another thread may put another tensor there */
  cn_tensor *v = value_for(t, value);
  int status = v ? pick(&p, t, index) : -1;
  if (!status) {
    v = fitted(v, p.t);
    status = !v ? -1 : p.n ? put(&p, v) : assign(p.t, v);
    drop_picked(&p);
  }
  cn_release(v);
  cn_release(t);
  return status;
}
