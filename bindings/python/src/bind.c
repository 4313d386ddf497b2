/* bind.c: binds Python arguments to an op's signature, by torch's rules.
 *
 * Place in the flow: call.c tries the forms of a name in turn; a form that fits gives the values for cn_op_call.
 * Invariant: a form that does not fit leaves no exception behind, so that the next one can be tried. */
#include "bind.h"

#include <math.h>
#include <string.h>

/* ---- numbers ---- */

/* numpy's scalars and others that have __index__ or __float__ and are no containers. */
static int foreign_number(PyObject *o, cn_value *v)
{
  if (PySequence_Check(o) || cnpy_is_tensor(o) || PyUnicode_Check(o)) return 0;
  if (PyIndex_Check(o)) {
    PyObject *i = PyNumber_Index(o);
    if (!i) {
      PyErr_Clear();
      return 0;
    }
    int64_t value = PyLong_AsLongLong(i);
    Py_DECREF(i);
    *v = cn_v_int(value);
    return value == -1 && PyErr_Occurred() ? -1 : 1;
  }
  const char *name = NULL;
  PyObject *text = PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__name__");
  if (text) name = PyUnicode_AsUTF8AndSize(text, NULL);
  bool truth = name && (!strcmp(name, "bool") || !strcmp(name, "bool_"));
  bool real = name && PyObject_HasAttrString(o, "__float__") && strncmp(name, "complex", 7);
  Py_XDECREF(text);
  PyErr_Clear();
  if (truth) {
    *v = cn_v_bool(PyObject_IsTrue(o) == 1);
    return 1;
  }
  if (!real || PyObject_HasAttrString(o, "__len__")) return 0;
  *v = cn_v_float(PyFloat_AsDouble(o));
  return PyErr_Occurred() ? -1 : 1;
}

int cnpy_to_number(PyObject *o, cn_value *v)
{
  if (PyFloat_Check(o)) *v = cn_v_float(PyFloat_AsDouble(o));
  else if (PyBool_Check(o)) *v = cn_v_bool(o == Py_True);
  else if (PyLong_Check(o)) {
    int64_t i = PyLong_AsLongLong(o);
    if (i == -1 && PyErr_Occurred()) return -1;
    *v = cn_v_int(i);
  } else return foreign_number(o, v);
  return 1;
}

cn_tensor *cnpy_complex_number(PyObject *o)
{
  cn_scope *scope = cn_scope_begin();
  return cnpy_take(scope, cn_complex_num(PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o)));
}

/* A tensor of one element as a number; its value is read. */
static int number_of_tensor(PyObject *o, cn_value *v)
{
  cn_tensor *t = cnpy_t(o);
  if (cn_numel(t) != 1) return 0;
  cn_dtype d = cn_dtype_of(t);
  if (cn_dtype_is_complex(d)) return 0;
  if (d == CN_BOOL) *v = cn_v_bool(cn_item_int(t) != 0);
  else if (cn_dtype_is_float(d)) *v = cn_v_float(cn_item(t));
  else *v = cn_v_int(cn_item_int(t));
  if (!cn_err()) return 1;
  cnpy_raise();
  return -1;
}

/* An integer, not a bool: 1, 0 or -1. */
static int integer(PyObject *o, int64_t *value)
{
  cn_value v;
  int fits;
  if (PyBool_Check(o)) return 0;
  if (cnpy_is_tensor(o)) fits = cn_ndim(cnpy_t(o)) == 0 ? number_of_tensor(o, &v) : 0;
  else fits = cnpy_to_number(o, &v);
  if (fits != 1) return fits;
  *value = v.u.i;
  return v.tag == CN_V_INT;
}

int cnpy_to_int(PyObject *o, int64_t *value)
{
  int fits = integer(o, value);
  if (fits == 0) PyErr_Format(PyExc_TypeError, "an integer is needed, not %R", (PyObject *)Py_TYPE(o));
  return fits == 1 ? 0 : -1;
}

static bool is_list(PyObject *o) { return PyTuple_Check(o) || PyList_Check(o); }

/* The k-th item of a tuple or list, borrowed. */
static PyObject *item_at(PyObject *list, Py_ssize_t k)
{
  return PyTuple_Check(list) ? PyTuple_GetItem(list, k) : PyList_GetItem(list, k);
}

int cnpy_to_ints(PyObject *o, int64_t *room, int capacity)
{
  if (!is_list(o)) return cnpy_to_int(o, room) ? -1 : 1;
  Py_ssize_t n = PySequence_Size(o);
  if (n > capacity) {
    cnpy_fail(cnpy.value_error, "at most %d numbers are possible, not %zd", capacity, n);
    return -1;
  }
  for (Py_ssize_t k = 0; k < n; k++)
    if (cnpy_to_int(item_at(o, k), &room[k])) return -1;
  return (int)n;
}

/* ---- room for lists ---- */

static void *room_for(cnpy_bound *b, size_t words)
{
  if (b->used + words <= CNPY_WORDS) {
    void *at = &b->words[b->used];
    b->used += words;
    return at;
  }
  void **block = PyMem_Malloc((words + 1) * sizeof(uint64_t));
  if (!block) {
    PyErr_NoMemory();
    return NULL;
  }
  *block = b->heap;
  b->heap = block;
  return block + 1;
}

void cnpy_unbind(cnpy_bound *b)
{
  while (b->nmade) cn_release(b->made[--b->nmade]);
  while (b->heap) {
    void *next = *(void **)b->heap;
    PyMem_Free(b->heap);
    b->heap = next;
  }
}

/* ---- one argument of each kind: 1 fits, 0 does not, -1 exception ---- */

/* A tensor, or a number where the signature says Tensor|Scalar. */
static int bind_tensor(cnpy_bound *b, const cnpy_form *f, int i, PyObject *o, cn_value *v)
{
  if (cnpy_is_tensor(o)) {
    *v = cn_v_tensor(cnpy_t(o));
    return 1;
  }
  if (!f->info.params[i].number || b->strict) return 0;
  if (PyComplex_Check(o)) {
    *v = cn_v_tensor(cnpy_complex_number(o));
    if (v->u.t) b->made[b->nmade++] = v->u.t;
  } else if (!cnpy_is_weak(o)) return cnpy_to_number(o, v);
  else *v = cn_v_tensor(cnpy_weak_input(o));
  return v->u.t ? 1 : -1;
}

static int bind_tensors(cnpy_bound *b, PyObject *o, bool optional, cn_value *v)
{
  if (!is_list(o)) return 0;
  Py_ssize_t n = PySequence_Size(o);
  cn_tensor **list = room_for(b, (size_t)n + 1);
  if (!list) return -1;
  for (Py_ssize_t k = 0; k < n; k++) {
    PyObject *item = item_at(o, k);
    if (item == Py_None && optional) list[k] = NULL;
    else if (cnpy_is_tensor(item)) list[k] = cnpy_t(item);
    else return 0;
  }
  *v = cn_v_tensors(list, (size_t)n);
  return 1;
}

/* none: None may stand among the numbers (sizes of adaptive pooling). */
static int bind_ints(cnpy_bound *b, PyObject *o, bool none, cn_value *v)
{
  Py_ssize_t n = is_list(o) ? PySequence_Size(o) : 1;
  int64_t *list = room_for(b, (size_t)n + 1);
  if (!list) return -1;
  for (Py_ssize_t k = 0; k < n; k++) {
    PyObject *item = is_list(o) ? item_at(o, k) : o;
    list[k] = CN_NONE;
    int fits = none && item == Py_None ? 1 : integer(item, &list[k]);
    if (fits != 1) return fits;
  }
  *v = cn_v_ints(list, (size_t)n);
  return 1;
}

static int bind_complex(cnpy_bound *b, PyObject *o, cn_value *v)
{
  double *z = room_for(b, 2);
  if (!z) return -1;
  z[0] = PyComplex_RealAsDouble(o);
  z[1] = PyComplex_ImagAsDouble(o);
  *v = cn_v_floats(z, 2);
  return 1;
}

static int bind_scalar(PyObject *o, cn_value *v)
{
  return cnpy_is_tensor(o) ? number_of_tensor(o, v) : cnpy_to_number(o, v);
}

static int bind_floats(cnpy_bound *b, PyObject *o, cn_value *v)
{
  Py_ssize_t n = is_list(o) ? PySequence_Size(o) : 1;
  double *list = room_for(b, (size_t)n + 1);
  if (!list) return -1;
  for (Py_ssize_t k = 0; k < n; k++) {
    cn_value one;
    int fits = bind_scalar(is_list(o) ? item_at(o, k) : o, &one);
    if (fits != 1) return fits;
    list[k] = one.tag == CN_V_FLOAT ? one.u.f : (double)one.u.i;
  }
  *v = cn_v_floats(list, (size_t)n);
  return 1;
}

static int bind_bool(PyObject *o, cn_value *v)
{
  cn_value one;
  int fits = PyBool_Check(o) ? 1 : PyLong_Check(o) ? 0 : cnpy_to_number(o, &one);
  if (fits != 1) return fits;
  *v = cn_v_bool(PyBool_Check(o) ? o == Py_True : one.u.i != 0);
  return PyBool_Check(o) || one.tag == CN_V_BOOL;
}

static int bind_str(PyObject *o, cn_value *v)
{
  if (!PyUnicode_Check(o)) return 0;
  const char *text = PyUnicode_AsUTF8AndSize(o, NULL);
  if (!text) return -1;
  *v = cn_v_str(text);
  return 1;
}

static int bind_dtype(PyObject *o, cn_value *v)
{
  cn_dtype id;
  if (!cnpy_is_dtype(o) && o != (PyObject *)&PyFloat_Type && o != (PyObject *)&PyLong_Type &&
      o != (PyObject *)&PyBool_Type)
    return 0;
  if (cnpy_to_dtype(o, &id)) return -1;
  *v = cn_v_int(id);
  return 1;
}

static int bind_device(PyObject *o, cn_value *v)
{
  cn_device id;
  if (!cnpy_is_device(o) && !PyUnicode_Check(o) && !PyLong_Check(o)) return 0;
  if (cnpy_to_device(o, &id)) return -1;
  *v = cn_v_int(id);
  return 1;
}

/* Constructors in Python check less than ops do: StepLR(optimizer, 1.0) is written. */
static int whole(double number, int64_t *value)
{
  *value = (int64_t)number;
  return (double)*value == number;
}

static int bind_module(PyObject *o, cn_value *v)
{
  if (!cnpy_is_module(o)) return 0;
  *v = cn_v_module(cnpy_m(o));
  return 1;
}

static int bind_one(cnpy_bound *b, const cnpy_form *f, int i)
{
  PyObject *o = b->given[i];
  cn_value *v = &b->value[i];
  if (o == Py_None) {
    *v = cn_v_none();
    return f->info.params[i].optional || f->info.params[i].default_text;
  }
  switch (f->kind[i]) {
  case CNPY_TENSOR: return bind_tensor(b, f, i, o, v);
  case CNPY_TENSORS: return bind_tensors(b, o, f->elements_optional[i], v);
  case CNPY_INT: {
    int64_t value = 0;
    int fits = b->strict && cnpy_is_tensor(o) ? 0 : integer(o, &value);
    if (!fits && !f->op && PyFloat_Check(o)) fits = whole(PyFloat_AsDouble(o), &value);
    *v = cn_v_int(value);
    return fits;
  }
  case CNPY_INTS: return bind_ints(b, o, !f->op, v);
  case CNPY_FLOAT:
  case CNPY_SCALAR:
    if (PyComplex_Check(o) && f->op && f->kind[i] == CNPY_SCALAR) return bind_complex(b, o, v);
    return b->strict && cnpy_is_tensor(o) ? 0 : bind_scalar(o, v);
  case CNPY_FLOATS: return bind_floats(b, o, v);
  case CNPY_BOOL: return bind_bool(o, v);
  case CNPY_STR: return bind_str(o, v);
  case CNPY_DTYPE: return bind_dtype(o, v);
  case CNPY_DEVICE: return bind_device(o, v);
  case CNPY_INTS_OR_STR: return PyUnicode_Check(o) ? bind_str(o, v) : bind_ints(b, o, !f->op, v);
  case CNPY_MODULE: return bind_module(o, v);
  }
  return 0;
}

/* ---- all arguments ---- */

static int misfit(cnpy_bound *b, const char *why, const char *name, PyObject *at)
{
  b->why = why;
  b->name = name;
  b->at = at;
  return 0;
}

/* torch takes numpy's words as well. */
static const char *const numpy_words[][2] = {{"axis", "dim"}, {"keepdims", "keepdim"}, {"x", "input"}, {"a", "input"},
                                             {"x1", "input"}, {"x2", "other"},         {"self", "input"}};

static const char *other_word(const char *word)
{
  for (size_t i = 0; i < sizeof numpy_words / sizeof *numpy_words; i++)
    if (!strcmp(word, numpy_words[i][0])) return numpy_words[i][1];
  return NULL;
}

PyObject *cnpy_numpy_words(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
  PyObject *dict = PyDict_New();
  for (size_t i = 0; dict && i < sizeof numpy_words / sizeof *numpy_words; i++) {
    PyObject *word = PyUnicode_FromString(numpy_words[i][1]);
    if (!word || PyDict_SetItemString(dict, numpy_words[i][0], word)) Py_CLEAR(dict);
    Py_XDECREF(word);
  }
  return dict;
}

static int parameter_named(const cnpy_form *f, PyObject *key)
{
  for (int i = 0; i < f->info.nparams; i++)
    if (f->names[i] == key) return i;
  const char *word = PyUnicode_AsUTF8AndSize(key, NULL), *other = word ? other_word(word) : NULL;
  for (int i = 0; word && i < f->info.nparams; i++)
    if (!strcmp(f->info.params[i].name, word) || (other && !strcmp(f->info.params[i].name, other))) return i;
  return -1;
}

/* Keywords that no signature names. */
static int bind_extra(cnpy_bound *b, const cnpy_form *f, unsigned flags, PyObject *key, PyObject *value)
{
  const char *word = PyUnicode_AsUTF8AndSize(key, NULL);
  if (!word) return -1;
  if (value == Py_None && (!strcmp(word, "out") || !strcmp(word, "generator"))) return 1;
  if (!strcmp(word, "out") && !(flags & CNPY_INPLACE)) b->out = value;
  else if (!strcmp(word, "generator") && f->info.random) b->generator = value;
  else if (!(flags & CNPY_CREATES)) return misfit(b, "unexpected keyword argument", word, NULL);
  else if (!strcmp(word, "requires_grad")) b->requires_grad = value;
  else if (!strcmp(word, "memory_format")) b->memory_format = value == Py_None ? NULL : value;
  else if (!strcmp(word, "pin_memory")) b->pin_memory = value;
  else if (!strcmp(word, "layout") && value != Py_None && cnpy_layout_name(value)) b->layout = cnpy_layout_name(value);
  else if (value != Py_None) return misfit(b, "unexpected keyword argument", word, NULL);
  else if (strcmp(word, "layout") && strcmp(word, "names")) return misfit(b, "unexpected keyword argument", word, NULL);
  return 1;
}

static int take_keywords(cnpy_bound *b, const cnpy_form *f, unsigned flags, PyObject *const *values,
                         PyObject *kwnames)
{
  Py_ssize_t n = kwnames ? PyTuple_Size(kwnames) : 0;
  for (Py_ssize_t k = 0; k < n; k++) {
    PyObject *key = PyTuple_GetItem(kwnames, k);
    int i = parameter_named(f, key);
    if (i >= 0 && b->given[i]) return misfit(b, "given twice", f->info.params[i].name, NULL);
    if (i >= 0) b->given[i] = values[k];
    else {
      int fits = bind_extra(b, f, flags, key, values[k]);
      if (fits != 1) return fits;
    }
  }
  return 1;
}

/* t.view(2, 3): the numbers are one list. */
static int take_counted(cnpy_bound *b, int i, PyObject *const *args, Py_ssize_t nargs)
{
  int64_t *list = room_for(b, (size_t)nargs + 1);
  if (!list) return -1;
  for (Py_ssize_t k = 0; k < nargs; k++) {
    int fits = integer(args[k], &list[k]);
    if (fits != 1) return fits == 0 ? misfit(b, "int", "size", args[k]) : fits;
  }
  b->value[i] = cn_v_ints(list, (size_t)nargs);
  return 1;
}

int cnpy_bind(cnpy_bound *b, const cnpy_form *f, unsigned flags, PyObject *self, PyObject *const *args,
              Py_ssize_t nargs, PyObject *kwnames)
{
  int first = self ? 1 : 0, counted = -1, fits, tensors = 0, numbers = 0;
  memset(b->given, 0, sizeof b->given);
  b->out = b->requires_grad = b->memory_format = b->pin_memory = b->generator = NULL;
  b->layout = NULL;
  b->used = 0;
  b->n = b->nmade = 0;
  b->given[0] = self;
  if (f->counted && nargs && first < f->npositional && f->kind[first] == CNPY_INTS && !is_list(args[0]) &&
      args[0] != Py_None) {
    if ((fits = take_counted(b, first, args, nargs)) != 1) return fits;
    counted = first;
  } else {
    if (nargs > f->npositional - first) return misfit(b, "too many positional arguments", NULL, NULL);
    for (Py_ssize_t k = 0; k < nargs; k++) b->given[first + k] = args[k];
  }
  if ((fits = take_keywords(b, f, flags, args + nargs, kwnames)) != 1) return fits;
  for (int i = 0; i < f->info.nparams; i++) {
    const cn_op_param *p = &f->info.params[i];
    b->value[i] = i == counted ? b->value[i] : cn_v_none();
    if (i == counted || b->given[i]) b->n = i + 1;
    else if (!p->default_text && !p->optional) return misfit(b, "missing argument", p->name, NULL);
    if (i == counted || !b->given[i]) continue;
    if ((fits = bind_one(b, f, i)) != 1) return fits ? fits : misfit(b, p->type, p->name, b->given[i]);
    tensors += b->value[i].tag == CN_V_TENSOR;
    numbers += p->number && b->value[i].tag != CN_V_TENSOR && b->value[i].tag != CN_V_NONE;
  }
  if (numbers && !tensors && !f->info.numbers) /* one of them must be a tensor */
    return misfit(b, "Tensor", f->info.params[0].name, b->given[0]);
  return 1;
}

/* ---- forms ---- */

static enum cnpy_kind kind_of(const char *type, bool *elements_optional)
{
  static const struct {
    const char *word;
    enum cnpy_kind one, list;
  } kinds[] = {
      {"Tensor", CNPY_TENSOR, CNPY_TENSORS}, {"int", CNPY_INT, CNPY_INTS},         {"float", CNPY_FLOAT, CNPY_FLOATS},
      {"bool", CNPY_BOOL, CNPY_BOOL},        {"str", CNPY_STR, CNPY_STR},          {"dtype", CNPY_DTYPE, CNPY_DTYPE},
      {"device", CNPY_DEVICE, CNPY_DEVICE},  {"Scalar", CNPY_SCALAR, CNPY_SCALAR}, {"Module", CNPY_MODULE, CNPY_MODULE},
  };
  *elements_optional = !strncmp(type, "Tensor?[", 8);
  if (strstr(type, "]|str")) return CNPY_INTS_OR_STR;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (!strncmp(type, kinds[i].word, strlen(kinds[i].word))) return strchr(type, '[') ? kinds[i].list : kinds[i].one;
  return CNPY_SCALAR;
}

/* The rest of a form whose info is there. */
static int complete(cnpy_form *f)
{
  f->npositional = 0;
  f->result = NULL;
  for (int i = 0; i < f->info.nparams; i++) {
    const cn_op_param *p = &f->info.params[i];
    f->kind[i] = kind_of(p->type, &f->elements_optional[i]);
    f->npositional += !p->keyword_only;
    f->names[i] = PyUnicode_InternFromString(p->name);
    if (!f->names[i]) return -1;
  }
  int list = f->info.nparams && f->kind[0] == CNPY_TENSOR ? 1 : 0;
  f->counted =
      f->npositional == list + 1 && f->kind[list] == CNPY_INTS && !strncmp(f->info.params[list].type, "int[]", 5);
  return 0;
}

int cnpy_form_init(cnpy_form *f, const char *op)
{
  f->op = cn_op_find(op);
  if (!f->op || cn_op_describe(&f->info, f->op)) {
    cnpy_fail(PyExc_NotImplementedError, "there is no op '%s' in the library that was loaded", op);
    return -1;
  }
  return complete(f);
}

int cnpy_form_from(cnpy_form *f, const cn_signature *signature, const char *text)
{
  memset(f, 0, sizeof *f);
  f->info.name = cn_signature_name(signature);
  f->info.sig = text;
  f->info.nparams = cn_signature_size(signature);
  for (int i = 0; i < f->info.nparams; i++)
    if (cn_signature_param(&f->info.params[i], signature, i)) {
      cnpy_raise();
      return -1;
    }
  return complete(f);
}

PyObject *cnpy_misfit(const cnpy_bound *b, const cnpy_form *f, const char *name)
{
  char form[400];
  const char *tags = strstr(f->info.sig, " ;"); /* of no interest to a caller */
  int n = tags ? (int)(tags - f->info.sig) : (int)strlen(f->info.sig);
  PyOS_snprintf(form, sizeof form, "it takes %.*s", n, f->info.sig);
  if (!b->at && b->name) return cnpy_fail(PyExc_TypeError, "%s(): %s '%s'; %s", name, b->why, b->name, form);
  if (!b->at) return cnpy_fail(PyExc_TypeError, "%s(): %s; %s", name, b->why, form);
  return PyErr_Format(PyExc_TypeError, "%s(): argument '%s' must be %s, not %R; %s", name, b->name, b->why,
                      (PyObject *)Py_TYPE(b->at), form);
}
