/* events.hpp: logs that TensorBoard reads. */
#ifndef CAIRN_EVENTS_HPP
#define CAIRN_EVENTS_HPP

#include <cairn/events.h>
#include <cairn/module.hpp>

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
  template <class M> void add_graph(M &net, const std::vector<Tensor> &inputs)
  {
    detail::check(cn_events_graph(get(), detail::bind_module(net), detail::pointers(inputs.data()), inputs.size()));
  }
  void add_hparams(TreeView settings, TreeView figures)
  {
    detail::check(cn_events_hparams(get(), settings.get(), figures.get()));
  }
  void flush() { detail::check(cn_events_flush(get())); }
  void close() { events_.reset(); }
  cn_events *get() const noexcept { return events_.get(); }

 private:
  std::shared_ptr<cn_events> events_;
};

}  // namespace cn

#endif
