/* compare.h: what `cairn devices --compare` is asked for. See compare.c. */
#ifndef CAIRN_COMMAND_COMPARE_H
#define CAIRN_COMMAND_COMPARE_H

#include "machine.h"
#include "processors.h"
#include "subject.h"

typedef struct compare_options {
  subject_wanted subject; /* what: NULL: no network */
  const char *only;       /* parts of names, with commas between; NULL: all */
  estimate_options how;
  bool facts; /* this machine is not measured */
  bool run;   /* ... and the network is run here, too */
  bool json;
} compare_options;

int compare_run(const compare_options *o);

#endif
