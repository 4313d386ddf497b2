/* update.c: updates of optimisers over dense float32 tensors: one loop that loads each element once and keeps what lies
 * between in registers. Everything else goes to the pointwise kernel.
 *
 * Place in the flow: the first kernel of the update ops (ops/update.c). Invariant: the same bits as their programs. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "base/convert.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "ops/infer.h"
#include "pointwise.h"
#include "tensor/tensor.h"
#include "update_loops.h"

enum { GRAIN = 16384, NUMBERS = 8 };

typedef struct job {
  cni_update_loop loop;
  float *out[CNI_MAX_RESULTS];
  const float *in[CNI_UPDATE_FULL];
  float scalar[NUMBERS], attr[CN_MAX_ARGS];
  int nout, full;
} job;

static void run_range(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  float *out[CNI_MAX_RESULTS];
  const float *in[CNI_UPDATE_FULL];
  for (int k = 0; k < j->nout; k++) out[k] = j->out[k] + begin;
  for (int k = 0; k < j->full; k++) in[k] = j->in[k] + begin;
  j->loop(out, in, j->scalar, j->attr, end - begin);
}

static const cni_update_table *table(void) { return CNI_BY_ISA(cni_update_table); }

static cni_update_loop find_loop(const cn_call *c)
{
  const cni_pointwise *pw = c->op->pointwise;
  int variant = pw->variant(c->args);
  size_t n = strcspn(c->op->sig, "(");
  for (const cni_update_entry *e = table()->entries; e->op; e++)
    if (e->variant == variant && !strncmp(e->op, c->op->sig, n) && !e->op[n]) return e->loop;
  return NULL;
}

static bool dense_f32(const cn_desc *d, const cn_desc *first)
{
  return d->dtype == CN_F32 && d->device == CN_CPU && cni_same_layout(d, first);
}

/* Operands into the job; false where one is not of the kind that loops take. */
static bool gather(job *j, const cn_call *c)
{
  const cn_desc *first = cn_desc_of(c->in[0]);
  int numbers = 0;
  j->nout = c->nout;
  j->full = c->nout + 1; /* the gradient is the last of them */
  if (!first->ndim || j->full > CNI_UPDATE_FULL || c->nin - j->full > NUMBERS) return false;
  if (!cni_is_dense(first->ndim, first->shape, first->strides)) return false;
  for (int i = 0; i < c->nin; i++) {
    const cn_desc *d = cn_desc_of(c->in[i]);
    if (i < j->full && !dense_f32(d, first)) return false;
    if (i < j->full) j->in[i] = d->data;
    else if (d->numel == 1 && d->device == CN_CPU) j->scalar[numbers++] = (float)cni_load_f64(d->data, 0, d->dtype);
    else return false;
  }
  for (int i = 0; i < c->nout; i++) {
    const cn_desc *d = cn_desc_of(c->out[i]);
    if (!dense_f32(d, first)) return false;
    j->out[i] = d->data;
  }
  for (int i = c->nin; i < c->nargs; i++)
    j->attr[i] = c->args[i].tag == CN_V_FLOAT ? (float)c->args[i].u.f : (float)c->args[i].u.i;
  return true;
}

static int update_kernel(cn_call *c)
{
  job j;
  if (!gather(&j, c) || !(j.loop = find_loop(c))) return cni_cpu_pointwise(c);
  cni_parallel_for(cn_desc_of(c->in[0])->numel, GRAIN, run_range, &j);
  return CN_OK;
}

/* All of its operands are zero-dimensional. */
static int rates_kernel(cn_call *c)
{
  double in[CNI_INPUTS_adam_rates], out[CNI_RESULTS_adam_rates], attr[CN_MAX_ARGS] = {0};
  for (int i = 0; i < c->nin; i++) {
    const cn_desc *d = cn_desc_of(c->in[i]);
    if (d->numel != 1 || d->device != CN_CPU || c->compute != CN_F64) return cni_cpu_pointwise(c);
    in[i] = cni_load_f64(d->data, 0, d->dtype);
  }
  for (int i = c->nin; i < c->nargs; i++) attr[i] = cni_arg_float(c->args, i);
  table()->rates(out, in, attr);
  for (int i = 0; i < c->nout; i++) {
    const cn_desc *d = cn_desc_of(c->out[i]);
    if (d->dtype == CN_F64) *(double *)d->data = out[i];
    else cni_store_f64(d->data, 0, d->dtype, out[i]);
  }
  return CN_OK;
}

#define ROW(op, variant) {#op, "fused loop", update_kernel},
#define NO_ROW(op, variant)

const cn_kernel cni_cpu_update_kernels[] = {
    CNI_UPDATE_LOOPS(ROW, NO_ROW)
    {"adam_rates", "numbers", rates_kernel},
    {NULL, NULL, NULL},
};
