/* lists.hpp: lists of tensors and tensors of strings as values that graphs can hold. See cairn/lists.h and strings.h.
 *
 *     cn::ListOfTensors list({a, b});
 *     cn::Tensor all = list.insert(c).concat(0);
 *     cn::Strings words({"to", "be"}, {2});
 *     cn::Tensor ids = words.find(vocabulary);
 *
 * Place in the flow: values of C++ over the C functions, like tensors: what changes a list gives another one.
 * Invariant: each owns its two tensors; one without them is nowhere but moved from. */
#ifndef CAIRN_LISTS_HPP
#define CAIRN_LISTS_HPP

#include <cairn/lists.h>
#include <cairn/strings.h>
#include <cairn/tensor.hpp>

#include <string>

namespace cn {

namespace detail {
/* What C makes, kept. */
template <class F> Tensor kept_of(const F &make)
{
  Scope scope;
  return Tensor::keep(check(make()));
}
}  // namespace detail

class ListOfTensors {
 public:
  explicit ListOfTensors(Tensors members) /* at least one */
      : ListOfTensors([&](cn_list *out) { return cn_list_make(out, members.data(), members.size()); })
  {
  }
  static ListOfTensors of(const Tensor &data, const Tensor &shapes) /* the two tensors that a list is */
  {
    return ListOfTensors([&](cn_list *out) { return *out = {data.get(), shapes.get()}, 0; });
  }
  static ListOfTensors empty(DType dtype, int ndim, Device device = {})
  {
    const cn_device number = device.number() ? device.number() : cn_default_device();
    return ListOfTensors([&](cn_list *out) { return cn_list_empty(out, dtype, ndim, number); });
  }
  static ListOfTensors rows(const Tensor &x) /* x[0], x[1] ... */
  {
    return ListOfTensors([&](cn_list *out) { return cn_list_rows(out, x.get()); });
  }
  /* x cut along dim into pieces of these sizes; not keepdim: the sizes are 1, and the pieces have no such dimension */
  static ListOfTensors split(const Tensor &x, const Tensor &sizes, int64_t dim = 0, bool keepdim = true)
  {
    return ListOfTensors([&](cn_list *out) { return cn_list_split(out, x.get(), sizes.get(), dim, keepdim); });
  }

  /* index: an int64 of one element; negative ones count from the end; none: behind the last one, or the last one */
  ListOfTensors insert(const Tensor &t, const Tensor &index = Tensor()) const
  {
    return changed([&](cn_list *out, const cn_list *in) { return cn_list_insert(out, in, t.get(), index.get()); });
  }
  ListOfTensors erase(const Tensor &index = Tensor()) const
  {
    return changed([&](cn_list *out, const cn_list *in) { return cn_list_erase(out, in, index.get()); });
  }
  ListOfTensors take(const Tensor &indices) const
  {
    return changed([&](cn_list *out, const cn_list *in) { return cn_list_take(out, in, indices.get()); });
  }

  Tensor length() const
  {
    return read([](const cn_list *l) { return cn_list_length(l); });
  }
  /* shape: the member's sizes as far as they are known, -1 or none at all: not known */
  Tensor at(const Tensor &index, const std::vector<int64_t> &shape = {}) const
  {
    return read([&](const cn_list *l) { return cn_list_at(l, index.get(), known(shape)); });
  }
  Tensor concat(int64_t dim = 0, const std::vector<int64_t> &shape = {}) const
  {
    return read([&](const cn_list *l) { return cn_list_concat(l, dim, known(shape)); });
  }
  Tensor stack(int64_t dim = 0, const std::vector<int64_t> &shape = {}) const
  {
    return read([&](const cn_list *l) { return cn_list_stack(l, dim, known(shape)); });
  }
  const Tensor &data() const noexcept { return data_; }
  const Tensor &shapes() const noexcept { return shapes_; }

 private:
  template <class F, class = std::enable_if_t<std::is_invocable_v<F, cn_list *>>> explicit ListOfTensors(const F &make)
  {
    detail::Scope scope;
    cn_list made;
    detail::check(make(&made));
    data_ = Tensor::keep(made.data);
    shapes_ = Tensor::keep(made.shapes);
  }
  template <class F> ListOfTensors changed(const F &change) const
  {
    const cn_list in = {data_.get(), shapes_.get()};
    return ListOfTensors([&](cn_list *out) { return change(out, &in); });
  }
  template <class F> Tensor read(const F &reader) const
  {
    const cn_list in = {data_.get(), shapes_.get()};
    return detail::kept_of([&] { return reader(&in); });
  }
  /* One size for each dimension, or NULL. */
  const int64_t *known(const std::vector<int64_t> &shape) const
  {
    if (!shape.empty() && static_cast<int64_t>(shape.size()) != shapes_.size(1))
      throw ShapeError("list: a shape has as many sizes as the members have dimensions");
    return shape.empty() ? nullptr : shape.data();
  }
  Tensor data_, shapes_;
};

class Strings {
 public:
  Strings(const Tensor &bytes, const Tensor &lengths) : bytes_(bytes), lengths_(lengths) {}
  /* As many as the shape says; without a shape a vector of them. */
  explicit Strings(const std::vector<std::string> &strings) : Strings(strings, {static_cast<int64_t>(strings.size())})
  {
  }
  Strings(const std::vector<std::string> &strings, const std::vector<int64_t> &shape)
      : Strings([&](cn_strings *out) {
          std::vector<const char *> text;
          int64_t n = 1;
          for (int64_t size : shape) n *= size;
          if (n != static_cast<int64_t>(strings.size()))
            throw ShapeError("strings: there are not as many as the shape says");
          for (const std::string &one : strings) text.push_back(one.c_str());
          return cn_strings_from(out, text.data(), shape.data(), shape.size());
        })
  {
  }
  /* Decimal, with as few digits as read back as the same number. */
  static Strings format(const Tensor &numbers)
  {
    return Strings([&](cn_strings *out) { return cn_strings_format(out, numbers.get()); });
  }

  std::string operator[](int64_t i) const /* of the row-major order; reads values */
  {
    const cn_strings in = lent();
    return detail::take(cn_strings_get(&in, i));
  }
  Tensor equal(const Strings &other) const
  {
    const cn_strings a = lent(), b = other.lent();
    return detail::kept_of([&] { return cn_strings_equal(&a, &b); });
  }
  Strings concat(const Strings &other) const
  {
    const cn_strings a = lent(), b = other.lent();
    return Strings([&](cn_strings *out) { return cn_strings_concat(out, &a, &b); });
  }
  Tensor count() const /* characters of each */
  {
    const cn_strings in = lent();
    return detail::kept_of([&] { return cn_strings_count(&in); });
  }
  Strings take(const Tensor &indices) const
  {
    const cn_strings in = lent();
    return Strings([&](cn_strings *out) { return cn_strings_take(out, &in, indices.get()); });
  }
  Tensor find(const Strings &keys) const /* which of the keys each is; -1: none */
  {
    const cn_strings in = lent(), k = keys.lent();
    return detail::kept_of([&] { return cn_strings_find(&in, &k); });
  }
  Tensor lookup(const Strings &keys, const Tensor &values, const Tensor &other) const
  {
    const cn_strings in = lent(), k = keys.lent();
    return detail::kept_of([&] { return cn_strings_lookup(&in, &k, values.get(), other.get()); });
  }
  Tensor parse(DType dtype) const /* what is no number is an error */
  {
    const cn_strings in = lent();
    return detail::kept_of([&] { return cn_strings_parse(&in, dtype); });
  }
  const Tensor &bytes() const noexcept { return bytes_; }
  const Tensor &lengths() const noexcept { return lengths_; }

 private:
  template <class F, class = std::enable_if_t<std::is_invocable_v<F, cn_strings *>>> explicit Strings(const F &make)
  {
    detail::Scope scope;
    cn_strings made;
    detail::check(make(&made));
    bytes_ = Tensor::keep(made.bytes);
    lengths_ = Tensor::keep(made.lengths);
  }
  cn_strings lent() const noexcept { return {bytes_.get(), lengths_.get()}; }
  Tensor bytes_, lengths_;
};

}  // namespace cn

#endif
