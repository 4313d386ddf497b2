/* containers.hpp: modules of modules: Sequential, Residual, ModuleList, ModuleDict.
 *
 * What is put in is kept: of a program's own class a copy of the object, which has the same parameters. */
#ifndef CAIRN_CONTAINERS_HPP
#define CAIRN_CONTAINERS_HPP

#include <cairn/module.hpp>

namespace cn {

namespace detail {

/* Modules on their way into a container: freed where it fails. */
class Children {
 public:
  ~Children()
  {
    for (cn_module *m : v_) cn_module_free(m);
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
class Container : public Handle {
 public:
  using Handle::Handle;
  size_t size() const { return cn_module_nchildren(get()); }
  AnyModule operator[](size_t i) const
  {
    if (i >= size()) throw Error(CN_ERR_INDEX, name() + ": has no child " + std::to_string(i));
    return AnyModule::keep(cn_module_child(get(), i));
  }
  template <class M> void push_back(M &&child)
  {
    check(cn_module_add(get(), nullptr, detail::keep_module(std::forward<M>(child))));
  }
  template <class M> void push_back(const std::string &name, M &&child)
  {
    check(cn_module_add(get(), name.c_str(), detail::keep_module(std::forward<M>(child))));
  }

  class Iterator {
   public:
    Iterator(const Container *list, size_t i) : list_(list), i_(i) {}
    AnyModule operator*() const { return (*list_)[i_]; }
    Iterator &operator++()
    {
      i_++;
      return *this;
    }
    bool operator!=(const Iterator &other) const { return i_ != other.i_; }

   private:
    const Container *list_;
    size_t i_;
  };
  Iterator begin() const { return Iterator(this, 0); }
  Iterator end() const { return Iterator(this, size()); }
};

}  // namespace detail

/* One module after the other: Sequential(Linear(784, 128), ReLU(), Linear(128, 10)). */
class Sequential : public detail::Container {
 public:
  using Layer = Sequential;
  Sequential() : Container(detail::contain(cn_nn_sequential_of)) {}
  explicit Sequential(detail::Made made) : Container(made) {}
  template <class... M, class = std::enable_if_t<detail::are_children<Sequential, M...>>>
  explicit Sequential(M &&...children)
      : Container(detail::contain(cn_nn_sequential_of, std::forward<M>(children)...))
  {
  }
  Tensor forward(const Tensor &input) const
  {
    const cn_value args[] = {detail::v(input)};
    cn_tensor *out[1];
    detail::forward(out, 1, get(), args, 1);
    return Tensor::own(out[0]);
  }
  Tensor operator()(const Tensor &input) const { return forward(input); }
};

/* x + the children one after the other. */
class Residual : public detail::Container {
 public:
  using Layer = Residual;
  explicit Residual(detail::Made made) : Container(made) {}
  template <class... M, class = std::enable_if_t<detail::are_children<Residual, M...>>>
  explicit Residual(M &&...children)
      : Container(detail::contain(cn_nn_residual_of, std::forward<M>(children)...))
  {
  }
  Tensor forward(const Tensor &input) const { return AnyModule::keep(get())(input); }
  Tensor operator()(const Tensor &input) const { return forward(input); }
};

/* Modules in a list, to be called by whoever holds it: for (auto layer : layers) x = layer(x). */
class ModuleList : public detail::Container {
 public:
  using Layer = ModuleList;
  ModuleList() : Container(detail::contain(cn_nn_module_list_of)) {}
  explicit ModuleList(detail::Made made) : Container(made) {}
  template <class... M, class = std::enable_if_t<detail::are_children<ModuleList, M...>>>
  explicit ModuleList(M &&...children)
      : Container(detail::contain(cn_nn_module_list_of, std::forward<M>(children)...))
  {
  }
};

/* Modules by name. */
class ModuleDict : public detail::Container {
 public:
  using Layer = ModuleDict;
  ModuleDict() : Container(detail::Made{detail::check(cn_nn_module_dict_of(nullptr, nullptr, 0))}) {}
  explicit ModuleDict(detail::Made made) : Container(made) {}
  using Container::operator[];
  AnyModule operator[](const std::string &name) const { return child(name); }
};

}  // namespace cn

#endif
