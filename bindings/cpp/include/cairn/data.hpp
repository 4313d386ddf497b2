/* data.hpp: data sets; with it come loaders with range-for (loader.hpp), transforms, images and tokenizers (media.hpp).
 *
 *     auto train = cn::digits(cn::Train).map(cn::transforms::normalize({0.13}, {0.31}));
 *     cn::DataLoader loader(train, cn::DataLoaderOptions().batch_size(64).shuffle(true).workers(2));
 *     for (const cn::Batch &batch : loader) { ... batch.data, batch.target ... }
 *
 * Place in the flow: tensors below, training above. Data sets are counted: a copy is the same set. */
#ifndef CAIRN_DATA_HPP
#define CAIRN_DATA_HPP

#include <cairn/transforms.hpp>

namespace cn {

namespace detail {

inline void fill(cn_sample *to, const Sample &from)
{
  if (from.fields.size() > CN_SAMPLE_FIELDS) throw ValueError("a sample has too many fields");
  cn_sample_clear(to);
  for (const Tensor &t : from.fields) to->v[to->n++] = cn_keep(t.get());
}

/* Sizes that a data set of a program's own returns: a number, or an optional one. */
template <class N> int64_t as_size(const N &n)
{
  if constexpr (std::is_integral_v<N>) return static_cast<int64_t>(n);
  else return n ? static_cast<int64_t>(*n) : throw ValueError("a data set must know its size");
}

/* The number of a sample, of whichever type get wants it. */
struct Position {
  int64_t i;
  template <class T, class = std::enable_if_t<std::is_integral_v<T>>> operator T() const { return static_cast<T>(i); }
};

template <class T> auto is_source(int)
    -> decltype(std::declval<T &>().size(), Sample(std::declval<T &>().get(Position{0})), std::true_type());
template <class T> std::false_type is_source(...);

template <class T> cn_dataset_class dataset_class()
{
  cn_dataset_class c = {};
  c.size = sizeof c;
  c.name = "C++";
  c.length = [](void *data) {
    int64_t n = 0;
    int status = guarded([&] { return n = as_size(static_cast<T *>(data)->size()), 0; });
    return status ? int64_t(status) : n;
  };
  c.get = [](cn_sample *sample, void *data, int64_t index, cn_draws *) {
    return guarded([&] {
      sample->n = 0;
      fill(sample, Sample(static_cast<T *>(data)->get(Position{index})));
      return 0;
    });
  };
  c.free = destroy<T>;
  return c;
}

}  // namespace detail

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
    if (set_) cn_dataset_release(set_);
  }

  /* A set of a program's own: any object with size() and get(i), which gives a Sample, a pair of tensors or a tensor.
   * Workers call get side by side. */
  template <class T> static Dataset of(T source)
  {
    static const cn_dataset_class table = detail::dataset_class<T>();
    return Dataset(cn_dataset_new(&table, detail::give(std::move(source))));
  }
  /* The same without a word, where a data set is wanted: DataLoader loader(Squares{}, 10). */
  template <class T, class = std::enable_if_t<decltype(detail::is_source<T>(0))::value &&
                                              !std::is_base_of_v<Dataset, T>>>
  Dataset(T source) : Dataset(of(std::move(source)))
  {
  }

  int64_t size() const { return cn_dataset_length(set_); }
  Sample get(int64_t i) const
  {
    cn_sample s;
    detail::check(cn_dataset_get(&s, set_, i));
    Sample found;
    for (size_t k = 0; k < s.n; k++) found.fields.push_back(Tensor::own(s.v[k]));
    return found;
  }
  std::string label(size_t i) const
  {
    const char *text = cn_dataset_label(set_, i);
    return text ? text : "";
  }

  std::string name() const { return cn_dataset_name(set_); }
  void set_labels(const std::vector<std::string> &labels)
  {
    std::vector<const char *> names;
    for (const std::string &label : labels) names.push_back(label.c_str());
    detail::check(cn_dataset_set_labels(set_, names.data(), names.size()));
  }

  Dataset map(const Transform &transform) const { return Dataset(cn_dataset_transform(share(), transform.lend())); }
  /* A function of samples, or of tensors: the data; it may take Draws besides. */
  template <class F, class = std::enable_if_t<!std::is_convertible_v<F, Transform>>> Dataset map(F fn) const
  {
    auto call = [](cn_sample *sample, cn_draws *draws, void *payload) {
      return detail::guarded([&] {
        F &own = *static_cast<F *>(payload);
        Draws numbers(draws);
        Sample given(detail::kept(sample->v, sample->n));
        if constexpr (std::is_invocable_v<F &, Sample, Draws &>) detail::fill(sample, own(std::move(given), numbers));
        else detail::fill(sample, own(std::move(given)));
        return 0;
      });
    };
    return Dataset(cn_dataset_map(share(), +call, detail::give(std::move(fn)), detail::destroy<F>));
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
/* The tensors of a file: x, y, or in its order. */
inline Dataset dataset_file(const std::string &path) { return Dataset(cn_dataset_load(path.c_str())); }
inline Dataset digits(cn_part part = CN_TRAIN) { return Dataset(cn_digits(part)); } /* 8 x 8 pixels, compiled in */
/* IDX files as MNIST has them, gzipped or not. */
inline Dataset idx(const std::string &images, const std::string &labels)
{
  return Dataset(cn_idx(images.c_str(), labels.c_str()));
}
/* The files of MNIST in a folder, under their own names, gzipped or not. */
inline Dataset mnist(const std::string &folder, cn_part part = CN_TRAIN)
{
  const std::string prefix = part == CN_TEST ? "t10k-" : "train-";
  auto file = [&](const std::string &kind) {
    const std::string plain = folder + "/" + prefix + kind + "-ubyte";
    return cn_path_kind_of(plain.c_str()) == CN_PATH_FILE ? plain : plain + ".gz";
  };
  return idx(file("images-idx3"), file("labels-idx1"));
}
/* One IDX file as it is. */
inline Tensor load_idx(const std::string &path)
{
  detail::Scope scope;
  return Tensor::keep(detail::check(cn_load_idx(path.c_str())));
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

}  // namespace cn

#include <cairn/loader.hpp>
#include <cairn/media.hpp>

#endif
