/* forest.c: see forest.h. Every kind of test is made of "at most": x < t is x <= the number in front of t, x > t is the
 * same test with branches changed, equality is two of them, membership a search among sorted numbers. A leaf leads to
 * itself.
 *
 * Place in the flow: a model's trees are made tables at its first run (cni_onnx_once). Invariant: from a root no way is
 * longer than the depth, and all indices in tables are in range. */
#include "forest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEQ, LT, GTE, GT, EQ, NEQ, MEMBER, LEAF, MODES };

typedef struct branch {
  double split;
  int64_t feature, next[WAYS];
} branch;

/* A leaf's contribution to a target. */
typedef struct weight {
  int64_t leaf, target;
  double value;
} weight;

typedef struct forest {
  const cni_onnx_call *call;
  branch *b;
  size_t n, room;
  int64_t *roots;
  size_t nroots;
  weight *weights;
  size_t nweights;
  int64_t targets, depth, features;
  bool wide;    /* splits are float64 */
  bool missing; /* some node sends what is missing another way than what is larger */
} forest;

static int bad(const forest *f, const char *what) { return cni_onnx_fail(f->call, CN_ERR_VALUE, "%s", what); }

/* ---- tests ---- */

static int64_t more(forest *f, size_t n)
{
  if (cn_grow((void **)&f->b, &f->room, f->n + n, sizeof *f->b)) return -1;
  memset(f->b + f->n, 0, n * sizeof *f->b);
  f->n += n;
  return (int64_t)(f->n - n);
}

/* The number in front of v; of none, one that nothing is at most. */
static double before(const forest *f, double v)
{
  if (v == -INFINITY) return NAN;
  return f->wide ? nextafter(v, -INFINITY) : (double)nextafterf((float)v, -INFINITY);
}

static void at_most(forest *f, int64_t at, int64_t feature, double split, int64_t yes, int64_t no, int64_t missing)
{
  f->b[at] = (branch){split, feature, {yes, no, missing}};
  f->missing = f->missing || missing != no;
}

static int equals(forest *f, int64_t at, int64_t feature, double split, int64_t yes, int64_t no, int64_t missing)
{
  int64_t inner = more(f, 1);
  if (inner < 0) return cn_err();
  at_most(f, at, feature, split, inner, no, missing);
  at_most(f, inner, feature, before(f, split), no, yes, missing);
  return CN_OK;
}

/* Whether it is one of n sorted numbers. */
static int member(forest *f, int64_t at, int64_t feature, const double *v, size_t n, const int64_t *ways)
{
  size_t half = n / 2;
  if (!n) return at_most(f, at, feature, 0, ways[NO], ways[NO], ways[MISSING]), CN_OK;
  if (n == 1) return equals(f, at, feature, *v, ways[YES], ways[NO], ways[MISSING]);
  int64_t low = more(f, 2);
  if (low < 0) return cn_err();
  at_most(f, at, feature, before(f, v[half]), low, low + 1, ways[MISSING]);
  if (member(f, low, feature, v, half, ways)) return cn_err();
  return member(f, low + 1, feature, v + half, n - half, ways);
}

static int test(forest *f, int64_t at, int mode, int64_t feature, double split, int64_t yes, int64_t no, bool tracks)
{
  int64_t missing = tracks || mode == NEQ ? yes : no;
  if (feature < 0) return bad(f, "a feature's number is negative");
  if (yes == at || no == at) return bad(f, "a tree's branches lead back");
  f->features = feature >= f->features ? feature + 1 : f->features;
  if (isnan(split) && mode != NEQ) yes = no; /* no comparison with it holds */
  switch (mode) {
  case LEQ: return at_most(f, at, feature, split, yes, no, missing), CN_OK;
  case LT: return at_most(f, at, feature, before(f, split), yes, no, missing), CN_OK;
  case GTE: return at_most(f, at, feature, before(f, split), no, yes, missing), CN_OK;
  case GT: return at_most(f, at, feature, split, no, yes, missing), CN_OK;
  case EQ: return equals(f, at, feature, split, yes, no, missing);
  case NEQ: return equals(f, at, feature, split, no, yes, missing);
  default: return bad(f, "an unknown mode of a node");
  }
}

static void leaf(forest *f, int64_t at) { at_most(f, at, 0, 0, at, at, at); }
static bool is_leaf(const forest *f, int64_t at) { return f->b[at].next[YES] == at && f->b[at].next[NO] == at; }

/* The longest way from any root; an error where one never ends. */
static int measure(forest *f)
{
  int64_t *height = cn_alloc_zero((f->n + 1) * sizeof *height),
          *stack = cn_alloc((3 * f->n + f->nroots + 1) * sizeof *stack);
  size_t n = 0; /* height: 0 not seen, -1 on the way, else 1 more than it is */
  int status = height && stack ? CN_OK : cn_err();
  for (size_t r = 0; r < f->nroots && !status; r++) {
    for (stack[n++] = f->roots[r]; n && !status;) {
      int64_t at = stack[n - 1], most = 0;
      const branch *b = &f->b[at];
      if (height[at] > 0) {
        n--;
        continue;
      }
      bool first = !height[at];
      height[at] = -1;
      for (int w = 0; w < WAYS && !is_leaf(f, at) && !status; w++) {
        int64_t to = b->next[w];
        if (height[to] < 0) status = bad(f, "a tree's branches lead back");
        else if (!height[to] && first) stack[n++] = to;
        most = height[to] > most ? height[to] : most;
      }
      if (stack[n - 1] != at) continue;
      height[at] = most + 1;
      n--;
    }
    if (!status && height[f->roots[r]] - 1 > f->depth) f->depth = height[f->roots[r]] - 1;
  }
  cn_free(height, (f->n + 1) * sizeof *height);
  cn_free(stack, (3 * f->n + f->nroots + 1) * sizeof *stack);
  return status;
}

/* ---- what attributes say ---- */

/* Numbers of an attribute that is a list, or of another that is a tensor; how many in *n. */
static const double *numbers(forest *f, cni_onnx_call *c, const char *name, const char *tensor, size_t *n)
{
  const cni_onnx_attr *a = cni_onnx_attr_of(c, tensor);
  cn_onnx_value *v = a && a->kind == CNI_ATTR_TENSOR ? a->value : NULL;
  cni_onnx_floats list = v ? (cni_onnx_floats){NULL, 0} : cni_onnx_floats_of(c, name);
  *n = list.n;
  if (cn_err() || !v) return cn_err() ? NULL : list.v;
  if (v->kind != CN_ONNX_TENSOR) return bad(f, "an attribute is strings, not numbers"), NULL;
  *n = (size_t)cn_numel(v->t);
  f->wide = f->wide || cn_dtype_of(v->t) == CN_F64;
  double *all = cni_onnx_room(c, *n + 1, sizeof *all);
  return all && !cn_to_data(all, *n * sizeof *all, cn_cast(v->t, CN_F64)) ? all : NULL;
}

static const int64_t *whole(const forest *f, const char *name, size_t n)
{
  cni_onnx_ints v = cni_onnx_ints_of(f->call, name);
  if (!cn_err() && (!v.v || v.n != n))
    cni_onnx_fail(f->call, CN_ERR_VALUE, "%s has %zu entries, not %zu", name, v.n, n);
  return cn_err() ? NULL : v.v;
}

/* The same of one that may be missing: NULL without an error. */
static const int64_t *maybe(const forest *f, const char *name, size_t n)
{
  const cni_onnx_attr *a = cni_onnx_attr_of(f->call, name);
  return a && a->n ? whole(f, name, n) : NULL;
}

/* A node by its tree and its number there. */
typedef struct key {
  int64_t tree, node, at;
} key;

static int by_key(const void *a, const void *b)
{
  const key *x = a, *y = b;
  if (x->tree != y->tree) return x->tree < y->tree ? -1 : 1;
  return x->node < y->node ? -1 : x->node > y->node;
}

static int64_t find(const forest *f, const key *keys, size_t n, int64_t tree, int64_t node)
{
  const key *k = bsearch(&(key){tree, node, 0}, keys, n, sizeof *keys, by_key);
  return k ? k->at : bad(f, "a branch or a weight is that of a node that is not there");
}

static int mode_of(const forest *f, const char *name)
{
  static const char *const names[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                      "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};
  for (int m = 0; m < MODES; m++)
    if (m != MEMBER && !strcmp(names[m], name)) return m;
  return bad(f, "an unknown mode of a node");
}

/* A tree's root is its first node that no branch leads to. */
static int old_roots(forest *f, cni_onnx_call *c, const key *keys, size_t n)
{
  bool *child = cni_onnx_room(c, f->n + 1, 1);
  f->roots = cni_onnx_room(c, n + 1, sizeof *f->roots);
  if (!child || !f->roots) return cn_err();
  for (size_t i = 0; i < f->n; i++)
    for (int w = 0; w < WAYS && !is_leaf(f, (int64_t)i); w++) child[f->b[i].next[w]] = true;
  for (size_t i = 0; i < n;) {
    int64_t root = -1, tree = keys[i].tree;
    for (; i < n && keys[i].tree == tree; i++)
      if (!child[keys[i].at] && (root < 0 || keys[i].at < root)) root = keys[i].at;
    if (root < 0) return bad(f, "a tree's branches lead back");
    f->roots[f->nroots++] = root;
  }
  return CN_OK;
}

/* Nodes of all trees in one list, by tree and number: opsets 1 to 4. */
static int old_nodes(forest *f, cni_onnx_call *c, key **keys, size_t *count)
{
  size_t nsplits;
  const cni_onnx_attr *modes = cni_onnx_attr_of(c, "nodes_modes");
  size_t n = modes && modes->kind == CNI_ATTR_STRINGS ? modes->n : 0;
  const double *splits = numbers(f, c, "nodes_values", "nodes_values_as_tensor", &nsplits);
  const int64_t *trees = whole(f, "nodes_treeids", n), *ids = whole(f, "nodes_nodeids", n);
  const int64_t *features = whole(f, "nodes_featureids", n), *yes = whole(f, "nodes_truenodeids", n);
  const int64_t *no = whole(f, "nodes_falsenodeids", n);
  const int64_t *tracks = maybe(f, "nodes_missing_value_tracks_true", n);
  if (!n || nsplits != n || !no || !yes || !features || !trees || !ids || cn_err())
    return cn_err() ? cn_err() : bad(f, "its nodes are missing");
  key *k = *keys = cni_onnx_room(c, n, sizeof *k);
  if (!k || more(f, n) < 0) return cn_err();
  for (size_t i = 0; i < n; i++) k[i] = (key){trees[i], ids[i], (int64_t)i};
  qsort(k, n, sizeof *k, by_key);
  for (size_t i = 1; i < n; i++)
    if (!by_key(k + i, k + i - 1)) return bad(f, "two nodes of a tree have one number");
  for (size_t i = 0; i < n; i++) {
    int mode = mode_of(f, modes->ss[i]);
    if (mode == LEAF) leaf(f, (int64_t)i);
    if (mode == LEAF) continue;
    int64_t a = mode < 0 ? -1 : find(f, k, n, trees[i], yes[i]), b = a < 0 ? -1 : find(f, k, n, trees[i], no[i]);
    if (b < 0 || test(f, (int64_t)i, mode, features[i], splits[i], a, b, tracks && tracks[i])) return cn_err();
  }
  *count = n;
  return old_roots(f, c, k, n);
}

/* prefix: "target" or "class", as the attributes of weights begin. */
static int old_weights(forest *f, cni_onnx_call *c, bool classes, const key *keys, size_t nkeys)
{
  size_t n;
  const double *values = classes ? numbers(f, c, "class_weights", "class_weights_as_tensor", &n)
                                 : numbers(f, c, "target_weights", "target_weights_as_tensor", &n);
  const int64_t *trees = whole(f, classes ? "class_treeids" : "target_treeids", n);
  const int64_t *ids = whole(f, classes ? "class_nodeids" : "target_nodeids", n);
  const int64_t *targets = whole(f, classes ? "class_ids" : "target_ids", n);
  f->weights = cni_onnx_room(c, n + 1, sizeof *f->weights);
  if (cn_err()) return cn_err();
  for (size_t i = 0; i < n; i++) {
    int64_t at = find(f, keys, nkeys, trees[i], ids[i]);
    if (at < 0) return cn_err();
    if (is_leaf(f, at)) f->weights[f->nweights++] = (weight){at, targets[i], values[i]};
  }
  return CN_OK;
}

static int by_number(const void *a, const void *b)
{
  const double *x = a, *y = b;
  return *x < *y ? -1 : *x > *y;
}

/* The next list of members, up to a NaN, sorted; *n of them. */
static int members(forest *f, double **v, size_t *n, double *all, size_t nall, size_t *at)
{
  *v = all + *at;
  for (*n = 0; *at < nall && !isnan(all[*at]); (*at)++) (*n)++;
  if (*at == nall) return bad(f, "membership_values has too few lists");
  (*at)++;
  qsort(*v, *n, sizeof **v, by_number);
  return CN_OK;
}

/* Branches and leaves in lists of their own: opset 5. Leaf i is node n + i. */
static int new_nodes(forest *f, cni_onnx_call *c)
{
  size_t n, nmodes, nleaves, nmembers, at = 0, nv;
  const double *splits = numbers(f, c, "nodes_splits", "nodes_splits", &n), *values;
  const double *modes = numbers(f, c, "nodes_modes", "nodes_modes", &nmodes);
  const double *given = numbers(f, c, "membership_values", "membership_values", &nmembers);
  values = numbers(f, c, "leaf_weights", "leaf_weights", &nleaves);
  const int64_t *features = whole(f, "nodes_featureids", n), *targets = whole(f, "leaf_targetids", nleaves);
  const int64_t *next[] = {whole(f, "nodes_truenodeids", n), whole(f, "nodes_falsenodeids", n)};
  const int64_t *ends[] = {whole(f, "nodes_trueleafs", n), whole(f, "nodes_falseleafs", n)};
  const int64_t *tracks = maybe(f, "nodes_missing_value_tracks_true", n);
  cni_onnx_ints roots = cni_onnx_ints_of(c, "tree_roots");
  if (!n || nmodes != n || !nleaves || cn_err())
    return cn_err() ? cn_err() : bad(f, "its nodes or leaves are missing");
  double *all = cni_onnx_room(c, nmembers + 1, sizeof *all), *v;
  f->roots = cni_onnx_room(c, roots.n + 1, sizeof *f->roots);
  f->weights = cni_onnx_room(c, nleaves, sizeof *f->weights);
  if (!all || !f->roots || !f->weights || more(f, n + nleaves) < 0) return cn_err();
  memcpy(all, given ? given : splits, (given ? nmembers : 0) * sizeof *all);
  for (size_t i = 0; i < nleaves; i++) {
    leaf(f, (int64_t)(n + i));
    f->weights[f->nweights++] = (weight){(int64_t)(n + i), targets[i], values[i]};
  }
  for (size_t i = 0; i < n; i++) {
    int64_t to[WAYS];
    for (int w = 0; w < 2; w++) {
      to[w] = next[w][i];
      if (to[w] < 0 || to[w] >= (int64_t)(ends[w][i] ? nleaves : n)) return bad(f, "a branch leads out of range");
      if (ends[w][i]) to[w] += (int64_t)n;
    }
    bool missing = tracks && tracks[i];
    to[MISSING] = missing ? to[YES] : to[NO];
    if ((int)modes[i] != MEMBER) {
      if (test(f, (int64_t)i, (int)modes[i], features[i], splits[i], to[YES], to[NO], missing)) return cn_err();
      continue;
    }
    if (members(f, &v, &nv, all, nmembers, &at) ||
        test(f, (int64_t)i, LEQ, features[i], 0, to[YES], to[NO], missing) ||
        member(f, (int64_t)i, features[i], v, nv, to))
      return cn_err();
  }
  for (size_t i = 0; i < roots.n; i++) {
    if (roots.v[i] < 0 || roots.v[i] >= (int64_t)n) return bad(f, "a root is out of range");
    f->roots[f->nroots++] = roots.v[i];
  }
  return CN_OK;
}

/* ---- tables ---- */

static int fill_nodes(const forest *f, cn_tensor **tables, cn_dtype dtype)
{
  int64_t ways = f->missing ? WAYS : 2, n = (int64_t)f->n;
  int64_t *features = cn_alloc((f->n + 1) * sizeof *features), *next = cn_alloc((f->n * WAYS + 1) * sizeof *next);
  double *splits = cn_alloc((f->n + 1) * sizeof *splits);
  for (size_t i = 0; features && next && splits && i < f->n; i++) {
    features[i] = f->b[i].feature;
    splits[i] = f->b[i].split;
    for (int64_t w = 0; w < ways; w++) next[(int64_t)i * ways + w] = f->b[i].next[w];
  }
  if (!cn_err()) {
    tables[FEATURE] = cni_onnx_ml_table(f->call, features, &n, 1, CN_I64);
    tables[SPLIT] = cn_cast(cni_onnx_ml_table(f->call, splits, &n, 1, CN_F64), dtype);
    tables[NEXT] = cni_onnx_ml_table(f->call, next, &(int64_t){n * ways}, 1, CN_I64);
    tables[ROOTS] = cni_onnx_ml_table(f->call, f->roots, &(int64_t){(int64_t)f->nroots}, 1, CN_I64);
  }
  cn_free(features, (f->n + 1) * sizeof *features);
  cn_free(next, (f->n * WAYS + 1) * sizeof *next);
  cn_free(splits, (f->n + 1) * sizeof *splits);
  return cn_err();
}

/* Leaves have a number each; how many. dense: some leaf has more than one target. */
static int64_t number_leaves(const forest *f, int64_t *leaf_of, bool *dense)
{
  int64_t n = 0;
  bool *had = cn_alloc_zero(f->n + 1);
  for (size_t i = 0; had && i < f->n; i++) leaf_of[i] = is_leaf(f, (int64_t)i) ? n++ : 0;
  for (size_t i = 0; had && i < f->nweights; i++) {
    *dense = *dense || (had[f->weights[i].leaf] && f->targets > 1);
    had[f->weights[i].leaf] = true;
  }
  cn_free(had, f->n + 1);
  return n;
}

/* none: what a leaf has for a target that it does not contribute to. */
static int fill_leaves(const forest *f, cn_tensor **tables, cn_dtype dtype, double none, bool *dense)
{
  int64_t *leaf_of = cn_alloc_zero((f->n + 1) * sizeof *leaf_of), *targets = NULL;
  int64_t n = leaf_of ? number_leaves(f, leaf_of, dense) : 0, each = *dense ? f->targets : 1, all = n * each;
  double *values = NULL;
  if (!cn_err() && all / each > (1 << 28) / each) bad(f, "leaves and targets are too many");
  if (!cn_err()) values = cn_alloc(((size_t)all + 1) * sizeof *values);
  if (values) targets = cn_alloc_zero(((size_t)n + 1) * sizeof *targets);
  for (int64_t i = 0; targets && i < all; i++) values[i] = none;
  for (size_t i = 0; targets && i < f->nweights; i++) {
    const weight *w = &f->weights[i];
    int64_t at = leaf_of[w->leaf] * each + (*dense ? w->target : 0);
    values[at] = values[at] == none ? w->value : values[at] + w->value;
    targets[leaf_of[w->leaf]] = w->target;
  }
  if (targets) {
    tables[LEAF_OF] = cni_onnx_ml_table(f->call, leaf_of, &(int64_t){(int64_t)f->n}, 1, CN_I64);
    tables[TARGET] = cni_onnx_ml_table(f->call, targets, &n, 1, CN_I64);
    tables[WEIGHT] = cni_onnx_ml_table(f->call, values, *dense ? (int64_t[]){n, each} : &n, *dense ? 2 : 1, CN_F64);
    tables[WEIGHT] = cn_cast(tables[WEIGHT], dtype);
    cn_free(targets, ((size_t)n + 1) * sizeof *targets);
  }
  cn_free(values, values ? ((size_t)all + 1) * sizeof *values : 0);
  cn_free(leaf_of, (f->n + 1) * sizeof *leaf_of);
  return cn_err();
}

/* The target that all weights have; -1: there are more. */
static int64_t only_target(const forest *f)
{
  int64_t target = f->nweights ? f->weights[0].target : -1;
  for (size_t i = 1; i < f->nweights; i++) target = f->weights[i].target == target ? target : -1;
  return target;
}

static cn_onnx_value *tables_of(const forest *f, cn_dtype dtype, double none)
{
  cn_tensor *tables[TABLES] = {NULL};
  cn_onnx_value *values[TABLES] = {NULL}, *made = NULL;
  bool dense = false;
  for (size_t i = 0; i < f->nweights; i++)
    if (f->weights[i].target < 0 || f->weights[i].target >= f->targets)
      return bad(f, "a target is out of range"), NULL;
  if (fill_nodes(f, tables, dtype) || fill_leaves(f, tables, dtype, none, &dense)) return NULL;
  bool positive = true;
  for (size_t i = 0; i < f->nweights; i++) positive = positive && f->weights[i].value >= 0;
  int64_t facts[NFACTS] = {f->depth, f->missing ? WAYS : 2, f->features, f->targets, dense, positive, only_target(f)},
          n = NFACTS;
  tables[FACTS] = cn_from_data(facts, &n, 1, CN_I64);
  size_t k = 0;
  while (k < TABLES && (values[k] = cni_onnx_take(tables[k]))) k++;
  if (k == TABLES) made = cn_onnx_value_sequence(values, TABLES);
  while (k--) cn_onnx_value_release(values[k]);
  return made;
}

int cni_onnx_aggregation(const cni_onnx_call *c)
{
  static const char *const names[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  if (!strcmp(c->node->op, "TreeEnsemble")) {
    int64_t how = cni_onnx_int(c, "aggregate_function", SUM);
    return how >= AVERAGE && how <= MAX
               ? (int)how
               : cni_onnx_fail(c, CN_ERR_VALUE, "aggregate_function is %lld", (long long)how);
  }
  const char *how = cni_onnx_text(c, "aggregate_function", "SUM");
  for (int i = AVERAGE; i <= MAX; i++)
    if (!strcmp(names[i], how)) return i;
  return cni_onnx_fail(c, CN_ERR_VALUE, "aggregate_function is '%s'", how);
}

double cni_onnx_none_of(int how) { return how == MIN ? INFINITY : how == MAX ? -INFINITY : 0; }

cn_onnx_value *cni_onnx_forest(cni_onnx_call *c)
{
  forest f = {.call = c};
  bool new = !strcmp(c->node->op, "TreeEnsemble"), classes = !strcmp(c->node->op, "TreeEnsembleClassifier");
  int how = cni_onnx_aggregation(c), status = how < 0 ? cn_err() : CN_OK;
  key *keys = NULL;
  size_t nkeys = 0;
  cn_dtype dtype = cn_dtype_of(cni_onnx_in(c, 0));
  f.wide = dtype == CN_F64 || !cn_dtype_is_float(dtype); /* whole numbers are compared as they are */
  f.targets = classes ? (int64_t)cni_onnx_ml_nlabels(c, "classlabels_int64s") : cni_onnx_int(c, "n_targets", 1);
  if (!status && (f.targets < 1 || f.targets > INT32_MAX)) status = bad(&f, "it has no targets");
  if (!status) status = new ? new_nodes(&f, c) : old_nodes(&f, c, &keys, &nkeys);
  if (!status && !new) status = old_weights(&f, c, classes, keys, nkeys);
  if (!status) status = measure(&f);
  if (!status && classes && f.targets == 2 && only_target(&f) == 0) f.targets = 1;
  cn_onnx_value *made = status ? NULL : tables_of(&f, f.wide ? CN_F64 : CN_F32, cni_onnx_none_of(how));
  cn_free(f.b, f.room * sizeof *f.b);
  return made;
}
