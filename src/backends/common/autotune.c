/* autotune.c: see autotune.h. Verdicts lie in one file of the cache folder for each processor, a line each: the key of
 * the call, and the implementation's name. */
#include "autotune.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cairn/device.h>
#include <cairn/ext/hash.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/os.h"
#include "base/os_cache.h"
#include "base/state.h"

enum { RIVALS = 8, NAME = 24, LINE = 17 + NAME, MOST = 1 << 16, ROUNDS = 3 };
static const double too_short = 20e-6, budget = 0.1, hopeless = 2; /* seconds; of them in all; times the best */
static const char head[] = "cairn autotune 1\n";

typedef struct verdict {
  uint64_t key;
  char name[NAME];
} verdict;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  verdict *all;
  int n, room;
  bool read; /* the file was */
} table;

bool cni_autotune_on(void)
{
  static _Atomic int known; /* 1: no, 2: yes */
  int now = atomic_load_explicit(&known, memory_order_relaxed);
  if (!now) {
    const char *text = cni_os_env("CAIRN_AUTOTUNE");
    now = text && *text && strcmp(text, "0") ? 2 : 1;
    atomic_store_explicit(&known, now, memory_order_relaxed);
  }
  return now == 2;
}

/* ---- the table; all of it under the lock ---- */

static verdict *find(uint64_t key)
{
  for (int i = 0; i < table.n; i++)
    if (table.all[i].key == key) return &table.all[i];
  return NULL;
}

static void free_table(void)
{
  if (table.all) cni_free(table.all, (size_t)table.room * sizeof *table.all);
}

/* What is there already stays: verdicts do not change while a process runs. */
static bool add(uint64_t key, const char *name, size_t length)
{
  if (find(key) || length == 0 || length >= NAME || table.n == MOST) return false;
  if (table.n == table.room) {
    int room = table.room ? 2 * table.room : 64;
    verdict *grown = cni_alloc((size_t)room * sizeof *grown);
    if (!grown) return false; /* it is measured again some day */
    if (table.n) memcpy(grown, table.all, (size_t)table.n * sizeof *grown);
    free_table();
    table.all = grown;
    table.room = room;
  }
  verdict *v = &table.all[table.n++];
  *v = (verdict){.key = key};
  memcpy(v->name, name, length);
  return true;
}

/* The file of this processor and this version. */
static void file_name(char *name, size_t size)
{
  cn_device_info info;
  uint64_t h = cn_hash(CN_VERSION_STRING, sizeof CN_VERSION_STRING);
  if (cn_device_info_get(&info, CN_CPU)) memset(&info, 0, sizeof info);
  h = cn_hash_more(h, info.name, strlen(info.name));
  h = cn_hash_more(h, info.arch, strlen(info.arch));
  snprintf(name, size, "autotune-%016llx.txt", (unsigned long long)h);
}

/* Lines that are none are passed over. */
static void read_file(void)
{
  char name[64];
  size_t size;
  file_name(name, sizeof name);
  char *text = cni_os_cache_load(name, &size);
  if (!text) return;
  size_t at = sizeof head - 1;
  bool ours = size >= at && !memcmp(text, head, at);
  while (ours && at < size) {
    const char *end = memchr(text + at, '\n', size - at);
    size_t length = end ? (size_t)(end - text) - at : size - at;
    char line[LINE + 1] = {0}, *rest;
    if (length > 17 && length <= LINE) {
      memcpy(line, text + at, length);
      uint64_t key = strtoull(line, &rest, 16);
      if (rest == line + 16 && *rest == ' ') add(key, line + 17, length - 17);
    }
    at += length + 1;
  }
  cni_free(text, size);
}

/* With what other processes have written meanwhile. */
static void write_file(void)
{
  char name[64];
  file_name(name, sizeof name);
  read_file();
  size_t room = sizeof head + (size_t)table.n * (LINE + 2), at = sizeof head - 1;
  char *text = cni_alloc(room);
  if (!text) return;
  memcpy(text, head, at);
  for (const verdict *v = table.all; v < table.all + table.n; v++)
    at += (size_t)snprintf(text + at, room - at, "%016llx %s\n", (unsigned long long)v->key, v->name);
  cni_os_cache_store(name, text, at);
  cni_free(text, room);
}

static bool known_winner(uint64_t key, char winner[NAME])
{
  pthread_mutex_lock(&lock);
  if (!table.read) read_file();
  table.read = true;
  const verdict *v = find(key);
  if (v) memcpy(winner, v->name, NAME);
  pthread_mutex_unlock(&lock);
  return v != NULL;
}

/* The winner, unless another thread has had its contest before: then that one's, so that all do the same. */
static void keep_winner(uint64_t key, char winner[NAME])
{
  pthread_mutex_lock(&lock);
  const verdict *before = find(key);
  if (before) memcpy(winner, before->name, NAME);
  else if (add(key, winner, strlen(winner))) write_file();
  pthread_mutex_unlock(&lock);
}

void cni_autotune_exit(void)
{
  free_table();
  memset(&table, 0, sizeof table);
}

/* ---- the contest ---- */

typedef struct rival {
  cni_choice choice;
  double best; /* seconds; negative: out */
} rival;

/* A result that lies over an input is another input at the next run. */
static bool repeatable(const cn_call *c)
{
  for (int i = 0; i < c->nout; i++)
    for (int j = 0; c->out[i] && j < c->nin; j++)
      if (c->in[j] && cn_desc_of(c->out[i])->data == cn_desc_of(c->in[j])->data) return false;
  return true;
}

/* Those that can run the call, in the list's order. */
static int enter(rival *rivals, const cn_call *c, const cni_kernel_list *list)
{
  int n = 0;
  for (int i = 0; i < list->n && n < RIVALS; i++) {
    const cn_kernel *k = &list->items[i];
    rival *r = &rivals[n];
    if (!(k->flags & CN_KERNEL_NEAR)) continue;
    *r = (rival){.choice = {.kernel = k, .next = i + 1}};
    r->choice.plan.size = sizeof r->choice.plan;
    r->choice.plan.contest = true;
    if (!k->can || k->can(c, &r->choice.plan) == CN_OK) n++;
  }
  return n;
}

/* One run, without what is kept of weights: it is not worth making for those that lose. */
static void run_once(rival *r, cn_call *c)
{
  cn_call copy = *c;
  copy.keep = NULL;
  double begin = cni_os_now();
  int status = cni_dispatch_chosen(&copy, &r->choice);
  double took = cni_os_now() - begin;
  if (status) r->best = -1;
  else if (r->best == 0 || took < r->best) r->best = took;
  if (status && status != CN_REFUSED) cn_err_clear(); /* whoever is taken at last meets it again, and says so */
}

static const rival *fastest(const rival *rivals, int n)
{
  const rival *best = NULL;
  for (int i = 0; i < n; i++)
    if (rivals[i].best > 0 && (!best || rivals[i].best < best->best)) best = &rivals[i];
  return best;
}

/* In turns, so that what disturbs the machine disturbs all; the first runs load libraries and do not count. NULL: too
 * little work to tell. */
static const rival *contest(rival *rivals, int n, cn_call *c)
{
  for (int i = 0; i < n; i++) {
    run_once(&rivals[i], c);
    if (rivals[i].best > 0) rivals[i].best = 0;
  }
  double begin = cni_os_now();
  for (int i = 0; i < n; i++)
    if (rivals[i].best == 0) run_once(&rivals[i], c);
  const rival *best = fastest(rivals, n);
  if (!best || best->best < too_short) return NULL;
  for (int round = 0; round < ROUNDS && cni_os_now() - begin < budget; round++) {
    for (int i = 0; i < n; i++)
      if (rivals[i].best > 0 && rivals[i].best < hopeless * best->best) run_once(&rivals[i], c);
    best = fastest(rivals, n);
    if (!best) break;
  }
  return best;
}

static void tell(const cni_opinfo *info, const rival *rivals, int n)
{
  for (int i = 0; i < n && cni_verbose(CNI_TOPIC_DISPATCH); i++)
    cni_log(CN_LOG_DEBUG, CNI_TOPIC_DISPATCH, "%s: timed %s: %.1f us", info->name, rivals[i].choice.kernel->name,
            rivals[i].best * 1e6);
}

bool cni_autotune(cni_choice *choice, cn_call *c, const cni_opinfo *info, const cni_kernel_list *list, uint64_t key)
{
  rival rivals[RIVALS];
  char winner[NAME];
  if (c->device != CN_CPU || cn_deterministic_mode() != CN_DETERMINISTIC_OFF || !repeatable(c)) return false;
  if (!choice->kernel || !(choice->kernel->flags & CN_KERNEL_NEAR)) return false;
  int n = enter(rivals, c, list);
  if (n < 2) return false;
  key = cn_hash_more(key, info->name, strlen(info->name));
  for (int i = 0; i < n; i++) /* one that comes later has not been timed */
    key = cn_hash_more(key, rivals[i].choice.kernel->name, strlen(rivals[i].choice.kernel->name));
  if (!known_winner(key, winner)) {
    const rival *best = contest(rivals, n, c);
    if (!best) return false;
    tell(info, rivals, n);
    *choice = best->choice;
    snprintf(winner, sizeof winner, "%s", best->choice.kernel->name);
    keep_winner(key, winner);
  }
  for (int i = 0; i < n; i++)
    if (!strcmp(rivals[i].choice.kernel->name, winner)) *choice = rivals[i].choice;
  return true;
}
