/* subject.h: what `cairn profile` and those that look at hardware let run: a network or a saved graph, with inputs of
 * the right sizes.
 *
 * Place in the flow: model.h finds the network; a command opens a subject, and runs it, or reads its graph. Invariant:
 * only the sizes of inputs matter, so they are random. */
#ifndef CAIRN_COMMAND_SUBJECT_H
#define CAIRN_COMMAND_SUBJECT_H

#include <cairn/cairn.h>
#include <cairn/optimisers.h>

#include "model.h"

typedef struct subject_wanted {
  const char *what, *sizes; /* a network, and the sizes of a sample; NULL: its own */
  int64_t batch;
  bool train, compiled;
  bool traced; /* nothing runs: its graph alone is wanted */
} subject_wanted;

typedef struct subject {
  model m;
  cn_graph *graph; /* owned: a saved one, or that of a traced network, its calls whole; NULL: a network that runs */
  cn_optim *optim; /* of training steps */
  cn_compiled *compiled;
  cn_tensor **inputs; /* owned, each of them too */
  size_t ninputs;
  int64_t shape[CN_MAX_DIMS];
  size_t ndim;
} subject;

/* 0 or a negative status; subject_close in any case. */
int subject_open(subject *s, const subject_wanted *w);
void subject_close(subject *s);
int subject_run(subject *s);
/* How many runs take so many seconds, after a few that warm up; asked, if not 0. Negative: an error. */
enum { SUBJECT_RUNS = 200 };
int subject_count_runs(subject *s, int64_t asked, double seconds);

/* ---- options that such commands share ---- */
#define SUBJECT_HELP_NETWORK \
  "The network is a FILE.cfg, a name of the zoo, a checkpoint, or a graph that cn_graph_save wrote.\n"
#define SUBJECT_HELP_SIZES \
  "  --input SIZES    of one sample: 3,224,224; for language models the number of tokens\n" \
  "  --batch N        samples at a time; 1\n"
#define SUBJECT_HELP_INPUT SUBJECT_HELP_SIZES "  --train          whole steps: forward, backward, SGD\n"
/* Reads --batch's text and checks the sizes; false: *wrong is the text that is not understood. */
bool subject_sizes(subject_wanted *w, const char *batch, const char **wrong);

#endif
