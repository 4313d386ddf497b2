/* test_onnx.cpp: models in ONNX's files in C++: what they take, runs, parts, training, graphs. */
#include "check.hpp"

#include <cstdio>
#include <cstdlib>

/* One of tests/fuzz/seeds/onnx. */
static cn::Onnx model(const std::string &name)
{
  const char *seeds = std::getenv("CAIRN_SEEDS");
  return cn::Onnx::load(std::string(seeds ? seeds : "tests/fuzz/seeds") + "/onnx/" + name + ".onnx");
}

TEST(a_model)
{
  const cn::Onnx softmax = model("softmax");
  CHECK(softmax.inputs().size() == 1 && softmax.inputs()[0].name == "x" && softmax.inputs()[0].symbols[0] == "N");
  CHECK(softmax.outputs()[0].name == "y" && softmax.opset() == 17 && softmax.metadata("none").empty());
  const cn::Tensor x = cn::randn({3, 4}), want = cn::softmax(x * x, -1);
  CHECK(cn::equal(softmax(x), want));
  CHECK(cn::equal(softmax.run({{"x", x}})[0].tensor(), want));
  CHECK(cn::equal(softmax.run({{"x", x}}, {"s"})[0].tensor(), x * x));
  CHECK(cn::equal(softmax.run({{"x", x}, {"s", x}}, {"y"})[0].tensor(), cn::softmax(x, -1)));
  CHECK_THROWS(CN_ERR_VALUE, softmax({x, x}));
  CHECK_THROWS(CN_ERR_VALUE, softmax.run({}));
  CHECK_THROWS(CN_ERR_IO, cn::Onnx::read("no model"));
}

TEST(values)
{
  const cn::Tensor x = cn::ones({2, 4});
  const std::vector<cn::OnnxValue> made = model("sequences").run({{"x", x}}, {"r", "y"});
  CHECK(made[0].kind() == CN_ONNX_SEQUENCE && made[0].values().size() == 3);
  CHECK(cn::equal(made[0].values()[2].tensor(), x) && cn::equal(made[1].tensor(), x));
  CHECK(cn::OnnxValue().kind() == CN_ONNX_NONE && cn::OnnxValue({made[1], made[1]}).values().size() == 2);
  CHECK(cn::OnnxValue(cn::Strings({"to", "be"})).strings()[1] == "be");
  CHECK_THROWS(CN_ERR_TYPE, made[0].tensor());
  CHECK_THROWS(CN_ERR_TYPE, made[1].strings());
}

TEST(training_and_graphs)
{
  const cn::Onnx network = model("network");
  cn::AnyModule net = network.module();
  const cn::Tensor x = cn::randn({1, 2, 5, 5});
  const cn::Tensor before = network(x);
  CHECK(cn::equal(net(x), before) && net.parameters().size() == 2);
  cn::SGD optimizer(net, cn::SGDOptions().lr(1e-3));
  net(x).sum().backward();
  optimizer.step();
  CHECK(!cn::equal(net(x), before) && cn::equal(network(x), before));

  const cn::Graph graph = model("softmax").graph({cn::ones({5, 4})});
  for (int64_t n : {1, 3}) {
    const cn::Tensor rows = cn::randn({n, 4});
    CHECK(cn::equal(graph({rows})[0], model("softmax")(rows)));
  }
}

TEST(writing)
{
  const cn::Graph graph = model("softmax").graph({cn::ones({5, 4})});
  const cn::Tensor rows = cn::randn({3, 4});
  char folder[] = "/tmp/cairn-onnx-XXXXXX";
  CHECK(mkdtemp(folder) != nullptr);
  const std::string path = std::string(folder) + "/again.onnx";
  cn::OnnxSave how;
  how.opset = 18;
  how.inputs = {"rows"};
  how.outputs = {"shares"};
  cn::onnx_save(graph, path, how);
  const cn::Onnx again = cn::Onnx::load(path);
  CHECK(again.opset() == 18 && again.inputs()[0].name == "rows" && again.outputs()[0].name == "shares");
  CHECK(cn::allclose(again(rows), graph({rows})[0]));
  how.opset = 1;
  CHECK_THROWS(CN_ERR_VALUE, cn::onnx_save(graph, path, how));
  std::remove(path.c_str());
  std::remove(folder);
}

TEST_MAIN
