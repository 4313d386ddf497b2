/* autograd.hpp: gradients: modes as guards, backward, hooks, the record, forward mode, checkpointing.
 *
 * Place in the flow: tensor.hpp below, modules and optimisers above. Invariant: a guard restores what it found. */
#ifndef CAIRN_AUTOGRAD_HPP
#define CAIRN_AUTOGRAD_HPP

#include <cairn/tensor.hpp>

#include <memory>

namespace cn {

using TensorFn = std::function<Tensor(const std::vector<Tensor> &inputs)>;
using TensorsFn = std::function<std::vector<Tensor>(const std::vector<Tensor> &inputs)>;

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

/* Which ways attention may take inside: bits of cn_attention_way, 0: all. */
class AttentionGuard {
 public:
  explicit AttentionGuard(unsigned ways) : saved_(cn_attention_begin(ways)) {}
  ~AttentionGuard() { cn_attention_end(saved_); }
  AttentionGuard(const AttentionGuard &) = delete;
  AttentionGuard &operator=(const AttentionGuard &) = delete;

 private:
  unsigned saved_;
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
inline DType autocast_dtype() { return cn_autocast_dtype(); } /* CN_DTYPE_NONE: it is off */

/* Records, or does not: AutoGradMode guard(training). */
class AutoGradMode {
 public:
  explicit AutoGradMode(bool on) : on_(on), saved_(on ? cn_enable_grad_begin() : cn_no_grad_begin()) {}
  ~AutoGradMode() { on_ ? cn_enable_grad_end(saved_) : cn_no_grad_end(saved_); }
  AutoGradMode(const AutoGradMode &) = delete;
  AutoGradMode &operator=(const AutoGradMode &) = delete;

 private:
  bool on_;
  int saved_;
};

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
    throw ValueError("grad: one gradient for each output is needed");
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

/* The same with its arguments in PyTorch's order. */
inline std::vector<Tensor> grad(const std::vector<Tensor> &outputs, const std::vector<Tensor> &inputs,
                                const std::vector<Tensor> &grad_outputs, bool retain_graph = false,
                                bool create_graph = false, bool allow_unused = false)
{
  GradOptions options;
  options.grad_outputs(grad_outputs).retain_graph(retain_graph).create_graph(create_graph);
  return grad(outputs, inputs, options.allow_unused(allow_unused));
}

/* Backward of several results in one walk. */
inline void backward(const std::vector<Tensor> &outputs, const std::vector<Tensor> &grad_outputs = {},
                     bool retain_graph = false, bool create_graph = false)
{
  if (!grad_outputs.empty() && grad_outputs.size() != outputs.size())
    throw ValueError("backward: one gradient for each output is needed");
  cn_grad_opts o = detail::opts<cn_grad_opts>();
  if (!grad_outputs.empty()) o.grad_outputs = detail::pointers(grad_outputs.data());
  o.retain_graph = retain_graph;
  o.create_graph = create_graph;
  detail::check(cn_backward_all(detail::pointers(outputs.data()), outputs.size(), &o));
}

/* ---- hooks ---- */
template <class Hook> int64_t Tensor::register_hook(Hook hook) const
{
  auto call = [](cn_tensor *grad, void *payload) -> cn_tensor * {
    cn_tensor *made = nullptr;
    detail::guarded([&] {
      Hook &own = *static_cast<Hook *>(payload);
      if constexpr (std::is_void_v<decltype(own(keep(grad)))>) own(keep(grad));
      else made = detail::lend(own(keep(grad)));
      return 0;
    });
    return made;
  };
  return detail::check(cn_hook_add_owned(t_, +call, detail::give(std::move(hook)), detail::destroy<Hook>));
}

/* ---- the record ---- */
/* One recorded call: y.grad_fn()->name(). None where there is nothing recorded. */
class Node {
 public:
  Node() noexcept = default;
  explicit Node(cn_node *node) : node_(node, cn_node_release) {} /* takes it over; NULL gives none */
  explicit operator bool() const noexcept { return node_ != nullptr; }
  const Node *operator->() const noexcept { return this; }
  bool operator==(std::nullptr_t) const noexcept { return !node_; }
  bool operator!=(std::nullptr_t) const noexcept { return node_ != nullptr; }
  std::string name() const { return cn_node_name(node_.get()); } /* of the op; "leaf" where gradients add up */
  size_t num_inputs() const { return cn_node_ninputs(node_.get()); }
  /* Where the gradients of its inputs go; none where one goes nowhere. */
  std::vector<Node> inputs() const
  {
    std::vector<Node> found;
    for (size_t i = 0; i < num_inputs(); i++) found.emplace_back(cn_node_input(node_.get(), i, nullptr));
    return found;
  }
  cn_node *get() const noexcept { return node_.get(); }

 private:
  std::shared_ptr<cn_node> node_;
};

inline Node Tensor::grad_fn() const { return is_leaf() ? Node() : Node(cn_node_of(t_, nullptr)); }
inline std::ostream &operator<<(std::ostream &out, const Node &node) { return out << node.name(); }

/* ---- functions of tensors, called by C ---- */
namespace detail {

/* What C calls as int (*)(outputs, inputs, payload). */
struct Called {
  TensorsFn fn;
  size_t ninputs, noutputs;

  static int run(cn_tensor **outputs, cn_tensor *const *given, void *payload)
  {
    return guarded([&] {
      auto *self = static_cast<Called *>(payload);
      const std::vector<Tensor> made = self->fn(kept(given, self->ninputs));
      if (made.size() != self->noutputs)
        throw ValueError("the function gave " + std::to_string(made.size()) + " tensors, not " +
                         std::to_string(self->noutputs));
      for (size_t i = 0; i < made.size(); i++) outputs[i] = lend(made[i]);
      return 0;
    });
  }
};

template <class F, size_t... I>
decltype(auto) spread(F &fn, const std::vector<Tensor> &in, std::index_sequence<I...>)
{
  return fn(in[I]...);
}

}  // namespace detail

/* ---- forward mode and its mirror ---- */
/* Values of a function, and how they change with its inputs (jvp) or the inputs' gradients (vjp). */
struct Derivative {
  std::vector<Tensor> outputs, values;
};

/* How fn's outputs change when its inputs change by tangents; an undefined one stands for zero. */
inline Derivative jvp(TensorsFn fn, const std::vector<Tensor> &inputs, const std::vector<Tensor> &tangents,
                      size_t noutputs = 1, bool create_graph = false)
{
  if (tangents.size() != inputs.size()) throw ValueError("jvp: one tangent for each input is needed");
  detail::Called call{std::move(fn), inputs.size(), noutputs};
  cn_jvp_opts o = detail::opts<cn_jvp_opts>();
  o.create_graph = create_graph;
  std::vector<cn_tensor *> outputs(noutputs), values(noutputs);
  detail::Scope scope;
  detail::check(cn_jvp_with(outputs.data(), values.data(), noutputs, detail::Called::run,
                            detail::pointers(inputs.data()), detail::pointers(tangents.data()), inputs.size(), &call,
                            &o));
  return {detail::kept(outputs.data(), noutputs), detail::kept(values.data(), noutputs)};
}
/* Of one tensor: auto [y, dy] = jvp(fn, x, dx). */
template <class Fn> std::pair<Tensor, Tensor> jvp(Fn fn, const Tensor &input, const Tensor &tangent)
{
  Derivative d = jvp([&](const std::vector<Tensor> &in) { return std::vector<Tensor>{fn(in[0])}; },
                     std::vector<Tensor>{input}, std::vector<Tensor>{tangent});
  return {d.outputs[0], d.values[0]};
}

/* The gradients of inputs for these gradients of fn's outputs. */
inline Derivative vjp(TensorsFn fn, const std::vector<Tensor> &inputs, const std::vector<Tensor> &gradients,
                      bool create_graph = false)
{
  EnableGradGuard on;
  std::vector<Tensor> leaves;
  for (const Tensor &t : inputs) leaves.push_back(t.detach().requires_grad_());
  const std::vector<Tensor> outputs = fn(leaves);
  GradOptions options;
  options.grad_outputs(gradients).create_graph(create_graph).allow_unused(true);
  Derivative made{{}, grad(outputs, leaves, options)};
  for (const Tensor &t : outputs) made.outputs.push_back(create_graph ? t : t.detach());
  return made;
}
template <class Fn> std::pair<Tensor, Tensor> vjp(Fn fn, const Tensor &input, const Tensor &gradient)
{
  Derivative d = vjp([&](const std::vector<Tensor> &in) { return std::vector<Tensor>{fn(in[0])}; },
                     std::vector<Tensor>{input}, std::vector<Tensor>{gradient});
  return {d.outputs[0], d.values[0]};
}

/* ---- checkpointing and checking ---- */
/* Runs fn without recording its inside, and again in backward: memory for time. It gives noutputs tensors. */
inline std::vector<Tensor> checkpoint_all(TensorsFn fn, const std::vector<Tensor> &inputs, size_t noutputs)
{
  /* C runs it again in backward, long after this call: it lives as long as the record of the results does. */
  auto call = std::make_shared<detail::Called>(detail::Called{std::move(fn), inputs.size(), noutputs});
  std::vector<cn_tensor *> out(noutputs);
  detail::Scope scope;
  detail::check(cn_checkpoint(out.data(), noutputs, detail::Called::run, detail::pointers(inputs.data()),
                              inputs.size(), call.get()));
  std::vector<Tensor> made = detail::kept(out.data(), noutputs);
  for (const Tensor &t : made)
    if (t.requires_grad()) t.register_hook([call](const Tensor &) {});
  return made;
}
inline Tensor checkpoint(TensorFn fn, const std::vector<Tensor> &inputs)
{
  auto all = [fn = std::move(fn)](const std::vector<Tensor> &in) { return std::vector<Tensor>{fn(in)}; };
  return checkpoint_all(std::move(all), inputs, 1)[0];
}
/* checkpoint([&](const Tensor &x) { return block(x); }, x) */
template <class F, class... T, class = std::enable_if_t<sizeof...(T) != 0 && (std::is_base_of_v<Tensor, T> && ...)>>
Tensor checkpoint(F fn, const T &...inputs)
{
  TensorFn spread = [fn = std::move(fn)](const std::vector<Tensor> &in) mutable {
    return Tensor(detail::spread(fn, in, std::index_sequence_for<T...>()));
  };
  return checkpoint(std::move(spread), std::vector<Tensor>{inputs...});
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
inline void gradcheck(TensorFn fn, const std::vector<Tensor> &inputs, const GradcheckOptions &options = {})
{
  using Payload = std::pair<TensorFn, size_t>;
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

#include <cairn/function.hpp>

#endif
