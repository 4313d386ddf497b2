/* own_layer.c: a layer of one's own whose gradient is one's own as well: a linear layer with weights of one bit.
 *
 * The layer computes with the signs of its weights, times one number a row. The sign has a slope of zero wherever it
 * has one, so that nothing would be learnt; a custom function hands the gradient through instead, where the weight is
 * small ("straight through"). The class around it makes it a layer like any other: it is printed, counted, saved,
 * loaded, copied, and, being registered, made by its name.
 *
 *     cc own_layer.c $(pkg-config --cflags --libs cairn) -lm && ./a.out
 *
 * It prints the network, the loss along the way, how many bits its weights take, and the accuracy on test digits.
 */
#include <cairn/cairn.h>
#include <stdio.h>

/* ---- the function: sign(w), with the gradient of w itself between -1 and 1 ---- */

static int sign_forward(cn_context *ctx, cn_tensor **outputs, cn_tensor *const *inputs)
{
  cn_tensor *w = inputs[0];
  outputs[0] = cn_where(cn_ge(w, cn_num(0)), cn_ones_like(w), cn_full_like(w, -1)); /* never 0, as cn_sign(0) is */
  return cn_context_save(ctx, inputs, 1);
}

static int sign_backward(cn_context *ctx, cn_tensor **grad_inputs, cn_tensor *const *grad_outputs)
{
  cn_tensor *inside = cn_le(cn_abs(cn_context_saved(ctx, 0)), cn_num(1));
  grad_inputs[0] = cn_mul(grad_outputs[0], inside);
  return cn_err();
}

static const cn_function sign_function = {sizeof(cn_function), "straight_through_sign", sign_forward, sign_backward,
  NULL};

static cn_tensor *straight_through_sign(cn_tensor *w)
{
  cn_tensor *y = NULL;
  return cn_function_apply(&y, 1, &sign_function, &w, 1, NULL) ? NULL : y;
}

/* ---- the class ---- */

enum { WEIGHT, SCALE }; /* its slots, in the order they are added in */

static int binary_linear_init(cn_module *m, const cn_value *args)
{
  int64_t in = args[0].u.i, out = args[1].u.i;
  cn_tensor *weight = cn_empty(CN_SHAPE(out, in));
  cn_init_uniform(weight, -0.1, 0.1);
  cn_module_add_parameter(m, "weight", weight);
  cn_module_add_parameter(m, "scale", cn_full(CN_SHAPE(out), 0.1));
  return cn_err();
}

/* x: (..., in), result: (..., out) */
static cn_tensor *binary_linear_apply(cn_module *m, cn_tensor *x)
{
  cn_tensor *bits = straight_through_sign(cn_module_slot(m, WEIGHT));
  return cn_mul(cn_linear(x, bits, NULL), cn_module_slot(m, SCALE));
}

static const cn_module_class binary_linear_class = {
  CN_MODULE_CLASS,
  .name = "BinaryLinear",
  .sig = "BinaryLinear(int in_features, int out_features) -> Module",
  .doc = "A linear layer with weights of one bit and a number a row.",
  .init = binary_linear_init,
  .apply = binary_linear_apply,
};

/* What a user of the layer calls. Owned. */
static cn_module *binary_linear(int64_t in, int64_t out)
{
  const cn_value args[] = {cn_v_int(in), cn_v_int(out)};
  return cn_module_make("BinaryLinear", args, 2);
}

/* ---- trying it ---- */

static cn_module *network(void)
{
  return cn_nn_sequential(cn_nn_flatten(), binary_linear(64, 256), cn_nn_batch_norm1d(256), cn_nn_relu(),
                          binary_linear(256, 256), cn_nn_batch_norm1d(256), cn_nn_relu(), cn_nn_linear(256, 10));
}

static void train(cn_module *net, int epochs)
{
  cn_batch b;
  cn_loader *digits = cn_loader_new(cn_digits(CN_TRAIN), .batch = 64, .shuffle = true, .seed = 1);
  cn_optim *opt = cn_optim_adam(net, .lr = 3e-3);
  for (int epoch = 1; epoch <= epochs && !cn_err(); epoch++) {
    double last = 0;
    while (cn_loader_next(&b, digits) == 1) {
      cn_scope *s = cn_scope_begin();
      cn_tensor *loss = cn_cross_entropy(cn_forward(net, b.x), b.y);
      cn_backward(loss);
      cn_optim_step(opt);
      cn_optim_zero_grad(opt);
      last = cn_item(loss);
      cn_scope_end(s);
    }
    if (epoch % 5 == 0) printf("epoch %2d  loss %.4f\n", epoch, last);
  }
  cn_optim_free(opt);
  cn_loader_free(digits);
}

static double test(cn_module *net)
{
  cn_loader *digits = cn_loader_new(cn_digits(CN_TEST), .batch = 120);
  cn_metric *accuracy = cn_metric_accuracy();
  double value = 0;
  if (digits && accuracy && !cn_evaluate(NULL, net, digits, .metrics = CN_METRICS(accuracy)))
    value = cn_metric_value(accuracy);
  cn_metric_free(accuracy);
  cn_loader_free(digits);
  return value;
}

int main(void)
{
  double accuracy = 0;
  cn_seed(1);
  cn_module_register(&binary_linear_class);
  cn_module *net = network();
  if (net) {
    cn_module_print(net);
    train(net, 15);
    accuracy = test(net);
    printf("%d weights take a bit each\naccuracy %.1f %%\n", 64 * 256 + 256 * 256, 100 * accuracy);
  }
  cn_module_release(net);
  if (cn_err()) fprintf(stderr, "%s\n", cn_err_message());
  return cn_err() || accuracy < 0.85 ? 1 : 0;
}
