/* reduce.c: sum and mean, over all dims or some, of any type and strides.
 *
 * Place in the flow: the kernels "sum" and "mean". One kernel: `lanes` threads of a block share an output,
 * `parts` blocks share its elements; where there are several parts, a second stage adds them. Invariants:
 * the order of additions depends on shapes and the device alone, so a sum is the same every time; float32
 * chains are short and join in float64. */
#include <stdio.h>
#include <string.h>

#include "plugin.h"

enum { THREADS = 256, THREADS_PER_UNIT = 2048, MOST_PARTS = 65535, LEAST_WORK = 16, TEXT = 6000 };

/* As in the text below. */
typedef struct job {
  const void *x;
  void *y, *partial;
  long long outputs, count, chunk;
  int parts, lanes, nk, nr, mean, stage;
  long long ksize[CN_MAX_DIMS], kin[CN_MAX_DIMS]; /* kept dims, in the result's order */
  long long rsize[CN_MAX_DIMS], rin[CN_MAX_DIMS]; /* reduced ones, largest stride first */
} job;

/* S: element of x, D: of y, A: what elements are added in, W: what chains join in; LOAD, STORE convert. */
static const char kernel_text[] =
    "typedef struct job {\n"
    "  const void *x; void *y, *partial;\n"
    "  long long outputs, count, chunk;\n"
    "  int parts, lanes, nk, nr, mean, stage;\n"
    "  long long ksize[16], kin[16], rsize[16], rin[16];\n"
    "} job;\n"
    "static long long offset(long long at, int n, const long long *size, const long long *stride)\n"
    "{\n"
    "  long long o = 0;\n"
    "  for (int d = n - 1; d > 0; d--) {\n"
    "    const long long next = at / size[d];\n"
    "    o += (at - next * size[d]) * stride[d];\n"
    "    at = next;\n"
    "  }\n"
    "  return n ? o + at * stride[0] : 0;\n"
    "}\n"
    /* Elements begin, begin + step, ... below end. */
    "static W total(const S *x, long long begin, long long end, long long step, const job *p)\n"
    "{\n"
    "  W sum = 0;\n"
    "  long long j = begin;\n"
    "  if (p->nr > 1) {\n"
    "    for (; j < end; j += step) sum += (W)LOAD(x[offset(j, p->nr, p->rsize, p->rin)]);\n"
    "    return sum;\n"
    "  }\n"
    "  const long long stride = p->nr ? p->rin[0] : 0, four = 4 * step;\n"
    "  while (j + 3 * step < end) {\n"
    "    A a0 = 0, a1 = 0, a2 = 0, a3 = 0;\n"
    "    for (int k = 0; k < 64 && j + 3 * step < end; k++, j += four) {\n"
    "      a0 += LOAD(x[j * stride]);\n"
    "      a1 += LOAD(x[(j + step) * stride]);\n"
    "      a2 += LOAD(x[(j + 2 * step) * stride]);\n"
    "      a3 += LOAD(x[(j + 3 * step) * stride]);\n"
    "    }\n"
    "    sum += ((W)a0 + (W)a1) + ((W)a2 + (W)a3);\n"
    "  }\n"
    "  for (; j < end; j += step) sum += (W)LOAD(x[j * stride]);\n"
    "  return sum;\n"
    "}\n"
    /* The sum over `lanes` neighbouring threads, in the first of them. All threads of the block call it. */
    "static W join(W sum, int lanes, int lane)\n"
    "{\n"
    "  __shared__ W room[256];\n"
    "  room[threadIdx.x] = sum;\n"
    "  for (int w = lanes / 2; w > 0; w /= 2) {\n"
    "    __syncthreads();\n"
    "    if (lane < w) room[threadIdx.x] += room[threadIdx.x + w];\n"
    "  }\n"
    "  return room[threadIdx.x];\n"
    "}\n"
    "static void finish(const job *p, long long o, W sum)\n"
    "{\n"
    "  if (p->mean) sum = sum / (W)p->count;\n"
    "  ((D *)p->y)[o] = STORE(sum);\n"
    "}\n"
    "extern \"C\" __global__ void __launch_bounds__(256) cn_sum(const __grid_constant__ job p)\n"
    "{\n"
    "  const int lane = threadIdx.x & (p.lanes - 1);\n"
    "  const long long o = (long long)blockIdx.x * (256 / p.lanes) + threadIdx.x / p.lanes;\n"
    "  const long long begin = blockIdx.y * p.chunk;\n"
    "  const long long end = begin + p.chunk < p.count ? begin + p.chunk : p.count;\n"
    "  W sum = 0;\n"
    "  if (p.stage) {\n"
    "    for (int k = lane; o < p.outputs && k < p.parts; k += p.lanes) sum += ((const W *)p.partial)[o * "
    "p.parts + k];\n"
    "  } else if (o < p.outputs)\n"
    "    sum = total((const S *)p.x + offset(o, p.nk, p.ksize, p.kin), begin + lane, end, p.lanes, &p);\n"
    "  sum = join(sum, p.lanes, lane);\n"
    "  if (lane || o >= p.outputs) return;\n"
    "  if (p.parts > 1 && !p.stage) ((W *)p.partial)[o * p.parts + blockIdx.y] = sum;\n"
    "  else finish(&p, o, sum);\n"
    "}\n";

/* ---- the text ---- */

static const char *const c_types[] = {
    [CN_BOOL] = "unsigned char",
    [CN_U8] = "unsigned char",
    [CN_I8] = "signed char",
    [CN_I16] = "short",
    [CN_I32] = "int",
    [CN_I64] = "long long",
    [CN_U16] = "unsigned short",
    [CN_U32] = "unsigned int",
    [CN_U64] = "unsigned long long",
    [CN_F16] = "unsigned short",
    [CN_BF16] = "unsigned short",
    [CN_F32] = "float",
    [CN_F64] = "double",
};

static const char halves_text[] =
    "static float load_f16(unsigned short h)\n"
    "{ float f; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(f) : \"h\"(h)); return f; }\n"
    "static unsigned short store_f16(float f)\n"
    "{ unsigned short h; asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(h) : \"f\"(f)); return h; }\n"
    "static float load_bf16(unsigned short h) { return __uint_as_float((unsigned int)h << 16); }\n"
    "static unsigned short store_bf16(float f)\n"
    "{\n"
    "  const unsigned int u = __float_as_uint(f);\n"
    "  return (unsigned short)(f != f ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16);\n"
    "}\n";

typedef struct types {
  int from, to;
} types;

static bool is_float(int dtype) { return dtype >= CN_F16 && dtype <= CN_F64; }

static char *text_of(const void *payload, size_t *size)
{
  const types *t = payload;
  const char *add = t->to == CN_F64 ? "double" : is_float(t->to) ? "float" : "long long";
  const char *load = t->from == CN_F16    ? "load_f16(v)"
                     : t->from == CN_BF16 ? "load_bf16(v)"
                     : t->from == CN_BOOL ? "((v) != 0)"
                                          : "(v)";
  const char *store = t->to == CN_F16    ? "store_f16((float)(v))"
                      : t->to == CN_BF16 ? "store_bf16((float)(v))"
                      : t->to == CN_BOOL ? "((v) != 0)"
                                         : "((D)(v))";
  char *text = cni_cuda_host->memory(TEXT);
  if (!text) return NULL;
  *size = TEXT;
  snprintf(text, TEXT,
           "typedef %s S;\ntypedef %s D;\ntypedef %s A;\ntypedef %s W;\n#define LOAD(v) ((A)%s)\n#define "
           "STORE(v) %s\n"
           "%s%s",
           c_types[t->from], c_types[t->to], add, is_float(t->to) ? "double" : "long long", load, store,
           halves_text, kernel_text);
  return text;
}

/* ---- the plan ---- */

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

/* Joins neighbouring dims that are one run in memory. */
static int merge(int n, long long *size, long long *stride)
{
  int m = 0;
  for (int i = 1; i < n; i++) {
    bool one = stride[m] == stride[i] * size[i];
    if (one) size[m] *= size[i];
    else size[++m] = size[i];
    stride[m] = stride[i];
  }
  return n ? m + 1 : 0;
}

static void plan_dims(job *j, const cn_desc *x, uint32_t mask)
{
  j->outputs = j->count = 1;
  for (int i = 0; i < x->ndim; i++) {
    bool reduced = mask >> i & 1;
    *(reduced ? &j->count : &j->outputs) *= x->shape[i];
    if (x->shape[i] == 1) continue;
    if (!reduced) {
      j->ksize[j->nk] = x->shape[i];
      j->kin[j->nk++] = x->strides[i];
      continue;
    }
    int at = j->nr++;
    for (; at > 0 && magnitude(j->rin[at - 1]) < magnitude(x->strides[i]); at--) {
      j->rsize[at] = j->rsize[at - 1];
      j->rin[at] = j->rin[at - 1];
    }
    j->rsize[at] = x->shape[i];
    j->rin[at] = x->strides[i];
  }
  j->nk = merge(j->nk, j->ksize, j->kin);
  j->nr = merge(j->nr, j->rsize, j->rin);
}

static int power_of_two(int64_t least, int most)
{
  int n = 1;
  while (n < most && n < least) n *= 2;
  return n;
}

/* Threads side by side read neighbouring elements: along a reduced dim (they share an output), or along a
 * kept one. */
static void plan_work(job *j, int units)
{
  bool rows = j->nr && (!j->nk || magnitude(j->rin[j->nr - 1]) <= magnitude(j->kin[j->nk - 1]));
  j->lanes = rows ? power_of_two(j->count, THREADS) : 1;
  int64_t wanted = (int64_t)units * THREADS_PER_UNIT / (j->outputs * j->lanes);
  int64_t most = j->count / ((int64_t)j->lanes * LEAST_WORK);
  int64_t parts = wanted < most ? wanted : most;
  if (parts > MOST_PARTS) parts = MOST_PARTS;
  if (parts < 1) parts = 1;
  j->chunk = (j->count + parts - 1) / parts;
  j->chunk = (j->chunk + j->lanes - 1) / j->lanes * j->lanes;
  j->parts = j->count ? (int)((j->count + j->chunk - 1) / j->chunk) : 1;
}

static uint32_t mask_of(const cn_value *dims, int ndim)
{
  uint32_t mask = 0;
  if (dims->tag == CN_V_NONE || dims->n == 0) return ndim ? (1u << ndim) - 1 : 1;
  for (int i = 0; i < dims->n; i++) {
    int64_t k = dims->tag == CN_V_INT ? dims->u.i : dims->u.is[i];
    mask |= 1u << (k < 0 ? k + (ndim ? ndim : 1) : k);
  }
  return mask;
}

/* ---- the kernels ---- */

static int launch(cni_cuda_device *d, const char *name, job *j, const types *t)
{
  CUfunction function;
  int status = cni_cuda_function(&function, d, cn_hash_more(0x6d7573, t, sizeof *t), "cn_sum", text_of, t);
  if (status) return status;
  size_t bytes = (size_t)j->outputs * (size_t)j->parts * 8;
  if (j->parts > 1 && !(j->partial = cni_cuda_alloc(d->index, bytes)))
    return cni_cuda_host->fail(CN_ERR_MEMORY, "%s: out of device memory: %zu bytes", name, bytes);
  int64_t per = THREADS / j->lanes;
  status = cni_cuda_launch(d, name, function, (j->outputs + per - 1) / per, j->parts, THREADS, j);
  if (j->parts == 1) return status;
  j->stage = 1;
  j->lanes = power_of_two(j->parts, THREADS);
  per = THREADS / j->lanes;
  if (!status) status = cni_cuda_launch(d, name, function, (j->outputs + per - 1) / per, 1, THREADS, j);
  cni_cuda_free(d->index, j->partial, bytes); /* whoever gets it next comes after in the stream */
  return status;
}

/* sum(input, dim, keepdim, dtype) and mean */
static int reduce(cn_call *c, bool mean)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]);
  cni_cuda_device *d = cni_cuda_of(c);
  types t = {x->dtype, y->dtype};
  job j;
  if (!d) return CN_ERR_DEVICE;
  if (t.from > CN_F64 || t.to > CN_F64) {
    c->refusal = "a type for storage only";
    return CN_REFUSED;
  }
  if (y->numel == 0) return CN_OK;
  memset(&j, 0, sizeof j);
  j.x = x->data;
  j.y = y->data;
  j.mean = mean;
  plan_dims(&j, x, mask_of(&c->args[1], x->ndim));
  plan_work(&j, d->units);
  return launch(d, cni_cuda_host->op_name(c->op), &j, &t);
}

int cni_cuda_sum(cn_call *c) { return reduce(c, false); }
int cni_cuda_mean(cn_call *c) { return reduce(c, true); }
