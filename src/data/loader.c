/* loader.c: batches of a data set, epoch after epoch. See data.h.
 *
 * Place in the flow: data set and sampler below; workers.c makes batches ahead, or this thread does. Where a loader
 * stands is (epoch, number of the next batch); everything else follows from that and the seed.
 * Invariant: `order` changes only while no worker runs. */
#include "loader.h"

#include <cairn/autograd.h>
#include <cairn/ext/signature.h>
#include <stdio.h>
#include <string.h>

#include "data.h"

enum { SEED_STREAM = 3, MAX_WORKERS = 1024, MAX_AHEAD = 1024 };

struct cn_loader {
  cn_dataset *set;
  cn_loader_opts o; /* checked, with defaults filled in */
  cn_sampler sampler;
  int64_t samples, batches; /* of an epoch */
  int64_t epoch, next;
  int64_t *order;       /* samples of this epoch */
  bool begun;           /* order is that of this epoch, and workers run */
  uint64_t draw_seed;   /* of this epoch */
  cn_batch current;     /* what the program has */
  cni_workers *workers; /* NULL: batches are made when asked for */
};

/* ---- making a batch, on any thread ---- */

static void add_sample_number(int64_t index)
{
  char message[CNI_MESSAGE];
  int code = cn_err();
  snprintf(message, sizeof message, "%s", cn_err_message());
  cn_err_clear();
  cn_err_set(code, "loader: sample %lld: %s", (long long)index, message);
}

/* One by one; the samples are let go as soon as they are copied. */
static int stack_samples(cn_batch *batch, const cn_loader *l, const int64_t *indices, size_t n)
{
  int status = CN_OK;
  for (size_t i = 0; i < n && !status; i++) {
    cn_sample sample;
    cn_draws draws = {l->draw_seed, (uint64_t)indices[i], 0};
    status = cn_dataset_sample(&sample, l->set, indices[i], &draws);
    if (!status) status = cni_stack_add(batch, i, &sample, n);
    cn_sample_clear(&sample);
    if (status) add_sample_number(indices[i]);
  }
  return status;
}

static int collate_samples(cn_batch *batch, const cn_loader *l, const int64_t *indices, size_t n)
{
  cn_sample *samples = cn_alloc_zero(n * sizeof *samples);
  if (!samples) return cn_err();
  int status = CN_OK;
  for (size_t i = 0; i < n && !status; i++) {
    cn_draws draws = {l->draw_seed, (uint64_t)indices[i], 0};
    status = cn_dataset_sample(&samples[i], l->set, indices[i], &draws);
    if (status) add_sample_number(indices[i]);
  }
  if (!status) status = l->o.collate(batch, samples, n, l->o.payload);
  for (size_t i = 0; i < n; i++) cn_sample_clear(&samples[i]);
  cn_free(samples, n * sizeof *samples);
  if (status < 0 && !cn_err()) cn_err_set(status, "loader: collate failed");
  return cn_err();
}

static int make_batch(cn_batch *batch, const cn_loader *l, int64_t number)
{
  int64_t first = number * l->o.batch, n = l->samples - first < l->o.batch ? l->samples - first : l->o.batch;
  const int64_t *indices = l->order + first;
  bool own = l->o.collate && l->o.collate != cn_collate_stack;
  *batch = (cn_batch){.n = 0};
  int status = own ? 1 : cni_dataset_batch(batch, l->set, indices, (size_t)n);
  if (status == 1)
    status = own ? collate_samples(batch, l, indices, (size_t)n) : stack_samples(batch, l, indices, (size_t)n);
  if (status) {
    cni_batch_clear(batch);
    return status;
  }
  batch->size = n;
  batch->number = number;
  batch->epoch = l->epoch;
  return CN_OK;
}

/* Here and not in cn_loader_next, so that a worker's time pays for it. Without such memory nothing changes. */
static int pin(cn_batch *b, cn_device device)
{
  for (size_t i = 0; i < b->n; i++)
    if (cn_device_of(b->v[i]) == CN_CPU && cn_set(&b->v[i], cn_pin_memory(b->v[i], device))) {
      cni_batch_clear(b);
      break;
    }
  return cn_err();
}

/* Data are made on the CPU and without history, whatever the thread's own modes say. */
static void make(cni_worker_result *made, int64_t number, void *payload)
{
  const cn_loader *l = payload;
  cn_device device = cn_default_device();
  cn_set_default_device(CN_CPU);
  int grad = cn_no_grad_begin();
  cn_scope *s = cn_scope_begin();
  made->error = make_batch(&made->batch, l, number);
  if (!made->error && l->o.device != CN_CPU && !l->o.no_pin) made->error = pin(&made->batch, l->o.device);
  cn_scope_end(s);
  cn_no_grad_end(grad);
  cn_set_default_device(device);
  if (made->error) snprintf(made->message, sizeof made->message, "%s", cn_err_message());
  cn_err_clear();
}

/* ---- life ---- */

static uint64_t draw_seed(void)
{
  uint64_t seed, offset;
  uint32_t w[4];
  cn_random_state(&seed, &offset);
  cn_random_block(w, seed, SEED_STREAM, offset);
  cn_random_set_state(seed, offset + 1);
  return ((uint64_t)w[1] << 32 | w[0]) | 1; /* 0 would ask again */
}

static int check_options(cn_loader_opts *o)
{
  if (!o->batch) o->batch = 1;
  if (!o->prefetch) o->prefetch = 2;
  if (o->batch < 1) return cn_err_set(CN_ERR_VALUE, "loader: batches of %lld samples", (long long)o->batch);
  if (o->workers < 0 || o->workers > MAX_WORKERS)
    return cn_err_set(CN_ERR_VALUE, "loader: %d workers; 0 to %d are possible", o->workers, MAX_WORKERS);
  if (o->prefetch < 1 || o->prefetch > MAX_AHEAD)
    return cn_err_set(CN_ERR_VALUE, "loader: %d batches ahead; 1 to %d are possible", o->prefetch, MAX_AHEAD);
  if (o->sampler && o->shuffle) return cn_err_set(CN_ERR_VALUE, "loader: a sampler and shuffle exclude each other");
  if (!o->device) o->device = cn_default_device();
  if (!o->seed) o->seed = draw_seed();
  return cn_err();
}

static int set_up(cn_loader *l)
{
  if (check_options(&l->o)) return cn_err();
  l->samples = l->sampler.length ? l->sampler.length(l->sampler.data) : cn_dataset_length(l->set);
  if (l->samples < 0 || l->samples > (int64_t)(PTRDIFF_MAX / sizeof *l->order)) {
    cn_err_set(CN_ERR_VALUE, "loader: a length of %lld", (long long)l->samples);
    l->samples = 0;
    return cn_err();
  }
  l->batches = l->samples / l->o.batch + (l->samples % l->o.batch && !l->o.drop_last);
  if (!(l->order = cn_alloc((size_t)l->samples * sizeof *l->order))) return cn_err();
  if (l->o.workers && !(l->workers = cni_workers_new(l->o.workers, l->o.prefetch, make, l))) return cn_err();
  return CN_OK;
}

cn_loader *cn_loader_new_with(cn_dataset *set, const cn_loader_opts *opts)
{
  cn_loader_opts room;
  opts = cn_opts_read(&room, sizeof room, opts, "loader");
  cn_loader *l = cni_dataset_given("loader", set) && opts ? cn_alloc_zero(sizeof *l) : NULL;
  cn_sampler sampler = opts && opts->sampler ? *opts->sampler : (cn_sampler){0};
  if (l) {
    l->set = set;
    l->o = *opts;
    l->sampler = sampler;
    if (!set_up(l)) return l;
    cn_loader_free(l);
    return NULL;
  }
  if (sampler.free) sampler.free(sampler.data);
  cn_dataset_release(set);
  return NULL;
}

void cn_loader_free(cn_loader *l)
{
  if (!l) return;
  cni_workers_free(l->workers);
  cni_batch_clear(&l->current);
  if (l->sampler.free) l->sampler.free(l->sampler.data);
  cn_free(l->order, (size_t)l->samples * sizeof *l->order);
  cn_dataset_release(l->set);
  cn_free(l, sizeof *l);
}

int64_t cn_loader_length(cn_loader *l) { return l ? l->batches : 0; }
cn_dataset *cn_loader_dataset(cn_loader *l) { return l ? l->set : NULL; }
int64_t cn_loader_epoch(cn_loader *l) { return l ? l->epoch : 0; }

/* ---- epochs ---- */

static int check_order(const cn_loader *l)
{
  int64_t n = cn_dataset_length(l->set);
  for (int64_t i = 0; i < l->samples; i++)
    if (l->order[i] < 0 || l->order[i] >= n)
      return cn_err_set(CN_ERR_INDEX, "loader: the sampler wants sample %lld of %lld", (long long)l->order[i],
                        (long long)n);
  return CN_OK;
}

static int begin_epoch(cn_loader *l)
{
  l->draw_seed = cni_epoch_seed(l->o.seed, l->epoch);
  if (l->sampler.order) {
    int status = l->sampler.order(l->order, l->sampler.data, l->o.seed, l->epoch);
    if (status) return cn_err_set(status, "loader: the sampler failed");
  } else {
    for (int64_t i = 0; i < l->samples; i++) l->order[i] = i;
    if (l->o.shuffle) cni_shuffle(l->order, l->samples, l->draw_seed);
  }
  if (check_order(l)) return cn_err();
  if (l->workers) cni_workers_run(l->workers, l->next, l->batches);
  l->begun = true;
  return CN_OK;
}

/* Goes to batch `next` of `epoch`; what was made ahead is dropped. */
static void move_to(cn_loader *l, int64_t epoch, int64_t next)
{
  if (l->begun && l->workers) cni_workers_stop(l->workers);
  l->begun = false;
  l->epoch = epoch;
  l->next = next;
}

static int to_device(cn_batch *b, cn_device device)
{
  cn_scope *s = cn_scope_begin();
  for (size_t i = 0; i < b->n; i++)
    if (cn_device_of(b->v[i]) != device && cn_set(&b->v[i], cn_to_device(b->v[i], device))) break;
  cn_scope_end(s);
  return cn_err();
}

static int missing(void) { return cn_err_set(CN_ERR_TYPE, "loader: it is missing (NULL)"); }

int cn_loader_next(cn_batch *batch, cn_loader *l)
{
  *batch = (cn_batch){.n = 0};
  if (cn_err()) return cn_err();
  if (!l) return missing();
  cni_batch_clear(&l->current);
  if (!l->begun && begin_epoch(l)) return cn_err();
  if (l->next >= l->batches) {
    move_to(l, l->epoch + 1, 0);
    return 0;
  }
  cni_worker_result made;
  if (!l->workers || !cni_workers_next(&made, l->workers)) make(&made, l->next, l);
  l->next++;
  if (made.error) return cn_err_set(made.error, "%s", made.message);
  l->current = made.batch;
  if (to_device(&l->current, l->o.device)) {
    cni_batch_clear(&l->current);
    return cn_err();
  }
  l->current.x = l->current.v[0];
  l->current.y = l->current.n > 1 ? l->current.v[1] : NULL;
  *batch = l->current;
  return 1;
}

int cn_loader_restart(cn_loader *l, int64_t epoch)
{
  if (!l) return missing();
  if (epoch < 0) return cn_err_set(CN_ERR_VALUE, "loader: there is no epoch %lld", (long long)epoch);
  move_to(l, epoch, 0);
  return CN_OK;
}

/* ---- where it is ---- */

cn_tree *cn_loader_state(cn_loader *l)
{
  if (!l) missing();
  cn_tree *t = l ? cn_tree_dict() : NULL;
  if (!t) return NULL;
  cn_tree_put(t, "seed", cn_tree_int((int64_t)l->o.seed));
  cn_tree_put(t, "epoch", cn_tree_int(l->epoch));
  cn_tree_put(t, "next", cn_tree_int(l->next));
  cn_tree_put(t, "batch", cn_tree_int(l->o.batch));
  cn_tree_put(t, "samples", cn_tree_int(l->samples));
  if (!cn_err()) return t;
  cn_tree_free(t);
  return NULL;
}

int cn_loader_load(cn_loader *l, const cn_tree *state)
{
  if (!l) return missing();
  int64_t epoch = cn_tree_as_int(cn_tree_get(state, "epoch"), -1);
  int64_t next = cn_tree_as_int(cn_tree_get(state, "next"), -1);
  int64_t samples = cn_tree_as_int(cn_tree_get(state, "samples"), -1);
  int64_t batch = cn_tree_as_int(cn_tree_get(state, "batch"), -1);
  int64_t seed = cn_tree_as_int(cn_tree_get(state, "seed"), 0);
  if (samples != l->samples || batch != l->o.batch)
    return cn_err_set(CN_ERR_VALUE, "loader: the state is of %lld samples by %lld, not %lld by %lld",
                      (long long)samples, (long long)batch, (long long)l->samples, (long long)l->o.batch);
  if (epoch < 0 || next < 0 || next > l->batches || !seed)
    return cn_err_set(CN_ERR_VALUE, "loader: the state makes no sense (epoch %lld, batch %lld)", (long long)epoch,
                      (long long)next);
  move_to(l, epoch, next);
  l->o.seed = (uint64_t)seed;
  return CN_OK;
}
