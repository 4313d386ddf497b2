/* dnn.c: a cuDNN for tests on machines without a GPU: convolutions, with what is behind them, by plain loops.
 *
 * Place in the flow: built as a library under the vendor's name, in a folder of its own (simt/dnn), which a test puts
 * in front of tests/simt. A graph has three engines: 0 rounds (to Tensor Cores' types, as it says) and takes three
 * milliseconds, 1 is plain and takes two, 2 takes one, but would have to be compiled first. Invariant: what is not a
 * convolution of float32 or bfloat16 in two dims has no engines. */
#include <cuda.h>
#include <cudnn.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENGINES = 3, MOST = 64, ATTRIBUTES = 16, WORKSPACE = 64 };
#define EXPORT __attribute__((visibility("default")))

/* How often each engine ran, and how many plans were finalized: tests read them (dlsym). */
EXPORT int simt_dnn_runs[ENGINES], simt_dnn_plans;

/* ---- descriptors: attributes as they were given ---- */

typedef struct attribute {
  int name;
  int64_t n;
  union {
    int64_t ints[8];
    void *pointers[MOST];
    int number;
    bool yes;
  } u;
} attribute;

/* What a plan computes: w is the filter, `out` the tensor that the convolution's kind writes. */
typedef struct plan {
  int kind, type, engine;
  int64_t x[4], w[4], y[4], stride[2], padding[2], dilation[2];
  int64_t uid[3], bias, residual; /* uids; 0: absent */
  bool relu;
} plan;

typedef struct thing {
  cudnnBackendDescriptorType_t type;
  attribute attributes[ATTRIBUTES];
  int n;
  plan plan;
} thing;

static const attribute *find(const thing *t, int name)
{
  for (int i = 0; i < t->n; i++)
    if (t->attributes[i].name == name) return &t->attributes[i];
  return NULL;
}
static const thing *thing_at(const thing *t, int name)
{
  const attribute *a = find(t, name);
  return a ? a->u.pointers[0] : NULL;
}
static int number_of(const thing *t, int name)
{
  const attribute *a = find(t, name);
  return a ? a->u.number : 0;
}
static void read_ints(int64_t *to, const thing *t, int name, int n)
{
  const attribute *a = find(t, name);
  for (int i = 0; a && i < n; i++) to[i] = a->u.ints[i];
}
static int64_t uid_of(const thing *t)
{
  int64_t uid = 0;
  read_ints(&uid, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, 1);
  return uid;
}

static size_t size_of(cudnnBackendAttributeType_t type)
{
  switch (type) {
  case CUDNN_TYPE_HANDLE:
  case CUDNN_TYPE_VOID_PTR:
  case CUDNN_TYPE_BACKEND_DESCRIPTOR: return sizeof(void *);
  case CUDNN_TYPE_INT64: return 8;
  case CUDNN_TYPE_BOOLEAN:
  case CUDNN_TYPE_CHAR: return 1;
  default: return 4;
  }
}

EXPORT cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *made)
{
  thing *t = calloc(1, sizeof *t);
  if (t) t->type = type;
  *made = t;
  return t ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_ALLOC_FAILED;
}
EXPORT cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t t)
{
  free(t);
  return CUDNN_STATUS_SUCCESS;
}

EXPORT cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                              cudnnBackendAttributeType_t type, int64_t n, const void *value)
{
  thing *t = descriptor;
  if (name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION) {
    if (n != (int64_t)sizeof t->plan) return CUDNN_STATUS_BAD_PARAM;
    memcpy(&t->plan, value, sizeof t->plan);
    return CUDNN_STATUS_SUCCESS;
  }
  if (t->n == ATTRIBUTES || (size_t)n * size_of(type) > sizeof t->attributes->u) return CUDNN_STATUS_NOT_SUPPORTED;
  attribute *a = &t->attributes[t->n++];
  a->name = (int)name;
  a->n = n;
  memcpy(&a->u, value, (size_t)n * size_of(type));
  return CUDNN_STATUS_SUCCESS;
}

/* ---- plans ---- */

static bool read_convolution(plan *p, const thing *o)
{
  static const int names[3][4] = {
      {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
  };
  p->kind = (int)o->type - CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
  if (p->kind < 0 || p->kind > 2) return false;
  const thing *c = thing_at(o, names[p->kind][0]);
  int64_t *shapes[] = {p->x, p->w, p->y};
  for (int i = 0; i < 3; i++) {
    const thing *t = thing_at(o, names[p->kind][1 + i]);
    read_ints(shapes[i], t, CUDNN_ATTR_TENSOR_DIMENSIONS, 4);
    p->uid[i] = uid_of(t);
    if (i < 2) p->type = number_of(t, CUDNN_ATTR_TENSOR_DATA_TYPE);
  }
  read_ints(p->stride, c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 2);
  read_ints(p->padding, c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 2);
  read_ints(p->dilation, c, CUDNN_ATTR_CONVOLUTION_DILATIONS, 2);
  return p->type == CUDNN_DATA_FLOAT || p->type == CUDNN_DATA_BFLOAT16;
}

static bool read_graph(plan *p, const thing *graph)
{
  const attribute *operations = find(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
  if (!operations || !read_convolution(p, operations->u.pointers[0])) return false;
  for (int64_t i = 1; i < operations->n; i++) {
    const thing *o = operations->u.pointers[i], *mode = thing_at(o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const thing *b = thing_at(o, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    int64_t shape[4] = {0};
    if (b) read_ints(shape, b, CUDNN_ATTR_TENSOR_DIMENSIONS, 4);
    if (b) *(shape[0] * shape[2] * shape[3] == 1 ? &p->bias : &p->residual) = uid_of(b);
    else p->relu = number_of(mode, CUDNN_ATTR_POINTWISE_MODE) == CUDNN_POINTWISE_RELU_FWD;
    p->uid[2] = uid_of(thing_at(o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
  }
  return true;
}

EXPORT cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor)
{
  thing *t = descriptor;
  const thing *config = t->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR
                            ? thing_at(t, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
                            : NULL;
  if (t->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) simt_dnn_plans++;
  if (config) t->plan = config->plan;
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t give(int64_t *got, int64_t n, void *to, const void *from, int64_t room, size_t size)
{
  if (got) *got = n;
  if (to && room) memcpy(to, from, (size_t)(room < n ? room : n) * size);
  return CUDNN_STATUS_SUCCESS;
}

EXPORT cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                              cudnnBackendAttributeType_t type, int64_t room, int64_t *got, void *to)
{
  static const int64_t workspace = WORKSPACE;
  static const cudnnBackendNumericalNote_t rounds = CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
  static const cudnnBackendBehaviorNote_t compiles = CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
  thing *t = descriptor;
  plan p = {0};
  switch (name) {
  case CUDNN_ATTR_ENGINEHEUR_RESULTS:
    if (!read_graph(&p, thing_at(t, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH))) return CUDNN_STATUS_NOT_SUPPORTED;
    for (p.engine = 0; p.engine < room && p.engine < ENGINES; p.engine++) ((thing **)to)[p.engine]->plan = p;
    return give(got, ENGINES, NULL, NULL, 0, 0);
  case CUDNN_ATTR_ENGINECFG_ENGINE: ((thing **)to)[0]->plan = t->plan; return give(got, 1, NULL, NULL, 0, 0);
  case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: return give(got, t->plan.engine == 0, to, &rounds, room, size_of(type));
  case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE: return give(got, t->plan.engine == 2, to, &compiles, room, size_of(type));
  case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE: return give(got, 1, to, &workspace, room, size_of(type));
  case CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION: return give(got, sizeof t->plan, to, &t->plan, room, 1);
  default: return CUDNN_STATUS_NOT_SUPPORTED;
  }
}

/* ---- runs ---- */

typedef struct handle {
  CUstream stream;
} handle;

/* What the emulated driver has under a name. */
static void *in_driver(const char *name)
{
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return driver ? dlsym(driver, name) : NULL;
}

static float load(const plan *p, const void *data, int64_t i)
{
  if (p->type == CUDNN_DATA_FLOAT) return ((const float *)data)[i];
  uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
  float v;
  memcpy(&v, &bits, sizeof v);
  return v;
}
static void store(const plan *p, void *data, int64_t i, float v)
{
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  if (p->type == CUDNN_DATA_FLOAT) ((float *)data)[i] = v;
  else ((uint16_t *)data)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* An element of a tensor whose channels are innermost. */
static int64_t at(const int64_t *shape, int64_t n, int64_t c, int64_t h, int64_t w)
{
  return ((n * shape[2] + h) * shape[3] + w) * shape[1] + c;
}

/* Adds every product of the convolution to the element of `sums` that it belongs to. */
static void convolve(const plan *p, void *const *data, float *sums)
{
  int64_t groups = p->x[1] / p->w[1], per = p->w[0] / groups;
  for (int64_t i = 0; i < p->y[0] * p->w[0] * p->y[2] * p->y[3]; i++)
    for (int64_t t = 0; t < p->w[1] * p->w[2] * p->w[3]; t++) {
      int64_t ow = i % p->y[3], oh = i / p->y[3] % p->y[2], k = i / p->y[3] / p->y[2] % p->w[0];
      int64_t n = i / p->y[3] / p->y[2] / p->w[0];
      int64_t s = t % p->w[3], r = t / p->w[3] % p->w[2], c = t / p->w[3] / p->w[2];
      int64_t h = oh * p->stride[0] + r * p->dilation[0] - p->padding[0];
      int64_t w = ow * p->stride[1] + s * p->dilation[1] - p->padding[1];
      if (h < 0 || h >= p->x[2] || w < 0 || w >= p->x[3]) continue;
      int64_t places[] = {at(p->x, n, k / per * p->w[1] + c, h, w), at(p->w, k, c, r, s), at(p->y, n, k, oh, ow)};
      static const int written[] = {2, 1, 0};
      int to = written[p->kind], a = to == 0, b = to == 2 ? 1 : 2;
      sums[places[to]] += load(p, data[a], places[a]) * load(p, data[b], places[b]);
    }
}

static void *pointer(const thing *pack, int64_t uid)
{
  const attribute *uids = find(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const attribute *pointers = find(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  for (int64_t i = 0; uid && i < uids->n; i++)
    if (uids->u.ints[i] == uid) return pointers->u.pointers[i];
  return NULL;
}

typedef struct run {
  plan plan;
  void *data[3], *bias, *residual; /* data: image, filter, result */
} run;

/* A run, when the device comes to it. 0: done. */
static int execute(const void *argument)
{
  const run *r = argument;
  const plan *p = &r->plan;
  const int64_t *shapes[] = {p->y, p->w, p->x}, *shape = shapes[p->kind];
  float *clock = in_driver("simt_clock");
  int64_t n = shape[0] * shape[1] * shape[2] * shape[3];
  float *sums = calloc((size_t)n, sizeof *sums);
  if (!sums) return 1;
  simt_dnn_runs[p->engine]++;
  if (clock) *clock += (float)(ENGINES - p->engine);
  convolve(p, r->data, sums);
  for (int64_t i = 0; i < n; i++) {
    float v = sums[i] + (r->residual ? load(p, r->residual, i) : 0) + (r->bias ? load(p, r->bias, i % shape[1]) : 0);
    store(p, r->data[2 - p->kind], i, p->relu && v <= 0 ? 0 : v);
  }
  free(sums);
  return 0;
}

EXPORT cudnnStatus_t cudnnBackendExecute(cudnnHandle_t h, cudnnBackendDescriptor_t made, cudnnBackendDescriptor_t pack)
{
  run r = {.plan = ((const thing *)made)->plan};
  CUresult (*queue)(CUstream, int (*)(const void *), const void *, size_t);
  *(void **)&queue = in_driver("simt_queue");
  r.bias = pointer(pack, r.plan.bias);
  r.residual = pointer(pack, r.plan.residual);
  for (int i = 0; i < 3; i++)
    if (!(r.data[i] = pointer(pack, r.plan.uid[i]))) return CUDNN_STATUS_BAD_PARAM;
  bool queued = queue && queue(((const handle *)h)->stream, execute, &r, sizeof r) == CUDA_SUCCESS;
  return queued ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

EXPORT cudnnStatus_t cudnnCreate(cudnnHandle_t *h)
{
  *h = (cudnnHandle_t)calloc(1, sizeof(handle));
  return *h ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_ALLOC_FAILED;
}
EXPORT cudnnStatus_t cudnnDestroy(cudnnHandle_t h)
{
  free(h);
  return CUDNN_STATUS_SUCCESS;
}
EXPORT cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t s)
{
  ((handle *)h)->stream = (CUstream)s;
  return CUDNN_STATUS_SUCCESS;
}
EXPORT size_t cudnnGetVersion(void) { return 90000; }
EXPORT const char *cudnnGetErrorString(cudnnStatus_t s) { return s ? "an error" : "no error"; }
EXPORT void cudnnGetLastErrorString(char *text, size_t n) { snprintf(text, n, "none"); }
