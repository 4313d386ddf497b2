/* test_module.cpp: layers, modules of one's own, containers, state, hooks; how C reaches forward in C++. */
#include "check.hpp"

#include <cstdio>

using namespace cn;

struct Block : Module {
  Linear fc;
  double scale;
  explicit Block(int64_t n, double by = 1) : fc(register_module("fc", Linear(n, n))), scale(by) {}
  Tensor forward(const Tensor &x) { return relu(fc(x)) * scale; }
};

struct Net : Module {
  Conv2d conv = register_module("conv", Conv2d(1, 4, 3, Conv2d::Options().padding(1).bias(false)));
  Block block = register_module("block", Block(16));
  Linear head{nullptr};
  Tensor shift = register_parameter("shift", zeros({2}));
  Tensor calls = register_buffer("calls", zeros({}, i64));

  Net() { head = register_module("head", Linear(16, 2)); }
  Tensor forward(Tensor x)
  {
    calls += 1;
    x = adaptive_avg_pool2d(relu(conv(x)), 2).flatten(1);
    return head(block.forward(x)) + shift;
  }
};

TEST(layers)
{
  Linear fc(4, 3);
  Tensor x = randn({2, 4});
  CHECK(fc(x).allclose(linear(x, fc.parameter("weight"), fc.parameter("bias"))) && fc.count() == 15);
  CHECK(!Linear(4, 3, false).parameter("bias").defined());
  CHECK(Linear(4, 3, Linear::Options().dtype(f64)).parameter("weight").dtype() == f64);
  Linear same = fc, empty;
  CHECK(same.get() == fc.get() && empty.is_empty());
  CHECK_THROWS(CN_ERR_TYPE, empty(x));
  MaxPool2d pool(2, MaxPool2d::Options().return_indices(true));
  CHECK(MaxPool2d(2)(randn({1, 1, 4, 4})).numel() == 4 && pool(randn({1, 1, 4, 4})).numel() == 4);
  CHECK(pool.forward_with_indices(randn({1, 1, 4, 4})).indices.dtype() == i64);
  auto [out, h, c] = LSTM(4, 8, LSTM::Options().num_layers(2).batch_first(true))(randn({2, 5, 4}));
  CHECK(out.shape() == Ints({2, 5, 8}) && h.shape() == Ints({2, 2, 8}) && c.defined());
  auto [y, weights] = MultiheadAttention(8, 2)(randn({3, 1, 8}), randn({3, 1, 8}), randn({3, 1, 8}));
  CHECK(y.defined() && weights.defined());
  CHECK(Conv2d(3, 8, {3, 5}, 1, "same")(randn({1, 3, 9, 9})).shape() == Ints({1, 8, 9, 9}));
  CHECK(TransformerEncoder(TransformerEncoderLayer(8, 2), 2)(randn({5, 1, 8})).shape() == Ints({5, 1, 8}));
  CHECK(CrossEntropyLoss(CrossEntropyLoss::Options().label_smoothing(0.1))(randn({2, 3}), tensor({0, 1})).dim() == 0);
  CHECK_THROWS(CN_ERR_VALUE, Dropout(2.0));
}

TEST(own_modules)
{
  Net net;
  std::vector<std::string> names;
  for (const Named &p : net.named_parameters()) names.push_back(p.name);
  CHECK((names == std::vector<std::string>{"shift", "conv.weight", "block.fc.weight", "block.fc.bias", "head.weight",
                                           "head.bias"}));
  CHECK(net.name() == "Net" && net.block.name() == "Block" && net.named_buffers()[0].name == "calls");
  Tensor y = net.forward(randn({3, 1, 6, 6}));
  CHECK(y.shape() == Ints({3, 2}) && net.calls.item<int>() == 1);
  y.sum().backward();
  CHECK(net.parameters()[1].grad().defined() && net.shift.grad().defined());
  net.zero_grad();
  CHECK(!net.shift.grad().defined());
  net.eval();
  CHECK(!net.is_training() && !net.block.is_training() && !net.conv.is_training());
  net.to(f64);
  CHECK(net.shift.dtype() == f64 && net.conv.parameter("weight").dtype() == f64);
  CHECK(net.str().find("(block): Block(") != std::string::npos);
  CHECK(net.child("block.fc").as<Linear>().parameter("bias").numel() == 16);
  CHECK(!net.child("block.fc").as<Conv2d>() && net.child("block.fc").is<Linear>());
  CHECK_THROWS(CN_ERR_INDEX, net.child("nothing"));
  CHECK_THROWS(CN_ERR_VALUE, net.register_parameter("shift", zeros({1})));
}

TEST(c_reaches_forward)
{
  Net net;
  std::string table = summary(net, {1, 1, 6, 6});
  CHECK(table.find("head: Linear") != std::string::npos && net.calls.item<int>() >= 0);
  Tensor x = randn({2, 4});
  Block block(4, 2.0);
  Tensor expected = block.forward(x);
  CHECK(call(block, x).equal(expected));
  Sequential both(block, ReLU(), Block(4, 3.0));
  CHECK(both.size() == 3 && both[0](x).equal(expected) && both(x).shape() == Ints({2, 4}));
  AnyModule kept;
  {
    Block temporary(4, 5.0);
    kept = AnyModule(temporary);
    expected = temporary.forward(x);
  }
  CHECK(kept(x).equal(expected) && kept.name() == "Block"); /* the copy that C keeps */
  Block moved = std::move(block);
  CHECK(call(moved, x).equal(moved.forward(x)));
  CHECK_THROWS(CN_ERR_SHAPE, both(randn({2, 5})));
  AnyModule copy = both.child("0").clone();
  CHECK(copy(x).equal(both[0](x)) && copy.get() != both[0].get());
}

struct Doubling : Callable<Doubling> {
  Tensor forward(const Tensor &x, double by = 2) { return x * by; }
};

TEST(callable)
{
  Doubling net;
  Tensor x = ones({1});
  CHECK(net(x).item<float>() == 2 && net(x, 3).item<float>() == 3 && AnyModule(net)(x).item<float>() == 2);
}

struct Pair : Module {
  std::pair<Tensor, Tensor> forward(const Tensor &a, const Tensor &b = {}) { return {a, b.defined() ? b : a * 2}; }
};
struct Throws : Module {
  Tensor forward(const Tensor &) { throw std::domain_error("not today"); }
};

TEST(several_tensors_and_exceptions)
{
  AnyModule pair = Pair();
  Tensor x = ones({1});
  CHECK(pair.forward_all({x}, 2)[1].item<float>() == 2 && pair.forward_all({x, x * 5}, 2)[1].item<float>() == 5);
  CHECK_THROWS(CN_ERR_TYPE, pair.forward_all({x, x, x}, 1));
  Sequential s{Identity(), Throws()};
  try {
    s(x);
    CHECK(false);
  } catch (const std::domain_error &e) {
    CHECK(std::string(e.what()) == "not today" && cn_err() == 0);
  }
}

TEST(containers)
{
  Sequential net(Linear(4, 8), ReLU(), Sequential(Linear(8, 8), Tanh()));
  net.push_back(Linear(8, 2));
  net.push_back("last", Identity());
  CHECK(net.size() == 5 && net(randn({3, 4})).shape() == Ints({3, 2}) && net.parameters().size() == 6);
  ModuleList layers;
  for (int i = 0; i < 3; i++) layers.push_back(Linear(4, 4));
  Tensor x = randn({1, 4});
  for (auto layer : layers) x = layer(x);
  CHECK(x.shape() == Ints({1, 4}) && layers.parameters().size() == 6);
  ModuleDict dict;
  dict.push_back("a", Linear(4, 4));
  CHECK(dict["a"](x).numel() == 4 && Residual(Identity())(x).equal(2 * x));
  CHECK_THROWS(CN_ERR_INDEX, layers[3]);
  CHECK_THROWS(CN_ERR_TYPE, Sequential(Linear()));
  net.set_child("0", Linear(4, 8, false));
  net.set_child("2.0", Identity());
  CHECK(net.parameters().size() == 3);
}

TEST(state)
{
  const char *path = "cpp_test_module.safetensors";
  Net a, b;
  b.load_state_dict(a.state_dict());
  CHECK(b.head.parameter("weight").equal(a.head.parameter("weight")));
  a.save(path);
  Net c;
  load(c, path);
  CHECK(c.conv.parameter("weight").equal(a.conv.parameter("weight")));
  Tree file = load(path);
  CHECK(file["block.fc.bias"].tensor().numel() == 16 && file.has("calls"));
  CHECK_THROWS(CN_ERR_VALUE, Block(16).load_state_dict(file));
  Block lenient(16);
  lenient.load_state_dict(file, LoadOptions().strict(false).prefix("block."));
  CHECK(lenient.fc.parameter("bias").equal(a.block.fc.parameter("bias")));
  std::remove(path);
  CHECK_THROWS(CN_ERR_IO, c.load(path));
}

TEST(hooks)
{
  Linear fc(2, 2);
  int before = 0, after = 0;
  fc.register_forward_pre_hook([&](const Module &, std::vector<Tensor> &in) { before++, in[0] = in[0] * 0; });
  int64_t id = fc.register_forward_hook([&](const Module &m, const std::vector<Tensor> &in, std::vector<Tensor> &out) {
    CHECK(m.name() == "Linear" && in.size() == 1);
    after++;
    out[0] = out[0] + 1;
  });
  Tensor y = fc(ones({1, 2}));
  CHECK(before == 1 && after == 1 && y.equal(fc.parameter("bias").unsqueeze(0) + 1));
  fc.remove_hook(id);
  fc(ones({1, 2}));
  CHECK(after == 1 && before == 2);
}

TEST(initialisers)
{
  Linear fc(8, 8);
  NoGradGuard guard;
  init::constant_(fc.parameter("weight"), 0.5);
  CHECK(fc.parameter("weight").mean().item<float>() == 0.5f);
  init::kaiming_uniform_(fc.parameter("weight"), 0, "fan_in", "relu");
  init::zeros_(fc.parameter("bias"));
  CHECK(fc.parameter("bias").abs().sum().item<float>() == 0);
}

TEST_MAIN
