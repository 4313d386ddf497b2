/* sampler.c: orders of samples: shuffled, by weight, the share of one host. See data.h.
 *
 * Place in the flow: the loader asks for one order an epoch. Invariant: an order depends on seed and epoch alone. */
#include <math.h>
#include <string.h>

#include "data.h"

enum {
  ORDER_STREAM = 1, /* of the generator: the order of an epoch. Those of samples have a seed of their own */
  EPOCH_STREAM = 2
};

uint64_t cni_epoch_seed(uint64_t seed, int64_t epoch)
{
  uint32_t w[4];
  cn_random_block(w, seed, EPOCH_STREAM, (uint64_t)epoch);
  return (uint64_t)w[1] << 32 | w[0];
}

/* 32-bit words of the order's stream, one after the other. */
typedef struct words {
  uint32_t w[4];
  uint64_t seed, block;
  int left;
} words;

static uint32_t next_word(words *g)
{
  if (!g->left) {
    cn_random_block(g->w, ~g->seed, ORDER_STREAM, g->block++);
    g->left = 4;
  }
  return g->w[--g->left];
}

/* 0 .. n - 1 by the high half of a product; the few words that would favour some results are drawn again. */
static uint32_t below_32(words *g, uint32_t n)
{
  uint64_t m = (uint64_t)next_word(g) * n;
  if ((uint32_t)m < n) {
    uint32_t least = (0u - n) % n;
    while ((uint32_t)m < least) m = (uint64_t)next_word(g) * n;
  }
  return (uint32_t)(m >> 32);
}

static int64_t below(words *g, int64_t n)
{
  if (n <= UINT32_MAX) return below_32(g, (uint32_t)n);
  uint64_t m = (uint64_t)n, word;
  do word = (uint64_t)next_word(g) << 32 | next_word(g);
  while (word >= UINT64_MAX - UINT64_MAX % m);
  return (int64_t)(word % m);
}

static double unit(words *g)
{
  uint64_t word = (uint64_t)next_word(g) << 32 | next_word(g);
  return (double)(int64_t)(word >> 11) * 0x1p-53;
}

/* Fisher and Yates. */
void cni_shuffle(int64_t *v, int64_t n, uint64_t seed)
{
  words g = {.seed = seed};
  for (int64_t i = n - 1; i > 0; i--) {
    int64_t j = below(&g, i + 1), t = v[i];
    v[i] = v[j];
    v[j] = t;
  }
}

static int sampler_failed(int64_t *indices, void *data, uint64_t seed, int64_t epoch)
{
  (void)indices, (void)data, (void)seed, (void)epoch;
  return cn_err_set(CN_ERR_VALUE, "sampler: could not be made");
}

static int64_t nothing(void *data)
{
  (void)data;
  return 0;
}

/* What a maker returns that failed, with the error set. */
static cn_sampler no_sampler(void) { return (cn_sampler){.length = nothing, .order = sampler_failed}; }

/* ---- by weight ---- */

typedef struct weighted {
  size_t n;
  int64_t draws;
  bool replacement;
  double weights[]; /* with replacement: sums up to and with each */
} weighted;

static int64_t weighted_length(void *data) { return ((weighted *)data)->draws; }

static void weighted_free(void *data)
{
  weighted *w = data;
  cn_free(w, sizeof *w + w->n * sizeof *w->weights);
}

/* The first whose sum lies above u. */
static int64_t place(const weighted *w, double u)
{
  size_t low = 0, high = w->n - 1;
  while (low < high) {
    size_t mid = low + (high - low) / 2;
    if (w->weights[mid] > u) high = mid;
    else low = mid + 1;
  }
  return (int64_t)low;
}

/* Without replacement: each index waits an exponential time of its weight's rate, and those that come first are taken
 * (Efraimidis and Spirakis). A heap keeps the `draws` earliest, the latest of them on top. */
typedef struct wait {
  double time;
  int64_t index;
} wait;

static bool earlier(const wait *a, const wait *b)
{
  return a->time != b->time ? a->time < b->time : a->index < b->index;
}

static void sift(wait *heap, int64_t n, int64_t i)
{
  for (;;) {
    int64_t top = i, left = 2 * i + 1;
    for (int64_t k = left; k < left + 2 && k < n; k++)
      if (earlier(&heap[top], &heap[k])) top = k;
    if (top == i) return;
    wait t = heap[i];
    heap[i] = heap[top];
    heap[top] = t;
    i = top;
  }
}

static int draw_without(int64_t *indices, const weighted *w, words *g)
{
  int64_t n = 0, room = w->draws;
  wait *heap = cn_alloc((size_t)room * sizeof *heap);
  if (!heap) return cn_err();
  for (size_t i = 0; i < w->n; i++) {
    double u = unit(g);
    if (w->weights[i] <= 0) continue;
    wait next = {-log1p(-u) / w->weights[i], (int64_t)i};
    if (n < room) {
      heap[n++] = next;
      if (n == room)
        for (int64_t k = n / 2; k >= 0; k--) sift(heap, n, k);
    } else if (earlier(&next, &heap[0])) {
      heap[0] = next;
      sift(heap, n, 0);
    }
  }
  for (int64_t k = n; k > 0; k--) { /* the latest goes last */
    indices[k - 1] = heap[0].index;
    heap[0] = heap[k - 1];
    sift(heap, k - 1, 0);
  }
  cn_free(heap, (size_t)room * sizeof *heap);
  return CN_OK;
}

static int weighted_order(int64_t *indices, void *data, uint64_t seed, int64_t epoch)
{
  const weighted *w = data;
  words g = {.seed = cni_epoch_seed(seed, epoch)};
  if (!w->replacement) return draw_without(indices, w, &g);
  double all = w->weights[w->n - 1];
  for (int64_t i = 0; i < w->draws; i++) indices[i] = place(w, unit(&g) * all);
  return CN_OK;
}

static int check_weights(const double *weights, size_t n, int64_t draws, bool replacement)
{
  int64_t positive = 0;
  for (size_t i = 0; i < n; i++) {
    if (!(weights[i] >= 0) || isinf(weights[i]))
      return cn_err_set(CN_ERR_VALUE, "weighted sampler: weight %zu is not a number from 0 on", i);
    positive += weights[i] > 0;
  }
  if (draws < 1 || !positive || (!replacement && draws > positive))
    return cn_err_set(CN_ERR_VALUE, "weighted sampler: %lld draws of %lld samples with a weight", (long long)draws,
                      (long long)positive);
  return CN_OK;
}

cn_sampler cn_sampler_weighted(const double *weights, size_t n, int64_t draws, bool replacement)
{
  if (cn_err() || check_weights(weights, n, draws, replacement)) return no_sampler();
  weighted *w = cn_alloc(sizeof *w + n * sizeof *w->weights);
  if (!w) return no_sampler();
  *w = (weighted){n, draws, replacement};
  double sum = 0;
  for (size_t i = 0; i < n; i++) {
    sum += weights[i];
    w->weights[i] = replacement ? sum : weights[i];
  }
  return (cn_sampler){weighted_length, weighted_order, weighted_free, w};
}

/* ---- shares ---- */

typedef struct shard {
  int64_t length, share;
  int rank, world;
  bool shuffle;
} shard;

static int64_t shard_length(void *data) { return ((shard *)data)->share; }
static void shard_free(void *data) { cn_free(data, sizeof(shard)); }

/* Every world-th of the common order, which begins again where it is too short. */
static int shard_order(int64_t *indices, void *data, uint64_t seed, int64_t epoch)
{
  const shard *s = data;
  int64_t *order = cn_alloc((size_t)s->length * sizeof *order);
  if (!order) return cn_err();
  for (int64_t i = 0; i < s->length; i++) order[i] = i;
  if (s->shuffle) cni_shuffle(order, s->length, cni_epoch_seed(seed, epoch));
  for (int64_t i = 0; i < s->share; i++) indices[i] = order[(i * s->world + s->rank) % s->length];
  cn_free(order, (size_t)s->length * sizeof *order);
  return CN_OK;
}

cn_sampler cn_sampler_shard(int64_t length, int rank, int world, bool shuffle)
{
  if (length < 1 || world < 1 || rank < 0 || rank >= world)
    cn_err_set(CN_ERR_VALUE, "shard sampler: rank %d of %d, %lld samples", rank, world, (long long)length);
  shard *s = cn_err() ? NULL : cn_alloc(sizeof *s);
  if (!s) return no_sampler();
  *s = (shard){length, (length + world - 1) / world, rank, world, shuffle};
  return (cn_sampler){shard_length, shard_order, shard_free, s};
}
