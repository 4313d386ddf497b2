/* pointwise.c: runs pointwise programs on the CPU: one pass over memory, block by block, so that the values between
 * steps stay in the first-level cache.
 *
 * Place in the flow: the one CPU kernel of every pointwise op and of gradients made of programs. Invariant: each
 * element is computed by the same steps whatever the blocks, strides and threads, so results never depend on them. */
#include "pointwise.h"

#include <string.h>

#include "base/alloc.h"
#include "base/convert.h"
#include "base/dtype.h"
#include "base/maths.h"
#include "base/parallel.h"
#include "cast.h"
#include "isa.h"
#include "iter.h"
#include "rows.h"
#include "tensor/tensor.h"

enum { BLOCK = 512, SLOTS = 12, GRAIN = 32768 };
/* Of a block in memory. Not a multiple of 4096: loads would wait for stores to the same offset of a page. */
enum { ROOM = BLOCK * 8 + 320 };

typedef struct plan {
  const cn_call *c;
  const cni_program *p;
  const cni_pw_table *table;
  enum cni_compute class;
  int compute;             /* its dtype: CN_F32, ... */
  size_t size;             /* and bytes */
  bool checks_zero;        /* an integer division is among the steps */
  double consts[CNI_PROG_CONSTS];
  cni_cast_fn load[CNI_PROG_INPUTS], store[CNI_PROG_OUTS]; /* NULL: the type is right as it is */
} plan;

static enum cni_compute compute_class(int dtype)
{
  if (dtype == CN_F64) return CNI_C_F64;
  if (cni_dtype_is_float(dtype)) return CNI_C_F32;
  return dtype == CN_U64 ? CNI_C_U64 : CNI_C_I64;
}

static const int class_dtype[CNI_COMPUTES] = {CN_F32, CN_F64, CN_I64, CN_U64};

static const cni_pw_table *table(void) { return CNI_BY_ISA(cni_pw_table); }

/* The loop of a primitive for these operands: float64 sin, cos and tan of large arguments have loops of their own. */
static cni_pw_loop loop_for(const cni_pw_table *t, enum cni_compute class, int prim, const void *a, int64_t n)
{
  cni_pw_loop wide = prim == CNI_PW_sin   ? t->wide_sin
                     : prim == CNI_PW_cos ? t->wide_cos
                     : prim == CNI_PW_tan ? t->wide_tan
                                          : NULL;
  const double *x = a;
  bool large = false;
  for (int64_t i = 0; class == CNI_C_F64 && wide && i < n; i++) large |= x[i] > CNM_TRIG_MAX || x[i] < -CNM_TRIG_MAX;
  return large ? wide : t->loop[class][prim];
}

/* ---- one block ---- */

/* Brings n elements of an input into the compute type. Answers where they are: the memory itself where it fits. */
static const void *load_block(const plan *pl, int i, const char *src, int64_t stride, int64_t n, void *room)
{
  const cn_desc *d = cn_desc_of(pl->c->in[i]);
  int64_t elem = (int64_t)cni_dtype_size(d->dtype);
  if (stride == elem) {
    if (!pl->load[i]) return src;
    pl->load[i](room, src, (size_t)n);
    return room;
  }
  char raw[BLOCK * 8] __attribute__((aligned(64)));
  char *gathered = pl->load[i] ? raw : room;
  cni_row_gather(gathered, src, stride, (size_t)elem, n);
  if (pl->load[i]) pl->load[i](room, raw, (size_t)n);
  return room;
}

static void store_block(const plan *pl, int i, char *dst, int64_t stride, const void *value, int64_t n)
{
  const cn_desc *d = cn_desc_of(pl->c->out[i]);
  int64_t elem = (int64_t)cni_dtype_size(d->dtype);
  char raw[BLOCK * 8] __attribute__((aligned(64)));
  if (stride == elem) {
    if (pl->store[i]) pl->store[i](dst, value, (size_t)n);
    else if (dst != value) memcpy(dst, value, (size_t)(n * elem));
    return;
  }
  if (pl->store[i]) {
    pl->store[i](raw, value, (size_t)n);
    value = raw;
  }
  cni_row_scatter(dst, stride, value, (size_t)elem, n);
}

static void splat(void *room, int compute, double value, int64_t n)
{
  float *f = room;
  double *d = room;
  int64_t *i = room, whole = compute == CN_F32 || compute == CN_F64 ? 0 : cni_f64_to_i64(value);
  if (compute == CN_F32)
    for (int64_t k = 0; k < n; k++) f[k] = (float)value;
  else if (compute == CN_F64)
    for (int64_t k = 0; k < n; k++) d[k] = value;
  else
    for (int64_t k = 0; k < n; k++) i[k] = whole;
}

static void repeat(void *room, size_t size, int64_t n)
{
  uint32_t *w = room;
  uint64_t *l = room;
  if (size == 4)
    for (int64_t k = 1; k < n; k++) w[k] = w[0];
  else
    for (int64_t k = 1; k < n; k++) l[k] = l[0];
}

static bool has_zero(const int64_t *v, int64_t n)
{
  bool zero = false;
  for (int64_t k = 0; k < n; k++) zero |= v[k] == 0;
  return zero;
}

/* The buffers of one run: values of inputs, constants and steps. */
typedef struct rooms {
  char *inputs, *consts, *slots;
} rooms;

static void run_steps(const plan *pl, const void **value, char *const *out, const int64_t *stride, const rooms *r,
                      int64_t n)
{
  const cni_program *p = pl->p;
  int first = p->nin + p->nconst;
  for (int i = 0; i < p->nstep; i++) {
    const cni_step *s = &p->steps[i];
    const void *a = value[s->arg[0]], *b = value[s->arg[1]], *c = value[s->arg[2]];
    void *y = r->slots + (size_t)p->slot[i] * ROOM;
    for (int k = 0; k < p->nout; k++) /* straight into the result where it needs no conversion */
      if (p->out[k] == first + i && !pl->store[k] && stride[k] == (int64_t)pl->size) y = out[k];
    if (pl->checks_zero && cni_prim_divides(s->prim) && has_zero(b, n)) {
      cn_call_fail(pl->c, CN_ERR_VALUE, "integer division by zero");
      return;
    }
    loop_for(pl->table, pl->class, s->prim, a, n)(y, a, b, c, n);
    value[first + i] = y;
  }
  for (int k = 0; k < p->nout; k++) store_block(pl, k, out[k], stride[k], value[p->out[k]], n);
}

static void run_row(char *const *ptr, const int64_t *stride, int64_t n, void *payload)
{
  const plan *pl = payload;
  const cni_program *p = pl->p;
  char stack[(CNI_PROG_INPUTS + SLOTS) * ROOM] __attribute__((aligned(64)));
  char *at = stack;
  const void *value[256];
  rooms r = {stack, NULL, NULL};
  size_t need = (size_t)(p->nin + p->nconst + p->nslots) * ROOM;
  bool heap = need > sizeof stack;
  if (heap && !(at = r.inputs = cni_alloc(need))) return;
  int64_t block = n < BLOCK ? n : BLOCK;
  r.consts = at + (size_t)p->nin * ROOM;
  r.slots = r.consts + (size_t)p->nconst * ROOM;
  for (int i = 0; i < p->nconst; i++) {
    value[p->nin + i] = r.consts + (size_t)i * ROOM;
    splat(r.consts + (size_t)i * ROOM, pl->compute, pl->consts[i], block);
  }
  for (int i = 0; i < p->nin; i++) { /* one value for the whole row */
    if (stride[p->nout + i] != 0) continue;
    char *room = r.inputs + (size_t)i * ROOM;
    if (pl->load[i]) pl->load[i](room, ptr[p->nout + i], 1);
    else memcpy(room, ptr[p->nout + i], pl->size);
    repeat(room, pl->size, block);
    value[i] = room;
  }
  for (int64_t done = 0; done < n; done += BLOCK) {
    int64_t m = n - done < BLOCK ? n - done : BLOCK;
    char *out[CNI_PROG_OUTS];
    for (int k = 0; k < p->nout; k++) out[k] = ptr[k] + done * stride[k];
    for (int i = 0; i < p->nin; i++) {
      int64_t step = stride[p->nout + i];
      if (step)
        value[i] = load_block(pl, i, ptr[p->nout + i] + done * step, step, m, r.inputs + (size_t)i * ROOM);
    }
    run_steps(pl, value, out, stride, &r, m);
  }
  if (heap) cni_free(r.inputs, need);
}

/* ---- the kernel ---- */

typedef struct direct {
  const cni_pw_table *table;
  enum cni_compute class;
  int prim;
  char *y, *in[3];
  int64_t elem;
} direct;

static void direct_range(int64_t begin, int64_t end, void *payload)
{
  const direct *d = payload;
  int64_t o = begin * d->elem;
  cni_pw_loop loop = loop_for(d->table, d->class, d->prim, d->in[0] + o, end - begin);
  loop(d->y + o, d->in[0] + o, d->in[1] + o, d->in[2] + o, end - begin);
}

/* One primitive over dense operands of one layout and type: no plan, no blocks, no iterator. */
static bool run_direct(const cn_call *c, const cni_program *p, enum cni_compute class, const cni_pw_table *t)
{
  const cn_desc *y = cn_desc_of(c->out[0]);
  if (p->nstep != 1 || p->nconst || p->nout != 1 || y->dtype != class_dtype[class]) return false;
  int prim = p->steps[0].prim, arity = cni_prims[prim].arity;
  if (class >= CNI_C_I64 && cni_prim_divides(prim)) return false;
  direct d = {t, class, prim, y->data, {y->data, y->data, y->data}, (int64_t)cni_dtype_size(y->dtype)};
  for (int i = 0; i < p->nin; i++) {
    const cn_desc *x = cn_desc_of(c->in[i]);
    if (x->dtype != y->dtype || !cni_same_layout(x, y)) return false;
  }
  if (y->ndim > 1 && !cni_is_dense(y->ndim, y->shape, y->strides)) return false;
  if (y->ndim == 1 && y->strides[0] != 1 && y->shape[0] > 1) return false;
  for (int k = 0; k < arity; k++) d.in[k] = cn_desc_of(c->in[p->steps[0].arg[k]])->data;
  if (y->numel <= GRAIN) direct_range(0, y->numel, &d);
  else cni_parallel_for(y->numel, GRAIN, direct_range, &d);
  return true;
}

static void make_plan(plan *pl, const cn_call *c, enum cni_compute class)
{
  pl->c = c;
  pl->compute = class_dtype[class];
  pl->size = cni_dtype_size(pl->compute);
  pl->checks_zero = false;
  for (int i = 0; i < pl->p->nstep; i++)
    if (class >= CNI_C_I64 && cni_prim_divides(pl->p->steps[i].prim)) pl->checks_zero = true;
  for (int i = 0; i < c->nin; i++) {
    int dtype = cn_desc_of(c->in[i])->dtype;
    pl->load[i] = dtype == pl->compute ? NULL : cni_cast_find(dtype, pl->compute);
  }
  for (int i = 0; i < c->nout; i++) {
    int dtype = cn_desc_of(c->out[i])->dtype;
    pl->store[i] = dtype == pl->compute ? NULL : cni_cast_find(pl->compute, dtype);
  }
}

int cni_cpu_pointwise(cn_call *c)
{
  plan pl;
  if (!(pl.p = cni_program_of(c, pl.consts))) return cn_err();
  enum cni_compute class = compute_class(c->compute);
  pl.table = table();
  pl.class = class;
  for (int i = 0; i < pl.p->nstep; i++)
    if (!pl.table->loop[class][pl.p->steps[i].prim])
      return cn_call_fail(c, CN_ERR_DTYPE, "%s is not computed in %s", cni_prims[pl.p->steps[i].prim].name,
                          cn_dtype_name((cn_dtype)c->compute));
  if (run_direct(c, pl.p, class, pl.table)) return CN_OK;
  make_plan(&pl, c, class);
  cni_iter it;
  const cn_desc *y = cn_desc_of(c->out[0]);
  cni_iter_begin(&it, y->ndim, y->shape);
  for (int i = 0; i < c->nout; i++) cni_iter_add(&it, cn_desc_of(c->out[i]));
  for (int i = 0; i < c->nin; i++) cni_iter_add(&it, cn_desc_of(c->in[i]));
  cni_iter_finish(&it);
  cni_iter_run(&it, GRAIN, run_row, &pl);
  return cn_err();
}
