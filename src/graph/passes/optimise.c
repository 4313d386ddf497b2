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
  bool tidies; /* gradients of the graph, where it is replayed, stay the same to the bit, too */
} passes[] = {
  {"canonicalise", cni_pass_canonicalise, true}, {"fold", cni_pass_fold, true}, {"cse", cni_pass_cse, false},
  {"widen", cni_pass_widen, false},              {"dead", cni_pass_dead, true}, {"algebra", cni_pass_algebra, false},
};

/* How much one round changed. */
static int run_round(cn_graph *g, int round, bool tidy)
{
  int changes = 0;
  for (size_t i = 0; i < g->nnodes; i++) /* first what nodes hold: equal nodes then hold equal graphs */
    for (int k = 0; k < g->nodes[i].nsubs; k++) {
      int n = run_round(g->nodes[i].subs[k], round, tidy);
      if (n < 0) return n;
      changes += n;
    }
  for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
    int n = tidy && !passes[i].tidies ? 0 : passes[i].run(g);
    if (n < 0) return n;
    if (n && cni_verbose(CNI_TOPIC_GRAPH))
      cni_log(CN_LOG_INFO, CNI_TOPIC_GRAPH, "graph: round %d: %s changed %d; %zu nodes", round, passes[i].name, n,
              g->nnodes);
    changes += n;
  }
  return changes;
}

static int run_rounds(cn_graph *g, bool tidy)
{
  int total = 0;
  for (int round = 0; round < MOST_ROUNDS; round++) {
    int changes = run_round(g, round, tidy);
    if (changes < 0) return changes;
    total += changes;
    if (!changes) break;
  }
  return total;
}

int cn_graph_optimise(cn_graph *g)
{
  if (cn_err()) return cn_err();
  return g ? run_rounds(g, false) : cni_fail(CN_ERR_TYPE, "graph_optimise: the graph is NULL");
}

int cni_graph_tidy(cn_graph *g) { return cn_err() ? cn_err() : run_rounds(g, true); }
