/* machine_model.c: what a network should take on the machine that was measured. See machine.h.
 *
 * A node that multiplies takes its operations at the rate of the probes that are most like it: of its kind, the
 * nearer in the logarithms of rows, columns and depth the more they count; and since a probe's weights are in a
 * cache and a network's are not, what they take to be read from where so many lie. Any other node passes over its
 * bytes at the rate of its op at that size. Invariant: a probe's own time is given back. */
#include <math.h>
#include <string.h>

#include "machine.h"
#include "text.h"

machine_kind machine_kind_of(const work_node *n)
{
  if (!strcmp(n->op, "scaled_dot_product_attention")) return MACHINE_ATTENTION;
  if (!n->taps) return MACHINE_PRODUCT;
  if (n->groups > 1) return MACHINE_GROUPED;
  if (n->taps == 1) return MACHINE_POINT;
  return n->stride > 1 ? MACHINE_STRIDED : MACHINE_WINDOW;
}

static double rate_of(const machine *m, machine_kind kind, const array_product *as, double taps)
{
  double sum = 0, all = 0;
  for (size_t i = 0; i < m->nprobes; i++) {
    const machine_probe *p = &m->probes[i];
    if (p->kind != kind) continue;
    double a = log2((double)as->m / p->m), b = log2((double)as->k / p->k), c = log2((double)as->n / p->n);
    double d = taps > 0 && p->taps > 0 ? log2(taps / p->taps) : 0;
    double near = a * a + b * b + c * c + 2 * d * d + 1e-6, weight = 1 / (near * near);
    sum += weight * log(p->rate);
    all += weight;
  }
  return all > 0 ? exp(sum / all) : m->product;
}

/* Where so many bytes stay between two uses. */
static double read_rate(const machine *m, double bytes)
{
  for (int i = 0; i < MACHINE_LEVELS; i++)
    if (m->read[i] > 0 && bytes <= m->level[i]) return m->read[i];
  return m->read[MACHINE_LEVELS - 1];
}

static double product_time(const machine *m, const work_node *n, double parameters)
{
  double time = 0, held = 0;
  machine_kind kind = machine_kind_of(n);
  for (int i = 0; i < 2; i++) {
    const array_product *p = &n->as[i];
    if (p->count < 1) continue;
    double flops = 2.0 * (double)(p->count * p->m * p->k) * (double)p->n, bytes = 4.0 * (double)(p->k * p->n);
    bool steps = kind == MACHINE_PRODUCT && p->count > 1; /* the same weights again and again */
    double read = steps ? (double)p->count * bytes / read_rate(m, bytes) : 0;
    double few = (double)p->m < 8 && kind == MACHINE_PRODUCT ? 0 : flops / rate_of(m, kind, p, (double)n->taps);
    time += fmax(read, few);
    held = steps ? held : n->weights;
  }
  return time + held / read_rate(m, parameters);
}

static double pass_time(const machine *m, const work_node *n)
{
  const machine_stream *s = m->streams;
  for (size_t i = 0; i < m->nstreams; i++)
    if (!strncmp(n->op, m->streams[i].op, strlen(m->streams[i].op))) s = &m->streams[i];
  int k = 0;
  while (k + 2 < MACHINE_SIZES && n->stream > s->bytes[k + 1]) k++;
  double t = log(fmax(n->stream, 1) / s->bytes[k]) / log(s->bytes[k + 1] / s->bytes[k]);
  t = fmin(fmax(t, 0), 1);
  return n->stream / exp((1 - t) * log(s->rate[k]) + t * log(s->rate[k + 1]));
}

double machine_time_of(const machine *m, const work_node *n, double parameters)
{
  bool multiplies = n->products > 0.5 * n->flops && n->as[0].count > 0;
  return m->launch + (multiplies ? product_time(m, n, parameters) : pass_time(m, n));
}

double machine_time(const machine *m, const work *w)
{
  double time = 0;
  for (size_t i = 0; i < w->n; i++) time += machine_time_of(m, &w->v[i], w->parameters);
  return time;
}

/* ---- JSON ---- */

cn_tree *machine_tree(const machine *m)
{
  static const char *const names[] = {"L1", "L2", "L3", "memory"};
  static const char *const kinds[] = {"window", "strided", "point", "grouped", "product", "attention"};
  cn_tree *t = cn_tree_dict(), *levels = cn_tree_list(), *probes = cn_tree_list();
  json_text(t, "name", m->name);
  json_text(t, "isa", m->isa);
  json_number(t, "threads", m->threads);
  json_number(t, "multiply_adds_flops_per_second", m->fma > 0 ? m->fma : NAN);
  json_number(t, "product_flops_per_second", m->product);
  json_number(t, "seconds_of_an_op", m->launch);
  for (int i = 0; i < MACHINE_LEVELS; i++) {
    if (m->copy[i] <= 0) continue;
    cn_tree *level = cn_tree_dict();
    json_text(level, "level", names[i]);
    json_number(level, "bytes", m->level[i]);
    json_number(level, "copied_bytes_per_second", m->copy[i]);
    json_number(level, "read_bytes_per_second", m->read[i]);
    cn_tree_push(levels, level);
  }
  for (size_t i = 0; i < m->nprobes; i++) {
    cn_tree *probe = cn_tree_dict();
    json_text(probe, "kind", kinds[m->probes[i].kind]);
    json_number(probe, "m", m->probes[i].m);
    json_number(probe, "k", m->probes[i].k);
    json_number(probe, "n", m->probes[i].n);
    json_number(probe, "flops_per_second", m->probes[i].rate);
    cn_tree_push(probes, probe);
  }
  cn_tree_put(t, "levels", levels);
  cn_tree_put(t, "probes", probes);
  return t;
}
