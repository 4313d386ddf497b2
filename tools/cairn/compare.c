/* compare.c: `cairn devices --compare`: processors side by side, and what a network would take on each.
 *
 * Place in the flow: devices.c reads the command line; processors.c has facts and model, machine.c what this machine
 * reaches. Invariant: facts are never mixed with what was measured: this machine has rows of its own. */
#include "compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "text.h"

/* ---- which rows ---- */

/* only: names or parts of names with commas between; NULL: all. */
static bool wanted(const processor *p, const char *only)
{
  char part[64];
  if (!only) return true;
  for (const char *s = only; *s; s += *s == ',') {
    size_t n = strcspn(s, ",");
    snprintf(part, sizeof part, "%.*s", (int)n, s);
    for (size_t i = 0; *part && processor_at(i); i++)
      if (processor_at(i) == p && processor_matches(p, part)) return true;
    s += n;
  }
  return false;
}

static int check_only(const char *only)
{
  char part[64];
  for (const char *s = only; s && *s; s += *s == ',') {
    size_t n = strcspn(s, ",");
    snprintf(part, sizeof part, "%.*s", (int)n, s);
    if (!processor_find(part)) return cn_err_set(CN_ERR_VALUE, "there is no processor '%s' in the table", part);
    s += n;
  }
  return CN_OK;
}

/* ---- facts ---- */

static void put_cell(cn_text *t, int width, double value, double unit)
{
  if (value > 0) text_putf(t, " %*.*f", width, value / unit < 9.995 ? 2 : value / unit < 99.95 ? 1 : 0, value / unit);
  else text_putf(t, " %*s", width, "-");
}

static void put_whole(cn_text *t, int width, double value)
{
  if (value > 0) text_putf(t, " %*.0f", width, value);
  else text_putf(t, " %*s", width, "-");
}

static void put_facts(cn_text *t, const processor *p)
{
  text_putf(t, "%-16s %-4s", p->name, processor_kinds[p->kind]);
  put_whole(t, 5, p->year);
  put_whole(t, 3, p->nanometres);
  put_whole(t, 5, p->units);
  put_cell(t, 5, p->clock, 1e9);
  text_putf(t, " %-7s", p->memory);
  put_whole(t, 4, p->capacity / 1e9);
  put_whole(t, 5, p->bandwidth / 1e9);
  put_whole(t, 5, p->watts);
  put_whole(t, 6, p->dollars);
  for (int i = 0; i < TYPES; i++) put_cell(t, 6, p->peak[i], 1e12);
  int best = p->peak[TYPE_F16] > 0 ? TYPE_F16 : p->peak[TYPE_FP32] > 0 ? TYPE_FP32 : TYPE_INT8;
  put_cell(t, 6, p->peak[best] / p->bandwidth, 1);
  put_cell(t, 6, processor_joules(p, (number_type)best), 1e-12);
  cn_text_put(t, "\n");
}

static void print_facts(const compare_options *o)
{
  cn_text t = {0};
  text_putf(&t, "%-16s %-4s %5s %3s %5s %5s %-7s %4s %5s %5s %6s", "processor", "kind", "year", "nm", "units", "GHz",
            "memory", "GB", "GB/s", "W", "$");
  for (int i = 0; i < TYPES; i++) text_putf(&t, " %6.6s", i == TYPE_F16 ? "16 bit" : processor_types[i]);
  cn_text_put(&t, "   op/B  pJ/op\n");
  for (size_t i = 0; processor_at(i); i++)
    if (wanted(processor_at(i), o->only)) put_facts(&t, processor_at(i));
  cn_text_put(&t, "\nPeaks are TFLOP/s (int8: TOP/s) of dense products. op/B: operations for each byte at which memory "
                  "and\narithmetic balance; pJ/op: energy of half a multiply-add; both of 16 bits, or the next type "
                  "there is.\n-: unknown, or none. Sources: --json.\n");
  fputs(t.s ? t.s : "", stdout);
  cn_text_free(&t);
}

static cn_tree *tree_of_facts(const processor *p)
{
  cn_tree *t = cn_tree_dict(), *peaks = cn_tree_dict();
  json_text(t, "name", p->name);
  json_text(t, "kind", processor_kinds[p->kind]);
  json_number(t, "year", p->year);
  json_number(t, "nanometres", p->nanometres ? (double)p->nanometres : (double)NAN);
  json_number(t, "units", p->units ? (double)p->units : (double)NAN);
  json_number(t, "hertz", p->clock > 0 ? p->clock : NAN);
  json_text(t, "memory", p->memory);
  json_number(t, "memory_bytes", p->capacity > 0 ? p->capacity : NAN);
  json_number(t, "bytes_per_second", p->bandwidth);
  json_number(t, "watts", p->watts > 0 ? p->watts : NAN);
  json_number(t, "launch_dollars", p->dollars > 0 ? p->dollars : NAN);
  for (int i = 0; i < TYPES; i++) json_number(peaks, processor_types[i], p->peak[i] > 0 ? p->peak[i] : NAN);
  cn_tree_put(t, "peaks", peaks);
  json_text(t, "counted_type", processor_types[p->counted]);
  json_number(t, "operations_of_a_unit_in_a_clock", p->per_clock > 0 ? p->per_clock : NAN);
  json_text(t, "source", p->source);
  return t;
}

/* ---- a network ---- */

/* This machine's part: what is expected by its probes, and what a run took. */
typedef struct here {
  const machine *m;
  double expected, took; /* seconds; 0: not known */
} here;

static void put_amount(cn_text *t, int width, double value, const char *unit)
{
  cn_text one = {0};
  if (value > 0) text_amount(&one, value, unit);
  text_putf(t, " %*s", width, one.s ? one.s : "-");
  cn_text_free(&one);
}

static void put_estimate(cn_text *t, const processor *p, const estimate *e, double batch)
{
  text_putf(t, "%-16s %-7s", p->name, e->type < 0 ? "-" : processor_types[e->type]);
  if (e->type < 0 || !e->fits) {
    cn_text_put(t, e->type < 0 ? "  does not compute in this type\n" : "  the weights do not fit its memory\n");
    return;
  }
  put_amount(t, 10, e->time, "s");
  put_amount(t, 10, batch / e->time, "/s");
  text_putf(t, " %5.0f%% %5.0f%%", 100 * e->memory / e->time, 100 * e->launch / e->time);
  text_putf(t, " %5.1f%%", 100 * e->flops / e->time / p->peak[e->type]);
  put_amount(t, 9, e->switching, "J");
  put_amount(t, 9, e->power, "J");
  if (e->dollars > 0) text_putf(t, " %11.3g", 1e6 * e->dollars / batch);
  else text_putf(t, " %11s", "-");
  cn_text_put(t, "\n");
}

static void put_network(cn_text *t, const work *w, const compare_options *o)
{
  const work_node *a = &w->all;
  cn_text_putf(t, "%s, %s, batch %lld: ", o->subject.what, o->subject.train ? "a training step" : "inference",
               (long long)o->subject.batch);
  text_amount(t, a->flops, "FLOP");
  cn_text_put(t, " in ");
  cn_text_putf(t, "%zu ops, ", w->n);
  text_amount(t, a->read + a->written, "B");
  cn_text_put(t, " moved (float32), ");
  text_amount(t, w->parameters, "B");
  text_putf(t, " of weights, %.1f FLOP/B\n\n", a->flops / (a->read + a->written));
}

static void put_here(cn_text *t, const work *w, const here *h, double batch)
{
  const double times[] = {h->expected, h->took}, peak = h->m->fma > 0 ? h->m->fma : h->m->product;
  cn_text_put(t, "\n");
  for (int i = 0; i < 2; i++) {
    if (times[i] <= 0) continue;
    text_putf(t, "%-16s %-7s", i ? "  run" : "this machine", "fp32");
    put_amount(t, 10, times[i], "s");
    put_amount(t, 10, batch / times[i], "/s");
    text_putf(t, " %6s %6s %5.1f%%", "", "", 100 * w->all.flops / times[i] / peak);
    if (i) text_putf(t, "  expected %+.0f %%", 100 * (h->expected / h->took - 1));
    cn_text_put(t, i ? "\n" : "  by its probes\n");
  }
}

static void print_network(const work *w, const compare_options *o, const here *h)
{
  cn_text t = {0};
  estimate e;
  put_network(&t, w, o);
  text_putf(&t, "%-16s %-7s %10s %10s %6s %6s %6s %9s %9s %11s\n", "processor", "type", "time", "samples", "memory",
            "launch", "peak", "switching", "by watts", "$/million");
  for (size_t i = 0; processor_at(i); i++) {
    const processor *p = processor_at(i);
    if (!wanted(p, o->only)) continue;
    estimate_of(&e, p, w, &o->how);
    put_estimate(&t, p, &e, (double)o->subject.batch);
  }
  if (h->m) put_here(&t, w, h, (double)o->subject.batch);
  cn_text_put(&t, "\nBy the roofline model: each op takes what the slower of arithmetic and memory takes, and a "
                  "launch. memory, launch:\nof the time; switching: energy of operations and bytes alone; by watts: "
                  "the design power all the time; $: at --price\nan hour, or the launch price over three years, for a "
                  "million samples.\n");
  fputs(t.s ? t.s : "", stdout);
  cn_text_free(&t);
}

static cn_tree *tree_of_estimate(const estimate *e)
{
  cn_tree *t = cn_tree_dict();
  json_text(t, "type", e->type < 0 ? "" : processor_types[e->type]);
  json_number(t, "seconds", e->type < 0 ? NAN : e->time);
  json_number(t, "seconds_memory_bound", e->memory);
  json_number(t, "seconds_of_launches", e->launch);
  json_number(t, "bytes", e->bytes);
  json_number(t, "joules_of_switching", e->switching > 0 ? e->switching : NAN);
  json_number(t, "joules_of_design_power", e->power > 0 ? e->power : NAN);
  json_number(t, "dollars", e->dollars > 0 ? e->dollars : NAN);
  cn_tree_put(t, "weights_fit", cn_tree_bool(e->fits));
  return t;
}

static cn_tree *tree_of_network(const work *w, const compare_options *o)
{
  cn_tree *t = cn_tree_dict();
  json_text(t, "network", o->subject.what);
  cn_tree_put(t, "training", cn_tree_bool(o->subject.train));
  json_number(t, "batch", (double)o->subject.batch);
  json_number(t, "ops", (double)w->n);
  json_number(t, "flops", w->all.flops);
  json_number(t, "flops_in_products", w->all.products);
  json_number(t, "bytes", w->all.read + w->all.written);
  json_number(t, "bytes_of_weights", w->parameters);
  json_number(t, "flops_per_byte", w->all.flops / (w->all.read + w->all.written));
  return t;
}

static cn_tree *tree_of_here(const here *h, const work *w)
{
  cn_tree *t = machine_tree(h->m), *ops = cn_tree_dict();
  for (size_t i = 0; w && i < w->n; i++) {
    double before = cn_tree_as_float(cn_tree_get(ops, w->v[i].op), 0);
    json_number(ops, w->v[i].op, before + machine_time_of(h->m, &w->v[i], w->parameters));
  }
  if (w) cn_tree_put(t, "expected_seconds_by_op", ops);
  else cn_tree_free(ops);
  if (h->expected > 0) json_number(t, "expected_seconds", h->expected);
  if (h->took > 0) json_number(t, "measured_seconds", h->took);
  return t;
}

static int print_json(const work *w, const compare_options *o, const here *h)
{
  cn_tree *all = cn_tree_dict(), *rows = cn_tree_list();
  estimate e;
  for (size_t i = 0; processor_at(i); i++) {
    const processor *p = processor_at(i);
    if (!wanted(p, o->only)) continue;
    cn_tree *row = tree_of_facts(p);
    if (w) estimate_of(&e, p, w, &o->how);
    if (w) cn_tree_put(row, "estimate", tree_of_estimate(&e));
    cn_tree_push(rows, row);
  }
  if (w) cn_tree_put(all, "work", tree_of_network(w, o));
  if (h->m) cn_tree_put(all, "this_machine", tree_of_here(h, w));
  cn_tree_put(all, "processors", rows);
  return text_print_json(all);
}

/* ---- all ---- */

/* The fastest of the runs of two seconds, as the probes have it. */
static int run_here(here *h, const compare_options *o)
{
  subject s = {.m = {NULL, NULL, false}};
  int status = subject_open(&s, &o->subject);
  int runs = status ? -1 : subject_count_runs(&s, 0, 2);
  for (int i = 0; i < runs && !status; i++) {
    double begin = machine_clock();
    status = subject_run(&s);
    double took = machine_clock() - begin;
    if (!i || took < h->took) h->took = took;
  }
  subject_close(&s);
  return runs < 0 ? cn_err() : status;
}

static int compare_network(const compare_options *o, here *h)
{
  subject s = {.m = {NULL, NULL, false}};
  subject_wanted wanted = o->subject;
  work w = {NULL};
  wanted.traced = true;
  int status = subject_open(&s, &wanted);
  if (!status) status = work_of(&w, s.graph);
  subject_close(&s);
  if (!status && h->m) h->expected = machine_time(h->m, &w);
  if (!status && o->run) status = run_here(h, o);
  if (!status && o->json) status = print_json(&w, o, h);
  else if (!status) print_network(&w, o, h);
  work_free(&w);
  return status;
}

int compare_run(const compare_options *o)
{
  machine *m = NULL;
  int status = check_only(o->only);
  if (!status && !o->facts) {
    m = cn_alloc_zero(sizeof *m);
    status = m ? machine_measure(m) : cn_err();
  }
  here h = {.m = m};
  if (!status && o->subject.what) status = compare_network(o, &h);
  else if (!status && o->json) status = print_json(NULL, o, &h);
  else if (!status) {
    print_facts(o);
    if (m) machine_print(m);
  }
  cn_free(m, sizeof *m);
  return status;
}
