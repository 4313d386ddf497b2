/* trees.c: ensembles of trees: all rows walk all trees a level at a time by looking up tables (forest.h), so that walks
 * are ops like any others: compiled, traced, on any device. See call.h, ml.h. */
#include "formats/onnx/forest.h"

#include <string.h>

/* Entries of a table, or its rows. */
static cn_tensor *look(cn_tensor *table, cn_tensor *at) { return cn_index_select(table, 0, at); }

/* The numbers of the leaves, tree after tree of row after row, at which rows of x (rows, features) end. */
static cn_tensor *walk(cn_tensor *const *t, const int64_t *facts, cn_tensor *x)
{
  int64_t rows = cn_size(x, 0), trees = cn_numel(t[ROOTS]), all = rows * trees;
  cn_tensor *at = cn_reshape(cn_expand(cn_unsqueeze(t[ROOTS], 0), CN_SHAPE(rows, trees)), CN_SHAPE(all));
  for (int64_t level = 0; at && level < facts[DEPTH]; level++) {
    cn_tensor *v = cn_gather(x, 1, cn_reshape(look(t[FEATURE], at), CN_SHAPE(rows, trees)));
    v = cn_reshape(v, CN_SHAPE(all));
    cn_tensor *way = cn_cast(cn_logical_not(cn_le(v, look(t[SPLIT], at))), CN_I64);
    if (facts[WAYS_USED] == WAYS) way = cn_where(cn_isnan(v), cn_int(MISSING), way);
    at = look(t[NEXT], cn_add(cn_mul(at, cn_int(facts[WAYS_USED])), way));
  }
  return look(t[LEAF_OF], at);
}

/* (rows, targets) */
static cn_tensor *gathered(cn_tensor *const *t, const int64_t *facts, cn_tensor *leaves, int64_t rows, int how)
{
  int64_t trees = cn_numel(t[ROOTS]), targets = facts[TARGETS], each = facts[DENSE] ? targets : 1;
  cn_tensor *w = cn_reshape(look(t[WEIGHT], leaves), CN_SHAPE(rows, trees, each));
  if (targets > each) {
    cn_tensor *all =
        cn_full(CN_SHAPE(rows, targets), cni_onnx_none_of(how), .dtype = cn_dtype_of(w), .device = cn_device_of(w));
    cn_tensor *to = cn_reshape(look(t[TARGET], leaves), CN_SHAPE(rows, trees));
    const char *reduce = how == MIN ? "amin" : how == MAX ? "amax" : "sum";
    return cn_scatter_reduce(all, 1, to, cn_squeeze(w, .dim = CN_INTS(2)), reduce);
  }
  if (how == MIN) return cn_amin(w, .dim = CN_INTS(1));
  return how == MAX ? cn_amax(w, .dim = CN_INTS(1)) : cn_sum(w, .dim = CN_INTS(1));
}

/* Scores (N, targets), before base values. Rows go in parts that fit into caches, unless a graph is captured. */
static cn_tensor *scores_of(cni_onnx_call *c, cn_tensor *x, int64_t *facts)
{
  enum { PART = 1 << 17 };
  cn_tensor *t[TABLES], *made = NULL;
  int how = cni_onnx_aggregation(c);
  const cn_onnx_value *tables = how < 0 ? NULL : cni_onnx_once(c, cni_onnx_forest);
  if (!x || !tables) return NULL;
  for (size_t i = 0; i < TABLES; i++) t[i] = tables->items[i]->t;
  void *paused = cn_trace_pause();
  int status = cn_to_data(facts, NFACTS * sizeof *facts, t[FACTS]);
  cn_trace_resume(paused);
  if (cn_ndim(x) == 1) x = cn_unsqueeze(x, 0);
  if (status || !x || cn_ndim(x) != 2 || cn_size(x, 1) < facts[COLUMNS])
    return status
               ? NULL
               : (cni_onnx_fail(c, CN_ERR_SHAPE, "its trees ask for %lld features", (long long)facts[COLUMNS]), NULL);
  x = cn_cast(x, cn_dtype_of(t[SPLIT]));
  int64_t rows = cn_size(x, 0), trees = cn_numel(t[ROOTS]), part = PART / (trees + 1) + 1;
  if (cn_tracing() || rows <= part) made = gathered(t, facts, walk(t, facts, x), rows, how);
  else {
    size_t n = (size_t)((rows + part - 1) / part);
    cn_tensor **parts = cni_onnx_room(c, n, sizeof *parts);
    for (size_t i = 0; parts && i < n; i++) {
      int64_t from = (int64_t)i * part, size = rows - from < part ? rows - from : part;
      cn_scope *scope = cn_scope_begin();
      parts[i] = gathered(t, facts, walk(t, facts, cn_narrow(x, 0, from, size)), size, how);
      parts[i] = parts[i] ? cn_keep(parts[i]) : NULL;
      cn_scope_end(scope);
      if (parts[i]) cn_scope_give(parts[i]);
    }
    made = parts && !cn_err() ? cn_cat(parts, n) : NULL;
  }
  if (how == AVERAGE) return cn_div(made, cn_int(trees));
  return how == SUM ? made : cn_where(cn_isinf(made), cn_int(0), made);
}

/* Base values of all targets, in the scores' type; NULL: there are none. */
static cn_tensor *base_of(cni_onnx_call *c, cn_tensor *scores)
{
  if (!scores) return NULL;
  cn_onnx_value *v =
      cni_onnx_attr_of(c, "base_values_as_tensor") ? cni_onnx_tensor_of(c, "base_values_as_tensor") : NULL;
  if (v && v->kind == CN_ONNX_TENSOR) return cn_numel(v->t) ? cn_cast(v->t, cn_dtype_of(scores)) : NULL;
  cni_onnx_floats list = cni_onnx_floats_of(c, "base_values");
  return list.n ? cni_onnx_ml_vector(c, "base_values", cn_dtype_of(scores)) : NULL;
}

static int tree_regressor(cni_onnx_call *c)
{
  int64_t facts[NFACTS];
  cn_tensor *t = scores_of(c, cni_onnx_in(c, 0), facts), *base = base_of(c, t);
  if (base && cn_numel(base) != 1 && cn_numel(base) != facts[TARGETS])
    return cni_onnx_fail(c, CN_ERR_VALUE, "%lld base values for %lld targets", (long long)cn_numel(base),
                         (long long)facts[TARGETS]);
  t = cni_onnx_ml_transformed(c, base ? cn_add(t, base) : t);
  return cni_onnx_out(c, 0, t ? cn_cast(t, CN_F32) : NULL);
}

/* Opset 5: the result has the input's type, the transform is a number. */
static int tree_ensemble(cni_onnx_call *c)
{
  static const char *const how[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  int64_t facts[NFACTS], which = cni_onnx_int(c, "post_transform", 0);
  if (which < 0 || which > 4) return cni_onnx_fail(c, CN_ERR_VALUE, "post_transform is %lld", (long long)which);
  cn_tensor *x = cni_onnx_in(c, 0), *t = scores_of(c, x, facts);
  t = cni_onnx_ml_post(c, t, how[which]);
  return cni_onnx_out(c, 0, t ? cn_cast(t, cn_dtype_of(x)) : NULL);
}

/* The second of two classes where its score is above what lies between them. */
static int out_second(cni_onnx_call *c, cn_tensor *score, bool likely)
{
  cn_tensor *second = score ? cn_gt(cn_squeeze(score, .dim = CN_INTS(1)), cn_num(likely ? 0.5 : 0)) : NULL;
  return cni_onnx_ml_out_labels(c, second ? cn_cast(second, CN_I64) : NULL, "classlabels_int64s");
}

/* One score, of the second of two classes, where leaves know the first one's number alone. likely: no weight is
 * negative, so that scores are probabilities. */
static int two_classes(cni_onnx_call *c, cn_tensor *t, bool likely)
{
  const char *how = cni_onnx_text(c, "post_transform", "NONE");
  bool plain = !strcmp(how, "NONE") || !strcmp(how, "PROBIT");
  if (out_second(c, t, likely)) return cn_err();
  t = cni_onnx_ml_transformed(c, cni_onnx_ml_both(t, likely && plain));
  return cni_onnx_out(c, 1, t ? cn_cast(t, CN_F32) : NULL);
}

static int tree_classifier(cni_onnx_call *c)
{
  int64_t facts[NFACTS], pad[] = {0, 1};
  size_t labels = cni_onnx_ml_nlabels(c, "classlabels_int64s");
  cn_tensor *t = scores_of(c, cni_onnx_in(c, 0), facts), *base = base_of(c, t);
  if (!t) return cn_err();
  if (base && cn_numel(base) != 1 && cn_numel(base) != (int64_t)labels)
    return cni_onnx_fail(c, CN_ERR_VALUE, "%lld base values for %zu classes", (long long)cn_numel(base), labels);
  if (facts[TARGETS] == 1 && base && cn_numel(base) == 2) t = cn_constant_pad_nd(t, pad, 2);
  if (base) t = cn_add(t, base);
  if (cn_size(t, 1) == 1 && labels == 2) return two_classes(c, t, facts[POSITIVE] != 0);
  bool second = facts[ONLY] == 1 && labels == 2 && !base;
  if (second) out_second(c, cn_narrow(t, 1, 1, 1), facts[POSITIVE] != 0);
  else cni_onnx_ml_out_labels(c, cn_argmax(t, 1), "classlabels_int64s");
  t = cni_onnx_ml_transformed(c, t);
  return cni_onnx_out(c, 1, t ? cn_cast(t, CN_F32) : NULL);
}

const cni_onnx_op cni_onnx_trees_ops[] = {
    ONNX_FRESH("TreeEnsemble", 5, tree_ensemble),
    ONNX_FRESH("TreeEnsembleClassifier", 1, tree_classifier),
    ONNX_FRESH("TreeEnsembleRegressor", 1, tree_regressor),
    {NULL, NULL, NULL, 0, 0},
};
