/* resample.h: the words for the ways to resample along a dim, for the rules and the kernels.
 *
 * Invariant: the names are those of the mode argument of resample. */
#ifndef CNI_OPS_RESAMPLE_H
#define CNI_OPS_RESAMPLE_H

#include <string.h>

enum cni_resample_mode { CNI_NEAREST, CNI_NEAREST_EXACT, CNI_LINEAR, CNI_CUBIC };

/* By name; -1 when there is none. */
static inline int cni_resample_mode_find(const char *name)
{
  static const char *const names[] = {"nearest", "nearest-exact", "linear", "cubic"};
  for (int i = 0; i < 4; i++)
    if (!strcmp(name, names[i])) return i;
  return -1;
}

#endif
