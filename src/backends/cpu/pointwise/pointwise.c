/* pointwise.c: runs pointwise programs on the CPU: one pass over memory, block by block, so that the values between
 * steps stay in the first-level cache.
 *
 * Place in the flow: the one CPU kernel of every pointwise op and of gradients made of programs. Invariant: each
 * element is computed by the same steps whatever the blocks, strides and threads, so results never depend on them. */
#include <string.h>

#include "backends/cpu/isa.h"
#include "backends/cpu/walk/nontemporal.h"
#include "backends/cpu/walk/rows.h"
#include "base/convert.h"
#include "base/dtype.h"
#include "base/maths.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "plan.h"
#include "rows.h"
#include "tensor/tensor.h"

enum { BLOCK = CNI_PW_BLOCK, WIDE = CNI_PW_WIDE, GRAIN = CNI_PW_GRAIN, SHORT_ROW = 128, WHOLE_ROW = 33 };
enum { ROOM = CNI_PW_ROOM };
enum { FEW = 16, ROOMS = 24, REGISTERS = 256 }; /* inputs, blocks and registers that need no memory of the heap */

/* What a register holds. */
static inline enum cni_compute class_of(const cni_pw_plan *pl, int reg)
{
  return pl->p->typed ? (enum cni_compute)pl->p->class[reg] : pl->class;
}

static const cni_pw_table *table(void) { return CNI_BY_ISA(cni_pw_table); }

/* ---- one block ---- */

static void load_some(const cni_pw_plan *pl, int i, void *room, const void *src, int64_t n)
{
  char narrow[WIDE * 2] __attribute__((aligned(64)));
  pl->in[i].load(room, src, (size_t)n);
  if (!pl->in[i].down) return;
  pl->in[i].down(narrow, room, (size_t)n);
  pl->in[i].up(room, narrow, (size_t)n);
}

/* Brings n elements of an input into the compute type. Returns where they are: the memory itself where it fits. */
static const void *load_block(const cni_pw_plan *pl, int i, const char *src, int64_t stride, int64_t n, void *room)
{
  const cn_desc *d = cn_desc_of(pl->c->in[i]);
  int64_t elem = (int64_t)cni_dtype_size(d->dtype);
  if (stride == elem) {
    if (!pl->in[i].load) return src;
    load_some(pl, i, room, src, n);
    return room;
  }
  char raw[WIDE * 8] __attribute__((aligned(64)));
  char *gathered = pl->in[i].load ? raw : room;
  cni_row_gather(gathered, src, stride, (size_t)elem, n);
  if (pl->in[i].load) load_some(pl, i, room, raw, n);
  return room;
}

/* What the next block will read, to be fetched while a result is stored past the caches. */
typedef struct outlook {
  const char *at[FEW];
  size_t bytes[FEW];
  int n;
} outlook;

static void store_block(const cni_pw_plan *pl, int i, char *dst, int64_t stride, const void *value, int64_t n,
                        const outlook *next)
{
  const cn_desc *d = cn_desc_of(pl->c->out[i]);
  int64_t elem = (int64_t)cni_dtype_size(d->dtype);
  char raw[WIDE * 8] __attribute__((aligned(64)));
  if (stride == elem && !(pl->nontemporal && cni_nontemporal_fits(dst))) {
    if (pl->store[i]) pl->store[i](dst, value, (size_t)n);
    else if (dst != value) memcpy(dst, value, (size_t)(n * elem));
    return;
  }
  if (pl->store[i]) {
    pl->store[i](raw, value, (size_t)n);
    value = raw;
  }
  if (stride == elem) cni_nontemporal_store(dst, value, (size_t)(n * elem), next->at, next->bytes, i ? 0 : next->n);
  else cni_row_scatter(dst, stride, value, (size_t)elem, n);
}

/* The buffers of one run: values of inputs, constants and steps, and where each register's is. */
typedef struct rooms {
  char *inputs, *consts, *slots;
  const void **value;
  const char **held; /* per input: the place its buffer was filled from last, if it is the same for all rows */
  size_t heap; /* bytes, where they are not on the stack */
} rooms;

/* What rooms have on the stack. */
typedef struct stack {
  char blocks[ROOMS * ROOM] __attribute__((aligned(64)));
  const void *value[REGISTERS];
  const char *held[FEW];
} stack;

/* All steps at once, by what the compiler made of them. */
static void run_code(const cni_pw_plan *pl, char *const *out, const int64_t *stride, const rooms *r, int64_t n,
                     const outlook *next)
{
  const cni_program *p = pl->p;
  void *y[CNI_MAX_RESULTS];
  for (int k = 0; k < p->nout; k++) {
    bool straight = !pl->store[k] && !pl->nontemporal && stride[k] == (class_of(pl, p->out[k]) == CNI_C_F32 ? 4 : 8);
    y[k] = straight ? out[k] : r->slots + (size_t)k * ROOM;
  }
  int fault = pl->code(y, r->value, n);
  if (CNI_UNLIKELY(fault)) cni_pw_division_fault(pl->c, &p->steps[fault - 1]);
  for (int k = 0; k < p->nout && !fault; k++) store_block(pl, k, out[k], stride[k], y[k], n, next);
}

static void run_steps(const cni_pw_plan *pl, char *const *out, const int64_t *stride, const rooms *r, int64_t n,
                      const outlook *next)
{
  const cni_program *p = pl->p;
  if (pl->code) {
    run_code(pl, out, stride, r, n, next);
    return;
  }
  const void **value = r->value;
  int first = p->nin + p->nconst;
  const uint8_t *classes = p->typed ? p->class + first : NULL;
  for (int i = 0; i < p->nstep; i++) {
    const cni_step *s = &p->steps[i];
    const void *a = value[s->arg[0]], *b = value[s->arg[1]], *c = value[s->arg[2]];
    enum cni_compute class = CNI_UNLIKELY(classes) ? classes[i] : pl->class;
    void *y = r->slots + (size_t)p->slot[i] * ROOM;
    for (int k = 0; k < p->nout; k++) /* straight into the result where it needs no conversion */
      if (p->out[k] == first + i && !pl->store[k] && !pl->late[k] && !pl->nontemporal &&
          stride[k] == (class == CNI_C_F32 ? 4 : 8))
        y = out[k];
    if (CNI_UNLIKELY(s->prim == CNI_PW_convert)) cni_pw_convert(p, s, y, a, n);
    else if (CNI_UNLIKELY(pl->checks_zero) && class >= CNI_C_I64 && cni_prim_divides(s->prim) &&
             cni_pw_has_zero(b, n)) {
      cni_pw_division_fault(pl->c, s);
      return;
    } else cni_pw_loop_for(pl->table, class, s->prim, a, n)(y, a, b, c, n);
    value[first + i] = y;
  }
  for (int k = 0; k < p->nout; k++) store_block(pl, k, out[k], stride[k], value[p->out[k]], n, next);
}

/* How many elements of this stride are left until a cache line begins. */
int64_t cni_pw_to_line(const char *dst, int64_t stride)
{
  int64_t bytes = (int64_t)(-(uintptr_t)dst & (CNI_LINE - 1));
  return stride > 0 && stride <= 8 ? bytes / stride : 0;
}

/* The buffers of a run of blocks of `block` elements, on the stack or the heap, with the constants in place. False: no
 * memory, the error is set. */
static bool open_rooms(rooms *r, const cni_pw_plan *pl, stack *st, int64_t block)
{
  const cni_program *p = pl->p;
  int nconst = pl->code ? 0 : p->nconst, nslots = pl->code ? p->nout : p->nslots; /* code has its own constants */
  size_t blocks = (size_t)(p->nin + nconst + nslots) * ROOM;
  size_t registers = (size_t)(p->nin + p->nconst + p->nstep) * sizeof *r->value;
  bool small = blocks <= sizeof st->blocks && registers <= sizeof st->value && p->nin <= FEW;
  r->heap = small ? 0 : blocks + registers + (size_t)p->nin * sizeof *r->held;
  if (!(r->inputs = small ? st->blocks : cni_scratch_alloc(r->heap))) return false;
  r->consts = r->inputs + (size_t)p->nin * ROOM;
  r->slots = r->consts + (size_t)nconst * ROOM;
  r->value = small ? st->value : (const void **)(void *)(r->inputs + blocks);
  r->held = small ? st->held : (const char **)(void *)(r->inputs + blocks + registers);
  for (int i = 0; i < nconst; i++) {
    r->value[p->nin + i] = r->consts + (size_t)i * ROOM;
    cni_pw_splat(r->consts + (size_t)i * ROOM, cni_compute_dtype(class_of(pl, p->nin + i)), pl->consts[i], block);
  }
  return true;
}

static void close_rooms(const rooms *r)
{
  if (r->heap) cni_scratch_free(r->inputs, r->heap);
}

/* One step over operands and a result that are used where they lie, or are one value, needs no blocks. It is made out
 * once for all rows: between short ones every instruction keeps the processor from asking for the next. */
typedef struct whole {
  cni_pw_loop loop;
  int in[3]; /* which operand of a row each of the step's is */
  const void *number; /* not NULL: what stands for operand `one`, which is one value everywhere */
  int one;
  int64_t value; /* where it points, if converted */
} whole;

/* The loop of a step whose operand `one` is one value; NULL: there is none. */
static cni_pw_loop loop_with_one(const cni_pw_plan *pl, const cni_step *s, int one)
{
  if (pl->class != CNI_C_F32 || s->arg[0] == s->arg[1]) return NULL;
  for (int i = 0; i < CNI_PW_ONES; i++)
    if (pl->table->one[i].prim == s->prim) return pl->table->one[i].loop[s->arg[1] == one];
  return NULL;
}

/* Is it so for rows of these strides? */
static bool make_whole(whole *w, const cni_pw_plan *pl, const int64_t *stride)
{
  const cni_program *p = pl->p;
  const cni_step *s = p->steps;
  int64_t size = pl->class == CNI_C_F32 ? 4 : 8;
  if (p->nstep != 1 || p->nconst || p->nout != 1 || pl->nontemporal || pl->checks_zero || pl->store[0]) return false;
  if (p->typed || stride[0] != size || (pl->class == CNI_C_F64 && cni_pw_wide_loop(pl->table, s->prim))) return false;
  w->one = -1;
  w->number = NULL;
  for (int k = 0; k < p->nin; k++) {
    const cn_desc *d = cn_desc_of(pl->c->in[k]);
    if (stride[1 + k] == size && !pl->in[k].load) continue;
    if (stride[1 + k] || w->one >= 0 || (pl->in[k].load && d->numel != 1)) return false;
    w->one = k;
    if (pl->in[k].load) load_some(pl, k, &w->value, d->data, 1), w->number = &w->value;
  }
  w->loop = w->one >= 0 ? loop_with_one(pl, s, w->one) : pl->table->loop[pl->class][s->prim];
  for (int k = 0; k < 3; k++) w->in[k] = 1 + s->arg[k];
  return w->loop != NULL;
}

static void whole_row(char *const *ptr, const int64_t *stride, int64_t n, void *payload)
{
  const whole *w = payload;
  const void *in[3] = {ptr[w->in[0]], ptr[w->in[1]], ptr[w->in[2]]};
  (void)stride;
  if (w->number) in[w->in[1] == 1 + w->one] = w->number;
  w->loop(ptr[0], in[0], in[1], in[2], n);
}

/* Leaves it to the caller to end non-temporal stores. */
void cni_pw_some_of_row(const cni_pw_plan *pl, char *const *ptr, const int64_t *stride, int64_t n)
{
  const cni_program *p = pl->p;
  whole w;
  if (make_whole(&w, pl, stride)) {
    whole_row(ptr, stride, n, &w);
    return;
  }
  stack st;
  rooms r;
  int64_t block = n < pl->block ? n : pl->block;
  if (!open_rooms(&r, pl, &st, block)) return;
  for (int i = 0; i < p->nin; i++) { /* one value for the whole row */
    if (stride[p->nout + i] != 0) continue;
    char *room = r.inputs + (size_t)i * ROOM;
    if (pl->in[i].load) load_some(pl, i, room, ptr[p->nout + i], 1);
    else memcpy(room, ptr[p->nout + i], pl->in[i].size);
    cni_pw_repeat(room, pl->in[i].size, block);
    r.value[i] = room;
  }
  for (int64_t done = 0, m; done < n; done += m) {
    char *out[CNI_MAX_RESULTS];
    outlook next; /* all but n is set where it is used: filling it would take as long as the block */
    next.n = 0;
    m = n - done < pl->block ? n - done : pl->block;
    if (pl->nontemporal && done == 0 && n > pl->block) m -= cni_into_line(ptr[0], stride[0]);
    for (int k = 0; k < p->nout; k++) out[k] = ptr[k] + done * stride[k];
    for (int i = 0; i < p->nin; i++) {
      int64_t step = stride[p->nout + i];
      const char *at = ptr[p->nout + i] + done * step;
      if (step) r.value[i] = load_block(pl, i, at, step, m, r.inputs + (size_t)i * ROOM);
      if (step <= 0 || step > 8 || !pl->nontemporal || next.n == FEW) continue;
      next.at[next.n] = at + m * step;
      next.bytes[next.n++] = (size_t)((n - done - m < pl->block ? n - done - m : pl->block) * step);
    }
    run_steps(pl, out, stride, &r, m, &next);
  }
  close_rooms(&r);
}

static void run_row(char *const *ptr, const int64_t *stride, int64_t n, void *payload)
{
  const cni_pw_plan *pl = payload;
  cni_pw_some_of_row(pl, ptr, stride, n);
  if (pl->nontemporal) cni_nontemporal_end();
}

/* ---- short rows: as many as make a block are worked on together ---- */

typedef struct panels {
  cni_pw_plan *pl;
  const cni_iter *it;
  int64_t inner, rows; /* elements of a row; rows of a whole panel */
  int64_t per;         /* panels of the last dim but one */
} panels;

#define SPREAD(T) \
  for (int64_t r = 0; r < rows; r++) \
    for (int64_t k = 0; k < inner; k++) memcpy((T *)to + r * inner + k, from + r * across + k * along, sizeof(T));
/* One value per row, 16 bytes at a time: what runs over a row's end is overwritten by the next, or lies in slack. */
#define REPEAT(T) \
  for (int64_t r = 0; r < rows; r++) { \
    typedef T vector __attribute__((vector_size(16))); \
    T one; \
    memcpy(&one, from + r * across, sizeof one); \
    vector many = one - (vector){0}; \
    for (int64_t k = 0; k < inner; k += (int64_t)(16 / sizeof one)) memcpy((T *)to + r * inner + k, &many, 16); \
  }

/* Rows of `inner` elements, `across` bytes apart, elements `along` bytes, side by side. */
static void spread(void *to, const char *from, int64_t rows, int64_t across, int64_t inner, int64_t along, size_t elem)
{
  if (along == (int64_t)elem) {
    for (int64_t r = 0; r < rows; r++)
      memcpy((char *)to + r * inner * along, from + r * across, (size_t)(inner * along));
    return;
  }
  switch (elem) {
  case 1: SPREAD(uint8_t) break;
  case 2: SPREAD(uint16_t) break;
  case 4:
    if (along) SPREAD(uint32_t)
    else REPEAT(uint32_t)
    break;
  default:
    if (along) SPREAD(uint64_t)
    else REPEAT(uint64_t)
  }
}

/* Input i of a panel in the compute type. held: the place its buffer was filled from last, if it is the same for all
 * rows. */
static const void *load_panel(const panels *p, int i, const char *at, int64_t rows, char *room, const char **held)
{
  const cni_pw_plan *pl = p->pl;
  const cni_iter *it = p->it;
  int k = pl->p->nout + i, last = it->ndim - 1;
  int64_t along = it->stride[k][last], across = it->stride[k][last - 1], n = rows * p->inner;
  size_t elem = cni_dtype_size(cn_desc_of(pl->c->in[i])->dtype);
  char raw[BLOCK * 8 + 16] __attribute__((aligned(64)));
  if (along == (int64_t)elem && across == p->inner * along) return load_block(pl, i, at, along, n, room);
  if (across == 0 && *held == at) return room;
  *held = at;
  if (across == 0) n = (rows = p->rows) * p->inner;
  spread(pl->in[i].load ? raw : room, at, rows, across, p->inner, along, elem);
  if (pl->in[i].load) load_some(pl, i, room, raw, n);
  return room;
}

static void panel_range(int64_t begin, int64_t end, void *payload)
{
  const panels *p = payload;
  const cni_iter *it = p->it;
  const cni_program *prog = p->pl->p;
  stack st;
  const outlook none = {.n = 0};
  int row = it->ndim - 2;
  rooms r;
  if (!open_rooms(&r, p->pl, &st, p->rows * p->inner)) return;
  for (int i = 0; i < prog->nin; i++) r.held[i] = NULL;
  for (int64_t at = begin; at < end; at++) {
    int64_t first = at % p->per * p->rows, rest = at / p->per, step[CNI_MAX_RESULTS];
    int64_t rows = it->shape[row] - first < p->rows ? it->shape[row] - first : p->rows;
    char *ptr[CNI_ITER_FEW];
    for (int k = 0; k < it->n; k++) ptr[k] = it->base[k] + first * it->stride[k][row];
    for (int i = row - 1; i >= 0; rest /= it->shape[i--])
      for (int k = 0; k < it->n; k++) ptr[k] += rest % it->shape[i] * it->stride[k][i];
    for (int i = 0; i < prog->nin; i++)
      r.value[i] = load_panel(p, i, ptr[prog->nout + i], rows, r.inputs + (size_t)i * ROOM, &r.held[i]);
    for (int k = 0; k < prog->nout; k++) step[k] = it->stride[k][it->ndim - 1];
    run_steps(p->pl, ptr, step, &r, rows * p->inner, &none);
  }
  close_rooms(&r);
  if (p->pl->nontemporal) cni_nontemporal_end();
}

/* Takes the walk where rows are short and results dense. */
static bool run_panels(cni_pw_plan *pl, const cni_iter *it)
{
  int last = it->ndim - 1;
  if (last < 1 || it->shape[last] > SHORT_ROW || it->shape[last - 1] < 2 || it->n > CNI_ITER_FEW) return false;
  panels p = {pl, it, it->shape[last], BLOCK / it->shape[last], 0};
  for (int k = 0; k < pl->p->nout; k++) {
    int64_t elem = (int64_t)cni_dtype_size(cn_desc_of(pl->c->out[k])->dtype);
    if (it->stride[k][last] != elem || it->stride[k][last - 1] != p.inner * elem) return false;
  }
  if (p.rows > it->shape[last - 1]) p.rows = it->shape[last - 1];
  p.per = (it->shape[last - 1] + p.rows - 1) / p.rows;
  int64_t count = it->numel / (p.inner * it->shape[last - 1]) * p.per;
  cni_parallel_for(count, GRAIN / (p.rows * p.inner) + 1, panel_range, &p);
  return true;
}

/* ---- the kernel ---- */

static int64_t touched(const cn_desc *d) { return (int64_t)cni_dtype_bytes(d->dtype, d->numel); }

/* Is input i read by a step behind this one, or a result itself? */
static bool read_after(const cni_program *p, int i, int step)
{
  for (int s = step + 1; s < p->nstep; s++)
    for (int k = 0; k < cni_step_arity(&p->steps[s]); k++)
      if (p->steps[s].arg[k] == i) return true;
  for (int k = 0; k < p->nout; k++)
    if (p->out[k] == i) return true;
  return false;
}

/* Several results over inputs: which of them must wait. Returns whether any result lies over an input. */
static bool find_late(cni_pw_plan *pl, const cn_call *c)
{
  const cni_program *p = pl->p;
  bool any = false;
  for (int k = 0; k < p->nout; k++) {
    pl->late[k] = false;
    for (int i = 0; i < p->nin && p->nout > 1; i++)
      if (cn_desc_of(c->in[i])->data == cn_desc_of(c->out[k])->data) {
        any = true;
        pl->late[k] |= read_after(p, i, p->out[k] - p->nin - p->nconst);
      }
  }
  return any;
}

static void make_plan(cni_pw_plan *pl, const cn_call *c)
{
  const cni_program *p = pl->p;
  pl->c = c;
  pl->bytes = 0;
  for (int i = 0; i < c->nin; i++) pl->bytes += touched(cn_desc_of(c->in[i]));
  for (int i = 0; i < c->nout; i++) pl->bytes += touched(cn_desc_of(c->out[i]));
  bool over = find_late(pl, c);
  pl->nontemporal = !over && cni_nontemporal_pays(pl->bytes); /* what was read is in the caches anyway */
  for (int i = 0; i < c->nin; i++) {
    int dtype = cn_desc_of(c->in[i])->dtype, compute = cni_compute_dtype(class_of(pl, i));
    bool rounds = cni_program_rounds(c, i);
    pl->in[i].load = dtype == compute && !rounds ? NULL : cni_cast_find(dtype, compute);
    pl->in[i].down = rounds ? cni_cast_find(compute, c->compute) : NULL;
    pl->in[i].up = rounds ? cni_cast_find(c->compute, compute) : NULL;
    pl->in[i].size = compute == CN_F32 ? 4 : 8;
  }
  for (int i = 0; i < c->nout; i++) {
    int dtype = cn_desc_of(c->out[i])->dtype, compute = cni_compute_dtype(class_of(pl, p->out[i]));
    pl->store[i] = dtype == compute ? NULL : cni_cast_find(compute, dtype);
  }
}

/* Is there a loop for each step? Notes whether one divides integers, and how large blocks are. */
static int check_loops(cni_pw_plan *pl, const cn_call *c)
{
  const cni_program *p = pl->p;
  pl->code = p->typed ? cni_jit_find(p) : NULL;
  bool narrow = p->typed || pl->class == CNI_C_F32;
  pl->checks_zero = false;
  for (int i = 0; p->typed && i < p->nin + p->nconst; i++) narrow &= p->class[i] == CNI_C_F32;
  for (int i = 0; i < p->nstep; i++) {
    enum cni_compute class = p->typed ? (enum cni_compute)p->steps[i].class : pl->class;
    int prim = p->steps[i].prim;
    narrow &= class == CNI_C_F32;
    if (prim == CNI_PW_convert) continue;
    if (CNI_UNLIKELY(!pl->table->loop[class][prim]))
      return cn_call_fail(c, CN_ERR_DTYPE, "%s is not computed in %s", cni_prims[prim].name,
                          cn_dtype_name((cn_dtype)(p->typed ? cni_compute_dtype(class) : c->compute)));
    if (CNI_UNLIKELY(class >= CNI_C_I64) && cni_prim_divides(prim)) pl->checks_zero = true;
  }
  pl->block = narrow ? WIDE : BLOCK;
  return CN_OK;
}

/* Takes what is worth one thread, where operands lie as the results do, or are one value: one row, without a walk. */
static bool run_flat(cni_pw_plan *pl, const cn_call *c)
{
  const cn_desc *y = cn_desc_of(c->out[0]);
  char *ptr[CNI_ITER_FEW];
  int64_t stride[CNI_ITER_FEW];
  if (y->numel > GRAIN || c->nout + c->nin > CNI_ITER_FEW) return false;
  for (int k = c->nout + c->nin - 1; k >= 0; k--) {
    const cn_desc *d = k < c->nout ? cn_desc_of(c->out[k]) : cn_desc_of(c->in[k - c->nout]);
    bool same = cni_same_layout(d, y);
    if (!same && (k < c->nout || d->numel != 1)) return false;
    ptr[k] = d->data;
    stride[k] = same ? (int64_t)cni_dtype_size(d->dtype) : 0;
  }
  if (!cni_is_dense(y->ndim, y->shape, y->strides)) return false;
  if (y->numel) run_row(ptr, stride, y->numel, pl);
  return true;
}

/* Takes the walk where rows are worth a call of a loop each and need nothing else. */
static bool run_whole(cni_pw_plan *pl, const cni_iter *it)
{
  int64_t stride[CNI_ITER_FEW];
  whole w;
  if (it->n > CNI_ITER_FEW || it->shape[it->ndim - 1] < WHOLE_ROW) return false;
  for (int k = 0; k < it->n; k++) stride[k] = it->stride[k][it->ndim - 1];
  if (!make_whole(&w, pl, stride)) return false;
  cni_iter_run(it, GRAIN, whole_row, &w);
  return true;
}

static int run_plan(cni_pw_plan *pl, const cn_call *c)
{
  int status = check_loops(pl, c);
  if (status || (status = cni_program_consts((double *)pl->consts, c, pl->p))) return status;
  make_plan(pl, c);
  if (run_flat(pl, c)) return cn_err();
  cni_iter it;
  const cn_desc *y = cn_desc_of(c->out[0]);
  cni_iter_begin(&it, y->ndim, y->shape);
  if (cni_iter_room(&it, c->nout + c->nin)) return CN_ERR_MEMORY;
  for (int i = 0; i < c->nout; i++) cni_iter_add(&it, cn_desc_of(c->out[i]));
  for (int i = 0; i < c->nin; i++) cni_iter_add(&it, cn_desc_of(c->in[i]));
  cni_iter_finish(&it);
  if (it.numel && !run_whole(pl, &it) && !run_panels(pl, &it) && !cni_pw_tiles(pl, &it))
    cni_iter_run(&it, GRAIN, run_row, pl);
  cni_iter_end(&it);
  return cn_err();
}

/* Programs of more inputs or constants than run_planned has room for. */
static CNI_APART int run_large(cni_pw_plan *pl, const cn_call *c)
{
  size_t ins = (size_t)c->nin * sizeof *pl->in, bytes = ins + (size_t)pl->p->nconst * sizeof *pl->consts;
  if (!(pl->in = cni_scratch_alloc(bytes))) return CN_ERR_MEMORY;
  pl->consts = (double *)(void *)((char *)pl->in + ins);
  int status = run_plan(pl, c);
  cni_scratch_free(pl->in, bytes);
  return status;
}

/* Calls that cni_pw_direct does not take. */
static CNI_APART int run_planned(const cn_call *c, const cni_program *p, enum cni_compute class)
{
  cni_pw_loading in[FEW];
  double consts[FEW];
  cni_pw_plan pl; /* make_plan fills in the rest */
  pl.p = p;
  pl.table = table();
  pl.class = class;
  pl.in = in;
  pl.consts = consts;
  return p->nin <= FEW && p->nconst <= FEW ? run_plan(&pl, c) : run_large(&pl, c);
}

int cni_cpu_pointwise(cn_call *c)
{
  const cni_program *p = cni_program_of(c);
  if (CNI_UNLIKELY(!p)) return cn_err();
  if (CNI_UNLIKELY(p->row_dims)) return cni_pw_rows(c, p, table());
  enum cni_compute class = cni_compute_class(c->compute);
  return cni_pw_direct(c, p, class, table()) ? CN_OK : run_planned(c, p, class);
}
