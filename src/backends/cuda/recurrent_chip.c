/* recurrent_chip.c: how a recurrent layer is dealt out to clusters of blocks that keep its weights, and the launch.
 *
 * Place in the flow: recurrent.c asks here first; kernels/recurrent_chip.cu runs all steps. Invariant: sizes are those
 * that the kernel makes of its numbers. */
#include "recurrent.h"

enum { MOST_BLOCKS = 8 /* every device's clusters may have as many */, MOST_THREADS = 512, FEW_THREADS = 256 };
enum { SPLIT = 256 };        /* columns of weights that a thread's registers have a part of */
enum { ALIGNED_UNITS = 16 }; /* a Tensor Core's */
enum { WAVES = 2 };          /* more rows than so many rounds of blocks have are faster by large products */

/* As in kernels/recurrent_chip.cu. */
typedef struct step_job {
  cni_cuda_step_places own;
  const void *weights, *h0, *c0;
  int64_t steps, batch, hidden, given_row, reverse;
} step_job;
typedef struct back_job {
  cni_cuda_back_places own;
  const void *weights;
  int64_t steps, batch, hidden, reverse;
} back_job;

typedef struct plan {
  int64_t cluster, units, rows, splits, threads, shared;
} plan;

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
static bool is_low(const cni_cuda_layer *l) { return l->type != CN_F32; }

/* Lines and columns of a block's weights. */
static int64_t lines(const cni_cuda_layer *l, const plan *p, bool backward)
{
  return p->units * (backward ? 1 : l->gates);
}
static int64_t columns(const cni_cuda_layer *l, const plan *p, bool backward)
{
  return p->cluster * p->units * (backward ? l->gates : 1);
}

/* Threads for so many columns each; more where they are few, since they wait for one another less. */
static bool plan_threads(plan *p, const cni_cuda_layer *l, bool backward)
{
  int64_t team = is_low(l) ? 32 : 16, high = is_low(l) ? 16 : 4, deep = is_low(l) ? 32 : 64;
  int64_t k = columns(l, p, backward), strip = lines(l, p, backward) / high * team;
  p->splits = (k + SPLIT - 1) / SPLIT;
  while (p->splits * strip < FEW_THREADS && p->splits * deep < k) p->splits *= 2;
  p->threads = p->splits * strip;
  return p->threads <= MOST_THREADS;
}

/* Bytes that a block shares: numbers that come, twice, those that go, and sums. */
static int64_t shared_of(const cni_cuda_layer *l, const plan *p, bool backward)
{
  int64_t deep = is_low(l) ? 32 : 64, size = (int64_t)cn_element_size(l->type), m = lines(l, p, backward);
  int64_t filled = round_up(columns(l, p, backward), deep * p->splits);
  int64_t row = filled + (is_low(l) && filled % 64 == 0 ? 32 : 0), sent = p->units * (backward ? l->gates : 1);
  return 16 + p->rows * ((2 * row + sent) * size + p->splits * (m + 4) * 4);
}

/* As few rows for each cluster as let all of them run at once. */
static bool plan_rows(plan *p, const cni_cuda_layer *l, bool backward)
{
  int64_t least = is_low(l) ? 8 : 4, room = l->d->units > p->cluster ? l->d->units / p->cluster : 1;
  for (p->rows = least; p->rows < 4 * least && (l->batch + p->rows - 1) / p->rows > room;) p->rows *= 2;
  p->shared = shared_of(l, p, backward);
  return (l->batch + p->rows - 1) / p->rows <= WAVES * room && p->shared <= l->d->most_shared;
}

/* The fewest blocks whose threads need not multiply for longer than sending takes, or as many as there may be. */
static bool make_plan(plan *p, const cni_cuda_layer *l, bool backward)
{
  int64_t enough = is_low(l) ? 64 << 10 : 32 << 10;
  if ((l->type != CN_F32 && l->type != CN_F16 && l->type != CN_BF16) || l->d->major < 8) return false;
  int64_t most = l->d->clusters ? MOST_BLOCKS : 1;
  for (p->cluster = 1; p->cluster <= most; p->cluster *= 2) {
    p->units = round_up((l->hidden + p->cluster - 1) / p->cluster, ALIGNED_UNITS);
    int64_t bytes = lines(l, p, false) * columns(l, p, false) * (int64_t)cn_element_size(l->type);
    if ((bytes <= enough || p->cluster == MOST_BLOCKS) && plan_threads(p, l, backward))
      return plan_rows(p, l, backward);
  }
  return false;
}

static int launch(const cni_cuda_layer *l, const plan *p, const char *entry, void *job)
{
  cni_cuda_code code = {.file = "recurrent_chip.cu", .entry = entry, .types = {l->type},
                        .op = cni_cuda_network_names[l->kind], .number = (int)p->units, .threads = (int)p->threads,
                        .form = (int)(p->cluster | p->rows << 4)};
  cni_cuda_grid grid = {.x = (l->batch + p->rows - 1) / p->rows * p->cluster, .y = 1, .threads = (int)p->threads,
                        .shared = (size_t)p->shared, .cluster = (int)p->cluster};
  return cni_cuda_run(l->d, l->name, &code, grid, job);
}

int cni_cuda_chip_forward(const cni_cuda_layer *l, const cni_cuda_step_places *places, const void *h0, const void *c0,
                          int64_t given_row)
{
  plan p;
  step_job j = {.own = *places, .weights = l->weights, .h0 = h0, .c0 = c0, .steps = l->steps, .batch = l->batch,
                .hidden = l->hidden, .given_row = given_row, .reverse = l->reverse};
  return make_plan(&p, l, false) ? launch(l, &p, "recurrent_chip_step", &j) : CN_REFUSED;
}

int cni_cuda_chip_backward(const cni_cuda_layer *l, const cni_cuda_back_places *places)
{
  plan p;
  back_job j = {.own = *places, .weights = l->weights, .steps = l->steps, .batch = l->batch, .hidden = l->hidden,
                .reverse = l->reverse};
  return make_plan(&p, l, true) ? launch(l, &p, "recurrent_chip_back", &j) : CN_REFUSED;
}
