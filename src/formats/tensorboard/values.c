/* values.c: numbers, text, histograms and precision-recall curves in a file of events. See events.h.
 *
 * Place in the flow: each function makes one Summary value in the form that TensorBoard's plugins read and hands it to
 * tfrecord.c. Invariant: classes and thresholds are those of PyTorch's SummaryWriter, so that its logs and ours can be
 * laid over each other. */
#include <cairn/autograd.h>
#include <cairn/kw.h>
#include <math.h>
#include <stdlib.h>

#include "tfrecord.h"

double *cni_events_numbers(cn_tensor *t, size_t *n)
{
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  *n = 0;
  if (t && cn_device_of(t) != CN_CPU) t = cn_to_device(t, CN_CPU);
  if (t && cn_dtype_of(t) != CN_F64) t = cn_cast(t, CN_F64);
  size_t count = t ? (size_t)cn_numel(t) : 0;
  double *v = t && !cn_err() ? cn_alloc(count * sizeof *v) : NULL;
  if (v && cn_to_data(v, count * sizeof *v, t)) {
    cn_free(v, count * sizeof *v);
    v = NULL;
  }
  if (v) *n = count;
  else if (!cn_err()) cn_err_set(CN_ERR_TYPE, "events: a tensor is missing (NULL)");
  cn_no_grad_end(saved);
  cn_scope_end(s);
  return v;
}

int cn_events_scalar(cn_events *events, const char *tag, double value, int64_t step)
{
  cn_text v = {0};
  int status = cni_events_check(events, "events_scalar", tag);
  if (status) return status;
  cni_pb_float(&v, 2 /* simple_value */, (float)value);
  return cni_events_put_value(events, tag, step, &v, NULL, NULL);
}

int cn_events_restart(cn_events *events, int64_t step)
{
  cn_text log = {0};
  int status = cni_events_check(events, "events_restart", "-");
  if (status) return status;
  cni_pb_int(&log, 1 /* status */, 1 /* START */);
  return cni_events_put(events, step, 7 /* session_log */, &log);
}

/* A TensorShapeProto as field `field` of a message. */
static void put_shape(cn_text *m, int field, const int64_t *shape, size_t ndim)
{
  cn_text dims = {0};
  for (size_t i = 0; i < ndim; i++) {
    cn_text dim = {0};
    cni_pb_int(&dim, 1 /* size */, shape[i]);
    cni_pb_message(&dims, 2 /* dim */, &dim);
  }
  cni_pb_message(m, field, &dims);
}

int cn_events_text(cn_events *events, const char *tag, const char *markdown, int64_t step)
{
  cn_text v = {0}, tensor = {0};
  int status = cni_events_check(events, "events_text", tag);
  if (status) return status;
  if (!markdown) return cn_err_set(CN_ERR_TYPE, "events_text: the text is missing (NULL)");
  cni_pb_int(&tensor, 1 /* dtype */, CNI_TB_STRING);
  put_shape(&tensor, 2 /* tensor_shape */, NULL, 0);
  cni_pb_str(&tensor, 8 /* string_val */, markdown);
  cni_pb_message(&v, 8 /* tensor */, &tensor);
  return cni_events_put_value(events, tag, step, &v, "text", NULL);
}

/* ---- histograms ---- */

/* Limits grow by a tenth from 1e-12 on, on both sides of zero. */
enum { SIDE = 774, LIMITS = 2 * SIDE + 1 };

static void make_limits(double *limits)
{
  double v = 1e-12;
  limits[SIDE] = 0;
  for (int i = 1; i <= SIDE; i++, v *= 1.1) {
    limits[SIDE + i] = v;
    limits[SIDE - i] = -v;
  }
}

/* The class of v: limits[c] <= v < limits[c + 1], the last one with its upper end; -1 outside. */
static int class_of(const double *limits, double v)
{
  int low = 0, high = LIMITS - 1;
  if (!(v >= limits[0] && v <= limits[high])) return -1;
  if (v == limits[high]) return high - 1;
  while (high - low > 1) {
    int middle = (low + high) / 2;
    if (v >= limits[middle]) low = middle;
    else high = middle;
  }
  return low;
}

typedef struct histogram {
  double limits[LIMITS], counts[LIMITS]; /* counts[c]: of the class that begins at limits[c] */
  double min, max, num, sum, squares;
} histogram;

/* Only finite elements count: a run that diverges can still be logged. */
static void count_values(histogram *h, const double *v, size_t n)
{
  *h = (histogram){.min = INFINITY, .max = -INFINITY};
  make_limits(h->limits);
  for (size_t i = 0; i < n; i++) {
    if (!isfinite(v[i])) continue;
    int c = class_of(h->limits, v[i]);
    if (c >= 0) h->counts[c]++;
    h->min = v[i] < h->min ? v[i] : h->min;
    h->max = v[i] > h->max ? v[i] : h->max;
    h->num++;
    h->sum += v[i];
    h->squares += v[i] * v[i];
  }
  if (h->num == 0) h->min = h->max = 0;
}

/* Classes from an empty one in front of the first that is not empty to the last that is not. A bucket's limit is its
 * upper end. */
static void put_buckets(cn_text *m, const histogram *h)
{
  int first = 0, last = LIMITS - 2;
  while (first <= last && h->counts[first] == 0) first++;
  while (last >= first && h->counts[last] == 0) last--;
  if (first > last) return;
  double counts[LIMITS + 1] = {0};
  for (int c = first; c <= last; c++) counts[1 + c - first] = h->counts[c];
  size_t n = (size_t)(last - first) + 2;
  cni_pb_doubles(m, 6 /* bucket_limit */, h->limits + first, n);
  cni_pb_doubles(m, 7 /* bucket */, counts, n);
}

int cn_events_histogram(cn_events *events, const char *tag, cn_tensor *values, int64_t step)
{
  cn_text v = {0}, m = {0};
  size_t n;
  int status = cni_events_check(events, "events_histogram", tag);
  double *numbers = status ? NULL : cni_events_numbers(values, &n);
  histogram *h = numbers ? cn_alloc(sizeof *h) : NULL;
  if (h) {
    count_values(h, numbers, n);
    cni_pb_double(&m, 1 /* min */, h->min);
    cni_pb_double(&m, 2 /* max */, h->max);
    cni_pb_double(&m, 3 /* num */, h->num);
    cni_pb_double(&m, 4 /* sum */, h->sum);
    cni_pb_double(&m, 5 /* sum_squares */, h->squares);
    put_buckets(&m, h);
    cni_pb_message(&v, 5 /* histo */, &m);
    status = cni_events_put_value(events, tag, step, &v, NULL, NULL);
  } else if (!status) {
    status = cn_err();
  }
  cn_free(h, sizeof *h);
  if (numbers) cn_free(numbers, n * sizeof *numbers);
  return status;
}

/* ---- precision and recall ---- */

enum { THRESHOLDS = 127, ROWS = 6 };
enum { TRUE_POSITIVES, FALSE_POSITIVES, TRUE_NEGATIVES, FALSE_NEGATIVES, PRECISION, RECALL };

/* Counts of each threshold: a prediction is positive for all thresholds up to its own. */
static void fill_curve(double (*curve)[THRESHOLDS], const double *labels, const double *predictions, size_t n)
{
  static const double least = 1e-7; /* a denominator for thresholds that nothing passes */
  for (size_t i = 0; i < n; i++) {
    int at = (int)floor(predictions[i] * (THRESHOLDS - 1));
    curve[TRUE_POSITIVES][at] += labels[i];
    curve[FALSE_POSITIVES][at] += 1 - labels[i];
  }
  for (int k = THRESHOLDS - 2; k >= 0; k--)
    for (int row = TRUE_POSITIVES; row <= FALSE_POSITIVES; row++) curve[row][k] += curve[row][k + 1];
  for (int k = 0; k < THRESHOLDS; k++) {
    double tp = curve[TRUE_POSITIVES][k], fp = curve[FALSE_POSITIVES][k];
    double fn = curve[FALSE_NEGATIVES][k] = curve[TRUE_POSITIVES][0] - tp;
    curve[TRUE_NEGATIVES][k] = curve[FALSE_POSITIVES][0] - fp;
    curve[PRECISION][k] = tp / fmax(least, tp + fp);
    curve[RECALL][k] = tp / fmax(least, tp + fn);
  }
}

static int check_curve(const double *labels, const double *predictions, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    if (labels[i] != 0 && labels[i] != 1)
      return cn_err_set(CN_ERR_VALUE, "events_pr_curve: label %zu is neither 0 nor 1", i);
    if (!(predictions[i] >= 0 && predictions[i] <= 1))
      return cn_err_set(CN_ERR_VALUE, "events_pr_curve: prediction %zu is not in [0, 1]", i);
  }
  return CN_OK;
}

static int put_curve(cn_events *events, const char *tag, int64_t step, const double *labels, const double *predictions,
                     size_t n)
{
  double curve[ROWS][THRESHOLDS] = {{0}};
  cn_text v = {0}, tensor = {0}, plugin = {0};
  fill_curve(curve, labels, predictions, n);
  cni_pb_int(&tensor, 1 /* dtype */, CNI_TB_FLOAT);
  put_shape(&tensor, 2 /* tensor_shape */, (const int64_t[]){ROWS, THRESHOLDS}, 2);
  for (int k = 0; k < ROWS * THRESHOLDS; k++)
    cni_pb_float(&tensor, 5 /* float_val */, (float)curve[k / THRESHOLDS][k % THRESHOLDS]);
  cni_pb_message(&v, 8 /* tensor */, &tensor);
  cni_pb_int(&plugin, 2 /* num_thresholds */, THRESHOLDS);
  int status = cni_events_put_value(events, tag, step, &v, "pr_curves", &plugin);
  cn_text_free(&plugin);
  return status;
}

int cn_events_pr_curve(cn_events *events, const char *tag, cn_tensor *labels, cn_tensor *predictions, int64_t step)
{
  size_t n = 0, m = 0;
  int status = cni_events_check(events, "events_pr_curve", tag);
  if (status) return status;
  if (cn_numel(labels) != cn_numel(predictions))
    return cn_err_set(CN_ERR_SHAPE, "events_pr_curve: %lld labels and %lld predictions", (long long)cn_numel(labels),
                      (long long)cn_numel(predictions));
  double *truth = cni_events_numbers(labels, &n);
  double *guess = truth ? cni_events_numbers(predictions, &m) : NULL;
  status = guess ? check_curve(truth, guess, n) : cn_err();
  if (!status) status = put_curve(events, tag, step, truth, guess, n);
  if (truth) cn_free(truth, n * sizeof *truth);
  if (guess) cn_free(guess, m * sizeof *guess);
  return status;
}
