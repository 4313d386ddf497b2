/* test_sizes.c: graphs for many sizes: numbers that follow from sizes in odd ways are found, checked and written, and
 * what cannot be found is refused. */
#include <cairn/cairn.h>
#include <cairn/ext/graph.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tensors.h"

/* ---- one dimension ---- */

/* What each function makes of x: (T). */
static int64_t half_up(int64_t t) { return (t + 1) / 2; }
static int64_t steps(int64_t t) { return (t - 1) / 2 * 3 + 1; }
static int64_t at_most_5(int64_t t) { return t < 5 ? t : 5; }
static int64_t less_3(int64_t t) { return t - 3 > 1 ? t - 3 : 1; }
static int64_t thirds_up(int64_t t) { return (t + 2) / 3; }
static int64_t padded(int64_t t) { return (t + 7) / 8 * 8; }
static int64_t missing(int64_t t) { return (8 - t % 8) % 8; }
static int64_t windows(int64_t t) { return t < 400 ? 0 : (t - 400) / 160 + 1; }
static int64_t square(int64_t t) { return t * t; }
static int64_t triangle(int64_t t) { return t * (t + 1) / 2; }
static int64_t clamped(int64_t t) { return t < 4 ? 4 : t > 16 ? 16 : t; }
static int64_t sevenths(int64_t t) { return (5 * t + 3) / 7; }
static int64_t two_strides(int64_t t) { return ((t - 1) / 2 + 1 + 2 - 3) / 2 + 1; }
static int64_t modulo(int64_t t) { return t % 3; }
static int64_t halves_and_thirds(int64_t t) { return t / 2 + t / 3; }

static int length_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  int64_t (*f)(int64_t) = *(int64_t (**)(int64_t))payload;
  int64_t n = f(cn_size(in[0], 0));
  out[0] = cn_full(&n, 1, 2.0);
  out[1] = cn_mul(in[0], cn_int(n));
  return cn_err();
}

static void check_length(const char *name, int64_t (*f)(int64_t), int64_t min)
{
  cn_scope *scope = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(min > 8 ? min : 8)), *out[2];
  cn_free_dim dim = {.input = 0, .dim = 0, .symbol = "T", .min = min};
  cn_graph *g = cn_trace_dynamic(length_fn, 2, &x, 1, &dim, 1, &f);
  if (!g) fail_msg("%s: %s", name, cn_err_message());
  for (int64_t t = min; t < min + 60; t++) {
    x = cn_ones(CN_SHAPE(t));
    if (cn_graph_run(out, g, &x)) fail_msg("%s at %d: %s", name, (int)t, cn_err_message());
    if (cn_size(out[0], 0) != f(t)) fail_msg("%s at %d: %d", name, (int)t, (int)cn_size(out[0], 0));
    assert_true(cn_item(cn_select(out[1], 0, 0)) == (double)f(t));
  }
  cn_graph_free(g);
  cn_scope_end(scope);
}

static void test_lengths(void **state)
{
  (void)state;
  check_length("(T + 1) / 2", half_up, 1);
  check_length("(T - 1) / 2 * 3 + 1", steps, 1);
  check_length("min(T, 5)", at_most_5, 1);
  check_length("max(T - 3, 1)", less_3, 1);
  check_length("(T + 2) / 3", thirds_up, 1);
  check_length("multiple of 8", padded, 1);
  check_length("up to a multiple of 8", missing, 1);
  check_length("windows", windows, 400);
  check_length("T * T", square, 1);
  check_length("T (T + 1) / 2", triangle, 1);
  check_length("T within 4 and 16", clamped, 1);
  check_length("(5 T + 3) / 7", sevenths, 1);
  check_length("two strides", two_strides, 1);
  check_length("T % 3", modulo, 1);
  check_length("T / 2 + T / 3", halves_and_thirds, 1);
}

/* The finding: traced at 8 and 16 this was T / 2. */
static int half_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = cn_slice(in[0], 0, 0, (cn_size(in[0], 0) + 1) / 2);
  return cn_err();
}

static void test_half_of_nine(void **state)
{
  (void)state;
  cn_tensor *in[2] = {cn_ones(CN_SHAPE(8)), cn_ones(CN_SHAPE(16))}, *nine = cn_ones(CN_SHAPE(9)), *out;
  cn_graph *g = cn_trace_sizes(half_fn, 1, in, 1, 2, NULL);
  assert_non_null(g);
  assert_int_equal(cn_graph_run(&out, g, &nine), 0);
  assert_int_equal(cn_size(out, 0), 5);
  char *text = cn_graph_to_string(g);
  assert_non_null(strstr(text, "$((s0 + 1) // 2)"));
  cn_string_free(text);
  cn_graph_free(g);
}

/* ---- contiguous, of what is so at some sizes ---- */

static bool has_node(const cn_graph *g, const char *op)
{
  bool found = false;
  cn_graph_node n = {.size = sizeof n};
  for (int i = 0; i < (int)cn_graph_nodes(g) && !found; i++)
    found = !cn_graph_node_at(&n, g, i) && !strcmp(n.name, op);
  return found;
}

/* As it is (payload NULL), the first rows turned, or at most 40 of its columns. */
static int contiguous_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  const char *how = payload;
  int64_t t = cn_size(in[0], 1);
  cn_tensor *x = cn_relu(in[0]);
  if (how && *how == 't') x = cn_transpose(x, 0, 1);
  else if (how) x = cn_slice(x, 1, 0, t < 40 ? t : 40);
  out[0] = cn_add(cn_contiguous(x), cn_num(1));
  return cn_err();
}

static void check_contiguous(char *how, bool node)
{
  cn_scope *scope = cn_scope_begin();
  cn_tensor *x = cn_randn(CN_SHAPE(3, 8)), *want, *have;
  cn_free_dim dim = {.input = 0, .dim = 1, .symbol = "T", .min = 1, .max = 100};
  cn_graph *g = cn_trace_dynamic(contiguous_fn, 1, &x, 1, &dim, 1, how);
  if (!g) fail_msg("%s: %s", how ? how : "plain", cn_err_message());
  assert_int_equal(has_node(g, "contiguous"), node);
  for (int64_t t = 1; t <= 100; t += t < 42 ? 1 : 29) {
    x = cn_randn(CN_SHAPE(3, t));
    assert_int_equal(contiguous_fn(&want, &x, how), 0);
    assert_int_equal(cn_graph_run(&have, g, &x), 0);
    assert_same(have, want);
  }
  cn_graph_free(g);
  cn_scope_end(scope);
}

static void test_contiguous(void **state)
{
  (void)state;
  check_contiguous(NULL, false);   /* at every size: as in eager code there is nothing to do */
  check_contiguous("turned", true); /* of one column it would be, too: that is no reason to leave that size out */
  check_contiguous("slice", true); /* up to 40 */
}

/* ---- several dimensions ---- */

static int two_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  int64_t t = cn_size(in[0], 0), u = cn_size(in[1], 0); /* x: (T, 3), y: (U) */
  (void)payload;
  int64_t half[1] = {t * u / 2}, both[1] = {t + u}, all[2] = {u, t * 3};
  out[0] = cn_full(half, 1, 1.0);
  out[1] = cn_cat(CN_TENSORS(cn_sum(in[0], .dim = CN_INTS(1)), in[1]), .dim = 0);
  out[2] = cn_expand(cn_reshape(in[0], CN_SHAPE(1, t * 3)), all, 2);
  out[3] = cn_arange(0, (double)both[0]);
  out[4] = cn_full(CN_SHAPE((t + u - 1) / u), 1.0);
  out[5] = cn_mul(cn_mean(in[0]), cn_num(1.0 / (double)(t * u)));
  out[6] = cn_full(CN_SHAPE(t < u ? t : u), 1.0);
  out[7] = cn_var(in[0], .dim = CN_INTS(0), .correction = 0);
  return cn_err();
}

static void test_two_sizes(void **state)
{
  (void)state;
  enum { N = 8 };
  cn_tensor *in[2] = {cn_ones(CN_SHAPE(4, 3)), cn_ones(CN_SHAPE(4))}, *want[N], *have[N];
  const cn_free_dim dims[2] = {{0, 0, "T", 1, 0}, {1, 0, "U", 1, 0}};
  cn_graph *g = cn_trace_dynamic(two_fn, N, in, 2, dims, 2, NULL);
  if (!g) fail_msg("%s", cn_err_message());
  for (int64_t t = 1; t < 12; t++)
    for (int64_t u = 1; u < 12; u += 3) {
      cn_scope *scope = cn_scope_begin();
      in[0] = cn_reshape(cn_arange(0, (double)(3 * t), .dtype = CN_F32), CN_SHAPE(t, 3));
      in[1] = cn_arange(0, (double)u, .dtype = CN_F32);
      assert_int_equal(two_fn(want, in, NULL), 0);
      if (cn_graph_run(have, g, in)) fail_msg("%d, %d: %s", (int)t, (int)u, cn_err_message());
      for (int i = 0; i < N; i++)
        if (!same_elements(want[i], have[i])) fail_msg("output %d differs at %d, %d", i, (int)t, (int)u);
      cn_scope_end(scope);
    }
  cn_graph_free(g);
}

static int convs_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor **w = payload, *x = in[0]; /* x: (B, 2, T) */
  for (int i = 0; i < 4; i++)
    x = cn_relu(cn_conv1d(x, w[i], NULL, .stride = CN_INTS(1 + i % 3), .padding = CN_INTS(i % 2)));
  out[0] = cn_reshape(x, CN_SHAPE(cn_size(x, 0), cn_size(x, 1) * cn_size(x, 2)));
  out[1] = cn_reshape(x, CN_SHAPE(cn_size(x, 0) * cn_size(x, 2), cn_size(x, 1)));
  return cn_err();
}

static void test_strided_convolutions(void **state)
{
  (void)state;
  cn_tensor *w[4], *x = cn_ones(CN_SHAPE(2, 2, 64)), *want[2], *have[2];
  for (int i = 0; i < 4; i++) w[i] = cn_randn(CN_SHAPE(2, 2, 3));
  const cn_free_dim dims[2] = {{0, 0, "B", 0, 0}, {0, 2, "T", 0, 0}};
  cn_graph *g = cn_trace_dynamic(convs_fn, 2, &x, 1, dims, 2, w);
  if (!g) fail_msg("%s", cn_err_message());
  for (int64_t t = 17; t < 60; t++) {
    cn_scope *scope = cn_scope_begin();
    x = cn_randn(CN_SHAPE(1 + t % 3, 2, t));
    assert_int_equal(convs_fn(want, &x, w), 0);
    if (cn_graph_run(have, g, &x)) fail_msg("%d: %s", (int)t, cn_err_message());
    assert_true(same_elements(want[0], have[0]) && same_tensors(want[1], have[1]));
    cn_scope_end(scope);
  }
  x = cn_ones(CN_SHAPE(2, 2, 5)); /* too short for the convolutions: so says the range that was found */
  assert_true(cn_graph_run(have, g, &x) < 0);
  assert_fails(CN_ERR_SHAPE, "size T is 5");
  cn_graph_free(g);
}

/* ---- ranges and refusals ---- */

static int table_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  int64_t t = cn_size(in[0], 0); /* x: (T, 4); table: (64, 4) */
  if (t > 64) return cn_err_set(CN_ERR_SHAPE, "the table has 64 rows");
  out[0] = cn_add(in[0], cn_slice(payload, 0, 0, t));
  return cn_err();
}

static void test_range_is_found(void **state)
{
  (void)state;
  cn_tensor *table = cn_randn(CN_SHAPE(64, 4)), *out;
  for (int64_t example = 16; example <= 64; example += 48) {
    cn_tensor *x = cn_ones(CN_SHAPE(example, 4)), *most = cn_ones(CN_SHAPE(64, 4)), *more = cn_ones(CN_SHAPE(65, 4));
    cn_free_dim dim = {0, 0, "T", 0, 0};
    cn_graph *g = cn_trace_dynamic(table_fn, 1, &x, 1, &dim, 1, table);
    if (!g) fail_msg("%s", cn_err_message());
    assert_int_equal(cn_graph_run(&out, g, &most), 0);
    assert_true(cn_graph_run(&out, g, &more) < 0);
    assert_fails(CN_ERR_SHAPE, "1 to 64");
    cn_graph_free(g);
    dim.max = 100; /* what is asked for must hold */
    assert_null(cn_trace_dynamic(table_fn, 1, &x, 1, &dim, 1, table));
    assert_fails(CN_ERR_SHAPE, "64 rows");
  }
}

static int loop_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = in[0];
  for (int64_t i = 0; i < cn_size(in[0], 0); i++) out[0] = cn_exp(out[0]);
  return cn_err();
}
static int odd_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  uint64_t n = (uint64_t)cn_size(in[0], 0);
  (void)payload;
  out[0] = cn_slice(in[0], 0, 0, (int64_t)((n * 0x9e3779b97f4a7c15u) >> 60));
  return cn_err();
}
static int switch_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = cn_sum(in[0], .dim = CN_INTS(0), .keepdim = cn_size(in[0], 0) > 100);
  return cn_err();
}
static int root_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = cn_mul(in[0], cn_num(sqrt((double)cn_size(in[0], 0))));
  return cn_err();
}

static void test_refusals(void **state)
{
  (void)state;
  cn_tensor *x = cn_ones(CN_SHAPE(8)), *pair[2] = {x, cn_ones(CN_SHAPE(8))}, *out;
  cn_free_dim dim = {0, 0, "T", 0, 0}, both[2] = {{0, 0, "T", 0, 0}, {1, 0, "T", 0, 0}};
  assert_null(cn_trace_dynamic(loop_fn, 1, &x, 1, &dim, 1, NULL));
  assert_fails(CN_ERR_CAPTURE, "same ops");
  assert_null(cn_trace_dynamic(odd_fn, 1, &x, 1, &dim, 1, NULL));
  assert_fails(CN_ERR_CAPTURE, "'end' of slice");
  assert_null(cn_trace_dynamic(root_fn, 1, &x, 1, &dim, 1, NULL));
  assert_fails(CN_ERR_CAPTURE, "a number");
  dim.max = 200;
  assert_null(cn_trace_dynamic(switch_fn, 1, &x, 1, &dim, 1, NULL));
  assert_fails(CN_ERR_CAPTURE, "T = 200");
  dim.symbol = "T +";
  assert_null(cn_trace_dynamic(half_fn, 1, &x, 1, &dim, 1, NULL));
  assert_fails(CN_ERR_VALUE, "T +");
  dim = (cn_free_dim){0, 1, "T", 0, 0};
  assert_null(cn_trace_dynamic(half_fn, 1, &x, 1, &dim, 1, NULL));
  assert_fails(CN_ERR_INDEX, "dimension 1");
  dim = (cn_free_dim){0, 0, "T", 9, 0};
  assert_null(cn_trace_dynamic(half_fn, 1, &x, 1, &dim, 1, NULL));
  assert_fails(CN_ERR_VALUE, "range");
  cn_graph *g = cn_trace_dynamic(half_fn, 1, pair, 2, both, 2, NULL);
  assert_non_null(g);
  pair[1] = cn_ones(CN_SHAPE(9));
  assert_true(cn_graph_run(&out, g, pair) < 0);
  assert_fails(CN_ERR_SHAPE, "input 1 is 9");
  cn_graph_free(g);
}

static int next_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload; /* x: (T), y: (T + 1) */
  out[0] = cn_add(in[0], cn_slice(in[1], 0, 1, CN_NONE));
  return cn_err();
}

static void test_dims_that_follow_from_others(void **state)
{
  (void)state;
  cn_tensor *in[4] = {cn_ones(CN_SHAPE(8)), cn_ones(CN_SHAPE(9)), cn_ones(CN_SHAPE(20)), cn_ones(CN_SHAPE(21))}, *out;
  const cn_free_dim dims[2] = {{1, 0, "T + 1", 0, 0}, {0, 0, "T", 0, 0}};
  cn_graph *g[2] = {cn_trace_dynamic(next_fn, 1, in, 2, dims, 2, NULL), cn_trace_sizes(next_fn, 1, in, 2, 2, NULL)};
  for (int i = 0; i < 2; i++) {
    if (!g[i]) fail_msg("%s", cn_err_message());
    in[0] = cn_ones(CN_SHAPE(33));
    in[1] = cn_ones(CN_SHAPE(34));
    assert_int_equal(cn_graph_run(&out, g[i], in), 0);
    assert_int_equal(cn_size(out, 0), 33);
    in[1] = cn_ones(CN_SHAPE(33));
    assert_true(cn_graph_run(&out, g[i], in) < 0);
    assert_fails(CN_ERR_SHAPE, "must be 34");
    cn_graph_free(g[i]);
  }
}

/* ---- text ---- */

static void test_text(void **state)
{
  (void)state;
  static const char text[] = "size T = 8 in 1..100\n%0 = input float32 [$T, $(T + 1)]\n"
                             "%1 = scalar float64 weak $(T * 2 / 3)\n"
                             "%2 = slice(%0, 0, 0, $(max(T - 2 - 1, (T + 1) * 2 // 5 - (1 - T))), 1) : float32 [8, 9]\n"
                             "%3 = mul(%2, %1) : float32 [8, 9]\noutput %3\n";
  cn_graph *g = cn_graph_parse(text);
  if (!g) fail_msg("%s", cn_err_message());
  char *again = cn_graph_to_string(g);
  assert_string_equal(again, text);
  cn_tensor *x = cn_ones(CN_SHAPE(6, 7)), *out;
  assert_int_equal(cn_graph_run(&out, g, &x), 0);
  assert_int_equal(cn_size(out, 0), 6);
  assert_float_equal(cn_item(cn_select(cn_select(out, 0, 0), 0, 0)), 4, 0);
  cn_string_free(again);
  cn_graph_free(g);
  static const char *const bad[] = {
    "size T = 8 in 1..100\n",                                                    /* no input has it */
    "size T = 8 in 9..100\n%0 = input float32 [$T]\n",                           /* out of its range */
    "size min = 8 in 1..9\n%0 = input float32 [$min]\n",                         /* a word of expressions */
    "size T = 8 in 1..9\nsize T = 8 in 1..9\n%0 = input float32 [$T]\n",
    "size T = 8 in 1..9\n%0 = input float32 [$T, $U]\n",
    "size T = 8 in 1..9\n%0 = input float32 [$T, $(T // 0)]\n",
    "size T = 8 in 1..9\n%0 = input float32 [$T, $(T / 2)]\n",                   /* a float */
    "size T = 8 in 1..9\n%0 = input float32 [$T, $(0 - T)]\n",
    "size T = 8 in 1..9\n%0 = input float32 [$T, $(T + 9223372036854775807)]\n",
    "size T = 8 in 1..9\n%0 = input float32 [$T, $((T)]\n",
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    if (cn_graph_parse(bad[i])) fail_msg("%s", bad[i]);
    assert_true(cn_err() != 0);
    cn_err_clear();
  }
}

static void test_text_is_bounded(void **state)
{
  (void)state;
  enum { MANY = 100000 };
  static char text[MANY + 64];
  char *s = text + sprintf(text, "size T = 8 in 1..9\n%%0 = input float32 [$T, $");
  memset(s, '(', MANY);
  assert_null(cn_graph_parse(text));
  cn_err_clear();
  s = text + sprintf(text, "size T = 8 in 1..9\n%%0 = input float32 [$T, $(T");
  for (int i = 0; i + 2 < MANY; i += 2) memcpy(s + i, "*T", 3);
  assert_null(cn_graph_parse(text));
  cn_err_clear();
}

/* ---- random programs ---- */

enum { PROGRAMS = 200, UNSEEN = 10, STEPS = 4 };

typedef struct program {
  int op[STEPS], constant[STEPS], with[STEPS], place;
} program;

static uint32_t draw(uint64_t *seed, uint32_t n)
{
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*seed >> 33) % n;
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b && (a < 0) != (b < 0)); }

/* An integer made of T and U by a few steps, each with a constant, T, U or an earlier step. */
static int64_t evaluate(const program *p, int64_t t, int64_t u)
{
  int64_t v[STEPS + 2] = {t, u};
  for (int i = 0; i < STEPS; i++) {
    int64_t a = v[i ? i + 1 : p->with[0] & 1], c = p->constant[i], b = p->with[i] < i + 2 ? v[p->with[i]] : c;
    switch (p->op[i]) {
    case 0: v[i + 2] = a + b; break;
    case 1: v[i + 2] = a - c; break;
    case 2: v[i + 2] = a * c; break;
    case 3: v[i + 2] = floor_div(a, c); break;
    case 4: v[i + 2] = a < b ? a : b; break;
    case 5: v[i + 2] = a > b ? a : b; break;
    case 6: v[i + 2] = floor_div(a + c - 1, c); break;
    default: v[i + 2] = a;
    }
  }
  return v[STEPS + 1];
}

static int random_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  const program *p = payload;
  int64_t n = evaluate(p, cn_size(in[0], 0), cn_size(in[1], 0)); /* x: (T), y: (U) */
  if (p->place == 0) out[0] = cn_slice(in[0], 0, 0, n);
  else if (p->place == 1) out[0] = cn_mul(in[1], cn_int(n));
  else if (p->place == 2) out[0] = cn_add(in[0], cn_num((double)n));
  else out[0] = cn_roll(in[1], CN_SHAPE(n), .dims = CN_INTS(0));
  return cn_err();
}

/* The graph at sizes that were never traced, against eager. */
static void check_unseen(cn_graph *g, program *p, uint64_t *seed, int which)
{
  for (int i = 0; i < UNSEEN; i++) {
    cn_scope *scope = cn_scope_begin();
    int64_t t = 4 + draw(seed, 300), u = 4 + draw(seed, 300);
    cn_tensor *want, *have;
    cn_tensor *in[2] = {cn_arange(0, (double)t, .dtype = CN_F32), cn_arange(0, (double)u, .dtype = CN_F32)};
    assert_int_equal(random_fn(&want, in, p), 0);
    if (cn_graph_run(&have, g, in)) fail_msg("program %d at %d, %d: %s", which, (int)t, (int)u, cn_err_message());
    if (!same_elements(want, have)) {
      char *text = cn_graph_to_string(g);
      fail_msg("program %d differs at %d, %d (%d):\n%s", which, (int)t, (int)u, (int)evaluate(p, t, u), text);
    }
    cn_scope_end(scope);
  }
}

static void test_random_programs(void **state)
{
  (void)state;
  uint64_t seed = 1;
  int refused = 0;
  const cn_free_dim dims[2] = {{0, 0, "T", 4, 0}, {1, 0, "U", 4, 0}};
  cn_tensor *in[2] = {cn_ones(CN_SHAPE(8)), cn_ones(CN_SHAPE(8))};
  for (int i = 0; i < PROGRAMS; i++) {
    program p;
    int steps_used = 1 + (int)draw(&seed, STEPS);
    for (int k = 0; k < STEPS; k++) {
      p.op[k] = k < steps_used ? (int)draw(&seed, 7) : 7;
      p.constant[k] = 2 + (int)draw(&seed, 7);
      p.with[k] = (int)draw(&seed, (uint32_t)(2 * (k + 2)));
    }
    p.place = (int)draw(&seed, 4);
    cn_graph *g = cn_trace_dynamic(random_fn, 1, in, 2, dims, 2, &p);
    if (!g) {
      assert_int_equal(cn_err(), CN_ERR_CAPTURE);
      cn_err_clear();
      refused++;
      continue;
    }
    check_unseen(g, &p, &seed, i);
    cn_graph_free(g);
  }
  print_message("%d of %d refused\n", refused, PROGRAMS);
  assert_true(refused * 20 <= PROGRAMS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, clear_errors, NULL)

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(test_lengths), TEST(test_half_of_nine), TEST(test_contiguous), TEST(test_two_sizes),
    TEST(test_strided_convolutions), TEST(test_range_is_found), TEST(test_refusals),
    TEST(test_dims_that_follow_from_others), TEST(test_text),
    TEST(test_text_is_bounded), TEST(test_random_programs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
