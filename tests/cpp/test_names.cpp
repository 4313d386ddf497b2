/* test_names.cpp: programs in the words of PyTorch's C++ tutorials: only the include and one line differ. */
#include "check.hpp"

#include <cairn/ops.h>

#include <cmath>
#include <sstream>
#include <vector>

namespace torch = cn;
namespace F = torch::nn::functional;
using namespace torch::indexing;

namespace {

struct Net : torch::nn::Module {
  Net()
  {
    fc1 = register_module("fc1", torch::nn::Linear(4, 16));
    bn = register_module("bn", torch::nn::BatchNorm1d(16));
    fc2 = register_module("fc2", torch::nn::Linear(16, 3));
    torch::nn::init::kaiming_normal_(fc1->weight());
  }
  torch::Tensor forward(torch::Tensor x)
  {
    x = F::relu(bn->forward(fc1->forward(x)));
    x = torch::dropout(x, 0.2, is_training());
    return torch::log_softmax(fc2->forward(x), 1);
  }
  torch::nn::Linear fc1{nullptr}, fc2{nullptr};
  torch::nn::BatchNorm1d bn{nullptr};
};

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  using Context = torch::autograd::AutogradContext;
  using List = torch::autograd::tensor_list;
  static torch::Tensor forward(Context *ctx, torch::Tensor input, torch::Tensor weight,
                               torch::Tensor bias = torch::Tensor())
  {
    ctx->save_for_backward({input, weight, bias});
    auto output = input.mm(weight.t());
    if (bias.defined()) output += bias.unsqueeze(0).expand_as(output);
    return output;
  }
  static List backward(Context *ctx, List grads)
  {
    auto saved = ctx->get_saved_variables();
    auto bias = saved[2].defined() ? grads[0].sum(0) : torch::Tensor();
    return {grads[0].mm(saved[1]), grads[0].t().mm(saved[0]), bias};
  }
};

struct MulConstant : torch::autograd::Function<MulConstant> {
  using List = torch::autograd::variable_list;
  static torch::Tensor forward(Context *ctx, torch::Tensor x, double by)
  {
    ctx->saved_data["by"] = by;
    return x * by;
  }
  static List backward(Context *ctx, List grads)
  {
    return {grads[0] * ctx->saved_data["by"].toDouble(), torch::Tensor()};
  }
};

struct Both : torch::autograd::Function<Both> {
  using List = torch::autograd::variable_list;
  static List forward(Context *ctx, torch::Tensor a, torch::Tensor b)
  {
    ctx->save_for_backward({a, b});
    return {a * b, a + b};
  }
  static List backward(Context *ctx, List g)
  {
    auto saved = ctx->get_saved_variables();
    return {g[0] * saved[1] + g[1], g[0] * saved[0] + g[1]};
  }
};

/* Net and its training written out with functions of tensors: what layers, optimiser and schedule must agree with. */
struct ByHand {
  explicit ByHand(const std::vector<torch::Tensor> &parameters)
  {
    for (const auto &p : parameters) {
      w.push_back(p.detach().clone().requires_grad_());
      first.push_back(torch::zeros_like(p));
      second.push_back(torch::zeros_like(p));
    }
  }
  torch::Tensor loss(const torch::Tensor &x, const torch::Tensor &y) const
  {
    auto h = x.mm(w[0].t()) + w[1];
    auto centred = h - h.mean(0);
    h = centred / (centred * centred).mean(0).add(1e-5).sqrt() * w[2] + w[3];
    return torch::nll_loss(torch::log_softmax(torch::dropout(torch::relu(h), 0.2, true).mm(w[4].t()) + w[5], 1), y);
  }
  /* Adam with betas (0.8, 0.9), gradients clipped to norm 1, the rate halved every 10 steps. */
  void step(std::vector<torch::Tensor> grads, int at)
  {
    double norm = 0, rate = 1e-2 * std::pow(0.5, at / 10);
    for (const auto &g : grads) norm += (g * g).sum().item<double>();
    double scale = std::fmin(1.0, 1.0 / (std::sqrt(norm) + 1e-6));
    torch::NoGradGuard guard;
    for (size_t i = 0; i < w.size(); i++) {
      auto g = grads[i] * scale;
      first[i] = first[i] * 0.8 + g * 0.2;
      second[i] = second[i] * 0.9 + g * g * 0.1;
      auto root = (second[i] / (1 - std::pow(0.9, at + 1))).sqrt() + 1e-8;
      w[i] -= first[i] / root * (rate / (1 - std::pow(0.8, at + 1)));
    }
  }
  std::vector<float> losses(const torch::Tensor &x, const torch::Tensor &y)
  {
    std::vector<float> found;
    for (int at = 0; at < 30; at++) {
      auto value = loss(x, y);
      step(torch::autograd::grad({value}, w), at);
      found.push_back(value.item<float>());
    }
    return found;
  }
  std::vector<torch::Tensor> w, first, second;
};

}  // namespace

TEST(a_training_program)
{
  torch::manual_seed(42);
  torch::Device device(torch::cuda::is_available() ? torch::kCUDA : torch::kCPU);
  auto model = std::make_shared<Net>();
  model->to(device);
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-2).betas(std::make_tuple(0.8, 0.9)));
  torch::optim::StepLR scheduler(optimizer, 10, 0.5);
  auto x = torch::randn({60, 4}, torch::TensorOptions().dtype(torch::kFloat32).device(device));
  auto y = x.slice(1, 0, 3).argmax(1).to(torch::kLong);
  ByHand hand(model->parameters());
  torch::manual_seed(7);
  auto want = hand.losses(x, y);
  torch::manual_seed(7); /* the same dropout */
  for (size_t step = 0; step < want.size(); step++) {
    optimizer.zero_grad();
    auto loss = torch::nll_loss(model->forward(x), y);
    loss.backward();
    torch::nn::utils::clip_grad_norm_(model->parameters(), 1.0);
    optimizer.step();
    scheduler.step();
    CHECK(std::fabs(loss.item<float>() - want[step]) <= 1e-5f * want[step]);
  }
  torch::save(model, "cpp_test_names.pt");
  torch::save(optimizer, "cpp_test_names_opt.pt");
  auto other = std::make_shared<Net>();
  torch::load(other, "cpp_test_names.pt");
  torch::load(optimizer, "cpp_test_names_opt.pt");
  model->eval();
  other->eval();
  torch::NoGradGuard guard;
  CHECK(other->forward(x).equal(model->forward(x)));
  for (auto &group : optimizer.param_groups()) group.set_lr(0.5);
  CHECK(optimizer.lr() == 0.5 && device.type() == (device.is_cuda() ? torch::kCUDA : torch::kCPU));
}

TEST(groups)
{
  torch::nn::Linear a(4, 4), b(4, 2);
  torch::optim::SGD opt({{a->parameters()}, {b->parameters(), torch::optim::SGDOptions(0.5).momentum(0.9)}},
                        torch::optim::SGDOptions(0.1));
  CHECK(opt.groups() == 2 && opt.lr(0) == 0.1 && opt.lr(1) == 0.5 && opt.option("momentum", 1) == 0.9);
  opt.add_param_group({torch::zeros({3}).requires_grad_()}, torch::optim::SGDOptions(1.0).weight_decay(0.1));
  CHECK(opt.option("weight_decay", 2) == 0.1 && opt.option("momentum", 2) == 0);
  torch::optim::AdamW adam(a->parameters(), 1e-3);
  adam.set_option("betas", {0.5, 0.9});
  CHECK(adam.state_dict()["param_groups"].at(0)["betas"].at(0).as_double() == 0.5);
}

TEST(functions)
{
  auto x = torch::randn({2, 3}).requires_grad_(), w = torch::randn({4, 3}).requires_grad_();
  LinearFunction::apply(x, w).sum().backward();
  CHECK(x.grad().allclose(w.detach().sum(0).expand({2, 3})));
  auto bias = torch::zeros({4}, torch::requires_grad());
  LinearFunction::apply(x, w, bias).sum().backward();
  CHECK(bias.grad().equal(torch::full({4}, 2.0)));
  x.zero_grad();
  MulConstant::apply(x, 5.5).sum().backward();
  CHECK(x.grad()[0][0].item<float>() == 5.5f);
  auto y = x.detach().clone().requires_grad_();
  x.zero_grad();
  auto both = Both::apply(x, y);
  torch::autograd::backward({both[0].sum(), both[1].sum()}, {});
  CHECK(both.size() == 2 && x.grad().allclose(y.detach() + 1));
  auto g = torch::autograd::grad({(x * x * x).sum()}, {x}, {}, true, true)[0];
  CHECK(torch::autograd::grad({g.sum()}, {x})[0].allclose(6 * x.detach()));
}

TEST(tensors)
{
  auto t = torch::arange(24).reshape({2, 3, 4});
  CHECK(t.index({None, Ellipsis, 1}).sizes() == torch::IntArrayRef({1, 2, 3}));
  t.index_put_({Ellipsis, Slice(1, None, 2)}, 7);
  t.index_put_({torch::tensor({0, 0}), torch::tensor({1, 1}), torch::tensor({2, 2})}, torch::tensor({5, 6}), true);
  CHECK(t[0][1][2].item<int>() == 6 + 11 && t[1][2][3].item<int>() == 7);
  auto acc = t.accessor<int64_t, 3>();
  acc[1][2][3] = 50;
  CHECK(acc(1, 2, 3) == 50 && t[1][2][3].item<int>() == 50 && acc[1].size(0) == 3);
  float data[] = {1, 2, 3, 4, 5, 6};
  int freed = 0;
  {
    auto blob = torch::from_blob(data, {2, 3}, [&](void *p) { freed += p == data; });
    CHECK(torch::from_blob(data, {3, 2}, {1, 3})[0][1].item<float>() == 4 && blob[1][2].item<float>() == 6);
  }
  uint8_t bytes[] = {0, 255};
  CHECK(freed == 1 && torch::from_blob(bytes, {2}, torch::kByte).to(torch::kFloat).sum().item<float>() == 255);
  std::ostringstream text;
  text << torch::ones({1}).dtype() << torch::kLong << torch::Tensor();
  CHECK(text.str() == "float32int64[ undefined tensor ]");
  std::tuple<torch::Tensor, torch::Tensor> most = torch::max(t, 2);
  CHECK(std::get<1>(most).sizes() == torch::IntArrayRef({2, 3}));
  CHECK(torch::zeros({1}, torch::dtype(torch::kDouble).requires_grad(true)).requires_grad());
}

static int thrice(cn_call *c)
{
  c->out[0] = cn_mul(c->in[0], cn_num(3));
  return c->out[0] ? CN_OK : cn_err();
}

TEST(an_op_of_ones_own)
{
  static cn_op row = {};
  row.sig = "cpp_test_thrice(Tensor input) -> Tensor";
  row.doc = "3 x.";
  row.flags = CN_OP_COMPOSITE;
  row.decompose = thrice;
  CHECK(cn_op_register(&row, 1) == CN_OK);
  auto x = torch::ones({2}, torch::requires_grad());
  auto y = torch::call_op("cpp_test_thrice", {x});
  y.sum().backward();
  CHECK(y.equal(torch::full({2}, 3.0)) && x.grad().equal(torch::full({2}, 3.0)));
  CHECK_THROWS(CN_ERR_UNSUPPORTED, torch::call_op("no_such_op", {x}));
}

TEST_MAIN
