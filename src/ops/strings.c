/* strings.c: strings as bytes and lengths: see cairn/strings.h; and the two ops between strings and numbers.
 *
 * Place in the flow: library functions made of ops, by the places of ragged.h. Invariant: nothing reads a value but
 * cn_strings_get, so that everything else can be captured. */
#include <cairn/kw.h>
#include <cairn/strings.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "families.h"
#include "ragged.h"

enum { ROOM_LEAST = 16 };

/* ---- making and reading ---- */

static int check(const char *who, const cn_strings *s)
{
  if (cn_err()) return cn_err();
  if (!s || !s->bytes || !s->lengths) return cni_fail(CN_ERR_TYPE, "%s: the strings are NULL", who);
  if (s->bytes->d.ndim == 1 && s->bytes->d.dtype == CN_U8 && s->lengths->d.dtype == CN_I64) return CN_OK;
  return cni_fail(CN_ERR_DTYPE, "%s: strings are a vector of uint8, and lengths of int64", who);
}

static int finish(cn_strings *out, cn_tensor *bytes, cn_tensor *lengths)
{
  if (!cn_err()) *out = (cn_strings){bytes, lengths};
  return cn_err();
}

int cn_strings_from(cn_strings *out, const char *const *strings, const int64_t *shape, size_t ndim)
{
  int64_t n;
  size_t room = ROOM_LEAST, total = 0;
  if (cn_err()) return cn_err();
  if (ndim > CN_MAX_DIMS || !cni_shape_fits((int)ndim, shape, sizeof(int64_t), &n))
    return cni_fail(CN_ERR_SHAPE, "strings_from: bad shape");
  for (int64_t i = 0; i < n; i++) {
    if (!strings[i]) return cni_fail(CN_ERR_TYPE, "strings_from: string %lld is NULL", (long long)i);
    total += strlen(strings[i]);
  }
  while (room < total) room *= 2;
  const int64_t size = (int64_t)room;
  cn_tensor *bytes = cni_scope_add(cni_tensor_new(CN_CPU, CN_U8, 1, &size, NULL));
  cn_tensor *lengths = cni_scope_add(cni_tensor_new(CN_CPU, CN_I64, (int)ndim, shape, NULL));
  if (!bytes || !lengths) return cn_err();
  char *at = bytes->d.data;
  memset(at, 0, room);
  for (int64_t i = 0; i < n; i++) {
    size_t length = strlen(strings[i]);
    ((int64_t *)lengths->d.data)[i] = (int64_t)length;
    memcpy(at, strings[i], length);
    at += length;
  }
  return finish(out, bytes, lengths);
}

char *cn_strings_get(const cn_strings *s, int64_t i)
{
  if (check("strings_get", s)) return NULL;
  cn_tensor *flat = cn_reshape(s->lengths, CN_SHAPE(-1));
  int64_t n = flat ? flat->d.shape[0] : 0;
  if (!cn_err() && (i < 0 || i >= n)) cni_fail(CN_ERR_INDEX, "strings_get: there is no string %lld", (long long)i);
  if (cn_err()) return NULL;
  int64_t length = cn_item_int(cn_select(flat, 0, i)), start = cn_item_int(cn_select(cni_starts(flat), 0, i));
  cn_tensor *part = cn_to_device(cn_contiguous(cn_narrow(s->bytes, 0, start, length)), CN_CPU);
  char *text = cn_err() ? NULL : cni_alloc((size_t)length + 1);
  if (!text) return NULL;
  if (length) memcpy(text, cn_data(part), (size_t)length);
  text[length] = 0;
  return text;
}

/* ---- two strings in one place ---- */

/* Lengths and beginnings of strings, broadcast to a shape and laid flat. */
typedef struct flat {
  cn_tensor *lengths, *starts;
} flat;

static flat flat_of(const cn_strings *s, const int64_t *shape, int ndim)
{
  cn_tensor *lengths = cn_reshape(s->lengths, CN_SHAPE(-1));
  cn_tensor *starts = cn_reshape(cni_starts(lengths), s->lengths->d.shape, (size_t)s->lengths->d.ndim);
  return (flat){cn_reshape(cn_expand(s->lengths, shape, (size_t)ndim), CN_SHAPE(-1)),
                cn_reshape(cn_expand(starts, shape, (size_t)ndim), CN_SHAPE(-1))};
}

/* Both, and the shape that they have together. */
static int both_of(const char *who, const cn_strings *a, const cn_strings *b, flat *x, flat *y, int64_t *shape,
                   int *ndim)
{
  int status = check(who, a);
  if (!status) status = check(who, b);
  if (status) return status;
  *ndim = a->lengths->d.ndim;
  memcpy(shape, a->lengths->d.shape, (size_t)*ndim * sizeof *shape);
  if (!cni_broadcast(ndim, shape, b->lengths->d.ndim, b->lengths->d.shape))
    return cni_fail(CN_ERR_SHAPE, "%s: the shapes of the strings do not fit together", who);
  *x = flat_of(a, shape, *ndim);
  *y = flat_of(b, shape, *ndim);
  return cn_err();
}

/* The value of each string at each of its bytes. */
static cn_tensor *of_member(cn_tensor *values, const cni_ragged *r) { return cn_index_select(values, 0, r->member); }

cn_tensor *cn_strings_equal(const cn_strings *a, const cn_strings *b)
{
  flat x, y;
  cni_ragged r;
  int64_t shape[CN_MAX_DIMS];
  int ndim;
  if (both_of("strings_equal", a, b, &x, &y, shape, &ndim)) return NULL;
  cn_tensor *alike = cn_eq(x.lengths, y.lengths), *compared = cn_where(alike, x.lengths, cn_int(0));
  if (cn_err() || cni_ragged_of(&r, compared, CN_NONE)) return NULL;
  cn_tensor *one = cn_index_select(a->bytes, 0, cn_add(of_member(x.starts, &r), r.place));
  cn_tensor *other = cn_index_select(b->bytes, 0, cn_add(of_member(y.starts, &r), r.place));
  cn_tensor *wrong = cn_index_add(cn_zeros_like(compared), 0, r.member, cn_cast(cn_ne(one, other), CN_I64));
  return cn_reshape(cn_logical_and(alike, cn_eq(wrong, cn_int(0))), shape, (size_t)ndim);
}

int cn_strings_concat(cn_strings *out, const cn_strings *a, const cn_strings *b)
{
  flat x, y;
  cni_ragged r;
  int64_t shape[CN_MAX_DIMS];
  int ndim;
  if (both_of("strings_concat", a, b, &x, &y, shape, &ndim)) return cn_err();
  cn_tensor *lengths = cn_add(x.lengths, y.lengths), *all = cn_cat(CN_TENSORS(a->bytes, b->bytes));
  if (cn_err() || cni_ragged_of(&r, lengths, CN_NONE)) return cn_err();
  cn_tensor *before = of_member(x.lengths, &r), *second = cn_sub(r.place, before);
  cn_tensor *from = cn_where(cn_lt(r.place, before), cn_add(of_member(x.starts, &r), r.place),
                             cn_add(cn_add(of_member(y.starts, &r), second), cn_int(a->bytes->d.shape[0])));
  return finish(out, cn_index_select(all, 0, from), cn_reshape(lengths, shape, (size_t)ndim));
}

/* ---- one kind of strings ---- */

cn_tensor *cn_strings_count(const cn_strings *s)
{
  cni_ragged r;
  if (check("strings_count", s)) return NULL;
  cn_tensor *lengths = cn_reshape(s->lengths, CN_SHAPE(-1));
  if (!lengths || cni_ragged_of(&r, lengths, CN_NONE)) return NULL;
  cn_tensor *all = cni_counting(r.member->d.shape[0], s->bytes->d.device);
  cn_tensor *byte = cn_index_select(s->bytes, 0, all); /* of those that go on with a character the first bits are 10 */
  cn_tensor *begins = cn_cast(cn_ne(cn_bitwise_and(byte, cn_int(0xc0)), cn_int(0x80)), CN_I64);
  cn_tensor *count = cn_index_add(cn_zeros_like(lengths), 0, r.member, begins);
  return cn_reshape(count, s->lengths->d.shape, (size_t)s->lengths->d.ndim);
}

int cn_strings_take(cn_strings *out, const cn_strings *s, cn_tensor *indices)
{
  cni_ragged r;
  int status = check("strings_take", s);
  if (status) return status;
  if (!indices || indices->d.dtype != CN_I64) return cni_fail(CN_ERR_DTYPE, "strings_take: indices must be int64");
  cn_tensor *lengths = cn_reshape(s->lengths, CN_SHAPE(-1)), *order = cn_reshape(indices, CN_SHAPE(-1));
  if (cn_err()) return cn_err();
  order = cn_where(cn_lt(order, cn_int(0)), cn_add(order, cn_int(lengths->d.shape[0])), order);
  cn_tensor *each = cn_index_select(lengths, 0, order), *starts = cn_index_select(cni_starts(lengths), 0, order);
  if (cn_err() || cni_ragged_of(&r, each, CN_NONE)) return cn_err();
  cn_tensor *bytes = cn_index_select(s->bytes, 0, cn_add(of_member(starts, &r), r.place));
  return finish(out, bytes, cn_reshape(each, indices->d.shape, (size_t)indices->d.ndim));
}

cn_tensor *cn_strings_find(const cn_strings *s, const cn_strings *keys)
{
  if (check("strings_find", s) || check("strings_find", keys)) return NULL;
  if (keys->lengths->d.ndim != 1) return cni_fail(CN_ERR_SHAPE, "strings_find: keys must be a vector"), NULL;
  int64_t n = keys->lengths->d.shape[0];
  cn_strings column = {s->bytes, cn_unsqueeze(s->lengths, -1)};
  if (n == 0) return cn_full_like(s->lengths, -1);
  cn_tensor *found = cn_where(cn_strings_equal(&column, keys), cni_counting(n, s->bytes->d.device), cn_int(n));
  cn_tensor *first = cn_amin(found, .dim = CN_INTS(-1));
  return cn_where(cn_eq(first, cn_int(n)), cn_int(-1), first);
}

cn_tensor *cn_strings_lookup(const cn_strings *s, const cn_strings *keys, cn_tensor *values, cn_tensor *other)
{
  cn_tensor *at = cn_strings_find(s, keys);
  if (!at) return NULL;
  int64_t n = keys->lengths->d.shape[0];
  if (!values || !other || values->d.ndim != 1 || values->d.shape[0] != n || other->d.numel != 1)
    return cni_fail(CN_ERR_SHAPE, "strings_lookup: needs a value for each key, and another one"), NULL;
  cn_tensor *all = cn_cat(CN_TENSORS(values, cn_reshape(cni_in_type(other, values->d.dtype), CN_SHAPE(1))));
  cn_tensor *flat_at = cn_reshape(cn_where(cn_lt(at, cn_int(0)), cn_int(n), at), CN_SHAPE(-1));
  return cn_reshape(cn_index_select(all, 0, flat_at), at->d.shape, (size_t)at->d.ndim);
}

/* ---- numbers ---- */

int cn_strings_format(cn_strings *out, cn_tensor *numbers)
{
  cn_tensor *bytes = NULL, *lengths = NULL;
  if (cn_string_format(&bytes, &lengths, numbers)) return cn_err();
  return finish(out, bytes, lengths);
}

cn_tensor *cn_strings_parse(const cn_strings *s, cn_dtype dtype)
{
  return check("strings_parse", s) ? NULL : cn_string_parse(s->bytes, s->lengths, dtype);
}

/* string_format(input): as many bytes as it takes. */
static int string_format_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  const int64_t none = 0;
  int status = cn_call_result(c, 0, CN_U8, 1, &none);
  c->spec[0].data_dependent = true;
  return status ? status : cn_call_result(c, 1, CN_I64, x->ndim, x->shape);
}

/* string_parse(bytes, lengths, dtype) */
static int string_parse_infer(cn_call *c)
{
  const cn_desc *bytes = &c->in[0]->d, *lengths = &c->in[1]->d;
  int64_t dtype = cni_arg_int(c->args, 2);
  if (bytes->dtype != CN_U8 || bytes->ndim != 1 || lengths->dtype != CN_I64)
    return cn_call_fail(c, CN_ERR_DTYPE, "strings are a vector of uint8, and lengths of int64");
  if (!cni_dtype_valid(dtype) || !cni_dtype_computes((int)dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "there are no numbers of this type to compute with");
  return cn_call_result(c, 0, (int)dtype, lengths->ndim, lengths->shape);
}

/* clang-format off */
const cn_op cni_strings_ops[] = {
  {.sig = "string_format(Tensor input) -> (Tensor bytes, Tensor lengths) ; internal",
   .doc = "Numbers as strings: their bytes one after another, and how many each has.",
   .flags = CN_OP_NO_GRAD, .infer = string_format_infer},
  {.sig = "string_parse(Tensor bytes, Tensor lengths, dtype dtype) -> Tensor ; internal",
   .doc = "The numbers that strings say; what is none is an error.",
   .flags = CN_OP_NO_GRAD, .infer = string_parse_infer},
};
/* clang-format on */
CNI_FAMILY(strings);
