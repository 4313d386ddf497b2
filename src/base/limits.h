/* limits.h: what a thread may take for what it computes: time, threads, and until somebody cancels it.
 *
 * Place in the flow: programs begin and end limits (cairn/base.h); the door of ops and the runs of graphs look at them,
 * parallel.c counts threads by them. Invariant: inner limits are never wider than outer ones. */
#ifndef CNI_BASE_LIMITS_H
#define CNI_BASE_LIMITS_H

#include <pthread.h>

#include "state.h"

struct cn_limits {
  cn_limits *outer;
  double timeout, deadline; /* seconds; of cni_os_now, INFINITY: none. Those of the limits around it where sooner */
  int threads;              /* 0: all */
  bool (*cancelled)(void *payload);
  void *payload;
  bool lent; /* the memory is the caller's */
};

/* Makes the thread's limits those around it and opts, in memory of the caller's, until pop. 0 or an error. */
int cni_limits_push(cn_limits *limits, const cn_limits_opts *opts);
void cni_limits_pop(const cn_limits *limits);
void cni_limits_forget(cn_state *state); /* frees those that were never ended */

/* 0, or the error that limits set, which says what is not begun. */
int cni_limits_look(const char *what);
static inline int cni_limits_hold(const char *what)
{
  return CNI_UNLIKELY(cni_state()->limited) ? cni_limits_look(what) : CN_OK;
}

/* Locks, waiting no longer than limits allow. 0, or an error: it is not locked. */
int cni_limits_lock(pthread_mutex_t *lock, const char *what);

#endif
