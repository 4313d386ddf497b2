/* attention.c: attention of 16-bit floats by cuDNN: its patterns of products, a causal mask and a softmax become one
 * kernel each way.
 *
 * Place in the flow: the kernels "sdpa_forward" and "sdpa_backward"; what they refuse (other types, masks, lengths that
 * differ, grouped queries backward) is left to the decompositions, whose products and softmax run here too. Invariant:
 * the layout lives in the strides alone, so (B, H, T, D), (B, T, H, D) and parts of a packed buffer need no copy. */
#include <math.h>
#include <string.h>

#include "dnn.h"

#ifndef CNI_HAVE_CUDNN_H
const cn_kernel cni_cuda_attention_kernels[] = {{NULL, NULL, NULL}};
#else

/* Unique numbers of the tensors that are not virtual. */
enum { Q = 1, K, V, O, STATS, SCALE, LOWEST, GO, GQ, GK, GV, SUM, GQ_SUM, ONE };

/* What a plan is made of; compared as bytes. Strides are those of (B, H, T, D). */
typedef struct key {
  char what[8];
  int32_t dtype, causal, backward, unused;
  int64_t b, h, kh, t, d;
  int64_t q[4], k[4], v[4], o[4], go[4], gq[4], gk[4], gv[4];
} key;

/* ---- tensors ---- */

typedef struct shapes {
  cni_dnn_graph *g;
  const key *k;
  cudnnDataType_t type;
} shapes;

static int heads(const shapes *s, const int64_t *strides, int64_t count, int64_t uid)
{
  const int64_t dims[4] = {s->k->b, count, s->k->t, s->k->d};
  return cni_dnn_tensor(s->g, s->type, 4, dims, strides, uid, CNI_DNN_REAL);
}

/* The same with its last two dims turned. */
static int turned(const shapes *s, const int64_t *strides, int64_t count, int64_t uid)
{
  const int64_t dims[4] = {s->k->b, count, s->k->d, s->k->t};
  const int64_t turn[4] = {strides[0], strides[1], strides[3], strides[2]};
  return cni_dnn_tensor(s->g, s->type, 4, dims, turn, uid, CNI_DNN_REAL);
}

/* (B, H, T, D) of our own, row-major. */
static int dense(const shapes *s, cudnnDataType_t type, int64_t uid)
{
  const key *k = s->k;
  const int64_t dims[4] = {k->b, k->h, k->t, k->d}, strides[4] = {k->h * k->t * k->d, k->t * k->d, k->d, 1};
  return cni_dnn_tensor(s->g, type, 4, dims, strides, uid, uid ? CNI_DNN_REAL : CNI_DNN_VIRTUAL);
}

/* (B, H, T, T), virtual; across: its columns are neighbours in memory. */
static int scores(const shapes *s, cudnnDataType_t type, bool across)
{
  int64_t h = s->k->h, t = s->k->t;
  const int64_t dims[4] = {s->k->b, h, t, t}, strides[4] = {h * t * t, t * t, across ? 1 : t, across ? t : 1};
  return cni_dnn_tensor(s->g, type, 4, dims, strides, 0, CNI_DNN_VIRTUAL);
}

/* (B, H, T, 1) */
static int rows(const shapes *s, int64_t uid)
{
  const int64_t dims[4] = {s->k->b, s->k->h, s->k->t, 1}, strides[4] = {s->k->h * s->k->t, s->k->t, 1, 1};
  return cni_dnn_tensor(s->g, CUDNN_DATA_FLOAT, 4, dims, strides, uid, uid ? CNI_DNN_REAL : CNI_DNN_VIRTUAL);
}

static int number(const shapes *s, int64_t uid)
{
  const int64_t one[4] = {1, 1, 1, 1};
  return cni_dnn_tensor(s->g, CUDNN_DATA_FLOAT, 4, one, one, uid, CNI_DNN_VALUE);
}

/* ---- pieces of both graphs ---- */

static int plain(const shapes *s) { return scores(s, CUDNN_DATA_FLOAT, false); }

static int apply(const shapes *s, cudnnPointwiseMode_t mode, int x, int b)
{
  int y = plain(s);
  cni_dnn_pointwise(s->g, mode, x, b, y, -1, 0);
  return y;
}

/* Scores above the diagonal become the lowest number. */
static int masked(const shapes *s, int x)
{
  int row = scores(s, CUDNN_DATA_INT32, false), column = scores(s, CUDNN_DATA_INT32, false);
  cni_dnn_pointwise(s->g, CUDNN_POINTWISE_GEN_INDEX, x, -1, row, -1, 2);
  cni_dnn_pointwise(s->g, CUDNN_POINTWISE_GEN_INDEX, x, -1, column, -1, 3);
  int keep = scores(s, CUDNN_DATA_BOOLEAN, false), y = plain(s);
  cni_dnn_pointwise(s->g, CUDNN_POINTWISE_CMP_GE, row, column, keep, -1, 0);
  cni_dnn_pointwise(s->g, CUDNN_POINTWISE_BINARY_SELECT, x, number(s, LOWEST), y, keep, 0);
  return y;
}

static int scaled_product(const shapes *s, int q, int k, int scale)
{
  int x = plain(s);
  cni_dnn_matmul(s->g, q, k, x);
  return apply(s, CUDNN_POINTWISE_MUL, x, scale);
}

static void describe_forward(const shapes *s)
{
  const key *k = s->k;
  int q = heads(s, k->q, k->h, Q), kt = turned(s, k->k, k->kh, K), v = heads(s, k->v, k->kh, V);
  int x = scaled_product(s, q, kt, number(s, SCALE));
  if (k->causal) x = masked(s, x);
  int most = rows(s, 0);
  cni_dnn_reduce(s->g, CUDNN_REDUCE_TENSOR_MAX, x, most);
  int e = apply(s, CUDNN_POINTWISE_EXP, apply(s, CUDNN_POINTWISE_SUB, x, most), -1), sum = rows(s, 0), log = rows(s, 0);
  cni_dnn_reduce(s->g, CUDNN_REDUCE_TENSOR_ADD, e, sum);
  cni_dnn_pointwise(s->g, CUDNN_POINTWISE_LOG, sum, -1, log, -1, 0);
  cni_dnn_pointwise(s->g, CUDNN_POINTWISE_ADD, most, log, rows(s, STATS), -1, 0);
  int p = scores(s, s->type, false);
  cni_dnn_pointwise(s->g, CUDNN_POINTWISE_DIV, e, sum, p, -1, 0);
  cni_dnn_matmul(s->g, p, v, heads(s, k->o, k->h, O));
}

static int turned_scores(const shapes *s, int x)
{
  int y = scores(s, s->type, true);
  cni_dnn_reshape(s->g, x, y);
  return y;
}

static void describe_backward(const shapes *s)
{
  const key *k = s->k;
  int q = heads(s, k->q, k->h, Q), kt = turned(s, k->k, k->h, K), vt = turned(s, k->v, k->h, V);
  int o = heads(s, k->o, k->h, O), go = heads(s, k->go, k->h, GO), scale = number(s, SCALE);
  int product = dense(s, CUDNN_DATA_FLOAT, 0), sum = rows(s, 0), kept = rows(s, SUM);
  cni_dnn_pointwise(s->g, CUDNN_POINTWISE_MUL, go, o, product, -1, 0);
  cni_dnn_reduce(s->g, CUDNN_REDUCE_TENSOR_ADD, product, sum);
  cni_dnn_pointwise(s->g, CUDNN_POINTWISE_MUL, sum, number(s, ONE), kept, -1, 0);
  int x = apply(s, CUDNN_POINTWISE_SUB, scaled_product(s, q, kt, scale), rows(s, STATS));
  if (k->causal) x = masked(s, x);
  int e = apply(s, CUDNN_POINTWISE_EXP, x, -1);
  cni_dnn_matmul(s->g, turned_scores(s, e), go, heads(s, k->gv, k->h, GV));
  int g = plain(s);
  cni_dnn_matmul(s->g, go, vt, g);
  g = apply(s, CUDNN_POINTWISE_SUB, g, kept);
  g = apply(s, CUDNN_POINTWISE_MUL, apply(s, CUDNN_POINTWISE_MUL, g, e), scale);
  cni_dnn_matmul(s->g, turned_scores(s, g), q, heads(s, k->gk, k->h, GK));
  int keys = dense(s, CUDNN_DATA_FLOAT, 0), gq = dense(s, CUDNN_DATA_FLOAT, GQ_SUM);
  cni_dnn_reshape(s->g, kt, keys);
  cni_dnn_matmul(s->g, g, keys, gq);
  cni_dnn_pointwise(s->g, CUDNN_POINTWISE_IDENTITY, gq, -1, heads(s, k->gq, k->h, GQ), -1, 0);
}

static void describe(cni_dnn_graph *g, const void *payload)
{
  const key *k = payload;
  shapes s = {g, k, k->dtype == CN_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16};
  if (k->backward) describe_backward(&s);
  else describe_forward(&s);
}

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

static bool takes(cn_call *c, const cn_desc *q, const cn_desc *k, const cn_desc *v, const cn_tensor *mask,
                  bool same_heads)
{
  if (!cni_cuda_dnn()) c->refusal = "cuDNN is not there";
  else if (q->dtype != CN_BF16 && q->dtype != CN_F16) c->refusal = "not for this type";
  else if (mask) c->refusal = "masks are left to the decomposition";
  else if (q->shape[2] != k->shape[2]) c->refusal = "lengths differ";
  else if (q->shape[3] != v->shape[3] || q->shape[3] % 8 || q->shape[3] > 256)
    c->refusal = "widths that cuDNN does not take";
  else if (same_heads && q->shape[1] != k->shape[1]) c->refusal = "grouped queries";
  else if (q->numel == 0 || q->shape[2] < 2) c->refusal = "too short";
  else return true;
  return false;
}

static key key_of(const cn_desc *q, const cn_desc *k, bool causal, bool backward)
{
  key made;
  memset(&made, 0, sizeof made);
  memcpy(made.what, "sdpa", 4);
  made.dtype = q->dtype;
  made.causal = causal;
  made.backward = backward;
  made.b = q->shape[0], made.h = q->shape[1], made.kh = k->shape[1], made.t = q->shape[2], made.d = q->shape[3];
  return made;
}

static float scale_of(const cn_value *v, int64_t width)
{
  if (v->tag == CN_V_NONE) return (float)(1 / sqrt((double)width));
  return (float)(v->tag == CN_V_FLOAT ? v->u.f : (double)v->u.i);
}

/* ---- the ops ---- */

/* sdpa_forward(query, key, value, attn_mask, is_causal, scale) -> (output, lse) */
static int forward_kernel(cn_call *c)
{
  const cn_desc *q = cn_desc_of(c->in[0]), *k = cn_desc_of(c->in[1]), *v = cn_desc_of(c->in[2]);
  const cn_desc *o = cn_desc_of(c->out[0]);
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  if (!d) return CN_ERR_DEVICE;
  if (!takes(c, q, k, v, c->in[3], false)) return CN_REFUSED;
  cni_cuda_operand oq, ok = {0}, ov = {0};
  cni_dnn_plan plan;
  key made = key_of(q, k, c->args[4].u.i != 0, false);
  if (!strides_of(o, made.o)) return cni_cuda_refuse(c, "a result that cuDNN cannot write");
  int status = take(&oq, d, name, q, made.q);
  if (!status) status = take(&ok, d, name, k, made.k);
  if (!status) status = take(&ov, d, name, v, made.v);
  if (!status) status = cni_dnn_find(&plan, d, &made, sizeof made, describe, &made);
  if (status == CN_REFUSED) c->refusal = "cuDNN knows no way";
  float scale = scale_of(&c->args[5], q->shape[3]), lowest = -INFINITY;
  const int64_t uids[] = {Q, K, V, O, STATS, SCALE, LOWEST};
  void *const pointers[] = {oq.data, ok.data, ov.data, o->data, cn_desc_of(c->out[1])->data, &scale, &lowest};
  if (!status) status = cni_dnn_run(d, name, &plan, made.causal ? 7 : 6, uids, pointers);
  cni_cuda_drop(&oq, d);
  cni_cuda_drop(&ok, d);
  cni_cuda_drop(&ov, d);
  return status;
}

/* sdpa_backward(grad, query, key, value, output, lse, attn_mask, is_causal, scale) */
static int backward_kernel(cn_call *c)
{
  enum { GRAD, QUERY, KEY, VALUE, OUTPUT, LSE, INPUTS };
  const cn_desc *q = cn_desc_of(c->in[QUERY]), *k = cn_desc_of(c->in[KEY]);
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  if (!d) return CN_ERR_DEVICE;
  if (!takes(c, q, k, cn_desc_of(c->in[VALUE]), c->in[6], true)) return CN_REFUSED;
  key made = key_of(q, k, c->args[7].u.i != 0, true);
  cni_cuda_operand in[INPUTS] = {{0}};
  cni_dnn_plan plan;
  bool fits = strides_of(cn_desc_of(c->out[0]), made.gq) && strides_of(cn_desc_of(c->out[1]), made.gk) &&
              strides_of(cn_desc_of(c->out[2]), made.gv);
  if (!fits) return cni_cuda_refuse(c, "a result that cuDNN cannot write");
  int64_t *strides[] = {made.go, made.q, made.k, made.v, made.o};
  int status = CN_OK;
  for (int i = 0; i < LSE && !status; i++) status = take(&in[i], d, name, cn_desc_of(c->in[i]), strides[i]);
  if (!status) status = cni_cuda_take(&in[LSE], d, name, cn_desc_of(c->in[LSE]), CN_F32);
  if (!status) status = cni_dnn_find(&plan, d, &made, sizeof made, describe, &made);
  if (status == CN_REFUSED) c->refusal = "cuDNN knows no way";
  size_t sum_bytes = (size_t)(made.b * made.h * made.t) * 4, gq_bytes = sum_bytes * (size_t)made.d;
  void *sum = status ? NULL : cni_cuda_scratch(d, name, sum_bytes);
  void *gq = sum ? cni_cuda_scratch(d, name, gq_bytes) : NULL;
  if (!status && !gq) status = CN_ERR_MEMORY;
  float scale = scale_of(&c->args[8], q->shape[3]), lowest = -INFINITY, one = 1;
  const int64_t uids[] = {Q, K, V, O, STATS, GO, GQ, GK, GV, SUM, GQ_SUM, SCALE, ONE, LOWEST};
  void *const pointers[] = {in[QUERY].data, in[KEY].data, in[VALUE].data, in[OUTPUT].data, in[LSE].data, in[GRAD].data,
                            cn_desc_of(c->out[0])->data, cn_desc_of(c->out[1])->data, cn_desc_of(c->out[2])->data,
                            sum, gq, &scale, &one, &lowest};
  if (!status) status = cni_dnn_run(d, name, &plan, made.causal ? 14 : 13, uids, pointers);
  if (sum) cni_cuda_free(d, sum, sum_bytes);
  if (gq) cni_cuda_free(d, gq, gq_bytes);
  for (int i = 0; i < INPUTS; i++) cni_cuda_drop(&in[i], d);
  return status;
}

const cn_kernel cni_cuda_attention_kernels[] = {
    {"sdpa_forward", "cudnn", forward_kernel},
    {"sdpa_backward", "cudnn", backward_kernel},
    {NULL, NULL, NULL},
};
#endif
