/* transforms.hpp: samples, and what is done to the image in them, as in torchvision.
 *
 * Place in the flow: tensors below, data sets above. Invariant: a transform is a shared handle, or a lambda in one:
 * set.map(cn::transforms::normalize({0.13}, {0.31})), set.map([](const cn::Tensor &x) { return 1 - x; }). */
#ifndef CAIRN_TRANSFORMS_HPP
#define CAIRN_TRANSFORMS_HPP

#include <cairn/data.h>
#include <cairn/io.hpp>

namespace cn {

inline constexpr cn_part Train = CN_TRAIN, Test = CN_TEST, All = CN_ALL;

/* One sample: its fields; by convention data, then target. */
struct Sample {
  Sample() = default;
  Sample(const Tensor &x) : fields{x} {}
  Sample(const Tensor &x, const Tensor &y) : fields{x, y} {}
  Sample(std::vector<Tensor> all) : fields(std::move(all)) {}
  Sample(const std::pair<Tensor, Tensor> &pair) : fields{pair.first, pair.second} {}
  Sample(const std::tuple<Tensor, Tensor> &pair) : fields{std::get<0>(pair), std::get<1>(pair)} {}
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
  cn_draws *get() const noexcept { return draws_; }

 private:
  cn_draws *draws_;
};

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
    take(cn_transform_new(+call, detail::give(std::move(fn)), detail::destroy<Fn>));
  }
  /* One that draws random numbers, the same for a sample whoever asks. */
  Transform(std::function<Tensor(const Tensor &image, Draws &draws)> fn)
  {
    using Fn = std::function<Tensor(const Tensor &, Draws &)>;
    auto call = [](cn_tensor *image, cn_draws *draws, void *payload) -> cn_tensor * {
      cn_tensor *made = nullptr;
      detail::guarded([&] {
        Draws numbers(draws);
        made = detail::lend((*static_cast<Fn *>(payload))(Tensor::keep(image), numbers));
        return 0;
      });
      return made;
    };
    take(cn_transform_new(+call, detail::give(std::move(fn)), detail::destroy<Fn>));
  }
  template <class F, class = std::enable_if_t<std::is_invocable_r_v<Tensor, F, const Tensor &> ||
                                              std::is_invocable_r_v<Tensor, F, const Tensor &, Draws &>>,
            class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, Transform>>>
  Transform(F fn) : Transform(as_function(std::move(fn)))
  {
  }
  Tensor operator()(const Tensor &image) const
  {
    detail::Scope scope;
    return Tensor::keep(detail::check(cn_transform_apply(t_.get(), image.get(), nullptr)));
  }
  Tensor operator()(const Tensor &image, Draws &draws) const
  {
    detail::Scope scope;
    return Tensor::keep(detail::check(cn_transform_apply(t_.get(), image.get(), draws.get())));
  }

  /* For C, which takes it over: what it is given goes on pointing to this one. */
  cn_transform *lend() const
  {
    using Shared = std::shared_ptr<cn_transform>;
    auto call = [](cn_tensor *image, cn_draws *draws, void *payload) -> cn_tensor * {
      return cn_transform_apply(static_cast<Shared *>(payload)->get(), image, draws);
    };
    return detail::check(
        cn_transform_new(+call, detail::give(t_), detail::destroy<Shared>));
  }

 private:
  template <class F> static auto as_function(F fn)
  {
    if constexpr (std::is_invocable_r_v<Tensor, F, const Tensor &>)
      return std::function<Tensor(const Tensor &)>(std::move(fn));
    else return std::function<Tensor(const Tensor &, Draws &)>(std::move(fn));
  }
  void take(cn_transform *made) { t_.reset(detail::check(made), cn_transform_free); }

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
  if (mean.size() != std.size()) throw ValueError("normalize: as many means as deviations are needed");
  return Transform(cn_transform_normalize(mean.data(), std.data(), mean.size()));
}
inline Transform random_erasing(double probability = 0.5)
{
  return Transform(cn_transform_random_erasing(probability));
}
inline Transform grayscale(int channels = 1) { return Transform(cn_transform_grayscale(channels)); }
/* One after the other. */
inline Transform compose(const std::vector<Transform> &list)
{
  return Transform(std::function<Tensor(const Tensor &, Draws &)>([list](const Tensor &image, Draws &draws) {
    Tensor now = image;
    for (const Transform &t : list) now = t(now, draws);
    return now;
  }));
}

}  // namespace transforms

}  // namespace cn

#endif
