/* train.h: training loops: metrics, checkpoints, cn_fit with callbacks.
 *
 * A loop by hand needs none of this (docs/GUIDE.md shows one); cn_fit is that loop with what everybody adds to it.
 */
#ifndef CAIRN_TRAIN_H
#define CAIRN_TRAIN_H

#include "data.h"
#include "optimiser.h"

CN_BEGIN_DECLS

/* ---- metrics ---- */
typedef struct cn_metric cn_metric;
typedef enum cn_averaging { CN_MACRO, CN_MICRO, CN_WEIGHTED } cn_averaging;
/* Outputs are scores (N, C, ...) for classes (N, ...), or (N, ...) for (N, ...): floats say yes above 0.5, integers are
 * classes themselves. What does not fit is an error, and then the batch does not count. Owned. */
CN_API CN_MUST_USE cn_metric *cn_metric_mean(const char *name); /* of whatever cn_metric_add is given; a loss, say */
CN_API CN_MUST_USE cn_metric *cn_metric_accuracy(void);
CN_API CN_MUST_USE cn_metric *cn_metric_top_k(int64_t k);
/* Over classes: the mean of those that occur (scikit-learn's and torchmetrics' macro), of all counts together, or
 * weighted by how often each is true; what cannot be said counts as 0. Their tensor: one value a class. Their names:
 * "f1", "f1_micro", "f1_weighted". */
CN_API CN_MUST_USE cn_metric *cn_metric_precision(int64_t classes, cn_averaging average);
CN_API CN_MUST_USE cn_metric *cn_metric_recall(int64_t classes, cn_averaging average);
CN_API CN_MUST_USE cn_metric *cn_metric_f1(int64_t classes, cn_averaging average);
/* Its tensor: (true, predicted); its value: accuracy. */
CN_API CN_MUST_USE cn_metric *cn_metric_confusion(int64_t classes);
CN_API CN_MUST_USE cn_metric *cn_metric_auc(void); /* area under the ROC curve of scores (N) and truths (N) */
/* Exp of the mean cross entropy; scores may also be (N, ..., C). */
CN_API CN_MUST_USE cn_metric *cn_metric_perplexity(void);
CN_API CN_MUST_USE cn_metric *cn_metric_mean_iou(int64_t classes);
CN_API void cn_metric_free(cn_metric *metric);
CN_API const char *cn_metric_name(const cn_metric *metric);
CN_API bool cn_metric_higher_is_better(const cn_metric *metric);
CN_API int cn_metric_update(cn_metric *metric, cn_tensor *output, cn_tensor *target); /* one batch more */
CN_API int cn_metric_add(cn_metric *metric, double value, double weight);             /* for cn_metric_mean */
CN_API double cn_metric_value(cn_metric *metric);      /* of all batches since the last reset; NAN: there is none */
CN_API cn_tensor *cn_metric_tensor(cn_metric *metric); /* the whole of it, where it is more than a number */
CN_API void cn_metric_reset(cn_metric *metric);

/* ---- checkpoints ---- */
/* What a run needs to go on; absent parts are NULL. Random numbers of this thread are always part of it. */
typedef struct cn_run {
  cn_module *net;
  cn_optim *opt;
  cn_schedule *schedule;
  cn_loader *loader;
  cn_grad_scaler *scaler;
  cn_average *average;
  int64_t epoch, step;
} cn_run;
/* One safetensors file with JSON in its metadata, written whole or not at all: killed at any moment, the process leaves
 * the old file or the new one. Loading sets the parts and the numbers of `run`; a part that the file does not have, or
 * that does not fit, is an error, and then others may be set already. A damaged file is an error before anything is
 * set. A run that goes on from a checkpoint computes bit for bit what it would have computed. */
CN_API int cn_run_save(const char *path, const cn_run *run, const cn_tree *extra);
CN_API int cn_run_load(const char *path, cn_run *run, cn_tree **extra); /* extra: owned, may be NULL */
/* The weights of a module alone, in any format of io.h; loading takes checkpoints too. */
CN_API int cn_module_save(cn_module *m, const char *path);
CN_API int cn_module_load_file(cn_module *m, const char *path);

/* ---- fitting ---- */
typedef struct cn_fitting cn_fitting; /* a fit in progress, as callbacks see it */
CN_API cn_run *cn_fitting_run(cn_fitting *fit); /* epoch: how many are complete; step: of the optimiser */
/* Metrics by name: "loss" and those of cn_fit_opts are means of the epoch so far, "val_loss" and "val_..." those of the
 * last validation; "batch_loss" is of the present batch alone. NAN: there is none. */
CN_API double cn_fitting_value(cn_fitting *fit, const char *name);
CN_API const char *cn_fitting_value_name(cn_fitting *fit, size_t i); /* without batch_loss; NULL past the last */
CN_API int cn_fitting_set(cn_fitting *fit, const char *name, double value); /* a metric of a callback's own */
CN_API int64_t cn_fitting_epochs(cn_fitting *fit);
CN_API int64_t cn_fitting_batches(cn_fitting *fit); /* in an epoch */
CN_API int64_t cn_fitting_batch(cn_fitting *fit);   /* how many of this epoch are done */
CN_API double cn_fitting_seconds(cn_fitting *fit);  /* since it began */
CN_API int64_t cn_fitting_samples(cn_fitting *fit); /* trained on so far, by this process */
/* In batch_end: the batch and what the net made of it; NULL elsewhere. */
CN_API const cn_batch *cn_fitting_data(cn_fitting *fit);
CN_API cn_tensor *cn_fitting_output(cn_fitting *fit);
CN_API void cn_fitting_stop(cn_fitting *fit); /* after this batch, or after this step when several make one */
/* Asks for a checkpoint of the whole fit, for `resume`. It is written when all callbacks of this moment have run and
 * gradients are not half gathered. */
CN_API int cn_fitting_save(cn_fitting *fit, const char *path);

/* Called along the way; each may be NULL. They return 0 or a negative status, which ends the fit. */
typedef struct cn_callback {
  int (*begin)(cn_fitting *fit, void *payload); /* a checkpoint to go on from is loaded */
  int (*epoch_begin)(cn_fitting *fit, void *payload);
  int (*batch_end)(cn_fitting *fit, void *payload);
  int (*epoch_end)(cn_fitting *fit, void *payload); /* validation is done */
  int (*end)(cn_fitting *fit, void *payload);       /* not after a failure */
  void (*free)(void *payload);
  void *payload;
  cn_tree *(*state)(void *payload); /* for checkpoints; owned */
  int (*load)(void *payload, const cn_tree *state);
} cn_callback;
/* A line on the terminal: epoch, batches, rate, time left, metrics. */
CN_API CN_MUST_USE cn_callback cn_callback_progress(void);
/* When the metric has not become better by more than min_delta for `patience` epochs. A cn_metric says whether higher
 * is better; of other values lower is. */
CN_API CN_MUST_USE cn_callback cn_callback_early_stop(const char *name, int64_t patience, double min_delta);
/* Saves when the metric is the best so far. */
CN_API CN_MUST_USE cn_callback cn_callback_best(const char *path, const char *name);
/* After each epoch, or so many batches (0: epochs alone), and at the end, also of a fit that was stopped. */
CN_API CN_MUST_USE cn_callback cn_callback_last(const char *path, int64_t every_batches);
/* A row an epoch; a resumed fit goes on with the file. */
CN_API CN_MUST_USE cn_callback cn_callback_csv(const char *path);
/* For TensorBoard: metrics, rates, histograms of weights. */
CN_API CN_MUST_USE cn_callback cn_callback_events(const char *folder);
/* The learning rate as metric "lr" (of other groups "lr_1", ...), for callbacks behind this one. */
CN_API CN_MUST_USE cn_callback cn_callback_rate(void);

/* The loss of a batch; a scalar tensor. */
typedef cn_tensor *(*cn_loss_fn)(cn_tensor *output, const cn_batch *batch, void *payload);
typedef struct cn_fit_opts {
  size_t size;
  const struct cn_guard *guard;
  int64_t epochs;             /* 1 */
  cn_loader *validation;      /* looked at after each epoch */
  cn_loss_fn loss;            /* cross entropy of output and b.y */
  cn_module *loss_module;     /* or a module that takes output and b.y */
  void *payload;              /* of loss */
  cn_metric *const *metrics;  /* of training and validation; borrowed */
  size_t nmetrics;
  const cn_callback *callbacks; /* freed by cn_fit, also on failure */
  size_t ncallbacks;
  cn_schedule *schedule;
  bool schedule_each_batch;   /* else each epoch */
  const char *plateau;        /* the metric that a ReduceLROnPlateau looks at; "val_loss" */
  double clip_norm;           /* 0: gradients are not clipped */
  int64_t accumulate;         /* batches a step, whose mean gradient it takes; 1 */
  cn_dtype autocast;          /* CN_BF16 or CN_F16: mixed precision, with loss scaling for the latter */
  cn_grad_scaler *scaler;
  cn_average *average;        /* updated after each step, used in validation */
  const char *resume;         /* a checkpoint to go on from, if it is there */
  /* What a batch computes is captured once and run as a graph (compile.h), with the same results to the bit: the whole
   * step, or forward and backward where several batches make one, the loss is scaled, or the optimiser is LBFGS.
   * loss is then called for a batch without values; of the batch's numbers it may read none. */
  bool compile;
} cn_fit_opts;
/* Trains net. 0; 1 when a callback or an interruption (cn_fit_interrupt) stopped it early; negative on failure. */
CN_API int cn_fit_with(cn_module *net, cn_optim *opt, cn_loader *train, const cn_fit_opts *opts);
/* Stops all fits after their present batch; may be called in a signal handler. */
CN_API void cn_fit_interrupt(void);
/* Mean loss (in *loss, may be NULL) and metrics over a loader, from the beginning of its epoch 0, in evaluation mode.
 * 0; 1 when it was interrupted; negative on failure. */
CN_API int cn_evaluate_with(double *loss, cn_module *net, cn_loader *loader, const cn_fit_opts *opts);
/* Outputs for all samples, one after the other along dimension 0, in evaluation mode; borrowed from the scope. */
CN_API cn_tensor *cn_predict(cn_module *net, cn_loader *loader);

/* ---- description files ---- */
/* A text that describes a net, its data and how it is trained, see docs/DESCRIPTION_FILES.md. Errors name file and
 * line. Owned; NULL with the error set. */
typedef struct cn_description cn_description;
CN_API CN_MUST_USE cn_description *cn_description_open(const char *path);
/* Name: for errors. */
CN_API CN_MUST_USE cn_description *cn_description_read(const char *text, size_t size, const char *name);
CN_API void cn_description_free(cn_description *description);
/* A setting of [net], [data], [solver], ...; NULL: the file says nothing. Setting takes the value as a file writes it;
 * NULL takes it out. */
CN_API const cn_tree *cn_description_get(const cn_description *description, const char *section, const char *key);
CN_API int cn_description_set(cn_description *description, const char *section, const char *key, const char *value);
/* Without comments. Owned: cn_string_free. */
CN_API CN_MUST_USE char *cn_description_to_string(const cn_description *description);
/* The parts that it describes; owned. Sizes that the net's layers leave out follow from what comes before, by shapes
 * alone. */
CN_API CN_MUST_USE cn_module *cn_description_net(const cn_description *description);
/* With its transforms. */
CN_API CN_MUST_USE cn_dataset *cn_description_data(const cn_description *description, cn_part part);
/* Of images as they come, without what is random for CN_TEST. What it gives has the net's input shape and floats. */
CN_API CN_MUST_USE cn_transform *cn_description_transform(const cn_description *description, cn_part part);
/* Of data that are text. */
CN_API CN_MUST_USE cn_tokenizer *cn_description_tokenizer(const cn_description *description);
/* AdamW if it says nothing. */
CN_API CN_MUST_USE cn_optim *cn_description_optim(const cn_description *description, cn_module *net);
/* NULL without an error when there is none. batches: in an epoch; *each_batch: whether it steps with each of them. */
CN_API CN_MUST_USE cn_schedule *cn_description_schedule(const cn_description *description, cn_optim *opt,
                                                        int64_t batches, bool *each_batch);
/* Cross entropy if it says nothing. */
CN_API CN_MUST_USE cn_module *cn_description_loss(const cn_description *description);

CN_END_DECLS

#ifndef __cplusplus
#define cn_fit(net, opt, ...) \
  cn_fit_with(net, opt, CN_HEAD(__VA_ARGS__, ), CN_OPTS(cn_fit_opts, CN_TAIL(__VA_ARGS__, )))
#define cn_evaluate(loss, net, ...) \
  cn_evaluate_with(loss, net, CN_HEAD(__VA_ARGS__, ), CN_OPTS(cn_fit_opts, CN_TAIL(__VA_ARGS__, )))
#define CN_CALLBACKS(...) \
  (const cn_callback[]){__VA_ARGS__}, .ncallbacks = sizeof((const cn_callback[]){__VA_ARGS__}) / sizeof(cn_callback)
#define CN_METRICS(...) \
  (cn_metric *const[]){__VA_ARGS__}, .nmetrics = sizeof((cn_metric *const[]){__VA_ARGS__}) / sizeof(cn_metric *)
#endif

#endif
