/* profile.h: the profile mode (cairn/profile.h): what apply and graphs' runs call. See profile.c. */
#ifndef CNI_OPS_PROFILE_H
#define CNI_OPS_PROFILE_H

#include <cairn/profile.h>

struct cni_applying;
int cni_profile_mode(struct cni_applying *a);
/* Around a graph's run on a device; nothing where no profile is on. */
void cni_profile_graph_begin(cn_device device);
void cni_profile_graph_end(void);

#endif
