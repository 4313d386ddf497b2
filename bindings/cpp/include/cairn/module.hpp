/* module.hpp: modules: layers are handles of C's modules, and a program's own derive from cn::Module.
 *
 *     struct Net : cn::Module {
 *       cn::Linear fc1{register_module("fc1", cn::Linear(784, 128))}, fc2{register_module("fc2", cn::Linear(128, 10))};
 *       cn::Tensor forward(const cn::Tensor &x) { return fc2(cn::relu(fc1(x))); }
 *     };
 *
 * Place in the flow: tensors and trees below; layers.hpp (generated), containers, optimisers and training above.
 *
 * A module of C++ is a handle of one cn_module: a copy has the same parameters, children and mode; only plain members
 * of a derived class are copied. Where C calls it (in containers, cn::fit, cn::summary) it reaches the forward of the
 * object that was given to it, or of a copy that it keeps when it was put into a container. forward may take and give
 * several tensors. Invariant: the copy that a cn_module keeps holds no reference to it. */
#ifndef CAIRN_MODULE_HPP
#define CAIRN_MODULE_HPP

#include <cairn/io.hpp>
#include <cairn/nn.h>
#include <cairn/train.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <typeindex>
#include <unordered_map>

namespace cn {

class Module;
class AnyModule;

namespace detail {

/* A module just made, owned by whoever takes it. */
struct Made {
  cn_module *module;
};
inline Made made(const char *name, const cn_value *args, size_t n) { return {check(cn_module_make(name, args, n))}; }

/* Runs a module; the results are owned. */
inline void forward(cn_tensor **out, size_t nout, cn_module *m, const cn_value *args, size_t nargs)
{
  Scope scope;
  if (!m) throw Error(CN_ERR_TYPE, "this module is empty: it was declared, but never made");
  check(cn_forward_values(out, nout, m, args, nargs));
  for (size_t i = 0; i < nout; i++) cn_keep(out[i]);
}

enum { MOST_INPUTS = 8 };

/* What a cn_module of a program's own class holds: the C++ object to run. */
struct Object {
  std::atomic<Module *> live{nullptr}; /* the one given to C last, as long as it lives; not owned */
  Module *kept = nullptr;              /* a copy, owned: for modules in containers */
  /* Calls the class's forward. NULL: C does not know yet which class it is. */
  std::atomic<int (*)(Module *m, cn_module_call *call)> call{nullptr};

  static Object *of(const cn_module *m) { return static_cast<Object **>(m->data)[0]; }
};

/* A class table for each C++ class, made once: C points to it until the end. */
struct Class {
  std::string name;
  cn_module_class table;
};

inline int run_object(cn_module *m, cn_module_call *call)
{
  Object *o = Object::of(m);
  Module *target = o->live.load();
  if (!target) target = o->kept;
  auto run = o->call.load();
  if (!target || !run)
    return cn_err_set(CN_ERR_UNSUPPORTED, "%s: C does not know its forward: give the object itself, not a cn::Module",
                      m->cls->name);
  return guarded([&] { return run(target, call); });
}

inline void free_object(cn_module *m);

inline const cn_module_class *class_of(const std::type_info &type)
{
  static auto *classes = new std::unordered_map<std::type_index, Class>;
  static std::mutex lock;
  std::lock_guard<std::mutex> locked(lock);
  auto found = classes->find(type);
  if (found != classes->end()) return &found->second.table;
  Class &c = (*classes)[type];
  c.name = class_name(type);
  std::memset(static_cast<void *>(&c.table), 0, sizeof c.table);
  c.table.name = c.name.c_str();
  c.table.call = "(Tensor? input=None, Tensor? input1=None, Tensor? input2=None, Tensor? input3=None, "
                 "Tensor? input4=None, Tensor? input5=None, Tensor? input6=None, Tensor? input7=None) -> Tensor";
  c.table.data_size = sizeof(Object *);
  c.table.forward = run_object;
  c.table.free = free_object;
  return &c.table;
}

template <class M> int run_forward(Module *m, cn_module_call *call);

/* For a call that begins now: C reaches this very object. Borrowed. */
template <class M> cn_module *bind_module(M &m);
/* For good: C keeps a copy of the object, where it is of a program's own class. Owned. */
template <class M> cn_module *keep_module(M &&m);

template <class M> inline constexpr bool is_module = std::is_base_of_v<Module, std::decay_t<M>>;

}  // namespace detail

/* A parameter or buffer with its full name. */
struct Named {
  std::string name;
  Tensor tensor;
};

struct LoadOptions {
  LoadOptions &strict(bool value) { strict_ = value; return *this; }
  LoadOptions &prefix(const std::string &value) { prefix_ = value; return *this; }

  bool strict_ = true;  /* every name must be in both */
  std::string prefix_;  /* of the names in the state */
};

class Module {
 public:
  Module() noexcept = default;
  Module(const Module &other) noexcept : m_(cn_module_keep(other.m_)) {}
  Module(Module &&other) noexcept { take(other); }
  Module &operator=(const Module &other) noexcept
  {
    if (this != &other) {
      cn_module *kept = cn_module_keep(other.m_);
      drop();
      m_ = kept;
    }
    return *this;
  }
  Module &operator=(Module &&other) noexcept
  {
    if (this != &other) {
      drop();
      take(other);
    }
    return *this;
  }
  virtual ~Module() { drop(); }

  /* C's module; of a program's own class it is made when it is first asked for. */
  cn_module *get() const
  {
    if (!m_ && !handle_) make();
    return m_;
  }
  bool is_empty() const noexcept { return m_ == nullptr; }
  explicit operator bool() const noexcept { return m_ != nullptr; }
  std::string name() const { return get() ? m_->cls->name : "Module"; } /* of its class */

  /* ---- building, in the constructor of a derived class ---- */
  /* Makes it a child; the answer is the same module, for the member that holds it. */
  template <class M> std::decay_t<M> register_module(const std::string &name, M &&child)
  {
    static_assert(detail::is_module<M>, "register_module: the child must be a cn::Module");
    std::decay_t<M> handle(std::forward<M>(child));
    if (!handle.get()) throw Error(CN_ERR_TYPE, "register_module: " + name + " is empty: it was never made");
    detail::check(cn_module_add(get(), name.c_str(), cn_module_keep(handle.get())));
    return handle;
  }
  Tensor register_parameter(const std::string &name, const Tensor &t, bool requires_grad = true)
  {
    detail::check(cn_module_add_parameter(get(), name.c_str(), t.get()));
    if (t.defined() && !requires_grad) t.requires_grad_(false);
    return t;
  }
  Tensor register_buffer(const std::string &name, const Tensor &t, bool persistent = true)
  {
    detail::check(cn_module_add_buffer(get(), name.c_str(), t.get(), persistent));
    return t;
  }

  /* ---- what is in it; names are those of PyTorch ---- */
  std::vector<Named> named_parameters() const { return named(CN_PARAMETERS); }
  std::vector<Named> named_buffers() const { return named(CN_BUFFERS); }
  std::vector<Tensor> parameters() const { return tensors(CN_PARAMETERS); }
  std::vector<Tensor> buffers() const { return tensors(CN_BUFFERS); }
  /* A parameter or buffer by its name, "layer1.0.weight"; none when there is none. */
  Tensor parameter(const std::string &path) const { return Tensor::keep(cn_module_get(get(), path.c_str())); }
  void set_parameter(const std::string &path, const Tensor &t)
  {
    detail::check(cn_module_set(get(), path.c_str(), t.get()));
  }
  inline std::vector<AnyModule> children() const;
  inline AnyModule child(const std::string &path) const; /* "layer1.0"; throws when there is none */
  /* Puts another module into the place of a child: net.set_child("fc", cn::Linear(512, 10)). */
  template <class M> void set_child(const std::string &path, M &&child);
  int64_t count(bool trainable_only = false) const { return cn_module_count(get(), trainable_only); }

  /* ---- state ---- */
  Tree state_dict() const { return Tree(cn_module_state(get())); }
  void load_state_dict(TreeView state, const LoadOptions &options = {})
  {
    cn_load_opts o = detail::opts<cn_load_opts>();
    o.lenient = !options.strict_;
    o.prefix = options.prefix_.empty() ? nullptr : options.prefix_.c_str();
    detail::check(cn_module_load_with(get(), state.get(), &o));
  }
  void save(const std::string &path) const { detail::check(cn_module_save(get(), path.c_str())); }
  void load(const std::string &path) { detail::check(cn_module_load_file(get(), path.c_str())); }

  /* ---- mode and place ---- */
  void train(bool on = true) { detail::check(cn_module_train(get(), on)); }
  void eval() { train(false); }
  bool is_training() const { return cn_module_training(get()); }
  void to(Device device, DType dtype = CN_DTYPE_NONE) { detail::check(cn_module_to(get(), device.number(), dtype)); }
  void to(DType dtype) { detail::check(cn_module_to(get(), CN_DEVICE_DEFAULT, dtype)); }
  void to(const char *device) { to(Device(device)); }
  void requires_grad_(bool on = true) { detail::check(cn_module_requires_grad(get(), on)); }
  void zero_grad() { detail::check(cn_module_zero_grad(get())); }

  /* ---- hooks: around calls that C makes, of layers and containers ---- */
  /* Before: may replace inputs. After: may replace the outputs. Both answer an id for remove_hook. */
  using BeforeHook = std::function<void(const Module &m, std::vector<Tensor> &inputs)>;
  using AfterHook =
      std::function<void(const Module &m, const std::vector<Tensor> &inputs, std::vector<Tensor> &outputs)>;
  inline int64_t register_forward_pre_hook(BeforeHook hook);
  inline int64_t register_forward_hook(AfterHook hook);
  void remove_hook(int64_t id) { detail::check(cn_module_hook_remove(get(), id)); }

  std::string str() const { return get() ? detail::take(cn_module_to_string(m_)) : "Module()"; }

 protected:
  explicit Module(detail::Made made) noexcept : m_(made.module), handle_(true) {}

 private:
  friend void detail::free_object(cn_module *m);
  friend class AnyModule;

  void make() const
  {
    m_ = detail::check(cn_module_new(detail::class_of(typeid(*this))));
    static_cast<detail::Object **>(m_->data)[0] = new detail::Object;
  }
  detail::Object *object() const noexcept
  {
    return m_ && m_->cls->forward == detail::run_object ? detail::Object::of(m_) : nullptr;
  }
  void take(Module &other) noexcept
  {
    m_ = std::exchange(other.m_, nullptr);
    Module *was = &other;
    if (detail::Object *o = object()) o->live.compare_exchange_strong(was, this);
  }
  void drop() noexcept
  {
    Module *me = this;
    if (detail::Object *o = borrowed_ ? nullptr : object()) o->live.compare_exchange_strong(me, nullptr);
    if (!borrowed_) cn_module_free(m_);
    m_ = nullptr;
    borrowed_ = false;
  }
  std::vector<Named> named(int flags) const
  {
    List list(get(), flags);
    std::vector<Named> found;
    for (size_t i = 0; i < list.v.n; i++) found.push_back({list.v.v[i].name, Tensor::keep(list.v.v[i].tensor)});
    return found;
  }
  std::vector<Tensor> tensors(int flags) const
  {
    List list(get(), flags);
    std::vector<Tensor> found;
    for (size_t i = 0; i < list.v.n; i++) found.push_back(Tensor::keep(list.v.v[i].tensor));
    return found;
  }
  struct List {
    cn_named_list v = {};
    List(cn_module *m, int flags) { detail::check(m ? cn_module_named(&v, m, flags) : 0); }
    ~List() { cn_named_free(&v); }
    List(const List &) = delete;
    List &operator=(const List &) = delete;
  };

  mutable cn_module *m_ = nullptr;
  bool handle_ = false;   /* of a module made in C: nothing makes itself when it is empty */
  bool borrowed_ = false; /* the copy that its own cn_module keeps: it holds no reference */

  template <class M> friend cn_module *detail::bind_module(M &m);
  template <class M> friend cn_module *detail::keep_module(M &&m);
};

namespace detail {

/* A handle of a module made in C: the base of layers and containers. */
class Handle : public Module {
 public:
  Handle() noexcept : Module(Made{nullptr}) {}
  explicit Handle(Made made) noexcept : Module(made) {}

 protected:
  void set(Made made) { static_cast<Module &>(*this) = Handle(made); }
};

}  // namespace detail

inline std::ostream &operator<<(std::ostream &out, const Module &m) { return out << m.str(); }

inline void detail::free_object(cn_module *m)
{
  Object *o = Object::of(m);
  if (!o) return;
  delete o->kept;
  delete o;
}

/* ---- handing over to C ---- */
namespace detail {

template <class M> constexpr bool has_own_forward()
{
  if constexpr (std::is_base_of_v<Handle, M>)
    static_assert(std::is_same_v<M, typename M::Layer>,
                  "a class of your own derives from cn::Module and holds the layer, so that C finds its forward");
  return !std::is_base_of_v<Handle, M> && !std::is_same_v<M, Module>;
}

template <class M> cn_module *bind_module(M &m)
{
  using Own = std::remove_const_t<M>;
  cn_module *module = m.get();
  const Module &base = m;
  if constexpr (has_own_forward<Own>())
    if (Object *o = base.object()) {
      o->call.store(run_forward<Own>);
      o->live.store(const_cast<Module *>(&base));
    }
  static_cast<void>(base);
  return check(module);
}

template <class M> cn_module *keep_module(M &&m)
{
  using Own = std::decay_t<M>;
  if (!m.get()) throw Error(CN_ERR_TYPE, "a module is empty: it was declared, but never made");
  cn_module *module = cn_module_keep(m.get());
  if constexpr (has_own_forward<Own>()) {
    const Module &base = m;
    Object *o = base.object();
    if (o && !o->kept) {
      auto *copy = new Own(std::forward<M>(m));
      Module &inside = *copy;
      cn_module_free(inside.m_); /* not the last reference: `module` is one */
      inside.borrowed_ = true;
      o->kept = copy;
      o->call.store(run_forward<Own>);
    }
  }
  return module;
}

}  // namespace detail

namespace detail {

template <class M, size_t... I> auto can_forward(std::index_sequence<I...>)
    -> decltype(std::declval<M &>().forward((static_cast<void>(I), std::declval<Tensor>())...), std::true_type());
template <class M> std::false_type can_forward(...);

template <class T> void set_outputs(cn_module_call *call, const T &made)
{
  if constexpr (is_tensor<T>) call->out[0] = lend(made);
  else if constexpr (std::is_same_v<T, std::vector<Tensor>>) {
    for (size_t i = 0; i < made.size() && i < call->nout; i++) call->out[i] = lend(made[i]);
  } else {
    cn_tensor *out[Outputs<T>::n];
    Outputs<T>::lend_all(out, made);
    for (size_t i = 0; i < Outputs<T>::n && i < call->nout; i++) call->out[i] = out[i];
  }
}

template <class M, size_t N, size_t... I>
bool try_forward(M &m, cn_module_call *call, size_t given, std::index_sequence<I...>)
{
  if constexpr (decltype(can_forward<M>(std::make_index_sequence<N>()))::value) {
    if (given != N) return false;
    set_outputs(call, m.forward(Tensor::keep(call->args[I].u.t)...));
    return true;
  } else {
    static_cast<void>(m), static_cast<void>(call), static_cast<void>(given);
    return false;
  }
}

/* Forward with as many tensors as were given. */
template <class M> int run_forward(Module *base, cn_module_call *call)
{
  M &m = static_cast<M &>(*base);
  size_t given = 0;
  while (given < call->nargs && call->args[given].tag == CN_V_TENSOR) given++;
  const bool done = try_forward<M, 1>(m, call, given, std::make_index_sequence<1>()) ||
                    try_forward<M, 2>(m, call, given, std::make_index_sequence<2>()) ||
                    try_forward<M, 3>(m, call, given, std::make_index_sequence<3>()) ||
                    try_forward<M, 4>(m, call, given, std::make_index_sequence<4>()) ||
                    try_forward<M, 5>(m, call, given, std::make_index_sequence<5>()) ||
                    try_forward<M, 6>(m, call, given, std::make_index_sequence<6>());
  if (!done) throw Error(CN_ERR_TYPE, m.name() + ": its forward does not take " + std::to_string(given) + " tensors");
  return CN_OK;
}

}  // namespace detail

/* Any module, as C sees it: of the zoo, a child, or one of whatever class that was put into it. */
class AnyModule : public detail::Handle {
 public:
  using Layer = AnyModule;
  AnyModule() = default;
  explicit AnyModule(detail::Made made) : Handle(made) {}
  template <class M, class = std::enable_if_t<detail::is_module<M> && !std::is_same_v<std::decay_t<M>, AnyModule>>>
  AnyModule(M &&m) : Handle(detail::Made{detail::keep_module(std::forward<M>(m))})
  {
  }
  static AnyModule keep(cn_module *m) { return AnyModule(detail::Made{cn_module_keep(m)}); }

  template <class... T> Tensor forward(const T &...inputs) const
  {
    const cn_value args[] = {detail::v(static_cast<const Tensor &>(inputs))...};
    cn_tensor *out[1];
    detail::forward(out, 1, get(), args, sizeof...(T));
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
  /* As a layer of this class, which it must be. */
  template <class M> M as() const
  {
    M layer(detail::Made{cn_module_keep(get())});
    if (detail::class_name(typeid(M)) != name())
      throw Error(CN_ERR_TYPE, "module: it is a " + name() + ", not a " + detail::class_name(typeid(M)));
    return layer;
  }
  AnyModule clone() const { return AnyModule(detail::Made{detail::check(cn_module_copy(get()))}); }
};

namespace detail {

inline cn_value v(const AnyModule &x) { return cn_v_module(x.get()); }

}  // namespace detail

inline std::vector<AnyModule> Module::children() const
{
  std::vector<AnyModule> found;
  for (size_t i = 0; i < cn_module_nchildren(get()); i++) found.push_back(AnyModule::keep(cn_module_child(m_, i)));
  return found;
}

inline AnyModule Module::child(const std::string &path) const
{
  cn_module *found = cn_module_find(get(), path.c_str());
  if (!found) throw Error(CN_ERR_INDEX, name() + ": has no child " + path);
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
  throw Error(CN_ERR_INDEX, name() + ": has no child " + path);
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
  auto *payload = new BeforeHook(std::move(hook));
  return cn_module_hook_before(get(), +call, payload, [](void *p) { delete static_cast<BeforeHook *>(p); });
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
  auto *payload = new AfterHook(std::move(hook));
  return cn_module_hook_after(get(), +call, payload, [](void *p) { delete static_cast<AfterHook *>(p); });
}

/* A base for classes whose objects are called as layers are: struct Net : cn::Callable<Net>; y = net(x). */
template <class Self> class Callable : public Module {
 public:
  template <class... A> decltype(auto) operator()(A &&...inputs)
  {
    return static_cast<Self &>(*this).forward(std::forward<A>(inputs)...);
  }
};

/* ---- what C does with a module ---- */
/* Calls it as C does, with hooks. */
template <class M, class... T> Tensor call(M &m, const T &...inputs)
{
  detail::bind_module(m);
  const cn_value args[] = {detail::v(static_cast<const Tensor &>(inputs))...};
  cn_tensor *out[1];
  detail::forward(out, 1, m.get(), args, sizeof...(T));
  return Tensor::own(out[0]);
}

/* A table of layers: output shapes, parameters, multiply-adds; of a run on zeros of that shape. */
template <class M> std::string summary(M &m, Ints shape)
{
  return detail::take(cn_summary(detail::bind_module(m), shape.data(), shape.size()));
}

/* torch::save(net, path) and load; the ending names the format. */
inline void save(const Module &m, const std::string &path) { m.save(path); }
inline void load(Module &m, const std::string &path) { m.load(path); }

}  // namespace cn

#include <cairn/containers.hpp>
#include <cairn/init.hpp>
#include <cairn/layers.hpp>

#endif
