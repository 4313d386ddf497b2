/* test_autograd.cpp: backward, modes, hooks, functions with a gradient of their own. */
#include "check.hpp"

using namespace cn;

TEST(backward_and_grad)
{
  Tensor x = tensor({2.0, 3.0}, options().requires_grad());
  (x * x).sum().backward();
  CHECK(x.grad().equal(tensor({4.0, 6.0})) && x.is_leaf());
  x.zero_grad();
  CHECK(!x.grad().defined());
  Tensor y = x * x * x;
  y.backward(ones({2}), true);
  y.backward(BackwardOptions().gradient(ones({2})));
  CHECK(x.grad().equal(tensor({24.0, 54.0})));
  auto g = grad({(x * x * x).sum()}, {x}, GradOptions().create_graph(true));
  auto gg = grad({g[0].sum()}, {x});
  CHECK(gg[0].equal(6 * x.detach()));
  CHECK_THROWS(CN_ERR_GRAD, grad({(x * 2).sum()}, {ones({1}, options().requires_grad())}));
  CHECK(!grad({(x * 2).sum()}, {ones({1}, options().requires_grad())}, GradOptions().allow_unused(true))[0].defined());
  CHECK_THROWS(CN_ERR_GRAD, ones({1}).backward());
}

TEST(modes)
{
  Tensor x = ones({2}, options().requires_grad());
  {
    NoGradGuard guard;
    CHECK(!(x * 2).requires_grad() && !is_grad_enabled());
    EnableGradGuard on;
    CHECK((x * 2).requires_grad());
  }
  CHECK((x * 2).requires_grad());
  {
    InferenceGuard guard;
    CHECK(!(x * 2).requires_grad());
  }
  {
    AutocastGuard guard(bf16);
    CHECK(matmul(ones({2, 2}), ones({2, 2})).dtype() == bf16);
  }
  CHECK(matmul(ones({2, 2}), ones({2, 2})).dtype() == f32);
  Tensor q = ones({1, 2, 3, 4});
  for (unsigned ways : {CN_ATTENTION_PARTS, CN_ATTENTION_CPU}) {
    AttentionGuard guard(ways);
    CHECK(scaled_dot_product_attention(q, q, q).equal(q));
  }
  AttentionGuard none(CN_ATTENTION_DEVICE);
  CHECK_THROWS(CN_ERR_UNSUPPORTED, scaled_dot_product_attention(q, q, q));
}

TEST(hooks)
{
  Tensor x = ones({2}, options().requires_grad());
  int seen = 0;
  Tensor y = x * 3;
  int64_t id = y.register_hook([&](const Tensor &g) { return seen++, g * 10; });
  y.sum().backward();
  CHECK(seen == 1 && x.grad().equal(full({2}, 30.0)));
  x.register_hook([](const Tensor &) -> Tensor { throw std::logic_error("from a hook"); });
  try {
    (x * 1).sum().backward();
    CHECK(false);
  } catch (const std::logic_error &e) { /* the very exception */
    CHECK(std::string(e.what()) == "from a hook" && cn_err() == 0);
  }
  static_cast<void>(id);
}

struct Cube : Function<Cube> {
  static Tensor forward(Context &ctx, const Tensor &x, double scale)
  {
    ctx.save({x});
    ctx.data["scale"] = scale;
    return x * x * x * scale;
  }
  static Tensor backward(Context &ctx, const std::vector<Tensor> &g)
  {
    Tensor x = ctx.saved(0);
    return 3 * x * x * g[0] * std::any_cast<double>(ctx.data["scale"]);
  }
};

struct Square : Function<Square> { /* one result: its gradient as it is */
  static Tensor forward(Context &ctx, const Tensor &x) { return ctx.save({x}), x * x; }
  static Tensor backward(Context &ctx, const Tensor &g) { return 2 * ctx.saved(0) * g; }
};

struct SumAndDifference : Function<SumAndDifference> {
  static std::tuple<Tensor, Tensor> forward(Context &, const Tensor &a, const Tensor &b) { return {a + b, a - b}; }
  static std::vector<Tensor> backward(Context &ctx, const std::vector<Tensor> &g)
  {
    CHECK(ctx.needs_input_grad(0));
    if (!g[1].defined()) return {g[0], g[0]};
    return {g[0] + g[1], g[0] - g[1]};
  }
};

struct Fails : Function<Fails> {
  static Tensor forward(Context &, const Tensor &) { throw std::out_of_range("forward fails"); }
  static Tensor backward(Context &, const std::vector<Tensor> &g) { return g[0]; }
};

TEST(functions)
{
  Tensor x = tensor({2.0, 3.0}, options().dtype(f64).requires_grad());
  Tensor y = Cube::apply(x, 0.5);
  y.sum().backward();
  CHECK(y.equal(tensor({4.0, 13.5}, f64)) && x.grad().equal(tensor({6.0, 13.5}, f64)));
  gradcheck([](const std::vector<Tensor> &in) { return Cube::apply(in[0], 2.0).sum(); }, {x});
  gradcheck([](const std::vector<Tensor> &in) { return Square::apply(in[0]).sum(); }, {x});
  gradcheck([](const std::vector<Tensor> &in) {
    auto [s, d] = SumAndDifference::apply(in[0], in[1]);
    return (s * d).sum();
  }, {x, x.detach().clone().requires_grad_()});
  try {
    Fails::apply(x);
    CHECK(false);
  } catch (const std::out_of_range &e) {
    CHECK(std::string(e.what()) == "forward fails");
  }
  auto wrong = [](const std::vector<Tensor> &in) { return (in[0].detach() * in[0]).sum(); };
  CHECK_THROWS(CN_ERR_GRAD, gradcheck(wrong, {x}));
}

TEST(checkpoints)
{
  Tensor x = randn({3}, options().requires_grad()), w = randn({3}, options().requires_grad());
  int runs = 0;
  Tensor y = checkpoint([&runs, w](const std::vector<Tensor> &in) { return runs++, (in[0] * w).tanh(); }, {x});
  CHECK(runs == 1);
  y.sum().backward();
  CHECK(runs == 2);
  Tensor again = x.detach().requires_grad_();
  (again * w).tanh().sum().backward();
  CHECK(x.grad().allclose(again.grad()));
}

TEST(graphs)
{
  Tensor w = randn({4, 4});
  Graph graph = Graph::trace([&](const std::vector<Tensor> &in) {
    return std::vector<Tensor>{matmul(in[0], w).relu() + 1};
  }, {randn({2, 4})});
  Tensor x = randn({2, 4});
  CHECK(graph({x})[0].allclose(matmul(x, w).relu() + 1) && graph.nodes() > 0);
  CHECK_THROWS(CN_ERR_CAPTURE, Graph::trace([](const std::vector<Tensor> &in) {
    return std::vector<Tensor>{in[0] * in[0].sum().item()};
  }, {x}));
}

TEST(graphs_for_many_sizes)
{
  Graph graph = Graph::trace_dynamic([](const std::vector<Tensor> &in) {
    return std::vector<Tensor>{in[0].slice(0, 0, (in[0].size(0) + 1) / 2)};
  }, {randn({8, 3})}, {{0, 0, "T", 1, 100}});
  CHECK(graph({randn({9, 3})})[0].size(0) == 5);
  CHECK_THROWS(CN_ERR_SHAPE, graph({randn({101, 3})}));
  Tensor w = randn({3, 2});
  Graph product = Graph::trace([&](const std::vector<Tensor> &in) {
    return std::vector<Tensor>{matmul(in[0], w)};
  }, {randn({8, 3})});
  product.name_state(0, "weight");
  product.save("test_autograd_cpp.safetensors");
  Graph loaded = Graph::load("test_autograd_cpp.safetensors");
  Tensor x = randn({8, 3});
  CHECK(loaded({x})[0].allclose(matmul(x, w)) && loaded.state_name(0) == "weight");
  CHECK_THROWS(CN_ERR_VALUE, product.name_state(0, "state.0"));
  CHECK(cn_file_remove("test_autograd_cpp.safetensors") == 0);
}

TEST(compiled)
{
  Tensor w = randn({4, 4}).requires_grad_();
  int captured = 0;
  Compiled forward([&](const std::vector<Tensor> &in) {
    captured++;
    return std::vector<Tensor>{matmul(in[0], w).relu().sum()};
  });
  for (int i = 0; i < 3; i++) {
    Tensor x = randn({2, 4}), again = w.detach().requires_grad_();
    w.zero_grad();
    forward({x})[0].backward();
    matmul(x, again).relu().sum().backward();
    CHECK(w.grad().allclose(again.grad()));
  }
  CHECK(captured == 1 && forward.stats().executables == 1 && forward.stats().runs == 3);
  CHECK(forward.explain({randn({2, 4})}).find("backward: ") != std::string::npos);
  Compiled branches([](const std::vector<Tensor> &in) {
    return std::vector<Tensor>{in[0] * in[0].sum().item()};
  }, true);
  CHECK_THROWS(CN_ERR_CAPTURE, branches({randn({2})}));
}

TEST(control)
{
  Tensor w = randn({4}).requires_grad_();
  auto scanned = [&](const std::vector<Tensor> &in) {
    return scan([&](const std::vector<Tensor> &v) {
      Tensor h = cond(v[1].sum() > 0, [&](const auto &x) { return std::vector<Tensor>{(x[0] * w).tanh()}; },
                      [](const auto &x) { return std::vector<Tensor>{x[0] * 0.5}; }, {v[0]})[0];
      return std::vector<Tensor>{h, h * 2};
    }, {in[0]}, {in[1]}).ys;
  };
  Compiled fast(scanned, true);
  Tensor h = randn({4}), xs = randn({6, 2});
  scanned({h, xs})[0].sum().backward();
  Tensor eager = w.grad().clone();
  w.zero_grad();
  fast({h, xs})[0].sum().backward();
  CHECK(w.grad().equal(eager) && fast.stats().runs == 1);
  std::vector<Tensor> grown = while_loop([](const auto &v) { return std::vector<Tensor>{v[0].max() < 30}; },
                                         [](const auto &v) { return std::vector<Tensor>{v[0] * 2}; }, {ones({2})});
  CHECK(grown[0].max().item() == 32);
  CHECK(cn::map([](const auto &row) { return std::vector<Tensor>{row[0].sum()}; }, {ones({3, 2})})[0].size(0) == 3);
}

TEST_MAIN
