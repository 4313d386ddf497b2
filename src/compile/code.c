/* code.c: the groups of a program's graphs, for which machine code is wanted (backends/cpu/jit).
 *
 * Place in the flow: compile.c, when a program has run for the second time: most that run once never run again. Those
 * of its groups that have no code then are one unit for the compiler. Invariant: programs of groups stay for ever, so
 * whoever has asked need not wait for the answer. */
#include <string.h>

#include "base/alloc.h"
#include "base/hooks.h"
#include "compile.h"
#include "ops/program.h"

typedef struct groups {
  const cni_program **programs; /* owned; each once */
  size_t n, cap, coded;         /* coded: those that have code */
  int status;
} groups;

static void add(groups *f, const cni_program *p)
{
  for (size_t i = 0; i < f->n; i++)
    if (f->programs[i] == p) return;
  f->status = cni_grow((void **)&f->programs, &f->cap, f->n + 1, sizeof *f->programs);
  if (f->status) return;
  f->programs[f->n++] = p;
  f->coded += cni_hooks.has_code(p);
}

/* The typed programs of a graph and of those that its nodes hold, where they run on the CPU. */
static void find(groups *f, const cn_graph *g)
{
  for (size_t i = 0; g && i < g->nnodes && !f->status; i++) {
    const cni_gnode *n = &g->nodes[i];
    for (int k = 0; k < n->nsubs; k++) find(f, n->subs[k]);
    if (!n->info || strcmp(n->info->name, "pointwise") || g->values[n->out[0]].device != CN_CPU) continue;
    const cni_program *p = cni_program_of_value(&n->args[1]);
    if (p && p->typed) add(f, p);
  }
}

static size_t with_groups(const cni_executable *p, void (*fn)(const cni_program *const *programs, size_t n))
{
  groups f = {NULL};
  if (!cni_hooks.has_code) return 0;
  find(&f, p->forward);
  find(&f, p->backward);
  if (fn && !f.status) fn(f.programs, f.n);
  cni_free(f.programs, f.cap * sizeof *f.programs);
  return f.coded;
}

void cni_executable_want_code(const cni_executable *p) { with_groups(p, cni_hooks.code_wanted); }
size_t cni_executable_coded(const cni_executable *p) { return with_groups(p, NULL); }
