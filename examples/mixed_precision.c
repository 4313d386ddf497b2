/* mixed_precision.c: the same training in float32, in bfloat16 and in float16 with a gradient scaler.
 *
 * Inside cn_autocast_begin and cn_autocast_end products and convolutions compute in the shorter type, losses and what
 * needs range in float32; parameters and what the optimiser keeps stay float32. bfloat16 has the range of float32 and
 * needs nothing else. float16 is finer but ends at 65504 and loses gradients below 6e-8: a scaler multiplies the loss,
 * divides the gradients again, and leaves out steps in which something overflowed.
 *
 *     cc mixed_precision.c $(pkg-config --cflags --libs cairn) -lm && ./a.out
 *
 * It prints, for each type, the last loss, the test accuracy in that type, steps that were left out and the time. What
 * is faster depends on the machine: shorter types pay on GPUs and on processors that multiply them in hardware.
 */
#include <cairn/cairn.h>
#include <cairn/ext/system.h>
#include <stdio.h>

enum { EPOCHS = 8 };

static cn_module *network(void)
{
  return cn_nn_sequential(cn_nn_conv2d(1, 32, 3, .padding = CN_INTS(1)), cn_nn_relu(), cn_nn_max_pool2d(2),
                          cn_nn_conv2d(32, 64, 3, .padding = CN_INTS(1)), cn_nn_relu(), cn_nn_flatten(),
                          cn_nn_linear(64 * 4 * 4, 10));
}

/* One step; returns the loss. *skipped counts those that the scaler left out. dtype CN_DTYPE_NONE: plain float32. */
static double step(cn_module *net, cn_optim *opt, cn_grad_scaler *scaler, const cn_batch *b, cn_dtype dtype,
                   int *skipped)
{
  cn_scope *s = cn_scope_begin();

  /* Forward and loss in mixed precision. Backward stands outside: each gradient is computed in the type that its op
   * computed in. */
  int saved = cn_autocast_begin(dtype);
  cn_tensor *loss = cn_cross_entropy(cn_forward(net, b->x), b->y);
  cn_autocast_end(saved);

  cn_backward(cn_grad_scaler_scale(scaler, loss));
  cn_grad_scaler_unscale(scaler, opt); /* so that clipping sees the true gradients; not needed without it */
  cn_optim_clip_norm(opt, 5.0);
  if (cn_grad_scaler_step(scaler, opt) == 0) ++*skipped;
  cn_grad_scaler_update(scaler); /* a smaller scale after an overflow, a larger one after many good steps */
  cn_optim_zero_grad(opt);

  double value = cn_item(loss);
  cn_scope_end(s);
  return value;
}

/* Trains in a type and prints a line; returns the test accuracy. */
static double train(cn_dtype dtype)
{
  cn_seed(1); /* the same start and the same batches for all */
  int skipped = 0;
  double loss = 0, accuracy = 0, start = cn_clock();
  cn_module *net = network();
  cn_optim *opt = cn_optim_adamw(net, .lr = 2e-3);
  cn_loader *digits = cn_loader_new(cn_digits(CN_TRAIN), .batch = 64, .shuffle = true, .seed = 1);
  cn_loader *test = cn_loader_new(cn_digits(CN_TEST), .batch = 120);
  cn_metric *metric = cn_metric_accuracy();
  /* Only float16 needs scaling; a disabled scaler lets the same loop serve all three. The scale begins far too high
   * here, so that one sees how it finds its way down. */
  cn_grad_scaler *scaler = cn_grad_scaler_new(.init_scale = 1048576.0 * 65536.0, .disabled = dtype != CN_F16);

  cn_batch b;
  if (net && opt && digits && test && metric && scaler) {
    for (int epoch = 0; epoch < EPOCHS && !cn_err(); epoch++)
      while (cn_loader_next(&b, digits) == 1) loss = step(net, opt, scaler, &b, dtype, &skipped);
    double seconds = cn_clock() - start;
    /* cn_fit and cn_evaluate do all of this by themselves when they are told .autocast. */
    if (!cn_evaluate(NULL, net, test, .metrics = CN_METRICS(metric), .autocast = dtype))
      accuracy = cn_metric_value(metric);
    printf("%-9s %9.4f %9.1f %% %8d %9.2f s\n", dtype ? cn_dtype_name(dtype) : "float32", loss, 100 * accuracy,
           skipped, seconds);
    if (dtype == CN_F16) printf("          the scale went from 2^36 to %.0f\n", cn_grad_scaler_get(scaler));
  }
  cn_grad_scaler_free(scaler);
  cn_metric_free(metric);
  cn_loader_free(test);
  cn_loader_free(digits);
  cn_optim_free(opt);
  cn_module_release(net);
  return accuracy;
}

int main(void)
{
  static const cn_dtype types[] = {CN_DTYPE_NONE, CN_BF16, CN_F16};
  double worst = 1;
  printf("type           loss    accuracy  skipped      time\n");
  for (int i = 0; i < 3 && !cn_err(); i++) {
    double accuracy = train(types[i]);
    if (accuracy < worst) worst = accuracy;
  }
  if (cn_err()) fprintf(stderr, "%s\n", cn_err_message());
  return cn_err() || worst < 0.88 ? 1 : 0;
}
