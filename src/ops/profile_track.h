/* profile_track.h: what a profile keeps of one thread: its entries, their texts, what its tensors took.
 *
 * Place in the flow: profile.c opens and closes entries here, profile_read.c reads them. Invariant: only the thread
 * itself writes its track, and nothing here leaves an error behind: what there is no memory for is left out. */
#ifndef CNI_OPS_PROFILE_TRACK_H
#define CNI_OPS_PROFILE_TRACK_H

#include <cairn/device.h>
#include <cairn/ext/op.h>
#include <cairn/profile.h>
#include <pthread.h>

enum { CNI_PROFILE_CHUNK = 512, CNI_PROFILE_DEPTH = 256, CNI_PROFILE_DEVICES = 8 };

typedef struct cni_timing {
  const char *name, *shapes, *module, *detail, *where; /* of the op table, or of the track's texts */
  double begin, end, device_begin, device_end;
  cn_cost cost;
  int64_t allocated, freed;
  uint64_t sequence;
  cn_event *from, *to; /* owned; NULL: no time on a device */
  cn_device device;
  int16_t depth;
  uint8_t kind; /* a cn_profile_kind */
  bool timed;
} cni_timing;

/* An entry that has not ended. */
typedef struct cni_open {
  cni_timing *entry;   /* NULL: it was not kept */
  const char *module; /* that ops inside belong to */
  const void *owner;  /* the module itself, where this is its call */
} cni_open;

/* An event whose time on the host is known. */
typedef struct cni_clock_pair {
  cn_device device;
  cn_event *event;
  double time;
} cni_clock_pair;

/* Which module recorded a step of autograd. */
typedef struct cni_recorded_by {
  uint64_t sequence; /* 0: free */
  const char *module;
} cni_recorded_by;

typedef struct cni_change {
  double time;
  int64_t bytes, total;
  cn_device device;
} cni_change;

typedef struct cni_track {
  struct cn_profile *profile;
  struct cni_track *next;
  uint64_t thread;
  bool on;
  cni_timing **chunks;
  size_t n, nchunks, chunks_cap, dropped;
  cni_open open[CNI_PROFILE_DEPTH]; /* deeper ones are not kept */
  int depth;
  char **texts; /* open addressing */
  size_t ntexts, texts_cap;
  cni_recorded_by *by; /* likewise */
  size_t nby, by_cap;
  cni_change *changes;
  size_t nchanges, changes_cap;
  int64_t allocated, freed;
  int64_t held[CNI_PROFILE_DEVICES]; /* per device of clocks and changes, as devices has them */
  cn_device devices[CNI_PROFILE_DEVICES];
  int ndevices;
  cni_clock_pair clocks[CNI_PROFILE_DEVICES];
  int nclocks;
} cni_track;

struct cn_profile {
  cn_profile_opts opts;
  cni_track *tracks; /* the first is the one of the thread that began */
  pthread_mutex_t lock; /* of the list */
  bool ended;
};

static inline cni_timing *cni_timing_at(const cni_track *t, size_t i)
{
  return &t->chunks[i / CNI_PROFILE_CHUNK][i % CNI_PROFILE_CHUNK];
}

cni_timing *cni_track_add(cni_track *t); /* zeroed; NULL: there is no room */
/* The same text, once for all entries; NULL without memory. */
const char *cni_track_text(cni_track *t, const char *text);
void cni_track_recorded(cni_track *t, uint64_t sequence, const char *module);
const char *cni_track_recorder(const cni_track *t, uint64_t sequence); /* NULL: nobody */
void cni_track_change(cni_track *t, cn_device device, int64_t bytes);
cni_clock_pair *cni_track_clock(cni_track *t, cn_device device); /* NULL: it has none */
int cni_track_times(cni_track *t); /* waits for devices, and reads entries' times */
void cni_track_free(cni_track *t);

#endif
