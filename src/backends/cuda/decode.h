/* decode.h: parts of a step of a language model, which decode.c launches by themselves, and decoder.c as a layer.
 *
 * Invariant: structs are those of the kernels' files. */
#ifndef CNI_CUDA_DECODE_H
#define CNI_CUDA_DECODE_H

#include "plugin.h"

enum { PACK = 16 };

static inline bool is_aligned(const void *p) { return (uintptr_t)p % PACK == 0; }
static inline bool is_short_float(int dtype) { return dtype == CN_F16 || dtype == CN_BF16 || dtype == CN_F32; }
/* Is it there, dense, and where packs can be read? */
static inline bool is_row(const cn_tensor *t)
{
  return !t || (cni_cuda_is_dense(cn_desc_of(t)) && is_aligned(cn_desc_of(t)->data));
}
static inline const void *data_of(const cn_tensor *t) { return t ? cn_desc_of(t)->data : NULL; }
static inline int64_t parts(int64_t n, int64_t size) { return (n + size - 1) / size; }
static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline double number(const cn_value *v) { return v->tag == CN_V_FLOAT ? v->u.f : (double)v->u.i; }

/* How `other` joins the result of a linear job. */
enum { CNI_CUDA_ALONE, CNI_CUDA_PLUS, CNI_CUDA_TIMES };
/* What kernels call a norm or an activation. */
int32_t cni_cuda_step_norm(const char *word);
int32_t cni_cuda_step_activation(const char *word);

/* As in kernels/linear_step.cu. */
typedef struct cni_cuda_linear_job {
  const void *x, *w, *b, *nw, *nb, *other;
  void *y;
  int64_t n, ld;
  int32_t k, norm, act, join;
  float eps;
  int32_t steady;
} cni_cuda_linear_job;
/* rows: of x. early: it may begin while what is queued before it still runs. */
int cni_cuda_linear_launch(cni_cuda_device *d, const char *name, cni_cuda_linear_job *j, int dtype, int64_t rows,
                           bool early);

/* As in kernels/attend_step.cu. */
typedef struct cni_cuda_attend_job {
  void *keys, *values, *y;
  const void *q, *k, *v;
  int64_t qb, qh, kb, kh, vb, vh;
  const void *position, *cosines, *sines;
  void *parts;
  int64_t length, chunk;
  int32_t heads, key_heads, splits;
  float scale;
  int32_t steady, unused;
  cni_cuda_slot fault;
} cni_cuda_attend_job;
/* rows: of the batch and heads; width: of a head. Sets chunk, splits and parts. */
int cni_cuda_attend_launch(cni_cuda_device *d, const char *name, cni_cuda_attend_job *j, int64_t rows, int dtype,
                           int width);

int cni_cuda_decoder_step(cn_call *c); /* decoder.c */

#endif
