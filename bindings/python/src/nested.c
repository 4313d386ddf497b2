/* nested.c: Python numbers and sequences of them, nested to any depth, into one row-major array.
 *
 * Place in the flow: convert.c makes the array a tensor. Lists and tuples of plain numbers take the quick way: the type
 * is guessed from the first number and the work starts again when a later one does not fit it. Everything else (numpy
 * numbers, tensors, other sequences) has its type inferred first, in a pass of its own. Invariant: nothing is stored
 * outside the shape that the first element of every level gave. */
#include "cairn_py.h"

#include <math.h>
#include <string.h>

enum outcome { DONE = 0, FAILED = -1, WIDER = 1, UNUSUAL = 2 };

typedef struct reader {
  char *at; /* where the next number goes */
  size_t size;
  cn_dtype dtype; /* what is stored */
  bool guessed;   /* the type is a guess: numbers outside it are no errors yet */
  bool widen_to_float;
  int ndim;
  int64_t shape[CN_MAX_DIMS];
} reader;

/* ---- kinds of objects ---- */

static bool is_text(PyObject *o) { return PyUnicode_Check(o) || PyBytes_Check(o); }

static bool is_row(PyObject *o) { return PyList_Check(o) || PyTuple_Check(o); }

/* Its length, or -1 when it counts as one number: tensors do, and arrays without dimensions. */
static Py_ssize_t row_length(PyObject *o)
{
  if (PyList_Check(o)) return PyList_Size(o);
  if (PyTuple_Check(o)) return PyTuple_Size(o);
  if (PyFloat_Check(o) || PyLong_Check(o) || cnpy_is_tensor(o) || is_text(o) || !PySequence_Check(o)) return -1;
  Py_ssize_t n = PySequence_Size(o);
  if (n < 0) PyErr_Clear();
  return n;
}

/* The elements of a sequence as a list or tuple (new reference). Arrays know a quicker way than iteration. */
static PyObject *row_of(PyObject *o)
{
  if (is_row(o)) return Py_NewRef(o);
  if (PyObject_CheckBuffer(o) && PyObject_HasAttrString(o, "tolist")) {
    PyObject *list = PyObject_CallMethod(o, "tolist", NULL);
    if (!list || PyList_Check(list)) return list;
    Py_DECREF(list);
  }
  return PySequence_Fast(o, "not a sequence");
}

static inline PyObject *row_item(PyObject *row, Py_ssize_t i) /* borrowed */
{
  return PyList_Check(row) ? PyList_GetItem(row, i) : PyTuple_GetItem(row, i);
}

static PyObject *raise_with_type(PyObject *exception, const char *format, PyObject *o)
{
  PyObject *name = PyType_GetName(Py_TYPE(o));
  if (name) PyErr_Format(exception, format, name);
  Py_XDECREF(name);
  return NULL;
}

/* ---- shape ---- */

/* The shape that first elements give; *leaf is the first number (new reference), NULL when there is none. */
static int find_shape(reader *r, PyObject *data, PyObject **leaf)
{
  PyObject *o = Py_NewRef(data);
  *leaf = NULL;
  for (r->ndim = 0;;) {
    Py_ssize_t n = row_length(o);
    if (n < 0) break;
    if (r->ndim == CN_MAX_DIMS) {
      raise_with_type(PyExc_ValueError, "too many dimensions '%U'", o);
      goto failed;
    }
    r->shape[r->ndim++] = n;
    if (n == 0) {
      Py_DECREF(o);
      return 0;
    }
    PyObject *first = is_row(o) ? Py_XNewRef(row_item(o, 0)) : PySequence_GetItem(o, 0);
    if (!first) goto failed;
    Py_DECREF(o);
    o = first;
  }
  if (is_text(o)) {
    if (r->ndim) raise_with_type(PyExc_ValueError, "too many dimensions '%U'", o);
    else raise_with_type(PyExc_TypeError, "tensor: invalid data type '%U'", o);
    goto failed;
  }
  *leaf = o;
  return 0;
failed:
  Py_DECREF(o);
  return -1;
}

/* ---- inference ---- */

/* The type of one number; CN_DTYPE_NONE with an exception. */
static cn_dtype infer_number(PyObject *o)
{
  if (PyBool_Check(o)) return CN_BOOL;
  if (PyLong_CheckExact(o)) return CN_I64;
  if (PyFloat_CheckExact(o)) return cn_default_dtype();
  if (cnpy_is_tensor(o)) return cn_dtype_of(cnpy_t(o));
  cn_dtype dtype = PyObject_CheckBuffer(o) ? cnpy_buffer_dtype(o) : CN_DTYPE_NONE; /* numpy's own numbers */
  if (dtype != CN_DTYPE_NONE) return dtype;
  if (PyFloat_Check(o)) return cn_default_dtype();
  if (PyLong_Check(o)) return CN_I64;
  if (PyComplex_Check(o)) return cn_promote_types(CN_C32, cn_default_dtype());
  if (is_text(o)) raise_with_type(PyExc_TypeError, "tensor: invalid data type '%U'", o);
  else raise_with_type(PyExc_RuntimeError, "Could not infer dtype of %U", o);
  return CN_DTYPE_NONE;
}

static cn_dtype infer(PyObject *o, int depth)
{
  Py_ssize_t n = row_length(o);
  if (n < 0) return infer_number(o);
  if (depth == CN_MAX_DIMS) {
    raise_with_type(PyExc_ValueError, "too many dimensions '%U'", o);
    return CN_DTYPE_NONE;
  }
  if (n == 0) return cn_default_dtype();
  if (!is_row(o) && PyObject_CheckBuffer(o)) { /* arrays inside lists */
    cn_dtype dtype = cnpy_buffer_dtype(o);
    bool array = dtype != CN_DTYPE_NONE && PyObject_HasAttrString(o, "__array_interface__");
    if (array) return dtype;
  }
  PyObject *row = PySequence_Fast(o, "not a sequence");
  if (!row) return CN_DTYPE_NONE;
  cn_dtype all = CN_DTYPE_NONE;
  for (Py_ssize_t i = 0; i < PySequence_Size(row); i++) {
    PyObject *item = Py_NewRef(row_item(row, i));
    cn_dtype one = infer(item, depth + 1);
    Py_DECREF(item);
    if (one != CN_DTYPE_NONE && all != CN_DTYPE_NONE && one != all) one = cn_promote_types(all, one);
    all = one;
    if (one != CN_DTYPE_NONE) continue;
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "tensor: the types in a sequence do not go together");
    break;
  }
  Py_DECREF(row);
  return all;
}

/* ---- storing one number ---- */

static int overflow(const reader *r)
{
  if (r->guessed) return UNUSUAL;
  PyErr_Format(PyExc_RuntimeError, "value cannot be converted to type %s without overflow", cn_dtype_name(r->dtype));
  return FAILED;
}

/* The largest number of an integer type; smallest is what still goes in (negative numbers wrap in unsigned types). */
static void limits(cn_dtype dtype, int64_t *smallest, int64_t *largest)
{
  int bits = 8 * (int)cn_dtype_size(dtype);
  if (cn_dtype_is_signed(dtype)) {
    *largest = bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1;
    *smallest = -*largest - 1;
  } else {
    *largest = ((int64_t)1 << bits) - 1;
    *smallest = -*largest;
  }
}

static void put_bits(reader *r, uint64_t bits)
{
  memcpy(r->at, &bits, r->size); /* little-endian: the low bytes are the number */
  r->at += r->size;
}

static int put_unsigned64(reader *r, PyObject *index)
{
  unsigned long long bits = PyLong_AsUnsignedLongLong(index);
  if (bits == (unsigned long long)-1 && PyErr_Occurred()) return FAILED;
  put_bits(r, bits);
  return DONE;
}

static int put_integer(reader *r, PyObject *index)
{
  int beyond = 0;
  int64_t smallest, largest;
  if (r->dtype == CN_U64) return put_unsigned64(r, index);
  int64_t value = PyLong_AsLongLongAndOverflow(index, &beyond);
  if (value == -1 && !beyond && PyErr_Occurred()) return FAILED;
  if (beyond && !r->guessed) {
    PyErr_SetString(PyExc_ValueError, "an integer is too large for int64");
    return FAILED;
  }
  limits(r->dtype, &smallest, &largest);
  if (beyond || value < smallest || value > largest) return overflow(r);
  put_bits(r, (uint64_t)value);
  return DONE;
}

/* A float where integers are stored: its whole part. */
static int put_whole(reader *r, double value)
{
  int64_t smallest, largest;
  double whole = trunc(value);
  if (r->dtype == CN_U64) {
    if (!(whole >= 0 && whole < 18446744073709551616.0)) return overflow(r);
    put_bits(r, (uint64_t)whole);
    return DONE;
  }
  limits(r->dtype, &smallest, &largest);
  if (!(whole >= (double)smallest && whole < (double)largest + 1)) return overflow(r);
  put_bits(r, (uint64_t)(int64_t)whole);
  return DONE;
}

static void put_float(reader *r, double value)
{
  float narrow = (float)value;
  memcpy(r->at, r->dtype == CN_F64 ? (void *)&value : (void *)&narrow, r->size);
  r->at += r->size;
}

static int put_complex(reader *r, PyObject *o)
{
  double z[2] = {PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o)};
  if (z[0] == -1.0 && PyErr_Occurred()) return FAILED;
  memcpy(r->at, z, r->size);
  r->at += r->size;
  return DONE;
}

/* Any object that is a number, by its own conversions. The type is settled. */
static int put_object(reader *r, PyObject *o)
{
  if (r->dtype == CN_BOOL) {
    int truth = PyObject_IsTrue(o);
    if (truth >= 0) put_bits(r, (uint64_t)truth);
    return truth < 0 ? FAILED : DONE;
  }
  if (cnpy_is_tensor(o)) {
    PyObject *number = cnpy_item(cnpy_t(o));
    int status = number ? put_object(r, number) : FAILED;
    Py_XDECREF(number);
    return status;
  }
  if (r->dtype == CN_C128) return put_complex(r, o);
  if (PyComplex_Check(o)) {
    PyErr_Format(PyExc_RuntimeError, "a complex number has no value of type %s", cn_dtype_name(r->dtype));
    return FAILED;
  }
  if (cn_dtype_is_float(r->dtype)) {
    double value = PyFloat_AsDouble(o);
    if (value == -1.0 && PyErr_Occurred()) return FAILED;
    put_float(r, value);
    return DONE;
  }
  if (PyIndex_Check(o)) {
    PyObject *index = PyNumber_Index(o);
    int status = index ? put_integer(r, index) : FAILED;
    Py_XDECREF(index);
    return status;
  }
  double value = PyFloat_AsDouble(o);
  if (value == -1.0 && PyErr_Occurred()) return FAILED;
  return put_whole(r, value);
}

/* While the type is a guess: what kind of number does not fit, and is there a guess that would? */
static int misfit(reader *r, PyObject *o)
{
  if (PyFloat_CheckExact(o)) r->widen_to_float = true;
  else if (!PyLong_CheckExact(o)) return UNUSUAL;
  return WIDER;
}

static int put_number(reader *r, PyObject *o)
{
  if (!r->guessed) {
    Py_INCREF(o); /* its conversion may be Python code that drops it from its list */
    int status = put_object(r, o);
    Py_DECREF(o);
    return status;
  }
  if (r->dtype == CN_BOOL && PyBool_Check(o)) put_bits(r, o == Py_True);
  else if (r->dtype == CN_I64 && (PyLong_CheckExact(o) || PyBool_Check(o))) return put_integer(r, o);
  else if (cn_dtype_is_float(r->dtype) && (PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyBool_Check(o))) {
    double value = PyFloat_AsDouble(o);
    if (value == -1.0 && PyErr_Occurred()) return FAILED;
    put_float(r, value);
  } else return misfit(r, o);
  return DONE;
}

/* ---- rows ---- */

/* Exact floats and small integers, which is what long lists hold, without the detour. */
static int put_row(reader *r, PyObject *row, Py_ssize_t n)
{
  bool floats = r->dtype == CN_F32 || r->dtype == CN_F64, list = PyList_Check(row);
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *o = list ? PyList_GetItem(row, i) : PyTuple_GetItem(row, i);
    if (!o) return FAILED;
    if (floats && PyFloat_CheckExact(o)) {
      put_float(r, PyFloat_AsDouble(o));
      continue;
    }
    if (r->dtype == CN_I64 && PyLong_CheckExact(o)) {
      int beyond = 0;
      int64_t value = PyLong_AsLongLongAndOverflow(o, &beyond);
      if (!beyond) {
        memcpy(r->at, &value, sizeof value);
        r->at += sizeof value;
        continue;
      }
    }
    int status = put_number(r, o);
    if (status) return status;
  }
  return DONE;
}

static int read_level(reader *r, PyObject *o, int dim)
{
  if (r->guessed && !is_row(o)) return UNUSUAL;
  if (is_text(o) || !PySequence_Check(o)) {
    PyErr_SetString(PyExc_TypeError, "not a sequence");
    return FAILED;
  }
  PyObject *row = row_of(o);
  if (!row) return FAILED;
  Py_ssize_t n = PySequence_Size(row);
  int status = DONE;
  if (n != r->shape[dim]) {
    PyErr_Format(PyExc_ValueError, "expected sequence of length %lld at dim %d (got %zd)", (long long)r->shape[dim],
                 dim, n);
    status = FAILED;
  } else if (dim == r->ndim - 1) status = put_row(r, row, n);
  else
    for (Py_ssize_t i = 0; !status && i < n; i++) {
      PyObject *item = Py_XNewRef(row_item(row, i));
      status = item ? read_level(r, item, dim + 1) : FAILED;
      Py_XDECREF(item);
    }
  Py_DECREF(row);
  return status;
}

/* ---- the whole ---- */

/* A type of C that holds what is asked for. */
static cn_dtype stored_as(cn_dtype dtype)
{
  if (dtype >= CN_BOOL && dtype <= CN_U64) return dtype;
  if (dtype == CN_F64) return CN_F64;
  if (cn_dtype_is_complex(dtype)) return CN_C128;
  return cn_dtype_is_float(dtype) ? CN_F32 : CN_I64;
}

static cn_dtype guess(PyObject *leaf)
{
  if (!leaf || PyFloat_CheckExact(leaf)) return cn_default_dtype();
  return PyBool_Check(leaf) ? CN_BOOL : PyLong_CheckExact(leaf) ? CN_I64 : CN_DTYPE_NONE;
}

static int read_all(reader *r, cnpy_array *a, PyObject *data, cn_dtype dtype)
{
  r->dtype = stored_as(dtype);
  r->size = cn_dtype_size(r->dtype);
  size_t count = 1;
  bool empty = false;
  for (int i = 0; i < r->ndim; i++) {
    empty = empty || r->shape[i] == 0;
    if (__builtin_mul_overflow(count, (size_t)r->shape[i], &count)) count = SIZE_MAX;
  }
  if (empty) count = 0;
  PyMem_Free(a->data);
  a->data = count > PY_SSIZE_T_MAX / 16 ? NULL : PyMem_Malloc(count * r->size + 1);
  if (!a->data) {
    PyErr_NoMemory();
    return FAILED;
  }
  a->dtype = r->dtype;
  r->at = a->data;
  if (empty) return DONE; /* what stands beside an empty row has no place */
  if (r->ndim == 0) return put_number(r, data);
  return read_level(r, data, 0);
}

/* Guesses until one holds; UNUSUAL when none will. */
static int read_guessing(reader *r, cnpy_array *a, PyObject *data, PyObject *leaf, cn_dtype *dtype)
{
  *dtype = guess(leaf);
  int status = *dtype == CN_DTYPE_NONE ? UNUSUAL : WIDER;
  r->guessed = true;
  while (status == WIDER) {
    r->widen_to_float = false;
    status = read_all(r, a, data, *dtype);
    if (status == WIDER && *dtype != CN_BOOL && !r->widen_to_float) status = UNUSUAL;
    if (status == WIDER) *dtype = r->widen_to_float ? cn_default_dtype() : CN_I64;
  }
  r->guessed = false;
  return status;
}

int cnpy_read_nested(cnpy_array *a, PyObject *data, cn_dtype *dtype)
{
  reader r = {.guessed = false};
  PyObject *leaf;
  a->data = NULL;
  if (find_shape(&r, data, &leaf)) return -1;
  int status = *dtype == CN_DTYPE_NONE ? read_guessing(&r, a, data, leaf, dtype) : UNUSUAL;
  Py_XDECREF(leaf);
  if (status == UNUSUAL) {
    if (*dtype == CN_DTYPE_NONE || a->data) *dtype = infer(data, 0);
    status = *dtype == CN_DTYPE_NONE ? FAILED : read_all(&r, a, data, *dtype);
  }
  a->ndim = r.ndim;
  memcpy(a->shape, r.shape, sizeof a->shape);
  if (status == DONE) return 0;
  PyMem_Free(a->data);
  a->data = NULL;
  return -1;
}
