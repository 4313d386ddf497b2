/* events.hpp: logs that TensorBoard reads. */
#ifndef CAIRN_EVENTS_HPP
#define CAIRN_EVENTS_HPP

#include <cairn/events.h>
#include <cairn/module.hpp>

#include <map>

namespace cn {

class SummaryWriter {
 public:
  explicit SummaryWriter(const std::string &folder)
      : events_(detail::check(cn_events_open(folder.c_str())), cn_events_close)
  {
  }
  void add_scalar(const std::string &tag, double value, int64_t step)
  {
    detail::check(cn_events_scalar(get(), tag.c_str(), value, step));
  }
  void add_histogram(const std::string &tag, const Tensor &values, int64_t step)
  {
    detail::check(cn_events_histogram(get(), tag.c_str(), values.get(), step));
  }
  void add_image(const std::string &tag, const Tensor &image, int64_t step)
  {
    detail::check(cn_events_image(get(), tag.c_str(), image.get(), step));
  }
  void add_text(const std::string &tag, const std::string &markdown, int64_t step)
  {
    detail::check(cn_events_text(get(), tag.c_str(), markdown.c_str(), step));
  }
  /* How many of each step's kind: tag/name is a line of its own. */
  void add_scalars(const std::string &tag, const std::map<std::string, double> &values, int64_t step)
  {
    for (const auto &value : values) add_scalar(tag + "/" + value.first, value.second, step);
  }
  void add_images(const std::string &tag, const Tensor &images, int64_t step) { add_image(tag, images, step); }
  void add_pr_curve(const std::string &tag, const Tensor &labels, const Tensor &predictions, int64_t step)
  {
    detail::check(cn_events_pr_curve(get(), tag.c_str(), labels.get(), predictions.get(), step));
  }
  /* Points (N, D) for the projector, with a label and a picture (N, C, H, W) for each if given. */
  void add_embedding(const std::string &tag, const Tensor &points, const std::vector<std::string> &labels = {},
                     const Tensor &images = {}, int64_t step = 0)
  {
    std::vector<const char *> names;
    for (const std::string &label : labels) names.push_back(label.c_str());
    if (!names.empty() && static_cast<int64_t>(names.size()) != points.size(0))
      throw ValueError("add_embedding: one label for each point is needed");
    detail::check(cn_events_embedding(get(), tag.c_str(), points.get(), names.empty() ? nullptr : names.data(),
                                      images.get(), step));
  }
  template <class M> void add_graph(M &net, const std::vector<Tensor> &inputs)
  {
    detail::check(cn_events_graph(get(), detail::bind_module(net), detail::pointers(inputs.data()), inputs.size()));
  }
  void add_hparams(TreeView settings, TreeView figures)
  {
    detail::check(cn_events_hparams(get(), settings.get(), figures.get()));
  }
  /* What earlier files of the folder say of this step and later ones is void. */
  void restart(int64_t step) { detail::check(cn_events_restart(get(), step)); }
  void flush() { detail::check(cn_events_flush(get())); }
  void close() { events_.reset(); }
  cn_events *get() const noexcept { return events_.get(); }

 private:
  std::shared_ptr<cn_events> events_;
};

}  // namespace cn

#endif
