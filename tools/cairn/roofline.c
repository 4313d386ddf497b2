/* roofline.c: `cairn roofline`: a network's layers as points under what this machine can do at most, and the energy of
 * a run where the machine counts it.
 *
 * Place in the flow: profile.c measures the layers, machine.c the roofs, energy.c reads counters, roofline_svg.c draws.
 * Invariant: energy is read around runs of their own, without a profile. */
#include <cairn/cairn.h>
#include <stdio.h>

#include "command.h"
#include "energy.h"
#include "machine.h"
#include "report.h"
#include "text.h"

const char help_roofline[] =
    SUBJECT_HELP_NETWORK
    "\n"
    "  -o FILE.svg      the picture\n"
    SUBJECT_HELP_INPUT
    "  --compiled       as one program\n"
    "  --threads N      so many threads; all\n"
    "  --runs N         so many runs; as many as take two seconds, at least 3\n"
    "  --powercap DIR   where the system shows the counters of energy; /sys/class/powercap\n"
    "  --json           all numbers\n";

typedef struct wanted {
  subject_wanted subject;
  const char *picture, *powercap;
  int64_t runs;
  bool json;
} wanted;

/* Joules of one run, from several in a row. */
static int measure_energy(energy *e, subject *s, const wanted *w, int runs)
{
  int status = CN_OK;
  energy_begin(e, w->powercap);
  for (int i = 0; i < runs && !status && e->n; i++) status = subject_run(s);
  energy_end(e);
  for (int i = 0; i < e->n; i++) e->v[i].used /= runs;
  return status;
}

static void print_energy(const energy *e, const report *r)
{
  if (!e->n) printf("energy: this machine shows no counters (RAPL in /sys/class/powercap, NVML)\n");
  for (int i = 0; i < e->n; i++) {
    cn_text t = {0};
    text_amount(&t, e->v[i].used, "J a run, ");
    text_amount(&t, e->v[i].used / r->time, "W");
    if (e->v[i].used > 0) cn_text_put(&t, ", "), text_amount(&t, r->all.flops / e->v[i].used, "FLOP/J");
    printf("energy: %s: %s\n", e->v[i].name, t.s ? t.s : "");
    cn_text_free(&t);
  }
}

static void print_points(const report *r)
{
  printf("%-34s %-24s %10s %10s %9s %8s\n", "module", "op", "FLOP/B", "GFLOP/s", "of roof", "of time");
  for (size_t i = 0; i < r->layers.n; i++) {
    const report_row *row = &r->layers.v[i];
    if (row->flops <= 0 || row->bytes <= 0 || row->time <= 0) continue;
    double rate = row->flops / row->time / 1e9;
    printf("%-34.34s %-24.24s %10.2f %10.1f %8.1f%% %7.1f%%\n", row->name, row->op, row->flops / row->bytes, rate,
           100 * rate / report_roof(r, row), 100 * row->time / r->time);
  }
  printf("\nroofs: %.0f GFLOP/s (float32 product), %.1f GB/s (copy of memory)\n", r->gflops, r->gbps);
}

static int print_json(const report *r, const energy *e)
{
  cn_text t = {0};
  int status = report_json(&t, r);
  cn_tree *all = status ? NULL : cn_tree_from_json(t.s, t.n), *list = cn_tree_dict();
  for (int i = 0; i < e->n; i++) json_number(list, e->v[i].name, e->v[i].used);
  if (all) cn_tree_put(all, "joules", list);
  else cn_tree_free(list);
  cn_text_free(&t);
  return text_print_json(all);
}

static int draw(const report *r, const wanted *w)
{
  cn_text t = {0};
  int status = roofline_svg(&t, r);
  if (!status) status = text_write(w->picture, &t);
  cn_text_free(&t);
  return status;
}

/* Copies within caches are roofs, too: of layers whose data is still there. */
static int measure_roofs(report *r)
{
  machine *m = cn_alloc_zero(sizeof *m);
  int status = m ? machine_measure_roofs(m) : cn_err();
  for (int i = 0; !status && i < 3; i++) r->cache_gbps[i] = m->copy[i] / 1e9;
  if (!status) r->gflops = m->product / 1e9;
  if (!status) r->gbps = m->copy[MACHINE_LEVELS - 1] / 1e9;
  cn_free(m, sizeof *m);
  return status;
}

static int measure(subject *s, const wanted *w)
{
  report r = {.what = w->subject.what};
  energy e = {.n = 0};
  cn_profile *p = report_measure(&r, s, &w->subject, w->runs);
  int status = p ? measure_roofs(&r) : cn_err();
  if (!status) status = measure_energy(&e, s, w, r.runs);
  if (!status) status = draw(&r, w);
  if (!status && w->json) status = print_json(&r, &e);
  else if (!status) {
    print_points(&r);
    print_energy(&e, &r);
  }
  report_free(&r);
  cn_profile_free(p);
  return status;
}

int command_roofline(int argc, char **argv)
{
  wanted w = {.runs = 0};
  const char *batch = NULL, *threads = NULL, *runs = NULL, *wrong;
  int64_t count = 0;
  const command_flag flags[] = {
    {"-o", &w.picture, NULL}, {"--input", &w.subject.sizes, NULL}, {"--batch", &batch, NULL},
    {"--train", NULL, &w.subject.train}, {"--compiled", NULL, &w.subject.compiled}, {"--threads", &threads, NULL},
    {"--runs", &runs, NULL}, {"--powercap", &w.powercap, NULL}, {"--json", NULL, &w.json}, {NULL, NULL, NULL}};
  int n = command_parse(argc, argv, flags, &w.subject.what, 1);
  if (n < 0) return 2;
  if (!n) return command_missing(argv[0], "which network?");
  if (!w.picture) return command_missing(argv[0], "-o says where to");
  if (!subject_sizes(&w.subject, batch, &wrong)) return command_usage(argv[0], wrong);
  if (!command_whole(&count, threads) || count < 0 || count > 4096) return command_usage(argv[0], threads);
  if (!command_whole(&w.runs, runs) || w.runs < 0 || w.runs > SUBJECT_RUNS) return command_usage(argv[0], runs);
  if (count) cn_set_num_threads((int)count);
  subject s = {.m = {NULL, NULL, false}};
  int status = subject_open(&s, &w.subject);
  if (!status) status = measure(&s, &w);
  subject_close(&s);
  return status || cn_err() ? command_failed() : 0;
}
