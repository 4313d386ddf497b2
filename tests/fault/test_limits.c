/* test_limits.c: every allocation fails once while limits begin and end, a graph runs within them and in a stream, is
 * stopped and runs again, and weights are packed for it: an error, or the same numbers; nothing stays behind. */
#include <cairn/device.h>
#include <cairn/kw.h>

#include "sweep.h"

typedef struct net {
  cn_tensor *w, *count; /* (40, 30), () */
} net;

static int step(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  net *n = payload; /* in: x (12, 30) */
  out[0] = cn_softmax(cn_linear(in[0], n->w, NULL), 1);
  cn_add_(n->count, cn_num(1));
  return cn_err();
}

static bool third_time(void *payload) { return ++*(int *)payload > 2; }

static int run_some(double *sum, cn_graph *g, cn_tensor *x, cn_stream *stream)
{
  cn_tensor *out = NULL;
  int status = CN_OK;
  for (int i = 0; i < 4 && !status; i++) { /* at the third run the weight is packed */
    cn_run_opts o = {.size = sizeof o, .timeout = 1e6, .threads = 1 + i % 2, .stream = stream};
    status = cn_graph_run_with(&out, g, &x, &o);
    if (!status) *sum += sweep_sum(cn_mul(out, x ? cn_slice(out, 1, 0, 1) : NULL));
    if (!status) status = cn_err();
  }
  int asked = 0;
  cn_run_opts o = {.size = sizeof o, .cancelled = third_time, .payload = &asked};
  if (status) return status;
  status = cn_graph_run_with(&out, g, &x, &o);
  if (status != CN_ERR_CANCELLED) return status;
  cn_err_clear();
  return CN_OK;
}

static int runs(double *result)
{
  net n = {cn_randn(CN_SHAPE(40, 30)), cn_zeros(CN_SCALAR_SHAPE)};
  cn_tensor *x = cn_randn(CN_SHAPE(12, 30));
  cn_limits *l = x && n.w && n.count ? cn_limits_begin(.timeout = 1e6, .threads = 2) : NULL;
  cn_stream *stream = l ? cn_stream_new(CN_CPU, 0) : NULL;
  cn_graph *g = stream ? cn_trace(step, 1, &x, 1, &n) : NULL;
  double sum = 0;
  int status = g ? run_some(&sum, g, x, stream) : cn_err();
  if (!status) sum += cn_item(n.count);
  cn_graph_free(g);
  cn_stream_release(stream);
  cn_limits_end(l);
  *result = sum;
  return status;
}

int main(void)
{
  const struct CMUnitTest tests[] = {SWEEP(runs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
