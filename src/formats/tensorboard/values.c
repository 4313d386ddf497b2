/* values.c: numbers, text, histograms and precision-recall curves in a file of events. See events.h.
 *
 * Place in the flow: each function makes one Summary value in the form that TensorBoard's plugins read and hands it to
 * tfrecord.c. Invariant: classes and thresholds are those of PyTorch's SummaryWriter, so that its logs and ours can be
 * laid over each other. */
#include <cairn/autograd.h>
#include <cairn/kw.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

int cn_events_scalar_as(cn_events *events, const char *tag, double value, cn_dtype dtype, int64_t step)
{
  cn_text v = {0}, tensor = {0};
  int status = cni_events_check(events, "events_scalar", tag);
  if (status) return status;
  if (dtype != CN_F32 && dtype != CN_F64)
    return cn_err_set(CN_ERR_DTYPE, "events_scalar: numbers are kept as float32 or float64, not %s",
                      cn_dtype_name(dtype));
  cni_pb_int(&tensor, 1 /* dtype */, dtype == CN_F64 ? CNI_TB_DOUBLE : CNI_TB_FLOAT);
  if (dtype == CN_F64) cni_pb_double(&tensor, 6 /* double_val */, value);
  else cni_pb_float(&tensor, 5 /* float_val */, (float)value);
  cni_pb_message(&v, 8 /* tensor */, &tensor);
  return cni_events_put_value(events, tag, step, &v, "scalars", NULL);
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

typedef struct histogram {
  const double *limits; /* n of them, rising */
  double *counts;       /* counts[1 + c]: of the class that begins at limits[c]; counts[0] stays 0 */
  size_t n;
  double min, max, num, sum, squares;
} histogram;

/* The class of v: limits[c] <= v < limits[c + 1], the last one with its upper end; n outside. */
static size_t class_of(const histogram *h, double v)
{
  const double *limits = h->limits;
  size_t low = 0, high = h->n - 1;
  if (!(v >= limits[0] && v <= limits[high])) return h->n;
  if (v == limits[high]) return high - 1;
  while (high - low > 1) {
    size_t middle = (low + high) / 2;
    if (v >= limits[middle]) low = middle;
    else high = middle;
  }
  return low;
}

/* Only finite elements count: a run that diverges can still be logged. */
static void count_values(histogram *h, const double *v, size_t n)
{
  h->min = INFINITY, h->max = -INFINITY;
  for (size_t i = 0; i < n; i++) {
    if (!isfinite(v[i])) continue;
    size_t c = class_of(h, v[i]);
    if (c < h->n) h->counts[1 + c]++;
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
  size_t first = 1, last = h->n - 1; /* in counts */
  while (first <= last && h->counts[first] == 0) first++;
  while (last >= first && h->counts[last] == 0) last--;
  if (first > last) return;
  size_t n = last - first + 2;
  cni_pb_doubles(m, 6 /* bucket_limit */, h->limits + first - 1, n);
  cni_pb_doubles(m, 7 /* bucket */, h->counts + first - 1, n);
}

static int put_histogram(cn_events *events, const char *tag, int64_t step, const histogram *h)
{
  cn_text v = {0}, m = {0};
  cni_pb_double(&m, 1 /* min */, h->min);
  cni_pb_double(&m, 2 /* max */, h->max);
  cni_pb_double(&m, 3 /* num */, h->num);
  cni_pb_double(&m, 4 /* sum */, h->sum);
  cni_pb_double(&m, 5 /* sum_squares */, h->squares);
  put_buckets(&m, h);
  cni_pb_message(&v, 5 /* histo */, &m);
  return cni_events_put_value(events, tag, step, &v, NULL, NULL);
}

int cn_events_histogram_at(cn_events *events, const char *tag, cn_tensor *values, const double *limits, size_t n,
                           int64_t step)
{
  size_t numel = 0;
  int status = cni_events_check(events, "events_histogram", tag);
  if (!status && n < 2) status = cn_err_set(CN_ERR_VALUE, "events_histogram: %zu limits make no class", n);
  for (size_t i = 1; !status && i < n; i++)
    if (!(limits[i - 1] < limits[i])) status = cn_err_set(CN_ERR_VALUE, "events_histogram: the limits do not rise");
  if (status) return status;
  double *numbers = cni_events_numbers(values, &numel);
  histogram h = {.limits = limits, .n = n, .counts = numbers ? cn_alloc((n + 1) * sizeof(double)) : NULL};
  if (h.counts) {
    memset(h.counts, 0, (n + 1) * sizeof *h.counts);
    count_values(&h, numbers, numel);
    status = put_histogram(events, tag, step, &h);
    cn_free(h.counts, (n + 1) * sizeof *h.counts);
  } else {
    status = cn_err();
  }
  if (numbers) cn_free(numbers, numel * sizeof *numbers);
  return status;
}

int cn_events_histogram(cn_events *events, const char *tag, cn_tensor *values, int64_t step)
{
  double limits[LIMITS];
  make_limits(limits);
  return cn_events_histogram_at(events, tag, values, limits, LIMITS, step);
}

/* ---- precision and recall ---- */

enum { THRESHOLDS = 127 }; /* of PyTorch's writer */
enum { TRUE_POSITIVES, FALSE_POSITIVES, TRUE_NEGATIVES, FALSE_NEGATIVES, PRECISION, RECALL, ROWS };

/* Counts of each of n thresholds: a prediction is positive for all thresholds up to its own. curve: (ROWS, n), zero. */
static void fill_curve(double *curve, size_t n, const double *labels, const double *predictions, size_t samples)
{
  static const double least = 1e-7; /* a denominator for thresholds that nothing passes */
  double *row[ROWS];
  for (size_t r = 0; r < ROWS; r++) row[r] = curve + r * n;
  for (size_t i = 0; i < samples; i++) {
    size_t at = (size_t)floor(predictions[i] * (double)(n - 1));
    row[TRUE_POSITIVES][at] += labels[i];
    row[FALSE_POSITIVES][at] += 1 - labels[i];
  }
  for (size_t k = n - 1; k-- > 0;)
    for (int r = TRUE_POSITIVES; r <= FALSE_POSITIVES; r++) row[r][k] += row[r][k + 1];
  for (size_t k = 0; k < n; k++) {
    double tp = row[TRUE_POSITIVES][k], fp = row[FALSE_POSITIVES][k];
    double fn = row[FALSE_NEGATIVES][k] = row[TRUE_POSITIVES][0] - tp;
    row[TRUE_NEGATIVES][k] = row[FALSE_POSITIVES][0] - fp;
    row[PRECISION][k] = tp / fmax(least, tp + fp);
    row[RECALL][k] = tp / fmax(least, tp + fn);
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

/* curve: (ROWS, n) */
static int put_curve(cn_events *events, const char *tag, int64_t step, const double *curve, size_t n)
{
  cn_text v = {0}, tensor = {0}, plugin = {0};
  cni_pb_int(&tensor, 1 /* dtype */, CNI_TB_FLOAT);
  put_shape(&tensor, 2 /* tensor_shape */, (const int64_t[]){ROWS, (int64_t)n}, 2);
  for (size_t k = 0; k < ROWS * n; k++) cni_pb_float(&tensor, 5 /* float_val */, (float)curve[k]);
  cni_pb_message(&v, 8 /* tensor */, &tensor);
  cni_pb_int(&plugin, 2 /* num_thresholds */, (int64_t)n);
  int status = cni_events_put_value(events, tag, step, &v, "pr_curves", &plugin);
  cn_text_free(&plugin);
  return status;
}

int cn_events_pr_curve_at(cn_events *events, const char *tag, cn_tensor *labels, cn_tensor *predictions,
                          size_t thresholds, int64_t step)
{
  enum { MOST = 1 << 20 };
  size_t n = 0, m = 0, size = ROWS * thresholds * sizeof(double);
  int status = cni_events_check(events, "events_pr_curve", tag);
  if (status) return status;
  if (thresholds < 2 || thresholds > MOST)
    return cn_err_set(CN_ERR_VALUE, "events_pr_curve: %zu thresholds; from 2 to %d can be", thresholds, MOST);
  if (cn_numel(labels) != cn_numel(predictions))
    return cn_err_set(CN_ERR_SHAPE, "events_pr_curve: %lld labels and %lld predictions", (long long)cn_numel(labels),
                      (long long)cn_numel(predictions));
  double *truth = cni_events_numbers(labels, &n);
  double *guess = truth ? cni_events_numbers(predictions, &m) : NULL;
  status = guess ? check_curve(truth, guess, n) : cn_err();
  double *curve = status ? NULL : cn_alloc(size);
  if (curve) {
    memset(curve, 0, size);
    fill_curve(curve, thresholds, truth, guess, n);
    status = put_curve(events, tag, step, curve, thresholds);
    cn_free(curve, size);
  } else if (!status) {
    status = cn_err();
  }
  if (truth) cn_free(truth, n * sizeof *truth);
  if (guess) cn_free(guess, m * sizeof *guess);
  return status;
}

int cn_events_pr_curve(cn_events *events, const char *tag, cn_tensor *labels, cn_tensor *predictions, int64_t step)
{
  return cn_events_pr_curve_at(events, tag, labels, predictions, THRESHOLDS, step);
}
