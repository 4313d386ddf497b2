/* loader.hpp: samplers and loaders of batches.
 *
 *     cn::DataLoader loader(train, cn::DataLoaderOptions(64).shuffle(true).workers(2));
 *     for (const cn::Batch &batch : loader) { ... batch.data, batch.target ... }
 *
 * Place in the flow: data sets below, training above. A loader is a shared handle. Functions of a program's own
 * (orders, collate) are called by workers side by side. Invariant: they live as long as a loader that may call them. */
#include <cairn/data.hpp> /* which includes this file, in its place */
#ifndef CAIRN_LOADER_HPP
#define CAIRN_LOADER_HPP

#include <algorithm>
#include <iterator>

namespace cn {

/* Samples stacked along a new first dimension. */
struct Batch {
  Tensor data, target; /* fields 0 and 1 */
  std::vector<Tensor> fields;
  int64_t size = 0, number = 0, epoch = 0;
};

/* The order of samples in an epoch. It depends on its arguments alone, so that a run can be repeated:
 * Sampler(n, [](uint64_t seed, int64_t epoch) { return order; }). A copy is the same one. */
class Sampler {
 public:
  using Order = std::function<std::vector<int64_t>(uint64_t seed, int64_t epoch)>;

  /* n numbers of samples each time; throws in the loader when the function gives another count. */
  Sampler(int64_t n, Order order) : own_(std::make_shared<Own>(Own{n, std::move(order), {}})) {}
  /* Always the same order. */
  explicit Sampler(const std::vector<int64_t> &indices)
      : Sampler(static_cast<int64_t>(indices.size()), [indices](uint64_t, int64_t) { return indices; })
  {
  }
  /* Each sample as likely as its weight says. */
  static Sampler weighted(const std::vector<double> &weights, int64_t draws, bool replacement = true)
  {
    return Sampler(cn_sampler_weighted(weights.data(), weights.size(), draws, replacement));
  }
  /* The part of one of `world` hosts; give all of them the same seed. */
  static Sampler shard(int64_t length, int rank, int world, bool shuffle = true)
  {
    return Sampler(cn_sampler_shard(length, rank, world, shuffle));
  }
  int64_t size() const { return own_->size(); }
  std::vector<int64_t> order(uint64_t seed, int64_t epoch) const { return own_->order_of(seed, epoch); }

  /* For a loader, which takes it over. */
  cn_sampler lend() const
  {
    using Shared = std::shared_ptr<Own>;
    cn_sampler made = {};
    made.length = [](void *data) { return (*static_cast<Shared *>(data))->size(); };
    made.order = [](int64_t *indices, void *data, uint64_t seed, int64_t epoch) {
      return detail::guarded([&] {
        const std::vector<int64_t> order = (*static_cast<Shared *>(data))->order_of(seed, epoch);
        std::copy(order.begin(), order.end(), indices);
        return 0;
      });
    };
    made.free = detail::destroy<Shared>;
    made.data = detail::give(own_);
    return made;
  }

 private:
  struct Own {
    int64_t n;
    Order fn;
    cn_sampler c; /* or one of C's */
    ~Own()
    {
      if (c.free) c.free(c.data);
    }
    int64_t size() const { return c.length ? c.length(c.data) : n; }
    std::vector<int64_t> order_of(uint64_t seed, int64_t epoch) const
    {
      std::vector<int64_t> made(static_cast<size_t>(size()));
      if (!c.order) made = fn(seed, epoch);
      else detail::check(c.order(made.data(), c.data, seed, epoch));
      if (made.size() != static_cast<size_t>(size()))
        throw ValueError("Sampler: it gave " + std::to_string(made.size()) + " numbers, not " + std::to_string(size()));
      return made;
    }
  };
  explicit Sampler(cn_sampler c) : own_(new Own{0, {}, c}) {}

  std::shared_ptr<Own> own_;
};

/* Puts samples together: the fields of the batch. */
using Collate = std::function<Sample(const std::vector<Sample> &samples)>;

struct DataLoaderOptions {
  DataLoaderOptions(int64_t batch_size = 1) { o_.batch = batch_size; }
  DataLoaderOptions &batch_size(int64_t value) { o_.batch = value; return *this; }
  DataLoaderOptions &shuffle(bool value) { o_.shuffle = value; return *this; }
  DataLoaderOptions &drop_last(bool value) { o_.drop_last = value; return *this; }
  DataLoaderOptions &workers(int value) { o_.workers = value; return *this; }
  DataLoaderOptions &prefetch(int value) { o_.prefetch = value; return *this; }
  DataLoaderOptions &seed(uint64_t value) { o_.seed = value; return *this; }
  DataLoaderOptions &device(Device value) { o_.device = value.number(); return *this; }
  DataLoaderOptions &pad(bool value) { o_.collate = value ? cn_collate_pad : nullptr; return *this; }
  DataLoaderOptions &pin_memory(bool value) { o_.no_pin = !value; return *this; }
  DataLoaderOptions &sampler(const Sampler &value) { sampler_ = value; return *this; } /* instead of shuffle */
  DataLoaderOptions &collate(Collate value) { collate_ = std::move(value); return *this; }

  cn_loader_opts o_ = detail::opts<cn_loader_opts>();
  std::optional<Sampler> sampler_;
  Collate collate_;
};

class DataLoader {
 public:
  explicit DataLoader(const Dataset &set, const DataLoaderOptions &options = {})
      : state_(std::make_shared<State>(set, options))
  {
  }

  /* One pass: for (const Batch &batch : loader). A loop that was left early begins anew with the next epoch. */
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using pointer = Batch *;
    using reference = Batch &;
    Iterator() = default;
    explicit Iterator(DataLoader *loader) : loader_(loader) { ++*this; }
    Batch &operator*() const { return batch_; }
    Batch *operator->() const { return &batch_; }
    Iterator &operator++()
    {
      if (!loader_->next(batch_)) loader_ = nullptr;
      return *this;
    }
    bool operator==(const Iterator &other) const { return loader_ == other.loader_; }
    bool operator!=(const Iterator &other) const { return loader_ != other.loader_; }

   private:
    DataLoader *loader_ = nullptr;
    mutable Batch batch_; /* the loop's, to change as it likes */
  };
  Iterator begin()
  {
    if (state_->within) restart(epoch() + 1);
    return Iterator(this);
  }
  Iterator end() { return Iterator(); }
  /* The next batch; false when the epoch is over. */
  bool next(Batch &batch)
  {
    cn_batch b;
    state_->within = detail::check(cn_loader_next(&b, get())) == 1;
    if (!state_->within) return false;
    batch.fields = detail::kept(b.v, b.n);
    batch.data = Tensor::keep(b.x);
    batch.target = Tensor::keep(b.y);
    batch.size = b.size;
    batch.number = b.number;
    batch.epoch = b.epoch;
    return true;
  }

  int64_t size() const { return cn_loader_length(get()); } /* batches in an epoch */
  Dataset dataset() const { return Dataset(cn_dataset_keep(cn_loader_dataset(get()))); }
  int64_t dataset_size() const { return cn_dataset_length(cn_loader_dataset(get())); }
  int64_t epoch() const { return cn_loader_epoch(get()); }
  void restart(int64_t epoch)
  {
    detail::check(cn_loader_restart(get(), epoch));
    state_->within = false;
  }
  Tree state_dict() const { return Tree(cn_loader_state(get())); }
  void load_state_dict(TreeView state)
  {
    detail::check(cn_loader_load(get(), state.get()));
    state_->within = false; /* the next loop goes on where it was */
  }
  cn_loader *get() const noexcept { return state_->loader; }

 private:
  struct State {
    State(const Dataset &set, const DataLoaderOptions &options) : collate(options.collate_)
    {
      cn_loader_opts o = options.o_;
      cn_sampler sampler = {};
      if (options.sampler_) sampler = options.sampler_->lend();
      if (options.sampler_) o.sampler = &sampler;
      if (collate) o.collate = run_collate;
      if (collate) o.payload = this;
      loader = detail::check(cn_loader_new_with(set.share(), &o));
    }
    ~State() { cn_loader_free(loader); }
    static int run_collate(cn_batch *batch, const cn_sample *samples, size_t n, void *payload)
    {
      return detail::guarded([&] {
        std::vector<Sample> given;
        for (size_t i = 0; i < n; i++) given.emplace_back(detail::kept(samples[i].v, samples[i].n));
        const Sample made = static_cast<State *>(payload)->collate(given);
        if (made.fields.size() > CN_SAMPLE_FIELDS) throw ValueError("collate: a batch has too many fields");
        for (batch->n = 0; batch->n < made.fields.size(); batch->n++)
          batch->v[batch->n] = cn_keep(made.fields[batch->n].get());
        return 0;
      });
    }
    State(const State &) = delete;
    State &operator=(const State &) = delete;
    Collate collate;
    cn_loader *loader = nullptr;
    bool within = false; /* an epoch was begun and not ended */
  };
  std::shared_ptr<State> state_;
};

/* The loader on the heap, for programs that hold it by pointer: for (auto &batch : *loader). */
inline std::unique_ptr<DataLoader> make_data_loader(const Dataset &set, const DataLoaderOptions &options = {})
{
  return std::make_unique<DataLoader>(set, options);
}

}  // namespace cn

#endif
