/* optim.hpp: optimisers and schedules of learning rates, clipping, loss scaling, averages.
 *
 * Place in the flow: modules below, training above; optimisers.hpp and schedules.hpp (generated) have the classes.
 * Optimisers are shared handles: a schedule keeps the one it changes. */
#ifndef CAIRN_OPTIM_HPP
#define CAIRN_OPTIM_HPP

#include <cairn/module.hpp>
#include <cairn/optimiser.h>

#include <cmath>

namespace cn {

class ParamGroup;

/* Parameters with options of their own, for an optimiser's constructor: AdamW({{net.parameters()}, {others,
 * AdamWOptions(1e-4)}}). */
template <class Options> struct ParamGroupOf {
  ParamGroupOf(std::vector<Tensor> tensors) : parameters(std::move(tensors)) {}
  ParamGroupOf(std::vector<Tensor> tensors, const Options &own) : parameters(std::move(tensors)), options(own) {}
  std::vector<Tensor> parameters;
  std::optional<Options> options;
};

class Optimizer {
 public:
  explicit Optimizer(cn_optim *opt) : opt_(detail::check(opt), cn_optim_free) {} /* takes it over */

  /* A group of its own for these parameters, with the optimiser's settings until they are changed. */
  size_t add_param_group(const std::vector<Tensor> &parameters)
  {
    cn_tensor *const *list = detail::pointers(parameters.data());
    return static_cast<size_t>(detail::check(cn_optim_add(get(), list, parameters.size())));
  }
  size_t groups() const { return cn_optim_ngroups(get()); }
  /* One by one: for (auto &group : opt.param_groups()) group.set_lr(0.1). */
  inline std::vector<ParamGroup> param_groups() const;
  std::vector<Tensor> parameters(size_t group = 0) const
  {
    std::vector<Tensor> found;
    for (size_t i = 0; i < cn_optim_nparams(get(), group); i++)
      found.push_back(Tensor::keep(cn_optim_param(get(), group, i)));
    return found;
  }
  /* A setting by its name: "lr", "momentum", "weight_decay". */
  double option(const std::string &name, size_t group = 0) const { return cn_optim_get(get(), group, name.c_str()); }
  void set_option(const std::string &name, double value, size_t group = 0)
  {
    detail::check(cn_optim_set(get(), group, name.c_str(), value));
  }
  /* One that is a list or a word: set_option("betas", {0.5, 0.9}, 1). */
  void set_option(const std::string &name, std::initializer_list<double> values, size_t group = 0)
  {
    const cn_value value = cn_v_floats(values.begin(), values.size());
    detail::check(cn_optim_set_value(get(), group, name.c_str(), value));
  }
  double lr(size_t group = 0) const { return option("lr", group); }
  void set_lr(double value)
  {
    for (size_t i = 0; i < groups(); i++) set_option("lr", value, i);
  }

  void step() { detail::check(cn_optim_step(get())); }
  /* What is remembered of a parameter: {"step": ..., "exp_avg": ...}. */
  Tree memory(size_t group, size_t parameter) const { return Tree(cn_optim_memory(get(), group, parameter)); }
  /* closure zeroes gradients, computes the loss, runs backward and returns the loss: for LBFGS. */
  Tensor step(std::function<Tensor()> closure)
  {
    auto call = [](void *payload) -> cn_tensor * {
      cn_tensor *loss = nullptr;
      detail::guarded([&] {
        loss = detail::lend((*static_cast<std::function<Tensor()> *>(payload))());
        return 0;
      });
      return loss;
    };
    detail::Scope scope;
    return Tensor::keep(detail::check(cn_optim_step_closure(get(), +call, &closure)));
  }
  void zero_grad() { detail::check(cn_optim_zero_grad(get())); }
  void zero_grad(bool set_to_none) /* false: gradients stay, with zeros in them */
  {
    if (set_to_none) return zero_grad();
    NoGradGuard off;
    for (size_t g = 0; g < groups(); g++)
      for (const Tensor &p : parameters(g))
        if (p.grad().defined()) p.grad().zero_();
  }
  Tensor clip_grad_norm(double max_norm)
  {
    detail::Scope scope;
    return Tensor::keep(detail::check(cn_optim_clip_norm(get(), max_norm)));
  }

  Tree state_dict() const { return Tree(cn_optim_state(get())); }
  void load_state_dict(TreeView state) { detail::check(cn_optim_load(get(), state.get())); }
  std::string name() const { return cn_optim_name(get()); }
  cn_optim *get() const noexcept { return opt_.get(); }

 protected:
  /* args: one for each parameter of the class's signature. */
  size_t add_group_with(const std::vector<Tensor> &parameters, const cn_value *args, int n)
  {
    const size_t group = add_param_group(parameters);
    const cn_signature *signature = cn_args_signature(cn_optim_args(get(), group));
    for (int i = 0; i < n; i++) {
      cn_op_param param;
      detail::check(cn_signature_param(&param, signature, i));
      if (args[i].tag != CN_V_NONE) detail::check(cn_optim_set_value(get(), group, param.name, args[i]));
    }
    return group;
  }

 private:
  std::shared_ptr<cn_optim> opt_;
};

/* One group of an optimiser's. */
class ParamGroup {
 public:
  ParamGroup(const Optimizer &optimizer, size_t number) : optimizer_(optimizer), number_(number) {}
  std::vector<Tensor> params() const { return optimizer_.parameters(number_); }
  double option(const std::string &name) const { return optimizer_.option(name, number_); }
  void set_option(const std::string &name, double value) { optimizer_.set_option(name, value, number_); }
  void set_option(const std::string &name, std::initializer_list<double> values)
  {
    optimizer_.set_option(name, values, number_);
  }
  double lr() const { return option("lr"); }
  void set_lr(double value) { set_option("lr", value); }
  size_t number() const noexcept { return number_; }

 private:
  Optimizer optimizer_;
  size_t number_;
};

inline std::vector<ParamGroup> Optimizer::param_groups() const
{
  std::vector<ParamGroup> found;
  for (size_t i = 0; i < groups(); i++) found.emplace_back(*this, i);
  return found;
}

inline void save(const Optimizer &optimizer, const std::string &path) { save(optimizer.state_dict(), path); }
inline void load(Optimizer &optimizer, const std::string &path) { optimizer.load_state_dict(load(path)); }

/* Scales all gradients so that their norm together is at most max_norm; returns the norm before. norm_type INFINITY:
 * the largest element. */
inline Tensor clip_grad_norm_(const std::vector<Tensor> &parameters, double max_norm, double norm_type = 2)
{
  detail::Scope scope;
  return Tensor::keep(detail::check(
      cn_clip_grad_norm(detail::pointers(parameters.data()), parameters.size(), max_norm, norm_type)));
}
inline void clip_grad_value_(const std::vector<Tensor> &parameters, double clip_value)
{
  detail::check(cn_clip_grad_value(detail::pointers(parameters.data()), parameters.size(), clip_value));
}

/* All parameters one behind the other in one vector, and back. */
inline Tensor parameters_to_vector(const std::vector<Tensor> &parameters)
{
  std::vector<Tensor> parts;
  for (const Tensor &p : parameters) parts.push_back(p.reshape({-1}));
  return cat(parts);
}
inline void vector_to_parameters(const Tensor &vec, const std::vector<Tensor> &parameters)
{
  NoGradGuard off;
  int64_t at = 0;
  for (const Tensor &p : parameters) {
    p.copy_(vec.slice(0, at, at + p.numel()).reshape(p.shape()));
    at += p.numel();
  }
}

/* ---- schedules ---- */
class Scheduler {
 public:
  Scheduler(const Optimizer &optimizer, cn_schedule *made) : Scheduler(optimizer) { set(made); } /* takes it over */
  void step() { detail::check(cn_schedule_step(get())); }
  void step(double metric) { detail::check(cn_schedule_step_metric(get(), metric)); } /* for ReduceLROnPlateau */
  double lr(size_t group = 0) const { return cn_schedule_lr(get(), group); }
  std::vector<double> get_last_lr() const
  {
    std::vector<double> all;
    for (size_t i = 0; i < box_->optimizer.groups(); i++) all.push_back(lr(i));
    return all;
  }
  int64_t last_epoch() const { return cn_schedule_epoch(get()); }
  Tree state_dict() const { return Tree(cn_schedule_state(get())); }
  void load_state_dict(TreeView state) { detail::check(cn_schedule_load(get(), state.get())); }
  cn_schedule *get() const
  {
    if (!box_->schedule) throw ValueError("Scheduler: it became a part of another one");
    return box_->schedule;
  }

 protected:
  using Rate = std::function<double(int64_t epoch)>;
  struct Box {
    explicit Box(const Optimizer &opt) : optimizer(opt) {}
    ~Box() { cn_schedule_free(schedule); }
    Optimizer optimizer; /* outlives the schedule */
    cn_schedule *schedule = nullptr;
    std::vector<std::shared_ptr<Box>> parts; /* whose functions are still called */
    Rate rate;
    Box(const Box &) = delete;
    Box &operator=(const Box &) = delete;
  };
  explicit Scheduler(const Optimizer &optimizer) : box_(std::make_shared<Box>(optimizer)) {}
  void set(cn_schedule *made) { box_->schedule = detail::check(made); }
  /* Gives the schedules of others to C; what they hold besides stays with this one. */
  std::vector<cn_schedule *> take(const std::vector<Scheduler> &parts)
  {
    std::vector<cn_schedule *> given;
    for (const Scheduler &part : parts) part.get(); /* none has been given away */
    for (const Scheduler &part : parts) {
      given.push_back(std::exchange(part.box_->schedule, nullptr));
      box_->parts.push_back(part.box_);
    }
    return given;
  }
  static double call(int64_t epoch, void *payload)
  {
    double rate = 0;
    detail::guarded([&] {
      rate = static_cast<Box *>(payload)->rate(epoch);
      return 0;
    });
    return rate;
  }

  std::shared_ptr<Box> box_;
};

/* The first rate times a function of the epoch. */
class LambdaLR : public Scheduler {
 public:
  LambdaLR(const Optimizer &optimizer, std::function<double(int64_t epoch)> rate) : Scheduler(optimizer)
  {
    box_->rate = std::move(rate);
    set(cn_lr_lambda(optimizer.get(), call, box_.get()));
  }
};

/* The last rate times a function of the epoch. */
class MultiplicativeLR : public Scheduler {
 public:
  MultiplicativeLR(const Optimizer &optimizer, std::function<double(int64_t epoch)> rate) : Scheduler(optimizer)
  {
    box_->rate = std::move(rate);
    set(cn_lr_multiplicative(optimizer.get(), call, box_.get()));
  }
};

/* One after the other from these epochs on; the parts are its own from then on. */
class SequentialLR : public Scheduler {
 public:
  SequentialLR(const Optimizer &optimizer, const std::vector<Scheduler> &parts, const std::vector<int64_t> &milestones)
      : Scheduler(optimizer)
  {
    if (milestones.size() + 1 != parts.size())
      throw ValueError("SequentialLR: one milestone less than schedules is needed");
    const std::vector<cn_schedule *> given = take(parts);
    set(cn_lr_sequential(optimizer.get(), given.data(), given.size(), milestones.data()));
  }
};

/* All at once. */
class ChainedScheduler : public Scheduler {
 public:
  ChainedScheduler(const Optimizer &optimizer, const std::vector<Scheduler> &parts) : Scheduler(optimizer)
  {
    const std::vector<cn_schedule *> given = take(parts);
    set(cn_lr_chained(given.data(), given.size()));
  }
};

/* ---- mixed precision ---- */
struct GradScalerOptions {
  GradScalerOptions &init_scale(double value) { o_.init_scale = value; return *this; }
  GradScalerOptions &growth_factor(double value) { o_.growth_factor = value; return *this; }
  GradScalerOptions &backoff_factor(double value) { o_.backoff_factor = value; return *this; }
  GradScalerOptions &growth_interval(int64_t value) { o_.growth_interval = value; return *this; }
  GradScalerOptions &enabled(bool value) { o_.disabled = !value; return *this; }

  cn_grad_scaler_opts o_ = detail::opts<cn_grad_scaler_opts>();
};

class GradScaler {
 public:
  explicit GradScaler(const GradScalerOptions &options = {})
      : scaler_(detail::check(cn_grad_scaler_new_with(&options.o_)), cn_grad_scaler_free)
  {
  }
  Tensor scale(const Tensor &loss)
  {
    detail::Scope scope;
    return Tensor::keep(detail::check(cn_grad_scaler_scale(get(), loss.get())));
  }
  void unscale_(Optimizer &opt) { detail::check(cn_grad_scaler_unscale(get(), opt.get())); }
  bool step(Optimizer &opt) { return detail::check(cn_grad_scaler_step(get(), opt.get())) == 1; } /* false: skipped */
  void update() { detail::check(cn_grad_scaler_update(get())); }
  double get_scale() const { return cn_grad_scaler_get(get()); }
  Tree state_dict() const { return Tree(cn_grad_scaler_state(get())); }
  void load_state_dict(TreeView state) { detail::check(cn_grad_scaler_load(get(), state.get())); }
  cn_grad_scaler *get() const noexcept { return scaler_.get(); }

 private:
  std::shared_ptr<cn_grad_scaler> scaler_;
};

/* ---- averages of parameters ---- */
/* For a class of one's own: `average` is another object of the class whose parameters follow those of `m`; `count` is
 * how often they did so far. decay 0: the mean of all updates. */
inline void follow(Module &average, const Module &m, double decay, int64_t count, bool average_buffers = false)
{
  detail::check(cn_average_follow(average.get(), m.get(), decay, count, average_buffers));
}

/* A copy whose parameters follow: with this decay, or, for 0, as the mean of all updates. */
class AveragedModel {
 public:
  template <class M> explicit AveragedModel(const M &m, double decay = 0, bool average_buffers = false)
      : average_(detail::check(cn_average_new(detail::bind_module(m), decay, average_buffers)), cn_average_free)
  {
    detail::revive(cn_average_module(get()), m.get());
  }
  void update(const Module &m) { detail::check(cn_average_update(get(), m.get())); }
  AnyModule module() const { return AnyModule::keep(cn_average_module(get())); }
  template <class... T> Tensor operator()(const T &...inputs) const { return module()(inputs...); }
  int64_t count() const { return cn_average_count(get()); }
  Tree state_dict() const { return Tree(cn_average_state(get())); }
  void load_state_dict(TreeView state) { detail::check(cn_average_load(get(), state.get())); }
  cn_average *get() const noexcept { return average_.get(); }

 private:
  std::shared_ptr<cn_average> average_;
};

}  // namespace cn

#include <cairn/optimisers.hpp>
#include <cairn/schedules.hpp>

#endif
