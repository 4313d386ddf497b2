/* data_image.c: images and transforms of the library for Python.
 *
 * Place in the flow: cairn.transforms.functional calls the functions, cairn.transforms makes NativeTransforms, which
 * data sets of the library run in their own threads. Invariant: a NativeTransform never changes, and the data sets it
 * was put on keep its transform without keeping the object. */
#include "data.h"

#include <stdatomic.h>
#include <string.h>

/* ---- transforms ---- */

/* One transform for several owners. */
typedef struct shared {
  cn_transform *t;
  atomic_int refs;
} shared;

typedef struct transform_object {
  PyObject_HEAD
  shared *s;
  bool random;
} transform_object;

PyTypeObject *cnpy_transform_type;

static transform_object *of(PyObject *self) { return (transform_object *)(void *)self; }

static void drop(void *payload)
{
  shared *s = payload;
  if (!s || atomic_fetch_sub(&s->refs, 1) != 1) return;
  cn_transform_free(s->t);
  cn_free(s, sizeof *s);
}

static cn_tensor *apply_shared(cn_tensor *image, cn_draws *draws, void *payload)
{
  return cn_transform_apply(((shared *)payload)->t, image, draws);
}

cn_transform *cnpy_transform_of(PyObject *o)
{
  shared *s = of(o)->s;
  atomic_fetch_add(&s->refs, 1);
  cn_transform *t = cn_transform_new(apply_shared, s, drop);
  if (!t) cnpy_raise();
  return t;
}

static PyObject *wrap_transform(cn_transform *t, bool random)
{
  shared *s = t ? cn_alloc(sizeof *s) : NULL;
  PyObject *o = s ? cnpy_alloc_object(cnpy_transform_type) : NULL;
  if (!o) {
    cn_transform_free(t);
    if (s) cn_free(s, sizeof *s);
    return PyErr_Occurred() ? NULL : cnpy_raise();
  }
  s->t = t;
  atomic_init(&s->refs, 1);
  of(o)->s = s;
  of(o)->random = random;
  return o;
}

static void transform_dealloc(PyObject *self)
{
  drop(of(self)->s);
  cnpy_free_object(self);
}

static PyObject *transform_apply(PyObject *self, PyObject *image)
{
  if (!cnpy_is_tensor(image)) return cnpy_fail(PyExc_TypeError, "a transform takes an image as a tensor");
  cn_draws draws = {of(self)->random ? cnpy_draw_seed() : 0, 0, 0};
  shared *s = of(self)->s;
  cn_tensor *t = cnpy_t(image);
  cn_scope *scope = cn_scope_begin();
  Py_BEGIN_ALLOW_THREADS
  t = cn_transform_apply(s->t, t, &draws);
  Py_END_ALLOW_THREADS
  return cnpy_wrap(cnpy_take(scope, t));
}

enum { MOST_NUMBERS = 128 };

typedef cn_transform *maker(const double *v, size_t n);
static cn_transform *make_float(const double *v, size_t n) { return (void)v, (void)n, cn_transform_float(); }
static cn_transform *make_resize(const double *v, size_t n)
{
  return (void)n, cn_transform_resize((int64_t)v[0], (int64_t)v[1]);
}
static cn_transform *make_center_crop(const double *v, size_t n)
{
  return (void)n, cn_transform_center_crop((int64_t)v[0], (int64_t)v[1]);
}
static cn_transform *make_random_crop(const double *v, size_t n)
{
  return (void)n, cn_transform_random_crop((int64_t)v[0], (int64_t)v[1], (int64_t)v[2]);
}
static cn_transform *make_resized_crop(const double *v, size_t n)
{
  return (void)n, cn_transform_random_resized_crop((int64_t)v[0], (int64_t)v[1], v[2], v[3]);
}
static cn_transform *make_flip(const double *v, size_t n) { return (void)n, cn_transform_random_flip(v[0], v[1]); }
static cn_transform *make_rotation(const double *v, size_t n) { return (void)n, cn_transform_random_rotation(v[0]); }
static cn_transform *make_affine(const double *v, size_t n)
{
  return (void)n, cn_transform_random_affine(v[0], v[1], v[2], v[3], v[4]);
}
static cn_transform *make_jitter(const double *v, size_t n)
{
  return (void)n, cn_transform_color_jitter(v[0], v[1], v[2], v[3]);
}
static cn_transform *make_normalize(const double *v, size_t n) { return cn_transform_normalize(v, v + n / 2, n / 2); }
static cn_transform *make_erasing(const double *v, size_t n) { return (void)n, cn_transform_random_erasing(v[0]); }
static cn_transform *make_grayscale(const double *v, size_t n) { return (void)n, cn_transform_grayscale((int)v[0]); }

static const struct kind {
  const char *name;
  maker *make;
  size_t numbers; /* that it needs; 0: any number */
  bool random;
} kinds[] = {{"float", make_float, 0, false},          {"resize", make_resize, 2, false},
             {"center_crop", make_center_crop, 2, false}, {"random_crop", make_random_crop, 3, true},
             {"random_resized_crop", make_resized_crop, 4, true}, {"random_flip", make_flip, 2, true},
             {"random_rotation", make_rotation, 1, true}, {"random_affine", make_affine, 5, true},
             {"color_jitter", make_jitter, 4, true},   {"normalize", make_normalize, 0, false},
             {"random_erasing", make_erasing, 1, true}, {"grayscale", make_grayscale, 1, false}};

/* _transform(kind, numbers) */
static PyObject *make_transform(PyObject *Py_UNUSED(module), PyObject *args)
{
  const char *name;
  PyObject *numbers;
  double v[MOST_NUMBERS];
  if (!PyArg_ParseTuple(args, "sO!:_transform", &name, &PyTuple_Type, &numbers)) return NULL;
  Py_ssize_t n = PyTuple_Size(numbers);
  if (n > MOST_NUMBERS) return cnpy_fail(PyExc_ValueError, "%s: too many numbers", name);
  for (Py_ssize_t i = 0; i < n; i++) {
    v[i] = PyFloat_AsDouble(PyTuple_GetItem(numbers, i));
    if (v[i] == -1.0 && PyErr_Occurred()) return NULL;
  }
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    if (!strcmp(kinds[k].name, name) && (!kinds[k].numbers || (Py_ssize_t)kinds[k].numbers == n))
      return wrap_transform(kinds[k].make(v, (size_t)n), kinds[k].random);
  return cnpy_fail(PyExc_ValueError, "there is no transform %s of %d numbers", name, (int)n);
}

/* _transform_all(tuple) */
static PyObject *make_all(PyObject *Py_UNUSED(module), PyObject *transforms)
{
  enum { MOST = 64 };
  cn_transform *list[MOST];
  bool random = false;
  Py_ssize_t n = PyTuple_Check(transforms) ? PyTuple_Size(transforms) : MOST + 1;
  if (n > MOST) return cnpy_fail(PyExc_ValueError, "expected a tuple of at most %d transforms", MOST);
  for (Py_ssize_t i = 0; i < n; i++)
    if (!PyObject_TypeCheck(PyTuple_GetItem(transforms, i), cnpy_transform_type))
      return cnpy_fail(PyExc_TypeError, "expected NativeTransforms");
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *o = PyTuple_GetItem(transforms, i);
    random = random || of(o)->random;
    list[i] = cnpy_transform_of(o);
    if (list[i]) continue;
    while (i > 0) cn_transform_free(list[--i]);
    return NULL;
  }
  return wrap_transform(cn_transform_all(list, (size_t)n), random);
}

static PyObject *is_random(PyObject *self, void *Py_UNUSED(closure)) { return PyBool_FromLong(of(self)->random); }

static PyMethodDef transform_methods[] = {
  {"apply", transform_apply, METH_O, "apply(image)\n--\n\nThe changed image; draws from this thread's numbers."},
  {NULL, NULL, 0, NULL}};
static PyGetSetDef transform_getset[] = {{"random", is_random, NULL, "Whether it draws.", NULL},
                                         {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot transform_slots[] = {{Py_tp_dealloc, (void *)transform_dealloc},
                                        {Py_tp_methods, transform_methods},
                                        {Py_tp_getset, transform_getset},
                                        {Py_tp_doc, (void *)"A transform of the library."},
                                        {0, NULL}};
static PyType_Spec transform_spec = {"cairn._C.NativeTransform", sizeof(transform_object), 0,
                                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, transform_slots};

/* ---- functions on images ---- */

#define WITHOUT_GIL(statement)  \
  do {                          \
    Py_BEGIN_ALLOW_THREADS      \
    statement;                  \
    Py_END_ALLOW_THREADS        \
  } while (0)

/* A function's arguments are the image and numbers; begins a scope when they fit. */
static cn_tensor *image_of(PyObject *args, const char *name, double *v, Py_ssize_t n, cn_scope **scope)
{
  Py_ssize_t given = PyTuple_Size(args) - 1;
  PyObject *image = given >= 0 ? PyTuple_GetItem(args, 0) : NULL;
  if (!image || !cnpy_is_tensor(image) || given != n) {
    cnpy_fail(PyExc_TypeError, "%s: expected an image as a tensor and %d numbers", name, (int)n);
    return NULL;
  }
  for (Py_ssize_t i = 0; i < n; i++) {
    v[i] = PyFloat_AsDouble(PyTuple_GetItem(args, i + 1));
    if (v[i] == -1.0 && PyErr_Occurred()) return NULL;
  }
  *scope = cn_scope_begin();
  return cnpy_t(image);
}

#define IMAGE_FUNCTION(NAME, NUMBERS, CALL)                                       \
  static PyObject *NAME(PyObject *Py_UNUSED(module), PyObject *args)              \
  {                                                                               \
    double v[8];                                                                  \
    cn_scope *scope;                                                              \
    cn_tensor *image = image_of(args, #NAME, v, NUMBERS, &scope), *made = NULL;   \
    if (!image) return NULL;                                                      \
    WITHOUT_GIL(made = CALL);                                                     \
    return cnpy_wrap(cnpy_take(scope, made));                                     \
  }

IMAGE_FUNCTION(image_resize, 2, cn_image_resize(image, (int64_t)v[0], (int64_t)v[1]))
IMAGE_FUNCTION(image_crop, 4, cn_image_crop(image, (int64_t)v[0], (int64_t)v[1], (int64_t)v[2], (int64_t)v[3]))
IMAGE_FUNCTION(image_resized_crop, 6,
               cn_image_resized_crop(image, ((int64_t[4]){(int64_t)v[0], (int64_t)v[1], (int64_t)v[2], (int64_t)v[3]}),
                                     (int64_t)v[4], (int64_t)v[5]))
IMAGE_FUNCTION(image_flip, 2, cn_image_flip(image, v[0] != 0, v[1] != 0))
IMAGE_FUNCTION(image_affine, 6, cn_image_affine(image, v[0], v[1], v[2], v[3], v[4], v[5]))
IMAGE_FUNCTION(image_brightness, 1, cn_image_brightness(image, v[0]))
IMAGE_FUNCTION(image_contrast, 1, cn_image_contrast(image, v[0]))
IMAGE_FUNCTION(image_saturation, 1, cn_image_saturation(image, v[0]))
IMAGE_FUNCTION(image_hue, 1, cn_image_hue(image, v[0]))
IMAGE_FUNCTION(image_grayscale, 1, cn_image_grayscale(image, (int)v[0]))
IMAGE_FUNCTION(image_float, 0, cn_image_float(image))

/* _image_normalize(image, means, deviations) */
static PyObject *image_normalize(PyObject *Py_UNUSED(module), PyObject *args)
{
  double v[2][MOST_NUMBERS];
  PyObject *image, *list[2];
  if (!PyArg_ParseTuple(args, "O!O!O!:_image_normalize", cnpy.tensor_base, &image, &PyTuple_Type, &list[0],
                        &PyTuple_Type, &list[1]))
    return NULL;
  Py_ssize_t n = PyTuple_Size(list[0]);
  if (n > MOST_NUMBERS || PyTuple_Size(list[1]) != n)
    return cnpy_fail(PyExc_ValueError, "normalize: as many means as deviations are needed");
  for (int k = 0; k < 2; k++)
    for (Py_ssize_t i = 0; i < n; i++) {
      v[k][i] = PyFloat_AsDouble(PyTuple_GetItem(list[k], i));
      if (v[k][i] == -1.0 && PyErr_Occurred()) return NULL;
    }
  cn_scope *scope = cn_scope_begin();
  cn_tensor *t = cnpy_t(image);
  WITHOUT_GIL(t = cn_image_normalize(t, v[0], v[1], (size_t)n));
  return cnpy_wrap(cnpy_take(scope, t));
}

/* _mixup(x, y, classes, alpha) -> (x, y) */
static PyObject *mixup(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *x, *y, *made = NULL;
  long long classes;
  double alpha;
  if (!PyArg_ParseTuple(args, "O!O!Ld:_mixup", cnpy.tensor_base, &x, cnpy.tensor_base, &y, &classes, &alpha))
    return NULL;
  cn_draws draws = {cnpy_draw_seed(), 0, 0};
  cn_tensor *tx = cnpy_t(x), *ty = cnpy_t(y);
  cn_scope *scope = cn_scope_begin();
  if (cn_mixup(&tx, &ty, classes, alpha, &draws)) cnpy_raise();
  else made = Py_BuildValue("(NN)", cnpy_wrap_borrowed(tx), cnpy_wrap_borrowed(ty));
  cn_scope_end(scope);
  return made;
}

/* ---- files ---- */

static PyObject *image_load(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *path;
  int channels;
  cn_tensor *t;
  if (!PyArg_ParseTuple(args, "O&i:_image_load", PyUnicode_FSConverter, &path, &channels)) return NULL;
  const char *file = PyBytes_AsString(path);
  cn_scope *scope = cn_scope_begin();
  WITHOUT_GIL(t = cn_image_load(file, channels));
  Py_DECREF(path);
  return cnpy_wrap(cnpy_take(scope, t));
}

static PyObject *image_decode(PyObject *Py_UNUSED(module), PyObject *args)
{
  Py_buffer b;
  int channels;
  cn_tensor *t;
  if (!PyArg_ParseTuple(args, "y*i:_image_decode", &b, &channels)) return NULL;
  cn_scope *scope = cn_scope_begin();
  WITHOUT_GIL(t = cn_image_decode(b.buf, (size_t)b.len, channels));
  PyBuffer_Release(&b);
  return cnpy_wrap(cnpy_take(scope, t));
}

static PyObject *image_save(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *path, *image;
  int status;
  if (!PyArg_ParseTuple(args, "O&O!:_image_save", PyUnicode_FSConverter, &path, cnpy.tensor_base, &image)) return NULL;
  const char *file = PyBytes_AsString(path);
  WITHOUT_GIL(status = cn_image_save(file, cnpy_t(image)));
  Py_DECREF(path);
  if (status) return cnpy_raise();
  Py_RETURN_NONE;
}

/* _image_encode(image, quality): JPEG, or PNG where quality is 0 */
static PyObject *image_encode(PyObject *Py_UNUSED(module), PyObject *args)
{
  PyObject *image;
  int quality, status;
  void *bytes = NULL;
  size_t size = 0;
  if (!PyArg_ParseTuple(args, "O!i:_image_encode", cnpy.tensor_base, &image, &quality)) return NULL;
  cn_tensor *t = cnpy_t(image);
  WITHOUT_GIL(status = quality ? cn_image_encode_jpeg(&bytes, &size, t, quality)
                               : cn_image_encode_png(&bytes, &size, t));
  PyObject *made = status ? cnpy_raise() : PyBytes_FromStringAndSize(bytes, (Py_ssize_t)size);
  cn_free(bytes, size);
  return made;
}

static PyMethodDef functions[] = {
  {"_transform", make_transform, METH_VARARGS, "A transform by its name, and its numbers."},
  {"_transform_all", make_all, METH_O, "Several, one after the other."},
  {"_image_resize", image_resize, METH_VARARGS, "image, height, width"},
  {"_image_crop", image_crop, METH_VARARGS, "image, top, left, height, width"},
  {"_image_resized_crop", image_resized_crop, METH_VARARGS, "image, top, left, height, width, to height, to width"},
  {"_image_flip", image_flip, METH_VARARGS, "image, horizontal, vertical"},
  {"_image_affine", image_affine, METH_VARARGS, "image, degrees, x, y, scale, shear x, shear y"},
  {"_image_brightness", image_brightness, METH_VARARGS, "image, factor"},
  {"_image_contrast", image_contrast, METH_VARARGS, "image, factor"},
  {"_image_saturation", image_saturation, METH_VARARGS, "image, factor"},
  {"_image_hue", image_hue, METH_VARARGS, "image, turn"},
  {"_image_grayscale", image_grayscale, METH_VARARGS, "image, channels"},
  {"_image_float", image_float, METH_VARARGS, "image"},
  {"_image_normalize", image_normalize, METH_VARARGS, "image, means, deviations"},
  {"_mixup", mixup, METH_VARARGS, "x, y, classes, alpha"},
  {"_image_load", image_load, METH_VARARGS, "path, channels"},
  {"_image_decode", image_decode, METH_VARARGS, "bytes, channels"},
  {"_image_save", image_save, METH_VARARGS, "path, image"},
  {"_image_encode", image_encode, METH_VARARGS, "image, quality: JPEG; 0: PNG"},
  {NULL, NULL, 0, NULL}};

int cnpy_add_images(PyObject *module)
{
  cnpy_transform_type = cnpy_add_type(module, &transform_spec);
  return !cnpy_transform_type || PyModule_AddFunctions(module, functions) ? -1 : 0;
}
