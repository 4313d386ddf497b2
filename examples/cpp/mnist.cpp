/* mnist.cpp: a convolutional network that reads hand-written digits, with a training loop written out.
 *
 *     c++ -std=c++17 mnist.cpp $(pkg-config --cflags --libs cairn) && ./a.out
 *     ./a.out [IMAGES LABELS [TEST_IMAGES TEST_LABELS]] [EPOCHS]
 *
 * The program of PyTorch's C++ examples in cairn: docs/CPP.md has the two beside each other. IMAGES and LABELS are IDX
 * files as MNIST has them, gzipped or not; of two files the last tenth is for testing. Without files it uses the 8 x 8
 * digits that are part of the library, for a few seconds. It ends with status 0 only if it reads digits well. */
#include <cairn/cairn.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

const int64_t kTrainBatchSize = 64;
const int64_t kTestBatchSize = 1000;
const int64_t kLogInterval = 10;

struct Net : cn::Module {
  explicit Net(int64_t side)
      : conv1(1, 10, side > 8 ? 5 : 3, cn::Conv2d::Options().padding(side > 8 ? 0 : 1)),
        conv2(10, 20, side > 8 ? 5 : 3, cn::Conv2d::Options().padding(side > 8 ? 0 : 1)),
        fc1(side > 8 ? 320 : 80, 50),
        fc2(50, 10)
  {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("conv2_drop", conv2_drop);
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }

  cn::Tensor forward(cn::Tensor x)
  {
    x = cn::relu(cn::max_pool2d(conv1(x), 2));
    x = cn::relu(cn::max_pool2d(conv2_drop(conv2(x)), 2));
    x = x.flatten(1);
    x = cn::relu(fc1(x));
    x = cn::dropout(x, 0.5, is_training());
    x = fc2(x);
    return cn::log_softmax(x, 1);
  }

  cn::Conv2d conv1;
  cn::Conv2d conv2;
  cn::Dropout2d conv2_drop;
  cn::Linear fc1;
  cn::Linear fc2;
};

static void train(int64_t epoch, Net &model, cn::Device device, cn::DataLoader &loader, cn::Optimizer &optimizer)
{
  model.train();
  int64_t seen = 0;
  for (const cn::Batch &batch : loader) {
    auto data = batch.data.to(device), targets = batch.target.to(device);
    optimizer.zero_grad();
    auto output = model.forward(data);
    auto loss = cn::nll_loss(output, targets);
    loss.backward();
    optimizer.step();
    seen += batch.size;
    if (batch.number % kLogInterval == 0)
      std::printf("Train Epoch: %lld [%5lld/%5lld] Loss: %.4f\n", static_cast<long long>(epoch),
                  static_cast<long long>(seen), static_cast<long long>(loader.dataset_size()), loss.item<double>());
  }
}

static double test(Net &model, cn::Device device, cn::DataLoader &loader)
{
  cn::NoGradGuard no_grad;
  model.eval();
  double test_loss = 0;
  int64_t correct = 0;
  for (const cn::Batch &batch : loader) {
    auto data = batch.data.to(device), targets = batch.target.to(device);
    auto output = model.forward(data);
    test_loss += cn::nll_loss(output, targets, cn::NllLossOptions().reduction("sum")).item<double>();
    auto pred = output.argmax(1);
    correct += pred.eq(targets).sum().item<int64_t>();
  }
  const double size = static_cast<double>(loader.dataset_size());
  std::printf("Test set: Average loss: %.4f | Accuracy: %.3f\n", test_loss / size, static_cast<double>(correct) / size);
  return static_cast<double>(correct) / size;
}

/* The sets for training and for testing. */
static std::pair<cn::Dataset, cn::Dataset> open_data(const std::vector<std::string> &files)
{
  if (files.empty()) return {cn::digits(cn::Train), cn::digits(cn::Test)};
  cn::Dataset all = cn::idx(files.at(0), files.at(1));
  if (files.size() == 4) return {all, cn::idx(files[2], files[3])};
  const int64_t split = all.size() / 10 * 9;
  return {all.range(0, split), all.range(split, all.size())};
}

int main(int argc, char **argv)
try {
  cn::manual_seed(1);
  const cn::Device device = cn::cuda::is_available() ? "cuda" : "cpu";
  std::vector<std::string> files(argv + 1, argv + argc);
  int64_t epochs = files.empty() ? 20 : 10;
  if (files.size() % 2) {
    epochs = std::stoll(files.back());
    files.pop_back();
  }

  auto [train_set, test_set] = open_data(files);
  const int64_t side = train_set.get(0).data().size(1);
  const auto normalize = cn::transforms::normalize({side > 8 ? 0.1307 : 0.3053}, {side > 8 ? 0.3081 : 0.3760});
  cn::DataLoader train_loader(train_set.map(normalize), cn::DataLoaderOptions(kTrainBatchSize).shuffle(true));
  cn::DataLoader test_loader(test_set.map(normalize), kTestBatchSize);

  Net model(side);
  model.to(device);
  cn::SGD optimizer(model.parameters(), cn::SGDOptions(side > 8 ? 0.01 : 0.1).momentum(0.5));

  double accuracy = 0;
  for (int64_t epoch = 1; epoch <= epochs; epoch++) {
    train(epoch, model, device, train_loader, optimizer);
    accuracy = test(model, device, test_loader);
  }
  return accuracy > 0.9 || epochs < 5 ? 0 : 1;
} catch (const cn::Error &e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
