/* sort.c: sort, topk and kthvalue on the CPU, one line along the dim at a time.
 *
 * Place in the flow: kernels of ops/order.c. Elements become items: unsigned keys in the wanted order, with
 * the index beside them. Keys of up to 32 bits share one 64-bit number with their index. Invariants: all NaNs
 * have the one key above every number, and the two zeros one key, so that items are ordered exactly as
 * PyTorch orders elements; the order among equals is that of their indices. */
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "cpu.h"
#include "ops/infer.h"

enum { GRAIN = 4096, STACK = 256, SPARE = 64 };

/* ---- items ---- */

typedef struct wide_item {
  uint64_t key;
  int64_t index;
} wide_item;

#define ITEM uint64_t
#define LESS(a, b) ((a) < (b))
#define DIGIT(x, d) ((x) >> (32 + 8 * (d)) & 255)
#define DIGITS 4
#define NAME(x) narrow_##x
#include "sort_items.inc"
#undef ITEM
#undef LESS
#undef DIGIT
#undef DIGITS
#undef NAME
#define ITEM wide_item
#define LESS(a, b) ((a).key < (b).key || ((a).key == (b).key && (a).index < (b).index))
#define DIGIT(x, d) ((x).key >> (8 * (d)) & 255)
#define DIGITS 8
#define NAME(x) wide_##x
#include "sort_items.inc"

/* ---- keys: unsigned numbers in the order of the elements ---- */

/* u holds the bits of a float: sign, then `inf` is the code of infinity. */
static inline uint64_t float_key(uint64_t u, uint64_t sign, uint64_t inf)
{
  uint64_t magnitude = u & (sign - 1);
  if (magnitude > inf) return 2 * sign - 1;
  if (magnitude == 0) return sign;
  return u & sign ? ~u & (2 * sign - 1) : u | sign;
}

typedef struct line {
  const char *x;   /* its first element */
  int64_t step, n; /* bytes between elements, and their number */
} line;

/* Keys of elements [begin, begin + n) of a line; flip turns the order round. */
#define KEYS(S, T, EXPRESSION)                                                                               \
  static void keys_##S(uint64_t *key, const line *l, int64_t begin, int64_t n, uint64_t flip)                \
  {                                                                                                          \
    const char *x = l->x + begin * l->step;                                                                  \
    for (int64_t i = 0; i < n; i++, x += l->step) {                                                          \
      T u;                                                                                                   \
      memcpy(&u, x, sizeof u);                                                                               \
      key[i] = (EXPRESSION) ^ flip;                                                                          \
    }                                                                                                        \
  }
KEYS(f64, uint64_t, float_key(u, UINT64_C(1) << 63, UINT64_C(0x7ff0000000000000)))
KEYS(f32, uint32_t, float_key(u, UINT64_C(1) << 31, 0x7f800000))
KEYS(f16, uint16_t, float_key(u, 1 << 15, 0x7c00))
KEYS(bf16, uint16_t, float_key(u, 1 << 15, 0x7f80))
KEYS(i64, uint64_t, u ^ UINT64_C(1) << 63)
KEYS(i32, uint32_t, u ^ UINT32_C(1) << 31)
KEYS(i16, uint16_t, (uint64_t)(u ^ 1 << 15))
KEYS(i8, uint8_t, (uint64_t)(u ^ 1 << 7))
KEYS(u64, uint64_t, u)
KEYS(u32, uint32_t, u)
KEYS(u16, uint16_t, (uint64_t)u)
KEYS(u8, uint8_t, (uint64_t)u)
KEYS(truth, uint8_t, (uint64_t)(u != 0))

typedef void (*keys_fn)(uint64_t *key, const line *l, int64_t begin, int64_t n, uint64_t flip);

static keys_fn keys_of(int dtype)
{
  static const keys_fn table[CN_DTYPE_COUNT] = {
      [CN_BOOL] = keys_truth, [CN_U8] = keys_u8,   [CN_I8] = keys_i8,     [CN_I16] = keys_i16,
      [CN_U16] = keys_u16,    [CN_I32] = keys_i32, [CN_U32] = keys_u32,   [CN_I64] = keys_i64,
      [CN_U64] = keys_u64,    [CN_F16] = keys_f16, [CN_BF16] = keys_bf16, [CN_F32] = keys_f32,
      [CN_F64] = keys_f64};
  return table[dtype];
}

/* ---- one call ---- */

typedef struct job {
  const cn_desc *x;
  int dim;
  keys_fn keys;
  uint64_t flip;      /* of the key bits: descending */
  bool narrow;        /* key and index fit 64 bits */
  int64_t n, k, size; /* elements of a line, how many are wanted, bytes of an element */
  bool only_last;     /* of those, the last alone is written (kthvalue) */
  char *values;
  int64_t *indices;
  int64_t inner; /* elements between neighbours in the results */
} job;

/* A line's place: where it begins in x, and its first element in the results. */
static void locate(const job *j, int64_t number, line *l, int64_t *out)
{
  const cn_desc *x = j->x;
  int64_t offset = 0, rest = number;
  for (int i = x->ndim - 1; i >= 0; i--) {
    if (i == j->dim) continue;
    offset += rest % x->shape[i] * x->strides[i];
    rest /= x->shape[i];
  }
  l->x = (const char *)x->data + offset * j->size;
  l->step = (x->ndim ? x->strides[j->dim] : 0) * j->size;
  l->n = j->n;
  int64_t written = j->only_last ? 1 : j->k;
  *out = number / j->inner * written * j->inner + number % j->inner;
}

static void put(const job *j, const line *l, int64_t out, int64_t rank, int64_t index)
{
  if (j->only_last && rank != j->k - 1) return;
  int64_t at = out + (j->only_last ? 0 : rank * j->inner);
  j->indices[at] = index;
  memcpy(j->values + at * j->size, l->x + index * l->step, (size_t)j->size);
}

/* Room for items: all of a line twice (sort), or a candidates' list (selection). */
static int64_t capacity(const job *j) { return 2 * (j->k == j->n ? j->n : j->k + SPARE); }

/* All elements in order. */
static void sort_line(const job *j, const line *l, int64_t out, void *room)
{
  uint64_t key[STACK];
  uint64_t *a = room;
  wide_item *b = room;
  for (int64_t done = 0; done < l->n; done += STACK) {
    int64_t m = l->n - done < STACK ? l->n - done : STACK;
    j->keys(key, l, done, m, j->flip);
    for (int64_t i = 0; j->narrow && i < m; i++) a[done + i] = key[i] << 32 | (uint64_t)(done + i);
    for (int64_t i = 0; !j->narrow && i < m; i++) b[done + i] = (wide_item){key[i], done + i};
  }
  if (j->narrow) {
    a = narrow_sort(a, a + l->n, l->n);
    for (int64_t i = 0; i < l->n; i++) put(j, l, out, i, (int64_t)(a[i] & UINT32_MAX));
  } else {
    b = wide_sort(b, b + l->n, l->n);
    for (int64_t i = 0; i < l->n; i++) put(j, l, out, i, b[i].index);
  }
}

/* The first k of the order: candidates are collected while they beat the worst of the best k so far, and
 * thinned out whenever the list is full. */
static void select_narrow(const job *j, const line *l, int64_t out, uint64_t *a)
{
  uint64_t key[STACK], worst = UINT64_MAX;
  int64_t have = 0, most = 2 * j->k + SPARE;
  for (int64_t done = 0; done < l->n; done += STACK) {
    int64_t m = l->n - done < STACK ? l->n - done : STACK;
    j->keys(key, l, done, m, j->flip);
    for (int64_t i = 0; i < m; i++) {
      uint64_t item = key[i] << 32 | (uint64_t)(done + i);
      if (item >= worst) continue;
      a[have++] = item;
      if (have < most) continue;
      narrow_select(a, have, j->k);
      have = j->k;
      worst = 0;
      for (int64_t t = 0; t < have; t++) worst = a[t] > worst ? a[t] : worst;
    }
  }
  narrow_select(a, have, j->k);
  a = narrow_merge_sort(a, a + j->k, j->k);
  for (int64_t i = 0; i < j->k; i++) put(j, l, out, i, (int64_t)(a[i] & UINT32_MAX));
}

static void select_wide(const job *j, const line *l, int64_t out, wide_item *a)
{
  uint64_t key[STACK];
  wide_item worst = {UINT64_MAX, INT64_MAX};
  int64_t have = 0, most = 2 * j->k + SPARE;
  for (int64_t done = 0; done < l->n; done += STACK) {
    int64_t m = l->n - done < STACK ? l->n - done : STACK;
    j->keys(key, l, done, m, j->flip);
    for (int64_t i = 0; i < m; i++) {
      wide_item item = {key[i], done + i};
      if (!LESS(item, worst)) continue;
      a[have++] = item;
      if (have < most) continue;
      wide_select(a, have, j->k);
      have = j->k;
      worst = a[0];
      for (int64_t t = 1; t < have; t++) worst = LESS(worst, a[t]) ? a[t] : worst;
    }
  }
  wide_select(a, have, j->k);
  a = wide_merge_sort(a, a + j->k, j->k);
  for (int64_t i = 0; i < j->k; i++) put(j, l, out, i, a[i].index);
}

static void lines(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  wide_item stack[STACK];
  size_t size = (size_t)capacity(j) * (j->narrow ? sizeof(uint64_t) : sizeof(wide_item));
  void *room = size <= sizeof stack ? (void *)stack : cni_alloc(size);
  if (!room) return; /* the error is set, and reaches the caller */
  for (int64_t i = begin; i < end; i++) {
    line l;
    int64_t out;
    locate(j, i, &l, &out);
    if (j->k == j->n) sort_line(j, &l, out, room);
    else if (j->narrow) select_narrow(j, &l, out, room);
    else select_wide(j, &l, out, room);
  }
  if (room != (void *)stack) cni_free(room, size);
}

/* The first k in order of each line along dim. */
static int run(cn_call *c, int dim, bool descending, int64_t k, bool only_last)
{
  const cn_desc *x = cn_desc_of(c->in[0]);
  job j = {.x = x,
           .dim = dim,
           .keys = keys_of(x->dtype),
           .n = x->ndim ? x->shape[dim] : 1,
           .k = k,
           .inner = 1,
           .only_last = only_last,
           .values = cn_desc_of(c->out[0])->data,
           .indices = cn_desc_of(c->out[1])->data};
  int bits = x->dtype == CN_BOOL ? 1 : cni_dtype_rows[x->dtype].bits;
  j.size = (int64_t)cni_dtype_size(x->dtype);
  j.narrow = bits <= 32 && j.n <= (int64_t)UINT32_MAX;
  j.flip = !descending ? 0 : bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
  if (x->numel == 0 || k == 0) return CN_OK;
  for (int i = dim + 1; i < x->ndim; i++) j.inner *= x->shape[i];
  cni_parallel_for(x->numel / j.n, j.n < GRAIN ? GRAIN / j.n : 1, lines, &j);
  return cn_err();
}

/* sort(input, dim, descending, stable) */
static int sort_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]);
  int dim = cn_call_dim(c, c->args[1].u.i, x->ndim);
  return run(c, dim, cni_arg_bool(c->args, 2), x->ndim ? x->shape[dim] : 1, false);
}

/* topk(input, k, dim, largest, sorted): in order whether asked for or not */
static int topk_kernel(cn_call *c)
{
  int ndim = cn_desc_of(c->in[0])->ndim, dim = cn_call_dim(c, c->args[2].u.i, ndim);
  return run(c, dim, cni_arg_bool(c->args, 3), ndim ? c->args[1].u.i : 1, false); /* 0-d: itself, even for k 0 */
}

/* kthvalue(input, k, dim, keepdim) */
static int kthvalue_kernel(cn_call *c)
{
  int dim = cn_call_dim(c, c->args[2].u.i, cn_desc_of(c->in[0])->ndim);
  return run(c, dim, false, c->args[1].u.i, true);
}

const cn_kernel cni_cpu_sort_kernels[] = {
    {"sort", "radix", sort_kernel},
    {"topk", "selection", topk_kernel},
    {"kthvalue", "selection", kthvalue_kernel},
    {NULL, NULL, NULL},
};
