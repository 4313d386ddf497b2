/* recording.hpp: owners of a device's recorded work, of profiles and of kernels of a program's own. See
 * cairn/recording.h, cairn/profile.h and cairn/code.h.
 *
 *     cn::RecordingPool pool("cuda");
 *     cn::Recording step(pool, [&] { y = net(x); });   // recorded, not run
 *     step.replay();
 *
 * Place in the flow: beside system.hpp. Invariant: what was begun is ended by whoever owns it, also when the work
 * throws. */
#ifndef CAIRN_RECORDING_HPP
#define CAIRN_RECORDING_HPP

#include <cairn/code.h>
#include <cairn/device.h>
#include <cairn/profile.h>
#include <cairn/recording.h>
#include <cairn/tensor.hpp>

namespace cn {

/* Memory for recordings. */
class RecordingPool {
 public:
  explicit RecordingPool(Device device)
      : pool_(detail::check(cn_recording_pool_new(device.number())), cn_recording_pool_free)
  {
  }
  cn_recording_pool *get() const noexcept { return pool_.get(); }

 private:
  std::shared_ptr<cn_recording_pool> pool_;
};

/* What `work` queues on the pool's device, kept instead of run. */
class Recording {
 public:
  template <class F> Recording(const RecordingPool &pool, F &&work)
      : recording_(detail::check(cn_recording_begin(pool.get())), cn_recording_free)
  {
    work(); /* if it throws, the recording is dropped */
    detail::check(cn_recording_end(recording_.get()));
  }
  void replay() const { detail::check(cn_recording_replay(recording_.get())); }
  cn_recording *get() const noexcept { return recording_.get(); }

 private:
  std::shared_ptr<cn_recording> recording_;
};

/* Times of ops, from here to end(). */
class Profile {
 public:
  explicit Profile(unsigned what = CN_PROFILE_DEVICES)
      : profile_(detail::check(cn_profile_begin(what)), cn_profile_free)
  {
  }
  void end() { detail::check(cn_profile_end(profile_.get())); }
  size_t size() const noexcept { return cn_profile_count(profile_.get()); }
  cn_profile_entry operator[](size_t i) const /* its texts live as long as the profile */
  {
    cn_profile_entry entry = detail::opts<cn_profile_entry>();
    detail::check(cn_profile_at(&entry, profile_.get(), i));
    return entry;
  }

 private:
  std::shared_ptr<cn_profile> profile_;
};

/* A kernel of the program's own, in the device's language. */
class Code {
 public:
  Code(Device device, const std::string &text, const std::string &entry, const std::string &options = "")
      : code_(detail::check(cn_code_new(device.number(), text.c_str(), entry.c_str(),
                                        options.empty() ? nullptr : options.c_str())),
              cn_code_free)
  {
  }
  void run(const cn_code_launch &launch, void *const *arguments) const
  {
    detail::check(cn_code_run(code_.get(), &launch, arguments));
  }

 private:
  std::shared_ptr<cn_code> code_;
};

}  // namespace cn

#endif
