/* callbacks.c: callbacks that stop, save and tell the rate. See train.h.
 *
 * Place in the flow: cn_fit calls them at the end of batches and epochs; checkpoints are only asked for here
 * (cn_fitting_save), so that all of them hold what every callback did.
 * Invariant: a constructor that fails returns a callback without functions, and the error stays pending for cn_fit. */
#include <math.h>
#include <string.h>

#include "fit.h"

/* ---- a metric that is watched ---- */

typedef struct watch {
  char *name, *path; /* path: NULL for early_stop */
  double best, min_delta;
  int64_t patience, waited;
} watch;

static void watch_free(void *payload)
{
  watch *w = payload;
  cn_string_free(w->name);
  cn_string_free(w->path);
  cn_free(w, sizeof *w);
}

static watch *watch_new(const char *who, const char *name, const char *path)
{
  if (cn_err()) return NULL;
  if (!name || !*name) {
    cn_err_set(CN_ERR_VALUE, "%s: a metric must be named", who);
    return NULL;
  }
  watch *w = cn_alloc_zero(sizeof *w);
  if (!w) return NULL;
  w->name = cn_string_copy(name);
  w->path = w->name && path ? cn_string_copy(path) : NULL;
  w->best = NAN;
  if (w->name && (w->path || !path)) return w;
  watch_free(w);
  return NULL;
}

/* Is the metric better than ever? Then it is the best from now on. What is not a number never is. */
static int improved(cn_fitting *fit, watch *w)
{
  double value = cn_fitting_value(fit, w->name);
  if (!cni_fit_metric_find(fit, w->name))
    return cn_err_set(CN_ERR_VALUE, "fit: there is no metric '%s' to watch", w->name);
  bool better = cni_fit_metric_higher(fit, w->name) ? value - w->min_delta > w->best : value + w->min_delta < w->best;
  if (isnan(value) || (!isnan(w->best) && !better)) return 0;
  w->best = value;
  return 1;
}

static cn_tree *watch_state(void *payload)
{
  const watch *w = payload;
  cn_tree *t = cn_tree_dict();
  int status = t ? cn_tree_put(t, "best", cn_tree_float(w->best)) : cn_err();
  if (!status) status = cn_tree_put(t, "waited", cn_tree_int(w->waited));
  if (!status) return t;
  cn_tree_free(t);
  return NULL;
}

static int watch_load(void *payload, const cn_tree *state)
{
  watch *w = payload;
  w->best = cn_tree_as_float(cn_tree_get(state, "best"), NAN);
  w->waited = cn_tree_as_int(cn_tree_get(state, "waited"), 0);
  return CN_OK;
}

static int early_stop_epoch(cn_fitting *fit, void *payload)
{
  watch *w = payload;
  int better = improved(fit, w);
  if (better < 0) return better;
  w->waited = better ? 0 : w->waited + 1;
  if (w->waited >= w->patience) cn_fitting_stop(fit);
  return CN_OK;
}

cn_callback cn_callback_early_stop(const char *name, int64_t patience, double min_delta)
{
  if (!cn_err() && (patience < 1 || !(min_delta >= 0)))
    cn_err_set(CN_ERR_VALUE, "early_stop: patience is at least 1, and min_delta at least 0");
  watch *w = watch_new("early_stop", name, NULL);
  if (!w) return (cn_callback){0};
  w->patience = patience;
  w->min_delta = min_delta;
  return (cn_callback){.epoch_end = early_stop_epoch, .free = watch_free, .payload = w, .state = watch_state,
                       .load = watch_load};
}

/* ---- checkpoints ---- */

/* Removes what writers that were killed left beside the checkpoint: its name, ".part-" and six characters. */
static int remove_parts(const char *path)
{
  const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
  char *folder = slash ? cn_string_copy_bytes(path, slash == path ? 1 : (size_t)(slash - path)) : cn_string_copy(".");
  size_t n = strlen(base), mark = strlen(".part-");
  cn_names names = {0};
  int status = folder ? CN_OK : cn_err();
  if (!status && cn_path_kind_of(folder) == CN_PATH_FOLDER) status = cn_folder_list(&names, folder);
  for (size_t i = 0; !status && i < names.n; i++) {
    const char *name = names.v[i];
    if (strlen(name) != n + mark + 6 || strncmp(name, base, n) || strncmp(name + n, ".part-", mark)) continue;
    char *full = cn_path_join(folder, name);
    status = full ? cn_file_remove(full) : cn_err();
    cn_string_free(full);
  }
  cn_names_free(&names);
  cn_string_free(folder);
  return status;
}

static int best_begin(cn_fitting *fit, void *payload)
{
  (void)fit;
  return remove_parts(((const watch *)payload)->path);
}

static int best_epoch(cn_fitting *fit, void *payload)
{
  watch *w = payload;
  int better = improved(fit, w);
  return better > 0 ? cn_fitting_save(fit, w->path) : better;
}

cn_callback cn_callback_best(const char *path, const char *name)
{
  if (!cn_err() && (!path || !*path)) cn_err_set(CN_ERR_VALUE, "best: the path is missing");
  watch *w = watch_new("best", name, path);
  if (!w) return (cn_callback){0};
  return (cn_callback){.begin = best_begin, .epoch_end = best_epoch, .free = watch_free, .payload = w,
                       .state = watch_state, .load = watch_load};
}

typedef struct last {
  char *path;
  int64_t every;
} last;

static int last_begin(cn_fitting *fit, void *payload)
{
  (void)fit;
  return remove_parts(((const last *)payload)->path);
}

static int last_batch(cn_fitting *fit, void *payload)
{
  const last *l = payload;
  if (!l->every || cn_fitting_batch(fit) % l->every) return CN_OK;
  return cn_fitting_save(fit, l->path);
}

static int last_epoch(cn_fitting *fit, void *payload) { return cn_fitting_save(fit, ((const last *)payload)->path); }

/* In mid-epoch: it was stopped. Otherwise the epoch's end saved it. */
static int last_end(cn_fitting *fit, void *payload)
{
  return cn_fitting_batch(fit) ? cn_fitting_save(fit, ((const last *)payload)->path) : CN_OK;
}

static void last_free(void *payload)
{
  last *l = payload;
  cn_string_free(l->path);
  cn_free(l, sizeof *l);
}

cn_callback cn_callback_last(const char *path, int64_t every_batches)
{
  if (!cn_err() && (!path || !*path || every_batches < 0))
    cn_err_set(CN_ERR_VALUE, "last: %s", every_batches < 0 ? "a negative number of batches" : "the path is missing");
  last *l = cn_err() ? NULL : cn_alloc_zero(sizeof *l);
  if (l && !(l->path = cn_string_copy(path))) {
    last_free(l);
    l = NULL;
  }
  if (!l) return (cn_callback){0};
  l->every = every_batches;
  return (cn_callback){.begin = last_begin, .batch_end = last_batch, .epoch_end = last_epoch, .end = last_end,
                       .free = last_free, .payload = l};
}

/* ---- the rate ---- */

static int tell_rate(cn_fitting *fit, void *payload)
{
  const cn_optim *opt = cn_fitting_run(fit)->opt;
  int status = CN_OK;
  (void)payload;
  for (size_t g = 0; !status && g < cn_optim_ngroups(opt); g++) {
    cn_text name = {0};
    cn_text_put(&name, "lr");
    if (g) cn_text_putf(&name, "_%zu", g);
    status = name.failed ? CN_ERR_MEMORY : cn_fitting_set(fit, name.s, cn_optim_get(opt, g, "lr"));
    cn_text_free(&name);
  }
  return status;
}

cn_callback cn_callback_rate(void)
{
  return (cn_callback){.epoch_begin = tell_rate, .batch_end = tell_rate, .epoch_end = tell_rate};
}
