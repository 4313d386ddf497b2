/* record.c: recordings: work that a thread queues once, as a CUDA graph, and that is launched many times.
 *
 * Place in the flow: the table's record_begin makes a stream that captures; until record_end whatever this thread asks
 * for goes there (queue.c), with memory from the recording's own free lists. A run is one launch of a graph of three
 * nodes: copies into the recording, what was captured, copies out of it; the arguments of the first and the last are
 * set anew for each launch. Where there is nothing to copy it is what was captured alone. Invariants: memory that was
 * taken while a recording was made is its own until it is freed; nothing that a launch reads is in host memory that
 * may change. */
#include <string.h>

#include "plugin.h"

/* As in kernels/replay.cu. */
enum { COPIES = 16, NUMBERS = 3640, PACK = 16, BLOCKS_PER_UNIT = 8 };
typedef struct copied {
  void *to;
  const void *from;
  int64_t bytes;
} copied;
typedef struct give_job {
  copied c[COPIES];
} give_job;
typedef struct bring_job {
  copied c[COPIES];
  void *to;
  int64_t bytes;
  unsigned char numbers[NUMBERS];
} bring_job;

typedef struct recording {
  cni_cuda_queue queue; /* captures; then: its memory */
  CUgraph captured, whole;
  CUgraphExec launched, bare; /* bare: what was captured alone, for runs without copies and numbers; NULL: none yet */
  CUgraphNode bring, give;
  CUfunction bring_code, give_code;
  CUstream last; /* where it was launched */
  bool held;     /* memory taken meanwhile may outlive it */
} recording;

/* ---- the graph ---- */

static int find_code(recording *r, cni_cuda_device *d)
{
  cni_cuda_code code = {.file = "replay.cu", .entry = "bring", .exact = true};
  int status = cni_cuda_kernel(&r->bring_code, d, &code);
  code.entry = "give";
  return status ? status : cni_cuda_kernel(&r->give_code, d, &code);
}

/* A node of one of the two kernels for n copies; most: bytes of the largest. */
static CUDA_KERNEL_NODE_PARAMS node_of(const cni_cuda_device *d, CUfunction code, size_t n, size_t most, void **job)
{
  size_t blocks = (most / PACK + CNI_CUDA_THREADS - 1) / CNI_CUDA_THREADS, limit = (size_t)d->units * BLOCKS_PER_UNIT;
  CUDA_KERNEL_NODE_PARAMS p;
  memset(&p, 0, sizeof p);
  p.func = code;
  p.gridDimX = (unsigned)(blocks > limit ? limit : blocks ? blocks : 1);
  p.gridDimY = (unsigned)(n ? n : 1);
  p.gridDimZ = p.blockDimY = p.blockDimZ = 1;
  p.blockDimX = CNI_CUDA_THREADS;
  p.kernelParams = job;
  return p;
}

static CUresult instantiate(CUgraphExec *made, cni_cuda_device *d, CUgraph graph)
{
  CUresult result = cni_cuda_graphs()->cuGraphInstantiate(made, graph, 0);
  return cni_cuda_made_room(d, result) ? cni_cuda_graphs()->cuGraphInstantiate(made, graph, 0) : result;
}

static int assemble(recording *r, cni_cuda_device *d)
{
  const cni_cuda_graph_table *cg = cni_cuda_graphs();
  bring_job in = {0};
  give_job out = {0};
  void *in_job = &in, *out_job = &out;
  CUgraphNode inner;
  CUDA_KERNEL_NODE_PARAMS first = node_of(d, r->bring_code, 0, 0, &in_job);
  CUDA_KERNEL_NODE_PARAMS last = node_of(d, r->give_code, 0, 0, &out_job);
  CUresult result = cg->cuGraphCreate(&r->whole, 0);
  if (result == CUDA_SUCCESS) result = cg->cuGraphAddKernelNode(&r->bring, r->whole, NULL, 0, &first);
  if (result == CUDA_SUCCESS) result = cg->cuGraphAddChildGraphNode(&inner, r->whole, &r->bring, 1, r->captured);
  if (result == CUDA_SUCCESS) result = cg->cuGraphAddKernelNode(&r->give, r->whole, &inner, 1, &last);
  if (result == CUDA_SUCCESS) result = instantiate(&r->launched, d, r->whole);
  return cni_cuda_check(result, "making a graph of launches");
}

static int make_bare(recording *r, cni_cuda_device *d)
{
  return cni_cuda_check(instantiate(&r->bare, d, r->captured), "making a graph of launches");
}

/* ---- life ---- */

void cni_cuda_record_free(int index, void *made)
{
  const cni_cuda_graph_table *cg = cni_cuda_graphs();
  recording *r = made;
  cni_cuda_device *d = cni_cuda_use_to_free(index);
  if (!d) return;
  if (r->launched) cg->cuGraphExecDestroy(r->launched); /* a launch that is going on ends */
  if (r->bare) cg->cuGraphExecDestroy(r->bare);
  if (r->whole) cg->cuGraphDestroy(r->whole);
  if (r->captured) cg->cuGraphDestroy(r->captured);
  cni_cuda_queue_end(d, &r->queue, r->last);
  cni_cuda_host->free_memory(r, sizeof *r);
}

bool cni_cuda_graphs_off(void)
{
  const char *wanted = cni_cuda_host->env("CAIRN_CUDA_GRAPHS");
  return cni_cuda_waits || (wanted && (!strcmp(wanted, "0") || !strcmp(wanted, "off"))) || !cni_cuda_graphs();
}

static int begin(cni_cuda_device *d)
{
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  recording *r = cni_cuda_host->memory(sizeof *r);
  if (!r) return CN_ERR_MEMORY;
  memset(r, 0, sizeof *r);
  r->queue.alone = true;
  int status = find_code(r, d);
  if (!status) status = cni_cuda_check(cu->cuStreamCreate(&r->queue.stream, CU_STREAM_NON_BLOCKING), "making a stream");
  if (!status) { /* relaxed: memory may be taken, and code loaded, meanwhile */
    CUresult result = cni_cuda_graphs()->cuStreamBeginCapture(r->queue.stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    status = cni_cuda_check(result, "beginning a recording");
  }
  if (!status) {
    cni_cuda_record_into(d, &r->queue);
    return CN_OK;
  }
  if (r->queue.stream) cu->cuStreamDestroy(r->queue.stream);
  cni_cuda_host->free_memory(r, sizeof *r);
  return status;
}

int cni_cuda_record_begin(int index)
{
  cni_cuda_device *d = cni_cuda_use(index);
  if (!d) return CN_ERR_DEVICE;
  return cni_cuda_graphs_off() || cni_cuda_records(d) ? CN_REFUSED : begin(d);
}

int cni_cuda_rehearse(int index)
{
  cni_cuda_device *d = cni_cuda_use(index);
  if (!d) return CN_ERR_DEVICE;
  if (cni_cuda_graphs_off() || cni_cuda_records(d)) return CN_REFUSED;
  int status = cni_cuda_look_begin(d);
  if (!status && (status = begin(d))) cni_cuda_look_end();
  return status;
}

/* Has all that was taken been given back? The workspace of products stays. */
static bool is_free(const cni_cuda_queue *q)
{
  return q->live == (q->workspace != NULL);
}

void cni_cuda_record_hold(int index)
{
  cni_cuda_device *d = cni_cuda_use(index);
  recording *r = d ? (recording *)(void *)cni_cuda_records(d) : NULL;
  if (r) r->held = true;
}

bool cni_cuda_records_by_hand(const cni_cuda_device *d)
{
  const recording *r = (const recording *)(const void *)cni_cuda_records(d); /* its queue comes first */
  return r && r->held;
}

int cni_cuda_record_end(int index, void **made)
{
  cni_cuda_device *d = cni_cuda_use(index);
  recording *r = d ? (recording *)(void *)cni_cuda_records(d) : NULL; /* its queue comes first */
  if (!r) return cni_cuda_host->fail(CN_ERR_INTERNAL, "cuda: nothing is being recorded");
  int status = made ? cni_cuda_flush() : CN_OK;
  cni_cuda_forget_waiting();
  cni_cuda_record_into(d, NULL);
  CUresult result = cni_cuda_graphs()->cuStreamEndCapture(r->queue.stream, &r->captured);
  if (made && !status) status = cni_cuda_check(result, "recording");
  if (made && !status && !r->held && !is_free(&r->queue))
    status = cni_cuda_host->fail(CN_ERR_INTERNAL, "cuda: memory that was taken while work was recorded is still held");
  if (made && !status) status = r->queue.early ? make_bare(r, d) : assemble(r, d); /* the other: when it is run */
  if (made && !status) *made = r;
  else cni_cuda_record_free(index, r);
  cni_cuda_look_end();
  return status;
}

/* ---- one run ---- */

/* The first COPIES go with the launch; the others are queued. Returns the most bytes of one that goes along. */
static size_t sort_copies(copied *c, const cn_record_copy *from, size_t n, CUstream stream, CUresult *result)
{
  size_t most = 0;
  for (size_t i = 0; i < n; i++) {
    if (i < COPIES) {
      c[i] = (copied){from[i].to, from[i].from, (int64_t)from[i].bytes};
      if (from[i].bytes > most) most = from[i].bytes;
    } else if (*result == CUDA_SUCCESS && from[i].bytes)
      *result = cni_cuda_driver()->cuMemcpyDtoDAsync((CUdeviceptr)(uintptr_t)from[i].to,
                                                     (CUdeviceptr)(uintptr_t)from[i].from, from[i].bytes, stream);
  }
  return most;
}

/* Few numbers are arguments; many lie in pinned memory, which is given back when the copy is over. */
static int send_numbers(bring_job *in, cni_cuda_device *d, const cn_record_run *run)
{
  if (run->numbers_bytes <= NUMBERS) {
    in->to = run->numbers_to;
    in->bytes = (int64_t)run->numbers_bytes;
    memcpy(in->numbers, run->numbers, run->numbers_bytes);
    return CN_OK;
  }
  void *pinned = cni_cuda_host_alloc(d->index, run->numbers_bytes);
  if (pinned) memcpy(pinned, run->numbers, run->numbers_bytes);
  int status = cni_cuda_copy_in(d->index, run->numbers_to, pinned ? pinned : run->numbers, run->numbers_bytes,
                                run->stream);
  if (pinned) cni_cuda_host_free(d->index, pinned, run->numbers_bytes);
  return status;
}

static int run_bare(cni_cuda_device *d, recording *r)
{
  int status = r->bare ? CN_OK : make_bare(r, d);
  if (status) return status;
  r->last = cni_cuda_now(d)->stream;
  status = cni_cuda_check(cni_cuda_graphs()->cuGraphLaunch(r->bare, r->last), "launching recorded work");
  return status ? status : cni_cuda_launched(d, "recorded work");
}

int cni_cuda_record_run(int index, void *made, const cn_record_run *run)
{
  const cni_cuda_graph_table *cg = cni_cuda_graphs();
  recording *r = made;
  cni_cuda_device *d = cni_cuda_enter(index, run->stream);
  if (!d) return CN_ERR_DEVICE;
  if (!run->nin && !run->nout && !run->numbers_bytes) return run_bare(d, r);
  if (!r->launched && assemble(r, d)) return CN_ERR_DEVICE;
  bring_job in = {0};
  give_job out = {0};
  void *in_job = &in, *out_job = &out;
  CUresult result = CUDA_SUCCESS, none = CUDA_ERROR_NOT_READY;
  CUstream stream = cni_cuda_now(d)->stream;
  int status = send_numbers(&in, d, run);
  if (status) return status;
  size_t most = sort_copies(in.c, run->in, run->nin, stream, &result);
  CUDA_KERNEL_NODE_PARAMS node = node_of(d, r->bring_code, run->nin < COPIES ? run->nin : COPIES, most, &in_job);
  if (result == CUDA_SUCCESS) result = cg->cuGraphExecKernelNodeSetParams(r->launched, r->bring, &node);
  most = sort_copies(out.c, run->out, run->nout, stream, &none); /* those behind the launch: below */
  node = node_of(d, r->give_code, run->nout < COPIES ? run->nout : COPIES, most, &out_job);
  if (result == CUDA_SUCCESS) result = cg->cuGraphExecKernelNodeSetParams(r->launched, r->give, &node);
  if (result == CUDA_SUCCESS) result = cg->cuGraphLaunch(r->launched, stream);
  sort_copies(out.c, run->out, run->nout, stream, &result);
  r->last = stream;
  status = cni_cuda_check(result, "launching recorded work");
  return status ? status : cni_cuda_launched(d, "recorded work");
}
