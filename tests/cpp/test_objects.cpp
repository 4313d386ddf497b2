/* test_objects.cpp: copies of modules of one's own, layers with another forward, walking through modules. */
#include "check.hpp"

using namespace cn;

namespace {

struct Block : Callable<Block> {
  explicit Block(int64_t n, double by = 1) : fc(register_module("fc", Linear(n, n))), scale(by) {}
  Tensor forward(const Tensor &x) { return relu(fc(x)) * scale + x; }
  Linear fc;
  double scale;
};

struct Net : Module {
  std::vector<Block> blocks;
  ModuleList list;
  Sequential rest{nullptr};
  Tensor shift = register_parameter("shift", zeros({4}));
  Net()
  {
    for (int i = 0; i < 2; i++) blocks.push_back(register_module("block" + std::to_string(i), Block(4)));
    list = register_module("list", ModuleList(Block(4, 0.5), Linear(4, 4)));
    rest = register_module("rest", Sequential(Block(4), Functional([](const Tensor &x) { return x.tanh(); })));
  }
  Tensor forward(Tensor x)
  {
    for (Block &block : blocks) x = block(x);
    for (const AnyModule &layer : list) x = layer(x);
    return rest(x) + shift;
  }
};

struct Tied : Module {
  Embedding table = register_module("table", Embedding(10, 4));
  Linear out = register_module("out", Linear(4, 10, false));
  Tied() { out.set_parameter("weight", table.weight()); }
  Tensor forward(const Tensor &x) { return out(table(x)); }
};

struct Scaled : Callable<Scaled, Linear> {
  Scaled(int64_t in, int64_t out, double factor) : Callable(in, out), by(factor) {}
  Tensor forward(const Tensor &x) const { return Linear::forward(x) * by; }
  double by;
};

struct Doubled : Linear {
  using Linear::Linear;
  Tensor forward(const Tensor &x) { return Linear::forward(x) * 2; }
};

struct Started : Linear { /* with the layer's own forward */
  Started() : Linear(4, 4) { init::zeros_(bias()); }
};

struct Remembering : LSTM {
  using LSTM::LSTM;
  Result forward(const Tensor &x) const
  {
    Result made = LSTM::forward(x);
    return {made.output + 1, made.h_n, made.c_n};
  }
};

struct Shifted : TransformerEncoderLayer {
  using TransformerEncoderLayer::TransformerEncoderLayer;
  Tensor forward(const Tensor &x) const { return TransformerEncoderLayer::forward(x) + 100; }
};

struct Pair : Module {
  Bilinear both = register_module("both", Bilinear(3, 4, 5));
  Tensor forward(const Tensor &x, const Tensor &y) { return both(x, y); }
};

struct Holder : Module {
  std::shared_ptr<Block> block = register_module("block", std::make_shared<Block>(4));
  Tensor forward(const Tensor &x) { return (*block)(x); }
};

struct Several : Module { /* with results of its own, and others that tuples hold */
  struct Made {
    Tensor a, b;
  };
  Made forward(const Tensor &x) { return {x, x * 2}; }
};
struct Nested : Module {
  std::tuple<Tensor, std::pair<Tensor, Tensor>> forward(const Tensor &x) { return {x, {x * 2, x * 3}}; }
};
struct Of : Module {
  Several several = register_module("several", Several());
  Tensor forward(const Tensor &x) { return several.forward(x).b; }
};

void wipe(const Module &m)
{
  NoGradGuard guard;
  for (const Tensor &p : m.parameters()) p.zero_();
}

}  // namespace

TEST(clones)
{
  Net net;
  Tensor x = randn({2, 4}), y = net.forward(x);
  Net copy = clone(net);
  CHECK(copy.forward(x).equal(y) && copy.parameters().size() == net.parameters().size());
  wipe(net);
  CHECK(copy.forward(x).equal(y) && net.forward(x).abs().sum().item() == 0);
  copy.forward(x).sum().backward();
  CHECK(copy.blocks[0].fc.weight().grad().defined() && copy.shift.grad().defined() && !net.shift.grad().defined());
  Net same = copy;
  CHECK(same.shift.is_same(copy.shift) && clone(copy.blocks[1]).fc.weight().equal(copy.blocks[1].fc.weight()));
  Net moved = std::move(same);
  CHECK(moved.forward(x).equal(y) && call(moved, x).equal(y));
  Tied tied, other = clone(tied);
  CHECK(other.parameters().size() == 1 && other.out.weight().is_same(other.table.weight()));
  CHECK(!other.table.weight().is_same(tied.table.weight()));
  AveragedModel average(copy, 0.9);
  average.update(copy);
  CHECK(average(x).allclose(copy.forward(x)) && average.count() == 1);
  Holder holder;
  CHECK(holder.child("block")(x).equal(holder.forward(x)));
  CHECK_THROWS(CN_ERR_UNSUPPORTED, clone(holder));
}

TEST(layers_with_another_forward)
{
  Tensor x = randn({2, 4});
  Scaled scaled(4, 4, 3);
  Tensor expected = linear(x, scaled.weight(), scaled.bias()) * 3;
  CHECK(scaled(x).allclose(expected) && scaled.forward(x).allclose(expected));
  Sequential net(scaled, Identity());
  CHECK(net(x).allclose(expected) && scaled(x).allclose(expected) && net[0].as<Scaled>()->by == 3);
  Sequential copy = net.clone();
  Scaled one = scaled.clone();
  wipe(scaled);
  CHECK(copy(x).allclose(expected) && one(x).allclose(expected) && net(x).abs().sum().item() == 0);
  Doubled doubled(4, 4);
  Sequential twice{doubled};
  CHECK(twice(x).allclose(2 * linear(x, doubled.weight(), doubled.bias())) && doubled.forward(x).allclose(twice(x)));
  Started started;
  CHECK(Sequential(started)(x).allclose(linear(x, started.weight())) && started(x).equal(Sequential(started)(x)));
  Remembering rnn(3, 4);
  Tensor in = randn({2, 1, 3});
  TransformerEncoder encoder(Shifted(8, 2), 2);
  encoder.eval();
  CHECK(encoder(randn({3, 1, 8})).min().item() > 90 && encoder.parameters().size() == 24);
  CHECK(AnyModule(rnn).forward_all({in}, 3)[0].allclose(rnn.LSTM::forward(in).output + 1));
}

TEST(walking)
{
  Net net;
  int linears = 0, blocks = 0;
  for (const AnyModule &m : net.modules()) {
    if (auto fc = m.as<Linear>()) linears += fc.weight().numel() == 16;
    if (Block *block = m.as<Block>()) blocks += block->scale > 0;
  }
  CHECK(linears == 5 && blocks == 4 && net.modules(false).size() + 1 == net.modules().size());
  net.apply([](Module &m) {
    if (auto fc = m.as<Linear>()) init::constant_(fc->weight(), 0.25);
  });
  std::vector<std::string> names;
  net.apply([&](const std::string &name, AnyModule &m) {
    if (m.is<Linear>()) names.push_back(name);
  });
  CHECK(net.blocks[1].fc.weight().mean().item() == 0.25 && names[0] == "block0.fc" && names.size() == 5);
  CHECK(net.named_children()[2].name == "list" && net.named_children()[2].module.is<ModuleList>());
  const NamedTensors all = net.named_parameters();
  CHECK(all["block0.fc.bias"].numel() == 4 && all.contains("shift") && !all.find("none") && all.keys()[0] == "shift");
  CHECK(net.named_parameters(false).size() == 1 && all[0].key() == "shift" && all[0].value().is_same(net.shift));
  CHECK_THROWS(CN_ERR_INDEX, all["none"]);
  net.blocks[0].fc = net.blocks[0].replace_module("fc", Linear(4, 4, false));
  CHECK(!net.named_parameters().contains("block0.fc.bias"));
}

TEST(containers_of_all_kinds)
{
  Sequential many(Pair(), ReLU(), Linear(5, 2));
  CHECK(many(randn({2, 3}), randn({2, 4})).shape() == Ints({2, 2}) && many->size() == 3);
  Sequential named({{"fc", Linear(4, 4)}, {"act", ReLU()}, {"block", Block(4)}});
  CHECK(named.at<Linear>(0).weight().numel() == 16 && named.at<Block>(2)->scale == 1);
  CHECK(named.named_parameters().contains("block.fc.weight"));
  CHECK_THROWS(CN_ERR_TYPE, named.at<Conv2d>(0));
  ModuleDict dict({{"a", Linear(4, 1)}, {"b", Block(4)}});
  CHECK(dict.contains("b") && dict.keys().size() == 2 && dict["b"](ones({1, 4})).numel() == 4);
  named.extend(many);
  CHECK(named.size() == 6);
  ParameterList list({ones({2}), zeros({3})});
  CHECK(list.size() == 2 && list[1].numel() == 3 && list[0].requires_grad());
}

TEST(results_of_own_kinds)
{
  Of of;
  Tensor x = ones({1});
  CHECK(Sequential(of, Identity())(x).item() == 2 && clone(of).forward(x).item() == 2);
  CHECK_THROWS(CN_ERR_TYPE, of.child("several")(x));
  CHECK(AnyModule(Nested()).forward_all({x}, 3)[2].item() == 3);
}

TEST(hooks_of_own_classes)
{
  Block block(4);
  int calls = 0;
  const int64_t id = block.register_forward_hook(
      [&](const Module &m, const std::vector<Tensor> &, std::vector<Tensor> &) { calls += m.name() == "Block"; });
  block(ones({1, 4}));
  block.remove_hook(id);
  block(ones({1, 4}));
  CHECK(calls == 1);
  Linear fc(4, 4);
  fc.register_full_backward_hook([](const Module &, std::vector<Tensor> &in, const std::vector<Tensor> &out) {
    if (out[0].defined()) in[0] = in[0] * 0;
  });
  Tensor x = randn({1, 4}, options().requires_grad());
  fc(x).sum().backward();
  CHECK(x.grad().abs().sum().item() == 0);
}

TEST_MAIN
