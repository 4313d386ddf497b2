/* repeat.c: work that a program queues on a device once and runs many times (cn_repeated in device.h).
 *
 * Place in the flow: programs and generation (zoo/step.c) -> the backend's recordings; compiled functions have theirs
 * by graph/recorded.c. Invariant: while a recording is made nothing runs, so one that fails has changed nothing. */
#include <cairn/device.h>
#include <cairn/ops.h>

#include "base/alloc.h"
#include "base/state.h"
#include "graph/whole.h"
#include "registry.h"
#include "tensor/tensor.h"

struct cn_repeated {
  cn_device device;
  void *work; /* the backend's */
};

bool cn_device_records(cn_device device) { return device > CN_CPU && cni_whole.records(device); }

/* What it draws would be the same numbers in each run. */
static int check_draws(uint64_t seed, uint64_t offset)
{
  uint64_t seed_now, offset_now;
  cn_random_state(&seed_now, &offset_now);
  if (seed_now == seed && offset_now == offset) return CN_OK;
  cn_random_set_state(seed, offset);
  return cni_fail(CN_ERR_CAPTURE, "recording: work that draws random numbers cannot be repeated as it is; draw them "
                  "outside, or compile the function");
}

static int record(cn_repeated *r, int (*work)(void *payload), void *payload)
{
  uint64_t seed, offset;
  int status = cni_whole.record_begin(r->device);
  if (status) return status;
  cn_random_state(&seed, &offset);
  cn_scope *s = cn_scope_begin();
  status = work(payload);
  if (!status) status = cn_err();
  cn_scope_end(s); /* memory of what it made is the recording's */
  if (!status) status = check_draws(seed, offset);
  int ended = cni_whole.record_end(r->device, status ? NULL : &r->work);
  return status ? status : ended;
}

cn_repeated *cn_repeated_new(cn_device device, int (*work)(void *payload), void *payload)
{
  if (cn_err() || !cn_device_records(device)) return NULL;
  cn_repeated *r = cni_alloc_zero(sizeof *r);
  if (!r) return NULL;
  r->device = device;
  if (!record(r, work, payload)) return r;
  cni_free(r, sizeof *r);
  return NULL;
}

int cn_repeated_run(cn_repeated *r)
{
  if (cn_err()) return cn_err();
  if (!r) return cni_fail(CN_ERR_TYPE, "recording: it is missing (NULL)");
  cn_record_run run = {.size = sizeof run, .stream = cni_memory.stream(r->device)};
  return cni_whole.record_run(r->device, r->work, &run);
}

void cn_repeated_free(cn_repeated *r)
{
  if (!r) return;
  cni_whole.record_free(r->device, r->work);
  cni_free(r, sizeof *r);
}
