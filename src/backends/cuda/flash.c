/* flash.c: attention of 16-bit floats by kernels of ours, which draw dropout's numbers themselves.
 *
 * Place in the flow: the last kernels of "sdpa_forward" and "sdpa_backward", behind cuDNN's (attention.c), which draw
 * nothing: attention with dropout comes here, and all of it where cuDNN is not there. Launches of kernels/flash.cu and
 * kernels/flash_grad.cu. Invariant: no memory but 4 bytes a query, whatever the number of keys, and results repeat. */
#include <math.h>
#include <string.h>

#include "plugin.h"

enum { THREADS = 128, TILE = 64, WIDTH_MOST = 128, LENGTH_MOST = INT32_MAX - TILE };

/* As in kernels/flash.cuh. */
typedef struct job {
  const void *q, *k, *v;
  void *out, *lse;
  const void *mask;
  const uint64_t *draws;
  const void *grad;
  void *gq, *gk, *gv;
  float *delta;
  int64_t qs[3], ks[3], vs[3], os[3], gs[3], gqs[3], gks[3], gvs[3], ms[4];
  int64_t rows;
  int32_t heads, share, queries, keys, width, values;
  float scale, natural, rise;
  uint32_t kept;
} job;

/* Rows of 16 bytes that begin at multiples of 16 bytes. */
static bool usable(const cn_desc *d)
{
  bool fits = d->strides[3] == 1 && (uintptr_t)d->data % 16 == 0;
  for (int i = 0; i < 3; i++) fits = fits && (d->shape[i] == 1 || d->strides[i] % 8 == 0);
  return fits;
}

static const char *refusal(const cni_cuda_device *d, const cn_desc *q, const cn_desc *k, const cn_desc *v,
                           const cn_tensor *mask, const cn_tensor *dropped)
{
  if (q->dtype != CN_BF16 && q->dtype != CN_F16) return "not for this type";
  if (d->major < 8) return "not for this device";
  if (dropped) return "dropout that was drawn before";
  if (q->shape[3] % 8 || v->shape[3] % 8 || q->shape[3] > WIDTH_MOST || v->shape[3] > WIDTH_MOST)
    return "widths it does not take";
  if (!q->numel || !k->numel || !v->numel) return "nothing to do";
  if (q->shape[2] > LENGTH_MOST || k->shape[2] > LENGTH_MOST) return "too long";
  return mask && cn_desc_of(mask)->device == CN_CPU ? "a mask of another kind" : NULL;
}

static double number(const cn_value *v) { return v->tag == CN_V_FLOAT ? v->u.f : (double)v->u.i; }

/* What both ways know of a call. scale, p: its arguments. */
static job job_of(const cn_desc *q, const cn_desc *k, const cn_desc *v, const cn_tensor *mask, const cn_tensor *draws,
                  const cn_value *scale, const cn_value *p)
{
  job j = {.rows = q->shape[0] * q->shape[1] * q->shape[2], .heads = (int32_t)q->shape[1],
           .share = (int32_t)(q->shape[1] / k->shape[1]), .queries = (int32_t)q->shape[2],
           .keys = (int32_t)k->shape[2], .width = (int32_t)q->shape[3], .values = (int32_t)v->shape[3], .rise = 1};
  double natural = scale->tag == CN_V_NONE ? 1 / sqrt((double)q->shape[3]) : number(scale);
  j.natural = (float)natural;
  j.scale = (float)(mask ? natural : natural * 1.44269504088896341); /* log2(e) */
  if (draws) {
    double keep = 1 - number(p);
    j.draws = cn_desc_of(draws)->data;
    j.rise = (float)(1 / keep);
    j.kept = (uint32_t)((uint64_t)ceil((double)(float)keep * 0x1p24) * 256 - 1); /* native_dropout's choice */
  }
  if (!mask) return j;
  const cn_desc *m = cn_desc_of(mask);
  j.mask = m->data;
  for (int i = 0; i < 4; i++) {
    int own = i - (4 - m->ndim);
    j.ms[i] = own >= 0 && m->shape[own] != 1 ? m->strides[own] : 0;
  }
  return j;
}

static cni_cuda_code code_of(const char *file, const char *entry, const job *j, int dtype, const cn_tensor *mask,
                             bool causal)
{
  int widest = j->width > j->values ? j->width : j->values;
  return (cni_cuda_code){.file = file, .entry = entry, .types = {dtype, mask ? cn_desc_of(mask)->dtype : dtype},
                         .number = (widest + 15) / 16 * 16, .threads = THREADS,
                         .form = causal | (mask != NULL) << 1 | (j->draws != NULL) << 2 |
                                 (j->draws && j->keys % 4) << 3};
}

/* x, or a copy of it that is usable. */
static int take(cni_cuda_operand *o, cni_cuda_device *d, const char *name, const cn_desc *x, const void **data,
                int64_t *strides)
{
  int status = CN_OK;
  *o = (cni_cuda_operand){.desc = x, .dense = *x, .data = x->data};
  if (!usable(x)) status = cni_cuda_take(o, d, name, x, 0);
  *data = o->data;
  memcpy(strides, o->dense.strides, 3 * sizeof *strides);
  return status;
}

static int64_t tiles_of(int64_t n) { return (n + TILE - 1) / TILE; }

/* Of two tiles for each of two operands, whose rows are a pack apart from one another. */
static size_t tile_bytes(const cni_cuda_code *code) { return (size_t)(2 * 2 * TILE * (code->number + 8)) * 2; }

/* sdpa_forward(query, key, value, attn_mask, dropped, is_causal, scale, dropout_p, draws) -> (output, lse) */
static int forward_kernel(cn_call *c)
{
  const cn_desc *q = cn_desc_of(c->in[0]), *k = cn_desc_of(c->in[1]), *v = cn_desc_of(c->in[2]);
  const cn_desc *out = cn_desc_of(c->out[0]);
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  if (!d) return CN_ERR_DEVICE;
  const char *why = refusal(d, q, k, v, c->in[3], c->in[4]);
  if (!why && !usable(out)) why = "a result it cannot write";
  if (why) return cni_cuda_refuse(c, why);
  job j = job_of(q, k, v, c->in[3], c->in[5], &c->args[6], &c->args[7]);
  j.out = out->data;
  j.lse = cn_desc_of(c->out[1])->data;
  memcpy(j.os, out->strides, sizeof j.os);
  cni_cuda_operand in[3] = {{0}};
  int status = take(&in[0], d, name, q, &j.q, j.qs);
  if (!status) status = take(&in[1], d, name, k, &j.k, j.ks);
  if (!status) status = take(&in[2], d, name, v, &j.v, j.vs);
  cni_cuda_code code = code_of("flash.cu", "flash_forward", &j, q->dtype, c->in[3], c->args[5].u.i != 0);
  cni_cuda_grid grid = {q->shape[0] * q->shape[1] * tiles_of(j.queries), 1, THREADS, tile_bytes(&code)};
  if (!status) status = cni_cuda_run(d, name, &code, grid, &j);
  for (int i = 0; i < 3; i++) cni_cuda_drop(&in[i], d);
  return status;
}

enum { GRAD, QUERY, KEY, VALUE, OUTPUT, INPUTS, LSE = INPUTS, MASK, DROPPED, DRAWS }; /* of sdpa_backward */
enum { CAUSAL = 8, SCALE, DROPOUT };                                                /* its parameters */

/* The three launches. j: all but delta. */
static int run_backward(cn_call *c, cni_cuda_device *d, job *j, int64_t batch, int dtype)
{
  const char *name = cni_cuda_host->op_name(c->op);
  enum { WARPS = THREADS / 32 };
  size_t bytes = (size_t)j->rows * sizeof *j->delta;
  j->delta = cni_cuda_scratch(d, name, bytes);
  if (!j->delta) return CN_ERR_MEMORY;
  cni_cuda_code code = code_of("flash_grad.cu", "flash_delta", j, dtype, c->in[MASK], c->args[CAUSAL].u.i != 0);
  int status = cni_cuda_run(d, name, &code, (cni_cuda_grid){(j->rows + WARPS - 1) / WARPS, 1, THREADS, 0}, j);
  cni_cuda_grid grid = {batch * (j->heads / j->share) * tiles_of(j->keys), 1, THREADS,
                        tile_bytes(&code) + 2 * 2 * TILE * sizeof(float)};
  code.entry = "flash_keys";
  if (!status) status = cni_cuda_run(d, name, &code, grid, j);
  grid = (cni_cuda_grid){batch * j->heads * tiles_of(j->queries), 1, THREADS, tile_bytes(&code)};
  code.entry = "flash_queries";
  if (!status) status = cni_cuda_run(d, name, &code, grid, j);
  cni_cuda_free(d, j->delta, bytes);
  return status;
}

/* sdpa_backward(grad, query, key, value, output, lse, attn_mask, dropped, is_causal, scale, dropout_p, draws)
 * -> (gradients of query, key, value) */
static int backward_kernel(cn_call *c)
{
  const cn_desc *q = cn_desc_of(c->in[QUERY]), *k = cn_desc_of(c->in[KEY]), *v = cn_desc_of(c->in[VALUE]);
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  if (!d) return CN_ERR_DEVICE;
  const char *why = refusal(d, q, k, v, c->in[MASK], c->in[DROPPED]);
  job j = {0};
  for (int i = 0; i < 3 && !why; i++)
    if (!usable(cn_desc_of(c->out[i]))) why = "a result it cannot write";
  if (why) return cni_cuda_refuse(c, why);
  j = job_of(q, k, v, c->in[MASK], c->in[DRAWS], &c->args[SCALE], &c->args[DROPOUT]);
  void **const to[] = {&j.gq, &j.gk, &j.gv};
  int64_t *const to_strides[] = {j.gqs, j.gks, j.gvs};
  for (int i = 0; i < 3; i++) {
    *to[i] = cn_desc_of(c->out[i])->data;
    memcpy(to_strides[i], cn_desc_of(c->out[i])->strides, sizeof j.gqs);
  }
  const void **const from[] = {&j.grad, &j.q, &j.k, &j.v, (const void **)&j.out};
  int64_t *const strides[] = {j.gs, j.qs, j.ks, j.vs, j.os};
  cni_cuda_operand in[INPUTS] = {{0}}, lse = {0};
  int status = cni_cuda_take(&lse, d, name, cn_desc_of(c->in[LSE]), CN_F32);
  for (int i = 0; i < INPUTS && !status; i++)
    status = take(&in[i], d, name, cn_desc_of(c->in[i]), from[i], strides[i]);
  j.lse = lse.data;
  if (!status) status = run_backward(c, d, &j, q->shape[0], q->dtype);
  for (int i = 0; i < INPUTS; i++) cni_cuda_drop(&in[i], d);
  cni_cuda_drop(&lse, d);
  return status;
}

const cn_kernel cni_cuda_flash_kernels[] = {
    {"sdpa_forward", "flash.cu", forward_kernel},
    {"sdpa_backward", "flash.cu", backward_kernel},
    {NULL, NULL, NULL},
};
