/* memplan.c: places values in one block by their lifetimes: largest first, each at the lowest offset where nothing
 * that lives at the same time is. What kernels take while they run is placed like a value that lives at their node
 * alone.
 *
 * Place in the flow: plan.c, when the order of nodes and with it all lifetimes are known; work.c again, when it is
 * known what kernels take; context.c allocates the block. Invariant: offsets are multiples of 64; what lives at the
 * same time does not overlap in memory. */
#include "base/alloc.h"
#include "graph/plan.h"

enum { ALIGN = 64 };

/* What is to be placed. */
typedef struct span {
  size_t size, offset; /* size: rounded */
  int first, last;     /* places in the order between which it is needed */
  int value;           /* -1: for the kernel at `first` */
} span;

static size_t rounded(size_t n) { return (n + ALIGN - 1) / ALIGN * ALIGN; }

static bool meet(const span *a, const span *b) { return a->first <= b->last && b->first <= a->last; }

/* Placed spans sorted by offset: finds the first gap that holds s among those that live with it. */
static size_t lowest_gap(const span *spans, const size_t *placed, size_t n, const span *s)
{
  size_t at = 0;
  for (size_t i = 0; i < n; i++) {
    const span *p = &spans[placed[i]];
    if (!meet(p, s)) continue;
    if (p->offset >= at + s->size) break;
    size_t end = p->offset + p->size;
    if (end > at) at = end;
  }
  return at;
}

static void insert_sorted(const span *spans, size_t *placed, size_t n, size_t s)
{
  size_t i = n;
  for (; i > 0 && spans[placed[i - 1]].offset > spans[s].offset; i--) placed[i] = placed[i - 1];
  placed[i] = s;
}

/* Largest first. */
static void by_size(const span *spans, size_t n, size_t *order)
{
  for (size_t s = 0; s < n; s++) {
    size_t i = s;
    for (; i > 0 && spans[order[i - 1]].size < spans[s].size; i--) order[i] = order[i - 1];
    order[i] = s;
  }
}

static size_t collect(span *spans, const cni_planned *values, size_t n, const size_t *wants, size_t places)
{
  size_t m = 0;
  for (size_t v = 0; v < n; v++)
    if (values[v].size) spans[m++] = (span){rounded(values[v].size), 0, values[v].first, values[v].last, (int)v};
  for (size_t at = 0; wants && at < places; at++)
    if (wants[at]) spans[m++] = (span){rounded(wants[at]), 0, (int)at, (int)at, -1};
  return m;
}

/* Between values alone: what kernels were given is theirs, and so is what lies free around it. placed: sorted by
 * offset. */
static cni_gap largest_gap(const span *spans, const size_t *placed, size_t n, size_t total, int at)
{
  cni_gap best = {0, 0};
  size_t end = 0;
  for (size_t i = 0; i <= n; i++) {
    const span *p = i < n ? &spans[placed[i]] : NULL;
    if (p && (p->value < 0 || p->first > at || p->last < at)) continue;
    size_t next = p ? p->offset : total;
    if (next > end && next - end > best.size) best = (cni_gap){end, next - end};
    if (p && next + p->size > end) end = next + p->size;
  }
  return best;
}

/* Places all in this order, and returns the bytes that they need. placed: by offset, when it is done. */
static size_t place(span *spans, size_t n, const size_t *order, size_t *placed)
{
  size_t total = 0;
  for (size_t i = 0; i < n; i++) {
    span *s = &spans[order[i]];
    s->offset = lowest_gap(spans, placed, i, s);
    insert_sorted(spans, placed, i, order[i]);
    if (s->offset + s->size > total) total = s->offset + s->size;
  }
  return total;
}

static void take_over(cni_layout *l, const span *spans, size_t n, const size_t *placed, size_t total)
{
  l->total = total;
  for (size_t i = 0; i < n; i++)
    if (spans[i].value >= 0) l->offsets[spans[i].value] = spans[i].offset;
  for (size_t at = 0; at < l->places; at++) l->gaps[at] = largest_gap(spans, placed, n, total, (int)at);
}

/* Of those that reach the top of the block, the largest comes first from now on. */
static void promote(const span *spans, size_t n, size_t *order, size_t total)
{
  size_t best = 0;
  for (size_t i = n; i-- > 0;) {
    const span *s = &spans[order[i]];
    if (s->offset + s->size > total - total / 16 && (!best || s->size >= spans[order[best]].size)) best = i;
  }
  size_t first = order[best];
  for (; best > 0; best--) order[best] = order[best - 1];
  order[0] = first;
}

/* Largest first is near the least that there can be; once it is known what kernels want, a few other orders are tried,
 * too. */
static void lay_out(cni_layout *l, span *spans, size_t n, size_t *order, size_t *placed, bool known)
{
  enum { TRIES = 12, MANY = 2000 }; /* of spans: each try would take its time */
  by_size(spans, n, order);
  size_t total = place(spans, n, order, placed);
  take_over(l, spans, n, placed, total);
  for (int i = 0; known && n && n < MANY && i < TRIES; i++) {
    promote(spans, n, order, total);
    total = place(spans, n, order, placed);
    if (total < l->total) take_over(l, spans, n, placed, total);
  }
}

void cni_layout_release(cni_layout *l)
{
  if (!l || !cni_refs_end(&l->refs)) return;
  cni_free(l->offsets, l->nvalues * sizeof *l->offsets);
  cni_free(l->gaps, l->places * sizeof *l->gaps);
  cni_free(l, sizeof *l);
}

cni_layout *cni_memplan(const cni_planned *values, size_t n, const size_t *wants, size_t places)
{
  cni_layout *l = cni_alloc_zero(sizeof *l);
  if (!l) return NULL;
  atomic_init(&l->refs, 1);
  atomic_init(&l->settled, wants || !places);
  l->nvalues = n;
  l->places = places;
  size_t most = n + places + 1;
  span *spans = cni_alloc(most * sizeof *spans);
  size_t *order = cni_alloc(2 * most * sizeof *order);
  bool done = (l->offsets = cni_alloc_zero(n * sizeof *l->offsets)) && spans && order &&
              (l->gaps = cni_alloc_zero(places * sizeof *l->gaps));
  if (done)
    lay_out(l, spans, collect(spans, values, n, wants, places), order, order + most, wants);
  cni_free(spans, most * sizeof *spans);
  cni_free(order, 2 * most * sizeof *order);
  if (done) return l;
  cni_layout_release(l);
  return NULL;
}
