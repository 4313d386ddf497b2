/* dataset.c: the life of data sets, labels of classes, and the random numbers of a sample. See data.h.
 *
 * Place in the flow: below every reader and the loader. Invariant: a data set never changes once it is in use, so
 * that any number of threads may take samples from it. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "data.h"

struct cn_dataset {
  const cn_dataset_class *cls;
  void *data;
  const char *name; /* the class's, or of the reader that made it */
  char **labels;
  size_t nlabels;
  atomic_int refs;
};

/* ---- life ---- */

cn_dataset *cn_dataset_new(const cn_dataset_class *cls, void *data)
{
  if (cls->size < offsetof(cn_dataset_class, batch) + sizeof cls->batch)
    cn_err_set(CN_ERR_VALUE, "dataset: .size of a class must be sizeof(cn_dataset_class)");
  cn_dataset *set = cn_err() ? NULL : cn_alloc_zero(sizeof *set);
  if (!set) {
    if (cls->free && data) cls->free(data);
    return NULL;
  }
  set->cls = cls;
  set->data = data;
  set->name = cls->name;
  atomic_init(&set->refs, 1);
  return set;
}

cn_dataset *cn_dataset_keep(cn_dataset *set)
{
  if (set) atomic_fetch_add_explicit(&set->refs, 1, memory_order_relaxed);
  return set;
}

static void free_labels(char **labels, size_t n)
{
  for (size_t i = 0; i < n; i++) cn_string_free(labels[i]);
  cn_free(labels, n * sizeof *labels);
}

void cn_dataset_release(cn_dataset *set)
{
  if (!set || atomic_fetch_sub_explicit(&set->refs, 1, memory_order_acq_rel) != 1) return;
  if (set->cls->free) set->cls->free(set->data);
  free_labels(set->labels, set->nlabels);
  cn_free(set, sizeof *set);
}

cn_dataset *cni_dataset_given(const char *who, cn_dataset *set)
{
  if (set && !cn_err()) return set;
  cn_err_set(CN_ERR_TYPE, "%s: a data set is missing (NULL)", who);
  return NULL;
}

cn_dataset *cni_dataset_named(cn_dataset *set, const char *name)
{
  if (set) set->name = name;
  return set;
}

const char *cn_dataset_name(const cn_dataset *set) { return set ? set->name : ""; }

void *cni_dataset_data(const cn_dataset *set, const cn_dataset_class *cls)
{
  return set && set->cls == cls ? set->data : NULL;
}

int64_t cn_dataset_length(cn_dataset *set) { return set ? set->cls->length(set->data) : 0; }

/* ---- labels ---- */

const char *cn_dataset_label(const cn_dataset *set, size_t i)
{
  return set && i < set->nlabels ? set->labels[i] : NULL;
}

int cn_dataset_set_labels(cn_dataset *set, const char *const *labels, size_t n)
{
  if (!cni_dataset_given("labels", set)) return cn_err();
  char **copy = cn_alloc_zero(n * sizeof *copy);
  if (!copy) return cn_err();
  for (size_t i = 0; i < n; i++) {
    copy[i] = cn_string_copy(labels[i]);
    if (copy[i]) continue;
    free_labels(copy, n);
    return cn_err();
  }
  free_labels(set->labels, set->nlabels);
  set->labels = copy;
  set->nlabels = n;
  return CN_OK;
}

/* Whoever wraps a set has its labels; without memory for them it has none. */
void cni_dataset_take_labels(cn_dataset *to, const cn_dataset *from)
{
  if (to && from && from->nlabels) cn_dataset_set_labels(to, (const char *const *)from->labels, from->nlabels);
}

/* ---- samples ---- */

void cn_sample_clear(cn_sample *sample)
{
  for (size_t i = 0; i < sample->n; i++) cn_release(sample->v[i]);
  *sample = (cn_sample){.n = 0};
}

void cni_batch_clear(cn_batch *batch)
{
  for (size_t i = 0; i < batch->n; i++) cn_release(batch->v[i]);
  *batch = (cn_batch){.n = 0};
}

int cn_dataset_sample(cn_sample *sample, cn_dataset *set, int64_t index, cn_draws *draws)
{
  *sample = (cn_sample){.n = 0};
  if (!cni_dataset_given("data set", set)) return cn_err();
  int64_t n = set->cls->length(set->data);
  if (index < 0 || index >= n)
    return cn_err_set(CN_ERR_INDEX, "%s: there is no sample %lld among %lld", set->name, (long long)index,
                      (long long)n);
  cn_scope *s = cn_scope_begin();
  int status = set->cls->get(sample, set->data, index, draws);
  cn_scope_end(s);
  if (status >= 0 && !cn_err()) return CN_OK;
  cn_sample_clear(sample);
  return cn_err_set(status, "%s: sample %lld could not be made", set->name, (long long)index);
}

int cn_dataset_get(cn_sample *sample, cn_dataset *set, int64_t index)
{
  cn_draws draws = {cni_epoch_seed(0, 0), (uint64_t)index, 0};
  return cn_dataset_sample(sample, set, index, &draws);
}

int cni_dataset_batch(cn_batch *batch, cn_dataset *set, const int64_t *indices, size_t n)
{
  *batch = (cn_batch){.n = 0};
  if (!set->cls->batch) return 1;
  cn_scope *s = cn_scope_begin();
  int status = set->cls->batch(batch, set->data, indices, n);
  cn_scope_end(s);
  if (status >= 0 && !cn_err()) return status;
  cni_batch_clear(batch);
  return cn_err_set(status, "%s: a batch could not be made", set->name);
}

/* ---- draws ---- */

/* A block of the generator makes two draws. */
static uint64_t draw_word(cn_draws *d)
{
  uint32_t w[4];
  cn_random_block(w, d->seed, d->stream, d->next >> 1);
  size_t half = 2 * (d->next++ & 1);
  return (uint64_t)w[half + 1] << 32 | w[half];
}

double cn_draw_uniform(cn_draws *draws) { return (double)(int64_t)(draw_word(draws) >> 11) * 0x1p-53; }

/* Words in the incomplete last group of n are drawn again, so that every result is as likely. */
int64_t cn_draw_below(cn_draws *draws, int64_t n)
{
  if (n <= 1) return 0;
  uint64_t m = (uint64_t)n, rest = (UINT64_MAX % m + 1) % m, word;
  do word = draw_word(draws);
  while (rest && word > UINT64_MAX - rest);
  return (int64_t)(word % m);
}

/* Box and Muller; the first uniform is never 0. */
double cn_draw_normal(cn_draws *draws)
{
  double u = 1 - cn_draw_uniform(draws), angle = 6.283185307179586 * cn_draw_uniform(draws);
  return sqrt(-2 * log(u)) * cos(angle);
}
