/* state.h: the one struct of per-thread state, and the error functions that live in it.
 *
 * Place in the flow: the bottom; every layer reads its own part of cn_state. Invariant: a thread touches only
 * the state installed in it, so nothing here is locked. */
#ifndef CNI_BASE_STATE_H
#define CNI_BASE_STATE_H

#include <cairn/base.h>

#define CNI_LIKELY(x) __builtin_expect(!!(x), 1)
#define CNI_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define CNI_APART __attribute__((noinline)) /* what a hot function does rarely: it costs the others no register */

enum { CNI_POOL_CLASSES = 48, CNI_MESSAGE_MAX = 1024, CNI_STREAMS = 8 };

/* Free small blocks of one size, newest first. */
typedef struct cni_pool_list {
  void *head;
  uint32_t count, keep; /* keep: how many may stay here */
} cni_pool_list;

/* One open scope: where its items begin in cn_state.items. A cn_scope * is a number, not an address: the scope's
 * depth and serial, so that ending a scope twice is noticed. */
typedef struct cni_frame {
  size_t first;
  uint64_t serial;
} cni_frame;

/* The stream a thread uses on one device. */
typedef struct cni_stream_slot {
  cn_device device;
  struct cn_stream *stream; /* owned */
} cni_stream_slot;

/* Modes in the order in which apply runs them. */
enum cni_mode {
  CNI_MODE_PROFILE = 1 << 0,
  CNI_MODE_AUTOCAST = 1 << 1,
  CNI_MODE_AUTOGRAD = 1 << 2, /* set by apply for calls whose result needs a gradient */
  CNI_MODE_CHECK = 1 << 3,    /* names the first op that made a NaN or Inf */
  CNI_MODE_CAPTURE = 1 << 4,
  CNI_MODE_INSIDE = 1 << 5,   /* ... of a sub-graph: the door brings tensors from outside in first (base/hooks.h) */
  CNI_MODE_LIMITS = 1 << 6,   /* the door looks at the thread's limits first (limits.c) */
  CNI_MODE_BATCH = 1 << 7,    /* a vmap is running: the door looks for examples of batches (ops/batch.h) */
  CNI_MODE_COUNT = 8
};

struct cn_state {
  /* errors (state.c) */
  int err;
  bool no_grad;       /* autograd is switched off */
  bool inference;     /* ... and results are marked so that they never join a graph */
  uint32_t modes;     /* cni_mode bits; 0 is the fast path of apply */
  /* scopes (tensor/scope.c): items[0..nitems) are owned references, frames mark where scopes begin */
  cn_tensor **items;
  size_t nitems, items_cap;
  cni_frame *frames;
  size_t nframes, frames_cap;
  uint64_t frame_serial;
  bool root_warned;
  /* defaults and random numbers */
  cn_dtype default_dtype;
  cn_device default_device;
  uint64_t seed, offset; /* random.c; valid once random_started */
  bool random_started;
  /* what it may take (limits.c) */
  struct cn_limits *limits; /* the innermost; NULL: none */
  bool limited;       /* ... and there is something to look at: time, or cancellation */
  int threads;        /* it may use; 0: all */
  /* what upper layers hang in: each is owned by the file named */
  void *capture;      /* graph/capture.c */
  bool tracing_sizes; /* ... and it is one of several at different sizes (graph/probe.c): no shortcuts for one size */
  void *profile;      /* ops/profile.c */
  cn_dtype autocast[2]; /* ops/autocast.c: the low types on the host and on other devices */
  int autocast_depth;
  unsigned attention; /* ops/attention.c: the ways it may take; 0: all */
  struct cni_vmap *vmap; /* ops/batch.c: the innermost vmap that is running; NULL: none */
  struct cni_cast_cache *casts; /* of parameters, while autocast is on */
  const struct cni_copying *copying; /* ops/apply.h: inputs of composites that may be written to; NULL usually */
  const struct cn_saved_hooks *saved_hooks; /* autograd/node.c: how values are kept for backward; NULL usually */
  void *saved_payload;
  uint64_t node_seq;  /* autograd/node.c: the newest node that this thread made, or made one from */
  void *choices;      /* backends/common/dispatch.c: which kernels took calls like these */
  cni_stream_slot streams[CNI_STREAMS]; /* backends/common/stream.c: where a device's own stream is not used */
  int nstreams;
  void *dead_tensors, *dead_nodes; /* tensor/tensor.c: waiting to be freed, so that freeing is iterative */
  bool draining;
  const char *op_name; /* the op being run, for late messages */
  const char *running; /* ops/apply.c: the op that memory is taken for; NULL: none */
  cni_pool_list pool[CNI_POOL_CLASSES];
  bool pooled; /* false: the emergency state, which caches nothing */
  char message[CNI_MESSAGE_MAX];
};

extern _Thread_local cn_state *cni_tls_state;
cn_state *cni_state_make(void); /* makes and installs this thread's state; never NULL */

static inline cn_state *cni_state(void)
{
  cn_state *s = cni_tls_state;
  return CNI_LIKELY(s != NULL) ? s : cni_state_make();
}

/* Sets the sticky error unless one is pending; returns code. */
int cni_fail(int code, const char *format, ...) CN_PRINTF(2, 3);
/* Out of memory: needs none to say so. Returns CN_ERR_MEMORY. */
int cni_fail_memory(size_t size);

/* The seed and first counter of a call that draws n counters; moves this thread's numbers on (random.c). */
void cni_random_take(uint64_t *seed, uint64_t *offset, uint64_t n);

/* Takes the pending error away and gives it back later: clean-up code runs in between. */
typedef struct cni_saved_error {
  int err;
  char message[CNI_MESSAGE_MAX];
} cni_saved_error;
void cni_error_take(cni_saved_error *saved);
void cni_error_restore(const cni_saved_error *saved);

#endif
