/* test_own.cpp: samplers and collate functions of one's own, packed sequences, derivatives, kinds of errors; owners of
 * what C hands out. */
#include "check.hpp"

#include <cstdio>

using namespace cn;

namespace {

struct Words {
  std::vector<std::vector<int64_t>> rows;
  std::optional<size_t> size() const { return rows.size(); }
  Tensor get(size_t i) const { return tensor(rows[i]); }
};

struct Numbers {
  int size() const { return 10; }
  std::pair<Tensor, Tensor> get(int i) const { return {full({1}, i), tensor(i % 2)}; }
};

}  // namespace

TEST(samplers_and_collate)
{
  Sampler backwards(10, [](uint64_t, int64_t epoch) {
    std::vector<int64_t> order;
    for (int64_t i = 9; i >= 0; i--) order.push_back((i + epoch) % 10);
    return order;
  });
  DataLoader loader(Numbers{}, DataLoaderOptions(5).sampler(backwards));
  for (int64_t epoch = 0; epoch < 2; epoch++) {
    auto first = loader.begin();
    CHECK(first->data[0][0].item<int64_t>() == (9 + epoch) % 10);
  }
  for (Batch &batch : DataLoader(Numbers{}, DataLoaderOptions(3).sampler(Sampler({7, 1, 1}))))
    CHECK(batch.data.flatten().equal(tensor({7, 1, 1})) && batch.size == 3);
  CHECK(Sampler::weighted({0, 0, 1}, 4).order(1, 0) == std::vector<int64_t>(4, 2));
  CHECK(Sampler::shard(10, 1, 2, false).size() == 5);
  Sampler wrong(3, [](uint64_t, int64_t) { return std::vector<int64_t>{1}; });
  DataLoader bad(Numbers{}, DataLoaderOptions(1).sampler(wrong));
  CHECK_THROWS(CN_ERR_VALUE, bad.begin());
  auto pad = [](const std::vector<Sample> &samples) {
    std::vector<Tensor> rows;
    std::vector<int64_t> lengths;
    for (const Sample &s : samples) rows.push_back(s.data()), lengths.push_back(s.data().size(0));
    return Sample(pad_sequence(rows, true, -1), tensor(lengths));
  };
  Words words{{{1, 2, 3}, {4}, {5, 6}, {7, 8, 9, 10}}};
  std::vector<int64_t> widths;
  for (const Batch &batch : DataLoader(words, DataLoaderOptions(2).workers(2).collate(pad)))
    widths.push_back(batch.data.size(1));
  CHECK((widths == std::vector<int64_t>{3, 4}));
  Transform both = transforms::compose({transforms::normalize(0.5, 0.5), [](const Tensor &x) { return x * 2; }});
  CHECK(digits().map(both).get(0).data().min().item() == -2);
  auto drawn = digits().map([](Sample s, Draws &d) { return Sample(s.data() + d.uniform(), s.target()); });
  CHECK(drawn.get(3).data().equal(drawn.get(3).data()));
}

TEST(packed_sequences)
{
  LSTM lstm(3, 5, LSTM::Options().batch_first(true).bidirectional(true));
  Tensor padded = randn({3, 4, 3}), lengths = tensor({2, 4, 1});
  auto [output, h, c] = lstm(pack_padded_sequence(padded, lengths, true, false));
  auto [back, sizes] = pad_packed_sequence(output, true);
  CHECK(back.shape() == Ints({3, 4, 10}) && sizes.equal(lengths) && c.shape() == h.shape());
  auto one = lstm(padded.index({Slice(0, 1), Slice(0, 2)}));
  CHECK(one.output.allclose(back.index({Slice(0, 1), Slice(0, 2)}), 1e-5, 1e-6));
  auto [steps, last] = GRU(3, 5)(pack_sequence({randn({4, 3}), randn({2, 3})}));
  CHECK(unpack_sequence(steps)[1].size(0) == 2 && last.size(1) == 2);
  CHECK(unpad_sequence(padded, lengths, true)[0].size(0) == 2);
  CHECK_THROWS(CN_ERR_VALUE, pack_padded_sequence(padded, lengths, true));
  CHECK(square_subsequent_mask(3)[0].equal(tensor({0.0, -INFINITY, -INFINITY})));
}

TEST(derivatives)
{
  Tensor x = tensor({1.0, 2.0, 3.0}), v = ones({3});
  auto [y, dy] = jvp([](const Tensor &t) { return t * t; }, x, v);
  CHECK(y.equal(x * x) && dy.equal(2 * x));
  auto [z, g] = vjp([](const Tensor &t) { return t.exp(); }, x, v);
  CHECK(g.allclose(z));
  Derivative d = jvp([](const std::vector<Tensor> &in) { return std::vector<Tensor>{in[0] * in[1], in[0] + in[1]}; },
                     {x, x}, {v, Tensor()}, 2);
  CHECK(d.values[0].equal(x) && d.values[1].equal(v));
  Tensor w = x.clone().requires_grad_();
  Tensor made = checkpoint([](const Tensor &a, const Tensor &b) { return a * b; }, w, x);
  backward({made.sum(), (w * 2).sum()});
  CHECK(w.grad().equal(x + 2));
  Node node = (w * 2 + 1).grad_fn();
  CHECK(node->name() == "add" && node.inputs()[0].name() == "mul" && !w.grad_fn() && w.grad_fn() == nullptr);
  AutoGradMode off(false);
  CHECK(!(w * 2).requires_grad());
}

TEST(kinds_of_errors)
{
  auto kind = [](auto &&body) {
    try {
      body();
    } catch (const ShapeError &) {
      return 1;
    } catch (const IndexError &) {
      return 2;
    } catch (const FileError &) {
      return 3;
    } catch (const Error &) {
      return 4;
    }
    return 0;
  };
  CHECK(kind([] { ones({2}) + ones({3}); }) == 1 && kind([] { ones({2})[5]; }) == 2);
  CHECK(kind([] { load("no/such/file.pt"); }) == 3 && kind([] { Device("nonsense"); }) == 4);
  for (int status = CN_ERR_MEMORY; status >= CN_ERR_CANCELLED; status--) {
    bool own = false;
    try {
      cn_err_set(status, "made here");
      detail::check(cn_err());
    } catch (const Error &e) {
      own = e.status() == status && typeid(e) != typeid(Error);
    }
    CHECK(own && cn_err() == 0);
  }
}

TEST(owners)
{
  const char *path = "cpp_test_own.safetensors";
  save(std::map<std::string, Tensor>{{"a", ones({2})}, {"b", zeros({3})}}, path);
  {
    SafeTensors file(path);
    CHECK(file.keys().size() == 2 && file["b"].numel() == 3 && !file.metadata("x"));
    MappedFile mapped(path), taken(std::move(mapped));
    CHECK(taken.size() > 16 && !mapped.data());
    const std::string bytes(reinterpret_cast<const char *>(taken.data()), taken.size());
    CHECK(load_bytes(bytes)["a"].tensor().numel() == 2);
  }
  {
    FileWriter lost(path);
    lost.write("never seen");
  }
  CHECK(SafeTensors(path).keys().size() == 2);
  FileWriter writer(path);
  writer.write("seen");
  writer.commit();
  CHECK(MappedFile(path).size() == 4 && !list_folder(".").empty());
  std::remove(path);
  CHECK(load_bytes(save_bytes(Tree::dict().put("x", ones({2}))))["x"].tensor().sum().item() == 2);
  manual_seed(5);
  RandomState before = get_rng_state();
  Tensor a = randn({3});
  {
    StateGuard other;
    manual_seed(9);
    CHECK(!randn({3}).equal(a));
  }
  set_rng_state(before);
  CHECK(randn({3}).equal(a));
  Signature signature("Thing(int n, float p=0.5) -> Module ; thing");
  Args args(signature, {cn_v_int(3)});
  CHECK(args["n"].u.i == 3 && args["p"].u.f == 0.5 && signature.find("p") == 1);
  Tensor shared = from_dlpack(to_dlpack(a));
  CHECK(shared.equal(a) && shared.data_ptr<float>() == a.data_ptr<float>());
  TextBuffer text;
  cn_text_put(text.get(), "some text");
  CHECK(text.str() == "some text");
  CHECK(image::decode(image::encode_png(zeros({1, 4, 4}))).shape() == Ints({1, 4, 4}));
}

TEST(descriptions_and_caches)
{
  Description d = Description::parse("[net]\ninput = 1, 8, 8\n[Flatten]\n[Linear]\nout_features = 10\n", "tiny");
  CHECK(d.net()(zeros({2, 1, 8, 8})).shape() == Ints({2, 10}) && d.str().find("Linear") != std::string::npos);
  CHECK(d.get("net", "input").exists() && d.optimizer(d.net()).name() == "AdamW" && !d.loss().is_empty());
  CHECK_THROWS(CN_ERR_VALUE, Description::parse("[net]\n[Nonsense]\n", "bad"));
  Tree config = Tree::dict().put("n_layer", 1).put("n_head", 2).put("n_embd", 16);
  config.put("vocab_size", 11).put("n_positions", 32);
  AnyModule gpt = zoo("gpt2", ZooOptions().config(config));
  Tensor tokens = randint(11, {1, 4});
  Tensor all = generate(gpt, tokens, GenerateOptions().max_new_tokens(2).temperature(0));
  Cache cache(gpt, 1, 16);
  Tensor next = decode_step(gpt, tokens, cache).index({Slice(), -1}).argmax(-1, true);
  CHECK(next.equal(all.index({Slice(), Slice(4, 5)})) && cache.size() == 4);
  cache.truncate(1);
  CHECK(cache.size() == 1);
}

TEST(moves_do_not_throw)
{
  static_assert(std::is_nothrow_move_constructible_v<Tensor> && std::is_nothrow_move_assignable_v<Tensor>);
  static_assert(std::is_nothrow_move_constructible_v<Linear> && std::is_nothrow_move_assignable_v<Linear>);
  static_assert(std::is_nothrow_move_constructible_v<Sequential> && std::is_nothrow_move_constructible_v<AnyModule>);
  static_assert(std::is_nothrow_move_constructible_v<SGD> && std::is_nothrow_move_constructible_v<StepLR>);
  static_assert(std::is_nothrow_move_constructible_v<Dataset> && std::is_nothrow_move_constructible_v<DataLoader>);
  static_assert(std::is_nothrow_move_constructible_v<Tree> && std::is_nothrow_move_constructible_v<Metric>);
  static_assert(std::is_nothrow_move_constructible_v<MappedFile> && std::is_nothrow_move_constructible_v<FileWriter>);
  static_assert(std::is_nothrow_move_constructible_v<Graph> && std::is_nothrow_move_constructible_v<Description>);
}

TEST(limits)
{
  const Tensor x = ones({3});
  {
    Limits brief(1e-9);
    bool late = false;
    try {
      exp(x);
    } catch (const TimeoutError &) {
      late = true;
    }
    CHECK(late);
  }
  std::atomic<bool> cancelled{false};
  Compiled twice([](const std::vector<Tensor> &in) { return std::vector<Tensor>{in[0] * 2}; });
  {
    Limits some(0, 1, &cancelled);
    CHECK(get_num_threads() == 1 && twice({x})[0].equal(x * 2));
    Limits::check();
    cancelled = true;
    bool stopped = false;
    try {
      twice({x});
    } catch (const CancelledError &) {
      stopped = true;
    }
    CHECK(stopped);
  }
  CHECK(twice({x})[0].equal(x * 2));
}

TEST(memory_of_a_device)
{
  Device mirror("mirror");
  trim_memory(mirror);
  CHECK(memory_stats(mirror).size == sizeof(cn_device_memory_stats));
  set_memory_limit(mirror, 1);
  CHECK_THROWS(CN_ERR_MEMORY, ones({1000}, options().device(mirror)));
  set_memory_limit(mirror, 0);
  CHECK(ones({1000}, options().device(mirror)).sum().item() == 1000);
  CHECK_THROWS(CN_ERR_UNSUPPORTED, set_memory_limit(Device("cpu"), 1));
}

TEST(streams_and_events)
{
  for (const char *name : {"cpu", "mirror"}) {
    Stream stream{Device(name)};
    Event begin{Device(name), true}, end{Device(name), true};
    CHECK(begin.query() && stream.device().number() == Device(name).number());
    Tensor sum;
    {
      StreamGuard guard(stream);
      CHECK(cn_stream_current(stream.device().number()) == stream.get());
      stream.record_event(begin);
      Tensor x = cn::ones({8}, options().device(name));
      record_stream(x, stream);
      sum = x.sum();
      stream.record_event(end);
      CHECK(sum.item() == 8);
    }
    CHECK(cn_stream_current(stream.device().number()) == nullptr);
    stream.wait_event(end);
    end.synchronize();
    stream.synchronize();
    CHECK(stream.query() && begin.elapsed_time(end) >= 0);
  }
}

TEST_MAIN
