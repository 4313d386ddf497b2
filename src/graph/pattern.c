/* pattern.c: reads the patterns and replacements of rewrites (the language is described at cn_rewrite, ext/graph.h).
 *
 * Place in the flow: rewrite.c reads each row once per call, cn_rewrite_register reads rows to refuse bad ones early.
 * Invariant: a pattern that was read can be matched and its replacement be built: ops exist, and make no lists,
 * arguments are of the kind that the signature says, every name of the replacement is one of the pattern, or a $name
 * that the row's condition gives. */
#include <cairn/ext/system.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/state.h"
#include "rewrite.h"

typedef struct reading {
  cni_pattern *p;
  const cn_rewrite *row;
  const char *s;
  bool old_names; /* in the replacement: no new ones */
} reading;

static int bad(const reading *r, const char *what)
{
  return cni_fail(CN_ERR_VALUE, "rewrite '%s': %s near \"%.24s\"", r->row->name ? r->row->name : "?", what, r->s);
}

static bool eat(reading *r, char c)
{
  while (*r->s == ' ') r->s++;
  if (*r->s != c) return false;
  r->s++;
  return true;
}

static int add_term(reading *r, enum cni_term_kind kind)
{
  if (r->p->nterms == CNI_MOST_TERMS) return bad(r, "too many terms");
  r->p->term[r->p->nterms] = (cni_term){.kind = kind, .name = -1, .inside = -1, .next = -1};
  return r->p->nterms++;
}

static size_t word_length(const char *s)
{
  size_t n = 0;
  while (isalnum((unsigned char)s[n]) || s[n] == '_') n++;
  return n;
}

/* Room for a text of n characters; NULL: there is none. */
static char *keep(reading *r, const char *s, size_t n)
{
  if ((size_t)r->p->ntext + n + 1 > CNI_MOST_TEXT) return NULL;
  char *to = r->p->text + r->p->ntext;
  memcpy(to, s, n);
  to[n] = 0;
  r->p->ntext += (int)n + 1;
  return to;
}

static int name_term(reading *r, enum cni_term_kind kind)
{
  cni_pattern *p = r->p;
  const bool capture = kind == CNI_TERM_CAPTURE;
  size_t n = word_length(r->s);
  int id = 0, t = add_term(r, kind);
  if (t < 0) return t;
  for (; id < p->nnames; id++)
    if (p->captures[id] == capture && strlen(p->name[id]) == n && !memcmp(p->name[id], r->s, n)) break;
  if (id == p->nnames) {
    if (r->old_names && !(capture && r->row->when)) return bad(r, "a name that the pattern does not have");
    if (!n || id == CNI_MOST_NAMES || !(p->name[id] = keep(r, r->s, n))) return bad(r, "a bad name, or too many");
    p->given[id] = r->old_names;
    p->captures[p->nnames++] = capture;
  }
  r->s += n;
  p->term[t].name = id;
  return t;
}

/* ---- literals ---- */

static int list_literal(reading *r, cn_value *v)
{
  int first = r->p->nints;
  while (!eat(r, ']')) {
    char *end;
    if (r->p->nints == CNI_MOST_INTS) return bad(r, "too many numbers");
    r->p->ints[r->p->nints++] = strtoll(r->s, &end, 10);
    if (end == r->s) return bad(r, "a number is missing");
    r->s = end;
    eat(r, ',');
  }
  *v = cn_v_ints(r->p->ints + first, (size_t)(r->p->nints - first));
  return CN_OK;
}

static int number_literal(reading *r, cn_value *v)
{
  const char *end;
  size_t whole = strspn(r->s, "-0123456789");
  double f = cn_number_read(r->s, &end);
  if (end == r->s) return bad(r, "what is this");
  *v = end == r->s + whole ? cn_v_int(strtoll(r->s, NULL, 10)) : cn_v_float(f);
  r->s = end;
  return CN_OK;
}

static int text_literal(reading *r, cn_value *v)
{
  size_t n = strcspn(r->s, "'");
  char *text = r->s[n] ? keep(r, r->s, n) : NULL;
  if (!text) return bad(r, "a text that does not end");
  *v = cn_v_str(text);
  r->s += n + 1;
  return CN_OK;
}

/* Words that are values. */
static bool word_literal(reading *r, cn_value *v)
{
  size_t n = word_length(r->s);
  if (n == 4 && !memcmp(r->s, "true", n)) *v = cn_v_bool(true);
  else if (n == 5 && !memcmp(r->s, "false", n)) *v = cn_v_bool(false);
  else if (n == 4 && !memcmp(r->s, "none", n)) *v = cn_v_none();
  else return false;
  r->s += n;
  return true;
}

static int literal_term(reading *r)
{
  cn_value v;
  int t = add_term(r, CNI_TERM_LITERAL);
  if (t < 0) return t;
  if (!r->old_names) r->p->term[t].near = eat(r, '~');
  int status = eat(r, '[') ? list_literal(r, &v) : eat(r, '\'') ? text_literal(r, &v) : number_literal(r, &v);
  if (status) return status;
  r->p->term[t].literal = v;
  return t;
}

/* ---- terms ---- */

static int term(reading *r);

/* Terms up to the closing bracket, as what is inside of t. */
static int insides(reading *r, int t, char between, char close)
{
  int last = -1, count = 0;
  while (!eat(r, close)) {
    if (count++ && !eat(r, between)) return bad(r, between == ',' ? "a comma is missing" : "a | is missing");
    int i = term(r);
    if (i < 0) return i;
    if (last < 0) r->p->term[t].inside = i;
    else r->p->term[last].next = i;
    last = i;
  }
  return count;
}

/* Does a term fit in the place of a parameter? */
static bool fits(const cni_param *p, const cni_term *t)
{
  if (p->type != CNI_T_TENSOR)
    return t->kind == CNI_TERM_LITERAL || t->kind == CNI_TERM_CAPTURE || t->kind == CNI_TERM_ANY ||
           t->kind == CNI_TERM_NUMBER;
  if (t->kind == CNI_TERM_LITERAL) return !p->list && t->literal.tag != CN_V_INTS && t->literal.tag != CN_V_STR;
  return t->kind != CNI_TERM_CAPTURE && (t->kind == CNI_TERM_ANY || p->list == (t->kind == CNI_TERM_LIST));
}

static int call_term(reading *r, size_t n)
{
  char name[CNI_NAME_MAX];
  int t = add_term(r, CNI_TERM_CALL);
  if (t < 0) return t;
  if (n >= sizeof name) return bad(r, "there is no such op");
  memcpy(name, r->s, n);
  name[n] = 0;
  const cni_opinfo *op = r->p->term[t].op = cni_op_by_name(name);
  if (!op || op->nresults < 1 || op->list_result) return bad(r, "there is no such op, or it makes no tensor");
  r->s += n;
  r->p->term[t].maybe = eat(r, '?');
  if (r->p->term[t].maybe && r->old_names) return bad(r, "'?' in a replacement");
  eat(r, '(');
  int count = insides(r, t, ',', ')');
  if (count < 0) return count;
  if (count > op->nparams) return bad(r, "too many arguments");
  for (int i = count; i < op->nparams; i++)
    if (!op->params[i].has_default && !op->params[i].optional) return bad(r, "an argument is missing");
  for (int i = r->p->term[t].inside, k = 0; i >= 0; i = r->p->term[i].next, k++)
    if (!fits(&op->params[k], &r->p->term[i])) return bad(r, "an argument of the wrong kind");
  return t;
}

/* A name; in a pattern what it stands for may follow. */
static int value_term(reading *r)
{
  int t = name_term(r, CNI_TERM_NAME);
  if (t < 0 || r->old_names || !eat(r, '=')) return t;
  int inside = term(r);
  if (inside < 0) return inside;
  r->p->term[t].inside = inside;
  enum cni_term_kind kind = r->p->term[inside].kind;
  return kind == CNI_TERM_CALL || kind == CNI_TERM_EITHER ? t : bad(r, "a name for what is no call");
}

/* Terms between brackets. */
static int bracket_term(reading *r, enum cni_term_kind kind)
{
  const bool list = kind == CNI_TERM_LIST;
  int t = add_term(r, kind), count = t < 0 ? t : insides(r, t, list ? ',' : '|', list ? '}' : ')');
  if (!list && !count) return bad(r, "nothing to choose from");
  return count < 0 ? count : t;
}

static int term(reading *r)
{
  cn_value v;
  while (*r->s == ' ') r->s++;
  size_t n = word_length(r->s);
  if (eat(r, '$')) return name_term(r, CNI_TERM_CAPTURE);
  if (eat(r, '#')) return name_term(r, CNI_TERM_NUMBER);
  if (eat(r, '{')) return bracket_term(r, CNI_TERM_LIST);
  if (!r->old_names && eat(r, '(')) return bracket_term(r, CNI_TERM_EITHER);
  if (n == 1 && *r->s == '_') {
    r->s++;
    return r->old_names ? bad(r, "'_' in a replacement") : add_term(r, CNI_TERM_ANY);
  }
  if (n && (r->s[n] == '(' || (r->s[n] == '?' && r->s[n + 1] == '('))) return call_term(r, n);
  if (isalpha((unsigned char)*r->s) && word_literal(r, &v)) {
    int t = add_term(r, CNI_TERM_LITERAL);
    if (t >= 0) r->p->term[t].literal = v;
    return t;
  }
  return isalpha((unsigned char)*r->s) ? value_term(r) : literal_term(r);
}

/* One call, or a choice of calls. */
static bool is_root(const cni_pattern *p, int t)
{
  if (p->term[t].kind != CNI_TERM_EITHER) return p->term[t].kind == CNI_TERM_CALL && !p->term[t].maybe;
  for (int i = p->term[t].inside; i >= 0; i = p->term[i].next)
    if (!is_root(p, i)) return false;
  return true;
}

int cni_pattern_read(cni_pattern *p, const cn_rewrite *row)
{
  reading r = {.p = p, .row = row, .s = row->pattern ? row->pattern : ""};
  p->nterms = p->nnames = p->nints = p->ntext = 0;
  memset(p->given, 0, sizeof p->given);
  if (!row->name || !row->pattern || !row->replacement) return bad(&r, "its text is missing");
  if ((p->pattern = term(&r)) < 0) return p->pattern;
  if (*r.s || !is_root(p, p->pattern)) return bad(&r, "a pattern is a call");
  r.s = row->replacement;
  r.old_names = true;
  if ((p->replacement = term(&r)) < 0) return p->replacement;
  enum cni_term_kind kind = p->term[p->replacement].kind;
  if (*r.s || (kind != CNI_TERM_CALL && kind != CNI_TERM_NAME)) return bad(&r, "a replacement is a name or one call");
  return CN_OK;
}
