/* signature.c: reads a signature string into parameters: "sum(Tensor input, int[]? dim=None) -> Tensor ; method".
 *
 * Invariant: only this file (and tools/opsig.py, which the generated headers come from) knows the grammar. */
#include <cairn/ext/system.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "table.h"

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
    {"str", CNI_T_STR},       {"dtype", CNI_T_DTYPE},   {"device", CNI_T_DEVICE}, {"Scalar", CNI_T_SCALAR},
    {"Module", CNI_T_MODULE}};
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
    if (fixed < 0 || fixed > CNI_MAX_FIXED) return false;
    p->fixed = (int)fixed;
    *s += strcspn(*s, "]");
    if (**s != ']') return false;
    ++*s;
    if (!strncmp(*s, "|str", 4)) p->text_too = true, *s += 4;
    if (**s == '?') p->optional = true, ++*s;
  }
  return true;
}

/* "[0.9, 0.999]", or one number that stands for all. */
static void default_list(cni_param *p)
{
  const char *s = p->def_text, *end = s;
  bool ints = p->type == CNI_T_INT, several = *s == '[';
  int n = 0, most = several ? CNI_MAX_FIXED : p->fixed ? p->fixed : 1;
  if (several) s++;
  for (; n < most && *s && *s != ']'; n++) {
    double v = cn_number_read(s, &end);
    if (ints) p->def_list.i[n] = strtoll(s, NULL, 10);
    else p->def_list.f[n] = v;
    if (several) s = end + strspn(end, ", ");
  }
  p->def = ints ? cn_v_ints(p->def_list.i, (size_t)n) : cn_v_floats(p->def_list.f, (size_t)n);
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
  else if (p->list && (p->type == CNI_T_INT || p->type == CNI_T_FLOAT)) default_list(p);
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
    p->def = cn_v_float(cn_number_read(p->def_text, &end));
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
    if (!eat(s, "Tensor")) return name(s, info->overload, sizeof info->overload);
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

/* "amp_low", "amp_f32_host", "amp_wide_device": what autocast does with the inputs, there or on all devices. */
static bool autocast_tag(const char *word, cni_opinfo *info)
{
  static const struct { const char *word; uint8_t rule; } rules[] = {
    {"low", CNI_AMP_LOW}, {"f32", CNI_AMP_F32}, {"wide", CNI_AMP_WIDE}};
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    size_t n = strlen(rules[i].word);
    if (strncmp(word, rules[i].word, n)) continue;
    bool host = !strcmp(word + n, "_host"), device = !strcmp(word + n, "_device");
    if (!host && !device && word[n]) return false;
    if (!device) info->autocast[0] = rules[i].rule;
    if (!host) info->autocast[1] = rules[i].rule;
    return true;
  }
  return false;
}

static cni_param *named(cni_param *list, int n, const char *name)
{
  for (int i = 0; i < n; i++)
    if (!strcmp(list[i].name, name)) return &list[i];
  return NULL;
}

/* Copies a name; false where it is too long, so that none is cut short. */
static bool fits(char *to, size_t size, const char *name)
{
  size_t length = strlen(name);
  if (length < size) memcpy(to, name, length + 1);
  return length < size;
}

/* The words behind the semicolon. What is none of those listed is the namespace. */
static bool tags(const char **s, cni_opinfo *info, cni_param *list)
{
  char word[CNI_NAME_MAX + 10]; /* fits every tag with a name; opt_NAME ones concern the C headers only */
  if (!eat(s, ";")) return true;
  while (name(s, word, sizeof word)) {
    if (!strcmp(word, "method")) info->method = true;
    else if (!strcmp(word, "inplace")) info->inplace = true;
    else if (!strcmp(word, "internal")) info->internal = true;
    else if (!strcmp(word, "numbers")) info->numbers = true;
    else if (!strcmp(word, "tuple")) info->tuple = true;
    else if (!strcmp(word, "complex")) info->complex = CNI_COMPLEX_AS_IS;
    else if (!strcmp(word, "complex_parts")) info->complex = CNI_COMPLEX_PARTS;
    else if (!strcmp(word, "complex_pairs")) info->complex = CNI_COMPLEX_PAIRS;
    else if (!strncmp(word, "group_", 6)) {
      if (!fits(info->group, sizeof info->group, word + 6)) return false;
    } else if (!strncmp(word, "grad_fn", 7)) {
      if (word[7] && (word[7] != '_' || !fits(info->grad_fn_name, sizeof info->grad_fn_name, word + 8))) return false;
      info->grad_fn = true;
    } else if (!strncmp(word, "overload_", 9)) {
      if (!fits(info->overload, sizeof info->overload, word + 9)) return false;
    } else if (!strncmp(word, "exact_", 6)) {
      cni_param *p = named(list, info->nparams, word + 6);
      if (!p) return false;
      p->exact = true;
    } else if (!strncmp(word, "amp_", 4)) {
      if (!autocast_tag(word + 4, info)) return false;
    } else if (!strncmp(word, "alias_", 6)) {
      if (info->naliases == CNI_MAX_ALIASES || !word[6]) return false;
      if (!fits(info->aliases[info->naliases++], sizeof info->aliases[0], word + 6)) return false;
    } else if (strncmp(word, "opt_", 4) && !fits(info->space, sizeof info->space, word)) return false;
  }
  return true;
}

/* Lists in defaults point into their own param, so they are set again wherever the params come to lie. */
static void settle(cni_param *p)
{
  if (p->def.tag == CN_V_INTS) p->def.u.is = p->def_list.i;
  if (p->def.tag == CN_V_FLOATS) p->def.u.fs = p->def_list.f;
  if (p->def.tag == CN_V_STR) p->def.u.s = p->def_text;
}

int cni_signature_parse(cni_opinfo *info, const char *sig)
{
  cni_param list[CN_MAX_ARGS];
  const char *s = sig;
  memset(list, 0, sizeof list);
  if (!name(&s, info->name, sizeof info->name) || !eat(&s, "(") || !params(&s, info, list) || !results(&s, info) ||
      !tags(&s, info, list) || *s)
    return cni_fail(CN_ERR_VALUE, "signature: cannot read \"%.100s\" at \"%.30s\"", sig, s);
  size_t size = (size_t)info->nparams * sizeof *list;
  info->params = cni_alloc(size);
  if (!info->params) return CN_ERR_MEMORY;
  memcpy(info->params, list, size);
  for (int i = 0; i < info->nparams; i++) {
    settle(&info->params[i]);
    if (list[i].type == CNI_T_DTYPE && !list[i].list) info->dtype_at = (uint8_t)(i + 1);
    if (list[i].type != CNI_T_TENSOR) continue;
    info->tensors[info->ntensors++] = (uint8_t)i;
    info->takes_list |= list[i].list;
  }
  return CN_OK;
}
