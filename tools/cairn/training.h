/* training.h: a training run with all that a user wants from it: progress, logs, checkpoints, Ctrl-C. */
#ifndef CAIRN_COMMAND_TRAINING_H
#define CAIRN_COMMAND_TRAINING_H

#include <cairn/train.h>

typedef struct training {
  const char *out; /* the folder of logs and checkpoints */
  cn_device device;
  bool resume;     /* go on from its last checkpoint */
  bool no_best;    /* keep the last weights alone: nothing is chosen by the test data */
  /* afterwards: */
  bool interrupted;
  double loss, accuracy; /* of the last validation; NAN: there is none */
} training;

/* Trains what the description says, which is completed by what the data tell (input, classes, labels) and left in the
 * folder. 0 or a negative status. */
int training_run(training *t, cn_description *d);

#endif
