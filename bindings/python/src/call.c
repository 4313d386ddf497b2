/* call.c: calls an op from Python: picks the form that fits the arguments, runs it, wraps the results.
 *
 * Place in the flow: the generated functions and methods end here; below is cn_op_call. Invariant: while the lock of
 * the interpreter is released the call holds its own references to every tensor it reads. */
#include <string.h>

#include "bind.h"

enum { RESULTS = 16 }; /* before the heap is asked */

/* ---- the lock ---- */

static size_t each_tensor(const cn_value *v, cn_tensor *const **list, cn_tensor **one)
{
  if (v->tag == CN_V_TENSORS) {
    *list = v->u.ts;
    return (size_t)v->n;
  }
  *one = v->u.t;
  *list = one;
  return v->tag == CN_V_TENSOR;
}

static int64_t elements(const cn_value *args, int n)
{
  int64_t sum = 0;
  bool any = false;
  for (int i = 0; i < n; i++) {
    cn_tensor *one, *const *list;
    size_t count = each_tensor(&args[i], &list, &one);
    any |= count > 0;
    for (size_t k = 0; k < count; k++) sum += cn_numel(list[k]);
  }
  return any ? sum : CNPY_LONG_CALL; /* made from nothing: its size is not known here */
}

static void hold(const cn_value *args, int n, bool on)
{
  for (int i = 0; i < n; i++) {
    cn_tensor *one, *const *list;
    size_t count = each_tensor(&args[i], &list, &one);
    for (size_t k = 0; k < count; k++) {
      cn_tensor *t = list[k];
      if (on) t = cn_keep(t);
      else cn_release(t);
    }
  }
}

/* Views and small results are quicker than handing the lock over. */
static int run(cn_tensor **out, size_t *nout, const cn_op *op, bool view, const cn_value *args, int n,
               cn_tensor *dest)
{
  if (view || elements(args, n) < CNPY_LONG_CALL) return cn_op_call(out, nout, op, args, (size_t)n, dest);
  int status;
  hold(args, n, true);
  dest = cn_keep(dest);
  Py_BEGIN_ALLOW_THREADS status = cn_op_call(out, nout, op, args, (size_t)n, dest);
  cn_release(dest);
  hold(args, n, false);
  Py_END_ALLOW_THREADS return status;
}

/* ---- results ---- */

/* An op that returns its input itself gives that very Python object. */
static PyObject *wrap_result(cn_tensor *t, const cnpy_bound *b, const cnpy_form *f)
{
  for (int i = 0; i < b->n; i++)
    if (f->kind[i] == CNPY_TENSOR && b->value[i].tag == CN_V_TENSOR && b->value[i].u.t == t) {
      cn_release(t);
      return Py_NewRef(b->given[i]);
    }
  return cnpy_wrap(t);
}

static PyObject *wrap_tuple(cn_tensor **out, size_t n)
{
  PyObject *tuple = PyTuple_New((Py_ssize_t)n);
  for (size_t i = 0; i < n; i++) {
    PyObject *item = tuple ? cnpy_wrap(out[i]) : NULL;
    if (!item) {
      if (!tuple) cn_release(out[i]);
      Py_CLEAR(tuple);
    } else PyTuple_SetItem(tuple, (Py_ssize_t)i, item);
  }
  return tuple;
}

static PyTypeObject *result_type(cnpy_form *f, const char *name)
{
  PyStructSequence_Field fields[9] = {{NULL, NULL}};
  char full[80];
  if (f->result) return f->result;
  for (int i = 0; i < f->info.nresults && i < 8; i++) fields[i].name = f->info.results[i];
  PyOS_snprintf(full, sizeof full, "%s.return_types.%s", cnpy_package, name);
  PyStructSequence_Desc desc = {full, "Results of an op, by name and by position.", fields, f->info.nresults};
  PyObject *type = cnpy_own((PyObject *)PyStructSequence_NewType(&desc));
  if (type && cnpy.named_repr && PyObject_SetAttrString(type, "__repr__", cnpy.named_repr)) return NULL;
  return f->result = (PyTypeObject *)(void *)type;
}

static PyObject *wrap_named(cnpy_form *f, const char *name, cn_tensor **out, size_t n)
{
  PyTypeObject *type = result_type(f, name);
  PyObject *tuple = type ? PyStructSequence_New(type) : NULL;
  for (size_t i = 0; i < n; i++) {
    PyObject *item = !tuple ? NULL : out[i] ? cnpy_wrap(out[i]) : Py_NewRef(Py_None);
    if (!item) {
      if (!tuple) cn_release(out[i]);
      Py_CLEAR(tuple);
    } else PyStructSequence_SetItem(tuple, (Py_ssize_t)i, item);
  }
  return tuple;
}

/* ---- out= ---- */

static bool wants_gradient(const cnpy_bound *b)
{
  for (int i = 0; i < b->n; i++) {
    cn_tensor *one, *const *list;
    size_t count = each_tensor(&b->value[i], &list, &one);
    for (size_t k = 0; k < count; k++)
      if (list[k] && cn_needs_grad(list[k])) return true;
  }
  return false;
}

/* The bytes from the first to the last element. */
static void memory_of(const cn_tensor *t, const char **begin, const char **end)
{
  const cn_desc *d = cn_desc_of(t);
  int64_t last = 0;
  for (int i = 0; i < d->ndim; i++) last += (d->shape[i] - 1) * d->strides[i];
  *begin = d->data;
  *end = *begin + (d->numel ? (last + 1) * (int64_t)cn_dtype_size((cn_dtype)d->dtype) : 0);
}

static bool shares_memory(const cn_tensor *a, const cn_tensor *b)
{
  const char *a0, *a1, *b0, *b1;
  if (!a || !b || cn_device_of(a) != cn_device_of(b)) return false;
  memory_of(a, &a0, &a1);
  memory_of(b, &b0, &b1);
  return a0 < b1 && b0 < a1;
}

/* What torch refuses: elements of out that are one, and an out among the inputs of an op that is not pointwise. */
static int check_out(const cnpy_bound *b, const cnpy_form *f, cn_tensor *out, const char *name)
{
  const cn_desc *d = cn_desc_of(out);
  for (int i = 0; i < d->ndim; i++)
    if (d->shape[i] > 1 && d->strides[i] == 0) {
      cnpy_fail(PyExc_RuntimeError, "%s: several elements of out share one memory location; clone it first", name);
      return -1;
    }
  for (int i = 0; f->info.kind == CN_KIND_STRUCTURAL && i < b->n; i++) {
    cn_tensor *one, *const *list;
    size_t count = each_tensor(&b->value[i], &list, &one);
    for (size_t k = 0; k < count; k++)
      if (shares_memory(list[k], out)) {
        cnpy_fail(PyExc_RuntimeError, "%s: out shares memory with an input; clone one of them first", name);
        return -1;
      }
  }
  return 0;
}

/* Puts a result into the tensor that out= names: copied where the shapes agree, else the object holds it from now
 * on, as torch's resizing would have it. Takes over t. */
static int into_out(const cnpy_bound *b, const cnpy_form *f, PyObject *out, cn_tensor *t, const char *name)
{
  cn_tensor *dest = cnpy_t(out), *copied = NULL;
  const cn_desc *d = cn_desc_of(dest), *r = cn_desc_of(t);
  bool same = d->ndim == r->ndim && !memcmp(d->shape, r->shape, (size_t)d->ndim * sizeof *d->shape);
  bool complex = cn_dtype_is_complex((cn_dtype)r->dtype);
  bool castable = cn_dtype_is_complex((cn_dtype)d->dtype) || (cn_dtype_is_float((cn_dtype)d->dtype) && !complex) ||
                  (!cn_dtype_is_float((cn_dtype)r->dtype) && !complex && (d->dtype != CN_BOOL || r->dtype == CN_BOOL));
  if (f->info.kind == CN_KIND_STRUCTURAL) castable = d->dtype == r->dtype; /* torch casts pointwise results alone */
  if (check_out(b, f, dest, name)) goto done;
  if (!castable)
    cnpy_fail(PyExc_RuntimeError, "%s: a result of type %s cannot be cast to that of out, %s", name,
              cn_dtype_name((cn_dtype)r->dtype), cn_dtype_name((cn_dtype)d->dtype));
  else if (!same && d->numel &&
           PyErr_WarnFormat(PyExc_UserWarning, 1,
                            "%s: out has another shape than the result and is resized; pass an "
                            "empty tensor instead",
                            name)) {
  } else if (same) {
    const cn_value args[] = {cn_v_tensor(dest), cn_v_tensor(t)};
    copied = cnpy_op1("copy", args, 2, dest);
  } else {
    const cn_value args[] = {cn_v_tensor(t), cn_v_int(d->dtype)};
    copied = cnpy_op1("cast", args, 2, NULL);
    if (copied) cnpy_replace(out, cn_keep(copied));
  }
done:
  cn_release(t);
  cn_release(copied);
  return PyErr_Occurred() ? -1 : 0;
}

/* Do two of the tensors that out= lists share memory? */
static bool outs_overlap(PyObject *out, Py_ssize_t count)
{
  bool found = false;
  for (Py_ssize_t i = 0; i < count && !found; i++)
    for (Py_ssize_t k = 0; k < i && !found; k++) {
      PyObject *a = PySequence_GetItem(out, i), *b = PySequence_GetItem(out, k);
      found = a && b && cnpy_is_tensor(a) && cnpy_is_tensor(b) && shares_memory(cnpy_t(a), cnpy_t(b));
      Py_XDECREF(a);
      Py_XDECREF(b);
    }
  return found;
}

static PyObject *finish_out(const cnpy_bound *b, const cnpy_form *f, cn_tensor **result, size_t n, const char *name)
{
  PyObject *out = b->out;
  bool several = PyTuple_Check(out) || PyList_Check(out);
  Py_ssize_t count = several ? PySequence_Size(out) : 1;
  int status = 0;
  if ((size_t)count != n) {
    cnpy_fail(PyExc_TypeError, "%s(): out names %zd tensors, there are %zu results", name, count, n);
    status = -1;
  } else if (several && outs_overlap(out, count)) {
    cnpy_fail(PyExc_ValueError, "%s(): the tensors of out must not overlap in memory", name);
    status = -1;
  }
  for (size_t i = 0; i < n; i++) {
    PyObject *one = !status && several ? PySequence_GetItem(out, (Py_ssize_t)i) : Py_NewRef(out);
    if (!status && (!one || !cnpy_is_tensor(one))) {
      cnpy_fail(PyExc_TypeError, "%s(): out must be a Tensor or a tuple of them", name);
      status = -1;
    }
    if (status) cn_release(result[i]);
    else status = into_out(b, f, one, result[i], name);
    Py_XDECREF(one);
  }
  return status ? NULL : Py_NewRef(out);
}

/* ---- what creation takes besides ---- */

static cn_tensor *converted(cn_tensor *t, const char *op, const cn_value *args, size_t n)
{
  cn_tensor *made = cnpy_op1(op, args, n, NULL);
  cn_release(t);
  return made;
}

/* Blocks are of one element where nobody says how large they are. */
static cn_tensor *in_layout(cn_tensor *t, const char *layout)
{
  static const int64_t one[2] = {1, 1};
  bool dense = !strcmp(layout, "strided"), blocks = !strncmp(layout, "sparse_bs", 9);
  cn_layout now = cn_layout_of(t);
  const cn_value to_dense[] = {cn_v_tensor(t)};
  const cn_value block = blocks ? cn_v_ints(one, 2) : cn_v_none();
  const cn_value to_sparse[] = {cn_v_tensor(t), cn_v_none(), cn_v_str(layout), block};
  if (dense ? now == CN_LAYOUT_STRIDED : now != CN_LAYOUT_STRIDED && cnpy_layout_is(now, layout)) return t;
  return dense ? converted(t, "to_dense", to_dense, 1) : converted(t, "to_sparse", to_sparse, 4);
}

static cn_tensor *finish_creation(const cnpy_bound *b, cn_tensor *t)
{
  if (t && b->memory_format) {
    const char *format = cnpy_memory_format(b->memory_format);
    const cn_value args[] = {cn_v_tensor(t)};
    if (!format) {
      cn_release(t);
      return NULL;
    }
    if (!strncmp(format, "channels_last", 13)) t = converted(t, "channels_last", args, 1);
    else if (!strcmp(format, "contiguous_format")) t = converted(t, "contiguous", args, 1);
  }
  t = cnpy_pinned(t, b->pin_memory);
  if (t && b->layout) t = in_layout(t, b->layout);
  if (t && b->requires_grad && PyObject_IsTrue(b->requires_grad) == 1 && !cn_requires_grad(t, true)) {
    cn_release(t);
    cnpy_raise();
    return NULL;
  }
  return t;
}

/* ---- a call ---- */

/* An upper bound of the results of split, unbind and the like. */
static size_t most_results(const cnpy_bound *b)
{
  int64_t most = RESULTS;
  for (int i = 0; i < b->n; i++) {
    const cn_value *v = &b->value[i];
    if (v->tag == CN_V_INTS || v->tag == CN_V_TENSORS) most = v->n > most ? v->n : most;
    for (int d = 0; v->tag == CN_V_TENSOR && d < cn_ndim(v->u.t); d++)
      if (cn_shape(v->u.t)[d] > most) most = cn_shape(v->u.t)[d];
    if (v->tag == CN_V_INT && v->u.i > most && v->u.i < 1 << 20) most = v->u.i; /* chunk(n) of a short tensor */
  }
  return (size_t)most + 1;
}

static PyObject *finish(cnpy_form *f, const cnpy_bound *b, const char *name, unsigned flags, cn_tensor **out,
                        size_t n)
{
  if (b->out) return finish_out(b, f, out, n, name);
  if (f->info.list_result || (n > 1 && f->info.tuple)) return wrap_tuple(out, n);
  if (n > 1) return wrap_named(f, name, out, n);
  if (!(flags & CNPY_CREATES)) return wrap_result(out[0], b, f);
  cn_tensor *t = finish_creation(b, out[0]);
  return t ? cnpy_wrap(t) : NULL;
}

static PyObject *call_form(cnpy_form *f, const cnpy_bound *b, const char *name, unsigned flags, PyObject *self)
{
  cn_tensor *room[RESULTS], **out = room;
  size_t n = RESULTS;
  bool inplace = flags & CNPY_INPLACE;
  if (b->out && cn_grad_enabled() && wants_gradient(b))
    return cnpy_fail(PyExc_RuntimeError,
                     "%s(): out= does not support automatic differentiation, but one of the "
                     "arguments requires grad",
                     name);
  if (f->info.list_result && (n = most_results(b)) > RESULTS && !(out = PyMem_Malloc(n * sizeof *out)))
    return PyErr_NoMemory();
  if (b->generator && cnpy_generator_begin(b->generator)) return NULL;
  int status = run(out, &n, f->op, f->info.kind == CN_KIND_VIEW, b->value, b->n, inplace ? cnpy_t(self) : NULL);
  if (b->generator) cnpy_generator_end(b->generator);
  PyObject *result = NULL;
  if (status) cnpy_raise();
  else if (inplace) {
    cn_release(out[0]);
    result = Py_NewRef(self);
  } else result = finish(f, b, name, flags, out, n);
  if (out != room) PyMem_Free(out);
  return result;
}

static int prepare(cnpy_entry *entry)
{
  size_t n = 0;
  while (entry->ops[n]) n++;
  cnpy_form *forms = PyMem_Calloc(n, sizeof *forms);
  if (!forms) {
    PyErr_NoMemory();
    return -1;
  }
  for (size_t i = 0; i < n; i++)
    if (cnpy_form_init(&forms[i], entry->ops[i])) {
      PyMem_Free(forms);
      return -1;
    }
  entry->forms = forms;
  return 0;
}

/* torch's older forms, in which factors stand by position, each in front of what it multiplies: t.add_(alpha, other),
 * t.addcmul_(value, a, b), addmm(beta, t, alpha, a, b) and addmm(beta, t, a, b). */
typedef struct older_form {
  const char *op, *factor; /* its word now */
  int tensors;             /* behind it */
  bool beta;               /* there is a factor of the tensor itself, too; the other one may be left out then */
} older_form;

static bool is_factor(PyObject *o)
{
  return PyFloat_Check(o) || PyLong_Check(o) || (cnpy_is_tensor(o) && cn_ndim(cnpy_t(o)) == 0);
}

/* How many factors a call in an older form has, and which form; 0: it is no such call. */
static int older_factors(const older_form **form, const char *name, const PyObject *self, PyObject *const *args,
                         Py_ssize_t nargs)
{
  static const older_form forms[] = {{"add", "alpha", 1, false},     {"sub", "alpha", 1, false},
                                     {"addcmul", "value", 2, false}, {"addcdiv", "value", 2, false},
                                     {"addmm", "alpha", 2, true},    {"addbmm", "alpha", 2, true},
                                     {"addmv", "alpha", 2, true},    {"addr", "alpha", 2, true},
                                     {"baddbmm", "alpha", 2, true}};
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    const older_form *f = &forms[i];
    int factors = (int)nargs - f->tensors - !self;
    if (strcmp(name, f->op) || factors < 1 || factors > 1 + f->beta) continue;
    int at = f->beta ? 0 : !self, other = 1 + !self; /* where the first and the second stand */
    if (!is_factor(args[at]) || (factors == 2 && !is_factor(args[other]))) return 0;
    for (Py_ssize_t k = 0; k < nargs; k++)
      if (k != at && !(factors == 2 && k == other) && !cnpy_is_tensor(args[k])) return 0;
    *form = f;
    return factors;
  }
  return 0;
}

/* The tensors by position, the factors by name, behind them what had names before. */
static PyObject *call_older(cnpy_entry *entry, PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                            PyObject *kwnames, const older_form *form, int factors, bool inplace)
{
  enum { MOST = 12 };
  PyObject *now[MOST] = {NULL};
  Py_ssize_t named = kwnames ? PyTuple_Size(kwnames) : 0, tensors = nargs - factors, n = 0;
  Py_ssize_t first = form->beta ? 0 : !self, second = factors == 2 ? 1 + !self : -1;
  if (nargs + named > MOST) return cnpy_fail(PyExc_TypeError, "%s(): too many arguments", entry->name);
  if (PyErr_WarnFormat(PyExc_UserWarning, 1,
                       "%s(): factors in front of the tensors are torch's older form; pass them as %s%s=", entry->name,
                       form->beta ? "beta= and " : "", form->factor))
    return NULL;
  for (Py_ssize_t k = 0; k < nargs; k++)
    if (k != first && k != second) now[n++] = args[k];
  now[n++] = args[first];
  if (second >= 0) now[n++] = args[second];
  PyObject *names = PyTuple_New(factors + named);
  for (Py_ssize_t k = 0; names && k < factors + named; k++) {
    const char *word = k == 0 && form->beta ? "beta" : form->factor;
    PyObject *name = k < factors ? PyUnicode_InternFromString(word) : Py_NewRef(PyTuple_GetItem(kwnames, k - factors));
    if (!name || PyTuple_SetItem(names, k, name)) Py_CLEAR(names);
    if (k >= factors) now[n++] = args[nargs + k - factors];
  }
  PyObject *result = names ? cnpy_call(entry, self, now, tensors, names, inplace) : NULL;
  Py_XDECREF(names);
  return result;
}

PyObject *cnpy_call(cnpy_entry *entry, PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                    bool inplace)
{
  cnpy_bound b;
  unsigned flags = entry->flags | (inplace ? CNPY_INPLACE : 0);
  if (cnpy_overrides_on()) {
    char name[80];
    PyOS_snprintf(name, sizeof name, "%s%s", entry->name, inplace ? "_" : "");
    PyObject *overridden = cnpy_override(name, self, args, nargs, kwnames);
    if (overridden != Py_NotImplemented) return overridden;
    Py_DECREF(overridden);
  }
  if (!entry->forms && prepare(entry)) return NULL;
  b.heap = NULL;
  b.name = b.why = NULL;
  b.at = NULL;
  for (int strict = entry->ops[1] != NULL; strict >= 0; strict--)
    for (size_t i = 0; entry->ops[i]; i++) {
      b.strict = strict;
      int fits = cnpy_bind(&b, &entry->forms[i], flags, self, args, nargs, kwnames);
      PyObject *result = fits == 1 ? call_form(&entry->forms[i], &b, entry->name, flags, self) : NULL;
      cnpy_unbind(&b);
      if (fits) return result;
    }
  const older_form *older = NULL;
  int factors = older_factors(&older, entry->name, self, args, nargs);
  if (factors) return call_older(entry, self, args, nargs, kwnames, older, factors, inplace);
  if (cnpy_override_begins(args, nargs + (kwnames ? PyTuple_Size(kwnames) : 0)))
    return cnpy_call(entry, self, args, nargs, kwnames, inplace);
  return cnpy_misfit(&b, &entry->forms[0], entry->name);
}

cn_tensor *cnpy_op1(const char *name, const cn_value *args, size_t nargs, cn_tensor *dest)
{
  cn_tensor *out[8];
  size_t n = 8;
  const cn_op *op = cn_op_find(name);
  if (!op) {
    cnpy_fail(PyExc_NotImplementedError, "there is no op '%s'", name);
    return NULL;
  }
  if (run(out, &n, op, false, args, (int)nargs, dest)) {
    cnpy_raise();
    return NULL;
  }
  for (size_t i = 1; i < n; i++) cn_release(out[i]);
  return out[0];
}
