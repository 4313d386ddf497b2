/* pointwise.c: every pointwise op, and every copy, cast and fill: loops rendered by cairn's code generator.
 *
 * Place in the flow: the kernels "pointwise", "copy", "full" and their kin. Invariant: no arithmetic is
 * written here; results are those of the CPU's kernels because the text is, 16-bit ones within a rounding. */
#include <string.h>

#include "plugin.h"

/* Blocks beyond that take another turn of the loop. With a quarter of them copies are 3 to 5 % slower. */
enum { BLOCKS_PER_UNIT = 128 };

static char *text_of(const void *source, size_t *size) { return cni_cuda_host->source_text(source, size); }

/* More arguments than a launch takes: they go to the device first. Waits, because ordinary memory is copied from. */
static int launch_by_pointer(cni_cuda_device *d, const char *name, CUfunction function, cni_cuda_grid grid,
                             const cn_source *s)
{
  int status = cni_cuda_host->waiting();
  void *there = status ? NULL : cni_cuda_scratch(d, name, s->loop_size);
  if (!there) return status ? status : CN_ERR_MEMORY;
  status = cni_cuda_check(cni_cuda_driver()->cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)there, s->loop,
                                                                   s->loop_size, cni_cuda_now(d)->stream), name);
  if (!status) status = cni_cuda_finish(d);
  if (!status) status = cni_cuda_launch(d, name, function, grid, &there);
  cni_cuda_free(d, there, s->loop_size);
  return status;
}

static int find_function(CUfunction *function, cni_cuda_device *d, const cn_source *s)
{
  cni_cuda_maths maths = s->fast ? CNI_CUDA_FAST : CNI_CUDA_EXACT;
  uint64_t key = s->group ? cn_hash_more(s->key, &s->group, sizeof s->group) : s->key;
  return cni_cuda_function(function, d, key, s->entry, maths, text_of, s);
}

/* Of `loops` loops of n elements at most. */
static cni_cuda_grid grid_of(const cni_cuda_device *d, int vector, int64_t n, int loops)
{
  int64_t each = (int64_t)CN_LOOP_THREADS * vector, blocks = (n + each - 1) / each;
  if (blocks > (int64_t)BLOCKS_PER_UNIT * d->units) blocks = (int64_t)BLOCKS_PER_UNIT * d->units;
  return (cni_cuda_grid){blocks, loops, CN_LOOP_THREADS, 0};
}

static void set_fault(cni_cuda_device *d, const char *name, cn_source *s)
{
  s->loop->fault = &d->fault->op;
  s->loop->fault_code = s->divides ? cni_cuda_fault_code(name) : 0;
}

static int run_source(cni_cuda_device *d, const char *name, cn_source *s)
{
  CUfunction function;
  if (s->loop->n == 0) return CN_OK;
  set_fault(d, name, s);
  int status = find_function(&function, d, s);
  if (status) return status;
  cni_cuda_grid grid = grid_of(d, s->vector, s->loop->n, 1);
  return s->by_pointer ? launch_by_pointer(d, name, function, grid, s)
                       : cni_cuda_launch(d, name, function, grid, s->loop);
}

static int run(cni_cuda_device *d, const char *name, cn_source *s)
{
  int status = run_source(d, name, s);
  cni_cuda_host->source_free(s);
  return status;
}

/* ---- updates, and casts that are recorded: one launch for those of several parameters ---- */

enum { ARGUMENTS = 4096, MOST_WAITING = 64, MOST_OPERANDS = 16, ALIKE = 16 }; /* bytes of a kernel's arguments */

/* Bytes from begin to end - 1. */
typedef struct range {
  const char *begin, *end;
} range;

/* Those that wait to be launched together: none writes what another uses, and they have the same code. */
static _Thread_local struct {
  cni_cuda_device *d;
  cni_cuda_queue *queue;
  const char *name;
  uint64_t key;
  CUfunction one, several;
  int n, vector, nout, operands;
  size_t size;  /* of one's arguments */
  int64_t most; /* elements */
  range used[MOST_WAITING][MOST_OPERANDS]; /* results, then inputs */
  _Alignas(16) char loops[ARGUMENTS];
} waiting;
/* Between begin and end of updates: they wait outside of recordings, too, and are not made where *unless says so. */
static _Thread_local bool together;
static _Thread_local const void *unless;

void cni_cuda_forget_waiting(void) { waiting.n = 0; }

int cni_cuda_flush(void)
{
  int n = waiting.n;
  if (!n) return CN_OK;
  waiting.n = 0; /* a launch asks for this again */
  if (!cni_cuda_use(waiting.d->index)) return CN_ERR_DEVICE;
  cni_cuda_continue(waiting.d, waiting.queue);
  cni_cuda_grid grid = grid_of(waiting.d, waiting.vector, waiting.most, n);
  return cni_cuda_launch(waiting.d, waiting.name, n > 1 ? waiting.several : waiting.one, grid, waiting.loops);
}

int cni_cuda_updates(bool begin, const void *flag)
{
  together = begin && !cni_cuda_waits;
  unless = flag;
  return begin ? CN_OK : cni_cuda_flush();
}

void cni_cuda_before_free(void)
{
  if (together) cni_cuda_flush();
}

/* Pointers of a loop's operands: results, then inputs. */
static void *const *operands_of(const void *loop) { return (void *const *)((const cn_loop *)loop + 1); }

/* The memory of operand i; none for a number that travels with the launch. */
static range range_of(const cn_source *s, int i)
{
  const char *begin = s->form[i] == 'p' ? NULL : operands_of(s->loop)[i];
  return (range){begin, begin ? begin + cn_element_bytes(s->dtype[i], s->form[i] == 'v' ? s->loop->n : 1) : NULL};
}

static bool overlap(range a, range b) { return a.begin < b.end && b.begin < a.end; }

static bool may_join(const cn_source *s)
{
  return s->flat && !s->by_pointer && s->loop->n && s->nout + s->nin <= MOST_OPERANDS;
}

/* Does it write each result over an input? */
static bool is_update(const cn_call *c, const cn_source *s)
{
  if (s->nin < s->nout) return false;
  for (int k = 0; k < c->nout; k++)
    if (operands_of(s->loop)[k] != operands_of(s->loop)[c->nout + k]) return false;
  return true;
}

/* Does it use memory that one that waits writes to, or the other way round? */
static bool depends(const cn_source *s)
{
  for (int j = 0; j < s->nout + s->nin; j++) {
    const range mine = range_of(s, j);
    for (int i = 0; i < waiting.n && mine.begin; i++)
      for (int k = 0; k < (j < s->nout ? waiting.operands : waiting.nout); k++)
        if (overlap(mine, waiting.used[i][k])) return true;
  }
  return false;
}

static int wait_for_more(cni_cuda_device *d, const cn_call *c, const char *name, cn_source *s)
{
  int most = (int)(ARGUMENTS / s->loop_size), status = CN_OK;
  cni_cuda_queue *queue = cni_cuda_queue_of(d, c->stream);
  if (most > MOST_WAITING) most = MOST_WAITING;
  if (waiting.n && (waiting.n == most || waiting.queue != queue || waiting.key != s->key || depends(s)))
    status = cni_cuda_flush();
  if (status) return status;
  set_fault(d, name, s);
  if (!waiting.n) {
    waiting.d = d, waiting.queue = queue, waiting.name = name, waiting.key = s->key;
    waiting.vector = s->vector, waiting.nout = s->nout, waiting.operands = s->nout + s->nin;
    waiting.size = s->loop_size;
    waiting.most = 0;
    status = find_function(&waiting.one, d, s);
  } else if (waiting.n == 1) {
    s->group = most;
    status = find_function(&waiting.several, d, s);
  }
  if (status) return status;
  if (s->loop->n > waiting.most) waiting.most = s->loop->n;
  for (int i = 0; i < waiting.operands; i++) waiting.used[waiting.n][i] = range_of(s, i);
  memcpy(waiting.loops + (size_t)waiting.n++ * waiting.size, s->loop, waiting.size);
  return CN_OK;
}

static int pointwise_kernel(cn_call *c)
{
  cn_source source; /* all but its size is set by the host */
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_device_at(c->device & 0xff);
  if (!d) return CN_ERR_DEVICE;
  source.size = sizeof source;
  int status = cni_cuda_host->pointwise_source(&source, c, CN_LANG_CUDA);
  if (status) return status;
  bool update = is_update(c, &source);
  bool waits = may_join(&source) && (cni_cuda_records(d) || (together && update));
  source.loop->skip = update ? unless : NULL;
  if (!waits && cni_cuda_of(c)) return run(d, name, &source);
  status = waits && cni_cuda_use(d->index) ? wait_for_more(d, c, name, &source) : CN_ERR_DEVICE;
  cni_cuda_host->source_free(&source);
  return status;
}

static bool is_complex(const cn_desc *x) { return x->dtype == CN_C64 || x->dtype == CN_C128; }

/* The real (0) or imaginary (1) parts of x, which may be real itself; zero: an int64 of that value, for those it has
 * not. */
static cn_desc part_of(const cn_desc *x, int part, int64_t *zero)
{
  cn_desc d = *x;
  if (is_complex(x)) {
    d.dtype = x->dtype == CN_C64 ? CN_F32 : CN_F64;
    d.data = (char *)x->data + (size_t)part * cn_element_size(d.dtype);
    for (int i = 0; i < d.ndim; i++) d.strides[i] *= 2;
  } else if (part) {
    memset(&d, 0, sizeof d);
    d.data = zero, d.numel = 1, d.dtype = CN_I64, d.device = CN_CPU, d.weak = 1;
  }
  return d;
}

/* to: complex. Pairs of float32 move as one; otherwise both parts are copied, one after the other. */
static int copy_complex(cni_cuda_device *d, const char *name, const cn_desc *to, const cn_desc *from)
{
  int status = CN_OK;
  int64_t zero = 0;
  cn_desc parts[2] = {*to, *from};
  if (to->dtype == CN_C64 && from->dtype == CN_C64 && from->device == to->device) {
    parts[0].dtype = parts[1].dtype = CN_I64;
    return cni_cuda_copy_desc(d, name, &parts[0], &parts[1]);
  }
  for (int i = 0; i < 2 && !status; i++) {
    parts[0] = part_of(to, i, &zero), parts[1] = part_of(from, i, &zero);
    status = cni_cuda_copy_desc(d, name, &parts[0], &parts[1]);
  }
  return status;
}

int cni_cuda_copy_desc(cni_cuda_device *d, const char *name, const cn_desc *to, const cn_desc *from)
{
  cn_source source; /* all but its size is set by the host */
  if (is_complex(to)) return copy_complex(d, name, to, from);
  int status = cni_cuda_transpose(d, name, to, from);
  if (status != CN_REFUSED) return status;
  source.size = sizeof source;
  status = cni_cuda_host->copy_source(&source, to, from, CN_LANG_CUDA);
  return status ? status : run(d, name, &source);
}

/* The source is the last input: copy(input, src) and fill(input, value) have two, the others one. */
static int copy_kernel(cn_call *c)
{
  cni_cuda_device *d = cni_cuda_of(c);
  if (!d) return CN_ERR_DEVICE;
  return cni_cuda_copy_desc(d, cni_cuda_host->op_name(c->op), cn_desc_of(c->out[0]),
                            cn_desc_of(c->in[c->nin - 1]));
}

/* cast: of dense memory, in recorded work, with others of its kind and about its size. */
static int cast_kernel(cn_call *c)
{
  const cn_desc *to = cn_desc_of(c->out[0]), *from = cn_desc_of(c->in[0]);
  cni_cuda_device *d = cni_cuda_use(c->device & 0xff);
  if (!d) return CN_ERR_DEVICE;
  bool waits = cni_cuda_records(d) && from->device == to->device && !from->weak && to->numel &&
               cni_cuda_is_dense(to) && cni_cuda_is_dense(from) && !is_complex(to);
  if (!waits) return copy_kernel(c);
  cn_source source; /* all but its size is set by the host */
  source.size = sizeof source;
  int status = cni_cuda_host->copy_source(&source, to, from, CN_LANG_CUDA);
  if (status) return status;
  bool unlike = to->numel > waiting.most * ALIKE || to->numel * ALIKE < waiting.most;
  if (waiting.n && unlike) status = cni_cuda_flush();
  if (!status && may_join(&source)) status = wait_for_more(d, c, "cast", &source);
  else if (!status) status = cni_cuda_of(c) ? run_source(d, "cast", &source) : CN_ERR_DEVICE;
  cni_cuda_host->source_free(&source);
  return status;
}

/* In a graph: what cannot be a view is copied, as the input's shape sees the result's memory, which is row-major. */
static int reshape_kernel(cn_call *c)
{
  cni_cuda_device *d = cni_cuda_of(c);
  cn_desc to = *cn_desc_of(c->in[0]);
  if (!d) return CN_ERR_DEVICE;
  to.data = cn_desc_of(c->out[0])->data;
  for (int64_t i = to.ndim, step = 1; i-- > 0; step *= to.shape[i]) to.strides[i] = step;
  return cni_cuda_copy_desc(d, "reshape", &to, cn_desc_of(c->in[0]));
}

/* full(size, fill_value, ...) and full_like(input, fill_value, ...): the value is a number in host memory. */
static int full_kernel(cn_call *c)
{
  const cn_value *v = &c->args[1];
  cn_desc value;
  cni_cuda_device *d = cni_cuda_of(c);
  if (!d) return CN_ERR_DEVICE;
  memset(&value, 0, sizeof value);
  value.data = (void *)&v->u;
  value.numel = 1;
  value.dtype = v->tag == CN_V_FLOAT ? CN_F64 : CN_I64;
  value.device = CN_CPU;
  value.weak = 1;
  return cni_cuda_copy_desc(d, cni_cuda_host->op_name(c->op), cn_desc_of(c->out[0]), &value);
}

static int empty_kernel(cn_call *c)
{
  (void)c;
  return CN_OK;
}

const cn_kernel cni_cuda_pointwise_kernels[] = {
    {"pointwise", "nvrtc", pointwise_kernel},
    {"copy", "nvrtc", copy_kernel},
    {"clone", "nvrtc", copy_kernel},
    {"contiguous_copy", "nvrtc", copy_kernel},
    {"contiguous", "nvrtc", copy_kernel},
    {"reshape", "nvrtc", reshape_kernel},
    {"channels_last", "nvrtc", copy_kernel},
    {"cast", "nvrtc", cast_kernel},
    {"fill", "nvrtc", copy_kernel},
    {"full", "nvrtc", full_kernel},
    {"full_like", "nvrtc", full_kernel},
    {"empty", "none", empty_kernel},
    {"empty_like", "none", empty_kernel},
    {NULL, NULL, NULL},
};
