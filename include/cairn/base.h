/* base.h: what every other header stands on: data types, devices, errors, scopes, state, memory.
 *
 * Conventions of the whole API:
 *  - Functions that return a tensor return NULL on failure; functions that return int return 0 when
 *    done and a negative enum cn_status on failure. The first error of a thread is sticky: while it is
 *    pending every op returns NULL and does nothing, so one check per expression is enough.
 *  - A returned pointer is borrowed (usually owned by the innermost scope) unless its comment says
 *    "owned"; owned things are given back with the function of their type. One that is called _free (or _close, where
 *    something is left to be written) ends the thing. One that is called _release drops the caller's reference, and
 *    ends the thing with the last: tensors, modules, data sets, streams, nodes and ONNX values are counted, no other.
 *  - CN_MUST_USE marks results whose dropping is always a mistake: what is owned and would leak, and numbers that say
 *    what no error says (is there another batch, did the array grow). A plain status is not marked: the error stays
 *    pending, and one check behind several calls finds it. Nor are ops: the scope owns what they return.
 */
#ifndef CAIRN_BASE_H
#define CAIRN_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CN_VERSION_MAJOR 0
#define CN_VERSION_MINOR 1
#define CN_VERSION_PATCH 0
#define CN_VERSION_STRING "0.1.0"

#if defined(_WIN32)
#define CN_API
#else
#define CN_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
#define CN_BEGIN_DECLS extern "C" {
#define CN_END_DECLS }
#else
#define CN_BEGIN_DECLS
#define CN_END_DECLS
#endif

/* Of a function whose result may not be dropped, because it is something to give back, or the only report there is. */
#if defined(__GNUC__)
#define CN_MUST_USE __attribute__((warn_unused_result))
#elif (defined(__cplusplus) && __cplusplus >= 201703L) || (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 202311L)
#define CN_MUST_USE [[nodiscard]]
#else
#define CN_MUST_USE
#endif

#if defined(__GNUC__)
#define CN_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define CN_PRINTF(fmt, first)
#endif

/* The most dimensions a tensor can have. */
#define CN_MAX_DIMS 16

/* In an options struct zero means "the default"; CN_ZERO says that zero itself is meant. */
#define CN_ZERO INT64_MIN
/* "None" for an optional integer that is positional in C (a dim, say). */
#define CN_NONE (INT64_MIN + 1)

CN_BEGIN_DECLS

typedef struct cn_tensor cn_tensor;
typedef struct cn_scope cn_scope;
typedef struct cn_state cn_state;

/* Element types. CN_DTYPE_NONE asks for the default one. From CN_F8E4M3 on they are for storage and
 * casts only (the first two also for cn_scaled_mm); the four- and two-bit ones take a byte each in memory. Complex
 * numbers are two floats side by side, and are computed with by their parts. */
typedef enum cn_dtype {
  CN_DTYPE_NONE = 0,
  CN_BOOL,
  CN_U8,
  CN_I8,
  CN_I16,
  CN_I32,
  CN_I64,
  CN_U16,
  CN_U32,
  CN_U64,
  CN_F16,
  CN_BF16,
  CN_F32,
  CN_F64,
  CN_F8E4M3,
  CN_F8E5M2,
  CN_F8E4M3FNUZ,
  CN_F8E5M2FNUZ,
  CN_F8E8M0,
  CN_F4E2M1,
  CN_I4,
  CN_U4,
  CN_I2,
  CN_U2,
  CN_C64,
  CN_C128,
  CN_C32,
  CN_DTYPE_COUNT
} cn_dtype;

CN_API const char *cn_dtype_name(cn_dtype dtype); /* "float32"; "none" for CN_DTYPE_NONE */
CN_API cn_dtype cn_dtype_find(const char *name);  /* CN_DTYPE_NONE when there is none of that name */
CN_API size_t cn_dtype_size(cn_dtype dtype);      /* bytes of one element in memory */
CN_API size_t cn_dtype_bytes(cn_dtype dtype, int64_t n); /* of n elements: of types below a byte too */
CN_API bool cn_dtype_is_float(cn_dtype dtype);
CN_API bool cn_dtype_is_int(cn_dtype dtype);    /* signed or unsigned, not bool */
CN_API bool cn_dtype_is_complex(cn_dtype dtype);
CN_API bool cn_dtype_is_signed(cn_dtype dtype); /* floats, complex and signed integers */
/* The type two tensors of these types compute in (PyTorch's torch.promote_types). */
CN_API cn_dtype cn_promote_types(cn_dtype a, cn_dtype b);

/* A device is one small number: a backend and an index in it. 0 asks for the default device. */
typedef int32_t cn_device;
#define CN_DEVICE_DEFAULT 0
#define CN_CPU 0x100

/* ---- errors ---- */
typedef enum cn_status {
  CN_OK = 0,
  CN_ERR_MEMORY = -1,      /* out of memory */
  CN_ERR_VALUE = -2,       /* an argument has a value that makes no sense */
  CN_ERR_SHAPE = -3,       /* shapes do not fit */
  CN_ERR_DTYPE = -4,       /* a data type that the op does not take */
  CN_ERR_INDEX = -5,       /* an index or dimension out of range */
  CN_ERR_TYPE = -6,        /* an argument of the wrong kind, or missing */
  CN_ERR_DEVICE = -7,      /* devices do not match, or a device failed */
  CN_ERR_GRAD = -8,        /* the gradient asked for does not exist or was invalidated */
  CN_ERR_CAPTURE = -9,     /* not possible while a graph is being captured */
  CN_ERR_UNSUPPORTED = -10, /* no such op, kernel or feature here */
  CN_ERR_IO = -11,         /* a file could not be read, written or understood */
  CN_ERR_INTERNAL = -12,   /* a bug in cairn */
  CN_ERR_TIMEOUT = -13,    /* a time limit has passed (cn_limits) */
  CN_ERR_CANCELLED = -14   /* whoever asked for it does not want it any more (cn_limits) */
} cn_status;

CN_API int cn_err(void); /* the pending error of this thread: a cn_status, 0 when there is none */
CN_API const char *cn_err_message(void); /* "" when there is none; valid until cn_err_clear */
CN_API void cn_err_clear(void);
/* Sets the pending error from user code (a custom function, say); the first error wins. Returns code. */
CN_API int cn_err_set(int code, const char *format, ...) CN_PRINTF(2, 3);

/* ---- scopes and ownership ---- */
/* An op's result belongs to the innermost scope of its thread, and is released when that scope ends.
 * Scopes end in the reverse order of their beginning; ending an outer one ends the inner ones too. */
CN_API CN_MUST_USE cn_scope *cn_scope_begin(void);
CN_API void cn_scope_end(cn_scope *scope);
/* Ends the scope but hands `t` to the scope around it; returns t. */
CN_API cn_tensor *cn_scope_return(cn_scope *scope, cn_tensor *t);
/* Adds a reference that the caller owns; returns t. NULL stays NULL. */
CN_API CN_MUST_USE cn_tensor *cn_keep(cn_tensor *t);
/* Gives an owned reference back. NULL is fine. */
CN_API void cn_release(cn_tensor *t);
/* Gives an owned reference to the innermost scope; returns t, borrowed from now on (NULL when out of memory). For
 * callbacks whose result is to be borrowed. */
CN_API cn_tensor *cn_scope_give(cn_tensor *t);
/* Makes *variable own `value` at once, taking it out of its scope, and releases what the variable
 * owned before. A NULL value (a failed op) leaves the variable as it was and returns the error. */
CN_API int cn_set(cn_tensor **variable, cn_tensor *value);

/* ---- per-thread state ---- */
/* Each thread has a state of its own, made at first use: pending error, scopes, modes, default device
 * and random numbers. Programs that run many logical tasks on one thread can swap states. */
CN_API CN_MUST_USE cn_state *cn_state_new(void); /* owned; NULL when out of memory */
CN_API void cn_state_free(cn_state *state);
CN_API cn_state *cn_state_swap(cn_state *state); /* installs it for this thread; returns the old one, borrowed */

/* Random numbers are counted: a thread's state is a seed and how many counters were used of it. A process that never
 * seeds starts from a seed of the operating system, or from the environment's CAIRN_SEED; the first thread that draws
 * gets that seed, each later one a stream derived from it. cn_seed restarts this thread, and is where threads that
 * begin to draw later derive theirs from. cn_random_state tells where this thread stands. */
CN_API void cn_seed(uint64_t seed);
CN_API uint64_t cn_fresh_seed(void); /* a number of the operating system that nobody can foretell, for cn_seed */
CN_API void cn_random_state(uint64_t *seed, uint64_t *offset); /* either may be NULL */
CN_API void cn_random_set_state(uint64_t seed, uint64_t offset);
CN_API void cn_set_default_device(cn_device device);
CN_API cn_device cn_default_device(void);
CN_API int cn_set_default_dtype(cn_dtype dtype); /* of float results made from integers or numbers */
CN_API cn_dtype cn_default_dtype(void);

/* ---- threads ---- */
CN_API int cn_set_num_threads(int threads); /* of this process; 0 restores the machine's own count */
CN_API int cn_num_threads(void); /* what the calling thread may use of them: fewer where limits say so */

/* ---- limits ---- */
/* What the calling thread may take for all that it computes, until the limits end. Limits inside of others can only be
 * tighter. Time and cancellation are looked at before every op, between the nodes of graphs and compiled functions and
 * the steps of their loops, and while a run waits for its turn; a kernel that has begun goes on to its end, and so does
 * what a device was given already. What they stop fails with CN_ERR_TIMEOUT or CN_ERR_CANCELLED. A graph's run that is
 * stopped has changed nothing; of code that runs op by op, what was done before is done. */
typedef struct cn_limits cn_limits;
typedef struct cn_limits_opts {
  size_t size;
  const struct cn_guard *guard;
  double timeout; /* seconds from now; 0: no limit */
  int threads;    /* at most so many of cn_num_threads; 0: all. Results do not depend on it */
  bool (*cancelled)(void *payload); /* asked in the calling thread, often: true stops what goes on. NULL: never */
  void *payload;                    /* of cancelled */
} cn_limits_opts;
/* To be ended; NULL with the error set. Limits end in the reverse order of their beginning; ending outer ones ends the
 * inner ones too. */
CN_API CN_MUST_USE cn_limits *cn_limits_begin_with(const cn_limits_opts *opts);
CN_API void cn_limits_end(cn_limits *limits);
CN_API int cn_limits_check(void); /* for loops of a program's own: 0, or the error that limits set */

/* ---- memory ---- */
/* Where all host memory comes from. alloc returns memory aligned to 64 bytes or NULL; free gets the
 * size that was asked for. Set it before the first tensor is made. */
typedef struct cn_allocator {
  void *(*alloc)(size_t size, void *payload);
  void (*free)(void *memory, size_t size, void *payload);
  void *payload;
} cn_allocator;

CN_API int cn_set_allocator(const cn_allocator *allocator); /* NULL restores the built-in one */

typedef struct cn_memory_stats {
  size_t in_use;      /* bytes held from the allocator, cached ones included */
  size_t cached;      /* of those, free ones kept for reuse */
  size_t peak;        /* highest in_use so far */
  uint64_t allocations; /* calls of the allocator so far */
} cn_memory_stats;

CN_API void cn_memory_get_stats(cn_memory_stats *stats);
CN_API void cn_memory_reset_peak(void);
CN_API void cn_memory_set_limit(size_t bytes); /* in_use may not pass it; 0: no limit */
CN_API void cn_memory_set_caching(bool on);    /* off: every buffer comes from the allocator */
CN_API void cn_memory_trim(void); /* gives back what is cached: by this thread, and by the shared cache */
/* For tests: the k-th allocation from now on fails (1: the next one), once; 0 switches it off. */
CN_API void cn_memory_fail_at(uint64_t k);

/* ---- log ---- */
typedef enum cn_log_level { CN_LOG_DEBUG, CN_LOG_INFO, CN_LOG_WARNING } cn_log_level;
typedef void (*cn_log_fn)(cn_log_level level, const char *message, void *payload);
/* Receives warnings, and what CAIRN_VERBOSE asks for. NULL restores the built-in one, which writes to
 * stderr what CAIRN_VERBOSE asks for and nothing else. */
CN_API void cn_set_log(cn_log_fn fn, void *payload);

CN_API const char *cn_version(void);

CN_END_DECLS

#ifndef __cplusplus
#define cn_limits_begin(...) cn_limits_begin_with(CN_OPTS(cn_limits_opts, __VA_ARGS__))
#endif

#endif
