/* memplan.c: places values in one block by their lifetimes: largest first, each at the lowest offset where nothing
 * that lives at the same time is.
 *
 * Place in the flow: plan.c, when the order of nodes and with it all lifetimes are known; context.c allocates the
 * block. Invariant: offsets are multiples of 64; values with overlapping lifetimes do not overlap in memory. */
#include "base/alloc.h"
#include "graph/plan.h"

enum { ALIGN = 64 };

static size_t rounded(size_t n) { return (n + ALIGN - 1) / ALIGN * ALIGN; }

static bool meet(const cni_planned *a, const cni_planned *b) { return a->first <= b->last && b->first <= a->last; }

/* Placed values sorted by offset: finds the first gap that holds `size` among those that live with v. */
static size_t lowest_gap(const cni_planned *values, const size_t *placed, size_t n, const cni_planned *v)
{
  size_t at = 0, size = rounded(v->size);
  for (size_t i = 0; i < n; i++) {
    const cni_planned *p = &values[placed[i]];
    if (!meet(p, v)) continue;
    if (p->offset >= at + size) break;
    size_t end = p->offset + rounded(p->size);
    if (end > at) at = end;
  }
  return at;
}

static void insert_sorted(const cni_planned *values, size_t *placed, size_t n, size_t v)
{
  size_t i = n;
  for (; i > 0 && values[placed[i - 1]].offset > values[v].offset; i--) placed[i] = placed[i - 1];
  placed[i] = v;
}

/* Ids of values that need memory, largest first. */
static size_t by_size(const cni_planned *values, size_t n, size_t *order)
{
  size_t m = 0;
  for (size_t v = 0; v < n; v++) {
    if (!values[v].size) continue;
    size_t i = m++;
    for (; i > 0 && values[order[i - 1]].size < values[v].size; i--) order[i] = order[i - 1];
    order[i] = v;
  }
  return m;
}

/* placed: sorted by offset. */
static cni_gap largest_gap(const cni_planned *values, const size_t *placed, size_t n, size_t total, int at)
{
  cni_gap best = {0, 0};
  size_t end = 0;
  for (size_t i = 0; i <= n; i++) {
    const cni_planned *p = i < n ? &values[placed[i]] : NULL;
    if (p && (p->first > at || p->last < at)) continue;
    size_t next = p ? p->offset : total;
    if (next > end && next - end > best.size) best = (cni_gap){end, next - end};
    if (p && next + rounded(p->size) > end) end = next + rounded(p->size);
  }
  return best;
}

size_t cni_memplan(cni_planned *values, size_t n, cni_gap *gaps, size_t places)
{
  size_t *order = cni_alloc((n + 1) * sizeof *order), total = 0;
  size_t *placed = order ? cni_alloc((n + 1) * sizeof *placed) : NULL;
  if (placed) {
    size_t m = by_size(values, n, order);
    for (size_t i = 0; i < m; i++) {
      cni_planned *v = &values[order[i]];
      v->offset = lowest_gap(values, placed, i, v);
      insert_sorted(values, placed, i, order[i]);
      if (v->offset + rounded(v->size) > total) total = v->offset + rounded(v->size);
    }
    for (size_t at = 0; gaps && at < places; at++) gaps[at] = largest_gap(values, placed, m, total, (int)at);
    cni_free(placed, (n + 1) * sizeof *placed);
  }
  cni_free(order, (n + 1) * sizeof *order);
  return total;
}
