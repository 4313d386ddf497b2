/* small_add.c: cairn's side of the rows in which an op costs more than its arithmetic: add of 16
 * floats, plain, with gradients and in inference mode, and add + sum + backward.
 *
 * Invariant: every call frees its result before the next one begins, as a C++ temporary does on the
 * peer's side; a scope of its own does that here and is timed with it.
 */
#include "../serve.h"

#include <cairn/cairn.h>

#define N 16

static cn_tensor *a, *b, *g; /* (N) each; g requires a gradient */

static int setup(void)
{
  float x[N], y[N];
  cn_scope *s = cn_scope_begin();
  bench_fill(x, N, 1, 1);
  bench_fill(y, N, 2, 1);
  cn_set(&a, cn_from_data(x, CN_SHAPE(N), CN_F32));
  cn_set(&b, cn_from_data(y, CN_SHAPE(N), CN_F32));
  cn_set(&g, cn_from_data(x, CN_SHAPE(N), CN_F32));
  cn_requires_grad(g, true);
  cn_scope_end(s);
  if (cn_err()) fprintf(stderr, "small_add: %s\n", cn_err_message());
  return cn_err();
}

static void run_add(long n)
{
  for (long i = 0; i < n; i++) {
    cn_scope *s = cn_scope_begin();
    cn_add(a, b);
    cn_scope_end(s);
  }
  bench_require(!cn_err(), cn_err_message());
}

static void run_add_grad(long n)
{
  for (long i = 0; i < n; i++) {
    cn_scope *s = cn_scope_begin();
    cn_add(g, b);
    cn_scope_end(s);
  }
  bench_require(!cn_err(), cn_err_message());
}

static void run_inference(long n)
{
  int saved = cn_inference_begin();
  run_add(n);
  cn_inference_end(saved);
}

static void run_backward(long n)
{
  for (long i = 0; i < n; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *c = cn_add(g, b);
    cn_backward(cn_sum(c));
    cn_scope_end(s);
  }
  bench_require(!cn_err(), cn_err_message());
}

static double sum_of(cn_tensor *t)
{
  cn_scope *s = cn_scope_begin();
  double value = cn_item(cn_sum(t));
  cn_scope_end(s);
  return value;
}

static double check_add(void)
{
  cn_scope *s = cn_scope_begin();
  double value = sum_of(cn_add(a, b));
  cn_scope_end(s);
  return value;
}

static double check_backward(void)
{
  run_backward(3);
  return sum_of(cn_grad_of(g));
}

static const struct bench_work works[] = {
  {"small_add", "", "call", 1, setup, run_add, check_add},
  {"small_add_inference", "", "call", 1, setup, run_inference, check_add},
  {"small_add_grad", "", "call", 1, setup, run_add_grad, check_add},
  {"add_sum_backward", "", "call", 1, setup, run_backward, check_backward},
};

int main(int argc, char **argv)
{
  cn_set_num_threads(bench_threads(argc, argv));
  return bench_serve(argc, argv, works, sizeof works / sizeof *works);
}
