/* containers.hpp: modules of modules: Sequential, Residual, ModuleList, ModuleDict; lists of parameters, functions.
 *
 * What is put in is kept: of a program's own class a copy of the object, which has the same parameters. */
#include <cairn/module.hpp> /* which includes this file, in its place */
#ifndef CAIRN_CONTAINERS_HPP
#define CAIRN_CONTAINERS_HPP

#include <iterator>

namespace cn {

namespace detail {

/* Modules on their way into a container: freed where it fails. */
class Children {
 public:
  ~Children()
  {
    for (cn_module *m : v_) cn_module_release(m);
  }
  template <class M> void add(M &&m) { v_.push_back(detail::keep_module(std::forward<M>(m))); }
  template <class Make> Made into(Make &&make)
  {
    std::vector<cn_module *> given;
    given.swap(v_);
    return {check(make(given.data(), given.size()))};
  }

 private:
  std::vector<cn_module *> v_;
};

template <class... M> Made contain(cn_module *(*make)(cn_module *const *, size_t), M &&...children)
{
  Children all;
  (all.add(std::forward<M>(children)), ...);
  return all.into(make);
}

/* Modules to contain, and not just one more handle of the container itself. */
template <class Self, class... M>
inline constexpr bool are_children = (is_module<M> && ...) && sizeof...(M) != 0 &&
                                     !(sizeof...(M) == 1 && (std::is_same_v<std::decay_t<M>, Self> && ...));

/* What containers have in common. */
template <class Self> class Container : public LayerOf<Self> {
 public:
  using LayerOf<Self>::LayerOf;
  using LayerOf<Self>::get;
  size_t size() const { return cn_module_nchildren(get()); }
  bool empty() const { return size() == 0; }
  AnyModule operator[](size_t i) const
  {
    if (i >= size()) throw IndexError(this->name() + ": has no child " + std::to_string(i));
    return AnyModule::keep(cn_module_child(get(), i));
  }
  /* A child as what it is: net.at<cn::Linear>(0). Throws where it is something else. */
  template <class M> auto at(size_t i) const
  {
    auto found = (*this)[i].template as<M>();
    if (!found) throw TypeError("child " + std::to_string(i) + " is a " + (*this)[i].name());
    return found;
  }
  template <class M, class = std::enable_if_t<is_module<M>>> void push_back(M &&child)
  {
    check(cn_module_add(get(), nullptr, keep_module(std::forward<M>(child))));
  }
  template <class M, class = std::enable_if_t<is_module<M>>> void push_back(const std::string &name, M &&child)
  {
    check(cn_module_add(get(), name.c_str(), keep_module(std::forward<M>(child))));
  }
  /* Those of another container. */
  template <class Other> void extend(const Container<Other> &other)
  {
    for (AnyModule child : other) push_back(child);
  }

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = AnyModule;
    using difference_type = std::ptrdiff_t;
    using pointer = const AnyModule *;
    using reference = const AnyModule &;
    Iterator(const Container *list, size_t i) : list_(list), i_(i) { read(); }
    const AnyModule &operator*() const { return now_; }
    const AnyModule *operator->() const { return &now_; }
    Iterator &operator++()
    {
      i_++;
      read();
      return *this;
    }
    bool operator==(const Iterator &other) const { return i_ == other.i_; }
    bool operator!=(const Iterator &other) const { return i_ != other.i_; }

   private:
    void read() { now_ = i_ < list_->size() ? (*list_)[i_] : AnyModule(); }

    const Container *list_;
    size_t i_;
    AnyModule now_;
  };
  Iterator begin() const { return Iterator(this, 0); }
  Iterator end() const { return Iterator(this, size()); }
};

inline Made contain_named(cn_module *made, std::initializer_list<NamedModule> children)
{
  Owned all(made);
  for (const NamedModule &child : children)
    check(cn_module_add(all.m, child.name.c_str(), cn_module_keep(check(child.module.get()))));
  return {all.release()};
}

}  // namespace detail

/* One module after the other: Sequential(Linear(784, 128), ReLU(), Linear(128, 10)). */
class Sequential : public detail::Container<Sequential> {
 public:
  Sequential() : Container(detail::contain(cn_nn_sequential_of)) {}
  explicit Sequential(detail::Made made) : Container(made) {}
  Sequential(std::nullptr_t) {} /* none yet */
  template <class... M, class = std::enable_if_t<detail::are_children<Sequential, M...>>>
  explicit Sequential(M &&...children)
      : Container(detail::contain(cn_nn_sequential_of, std::forward<M>(children)...))
  {
  }
  /* With names: Sequential({{"conv", Conv2d(1, 8, 3)}, {"relu", ReLU()}}). */
  explicit Sequential(std::initializer_list<NamedModule> children)
      : Container(detail::contain_named(cn_nn_sequential_of(nullptr, 0), children))
  {
  }
  Tensor forward(const Tensor &input) const
  {
    const cn_value args[] = {detail::v(input)};
    cn_tensor *out[1];
    run(out, 1, args, 1);
    return Tensor::own(out[0]);
  }
  /* The first module gets all inputs, the others one tensor. */
  template <class... T> Tensor forward(const Tensor &first, const Tensor &second, const T &...rest) const
  {
    if (empty()) throw ValueError("Sequential: several inputs, and no module to take them");
    Tensor x = (*this)[0](first, second, rest...);
    for (size_t i = 1; i < size(); i++) x = (*this)[i](x);
    return x;
  }
  template <class... T> Tensor operator()(const Tensor &input, const T &...rest) const
  {
    return forward(input, rest...);
  }
};

/* x + the children one after the other. */
class Residual : public detail::Container<Residual> {
 public:
  explicit Residual(detail::Made made) : Container(made) {}
  Residual(std::nullptr_t) {} /* none yet */
  template <class... M, class = std::enable_if_t<detail::are_children<Residual, M...>>>
  explicit Residual(M &&...children)
      : Container(detail::contain(cn_nn_residual_of, std::forward<M>(children)...))
  {
  }
  Tensor forward(const Tensor &input) const
  {
    const cn_value args[] = {detail::v(input)};
    cn_tensor *out[1];
    run(out, 1, args, 1);
    return Tensor::own(out[0]);
  }
  Tensor operator()(const Tensor &input) const { return forward(input); }
};

/* Modules in a list, to be called by whoever holds it: for (auto layer : layers) x = layer(x). */
class ModuleList : public detail::Container<ModuleList> {
 public:
  ModuleList() : Container(detail::contain(cn_nn_module_list_of)) {}
  explicit ModuleList(detail::Made made) : Container(made) {}
  ModuleList(std::nullptr_t) {} /* none yet */
  template <class... M, class = std::enable_if_t<detail::are_children<ModuleList, M...>>>
  explicit ModuleList(M &&...children)
      : Container(detail::contain(cn_nn_module_list_of, std::forward<M>(children)...))
  {
  }
};

/* Modules by name. */
class ModuleDict : public detail::Container<ModuleDict> {
 public:
  ModuleDict() : Container(detail::Made{detail::check(cn_nn_module_dict_of(nullptr, nullptr, 0))}) {}
  explicit ModuleDict(detail::Made made) : Container(made) {}
  ModuleDict(std::nullptr_t) {} /* none yet */
  explicit ModuleDict(std::initializer_list<NamedModule> children)
      : Container(detail::contain_named(cn_nn_module_dict_of(nullptr, nullptr, 0), children))
  {
  }
  using Container::operator[];
  AnyModule operator[](const std::string &name) const { return child(name); }
  bool contains(const std::string &name) const { return cn_module_find(get(), name.c_str()) != nullptr; }
  std::vector<std::string> keys() const
  {
    std::vector<std::string> all;
    for (const NamedModule &m : named_children()) all.push_back(m.name);
    return all;
  }
};

/* Parameters in a list that belongs to a module. */
class ParameterList : public Module {
 public:
  ParameterList() = default;
  explicit ParameterList(const std::vector<Tensor> &tensors)
  {
    for (const Tensor &t : tensors) append(t);
  }
  void append(const Tensor &t) { register_parameter(std::to_string(size()), t); }
  size_t size() const { return parameters(false).size(); }
  Tensor operator[](size_t i) const { return parameter(std::to_string(i)); }
  Tensor forward(const Tensor &) const { throw UnsupportedError("ParameterList: it is not called"); }
};

/* A function as a module, for containers: Functional(cn::tanh), Functional([](const Tensor &x) { return x * 2; }). */
class Functional : public Module {
 public:
  explicit Functional(std::function<Tensor(const Tensor &)> fn) : fn_(std::move(fn)) {}
  Tensor forward(const Tensor &input) const { return fn_(input); }
  Tensor operator()(const Tensor &input) const { return fn_(input); }

 private:
  std::function<Tensor(const Tensor &)> fn_;
};

}  // namespace cn

#endif
