/* labels.c: words and numbers that stand for one another, and maps of them: ai.onnx.ml. What is looked up is found by
 * ops, so that it compiles. See call.h, ml.h. */
#include <cairn/ext/parts.h>
#include <stdio.h>
#include <string.h>

#include "formats/onnx/ml.h"

/* A list that attributes give: strings, or a vector of numbers. */
typedef struct list {
  bool text;
  cn_strings s;
  cn_tensor *t;
  int64_t n;
} list;

static int of_value(list *out, const cni_onnx_call *c, const cn_onnx_value *v)
{
  out->text = cn_onnx_value_as_strings(&out->s, v);
  if (!out->text && !(out->t = cn_onnx_value_as_tensor(v)))
    return cni_onnx_fail(c, CN_ERR_TYPE, "a list is no tensor");
  void *paused = cn_trace_pause();
  if (out->text) out->s.lengths = cn_reshape(out->s.lengths, CN_SHAPE(-1));
  else out->t = cn_reshape(out->t, CN_SHAPE(-1));
  cn_trace_resume(paused);
  out->n = cn_numel(out->text ? out->s.lengths : out->t);
  return cn_err();
}

/* By the attributes that begin with `prefix`: _strings, _int64s, _floats, _tensor; none: n is 0. */
static int list_of(list *out, const cni_onnx_call *c, const char *prefix)
{
  static const char *const kinds[] = {"strings", "int64s", "floats", "tensor"};
  char name[64];
  *out = (list){.n = 0};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    snprintf(name, sizeof name, "%s_%s", prefix, kinds[i]);
    const cni_onnx_attr *a = cni_onnx_attr_of(c, name);
    if (!a || (a->kind != CNI_ATTR_TENSOR && !a->n)) continue;
    if (a->kind == CNI_ATTR_TENSOR) return of_value(out, c, a->value);
    size_t n = a->n;
    out->text = a->kind == CNI_ATTR_STRINGS;
    if (out->text) cni_onnx_ml_strings(&out->s, &n, c, name);
    else out->t = cni_onnx_ml_vector(c, name, a->kind == CNI_ATTR_INTS ? CN_I64 : CN_F32);
    out->n = (int64_t)n;
    return cn_err();
  }
  return cn_err();
}

/* Keys in order, those that are NaN cut off, and where each stood; *nan: where the first NaN stood, -1: none did. */
static int sort_keys(cn_tensor **sorted, cn_tensor **order, int64_t *nan, cn_tensor *keys)
{
  *nan = -1;
  if (cn_sort(sorted, order, keys, .stable = true) || !cn_dtype_is_float(cn_dtype_of(keys))) return cn_err();
  cn_tensor *nans = cn_isnan(keys), *numbers = cn_logical_not(cn_isnan(*sorted));
  if (cn_item(cn_any(nans)) != 0) *nan = (int64_t)cn_item(cn_argmax(cn_cast(nans, CN_I32), 0));
  *sorted = cn_masked_select(*sorted, numbers);
  *order = cn_masked_select(*order, numbers);
  return cn_err();
}

/* The place of each number among keys, the first that is equal; -1: it is none. NaN is equal to NaN. */
static cn_tensor *place_among(cn_tensor *x, cn_tensor *keys)
{
  cn_tensor *sorted, *order, *place;
  if (!x || !keys) return NULL;
  bool real = cn_dtype_is_float(cn_dtype_of(x)) || cn_dtype_is_float(cn_dtype_of(keys));
  cn_dtype dtype = !real ? CN_I64 : cn_dtype_of(x) == CN_F32 && cn_dtype_of(keys) == CN_F32 ? CN_F32 : CN_F64;
  int64_t nan;
  void *paused = cn_trace_pause();
  int status = sort_keys(&sorted, &order, &nan, cn_cast(keys, dtype));
  cn_trace_resume(paused);
  if (status) return NULL;
  int64_t n = cn_numel(sorted);
  x = cn_cast(x, dtype);
  if (n) {
    cn_tensor *at = cn_clamp(cn_searchsorted(sorted, x, NULL), NULL, cn_int(n - 1));
    place = cn_where(cn_eq(cn_take(sorted, at), x), cn_take(order, at), cn_int(-1));
  } else place = cn_full_like(x, -1, .dtype = CN_I64);
  return nan < 0 ? place : cn_where(cn_isnan(x), cn_int(nan), place);
}

/* Places of input i among the keys. */
static cn_tensor *places(const cni_onnx_call *c, size_t i, const list *keys)
{
  cn_strings s;
  if (!keys->n) return cni_onnx_fail(c, CN_ERR_VALUE, "it has no keys"), NULL;
  if (!keys->text) return place_among(cni_onnx_in(c, i), keys->t);
  return cni_onnx_strings_in(&s, c, i) ? NULL : cn_strings_find(&s, &keys->s);
}

/* Sets the result to the strings at places, `other` for -1. */
static int out_words(cni_onnx_call *c, cn_tensor *at, const list *values, const char *other)
{
  cn_strings all = {NULL, NULL}, taken = {NULL, NULL};
  const char **words = cni_onnx_room(c, (size_t)values->n + 1, sizeof *words);
  void *paused = cn_trace_pause();
  for (int64_t i = 0; words && i < values->n; i++) {
    char *word = cn_strings_get(&values->s, i);
    if (word) words[i] = cni_arena_text(&c->room, (cni_wire_bytes){(unsigned char *)word, strlen(word)});
    cn_string_free(word);
  }
  if (words) words[values->n] = other;
  if (words && !cn_err()) cn_strings_from(&all, words, &(int64_t){values->n + 1}, 1);
  cn_trace_resume(paused);
  if (at && !cn_err()) cn_strings_take(&taken, &all, cn_where(cn_lt(at, cn_int(0)), cn_int(values->n), at));
  return cni_onnx_out_strings(c, 0, &taken);
}

/* ... to numbers; other: one of their type. */
static int out_numbers(cni_onnx_call *c, cn_tensor *at, const list *values, cn_tensor *other)
{
  if (!at || !other) return cn_err();
  cn_tensor *t = cn_take(values->t, cn_clamp(at, cn_int(0), NULL));
  return cni_onnx_out(c, 0, cn_where(cn_lt(at, cn_int(0)), other, t));
}

/* The one string of an attribute's tensor of strings; "" with the error set. */
static const char *one_word(cni_onnx_call *c, const cn_onnx_value *v)
{
  cn_strings s;
  if (!cn_onnx_value_as_strings(&s, v) || cn_numel(s.lengths) != 1)
    return cni_onnx_fail(c, CN_ERR_VALUE, "default_tensor is not one string"), "";
  void *paused = cn_trace_pause();
  char *word = cn_strings_get(&s, 0);
  cn_trace_resume(paused);
  const char *copy = word ? cni_arena_text(&c->room, (cni_wire_bytes){(unsigned char *)word, strlen(word)}) : NULL;
  cn_string_free(word);
  return copy ? copy : "";
}

/* Values by keys, from opset 2 on. */
static int label_encoder(cni_onnx_call *c)
{
  list keys, values;
  const cni_onnx_attr *a = cni_onnx_attr_of(c, "default_tensor");
  cn_onnx_value *other = a ? cni_onnx_tensor_of(c, "default_tensor") : NULL;
  if (list_of(&keys, c, "keys") || list_of(&values, c, "values")) return cn_err();
  if (keys.n != values.n) return cni_onnx_fail(c, CN_ERR_VALUE, "it has not as many keys as values");
  cn_tensor *at = places(c, 0, &keys);
  if (!at) return cn_err();
  if (values.text)
    return out_words(c, at, &values, other ? one_word(c, other) : cni_onnx_text(c, "default_string", "_Unused"));
  cn_dtype dtype = cn_dtype_of(values.t);
  if (other && (other->kind != CN_ONNX_TENSOR || cn_numel(other->t) != 1))
    return cni_onnx_fail(c, CN_ERR_VALUE, "default_tensor is not one number");
  if (other) return out_numbers(c, at, &values, cn_cast(cn_reshape(other->t, CN_SCALAR_SHAPE), dtype));
  bool real = cn_dtype_is_float(dtype);
  cn_tensor *number =
      real ? cn_num(cni_onnx_float(c, "default_float", -0.0)) : cn_int(cni_onnx_int(c, "default_int64", -1));
  return out_numbers(c, at, &values, number);
}

/* Words to numbers, or numbers to words: by what the input is. */
static int between(cni_onnx_call *c, const list *words, const list *numbers)
{
  const cn_onnx_value *v = cni_onnx_value_in(c, 0);
  if (!v) return cn_err();
  if (words->n != numbers->n) return cni_onnx_fail(c, CN_ERR_VALUE, "its lists are not as long as one another");
  bool text = v->kind == CN_ONNX_STRINGS;
  cn_tensor *at = places(c, 0, text ? words : numbers);
  if (!text) return out_words(c, at, words, cni_onnx_text(c, "default_string", "_Unused"));
  return out_numbers(c, at, numbers, cn_int(cni_onnx_int(c, "default_int64", -1)));
}

static int category_mapper(cni_onnx_call *c)
{
  list words = {.n = 0}, numbers = {.n = 0};
  size_t n;
  if (cni_onnx_ml_strings(&words.s, &n, c, "cats_strings")) return cn_err();
  words.text = true;
  words.n = (int64_t)n;
  numbers.t = cni_onnx_ml_vector(c, "cats_int64s", CN_I64);
  numbers.n = numbers.t ? cn_numel(numbers.t) : 0;
  return cn_err() ? cn_err() : between(c, &words, &numbers);
}

/* Opset 1: a word's number is its place. */
static int old_label_encoder(cni_onnx_call *c)
{
  list words, numbers = {.n = 0};
  if (list_of(&words, c, "classes")) return cn_err();
  void *paused = cn_trace_pause();
  numbers.t = cn_arange(0, (double)words.n, .dtype = CN_I64, .device = cni_onnx_device(c));
  cn_trace_resume(paused);
  numbers.n = words.n;
  return words.n ? between(c, &words, &numbers) : cni_onnx_fail(c, CN_ERR_VALUE, "it has no classes_strings");
}

/* A new last dimension with 1 at the place of the category. */
static int one_hot(cni_onnx_call *c)
{
  list cats;
  if (list_of(&cats, c, "cats")) return cn_err();
  cn_tensor *at = places(c, 0, &cats);
  if (!at) return cn_err();
  if (!cni_onnx_int(c, "zeros", 1)) cn_check_within(at, 0, (double)cats.n - 1, "an element is no category");
  if (cn_err()) return cn_err();
  cn_tensor *numbers = cn_arange(0, (double)cats.n, .dtype = CN_I64, .device = cn_device_of(at));
  cn_tensor *same = cn_eq(cn_unsqueeze(at, -1), numbers);
  return cni_onnx_out(c, 0, same ? cn_cast(same, CN_F32) : NULL);
}

/* ---- maps ---- */

static const cn_onnx_value *map_in(cni_onnx_call *c)
{
  const cn_onnx_value *v = cni_onnx_value_in(c, 0);
  if (v && v->kind != CN_ONNX_MAP) cni_onnx_fail(c, CN_ERR_TYPE, "its input is no map");
  return v && v->kind == CN_ONNX_MAP ? v : NULL;
}

/* (1, n): by places among the values of the map, -1: nothing, 0 or "". */
static int out_row(cni_onnx_call *c, cn_tensor *at, const cn_onnx_value *values, int64_t type)
{
  list v;
  at = at ? cn_unsqueeze(at, 0) : NULL;
  if (!at || of_value(&v, c, values)) return cn_err();
  if (v.text && type == CNI_ONNX_STRING) return out_words(c, at, &v, "");
  if (v.text) v = (list){.t = cn_strings_parse(&v.s, cni_onnx_dtype(type)), .n = v.n};
  else if (type != CNI_ONNX_STRING) v.t = v.t ? cn_cast(v.t, cni_onnx_dtype(type)) : NULL;
  if (!v.t) return cn_err();
  if (type != CNI_ONNX_STRING)
    return v.n ? out_numbers(c, at, &v, cn_int(0)) : cni_onnx_out(c, 0, cn_zeros_like(at, .dtype = cn_dtype_of(v.t)));
  list words = {.text = true, .n = v.n};
  return cn_strings_format(&words.s, v.t) ? cn_err() : out_words(c, at, &words, "");
}

/* Values in the vocabulary's order. */
static int dict_vectorizer(cni_onnx_call *c)
{
  list keys, given;
  const cn_onnx_value *map = map_in(c);
  if (!map || of_value(&given, c, map->items[0])) return cn_err();
  size_t n;
  keys = (list){.text = true};
  if (cni_onnx_ml_strings(&keys.s, &n, c, "string_vocabulary")) return cn_err();
  if (!n) keys = (list){.t = cni_onnx_ml_vector(c, "int64_vocabulary", CN_I64)};
  if (cn_err() || keys.text != given.text || (!keys.text && !keys.t))
    return cn_err() ? cn_err() : cni_onnx_fail(c, CN_ERR_TYPE, "its vocabulary is not of the map's keys");
  cn_tensor *at = keys.text ? cn_strings_find(&keys.s, &given.s) : place_among(keys.t, given.t);
  const cn_onnx_value *v = map->items[1];
  return out_row(c, at, v, v->kind == CN_ONNX_STRINGS ? CNI_ONNX_STRING : cni_onnx_type_of(cn_dtype_of(v->t)));
}

/* Values by whole keys: in their order, or each at its key's place among max_map. */
static int cast_map(cni_onnx_call *c)
{
  static const struct {
    const char *name;
    int64_t type;
  } types[] = {{"TO_FLOAT", 1}, {"TO_STRING", CNI_ONNX_STRING}, {"TO_INT64", 7}};
  const cn_onnx_value *map = map_in(c);
  const char *to = cni_onnx_text(c, "cast_to", "TO_FLOAT"), *form = cni_onnx_text(c, "map_form", "DENSE");
  int64_t most = cni_onnx_int(c, "max_map", 1);
  bool sparse = !strcmp(form, "SPARSE");
  size_t k = 0;
  list keys;
  while (k < 3 && strcmp(types[k].name, to) != 0) k++;
  if (!map || cn_err() || of_value(&keys, c, map->items[0])) return cn_err();
  if (k == 3 || (!sparse && strcmp(form, "DENSE") != 0) || keys.text || most < 1 || most > INT32_MAX)
    return cni_onnx_fail(c, CN_ERR_VALUE, "cast_to, map_form, max_map or its keys are out of range");
  cn_tensor *at = sparse
                      ? place_among(cn_arange(0, (double)most, .dtype = CN_I64, .device = cni_onnx_device(c)), keys.t)
                      : cn_argsort(keys.t);
  return out_row(c, at, map->items[1], types[k].type);
}

/* A map for each row: from labels to its scores. */
static int zip_map(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0);
  list labels;
  if (!x || list_of(&labels, c, "classlabels")) return cn_err();
  if (cn_ndim(x) == 1) x = cn_unsqueeze(x, 0);
  if (!labels.n || cn_ndim(x) != 2 || cn_size(x, 1) != labels.n)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "it takes (N, %lld): a score for each label", (long long)labels.n);
  size_t n = (size_t)cn_size(x, 0);
  cn_onnx_value **maps = cni_onnx_room(c, n + 1, sizeof *maps);
  cn_onnx_value *keys = labels.text ? cn_onnx_value_strings(&labels.s) : cni_onnx_take(labels.t);
  for (size_t i = 0; maps && keys && i < n && !cn_err(); i++) {
    cn_onnx_value *row = cni_onnx_take(cn_select(x, 0, (int64_t)i));
    maps[i] = row ? cn_onnx_value_map(keys, row) : NULL;
    cn_onnx_value_release(row);
  }
  cn_onnx_value *made = maps && keys && !cn_err() ? cn_onnx_value_sequence(maps, n) : NULL;
  for (size_t i = 0; maps && i < n; i++) cn_onnx_value_release(maps[i]);
  cn_onnx_value_release(keys);
  return made ? cni_onnx_out_value(c, 0, made) : cn_err();
}

const cni_onnx_op cni_onnx_labels_ops[] = {
    ONNX_FRESH("LabelEncoder", 1, old_label_encoder),
    ONNX_FRESH("LabelEncoder", 2, label_encoder),
    ONNX_FRESH("CategoryMapper", 1, category_mapper),
    ONNX_FRESH("OneHotEncoder", 1, one_hot),
    ONNX_FRESH("DictVectorizer", 1, dict_vectorizer),
    ONNX_FRESH("CastMap", 1, cast_map),
    ONNX_FRESH("ZipMap", 1, zip_map),
    {NULL, NULL, NULL, 0, 0},
};
