/* test_tensor.cpp: values, operators, indexing, numbers in and out, errors. */
#include "check.hpp"

#include <sstream>
#include <thread>

using namespace cn;

TEST(copies_share_and_moves_empty)
{
  Tensor a = zeros({2, 3}), b = a, c;
  CHECK(!c.defined() && a.is_same(b));
  b.fill_(2);
  CHECK(a.sum().item<float>() == 12);
  c = std::move(b);
  CHECK(c.is_same(a) && c.numel() == 6);
  const Tensor &same = c;
  c = same;
  CHECK(c.is_same(a));
  std::vector<Tensor> many(3, a);
  many.erase(many.begin());
  CHECK(many.size() == 2 && many[1].is_same(a));
}

TEST(made_from_numbers)
{
  Tensor a = tensor({{1, 2, 3}, {4, 5, 6}});
  CHECK(a.dtype() == i64 && a.shape() == Ints({2, 3}));
  CHECK(tensor({1.5, 2.0}).dtype() == f32 && tensor({true, false}).dtype() == boolean && tensor(3).dim() == 0);
  CHECK(tensor({1, 2}, f64).dtype() == f64 && tensor({1.0}, options().requires_grad()).requires_grad());
  CHECK(tensor(std::vector<double>{1, 2, 3, 4}, {2, 2}).dtype() == f64);
  CHECK_THROWS(CN_ERR_SHAPE, tensor(std::vector<float>{1, 2, 3}, {2, 2}));
  CHECK_THROWS(CN_ERR_SHAPE, tensor({{1, 2}, {3}}));
  CHECK((a.to_vector<int>() == std::vector<int>{1, 2, 3, 4, 5, 6}));
  CHECK((a.to(f32).to_vector<double>()[5] == 6.0));
  CHECK(arange(5).sum().item<int>() == 10 && full({2}, 7).dtype() == i64);
}

TEST(memory_of_ones_own)
{
  std::vector<float> numbers{1, 2, 3, 4};
  bool released = false;
  {
    Tensor t = from_blob(numbers.data(), {2, 2}, [&released] { released = true; });
    t += 1;
    Tensor row = t[1];
    t = Tensor();
    CHECK(row.data<float>() == numbers.data() + 2 && !released);
  }
  CHECK(released && numbers[3] == 5);
}

TEST(accessors)
{
  Tensor t = arange(6).to(f32).reshape({2, 3});
  auto a = t.t().accessor<float, 2>();
  a(2, 1) = 50;
  CHECK(a.size(0) == 3 && a(1, 0) == 1 && t[1][2].item<float>() == 50);
  CHECK_THROWS(CN_ERR_DTYPE, t.data<double>());
  CHECK_THROWS(CN_ERR_SHAPE, (t.accessor<float, 3>()));
  CHECK(t.size(-1) == 3 && t.nbytes() == 24 && t.strides()[0] == 3);
  CHECK_THROWS(CN_ERR_INDEX, t.size(2));
}

TEST(operators)
{
  Tensor a = tensor({1.0, 2.0, 3.0}), b = tensor({3.0, 2.0, 1.0});
  CHECK((a + b).equal(full({3}, 4.0)) && (a - 1)[0].item<float>() == 0 && (6 / a)[2].item<float>() == 2);
  CHECK((2 - a)[2].item<float>() == -1 && (-a * b).sum().item<float>() == -10);
  CHECK((a == b).sum().item<int>() == 1 && (a < b).sum().item<int>() == 1 && (2 <= a).sum().item<int>() == 2);
  CHECK((2 < a).sum().item<int>() == 1 && (a != 2).sum().item<int>() == 2 && (!(a > 1))[0].item<bool>());
  CHECK(((a > 1) & (b > 1)).sum().item<int>() == 1 && (~(a > 1)).sum().item<int>() == 1);
  CHECK((tensor({7}) % 4).item<int>() == 3);
  CHECK((tensor({1, 2}) + 1.5).dtype() == f32 && (tensor({1, 2}) + 1).dtype() == i64);
  Tensor c = a.clone();
  c += b;
  c *= 2;
  c /= 4;
  c -= 1.0;
  CHECK(c.equal(full({3}, 1.0)));
}

TEST(parts)
{
  Tensor x = arange(24).reshape({2, 3, 4});
  CHECK(x[1][2][3].item<int>() == 23 && x[-1].equal(x[1]));
  CHECK(x[Slice(0, 1)].shape() == Ints({1, 3, 4}) && x[Slice(None, None, 2)].size(0) == 1);
  CHECK(x.index({Ellipsis, 0}).equal(x.select(2, 0)));
  CHECK(x.index({0, Slice(1, None), Slice(None, 2)}).shape() == Ints({2, 2}));
  CHECK(x.index({None, 0}).shape() == Ints({1, 3, 4}) && x[None].dim() == 4);
  CHECK(x[x > 20].numel() == 3 && x[tensor({1, 0, 1})].shape() == Ints({3, 3, 4}));
  CHECK(x.index({Slice(), tensor({0, 2})}).shape() == Ints({2, 2, 4}));
  CHECK(x.index({tensor({0, 1}), Slice(), tensor({3, 0})})[1][2].item<int>() == 20);
  CHECK(x[true].shape() == Ints({1, 2, 3, 4}) && x[false].numel() == 0);
  CHECK_THROWS(CN_ERR_INDEX, x[2]);
  CHECK_THROWS(CN_ERR_INDEX, x.index({0, 0, 0, 0}));
  CHECK_THROWS(CN_ERR_INDEX, x[tensor({1.0})]);
}

TEST(parts_are_written_to)
{
  Tensor x = zeros({3, 3});
  x[0] = 1;
  x[1][2] = 5.0;
  x[Slice(2)] = tensor({1.0, 2.0, 3.0});
  CHECK(x.sum().item<float>() == 14);
  x[x > 2] = -1;
  CHECK(x.sum().item<float>() == 4 && x[1][2].item<float>() == -1);
  x[x < 0] *= 3;
  x[0] += 1;
  CHECK(x[1][2].item<float>() == -3 && x[0].sum().item<float>() == 6);
  x.index_put_({Slice(), 0}, 9);
  x.index({tensor({0, 1}), 1}) = tensor({7.0, 8.0});
  CHECK(x[2][0].item<float>() == 9 && x[1][1].item<float>() == 8);
  x[0] = x[1];
  CHECK(x[0].equal(x[1]));
  auto row = x[0]; /* a variable is a variable: it is bound anew, nothing is written */
  row = zeros({3});
  CHECK(x[0].equal(x[1]) && row.sum().item<float>() == 0);
}

TEST(printing)
{
  std::ostringstream out;
  out << tensor({{1, 2}, {3, 4}}) << " " << zeros({2, 3}).shape() << " " << Tensor();
  CHECK(out.str() == "tensor([[1, 2],\n        [3, 4]]) (2, 3) [ undefined tensor ]");
}

TEST(failures_are_exceptions)
{
  Tensor a = zeros({2, 3}), b = zeros({4});
  CHECK_THROWS(CN_ERR_SHAPE, a + b);
  CHECK_THROWS(CN_ERR_TYPE, add(a, Tensor()));
  CHECK_THROWS(CN_ERR_VALUE, a.item<float>());
  CHECK((a + 1).sum().item<float>() == 6); /* nothing stays pending */
  try {
    matmul(a, b);
    CHECK(false);
  } catch (const std::runtime_error &e) {
    CHECK(std::string(e.what()).find("matmul") != std::string::npos);
  }
  CHECK_THROWS(CN_ERR_DEVICE, a.to("no such device"));
}

TEST(types_and_devices)
{
  Tensor a = ones({2}, f64);
  CHECK(a.dtype() == f64 && a.to(i32).dtype() == i32 && a.to(f64).is_same(a) && a.device() == cpu);
  CHECK(a.device().name() == "cpu" && zeros({1}, "cpu").device().is_cpu());
  CHECK(a.type_as(zeros({1}, f32)).dtype() == f32 && a.reshape_as(zeros({2, 1})).dim() == 2);
  manual_seed(3);
  Tensor first = randn({4});
  manual_seed(3);
  CHECK(randn({4}).equal(first) && randint(5, {100}).max().item<int>() < 5);
}

TEST(threads)
{
  Tensor x = ones({1000});
  std::vector<std::thread> all;
  std::vector<double> sums(4);
  for (size_t i = 0; i < 4; i++)
    all.emplace_back([&, i] {
      for (int k = 0; k < 100; k++) sums[i] = (Tensor(x) * static_cast<double>(i)).sum().item();
    });
  for (auto &t : all) t.join();
  CHECK(sums[3] == 3000);
}

TEST_MAIN
