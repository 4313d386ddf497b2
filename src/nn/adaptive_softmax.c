/* adaptive_softmax.c: AdaptiveLogSoftmaxWithLoss: a softmax over very many classes whose rare ones share small layers.
 *
 * Place in the flow: Linear layers as children under PyTorch's names. The head scores the frequent classes and one
 * entry for each cluster of rare ones; a cluster scores its own. Invariant: a cluster's layers run only on the rows
 * whose target lies in it, which is what makes it cheap (and is why a call cannot be captured). */
#include <cairn/nn.h>
#include <math.h>
#include <string.h>

#include "nn.h"

enum { IN, CLASSES, CUTOFFS, DIV, HEAD_BIAS, DEVICE, DTYPE }; /* arguments */
enum { HEAD, TAIL };                                          /* children */

/* Where cluster i begins; i may be the number of clusters. Cluster 0 is the head's own classes. */
static int64_t cutoff(const cn_value *a, int i)
{
  return i == 0 ? 0 : i <= a[CUTOFFS].n ? a[CUTOFFS].u.is[i - 1] : a[CLASSES].u.i;
}

static cn_module *linear(int64_t in, int64_t out, bool bias, const cn_value *place)
{
  cn_value args[] = {cn_v_int(in), cn_v_int(out), cn_v_bool(bias), place[0], place[1]};
  return cn_module_make("Linear", args, 5);
}

static int adaptive_init(cn_module *m, const cn_value *a)
{
  const cn_value *place = &a[DEVICE];
  int n = a[CUTOFFS].n;
  bool fine = n > 0 && a[DIV].u.f > 0;
  for (int i = 0; i < n && fine; i++) fine = cutoff(a, i + 1) > cutoff(a, i) && cutoff(a, i + 1) < a[CLASSES].u.i;
  if (!fine)
    return cn_err_set(CN_ERR_VALUE, "AdaptiveLogSoftmaxWithLoss: cutoffs must rise, from 1 at least to n_classes - 1 "
                      "at most, and div_value must be positive");
  cn_module_add(m, "head", linear(a[IN].u.i, cutoff(a, 1) + n, a[HEAD_BIAS].u.i, place));
  cn_module *tail = cn_nn_module_list_of(NULL, 0);
  for (int i = 1; i <= n && !cn_err(); i++) {
    int64_t inner = (int64_t)floor((double)a[IN].u.i / pow(a[DIV].u.f, i)), out = cutoff(a, i + 1) - cutoff(a, i);
    cn_module *pair[2] = {linear(a[IN].u.i, inner, false, place), linear(inner, out, false, place)};
    cn_module_add(tail, NULL, cn_nn_sequential_of(pair, 2));
  }
  return cn_module_add(m, "tail", tail);
}

static int check_call(cn_tensor *x, cn_tensor *target)
{
  int ndim = cn_ndim(target);
  if (ndim > 1 || cn_ndim(x) != ndim + 1)
    return cn_err_set(CN_ERR_SHAPE, "AdaptiveLogSoftmaxWithLoss: takes inputs (N, n) with targets (N), or (n) with "
                      "one");
  if (cn_dtype_of(target) != CN_I64)
    return cn_err_set(CN_ERR_DTYPE, "AdaptiveLogSoftmaxWithLoss: targets must be of type int64");
  if (ndim && cn_size(x, 0) != cn_size(target, 0))
    return cn_err_set(CN_ERR_SHAPE, "AdaptiveLogSoftmaxWithLoss: input and target must have the same batch");
  return CN_OK;
}

/* Adds what cluster i says of its rows to the log probabilities (N), and its entry of the head to the columns (N) that
 * are looked up there. Returns how many rows it has, or a negative status. */
static int64_t add_cluster(cn_module *m, int i, cn_tensor *x, cn_tensor *target, cn_tensor **output,
                           cn_tensor **columns)
{
  const cn_value *a = cni_args(m);
  int64_t low = cutoff(a, i);
  cn_tensor *inside = cn_logical_and(cn_ge(target, cn_int(low)), cn_lt(target, cn_int(cutoff(a, i + 1))));
  cn_tensor *rows = cn_flatten(cn_nonzero(inside));
  if (!rows || !cn_numel(rows)) return cn_err();
  cn_tensor *own = cn_index_select(target, 0, rows);
  if (i == 0) *columns = cn_index_copy(*columns, 0, rows, own);
  else {
    cn_module *layers = cn_module_child(cn_module_child(m, TAIL), (size_t)i - 1);
    cn_tensor *scores = cn_log_softmax(cn_forward(layers, cn_index_select(x, 0, rows)), 1);
    cn_tensor *picked = cn_gather(scores, 1, cn_unsqueeze(cn_sub(own, cn_int(low)), 1));
    *output = cn_index_copy(*output, 0, rows, cn_flatten(picked));
    *columns = cn_index_copy(*columns, 0, rows, cn_full_like(own, (double)(cutoff(a, 1) + i - 1)));
  }
  return cn_err() ? cn_err() : cn_numel(rows);
}

static int adaptive_forward(cn_module *m, cn_module_call *call)
{
  cn_tensor *x = call->args[0].u.t, *target = call->args[1].u.t;
  int64_t used = 0;
  if (check_call(x, target)) return cn_err();
  bool single = !cn_ndim(target);
  if (single) x = cn_unsqueeze(x, 0), target = cn_unsqueeze(target, 0);
  if (cn_err()) return cn_err();
  int64_t n = cn_size(target, 0);
  cn_tensor *output = cn_zeros(CN_SHAPE(n), .dtype = cn_dtype_of(x), .device = cn_device_of(x));
  cn_tensor *columns = cn_zeros_like(target);
  for (int i = 0; i <= cni_args(m)[CUTOFFS].n && !cn_err(); i++) {
    int64_t rows = add_cluster(m, i, x, target, &output, &columns);
    if (rows < 0) return (int)rows;
    used += rows;
  }
  if (cn_err()) return cn_err();
  if (used != n)
    return cn_err_set(CN_ERR_INDEX, "AdaptiveLogSoftmaxWithLoss: targets must lie between 0 and %lld",
                      (long long)cni_args(m)[CLASSES].u.i - 1);
  cn_tensor *head = cn_log_softmax(cn_forward(cn_module_child(m, HEAD), x), 1);
  output = cn_add(output, cn_flatten(cn_gather(head, 1, cn_unsqueeze(columns, 1))));
  call->out[0] = single ? cn_squeeze(output, .dim = CN_INTS(0)) : output;
  if (call->nout > 1) call->out[1] = cn_neg(cn_mean(output));
  return cn_err();
}

/* PyTorch shows the children alone. */
static void adaptive_print(const cn_module *m, cn_text *t)
{
  (void)m;
  (void)t;
}

static const cn_module_class adaptive = {
  CN_MODULE_CLASS,
  .name = "AdaptiveLogSoftmaxWithLoss",
  .sig = "AdaptiveLogSoftmaxWithLoss(int in_features, int n_classes, int[] cutoffs, float div_value=4.0, "
         "bool head_bias=False, device? device=None, dtype? dtype=None) -> Module ; adaptive_log_softmax_with_loss",
  .doc = "The log probability of each target among very many classes, sorted by falling frequency, and the mean loss. "
         "Classes past each of the cutoffs form clusters with layers that are div_value times smaller each.",
  .call = "(Tensor input, Tensor target) -> (Tensor output, Tensor loss)",
  .init = adaptive_init,
  .forward = adaptive_forward,
  .print = adaptive_print,
};

/* ---- all classes ---- */

cn_tensor *cn_nn_adaptive_log_prob(cn_module *m, cn_tensor *input)
{
  if (!m || m->cls != &adaptive) {
    cn_err_set(CN_ERR_TYPE, "adaptive_log_prob: needs an AdaptiveLogSoftmaxWithLoss");
    return NULL;
  }
  const cn_value *a = cni_args(m);
  int n = a[CUTOFFS].n;
  size_t bytes = ((size_t)n + 1) * sizeof(cn_tensor *);
  cn_tensor **parts = cn_alloc(bytes), *y = NULL;
  if (!parts) return NULL;
  cn_scope *s = cn_scope_begin();
  cn_tensor *head = cn_log_softmax(cn_forward(cn_module_child(m, HEAD), input), 1);
  parts[0] = cn_narrow(head, 1, 0, cutoff(a, 1));
  for (int i = 1; i <= n; i++) {
    cn_tensor *scores = cn_forward(cn_module_child(cn_module_child(m, TAIL), (size_t)i - 1), input);
    parts[i] = cn_add(cn_log_softmax(scores, 1), cn_narrow(head, 1, cutoff(a, 1) + i - 1, 1));
  }
  if (!cn_err()) y = cn_cat(parts, (size_t)n + 1, .dim = 1);
  cn_free(parts, bytes);
  return cn_scope_return(s, y);
}

cn_tensor *cn_nn_adaptive_predict(cn_module *m, cn_tensor *input)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *scores = cn_nn_adaptive_log_prob(m, input);
  return cn_scope_return(s, scores ? cn_argmax(scores, 1) : NULL);
}

const cn_module_class *const cni_nn_adaptive_softmax_classes[] = {&adaptive, NULL};
