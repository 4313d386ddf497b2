/* program.c: building and interning pointwise programs. See program.h.
 *
 * Invariant: the text of a program determines it, and equal texts are the same object. */
#include "program.h"

#include <cairn/ext/hash.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "hot.h"

#define PWP1 PW1
#define PWP2 PW2
#define PW1(name, kind, formula, ...) [CNI_PW_##name] = {#name, #formula, 1, CNI_##kind},
#define PW2(name, kind, formula, ...) [CNI_PW_##name] = {#name, #formula, 2, CNI_##kind},
#define PWP3(name, kind, formula, ...) [CNI_PW_##name] = {#name, #formula, 3, CNI_##kind},
const cni_prim_info cni_prims[CNI_PRIM_COUNT] = {
#include "pointwise.def"
};
#undef PW1
#undef PW2
#undef PWP1
#undef PWP2
#undef PWP3

const char *const cni_compute_names[CNI_COMPUTES] = {"f32", "f64", "i64", "u64"};

const char *const cni_row_names[] = {"row_first", "row_sum", "row_mean", "row_max", "row_min"};

enum { TABLE = 1024 };

/* ---- building ---- */

void cni_build_begin(cni_builder *b, int nin)
{
  b->nin = nin;
  b->nconst = b->nstep = b->nout = b->drop = 0;
  b->failed = nin > CNI_MOST_REGISTERS;
  b->typed = false;
  b->class = CNI_C_F32;
  b->origin = NULL;
  b->in = NULL;
  b->consts = b->few_consts;
  b->steps = b->few_steps;
  b->nconst_room = CNI_BUILD_CONSTS;
  b->nstep_room = CNI_BUILD_STEPS;
}

void cni_build_drop(cni_builder *b)
{
  if (b->consts != b->few_consts) cni_free(b->consts, (size_t)b->nconst_room * sizeof *b->consts);
  if (b->steps != b->few_steps) cni_free(b->steps, (size_t)b->nstep_room * sizeof *b->steps);
  b->consts = b->few_consts;
  b->steps = b->few_steps;
}

/* Room for one more than n elements; false: there is none, and the builder has failed. */
static bool make_room(cni_builder *b, void **array, const void *few, int n, int *room, size_t size)
{
  if (CNI_LIKELY(n < *room)) return true;
  void *more = n < CNI_MOST_REGISTERS ? cni_alloc(2 * (size_t)*room * size) : NULL;
  if (!more) {
    b->failed = true;
    return false;
  }
  memcpy(more, *array, (size_t)n * size);
  if (*array != few) cni_free(*array, (size_t)*room * size);
  *array = more;
  *room *= 2;
  return true;
}

static int add_const(cni_builder *b, int attr, double value)
{
  int class = b->typed ? (int)b->class : 0;
  for (int i = 0; i < b->nconst; i++)
    if (b->consts[i].attr == attr && b->consts[i].class == class && !memcmp(&b->consts[i].value, &value, sizeof value))
      return CNI_CONST_BASE + i;
  if (!make_room(b, (void **)&b->consts, b->few_consts, b->nconst, &b->nconst_room, sizeof *b->consts))
    return CNI_CONST_BASE;
  b->consts[b->nconst] = (cni_const){attr, class, value};
  return CNI_CONST_BASE + b->nconst++;
}

int cni_build_const(cni_builder *b, double value) { return add_const(b, -1, value); }
int cni_build_attr(cni_builder *b, int param) { return add_const(b, param, 0); }

static bool is_literal(const cni_builder *b, int reg, double value)
{
  if (reg < CNI_CONST_BASE || reg >= CNI_STEP_BASE) return false;
  const cni_const *k = &b->consts[reg - CNI_CONST_BASE];
  return k->attr < 0 && k->value >= value && k->value <= value;
}

static int arity_of(const cni_draft *s) { return s->prim < CNI_PRIM_COUNT ? cni_prims[s->prim].arity : 1; }

bool cni_build_is_row(const cni_builder *b, int x) { return x >= CNI_STEP_BASE && b->steps[x - CNI_STEP_BASE].row; }

/* Whether a step gives one value for each row, and what it stands behind. */
static void place(const cni_builder *b, cni_draft *s)
{
  bool some = false, all = true, reduces = s->prim > CNI_PW_row_first;
  for (int k = 0; k < arity_of(s); k++) {
    const int x = s->arg[k], level = x < CNI_STEP_BASE ? 0 : b->steps[x - CNI_STEP_BASE].level;
    some |= cni_build_is_row(b, x);
    all &= (x >= CNI_CONST_BASE && x < CNI_STEP_BASE) || cni_build_is_row(b, x);
    if (level + reduces > s->level) s->level = level + reduces;
  }
  s->row = s->prim >= CNI_PW_row_first || (some && all);
}

static int add_step(cni_builder *b, const cni_draft *s)
{
  for (int i = 0; i < b->nstep; i++)
    if (!memcmp(&b->steps[i], s, offsetof(cni_draft, origin))) return CNI_STEP_BASE + i;
  if (!make_room(b, (void **)&b->steps, b->few_steps, b->nstep, &b->nstep_room, sizeof *b->steps))
    return CNI_CONST_BASE;
  b->steps[b->nstep] = *s;
  if (b->typed) place(b, &b->steps[b->nstep]);
  return CNI_STEP_BASE + b->nstep++;
}

int cni_build_step(cni_builder *b, enum cni_prim prim, int x, int y, int z)
{
  if (x < 0 || (cni_prims[prim].arity > 1 && y < 0) || (cni_prims[prim].arity > 2 && z < 0)) return -1;
  if (prim == CNI_PW_mul && is_literal(b, x, 1)) return y;
  if ((prim == CNI_PW_mul || prim == CNI_PW_div) && is_literal(b, y, 1)) return x;
  cni_draft s = {(int)prim, b->typed ? (int)b->class : 0, 0, {x, 0, 0}, NULL};
  if (cni_prims[prim].arity > 1) s.arg[1] = y;
  if (cni_prims[prim].arity > 2) s.arg[2] = z;
  if (b->typed && b->class >= CNI_C_I64 && cni_prim_divides((int)prim)) s.origin = b->origin; /* it may fail */
  return add_step(b, &s);
}

int cni_build_rounded(cni_builder *b, int x)
{
  return b->drop ? cni_build_step(b, CNI_PW_narrow, x, cni_build_const(b, b->drop), -1) : x;
}

enum cni_compute cni_build_class(const cni_builder *b, int x)
{
  if (x < CNI_CONST_BASE) return b->in[x].class;
  return x < CNI_STEP_BASE ? (enum cni_compute)b->consts[x - CNI_CONST_BASE].class
                           : (enum cni_compute)b->steps[x - CNI_STEP_BASE].class;
}

int cni_build_convert(cni_builder *b, int x, enum cni_compute class, int dtype)
{
  if (cni_build_class(b, x) == class && !dtype) return x;
  return add_step(b, &(cni_draft){CNI_PW_convert, (int)class, dtype, {x, 0, 0}, NULL});
}

int cni_build_row(cni_builder *b, int prim, int x, int dims)
{
  return add_step(b, &(cni_draft){prim, (int)cni_build_class(b, x), dims, {x, 0, 0}, NULL});
}

/* ---- a program's block: itself, its text, its arrays ---- */

static size_t aligned(size_t n) { return (n + 7) & ~(size_t)7; }

/* With room for so many parts; the sizes are those of `like`. NULL with the error set. */
static cni_program *new_program(const cni_program *like, size_t text)
{
  size_t registers = (size_t)(like->nin + like->nconst + like->nstep), head = aligned(sizeof *like + text);
  size_t consts = (size_t)like->nconst * sizeof *like->consts, steps = (size_t)like->nstep * sizeof *like->steps;
  size_t outs = aligned((size_t)like->nout * 2), slots = aligned((size_t)like->nstep * 2);
  size_t ins = aligned((size_t)like->nin * sizeof *like->in), dtypes = aligned((size_t)like->nout);
  size_t codes = CNI_PROGRAM_CODES * sizeof *like->code;
  size_t bytes = head + consts + aligned(steps) + outs + slots + ins + dtypes + 2 * aligned(registers) +
                 aligned(2 * registers) + codes;
  cni_program *p = cni_alloc_zero(bytes);
  if (!p) return NULL;
  p->nin = like->nin, p->nconst = like->nconst, p->nstep = like->nstep, p->nout = like->nout;
  p->typed = like->typed;
  p->bytes = bytes;
  char *at = (char *)p + head;
  p->consts = (cni_const *)(void *)at;
  p->steps = (cni_step *)(void *)(at += consts);
  p->out = (uint16_t *)(void *)(at += aligned(steps));
  p->slot = (uint16_t *)(void *)(at += outs);
  p->in = (cni_prog_input *)(void *)(at += slots);
  p->out_dtype = (uint8_t *)(at += ins);
  p->class = (uint8_t *)(at += dtypes);
  p->row = (bool *)(at += aligned(registers));
  p->level = (uint16_t *)(void *)(at += aligned(registers));
  p->code = (void *_Atomic *)(void *)(at + aligned(2 * registers));
  return p;
}

/* ---- finishing: dead steps out, registers renumbered ---- */

/* Numbers of the builder's registers in the program; -1: dead. */
typedef struct numbers {
  int *consts, *steps;
} numbers;

static int *number_of(const numbers *n, int reg)
{
  return reg < CNI_STEP_BASE ? &n->consts[reg - CNI_CONST_BASE] : &n->steps[reg - CNI_STEP_BASE];
}

/* Counts what is live into `p`. Steps only refer to earlier ones, so one backward sweep is enough. */
static void number_live(cni_program *p, const cni_builder *b, const numbers *n)
{
  for (int i = 0; i < b->nconst; i++) n->consts[i] = -1;
  for (int i = 0; i < b->nstep; i++) n->steps[i] = -1;
  for (int i = 0; i < b->nout; i++)
    if (b->out[i] >= CNI_CONST_BASE) *number_of(n, b->out[i]) = 0;
  for (int i = b->nstep - 1; i >= 0; i--)
    for (int k = 0; n->steps[i] >= 0 && k < arity_of(&b->steps[i]); k++)
      if (b->steps[i].arg[k] >= CNI_CONST_BASE) *number_of(n, b->steps[i].arg[k]) = 0;
  *p = (cni_program){.nin = b->nin, .nout = b->nout, .typed = b->typed};
  for (int i = 0; i < b->nconst; i++)
    if (n->consts[i] >= 0) n->consts[i] = p->nin + p->nconst++;
  for (int i = 0; i < b->nstep; i++)
    if (n->steps[i] >= 0) n->steps[i] = p->nin + p->nconst + p->nstep++;
}

static uint16_t renumbered(const numbers *n, int reg)
{
  return (uint16_t)(reg < CNI_CONST_BASE ? reg : *number_of(n, reg));
}

static void fill(cni_program *p, const cni_builder *b, const numbers *n)
{
  cni_const *k = p->consts;
  cni_step *s = p->steps;
  uint8_t *class = p->class;
  for (int i = 0; b->typed && i < b->nin; i++) p->in[i] = b->in[i], *class++ = b->in[i].class;
  for (int i = 0; i < b->nconst; i++)
    if (n->consts[i] >= 0) *class++ = (uint8_t)b->consts[i].class, *k++ = b->consts[i];
  for (int i = 0; i < b->nstep; i++) {
    const cni_draft *d = &b->steps[i];
    if (n->steps[i] < 0) continue;
    *s = (cni_step){(uint16_t)d->prim, (uint8_t)d->class, (uint8_t)d->dtype, {0, 0, 0}, d->origin};
    for (int a = 0; a < arity_of(d); a++) s->arg[a] = renumbered(n, d->arg[a]);
    if (cni_step_is_row(s)) p->row_dims = s->dtype;
    p->row[class - p->class] = d->row;
    p->level[class - p->class] = (uint16_t)d->level;
    *class++ = s++->class;
  }
  for (int i = 0; i < b->nout; i++) p->out[i] = renumbered(n, b->out[i]), p->out_dtype[i] = b->out_dtype[i];
}

/* Frees the slots of the operands that step i reads last. */
static void free_operands(const cni_program *p, const int *last, bool *busy, int i)
{
  int first = p->nin + p->nconst;
  for (int k = 0; k < cni_step_arity(&p->steps[i]); k++) {
    int of = p->steps[i].arg[k] - first;
    if (of >= 0 && last[of] == i) busy[p->slot[of]] = false;
  }
}

/* A step may take over the slot of an operand that dies with it: loops work element by element. Conversions do not:
 * their elements have other sizes; nor do steps along rows. last, busy: as many as there are steps. */
static void assign_slots(cni_program *p, int *last, bool *busy)
{
  int first = p->nin + p->nconst;
  for (int i = 0; i < p->nstep; i++) {
    busy[i] = false;
    for (int k = 0; k < cni_step_arity(&p->steps[i]); k++)
      if (p->steps[i].arg[k] >= first) last[p->steps[i].arg[k] - first] = i;
  }
  for (int i = 0; i < p->nout; i++)
    if (p->out[i] >= first) last[p->out[i] - first] = p->nstep;
  for (int i = 0; i < p->nstep; i++) {
    bool apart = p->steps[i].prim >= CNI_PW_convert;
    int s = 0;
    if (!apart) free_operands(p, last, busy, i);
    while (busy[s]) s++;
    busy[s] = last[i] > i;
    if (apart) free_operands(p, last, busy, i);
    p->slot[i] = (uint16_t)s;
    if (s >= p->nslots) p->nslots = s + 1;
  }
}

/* ---- interning: programs live as long as the process, there are few ---- */

/* Chains only grow at their heads, so they are read without the lock. */
static const cni_program *_Atomic table[TABLE];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const cni_program *find(const char *text, uint64_t hash)
{
  const cni_program *p = atomic_load_explicit(&table[hash % TABLE], memory_order_acquire);
  while (p && (p->hash != hash || strcmp(p->text, text))) p = p->next;
  return p;
}

const cni_program *cni_program_find(const char *text) { return find(text, cn_hash(text, strlen(text))); }

/* Origins stand in the text, behind the second bar. */
static void place_origins(cni_program *p)
{
  const char *at = strchr(strchr(p->text, '|') + 1, '|');
  for (int i = 0; i < p->nstep; i++)
    if (p->steps[i].origin) p->steps[i].origin = at = strchr(at, '@') + 1;
}

/* `made` with its text, for good. NULL with the error set. */
static cni_program *lasting(const cni_program *made, const char *text, uint64_t hash)
{
  size_t length = strlen(text) + 1;
  cni_program *p = new_program(made, length);
  if (!p) return NULL;
  memcpy(p->consts, made->consts, made->bytes - (size_t)((const char *)made->consts - (const char *)made));
  memcpy(p->text, text, length);
  place_origins(p);
  p->nslots = made->nslots;
  p->row_dims = made->row_dims;
  p->hash = hash;
  return p;
}

/* Makes `made` permanent, or returns its twin. */
static const cni_program *intern(const cni_program *made, const char *text)
{
  uint64_t hash = cn_hash(text, strlen(text));
  pthread_mutex_lock(&lock);
  const cni_program *found = find(text, hash);
  cni_program *p = found ? NULL : lasting(made, text, hash);
  if (p) {
    p->next = atomic_load_explicit(&table[hash % TABLE], memory_order_relaxed);
    atomic_store_explicit(&table[hash % TABLE], p, memory_order_release);
    found = p;
  }
  pthread_mutex_unlock(&lock);
  return found;
}

/* room: an int for each constant and two for each step. */
static const cni_program *finish(const cni_builder *b, int *room)
{
  numbers n = {room, room + b->nconst};
  cni_program sizes;
  cn_text text = {0};
  number_live(&sizes, b, &n);
  cni_program *p = new_program(&sizes, 0);
  if (!p) return NULL;
  fill(p, b, &n);
  cni_program_write(&text, p);
  assign_slots(p, n.steps, (bool *)(n.steps + b->nstep));
  const cni_program *made = text.failed ? NULL : intern(p, text.s);
  cn_text_free(&text);
  cni_free(p, p->bytes);
  return made;
}

const cni_program *cni_build_end(cni_builder *b)
{
  size_t bytes = (size_t)(b->nconst + 2 * b->nstep + 1) * sizeof(int);
  int *room = b->failed || b->nin + b->nconst + b->nstep > CNI_MOST_REGISTERS ? NULL : cni_alloc(bytes);
  const cni_program *p = room ? finish(b, room) : NULL;
  if (!room && !cn_err())
    cni_fail(CN_ERR_UNSUPPORTED, "pointwise: a program of more than %d registers", CNI_MOST_REGISTERS);
  if (room) cni_free(room, bytes);
  cni_build_drop(b);
  return p;
}
