/* error.hpp: failures as exceptions, and scopes that end by themselves.
 *
 * Place in the flow: below everything else of the C++ binding. Invariant: where C++ sees an exception no error of C is
 * pending any more; where C sees a failed callback one is. */
#ifndef CAIRN_ERROR_HPP
#define CAIRN_ERROR_HPP

#include <cairn/ext/system.h>
#include <cairn/tensor.h>

#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

namespace cn {

/* What every call throws that fails. The text names op, shapes and what to do; status is one of cn_status. */
class Error : public std::runtime_error {
 public:
  Error(int status, const std::string &text) : std::runtime_error(text), status_(status) {}
  int status() const noexcept { return status_; }

 private:
  int status_;
};

/* A class for each status, for those who catch by kind. */
template <int status_code> class ErrorOf : public Error {
 public:
  explicit ErrorOf(const std::string &text) : Error(status_code, text) {}
};
using MemoryError = ErrorOf<CN_ERR_MEMORY>;           /* out of memory */
using ValueError = ErrorOf<CN_ERR_VALUE>;             /* an argument has a value that makes no sense */
using ShapeError = ErrorOf<CN_ERR_SHAPE>;             /* shapes do not fit */
using DTypeError = ErrorOf<CN_ERR_DTYPE>;             /* a type of elements that the op does not take */
using IndexError = ErrorOf<CN_ERR_INDEX>;             /* an index or dimension out of range */
using TypeError = ErrorOf<CN_ERR_TYPE>;               /* an argument of the wrong kind, or missing */
using DeviceError = ErrorOf<CN_ERR_DEVICE>;           /* devices do not match, or one failed */
using GradError = ErrorOf<CN_ERR_GRAD>;               /* the gradient asked for does not exist */
using CaptureError = ErrorOf<CN_ERR_CAPTURE>;         /* not possible while a graph is recorded */
using UnsupportedError = ErrorOf<CN_ERR_UNSUPPORTED>; /* no such op, kernel or feature here */
using FileError = ErrorOf<CN_ERR_IO>;                 /* a file could not be read, written or understood */
using InternalError = ErrorOf<CN_ERR_INTERNAL>;       /* a bug in cairn */
using TimeoutError = ErrorOf<CN_ERR_TIMEOUT>;         /* the time that cn::Limits give has passed */
using CancelledError = ErrorOf<CN_ERR_CANCELLED>;     /* ... or they were cancelled */

namespace detail {

/* Throws the class of a status. */
[[noreturn]] inline void fail(int status, const std::string &text)
{
  switch (status) {
  case CN_ERR_MEMORY: throw MemoryError(text);
  case CN_ERR_VALUE: throw ValueError(text);
  case CN_ERR_SHAPE: throw ShapeError(text);
  case CN_ERR_DTYPE: throw DTypeError(text);
  case CN_ERR_INDEX: throw IndexError(text);
  case CN_ERR_TYPE: throw TypeError(text);
  case CN_ERR_DEVICE: throw DeviceError(text);
  case CN_ERR_GRAD: throw GradError(text);
  case CN_ERR_CAPTURE: throw CaptureError(text);
  case CN_ERR_UNSUPPORTED: throw UnsupportedError(text);
  case CN_ERR_IO: throw FileError(text);
  case CN_ERR_INTERNAL: throw InternalError(text);
  case CN_ERR_TIMEOUT: throw TimeoutError(text);
  case CN_ERR_CANCELLED: throw CancelledError(text);
  default: throw Error(status, text);
  }
}

/* An exception on its way through C: from a callback to the call that led there, on one thread. */
struct Stash {
  std::exception_ptr exception;
  std::string text;
};

inline Stash &stash()
{
  static thread_local Stash s;
  return s;
}

/* Throws what is pending: the exception of a callback itself, where that is what failed. */
[[noreturn]] inline void raise(int status)
{
  if (cn_err()) status = cn_err();
  std::string text = cn_err_message();
  cn_err_clear();
  Stash &s = stash();
  std::exception_ptr exception;
  exception.swap(s.exception);
  if (exception && text.find(s.text) != std::string::npos) std::rethrow_exception(exception);
  fail(status, text.empty() ? "cairn: failed without a message" : text);
}

inline int64_t check(int64_t status)
{
  if (status < 0) raise(static_cast<int>(status));
  return status;
}

inline int check(int status)
{
  if (status < 0) raise(status);
  return status;
}

template <class T> T *check(T *made)
{
  if (!made) raise(CN_ERR_INTERNAL);
  return made;
}

/* In a catch block of a callback: makes the exception C's pending error. Returns its status. */
inline int to_c() noexcept
{
  int status = CN_ERR_INTERNAL;
  Stash &s = stash();
  try {
    s.exception = std::current_exception();
    s.text.clear();
    try {
      throw;
    } catch (const Error &e) {
      status = e.status();
      s.text = e.what();
    } catch (const std::bad_alloc &e) {
      status = CN_ERR_MEMORY;
      s.text = e.what();
    } catch (const std::exception &e) {
      s.text = e.what();
    } catch (...) {
      s.text = "an exception that is no std::exception";
    }
  } catch (...) { /* the text did not fit into memory: the exception itself is kept */
  }
  return cn_err_set(status, "%s", s.text.c_str());
}

/* Runs a callback's body for C: 0 or what it returns, a negative status when it throws. */
template <class F> int guarded(F &&body) noexcept
{
  try {
    return body();
  } catch (...) {
    return to_c();
  }
}

/* What C lends inside it is let go at its end; results are kept before. */
class Scope {
 public:
  Scope() : scope_(cn_scope_begin()) {}
  ~Scope() { cn_scope_end(scope_); }
  Scope(const Scope &) = delete;
  Scope &operator=(const Scope &) = delete;

 private:
  cn_scope *scope_;
};

/* An options struct of C's, all of it default. */
template <class T> T opts()
{
  T o = {};
  o.size = sizeof o;
  return o;
}

/* A string of C's, which it wants back. */
inline std::string take(char *text)
{
  check(text);
  struct Back {
    char *text;
    ~Back() { cn_string_free(text); }
  } back{text};
  return std::string(text);
}

/* Bytes of C's, which it wants back: fill(&bytes, &size) makes them. */
template <class Fill> std::string bytes(Fill &&fill)
{
  struct Back {
    void *memory = nullptr;
    size_t size = 0;
    ~Back() { cn_free(memory, size); }
  } back;
  check(fill(&back.memory, &back.size));
  return std::string(static_cast<const char *>(back.memory), back.memory ? back.size : 0);
}

/* For C to keep, and to give back to destroy. */
template <class T> std::decay_t<T> *give(T &&value) { return new std::decay_t<T>(std::forward<T>(value)); }
template <class T> void destroy(void *data) { delete static_cast<T *>(data); }

}  // namespace detail
}  // namespace cn

#endif
