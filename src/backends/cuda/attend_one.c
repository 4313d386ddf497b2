/* attend_one.c: attention of one query of each head.
 *
 * Place in the flow: the first kernel of "sdpa_forward"; longer queries are left to attention.c. Launches of
 * kernels/attend_one.cu. Invariant: how keys are dealt out depends on shapes and the device alone. */
#include <math.h>
#include <string.h>

#include "plugin.h"

enum {
  THREADS = 256,
  JOIN_THREADS = 64,
  WIDTH_MOST = 256,
  HEADS_MOST = 4,     /* of a block: their weighted sums are in registers */
  CHUNK_LEAST = 128,  /* keys that are worth a block */
  CHUNK_MOST = 2048,  /* whose scores fit into shared memory */
  BLOCKS_PER_UNIT = 4
};

/* As in kernels/attend_one.cu. */
typedef struct job {
  const void *q, *k, *v;
  void *y, *lse, *parts;
  const void *mask;
  int64_t qs[2], ks[3], vs[3], ys[2], ms[3];
  int64_t keys, chunk;
  int32_t key_heads, share, splits;
  float scale;
} job;

/* Rows of whole packs that begin with one. */
static bool in_packs(const cn_desc *d, int64_t vector)
{
  bool fits = d->strides[3] == 1 && (uintptr_t)d->data % 16 == 0 && d->shape[3] % vector == 0;
  for (int i = 0; i < 3; i++) fits = fits && (d->shape[i] == 1 || d->strides[i] % vector == 0);
  return fits;
}

/* sdpa_forward(query, key, value, attn_mask, dropped, is_causal, scale, dropout_p) */
static const char *refusal(const cn_call *c)
{
  const cn_desc *q = cn_desc_of(c->in[0]), *k = cn_desc_of(c->in[1]), *v = cn_desc_of(c->in[2]);
  const cn_desc *mask = c->in[3] ? cn_desc_of(c->in[3]) : NULL, *y = cn_desc_of(c->out[0]);
  if (q->dtype != CN_BF16 && q->dtype != CN_F16 && q->dtype != CN_F32) return "not for this type";
  if (q->shape[2] != 1 || !q->numel || !k->numel) return "not one query, or no keys";
  if (c->in[4] || c->in[5] || c->args[5].u.i) return "dropout, or keys that come later";
  int64_t vector = 16 / (int64_t)cn_element_size(q->dtype);
  if (k->shape[3] != v->shape[3] || v->shape[3] > WIDTH_MOST || k->shape[2] > INT32_MAX)
    return "widths it does not take";
  if (!in_packs(k, vector) || !in_packs(v, vector) || q->strides[3] != 1 || y->strides[3] != 1)
    return "a strided operand";
  return mask && mask->device == CN_CPU ? "a mask of another kind" : NULL;
}

/* Chunks so that blocks are on every unit, several where keys are many. */
static void split(job *j, const cni_cuda_device *d, int64_t blocks)
{
  int64_t most = (j->keys + CHUNK_LEAST - 1) / CHUNK_LEAST, least = (j->keys + CHUNK_MOST - 1) / CHUNK_MOST;
  int64_t wanted = ((int64_t)BLOCKS_PER_UNIT * d->units + blocks - 1) / blocks, splits = wanted < most ? wanted : most;
  if (splits < least) splits = least;
  j->chunk = (j->keys + splits - 1) / splits;
  j->splits = (int32_t)((j->keys + j->chunk - 1) / j->chunk);
}

static int launch(cni_cuda_device *d, const char *name, job *j, const cn_desc *q, const cn_desc *mask)
{
  int heads = j->share < HEADS_MOST ? j->share == 3 ? HEADS_MOST : j->share : HEADS_MOST, width = (int)q->shape[3];
  int64_t rows = q->shape[0] * q->shape[1], blocks = q->shape[0] * j->key_heads * ((j->share + heads - 1) / heads);
  split(j, d, blocks);
  size_t bytes = j->splits > 1 ? (size_t)(rows * j->splits * (width + 2)) * sizeof(float) : 0;
  if (bytes && !(j->parts = cni_cuda_scratch(d, name, bytes))) return CN_ERR_MEMORY;
  cni_cuda_code code = {.file = "attend_one.cu", .entry = "attend_one", .number = width, .threads = THREADS,
                        .types = {q->dtype, mask ? mask->dtype : q->dtype}, .form = heads * 2 + (mask != NULL)};
  cni_cuda_grid grid = {blocks, j->splits, THREADS, (size_t)(heads * j->chunk) * sizeof(float)};
  int status = cni_cuda_run(d, name, &code, grid, j);
  code.entry = "attend_one_join";
  code.threads = JOIN_THREADS;
  if (!status && bytes) status = cni_cuda_run(d, name, &code, (cni_cuda_grid){rows, 1, JOIN_THREADS, 0}, j);
  if (bytes) cni_cuda_free(d, j->parts, bytes);
  return status;
}

static int kernel(cn_call *c)
{
  const cn_desc *q = cn_desc_of(c->in[0]), *k = cn_desc_of(c->in[1]), *v = cn_desc_of(c->in[2]);
  const cn_desc *mask = c->in[3] ? cn_desc_of(c->in[3]) : NULL, *y = cn_desc_of(c->out[0]);
  const char *why = refusal(c);
  if (why) return cni_cuda_refuse(c, why);
  cni_cuda_device *d = cni_cuda_of(c);
  if (!d) return CN_ERR_DEVICE;
  const cn_value *scale = &c->args[6];
  job j = {.q = q->data, .k = k->data, .v = v->data, .y = y->data, .lse = cn_desc_of(c->out[1])->data,
           .mask = mask ? mask->data : NULL, .keys = k->shape[2], .key_heads = (int32_t)k->shape[1],
           .share = (int32_t)(q->shape[1] / k->shape[1])};
  j.scale = (float)(scale->tag == CN_V_NONE    ? 1 / sqrt((double)q->shape[3])
                    : scale->tag == CN_V_FLOAT ? scale->u.f
                                               : (double)scale->u.i);
  memcpy(j.qs, q->strides, sizeof j.qs);
  memcpy(j.ks, k->strides, sizeof j.ks);
  memcpy(j.vs, v->strides, sizeof j.vs);
  memcpy(j.ys, y->strides, sizeof j.ys);
  for (int i = 0, at = 0; mask && i < 4; i++) {
    int own = i - (4 - mask->ndim);
    if (i != 2) j.ms[at++] = own >= 0 && mask->shape[own] != 1 ? mask->strides[own] : 0;
  }
  return launch(d, cni_cuda_host->op_name(c->op), &j, q, mask);
}

const cn_kernel cni_cuda_attend_one_kernels[] = {
    {"sdpa_forward", "attend_one.cu", kernel},
    {NULL, NULL, NULL},
};
