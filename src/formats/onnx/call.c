/* call.c: what builders ask of a node's call: inputs, their numbers, attributes; and what they answer. See call.h. */
#include "call.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "run.h"

int cni_onnx_fail(const cni_onnx_call *c, int code, const char *format, ...)
{
  char said[400];
  va_list ap;
  (void)c; /* the walk completes the message */
  va_start(ap, format);
  vsnprintf(said, sizeof said, format, ap);
  va_end(ap);
  return cn_err_set(code, "%s", said);
}

void *cni_onnx_room(cni_onnx_call *c, size_t count, size_t size) { return cni_arena_take(&c->room, count, size); }

cn_device cni_onnx_device(const cni_onnx_call *c)
{
  return c->frame->model->device ? c->frame->model->device : cn_default_device();
}

int cni_onnx_op_call(cn_tensor **out, size_t *nout, const cn_op *op, const cn_value *args, size_t nargs)
{
  char said[600];
  if (cn_err()) return cn_err();
  int status = cn_op_call(out, nout, op, args, nargs, NULL);
  if (status) {
    snprintf(said, sizeof said, "%s", cn_err_message());
    cn_err_clear();
    return cn_err_set(status, "%s", said);
  }
  for (size_t i = 0; i < *nout; i++) out[i] = out[i] ? cn_scope_give(out[i]) : NULL;
  return cn_err();
}

cn_tensor *cni_onnx_op1(const char *name, const cn_value *args, size_t nargs)
{
  cn_tensor *out[8] = {NULL};
  size_t n = 8;
  return cni_onnx_op_call(out, &n, cn_op_find(name), args, nargs) ? NULL : out[0];
}

/* ---- inputs ---- */

cn_onnx_value *cni_onnx_value_in(const cni_onnx_call *c, size_t i)
{
  if (i < c->nin && c->in[i]) return c->in[i];
  cni_onnx_fail(c, CN_ERR_VALUE, "input %zu is missing", i);
  return NULL;
}

cn_tensor *cni_onnx_in(const cni_onnx_call *c, size_t i)
{
  const cn_onnx_value *v = cni_onnx_value_in(c, i);
  if (v && v->kind != CN_ONNX_TENSOR)
    cni_onnx_fail(c, CN_ERR_TYPE, "input %zu is %s, not a tensor", i,
                  v->kind == CN_ONNX_STRINGS    ? "strings"
                  : v->kind == CN_ONNX_SEQUENCE ? "a sequence"
                  : v->kind == CN_ONNX_MAP      ? "a map"
                                                : "empty");
  return v && v->kind == CN_ONNX_TENSOR ? v->t : NULL;
}

/* Is input k a tensor beside which t may be a number? */
static bool rules(const cni_onnx_call *c, size_t k, const cn_tensor *t)
{
  const cn_onnx_value *v = k < c->nin ? c->in[k] : NULL;
  return v && v->kind == CN_ONNX_TENSOR && !(v->known && cn_numel(v->known) == 1) &&
         cn_dtype_of(v->t) == cn_dtype_of(t) && cn_ndim(v->t) >= cn_ndim(t);
}

cn_tensor *cni_onnx_operand(cni_onnx_call *c, size_t i)
{
  cn_tensor *t = cni_onnx_in(c, i), *known = t ? c->in[i]->known : NULL;
  bool ruled = false;
  if (!known || !cn_tracing() || cn_numel(t) != 1 || !cn_dtype_is_float(cn_dtype_of(t))) return t;
  for (size_t k = 0; k < c->nin; k++) ruled = ruled || (k != i && rules(c, k, t));
  return ruled ? cn_num(cni_onnx_float_in(c, i, 0)) : t;
}

cn_tensor *cni_onnx_maybe(const cni_onnx_call *c, size_t i) { return cni_onnx_has(c, i) ? cni_onnx_in(c, i) : NULL; }

int cni_onnx_strings_in(cn_strings *out, const cni_onnx_call *c, size_t i)
{
  const cn_onnx_value *v = cni_onnx_value_in(c, i);
  if (v && !cn_onnx_value_as_strings(out, v)) cni_onnx_fail(c, CN_ERR_TYPE, "input %zu is no strings", i);
  return cn_err();
}

/* The type that tensors of this one are moved as: ops do not compute with those that are for storage alone. */
static cn_dtype carrier(cn_dtype dtype)
{
  switch (dtype) {
  case CN_F8E4M3:
  case CN_F8E5M2:
  case CN_F8E4M3FNUZ:
  case CN_F8E5M2FNUZ:
  case CN_F8E8M0:
  case CN_U4:
  case CN_U2: return CN_U8;
  case CN_I4:
  case CN_I2: return CN_I8;
  case CN_F4E2M1: return CN_F16;
  case CN_C64: return CN_I64;
  default: return dtype;
  }
}

/* As another type, without a change: the same bits where there are as many, the same numbers otherwise. */
static cn_tensor *carried(cn_tensor *t, cn_dtype dtype)
{
  if (!t || cn_dtype_of(t) == dtype) return t;
  bool bits = cn_dtype_bytes(dtype, 8) == cn_dtype_bytes(cn_dtype_of(t), 8);
  return bits ? cn_view_dtype(t, dtype) : cn_cast(t, dtype);
}

cn_tensor *cni_onnx_in_moved(const cni_onnx_call *c, size_t i)
{
  cn_onnx_value *v = cni_onnx_value_in(c, i);
  if (!v || v->kind != CN_ONNX_STRINGS) {
    cn_tensor *t = cni_onnx_in(c, i);
    return t ? carried(t, carrier(cn_dtype_of(t))) : NULL;
  }
  cn_tensor *at = cn_arange(0, (double)cn_numel(v->lengths), .dtype = CN_I64, .device = cn_device_of(v->lengths));
  return cn_reshape(at, cn_shape(v->lengths), (size_t)cn_ndim(v->lengths));
}

cn_tensor *const *cni_onnx_rest(cni_onnx_call *c, size_t first, size_t *n)
{
  *n = c->nin > first ? c->nin - first : 0;
  cn_tensor **list = cni_onnx_room(c, *n + 1, sizeof *list);
  for (size_t i = 0; list && i < *n; i++)
    if (!(list[i] = cni_onnx_in(c, first + i))) return NULL;
  return list;
}

bool cni_onnx_is_known(const cni_onnx_call *c, size_t i)
{
  return !cni_onnx_has(c, i) || c->in[i]->known || !cn_tracing();
}

/* The input's elements as another type, in the call's room; the known ones where there are. */
static void *read(cni_onnx_call *c, size_t i, size_t *n, cn_dtype dtype)
{
  cn_tensor *t = cni_onnx_in(c, i);
  if (!t) return NULL;
  cn_tensor *known = c->in[i]->known;
  void *paused = known ? cn_trace_pause() : NULL;
  if (known) t = known;
  if (cn_dtype_of(t) != dtype) t = cn_cast(t, dtype);
  *n = (size_t)cn_numel(t);
  void *room = t ? cni_onnx_room(c, *n + 1, sizeof(int64_t)) : NULL;
  int status = room ? cn_to_data(room, *n * sizeof(int64_t), t) : cn_err();
  if (known) cn_trace_resume(paused);
  return status ? NULL : room;
}

cni_onnx_ints cni_onnx_ints_in(cni_onnx_call *c, size_t i)
{
  cni_onnx_ints list = {NULL, 0};
  if (cni_onnx_has(c, i)) list.v = read(c, i, &list.n, CN_I64);
  return list;
}

cni_onnx_floats cni_onnx_floats_in(cni_onnx_call *c, size_t i)
{
  cni_onnx_floats list = {NULL, 0};
  if (cni_onnx_has(c, i)) list.v = read(c, i, &list.n, CN_F64);
  return list;
}

int64_t cni_onnx_int_in(cni_onnx_call *c, size_t i, int64_t otherwise)
{
  cni_onnx_ints list = cni_onnx_ints_in(c, i);
  if (list.v && list.n != 1) cni_onnx_fail(c, CN_ERR_SHAPE, "input %zu has %zu elements, not one", i, list.n);
  return list.v && list.n == 1 ? *list.v : otherwise;
}

double cni_onnx_float_in(cni_onnx_call *c, size_t i, double otherwise)
{
  cni_onnx_floats list = cni_onnx_floats_in(c, i);
  if (list.v && list.n != 1) cni_onnx_fail(c, CN_ERR_SHAPE, "input %zu has %zu elements, not one", i, list.n);
  return list.v && list.n == 1 ? *list.v : otherwise;
}

/* ---- attributes ---- */

static const cni_onnx_attr *among(const cni_onnx_attr *attrs, size_t n, const char *name)
{
  for (size_t i = 0; i < n; i++)
    if (!strcmp(attrs[i].name, name)) return &attrs[i];
  return NULL;
}

const cni_onnx_attr *cni_onnx_attr_of(const cni_onnx_call *c, const char *name)
{
  const cni_onnx_attr *a = among(c->node->attrs, c->node->nattrs, name);
  while (a && a->refers) {
    const cni_onnx_call *caller = c->frame->caller;
    if (!caller) return NULL;
    const char *wanted = a->refers;
    const cni_onnx_function *fn = caller->node->function;
    a = among(caller->node->attrs, caller->node->nattrs, wanted);
    if (!a) return among(fn->defaults, fn->ndefaults, wanted);
    c = caller;
  }
  return a;
}

/* The attribute, if it is given; sets the error where it is of another kind. */
static const cni_onnx_attr *of_kind(const cni_onnx_call *c, const char *name, cni_onnx_attr_kind kind)
{
  const cni_onnx_attr *a = cni_onnx_attr_of(c, name);
  if (a && a->kind == kind) return a;
  if (a) cni_onnx_fail(c, CN_ERR_TYPE, "attribute '%s' is of another kind", name);
  return NULL;
}

int64_t cni_onnx_int(const cni_onnx_call *c, const char *name, int64_t otherwise)
{
  const cni_onnx_attr *a = of_kind(c, name, CNI_ATTR_INT);
  return a ? a->i : otherwise;
}

double cni_onnx_float(const cni_onnx_call *c, const char *name, double otherwise)
{
  const cni_onnx_attr *a = of_kind(c, name, CNI_ATTR_FLOAT);
  return a ? a->f : otherwise;
}

const char *cni_onnx_text(const cni_onnx_call *c, const char *name, const char *otherwise)
{
  const cni_onnx_attr *a = of_kind(c, name, CNI_ATTR_STRING);
  return a ? a->s : otherwise;
}

cni_onnx_ints cni_onnx_ints_of(const cni_onnx_call *c, const char *name)
{
  const cni_onnx_attr *a = of_kind(c, name, CNI_ATTR_INTS);
  return a ? (cni_onnx_ints){a->is, a->n} : (cni_onnx_ints){NULL, 0};
}

cni_onnx_floats cni_onnx_floats_of(const cni_onnx_call *c, const char *name)
{
  const cni_onnx_attr *a = of_kind(c, name, CNI_ATTR_FLOATS);
  return a ? (cni_onnx_floats){a->fs, a->n} : (cni_onnx_floats){NULL, 0};
}

cn_onnx_value *cni_onnx_tensor_of(const cni_onnx_call *c, const char *name)
{
  const cni_onnx_attr *a = cni_onnx_attr_of(c, name);
  if (a && !a->value) cni_onnx_fail(c, CN_ERR_TYPE, "attribute '%s' is no tensor", name);
  return a ? a->value : NULL;
}

const cni_onnx_graph *cni_onnx_graph_of(const cni_onnx_call *c, const char *name)
{
  const cni_onnx_attr *a = of_kind(c, name, CNI_ATTR_GRAPH);
  if (!a && !cn_err()) cni_onnx_fail(c, CN_ERR_VALUE, "attribute '%s' is missing", name);
  return a ? a->g : NULL;
}

cn_dtype cni_onnx_dtype_of(const cni_onnx_call *c, const char *name, cn_dtype otherwise)
{
  const cni_onnx_attr *a = of_kind(c, name, CNI_ATTR_INT);
  if (!a) return otherwise;
  if (!cni_onnx_dtype(a->i))
    cni_onnx_fail(c, CN_ERR_DTYPE, "'%s' is %lld, no type of tensors", name, (long long)a->i);
  return cni_onnx_dtype(a->i);
}

int64_t cni_onnx_axis(const cni_onnx_call *c, int64_t axis, int64_t ndim)
{
  int64_t least = ndim ? ndim : 1;
  if (axis >= -least && axis < least) return axis < 0 ? axis + least : axis;
  return cni_onnx_fail(c, CN_ERR_INDEX, "axis %lld is out of range for %lld dimensions", (long long)axis,
                       (long long)ndim);
}

/* Some attribute is that of the function around, which may differ from call to call. */
static bool refers(const cni_onnx_node *n)
{
  for (size_t i = 0; i < n->nattrs; i++)
    if (n->attrs[i].refers) return true;
  return false;
}

cn_onnx_value *cni_onnx_once(cni_onnx_call *c, cn_onnx_value *(*make)(cni_onnx_call *))
{
  cn_onnx_value *made = atomic_load(c->node->once), *none = NULL;
  if (made || c->made || cn_err()) return made ? made : c->made;
  void *paused = cn_trace_pause();
  made = make(c);
  cn_trace_resume(paused);
  if (!made) return NULL;
  if (refers(c->node)) return c->made = made;
  if (atomic_compare_exchange_strong(c->node->once, &none, made)) return made;
  cn_onnx_value_release(made); /* another thread was faster */
  return none;
}

/* ---- results ---- */

int cni_onnx_out_value(cni_onnx_call *c, size_t i, cn_onnx_value *v)
{
  if (!v || !cni_onnx_wants(c, i)) {
    cn_onnx_value_release(v);
    return v || cn_err() ? cn_err() : cni_onnx_fail(c, CN_ERR_INTERNAL, "result %zu was not made", i);
  }
  cn_onnx_value_release(c->out[i]);
  c->out[i] = v;
  return CN_OK;
}

int cni_onnx_out(cni_onnx_call *c, size_t i, cn_tensor *t)
{
  return t && !cni_onnx_wants(c, i) ? CN_OK : cni_onnx_out_value(c, i, cni_onnx_take(t));
}

int cni_onnx_out_strings(cni_onnx_call *c, size_t i, const cn_strings *s)
{
  return cn_err() ? cn_err() : cni_onnx_out_value(c, i, cn_onnx_value_strings(s));
}

int cni_onnx_out_moved(cni_onnx_call *c, size_t i, cn_tensor *t, size_t from)
{
  cn_strings all, moved;
  if (!cni_onnx_has(c, from)) return cni_onnx_out(c, i, t);
  if (c->in[from]->kind != CN_ONNX_STRINGS) return cni_onnx_out(c, i, carried(t, cn_dtype_of(c->in[from]->t)));
  if (!t || cni_onnx_strings_in(&all, c, from) || cn_strings_take(&moved, &all, t)) return cn_err();
  return cni_onnx_out_strings(c, i, &moved);
}

int cni_onnx_out_ints(cni_onnx_call *c, size_t i, const int64_t *v, size_t n, bool scalar)
{
  cn_tensor *one[CN_MAX_DIMS], *t;
  size_t ndim = scalar ? 0 : 1;
  int64_t size = (int64_t)n;
  if (n > CN_MAX_DIMS) return cni_onnx_fail(c, CN_ERR_INTERNAL, "too many sizes");
  if (!c->frame->track)
    return cni_onnx_out(c, i, cn_to_device(cn_from_data(v, &size, ndim, CN_I64), cni_onnx_device(c)));
  /* As ops with the numbers for arguments, which graphs of many sizes solve. */
  for (size_t k = 0; k < n; k++)
    one[k] = cn_full(CN_SHAPE(1), (double)v[k], .dtype = CN_I64, .device = cni_onnx_device(c));
  if (!n) t = cn_zeros(CN_SHAPE(0), .dtype = CN_I64, .device = cni_onnx_device(c));
  else t = scalar ? cn_reshape(one[0], CN_SCALAR_SHAPE) : cn_cat(one, n);
  void *paused = cn_trace_pause();
  cn_tensor *known = t ? cn_from_data(v, &size, ndim, CN_I64) : NULL;
  cn_trace_resume(paused);
  return known ? cni_onnx_out_value(c, i, cni_onnx_value_know(cni_onnx_take(t), known)) : cn_err();
}
