/* row.c: see row.h. */
#include "row.h"

#include <string.h>

#define FAMILY(name) extern const cni_hrow cni_hlo_##name##_rows[];
#include "families.def"
#undef FAMILY

static const cni_hrow *const families[] = {
#define FAMILY(name) cni_hlo_##name##_rows,
#include "families.def"
#undef FAMILY
};

const cni_hrow *cni_hlo_row(const char *op)
{
  for (size_t f = 0; f < sizeof families / sizeof *families; f++)
    for (const cni_hrow *row = families[f]; row->op; row++)
      if (!strcmp(row->op, op)) return row;
  return NULL;
}

uint32_t cni_harg_dims(const cni_hcall *c, int i, int ndim)
{
  const cn_value *v = &c->args[i];
  uint32_t mask = 0;
  if (v->tag == CN_V_NONE || !v->n) return ndim ? (1u << ndim) - 1 : 0;
  for (int k = 0; k < v->n; k++) {
    int64_t d = v->tag == CN_V_INT ? v->u.i : v->u.is[k];
    if (ndim) mask |= 1u << (d < 0 ? d + ndim : d);
  }
  return mask;
}

cni_hval cni_hlo_as(cni_hlo *h, cni_hval x, int dtype, const cni_hval *like)
{
  if (x.number) return cni_hlo_splat(h, x, dtype, like->ndim, like->shape);
  return cni_hlo_expand(h, cni_hlo_cast(h, x, dtype), like->ndim, like->shape);
}
