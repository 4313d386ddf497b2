/* choose.c: the CPU kernel of choose_token: which token follows, by its scores: temperature, top-k, top-p, repetition
 * penalty.
 *
 * Place in the flow: the family of ops/decode.c; rows one after the other. Invariant: the choice depends on the scores,
 * the settings and the row's uniform number alone; the likeliest of equals is the first. */
#include <math.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/walk/iter.h"
#include "base/convert.h"
#include "base/dtype.h"
#include "base/scratch.h"
#include "tensor/tensor.h"

enum { TOKENS, CURRENT, POSITION, ENDED, SCORES, UNIFORMS, PROMPT, TEMPERATURE, TOP_K, TOP_P, PENALTY, STOP };

typedef struct candidate {
  double weight;
  int64_t token;
} candidate;

typedef struct choosing {
  const cn_call *c;
  double temperature, top_p, penalty;
  int64_t top_k, vocab;
  float *scores;   /* vocab */
  candidate *room; /* vocab */
} choosing;

/* Tokens that came already become less likely, each once however often it came. */
static void penalise(const choosing *w, const cn_desc *tokens, int64_t row, int64_t seen)
{
  for (int64_t i = 0; i < w->vocab; i++) w->room[i].token = 0;
  for (int64_t i = 0; i < seen; i++) {
    int64_t t = cni_load_i64(tokens->data, row * tokens->strides[0] + i * tokens->strides[1], CN_I64);
    if (t < 0 || t >= w->vocab || w->room[t].token) continue;
    w->room[t].token = 1;
    float *x = &w->scores[t];
    *x = (float)(*x > 0 ? *x / w->penalty : *x * w->penalty);
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
static bool before(const candidate *a, const candidate *b)
{
  return a->weight != b->weight ? a->weight > b->weight : a->token < b->token;
}

static void sink(candidate *c, int64_t n, int64_t i)
{
  candidate moved = c[i];
  for (int64_t k; (k = 2 * i + 1) < n; i = k) {
    if (k + 1 < n && before(&c[k + 1], &c[k])) k++;
    if (!before(&c[k], &moved)) break;
    c[i] = c[k];
  }
  c[i] = moved;
}

/* Moves the likeliest of n to the end. */
static candidate *pop(candidate *c, int64_t n)
{
  candidate first = c[0];
  c[0] = c[n - 1];
  c[n - 1] = first;
  sink(c, n - 1, 0);
  return &c[n - 1];
}

/* The weights that a choice is made among stand at the end of the room, the likeliest last. Returns how many; *sum is
 * theirs. All have the sum *sum before. */
static int64_t narrow(const choosing *w, double *sum)
{
  candidate *c = w->room;
  int64_t n = w->vocab, k = 0;
  double kept = 0;
  for (int64_t i = n / 2 - 1; i >= 0; i--) sink(c, n, i);
  if (w->top_k < n) {
    *sum = 0;
    while (k < w->top_k) *sum += pop(c, n - k++)->weight;
    if (w->top_p == 1) return k;
    for (k = 0; k < w->top_k && kept < w->top_p * *sum; k++) kept += c[n - 1 - k].weight;
  } else {
    while (k < n && kept < w->top_p * *sum) kept += pop(c, n - k++)->weight;
  }
  *sum = kept;
  return k;
}

/* ---- choosing ---- */

/* By a number in [0, 1). */
static int64_t draw(const choosing *w, double uniform)
{
  candidate *c = w->room;
  int64_t n = w->vocab, best = likeliest(w->scores, n);
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    c[i] = (candidate){(double)expf((float)((w->scores[i] - w->scores[best]) / w->temperature)), i};
    sum += c[i].weight;
  }
  if (!(sum >= 1)) return cn_call_fail(w->c, CN_ERR_VALUE, "the scores are not numbers"); /* the best one has 1 */
  int64_t k = w->top_k < n || w->top_p < 1 ? narrow(w, &sum) : n;
  double at = uniform * sum;
  for (int64_t i = n - 1; i > n - k; i--)
    if ((at -= c[i].weight) < 0) return c[i].token;
  return c[n - k].token; /* also where rounding left a little over */
}

static int64_t get(const cn_desc *d, int64_t row) { return cni_load_i64(d->data, row * d->strides[0], CN_I64); }

/* How many draws came before that of this row, whose last token is at `at`: each row had one for each of its tokens. */
static int64_t draws_before(const cn_desc *ended, int64_t row, int64_t at, int64_t prompt)
{
  int64_t n = 0;
  for (int64_t r = 0; r < ended->shape[0]; r++) {
    int64_t end = get(ended, r);
    n += (end < at ? end : at) + 1 - prompt + (r < row && end > at);
  }
  return n;
}

static int64_t choose(const choosing *w, int64_t row, int64_t at)
{
  const cn_call *c = w->c;
  const cn_desc *scores = cn_desc_of(c->in[SCORES]), *u = cn_desc_of(c->in[UNIFORMS]);
  int64_t first = row * scores->strides[0];
  if (scores->dtype == CN_F32 && scores->strides[1] == 1)
    memcpy(w->scores, (const float *)scores->data + first, (size_t)w->vocab * sizeof(float));
  else
    for (int64_t i = 0; i < w->vocab; i++)
      w->scores[i] = (float)cni_load_f64(scores->data, first + i * scores->strides[1], scores->dtype);
  if (w->penalty != 1) penalise(w, cn_desc_of(c->out[TOKENS]), row, at + 1);
  if (w->temperature == 0) return likeliest(w->scores, w->vocab);
  int64_t n = draws_before(cn_desc_of(c->out[ENDED]), row, at, c->args[PROMPT].u.i);
  if (n < 0 || n >= u->numel) return cn_call_fail(c, CN_ERR_VALUE, "there are not enough uniform numbers");
  return draw(w, cni_load_f64(u->data, n * u->strides[0], CN_F64));
}

static int advance(const choosing *w, int64_t row)
{
  const cn_call *c = w->c;
  const cn_desc *tokens = cn_desc_of(c->out[TOKENS]), *current = cn_desc_of(c->out[CURRENT]);
  const cn_desc *position = cn_desc_of(c->out[POSITION]), *ended = cn_desc_of(c->out[ENDED]);
  int64_t at = get(position, row), stop = c->args[STOP].u.i;
  if (at < 0 || at + 1 >= tokens->shape[1]) return CN_OK;
  bool over = get(ended, row) <= at;
  int64_t token = over ? stop : choose(w, row, at);
  if (cn_err()) return cn_err();
  cni_store_i64(tokens->data, row * tokens->strides[0] + (at + 1) * tokens->strides[1], CN_I64, token);
  cni_store_i64(current->data, row * current->strides[0], CN_I64, token);
  cni_store_i64(position->data, row * position->strides[0], CN_I64, at + 1);
  if (!over && token == stop) cni_store_i64(ended->data, row * ended->strides[0], CN_I64, at + 1);
  return CN_OK;
}

/* Where the result is no longer its input: (B, L), (B, 1) or (B) int64. */
static void copy_rows(const cn_desc *to, const cn_desc *from)
{
  int64_t n = to->ndim == 2 ? to->shape[1] : 1, to_step = to->ndim == 2 ? to->strides[1] : 0;
  int64_t from_step = to->ndim == 2 ? from->strides[1] : 0;
  for (int64_t row = 0; to->data != from->data && row < to->shape[0]; row++)
    for (int64_t i = 0; i < n; i++)
      ((int64_t *)to->data)[row * to->strides[0] + i * to_step] =
        ((const int64_t *)from->data)[row * from->strides[0] + i * from_step];
}

static double number(const cn_value *v) { return v->tag == CN_V_FLOAT ? v->u.f : (double)v->u.i; }

static int choose_token_kernel(cn_call *c)
{
  const cn_value *a = c->args;
  choosing w = {.c = c, .temperature = number(&a[TEMPERATURE]), .top_p = number(&a[TOP_P]),
                .penalty = number(&a[PENALTY]), .top_k = a[TOP_K].u.i, .vocab = cn_desc_of(c->in[SCORES])->shape[1]};
  if (w.top_k <= 0 || w.top_k > w.vocab) w.top_k = w.vocab;
  size_t bytes = (size_t)w.vocab * (sizeof *w.room + sizeof *w.scores);
  int status = CN_OK;
  if (!(w.room = cni_scratch_alloc(bytes))) return CN_ERR_MEMORY;
  w.scores = (float *)(w.room + w.vocab);
  for (int i = 0; i < c->nout; i++) copy_rows(cn_desc_of(c->out[i]), cn_desc_of(c->in[i]));
  for (int64_t row = 0; row < cn_desc_of(c->in[TOKENS])->shape[0] && !status; row++) status = advance(&w, row);
  cni_scratch_free(w.room, bytes);
  return status;
}

const cn_kernel cni_cpu_choose_kernels[] = {{"choose_token", "heap", choose_token_kernel}, {NULL, NULL, NULL}};
