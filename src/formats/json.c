/* json.c: trees as JSON text and back. See tree.h.
 *
 * Invariant: any bytes are read or refused with the place; nesting is bounded, so the stack is. NaN and infinities,
 * which JSON does not have, are written and read as Python does (NaN, Infinity, -Infinity). */
#include "json.h"

#include <math.h>
#include <string.h>

#include "formats.h"

enum { DEEPEST = 256 };

/* ---- writing ---- */

void cni_json_put_string(cn_text *out, const char *s, size_t n)
{
  static const char names[] = "\"\\bfnrt", values[] = "\"\\\b\f\n\r\t";
  cn_text_put(out, "\"");
  for (size_t i = 0; i < n;) {
    size_t run = i;
    while (run < n && (unsigned char)s[run] >= 0x20 && s[run] != '"' && s[run] != '\\') run++;
    cn_text_put_bytes(out, s + i, run - i);
    if (run == n) break;
    const char *at = s[run] ? strchr(values, s[run]) : NULL;
    if (at) cn_text_putf(out, "\\%c", names[at - values]);
    else cn_text_putf(out, "\\u%04x", (unsigned)(unsigned char)s[run]);
    i = run + 1;
  }
  cn_text_put(out, "\"");
}

static void put_float(cn_text *out, double v)
{
  char text[CN_NUMBER_TEXT];
  if (isnan(v)) cn_text_put(out, "NaN");
  else if (isinf(v)) cn_text_put(out, v < 0 ? "-Infinity" : "Infinity");
  else {
    cn_text_put(out, cn_number_write(text, v, false));
    if (!strpbrk(text, ".e")) cn_text_put(out, ".0"); /* so that it reads back as what it is */
  }
}

static void put_break(cn_text *out, int indent, int depth)
{
  if (indent) cn_text_putf(out, "\n%*s", indent * depth, "");
}

/* Text that is no UTF-8 could not be read back: better now than then. */
static int put_text(cn_text *out, const char *s, size_t n)
{
  if (!cni_is_utf8(s, n)) return cn_err_set(CN_ERR_VALUE, "json: a text is not UTF-8");
  cni_json_put_string(out, s, n);
  return CN_OK;
}

static int put_value(cn_text *out, const cn_tree *tree, int indent, int depth);

static int put_items(cn_text *out, const cn_tree *tree, int indent, int depth)
{
  bool dict = cn_tree_kind_of(tree) == CN_TREE_DICT;
  size_t n = cn_tree_size(tree);
  cn_text_put(out, dict ? "{" : "[");
  for (size_t i = 0; i < n; i++) {
    int64_t index;
    const char *key = cn_tree_key(tree, i, &index);
    if (i) cn_text_put(out, indent ? "," : ", ");
    put_break(out, indent, depth + 1);
    int status = dict && key ? put_text(out, key, strlen(key)) : CN_OK;
    if (dict && !key) cn_text_putf(out, "\"%lld\"", (long long)index);
    if (dict) cn_text_put(out, ": ");
    if (!status) status = put_value(out, cn_tree_at(tree, i), indent, depth + 1);
    if (status) return status;
  }
  if (n) put_break(out, indent, depth);
  cn_text_put(out, dict ? "}" : "]");
  return CN_OK;
}

static int put_value(cn_text *out, const cn_tree *tree, int indent, int depth)
{
  if (depth > DEEPEST) return cn_err_set(CN_ERR_VALUE, "json: nested deeper than %d levels", DEEPEST);
  switch (cn_tree_kind_of(tree)) {
  case CN_TREE_NONE: cn_text_put(out, "null"); break;
  case CN_TREE_BOOL: cn_text_put(out, cn_tree_as_bool(tree, false) ? "true" : "false"); break;
  case CN_TREE_INT: cn_text_putf(out, "%lld", (long long)cn_tree_as_int(tree, 0)); break;
  case CN_TREE_FLOAT: put_float(out, cn_tree_as_float(tree, 0)); break;
  case CN_TREE_STR: return put_text(out, cn_tree_as_str(tree, ""), cn_tree_str_size(tree));
  case CN_TREE_TENSOR: return cn_err_set(CN_ERR_TYPE, "json: a tensor cannot be written as JSON");
  case CN_TREE_LIST:
  case CN_TREE_TUPLE:
  case CN_TREE_DICT: return put_items(out, tree, indent, depth);
  }
  return CN_OK;
}

char *cn_tree_to_json(const cn_tree *tree, int indent)
{
  cn_text out = {0};
  if (put_value(&out, tree, indent < 0 ? 0 : indent, 0)) {
    cn_text_free(&out);
    return NULL;
  }
  return cn_text_take(&out);
}

/* ---- reading ---- */

typedef struct reader {
  const char *begin, *s, *end;
  bool unique; /* a key that stands twice is an error */
} reader;

static cn_tree *bad(const reader *r, const char *what)
{
  cn_err_set(CN_ERR_IO, "json: %s at byte %zu", what, (size_t)(r->s - r->begin));
  return NULL;
}

static void skip_space(reader *r)
{
  while (r->s < r->end && (*r->s == ' ' || *r->s == '\n' || *r->s == '\t' || *r->s == '\r')) r->s++;
}

static bool eat(reader *r, char c)
{
  skip_space(r);
  if (r->s == r->end || *r->s != c) return false;
  r->s++;
  return true;
}

static bool eat_word(reader *r, const char *word)
{
  size_t n = strlen(word);
  if ((size_t)(r->end - r->s) < n || memcmp(r->s, word, n)) return false;
  r->s += n;
  return true;
}

/* Four hexadecimal digits; -1 when there are none. */
static int32_t hex4(reader *r)
{
  static const char digits16[] = "0123456789abcdef0123456789ABCDEF";
  int32_t v = 0;
  if (r->end - r->s < 4) return -1;
  for (int i = 0; i < 4; i++) {
    char c = *r->s++;
    const char *at = c ? strchr(digits16, c) : NULL;
    if (!at) return -1;
    v = v * 16 + (int32_t)((at - digits16) % 16);
  }
  return v;
}

/* Behind "\u": one code point, of two halves where it needs them. A lone half becomes the replacement character. */
static bool unicode(reader *r, cn_text *out)
{
  int32_t c = hex4(r);
  if (c < 0) return false;
  if (c >= 0xd800 && c < 0xdc00 && r->end - r->s >= 6 && r->s[0] == '\\' && r->s[1] == 'u') {
    reader ahead = *r;
    ahead.s += 2;
    int32_t low = hex4(&ahead);
    if (low >= 0xdc00 && low < 0xe000) {
      c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
      r->s = ahead.s;
    }
  }
  char bytes[4];
  cn_text_put_bytes(out, bytes, cn_utf8_write(bytes, c >= 0xd800 && c < 0xe000 ? 0xfffd : (uint32_t)c));
  return true;
}

static bool escape(reader *r, cn_text *out)
{
  static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
  if (r->s == r->end) return false;
  char c = *r->s++;
  if (c == 'u') return unicode(r, out);
  const char *at = c ? strchr(names, c) : NULL;
  if (at) cn_text_put_bytes(out, &values[at - names], 1);
  return at != NULL;
}

bool cni_is_utf8(const char *s, size_t n)
{
  uint32_t c;
  for (const char *end = s + n; s < end;) {
    size_t k = cn_utf8_read(&c, s, end);
    if (!k) return false;
    s += k;
  }
  return true;
}

/* A string, behind its opening quote, into out. */
static bool string(reader *r, cn_text *out)
{
  uint32_t c;
  for (;;) {
    const char *from = r->s;
    for (size_t n = 1; n && r->s < r->end && *r->s != '"' && *r->s != '\\' && (unsigned char)*r->s >= 0x20; r->s += n)
      n = (unsigned char)*r->s < 0x80 ? 1 : cn_utf8_read(&c, r->s, r->end);
    cn_text_put_bytes(out, from, (size_t)(r->s - from));
    if (r->s == r->end || (*r->s != '"' && *r->s != '\\')) return false;
    if (*r->s++ == '"') return !out->failed;
    if (!escape(r, out)) return false;
  }
}

static cn_tree *read_string(reader *r)
{
  cn_text text = {0};
  cn_tree *t = string(r, &text) ? cn_tree_str_bytes(text.s ? text.s : "", text.n) : bad(r, "a bad string");
  cn_text_free(&text);
  return t;
}

static size_t digits(const char *s, const char *end)
{
  const char *from = s;
  while (s < end && *s >= '0' && *s <= '9') s++;
  return (size_t)(s - from);
}

/* Bytes of the number at s by JSON's grammar; 0 when there is none. *whole: no fraction and no exponent. */
static size_t number_size(const char *s, const char *end, bool *whole)
{
  const char *from = s;
  if (s < end && *s == '-') s++;
  size_t n = digits(s, end);
  if (!n || (n > 1 && *s == '0')) return 0;
  s += n;
  *whole = true;
  if (s < end && *s == '.') {
    *whole = false;
    if (!(n = digits(++s, end))) return 0;
    s += n;
  }
  if (s < end && (*s == 'e' || *s == 'E')) {
    *whole = false;
    s++;
    if (s < end && (*s == '+' || *s == '-')) s++;
    if (!(n = digits(s, end))) return 0;
    s += n;
  }
  return (size_t)(s - from);
}

/* A whole number in int64_t's range is one; others are floats, as far as those reach. */
static cn_tree *read_number(reader *r)
{
  char text[112];
  bool whole = false, fits = true;
  size_t n = number_size(r->s, r->end, &whole);
  if (!n) return bad(r, "no value");
  if (n >= sizeof text) return bad(r, "a number of too many digits");
  memcpy(text, r->s, n);
  text[n] = 0;
  r->s += n;
  int64_t v = 0; /* counted downwards: there is one more below zero */
  for (size_t i = text[0] == '-'; whole && fits && i < n; i++)
    fits = !__builtin_mul_overflow(v, 10, &v) && !__builtin_sub_overflow(v, text[i] - '0', &v);
  if (whole && fits && (text[0] == '-' || v != INT64_MIN)) return cn_tree_int(text[0] == '-' ? v : -v);
  const char *stop;
  return cn_tree_float(cn_number_read(text, &stop));
}

static cn_tree *read_value(reader *r, int depth);

static cn_tree *read_list(reader *r, int depth)
{
  cn_tree *list = cn_tree_list();
  if (!list || eat(r, ']')) return list;
  do {
    if (cn_tree_push(list, read_value(r, depth + 1))) goto failed;
  } while (eat(r, ','));
  if (eat(r, ']')) return list;
  bad(r, "a list that does not end");
failed:
  cn_tree_free(list);
  return NULL;
}

static int read_pair(reader *r, cn_tree *dict, int depth)
{
  cn_text key = {0};
  int status = CN_ERR_IO;
  if (!eat(r, '"') || !string(r, &key)) bad(r, "a bad key");
  else if (!eat(r, ':')) bad(r, "a key without a value");
  else if (key.s && strlen(key.s) != key.n) bad(r, "a key with a zero in it");
  else if (r->unique && cn_tree_get(dict, key.s ? key.s : "")) bad(r, "a key that stands twice");
  else status = cn_tree_put(dict, key.s ? key.s : "", read_value(r, depth + 1));
  cn_text_free(&key);
  return status;
}

static cn_tree *read_dict(reader *r, int depth)
{
  cn_tree *dict = cn_tree_dict();
  if (!dict || eat(r, '}')) return dict;
  do {
    if (read_pair(r, dict, depth)) goto failed;
  } while (eat(r, ','));
  if (eat(r, '}')) return dict;
  bad(r, "a dictionary that does not end");
failed:
  cn_tree_free(dict);
  return NULL;
}

static cn_tree *read_value(reader *r, int depth)
{
  skip_space(r);
  if (depth > DEEPEST) return bad(r, "nested too deeply");
  if (eat(r, '{')) return read_dict(r, depth);
  if (eat(r, '[')) return read_list(r, depth);
  if (eat(r, '"')) return read_string(r);
  if (eat_word(r, "true")) return cn_tree_bool(true);
  if (eat_word(r, "false")) return cn_tree_bool(false);
  if (eat_word(r, "null")) return cn_tree_none();
  if (eat_word(r, "NaN")) return cn_tree_float((double)NAN);
  if (eat_word(r, "Infinity")) return cn_tree_float(HUGE_VAL);
  if (eat_word(r, "-Infinity")) return cn_tree_float(-HUGE_VAL);
  return read_number(r);
}

cn_tree *cni_json_read(const char *text, size_t size, bool unique)
{
  reader r = {text, text, text + size, unique};
  cn_tree *tree = read_value(&r, 0);
  skip_space(&r);
  if (!tree || r.s == r.end) return tree;
  cn_tree_free(tree);
  return bad(&r, "something behind the value");
}

cn_tree *cn_tree_from_json(const char *text, size_t size)
{
  static const char mark[] = "\xef\xbb\xbf"; /* what some editors put in front of UTF-8 */
  size_t skip = size >= 3 && !memcmp(text, mark, 3) ? 3 : 0;
  return cni_json_read(text + skip, size - skip, false);
}

/* ---- as a file ---- */

static bool is_json(const cni_source *s)
{
  size_t i = cni_begins(s, "\xef\xbb\xbf", 3) ? 3 : 0;
  while (i < s->size && s->data[i] && strchr(" \t\r\n", s->data[i])) i++;
  return i < s->size && (s->data[i] == '{' || s->data[i] == '[');
}

static cn_tree *read_json(cni_source *s) { return cn_tree_from_json((const char *)s->data, s->size); }

static int write_json(cn_writer *writer, const cn_tree *tree)
{
  char *text = cn_tree_to_json(tree, 2);
  int status = text ? cn_writer_put(writer, text, strlen(text)) : cn_err();
  if (!status) status = cn_writer_put(writer, "\n", 1);
  cn_string_free(text);
  return status;
}

const cni_format cni_format_json = {{CN_FORMAT_JSON, "json", ".json", CN_HOLDS_SETTINGS}, is_json, read_json,
                                    write_json, true};
