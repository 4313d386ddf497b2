/* hparams.c: settings and results of a run, for TensorBoard's table of runs. See events.h.
 *
 * Place in the flow: three records for the "hparams" plugin (what there is to set, the settings when the run began, and
 * its end), then the metrics as plain numbers of the same names. */
#include <string.h>

#include "tfrecord.h"

enum { VERSION = 0, STATUS_SUCCESS = 1 };
enum { TYPE_STRING = 1, TYPE_BOOL = 2, TYPE_FLOAT64 = 3 };

static bool is_number(const cn_tree *t)
{
  cn_tree_kind kind = cn_tree_kind_of(t);
  return kind == CN_TREE_INT || kind == CN_TREE_FLOAT;
}

static bool is_setting(const cn_tree *t)
{
  cn_tree_kind kind = cn_tree_kind_of(t);
  return is_number(t) || kind == CN_TREE_STR || kind == CN_TREE_BOOL;
}

static int check(const cn_tree *dict, bool (*fits)(const cn_tree *), const char *what)
{
  if (dict && cn_tree_kind_of(dict) != CN_TREE_DICT)
    return cn_err_set(CN_ERR_TYPE, "events_hparams: %s are not a dictionary", what);
  for (size_t i = 0; i < cn_tree_size(dict); i++) {
    const char *name = cn_tree_key(dict, i, NULL);
    if (!name) return cn_err_set(CN_ERR_TYPE, "events_hparams: %s have a number for a name", what);
    if (!fits(cn_tree_at(dict, i)))
      return cn_err_set(CN_ERR_TYPE, "events_hparams: '%s' of the %s is of a kind that the table does not show", name,
                        what);
  }
  return CN_OK;
}

static int type_of(const cn_tree *t)
{
  cn_tree_kind kind = cn_tree_kind_of(t);
  return kind == CN_TREE_STR ? TYPE_STRING : kind == CN_TREE_BOOL ? TYPE_BOOL : TYPE_FLOAT64;
}

static void put_experiment(cn_text *m, const cn_tree *settings, const cn_tree *metrics)
{
  cni_pb_double(m, 3 /* time_created_secs */, cn_wall_clock());
  for (size_t i = 0; i < cn_tree_size(settings); i++) {
    cn_text info = {0};
    cni_pb_str(&info, 1 /* name */, cn_tree_key(settings, i, NULL));
    cni_pb_int(&info, 4 /* type */, type_of(cn_tree_at(settings, i)));
    cni_pb_message(m, 4 /* hparam_infos */, &info);
  }
  for (size_t i = 0; i < cn_tree_size(metrics); i++) {
    cn_text info = {0}, name = {0};
    cni_pb_str(&name, 2 /* tag */, cn_tree_key(metrics, i, NULL));
    cni_pb_message(&info, 1 /* name */, &name);
    cni_pb_message(m, 5 /* metric_infos */, &info);
  }
}

/* A google.protobuf.Value. */
static void put_value(cn_text *m, const cn_tree *t)
{
  cn_tree_kind kind = cn_tree_kind_of(t);
  if (kind == CN_TREE_STR) cni_pb_bytes(m, 3 /* string_value */, cn_tree_as_str(t, ""), cn_tree_str_size(t));
  else if (kind == CN_TREE_BOOL) cni_pb_int(m, 4 /* bool_value */, cn_tree_as_bool(t, false));
  else cni_pb_double(m, 2 /* number_value */, cn_tree_as_float(t, 0));
}

static void put_start(cn_text *m, const cn_tree *settings)
{
  for (size_t i = 0; i < cn_tree_size(settings); i++) {
    cn_text entry = {0}, value = {0};
    cni_pb_str(&entry, 1 /* key */, cn_tree_key(settings, i, NULL));
    put_value(&value, cn_tree_at(settings, i));
    cni_pb_message(&entry, 2 /* value */, &value);
    cni_pb_message(m, 1 /* hparams */, &entry);
  }
  cni_pb_double(m, 5 /* start_time_secs */, cn_wall_clock());
}

/* One record: an HParamsPluginData whose field `field` is message; frees message. */
static int put(cn_events *events, const char *tag, int field, cn_text *message)
{
  cn_text data = {0}, value = {0};
  cni_pb_int(&data, 1 /* version */, VERSION);
  cni_pb_message(&data, field, message);
  int status = cni_events_put_value(events, tag, 0, &value, "hparams", &data);
  cn_text_free(&data);
  return status;
}

int cn_events_hparams(cn_events *events, const cn_tree *settings, const cn_tree *metrics)
{
  cn_text experiment = {0}, start = {0}, end = {0};
  int status = cni_events_check(events, "events_hparams", "-");
  if (!status) status = check(settings, is_setting, "settings");
  if (!status) status = check(metrics, is_number, "metrics");
  if (status) return status;
  put_experiment(&experiment, settings, metrics);
  status = put(events, "_hparams_/experiment", 2 /* experiment */, &experiment);
  if (status) return status;
  put_start(&start, settings);
  status = put(events, "_hparams_/session_start_info", 3 /* session_start_info */, &start);
  if (status) return status;
  cni_pb_int(&end, 1 /* status */, STATUS_SUCCESS);
  cni_pb_double(&end, 2 /* end_time_secs */, cn_wall_clock());
  status = put(events, "_hparams_/session_end_info", 4 /* session_end_info */, &end);
  for (size_t i = 0; !status && i < cn_tree_size(metrics); i++)
    status = cn_events_scalar(events, cn_tree_key(metrics, i, NULL), cn_tree_as_float(cn_tree_at(metrics, i), 0), 0);
  return status ? status : cn_events_flush(events);
}
