/* cliff.c: times one op at a time at any size and layout, for bench/cliff, which looks for sizes that are slower than
 * their neighbours.
 *
 * Reads lines `OP LAYOUT A B C SECONDS`, where A, B and C are rows, columns and dimension (of matmul: m, k and n; of
 * conv: channels, side of the image and of the window; of attention: queries, keys and width), and answers each with
 * one JSON line: the least seconds a call took. Invariant: all inputs lie in two buffers that are
 * filled once, and every answer starts with an empty cache of memory, so no size profits from the one before.
 */
#include "../serve.h"

#include <cairn/cairn.h>

enum { MOST = 100000000, BATCHES = 8, HEADS = 4 };

struct request {
  char op[16], layout[16];
  long a, b, c;
  double seconds;
};

static float *left, *right; /* MOST numbers each */
static cn_tensor *x, *y, *z;
static int64_t dim, stride, groups;
static bool causal;

static void add(void) { cn_add(x, y); }
static void sum(void) { cn_sum(x, .dim = CN_INTS(dim)); }
static void softmax(void) { cn_softmax(x, dim); }
static void matmul(void) { cn_matmul(x, y); }

static void conv(void)
{
  int64_t around = cn_size(y, 2) / 2;
  cn_conv2d(x, y, NULL, .stride = CN_INTS(stride), .padding = CN_INTS(around), .groups = groups);
}

static void attention(void) { cn_scaled_dot_product_attention(x, y, z, NULL, .is_causal = causal); }

static void sort(void)
{
  cn_tensor *values, *indices;
  cn_sort(&values, &indices, x, .dim = dim ? dim : CN_ZERO);
}

static const struct {
  const char *name;
  void (*call)(void);
} ops[] = {{"add", add},   {"sum", sum},   {"softmax", softmax},    {"matmul", matmul},
         {"sort", sort}, {"conv", conv}, {"attention", attention}};

/* (1, a, b, c) over a buffer, row-major, or with its dims in that order of memory. */
static cn_tensor *block(float *data, int64_t a, int64_t b, int64_t c, int64_t step_a, int64_t step_b, int64_t step_c)
{
  const int64_t shape[] = {1, a, b, c}, strides[] = {a * b * c, step_a, step_b, step_c};
  bench_require(a * b * c <= MOST, "too large");
  return cn_from_borrowed(data, shape, strides, 4, CN_F32, NULL, NULL);
}

/* Layouts: plain; last, channels innermost; strided, every second window; depthwise. */
static void prepare_conv(const struct request *r)
{
  bool last = !strcmp(r->layout, "last"), depthwise = !strcmp(r->layout, "depthwise");
  int64_t each = depthwise ? 1 : r->a, taps = r->c * r->c;
  stride = !strcmp(r->layout, "strided") ? 2 : 1;
  groups = depthwise ? r->a : 1;
  x = last ? block(left, r->a, r->b, r->b, 1, r->b * r->a, r->a) : block(left, r->a, r->b, r->b, r->b * r->b, r->b, 1);
  y = cn_from_borrowed(right, (int64_t[]){r->a, each, r->c, r->c}, NULL, 4, CN_F32, NULL, NULL);
  bench_require(r->a * each * taps <= MOST, "too large");
}

/* Layouts: plain; causal; heads, where a position's heads lie beside each other. */
static void prepare_attention(const struct request *r)
{
  bool beside = !strcmp(r->layout, "heads");
  int64_t across = beside ? r->c : 0, along = beside ? HEADS * r->c : r->c;
  causal = !strcmp(r->layout, "causal");
  x = block(left, HEADS, r->a, r->c, across ? across : r->a * r->c, along, 1);
  y = block(right, HEADS, r->b, r->c, across ? across : r->b * r->c, along, 1);
  z = block(right + HEADS * r->b * r->c, HEADS, r->b, r->c, across ? across : r->b * r->c, along, 1);
  bench_require(2 * HEADS * r->b * r->c <= MOST, "too large");
}

/* (rows, cols) over a buffer: as it lies there, or `transposed`, so that columns lie together. */
static cn_tensor *matrix(float *data, int64_t rows, int64_t cols, bool transposed)
{
  const int64_t shape[] = {rows, cols}, strides[] = {1, rows};
  bench_require(rows * cols <= MOST, "too large");
  return cn_from_borrowed(data, shape, transposed ? strides : NULL, 2, CN_F32, NULL, NULL);
}

/* Sets x and y, borrowed from the scope. Layouts: plain; transposed, both inputs; first or second, that one of them;
 * row and column, where one stands for all of them (of x, or of add's y); batch, where eight matrices meet one. */
static void prepare(const struct request *r)
{
  const char *how = r->layout;
  if (!strcmp(r->op, "conv")) {
    prepare_conv(r);
    return;
  }
  if (!strcmp(r->op, "attention")) {
    prepare_attention(r);
    return;
  }
  bool product = !strcmp(r->op, "matmul"), pair = !strcmp(r->op, "add");
  bool row = !strcmp(how, "row"), column = !strcmp(how, "column"), transposed = !strcmp(how, "transposed");
  int64_t rows = row ? 1 : r->a, cols = column ? 1 : r->b;
  if (product) {
    x = matrix(left, !strcmp(how, "batch") ? 8 * r->a : r->a, r->b, transposed || !strcmp(how, "first"));
    y = matrix(right, r->b, r->c, transposed || !strcmp(how, "second"));
    if (!strcmp(how, "batch")) x = cn_reshape(x, CN_SHAPE(8, r->a, r->b));
    return;
  }
  dim = r->c;
  x = matrix(left, pair ? r->a : rows, pair ? r->b : cols, transposed || !strcmp(how, "first"));
  y = matrix(right, rows, cols, transposed);
  if (!pair && (row || column)) x = cn_expand(x, CN_SHAPE(r->a, r->b));
}

static double seconds_of(void (*call)(void), long n)
{
  double start = bench_now();
  for (long i = 0; i < n; i++) {
    cn_scope *s = cn_scope_begin();
    call();
    cn_scope_end(s);
  }
  return (bench_now() - start) / (double)n;
}

/* The least of many short batches: what the machine does when it is left alone. */
static double least(void (*call)(void), double budget)
{
  double begin = bench_now(), best = seconds_of(call, 1); /* the first one also warms up */
  do {
    double n = budget / BATCHES / best, took = seconds_of(call, n < 1 ? 1 : (long)n);
    if (took < best) best = took;
  } while (bench_now() - begin < budget);
  return best;
}

static void answer(const struct request *r)
{
  size_t i = 0, count = sizeof ops / sizeof *ops;
  while (i < count && strcmp(ops[i].name, r->op)) i++;
  bench_require(i < count, "no such op");
  cn_memory_trim();
  cn_scope *s = cn_scope_begin();
  prepare(r);
  printf("{\"seconds\": %.9g}\n", least(ops[i].call, r->seconds));
  cn_scope_end(s);
  bench_require(!cn_err(), cn_err_message());
}

int main(int argc, char **argv)
{
  char line[256];
  left = malloc(MOST * sizeof *left);
  right = malloc(MOST * sizeof *right);
  bench_require(left && right, "out of memory");
  bench_fill(left, MOST, 1, 1);
  bench_fill(right, MOST, 2, 1);
  cn_set_num_threads(bench_threads(argc, argv));
  while (fgets(line, sizeof line, stdin)) {
    struct request r;
    int fields = sscanf(line, "%15s %15s %ld %ld %ld %lf", r.op, r.layout, &r.a, &r.b, &r.c, &r.seconds);
    bench_require(fields == 6, "not understood");
    answer(&r);
    fflush(stdout);
  }
  return 0;
}
