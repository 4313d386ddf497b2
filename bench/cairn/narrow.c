/* narrow.c: cairn's side of products of bfloat16, summed in float32, and of int8, summed in int32.
 *
 * Invariant: the numbers are those of bench_fill, rounded; int8's are between -100 and 100.
 */
#include "side.h"

static cn_tensor *a, *b, *bias, *grad; /* (n, n); linear: (n[0], n[1]), (n[2], n[1]), (n[2]), (n[0], n[2]) */

static cn_tensor *half(const int64_t *shape, size_t ndim, uint64_t seed)
{
  return cn_cast(side_fill(shape, ndim, seed, 1), CN_BF16);
}

static void prepare_mm(void)
{
  cn_set(&a, half(CN_SHAPE(now->n[0], now->n[0]), 1));
  cn_set(&b, half(CN_SHAPE(now->n[0], now->n[0]), 2));
}

static void prepare_int8(void)
{
  cn_set(&a, cn_cast(side_fill(CN_SHAPE(now->n[0], now->n[0]), 1, 100), CN_I8));
  cn_set(&b, cn_cast(side_fill(CN_SHAPE(now->n[0], now->n[0]), 2, 100), CN_I8));
}

static void prepare_linear(void)
{
  cn_set(&a, cn_requires_grad(half(CN_SHAPE(now->n[0], now->n[1]), 1), true));
  cn_set(&b, cn_requires_grad(half(CN_SHAPE(now->n[2], now->n[1]), 2), true));
  cn_set(&bias, cn_requires_grad(half(CN_SHAPE(now->n[2]), 3), true));
  cn_set(&grad, half(CN_SHAPE(now->n[0], now->n[2]), 4));
}

static void mm(void) { result[0] = cn_mm(a, b); }

static void mm_int8(void) { result[0] = cn_mm_dtype(a, b, CN_I32); }

static void linear(void)
{
  int saved = cn_no_grad_begin();
  result[0] = cn_linear(a, b, bias);
  cn_no_grad_end(saved);
}

static void linear_grad(void)
{
  cn_tensor *in[] = {a, b, bias};
  side_grad(cn_linear(a, b, bias), in, 3, grad);
}

#define CUBE(n) (2.0 * n * n * n)
#define LINEAR(m) (2.0 * m * 1024 * 4096)

/* torch_narrow.py has the same table. */
static const struct side_case narrow[] = {
    {"mm_bf16_512", "", "flop", CUBE(512), prepare_mm, mm, {512}},
    {"mm_bf16_1024", "", "flop", CUBE(1024), prepare_mm, mm, {1024}},
    {"mm_bf16_2048", "", "flop", CUBE(2048), prepare_mm, mm, {2048}},
    {"linear_bf16_1", "", "flop", LINEAR(1), prepare_linear, linear, {1, 1024, 4096}},
    {"linear_bf16_8", "", "flop", LINEAR(8), prepare_linear, linear, {8, 1024, 4096}},
    {"linear_bf16_512", "", "flop", LINEAR(512), prepare_linear, linear, {512, 1024, 4096}},
    {"linear_bf16_512_grad", "", "flop", 3 * LINEAR(512), prepare_linear, linear_grad, {512, 1024, 4096}},
    {"mm_int8_1024", "", "flop", CUBE(1024), prepare_int8, mm_int8, {1024}},
    {"mm_int8_2048", "", "flop", CUBE(2048), prepare_int8, mm_int8, {2048}},
};

int main(int argc, char **argv) { return side_serve(argc, argv, narrow, sizeof narrow / sizeof *narrow); }
