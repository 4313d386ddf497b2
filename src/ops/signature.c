/* signature.c: reads a signature string into parameters: "sum(Tensor input, int[]? dim=None) -> Tensor ; method".
 *
 * Invariant: only this file (and tools/opsig.py, which the generated headers come from) knows the grammar. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "table.h"

enum { MOST_FIXED = 3 }; /* of int[N]: what a default has room for */

static void skip(const char **s)
{
  while (**s == ' ' || **s == '\n') ++*s;
}

static bool eat(const char **s, const char *word)
{
  skip(s);
  size_t n = strlen(word);
  if (strncmp(*s, word, n)) return false;
  *s += n;
  return true;
}

static bool name(const char **s, char *out, size_t size)
{
  skip(s);
  size_t n = strspn(*s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
  if (!n || n >= size) return false;
  memcpy(out, *s, n);
  out[n] = 0;
  *s += n;
  return true;
}

static bool type(const char **s, cni_param *p)
{
  static const struct { const char *word; enum cni_type type; } words[] = {
    {"Tensor", CNI_T_TENSOR}, {"int", CNI_T_INT},       {"float", CNI_T_FLOAT},   {"bool", CNI_T_BOOL},
    {"str", CNI_T_STR},       {"dtype", CNI_T_DTYPE},   {"device", CNI_T_DEVICE}, {"Scalar", CNI_T_SCALAR}};
  char word[16];
  if (!name(s, word, sizeof word)) return false;
  size_t i = 0, n = sizeof words / sizeof *words;
  while (i < n && strcmp(words[i].word, word)) i++;
  if (i == n) return false;
  p->type = words[i].type;
  if (p->type == CNI_T_TENSOR && **s == '|') {
    if (!eat(s, "|Scalar")) return false;
    p->number = true;
  }
  if (**s == '?') p->optional = true, ++*s;
  if (**s == '[') {
    if (p->number) return false;
    ++*s;
    p->list = true;
    p->elem_optional = p->optional;
    p->optional = false;
    long fixed = strtol(*s, NULL, 10);
    if (fixed < 0 || fixed > MOST_FIXED) return false;
    p->fixed = (int)fixed;
    *s += strcspn(*s, "]");
    if (**s != ']') return false;
    ++*s;
    if (**s == '?') p->optional = true, ++*s;
  }
  return true;
}

static void default_ints(cni_param *p)
{
  const char *s = p->def_text;
  int n = 0;
  if (*s == '[') {
    for (s++; *s && *s != ']' && n < MOST_FIXED; n++) {
      char *end;
      p->def_ints[n] = strtoll(s, &end, 10);
      s = end + strspn(end, ", ");
    }
  } else {
    for (n = 0; n < (p->fixed ? p->fixed : 1); n++) p->def_ints[n] = strtoll(s, NULL, 10);
  }
  p->def = cn_v_ints(p->def_ints, (size_t)n);
}

static bool default_value(const char **s, cni_param *p)
{
  skip(s);
  bool list = **s == '[';
  size_t n = strcspn(*s, list ? "]" : ",)");
  if (list && !(*s)[n++]) return false;
  if (!n || n >= sizeof p->def_text) return false;
  memcpy(p->def_text, *s, n);
  p->def_text[n] = 0;
  *s += n;
  p->has_default = true;
  if (!strcmp(p->def_text, "None")) p->def = cn_v_none();
  else if (p->list && p->type == CNI_T_INT) default_ints(p);
  else if (p->type == CNI_T_BOOL) p->def = cn_v_bool(!strcmp(p->def_text, "True"));
  else if (p->type == CNI_T_STR) {
    n = strlen(p->def_text);
    if (n < 2) return false;
    p->def_text[n - 1] = 0; /* the quotes go */
    memmove(p->def_text, p->def_text + 1, n - 1);
    p->def = cn_v_str(p->def_text);
  } else if (p->type == CNI_T_INT || (p->type == CNI_T_SCALAR && !strpbrk(p->def_text, ".en")))
    p->def = cn_v_int(strtoll(p->def_text, NULL, 10));
  else {
    const char *end;
    p->def = cn_v_float(cni_number_read(p->def_text, &end));
  }
  return true;
}

static bool params(const char **s, cni_opinfo *info, cni_param *list)
{
  bool keyword = false;
  if (eat(s, ")")) return true;
  do {
    if (eat(s, "*")) {
      keyword = true;
      continue;
    }
    if (info->nparams == CN_MAX_ARGS) return false;
    cni_param *p = &list[info->nparams++];
    p->keyword_only = keyword;
    if (!type(s, p) || !name(s, p->name, sizeof p->name)) return false;
    if (eat(s, "=") && !default_value(s, p)) return false;
  } while (eat(s, ","));
  return eat(s, ")");
}

static bool results(const char **s, cni_opinfo *info)
{
  if (!eat(s, "->")) return false;
  if (!eat(s, "(")) {
    if (!eat(s, "Tensor")) return false;
    info->nresults = 1;
    snprintf(info->result_names[0], sizeof info->result_names[0], "out");
    if (eat(s, "[]")) info->list_result = true;
    return true;
  }
  do {
    if (info->nresults == CNI_MAX_RESULTS || !eat(s, "Tensor")) return false;
    if (!name(s, info->result_names[info->nresults++], sizeof info->result_names[0])) return false;
  } while (eat(s, ","));
  return eat(s, ")");
}

/* The words behind the semicolon. What is none of those listed is the namespace. */
static bool tags(const char **s, cni_opinfo *info)
{
  char word[CNI_NAME_MAX]; /* fits every tag; opt_NAME ones concern the C headers only */
  if (!eat(s, ";")) return true;
  while (name(s, word, sizeof word)) {
    if (!strcmp(word, "method")) info->method = true;
    else if (!strcmp(word, "inplace")) info->inplace = true;
    else if (!strcmp(word, "internal")) info->internal = true;
    else if (!strcmp(word, "numbers")) info->numbers = true;
    else if (!strncmp(word, "overload_", 9)) snprintf(info->overload, sizeof info->overload, "%s", word + 9);
    else if (!strncmp(word, "alias_", 6)) {
      if (info->naliases == CNI_MAX_ALIASES || !word[6]) return false;
      snprintf(info->aliases[info->naliases++], sizeof info->aliases[0], "%s", word + 6);
    } else if (strncmp(word, "opt_", 4)) snprintf(info->space, sizeof info->space, "%.15s", word);
  }
  return true;
}

/* Lists in defaults point into their own param, so they are set again wherever the params come to lie. */
static void settle(cni_param *p)
{
  if (p->def.tag == CN_V_INTS) p->def.u.is = p->def_ints;
  if (p->def.tag == CN_V_STR) p->def.u.s = p->def_text;
}

int cni_signature_parse(cni_opinfo *info, const char *sig)
{
  cni_param list[CN_MAX_ARGS];
  const char *s = sig;
  memset(list, 0, sizeof list);
  if (!name(&s, info->name, sizeof info->name) || !eat(&s, "(") || !params(&s, info, list) || !results(&s, info) ||
      !tags(&s, info) || *s)
    return cni_fail(CN_ERR_VALUE, "signature: cannot read \"%.100s\" at \"%.30s\"", sig, s);
  size_t size = (size_t)info->nparams * sizeof *list;
  info->params = cni_alloc(size);
  if (!info->params) return CN_ERR_MEMORY;
  memcpy(info->params, list, size);
  for (int i = 0; i < info->nparams; i++) {
    settle(&info->params[i]);
    if (list[i].type != CNI_T_TENSOR) continue;
    info->tensors[info->ntensors++] = (uint8_t)i;
    info->takes_list |= list[i].list;
  }
  return CN_OK;
}
