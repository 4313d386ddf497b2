/* report.h: a profile of a network's runs, added up by op, by module and by layer, against what this machine reaches.
 *
 * Place in the flow: profile.c lets the network run; report.c adds up, report_text.c prints and writes JSON and traces,
 * roofline_svg.c draws. Invariant: times are seconds of one run, the mean of all of them; of an entry it is what no
 * entry inside of it took. */
#ifndef CAIRN_COMMAND_REPORT_H
#define CAIRN_COMMAND_REPORT_H

#include <cairn/cairn.h>
#include <cairn/ext/system.h>
#include <cairn/profile.h>

#include "subject.h"

typedef struct report_row {
  const char *name, *op; /* of the profile; a layer has both: its module and the op */
  int depth;             /* of modules: how many they stand in */
  double calls, time, flops, bytes; /* of one run */
} report_row;

typedef struct report_rows {
  report_row *v;
  size_t n, cap;
} report_rows;

typedef struct report_point {
  double time; /* from the beginning of the run */
  int64_t held;
} report_point;

typedef struct report {
  const char *what, *how; /* the network; "forward", "training step, compiled" */
  int64_t shape[CN_MAX_DIMS];
  size_t ndim;
  int threads, runs;
  double gflops, gbps;    /* of the machine */
  double cache_gbps[3];   /* copies within L1, L2, L3; 0: not measured */
  double time;            /* of one run, from its beginning to its end */
  report_row all;         /* the sum of all ops */
  report_rows ops, modules, layers;
  report_point *memory;   /* of the last run */
  size_t npoints, memory_cap;
  int64_t most;           /* that tensors held at once, above the least that they held during it */
  bool planned;           /* values of a run lie in a program's own block, which is no tensor's */
  size_t held;            /* bytes that the process had in use at most, weights included */
} report;

/* begins: when each run began, and behind it when the last one ended. 0 or a negative status; report_free always. */
int report_of(report *r, const cn_profile *p, const double *begins);
void report_free(report *r);
/* What is reached of what can be: the machine's rate, or what memory lets through for so little arithmetic. */
double report_roof(const report *r, const report_row *row); /* in GFLOP/s */
bool report_is_memory_bound(const report *r, const report_row *row);

/* ---- profile.c: lets a subject run under a profile, and reports; asked: runs, 0: as many as take two seconds. The
 * profile is owned by the caller, NULL with the error set; report_free in any case. ---- */
cn_profile *report_measure(report *r, subject *s, const subject_wanted *w, int64_t asked);

/* ---- writing: report_text.c ---- */
int report_print(cn_text *t, const report *r, int depth, int most);
int report_json(cn_text *t, const report *r);
int report_trace(cn_text *t, const cn_profile *p);

/* ---- roofline_svg.c ---- */
int roofline_svg(cn_text *t, const report *r);

#endif
