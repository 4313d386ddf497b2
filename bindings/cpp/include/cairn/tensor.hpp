/* tensor.hpp: cn::Tensor, a value: a copy is one more reference to the same tensor, the last one frees it.
 *
 * Place in the flow: types.hpp below; ops.hpp (generated) has the ops as functions and defines the methods declared
 * here. Every result is owned at once; no scope of C's ever holds one. Invariant: a Tensor is one pointer, so that an
 * array of them is an array of cn_tensor pointers. */
#ifndef CAIRN_TENSOR_HPP
#define CAIRN_TENSOR_HPP

#include <cairn/autograd.h>
#include <cairn/tensor.h>
#include <cairn/options.hpp>
#include <cairn/types.hpp>

#include <functional>

namespace cn {

class Tensor;
class Index;
class Indexed;
class Node;

namespace detail {

/* While a module of C++ is copied deeply: the tensors and modules of the copy, by those of the original, so that the
 * members of the new object, which are copied like any members, come to stand for its own. */
struct Translation {
  struct Pair {
    const void *from;
    void *to;
  };
  std::vector<Pair> made;
  const Pair *find(const void *from) const noexcept
  {
    for (const Pair &pair : made)
      if (pair.from == from) return &pair;
    return nullptr;
  }
  template <class T> T *of(T *from) const noexcept
  {
    const Pair *found = find(from);
    return found ? static_cast<T *>(found->to) : from;
  }
};
inline thread_local const Translation *translation = nullptr;
template <class T> T *translated(T *from) noexcept { return translation ? translation->of(from) : from; }

}  // namespace detail

/* Sizes or strides: a list that lives as long as its tensor is unchanged. */
class Shape {
 public:
  Shape(const int64_t *v, size_t n) noexcept : v_(v), n_(n) {}
  size_t size() const noexcept { return n_; }
  bool empty() const noexcept { return n_ == 0; }
  int64_t operator[](size_t i) const { return v_[i]; }
  const int64_t *begin() const noexcept { return v_; }
  const int64_t *end() const noexcept { return v_ + n_; }
  const int64_t *data() const noexcept { return v_; }
  std::vector<int64_t> vec() const { return std::vector<int64_t>(begin(), end()); }
  operator Ints() const noexcept { return Ints(v_, n_); }

 private:
  const int64_t *v_;
  size_t n_;
};

inline bool operator==(const Shape &a, const Ints &b)
{
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); i++) same = a[i] == b[i];
  return same;
}
inline bool operator==(const Shape &a, const Shape &b) { return a == Ints(b); }
inline bool operator!=(const Shape &a, const Ints &b) { return !(a == b); }
inline bool operator!=(const Shape &a, const Shape &b) { return !(a == Ints(b)); }

inline std::ostream &operator<<(std::ostream &out, const Shape &shape)
{
  out << "(";
  for (size_t i = 0; i < shape.size(); i++) out << (i ? ", " : "") << shape[i];
  return out << (shape.size() == 1 ? ",)" : ")");
}

/* A tensor or a number, lent for a call. */
class Operand {
 public:
  Operand() noexcept : v_(cn_v_none()) {}
  Operand(std::nullopt_t) noexcept : Operand() {}
  inline Operand(const Tensor &t) noexcept;
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  Operand(T value) noexcept : v_(Scalar(value).value())
  {
  }
  Operand(const Scalar &value) noexcept : v_(value.value()) {}
  const cn_value &value() const noexcept { return v_; }

 private:
  cn_value v_;
};

/* Tensors lent for a call: {a, b}, or a vector of them. */
class Tensors {
 public:
  inline Tensors(std::initializer_list<Tensor> list) noexcept;
  inline Tensors(const std::vector<Tensor> &list) noexcept;
  cn_tensor *const *data() const noexcept { return v_; }
  size_t size() const noexcept { return n_; }

 private:
  cn_tensor *const *v_;
  size_t n_;
};

/* Reading and writing elements in C++ loops: auto a = x.accessor<float, 2>(); a[1][2] = 3, or a(1, 2) = 3. Of a tensor
 * on the CPU, which must live as long. */
template <class T, size_t N> class Accessor {
 public:
  Accessor(T *data, const int64_t *shape, const int64_t *strides) : data_(data)
  {
    for (size_t i = 0; i < N; i++) shape_[i] = shape[i], strides_[i] = strides[i];
  }
  int64_t size(size_t dim) const { return shape_[dim]; }
  int64_t stride(size_t dim) const { return strides_[dim]; }
  T *data() const { return data_; }
  template <class I> decltype(auto) operator[](I i) const
  {
    T *part = data_ + static_cast<int64_t>(i) * strides_[0];
    if constexpr (N == 1) return static_cast<T &>(*part);
    else return Accessor<T, N - 1>(part, shape_ + 1, strides_ + 1);
  }
  template <class... I> T &operator()(I... at) const
  {
    static_assert(sizeof...(I) == N, "one index for each dimension");
    const int64_t index[] = {static_cast<int64_t>(at)...};
    int64_t place = 0;
    for (size_t i = 0; i < N; i++) place += index[i] * strides_[i];
    return data_[place];
  }

 private:
  T *data_;
  int64_t shape_[N], strides_[N];
};

struct BackwardOptions;

class Tensor {
 public:
  Tensor() noexcept : t_(nullptr) {} /* none: not even an empty one */
  Tensor(const Tensor &other) noexcept : t_(cn_keep(detail::translated(other.t_))) {}
  Tensor(Tensor &&other) noexcept : t_(other.t_) { other.t_ = nullptr; }
  ~Tensor()
  {
    if (t_) cn_release(t_);
  }
  Tensor &operator=(const Tensor &other) & noexcept
  {
    cn_tensor *old = t_;
    t_ = cn_keep(other.t_);
    cn_release(old);
    return *this;
  }
  Tensor &operator=(Tensor &&other) & noexcept
  {
    cn_tensor *mine = t_;
    t_ = other.t_;
    other.t_ = mine;
    return *this;
  }
  void reset() noexcept { *this = Tensor(); }

  /* ---- to and from C ---- */
  static Tensor own(cn_tensor *t) noexcept /* takes the reference over; NULL gives none */
  {
    Tensor made;
    made.t_ = t;
    return made;
  }
  static Tensor keep(cn_tensor *t) noexcept { return own(cn_keep(t)); }
  cn_tensor *get() const noexcept { return t_; }
  cn_tensor *release() noexcept /* the reference is the caller's now */
  {
    cn_tensor *t = t_;
    t_ = nullptr;
    return t;
  }
  bool defined() const noexcept { return t_ != nullptr; }
  bool is_same(const Tensor &other) const noexcept { return t_ == other.t_; }

  /* ---- looking ---- */
  Shape shape() const noexcept { return Shape(cn_shape(t_), static_cast<size_t>(cn_ndim(t_))); }
  Shape sizes() const noexcept { return shape(); }
  Shape strides() const noexcept { return Shape(cn_strides(t_), static_cast<size_t>(cn_ndim(t_))); }
  int64_t size(int64_t dim) const
  {
    if (dim < -this->dim() || dim >= this->dim())
      throw IndexError("size: dimension " + std::to_string(dim) + " of a tensor that has " +
                                    std::to_string(this->dim()));
    return cn_size(t_, dim);
  }
  int64_t dim() const noexcept { return cn_ndim(t_); }
  int64_t ndimension() const noexcept { return cn_ndim(t_); }
  int64_t numel() const noexcept { return cn_numel(t_); }
  size_t nbytes() const noexcept { return cn_tensor_nbytes(t_); }
  DType dtype() const noexcept { return cn_dtype_of(t_); }
  DType scalar_type() const noexcept { return dtype(); }
  size_t element_size() const noexcept { return cn_dtype_size(dtype()); }
  Device device() const noexcept { return cn_device_of(t_); }
  bool is_cpu() const { return device().is_cpu(); }
  bool is_cuda() const { return device().is_cuda(); }
  int64_t stride(int64_t dim) const { return strides()[static_cast<size_t>(dim < 0 ? dim + this->dim() : dim)]; }
  int64_t storage_offset() const noexcept { return cn_storage_offset(t_); }
  uint64_t version() const noexcept { return cn_tensor_version(t_); } /* writes to its memory so far */
  bool is_pinned() const noexcept { return cn_is_pinned(t_); }
  TensorOptions options() const { return TensorOptions().dtype(dtype()).device(device()); }
  bool is_floating_point() const noexcept { return cn_dtype_is_float(dtype()); }
  bool is_contiguous() const noexcept { return cn_is_contiguous(t_); }
  bool is_view() const noexcept { return cn_is_view(t_); }

  /* ---- numbers out ---- */
  template <class T> T item() const
  {
    if constexpr (std::is_integral_v<T>) {
      if (is_floating_point()) return static_cast<T>(item<double>());
      int64_t value = cn_item_int(t_);
      if (cn_err()) detail::raise(cn_err());
      if constexpr (std::is_same_v<T, bool>) return value != 0;
      else return static_cast<T>(value);
    } else {
      double value = cn_item(t_);
      if (cn_err()) detail::raise(cn_err());
      return static_cast<T>(value);
    }
  }
  double item() const { return item<double>(); }
  /* The memory of a tensor on the CPU, at its first element; strides() say where the others are. */
  template <class T> T *data() const
  {
    need(dtype_of<T>(), "data");
    return static_cast<T *>(numel() ? detail::check(cn_data(t_)) : nullptr);
  }
  template <class T> T *data_ptr() const { return data<T>(); }
  template <class T> T *mutable_data_ptr() const { return data<T>(); }
  template <class T> const T *const_data_ptr() const { return data<T>(); }
  void *data_ptr() const { return numel() ? detail::check(cn_data(t_)) : nullptr; }
  inline Tensor data() const; /* the same memory, cut off from gradients */
  template <class T, size_t N> Accessor<T, N> accessor() const
  {
    if (dim() != N)
      throw ShapeError("accessor: " + std::to_string(N) + " dimensions wanted, the tensor has " +
                                    std::to_string(dim()));
    return Accessor<T, N>(data<T>(), cn_shape(t_), cn_strides(t_));
  }
  /* All elements, row by row, in the type asked for; from any device. */
  template <class T> std::vector<T> to_vector() const;

  /* ---- types and devices ---- */
  inline Tensor to(DType dtype) const;
  inline Tensor to(Device device) const;
  inline Tensor to(const char *device) const { return to(Device(device)); }
  Tensor to(DeviceType device) const { return to(Device(device)); }
  Tensor to(Device device, DType dtype) const { return to(device).to(dtype); }
  Tensor to(Device device, bool /*non_blocking: from pinned memory a copy is queued anyhow*/) const
  {
    return to(device);
  }
  inline Tensor to(const Tensor &like) const; /* its type and device */
  Tensor to(const TensorOptions &options) const { return to(options.device()).to(options.dtype()); }
  Tensor cpu() const { return to(Device(CN_CPU)); }
  Tensor cuda() const { return to(Device("cuda")); }

  /* ---- gradients: see autograd.hpp ---- */
  bool requires_grad() const noexcept { return cn_needs_grad(t_); }
  const Tensor &requires_grad_(bool on = true) const
  {
    detail::check(cn_requires_grad(t_, on));
    return *this;
  }
  const Tensor &set_requires_grad(bool on) const { return requires_grad_(on); }
  inline Node grad_fn() const; /* the recorded call that it came from; none for leaves */
  bool is_leaf() const noexcept { return cn_is_leaf(t_); }
  Tensor grad() const noexcept { return keep(cn_grad_of(t_)); } /* none when there is none */
  bool retains_grad() const noexcept { return cn_retains_grad(t_); }
  /* The memory, shape and type of another tensor from now on, for all who hold this leaf. */
  void set_data(const Tensor &other) const { detail::check(cn_set_data(t_, other.t_)); }
  void set_grad(const Tensor &grad) const { detail::check(cn_set_grad(t_, grad.t_)); }
  void zero_grad() const { detail::check(cn_zero_grad(t_)); }
  void retain_grad() const { detail::check(cn_retain_grad(t_)); }
  inline void backward() const;
  inline void backward(const BackwardOptions &options) const;
  inline void backward(const Tensor &gradient, bool retain_graph = false, bool create_graph = false) const;
  /* Sees the gradient when it is known; the tensor that it returns, if any, replaces it. Returns an id for remove_hook.
   */
  template <class Hook> int64_t register_hook(Hook hook) const;
  void remove_hook(int64_t id) const { detail::check(cn_hook_remove(t_, id)); }

  /* ---- parts: x[0], x[Slice(1, 3)], x[mask], x.index({Ellipsis, 0}); all of them can be assigned to ---- */
  template <class T, class = std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>>
  Indexed operator[](T i) const;
  inline Indexed operator[](const Index &index) const;
  inline Indexed index(std::initializer_list<Index> indices) const;
  inline Indexed index(const std::vector<Index> &indices) const;
  inline const Tensor &index_put_(std::initializer_list<Index> indices, const Operand &value,
                                  bool accumulate = false) const;
  inline const Tensor &index_put_(const std::vector<Index> &indices, const Operand &value,
                                  bool accumulate = false) const;

  /* ---- in place ---- */
  inline const Tensor &operator+=(const Operand &other) const;
  inline const Tensor &operator-=(const Operand &other) const;
  inline const Tensor &operator*=(const Operand &other) const;
  inline const Tensor &operator/=(const Operand &other) const;
  inline const Tensor &zero_() const;
  inline const Tensor &normal_(double mean = 0, double std = 1) const;
  inline const Tensor &random_(std::optional<int64_t> low = None, std::optional<int64_t> high = None) const;

  inline Tensor index_select_many(Tensors indices) const; /* the op `index`; an undefined one takes a whole dim */
  inline bool equal(const Tensor &other) const; /* shape and all elements */
  inline bool allclose(const Tensor &other, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false) const;
  inline Tensor reshape_as(const Tensor &other) const;
  inline Tensor view_as(const Tensor &other) const;
  inline Tensor type_as(const Tensor &other) const { return to(other.dtype()); }
  inline Tensor mT() const;

  std::string str() const { return detail::take(cn_to_string(t_)); }

#include <cairn/methods.inc> /* generated: every op that is a method, and its form in place */

 private:
  void need(DType wanted, const char *who) const
  {
    if (dtype() != wanted)
      throw DTypeError(std::string(who) + ": the tensor holds " + cn_dtype_name(dtype()) + ", not " +
                                    cn_dtype_name(wanted) + "; use to()");
  }

  cn_tensor *t_;
};

static_assert(sizeof(Tensor) == sizeof(cn_tensor *), "arrays of Tensor are arrays of pointers");

inline std::ostream &operator<<(std::ostream &out, const Tensor &t)
{
  return t.defined() ? out << t.str() : out << "[ undefined tensor ]";
}

/* How tensors print: digits behind the point, elements above which the middle is left out, how many are shown at each
 * end then, columns; 0: as at first. */
inline void set_print_options(int precision = 0, int threshold = 0, int edge_items = 0, int line_width = 0)
{
  const cn_print_options o = {precision, threshold, edge_items, line_width, 0};
  cn_set_print_options(&o);
}

inline Operand::Operand(const Tensor &t) noexcept : v_(cn_v_tensor(t.get())) {}

namespace detail {

inline cn_tensor *const *pointers(const Tensor *list) noexcept
{
  return reinterpret_cast<cn_tensor *const *>(list);
}

inline cn_value v(const Tensor &x) { return cn_v_tensor(x.get()); }
inline cn_value v(const Operand &x) { return x.value(); }
inline cn_value v(const Tensors &x) { return cn_v_tensors(x.data(), x.size()); }

/* ---- calling ops ---- */
inline const cn_op *find_op(const char *name)
{
  const cn_op *op = cn_op_find(name);
  if (!op) throw UnsupportedError(std::string("this library has no op ") + name);
  return op;
}

inline Tensor call(const cn_op *op, const cn_value *args, size_t nargs, cn_tensor *dest = nullptr)
{
  cn_tensor *out = nullptr;
  size_t nout = 1;
  int status = cn_op_call(&out, &nout, op, args, nargs, dest);
  if (status) raise(status);
  return Tensor::own(out);
}

inline void call_in_place(const cn_op *op, const cn_value *args, size_t nargs, cn_tensor *dest)
{
  call(op, args, nargs, dest);
}

inline void call_all(cn_tensor **out, size_t nout, const cn_op *op, const cn_value *args, size_t nargs)
{
  int status = cn_op_call(out, &nout, op, args, nargs, nullptr);
  if (status) raise(status);
}

/* For ops whose number of results depends on the call: room for as many as sizes and numbers could ask for. */
inline std::vector<Tensor> call_list(const cn_op *op, const cn_value *args, size_t nargs)
{
  size_t most = 16;
  auto raised = [&most](int64_t n) { most = n > 0 && static_cast<size_t>(n) > most ? static_cast<size_t>(n) : most; };
  for (size_t i = 0; i < nargs; i++) {
    const cn_value &a = args[i];
    if (a.tag == CN_V_INTS || a.tag == CN_V_TENSORS) raised(a.n);
    if (a.tag == CN_V_INT && a.u.i < 1 << 20) raised(a.u.i);
    for (int d = 0; a.tag == CN_V_TENSOR && d < cn_ndim(a.u.t); d++) raised(cn_shape(a.u.t)[d]);
  }
  std::vector<cn_tensor *> room(most + 1);
  size_t nout = room.size();
  int status = cn_op_call(room.data(), &nout, op, args, nargs, nullptr);
  if (status) raise(status);
  std::vector<Tensor> made;
  made.reserve(nout);
  for (size_t i = 0; i < nout; i++) made.push_back(Tensor::own(room[i]));
  return made;
}

inline Tensor finish(Tensor made, const TensorOptions &options)
{
  if (options.device().number() && options.device() != made.device()) made = made.to(options.device());
  if (options.requires_grad()) made.requires_grad_();
  return made;
}

/* A tensor or a number, kept: what an options struct holds. */
class KeptOperand {
 public:
  KeptOperand() = default;
  KeptOperand(const Operand &x)
  {
    if (x.value().tag == CN_V_TENSOR) t_ = Tensor::keep(x.value().u.t);
    else if (x.value().tag != CN_V_NONE) number_ = x;
  }
  operator Operand() const { return t_.defined() ? Operand(t_) : number_; }

 private:
  Tensor t_;
  Operand number_;
};

}  // namespace detail

inline Tensors::Tensors(std::initializer_list<Tensor> list) noexcept
    : v_(detail::pointers(list.begin())), n_(list.size())
{
}
inline Tensors::Tensors(const std::vector<Tensor> &list) noexcept
    : v_(detail::pointers(list.data())), n_(list.size())
{
}

}  // namespace cn

#include <cairn/ops.hpp>

#include <cairn/create.hpp>
#include <cairn/index.hpp>

#endif
