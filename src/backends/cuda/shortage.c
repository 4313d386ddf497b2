/* shortage.c: what is said when a device has no memory left: what was wanted, what there is, and who holds it.
 *
 * Place in the flow: whoever gets no memory (memory.c, kernels' scratch memory) comes here last. Invariant: nothing is
 * allocated, and nothing changes but the count of failures. */
#include <stdio.h>
#include <string.h>

#include "memory.h"

enum { OPS = 64, SHOWN = 5, TEXT = 800 };

/* What the results of one op hold. */
typedef struct holder {
  const char *op; /* NULL: made outside of ops */
  size_t bytes, largest;
  unsigned blocks;
} holder;

typedef struct report {
  cn_device_memory_stats memory;
  size_t largest_free, device_free, device_total;
  holder holders[OPS]; /* the last one has those for which there was no place */
  int n;
} report;

static bool same(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

static void add(report *r, const cni_cuda_piece *p)
{
  int i = 0;
  while (i < r->n && !same(r->holders[i].op, p->op)) i++;
  if (i == OPS) r->holders[i = OPS - 1].op = "other ops";
  holder *h = &r->holders[i];
  if (i == r->n) *h = (holder){.op = p->op}, r->n++;
  h->bytes += p->size;
  h->blocks++;
  if (p->size > h->largest) h->largest = p->size;
}

static void look(report *r, cni_cuda_device *d, const char *who, size_t size)
{
  memset(r, 0, sizeof *r);
  cni_cuda_driver()->cuCtxSetCurrent(d->context);
  cni_cuda_driver()->cuMemGetInfo(&r->device_free, &r->device_total);
  pthread_mutex_lock(&d->lock);
  d->memory.failures++;
  cni_cuda_happened(d, CN_MEMORY_OUT, r->device_free, size, NULL, who);
  r->memory = d->memory;
  cni_cuda_pieces_gaps(d, &r->memory, &r->largest_free);
  for (size_t i = 0; d->pieces.slots && i < (size_t)1 << d->pieces.bits; i++)
    if (d->pieces.slots[i] && d->pieces.slots[i]->state == CNI_CUDA_USED) add(r, d->pieces.slots[i]);
  pthread_mutex_unlock(&d->lock);
}

static const char *in_words(char *text, size_t size, uint64_t bytes)
{
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double n = (double)bytes;
  size_t unit = 0;
  while (n >= 1024 && unit < sizeof units / sizeof *units - 1) n /= 1024, unit++;
  snprintf(text, size, unit ? "%.2f %s" : "%.0f %s", n, units[unit]);
  return text;
}

/* "; 3.00 GiB by linear (2 blocks, the largest 2.00 GiB)", the largest first. */
static void list_holders(char *text, size_t size, report *r)
{
  size_t at = 0;
  text[0] = 0;
  for (int shown = 0; shown < SHOWN && at < size; shown++) {
    holder *most = NULL;
    char bytes[32], largest[32];
    for (int i = 0; i < r->n; i++)
      if (r->holders[i].bytes && (!most || r->holders[i].bytes > most->bytes)) most = &r->holders[i];
    if (!most) return;
    at += (size_t)snprintf(text + at, size - at, "%s%s by %s (%u block%s, the largest %s)",
                           shown ? "; " : ". Largest holders: ", in_words(bytes, sizeof bytes, most->bytes),
                           most->op ? most->op : "what was made outside of ops", most->blocks,
                           most->blocks == 1 ? "" : "s", in_words(largest, sizeof largest, most->largest));
    most->bytes = 0;
  }
}

int cni_cuda_short(cni_cuda_device *d, const char *who, size_t size)
{
  report r;
  char holders[TEXT], limit[64] = "", most[32];
  char wanted[32], total[32], left[32], took[32], used[32], kept[32], piece[32];
  look(&r, d, who, size);
  const cn_device_memory_stats *m = &r.memory;
  uint64_t reserved = m->reserved[CN_MEMORY_ALL].now, in_use = m->used[CN_MEMORY_ALL].now;
  if (m->limit) snprintf(limit, sizeof limit, " of at most %s", in_words(most, sizeof most, m->limit));
  list_holders(holders, sizeof holders, &r);
  return cni_cuda_host->fail(
      CN_ERR_MEMORY,
      "%s%sout of memory on cuda:%d: %s wanted; the device has %s, %s of them free; cairn took %s%s: %s in use, %s "
      "kept for reuse (the largest piece has %s)%s",
      who ? who : "", who ? ": " : "", d->index, in_words(wanted, sizeof wanted, size),
      in_words(total, sizeof total, r.device_total), in_words(left, sizeof left, r.device_free),
      in_words(took, sizeof took, reserved), limit, in_words(used, sizeof used, in_use),
      in_words(kept, sizeof kept, reserved - in_use), in_words(piece, sizeof piece, r.largest_free), holders);
}
