/* one_op.c: see one_op.h. */
#include "one_op.h"

#include <string.h>

/* ---- calling ---- */

int cni_call_op(cn_tensor **out, size_t nout, const char *op, const cn_value *args, size_t n, cn_tensor *dest)
{
  if (cn_err()) return cn_err(); /* which cn_op_call would clear */
  int status = cn_op_call(out, &nout, cn_op_find(op), args, n, dest);
  for (size_t i = 0; !status && i < nout; i++)
    if (!cn_scope_give(out[i])) status = cn_err(), out[i] = NULL;
  return status;
}

int cni_op_args(const cn_module *m, cn_value *values, const char *args)
{
  int n = 0;
  for (; args && *args; args++)
    values[n++] = *args == 't' ? cn_v_bool(cn_module_training(m)) : cni_args(m)[*args - '0'];
  return n;
}

static bool writes_input(const cn_module *m)
{
  const cn_value *inplace = cn_args_get(cn_module_args(m), "inplace");
  return inplace && inplace->u.i;
}

cn_tensor *cni_one_op_apply(cn_module *m, cn_tensor *x)
{
  const cni_one_op *row = (const cni_one_op *)m->cls;
  cn_value values[CN_MAX_ARGS] = {cn_v_tensor(x)};
  cn_tensor *y = NULL;
  int n = 1 + cni_op_args(m, values + 1, row->args);
  cni_call_op(&y, 1, row->op, values, (size_t)n, writes_input(m) ? x : NULL);
  return y;
}

/* ---- printing ---- */

static bool all_equal(const cn_value *v)
{
  for (int i = 1; v->tag == CN_V_INTS && i < v->n; i++)
    if (v->u.is[i] != v->u.is[0]) return false;
  return v->tag == CN_V_INTS && v->n > 0;
}

static bool is_default(const cn_value *v, const cn_op_param *p)
{
  const cn_value *d = &p->default_value;
  if (v->tag != d->tag) return false;
  return v->tag == CN_V_FLOAT ? !(v->u.f < d->u.f) && !(v->u.f > d->u.f) : v->u.i == d->u.i;
}

static void print_one(const cn_module *m, cn_text *t, const char *marks, const char *name, bool first)
{
  cn_op_param p;
  const cn_args *args = cn_module_args(m);
  const cn_value *v = cn_args_get(args, name);
  if (!v) return;
  cn_signature_param(&p, cn_args_signature(args), cn_signature_find(cn_args_signature(args), name));
  if (strchr(marks, '?') && is_default(v, &p)) return;
  if (v->tag == CN_V_NONE && strchr(marks, '^')) v = cn_args_get(args, "kernel_size");
  if (!first) cn_text_put(t, ", ");
  if (!strchr(marks, '=')) cn_text_putf(t, "%s=", name);
  cn_value one = *v;
  bool single = strchr(marks, '*') ? all_equal(v) : strchr(marks, '1') && v->n == 1;
  if (single && v->tag == CN_V_INTS) one = v->u.is[0] == CN_NONE ? cn_v_none() : cn_v_int(v->u.is[0]);
  if (single && v->tag == CN_V_FLOATS) one = cn_v_float(v->u.fs[0]);
  cni_put_value(t, &one, p.type);
}

void cni_print_named(const cn_module *m, cn_text *t, const char *names)
{
  size_t before = t->n;
  while (*names) {
    char word[64], marks[8];
    size_t nmarks = strspn(names, "=?*1^"), n = strcspn(names, " ");
    if (n >= sizeof word || nmarks >= sizeof marks) return;
    memcpy(marks, names, nmarks);
    marks[nmarks] = 0;
    memcpy(word, names + nmarks, n - nmarks);
    word[n - nmarks] = 0;
    print_one(m, t, marks, word, t->n == before);
    names += n + strspn(names + n, " ");
  }
}

void cni_one_op_print(const cn_module *m, cn_text *t)
{
  const char *names = ((const cni_one_op *)m->cls)->text;
  if (names) cni_print_named(m, t, names);
}
