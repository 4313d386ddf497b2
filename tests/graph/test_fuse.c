/* test_fuse.c: pointwise nodes that became one compute what they did, to the bit: chains, branches, broadcasting, other
 * types, other memory orders; halves round where they are to. What must not be joined is not. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <cairn/cairn.h>
#include <cairn/ext/graph.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensors.h"

enum { INPUTS = 4, OUTPUTS = 4 };

typedef int (*body_fn)(cn_tensor **out, cn_tensor *const *in, void *payload);

static int setup(void **state)
{
  (void)state;
  cn_err_clear();
  cn_seed(11);
  return 0;
}

static cn_graph *traced(body_fn fn, size_t nout, cn_tensor *const *in, size_t nin)
{
  cn_graph *g = cn_trace(fn, nout, in, nin, NULL);
  if (!g || cn_graph_optimise(g) < 0) print_error("%s\n", cn_err_message());
  assert_non_null(g);
  assert_int_equal(cn_err(), 0);
  return g;
}

static void fuse(cn_graph *g, bool exact, int groups, size_t nodes)
{
  char *text = cn_graph_to_string(g);
  int made = cn_graph_fuse(g, exact);
  if (made != groups || cn_graph_nodes(g) != nodes) {
    char *now = cn_graph_to_string(g);
    print_error("%s\nbecame\n%s\n%s\n", text, now, cn_err_message());
    cn_string_free(now);
  }
  cn_string_free(text);
  assert_int_equal(made, groups);
  assert_int_equal(cn_graph_nodes(g), nodes);
  assert_int_equal(cn_graph_verify(g), 0);
}

/* Traced, fused into so many groups and nodes, and run: eager's results. */
static void check(body_fn fn, size_t nout, cn_tensor *const *in, size_t nin, int groups, size_t nodes)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *want[OUTPUTS] = {NULL}, *have[OUTPUTS] = {NULL};
  assert_int_equal(fn(want, in, NULL), 0);
  cn_graph *g = traced(fn, nout, in, nin);
  fuse(g, true, groups, nodes);
  for (int i = 0; i < 2; i++) {
    int status = cn_graph_run(have, g, in);
    if (status) print_error("%s\n", cn_err_message());
    assert_int_equal(status, 0);
    for (size_t k = 0; k < nout; k++) assert_same(have[k], want[k]);
  }
  cn_graph_free(g);
  cn_scope_end(s);
}

/* ---- shapes ---- */

static int chain(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  cn_tensor *y = cn_relu(cn_add(cn_mul(in[0], cn_num(2)), in[1]));
  out[0] = cn_mul(cn_tanh(y), cn_sigmoid(cn_gelu(in[0])));
  return cn_err();
}

static void test_chain(void **state)
{
  (void)state;
  static const int64_t sizes[] = {1, 7, 600, 70000};
  for (int i = 0; i < 4; i++) {
    cn_tensor *in[] = {cn_randn(CN_SHAPE(sizes[i])), cn_randn(CN_SHAPE(sizes[i]))};
    check(chain, 1, in, 2, 1, 1);
  }
  cn_tensor *in[] = {cn_randn(CN_SHAPE(33, 10)), cn_randn(CN_SHAPE(10))}; /* broadcast, in short rows */
  check(chain, 1, in, 2, 1, 1);
  cn_tensor *columns[] = {cn_randn(CN_SHAPE(40, 300)), cn_randn(CN_SHAPE(40, 1))};
  check(chain, 1, columns, 2, 1, 1);
}

/* A value that several read, inside and outside; two results. */
static int branches(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  cn_tensor *e = cn_exp(in[0]), *a = cn_add(e, in[1]), *b = cn_mul(e, in[1]);
  out[0] = cn_sub(a, b);
  out[1] = cn_mul(e, cn_num(3));
  out[2] = cn_matmul(cn_transpose(b, 0, 1), b);
  return cn_err();
}

static void test_branches(void **state)
{
  (void)state;
  cn_tensor *in[] = {cn_randn(CN_SHAPE(20, 30)), cn_randn(CN_SHAPE(20, 30))};
  check(branches, 3, in, 2, 1, 3); /* the group, transpose and product */
}

/* Between exp and the division lies a sum of columns: one group of both would wait for itself. */
static int around(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  cn_tensor *e = cn_exp(cn_mul(in[0], cn_num(0.5)));
  out[0] = cn_neg(cn_true_divide(e, cn_sum(e, .dim = CN_INTS(0), .keepdim = true)));
  return cn_err();
}

static void test_detours(void **state)
{
  (void)state;
  cn_tensor *in[] = {cn_randn(CN_SHAPE(100, 100))};
  check(around, 1, in, 1, 2, 3);
  cn_tensor *small[] = {cn_randn(CN_SHAPE(10, 10))}; /* two steps over few elements are no faster as one */
  check(around, 1, small, 1, 1, 4);
}

/* The same through a group that is made already: a -> (m) -> b, where m reads a and b reads m's other member. */
static int through_group(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  cn_tensor *a = cn_exp(in[0]), *row = cn_sum(a, .dim = CN_INTS(0));
  cn_tensor *m = cn_mul(cn_relu(in[1]), row); /* relu and mul: a group of rows' shape */
  out[0] = cn_add(a, cn_sum(m));
  out[1] = cn_neg(m);
  return cn_err();
}

static void test_through_groups(void **state)
{
  (void)state;
  cn_tensor *in[] = {cn_randn(CN_SHAPE(3, 9000)), cn_randn(CN_SHAPE(9000))};
  check(through_group, 2, in, 2, 1, 5);
}

/* ---- memory order ---- */

static int turned(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  cn_tensor *x = cn_transpose(in[0], 0, 1);
  out[0] = cn_add(cn_neg(x), in[1]);      /* follows x */
  out[1] = cn_add(in[1], cn_neg(in[1]));  /* row-major */
  out[2] = cn_mul(cn_relu(cn_slice(in[0], 1, 0, 30, .step = 2)), cn_num(2)); /* of a view with gaps */
  return cn_err();
}

static void test_orders(void **state)
{
  (void)state;
  cn_tensor *in[] = {cn_randn(CN_SHAPE(300, 40)), cn_randn(CN_SHAPE(40, 300))};
  check(turned, 3, in, 2, 3, 5);
}

/* ---- types ---- */

static int types(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  cn_tensor *i = in[1], *big = cn_mul(cn_square(i), cn_square(i)); /* int32 wraps between */
  cn_tensor *small = cn_cast(cn_mul(i, cn_int(3)), CN_I8);
  cn_tensor *test = cn_logical_and(cn_gt(in[0], cn_num(0)), cn_lt(i, cn_int(50)));
  out[0] = cn_where(test, cn_mul(in[0], big), cn_cast(small, CN_F32));
  out[1] = cn_add(cn_bitwise_xor(test, in[2]), small);
  out[2] = cn_exp(cn_add(cn_cast(in[0], CN_F64), cn_cast(in[2], CN_F64)));
  out[3] = cn_neg(cn_floor_divide(cn_add(i, cn_int(1)), cn_int(3)));
  return cn_err();
}

static void test_types(void **state)
{
  (void)state;
  cn_tensor *in[] = {cn_randn(CN_SHAPE(5, 130)), cn_cast(cn_randint(-100, 100, CN_SHAPE(5, 130)), CN_I32),
                     cn_gt(cn_randn(CN_SHAPE(5, 130)), cn_num(0))};
  check(types, 4, in, 3, 3, 3);
}

static int divides(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = cn_add(cn_remainder(cn_add(in[0], cn_int(1)), in[1]), cn_int(2));
  return cn_err();
}

static void test_messages(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[] = {cn_ones(CN_SHAPE(9), .dtype = CN_I64), cn_zeros(CN_SHAPE(9), .dtype = CN_I64)}, *out = NULL;
  cn_graph *g = traced(divides, 1, in, 2);
  fuse(g, true, 1, 1);
  assert_true(cn_graph_run(&out, g, in) < 0);
  assert_string_equal(cn_err_message(), "remainder: integer division by zero");
  cn_err_clear();
  cn_graph_free(g);
  cn_scope_end(s);
}

/* ---- halves ---- */

static int halves(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  cn_tensor *y = in[0];
  for (int i = 0; i < 6; i++) y = cn_mul(cn_add(y, in[1]), cn_num(0.7));
  out[0] = cn_add(y, cn_exp(y));
  return cn_err();
}

static double distance(cn_tensor *a, cn_tensor *b)
{
  return cn_item(cn_amax(cn_abs(cn_sub(cn_cast(a, CN_F64), cn_cast(b, CN_F64)))));
}

static void test_halves(void **state)
{
  (void)state;
  static const cn_dtype types_[] = {CN_BF16, CN_F16};
  for (int i = 0; i < 2; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *in[] = {cn_cast(cn_randn(CN_SHAPE(1000)), types_[i]), cn_cast(cn_randn(CN_SHAPE(1000)), types_[i])};
    check(halves, 1, in, 2, 1, 1); /* exact */
    cn_tensor *wide[] = {cn_cast(in[0], CN_F32), cn_cast(in[1], CN_F32)}, *want, *eager, *have;
    assert_int_equal(halves(&want, wide, NULL), 0);
    assert_int_equal(halves(&eager, in, NULL), 0);
    cn_graph *g = traced(halves, 1, in, 2);
    fuse(g, false, 1, 1);
    assert_int_equal(cn_graph_run(&have, g, in), 0);
    assert_same(have, cn_cast(want, types_[i])); /* rounded once, at the end */
    assert_true(distance(have, want) < distance(eager, want));
    cn_graph_free(g);
    cn_scope_end(s);
  }
}

/* ---- many, states, nothing to do ---- */

/* More steps, readers and operands than a group has: several. */
static int many(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  cn_tensor *y = in[0];
  for (int i = 0; i < 100; i++) y = i % 3 ? cn_add(cn_mul(y, cn_num(0.5 + i)), in[1]) : cn_tanh(y);
  out[0] = y;
  return cn_err();
}

static void test_many(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[] = {cn_randn(CN_SHAPE(700)), cn_randn(CN_SHAPE(700))}, *want, *have;
  assert_int_equal(many(&want, in, NULL), 0);
  cn_graph *g = traced(many, 1, in, 2);
  int groups = cn_graph_fuse(g, true);
  assert_in_range(groups, 4, 40);
  assert_in_range(cn_graph_nodes(g), 4, 40);
  assert_int_equal(cn_graph_verify(g), 0);
  assert_int_equal(cn_graph_run(&have, g, in), 0);
  assert_same(have, want);
  cn_graph_free(g);
  cn_scope_end(s);
}

static cn_tensor *average;

static int moving(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  cn_copy_(average, cn_add(cn_mul(average, cn_num(0.9)), cn_mul(in[0], cn_num(0.1))));
  out[0] = cn_abs(cn_mul(cn_neg(in[0]), cn_num(2)));
  return cn_err();
}

/* A state that is written where it is stays apart from what is handed out, and is written where it is. */
static void test_states(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[] = {cn_randn(CN_SHAPE(50))}, *out = NULL, *want = NULL;
  average = cn_ones(CN_SHAPE(50));
  cn_graph *g = traced(moving, 1, in, 1);
  fuse(g, true, 2, 2);
  cn_tensor *start = cn_clone(average);
  for (int i = 0; i < 3; i++) assert_int_equal(cn_graph_run(&out, g, in), 0);
  cn_tensor *after = cn_clone(average);
  size_t planned;
  cn_graph_memory(g, &planned, NULL);
  assert_int_equal(planned, 0); /* neither group needs memory between nodes */
  cn_copy_(average, start);
  for (int i = 0; i < 3; i++) assert_int_equal(moving(&want, in, NULL), 0);
  assert_same(after, average);
  assert_same(out, want);
  cn_graph_free(g);
  cn_scope_end(s);
}

static int nothing(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = cn_sum(cn_exp(in[0]), .dim = CN_INTS(0));
  out[1] = cn_neg(cn_matmul(in[0], cn_transpose(in[0], 0, 1)));
  return cn_err();
}

static void test_nothing(void **state)
{
  (void)state;
  cn_tensor *in[] = {cn_randn(CN_SHAPE(5, 6))};
  check(nothing, 2, in, 1, 0, 5);
  assert_true(cn_graph_fuse(NULL, true) < 0);
  cn_err_clear();
}

/* ---- compiled functions ---- */

static int compiled_chain(cn_compile_call *k) { return chain(k->outputs, k->inputs, NULL); }

static void test_compiled(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[] = {cn_requires_grad(cn_randn(CN_SHAPE(8, 9)), true), cn_randn(CN_SHAPE(9))};
  cn_tensor *out = NULL, *want = NULL;
  cn_compiled *c = cn_compile(compiled_chain);
  cn_compile_call k = {.inputs = in, .ninputs = 2, .outputs = &out, .noutputs = 1};
  int status = cn_compiled_call(c, &k);
  if (status) print_error("%s\n", cn_err_message());
  assert_int_equal(status, 0);
  assert_int_equal(cn_backward(cn_sum(out)), 0);
  cn_tensor *grad = cn_clone(cn_grad_of(in[0]));
  cn_set_grad(in[0], NULL);
  assert_int_equal(chain(&want, in, NULL), 0);
  assert_int_equal(cn_backward(cn_sum(want)), 0);
  assert_same(out, want);
  assert_same(grad, cn_grad_of(in[0]));
  cn_compile_stats stats;
  cn_compile_stats_get(&stats, sizeof stats, c);
  assert_int_equal(stats.groups, 2); /* one of forward, one of backward */
  char *text = cn_compiled_explain(c, &k);
  assert_non_null(strstr(text, "forward: 1 nodes, 1 of them groups"));
  cn_string_free(text);
  cn_compiled_free(c);
  cn_scope_end(s);
}

static int compiled_halves(cn_compile_call *k) { return halves(k->outputs, k->inputs, NULL); }

/* CAIRN_COMPILE=exact rounds between the nodes of a group as eager does; else halves are rounded once. */
static void test_exact(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[] = {cn_cast(cn_randn(CN_SHAPE(1000)), CN_BF16), cn_cast(cn_randn(CN_SHAPE(1000)), CN_BF16)};
  cn_tensor *wide[] = {cn_cast(in[0], CN_F32), cn_cast(in[1], CN_F32)}, *eager, *once, *out[2] = {NULL, NULL};
  assert_int_equal(halves(&eager, in, NULL), 0);
  assert_int_equal(halves(&once, wide, NULL), 0);
  for (int i = 0; i < 2; i++) {
    if (i) setenv("CAIRN_COMPILE", "exact", 1);
    cn_compiled *c = cn_compile(compiled_halves);
    cn_compile_call k = {.inputs = in, .ninputs = 2, .outputs = &out[i], .noutputs = 1};
    int status = cn_compiled_call(c, &k);
    unsetenv("CAIRN_COMPILE");
    assert_int_equal(status, 0);
    cn_compiled_free(c);
  }
  assert_same(out[0], cn_cast(once, CN_BF16));
  assert_same(out[1], eager);
  assert_true(distance(out[0], out[1]) > 0);
  cn_scope_end(s);
}

/* The mirror device runs programs of the op "pointwise", too. */
/* Calls of the host keep their order: what reads the second one's result must not draw it before the first. */
static char calls[3];

static int called(cn_tensor *const *out, size_t nout, cn_tensor *const *in, size_t nin, void *name)
{
  (void)nout, (void)nin;
  strncat(calls, name, sizeof calls - 1 - strlen(calls));
  return cn_to_data(cn_data(out[0]), cn_tensor_nbytes(out[0]), in[0]);
}

static int call_between(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  static char a[] = "a", b[] = "b";
  cn_host_result r = {CN_F32, 1, {6}};
  cn_tensor *first, *second, *early = cn_mul(in[0], cn_num(2));
  out[0] = cn_cumsum(early, 0);
  if (cn_host_call(&first, &r, 1, in, 1, called, a) || cn_host_call(&second, &r, 1, in, 1, called, b)) return cn_err();
  out[1] = cn_add(early, second);
  return cn_err();
}

static void test_effects(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_randn(CN_SHAPE(6)), *out[2];
  cn_graph *g = traced(call_between, 2, &x, 1);
  assert_true(cn_graph_fuse(g, true) >= 0);
  calls[0] = 0;
  assert_int_equal(cn_graph_run(out, g, &x), 0);
  assert_string_equal(calls, "ab");
  cn_graph_free(g);
  cn_scope_end(s);
}

static void test_mirror(void **state)
{
  (void)state;
  if (cn_device_count("mirror") < 1) SKIP_TEST("no mirror device");
  cn_scope *s = cn_scope_begin();
  cn_device mirror = cn_device_find("mirror");
  cn_tensor *here[] = {cn_randn(CN_SHAPE(8, 9)), cn_randn(CN_SHAPE(9))}, *want, *have;
  cn_tensor *there[] = {cn_to_device(here[0], mirror), cn_to_device(here[1], mirror)};
  assert_int_equal(chain(&want, here, NULL), 0);
  cn_graph *g = traced(chain, 1, there, 2);
  fuse(g, true, 1, 1);
  assert_int_equal(cn_graph_run(&have, g, there), 0);
  assert_same(cn_to_device(have, CN_CPU), want);
  cn_graph_free(g);
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(test_chain, setup),          cmocka_unit_test_setup(test_branches, setup),
    cmocka_unit_test_setup(test_detours, setup),        cmocka_unit_test_setup(test_through_groups, setup),
    cmocka_unit_test_setup(test_orders, setup),         cmocka_unit_test_setup(test_types, setup),
    cmocka_unit_test_setup(test_messages, setup),       cmocka_unit_test_setup(test_halves, setup),
    cmocka_unit_test_setup(test_many, setup),           cmocka_unit_test_setup(test_states, setup),
    cmocka_unit_test_setup(test_nothing, setup),        cmocka_unit_test_setup(test_compiled, setup),
    cmocka_unit_test_setup(test_effects, setup),    cmocka_unit_test_setup(test_exact, setup),
    cmocka_unit_test_setup(test_mirror, setup),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
