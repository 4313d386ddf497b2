/* sample.c: the choice of a token by its scores: temperature, top-k, top-p, repetition penalty. See lm.h.
 *
 * Place in the flow: generate.c hands in one row of scores on the host. Invariant: the choice depends on the scores,
 * the settings and this thread's random numbers alone; the likeliest of equals is the first. */
#include <math.h>

#include "lm.h"

int cni_sampler_open(cni_sampler *s, const cn_generate_opts *o, int64_t vocab)
{
  bool greedy = o->temperature == (double)CN_ZERO;
  *s = (cni_sampler){.temperature = greedy ? 0 : o->temperature == 0 ? 1 : o->temperature,
                     .top_p = o->top_p == 0 ? 1 : o->top_p,
                     .penalty = o->repetition_penalty == 0 ? 1 : o->repetition_penalty,
                     .top_k = o->top_k && o->top_k < vocab ? o->top_k : vocab,
                     .vocab = vocab};
  if (!(s->temperature >= 0) || !(s->top_p > 0 && s->top_p <= 1) || !(s->penalty > 0) || s->top_k < 1)
    return cn_err_set(CN_ERR_VALUE, "generate: temperature and top_k cannot be negative, top_p is in (0, 1], "
                      "repetition_penalty is positive");
  s->room = cn_alloc((size_t)vocab * sizeof *s->room);
  return s->room ? CN_OK : cn_err();
}

void cni_sampler_close(cni_sampler *s)
{
  cn_free(s->room, (size_t)s->vocab * sizeof *s->room);
  s->room = NULL;
}

/* Tokens that came already become less likely, each once however often it came. */
static void penalise(const cni_sampler *s, float *scores, const int64_t *seen, int64_t n)
{
  for (int64_t i = 0; i < s->vocab; i++) s->room[i].token = 0;
  for (int64_t i = 0; i < n; i++) {
    if (seen[i] < 0 || seen[i] >= s->vocab || s->room[seen[i]].token) continue;
    s->room[seen[i]].token = 1;
    float *x = &scores[seen[i]];
    *x = (float)(*x > 0 ? *x / s->penalty : *x * s->penalty);
  }
}

static int64_t likeliest(const float *scores, int64_t n)
{
  int64_t best = 0;
  for (int64_t i = 1; i < n; i++)
    if (scores[i] > scores[best]) best = i;
  return best;
}

/* ---- the likeliest ones, by a heap: a few of many tokens are wanted, in order ---- */

/* Equal ones by number, so that the order is one and the same everywhere. */
static bool before(const struct cni_candidate *a, const struct cni_candidate *b)
{
  return a->weight != b->weight ? a->weight > b->weight : a->token < b->token;
}

static void sink(struct cni_candidate *c, int64_t n, int64_t i)
{
  struct cni_candidate moved = c[i];
  for (int64_t k; (k = 2 * i + 1) < n; i = k) {
    if (k + 1 < n && before(&c[k + 1], &c[k])) k++;
    if (!before(&c[k], &moved)) break;
    c[i] = c[k];
  }
  c[i] = moved;
}

/* Moves the likeliest of n to the end. */
static struct cni_candidate *pop(struct cni_candidate *c, int64_t n)
{
  struct cni_candidate first = c[0];
  c[0] = c[n - 1];
  c[n - 1] = first;
  sink(c, n - 1, 0);
  return &c[n - 1];
}

/* The weights that a choice is made among stand at the end of the room, the likeliest last. Returns how many; *sum is
 * theirs. All have the sum *sum before. */
static int64_t narrow(const cni_sampler *s, double *sum)
{
  struct cni_candidate *c = s->room;
  int64_t n = s->vocab, k = 0;
  double kept = 0;
  for (int64_t i = n / 2 - 1; i >= 0; i--) sink(c, n, i);
  if (s->top_k < n) {
    *sum = 0;
    while (k < s->top_k) *sum += pop(c, n - k++)->weight;
    if (s->top_p == 1) return k;
    for (k = 0; k < s->top_k && kept < s->top_p * *sum; k++) kept += c[n - 1 - k].weight;
  } else {
    while (k < n && kept < s->top_p * *sum) kept += pop(c, n - k++)->weight;
  }
  *sum = kept;
  return k;
}

/* ---- choosing ---- */

/* In [0, 1), from this thread's random numbers. */
static double uniform(void)
{
  uint64_t seed, offset;
  uint32_t r[4];
  cn_random_state(&seed, &offset);
  cn_random_block(r, seed, 0, offset);
  cn_random_set_state(seed, offset + 1);
  return (double)((uint64_t)r[0] << 21 ^ r[1] >> 11) * 0x1p-53;
}

int64_t cni_sampler_choose(cni_sampler *s, float *scores, const int64_t *seen, int64_t nseen)
{
  struct cni_candidate *c = s->room;
  int64_t n = s->vocab;
  double sum = 0;
  if (s->penalty != 1) penalise(s, scores, seen, nseen);
  int64_t best = likeliest(scores, n);
  if (s->temperature == 0) return best;
  for (int64_t i = 0; i < n; i++) {
    c[i] = (struct cni_candidate){(double)expf((float)((scores[i] - scores[best]) / s->temperature)), i};
    sum += c[i].weight;
  }
  if (!(sum >= 1)) return cn_err_set(CN_ERR_VALUE, "generate: the scores are not numbers"); /* the best one has 1 */
  int64_t k = s->top_k < n || s->top_p < 1 ? narrow(s, &sum) : n;
  double at = uniform() * sum;
  for (int64_t i = n - 1; i > n - k; i--)
    if ((at -= c[i].weight) < 0) return c[i].token;
  return c[n - k].token; /* also where rounding left a little over */
}
