/* test_training_step.c: every allocation of a training step fails once: eager, captured, through custom functions,
 * checkpoints, views and writes. Each time the error is one of memory, nothing crashes, nothing stays behind, and the
 * next step is right. */
#include <cairn/ext/graph.h>
#include <cairn/kw.h>

#include "sweep.h"

/* ---- a small convolutional network and its momentum step ---- */

enum { PARAMS = 4, BATCH = 4 };

typedef struct net {
  cn_tensor *p[PARAMS], *m[PARAMS]; /* (3, 1, 3, 3), (3), (10, 27), (10) */
} net;

static int net_make(net *n)
{
  n->p[0] = cn_mul(cn_randn(CN_SHAPE(3, 1, 3, 3)), cn_num(0.3));
  n->p[1] = cn_zeros(CN_SHAPE(3));
  n->p[2] = cn_mul(cn_randn(CN_SHAPE(10, 27)), cn_num(0.1));
  n->p[3] = cn_zeros(CN_SHAPE(10));
  for (int i = 0; i < PARAMS; i++) {
    n->m[i] = cn_zeros_like(n->p[i]);
    cn_requires_grad(n->p[i], true);
  }
  return cn_err();
}

static void batch(cn_tensor **in, int64_t size)
{
  in[0] = cn_randn(CN_SHAPE(size, 1, 8, 8));
  in[1] = cn_randint(0, 10, CN_SHAPE(size));
}

static cn_tensor *forward(const net *n, cn_tensor *x)
{
  cn_tensor *h = cn_relu(cn_conv2d(x, n->p[0], n->p[1])); /* (B, 3, 6, 6) */
  h = cn_max_pool2d(h, CN_SHAPE(2), .stride = CN_INTS(2));
  return cn_linear(cn_dropout(cn_flatten(h, .start_dim = 1), .p = 0.2), n->p[2], n->p[3]);
}

static cn_tensor *train(net *n, cn_tensor *x, cn_tensor *y)
{
  cn_tensor *loss = cn_cross_entropy(forward(n, x), y);
  cn_backward(loss);
  int saved = cn_no_grad_begin();
  for (int i = 0; i < PARAMS; i++) {
    cn_mul_(n->m[i], cn_num(0.9));
    cn_add_(n->m[i], cn_grad_of(n->p[i]));
    cn_sub_(n->p[i], cn_mul(n->m[i], cn_num(0.05)));
    cn_zero_grad(n->p[i]);
  }
  cn_no_grad_end(saved);
  return loss;
}

static double params_sum(const net *n)
{
  double total = 0;
  for (int i = 0; i < PARAMS; i++) total += sweep_sum(n->p[i]);
  return total;
}

static int eager_step(double *result)
{
  net n;
  cn_tensor *in[2];
  if (net_make(&n)) return cn_err();
  for (int step = 0; step < 2; step++) {
    cn_scope *s = cn_scope_begin();
    batch(in, BATCH);
    *result += sweep_sum(train(&n, in[0], in[1]));
    cn_scope_end(s);
  }
  *result += params_sum(&n);
  return cn_err();
}

/* ---- the same, captured ---- */

static int train_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  out[0] = train(payload, in[0], in[1]);
  return cn_err();
}

static int replay(cn_graph *g, int64_t size, double *result)
{
  cn_tensor *in[2], *out = NULL;
  cn_scope *s = cn_scope_begin();
  batch(in, size);
  if (!cn_err() && !cn_graph_run(&out, g, in)) *result += sweep_sum(out);
  cn_scope_end(s);
  return cn_err();
}

static int captured_step(double *result)
{
  net n;
  cn_tensor *in[2];
  if (net_make(&n)) return cn_err();
  batch(in, BATCH);
  cn_graph *g = cn_err() ? NULL : cn_trace(train_fn, 1, in, 2, &n);
  for (int step = 0; g && step < 3; step++) {
    if (step == 1 && cn_graph_optimise(g) < 0) break;
    if (step == 2 && cn_graph_lift(g, NULL, NULL) < 0) break;
    replay(g, BATCH, result);
  }
  cn_graph_free(g);
  g = cn_err() ? NULL : cn_trace(train_fn, 1, in, 2, &n);
  if (g && cn_graph_fuse(g, true) >= 0) replay(g, BATCH, result);
  cn_graph_free(g);
  *result += params_sum(&n);
  return cn_err();
}

static int bind_states(cn_graph *to, const cn_graph *from)
{
  for (size_t i = 0; i < cn_graph_states(from); i++)
    if (cn_graph_bind(to, i, cn_graph_state(from, i))) break;
  return cn_err();
}

/* Two sizes traced, a third run; then once more from the text. */
static int captured_sizes(double *result)
{
  net n;
  cn_tensor *in[4];
  if (net_make(&n)) return cn_err();
  batch(in, 4);
  batch(in + 2, 6);
  cn_graph *g = cn_err() ? NULL : cn_trace_sizes(train_fn, 1, in, 2, 2, &n);
  if (g) replay(g, 3, result);
  char *text = g ? cn_graph_to_string(g) : NULL;
  cn_graph *again = text ? cn_graph_parse(text) : NULL;
  if (again && !bind_states(again, g)) replay(again, 5, result);
  cn_string_free(text);
  cn_graph_free(again);
  cn_graph_free(g);
  *result += params_sum(&n);
  return cn_err();
}

/* ---- custom functions and checkpoints ---- */

static int payloads; /* alive */
static void payload_free(void *payload)
{
  (void)payload;
  payloads--;
}

static int cube_forward(cn_context *ctx, cn_tensor **out, cn_tensor *const *in)
{
  out[0] = cn_mul(in[0], cn_mul(in[0], in[0]));
  out[1] = cn_neg(in[0]);
  return cn_context_save(ctx, in, 1);
}
static int cube_backward(cn_context *ctx, cn_tensor **gin, cn_tensor *const *g)
{
  cn_tensor *x = cn_context_saved(ctx, 0);
  cn_tensor *zero = x ? cn_zeros_like(x) : NULL;
  gin[0] = cn_mul(g[0] ? g[0] : zero, cn_mul(cn_mul(x, x), cn_num(3)));
  if (g[1]) gin[0] = cn_sub(gin[0], g[1]);
  return cn_err();
}
static const cn_function cube = {sizeof(cn_function), "cube", cube_forward, cube_backward, payload_free};

static int custom_function(double *result)
{
  cn_tensor *x = cn_requires_grad(cn_randn(CN_SHAPE(5)), true), *y[2] = {NULL, NULL}, *g = NULL, *gg = NULL;
  if (!x) return cn_err();
  payloads++;
  if (cn_function_apply(y, 2, &cube, &x, 1, &payloads)) return cn_err();
  cn_tensor *loss = cn_sum(cn_add(y[0], y[1]));
  if (!loss || cn_grad(&g, &loss, 1, &x, 1, .create_graph = true)) return cn_err();
  cn_tensor *second = cn_sum(cn_mul(g, g));
  if (!second || cn_grad(&gg, &second, 1, &x, 1)) return cn_err();
  *result = sweep_sum(g) + sweep_sum(gg);
  return cn_err();
}

static int block_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = cn_gelu(cn_dropout(cn_matmul(in[0], in[1]), .p = 0.5));
  out[1] = cn_softmax(in[0], 1);
  return cn_err();
}

static int checkpoint_step(double *result)
{
  cn_tensor *in[2] = {cn_requires_grad(cn_randn(CN_SHAPE(4, 6)), true),
                      cn_requires_grad(cn_randn(CN_SHAPE(6, 6)), true)};
  cn_tensor *out[2] = {NULL, NULL};
  if (cn_err() || cn_checkpoint(out, 2, block_fn, in, 2, NULL)) return cn_err();
  if (cn_backward(cn_sum(cn_mul(out[0], out[1])))) return cn_err();
  *result = sweep_sum(cn_grad_of(in[0])) + sweep_sum(cn_grad_of(in[1]));
  return cn_err();
}

/* ---- views, writes, lists, hooks ---- */

static int views_and_writes(double *result)
{
  cn_tensor *x = cn_requires_grad(cn_randn(CN_SHAPE(4, 6)), true), *parts[3] = {NULL, NULL, NULL};
  cn_tensor *y = cn_mul(x, cn_num(2)); /* (4, 6) */
  cn_tensor *row = cn_select(y, 0, 1), *t = cn_transpose(y, 0, 1);
  cn_mul_(row, cn_num(3));
  cn_add_(cn_slice(t, 0, 1, 4), cn_transpose(cn_slice(x, 1, 0, 3), 0, 1));
  cn_index_put_(y, ((cn_tensor *[]){cn_randint(0, 4, CN_SHAPE(2))}), 1, cn_num(0.5));
  cn_scatter_add_(cn_narrow(y, 1, 2, 3), 0, cn_randint(0, 4, CN_SHAPE(4, 3)), cn_narrow(x, 1, 0, 3));
  if (cn_err()) return cn_err();
  if (cn_split(parts, 3, y, 2, .dim = 1) < 0) return cn_err();
  cn_tensor *joined = cn_cat(((cn_tensor *[]){parts[2], parts[0], cn_expand(row, CN_SHAPE(4, 6))}), 3, .dim = 1);
  if (cn_backward(cn_sum(cn_mul(joined, joined)))) return cn_err();
  *result = sweep_sum(cn_grad_of(x)) + sweep_sum(joined);
  return cn_err();
}

static cn_tensor *double_hook(cn_tensor *grad, void *payload)
{
  (void)payload;
  return cn_mul(grad, cn_num(2));
}

static int hooks_and_kept_gradients(double *result)
{
  cn_tensor *x = cn_requires_grad(cn_randn(CN_SHAPE(3, 4)), true), *y = cn_tanh(x);
  if (cn_err() || cn_retain_grad(y) || cn_hook_add(x, double_hook, NULL) < 0 || cn_hook_add(y, double_hook, NULL) < 0)
    return cn_err();
  bool was = cn_detect_anomaly(true);
  cn_backward(cn_sum(cn_mul(y, y)), .retain_graph = true);
  cn_detect_anomaly(was);
  cn_tensor *again = cn_sum(y);
  if (cn_err() || cn_backward(again)) return cn_err();
  *result = sweep_sum(cn_grad_of(x)) + sweep_sum(cn_grad_of(y));
  cn_set_grad(x, cn_ones_like(x));
  *result += sweep_sum(cn_grad_of(x));
  return cn_err();
}

/* Ops with several results, results of unknown size, library calls. */
static int other_ops(double *result)
{
  cn_tensor *x = cn_requires_grad(cn_randn(CN_SHAPE(4, 8)), true), *values = NULL, *indices = NULL;
  cn_tensor *spd = cn_add(cn_matmul(x, cn_transpose(x, 0, 1)), cn_eye(4, 4));
  if (cn_err() || cn_sort(&values, &indices, x, .dim = 1)) return cn_err();
  cn_tensor *q = cn_reshape(cn_contiguous(x), CN_SHAPE(1, 2, 4, 4));
  cn_tensor *attended = cn_scaled_dot_product_attention(q, q, q, .is_causal = true);
  cn_tensor *loss = cn_add(cn_sum(cn_linalg_cholesky(spd)), cn_sum(cn_mul(values, cn_cumsum(values, 1))));
  loss = cn_add(loss, cn_add(cn_sum(attended), cn_sum(cn_var(x, .dim = CN_INTS(0)))));
  loss = cn_add(loss, cn_sum(cn_masked_select(x, cn_gt(x, cn_num(0)))));
  loss = cn_add(loss, cn_sum(cn_embedding(cn_randint(0, 4, CN_SHAPE(3)), x, CN_NONE)));
  if (cn_err() || cn_backward(loss)) return cn_err();
  *result = sweep_sum(cn_grad_of(x)) + sweep_sum(indices) + sweep_sum(cn_nonzero(cn_gt(x, cn_num(0))));
  return cn_err();
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      SWEEP(eager_step),       SWEEP(captured_step),
      SWEEP(captured_sizes),   SWEEP_BALANCED(custom_function, payloads),
      SWEEP(checkpoint_step),  SWEEP(views_and_writes),
      SWEEP(hooks_and_kept_gradients), SWEEP(other_ops),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
