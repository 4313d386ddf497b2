/* metrics.c: what is measured over many batches. See train.h.
 *
 * Place in the flow: cn_fit and cn_evaluate feed them with the outputs and targets of each batch; a program may do so
 * itself. A metric is a row of a table (how a batch is counted, what the counts amount to) and an array of float64,
 * which is all its state: sums, a confusion matrix, or pairs of score and truth.
 * Invariant: a batch is counted whole or, on an error, not at all. */
#include "metrics.h"

#include <cairn/autograd.h>
#include <cairn/ext/system.h>
#include <cairn/kw.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct metric_kind {
  const char *name;
  bool lower_is_better;
  int (*update)(cn_metric *m, cn_tensor *output, cn_tensor *target); /* NULL: fed by cn_metric_add */
  double (*value)(cn_metric *m);
  cn_tensor *(*tensor)(cn_metric *m); /* NULL: the value alone */
} metric_kind;

struct cn_metric {
  const metric_kind *kind;
  char *name;
  int64_t classes, k;
  cn_averaging average;
  double *v;
  size_t n, cap; /* n: how many are in use; growing ones begin with none */
};

/* ---- batches as host numbers ---- */

/* All elements, row-major; *n of them. Owned: cn_free(_, cn_dtype_bytes(dtype, *n)). */
static void *host(cn_tensor *t, cn_dtype dtype, size_t *n)
{
  if (cn_device_of(t) != CN_CPU) t = cn_to_device(t, CN_CPU);
  if (t && cn_dtype_of(t) != dtype) t = cn_cast(t, dtype);
  *n = (size_t)cn_numel(t);
  size_t size = cn_dtype_bytes(dtype, (int64_t)*n);
  void *v = t ? cn_alloc(size) : NULL;
  if (v && cn_to_data(v, size, t)) {
    cn_free(v, size);
    v = NULL;
  }
  return v;
}

static int bad_shapes(const cn_metric *m, const cn_tensor *output, const cn_tensor *target, const char *want)
{
  cn_text t = {0};
  cn_text_put_sizes(&t, cn_shape(output), (size_t)cn_ndim(output));
  cn_text_put(&t, " and targets ");
  cn_text_put_sizes(&t, cn_shape(target), (size_t)cn_ndim(target));
  int status = cn_err_set(CN_ERR_SHAPE, "%s: outputs %s do not fit: %s", m->name, t.s ? t.s : "", want);
  cn_text_free(&t);
  return status;
}

/* Classes as whole numbers; floats must be whole too. */
static int64_t *classes_of(const cn_metric *m, cn_tensor *t, size_t *n)
{
  if (!cn_dtype_is_float(cn_dtype_of(t))) return host(t, CN_I64, n);
  double *v = host(t, CN_F64, n);
  size_t size = *n * sizeof(int64_t);
  int64_t *classes = v ? cn_alloc(size) : NULL;
  for (size_t i = 0; classes && i < *n; i++) {
    classes[i] = fabs(v[i]) < 9e15 ? (int64_t)v[i] : -1;
    if ((double)classes[i] == v[i]) continue;
    cn_err_set(CN_ERR_VALUE, "%s: target %zu is not the number of a class", m->name, i);
    cn_free(classes, size);
    classes = NULL;
  }
  cn_free(v, *n * sizeof *v);
  return classes;
}

/* Is output (N, C, ...) for target (N, ...)? */
static bool scores_fit(const cn_tensor *output, const cn_tensor *target)
{
  int n = cn_ndim(target);
  if (n < 1 || cn_ndim(output) != n + 1 || cn_size(output, 0) != cn_size(target, 0)) return false;
  for (int i = 1; i < n; i++)
    if (cn_size(output, i + 1) != cn_size(target, i)) return false;
  return true;
}

/* The class that output says: the best of (N, C, ...), or of (N, ...): itself when it is of integers, else whether it
 * is above 0.5. NULL with an error when it does not fit. */
static cn_tensor *predicted(const cn_metric *m, cn_tensor *output, cn_tensor *target)
{
  if (scores_fit(output, target)) return cn_argmax(output, 1);
  if (cn_same_shape(output, target))
    return cn_dtype_is_float(cn_dtype_of(output)) ? cn_gt(output, cn_num(0.5)) : output;
  bad_shapes(m, output, target, "scores are (N, C, ...) for classes (N, ...), or both are (N, ...)");
  return NULL;
}

/* Pairs of predicted and true class of a batch; freed by pairs_free in any case. */
typedef struct pairs {
  int64_t *said, *is;
  size_t n, nis;
} pairs;

static int pairs_of(pairs *p, const cn_metric *m, cn_tensor *output, cn_tensor *target)
{
  *p = (pairs){0};
  cn_tensor *classes = predicted(m, output, target);
  if (classes) p->said = host(classes, CN_I64, &p->n);
  if (p->said) p->is = classes_of(m, target, &p->nis);
  return p->is ? CN_OK : cn_err();
}

static void pairs_free(pairs *p)
{
  if (p->said) cn_free(p->said, p->n * sizeof *p->said);
  if (p->is) cn_free(p->is, p->nis * sizeof *p->is);
}

/* ---- means and accuracies: a sum and a weight ---- */

static double mean_value(cn_metric *m) { return m->v[1] != 0 ? m->v[0] / m->v[1] : NAN; }

static int accuracy_update(cn_metric *m, cn_tensor *output, cn_tensor *target)
{
  pairs p;
  int status = pairs_of(&p, m, output, target);
  for (size_t i = 0; !status && i < p.n; i++) m->v[0] += p.said[i] == p.is[i];
  if (!status) m->v[1] += (double)p.n;
  pairs_free(&p);
  return status;
}

static int top_k_update(cn_metric *m, cn_tensor *output, cn_tensor *target)
{
  cn_tensor *best;
  size_t n = 0, found = 0;
  if (!scores_fit(output, target))
    return bad_shapes(m, output, target, "scores are (N, C, ...) for classes (N, ...)");
  if (m->k > cn_size(output, 1))
    return cn_err_set(CN_ERR_VALUE, "%s: there are only %lld classes", m->name, (long long)cn_size(output, 1));
  if (cn_topk(NULL, &best, output, m->k, .dim = 1)) return cn_err();
  int64_t *is = classes_of(m, target, &n), *said = is ? host(best, CN_I64, &found) : NULL;
  size_t inner = 1;
  for (int i = 2; i < cn_ndim(output); i++) inner *= (size_t)cn_size(output, i);
  size_t k = (size_t)m->k;
  for (size_t i = 0; said && i < n; i++)
    for (size_t j = 0; j < k; j++) m->v[0] += said[(i / inner * k + j) * inner + i % inner] == is[i];
  if (said) m->v[1] += (double)n;
  if (is) cn_free(is, n * sizeof *is);
  if (said) cn_free(said, found * sizeof *said);
  return said ? CN_OK : cn_err();
}

/* ---- confusion matrices: v[true * classes + predicted] ---- */

static int check_classes(const cn_metric *m, const int64_t *v, size_t n, const char *what)
{
  for (size_t i = 0; i < n; i++)
    if (v[i] < 0 || v[i] >= m->classes)
      return cn_err_set(CN_ERR_INDEX, "%s: %s class %lld; there are %lld", m->name, what, (long long)v[i],
                        (long long)m->classes);
  return CN_OK;
}

static int confusion_update(cn_metric *m, cn_tensor *output, cn_tensor *target)
{
  pairs p;
  int status = pairs_of(&p, m, output, target);
  if (!status && scores_fit(output, target) && cn_size(output, 1) != m->classes)
    status = cn_err_set(CN_ERR_SHAPE, "%s: outputs have scores of %lld classes, not of %lld", m->name,
                        (long long)cn_size(output, 1), (long long)m->classes);
  if (!status) status = check_classes(m, p.is, p.nis, "a true");
  if (!status) status = check_classes(m, p.said, p.n, "a predicted");
  for (size_t i = 0; !status && i < p.n; i++) m->v[p.is[i] * m->classes + p.said[i]]++;
  pairs_free(&p);
  return status;
}

/* Of one class: hits, how often it was predicted, and how often it was true. */
typedef struct class_counts {
  double hits, said, is;
} class_counts;

static class_counts counts_of(const cn_metric *m, int64_t c)
{
  class_counts n = {.hits = m->v[c * m->classes + c]};
  for (int64_t i = 0; i < m->classes; i++) {
    n.said += m->v[i * m->classes + c];
    n.is += m->v[c * m->classes + i];
  }
  return n;
}

/* What cannot be said (nothing over nothing) counts as 0. */
static double ratio(double a, double b) { return b != 0 ? a / b : 0; }

static double precision_of(class_counts n) { return ratio(n.hits, n.said); }
static double recall_of(class_counts n) { return ratio(n.hits, n.is); }
static double f1_of(class_counts n) { return ratio(2 * n.hits, n.said + n.is); }
static double iou_of(class_counts n) { return ratio(n.hits, n.said + n.is - n.hits); }

/* Over classes: of all counts together, or the mean of those that occur, plain or weighted by how often each is
 * true. */
static double averaged(const cn_metric *m, double (*of)(class_counts))
{
  class_counts all = {0};
  double sum = 0, weights = 0;
  for (int64_t c = 0; c < m->classes; c++) {
    class_counts n = counts_of(m, c);
    double weight = m->average == CN_WEIGHTED ? n.is : n.said + n.is > 0;
    all = (class_counts){all.hits + n.hits, all.said + n.said, all.is + n.is};
    sum += weight * of(n);
    weights += weight;
  }
  if (all.is == 0) return NAN;
  return m->average == CN_MICRO ? of(all) : ratio(sum, weights);
}

static cn_tensor *each(const cn_metric *m, double (*of)(class_counts))
{
  cn_tensor *t = cn_zeros(CN_SHAPE(m->classes), .dtype = CN_F64, .device = CN_CPU);
  double *v = t ? cn_data(t) : NULL;
  for (int64_t c = 0; v && c < m->classes; c++) v[c] = of(counts_of(m, c));
  return t;
}

static double precision_value(cn_metric *m) { return averaged(m, precision_of); }
static double recall_value(cn_metric *m) { return averaged(m, recall_of); }
static double f1_value(cn_metric *m) { return averaged(m, f1_of); }
static double iou_value(cn_metric *m) { return averaged(m, iou_of); }
static cn_tensor *precision_tensor(cn_metric *m) { return each(m, precision_of); }
static cn_tensor *recall_tensor(cn_metric *m) { return each(m, recall_of); }
static cn_tensor *f1_tensor(cn_metric *m) { return each(m, f1_of); }
static cn_tensor *iou_tensor(cn_metric *m) { return each(m, iou_of); }

static double confusion_value(cn_metric *m)
{
  double hits = 0, all = 0;
  for (int64_t c = 0; c < m->classes; c++) {
    class_counts n = counts_of(m, c);
    hits += n.hits;
    all += n.is;
  }
  return all > 0 ? hits / all : NAN;
}

static cn_tensor *confusion_tensor(cn_metric *m)
{
  cn_tensor *t = cn_zeros(CN_SHAPE(m->classes, m->classes), .dtype = CN_I64, .device = CN_CPU);
  int64_t *v = t ? cn_data(t) : NULL;
  for (size_t i = 0; v && i < m->n; i++) v[i] = (int64_t)m->v[i];
  return t;
}

/* ---- area under the ROC curve: v holds pairs of score and truth ---- */

/* (N) or (N, 1) */
static bool is_column(const cn_tensor *t) { return cn_ndim(t) == 1 || (cn_ndim(t) == 2 && cn_size(t, 1) == 1); }

static int auc_add(cn_metric *m, const double *scores, const int64_t *truths, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    if (isnan(scores[i])) return cn_err_set(CN_ERR_VALUE, "%s: score %zu is not a number", m->name, i);
    if (truths[i] != 0 && truths[i] != 1)
      return cn_err_set(CN_ERR_VALUE, "%s: truth %zu is neither 0 nor 1", m->name, i);
  }
  if (cn_grow((void **)&m->v, &m->cap, m->n + 2 * n, sizeof *m->v)) return CN_ERR_MEMORY;
  for (size_t i = 0; i < n; i++) {
    m->v[m->n++] = scores[i];
    m->v[m->n++] = (double)truths[i];
  }
  return CN_OK;
}

static int auc_update(cn_metric *m, cn_tensor *output, cn_tensor *target)
{
  size_t n = 0, ntruths = 0;
  if (!is_column(output) || !is_column(target) || cn_size(output, 0) != cn_size(target, 0))
    return bad_shapes(m, output, target, "scores and truths are (N)");
  double *scores = host(output, CN_F64, &n);
  int64_t *truths = scores ? classes_of(m, target, &ntruths) : NULL;
  int status = truths ? auc_add(m, scores, truths, n) : cn_err();
  if (scores) cn_free(scores, n * sizeof *scores);
  if (truths) cn_free(truths, ntruths * sizeof *truths);
  return status;
}

static int by_score(const void *a, const void *b)
{
  const double *p = a, *q = b;
  return (p[0] > q[0]) - (p[0] < q[0]);
}

/* How often a true one scores above a false one; equal scores count half: by sums of ranks. */
static double auc_value(cn_metric *m)
{
  size_t n = m->n / 2;
  double ranks = 0, yes = 0;
  if (n) qsort(m->v, n, 2 * sizeof *m->v, by_score);
  for (size_t i = 0, next; i < n; i = next) {
    double here = 0;
    for (next = i; next < n && m->v[2 * next] == m->v[2 * i]; next++) here += m->v[2 * next + 1];
    ranks += here * ((double)(i + next) + 1) / 2; /* the mean rank, from 1, of those that are equal */
    yes += here;
  }
  double no = (double)n - yes;
  return yes > 0 && no > 0 ? (ranks - yes * (yes + 1) / 2) / (yes * no) : NAN;
}

/* ---- perplexity: a sum of losses and how many ---- */

static bool ends_with_scores(const cn_tensor *output, const cn_tensor *target)
{
  int n = cn_ndim(target);
  return n > 0 && cn_ndim(output) == n + 1 && !memcmp(cn_shape(output), cn_shape(target), (size_t)n * sizeof(int64_t));
}

/* Scores (..., C) as language models have them, or (N, C, ...) as cross entropy wants them. */
static int perplexity_update(cn_metric *m, cn_tensor *output, cn_tensor *target)
{
  if (ends_with_scores(output, target)) {
    output = cn_reshape(output, CN_SHAPE(cn_numel(target), cn_size(output, -1)));
    target = cn_reshape(target, CN_SHAPE(cn_numel(target)));
  } else if (!scores_fit(output, target)) {
    return bad_shapes(m, output, target, "scores are (N, C, ...) or (N, ..., C) for classes (N, ...)");
  }
  if (output && cn_dtype_of(output) != CN_F64) output = cn_cast(output, CN_F32);
  cn_tensor *losses = cn_cast(cn_cross_entropy(output, target, .reduction = "none"), CN_F64);
  cn_tensor *counted = cn_cast(cn_ne(target, cn_int(-100)), CN_F64);
  double sum = cn_item(cn_sum(losses)), count = cn_item(cn_sum(counted));
  if (cn_err()) return cn_err();
  m->v[0] += sum;
  m->v[1] += count;
  return CN_OK;
}

static double perplexity_value(cn_metric *m) { return exp(mean_value(m)); }

/* ---- the table, and what is common ---- */

static const metric_kind mean_kind = {"mean", true, NULL, mean_value, NULL};
static const metric_kind accuracy_kind = {"accuracy", false, accuracy_update, mean_value, NULL};
static const metric_kind top_k_kind = {"top", false, top_k_update, mean_value, NULL};
static const metric_kind precision_kind = {"precision", false, confusion_update, precision_value, precision_tensor};
static const metric_kind recall_kind = {"recall", false, confusion_update, recall_value, recall_tensor};
static const metric_kind f1_kind = {"f1", false, confusion_update, f1_value, f1_tensor};
static const metric_kind confusion_kind = {"confusion", false, confusion_update, confusion_value, confusion_tensor};
static const metric_kind auc_kind = {"auc", false, auc_update, auc_value, NULL};
static const metric_kind perplexity_kind = {"perplexity", true, perplexity_update, perplexity_value, NULL};
static const metric_kind iou_kind = {"mean_iou", false, confusion_update, iou_value, iou_tensor};

static cn_metric *make(const metric_kind *kind, const char *name, size_t room)
{
  if (cn_err()) return NULL;
  if (!name || !*name) {
    cn_err_set(CN_ERR_VALUE, "metric: it needs a name");
    return NULL;
  }
  cn_metric *m = cn_alloc_zero(sizeof *m);
  if (!m) return NULL;
  m->kind = kind;
  m->name = cn_string_copy(name);
  m->n = room;
  if (m->name && !cn_grow((void **)&m->v, &m->cap, room + 1, sizeof *m->v)) {
    cn_metric_reset(m);
    return m;
  }
  cn_metric_free(m);
  return NULL;
}

static cn_metric *make_classes(const metric_kind *kind, int64_t classes, cn_averaging average)
{
  enum { CLASSES_MOST = 1 << 15 };
  if (classes < 2 || classes > CLASSES_MOST) {
    cn_err_set(CN_ERR_VALUE, "%s: of %lld classes; 2 to %d are possible", kind->name, (long long)classes, CLASSES_MOST);
    return NULL;
  }
  if (average < CN_MACRO || average > CN_WEIGHTED) {
    cn_err_set(CN_ERR_VALUE, "%s: there is no averaging %d", kind->name, (int)average);
    return NULL;
  }
  static const char *const endings[] = {"", "_micro", "_weighted"};
  cn_text name = {0};
  cn_text_putf(&name, "%s%s", kind->name, endings[average]);
  cn_metric *m = name.failed ? NULL : make(kind, name.s, (size_t)(classes * classes));
  cn_text_free(&name);
  if (m) m->classes = classes;
  if (m) m->average = average;
  return m;
}

cn_metric *cn_metric_mean(const char *name) { return make(&mean_kind, name, 2); }
cn_metric *cn_metric_accuracy(void) { return make(&accuracy_kind, accuracy_kind.name, 2); }
cn_metric *cn_metric_auc(void) { return make(&auc_kind, auc_kind.name, 0); }
cn_metric *cn_metric_perplexity(void) { return make(&perplexity_kind, perplexity_kind.name, 2); }

cn_metric *cn_metric_top_k(int64_t k)
{
  cn_text name = {0};
  if (k < 1) {
    cn_err_set(CN_ERR_VALUE, "top_k: of %lld", (long long)k);
    return NULL;
  }
  cn_text_putf(&name, "%s%lld", top_k_kind.name, (long long)k);
  cn_metric *m = make(&top_k_kind, name.s, 2);
  if (m) m->k = k;
  cn_text_free(&name);
  return m;
}

cn_metric *cn_metric_precision(int64_t classes, cn_averaging average)
{
  return make_classes(&precision_kind, classes, average);
}
cn_metric *cn_metric_recall(int64_t classes, cn_averaging average)
{
  return make_classes(&recall_kind, classes, average);
}
cn_metric *cn_metric_f1(int64_t classes, cn_averaging average) { return make_classes(&f1_kind, classes, average); }
cn_metric *cn_metric_confusion(int64_t classes) { return make_classes(&confusion_kind, classes, CN_MACRO); }
cn_metric *cn_metric_mean_iou(int64_t classes) { return make_classes(&iou_kind, classes, CN_MACRO); }

void cn_metric_free(cn_metric *m)
{
  if (!m) return;
  cn_string_free(m->name);
  cn_free(m->v, m->cap * sizeof *m->v);
  cn_free(m, sizeof *m);
}

const char *cn_metric_name(const cn_metric *m) { return m ? m->name : NULL; }
bool cn_metric_higher_is_better(const cn_metric *m) { return m && !m->kind->lower_is_better; }
bool cni_metric_takes_batches(const cn_metric *m) { return m && m->kind->update; }

int cn_metric_update(cn_metric *m, cn_tensor *output, cn_tensor *target)
{
  if (cn_err()) return cn_err();
  if (!m || !output || !target) return cn_err_set(CN_ERR_TYPE, "metric_update: an argument is missing (NULL)");
  if (!m->kind->update) return cn_err_set(CN_ERR_TYPE, "%s: a mean is fed by cn_metric_add", m->name);
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  int status = m->kind->update(m, output, target);
  cn_no_grad_end(saved);
  cn_scope_end(s);
  return status;
}

int cn_metric_add(cn_metric *m, double value, double weight)
{
  if (cn_err()) return cn_err();
  if (!m) return cn_err_set(CN_ERR_TYPE, "metric_add: the metric is missing (NULL)");
  if (m->kind->update) return cn_err_set(CN_ERR_TYPE, "%s: it is fed by cn_metric_update", m->name);
  if (!(weight >= 0)) return cn_err_set(CN_ERR_VALUE, "%s: a weight below zero", m->name);
  m->v[0] += weight > 0 ? value * weight : 0;
  m->v[1] += weight;
  return CN_OK;
}

double cn_metric_value(cn_metric *m) { return m ? m->kind->value(m) : NAN; }

cn_tensor *cn_metric_tensor(cn_metric *m)
{
  if (cn_err()) return NULL;
  if (m && m->kind->tensor) return m->kind->tensor(m);
  return cn_full(CN_SCALAR_SHAPE, cn_metric_value(m), .dtype = CN_F64, .device = CN_CPU);
}

void cn_metric_reset(cn_metric *m)
{
  if (!m) return;
  if (m->kind == &auc_kind) m->n = 0;
  else memset(m->v, 0, m->n * sizeof *m->v);
}

/* ---- state ---- */

cn_tree *cni_metric_state(const cn_metric *m)
{
  cn_scope *s = cn_scope_begin();
  cn_tree *t = cn_tree_tensor(cn_from_data(m->v, CN_SHAPE((int64_t)m->n), CN_F64));
  cn_scope_end(s);
  return t;
}

int cni_metric_load(cn_metric *m, const cn_tree *state)
{
  cn_tensor *t = cn_tree_as_tensor(state);
  size_t n = (size_t)cn_numel(t);
  if (!t || cn_dtype_of(t) != CN_F64 || (m->kind == &auc_kind ? n % 2 != 0 : n != m->n))
    return cn_err_set(CN_ERR_VALUE, "%s: the checkpoint is of another metric", m->name);
  if (cn_grow((void **)&m->v, &m->cap, n + 1, sizeof *m->v)) return CN_ERR_MEMORY;
  m->n = n;
  return cn_to_data(m->v, n * sizeof *m->v, t);
}
