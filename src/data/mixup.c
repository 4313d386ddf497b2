/* mixup.c: samples of a batch mixed with each other (Zhang et al., 2017). See data.h.
 *
 * Place in the flow: between loader and network. Invariant: each row of y stays a distribution. */
#include <math.h>

#include "data.h"

/* A gamma variate of this shape and scale 1 (Marsaglia and Tsang; a shape below 1 by the one above it). */
static double draw_gamma(cn_draws *draws, double shape)
{
  if (shape < 1) {
    double u = 1 - cn_draw_uniform(draws);
    return draw_gamma(draws, shape + 1) * pow(u, 1 / shape);
  }
  double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
  for (;;) {
    double x = cn_draw_normal(draws), v = 1 + c * x, u = 1 - cn_draw_uniform(draws);
    if (v <= 0) continue;
    v = v * v * v;
    if (log(u) < 0.5 * x * x + d * (1 - v + log(v))) return d * v;
  }
}

static double draw_beta(cn_draws *draws, double alpha)
{
  double a = draw_gamma(draws, alpha), b = draw_gamma(draws, alpha);
  return a + b > 0 ? a / (a + b) : 0.5;
}

static cn_tensor *mix(cn_tensor *t, double part)
{
  cn_tensor *other = cn_roll(t, CN_SHAPE(1), .dims = CN_INTS(0));
  return cn_add(cn_mul(t, cn_num(part)), cn_mul(other, cn_num(1 - part)));
}

/* Each sample with the one before it, the first with the last, in one proportion for the batch: torchvision's way. */
int cn_mixup(cn_tensor **x, cn_tensor **y, int64_t classes, double alpha, cn_draws *draws)
{
  if (cn_err()) return cn_err();
  if (!*x || !*y || cn_ndim(*x) < 1 || cn_ndim(*y) != 1 || cn_size(*x, 0) != cn_size(*y, 0))
    return cn_err_set(CN_ERR_SHAPE, "mixup: wants a batch x and one class for each of its samples");
  if (!(alpha > 0)) return cn_err_set(CN_ERR_VALUE, "mixup: alpha must be positive");
  cn_draws fixed = {0, 0, 0};
  double part = draw_beta(draws ? draws : &fixed, alpha);
  cn_tensor *mixed_x = mix(*x, part), *mixed_y = mix(cn_cast(cn_one_hot(*y, .num_classes = classes), CN_F32), part);
  if (!mixed_x || !mixed_y) return cn_err();
  *x = mixed_x;
  *y = mixed_y;
  return CN_OK;
}
