/* profile.h: the profile mode (cairn/profile.h): what apply, graphs' runs, backward passes, the dispatcher and tensors
 * call. See profile.c. */
#ifndef CNI_OPS_PROFILE_H
#define CNI_OPS_PROFILE_H

#include <cairn/profile.h>

#include "base/state.h"

struct cni_applying;
struct cni_opinfo;
struct cn_call;

static inline bool cni_profiled(void) { return CNI_UNLIKELY(cni_state()->profile != NULL); }

int cni_profile_mode(struct cni_applying *a);
/* Each of the following where a profile is on in this thread. */
/* Around a composite op's decomposition. */
void cni_profile_composite_begin(const struct cni_opinfo *info, const struct cn_call *c);
void cni_profile_composite_end(void);
/* Around a graph's run on a device. */
void cni_profile_graph_begin(cn_device device);
void cni_profile_graph_end(void);
/* Around a node of one. module: whose it is, "" when nobody's. False: nodes are not asked for, and it has not begun. */
bool cni_profile_node_begin(const struct cni_opinfo *info, const struct cn_call *c, const char *module);
void cni_profile_node_end(const struct cn_call *c); /* NULL: it failed, or holds graphs */
/* Around a step of a backward pass. */
void cni_profile_backward_begin(const char *name, uint64_t sequence);
void cni_profile_backward_end(void);
/* A part of the program, as in cn_trace_scope_begin. What end takes, CNI_PROFILE_SCOPE or more; -1: not asked for. */
enum { CNI_PROFILE_SCOPE = 1 << 28 };
int cni_profile_scope_begin(const char *name, const char *kind, const void *owner);
void cni_profile_scope_end(int scope);
const void *cni_profile_scope_owner(void);

/* From anywhere, while some thread has a profile: */
void cni_profile_kernel(const char *name);                   /* that implementation took the call */
void cni_profile_memory(cn_device device, int64_t bytes);    /* a tensor took memory, or gave it back */

#endif
