/* profile.c: `cairn profile`: what a network's runs take on this machine, by op and by module, and what bounds them.
 *
 * Place in the flow: the network, or a saved graph, runs a few times under a profile; report.c adds up. Invariant: only
 * the sizes of inputs matter to what is measured, so they are random. */
#include <cairn/cairn.h>
#include <cairn/ext/system.h>
#include <cairn/profile.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "report.h"
#include "subject.h"
#include "text.h"

const char help_profile[] =
    SUBJECT_HELP_NETWORK
    "\n" SUBJECT_HELP_INPUT
    "  --compiled       as one program\n"
    "  --threads N      so many threads; all\n"
    "  --runs N         so many runs; as many as take two seconds, at least 3\n"
    "  --depth N        modules inside of up to N others; 2\n"
    "  --rows N         so many ops; 20\n"
    "  --json FILE      all numbers\n"
    "  --trace FILE     the runs on a time line, for https://ui.perfetto.dev\n"
    "  --roofline FILE  a picture (.svg): what ops reach of what this machine lets them\n";

typedef struct wanted {
  subject_wanted subject;
  const char *json, *trace, *roofline;
  int64_t threads, runs, depth, rows;
} wanted;

/* ---- measuring ---- */

static cn_profile *profile_runs(subject *s, int runs, double *begins)
{
  cn_profile *p = cn_profile_begin(CN_PROFILE_SHAPES | CN_PROFILE_COSTS | CN_PROFILE_MODULES | CN_PROFILE_NODES |
                                   CN_PROFILE_MEMORY | CN_PROFILE_DEVICES);
  int status = p ? CN_OK : cn_err();
  for (int i = 0; i < runs && !status; i++) {
    begins[i] = cn_clock();
    status = subject_run(s);
  }
  begins[runs] = cn_clock();
  if (p && !status) status = cn_profile_end(p);
  if (!status) return p;
  cn_profile_free(p);
  return NULL;
}

cn_profile *report_measure(report *r, subject *s, const subject_wanted *w, int64_t asked)
{
  double begins[SUBJECT_RUNS + 1];
  cn_memory_stats stats;
  *r = (report){.what = w->what, .ndim = s->ndim, .threads = cn_num_threads()};
  r->how = w->train ? w->compiled ? "training steps, compiled" : "training steps"
           : w->compiled ? "forward, compiled" : s->graph ? "a graph" : "forward";
  r->planned = w->compiled || s->graph;
  memcpy(r->shape, s->shape, sizeof r->shape);
  if ((r->runs = subject_count_runs(s, asked, 2)) < 0) return NULL;
  cn_memory_reset_peak();
  cn_profile *p = profile_runs(s, r->runs, begins);
  cn_memory_get_stats(&stats);
  r->held = stats.peak;
  int status = p ? cn_device_measure(&r->gflops, &r->gbps, CN_CPU) : cn_err();
  if (!status) status = report_of(r, p, begins);
  if (!status) return p;
  cn_profile_free(p);
  return NULL;
}

static int write_all(const report *r, const cn_profile *p, const wanted *w)
{
  cn_text table = {0}, json = {0}, trace = {0}, picture = {0};
  int status = report_print(&table, r, (int)w->depth, (int)w->rows);
  if (!status) fputs(table.s ? table.s : "", stdout);
  if (!status && w->json && !(status = report_json(&json, r))) status = text_write(w->json, &json);
  if (!status && w->trace && !(status = report_trace(&trace, p))) status = text_write(w->trace, &trace);
  if (!status && w->roofline && !(status = roofline_svg(&picture, r))) status = text_write(w->roofline, &picture);
  cn_text_free(&table);
  cn_text_free(&json);
  cn_text_free(&trace);
  cn_text_free(&picture);
  return status;
}

static int measure(subject *s, const wanted *w)
{
  report r;
  cn_profile *p = report_measure(&r, s, &w->subject, w->runs);
  int status = p ? write_all(&r, p, w) : cn_err();
  report_free(&r);
  cn_profile_free(p);
  return status;
}

/* ---- the command ---- */

static bool whole(int64_t *value, const char *text, int64_t least, int64_t most)
{
  return command_whole(value, text) && *value >= least && *value <= most;
}

int command_profile(int argc, char **argv)
{
  wanted w = {.depth = 2, .rows = 20};
  const char *batch = NULL, *threads = NULL, *runs = NULL, *depth = NULL, *rows = NULL, *wrong;
  const command_flag flags[] = {
    {"--input", &w.subject.sizes, NULL}, {"--batch", &batch, NULL},    {"--train", NULL, &w.subject.train},
    {"--compiled", NULL, &w.subject.compiled}, {"--threads", &threads, NULL}, {"--runs", &runs, NULL},
    {"--depth", &depth, NULL},   {"--rows", &rows, NULL},      {"--json", &w.json, NULL},
    {"--trace", &w.trace, NULL}, {"--roofline", &w.roofline, NULL}, {NULL, NULL, NULL}};
  int n = command_parse(argc, argv, flags, &w.subject.what, 1);
  if (n < 0) return 2;
  if (!n) return command_missing(argv[0], "which network?");
  if (!subject_sizes(&w.subject, batch, &wrong)) return command_usage(argv[0], wrong);
  if (!whole(&w.threads, threads, 0, 4096)) return command_usage(argv[0], threads);
  if (!whole(&w.runs, runs, 0, SUBJECT_RUNS) || (runs && !w.runs)) return command_usage(argv[0], runs);
  if (!whole(&w.depth, depth, 0, INT_MAX)) return command_usage(argv[0], depth);
  if (!whole(&w.rows, rows, 0, INT_MAX)) return command_usage(argv[0], rows);
  if (w.threads) cn_set_num_threads((int)w.threads);
  subject s = {.m = {NULL, NULL, false}};
  int status = subject_open(&s, &w.subject);
  if (!status) status = measure(&s, &w);
  subject_close(&s);
  return status || cn_err() ? command_failed() : 0;
}
