/* tensor.c: making, looking into and freeing tensor handles.
 *
 * Place in the flow: apply.c makes result handles here; users look into them. Invariant: freeing is iterative: a
 * chain of a hundred thousand views or nodes is freed by one loop, never by recursion. */
#include "tensor.h"

#include <string.h>

#include "args.h"
#include "base/dtype.h"
#include "base/hooks.h"

cni_hooks_table cni_hooks = {.state_exit = cni_scope_state_exit};

_Atomic bool cni_tensors_watched;

enum { HOUSED_MAX = 8192 }; /* bytes of data that lie in one block with their handle */

/* Writes a handle: everything but the dims beyond ndim, which nobody reads. */
static inline void begin(cn_tensor *t, cni_storage *storage, int64_t offset, int dtype, int ndim, const int64_t *shape,
                         const int64_t *strides)
{
  t->d.size = sizeof t->d;
  t->d.layout = CN_LAYOUT_STRIDED;
  t->d.data = storage->data ? (char *)storage->data + offset * (int64_t)cni_dtype_size(dtype) : NULL;
  t->d.dtype = dtype;
  t->d.ndim = ndim;
  t->d.device = storage->device;
  t->d.weak = 0;
  int64_t n = 1;
  if (strides) {
    for (int i = 0; i < ndim; i++) n *= t->d.shape[i] = shape[i], t->d.strides[i] = strides[i];
  } else {
    int64_t step = 1;
    for (int i = ndim - 1; i >= 0; i--) {
      n *= t->d.shape[i] = shape[i];
      t->d.strides[i] = step;
      step *= shape[i] > 1 ? shape[i] : 1;
    }
  }
  t->d.numel = n;
  atomic_init(&t->refs, 1);
  t->out_index = 0;
  atomic_init(&t->scope_slot, 0);
  t->inference = t->detached = t->housed = false;
  t->storage = storage;
  t->offset = offset;
  t->view = NULL;
  t->versions = NULL;
  t->sparse = NULL;
  t->node = NULL;
  atomic_init(&t->node_version, 0);
  t->value = t->value_version = 0;
  t->batch = NULL;
  t->batch_level = 0;
}

cn_tensor *cni_tensor_over(cni_storage *storage, int64_t offset, int dtype, int ndim, const int64_t *shape,
                           const int64_t *strides)
{
  cn_tensor *t = storage ? cni_alloc(sizeof *t) : NULL;
  if (t) begin(t, storage, offset, dtype, ndim, shape, strides);
  else cni_storage_release(storage);
  return t;
}

cn_tensor *cni_tensor_new(cn_device device, int dtype, int ndim, const int64_t *shape, const int64_t *strides)
{
  size_t size = cni_dtype_bytes(dtype, cni_numel(ndim, shape));
  if (device != CN_CPU || size > HOUSED_MAX)
    return cni_tensor_over(cni_storage_new(device, size), 0, dtype, ndim, shape, strides);
  size_t block = sizeof(cni_home) + (size ? size : 1); /* even no data at all lies inside the block */
  cni_home *h = cni_alloc(block);
  if (!h) return NULL;
  cni_storage_init(&h->storage, block, device, h->data, size);
  begin(&h->handle, &h->storage, 0, dtype, ndim, shape, strides);
  h->handle.housed = true;
  if (cni_watched()) cni_hooks.tensor_memory(device, (int64_t)size);
  return &h->handle;
}

void cni_tensor_set_storage(cn_tensor *t, cni_storage *s, int64_t offset, const cn_desc *d)
{
  cni_storage *old = t->storage;
  t->storage = s;
  t->offset = offset;
  t->d = *d;
  if (!t->housed || old != cni_home_of(t)) cni_storage_release(old); /* where t itself lies goes with t */
}

cn_tensor *cni_tensor_batched(cn_tensor *batch, uint64_t level)
{
  cn_tensor *t = cni_tensor_over(cni_storage_keep(batch->storage), batch->offset, batch->d.dtype, batch->d.ndim - 1,
                                 batch->d.shape + 1, batch->d.strides + 1);
  if (!t) return NULL;
  t->d.data = NULL;
  t->d.device = batch->d.device;
  t->inference = batch->inference;
  if (CNI_UNLIKELY(batch->versions != NULL)) cni_versions_set(t, batch);
  t->batch = cni_tensor_keep(batch);
  t->batch_level = level;
  return t;
}

cn_tensor *cni_tensor_alias(const cn_tensor *t)
{
  if (CNI_UNLIKELY(t->batch != NULL)) {
    cn_tensor *all = cni_tensor_alias(t->batch), *one = all ? cni_tensor_batched(all, t->batch_level) : NULL;
    cni_tensor_release(all);
    return one;
  }
  cn_tensor *a = cni_tensor_over(cni_storage_keep(t->storage), t->offset, t->d.dtype, t->d.ndim, t->d.shape,
                                 t->d.strides);
  if (!a) return NULL;
  a->d.weak = t->d.weak;
  a->inference = t->inference;
  if (CNI_UNLIKELY(t->versions != NULL)) cni_versions_set(a, t);
  a->value = t->value;
  a->value_version = t->value_version;
  return a;
}

static void versions_release(cni_versions *v)
{
  if (cni_refs_end(&v->refs)) cni_free(v, sizeof *v);
}

int cni_versions_set(cn_tensor *t, const cn_tensor *of)
{
  cni_versions *old = t->versions, *made = of ? of->versions : cni_alloc(sizeof *made);
  if (!of && !made) return CN_ERR_MEMORY;
  if (!of) {
    atomic_init(&made->refs, 0);
    atomic_init(&made->n, 0);
  }
  if (made) atomic_fetch_add_explicit(&made->refs, 1, memory_order_relaxed);
  t->versions = made;
  if (old) versions_release(old);
  return CN_OK;
}

/* ---- view records ---- */

/* Does it point to something that a copy has to own? */
static inline bool holds_list(const cn_value *v)
{
  return 1u << v->tag & (1u << CN_V_INTS | 1u << CN_V_FLOATS | 1u << CN_V_STR);
}

static size_t list_bytes(const cn_value *v)
{
  switch (v->tag) {
  case CN_V_INTS: return (size_t)v->n * sizeof(int64_t);
  case CN_V_FLOATS: return (size_t)v->n * sizeof(double);
  case CN_V_STR: return cni_text_stays(v) ? 0 : (strlen(v->u.s) + 8) & ~(size_t)7;
  default: return 0;
  }
}

size_t cni_args_bytes(const cn_value *args, int nargs)
{
  size_t size = (size_t)nargs * sizeof *args;
  for (int i = 0; i < nargs; i++)
    if (holds_list(&args[i])) size += list_bytes(&args[i]);
  return size;
}

void cni_args_copy(cn_value *to, const cn_value *args, int nargs)
{
  char *tail = (char *)(to + nargs);
  for (int i = 0; i < nargs; i++) {
    to[i] = args[i];
    if (args[i].tag == CN_V_TENSOR || args[i].tag == CN_V_TENSORS) to[i].u.t = NULL;
    if (!holds_list(&args[i])) continue;
    size_t bytes = list_bytes(&args[i]);
    if (bytes && args[i].tag == CN_V_STR) memcpy(tail, args[i].u.s, strlen(args[i].u.s) + 1);
    else if (bytes) memcpy(tail, args[i].u.is, bytes);
    if (bytes || args[i].tag != CN_V_STR) to[i].u.is = (const int64_t *)(void *)tail;
    tail += bytes;
  }
}

int cni_tensor_set_view(cn_tensor *t, cn_tensor *parent, const cn_op *op, const cn_value *args, int nargs)
{
  size_t size = sizeof(cni_view) + cni_args_bytes(args, nargs);
  cni_view *v = cni_alloc(size);
  if (!v) return CN_ERR_MEMORY;
  v->parent = cni_tensor_keep(parent);
  v->op = op;
  v->size = size;
  v->nargs = nargs;
  cni_args_copy(v->args, args, nargs);
  t->view = v;
  return CN_OK;
}

/* ---- freeing ---- */

/* Frees the handle itself, and gives its memory back. */
static void end(cn_tensor *t)
{
  cni_storage *s = t->storage;
  if (CNI_UNLIKELY(t->versions != NULL)) versions_release(t->versions);
  if (!t->housed) {
    cni_storage_release(s);
    cni_free(t, sizeof *t);
    return;
  }
  cni_storage *home = cni_home_of(t);
  if (CNI_UNLIKELY(s != home)) cni_storage_release(s);
  if (cni_refs_end(&home->refs)) cni_storage_free(home);
  else cni_cover(t, sizeof *t); /* others are still in the block */
}

static void free_tensor(cn_tensor *t)
{
  cni_view *v = t->view;
  cni_node_release(t->node);
  if (CNI_UNLIKELY(t->sparse != NULL)) cni_sparse_free(t->sparse);
  if (v) {
    cni_tensor_release(v->parent);
    cni_free(v, v->size);
  }
  cni_tensor_release(t->batch);
  end(t);
}

static void drain(cn_state *s)
{
  s->draining = true;
  for (;;) {
    cn_tensor *t = s->dead_tensors;
    struct cni_node *n = s->dead_nodes;
    if (t) {
      s->dead_tensors = t->d.data;
      free_tensor(t);
    } else if (n) {
      s->dead_nodes = ((cni_node_head *)(void *)n)->next_dead;
      cni_hooks.node_free(n);
    } else break;
  }
  s->draining = false;
}

void cni_tensor_destroy(cn_tensor *t)
{
  if (CNI_LIKELY(!t->view && !t->node && !t->batch && !t->sparse)) { /* nothing can cascade: free at once */
    end(t);
    return;
  }
  cn_state *s = cni_state();
  t->d.data = s->dead_tensors;
  s->dead_tensors = t;
  if (!s->draining) drain(s);
}

void cni_node_dead(struct cni_node *n)
{
  cn_state *s = cni_state();
  ((cni_node_head *)(void *)n)->next_dead = s->dead_nodes;
  s->dead_nodes = n;
  if (!s->draining) drain(s);
}

cn_tensor *cn_keep(cn_tensor *t) { return cni_tensor_keep(t); }
void cn_release(cn_tensor *t) { cni_tensor_release(t); }

/* ---- looking in ---- */

cn_dtype cn_dtype_of(const cn_tensor *t) { return t ? (cn_dtype)t->d.dtype : CN_DTYPE_NONE; }
cn_device cn_device_of(const cn_tensor *t) { return t ? t->d.device : CN_DEVICE_DEFAULT; }
int64_t cn_numel(const cn_tensor *t) { return t ? t->d.numel : 0; }
int cn_ndim(const cn_tensor *t) { return t ? t->d.ndim : 0; }
const int64_t *cn_shape(const cn_tensor *t) { return t ? t->d.shape : NULL; }

bool cn_same_shape(const cn_tensor *a, const cn_tensor *b)
{
  return a && b && cni_same_shape(a->d.ndim, a->d.shape, b->d.ndim, b->d.shape);
}

const int64_t *cn_strides(const cn_tensor *t) { return t ? t->d.strides : NULL; }

int64_t cn_size(const cn_tensor *t, int64_t dim)
{
  if (!t) return 0;
  int64_t d = dim < 0 ? dim + t->d.ndim : dim;
  if (d < 0 || d >= t->d.ndim) {
    cni_fail(CN_ERR_INDEX, "size: dimension %lld is out of range for a tensor of %d dimensions", (long long)dim,
             (int)t->d.ndim);
    return 0;
  }
  return t->d.shape[d];
}

bool cn_is_contiguous(const cn_tensor *t) { return t && cni_is_contiguous(t->d.ndim, t->d.shape, t->d.strides); }
bool cn_is_channels_last(const cn_tensor *t)
{
  return t && cni_is_channels_last(t->d.ndim, t->d.shape, t->d.strides);
}
bool cn_is_view(const cn_tensor *t) { return t && t->view; }
uint64_t cn_tensor_version(const cn_tensor *t) { return t ? cni_version(cni_history_of(t)) : 0; }
size_t cn_tensor_nbytes(const cn_tensor *t)
{
  const cni_sparse *s = t ? t->sparse : NULL;
  if (s) return cn_tensor_nbytes(s->index) + cn_tensor_nbytes(s->plain) + cn_tensor_nbytes(s->values);
  return t ? cni_dtype_bytes(t->d.dtype, t->d.numel) : 0;
}

int64_t cn_storage_offset(const cn_tensor *t) { return t ? t->offset : 0; }
size_t cn_storage_nbytes(const cn_tensor *t) { return t && t->storage ? t->storage->size : 0; }
