/* common.c: see common.h. */
#include "common.h"

#include <math.h>
#include <stdio.h>

cn_tree *golden_load(const char *name)
{
  char path[512];
  snprintf(path, sizeof path, "%s/tests/optim/%s", CN_TEST_SOURCE_DIR, name);
  cn_tree *tree = cn_load(path);
  if (!tree) print_error("%s: %s\n", path, cn_err_message());
  assert_non_null(tree);
  return tree;
}

static cn_value list_value(arguments *a, const cn_op_param *p, const cn_tree *t)
{
  size_t n = cn_tree_size(t), first = a->used;
  bool ints = !strncmp(p->type, "int", 3);
  a->used += n;
  assert_true(a->used <= ARGS_ROOM);
  for (size_t i = 0; i < n; i++) {
    a->floats[first + i] = cn_tree_as_float(cn_tree_at(t, i), NAN);
    a->ints[first + i] = cn_tree_as_int(cn_tree_at(t, i), 0);
  }
  return ints ? cn_v_ints(&a->ints[first], n) : cn_v_floats(&a->floats[first], n);
}

void arguments_read(arguments *a, const char *sig, const cn_tree *dict)
{
  cn_signature *s = cn_signature_parse(sig);
  assert_non_null(s);
  *a = (arguments){.n = (size_t)cn_signature_size(s)};
  for (size_t i = 0; i < cn_tree_size(dict); i++) {
    const char *name = cn_tree_key(dict, i, NULL);
    const cn_tree *t = cn_tree_at(dict, i);
    int at = cn_signature_find(s, name);
    cn_op_param p;
    if (at < 0) print_error("%s has no argument %s\n", sig, name);
    assert_true(at >= 0);
    cn_signature_param(&p, s, at);
    switch (cn_tree_kind_of(t)) {
    case CN_TREE_BOOL: a->v[at] = cn_v_bool(cn_tree_as_bool(t, false)); break;
    case CN_TREE_STR: a->v[at] = cn_v_str(cn_tree_as_str(t, "")); break;
    case CN_TREE_LIST: a->v[at] = list_value(a, &p, t); break;
    default:
      a->v[at] = !strncmp(p.type, "int", 3) ? cn_v_int(cn_tree_as_int(t, 0)) : cn_v_float(cn_tree_as_float(t, 0));
    }
  }
  cn_signature_free(s);
}

const char *optim_signature(const char *name)
{
  const char *found, *sig, *doc;
  for (size_t i = 0; cn_optim_class_at(i, &found, &sig, &doc); i++)
    if (!strcmp(found, name)) return sig;
  fail_msg("there is no optimiser %s", name);
  return NULL;
}

const char *schedule_signature(const char *name)
{
  const char *found, *sig, *doc;
  for (size_t i = 0; cn_schedule_class_at(i, &found, &sig, &doc); i++)
    if (!strcmp(found, name)) return sig;
  return NULL;
}

double difference(cn_tensor *have, cn_tensor *want)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_cast(have, CN_F64), *y = cn_cast(want, CN_F64);
  double most = cn_item(cn_max(cn_abs(y))), worst = 0;
  cn_tensor *size = cn_clamp_min(cn_abs(y), cn_num(0.1 * most + 1e-30));
  worst = cn_item(cn_max(cn_true_divide(cn_abs(cn_sub(x, y)), size)));
  if (cn_err()) fail_msg("%s", cn_err_message());
  cn_scope_end(s);
  return isnan(worst) ? HUGE_VAL : worst;
}

bool same_bits(cn_tensor *a, cn_tensor *b)
{
  if (cn_dtype_of(a) != cn_dtype_of(b) || cn_numel(a) != cn_numel(b)) return false;
  cn_scope *s = cn_scope_begin();
  a = cn_contiguous(a), b = cn_contiguous(b);
  bool same = !cn_numel(a) || !memcmp(cn_data(a), cn_data(b), cn_tensor_nbytes(a));
  cn_scope_end(s);
  return same;
}

bool same_trees(const cn_tree *a, const cn_tree *b)
{
  cn_tree_kind kind = cn_tree_kind_of(a);
  if (kind != cn_tree_kind_of(b) || cn_tree_size(a) != cn_tree_size(b)) return false;
  if (kind == CN_TREE_TENSOR) return same_bits(cn_tree_as_tensor(a), cn_tree_as_tensor(b));
  if (kind == CN_TREE_STR) return !strcmp(cn_tree_as_str(a, ""), cn_tree_as_str(b, ""));
  if (kind == CN_TREE_FLOAT || kind == CN_TREE_INT || kind == CN_TREE_BOOL) {
    double x = cn_tree_as_float(a, 0), y = cn_tree_as_float(b, 0);
    return !memcmp(&x, &y, sizeof x);
  }
  for (size_t i = 0; i < cn_tree_size(a); i++) {
    int64_t m = 0, n = 0;
    const char *k = kind == CN_TREE_DICT ? cn_tree_key(a, i, &m) : NULL;
    const char *l = kind == CN_TREE_DICT ? cn_tree_key(b, i, &n) : NULL;
    if (!k != !l || (k && strcmp(k, l)) || m != n) return false;
    if (!same_trees(cn_tree_at(a, i), cn_tree_at(b, i))) return false;
  }
  return true;
}
