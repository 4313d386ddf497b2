/* conv.c: cairn's side of the convolutions: 3x3, 1x1, depthwise, strided and a network's first layer; forward (no
 * suffix), the gradient of the input (_gx) and of the weight (_gw); one image and eight.
 *
 * Invariant: both memory orders are variants, as on the peer's side, and the better one counts.
 */
#include "side.h"

#include <cairn/ext/parts.h>

/* Places in n[]: a case's images, channels in, height and width, channels out, kernel, stride, groups, memory order. */
enum { IMAGES, IN, SIDE, OUT, KERNEL, STRIDE, GROUPS, LAST };

static cn_tensor *x[2], *w[2], *g[2]; /* input, weight, gradient of the result; contiguous and channels-last */

static void both_orders(cn_tensor **t, cn_tensor *value)
{
  cn_set(&t[0], value);
  cn_set(&t[1], cn_channels_last(value));
}

static void prepare(void)
{
  const int64_t *n = now->n, k = n[KERNEL];
  int64_t side = (n[SIDE] + 2 * (k / 2) - k) / n[STRIDE] + 1;
  both_orders(x, side_fill(CN_SHAPE(n[IMAGES], n[IN], n[SIDE], n[SIDE]), 1, 1));
  both_orders(w, side_fill(CN_SHAPE(n[OUT], n[IN] / n[GROUPS], k, k), 2, 0.1f));
  both_orders(g, side_fill(CN_SHAPE(n[IMAGES], n[OUT], side, side), 3, 1));
}

#define PAIR(v) ((const int64_t[]){(v), (v)}), 2

static void forward(void)
{
  const int64_t *n = now->n, s = n[STRIDE], p = n[KERNEL] / 2;
  result[0] = cn_conv2d(x[n[LAST]], w[n[LAST]], NULL, .stride = CN_INTS(s), .padding = CN_INTS(p), .groups = n[GROUPS]);
}

static void grad_input(void)
{
  const int64_t *n = now->n;
  result[0] = cn_conv2d_grad_input(g[n[LAST]], w[n[LAST]], cn_shape(x[0]), 4, PAIR(n[STRIDE]), PAIR(n[KERNEL] / 2),
                                   PAIR(1), n[GROUPS]);
}

static void grad_weight(void)
{
  const int64_t *n = now->n;
  result[0] = cn_conv2d_grad_weight(g[n[LAST]], x[n[LAST]], cn_shape(w[0]), 4, PAIR(n[STRIDE]), PAIR(n[KERNEL] / 2),
                                    PAIR(1), n[GROUPS]);
}

#define FLOPS(b, in, side, out, k, s, groups)                                                                        \
  (2.0 * (b) * (out) * ((side) / (s)) * ((side) / (s)) * (in) / (groups) * (k) * (k))
#define WAY(name, call, ...)                                                                                         \
  {name, "", "flop", FLOPS(__VA_ARGS__), prepare, call, {__VA_ARGS__, 0}},                                           \
  {                                                                                                                  \
    name, "channels_last", "flop", FLOPS(__VA_ARGS__), prepare, call, { __VA_ARGS__, 1 }                             \
  }
#define WAYS(name, ...)                                                                                              \
  WAY(name, forward, __VA_ARGS__), WAY(name "_gx", grad_input, __VA_ARGS__), WAY(name "_gw", grad_weight, __VA_ARGS__)
#define BATCHES(name, ...) WAYS(name "_b1", 1, __VA_ARGS__), WAYS(name "_b8", 8, __VA_ARGS__)

/* channels in, height and width, channels out, kernel, stride, groups; torch_conv.py has the same table */
static const struct side_case conv[] = {
    BATCHES("conv3x3", 64, 56, 64, 3, 1, 1),
    BATCHES("conv1x1", 256, 28, 128, 1, 1, 1),
    BATCHES("conv_depthwise", 128, 56, 128, 3, 1, 128),
    BATCHES("conv_strided", 64, 56, 128, 3, 2, 1),
    BATCHES("conv_first", 3, 224, 64, 7, 2, 1),
};

int main(int argc, char **argv) { return side_serve(argc, argv, conv, sizeof conv / sizeof *conv); }
