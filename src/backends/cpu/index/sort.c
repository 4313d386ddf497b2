/* sort.c: sort, topk and kthvalue on the CPU, one line along the dim at a time.
 *
 * Place in the flow: kernels of ops/order.c. Elements become items: keys (sort.h) in the wanted order, with the index
 * beside them. Where both fit, they share one 64-bit number: keys of up to 32 bits always, others if they lie close
 * together. Sorting is by bytes, or by merging if there are few; the first few of an order are found in one pass that
 * keeps a list, many of them or the last alone by counting leading bits. Invariant: the order among equals is that of
 * their indices. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "ops/infer.h"
#include "sort.h"

enum {
  GRAIN = 4096,
  STACK = 256,
  SPARE = 24,
  FEW = 256, /* keys that are looked at one by one */
  DIGIT_BITS = 11,
  LONG = 1 << 16 /* a line that threads share, if there are few of them */
};

/* ---- items ---- */

typedef struct wide_item {
  uint64_t key;
  int64_t index;
} wide_item;

static const cni_sort_loops *loops_now(void) { return CNI_BY_ISA(cni_sort_loops); }

#define ITEM uint64_t
#define SORT_RUN(a, n) loops_now()->run(a, n)
#define LESS(a, b) ((a) < (b))
#define DIGIT(x, d) ((x) >> (shift + 8 * (d)) & 255)
#define DIGITS 8
#define NAME(x) narrow_##x
#include "sort_items.inc"
#undef ITEM
#undef LESS
#undef DIGIT
#undef DIGITS
#undef NAME
#undef SORT_RUN
#define ITEM wide_item
#define SORT_RUN(a, n) wide_insertion(a, n)
#define LESS(a, b) ((a).key < (b).key || ((a).key == (b).key && (a).index < (b).index))
#define DIGIT(x, d) ((x).key >> (8 * (d)) & 255)
#define DIGITS 8
#define NAME(x) wide_##x
#include "sort_items.inc"

typedef struct line {
  const char *x;   /* its first element */
  int64_t step, n; /* bytes between elements, and their number */
} line;

/* ---- one call ---- */

typedef struct job {
  const cn_desc *x;
  int dim;
  const cni_sort_loops *loops;
  cni_sort_keys to_keys;
  int bits;           /* of a key */
  uint64_t flip;      /* of the key bits: descending */
  bool narrow;        /* key and index fit 64 bits */
  int64_t n, k, size; /* elements of a line, how many are wanted, bytes of an element */
  bool only_last;     /* of those, the last alone is written (kthvalue) */
  bool shared;        /* threads share each line, not the lines */
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

/* Keys of elements [begin, begin + n). */
static inline void keys_of(const job *j, const line *l, uint64_t *key, int64_t begin, int64_t n)
{
  j->to_keys(key, l->x + begin * l->step, l->step, n, j->flip);
}

static inline void put(const job *j, const line *l, int64_t out, int64_t rank, int64_t index)
{
  int64_t at = out + (j->only_last ? 0 : rank * j->inner);
  const char *from = l->x + index * l->step;
  char *to = j->values + at * j->size;
  j->indices[at] = index;
  if (j->size == 4) memcpy(to, from, 4);
  else if (j->size == 8) memcpy(to, from, 8);
  else memcpy(to, from, (size_t)j->size);
}

static int bits_of(uint64_t x) { return x ? 64 - __builtin_clzll(x) : 0; }

/* ---- all elements in order ---- */

/* A line on its way through sort, and the positions of its elements in order. */
typedef struct way {
  const job *j;
  const line *l;
  int64_t out;
  uint64_t *key, *number, low; /* keys; items that are numbers, or NULL: */
  wide_item *wide;
  int shift; /* bits of an index in a number */
} way;

/* Over the elements of a line: on all threads if they share it. */
static void over_line(const way *w, cni_range_fn fn)
{
  if (w->j->shared) cni_parallel_for(w->l->n, GRAIN, fn, (void *)w);
  else fn(0, w->l->n, (void *)w);
}

static void put_range(int64_t begin, int64_t end, void *payload)
{
  const way *w = payload;
  const uint64_t mask = (UINT64_C(1) << w->shift) - 1;
  if (w->number)
    for (int64_t i = begin; i < end; i++) put(w->j, w->l, w->out, i, (int64_t)(w->number[i] & mask));
  else
    for (int64_t i = begin; i < end; i++) put(w->j, w->l, w->out, i, w->wide[i].index);
}

/* number: n items of `bits` bits of key above the index, and room for as many. */
static void sort_numbers(way *w, int bits)
{
  int64_t n = w->l->n;
  w->number = w->j->shared ? narrow_sort_blocks(w->number, w->number + n, n, w->shift, bits)
                           : narrow_sort(w->number, w->number + n, n, w->shift, bits);
  over_line(w, put_range);
}

static void narrow_range(int64_t begin, int64_t end, void *payload)
{
  const way *w = payload;
  uint64_t key[STACK];
  for (int64_t done = begin; done < end; done += STACK) {
    int64_t m = end - done < STACK ? end - done : STACK;
    keys_of(w->j, w->l, key, done, m);
    for (int64_t i = 0; i < m; i++) w->number[done + i] = key[i] << 32 | (uint64_t)(done + i);
  }
}

static void sort_narrow(const job *j, const line *l, int64_t out, uint64_t *a)
{
  way w = {.j = j, .l = l, .out = out, .number = a, .shift = 32};
  over_line(&w, narrow_range);
  sort_numbers(&w, j->bits);
}

static void key_range(int64_t begin, int64_t end, void *payload)
{
  const way *w = payload;
  keys_of(w->j, w->l, w->key + begin, begin, end - begin);
}

static void wide_range(int64_t begin, int64_t end, void *payload)
{
  const way *w = payload;
  if (w->number)
    for (int64_t i = begin; i < end; i++) w->number[i] = (w->key[i] - w->low) << w->shift | (uint64_t)i;
  else
    for (int64_t i = begin; i < end; i++) w->wide[i] = (wide_item){w->key[i] - w->low, i};
}

/* room: 2 n items. */
static void sort_wide(const job *j, const line *l, int64_t out, wide_item *room)
{
  way w = {.j = j, .l = l, .out = out, .key = (uint64_t *)(void *)(room + l->n), .low = UINT64_MAX, .wide = room};
  uint64_t high = 0;
  over_line(&w, key_range);
  for (int64_t i = 0; i < l->n; i++) {
    w.low = w.key[i] < w.low ? w.key[i] : w.low;
    high = w.key[i] > high ? w.key[i] : high;
  }
  int shift = bits_of((uint64_t)l->n - 1), bits = bits_of(high - w.low);
  w.shift = shift ? shift : 1; /* a line of one */
  if (shift + bits <= 64) {
    w.number = (uint64_t *)(void *)room;
    over_line(&w, wide_range);
    sort_numbers(&w, bits);
    return;
  }
  over_line(&w, wide_range);
  w.wide = j->shared ? wide_sort_blocks(room, room + l->n, l->n, 0, bits) : wide_sort(room, room + l->n, l->n, 0, bits);
  over_line(&w, put_range);
}

/* ---- one element by its rank ---- */

/* The first key, and the bits in which any other differs from it. */
static uint64_t first_key(const job *j, const line *l, uint64_t *differs)
{
  uint64_t key[STACK], first = 0;
  *differs = 0;
  for (int64_t done = 0; done < l->n; done += STACK) {
    int64_t m = l->n - done < STACK ? l->n - done : STACK;
    keys_of(j, l, key, done, m);
    if (!done) first = key[0];
    *differs |= j->loops->differ(key, m, first);
  }
  return first;
}

/* The least key above which fewer than n - rank keys lie, that of the element with this rank (from 0); *below: how many
 * are less. Leading bits are counted until few candidates are left. */
static uint64_t key_at(const job *j, const line *l, int64_t rank, int64_t *below)
{
  uint64_t key[STACK], few[FEW], prefix = 0;
  int left = j->bits;
  int64_t candidates = l->n;
  *below = 0;
  if (candidates > FEW && j->bits > 32) { /* they rarely differ in all */
    uint64_t differs, first = first_key(j, l, &differs);
    left = bits_of(differs);
    prefix = left < 64 ? first >> left : 0;
  }
  const int begin = left;
  while (candidates > FEW && left > 0) {
    uint32_t count[1 << DIGIT_BITS] = {0};
    const int digit = left < DIGIT_BITS ? left : DIGIT_BITS, shift = left - digit;
    const uint64_t mask = (UINT64_C(1) << digit) - 1;
    const bool all = left == begin;
    for (int64_t done = 0; done < l->n; done += STACK) {
      int64_t m = l->n - done < STACK ? l->n - done : STACK;
      keys_of(j, l, key, done, m);
      if (all)
        for (int64_t i = 0; i < m; i++) count[key[i] >> shift & mask]++;
      else
        for (int64_t i = 0; i < m; i++) count[key[i] >> shift & mask] += key[i] >> left == prefix;
    }
    uint64_t bucket = 0;
    while (rank >= (int64_t)count[bucket]) {
      rank -= count[bucket];
      *below += count[bucket++];
    }
    prefix = prefix << digit | bucket;
    left = shift;
    candidates = count[bucket];
  }
  if (left == 0) return prefix;
  uint16_t at[STACK];
  int64_t have = 0;
  const uint64_t span = left == 64 ? UINT64_MAX : (UINT64_C(1) << left) - 1, low = left == 64 ? 0 : prefix << left;
  for (int64_t done = 0; done < l->n; done += STACK) {
    int64_t m = l->n - done < STACK ? l->n - done : STACK;
    keys_of(j, l, key, done, m);
    m = j->loops->pick(at, key, m, low, span);
    for (int64_t i = 0; i < m; i++) few[have++] = key[at[i]];
  }
  narrow_select(few, have, rank + 1);
  uint64_t found = 0;
  for (int64_t i = 0; i <= rank; i++) found = few[i] > found ? few[i] : found;
  for (int64_t i = 0; i < have; i++) *below += few[i] < found;
  return found;
}

static void put_last(const job *j, const line *l, int64_t out)
{
  uint64_t key[STACK];
  int64_t below, found = 0;
  const uint64_t wanted = key_at(j, l, j->k - 1, &below);
  int64_t equals = j->k - below; /* that many of them come up to the wanted one */
  for (int64_t done = 0; equals && done < l->n; done += STACK) {
    int64_t m = l->n - done < STACK ? l->n - done : STACK;
    keys_of(j, l, key, done, m);
    for (int64_t i = 0; equals && i < m; i++)
      if (key[i] == wanted) found = done + i, equals--;
  }
  put(j, l, out, 0, found);
}

/* ---- the first k in order ---- */

/* One: the first of the least. */
static void put_first(const job *j, const line *l, int64_t out)
{
  uint64_t key[STACK], best = UINT64_MAX;
  int64_t found = -1;
  for (int64_t done = 0; done < l->n; done += STACK) {
    int64_t m = l->n - done < STACK ? l->n - done : STACK, i = 0;
    keys_of(j, l, key, done, m);
    uint64_t least = j->loops->least(key, m);
    if (found >= 0 && least >= best) continue;
    while (key[i] != least) i++;
    best = least;
    found = done + i;
  }
  put(j, l, out, 0, found);
}

/* Many of them: all up to the last one's key, then in order. room: 2 k items. */
static void put_many(const job *j, const line *l, int64_t out, void *room)
{
  uint64_t key[STACK], *a = room;
  uint16_t at[STACK];
  wide_item *b = room;
  int64_t below, have = 0;
  const uint64_t bound = key_at(j, l, j->k - 1, &below);
  int64_t equals = j->k - below;
  for (int64_t done = 0; have < j->k && done < l->n; done += STACK) {
    int64_t m = l->n - done < STACK ? l->n - done : STACK;
    keys_of(j, l, key, done, m);
    m = j->loops->pick(at, key, m, 0, bound);
    for (int64_t i = 0; i < m; i++) {
      if (key[at[i]] == bound && equals-- <= 0) continue;
      if (j->narrow) a[have++] = key[at[i]] << 32 | (uint64_t)(done + at[i]);
      else b[have++] = (wide_item){key[at[i]], done + at[i]};
    }
  }
  int shift = 32, bits = j->bits;
  bool numbers = j->narrow;
  if (!numbers) { /* they may fit 64 bits all the same */
    uint64_t low = bound;
    for (int64_t i = 0; i < have; i++) low = b[i].key < low ? b[i].key : low;
    shift = bits_of((uint64_t)l->n);
    bits = bits_of(bound - low);
    numbers = shift + bits <= 64;
    for (int64_t i = 0; numbers && i < have; i++) a[i] = (b[i].key - low) << shift | (uint64_t)b[i].index;
    for (int64_t i = 0; !numbers && i < have; i++) b[i].key -= low;
  }
  const uint64_t mask = (UINT64_C(1) << shift) - 1;
  if (numbers) a = narrow_sort(a, a + have, have, shift, bits);
  else b = wide_sort(b, b + have, have, 0, bits);
  for (int64_t i = 0; i < have; i++) put(j, l, out, i, numbers ? (int64_t)(a[i] & mask) : b[i].index);
}

/* A few: candidates are collected while they beat the worst of the best k so far, and thinned out whenever the list is
 * full. */
static void put_few_narrow(const job *j, const line *l, int64_t out, uint64_t *a)
{
  uint64_t key[STACK], worst = UINT64_MAX;
  uint16_t at[STACK];
  int64_t have = 0, most = 2 * j->k + SPARE;
  for (int64_t done = 0, step; done < l->n; done += step) {
    step = done ? STACK : most; /* a short list first, so that there is a bound */
    step = step < l->n - done ? (step < STACK ? step : STACK) : l->n - done < STACK ? l->n - done : STACK;
    keys_of(j, l, key, done, step);
    int64_t m = j->loops->pick(at, key, step, 0, worst >> 32);
    for (int64_t i = 0; i < m; i++) {
      uint64_t item = key[at[i]] << 32 | (uint64_t)(done + at[i]);
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

static void put_few_wide(const job *j, const line *l, int64_t out, wide_item *a)
{
  uint64_t key[STACK];
  uint16_t at[STACK];
  wide_item worst = {UINT64_MAX, INT64_MAX};
  int64_t have = 0, most = 2 * j->k + SPARE;
  for (int64_t done = 0, step; done < l->n; done += step) {
    step = done ? STACK : most; /* a short list first, so that there is a bound */
    step = step < l->n - done ? (step < STACK ? step : STACK) : l->n - done < STACK ? l->n - done : STACK;
    keys_of(j, l, key, done, step);
    int64_t m = j->loops->pick(at, key, step, 0, worst.key);
    for (int64_t i = 0; i < m; i++) {
      wide_item item = {key[at[i]], done + at[i]};
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

/* ---- lines ---- */

static bool many_wanted(const job *j) { return j->k >= 64 && 32 * j->k >= j->n; }

/* Room for items: all of a line twice (sort), or a candidates' list (selection). */
static int64_t capacity(const job *j) { return j->only_last ? 1 : 2 * (j->k == j->n ? j->n : j->k + SPARE); }

static void one_line(const job *j, const line *l, int64_t out, void *room)
{
  if (j->only_last) put_last(j, l, out);
  else if (j->k == j->n && j->narrow) sort_narrow(j, l, out, room);
  else if (j->k == j->n) sort_wide(j, l, out, room);
  else if (j->k == 1) put_first(j, l, out);
  else if (many_wanted(j)) put_many(j, l, out, room);
  else if (j->narrow) put_few_narrow(j, l, out, room);
  else put_few_wide(j, l, out, room);
}

static void lines(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  wide_item stack[STACK];
  size_t size = (size_t)capacity(j) * (j->narrow ? sizeof(uint64_t) : sizeof(wide_item));
  void *room = size <= sizeof stack ? (void *)stack : cni_scratch_alloc(size);
  if (!room) return; /* the error is set, and reaches the caller */
  for (int64_t i = begin; i < end; i++) {
    line l;
    int64_t out;
    locate(j, i, &l, &out);
    one_line(j, &l, out, room);
  }
  if (room != (void *)stack) cni_scratch_free(room, size);
}

/* Lines that lie across memory are read many times better once transposed: to: x with dim last, dense, in new
 * memory. */
static int transposed_copy(cn_desc *to, const cn_desc *x, int dim, size_t *bytes)
{
  cn_desc from = *x;
  for (int i = dim; i + 1 < x->ndim; i++) from.shape[i] = x->shape[i + 1], from.strides[i] = x->strides[i + 1];
  from.shape[x->ndim - 1] = x->shape[dim];
  from.strides[x->ndim - 1] = x->strides[dim];
  *bytes = cni_dtype_bytes(x->dtype, x->numel);
  void *memory = cni_scratch_alloc(*bytes);
  if (!memory) return CN_ERR_MEMORY;
  *to = cni_cpu_packed(&from, x->dtype, memory);
  cni_cpu_copy(to, &from);
  return CN_OK;
}

/* The first k in order of each line along dim. */
static int run(cn_call *c, int dim, bool descending, int64_t k, bool only_last)
{
  const cn_desc *x = cn_desc_of(c->in[0]);
  const cni_sort_loops *loops = loops_now();
  job j = {.x = x,
           .dim = dim,
           .loops = loops,
           .to_keys = loops->keys[x->dtype],
           .n = x->ndim ? x->shape[dim] : 1,
           .k = k,
           .inner = 1,
           .only_last = only_last,
           .values = cn_desc_of(c->out[0])->data,
           .indices = cn_desc_of(c->out[1])->data};
  j.bits = x->dtype == CN_BOOL ? 1 : cni_dtype_rows[x->dtype].bits;
  j.size = (int64_t)cni_dtype_size(x->dtype);
  j.narrow = j.bits <= 32 && j.n <= (int64_t)UINT32_MAX;
  j.flip = !descending ? 0 : j.bits == 64 ? UINT64_MAX : (UINT64_C(1) << j.bits) - 1;
  if (x->numel == 0 || k == 0) return CN_OK;
  for (int i = dim + 1; i < x->ndim; i++) j.inner *= x->shape[i];
  if (j.n == 1) { /* nothing to order */
    cn_desc values = cni_cpu_packed(x, x->dtype, j.values);
    cni_cpu_copy(&values, x);
    memset(j.indices, 0, (size_t)x->numel * sizeof *j.indices);
    return CN_OK;
  }
  cn_desc copy = {0};
  size_t bytes = 0;
  if (j.n < x->numel && x->strides[dim] != 1) {
    int status = transposed_copy(&copy, x, dim, &bytes);
    if (status) return status;
    j.x = &copy;
    j.dim = x->ndim - 1;
  }
  const int64_t count = x->numel / j.n, threads = cn_num_threads();
  j.shared = k == j.n && j.n >= LONG && j.n <= (int64_t)UINT32_MAX && count < threads;
  if (j.shared) lines(0, count, &j);
  else cni_parallel_for(count, j.n < GRAIN ? GRAIN / j.n : 1, lines, &j);
  cni_scratch_free(copy.data, bytes);
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
