/* fit.c: cn_fit: the loop over epochs and batches. See train.h.
 *
 * Place in the flow: loader -> net -> loss -> gradients -> optimiser (compiled.c: as one program) -> schedule, with
 * callbacks along the way and checkpoints behind them. The order at the end of a batch or an epoch is: step, callbacks,
 * schedule, checkpoints; so callbacks see the rate that was used, and a checkpoint holds all that happened.
 * Invariant: callbacks are freed and the net's mode is restored on every way out. */
#include <cairn/autograd.h>
#include <cairn/ext/signature.h>
#include <cairn/kw.h>
#include <math.h>
#include <string.h>

#include "fit.h"

enum { STOPPED = 1 };

/* ---- what callbacks ask ---- */

cn_run *cn_fitting_run(cn_fitting *fit) { return &fit->run; }
int64_t cn_fitting_epochs(cn_fitting *fit) { return fit->epochs; }
int64_t cn_fitting_batches(cn_fitting *fit) { return fit->batches; }
int64_t cn_fitting_batch(cn_fitting *fit) { return fit->batch; }
double cn_fitting_seconds(cn_fitting *fit) { return cn_clock() - fit->began; }
int64_t cn_fitting_samples(cn_fitting *fit) { return fit->samples; }
const cn_batch *cn_fitting_data(cn_fitting *fit) { return fit->data; }
cn_tensor *cn_fitting_output(cn_fitting *fit) { return fit->output; }
void cn_fitting_stop(cn_fitting *fit) { fit->stop = true; }

typedef int (*callback_fn)(cn_fitting *fit, void *payload);
typedef callback_fn (*moment)(const cn_callback *c);

static callback_fn at_begin(const cn_callback *c) { return c->begin; }
static callback_fn at_epoch_begin(const cn_callback *c) { return c->epoch_begin; }
static callback_fn at_batch_end(const cn_callback *c) { return c->batch_end; }
static callback_fn at_epoch_end(const cn_callback *c) { return c->epoch_end; }
static callback_fn at_end(const cn_callback *c) { return c->end; }

static int call_all(cn_fitting *fit, moment when)
{
  for (size_t i = 0; i < fit->o->ncallbacks; i++) {
    const cn_callback *c = &fit->o->callbacks[i];
    callback_fn fn = when(c);
    cn_scope *s = cn_scope_begin();
    int status = fn ? fn(fit, c->payload) : CN_OK;
    cn_scope_end(s);
    if (status < 0 && !cn_err()) cn_err_set(status, "fit: callback %zu failed", i);
    if (cn_err()) return cn_err();
  }
  return CN_OK;
}

/* ---- one batch ---- */

static cn_grad_scaler *scaler_of(const cn_fitting *fit) { return fit->run.scaler; }

/* How many batches share the present step: the last ones of an epoch may be fewer. */
static int64_t window_size(const cn_fitting *fit)
{
  int64_t left = fit->batches - (fit->batch - fit->window);
  return left < fit->accumulate ? left : fit->accumulate;
}

static int backward(const cn_fitting *fit, cn_tensor *loss, int64_t n)
{
  if (n > 1) loss = cn_true_divide(loss, cn_int(n));
  if (scaler_of(fit)) loss = cn_grad_scaler_scale(scaler_of(fit), loss);
  return loss ? cn_backward(loss) : cn_err();
}

/* Gradients are there: 1 when the optimiser stepped, 0 when the scaler skipped the step. */
static int step(const cn_fitting *fit)
{
  cn_optim *opt = fit->run.opt;
  double most = fit->o->clip_norm;
  if (scaler_of(fit) && most > 0 && cn_grad_scaler_unscale(scaler_of(fit), opt)) return cn_err();
  if (most > 0 && !cn_optim_clip_norm(opt, most)) return cn_err();
  if (!scaler_of(fit)) return cn_optim_step(opt) ? cn_err() : 1;
  int stepped = cn_grad_scaler_step(scaler_of(fit), opt);
  return stepped < 0 || cn_grad_scaler_update(scaler_of(fit)) ? cn_err() : stepped;
}

/* LBFGS evaluates several times a step. */
typedef struct again {
  cn_fitting *fit;
  const cn_batch *batch;
  cn_tensor *output; /* of the first evaluation, whose loss is the batch's; owned */
} again;

static cn_tensor *evaluate_again(void *payload)
{
  again *a = payload;
  cn_tensor *loss, *output;
  if (cn_optim_zero_grad(a->fit->run.opt)) return NULL;
  loss = cni_compiled_loss(a->fit->compiled, &output, a->fit->run.net, a->batch, a->fit->o);
  if (!loss || cn_backward(loss)) return NULL;
  if (!a->output) a->output = cn_keep(output);
  if (a->fit->o->clip_norm > 0 && !cn_optim_clip_norm(a->fit->run.opt, a->fit->o->clip_norm)) return NULL;
  return loss;
}

/* A batch makes a step of its own, without a look at values: such a step is one program. */
static bool is_whole(const cn_fitting *fit)
{
  return fit->compiled && fit->accumulate == 1 && !scaler_of(fit) && strcmp(cn_optim_name(fit->run.opt), "LBFGS") != 0;
}

static int whole_step(cn_fitting *fit, cn_tensor *loss)
{
  int status = backward(fit, loss, 1);
  if (!status) status = step(fit) < 0 ? cn_err() : CN_OK;
  return status ? status : cn_optim_zero_grad(fit->run.opt);
}

/* Loss and gradients of a batch, and a step where they are those of enough batches: 1 when the optimiser stepped, 0
 * when it did not or the gradients wait. *loss and fit->output are borrowed. */
static int compute(cn_fitting *fit, const cn_batch *batch, cn_tensor **loss)
{
  int64_t n = window_size(fit);
  if (is_whole(fit)) return (*loss = cni_compiled_step(fit, batch, whole_step)) ? 1 : cn_err();
  if (!strcmp(cn_optim_name(fit->run.opt), "LBFGS")) {
    again a = {fit, batch, NULL};
    *loss = cn_optim_step_closure(fit->run.opt, evaluate_again, &a);
    fit->output = a.output ? cn_scope_give(a.output) : NULL;
    return *loss ? 1 : cn_err();
  }
  *loss = cni_compiled_loss(fit->compiled, &fit->output, fit->run.net, batch, fit->o);
  int status = *loss ? backward(fit, *loss, n) : cn_err();
  if (status) return status;
  return ++fit->window < n ? 0 : step(fit);
}

static int learn(cn_fitting *fit, const cn_batch *batch, cn_tensor **loss)
{
  int64_t n = window_size(fit);
  int stepped = compute(fit, batch, loss);
  if (stepped < 0) return stepped;
  if (fit->window && fit->window < n) return CN_OK;
  fit->window = 0;
  fit->stepped = stepped == 1;
  int status = cn_optim_zero_grad(fit->run.opt);
  if (!status && fit->stepped && fit->run.average) status = cn_average_update(fit->run.average, fit->run.net);
  fit->run.step += fit->stepped;
  return status;
}

static int step_schedule(cn_fitting *fit)
{
  const char *metric = fit->o->plateau ? fit->o->plateau : "val_loss";
  if (!fit->run.schedule) return CN_OK;
  if (!fit->plateau) return cn_schedule_step(fit->run.schedule);
  double value = cn_fitting_value(fit, metric);
  if (!cni_fit_metric_find(fit, metric))
    return cn_err_set(CN_ERR_VALUE, "fit: there is no metric '%s' for the schedule to look at", metric);
  return cn_schedule_step_metric(fit->run.schedule, value);
}

static int train_batch(cn_fitting *fit, const cn_batch *batch)
{
  cn_tensor *loss;
  fit->stepped = false;
  fit->loader_epoch = batch->epoch;
  fit->batch = batch->number; /* a loader may come in the middle of an epoch */
  int status = learn(fit, batch, &loss);
  if (!status) status = cni_metrics_update(fit->o, fit->output, batch);
  if (!status) status = cni_fit_metrics_add_loss(fit, loss, (double)batch->size);
  fit->batch++;
  fit->samples += batch->size;
  fit->data = batch;
  if (!status) status = call_all(fit, at_batch_end);
  fit->data = NULL;
  fit->output = NULL;
  if (!status && fit->stepped && fit->o->schedule_each_batch) status = step_schedule(fit);
  return status ? status : cni_fit_save_all(fit);
}

static bool must_stop(const cn_fitting *fit)
{
  return !fit->window && (fit->stop || cni_interrupts() != fit->interrupts);
}

/* ---- epochs ---- */

/* 0, STOPPED or an error. */
static int train_epoch(cn_fitting *fit)
{
  cn_batch batch;
  int got = 0;
  while (fit->batch < fit->batches && (got = cn_loader_next(&batch, fit->run.loader)) == 1) {
    cn_scope *s = cn_scope_begin();
    int status = train_batch(fit, &batch);
    cn_scope_end(s);
    if (status) return status;
    if (must_stop(fit)) return STOPPED;
  }
  if (got == 1) got = cn_loader_next(&batch, fit->run.loader); /* the end of the epoch */
  return got < 0 ? got : CN_OK;
}

static int validate(cn_fitting *fit)
{
  double loss;
  cn_module *net = fit->run.average ? cn_average_module(fit->run.average) : fit->run.net;
  int status = cni_fit_metrics_refresh(fit);
  if (status || !fit->o->validation) return status;
  status = cni_fit_evaluate(&loss, net, fit->o->validation, fit->o, fit->interrupts, fit->compiled);
  if (!status) status = cni_fit_metric_set(fit, "val_", "loss", loss);
  for (size_t i = 0; !status && i < fit->o->nmetrics; i++)
    status = cni_fit_metric_set(fit, "val_", cn_metric_name(fit->o->metrics[i]), cn_metric_value(fit->o->metrics[i]));
  return status;
}

static int begin_epoch(cn_fitting *fit)
{
  if (fit->batch) return CN_OK; /* in the middle of one */
  cn_metric_reset(fit->loss);
  for (size_t i = 0; i < fit->o->nmetrics; i++) cn_metric_reset(fit->o->metrics[i]);
  return CN_OK;
}

static int run_epoch(cn_fitting *fit)
{
  int status = begin_epoch(fit);
  if (!status) status = cn_module_train(fit->run.net, true);
  if (!status) status = call_all(fit, at_epoch_begin);
  if (!status) status = train_epoch(fit);
  if (!status) status = validate(fit);
  if (status) return status;
  fit->run.epoch++;
  fit->batch = 0;
  status = call_all(fit, at_epoch_end);
  if (!status && !fit->o->schedule_each_batch) status = step_schedule(fit);
  if (!status) status = cni_fit_save_all(fit);
  return status ? status : must_stop(fit) ? STOPPED : CN_OK;
}

static int run_all(cn_fitting *fit)
{
  int status = cn_optim_zero_grad(fit->run.opt);
  if (!status) status = call_all(fit, at_begin);
  while (!status && fit->run.epoch < fit->epochs) status = run_epoch(fit);
  if (status == STOPPED && fit->run.epoch >= fit->epochs) status = CN_OK;
  if (status < 0) return status;
  int after = call_all(fit, at_end);
  if (!after) after = cni_fit_save_all(fit);
  return after ? after : status;
}

/* ---- from options to a fit ---- */

/* Does the schedule step by a metric? */
static bool wants_metric(const cn_schedule *s) { return s && !strcmp(cn_schedule_name(s), "ReduceLROnPlateau"); }

static int check(const cn_fitting *fit)
{
  const cn_fit_opts *o = fit->o;
  bool lbfgs = !strcmp(cn_optim_name(fit->run.opt), "LBFGS");
  if (fit->epochs < 0) return cn_err_set(CN_ERR_VALUE, "fit: %lld epochs", (long long)fit->epochs);
  if (fit->accumulate < 1) return cn_err_set(CN_ERR_VALUE, "fit: %lld batches a step", (long long)fit->accumulate);
  if (fit->batches < 1) return cn_err_set(CN_ERR_VALUE, "fit: the loader has no batches");
  if (!(o->clip_norm >= 0)) return cn_err_set(CN_ERR_VALUE, "fit: gradients cannot be clipped to less than nothing");
  if (o->loss && o->loss_module) return cn_err_set(CN_ERR_VALUE, "fit: loss and loss_module exclude each other");
  if (o->autocast && o->autocast != CN_BF16 && o->autocast != CN_F16)
    return cn_err_set(CN_ERR_DTYPE, "fit: mixed precision is of bfloat16 or float16, not of %s",
                      cn_dtype_name(o->autocast));
  if (lbfgs && (fit->accumulate > 1 || o->scaler || o->autocast == CN_F16))
    return cn_err_set(CN_ERR_VALUE, "fit: LBFGS takes neither several batches a step nor a scaled loss");
  for (size_t i = 0; i < o->nmetrics; i++)
    if (!o->metrics[i]) return cn_err_set(CN_ERR_TYPE, "fit: metric %zu is missing (NULL)", i);
  return CN_OK;
}

static int prepare(cn_fitting *fit)
{
  int status = check(fit);
  if (!status && fit->o->autocast == CN_F16 && !fit->o->scaler) {
    fit->run.scaler = fit->own_scaler = cn_grad_scaler_new();
    if (!fit->own_scaler) status = cn_err();
  }
  if (!status && fit->o->compile && !(fit->compiled = cni_fit_compiled("fit"))) status = cn_err();
  if (!status && !(fit->loss = cn_metric_mean("loss"))) status = cn_err();
  if (!status) status = cni_fit_metrics_begin(fit);
  return status ? status : cni_fit_resume(fit);
}

static int fit_net(cn_module *net, cn_optim *opt, cn_loader *train, const cn_fit_opts *o)
{
  cn_fitting fit = {.run = {.net = net,
                            .opt = opt,
                            .schedule = o->schedule,
                            .loader = train,
                            .scaler = o->scaler,
                            .average = o->average},
                    .o = o,
                    .epochs = o->epochs ? o->epochs : 1,
                    .accumulate = o->accumulate ? o->accumulate : 1,
                    .batches = cn_loader_length(train),
                    .began = cn_clock(),
                    .batch_loss = NAN,
                    .interrupts = cni_interrupts(),
                    .plateau = wants_metric(o->schedule),
                    .fresh = true};
  bool mode = cn_module_training(net);
  int status = prepare(&fit);
  if (!status) status = run_all(&fit);
  cn_module_train(net, mode);
  cni_fit_metrics_free(&fit);
  cn_metric_free(fit.loss);
  cn_grad_scaler_free(fit.own_scaler);
  cn_compiled_free(fit.compiled);
  cn_names_free(&fit.saves);
  return status;
}

int cn_fit_with(cn_module *net, cn_optim *opt, cn_loader *train, const cn_fit_opts *opts)
{
  cn_fit_opts room;
  const cn_fit_opts *o = cn_opts_read(&room, sizeof room, opts, "fit");
  if (!o) return cn_err();
  int status = cn_err();
  if (!status && (!net || !opt || !train))
    status = cn_err_set(CN_ERR_TYPE, "fit: the %s is missing (NULL)", !net ? "net" : !opt ? "optimiser" : "loader");
  if (!status) {
    cn_scope *s = cn_scope_begin();
    status = fit_net(net, opt, train, o);
    cn_scope_end(s);
  }
  for (size_t i = 0; i < o->ncallbacks; i++)
    if (o->callbacks[i].free) o->callbacks[i].free(o->callbacks[i].payload);
  return status;
}
