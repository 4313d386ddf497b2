/* blaslt.c: a cuBLASLt for tests on machines without a GPU: products of 8-bit floats by plain loops, under the rules of
 * the library's documentation for them.
 *
 * Place in the flow: built as a library under the vendor's name, in a folder of its own (simt/blaslt), which a test
 * puts in front of tests/simt, whose device memory is the host's. Invariants: what is not such a product has no
 * algorithm; a product that breaks a rule that was not asked about fails. */
#include <cublasLt.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
enum { A_SCALE_MODE = 31, B_SCALE_MODE = 32, OUTER_VECTOR = 3, ALIGN = 16 };

/* For tests (dlsym): products so far, how many of them with few bits for sums and with a scale for each line; whether
 * the library knows those (it is older otherwise). */
EXPORT int simt_blaslt_runs, simt_blaslt_fast, simt_blaslt_lines;
EXPORT int simt_blaslt_new = 1;

typedef struct product {
  int32_t transposed[2], mode[2], epilogue;
  int8_t fast;
  const void *bias, *scale[2];
} product;

typedef struct layout {
  cudaDataType type;
  uint64_t rows, cols;
  int64_t ld;
} layout;

EXPORT cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
  static int only;
  *handle = (cublasLtHandle_t)&only;
  return CUBLAS_STATUS_SUCCESS;
}
EXPORT const char *cublasLtGetStatusString(cublasStatus_t status)
{
  return status == CUBLAS_STATUS_SUCCESS ? "no error" : "emulated cuBLASLt";
}

/* ---- descriptors ---- */

EXPORT cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t type,
                                               cudaDataType_t scale)
{
  (void)type, (void)scale;
  product *p = calloc(1, sizeof *p);
  if (!p) return CUBLAS_STATUS_ALLOC_FAILED;
  p->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  *desc = (cublasLtMatmulDesc_t)(void *)p;
  return CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
  free(desc);
  return CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name,
                                                     const void *value, size_t size)
{
  product *p = (product *)(void *)desc;
  int which = (int)name;
  struct {
    int name;
    void *to;
    size_t size;
  } known[] = {{CUBLASLT_MATMUL_DESC_TRANSA, &p->transposed[0], 4},
               {CUBLASLT_MATMUL_DESC_TRANSB, &p->transposed[1], 4},
               {CUBLASLT_MATMUL_DESC_EPILOGUE, &p->epilogue, 4},
               {CUBLASLT_MATMUL_DESC_FAST_ACCUM, &p->fast, 1},
               {CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->bias, sizeof p->bias},
               {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &p->scale[0], sizeof p->scale[0]},
               {CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &p->scale[1], sizeof p->scale[1]},
               {A_SCALE_MODE, &p->mode[0], 4},
               {B_SCALE_MODE, &p->mode[1], 4}};
  if (which >= A_SCALE_MODE && !simt_blaslt_new) return CUBLAS_STATUS_INVALID_VALUE;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i].name == which && known[i].size == size) {
      memcpy(known[i].to, value, size);
      return CUBLAS_STATUS_SUCCESS;
    }
  return CUBLAS_STATUS_INVALID_VALUE;
}

EXPORT cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *made, cudaDataType type, uint64_t rows,
                                                 uint64_t cols, int64_t ld)
{
  layout *l = malloc(sizeof *l);
  if (!l) return CUBLAS_STATUS_ALLOC_FAILED;
  *l = (layout){type, rows, cols, ld};
  *made = (cublasLtMatrixLayout_t)(void *)l;
  return CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
  free(l);
  return CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t name,
                                                       const void *value, size_t size)
{
  (void)l, (void)name, (void)value, (void)size;
  return CUBLAS_STATUS_SUCCESS; /* of batches, which no product here has */
}

EXPORT cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *made)
{
  *made = calloc(1, 1);
  return *made ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}
EXPORT cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
  free(p);
  return CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                           cublasLtMatmulPreferenceAttributes_t name,
                                                           const void *value, size_t size)
{
  (void)p, (void)name, (void)value, (void)size;
  return CUBLAS_STATUS_SUCCESS;
}

/* ---- products ---- */

static bool is_small(cudaDataType type) { return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2; }

/* A is (k, m) in columns, transposed; B is (k, n); D is (m, n). */
static bool takes(const product *p, const layout *a, const layout *b, const layout *d)
{
  bool types = is_small(a->type) && is_small(b->type) && !(a->type == CUDA_R_8F_E5M2 && b->type == CUDA_R_8F_E5M2);
  bool result = d->type == CUDA_R_16BF || d->type == CUDA_R_16F || d->type == CUDA_R_32F;
  bool shapes = a->rows == b->rows && a->cols == d->rows && b->cols == d->cols && a->rows % ALIGN == 0 &&
                d->rows % ALIGN == 0 && a->ld % ALIGN == 0 && b->ld % ALIGN == 0;
  bool bias = p->epilogue == CUBLASLT_EPILOGUE_DEFAULT ||
              (p->epilogue == CUBLASLT_EPILOGUE_BIAS && d->type != CUDA_R_32F);
  return types && result && shapes && bias && p->transposed[0] == CUBLAS_OP_T && p->transposed[1] == CUBLAS_OP_N &&
         p->mode[0] == p->mode[1];
}

EXPORT cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                                     cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                     cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                     cublasLtMatmulPreference_t preference, int wanted,
                                                     cublasLtMatmulHeuristicResult_t answers[], int *found)
{
  (void)handle, (void)preference;
  *found = c == d && wanted > 0 &&
           takes((const product *)(const void *)desc, (const layout *)(const void *)a,
                 (const layout *)(const void *)b, (const layout *)(const void *)d);
  if (*found) memset(answers, 0, sizeof *answers);
  return *found ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

static double small_value(uint8_t v, cudaDataType type)
{
  int man = type == CUDA_R_8F_E4M3 ? 3 : 2, bias = man == 3 ? 7 : 15;
  int exponent = (v & 0x7f) >> man, fraction = v & ((1 << man) - 1);
  double x = exponent ? ldexp(1 + ldexp(fraction, -man), exponent - bias) : ldexp(fraction, 1 - bias - man);
  return v & 0x80 ? -x : x;
}

static double half_value(uint16_t v, cudaDataType type)
{
  int man = type == CUDA_R_16BF ? 7 : 10, bias = man == 7 ? 127 : 15;
  int exponent = (v & 0x7fff) >> man, fraction = v & ((1 << man) - 1);
  double x = exponent ? ldexp(1 + ldexp(fraction, -man), exponent - bias) : ldexp(fraction, 1 - bias - man);
  return v & 0x8000 ? -x : x;
}

/* Rounded half to even; infinite where it is too large. */
static uint16_t half_bits(double x, cudaDataType type)
{
  int man = type == CUDA_R_16BF ? 7 : 10, bias = man == 7 ? 127 : 15, exponent;
  double size = fabs(x);
  uint16_t sign = x < 0 ? 0x8000 : 0;
  frexp(size, &exponent);
  if (size == 0 || exponent - 1 < 1 - bias) exponent = 2 - bias; /* a subnormal number */
  int64_t steps = (int64_t)nearbyint(ldexp(size, man - exponent + 1));
  int64_t bits = ((int64_t)(exponent - 2 + bias) << man) + steps, most = (int64_t)(2 * bias + 1) << man;
  return (uint16_t)(sign | (bits > most ? most : bits));
}

static bool is_aligned(const void *memory) { return (uintptr_t)memory % ALIGN == 0; }

EXPORT cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                                     const void *a, cublasLtMatrixLayout_t la, const void *b,
                                     cublasLtMatrixLayout_t lb, const void *beta, const void *c,
                                     cublasLtMatrixLayout_t lc, void *d, cublasLtMatrixLayout_t ld,
                                     const cublasLtMatmulAlgo_t *algo, void *workspace, size_t bytes,
                                     cudaStream_t stream)
{
  (void)handle, (void)c, (void)algo, (void)workspace, (void)bytes, (void)stream;
  const product *p = (const product *)(const void *)desc;
  const layout *x = (const layout *)(const void *)la, *y = (const layout *)(const void *)lb;
  const layout *z = (const layout *)(const void *)ld;
  if (lc != ld || !takes(p, x, y, z) || *(const float *)alpha != 1 || *(const float *)beta != 0 || !is_aligned(a) ||
      !is_aligned(b) || !is_aligned(d) || !p->scale[0] || !p->scale[1])
    return CUBLAS_STATUS_INVALID_VALUE;
  bool lines = p->mode[0] == OUTER_VECTOR;
  simt_blaslt_runs++, simt_blaslt_fast += p->fast, simt_blaslt_lines += lines;
  for (uint64_t i = 0; i < z->rows; i++)
    for (uint64_t j = 0; j < z->cols; j++) {
      const uint8_t *column = (const uint8_t *)a + i * (uint64_t)x->ld, *row = (const uint8_t *)b + j * (uint64_t)y->ld;
      uint64_t at = j * (uint64_t)z->ld + i;
      double sum = 0;
      for (uint64_t k = 0; k < x->rows; k++) sum += small_value(column[k], x->type) * small_value(row[k], y->type);
      sum *= (double)((const float *)p->scale[0])[lines ? i : 0] * (double)((const float *)p->scale[1])[lines ? j : 0];
      if (p->epilogue == CUBLASLT_EPILOGUE_BIAS) sum += half_value(((const uint16_t *)p->bias)[i], z->type);
      if (z->type == CUDA_R_32F) ((float *)d)[at] = (float)sum;
      else ((uint16_t *)d)[at] = half_bits(sum, z->type);
    }
  return CUBLAS_STATUS_SUCCESS;
}
