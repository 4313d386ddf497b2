/* combine.c: data sets made of others: mapped, joined, parts of one. See data.h.
 *
 * Place in the flow: between readers and loader. Invariant: a part only renumbers; the set below makes the samples,
 * with the draws of the number that the loader asked for. */
#include <string.h>

#include "data.h"

static void free_sets(cn_dataset *const *sets, size_t n)
{
  for (size_t i = 0; i < n; i++) cn_dataset_release(sets[i]);
}

/* ---- map ---- */

typedef struct map {
  cn_dataset *set;
  cn_map_fn fn;
  void *payload;
  void (*free)(void *);
} map;

static int64_t map_length(void *data) { return cn_dataset_length(((map *)data)->set); }

static int map_get(cn_sample *sample, void *data, int64_t index, cn_draws *draws)
{
  map *m = data;
  int status = cn_dataset_sample(sample, m->set, index, draws);
  return status ? status : m->fn(sample, draws, m->payload);
}

static void map_free(void *data)
{
  map *m = data;
  if (m->free) m->free(m->payload);
  cn_dataset_release(m->set);
  cn_free(m, sizeof *m);
}

static const cn_dataset_class map_class = {.size = sizeof(cn_dataset_class), .name = "map", .length = map_length,
  .get = map_get, .free = map_free};

cn_dataset *cn_dataset_map(cn_dataset *set, cn_map_fn fn, void *payload, void (*drop)(void *))
{
  map *m = cni_dataset_given("map", set) ? cn_alloc(sizeof *m) : NULL;
  if (!m) {
    if (drop) drop(payload);
    cn_dataset_release(set);
    return NULL;
  }
  *m = (map){set, fn, payload, drop};
  cn_dataset *made = cn_dataset_new(&map_class, m);
  cni_dataset_take_labels(made, made ? set : NULL);
  return made;
}

/* ---- concat ---- */

typedef struct concat {
  size_t n;
  int64_t length;
  struct part {
    cn_dataset *set;
    int64_t begin; /* number of its first sample */
  } parts[];
} concat;

static size_t concat_size(size_t n) { return sizeof(concat) + n * sizeof(struct part); }
static int64_t concat_length(void *data) { return ((concat *)data)->length; }

/* The last part that begins at or before index: that with the sample, as those behind begin after it. */
static const struct part *part_of(const concat *c, int64_t index)
{
  size_t low = 0, high = c->n;
  while (high - low > 1) {
    size_t mid = low + (high - low) / 2;
    if (c->parts[mid].begin <= index) low = mid;
    else high = mid;
  }
  return &c->parts[low];
}

static int concat_get(cn_sample *sample, void *data, int64_t index, cn_draws *draws)
{
  const struct part *p = part_of(data, index);
  return cn_dataset_sample(sample, p->set, index - p->begin, draws);
}

static void concat_free(void *data)
{
  concat *c = data;
  for (size_t i = 0; i < c->n; i++) cn_dataset_release(c->parts[i].set);
  cn_free(c, concat_size(c->n));
}

static const cn_dataset_class concat_class = {
  .size = sizeof(cn_dataset_class),
  .name = "concat", .length = concat_length, .get = concat_get, .free = concat_free};

cn_dataset *cn_dataset_concat(cn_dataset *const *sets, size_t n)
{
  bool given = !cn_err();
  for (size_t i = 0; i < n && given; i++) given = cni_dataset_given("concat", sets[i]) != NULL;
  concat *c = given ? cn_alloc_zero(concat_size(n)) : NULL;
  if (!c) {
    free_sets(sets, n);
    return NULL;
  }
  for (size_t i = 0; i < n; i++) {
    c->parts[c->n++] = (struct part){sets[i], c->length};
    c->length += cn_dataset_length(sets[i]);
  }
  cn_dataset *made = cn_dataset_new(&concat_class, c);
  cni_dataset_take_labels(made, made && n ? sets[0] : NULL);
  return made;
}

/* ---- parts of one ---- */

typedef struct subset {
  cn_dataset *set;
  int64_t begin, n;
  int64_t *indices; /* NULL: begin, begin + 1, ... */
} subset;

static int64_t subset_length(void *data) { return ((subset *)data)->n; }

static int64_t renumber(const subset *s, int64_t index) { return s->indices ? s->indices[index] : s->begin + index; }

static int subset_get(cn_sample *sample, void *data, int64_t index, cn_draws *draws)
{
  const subset *s = data;
  return cn_dataset_sample(sample, s->set, renumber(s, index), draws);
}

static int subset_batch(cn_batch *batch, void *data, const int64_t *indices, size_t n)
{
  const subset *s = data;
  int64_t *below = cn_alloc(n * sizeof *below);
  if (!below) return cn_err();
  for (size_t i = 0; i < n; i++) below[i] = renumber(s, indices[i]);
  int status = cni_dataset_batch(batch, s->set, below, n);
  cn_free(below, n * sizeof *below);
  return status;
}

static void subset_free(void *data)
{
  subset *s = data;
  cn_free(s->indices, (size_t)s->n * sizeof *s->indices);
  cn_dataset_release(s->set);
  cn_free(s, sizeof *s);
}

static const cn_dataset_class subset_class = {
  .size = sizeof(cn_dataset_class),
  .name = "subset", .length = subset_length, .get = subset_get, .free = subset_free, .batch = subset_batch};

/* Takes set and indices (n of them, from cn_alloc) over. */
static cn_dataset *make_subset(cn_dataset *set, int64_t begin, int64_t n, int64_t *indices)
{
  subset *s = cn_err() ? NULL : cn_alloc(sizeof *s);
  if (!s) {
    cn_free(indices, (size_t)n * sizeof *indices);
    cn_dataset_release(set);
    return NULL;
  }
  *s = (subset){set, begin, n, indices};
  cn_dataset *made = cn_dataset_new(&subset_class, s);
  cni_dataset_take_labels(made, made ? set : NULL);
  return made;
}

cn_dataset *cn_dataset_subset(cn_dataset *set, const int64_t *indices, size_t n)
{
  if (!cni_dataset_given("subset", set)) {
    cn_dataset_release(set);
    return NULL;
  }
  int64_t length = cn_dataset_length(set), *copy = cn_alloc(n * sizeof *copy);
  for (size_t i = 0; copy && i < n; i++) {
    copy[i] = indices[i];
    if (copy[i] < 0 || copy[i] >= length)
      cn_err_set(CN_ERR_INDEX, "subset: there is no sample %lld among %lld", (long long)copy[i], (long long)length);
  }
  return make_subset(set, 0, (int64_t)n, copy);
}

cn_dataset *cn_dataset_range(cn_dataset *set, int64_t begin, int64_t end)
{
  int64_t length = cn_dataset_length(cni_dataset_given("range", set));
  if (begin < 0 || end < begin || end > length)
    cn_err_set(CN_ERR_INDEX, "range: %lld to %lld does not lie in 0 to %lld", (long long)begin, (long long)end,
               (long long)length);
  return make_subset(set, begin, end - begin, NULL);
}

static int check_sizes(const int64_t *sizes, size_t n, int64_t length)
{
  int64_t left = length;
  for (size_t i = 0; i < n && left >= 0; i++) left = sizes[i] < 0 || sizes[i] > left ? -1 : left - sizes[i];
  return left ? cn_err_set(CN_ERR_VALUE, "split: the sizes do not add up to %lld", (long long)length) : CN_OK;
}

int cn_dataset_split(cn_dataset **parts, cn_dataset *set, const int64_t *sizes, size_t n, uint64_t seed)
{
  for (size_t i = 0; i < n; i++) parts[i] = NULL;
  if (!cni_dataset_given("split", set)) return cn_err();
  int64_t length = cn_dataset_length(set);
  if (check_sizes(sizes, n, length)) return cn_err();
  int64_t *order = cn_alloc((size_t)length * sizeof *order), at = 0;
  if (!order) return cn_err();
  for (int64_t i = 0; i < length; i++) order[i] = i;
  cni_shuffle(order, length, cni_epoch_seed(seed, 0));
  bool failed = false;
  for (size_t i = 0; i < n && !failed; at += sizes[i++]) {
    parts[i] = cn_dataset_subset(cn_dataset_keep(set), order + at, (size_t)sizes[i]);
    failed = !parts[i];
  }
  cn_free(order, (size_t)length * sizeof *order);
  for (size_t i = 0; failed && i < n; i++) {
    cn_dataset_release(parts[i]);
    parts[i] = NULL;
  }
  return failed ? cn_err() : CN_OK;
}
