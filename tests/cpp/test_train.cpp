/* test_train.cpp: fit with callbacks, metrics, checkpoints, the zoo, logs; and that nothing leaks. */
#include "check.hpp"

#include <cstdio>
#include <filesystem>

using namespace cn;

struct Net : Module {
  Linear fc1 = register_module("fc1", Linear(64, 32)), fc2 = register_module("fc2", Linear(32, 10));
  Tensor forward(const Tensor &x) { return fc2(relu(fc1(x.flatten(1)))); }
};

TEST(fitting)
{
  manual_seed(1);
  Net net;
  Adam opt(net.parameters(), 1e-2);
  DataLoader train(digits(Train), DataLoaderOptions(64).shuffle(true).seed(1)), test(digits(Test), 64);
  Metric accuracy = Metric::accuracy();
  int epochs = 0, batches = 0;
  double best = 0;
  bool whole = fit(net, opt, train, FitOptions(3).validation(test).metric(accuracy).clip_norm(5)
                                        .batch_end([&](Fitting &f) { batches += f.output().defined(); })
                                        .epoch_end([&](Fitting &f) {
                                          epochs++;
                                          best = f.value("val_accuracy");
                                        }));
  CHECK(whole && epochs == 3 && batches == 3 * 23 && best > 0.85);
  accuracy.reset();
  double loss = evaluate(net, test, FitOptions().metric(accuracy));
  CHECK(loss < 0.6 && check::near(accuracy.value(), best, 1e-6));
  CHECK(predict(net, test).shape() == Ints({360, 10}));
  int seen = 0;
  bool all = fit(net, opt, train, FitOptions(5).loss([&](const Tensor &out, const std::vector<Tensor> &fields) {
    return seen++, cross_entropy(out, fields[1], CrossEntropyOptions().label_smoothing(0.1));
  }).epoch_end([](Fitting &f) { f.stop(); }));
  CHECK(!all && seen == 23);
  try {
    fit(net, opt, train, FitOptions().batch_end([](Fitting &) { throw std::range_error("stop here"); }));
    CHECK(false);
  } catch (const std::range_error &e) {
    CHECK(std::string(e.what()) == "stop here");
  }
}

TEST(a_loop_by_hand_learns)
{
  manual_seed(2);
  Sequential net(Flatten(), Linear(64, 32), ReLU(), Dropout(0.1), Linear(32, 10));
  SGD opt(net.parameters(), SGDOptions(0.1).momentum(0.9));
  DataLoader train(digits(Train), DataLoaderOptions(64).shuffle(true).seed(2).drop_last(true));
  for (int epoch = 0; epoch < 3; epoch++)
    for (const Batch &batch : train) {
      opt.zero_grad();
      cross_entropy(net(batch.data), batch.target).backward();
      opt.step();
    }
  net.eval();
  NoGradGuard guard;
  Metric accuracy = Metric::accuracy();
  DataLoader test(digits(Test), 100);
  for (const Batch &batch : test) accuracy.update(net(batch.data), batch.target);
  CHECK(accuracy.value() > 0.85);
}

TEST(runs_go_on)
{
  const std::string path = "cpp_test_run.safetensors";
  Net net;
  Adam opt(net.parameters(), 1e-2);
  Run().net(net).optimizer(opt).epoch(3).save(path, Tree::dict().put("note", "kept"));
  Net other;
  Adam other_opt(other.parameters());
  Run run;
  Tree extra = run.net(other).optimizer(other_opt).load(path);
  CHECK(run.epoch() == 3 && extra["note"].as_string() == "kept" && other_opt.lr() == 1e-2);
  CHECK(other.fc1.parameter("weight").equal(net.fc1.parameter("weight")));
  std::remove(path.c_str());
}

TEST(zoo_and_logs)
{
  AnyModule net = zoo("resnet18", ZooOptions().classes(10));
  net.eval();
  CHECK(zoo_names().size() > 5 && net.count() > 11000000);
  CHECK(net.child("fc").as<Linear>().parameter("bias").numel() == 10);
  CHECK_THROWS(CN_ERR_VALUE, zoo("no such network"));
  {
    SummaryWriter log("cpp_test_events");
    log.add_scalar("loss", 0.5, 1);
    log.add_histogram("weights", randn({10}), 1);
  }
  CHECK(!std::filesystem::is_empty("cpp_test_events"));
  std::filesystem::remove_all("cpp_test_events");
}

static void everything()
{
  Net net;
  Sequential both(net, Linear(10, 10), AnyModule(Linear(10, 3)));
  Adam opt(both.parameters(), 1e-3);
  StepLR lr(opt, 1);
  Tensor x = randn({2, 64}), y = both(x);
  y[y > 0] = 0;
  cross_entropy(both(x), tensor({0, 1})).backward();
  opt.step();
  lr.step();
  try {
    matmul(x, x);
  } catch (const Error &) {
  }
}

TEST(nothing_leaks)
{
  cn_memory_stats first, last;
  everything();
  cn_memory_trim();
  cn_memory_get_stats(&first);
  for (int i = 0; i < 50; i++) everything();
  cn_memory_trim();
  cn_memory_get_stats(&last);
  CHECK(last.in_use - last.cached <= first.in_use - first.cached + 4096);
}

TEST_MAIN
