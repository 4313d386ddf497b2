/* direct.c: one primitive over operands of one type that are dense in the same order: no plan, no blocks, no iterator.
 *
 * Place in the flow: what pointwise.c tries first; most calls of small ops end here. An operand of a short call may
 * also be one value (a number, an expanded scalar): it is repeated on the stack. Invariant: as in pointwise.c, each
 * element is computed by the same step whatever way its call takes. */
#include <string.h>

#include "backends/cpu/walk/cast.h"
#include "backends/cpu/walk/nontemporal.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "pointwise.h"
#include "tensor/tensor.h"

enum { BLOCK = CNI_PW_BLOCK, GRAIN = CNI_PW_GRAIN };

/* ---- long ones ---- */

typedef struct direct {
  const cni_pw_table *table;
  enum cni_compute class;
  int prim;
  cni_pw_loop own; /* instead of the table's for class and prim, or NULL */
  char *y;
  const char *in[3];
  int64_t elem;
  int nin;
  bool nontemporal;
} direct;

static inline cni_pw_loop loop_of(const direct *d, const void *a, int64_t n)
{
  return CNI_UNLIKELY(d->own) ? d->own : cni_pw_loop_for(d->table, d->class, d->prim, a, n);
}

/* Results past the caches: made block by block in L1. */
static void nontemporal_range(const direct *d, int64_t begin, int64_t end)
{
  char block[BLOCK * 8] __attribute__((aligned(64)));
  const char *ahead[3];
  size_t each[3];
  for (int64_t at = begin, m; at < end; at += m) {
    int64_t o = at * d->elem;
    m = end - at < BLOCK ? end - at : BLOCK;
    if (at == begin && m == BLOCK) m -= cni_into_line(d->y + o, d->elem);
    bool fits = cni_nontemporal_fits(d->y + o);
    cni_pw_loop loop = loop_of(d, d->in[0] + o, m);
    loop(fits ? block : d->y + o, d->in[0] + o, d->in[1] + o, d->in[2] + o, m);
    for (int k = 0; k < d->nin; k++) {
      ahead[k] = d->in[k] + o + m * d->elem;
      each[k] = (size_t)((end - at - m < BLOCK ? end - at - m : BLOCK) * d->elem);
    }
    if (fits) cni_nontemporal_store(d->y + o, block, (size_t)(m * d->elem), ahead, each, d->nin);
  }
  cni_nontemporal_end();
}

static void range(int64_t begin, int64_t end, void *payload)
{
  const direct *d = payload;
  int64_t o = begin * d->elem;
  if (d->nontemporal) {
    nontemporal_range(d, begin, end);
    return;
  }
  cni_pw_loop loop = loop_of(d, d->in[0] + o, end - begin);
  loop(d->y + o, d->in[0] + o, d->in[1] + o, d->in[2] + o, end - begin);
}

static CNI_APART void run_long(direct *d, const cn_desc *y)
{
  d->y = y->data;
  d->nin = cni_prims[d->prim].arity;
  for (int k = d->nin; k < 3; k++) d->in[k] = d->in[0]; /* not read, but moved along */
  d->elem = (int64_t)cni_dtype_size(y->dtype);
  d->nontemporal = cni_nontemporal_pays(y->numel * d->elem * (d->nin + 1));
  cni_parallel_for(y->numel, GRAIN, range, d);
}

/* ---- operands ---- */

/* Does d use each place in its memory once, without gaps? */
static bool is_dense(const cn_desc *d)
{
  if (d->ndim == 1) return d->strides[0] == 1 || d->shape[0] <= 1;
  return cni_is_dense(d->ndim, d->shape, d->strides);
}

static bool is_one_value(const cn_desc *d)
{
  for (int i = 0; i < d->ndim; i++)
    if (d->shape[i] != 1 && d->strides[i] != 0) return false;
  return d->numel > 0;
}

#define REPEAT(T) \
  for (int64_t k = 1; k < n; k++) ((T *)room)[k] = *(T *)room
/* x's one value n times, as the type `dtype` of 4 or 8 bytes. */
static CNI_APART const void *repeated(const cn_desc *x, int dtype, int64_t n, void *room)
{
  if (x->dtype == dtype) memcpy(room, x->data, cni_dtype_size(dtype));
  else cni_cast_find(x->dtype, dtype)(room, x->data, 1);
  if (cni_dtype_size(dtype) == 4) REPEAT(uint32_t);
  else REPEAT(uint64_t);
  return room;
}

/* Where an operand lies in the result's order and type; NULL: it does not. */
static inline const void *operand(const cn_desc *x, const cn_desc *y, void *room)
{
  if (CNI_LIKELY(x->dtype == y->dtype && cni_same_layout(x, y))) return x->data;
  return y->numel <= BLOCK && is_one_value(x) ? repeated(x, y->dtype, y->numel, room) : NULL;
}

/* The sign of 16-bit floats alone: nothing is computed, so they need not become float32. */
static CNI_APART bool half_sign(const cn_call *c, int prim, const cni_pw_table *t)
{
  const cn_desc *y = cn_desc_of(c->out[0]), *x = cn_desc_of(c->in[0]);
  cni_pw_loop loop = prim == CNI_PW_neg ? t->half_neg : prim == CNI_PW_abs ? t->half_abs : NULL;
  if (!loop || x->dtype != y->dtype || !cni_same_layout(x, y) || !is_dense(y)) return false;
  run_long(&(direct){.table = t, .prim = prim, .own = loop, .in = {x->data}}, y);
  return true;
}

bool cni_pw_direct(const cn_call *c, const cni_program *p, enum cni_compute class, const cni_pw_table *t)
{
  const cn_desc *y = cn_desc_of(c->out[0]);
  const cni_step *s = p->steps;
  char room[3][BLOCK * 8] __attribute__((aligned(64)));
  const void *in[3] = {NULL, NULL, NULL};
  if (p->nstep != 1 || p->nconst || p->nout != 1 || p->typed) return false;
  if (CNI_UNLIKELY(y->dtype == CN_BF16 || y->dtype == CN_F16)) return half_sign(c, s->prim, t);
  if (y->dtype != cni_compute_dtype(class) || !is_dense(y)) return false;
  if (!t->loop[class][s->prim] || (class >= CNI_C_I64 && cni_prim_divides(s->prim))) return false; /* looks for zeros */
  for (int k = 0, arity = cni_prims[s->prim].arity; k < arity; k++)
    if (!(in[k] = operand(cn_desc_of(c->in[s->arg[k]]), y, room[k]))) return false;
  if (y->numel <= GRAIN)
    cni_pw_loop_for(t, class, s->prim, in[0], y->numel)(y->data, in[0], in[1], in[2], y->numel);
  else
    run_long(&(direct){.table = t, .class = class, .prim = s->prim, .in = {in[0], in[1], in[2]}}, y);
  return true;
}
