/* callbacks_log.c: metrics of a fit in files: CSV (RFC 4180) and TensorBoard's events. See train.h.
 *
 * Invariant: a fit that goes on from a checkpoint leaves the same rows as one that never stopped: what an earlier
 * process logged behind the checkpoint is dropped. */
#include <cairn/autograd.h>
#include <cairn/events.h>
#include <math.h>
#include <string.h>

#include "fit.h"

/* ---- CSV ---- */

typedef struct csv {
  char *path;
  cn_text text;   /* the whole file; it is written anew after each epoch, so that it is never half there */
  cn_names names; /* of the columns behind "epoch"; none before the first row */
} csv;

static void csv_free(void *payload)
{
  csv *c = payload;
  cn_string_free(c->path);
  cn_text_free(&c->text);
  cn_names_free(&c->names);
  cn_free(c, sizeof *c);
}

static void put_field(cn_text *t, const char *s)
{
  bool plain = !strpbrk(s, ",\"\r\n");
  if (!plain) cn_text_put(t, "\"");
  for (; *s; s++) {
    if (*s == '"') cn_text_put(t, "\"");
    cn_text_put_bytes(t, s, 1);
  }
  if (!plain) cn_text_put(t, "\"");
}

/* Where the record that begins at s ends, its line end included; NULL when it has none. */
static const char *record_end(const char *s, const char *end)
{
  for (bool quoted = false; s < end; s++) {
    if (*s == '"') quoted = !quoted;
    if (*s == '\n' && !quoted) return s + 1;
  }
  return NULL;
}

/* One field from s on, in *name; returns what stands behind it. */
static const char *read_field(cn_text *name, const char *s, const char *end)
{
  bool quoted = s < end && *s == '"';
  for (s += quoted; s < end; s++) {
    if (quoted && *s == '"' && (s + 1 == end || *++s != '"')) break;
    if (!quoted && (*s == ',' || *s == '\r' || *s == '\n')) break;
    cn_text_put_bytes(name, s, 1);
  }
  return s;
}

/* The names of the first record, whose first is "epoch". */
static int read_names(csv *c, const char *s, const char *end)
{
  int status = CN_OK;
  for (bool first = true, more = true; !status && more; first = false) {
    cn_text name = {0};
    s = read_field(&name, s, end);
    if (name.failed) status = CN_ERR_MEMORY;
    else if (!first) status = cn_names_add(&c->names, name.s ? name.s : "");
    else if (!name.s || strcmp(name.s, "epoch"))
      status = cn_err_set(CN_ERR_IO, "%s: not a log of a fit; it is not overwritten", c->path);
    more = s < end && *s == ',';
    s += more;
    cn_text_free(&name);
  }
  return status;
}

/* Keeps the header and the rows of epochs that are complete. */
static int take_over(csv *c, const char *s, const char *end, int64_t epoch)
{
  const char *next = record_end(s, end), *stop;
  if (!next) return CN_OK;
  int status = read_names(c, s, next);
  cn_text_put_bytes(&c->text, s, (size_t)(next - s));
  for (s = next; !status && (next = record_end(s, end)); s = next) {
    double row = cn_number_read(s, &stop);
    if (stop == s || row > (double)epoch) break;
    cn_text_put_bytes(&c->text, s, (size_t)(next - s));
  }
  return c->text.failed ? CN_ERR_MEMORY : status;
}

static int csv_begin(cn_fitting *fit, void *payload)
{
  csv *c = payload;
  cn_mapping file;
  if (!cn_fitting_run(fit)->epoch || cn_path_kind_of(c->path) != CN_PATH_FILE) return CN_OK;
  int status = cn_map_open(&file, c->path);
  if (status) return status;
  if (file.data)
    status = take_over(c, (const char *)file.data, (const char *)file.data + file.size, cn_fitting_run(fit)->epoch);
  cn_map_close(&file);
  return status;
}

static int put_header(csv *c, cn_fitting *fit)
{
  const char *name;
  int status = CN_OK;
  if (c->names.n) return CN_OK;
  cn_text_put(&c->text, "epoch");
  for (size_t i = 0; !status && (name = cn_fitting_value_name(fit, i)); i++) {
    cn_text_put(&c->text, ",");
    put_field(&c->text, name);
    status = cn_names_add(&c->names, name);
  }
  cn_text_put(&c->text, "\r\n");
  return status;
}

static int csv_epoch(cn_fitting *fit, void *payload)
{
  csv *c = payload;
  char number[CN_NUMBER_TEXT];
  int status = put_header(c, fit);
  if (status) return status;
  cn_text_putf(&c->text, "%lld", (long long)cn_fitting_run(fit)->epoch);
  for (size_t i = 0; i < c->names.n; i++) {
    double value = cn_fitting_value(fit, c->names.v[i]);
    cn_text_put(&c->text, ",");
    if (!isnan(value)) cn_text_put(&c->text, cn_number_write(number, value, false)); /* empty: no number */
  }
  cn_text_put(&c->text, "\r\n");
  if (c->text.failed) return CN_ERR_MEMORY;
  cn_writer *w = cn_writer_open(c->path);
  if (!w) return cn_err();
  cn_writer_put(w, c->text.s, c->text.n);
  return cn_writer_commit(w);
}

cn_callback cn_callback_csv(const char *path)
{
  if (!cn_err() && (!path || !*path)) cn_err_set(CN_ERR_VALUE, "csv: the path is missing");
  csv *c = cn_err() ? NULL : cn_alloc_zero(sizeof *c);
  if (c && !(c->path = cn_string_copy(path))) {
    csv_free(c);
    c = NULL;
  }
  if (!c) return (cn_callback){0};
  return (cn_callback){.begin = csv_begin, .epoch_end = csv_epoch, .free = csv_free, .payload = c};
}

/* ---- TensorBoard ---- */

typedef struct events_log {
  char *folder;
  cn_events *events;
  bool drawn; /* the graph was tried */
} events_log;

static void log_free(void *payload)
{
  events_log *l = payload;
  cn_events_close(l->events);
  cn_string_free(l->folder);
  cn_free(l, sizeof *l);
}

static int log_begin(cn_fitting *fit, void *payload)
{
  events_log *l = payload;
  const cn_run *run = cn_fitting_run(fit);
  l->events = cn_events_open(l->folder);
  if (!l->events) return cn_err();
  l->drawn = run->step > 0; /* the file before has it */
  return run->step ? cn_events_restart(l->events, run->step + 1) : CN_OK;
}

/* A net that cannot be traced is no reason to stop. */
static void log_graph(events_log *l, cn_fitting *fit)
{
  if (l->drawn || cn_err()) return;
  l->drawn = true;
  cn_tensor *x = cn_fitting_data(fit)->x;
  if (!cn_events_graph(l->events, cn_fitting_run(fit)->net, &x, 1)) return;
  cn_warn("events: the graph is not in the log: %s", cn_err_message());
  cn_err_clear();
}

static int log_batch(cn_fitting *fit, void *payload)
{
  events_log *l = payload;
  log_graph(l, fit);
  return cn_events_scalar(l->events, "batch/loss", cn_fitting_value(fit, "batch_loss"), cn_fitting_run(fit)->step);
}

/* "val_loss" becomes "loss/validation" beside "loss/train"; a metric of a callback keeps its name. */
static int log_metric(events_log *l, cn_fitting *fit, const char *name)
{
  cn_text tag = {0}, other = {0};
  bool validation = !strncmp(name, "val_", 4);
  cn_text_putf(&other, "val_%s", name);
  bool pair = other.s && cni_fit_metric_find(fit, other.s);
  if (validation) cn_text_putf(&tag, "%s/validation", name + 4);
  else cn_text_putf(&tag, "%s%s", name, pair || !strcmp(name, "loss") ? "/train" : "");
  double value = cn_fitting_value(fit, name);
  int status = tag.failed || other.failed ? CN_ERR_MEMORY : CN_OK;
  if (!status && !isnan(value)) status = cn_events_scalar(l->events, tag.s, value, cn_fitting_run(fit)->step);
  cn_text_free(&tag);
  cn_text_free(&other);
  return status;
}

static int log_weights(events_log *l, const cn_run *run)
{
  cn_named_list list;
  int status = cn_module_named(&list, run->net, CN_PARAMETERS);
  for (size_t i = 0; !status && i < list.n; i++) {
    cn_text tag = {0};
    cn_text_putf(&tag, "weights/%s", list.v[i].name);
    status = tag.failed ? CN_ERR_MEMORY : cn_events_histogram(l->events, tag.s, list.v[i].tensor, run->step);
    cn_text_free(&tag);
  }
  cn_named_free(&list);
  return status;
}

static int log_epoch(cn_fitting *fit, void *payload)
{
  events_log *l = payload;
  const char *name;
  int status = CN_OK;
  for (size_t i = 0; !status && (name = cn_fitting_value_name(fit, i)); i++) status = log_metric(l, fit, name);
  if (!status) status = log_weights(l, cn_fitting_run(fit));
  return status ? status : cn_events_flush(l->events);
}

cn_callback cn_callback_events(const char *folder)
{
  if (!cn_err() && (!folder || !*folder)) cn_err_set(CN_ERR_VALUE, "events: the folder is missing");
  events_log *l = cn_err() ? NULL : cn_alloc_zero(sizeof *l);
  if (l && !(l->folder = cn_string_copy(folder))) {
    log_free(l);
    l = NULL;
  }
  if (!l) return (cn_callback){0};
  return (cn_callback){.begin = log_begin, .batch_end = log_batch, .epoch_end = log_epoch, .free = log_free,
                       .payload = l};
}
