/* memplan.c: places values in one block by their lifetimes: one after another, each at the lowest offset where nothing
 * that lives at the same time is. What kernels take while they run is placed like a value that lives at their node
 * alone. No plan needs less than what lives at the fullest moment; several orders are tried until one needs no more.
 *
 * Place in the flow: plan.c, when the order of nodes and with it all lifetimes are known; work.c again, when it is
 * known what kernels take; context.c allocates the block. Invariant: offsets are multiples of 64; what lives at the
 * same time does not overlap in memory. */
#include <string.h>

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

/* ---- orders in which spans are placed ---- */

static int lifetime(const span *s) { return s->last - s->first + 1; }

static bool is_larger(const span *a, const span *b) { return a->size > b->size; }
static bool is_heavier(const span *a, const span *b)
{
  return (double)a->size * lifetime(a) > (double)b->size * lifetime(b);
}
static bool is_longer(const span *a, const span *b)
{
  return lifetime(a) != lifetime(b) ? lifetime(a) > lifetime(b) : a->size > b->size;
}
static bool is_earlier(const span *a, const span *b)
{
  return a->first != b->first ? a->first < b->first : a->size > b->size;
}

/* The largest first is near the least mostly, and goes first; chains of values that shrink or grow want another. */
static bool (*const goes_before[])(const span *, const span *) = {is_larger, is_heavier, is_longer, is_earlier};
enum { ORDERS = sizeof goes_before / sizeof *goes_before };

static void sort(const span *spans, size_t n, size_t *order, bool (*before)(const span *, const span *))
{
  for (size_t s = 0; s < n; s++) {
    size_t i = s;
    for (; i > 0 && before(&spans[s], &spans[order[i - 1]]); i--) order[i] = order[i - 1];
    order[i] = s;
  }
}

/* The fullest moment: bytes that live at once. room: for a number per place and two more. */
static size_t least_needed(const span *spans, size_t n, size_t *room, size_t places)
{
  size_t now = 0, most = 0;
  memset(room, 0, (places + 2) * sizeof *room);
  for (size_t i = 0; i < n; i++) {
    room[spans[i].first] += spans[i].size;
    room[spans[i].last + 1] -= spans[i].size; /* below 0 and back: sums of unsigned numbers are right again */
  }
  for (size_t at = 0; at <= places; at++) {
    now += room[at];
    if (now > most) most = now;
  }
  return most;
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

/* The last moment at which one is needed. */
static size_t last_place(const cni_planned *values, size_t n, size_t places)
{
  size_t last = places;
  for (size_t v = 0; v < n; v++)
    if (values[v].size && (size_t)values[v].last > last) last = (size_t)values[v].last;
  return last;
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

/* Takes the layout that this order gives, if it is the best so far. */
static size_t try_order(cni_layout *l, span *spans, size_t n, const size_t *order, size_t *placed)
{
  size_t total = place(spans, n, order, placed);
  if (total < l->total) take_over(l, spans, n, placed, total);
  return total;
}

/* known: it is said what kernels want. Until then one order is enough. */
static void lay_out(cni_layout *l, span *spans, size_t n, size_t *order, size_t *placed, bool known)
{
  enum { TRIES = 12, MANY = 2000 }; /* of spans: each try would take its time */
  bool more = known && n < MANY;
  l->total = SIZE_MAX;
  for (int k = 0; !k || (more && k < ORDERS && l->total > l->least); k++) {
    sort(spans, n, order, goes_before[k]);
    size_t total = try_order(l, spans, n, order, placed);
    for (int i = 0; more && i < TRIES && l->total > l->least; i++) {
      promote(spans, n, order, total);
      total = try_order(l, spans, n, order, placed);
    }
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
  size_t most = n + places + 1, moments = last_place(values, n, places) + 2;
  span *spans = cni_alloc(most * sizeof *spans);
  size_t *order = cni_alloc((2 * most + moments) * sizeof *order);
  bool done = (l->offsets = cni_alloc_zero(n * sizeof *l->offsets)) && spans && order &&
              (l->gaps = cni_alloc_zero(places * sizeof *l->gaps));
  if (done) {
    size_t count = collect(spans, values, n, wants, places);
    l->least = least_needed(spans, count, order + 2 * most, moments - 2);
    lay_out(l, spans, count, order, order + most, wants || !places);
  }
  cni_free(spans, most * sizeof *spans);
  cni_free(order, (2 * most + moments) * sizeof *order);
  if (done) return l;
  cni_layout_release(l);
  return NULL;
}
