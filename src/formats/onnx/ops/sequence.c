/* sequence.c: sequences and optionals. A sequence is an array of values that never changes: another one shares its
 * members. See call.h. */
#include <string.h>

#include "formats/onnx/call.h"

static const cn_onnx_value *sequence_in(cni_onnx_call *c, size_t i)
{
  const cn_onnx_value *v = cni_onnx_value_in(c, i);
  if (v && v->kind != CN_ONNX_SEQUENCE) cni_onnx_fail(c, CN_ERR_TYPE, "input %zu is no sequence", i);
  return v && v->kind == CN_ONNX_SEQUENCE ? v : NULL;
}

static int construct(cni_onnx_call *c) { return cni_onnx_out_value(c, 0, cn_onnx_value_sequence(c->in, c->nin)); }

static int empty(cni_onnx_call *c) { return cni_onnx_out_value(c, 0, cn_onnx_value_sequence(NULL, 0)); }

static int length(cni_onnx_call *c)
{
  const cn_onnx_value *s = sequence_in(c, 0);
  return s ? cni_onnx_out_ints(c, 0, &(int64_t){(int64_t)s->n}, 1, true) : cn_err();
}

/* Position i of input 1 among n; those below 0 count from the end. */
static int64_t position(cni_onnx_call *c, size_t i, size_t n, int64_t otherwise)
{
  int64_t at = cni_onnx_int_in(c, i, otherwise), size = (int64_t)n;
  if (cn_err()) return -1;
  if (at < -size || at >= size) return cni_onnx_fail(c, CN_ERR_INDEX, "position %lld of %zu", (long long)at, n);
  return at < 0 ? at + size : at;
}

static int at(cni_onnx_call *c)
{
  const cn_onnx_value *s = sequence_in(c, 0);
  int64_t i = s ? position(c, 1, s->n, 0) : -1;
  return i < 0 ? cn_err() : cni_onnx_out_value(c, 0, cn_onnx_value_keep(s->items[i]));
}

/* The members but number `without` (-1: all), with `more` in front of number `before`. */
static int changed(cni_onnx_call *c, const cn_onnx_value *s, int64_t without, cn_onnx_value *more, int64_t before)
{
  cn_onnx_value **items = cni_onnx_room(c, s->n + 1, sizeof *items);
  size_t n = 0;
  if (!items) return cn_err();
  for (size_t i = 0; i <= s->n; i++) {
    if (more && (int64_t)i == before) items[n++] = more;
    if (i < s->n && (int64_t)i != without) items[n++] = s->items[i];
  }
  return cni_onnx_out_value(c, 0, cn_onnx_value_sequence(items, n));
}

static int insert(cni_onnx_call *c)
{
  const cn_onnx_value *s = sequence_in(c, 0);
  cn_onnx_value *more = cni_onnx_value_in(c, 1);
  int64_t n = s ? (int64_t)s->n : 0, i = cni_onnx_int_in(c, 2, n);
  if (!s || !more || cn_err()) return cn_err();
  if (i < -n || i > n) return cni_onnx_fail(c, CN_ERR_INDEX, "position %lld of %zu", (long long)i, s->n);
  return changed(c, s, -1, more, i < 0 ? i + n : i);
}

static int erase(cni_onnx_call *c)
{
  const cn_onnx_value *s = sequence_in(c, 0);
  int64_t i = s ? position(c, 1, s->n, -1) : -1;
  return i < 0 ? cn_err() : changed(c, s, i, NULL, -1);
}

static int concat(cni_onnx_call *c)
{
  const cn_onnx_value *s = sequence_in(c, 0);
  int64_t axis = cni_onnx_int(c, "axis", 0);
  cn_tensor **all = s ? cni_onnx_room(c, s->n + 1, sizeof *all) : NULL;
  if (!all) return cn_err();
  for (size_t i = 0; i < s->n; i++)
    if (!(all[i] = cn_onnx_value_as_tensor(s->items[i])))
      return cni_onnx_fail(c, CN_ERR_TYPE, "a member is no tensor");
  bool new_axis = cni_onnx_int(c, "new_axis", 0) != 0;
  int64_t dim = axis ? axis : CN_ZERO;
  return cni_onnx_out(c, 0, new_axis ? cn_stack(all, s->n, .dim = dim) : cn_cat(all, s->n, .dim = dim));
}

/* Pieces of one size (1 where none is given, and then without that dimension, unless keepdims), or of given sizes. */
static int split(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0);
  int64_t axis = x ? cni_onnx_axis(c, cni_onnx_int(c, "axis", 0), cn_ndim(x)) : -1, from = 0;
  bool squeeze = !cni_onnx_has(c, 1) && !cni_onnx_int(c, "keepdims", 1);
  cni_onnx_ints sizes = cni_onnx_ints_in(c, 1);
  if (axis < 0 || cn_err()) return cn_err();
  int64_t whole = cn_size(x, axis),
          each = sizes.v && sizes.n == 1 && cn_ndim(cni_onnx_in(c, 1)) == 0 ? sizes.v[0] : 1;
  bool equal = !sizes.v || cn_ndim(cni_onnx_in(c, 1)) == 0;
  if (each < 1) return cni_onnx_fail(c, CN_ERR_VALUE, "pieces of %lld", (long long)each);
  size_t n = equal ? (size_t)((whole + each - 1) / each) : sizes.n;
  cn_onnx_value **items = cni_onnx_room(c, n + 1, sizeof *items);
  for (size_t i = 0; items && i < n && !cn_err(); i++) {
    int64_t size = !equal ? sizes.v[i] : each < whole - from ? each : whole - from;
    cn_tensor *piece = cn_narrow(x, axis, from, size);
    items[i] = cni_onnx_take(squeeze ? cn_squeeze(piece, .dim = CN_INTS(axis)) : piece);
    from += size;
  }
  if (items && !cn_err() && from != whole) cni_onnx_fail(c, CN_ERR_SHAPE, "the pieces are not the whole");
  cn_onnx_value *made = items && !cn_err() ? cn_onnx_value_sequence(items, n) : NULL;
  for (size_t i = 0; items && i < n; i++) cn_onnx_value_release(items[i]);
  return made ? cni_onnx_out_value(c, 0, made) : cn_err();
}

/* ---- optionals ---- */

static int optional(cni_onnx_call *c)
{
  return cni_onnx_out_value(c, 0, cni_onnx_has(c, 0) ? cn_onnx_value_keep(c->in[0]) : cn_onnx_value_none());
}

static int element(cni_onnx_call *c)
{
  if (!cni_onnx_has(c, 0)) return cni_onnx_fail(c, CN_ERR_VALUE, "the optional is empty");
  return cni_onnx_out_value(c, 0, cn_onnx_value_keep(c->in[0]));
}

static int has_element(cni_onnx_call *c)
{
  bool there = cni_onnx_has(c, 0);
  cn_tensor *t = cn_full(CN_SCALAR_SHAPE, there, .dtype = CN_BOOL, .device = cni_onnx_device(c));
  void *paused = cn_trace_pause();
  cn_tensor *known = cn_from_data(&there, NULL, 0, CN_BOOL);
  cn_trace_resume(paused);
  return t && known ? cni_onnx_out_value(c, 0, cni_onnx_value_know(cni_onnx_take(t), known)) : cn_err();
}

const cni_onnx_op cni_onnx_sequence_ops[] = {
    ONNX_FRESH("SequenceConstruct", 11, construct),
    ONNX_FRESH("SequenceEmpty", 11, empty),
    ONNX_FRESH("SequenceLength", 11, length),
    ONNX_FRESH("SequenceAt", 11, at),
    ONNX_FRESH("SequenceInsert", 11, insert),
    ONNX_FRESH("SequenceErase", 11, erase),
    ONNX_FRESH("ConcatFromSequence", 11, concat),
    ONNX_FRESH("SplitToSequence", 11, split),
    ONNX_FRESH("Optional", 15, optional),
    ONNX_FRESH("OptionalGetElement", 15, element),
    ONNX_FRESH("OptionalHasElement", 15, has_element),
    {NULL, NULL, NULL, 0, 0},
};
