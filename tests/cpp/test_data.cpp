/* test_data.cpp: data sets, loaders, transforms, tokenizers, trees and files. */
#include "check.hpp"

#include <cstdio>
#include <numeric>
#include <set>

using namespace cn;

struct Squares {
  int64_t n;
  int64_t size() const { return n; }
  std::pair<Tensor, Tensor> get(int64_t i) const
  {
    if (i == 13) throw std::out_of_range("thirteen");
    return {full({2}, static_cast<double>(i)), tensor(i * i)};
  }
};

TEST(sets)
{
  Dataset set = digits(Train);
  CHECK(set.size() == 1437 && set.get(0).data().shape() == Ints({1, 8, 8}) && set.get(5).target().dtype() == i64);
  CHECK(set.label(3) == "3" && digits(Test).size() == 360);
  Dataset part = set.subset({5, 7}), all = concat({part, set.range(0, 10)});
  CHECK(all.size() == 12 && part.get(1).data().equal(set.get(7).data()));
  auto halves = set.random_split({1000, 437}, 1);
  CHECK(halves[1].size() == 437);
  Dataset twice = set.map([](Sample s) { return Sample(s.data() * 2, s.target()); });
  CHECK(twice.get(0).data().equal(set.get(0).data() * 2));
  Dataset rows = tensor_dataset({arange(10), arange(10) * 3});
  CHECK(rows.get(4).target().item<int>() == 12);
  CHECK_THROWS(CN_ERR_INDEX, set.get(2000));
  CHECK_THROWS(CN_ERR_IO, idx("no such file", "none"));
}

TEST(own_sets_and_loaders)
{
  DataLoader loader(Dataset::of(Squares{10}), DataLoaderOptions(4).workers(2));
  int64_t seen = 0, batches = 0;
  for (const Batch &batch : loader) {
    CHECK(batch.data.size(1) == 2 && batch.size == batch.data.size(0) && batch.number == batches);
    seen += batch.target.sum().item<int64_t>();
    batches++;
  }
  CHECK(batches == 3 && loader.size() == 3 && seen == 285 && loader.dataset_size() == 10);
  DataLoader bad(Dataset::of(Squares{14}));
  int good = 0;
  try {
    for (const Batch &batch : bad) good += batch.size > 0;
    CHECK(false);
  } catch (const std::exception &e) {
    CHECK(good == 13 && std::string(e.what()).find("thirteen") != std::string::npos);
  }
}

TEST(order)
{
  Dataset rows = tensor_dataset({arange(100)});
  DataLoader a(rows, DataLoaderOptions(10).shuffle(true).seed(7)), b(rows, DataLoaderOptions(10).shuffle(true).seed(7));
  std::set<int64_t> all;
  std::vector<int64_t> first, second;
  for (const Batch &batch : a)
    for (int64_t i : batch.data.to_vector<int64_t>()) first.push_back(i);
  for (const Batch &batch : b)
    for (int64_t i : batch.data.to_vector<int64_t>()) second.push_back(i);
  all.insert(first.begin(), first.end());
  CHECK(first == second && all.size() == 100 && !std::is_sorted(first.begin(), first.end()));
  int n = 0;
  for (const Batch &batch : a)
    if (n += batch.size > 0, n == 3) break;
  Tree state = a.state_dict();
  n = 0;
  for (const Batch &batch : a) n += batch.size > 0; /* a loop that was left begins anew */
  CHECK(n == 10);
  b.load_state_dict(state);
  n = 0;
  for (const Batch &batch : b) n += batch.size > 0; /* and a loaded state goes on */
  CHECK(n == 7);
}

TEST(transforms_of_images)
{
  Dataset set = digits().map(transforms::normalize({0.5}, {0.5})).map(transforms::resize(16, 16));
  CHECK(set.get(0).data().shape() == Ints({1, 16, 16}));
  Transform negative([](const Tensor &image) { return 1 - image; });
  CHECK(negative(zeros({1, 4, 4})).sum().item<float>() == 16);
  CHECK(digits().map(negative).get(0).data().equal(1 - digits().get(0).data()));
  Dataset noisy = digits().map([](Sample s, Draws &draws) { return Sample(s.data() + draws.uniform(), s.target()); });
  CHECK(noisy.get(3).data().equal(noisy.get(3).data()));
}

TEST(texts)
{
  Tokenizer chars = Tokenizer::chars("hello world");
  Tensor tokens = chars.encode("hold");
  CHECK(tokens.numel() == 4 && chars.decode(tokens) == "hold" && chars.size() == 8 && chars.id("?") == -1);
  CHECK(Tokenizer::bytes().encode("A")[0].item<int>() == 65);
  DataLoader windows(token_tensor(Tokenizer::bytes().encode("abcdefghij"), 4), DataLoaderOptions(2));
  for (const Batch &batch : windows) CHECK((batch.target - batch.data).min().item<int>() == 1);
}

TEST(trees)
{
  Tree t = Tree::dict().put("epoch", 3).put("name", "run").put("x", ones({2}));
  t.put("list", Tree::list().push(1.5).push(true));
  CHECK(t["epoch"].as_int() == 3 && t["name"].as_string() == "run" && t["x"].tensor().numel() == 2);
  CHECK(t["list"].at(0).as_double() == 1.5 && t["list"].at(1).as_bool() && !t["absent"]["deeper"].exists());
  CHECK(t.size() == 4 && t.key(1) == "name" && Tree(t).size() == 4);
  CHECK(Tree::from_json("{\"a\": [1, 2]}")["a"].at(1).as_int() == 2);
  CHECK_THROWS(CN_ERR_TYPE, t["epoch"].tensor());
  CHECK_THROWS(CN_ERR_IO, Tree::from_json("{"));
}

TEST(files)
{
  const std::string pt = "cpp_test_data.pt", st = "cpp_test_data.safetensors", npy = "cpp_test_data.npy";
  Tensor x = randn({3, 4}), y;
  save(x, npy);
  load(y, npy);
  CHECK(y.equal(x) && load_npy(npy).equal(x));
  save(std::map<std::string, Tensor>{{"a", x}, {"b", x * 2}}, st);
  CHECK(load(st)["b"].tensor().equal(x * 2));
  save(Tree::dict().put("step", 7).put("weights", Tree::dict().put("w", x)), pt);
  Tree back = load(pt);
  CHECK(back["step"].as_int() == 7 && back["weights"]["w"].tensor().equal(x));
  for (const auto &path : {pt, st, npy}) std::remove(path.c_str());
}

TEST_MAIN
