/* print.c: modules as PyTorch prints them. See module.h. */
#include <cairn/kw.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "module.h"
#include "nn.h"

/* ---- values ---- */

/* As Python writes it: the fewest digits that read back, with an exponent only below 1e-4 and from 1e16 on. */
static void put_float(cn_text *t, double v)
{
  char text[CN_NUMBER_TEXT];
  for (int digits = 1; digits <= 17; digits++) {
    const char *end;
    snprintf(text, sizeof text, "%.*g", digits, v);
    for (char *c = text; *c; c++)
      if (*c == ',') *c = '.'; /* the program's locale */
    if (v != v || cn_number_read(text, &end) == v) break;
  }
  if (strchr(text, 'e') && fabs(v) >= 1 && fabs(v) < 1e16) snprintf(text, sizeof text, "%.0f", v);
  cn_text_put(t, text);
  if (!strpbrk(text, ".en")) cn_text_put(t, ".0");
}

void cni_put_ints(cn_text *t, const int64_t *v, int n)
{
  cn_text_put(t, "(");
  for (int i = 0; i < n; i++) {
    if (v[i] == CN_NONE) cn_text_putf(t, "%sNone", i ? ", " : "");
    else cn_text_putf(t, "%s%lld", i ? ", " : "", (long long)v[i]);
  }
  cn_text_put(t, n == 1 ? ",)" : ")");
}

void cni_put_value(cn_text *t, const cn_value *v, const char *type)
{
  bool dtype = !strncmp(type, "dtype", 5);
  switch (v->tag) {
  case CN_V_INT:
    if (dtype) cn_text_put(t, cn_dtype_name((cn_dtype)v->u.i));
    else cn_text_putf(t, "%lld", (long long)v->u.i);
    break;
  case CN_V_FLOAT: put_float(t, v->u.f); break;
  case CN_V_BOOL: cn_text_put(t, v->u.i ? "True" : "False"); break;
  case CN_V_INTS: cni_put_ints(t, v->u.is, v->n); break;
  case CN_V_FLOATS:
    cn_text_put(t, "(");
    for (int i = 0; i < v->n; i++) {
      if (i) cn_text_put(t, ", ");
      put_float(t, v->u.fs[i]);
    }
    cn_text_put(t, ")");
    break;
  case CN_V_STR: cn_text_putf(t, "'%s'", v->u.s); break;
  default: cn_text_put(t, "None");
  }
}

void cni_put_arg(cn_text *t, const cn_module *m, int i)
{
  cn_op_param p;
  cn_signature_param(&p, cn_args_signature(cn_module_args(m)), i);
  cn_text_putf(t, ", %s=", p.name);
  cni_put_value(t, &cni_args(m)[i], p.type);
}

static bool same_value(const cn_value *a, const cn_value *b)
{
  if (a->tag != b->tag || a->n != b->n) return false;
  switch (a->tag) {
  case CN_V_NONE: return true;
  case CN_V_FLOAT: return a->u.f == b->u.f;
  case CN_V_STR: return !strcmp(a->u.s, b->u.s);
  case CN_V_INTS:
  case CN_V_FLOATS: return !memcmp(a->u.is, b->u.is, (size_t)a->n * sizeof(int64_t));
  default: return a->u.i == b->u.i;
  }
}

void cni_print_args(const cn_module *m, cn_text *t)
{
  const cn_args *args = cn_module_args(m);
  int n = args ? cn_signature_size(cn_args_signature(args)) : 0;
  bool first = true;
  for (int i = 0; i < n; i++) {
    cn_op_param p;
    const cn_value *v = &cn_args_values(args)[i];
    cn_signature_param(&p, cn_args_signature(args), i);
    if (v->tag == CN_V_TENSOR || v->tag == CN_V_TENSORS || v->tag == CN_V_MODULE || same_value(v, &p.default_value))
      continue;
    cn_text_putf(t, "%s%s=", first ? "" : ", ", p.name);
    cni_put_value(t, v, p.type);
    first = false;
  }
}

/* ---- modules ---- */

static void put_module(cn_text *t, const cn_module *m, int depth);

/* The children of a ModuleList: neighbours that print the same are written once, "(0-5): 6 x Linear(...)". */
static void put_list(cn_text *t, const cn_module *m, int depth)
{
  cn_text last = {0};
  size_t first = 0, n = cn_module_nchildren(m);
  for (size_t i = 0; i <= n; i++) {
    cn_text now = {0};
    if (i < n) put_module(&now, cn_module_child(m, i), depth + 1);
    t->failed |= now.failed;
    if (last.s && (!now.s || strcmp(last.s, now.s))) {
      cn_text_putf(t, "%*s(%s", 2 * depth + 2, "", cn_module_child_name(m, first));
      if (i - first > 1) cn_text_putf(t, "-%s): %zu x ", cn_module_child_name(m, i - 1), i - first);
      else cn_text_put(t, "): ");
      cn_text_put(t, last.s);
      cn_text_put(t, "\n");
      first = i;
    }
    cn_text_free(&last);
    last = now;
  }
}

static void put_module(cn_text *t, const cn_module *m, int depth)
{
  size_t n = cn_module_nchildren(m);
  cn_text_putf(t, "%s(", cni_module_shown(m));
  size_t before = t->n;
  if (m->cls->print) m->cls->print(m, t);
  else cni_print_args(m, t);
  bool extra = t->n > before;
  if (!n) {
    cn_text_put(t, ")");
    return;
  }
  if (extra) { /* on a line of its own, above the children */
    char *text = cn_string_copy_bytes(t->s + before, t->n - before);
    t->n = before;
    cn_text_putf(t, "\n%*s%s", 2 * depth + 2, "", text ? text : "");
    cn_string_free(text);
  }
  cn_text_put(t, "\n");
  bool list = !strcmp(m->cls->name, "ModuleList");
  if (list) put_list(t, m, depth);
  for (size_t i = 0; !list && i < n; i++) {
    cn_text_putf(t, "%*s(%s): ", 2 * depth + 2, "", cn_module_child_name(m, i));
    put_module(t, cn_module_child(m, i), depth + 1);
    cn_text_put(t, "\n");
  }
  cn_text_putf(t, "%*s)", 2 * depth, "");
}

char *cn_module_to_string(cn_module *m)
{
  cn_text t = {0};
  if (m) put_module(&t, m, 0);
  return cn_text_take(&t);
}
