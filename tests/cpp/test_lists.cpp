/* test_lists.cpp: lists of tensors and tensors of strings in C++, eager and in compiled functions; counts in compiled
 * functions. */
#include "check.hpp"

static cn::Tensor at(int64_t i) { return cn::full({}, i, cn::i64); }

TEST(lists)
{
  const cn::Tensor a = cn::randn({2, 3}), b = cn::randn({1, 3});
  const cn::ListOfTensors list({a, b}), more = list.insert(a, at(1)), less = more.erase().erase(at(0));
  CHECK(list.length().item<int64_t>() == 2 && more.length().item<int64_t>() == 3 && less.length().item<int64_t>() == 1);
  CHECK(cn::equal(list.at(at(-1)), b) && cn::equal(less.at(at(0), {-1, 3}), a));
  CHECK(cn::equal(list.concat(), cn::cat({a, b})));
  CHECK(cn::equal(cn::ListOfTensors::rows(a).stack(), a));
  CHECK(cn::equal(cn::ListOfTensors::split(a, cn::tensor<int64_t>({1, 2}), 1).at(at(1)), a.slice(1, 1, 3)));
  CHECK(cn::equal(list.take(cn::tensor<int64_t>({1, 0})).concat(), cn::cat({b, a})));
  CHECK(cn::ListOfTensors::empty(cn::f32, 2).insert(b).length().item<int64_t>() == 1);
  CHECK_THROWS(CN_ERR_SHAPE, list.at(at(0), {1}));
  CHECK_THROWS(CN_ERR_VALUE, list.at(at(2)));
  CHECK_THROWS(CN_ERR_INDEX, cn::ListOfTensors::empty(cn::f32, 2).erase());
}

TEST(strings)
{
  const cn::Strings words({"to", "be", "or", "not"}, {2, 2}), keys({"be", "not"});
  CHECK(words[3] == "not" && words.concat(words)[1] == "bebe");
  CHECK(cn::equal(words.find(keys), cn::tensor<int64_t>({-1, 0, -1, 1}).reshape({2, 2})));
  CHECK(cn::equal(words.lookup(keys, cn::tensor<float>({1, 2}), cn::tensor<float>({9})).flatten(),
                  cn::tensor<float>({9, 1, 9, 2})));
  CHECK(words.equal(words).all().item<bool>() && words.take(at(1))[0] == "be");
  CHECK(words.count().sum().item<int64_t>() == 9);
  CHECK(cn::equal(cn::Strings::format(cn::tensor<float>({0.5f, 3})).parse(cn::f32), cn::tensor<float>({0.5f, 3})));
  CHECK_THROWS(CN_ERR_SHAPE, cn::Strings({"one"}, {2}));
  CHECK_THROWS(CN_ERR_VALUE, words.parse(cn::f32));
}

/* One program for as many as there are. */
TEST(counts_compiled)
{
  cn::Compiled fast([](const std::vector<cn::Tensor> &in) {
    const cn::Tensor chosen = in[0].masked_select(in[0].gt(0));
    return std::vector<cn::Tensor>{chosen * 2, cn::ListOfTensors({chosen, in[0]}).concat()};
  });
  for (int64_t n : {5, 9, 0, 30}) {
    const cn::Tensor x = cn::cat({cn::ones({n}), -cn::ones({40 - n})});
    const std::vector<cn::Tensor> out = fast({x});
    CHECK(out[0].size(0) == n && out[1].size(0) == 40 + n);
    CHECK(cn::equal(out[0], 2 * cn::ones({n})));
  }
  CHECK(fast.stats().eager_calls == 0);
}

TEST_MAIN
