/* test_lists.c: lists of tensors: made, changed, measured and joined in eager code as plain tensors would be; held by
 * graphs as they are, with members and lengths that only a run knows, with gradients, in files and compiled. */
#include <cairn/cairn.h>
#include <cairn/ext/graph.h>
#include <string.h>

#include "tensors.h"

/* To the bit, whatever their order in memory. */
static void assert_equal(cn_tensor *a, cn_tensor *b)
{
  if (!same_elements(a, b)) fail_msg("they differ; %s", cn_err_message());
}

static cn_tensor *index_of(int64_t i) { return cn_full(CN_SCALAR_SHAPE, (double)i, .dtype = CN_I64); }
static cn_tensor *sizes_of(int64_t a, int64_t b, int64_t c)
{
  const int64_t v[3] = {a, b, c};
  return cn_from_data(v, CN_SHAPE(3), CN_I64);
}

/* ---- eager ---- */

static void test_members(void **state)
{
  (void)state;
  cn_tensor *a = cn_randn(CN_SHAPE(2, 3)), *b = cn_randn(CN_SHAPE(1, 5)), *c = cn_randn(CN_SHAPE(0, 4));
  cn_list l, m;
  assert_int_equal(cn_list_make(&l, CN_TENSORS(a, b)), 0);
  assert_int_equal(cn_list_insert(&l, &l, c, NULL), 0);
  assert_int_equal(cn_item_int(cn_list_length(&l)), 3);
  assert_equal(cn_list_at(&l, index_of(0), NULL), a);
  assert_equal(cn_list_at(&l, index_of(-2), NULL), b);
  assert_equal(cn_list_at(&l, index_of(2), (const int64_t[]){-1, 4}), c);
  assert_int_equal(cn_list_insert(&m, &l, b, index_of(1)), 0); /* a b b c */
  assert_int_equal(cn_list_erase(&m, &m, index_of(0)), 0);     /* b b c */
  assert_int_equal(cn_list_erase(&m, &m, NULL), 0);            /* b b */
  assert_int_equal(cn_item_int(cn_list_length(&m)), 2);
  assert_equal(cn_list_concat(&m, 1, NULL), cn_cat(CN_TENSORS(b, b), .dim = 1));
  assert_equal(cn_list_stack(&m, -1, NULL), cn_stack(CN_TENSORS(b, b), .dim = -1));
  const int64_t order[3] = {2, 0, -3};
  assert_int_equal(cn_list_take(&m, &l, cn_from_data(order, CN_SHAPE(3), CN_I64)), 0);
  assert_equal(cn_list_at(&m, index_of(0), NULL), c);
  assert_equal(cn_list_at(&m, index_of(2), NULL), a);
  assert_int_equal(cn_list_empty(&m, CN_F32, 2, CN_CPU), 0);
  assert_int_equal(cn_item_int(cn_list_length(&m)), 0);
  assert_int_equal(cn_list_insert(&m, &m, a, index_of(0)), 0);
  assert_equal(cn_list_at(&m, index_of(0), NULL), a);
}

static void test_pieces(void **state)
{
  (void)state;
  cn_tensor *x = cn_randn(CN_SHAPE(3, 6, 2)), *sizes = sizes_of(1, 3, 2);
  cn_list l;
  for (int dim = 0; dim < 3; dim++) {
    cn_tensor *y = cn_transpose(x, 1, dim); /* 6 along dim */
    assert_int_equal(cn_list_split(&l, y, sizes, dim, true), 0);
    for (int64_t i = 0, at = 0; i < 3; at += (const int64_t[]){1, 3, 2}[i++])
      assert_equal(cn_list_at(&l, index_of(i), NULL), cn_narrow(y, dim, at, (const int64_t[]){1, 3, 2}[i]));
    assert_equal(cn_list_concat(&l, dim, NULL), y);
    assert_equal(cn_list_concat(&l, dim - 3, cn_shape(y)), y);
  }
  assert_int_equal(cn_list_split(&l, x, sizes_of(1, 1, 1), 0, false), 0);
  assert_equal(cn_list_at(&l, index_of(1), NULL), cn_select(x, 0, 1));
  assert_equal(cn_list_stack(&l, 0, NULL), x);
  assert_int_equal(cn_list_rows(&l, x), 0);
  assert_equal(cn_list_at(&l, index_of(2), NULL), cn_select(x, 0, 2));
  assert_equal(cn_list_stack(&l, 1, NULL), cn_transpose(x, 0, 1));
}

static void test_refusals(void **state)
{
  (void)state;
  cn_tensor *a = cn_ones(CN_SHAPE(2, 3)), *b = cn_ones(CN_SHAPE(1, 5)), *c = cn_ones(CN_SHAPE(2));
  cn_list l, m;
  assert_true(cn_list_make(&l, CN_TENSORS(a, c)) < 0);
  assert_fails(CN_ERR_DTYPE, "one number of dimensions");
  assert_int_equal(cn_list_make(&l, CN_TENSORS(a, b)), 0);
  assert_true(cn_list_insert(&m, &l, c, NULL) < 0);
  assert_fails(CN_ERR_DTYPE, "2 dimensions");
  assert_null(cn_list_at(&l, index_of(2), NULL));
  assert_fails(CN_ERR_VALUE, "not in the list");
  assert_null(cn_list_concat(&l, 0, NULL));
  assert_fails(CN_ERR_VALUE, "differ in size");
  assert_null(cn_list_stack(&l, 0, NULL));
  assert_fails(CN_ERR_VALUE, "differ in size");
  assert_null(cn_list_at(&l, index_of(0), (const int64_t[]){2, 2}));
  assert_fails(CN_ERR_VALUE, "shape that was said");
  assert_true(cn_list_split(&l, a, sizes_of(1, 1, 2), 1, true) < 0);
  cn_err_clear();
  assert_int_equal(cn_list_empty(&m, CN_F32, 2, CN_CPU), 0);
  assert_null(cn_list_concat(&m, 0, NULL));
  assert_fails(CN_ERR_SHAPE, "empty");
  assert_true(cn_list_erase(&m, &m, NULL) < 0);
  assert_fails(CN_ERR_INDEX, "empty");
}

/* ---- in graphs ---- */

/* in: x (6, 3), sizes (3), i (). Pieces of x with one more member at i, of which one is looked at, and all are joined:
 * a scaled copy of x, of a length that is known, and a member of a size that is not. */
static int pieces_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_list l;
  (void)payload;
  if (cn_list_split(&l, in[0], in[1], 0, true)) return cn_err();
  if (cn_list_insert(&l, &l, cn_mul(cn_narrow(in[0], 0, 0, 2), cn_num(10)), in[2])) return cn_err();
  cn_tensor *member = cn_list_at(&l, in[2], (const int64_t[]){-1, 3});
  out[0] = cn_list_concat(&l, 0, (const int64_t[]){-1, 3});
  out[1] = cn_exp(cn_list_at(&l, cn_add(in[2], cn_int(1)), NULL));
  out[2] = cn_add(cn_list_length(&l), cn_sum(cn_cast(member, CN_I64)));
  if (cn_list_erase(&l, &l, in[2])) return cn_err();
  out[3] = cn_list_concat(&l, 0, (const int64_t[]){-1, 3});
  return cn_err();
}

static void same_at(cn_graph *g, cn_tensor *const *in, int how)
{
  cn_tensor *have[4], *want[4];
  if (pieces_fn(want, in, NULL)) fail_msg("%s", cn_err_message());
  int status = how ? cn_graph_replay(have, g, in) : cn_graph_run(have, g, in);
  if (status) fail_msg("%s", cn_err_message());
  for (int i = 0; i < 4; i++) assert_equal(have[i], want[i]);
}

static void test_graph(void **state)
{
  (void)state;
  const char *path = "test_lists.safetensors";
  cn_tensor *in[3] = {cn_randn(CN_SHAPE(6, 3)), sizes_of(2, 3, 1), index_of(1)};
  cn_graph *g = cn_trace(pieces_fn, 4, in, 3, NULL);
  if (!g) fail_msg("%s", cn_err_message());
  assert_int_equal(cn_graph_save(g, path), 0);
  cn_graph *loaded = cn_graph_load(path);
  if (!loaded) fail_msg("%s", cn_err_message());
  for (int i = 0; i < 6; i++) {
    in[0] = cn_randn(CN_SHAPE(6, 3));
    in[1] = i % 2 ? sizes_of(2, 3, 1) : sizes_of(4, 1, 1);
    in[2] = index_of(i % 3);
    same_at(g, in, 0);
    same_at(g, in, 1);
    same_at(loaded, in, 0);
  }
  in[2] = index_of(7);
  cn_tensor *out[4];
  assert_true(cn_graph_run(out, g, in) < 0);
  assert_fails(CN_ERR_VALUE, "not in the list");
  cn_graph_free(loaded);
  cn_graph_free(g);
  cn_file_remove(path);
}

/* Gradients go through a list, compiled as in eager code. */
static int weighted_fn(cn_compile_call *k)
{
  cn_list l;
  if (cn_list_split(&l, k->inputs[0], k->inputs[1], 0, true)) return cn_err();
  cn_tensor *member = cn_list_at(&l, k->inputs[2], (const int64_t[]){-1, 3});
  if (!member || cn_list_insert(&l, &l, cn_square(member), NULL)) return cn_err();
  k->outputs[0] = cn_mul(cn_list_concat(&l, 0, (const int64_t[]){-1, 3}), cn_num(3));
  k->noutputs = 1;
  return cn_err();
}

static void test_compiled(void **state)
{
  (void)state;
  cn_compiled *c = cn_compile(weighted_fn, .fullgraph = true);
  cn_compile_stats stats;
  for (int i = 0; i < 6; i++) {
    cn_tensor *data = cn_randn(CN_SHAPE(6, 3)), *grad[2], *made[2];
    for (int turn = 0; turn < 2; turn++) {
      cn_tensor *in[3] = {cn_requires_grad(cn_clone(data), true), i % 2 ? sizes_of(2, 3, 1) : sizes_of(4, 1, 1),
                          index_of(i % 3)};
      cn_compile_call k = {.inputs = in, .ninputs = 3, .outputs = &made[turn], .noutputs = 1};
      if (turn ? cn_compiled_call(c, &k) : weighted_fn(&k)) fail_msg("%s", cn_err_message());
      if (cn_backward(cn_sum(cn_square(made[turn])))) fail_msg("%s", cn_err_message());
      grad[turn] = cn_grad_of(in[0]);
    }
    assert_equal(made[1], made[0]);
    assert_equal(grad[1], grad[0]);
  }
  cn_compile_stats_get(&stats, sizeof stats, c);
  assert_int_equal(stats.executables, 1);
  assert_int_equal(stats.runs, 6);
  cn_compiled_free(c);
}

/* ---- what a loop appended ---- */

static int below(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)nin, (void)payload;
  out[0] = cn_lt(cn_sum(in[0]), cn_num(100));
  *nout = 1;
  return cn_err();
}

/* Appends what it carries to a buffer: x, how many there are, and rows (12, 3). */
static int append(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  cn_tensor *here = cn_eq(cn_reshape(cn_arange(0, 12, .dtype = CN_I64), CN_SHAPE(12, 1)), in[1]);
  (void)nin, (void)payload;
  out[0] = cn_mul(in[0], cn_num(2));
  out[1] = cn_add(in[1], cn_int(1));
  out[2] = cn_where(here, in[0], in[2]);
  *nout = 3;
  return cn_err();
}

/* A list of as many members as the loop took steps. */
static int loop_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_list l;
  cn_tensor *carried[3] = {in[0], cn_zeros(CN_SCALAR_SHAPE, .dtype = CN_I64), cn_zeros(CN_SHAPE(12, 3))}, *last[3];
  (void)payload;
  if (cn_while(last, carried, 3, below, append, NULL, .max_steps = 12)) return cn_err();
  cn_tensor *steps = cn_repeat_interleave_indices(cn_reshape(last[1], CN_SHAPE(1)), CN_NONE); /* as many */
  if (!steps || cn_list_rows(&l, last[2])) return cn_err();
  if (cn_list_take(&l, &l, cn_arange(0, (double)cn_size(steps, 0), .dtype = CN_I64))) return cn_err();
  out[0] = cn_list_length(&l);
  out[1] = cn_list_stack(&l, 0, (const int64_t[]){3});
  return cn_err();
}

static void test_loops(void **state)
{
  (void)state;
  cn_tensor *x = cn_ones(CN_SHAPE(3)), *have[2], *want[2];
  cn_graph *g = cn_trace(loop_fn, 2, &x, 1, NULL);
  if (!g) fail_msg("%s", cn_err_message());
  for (int i = 0; i < 4; i++) {
    x = cn_full(CN_SHAPE(3), 1 + 3 * i);
    if (cn_graph_run(have, g, &x) || loop_fn(want, &x, NULL)) fail_msg("%s", cn_err_message());
    for (int k = 0; k < 2; k++) assert_equal(have[k], want[k]);
  }
  cn_graph_free(g);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, clear_errors, NULL)

int main(void)
{
  const struct CMUnitTest tests[] = {TEST(test_members), TEST(test_pieces),   TEST(test_refusals),
                                     TEST(test_graph),   TEST(test_compiled), TEST(test_loops)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
