/* report.c: see report.h. Invariant: every entry that computes is in exactly one layer; modules count what is in
 * them. */
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static report_row *row_for(report_rows *rows, const char *name, const char *op)
{
  for (size_t i = 0; i < rows->n; i++)
    if (!strcmp(rows->v[i].name, name) && !strcmp(rows->v[i].op, op)) return &rows->v[i];
  if (rows->n == rows->cap) {
    size_t cap = rows->cap ? rows->cap * 2 : 64;
    report_row *more = cn_alloc(cap * sizeof *more);
    if (!more) return NULL;
    if (rows->n) memcpy(more, rows->v, rows->n * sizeof *more);
    cn_free(rows->v, rows->cap * sizeof *more);
    rows->v = more;
    rows->cap = cap;
  }
  rows->v[rows->n] = (report_row){.name = name, .op = op};
  return &rows->v[rows->n++];
}

static void add(report_row *row, const cn_profile_entry *e, double time, double runs)
{
  row->calls += 1 / runs;
  row->time += time / runs;
  row->flops += e->flops / runs;
  row->bytes += (e->read + e->written) / runs;
}

/* The modules around a path, and itself: "ResNet", "ResNet.layer1", ... Their names are cut from the longest. */
static int add_modules(report *r, const cn_profile_entry *e, double time)
{
  char part[1024];
  for (size_t n = 0, depth = 0; e->module[n]; depth++) {
    n += n ? 1 : 0;
    n += strcspn(e->module + n, ".");
    if (n >= sizeof part) break;
    memcpy(part, e->module, n);
    part[n] = 0;
    report_row *row = row_for(&r->modules, part, "");
    if (!row) return cn_err();
    if (row->name == part) { /* a new one: the name has to stay */
      row->depth = (int)depth;
      if (!(row->name = cn_string_copy(part))) return cn_err();
    }
    add(row, e, time, r->runs);
  }
  return CN_OK;
}

/* A program's steps are kernels and nodes; the rest is what lies around them. */
static bool computes(const cn_profile_entry *e) { return e->kind == CN_ENTRY_OP || e->kind == CN_ENTRY_NODE; }

static int add_entry(report *r, const cn_profile_entry *e, double time)
{
  report_row *op = row_for(&r->ops, "", e->name), *layer = row_for(&r->layers, e->module, e->name);
  if (!op || !layer) return cn_err();
  add(op, e, time, r->runs);
  add(layer, e, time, r->runs);
  add(&r->all, e, time, r->runs);
  return add_modules(r, e, time);
}

/* Each entry's time without that of those inside of it, in an array of cn_profile_count; NULL on failure. */
static double *own_times(const cn_profile *p)
{
  size_t n = cn_profile_count(p), open[256] = {0};
  double *own = cn_alloc((n + 1) * sizeof *own);
  for (size_t i = 0; own && i < n; i++) {
    cn_profile_entry e = {.size = sizeof e};
    if (cn_profile_at(&e, p, i)) break;
    own[i] = e.timed ? e.device_end - e.device_begin : e.end - e.begin;
    if (e.depth < 256) open[e.depth] = i;
    if (e.depth && e.depth <= 256) own[open[e.depth - 1]] -= own[i];
  }
  return own;
}

static int by_time(const void *a, const void *b)
{
  double x = ((const report_row *)a)->time, y = ((const report_row *)b)->time;
  return (x < y) - (x > y);
}

/* What tensors held during the last run, above what they held when it was least. */
static int add_memory(report *r, const cn_profile *p, double begin)
{
  size_t n = cn_profile_memory_count(p);
  r->memory_cap = n + 1;
  if (!(r->memory = cn_alloc(r->memory_cap * sizeof *r->memory))) return cn_err();
  int64_t least = INT64_MAX;
  for (size_t i = 0; i < n; i++) {
    cn_profile_memory m = {.size = sizeof m};
    if (cn_profile_memory_at(&m, p, i)) return cn_err();
    if (m.time < begin) continue;
    r->memory[r->npoints++] = (report_point){m.time - begin, m.total};
    if (m.total < least) least = m.total;
  }
  for (size_t i = 0; i < r->npoints; i++) {
    r->memory[i].held -= least;
    if (r->memory[i].held > r->most) r->most = r->memory[i].held;
  }
  return CN_OK;
}

int report_of(report *r, const cn_profile *p, const double *begins)
{
  size_t n = cn_profile_count(p);
  double *own = own_times(p);
  int status = own ? CN_OK : cn_err();
  r->all = (report_row){.name = "", .op = "all"};
  for (size_t i = 0; i < n && !status; i++) {
    cn_profile_entry e = {.size = sizeof e};
    status = cn_profile_at(&e, p, i);
    if (!status && computes(&e)) status = add_entry(r, &e, fmax(own[i], 0));
  }
  cn_free(own, (n + 1) * sizeof *own);
  if (!status) status = add_memory(r, p, begins[r->runs - 1]);
  r->time = (begins[r->runs] - begins[0]) / r->runs;
  if (r->ops.n) qsort(r->ops.v, r->ops.n, sizeof *r->ops.v, by_time);
  if (r->layers.n) qsort(r->layers.v, r->layers.n, sizeof *r->layers.v, by_time);
  return status;
}

void report_free(report *r)
{
  for (size_t i = 0; i < r->modules.n; i++) cn_string_free((char *)(uintptr_t)r->modules.v[i].name);
  cn_free(r->ops.v, r->ops.cap * sizeof *r->ops.v);
  cn_free(r->modules.v, r->modules.cap * sizeof *r->modules.v);
  cn_free(r->layers.v, r->layers.cap * sizeof *r->layers.v);
  cn_free(r->memory, r->memory_cap * sizeof *r->memory);
}

double report_roof(const report *r, const report_row *row)
{
  return row->bytes > 0 ? fmin(r->gflops, row->flops / row->bytes * r->gbps) : r->gflops;
}

bool report_is_memory_bound(const report *r, const report_row *row)
{
  return row->flops * r->gbps < row->bytes * r->gflops;
}
