/* time.c: `cairn time`: what an ONNX model's run takes, node by node and compiled, and what of it each operator takes.
 *
 * Place in the flow: onnx.c runs the model; operators are the ranges that the importer opens in a profile, those of the
 * compiled model the nodes of its program (report.c). Invariant: totals are measured without a profile. */
#include <cairn/cairn.h>
#include <cairn/ext/system.h>
#include <cairn/profile.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "onnx.h"
#include "report.h"

const char help_time[] =
    "  --runs N            so many runs; as many as take two seconds, at least 3\n"
    "  --nodes             each node by itself, instead of each operator\n"
    "  --rows N            so many operators; 20\n" ONNX_HELP_INPUT ONNX_HELP_RANDOM ONNX_HELP_IMAGE ONNX_HELP_WHERE;

enum { MOST_RUNS = 1000 };

typedef struct wanted {
  const char *path;
  int64_t runs, rows;
  bool nodes;
} wanted;

/* ---- totals ---- */

typedef struct total {
  double first, median, least; /* seconds */
  int runs;
} total;

static int by_number(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double timed(onnx_subject *s)
{
  double begin = cn_clock();
  return onnx_run(s) ? -1 : cn_clock() - begin;
}

/* The first run compiles; a few more fill caches. */
static int measure(total *t, onnx_subject *s, int64_t asked)
{
  double all[MOST_RUNS], warm = 0;
  if ((t->first = timed(s)) < 0) return cn_err();
  for (int i = 0; i < 2; i++)
    if ((warm = timed(s)) < 0) return cn_err();
  double fit = asked ? (double)asked : warm > 0 ? 2 / warm : MOST_RUNS;
  t->runs = (int)fmin(fmax(fit, asked ? 1 : 3), MOST_RUNS);
  for (int i = 0; i < t->runs; i++)
    if ((all[i] = timed(s)) < 0) return cn_err();
  qsort(all, (size_t)t->runs, sizeof *all, by_number);
  t->least = all[0];
  t->median = all[t->runs / 2];
  return CN_OK;
}

/* ---- by operator ---- */

typedef struct row {
  char name[128];
  double time; /* seconds of one run */
  int64_t calls;
} row;

typedef struct rows {
  row *v;
  size_t n, cap;
  double all;
} rows;

static int add_row(rows *r, const char *name, size_t length, double time)
{
  char key[sizeof r->v->name];
  size_t i = 0;
  snprintf(key, sizeof key, "%.*s", (int)length, name);
  while (i < r->n && strcmp(r->v[i].name, key) != 0) i++;
  if (i == r->n) {
    if (cn_grow((void **)&r->v, &r->cap, r->n + 1, sizeof *r->v)) return cn_err();
    r->v[r->n] = (row){.time = 0};
    memcpy(r->v[r->n++].name, key, sizeof key);
  }
  r->v[i].time += time;
  r->v[i].calls++;
  r->all += time;
  return CN_OK;
}

static int by_time(const void *a, const void *b)
{
  double x = ((const row *)a)->time, y = ((const row *)b)->time;
  return (x < y) - (x > y);
}

static void print_rows(const rows *r, int64_t most, const char *what)
{
  printf("\n%-40s %7s %10s %6s\n", what, "calls", "ms", "part");
  for (size_t i = 0; i < r->n && i < (size_t)most; i++)
    printf("%-40s %7lld %10.3f %5.1f%%\n", r->v[i].name, (long long)r->v[i].calls, 1e3 * r->v[i].time,
           r->all > 0 ? 100 * r->v[i].time / r->all : 0);
}

/* Ranges are nodes, "Conv conv1"; what a node takes is without those inside of it. */
static int add_ranges(rows *r, const cn_profile *p, bool nodes)
{
  size_t n = cn_profile_count(p), open[256], depth = 0;
  double *own = cn_alloc_zero((n + 1) * sizeof *own);
  cn_profile_entry e = {.size = sizeof e};
  for (size_t i = 0; own && i < n && !cn_profile_at(&e, p, i); i++) {
    if (!e.range) continue;
    cn_profile_entry around = {.size = sizeof around};
    while (depth && (cn_profile_at(&around, p, open[depth - 1]) || around.depth >= e.depth)) depth--;
    own[i] = e.end - e.begin;
    if (depth) own[open[depth - 1]] -= own[i];
    if (depth < 256) open[depth++] = i;
  }
  for (size_t i = 0; own && i < n && !cn_err() && !cn_profile_at(&e, p, i); i++)
    if (e.range) add_row(r, e.name, nodes ? strlen(e.name) : strcspn(e.name, " "), own[i]);
  cn_free(own, (n + 1) * sizeof *own);
  return cn_err();
}

static int by_operator(onnx_subject *s, const wanted *w)
{
  rows r = {NULL, 0, 0, 0};
  cn_profile *p = cn_profile_begin(0);
  int status = p ? onnx_run(s) : cn_err();
  if (p && !status) status = cn_profile_end(p);
  if (!status) status = add_ranges(&r, p, w->nodes);
  if (r.n) qsort(r.v, r.n, sizeof *r.v, by_time);
  if (!status) print_rows(&r, w->rows, w->nodes ? "node" : "operator");
  cn_free(r.v, r.cap * sizeof *r.v);
  cn_profile_free(p);
  return status;
}

/* The program's own nodes. */
static int by_node(onnx_subject *s, const wanted *w)
{
  report r = {.runs = 1};
  rows list = {NULL, 0, 0, 0};
  double begins[2] = {cn_clock(), 0};
  cn_profile *p = cn_profile_begin(CN_PROFILE_NODES);
  int status = p ? onnx_run(s) : cn_err();
  begins[1] = cn_clock();
  if (p && !status) status = cn_profile_end(p);
  if (!status) status = report_of(&r, p, begins);
  for (size_t i = 0; i < r.ops.n && !status; i++) {
    status = add_row(&list, r.ops.v[i].op, strlen(r.ops.v[i].op), r.ops.v[i].time);
    if (!status) list.v[list.n - 1].calls = (int64_t)r.ops.v[i].calls;
  }
  if (!status) print_rows(&list, w->rows, "compiled: op, or group of ops");
  cn_free(list.v, list.cap * sizeof *list.v);
  report_free(&r);
  cn_profile_free(p);
  return status;
}

/* ---- both ways ---- */

static void print_total(const char *how, const total *t)
{
  printf("%-9s %10.3f ms, the fastest %.3f, the first %.3f; %d runs\n", how, 1e3 * t->median, 1e3 * t->least,
         1e3 * t->first, t->runs);
}

static int measure_all(onnx_subject *eager, onnx_subject *compiled, const wanted *w)
{
  total t;
  bool both = compiled->compiled != NULL;
  printf("%s, %d threads\n\n", w->path, cn_num_threads());
  if (measure(&t, eager, w->runs)) return cn_err();
  print_total("eager", &t);
  if (both && measure(&t, compiled, w->runs)) return cn_err();
  both = both && !*compiled->why;
  if (both) print_total("compiled", &t);
  else printf("compiled  not possible%s%s\n", *compiled->why ? ": " : "", compiled->why);
  if (by_operator(eager, w)) return cn_err();
  return both ? by_node(compiled, w) : CN_OK;
}

int command_time(int argc, char **argv)
{
  wanted w = {.rows = 20};
  const char *runs = NULL, *most = NULL;
  onnx_options o = {.random = true};
  onnx_subject eager = {NULL}, compiled = {NULL};
  const command_flag flags[] = {{"--runs", &runs, NULL},         {"--nodes", NULL, &w.nodes},
                                {"--rows", &most, NULL},         {"--mean", &o.mean, NULL},
                                {"--std", &o.std, NULL},         {"--device", &o.device, NULL},
                                {"--threads", &o.threads, NULL}, {NULL, NULL, NULL}};
  if (!onnx_take_options(&o, &argc, argv)) return 2;
  int n = command_parse(argc, argv, flags, &w.path, 1);
  if (n < 0) return 2;
  if (!n) return command_missing(argv[0], "which model?");
  if (!command_whole(&w.runs, runs) || w.runs < 0 || w.runs > MOST_RUNS) return command_usage(argv[0], runs);
  if (!command_whole(&w.rows, most) || w.rows < 1) return command_usage(argv[0], most);
  int status = onnx_place(&o);
  if (!status) status = onnx_open(&eager, w.path, &o, false);
  if (!status) status = onnx_open_beside(&compiled, w.path, &eager, true);
  if (!status) status = measure_all(&eager, &compiled, &w);
  onnx_close(&eager);
  onnx_close(&compiled);
  return status || cn_err() ? command_failed() : 0;
}
