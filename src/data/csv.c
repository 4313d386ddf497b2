/* csv.c: tables of numbers from CSV files. See data.h.
 *
 * Place in the flow: ends in rows.c. One pass over the mapped file; a number is read where it stands, and only what
 * is quoted is copied. Invariant: every row has as many fields as the first, or the file is refused with the line's
 * number. */
#include <cairn/ext/hash.h>
#include <cairn/ext/signature.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"

/* A field: its text without quotes, in the file or (with quotes doubled in it) in the reader's scratch. */
typedef struct slice {
  const char *s;
  size_t n;
} slice;

/* Texts by number of first sight. */
typedef struct names {
  slice *v;
  size_t n, cap;
  size_t *table; /* number + 1 of the text at its hash; a power of two of slots */
  size_t slots;
} names;

typedef struct reader {
  const char *path;
  const char *at, *end;
  char delimiter;
  long line;
  char *scratch;
  size_t scratch_cap;
  bool row_ended; /* by the field read last */
  int64_t columns, target; /* target -1: none */
  bool classes;
  float *x;
  size_t nx, x_cap;
  float *y;
  int64_t *ids;
  size_t ny, y_cap;
  names texts;
} reader;

static int fail(const reader *r, const char *what)
{
  return cn_err_set(CN_ERR_IO, "%s: line %ld: %s", r->path, r->line, what);
}

/* ---- fields ---- */

/* Behind a field: takes the delimiter or the line's end. */
static int end_field(reader *r)
{
  if (r->at < r->end && *r->at == r->delimiter) {
    r->at++;
    r->row_ended = false;
    return CN_OK;
  }
  if (r->at < r->end && *r->at == '\r') r->at++;
  if (r->at < r->end && *r->at == '\n') r->at++;
  else if (r->at < r->end && r->at[-1] != '\r') return fail(r, "text behind a closing quote");
  r->row_ended = true;
  return CN_OK;
}

static int quoted_field(slice *f, reader *r)
{
  size_t n = 0;
  for (r->at++; r->at < r->end; r->at++) {
    if (*r->at == '"' && (r->at + 1 == r->end || r->at[1] != '"')) {
      r->at++;
      *f = (slice){r->scratch ? r->scratch : "", n};
      return end_field(r);
    }
    if (*r->at == '"') r->at++; /* a doubled one stands for itself */
    r->line += *r->at == '\n';
    if (cn_grow((void **)&r->scratch, &r->scratch_cap, n + 1, 1)) return cn_err();
    r->scratch[n++] = *r->at;
  }
  return fail(r, "a quote is not closed");
}

static int next_field(slice *f, reader *r)
{
  if (r->at < r->end && *r->at == '"') return quoted_field(f, r);
  const char *p = r->at;
  while (p < r->end && *p != r->delimiter && *p != '\n' && *p != '\r') p++;
  *f = (slice){r->at, (size_t)(p - r->at)};
  r->at = p;
  return end_field(r);
}

static bool skip_blank_lines(reader *r)
{
  while (r->at < r->end && (*r->at == '\n' || *r->at == '\r')) {
    r->line += *r->at == '\n';
    r->at++;
  }
  return r->at < r->end;
}

/* ---- numbers ---- */

static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* A plain decimal number that doubles hold exactly by one product or quotient (up to 15 digits, small exponents);
 * returns the place behind it, or NULL where it takes more care. */
static const char *quick_number(double *v, const char *p, const char *end)
{
  bool minus = p < end && *p == '-';
  p += minus;
  uint64_t digits = 0;
  int count = 0, exponent = 0;
  for (; p < end && *p >= '0' && *p <= '9'; p++, count++) digits = digits * 10 + (uint64_t)(*p - '0');
  if (p < end && *p == '.') {
    const char *point = ++p;
    for (; p < end && *p >= '0' && *p <= '9'; p++, count++) digits = digits * 10 + (uint64_t)(*p - '0');
    exponent = (int)(point - p);
  }
  if (!count || count > 15) return NULL;
  if (p < end && (*p == 'e' || *p == 'E')) {
    bool down = ++p < end && *p == '-';
    int e = 0, figures = 0;
    if (p < end && (*p == '-' || *p == '+')) p++;
    for (; p < end && *p >= '0' && *p <= '9' && figures < 4; p++, figures++) e = e * 10 + (*p - '0');
    if (!figures) return NULL;
    exponent += down ? -e : e;
  }
  if (exponent < -22 || exponent > 22) return NULL;
  double whole = (double)(int64_t)digits, scaled = exponent < 0 ? whole / tens[-exponent] : whole * tens[exponent];
  *v = minus ? -scaled : scaled;
  return p;
}

static bool is_missing(slice f)
{
  static const char *const words[] = {"", "NA", "N/A", "#N/A", "n/a", "NaN", "nan", "NAN", "NULL", "null", "None", "?"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strlen(words[i]) == f.n && !memcmp(words[i], f.s, f.n)) return true;
  return false;
}

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static slice trimmed(slice f)
{
  while (f.n && is_space(*f.s)) f.s++, f.n--;
  while (f.n && is_space(f.s[f.n - 1])) f.n--;
  return f;
}

/* Whether the text is a number, or missing (which reads as NaN). */
static bool field_number(double *v, slice f)
{
  char text[64];
  const char *end;
  f = trimmed(f);
  if (is_missing(f)) {
    *v = NAN;
    return true;
  }
  if (quick_number(v, f.s, f.s + f.n) == f.s + f.n) return true;
  if (f.n >= sizeof text) return false;
  memcpy(text, f.s, f.n);
  text[f.n] = 0;
  *v = cn_number_read(text, &end);
  return f.n && (size_t)(end - text) == f.n;
}

/* ---- classes ---- */

/* Where a text's search begins. Seeded by the table's address: no file can be made whose texts all meet there. */
static size_t slot_of(const names *t, slice f)
{
  uint64_t h = cn_hash_more(CN_HASH_BEGIN ^ (uintptr_t)t->table, f.s, f.n);
  h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
  return (size_t)(h ^ h >> 32) & (t->slots - 1);
}

static void put_slot(names *t, size_t number)
{
  size_t i = slot_of(t, t->v[number]);
  while (t->table[i]) i = (i + 1) & (t->slots - 1);
  t->table[i] = number + 1;
}

static int widen_table(names *t)
{
  size_t slots = t->slots ? 2 * t->slots : 64;
  size_t *table = cn_alloc_zero(slots * sizeof *table);
  if (!table) return cn_err();
  cn_free(t->table, t->slots * sizeof *t->table);
  t->table = table;
  t->slots = slots;
  for (size_t i = 0; i < t->n; i++) put_slot(t, i);
  return CN_OK;
}

/* The number of a text; -1 without memory. */
static int64_t number_of(names *t, slice f)
{
  if (2 * (t->n + 1) > t->slots && widen_table(t)) return -1;
  for (size_t i = slot_of(t, f); t->table[i]; i = (i + 1) & (t->slots - 1)) {
    const slice *known = &t->v[t->table[i] - 1];
    if (known->n == f.n && !memcmp(known->s, f.s, f.n)) return (int64_t)t->table[i] - 1;
  }
  if (cn_grow((void **)&t->v, &t->cap, t->n + 1, sizeof *t->v)) return -1;
  char *copy = cn_alloc(f.n + 1);
  if (!copy) return -1;
  memcpy(copy, f.s, f.n);
  copy[f.n] = 0;
  t->v[t->n] = (slice){copy, f.n};
  put_slot(t, t->n);
  return (int64_t)t->n++;
}

static void free_names(names *t)
{
  for (size_t i = 0; i < t->n; i++) cn_free((void *)(uintptr_t)t->v[i].s, t->v[i].n + 1);
  cn_free(t->v, t->cap * sizeof *t->v);
  cn_free(t->table, t->slots * sizeof *t->table);
}

typedef struct sorted {
  const char *text;
  double number;
  size_t from;
} sorted;

static int by_number(const void *a, const void *b)
{
  double x = ((const sorted *)a)->number, y = ((const sorted *)b)->number;
  return x < y ? -1 : x > y ? 1 : 0;
}

static int by_text(const void *a, const void *b)
{
  return strcmp(((const sorted *)a)->text, ((const sorted *)b)->text);
}

/* Classes in the order of their texts, or of their numbers where all are numbers; rows are numbered anew. */
static int sort_classes(reader *r, cn_dataset *set, int64_t *ids)
{
  size_t n = r->texts.n;
  sorted *v = cn_alloc(n * sizeof *v);
  const char **labels = cn_alloc(n * sizeof *labels);
  int64_t *to = cn_alloc(n * sizeof *to);
  bool numbers = true;
  for (size_t i = 0; v && i < n; i++) {
    v[i] = (sorted){r->texts.v[i].s, 0, i};
    numbers = numbers && field_number(&v[i].number, r->texts.v[i]) && !isnan(v[i].number);
  }
  if (v && labels && to) {
    if (n) qsort(v, n, sizeof *v, numbers ? by_number : by_text);
    for (size_t i = 0; i < n; i++) {
      labels[i] = v[i].text;
      to[v[i].from] = (int64_t)i;
    }
    for (size_t i = 0; i < r->ny; i++) ids[i] = to[r->ids[i]];
    cn_dataset_set_labels(set, labels, n);
  }
  cn_free(v, n * sizeof *v);
  cn_free(labels, n * sizeof *labels);
  cn_free(to, n * sizeof *to);
  return cn_err();
}

/* ---- rows ---- */

static int put_x(reader *r, double v)
{
  if (r->nx == r->x_cap && cn_grow((void **)&r->x, &r->x_cap, r->nx + 1, sizeof *r->x)) return cn_err();
  r->x[r->nx++] = (float)v;
  return CN_OK;
}

static int put_target(reader *r, slice f, double v)
{
  if (!r->classes) {
    if (cn_grow((void **)&r->y, &r->y_cap, r->ny + 1, sizeof *r->y)) return cn_err();
    r->y[r->ny++] = (float)v;
    return CN_OK;
  }
  if (cn_grow((void **)&r->ids, &r->y_cap, r->ny + 1, sizeof *r->ids)) return cn_err();
  int64_t id = number_of(&r->texts, trimmed(f));
  if (id < 0) return cn_err();
  r->ids[r->ny++] = id;
  return CN_OK;
}

static int no_number(const reader *r, int64_t column, slice f)
{
  int n = f.n > 40 ? 40 : (int)f.n;
  return cn_err_set(CN_ERR_IO, "%s: line %ld, column %lld: \"%.*s\" is not a number%s", r->path, r->line,
                    (long long)column, n, f.s,
                    column == r->target ? "; is the target a class (.target_classes = true)?"
                    : r->line == 1      ? "; does the first line name the columns (.header = true)?"
                                        : "");
}

static int read_row(reader *r)
{
  r->row_ended = false;
  for (int64_t column = 0; column < r->columns; column++) {
    double v = 0;
    slice f;
    if (r->row_ended) return fail(r, "has fewer fields than the first line");
    const char *behind = column == r->target ? NULL : quick_number(&v, r->at, r->end);
    if (behind && (behind == r->end || *behind == r->delimiter || *behind == '\n' || *behind == '\r')) {
      r->at = behind;
      if (end_field(r) || put_x(r, v)) return cn_err();
      continue;
    }
    if (next_field(&f, r)) return cn_err();
    bool text = column == r->target && r->classes;
    if (!text && !field_number(&v, f)) return no_number(r, column, f);
    if (column == r->target ? put_target(r, f, v) : put_x(r, v)) return cn_err();
  }
  if (!r->row_ended) return fail(r, "has more fields than the first line");
  r->line++;
  return CN_OK;
}

/* Counts the columns of the first line, and finds the target among them by name or number. */
static int read_head(reader *r, const cn_csv_opts *o)
{
  const char *start = r->at, *target = o->target;
  char *end = NULL;
  long asked = target && *target ? strtol(target, &end, 10) : -1;
  bool number = end && !*end, found = false;
  slice f;
  for (r->row_ended = false; !r->row_ended; r->columns++) {
    if (next_field(&f, r)) return cn_err();
    f = trimmed(f);
    bool named = o->header && target && strlen(target) == f.n && !memcmp(target, f.s, f.n);
    if (named && f.n && !found) r->target = r->columns;
    found = found || (named && f.n);
  }
  if (!target) r->target = r->columns - 1;
  else if (!*target) r->target = -1;
  else if (!found && number && asked >= 0 && asked < r->columns) r->target = asked;
  else if (!found) return cn_err_set(CN_ERR_VALUE, "%s: has no column \"%s\"", r->path, target);
  if (r->columns == 1 && r->target == 0) return fail(r, "one column cannot be both x and the target (.target = \"\")");
  if (o->header) r->line++;
  else r->at = start, r->line = 1;
  return CN_OK;
}

static cn_dataset *finish(reader *r)
{
  int64_t wide = r->columns - (r->target >= 0), n = (int64_t)(r->nx / (size_t)wide);
  cn_tensor *x = cn_empty(CN_SHAPE(n, wide), .dtype = CN_F32, .device = CN_CPU), *y = NULL;
  if (r->target >= 0) y = cn_empty(CN_SHAPE(n), .dtype = r->classes ? CN_I64 : CN_F32, .device = CN_CPU);
  if (cn_err()) return NULL;
  if (n) memcpy(cn_data(x), r->x, r->nx * sizeof *r->x);
  if (n && y && !r->classes) memcpy(cn_data(y), r->y, r->ny * sizeof *r->y);
  cn_dataset *set = cni_dataset_rows("csv", (cn_tensor *const[]){x, y}, y ? 2 : 1, 0);
  if (!set || !r->classes || !y || !sort_classes(r, set, cn_data(y))) return set;
  cn_dataset_release(set);
  return NULL;
}

static int read_all(reader *r, const cn_csv_opts *o)
{
  if (r->end - r->at >= 3 && !memcmp(r->at, "\xEF\xBB\xBF", 3)) r->at += 3; /* the mark of UTF-8 */
  if (!skip_blank_lines(r)) return cn_err_set(CN_ERR_IO, "%s: is empty", r->path);
  if (read_head(r, o)) return cn_err();
  while (skip_blank_lines(r))
    if (read_row(r)) return cn_err();
  return CN_OK;
}

cn_dataset *cn_csv_with(const char *path, const cn_csv_opts *opts)
{
  cn_csv_opts room;
  cni_file file;
  const cn_csv_opts *o = cn_opts_read(&room, sizeof room, opts, "csv");
  if (!o || cni_file_open(&file, path)) return NULL;
  const char *text = file.data ? (const char *)file.data : "";
  reader r = {.path = path, .at = text, .end = text + file.size, .line = 1, .classes = o->target_classes,
              .delimiter = o->delimiter ? o->delimiter : ','};
  cn_dataset *set = NULL;
  cn_scope *s = cn_scope_begin();
  if (strchr("\"\n\r.-+0123456789", r.delimiter))
    cn_err_set(CN_ERR_VALUE, "csv: '%c' cannot be a delimiter", r.delimiter);
  else if (!read_all(&r, o)) set = finish(&r);
  cn_scope_end(s);
  cn_free(r.scratch, r.scratch_cap);
  cn_free(r.x, r.x_cap * sizeof *r.x);
  cn_free(r.classes ? (void *)r.ids : r.y, r.y_cap * (r.classes ? sizeof *r.ids : sizeof *r.y));
  free_names(&r.texts);
  cni_file_close(&file);
  return set;
}
