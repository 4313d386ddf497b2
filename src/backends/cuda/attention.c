/* attention.c: attention of 16-bit floats by cuDNN, one kernel each way.
 *
 * Place in the flow: the kernels "sdpa_forward" and "sdpa_backward"; what they refuse (other types, gradients of a
 * single query) is left to the decompositions, whose products and softmax run here too. A mask of any type and form
 * becomes numbers that are added to the scores (attention_mask.c); what dropout leaves is a tensor that weights are
 * multiplied by. Invariant: a query that sees no key gives zeros, and so do its gradients. */
#include "attention.h"

#include <math.h>
#include <string.h>

#ifndef CNI_HAVE_CUDNN_H
const cn_kernel cni_cuda_attention_kernels[] = {{NULL, NULL, NULL}};
#else

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

static double number(const cn_value *v) { return v->tag == CN_V_FLOAT ? v->u.f : (double)v->u.i; }

static float scale_of(const cn_value *v, int64_t width)
{
  return (float)(v->tag == CN_V_NONE ? 1 / sqrt((double)width) : number(v));
}

/* ---- the ops ---- */

/* What a plan is run with: tensors by number. */
typedef struct operands {
  int n;
  int64_t uids[CNI_SDPA_TENSORS];
  void *pointers[CNI_SDPA_TENSORS];
} operands;

static void bind(operands *o, int64_t uid, void *pointer)
{
  o->uids[o->n] = uid;
  o->pointers[o->n++] = pointer;
}

/* What is added to the scores, and what weights are multiplied by. */
static void bind_mask(operands *o, cni_attention_mask *m, const cni_attention_form *f)
{
  if (f->mask) bind(o, CNI_SDPA_MASK, m->added);
  if (!f->drops) return;
  bind(o, CNI_SDPA_KEPT, m->dropped);
  bind(o, CNI_SDPA_RISE, &m->rise);
}

static int find(cni_dnn_plan *plan, cn_call *c, cni_cuda_device *d, const cni_attention_form *f)
{
  int status = cni_dnn_find(plan, d, f, sizeof *f, cni_attention_describe);
  if (status == CN_REFUSED) c->refusal = "cuDNN knows no way";
  return status;
}

/* sdpa_forward(query, key, value, attn_mask, dropped, is_causal, scale, dropout_p) -> (output, lse) */
static int forward_kernel(cn_call *c)
{
  const cn_desc *q = cn_desc_of(c->in[0]), *k = cn_desc_of(c->in[1]), *v = cn_desc_of(c->in[2]);
  const cn_desc *out = cn_desc_of(c->out[0]);
  void *lse = cn_desc_of(c->out[1])->data;
  const char *name = cni_cuda_host->op_name(c->op);
  bool causal = c->args[5].u.i != 0;
  cni_cuda_device *d = cni_cuda_of(c);
  if (!d) return CN_ERR_DEVICE;
  if (c->in[5]) return cni_cuda_refuse(c, "draws no numbers");
  if (!takes(c, q, k, v, c->in[3], causal)) return CN_REFUSED;
  cni_cuda_operand in[3] = {{0}};
  cni_dnn_plan plan;
  cni_attention_mask mask = {0};
  cni_attention_form f = form_of(q, k, v, causal, false);
  if (!strides_of(out, f.o)) return cni_cuda_refuse(c, "a result that cuDNN cannot write");
  int64_t *strides[] = {f.q, f.k, f.v};
  int status = CN_OK;
  for (int i = 0; i < 3 && !status; i++) status = take(&in[i], d, name, cn_desc_of(c->in[i]), strides[i]);
  if (!status) status = cni_attention_take_mask(&mask, d, name, c->in[3], &f);
  if (!status) status = cni_attention_take_dropped(&mask, d, name, c->in[4], number(&c->args[7]), &f);
  if (!status) status = find(&plan, c, d, &f);
  float scale = scale_of(&c->args[6], q->shape[3]), hidden = -INFINITY;
  operands o = {0};
  bind(&o, CNI_SDPA_Q, in[0].data);
  bind(&o, CNI_SDPA_K, in[1].data);
  bind(&o, CNI_SDPA_V, in[2].data);
  bind(&o, CNI_SDPA_O, out->data);
  bind(&o, CNI_SDPA_STATS, lse);
  bind(&o, CNI_SDPA_SCALE, &scale);
  if (causal) bind(&o, CNI_SDPA_LOWEST, &hidden);
  bind_mask(&o, &mask, &f);
  if (!status) status = cni_dnn_run(d, name, &plan, &(cni_dnn_operands){o.n, o.uids, o.pointers});
  void *const qkv[] = {in[0].data, in[1].data, in[2].data};
  if (!status) status = cni_attention_mend(&mask, d, name, &f, qkv, scale, out, lse);
  for (int i = 0; i < 3; i++) cni_cuda_drop(&in[i], d);
  cni_attention_drop_mask(&mask, d);
  return status;
}

enum { GRAD, QUERY, KEY, VALUE, OUTPUT, LSE, INPUTS }; /* of sdpa_backward */
enum { MASK = 6, DROPPED, CAUSAL, SCALE, DROPOUT }; /* its parameters behind those */

/* Runs backward's plan: f and its operands are ready, stats too. */
static int run_backward(cn_call *c, cni_cuda_device *d, const cni_attention_form *f, const cni_cuda_operand *in,
                        cni_attention_mask *mask, void *stats)
{
  const char *name = cni_cuda_host->op_name(c->op);
  cni_dnn_plan plan;
  int status = find(&plan, c, d, f);
  if (status) return status;
  size_t sum_bytes = (size_t)(f->b * f->h * f->tq) * 4, gq_bytes = f->fixed ? 0 : sum_bytes * (size_t)f->d;
  void *sum = cni_cuda_scratch(d, name, sum_bytes), *gq = sum && gq_bytes ? cni_cuda_scratch(d, name, gq_bytes) : NULL;
  if (!sum || (gq_bytes && !gq)) status = CN_ERR_MEMORY;
  float scale = scale_of(&c->args[SCALE], f->d), hidden = -INFINITY, share = 1 / mask->rise;
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
  bind(&o, CNI_SDPA_SHARE, &share);
  if (f->causal) bind(&o, CNI_SDPA_LOWEST, &hidden);
  bind_mask(&o, mask, f);
  if (!status) status = cni_dnn_run(d, name, &plan, &(cni_dnn_operands){o.n, o.uids, o.pointers});
  if (sum) cni_cuda_free(d, sum, sum_bytes);
  if (gq) cni_cuda_free(d, gq, gq_bytes);
  return status;
}

/* sdpa_backward(grad, query, key, value, output, lse, attn_mask, dropped, is_causal, scale, dropout_p)
 * -> (gradients of query, key, value) */
static int backward_kernel(cn_call *c)
{
  const cn_desc *q = cn_desc_of(c->in[QUERY]), *k = cn_desc_of(c->in[KEY]), *v = cn_desc_of(c->in[VALUE]);
  const char *name = cni_cuda_host->op_name(c->op);
  bool causal = c->args[CAUSAL].u.i != 0;
  cni_cuda_device *d = cni_cuda_of(c);
  if (!d) return CN_ERR_DEVICE;
  if (c->in[8]) return cni_cuda_refuse(c, "draws no numbers");
  if (!takes(c, q, k, v, c->in[MASK], causal)) return CN_REFUSED;
  cni_attention_form f = form_of(q, k, v, causal, true);
  cni_cuda_operand in[INPUTS] = {{0}};
  cni_attention_mask mask = {0};
  bool fits = strides_of(cn_desc_of(c->out[0]), f.gq) && strides_of(cn_desc_of(c->out[1]), f.gk) &&
              strides_of(cn_desc_of(c->out[2]), f.gv);
  if (!fits) return cni_cuda_refuse(c, "a result that cuDNN cannot write");
  int64_t *strides[] = {f.go, f.q, f.k, f.v, f.o};
  void *stats = NULL;
  int status = CN_OK;
  for (int i = 0; i < LSE && !status; i++) status = take(&in[i], d, name, cn_desc_of(c->in[i]), strides[i]);
  if (!status) status = cni_cuda_take(&in[LSE], d, name, cn_desc_of(c->in[LSE]), CN_F32);
  if (!status) status = cni_attention_take_mask(&mask, d, name, c->in[MASK], &f);
  if (!status) status = cni_attention_take_dropped(&mask, d, name, c->in[DROPPED], number(&c->args[DROPOUT]), &f);
  if (!status) status = cni_attention_take_stats(&stats, &mask, d, name, &f, in[LSE].data);
  if (!status) status = run_backward(c, d, &f, in, &mask, stats);
  if (stats && stats != in[LSE].data) cni_cuda_free(d, stats, (size_t)(f.b * f.h * f.tq) * 4);
  for (int i = 0; i < INPUTS; i++) cni_cuda_drop(&in[i], d);
  cni_attention_drop_mask(&mask, d);
  return status;
}

const cn_kernel cni_cuda_attention_kernels[] = {
    {"sdpa_forward", "cudnn", forward_kernel},
    {"sdpa_backward", "cudnn", backward_kernel},
    {NULL, NULL, NULL},
};
#endif
