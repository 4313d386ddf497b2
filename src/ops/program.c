/* program.c: building, interning and reading pointwise programs. See program.h.
 *
 * Invariant: the text of a program determines it, and equal texts are the same object. */
#include "program.h"

#include <cairn/ext/hash.h>
#include <cairn/ext/system.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "hot.h"
#include "table.h"

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

enum { STEP_BASE = 128, TABLE = 1024, TEXT_MAX = 4096 };

/* ---- building ---- */

void cni_build_begin(cni_builder *b, int nin)
{
  b->nin = nin;
  b->nconst = b->nstep = b->nout = b->drop = 0;
  b->overflow = nin > CNI_PROG_INPUTS;
}

static int add_const(cni_builder *b, int attr, double value)
{
  for (int i = 0; i < b->nconst; i++)
    if (b->consts[i].attr == attr && !memcmp(&b->consts[i].value, &value, sizeof value)) return CNI_CONST_BASE + i;
  if (b->nconst == CNI_PROG_CONSTS) {
    b->overflow = true;
    return CNI_CONST_BASE;
  }
  b->consts[b->nconst] = (cni_const){attr, value};
  return CNI_CONST_BASE + b->nconst++;
}

int cni_build_const(cni_builder *b, double value) { return add_const(b, -1, value); }
int cni_build_attr(cni_builder *b, int param) { return add_const(b, param, 0); }

static bool is_literal(const cni_builder *b, int reg, double value)
{
  if (reg < CNI_CONST_BASE || reg >= STEP_BASE) return false;
  const cni_const *k = &b->consts[reg - CNI_CONST_BASE];
  return k->attr < 0 && k->value >= value && k->value <= value;
}

int cni_build_step(cni_builder *b, enum cni_prim prim, int x, int y, int z)
{
  if (x < 0 || (cni_prims[prim].arity > 1 && y < 0) || (cni_prims[prim].arity > 2 && z < 0)) return -1;
  if (prim == CNI_PW_mul && is_literal(b, x, 1)) return y;
  if ((prim == CNI_PW_mul || prim == CNI_PW_div) && is_literal(b, y, 1)) return x;
  cni_step s = {(uint8_t)prim, {(uint8_t)x, 0, 0}};
  if (cni_prims[prim].arity > 1) s.arg[1] = (uint8_t)y;
  if (cni_prims[prim].arity > 2) s.arg[2] = (uint8_t)z;
  for (int i = 0; i < b->nstep; i++)
    if (!memcmp(&b->steps[i], &s, sizeof s)) return STEP_BASE + i;
  if (b->nstep == CNI_PROG_STEPS) {
    b->overflow = true;
    return STEP_BASE;
  }
  b->steps[b->nstep] = s;
  return STEP_BASE + b->nstep++;
}

int cni_build_rounded(cni_builder *b, int x)
{
  return b->drop ? cni_build_step(b, CNI_PW_narrow, x, cni_build_const(b, b->drop), -1) : x;
}

/* ---- finishing: dead steps out, registers renumbered ---- */

static void mark(const cni_builder *b, bool *live, int reg)
{
  /* Steps only refer to earlier ones, so one backward sweep after the results are marked is enough. */
  live[reg] = true;
  for (int i = reg - STEP_BASE; i >= 0; i--) {
    if (!live[STEP_BASE + i]) continue;
    for (int k = 0; k < cni_prims[b->steps[i].prim].arity; k++) live[b->steps[i].arg[k]] = true;
  }
}

static void compact(cni_program *p, const cni_builder *b)
{
  bool live[256] = {false};
  uint8_t to[256] = {0};
  int next = b->nin;
  memset(p, 0, sizeof *p);
  for (int i = 0; i < b->nout; i++) mark(b, live, b->out[i]);
  p->nin = b->nin;
  for (int i = 0; i < b->nin; i++) to[i] = (uint8_t)i;
  for (int i = 0; i < b->nconst; i++)
    if (live[CNI_CONST_BASE + i]) {
      to[CNI_CONST_BASE + i] = (uint8_t)next++;
      p->consts[p->nconst++] = b->consts[i];
    }
  for (int i = 0; i < b->nstep; i++) {
    if (!live[STEP_BASE + i]) continue;
    cni_step *s = &p->steps[p->nstep++];
    s->prim = b->steps[i].prim;
    for (int k = 0; k < cni_prims[s->prim].arity; k++) s->arg[k] = to[b->steps[i].arg[k]];
    to[STEP_BASE + i] = (uint8_t)next++;
  }
  p->nout = b->nout;
  for (int i = 0; i < b->nout; i++) p->out[i] = to[b->out[i]];
}

/* A step may take over the slot of an operand that dies with it: loops work element by element. */
static void assign_slots(cni_program *p)
{
  int first = p->nin + p->nconst, last_use[CNI_PROG_STEPS];
  bool busy[CNI_PROG_STEPS] = {false};
  for (int i = 0; i < p->nstep; i++) last_use[i] = -1;
  for (int i = 0; i < p->nstep; i++)
    for (int k = 0; k < cni_prims[p->steps[i].prim].arity; k++)
      if (p->steps[i].arg[k] >= first) last_use[p->steps[i].arg[k] - first] = i;
  for (int i = 0; i < p->nout; i++)
    if (p->out[i] >= first) last_use[p->out[i] - first] = CNI_PROG_STEPS;
  p->nslots = 0;
  for (int i = 0; i < p->nstep; i++) {
    for (int k = 0; k < i; k++)
      if (last_use[k] == i) busy[p->slot[k]] = false;
    int s = 0;
    while (busy[s]) s++;
    busy[s] = last_use[i] > i;
    p->slot[i] = (uint8_t)s;
    if (s >= p->nslots) p->nslots = s + 1;
  }
}

/* ---- text: "2|1.5,@3|mul 0 2;add 3 1|4": inputs, constants (@ an attribute), steps, results ---- */

static void write_text(char *text, size_t size, const cni_program *p)
{
  int at = snprintf(text, size, "%d|", p->nin);
  for (int i = 0; i < p->nconst; i++) {
    char number[CN_NUMBER_TEXT];
    at += p->consts[i].attr >= 0 ? snprintf(text + at, size - (size_t)at, "%s@%d", i ? "," : "", p->consts[i].attr)
                                 : snprintf(text + at, size - (size_t)at, "%s%s", i ? "," : "",
                                            cn_number_write(number, p->consts[i].value, false));
  }
  at += snprintf(text + at, size - (size_t)at, "|");
  for (int i = 0; i < p->nstep; i++) {
    const cni_prim_info *info = &cni_prims[p->steps[i].prim];
    at += snprintf(text + at, size - (size_t)at, "%s%s", i ? ";" : "", info->name);
    for (int k = 0; k < info->arity; k++) at += snprintf(text + at, size - (size_t)at, " %d", p->steps[i].arg[k]);
  }
  at += snprintf(text + at, size - (size_t)at, "|");
  for (int i = 0; i < p->nout; i++) at += snprintf(text + at, size - (size_t)at, "%s%d", i ? "," : "", p->out[i]);
}

/* Chains only grow at their heads, so they are read without the lock. */
static const cni_program *_Atomic table[TABLE];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const cni_program *find(const char *text, uint64_t hash)
{
  const cni_program *p = atomic_load_explicit(&table[hash % TABLE], memory_order_acquire);
  while (p && (p->hash != hash || strcmp(p->text, text))) p = p->next;
  return p;
}

/* Makes `made` permanent, or returns its twin. Programs live as long as the process: there are few. */
static const cni_program *intern(const cni_program *made, const char *text)
{
  uint64_t hash = cn_hash(text, strlen(text));
  pthread_mutex_lock(&lock);
  const cni_program *found = find(text, hash);
  if (!found) {
    size_t length = strlen(text) + 1;
    cni_program *p = cni_alloc(sizeof *p + length);
    if (p) {
      memcpy(p, made, offsetof(cni_program, text));
      assign_slots(p);
      p->hash = hash;
      memcpy(p->text, text, length);
      p->next = atomic_load_explicit(&table[hash % TABLE], memory_order_relaxed);
      atomic_store_explicit(&table[hash % TABLE], p, memory_order_release);
      found = p;
    }
  }
  pthread_mutex_unlock(&lock);
  return found;
}

const cni_program *cni_build_end(cni_builder *b)
{
  char text[TEXT_MAX];
  cni_program p;
  if (b->overflow) {
    cni_fail(CN_ERR_INTERNAL, "pointwise program: more than %d steps or %d constants", CNI_PROG_STEPS,
             CNI_PROG_CONSTS);
    return NULL;
  }
  compact(&p, b);
  write_text(text, sizeof text, &p);
  return intern(&p, text);
}

/* ---- parsing ---- */

static int find_prim(const char *name, size_t n)
{
  for (int i = 0; i < CNI_PRIM_COUNT; i++)
    if (strlen(cni_prims[i].name) == n && !memcmp(cni_prims[i].name, name, n)) return i;
  return -1;
}

static bool parse_int(const char **s, int most, int *value)
{
  char *end;
  if (**s < '0' || **s > '9') return false;
  long v = strtol(*s, &end, 10);
  if (end == *s || v < 0 || v >= most) return false;
  *s = end;
  *value = (int)v;
  return true;
}

static bool parse_consts(const char **s, cni_program *p)
{
  while (**s && **s != '|') {
    const char *end;
    cni_const *k = &p->consts[p->nconst];
    if (p->nconst++ == CNI_PROG_CONSTS) return false;
    k->attr = -1;
    if (**s == '@') {
      ++*s;
      if (!parse_int(s, CN_MAX_ARGS, &k->attr)) return false;
    } else {
      k->value = cn_number_read(*s, &end);
      if (end == *s) return false;
      *s = end;
    }
    if (**s == ',') ++*s;
  }
  return *(*s)++ == '|';
}

static bool parse_steps(const char **s, cni_program *p)
{
  while (**s && **s != '|') {
    size_t n = strcspn(*s, " ;|");
    int prim = find_prim(*s, n), v;
    cni_step *step = &p->steps[p->nstep];
    if (prim < 0 || p->nstep == CNI_PROG_STEPS) return false;
    step->prim = (uint8_t)prim;
    *s += n;
    for (int k = 0; k < cni_prims[prim].arity; k++) {
      if (*(*s)++ != ' ' || !parse_int(s, p->nin + p->nconst + p->nstep, &v)) return false;
      step->arg[k] = (uint8_t)v;
    }
    p->nstep++;
    if (**s == ';') ++*s;
  }
  return *(*s)++ == '|';
}

static bool parse(const char *s, cni_program *p)
{
  int v;
  memset(p, 0, sizeof *p);
  if (!parse_int(&s, CNI_PROG_INPUTS + 1, &p->nin) || *s++ != '|') return false;
  if (!parse_consts(&s, p) || !parse_steps(&s, p)) return false;
  while (*s) {
    if (p->nout == CNI_PROG_OUTS || !parse_int(&s, p->nin + p->nconst + p->nstep, &v)) return false;
    p->out[p->nout++] = (uint8_t)v;
    if (*s == ',') s++;
  }
  return p->nout > 0;
}

const cni_program *cni_program_parse(const char *text)
{
  cni_program p;
  size_t n = strlen(text);
  const cni_program *found = find(text, cn_hash(text, n));
  if (found) return found;
  if (n >= TEXT_MAX || !parse(text, &p)) {
    cni_fail(CN_ERR_VALUE, "pointwise: \"%.60s\" is not a pointwise program", text);
    return NULL;
  }
  char canonical[TEXT_MAX];
  write_text(canonical, sizeof canonical, &p);
  return intern(&p, canonical);
}

const cni_program *cni_program_of_value(const cn_value *v)
{
  if (v->tag != CN_V_STR) return cni_program_parse("");
  if (CNI_UNLIKELY(!cni_text_stays(v))) return cni_program_parse(v->u.s);
  return (const cni_program *)(const void *)(v->u.s - offsetof(cni_program, text));
}
