/* softmax.c: softmax, log_softmax, their gradients and logsumexp along one dim on the CPU.
 *
 * Place in the flow: kernels of ops/softmax.c; loops in softmax_isa.c, sums of gradients from reduce_isa.c. Lines that
 * lie in a row are taken row by row here; lines side by side go to softmax_columns.c, very long ones to softmax_long.c;
 * what is strided or of a small float type goes through a buffer. Invariant: a line's result does not depend on how
 * lines are split among threads. */
#include "softmax.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/walk/nontemporal.h"
#include "backends/cpu/walk/rows.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "ops/infer.h"

typedef cni_softmax_job job;

enum {
  STACK = 512,
  NONTEMPORAL_ROW = 32768, /* bytes */
  AHEAD = 32768            /* bytes of the next row that are asked for while one is worked on */
};

static const cni_softmax_table *table(void) { return CNI_BY_ISA(cni_softmax_table); }

/* ---- one line in a row ---- */

static double row_sum(const job *j, const void *x, int64_t n)
{
  cni_wide w;
  j->sum->rows(&w, x, 1, 0, n);
  return w.f;
}

/* log(sum(exp(x))) without overflow; of nothing, -inf. */
static double row_logsumexp(const job *j, const void *x, int64_t n, const void *ahead)
{
  double max = j->s->max_row(x, n), most = j->tsize == 4 ? (double)FLT_MAX : DBL_MAX;
  max = max > most ? most : max < -most ? -most : max; /* the infinity comes out of the sum, or of its logarithm */
  return max + log(j->s->exp_row(NULL, x, n, max, ahead));
}

/* y, a and b: n elements of the compute type; logsumexp writes one. `room` is y, or where a row of results that go past
 * the caches is made. `ahead` is the next row. */
static void run_row(const job *j, void *y, void *room, const void *a, const void *b, int64_t n, const void *ahead)
{
  bool nontemporal = room != y;
  double max;
  switch (j->kind) {
  case CNI_SOFTMAX:
    max = j->s->exp_row(room, a, n, j->s->max_row(a, n), ahead); /* the sum */
    j->s->scale_row(y, room, n, 1 / max, nontemporal); /* by the reciprocal: a last bit against ten cycles */
    return;
  case CNI_LOG_SOFTMAX:
    max = j->s->max_row(a, n);
    j->s->shift_row(room, a, n, max, log(j->s->exp_row(NULL, a, n, max, ahead)));
    break;
  case CNI_SOFTMAX_GRAD: j->s->grad_row(room, a, b, n, j->s->dot(a, b, n)); break;
  case CNI_LOG_SOFTMAX_GRAD: j->s->log_grad_row(room, a, b, n, row_sum(j, a, n)); break;
  case CNI_LOGSUMEXP:
    if (j->tsize == 4) *(float *)y = (float)row_logsumexp(j, a, n, ahead);
    else *(double *)y = row_logsumexp(j, a, n, ahead);
    return;
  }
  if (nontemporal) cni_nontemporal_copy(y, room, (size_t)(n * j->tsize));
}

static void rows(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  const cni_lines *l = &j->l;
  cni_walk w;
  cni_walk_to(&w, l->nk, l->ksize, l->kin, l->kout, begin);
  bool packed = l->nk <= 1 && (l->nk == 0 || (l->kin[0] == l->n && l->kout[0] == l->n));
  if (packed && l->n <= CNI_SOFTMAX_SHORT && j->kind <= CNI_LOG_SOFTMAX) {
    j->s->short_rows(j->y + w.out * j->size, j->a + w.in * j->size, end - begin, l->n,
                     j->kind == CNI_LOG_SOFTMAX);
    return;
  }
  _Alignas(64) char room[NONTEMPORAL_ROW];
  bool nontemporal = j->nontemporal && l->n * j->tsize <= NONTEMPORAL_ROW;
  for (int64_t i = begin; i < end; i++) {
    const char *a = j->a + w.in * j->size, *b = j->b + w.in * j->size, *ahead = a;
    char *y = j->y + w.out * j->size;
    cni_walk_step(&w, l->nk, l->ksize, l->kin, l->kout);
    if (i + 1 < end && l->n * j->tsize <= AHEAD) ahead = j->a + w.in * j->size;
    run_row(j, y, nontemporal ? room : y, a, b, l->n, ahead);
  }
  if (nontemporal) cni_nontemporal_end();
}

/* ---- any line, through buffers of the compute type ---- */

static void load_line(const job *j, void *to, const char *from, void *raw)
{
  bool strided = j->l.xstep != 1;
  if (strided) {
    cni_row_gather(j->load ? raw : to, from, j->l.xstep * j->size, (size_t)j->size, j->l.n);
    from = raw;
  }
  if (j->load) j->load(to, from, (size_t)j->l.n);
  else if (!strided) memcpy(to, from, (size_t)(j->l.n * j->size));
}

static void store_line(const job *j, char *to, const void *from, void *raw)
{
  int64_t n = j->kind == CNI_LOGSUMEXP ? 1 : j->l.n;
  if (j->store && (j->l.ystep == 1 || n == 1)) {
    j->store(to, from, (size_t)n);
    return;
  }
  if (j->store) j->store(raw, from, (size_t)n);
  cni_row_copy(to, j->l.ystep * j->size, j->store ? raw : from, j->size, (size_t)j->size, n);
}

static void lines(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  const cni_lines *l = &j->l;
  _Alignas(64) char stack[4 * STACK * 8];
  cni_walk w;
  size_t size = 4 * (size_t)(l->n ? l->n : 1) * 8;
  char *room = size <= sizeof stack ? stack : cni_scratch_alloc(size), *a = room, *b = a + size / 4,
       *y = b + size / 4;
  if (!room) return; /* the error is set, and reaches the caller */
  cni_walk_to(&w, l->nk, l->ksize, l->kin, l->kout, begin);
  for (int64_t i = begin; i < end; i++) {
    load_line(j, a, j->a + w.in * j->size, y + size / 4);
    if (j->b != j->a) load_line(j, b, j->b + w.in * j->size, y + size / 4);
    run_row(j, y, y, a, j->b != j->a ? b : a, l->n, a);
    store_line(j, j->y + w.out * j->size, y, y + size / 4);
    cni_walk_step(&w, l->nk, l->ksize, l->kin, l->kout);
  }
  if (room != stack) cni_scratch_free(room, size);
}

/* ---- kernels ---- */

static void run(job *j)
{
  const cni_lines *l = &j->l;
  int64_t grain = l->n < CNI_SOFTMAX_GRAIN ? CNI_SOFTMAX_GRAIN / (l->n ? l->n : 1) : 1;
  if (l->count == 0) return;
  bool forward = j->kind != CNI_SOFTMAX_GRAD && j->kind != CNI_LOG_SOFTMAX_GRAD;
  bool row = !j->load && l->xstep == 1 && (l->ystep == 1 || j->kind == CNI_LOGSUMEXP);
  if (!(row && l->n > 1) && cni_softmax_columns(j)) return;
  if (forward && l->n >= CNI_SOFTMAX_LONG) cni_softmax_long(j);
  else cni_parallel_for(l->count, grain, row ? rows : lines, j);
}

static int start(job *j, enum cni_softmax_kind kind, const cn_desc *a, const cn_desc *b, const cn_desc *y, int dim)
{
  enum cni_compute class = cni_compute_class(y->dtype);
  int compute = cni_compute_dtype(class);
  j->kind = kind;
  j->s = &table()->loops[class];
  j->sum = &cni_reduce_now()->loops[class][CNI_REDUCE_SUM];
  j->a = a->data;
  j->b = b->data;
  j->y = y->data;
  j->size = (int64_t)cni_dtype_size(y->dtype);
  j->tsize = (int64_t)cni_dtype_size(compute);
  j->load = y->dtype == compute ? NULL : cni_cast_find(y->dtype, compute);
  j->store = y->dtype == compute ? NULL : cni_cast_find(compute, y->dtype);
  cni_lines_make(&j->l, a, y, dim);
  int64_t bytes = y->numel * j->size * (a == b ? 2 : 3);
  j->nontemporal = kind != CNI_LOGSUMEXP && cni_nontemporal_pays(bytes);
  if (y->numel) run(j);
  return cn_err();
}

static int can_forward(const cn_call *c, cn_plan *plan)
{
  plan->refusal = "the input is of another type than the result";
  return cn_desc_of(c->in[0])->dtype == cn_desc_of(c->out[0])->dtype ? CN_OK : CN_REFUSED;
}

/* softmax(input, dim, dtype) */
static int forward(cn_call *c, enum cni_softmax_kind kind)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]);
  job j;
  return start(&j, kind, x, x, y, cn_call_dim(c, c->args[1].u.i, x->ndim));
}

static bool same_layout(const cn_desc *a, const cn_desc *b)
{
  if (a->ndim != b->ndim || a->dtype != b->dtype) return false;
  for (int i = 0; i < a->ndim; i++)
    if (a->shape[i] != b->shape[i] || (a->strides[i] != b->strides[i] && a->shape[i] != 1)) return false;
  return true;
}

static int can_backward(const cn_call *c, cn_plan *plan)
{
  const cn_desc *g = cn_desc_of(c->in[0]);
  plan->refusal = "gradient and result differ in type or layout";
  return same_layout(g, cn_desc_of(c->in[1])) && g->dtype == cn_desc_of(c->out[0])->dtype ? CN_OK : CN_REFUSED;
}

/* softmax_backward(grad, output, dim) */
static int backward(cn_call *c, enum cni_softmax_kind kind)
{
  const cn_desc *g = cn_desc_of(c->in[0]), *p = cn_desc_of(c->in[1]), *y = cn_desc_of(c->out[0]);
  job j;
  return start(&j, kind, g, p, y, cn_call_dim(c, c->args[2].u.i, g->ndim));
}

static int softmax_kernel(cn_call *c) { return forward(c, CNI_SOFTMAX); }
static int log_softmax_kernel(cn_call *c) { return forward(c, CNI_LOG_SOFTMAX); }
static int softmax_backward_kernel(cn_call *c) { return backward(c, CNI_SOFTMAX_GRAD); }
static int log_softmax_backward_kernel(cn_call *c) { return backward(c, CNI_LOG_SOFTMAX_GRAD); }

/* The dim of logsumexp(input, dim, keepdim); -1: several. */
static int logsumexp_dim(const cn_call *c)
{
  uint32_t mask;
  bool one = !cni_dims_mask(c, &c->args[1], cn_desc_of(c->in[0])->ndim, &mask) && mask && !(mask & (mask - 1));
  return one ? __builtin_ctz(mask) : -1;
}

static int can_logsumexp(const cn_call *c, cn_plan *plan)
{
  plan->refusal = "several dims, or a cast";
  return cn_desc_of(c->in[0])->dtype == cn_desc_of(c->out[0])->dtype && logsumexp_dim(c) >= 0 ? CN_OK : CN_REFUSED;
}

static int logsumexp_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *out = cn_desc_of(c->out[0]);
  job j;
  cn_desc y = *out; /* as with keepdim */
  int dim = logsumexp_dim(c);
  y.ndim = x->ndim;
  int64_t stride = 1;
  for (int i = x->ndim - 1; i >= 0; i--) {
    y.shape[i] = i == dim ? 1 : x->shape[i];
    y.strides[i] = stride;
    stride *= y.shape[i];
  }
  return start(&j, CNI_LOGSUMEXP, x, x, &y, dim);
}

const cn_kernel cni_cpu_softmax_kernels[] = {
    {"softmax", "vector loops", softmax_kernel, can_forward},
    {"log_softmax", "vector loops", log_softmax_kernel, can_forward},
    {"softmax_backward", "vector loops", softmax_backward_kernel, can_backward},
    {"log_softmax_backward", "vector loops", log_softmax_backward_kernel, can_backward},
    {"logsumexp", "vector loops", logsumexp_kernel, can_logsumexp},
    {NULL, NULL, NULL},
};
