/* function.hpp: functions with a gradient of their own.
 *
 *     struct Square : cn::Function<Square> {
 *       static Tensor forward(Context &ctx, const Tensor &x) { ctx.save({x}); return x * x; }
 *       static Tensor backward(Context &ctx, const std::vector<Tensor> &g) { return 2 * ctx.saved(0) * g[0]; }
 *     };
 *     y = Square::apply(x);
 *
 * Place in the flow: on autograd.hpp. forward may take numbers and others besides tensors and may return a tuple, an
 * array or a vector of them; backward returns one gradient for each tensor argument (an undefined one where none
 * flows), one for each argument, or a single one; where forward has one result it may take that one's gradient itself.
 * Both may take the context as a pointer, as PyTorch's do. Invariant: an application keeps no tensor besides those that
 * forward saved.
 *
 * forward runs first, with recording off, and says what is to be saved; then C makes the record of it. */
#include <cairn/autograd.hpp> /* which includes this file, in its place */
#ifndef CAIRN_FUNCTION_HPP
#define CAIRN_FUNCTION_HPP

#include <any>
#include <map>

namespace cn {

namespace detail {
template <class F, class... A> struct Application;
}

/* A value that forward leaves for backward: ctx->saved_data["scale"] = 2.0; ... .toDouble(). Any kind of value: get
 * asks for it by its type; numbers convert. */
class SavedValue : public std::any {
 public:
  SavedValue() = default;
  template <class T, class = std::enable_if_t<!std::is_same_v<std::decay_t<T>, SavedValue>>>
  SavedValue(T &&value) : std::any(std::forward<T>(value))
  {
  }
  template <class T> T get() const
  {
    if constexpr (std::is_arithmetic_v<T>) return number<T>();
    else if (const T *found = std::any_cast<T>(base())) return *found;
    else throw TypeError("saved_data: the value is of another type than the one asked for");
  }
  double toDouble() const { return get<double>(); }
  int64_t toInt() const { return get<int64_t>(); }
  bool toBool() const { return get<bool>(); }
  std::string toStringRef() const
  {
    const char *const *text = std::any_cast<const char *>(base());
    return text ? std::string(*text) : get<std::string>();
  }
  Tensor toTensor() const { return get<Tensor>(); }
  std::vector<int64_t> toIntVector() const { return get<std::vector<int64_t>>(); }

 private:
  const std::any *base() const noexcept { return this; }
  template <class T, class From> bool from(T &number) const
  {
    const From *found = std::any_cast<From>(base());
    if (found) number = static_cast<T>(*found);
    return found != nullptr;
  }
  template <class T> T number() const
  {
    T made{};
    if (from<T, double>(made) || from<T, int>(made) || from<T, int64_t>(made) || from<T, bool>(made) ||
        from<T, float>(made) || from<T, size_t>(made))
      return made;
    if (const T *found = std::any_cast<T>(base())) return *found;
    throw TypeError("saved_data: the value is no number");
  }
};

/* What forward and backward of one application share. */
class Context {
 public:
  void save(const std::vector<Tensor> &tensors) { saved_.insert(saved_.end(), tensors.begin(), tensors.end()); }
  void save_for_backward(const std::vector<Tensor> &tensors) { save(tensors); }
  /* In backward: what was saved; throws where it was changed in place since. */
  Tensor saved(size_t i) const
  {
    if (!ctx_ || i >= places_.size()) return i < saved_.size() ? saved_[i] : throw IndexError("saved: no such tensor");
    return places_[i] == none ? Tensor() : Tensor::keep(detail::check(cn_context_saved(ctx_, places_[i])));
  }
  std::vector<Tensor> get_saved_variables() const
  {
    std::vector<Tensor> found;
    for (size_t i = 0; i < places_.size(); i++) found.push_back(saved(i));
    return found;
  }
  bool needs_input_grad(size_t input) const { return input < needs_.size() && needs_[input]; }
  /* By the number of a result, or the results themselves. */
  void mark_non_differentiable(size_t output) { fixed_.push_back(output); }
  void mark_non_differentiable(const std::vector<Tensor> &outputs) { fixed_tensors_ = outputs; }
  void mark_dirty(size_t output) { dirty_.push_back(output); }
  void mark_dirty(const std::vector<Tensor> &outputs) { dirty_tensors_ = outputs; }

  std::map<std::string, SavedValue> saved_data, &data = saved_data; /* whatever backward wants to know */

  Context() = default;
  Context(const Context &) = delete;
  Context &operator=(const Context &) = delete;

 private:
  template <class F, class... A> friend struct detail::Application;
  static constexpr size_t none = SIZE_MAX;

  /* After forward: hands to C what was asked for. */
  void settle(cn_context *ctx, const std::vector<Tensor> &outputs)
  {
    std::vector<Tensor> defined;
    for (const Tensor &t : saved_) {
      places_.push_back(t.defined() ? defined.size() : none);
      if (t.defined()) defined.push_back(t);
    }
    detail::check(cn_context_save(ctx, detail::pointers(defined.data()), defined.size()));
    for (size_t i = 0; i < outputs.size(); i++) {
      for (const Tensor &t : fixed_tensors_)
        if (t.is_same(outputs[i])) fixed_.push_back(i);
      for (const Tensor &t : dirty_tensors_)
        if (t.is_same(outputs[i])) dirty_.push_back(i);
    }
    for (size_t i : fixed_) detail::check(cn_context_mark_non_differentiable(ctx, i));
    for (size_t i : dirty_) detail::check(cn_context_mark_dirty(ctx, i));
    saved_.clear(), fixed_tensors_.clear(), dirty_tensors_.clear();
  }

  cn_context *ctx_ = nullptr; /* in backward */
  std::vector<Tensor> saved_, fixed_tensors_, dirty_tensors_;
  std::vector<size_t> places_, fixed_, dirty_; /* places_: of saved ones among those that C has */
  std::vector<bool> needs_;
};

namespace detail {

template <class T> inline constexpr bool is_tensor = std::is_base_of_v<Tensor, std::decay_t<T>>;

/* The structs that ops and layers give. */
template <class T> constexpr auto has_tuple(T *) -> decltype(sizeof(typename T::Tuple) != 0) { return true; }
constexpr bool has_tuple(const void *) { return false; }
template <class T> constexpr auto is_tuple(T *) -> decltype(std::tuple_size<T>::value != 0) { return true; }
constexpr bool is_tuple(const void *) { return false; }

/* The tensors of a result, whichever form it has: tuples, pairs, arrays and vectors, also in each other. */
template <class T> void append(std::vector<Tensor> &list, const T &made)
{
  if constexpr (is_tensor<T>) list.push_back(made);
  else if constexpr (std::is_convertible_v<T, std::vector<Tensor>>)
    for (const Tensor &t : static_cast<const std::vector<Tensor> &>(made)) list.push_back(t);
  else if constexpr (has_tuple(static_cast<T *>(nullptr))) append(list, made.tuple());
  else if constexpr (is_tuple(static_cast<T *>(nullptr)))
    std::apply([&list](const auto &...part) { (append(list, part), ...); }, made);
  else throw TypeError("a function gave a " + class_name(typeid(T)) + ", which is no tensor");
}

/* Results of several tensors as a list, and back. */
template <class T> struct Outputs {
  template <size_t... I> static T each(const std::vector<Tensor> &list, std::index_sequence<I...>)
  {
    return T{list[I]...};
  }
  static std::vector<Tensor> list(const T &made)
  {
    std::vector<Tensor> all;
    append(all, made);
    return all;
  }
  static T from(std::vector<Tensor> list)
  {
    if constexpr (std::is_convertible_v<std::vector<Tensor>, T>) return list;
    else if constexpr (is_tensor<T>) return list[0];
    else if constexpr (has_tuple(static_cast<T *>(nullptr)))
      return each(list, std::make_index_sequence<std::tuple_size_v<typename T::Tuple>>());
    else return each(list, std::make_index_sequence<std::tuple_size_v<T>>());
  }
};

/* One application of a function: its context, and how many arguments it was given. */
template <class F, class... A> struct Application {
  Context context;
  size_t ntensors = 0, noutputs = 0;
  std::vector<Tensor> made; /* forward's results, until they are recorded */

  template <class... G> void prepare(std::vector<cn_tensor *> &inputs, const G &...given)
  {
    auto collect = [&](const auto &a) {
      if constexpr (is_tensor<decltype(a)>) {
        inputs.push_back(a.get());
        context.needs_.push_back(a.requires_grad() && cn_grad_enabled());
      } else static_cast<void>(a);
    };
    (collect(given), ...);
    ntensors = inputs.size();
  }

  static Application *of(cn_context *ctx) { return static_cast<Application *>(cn_context_payload(ctx)); }

  template <class... G> static decltype(auto) call_forward(Context &ctx, const G &...given)
  {
    if constexpr (takes_context<Context &>(0)) return F::forward(ctx, given...);
    else return F::forward(&ctx, given...);
  }
  template <class C> static constexpr auto takes_context(int)
      -> decltype(static_cast<void>(F::forward(std::declval<C>(), std::declval<const A &>()...)), true)
  {
    return true;
  }
  template <class C> static constexpr bool takes_context(...) { return false; }

  static int forward(cn_context *ctx, cn_tensor **outputs, cn_tensor *const *)
  {
    return guarded([&] {
      Application *self = of(ctx);
      self->context.settle(ctx, self->made);
      for (size_t i = 0; i < self->made.size(); i++) outputs[i] = lend(self->made[i]);
      self->made.clear();
      return 0;
    });
  }
  static auto call_backward(Context &ctx, const std::vector<Tensor> &grads)
  {
    using Backward = decltype(F::backward);
    if constexpr (std::is_invocable_v<Backward, Context &, std::vector<Tensor>>) return F::backward(ctx, grads);
    else if constexpr (std::is_invocable_v<Backward, Context *, std::vector<Tensor>>) return F::backward(&ctx, grads);
    else if constexpr (std::is_invocable_v<Backward, Context &, Tensor>) return F::backward(ctx, grads.at(0));
    else return F::backward(&ctx, grads.at(0));
  }
  static int backward(cn_context *ctx, cn_tensor **grad_inputs, cn_tensor *const *grad_outputs)
  {
    return guarded([&] {
      Application *self = of(ctx);
      self->context.ctx_ = ctx;
      using Made = decltype(call_backward(self->context, {}));
      const std::vector<Tensor> grads =
          Outputs<Made>::list(call_backward(self->context, kept(grad_outputs, self->noutputs)));
      self->context.ctx_ = nullptr;
      self->place(grad_inputs, grads);
      return 0;
    });
  }
  /* Gradients are for the tensors among the arguments, or for all arguments. */
  void place(cn_tensor **grad_inputs, const std::vector<Tensor> &grads) const
  {
    const bool given[] = {is_tensor<A>..., false};
    const bool by_tensor = grads.size() <= ntensors && (grads.size() == ntensors || grads.size() == 1);
    size_t k = 0, surplus = 0;
    for (size_t i = 0; i < grads.size(); i++) {
      if (by_tensor || (i < sizeof...(A) && given[i])) grad_inputs[k++] = lend(grads[i]);
      else surplus += grads[i].defined();
    }
    if (surplus || (!by_tensor && k != ntensors))
      throw ValueError(class_name(typeid(F)) + ": backward gave " + std::to_string(grads.size()) + " gradients for " +
                       std::to_string(ntensors) + " tensors");
  }
};

}  // namespace detail

template <class F> struct Function {
  using Context = cn::Context;

  template <class... A> static auto apply(const A &...given)
  {
    using Run = detail::Application<F, std::conditional_t<detail::is_tensor<A>, Tensor, A>...>;
    using Made = std::decay_t<decltype(Run::call_forward(std::declval<Context &>(), given...))>;
    static const std::string name = detail::class_name(typeid(F));
    static const cn_function table = {sizeof(cn_function), name.c_str(), Run::forward, Run::backward,
                                      detail::destroy<Run>};
    std::vector<cn_tensor *> inputs;
    auto run = std::make_unique<Run>();
    run->prepare(inputs, given...);
    {
      NoGradGuard off;
      run->made = detail::Outputs<Made>::list(Run::call_forward(run->context, given...));
    }
    std::vector<cn_tensor *> out(run->noutputs = run->made.size());
    detail::Scope scope;
    detail::check(cn_function_apply(out.data(), out.size(), &table, inputs.data(), inputs.size(), run.release()));
    return detail::Outputs<Made>::from(detail::kept(out.data(), out.size()));
  }
};

}  // namespace cn

#endif
