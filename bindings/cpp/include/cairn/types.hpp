/* types.hpp: what arguments are made of: types, devices, numbers, lists, texts.
 *
 * Place in the flow: below tensor.hpp. Lists and texts are borrowed for the time of a call, so they are written where
 * they are passed: x.sum({0, 1}). Invariant: nothing here owns a tensor. */
#ifndef CAIRN_TYPES_HPP
#define CAIRN_TYPES_HPP

#include <cairn/device.h>
#include <cairn/error.hpp>
#include <cairn/ext/op.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#if __has_include(<cxxabi.h>)
#include <cxxabi.h>
#define CN_HAS_DEMANGLE 1
#endif
#include <initializer_list>
#include <optional>
#include <ostream>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <vector>

/* Types print by their names: "float32". C's enumeration stands outside of namespace cn. */
inline std::ostream &operator<<(std::ostream &out, cn_dtype dtype) { return out << cn_dtype_name(dtype); }

namespace cn {

/* ---- element types ---- */
using DType = cn_dtype;
inline constexpr DType boolean = CN_BOOL;
inline constexpr DType u8 = CN_U8, u16 = CN_U16, u32 = CN_U32, u64 = CN_U64;
inline constexpr DType i8 = CN_I8, i16 = CN_I16, i32 = CN_I32, i64 = CN_I64;
inline constexpr DType f16 = CN_F16, bf16 = CN_BF16, f32 = CN_F32, f64 = CN_F64;
inline constexpr DType uint8 = CN_U8, int8 = CN_I8, int16 = CN_I16, int32 = CN_I32, int64 = CN_I64;
inline constexpr DType float16 = CN_F16, bfloat16 = CN_BF16, float32 = CN_F32, float64 = CN_F64;

/* The type of tensors that hold these C++ numbers. */
template <class T> constexpr DType dtype_of()
{
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, bool>) return CN_BOOL;
  else if constexpr (std::is_same_v<U, float>) return CN_F32;
  else if constexpr (std::is_same_v<U, double>) return CN_F64;
  else {
    static_assert(std::is_integral_v<U>, "numbers only");
    if constexpr (std::is_signed_v<U>)
      return sizeof(U) == 1 ? CN_I8 : sizeof(U) == 2 ? CN_I16 : sizeof(U) == 4 ? CN_I32 : CN_I64;
    else return sizeof(U) == 1 ? CN_U8 : sizeof(U) == 2 ? CN_U16 : sizeof(U) == 4 ? CN_U32 : CN_U64;
  }
}

/* ---- devices ---- */
/* A kind of device by its name; whether there is one is seen when it is used: x.to(cn::kCUDA). */
struct DeviceType {
  const char *name;
  friend bool operator==(DeviceType a, DeviceType b) { return std::string(a.name) == b.name; }
  friend bool operator!=(DeviceType a, DeviceType b) { return !(a == b); }
};
inline constexpr DeviceType kCPU{"cpu"}, kCUDA{"cuda"};

/* "cpu", "cuda:1"; without a name the default one. */
class Device {
 public:
  constexpr Device() noexcept = default;
  constexpr Device(cn_device number) noexcept : number_(number) {}
  Device(DeviceType type) : Device(type.name) {}
  Device(DeviceType type, int index) : Device(std::string(type.name) + ":" + std::to_string(index)) {}
  Device(const char *name) : number_(cn_device_find(name))
  {
    if (!number_) detail::raise(CN_ERR_DEVICE);
  }
  Device(const std::string &name) : Device(name.c_str()) {}

  constexpr cn_device number() const noexcept { return number_; }
  std::string name() const
  {
    char text[64];
    return cn_device_name(text, sizeof text, number_ ? number_ : cn_default_device());
  }
  std::string str() const { return name(); }
  /* Its kind: device.type() == cn::kCUDA. */
  DeviceType type() const { return is_cuda() ? kCUDA : is_cpu() ? kCPU : DeviceType{"other"}; }
  int index() const noexcept { return number_ & 0xff; }
  bool is_cpu() const { return number_ == CN_CPU || (!number_ && cn_default_device() == CN_CPU); }
  bool is_cuda() const { return name().compare(0, 4, "cuda") == 0; }
  friend bool operator==(Device a, Device b) noexcept { return a.number_ == b.number_; }
  friend bool operator!=(Device a, Device b) noexcept { return a.number_ != b.number_; }
  friend std::ostream &operator<<(std::ostream &out, Device d) { return out << d.name(); }

 private:
  cn_device number_ = CN_DEVICE_DEFAULT;
};

inline constexpr Device cpu{CN_CPU};

namespace cuda {
inline int device_count() { return cn_device_count("cuda"); }
inline bool is_available() { return device_count() > 0; }
}  // namespace cuda

/* ---- numbers ---- */
inline constexpr std::nullopt_t None = std::nullopt;

/* A number of any kind: it keeps whether it is whole, a truth value or a fraction. */
class Scalar {
 public:
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>> Scalar(T value) noexcept
  {
    if constexpr (std::is_same_v<T, bool>) v_ = cn_v_bool(value);
    else if constexpr (std::is_integral_v<T>) v_ = cn_v_int(static_cast<int64_t>(value));
    else v_ = cn_v_float(static_cast<double>(value));
  }
  const cn_value &value() const noexcept { return v_; }
  bool whole() const noexcept { return v_.tag != CN_V_FLOAT; }
  double as_double() const noexcept { return whole() ? static_cast<double>(v_.u.i) : v_.u.f; }
  int64_t as_int() const noexcept { return whole() ? v_.u.i : static_cast<int64_t>(v_.u.f); }

 private:
  cn_value v_;
};

/* ---- lists ---- */
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 9
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winit-list-lifetime" /* a list lives as long as the call it is written in */
#endif

/* Numbers lent for a call: {2, 3}, a vector, an array, a shape; one number is a list of one. Without any, it says that
 * the argument is not given. */
template <class T> class List {
 public:
  List() noexcept = default;
  List(std::nullopt_t) noexcept {}
  List(std::initializer_list<T> list) noexcept : v_(list.begin()), n_(list.size()), given_(true) {}
  List(const std::vector<T> &list) noexcept : v_(list.data()), n_(list.size()), given_(true) {}
  template <size_t N> List(const std::array<T, N> &list) noexcept : v_(list.data()), n_(N), given_(true) {}
  List(const T *list, size_t n) noexcept : v_(list), n_(n), given_(true) {}
  template <class U, class = std::enable_if_t<std::is_arithmetic_v<U>>>
  List(U one) noexcept : one_(static_cast<T>(one)), n_(1), given_(true)
  {
  }

  const T *data() const noexcept { return n_ == 1 && !v_ ? &one_ : v_; }
  size_t size() const noexcept { return n_; }
  bool given() const noexcept { return given_; }
  T operator[](size_t i) const { return data()[i]; }
  const T *begin() const noexcept { return data(); }
  const T *end() const noexcept { return data() + n_; }

 private:
  const T *v_ = nullptr;
  T one_ = 0;
  size_t n_ = 0;
  bool given_ = false;
};

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 9
#pragma GCC diagnostic pop
#endif

using Ints = List<int64_t>;
using Floats = List<double>;

/* The same, kept: what an options struct holds. */
template <class T> class Kept {
 public:
  Kept() = default;
  Kept(List<T> list) : v_(list.begin(), list.end()), given_(list.given()) {}
  operator List<T>() const noexcept { return given_ ? List<T>(v_.data(), v_.size()) : List<T>(); }

 private:
  std::vector<T> v_;
  bool given_ = false;
};

/* Up to N numbers, one for each dimension of an image, say; one stands for all of them. */
template <class T, size_t N> class Each {
 public:
  Each() noexcept = default;
  Each(std::nullopt_t) noexcept {}
  template <class U, class = std::enable_if_t<std::is_arithmetic_v<U>>>
  Each(U one) noexcept : v_{{static_cast<T>(one)}}, n_(1)
  {
  }
  Each(std::initializer_list<T> list) { set(list.begin(), list.size()); }
  Each(const std::vector<T> &list) { set(list.data(), list.size()); }
  Each(const std::array<T, N> &list) noexcept : v_(list), n_(N) {}
  template <class... U> Each(const std::tuple<U...> &list) noexcept : n_(N)
  {
    static_assert(sizeof...(U) == N, "one number for each");
    size_t i = 0;
    std::apply([&](auto... number) { ((v_[i++] = static_cast<T>(number)), ...); }, list);
  }

  const T *data() const noexcept { return v_.data(); }
  size_t size() const noexcept { return n_; }

 private:
  void set(const T *from, size_t n)
  {
    if (n > N) throw ValueError("at most " + std::to_string(N) + " numbers, not " + std::to_string(n));
    for (n_ = 0; n_ < n; n_++) v_[n_] = from[n_];
  }

  std::array<T, N> v_{};
  size_t n_ = 0; /* 0: not given */
};

template <size_t N> using Dims = Each<int64_t, N>;

/* ---- texts ---- */
/* Lent for a call. */
class Text {
 public:
  constexpr Text() noexcept = default;
  constexpr Text(const char *text) noexcept : text_(text) {}
  Text(const std::string &text) noexcept : text_(text.c_str()) {}
  constexpr const char *get() const noexcept { return text_; }

 private:
  const char *text_ = nullptr;
};

class KeptText {
 public:
  KeptText() = default;
  KeptText(const char *text) : KeptText(Text(text)) {}
  KeptText(Text text) : given_(text.get() != nullptr), text_(given_ ? text.get() : "") {}
  operator Text() const noexcept { return given_ ? Text(text_) : Text(); }

 private:
  bool given_ = false;
  std::string text_;
};

/* Numbers, or a word for them: padding = 1, {1, 2} or "same". */
template <size_t N> class DimsOrText {
 public:
  DimsOrText() = default;
  template <class U, class = std::enable_if_t<std::is_arithmetic_v<U>>> DimsOrText(U one) noexcept : dims_(one) {}
  DimsOrText(std::initializer_list<int64_t> list) : dims_(list) {}
  DimsOrText(const Dims<N> &dims) noexcept : dims_(dims) {}
  DimsOrText(const char *text) : text_(text) {}
  const Dims<N> &dims() const noexcept { return dims_; }
  Text text() const noexcept { return text_; }

 private:
  Dims<N> dims_;
  KeptText text_;
};

/* ---- options of what makes tensors ---- */
/* cn::options().dtype(cn::f64).device("cuda").requires_grad(); a type alone will do where options are wanted. */
class TensorOptions {
 public:
  TensorOptions() = default;
  TensorOptions(DType dtype) : dtype_(dtype) {}
  TensorOptions(Device device) : device_(device) {}
  TensorOptions(const char *device) : device_(device) {}
  TensorOptions(DeviceType device) : device_(device) {}
  TensorOptions &dtype(DType dtype)
  {
    dtype_ = dtype;
    return *this;
  }
  TensorOptions &device(Device device)
  {
    device_ = device;
    return *this;
  }
  TensorOptions &device(DeviceType type, int index) { return device(Device(type, index)); }
  TensorOptions &requires_grad(bool on = true)
  {
    requires_grad_ = on;
    return *this;
  }
  DType dtype() const noexcept { return dtype_; }
  Device device() const noexcept { return device_; }
  bool requires_grad() const noexcept { return requires_grad_; }

 private:
  DType dtype_ = CN_DTYPE_NONE;
  Device device_;
  bool requires_grad_ = false;
};

inline TensorOptions options() { return TensorOptions(); }
inline TensorOptions dtype(DType type) { return TensorOptions(type); }
inline TensorOptions device(Device place) { return TensorOptions(place); }
inline TensorOptions requires_grad(bool on = true) { return TensorOptions().requires_grad(on); }

/* ---- values for C ---- */
namespace detail {

/* The name of a class as its program writes it, without namespaces. */
inline std::string class_name(const std::type_info &type)
{
  std::string name = type.name();
#ifdef CN_HAS_DEMANGLE
  int status = 0;
  char *plain = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
  if (plain && status == 0) name = plain;
  std::free(plain);
#endif
  const size_t last = name.substr(0, name.find('<')).rfind("::");
  return last == std::string::npos ? name : name.substr(last + 2);
}

inline cn_value v(bool x) { return cn_v_bool(x); }
inline cn_value v(int64_t x) { return cn_v_int(x); }
inline cn_value v(double x) { return cn_v_float(x); }
inline cn_value v(const Scalar &x) { return x.value(); }
inline cn_value v(DType x) { return x ? cn_v_int(x) : cn_v_none(); }
inline cn_value v(Device x) { return x.number() ? cn_v_int(x.number()) : cn_v_none(); }
inline cn_value v(Text x) { return cn_v_str(x.get()); }
inline cn_value v(const Ints &x) { return x.given() ? cn_v_ints(x.data(), x.size()) : cn_v_none(); }
inline cn_value v(const Floats &x) { return x.given() ? cn_v_floats(x.data(), x.size()) : cn_v_none(); }
template <size_t N> cn_value v(const Each<int64_t, N> &x)
{
  return x.size() ? cn_v_ints(x.data(), x.size()) : cn_v_none();
}
template <size_t N> cn_value v(const Each<double, N> &x)
{
  return x.size() ? cn_v_floats(x.data(), x.size()) : cn_v_none();
}
template <size_t N> cn_value v(const DimsOrText<N> &x) { return x.text().get() ? v(x.text()) : v(x.dims()); }
template <class T> cn_value v(const std::optional<T> &x) { return x ? v(*x) : cn_v_none(); }
/* A list that must be given: {} is the empty one. */
inline cn_value list(const Ints &x) { return cn_v_ints(x.data(), x.size()); }
inline cn_value list(const Floats &x) { return cn_v_floats(x.data(), x.size()); }

}  // namespace detail
}  // namespace cn

#endif
