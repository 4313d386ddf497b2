/* description.hpp: files that describe a net, its data and how it is trained: docs/DESCRIPTION_FILES.md.
 *
 * Place in the flow: the top, on train.hpp. Invariant: a Description owns its handle; what it makes owns itself. */
#ifndef CAIRN_DESCRIPTION_HPP
#define CAIRN_DESCRIPTION_HPP

#include <cairn/train.hpp>

namespace cn {

class Description {
 public:
  static Description open(const std::string &path) { return Description(cn_description_open(path.c_str())); }
  /* name: for errors, which name it and the line. */
  static Description parse(const std::string &text, const std::string &name = "description")
  {
    return Description(cn_description_read(text.data(), text.size(), name.c_str()));
  }
  /* A setting of a section: get("solver", "lr").as_double(); absent where the file says nothing. */
  TreeView get(const std::string &section, const std::string &key) const
  {
    return cn_description_get(get(), section.c_str(), key.c_str());
  }
  /* As a file writes it. */
  void set(const std::string &section, const std::string &key, const std::string &value)
  {
    detail::check(cn_description_set(get(), section.c_str(), key.c_str(), value.c_str()));
  }
  void remove(const std::string &section, const std::string &key)
  {
    detail::check(cn_description_set(get(), section.c_str(), key.c_str(), nullptr));
  }
  std::string str() const { return detail::take(cn_description_to_string(get())); }

  /* ---- the parts ---- */
  AnyModule net() const { return AnyModule(detail::Made{detail::check(cn_description_net(get()))}); }
  AnyModule loss() const { return AnyModule(detail::Made{detail::check(cn_description_loss(get()))}); }
  Dataset data(cn_part part = CN_TRAIN) const { return Dataset(cn_description_data(get(), part)); }
  Transform transform(cn_part part = CN_TRAIN) const { return Transform(cn_description_transform(get(), part)); }
  Tokenizer tokenizer() const { return Tokenizer(cn_description_tokenizer(get())); }
  Optimizer optimizer(const Module &net) const { return Optimizer(cn_description_optim(get(), net.get())); }
  /* None where the file has none. batches: in an epoch. each_batch: whether it steps with each of them. */
  std::optional<Scheduler> schedule(const Optimizer &optimizer, int64_t batches, bool *each_batch = nullptr) const
  {
    bool room = false;
    cn_schedule *made = cn_description_schedule(get(), optimizer.get(), batches, each_batch ? each_batch : &room);
    if (!made && cn_err()) detail::raise(cn_err());
    return made ? std::optional<Scheduler>(Scheduler(optimizer, made)) : None;
  }
  cn_description *get() const noexcept { return description_.get(); }

 private:
  explicit Description(cn_description *d) : description_(detail::check(d), cn_description_free) {}
  std::shared_ptr<cn_description> description_;
};

}  // namespace cn

#endif
