/* data.hpp: data sets, loaders with range-for, transforms, images, tokenizers.
 *
 *     auto train = cn::digits(cn::Train).map(cn::transforms::normalize({0.13}, {0.31}));
 *     cn::DataLoader loader(train, cn::DataLoaderOptions().batch_size(64).shuffle(true).workers(2));
 *     for (const cn::Batch &batch : loader) { ... batch.data, batch.target ... }
 *
 * Place in the flow: tensors below, training above. Data sets are counted: a copy is the same set. */
#ifndef CAIRN_DATA_HPP
#define CAIRN_DATA_HPP

#include <cairn/data.h>
#include <cairn/io.hpp>

#include <iterator>

namespace cn {

inline constexpr cn_part Train = CN_TRAIN, Test = CN_TEST, All = CN_ALL;

/* One sample: its fields; by convention data, then target. */
struct Sample {
  Sample() = default;
  Sample(const Tensor &x) : fields{x} {}
  Sample(const Tensor &x, const Tensor &y) : fields{x, y} {}
  Sample(std::vector<Tensor> all) : fields(std::move(all)) {}
  Sample(const std::pair<Tensor, Tensor> &pair) : fields{pair.first, pair.second} {}
  Tensor data() const { return at(0); }
  Tensor target() const { return at(1); }
  Tensor at(size_t i) const { return i < fields.size() ? fields[i] : Tensor(); }

  std::vector<Tensor> fields;
};

/* Random numbers of one sample in one epoch, the same whoever asks. */
class Draws {
 public:
  explicit Draws(cn_draws *draws) : draws_(draws) {}
  double uniform() { return cn_draw_uniform(draws_); }
  int64_t below(int64_t n) { return cn_draw_below(draws_, n); }
  double normal() { return cn_draw_normal(draws_); }

 private:
  cn_draws *draws_;
};

namespace detail {

inline void fill(cn_sample *to, const Sample &from)
{
  if (from.fields.size() > CN_SAMPLE_FIELDS) throw Error(CN_ERR_VALUE, "a sample has too many fields");
  cn_sample_clear(to);
  for (const Tensor &t : from.fields) to->v[to->n++] = cn_keep(t.get());
}

/* Frees what a data set holds, when it goes. */
template <class T> void destroy(void *data) { delete static_cast<T *>(data); }

template <class T> cn_dataset_class dataset_class()
{
  cn_dataset_class c = {};
  c.name = "C++";
  c.length = [](void *data) {
    int64_t n = 0;
    int status = guarded([&] { return n = static_cast<int64_t>(static_cast<T *>(data)->size()), 0; });
    return status ? int64_t(status) : n;
  };
  c.get = [](cn_sample *sample, void *data, int64_t index, cn_draws *) {
    return guarded([&] { return sample->n = 0, fill(sample, Sample(static_cast<T *>(data)->get(index))), 0; });
  };
  c.free = destroy<T>;
  return c;
}

}  // namespace detail

/* ---- transforms: of the image in field 0, as in torchvision ---- */
class Transform {
 public:
  explicit Transform(cn_transform *t) : t_(detail::check(t), cn_transform_free) {}
  Transform(std::function<Tensor(const Tensor &image)> fn)
  {
    using Fn = std::function<Tensor(const Tensor &)>;
    auto call = [](cn_tensor *image, cn_draws *, void *payload) -> cn_tensor * {
      cn_tensor *made = nullptr;
      detail::guarded([&] {
        made = detail::lend((*static_cast<Fn *>(payload))(Tensor::keep(image)));
        return 0;
      });
      return made;
    };
    t_.reset(detail::check(cn_transform_new(+call, new Fn(std::move(fn)), detail::destroy<Fn>)), cn_transform_free);
  }
  Tensor operator()(const Tensor &image) const
  {
    detail::Scope scope;
    return Tensor::keep(detail::check(cn_transform_apply(t_.get(), image.get(), nullptr)));
  }

  /* For C, which takes it over: what it is given goes on pointing to this one. */
  cn_transform *lend() const
  {
    using Shared = std::shared_ptr<cn_transform>;
    auto call = [](cn_tensor *image, cn_draws *draws, void *payload) -> cn_tensor * {
      return cn_transform_apply(static_cast<Shared *>(payload)->get(), image, draws);
    };
    return detail::check(cn_transform_new(+call, new Shared(t_), detail::destroy<Shared>));
  }

 private:
  std::shared_ptr<cn_transform> t_;
};

namespace transforms {

inline Transform to_float() { return Transform(cn_transform_float()); }
inline Transform resize(int64_t height, int64_t width = 0) { return Transform(cn_transform_resize(height, width)); }
inline Transform center_crop(int64_t height, int64_t width)
{
  return Transform(cn_transform_center_crop(height, width));
}
inline Transform random_crop(int64_t height, int64_t width, int64_t padding = 0)
{
  return Transform(cn_transform_random_crop(height, width, padding));
}
inline Transform random_resized_crop(int64_t height, int64_t width, double min_scale = 0, double max_scale = 0)
{
  return Transform(cn_transform_random_resized_crop(height, width, min_scale, max_scale));
}
inline Transform random_flip(double horizontal = 0.5, double vertical = 0)
{
  return Transform(cn_transform_random_flip(horizontal, vertical));
}
inline Transform random_rotation(double degrees) { return Transform(cn_transform_random_rotation(degrees)); }
inline Transform random_affine(double degrees, double translate = 0, double min_scale = 0, double max_scale = 0,
                               double shear = 0)
{
  return Transform(cn_transform_random_affine(degrees, translate, min_scale, max_scale, shear));
}
inline Transform color_jitter(double brightness, double contrast = 0, double saturation = 0, double hue = 0)
{
  return Transform(cn_transform_color_jitter(brightness, contrast, saturation, hue));
}
inline Transform normalize(Floats mean, Floats std)
{
  if (mean.size() != std.size()) throw Error(CN_ERR_VALUE, "normalize: as many means as deviations are needed");
  return Transform(cn_transform_normalize(mean.data(), std.data(), mean.size()));
}
inline Transform random_erasing(double probability = 0.5)
{
  return Transform(cn_transform_random_erasing(probability));
}
inline Transform grayscale(int channels = 1) { return Transform(cn_transform_grayscale(channels)); }

}  // namespace transforms

/* ---- data sets ---- */
class Dataset {
 public:
  Dataset() noexcept = default;
  explicit Dataset(cn_dataset *set) : set_(detail::check(set)) {} /* takes the reference over */
  Dataset(const Dataset &other) noexcept : set_(other.set_ ? cn_dataset_keep(other.set_) : nullptr) {}
  Dataset(Dataset &&other) noexcept : set_(std::exchange(other.set_, nullptr)) {}
  Dataset &operator=(Dataset other) noexcept
  {
    std::swap(set_, other.set_);
    return *this;
  }
  ~Dataset()
  {
    if (set_) cn_dataset_free(set_);
  }

  /* A set of a program's own: any object with size() and get(i), which gives a Sample, a pair of tensors or a tensor.
   * Workers call get side by side. */
  template <class T> static Dataset of(T source)
  {
    static const cn_dataset_class table = detail::dataset_class<T>();
    return Dataset(cn_dataset_new(&table, new T(std::move(source))));
  }

  int64_t size() const { return cn_dataset_length(set_); }
  Sample get(int64_t i) const
  {
    cn_sample s;
    detail::check(cn_dataset_get(&s, set_, i));
    Sample found(detail::kept(s.v, s.n));
    cn_sample_clear(&s);
    return found;
  }
  std::string label(size_t i) const
  {
    const char *text = cn_dataset_label(set_, i);
    return text ? text : "";
  }

  Dataset map(const Transform &transform) const { return Dataset(cn_dataset_transform(share(), transform.lend())); }
  Dataset map(std::function<Sample(Sample)> fn) const
  {
    return map([fn = std::move(fn)](Sample s, Draws &) { return fn(std::move(s)); });
  }
  Dataset map(std::function<Sample(Sample, Draws &)> fn) const
  {
    using Fn = std::function<Sample(Sample, Draws &)>;
    auto call = [](cn_sample *sample, cn_draws *draws, void *payload) {
      return detail::guarded([&] {
        Draws numbers(draws);
        detail::fill(sample, (*static_cast<Fn *>(payload))(Sample(detail::kept(sample->v, sample->n)), numbers));
        return 0;
      });
    };
    return Dataset(cn_dataset_map(share(), +call, new Fn(std::move(fn)), detail::destroy<Fn>));
  }
  Dataset subset(Ints indices) const { return Dataset(cn_dataset_subset(share(), indices.data(), indices.size())); }
  Dataset range(int64_t begin, int64_t end) const { return Dataset(cn_dataset_range(share(), begin, end)); }
  std::vector<Dataset> random_split(const std::vector<int64_t> &sizes, uint64_t seed) const
  {
    std::vector<cn_dataset *> parts(sizes.size());
    detail::check(cn_dataset_split(parts.data(), set_, sizes.data(), sizes.size(), seed));
    std::vector<Dataset> made;
    for (cn_dataset *part : parts) made.emplace_back(part);
    return made;
  }

  cn_dataset *get() const noexcept { return set_; }
  cn_dataset *share() const { return cn_dataset_keep(set_); } /* one more reference, for C to take over */

 private:
  cn_dataset *set_ = nullptr;
};

inline Dataset concat(const std::vector<Dataset> &sets)
{
  std::vector<cn_dataset *> given;
  for (const Dataset &set : sets) given.push_back(set.share());
  return Dataset(cn_dataset_concat(given.data(), given.size()));
}

/* Row i of each tensor. */
inline Dataset tensor_dataset(const std::vector<Tensor> &tensors)
{
  return Dataset(cn_dataset_tensors(detail::pointers(tensors.data()), tensors.size()));
}
inline Dataset digits(cn_part part = CN_TRAIN) { return Dataset(cn_digits(part)); } /* 8 x 8 pixels, compiled in */
/* IDX files as MNIST has them, gzipped or not. */
inline Dataset idx(const std::string &images, const std::string &labels)
{
  return Dataset(cn_idx(images.c_str(), labels.c_str()));
}
inline Dataset cifar(const std::vector<std::string> &files, int classes = 10)
{
  std::vector<const char *> names;
  for (const std::string &file : files) names.push_back(file.c_str());
  return Dataset(cn_cifar(names.data(), names.size(), classes));
}
struct CsvOptions {
  CsvOptions &delimiter(char value) { delimiter_ = value; return *this; }
  CsvOptions &header(bool value) { header_ = value; return *this; }
  CsvOptions &target(const std::string &value) { target_ = value; return *this; }
  CsvOptions &target_classes(bool value) { target_classes_ = value; return *this; }

  char delimiter_ = 0;
  bool header_ = false, target_classes_ = false;
  std::optional<std::string> target_;
};
inline Dataset csv(const std::string &path, const CsvOptions &options = {})
{
  cn_csv_opts o = detail::opts<cn_csv_opts>();
  o.delimiter = options.delimiter_;
  o.header = options.header_;
  o.target = options.target_ ? options.target_->c_str() : nullptr;
  o.target_classes = options.target_classes_;
  return Dataset(cn_csv_with(path.c_str(), &o));
}
inline Dataset image_folder(const std::string &path) { return Dataset(cn_image_folder(path.c_str())); }
inline Dataset token_file(const std::string &path, DType dtype, int64_t length, int64_t stride = 0)
{
  return Dataset(cn_token_file(path.c_str(), dtype, length, stride));
}
inline Dataset token_tensor(const Tensor &tokens, int64_t length, int64_t stride = 0)
{
  return Dataset(cn_token_tensor(tokens.get(), length, stride));
}

/* ---- loader ---- */
/* Samples stacked along a new first dimension. */
struct Batch {
  Tensor data, target; /* fields 0 and 1 */
  std::vector<Tensor> fields;
  int64_t size = 0, number = 0, epoch = 0;
};

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

  cn_loader_opts o_ = detail::opts<cn_loader_opts>();
};

class DataLoader {
 public:
  explicit DataLoader(const Dataset &set, const DataLoaderOptions &options = {})
      : state_(std::make_shared<State>(detail::check(cn_loader_new_with(set.share(), &options.o_))))
  {
  }

  /* One pass: for (const Batch &batch : loader). A loop that was left early begins anew with the next epoch. */
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using pointer = const Batch *;
    using reference = const Batch &;
    Iterator() = default;
    explicit Iterator(DataLoader *loader) : loader_(loader) { ++*this; }
    const Batch &operator*() const { return batch_; }
    const Batch *operator->() const { return &batch_; }
    Iterator &operator++()
    {
      if (!loader_->next(batch_)) loader_ = nullptr;
      return *this;
    }
    bool operator==(const Iterator &other) const { return loader_ == other.loader_; }
    bool operator!=(const Iterator &other) const { return loader_ != other.loader_; }

   private:
    DataLoader *loader_ = nullptr;
    Batch batch_;
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
    explicit State(cn_loader *made) : loader(made) {}
    ~State() { cn_loader_free(loader); }
    State(const State &) = delete;
    State &operator=(const State &) = delete;
    cn_loader *loader;
    bool within = false; /* an epoch was begun and not ended */
  };
  std::shared_ptr<State> state_;
};

/* ---- images and sound ---- */
namespace image {

inline Tensor load(const std::string &path, int channels = 0)
{
  detail::Scope scope;
  return Tensor::keep(detail::check(cn_image_load(path.c_str(), channels)));
}
inline void save(const Tensor &picture, const std::string &path)
{
  detail::check(cn_image_save(path.c_str(), picture.get()));
}
inline Tensor resize(const Tensor &picture, int64_t height, int64_t width)
{
  detail::Scope scope;
  return Tensor::keep(detail::check(cn_image_resize(picture.get(), height, width)));
}

}  // namespace image

/* ---- text ---- */
class Tokenizer {
 public:
  static Tokenizer bytes() { return Tokenizer(cn_tokenizer_bytes()); }
  static Tokenizer chars(const std::string &text) { return Tokenizer(cn_tokenizer_chars(text.data(), text.size())); }
  static Tokenizer bpe(const std::string &vocab, const std::string &merges)
  {
    return Tokenizer(cn_tokenizer_bpe(vocab.c_str(), merges.c_str()));
  }
  static Tokenizer wordpiece(const std::string &vocab, bool lower = true)
  {
    return Tokenizer(cn_tokenizer_wordpiece(vocab.c_str(), lower));
  }
  static Tokenizer json(const std::string &path) { return Tokenizer(cn_tokenizer_json(path.c_str())); }

  int64_t size() const { return cn_tokenizer_size(get()); }
  Tensor encode(const std::string &text, bool special = false) const
  {
    detail::Scope scope;
    return Tensor::keep(detail::check(cn_tokenizer_encode(get(), text.data(), text.size(), special)));
  }
  std::string decode(const Tensor &tokens, bool skip_special = true) const
  {
    return detail::take(cn_tokenizer_decode(get(), tokens.get(), skip_special));
  }
  int64_t id(const std::string &token) const { return cn_tokenizer_id(get(), token.c_str()); } /* -1: none */
  cn_tokenizer *get() const noexcept { return t_.get(); }

 private:
  explicit Tokenizer(cn_tokenizer *t) : t_(detail::check(t), cn_tokenizer_free) {}
  std::shared_ptr<cn_tokenizer> t_;
};

}  // namespace cn

#endif
