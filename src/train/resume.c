/* resume.c: checkpoints of a fit: the run's parts (checkpoint.c) and where the fit itself stands. See train.h.
 *
 * Invariant: they are written between steps only, with no gradient half gathered, so that what is not in them follows
 * from what is. */
#include <math.h>

#include "fit.h"
#include "metrics.h"

int cn_fitting_save(cn_fitting *fit, const char *path)
{
  if (cn_err()) return cn_err();
  if (!path || !*path) return cn_err_set(CN_ERR_VALUE, "fitting_save: the path is missing");
  return cn_names_add(&fit->saves, path);
}

/* ---- out ---- */

static cn_tree *metrics_tree(const cn_fitting *fit)
{
  cn_tree *list = cn_tree_list();
  int status = list ? cn_tree_push(list, cni_metric_state(fit->loss)) : cn_err();
  for (size_t i = 0; !status && i < fit->o->nmetrics; i++)
    status = cn_tree_push(list, cni_metric_state(fit->o->metrics[i]));
  if (!status) return list;
  cn_tree_free(list);
  return NULL;
}

static cn_tree *values_tree(const cn_fitting *fit)
{
  cn_tree *dict = cn_tree_dict();
  int status = dict ? CN_OK : cn_err();
  for (size_t i = 0; !status && i < fit->nmetrics; i++)
    status = cn_tree_put(dict, fit->metrics[i].name, cn_tree_float(fit->metrics[i].value));
  if (!status) return dict;
  cn_tree_free(dict);
  return NULL;
}

static cn_tree *callbacks_tree(const cn_fitting *fit)
{
  cn_tree *list = cn_tree_list();
  int status = list ? CN_OK : cn_err();
  for (size_t i = 0; !status && i < fit->o->ncallbacks; i++) {
    const cn_callback *c = &fit->o->callbacks[i];
    status = cn_tree_push(list, c->state ? c->state(c->payload) : cn_tree_none());
  }
  if (!status) return list;
  cn_tree_free(list);
  return NULL;
}

static cn_tree *fit_tree(const cn_fitting *fit)
{
  cn_tree *t = cn_tree_dict();
  int status = t ? cn_tree_put(t, "batch", cn_tree_int(fit->batch)) : cn_err();
  if (!status) status = cn_tree_put(t, "loader_epoch", cn_tree_int(fit->loader_epoch));
  if (!status) status = cn_tree_put(t, "metrics", metrics_tree(fit));
  if (!status) status = cn_tree_put(t, "values", values_tree(fit));
  if (!status) status = cn_tree_put(t, "callbacks", callbacks_tree(fit));
  if (!status) return t;
  cn_tree_free(t);
  return NULL;
}

int cni_fit_save_all(cn_fitting *fit)
{
  if (!fit->saves.n || fit->window) return CN_OK;
  int status = cni_fit_metrics_refresh(fit);
  cn_tree *extra = status ? NULL : cn_tree_dict();
  status = extra ? cn_tree_put(extra, "fit", fit_tree(fit)) : cn_err();
  for (size_t i = 0; !status && i < fit->saves.n; i++) status = cn_run_save(fit->saves.v[i], &fit->run, extra);
  cn_tree_free(extra);
  cn_names_free(&fit->saves);
  return status;
}

/* ---- in ---- */

static int load_metrics(cn_fitting *fit, const cn_tree *list)
{
  if (cn_tree_size(list) != fit->o->nmetrics + 1)
    return cn_err_set(CN_ERR_VALUE, "fit: the checkpoint has %zu metrics, this fit %zu",
                      cn_tree_size(list) ? cn_tree_size(list) - 1 : 0, fit->o->nmetrics);
  int status = cni_metric_load(fit->loss, cn_tree_at(list, 0));
  for (size_t i = 0; !status && i < fit->o->nmetrics; i++)
    status = cni_metric_load(fit->o->metrics[i], cn_tree_at(list, i + 1));
  return status;
}

/* Callbacks are known by their places; those of a list that was changed begin anew. */
static int load_callbacks(cn_fitting *fit, const cn_tree *list)
{
  if (cn_tree_size(list) != fit->o->ncallbacks) {
    cn_warn("fit: the checkpoint was made with other callbacks; theirs begin anew");
    return CN_OK;
  }
  int status = CN_OK;
  for (size_t i = 0; !status && i < fit->o->ncallbacks; i++) {
    const cn_callback *c = &fit->o->callbacks[i];
    if (c->load && cn_tree_kind_of(cn_tree_at(list, i)) != CN_TREE_NONE)
      status = c->load(c->payload, cn_tree_at(list, i));
  }
  return status;
}

static int load_fit(cn_fitting *fit, const cn_tree *t)
{
  const cn_tree *values = cn_tree_get(t, "values");
  fit->batch = cn_tree_as_int(cn_tree_get(t, "batch"), 0);
  fit->loader_epoch = cn_tree_as_int(cn_tree_get(t, "loader_epoch"), 0);
  if (fit->batch < 0 || fit->batch > fit->batches)
    return cn_err_set(CN_ERR_VALUE, "fit: the checkpoint is at batch %lld of %lld", (long long)fit->batch,
                      (long long)fit->batches);
  int status = load_metrics(fit, cn_tree_get(t, "metrics"));
  for (size_t i = 0; !status && i < cn_tree_size(values); i++) {
    const char *name = cn_tree_key(values, i, NULL);
    if (name) status = cni_fit_metric_set(fit, "", name, cn_tree_as_float(cn_tree_at(values, i), NAN));
  }
  fit->fresh = true;
  return status ? status : load_callbacks(fit, cn_tree_get(t, "callbacks"));
}

int cni_fit_resume(cn_fitting *fit)
{
  const char *path = fit->o->resume;
  cn_tree *extra = NULL;
  if (!path || cn_path_kind_of(path) == CN_PATH_NONE) return CN_OK;
  int status = cn_run_load(path, &fit->run, &extra);
  if (!status && cn_tree_get(extra, "fit")) status = load_fit(fit, cn_tree_get(extra, "fit"));
  cn_tree_free(extra);
  /* The end of the epoch was not announced yet: the loader goes on to the next one. */
  if (!status && fit->batch == fit->batches && cn_loader_epoch(fit->run.loader) == fit->loader_epoch)
    status = cn_loader_restart(fit->run.loader, fit->loader_epoch + 1);
  return status;
}
