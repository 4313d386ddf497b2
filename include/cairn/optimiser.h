/* optimiser.h: optimisers and learning-rate schedules as such. The single ones stand in optimisers.h and schedules.h,
 * which are generated from the classes in src/optim: cn_optim_adam(net, .lr = 1e-3), cn_lr_step(opt, 30).
 *
 * Step counts and rates are zero-dimensional tensors, so that a captured step goes on counting. A parameter without a
 * gradient is left alone, as in PyTorch.
 */
#ifndef CAIRN_OPTIMISER_H
#define CAIRN_OPTIMISER_H

#include "module.h"

CN_BEGIN_DECLS

typedef struct cn_optim cn_optim;
typedef struct cn_schedule cn_schedule;

/* ---- optimisers ---- */
/* By the name of its class ("AdamW") and the arguments of its signature, over the parameters of net, which it keeps
 * (NULL: none yet, see cn_optim_add). Owned. */
CN_API CN_MUST_USE cn_optim *cn_optim_make(const char *name, cn_module *net, const cn_value *args, size_t n);
CN_API void cn_optim_free(cn_optim *opt); /* NULL is fine */
/* Adds a group of parameters, which has the optimiser's own settings until they are changed. Returns its number. */
CN_API int cn_optim_add(cn_optim *opt, cn_tensor *const *params, size_t n);
CN_API size_t cn_optim_ngroups(const cn_optim *opt);
CN_API size_t cn_optim_nparams(const cn_optim *opt, size_t group);
CN_API cn_tensor *cn_optim_param(const cn_optim *opt, size_t group, size_t i); /* borrowed */
/* A setting of a group by its name ("lr", "weight_decay"); a number, not a list. */
CN_API double cn_optim_get(const cn_optim *opt, size_t group, const char *name);
CN_API int cn_optim_set(cn_optim *opt, size_t group, const char *name, double value);
/* ... one that is a list or a word: cn_optim_set_value(opt, 1, "betas", cn_v_floats(betas, 2)). */
CN_API int cn_optim_set_value(cn_optim *opt, size_t group, const char *name, cn_value value);
CN_API cn_tensor *cn_optim_lr(const cn_optim *opt, size_t group); /* float64, zero-dimensional; borrowed */
/* Do captured steps follow the setting that schedules move besides the rate (momentum, the first of betas), so that
 * they need not be captured again for it? Those of SGD, Adam and AdamW do. */
CN_API bool cn_optim_cycles(const cn_optim *opt);
/* While code is captured: fn, which may set the optimiser's rates, is called whenever the graph runs, at this place;
 * code behind it reads the new ones. payload_free (may be NULL): when the graph goes. Schedules step so. */
CN_API int cn_optim_call_for_rates(cn_optim *opt, int (*fn)(void *payload), void *payload,
                                   void (*payload_free)(void *payload));
/* The arguments of a group: one value per parameter of the class's signature. */
CN_API const cn_args *cn_optim_args(const cn_optim *opt, size_t group);
CN_API const char *cn_optim_name(const cn_optim *opt);
/* A group's dictionary as the state below has it, without its parameters; that of number ngroups is what another group
 * would begin with. Owned. */
CN_API CN_MUST_USE cn_tree *cn_optim_group(cn_optim *opt, size_t group);
/* Keeps what is no setting (initial_lr, a name) in a group's dictionary; `value` is taken over, also on failure. */
CN_API int cn_optim_note(cn_optim *opt, size_t group, const char *name, cn_tree *value);
/* Another tensor in a parameter's place, which goes on with its memory: it was moved, or its values were replaced. */
CN_API int cn_optim_replace(cn_optim *opt, size_t group, size_t i, cn_tensor *param);
/* What is remembered of a parameter: {"step": ..., "exp_avg": ...}, the optimiser's own tensors; empty before its first
 * step. Owned. The second replaces it by copies. */
CN_API CN_MUST_USE cn_tree *cn_optim_memory(cn_optim *opt, size_t group, size_t i);
CN_API int cn_optim_remember(cn_optim *opt, size_t group, size_t i, const cn_tree *memory);

/* Updates every parameter that has a gradient, each in one pass over memory. The first step makes the state, so a step
 * can be captured (cn_trace) from the second one on. Rates may then be changed between runs of the graph; other
 * settings are part of it. */
CN_API int cn_optim_step(cn_optim *opt);
/* For those that evaluate several times a step (LBFGS): fn zeroes gradients, computes the loss, runs backward and
 * returns the loss. Returns the first loss; NULL on failure. */
typedef cn_tensor *(*cn_closure)(void *payload);
CN_API cn_tensor *cn_optim_step_closure(cn_optim *opt, cn_closure fn, void *payload);
CN_API int cn_optim_zero_grad(cn_optim *opt);
/* {"state": {0: {"step": ..., "exp_avg": ...}, ...}, "param_groups": [{"lr": ..., "params": [0, 1, ...]}]}: what
 * PyTorch's state_dict holds, in both directions. Owned; its tensors are the optimiser's own. Loading copies values;
 * nothing is changed when there is an error. */
CN_API CN_MUST_USE cn_tree *cn_optim_state(cn_optim *opt);
CN_API int cn_optim_load(cn_optim *opt, const cn_tree *state);
/* The classes, for bindings and tables: name, signature and documentation of the i-th; false past the last. */
CN_API CN_MUST_USE bool cn_optim_class_at(size_t i, const char **name, const char **sig, const char **doc);
/* What a group of the i-th holds in a state, in PyTorch's order: "lr betas foreach=None"; NAME=VALUE is no argument in
 * C, only kept. NULL past the last. */
CN_API const char *cn_optim_class_keys(size_t i);

/* ---- gradients ---- */
/* Scales all gradients so that their norm together is at most max_norm; returns the norm before (a tensor, so that
 * nothing waits for it). norm_type 0: 2; HUGE_VAL: the largest element. */
CN_API cn_tensor *cn_clip_grad_norm(cn_tensor *const *params, size_t n, double max_norm, double norm_type);
CN_API int cn_clip_grad_value(cn_tensor *const *params, size_t n, double clip_value);
CN_API cn_tensor *cn_optim_clip_norm(cn_optim *opt, double max_norm); /* over all its parameters */

/* ---- schedules ---- */
CN_API CN_MUST_USE cn_schedule *cn_schedule_make(const char *name, cn_optim *opt, const cn_value *args, size_t n);
CN_API void cn_schedule_free(cn_schedule *schedule);
CN_API const char *cn_schedule_name(const cn_schedule *schedule); /* of its class, "StepLR"; NULL for NULL */
CN_API int cn_schedule_step(cn_schedule *schedule); /* after an epoch, or a step, as its numbers are meant */
CN_API int cn_schedule_step_metric(cn_schedule *schedule, double metric); /* for ReduceLROnPlateau */
/* To an epoch, which need not be whole for CosineAnnealingWarmRestarts: by the formula that needs no past where there
 * is one. */
CN_API int cn_schedule_jump(cn_schedule *schedule, double epoch);
CN_API double cn_schedule_lr(const cn_schedule *schedule, size_t group);  /* the rate it set last */
CN_API double cn_schedule_base(const cn_schedule *schedule, size_t group); /* the rate it began with */
CN_API int64_t cn_schedule_epoch(const cn_schedule *schedule);
/* With a value for each group where the signature has one number for all: max_lr of OneCycleLR, base_lr of CyclicLR,
 * the limits of their momentum, swa_lr, min_lr. Each list has one number per group. */
typedef struct cn_lr_list {
  const char *name;
  const double *v;
} cn_lr_list;
CN_API CN_MUST_USE cn_schedule *cn_schedule_make_lists(const char *name, cn_optim *opt, const cn_value *args, size_t n,
                                                       const cn_lr_list *lists, size_t nlists);
CN_API CN_MUST_USE cn_tree *cn_schedule_state(cn_schedule *schedule);
CN_API int cn_schedule_load(cn_schedule *schedule, const cn_tree *state);
/* A rate by a function of the epoch, times the initial rate (LambdaLR), or times the last one (MultiplicativeLR). */
typedef double (*cn_lr_fn)(int64_t epoch, void *payload);
CN_API CN_MUST_USE cn_schedule *cn_lr_lambda(cn_optim *opt, cn_lr_fn fn, void *payload);
CN_API CN_MUST_USE cn_schedule *cn_lr_multiplicative(cn_optim *opt, cn_lr_fn fn, void *payload);
/* The same by a function that is told the group, from an epoch on (-1: the beginning). kind: "LambdaLR",
 * "MultiplicativeLR", or "LRScheduler", whose function returns the rate itself. */
typedef double (*cn_group_lr_fn)(cn_schedule *schedule, size_t group, void *payload);
CN_API CN_MUST_USE cn_schedule *cn_lr_by(const char *kind, cn_optim *opt, cn_group_lr_fn fn, void *payload,
                                         int64_t last_epoch);
/* For classes that derive from one of the library's: takes back the step that a schedule's making took, when the groups
 * had these rates; from now on fn returns the rates in the place of its own formula. What that would give for the
 * present epoch is cn_schedule_next. */
CN_API int cn_schedule_rewind(cn_schedule *schedule, const double *rates, cn_group_lr_fn fn, void *payload);
CN_API double cn_schedule_next(cn_schedule *schedule, size_t group);
/* A factor of the program's own for the height of CyclicLR's cycles, in place of its mode's: a function of the number
 * of the cycle, from 1 on, or of the epoch. To be set before the first step. */
typedef double (*cn_lr_scale_fn)(double x, void *payload);
CN_API int cn_lr_cyclic_scale(cn_schedule *schedule, cn_lr_scale_fn fn, void *payload, bool by_epoch);
/* Several at once, and one after the other from these epochs on; they take the schedules over. */
CN_API CN_MUST_USE cn_schedule *cn_lr_chained(cn_schedule *const *schedules, size_t n);
CN_API CN_MUST_USE cn_schedule *cn_lr_sequential(cn_optim *opt, cn_schedule *const *schedules, size_t n,
                                                 const int64_t *milestones);
CN_API CN_MUST_USE bool cn_schedule_class_at(size_t i, const char **name, const char **sig, const char **doc);

/* ---- averages of parameters ---- */
/* A copy of a module whose parameters follow: an exponential average with this decay, or, for decay 0, the mean of all
 * updates (SWA). Buffers are copied, or averaged too. Owned. */
typedef struct cn_average cn_average;
CN_API CN_MUST_USE cn_average *cn_average_new(cn_module *m, double decay, bool average_buffers);
CN_API int cn_average_update(cn_average *average, cn_module *m);
CN_API cn_module *cn_average_module(cn_average *average); /* borrowed */
CN_API int64_t cn_average_count(const cn_average *average);
CN_API CN_MUST_USE cn_tree *cn_average_state(cn_average *average);
CN_API int cn_average_load(cn_average *average, const cn_tree *state);
CN_API void cn_average_free(cn_average *average);
/* One update of averages that the caller keeps: `to` has followed `count` times so far. counted: an int64 tensor of one
 * element, so that it may be part of a compiled step; the caller counts on. */
CN_API int cn_average_follow(cn_module *to, cn_module *from, double decay, int64_t count, bool average_buffers);
CN_API int cn_average_follow_counted(cn_module *to, cn_module *from, double decay, cn_tensor *count,
                                     bool average_buffers);

/* ---- mixed precision ---- */
/* Scales losses so that small gradients survive float16: cn_backward(cn_grad_scaler_scale(s, loss)), then step, then
 * update. A step whose gradients are not finite is skipped, and the scale halved; after growth_interval good ones it is
 * doubled. The scale and the count of good steps are tensors: all of this may be part of a compiled step, in which one
 * that is skipped is computed, and its results are not taken. Where they are on a device, it decides by itself whether
 * a step of SGD (undamped), Adam or AdamW is made, and nothing waits for it; their step counts lie there then. */
typedef struct cn_grad_scaler cn_grad_scaler;
typedef struct cn_grad_scaler_opts {
  size_t size;
  const struct cn_guard *guard;
  double init_scale;       /* 65536 */
  double growth_factor;    /* 2 */
  double backoff_factor;   /* 0.5 */
  int64_t growth_interval; /* 2000 */
  bool disabled;           /* scale by 1, skip nothing */
  cn_device device;        /* of the scale; the CPU */
} cn_grad_scaler_opts;
CN_API CN_MUST_USE cn_grad_scaler *cn_grad_scaler_new_with(const cn_grad_scaler_opts *opts);
CN_API void cn_grad_scaler_free(cn_grad_scaler *scaler);
CN_API cn_tensor *cn_grad_scaler_scale(cn_grad_scaler *scaler, cn_tensor *loss);
CN_API int cn_grad_scaler_unscale(cn_grad_scaler *scaler, cn_optim *opt); /* before clipping; step does it otherwise */
/* 1: stepped, or a device decides that, 0: skipped, or negative */
CN_API int cn_grad_scaler_step(cn_grad_scaler *scaler, cn_optim *opt);
/* All of a step but the update itself, for those that are written elsewhere: 1: update now and call stepped, 0: skip
 * it. plain: the update is one cn_optim_step, about which a device may decide. */
CN_API CN_MUST_USE int cn_grad_scaler_may_step(cn_grad_scaler *scaler, cn_optim *opt, bool plain);
CN_API int cn_grad_scaler_stepped(cn_grad_scaler *scaler, cn_optim *opt);
CN_API int cn_grad_scaler_update(cn_grad_scaler *scaler);
CN_API double cn_grad_scaler_get(cn_grad_scaler *scaler); /* waits for its device, as the next does */
CN_API CN_MUST_USE cn_tree *cn_grad_scaler_state(cn_grad_scaler *scaler);
CN_API int cn_grad_scaler_load(cn_grad_scaler *scaler, const cn_tree *state);

CN_END_DECLS

#ifndef __cplusplus
#define cn_grad_scaler_new(...) cn_grad_scaler_new_with(CN_OPTS(cn_grad_scaler_opts, __VA_ARGS__))
#endif

#endif
