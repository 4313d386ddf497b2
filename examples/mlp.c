/* mlp.c: a classifier of points on two interleaved spirals: a network of two hidden layers, autograd, and
 * SGD with momentum written out.
 *
 *     cc mlp.c $(pkg-config --cflags --libs cairn) -lm && ./a.out
 */
#include <cairn/cairn.h>
#include <math.h>
#include <stdio.h>

enum { POINTS = 200, HIDDEN = 32, STEPS = 600, LAYERS = 3 };

typedef struct mlp {
  cn_tensor *weight[LAYERS];   /* (out, in) */
  cn_tensor *bias[LAYERS];     /* (out) */
  cn_tensor *velocity[2 * LAYERS];
} mlp;

/* x: (n, 2) points, y: (n) the spiral, 0 or 1, that each lies on. */
static void spirals(cn_tensor **x, cn_tensor **y)
{
  float points[2 * POINTS][2];
  int64_t labels[2 * POINTS];
  for (int i = 0; i < 2 * POINTS; i++) {
    int arm = i % 2;
    float t = (float)(i / 2) / POINTS, angle = 10 * t + 3.14159265f * (float)arm;
    points[i][0] = (0.1f + t) * cosf(angle);
    points[i][1] = (0.1f + t) * sinf(angle);
    labels[i] = arm;
  }
  *x = cn_from_data(points, CN_SHAPE(2 * POINTS, 2), CN_F32);
  *y = cn_from_data(labels, CN_SHAPE(2 * POINTS), CN_I64);
}

static void mlp_init(mlp *net)
{
  const int64_t sizes[LAYERS + 1] = {2, HIDDEN, HIDDEN, 2};
  for (int i = 0; i < LAYERS; i++) {
    cn_tensor *w = cn_mul(cn_randn(CN_SHAPE(sizes[i + 1], sizes[i])), cn_num(sqrt(2.0 / (double)sizes[i])));
    net->weight[i] = cn_requires_grad(w, true);
    net->bias[i] = cn_requires_grad(cn_zeros(CN_SHAPE(sizes[i + 1])), true);
    net->velocity[2 * i] = cn_zeros_like(net->weight[i]);
    net->velocity[2 * i + 1] = cn_zeros_like(net->bias[i]);
  }
}

static cn_tensor *mlp_forward(const mlp *net, cn_tensor *x)
{
  for (int i = 0; i < LAYERS; i++) {
    x = cn_linear(x, net->weight[i], net->bias[i]);
    if (i < LAYERS - 1) x = cn_tanh(x);
  }
  return x;
}

/* v = momentum v + g;  p = p - rate v */
static void update(cn_tensor *p, cn_tensor *v, double rate, double momentum)
{
  cn_add_(cn_mul_(v, cn_num(momentum)), cn_grad_of(p));
  cn_sub_(p, v, .alpha = rate);
  cn_zero_grad(p);
}

static void sgd(mlp *net)
{
  int saved = cn_no_grad_begin(); /* changing the parameters is no part of what is differentiated */
  for (int i = 0; i < LAYERS; i++) {
    update(net->weight[i], net->velocity[2 * i], 0.1, 0.9);
    update(net->bias[i], net->velocity[2 * i + 1], 0.1, 0.9);
  }
  cn_no_grad_end(saved);
}

int main(void)
{
  mlp net;
  cn_tensor *x, *y;
  cn_scope *all = cn_scope_begin();
  cn_seed(7);
  spirals(&x, &y);
  mlp_init(&net);

  for (int step = 0; step < STEPS && !cn_err(); step++) {
    cn_scope *s = cn_scope_begin(); /* for what this step makes; the parameters belong to the outer scope */
    cn_tensor *loss = cn_cross_entropy(mlp_forward(&net, x), y, NULL);
    cn_backward(loss);
    sgd(&net);
    if (step % 100 == 0) printf("step %3d  loss %.4f\n", step, cn_item(loss));
    cn_scope_end(s);
  }

  cn_tensor *right = cn_eq(cn_argmax(mlp_forward(&net, x), 1), y);
  double accuracy = cn_item(cn_mean(cn_cast(right, CN_F32)));
  printf("accuracy %.1f %%\n", 100 * accuracy);
  cn_scope_end(all);

  if (cn_err()) printf("%s\n", cn_err_message());
  return cn_err() || accuracy < 0.98 ? 1 : 0;
}
