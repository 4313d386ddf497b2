/* stream.c: cairn's side of the rows that memory limits: pointwise ops, reductions, softmax, norms, conversions and
 * movement, on about 16 million floats, which no cache holds.
 *
 * Invariant: `amount` counts what the op cannot do without: each input read once, the result written once (batch norm
 * reads its input twice).
 */
#include "side.h"

enum { VOCABULARY = 50000, WIDTH = 256, TOKENS = 32768 };

static cn_tensor *x, *y;         /* (n[0], n[1]) each */
static cn_tensor *weight, *bias; /* (n[1]) */
static cn_tensor *mean, *var;    /* (n[1]), of batch norm */
static cn_tensor *token;         /* (TOKENS) */

static void pair(void)
{
  cn_set(&x, side_fill(CN_SHAPE(now->n[0], now->n[1]), 1, 1));
  cn_set(&y, side_fill(CN_SHAPE(now->n[0], now->n[1]), 2, 1));
}

static void scaled(void)
{
  cn_set(&x, side_fill(CN_SHAPE(now->n[0], now->n[1]), 1, 1));
  cn_set(&weight, side_fill(CN_SHAPE(now->n[1]), 3, 1));
  cn_set(&bias, side_fill(CN_SHAPE(now->n[1]), 4, 1));
}

static void images(void)
{
  scaled();
  cn_set(&x, side_fill(CN_SHAPE(now->n[0], now->n[1], now->n[2], now->n[3]), 1, 1));
  cn_set(&mean, cn_zeros(CN_SHAPE(now->n[1])));
  cn_set(&var, cn_ones(CN_SHAPE(now->n[1])));
}

static void halves(void) { cn_set(&x, cn_cast(side_fill(CN_SHAPE(now->n[0], now->n[1]), 1, 1), CN_BF16)); }

static void table(void)
{
  cn_tensor *spread = cn_mul(side_fill(CN_SHAPE(TOKENS), 5, 1), cn_num(VOCABULARY));
  cn_set(&x, cn_requires_grad(side_fill(CN_SHAPE(VOCABULARY, WIDTH), 1, 1), true));
  cn_set(&y, side_fill(CN_SHAPE(TOKENS, WIDTH), 2, 1));
  cn_set(&token, cn_cast(cn_abs(spread), CN_I64));
}

static void add(void) { result[0] = cn_add(x, y); }
static void mul(void) { result[0] = cn_mul(x, y); }
static void gelu(void) { result[0] = cn_gelu(x); }
static void exponential(void) { result[0] = cn_exp(x); }
static void sum(void) { result[0] = cn_sum(x); }
static void mean_rows(void) { result[0] = cn_mean(x, .dim = CN_INTS(1)); }
static void mean_columns(void) { result[0] = cn_mean(x, .dim = CN_INTS(0)); }
static void softmax(void) { result[0] = cn_softmax(x, 1); }
static void layer_norm(void) { result[0] = cn_layer_norm(x, CN_SHAPE(now->n[1]), weight, bias); }
static void batch_norm(void) { result[0] = cn_batch_norm(x, mean, var, weight, bias, .training = true); }
static void cast_bf16(void) { result[0] = cn_cast(x, CN_BF16); }
static void cast_f32(void) { result[0] = cn_cast(x, CN_F32); }
static void transpose(void) { result[0] = cn_contiguous(cn_t(x)); }
static void cat_rows(void) { result[0] = cn_cat(((cn_tensor *[]){x, y}), 2); }
static void cat_columns(void) { result[0] = cn_cat(((cn_tensor *[]){x, y}), 2, .dim = 1); }
static void cumsum(void) { result[0] = cn_cumsum(x, 1); }

static void embedding(void)
{
  int saved = cn_no_grad_begin();
  result[0] = cn_embedding(token, x, CN_NONE);
  cn_no_grad_end(saved);
}

static void embedding_grad(void) { side_grad(cn_embedding(token, x, CN_NONE), &x, 1, y); }

#define SQUARE                                                                                                       \
  {                                                                                                                  \
    4096, 4096                                                                                                       \
  }
#define ROWS                                                                                                         \
  {                                                                                                                  \
    16384, 1024                                                                                                      \
  }
#define N (4096.0 * 4096)
#define GATHERED (4.0 * TOKENS * WIDTH)

static const struct side_case stream[] = {
    {"add", "", "byte", 12 * N, pair, add, SQUARE},
    {"mul", "", "byte", 12 * N, pair, mul, SQUARE},
    {"gelu", "", "byte", 8 * N, pair, gelu, SQUARE},
    {"exp", "", "byte", 8 * N, pair, exponential, SQUARE},
    {"sum", "", "byte", 4 * N, pair, sum, SQUARE},
    {"mean_rows", "", "byte", 4 * N, pair, mean_rows, SQUARE},
    {"mean_columns", "", "byte", 4 * N, pair, mean_columns, SQUARE},
    {"softmax", "", "byte", 8 * N, pair, softmax, ROWS},
    {"layer_norm", "", "byte", 8 * N, scaled, layer_norm, ROWS},
    {"batch_norm", "", "byte", 12.0 * 64 * 64 * 56 * 56, images, batch_norm, {64, 64, 56, 56}},
    {"cast_bf16", "", "byte", 6 * N, pair, cast_bf16, SQUARE},
    {"cast_f32", "", "byte", 6 * N, halves, cast_f32, SQUARE},
    {"transpose", "", "byte", 8 * N, pair, transpose, SQUARE},
    {"cat_rows", "", "byte", 8 * N, pair, cat_rows, {2048, 4096}},
    {"cat_columns", "", "byte", 8 * N, pair, cat_columns, {4096, 2048}},
    {"cumsum", "", "byte", 8 * N, pair, cumsum, SQUARE},
    {"embedding", "", "byte", 2 * GATHERED, table, embedding, {0}},
    {"embedding_grad", "", "byte", 3 * GATHERED + 4.0 * VOCABULARY *WIDTH, table, embedding_grad, {0}},
};

int main(int argc, char **argv) { return side_serve(argc, argv, stream, sizeof stream / sizeof *stream); }
