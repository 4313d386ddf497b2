/* optimise.c: the list of passes, and its order. CAIRN_VERBOSE=graph says what each did.
 *
 * Place in the flow: cn_graph_optimise, between capture and plan. Invariant: what a run gives stays the same to the
 * bit, unless cn_graph_optimise_fast is asked; rounds go on until nothing changes, and are bounded. */
#include "base/log.h"
#include "base/state.h"
#include "graph/passes/passes.h"

enum { MOST_ROUNDS = 8 };

/* What a pass keeps to the bit, and what is asked for. */
enum level {
  TIDY,  /* results, and gradients of the graph where it is replayed */
  EXACT, /* results */
  FAST   /* neither */
};

static const struct pass {
  const char *name;
  int (*run)(cn_graph *g);
  enum level keeps;
} passes[] = {
  {"canonicalise", cni_pass_canonicalise, TIDY}, {"fold", cni_pass_fold, TIDY},
  {"cse", cni_pass_cse, EXACT},                  {"widen", cni_pass_widen, EXACT},
  {"dead", cni_pass_dead, TIDY},                 {"algebra", cni_pass_algebra, EXACT},
  {"recognise", cni_pass_recognise, FAST},       {"round", cni_pass_round, FAST},
};

/* How much one round changed. */
static int run_round(cn_graph *g, int round, enum level level)
{
  int changes = 0;
  for (size_t i = 0; i < g->nnodes; i++) /* first what nodes hold: equal nodes then hold equal graphs */
    for (int k = 0; k < g->nodes[i].nsubs; k++) {
      int n = run_round(g->nodes[i].subs[k], round, level);
      if (n < 0) return n;
      changes += n;
    }
  for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
    int n = passes[i].keeps > level ? 0 : passes[i].run(g);
    if (n < 0) return n;
    if (n && cni_verbose(CNI_TOPIC_GRAPH))
      cni_log(CN_LOG_INFO, CNI_TOPIC_GRAPH, "graph: round %d: %s changed %d; %zu nodes", round, passes[i].name, n,
              g->nnodes);
    changes += n;
  }
  return changes;
}

static int run_rounds(cn_graph *g, enum level level)
{
  int total = 0;
  for (int round = 0; round < MOST_ROUNDS; round++) {
    int changes = run_round(g, round, level);
    if (changes < 0) return changes;
    total += changes;
    if (!changes) break;
  }
  return total;
}

int cn_graph_optimise(cn_graph *g)
{
  if (cn_err()) return cn_err();
  return g ? run_rounds(g, EXACT) : cni_fail(CN_ERR_TYPE, "graph_optimise: the graph is NULL");
}

int cn_graph_optimise_fast(cn_graph *g)
{
  if (cn_err()) return cn_err();
  return g ? run_rounds(g, FAST) : cni_fail(CN_ERR_TYPE, "graph_optimise_fast: the graph is NULL");
}

int cni_graph_tidy(cn_graph *g) { return cn_err() ? cn_err() : run_rounds(g, TIDY); }
