/* matmul.c: matrix products by cuBLASLt: mm, bmm and linear with its bias and a gelu behind it, from row-major,
 * column-major or any strides, and products of 8-bit floats. Small ones are gemm.c's.
 *
 * Place in the flow: the kernels "mm", "bmm", "linear", "linear_gelu", "mm_gelu_backward", "scaled_mm", and products
 * inside of other kernels (cni_cuda_multiply).
 * cuBLASLt thinks in columns, so C = A B is asked for as C^T = B^T A^T: a row-major matrix is its own transpose there.
 * What a shape needs, descriptors and algorithm, is made at its first product and kept; large products, and those that
 * many like them follow, try the library's answers then and keep the fastest. Invariants: float32 products are float32
 * unless the program allows to round (cn_set_matmul_precision); an operand that has no dense direction is copied first;
 * where results must repeat the library's first answer is taken, so that no clock decides. */
#include <string.h>

#include "plugin.h"

/* A batch of matrices; strides in elements. */
typedef struct matrix {
  void *data;
  int64_t rows, cols, row, col, step;
  void *copy; /* device memory of ours, of `bytes` */
  size_t bytes;
} matrix;

/* What decides the algorithm; compared as bytes, so it is zeroed first. */
typedef struct shape_key {
  int64_t m, n, k, batch; /* of C^T = A B in cuBLASLt's sense: (m, k) x (k, n) */
  int64_t a_ld, b_ld, d_ld, a_step, b_step, d_step;
  int32_t dtype, to, device, a_transposed, b_transposed, extra, a_align, b_align, d_align; /* to: d's type */
  int32_t b_dtype;            /* dtype, but for 8-bit floats */
  int16_t precision, repeats; /* of float32; where results must repeat */
  int16_t scales, fast;       /* of 8-bit floats: enum scales; sums may have fewer bits */
} shape_key;

/* What becomes of a product's result before it is stored. pre: the values before gelu (its tanh form). */
enum extra { NOTHING, BIAS, BIAS_GELU, BIAS_GELU_PRE, TIMES_GELU_SLOPE };
static const cublasLtEpilogue_t epilogues[] = {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS,
                                               CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
                                               CUBLASLT_EPILOGUE_DGELU};
/* What 8-bit floats are multiplied by: a number for each matrix, or one for each row and column of the result. */
enum scales { NO_SCALES, ONE_SCALE, SCALE_PER_LINE };
/* Of cuBLASLt; headers before CUDA 12.9 do not have all of them. */
enum { A_SCALE_MODE = 31, B_SCALE_MODE = 32, SCALE_OUTER_VECTOR = 3, SCALED_ALIGN = 16 };
/* By cn_precision. */
static const cublasComputeType_t factors[] = {CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32,
                                              CUBLAS_COMPUTE_32F_FAST_16BF};
static bool has_pre(int extra) { return extra == BIAS_GELU_PRE || extra == TIMES_GELU_SLOPE; }

/* cuBLASLt's objects for products of one shape; all NULL until made. */
typedef struct objects {
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t a, b, d;
} objects;

typedef struct plan {
  shape_key key;
  objects o;
  cublasLtMatmulAlgo_t algo;
  uint64_t used; /* the how-manieth plan it is; 0: none yet */
} plan;

enum {
  PLANS = 1024,
  WAYS = 8,
  MOST_ALIGN = 256,
  ANSWERS = 8, /* tried where a product has at least TRIED_FROM multiplications, each REPEATS times */
  REPEATS = 3
};
static const double TRIED_FROM = 1e9;
static plan table[PLANS]; /* by hash, WAYS places for each; a newer shape takes the oldest one's */
static uint64_t made;     /* plans so far */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the table, and while a product of it is queued */

static int check(cublasStatus_t status, const char *what)
{
  if (status == CUBLAS_STATUS_SUCCESS) return CN_OK;
  return cni_cuda_host->fail(status == CUBLAS_STATUS_ALLOC_FAILED ? CN_ERR_MEMORY : CN_ERR_DEVICE,
                             "cuda: %s: %s", what, cni_cuda_blaslt()->cublasLtGetStatusString(status));
}

/* ---- operands ---- */

/* Row-major: neighbours in a row are neighbours in memory. Dims of size 1 fit either way. */
static bool by_rows(const matrix *x)
{
  return (x->col == 1 || x->cols == 1) && (x->rows == 1 || x->row >= x->cols);
}
static bool by_columns(const matrix *x)
{
  return (x->row == 1 || x->rows == 1) && (x->cols == 1 || x->col >= x->rows);
}

static int64_t leading(const matrix *x)
{
  if (by_rows(x)) return x->rows == 1 ? x->cols : x->row;
  return x->cols == 1 ? x->rows : x->col;
}

/* A row-major copy of an operand. d: (rows, cols) or (batch, rows, cols). */
static int copy_rows(cni_cuda_device *dev, const char *name, matrix *x, const cn_desc *d)
{
  cn_desc to = *d;
  x->bytes = cn_element_bytes(d->dtype, d->numel);
  x->copy = cni_cuda_alloc(dev, x->bytes);
  if (!x->copy) return cni_cuda_short(dev, name, x->bytes);
  to.data = x->data = x->copy;
  int64_t stride = 1;
  for (int i = d->ndim - 1; i >= 0; i--) {
    to.strides[i] = stride;
    stride *= d->shape[i];
  }
  x->row = x->cols;
  x->col = 1;
  x->step = x->rows * x->cols;
  return cni_cuda_copy_desc(dev, name, &to, d);
}

/* ... of one that lies in memory in no usable way. */
static int make_usable(cni_cuda_device *dev, const char *name, matrix *x, const cn_desc *d)
{
  return by_rows(x) || by_columns(x) ? CN_OK : copy_rows(dev, name, x, d);
}

static matrix matrix_of(const cn_desc *d)
{
  const int64_t *size = d->shape + d->ndim - 2, *stride = d->strides + d->ndim - 2;
  return (matrix){.data = d->data,
                  .rows = size[0],
                  .cols = size[1],
                  .row = stride[0],
                  .col = stride[1],
                  .step = d->ndim == 3 ? d->strides[0] : 0};
}

static int32_t alignment(const void *data)
{
  int32_t n = 16;
  while (n < MOST_ALIGN && (uintptr_t)data % (uintptr_t)(2 * n) == 0) n *= 2;
  while (n > 1 && (uintptr_t)data % (uintptr_t)n) n /= 2;
  return n;
}

/* ---- one product ---- */

static cudaDataType_t data_type(int dtype)
{
  return dtype == CN_F32      ? CUDA_R_32F
         : dtype == CN_F64    ? CUDA_R_64F
         : dtype == CN_F16    ? CUDA_R_16F
         : dtype == CN_F8E4M3 ? CUDA_R_8F_E4M3
         : dtype == CN_F8E5M2 ? CUDA_R_8F_E5M2
                              : CUDA_R_16BF;
}

static void destroy(objects *o)
{
  const cni_cuda_blaslt_table *lt = cni_cuda_blaslt();
  if (o->a) lt->cublasLtMatrixLayoutDestroy(o->a);
  if (o->b) lt->cublasLtMatrixLayoutDestroy(o->b);
  if (o->d) lt->cublasLtMatrixLayoutDestroy(o->d);
  if (o->desc) lt->cublasLtMatmulDescDestroy(o->desc);
  *o = (objects){NULL, NULL, NULL, NULL};
}

static int make_layout(cublasLtMatrixLayout_t *layout, const shape_key *k, int dtype, int64_t rows, int64_t cols,
                       int64_t ld, int64_t step)
{
  const cni_cuda_blaslt_table *lt = cni_cuda_blaslt();
  int32_t batch = (int32_t)k->batch;
  cublasStatus_t s = lt->cublasLtMatrixLayoutCreate(layout, data_type(dtype), (uint64_t)rows, (uint64_t)cols, ld);
  if (s == CUBLAS_STATUS_SUCCESS && batch > 1) {
    s = lt->cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                             sizeof batch);
    if (s == CUBLAS_STATUS_SUCCESS)
      s = lt->cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step,
                                               sizeof step);
  }
  return check(s, "describing a matrix");
}

/* CN_REFUSED: a library that knows no scales by rows. */
static int describe_scales(const objects *o, const shape_key *k)
{
  const cni_cuda_blaslt_table *lt = cni_cuda_blaslt();
  const int8_t fast = 1;
  const int32_t lines = SCALE_OUTER_VECTOR;
  cublasStatus_t s = CUBLAS_STATUS_SUCCESS;
  if (k->fast) s = lt->cublasLtMatmulDescSetAttribute(o->desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast);
  for (int mode = A_SCALE_MODE; mode <= B_SCALE_MODE && k->scales == SCALE_PER_LINE; mode++)
    if (lt->cublasLtMatmulDescSetAttribute(o->desc, (cublasLtMatmulDescAttributes_t)mode, &lines, sizeof lines) !=
        CUBLAS_STATUS_SUCCESS)
      return CN_REFUSED;
  return check(s, "describing a product");
}

static int make_objects(objects *o, const shape_key *k)
{
  const cni_cuda_blaslt_table *lt = cni_cuda_blaslt();
  cublasOperation_t a = k->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, b = k->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = epilogues[k->extra];
  bool wide = k->dtype == CN_F64;
  cublasStatus_t s = lt->cublasLtMatmulDescCreate(&o->desc, wide ? CUBLAS_COMPUTE_64F : factors[k->precision],
                                                  wide ? CUDA_R_64F : CUDA_R_32F);
  if (s == CUBLAS_STATUS_SUCCESS)
    s = lt->cublasLtMatmulDescSetAttribute(o->desc, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof a);
  if (s == CUBLAS_STATUS_SUCCESS)
    s = lt->cublasLtMatmulDescSetAttribute(o->desc, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof b);
  if (s == CUBLAS_STATUS_SUCCESS && k->extra)
    s = lt->cublasLtMatmulDescSetAttribute(o->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
  if (s == CUBLAS_STATUS_SUCCESS && has_pre(k->extra))
    s = lt->cublasLtMatmulDescSetAttribute(o->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &k->d_ld, sizeof k->d_ld);
  int status = check(s, "describing a product");
  if (!status && k->scales) status = describe_scales(o, k);
  if (!status)
    status = make_layout(&o->a, k, k->dtype, k->a_transposed ? k->k : k->m, k->a_transposed ? k->m : k->k, k->a_ld,
                         k->a_step);
  if (!status)
    status = make_layout(&o->b, k, k->b_dtype, k->b_transposed ? k->n : k->k, k->b_transposed ? k->k : k->n, k->b_ld,
                         k->b_step);
  return status ? status : make_layout(&o->d, k, k->to, k->m, k->n, k->d_ld, k->d_step);
}

/* Where the operands of one product lie. */
typedef struct places {
  const void *a, *b, *bias;
  void *d, *pre; /* pre: lies as d does */
  const void *a_scale, *b_scale;
} places;

/* Addresses that are part of the descriptor. */
static cublasStatus_t set_places(const plan *p, const places *at)
{
  const cni_cuda_blaslt_table *lt = cni_cuda_blaslt();
  cublasStatus_t s = CUBLAS_STATUS_SUCCESS;
  if (at->bias)
    s = lt->cublasLtMatmulDescSetAttribute(p->o.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &at->bias, sizeof at->bias);
  if (s == CUBLAS_STATUS_SUCCESS && at->pre)
    s = lt->cublasLtMatmulDescSetAttribute(p->o.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &at->pre,
                                           sizeof at->pre);
  if (s == CUBLAS_STATUS_SUCCESS && at->a_scale)
    s = lt->cublasLtMatmulDescSetAttribute(p->o.desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &at->a_scale,
                                           sizeof at->a_scale);
  if (s == CUBLAS_STATUS_SUCCESS && at->b_scale)
    s = lt->cublasLtMatmulDescSetAttribute(p->o.desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &at->b_scale,
                                           sizeof at->b_scale);
  return s;
}

/* Asks the heuristic for ways, best first as it thinks. CN_REFUSED when it knows none. */
static int ask(cublasLtMatmulHeuristicResult_t *answers, int *found, cni_cuda_device *d, const plan *p)
{
  static const cublasLtMatmulPreferenceAttributes_t names[] = {
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
  const cni_cuda_blaslt_table *lt = cni_cuda_blaslt();
  const shape_key *k = &p->key;
  uint32_t align[4] = {(uint32_t)k->a_align, (uint32_t)k->b_align, (uint32_t)k->d_align, (uint32_t)k->d_align};
  size_t workspace = CNI_CUDA_WORKSPACE;
  /* Parts of a long sum that are added up in a result of 16 bits would be rounded each. */
  uint32_t sums = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  cublasLtMatmulPreference_t preference;
  cublasStatus_t s = lt->cublasLtMatmulPreferenceCreate(&preference);
  if (s != CUBLAS_STATUS_SUCCESS) return check(s, "describing a product");
  s = lt->cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                               sizeof workspace);
  for (int i = 0; i < 4 && s == CUBLAS_STATUS_SUCCESS; i++)
    s = lt->cublasLtMatmulPreferenceSetAttribute(preference, names[i], &align[i], sizeof align[i]);
  if (s == CUBLAS_STATUS_SUCCESS && cn_element_size(k->to) == 2)
    s = lt->cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums,
                                                 sizeof sums);
  int status = check(s, "describing a product");
  if (!status)
    s = lt->cublasLtMatmulAlgoGetHeuristic(d->blas, p->o.desc, p->o.a, p->o.b, p->o.d, p->o.d, preference, ANSWERS,
                                           answers, found);
  lt->cublasLtMatmulPreferenceDestroy(preference);
  if (status) return status;
  return s != CUBLAS_STATUS_SUCCESS || !*found ? CN_REFUSED : CN_OK;
}

/* Queues one product. Holds the lock: addresses are part of the descriptor. */
static cublasStatus_t queue(cni_cuda_device *d, const plan *p, const cublasLtMatmulAlgo_t *algo, const places *at)
{
  const double one_f64 = 1, zero_f64 = 0;
  const float one_f32 = 1, zero_f32 = 0;
  const cni_cuda_blaslt_table *lt = cni_cuda_blaslt();
  const cni_cuda_queue *q = cni_cuda_now(d);
  bool wide = p->key.dtype == CN_F64;
  cublasStatus_t s = set_places(p, at);
  if (s != CUBLAS_STATUS_SUCCESS) return s;
  return lt->cublasLtMatmul(d->blas, p->o.desc, wide ? (const void *)&one_f64 : &one_f32, at->a, p->o.a, at->b, p->o.b,
                            wide ? (const void *)&zero_f64 : &zero_f32, at->d, p->o.d, at->d, p->o.d, algo,
                            q->workspace, CNI_CUDA_WORKSPACE, q->stream);
}

/* Milliseconds of one product by this algorithm; negative where it does not run. The result is written each time. */
static float time_of(cni_cuda_device *d, const plan *p, const cublasLtMatmulAlgo_t *algo, const places *at,
                     CUevent begin, CUevent end)
{
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  CUstream stream = cni_cuda_now(d)->stream;
  float best = -1;
  for (int i = 0; i <= REPEATS; i++) { /* the first loads code */
    float took = -1;
    bool ran = cu->cuEventRecord(begin, stream) == CUDA_SUCCESS && queue(d, p, algo, at) == CUBLAS_STATUS_SUCCESS &&
               cu->cuEventRecord(end, stream) == CUDA_SUCCESS && cu->cuEventSynchronize(end) == CUDA_SUCCESS &&
               cu->cuEventElapsedTime(&took, begin, end) == CUDA_SUCCESS;
    if (!ran) return -1;
    if (i && (best < 0 || took < best)) best = took;
  }
  return best;
}

/* times: as many products like this one are to come. */
static bool worth_trying(const shape_key *k, double times)
{
  double work = times * (double)k->m * (double)k->n * (double)k->k * (double)k->batch;
  return !k->repeats && work >= TRIED_FROM && cni_cuda_driver()->cuEventElapsedTime;
}

/* The fastest of the answers, tried on the operands of the first product; the first one where none can be timed. */
static void choose(plan *p, cni_cuda_device *d, const cublasLtMatmulHeuristicResult_t *answers, int n, const places *at,
                   double times)
{
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  CUevent begin = NULL, end = NULL;
  float best = -1;
  p->algo = answers[0].algo;
  if (n < 2 || !worth_trying(&p->key, times) || cni_cuda_records(d)) return;
  if (cu->cuEventCreate(&begin, CU_EVENT_DEFAULT) == CUDA_SUCCESS &&
      cu->cuEventCreate(&end, CU_EVENT_DEFAULT) == CUDA_SUCCESS)
    for (int i = 0; i < n; i++) {
      float took = time_of(d, p, &answers[i].algo, at, begin, end);
      if (took < 0 || (best >= 0 && took >= best)) continue;
      best = took;
      p->algo = answers[i].algo;
    }
  if (begin) cu->cuEventDestroy(begin);
  if (end) cu->cuEventDestroy(end);
}

/* The plan of a shape, made now if there is none. Holds the lock. */
static int find_plan(plan **found, cni_cuda_device *d, const shape_key *k, const places *at, double times)
{
  cublasLtMatmulHeuristicResult_t answers[ANSWERS];
  plan *set = &table[cn_hash(k, sizeof *k) % (PLANS / WAYS) * WAYS], *p = set;
  int n = 0;
  for (int i = 0; i < WAYS; i++) {
    *found = &set[i];
    if (set[i].used && !memcmp(&set[i].key, k, sizeof *k)) return CN_OK;
    if (set[i].used < p->used) p = &set[i];
  }
  *found = p;
  destroy(&p->o);
  *p = (plan){.key = *k};
  int status = make_objects(&p->o, k);
  if (!status) status = check(set_places(p, at), "describing a product");
  if (!status) status = ask(answers, &n, d, p);
  if (status) {
    destroy(&p->o);
    return status;
  }
  choose(p, d, answers, n, at, times);
  p->used = ++made;
  return CN_OK;
}

/* Ahead of the first product (ahead.c): the handle, and what the first question to the heuristic loads. */
static void make_ready(cni_cuda_device *d, void *payload)
{
  cublasLtMatmulHeuristicResult_t answers[ANSWERS];
  plan p = {.key = *(const shape_key *)payload};
  int n = 0, status = CN_OK;
  pthread_mutex_lock(&lock);
  if (!d->blas) status = check(cni_cuda_blaslt()->cublasLtCreate(&d->blas), "starting cuBLASLt");
  pthread_mutex_unlock(&lock);
  if (!status && !make_objects(&p.o, &p.key)) ask(answers, &n, d, &p);
  destroy(&p.o);
}

/* The library's handle at the first product, and a workspace at the first one of each stream. */
static int make_handle(cni_cuda_device *d)
{
  cni_cuda_queue *q = cni_cuda_now(d);
  int status = CN_OK;
  pthread_mutex_lock(&lock);
  if (!q->workspace) q->workspace = cni_cuda_alloc(d, CNI_CUDA_WORKSPACE);
  if (!q->workspace) status = cni_cuda_short(d, "the workspace of products", CNI_CUDA_WORKSPACE);
  if (!status && !d->blas) status = check(cni_cuda_blaslt()->cublasLtCreate(&d->blas), "starting cuBLASLt");
  pthread_mutex_unlock(&lock);
  return status;
}

/* What a product is of, and how often its like follows. */
typedef struct kind {
  int dtype, to; /* of the operands, of the result */
  double times;
} kind;

/* ... and what is done besides: bias lies along out's columns; row_scale and col_scale are of 8-bit floats, whose
 * second matrix is of b_dtype. */
typedef struct besides {
  enum extra extra;
  const void *bias;
  void *pre;
  enum scales scales;
  const void *row_scale, *col_scale;
  int b_dtype;
  bool fast;
} besides;

/* out (rows of neighbours) = a x b. CN_REFUSED: the library knows no way. */
static int multiply(cni_cuda_device *d, const char *name, kind what, const matrix *a, const matrix *b,
                    const matrix *out, int64_t batch, besides more)
{
  places at = {b->data, a->data, more.bias, out->data, more.pre, more.col_scale, more.row_scale};
  plan *p;
  shape_key k;
  memset(&k, 0, sizeof k);
  k.m = out->cols, k.n = out->rows, k.k = a->cols, k.batch = batch;
  k.a_ld = leading(b), k.b_ld = leading(a), k.d_ld = out->row;
  k.a_step = b->step, k.b_step = a->step, k.d_step = out->step;
  k.dtype = more.scales ? more.b_dtype : what.dtype, k.b_dtype = what.dtype;
  k.scales = (int16_t)more.scales, k.fast = more.fast;
  k.to = what.to, k.device = d->index, k.extra = (int32_t)more.extra;
  k.precision = what.dtype == CN_F32 ? (int16_t)cni_cuda_host->matmul_precision() : 0;
  k.repeats = cni_cuda_repeats();
  k.a_transposed = !by_rows(b), k.b_transposed = !by_rows(a);
  k.a_align = alignment(b->data), k.b_align = alignment(a->data), k.d_align = alignment(out->data);
  if (cni_cuda_looks()) return cni_cuda_look_for(0, make_ready, &k, sizeof k);
  int status = make_handle(d);
  if (status) return status;
  pthread_mutex_lock(&lock);
  status = find_plan(&p, d, &k, &at, what.times);
  if (!status) status = check(queue(d, p, &p->algo, &at), name);
  pthread_mutex_unlock(&lock);
  return status ? status : cni_cuda_launched(d, name);
}

/* The same for a call, which says why it is refused. */
static int multiply_for(cn_call *c, cni_cuda_device *d, const matrix *a, const matrix *b, const matrix *out,
                        int64_t batch, besides more)
{
  const kind what = {cn_desc_of(c->in[0])->dtype, cn_desc_of(c->out[0])->dtype, 1};
  int status = multiply(d, cni_cuda_host->op_name(c->op), what, a, b, out, batch, more);
  return status == CN_REFUSED ? cni_cuda_refuse(c, "cuBLASLt knows no way for these shapes") : status;
}

/* ---- the kernels ---- */

static bool takes(cn_call *c, int dtype)
{
  if (!cni_cuda_blaslt()) c->refusal = "libcublasLt was not found";
  else if (!cni_cuda_is_float(dtype)) c->refusal = "not for this type";
  else return true;
  return false;
}

/* A product over nothing is zero. */
static int all_zero(cn_call *c, cni_cuda_device *d)
{
  int64_t zero = 0;
  cn_desc value;
  memset(&value, 0, sizeof value);
  value.data = &zero;
  value.numel = 1;
  value.dtype = CN_I64;
  value.device = CN_CPU;
  value.weak = 1;
  return cni_cuda_copy_desc(d, cni_cuda_host->op_name(c->op), cn_desc_of(c->out[0]), &value);
}

/* mm(a (m, k), b (k, n)); bmm with a batch in front; mm_dtype and bmm_dtype likewise, of 16-bit floats into float32. */
static int mm_with(cn_call *c, besides more)
{
  const cn_desc *ad = cn_desc_of(c->in[0]), *bd = cn_desc_of(c->in[1]), *od = cn_desc_of(c->out[0]);
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  if (!d) return CN_ERR_DEVICE;
  if (!takes(c, ad->dtype)) return CN_REFUSED;
  if (od->numel == 0) return CN_OK;
  matrix a = matrix_of(ad), b = matrix_of(bd), out = matrix_of(od);
  if (a.cols == 0) return all_zero(c, d);
  out.row = out.cols; /* apply made it dense; a dim of size 1 may have any stride */
  out.step = out.rows * out.cols;
  int status = make_usable(d, name, &a, ad);
  if (!status) status = make_usable(d, name, &b, bd);
  if (!status) status = multiply_for(c, d, &a, &b, &out, od->ndim == 3 ? od->shape[0] : 1, more);
  if (a.copy) cni_cuda_free(d, a.copy, a.bytes);
  if (b.copy) cni_cuda_free(d, b.copy, b.bytes);
  return status;
}
static int mm_kernel(cn_call *c) { return mm_with(c, (besides){.extra = NOTHING}); }

/* May the library look at this memory while it stores a result of 16 bits? */
static bool fits_beside(const cn_desc *pre)
{
  bool half = pre->dtype == CN_F16 || pre->dtype == CN_BF16;
  return half && cni_cuda_is_dense(pre) && (uintptr_t)pre->data % 16 == 0 && pre->shape[pre->ndim - 1] % 8 == 0;
}

/* mm_gelu_backward(a (m, k), b (k, n), pre (m, n)) */
static int mm_gelu_backward_kernel(cn_call *c)
{
  const cn_desc *pre = cn_desc_of(c->in[2]);
  if (!fits_beside(pre) || !cn_desc_of(c->in[0])->numel)
    return cni_cuda_refuse(c, "a form that its decomposition does as well");
  return mm_with(c, (besides){.extra = TIMES_GELU_SLOPE, .pre = pre->data});
}

/* linear(input (..., k), weight (n, k), bias (n) or absent). Other forms are left to the decomposition. */
static int linear_with(cn_call *c, besides more)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *w = cn_desc_of(c->in[1]), *od = cn_desc_of(c->out[0]);
  const cn_desc *bias = c->in[2] ? cn_desc_of(c->in[2]) : NULL;
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  matrix a = {.data = x->data, .cols = w->ndim == 2 ? w->shape[1] : 0, .col = x->strides[x->ndim - 1]};
  if (!d) return CN_ERR_DEVICE;
  if (!takes(c, x->dtype)) return CN_REFUSED;
  bool plain_bias = !bias || (x->dtype != CN_F64 && bias->ndim == 1 && bias->numel == w->shape[0] &&
                              bias->device == c->device);
  if (w->ndim != 2 || x->numel == 0 || od->numel == 0 || !plain_bias || !cni_cuda_rows_of(&a.rows, &a.row, x)) {
    c->refusal = "a form that its decomposition does as well";
    return CN_REFUSED;
  }
  cn_desc flat = *x, transposed = *w;
  flat.ndim = 2;
  flat.shape[0] = a.rows, flat.shape[1] = a.cols;
  flat.strides[0] = a.row, flat.strides[1] = a.col;
  transposed.shape[0] = w->shape[1], transposed.shape[1] = w->shape[0];
  transposed.strides[0] = w->strides[1], transposed.strides[1] = w->strides[0];
  matrix b = matrix_of(&transposed),
         out = {.data = od->data, .rows = a.rows, .cols = w->shape[0], .row = w->shape[0], .col = 1};
  cni_cuda_operand added = {0}; /* the bias, dense */
  int status = make_usable(d, name, &a, &flat);
  if (!status) status = make_usable(d, name, &b, &transposed);
  if (!status && bias) status = cni_cuda_take(&added, d, name, bias, 0);
  more.bias = added.data;
  if (!status) status = multiply_for(c, d, &a, &b, &out, 1, more);
  if (a.copy) cni_cuda_free(d, a.copy, a.bytes);
  if (b.copy) cni_cuda_free(d, b.copy, b.bytes);
  cni_cuda_drop(&added, d);
  return status;
}

static int linear_kernel(cn_call *c)
{
  return linear_with(c, (besides){.extra = c->in[2] ? BIAS : NOTHING});
}

/* linear_gelu(input, weight, bias, keep) -> (output, pre) */
static int linear_gelu_kernel(cn_call *c)
{
  const cn_desc *y = cn_desc_of(c->out[0]), *pre = cn_desc_of(c->out[1]);
  bool keep = c->args[3].u.i != 0;
  if (!fits_beside(y) || (keep && !fits_beside(pre)))
    return cni_cuda_refuse(c, "a form that its decomposition does as well");
  return linear_with(c, (besides){.extra = keep ? BIAS_GELU_PRE : BIAS_GELU, .pre = keep ? pre->data : NULL});
}

/* ---- products of 8-bit floats: the library takes rows of the first and columns of the second matrix ---- */

/* Why scaled_mm is not for the library, or NULL. Which devices multiply 8-bit floats the library knows. */
static const char *scaled_refusal(const cn_call *c)
{
  const cn_desc *a = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]), *bias = c->in[4] ? cn_desc_of(c->in[4]) : NULL;
  if (!cni_cuda_blaslt()) return "libcublasLt was not found";
  if (!cni_cuda_is_float(y->dtype)) return "a result that its decomposition rounds as well";
  if (!a->numel || !y->numel || a->shape[1] % SCALED_ALIGN || y->shape[1] % SCALED_ALIGN)
    return "sizes that are no multiples of 16";
  bool fits = !bias || (bias->dtype == y->dtype && bias->dtype != CN_F32 && cni_cuda_is_dense(bias) &&
                        bias->device == c->device && (uintptr_t)bias->data % SCALED_ALIGN == 0);
  return fits ? NULL : "a bias that its decomposition adds as well";
}

/* Rows that begin where the library can read them. d: (rows, cols) */
static int make_scaled(cni_cuda_device *dev, const char *name, matrix *x, const cn_desc *d)
{
  bool fits = by_rows(x) && leading(x) % SCALED_ALIGN == 0 && (uintptr_t)x->data % SCALED_ALIGN == 0;
  return fits ? CN_OK : copy_rows(dev, name, x, d);
}

/* scaled_mm(input (m, k), mat2 (k, n), scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum) */
static int scaled_mm_kernel(cn_call *c)
{
  const cn_desc *ad = cn_desc_of(c->in[0]), *bd = cn_desc_of(c->in[1]), *od = cn_desc_of(c->out[0]);
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_operand rows = {0}, cols = {0};
  if (!d) return CN_ERR_DEVICE;
  const char *why = scaled_refusal(c);
  if (why) return cni_cuda_refuse(c, why);
  cn_desc swapped = *bd;
  swapped.shape[0] = bd->shape[1], swapped.shape[1] = bd->shape[0];
  swapped.strides[0] = bd->strides[1], swapped.strides[1] = bd->strides[0];
  matrix a = matrix_of(ad), columns = matrix_of(&swapped), out = matrix_of(od);
  out.row = out.cols;
  int status = cni_cuda_take(&rows, d, name, cn_desc_of(c->in[2]), CN_F32);
  if (!status) status = cni_cuda_take(&cols, d, name, cn_desc_of(c->in[3]), CN_F32);
  if (!status) status = make_scaled(d, name, &a, ad);
  if (!status) status = make_scaled(d, name, &columns, &swapped);
  matrix b = {.data = columns.data, .rows = columns.cols, .cols = columns.rows, .row = 1, .col = leading(&columns)};
  besides more = {.extra = c->in[4] ? BIAS : NOTHING, .bias = c->in[4] ? cn_desc_of(c->in[4])->data : NULL,
                  .scales = rows.dense.numel == 1 && cols.dense.numel == 1 ? ONE_SCALE : SCALE_PER_LINE,
                  .row_scale = rows.data, .col_scale = cols.data, .b_dtype = bd->dtype, .fast = c->args[7].u.i != 0};
  if (!status) status = multiply_for(c, d, &a, &b, &out, 1, more);
  if (a.copy) cni_cuda_free(d, a.copy, a.bytes);
  if (columns.copy) cni_cuda_free(d, columns.copy, columns.bytes);
  cni_cuda_drop(&rows, d);
  cni_cuda_drop(&cols, d);
  return status;
}

/* ---- inside of other kernels ---- */

int cni_cuda_multiply(cni_cuda_device *d, const char *name, const cni_cuda_product *p)
{
  matrix a = {.data = (void *)(uintptr_t)p->a, .rows = p->m, .cols = p->k, .row = p->a_row, .col = p->a_col};
  matrix b = {.data = (void *)(uintptr_t)p->b, .rows = p->k, .cols = p->n, .row = p->b_row, .col = p->b_col};
  matrix y = {.data = p->y, .rows = p->m, .cols = p->n, .row = p->y_row, .col = 1};
  kind what = {p->dtype, p->to, p->times};
  cni_cuda_gemm g = {.a = p->a, .b = p->b, .y = p->y, .m = p->m, .n = p->n, .k = p->k, .batch = 1, .a_row = p->a_row,
                     .a_col = p->a_col, .b_row = p->b_row, .b_col = p->b_col, .y_row = p->y_row, .y_col = 1};
  if (cni_cuda_gemm_is_small(&g, p->dtype)) return cni_cuda_gemm_small(d, name, &g, p->dtype, p->to);
  int status = cni_cuda_blaslt() ? multiply(d, name, what, &a, &b, &y, 1, (besides){.extra = NOTHING}) : CN_REFUSED;
  return status == CN_REFUSED ? cni_cuda_gemm_plain(d, name, &g, p->dtype, p->to) : status;
}

const cn_kernel cni_cuda_matmul_kernels[] = {
    {"mm", "cublaslt", mm_kernel},
    {"bmm", "cublaslt", mm_kernel},
    {"mm_dtype", "cublaslt", mm_kernel},
    {"bmm_dtype", "cublaslt", mm_kernel},
    {"linear", "linear_step.cu", cni_cuda_linear_few},
    {"linear", "cublaslt", linear_kernel},
    {"linear_gelu", "cublaslt", linear_gelu_kernel},
    {"mm_gelu_backward", "cublaslt", mm_gelu_backward_kernel},
    {"scaled_mm", "cublaslt", scaled_mm_kernel},
    {NULL, NULL, NULL},
};
