/* callbacks_progress.c: how far a fit is, on the terminal. See train.h.
 *
 *     epoch 2/10 [=========>          ] 45/90  13204 samples/s  eta 0:12  loss 0.1234  accuracy 0.9512
 *
 * On a terminal the line is written over and over, some times a second; elsewhere there is one line an epoch.
 * Invariant: numbers look the same in every locale. */
#include <math.h>
#include <string.h>

#include "fit.h"

enum { BAR = 20, DIGITS = 4 };
static const double interval = 0.1; /* seconds between lines */

typedef struct progress {
  bool terminal, open; /* open: the cursor stands behind an unfinished line */
  double drawn, epoch_began;
  int64_t first_epoch, first_batch, epoch_samples; /* where this process began; samples before this epoch */
} progress;

/* With four digits behind the point, or in powers of ten where that shows nothing. */
static void put_number(cn_text *t, double v)
{
  double size = fabs(v);
  if (isnan(v)) cn_text_put(t, "nan");
  else if (isinf(v)) cn_text_put(t, v < 0 ? "-inf" : "inf");
  else if (size != 0 && (size < 1e-3 || size >= 1e9)) {
    int power = (int)floor(log10(size));
    long long digits = llround(size / pow(10, power) * 1000);
    if (digits >= 10000) digits /= 10, power++;
    cn_text_putf(t, "%s%lld.%03llde%+03d", v < 0 ? "-" : "", digits / 1000, digits % 1000, power);
  } else {
    long long digits = llround(size * 10000);
    cn_text_putf(t, "%s%lld.%04lld", v < 0 ? "-" : "", digits / 10000, digits % 10000);
  }
}

static void put_time(cn_text *t, double seconds)
{
  long long s = isfinite(seconds) && seconds < 1e9 ? llround(seconds) : 0;
  if (s >= 3600) cn_text_putf(t, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
  else cn_text_putf(t, "%lld:%02lld", s / 60, s % 60);
}

static void put_bar(cn_text *t, int64_t done, int64_t of)
{
  int64_t full = of > 0 ? done * BAR / of : BAR;
  cn_text_put(t, " [");
  for (int64_t i = 0; i < BAR; i++) cn_text_put(t, i < full ? "=" : i == full ? ">" : " ");
  cn_text_putf(t, "] %lld/%lld", (long long)done, (long long)of);
}

static void put_rate(cn_text *t, const progress *p, cn_fitting *fit)
{
  double seconds = cn_fitting_seconds(fit) - p->epoch_began;
  double samples = (double)(cn_fitting_samples(fit) - p->epoch_samples);
  if (seconds > 0 && samples > 0) cn_text_putf(t, "  %lld samples/s", llround(samples / seconds));
}

static void put_metrics(cn_text *t, cn_fitting *fit, bool validation)
{
  const char *name;
  for (size_t i = 0; (name = cn_fitting_value_name(fit, i)); i++) {
    double value = cn_fitting_value(fit, name);
    if (isnan(value) && strcmp(name, "loss")) continue;
    if (!validation && !strncmp(name, "val_", 4)) continue;
    cn_text_putf(t, "  %s ", name);
    put_number(t, value);
  }
}

/* The share of what was left when this process began. */
static double share_done(const progress *p, cn_fitting *fit)
{
  double batches = (double)cn_fitting_batches(fit);
  double done = (double)(cn_fitting_run(fit)->epoch - p->first_epoch) +
                (double)(cn_fitting_batch(fit) - p->first_batch) / batches;
  return done / ((double)(cn_fitting_epochs(fit) - p->first_epoch) - (double)p->first_batch / batches);
}

/* Over the line that stands there, cut to the terminal's width. */
static void draw(progress *p, cn_text *t, bool finish)
{
  size_t width = (size_t)cn_terminal_width();
  if (t->failed || !t->s) return;
  if (p->terminal && !finish && t->n >= width) t->s[t->n = width - 1] = 0;
  if (p->terminal) cn_terminal_write("\r");
  cn_terminal_write(t->s);
  if (p->terminal) cn_terminal_write("\x1b[K");
  if (finish) cn_terminal_write("\n");
  p->open = !finish;
}

static int begin(cn_fitting *fit, void *payload)
{
  progress *p = payload;
  p->terminal = cn_is_terminal();
  p->drawn = -interval; /* the first batch shows at once */
  p->first_epoch = cn_fitting_run(fit)->epoch;
  p->first_batch = cn_fitting_batch(fit);
  return CN_OK;
}

static int epoch_begin(cn_fitting *fit, void *payload)
{
  progress *p = payload;
  p->epoch_began = cn_fitting_seconds(fit);
  p->epoch_samples = cn_fitting_samples(fit);
  return CN_OK;
}

static int batch_end(cn_fitting *fit, void *payload)
{
  progress *p = payload;
  double now = cn_fitting_seconds(fit), done;
  cn_text t = {0};
  if (!p->terminal || now - p->drawn < interval) return CN_OK;
  p->drawn = now;
  cn_text_putf(&t, "epoch %lld/%lld", (long long)cn_fitting_run(fit)->epoch + 1, (long long)cn_fitting_epochs(fit));
  put_bar(&t, cn_fitting_batch(fit), cn_fitting_batches(fit));
  put_rate(&t, p, fit);
  if ((done = share_done(p, fit)) > 0) {
    cn_text_put(&t, "  eta ");
    put_time(&t, now / done - now);
  }
  put_metrics(&t, fit, false);
  draw(p, &t, false);
  cn_text_free(&t);
  return CN_OK;
}

static int epoch_end(cn_fitting *fit, void *payload)
{
  progress *p = payload;
  cn_text t = {0};
  cn_text_putf(&t, "epoch %lld/%lld  ", (long long)cn_fitting_run(fit)->epoch, (long long)cn_fitting_epochs(fit));
  put_time(&t, cn_fitting_seconds(fit) - p->epoch_began);
  put_rate(&t, p, fit);
  put_metrics(&t, fit, true);
  draw(p, &t, true);
  cn_text_free(&t);
  return CN_OK;
}

/* Also after a failure: what is printed next begins a line of its own. */
static void progress_free(void *payload)
{
  progress *p = payload;
  if (p->open) cn_terminal_write("\n");
  cn_free(p, sizeof *p);
}

cn_callback cn_callback_progress(void)
{
  progress *p = cn_err() ? NULL : cn_alloc_zero(sizeof *p);
  if (!p) return (cn_callback){0};
  return (cn_callback){.begin = begin, .epoch_begin = epoch_begin, .batch_end = batch_end, .epoch_end = epoch_end,
                       .free = progress_free, .payload = p};
}
