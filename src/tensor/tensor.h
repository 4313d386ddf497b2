/* tensor.h: what a tensor is inside cairn: a counted handle over counted storage.
 *
 * Place in the flow: above base, below ops. Invariants: a tensor's desc never changes after it was made, except its
 * data pointer while its storage is replaced; edges of the autograd graph (node) keep no storage alive; a view keeps
 * its parent handle alive through its record. */
#ifndef CNI_TENSOR_TENSOR_H
#define CNI_TENSOR_TENSOR_H

#include <cairn/ext/dtypes.h>
#include <cairn/ext/op.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/state.h"

/* The head of every autograd node (autograd/node.h), here so that tensors can own one without knowing it. */
typedef struct cni_node_head {
  struct cni_node *next_dead;
  _Atomic int32_t refs;
  const struct cn_op *call; /* the composite op whose last step it records, as it was called; NULL: none */
} cni_node_head;
struct cni_node;

/* Memory of one device, shared by a tensor and its views. */
typedef struct cni_storage {
  _Atomic int32_t refs;
  cn_device device;
  void *data;
  size_t size;          /* bytes usable at data */
  _Atomic uint64_t version; /* writes so far, as autograd counts them: less those of `apart` */
  _Atomic uint64_t apart;   /* writes through tensors that count their own (cni_versions) */
  struct cni_guarded *_Atomic guards; /* autograd: saved values that are copied before the next write; NULL: none */
  _Atomic bool shown;   /* others may write to the memory without raising version: whoever has its address */
  size_t block;         /* bytes of the block that holds this struct (and more: cni_home) */
  void (*free_payload)(void *payload); /* borrowed memory: called at the end; NULL for our own */
  void *payload;        /* of free_payload; of our own device memory: the streams that used it besides; of no memory:
                         * its cni_live */
  void *stream;         /* device memory: where it was allocated, and is given back */
} cni_storage;

/* The writes through a tensor, and through views of it, that counts its own: t.data does. */
typedef struct cni_versions {
  _Atomic int32_t refs;
  _Atomic uint64_t n;
} cni_versions;

/* How a view came to be; makes in-place writes through views and capture possible. */
typedef struct cni_view {
  cn_tensor *parent; /* owned */
  const cn_op *op;
  size_t size;       /* bytes of this block */
  int nargs;
  cn_value args[];   /* attributes; lists lie behind the array; tensor slots are empty */
} cni_view;

/* What a sparse tensor consists of: ordinary tensors. Its values belong to it alone (another handle over the same
 * memory where a program gave them), so their history is the sparse tensor's. */
typedef struct cni_sparse {
  cn_tensor *index;  /* owned. COO: (sparse_dim, n); others: where rows or columns begin, (batch..., rows + 1) */
  cn_tensor *plain;  /* owned. Others: the column or row of each value, (batch..., n); COO: NULL */
  cn_tensor *values; /* owned. (n, dense...); others: (batch..., n, [block,] dense...) */
  int32_t dense_dim;
  bool coalesced;    /* COO */
} cni_sparse;

struct cn_tensor {
  cn_desc d; /* public head, must be first */
  _Atomic int32_t refs;
  int32_t out_index;       /* which result of node this is */
  _Atomic uint32_t scope_slot; /* index in the owning state's items, checked before use */
  bool inference;          /* made in inference mode: never joins a graph */
  bool detached;           /* a view made while recording was off: its base's later history is not its own */
  bool housed;             /* lies in the block of the storage it was made with (cni_home) */
  cni_storage *storage;    /* owned */
  int64_t offset;          /* of d.data from storage->data, in elements */
  cni_view *view;          /* owned; NULL for a tensor with memory of its own */
  cni_versions *versions;  /* owned; NULL: storage->version counts writes through it */
  struct cni_node *node;   /* owned; NULL: needs no gradient. A leaf's node has no op */
  _Atomic uint64_t node_version; /* of views: cni_version when node was set; a newer one means it is stale */
  uint64_t value;          /* made while capturing: which capture, and its value in that graph (graph/capture.c) */
  uint64_t value_version;  /* ... and the write count of its memory that value belongs to */
  cn_tensor *batch;        /* owned; of one example of a batch: all of them, the batch as first dim. Then d.data is
                            * NULL, and d the description of one (ops/batch.h). NULL: a tensor of its own */
  uint64_t batch_level;    /* ... and the vmap whose batch it is */
  cni_sparse *sparse;      /* owned; NULL: strided. A sparse tensor has no memory and no node of its own */
};

/* The tensor that has the memory of t, and its history: t itself, unless it stands for one example of a batch. */
static inline cn_tensor *cni_held(const cn_tensor *t)
{
  while (t && CNI_UNLIKELY(t->batch != NULL)) t = t->batch;
  return (cn_tensor *)(uintptr_t)t;
}

/* A small host tensor as it is made: storage, handle and data in one block, which lives as long as either is used. */
typedef struct cni_home {
  cni_storage storage;
  cn_tensor handle;
  _Alignas(64) char data[]; /* begins a cache line, as larger data does: others (JAX) share no other memory */
} cni_home;
static inline cni_storage *cni_home_of(cn_tensor *housed)
{
  return (cni_storage *)(void *)((char *)housed - offsetof(cni_home, handle));
}

/* Gives one reference back; was it the last? Who holds the only one needs no locked instruction to find out: nobody
 * else has one to make another from. */
static inline bool cni_refs_end(_Atomic int32_t *refs)
{
  return atomic_load_explicit(refs, memory_order_acquire) == 1 ||
         atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel) == 1;
}

/* ---- counts of writes ---- */
static inline _Atomic uint64_t *cni_version_at(const cn_tensor *t)
{
  return CNI_LIKELY(!t->versions) ? &t->storage->version : &t->versions->n;
}
/* What autograd compares: writes through t, its views and what it is a view of. */
static inline uint64_t cni_version(const cn_tensor *t)
{
  return atomic_load_explicit(cni_version_at(t), memory_order_relaxed);
}
/* All writes to memory: for whoever keeps what was made of the values. */
static inline uint64_t cni_storage_writes(const cni_storage *s)
{
  return atomic_load_explicit(&s->version, memory_order_relaxed) +
         atomic_load_explicit(&s->apart, memory_order_relaxed);
}
static inline uint64_t cni_writes(const cn_tensor *t) { return cni_storage_writes(t->storage); }
static inline void cni_count_write(cn_tensor *t)
{
  atomic_fetch_add_explicit(cni_version_at(t), 1, memory_order_relaxed);
  if (CNI_UNLIKELY(t->versions != NULL)) atomic_fetch_add_explicit(&t->storage->apart, 1, memory_order_relaxed);
}
/* t counts as `of` does from now on; of NULL: its own. 0 or CN_ERR_MEMORY. */
int cni_versions_set(cn_tensor *t, const cn_tensor *of);

/* Was the memory of a view written to since its history was made? Only after a no is t->node to be read: another
 * thread that reads the view too may be making it anew. */
static inline bool cni_tensor_stale(const cn_tensor *t)
{
  return t->view && !t->detached &&
         atomic_load_explicit(&t->node_version, memory_order_acquire) != cni_version(t);
}

/* ---- storage (storage.c) ---- */
/* Writes the header of memory of our own, with one reference, at the beginning of a block of that many bytes. */
static inline void cni_storage_init(cni_storage *s, size_t block, cn_device device, void *data, size_t size)
{
  atomic_init(&s->refs, 1);
  atomic_init(&s->version, 0);
  atomic_init(&s->apart, 0);
  atomic_init(&s->guards, NULL);
  atomic_init(&s->shown, false);
  s->device = device;
  s->data = data;
  s->size = size;
  s->block = block;
  s->free_payload = NULL;
  s->payload = NULL;
  s->stream = NULL;
}
/* Fresh memory on a device; NULL with the error set. Holds one reference for the caller. */
cni_storage *cni_storage_new(cn_device device, size_t size);
cni_storage *cni_storage_borrow(cn_device device, void *data, size_t size, void (*free_payload)(void *), void *payload);
/* No memory at all: what tensors have while a graph is captured. live (may be NULL) counts them. */
typedef struct cni_live {
  _Atomic int32_t n; /* those that are there, and one for whoever made it */
} cni_live;
cni_storage *cni_storage_meta(cn_device device, size_t size, cni_live *live);
cni_live *cni_live_new(void); /* NULL with the error set */
int cni_live_release(cni_live *live); /* how many are left */
void cni_storage_free(cni_storage *s); /* when the last reference is gone */
/* Work of this stream, too, must be done before the memory is used again. 0 or an error. */
int cni_storage_used_by(cni_storage *s, void *stream);
/* Profiles ask what tensors take (cni_hooks.tensor_memory). */
extern _Atomic bool cni_tensors_watched;
static inline bool cni_watched(void)
{
  return CNI_UNLIKELY(atomic_load_explicit(&cni_tensors_watched, memory_order_relaxed));
}
void cni_storage_drop_data(cni_storage *s); /* gives its memory back, to end or to get another */
static inline cni_storage *cni_storage_keep(cni_storage *s)
{
  atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
  return s;
}
static inline void cni_storage_release(cni_storage *s)
{
  if (s && cni_refs_end(&s->refs)) cni_storage_free(s);
}

/* Elements that (shape, strides) spans from its first one on; -1 when strides are negative or too large. */
int64_t cni_reach(int ndim, const int64_t *shape, const int64_t *strides);

/* Device memory for storage; defined by backends/common, so that tensor/ knows no backend. */
typedef struct cni_memory_table {
  void *(*alloc)(cn_device device, size_t size, void *stream);
  void (*free)(cn_device device, void *memory, size_t size, void *stream);
  int (*copy_in)(cn_device device, void *device_memory, const void *host, size_t size);
  int (*copy_out)(cn_device device, void *host, const void *device_memory, size_t size);
  int (*sync)(cn_device device);
  cn_device (*find)(const char *name); /* cn_device_find and cn_device_name, for DLPack */
  const char *(*name)(char *text, size_t size, cn_device device);
  void *(*host_alloc)(cn_device device, size_t size); /* pinned; NULL without an error where there is none */
  void (*host_free)(cn_device device, void *memory, size_t size);
  int (*host_wait)(cn_device device, const void *memory); /* for copies from pinned memory */
  uint32_t (*can)(cn_device device); /* cn_capability bits */
  void *(*stream)(cn_device device); /* that this thread uses there */
  int (*join)(cn_device device, void *from, void *to); /* later work of stream `to` waits for what is in `from` now */
} cni_memory_table;
extern const cni_memory_table cni_memory;

/* Can kernels of this device do that (a cn_capability)? */
static inline bool cni_device_can(cn_device device, uint32_t what)
{
  return CNI_LIKELY(device == CN_CPU) || (cni_memory.can(device) & what) != 0;
}

/* ---- pinned storage (pin.c) ---- */
/* A copy of s to a device may be queued from now on. */
void cni_storage_lend(const cni_storage *s);
int cni_pinned_settle(const cni_storage *s);
/* Before a write to s: copies what must not change with it, waits for copies that may still read it. 0, no memory, or
 * a failure of the device found while waiting. */
int cni_storage_settle_now(cni_storage *s);
static inline int cni_storage_settle(cni_storage *s)
{
  bool plain = !s->free_payload && !atomic_load_explicit(&s->guards, memory_order_acquire);
  return CNI_LIKELY(plain) ? CN_OK : cni_storage_settle_now(s);
}

/* Where a view begins, in elements of its type `to`: `offset` of them behind place `at` of memory that is counted in
 * elements of another type. */
static inline int64_t cni_view_at(int64_t at, int from, int to, int64_t offset)
{
  if (from == to) return at + offset;
  return at * (int64_t)cn_element_size(from) / (int64_t)cn_element_size(to) + offset;
}

/* ---- tensors (tensor.c) ---- */
/* A handle with desc copied from dtype/shape/strides (strides NULL: contiguous) over storage, whose reference is
 * taken over (released on failure). Owned result, in no scope. */
cn_tensor *cni_tensor_over(cni_storage *storage, int64_t offset, int dtype, int ndim, const int64_t *shape,
                           const int64_t *strides);
/* A fresh contiguous or strided tensor; owned, in no scope. */
cn_tensor *cni_tensor_new(cn_device device, int dtype, int ndim, const int64_t *shape, const int64_t *strides);
/* A weak scalar (cn_num): dtype CN_F64, CN_I64 or CN_BOOL. Owned. */
cn_tensor *cni_weak_scalar(int dtype, const void *value);
/* t's memory is now that of s, from offset on, with desc d; s's reference is taken over. */
void cni_tensor_set_storage(cn_tensor *t, cni_storage *s, int64_t offset, const cn_desc *d);
/* One example of a batch (its first dim is the batch) of a vmap; owned, in no scope. */
cn_tensor *cni_tensor_batched(cn_tensor *batch, uint64_t level);
/* Same memory, shape and strides, no history; owned, in no scope. */
cn_tensor *cni_tensor_alias(const cn_tensor *t);
void cni_tensor_destroy(cn_tensor *t); /* when the last reference is gone; iterative */
static inline void cni_tensor_release(cn_tensor *t)
{
  if (t && cni_refs_end(&t->refs)) cni_tensor_destroy(t);
}
static inline cn_tensor *cni_tensor_keep(cn_tensor *t)
{
  if (t) atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
  return t;
}
/* Records that t is a view made by op with these args; copies them. 0 or CN_ERR_MEMORY. */
int cni_tensor_set_view(cn_tensor *t, cn_tensor *parent, const cn_op *op, const cn_value *args, int nargs);
/* Host memory of t after waiting for its device; NULL with an error for non-host devices and captured tensors. */
void *cni_tensor_host(cn_tensor *t);

static inline struct cni_node *cni_node_keep(struct cni_node *n)
{
  if (n) atomic_fetch_add_explicit(&((cni_node_head *)(void *)n)->refs, 1, memory_order_relaxed);
  return n;
}
void cni_node_dead(struct cni_node *n);
static inline void cni_node_release(struct cni_node *n)
{
  if (n && cni_refs_end(&((cni_node_head *)(void *)n)->refs)) cni_node_dead(n);
}

/* ---- sparse tensors (sparse.c) ---- */
static inline bool cni_is_sparse(const cn_tensor *t) { return t && t->d.layout != CN_LAYOUT_STRIDED; }
/* A sparse tensor of these parts (kept), of the type and on the device of its values. Owned, in no scope. */
cn_tensor *cni_sparse_new(cn_layout layout, const cni_sparse *parts, int ndim, const int64_t *shape);
/* t gets the parts of `other`, and its shape: what writes in place do. 0 or CN_ERR_MEMORY. */
int cni_sparse_become(cn_tensor *t, const cn_tensor *other);
void cni_sparse_free(cni_sparse *parts);
/* Whose history a tensor has: what holds it (cni_held), or its values' where it is sparse. */
static inline cn_tensor *cni_history_of(const cn_tensor *t)
{
  return t && CNI_UNLIKELY(t->sparse != NULL) ? t->sparse->values : cni_held(t);
}
const char *cni_layout_name(int layout); /* as PyTorch prints it: "torch.sparse_coo" without its module */

/* ---- scopes (scope.c) ---- */
/* Gives an owned reference to the innermost scope; returns t (released and NULL on failure). */
cn_tensor *cni_scope_add(cn_tensor *t);
/* Takes the scope's reference of t back, if the current scopes own one: the caller owns it then. Otherwise adds one.
 */
cn_tensor *cni_scope_take(cn_tensor *t);
/* Like take, but leaves what belongs to scopes outside `depth` where it is (and adds a reference). */
cn_tensor *cni_scope_take_inside(size_t depth, cn_tensor *t);
/* Inner scopes for library code: push returns the depth to give to pop, 0 when out of memory (pop ignores it). */
size_t cni_scope_push(void);
void cni_scope_pop(size_t depth); /* releases everything added since */
void cni_scope_state_exit(cn_state *state);

/* ---- shape algebra (layout.c) ---- */
int64_t cni_numel(int ndim, const int64_t *shape);
/* Are all sizes and their product (times `elem` bytes) in range? */
bool cni_shape_fits(int ndim, const int64_t *shape, size_t elem, int64_t *numel);
/* 0, or an error that says what does not fit. */
int cni_shape_check(const char *who, int ndim, const int64_t *shape, size_t elem, int64_t *numel);
void cni_contiguous_strides(int ndim, const int64_t *shape, int64_t *strides);
bool cni_is_contiguous(int ndim, const int64_t *shape, const int64_t *strides);
bool cni_is_channels_last(int ndim, const int64_t *shape, const int64_t *strides);
void cni_channels_last_strides(int ndim, const int64_t *shape, int64_t *strides);
bool cni_is_dense(int ndim, const int64_t *shape, const int64_t *strides); /* a permutation of contiguous memory */
/* May two different indices reach the same memory? (conservative: true when it cannot be ruled out) */
bool cni_may_overlap(int ndim, const int64_t *shape, const int64_t *strides);
static inline bool cni_same_shape(int adim, const int64_t *a, int bdim, const int64_t *b)
{
  if (adim != bdim) return false;
  for (int i = 0; i < adim; i++)
    if (a[i] != b[i]) return false;
  return true;
}
/* Same shape, and the same place in memory for each index, counted from the first element? */
static inline bool cni_same_layout(const cn_desc *a, const cn_desc *b)
{
  if (a->ndim != b->ndim) return false;
  for (int i = 0; i < a->ndim; i++)
    if (a->shape[i] != b->shape[i] || (a->strides[i] != b->strides[i] && a->shape[i] != 1)) return false;
  return true;
}
/* The elements that d's lie among: *below of them before its first one, *above behind it. */
void cni_span(const cn_desc *d, int64_t *below, int64_t *above);
/* A walk over n operands in step, operand k's step along dim i being stride[k][i]: drops dims of size 1, brings the
 * others into memory order and merges those that are one run in every operand. Returns how many are left. */
int cni_collapse(int n, int64_t (*stride)[CN_MAX_DIMS], int ndim, int64_t *shape);
/* Broadcasts b's shape into a's result (in place in shape/ndim); false when they do not fit. */
bool cni_broadcast(int *ndim, int64_t *shape, int bdim, const int64_t *bshape);
/* Can a tensor of this shape be expanded to exactly that one? */
bool cni_broadcasts_to(int ndim, const int64_t *shape, int to_dim, const int64_t *to_shape);
enum { CNI_SHAPE_TEXT = 160 }; /* room for the text of most shapes; longer ones are cut */
/* Writes "(2, 3)"; returns out. */
const char *cni_shape_text(char *out, size_t size, int ndim, const int64_t *shape);
/* New strides for viewing (shape, strides) as new_shape; false when that needs a copy. */
bool cni_view_strides(int ndim, const int64_t *shape, const int64_t *strides, int new_ndim, const int64_t *new_shape,
                      int64_t *new_strides);

#endif
