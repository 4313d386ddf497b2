/* formula.c: the texts of formulas' programs, word by word (formula.h). */
#include "formula.h"

#include <cairn/ext/system.h>
#include <stdlib.h>
#include <string.h>

static void bad(cni_formula *f)
{
  f->bad = true;
  f->s = "";
}

static bool eat(cni_formula *f, char c)
{
  if (*f->s != c || !c) return false;
  f->s++;
  return true;
}

static int integer(cni_formula *f)
{
  char *end;
  const long v = strtol(f->s, &end, 10);
  if (end == f->s) bad(f);
  else f->s = end;
  return (int)v;
}

static void word(cni_formula *f, char room[32])
{
  size_t n = strcspn(f->s, ":@* ,;|");
  if (n > 31) bad(f), n = 0;
  memcpy(room, f->s, n);
  room[n] = 0;
  f->s += n;
}

static int class_of_word(cni_formula *f)
{
  static const struct {
    const char *name;
    int dtype;
  } classes[] = {{"f32", CN_F32}, {"f64", CN_F64}, {"i64", CN_I64}, {"u64", CN_U64}};
  char name[32];
  word(f, name);
  for (int i = 0; i < 4; i++)
    if (!strcmp(name, classes[i].name)) return classes[i].dtype;
  bad(f);
  return CN_F32;
}

static int dtype_of_word(cni_formula *f)
{
  char name[32];
  word(f, name);
  const int dtype = (int)cn_dtype_find(name);
  if (!dtype) bad(f);
  return dtype ? dtype : CN_F32;
}

void cni_formula_inputs(cni_formula *f, int n)
{
  f->typed = *f->s < '0' || *f->s > '9';
  if (!f->typed && integer(f) != n) bad(f);
}

int cni_formula_input(cni_formula *f, int i)
{
  if (!f->typed) return 0;
  if (i && !eat(f, ',')) bad(f);
  dtype_of_word(f);
  if (!eat(f, ':')) bad(f);
  return class_of_word(f);
}

void cni_formula_bar(cni_formula *f)
{
  if (!eat(f, '|')) bad(f);
}

bool cni_formula_more(const cni_formula *f) { return *f->s && *f->s != '|'; }

void cni_formula_between(cni_formula *f, char c)
{
  if (!eat(f, c) && *f->s != '|') bad(f);
}

cni_formula_constant cni_formula_read_constant(cni_formula *f)
{
  cni_formula_constant c = {.k = -1};
  if (eat(f, '@')) {
    c.k = integer(f);
  } else {
    const char *end;
    c.value = cn_number_read(f->s, &end);
    if (end == f->s) bad(f);
    else f->s = end;
  }
  if (f->typed && eat(f, ':')) c.type = class_of_word(f);
  return c;
}

cni_formula_step cni_formula_read_step(cni_formula *f)
{
  cni_formula_step s = {.n = 0};
  word(f, s.name);
  if (f->typed && eat(f, ':')) s.type = class_of_word(f);
  if (eat(f, ':')) s.via = dtype_of_word(f);
  if (eat(f, '*')) s.dims = integer(f);
  if (eat(f, '@')) f->s += strcspn(f->s, " ");
  while (s.n < 3 && eat(f, ' ')) s.reg[s.n++] = integer(f);
  if (!s.n) bad(f);
  return s;
}

int cni_formula_read_result(cni_formula *f)
{
  const int reg = integer(f);
  f->s += strcspn(f->s, ",");
  eat(f, ',');
  return reg;
}

int cni_formula_register_type(int compute)
{
  if (compute == CN_F64) return CN_F64;
  if (cn_dtype_is_float((cn_dtype)compute)) return CN_F32;
  return compute == CN_U64 ? CN_U64 : CN_I64;
}
