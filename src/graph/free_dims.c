/* free_dims.c: cn_trace_dynamic and cn_trace_sizes: which dims of which inputs vary, as the caller says or as examples
 * show.
 *
 * Place in the flow: here sizes get their names and what is known of their range, also those that nodes define;
 * probe.c and dynamic.c do the rest. Invariant: every size is the whole of some dim, from which a run reads it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "probe.h"
#include "tensor/tensor.h"

enum { COUNT_TRACED = 7 }; /* what a size that depends on data is taken for first */

/* ---- which dims are free ---- */

static int find_size(const cn_graph *frame, const char *name)
{
  for (size_t i = 0; i < frame->nsizes; i++)
    if (!strcmp(frame->sizes[i].name, name)) return (int)i;
  return -1;
}

/* What the caller says of a size, added to what is known of it. */
static int narrow(cni_prober *p, size_t s, const cn_free_dim *d)
{
  cni_gsize *z = &p->frame->sizes[s];
  int64_t min = d->min == CN_ZERO ? 0 : d->min;
  if (min < 0 || d->max < 0)
    return cni_fail(CN_ERR_VALUE, "%s: the range of size %s is negative", p->who, z->name);
  if (d->min && (!p->given[2 * s] || min > z->min)) z->min = min;
  if (d->max && (!p->given[2 * s + 1] || d->max < z->max)) z->max = d->max;
  p->given[2 * s] |= d->min != 0;
  p->given[2 * s + 1] |= d->max != 0;
  if (z->min > z->max || z->traced < z->min || z->traced > z->max)
    return cni_fail(CN_ERR_VALUE, "%s: size %s is %" PRId64 " in the inputs, which is not in its range, %" PRId64
                    " to %" PRId64, p->who, z->name, z->traced, z->min, z->max);
  return CN_OK;
}

static int64_t default_max(int64_t traced) { return traced > CNI_SIZE_MOST / 2 ? 2 * traced : CNI_SIZE_MOST; }

/* The size that a dim is, made if need be; then what is said of it. */
static int add_plain(cni_prober *p, const cn_free_dim *d)
{
  int64_t traced = p->inputs[d->input]->d.shape[d->dim];
  int s = find_size(p->frame, d->symbol);
  if (s < 0) {
    s = (int)p->frame->nsizes;
    if (cni_graph_add_size(p->frame, d->symbol, traced, traced ? 1 : 0, default_max(traced))) return CN_ERR_MEMORY;
  }
  if (p->frame->sizes[s].traced != traced)
    return cni_fail(CN_ERR_SHAPE, "%s: size %s is %" PRId64 " and %" PRId64 " in the inputs", p->who, d->symbol,
                    p->frame->sizes[s].traced, traced);
  return narrow(p, (size_t)s, d);
}

static int check_dim(const cni_prober *p, const cn_free_dim *d)
{
  if (d->input >= p->ninputs)
    return cni_fail(CN_ERR_INDEX, "%s: there is no input %zu", p->who, d->input);
  if (d->dim < 0 || d->dim >= p->inputs[d->input]->d.ndim)
    return cni_fail(CN_ERR_INDEX, "%s: input %zu has no dimension %d", p->who, d->input, d->dim);
  return d->symbol ? CN_OK : cni_fail(CN_ERR_VALUE, "%s: a free dimension has no symbol", p->who);
}

static int add_expression(cni_prober *p, const cn_free_dim *d)
{
  double number;
  int e = cni_expression_parse(p->frame, d->symbol);
  if (e == CN_ERR_MEMORY) return e;
  if (e <= 0 || p->frame->exprs.v[e].op == CNI_EXPR_RATIO)
    return cni_fail(CN_ERR_VALUE, "%s: '%.80s' is neither the name of a size nor an expression of such names that "
                    "other dimensions have", p->who, d->symbol);
  if (cni_expr_traced(p->frame, e, &number) != p->inputs[d->input]->d.shape[d->dim])
    return cni_fail(CN_ERR_SHAPE, "%s: dimension %d of input %zu is not %.80s", p->who, d->dim, d->input, d->symbol);
  p->dims[d->input * CN_MAX_DIMS + (size_t)d->dim] = e;
  return CN_OK;
}

/* First the names, then the expressions of them. */
static int add_dims(cni_prober *p, const cn_free_dim *dims, size_t ndims)
{
  int status = CN_OK;
  for (size_t i = 0; i < p->ninputs; i++)
    if (!p->inputs[i]) return cni_fail(CN_ERR_TYPE, "%s: input %zu is NULL", p->who, i);
  for (size_t i = 0; i < ndims && !status; i++) {
    status = check_dim(p, &dims[i]);
    if (!status && !cni_size_name_fault(dims[i].symbol)) status = add_plain(p, &dims[i]);
  }
  for (size_t i = 0; i < ndims && !status; i++) {
    status = add_expression(p, &dims[i]);
    if (!status && cni_size_name_fault(dims[i].symbol) && (dims[i].min || dims[i].max))
      status = cni_fail(CN_ERR_VALUE, "%s: '%.80s' is an expression: give the ranges of the sizes in it", p->who,
                        dims[i].symbol);
  }
  return status;
}

/* The sizes of each example. */
static void example_rows(const cni_prober *p, const cn_free_dim *dims, size_t ndims, const cn_tensor *const *examples,
                         size_t nexamples, int64_t *rows)
{
  size_t n = p->frame->nsizes;
  for (size_t i = 0; i < ndims; i++) {
    int s = find_size(p->frame, dims[i].symbol);
    for (size_t k = 0; k < nexamples && s >= 0; k++) {
      int64_t size = examples[k * p->ninputs + dims[i].input]->d.shape[dims[i].dim];
      rows[k * n + (size_t)s] = size;
      if (!k || size < p->least[s]) p->least[s] = size;
    }
  }
}

/* ---- sizes that nodes define ---- */

static cn_graph *trace_function(const cni_prober *p, cn_tensor *const *inputs, cni_counted *counted)
{
  return cni_trace_counted(p->fn, p->noutputs, inputs, p->ninputs, p->payload, counted);
}

/* How many sizes depend on data. Negative: an error, the function's. *graph: the trace, where nothing is to vary. */
static int count_unknown(const cni_prober *p, bool varies, cn_graph **graph)
{
  cni_counted counted = {NULL, 0, 0, NULL};
  for (size_t i = 0; i < p->ninputs; i++)
    if (!p->inputs[i]) return cni_fail(CN_ERR_TYPE, "%s: input %zu is NULL", p->who, i);
  cn_graph *g = varies ? cni_trace_one(p, p->inputs, &counted) : trace_function(p, p->inputs, &counted);
  if (!g) return cn_err() ? cn_err() : CN_ERR_MEMORY;
  if (varies || counted.met) cn_graph_free(g);
  else *graph = g;
  return (int)counted.met;
}

/* One size each, behind those of the inputs, which have the last numbers. */
static int add_counted(cni_prober *p, int64_t *rows, size_t nexamples)
{
  for (size_t i = 0; i < p->ncounted; i++) {
    int64_t traced = COUNT_TRACED + (int64_t)i;
    p->least[p->frame->nsizes] = traced;
    if (cni_graph_add_count(p->frame, traced, CNI_SIZE_MOST)) return CN_ERR_MEMORY;
  }
  size_t n = p->frame->nsizes, nfree = n - p->ncounted;
  for (size_t k = nexamples; k-- > 0;) { /* rows of the inputs' sizes become longer, the last one first */
    memmove(rows + k * n, rows + k * nfree, nfree * sizeof *rows);
    for (size_t i = nfree; i < n; i++) rows[k * n + i] = p->frame->sizes[i].traced;
  }
  return CN_OK;
}

cn_graph *cni_trace_counts(cni_prober *p, size_t ncounted)
{
  size_t room = ncounted * sizeof(int64_t), flags = 2 * ncounted + 2;
  cn_graph *g = NULL;
  p->ncounted = ncounted;
  p->frame = cn_graph_new();
  p->given = p->frame ? cni_alloc_zero(flags) : NULL;
  p->least = p->given ? cni_alloc(room) : NULL;
  if (p->least && !add_counted(p, NULL, 0)) g = cni_trace_probing(p, NULL, 0);
  cni_free(p->least, room);
  cni_free(p->given, flags);
  cn_graph_free(p->frame);
  return g;
}

static cn_graph *probe_dims(cni_prober *p, const cn_free_dim *dims, size_t ndims, const cn_tensor *const *examples,
                            size_t nexamples, int64_t *rows)
{
  int status = add_dims(p, dims, ndims);
  if (status) return NULL;
  example_rows(p, dims, ndims, examples, nexamples, rows);
  return add_counted(p, rows, nexamples) ? NULL : cni_trace_probing(p, rows, nexamples);
}

/* examples: nexamples sets of inputs, the first of which are p's. */
static cn_graph *trace_dims(cni_prober *p, const cn_free_dim *dims, size_t ndims, const cn_tensor *const *examples,
                            size_t nexamples)
{
  cn_graph *g = NULL;
  int unknown = count_unknown(p, ndims > 0, &g);
  if (unknown < 0 || g) return g;
  p->ncounted = (size_t)unknown;
  size_t most = ndims + p->ncounted, room = p->ninputs * CN_MAX_DIMS * sizeof *p->dims;
  size_t rows_room = nexamples * most * sizeof(int64_t);
  p->frame = cn_graph_new();
  p->dims = p->frame ? cni_alloc_zero(room) : NULL;
  p->given = p->dims ? cni_alloc_zero(2 * most + 2) : NULL;
  p->least = p->given ? cni_alloc(most * sizeof *p->least) : NULL;
  int64_t *rows = p->least ? cni_alloc(rows_room) : NULL;
  if (rows) g = probe_dims(p, dims, ndims, examples, nexamples, rows);
  cni_free(rows, rows_room);
  cni_free(p->least, most * sizeof *p->least);
  cni_free(p->given, 2 * most + 2);
  cni_free(p->dims, room);
  cn_graph_free(p->frame);
  return g;
}

cn_graph *cn_trace_dynamic(cn_graph_fn fn, size_t noutputs, cn_tensor *const *inputs, size_t ninputs,
                           const cn_free_dim *dims, size_t ndims, void *payload)
{
  if (cn_err()) return NULL;
  cni_prober p = {.who = "trace_dynamic", .trace = trace_function, .fn = fn, .noutputs = noutputs, .inputs = inputs,
                  .ninputs = ninputs, .payload = payload};
  return trace_dims(&p, dims, ndims, (const cn_tensor *const *)inputs, 1);
}

/* ---- examples ---- */

/* Dims that differ between examples: those that have the same sizes throughout share one. */
typedef struct varying {
  cn_free_dim *dims;
  size_t ndims;
  char (*names)[48]; /* per group */
  size_t *leaders;   /* per group: its first dim */
  size_t ngroups;
} varying;

static int64_t example_size(const cni_prober *p, const cn_tensor *const *examples, size_t k, const cn_free_dim *d)
{
  return examples[k * p->ninputs + d->input]->d.shape[d->dim];
}

static bool same_sizes(const cni_prober *p, const cn_tensor *const *examples, size_t n, const cn_free_dim *a,
                       const cn_free_dim *b)
{
  for (size_t k = 0; k < n; k++)
    if (example_size(p, examples, k, a) != example_size(p, examples, k, b)) return false;
  return true;
}

static int check_examples(const cni_prober *p, const cn_tensor *const *examples, size_t n)
{
  for (size_t i = 0; i < n * p->ninputs; i++) {
    const cn_tensor *t = examples[i], *first = examples[i % p->ninputs];
    if (!t) return cni_fail(CN_ERR_TYPE, "%s: input %zu is NULL", p->who, i % p->ninputs);
    if (t->d.ndim != first->d.ndim || t->d.dtype != first->d.dtype || t->d.device != first->d.device)
      return cni_fail(CN_ERR_CAPTURE, "%s: the examples differ in more than sizes: in type, dimensions or device of "
                      "input %zu", p->who, i % p->ninputs);
  }
  return CN_OK;
}

static void find_varying(const cni_prober *p, const cn_tensor *const *examples, size_t n, varying *v)
{
  for (size_t i = 0; i < p->ninputs; i++)
    for (int d = 0; d < examples[i]->d.ndim; d++) {
      cn_free_dim dim = {.input = i, .dim = d};
      bool differs_here = false;
      for (size_t k = 1; k < n; k++)
        differs_here |= example_size(p, examples, k, &dim) != example_size(p, examples, 0, &dim);
      if (!differs_here) continue;
      size_t group = 0;
      while (group < v->ngroups && !same_sizes(p, examples, n, &dim, &v->dims[v->leaders[group]])) group++;
      if (group == v->ngroups) {
        v->leaders[v->ngroups++] = v->ndims;
        snprintf(v->names[group], sizeof *v->names, "s%zu", group);
      }
      dim.symbol = v->names[group];
      v->dims[v->ndims++] = dim;
    }
}

/* Sizes that follow from another in every example, as a multiple or by a difference, become expressions of it. */
static bool relate(const cni_prober *p, const cn_tensor *const *examples, size_t n, varying *v)
{
  bool related = false;
  for (size_t b = 1; b < v->ngroups; b++)
    for (size_t a = 0; a < b; a++) {
      const cn_free_dim *from = &v->dims[v->leaders[a]], *to = &v->dims[v->leaders[b]];
      int64_t x = example_size(p, examples, 0, from), y = example_size(p, examples, 0, to), factor = x ? y / x : 0;
      bool multiple = factor > 1, shifted = true;
      if (cni_size_name_fault(v->names[a])) continue;
      for (size_t k = 0; k < n; k++) {
        int64_t xk = example_size(p, examples, k, from), yk = example_size(p, examples, k, to);
        multiple = multiple && yk == factor * xk;
        shifted = shifted && yk - xk == y - x;
      }
      if (!multiple && !shifted) continue;
      if (multiple) snprintf(v->names[b], sizeof *v->names, "s%zu * %" PRId64, a, factor);
      else snprintf(v->names[b], sizeof *v->names, "s%zu %c %" PRId64, a, y > x ? '+' : '-', y > x ? y - x : x - y);
      related = true;
      break;
    }
  return related;
}

/* First as if all sizes were free of each other; where the function cannot do that, with the relations seen. */
static cn_graph *trace_examples(cni_prober *p, const cn_tensor *const *examples, size_t n, varying *v)
{
  cni_saved_error error;
  if (check_examples(p, examples, n)) return NULL;
  find_varying(p, examples, n, v);
  cn_graph *g = trace_dims(p, v->dims, v->ndims, examples, n);
  if (g || cn_err() == CN_ERR_MEMORY || !relate(p, examples, n, v)) return g;
  cni_error_take(&error);
  cni_prober again = {.who = p->who, .trace = p->trace, .fn = p->fn, .noutputs = p->noutputs, .inputs = p->inputs,
                      .ninputs = p->ninputs, .payload = p->payload};
  g = trace_dims(&again, v->dims, v->ndims, examples, n);
  if (g) return g;
  cn_err_clear();
  cni_error_restore(&error);
  return NULL;
}

cn_graph *cn_trace_sizes(cn_graph_fn fn, size_t noutputs, cn_tensor *const *inputs, size_t ninputs, size_t nexamples,
                         void *payload)
{
  if (cn_err()) return NULL;
  if (nexamples < 1) {
    cni_fail(CN_ERR_VALUE, "trace_sizes: at least one example is needed");
    return NULL;
  }
  cni_prober p = {.who = "trace_sizes", .trace = trace_function, .fn = fn, .noutputs = noutputs, .inputs = inputs,
                  .ninputs = ninputs, .payload = payload};
  size_t most = ninputs * CN_MAX_DIMS;
  varying v = {.dims = cni_alloc(most * sizeof *v.dims)};
  v.names = v.dims ? cni_alloc(most * sizeof *v.names) : NULL;
  v.leaders = v.names ? cni_alloc(most * sizeof *v.leaders) : NULL;
  cn_graph *g = v.leaders ? trace_examples(&p, (const cn_tensor *const *)inputs, nexamples, &v) : NULL;
  cni_free(v.dims, most * sizeof *v.dims);
  cni_free(v.names, most * sizeof *v.names);
  cni_free(v.leaders, most * sizeof *v.leaders);
  return g;
}
