/* multinomial.c: the CPU kernels of multinomial, choices with given weights, and poisson, counts of events.
 *
 * Place in the flow: the family of ops/distribution.c. A row of weights becomes a tree of sums, a draw walks down it;
 * without replacement the leaf it ends at becomes zero. Invariant: sample i of the result uses draw i of the call, so
 * the number of threads never shows. */
#include <math.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/walk/iter.h"
#include "base/convert.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/philox.h"
#include "base/scratch.h"
#include "tensor/tensor.h"

typedef struct choosing {
  const cn_call *c;
  const cn_desc *p, *y;
  int64_t rows, categories, samples, leaves; /* leaves: a power of two */
  int64_t p_row, y_row;                      /* strides from row to row */
  bool replace;
} choosing;

/* Node 1 is the root, those of k are 2 k and 2 k + 1, the leaves stand at w->leaves. Says what is wrong, or NULL. */
static const char *plant(double *tree, const choosing *w, int64_t row)
{
  int64_t stride = w->p->strides[w->p->ndim - 1], possible = 0;
  for (int64_t k = 0; k < w->leaves; k++) {
    double p = 0;
    if (k < w->categories) p = cni_load_f64(w->p->data, row * w->p_row + k * stride, w->p->dtype);
    if (!(p >= 0) || isinf(p)) return "a weight is negative, infinite or not a number";
    possible += p > 0;
    tree[w->leaves + k] = p;
  }
  for (int64_t k = w->leaves - 1; k > 0; k--) tree[k] = tree[2 * k] + tree[2 * k + 1];
  if (!(tree[1] > 0) || isinf(tree[1])) return "the weights of a row must have a positive, finite sum";
  return !w->replace && possible < w->samples ? "a row has fewer positive weights than samples are drawn" : NULL;
}

/* The leaf at share u of the whole; never one of weight 0. */
static int64_t descend(const double *tree, int64_t leaves, double u)
{
  int64_t k = 1;
  double rest = u * tree[1];
  while (k < leaves) {
    k *= 2;
    if (tree[k + 1] > 0 && (rest >= tree[k] || !(tree[k] > 0))) rest -= tree[k++];
  }
  return k - leaves;
}

static void drop(double *tree, int64_t k)
{
  tree[k] = 0;
  while (k /= 2) tree[k] = tree[2 * k] + tree[2 * k + 1];
}

static void choose_rows(int64_t begin, int64_t end, void *payload)
{
  const choosing *w = payload;
  size_t size = (size_t)(2 * w->leaves) * sizeof(double);
  double *tree = cni_scratch_alloc(size), draws[CNI_DRAWS_64];
  for (int64_t row = begin; tree && row < end; row++) {
    const char *wrong = plant(tree, w, row);
    if (wrong) {
      cn_call_fail(w->c, CN_ERR_VALUE, "%s", wrong);
      break;
    }
    for (int64_t i = 0; i < w->samples; i++) {
      int64_t at = row * w->samples + i, left = w->samples - i, place = at % CNI_DRAWS_64;
      if (i == 0 || place == 0) { /* as many as this group of counters still has */
        int64_t m = CNI_DRAWS_64 - place < left ? CNI_DRAWS_64 - place : left;
        cni_random_unit_f64(draws + place, at, m, w->c->seed, w->c->offset);
      }
      int64_t k = descend(tree, w->leaves, draws[place]);
      cni_store_i64(w->y->data, row * w->y_row + i * w->y->strides[w->y->ndim - 1], CN_I64, k);
      if (!w->replace) drop(tree, w->leaves + k);
    }
  }
  cni_scratch_free(tree, size);
}

/* multinomial(input, num_samples, replacement) */
static int multinomial_kernel(cn_call *c)
{
  const cn_desc *p = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]);
  choosing w = {.c = c, .p = p, .y = y, .rows = 1, .categories = p->shape[p->ndim - 1], .samples = c->args[1].u.i,
                .leaves = 2, .replace = c->args[2].u.i != 0};
  if (p->ndim == 2) w.rows = p->shape[0], w.p_row = p->strides[0], w.y_row = y->strides[0];
  while (w.leaves < w.categories) w.leaves *= 2;
  if (w.rows) cni_parallel_for(w.rows, 32768 / (w.leaves + 8 * w.samples) + 1, choose_rows, &w);
  return cn_err();
}

/* ---- poisson(input) ---- */

/* Beyond this the steps of the search would take long, and the normal distribution is as good as the type. */
static const double normal_from = 1e8;

/* The count that share u of all chance falls to, when chances are laid side by side from the likeliest outwards. */
static double count_at(double rate, double u)
{
  if (!(rate > 0)) return rate; /* 0, or not a number */
  double up = floor(rate), down = up;
  double p_up = exp(up * log(rate) - rate - lgamma(up + 1)), p_down = p_up;
  for (u -= p_up; u >= 0;) {
    double before = u;
    p_up *= rate / ++up;
    if ((u -= p_up) < 0) return up;
    if (down > 0) {
      p_down *= down-- / rate;
      if ((u -= p_down) < 0) return down;
    }
    if (u == before) break; /* what is left is rounding */
  }
  return floor(rate);
}

static void count_events(int64_t begin, int64_t end, void *payload)
{
  const cn_call *c = payload;
  const cn_desc *x = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]);
  for (int64_t i = begin; i < end; i++) {
    double rate = cni_load_f64(x->data, cni_offset_of(x, i), x->dtype), u, z, count;
    if (rate < 0) {
      cn_call_fail(c, CN_ERR_VALUE, "an expected number is negative");
      return;
    }
    if (rate < normal_from) {
      cni_random_unit_f64(&u, i, 1, c->seed, c->offset);
      count = count_at(rate, u);
    } else {
      cni_random_normal_f64(&z, i, 1, c->seed, c->offset);
      count = floor(rate + sqrt(rate) * z + 0.5);
    }
    cni_store_f64(y->data, cni_offset_of(y, i), y->dtype, count);
  }
}

static int poisson_kernel(cn_call *c)
{
  int64_t n = cn_desc_of(c->out[0])->numel;
  if (n) cni_parallel_for(n, 256, count_events, c);
  return cn_err();
}

const cn_kernel cni_cpu_multinomial_kernels[] = {
    {"multinomial", "sum tree", multinomial_kernel}, {"poisson", "search", poisson_kernel}, {NULL, NULL, NULL}};
