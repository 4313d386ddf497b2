/* attention_mask.c: what attention's masks and dropout need besides cuDNN's kernels (kernels/mask.cu).
 *
 * Place in the flow: before and behind attention.c's plans. A mask of any type and form becomes numbers that are added
 * to the scores, copied once however many heads and queries share it. Invariant: what is added is never below `lowest`,
 * or the mask lies as cuDNN reads it and rows that it leaves out are mended. */
#include "attention.h"

#ifdef CNI_HAVE_CUDNN_H
#include <math.h>
#include <string.h>

enum {
  WIDTH = CNI_SDPA_PACK, /* as in kernels/mask.cu */
  LARGE_MASK = 1 << 22,  /* elements: to copy them would take longer than a launch */
};
/* The least number a mask adds: a score and it, and what kernels multiply them by, stay finite. */
static const float lowest = -0x1p126f;

/* As in kernels/mask.cu. */
typedef struct bias_job {
  const void *mask;
  void *bias;
  int64_t heads, queries, packs, all, keys, strides[4];
  float lowest;
} bias_job;
typedef struct rows_job {
  const void *mask;
  void *lse, *out;
  const void *q, *k, *v, *dropped;
  int64_t rows, heads, share, queries, keys, width, values, room, strides[4], os[3], qs[3], ks[3], vs[3];
  float lowest, scale, rise;
} rows_job;
typedef struct stats_job {
  const void *lse;
  void *stats;
  int64_t n;
  float lowest;
} stats_job;

/* Large masks of numbers are added as they lie, where cuDNN can read them so. It takes infinities, and takes numbers
 * near a type's least for them. */
static bool as_it_lies(const cni_attention_mask *m, const int64_t *size, cni_attention_form *f)
{
  const cn_desc *given = m->mask;
  bool fits = given->dtype != CN_BOOL && given->numel >= LARGE_MASK && f->tk % WIDTH == 0 && m->strides[3] == 1 &&
              (uintptr_t)given->data % 16 == 0;
  for (int i = 0; i < 3; i++) fits = fits && m->strides[i] >= 0 && m->strides[i] % WIDTH == 0;
  if (!fits) return false;
  f->mask = given->dtype;
  memcpy(f->m, m->strides, sizeof f->m);
  if (size[0] == 1) f->m[0] = size[1] * size[2] * f->tk;
  if (size[1] == 1) f->m[1] = size[2] * f->tk;
  return true;
}

/* x, over `size` of its batches, heads and rows, as `type`, its rows whole packs apart, in memory of ours. */
static int in_packs(void **made, size_t *bytes, cni_cuda_device *d, const char *name, const cn_desc *x,
                    const int64_t *size, const int64_t *strides, int64_t keys, int type, float least)
{
  bias_job job = {.mask = x->data, .heads = size[1], .queries = size[2], .packs = (keys + WIDTH - 1) / WIDTH};
  job.all = size[0] * size[1] * size[2] * job.packs;
  job.keys = keys;
  job.lowest = least;
  memcpy(job.strides, strides, sizeof job.strides);
  *bytes = cn_element_bytes(type, job.all * WIDTH);
  *made = job.bias = cni_cuda_scratch(d, name, *bytes);
  if (!job.bias) return CN_ERR_MEMORY;
  cni_cuda_code code = {.file = "mask.cu", .entry = "mask_bias", .types = {x->dtype, type, type}};
  return cni_cuda_run(d, name, &code, cni_cuda_grid_for(d, job.all), &job);
}

/* Has as many batches, heads and rows as the mask. */
int cni_attention_take_mask(cni_attention_mask *m, cni_cuda_device *d, const char *name, const cn_tensor *mask,
                            cni_attention_form *f)
{
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
  m->added = given->data;
  if (as_it_lies(m, size, f)) return CN_OK;
  f->mask = given->dtype == CN_BOOL || given->dtype == CN_BF16 ? CN_BF16 : CN_F32; /* float16 has no such lowest */
  const int64_t room = cni_attention_room(f);
  const int64_t strides[4] = {size[1] * size[2] * room, size[2] * room, size[2] > 1 ? room : 0, 1};
  memcpy(f->m, strides, sizeof strides);
  int status = in_packs(&m->bias, &m->bias_bytes, d, name, given, size, m->strides, f->tk, f->mask, lowest);
  m->added = m->bias;
  return status;
}

/* 1 / (1 - p) as a type with so many bits of precision holds it. */
static double rounded(double v, int bits)
{
  int exponent;
  double fraction = frexp(v, &exponent);
  return ldexp(rint(ldexp(fraction, bits)), exponent - bits);
}

int cni_attention_take_dropped(cni_attention_mask *m, cni_cuda_device *d, const char *name, const cn_tensor *dropped,
                               double p, cni_attention_form *f)
{
  m->rise = 1;
  if (!dropped) return CN_OK;
  const cn_desc *given = cn_desc_of(dropped);
  f->drops = 1;
  m->rise = (float)(1 / (1 - p) / rounded(1 / (1 - p), f->dtype == CN_BF16 ? 8 : 11));
  m->dropped = given->data;
  if (f->tk % WIDTH == 0 && (uintptr_t)given->data % 16 == 0 && cni_cuda_is_dense(given)) return CN_OK;
  int status = in_packs(&m->kept, &m->kept_bytes, d, name, given, given->shape, given->strides, f->tk, f->dtype, 0);
  m->dropped = m->kept;
  return status;
}

/* Behind forward: zeros for queries that see no key; those that cuDNN left out, though they see keys, made here. */
int cni_attention_mend(const cni_attention_mask *m, cni_cuda_device *d, const char *name, const cni_attention_form *f,
                       void *const *qkv, float scale, const cn_desc *out, void *lse)
{
  if (!m->mask) return CN_OK;
  rows_job job = {.mask = m->mask->data, .lse = lse, .out = out->data, .q = qkv[0], .k = qkv[1], .v = qkv[2],
                  .dropped = m->dropped, .rows = f->b * f->h * f->tq, .heads = f->h, .share = f->h / f->kh,
                  .queries = f->tq, .keys = f->tk, .width = f->d, .values = f->dv, .room = cni_attention_room(f),
                  .lowest = lowest, .scale = scale, .rise = m->rise};
  memcpy(job.strides, m->strides, sizeof job.strides);
  memcpy(job.os, f->o, sizeof job.os);
  memcpy(job.qs, f->q, sizeof job.qs);
  memcpy(job.ks, f->k, sizeof job.ks);
  memcpy(job.vs, f->v, sizeof job.vs);
  cni_cuda_code code = {.file = "mask.cu", .entry = "mend_rows", .types = {m->mask->dtype, f->mask, f->dtype}};
  return cni_cuda_run(d, name, &code, cni_cuda_grid_for(d, job.rows), &job);
}

/* Before backward: what is subtracted from the scores, in memory of ours (4 bytes a query), or lse. */
int cni_attention_take_stats(void **stats, const cni_attention_mask *m, cni_cuda_device *d, const char *name,
                             const cni_attention_form *f, void *lse)
{
  stats_job job = {lse, NULL, f->b * f->h * f->tq, lowest};
  *stats = lse;
  if (!m->mask) return CN_OK;
  *stats = job.stats = cni_cuda_scratch(d, name, (size_t)job.n * 4);
  if (!job.stats) return CN_ERR_MEMORY;
  cni_cuda_code code = {.file = "mask.cu", .entry = "mask_stats", .types = {m->mask->dtype, f->mask, f->dtype}};
  return cni_cuda_run(d, name, &code, cni_cuda_grid_for(d, job.n), &job);
}

void cni_attention_drop_mask(cni_attention_mask *m, cni_cuda_device *d)
{
  if (m->bias) cni_cuda_free(d, m->bias, m->bias_bytes);
  if (m->kept) cni_cuda_free(d, m->kept, m->kept_bytes);
}
#endif
