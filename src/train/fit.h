/* fit.h: a fit in progress, for the files of src/train. Internal.
 *
 * fit.c runs the loop; fit_metrics.c keeps its metrics by name; evaluate.c computes losses and validates; resume.c
 * writes and reads its checkpoints; compiled.c runs batches as compiled functions; callbacks*.c see it through train.h
 * and the few functions below. */
#ifndef CNI_TRAIN_FIT_H
#define CNI_TRAIN_FIT_H

#include <cairn/compile.h>
#include <cairn/ext/system.h>
#include <cairn/train.h>

typedef struct cni_fit_metric {
  char *name;
  double value;
} cni_fit_metric;

struct cn_fitting {
  cn_run run; /* epoch: complete ones */
  const cn_fit_opts *o;
  int64_t epochs, batches, accumulate;
  int64_t batch;        /* done in this epoch */
  int64_t loader_epoch; /* the loader's own number of this epoch */
  int64_t window;       /* batches whose gradients wait for a step */
  int64_t samples;
  double began;
  bool stop, plateau, stepped;
  unsigned interrupts; /* when it began */
  cni_fit_metric *metrics;
  size_t nmetrics, metrics_cap;
  cn_metric *loss;   /* mean over the epoch */
  cn_tensor *latest; /* the last batch's loss, owned: read late, so that a device need not be waited for */
  double latest_weight, batch_loss;
  bool fresh;     /* metrics of training are up to date */
  cn_names saves; /* checkpoints that were asked for */
  const cn_batch *data;
  cn_tensor *output;
  cn_grad_scaler *own_scaler;
  cn_compiled *compiled; /* with .compile; NULL: batches are computed as they are */
};

/* ---- fit_metrics.c ---- */
cni_fit_metric *cni_fit_metric_find(cn_fitting *fit, const char *name); /* NULL: none */
/* "PREFIXNAME" = value */
int cni_fit_metric_set(cn_fitting *fit, const char *prefix, const char *name, double value);
int cni_fit_metrics_begin(cn_fitting *fit);   /* names loss and metrics, so that they stand first */
int cni_fit_metrics_refresh(cn_fitting *fit); /* those of training, as far as they are known */
int cni_fit_metrics_add_loss(cn_fitting *fit, cn_tensor *loss, double weight);
void cni_fit_metrics_free(cn_fitting *fit);
/* Is more of it better? */
bool cni_fit_metric_higher(cn_fitting *fit, const char *name);

/* ---- evaluate.c ---- */
unsigned cni_interrupts(void); /* how often cn_fit_interrupt was called */
/* Output and loss of a batch, under the options' autocast; the loss is NULL on failure. */
cn_tensor *cni_loss_of(cn_tensor **output, cn_module *net, const cn_batch *batch, const cn_fit_opts *o);
/* The same as a compiled function; compiled NULL: as it is. */
cn_tensor *cni_compiled_loss(cn_compiled *compiled, cn_tensor **output, cn_module *net, const cn_batch *batch,
                             const cn_fit_opts *o);
int cni_metrics_update(const cn_fit_opts *o, cn_tensor *output, const cn_batch *batch);
/* As cn_evaluate; 1 when it was interrupted since `interrupts` was read. */
int cni_fit_evaluate(double *loss, cn_module *net, cn_loader *loader, const cn_fit_opts *o, unsigned interrupts,
                     cn_compiled *compiled);

/* ---- compiled.c ---- */
CN_MUST_USE cn_compiled *cni_fit_compiled(const char *name); /* for losses and steps; owned */
/* Loss and step of a batch, as one program: step is what makes the step of a loss. */
cn_tensor *cni_compiled_step(cn_fitting *fit, const cn_batch *batch, int (*step)(cn_fitting *fit, cn_tensor *loss));

/* ---- resume.c ---- */
int cni_fit_save_all(cn_fitting *fit); /* writes what was asked for */
int cni_fit_resume(cn_fitting *fit);   /* goes to where o->resume stopped, if it is there */

#endif
