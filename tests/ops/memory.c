/* memory.c: the driver that fails every allocation of a sample in turn, forward and gradient.
 *
 * Invariant it checks: whatever the k-th allocation was, the call reports that memory ran out (or managed without
 * it), nothing stays allocated, and the next call works as if nothing had happened. */
#include "drivers.h"

enum { MOST_FAILURES = 400 };

static size_t in_use(void)
{
  cn_memory_stats m;
  cn_memory_get_stats(&m);
  return m.in_use;
}

static uint64_t allocations(void)
{
  cn_memory_stats m;
  cn_memory_get_stats(&m);
  return m.allocations;
}

static int run_once(const call *c, bool grad)
{
  call_result r;
  int status = grad ? call_run_grad(&r, c, NULL, NULL) : call_run(&r, c, NULL);
  call_result_free(&r);
  return status;
}

static enum outcome fail_each(const trial *t, const call *c, bool grad)
{
  /* Twice to fill what is made once: programs of gradients, the state's own arrays. */
  for (int i = 0; i < 2; i++)
    if (run_once(c, grad)) return trial_fail(t, "%s", cn_err_message());
  size_t base = in_use();
  uint64_t count = allocations();
  if (run_once(c, grad)) return trial_fail(t, "%s", cn_err_message());
  count = allocations() - count;
  if (in_use() != base) return trial_fail(t, "leaks %lld bytes without any failure", (long long)(in_use() - base));
  if (count > MOST_FAILURES) count = MOST_FAILURES;
  for (uint64_t k = 1; k <= count; k++) {
    cn_memory_fail_at(k);
    int status = run_once(c, grad);
    cn_memory_fail_at(0);
    bool clean = !status || (status == CN_ERR_MEMORY && cn_err() == CN_ERR_MEMORY && cn_err_message()[0]);
    cn_err_clear();
    if (!clean) return trial_fail(t, "allocation %d of %d failed: status %d", (int)k, (int)count, status);
    if (in_use() != base)
      return trial_fail(t, "allocation %d of %d failed: %lld bytes stay behind", (int)k, (int)count,
                        (long long)(in_use() - base));
  }
  return run_once(c, grad) ? trial_fail(t, "after the failures: %s", cn_err_message()) : PASS;
}

enum outcome drive_memory(const trial *t)
{
  bool grad = differentiable(t->s) && !sample_has_range(t->s, '!', false);
  call c;
  if (t->s->must_fail || t->s->large) return PASS;
  if (call_make(&c, t->s, &(call_setup){.grad = grad})) return trial_fail(t, "inputs: %s", cn_err_message());
  cn_memory_set_caching(false);
  enum outcome o = fail_each(t, &c, grad);
  cn_memory_fail_at(0);
  cn_memory_set_caching(true);
  cn_err_clear();
  call_free(&c);
  return o;
}
