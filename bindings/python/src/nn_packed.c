/* nn_packed.c: sequences of several lengths, packed, for cairn.nn.utils.rnn and the recurrent layers.
 *
 * A packed sequence is a tuple of four here: data, batch_sizes, sorted_indices or None, unsorted_indices or None.
 * Invariant: tensors are borrowed from the scope of the call until they are wrapped. */
#include "nn.h"

enum { MOST_SEQUENCES = 1 << 20 };

static PyObject *object_or_none(cn_tensor *t) { return t ? cnpy_wrap_borrowed(t) : Py_NewRef(Py_None); }

static PyObject *packed_tuple(const cn_packed *p)
{
  PyObject *tuple = PyTuple_New(4);
  cn_tensor *const parts[] = {p->data, p->batch_sizes, p->sorted_indices, p->unsorted_indices};
  for (int i = 0; tuple && i < 4; i++) {
    PyObject *o = object_or_none(parts[i]);
    if (!o || PyTuple_SetItem(tuple, i, o)) Py_CLEAR(tuple);
  }
  return tuple;
}

/* "O&": a tensor, or None. */
static int optional_tensor(PyObject *o, void *to)
{
  cn_tensor **t = to;
  if (o == Py_None) *t = NULL;
  else if (cnpy_is_tensor(o)) *t = cnpy_t(o);
  else {
    PyErr_Format(PyExc_TypeError, "expected a Tensor or None, not %R", (PyObject *)Py_TYPE(o));
    return 0;
  }
  return 1;
}

/* _pack_padded(input, lengths, batch_first, enforce_sorted) */
static PyObject *pack_padded(PyObject *Py_UNUSED(module), PyObject *args)
{
  cn_tensor *input, *lengths;
  int batch_first, sorted;
  if (!PyArg_ParseTuple(args, "O&O&pp:_pack_padded", optional_tensor, &input, optional_tensor, &lengths, &batch_first,
                        &sorted))
    return NULL;
  cn_packed p = {0};
  cn_pack_opts opts = {.size = sizeof opts, .batch_first = batch_first, .no_enforce_sorted = !sorted};
  cn_scope *scope = cn_scope_begin();
  PyObject *result = cn_pack_padded_with(&p, input, lengths, &opts) ? cnpy_raise() : packed_tuple(&p);
  cn_scope_end(scope);
  return result;
}

/* The tensors of a tuple or list, in memory of PyMem; NULL with the exception set. */
static cn_tensor **list_of(PyObject *sequence, size_t *n)
{
  Py_ssize_t count = PySequence_Size(sequence);
  cn_tensor **list = count < 0 ? NULL : PyMem_Malloc(((size_t)count + 1) * sizeof *list);
  if (!list) return (cn_tensor **)(count < 0 ? NULL : PyErr_NoMemory());
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *o = PySequence_GetItem(sequence, i);
    bool fits = o && cnpy_is_tensor(o);
    if (fits) list[i] = cnpy_t(o);
    Py_XDECREF(o); /* the sequence has it */
    if (fits) continue;
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "expected a list of tensors");
    PyMem_Free(list);
    return NULL;
  }
  *n = (size_t)count;
  return list;
}

static PyObject *pack_sequence(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *sequences;
  int sorted;
  size_t n;
  if (!PyArg_ParseTuple(args, "Op:_pack_sequence", &sequences, &sorted)) return NULL;
  cn_tensor **list = list_of(sequences, &n);
  if (!list) return NULL;
  cn_packed p = {0};
  cn_pack_opts opts = {.size = sizeof opts, .no_enforce_sorted = !sorted};
  cn_scope *scope = cn_scope_begin();
  PyObject *result = cn_pack_sequence_with(&p, list, n, &opts) ? cnpy_raise() : packed_tuple(&p);
  cn_scope_end(scope);
  PyMem_Free(list);
  return result;
}

/* _pad_packed(data, batch_sizes, sorted, unsorted, batch_first, value, total_length) -> (padded, lengths) */
static PyObject *pad_packed(PyObject *Py_UNUSED(module), PyObject *args)
{
  cn_packed p;
  int batch_first;
  double value;
  long long total;
  if (!PyArg_ParseTuple(args, "O&O&O&O&pdL:_pad_packed", optional_tensor, &p.data, optional_tensor, &p.batch_sizes,
                        optional_tensor, &p.sorted_indices, optional_tensor, &p.unsorted_indices, &batch_first, &value,
                        &total))
    return NULL;
  cn_tensor *out = NULL, *lengths = NULL;
  cn_pad_sequence_opts opts = {
    .size = sizeof opts, .batch_first = batch_first, .padding_value = value, .total_length = total};
  cn_scope *scope = cn_scope_begin();
  PyObject *result = cn_pad_packed_with(&out, &lengths, &p, &opts)
                       ? cnpy_raise()
                       : Py_BuildValue("(NN)", cnpy_wrap_borrowed(out), cnpy_wrap_borrowed(lengths));
  cn_scope_end(scope);
  return result;
}

static PyObject *pad_sequence(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *sequences;
  int batch_first;
  double value;
  const char *side;
  size_t n;
  if (!PyArg_ParseTuple(args, "Opds:_pad_sequence", &sequences, &batch_first, &value, &side)) return NULL;
  cn_tensor **list = list_of(sequences, &n);
  if (!list) return NULL;
  cn_pad_sequence_opts opts = {
    .size = sizeof opts, .batch_first = batch_first, .padding_value = value, .padding_side = side};
  cn_scope *scope = cn_scope_begin();
  cn_tensor *out = cn_pad_sequence_with(list, n, &opts);
  PyObject *result = out ? cnpy_wrap_borrowed(out) : cnpy_raise();
  cn_scope_end(scope);
  PyMem_Free(list);
  return result;
}

/* _unpad_sequence(padded, lengths, batch_first) -> list of tensors */
static PyObject *unpad_sequence(PyObject *Py_UNUSED(module), PyObject *args)
{
  cn_tensor *padded, *lengths;
  int batch_first;
  if (!PyArg_ParseTuple(args, "O&O&p:_unpad_sequence", optional_tensor, &padded, optional_tensor, &lengths,
                        &batch_first))
    return NULL;
  size_t n = lengths ? (size_t)cn_numel(lengths) : 0;
  cn_tensor **out = n <= MOST_SEQUENCES ? PyMem_Calloc(n + 1, sizeof *out) : NULL;
  if (!out) return PyErr_NoMemory();
  cn_scope *scope = cn_scope_begin();
  PyObject *list = cn_unpad_sequence(out, n, padded, lengths, batch_first) ? cnpy_raise() : PyList_New((Py_ssize_t)n);
  for (size_t i = 0; list && i < n; i++) {
    PyObject *o = cnpy_wrap_borrowed(out[i]);
    if (!o || PyList_SetItem(list, (Py_ssize_t)i, o)) Py_CLEAR(list);
  }
  cn_scope_end(scope);
  PyMem_Free(out);
  return list;
}

PyMethodDef cnpy_nn_packed_functions[] = {
    {"_pack_padded", pack_padded, METH_VARARGS, "Packs a padded tensor."},
    {"_pack_sequence", pack_sequence, METH_VARARGS, "Packs a list of sequences."},
    {"_pad_packed", pad_packed, METH_VARARGS, "The padded tensor and the lengths of a packed one."},
    {"_pad_sequence", pad_sequence, METH_VARARGS, "A list of sequences as one padded tensor."},
    {"_unpad_sequence", unpad_sequence, METH_VARARGS, "The sequences of a padded tensor."},
    {NULL, NULL, 0, NULL},
};
