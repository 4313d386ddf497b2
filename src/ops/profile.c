/* profile.c: the profile mode: each op becomes an entry with its time on the host and on its device.
 *
 * Place in the flow: the first mode of apply, so that an entry spans everything that a call does; run.c opens entries
 * for a graph's run and its nodes, autograd/engine.c for steps of a backward pass, graph/scopes.c for modules. On a
 * device an entry is a pair of events in its stream, read when the profile ends. Invariants: a profile changes nothing
 * of what the program computes; only the first work on a device, and the end, wait for it. */
#include "profile.h"

#include <cairn/ext/system.h>
#include <cairn/recording.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "apply.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/os.h"
#include "cost.h"
#include "families.h"
#include "profile_track.h"
#include "program.h"

enum { SHAPES = 400, PATH = 512, MOST_ENTRIES = 1000000 };

static cni_track *track_now(void) { return cni_state()->profile; }
static bool asks(const cni_track *t, unsigned what) { return (t->profile->opts.what & what) != 0; }

/* ---- what an entry says ---- */

/* Work that is recorded has no time yet. */
static cn_event *mark(cni_track *t, cn_device device)
{
  bool timed = asks(t, CN_PROFILE_DEVICES) && device != CN_CPU && !cn_recording_now(device);
  if (!timed || !cni_track_clock(t, device)) return NULL;
  cn_event *event = cn_event_new(device, true);
  if (event && cn_event_record(event, NULL)) {
    cn_event_free(event);
    return NULL;
  }
  return event;
}

static size_t put_number(char *text, int64_t n)
{
  char digits[24];
  size_t k = 0, at = 0;
  uint64_t rest = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
  do digits[k++] = (char)('0' + rest % 10); while (rest /= 10);
  if (n < 0) text[at++] = '-';
  while (k) text[at++] = digits[--k];
  return at;
}

/* "[[2, 3], []]"; one that is too long ends early. Written by hand: formats take longer than the op. */
static const char *shapes_of(cni_track *t, const cn_call *c)
{
  char text[SHAPES];
  size_t at = 0;
  text[at++] = '[';
  for (int i = 0; i < c->nin && at < sizeof text - 60; i++) {
    const cn_desc *d = c->in[i] ? cn_desc_of(c->in[i]) : NULL;
    if (i) text[at++] = ',', text[at++] = ' ';
    text[at++] = '[';
    for (int k = 0; d && k < d->ndim && at < sizeof text - 60; k++) {
      if (k) text[at++] = ',', text[at++] = ' ';
      at += put_number(text + at, d->shape[k]);
    }
    text[at++] = ']';
  }
  text[at++] = ']';
  text[at] = 0;
  return cni_track_text(t, text);
}

/* A group of formulas by the names of its steps: "mul+add+relu". */
static const char *name_of_program(cni_track *t, const cn_call *c)
{
  char text[160];
  size_t at = 0;
  const cni_program *p = cni_program_of(c);
  for (int i = 0; p && i < p->nstep && at < sizeof text - CNI_NAME_MAX - 4; i++) {
    if (p->steps[i].prim == CNI_PW_convert) continue;
    const int prim = p->steps[i].prim;
    const char *name = prim < CNI_PRIM_COUNT ? cni_prims[prim].name : cni_row_names[prim - CNI_PW_row_first];
    size_t n = strlen(name);
    if (at) text[at++] = '+';
    memcpy(text + at, name, n);
    at += n;
  }
  if (p && at >= sizeof text - CNI_NAME_MAX - 4) memcpy(text + at, "+...", 4), at += 4;
  text[at] = 0;
  return at ? cni_track_text(t, text) : NULL;
}

static const char *name_of(cni_track *t, const cni_opinfo *info, const cn_call *c)
{
  const char *name = strcmp(info->name, "pointwise") ? NULL : name_of_program(t, c);
  return name ? name : info->name;
}

/* ---- opening and closing ---- */

/* The module that what begins now belongs to. */
static const char *module_now(const cni_track *t)
{
  return t->depth && t->depth <= CNI_PROFILE_DEPTH ? t->open[t->depth - 1].module : NULL;
}

/* name: stays. Where there is no room the place is taken without an entry. */
static cni_timing *open_entry(cni_track *t, const char *name, cn_profile_kind kind, cn_device device, const cn_call *c)
{
  const cn_profile_opts *o = &t->profile->opts;
  const char *module = module_now(t);
  if (t->depth++ >= CNI_PROFILE_DEPTH) return t->dropped++, NULL;
  cni_open *open = &t->open[t->depth - 1];
  *open = (cni_open){.module = module};
  if (o->what & CN_PROFILE_NVTX) {
    cn_nvtx_push(NULL, name);
    return NULL;
  }
  const char *where = o->where ? o->where(o->payload) : NULL;
  cni_timing *e = open->entry = cni_track_add(t);
  if (!e) return NULL;
  *e = (cni_timing){.name = name, .module = module, .depth = (int16_t)(t->depth - 1), .kind = (uint8_t)kind,
                   .device = device, .allocated = t->allocated, .freed = t->freed};
  if (where) e->where = cni_track_text(t, where);
  if (c && o->what & CN_PROFILE_SHAPES) e->shapes = shapes_of(t, c);
  e->from = mark(t, device);
  e->begin = cn_clock();
  return e;
}

/* t: NULL where the profile has ended inside of what it is an entry of. */
static void close_entry(cni_track *t)
{
  double end = cn_clock();
  if (!t || !t->depth || --t->depth >= CNI_PROFILE_DEPTH) return;
  if (asks(t, CN_PROFILE_NVTX)) cn_nvtx_pop(NULL);
  cni_timing *e = t->open[t->depth].entry;
  t->open[t->depth].entry = NULL;
  if (!e) return;
  e->end = end;
  e->allocated = t->allocated - e->allocated;
  e->freed = t->freed - e->freed;
  if (e->from) e->to = mark(t, e->device);
}

/* ---- ops ---- */

/* A failed call's error is kept, whatever events would say. */
int cni_profile_mode(cni_applying *a)
{
  cn_state *st = cni_state();
  cni_track *t = st->profile;
  if (!t || st->capture) return cni_apply_next(a);
  cni_saved_error failed;
  uint64_t before = st->node_seq;
  bool view = a->c.nout > 0 && a->c.spec[0].view_of >= 0;
  cni_timing *e = open_entry(t, name_of(t, a->info, &a->c), CN_ENTRY_OP, view ? CN_CPU : a->c.device, &a->c);
  size_t entries = t->n;
  int status = cni_apply_next(a);
  if (status) cni_error_take(&failed);
  if (st->profile != t) e = NULL; /* it has ended meanwhile */
  else close_entry(t);
  if (e && st->node_seq != before && !status) e->sequence = st->node_seq;
  if (e && e->sequence && e->module) cni_track_recorded(t, e->sequence, e->module);
  bool by_parts = e && t->n != entries && !e->detail; /* no kernel took it: its parts have their costs */
  if (e && !status && !by_parts && asks(t, CN_PROFILE_COSTS)) cni_cost(&e->cost, &a->c);
  if (status) cni_error_restore(&failed);
  return status;
}

void cni_profile_composite_begin(const cni_opinfo *info, const cn_call *c)
{
  open_entry(track_now(), info->name, CN_ENTRY_COMPOSITE, c->device, c);
}

void cni_profile_composite_end(void) { close_entry(track_now()); }

void cni_profile_kernel(const char *name)
{
  cni_track *t = track_now();
  cni_timing *e = t && t->depth && t->depth <= CNI_PROFILE_DEPTH ? t->open[t->depth - 1].entry : NULL;
  if (e && (e->kind == CN_ENTRY_OP || e->kind == CN_ENTRY_NODE)) e->detail = name;
}

void cni_profile_memory(cn_device device, int64_t bytes)
{
  cni_track *t = track_now();
  if (t && asks(t, CN_PROFILE_MEMORY)) cni_track_change(t, device, bytes);
}

/* ---- graphs ---- */

void cni_profile_graph_begin(cn_device device) { open_entry(track_now(), "graph", CN_ENTRY_GRAPH, device, NULL); }
void cni_profile_graph_end(void) { close_entry(track_now()); }

bool cni_profile_node_begin(const cni_opinfo *info, const cn_call *c, const char *module)
{
  cni_track *t = track_now();
  if (!asks(t, CN_PROFILE_NODES)) return false;
  const char *name = c ? name_of(t, info, c) : cni_track_text(t, info->name);
  cni_timing *e = open_entry(t, name ? name : "", CN_ENTRY_NODE, c ? c->device : CN_CPU, c);
  if (e && *module && asks(t, CN_PROFILE_MODULES)) e->module = cni_track_text(t, module);
  if (e) t->open[t->depth - 1].module = e->module;
  return true;
}

void cni_profile_node_end(const cn_call *c)
{
  cni_track *t = track_now();
  cni_timing *e = t && t->depth && t->depth <= CNI_PROFILE_DEPTH ? t->open[t->depth - 1].entry : NULL;
  close_entry(t);
  if (e && c && asks(t, CN_PROFILE_COSTS)) cni_cost(&e->cost, c);
}

/* ---- backward passes, modules, ranges ---- */

void cni_profile_backward_begin(const char *name, uint64_t sequence)
{
  cni_track *t = track_now();
  const char *kept = cni_track_text(t, name), *module = cni_track_recorder(t, sequence);
  cni_timing *e = open_entry(t, kept ? kept : "", CN_ENTRY_BACKWARD, CN_CPU, NULL);
  if (!e) return;
  e->sequence = sequence;
  if (module) e->module = t->open[t->depth - 1].module = module;
}

void cni_profile_backward_end(void) { close_entry(track_now()); }

/* "ResNet" where it stands in no other, "ResNet.layer1.0" where it does. */
int cni_profile_scope_begin(const char *name, const char *kind, const void *owner)
{
  cni_track *t = track_now();
  char path[PATH];
  const char *around = module_now(t), *last = name && *name ? name : kind ? kind : "";
  if (!asks(t, CN_PROFILE_MODULES)) return -1;
  snprintf(path, sizeof path, "%s%s%s", around ? around : "", around ? "." : "", last);
  const char *module = cni_track_text(t, path), *cls = cni_track_text(t, kind ? kind : "");
  cni_timing *e = open_entry(t, module ? module : "", CN_ENTRY_MODULE, CN_CPU, NULL);
  if (t->depth <= CNI_PROFILE_DEPTH) {
    t->open[t->depth - 1].module = module;
    t->open[t->depth - 1].owner = owner;
  }
  if (e) e->module = module, e->detail = cls;
  return CNI_PROFILE_SCOPE + t->depth - 1;
}

void cni_profile_scope_end(int scope)
{
  cni_track *t = track_now();
  while (t && t->depth > scope - CNI_PROFILE_SCOPE) close_entry(t);
}

const void *cni_profile_scope_owner(void)
{
  const cni_track *t = track_now();
  for (int i = t->depth < CNI_PROFILE_DEPTH ? t->depth : CNI_PROFILE_DEPTH; i-- > 0;)
    if (t->open[i].owner) return t->open[i].owner;
  return NULL;
}

int cn_profile_range_begin(const char *name)
{
  cni_track *t = track_now();
  const char *kept = t ? asks(t, CN_PROFILE_NVTX) ? name : cni_track_text(t, name) : NULL;
  if (t) open_entry(t, kept ? kept : "", CN_ENTRY_RANGE, CN_CPU, NULL);
  return CN_OK;
}

void cn_profile_range_end(void)
{
  close_entry(track_now());
}

/* ---- life ---- */

static _Atomic int profiles; /* tracks that are on: then kernels and tensors report */

static void watch(bool on)
{
  int before = atomic_fetch_add(&profiles, on ? 1 : -1);
  cni_verbose(CNI_TOPIC_WARNINGS); /* the environment is read first */
  if (on && !before) atomic_fetch_or(&cni_topics, CNI_TOPIC_PROFILE);
  if (!on && before == 1) atomic_fetch_and(&cni_topics, ~CNI_TOPIC_PROFILE);
  atomic_store(&cni_tensors_watched, atomic_load(&profiles) > 0);
}

/* This thread takes part from now on. */
static int enter(cn_profile *p)
{
  cn_state *st = cni_state();
  if (st->profile) return cni_fail(CN_ERR_VALUE, "profile: this thread has one already");
  cni_track *t = cni_alloc_zero(sizeof *t);
  if (!t) return CN_ERR_MEMORY;
  t->profile = p;
  t->thread = cni_os_thread();
  t->on = true;
  pthread_mutex_lock(&p->lock);
  cni_track **last = &p->tracks;
  while (*last) last = &(*last)->next;
  *last = t;
  pthread_mutex_unlock(&p->lock);
  st->profile = t;
  st->modes |= CNI_MODE_PROFILE;
  watch(true);
  return CN_OK;
}

static void leave(cni_track *t)
{
  cn_state *st = cni_state();
  while (t->depth) close_entry(t); /* ranges that were left open */
  st->profile = NULL;
  st->modes &= ~(uint32_t)CNI_MODE_PROFILE;
  watch(false);
}

/* Its thread is done with it: others may read it, and free it. */
static void hand_over(cni_track *t)
{
  pthread_mutex_lock(&t->profile->lock);
  t->on = false;
  pthread_mutex_unlock(&t->profile->lock);
}

cn_profile *cn_profile_begin_with(const cn_profile_opts *opts)
{
  cni_init();
  if (cn_err()) return NULL;
  if (opts->what & CN_PROFILE_NVTX && !cn_nvtx_available()) return cn_nvtx_mark(""), NULL;
  cn_profile *p = cni_alloc_zero(sizeof *p);
  if (!p) return NULL;
  memcpy(&p->opts, opts, opts->size < sizeof *opts ? opts->size : sizeof *opts);
  if (!p->opts.most) p->opts.most = MOST_ENTRIES;
  pthread_mutex_init(&p->lock, NULL);
  if (!enter(p)) return p;
  cn_profile_free(p);
  return NULL;
}

cn_profile *cn_profile_begin(unsigned what)
{
  cn_profile_opts opts = {.size = sizeof opts, .what = what};
  return cn_profile_begin_with(&opts);
}

int cn_profile_join(cn_profile *p)
{
  if (cn_err()) return cn_err();
  if (!p || p->ended) return cni_fail(CN_ERR_VALUE, "profile: it has ended");
  return enter(p);
}

int cn_profile_leave(cn_profile *p)
{
  cni_track *t = track_now();
  if (!t || t->profile != p || t == p->tracks)
    return cni_fail(CN_ERR_VALUE, "profile: this thread has not joined it");
  leave(t);
  int status = cni_track_times(t);
  hand_over(t);
  return status;
}

int cn_profile_end(cn_profile *p)
{
  if (!p || !p->tracks || track_now() != p->tracks)
    return cni_fail(CN_ERR_VALUE, "profile: it is not on in this thread");
  pthread_mutex_lock(&p->lock);
  for (const cni_track *t = p->tracks->next; t && !p->ended; t = t->next) p->ended = t->on;
  bool others = p->ended;
  p->ended = !others;
  pthread_mutex_unlock(&p->lock);
  if (others) return cni_fail(CN_ERR_VALUE, "profile: another thread still takes part: it has to leave first");
  leave(p->tracks);
  hand_over(p->tracks);
  return cni_track_times(p->tracks);
}

void cn_profile_free(cn_profile *p)
{
  if (!p) return;
  if (p->tracks && p->tracks == track_now()) {
    leave(p->tracks);
    hand_over(p->tracks);
  }
  bool on = false;
  pthread_mutex_lock(&p->lock);
  for (const cni_track *t = p->tracks; t; t = t->next) on |= t->on;
  pthread_mutex_unlock(&p->lock);
  if (on) return;
  for (cni_track *t = p->tracks, *next; t; t = next) {
    next = t->next;
    cni_track_free(t);
  }
  pthread_mutex_destroy(&p->lock);
  cni_free(p, sizeof *p);
}

bool cn_profile_on(unsigned what)
{
  const cni_track *t = track_now();
  return t && (!what || asks(t, what));
}

/* ---- reading ---- */

size_t cn_profile_count(const cn_profile *p)
{
  size_t n = 0;
  for (const cni_track *t = p->tracks; t; t = p->ended ? t->next : NULL) n += t->n;
  return n;
}

size_t cn_profile_dropped(const cn_profile *p)
{
  size_t n = 0;
  for (const cni_track *t = p->tracks; t; t = p->ended ? t->next : NULL) n += t->dropped;
  return n;
}

int cn_profile_at(cn_profile_entry *out, const cn_profile *p, size_t i)
{
  const cni_track *t = p->tracks;
  size_t wanted = i;
  for (; t && i >= t->n; t = p->ended ? t->next : NULL) i -= t->n;
  if (!t) return cni_fail(CN_ERR_INDEX, "profile: there is no entry %zu", wanted);
  const cni_timing *e = cni_timing_at(t, i);
  const cn_profile_entry full = {
    .size = out->size, .name = e->name, .shapes = e->shapes, .depth = e->depth, .range = e->kind == CN_ENTRY_RANGE,
    .begin = e->begin, .end = e->end > 0 ? e->end : cn_clock(), .device = e->device, .timed = e->timed,
    .device_begin = e->device_begin, .device_end = e->device_end, .kind = e->kind, .module = e->module ? e->module : "",
    .detail = e->detail ? e->detail : "", .where = e->where, .thread = t->thread, .sequence = e->sequence,
    .flops = e->cost.flops, .products = e->cost.products, .read = e->cost.read, .written = e->cost.written,
    .allocated = e->end > 0 ? e->allocated : 0, .freed = e->end > 0 ? e->freed : 0};
  memcpy(out, &full, out->size < sizeof full ? out->size : sizeof full);
  return CN_OK;
}

size_t cn_profile_memory_count(const cn_profile *p)
{
  size_t n = 0;
  for (const cni_track *t = p->tracks; t; t = p->ended ? t->next : NULL) n += t->nchanges;
  return n;
}

int cn_profile_memory_at(cn_profile_memory *out, const cn_profile *p, size_t i)
{
  const cni_track *t = p->tracks;
  size_t wanted = i;
  for (; t && i >= t->nchanges; t = p->ended ? t->next : NULL) i -= t->nchanges;
  if (!t) return cni_fail(CN_ERR_INDEX, "profile: there is no change %zu of memory", wanted);
  const cni_change *c = &t->changes[i];
  const cn_profile_memory full = {.size = out->size, .time = c->time, .device = c->device, .bytes = c->bytes,
                                  .total = c->total, .thread = t->thread};
  memcpy(out, &full, out->size < sizeof full ? out->size : sizeof full);
  return CN_OK;
}
