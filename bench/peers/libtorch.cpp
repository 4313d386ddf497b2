/* libtorch.cpp: PyTorch's C++ API on the small works, the fair peer for what an op costs when there is
 * no interpreter around it.
 *
 * Where the API offers several ways to write a work, each is a variant, and the fastest one counts.
 * Invariant: same sizes, same data and same update as the files in ../cairn.
 */
#include "../serve.h"

#include <torch/torch.h>

#include <cmath>
#include <memory>

namespace {

namespace F = torch::nn::functional;

constexpr int64_t kIn = 64, kHidden = 32, kOut = 10, kBatch = 32;
constexpr double kRate = 0.01;

torch::Tensor filled(at::IntArrayRef shape, uint64_t seed, double scale)
{
  auto t = torch::empty(shape);
  bench_fill(t.data_ptr<float>(), static_cast<size_t>(t.numel()), seed, static_cast<float>(scale));
  return t;
}

/* ---- add of 16 floats ---- */

torch::Tensor a, b, g; /* (16) each; g requires a gradient */

int setup_add()
{
  a = filled({16}, 1, 1);
  b = filled({16}, 2, 1);
  g = filled({16}, 1, 1).requires_grad_();
  return 0;
}

void run_add(long n)
{
  torch::NoGradGuard guard;
  for (long i = 0; i < n; i++) auto c = a + b;
}

/* The same without a guard: the inputs alone say that no gradient is wanted. */
void run_add_unguarded(long n)
{
  for (long i = 0; i < n; i++) auto c = a + b;
}

void run_add_grad(long n)
{
  for (long i = 0; i < n; i++) auto c = g + b;
}

double check_add()
{
  return (a + b).sum().item<double>();
}

int setup_inference()
{
  c10::InferenceMode guard;
  return setup_add();
}

void run_inference(long n)
{
  c10::InferenceMode guard;
  for (long i = 0; i < n; i++) auto c = a + b;
}

double check_inference()
{
  c10::InferenceMode guard;
  return check_add();
}

void run_backward(long n)
{
  for (long i = 0; i < n; i++) {
    auto c = g + b;
    c.sum().backward();
  }
}

double check_backward()
{
  run_backward(3);
  return g.grad().sum().item<double>();
}

/* ---- one training step of a small network ---- */

torch::Tensor x, y;                     /* (kBatch, kIn), (kBatch) labels */
torch::Tensor w1, b1, w2, b2;           /* (kHidden, kIn), (kHidden), (kOut, kHidden), (kOut) */
torch::nn::Sequential net{nullptr};
std::unique_ptr<torch::optim::SGD> sgd;

void setup_batch()
{
  x = filled({kBatch, kIn}, 10, 1);
  y = torch::empty({kBatch}, torch::kLong);
  for (int64_t i = 0; i < kBatch; i++) y.data_ptr<int64_t>()[i] = bench_label(i, kOut);
  w1 = filled({kHidden, kIn}, 11, 1 / std::sqrt(double(kIn)));
  b1 = filled({kHidden}, 12, 1 / std::sqrt(double(kIn)));
  w2 = filled({kOut, kHidden}, 13, 1 / std::sqrt(double(kHidden)));
  b2 = filled({kOut}, 14, 1 / std::sqrt(double(kHidden)));
}

int setup_by_hand()
{
  setup_batch();
  for (auto *p : {&w1, &b1, &w2, &b2}) p->requires_grad_();
  return 0;
}

torch::Tensor step_by_hand()
{
  auto h = torch::linear(x, w1, b1).relu();
  auto loss = torch::cross_entropy_loss(torch::linear(h, w2, b2), y);
  loss.backward();
  torch::NoGradGuard guard;
  for (auto *p : {&w1, &b1, &w2, &b2}) {
    p->sub_(p->grad(), kRate);
    p->mutable_grad().reset();
  }
  return loss;
}

void run_by_hand(long n)
{
  for (long i = 0; i < n; i++) step_by_hand();
}

double check_by_hand()
{
  run_by_hand(99);
  return step_by_hand().item<double>();
}

int setup_modules()
{
  setup_batch();
  net = torch::nn::Sequential(torch::nn::Linear(kIn, kHidden), torch::nn::ReLU(),
                              torch::nn::Linear(kHidden, kOut));
  auto p = net->parameters();
  {
    torch::NoGradGuard guard;
    p[0].copy_(w1), p[1].copy_(b1), p[2].copy_(w2), p[3].copy_(b2);
  }
  sgd = std::make_unique<torch::optim::SGD>(p, kRate);
  return 0;
}

torch::Tensor step_modules()
{
  sgd->zero_grad();
  auto loss = F::cross_entropy(net->forward(x), y);
  loss.backward();
  sgd->step();
  return loss;
}

void run_modules(long n)
{
  for (long i = 0; i < n; i++) step_modules();
}

double check_modules()
{
  run_modules(99);
  return step_modules().item<double>();
}

const bench_work works[] = {
  {"small_add", "no_grad", "call", 1, setup_add, run_add, check_add},
  {"small_add", "plain", "call", 1, setup_add, run_add_unguarded, check_add},
  {"small_add_inference", "", "call", 1, setup_inference, run_inference, check_inference},
  {"small_add_grad", "", "call", 1, setup_add, run_add_grad, check_add},
  {"add_sum_backward", "", "call", 1, setup_add, run_backward, check_backward},
  {"mlp_small_step", "modules", "step", 1, setup_modules, run_modules, check_modules},
  {"mlp_small_step", "by_hand", "step", 1, setup_by_hand, run_by_hand, check_by_hand},
};

}  // namespace

int main(int argc, char **argv)
{
  at::set_num_threads(bench_threads(argc, argv));
  return bench_serve(argc, argv, works, sizeof works / sizeof *works);
}
