/* sweep.c: see sweep.h. Invariant: whatever failed, the thread's modes, scopes and memory are as they were before. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "sweep.h"

#include <cairn/kw.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/state.h"

enum {
  SETTLE = 8, /* runs after which what is made once has been made */
  MOST = 100000
};

typedef struct moment {
  size_t in_use;
  uint64_t allocations;
} moment;

static moment now(void)
{
  cn_memory_stats m;
  cn_memory_get_stats(&m);
  return (moment){m.in_use, m.allocations};
}

double sweep_sum(cn_tensor *t)
{
  cn_tensor *sum = t ? cn_sum(cn_cast(t, CN_F64)) : NULL;
  return sum ? cn_item(sum) : 0;
}

/* In a state of its own each time, so that its scopes' arrays are made anew too. The error is left pending in the
 * state of the test. */
static cn_device device; /* one that works later than it is asked to */

static int run_once(const char *name, sweep_fn work, double *result)
{
  cn_state *fresh = cn_state_new(), *old = cn_state_swap(fresh);
  cn_scope *s = cn_scope_begin();
  *result = 0;
  cn_seed(5);
  int status = s ? work(result) : cn_err();
  cn_scope_end(s);
  cn_device_sync(device); /* what was queued there is done and given back; late failures are reported */
  if (!status) status = cn_err();
  bool open =
      fresh->modes || fresh->capture || fresh->no_grad || fresh->inference || fresh->nframes || fresh->draining;
  int code = cn_err();
  char message[CNI_MESSAGE_MAX];
  memcpy(message, fresh->message, sizeof message);
  cn_state_swap(old);
  cn_state_free(fresh);
  cn_err_clear();
  if (code) cn_err_set(code, "%s", message);
  if (open) fail_msg("%s: modes, scopes or recording were not put back", name);
  return status;
}

static bool same(double a, double b) { return !memcmp(&a, &b, sizeof a); }

/* Memory in use once nothing is made for the first time any more. */
static size_t settle(const char *name, sweep_fn work, double *result)
{
  size_t before = 0;
  for (int i = 0; i < SETTLE; i++) {
    double r;
    if (run_once(name, work, &r)) fail_msg("%s: without any failure: %s", name, cn_err_message());
    if (i && !same(r, *result)) fail_msg("%s: %.17g, then %.17g without any failure", name, *result, r);
    *result = r;
    if (i > 1 && now().in_use == before) return before;
    before = now().in_use;
  }
  fail_msg("%s: leaks without any failure: %zu bytes in use after %d runs", name, before, SETTLE);
  return 0;
}

/* One run with allocation k failing. Returns whether the run was over before it. */
static bool run_failing(const char *name, sweep_fn work, uint64_t k, size_t base, double want)
{
  double have;
  moment began = now();
  cn_memory_fail_at(k);
  int status = run_once(name, work, &have);
  cn_memory_fail_at(0);
  moment ended = now();
  if (status && (status != CN_ERR_MEMORY || cn_err() != CN_ERR_MEMORY || !cn_err_message()[0]))
    fail_msg("%s: allocation %d failed: status %d, error %d (%s)", name, (int)k, status, cn_err(), cn_err_message());
  if (!status && !same(have, want))
    fail_msg("%s: allocation %d failed without an error, but gave %.17g instead of %.17g", name, (int)k, have, want);
  cn_err_clear();
  if (ended.in_use != base)
    fail_msg("%s: allocation %d failed: %lld bytes stay behind", name, (int)k,
             (long long)ended.in_use - (long long)base);
  return !status && ended.allocations - began.allocations < k;
}

static void sweep(const char *name, sweep_fn work)
{
  double want = 0, again;
  device = cn_device_find("mirror");
  size_t base = settle(name, work, &want);
  if (isnan(want)) fail_msg("%s: gives NaN", name);
  uint64_t k = 1;
  while (!run_failing(name, work, k, base, want)) {
    if (k % 16 == 0 && (run_once(name, work, &again) || !same(again, want)))
      fail_msg("%s: wrong after allocation %d had failed: %.17g, not %.17g (%s)", name, (int)k, again, want,
               cn_err_message());
    if (++k > MOST) fail_msg("%s: no end after %d failures", name, MOST);
  }
  assert_int_equal(run_once(name, work, &again), 0);
  assert_true(same(again, want));
  assert_int_equal(now().in_use, base);
  print_message("%s: each of %d allocations failed once\n", name, (int)k - 1);
}

void sweep_test(void **state)
{
  const sweep_case *c = *state;
  if (c->balance) assert_int_equal(*c->balance, 0);
  sweep(c->name, c->work);
  if (c->balance) assert_int_equal(*c->balance, 0); /* each was given back, once, whatever failed */
}

int sweep_setup(void **state)
{
  (void)state;
  cn_err_clear();
  cn_memory_set_caching(false);
  setenv("CAIRN_JIT", "wait", 1); /* what another thread has allocated meanwhile would count as left behind */
  return 0;
}

int sweep_teardown(void **state)
{
  (void)state;
  cn_memory_fail_at(0);
  cn_memory_set_caching(true);
  return 0;
}
