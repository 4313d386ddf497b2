/* nest_run.c: runs nests (graph/loop/nest.h) on the CPU: block by block along the last axis of the results, with the
 * loops over a block that pointwise programs have.
 *
 * Place in the flow: runs what graph/loop/lower.c writes; C export will be held to it. Threads share the points of the
 * outer axes. Invariant: each element is computed by the same steps in the same order whatever the blocks and threads,
 * so results never depend on them. */
#include "nest_run.h"

#include <string.h>

#include "backends/cpu/isa.h"
#include "backends/cpu/walk/cast.h"
#include "backends/cpu/walk/rows.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "tensor/tensor.h"

enum { BLOCK = CNI_PW_BLOCK, ROOM = CNI_PW_ROOM, WORK = 32768 }; /* WORK: steps that are worth a thread */

typedef struct running {
  const cni_nest *n;
  const cn_call *c;
  const cn_desc *const *operands, *const *results;
  const cni_pw_table *table;
  int inner;      /* the axis along which blocks lie; -1: the results have none */
  bool *straight; /* per load: affine along it */
  int64_t length; /* of that axis */
} running;

/* What one thread has for itself. */
typedef struct room {
  int64_t *at;        /* per variable of expressions: axes, then loads' integers */
  char *loads, *accs; /* blocks */
  const void **body, **then; /* registers of both programs */
  char *body_slots, *then_slots;
  size_t bytes;
  char *all;
} room;

/* ---- indices ---- */

static bool contains(const cni_nest *n, int expr, int variable)
{
  const cni_expr *e = &n->exprs.v[expr];
  if (e->op == CNI_EXPR_SIZE) return e->value == variable || e->value >= CNI_NEST_AXES;
  return e->op != CNI_EXPR_CONST && (contains(n, e->a, variable) || contains(n, e->b, variable));
}

/* Does it rise by the same for each step of an axis, and need no integer of a load? */
static bool is_affine(const cni_nest *n, int expr, int axis)
{
  const cni_expr *e = &n->exprs.v[expr];
  if (e->op == CNI_EXPR_CONST) return true;
  if (e->op == CNI_EXPR_SIZE) return e->value < CNI_NEST_AXES;
  if (e->op == CNI_EXPR_ADD || e->op == CNI_EXPR_SUB) return is_affine(n, e->a, axis) && is_affine(n, e->b, axis);
  bool a = contains(n, e->a, axis), b = contains(n, e->b, axis);
  if (e->op == CNI_EXPR_MUL && a != b) return is_affine(n, a ? e->a : e->b, axis);
  return !a && !b;
}

static int64_t value_of(const running *r, const room *m, int expr) { return cni_expr_value(&r->n->exprs, expr, m->at); }

/* Where the element lies, in elements from the first. */
static int64_t offset_of(const running *r, const room *m, const cni_load *l, const cn_desc *d)
{
  int64_t offset = 0;
  for (int k = 0; k < l->ndim; k++) offset += value_of(r, m, l->index[k]) * d->strides[k];
  return offset;
}

static bool is_allowed(const running *r, const room *m, const cni_load *l)
{
  for (int k = 0; k < l->nguards; k++) {
    int64_t v = value_of(r, m, l->guard[k].expr);
    if (v < 0 || v >= l->guard[k].below) return false;
  }
  return true;
}

/* ---- loads ---- */

/* Of n points, those for which 0 <= first + i * step < below: *from to *to - 1. */
static void narrow(int64_t *from, int64_t *to, int64_t first, int64_t step, int64_t below)
{
  while (*from < *to && (first + *from * step < 0 || first + *from * step >= below)) ++*from;
  while (*to > *from && (first + (*to - 1) * step < 0 || first + (*to - 1) * step >= below)) --*to;
}

static int64_t step_of(const running *r, room *m, int expr, int64_t first)
{
  if (r->inner < 0) return 0;
  m->at[r->inner]++;
  int64_t step = value_of(r, m, expr) - first;
  m->at[r->inner]--;
  return step;
}

static void fill(const cni_load *l, char *block, int64_t from, int64_t to)
{
  size_t size = l->class == CNI_C_F32 ? 4 : 8;
  if (to > from) cni_pw_splat(block + (size_t)from * size, cni_compute_dtype(l->class), l->otherwise, to - from);
}

static void load_straight(const running *r, room *m, const cni_load *l, char *block, int64_t n)
{
  const cn_desc *d = r->operands[l->operand];
  size_t elem = cni_dtype_size(d->dtype), size = l->class == CNI_C_F32 ? 4 : 8;
  int64_t from = 0, to = n, offset = 0, step = 0;
  char raw[BLOCK * 8] __attribute__((aligned(64)));
  for (int k = 0; k < l->nguards; k++) {
    int64_t v = value_of(r, m, l->guard[k].expr);
    narrow(&from, &to, v, step_of(r, m, l->guard[k].expr, v), l->guard[k].below);
  }
  fill(l, block, 0, from);
  fill(l, block, to, n);
  if (from >= to) return;
  for (int k = 0; k < l->ndim; k++) {
    int64_t v = value_of(r, m, l->index[k]), each = step_of(r, m, l->index[k], v);
    offset += (v + from * each) * d->strides[k];
    step += each * d->strides[k];
  }
  cni_row_gather(raw, (const char *)d->data + offset * (int64_t)elem, step * (int64_t)elem, elem, to - from);
  cni_cast_find(d->dtype, cni_compute_dtype(l->class))(block + (size_t)from * size, raw, (size_t)(to - from));
}

/* Sets the integers of gathered loads to those of point i of the block. */
static void take_integers(const running *r, room *m, size_t load, int64_t i)
{
  for (size_t k = 0; k < load; k++)
    if (r->n->loads[k].class == CNI_C_I64)
      m->at[CNI_NEST_AXES + k] = ((const int64_t *)(const void *)(m->loads + k * ROOM))[i];
}

static void load_each(const running *r, room *m, size_t load, char *block, int64_t n)
{
  const cni_load *l = &r->n->loads[load];
  const cn_desc *d = l->operand < 0 ? NULL : r->operands[l->operand];
  size_t elem = d ? cni_dtype_size(d->dtype) : 8, size = l->class == CNI_C_F32 ? 4 : 8;
  char raw[BLOCK * 8] __attribute__((aligned(64)));
  bool allowed[BLOCK];
  int64_t start = r->inner < 0 ? 0 : m->at[r->inner];
  for (int64_t i = 0; i < n; i++) {
    if (r->inner >= 0) m->at[r->inner] = start + i;
    take_integers(r, m, load, i);
    allowed[i] = is_allowed(r, m, l);
    int64_t at = !allowed[i] ? 0 : d ? offset_of(r, m, l, d) : value_of(r, m, l->index[0]);
    if (!d) memcpy(raw + (size_t)i * 8, &at, 8);
    else if (allowed[i]) memcpy(raw + (size_t)i * elem, (const char *)d->data + at * (int64_t)elem, elem);
    else memset(raw + (size_t)i * elem, 0, elem);
  }
  if (r->inner >= 0) m->at[r->inner] = start;
  cni_cast_find(d ? d->dtype : CN_I64, cni_compute_dtype(l->class))(block, raw, (size_t)n);
  for (int64_t i = 0; i < n; i++)
    if (!allowed[i]) cni_pw_splat(block + (size_t)i * size, cni_compute_dtype(l->class), l->otherwise, 1);
}

static void load_all(const running *r, room *m, bool late, int64_t n)
{
  for (size_t i = 0; i < r->n->nloads; i++) {
    if (r->n->loads[i].late != late) continue;
    if (r->straight[i]) load_straight(r, m, &r->n->loads[i], m->loads + i * ROOM, n);
    else load_each(r, m, i, m->loads + i * ROOM, n);
  }
}

/* ---- one block of results ---- */

static void store(const running *r, room *m, int k, const void *value, int64_t n)
{
  const cni_store *s = &r->n->store[k];
  const cni_program *p = r->n->then ? r->n->then : r->n->body;
  const cn_desc *d = r->results[k];
  int64_t offset = 0, step = 0, elem = (int64_t)cni_dtype_size(d->dtype);
  char raw[BLOCK * 8] __attribute__((aligned(64)));
  for (int i = 0; i < s->ndim; i++) {
    int64_t v = value_of(r, m, s->index[i]);
    offset += v * d->strides[i];
    step += step_of(r, m, s->index[i], v) * d->strides[i];
  }
  cni_cast_find(cni_compute_dtype((enum cni_compute)p->class[p->out[k]]), d->dtype)(raw, value, (size_t)n);
  cni_row_scatter((char *)d->data + offset * elem, step * elem, raw, (size_t)elem, n);
}

/* The next point of the reduced axes; false: that was the last. */
static bool advance(const cni_nest *n, int64_t *at)
{
  for (int i = n->naxes - 1; i >= n->nfor; i--) {
    if (++at[i] < n->axis[i].size) return true;
    at[i] = 0;
  }
  return false;
}

static int accumulate(const running *r, room *m, int64_t n)
{
  const cni_nest *nest = r->n;
  int status = CN_OK;
  bool any = true;
  for (int i = nest->nfor; i < nest->naxes; i++) m->at[i] = 0, any &= nest->axis[i].size > 0;
  for (int k = 0; k < nest->body->nout; k++)
    cni_pw_splat(m->accs + (size_t)k * ROOM, cni_compute_dtype(nest->fold[k].class), nest->fold[k].from, n);
  while (any && !status) {
    load_all(r, m, false, n);
    status = cni_pw_steps(nest->body, r->table, r->c, m->body, m->body_slots, n);
    for (int k = 0; k < nest->body->nout && !status; k++) {
      char *acc = m->accs + (size_t)k * ROOM;
      r->table->loop[nest->fold[k].class][cni_fold_prim(nest->fold[k].fold)](acc, acc, m->body[nest->body->out[k]],
                                                                              NULL, n);
    }
    any = advance(nest, m->at);
  }
  return status;
}

static int run_block(const running *r, room *m, int64_t n)
{
  const cni_nest *nest = r->n;
  const cni_program *p = nest->then ? nest->then : nest->body;
  const void **value = nest->then ? m->then : m->body;
  int status = nest->then ? accumulate(r, m, n) : CN_OK;
  if (status) return status;
  load_all(r, m, nest->then != NULL, n);
  status = cni_pw_steps(p, r->table, r->c, value, nest->then ? m->then_slots : m->body_slots, n);
  for (int k = 0; k < nest->nstores && !status; k++) store(r, m, k, value[p->out[k]], n);
  return status;
}

/* ---- the whole ---- */

static size_t registers(const cni_program *p) { return p ? (size_t)(p->nin + p->nconst + p->nstep) : 0; }
static size_t blocks(const cni_program *p) { return p ? (size_t)(p->nconst + p->nslots) : 0; }

/* Registers of a program's constants. */
static void place_consts(const cni_program *p, const void **value, char *at)
{
  for (int i = 0; i < p->nconst; i++) {
    value[p->nin + i] = at + (size_t)i * ROOM;
    cni_pw_splat(at + (size_t)i * ROOM, cni_compute_dtype((enum cni_compute)p->class[p->nin + i]), p->consts[i].value,
                 BLOCK);
  }
}

static bool open_room(room *m, const cni_nest *n)
{
  size_t nblocks = n->nloads + CNI_MAX_RESULTS + blocks(n->body) + blocks(n->then);
  size_t pointers = registers(n->body) + registers(n->then), variables = CNI_NEST_AXES + n->nloads;
  m->bytes = nblocks * ROOM + pointers * sizeof(void *) + variables * sizeof *m->at;
  if (!(m->all = cni_scratch_alloc_zero(m->bytes))) return false;
  m->loads = m->all;
  m->accs = m->loads + n->nloads * ROOM;
  char *consts = m->accs + CNI_MAX_RESULTS * ROOM;
  m->body_slots = consts + (size_t)n->body->nconst * ROOM;
  char *then_consts = m->body_slots + (size_t)n->body->nslots * ROOM;
  m->then_slots = then_consts + (n->then ? (size_t)n->then->nconst : 0) * ROOM;
  m->body = (const void **)(void *)(m->all + nblocks * ROOM);
  m->then = m->body + registers(n->body);
  m->at = (int64_t *)(void *)(m->body + pointers);
  int body = 0, then = 0;
  for (int k = 0; n->then && k < n->body->nout; k++) m->then[then++] = m->accs + (size_t)k * ROOM;
  for (size_t i = 0; i < n->nloads; i++)
    *(n->loads[i].late ? &m->then[then++] : &m->body[body++]) = m->loads + i * ROOM;
  place_consts(n->body, m->body, consts);
  if (n->then) place_consts(n->then, m->then, then_consts);
  return true;
}

/* Points of the outer axes. */
static void run_range(int64_t begin, int64_t end, void *payload)
{
  const running *r = payload;
  const cni_nest *n = r->n;
  room m;
  int status = open_room(&m, n) ? CN_OK : CN_ERR_MEMORY;
  for (int64_t point = begin; point < end && !status; point++) {
    int64_t rest = point;
    for (int i = n->nfor - 2; i >= 0; i--) {
      m.at[i] = rest % n->axis[i].size;
      rest /= n->axis[i].size;
    }
    for (int64_t at = 0; at < r->length && !status; at += BLOCK) {
      if (r->inner >= 0) m.at[r->inner] = at;
      status = run_block(r, &m, r->length - at < BLOCK ? r->length - at : BLOCK);
    }
  }
  if (m.all) cni_scratch_free(m.all, m.bytes);
}

static bool is_straight(const cni_nest *n, const cni_load *l, int inner)
{
  if (l->operand < 0) return false;
  for (int k = 0; k < l->ndim; k++)
    if (!is_affine(n, l->index[k], inner)) return false;
  for (int k = 0; k < l->nguards; k++)
    if (!is_affine(n, l->guard[k].expr, inner)) return false;
  return true;
}

int cni_nest_run(const cni_nest *n, const cn_call *c, const cn_desc *const *operands, const cn_desc *const *results)
{
  running r = {.n = n, .c = c, .operands = operands, .results = results, .table = CNI_BY_ISA(cni_pw_table),
               .inner = n->nfor - 1, .length = n->nfor ? n->axis[n->nfor - 1].size : 1};
  int64_t points = 1, work = r.length;
  for (int i = 0; i < n->nfor - 1; i++) points *= n->axis[i].size;
  for (int i = n->nfor; i < n->naxes; i++) work *= n->axis[i].size > 0 ? n->axis[i].size : 1;
  if (!points || !r.length) return CN_OK;
  if (!(r.straight = cni_scratch_alloc(n->nloads + 1))) return CN_ERR_MEMORY;
  for (size_t i = 0; i < n->nloads; i++) r.straight[i] = is_straight(n, &n->loads[i], r.inner);
  cni_parallel_for(points, WORK / work + 1, run_range, &r);
  cni_scratch_free(r.straight, n->nloads + 1);
  return cn_err();
}
