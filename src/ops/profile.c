/* profile.c: the profile mode: each op becomes an entry with its time on the host and on its device.
 *
 * Place in the flow: the first mode of apply, so that an entry spans everything that a call does; run.c opens one for a
 * graph's run. On a device an entry is a pair of events in its stream, read when the profile ends. Invariants: the
 * entries of a profile are its thread's alone; only the first work on a device, and the end, wait for it. */
#include "profile.h"

#include <cairn/device.h>
#include <cairn/ext/system.h>
#include <cairn/recording.h>
#include <stdio.h>
#include <string.h>

#include "apply.h"
#include "base/alloc.h"
#include "families.h"

enum { DEVICES = 8, SHAPES = 400 };

typedef struct entry {
  char *name; /* owned where it is a range's, else the op's own */
  char *shapes; /* owned */
  int depth;
  bool range;
  double begin, end, device_begin, device_end;
  cn_device device;
  cn_event *from, *to; /* owned; NULL: no time on a device */
} entry;

/* An event whose time on the host is known. */
typedef struct clock_pair {
  cn_device device;
  cn_event *event;
  double time;
} clock_pair;

struct cn_profile {
  unsigned what;
  bool on;
  entry *entries;
  size_t n, cap;
  size_t open[64]; /* entries that have not ended; deeper ones are not kept */
  int depth;
  clock_pair clocks[DEVICES];
  int nclocks;
};

/* ---- events ---- */

/* Has the device a clock to compare with? Its first event waits, so that both times are of the same moment. */
static clock_pair *clock_of(cn_profile *p, cn_device device)
{
  for (int i = 0; i < p->nclocks; i++)
    if (p->clocks[i].device == device) return p->clocks[i].event ? &p->clocks[i] : NULL;
  if (p->nclocks == DEVICES) return NULL;
  clock_pair *c = &p->clocks[p->nclocks++];
  *c = (clock_pair){device, cn_event_new(device, true), 0};
  if (c->event && (cn_event_record(c->event, NULL) || cn_event_sync(c->event))) {
    cn_event_free(c->event);
    c->event = NULL;
  }
  c->time = cn_clock();
  return c->event ? c : NULL;
}

/* Work that is recorded has no time yet. */
static cn_event *mark(cn_profile *p, cn_device device)
{
  bool timed = p->what & CN_PROFILE_DEVICES && device != CN_CPU && !cn_recording_now(device);
  if (!timed || !clock_of(p, device)) return NULL;
  cn_event *event = cn_event_new(device, true);
  if (event && cn_event_record(event, NULL)) {
    cn_event_free(event);
    return NULL;
  }
  return event;
}

/* ---- entries ---- */

static char *text_of(const char *text)
{
  size_t size = strlen(text) + 1;
  char *copy = cni_alloc(size);
  if (copy) memcpy(copy, text, size);
  return copy;
}

static char *shapes_of(const cn_call *c)
{
  char text[SHAPES];
  size_t at = 0;
  for (int i = 0; i < c->nin && at < sizeof text - 40; i++) {
    const cn_desc *d = c->in[i] ? cn_desc_of(c->in[i]) : NULL;
    at += (size_t)snprintf(text + at, sizeof text - at, "%s[", i ? ", " : "[");
    for (int k = 0; d && k < d->ndim && at < sizeof text - 40; k++)
      at += (size_t)snprintf(text + at, sizeof text - at, "%s%lld", k ? ", " : "", (long long)d->shape[k]);
    at += (size_t)snprintf(text + at, sizeof text - at, "]");
  }
  snprintf(text + at, sizeof text - at, "%s", at ? "]" : "[]");
  return text_of(text);
}

/* name: copied for ranges. c: an op's call, or NULL. */
static void open_entry(cn_profile *p, const char *name, cn_device device, const cn_call *c, bool range)
{
  enum { MOST = sizeof p->open / sizeof *p->open };
  if (p->depth++ >= MOST) return;
  p->open[p->depth - 1] = SIZE_MAX;
  if (p->what & CN_PROFILE_NVTX) {
    cn_nvtx_push(NULL, name);
    return;
  }
  if (cni_grow((void **)&p->entries, &p->cap, p->n + 1, sizeof *p->entries)) return;
  size_t i = p->n++;
  entry *e = &p->entries[i];
  *e = (entry){.name = range ? text_of(name) : (char *)(uintptr_t)name, .depth = p->depth - 1, .range = range,
               .device = device};
  if (c && p->what & CN_PROFILE_SHAPES) e->shapes = shapes_of(c);
  p->open[p->depth - 1] = i;
  e->from = mark(p, device);
  p->entries[i].begin = cn_clock();
}

static void close_entry(cn_profile *p)
{
  enum { MOST = sizeof p->open / sizeof *p->open };
  if (--p->depth >= MOST) return;
  size_t i = p->open[p->depth];
  if (p->what & CN_PROFILE_NVTX) cn_nvtx_pop(NULL);
  if (i == SIZE_MAX) return;
  entry *e = &p->entries[i];
  e->end = cn_clock();
  if (e->from) e->to = mark(p, e->device);
}

static cn_profile *profile_now(void) { return cni_state()->profile; }

/* A failed call's error is kept, whatever events would say. */
int cni_profile_mode(cni_applying *a)
{
  cn_profile *p = profile_now();
  if (!p || cni_state()->capture) return cni_apply_next(a);
  cni_saved_error failed;
  bool view = a->c.nout > 0 && a->c.spec[0].view_of >= 0;
  open_entry(p, a->info->name, view ? CN_CPU : a->c.device, &a->c, false);
  int status = cni_apply_next(a);
  if (status) cni_error_take(&failed);
  close_entry(p);
  if (status) cni_error_restore(&failed);
  return status;
}

void cni_profile_graph_begin(cn_device device)
{
  if (profile_now()) open_entry(profile_now(), "graph", device, NULL, false);
}

void cni_profile_graph_end(void)
{
  if (profile_now()) close_entry(profile_now());
}

int cn_profile_range_begin(const char *name)
{
  if (profile_now()) open_entry(profile_now(), name, CN_CPU, NULL, true);
  return CN_OK;
}

void cn_profile_range_end(void)
{
  cn_profile *p = profile_now();
  if (p && p->depth) close_entry(p);
}

/* ---- life ---- */

cn_profile *cn_profile_begin(unsigned what)
{
  cn_state *st = cni_state();
  cni_init();
  if (cn_err()) return NULL;
  if (st->profile) return cni_fail(CN_ERR_VALUE, "profile: this thread has one already"), NULL;
  if (what & CN_PROFILE_NVTX && !cn_nvtx_available()) return cn_nvtx_mark(""), NULL;
  cn_profile *p = cni_alloc_zero(sizeof *p);
  if (!p) return NULL;
  p->what = what;
  p->on = true;
  st->profile = p;
  st->modes |= CNI_MODE_PROFILE;
  return p;
}

static int read_times(cn_profile *p)
{
  int status = CN_OK;
  for (int i = 0; i < p->nclocks && !status; i++)
    if (p->clocks[i].event) status = cn_device_sync(p->clocks[i].device);
  for (size_t i = 0; i < p->n && !status; i++) {
    entry *e = &p->entries[i];
    const clock_pair *c = e->to ? clock_of(p, e->device) : NULL;
    double begin = 0, end = 0;
    if (!c) continue;
    status = cn_event_elapsed(&begin, c->event, e->from);
    if (!status) status = cn_event_elapsed(&end, c->event, e->to);
    e->device_begin = c->time + begin * 1e-3;
    e->device_end = c->time + end * 1e-3;
  }
  return status;
}

static void stop(cn_profile *p)
{
  cn_state *st = cni_state();
  if (!p->on || st->profile != p) return;
  while (p->depth) close_entry(p); /* ranges that were left open */
  p->on = false;
  st->profile = NULL;
  st->modes &= ~(uint32_t)CNI_MODE_PROFILE;
}

int cn_profile_end(cn_profile *p)
{
  if (!p || cni_state()->profile != p) return cni_fail(CN_ERR_VALUE, "profile: it is not on in this thread");
  stop(p);
  return read_times(p);
}

void cn_profile_free(cn_profile *p)
{
  if (!p) return;
  stop(p);
  for (size_t i = 0; i < p->n; i++) {
    entry *e = &p->entries[i];
    if (e->from) cn_event_free(e->from);
    if (e->to) cn_event_free(e->to);
    if (e->shapes) cni_free(e->shapes, strlen(e->shapes) + 1);
    if (e->range && e->name) cni_free(e->name, strlen(e->name) + 1);
  }
  for (int i = 0; i < p->nclocks; i++)
    if (p->clocks[i].event) cn_event_free(p->clocks[i].event);
  if (p->entries) cni_free(p->entries, p->cap * sizeof *p->entries);
  cni_free(p, sizeof *p);
}

size_t cn_profile_count(const cn_profile *p) { return p->n; }

int cn_profile_at(cn_profile_entry *out, const cn_profile *p, size_t i)
{
  if (i >= p->n) return cni_fail(CN_ERR_INDEX, "profile: there is no entry %zu", i);
  const entry *e = &p->entries[i];
  *out = (cn_profile_entry){.size = sizeof *out, .name = e->name ? e->name : "", .shapes = e->shapes, .depth = e->depth,
                            .range = e->range, .begin = e->begin, .end = e->end, .device = e->device,
                            .timed = e->to != NULL, .device_begin = e->device_begin, .device_end = e->device_end};
  return CN_OK;
}
