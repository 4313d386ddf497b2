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
#include "program.h"
#include "table.h"

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
  int reg[256];     /* register of p -> register of the gradient program */
  int adjoint[256]; /* gradient of each register of p so far; -1 none */
  bool wanted[256]; /* registers that depend on a wanted input */
} walk;

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
    else w->reg[n + i] = cni_build_step(&w->b, s->prim, w->reg[s->arg[0]], w->reg[s->arg[1]], w->reg[s->arg[2]]);
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

static void derive(walk *w, unsigned want)
{
  const cni_program *p = w->p;
  for (int i = 0; i < 256; i++) w->adjoint[i] = -1;
  memset(w->wanted, 0, sizeof w->wanted);
  for (int i = 0; i < p->nin; i++) w->wanted[i] = want >> i & 1;
  replay(w);
  for (int i = 0; i < p->nout; i++) add_adjoint(w, p->out[i], i);
  sweep(w);
}

/* Drops the inputs that the finished program does not read, and says where the others come from. */
static int narrow(cni_program_grad *out, cni_builder *b)
{
  const cni_program *full = cni_build_end(b);
  if (!full) return CN_ERR_MEMORY;
  bool used[256] = {false};
  int to[256], n = 0;
  for (int i = 0; i < full->nstep; i++)
    for (int k = 0; k < cni_prims[full->steps[i].prim].arity; k++) used[full->steps[i].arg[k]] = true;
  for (int i = 0; i < full->nout; i++) used[full->out[i]] = true;
  used[0] = true; /* keep the gradient itself: it gives the result its shape */
  out->uses = 0;
  for (int i = 0; i < full->nin; i++)
    if (used[i]) {
      to[i] = n;
      out->source[n++] = i;
      out->uses |= 1u << i;
    }
  cni_builder small;
  cni_build_begin(&small, n);
  for (int i = 0; i < full->nconst; i++)
    to[full->nin + i] = full->consts[i].attr >= 0 ? cni_build_attr(&small, full->consts[i].attr)
                                                  : cni_build_const(&small, full->consts[i].value);
  for (int i = 0; i < full->nstep; i++) {
    const cni_step *s = &full->steps[i];
    int arity = cni_prims[s->prim].arity;
    to[full->nin + full->nconst + i] = cni_build_step(&small, s->prim, to[s->arg[0]],
                                                      arity > 1 ? to[s->arg[1]] : -1, arity > 2 ? to[s->arg[2]] : -1);
  }
  for (int i = 0; i < full->nout; i++) small.out[small.nout++] = to[full->out[i]];
  out->program = cni_build_end(&small);
  return out->program ? CN_OK : CN_ERR_MEMORY;
}

/* One gradient: what it is of, and its program once made. */
typedef struct entry {
  const struct entry *next;
  const cni_program *p;
  const cni_pointwise *pw; /* NULL unless it overrides the derivation */
  unsigned want, numbers;
  cni_program_grad grad; /* .program NULL: it would be larger than programs may be */
} entry;

static int make(cni_program_grad *out, const entry *key, int variant)
{
  walk w;
  const cni_pointwise *pw = key->pw;
  const cni_program *p = key->p;
  unsigned want = key->want;
  int total = p->nout + p->nin + p->nout;
  out->program = NULL;
  if (total > CNI_PROG_INPUTS || __builtin_popcount(want) > CNI_PROG_OUTS) return CN_OK;
  w.p = p;
  cni_build_begin(&w.b, total);
  int g[CNI_PROG_INPUTS];
  if (pw) {
    int in[CNI_PROG_INPUTS];
    for (int i = 0; i < p->nin; i++) in[i] = p->nout + i, g[i] = -1;
    pw->grad(&w.b, variant, 0, in, p->nout + p->nin, key->numbers, g);
  } else {
    derive(&w, want);
    for (int i = 0; i < p->nin; i++) g[i] = w.adjoint[i];
  }
  for (int i = 0; i < p->nin; i++)
    if (want >> i & 1) w.b.out[w.b.nout++] = g[i] < 0 ? cni_build_const(&w.b, 0) : g[i];
  if (w.b.overflow) return CN_OK;
  int status = narrow(out, &w.b);
  out->needs = 0;
  for (int i = 0; i < p->nin; i++)
    if (out->uses >> (p->nout + i) & 1) out->needs |= CN_IN(i);
  for (int i = 0; i < p->nout; i++)
    if (out->uses >> (p->nout + p->nin + i) & 1) out->needs |= CN_OUT(i);
  return status;
}

/* ---- cache: as with programs, entries live as long as the process, and are found without the lock ---- */

enum { TABLE = 512 };
static const entry *_Atomic table[TABLE];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const entry *find(size_t slot, const entry *key)
{
  const entry *e = atomic_load_explicit(&table[slot], memory_order_acquire);
  while (e && (e->p != key->p || e->want != key->want || e->pw != key->pw || e->numbers != key->numbers)) e = e->next;
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
    found = made;
  }
  pthread_mutex_unlock(&lock);
  return found;
}

/* NULL with the error set when memory is short. */
static const entry *entry_of(const cn_op *op, const cn_value *args, const cni_program *p, unsigned want,
                             unsigned numbers)
{
  const cni_pointwise *pw = op ? op->pointwise : NULL;
  if (pw && !pw->grad) pw = NULL;
  entry key;
  key.p = p;
  key.pw = pw;
  key.want = want;
  key.numbers = pw ? numbers : 0;
  size_t slot = (p->hash ^ want * 0x9e3779b9u) % TABLE;
  const entry *found = find(slot, &key);
  if (CNI_LIKELY(found)) return found;
  if (make(&key.grad, &key, pw && pw->variant ? pw->variant(args) : 0)) return NULL;
  return keep(slot, &key);
}

const cni_program_grad *cni_program_gradient(const cn_op *op, const cn_value *args, const cni_program *p, unsigned want,
                                             unsigned numbers)
{
  const entry *e = entry_of(op, args, p, want, numbers);
  if (CNI_LIKELY(e && e->grad.program)) return &e->grad;
  if (e)
    cni_fail(CN_ERR_UNSUPPORTED, "pointwise: the gradient of %d of its %d inputs and %d results is too large a program",
             __builtin_popcount(want), p->nin, p->nout);
  return NULL;
}

int cni_program_has_gradient(const cni_program *p, unsigned want)
{
  const entry *e = entry_of(NULL, NULL, p, want, 0);
  return e ? e->grad.program != NULL : cn_err();
}
