/* test_ops.cpp: generated functions and methods: positions, names, overloads, several results, namespaces. */
#include "check.hpp"

using namespace cn;

TEST(positions_and_names_say_the_same)
{
  Tensor x = randn({2, 3, 8, 8}), w = randn({4, 3, 3, 3}), b = randn({4});
  Tensor y = conv2d(x, w, b, 2, 1);
  CHECK(y.equal(conv2d(x, w, b, Conv2dOptions().stride(2).padding(1))));
  CHECK(y.equal(conv2d(x, w, Conv2dOptions().bias(b).stride({2, 2}).padding({1}))));
  CHECK(y.shape() == Ints({2, 4, 4, 4}) && conv2d(x, w).dim() == 4);
  CHECK(conv2d_padding(x, w, b, Conv2dPaddingOptions().padding("same")).size(2) == 8);
  CHECK(x.sum(1, true).equal(sum(x, SumOptions().dim(1).keepdim(true))));
  CHECK(x.sum({0, 2}).equal(x.sum(SumOptions().dim({0, 2}))) && x.sum({}, false, f64).dtype() == f64);
  Tensor scores = randn({5, 3}), labels = randint(3, {5});
  CHECK(cross_entropy(scores, labels, CrossEntropyOptions().reduction("none")).numel() == 5);
  CHECK(cross_entropy(scores, labels, Tensor(), -100, "none").numel() == 5);
  CHECK(check::near(cross_entropy(scores, labels).item(), nll_loss(log_softmax(scores, 1), labels).item(), 1e-5));
}

TEST(overloads)
{
  Tensor x = tensor({{1.0, 5.0}, {7.0, 2.0}});
  CHECK(max(x).item<float>() == 7 && x.max().item<float>() == 7);
  auto [values, indices] = max(x, 1);
  CHECK(values.equal(tensor({5.0, 7.0})) && indices.equal(tensor({1, 0})));
  CHECK(x.max(0, true).values.shape() == Ints({1, 2}) && max(x, full_like(x, 3)).min().item<float>() == 3);
  CHECK(x.split(1).size() == 2 && x.split({1, 1}, 1)[1].shape() == Ints({2, 1}) && x.unbind().size() == 2);
  CHECK(x.prod(1).numel() == 2 && x.prod().item<float>() == 70);
  CHECK(x.view({4}).numel() == 4 && x.view(i32).dtype() == i32);
  CHECK(x.scatter(1, tensor({{0}, {1}}), 9.0)[1][1].item<float>() == 9);
}

TEST(several_results)
{
  auto [values, indices] = tensor({3, 1, 2}).sort();
  CHECK(values.equal(tensor({1, 2, 3})) && indices.equal(tensor({1, 2, 0})));
  auto top = topk(tensor({3.0, 1.0, 2.0}), 2, TopkOptions().largest(false));
  CHECK(top.values.equal(tensor({1.0, 2.0})));
  auto [s, m] = std_mean(tensor({1.0, 3.0}));
  CHECK(m.item<float>() == 2 && s.item<float>() > 1.4);
}

TEST(namespaces_and_other_names)
{
  Tensor a = tensor({{2.0, 0.0}, {0.0, 4.0}});
  CHECK(linalg::det(a).item<float>() == 8 && linalg::inv(a)[0][0].item<float>() == 0.5f);
  auto [u, s, vh] = linalg::svd(a);
  CHECK(s[0].item<float>() == 4 && u.dim() == 2 && vh.dim() == 2);
  CHECK(linalg::norm(a, None, {0}).numel() == 2 && linalg::cond(a, 2).item<float>() == 2);
  CHECK(special::expit(zeros({1})).item<float>() == 0.5f && absolute(-a).equal(a) && concat({a, a}).size(0) == 4);
  CHECK(check::near(special::ndtr(zeros({})).item(), 0.5));
}

TEST(lists_of_tensors_and_numbers)
{
  Tensor a = ones({2}), b = zeros({2});
  CHECK(cat({a, b}, 0).numel() == 4 && stack({a, b}, 1).shape() == Ints({2, 2}));
  std::vector<Tensor> many(3, a);
  CHECK(cat(many).numel() == 6 && einsum("i,i->", {a, a}).item<float>() == 2);
  CHECK(where(a > 0, 5.0, b).sum().item<float>() == 10 && clamp(a * 3, 0, 2).equal(full({2}, 2.0)));
  CHECK(clamp(a * 3, ClampOptions().max(tensor(2.5))).equal(full({2}, 2.5)) && a.clamp(None, 0.5).max().item() == 0.5);
  CHECK(add(a, b, AddOptions().alpha(3)).equal(a) && a.add(2, 2).max().item<float>() == 5);
  CHECK(meshgrid({a, b}).size() == 2 && a.chunk(2).size() == 2);
}

TEST(in_place)
{
  Tensor a = full({3}, -2.0);
  CHECK(a.abs_().is_same(a) && a.max().item<float>() == 2);
  relu_(a.neg_());
  CHECK(a.sum().item<float>() == 0);
  CHECK(a.add_(1).mul_(3).sum().item<float>() == 9 && a.zero_().sum().item<float>() == 0);
  CHECK(a.uniform_(2, 3).min().item<float>() >= 2 && a.normal_(100, 0.1).min().item<float>() > 90);
  CHECK(a.random_(1, 2).sum().item<float>() == 3 && a.bernoulli_(1.0).sum().item<float>() == 3);
  CHECK_THROWS(CN_ERR_SHAPE, a.add_(ones({2, 3})));
}

TEST(making)
{
  CHECK(zeros({}).dim() == 0 && ones({2}, options().dtype(f16)).dtype() == f16 && eye(3).sum().item<float>() == 3);
  CHECK(zeros_like(ones({2}), i32).dtype() == i32 && full({2}, 1.5).dtype() == f32 && linspace(0, 1, 5).numel() == 5);
  CHECK(arange(1, 7, 2).equal(tensor({1, 3, 5})) && randperm(5).sum().item<int>() == 10);
  CHECK(randn({2}, options().requires_grad(true)).requires_grad());
  CHECK(dropout(ones({100}), 0.5, false).sum().item<float>() == 100);
  CHECK(max_pool2d(ones({1, 1, 4, 4}), 2).shape() == Ints({1, 1, 2, 2}) && flatten(ones({2, 3, 4}), 1).size(1) == 12);
  CHECK(interpolate(ones({1, 1, 2, 2}), InterpolateOptions().scale_factor({2.0, 2.0})).size(3) == 4);
}

TEST_MAIN
