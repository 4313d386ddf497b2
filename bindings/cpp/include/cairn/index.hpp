/* index.hpp: operators, and parts of tensors: x[0], x[Slice(1, 3)], x[mask] = 0, x.index({Ellipsis, None, 2}).
 *
 * Place in the flow: ops.hpp below. Integers, slices, None and Ellipsis become views one after the other; index tensors
 * and masks are gathered and applied at the end by one `index` or `index_put`. Invariant: assigning to a part writes
 * into the tensor it was taken from. */
#include <cairn/tensor.hpp> /* which includes this file, in its place */
#ifndef CAIRN_INDEX_HPP
#define CAIRN_INDEX_HPP

namespace cn {

struct EllipsisType {
};
inline constexpr EllipsisType Ellipsis{};

/* start:stop:step, each of which may be None. */
struct Slice {
  Slice(std::optional<int64_t> start_at = None, std::optional<int64_t> stop_at = None, int64_t step_by = 1)
      : start(start_at), stop(stop_at), step(step_by)
  {
  }
  std::optional<int64_t> start, stop;
  int64_t step;
};

class Index {
 public:
  enum class Kind { integer, range, ellipsis, new_dim, truth, positions };

  template <class T, class = std::enable_if_t<std::is_integral_v<T>>>
  Index(T i) : kind_(std::is_same_v<T, bool> ? Kind::truth : Kind::integer), i_(static_cast<int64_t>(i))
  {
  }
  Index(const Slice &slice) : kind_(Kind::range), slice_(slice) {}
  Index(EllipsisType) : kind_(Kind::ellipsis) {}
  Index(std::nullopt_t) : kind_(Kind::new_dim) {}
  Index(const Tensor &t) : kind_(Kind::positions), t_(t)
  {
    if (t.dtype() != CN_BOOL && !cn_dtype_is_int(t.dtype()))
      throw IndexError(std::string("tensors used as indices must be whole numbers or bool, not ") +
                                    cn_dtype_name(t.dtype()));
    if (t.dim() > 0) return;
    kind_ = t.dtype() == CN_BOOL ? Kind::truth : Kind::integer;
    i_ = t.item<int64_t>();
  }

  Kind kind() const { return kind_; }
  int64_t number() const { return i_; }
  const Slice &slice() const { return slice_; }
  const Tensor &tensor() const { return t_; }
  int64_t dims() const /* how many it takes */
  {
    if (kind_ == Kind::integer || kind_ == Kind::range) return 1;
    return kind_ == Kind::positions ? (t_.dtype() == CN_BOOL ? t_.dim() : 1) : 0;
  }

 private:
  Kind kind_;
  int64_t i_ = 0;
  Slice slice_;
  Tensor t_;
};

namespace detail {

/* A tensor with the views of an index applied, and what is left to gather. */
struct Picked {
  Tensor view;
  std::vector<Tensor> list; /* undefined for a whole dim */
  int64_t dim = 0, covered = 0;

  explicit Picked(Tensor part) : view(std::move(part)) {}
  Picked(const Tensor &self, const Index *items, size_t n) : view(self)
  {
    int64_t taken = 0;
    for (size_t i = 0; i < n; i++) taken += items[i].dims();
    if (taken > self.dim())
      throw IndexError("too many indices (" + std::to_string(taken) + ") for a tensor of dimension " +
                                    std::to_string(self.dim()));
    for (size_t i = 0; i < n; i++) apply(items[i], self.dim() - taken);
  }

  void apply(const Index &item, int64_t skipped)
  {
    switch (item.kind()) {
    case Index::Kind::integer: view = view.select(dim, item.number()); return;
    case Index::Kind::range: view = view.slice(dim, item.slice().start, item.slice().stop, item.slice().step); break;
    case Index::Kind::ellipsis: dim += skipped; return;
    case Index::Kind::new_dim: view = view.unsqueeze(dim); break;
    case Index::Kind::truth:
      view = view.unsqueeze(dim);
      gather(zeros({item.number() ? 1 : 0}, CN_I64), 1);
      return;
    case Index::Kind::positions: gather(item.tensor(), item.dims()); return;
    }
    dim++;
  }

  void gather(const Tensor &index, int64_t dims)
  {
    for (; covered < dim; covered++) list.emplace_back();
    list.push_back(index.device() == view.device() ? index : index.to(view.device()));
    covered += dims;
    dim += dims;
  }

  void put(const Operand &value, bool accumulate = false) const
  {
    const bool tensor = value.value().tag == CN_V_TENSOR;
    if (list.empty() && accumulate) view.add_(value);
    else if (list.empty() && !tensor) view.fill_(value);
    else if (list.empty()) {
      Tensor source = Tensor::keep(value.value().u.t);
      int64_t lead = 0; /* leading dims of size 1 say nothing */
      while (lead < source.dim() - view.dim() && source.size(lead) == 1) lead++;
      const Ints rest(source.shape().data() + lead, static_cast<size_t>(source.dim() - lead));
      view.copy_(lead ? source.reshape(rest) : source);
    } else call_put(tensor ? Tensor::keep(value.value().u.t) : full({}, number(value), view.options()),
                    accumulate);
  }

 private:
  static Scalar number(const Operand &value)
  {
    const cn_value &v = value.value();
    return v.tag == CN_V_FLOAT ? Scalar(v.u.f) : v.tag == CN_V_BOOL ? Scalar(v.u.i != 0) : Scalar(v.u.i);
  }
  void call_put(const Tensor &source, bool accumulate) const
  {
    static const cn_op *const op = find_op("index_put");
    const cn_value args[] = {v(view), v(Tensors(list)), v(source), v(accumulate)};
    call_in_place(op, args, 4, view.get());
  }
};

}  // namespace detail

/* A part of a tensor: a tensor like any other, except that assigning to the expression itself writes: x[0] = 1. A
 * variable of this type (auto row = x[0]) is assigned like any variable. */
class Indexed : public Tensor {
 public:
  explicit Indexed(detail::Picked picked) : Tensor(read(picked)), picked_(std::move(picked)) {}
  Indexed(const Indexed &) = default;

  const Indexed &operator=(const Operand &value) && { return put(value); }
  const Indexed &operator=(const Tensor &value) && { return put(value); }
  const Indexed &operator=(const Indexed &value) && { return put(value); }
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>> const Indexed &operator=(T value) &&
  {
    return put(value);
  }
  Indexed &operator=(const Tensor &value) &
  {
    Tensor::operator=(value);
    picked_ = detail::Picked(value);
    return *this;
  }
  Indexed &operator=(const Indexed &value) & { return *this = static_cast<const Tensor &>(value); }

  const Indexed &operator+=(const Operand &other) { return put(cn::add(*this, other)); }
  const Indexed &operator-=(const Operand &other) { return put(cn::sub(*this, other)); }
  const Indexed &operator*=(const Operand &other) { return put(cn::mul(*this, other)); }
  const Indexed &operator/=(const Operand &other) { return put(cn::div(*this, other)); }

 private:
  static Tensor read(const detail::Picked &picked)
  {
    return picked.list.empty() ? picked.view : picked.view.index_select_many(picked.list);
  }
  const Indexed &put(const Operand &value)
  {
    picked_.put(value);
    return *this;
  }

  detail::Picked picked_;
};

template <class T, class> Indexed Tensor::operator[](T i) const
{
  return Indexed(detail::Picked(select(0, static_cast<int64_t>(i))));
}
inline Indexed Tensor::operator[](const Index &at) const { return Indexed(detail::Picked(*this, &at, 1)); }
inline Indexed Tensor::index(std::initializer_list<Index> indices) const
{
  return Indexed(detail::Picked(*this, indices.begin(), indices.size()));
}
inline Indexed Tensor::index(const std::vector<Index> &indices) const
{
  return Indexed(detail::Picked(*this, indices.data(), indices.size()));
}
inline const Tensor &Tensor::index_put_(std::initializer_list<Index> indices, const Operand &value,
                                        bool accumulate) const
{
  detail::Picked(*this, indices.begin(), indices.size()).put(value, accumulate);
  return *this;
}
inline const Tensor &Tensor::index_put_(const std::vector<Index> &indices, const Operand &value,
                                        bool accumulate) const
{
  detail::Picked(*this, indices.data(), indices.size()).put(value, accumulate);
  return *this;
}
inline Tensor Tensor::index_select_many(Tensors indices) const
{
  static const cn_op *const op = detail::find_op("index");
  const cn_value args[] = {detail::v(*this), detail::v(indices)};
  return detail::call(op, args, 2);
}

/* ---- operators ---- */
#define CN_OPERATOR(sign, op)                                                                                     \
  inline Tensor operator sign(const Tensor &a, const Tensor &b) { return op(a, b); }                              \
  inline Tensor operator sign(const Tensor &a, const Scalar &b) { return op(a, Operand(b)); }                     \
  inline Tensor operator sign(const Scalar &a, const Tensor &b) { return op(Operand(a), b); }
CN_OPERATOR(+, add)
CN_OPERATOR(-, sub)
CN_OPERATOR(*, mul)
CN_OPERATOR(/, div)
CN_OPERATOR(%, remainder)
CN_OPERATOR(&, bitwise_and)
CN_OPERATOR(|, bitwise_or)
CN_OPERATOR(^, bitwise_xor)
#undef CN_OPERATOR
/* A comparison whose number stands on the left is the mirrored one. */
#define CN_COMPARISON(sign, op, mirrored)                                                                         \
  inline Tensor operator sign(const Tensor &a, const Tensor &b) { return op(a, b); }                              \
  inline Tensor operator sign(const Tensor &a, const Scalar &b) { return op(a, Operand(b)); }                     \
  inline Tensor operator sign(const Scalar &a, const Tensor &b) { return mirrored(b, Operand(a)); }
CN_COMPARISON(==, eq, eq)
CN_COMPARISON(!=, ne, ne)
CN_COMPARISON(<, lt, gt)
CN_COMPARISON(<=, le, ge)
CN_COMPARISON(>, gt, lt)
CN_COMPARISON(>=, ge, le)
#undef CN_COMPARISON
inline Tensor operator-(const Tensor &a) { return neg(a); }
inline Tensor operator+(const Tensor &a) { return a; }
inline Tensor operator~(const Tensor &a) { return bitwise_not(a); }
inline Tensor operator!(const Tensor &a) { return logical_not(a); }

inline const Tensor &Tensor::operator+=(const Operand &other) const { return add_(other); }
inline const Tensor &Tensor::operator-=(const Operand &other) const { return sub_(other); }
inline const Tensor &Tensor::operator*=(const Operand &other) const { return mul_(other); }
inline const Tensor &Tensor::operator/=(const Operand &other) const { return div_(other); }

}  // namespace cn

#endif
