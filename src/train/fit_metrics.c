/* fit_metrics.c: what a fit knows about itself, by name. See train.h.
 *
 * Invariant: metrics of training are brought up to date when somebody reads one, not before: their numbers may still be
 * on their way from a device. */
#include <math.h>
#include <string.h>

#include "fit.h"
#include "metrics.h"

#define VALIDATION "val_"

cni_fit_metric *cni_fit_metric_find(cn_fitting *fit, const char *name)
{
  for (size_t i = 0; name && i < fit->nmetrics; i++)
    if (!strcmp(fit->metrics[i].name, name)) return &fit->metrics[i];
  return NULL;
}

int cni_fit_metric_set(cn_fitting *fit, const char *prefix, const char *name, double value)
{
  cn_text full = {0};
  cn_text_put(&full, prefix);
  cn_text_put(&full, name);
  cni_fit_metric *found = full.failed ? NULL : cni_fit_metric_find(fit, full.s);
  int status = CN_OK;
  if (full.failed) status = CN_ERR_MEMORY;
  else if (found) found->value = value;
  else if (cn_grow((void **)&fit->metrics, &fit->metrics_cap, fit->nmetrics + 1, sizeof *fit->metrics))
    status = CN_ERR_MEMORY;
  else {
    char *copy = cn_string_copy(full.s);
    if (copy) fit->metrics[fit->nmetrics++] = (cni_fit_metric){copy, value};
    else status = cn_err();
  }
  cn_text_free(&full);
  return status;
}

int cni_fit_metrics_begin(cn_fitting *fit)
{
  int status = cni_fit_metric_set(fit, "", "loss", NAN);
  for (size_t i = 0; !status && i < fit->o->nmetrics; i++)
    status = cni_fit_metric_set(fit, "", cn_metric_name(fit->o->metrics[i]), NAN);
  return status;
}

/* Takes the last batch's loss into the mean. */
static int settle(cn_fitting *fit)
{
  if (!fit->latest) return CN_OK;
  fit->batch_loss = cn_item(fit->latest);
  cn_release(fit->latest);
  fit->latest = NULL;
  return cn_err() ? cn_err() : cn_metric_add(fit->loss, fit->batch_loss, fit->latest_weight);
}

int cni_fit_metrics_add_loss(cn_fitting *fit, cn_tensor *loss, double weight)
{
  int status = settle(fit);
  fit->latest = cn_keep(loss);
  fit->latest_weight = weight;
  fit->fresh = false;
  return status;
}

int cni_fit_metrics_refresh(cn_fitting *fit)
{
  if (fit->fresh) return CN_OK;
  int status = settle(fit);
  if (!status) status = cni_fit_metric_set(fit, "", "loss", cn_metric_value(fit->loss));
  for (size_t i = 0; !status && i < fit->o->nmetrics; i++)
    status = cni_fit_metric_set(fit, "", cn_metric_name(fit->o->metrics[i]), cn_metric_value(fit->o->metrics[i]));
  fit->fresh = !status;
  return status;
}

void cni_fit_metrics_free(cn_fitting *fit)
{
  for (size_t i = 0; i < fit->nmetrics; i++) cn_string_free(fit->metrics[i].name);
  cn_free(fit->metrics, fit->metrics_cap * sizeof *fit->metrics);
  cn_release(fit->latest);
}

bool cni_fit_metric_higher(cn_fitting *fit, const char *name)
{
  if (cn_string_starts(name, VALIDATION)) name += strlen(VALIDATION);
  for (size_t i = 0; i < fit->o->nmetrics; i++)
    if (!strcmp(cn_metric_name(fit->o->metrics[i]), name)) return cn_metric_higher_is_better(fit->o->metrics[i]);
  return false;
}

double cn_fitting_value(cn_fitting *fit, const char *name)
{
  if (cni_fit_metrics_refresh(fit)) return NAN;
  if (name && !strcmp(name, "batch_loss")) return fit->batch_loss;
  const cni_fit_metric *found = cni_fit_metric_find(fit, name);
  return found ? found->value : NAN;
}

const char *cn_fitting_value_name(cn_fitting *fit, size_t i)
{
  return i < fit->nmetrics ? fit->metrics[i].name : NULL;
}

int cn_fitting_set(cn_fitting *fit, const char *name, double value)
{
  if (cn_err()) return cn_err();
  if (!name || !*name) return cn_err_set(CN_ERR_VALUE, "fitting_set: a metric needs a name");
  return cni_fit_metric_set(fit, "", name, value);
}
