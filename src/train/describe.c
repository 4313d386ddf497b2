/* describe.c: description files: text in sections of `key = value`, read, changed and written. See cairn/train.h.
 *
 * Place in the flow: what sections mean is the business of describe_net.c, describe_data.c and describe_solver.c.
 * Invariant: a description that was read has only sections and keys that are known. */
#include "describe.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- messages ---- */

int cni_describe_fail(const cn_description *d, int line, const char *format, ...)
{
  char message[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  if (!line) return cn_err_set(CN_ERR_VALUE, "%s: %s", d->file, message);
  return cn_err_set(CN_ERR_VALUE, "%s:%d: %s", d->file, line, message);
}

int cni_describe_blame(const cn_description *d, int line, const char *what)
{
  char message[1024];
  int code = cn_err();
  snprintf(message, sizeof message, "%s", cn_err_message());
  cn_err_clear();
  if (!line) return cn_err_set(code, "%s: %s: %s", d->file, what, message);
  return cn_err_set(code, "%s:%d: %s: %s", d->file, line, what, message);
}

int cni_describe_unknown(const cn_description *d, int line, const char *what, const char *name, cni_name_at at,
                         const void *payload)
{
  cn_text text = {0};
  cn_text_putf(&text, "there is no %s '%s'", what, name);
  cni_put_nearest(&text, name, at, payload);
  int status = cni_describe_fail(d, line, "%s", text.s ? text.s : name);
  cn_text_free(&text);
  return status;
}

/* ---- heads ---- */

/* Kinds: i whole number, f number, s text, b true or false, I whole numbers, S texts, x text or number. */
static const struct head {
  const char *section, *key;
  char kind;
} heads[] = {
  {"net", "input", 'I'},      {"net", "classes", 'i'},    {"net", "zoo", 's'},        {"net", "pretrained", 's'},
  {"net", "image", 'i'},      {"net", "channels", 'i'},   {"net", "vocab", 'i'},      {"net", "config", 's'},

  {"data", "set", 's'},       {"data", "test", 'x'},      {"data", "labels", 'S'},    {"data", "batch", 'i'},
  {"data", "workers", 'i'},   {"data", "header", 'b'},    {"data", "target", 'x'},    {"data", "tokens", 's'},
  {"data", "length", 'i'},    {"data", "stride", 'i'},

  {"solver", "epochs", 'i'},  {"solver", "seed", 'i'},    {"solver", "optimizer", 's'}, {"solver", "schedule", 's'},
  {"solver", "step", 's'},    {"solver", "loss", 's'},    {"solver", "clip_norm", 'f'}, {"solver", "accumulate", 'i'},
  {"solver", "precision", 's'}, {"solver", "average", 'f'}, {"solver", "patience", 'i'}, {"solver", "monitor", 's'},
};
static const char *const head_sections[] = {"net", "data", "solver", "augment", "test", "transform"};

bool cni_is_head(const char *section)
{
  for (size_t i = 0; i < sizeof head_sections / sizeof *head_sections; i++)
    if (!strcmp(head_sections[i], section)) return true;
  return false;
}

bool cni_head_key(const char *section, const char *key)
{
  for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
    if (!strcmp(heads[i].section, section) && !strcmp(heads[i].key, key)) return true;
  return false;
}

static const char *head_key_at(size_t i, const void *section)
{
  for (size_t k = 0; k < sizeof heads / sizeof *heads; k++)
    if (!strcmp(heads[k].section, section) && i-- == 0) return heads[k].key;
  return NULL;
}

static bool is_text(const cn_tree *t) { return cn_tree_kind_of(t) == CN_TREE_STR; }

static bool fits(char kind, const cn_tree *v)
{
  cn_tree_kind is = cn_tree_kind_of(v);
  bool good = true;
  if (is == CN_TREE_LIST && (kind == 'I' || kind == 'S')) {
    for (size_t i = 0; i < cn_tree_size(v); i++) /* a class may be called 0 */
      good &= kind == 'I' ? cn_tree_kind_of(cn_tree_at(v, i)) == CN_TREE_INT
                          : is_text(cn_tree_at(v, i)) || cn_tree_kind_of(cn_tree_at(v, i)) == CN_TREE_INT;
    return good;
  }
  switch (kind) {
  case 'i': case 'I': return is == CN_TREE_INT;
  case 'f': return is == CN_TREE_INT || is == CN_TREE_FLOAT;
  case 'b': return is == CN_TREE_BOOL;
  case 'x': return is == CN_TREE_INT || is == CN_TREE_FLOAT || is == CN_TREE_STR;
  default: return is == CN_TREE_STR || (kind == 'S' && is == CN_TREE_INT);
  }
}

static const char *kind_text(char kind)
{
  switch (kind) {
  case 'i': return "a whole number";
  case 'I': return "whole numbers";
  case 'f': return "a number";
  case 'b': return "true or false";
  case 'x': return "a word or a number";
  default: return "a word";
  }
}

static int check_heads(const cn_description *d)
{
  for (size_t i = 0; i < d->n; i++)
    for (size_t k = 0; k < d->v[i].n; k++) {
      const cni_entry *e = &d->v[i].v[k];
      const struct head *h = NULL;
      for (size_t j = 0; j < sizeof heads / sizeof *heads && !h; j++)
        if (!strcmp(heads[j].section, d->v[i].name) && !strcmp(heads[j].key, e->key)) h = &heads[j];
      bool closed = !strcmp(d->v[i].name, "net") || !strcmp(d->v[i].name, "data");
      if (h && !fits(h->kind, e->value))
        return cni_describe_fail(d, e->line, "[%s]: %s must be %s", d->v[i].name, e->key, kind_text(h->kind));
      if (!h && closed) {
        char what[64];
        snprintf(what, sizeof what, "key of [%s]", d->v[i].name);
        return cni_describe_unknown(d, e->line, what, e->key, head_key_at, d->v[i].name);
      }
    }
  return CN_OK;
}

static int check(const cn_description *d)
{
  int status = check_heads(d);
  if (!status) status = cni_check_solver(d);
  if (!status) status = cni_check_transforms(d);
  return status ? status : cni_check_layers(d);
}

/* ---- sections ---- */

bool cni_described(const cn_description *d)
{
  if (!cn_err() && !d) cn_err_set(CN_ERR_TYPE, "the description is missing (NULL)");
  return !cn_err();
}

cni_section *cni_section_find(const cn_description *d, const char *name)
{
  for (size_t i = 0; d && i < d->n; i++)
    if (!strcmp(d->v[i].name, name)) return &d->v[i];
  return NULL;
}

const cni_entry *cni_entry_find(const cni_section *s, const char *key)
{
  for (size_t i = 0; s && i < s->n; i++)
    if (!strcmp(s->v[i].key, key)) return &s->v[i];
  return NULL;
}

static void entry_clear(cni_entry *e)
{
  cn_string_free(e->key);
  cn_string_free(e->raw);
  cn_tree_free(e->value);
}

static cni_section *add_section(cn_description *d, const char *name, size_t size, int line)
{
  if (cn_grow((void **)&d->v, &d->cap, d->n + 1, sizeof *d->v)) return NULL;
  char *copy = cn_string_copy_bytes(name, size);
  if (!copy) return NULL;
  d->v[d->n] = (cni_section){.name = copy, .line = line};
  return &d->v[d->n++];
}

/* Appends an entry, or replaces the one of that key where `replace`. */
static int put_entry(cni_section *s, const char *key, size_t key_size, const char *raw, size_t raw_size, int line,
                     bool replace)
{
  cni_entry e = {cn_string_copy_bytes(key, key_size), cn_string_copy_bytes(raw, raw_size),
                 cni_value_read(raw, raw_size), line};
  if (cn_err()) {
    entry_clear(&e);
    return cn_err();
  }
  for (size_t i = 0; replace && i < s->n; i++)
    if (!strcmp(s->v[i].key, e.key)) {
      entry_clear(&s->v[i]);
      s->v[i] = e;
      return CN_OK;
    }
  if (cn_grow((void **)&s->v, &s->cap, s->n + 1, sizeof *s->v)) {
    entry_clear(&e);
    return CN_ERR_MEMORY;
  }
  s->v[s->n++] = e;
  return CN_OK;
}

void cn_description_free(cn_description *d)
{
  if (!d) return;
  for (size_t i = 0; i < d->n; i++) {
    for (size_t k = 0; k < d->v[i].n; k++) entry_clear(&d->v[i].v[k]);
    cn_free(d->v[i].v, d->v[i].cap * sizeof *d->v[i].v);
    cn_string_free(d->v[i].name);
  }
  cn_free(d->v, d->cap * sizeof *d->v);
  cn_string_free(d->file);
  cn_free(d, sizeof *d);
}

/* ---- reading ---- */

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static bool is_key(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

/* As much of a text as a message shows; a line may be longer than an int counts. */
static int shown(ptrdiff_t size) { return size < 80 ? (int)size : 80; }

/* Where a line ends without its comment, which begins with # at the beginning or behind a space, = or ], and not in
 * quotes: so no value begins with one. */
static const char *without_comment(const char *s, const char *end)
{
  bool quote = false;
  for (const char *p = s; p < end; p++) {
    if (*p == '"') quote = !quote;
    if (*p == '#' && !quote && (p == s || is_space(p[-1]) || p[-1] == '=' || p[-1] == ']')) {
      end = p;
      break;
    }
  }
  while (end > s && is_space(end[-1])) end--;
  return end;
}

static const char *skip_space(const char *s, const char *end)
{
  while (s < end && (is_space(*s) || *s == ',')) s++;
  return s;
}

/* Where a value on a section's own line ends: behind its ] or ", or at a space or comma. */
static const char *word_end(const char *s, const char *end)
{
  int depth = 0;
  for (bool quote = false; s < end; s++) {
    if (*s == '"') quote = !quote;
    if (quote) continue;
    depth += (*s == '[') - (*s == ']');
    if (!depth && (is_space(*s) || *s == ',')) break;
  }
  return s;
}

/* `key = value` at s; inside: several of them stand on the line. Returns where it ends; NULL on failure. */
static const char *read_entry(cn_description *d, cni_section *section, const char *s, const char *end, int line,
                              bool several)
{
  const char *key = s, *key_end = s;
  while (key_end < end && is_key(*key_end)) key_end++;
  const char *eq = key_end;
  while (eq < end && is_space(*eq)) eq++;
  if (key == key_end || eq == end || *eq != '=') {
    cni_describe_fail(d, line, "cannot make sense of '%.*s'; a line is [section] or key = value", shown(end - s), s);
    return NULL;
  }
  const char *value = eq + 1;
  while (value < end && is_space(*value)) value++;
  if (several) end = word_end(value, end);
  char name[64];
  snprintf(name, sizeof name, "%.*s", shown(key_end - key), key);
  if (cni_entry_find(section, name)) {
    cni_describe_fail(d, line, "[%s]: %s is given twice", section->name, name);
    return NULL;
  }
  if (put_entry(section, key, (size_t)(key_end - key), value, (size_t)(end - value), line, false)) {
    cni_describe_blame(d, line, name);
    return NULL;
  }
  return end;
}

/* "[Conv2d] out_channels = 16 kernel_size = 3" */
static int read_section(cn_description *d, const char *s, const char *end, int line)
{
  const char *close = s + 1;
  while (close < end && is_key(*close)) close++;
  if (close == end || *close != ']' || close == s + 1)
    return cni_describe_fail(d, line, "cannot make sense of '%.*s'; a section is [name]", shown(end - s), s);
  char name[64];
  snprintf(name, sizeof name, "%.*s", shown(close - s - 1), s + 1);
  if (cni_is_head(name) && cni_section_find(d, name)) return cni_describe_fail(d, line, "a second [%s]", name);
  cni_section *section = add_section(d, s + 1, (size_t)(close - s - 1), line);
  if (!section) return cn_err();
  for (s = skip_space(close + 1, end); s && s < end; s = s ? skip_space(s, end) : NULL)
    s = read_entry(d, section, s, end, line, true);
  return cn_err();
}

static int read_lines(cn_description *d, const char *text, size_t size)
{
  const char *s = text, *stop = text + size;
  if (size >= 3 && !memcmp(s, "\xef\xbb\xbf", 3)) s += 3; /* the mark that some editors put before UTF-8 */
  for (int line = 1; s < stop && !cn_err(); line++) {
    const char *next = memchr(s, '\n', (size_t)(stop - s));
    const char *end = without_comment(s, next ? next : stop);
    while (s < end && is_space(*s)) s++;
    if (s < end && *s == '[') read_section(d, s, end, line);
    else if (s < end && !d->n) cni_describe_fail(d, line, "a key before the first [section]");
    else if (s < end) read_entry(d, &d->v[d->n - 1], s, end, line, false);
    s = next ? next + 1 : stop;
  }
  return cn_err();
}

cn_description *cn_description_read(const char *text, size_t size, const char *name)
{
  if (cn_err()) return NULL;
  cn_description *d = cn_alloc_zero(sizeof *d);
  if (!d) return NULL;
  d->file = cn_string_copy(name ? name : "description");
  if (d->file && memchr(text ? text : "", 0, text ? size : 0)) cni_describe_fail(d, 1, "this is not a text file");
  if (!cn_err() && text) read_lines(d, text, size);
  if (!cn_err()) check(d);
  if (!cn_err()) return d;
  cn_description_free(d);
  return NULL;
}

cn_description *cn_description_open(const char *path)
{
  cn_mapping file;
  if (cn_map_open(&file, path)) return NULL;
  cn_description *d = cn_description_read((const char *)file.data, file.size, path);
  cn_map_close(&file);
  return d;
}

/* ---- settings ---- */

const cn_tree *cn_description_get(const cn_description *d, const char *section, const char *key)
{
  const cni_entry *e = cni_entry_find(cni_section_find(d, section), key);
  return e ? e->value : NULL;
}

int64_t cni_describe_number(const cn_description *d, const char *section, const char *key, int64_t otherwise)
{
  return cn_tree_as_int(cn_description_get(d, section, key), otherwise);
}

const char *cni_describe_word(const cn_description *d, const char *section, const char *key, const char *otherwise)
{
  return cn_tree_as_str(cn_description_get(d, section, key), otherwise);
}

int cn_description_set(cn_description *d, const char *section, const char *key, const char *value)
{
  cni_section *s = cni_section_find(d, section);
  if (!cni_described(d)) return cn_err();
  if (!cni_is_head(section)) return cn_err_set(CN_ERR_VALUE, "%s: [%s] is not a head section", d->file, section);
  for (size_t i = 0; !value && s && i < s->n; i++)
    if (!strcmp(s->v[i].key, key)) {
      entry_clear(&s->v[i]);
      memmove(s->v + i, s->v + i + 1, (--s->n - i) * sizeof *s->v);
      return CN_OK;
    }
  if (!value) return CN_OK;
  if (!s) s = add_section(d, section, strlen(section), 0);
  if (!s || put_entry(s, key, strlen(key), value, strlen(value), 0, true)) return cn_err();
  return check(d);
}

char *cn_description_to_string(const cn_description *d)
{
  cn_text text = {0};
  if (!cni_described(d)) return NULL;
  for (size_t i = 0; i < d->n; i++) {
    const cni_section *s = &d->v[i];
    cn_text_putf(&text, "%s[%s]\n", i && (s->n || cni_is_head(s->name)) ? "\n" : "", s->name);
    for (size_t k = 0; k < s->n; k++) cn_text_putf(&text, "%s = %s\n", s->v[k].key, s->v[k].raw);
  }
  return cn_text_take(&text);
}
