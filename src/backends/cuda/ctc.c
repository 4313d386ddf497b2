/* ctc.c: the CTC loss of each sequence, and its gradient: ways forward and back, a block each, then a block a time.
 *
 * Place in the flow: launches of kernels/ctc.cu. Invariant: nothing is read back: room is for as many states as targets
 * can hold, lengths and labels out of range are a fault that the next wait reports. */
#include <string.h>

#include "plugin.h"

/* As in kernels/ctc.cu. */
typedef struct job {
  const void *x, *targets, *input_lengths, *target_lengths, *grad;
  void *y, *alpha, *beta, *losses, *starts, *links;
  int64_t steps, count, classes, labels, blank, alpha_rows;
  int32_t flat, zero_infinity, shared, unused;
  cni_cuda_slot fault;
} job;

/* STATE: bytes of one at a time, as in kernels/ctc.cu. */
enum { MOST_INPUTS = 5, SHARED_MOST = 32 << 10, MOST_ROWS = 65535, STATE = 16, LEAST_THREADS = 64, MOST_THREADS = 512 };

static int64_t states_of(const job *j)
{
  return j->flat ? 2 * j->labels + j->count : j->count * (2 * j->labels + 1);
}

/* Bytes of room for alpha and, for a gradient, what else it wants, numbers of 8 bytes. 0: too many. */
static size_t room_bytes(const job *j, bool gradient)
{
  int64_t all, more = gradient ? 2 * j->count + (j->flat ? j->labels : j->count * j->labels) : 0;
  if (__builtin_mul_overflow(states_of(j), j->alpha_rows * (1 + gradient) * STATE, &all) ||
      __builtin_mul_overflow(more, 8, &more) || __builtin_add_overflow(all, more, &all))
    return 0;
  return (size_t)(all ? all : 8);
}

static void divide_room(job *j, char *room, bool gradient)
{
  int64_t rows = states_of(j) * j->alpha_rows * STATE;
  j->alpha = room;
  if (!gradient) return;
  j->beta = room + rows;
  j->losses = room + 2 * rows;
  j->starts = room + 2 * rows + j->count * 8;
  j->links = room + 2 * rows + 2 * j->count * 8;
}

/* Threads of a block: a state each, of sequences that lie one behind another the mean of them. */
static int threads_for(const job *j)
{
  int64_t states = 2 * (j->flat ? j->labels / j->count : j->labels) + 1;
  int threads = LEAST_THREADS;
  while (threads < states && threads < MOST_THREADS) threads *= 2;
  return threads;
}

/* Two rows of the states of a sequence lie in shared memory where they fit. */
static int launch(cni_cuda_device *d, const char *name, job *j, int type, bool gradient)
{
  size_t rows = 2 * (size_t)(2 * j->labels + 1) * STATE, shared = rows < SHARED_MOST ? rows : SHARED_MOST;
  cni_cuda_code code = {.file = "ctc.cu", .entry = gradient ? "ctc_sweep" : "ctc_forward", .types = {type}};
  code.threads = threads_for(j);
  j->shared = (int32_t)shared;
  cni_cuda_grid grid = {j->count, gradient ? 2 : 1, code.threads, shared};
  int status = cni_cuda_run(d, name, &code, grid, j);
  if (status || !gradient) return status;
  code.entry = "ctc_gradient";
  code.threads = CNI_CUDA_THREADS;
  return cni_cuda_run(d, name, &code,
                      (cni_cuda_grid){j->steps, j->count < MOST_ROWS ? j->count : MOST_ROWS, CNI_CUDA_THREADS, 0}, j);
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
  char *room = cni_cuda_scratch(d, name, bytes);
  int status = room ? CN_OK : CN_ERR_MEMORY;
  for (int i = 0; i < first + 4 && !status; i++) status = cni_cuda_take(&in[i], d, name, cn_desc_of(c->in[i]), 0);
  if (!status) status = cni_cuda_room(&out, d, name, cn_desc_of(c->out[0]), 0);
  j.x = in[first].data, j.targets = in[first + 1].data, j.y = out.data;
  j.input_lengths = in[first + 2].data, j.target_lengths = in[first + 3].data;
  if (first) j.grad = in[0].data;
  if (room) divide_room(&j, room, first);
  if (!status) status = launch(d, name, &j, x->dtype, first);
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
