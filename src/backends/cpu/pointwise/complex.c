/* complex.c: kernels of what complex numbers need besides ops on their parts: products, conjugates, numbers from parts.
 *
 * Place in the flow: the dispatcher calls them; other backends run the ops' decompositions. Invariant: a loop reads
 * both parts of an element before it writes them. */
#include "backends/cpu/cpu.h"
#include "backends/cpu/walk/iter.h"
#include "base/dtype.h"

enum { GRAIN = 16384 };

/* ---- mul_complex(input, other, conj): sign is -1 for the conjugate of other ---- */

#define PRODUCTS(name, T) \
  static void name(char *const *ptr, const int64_t *stride, int64_t n, void *payload) \
  { \
    const T sign = (T) * (const double *)payload; \
    if (stride[0] == 2 * sizeof(T) && stride[1] == stride[0] && stride[2] == stride[0]) { \
      T *y = (T *)(void *)ptr[0]; \
      const T *a = (const T *)(const void *)ptr[1], *b = (const T *)(const void *)ptr[2]; \
      for (int64_t i = 0; i < 2 * n; i += 2) { \
        T p = a[i], q = a[i + 1], r = b[i], s = sign * b[i + 1]; \
        y[i] = p * r - q * s; \
        y[i + 1] = p * s + q * r; \
      } \
      return; \
    } \
    for (int64_t i = 0; i < n; i++) { \
      T *y = (T *)(void *)(ptr[0] + i * stride[0]); \
      const T *a = (const T *)(const void *)(ptr[1] + i * stride[1]); \
      const T *b = (const T *)(const void *)(ptr[2] + i * stride[2]); \
      T p = a[0], q = a[1], r = b[0], s = sign * b[1]; \
      y[0] = p * r - q * s; \
      y[1] = p * s + q * r; \
    } \
  }
PRODUCTS(products_f32, float)
PRODUCTS(products_f64, double)

static int mul_kernel(cn_call *c)
{
  const cn_desc *y = cn_desc_of(c->out[0]);
  double sign = c->args[2].u.i ? -1 : 1;
  cni_iter it;
  if (y->dtype == CN_C32) {
    c->refusal = "not for complex32";
    return CN_REFUSED;
  }
  if (y->numel == 0) return CN_OK;
  cni_iter_begin(&it, y->ndim, y->shape);
  cni_iter_add(&it, y);
  cni_iter_add(&it, cn_desc_of(c->in[0]));
  cni_iter_add(&it, cn_desc_of(c->in[1]));
  cni_iter_finish(&it);
  cni_iter_run(&it, GRAIN, y->dtype == CN_C64 ? products_f32 : products_f64, &sign);
  return CN_OK;
}

/* ---- conj_complex(input) ---- */

#define CONJUGATES(name, T) \
  static void name(char *const *ptr, const int64_t *stride, int64_t n, void *payload) \
  { \
    (void)payload; \
    for (int64_t i = 0; i < n; i++) { \
      T *y = (T *)(void *)(ptr[0] + i * stride[0]); \
      const T *a = (const T *)(const void *)(ptr[1] + i * stride[1]); \
      T p = a[0], q = a[1]; \
      y[0] = p; \
      y[1] = -q; \
    } \
  }
CONJUGATES(conjugates_f32, float)
CONJUGATES(conjugates_f64, double)

static int conj_kernel(cn_call *c)
{
  const cn_desc *y = cn_desc_of(c->out[0]);
  cni_iter it;
  if (y->dtype == CN_C32) {
    c->refusal = "not for complex32";
    return CN_REFUSED;
  }
  if (y->numel == 0) return CN_OK;
  cni_iter_begin(&it, y->ndim, y->shape);
  cni_iter_add(&it, y);
  cni_iter_add(&it, cn_desc_of(c->in[0]));
  cni_iter_finish(&it);
  cni_iter_run(&it, GRAIN, y->dtype == CN_C64 ? conjugates_f32 : conjugates_f64, NULL);
  return CN_OK;
}

/* ---- complex(real, imag) ---- */

static int complex_kernel(cn_call *c)
{
  const cn_desc *y = cn_desc_of(c->out[0]);
  for (int i = 0; i < 2; i++) {
    cn_desc part = cni_cpu_part_of(y, i);
    cni_cpu_copy(&part, cn_desc_of(c->in[i]));
  }
  return CN_OK;
}

const cn_kernel cni_cpu_complex_kernels[] = {
    {"mul_complex", "strided", mul_kernel},
    {"conj_complex", "strided", conj_kernel},
    {"complex", "strided", complex_kernel},
    {NULL, NULL, NULL},
};
