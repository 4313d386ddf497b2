/* attention.c: cairn's side of scaled dot-product attention, forward and (_grad) forward with backward, and how its
 * memory grows with the sequence.
 *
 * Invariant: flops are those of the products, without what a backward computes again; a causal one counts half.
 */
#include "side.h"

enum { BATCH, HEADS, LENGTH, CAUSAL, WIDTH = 64 };

static cn_tensor *qkv[3], *g; /* (batch, heads, length, WIDTH) each */

static void prepare(void)
{
  const int64_t *n = now->n;
  for (int i = 0; i < 3; i++)
    cn_set(&qkv[i],
           cn_requires_grad(side_fill(CN_SHAPE(n[BATCH], n[HEADS], n[LENGTH], WIDTH), 1 + (uint64_t)i, 1), true));
  cn_set(&g, side_fill(CN_SHAPE(n[BATCH], n[HEADS], n[LENGTH], WIDTH), 4, 1));
}

static cn_tensor *attention(void)
{
  return cn_scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], .is_causal = now->n[CAUSAL]);
}

static void forward(void)
{
  int saved = cn_no_grad_begin();
  result[0] = attention();
  cn_no_grad_end(saved);
}

static void with_backward(void) { side_grad(attention(), qkv, 3, g); }

/* The most memory that one forward and backward over `length` had beside its inputs. */
static double peak_bytes(int64_t length)
{
  struct side_case one = *now;
  cn_memory_stats before, after;
  const struct side_case *saved = now;
  cn_scope *s = cn_scope_begin();
  one.n[LENGTH] = length;
  now = &one;
  prepare();
  cn_memory_trim();
  cn_memory_get_stats(&before);
  cn_memory_reset_peak();
  with_backward();
  cn_memory_get_stats(&after);
  now = saved;
  cn_scope_end(s);
  return (double)(after.peak - before.in_use);
}

/* What twice the length takes, over what it takes: 2 when memory is linear in it, 4 when it keeps the scores. */
static void memory_growth(void)
{
  double once = peak_bytes(now->n[LENGTH]), twice = peak_bytes(2 * now->n[LENGTH]);
  memset(result, 0, sizeof result);
  result[0] = cn_num(twice / once);
}

#define FLOPS(b, h, t, causal) (4.0 * (b) * (h) * (t) * (t)*WIDTH / (1 + (causal)))
#define CASE(name, ...)                                                                                              \
  {name, "", "flop", FLOPS(__VA_ARGS__), prepare, forward, {__VA_ARGS__}},                                           \
  {                                                                                                                  \
    name "_grad", "", "flop", 3 * FLOPS(__VA_ARGS__), prepare, with_backward, { __VA_ARGS__ }                        \
  }

/* batch, heads, length, causal; torch_attention.py has the same table */
static const struct side_case cases_of_attention[] = {
    CASE("attention_128", 8, 8, 128, 0),
    CASE("attention_512", 2, 8, 512, 0),
    CASE("attention_1024", 1, 8, 1024, 0),
    CASE("attention_1024_causal", 1, 8, 1024, 1),
    CASE("attention_4096", 1, 2, 4096, 0),
    {"attention_memory", "", "call", 1, prepare, memory_growth, {1, 2, 2048, 0}},
};

int main(int argc, char **argv)
{
  return side_serve(argc, argv, cases_of_attention, sizeof cases_of_attention / sizeof *cases_of_attention);
}
