/* ctc.c: the CTC loss of each sequence, and its gradient, by a block each.
 *
 * Place in the flow: launches of kernels/ctc.cu. Invariant: nothing is read back: room is for as many states as targets
 * can hold, lengths and labels out of range are a fault that the next wait reports. */
#include <string.h>

#include "plugin.h"

/* As in kernels/ctc.cu. */
typedef struct job {
  const void *x, *targets, *input_lengths, *target_lengths, *grad;
  void *y, *alpha, *beta, *ways, *links;
  int64_t steps, count, classes, labels, blank, alpha_rows;
  int32_t flat, zero_infinity;
  cni_cuda_slot fault;
} job;

enum { MOST_INPUTS = 5 };

/* Room for alpha and, for a gradient, what else it wants: numbers of 8 bytes. 0: too many. */
static size_t room_bytes(job *j, bool gradient)
{
  int64_t states = j->flat ? 2 * j->labels + j->count : j->count * (2 * j->labels + 1), all, more = 0;
  if (__builtin_mul_overflow(states, j->alpha_rows + 2 * gradient, &all) ||
      (gradient && __builtin_mul_overflow(j->count, j->classes, &more)) || __builtin_add_overflow(all, more, &all) ||
      __builtin_add_overflow(all, gradient ? (j->flat ? j->labels : j->count * j->labels) : 0, &all) ||
      __builtin_mul_overflow(all, 8, &all))
    return 0;
  return (size_t)(all ? all : 8);
}

static void divide_room(job *j, double *room, bool gradient)
{
  int64_t states = j->flat ? 2 * j->labels + j->count : j->count * (2 * j->labels + 1);
  j->alpha = room;
  if (!gradient) return;
  j->beta = room + states * j->alpha_rows;
  j->ways = (double *)j->beta + 2 * states;
  j->links = (double *)j->ways + j->count * j->classes;
}

/* first: inputs before log_probs: the gradient of the losses, or none. */
static int run(cn_call *c, int first)
{
  const cn_desc *x = cn_desc_of(c->in[first]), *targets = cn_desc_of(c->in[first + 1]);
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_operand in[MOST_INPUTS] = {{0}}, out = {0};
  job j = {.steps = x->shape[0], .count = x->shape[1], .classes = x->shape[2], .flat = targets->ndim == 1,
           .labels = targets->shape[targets->ndim - 1], .blank = c->args[first + 4].u.i,
           .zero_infinity = c->args[first + 5].u.i != 0};
  if (!d) return CN_ERR_DEVICE;
  if (j.count == 0 || cn_desc_of(c->out[0])->numel == 0) return CN_OK;
  j.alpha_rows = first ? j.steps : 2;
  j.fault = cni_cuda_slot_for(d, name);
  size_t bytes = room_bytes(&j, first);
  if (!bytes) return cni_cuda_host->fail(CN_ERR_MEMORY, "%s: the ways of %lld sequences do not fit in memory", name,
                                         (long long)j.count);
  double *room = cni_cuda_scratch(d, name, bytes);
  int status = room ? CN_OK : CN_ERR_MEMORY;
  for (int i = 0; i < first + 4 && !status; i++) status = cni_cuda_take(&in[i], d, name, cn_desc_of(c->in[i]), 0);
  if (!status) status = cni_cuda_room(&out, d, name, cn_desc_of(c->out[0]), 0);
  j.x = in[first].data, j.targets = in[first + 1].data, j.y = out.data;
  j.input_lengths = in[first + 2].data, j.target_lengths = in[first + 3].data;
  if (first) j.grad = in[0].data;
  if (room) divide_room(&j, room, first);
  cni_cuda_code code = {.file = "ctc.cu", .entry = first ? "ctc_backward" : "ctc_forward", .types = {x->dtype}};
  if (!status) status = cni_cuda_run(d, name, &code, (cni_cuda_grid){j.count, 1, CNI_CUDA_THREADS, 0}, &j);
  for (int i = 0; i < first + 4; i++) cni_cuda_drop(&in[i], d);
  if (room) cni_cuda_free(d, room, bytes);
  return out.desc ? cni_cuda_give(&out, d, name, status) : status;
}

static int forward_kernel(cn_call *c) { return run(c, 0); }
static int backward_kernel(cn_call *c) { return run(c, 1); }

const cn_kernel cni_cuda_ctc_kernels[] = {
    {"ctc_rows", "ctc.cu", forward_kernel},
    {"ctc_rows_grad", "ctc.cu", backward_kernel},
    {NULL, NULL, NULL},
};
