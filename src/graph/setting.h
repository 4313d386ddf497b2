/* setting.h: what CAIRN_COMPILE asks for.
 *
 * Place in the flow: compile/ decides by it whether and how calls run; what makes code of graphs asks whether it must
 * round as eager does. */
#ifndef CNI_GRAPH_SETTING_H
#define CNI_GRAPH_SETTING_H

#include <stdbool.h>

enum cni_compile_mode {
  CNI_COMPILE_ON,
  CNI_COMPILE_OFF,   /* every call runs as it is */
  CNI_COMPILE_CHECK, /* ... and beside its program, which must give the same */
  CNI_COMPILE_EXACT  /* results are eager's to the bit, also where that costs time */
};
/* As the environment says now; what it does not know is warned of once, and counts as on. */
enum cni_compile_mode cni_compile_setting(void);
static inline bool cni_compile_exact(void) { return cni_compile_setting() >= CNI_COMPILE_CHECK; }

#endif
