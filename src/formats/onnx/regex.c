/* regex.c: see regex.h. A pattern is read as a tree, which is then written as steps: a character out of a set, a choice
 * of two ways, a condition. Matching keeps the set of steps that a text's beginning can lead to.
 *
 * Invariant: depth, repeats and steps are bounded, so that any pattern is compiled or refused. */
#include "regex.h"

#include <string.h>

#include "letters.h"

enum { DEEPEST = 200, REPEATS = 1000, STEPS = 200000, RANGES = 64, FOREVER = -1, LAST = 0x10ffff };

typedef enum tree_kind {
  EMPTY,
  SET,
  JOIN,
  EITHER,
  REPEAT,
  TEXT_BEGIN,
  TEXT_END,
  LINE_BEGIN,
  LINE_END,
  WORD,
  NO_WORD
} tree_kind;

typedef struct set {
  uint32_t ranges[RANGES][2];
  int n;
  bool not, fold; /* fold: either case will do */
} set;

typedef struct tree {
  tree_kind kind;
  const set *set;
  const struct tree *a, *b;
  int least, most; /* of a repeat; most FOREVER: any number */
} tree;

/* ---- reading ---- */

typedef struct parser {
  cni_arena *arena;
  const char *begin, *at, *end;
  bool fold, lines, dot_all; /* the flags i, m, s */
  bool literal;              /* behind \Q */
  int depth;
} parser;

static tree *fail(const parser *p, const char *what)
{
  cn_err_set(CN_ERR_VALUE, "the pattern, at byte %zu: %s", (size_t)(p->at - p->begin), what);
  return NULL;
}

static bool see(const parser *p, const char *text)
{
  size_t n = strlen(text);
  return (size_t)(p->end - p->at) >= n && !memcmp(p->at, text, n);
}

static bool take(parser *p, const char *text)
{
  if (!see(p, text)) return false;
  p->at += strlen(text);
  return true;
}

static tree *make(parser *p, tree_kind kind, const tree *a, const tree *b)
{
  tree *t = cni_arena_take(p->arena, 1, sizeof *t);
  if (t) *t = (tree){.kind = kind, .a = a, .b = b};
  return t;
}

static set *make_set(parser *p)
{
  set *s = cni_arena_take(p->arena, 1, sizeof *s);
  if (s) s->fold = p->fold;
  return s;
}

static bool add(const parser *p, set *s, uint32_t from, uint32_t to)
{
  if (s->n == RANGES || from > to)
    return fail(p, from > to ? "a range that ends before it begins" : "too long a set"), false;
  s->ranges[s->n][0] = from;
  s->ranges[s->n++][1] = to;
  return true;
}

/* Named sets: pairs of characters from, to. */
static const struct {
  const char *name, *ranges;
} named[] = {
    {"\\d", "09"},         {"\\s", "\t\n\f\r  "}, {"\\w", "09AZ__az"}, {"alnum", "09AZaz"},
    {"alpha", "AZaz"},     {"ascii", "\001\177"}, {"blank", "\t\t  "}, {"cntrl", "\001\037\177\177"},
    {"digit", "09"},       {"graph", "!~"},       {"lower", "az"},     {"print", " ~"},
    {"punct", "!/:@[`{~"}, {"space", "\t\r  "},   {"upper", "AZ"},     {"word", "09AZ__az"},
    {"xdigit", "09AFaf"},
};

/* Adds the set of this name, or what is not in it. */
static bool add_named(const parser *p, set *s, const char *name, size_t size, bool not )
{
  uint32_t next = 0;
  for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
    if (strlen(named[i].name) != size || memcmp(named[i].name, name, size) != 0) continue;
    bool fine = true;
    for (const char *r = named[i].ranges; fine && *r; r += 2) {
      uint32_t from = (unsigned char)r[0] == 1 ? 0 : (unsigned char)r[0], to = (unsigned char)r[1];
      if (!not ) fine = add(p, s, from, to);
      else if (from > next) fine = add(p, s, next, from - 1);
      next = to + 1;
    }
    return fine && (!not || add(p, s, next, LAST));
  }
  fail(p, "an unknown set of characters");
  return false;
}

static int digit(char c, int base)
{
  int v = c >= '0' && c <= '9'   ? c - '0'
          : c >= 'a' && c <= 'f' ? c - 'a' + 10
          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                 : 99;
  return v < base ? v : -1;
}

/* Up to `most` digits. */
static uint32_t digits(parser *p, int base, int most, int *n)
{
  uint32_t v = 0;
  for (*n = 0; *n < most && p->at < p->end && digit(*p->at, base) >= 0 && v <= LAST; (*n)++)
    v = v * (uint32_t)base + (uint32_t)digit(*p->at++, base);
  return v;
}

/* The character that an escape stands for; the backslash is read. */
static bool escaped(parser *p, uint32_t *c)
{
  static const char names[] = "afnrtv", values[] = "\a\f\n\r\t\v";
  int n = 0;
  if (p->at == p->end) return fail(p, "nothing behind the backslash"), false;
  const char *name = strchr(names, *p->at);
  if (name && *p->at) return p->at++, *c = (unsigned char)values[name - names], true;
  if (take(p, "x{")) {
    *c = digits(p, 16, 8, &n);
    if (n && *c <= LAST && take(p, "}")) return true;
    return fail(p, "no number of a character"), false;
  }
  if (take(p, "x")) return *c = digits(p, 16, 2, &n), n == 2 || (fail(p, "no number of a character"), false);
  if (digit(*p->at, 8) >= 0) {
    *c = digits(p, 8, 3, &n);
    return (n > 1 || !*c) || (fail(p, "a reference to a group"), false);
  }
  if (digit(*p->at, 36 - 26) >= 0 || (*p->at >= 'a' && *p->at <= 'z') || (*p->at >= 'A' && *p->at <= 'Z'))
    return fail(p, "an unknown escape"), false;
  *c = cni_onnx_char_next(&p->at, p->end);
  return true;
}

/* \d and its kin; the backslash is read. */
static bool class_escape(parser *p, set *s, bool *fine)
{
  char name[3] = "\\";
  if (p->at == p->end || !strchr("dswDSW", *p->at) || !*p->at) return false;
  bool not = *p->at < 'a';
  name[1] = (char)(not ? *p->at + 32 : *p->at);
  p->at++;
  *fine = add_named(p, s, name, 2, not );
  return true;
}

/* One end of a range within brackets. */
static bool bracket_char(parser *p, uint32_t *c)
{
  if (p->at == p->end) return fail(p, "no ']'"), false;
  if (take(p, "\\")) return escaped(p, c);
  *c = cni_onnx_char_next(&p->at, p->end);
  return true;
}

static bool bracket_item(parser *p, set *s)
{
  uint32_t from, to;
  bool fine = true;
  if (take(p, "[:")) {
    bool not = take(p, "^");
    const char *name = p->at;
    while (p->at < p->end && *p->at >= 'a' && *p->at <= 'z') p->at++;
    return add_named(p, s, name, (size_t)(p->at - name), not ) && (take(p, ":]") || (fail(p, "no ':]'"), false));
  }
  if (see(p, "\\")) {
    p->at++;
    if (class_escape(p, s, &fine)) return fine;
    p->at--;
  }
  if (!bracket_char(p, &from)) return false;
  to = from;
  if (see(p, "-") && !see(p, "-]")) {
    p->at++;
    if (!bracket_char(p, &to)) return false;
  }
  return add(p, s, from, to);
}

static tree *of_set(parser *p, const set *s)
{
  tree *t = s && !cn_err() ? make(p, SET, NULL, NULL) : NULL;
  if (t) t->set = s;
  return t;
}

static tree *bracket(parser *p)
{
  set *s = make_set(p);
  if (!s) return NULL;
  s->not = take(p, "^");
  for (bool first = true; first || !take(p, "]"); first = false)
    if (!bracket_item(p, s)) return NULL;
  return of_set(p, s);
}

static tree *one_char(parser *p, uint32_t c)
{
  set *s = make_set(p);
  return s && add(p, s, c, c) ? of_set(p, s) : NULL;
}

static tree *dot(parser *p)
{
  set *s = make_set(p);
  if (!s) return NULL;
  s->not = true;
  return p->dot_all || add(p, s, '\n', '\n') ? of_set(p, s) : NULL;
}

static tree *escape(parser *p)
{
  set *s = make_set(p);
  uint32_t c;
  bool fine = true;
  if (!s) return NULL;
  if (take(p, "A")) return make(p, TEXT_BEGIN, NULL, NULL);
  if (take(p, "z")) return make(p, TEXT_END, NULL, NULL);
  if (take(p, "b")) return make(p, WORD, NULL, NULL);
  if (take(p, "B")) return make(p, NO_WORD, NULL, NULL);
  if (take(p, "Q")) return p->literal = true, make(p, EMPTY, NULL, NULL);
  if (class_escape(p, s, &fine)) return fine ? of_set(p, s) : NULL;
  return escaped(p, &c) ? one_char(p, c) : NULL;
}

static tree *either(parser *p);

/* What stands behind "(?": flags for the rest of the group, or a group with flags or a name. *only: flags alone. */
static bool group_head(parser *p, bool *only)
{
  bool on = true;
  *only = false;
  if (take(p, "P<") || take(p, "<")) {
    const char *name = p->at;
    while (p->at < p->end && (digit(*p->at, 10) >= 0 || *p->at == '_' || (*p->at | 32) >= 'a') && *p->at != '>')
      p->at++;
    return (p->at > name && take(p, ">")) || (fail(p, "no name of a group"), false);
  }
  for (; p->at < p->end; p->at++) {
    char c = *p->at;
    if (c == '-') on = false;
    else if (c == 'i') p->fold = on;
    else if (c == 'm') p->lines = on;
    else if (c == 's') p->dot_all = on;
    else if (c == ':' || c == ')') return *only = c == ')', p->at++, true;
    else if (c != 'U') break; /* as few as will do: what matches all is the same */
  }
  return fail(p, "unknown flags"), false;
}

static tree *group(parser *p)
{
  parser outside = *p;
  bool only = false;
  if (take(p, "?")) {
    if (!group_head(p, &only)) return NULL;
    if (only) return make(p, EMPTY, NULL, NULL);
  }
  if (++p->depth > DEEPEST) return fail(p, "groups lie too deep in one another");
  tree *t = either(p);
  if (t && !take(p, ")")) return fail(p, "no ')'");
  p->depth--;
  p->fold = outside.fold;
  p->lines = outside.lines;
  p->dot_all = outside.dot_all;
  return t;
}

static tree *atom(parser *p)
{
  if (p->literal) {
    if (take(p, "\\E")) return p->literal = false, make(p, EMPTY, NULL, NULL);
    return one_char(p, cni_onnx_char_next(&p->at, p->end));
  }
  if (take(p, "(")) return group(p);
  if (take(p, "[")) return bracket(p);
  if (take(p, ".")) return dot(p);
  if (take(p, "\\")) return escape(p);
  if (take(p, "^")) return make(p, p->lines ? LINE_BEGIN : TEXT_BEGIN, NULL, NULL);
  if (take(p, "$")) return make(p, p->lines ? LINE_END : TEXT_END, NULL, NULL);
  if (see(p, "*") || see(p, "+") || see(p, "?")) return fail(p, "nothing to repeat");
  return one_char(p, cni_onnx_char_next(&p->at, p->end));
}

/* {n}, {n,}, {n,m}: anything else in braces stands for itself. */
static bool counts(parser *p, int *least, int *most)
{
  const char *from = p->at;
  int n;
  if (!take(p, "{")) return false;
  *least = *most = (int)digits(p, 10, 5, &n);
  bool fine = n > 0;
  if (fine && take(p, ",")) {
    *most = (int)digits(p, 10, 5, &n);
    if (!n) *most = FOREVER;
  }
  if (fine && take(p, "}")) return true;
  p->at = from;
  return false;
}

static tree *repeated(parser *p)
{
  tree *t = atom(p);
  while (t && !p->literal) {
    int least = 0, most = FOREVER;
    if (take(p, "*")) least = 0;
    else if (take(p, "+")) least = 1;
    else if (take(p, "?")) most = 1;
    else if (!counts(p, &least, &most)) break;
    take(p, "?"); /* as few as will do */
    if (least > REPEATS || most > REPEATS || (most != FOREVER && most < least))
      return fail(p, "repeats out of range");
    if ((t = make(p, REPEAT, t, NULL))) t->least = least, t->most = most;
  }
  return t;
}

static tree *joined(parser *p)
{
  tree *t = make(p, EMPTY, NULL, NULL);
  while (t && p->at < p->end && (p->literal || (*p->at != '|' && *p->at != ')'))) {
    const tree *next = repeated(p);
    t = next ? make(p, JOIN, t, next) : NULL;
  }
  return t;
}

static tree *either(parser *p)
{
  tree *t = joined(p);
  while (t && take(p, "|")) {
    const tree *other = joined(p);
    t = other ? make(p, EITHER, t, other) : NULL;
  }
  return t;
}

/* ---- steps ---- */

typedef struct step {
  tree_kind kind;  /* SET, EITHER, EMPTY, a condition; JOIN: the match */
  int next, other; /* other: of EITHER */
  const set *set;
} step;

struct cni_regex {
  step *steps;
  int n, room;
  int *now, *then, *stack;
  const char **from, **from_then; /* of each place in `now` and `then`: where the text began that led to it */
  unsigned *seen, mark;
};

static int put(cni_regex *r, tree_kind kind, int next, int other, const set *s)
{
  if (r->n < r->room) r->steps[r->n] = (step){kind, next, other, s};
  return r->n < STEPS ? r->n++ : r->n;
}

/* Writes the tree's steps, in front of `next`; returns the first. Twice: without room they are counted. The left side
 * of a long chain is walked, not called. */
static int write_steps(cni_regex *r, const tree *t, int next)
{
  int at;
  for (; t->kind == JOIN && r->n < STEPS; t = t->a) next = write_steps(r, t->b, next);
  if (r->n >= STEPS) return next;
  switch (t->kind) {
  case EMPTY: return next;
  case JOIN: return next;
  case EITHER: return at = write_steps(r, t->a, next), put(r, EITHER, at, write_steps(r, t->b, next), NULL);
  case REPEAT:
    if (t->most == FOREVER) {
      int loop = put(r, EITHER, next, next, NULL), first = write_steps(r, t->a, loop);
      if (loop < r->room) r->steps[loop].next = first;
      next = loop;
    }
    for (int i = t->least; i < t->most; i++) next = put(r, EITHER, write_steps(r, t->a, next), next, NULL);
    for (int i = 0, had = -1; i < t->least && r->n != had; i++) had = r->n, next = write_steps(r, t->a, next);
    return next;
  default: return put(r, t->kind, next, -1, t->set);
  }
}

cni_regex *cni_regex_compile(cni_arena *arena, const char *pattern, size_t size)
{
  parser p = {.arena = arena, .begin = pattern, .at = pattern, .end = pattern + size};
  cni_regex count = {.n = 1}, *r = cni_arena_take(arena, 1, sizeof *r);
  tree *t = r ? either(&p) : NULL;
  if (t && p.at < p.end) t = fail(&p, "a ')' without '('");
  if (!t) return NULL;
  write_steps(&count, t, 0);
  if (count.n >= STEPS) return fail(&p, "it repeats too much"), NULL;
  r->room = count.n + 1;
  size_t room = (size_t)r->room;
  r->steps = cni_arena_take(arena, room, sizeof *r->steps);
  r->now = cni_arena_take(arena, room, sizeof *r->now);
  r->then = cni_arena_take(arena, room, sizeof *r->then);
  r->stack = cni_arena_take(arena, 2 * room, sizeof *r->stack);
  r->seen = cni_arena_take(arena, room, sizeof *r->seen);
  r->from = cni_arena_take(arena, room, sizeof *r->from);
  r->from_then = cni_arena_take(arena, room, sizeof *r->from_then);
  if (!r->steps || !r->now || !r->then || !r->stack || !r->seen || !r->from || !r->from_then) return NULL;
  put(r, JOIN, 0, -1, NULL);
  int first = write_steps(r, t, 0);
  put(r, EMPTY, first, -1, NULL); /* the last one is where it begins */
  return r;
}

/* ---- matching ---- */

static bool among(const set *s, uint32_t c)
{
  for (int i = 0; i < s->n; i++)
    if (c >= s->ranges[i][0] && c <= s->ranges[i][1]) return true;
  return false;
}

static bool in_set(const set *s, uint32_t c)
{
  bool in = among(s, c) || (s->fold && (among(s, cni_onnx_lower(c)) || among(s, cni_onnx_upper(c))));
  return in != s->not ;
}

static bool is_word(const char *at, const char *begin, const char *end)
{
  if (at < begin || at >= end) return false;
  return (*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || *at == '_';
}

static bool holds(tree_kind k, const char *at, const char *begin, const char *end)
{
  bool edge = is_word(at - 1, begin, end) != is_word(at, begin, end);
  switch (k) {
  case TEXT_BEGIN: return at == begin;
  case TEXT_END: return at == end;
  case LINE_BEGIN: return at == begin || at[-1] == '\n';
  case LINE_END: return at == end || *at == '\n';
  case WORD: return edge;
  case NO_WORD: return !edge;
  default: return true;
  }
}

/* Adds a step, or what it leads to without a character, to the list, each once. */
static int reach(cni_regex *r, int *list, int n, int first, const char *at, const char *begin, const char *end)
{
  int depth = 0;
  r->stack[depth++] = first;
  while (depth) {
    int i = r->stack[--depth];
    const step *s = &r->steps[i];
    if (r->seen[i] == r->mark) continue;
    r->seen[i] = r->mark;
    if (s->kind == SET || s->kind == JOIN) list[n++] = i;
    else if (holds(s->kind, at, begin, end)) {
      if (s->kind == EITHER) r->stack[depth++] = s->other;
      r->stack[depth++] = s->next;
    }
  }
  return n;
}

bool cni_regex_full_match(cni_regex *r, const char *text, size_t size)
{
  const char *at = text, *end = text + size;
  r->mark++;
  int n = reach(r, r->now, 0, r->n - 1, at, text, end);
  while (at < end && n) {
    uint32_t c = cni_onnx_char_next(&at, end);
    int m = 0;
    r->mark++;
    for (int i = 0; i < n; i++) {
      const step *s = &r->steps[r->now[i]];
      if (s->kind == SET && in_set(s->set, c)) m = reach(r, r->then, m, s->next, at, text, end);
    }
    int *swap = r->now;
    r->now = r->then;
    r->then = swap;
    n = m;
  }
  for (int i = 0; i < n; i++)
    if (r->steps[r->now[i]].kind == JOIN) return true;
  return false;
}

/* ---- searching ---- */

typedef struct search {
  const char *begin, *end;       /* the text */
  const char *match, *match_end; /* the best so far; NULL: none */
} search;

/* Adds what step `first` leads to, for a text that began at `from`. */
static int reach_from(cni_regex *r, int n, int first, const char *from, const char *at, const search *s)
{
  const int m = reach(r, r->then, n, first, at, s->begin, s->end);
  for (int i = n; i < m; i++) r->from_then[i] = from;
  return m;
}

/* The places behind one more character (none: n 0), then those of a text that begins here, while nothing was found.
 * Places that are reached twice belong to the text that began first. */
static int advance(cni_regex *r, int n, uint32_t c, const char *at, const search *s)
{
  int m = 0;
  r->mark++;
  for (int i = 0; i < n; i++) {
    const step *p = &r->steps[r->now[i]];
    if (s->match && r->from[i] > s->match) continue;
    if (p->kind == SET && in_set(p->set, c)) m = reach_from(r, m, p->next, r->from[i], at, s);
  }
  if (!s->match) m = reach_from(r, m, r->n - 1, at, at, s);
  int *places = r->now;
  const char **from = r->from;
  r->now = r->then, r->then = places;
  r->from = r->from_then, r->from_then = from;
  return m;
}

bool cni_regex_find(cni_regex *r, const char *text, size_t size, size_t from, size_t *at, size_t *end)
{
  search s = {.begin = text, .end = text + size};
  const char *here = text + from;
  int n = advance(r, 0, 0, here, &s);
  for (;;) {
    for (int i = 0; i < n; i++)
      if (r->steps[r->now[i]].kind == JOIN && (!s.match || r->from[i] <= s.match))
        s.match = r->from[i], s.match_end = here;
    if (here >= s.end || (s.match && !n)) break;
    const uint32_t c = cni_onnx_char_next(&here, s.end);
    n = advance(r, n, c, here, &s);
  }
  if (!s.match) return false;
  *at = (size_t)(s.match - text);
  *end = (size_t)(s.match_end - text);
  return true;
}
