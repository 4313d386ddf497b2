/* attention_graph.c: attention as cuDNN's patterns of products, a mask and a softmax, which become one kernel each way.
 *
 * Place in the flow: see attention.h. Invariants: the layout lives in the strides alone, so (B, H, T, D), (B, T, H, D)
 * and parts of a packed buffer need no copy; a mask that has one row for all queries is declared with all of them and a
 * stride of 0, because with one row cuDNN 9.19 returns wrong gradients and no error. */
#include "attention.h"

#ifdef CNI_HAVE_CUDNN_H

typedef struct shapes {
  cni_dnn_graph *g;
  const cni_attention_form *k;
  cudnnDataType_t type;
} shapes;

static cudnnDataType_t type_of(int dtype)
{
  return dtype == CN_F16    ? CUDNN_DATA_HALF
         : dtype == CN_BF16 ? CUDNN_DATA_BFLOAT16
                            : CUDNN_DATA_FLOAT;
}

/* ---- tensors ---- */

/* (B, heads, length, width) with these strides */
static int heads(const shapes *s, const int64_t *strides, int64_t count, int64_t length, int64_t width, int64_t uid)
{
  const int64_t dims[4] = {s->k->b, count, length, width};
  return cni_dnn_tensor(s->g, s->type, 4, dims, strides, uid, CNI_DNN_REAL);
}

/* The same with its last two dims turned. */
static int turned(const shapes *s, const int64_t *strides, int64_t count, int64_t length, int64_t width, int64_t uid)
{
  const int64_t dims[4] = {s->k->b, count, width, length};
  const int64_t turn[4] = {strides[0], strides[1], strides[3], strides[2]};
  return cni_dnn_tensor(s->g, s->type, 4, dims, turn, uid, CNI_DNN_REAL);
}

/* (B, heads, length, width) of our own, row-major. */
static int dense(const shapes *s, cudnnDataType_t type, int64_t count, int64_t length, int64_t width, int64_t uid)
{
  const int64_t dims[4] = {s->k->b, count, length, width};
  const int64_t strides[4] = {count * length * width, length * width, width, 1};
  return cni_dnn_tensor(s->g, type, 4, dims, strides, uid, uid ? CNI_DNN_REAL : CNI_DNN_VIRTUAL);
}

/* (B, H, Tq, Tk), virtual */
static int scores(const shapes *s, cudnnDataType_t type) { return dense(s, type, s->k->h, s->k->tq, s->k->tk, 0); }

/* (B, H, Tq, 1) */
static int rows(const shapes *s, int64_t uid) { return dense(s, CUDNN_DATA_FLOAT, s->k->h, s->k->tq, 1, uid); }

static int number(const shapes *s, int64_t uid)
{
  const int64_t one[4] = {1, 1, 1, 1};
  return cni_dnn_tensor(s->g, CUDNN_DATA_FLOAT, 4, one, one, uid, CNI_DNN_VALUE);
}

/* ---- pieces of both graphs ---- */

static int apply(const shapes *s, cudnnPointwiseMode_t mode, int x, int b)
{
  int y = scores(s, CUDNN_DATA_FLOAT);
  cni_dnn_pointwise(s->g, mode, x, b, y, -1, 0);
  return y;
}

/* Scores of keys after the query's own place become the lowest number. */
static int causal(const shapes *s, int x)
{
  int row = scores(s, CUDNN_DATA_INT32), column = scores(s, CUDNN_DATA_INT32);
  cni_dnn_pointwise(s->g, CUDNN_POINTWISE_GEN_INDEX, x, -1, row, -1, 2);
  cni_dnn_pointwise(s->g, CUDNN_POINTWISE_GEN_INDEX, x, -1, column, -1, 3);
  int keep = scores(s, CUDNN_DATA_BOOLEAN), y = scores(s, CUDNN_DATA_FLOAT);
  cni_dnn_pointwise(s->g, CUDNN_POINTWISE_CMP_GE, row, column, keep, -1, 0);
  cni_dnn_pointwise(s->g, CUDNN_POINTWISE_BINARY_SELECT, x, number(s, CNI_SDPA_LOWEST), y, keep, 0);
  return y;
}

static int mask_of(const shapes *s)
{
  const cni_attention_form *k = s->k;
  const int64_t dims[4] = {k->mb, k->mh, k->tq, k->tk};
  return cni_dnn_tensor(s->g, type_of(k->mask), 4, dims, k->m, CNI_SDPA_MASK, CNI_DNN_REAL);
}

/* (B, H, Tq, Tk) of ours, rows whole packs apart */
static int packed_scores(const shapes *s, int64_t uid)
{
  const cni_attention_form *k = s->k;
  const int64_t room = cni_attention_room(k), dims[4] = {k->b, k->h, k->tq, k->tk};
  const int64_t strides[4] = {k->h * k->tq * room, k->tq * room, room, 1};
  return cni_dnn_tensor(s->g, s->type, 4, dims, strides, uid, CNI_DNN_REAL);
}

/* scale Q K^T + mask */
static int product(const shapes *s, int q, int k, int scale)
{
  int x = scores(s, CUDNN_DATA_FLOAT);
  cni_dnn_matmul(s->g, q, k, x);
  x = apply(s, CUDNN_POINTWISE_MUL, x, scale);
  return s->k->mask ? apply(s, CUDNN_POINTWISE_ADD, x, mask_of(s)) : x;
}

static void describe_forward(const shapes *s)
{
  const cni_attention_form *k = s->k;
  int q = heads(s, k->q, k->h, k->tq, k->d, CNI_SDPA_Q), kt = turned(s, k->k, k->kh, k->tk, k->d, CNI_SDPA_K);
  int v = heads(s, k->v, k->kh, k->tk, k->dv, CNI_SDPA_V);
  int x = product(s, q, kt, number(s, CNI_SDPA_SCALE));
  if (k->causal) x = causal(s, x);
  int most = rows(s, 0);
  cni_dnn_reduce(s->g, CUDNN_REDUCE_TENSOR_MAX, x, most);
  int e = apply(s, CUDNN_POINTWISE_EXP, apply(s, CUDNN_POINTWISE_SUB, x, most), -1), sum = rows(s, 0), log = rows(s, 0);
  cni_dnn_reduce(s->g, CUDNN_REDUCE_TENSOR_ADD, e, sum);
  cni_dnn_pointwise(s->g, CUDNN_POINTWISE_LOG, sum, -1, log, -1, 0);
  cni_dnn_pointwise(s->g, CUDNN_POINTWISE_ADD, most, log, rows(s, CNI_SDPA_STATS), -1, 0);
  int p = scores(s, s->type);
  if (k->drops) {
    int w = apply(s, CUDNN_POINTWISE_MUL, apply(s, CUDNN_POINTWISE_DIV, e, sum), number(s, CNI_SDPA_RISE));
    cni_dnn_pointwise(s->g, CUDNN_POINTWISE_MUL, w, packed_scores(s, CNI_SDPA_KEPT), p, -1, 0);
  } else cni_dnn_pointwise(s->g, CUDNN_POINTWISE_DIV, e, sum, p, -1, 0);
  cni_dnn_matmul(s->g, p, v, heads(s, k->o, k->h, k->tq, k->dv, CNI_SDPA_O));
}

/* Scores in 16 bits whose columns are neighbours in memory. */
static int turned_scores(const shapes *s, int x)
{
  int64_t h = s->k->h, n = s->k->tq, m = s->k->tk;
  const int64_t dims[4] = {s->k->b, h, m, n}, strides[4] = {h * n * m, n * m, 1, m};
  int y = cni_dnn_tensor(s->g, s->type, 4, dims, strides, 0, CNI_DNN_VIRTUAL);
  cni_dnn_reshape(s->g, x, y);
  return y;
}

/* The gradient of keys or values: weights^T x, added up over the queries' heads that share one. */
static void give_keys(const shapes *s, int weights, int x, int64_t width, const int64_t *strides, int64_t uid)
{
  const cni_attention_form *k = s->k;
  int g = heads(s, strides, k->kh, k->tk, width, uid);
  if (k->kh == k->h) {
    cni_dnn_matmul(s->g, turned_scores(s, weights), x, g);
    return;
  }
  int all = dense(s, s->type, k->h, k->tk, width, 0);
  cni_dnn_matmul(s->g, turned_scores(s, weights), x, all);
  cni_dnn_reduce(s->g, CUDNN_REDUCE_TENSOR_ADD, all, g);
}

/* The gradient of queries: added up in float32 in any order, or, where each run must give the same, in order. */
static void give_queries(const shapes *s, int g, int kt)
{
  const cni_attention_form *k = s->k;
  int keys = dense(s, CUDNN_DATA_FLOAT, k->kh, k->tk, k->d, 0), gq = heads(s, k->gq, k->h, k->tq, k->d, CNI_SDPA_GQ);
  cni_dnn_reshape(s->g, kt, keys);
  if (k->fixed) {
    cni_dnn_matmul(s->g, g, keys, gq);
    return;
  }
  int sum = dense(s, CUDNN_DATA_FLOAT, k->h, k->tq, k->d, CNI_SDPA_GQ_SUM);
  cni_dnn_matmul(s->g, g, keys, sum);
  cni_dnn_pointwise(s->g, CUDNN_POINTWISE_IDENTITY, sum, -1, gq, -1, 0);
}

static void describe_backward(const shapes *s)
{
  const cni_attention_form *k = s->k;
  int q = heads(s, k->q, k->h, k->tq, k->d, CNI_SDPA_Q), kt = turned(s, k->k, k->kh, k->tk, k->d, CNI_SDPA_K);
  int vt = turned(s, k->v, k->kh, k->tk, k->dv, CNI_SDPA_V), scale = number(s, CNI_SDPA_SCALE);
  int o = heads(s, k->o, k->h, k->tq, k->dv, CNI_SDPA_O), go = heads(s, k->go, k->h, k->tq, k->dv, CNI_SDPA_GO);
  int each = dense(s, CUDNN_DATA_FLOAT, k->h, k->tq, k->dv, 0), sum = rows(s, 0), all = rows(s, CNI_SDPA_SUM);
  cni_dnn_pointwise(s->g, CUDNN_POINTWISE_MUL, go, o, each, -1, 0);
  cni_dnn_reduce(s->g, CUDNN_REDUCE_TENSOR_ADD, each, sum);
  cni_dnn_pointwise(s->g, CUDNN_POINTWISE_MUL, sum, number(s, CNI_SDPA_SHARE), all, -1, 0);
  int x = product(s, q, kt, scale), stats = rows(s, CNI_SDPA_STATS);
  x = apply(s, CUDNN_POINTWISE_SUB, x, stats);
  if (k->causal) x = causal(s, x);
  int e = apply(s, CUDNN_POINTWISE_EXP, x, -1), weights = e;
  int kept = k->drops ? packed_scores(s, CNI_SDPA_KEPT) : -1, rise = k->drops ? number(s, CNI_SDPA_RISE) : -1;
  if (k->drops) weights = apply(s, CUDNN_POINTWISE_MUL, apply(s, CUDNN_POINTWISE_MUL, e, kept), rise);
  give_keys(s, weights, go, k->dv, k->gv, CNI_SDPA_GV);
  int g = scores(s, CUDNN_DATA_FLOAT);
  cni_dnn_matmul(s->g, go, vt, g);
  if (k->drops) g = apply(s, CUDNN_POINTWISE_MUL, g, kept);
  g = apply(s, CUDNN_POINTWISE_MUL, apply(s, CUDNN_POINTWISE_SUB, g, all), e);
  if (k->drops) g = apply(s, CUDNN_POINTWISE_MUL, g, rise);
  g = apply(s, CUDNN_POINTWISE_MUL, g, scale);
  give_keys(s, g, q, k->d, k->gk, CNI_SDPA_GK);
  give_queries(s, g, kt);
}

void cni_attention_describe(cni_dnn_graph *g, const void *form)
{
  const cni_attention_form *k = form;
  shapes s = {g, k, type_of(k->dtype)};
  if (k->backward) describe_backward(&s);
  else describe_forward(&s);
}
#endif
