/* test_cuda_rows.c: norms, softmax and cross entropy on a CUDA device over as many rows as training has, results and
 * gradients, against the CPU's in float32. Skipped, with the reason, where there is no device.
 *
 * The emulation (test_emulated_rows.c) has rows of every kind; what it does not have is a device's limits on shared
 * memory, registers and blocks, which these sizes meet. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "on_cuda.h"

/* Rows of float16 are so few that the sum of their losses, which is one too, is finite. */
static const struct kind {
  int64_t rows, n;
  cn_dtype type;
} kinds[] = {
    {32768, 768, CN_BF16}, {32768, 768, CN_F32}, {8192, 1024, CN_BF16}, {8192, 1024, CN_F32}, {8192, 1000, CN_F16},
    {4096, 4096, CN_BF16}, {2048, 4093, CN_F32}, {2048, 8192, CN_F32},  {500, 50257, CN_BF16}, {500, 30000, CN_F32},
    {70000, 64, CN_BF16},  {70000, 5, CN_F32},   {8192, 1021, CN_BF16}, {8192, 1021, CN_F32}, {4096, 4095, CN_BF16},
    {9000, 333, CN_F16},
};

/* |a - b| / |a| over all elements */
static double distance(cn_tensor *a, cn_tensor *b)
{
  a = cn_cast(a, CN_F64);
  b = cn_cast(cn_to_device(b, CN_CPU), CN_F64);
  cn_tensor *d = cn_sub(a, b);
  double size = cn_item(cn_sum(cn_mul(a, a))), off = cn_item(cn_sum(cn_mul(d, d)));
  fine();
  return sqrt(off / (size > 0 ? size : 1));
}

enum { LAYER, RMS, SOFTMAX, LOSS, OPS, LEAVES = 3 };
static const char *const names[OPS] = {"layer_norm", "rms_norm", "softmax", "cross_entropy"};

static cn_tensor *apply(int op, cn_tensor *const *x, cn_tensor *target)
{
  const int64_t n[] = {cn_size(x[0], 1)};
  if (op == LAYER) return cn_layer_norm(x[0], n, 1, x[1], x[2]);
  if (op == RMS) return cn_rms_norm(x[0], n, 1, x[1], .eps = 1e-5);
  return op == SOFTMAX ? cn_softmax(x[0], 1) : cn_cross_entropy(x[0], target, .reduction = "sum");
}

/* out[0]: the result; then gradients. Returns how many. */
static int run(cn_tensor **out, int op, cn_tensor *const *in, cn_tensor *target, cn_tensor *g, cn_device where,
               cn_dtype type)
{
  const int leaves = op == LAYER ? 3 : op == RMS ? 2 : 1;
  cn_tensor *x[LEAVES];
  for (int i = 0; i < LEAVES; i++) x[i] = cn_requires_grad(cn_to_device(cn_cast(in[i], type), where), i < leaves);
  out[0] = apply(op, x, cn_to_device(target, where));
  cn_backward(op == LOSS ? out[0] : cn_sum(cn_mul(out[0], cn_to_device(cn_cast(g, type), where))));
  for (int i = 0; i < leaves; i++) out[i + 1] = cn_grad_of(x[i]);
  fine();
  return leaves + 1;
}

static void many_rows(void **state)
{
  (void)state;
  need_gpu();
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    for (int op = 0; op < OPS; op++) {
      const struct kind *k = &kinds[i];
      cn_scope *s = cn_scope_begin();
      cn_seed(i);
      cn_tensor *in[LEAVES] = {cn_randn(CN_SHAPE(k->rows, k->n)), cn_randn(CN_SHAPE(k->n)), cn_randn(CN_SHAPE(k->n))};
      cn_tensor *target = cn_randint(0, k->n, CN_SHAPE(k->rows)), *g = cn_randn(CN_SHAPE(k->rows, k->n));
      for (int j = 0; j < LEAVES; j++) in[j] = cn_cast(in[j], k->type); /* what both are given */
      g = cn_cast(g, k->type);
      cn_tensor *want[LEAVES + 1], *have[LEAVES + 1];
      run(want, op, in, target, g, CN_CPU, CN_F32);
      int n = run(have, op, in, target, g, gpu, k->type);
      const double most = k->type == CN_F32 ? 2e-5 : k->type == CN_F16 ? 2e-3 : 1e-2;
      for (int j = 0; j < n; j++) {
        double off = distance(want[j], have[j]);
        if (!(off <= most))
          fail_msg("%s of %lld x %lld %s, part %d: off by %.3g", names[op], (long long)k->rows, (long long)k->n,
                   cn_dtype_name(k->type), j, off);
      }
      cn_scope_end(s);
    }
}

int main(int argc, char **argv)
{
  if (argc > 0) find_plugin(argv[0]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(many_rows)};
  return cmocka_run_group_tests(tests, set_up, NULL);
}
