/* train.hpp: metrics, checkpoints and cn::fit, with callbacks that are lambdas.
 *
 *     cn::Metric accuracy = cn::Metric::accuracy();
 *     cn::fit(net, opt, loader, cn::FitOptions().epochs(5).validation(test).metric(accuracy).progress()
 *                                   .epoch_end([](cn::Fitting &f) { std::cout << f.value("val_loss") << "\n"; }));
 *
 * Place in the flow: the top: modules, optimisers and data below. */
#ifndef CAIRN_TRAIN_HPP
#define CAIRN_TRAIN_HPP

#include <cairn/data.hpp>
#include <cairn/optim.hpp>
#include <cairn/train.h>

namespace cn {

inline constexpr cn_averaging Macro = CN_MACRO, Micro = CN_MICRO, Weighted = CN_WEIGHTED;

class Metric {
 public:
  static Metric mean(const std::string &name) { return Metric(cn_metric_mean(name.c_str())); }
  static Metric accuracy() { return Metric(cn_metric_accuracy()); }
  static Metric top_k(int64_t k) { return Metric(cn_metric_top_k(k)); }
  static Metric precision(int64_t classes, cn_averaging average = CN_MACRO)
  {
    return Metric(cn_metric_precision(classes, average));
  }
  static Metric recall(int64_t classes, cn_averaging average = CN_MACRO)
  {
    return Metric(cn_metric_recall(classes, average));
  }
  static Metric f1(int64_t classes, cn_averaging average = CN_MACRO) { return Metric(cn_metric_f1(classes, average)); }
  static Metric confusion(int64_t classes) { return Metric(cn_metric_confusion(classes)); }
  static Metric auc() { return Metric(cn_metric_auc()); }
  static Metric perplexity() { return Metric(cn_metric_perplexity()); }
  static Metric mean_iou(int64_t classes) { return Metric(cn_metric_mean_iou(classes)); }

  void update(const Tensor &output, const Tensor &target)
  {
    detail::check(cn_metric_update(get(), output.get(), target.get()));
  }
  void add(double value, double weight = 1) { detail::check(cn_metric_add(get(), value, weight)); }
  double value() const { return cn_metric_value(get()); } /* NaN: nothing was seen yet */
  Tensor tensor() const
  {
    detail::Scope scope;
    return Tensor::keep(detail::check(cn_metric_tensor(get())));
  }
  void reset() { cn_metric_reset(get()); }
  std::string name() const { return cn_metric_name(get()); }
  cn_metric *get() const noexcept { return m_.get(); }

 private:
  explicit Metric(cn_metric *m) : m_(detail::check(m), cn_metric_free) {}
  std::shared_ptr<cn_metric> m_;
};

/* A fit in progress, as callbacks see it. */
class Fitting {
 public:
  explicit Fitting(cn_fitting *fit) : fit_(fit) {}
  double value(const std::string &name) const { return cn_fitting_value(fit_, name.c_str()); } /* "loss", "val_loss" */
  void set(const std::string &name, double value) { detail::check(cn_fitting_set(fit_, name.c_str(), value)); }
  int64_t epoch() const { return cn_fitting_run(fit_)->epoch; } /* how many are complete */
  int64_t step() const { return cn_fitting_run(fit_)->step; }
  int64_t batch() const { return cn_fitting_batch(fit_); }
  int64_t batches() const { return cn_fitting_batches(fit_); }
  double seconds() const { return cn_fitting_seconds(fit_); }
  Tensor output() const { return Tensor::keep(cn_fitting_output(fit_)); } /* in batch_end */
  void stop() { cn_fitting_stop(fit_); }
  void save(const std::string &path) { detail::check(cn_fitting_save(fit_, path.c_str())); }
  cn_fitting *get() const noexcept { return fit_; }

 private:
  cn_fitting *fit_;
};

/* Of a batch: the net's output and the batch's fields, fields[1] being the target. */
using LossFn = std::function<Tensor(const Tensor &output, const std::vector<Tensor> &fields)>;

namespace detail {

using Moment = std::function<void(Fitting &)>;

struct Moments {
  Moment begin, epoch_begin, batch_end, epoch_end, end;

  template <Moment Moments::*which> static int call(cn_fitting *fit, void *payload)
  {
    return guarded([&] {
      Fitting seen(fit);
      const Moment &moment = static_cast<Moments *>(payload)->*which;
      if (moment) moment(seen);
      return 0;
    });
  }
  static cn_callback callback(Moments moments)
  {
    cn_callback c = {};
    c.payload = new Moments(std::move(moments));
    c.begin = call<&Moments::begin>;
    c.epoch_begin = call<&Moments::epoch_begin>;
    c.batch_end = call<&Moments::batch_end>;
    c.epoch_end = call<&Moments::epoch_end>;
    c.end = call<&Moments::end>;
    c.free = [](void *p) { delete static_cast<Moments *>(p); };
    return c;
  }
};

}  // namespace detail

class FitOptions {
 public:
  FitOptions(int64_t epochs = 1) { epochs_ = epochs; }
  FitOptions &epochs(int64_t value) { epochs_ = value; return *this; }
  FitOptions &validation(const DataLoader &value) { validation_ = value; return *this; }
  FitOptions &loss(LossFn value) { loss_ = std::move(value); return *this; } /* cross entropy */
  FitOptions &loss(const AnyModule &value) { loss_module_ = value; return *this; }
  FitOptions &metric(const Metric &value) { metrics_.push_back(value); return *this; }
  FitOptions &schedule(const Scheduler &value, bool each_batch = false)
  {
    schedule_ = value;
    each_batch_ = each_batch;
    return *this;
  }
  FitOptions &plateau(const std::string &value) { plateau_ = value; return *this; }
  FitOptions &clip_norm(double value) { clip_norm_ = value; return *this; }
  FitOptions &accumulate(int64_t value) { accumulate_ = value; return *this; }
  FitOptions &autocast(DType value) { autocast_ = value; return *this; }
  FitOptions &scaler(const GradScaler &value) { scaler_ = value; return *this; }
  FitOptions &average(const AveragedModel &value) { average_ = value; return *this; }
  FitOptions &resume(const std::string &path) { resume_ = path; return *this; }

  /* ---- along the way ---- */
  FitOptions &on_begin(detail::Moment value) { return own([&](auto &m) { m.begin = std::move(value); }); }
  FitOptions &epoch_begin(detail::Moment value) { return own([&](auto &m) { m.epoch_begin = std::move(value); }); }
  FitOptions &batch_end(detail::Moment value) { return own([&](auto &m) { m.batch_end = std::move(value); }); }
  FitOptions &epoch_end(detail::Moment value) { return own([&](auto &m) { m.epoch_end = std::move(value); }); }
  FitOptions &on_end(detail::Moment value) { return own([&](auto &m) { m.end = std::move(value); }); }
  FitOptions &progress() { return add([] { return cn_callback_progress(); }); } /* a line on the terminal */
  FitOptions &early_stop(const std::string &name, int64_t patience, double min_delta = 0)
  {
    return add([=] { return cn_callback_early_stop(name.c_str(), patience, min_delta); });
  }
  FitOptions &save_best(const std::string &path, const std::string &name = "val_loss")
  {
    return add([=] { return cn_callback_best(path.c_str(), name.c_str()); });
  }
  FitOptions &save_last(const std::string &path, int64_t every_batches = 0)
  {
    return add([=] { return cn_callback_last(path.c_str(), every_batches); });
  }
  FitOptions &csv(const std::string &path) { return add([=] { return cn_callback_csv(path.c_str()); }); }
  FitOptions &events(const std::string &folder) { return add([=] { return cn_callback_events(folder.c_str()); }); }
  FitOptions &callback(std::function<cn_callback()> make) { return add(std::move(make)); }

  /* What C is given; `use` is called with it while all of it lives. */
  template <class Use> int with(Use &&use) const
  {
    std::vector<cn_metric *> metrics;
    for (const Metric &m : metrics_) metrics.push_back(m.get());
    std::vector<cn_callback> callbacks;
    for (const auto &make : callbacks_) callbacks.push_back(make());
    cn_fit_opts o = detail::opts<cn_fit_opts>();
    o.epochs = epochs_;
    o.validation = validation_ ? validation_->get() : nullptr;
    o.loss = loss_ ? call_loss : nullptr;
    o.payload = const_cast<LossFn *>(&loss_);
    o.loss_module = loss_module_.is_empty() ? nullptr : loss_module_.get();
    o.metrics = metrics.data();
    o.nmetrics = metrics.size();
    o.callbacks = callbacks.data();
    o.ncallbacks = callbacks.size();
    o.schedule = schedule_ ? schedule_->get() : nullptr;
    o.schedule_each_batch = each_batch_;
    o.plateau = plateau_.empty() ? nullptr : plateau_.c_str();
    o.clip_norm = clip_norm_;
    o.accumulate = accumulate_;
    o.autocast = autocast_;
    o.scaler = scaler_ ? scaler_->get() : nullptr;
    o.average = average_ ? average_->get() : nullptr;
    o.resume = resume_.empty() ? nullptr : resume_.c_str();
    return detail::check(use(&o));
  }

 private:
  template <class Set> FitOptions &own(Set &&set)
  {
    detail::Moments m;
    set(m);
    return add([m] { return detail::Moments::callback(m); });
  }
  FitOptions &add(std::function<cn_callback()> make)
  {
    callbacks_.push_back(std::move(make));
    return *this;
  }
  static cn_tensor *call_loss(cn_tensor *output, const cn_batch *batch, void *payload)
  {
    cn_tensor *loss = nullptr;
    detail::guarded([&] {
      const auto &fn = *static_cast<const LossFn *>(payload);
      loss = detail::lend(fn(Tensor::keep(output), detail::kept(batch->v, batch->n)));
      return 0;
    });
    return loss;
  }

  int64_t epochs_ = 1, accumulate_ = 0;
  std::optional<DataLoader> validation_;
  LossFn loss_;
  AnyModule loss_module_;
  std::vector<Metric> metrics_;
  std::vector<std::function<cn_callback()>> callbacks_; /* made anew for each fit, which frees them */
  std::optional<Scheduler> schedule_;
  bool each_batch_ = false;
  std::string plateau_, resume_;
  double clip_norm_ = 0;
  DType autocast_ = CN_DTYPE_NONE;
  std::optional<GradScaler> scaler_;
  std::optional<AveragedModel> average_;
};

/* Trains net; false when a callback stopped it early. */
template <class M> bool fit(M &net, const Optimizer &opt, DataLoader &train, const FitOptions &options = {})
{
  cn_module *module = detail::bind_module(net);
  return options.with([&](const cn_fit_opts *o) { return cn_fit_with(module, opt.get(), train.get(), o); }) == 0;
}

/* The mean loss over a loader, in evaluation mode; metrics of the options are filled. */
template <class M> double evaluate(M &net, DataLoader &loader, const FitOptions &options = {})
{
  cn_module *module = detail::bind_module(net);
  double loss = 0;
  options.with([&](const cn_fit_opts *o) { return cn_evaluate_with(&loss, module, loader.get(), o); });
  return loss;
}

/* Outputs for all samples, one after the other. */
template <class M> Tensor predict(M &net, DataLoader &loader)
{
  cn_module *module = detail::bind_module(net);
  detail::Scope scope;
  return Tensor::keep(detail::check(cn_predict(module, loader.get())));
}

/* ---- checkpoints: all that a run needs to go on, bit for bit ---- */
class Run {
 public:
  Run &net(const Module &value) { run_.net = value.get(); return *this; }
  Run &optimizer(const Optimizer &value) { run_.opt = value.get(); return *this; }
  Run &schedule(const Scheduler &value) { run_.schedule = value.get(); return *this; }
  Run &loader(const DataLoader &value) { run_.loader = value.get(); return *this; }
  Run &scaler(const GradScaler &value) { run_.scaler = value.get(); return *this; }
  Run &average(const AveragedModel &value) { run_.average = value.get(); return *this; }
  Run &epoch(int64_t value) { run_.epoch = value; return *this; }
  Run &step(int64_t value) { run_.step = value; return *this; }
  int64_t epoch() const { return run_.epoch; }
  int64_t step() const { return run_.step; }
  void save(const std::string &path, TreeView extra = {}) const
  {
    detail::check(cn_run_save(path.c_str(), &run_, extra.get()));
  }
  Tree load(const std::string &path)
  {
    cn_tree *extra = nullptr;
    detail::check(cn_run_load(path.c_str(), &run_, &extra));
    return extra ? Tree(extra) : Tree();
  }

 private:
  cn_run run_ = {};
};

}  // namespace cn

#endif
