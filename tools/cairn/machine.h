/* machine.h: what this machine's CPU reaches, measured by kinds of work, and what a network should take by that.
 *
 * Place in the flow: machine.c measures once, with a second or two of products, convolutions of usual sizes and passes
 * over memory; machine_model.c adds up a network's nodes. Invariant: what is measured is the machine, never the network
 * that is asked about: there is no number for a network, only for kinds of ops at sizes. */
#ifndef CAIRN_COMMAND_MACHINE_H
#define CAIRN_COMMAND_MACHINE_H

#include "work.h"

enum { MACHINE_LEVELS = 4, MACHINE_PROBES = 64, MACHINE_STREAMS = 24, MACHINE_SIZES = 3 };

/* Kinds of products whose rates differ, for reasons of their own: transforms of windows, strides, groups, and weights
 * that are read for a few rows. */
typedef enum machine_kind {
  MACHINE_WINDOW, MACHINE_STRIDED, MACHINE_POINT, MACHINE_GROUPED, MACHINE_PRODUCT, MACHINE_ATTENTION
} machine_kind;

typedef struct machine_probe {
  machine_kind kind;
  double m, k, n, taps;
  double rate; /* operations a second */
} machine_probe;

typedef struct machine_stream {
  const char *op;
  double bytes[MACHINE_SIZES], rate[MACHINE_SIZES]; /* of the larger of input and result, a second */
} machine_stream;

typedef struct machine {
  char name[128], isa[64];
  int threads;
  double fma, product;         /* operations a second of float32: in registers; a large product's */
  double level[MACHINE_LEVELS]; /* bytes of L1, L2, L3; the last: memory, without limit. 0: there is none */
  double copy[MACHINE_LEVELS], read[MACHINE_LEVELS]; /* bytes a second: read and written; of weights, by a product */
  double launch;               /* seconds of an op that has nothing to do */
  machine_probe probes[MACHINE_PROBES];
  size_t nprobes;
  machine_stream streams[MACHINE_STREAMS];
  size_t nstreams;
} machine;

/* Seconds: processor time of this process while it computes with one thread, so that others on the machine do not
 * count; else those of a clock. */
double machine_clock(void);
int machine_measure(machine *m);
int machine_measure_roofs(machine *m); /* a large product, caches and memory alone */
/* Its speed in multiply-adds by the widest vectors there are, in one thread; 0: nobody wrote that loop. */
double machine_multiply_adds(void);
void machine_print(const machine *m);

/* ---- machine_model.c ---- */
/* Seconds of a node, in a network with so many bytes of weights. */
double machine_time_of(const machine *m, const work_node *n, double parameters);
double machine_time(const machine *m, const work *w);
machine_kind machine_kind_of(const work_node *n);
cn_tree *machine_tree(const machine *m);

#endif
