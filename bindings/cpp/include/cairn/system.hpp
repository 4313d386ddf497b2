/* system.hpp: owners of what C's system headers hand out: files in memory, files written whole or not at all, folders,
 * the state of a thread, signatures; figures about memory and devices.
 *
 * Place in the flow: beside the rest; for programs that write readers, formats or languages of their own. Invariant:
 * what has an end (a file, a folder, a state) comes to it when its owner goes. */
#ifndef CAIRN_SYSTEM_HPP
#define CAIRN_SYSTEM_HPP

#include <cairn/ext/signature.h>
#include <cairn/ext/system.h>
#include <cairn/io.hpp>

#include <atomic>

namespace cn {

inline std::string version() { return cn_version(); }

/* Tensors that C lends in the block are let go at its end; cn::Tensor owns and needs none. */
using Scope = detail::Scope;

/* ---- memory and devices ---- */
inline cn_memory_stats memory_stats()
{
  cn_memory_stats stats = {};
  cn_memory_get_stats(&stats);
  return stats;
}
inline void trim_memory() { cn_memory_trim(); }
/* Of a device's own memory: what is counted there, a limit for this process (0: none), and giving back what is kept. */
inline cn_device_memory_stats memory_stats(Device device)
{
  cn_device_memory_stats stats = {};
  stats.size = sizeof stats;
  detail::check(cn_device_memory_get_stats(&stats, device.number()));
  return stats;
}
inline void set_memory_limit(Device device, size_t bytes)
{
  detail::check(cn_device_memory_set_limit(device.number(), bytes));
}
inline void trim_memory(Device device) { detail::check(cn_device_memory_trim(device.number())); }
inline void synchronize(Device device = {}) { detail::check(cn_device_sync(device.number())); }
/* A copy that a device reads by itself; x itself where there is no such memory. */
inline Tensor pin_memory(const Tensor &x, Device device = {})
{
  detail::Scope scope;
  return Tensor::keep(detail::check(cn_pin_memory(x.get(), device.number())));
}

/* ---- streams and events ---- */
/* A point in a stream. */
class Event {
 public:
  explicit Event(Device device = {}, bool timing = false)
      : event_(detail::check(cn_event_new(device.number(), timing)), cn_event_free)
  {
  }
  bool query() const { return detail::check(cn_event_query(get())) == 1; } /* passed, or never recorded */
  void synchronize() const { detail::check(cn_event_sync(get())); }
  double elapsed_time(const Event &end) const /* milliseconds from this one on */
  {
    double ms = 0;
    detail::check(cn_event_elapsed(&ms, get(), end.get()));
    return ms;
  }
  cn_event *get() const noexcept { return event_.get(); }

 private:
  std::shared_ptr<cn_event> event_;
};

/* Work that is done in order; two streams may overlap, in no order but by events. */
class Stream {
 public:
  explicit Stream(Device device = {}, int priority = 0)
      : stream_(detail::check(cn_stream_new(device.number(), priority)), cn_stream_release)
  {
  }
  bool query() const { return detail::check(cn_stream_query(get())) == 1; }
  void synchronize() const { detail::check(cn_stream_sync(get())); }
  void record_event(const Event &event) const { detail::check(cn_event_record(event.get(), get())); }
  void wait_event(const Event &event) const { detail::check(cn_stream_wait(get(), event.get())); }
  Device device() const { return cn_stream_device(get()); }
  cn_stream *get() const noexcept { return stream_.get(); }

 private:
  std::shared_ptr<cn_stream> stream_;
};

/* This thread's work on the stream's device goes there in the block. */
class StreamGuard {
 public:
  explicit StreamGuard(const Stream &stream) : device_(stream.device()), before_(cn_stream_current(device_.number()))
  {
    detail::check(cn_stream_use(device_.number(), stream.get()));
  }
  ~StreamGuard() { cn_stream_use(device_.number(), before_); }
  StreamGuard(const StreamGuard &) = delete;
  StreamGuard &operator=(const StreamGuard &) = delete;

 private:
  Device device_;
  cn_stream *before_; /* whose owner outlives the block, or NULL: the device's own */
};

/* What this thread may take for what it computes in the block: seconds (0: any), threads (0: all), and until another
 * thread sets *cancelled. Ops, graphs and compiled functions then throw TimeoutError or CancelledError; a graph that is
 * stopped has changed nothing. */
class Limits {
 public:
  explicit Limits(double timeout, int threads = 0, const std::atomic<bool> *cancelled = nullptr)
  {
    cn_limits_opts o = detail::opts<cn_limits_opts>();
    o.timeout = timeout;
    o.threads = threads;
    if (cancelled) o.cancelled = [](void *flag) { return static_cast<const std::atomic<bool> *>(flag)->load(); };
    o.payload = const_cast<std::atomic<bool> *>(cancelled);
    limits_ = detail::check(cn_limits_begin_with(&o));
  }
  ~Limits() { cn_limits_end(limits_); }
  Limits(const Limits &) = delete;
  Limits &operator=(const Limits &) = delete;
  /* For loops of the program's own: throws where they do not hold any more. */
  static void check() { detail::check(cn_limits_check()); }

 private:
  cn_limits *limits_;
};

/* The stream, too, must be done with x before its memory is used again. */
inline void record_stream(const Tensor &x, const Stream &stream)
{
  detail::check(cn_tensor_record_stream(x.get(), stream.get()));
}

/* ---- DLPack: memory shared with other libraries ---- */
/* Takes over a DLManagedTensor. */
inline Tensor from_dlpack(void *managed)
{
  detail::Scope scope;
  return Tensor::keep(detail::check(cn_from_dlpack(managed)));
}
/* A DLManagedTensor, whose deleter the receiver calls. */
inline void *to_dlpack(const Tensor &x) { return detail::check(cn_to_dlpack(x.get())); }

/* ---- the state of a thread ---- */
/* Errors, modes, default device and random numbers of its own for a block: what ran before goes on as it was. */
class StateGuard {
 public:
  StateGuard() : mine_(detail::check(cn_state_new())), before_(cn_state_swap(mine_)) {}
  ~StateGuard()
  {
    cn_state_swap(before_);
    cn_state_free(mine_);
  }
  StateGuard(const StateGuard &) = delete;
  StateGuard &operator=(const StateGuard &) = delete;

 private:
  cn_state *mine_, *before_;
};

/* Where the random numbers of this thread stand: seed and how many were drawn. */
struct RandomState {
  uint64_t seed = 0, offset = 0;
};
inline RandomState get_rng_state()
{
  RandomState state;
  cn_random_state(&state.seed, &state.offset);
  return state;
}
inline void set_rng_state(const RandomState &state) { cn_random_set_state(state.seed, state.offset); }

/* ---- files ---- */
/* A whole file in memory, paged in as it is touched. */
class MappedFile {
 public:
  explicit MappedFile(const std::string &path) { detail::check(cn_map_open(&mapping_, path.c_str())); }
  MappedFile(MappedFile &&other) noexcept : mapping_(std::exchange(other.mapping_, cn_mapping{})) {}
  MappedFile &operator=(MappedFile &&other) noexcept
  {
    std::swap(mapping_, other.mapping_);
    return *this;
  }
  ~MappedFile() { cn_map_close(&mapping_); }
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  const unsigned char *data() const noexcept { return mapping_.data; }
  size_t size() const noexcept { return mapping_.size; }

 private:
  cn_mapping mapping_ = {};
};

/* A file that appears whole, when it is committed, or not at all. */
class FileWriter {
 public:
  explicit FileWriter(const std::string &path) : writer_(detail::check(cn_writer_open(path.c_str()))) {}
  void write(const void *bytes, size_t size) { detail::check(cn_writer_put(writer_.get(), bytes, size)); }
  void write(const std::string &text) { write(text.data(), text.size()); }
  uint64_t size() const { return cn_writer_at(writer_.get()); }
  void commit() { detail::check(cn_writer_commit(writer_.release())); } /* it is no longer usable then */

 private:
  struct Abandon {
    void operator()(cn_writer *writer) const { cn_writer_abandon(writer); }
  };
  std::unique_ptr<cn_writer, Abandon> writer_;
};

/* The names in a folder, sorted. */
inline std::vector<std::string> list_folder(const std::string &path)
{
  struct Names {
    cn_names v = {};
    ~Names() { cn_names_free(&v); }
  } names;
  detail::check(cn_folder_list(&names.v, path.c_str()));
  return std::vector<std::string>(names.v.v, names.v.v + names.v.n);
}

/* ---- signatures: arguments of whatever is made by name ---- */
/* Text that C writes parts of, as a class's print does. */
class TextBuffer {
 public:
  TextBuffer() = default;
  ~TextBuffer() { cn_text_free(&text_); }
  TextBuffer(const TextBuffer &) = delete;
  TextBuffer &operator=(const TextBuffer &) = delete;
  std::string str() const { return std::string(text_.s ? text_.s : "", text_.n); }
  cn_text *get() noexcept { return &text_; }

 private:
  cn_text text_ = {};
};

class Signature {
 public:
  explicit Signature(const std::string &text)
      : signature_(detail::check(cn_signature_parse(text.c_str())), cn_signature_free)
  {
  }
  std::string name() const { return cn_signature_name(get()); }
  int size() const { return cn_signature_size(get()); }
  int find(const std::string &parameter) const { return cn_signature_find(get(), parameter.c_str()); } /* -1: none */
  cn_op_param parameter(int i) const
  {
    cn_op_param made = {};
    detail::check(cn_signature_param(&made, get(), i));
    return made;
  }
  const cn_signature *get() const noexcept { return signature_.get(); }

 private:
  std::shared_ptr<cn_signature> signature_;
};

/* Values for a signature, checked, with defaults filled in. */
class Args {
 public:
  Args(const Signature &signature, const std::vector<cn_value> &given)
      : signature_(signature), args_(detail::check(cn_args_new(signature.get(), given.data(), given.size())),
                                     cn_args_free)
  {
  }
  const cn_value &operator[](const std::string &name) const
  {
    const cn_value *found = cn_args_get(args_.get(), name.c_str());
    return found ? *found : throw IndexError(signature_.name() + ": has no parameter " + name);
  }
  const cn_args *get() const noexcept { return args_.get(); }

 private:
  Signature signature_; /* outlives its arguments */
  std::shared_ptr<cn_args> args_;
};

}  // namespace cn

#endif
