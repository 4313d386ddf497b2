/* probe.c: tracing at chosen sizes. See probe.h. */
#include "probe.h"

#include <cairn/ext/system.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "tensor/tensor.h"

enum { BASE_PROBES = 4, LOW_MOST = 5, BELOW = 40 };

int cni_prober_begin(cni_prober *p)
{
  size_t n = p->frame->nsizes;
  p->sizes = cni_alloc(CNI_PROBES_MOST * n * sizeof *p->sizes);
  p->numbers = cni_alloc(CNI_PROBES_MOST * sizeof *p->numbers);
  p->shortcuts = cni_alloc_zero(sizeof *p->shortcuts);
  return p->sizes && p->numbers && p->shortcuts ? CN_OK : CN_ERR_MEMORY;
}

void cni_prober_restart(cni_prober *p)
{
  for (size_t i = 0; i < p->nprobes; i++) cni_free(p->numbers[i], p->nplaces * sizeof **p->numbers);
  cni_free(p->places, p->nplaces * sizeof *p->places);
  cn_graph_free(p->g);
  p->g = NULL;
  p->places = NULL;
  p->nprobes = p->nplaces = 0;
  if (p->shortcuts) {
    p->shortcuts->known = p->shortcuts->n;
    p->shortcuts->n = 0;
    p->shortcuts->fixed = p->shortcuts->refused = false;
  }
}

void cni_prober_free(cni_prober *p)
{
  cni_prober_restart(p);
  cni_free(p->sizes, CNI_PROBES_MOST * p->frame->nsizes * sizeof *p->sizes);
  cni_free(p->numbers, CNI_PROBES_MOST * sizeof *p->numbers);
  if (p->shortcuts) cni_free(p->shortcuts->all, p->shortcuts->cap);
  cni_free(p->shortcuts, sizeof *p->shortcuts);
}

/* ---- one trace ---- */

/* An input of these sizes without data: dense, its dims in memory as the given one's are. Owned. */
static cn_tensor *input_at(const cni_prober *p, size_t i, const int64_t *sizes)
{
  const cn_desc *d = &p->inputs[i]->d;
  cni_gvalue v = {.ndim = d->ndim, .has_strides = !cni_is_contiguous(d->ndim, d->shape, d->strides)};
  int64_t shape[CN_MAX_DIMS], strides[CN_MAX_DIMS];
  memcpy(v.strides, d->strides, (size_t)d->ndim * sizeof *v.strides);
  for (int k = 0; k < d->ndim; k++) {
    int expr = p->dims[i * CN_MAX_DIMS + (size_t)k];
    shape[k] = expr ? cni_expr_value(&p->frame->exprs, expr, sizes) : d->shape[k];
    if (shape[k] >= 0) continue;
    cni_fail(CN_ERR_SHAPE, "%s: dimension %d of input %zu would be negative", p->who, k, i);
    return NULL;
  }
  cni_traced_order(&v, shape, strides);
  size_t bytes = cni_dtype_bytes(d->dtype, cni_numel(d->ndim, shape));
  return cni_tensor_over(cni_storage_meta(d->device, bytes, NULL), 0, d->dtype, d->ndim, shape, strides);
}

cn_graph *cni_trace_one(const cni_prober *p, cn_tensor *const *inputs, cni_counted *counted)
{
  cn_state *st = cni_state();
  bool before = st->tracing_sizes;
  st->tracing_sizes = true;
  cn_graph *g = p->trace(p, inputs, counted);
  st->tracing_sizes = before;
  return g;
}

static cn_graph *trace_at(const cni_prober *p, const int64_t *sizes)
{
  cn_tensor **inputs = cni_alloc_zero((p->ninputs + 1) * sizeof *inputs);
  if (!inputs) return NULL;
  bool made = true;
  for (size_t i = 0; i < p->ninputs && made; i++) made = (inputs[i] = input_at(p, i, sizes)) != NULL;
  size_t nfree = p->frame->nsizes - p->ncounted;
  cni_counted counted = {sizes + nfree, p->ncounted, 0, p->shortcuts};
  p->shortcuts->met = 0;
  cn_graph *g = made ? cni_trace_one(p, inputs, &counted) : NULL;
  for (size_t i = 0; i < p->ninputs; i++) cni_tensor_release(inputs[i]);
  cni_free(inputs, (p->ninputs + 1) * sizeof *inputs);
  return g;
}

static int keep_numbers(cni_prober *p, const cn_graph *g, const int64_t *sizes)
{
  size_t nsizes = p->frame->nsizes;
  if (p->nprobes == CNI_PROBES_MOST)
    return cni_fail(CN_ERR_CAPTURE, "%s: its numbers do not settle after %d traces", p->who, CNI_PROBES_MOST);
  cni_count *numbers = cni_alloc(p->nplaces * sizeof *numbers);
  if (!numbers) return CN_ERR_MEMORY;
  for (size_t i = 0; i < p->nplaces; i++) numbers[i] = cni_count_at(g, &p->places[i]);
  memcpy(p->sizes + p->nprobes * nsizes, sizes, nsizes * sizeof *sizes);
  p->numbers[p->nprobes++] = numbers;
  return CN_OK;
}

/* "B = 3, T = 5" */
static void sizes_text(const cni_prober *p, const int64_t *sizes, char *text, size_t room)
{
  cn_text t = {0};
  for (size_t i = 0; i < p->frame->nsizes; i++)
    cn_text_putf(&t, "%s%s = %" PRId64, i ? ", " : "", p->frame->sizes[i].name, sizes[i]);
  memcpy(text, t.s ? t.s : "", t.s ? (t.n < room ? t.n + 1 : room) : 1);
  text[room - 1] = 0;
  cn_text_free(&t);
}

int cni_probe(cni_prober *p, const int64_t *sizes)
{
  char what[160], at[160], first[160];
  cn_graph *g = trace_at(p, sizes);
  if (!g) return cn_err() ? cn_err() : CN_ERR_MEMORY;
  if (!p->g) {
    p->g = g;
    p->shortcuts->fixed = true;
    p->places = cni_places(g, p->ninputs, &p->nplaces);
    return p->places ? keep_numbers(p, g, sizes) : CN_ERR_MEMORY;
  }
  int status = CN_OK;
  p->differed = false;
  if (cni_graphs_differ(p->g, g, what, sizeof what)) {
    p->differed = true;
    sizes_text(p, p->sizes, first, sizeof first);
    sizes_text(p, sizes, at, sizeof at);
    status = cni_fail(CN_ERR_CAPTURE, "%s: the function does not compute the same ops at %s as at %s: %s; narrow the "
                      "range, or trace each size by itself", p->who, at, first, what);
  } else status = keep_numbers(p, g, sizes);
  cn_graph_free(g);
  return status;
}

int cni_probe_try(cni_prober *p, const int64_t *sizes)
{
  int status = cni_probe(p, sizes);
  if (!status) return 1;
  if (status == CN_ERR_MEMORY || p->nprobes == CNI_PROBES_MOST) return status;
  cn_err_clear();
  return 0;
}

bool cni_probed(const cni_prober *p, const int64_t *sizes)
{
  size_t n = p->frame->nsizes;
  for (size_t i = 0; i < p->nprobes; i++)
    if (!memcmp(p->sizes + i * n, sizes, n * sizeof *sizes)) return true;
  return false;
}

void cni_probes_drop(cni_prober *p)
{
  size_t n = p->frame->nsizes, kept = 1;
  for (size_t i = 1; i < p->nprobes; i++) {
    bool inside = true;
    for (size_t k = 0; k < n; k++) {
      int64_t size = p->sizes[i * n + k];
      inside = inside && size >= p->frame->sizes[k].min && size <= p->frame->sizes[k].max;
    }
    if (!inside) {
      cni_free(p->numbers[i], p->nplaces * sizeof **p->numbers);
      continue;
    }
    memmove(p->sizes + kept * n, p->sizes + i * n, n * sizeof *p->sizes);
    p->numbers[kept++] = p->numbers[i];
  }
  p->nprobes = kept;
}

/* ---- the first sizes ---- */

static bool coprime(int64_t a, int64_t b)
{
  while (b) {
    int64_t r = a % b;
    a = b;
    b = r;
  }
  return a == 1;
}

/* Rows of sizes: each the next number from `from` on that has no divisor with those before it, so that no size is
 * another one in disguise; where the range has no such number, any of the range. */
static void base_sizes(const cni_prober *p, int64_t *rows, const int64_t *from, const int64_t *to)
{
  size_t n = p->frame->nsizes;
  for (size_t i = 0; i < BASE_PROBES * n; i++) {
    size_t s = i % n, row = i / n;
    int64_t at = row ? rows[i - n] + 1 : from[s];
    bool alone = false;
    for (; at <= to[s] && !alone; at++) {
      alone = true;
      for (size_t k = 0; k < i && alone; k++) alone = coprime(at, rows[k]);
    }
    int64_t room = to[s] - from[s] + 1;
    rows[i] = alone ? at - 1 : from[s] + (int64_t)(row * 7 + s * 3) % room;
  }
}

static int try_base(cni_prober *p, const int64_t *rows)
{
  int status = CN_OK;
  size_t n = p->frame->nsizes;
  for (size_t i = 0; i < BASE_PROBES && !status; i++)
    if (!cni_probed(p, rows + i * n)) status = cni_probe(p, rows + i * n);
  return status;
}

static int64_t within(int64_t v, int64_t lo, int64_t hi) { return v < lo ? lo : v > hi ? hi : v; }

/* From the size of the example upwards; where the function cannot do these (a table has so many rows, and no more),
 * from below up to the example's. */
int cni_probe_base(cni_prober *p)
{
  size_t n = p->frame->nsizes;
  int64_t *rows = cni_alloc((BASE_PROBES + 2) * n * sizeof *rows), *from = rows + BASE_PROBES * n, *to = from + n;
  if (!rows) return CN_ERR_MEMORY;
  for (size_t i = 0; i < n; i++) {
    const cni_gsize *s = &p->frame->sizes[i];
    from[i] = within(s->traced < LOW_MOST ? LOW_MOST : s->traced, s->min, s->max);
    to[i] = s->max;
    if (to[i] - from[i] < 2 * BASE_PROBES) from[i] = within(to[i] - 2 * BASE_PROBES, s->min, s->max);
  }
  base_sizes(p, rows, from, to);
  int status = try_base(p, rows);
  if (status && status != CN_ERR_MEMORY) {
    cni_saved_error error;
    cni_error_take(&error);
    for (size_t i = 0; i < n; i++) {
      const cni_gsize *s = &p->frame->sizes[i];
      to[i] = s->traced;
      from[i] = within(s->traced - BELOW, s->min > 2 ? s->min : 2, s->traced);
      if (from[i] > to[i]) from[i] = to[i]; /* of an example of one row */
    }
    base_sizes(p, rows, from, to);
    cni_prober_restart(p);
    if (try_base(p, rows)) { /* the first error is the one to tell */
      cn_err_clear();
      cni_error_restore(&error);
    } else status = CN_OK;
  }
  cni_free(rows, (BASE_PROBES + 2) * n * sizeof *rows);
  return status;
}

/* ---- the range ---- */

/* A row with size i another than the first probe's. */
static int try_at(cni_prober *p, int64_t *row, size_t i, int64_t size)
{
  memcpy(row, p->sizes, p->frame->nsizes * sizeof *row);
  row[i] = size;
  return cni_probed(p, row) ? 1 : cni_probe_try(p, row);
}

static int must_at(cni_prober *p, int64_t *row, size_t i, int64_t size)
{
  memcpy(row, p->sizes, p->frame->nsizes * sizeof *row);
  row[i] = size;
  return cni_probed(p, row) ? CN_OK : cni_probe(p, row);
}

/* The last size towards `bad` at which the graph is still the same one; `good` is such a size. Negative: an error. */
static int64_t last_good(cni_prober *p, int64_t *row, size_t i, int64_t good, int64_t bad)
{
  while (good - bad > 1 || bad - good > 1) {
    int64_t middle = good + (bad - good) / 2;
    if (bad / 4 > good) middle = (int64_t)sqrt((double)good * (double)bad); /* by orders of magnitude first */
    int done = try_at(p, row, i, middle);
    if (done < 0) return done;
    if (done) good = middle;
    else bad = middle;
  }
  return good;
}

/* Both ends of what the first probes had. */
static void base_ends(const cni_prober *p, size_t i, int64_t *lo, int64_t *hi)
{
  size_t n = p->frame->nsizes;
  *lo = *hi = p->sizes[i];
  for (size_t k = 0; k < p->nprobes && k < BASE_PROBES; k++) {
    int64_t size = p->sizes[k * n + i];
    if (size < *lo) *lo = size;
    if (size > *hi) *hi = size;
  }
}

static int find_min(cni_prober *p, int64_t *row, size_t i, int64_t good)
{
  cni_gsize *s = &p->frame->sizes[i];
  for (int64_t size = s->min; size < good && size < LOW_MOST; size++) { /* the smallest ones are often cases apart */
    int done = try_at(p, row, i, size);
    if (done > 0 && size + 1 < good) done = try_at(p, row, i, size + 1);
    if (done < 0) return done;
    if (done) return s->min = size, CN_OK;
    if (size == 2) break;
  }
  int64_t bad = s->min < 2 ? 2 : s->min;
  if (good > bad && (good = last_good(p, row, i, good, bad)) < 0) return (int)good;
  s->min = good;
  return CN_OK;
}

static int find_max(cni_prober *p, int64_t *row, size_t i, int64_t good)
{
  cni_gsize *s = &p->frame->sizes[i];
  int done = good < s->max ? try_at(p, row, i, s->max) : 1;
  if (done < 0) return done;
  if (!done && (good = last_good(p, row, i, good, s->max)) < 0) return (int)good;
  if (!done) s->max = good;
  return CN_OK;
}

/* One size at a time, the others as in the first probe. */
static int size_range(cni_prober *p, int64_t *row, size_t i)
{
  cni_gsize *s = &p->frame->sizes[i];
  int64_t lo, hi;
  base_ends(p, i, &lo, &hi);
  int status = p->given[2 * i] ? must_at(p, row, i, s->min) : find_min(p, row, i, lo);
  if (!status) status = p->given[2 * i + 1] ? must_at(p, row, i, s->max) : find_max(p, row, i, hi);
  if (!status && s->min < s->max) status = must_at(p, row, i, s->min + 1);
  return !status && s->min < s->max ? must_at(p, row, i, s->max - 1) : status;
}

/* All sizes at their smallest: together they may be a case of its own (one element in all) where each by itself is
 * none; then those that the caller did not give begin at 2. */
static int low_corner(cni_prober *p, int64_t *row)
{
  size_t n = p->frame->nsizes;
  bool moved = false;
  for (size_t i = 0; i < n; i++) row[i] = p->frame->sizes[i].min;
  int done = cni_probed(p, row) ? 1 : cni_probe_try(p, row);
  if (done) return done < 0 ? done : CN_OK;
  for (size_t i = 0; i < n; i++)
    if (!p->given[2 * i] && p->frame->sizes[i].min < 2 && p->least[i] >= 2) moved = (p->frame->sizes[i].min = 2) != 0;
  if (moved) cni_probes_drop(p);
  for (size_t i = 0; i < n; i++) row[i] = p->frame->sizes[i].min;
  return cni_probe(p, row);
}

/* All at their largest: what is beyond int64_t then is an error at a run, too, and no reason to refuse. */
static int high_corner(cni_prober *p, int64_t *row)
{
  for (size_t i = 0; i < p->frame->nsizes; i++) row[i] = p->frame->sizes[i].max;
  int status = cni_probed(p, row) ? CN_OK : cni_probe(p, row);
  if (!status || p->differed || status == CN_ERR_MEMORY || p->nprobes == CNI_PROBES_MOST) return status;
  cn_err_clear();
  return CN_OK;
}

int cni_probe_range(cni_prober *p)
{
  size_t n = p->frame->nsizes;
  int64_t *row = cni_alloc(n * sizeof *row);
  int status = row ? CN_OK : CN_ERR_MEMORY;
  for (size_t i = 0; i < n && !status; i++) status = size_range(p, row, i);
  if (!status && n > 1) status = low_corner(p, row);
  if (!status && n > 1) status = high_corner(p, row);
  cni_free(row, n * sizeof *row);
  return status;
}
