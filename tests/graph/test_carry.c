/* test_carry.c: the 16-bit copy of a weight that a graph updates is kept between runs (src/graph/passes/carry.c): no
 * run casts the weight, its update writes both, and results are eager's to the bit, whoever writes the weight between
 * runs, in place or by giving it other memory. On the mirror device. */
#include <cairn/cairn.h>
#include <cairn/ext/graph.h>
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <string.h>

#include "graph/passes/passes.h"
#include "tensors.h"

enum { SIDE = 48 };

typedef struct weights {
  cn_tensor *w, *m, *v, *lr, *one;
  bool direct; /* the new value is no update's */
} weights;

static cn_device device;

static int setup(void **state)
{
  (void)state;
  cn_err_clear();
  device = cn_device_find("mirror");
  return device == CN_DEVICE_DEFAULT;
}

static weights weights_new(void)
{
  weights p = {.lr = cn_full(CN_SCALAR_SHAPE, 0.01, .dtype = CN_F64), .one = cn_ones(CN_SCALAR_SHAPE, .dtype = CN_F64)};
  cn_seed(3);
  p.w = cn_to_device(cn_randn(CN_SHAPE(SIDE, SIDE)), device);
  p.m = cn_zeros_like(p.w);
  p.v = cn_zeros_like(p.w);
  return p;
}

/* What a layer gives, and a step along something like its gradient. */
static int step(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  weights *p = payload;
  cn_tensor *low = cn_cast(p->w, CN_BF16), *y = cn_mm(cn_cast(in[0], CN_BF16), low);
  cn_tensor *grad = cn_mm(cn_t(y), cn_mm(y, cn_t(low)));
  if (p->direct) cn_copy_(p->w, cn_sub(cn_mul(p->w, cn_num(0.999)), grad, .alpha = 1e-4));
  else cn_adam_update_inplace_with(p->w, p->m, p->v, grad, p->lr, p->one, p->one, p->lr, 0.99, 0.01, 1e-8, NULL);
  out[0] = cn_cast(y, CN_F32);
  return cn_err();
}

static int count(const cn_graph *g, const char *what)
{
  char *text = cn_graph_to_string(g);
  int found = 0;
  for (const char *at = text; (at = strstr(at, what)) != NULL; at++) found++;
  cn_string_free(text);
  return found;
}

static cn_graph *traced(cn_tensor *x, weights *p)
{
  cn_graph *g = cn_trace(step, 1, &x, 1, p);
  assert_non_null(g);
  assert_true(cn_graph_optimise(g) >= 0);
  int casts = count(g, "cast(");
  assert_int_equal(cni_carry_casts(g, true), 1);
  assert_int_equal(cn_graph_verify(g), 0);
  assert_true(cn_graph_fuse(g, true) >= 0);
  assert_int_equal(cn_graph_verify(g), 0);
  assert_int_equal(count(g, "cast("), casts - 1); /* those of inputs and results are there */
  assert_int_equal(count(g, "adam_update("), 0);
  return g;
}

/* What somebody else does to a weight before run i. */
static void disturb(weights *p, int i)
{
  if (i == 2) cn_mul_(p->w, cn_num(0.5));
  if (i == 4) cn_set_data(p->w, cn_to_device(cn_full(CN_SHAPE(SIDE, SIDE), 0.25), device));
  if (i == 6) cn_fill_(cn_slice(p->w, 0, 3, 5), cn_int(1));
}

static void compare(bool direct)
{
  cn_scope *s = cn_scope_begin();
  weights a = weights_new(), b = weights_new();
  a.direct = b.direct = direct;
  cn_tensor *x = cn_to_device(cn_randn(CN_SHAPE(8, SIDE)), device);
  cn_graph *g = traced(x, &b), *copy = NULL;
  for (int i = 0; i < 10; i++) {
    cn_tensor *want = NULL, *have = NULL;
    disturb(&a, i), disturb(&b, i);
    if (i == 7) copy = cn_graph_copy(g); /* both write the weight, and its one copy */
    assert_int_equal(step(&want, &x, &a), 0);
    if (cn_graph_run(&have, i == 8 ? copy : g, &x)) fail_msg("%s", cn_err_message());
    assert_same(have, want);
    assert_same(b.w, a.w);
    assert_same(b.v, a.v);
  }
  cn_graph_free(copy);
  cn_graph_free(g);
  cn_scope_end(s);
}

static void test_update_writes_both(void **state)
{
  (void)state;
  compare(false);
}

static void test_other_new_values(void **state)
{
  (void)state;
  compare(true);
}

/* Only what is cast, updated and on a device has a copy. */
static void test_others_stay(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  weights p = weights_new();
  p.w = cn_to_device(p.w, CN_CPU), p.m = cn_to_device(p.m, CN_CPU), p.v = cn_to_device(p.v, CN_CPU);
  cn_tensor *x = cn_randn(CN_SHAPE(8, SIDE));
  cn_graph *g = cn_trace(step, 1, &x, 1, &p);
  size_t nodes = cn_graph_nodes(g);
  assert_int_equal(cni_carry_casts(g, true), 0);
  assert_int_equal(cn_graph_nodes(g), nodes);
  cn_graph_free(g);
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(test_update_writes_both, setup),
    cmocka_unit_test_setup(test_other_new_values, setup),
    cmocka_unit_test_setup(test_others_stay, setup),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
