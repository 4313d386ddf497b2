/* names.hpp: the names that PyTorch's C++ API has for what stands in namespace cn under another one or without a
 * namespace: cn::kFloat32, cn::nn::Linear, cn::optim::SGD, cn::indexing::Slice. With `namespace torch = cn;` much of a
 * program written for it reads the same.
 *
 * Place in the flow: last. Invariant: it adds names and nothing else. */
#ifndef CAIRN_NAMES_HPP
#define CAIRN_NAMES_HPP

#include <cairn/train.hpp>
#include <cairn/zoo.hpp>

namespace cn {

/* ---- types ---- */
inline constexpr DType kBool = CN_BOOL, kUInt8 = CN_U8, kByte = CN_U8, kInt8 = CN_I8, kChar = CN_I8, kInt16 = CN_I16,
                       kShort = CN_I16, kInt32 = CN_I32, kInt = CN_I32, kInt64 = CN_I64, kLong = CN_I64,
                       kFloat16 = CN_F16, kHalf = CN_F16, kBFloat16 = CN_BF16, kFloat32 = CN_F32, kFloat = CN_F32,
                       kFloat64 = CN_F64, kDouble = CN_F64;
using ScalarType = DType;
using IntArrayRef = Ints;
using TensorList = Tensors;
using InferenceMode = InferenceGuard;
using std::nullopt;

/* Words that options take. */
inline constexpr const char *kSum = "sum", *kMean = "mean", *kNone = "none", *kZeros = "zeros", *kReflect = "reflect",
                            *kReplicate = "replicate", *kCircular = "circular", *kNearest = "nearest",
                            *kBilinear = "bilinear", *kBicubic = "bicubic", *kTanh = "tanh", *kReLU = "relu",
                            *kGELU = "gelu", *kFanIn = "fan_in", *kFanOut = "fan_out", *kLeakyReLU = "leaky_relu";

/* ---- namespaces ---- */
namespace indexing {
using cn::Ellipsis;
using cn::None;
using cn::Slice;
using TensorIndex = cn::Index;
}  // namespace indexing

namespace autograd {
using cn::backward;
using cn::Function;
using cn::grad;
using AutogradContext = cn::Context;
using Variable = cn::Tensor;
using tensor_list = std::vector<cn::Tensor>;
using variable_list = std::vector<cn::Tensor>;
}  // namespace autograd

namespace optim {
using namespace ::cn;
}

namespace nn {
using namespace ::cn;
namespace functional {
using namespace ::cn;
}
namespace utils {
using cn::clip_grad_norm_;
using cn::clip_grad_value_;
using cn::parameters_to_vector;
using cn::vector_to_parameters;
namespace rnn {
using cn::pack_padded_sequence;
using cn::pack_sequence;
using cn::PackedSequence;
using cn::pad_packed_sequence;
using cn::pad_sequence;
}  // namespace rnn
}  // namespace utils
}  // namespace nn

namespace data {
using cn::DataLoader;
using cn::DataLoaderOptions;
using cn::make_data_loader;
using cn::Sampler;
using Example = cn::Sample;

namespace datasets {
/* The files of MNIST in a folder. */
struct MNIST : cn::Dataset {
  enum class Mode { kTrain, kTest };
  explicit MNIST(const std::string &folder, Mode mode = Mode::kTrain)
      : Dataset(cn::mnist(folder, mode == Mode::kTrain ? CN_TRAIN : CN_TEST))
  {
  }
};
}  // namespace datasets

namespace transforms {
using namespace ::cn::transforms;
template <class = void> struct Normalize : cn::Transform {
  Normalize(Floats mean, Floats std) : Transform(normalize(mean, std)) {}
};
/* Loaders stack by themselves. */
template <class = void> struct Stack {
  Sample operator()(Sample sample) const { return sample; }
};
}  // namespace transforms

namespace samplers {
struct RandomSampler {
  static constexpr bool shuffle = true;
};
struct SequentialSampler {
  static constexpr bool shuffle = false;
};
}  // namespace samplers

template <class S> std::unique_ptr<DataLoader> make_data_loader(const Dataset &set, DataLoaderOptions options = {})
{
  return cn::make_data_loader(set, options.shuffle(S::shuffle));
}
}  // namespace data

}  // namespace cn

#endif
