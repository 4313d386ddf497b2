/* create.hpp: tensors from numbers of C++, and what the generated ops leave to write by hand.
 *
 * Place in the flow: after ops.hpp, which has zeros, randn, arange and the others that compute. */
#include <cairn/tensor.hpp> /* which includes this file, in its place */
#ifndef CAIRN_CREATE_HPP
#define CAIRN_CREATE_HPP

#include <memory>

namespace cn {

/* ---- written down: tensor({{1, 2}, {3, 4}}) ---- */
namespace detail {

/* A number or a list of lists of them, all of the same length. */
class Nested {
 public:
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>> Nested(T number) : numbers_{Scalar(number)} {}
  Nested(std::initializer_list<Nested> list)
  {
    shape_.push_back(static_cast<int64_t>(list.size()));
    for (const Nested &part : list) {
      if (&part == list.begin()) shape_.insert(shape_.end(), part.shape_.begin(), part.shape_.end());
      else if (!std::equal(part.shape_.begin(), part.shape_.end(), shape_.begin() + 1, shape_.end()))
        throw ShapeError("tensor: the lists are not all of the same length");
      numbers_.insert(numbers_.end(), part.numbers_.begin(), part.numbers_.end());
    }
  }
  Tensor tensor(const TensorOptions &options) const
  {
    bool fractions = numbers_.empty(), truths = !numbers_.empty();
    for (const Scalar &n : numbers_) {
      fractions |= n.value().tag == CN_V_FLOAT;
      truths &= n.value().tag == CN_V_BOOL;
    }
    DType dtype = options.dtype();
    if (!dtype) dtype = fractions ? cn_default_dtype() : truths ? CN_BOOL : CN_I64;
    const bool floating = cn_dtype_is_float(dtype);
    std::vector<double> doubles;
    std::vector<int64_t> ints;
    for (const Scalar &n : numbers_)
      if (floating) doubles.push_back(n.as_double());
      else ints.push_back(n.as_int());
    Scope scope;
    const void *from = floating ? static_cast<const void *>(doubles.data()) : ints.data();
    Tensor made = Tensor::keep(check(cn_from_data(from, shape_.data(), shape_.size(), floating ? CN_F64 : CN_I64)));
    return finish(made.to(dtype), options);
  }

 private:
  std::vector<int64_t> shape_;
  std::vector<Scalar> numbers_;
};

}  // namespace detail

/* Whole numbers become int64, others the default type (float32), unless options say another. */
inline Tensor tensor(const detail::Nested &numbers, const TensorOptions &options = {})
{
  return numbers.tensor(options);
}
inline Tensor tensor(std::initializer_list<detail::Nested> numbers, const TensorOptions &options = {})
{
  return detail::Nested(numbers).tensor(options);
}

/* Copies of numbers in memory, row by row; without a shape one after the other. */
template <class T> Tensor from_data(const T *data, Ints shape, const TensorOptions &options = {})
{
  detail::Scope scope;
  Tensor made = Tensor::keep(detail::check(cn_from_data(data, shape.data(), shape.size(), dtype_of<T>())));
  return detail::finish(made.to(options.dtype()), options);
}
template <class T, class = std::enable_if_t<!std::is_same_v<T, bool>>>
Tensor tensor(const std::vector<T> &numbers, const TensorOptions &options = {})
{
  return from_data(numbers.data(), {static_cast<int64_t>(numbers.size())}, options);
}
template <class T, class = std::enable_if_t<!std::is_same_v<T, bool>>>
Tensor tensor(const std::vector<T> &numbers, Ints shape, const TensorOptions &options = {})
{
  int64_t n = 1;
  for (int64_t size : shape) n *= size;
  if (n != static_cast<int64_t>(numbers.size()))
    throw ShapeError("tensor: the shape has " + std::to_string(n) + " elements, the vector " +
                                  std::to_string(numbers.size()));
  return from_data(numbers.data(), shape, options);
}

namespace detail {

template <class T> DType memory_type(const TensorOptions &options)
{
  if (options.dtype()) return options.dtype();
  if constexpr (std::is_void_v<T>) return CN_F32;
  else return dtype_of<T>();
}

/* Takes `deleter` over, which C calls when the last tensor over the memory is gone. */
inline Tensor borrowed(const void *data, Ints shape, Ints strides, std::function<void()> deleter, DType dtype,
                       const TensorOptions &options)
{
  if (strides.given() && strides.size() != shape.size()) throw ValueError("from_blob: one stride for each dimension");
  using Deleter = std::function<void()>;
  auto call = [](void *p) {
    auto *f = static_cast<Deleter *>(p);
    guarded([f] { return (*f ? (*f)() : void()), 0; });
    delete f;
  };
  Scope scope;
  Tensor made = Tensor::keep(check(cn_from_borrowed(const_cast<void *>(data), shape.data(),
                                                    strides.given() ? strides.data() : nullptr, shape.size(), dtype,
                                                    +call, give(std::move(deleter)))));
  return finish(std::move(made), options);
}

}  // namespace detail

/* Over memory of the program's own, which must live as long as the tensor. Its numbers are of the options' type, else
 * of the pointer's (of void *: float32). `deleter`, which takes nothing or the pointer, is called when it is gone.
 * Strides are in elements. */
template <class T> Tensor from_blob(T *data, Ints shape, const TensorOptions &options = {})
{
  return detail::borrowed(data, shape, {}, {}, detail::memory_type<T>(options), options);
}
template <class T> Tensor from_blob(T *data, Ints shape, Ints strides, const TensorOptions &options = {})
{
  return detail::borrowed(data, shape, strides, {}, detail::memory_type<T>(options), options);
}
template <class T, class F, class = std::enable_if_t<std::is_invocable_v<F> || std::is_invocable_v<F, T *>>>
Tensor from_blob(T *data, Ints shape, F deleter, const TensorOptions &options = {})
{
  std::function<void()> call;
  if constexpr (std::is_invocable_v<F>) call = std::move(deleter);
  else call = [deleter = std::move(deleter), data] { deleter(data); };
  return detail::borrowed(data, shape, {}, std::move(call), detail::memory_type<T>(options), options);
}
template <class T, class F, class = std::enable_if_t<std::is_invocable_v<F> || std::is_invocable_v<F, T *>>>
Tensor from_blob(T *data, Ints shape, Ints strides, F deleter, const TensorOptions &options = {})
{
  std::function<void()> call;
  if constexpr (std::is_invocable_v<F>) call = std::move(deleter);
  else call = [deleter = std::move(deleter), data] { deleter(data); };
  return detail::borrowed(data, shape, strides, std::move(call), detail::memory_type<T>(options), options);
}

/* Any op by its name, those that a program registered itself too (cn_op_register): one value for each parameter of its
 * signature; those left out at the end have their defaults. call_op_all gives all results. */
inline std::vector<Tensor> call_op_all(const std::string &name, const std::vector<Operand> &args)
{
  std::vector<cn_value> values;
  for (const Operand &arg : args) values.push_back(arg.value());
  return detail::call_list(detail::find_op(name.c_str()), values.data(), values.size());
}
inline Tensor call_op(const std::string &name, const std::vector<Operand> &args) { return call_op_all(name, args)[0]; }

inline Tensor arange(Scalar end, const TensorOptions &options = {}) { return arange(0, end, 1, options); }
inline Tensor randint(int64_t high, Ints size, const TensorOptions &options = {})
{
  return randint(0, high, size, options);
}
inline Tensor randint_like(const Tensor &input, int64_t high, const TensorOptions &options = {})
{
  return randint_like(input, 0, high, options);
}
inline Tensor normal(double mean, double std, Ints size, const TensorOptions &options = {})
{
  return normal_fill_(empty(size, options), mean, std);
}
/* x over its norm along a dimension. */
inline Tensor normalize(const Tensor &input, double p = 2, int64_t dim = 1, double eps = 1e-12)
{
  return div(input, clamp_min(linalg::vector_norm(input, p, dim, true), eps));
}
inline Tensor scalar_tensor(Scalar value, const TensorOptions &options = {}) { return full({}, value, options); }

inline void manual_seed(uint64_t seed) { cn_seed(seed); }
inline void set_default_dtype(DType dtype) { detail::check(cn_set_default_dtype(dtype)); }
inline DType get_default_dtype() { return cn_default_dtype(); }
inline void set_num_threads(int threads) { detail::check(cn_set_num_threads(threads)); }
inline void set_matmul_precision(cn_precision precision) { detail::check(cn_set_matmul_precision(precision)); }
inline void set_conv_precision(cn_precision precision) { detail::check(cn_set_conv_precision(precision)); }
inline void set_deterministic(cn_deterministic mode) { detail::check(cn_set_deterministic(mode)); }
inline int get_num_threads() { return cn_num_threads(); }
/* Where tensors are made that say no device. */
inline void set_default_device(Device place) { cn_set_default_device(place.number()); }

/* ---- methods by hand ---- */
template <class T> std::vector<T> Tensor::to_vector() const
{
  static_assert(!std::is_same_v<T, bool>, "a vector of bool has no memory to copy into: ask for uint8_t");
  std::vector<T> made(static_cast<size_t>(numel()));
  const Tensor t = to(dtype_of<T>());
  detail::check(cn_to_data(made.data(), made.size() * sizeof(T), t.t_));
  return made;
}
inline Tensor Tensor::to(DType type) const { return !type || type == dtype() ? *this : cast(type); }
inline Tensor Tensor::to(Device place) const
{
  return !place.number() || place == device() ? *this : to_device(place);
}
inline Tensor Tensor::to(const Tensor &like) const { return to(like.device()).to(like.dtype()); }
inline Tensor Tensor::data() const { return detach(); }
inline const Tensor &Tensor::zero_() const { return fill_(0); }
inline const Tensor &Tensor::normal_(double mean, double std) const { return normal_fill_(mean, std); }
inline const Tensor &Tensor::random_(std::optional<int64_t> low, std::optional<int64_t> high) const
{
  return high ? random_integers_(low, high) : random_integers_(low ? std::optional<int64_t>(0) : low, low);
}
inline Tensor Tensor::reshape_as(const Tensor &other) const { return reshape(other.shape()); }
inline Tensor Tensor::view_as(const Tensor &other) const { return view(other.shape()); }
inline Tensor Tensor::mT() const { return transpose(-2, -1); }

inline bool allclose(const Tensor &a, const Tensor &b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false)
{
  return isclose(a, b, rtol, atol, equal_nan).all().item<bool>();
}
inline bool equal(const Tensor &a, const Tensor &b)
{
  return a.shape() == b.shape() && a.dtype() == b.dtype() && eq(a, b).all().item<bool>();
}
inline bool Tensor::allclose(const Tensor &other, double rtol, double atol, bool equal_nan) const
{
  return cn::allclose(*this, other, rtol, atol, equal_nan);
}
inline bool Tensor::equal(const Tensor &other) const { return cn::equal(*this, other); }

}  // namespace cn

#endif
