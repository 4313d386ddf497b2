/* test_control.c: branches and loops are in graphs what they are in eager code: values, gradients, random numbers; and
 * what cannot be captured is refused. */
#include <string.h>

#include "control_cases.h"

/* ---- cond ---- */

static void test_cond(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *w = cn_full(CN_SHAPE(3), 5), *x = cn_ones(CN_SHAPE(3)), *y = cn_neg(x);
  both(choose, 2, &x, 1, w);
  both(choose, 2, &y, 1, w);
  cn_graph *g = cn_trace(choose, 2, &x, 1, w);
  cn_tensor *out[2];
  ok(cn_graph_run(out, g, &y)); /* the same graph takes the other branch */
  assert_same(out[0], cn_add(cn_sin(y), w));
  ok(cn_graph_run(out, g, &x));
  assert_same(out[0], cn_full(CN_SHAPE(3), 2));
  cn_graph_free(g);
  cn_scope_end(s);
}

/* w is an input of the traced function, and comes to the branch from outside. */
static int choose_with(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  size_t n = 2;
  return cn_cond(out, &n, cn_gt(cn_sum(in[0]), cn_num(0)), in, 1, twice, plus, in[1]);
}

static void test_gradients_of_cond(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x[2] = {cn_linspace(-1, 2, 3), cn_full(CN_SHAPE(3), 5)}, *y[2] = {cn_neg(x[0]), x[1]};
  both_gradients(choose_with, 2, x, 2, NULL);
  both_gradients(choose_with, 2, y, 2, NULL);
  cn_scope_end(s);
}

/* ---- scan ---- */

static void test_scan(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  operands o = operands_of_cases();
  cn_tensor **in = o.cell;
  scanned plain = {false, 0}, back = {true, 0}, columns = {false, 1}, last = {true, -1};
  both(recurrent, 2, in, 4, &plain);
  both(recurrent, 2, in, 4, &back);
  both_gradients(recurrent, 2, in, 4, &plain);
  both_gradients(recurrent, 2, in, 4, &back);
  both(recurrent, 2, o.across, 4, &columns);
  both_gradients(recurrent, 2, o.across, 4, &last);
  cn_tensor *a[2], *b[2];
  ok(recurrent(a, in, &plain));
  ok(recurrent(b, o.across, &columns));
  assert_same(a[0], b[0]);
  assert_same(a[1], cn_t(b[1]));
  both(recurrent, 2, o.none, 4, &plain);
  ok(recurrent(a, o.none, &plain));
  assert_same(a[0], in[0]);
  assert_int_equal(cn_size(a[1], 0), 0);
  both_gradients(recurrent, 2, o.none, 4, &plain);
  cn_scope_end(s);
}

/* Two layers, a scan in a scan: the inner one goes along the rows that the outer one made. */
static int outer_step(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  size_t n = 1;
  (void)nin;
  *nout = 2;
  return cn_scan(&out[0], &out[1], &n, &in[0], 1, &in[1], 1, step, payload);
}

/* in: h (H), xs (S, T, X), w, u */
static int nested(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cell c = {in[2], in[3]};
  size_t n = 1;
  (void)payload;
  return cn_scan(&out[0], &out[1], &n, &in[0], 1, &in[1], 1, outer_step, &c);
}

static void test_nested(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_seed(4);
  cn_tensor *in[4] = {cn_randn(CN_SHAPE(4)), cn_randn(CN_SHAPE(2, 5, 3)), cn_randn(CN_SHAPE(4, 3)),
                      cn_randn(CN_SHAPE(4, 4))};
  both(nested, 2, in, 4, NULL);
  differentiated d = {nested, NULL, 4, 2};
  cn_tensor *want[4], *have[4];
  cn_graph *g = cn_trace(gradients, 4, in, 4, &d); /* sums over both loops are added in another order than eager's */
  if (!g) fail_msg("%s", cn_err_message());
  ok(gradients(want, in, &d));
  ok(cn_graph_run(have, g, in));
  for (int i = 0; i < 4; i++) assert_true(cn_item(cn_max(cn_abs(cn_sub(want[i], have[i])))) < 2e-5);
  cn_graph_free(g);
  cn_tensor *rows[4] = {in[0], cn_randn(CN_SHAPE(6, 3)), in[2], in[3]};
  both(branches, 2, rows, 4, NULL);
  both_gradients(branches, 2, rows, 4, NULL);
  cn_scope_end(s);
}

/* ---- map ---- */

static void test_map(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  operands o = operands_of_cases();
  cn_tensor **in = o.rows, *out[2];
  both(mapped, 2, in, 3, NULL);
  both_gradients(mapped, 2, in, 3, NULL);
  ok(mapped(out, in, NULL));
  assert_int_equal(cn_ndim(out[1]), 1);
  cn_tensor *none[3] = {cn_zeros(CN_SHAPE(0, 3)), cn_zeros(CN_SHAPE(0, 3)), in[2]};
  both(mapped, 2, none, 3, NULL);
  cn_scope_end(s);
}

/* ---- while ---- */

static void test_while(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  int64_t no_bound = 0, many = 10, few = 2, one = 1;
  operands o = operands_of_cases();
  cn_tensor *x = o.pair[0], *w = o.pair[1], *out[2];
  cn_tensor *in[3] = {cn_zeros(NULL, 0, .dtype = CN_I64), x, w};
  cn_tensor *far[3] = {in[0], cn_full(CN_SHAPE(3), 30), w};
  int64_t *bounds[] = {&no_bound, &many, &few, &one};
  for (int i = 0; i < 4; i++) {
    both(growing, 2, in, 3, bounds[i]);
    both(growing, 2, far, 3, bounds[i]); /* no step at all */
    if (i) both_gradients(grown, 1, o.pair, 2, bounds[i]);
    if (i) both_gradients(grown, 1, far + 1, 2, bounds[i]);
  }
  ok(growing(out, in, &no_bound));
  assert_int_equal(cn_item_int(out[0]), 5);
  ok(growing(out, in, &few));
  assert_int_equal(cn_item_int(out[0]), 2);
  differentiated d = {grown, &no_bound, 2, 1};
  ok(gradients(out, o.pair, &d)); /* eager code needs no bound */
  assert_null(cn_trace(gradients, 2, o.pair, 2, &d));
  assert_int_equal(cn_err(), CN_ERR_CAPTURE);
  assert_non_null(strstr(cn_err_message(), "max_steps"));
  cn_err_clear();
  cn_scope_end(s);
}

/* ---- random numbers ---- */

static int block(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  size_t n = 2;
  return noisy(out, &n, in, 2, payload);
}

/* The step is computed again in backward, with the same mask. */
static int checkpointed_step(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  *nout = 2;
  return cn_checkpoint(out, 2, block, in, nin, payload);
}

static void test_random(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  operands o = operands_of_cases();
  cn_tensor **in = o.noises, *out[3];
  cn_control_fn plain = noisy, again = checkpointed_step;
  both(noise, 3, in, 2, &plain);
  both_gradients(noise, 3, in, 2, &plain);
  both_gradients(noise, 3, in, 2, &again);
  cn_graph *g = cn_trace(noise, 3, in, 2, &plain);
  ok(cn_graph_run(out, g, in));
  assert_true(cn_item(cn_all(cn_eq(cn_select(out[1], 0, 0), cn_select(out[1], 0, 1)))) == 0);
  cn_graph_free(g);
  cn_scope_end(s);
}

static int draws(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)nin, (void)payload;
  out[0] = cn_add(in[0], cn_int(1));
  out[1] = cn_rand_like(in[1]);
  *nout = 2;
  return cn_err();
}

static int drawing_loop(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  return cn_while(out, in, 2, small, draws, NULL, .max_steps = *(int64_t *)payload);
}

static void test_random_in_while(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  int64_t none = 0, three = 3;
  cn_tensor *in[2] = {cn_zeros(NULL, 0, .dtype = CN_I64), cn_ones(CN_SHAPE(4))};
  both(drawing_loop, 2, in, 2, &three);
  assert_null(cn_trace(drawing_loop, 2, in, 2, &none));
  assert_non_null(strstr(cn_err_message(), "max_steps"));
  cn_err_clear();
  cn_scope_end(s);
}

/* ---- what cannot be captured, and mistakes ---- */

static int more_rows(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)nin, (void)payload;
  out[0] = cn_cat(CN_TENSORS(in[0], in[0]), 0);
  out[1] = in[0];
  *nout = 2;
  return cn_err();
}

static int one_result(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)nin, (void)payload;
  out[0] = in[0];
  *nout = 1;
  return cn_err();
}

static cn_tensor *outside;
static int goes_backward(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *w)
{
  (void)w;
  int status = plus(out, nout, in, nin, outside);
  return status ? status : cn_backward(cn_sum(out[0]));
}

static cn_tensor *kept_outside;
static int keeps(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *w)
{
  int status = plus(out, nout, in, nin, w);
  cn_set(&kept_outside, out[0]);
  return status;
}

static int choose_between(cn_tensor **out, cn_tensor *const *in, void *fn)
{
  size_t n = 2;
  return cn_cond(out, &n, cn_gt(cn_sum(in[0]), cn_num(0)), in, 1, twice, *(cn_control_fn *)fn, in[1]);
}

static void refused(cn_graph_fn fn, cn_tensor *const *in, size_t nin, void *payload, int code, const char *why)
{
  cn_graph *g = cn_trace(fn, 2, in, nin, payload);
  if (g) fail_msg("it was captured, and not refused: %s", why);
  if (cn_err() != code || !strstr(cn_err_message(), why)) fail_msg("%d: %s", cn_err(), cn_err_message());
  cn_err_clear();
}

static int scan_with(cn_tensor **out, cn_tensor *const *in, void *fn)
{
  size_t n = 1;
  return cn_scan(&out[0], &out[1], &n, in, 1, in + 1, 1, *(cn_control_fn *)fn, in[0]);
}

static void test_refusals(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[2] = {cn_ones(CN_SHAPE(3)), cn_ones(CN_SHAPE(3))}, *out[2];
  outside = cn_requires_grad(cn_ones(CN_SHAPE(3)), true);
  cn_tensor *rows[2] = {cn_ones(CN_SHAPE(3)), cn_ones(CN_SHAPE(2, 3))};
  cn_control_fn grows = more_rows, alone = one_result, back = goes_backward, keeping = keeps;
  refused(choose_between, in, 2, &grows, CN_ERR_SHAPE, "result 0");
  refused(choose_between, in, 2, &alone, CN_ERR_VALUE, "true_fn gives 2 results, false_fn 1");
  refused(choose_between, in, 2, &back, CN_ERR_CAPTURE, "cn_grad");
  refused(choose_between, in, 2, &keeping, CN_ERR_CAPTURE, "is kept outside");
  cn_release(kept_outside);
  kept_outside = NULL;
  refused(scan_with, rows, 2, &grows, CN_ERR_SHAPE, "carried value 0 is float32 (3,)");
  assert_int_equal(scan_with(out, rows, &grows), CN_ERR_SHAPE);
  assert_non_null(strstr(cn_err_message(), "carried value 0 is float32 (3,)"));
  cn_err_clear();
  size_t n = 2;
  cn_tensor *vector = cn_ones(CN_SHAPE(2));
  assert_int_equal(cn_cond(out, &n, vector, in, 1, twice, plus, in[1]), CN_ERR_SHAPE);
  cn_err_clear();
  assert_int_equal(cn_map(out, &n, rows, 2, per_row, NULL), CN_ERR_SHAPE); /* 3 rows and 2 */
  cn_err_clear();
  cn_scope_end(s);
}

/* A number decides at once: one branch alone is in the graph. */
static int chosen(cn_tensor **out, cn_tensor *const *in, void *w)
{
  size_t n = 2;
  return cn_cond(out, &n, cn_int(1), in, 1, twice, plus, w);
}

static void test_a_number_decides(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(3));
  cn_graph *g = cn_trace(chosen, 2, &x, 1, x);
  char *text = cn_graph_to_string(g);
  assert_null(strstr(text, "cond"));
  cn_string_free(text);
  cn_graph_free(g);
  cn_scope_end(s);
}

/* What would be kept for a backward pass is not, where none comes. */
static int forward_only(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  scanned plain = {false, 0};
  (void)payload;
  cn_tensor *x[4], *both_of[2];
  for (int i = 0; i < 4; i++) x[i] = cn_requires_grad(cn_detach(in[i]), true);
  int status = recurrent(both_of, x, &plain);
  out[0] = both_of[0]; /* the last state; nobody reads the rows */
  return status;
}

static void test_what_nobody_reads_goes(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  operands o = operands_of_cases();
  cn_tensor **in = o.cell;
  both(forward_only, 1, in, 4, NULL);
  cn_graph *g = cn_trace(forward_only, 1, in, 4, NULL);
  char *text = cn_graph_to_string(g);
  assert_non_null(strstr(text, "5, false, false) : float32 [4] "));
  assert_null(strstr(text, "= mul("));
  cn_string_free(text);
  cn_graph_free(g);
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_cond),
    cmocka_unit_test(test_gradients_of_cond),
    cmocka_unit_test(test_scan),
    cmocka_unit_test(test_nested),
    cmocka_unit_test(test_map),
    cmocka_unit_test(test_while),
    cmocka_unit_test(test_random),
    cmocka_unit_test(test_random_in_while),
    cmocka_unit_test(test_refusals),
    cmocka_unit_test(test_a_number_decides),
    cmocka_unit_test(test_what_nobody_reads_goes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
