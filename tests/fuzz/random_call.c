/* random_call.c: see random_call.h. Sizes are kept small, so that a sensible call takes microseconds; senseless ones
 * are so large that they must be refused. */
#define _XOPEN_SOURCE 700
#include "random_call.h"

#include <cairn/kw.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIMS = 5, DIM_MAX = 6, NUMEL_MAX = 2048 };

/* ---- numbers ---- */

uint64_t rng_next(rng *r)
{
  uint64_t z = r->s += 0x9e3779b97f4a7c15ull;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}
int64_t rng_below(rng *r, int64_t n) { return (int64_t)(rng_next(r) % (uint64_t)n); }
bool rng_one_in(rng *r, int n) { return rng_below(r, n) == 0; }
double rng_unit(rng *r) { return (double)(rng_next(r) >> 11) * 0x1p-53; }

int64_t random_int(rng *r)
{
  static const int64_t odd[] = {INT64_MIN,
                                INT64_MIN + 1,
                                INT64_MIN + 2,
                                INT64_MAX,
                                INT64_MAX - 1,
                                (int64_t)1 << 62,
                                -((int64_t)1 << 62),
                                (int64_t)1 << 40,
                                -((int64_t)1 << 40),
                                (int64_t)1 << 32,
                                (int64_t)INT32_MAX,
                                (int64_t)INT32_MAX + 1,
                                INT32_MIN,
                                (int64_t)INT32_MIN - 1,
                                255,
                                256,
                                65,
                                -65,
                                33,
                                17,
                                -17,
                                16};
  if (rng_one_in(r, 12)) return odd[rng_below(r, (int64_t)(sizeof odd / sizeof *odd))];
  return rng_one_in(r, 4) ? rng_below(r, 16) - 8 : rng_below(r, 5) - 1;
}

double random_float(rng *r)
{
  static const double odd[] = {0, 1, -1, -0.0, 0.5, 2, 1e-3, 1e308, -1e308, 5e-324, 1e20, -1e20, 2147483648.0};
  if (rng_one_in(r, 30)) return (double)NAN;
  if (rng_one_in(r, 30)) return rng_one_in(r, 2) ? (double)INFINITY : -(double)INFINITY;
  if (rng_one_in(r, 2)) return odd[rng_below(r, rng_one_in(r, 3) ? (int64_t)(sizeof odd / sizeof *odd) : 7)];
  return 4 * rng_unit(r) - 2;
}

/* ---- tensors ---- */

typedef struct theme {
  int ndim;
  int64_t shape[DIMS];
  cn_dtype dtype;
} theme;

static theme now; /* shapes and types of the present call resemble each other, or hardly any call would be valid */

static cn_dtype random_dtype(rng *r)
{
  static const cn_dtype usual[] = {CN_F32,  CN_F32, CN_F32, CN_F64, CN_F64, CN_F16,
                                   CN_BF16, CN_I64, CN_I64, CN_I32, CN_BOOL};
  if (rng_one_in(r, 6)) return (cn_dtype)(1 + rng_below(r, CN_DTYPE_COUNT - 1));
  return usual[rng_below(r, (int64_t)(sizeof usual / sizeof *usual))];
}

static int64_t random_size(rng *r)
{
  if (rng_one_in(r, 40)) return 0;
  return rng_one_in(r, 60) ? 70 : 1 + rng_below(r, DIM_MAX);
}

static int random_shape(rng *r, int64_t *shape)
{
  int ndim = (int)rng_below(r, DIMS + 1);
  int64_t numel = 1;
  for (int i = 0; i < ndim; i++) {
    shape[i] = random_size(r);
    if (shape[i] * numel > NUMEL_MAX) shape[i] = 1;
    numel *= shape[i] ? shape[i] : 1;
  }
  return ndim;
}

void random_theme(rng *r)
{
  now.ndim = random_shape(r, now.shape);
  if (rng_one_in(r, 3)) /* squares, channels that fit */
    for (int i = 1; i < now.ndim; i++) now.shape[i] = now.shape[0] % 4;
  now.dtype = random_dtype(r);
}

/* The theme's shape, or one that broadcasts with it, or anything. */
static int themed_shape(rng *r, int64_t *shape)
{
  int64_t kind = rng_below(r, 8);
  if (kind == 0) return random_shape(r, shape);
  int skip = kind == 1 && now.ndim ? (int)rng_below(r, now.ndim + 1) : 0, n = now.ndim - skip;
  memcpy(shape, now.shape + skip, (size_t)n * sizeof *shape);
  for (int i = 0; kind == 2 && i < n; i++)
    if (rng_one_in(r, 2)) shape[i] = 1;
  return n;
}

/* Numbers as float64, then cast: indices that mostly are in range, small values, a few specials. */
static cn_tensor *filled(rng *r, const int64_t *shape, int ndim, cn_dtype dtype)
{
  static double values[1 << 16];
  int64_t n = 1;
  for (int i = 0; i < ndim; i++) n *= shape[i];
  if (n > (int64_t)(sizeof values / sizeof *values)) return NULL;
  bool whole = rng_one_in(r, 2), odd = rng_one_in(r, 8);
  for (int64_t i = 0; i < n; i++) {
    values[i] = whole ? (double)rng_below(r, 4) : 4 * rng_unit(r) - 2;
    if (odd && rng_one_in(r, 5)) values[i] = random_float(r);
  }
  cn_tensor *t = cn_from_data(values, shape, (size_t)ndim, CN_F64);
  return dtype == CN_F64 ? t : cn_cast(t, dtype);
}

/* A tensor of this shape that is a view of a larger, transposed or smaller one. */
static cn_tensor *viewed(rng *r, const int64_t *shape, int ndim, cn_dtype dtype, bool leaf)
{
  int64_t base[DIMS], d = rng_below(r, ndim), e = rng_below(r, ndim), step = 1 + rng_below(r, 3),
                      start = rng_below(r, 2);
  memcpy(base, shape, (size_t)ndim * sizeof *base);
  int64_t kind = rng_below(r, 4);
  if (kind == 0) base[d] = shape[e], base[e] = shape[d];
  else if (kind == 1) base[d] = shape[d] * step + start;
  else if (kind == 2 && shape[d]) base[d] = 1;
  cn_tensor *t = filled(r, base, ndim, dtype);
  if (t && leaf) cn_requires_grad(t, true);
  if (kind == 0) return cn_transpose(t, d, e);
  if (kind == 1) return cn_slice(t, d, start, shape[d] ? CN_NONE : start, .step = step);
  if (kind == 2) return cn_expand(t, shape, (size_t)ndim);
  return cn_narrow(t, d, 0, shape[d]);
}

cn_tensor *random_tensor(rng *r, bool grad)
{
  int64_t shape[DIMS];
  int ndim = themed_shape(r, shape);
  cn_dtype dtype = rng_one_in(r, 4) ? random_dtype(r) : now.dtype;
  bool can = dtype == CN_F32 || dtype == CN_F64 || dtype == CN_F16 || dtype == CN_BF16;
  bool leaf = grad && can && !rng_one_in(r, 3);
  if (rng_one_in(r, 25)) return rng_one_in(r, 2) ? cn_num(random_float(r)) : cn_int(random_int(r));
  if (ndim && rng_one_in(r, 3)) return viewed(r, shape, ndim, dtype, leaf);
  cn_tensor *t = filled(r, shape, ndim, dtype);
  if (t && leaf) cn_requires_grad(t, true);
  return t;
}

/* ---- calls that fit: most random ones of these ops would not ----
 * One word per argument: f2,3 a float tensor of that shape, j an index tensor, m a mask, l a list of integers, i an
 * integer, d a number, b a bool, s a string, t2x3,4 two tensors, n none. */
static const char *const fitting[][2] = {
    {"conv2d", "f2,2,6,6 f3,2,3,3 f3 l1,2 l1,0 l1,1 i1"},
    {"conv2d", "f1,4,5,5 f4,2,3,3 n l2,1 l1,1 l2,1 i2"},
    {"conv2d_grad_input", "f2,3,4,4 f3,2,3,3 l2,2,6,6 l1,1 l0,0 l1,1 i1"},
    {"conv2d_grad_weight", "f2,3,4,4 f2,2,6,6 l3,2,3,3 l1,1 l0,0 l1,1 i1"},
    {"max_pool2d_with_indices", "f2,3,4,6 l2,3 l2,1 l1,1 l1,1 b1"},
    {"max_pool2d_backward", "f2,3,2,2 j2,3,2,2 l2,3,4,4"},
    {"avg_pool2d_backward", "f2,3,2,2 l2,3,4,4 l2,2 l2,2 l0,0 b0 b1 n"},
    {"adaptive_avg_pool2d_backward", "f2,3,2,2 l2,3,5,4"},
    {"cross_entropy_rows", "f4,5 j4 i-100 snone"},
    {"cross_entropy_rows_grad", "f4 f4,5 j4 f4 i-100 snone"},
    {"cross_entropy", "f4,5 j4 f5 i1 smean d0.1"},
    {"nll_loss", "f4,5,2 j4,2 f5 i1 smean"},
    {"batch_norm", "f2,3,4 f3 f3 f3 f3 b1 d0.1 d0.001"},
    {"mv", "f3,4 f4"},
    {"max_pool2d", "f2,3,6,6 l2,2 l2,1 l1,0 l1,2 b1"},
    {"index_select", "f4,5 i1 j3"},
    {"scatter", "f4,5 i1 j3,7 f4,7"},
    {"index_add", "f4,5 i0 j3 f3,5 d2"},
    {"index_copy", "f4,5 i1 j3 f4,3"},
    {"index_fill", "f4,5 i0 j3 f"},
    {"gather", "f4,5 i1 j3,7"},
    {"scatter_add", "f4,5 i1 j3,7 f4,7"},
    {"scatter_reduce", "f4,5 i1 j3,7 f4,7 sprod b1"},
    {"embedding", "j3,2 f4,5 i-1"},
    {"embedding_grad", "f3,2,5 j3,2 i4 i-1"},
    {"index_put", "f4,5,3 t2x2,1 f5,3 b1"},
    {"native_batch_norm", "f2,3,4 f3 f3 f3 f3 b1 d0.001"},
    {"native_batch_norm_backward", "f2,3,4 f2,3,4 f3 f3 f3 b1 l1,1,1"},
    {"batch_norm_relu_backward", "f2,3,4 f2,3,4 f3 f3 f3 f3 b1 l1,1,1"},
    {"batch_norm_add_relu_backward", "f2,3,4 f2,3,4 f2,3,4 f2,3,4 f3 f3 f3 b1 l1,1,1"},
    {"native_layer_norm_backward", "f2,3,4 f2,3,4 l4 f2,3,1 f2,3,1 f4 l1,1,1"},
    {"scaled_dot_product_attention", "f2,3,4,5 f2,3,6,5 f2,3,6,2 f4,6 d0 b0"},
    {"sdpa_backward", "f1,2,3,4 f1,2,3,4 f1,2,3,4 f1,2,3,4 f1,2,3,4 f1,2,3 n n b1 n d0"},
    {"pointwise", "t2x3,4 s2|1.5|mul_0_2;add_3_1|4,3 n"},
    {"native_rms_norm_backward", "f2,3,4 f2,3,4 l4 f2,3,1 f4 l1,1"},
    {"scatter_reduce_self", "f4,5 i1 j3,7 f4,7 samax"},
    {"addmm", "f3,4 f3,2 f2,4 d0.5 d2"},
    {"masked_fill", "f3,4 m4 f"},
    {"linalg_solve", "f2,3,3 f2,3,4 b1"},
    {"as_strided", "f4,6 l2,3 l6,2 i1"},
    {"unfold", "f4,6 i1 i3 i2"},
    {"addmv", "f3 f3,4 f4 d0.5 d2"},
    {"affine_grid", "f2,2,3 l2,3,4,5 b1"},
    {"ctc_loss", "f5,2,4 j2,2 j2 j2 i3 smean b1"},
    {"ctc_rows", "f5,2,4 j2,2 j2 j2 i3 b1"},
    {"ctc_rows_grad", "f2 f5,2,4 j2,2 j2 j2 i3 b0"},
    {"gru", "f4,2,2 f1,2,2 t2x6,2 b0 i1 d0 b0 b0 b0"},
    {"lstm", "f4,2,2 t2x1,2,2 t2x8,2 b0 i1 d0 b0 b0 b1"},
    {"lstm_cell", "f3,2 t2x3,2 f8,2 f8,2 f8 f8"},
    {"recurrent_sequence", "f4,2,2 f8,2 f8,2 f2,2 f8 f8 f2,2 slstm b0 b1 n"},
    {"recurrent_sequence_grad", "f8,2 f2,2 f3,2,2 f3,2,10 f2,2 f3,2,2 f2,2 f2,2 slstm b0 n"},
    {"rnn_tanh", "f4,2,2 f1,2,2 t2x2,2 b0 i1 d0 b1 b0 b0"},
    {"rnn_relu", "f4,2,2 f2,2,2 t4x2,2 b0 i1 d0 b0 b1 b0"},
    {"linalg_cond_named", "f2,3,3 sfro"},
    {"linalg_norm_named", "f2,3,4 snuc l1,2 b1 n"},
    {"multi_head_attention", "f3,2,4 f5,2,4 f5,2,4 i2 t1x12,4 f4,4 f12 f4 n n b0 d0 n n smean b0"},
    {"resample", "f2,3,4 i2 i7 slinear b0 d0 b0"},
    {"resample_backward", "f2,3,7 i2 i4 slinear b1 d0 b0"},
    {"scatter_reduced", "f4,5 i1 j3,5 f4,7 sadd"},
    {"scatter_value_reduced", "f4,5 i1 j3,5 d2 smultiply"},
    {"weighted_gather", "f2,3,4 j2,4,5 f2,4,5"},
    {"weighted_scatter", "f2,3,5 j2,4,5 f2,4,5 i6"},
    {"weighted_dot", "f2,3,5 f2,3,4 j2,4,5"},
};

static size_t numbers_of(const char *word, int64_t *to)
{
  size_t n = 0;
  for (const char *s = word; *s && n < CALL_LIST; s += *s == ',') {
    char *end;
    to[n++] = strtoll(s, &end, 10);
    if (end == s) break;
    s = end;
  }
  return n;
}

static cn_tensor *fitting_tensor(rng *r, char kind, const char *word, bool grad)
{
  int64_t shape[CALL_LIST];
  int ndim = (int)numbers_of(word, shape);
  cn_dtype dtype = kind == 'j' ? CN_I64 : now.dtype == CN_F64 || now.dtype == CN_BF16 ? now.dtype : CN_F32;
  cn_tensor *t = filled(r, shape, ndim, dtype);
  if (kind == 'm') return cn_gt(t, cn_num(0.5));
  if (kind == 'j') return cn_cast(cn_remainder(t, cn_int(rng_one_in(r, 8) ? 6 : 3)), CN_I64);
  if (ndim > 1 && rng_one_in(r, 3)) t = cn_transpose(cn_contiguous(cn_transpose(t, 0, ndim - 1)), 0, ndim - 1);
  return t && grad && rng_one_in(r, 2) ? cn_requires_grad(t, true) : t;
}

/* ---- text ---- */

static void say(random_call *c, const char *format, ...) CN_PRINTF(2, 3);
static void say(random_call *c, const char *format, ...)
{
  va_list ap;
  va_start(ap, format);
  int n = vsnprintf(c->text + c->length, CALL_TEXT - c->length, format, ap);
  va_end(ap);
  if (n > 0) c->length += (size_t)n;
  if (c->length >= CALL_TEXT) c->length = CALL_TEXT - 1;
}

static void say_tensor(random_call *c, const cn_tensor *t)
{
  if (!t) {
    say(c, "NULL");
    return;
  }
  say(c, "%s%s[", cn_needs_grad(t) ? "grad " : "", cn_dtype_name(cn_dtype_of(t)));
  for (int i = 0; i < cn_ndim(t); i++) say(c, "%s%lld", i ? "," : "", (long long)cn_shape(t)[i]);
  say(c, "]");
  if (cn_is_contiguous(t)) return;
  say(c, "/[");
  for (int i = 0; i < cn_ndim(t); i++) say(c, "%s%lld", i ? "," : "", (long long)cn_strides(t)[i]);
  say(c, "]");
}

static void say_value(random_call *c, const cn_value *v)
{
  switch (v->tag) {
  case CN_V_TENSOR: say_tensor(c, v->u.t); break;
  case CN_V_INT: say(c, "%lld", (long long)v->u.i); break;
  case CN_V_BOOL: say(c, v->u.i ? "true" : "false"); break;
  case CN_V_FLOAT: say(c, "%.17g", v->u.f); break;
  case CN_V_STR: say(c, "'%.30s'", v->u.s); break;
  case CN_V_INTS:
  case CN_V_FLOATS:
  case CN_V_TENSORS:
    say(c, "(%d:", (int)v->n);
    for (int i = 0; i < v->n; i++) {
      say(c, i ? ", " : " ");
      if (v->tag == CN_V_INTS) say(c, "%lld", (long long)v->u.is[i]);
      else if (v->tag == CN_V_FLOATS) say(c, "%.17g", v->u.fs[i]);
      else say_tensor(c, v->u.ts[i]);
    }
    say(c, ")");
    break;
  default: say(c, "none");
  }
}

/* ---- arguments ---- */

static cn_tensor *new_tensor(random_call *c, rng *r)
{
  cn_tensor *t =
      c->ntensors && rng_one_in(r, 12) ? c->tensors[rng_below(r, (int64_t)c->ntensors)] : random_tensor(r, c->grad);
  if (t && c->ntensors < CALL_TENSORS) c->tensors[c->ntensors++] = t;
  return t;
}

static const char *random_word(random_call *c, rng *r, int i)
{
  static const char *const words[] = {"mean",
                                      "sum",
                                      "none",
                                      "tanh",
                                      "trunc",
                                      "floor",
                                      "prod",
                                      "amax",
                                      "amin",
                                      "replace",
                                      "batchmean",
                                      "reflect",
                                      "%s%n",
                                      "",
                                      "nonsense",
                                      "1||exp 0|1",
                                      "2||add 0 1|2",
                                      "2|@7|mul 0 2|3",
                                      "1|1.5|mul 0 1;exp 2|3,2"};
  char *room = c->strings[i];
  if (c->info.params[i].default_text && rng_one_in(r, 2))
    return strncpy(room, c->info.params[i].default_text, CALL_STRING - 1);
  if (!rng_one_in(r, 20)) return words[rng_below(r, (int64_t)(sizeof words / sizeof *words))];
  memset(room, 'a' + (int)rng_below(r, 26), CALL_STRING - 1);
  return room;
}

static cn_value random_list(random_call *c, rng *r, int i, char what)
{
  static const size_t odd[] = {0, 7, 8, 9, 16, 17, 33, CALL_LIST};
  int fixed = 0;
  const char *bracket = strchr(c->info.params[i].type, '[');
  if (bracket) sscanf(bracket, "[%d]", &fixed);
  size_t n = fixed && !rng_one_in(r, 8) ? (size_t)fixed : (size_t)rng_below(r, 5);
  if (!fixed && rng_one_in(r, 3)) n = (size_t)now.ndim;
  if (rng_one_in(r, 25)) n = odd[rng_below(r, (int64_t)(sizeof odd / sizeof *odd))];
  bool shape = what == 'i' && rng_one_in(r, 3);
  for (size_t k = 0; k < n; k++) {
    if (what == 'i') c->ints[i][k] = shape && k < (size_t)now.ndim ? now.shape[k] : random_int(r);
    else if (what == 'f') c->floats[i][k] = random_float(r);
    else c->lists[i][k] = rng_one_in(r, 40) ? NULL : new_tensor(c, r);
  }
  if (what == 'i') return cn_v_ints(c->ints[i], n);
  return what == 'f' ? cn_v_floats(c->floats[i], n) : cn_v_tensors(c->lists[i], n);
}

static cn_value random_device(rng *r)
{
  static const int64_t devices[] = {0, CN_CPU, CN_CPU, 0x101, 0x300, 0x7fffff00, -1, INT64_MAX};
  return cn_v_int(devices[rng_below(r, (int64_t)(sizeof devices / sizeof *devices))]);
}

/* A value of the kind that `type` (a signature's word) asks for. */
static cn_value random_value(random_call *c, rng *r, int i, const char *type)
{
  bool list = strchr(type, '[') != NULL;
  if (!strncmp(type, "Tensor", 6)) return list ? random_list(c, r, i, 't') : cn_v_tensor(new_tensor(c, r));
  if (!strncmp(type, "int", 3)) return list ? random_list(c, r, i, 'i') : cn_v_int(random_int(r));
  if (!strncmp(type, "float", 5)) return list ? random_list(c, r, i, 'f') : cn_v_float(random_float(r));
  if (!strncmp(type, "bool", 4)) return rng_one_in(r, 20) ? cn_v_int(random_int(r)) : cn_v_bool(rng_one_in(r, 2));
  if (!strncmp(type, "str", 3)) return cn_v_str(random_word(c, r, i));
  if (!strncmp(type, "dtype", 5))
    return cn_v_int(rng_one_in(r, 10)  ? random_int(r)
                    : rng_one_in(r, 4) ? rng_below(r, 40) - 4
                                       : (int64_t)random_dtype(r));
  if (!strncmp(type, "device", 6)) return random_device(r);
  return rng_one_in(r, 2) ? cn_v_float(random_float(r)) : cn_v_int(random_int(r)); /* Scalar */
}

static cn_value random_argument(random_call *c, rng *r, int i)
{
  static const char *const kinds[] = {"Tensor", "Tensor[]", "int", "int[]", "float", "float[]", "bool", "str"};
  const cn_op_param *p = &c->info.params[i];
  if (rng_one_in(r, 60)) return random_value(c, r, i, kinds[rng_below(r, 8)]); /* the wrong kind */
  if (rng_one_in(r, p->optional ? 3 : 80)) return cn_v_none();
  if (p->default_text && rng_one_in(r, 2)) return p->default_value;
  return random_value(c, r, i, p->type);
}

static cn_value fitting_value(random_call *c, rng *r, int i, char *word)
{
  int64_t first = strtoll(word + 1, NULL, 10);
  switch (word[0]) {
  case 'f':
  case 'j':
  case 'm': return cn_v_tensor(c->tensors[c->ntensors++] = fitting_tensor(r, word[0], word + 1, c->grad));
  case 't':
    for (int64_t k = 0; k < first; k++)
      c->lists[i][k] = c->tensors[c->ntensors++] =
          fitting_tensor(r, strcmp(c->info.name, "index_put") ? 'f' : 'j', strchr(word, 'x') + 1, false);
    return cn_v_tensors(c->lists[i], (size_t)first);
  case 'l': return cn_v_ints(c->ints[i], numbers_of(word + 1, c->ints[i]));
  case 'i': return cn_v_int(first);
  case 'd': return cn_v_float(strtod(word + 1, NULL));
  case 'b': return cn_v_bool(first != 0);
  case 's':
    for (char *s = word; *s; s++)
      if (*s == '_') *s = ' ';
    return cn_v_str(strncpy(c->strings[i], word + 1, CALL_STRING - 1));
  default: return cn_v_none();
  }
}

/* Arguments that fit, one in eight of them replaced by a random one. False: none are known for this op. */
static bool fitting_arguments(random_call *c, rng *r)
{
  const char *found[8];
  int n = 0;
  for (size_t i = 0; i < sizeof fitting / sizeof *fitting; i++)
    if (!strcmp(fitting[i][0], c->info.name) && n < 8) found[n++] = fitting[i][1];
  if (!n) return false;
  char line[200], *rest = NULL;
  snprintf(line, sizeof line, "%s", found[rng_below(r, n)]);
  c->nargs = 0;
  for (char *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
    int i = (int)c->nargs++;
    c->args[i] = rng_one_in(r, 8) ? random_argument(c, r, i) : fitting_value(c, r, i, word);
  }
  return true;
}

static size_t random_capacity(random_call *c, rng *r)
{
  if (c->info.list_result) return (size_t)rng_below(r, 9);
  return rng_one_in(r, 100) ? (size_t)rng_below(r, 3) : (size_t)c->info.nresults;
}

int random_call_make(random_call *c, uint64_t seed, const cn_op *op)
{
  rng r = {seed};
  c->ntensors = c->length = 0;
  c->op = op ? op : cn_op_at((int)rng_below(&r, cn_op_count()));
  c->dest = NULL;
  c->text[0] = 0;
  int status = cn_op_describe(&c->info, c->op);
  if (status) return status;
  memset(c->strings, 0, sizeof c->strings);
  random_theme(&r);
  c->grad = rng_one_in(&r, 2);
  c->traced = rng_one_in(&r, 10);
  c->nargs = (size_t)c->info.nparams;
  if (rng_one_in(&r, 4)) c->nargs = (size_t)rng_below(&r, (int64_t)c->nargs + 2);
  if (rng_one_in(&r, 5) || !fitting_arguments(c, &r))
    for (size_t i = 0; i < c->nargs; i++)
      c->args[i] = i < (size_t)c->info.nparams ? random_argument(c, &r, (int)i) : cn_v_int(1);
  say(c, "%s(", c->info.name);
  for (size_t i = 0; i < c->nargs; i++) {
    say(c, "%s", i ? ", " : "");
    say_value(c, &c->args[i]);
  }
  say(c, ")");
  c->capacity = random_capacity(c, &r);
  bool unset = !strncmp(c->info.name, "empty", 5); /* its elements are nobody's to read */
  if (rng_one_in(&r, 6) && !unset) {               /* in place: into an input, or into another tensor */
    bool own = c->ntensors && !rng_one_in(&r, 3);
    c->dest = own ? c->tensors[rng_below(&r, (int64_t)c->ntensors)] : random_tensor(&r, c->grad && rng_one_in(&r, 4));
    say(c, " into %s", own ? "its input " : "");
    say_tensor(c, c->dest);
  }
  return cn_err();
}
