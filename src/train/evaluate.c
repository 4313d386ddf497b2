/* evaluate.c: losses of batches, and evaluation of a net over a loader. See train.h.
 *
 * Invariant: a net leaves here in the mode (training or evaluation) it came in. */
#include <cairn/autograd.h>
#include <cairn/ext/signature.h>
#include <cairn/kw.h>
#include <math.h>
#include <stdatomic.h>

#include "fit.h"
#include "metrics.h"

/* Counted, not set: whoever stops for it need not clear it for others. */
static _Atomic unsigned interrupts;

void cn_fit_interrupt(void) { atomic_fetch_add(&interrupts, 1u); }
unsigned cni_interrupts(void) { return atomic_load(&interrupts); }

static cn_tensor *loss_of(cn_tensor *output, const cn_batch *batch, const cn_fit_opts *o)
{
  if (o->loss) return o->loss(output, batch, o->payload);
  if (!batch->y) {
    cn_err_set(CN_ERR_TYPE, "fit: batches have no target; give a loss of your own");
    return NULL;
  }
  if (o->loss_module) return cn_forward(o->loss_module, output, batch->y);
  return cn_cross_entropy(output, batch->y);
}

cn_tensor *cni_loss_of(cn_tensor **output, cn_module *net, const cn_batch *batch, const cn_fit_opts *o)
{
  int saved = o->autocast ? cn_autocast_begin(o->autocast) : 0;
  *output = cn_forward(net, batch->x);
  cn_tensor *loss = *output ? loss_of(*output, batch, o) : NULL;
  if (o->autocast) cn_autocast_end(saved);
  if (!loss && !cn_err()) cn_err_set(CN_ERR_VALUE, "fit: the loss function gave nothing");
  if (loss && cn_numel(loss) != 1) {
    cn_err_set(CN_ERR_SHAPE, "fit: a loss is one number, not %lld: give it a reduction", (long long)cn_numel(loss));
    loss = NULL;
  }
  return cn_err() ? NULL : loss;
}

int cni_metrics_update(const cn_fit_opts *o, cn_tensor *output, const cn_batch *batch)
{
  int status = CN_OK;
  for (size_t i = 0; !status && i < o->nmetrics; i++)
    if (cni_metric_takes_batches(o->metrics[i])) status = cn_metric_update(o->metrics[i], output, batch->y);
  return status;
}

static int evaluate_batch(cn_metric *mean, cn_module *net, const cn_batch *batch, const cn_fit_opts *o, cn_compiled *c)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *output, *loss = cni_compiled_loss(c, &output, net, batch, o);
  int status = loss ? cni_metrics_update(o, output, batch) : cn_err();
  if (!status) status = cn_metric_add(mean, cn_item(loss), (double)batch->size);
  cn_scope_end(s);
  return status;
}

int cni_fit_evaluate(double *loss, cn_module *net, cn_loader *loader, const cn_fit_opts *o, unsigned before,
                     cn_compiled *compiled)
{
  cn_batch batch;
  cn_metric *mean = cn_metric_mean("loss");
  if (!mean) return cn_err();
  bool mode = cn_module_training(net), loss_mode = o->loss_module && cn_module_training(o->loss_module);
  for (size_t i = 0; i < o->nmetrics; i++) cn_metric_reset(o->metrics[i]);
  int saved = cn_no_grad_begin();
  int status = cn_module_train(net, false), got = 0;
  if (!status && o->loss_module) status = cn_module_train(o->loss_module, false);
  if (!status) status = cn_loader_restart(loader, 0); /* the same draws each time */
  while (!status && (got = cn_loader_next(&batch, loader)) == 1) {
    status = evaluate_batch(mean, net, &batch, o, compiled);
    if (!status && cni_interrupts() != before) status = 1;
  }
  if (got < 0) status = got;
  cn_no_grad_end(saved);
  if (loss) *loss = cn_metric_value(mean);
  cn_metric_free(mean);
  cn_module_train(net, mode);
  if (o->loss_module) cn_module_train(o->loss_module, loss_mode);
  return status;
}

int cn_evaluate_with(double *loss, cn_module *net, cn_loader *loader, const cn_fit_opts *opts)
{
  cn_fit_opts room;
  if (loss) *loss = NAN;
  const cn_fit_opts *o = cn_opts_read(&room, sizeof room, opts, "evaluate");
  if (!o || cn_err()) return cn_err();
  if (!net || !loader) return cn_err_set(CN_ERR_TYPE, "evaluate: the %s is missing (NULL)", net ? "loader" : "net");
  cn_compiled *compiled = o->compile ? cni_fit_compiled("evaluate") : NULL;
  if (cn_err()) return cn_err();
  int status = cni_fit_evaluate(loss, net, loader, o, cni_interrupts(), compiled);
  cn_compiled_free(compiled);
  return status;
}

/* ---- prediction ---- */

typedef struct outputs {
  cn_tensor **v; /* owned */
  size_t n, cap;
} outputs;

static int predict_batch(outputs *all, cn_module *net, const cn_batch *batch)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *y = cn_forward(net, batch->x);
  int status = y ? cn_grow((void **)&all->v, &all->cap, all->n + 1, sizeof *all->v) : cn_err();
  if (!status) all->v[all->n++] = cn_keep(y);
  cn_scope_end(s);
  return status;
}

cn_tensor *cn_predict(cn_module *net, cn_loader *loader)
{
  outputs all = {0};
  cn_batch batch;
  if (cn_err()) return NULL;
  if (!net || !loader) {
    cn_err_set(CN_ERR_TYPE, "predict: the %s is missing (NULL)", net ? "loader" : "net");
    return NULL;
  }
  bool mode = cn_module_training(net);
  int saved = cn_no_grad_begin(), got = 0;
  int status = cn_module_train(net, false);
  if (!status) status = cn_loader_restart(loader, 0);
  while (!status && (got = cn_loader_next(&batch, loader)) == 1) status = predict_batch(&all, net, &batch);
  if (!status && got == 0 && !all.n) cn_err_set(CN_ERR_VALUE, "predict: the loader has no batches");
  cn_tensor *y = cn_err() ? NULL : cn_cat((cn_tensor *const *)all.v, all.n);
  cn_no_grad_end(saved);
  cn_module_train(net, mode);
  for (size_t i = 0; i < all.n; i++) cn_release(all.v[i]);
  cn_free(all.v, all.cap * sizeof *all.v);
  return y;
}
