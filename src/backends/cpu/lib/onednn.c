/* onednn.c: convolutions by oneDNN: primitives cached by shape, work cut by images and shared out to cairn's threads.
 *
 * Flow: refuse what it is not for -> primitive for a piece of the batch from the cache -> weights into its layout,
 * once -> pieces in parallel: x in, run, y out. The gradient of the weight runs pieces into partial sums, which are
 * added in order. Invariants: the pieces depend on shapes alone, so a result does not depend on the number of
 * threads; the library is entered with one OpenMP thread, so none of its threads is ever started (they would spin
 * beside ours, and hang in a forked child). */
#include "onednn.h"

#if defined(CNI_HAVE_DNNL_H) && !defined(CNI_MINIMAL)
#include <cairn/ext/hash.h>
#include <pthread.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "base/alloc.h"
#include "base/os.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "onednn_lib.h"
#include "tensor/tensor.h"

enum {
  CACHE_SLOTS = 128,
  MOST_SUMS = 8,          /* partial sums of a weight's gradient */
  LEAST_IMAGES = 4,       /* fewer could not be shared out */
  PIECE_WORK = 1 << 23,   /* multiply-adds of a piece */
  LEAST_WORK = 1 << 22,   /* of a convolution worth a primitive */
  FEW_CHANNELS = 8,       /* of a group: its blocked layouts would be half empty */
  LARGE_WEIGHT = 1 << 19, /* elements */
  TENSORS = 3             /* x, weight, y by CNI_DNNL_* */
};

static const cni_dnnl *const lib = &cni_dnnl_lib;

/* One OpenMP thread from here on, for this thread; returns what to give back to many_threads. Primitives too must be
 * made this way: they are cut for the threads there are. */
static int one_thread(void)
{
  int before = lib->set_threads ? lib->get_threads() : 0;
  if (lib->set_threads) lib->set_threads(1);
  return before;
}

static void many_threads(int before)
{
  if (lib->set_threads) lib->set_threads(before);
}

/* ---- primitives ---- */

/* What a primitive depends on; compared as bytes, so padding is cleared. */
typedef struct key {
  int64_t kind, dtype, bias, groups, n, c, h, w, k, kh, kw, oh, ow;
  int64_t stride[2], padding[2], dilation[2];
  int64_t strides[TENSORS][4];
} key;

/* A reorder between a user's layout and a primitive's; NULL prim when they are the same. */
typedef struct reorder {
  dnnl_primitive_desc_t pd;
  dnnl_primitive_t prim;
} reorder;

typedef struct entry {
  key k;
  int refs;      /* the cache's own and running calls' */
  uint64_t used; /* for choosing whom to drop */
  dnnl_primitive_desc_t pd;
  dnnl_primitive_t prim;     /* NULL: the library refused this shape */
  cni_dnnl_layout user[4];   /* x, weight, y, bias as they lie in memory */
  cni_dnnl_ref own[TENSORS]; /* as the primitive wants them; they live in pd */
  cni_dnnl_ref scratch;
  reorder reorders[TENSORS]; /* into the primitive's layout, or out of it for what it writes */
  size_t room[TENSORS + 1];  /* bytes: where a reorder is needed; [3]: scratch */
} entry;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the cache */
static entry *cache[CACHE_SLOTS];
static uint64_t clock_now;

static void free_entry(entry *e)
{
  for (int i = 0; i < TENSORS; i++) {
    if (e->reorders[i].prim) lib->dnnl_primitive_destroy(e->reorders[i].prim);
    if (e->reorders[i].pd) lib->dnnl_primitive_desc_destroy(e->reorders[i].pd);
  }
  if (e->prim) lib->dnnl_primitive_destroy(e->prim);
  if (e->pd) lib->dnnl_primitive_desc_destroy(e->pd);
  for (int i = 0; i < 4; i++) cni_dnnl_layout_free(&e->user[i]);
  cni_free(e, sizeof *e);
}

static void release_entry(entry *e)
{
  pthread_mutex_lock(&lock);
  bool last = --e->refs == 0;
  pthread_mutex_unlock(&lock);
  if (last) free_entry(e);
}

static dnnl_data_type_t type_of(const key *k) { return k->dtype == CN_BF16 ? dnnl_bf16 : dnnl_f32; }

/* Dims and strides as the library wants them: grouped weights have five. Returns how many there are. */
static int dims_of(const key *k, int tensor, int64_t *dims, int64_t *strides)
{
  const int64_t *s = k->strides[tensor];
  const int64_t sizes[TENSORS][4] = {
      {k->n, k->c, k->h, k->w}, {k->k, k->c / k->groups, k->kh, k->kw}, {k->n, k->k, k->oh, k->ow}};
  int n = 0;
  if (tensor == CNI_DNNL_WEIGHT && k->groups > 1) {
    dims[0] = k->groups;
    strides[0] = k->k / k->groups * s[0];
    n = 1;
  }
  for (int i = 0; i < 4; i++) {
    dims[n + i] = sizes[tensor][i];
    strides[n + i] = s[i];
  }
  if (n) dims[1] = k->k / k->groups;
  return n + 4;
}

/* A result of sums that are still to be added is float32 whatever the type of the others. */
static dnnl_data_type_t own_type(const key *k, int tensor)
{
  return tensor == CNI_DNNL_WEIGHT && k->kind == CNI_CONV_WEIGHT ? dnnl_f32 : type_of(k);
}

static bool channels_last(const key *k, int tensor)
{
  return k->strides[tensor][1] == 1 && k->strides[tensor][3] > 1;
}

/* Layouts of the user's tensors, and of those the primitive may choose: images stay channels-last if they are. */
static bool make_layouts(entry *e, cni_dnnl_conv *c)
{
  const key *k = &e->k;
  dnnl_dims_t dims, strides;
  bool plain = channels_last(k, CNI_DNNL_X) && channels_last(k, CNI_DNNL_Y), fine = true;
  for (int i = 0; fine && i < TENSORS; i++) {
    int n = dims_of(k, i, dims, strides);
    fine =
        cni_dnnl_layout_make(&e->user[i], n, dims, type_of(k), strides) &&
        cni_dnnl_layout_make(&c->wanted[i], n, dims, own_type(k, i), plain && i != CNI_DNNL_WEIGHT ? strides : NULL);
  }
  dims[0] = k->k;
  strides[0] = 1;
  if (fine && k->bias)
    fine = cni_dnnl_layout_make(&e->user[3], 1, dims, dnnl_f32, strides) &&
           cni_dnnl_layout_make(&c->wanted[CNI_DNNL_BIAS], 1, dims, dnnl_f32, strides);
  return fine;
}

static bool describe(entry *e)
{
  const key *k = &e->k;
  const int64_t in[2] = {k->h, k->w}, out[2] = {k->oh, k->ow}, taps[2] = {k->kh, k->kw};
  cni_dnnl_conv c = {.bias = k->bias != 0};
  for (int i = 0; i < 2; i++) {
    c.stride[i] = k->stride[i];
    c.dilation[i] = k->dilation[i] - 1;
    c.before[i] = k->padding[i];
    c.after[i] = (out[i] - 1) * k->stride[i] + (taps[i] - 1) * k->dilation[i] + 1 - in[i] - k->padding[i];
  }
  dnnl_primitive_desc_t forward = NULL;
  if (make_layouts(e, &c)) forward = cni_dnnl_forward(&c, k->kind != CNI_CONV_FORWARD);
  if (forward && k->kind == CNI_CONV_INPUT) e->pd = cni_dnnl_input(&c, forward);
  else if (forward && k->kind == CNI_CONV_WEIGHT) e->pd = cni_dnnl_weight(&c, forward);
  else e->pd = forward;
  if (forward && forward != e->pd) lib->dnnl_primitive_desc_destroy(forward);
  for (int i = 0; i < 4; i++) cni_dnnl_layout_free(&c.wanted[i]);
  return e->pd != NULL;
}

/* Which tensor the primitive writes. */
static int written(const key *k)
{
  return k->kind == CNI_CONV_FORWARD ? CNI_DNNL_Y : k->kind == CNI_CONV_INPUT ? CNI_DNNL_X : CNI_DNNL_WEIGHT;
}

static void find_layouts(entry *e)
{
  static const dnnl_query_t query[3][TENSORS] = {
      {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md},
      {dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md},
      {dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md}};
  for (int i = 0; i < TENSORS; i++) e->own[i] = lib->dnnl_primitive_desc_query_md(e->pd, query[e->k.kind][i], 0);
  e->scratch = lib->dnnl_primitive_desc_query_md(e->pd, dnnl_query_scratchpad_md, 0);
  e->room[3] = e->scratch ? lib->dnnl_memory_desc_get_size(e->scratch) : 0;
}

/* The primitive and its reorders. False when the library has none for this shape. */
static bool build(entry *e)
{
  if (!describe(e)) return false;
  find_layouts(e);
  for (int i = 0; i < TENSORS; i++) {
    cni_dnnl_ref user = cni_dnnl_ref_of(&e->user[i]);
    bool out = i == written(&e->k), sums = out && e->k.kind == CNI_CONV_WEIGHT;
    if (!e->own[i]) return false;
    if (lib->dnnl_memory_desc_equal(user, e->own[i]) && !sums) continue;
    e->room[i] = lib->dnnl_memory_desc_get_size(e->own[i]);
    reorder *r = &e->reorders[i];
    if (lib->dnnl_reorder_primitive_desc_create(&r->pd, out ? e->own[i] : user, lib->engine, out ? user : e->own[i],
                                                lib->engine, NULL) ||
        lib->dnnl_primitive_create(&r->prim, r->pd))
      return false;
  }
  return lib->dnnl_primitive_create(&e->prim, e->pd) == dnnl_success;
}

/* ---- the cache ---- */

/* The entry for k, kept for the caller; NULL with the error set when out of memory. Building happens outside the
 * lock, so two threads may build the same one: the later goes into the cache. */
static entry *find_entry(const key *k)
{
  uint64_t slot = cn_hash(k, sizeof *k) % CACHE_SLOTS;
  pthread_mutex_lock(&lock);
  entry *e = NULL;
  for (uint64_t i = 0; i < 4 && !e; i++) {
    entry *at = cache[(slot + i) % CACHE_SLOTS];
    if (at && !memcmp(&at->k, k, sizeof *k)) e = at;
  }
  if (e) {
    e->refs++;
    e->used = ++clock_now;
  }
  pthread_mutex_unlock(&lock);
  if (e || !(e = cni_alloc_zero(sizeof *e))) return e;
  e->k = *k;
  e->refs = 2;
  if (!build(e)) e->prim = NULL;
  pthread_mutex_lock(&lock);
  uint64_t oldest = slot;
  for (uint64_t i = 0; i < 4; i++) { /* an empty place of the four, or the one unused longest */
    uint64_t at = (slot + i) % CACHE_SLOTS;
    if (!cache[at] || (cache[oldest] && cache[at]->used < cache[oldest]->used)) oldest = at;
  }
  entry *old = cache[oldest];
  cache[oldest] = e;
  e->used = ++clock_now;
  pthread_mutex_unlock(&lock);
  if (old) release_entry(old);
  return e;
}

/* ---- running ---- */

typedef struct job {
  const cni_conv *v;
  const entry *e;
  int64_t pieces, images; /* images of a piece */
  char *weight;           /* in the primitive's layout */
  char *bias;             /* float32; NULL when absent */
  char *sums;             /* partial sums of the weight's gradient, one per piece */
  _Atomic int failed;
} job;

/* Memory objects of one thread: each handle is set by making a new one, which is cheap. */
static dnnl_memory_t memory_at(cni_dnnl_ref layout, void *data)
{
  dnnl_memory_t m = NULL;
  return lib->dnnl_memory_create(&m, layout, lib->engine, data) ? NULL : m;
}

static bool run_reorder(dnnl_stream_t stream, dnnl_primitive_t prim, cni_dnnl_ref from, void *src, cni_dnnl_ref to,
                        void *dst)
{
  dnnl_memory_t a = memory_at(from, src), b = memory_at(to, dst);
  dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, a}, {DNNL_ARG_TO, b}};
  bool fine = a && b && !lib->dnnl_primitive_execute(prim, stream, 2, args) && !lib->dnnl_stream_wait(stream);
  if (a) lib->dnnl_memory_destroy(a);
  if (b) lib->dnnl_memory_destroy(b);
  return fine;
}

/* data: x, weight, y, bias, scratch in the primitive's layouts */
static bool run_primitive(const entry *e, dnnl_stream_t stream, void *const *data)
{
  static const int numbers[3][TENSORS] = {{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                                          {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
                                          {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}};
  dnnl_exec_arg_t args[5];
  int n = 0;
  bool fine = true;
  for (int i = 0; i < TENSORS; i++, n++)
    args[n] = (dnnl_exec_arg_t){numbers[e->k.kind][i], memory_at(e->own[i], data[i])};
  if (e->k.bias) args[n++] = (dnnl_exec_arg_t){DNNL_ARG_BIAS, memory_at(cni_dnnl_ref_of(&e->user[3]), data[3])};
  if (e->room[3]) args[n++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, memory_at(e->scratch, data[4])};
  for (int i = 0; i < n; i++) fine = fine && args[i].memory;
  fine = fine && !lib->dnnl_primitive_execute(e->prim, stream, n, args) && !lib->dnnl_stream_wait(stream);
  for (int i = 0; i < n; i++)
    if (args[i].memory) lib->dnnl_memory_destroy(args[i].memory);
  return fine;
}

/* One piece of the batch. room: where x, (weight,) y and scratch go that need memory of their own */
static bool run_piece(const job *j, dnnl_stream_t stream, int64_t piece, char *const *room)
{
  const entry *e = j->e;
  const cni_conv *v = j->v;
  int64_t elem = v->dtype == CN_BF16 ? 2 : 4;
  void *user[TENSORS] = {v->x.data + piece * j->images * v->x.strides[0] * elem, v->weight.data,
                         v->y.data + piece * j->images * v->y.strides[0] * elem};
  void *data[5] = {user[0], j->weight, user[2], j->bias, room[3]};
  int out = written(&e->k);
  for (int i = 0; i < TENSORS; i += 2) {
    if (!e->reorders[i].prim) continue;
    data[i] = room[i];
    if (i != out &&
        !run_reorder(stream, e->reorders[i].prim, cni_dnnl_ref_of(&e->user[i]), user[i], e->own[i], data[i]))
      return false;
  }
  if (out == CNI_DNNL_WEIGHT) data[1] = j->sums + (size_t)piece * e->room[1];
  if (!run_primitive(e, stream, data)) return false;
  if (out == CNI_DNNL_WEIGHT || !e->reorders[out].prim) return true;
  return run_reorder(stream, e->reorders[out].prim, e->own[out], data[out], cni_dnnl_ref_of(&e->user[out]),
                     user[out]);
}

static size_t aligned(size_t size) { return (size + 63) / 64 * 64; }

static void piece_range(int64_t begin, int64_t end, void *payload)
{
  job *j = payload;
  const entry *e = j->e;
  size_t size[4] = {aligned(e->room[0]), 0, aligned(e->room[2]), aligned(e->room[3])}, all = 64;
  int threads = one_thread();
  for (int i = 0; i < 4; i++) all += size[i];
  char *block = cni_scratch_alloc(all), *room[4] = {block};
  dnnl_stream_t stream = NULL;
  for (int i = 1; i < 4 && block; i++) room[i] = room[i - 1] + size[i - 1];
  bool fine = block && !lib->dnnl_stream_create(&stream, lib->engine, dnnl_stream_default_flags);
  for (int64_t i = begin; fine && i < end; i++) fine = run_piece(j, stream, i, room);
  if (stream) lib->dnnl_stream_destroy(stream);
  many_threads(threads);
  cni_scratch_free(block, all);
  if (!fine) j->failed = 1;
}

/* Before the pieces: the weight into the primitive's layout, the bias into float32. After them: the sums added up. */
static bool reorder_weight(job *j, bool out)
{
  const entry *e = j->e;
  dnnl_stream_t stream = NULL;
  cni_dnnl_ref user = cni_dnnl_ref_of(&e->user[1]), own = e->own[1];
  bool fine = !lib->dnnl_stream_create(&stream, lib->engine, dnnl_stream_default_flags);
  if (fine && out) fine = run_reorder(stream, e->reorders[1].prim, own, j->sums, user, j->v->weight.data);
  else if (fine) fine = run_reorder(stream, e->reorders[1].prim, user, j->v->weight.data, own, j->weight);
  if (stream) lib->dnnl_stream_destroy(stream);
  return fine;
}

static void add_range(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  float *sum = (float *)(void *)j->sums;
  for (int64_t piece = 1; piece < j->pieces; piece++) {
    const float *other = (const float *)(const void *)(j->sums + (size_t)piece * j->e->room[1]);
    for (int64_t i = begin; i < end; i++) sum[i] += other[i];
  }
}

static int run(job *j)
{
  const cni_conv *v = j->v;
  const entry *e = j->e;
  bool sums = v->kind == CNI_CONV_WEIGHT, own = e->reorders[1].prim && !sums;
  size_t weight = own ? e->room[1] : 0, all = sums ? (size_t)j->pieces * e->room[1] : 0;
  size_t bias = v->bias ? (size_t)v->k * 4 : 0;
  char *block = cni_scratch_alloc(aligned(weight) + all + aligned(bias) + 64);
  if (!block) return CN_ERR_MEMORY;
  j->sums = block;
  j->weight = own ? block + all : v->weight.data;
  if (bias) {
    j->bias = block + all + aligned(weight);
    cn_desc to = cni_cpu_packed(v->bias, CN_F32, j->bias);
    cni_cpu_copy(&to, v->bias);
  }
  bool fine = !own || reorder_weight(j, false);
  if (fine) cni_parallel_for(j->pieces, 1, piece_range, j);
  fine = fine && !j->failed && !cn_err();
  if (fine && sums) {
    cni_parallel_for((int64_t)(e->room[1] / 4), 1 << 15, add_range, j);
    fine = reorder_weight(j, true);
  }
  cni_scratch_free(block, aligned(weight) + all + aligned(bias) + 64);
  if (fine || cn_err()) return cn_err();
  return cni_fail(CN_ERR_INTERNAL, "conv2d: oneDNN failed; CAIRN_KERNEL=conv2d=-onednn does without it");
}

/* ---- entry ---- */

/* Images of a piece: enough work, and a divisor of the batch. */
static int64_t images_of(const cni_conv *v)
{
  double each = cni_conv_work(v) / (double)v->n;
  int64_t images = (int64_t)(PIECE_WORK / each) + 1;
  if (v->kind == CNI_CONV_WEIGHT && images < v->n / MOST_SUMS) images = v->n / MOST_SUMS;
  if (images > v->n / LEAST_IMAGES) images = v->n / LEAST_IMAGES;
  while (v->n % images) images--;
  return images;
}

static bool simple(const cni_conv_tensor *t)
{
  for (int i = 0; i < 4; i++)
    if (t->strides[i] < 1) return false;
  return !cni_may_overlap(4, t->shape, t->strides);
}

static const char *shape_against(const cni_conv *v, bool wished)
{
  if (v->dtype != CN_F32 && v->dtype != CN_BF16) return "oneDNN takes float32 and bfloat16 here";
  if (v->n < LEAST_IMAGES || !v->c) return "too few images to share out";
  if (!simple(&v->x) || !simple(&v->weight) || !simple(&v->y)) return "overlapping or reversed memory";
  if (wished) return NULL;
  if (cni_conv_work(v) < LEAST_WORK) return "too small to be worth a primitive";
  if (v->c / v->groups < FEW_CHANNELS || v->k / v->groups < FEW_CHANNELS)
    return "own kernels are faster on few channels";
  if (v->kind == CNI_CONV_WEIGHT && v->k * (v->c / v->groups) * v->kh * v->kw > LARGE_WEIGHT)
    return "partial sums of so large a weight cost too much";
  if (v->kh * v->kw == 1 && v->dtype == CN_F32) return "own kernels are as fast without a window";
  return NULL;
}

static key key_of(const cni_conv *v, int64_t images)
{
  const cni_conv_tensor *const tensors[TENSORS] = {&v->x, &v->weight, &v->y};
  key k;
  memset(&k, 0, sizeof k);
  k.kind = v->kind, k.dtype = v->dtype, k.bias = v->bias != NULL, k.groups = v->groups;
  k.n = images, k.c = v->c, k.h = v->h, k.w = v->w, k.k = v->k, k.kh = v->kh, k.kw = v->kw, k.oh = v->oh,
  k.ow = v->ow;
  for (int i = 0; i < 2; i++) {
    k.stride[i] = v->stride[i];
    k.padding[i] = v->padding[i];
    k.dilation[i] = v->dilation[i];
  }
  for (int i = 0; i < TENSORS; i++) memcpy(k.strides[i], tensors[i]->strides, sizeof k.strides[i]);
  return k;
}

const char *cni_onednn_conv_against(const cni_conv *v, bool wished)
{
  const char *refusal = shape_against(v, wished);
  if (!refusal) cni_dnnl_load(&refusal);
  return refusal;
}

int cni_onednn_conv(const cni_conv *v, const char **refusal)
{
  int64_t images = images_of(v);
  key k = key_of(v, images);
  int threads = one_thread(), status = CN_REFUSED;
  entry *e = find_entry(&k);
  if (!e) status = CN_ERR_MEMORY;
  else *refusal = "oneDNN has no primitive for this convolution";
  if (e && e->prim) {
    job j = {.v = v, .e = e, .images = images, .pieces = v->n / images};
    status = run(&j);
  }
  if (e) release_entry(e);
  many_threads(threads);
  return status;
}
#else
const char *cni_onednn_conv_against(const cni_conv *v, bool wished)
{
  (void)v, (void)wished;
  return "cairn was built without oneDNN's header";
}

int cni_onednn_conv(const cni_conv *v, const char **refusal)
{
  *refusal = cni_onednn_conv_against(v, false);
  return CN_REFUSED;
}
#endif
