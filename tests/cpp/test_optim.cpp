/* test_optim.cpp: optimisers, schedules, clipping, loss scaling, averages. */
#include "check.hpp"

using namespace cn;

static double train(Optimizer opt, const Tensor &x, int steps)
{
  Tensor loss;
  for (int i = 0; i < steps; i++) {
    opt.zero_grad();
    loss = (x * x).sum();
    loss.backward();
    opt.step();
  }
  return loss.item();
}

/* The loss of the eighth step, as PyTorch has it. */
TEST(every_optimiser_descends_as_pytorchs)
{
  auto start = [] { return tensor({1.0, -2.0}, options().requires_grad()); };
  auto is = [](double loss, double wanted) { return check::near(loss / wanted, 1, 1e-5); };
  Tensor x = start();
  CHECK(is(train(SGD({x}, 0.1), x, 8), 0.219902262));
  x = start();
  CHECK(is(train(SGD({x}, SGDOptions(0.05).momentum(0.5).nesterov(true)), x, 8), 0.207694113));
  x = start();
  CHECK(is(train(Adam({x}, AdamOptions(0.3).betas({0.5, 0.9})), x, 8), 0.0832051709));
  x = start();
  CHECK(is(train(AdamW({x}, AdamWOptions().lr(0.3).weight_decay(0.1)), x, 8), 0.217172787));
  x = start();
  CHECK(is(train(RMSprop({x}, 0.1), x, 8), 0.000951397931));
  x = start();
  CHECK(is(train(Adagrad({x}, 0.5), x, 8), 0.234060287));
}

TEST(steps_by_formula)
{
  Tensor x = tensor({1.0}, options().requires_grad());
  SGD opt({x}, SGDOptions(0.1).momentum(0.9));
  train(opt, x, 1);
  CHECK(check::near(x.item(), 0.8));
  train(opt, x, 1);
  CHECK(check::near(x.item(), 0.8 - 0.1 * (0.9 * 2 + 1.6)));
  opt.set_lr(0.5);
  CHECK(opt.lr() == 0.5 && opt.option("momentum") == 0.9 && opt.name() == "SGD" && opt.parameters().size() == 1);
}

TEST(groups_and_state)
{
  Linear fc(2, 2);
  Adam opt(fc, AdamOptions(0.01));
  Tensor extra = ones({2}, options().requires_grad());
  size_t group = opt.add_param_group({extra});
  opt.set_option("lr", 0.5, group);
  CHECK(opt.groups() == 2 && opt.lr() == 0.01 && opt.lr(1) == 0.5);
  (fc(ones({1, 2})).sum() + extra.sum()).backward();
  opt.step();
  CHECK(check::near(extra[0].item(), 0.5));
  Tree state = opt.state_dict();
  CHECK(state["param_groups"].size() == 2 && state["state"].size() == 3);
  Adam other(fc);
  other.add_param_group({extra});
  other.load_state_dict(state);
  CHECK(other.lr(1) == 0.5);
  CHECK_THROWS(CN_ERR_VALUE, SGD({extra}, -1.0));
  CHECK_THROWS(CN_ERR_VALUE, opt.set_option("no_such", 1));
}

TEST(closures)
{
  Tensor x = tensor({3.0, -4.0}, options().requires_grad());
  LBFGS opt({x}, LBFGSOptions(1).line_search_fn("strong_wolfe"));
  int runs = 0;
  Tensor first = opt.step([&] {
    opt.zero_grad();
    Tensor loss = ((x - 1) * (x - 1)).sum();
    loss.backward();
    runs++;
    return loss;
  });
  CHECK(first.item() == 29 && runs > 1 && x.detach().allclose(ones({2}), 1e-6, 1e-6));
  try {
    opt.step([]() -> Tensor { throw std::length_error("closure"); });
    CHECK(false);
  } catch (const std::length_error &) {
  }
}

TEST(schedules)
{
  Tensor x = ones({1}, options().requires_grad());
  SGD opt({x}, 1.0);
  {
    StepLR lr(opt, 2, StepLROptions().gamma(0.5));
    for (int i = 0; i < 4; i++) lr.step();
    CHECK(check::near(opt.lr(), 0.25) && check::near(lr.lr(), 0.25));
    Tree state = lr.state_dict();
    CHECK(state["last_epoch"].as_int() == 4);
  }
  SGD second({x}, 1.0);
  LambdaLR lambda(second, [](int64_t epoch) { return 1.0 / static_cast<double>(1 + epoch); });
  lambda.step();
  CHECK(check::near(second.lr(), 0.5));
  SGD third({x}, 1.0);
  SequentialLR chain(third, {ConstantLR(third, 0.1, 2), ExponentialLR(third, 0.5)}, {2});
  CHECK(check::near(third.lr(), 0.1));
  for (int i = 0; i < 3; i++) chain.step();
  CHECK(check::near(third.lr(), 0.5));
  SGD fourth({x}, 1.0);
  ReduceLROnPlateau plateau(fourth, ReduceLROnPlateauOptions().patience(0).factor(0.1));
  plateau.step(1.0);
  plateau.step(2.0);
  CHECK(check::near(fourth.lr(), 0.1));
  OneCycleLR cycle(fourth, 0.5, OneCycleLROptions().total_steps(10));
  cycle.step();
  CHECK(fourth.lr() < 0.5);
}

TEST(clipping_and_scaling)
{
  Tensor x = tensor({3.0, 4.0}, options().requires_grad());
  (x * x).sum().mul(0.5).backward();
  CHECK(clip_grad_norm_({x}, 1.0).item<float>() == 5 && check::near(x.grad().norm().item(), 1));
  clip_grad_value_({x}, 0.1);
  CHECK(x.grad().max().item<float>() <= 0.1f);
  SGD opt({x}, 1.0);
  GradScaler scaler(GradScalerOptions().init_scale(8));
  opt.zero_grad();
  Tensor scaled = scaler.scale(x.sum());
  CHECK(scaled.item<float>() == 56);
  scaled.backward();
  CHECK(scaler.step(opt) && x.detach().equal(tensor({2.0, 3.0})));
  scaler.update();
  opt.zero_grad();
  scaler.scale(x.sum() * INFINITY).backward();
  CHECK(!scaler.step(opt) && x.detach().equal(tensor({2.0, 3.0})));
  scaler.update();
  CHECK(scaler.get_scale() == 4);
}

TEST(averages)
{
  Sequential net(Linear(1, 1));
  AveragedModel ema(net, 0.5);
  ema.update(net);
  {
    NoGradGuard guard;
    net.parameters()[0].fill_(3);
  }
  ema.update(net);
  CHECK(ema.count() == 2 && ema.module().parameters()[0].item<float>() != 3);
}

TEST_MAIN
