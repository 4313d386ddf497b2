/* objects.hpp: how C reaches the objects of C++ behind modules: their forward, their copies; modules of any class.
 *
 * Place in the flow: the second half of module.hpp, which includes it. A cn_module of a program's own class has an
 * Object: for classes that derive from cn::Module in its data, for those that derive from a layer behind it. Deep
 * copies are made by C; then the objects in them are made by their copy constructors, while tensors and modules are
 * translated (tensor.hpp). Invariant: the copy that a cn_module keeps holds no reference to it. */
#include <cairn/module.hpp> /* which includes this file, in its place */
#ifndef CAIRN_OBJECTS_HPP
#define CAIRN_OBJECTS_HPP

namespace cn {

namespace detail {

inline void free_object(cn_module *m)
{
  Object *o = Object::of(m);
  if (!o) return;
  delete o->kept;
  delete o;
}

inline void hold(cn_module *m, Module *copy)
{
  Object *o = Object::of(m);
  cn_module_release(copy->m_); /* not the last reference: the caller has one */
  copy->borrowed_ = true;
  delete std::exchange(o->kept, copy);
}

/* A module with its reference. */
struct Owned {
  cn_module *m;
  explicit Owned(cn_module *made) : m(check(made)) {}
  ~Owned() { cn_module_release(m); }
  Owned(const Owned &) = delete;
  Owned &operator=(const Owned &) = delete;
  cn_module *release() { return std::exchange(m, nullptr); }
};

/* ---- layers with a forward of a program's own ---- */
inline int run_override(cn_module *m, cn_module_call *call, void *) { return run_object(m, call); }

/* Gives a module of C's an Object, whose forward runs in place of the class's. A hook that does nothing owns it. */
inline Object *add_object(cn_module *m)
{
  if (Object *known = Object::of(m)) return known;
  auto *made = new Object;
  auto nothing = [](cn_module *, cn_module_call *, void *) { return 0; };
  auto free = [](void *p) {
    auto *o = static_cast<Object *>(p);
    delete o->kept;
    delete o;
  };
  check(cn_module_hook_before(m, +nothing, made, +free));
  cn_module_set_object(m, made);
  cn_module_set_forward(m, run_override);
  return made;
}

template <class M, class L> constexpr auto same_forward(int) -> decltype(&M::forward, &L::forward, true)
{
  return std::is_same_v<decltype(&M::forward), decltype(&L::forward)>;
}
template <class M, class L> constexpr bool same_forward(...) { return false; }

/* Does C have to come back to C++ to run it? */
template <class M> constexpr bool has_own_forward()
{
  if constexpr (std::is_same_v<M, Module> || std::is_same_v<M, Handle>) return false;
  else if constexpr (std::is_base_of_v<Handle, M>)
    return !std::is_same_v<M, typename M::Layer> && !same_forward<M, typename M::Layer>(0);
  else return true;
}

/* ---- handing over to C ---- */
template <class M> Module *copy_of(const Module *m) { return new M(static_cast<const M &>(*m)); }

/* Lets C know the class of the object behind a module. */
template <class M> Object *know(cn_module *module)
{
  Object *o = std::is_base_of_v<Handle, M> ? add_object(module) : Object::of(module);
  if (!o) return nullptr;
  o->call.store(run_forward<M>);
  if constexpr (std::is_copy_constructible_v<M>) o->copy.store(copy_of<M>);
  return o;
}

template <class M> cn_module *bind_module(M &m)
{
  using Own = std::remove_const_t<M>;
  cn_module *module = m.get();
  const Module &base = m;
  if constexpr (has_own_forward<Own>())
    if (Object *o = know<Own>(check(module))) o->live.store(const_cast<Module *>(&base));
  static_cast<void>(base);
  return check(module);
}

template <class M> cn_module *keep_module(M &&m)
{
  using Own = std::decay_t<M>;
  if (!m.get()) throw TypeError("a module is empty: it was declared, but never made");
  Owned module(cn_module_keep(m.get()));
  if constexpr (has_own_forward<Own>()) {
    Object *o = know<Own>(module.m);
    if (o && !o->kept) hold(module.m, new Own(std::forward<M>(m)));
  }
  return module.release();
}

/* ---- forward, called by C ---- */
template <class M, size_t... I> auto can_forward(std::index_sequence<I...>)
    -> decltype(std::declval<M &>().forward((static_cast<void>(I), std::declval<Tensor &>())...), std::true_type());
template <class M> std::false_type can_forward(...);
template <class M> auto can_forward_list(int)
    -> decltype(std::declval<M &>().forward(std::declval<std::vector<Tensor> &>()), std::true_type());
template <class M> std::false_type can_forward_list(...);

template <class T> void set_outputs(cn_module_call *call, const T &made)
{
  std::vector<Tensor> all;
  append(all, made);
  for (size_t i = 0; i < all.size() && i < call->nout; i++) call->out[i] = lend(all[i]);
}

template <class M, size_t... I>
bool try_forward(M &m, cn_module_call *call, std::vector<Tensor> &given, std::index_sequence<I...> n)
{
  if constexpr (decltype(can_forward<M>(n))::value) {
    if (given.size() != sizeof...(I)) return false;
    set_outputs(call, m.forward(given[I]...));
    return true;
  } else {
    static_cast<void>(m), static_cast<void>(call), static_cast<void>(given), static_cast<void>(n);
    return false;
  }
}

template <class M, size_t... N>
bool try_each(M &m, cn_module_call *call, std::vector<Tensor> &given, std::index_sequence<N...>)
{
  return (try_forward<M>(m, call, given, std::make_index_sequence<N>()) || ...);
}

/* Forward with as many tensors as were given. */
template <class M> int run_forward(Module *base, cn_module_call *call)
{
  M &m = static_cast<M &>(*base);
  std::vector<Tensor> given;
  for (size_t i = 0; i < call->nargs && call->args[i].tag == CN_V_TENSOR; i++)
    given.push_back(Tensor::keep(call->args[i].u.t));
  if (try_each<M>(m, call, given, std::make_index_sequence<MOST_INPUTS + 1>())) return CN_OK;
  if constexpr (decltype(can_forward_list<M>(0))::value) {
    set_outputs(call, m.forward(given));
    return CN_OK;
  }
  throw TypeError(m.name() + ": its forward does not take " + std::to_string(given.size()) + " tensors");
}

/* ---- deep copies ---- */
inline void pair_up(Translation &known, std::vector<cn_module *> &order, cn_module *to, cn_module *from)
{
  if (!to || known.find(from)) return;
  known.made.push_back({from, to});
  order.push_back(from);
  for (size_t i = 0; i < cn_module_nchildren(from); i++)
    pair_up(known, order, cn_module_child(to, i), cn_module_child(from, i));
  cn_named a, b;
  for (size_t i = 0; cn_module_slot_at(&a, from, i) && cn_module_slot_at(&b, to, i); i++)
    if (a.tensor && b.tensor) known.made.push_back({a.tensor, b.tensor});
}

/* Makes the objects of C++ in `to`, which C copied from `from`. */
inline void revive(cn_module *to, cn_module *from)
{
  Translation known;
  std::vector<cn_module *> order;
  pair_up(known, order, to, from);
  struct Active {
    const Translation *before;
    explicit Active(const Translation *now) : before(std::exchange(translation, now)) {}
    ~Active() { translation = before; }
    Active(const Active &) = delete;
    Active &operator=(const Active &) = delete;
  };
  for (cn_module *m : order) {
    const Object *o = Object::of(m);
    if (!o || !o->target()) continue;
    if (o->shared || !o->copy.load())
      throw UnsupportedError(
          std::string(m->cls->name) + ": it cannot be copied: " +
          (o->shared ? "hold its children as members, not by shared_ptr" : "its class has no copies"));
    cn_module *made = known.of(m);
    Object *copy = m->cls->forward == run_object ? Object::of(made) : add_object(made);
    copy->call.store(o->call.load());
    copy->copy.store(o->copy.load());
    Active now(&known);
    hold(made, o->copy.load()(o->target()));
  }
}

/* The same for copies of `pattern` that C made inside of m: the layers of a TransformerEncoder. */
inline void adopt(cn_module *m, cn_module *pattern)
{
  for (size_t i = 0; pattern && i < cn_module_nchildren(m); i++) {
    cn_module *child = cn_module_child(m, i);
    const Object *known = Object::of(child);
    if (child->cls == pattern->cls && child != pattern && !(known && known->target())) revive(child, pattern);
    else if (child != pattern) adopt(child, pattern);
  }
}

inline cn_module *deep_copy(cn_module *m)
{
  Owned made(cn_module_copy(m));
  revive(made.m, m);
  return made.release();
}

}  // namespace detail

/* Any module, as C sees it: of the zoo, a child, or one of whatever class that was put into it. */
class AnyModule : public detail::LayerOf<AnyModule> {
 public:
  AnyModule() = default;
  explicit AnyModule(detail::Made made) : LayerOf(made) {}
  template <class M, class = std::enable_if_t<detail::is_module<M> && !std::is_same_v<std::decay_t<M>, AnyModule>>>
  AnyModule(M &&m) : LayerOf(detail::Made{detail::keep_module(std::forward<M>(m))})
  {
  }
  static AnyModule keep(cn_module *m) { return AnyModule(detail::Made{cn_module_keep(m)}); }

  template <class... T> Tensor forward(const T &...inputs) const
  {
    const cn_value args[] = {detail::v(static_cast<const Tensor &>(inputs))...};
    cn_tensor *out[1];
    run(out, 1, args, sizeof...(T));
    return Tensor::own(out[0]);
  }
  template <class... T> Tensor operator()(const T &...inputs) const { return forward(inputs...); }
  /* The first n results. */
  std::vector<Tensor> forward_all(const std::vector<Tensor> &inputs, size_t n) const
  {
    std::vector<cn_tensor *> out(n);
    detail::Scope scope;
    detail::check(cn_forward_all(out.data(), n, get(), detail::pointers(inputs.data()), inputs.size()));
    return detail::kept(out.data(), n);
  }
};

/* A module with its full name. */
struct NamedModule {
  std::string name;
  AnyModule module;
  const std::string &key() const noexcept { return name; }
  const AnyModule &value() const noexcept { return module; }
};

namespace detail {

inline cn_value v(const AnyModule &x) { return cn_v_module(x.get()); }

}  // namespace detail

/* ---- looking into modules ---- */
inline std::vector<NamedModule> Module::named_children() const
{
  std::vector<NamedModule> found;
  for (size_t i = 0; i < cn_module_nchildren(get()); i++)
    found.push_back({cn_module_child_name(m_, i), AnyModule::keep(cn_module_child(m_, i))});
  return found;
}

inline std::vector<AnyModule> Module::children() const
{
  std::vector<AnyModule> found;
  for (const NamedModule &child : named_children()) found.push_back(child.module);
  return found;
}

inline std::vector<NamedModule> Module::named_modules() const
{
  std::vector<NamedModule> found;
  auto note = [](cn_module *m, const char *path, void *payload) {
    return detail::guarded([&] {
      static_cast<std::vector<NamedModule> *>(payload)->push_back({path, AnyModule::keep(m)});
      return 0;
    });
  };
  detail::check(cn_module_visit(get(), +note, &found));
  return found;
}

inline std::vector<AnyModule> Module::modules(bool include_self) const
{
  std::vector<AnyModule> found;
  for (const NamedModule &m : named_modules())
    if (include_self || m.module.get() != get()) found.push_back(m.module);
  return found;
}

template <class Fn> void Module::apply(Fn &&fn)
{
  for (NamedModule &m : named_modules())
    if constexpr (std::is_invocable_v<Fn, const std::string &, AnyModule &>) fn(m.name, m.module);
    else fn(m.module);
}

inline AnyModule Module::child(const std::string &path) const
{
  cn_module *found = cn_module_find(get(), path.c_str());
  if (!found) throw IndexError(name() + ": has no child " + path);
  return AnyModule::keep(found);
}

template <class M> void Module::set_child(const std::string &path, M &&child)
{
  const size_t dot = path.rfind('.');
  const std::string last = dot == std::string::npos ? path : path.substr(dot + 1);
  cn_module *parent = dot == std::string::npos ? get() : cn_module_find(get(), path.substr(0, dot).c_str());
  for (size_t i = 0; i < cn_module_nchildren(parent); i++)
    if (last == cn_module_child_name(parent, i)) {
      detail::check(cn_module_set_child(parent, i, detail::keep_module(std::forward<M>(child))));
      return;
    }
  throw IndexError(name() + ": has no child " + path);
}

template <class M> auto Module::as() const
{
  static_assert(detail::is_module<M>, "as: the class of a module is wanted");
  if constexpr (std::is_same_v<M, AnyModule>) return AnyModule::keep(get());
  else if constexpr (detail::has_own_forward<M>()) {
    const detail::Object *o = detail::Object::of(get());
    return o ? dynamic_cast<M *>(o->target()) : nullptr;
  } else return M(detail::Made{detail::class_name(typeid(M)) == name() ? cn_module_keep(get()) : nullptr});
}

/* ---- hooks ---- */
namespace detail {

inline std::vector<Tensor> tensors_of(const cn_module_call *call)
{
  std::vector<Tensor> found;
  for (size_t i = 0; i < call->nargs; i++)
    if (call->args[i].tag == CN_V_TENSOR) found.push_back(Tensor::keep(call->args[i].u.t));
  return found;
}

}  // namespace detail

inline int64_t Module::register_forward_pre_hook(BeforeHook hook)
{
  auto call = [](cn_module *m, cn_module_call *c, void *payload) {
    return detail::guarded([&] {
      std::vector<Tensor> inputs = detail::tensors_of(c);
      (*static_cast<BeforeHook *>(payload))(AnyModule::keep(m), inputs);
      auto *args = const_cast<cn_value *>(c->args); /* hooks get arguments that may be replaced */
      for (size_t i = 0, k = 0; i < c->nargs && k < inputs.size(); i++)
        if (args[i].tag == CN_V_TENSOR) args[i] = cn_v_tensor(detail::lend(inputs[k++]));
      return 0;
    });
  };
  return detail::check(cn_module_hook_before(get(), +call, detail::give(std::move(hook)), detail::destroy<BeforeHook>));
}

inline int64_t Module::register_forward_hook(AfterHook hook)
{
  auto call = [](cn_module *m, cn_module_call *c, void *payload) {
    return detail::guarded([&] {
      std::vector<Tensor> outputs;
      for (size_t i = 0; i < c->nout && c->out[i]; i++) outputs.push_back(Tensor::keep(c->out[i]));
      (*static_cast<AfterHook *>(payload))(AnyModule::keep(m), detail::tensors_of(c), outputs);
      for (size_t i = 0; i < outputs.size(); i++) c->out[i] = detail::lend(outputs[i]);
      return 0;
    });
  };
  return detail::check(cn_module_hook_after(get(), +call, detail::give(std::move(hook)), detail::destroy<AfterHook>));
}

inline int64_t Module::register_full_backward_hook(BackwardHook hook)
{
  auto call = [](cn_module *m, cn_tensor **grad_inputs, size_t nin, cn_tensor *const *grad_outputs, size_t nout,
                 void *payload) {
    return detail::guarded([&] {
      std::vector<Tensor> grads = detail::kept(grad_inputs, nin);
      (*static_cast<BackwardHook *>(payload))(AnyModule::keep(m), grads, detail::kept(grad_outputs, nout));
      for (size_t i = 0; i < nin && i < grads.size(); i++) grad_inputs[i] = detail::lend(grads[i]);
      return 0;
    });
  };
  auto *payload = detail::give(std::move(hook));
  return detail::check(cn_module_hook_backward(get(), +call, payload, detail::destroy<BackwardHook>));
}

/* ---- what is done with a module of any class ---- */
/* Calls it as C does, with hooks. */
template <class M, class... T> Tensor call(M &m, const T &...inputs)
{
  detail::bind_module(m);
  const cn_value args[] = {detail::v(static_cast<const Tensor &>(inputs))...};
  cn_tensor *out[1];
  detail::forward(out, 1, m.get(), args, sizeof...(T));
  return Tensor::own(out[0]);
}

/* Another module of the class, with parameters, buffers and children of its own that have the same values. Plain
 * members are copied; tensors that are not registered are shared. */
template <class M, class = std::enable_if_t<detail::is_module<M>>> auto clone(const M &m)
{
  if constexpr (std::is_same_v<M, Module>) return AnyModule(detail::Made{detail::deep_copy(m.get())});
  else if constexpr (detail::has_own_forward<M>()) {
    detail::Owned made(detail::deep_copy(detail::bind_module(m)));
    return M(static_cast<const M &>(*detail::Object::of(made.m)->kept));
  } else return M(detail::Made{detail::deep_copy(m.get())});
}

/* A base for classes whose objects are called as layers are: struct Net : cn::Callable<Net>; y = net(x). With a layer
 * as the second argument it is a layer with another forward: struct Scaled : cn::Callable<Scaled, cn::Linear>. Hooks
 * run around calls of tensors. */
template <class Self, class Base = Module> class Callable : public Base {
 public:
  using Base::Base;
  template <class... A> decltype(auto) operator()(A &&...inputs)
  {
    using Made = decltype(static_cast<Self &>(*this).forward(std::forward<A>(inputs)...));
    if constexpr (detail::is_tensor<Made> && sizeof...(A) != 0 && (detail::is_tensor<A> && ...))
      return hooked() ? call(static_cast<Self &>(*this), inputs...)
                      : static_cast<Self &>(*this).forward(std::forward<A>(inputs)...);
    else return static_cast<Self &>(*this).forward(std::forward<A>(inputs)...);
  }
  Self clone() const { return cn::clone(static_cast<const Self &>(*this)); }
  Self *operator->() noexcept { return static_cast<Self *>(this); }
  const Self *operator->() const noexcept { return static_cast<const Self *>(this); }

 private:
  /* A layer's own Object is owned by a hook, which is no reason to go through C. */
  bool hooked() const { return std::is_same_v<Base, Module> && cn_module_hooked(this->get()); }
};

/* struct NetImpl : cn::Module { ... }; CN_MODULE(Net); as PyTorch's TORCH_MODULE: Net net; net->forward(x). */
#define CN_MODULE(Name)                                      \
  class Name : public Name##Impl {                           \
   public:                                                   \
    using Name##Impl::Name##Impl;                            \
    Name *operator->() noexcept { return this; }             \
    const Name *operator->() const noexcept { return this; } \
  }

/* A table of layers: output shapes, parameters, multiply-adds; of a run on zeros of that shape. */
template <class M> std::string summary(M &m, Ints shape)
{
  return detail::take(cn_summary(detail::bind_module(m), shape.data(), shape.size()));
}
template <class M> std::string summary(M &m, const std::vector<Tensor> &inputs)
{
  return detail::take(cn_summary_inputs(detail::bind_module(m), detail::pointers(inputs.data()), inputs.size()));
}

/* torch::save(net, path) and load; the ending names the format. */
inline void save(const Module &m, const std::string &path) { m.save(path); }
inline void load(Module &m, const std::string &path) { m.load(path); }
template <class M, class = std::enable_if_t<detail::is_module<M>>>
void save(const std::shared_ptr<M> &m, const std::string &path)
{
  m->save(path);
}
template <class M, class = std::enable_if_t<detail::is_module<M>>>
void load(const std::shared_ptr<M> &m, const std::string &path)
{
  m->load(path);
}

}  // namespace cn

#endif
