/* gemm.c: cairn's side of the f32 matrix product, square, through cn_matmul.
 *
 * Invariant: every call makes a new result, as a program's would; the peers write into memory that is
 * there already, so whatever the op and its allocation cost counts against cairn.
 */
#include "../serve.h"

#include <cairn/cairn.h>

static cn_tensor *a, *b; /* (size, size) each */
static int64_t size;

static int setup(int64_t n)
{
  size_t count = (size_t)(n * n);
  float *room = malloc(count * sizeof *room);
  if (!room) return -1;
  cn_scope *s = cn_scope_begin();
  size = n;
  bench_fill(room, count, 1, 1);
  cn_set(&a, cn_from_data(room, CN_SHAPE(n, n), CN_F32));
  bench_fill(room, count, 2, 1);
  cn_set(&b, cn_from_data(room, CN_SHAPE(n, n), CN_F32));
  cn_scope_end(s);
  free(room);
  if (cn_err()) fprintf(stderr, "gemm: %s\n", cn_err_message());
  return cn_err();
}

static int setup_256(void)
{
  return setup(256);
}

static int setup_1024(void)
{
  return setup(1024);
}

static int setup_2048(void)
{
  return setup(2048);
}

static void run(long n)
{
  for (long i = 0; i < n; i++) {
    cn_scope *s = cn_scope_begin();
    cn_matmul(a, b);
    cn_scope_end(s);
  }
  bench_require(!cn_err(), cn_err_message());
}

static double check(void)
{
  cn_scope *s = cn_scope_begin();
  const float *c = cn_data(cn_matmul(a, b));
  double value = c ? (double)c[size / 2 * size + size / 3] : 0;
  cn_scope_end(s);
  return value;
}

static const struct bench_work works[] = {
  {"gemm_256", "", "flop", 2.0 * 256 * 256 * 256, setup_256, run, check},
  {"gemm_1024", "", "flop", 2.0 * 1024 * 1024 * 1024, setup_1024, run, check},
  {"gemm_2048", "", "flop", 2.0 * 2048 * 2048 * 2048, setup_2048, run, check},
};

int main(int argc, char **argv)
{
  cn_set_num_threads(bench_threads(argc, argv));
  return bench_serve(argc, argv, works, sizeof works / sizeof *works);
}
