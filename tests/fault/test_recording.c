/* test_recording.c: every allocation fails once while a graph is traced, run, recorded by a device (the mirror) and run
 * from the recording: an error, or the same numbers node by node; nothing stays behind. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <cairn/kw.h>
#include <stdlib.h>

#include "sweep.h"

typedef struct kept {
  cn_tensor *sum, *count; /* (2, 3) on the device; in host memory */
} kept;

static int step(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  kept *k = payload;
  cn_tensor *y = cn_dropout(cn_mul(in[0], k->count), .p = 0.5);
  cn_add_(k->count, cn_num(1));
  cn_add_(k->sum, y);
  out[0] = cn_softmax(k->sum, 1);
  return cn_err();
}

static int recorded_runs(double *result)
{
  cn_device device = cn_device_find("mirror");
  cn_seed(2);
  kept k = {cn_zeros(CN_SHAPE(2, 3), .device = device), cn_full(CN_SCALAR_SHAPE, 3, .dtype = CN_F64)};
  cn_tensor *x = cn_ones(CN_SHAPE(2, 3), .device = device), *out = NULL;
  cn_graph *g = x && k.sum && k.count ? cn_trace(step, 1, &x, 1, &k) : NULL;
  double sum = 0;
  int status = g ? 0 : cn_err();
  for (int i = 0; i < 3 && !status; i++) {
    status = cn_graph_run(&out, g, &x);
    if (!status) sum += sweep_sum(cn_to_device(cn_mul(out, k.sum), CN_CPU));
    if (!status) status = cn_err();
  }
  cn_graph_free(g);
  *result = sum;
  return status;
}

int main(void)
{
  setenv("CAIRN_MIRROR", "graphs", 1); /* the mirror takes no graph whole here */
  const struct CMUnitTest tests[] = {SWEEP(recorded_runs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
