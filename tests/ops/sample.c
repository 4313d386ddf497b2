/* sample.c: reads sample files. See sample.h for the grammar.
 *
 * Place in the flow: test_ops.c reads each family once; calls.c makes tensors of what stands here. Invariant: a line
 * that is read without an error names an op of the table and gives its parameters values of the right kind. */
#include "sample.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "ops/families.h"

typedef struct reader {
  const char *at;
  sample *s;
  char why[200];
} reader;

static bool wrong(reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool wrong(reader *r, const char *format, ...)
{
  va_list ap;
  va_start(ap, format);
  if (!r->why[0]) vsnprintf(r->why, sizeof r->why, format, ap);
  va_end(ap);
  return false;
}

static bool eat(reader *r, char c)
{
  while (*r->at == ' ') r->at++;
  if (*r->at != c) return false;
  r->at++;
  return true;
}

static size_t word_length(const char *s)
{
  size_t n = 0;
  if (!isalpha((unsigned char)*s) && *s != '_') return 0;
  while (isalnum((unsigned char)s[n]) || s[n] == '_') n++;
  return n;
}

static bool word(reader *r, char *out, size_t size)
{
  while (*r->at == ' ') r->at++;
  size_t n = word_length(r->at);
  if (!n || n >= size) return false;
  memcpy(out, r->at, n);
  out[n] = 0;
  r->at += n;
  return true;
}

static sample_item *new_item(reader *r)
{
  if (r->s->nitems == SAMPLE_ITEMS) {
    wrong(r, "more than %d values", SAMPLE_ITEMS);
    return NULL;
  }
  sample_item *it = &r->s->items[r->s->nitems++];
  memset(it, 0, sizeof *it);
  return it;
}

/* 12, -1.5, 1e-3, inf, nan. Leaves r where it is when there is no number. */
static bool number(reader *r, sample_item *it)
{
  char *end;
  while (*r->at == ' ') r->at++;
  const char *digits = r->at + (*r->at == '-');
  bool named = !strncmp(digits, "inf", 3) || !strncmp(digits, "nan", 3);
  if (!isdigit((unsigned char)*digits) && !(named && word_length(digits) == 3)) return false;
  it->f = strtod(r->at, &end);
  size_t whole = strspn(digits, "0123456789");
  if (digits + whole == end) {
    it->kind = ITEM_INT;
    it->i = strtoll(r->at, NULL, 10);
  } else {
    it->kind = ITEM_FLOAT;
  }
  r->at = end;
  return true;
}

/* ---- tensors ---- */

static bool shape(reader *r, sample_literal *l)
{
  sample_item d;
  r->at++; /* [ */
  if (eat(r, ']')) return true;
  do {
    if (l->ndim == CN_MAX_DIMS) return wrong(r, "too many dimensions");
    if (!number(r, &d) || d.kind != ITEM_INT || d.i < 0) return wrong(r, "a dimension is no number");
    l->shape[l->ndim++] = d.i;
  } while (eat(r, ','));
  return eat(r, ']') || wrong(r, "] is missing");
}

static bool values(reader *r, sample_literal *l, bool list)
{
  l->range = '=';
  l->first = r->s->nvalues;
  do {
    if (r->s->nvalues == SAMPLE_ITEMS) return wrong(r, "more than %d values", SAMPLE_ITEMS);
    if (!number(r, &r->s->values[r->s->nvalues++])) return wrong(r, "a value of a tensor is no number");
    l->count++;
  } while (list && eat(r, ','));
  return !list || eat(r, '}') || wrong(r, "} is missing");
}

static bool memory_suffix(reader *r, sample_literal *l)
{
  char c = *++r->at;
  if (!strncmp(r->at, "coo", 3) || !strncmp(r->at, "csr", 3) || !strncmp(r->at, "csc", 3)) {
    l->sparse = r->at[2];
    r->at += 3;
    return (l->ndim >= 1 && l->sparse == 'o') || l->ndim == 2 || wrong(r, "that layout does not fit the shape");
  }
  if (!strncmp(r->at, "cl", 2)) {
    if (l->ndim != 4 && l->ndim != 5) return wrong(r, ".cl wants 4 or 5 dims");
    r->at++;
  } else if (!strchr("tsoerd", c) || !c) {
    return wrong(r, "no memory layout .%c", c);
  }
  r->at++;
  if (c == 'o' || c == 'd') {
    *(c == 'o' ? &l->offset : &l->constant) = true;
    return true;
  }
  if (l->ndim < (c == 't' ? 2 : 1) || (c == 'e' && l->shape[0] < 1)) return wrong(r, ".%c does not fit the shape", c);
  l->layout = c;
  return true;
}

static bool suffixes(reader *r, sample_literal *l)
{
  for (;;) {
    char c = *r->at;
    if (c == '.') {
      if (!memory_suffix(r, l)) return false;
    } else if (c == '%') {
      char *end;
      l->range = c;
      l->arg = strtoll(r->at + 1, &end, 10);
      if (l->arg < 1) return wrong(r, "%%N wants a positive N");
      r->at = end;
    } else if (c && strchr("+<>~!", c)) {
      l->range = c;
      r->at++;
    } else if (c == '=' || c == '{') {
      r->at++;
      if (!values(r, l, c == '{')) return false;
    } else {
      return true;
    }
  }
}

static bool values_fit(reader *r, const sample_literal *l)
{
  int64_t n = 1;
  for (int i = 0; i < l->ndim; i++) n *= l->shape[i];
  if (l->range != '=' || l->count == 1 || l->count == n) return true;
  return wrong(r, "%d values for %lld elements", l->count, (long long)n);
}

/* At "f32[": a tensor literal. */
static bool literal(reader *r, int dtype, sample_item *it)
{
  sample *s = r->s;
  if (s->nliterals == SAMPLE_INPUTS) return wrong(r, "more than %d tensors", SAMPLE_INPUTS);
  sample_literal *l = &s->literals[s->nliterals];
  it->kind = ITEM_TENSOR;
  it->literal = s->nliterals;
  l->dtype = dtype;
  l->index = s->nliterals++;
  return shape(r, l) && suffixes(r, l) && values_fit(r, l);
}

/* ---- values of arguments ---- */

static bool item(reader *r, sample_item *it)
{
  char name[24];
  if (number(r, it)) return true;
  size_t n = word_length(r->at);
  if (!n || n >= sizeof name) return wrong(r, "no value at \"%.20s\"", r->at);
  word(r, name, sizeof name);
  int dtype = (int)cn_dtype_find(name);
  if (dtype && *r->at == '[') return literal(r, dtype, it);
  if (!strcmp(name, "None")) return true;
  it->kind = ITEM_BOOL;
  it->i = !strcmp(name, "True");
  it->f = (double)it->i;
  return it->i || !strcmp(name, "False") || wrong(r, "no value '%s'", name);
}

static bool list(reader *r, sample_arg *a)
{
  a->kind = ARG_LIST;
  a->first = r->s->nitems;
  if (eat(r, ']')) return true;
  do {
    sample_item *it = new_item(r);
    if (!it || !item(r, it)) return false;
    a->count++;
  } while (eat(r, ','));
  return eat(r, ']') || wrong(r, "] is missing");
}

static bool text(reader *r, sample_arg *a)
{
  const char *end = strchr(r->at, '\'');
  if (!end || (size_t)(end - r->at) >= sizeof a->word) return wrong(r, "' is missing, or the text is too long");
  a->kind = ARG_WORD;
  memcpy(a->word, r->at, (size_t)(end - r->at));
  r->at = end + 1;
  return true;
}

static bool value(reader *r, const cni_param *p, sample_arg *a)
{
  if (eat(r, '[')) return list(r, a);
  if (eat(r, '\'')) return text(r, a);
  bool by_name = p->type == CNI_T_DTYPE || p->type == CNI_T_DEVICE;
  if (by_name && strncmp(r->at, "None", 4)) {
    a->kind = ARG_WORD;
    return word(r, a->word, sizeof a->word) || wrong(r, "a name is missing");
  }
  sample_item *it = new_item(r);
  if (!it || !item(r, it)) return false;
  a->kind = it->kind == ITEM_NONE ? ARG_NONE : ARG_ONE;
  a->first = r->s->nitems - 1;
  a->count = 1;
  return true;
}

/* Is the value of a kind that this parameter takes? */
static bool suits(reader *r, const cni_param *p, const sample_arg *a)
{
  const sample_item *it = &r->s->items[a->first];
  bool tensor = p->type == CNI_T_TENSOR, fine = true;
  if (a->kind == ARG_NONE) return true;
  if (a->kind == ARG_WORD) fine = p->type == CNI_T_STR || p->type == CNI_T_DTYPE || p->type == CNI_T_DEVICE;
  else if (p->type == CNI_T_STR) fine = false;
  else if (a->kind == ARG_LIST && !p->list) fine = false;
  else if (a->kind == ARG_ONE && p->list && tensor) fine = false;
  for (int i = 0; fine && a->kind != ARG_WORD && i < a->count; i++) {
    if (it[i].kind == ITEM_TENSOR) fine = tensor;
    if (p->type == CNI_T_INT && it[i].kind == ITEM_FLOAT) fine = false;
    if (p->type == CNI_T_DTYPE) fine = false;
  }
  if (fine && p->type == CNI_T_DTYPE) fine = cn_dtype_find(a->word) != CN_DTYPE_NONE;
  return fine || wrong(r, "parameter '%s' does not take this value", p->name);
}

/* The parameter a value goes to: by name, or the first without a value. */
static int parameter(reader *r)
{
  const cni_opinfo *info = r->s->info;
  char name[CNI_NAME_MAX];
  const char *start = r->at;
  int i = 0;
  if (word(r, name, sizeof name) && eat(r, '=')) {
    while (i < info->nparams && strcmp(info->params[i].name, name)) i++;
    if (i == info->nparams || r->s->args[i].kind != ARG_DEFAULT) {
      wrong(r, "no parameter '%s', or it is given twice", name);
      return -1;
    }
    return i;
  }
  r->at = start;
  while (i < info->nparams && r->s->args[i].kind != ARG_DEFAULT) i++;
  if (i < info->nparams) return i;
  wrong(r, "too many arguments");
  return -1;
}

static bool arguments(reader *r)
{
  if (eat(r, ')')) return true;
  do {
    while (*r->at == ' ') r->at++;
    int i = parameter(r);
    if (i < 0) return false;
    const cni_param *p = &r->s->info->params[i];
    if (!value(r, p, &r->s->args[i]) || !suits(r, p, &r->s->args[i])) return false;
  } while (eat(r, ','));
  return eat(r, ')') || wrong(r, ") is missing at \"%.20s\"", r->at);
}

static uint64_t fnv1a(const char *s)
{
  uint64_t h = 0xcbf29ce484222325u;
  for (; *s; s++) h = (h ^ (unsigned char)*s) * 0x100000001b3u;
  return h;
}

static bool read_line(reader *r, char *line)
{
  static const char *const marks[] = {"!c ", "! ", "@ ", "~ "};
  char name[CNI_NAME_MAX];
  sample *s = r->s;
  for (int i = 0; i < 4; i++) {
    size_t n = strlen(marks[i]);
    if (strncmp(line, marks[i], n)) continue;
    s->must_fail = i < 2;
    s->large = i == 2;
    line += n;
    break;
  }
  s->text = line;
  s->hash = fnv1a(line);
  r->at = line;
  if (!word(r, name, sizeof name) || !eat(r, '(')) return wrong(r, "does not begin with an op's name and (");
  s->info = cni_op_by_name(name);
  if (!s->info) return wrong(r, "there is no op '%s'", name);
  return arguments(r) && (!*r->at || wrong(r, "more text after )"));
}

/* ---- files ---- */

char *sample_read_file(const char *path, size_t *size)
{
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  char *data = NULL;
  if (!fseek(f, 0, SEEK_END)) {
    long n = ftell(f);
    rewind(f);
    data = n >= 0 ? malloc((size_t)n + 1) : NULL;
    if (data) {
      *size = fread(data, 1, (size_t)n, f);
      data[*size] = 0;
    }
  }
  fclose(f);
  return data;
}

static int read_all(sample_list *l, const char *path, char *message, size_t size)
{
  int line = 0;
  for (char *at = l->text, *next; at; at = next) {
    char *end = strchr(at, '\n');
    next = end ? end + 1 : NULL;
    line++;
    if (end) *end = 0;
    if (!*at || *at == '#') continue;
    sample *more = realloc(l->all, (l->count + 1) * sizeof *more);
    if (!more) return -1;
    l->all = more;
    reader r = {.s = &l->all[l->count++]};
    memset(r.s, 0, sizeof *r.s);
    r.s->line = line;
    if (read_line(&r, at)) continue;
    snprintf(message, size, "%s:%d: %s\n    %s", path, line, r.why, at);
    return -1;
  }
  return 0;
}

int sample_read(sample_list *l, const char *family, char *message, size_t size)
{
  char path[512];
  size_t bytes;
  memset(l, 0, sizeof *l);
  cni_init();
  snprintf(path, sizeof path, "%s/tests/ops/%s.samples", CN_TEST_SOURCE_DIR, family);
  l->text = sample_read_file(path, &bytes);
  if (l->text) return read_all(l, path, message, size);
  snprintf(message, size, "%s cannot be read", path);
  return -1;
}

void sample_list_free(sample_list *l)
{
  free(l->all);
  free(l->text);
  memset(l, 0, sizeof *l);
}

bool sample_has_range(const sample *s, char range, bool floats_only)
{
  for (int i = 0; i < s->nliterals; i++)
    if (s->literals[i].range == range && (!floats_only || cn_dtype_is_float((cn_dtype)s->literals[i].dtype)))
      return true;
  return false;
}

bool sample_is_sparse(const sample *s)
{
  for (int i = 0; i < s->nliterals; i++)
    if (s->literals[i].sparse) return true;
  return s->info->row->flags & CN_OP_SPARSE;
}

bool sample_has_layout(const sample *s)
{
  for (int i = 0; i < s->nliterals; i++)
    if (s->literals[i].layout || s->literals[i].offset) return true;
  return false;
}
