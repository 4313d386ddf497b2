/* profile_track.c: see profile_track.h. Entries lie in chunks, so that they stay where they are; texts are kept once,
 * so that a thousand steps of training need no more of them than one. */
#include "profile_track.h"

#include <cairn/ext/hash.h>
#include <cairn/ext/system.h>
#include <string.h>

#include "base/alloc.h"

/* Memory whose absence is no error of the program's. */
static void *room(size_t size)
{
  bool failed = cn_err() != CN_OK;
  void *p = cni_alloc_zero(size);
  if (!p && !failed) cn_err_clear();
  return p;
}

/* As cni_grow, without its error. */
static bool grows(void **array, size_t *cap, size_t need, size_t elem)
{
  bool failed = cn_err() != CN_OK, done = !cni_grow(array, cap, need, elem);
  if (!done && !failed) cn_err_clear();
  return done;
}

/* ---- entries ---- */

cni_timing *cni_track_add(cni_track *t)
{
  size_t chunk = t->n / CNI_PROFILE_CHUNK;
  if (t->n >= t->profile->opts.most) return t->dropped++, NULL;
  if (chunk == t->nchunks) {
    bool there = grows((void **)&t->chunks, &t->chunks_cap, chunk + 1, sizeof *t->chunks) &&
                 (t->chunks[chunk] = room(CNI_PROFILE_CHUNK * sizeof **t->chunks));
    if (!there) return t->dropped++, NULL;
    t->nchunks++;
  }
  return cni_timing_at(t, t->n++);
}

/* ---- texts ---- */

static size_t text_slot(char *const *texts, size_t cap, const char *text, size_t n)
{
  size_t i = cn_hash(text, n) & (cap - 1);
  while (texts[i] && strcmp(texts[i], text)) i = (i + 1) & (cap - 1);
  return i;
}

static bool more_texts(cni_track *t)
{
  size_t cap = t->texts_cap ? t->texts_cap * 2 : 64;
  char **texts = room(cap * sizeof *texts);
  if (!texts) return false;
  for (size_t i = 0; i < t->texts_cap; i++)
    if (t->texts[i]) texts[text_slot(texts, cap, t->texts[i], strlen(t->texts[i]))] = t->texts[i];
  cni_free(t->texts, t->texts_cap * sizeof *texts);
  t->texts = texts;
  t->texts_cap = cap;
  return true;
}

const char *cni_track_text(cni_track *t, const char *text)
{
  size_t n = strlen(text);
  if (2 * t->ntexts >= t->texts_cap && !more_texts(t)) return NULL;
  size_t i = text_slot(t->texts, t->texts_cap, text, n);
  if (t->texts[i]) return t->texts[i];
  if (!(t->texts[i] = room(n + 1))) return NULL;
  memcpy(t->texts[i], text, n + 1);
  t->ntexts++;
  return t->texts[i];
}

/* ---- who recorded what ---- */

static size_t by_slot(const cni_recorded_by *by, size_t cap, uint64_t sequence)
{
  size_t i = (size_t)(sequence * 0x9e3779b97f4a7c15u >> 20) & (cap - 1);
  while (by[i].sequence && by[i].sequence != sequence) i = (i + 1) & (cap - 1);
  return i;
}

static bool more_by(cni_track *t)
{
  size_t cap = t->by_cap ? t->by_cap * 2 : 256;
  cni_recorded_by *by = room(cap * sizeof *by);
  if (!by) return false;
  for (size_t i = 0; i < t->by_cap; i++)
    if (t->by[i].sequence) by[by_slot(by, cap, t->by[i].sequence)] = t->by[i];
  cni_free(t->by, t->by_cap * sizeof *by);
  t->by = by;
  t->by_cap = cap;
  return true;
}

void cni_track_recorded(cni_track *t, uint64_t sequence, const char *module)
{
  if (t->nby >= t->profile->opts.most || (2 * t->nby >= t->by_cap && !more_by(t))) return;
  size_t i = by_slot(t->by, t->by_cap, sequence);
  t->nby += !t->by[i].sequence;
  t->by[i] = (cni_recorded_by){sequence, module};
}

const char *cni_track_recorder(const cni_track *t, uint64_t sequence)
{
  return t->by_cap ? t->by[by_slot(t->by, t->by_cap, sequence)].module : NULL;
}

/* ---- memory ---- */

static int device_place(cni_track *t, cn_device device)
{
  int i = 0;
  while (i < t->ndevices && t->devices[i] != device) i++;
  if (i == t->ndevices && i < CNI_PROFILE_DEVICES) t->devices[t->ndevices++] = device;
  return i < CNI_PROFILE_DEVICES ? i : CNI_PROFILE_DEVICES - 1;
}

void cni_track_change(cni_track *t, cn_device device, int64_t bytes)
{
  int64_t *held = &t->held[device_place(t, device)];
  *held += bytes;
  if (bytes > 0) t->allocated += bytes;
  else t->freed -= bytes;
  if (t->nchanges >= t->profile->opts.most) return;
  if (!grows((void **)&t->changes, &t->changes_cap, t->nchanges + 1, sizeof *t->changes)) return;
  t->changes[t->nchanges++] = (cni_change){cn_clock(), bytes, *held, device};
}

/* ---- times on devices ---- */

/* Its first event waits, so that both times are of the same moment. */
cni_clock_pair *cni_track_clock(cni_track *t, cn_device device)
{
  for (int i = 0; i < t->nclocks; i++)
    if (t->clocks[i].device == device) return t->clocks[i].event ? &t->clocks[i] : NULL;
  if (t->nclocks == CNI_PROFILE_DEVICES) return NULL;
  cni_clock_pair *c = &t->clocks[t->nclocks++];
  *c = (cni_clock_pair){device, cn_event_new(device, true), 0};
  if (c->event && (cn_event_record(c->event, NULL) || cn_event_sync(c->event))) {
    cn_event_free(c->event);
    c->event = NULL;
  }
  c->time = cn_clock();
  return c->event ? c : NULL;
}

static int read_time(cni_timing *e, const cni_clock_pair *c)
{
  double begin = 0, end = 0;
  int status = cn_event_elapsed(&begin, c->event, e->from);
  if (!status) status = cn_event_elapsed(&end, c->event, e->to);
  e->device_begin = c->time + begin * 1e-3;
  e->device_end = c->time + end * 1e-3;
  e->timed = !status;
  return status;
}

int cni_track_times(cni_track *t)
{
  int status = CN_OK;
  for (int i = 0; i < t->nclocks && !status; i++)
    if (t->clocks[i].event) status = cn_device_sync(t->clocks[i].device);
  for (size_t i = 0; i < t->n && !status; i++) {
    cni_timing *e = cni_timing_at(t, i);
    const cni_clock_pair *c = e->to ? cni_track_clock(t, e->device) : NULL;
    if (c) status = read_time(e, c);
  }
  return status;
}

void cni_track_free(cni_track *t)
{
  for (size_t i = 0; i < t->n; i++) {
    cni_timing *e = cni_timing_at(t, i);
    if (e->from) cn_event_free(e->from);
    if (e->to) cn_event_free(e->to);
  }
  for (size_t i = 0; i < t->nchunks; i++) cni_free(t->chunks[i], CNI_PROFILE_CHUNK * sizeof **t->chunks);
  cni_free(t->chunks, t->chunks_cap * sizeof *t->chunks);
  for (size_t i = 0; i < t->texts_cap; i++) cni_strfree(t->texts[i]);
  cni_free(t->texts, t->texts_cap * sizeof *t->texts);
  cni_free(t->by, t->by_cap * sizeof *t->by);
  cni_free(t->changes, t->changes_cap * sizeof *t->changes);
  for (int i = 0; i < t->nclocks; i++)
    if (t->clocks[i].event) cn_event_free(t->clocks[i].event);
  cni_free(t, sizeof *t);
}
