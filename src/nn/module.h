/* module.h: what a module is inside: the public head, then counts, slots, children and hooks.
 *
 * Place in the flow: the base of src/nn; layers see the public header and nn.h only. Invariant: slot and child names
 * are unique within a module; a child or slot is owned by whoever lists it. */
#ifndef CNI_NN_MODULE_H
#define CNI_NN_MODULE_H

#include <cairn/ext/system.h>
#include <cairn/module.h>
#include <stdatomic.h>

/* A class with its parsed signatures. */
typedef struct cni_class {
  const cn_module_class *cls;
  cn_signature *sig;  /* NULL: only by cn_module_new */
  cn_signature *call; /* never NULL */
  int ncall;                       /* parameters of call */
  cn_value defaults[CN_MAX_ARGS];  /* of call */
  bool tensor[CN_MAX_ARGS], required[CN_MAX_ARGS];
} cni_class;

/* The entry of a class, made at first sight; NULL with the error set. */
const cni_class *cni_class_of(const cn_module_class *cls);

/* A module of any class, without arguments: whoever calls it for one with a signature puts them in. Owned. */
cn_module *cni_module_bare(const cn_module_class *cls);

typedef struct cni_slot {
  char *name;
  cn_tensor *tensor; /* NULL: absent */
  bool buffer, transient;
  bool hidden; /* removed, but its place is one that the class knows by number: no list shows it */
} cni_slot;

typedef struct cni_child {
  char *name;
  cn_module *module;
} cni_child;

enum cni_module_hook_kind { CNI_HOOK_BEFORE, CNI_HOOK_AFTER, CNI_HOOK_BACKWARD };

typedef struct cni_module_hook {
  enum cni_module_hook_kind kind;
  int64_t id;
  union {
    cn_module_hook call;
    cn_module_grad_hook grad;
  } fn;
  void *payload;
  void (*free)(void *);
} cni_module_hook;

typedef struct cni_module {
  cn_module head; /* must be first */
  const cni_class *entry;
  _Atomic int refs;
  bool training;
  _Atomic(cn_tensor *) mode; /* training, for programs that depend on it and may outlive it; NULL: none does */
  cn_args *args;
  void *object;           /* another language's */
  cn_module_hook forward; /* instead of the class's; NULL: that */
  const char *shown;      /* in print and tables instead of the class's name; NULL: that */
  size_t nown;            /* slots that init made: the class reads them by number */
  cni_slot *slots;
  size_t nslots, slots_cap;
  cni_child *children;
  size_t nchildren, children_cap;
  cni_module_hook *hooks;
  size_t nhooks, hooks_cap;
  int64_t next_hook;
} cni_module;

static inline cni_module *cni_m(const cn_module *m) { return (cni_module *)(uintptr_t)m; }

void cni_set_training(cn_module *m, bool on); /* module.c: its own mode */
const char *cni_module_shown(const cn_module *m); /* object.c: the name that is printed */

/* module.c */
int cni_invoke(cn_tensor **out, size_t nout, cni_module *m, const cn_value *args, bool class_only);
/* All arguments of a call from those given; the error is set when one is missing. */
int cni_call_complete(cni_module *m, cn_value *full, const cn_value *args, size_t nargs);

/* hooks.c */
int cni_hooks_run(cni_module *m, enum cni_module_hook_kind kind, cn_module_call *call);
/* Watches inputs and results, so that the module's backward hooks run in backward. May replace args' tensors. */
int cni_hooks_watch_inputs(cni_module *m, cn_module_call *call, void **watch);
int cni_hooks_watch_results(cni_module *m, cn_module_call *call, void *watch); /* takes watch over */
void cni_hooks_unwatch(void *watch); /* when the call failed in between */
bool cni_hooks_any(const cni_module *m, enum cni_module_hook_kind kind);
void cni_hooks_free(cni_module *m);

#endif
