/* lstm.c: cairn's side of an LSTM over a sequence, forward and (_grad) forward with backward.
 *
 * Invariant: flops are those of the two products of every step; backward counts twice that.
 */
#include "side.h"

enum { STEPS, BATCH, IN, HIDDEN, PARAMETERS = 4 };

static cn_tensor *input[1 + PARAMETERS]; /* (steps, batch, in); (4 H, in), (4 H, H), (4 H), (4 H) */
static cn_tensor *start[2];              /* (1, batch, H) each */
static cn_tensor *g;                     /* (steps, batch, H) */

static void keep(cn_tensor **slot, cn_tensor *t) { cn_set(slot, cn_requires_grad(t, true)); }

static void prepare(void)
{
  const int64_t *n = now->n, gates = 4 * n[HIDDEN];
  keep(&input[0], side_fill(CN_SHAPE(n[STEPS], n[BATCH], n[IN]), 1, 1));
  keep(&input[1], side_fill(CN_SHAPE(gates, n[IN]), 2, 0.0625f));
  keep(&input[2], side_fill(CN_SHAPE(gates, n[HIDDEN]), 3, 0.0625f));
  keep(&input[3], side_fill(CN_SHAPE(gates), 4, 0.0625f));
  keep(&input[4], side_fill(CN_SHAPE(gates), 5, 0.0625f));
  for (int i = 0; i < 2; i++) cn_set(&start[i], cn_zeros(CN_SHAPE(1, n[BATCH], n[HIDDEN])));
  cn_set(&g, side_fill(CN_SHAPE(n[STEPS], n[BATCH], n[HIDDEN]), 6, 1));
}

static cn_tensor *lstm(bool train)
{
  cn_tensor *out = NULL;
  cn_lstm(&out, NULL, NULL, input[0], start, 2, input + 1, PARAMETERS, true, 1, 0, train, false, false);
  return out;
}

static void forward(void)
{
  int saved = cn_no_grad_begin();
  result[0] = lstm(false);
  cn_no_grad_end(saved);
}

static void with_backward(void) { side_grad(lstm(true), input, 1 + PARAMETERS, g); }

#define FLOPS(t, b, in, h) (8.0 * (t) * (b) * (h) * ((in) + (h)))
#define CASE(name, ...)                                                                                              \
  {name, "", "flop", FLOPS(__VA_ARGS__), prepare, forward, {__VA_ARGS__}},                                           \
  {                                                                                                                  \
    name "_grad", "", "flop", 3 * FLOPS(__VA_ARGS__), prepare, with_backward, { __VA_ARGS__ }                        \
  }

/* steps, batch, inputs, hidden; torch_lstm.py has the same table */
static const struct side_case sequences[] = {
    CASE("lstm", 64, 32, 128, 256),
    CASE("lstm_small", 32, 8, 32, 64),
};

int main(int argc, char **argv) { return side_serve(argc, argv, sequences, sizeof sequences / sizeof *sequences); }
