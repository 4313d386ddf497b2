/* optim.h: what the files of this folder share: how an optimiser is described, and what it keeps.
 *
 * Place in the flow: class tables (sgd.c, adam.c, ...) say how one parameter is updated; optim.c walks groups and
 * parameters; state_dict.c writes and reads state dictionaries. Invariant: every number that changes from step to step
 * is a tensor, so that a captured step goes on counting. */
#ifndef CNI_OPTIM_OPTIM_H
#define CNI_OPTIM_OPTIM_H

#include <cairn/autograd.h>
#include <cairn/ext/op.h>
#include <cairn/ext/system.h>
#include <cairn/optimiser.h>

#include "settings.gen.h"

enum { CNI_OPTIM_STATES = 6, CNI_OPTIM_RATES = 4 };

/* A parameter and what is remembered of it. */
typedef struct cni_memory {
  cn_tensor *param;                   /* kept */
  cn_tensor *state[CNI_OPTIM_STATES]; /* by number of the class's names; NULL: not there yet */
  cn_tensor *rate[CNI_OPTIM_RATES];   /* float64, zero-dimensional: made anew in each step, never saved */
} cni_memory;

typedef struct cni_group {
  cn_args *args;  /* settings; of lr the tensor counts */
  cn_tensor *lr;  /* float64, zero-dimensional, on the host, as are ... */
  cn_tensor *beta, *rest; /* ... the setting that schedules move besides (cls->cycled), and 1 - it; NULL: none is */
  cn_tree *extra; /* a dictionary: what else PyTorch keeps in a group (foreach, initial_lr) */
  cni_memory *v;
  size_t n, cap;
} cni_group;

/* The step of one parameter: what its class updates it from. */
typedef struct cni_param_step {
  const cn_value *a; /* the group's settings: read them with cni_NAME_settings_of, all but lr */
  cn_tensor *lr, *beta, *rest, *param, *grad; /* the first three are the group's */
  cni_memory *m;
  cn_optim *opt;
} cni_param_step;

typedef struct cni_state_name {
  const char *name;
  bool scalar; /* one number, whatever the parameter is: on the host, or where steps are decided (opt->scalars) */
} cni_state_name;

typedef struct cni_optim_class {
  const char *sig, *doc;
  /* A group's dictionary: names in PyTorch's order, without params; "name=value" for what is no argument here. */
  const char *keys;
  cni_state_name states[CNI_OPTIM_STATES];
  cn_tree *(*left_out)(const cn_value *a, const char *name); /* what a setting that is None stands for; may be NULL */
  bool whole_steps; /* PyTorch keeps the step count as a number, not as a tensor */
  const char *not_negative;        /* names of settings that must not be below 0 */
  bool betas;                      /* its setting betas has two numbers in [0, 1) */
  const char *cycled;              /* momentum or betas: updates read it, or the first of them, from tensors; or NULL */
  int (*check)(const cn_value *a); /* what else settings must be: 0 or an error; may be NULL */
  int (*check_param)(cn_tensor *param);                     /* a parameter that joins; may be NULL */
  int (*begin)(cni_param_step *s);                          /* ... makes its state then, not in its first step */
  int (*rates)(cni_param_step *s); /* counts a step of one parameter that has a gradient, before any update; or NULL */
  int (*update)(cni_param_step *s); /* one parameter that has a gradient */
  int (*sparse)(cni_param_step *s); /* one that has a sparse gradient; NULL: that is an error */
  /* Is a step nothing but updates (ext/op.h), and what one makes that is skipped as if it had not been made? Then a
   * device may decide that. NULL: it is not. */
  bool (*skippable)(const cn_value *a);
  /* Instead: a whole step that evaluates by itself; with state of its own in opt->data. */
  cn_tensor *(*minimise)(cn_optim *opt, cn_closure fn, void *payload);
  size_t data_size;
  void (*free)(void *data);
  int (*save)(cn_optim *opt, cn_tree *state);       /* into {0: ...} */
  int (*load)(cn_optim *opt, const cn_tree *state); /* all or nothing */
} cni_optim_class;

struct cn_optim {
  const cni_optim_class *cls;
  const cn_signature *signature;
  cn_module *net; /* kept; may be NULL */
  cn_args *args;  /* what new groups begin with */
  cni_group *groups;
  size_t ngroups, groups_cap;
  cn_tensor *settings; /* owned; written to when a setting changes that is no tensor (cni_settings_changed) */
  cn_tensor *unless;   /* owned, one bool: the next step is skipped where it is true; NULL: it is made */
  cn_device scalars;   /* where states of one number lie; 0: on the host */
  void *data;
};
/* The next step is decided by `unless`, a bool on a device of which all gradients are; numbers that a step counts move
 * there. False: the optimiser's steps are not of that kind. */
bool cni_optim_decide(cn_optim *opt, cn_tensor *unless);
int cni_scalars_to(cn_optim *opt, cn_device device);
/* Compiled steps have such settings in them, and are captured again. 0 or an error. */
int cni_settings_changed(cn_optim *opt);
/* Writes what is set in args to beta and rest, which are made where they are not there yet. 0 or an error. */
int cni_group_write_beta(const cn_optim *opt, cni_group *g);

/* ---- the table of classes (classes.c) ---- */
#define CNI_OPTIM_FAMILIES(X) \
  X(sgd)                      \
  X(lion)                     \
  X(adam)                     \
  X(adam_variants)            \
  X(rms)                      \
  X(rprop)                    \
  X(matrix)                   \
  X(lbfgs)
#define CNI_OPTIM_DECLARE(name) extern const cni_optim_class *const cni_optim_##name##_classes[]; /* ends with NULL */
CNI_OPTIM_FAMILIES(CNI_OPTIM_DECLARE)
/* By name; its parsed signature goes to *sig. NULL with the error set. */
const cni_optim_class *cni_optim_class_find(const char *name, const cn_signature **sig);

/* ---- for updates: NULL with the error set ---- */
/* State i: as it is, or begun with a value in all elements. */
cn_tensor *cni_state_like(cni_param_step *s, int i, double value);
cn_tensor *cni_state_scalar(cni_param_step *s, int i, double value);
double cni_rate_now(const cni_param_step *s); /* the learning rate's value, for a state that begins with it */
cn_tensor *cni_rate(cni_param_step *s, int i);
/* state[i] is set by other means: takes a borrowed tensor. */
int cni_state_begin(cni_param_step *s, int i, cn_tensor *value);
/* Counts a step in scalar state i; returns the new count in float64. */
cn_tensor *cni_count_step(cni_param_step *s, int i);

/* ---- sparse gradients (touched.c) ---- */
/* The rows of a parameter that its gradient touches, (n), each once, and their gradients, (n, ...). */
typedef struct cni_touched {
  cn_tensor *rows, *values;
  int64_t shape[CN_MAX_DIMS]; /* of the parameter as rows */
  int ndim;
} cni_touched;
int cni_touch(cni_touched *t, const cni_param_step *s);
/* Those rows of x, which has the parameter's shape; and adding to them. */
cn_tensor *cni_touched_rows(const cni_touched *t, cn_tensor *x);
int cni_add_to_rows(const cni_touched *t, cn_tensor *x, cn_tensor *change);

/* ---- checks of settings: 0, or an error that names the class and the setting ---- */
int cni_at_least(const char *who, const char *what, double value, double least);
int cni_optim_check(const cn_optim *opt, const cn_args *args); /* all that the class says of them */

/* ---- groups (optim.c) ---- */
int cni_group_set(cn_optim *opt, size_t group, const char *name, cn_value value);
const cn_value *cni_group_get(const cn_optim *opt, size_t group, const char *name); /* NULL: no such setting */
bool cni_group_extra(const cn_optim *opt, size_t group, const char *name, double *value); /* is it there? */
int cni_group_put(cn_optim *opt, size_t group, const char *name, double value);
int cni_group_set_lr(cn_optim *opt, size_t group, double lr);
int cni_new_group(cni_group *g, cn_optim *opt); /* as a group begins, without parameters; nothing to drop on failure */
void cni_group_drop(cni_group *g);
int cni_add_extras(cni_group *g, const cni_optim_class *cls); /* state_dict.c */

#endif
