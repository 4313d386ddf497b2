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
 * of a derived class are copied. cn::clone makes a module of its own. Where C calls it (in containers, cn::fit,
 * cn::summary) it reaches the forward of the object that was given to it, or of a copy that it keeps when it was put
 * into a container (objects.hpp). Invariant: the copy that a cn_module keeps holds no reference to it. */
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

/* Options that are to say everything must have been made with what has no default. */
template <class Options> const Options &need_whole(const Options &options, bool whole)
{
  return whole ? options : throw ValueError("these options lack what the layer has no defaults for");
}

enum { MOST_INPUTS = 8 };

/* What a cn_module has of a program's own class: the C++ object to run. */
struct Object {
  static const void *mark()
  {
    static const char here = 0;
    return &here;
  }
  const void *tag = mark();            /* that this is one */
  std::atomic<Module *> live{nullptr}; /* the one given to C last, as long as it lives; not owned */
  Module *kept = nullptr;              /* a copy, owned: for modules in containers */
  /* Calls the class's forward. NULL: C does not know yet which class it is. */
  std::atomic<int (*)(Module *m, cn_module_call *call)> call{nullptr};
  std::atomic<Module *(*)(const Module *m)> copy{nullptr}; /* a new object of the class, by its copy constructor */
  bool shared = false; /* holds children by shared_ptr, which a copy would share */

  Module *target() const noexcept
  {
    Module *now = live.load();
    return now ? now : kept;
  }
  static Object *of(const cn_module *m) noexcept;
};

/* A class table for each C++ class, made once: C points to it until the end. */
struct Class {
  std::string name;
  cn_module_class table;
};

inline int run_object(cn_module *m, cn_module_call *call)
{
  Object *o = Object::of(m);
  Module *target = o->target();
  auto run = o->call.load();
  if (!target || !run)
    return cn_err_set(CN_ERR_UNSUPPORTED, "%s: C does not know its forward: give the object itself, not a cn::Module",
                      m->cls->name);
  return guarded([&] { return run(target, call); });
}

/* Of a program's own class that derives from cn::Module, or from a layer and was given to C. */
inline Object *Object::of(const cn_module *m) noexcept
{
  if (!m) return nullptr;
  if (m->cls->forward == run_object) return static_cast<Object **>(m->data)[0];
  auto *o = static_cast<Object *>(cn_module_object(m));
  return o && o->tag == mark() ? o : nullptr;
}

/* Runs a module; the results are owned. inside: from a class that derives from the layer, whose own forward may be what
 * C runs for it. */
inline void forward(cn_tensor **out, size_t nout, cn_module *m, const cn_value *args, size_t nargs,
                    bool inside = false)
{
  Scope scope;
  if (!m) throw TypeError("this module is empty: it was declared, but never made");
  check(inside && Object::of(m) ? cn_forward_class(out, nout, m, args, nargs)
                                : cn_forward_values(out, nout, m, args, nargs));
  for (size_t i = 0; i < nout; i++) out[i] = cn_keep(out[i]);
}

inline void free_object(cn_module *m);

inline int copy_object(cn_module *to, const cn_module *from) /* it is filled when all parts are copied: revive */
{
  auto *made = new (std::nothrow) Object;
  static_cast<Object **>(to->data)[0] = made;
  if (!made) return cn_err_set(CN_ERR_MEMORY, "%s: out of memory", from->cls->name);
  made->shared = Object::of(from)->shared;
  return CN_OK;
}

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
  c.table.size = sizeof c.table;
  c.table.name = c.name.c_str();
  c.table.call = "(Tensor? input=None, Tensor? input1=None, Tensor? input2=None, Tensor? input3=None, "
                 "Tensor? input4=None, Tensor? input5=None, Tensor? input6=None, Tensor? input7=None) -> Tensor";
  c.table.data_size = sizeof(Object *);
  c.table.forward = run_object;
  c.table.free = free_object;
  c.table.copy = copy_object;
  return &c.table;
}

template <class M> int run_forward(Module *m, cn_module_call *call);

/* For a call that begins now: C reaches this very object. Borrowed. */
template <class M> cn_module *bind_module(M &m);
/* For good: C keeps a copy of the object, where it is of a program's own class. Owned. */
template <class M> cn_module *keep_module(M &&m);
/* Makes the copy that m keeps, which holds no reference to m. */
void hold(cn_module *m, Module *copy);

template <class M> inline constexpr bool is_module = std::is_base_of_v<Module, std::decay_t<M>>;

}  // namespace detail

/* A parameter or buffer with its full name: for (auto &[name, tensor] : net.named_parameters()). */
struct Named {
  std::string name;
  Tensor tensor;
  const std::string &key() const noexcept { return name; }
  const Tensor &value() const noexcept { return tensor; }
};

/* Those of a module, in order; also by name: net.named_parameters()["fc.weight"]. */
struct NamedTensors : std::vector<Named> {
  using std::vector<Named>::operator[];
  Tensor operator[](const std::string &name) const
  {
    const Tensor *found = find(name);
    return found ? *found : throw IndexError("there is no tensor called " + name);
  }
  const Tensor *find(const std::string &name) const noexcept
  {
    for (const Named &n : *this)
      if (n.name == name) return &n.tensor;
    return nullptr;
  }
  bool contains(const std::string &name) const noexcept { return find(name) != nullptr; }
  std::vector<std::string> keys() const
  {
    std::vector<std::string> all;
    for (const Named &n : *this) all.push_back(n.name);
    return all;
  }
  std::vector<Tensor> values() const
  {
    std::vector<Tensor> all;
    for (const Named &n : *this) all.push_back(n.tensor);
    return all;
  }
};

struct NamedModule;

struct LoadOptions {
  LoadOptions &strict(bool value) { strict_ = value; return *this; }
  LoadOptions &prefix(const std::string &value) { prefix_ = value; return *this; }
  LoadOptions &assign(bool value) { assign_ = value; return *this; }

  bool strict_ = true;  /* every name must be in both */
  bool assign_ = false; /* take the tensors themselves instead of copying values */
  std::string prefix_;  /* of the names in the state */
};
/* What was in one of the two only, when names need not be in both. */
struct LoadReport {
  std::vector<std::string> missing_keys, unexpected_keys;
};

class Module {
 public:
  Module() noexcept = default;
  Module(const Module &other) noexcept : m_(cn_module_keep(detail::translated(other.m_))), handle_(other.handle_) {}
  Module(Module &&other) noexcept : handle_(other.handle_) { take(other); }
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
  /* Makes it a child; the result is the same module, for the member that holds it. */
  template <class M> std::decay_t<M> register_module(const std::string &name, M &&child)
  {
    static_assert(detail::is_module<M>, "register_module: the child must be a cn::Module");
    std::decay_t<M> handle(std::forward<M>(child));
    add_child(name, handle);
    if constexpr (std::is_lvalue_reference_v<M>) detail::bind_module(child);
    else detail::bind_module(handle);
    return handle;
  }
  /* One that others hold too; such a module cannot be cloned. */
  template <class M> std::shared_ptr<M> register_module(const std::string &name, std::shared_ptr<M> child)
  {
    if (!child) throw TypeError("register_module: " + name + " is empty: it was never made");
    add_child(name, *child);
    detail::bind_module(*child);
    if (detail::Object *o = object()) o->shared = true;
    return child;
  }
  /* Puts another module into the place of a child. */
  template <class M> std::decay_t<M> replace_module(const std::string &name, M &&child)
  {
    std::decay_t<M> handle(std::forward<M>(child));
    set_child(name, handle);
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
  NamedTensors named_parameters(bool recurse = true) const { return named(CN_PARAMETERS, recurse); }
  NamedTensors named_buffers(bool recurse = true) const { return named(CN_BUFFERS, recurse); }
  std::vector<Tensor> parameters(bool recurse = true) const { return named(CN_PARAMETERS, recurse).values(); }
  std::vector<Tensor> buffers(bool recurse = true) const { return named(CN_BUFFERS, recurse).values(); }
  /* A parameter or buffer by its name, "layer1.0.weight"; none when there is none. */
  Tensor parameter(const std::string &path) const { return Tensor::keep(cn_module_get(get(), path.c_str())); }
  void set_parameter(const std::string &path, const Tensor &t)
  {
    detail::check(cn_module_set(get(), path.c_str(), t.get()));
  }
  void remove(const std::string &name) { detail::check(cn_module_remove(get(), name.c_str())); } /* or a child */
  inline std::vector<AnyModule> children() const;
  inline std::vector<NamedModule> named_children() const;
  /* It and all below it, parents first, each once. */
  inline std::vector<AnyModule> modules(bool include_self = true) const;
  inline std::vector<NamedModule> named_modules() const;
  /* Calls fn(module), or fn(name, module), for it and all below it, children first. */
  template <class Fn> void apply(Fn &&fn);
  /* As what it is: of a layer's class a handle, which is empty (false) for other modules; of a class of the program's
   * own a pointer to the object, NULL where it is none or C does not have it.
   * if (auto fc = m.as<cn::Linear>()) cn::init::zeros_(fc.bias()); */
  template <class M> auto as() const;
  template <class M> bool is() const { return static_cast<bool>(as<M>()); }
  inline AnyModule child(const std::string &path) const; /* "layer1.0"; throws when there is none */
  /* Puts another module into the place of a child: net.set_child("fc", cn::Linear(512, 10)). */
  template <class M> void set_child(const std::string &path, M &&child);
  int64_t count(bool trainable_only = false) const { return cn_module_count(get(), trainable_only); }

  /* ---- state ---- */
  Tree state_dict() const { return Tree(cn_module_state(get())); }
  inline LoadReport load_state_dict(TreeView state, const LoadOptions &options = {});
  void save(const std::string &path) const { detail::check(cn_module_save(get(), path.c_str())); }
  void load(const std::string &path) { detail::check(cn_module_load_file(get(), path.c_str())); }

  /* ---- mode and place ---- */
  void train(bool on = true) { detail::check(cn_module_train(get(), on)); }
  void eval() { train(false); }
  bool is_training() const { return cn_module_training(get()); }
  void to(Device device, DType dtype = CN_DTYPE_NONE) { detail::check(cn_module_to(get(), device.number(), dtype)); }
  void to(DType dtype) { detail::check(cn_module_to(get(), CN_DEVICE_DEFAULT, dtype)); }
  void to(const char *device) { to(Device(device)); }
  void to(DeviceType device) { to(Device(device)); }
  void half() { to(CN_F16); }
  void requires_grad_(bool on = true) { detail::check(cn_module_requires_grad(get(), on)); }
  void zero_grad() { detail::check(cn_module_zero_grad(get())); }

  /* ---- hooks: around calls that C makes, of layers and containers ---- */
  /* Before: may replace inputs. After: may replace the outputs. Both return an id for remove_hook. */
  using BeforeHook = std::function<void(const Module &m, std::vector<Tensor> &inputs)>;
  using AfterHook =
      std::function<void(const Module &m, const std::vector<Tensor> &inputs, std::vector<Tensor> &outputs)>;
  inline int64_t register_forward_pre_hook(BeforeHook hook);
  inline int64_t register_forward_hook(AfterHook hook);
  /* In backward: may replace the gradients of inputs; those of no tensor are undefined. */
  using BackwardHook =
      std::function<void(const Module &m, std::vector<Tensor> &grad_inputs, const std::vector<Tensor> &grad_outputs)>;
  inline int64_t register_full_backward_hook(BackwardHook hook);
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
  detail::Object *object() const noexcept { return detail::Object::of(m_); }
  void add_child(const std::string &name, const Module &child)
  {
    if (!child.get()) throw TypeError("register_module: " + name + " is empty: it was never made");
    detail::check(cn_module_add(get(), name.c_str(), cn_module_keep(child.get())));
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
    if (!borrowed_) cn_module_release(m_);
    m_ = nullptr;
    borrowed_ = false;
  }
  NamedTensors named(int flags, bool recurse) const
  {
    List list(get(), flags);
    NamedTensors found;
    for (size_t i = 0; i < list.v.n; i++)
      if (recurse || list.v.v[i].owner == m_)
        found.push_back({list.v.v[i].name, Tensor::keep(list.v.v[i].tensor)});
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
  friend void detail::hold(cn_module *m, Module *copy);
};

namespace detail {

/* A deep copy, with the objects of C++ in it. Owned. */
inline cn_module *deep_copy(cn_module *m);

/* A handle of a module made in C: the base of layers and containers. */
class Handle : public Module {
 public:
  Handle() noexcept : Module(Made{nullptr}) {}
  explicit Handle(Made made) noexcept : Module(made) {}

  /* What most layers have; undefined where one has it not. */
  Tensor weight() const { return parameter("weight"); }
  Tensor bias() const { return parameter("bias"); }

 protected:
  void set(Made made) { static_cast<Module &>(*this) = Handle(made); }
};

/* What the class of a layer has besides its constructors and forward. fc->forward(x) is fc.forward(x). */
template <class Self> class LayerOf : public Handle {
 public:
  using Layer = Self;
  using Handle::Handle;
  Self *operator->() noexcept { return static_cast<Self *>(this); }
  const Self *operator->() const noexcept { return static_cast<const Self *>(this); }
  /* Another one with parameters of its own, which have the same values. */
  Self clone() const { return Self(Made{deep_copy(get())}); }

 protected:
  void run(cn_tensor **out, size_t nout, const cn_value *args, size_t nargs) const
  {
    forward(out, nout, get(), args, nargs, typeid(*this) != typeid(Self));
  }
};

}  // namespace detail

inline LoadReport Module::load_state_dict(TreeView state, const LoadOptions &options)
{
  cn_tree *missing = nullptr, *unexpected = nullptr;
  cn_load_opts o = detail::opts<cn_load_opts>();
  o.lenient = !options.strict_;
  o.assign = options.assign_;
  o.prefix = options.prefix_.empty() ? nullptr : options.prefix_.c_str();
  o.missing = options.strict_ ? nullptr : &missing;
  o.unexpected = options.strict_ ? nullptr : &unexpected;
  const int status = cn_module_load_with(get(), state.get(), &o);
  auto names = [](cn_tree *list) {
    const Tree owned = list ? Tree(list) : Tree();
    std::vector<std::string> all;
    for (size_t i = 0; i < owned.size(); i++) all.push_back(owned.at(i).as_string());
    return all;
  };
  LoadReport report{names(missing), names(unexpected)};
  detail::check(status);
  return report;
}

inline std::ostream &operator<<(std::ostream &out, const Module &m) { return out << m.str(); }

}  // namespace cn

#include <cairn/objects.hpp>
#include <cairn/sequence.hpp>

#include <cairn/containers.hpp>
#include <cairn/init.hpp>
#include <cairn/layers.hpp>

#endif
