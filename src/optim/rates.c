/* rates.c: what sets an optimiser's rates, and momenta that go round with them, on the host, in code that is captured:
 * a call of the host, whose results are the new ones.
 *
 * Place in the flow: schedules that step while code is captured; cn_host_call below. Invariant: while a run goes on the
 * memory of a rate holds what it held when the run began: nodes may read it late; the run writes the new one at its
 * end. */
#include <cairn/control.h>
#include <cairn/kw.h>

#include "optim.h"

enum { MOST_GROUPS = 64, OF_GROUP = 3, MOST = MOST_GROUPS * OF_GROUP };

typedef struct rates_call {
  cn_optim *opt;
  int (*fn)(void *payload);
  void *payload;
  void (*payload_free)(void *payload);
} rates_call;

static void drop(void *payload)
{
  rates_call *c = payload;
  if (c->payload_free) c->payload_free(c->payload);
  cn_free(c, sizeof *c);
}

/* The numbers of all groups that are tensors, float64. Returns how many. */
static size_t numbers_of(cn_tensor **numbers, const cn_optim *opt)
{
  size_t n = 0;
  for (size_t i = 0; i < opt->ngroups; i++) {
    cn_tensor *const own[OF_GROUP] = {opt->groups[i].lr, opt->groups[i].beta, opt->groups[i].rest};
    for (int k = 0; k < OF_GROUP; k++)
      if (own[k]) numbers[n++] = own[k];
  }
  return n;
}

/* in, out: those numbers. */
static int call(cn_tensor *const *out, size_t nout, cn_tensor *const *in, size_t nin, void *payload)
{
  const rates_call *c = payload;
  double before[MOST];
  cn_tensor *numbers[MOST];
  if (c->opt->ngroups > MOST_GROUPS || nin != numbers_of(numbers, c->opt) || nout != nin)
    return cn_err_set(CN_ERR_VALUE, "%s: has other groups than it had when it was captured", cn_optim_name(c->opt));
  for (size_t i = 0; i < nin; i++) {
    double *memory = cn_data(numbers[i]);
    before[i] = *memory;
    *memory = *(const double *)cn_data(in[i]);
  }
  int status = c->fn(c->payload);
  for (size_t i = 0; i < nin; i++) {
    double *memory = cn_data(numbers[i]);
    *(double *)cn_data(out[i]) = *memory;
    *memory = before[i];
  }
  return status;
}

static int capture(cn_optim *opt, rates_call *c)
{
  cn_tensor *numbers[MOST], *made[MOST];
  cn_host_result results[MOST] = {{CN_F64, 0, {0}}};
  size_t n = numbers_of(numbers, opt);
  for (size_t i = 0; i < n; i++) results[i] = (cn_host_result){.dtype = CN_F64};
  int status = cn_host_call(made, results, n, numbers, n, call, c, .payload_free = drop, .name = "rates");
  for (size_t i = 0; i < n && !status; i++) status = cn_copy_(numbers[i], made[i]) ? CN_OK : cn_err();
  return status;
}

int cn_optim_call_for_rates(cn_optim *opt, int (*fn)(void *payload), void *payload,
                            void (*payload_free)(void *payload))
{
  int status = cn_err();
  if (!status && (!opt || !fn)) status = cn_err_set(CN_ERR_TYPE, "optimiser: it, or the function, is missing (NULL)");
  if (!status && !cn_tracing()) status = cn_err_set(CN_ERR_VALUE, "%s: nothing is captured", cn_optim_name(opt));
  if (!status && cn_optim_ngroups(opt) > MOST_GROUPS)
    status = cn_err_set(CN_ERR_CAPTURE, "%s: has more than %d groups: set its rates outside", cn_optim_name(opt),
                        MOST_GROUPS);
  rates_call *c = status ? NULL : cn_alloc(sizeof *c);
  if (!c) {
    if (payload_free) payload_free(payload);
    return cn_err();
  }
  *c = (rates_call){opt, fn, payload, payload_free};
  cn_scope *scope = cn_scope_begin();
  int saved = cn_no_grad_begin();
  status = capture(opt, c);
  cn_no_grad_end(saved);
  cn_scope_end(scope);
  return status;
}
