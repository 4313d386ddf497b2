/* hooks.h: what lower layers call in upper ones, filled by init.c: the only upward calls there are.
 *
 * Invariant: every entry may be NULL until cni_init has run, and callers check it. */
#ifndef CNI_BASE_HOOKS_H
#define CNI_BASE_HOOKS_H

#include <cairn/base.h>

struct cni_storage;
struct cni_node;
struct cn_tensor;
struct cni_opinfo;
struct cn_call;
struct cni_replayed;
struct cni_program;

struct cni_storage;
typedef struct cni_hooks_table {
  void (*state_exit)(cn_state *state);         /* tensor: empties the scopes of a dying state */
  void (*backend_exit)(cn_state *state);       /* backends/common: what the dispatcher keeps for a dying thread */
  void (*node_free)(struct cni_node *node);    /* autograd: frees a node that nobody refers to */
  int (*copy_guarded)(struct cni_storage *s);  /* autograd: s is about to be written to; see autograd/node.h */
  const char *(*node_label)(const struct cni_node *node); /* autograd: name of the op a node records; NULL: a leaf */
  int (*leaf_touched)(struct cn_tensor *t, struct cni_node *node, bool replaced); /* graph: see graph/capture.h */
  void (*capture_hooked)(void); /* graph: the code that is captured hangs a hook on a gradient */
  int (*capture_saves)(struct cn_tensor *alias, struct cn_tensor *view); /* graph: see graph/capture.h */
  bool (*takes_shortcut)(bool could); /* graph: in a trace that is one of several; see graph/capture.h */
  void (*tensor_memory)(cn_device device, int64_t bytes); /* ops: a tensor took memory or gave it back, while somebody
                                                           * asks (cni_tensors_watched) */
  int (*place_read)(struct cn_tensor *t); /* graph: an op depends on where t lies in its memory; see graph/capture.h */
  /* graph: around the decomposition of a composite op that is captured; see graph/capture.h */
  int (*scope_call_begin)(const struct cni_opinfo *info, const struct cn_call *call);
  int (*scope_call_end)(int scope, const struct cn_call *call, int status);
  /* graph: what stands for a tensor in the sub-graph that is captured (CNI_MODE_INSIDE); NULL with the error set */
  struct cn_tensor *(*bring_inside)(struct cn_tensor *t);
  struct cn_tensor *(*bring_written)(struct cn_tensor *t); /* ... one that is about to be written to */
  /* compile: a branch or loop of a graph that is replayed; see graph/control.h. Borrowed results */
  int (*replay_control)(struct cn_tensor **out, const struct cni_replayed *call);
  /* backends/cpu: code of these programs is wanted, in place of their steps (jit.h) */
  void (*code_wanted)(const struct cni_program *const *programs, size_t n);
  bool (*code_waits)(void); /* ... and whoever wants it is to say so before it is needed */
  bool (*has_code)(const struct cni_program *program);
  size_t (*code_made)(void); /* programs that ever got some */
} cni_hooks_table;

extern cni_hooks_table cni_hooks;

#endif
