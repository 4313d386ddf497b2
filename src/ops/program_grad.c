/* program_grad.c: the gradient of a pointwise program, itself a program, derived once and cached.
 *
 * Place in the flow: autograd asks for it when it records a pointwise op (which values to save) and when it runs the
 * node (what to compute). Invariant: the gradient of every primitive is read off pointwise.def, nothing is written
 * here. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "build.h"
#include "hot.h"
#include "base/maths.h"
#include "program.h"
#include "table.h"

enum { MOST_STEPS = 96 }; /* of a gradient's gradient, for it to be one call */

typedef struct grad_args {
  cni_builder *b;
  int G, A, B, C, Y;
  unsigned want;
  int *g;
} grad_args;

#define NAMES \
  cni_builder *b = s->b; \
  const int G = s->G, A = s->A, B = s->B, C = s->C, Y = s->Y; \
  (void)b, (void)G, (void)A, (void)B, (void)C, (void)Y

#define PWP1 PW1
#define PWP2 PW2
#define PW1(name, kind, formula, ga, ...) \
  static void grad_##name(const grad_args *s) \
  { \
    NAMES; \
    if (s->want & 1) s->g[0] = ga; \
  }
#define PW2(name, kind, formula, ga, gb, ...) \
  static void grad_##name(const grad_args *s) \
  { \
    NAMES; \
    if (s->want & 1) s->g[0] = ga; \
    if (s->want & 2) s->g[1] = gb; \
  }
#define PWP3(name, kind, formula, ga, gb, gc) \
  static void grad_##name(const grad_args *s) \
  { \
    NAMES; \
    if (s->want & 1) s->g[0] = ga; \
    if (s->want & 2) s->g[1] = gb; \
    if (s->want & 4) s->g[2] = gc; \
  }
#include "pointwise.def"
#undef PW1
#undef PW2
#undef PWP3

typedef void (*grad_fn)(const grad_args *);
static const grad_fn grads[CNI_PRIM_COUNT] = {
#define PW1(name, ...) [CNI_PW_##name] = grad_##name,
#define PW2 PW1
#define PWP3 PW1
#include "pointwise.def"
};

/* ---- derivation: reverse mode over the steps ---- */

typedef struct walk {
  cni_builder b;
  const cni_program *p;
  int *reg;     /* register of p -> register of the gradient program */
  int *adjoint; /* gradient of each register of p so far; -1 none */
  bool *wanted; /* registers that depend on a wanted input */
  int *all;     /* owned: room of the above */
  size_t bytes;
} walk;

static int begin_walk(walk *w, const cni_program *p, int first, uint64_t want)
{
  int n = p->nin + p->nconst + p->nstep;
  w->p = p;
  w->bytes = (size_t)n * (2 * sizeof *w->reg + sizeof *w->wanted) + 1;
  if (!(w->all = cni_alloc(w->bytes))) return CN_ERR_MEMORY;
  w->reg = w->all;
  w->adjoint = w->reg + n;
  w->wanted = (bool *)(w->adjoint + n);
  for (int i = 0; i < n; i++) {
    w->adjoint[i] = -1;
    w->wanted[i] = i < p->nin && i >= first && i < first + CNI_GRAD_WINDOW && want >> (i - first) & 1;
  }
  cni_build_begin(&w->b, p->nout + p->nin + p->nout);
  return CN_OK;
}

/* Writes p's own steps (values the gradients refer to). The result of a one-step program is taken from memory. */
static void replay(walk *w)
{
  const cni_program *p = w->p;
  int n = p->nin + p->nconst, m = p->nout;
  for (int i = 0; i < p->nin; i++) w->reg[i] = m + i;
  for (int i = 0; i < p->nconst; i++)
    w->reg[p->nin + i] = p->consts[i].attr >= 0 ? cni_build_attr(&w->b, p->consts[i].attr)
                                                : cni_build_const(&w->b, p->consts[i].value);
  for (int i = 0; i < p->nstep; i++) {
    const cni_step *s = &p->steps[i];
    if (p->nstep == 1 && m == 1) w->reg[n + i] = m + p->nin;
    else
      w->reg[n + i] = cni_build_step(&w->b, (enum cni_prim)s->prim, w->reg[s->arg[0]], w->reg[s->arg[1]],
                                     w->reg[s->arg[2]]);
    for (int k = 0; k < cni_prims[s->prim].arity; k++)
      if (w->wanted[s->arg[k]]) w->wanted[n + i] = true;
  }
}

static void add_adjoint(walk *w, int reg, int g)
{
  if (g < 0) return;
  w->adjoint[reg] = w->adjoint[reg] < 0 ? g : cni_build_step(&w->b, CNI_PW_add, w->adjoint[reg], g, -1);
}

static void sweep(walk *w)
{
  const cni_program *p = w->p;
  int n = p->nin + p->nconst;
  for (int i = p->nstep - 1; i >= 0; i--) {
    const cni_step *st = &p->steps[i];
    int g[3] = {-1, -1, -1};
    if (w->adjoint[n + i] < 0) continue;
    grad_args s = {&w->b, w->adjoint[n + i], w->reg[st->arg[0]], w->reg[st->arg[1]], w->reg[st->arg[2]],
                   w->reg[n + i], 0, g};
    for (int k = 0; k < cni_prims[st->prim].arity; k++)
      if (w->wanted[st->arg[k]]) s.want |= 1u << k;
    grads[st->prim](&s);
    for (int k = 0; k < 3; k++)
      if (s.want & 1u << k) add_adjoint(w, st->arg[k], g[k]);
  }
}

static void derive(walk *w)
{
  replay(w);
  for (int i = 0; i < w->p->nout; i++) add_adjoint(w, w->p->out[i], i);
  sweep(w);
}

/* ---- the finished program, less the inputs that it does not read ---- */

/* Numbers the inputs that are read: to[i], or -1. The gradient itself stays: it gives the result its shape. */
static int number_inputs(const cni_program *full, int *to)
{
  int n = 0;
  for (int i = 0; i < full->nin; i++) to[i] = i ? -1 : 0;
  for (int i = 0; i < full->nstep; i++)
    for (int k = 0; k < cni_prims[full->steps[i].prim].arity; k++)
      if (full->steps[i].arg[k] < full->nin) to[full->steps[i].arg[k]] = 0;
  for (int i = 0; i < full->nout; i++)
    if (full->out[i] < full->nin) to[full->out[i]] = 0;
  for (int i = 0; i < full->nin; i++)
    if (to[i] >= 0) to[i] = n++;
  return n;
}

static const cni_program *rebuilt(const cni_program *full, int nin, int *to)
{
  cni_builder small;
  cni_build_begin(&small, nin);
  for (int i = 0; i < full->nconst; i++)
    to[full->nin + i] = full->consts[i].attr >= 0 ? cni_build_attr(&small, full->consts[i].attr)
                                                  : cni_build_const(&small, full->consts[i].value);
  for (int i = 0; i < full->nstep; i++) {
    const cni_step *s = &full->steps[i];
    int arity = cni_prims[s->prim].arity;
    to[full->nin + full->nconst + i] =
      cni_build_step(&small, (enum cni_prim)s->prim, to[s->arg[0]], arity > 1 ? to[s->arg[1]] : -1,
                     arity > 2 ? to[s->arg[2]] : -1);
  }
  for (int i = 0; i < full->nout; i++) small.out[small.nout++] = to[full->out[i]];
  return cni_build_end(&small);
}

/* One gradient: what it is of, and its program once made. */
typedef struct entry {
  const struct entry *next;
  const cni_program *p;
  const cni_pointwise *pw; /* NULL unless it overrides the derivation */
  int first;
  uint64_t want;
  unsigned numbers;
  cni_program_grad grad;
} entry;

/* Where the program's inputs come from: a list that stays, and what must be saved for it. */
static int name_sources(cni_program_grad *out, const cni_program *p, int all, const int *to)
{
  int *source = cni_alloc((size_t)(out->program->nin + 1) * sizeof *source), n = 0;
  if (!source) return CN_ERR_MEMORY;
  out->needs = 0;
  for (int i = 0; i < all; i++) {
    int input = i - p->nout, result = input - p->nin;
    if (to[i] < 0) continue;
    source[n++] = i;
    if (result >= 0) out->needs |= CN_OUT(result);
    else if (input >= 0) out->needs |= input < 16 ? (int64_t)CN_IN(input) : CNI_NEEDS_MANY;
  }
  out->source = source;
  return CN_OK;
}

static int narrow(cni_program_grad *out, const cni_program *p, cni_builder *b)
{
  const cni_program *full = cni_build_end(b);
  if (!full) return cn_err();
  size_t bytes = (size_t)(full->nin + full->nconst + full->nstep) * sizeof(int);
  int *to = cni_alloc(bytes);
  if (!to) return CN_ERR_MEMORY;
  out->program = rebuilt(full, number_inputs(full, to), to);
  int status = out->program ? name_sources(out, p, full->nin, to) : cn_err();
  cni_free(to, bytes);
  return status;
}

/* The registers of the wanted inputs' gradients into w->adjoint. */
static int overridden(walk *w, const entry *key, int variant)
{
  const cni_program *p = key->p;
  size_t bytes = (size_t)p->nin * sizeof(int);
  int *in = cni_alloc(bytes);
  if (!in) return CN_ERR_MEMORY;
  for (int i = 0; i < p->nin; i++) in[i] = p->nout + i;
  key->pw->grad(&w->b, variant, 0, in, p->nout + p->nin, key->numbers, w->adjoint);
  cni_free(in, bytes);
  return CN_OK;
}

static int make(cni_program_grad *out, const entry *key, int variant)
{
  walk w;
  const cni_program *p = key->p;
  if (p->typed) return cni_fail(CN_ERR_UNSUPPORTED, "pointwise: a program with types of its own has no gradient");
  int status = begin_walk(&w, p, key->first, key->want);
  if (status) return status;
  if (key->pw) status = overridden(&w, key, variant);
  else derive(&w);
  for (int i = 0; i < CNI_GRAD_WINDOW && !status; i++)
    if (key->want >> i & 1) {
      int g = w.adjoint[key->first + i];
      w.b.out[w.b.nout++] = g < 0 ? cni_build_const(&w.b, 0) : g;
    }
  if (!status) status = narrow(out, p, &w.b);
  cni_build_drop(&w.b);
  cni_free(w.all, w.bytes);
  return status;
}

/* ---- cache: as with programs, entries live as long as the process, and are found without the lock ---- */

enum { TABLE = 512 };
static const entry *_Atomic table[TABLE];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const entry *find(size_t slot, const entry *key)
{
  const entry *e = atomic_load_explicit(&table[slot], memory_order_acquire);
  while (e && (e->p != key->p || e->want != key->want || e->first != key->first || e->pw != key->pw ||
               e->numbers != key->numbers))
    e = e->next;
  return e;
}

/* Makes an entry permanent, or returns its twin: another thread may have been first. */
static const entry *keep(size_t slot, const entry *key)
{
  pthread_mutex_lock(&lock);
  const entry *found = find(slot, key);
  entry *made = found ? NULL : cni_alloc(sizeof *made);
  if (made) {
    *made = *key;
    made->next = atomic_load_explicit(&table[slot], memory_order_relaxed);
    atomic_store_explicit(&table[slot], made, memory_order_release);
  }
  pthread_mutex_unlock(&lock);
  if (!made) cni_free((int *)key->grad.source, (size_t)(key->grad.program->nin + 1) * sizeof(int));
  return made ? made : found;
}

const cni_program_grad *cni_program_gradient(const cn_op *op, const cn_value *args, const cni_program *p, int first,
                                             uint64_t want, unsigned numbers)
{
  const cni_pointwise *pw = op ? op->pointwise : NULL;
  if (pw && !pw->grad) pw = NULL;
  entry key;
  key.p = p;
  key.pw = pw;
  key.first = first;
  key.want = want;
  key.numbers = pw ? numbers : 0;
  size_t slot = (p->hash ^ want * 0x9e3779b9u ^ (uint64_t)first) % TABLE;
  const entry *found = find(slot, &key);
  if (CNI_LIKELY(found)) return &found->grad;
  if (make(&key.grad, &key, pw && pw->variant ? pw->variant(args) : 0)) return NULL;
  found = keep(slot, &key);
  return found ? &found->grad : NULL;
}

int cni_program_has_gradient(const cni_program *p, uint64_t want)
{
  while (want) {
    const cni_program_grad *grad = cni_program_gradient(NULL, NULL, p, 0, cni_grad_chunk(&want), 0);
    if (!grad) return cn_err();
    if (grad->program->nstep > MOST_STEPS) return 0;
  }
  return 1;
}
