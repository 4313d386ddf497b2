/* limits.c: see limits.h. */
#define _POSIX_C_SOURCE 200809L
#include "limits.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "alloc.h"
#include "os.h"

/* What the state knows of its innermost limits, for those who ask often. */
static void install(cn_state *st, cn_limits *l)
{
  bool limited = false;
  for (const cn_limits *at = l; at; at = at->outer) limited |= at->cancelled || isfinite(at->deadline);
  st->limits = l;
  st->limited = limited;
  st->threads = l ? l->threads : 0;
  st->modes = limited ? st->modes | CNI_MODE_LIMITS : st->modes & ~(uint32_t)CNI_MODE_LIMITS;
}

int cni_limits_push(cn_limits *l, const cn_limits_opts *opts)
{
  cn_state *st = cni_state();
  cn_limits *outer = st->limits;
  cn_limits_opts o = {0};
  if (opts) memcpy(&o, opts, opts->size < sizeof o ? opts->size : sizeof o);
  if (!(o.timeout >= 0)) return cni_fail(CN_ERR_VALUE, "limits: a timeout of %g s makes no sense", o.timeout);
  if (o.threads < 0) return cni_fail(CN_ERR_VALUE, "limits: %d threads make no sense", o.threads);
  *l = (cn_limits){.outer = outer, .timeout = o.timeout, .deadline = INFINITY, .threads = o.threads,
                   .cancelled = o.cancelled, .payload = o.payload, .lent = true};
  if (o.timeout > 0) l->deadline = cni_os_now() + o.timeout;
  if (outer && outer->deadline <= l->deadline) l->deadline = outer->deadline, l->timeout = outer->timeout;
  if (outer && outer->threads && (!l->threads || outer->threads < l->threads)) l->threads = outer->threads;
  install(st, l);
  return CN_OK;
}

cn_limits *cn_limits_begin_with(const cn_limits_opts *opts)
{
  if (cn_err()) return NULL;
  cn_limits *l = cni_alloc(sizeof *l);
  int status = l ? cni_limits_push(l, opts) : CN_ERR_MEMORY;
  if (l) l->lent = false;
  if (!status) return l;
  cni_free(l, sizeof *l);
  return NULL;
}

static void end_innermost(cn_state *st)
{
  cn_limits *l = st->limits;
  install(st, l->outer);
  if (!l->lent) cni_free(l, sizeof *l);
}

/* Ends these and what was begun inside; nothing where they have ended already, with those around them. */
void cni_limits_pop(const cn_limits *limits)
{
  cn_state *st = cni_state();
  const cn_limits *at = st->limits;
  while (at && at != limits) at = at->outer;
  for (bool last = !at; !last; end_innermost(st)) last = st->limits == limits;
}

void cn_limits_end(cn_limits *limits)
{
  if (limits) cni_limits_pop(limits);
}

void cni_limits_forget(cn_state *st)
{
  while (st->limits) end_innermost(st);
}

int cni_limits_look(const char *what)
{
  const cn_limits *l = cni_state()->limits;
  for (const cn_limits *at = l; at; at = at->outer)
    if (at->cancelled && at->cancelled(at->payload))
      return cni_fail(CN_ERR_CANCELLED, "%s: not begun, cancelled", what);
  if (l && cni_os_now() >= l->deadline)
    return cni_fail(CN_ERR_TIMEOUT, "%s: not begun, the time limit of %g s has passed", what, l->timeout);
  return CN_OK;
}

int cn_limits_check(void)
{
  return cn_err() ? cn_err() : cni_limits_hold("limits_check");
}

int cni_limits_lock(pthread_mutex_t *lock, const char *what)
{
  static const double look_every = 0.005; /* seconds */
  struct timespec t;
  int status, locked;
  if (!cni_state()->limited) return pthread_mutex_lock(lock), CN_OK;
  do {
    if ((status = cni_limits_look(what))) return status;
    double until = cni_os_wall() + look_every, whole = floor(until);
    t = (struct timespec){.tv_sec = (time_t)whole, .tv_nsec = (long)((until - whole) * 1e9)};
    locked = !pthread_mutex_timedlock(lock, &t);
  } while (!locked);
  if ((status = cni_limits_look(what))) pthread_mutex_unlock(lock);
  return status;
}
