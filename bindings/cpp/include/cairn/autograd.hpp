/* autograd.hpp: gradients: modes as guards, backward, functions with a gradient of their own, checkpointing.
 *
 * Place in the flow: tensor.hpp below, modules and optimisers above. Invariant: a guard restores what it found. */
#ifndef CAIRN_AUTOGRAD_HPP
#define CAIRN_AUTOGRAD_HPP

#include <cairn/tensor.hpp>

#include <any>
#include <map>
#include <memory>
#include <tuple>

namespace cn {

/* ---- modes: on from here to the end of the block ---- */
class NoGradGuard {
 public:
  NoGradGuard() : saved_(cn_no_grad_begin()) {}
  ~NoGradGuard() { cn_no_grad_end(saved_); }
  NoGradGuard(const NoGradGuard &) = delete;
  NoGradGuard &operator=(const NoGradGuard &) = delete;

 private:
  int saved_;
};

class EnableGradGuard {
 public:
  EnableGradGuard() : saved_(cn_enable_grad_begin()) {}
  ~EnableGradGuard() { cn_enable_grad_end(saved_); }
  EnableGradGuard(const EnableGradGuard &) = delete;
  EnableGradGuard &operator=(const EnableGradGuard &) = delete;

 private:
  int saved_;
};

/* Like NoGradGuard, and results never take part in recording later. */
class InferenceGuard {
 public:
  InferenceGuard() : saved_(cn_inference_begin()) {}
  ~InferenceGuard() { cn_inference_end(saved_); }
  InferenceGuard(const InferenceGuard &) = delete;
  InferenceGuard &operator=(const InferenceGuard &) = delete;

 private:
  int saved_;
};

/* Mixed precision: bf16 or f16; CN_DTYPE_NONE switches it off inside. */
class AutocastGuard {
 public:
  explicit AutocastGuard(DType dtype = CN_BF16) : saved_(cn_autocast_begin(dtype))
  {
    if (cn_err()) detail::raise(cn_err());
  }
  ~AutocastGuard() { cn_autocast_end(saved_); }
  AutocastGuard(const AutocastGuard &) = delete;
  AutocastGuard &operator=(const AutocastGuard &) = delete;

 private:
  int saved_;
};

/* The first op that makes a NaN or Inf is an error that names it. */
class AnomalyGuard {
 public:
  explicit AnomalyGuard(bool on = true) : saved_(cn_detect_anomaly(on)) {}
  ~AnomalyGuard() { cn_detect_anomaly(saved_); }
  AnomalyGuard(const AnomalyGuard &) = delete;
  AnomalyGuard &operator=(const AnomalyGuard &) = delete;

 private:
  bool saved_;
};

inline bool is_grad_enabled() { return cn_grad_enabled(); }

/* ---- backward ---- */
struct BackwardOptions {
  BackwardOptions &gradient(const Tensor &value) { gradient_ = value; return *this; }
  BackwardOptions &retain_graph(bool value) { retain_graph_ = value; return *this; }
  BackwardOptions &create_graph(bool value) { create_graph_ = value; return *this; }

  Tensor gradient_; /* of the result; none counts as 1 for one element */
  bool retain_graph_ = false, create_graph_ = false;
};

inline void Tensor::backward() const { detail::check(cn_backward_with(t_, nullptr)); }
inline void Tensor::backward(const BackwardOptions &options) const
{
  cn_backward_opts o = detail::opts<cn_backward_opts>();
  o.gradient = options.gradient_.get();
  o.retain_graph = options.retain_graph_;
  o.create_graph = options.create_graph_;
  detail::check(cn_backward_with(t_, &o));
}
inline void Tensor::backward(const Tensor &gradient, bool retain_graph, bool create_graph) const
{
  backward(BackwardOptions().gradient(gradient).retain_graph(retain_graph).create_graph(create_graph));
}

namespace detail {

inline std::vector<cn_tensor *> raw(const std::vector<Tensor> &list)
{
  return std::vector<cn_tensor *>(pointers(list.data()), pointers(list.data()) + list.size());
}

inline std::vector<Tensor> kept(cn_tensor *const *list, size_t n)
{
  std::vector<Tensor> made;
  made.reserve(n);
  for (size_t i = 0; i < n; i++) made.push_back(Tensor::keep(list[i]));
  return made;
}

/* Lends a result to C: it belongs to the innermost scope from now on. */
inline cn_tensor *lend(const Tensor &t)
{
  return t.defined() ? check(cn_scope_give(cn_keep(t.get()))) : nullptr;
}

}  // namespace detail

struct GradOptions {
  GradOptions &grad_outputs(const std::vector<Tensor> &value) { grad_outputs_ = value; return *this; }
  GradOptions &retain_graph(bool value) { retain_graph_ = value; return *this; }
  GradOptions &create_graph(bool value) { create_graph_ = value; return *this; }
  GradOptions &allow_unused(bool value) { allow_unused_ = value; return *this; }

  std::vector<Tensor> grad_outputs_;
  bool retain_graph_ = false, create_graph_ = false, allow_unused_ = false;
};

/* Gradients of the outputs, added up, with respect to these inputs; those of leaves are left alone. */
inline std::vector<Tensor> grad(const std::vector<Tensor> &outputs, const std::vector<Tensor> &inputs,
                                const GradOptions &options = {})
{
  if (!options.grad_outputs_.empty() && options.grad_outputs_.size() != outputs.size())
    throw Error(CN_ERR_VALUE, "grad: one gradient for each output is needed");
  cn_grad_opts o = detail::opts<cn_grad_opts>();
  if (!options.grad_outputs_.empty()) o.grad_outputs = detail::pointers(options.grad_outputs_.data());
  o.retain_graph = options.retain_graph_;
  o.create_graph = options.create_graph_;
  o.allow_unused = options.allow_unused_;
  std::vector<cn_tensor *> grads(inputs.size());
  detail::Scope scope;
  detail::check(cn_grad_with(grads.data(), detail::pointers(outputs.data()), outputs.size(),
                             detail::pointers(inputs.data()), inputs.size(), &o));
  return detail::kept(grads.data(), grads.size());
}

/* ---- hooks ---- */
inline int64_t Tensor::register_hook(std::function<Tensor(const Tensor &grad)> hook) const
{
  using Hook = std::function<Tensor(const Tensor &)>;
  auto call = [](cn_tensor *grad, void *payload) -> cn_tensor * {
    cn_tensor *made = nullptr;
    detail::guarded([&] {
      made = detail::lend((*static_cast<Hook *>(payload))(keep(grad)));
      return 0;
    });
    return made;
  };
  auto *payload = new Hook(std::move(hook));
  int64_t id = cn_hook_add_owned(t_, +call, payload, [](void *p) { delete static_cast<Hook *>(p); });
  if (id < 0) detail::raise(static_cast<int>(id));
  return id;
}

/* ---- functions with a gradient of their own ---- */
/* struct Square : cn::Function<Square> {
 *   static Tensor forward(Context &ctx, const Tensor &x) { ctx.save({x}); return x * x; }
 *   static Tensor backward(Context &ctx, const std::vector<Tensor> &g) { return 2 * ctx.saved(0) * g[0]; }
 * };
 * Square::apply(x): forward may take numbers and others besides tensors and may return a tuple or an array of tensors;
 * backward answers one gradient for each tensor argument (an undefined one where none flows), or a single one. */
class Context {
 public:
  Context(cn_context *ctx, std::map<std::string, std::any> &kept) : data(kept), ctx_(ctx) {}
  void save(const std::vector<Tensor> &tensors)
  {
    detail::check(cn_context_save(ctx_, detail::pointers(tensors.data()), tensors.size()));
  }
  Tensor saved(size_t i) const { return Tensor::keep(detail::check(cn_context_saved(ctx_, i))); }
  bool needs_input_grad(size_t input) const { return cn_context_needs(ctx_, input); }
  void mark_non_differentiable(size_t output) { detail::check(cn_context_mark_non_differentiable(ctx_, output)); }
  void mark_dirty(size_t output) { detail::check(cn_context_mark_dirty(ctx_, output)); }

  std::map<std::string, std::any> &data; /* whatever backward wants to know */

 private:
  cn_context *ctx_;
};

namespace detail {

template <class T> struct Outputs;
template <> struct Outputs<Tensor> {
  static constexpr size_t n = 1;
  static void lend_all(cn_tensor **out, const Tensor &made) { out[0] = lend(made); }
  static Tensor from(cn_tensor *const *out) { return Tensor::keep(out[0]); }
};
template <size_t N> struct Outputs<std::array<Tensor, N>> {
  static constexpr size_t n = N;
  static void lend_all(cn_tensor **out, const std::array<Tensor, N> &made)
  {
    for (size_t i = 0; i < N; i++) out[i] = lend(made[i]);
  }
  static std::array<Tensor, N> from(cn_tensor *const *out)
  {
    std::array<Tensor, N> made;
    for (size_t i = 0; i < N; i++) made[i] = Tensor::keep(out[i]);
    return made;
  }
};
template <class... T> struct Outputs<std::tuple<T...>> {
  static constexpr size_t n = sizeof...(T);
  static void lend_all(cn_tensor **out, const std::tuple<T...> &made)
  {
    size_t i = 0;
    std::apply([&](const auto &...t) { ((out[i++] = lend(t)), ...); }, made);
  }
  static std::tuple<T...> from(cn_tensor *const *out) { return each(out, std::index_sequence_for<T...>()); }
  template <size_t... I> static std::tuple<T...> each(cn_tensor *const *out, std::index_sequence<I...>)
  {
    return std::tuple<T...>(Tensor::keep(out[I])...);
  }
};
template <> struct Outputs<std::pair<Tensor, Tensor>> {
  static constexpr size_t n = 2;
  static void lend_all(cn_tensor **out, const std::pair<Tensor, Tensor> &made)
  {
    out[0] = lend(made.first);
    out[1] = lend(made.second);
  }
  static std::pair<Tensor, Tensor> from(cn_tensor *const *out)
  {
    return {Tensor::keep(out[0]), Tensor::keep(out[1])};
  }
};

template <class T> inline constexpr bool is_tensor = std::is_base_of_v<Tensor, std::decay_t<T>>;

/* What one application of a function keeps: its arguments, without tensors after forward, and the context's data. */
template <class F, class... A> struct Application {
  using Made = decltype(F::forward(std::declval<Context &>(), std::declval<const A &>()...));
  std::tuple<A...> args;
  std::map<std::string, std::any> data;
  size_t ntensors = 0;

  static Application *of(cn_context *ctx) { return static_cast<Application *>(cn_context_payload(ctx)); }

  static int forward(cn_context *ctx, cn_tensor **outputs, cn_tensor *const *inputs)
  {
    return guarded([&] {
      Application *self = of(ctx);
      Context context(ctx, self->data);
      size_t k = 0;
      std::apply([&](auto &...a) { (give(a, inputs, k), ...); }, self->args);
      Made made = std::apply([&](const auto &...a) { return F::forward(context, a...); }, self->args);
      std::apply([](auto &...a) { (forget(a), ...); }, self->args);
      Outputs<Made>::lend_all(outputs, made);
      return 0;
    });
  }
  static int backward(cn_context *ctx, cn_tensor **grad_inputs, cn_tensor *const *grad_outputs)
  {
    return guarded([&] {
      Application *self = of(ctx);
      Context context(ctx, self->data);
      const std::vector<Tensor> grads = kept(grad_outputs, Outputs<Made>::n);
      if constexpr (is_tensor<decltype(F::backward(context, grads))>)
        grad_inputs[0] = lend(F::backward(context, grads));
      else {
        const std::vector<Tensor> made = F::backward(context, grads);
        if (made.size() != self->ntensors)
          throw Error(CN_ERR_VALUE, "Function: backward gave " + std::to_string(made.size()) + " gradients for " +
                                        std::to_string(self->ntensors) + " tensors");
        for (size_t i = 0; i < made.size(); i++) grad_inputs[i] = lend(made[i]);
      }
      return 0;
    });
  }
  template <class T> static void give(T &arg, cn_tensor *const *inputs, size_t &k)
  {
    if constexpr (is_tensor<T>) arg = Tensor::keep(inputs[k++]);
  }
  template <class T> static void forget(T &arg)
  {
    if constexpr (is_tensor<T>) arg = Tensor();
  }
};

}  // namespace detail

template <class F> struct Function {
  using Context = cn::Context;

  template <class... A> static auto apply(const A &...given)
  {
    using Run = detail::Application<F, std::conditional_t<detail::is_tensor<A>, Tensor, A>...>;
    using Results = detail::Outputs<typename Run::Made>;
    static const std::string name = detail::class_name(typeid(F));
    static const cn_function table = {name.c_str(), Run::forward, Run::backward,
                                      [](void *p) { delete static_cast<Run *>(p); }};
    std::vector<cn_tensor *> inputs;
    auto collect = [&inputs](const auto &a) {
      if constexpr (detail::is_tensor<decltype(a)>) inputs.push_back(a.get());
      else static_cast<void>(a);
    };
    (collect(given), ...);
    auto *run = new Run{{given...}, {}, inputs.size()};
    std::apply([](auto &...a) { (Run::forget(a), ...); }, run->args);
    cn_tensor *out[Results::n] = {};
    detail::Scope scope;
    detail::check(cn_function_apply(out, Results::n, &table, inputs.data(), inputs.size(), run));
    return Results::from(out);
  }
};

/* ---- checkpointing and checking ---- */
/* Runs fn without recording its inside, and again in backward: memory for time. */
inline Tensor checkpoint(std::function<Tensor(const std::vector<Tensor> &)> fn, const std::vector<Tensor> &inputs)
{
  struct Payload {
    std::function<Tensor(const std::vector<Tensor> &)> fn;
    size_t n;
  };
  /* C runs it again in backward, long after this call: it lives as long as the first input's record does. */
  auto payload = std::make_shared<Payload>(Payload{std::move(fn), inputs.size()});
  auto call = [](cn_tensor **outputs, cn_tensor *const *given, void *p) {
    return detail::guarded([&] {
      auto *self = static_cast<Payload *>(p);
      outputs[0] = detail::lend(self->fn(detail::kept(given, self->n)));
      return 0;
    });
  };
  cn_tensor *out[1] = {};
  detail::Scope scope;
  detail::check(cn_checkpoint(out, 1, +call, detail::pointers(inputs.data()), inputs.size(), payload.get()));
  Tensor made = Tensor::keep(out[0]);
  if (made.requires_grad()) made.register_hook([payload](const Tensor &) { return Tensor(); });
  return made;
}

struct GradcheckOptions {
  GradcheckOptions &eps(double value) { eps_ = value; return *this; }
  GradcheckOptions &atol(double value) { atol_ = value; return *this; }
  GradcheckOptions &rtol(double value) { rtol_ = value; return *this; }
  GradcheckOptions &second_order(bool value) { second_order_ = value; return *this; }

  double eps_ = 0, atol_ = 0, rtol_ = 0;
  bool second_order_ = false;
};

/* Compares fn's gradients at these float64 inputs with finite differences; throws with the worst place. */
inline void gradcheck(std::function<Tensor(const std::vector<Tensor> &)> fn, const std::vector<Tensor> &inputs,
                      const GradcheckOptions &options = {})
{
  using Payload = std::pair<std::function<Tensor(const std::vector<Tensor> &)>, size_t>;
  Payload payload{std::move(fn), inputs.size()};
  auto call = [](cn_tensor *const *given, void *p) -> cn_tensor * {
    cn_tensor *made = nullptr;
    detail::guarded([&] {
      auto *self = static_cast<Payload *>(p);
      made = detail::lend(self->first(detail::kept(given, self->second)));
      return 0;
    });
    return made;
  };
  cn_gradcheck_opts o = detail::opts<cn_gradcheck_opts>();
  o.eps = options.eps_;
  o.atol = options.atol_;
  o.rtol = options.rtol_;
  o.second_order = options.second_order_;
  detail::check(cn_gradcheck_with(+call, detail::pointers(inputs.data()), inputs.size(), &payload, &o));
}

}  // namespace cn

#endif
