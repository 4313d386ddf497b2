/* fuse.c: neighbouring pointwise nodes become one: a node of the op "pointwise" whose program does the work of all, in
 * one pass over memory.
 *
 * Place in the flow: compiled functions, behind everything else: gradients, the cut into forward and backward, and the
 * other passes see single ops. A group has one shape and one order in memory; what it reads may be broadcast. First
 * come groups with reductions along rows, which have values of two shapes (fuse_rows.c). Members are taken where one
 * reads what another makes, and where no path leads out of the group and back into it; the nodes are then put into an
 * order in which a group's stand together. Invariant: results in float32, float64, integers and bool are those of the
 * single nodes, to the bit; those of float16 and bfloat16 are as well where `exact`. */
#include "fuse.h"

#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "graph/control.h"
#include "graph/passes/passes.h"
#include "graph/plan.h"
#include "graph/segments.h"
#include "tensor/tensor.h"

enum { MOST_VISITS = 4000 };

typedef struct fusing {
  cn_graph *g;
  bool exact, rows; /* rows: of groups with reductions along rows */
  int *group;   /* per node: its group, named by a member; -1: it is no part. Owns what follows */
  int *next;    /* per node: the next member, a ring */
  int *first, *last, *count, *steps; /* per group: the first and last member, how many, their steps */
  int *seed;    /* per group: a reduction along rows that is a member; -1: there is none */
  int *low;     /* per node: the first member of the groups that reach across it; itself where none does */
  int *epoch;   /* per node: how many effects are before it: nothing is moved across one */
  bool *tail;   /* per node: only states need it (order.c) */
  int *seen;    /* per node: the last walk that was there */
  int walk, visits;
  int *stack;   /* of a walk, and the new order */
  size_t bytes; /* of all these */
} fusing;

/* ---- parts ---- */

bool cni_has_kernels(const cni_opinfo *info, cn_device device)
{
  unsigned b = (unsigned)(device >> 8) - 1;
  return b < CNI_MAX_BACKENDS && info->kernels[b];
}

/* Does the device run programs, and has it nothing better for this op? Faults of integer divisions are named by the
 * CPU alone. */
static bool device_takes(const cn_graph *g, const cni_gnode *n, enum cni_part_kind kind)
{
  cn_device device = g->values[n->out[0]].device;
  if (!cni_has_kernels(cni_op_by_name("pointwise"), device)) return false;
  if (kind == CNI_PART_ROW && cni_has_kernels(n->info, device)) return false;
  for (int k = 0; k < n->nin; k++) {
    const cni_gvalue *v = &g->values[n->in[k]];
    if (!v->weak && v->device != device) return false;
    if (device != CN_CPU && !v->weak && !cni_dtype_is_float(v->dtype)) return false;
  }
  return true;
}

/* All results have one shape and order in memory, with elements. */
static bool one_space(const cn_graph *g, const cni_gnode *n)
{
  const cn_desc *y = &g->types.v[n->out[0]].handle->d;
  for (int k = 1; k < n->nout; k++)
    if (!cni_same_layout(y, &g->types.v[n->out[k]].handle->d)) return false;
  return y->numel > 0 && !g->types.v[n->out[0]].varies;
}

static bool same_space(const cn_graph *g, int a, int b)
{
  const cn_desc *x = &g->types.v[g->nodes[a].out[0]].handle->d, *y = &g->types.v[g->nodes[b].out[0]].handle->d;
  return x->device == y->device && cni_same_layout(x, y);
}

static void find_parts(fusing *f)
{
  const cn_graph *g = f->g;
  int epoch = 0;
  for (size_t i = 0; i < g->nnodes; i++) {
    const cni_gnode *n = &g->nodes[i];
    bool effect = cni_node_flags(n) & (CN_OP_CHECKS | CN_OP_EFFECTS) || cni_counts(g, n); /* numbers behind it follow */
    epoch += effect;
    f->epoch[i] = epoch;
    enum cni_part_kind kind = effect || n->syms.n || n->nin < 1 ? CNI_PART_NONE : cni_fuse_part(g, n, &f->steps[i]);
    if (f->rows && !effect && !kind && n->nin > 0 && n->nout == 1) kind = cni_row_part(g, n, &f->steps[i]);
    bool part = kind && device_takes(g, n, kind) && one_space(g, n);
    f->group[i] = part ? (int)i : -1;
    f->seed[i] = kind == CNI_PART_REDUCTION ? (int)i : -1;
    f->next[i] = f->first[i] = f->last[i] = f->low[i] = (int)i;
    f->count[i] = 1;
  }
}

/* ---- may two groups become one? ---- */

static bool in_either(const fusing *f, int node, int a, int b)
{
  return f->group[node] >= 0 && (f->group[node] == a || f->group[node] == b);
}

/* Pushes the makers of what a node reads that are no members. Returns whether one of the makers is a member. */
static bool push_makers(fusing *f, int node, int a, int b, int *depth, bool inside)
{
  const cni_gnode *n = &f->g->nodes[node];
  for (int k = 0; k < n->nin; k++) {
    const cni_gvalue *v = n->in[k] < 0 ? NULL : &f->g->values[n->in[k]];
    if (!v || v->kind != CNI_VALUE_RESULT) continue;
    if (in_either(f, v->node, a, b)) {
      if (inside) continue;
      return true;
    }
    if (f->seen[v->node] == f->walk) continue;
    f->seen[v->node] = f->walk;
    f->stack[(*depth)++] = v->node;
  }
  return false;
}

/* Is there a way from a member through nodes outside to a member? Groups that are made already count as one node, so
 * ways may lead back to where the earliest of those that reach across begins. Gives up, with true, when it takes long.
 */
static bool has_detour(fusing *f, int a, int b)
{
  int depth = 0, begin = f->first[a] < f->first[b] ? f->first[a] : f->first[b];
  while (f->low[begin] < begin) begin = f->low[begin];
  f->walk++;
  f->visits = 0;
  for (int k = 0; k < 2; k++) {
    int head = k ? b : a, m = head;
    do push_makers(f, m, a, b, &depth, true);
    while ((m = f->next[m]) != head);
  }
  while (depth > 0) {
    int node = f->stack[--depth];
    if (node < begin) continue;
    if (++f->visits > MOST_VISITS) return true;
    int m = node;
    do {
      f->seen[m] = f->walk;
      if (push_makers(f, m, a, b, &depth, false)) return true;
    } while ((m = f->next[m]) != node);
  }
  return false;
}

/* How many values do both groups hand out to others? */
static int count_outputs(const fusing *f, int a, int b)
{
  const cn_graph_use *use;
  int count = 0;
  for (int k = 0; k < 2; k++) {
    int head = k ? b : a, m = head;
    do {
      const cni_gnode *n = &f->g->nodes[m];
      for (int i = 0; i < n->nout; i++) {
        int users = cn_graph_users(&use, f->g, n->out[i]);
        bool outside = false;
        if (users < 0) return users;
        for (int u = 0; u < users; u++) outside |= use[u].kind != CN_USE_NODE || !in_either(f, use[u].index, a, b);
        count += outside;
      }
    } while ((m = f->next[m]) != head);
  }
  return count;
}

/* A node that is no member of a group with reductions so far, on the side of those that read what the group makes, or
 * of those that make what it reads: views and bare values make sense behind the reduction that they are of alone. */
static bool may_join_rows(const fusing *f, int group, int node, bool reads)
{
  const cn_graph *g = f->g;
  const cni_gnode *n = &g->nodes[node];
  cni_row_space s;
  int unused;
  enum cni_part_kind kind = cni_fuse_part(g, n, &unused);
  if (!cni_row_space_of(&s, g, &g->nodes[f->seed[group]])) return false;
  if (!kind) kind = CNI_PART_VIEW;
  if (!cni_row_fits(g, n, &s, kind) || (kind == CNI_PART_VIEW && !reads)) return false;
  for (int k = 0; k < n->nin && kind != CNI_PART_VIEW; k++) {
    const cni_gvalue *v = &g->values[n->in[k]];
    bool inside = v->kind == CNI_VALUE_RESULT && f->group[v->node] == group;
    if (inside && s.count > CNI_ROW_LONGEST && cni_row_again(&s, g, n, n->in[k])) return false;
    if (!(inside ? cni_row_reads(&s, g, n, n->in[k])
                 : cni_row_operand(&s, &g->types.v[n->out[0]].handle->d, &g->types.v[n->in[k]].handle->d) >= 0))
      return false;
  }
  return true;
}

/* Do members of one group, of long rows, read again what the other reduces? */
static bool reads_again(const fusing *f, int group, int other, const cni_row_space *s)
{
  const cn_graph *g = f->g;
  int m = group;
  do {
    const cni_gnode *n = &g->nodes[m];
    for (int k = 0; k < n->nin; k++) {
      const cni_gvalue *v = &g->values[n->in[k]];
      if (v->kind == CNI_VALUE_RESULT && f->group[v->node] == other && cni_row_again(s, g, n, n->in[k])) return true;
    }
  } while ((m = f->next[m]) != group);
  return false;
}

/* Groups that have reductions, or one of those and a node. a makes what b reads. */
static bool same_rows(const fusing *f, int a, int b)
{
  cni_row_space x, y;
  if (f->seed[a] < 0 && f->seed[b] < 0) return false;
  if (f->seed[a] < 0) return may_join_rows(f, b, a, false);
  if (f->seed[b] < 0) return may_join_rows(f, a, b, true);
  if (!cni_row_space_of(&x, f->g, &f->g->nodes[f->seed[a]]) || !cni_row_space_of(&y, f->g, &f->g->nodes[f->seed[b]]))
    return false;
  return cni_row_space_same(&x, &y) &&
         (x.count <= CNI_ROW_LONGEST || (!reads_again(f, a, b, &x) && !reads_again(f, b, a, &x)));
}

static bool may_join(const fusing *f, int a, int b)
{
  return f->epoch[a] == f->epoch[b] && f->tail[a] == f->tail[b] && f->count[a] + f->count[b] <= CNI_GROUP_MEMBERS &&
         f->steps[a] + f->steps[b] <= CNI_GROUP_STEPS && (f->rows ? same_rows(f, a, b) : same_space(f->g, a, b));
}

static void join(fusing *f, int a, int b)
{
  int m = b, next = f->next[a];
  do f->group[m] = a;
  while ((m = f->next[m]) != b);
  f->next[a] = f->next[b];
  f->next[b] = next;
  if (f->first[b] < f->first[a]) f->first[a] = f->first[b];
  if (f->last[b] > f->last[a]) f->last[a] = f->last[b];
  f->count[a] += f->count[b];
  f->steps[a] += f->steps[b];
  if (f->seed[a] < 0) f->seed[a] = f->seed[b];
  for (int i = f->first[a]; i <= f->last[a]; i++)
    if (f->low[i] > f->first[a]) f->low[i] = f->first[a];
}

/* One sweep over all reads. How many groups became part of another. */
static int join_readers(fusing *f)
{
  int joined = 0;
  for (size_t i = 0; i < f->g->nnodes; i++) {
    const cni_gnode *n = &f->g->nodes[i];
    for (int k = 0; f->group[i] >= 0 && k < n->nin; k++) {
      const cni_gvalue *v = &f->g->values[n->in[k]];
      int a = v->kind == CNI_VALUE_RESULT ? f->group[v->node] : -1, b = f->group[i];
      if (a < 0 || a == b || !may_join(f, a, b)) continue;
      int outputs = count_outputs(f, a, b);
      if (outputs < 0) return outputs;
      if (outputs > CNI_MAX_RESULTS || has_detour(f, a, b)) continue;
      join(f, a, b);
      joined++;
    }
  }
  return joined;
}

/* A group of rows grows from its reductions, in both directions. */
static int find_groups(fusing *f)
{
  int joined = join_readers(f);
  for (int sweep = 0; f->rows && joined > 0 && sweep < CNI_GROUP_MEMBERS; sweep++) joined = join_readers(f);
  return joined < 0 ? joined : CN_OK;
}

/* Takes a node out of its group. */
static void leave(fusing *f, int node)
{
  int before = node;
  const int group = f->group[node];
  while (f->next[before] != node) before = f->next[before];
  f->next[before] = f->next[node];
  f->next[node] = node;
  f->group[node] = -1;
  f->count[group]--;
}

/* Views that nobody inside reads stand behind their group. */
static int leave_views(fusing *f)
{
  const cn_graph_use *use;
  for (size_t i = f->g->nnodes; i-- > 0;) {
    const cni_gnode *n = &f->g->nodes[i];
    if (f->group[i] < 0 || f->group[i] == (int)i || !(n->info->row->flags & CN_OP_VIEW)) continue;
    int users = cn_graph_users(&use, f->g, n->out[0]);
    if (users < 0) return users;
    bool inside = false;
    for (int u = 0; u < users; u++) inside |= use[u].kind == CN_USE_NODE && f->group[use[u].index] == f->group[i];
    if (!inside) leave(f, (int)i);
  }
  return CN_OK;
}

/* ---- the order in which a group's members stand together ---- */

/* A node that this one, or a member of its group, reads, and that is not placed yet; -1: there is none. */
static int missing(const fusing *f, int node)
{
  int m = node;
  do {
    const cni_gnode *n = &f->g->nodes[m];
    for (int k = 0; k < n->nin; k++) {
      const cni_gvalue *v = n->in[k] < 0 ? NULL : &f->g->values[n->in[k]];
      if (!v || v->kind != CNI_VALUE_RESULT || f->seen[v->node] == f->walk) continue;
      if (f->group[v->node] < 0 || f->group[v->node] != f->group[node]) return v->node;
    }
  } while ((m = f->next[m]) != node);
  return -1;
}

/* Members that read each other stay in order. */
static void place(fusing *f, int node, int *order, int *at)
{
  int begin = *at, m = node;
  do {
    int i = (*at)++;
    f->seen[m] = f->walk;
    for (; i > begin && order[i - 1] > m; i--) order[i] = order[i - 1];
    order[i] = m;
  } while ((m = f->next[m]) != node);
}

/* Puts a node, or its whole group, behind all that they read. */
static void put(fusing *f, int node, int *order, int *at)
{
  int *waiting = f->low, depth = 0; /* groups are found: nobody asks for low any more */
  waiting[depth++] = node;
  while (depth > 0) {
    int now = waiting[depth - 1], first = f->seen[now] == f->walk ? -1 : missing(f, now);
    if (first >= 0) {
      waiting[depth++] = first;
      continue;
    }
    if (f->seen[now] != f->walk) place(f, now, order, at);
    depth--;
  }
}

/* Groups go where their last member was, or earlier where someone reads them. */
static int reorder(fusing *f, int *order)
{
  cn_graph *g = f->g;
  int at = 0;
  if (!g->nnodes) return CN_OK;
  f->walk++;
  for (size_t i = 0; i < g->nnodes; i++)
    if (f->group[i] < 0 || f->last[f->group[i]] == (int)i) put(f, (int)i, order, &at);
  cni_gnode *nodes = cni_alloc(g->nnodes * sizeof *nodes);
  if (!nodes) return CN_ERR_MEMORY;
  for (size_t i = 0; i < g->nnodes; i++) nodes[i] = g->nodes[order[i]];
  memcpy(g->nodes, nodes, g->nnodes * sizeof *nodes);
  cni_free(nodes, g->nnodes * sizeof *nodes);
  for (size_t i = 0; i < g->nnodes; i++)
    for (int k = 0; k < g->nodes[i].nout; k++) g->values[g->nodes[i].out[k]].node = (int)i;
  cni_graph_changed(g);
  return CN_OK;
}

/* ---- one node for a group ---- */

/* From the last to the first, so that the numbers of nodes that are still to be looked at stay. order: what they were
 * when groups were found. */
static int replace_groups(fusing *f, const int *order)
{
  int count = 0;
  for (int end = (int)f->g->nnodes, begin; end > 0; end = begin) {
    int group = f->group[order[end - 1]];
    begin = end - 1;
    while (group >= 0 && begin > 0 && f->group[order[begin - 1]] == group) begin--;
    int done = end - begin < 2 ? 0 : cni_fuse_range(f->g, begin, end, f->exact);
    if (done < 0) return done;
    count += done;
  }
  return count;
}

/* ---- the pass ---- */

static int allocate(fusing *f)
{
  size_t n = f->g->nnodes + 1;
  f->bytes = n * (11 * sizeof(int) + sizeof(bool));
  int *at = cni_alloc_zero(f->bytes);
  if (!at) return CN_ERR_MEMORY;
  f->group = at, f->next = at + n, f->first = at + 2 * n, f->last = at + 3 * n, f->count = at + 4 * n;
  f->steps = at + 5 * n, f->epoch = at + 6 * n, f->seen = at + 7 * n, f->stack = at + 8 * n;
  f->low = at + 9 * n, f->seed = at + 10 * n, f->tail = (bool *)(at + 11 * n);
  return CN_OK;
}

/* The graphs that nodes hold: how many groups they have, or an error. */
static int fuse_held(const cn_graph *g, bool exact)
{
  int groups = 0;
  for (size_t i = 0; i < g->nnodes; i++)
    for (int k = 0; k < g->nodes[i].nsubs; k++) {
      int n = cn_graph_fuse(g->nodes[i].subs[k], exact);
      if (n < 0) return n;
      groups += n;
    }
  return groups;
}

/* rows: into groups with reductions along rows, else into those of formulas alone. */
static int fuse_nodes(cn_graph *g, bool exact, bool rows)
{
  fusing f = {.g = g, .exact = exact, .rows = rows};
  int status = cni_types_fill(&g->types, g);
  if (!status) status = allocate(&f);
  if (!status) status = cni_find_tail(f.tail, g);
  if (!status) {
    find_parts(&f);
    status = find_groups(&f);
  }
  if (!status && rows) status = leave_views(&f);
  if (!status) status = reorder(&f, f.stack);
  int groups = status ? status : replace_groups(&f, f.stack);
  if (f.group) cni_free(f.group, f.bytes);
  if (groups < 0) return groups;
  cn_graph_at(g, -1, -1);
  if (groups > 0 && (status = cni_pass_dead(g)) < 0) return status;
  if (groups && cni_verbose(CNI_TOPIC_GRAPH))
    cni_log(CN_LOG_INFO, CNI_TOPIC_GRAPH, "graph: %d groups%s; %zu nodes", groups, rows ? " with reductions" : "",
            g->nnodes);
  return groups;
}

static int fuse_rows(cn_graph *g, bool exact)
{
  int status = cni_types_fill(&g->types, g), any = status ? status : cni_row_views(g);
  return any <= 0 ? any : fuse_nodes(g, exact, true);
}

int cn_graph_fuse(cn_graph *g, bool exact)
{
  if (cn_err()) return cn_err();
  if (!g) return cni_fail(CN_ERR_TYPE, "graph_fuse: the graph is NULL");
  int held = fuse_held(g, exact), norms = held < 0 ? held : cni_norms_join(g, exact);
  int added = norms < 0 ? norms : cni_add_norms_join(g), gelus = added < 0 ? added : cni_gelus_join(g, exact);
  int sums = gelus < 0 ? gelus : cni_sums_join(g), pools = sums < 0 ? sums : cni_pools_trim(g);
  int clamps = pools < 0 ? pools : cni_clamps_join(g);
  int rows = clamps < 0 ? clamps : fuse_rows(g, exact), own = rows < 0 ? rows : fuse_nodes(g, exact, false);
  return own < 0 ? own : held + norms + added + gelus + sums + clamps + rows + own;
}
