/* optimise.c: the list of passes, and its order. CAIRN_VERBOSE=graph says what each did.
 *
 * Place in the flow: cn_graph_optimise, between capture and plan. Invariant: what a run gives stays the same to the
 * bit; rounds go on until nothing changes, and are bounded. */
#include "base/log.h"
#include "base/state.h"
#include "graph/passes/passes.h"

enum { MOST_ROUNDS = 8 };

static const struct pass {
  const char *name;
  int (*run)(cn_graph *g);
} passes[] = {
  {"canonicalise", cni_pass_canonicalise}, {"fold", cni_pass_fold}, {"cse", cni_pass_cse}, {"widen", cni_pass_widen},
  {"dead", cni_pass_dead},                 {"algebra", cni_pass_algebra},
};

/* How much one round changed. */
static int run_round(cn_graph *g, int round)
{
  int changes = 0;
  for (size_t i = 0; i < g->nnodes; i++) /* first what nodes hold: equal nodes then hold equal graphs */
    for (int k = 0; k < g->nodes[i].nsubs; k++) {
      int n = run_round(g->nodes[i].subs[k], round);
      if (n < 0) return n;
      changes += n;
    }
  for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
    int n = passes[i].run(g);
    if (n < 0) return n;
    if (n && cni_verbose(CNI_TOPIC_GRAPH))
      cni_log(CN_LOG_INFO, CNI_TOPIC_GRAPH, "graph: round %d: %s changed %d; %zu nodes", round, passes[i].name, n,
              g->nnodes);
    changes += n;
  }
  return changes;
}

int cn_graph_optimise(cn_graph *g)
{
  int total = 0;
  if (cn_err()) return cn_err();
  if (!g) return cni_fail(CN_ERR_TYPE, "graph_optimise: the graph is NULL");
  for (int round = 0; round < MOST_ROUNDS; round++) {
    int changes = run_round(g, round);
    if (changes < 0) return changes;
    total += changes;
    if (!changes) break;
  }
  return total;
}
