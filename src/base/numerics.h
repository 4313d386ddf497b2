/* numerics.h: how far devices may round, and whether their results repeat (device.h), for kernels and keys. */
#ifndef CNI_NUMERICS_H
#define CNI_NUMERICS_H

#include <cairn/device.h>

/* All of it in one number: two settings that are equal give the same. */
int cni_numerics(void);
/* For an op that adds in no fixed order, with a name that stays: 0, or the error where results must repeat; where
 * that is a wish, one warning. */
int cni_not_deterministic(const char *op);

#endif
