/* test_optim.c: every optimiser against PyTorch's results (golden.py), its state in and out, groups and settings. */
#include <math.h>
#include <stdio.h>

#include "common.h"

enum { STEPS = 20, PARAMS = 2 };

/* ---- golden cases ---- */

typedef struct fixture {
  cn_tree *file, *cases;
} fixture;

static fixture golden_open(void)
{
  fixture f = {.file = golden_load("optimisers.safetensors")};
  const char *text = cn_tree_as_str(cn_tree_get(cn_tree_get(f.file, "__metadata__"), "cases"), NULL);
  assert_non_null(text);
  f.cases = cn_tree_from_json(text, strlen(text));
  assert_non_null(f.cases);
  return f;
}

static void golden_close(fixture *f)
{
  cn_tree_free(f->cases);
  cn_tree_free(f->file);
}

static cn_tensor *stored(const fixture *f, const char *name)
{
  cn_tensor *t = cn_tree_as_tensor(cn_tree_get(f->file, name));
  if (!t) print_error("no tensor %s\n", name);
  assert_non_null(t);
  return t;
}

static cn_tensor *numbered(const fixture *f, const char *format, int i)
{
  char name[64];
  snprintf(name, sizeof name, format, i);
  return stored(f, name);
}

static cn_dtype dtype_of_case(const cn_tree *c)
{
  return strcmp(cn_tree_as_str(cn_tree_get(c, "dtype"), ""), "f64") ? CN_F32 : CN_F64;
}

/* Fresh parameters of a case; owned. */
static int make_params(cn_tensor **params, const fixture *f, const cn_tree *c, const char *name)
{
  int n = strcmp(name, "Muon") ? PARAMS : 1; /* matrices only */
  for (int i = 0; i < n; i++) {
    cn_tensor *start = numbered(f, "start.%d", i);
    params[i] = cn_keep(cn_requires_grad(cn_clone(cn_cast(start, dtype_of_case(c))), true));
  }
  return n;
}

static cn_optim *make_optim(const cn_tree *c, cn_tensor **params, int n)
{
  const char *name = cn_tree_as_str(cn_tree_get(c, "name"), "");
  arguments a;
  arguments_read(&a, optim_signature(name), cn_tree_get(c, "args"));
  cn_optim *opt = cn_optim_make(name, NULL, a.v, a.n);
  if (!opt) print_error("%s: %s\n", name, cn_err_message());
  assert_non_null(opt);
  assert_int_equal(cn_optim_add(opt, params, (size_t)n), 0);
  return opt;
}

static void set_grads(const fixture *f, cn_tensor **params, int n, int step)
{
  cn_scope *s = cn_scope_begin();
  for (int i = 0; i < n; i++) {
    cn_tensor *g = cn_select(numbered(f, "grads.%d", i), 0, step);
    assert_int_equal(cn_set_grad(params[i], cn_clone(cn_cast(g, cn_dtype_of(params[i])))), 0);
  }
  cn_scope_end(s);
}

static void take_step(cn_optim *opt, const fixture *f, cn_tensor **params, int n, int step)
{
  set_grads(f, params, n, step);
  if (cn_optim_step(opt)) print_error("%s: %s\n", cn_optim_name(opt), cn_err_message());
  assert_int_equal(cn_err(), 0);
}

static void compare(const char *what, const char *name, const cn_tree *c, cn_tensor *have, cn_tensor *want)
{
  double far = difference(have, want), most = dtype_of_case(c) == CN_F64 ? 1e-12 : 1e-6;
  if (!strcmp(name, "Muon")) most = 2e-3; /* its products are in bfloat16, and added up in another order */
  if (far <= most) return;
  char *args = cn_tree_to_json(cn_tree_get(c, "args"), 0);
  print_error("%s %s %s: %s is off by %.3g\n", name, args, cn_tree_as_str(cn_tree_get(c, "dtype"), ""), what, far);
  cn_string_free(args);
  fail();
}

/* The state as PyTorch has it: the same names, values that fit. */
static void compare_states(const fixture *f, const cn_tree *c, cn_optim *opt, const char *name)
{
  const char *key = cn_tree_as_str(cn_tree_get(c, "key"), "");
  char text[96];
  cn_tree *state = cn_optim_state(opt);
  assert_non_null(state);
  const cn_tree *memories = cn_tree_get(state, "state");
  int found = 0, wanted = 0;
  for (size_t i = 0; i < cn_tree_size(memories); i++) {
    int64_t number = -1;
    assert_null(cn_tree_key(memories, i, &number));
    for (size_t k = 0; k < cn_tree_size(cn_tree_at(memories, i)); k++, found++) {
      const char *what = cn_tree_key(cn_tree_at(memories, i), k, NULL);
      const cn_tree *v = cn_tree_at(cn_tree_at(memories, i), k);
      snprintf(text, sizeof text, "%s.s%lld.%s", key, (long long)number, what);
      cn_tensor *want = stored(f, text);
      if (cn_tree_as_tensor(v)) compare(text, name, c, cn_tree_as_tensor(v), want);
      else assert_true(cn_tree_as_float(v, -1) == cn_item(want));
    }
  }
  int prefix = snprintf(text, sizeof text, "%s.s", key);
  for (size_t i = 0; i < cn_tree_size(f->file); i++)
    wanted += !strncmp(cn_tree_key(f->file, i, NULL), text, (size_t)prefix);
  assert_int_equal(found, wanted);
  cn_tree_free(state);
}

/* Two groups' dictionaries, but for lists that JSON has instead of tuples. */
static void compare_groups(const cn_tree *c, cn_optim *opt)
{
  cn_tree *state = cn_optim_state(opt);
  const cn_tree *have = cn_tree_at(cn_tree_get(state, "param_groups"), 0);
  const cn_tree *want = cn_tree_at(cn_tree_get(c, "groups"), 0);
  assert_int_equal(cn_tree_size(have), cn_tree_size(want));
  for (size_t i = 0; i < cn_tree_size(want); i++) {
    const char *name = cn_tree_key(want, i, NULL);
    assert_string_equal(cn_tree_key(have, i, NULL), name);
    char *x = cn_tree_to_json(cn_tree_at(have, i), 0), *y = cn_tree_to_json(cn_tree_at(want, i), 0);
    cn_tree_kind kind = cn_tree_kind_of(cn_tree_at(want, i));
    if (kind == CN_TREE_INT || kind == CN_TREE_FLOAT)
      assert_true(cn_tree_as_float(cn_tree_at(have, i), -1) == cn_tree_as_float(cn_tree_at(want, i), -2));
    else if (kind != CN_TREE_LIST) assert_string_equal(x, y);
    else assert_int_equal(cn_tree_size(cn_tree_at(have, i)), cn_tree_size(cn_tree_at(want, i)));
    cn_string_free(x);
    cn_string_free(y);
  }
  cn_tree_free(state);
}

static void run_case(const fixture *f, const cn_tree *c)
{
  const char *name = cn_tree_as_str(cn_tree_get(c, "name"), ""), *key = cn_tree_as_str(cn_tree_get(c, "key"), "");
  static const int marks[] = {1, 5, 20};
  cn_tensor *params[PARAMS];
  cn_scope *s = cn_scope_begin();
  int n = make_params(params, f, c, name), mark = 0;
  cn_optim *opt = make_optim(c, params, n);
  compare_groups(c, opt);
  for (int step = 0; step < STEPS; step++) {
    take_step(opt, f, params, n, step);
    if (step + 1 != marks[mark]) continue;
    for (int i = 0; i < n; i++) {
      char text[64], what[64];
      snprintf(text, sizeof text, "%s.p%d", key, i);
      snprintf(what, sizeof what, "parameter %d after step %d", i, step + 1);
      compare(what, name, c, params[i], cn_select(stored(f, text), 0, mark));
    }
    mark++;
  }
  compare_states(f, c, opt, name);
  cn_optim_free(opt);
  for (int i = 0; i < n; i++) cn_release(params[i]);
  cn_scope_end(s);
}

static bool is_lbfgs(const cn_tree *c) { return !strcmp(cn_tree_as_str(cn_tree_get(c, "name"), ""), "LBFGS"); }

static void follow_pytorch(void **state)
{
  (void)state;
  fixture f = golden_open();
  for (size_t i = 0; i < cn_tree_size(f.cases); i++)
    if (!is_lbfgs(cn_tree_at(f.cases, i))) run_case(&f, cn_tree_at(f.cases, i));
  golden_close(&f);
}

/* ---- LBFGS ---- */

typedef struct problem {
  cn_optim *opt;
  cn_tensor *x, *y, *a, *b;
} problem;

static cn_tensor *problem_loss(void *payload)
{
  problem *p = payload;
  cn_optim_zero_grad(p->opt);
  cn_tensor *fit = cn_sum(cn_square(cn_sub(cn_matmul(p->x, p->a), p->b)));
  cn_tensor *loss = cn_add(fit, cn_mul(cn_num(0.1), cn_sum(cn_pow(p->x, cn_num(4)))));
  loss = cn_add(loss, cn_sum(cn_square(p->y)));
  return cn_backward(loss) ? NULL : loss;
}

static void run_lbfgs(const fixture *f, const cn_tree *c)
{
  const char *key = cn_tree_as_str(cn_tree_get(c, "key"), "");
  cn_dtype dtype = dtype_of_case(c);
  double most = dtype == CN_F64 ? 1e-9 : 2e-3; /* the search amplifies the rounding of float32 */
  cn_tensor *params[PARAMS];
  char text[64];
  cn_scope *s = cn_scope_begin();
  make_params(params, f, c, "LBFGS");
  cn_optim *opt = make_optim(c, params, PARAMS);
  problem p = {opt, params[0], params[1], cn_cast(stored(f, "lbfgs.a"), dtype), cn_cast(stored(f, "lbfgs.b"), dtype)};
  for (int step = 0; step < 3; step++) {
    cn_tensor *loss = cn_optim_step_closure(opt, problem_loss, &p);
    if (!loss) print_error("%s\n", cn_err_message());
    assert_non_null(loss);
    snprintf(text, sizeof text, "%s.p0", key); /* the other one goes to zero */
    double far = difference(params[0], cn_select(stored(f, text), 0, step));
    if (far > most) print_error("%s, step %d: off by %.3g\n", text, step + 1, far);
    assert_true(far <= most);
  }
  cn_tree *tree = cn_optim_state(opt);
  int64_t evals = cn_tree_as_int(cn_tree_get(cn_tree_get_index(cn_tree_get(tree, "state"), 0), "func_evals"), -1);
  if (dtype == CN_F64) assert_int_equal(evals, cn_tree_as_int(cn_tree_get(c, "evals"), -2));
  cn_tree_free(tree);
  cn_optim_free(opt);
  for (int i = 0; i < PARAMS; i++) cn_release(params[i]);
  cn_scope_end(s);
}

static void lbfgs_follows_pytorch(void **state)
{
  (void)state;
  fixture f = golden_open();
  for (size_t i = 0; i < cn_tree_size(f.cases); i++)
    if (is_lbfgs(cn_tree_at(f.cases, i))) run_lbfgs(&f, cn_tree_at(f.cases, i));
  golden_close(&f);
}

/* ---- resuming ---- */

/* 10 steps, state out and into another optimiser, 10 more: the bits of 20 steps. */
static void resume_case(const fixture *f, const cn_tree *c)
{
  const char *name = cn_tree_as_str(cn_tree_get(c, "name"), "");
  cn_tensor *params[PARAMS], *copies[PARAMS];
  cn_scope *s = cn_scope_begin();
  int n = make_params(params, f, c, name);
  cn_optim *opt = make_optim(c, params, n);
  for (int step = 0; step < 10; step++) take_step(opt, f, params, n, step);
  for (int i = 0; i < n; i++) copies[i] = cn_keep(cn_requires_grad(cn_clone(cn_detach(params[i])), true));
  cn_optim *other = make_optim(c, copies, n);
  assert_int_equal(cn_optim_set(opt, 0, "lr", 0.07), 0);
  cn_tree *saved = cn_optim_state(opt);
  if (cn_optim_load(other, saved)) print_error("%s: %s\n", name, cn_err_message());
  assert_int_equal(cn_err(), 0);
  cn_tree *again = cn_optim_state(other);
  assert_true(same_trees(saved, again));
  cn_tree_free(saved);
  cn_tree_free(again);
  for (int step = 10; step < STEPS; step++) {
    take_step(opt, f, params, n, step);
    take_step(other, f, copies, n, step);
  }
  for (int i = 0; i < n; i++) {
    if (!same_bits(params[i], copies[i])) print_error("%s: parameter %d differs after a restart\n", name, i);
    assert_true(same_bits(params[i], copies[i]));
    cn_release(params[i]);
    cn_release(copies[i]);
  }
  cn_optim_free(opt);
  cn_optim_free(other);
  cn_scope_end(s);
}

static void resume_exactly(void **state)
{
  (void)state;
  fixture f = golden_open();
  for (size_t i = 0; i < cn_tree_size(f.cases); i++)
    if (!is_lbfgs(cn_tree_at(f.cases, i))) resume_case(&f, cn_tree_at(f.cases, i));
  golden_close(&f);
}

/* A checkpoint of PyTorch's, taken in the middle of a case, is gone on from. */
static void pytorchs_state_loads(void **state)
{
  (void)state;
  fixture f = golden_open();
  cn_tree *file = golden_load("adamw.pt");
  const char *key = cn_tree_as_str(cn_tree_get(file, "case"), "");
  const cn_tree *c = NULL;
  for (size_t i = 0; i < cn_tree_size(f.cases); i++)
    if (!strcmp(cn_tree_as_str(cn_tree_get(cn_tree_at(f.cases, i), "key"), ""), key)) c = cn_tree_at(f.cases, i);
  assert_non_null(c);
  cn_scope *s = cn_scope_begin();
  cn_tensor *params[PARAMS];
  for (size_t i = 0; i < PARAMS; i++)
    params[i] = cn_requires_grad(cn_clone(cn_tree_as_tensor(cn_tree_at(cn_tree_get(file, "params"), i))), true);
  cn_optim *opt = cn_optim_adamw(NULL);
  assert_int_equal(cn_optim_add(opt, params, PARAMS), 0);
  assert_int_equal(cn_optim_load(opt, cn_tree_get(file, "optimizer")), 0);
  cn_tree *saved = cn_optim_state(opt);
  assert_true(same_trees(saved, cn_tree_get(file, "optimizer"))); /* to the order of its keys */
  cn_tree_free(saved);
  for (int step = STEPS / 2; step < STEPS; step++) take_step(opt, &f, params, PARAMS, step);
  for (int i = 0; i < PARAMS; i++) {
    char text[64];
    snprintf(text, sizeof text, "%s.p%d", key, i);
    compare("a parameter", "AdamW", c, params[i], cn_select(stored(&f, text), 0, 2));
  }
  cn_optim_free(opt);
  cn_scope_end(s);
  cn_tree_free(file);
  golden_close(&f);
}

static void lbfgs_resumes_exactly(void **state)
{
  (void)state;
  fixture f = golden_open();
  for (size_t k = 0; k < cn_tree_size(f.cases); k++) {
    const cn_tree *c = cn_tree_at(f.cases, k);
    if (!is_lbfgs(c)) continue;
    cn_tensor *params[PARAMS], *copies[PARAMS];
    cn_scope *s = cn_scope_begin();
    cn_dtype dtype = dtype_of_case(c);
    make_params(params, &f, c, "LBFGS");
    cn_optim *opt = make_optim(c, params, PARAMS);
    cn_tensor *a = cn_cast(stored(&f, "lbfgs.a"), dtype), *b = cn_cast(stored(&f, "lbfgs.b"), dtype);
    problem p = {opt, params[0], params[1], a, b};
    assert_non_null(cn_optim_step_closure(opt, problem_loss, &p));
    for (int i = 0; i < PARAMS; i++) copies[i] = cn_keep(cn_requires_grad(cn_clone(cn_detach(params[i])), true));
    cn_optim *other = make_optim(c, copies, PARAMS);
    problem q = {other, copies[0], copies[1], p.a, p.b};
    cn_tree *saved = cn_optim_state(opt);
    assert_int_equal(cn_optim_load(other, saved), 0);
    cn_tree_free(saved);
    assert_non_null(cn_optim_step_closure(opt, problem_loss, &p));
    assert_non_null(cn_optim_step_closure(other, problem_loss, &q));
    for (int i = 0; i < PARAMS; i++) {
      assert_true(same_bits(params[i], copies[i]));
      cn_release(params[i]);
      cn_release(copies[i]);
    }
    cn_optim_free(opt);
    cn_optim_free(other);
    cn_scope_end(s);
  }
  golden_close(&f);
}

/* What bindings look at: groups as dictionaries, one parameter's memory, a parameter that was replaced. */
static void groups_and_memories(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *p = cn_requires_grad(cn_ones(CN_SHAPE(2)), true), *q = cn_requires_grad(cn_zeros(CN_SHAPE(2)), true);
  cn_optim *opt = cn_optim_sgd(NULL, .lr = 0.5, .momentum = 0.9);
  cn_tree *group = cn_optim_group(opt, 0); /* of a group to come */
  assert_true(cn_tree_as_float(cn_tree_get(group, "lr"), 0) == 0.5 && !cn_tree_get(group, "params"));
  cn_tree_free(group);
  assert_int_equal(cn_optim_add(opt, &p, 1), 0);
  assert_int_equal(cn_optim_note(opt, 0, "name", cn_tree_str("all")), 0);
  group = cn_optim_group(opt, 0);
  assert_string_equal(cn_tree_as_str(cn_tree_get(group, "name"), ""), "all");
  cn_tree_free(group);
  cn_tree *memory = cn_optim_memory(opt, 0, 0);
  assert_true(memory && cn_tree_size(memory) == 0);
  cn_tree_free(memory);
  assert_int_equal(cn_set_grad(p, cn_ones(CN_SHAPE(2))), 0);
  assert_int_equal(cn_optim_step(opt), 0);
  memory = cn_optim_memory(opt, 0, 0);
  cn_tensor *buffer = cn_tree_as_tensor(cn_tree_get(memory, "momentum_buffer"));
  assert_true(buffer && cn_item(cn_select(buffer, 0, 0)) == 1);
  cn_tree_free(memory);
  memory = cn_tree_dict();
  assert_int_equal(cn_tree_put(memory, "momentum_buffer", cn_tree_tensor(cn_full(CN_SHAPE(2), 3.0))), 0);
  assert_int_equal(cn_optim_remember(opt, 0, 0, memory), 0);
  cn_tree_free(memory);
  assert_int_equal(cn_optim_replace(opt, 0, 0, q), 0);
  assert_int_equal(cn_set_grad(q, cn_zeros(CN_SHAPE(2))), 0);
  assert_int_equal(cn_optim_step(opt), 0);
  assert_true(fabs(cn_item(cn_select(q, 0, 0)) + 0.5 * 2.7) < 1e-6);
  assert_true(cn_item(cn_select(p, 0, 0)) == 0.5);
  assert_int_equal(cn_optim_remember(opt, 0, 0, NULL), 0);
  memory = cn_optim_memory(opt, 0, 0);
  assert_int_equal(cn_tree_size(memory), 0);
  cn_tree_free(memory);
  assert_true(!cn_optim_memory(opt, 0, 7) && cn_optim_replace(opt, 1, 0, p) < 0);
  cn_err_clear();
  cn_optim_free(opt);
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(follow_pytorch),
    cmocka_unit_test(lbfgs_follows_pytorch),
    cmocka_unit_test(resume_exactly),
    cmocka_unit_test(pytorchs_state_loads),
    cmocka_unit_test(lbfgs_resumes_exactly),
    cmocka_unit_test(groups_and_memories),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
