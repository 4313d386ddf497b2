/* attention.c: attention of 16-bit floats by cuDNN, one kernel each way.
 *
 * Place in the flow: the kernels "sdpa_forward" and "sdpa_backward"; what they refuse (other types, a single query) is
 * left to the decompositions, whose products and softmax run here too. A mask of any type and form becomes numbers
 * that are added to the scores (kernels/mask.cu), copied once however many heads and queries share it. Invariant: a
 * query that sees no key gives zeros, and so do its gradients. */
#include "attention.h"

#include <math.h>
#include <string.h>

#ifndef CNI_HAVE_CUDNN_H
const cn_kernel cni_cuda_attention_kernels[] = {{NULL, NULL, NULL}};
#else

enum {
  MASK_WIDTH = 8,       /* as WIDTH in kernels/mask.cu */
  LARGE_MASK = 1 << 22, /* elements: to copy them would take longer than a launch */
};
/* The least number a mask adds: a score and it, and what kernels multiply them by, stay finite. */
static const float lowest = -0x1p126f;

/* ---- operands ---- */

/* Rows of 16 bytes that begin at multiples of 16 bytes: what cuDNN reads. */
static bool usable(const cn_desc *d)
{
  bool fits = d->strides[3] == 1 && (uintptr_t)d->data % 16 == 0;
  for (int i = 0; i < 3; i++) fits = fits && d->strides[i] % 8 == 0 && d->strides[i] > 0;
  return fits;
}

static int take(cni_cuda_operand *o, cni_cuda_device *d, const char *name, const cn_desc *t, int64_t *strides)
{
  int status = CN_OK;
  memset(o, 0, sizeof *o);
  o->desc = t;
  o->dense = *t;
  o->data = t->data;
  if (!usable(t)) status = cni_cuda_take(o, d, name, t, 0);
  memcpy(strides, o->dense.strides, 4 * sizeof *strides);
  return status;
}

/* Results are dense in one order or another: cuDNN writes them where they are. */
static bool strides_of(const cn_desc *t, int64_t *strides)
{
  memcpy(strides, t->strides, 4 * sizeof *strides);
  return usable(t);
}

static bool width_fits(int64_t width) { return width % 8 == 0 && width > 0 && width <= 256; }

static bool takes(cn_call *c, const cn_desc *q, const cn_desc *k, const cn_desc *v, const cn_tensor *mask, bool causal)
{
  const cn_desc *m = mask ? cn_desc_of(mask) : NULL;
  if (!cni_cuda_dnn()) c->refusal = "cuDNN is not there";
  else if (q->dtype != CN_BF16 && q->dtype != CN_F16) c->refusal = "not for this type";
  else if (m && (causal || m->device == CN_CPU)) c->refusal = "a mask of another kind";
  else if (!width_fits(q->shape[3]) || !width_fits(v->shape[3])) c->refusal = "widths that cuDNN does not take";
  else if (q->numel == 0 || q->shape[2] < 2 || k->shape[2] < 2) c->refusal = "too short";
  else return true;
  return false;
}

static cni_attention_form form_of(const cn_desc *q, const cn_desc *k, const cn_desc *v, bool causal, bool backward)
{
  cni_attention_form made;
  memset(&made, 0, sizeof made);
  memcpy(made.what, "sdpa", 4);
  made.dtype = q->dtype;
  made.causal = causal;
  made.backward = backward;
  made.fixed = backward && cni_cuda_repeats();
  made.b = q->shape[0], made.h = q->shape[1], made.tq = q->shape[2], made.d = q->shape[3];
  made.kh = k->shape[1], made.tk = k->shape[2], made.dv = v->shape[3];
  return made;
}

static float scale_of(const cn_value *v, int64_t width)
{
  if (v->tag == CN_V_NONE) return (float)(1 / sqrt((double)width));
  return (float)(v->tag == CN_V_FLOAT ? v->u.f : (double)v->u.i);
}

/* ---- masks ---- */

/* A mask, and what is added to the scores for it. */
typedef struct masking {
  const cn_desc *mask; /* NULL: there is none */
  int64_t strides[4];  /* over (B, H, Tq, Tk), 0 where it is broadcast */
  void *added;         /* what is added: the mask itself, or ... */
  void *bias;          /* ... memory of ours */
  size_t bytes;
} masking;

/* As in kernels/mask.cu. */
typedef struct bias_job {
  const void *mask;
  void *bias;
  int64_t heads, queries, packs, all, keys, strides[4];
  float lowest;
} bias_job;
typedef struct hidden_job {
  const void *mask;
  void *lse, *out;
  int64_t rows, heads, queries, keys, width, strides[4], step[3];
  float lowest;
} hidden_job;
typedef struct stats_job {
  const void *lse;
  void *stats;
  int64_t n;
  float highest;
} stats_job;

/* Large masks of numbers are added as they lie, where cuDNN can read them so: it takes infinities, too. A row whose
 * numbers are all near a type's least then counts as hidden, as it does in PyTorch. */
static bool as_it_lies(const masking *m, const int64_t *size, cni_attention_form *f)
{
  const cn_desc *given = m->mask;
  bool fits = given->dtype != CN_BOOL && given->numel >= LARGE_MASK && f->tk % MASK_WIDTH == 0 && m->strides[3] == 1 &&
              (uintptr_t)given->data % 16 == 0;
  for (int i = 0; i < 3; i++) fits = fits && m->strides[i] >= 0 && m->strides[i] % MASK_WIDTH == 0;
  if (!fits) return false;
  f->mask = given->dtype;
  memcpy(f->m, m->strides, sizeof f->m);
  if (size[0] == 1) f->m[0] = size[1] * size[2] * f->tk;
  if (size[1] == 1) f->m[1] = size[2] * f->tk;
  return true;
}

/* Makes the bias, with as many batches, heads and rows as the mask has, its rows a multiple of 16 bytes apart. */
static int take_mask(masking *m, cni_cuda_device *d, const char *name, const cn_tensor *mask, cni_attention_form *f)
{
  memset(m, 0, sizeof *m);
  if (!mask) return CN_OK;
  const cn_desc *given = m->mask = cn_desc_of(mask);
  int64_t size[4];
  for (int i = 0; i < 4; i++) {
    int k = i - (4 - given->ndim);
    bool own = k >= 0 && given->shape[k] != 1;
    size[i] = own ? given->shape[k] : 1;
    m->strides[i] = own ? given->strides[k] : 0;
  }
  f->mb = size[0], f->mh = size[1];
  if (as_it_lies(m, size, f)) {
    m->added = given->data;
    return CN_OK;
  }
  f->mask = given->dtype == CN_BOOL || given->dtype == CN_BF16 ? CN_BF16 : CN_F32; /* float16 has no such lowest */
  const int64_t packs = (f->tk + MASK_WIDTH - 1) / MASK_WIDTH, room = packs * MASK_WIDTH;
  const int64_t strides[4] = {size[1] * size[2] * room, size[2] * room, size[2] > 1 ? room : 0, 1};
  memcpy(f->m, strides, sizeof strides);
  m->bytes = cn_element_bytes(f->mask, size[0] * strides[0]);
  m->added = m->bias = cni_cuda_scratch(d, name, m->bytes);
  if (!m->bias) return CN_ERR_MEMORY;
  bias_job job = {.mask = given->data, .bias = m->bias, .heads = size[1], .queries = size[2], .packs = packs};
  job.all = size[0] * size[1] * size[2] * packs;
  job.keys = f->tk;
  job.lowest = lowest;
  memcpy(job.strides, m->strides, sizeof job.strides);
  cni_cuda_code code = {.file = "mask.cu", .entry = "mask_bias", .types = {given->dtype, f->mask}};
  return cni_cuda_run(d, name, &code, cni_cuda_grid_for(d, job.all), &job);
}

/* After forward: zeros for queries that see no key. */
static int clear_hidden(const masking *m, cni_cuda_device *d, const char *name, const cni_attention_form *f,
                        const cn_desc *out, void *lse)
{
  if (!m->mask) return CN_OK;
  hidden_job job = {.mask = m->mask->data,
                    .lse = lse,
                    .out = out->data,
                    .rows = f->b * f->h * f->tq,
                    .heads = f->h,
                    .queries = f->tq,
                    .keys = f->tk,
                    .width = f->dv,
                    .lowest = lowest};
  memcpy(job.strides, m->strides, sizeof job.strides);
  memcpy(job.step, f->o, sizeof job.step);
  cni_cuda_code code = {.file = "mask.cu", .entry = "hidden_rows", .types = {m->mask->dtype, f->mask}};
  return cni_cuda_run(d, name, &code, cni_cuda_grid_for(d, job.rows), &job);
}

/* Before backward: what is subtracted from the scores; *stats is ours (4 bytes a query), or lse. */
static int take_stats(void **stats, const masking *m, cni_cuda_device *d, const char *name, const cni_attention_form *f,
                      void *lse)
{
  stats_job job = {lse, NULL, f->b * f->h * f->tq, -lowest};
  *stats = lse;
  if (!m->mask) return CN_OK;
  *stats = job.stats = cni_cuda_scratch(d, name, (size_t)job.n * 4);
  if (!job.stats) return CN_ERR_MEMORY;
  cni_cuda_code code = {.file = "mask.cu", .entry = "mask_stats", .types = {m->mask->dtype, f->mask}};
  return cni_cuda_run(d, name, &code, cni_cuda_grid_for(d, job.n), &job);
}

static void drop_mask(masking *m, cni_cuda_device *d)
{
  if (m->bias) cni_cuda_free(d, m->bias, m->bytes);
}

/* ---- the ops ---- */

/* What a plan is run with: tensors by number. */
typedef struct operands {
  int n;
  int64_t uids[16];
  void *pointers[16];
} operands;

static void bind(operands *o, int64_t uid, void *pointer)
{
  o->uids[o->n] = uid;
  o->pointers[o->n++] = pointer;
}

static int find(cni_dnn_plan *plan, cn_call *c, cni_cuda_device *d, const cni_attention_form *f)
{
  int status = cni_dnn_find(plan, d, f, sizeof *f, cni_attention_describe);
  if (status == CN_REFUSED) c->refusal = "cuDNN knows no way";
  return status;
}

/* sdpa_forward(query, key, value, attn_mask, is_causal, scale) -> (output, lse) */
static int forward_kernel(cn_call *c)
{
  const cn_desc *q = cn_desc_of(c->in[0]), *k = cn_desc_of(c->in[1]), *v = cn_desc_of(c->in[2]);
  const cn_desc *out = cn_desc_of(c->out[0]);
  void *lse = cn_desc_of(c->out[1])->data;
  const char *name = cni_cuda_host->op_name(c->op);
  bool causal = c->args[4].u.i != 0;
  cni_cuda_device *d = cni_cuda_of(c);
  if (!d) return CN_ERR_DEVICE;
  if (!takes(c, q, k, v, c->in[3], causal)) return CN_REFUSED;
  cni_cuda_operand in[3] = {{0}};
  cni_dnn_plan plan;
  masking mask = {0};
  cni_attention_form f = form_of(q, k, v, causal, false);
  if (!strides_of(out, f.o)) return cni_cuda_refuse(c, "a result that cuDNN cannot write");
  int64_t *strides[] = {f.q, f.k, f.v};
  int status = CN_OK;
  for (int i = 0; i < 3 && !status; i++) status = take(&in[i], d, name, cn_desc_of(c->in[i]), strides[i]);
  if (!status) status = take_mask(&mask, d, name, c->in[3], &f);
  if (!status) status = find(&plan, c, d, &f);
  float scale = scale_of(&c->args[5], q->shape[3]), hidden = -INFINITY;
  operands o = {0};
  bind(&o, CNI_SDPA_Q, in[0].data);
  bind(&o, CNI_SDPA_K, in[1].data);
  bind(&o, CNI_SDPA_V, in[2].data);
  bind(&o, CNI_SDPA_O, out->data);
  bind(&o, CNI_SDPA_STATS, lse);
  bind(&o, CNI_SDPA_SCALE, &scale);
  if (causal) bind(&o, CNI_SDPA_LOWEST, &hidden);
  if (mask.mask) bind(&o, CNI_SDPA_MASK, mask.added);
  if (!status) status = cni_dnn_run(d, name, &plan, &(cni_dnn_operands){o.n, o.uids, o.pointers});
  if (!status) status = clear_hidden(&mask, d, name, &f, out, lse);
  for (int i = 0; i < 3; i++) cni_cuda_drop(&in[i], d);
  drop_mask(&mask, d);
  return status;
}

enum { GRAD, QUERY, KEY, VALUE, OUTPUT, LSE, INPUTS }; /* of sdpa_backward */

/* Runs backward's plan: f and its operands are ready, stats too. */
static int run_backward(cn_call *c, cni_cuda_device *d, const cni_attention_form *f, const cni_cuda_operand *in,
                        void *bias, void *stats)
{
  const char *name = cni_cuda_host->op_name(c->op);
  cni_dnn_plan plan;
  int status = find(&plan, c, d, f);
  if (status) return status;
  size_t sum_bytes = (size_t)(f->b * f->h * f->tq) * 4, gq_bytes = f->fixed ? 0 : sum_bytes * (size_t)f->d;
  void *sum = cni_cuda_scratch(d, name, sum_bytes), *gq = sum && gq_bytes ? cni_cuda_scratch(d, name, gq_bytes) : NULL;
  if (!sum || (gq_bytes && !gq)) status = CN_ERR_MEMORY;
  float scale = scale_of(&c->args[8], f->d), hidden = -INFINITY, one = 1;
  operands o = {0};
  bind(&o, CNI_SDPA_Q, in[QUERY].data);
  bind(&o, CNI_SDPA_K, in[KEY].data);
  bind(&o, CNI_SDPA_V, in[VALUE].data);
  bind(&o, CNI_SDPA_O, in[OUTPUT].data);
  bind(&o, CNI_SDPA_STATS, stats);
  bind(&o, CNI_SDPA_GO, in[GRAD].data);
  for (int i = 0; i < 3; i++) bind(&o, CNI_SDPA_GQ + i, cn_desc_of(c->out[i])->data);
  bind(&o, CNI_SDPA_SUM, sum);
  if (gq) bind(&o, CNI_SDPA_GQ_SUM, gq);
  bind(&o, CNI_SDPA_SCALE, &scale);
  bind(&o, CNI_SDPA_ONE, &one);
  if (f->causal) bind(&o, CNI_SDPA_LOWEST, &hidden);
  if (bias) bind(&o, CNI_SDPA_MASK, bias);
  if (!status) status = cni_dnn_run(d, name, &plan, &(cni_dnn_operands){o.n, o.uids, o.pointers});
  if (sum) cni_cuda_free(d, sum, sum_bytes);
  if (gq) cni_cuda_free(d, gq, gq_bytes);
  return status;
}

/* sdpa_backward(grad, query, key, value, output, lse, attn_mask, is_causal, scale) */
static int backward_kernel(cn_call *c)
{
  const cn_desc *q = cn_desc_of(c->in[QUERY]), *k = cn_desc_of(c->in[KEY]), *v = cn_desc_of(c->in[VALUE]);
  const char *name = cni_cuda_host->op_name(c->op);
  bool causal = c->args[7].u.i != 0;
  cni_cuda_device *d = cni_cuda_of(c);
  if (!d) return CN_ERR_DEVICE;
  if (!takes(c, q, k, v, c->in[6], causal)) return CN_REFUSED;
  cni_attention_form f = form_of(q, k, v, causal, true);
  cni_cuda_operand in[INPUTS] = {{0}};
  masking mask = {0};
  bool fits = strides_of(cn_desc_of(c->out[0]), f.gq) && strides_of(cn_desc_of(c->out[1]), f.gk) &&
              strides_of(cn_desc_of(c->out[2]), f.gv);
  if (!fits) return cni_cuda_refuse(c, "a result that cuDNN cannot write");
  int64_t *strides[] = {f.go, f.q, f.k, f.v, f.o};
  void *stats = NULL;
  int status = CN_OK;
  for (int i = 0; i < LSE && !status; i++) status = take(&in[i], d, name, cn_desc_of(c->in[i]), strides[i]);
  if (!status) status = cni_cuda_take(&in[LSE], d, name, cn_desc_of(c->in[LSE]), CN_F32);
  if (!status) status = take_mask(&mask, d, name, c->in[6], &f);
  if (!status) status = take_stats(&stats, &mask, d, name, &f, in[LSE].data);
  if (!status) status = run_backward(c, d, &f, in, mask.added, stats);
  if (stats && stats != in[LSE].data) cni_cuda_free(d, stats, (size_t)(f.b * f.h * f.tq) * 4);
  for (int i = 0; i < INPUTS; i++) cni_cuda_drop(&in[i], d);
  drop_mask(&mask, d);
  return status;
}

const cn_kernel cni_cuda_attention_kernels[] = {
    {"sdpa_forward", "cudnn", forward_kernel},
    {"sdpa_backward", "cudnn", backward_kernel},
    {NULL, NULL, NULL},
};
#endif
