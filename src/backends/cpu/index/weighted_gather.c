/* weighted_gather.c: the CPU kernels of weighted_gather and its two companions: sums of a few elements per place, by
 * index and weight.
 *
 * Place in the flow: grid_sample makes the indices and weights. Invariant: a row of a result is one thread's work in
 * one order, so results never depend on the number of threads; indices are checked before anything is written. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/reduce/moments.h"
#include "base/parallel.h"

enum { GRAIN_WORK = 1 << 15 };

/* x: (n, c, s), index, weight: (n, k, p), y: (n, c, p), all packed */
typedef struct job {
  int64_t n, c, s, k, p;
  char *x, *weight, *y;
  const int64_t *index;
} job;

#define LOOPS(T, suffix)                                                                                             \
  /* rows (n, c) of y from x */                                                                                      \
  static void gather_##suffix(int64_t begin, int64_t end, void *payload)                                             \
  {                                                                                                                  \
    const job *j = payload;                                                                                          \
    for (int64_t row = begin; row < end; row++) {                                                                    \
      const T *x = (const T *)(const void *)j->x + row * j->s;                                                       \
      T *y = (T *)(void *)j->y + row * j->p;                                                                         \
      memset(y, 0, (size_t)j->p * sizeof *y);                                                                        \
      for (int64_t k = 0; k < j->k; k++) {                                                                           \
        int64_t at = (row / j->c * j->k + k) * j->p;                                                                 \
        const int64_t *index = j->index + at;                                                                        \
        const T *w = (const T *)(const void *)j->weight + at;                                                        \
        for (int64_t p = 0; p < j->p; p++)                                                                           \
          if (index[p] >= 0) y[p] += w[p] * x[index[p]];                                                             \
      }                                                                                                              \
    }                                                                                                                \
  }                                                                                                                  \
  /* rows (n, c) of x from y */                                                                                      \
  static void scatter_##suffix(int64_t begin, int64_t end, void *payload)                                            \
  {                                                                                                                  \
    const job *j = payload;                                                                                          \
    for (int64_t row = begin; row < end; row++) {                                                                    \
      T *x = (T *)(void *)j->x + row * j->s;                                                                         \
      const T *y = (const T *)(const void *)j->y + row * j->p;                                                       \
      memset(x, 0, (size_t)j->s * sizeof *x);                                                                        \
      for (int64_t k = 0; k < j->k; k++) {                                                                           \
        int64_t at = (row / j->c * j->k + k) * j->p;                                                                 \
        const int64_t *index = j->index + at;                                                                        \
        const T *w = (const T *)(const void *)j->weight + at;                                                        \
        for (int64_t p = 0; p < j->p; p++)                                                                           \
          if (index[p] >= 0) x[index[p]] += w[p] * y[p];                                                             \
      }                                                                                                              \
    }                                                                                                                \
  }                                                                                                                  \
  /* rows (n, k) of weight from x and y */                                                                           \
  static void dot_##suffix(int64_t begin, int64_t end, void *payload)                                                \
  {                                                                                                                  \
    const job *j = payload;                                                                                          \
    for (int64_t row = begin; row < end; row++) {                                                                    \
      const int64_t *index = j->index + row * j->p;                                                                  \
      T *w = (T *)(void *)j->weight + row * j->p;                                                                    \
      memset(w, 0, (size_t)j->p * sizeof *w);                                                                        \
      for (int64_t c = 0; c < j->c; c++) {                                                                           \
        const T *x = (const T *)(const void *)j->x + (row / j->k * j->c + c) * j->s;                                 \
        const T *y = (const T *)(const void *)j->y + (row / j->k * j->c + c) * j->p;                                 \
        for (int64_t p = 0; p < j->p; p++)                                                                           \
          if (index[p] >= 0) w[p] += y[p] * x[index[p]];                                                             \
      }                                                                                                              \
    }                                                                                                                \
  }
LOOPS(float, f32)
LOOPS(double, f64)

static int check_index(const cn_call *c, const job *j)
{
  for (int64_t i = 0; i < j->n * j->k * j->p; i++)
    if (j->index[i] >= j->s)
      return cn_call_fail(c, CN_ERR_INDEX, "index %lld is out of range for %lld elements", (long long)j->index[i],
                          (long long)j->s);
  return CN_OK;
}

/* x, weight, y: the tensors by their meaning, of which `out` is the result. rows: how many each thread's loop has. */
static int run(cn_call *c, const cn_desc *x, const cn_desc *index, const cn_desc *weight, const cn_desc *y,
               cni_range_fn f32, cni_range_fn f64)
{
  const cn_desc *out = cn_desc_of(c->out[0]), *tensors[3] = {x, weight, y};
  cni_operand at = {0}, o[3] = {{0}};
  job j = {.n = x->shape[0], .c = x->shape[1], .s = x->shape[2], .k = index->shape[1], .p = index->shape[2]};
  int status = cni_operand_take(&at, index, CN_I64, NULL), written = 0;
  for (int i = 0; i < 3; i++) {
    if (tensors[i] == out) written = i;
    if (!status)
      status = tensors[i] == out ? cni_operand_room(&o[i], out, out->dtype, NULL)
                                 : cni_operand_take(&o[i], tensors[i], out->dtype, NULL);
  }
  j.index = at.data;
  j.x = o[0].data;
  j.weight = o[1].data;
  j.y = o[2].data;
  if (!status) status = check_index(c, &j);
  if (!status && out->numel) {
    int64_t rows = j.n * (written == 1 ? j.k : j.c), work = j.p * (written == 1 ? j.c : j.k) + j.s;
    cni_parallel_for(rows, GRAIN_WORK / (work < 1 ? 1 : work) + 1, out->dtype == CN_F32 ? f32 : f64, &j);
  }
  cni_operand_drop(&at);
  for (int i = 0; i < 3; i++)
    if (i == written) cni_operand_put(&o[i], out, status);
    else cni_operand_drop(&o[i]);
  return status;
}

static int gather_kernel(cn_call *c)
{
  return run(c, cn_desc_of(c->in[0]), cn_desc_of(c->in[1]), cn_desc_of(c->in[2]), cn_desc_of(c->out[0]), gather_f32,
             gather_f64);
}

static int scatter_kernel(cn_call *c)
{
  return run(c, cn_desc_of(c->out[0]), cn_desc_of(c->in[1]), cn_desc_of(c->in[2]), cn_desc_of(c->in[0]), scatter_f32,
             scatter_f64);
}

static int dot_kernel(cn_call *c)
{
  return run(c, cn_desc_of(c->in[1]), cn_desc_of(c->in[2]), cn_desc_of(c->out[0]), cn_desc_of(c->in[0]), dot_f32,
             dot_f64);
}

const cn_kernel cni_cpu_weighted_gather_kernels[] = {
    {"weighted_gather", "rows", gather_kernel},
    {"weighted_scatter", "rows", scatter_kernel},
    {"weighted_dot", "rows", dot_kernel},
    {NULL, NULL, NULL},
};
