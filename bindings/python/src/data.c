/* data.c: data sets of the library for Python, and what else cairn.datasets stands on.
 *
 * Place in the flow: cairn/datasets.py makes NativeDatasets here and adds names and transforms; data_loader.c runs
 * them in threads of the library. Invariant: nothing below calls back into Python, so samples are made without the
 * GIL. */
#include "data.h"

#include <cairn/ext/system.h>

PyTypeObject *cnpy_dataset_type;

PyObject *cnpy_alloc_object(PyTypeObject *type) { return ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0); }

void cnpy_free_object(PyObject *self)
{
  PyTypeObject *type = Py_TYPE(self);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

PyObject *cnpy_wrap_dataset(cn_dataset *set)
{
  PyObject *o = set ? cnpy_alloc_object(cnpy_dataset_type) : cnpy_raise();
  if (o) ((cnpy_dataset *)(void *)o)->set = set;
  else cn_dataset_release(set);
  return o;
}

static void dataset_dealloc(PyObject *self)
{
  cn_dataset_release(cnpy_set(self));
  cnpy_free_object(self);
}

/* ---- samples ---- */

static Py_ssize_t dataset_length(PyObject *self) { return (Py_ssize_t)cn_dataset_length(cnpy_set(self)); }

/* Labels (int64 without dimensions) are Python ints, as data sets of torchvision have them. */
static PyObject *field_of(cn_tensor *t)
{
  return cn_ndim(t) == 0 && cn_dtype_of(t) == CN_I64 ? cnpy_item(t) : cnpy_wrap_borrowed(t);
}

static PyObject *dataset_get(PyObject *self, PyObject *index)
{
  int64_t i;
  cn_sample sample;
  int status;
  if (cnpy_to_int(index, &i)) return NULL;
  if (i < 0) i += cn_dataset_length(cnpy_set(self));
  Py_BEGIN_ALLOW_THREADS
  status = cn_dataset_get(&sample, cnpy_set(self), i);
  Py_END_ALLOW_THREADS
  if (status) return cnpy_raise();
  PyObject *made = PyTuple_New((Py_ssize_t)sample.n);
  for (size_t k = 0; made && k < sample.n; k++) {
    PyObject *field = field_of(sample.v[k]);
    if (!field || PyTuple_SetItem(made, (Py_ssize_t)k, field)) Py_CLEAR(made);
  }
  cn_sample_clear(&sample);
  return made;
}

static PyObject *dataset_labels(PyObject *self, void *Py_UNUSED(closure))
{
  PyObject *list = PyList_New(0);
  const char *label;
  for (size_t i = 0; list && (label = cn_dataset_label(cnpy_set(self), i)); i++) {
    PyObject *text = PyUnicode_DecodeFSDefault(label);
    if (!text || PyList_Append(list, text)) Py_CLEAR(list);
    Py_XDECREF(text);
  }
  return list;
}

static PyObject *dataset_name(PyObject *self, void *Py_UNUSED(closure))
{
  return PyUnicode_FromString(cn_dataset_name(cnpy_set(self)));
}

/* ---- made of others ---- */

static PyObject *dataset_transformed(PyObject *self, PyObject *transform)
{
  if (!PyObject_TypeCheck(transform, cnpy_transform_type))
    return cnpy_fail(PyExc_TypeError, "transformed: expected a NativeTransform");
  cn_transform *t = cnpy_transform_of(transform);
  return t ? cnpy_wrap_dataset(cn_dataset_transform(cn_dataset_keep(cnpy_set(self)), t)) : NULL;
}

/* The numbers of a row of int64 on the CPU; NULL with an exception. They live as long as the tensor. */
static const int64_t *row_of(PyObject *o, size_t *n)
{
  static const int64_t none;
  cn_tensor *t = cnpy_is_tensor(o) ? cnpy_t(o) : NULL;
  if (!t || cn_dtype_of(t) != CN_I64 || cn_ndim(t) != 1 || cn_device_of(t) != CN_CPU || !cn_is_contiguous(t)) {
    PyErr_SetString(PyExc_TypeError, "indices must be a row of int64 on the CPU");
    return NULL;
  }
  *n = (size_t)cn_numel(t);
  const int64_t *v = *n ? cn_data(t) : &none;
  if (!v) cnpy_raise();
  return v;
}

static PyObject *dataset_subset(PyObject *self, PyObject *indices)
{
  size_t n;
  const int64_t *v = row_of(indices, &n);
  return v ? cnpy_wrap_dataset(cn_dataset_subset(cn_dataset_keep(cnpy_set(self)), v, n)) : NULL;
}

/* samples() -> [(path, label), ...] of a folder of images. */
static PyObject *dataset_samples(PyObject *self, PyObject *Py_UNUSED(none))
{
  PyObject *list = PyList_New(0);
  const char *path;
  int64_t label;
  for (int64_t i = 0; list && (path = cn_image_folder_file(cnpy_set(self), i, &label)); i++) {
    PyObject *pair = Py_BuildValue("(NL)", PyUnicode_DecodeFSDefault(path), (long long)label);
    if (!pair || PyList_Append(list, pair)) Py_CLEAR(list);
    Py_XDECREF(pair);
  }
  return list;
}

static PyObject *dataset_concat(PyObject *Py_UNUSED(module), PyObject *sets)
{
  if (!PyTuple_Check(sets)) return cnpy_fail(PyExc_TypeError, "expected a tuple of data sets");
  Py_ssize_t n = PyTuple_Size(sets);
  for (Py_ssize_t i = 0; i < n; i++)
    if (!PyObject_TypeCheck(PyTuple_GetItem(sets, i), cnpy_dataset_type))
      return cnpy_fail(PyExc_TypeError, "expected a tuple of data sets");
  cn_dataset **list = PyMem_Calloc((size_t)n + 1, sizeof *list);
  if (!list) return PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < n; i++) list[i] = cn_dataset_keep(cnpy_set(PyTuple_GetItem(sets, i)));
  PyObject *made = cnpy_wrap_dataset(cn_dataset_concat(list, (size_t)n));
  PyMem_Free(list);
  return made;
}

static PyObject *dataset_tensors(PyObject *Py_UNUSED(module), PyObject *tensors)
{
  cn_tensor *list[CN_SAMPLE_FIELDS];
  Py_ssize_t n = PyTuple_Check(tensors) ? PyTuple_Size(tensors) : 0;
  if (n < 1 || n > CN_SAMPLE_FIELDS) return cnpy_fail(PyExc_TypeError, "expected 1 to %d tensors", CN_SAMPLE_FIELDS);
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *o = PyTuple_GetItem(tensors, i);
    if (!cnpy_is_tensor(o)) return cnpy_fail(PyExc_TypeError, "expected tensors");
    list[i] = cnpy_t(o);
  }
  return cnpy_wrap_dataset(cn_dataset_tensors(list, (size_t)n));
}

static PyMethodDef dataset_methods[] = {
  {"get", dataset_get, METH_O, "get(index)\n--\n\nA sample: a tuple of tensors; labels are ints."},
  {"transformed", dataset_transformed, METH_O, "transformed(transform)\n--\n\nWith the images changed by it."},
  {"subset", dataset_subset, METH_O, "subset(indices)\n--\n\nThe samples of these numbers."},
  {"samples", dataset_samples, METH_NOARGS, "samples()\n--\n\nPaths and labels, where it is a folder of images."},
  {NULL, NULL, 0, NULL}};
static PyGetSetDef dataset_getset[] = {
  {"labels", dataset_labels, NULL, "The names of the classes, where they are known.", NULL},
  {"name", dataset_name, NULL, "What it is.", NULL},
  {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot dataset_slots[] = {{Py_tp_dealloc, (void *)dataset_dealloc},
                                      {Py_tp_methods, dataset_methods},
                                      {Py_tp_getset, dataset_getset},
                                      {Py_sq_length, (void *)dataset_length},
                                      {Py_tp_doc, (void *)"A data set of the library."},
                                      {0, NULL}};
static PyType_Spec dataset_spec = {"cairn._C.NativeDataset", sizeof(cnpy_dataset), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, dataset_slots};

/* ---- readers ---- */

static PyObject *digits(PyObject *Py_UNUSED(module), PyObject *args)
{
  int part;
  if (!PyArg_ParseTuple(args, "i:_digits", &part)) return NULL;
  return cnpy_wrap_dataset(cn_digits((cn_part)part));
}

static PyObject *idx(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *images = NULL, *labels = NULL, *made = NULL;
  if (PyArg_ParseTuple(args, "O&O&:_idx", PyUnicode_FSConverter, &images, PyUnicode_FSConverter, &labels)) {
    cn_dataset *set;
    const char *x = PyBytes_AsString(images), *y = PyBytes_AsString(labels);
    Py_BEGIN_ALLOW_THREADS
    set = cn_idx(x, y);
    Py_END_ALLOW_THREADS
    made = cnpy_wrap_dataset(set);
  }
  Py_XDECREF(images);
  Py_XDECREF(labels);
  return made;
}

static PyObject *load_idx(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *path;
  if (!PyArg_ParseTuple(args, "O&:_load_idx", PyUnicode_FSConverter, &path)) return NULL;
  cn_scope *scope = cn_scope_begin();
  PyObject *made = cnpy_wrap(cnpy_take(scope, cn_load_idx(PyBytes_AsString(path))));
  Py_DECREF(path);
  return made;
}

enum { MOST_FILES = 64 };

/* Arguments: a tuple of paths as bytes, and how many classes. The count of files; -1 with an exception. */
static Py_ssize_t cifar_files(PyObject *args, const char *list[MOST_FILES], int *classes)
{
  PyObject *files;
  if (!PyArg_ParseTuple(args, "O!i:_cifar", &PyTuple_Type, &files, classes)) return -1;
  Py_ssize_t n = PyTuple_Size(files);
  if (n > MOST_FILES) return cnpy_fail(PyExc_ValueError, "cifar: of at most %d files", MOST_FILES), -1;
  for (Py_ssize_t i = 0; i < n; i++)
    if (!(list[i] = PyBytes_AsString(PyTuple_GetItem(files, i)))) return -1;
  return n;
}

static PyObject *cifar(PyObject *Py_UNUSED(module), PyObject *args)
{
  const char *list[MOST_FILES];
  int classes;
  cn_dataset *set;
  Py_ssize_t n = cifar_files(args, list, &classes);
  if (n < 0) return NULL;
  Py_BEGIN_ALLOW_THREADS
  set = cn_cifar(list, (size_t)n, classes);
  Py_END_ALLOW_THREADS
  return cnpy_wrap_dataset(set);
}

static PyObject *load_cifar(PyObject *Py_UNUSED(module), PyObject *args)
{
  const char *list[MOST_FILES];
  int classes, status;
  cn_tensor *x, *y;
  Py_ssize_t n = cifar_files(args, list, &classes);
  if (n < 0) return NULL;
  cn_scope *scope = cn_scope_begin();
  Py_BEGIN_ALLOW_THREADS
  status = cn_load_cifar(&x, &y, list, (size_t)n, classes);
  Py_END_ALLOW_THREADS
  PyObject *made = status ? cnpy_raise() : Py_BuildValue("(NN)", cnpy_wrap_borrowed(x), cnpy_wrap_borrowed(y));
  cn_scope_end(scope);
  return made;
}

static PyObject *csv(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *path;
  const char *target;
  int delimiter, header, classes;
  if (!PyArg_ParseTuple(args, "O&Cpzp:_csv", PyUnicode_FSConverter, &path, &delimiter, &header, &target, &classes))
    return NULL;
  cn_csv_opts o = {.size = sizeof o, .delimiter = (char)delimiter, .header = header, .target = target,
                   .target_classes = classes};
  cn_dataset *set;
  const char *file = PyBytes_AsString(path);
  Py_BEGIN_ALLOW_THREADS
  set = cn_csv_with(file, &o);
  Py_END_ALLOW_THREADS
  Py_DECREF(path);
  return cnpy_wrap_dataset(set);
}

static PyObject *of_path(PyObject *args, const char *format, cn_dataset *(*make)(const char *))
{
  PyObject *path;
  cn_dataset *set;
  if (!PyArg_ParseTuple(args, format, PyUnicode_FSConverter, &path)) return NULL;
  const char *text = PyBytes_AsString(path);
  Py_BEGIN_ALLOW_THREADS
  set = make(text);
  Py_END_ALLOW_THREADS
  Py_DECREF(path);
  return cnpy_wrap_dataset(set);
}

static PyObject *image_folder(PyObject *Py_UNUSED(module), PyObject *args)
{
  return of_path(args, "O&:_image_folder", cn_image_folder);
}

static PyObject *tensor_file(PyObject *Py_UNUSED(module), PyObject *args)
{
  return of_path(args, "O&:_dataset_load", cn_dataset_load);
}

static PyObject *token_file(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *path, *type;
  long long length, stride;
  cn_dtype dtype;
  if (!PyArg_ParseTuple(args, "O&OLL:_token_file", PyUnicode_FSConverter, &path, &type, &length, &stride)) return NULL;
  PyObject *made = cnpy_to_dtype(type, &dtype) ? NULL
                   : cnpy_wrap_dataset(cn_token_file(PyBytes_AsString(path), dtype, length, stride));
  Py_DECREF(path);
  return made;
}

static PyObject *token_tensor(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *tokens;
  long long length, stride;
  if (!PyArg_ParseTuple(args, "O!LL:_token_tensor", cnpy.tensor_base, &tokens, &length, &stride)) return NULL;
  return cnpy_wrap_dataset(cn_token_tensor(cnpy_t(tokens), length, stride));
}

/* _download(url, sha256 or None, folder, name or None) -> path */
static PyObject *download(PyObject *Py_UNUSED(module), PyObject *args)
{
  const char *url;
  cn_download_opts o = {.size = sizeof o};
  if (!PyArg_ParseTuple(args, "szsz:_download", &url, &o.sha256, &o.folder, &o.name)) return NULL;
  char *path;
  Py_BEGIN_ALLOW_THREADS
  path = cn_download_with(url, &o);
  Py_END_ALLOW_THREADS
  PyObject *made = path ? PyUnicode_DecodeFSDefault(path) : cnpy_raise();
  cn_string_free(path);
  return made;
}

/* ---- random numbers of threads ---- */

uint64_t cnpy_draw_seed(void)
{
  enum { STREAM = 4 };
  uint64_t seed, offset;
  uint32_t w[4];
  cn_random_state(&seed, &offset);
  cn_random_block(w, seed, STREAM, offset);
  cn_random_set_state(seed, offset + 1);
  return (uint64_t)w[1] << 32 | w[0];
}

/* _rng_swap(seed, offset) -> (seed, offset): this thread goes on from there; returns where it was. */
static PyObject *rng_swap(PyObject *Py_UNUSED(module), PyObject *args)
{
  unsigned long long seed, offset;
  uint64_t old_seed, old_offset;
  if (!PyArg_ParseTuple(args, "KK:_rng_swap", &seed, &offset)) return NULL;
  cn_random_state(&old_seed, &old_offset);
  cn_random_set_state(seed, offset);
  return Py_BuildValue("(KK)", (unsigned long long)old_seed, (unsigned long long)old_offset);
}

/* _parallel_alone(): ops of this thread use no others from now on. */
static PyObject *parallel_alone(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
  cn_parallel_alone(true);
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
  {"_digits", digits, METH_VARARGS, "Hand-written digits: part 0 training, 1 testing, 2 all."},
  {"_idx", idx, METH_VARARGS, "Images and labels of two IDX files."},
  {"_load_idx", load_idx, METH_VARARGS, "An IDX file as a tensor."},
  {"_cifar", cifar, METH_VARARGS, "CIFAR's binary files: a tuple of paths (bytes), 10 or 100."},
  {"_load_cifar", load_cifar, METH_VARARGS, "The same as two tensors."},
  {"_csv", csv, METH_VARARGS, "path, delimiter, header, target, target_classes"},
  {"_image_folder", image_folder, METH_VARARGS, "A folder with a folder of images for each class."},
  {"_dataset_load", tensor_file, METH_VARARGS, "The tensors of a file."},
  {"_dataset_tensors", dataset_tensors, METH_O, "Rows of tensors."},
  {"_dataset_concat", dataset_concat, METH_O, "Several one after the other."},
  {"_token_file", token_file, METH_VARARGS, "path, dtype, length, stride"},
  {"_token_tensor", token_tensor, METH_VARARGS, "tokens, length, stride"},
  {"_download", download, METH_VARARGS, "url, sha256, folder, name -> path"},
  {"_rng_swap", rng_swap, METH_VARARGS, "This thread draws from (seed, offset) on; returns where it was."},
  {"_parallel_alone", parallel_alone, METH_NOARGS, "Ops of this thread use no other threads from now on."},
  {NULL, NULL, 0, NULL}};

int cnpy_add_data(PyObject *module)
{
  cnpy_dataset_type = cnpy_add_type(module, &dataset_spec);
  if (!cnpy_dataset_type || PyModule_AddFunctions(module, functions)) return -1;
  return cnpy_add_loader(module) || cnpy_add_images(module) || cnpy_add_text(module) ? -1 : 0;
}
