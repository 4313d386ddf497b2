/* test_parts.c: every allocation fails once while a graph is copied, lifted, lowered and run, and while one whose sizes
 * depend on data is traced, or compiled with its backward pass, and run part by part: an error, or the right numbers;
 * nothing stays behind. */
#include <cairn/autograd.h>
#include <cairn/compile.h>
#include <cairn/ext/graph.h>
#include <cairn/kw.h>

#include "sweep.h"

static int block(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload; /* x: (2, 3, 4) */
  cn_tensor *x = cn_layer_norm(in[0], CN_SHAPE(4), NULL, NULL);
  x = cn_scaled_dot_product_attention(x, x, x, NULL, .is_causal = true);
  out[0] = cn_flatten(cn_transpose(cn_dropout(x, .p = 0.25), 1, 2), .start_dim = 1, .end_dim = 2);
  return cn_err();
}

static int lowered(double *result)
{
  cn_seed(2);
  cn_tensor *x = cn_randn(CN_SHAPE(2, 3, 4)), *out = NULL;
  cn_graph *g = x ? cn_trace(block, 1, &x, 1, NULL) : NULL, *copy = g ? cn_graph_copy(g) : NULL;
  int status = copy ? cn_graph_lift(copy, NULL, NULL) : cn_err();
  cn_graph_free(g);
  if (status >= 0 && copy) status = cn_graph_run(&out, copy, &x);
  if (!status) *result = sweep_sum(out);
  cn_graph_free(copy);
  return status < 0 ? status : cn_err();
}

static int select_rows(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *at = cn_nonzero(cn_gt(in[0], cn_num(0))); /* x: (6) */
  out[0] = cn_mul(cn_index_select(in[0], 0, cn_reshape(at, CN_SHAPE(-1))), cn_num(0.5));
  cn_add_(payload, cn_num(1));
  return cn_err();
}

static int counted(double *result)
{
  cn_seed(3);
  cn_tensor *x = cn_randn(CN_SHAPE(6)), *steps = cn_zeros(CN_SCALAR_SHAPE), *out = NULL;
  cn_graph *g = x && steps ? cn_trace(select_rows, 1, &x, 1, steps) : NULL;
  int status = g ? cn_graph_run(&out, g, &x) : cn_err();
  if (!status) *result = sweep_sum(out) + sweep_sum(steps);
  cn_graph_free(g);
  return status ? status : cn_err();
}

/* x: (6); the member of a list at a computed index. */
static int members(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_list l;
  (void)payload;
  cn_tensor *sizes = cn_add(cn_cast(cn_gt(cn_narrow(in[0], 0, 0, 3), cn_num(0)), CN_I64), cn_int(1));
  cn_tensor *x = cn_narrow(cn_cat(CN_TENSORS(in[0], in[0])), 0, 0, 5); /* as many as the signs of x say */
  if (!sizes || !x || cn_list_split(&l, x, sizes, 0, true)) return cn_err();
  out[0] = cn_list_at(&l, cn_select(sizes, 0, 0), NULL);
  return cn_err();
}

static int listed(double *result)
{
  const float data[6] = {1, -2, 3, 4, -5, 6};
  cn_tensor *x = cn_floats(data, 6), *out = NULL;
  cn_graph *g = x ? cn_trace(members, 1, &x, 1, NULL) : NULL;
  int status = g ? cn_graph_run(&out, g, &x) : cn_err();
  if (!status) *result = sweep_sum(out);
  cn_graph_free(g);
  return status ? status : cn_err();
}

static int squares(cn_compile_call *k)
{
  cn_tensor *some = cn_masked_select(k->inputs[0], cn_gt(k->inputs[0], cn_num(0))); /* x: (6) */
  k->outputs[0] = cn_mul(cn_square(some), cn_num((double)cn_size(some, 0)));
  k->noutputs = 1;
  return cn_err();
}

static int compiled(double *result)
{
  cn_seed(3);
  cn_tensor *x = cn_randn(CN_SHAPE(6)), *out = NULL;
  cn_compiled *c = x && cn_requires_grad(x, true) ? cn_compile(squares, .fullgraph = true) : NULL;
  cn_compile_call k = {.inputs = &x, .ninputs = 1, .outputs = &out, .noutputs = 1};
  int status = c ? cn_compiled_call(c, &k) : cn_err();
  if (!status) status = cn_backward(cn_sum(out));
  if (!status) *result = sweep_sum(cn_detach(out)) + sweep_sum(cn_grad_of(x));
  cn_compiled_free(c);
  return status ? status : cn_err();
}

int main(void)
{
  const struct CMUnitTest tests[] = {SWEEP(lowered), SWEEP(counted), SWEEP(listed), SWEEP(compiled)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
