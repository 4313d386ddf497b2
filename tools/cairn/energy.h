/* energy.h: joules that the machine's own counters show: RAPL of CPUs (/sys/class/powercap), NVML of NVIDIA's GPUs.
 *
 * Place in the flow: commands that run something read before and after. Invariant: what cannot be read is absent, never
 * zero; counters are of the whole chip, so others on the machine are in them. */
#ifndef CAIRN_COMMAND_ENERGY_H
#define CAIRN_COMMAND_ENERGY_H

#include <cairn/base.h>

enum { ENERGY_METERS = 16 };

typedef struct energy_meter {
  char name[64]; /* "package-0", "GPU 0" */
  char path[512]; /* of RAPL's counter; "": NVML's */
  int gpu;
  double at, range; /* joules; at which RAPL's begins again */
  double used;      /* since the beginning, once it has ended */
} energy_meter;

typedef struct energy {
  energy_meter v[ENERGY_METERS];
  int n;
} energy;

/* folder: NULL: /sys/class/powercap. Sets no error: n is 0 where nothing can be read. */
void energy_begin(energy *e, const char *folder);
void energy_end(energy *e);

#endif
