/* describe_value.c: the values of description files: their grammar, how they become arguments, and names that look
 * alike.
 *
 * Place in the flow: below describe.c. Invariant: a value is data; nothing in it is computed. */
#include <string.h>

#include "describe.h"

/* ---- grammar ---- */

typedef struct reader {
  const char *s, *end;
} reader;

static void skip(reader *r)
{
  while (r->s < r->end && (*r->s == ' ' || *r->s == '\t')) r->s++;
}

static bool is_word(const char *s, size_t n, const char *word)
{
  return strlen(word) == n && !memcmp(s, word, n);
}

static cn_tree *number_or_text(const char *s, size_t n)
{
  char text[64];
  const char *end;
  size_t digits = n && (*s == '-' || *s == '+');
  if (!n || n >= sizeof text) return cn_tree_str_bytes(s, n);
  memcpy(text, s, n);
  text[n] = 0;
  bool whole = digits < n && n - digits <= 18;
  int64_t value = 0;
  for (size_t i = digits; whole && i < n; i++) {
    whole = s[i] >= '0' && s[i] <= '9';
    if (whole) value = value * 10 + (s[i] - '0');
  }
  if (whole) return cn_tree_int(*s == '-' ? -value : value);
  double v = cn_number_read(text, &end);
  return end == text + n ? cn_tree_float(v) : cn_tree_str_bytes(s, n);
}

static cn_tree *bare(const char *s, size_t n)
{
  if (is_word(s, n, "true") || is_word(s, n, "True")) return cn_tree_bool(true);
  if (is_word(s, n, "false") || is_word(s, n, "False")) return cn_tree_bool(false);
  if (is_word(s, n, "none") || is_word(s, n, "None")) return cn_tree_none();
  return number_or_text(s, n);
}

static cn_tree *list(reader *r, char close, int depth);

static cn_tree *quoted(reader *r)
{
  const char *begin = ++r->s;
  while (r->s < r->end && *r->s != '"') r->s++;
  if (r->s == r->end) {
    cn_err_set(CN_ERR_VALUE, "a text has no closing \"");
    return NULL;
  }
  return cn_tree_str_bytes(begin, (size_t)(r->s++ - begin));
}

static cn_tree *item(reader *r, int depth)
{
  skip(r);
  if (r->s < r->end && *r->s == '"') return quoted(r);
  if (r->s < r->end && *r->s == '[') {
    r->s++;
    return list(r, ']', depth + 1);
  }
  const char *begin = r->s;
  while (r->s < r->end && *r->s != ',' && *r->s != ']') r->s++;
  size_t n = (size_t)(r->s - begin);
  while (n && (begin[n - 1] == ' ' || begin[n - 1] == '\t')) n--;
  if (n) return bare(begin, n);
  cn_err_set(CN_ERR_VALUE, "a value is missing");
  return NULL;
}

/* Items up to `close` (0: the end), separated by commas. */
static cn_tree *list(reader *r, char close, int depth)
{
  cn_tree *all = cn_tree_list();
  if (depth > 4) cn_err_set(CN_ERR_VALUE, "lists nest too deep");
  for (bool more = !cn_err(); more && !cn_err();) {
    cn_tree_push(all, item(r, depth));
    skip(r);
    more = r->s < r->end && *r->s == ',';
    if (more) r->s++;
  }
  if (!cn_err() && close && (r->s == r->end || *r->s != close)) cn_err_set(CN_ERR_VALUE, "a list has no closing ]");
  if (!cn_err() && close) r->s++;
  if (!cn_err()) return all;
  cn_tree_free(all);
  return NULL;
}

/* A value in brackets, or with a comma, is a list; else its one item. */
cn_tree *cni_value_read(const char *text, size_t size)
{
  reader r = {text, text + size};
  if (!size) {
    cn_err_set(CN_ERR_VALUE, "a value is missing");
    return NULL;
  }
  cn_tree *all = list(&r, 0, 0);
  if (all && r.s != r.end) {
    cn_err_set(CN_ERR_VALUE, "cannot make sense of '%.*s'", r.end - r.s < 80 ? (int)(r.end - r.s) : 80, r.s);
    cn_tree_free(all);
    return NULL;
  }
  if (!all || cn_tree_size(all) != 1) return all;
  cn_tree *one = cn_tree_copy(cn_tree_at(all, 0), false);
  cn_tree_free(all);
  return one;
}

/* ---- arguments ---- */

static bool is_number(const cn_tree *t)
{
  return cn_tree_kind_of(t) == CN_TREE_INT || cn_tree_kind_of(t) == CN_TREE_FLOAT;
}

static bool whole(const cn_tree *t) { return cn_tree_kind_of(t) == CN_TREE_INT; }

/* The elements of a list, or the value itself where it is not one. */
static const cn_tree *element(const cn_tree *value, size_t i)
{
  return cn_tree_kind_of(value) == CN_TREE_LIST ? cn_tree_at(value, i) : value;
}

static bool fill_list(cni_given *g, int i, const cn_tree *value, bool ints)
{
  size_t n = cn_tree_kind_of(value) == CN_TREE_LIST ? cn_tree_size(value) : 1;
  if (n > CNI_LONGEST) return false;
  for (size_t k = 0; k < n; k++) {
    const cn_tree *e = element(value, k);
    if (ints ? !whole(e) : !is_number(e)) return false;
    g->ints[i][k] = cn_tree_as_int(e, 0);
    g->floats[i][k] = cn_tree_as_float(e, 0);
  }
  g->v[i] = ints ? cn_v_ints(g->ints[i], n) : cn_v_floats(g->floats[i], n);
  return true;
}

/* dtypes and devices go by their names. */
static bool fill_name(cn_value *v, const char *type, const char *name)
{
  if (cn_string_starts(type, "dtype")) {
    cn_dtype dtype = cn_dtype_find(name);
    *v = cn_v_int(dtype);
    return dtype != CN_DTYPE_NONE;
  }
  *v = cn_v_str(name);
  return cn_string_starts(type, "str") || strstr(type, "|str");
}

static bool fill(cni_given *g, int i, const char *type, const cn_tree *value)
{
  bool many = strchr(type, '[') && (cn_string_starts(type, "int") || cn_string_starts(type, "float"));
  switch (cn_tree_kind_of(value)) {
  case CN_TREE_NONE: g->v[i] = cn_v_none(); return true;
  case CN_TREE_BOOL: g->v[i] = cn_v_bool(cn_tree_as_bool(value, false)); return cn_string_starts(type, "bool");
  case CN_TREE_STR: return fill_name(&g->v[i], type, cn_tree_as_str(value, ""));
  case CN_TREE_LIST: return many && fill_list(g, i, value, *type == 'i');
  default: break;
  }
  if (many) return fill_list(g, i, value, *type == 'i');
  if (strchr(type, '[')) return false;
  if (cn_string_starts(type, "float")) g->v[i] = cn_v_float(cn_tree_as_float(value, 0));
  else if (cn_string_starts(type, "int")) g->v[i] = cn_v_int(cn_tree_as_int(value, 0));
  else if (cn_string_starts(type, "bool")) g->v[i] = cn_v_bool(cn_tree_as_int(value, 0) != 0);
  else return false;
  return cn_string_starts(type, "float") || whole(value);
}

static const char *wanted(const char *type)
{
  if (strstr(type, "|str")) return "whole numbers or a word";
  if (cn_string_starts(type, "int[")) return "whole numbers";
  if (cn_string_starts(type, "float[")) return "numbers";
  if (cn_string_starts(type, "int")) return "a whole number";
  if (cn_string_starts(type, "float")) return "a number";
  if (cn_string_starts(type, "bool")) return "true or false";
  if (cn_string_starts(type, "str")) return "a word";
  if (cn_string_starts(type, "dtype")) return "a type such as float32";
  return NULL;
}

cni_given *cni_given_new(const cn_signature *sig)
{
  cni_given *given = sig ? cn_alloc_zero(sizeof *given) : NULL;
  for (int i = 0; given && i < cn_signature_size(sig); i++) {
    cn_op_param p;
    cn_signature_param(&p, sig, i);
    if (p.optional) given->v[i] = p.default_value;
  }
  return given;
}

void cni_given_free(cni_given *given) { cn_free(given, sizeof *given); }

int cni_given_set(cni_given *given, const cn_signature *sig, int i, const cn_tree *value)
{
  cn_op_param p;
  int status = cn_signature_param(&p, sig, i);
  if (status) return status;
  if (!wanted(p.type))
    return cn_err_set(CN_ERR_VALUE, "%s cannot be given in a description file: it is a %s", p.name, p.type);
  if (fill(given, i, p.type, value)) return CN_OK;
  return cn_err_set(CN_ERR_VALUE, "%s must be %s", p.name, wanted(p.type));
}

const char *cni_parameter_at(size_t i, const void *signature)
{
  cn_op_param p;
  const cn_signature *s = signature;
  return (int)i < cn_signature_size(s) && !cn_signature_param(&p, s, (int)i) ? p.name : NULL;
}

/* ---- names that look alike ---- */

static int lower(char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; }

static int least(int a, int b, int c)
{
  int m = a < b ? a : b;
  return m < c ? m : c;
}

/* Insertions, deletions and replacements from one to the other, whatever the case; names longer than 40 letters are
 * compared up to there. */
static int distance(const char *a, const char *b)
{
  enum { MOST = 40 };
  int row[MOST + 1], n = 0;
  while (n < MOST && b[n]) n++;
  for (int k = 0; k <= n; k++) row[k] = k;
  for (int i = 0; i < MOST && a[i]; i++) {
    int corner = row[0];
    row[0] = i + 1;
    for (int k = 1; k <= n; k++) {
      int above = row[k];
      row[k] = least(above + 1, row[k - 1] + 1, corner + (lower(a[i]) != lower(b[k - 1])));
      corner = above;
    }
  }
  return row[n];
}

void cni_put_nearest(cn_text *out, const char *name, cni_name_at at, const void *payload)
{
  enum { SHOWN = 3, FEW = 12, SOME = 48 };
  size_t best[SHOWN], n = 0, count = 0;
  int away[SHOWN];
  const char *other;
  for (; (other = at(count, payload)); count++) {
    int far = distance(name, other), limit = (int)strlen(name) / 2 + 1;
    if (far > limit || (n == SHOWN && far >= away[SHOWN - 1])) continue;
    size_t k = n < SHOWN ? n++ : SHOWN - 1;
    for (; k && away[k - 1] > far; k--) best[k] = best[k - 1], away[k] = away[k - 1];
    best[k] = count;
    away[k] = far;
  }
  if (count && (count <= FEW || (!n && count <= SOME))) {
    cn_text_put(out, count > 1 ? "; there are " : "; there is ");
    for (size_t i = 0; i < count; i++) cn_text_putf(out, "%s%s", i ? ", " : "", at(i, payload));
  } else if (n) {
    cn_text_put(out, n > 1 ? "; the nearest are " : "; the nearest is ");
    for (size_t i = 0; i < n; i++) cn_text_putf(out, "%s%s", i ? ", " : "", at(best[i], payload));
  }
}
