/* decoder.c: the layers of a decoder for one token of one text.
 *
 * Place in the flow: the kernel of decoder_step. What such a layer takes is not its arithmetic but how often kernels
 * wait for one another, so it is two launches (kernels/decoder_attend.cu, decoder_feed.cu) where its weights fit into
 * the shared memory of all blocks, and those of decode.c otherwise. Invariant: sizes of shared memory are those that
 * the kernels make of their numbers. */
#include <math.h>
#include <string.h>

#include "decode.h"

enum { THREADS = 256, WARPS = THREADS / 32, CLUSTER_MOST = 8, SHARE_MOST = 8, WIDTH_MOST = 256, BLOCKS_MOST = 8 };
enum { UNITS_OUT = 2, UNITS_DOWN = 4 }; /* of 8 rows that a warp multiplies at a time */
/* Places among the tensors of decoder_step (ops/decode.c), */
enum { KEYS, VALUES, OUTPUT, INPUT, POSITION, COSINES, SINES, WEIGHTS };
/* ... among those of a layer: a bias stands behind its weight, */
enum { NORM, Q = 2, K = 4, V = 6, OUT = 8, FEED_NORM = 10, GATE = 12, UP = 14, DOWN = 16, OF_LAYER = 18 };
/* ... and among its arguments. */
enum { NORM_WORD = WEIGHTS + 1, EPS, ACTIVATION, SCALES, STEADY };

/* As in the kernels. */
typedef struct norm_weights {
  const void *w, *b;
} norm_weights;
typedef struct attend_job {
  const void *x;
  norm_weights norm;
  const void *q, *k, *v, *out, *q_bias, *k_bias, *v_bias;
  void *keys, *values;
  const void *position, *cosines, *sines;
  void *parts, *turns;
  int64_t length;
  int32_t width, kind;
  float eps, scale;
  int32_t steady, unused;
  cni_cuda_slot fault;
} attend_job;
typedef struct feed_job {
  const void *x, *parts, *out_bias;
  norm_weights norm;
  const void *gate, *up, *down, *gate_bias, *up_bias, *down_bias;
  void *sums, *turns, *y;
  int32_t width, inner, heads, kind, act;
  float eps;
  int32_t steady, unused;
} feed_job;

/* What the layers are, in numbers. */
typedef struct decoder {
  cn_call *c;
  cni_cuda_device *d;
  const char *name;
  int dtype;
  int64_t size, vector, layers;                         /* bytes of an element, elements of a pack */
  int64_t width, inner, key_heads, share, head, length; /* share: queries' heads for a key's; head: its width */
  int32_t norm, activation;
  float eps;
  bool gated, steady;
} decoder;

static const void *given(const decoder *l, int i) { return data_of(l->c->in[i]); }
/* Of a layer's weights. */
static const void *weight(const decoder *l, int64_t layer, int i)
{
  return data_of(l->c->in[WEIGHTS + layer * OF_LAYER + i]);
}
/* A layer's keys or values. */
static void *cache_of(const decoder *l, int i, int64_t layer)
{
  return (char *)cn_desc_of(l->c->out[i])->data + layer * l->key_heads * l->length * l->head * l->size;
}
static float scale_of(const decoder *l, int64_t layer)
{
  const cn_value *scales = &l->c->args[SCALES];
  return (float)(scales->tag == CN_V_FLOATS ? scales->u.fs[layer] : 1 / sqrt((double)l->head));
}

static const char *refusal(const cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[INPUT]), *keys = cn_desc_of(c->in[KEYS]), *up = cn_desc_of(c->in[WEIGHTS + UP]);
  if (!is_short_float(x->dtype)) return "it takes float16, bfloat16 or float32";
  int64_t vector = PACK / (int64_t)cn_element_size(x->dtype), width = keys->shape[4];
  if (x->shape[0] != 1) return "it takes one row";
  if (!keys->numel || width % vector || width % 2 || width > WIDTH_MOST || !x->numel || x->numel % vector ||
      !up->numel || up->shape[0] % vector || keys->shape[3] > INT32_MAX)
    return "a row or a head is no whole packs, or too long";
  for (int i = 0; i < c->nin; i++) {
    if (!is_row(c->in[i])) return "an operand is strided";
    if (i < WEIGHTS) continue;
    const cn_tensor *first = c->in[WEIGHTS + (i - WEIGHTS) % OF_LAYER];
    if (!first != !c->in[i] || (first && cn_desc_of(first)->numel != cn_desc_of(c->in[i])->numel))
      return "layers differ";
  }
  for (int i = 0; i <= OUTPUT; i++)
    if (!is_row(c->out[i])) return "a result is strided";
  return NULL;
}

static decoder decoder_of(cn_call *c, cni_cuda_device *d)
{
  const cn_desc *x = cn_desc_of(c->in[INPUT]), *keys = cn_desc_of(c->in[KEYS]);
  decoder l = {.c = c, .d = d, .name = cni_cuda_host->op_name(c->op), .dtype = x->dtype, .width = x->numel,
               .layers = keys->shape[0], .inner = cn_desc_of(c->in[WEIGHTS + UP])->shape[0],
               .key_heads = keys->shape[2], .head = keys->shape[4], .length = keys->shape[3],
               .norm = cni_cuda_step_norm(c->args[NORM_WORD].u.s),
               .activation = cni_cuda_step_activation(c->args[ACTIVATION].u.s), .eps = (float)number(&c->args[EPS]),
               .gated = c->in[WEIGHTS + GATE] != NULL, .steady = c->args[STEADY].u.i != 0};
  l.size = (int64_t)cn_element_size(l.dtype);
  l.vector = PACK / l.size;
  l.share = cn_desc_of(c->in[WEIGHTS + Q])->shape[0] / (l.key_heads * l.head);
  return l;
}

/* ---- two launches a layer ---- */

typedef struct plan {
  int64_t blocks;                            /* of four packs each: those of a row that a warp has */
  int64_t cluster, feed_cluster;             /* blocks of a cluster of either kernel */
  int64_t inner, clusters;                   /* of decoder_feed.cu: columns of a block */
  int64_t attend_shared, feed_shared;
} plan;

/* Threads that have a key together, packs of it for each, as attend.cuh counts them. */
static int64_t lanes_of(int64_t packs)
{
  int64_t lanes = 1;
  while (lanes < packs && lanes < 32) lanes *= 2;
  return lanes;
}

static int64_t attend_shared(const decoder *l, const plan *p)
{
  int64_t lines = (l->share + 2) * l->head, own = lines / p->cluster, units = parts(own, 8);
  int64_t packs = l->head / l->vector;
  int64_t lanes = lanes_of(packs), each = parts(packs, lanes), ahead = each > 1 ? 2 : 4;
  int64_t deep = parts(l->share * packs, 4), rounds = parts(l->width / p->cluster, WARPS * UNITS_OUT * 8);
  int64_t joined = p->cluster * l->share * (l->head / 4 + 1) * 16, seen = l->share * WARPS * (l->head + 2) * 4;
  int64_t row = (WARPS * 4 * p->blocks + 4 * deep) * PACK, sums = WARPS * (4 + units * 8) * 4;
  return 16 + joined + (lines + own) * l->size + row + sums + seen +
         (units * p->blocks + rounds * UNITS_OUT * deep + ahead * 2 * each) * THREADS * PACK;
}

static int64_t feed_shared(const decoder *l, const plan *p)
{
  int64_t weights = l->gated ? 2 : 1, units = parts(p->inner, 8), deep = parts(p->inner / l->vector, 4);
  int64_t rounds = parts(l->width, WARPS * UNITS_DOWN * 8);
  int64_t sums = WARPS * (weights * units * 8 + 4 + UNITS_DOWN * 8) * 4;
  int64_t row = (WARPS * 4 * p->blocks + 4 * deep) * PACK;
  return 32 + 8 * l->width + sums + row + (weights * units * p->blocks + rounds * UNITS_DOWN * deep) * THREADS * PACK;
}

/* Blocks that run at once share the columns in between. Clusters lie within a part of the device, so that some units
 * are left over: three quarters of all have been seen to be free for them. */
static void plan_feed(plan *p, const decoder *l)
{
  int64_t cluster = p->feed_cluster, blocks = l->d->units * 3 / 4 / cluster * cluster, packs = l->inner / l->vector;
  if (blocks < cluster) blocks = cluster;
  p->inner = parts(packs, blocks) * l->vector;
  p->clusters = parts(l->inner, p->inner * cluster);
  p->feed_shared = feed_shared(l, p);
}

/* The most blocks among which lines and columns can be dealt out evenly, in parcels of 16 bytes. */
static bool make_plan(plan *p, const decoder *l)
{
  int64_t lines = (l->share + 2) * l->head, most = l->d->clusters ? CLUSTER_MOST : 1;
  p->cluster = p->feed_cluster = most;
  while (l->width % (4 * p->feed_cluster)) p->feed_cluster /= 2;
  while (l->width % (4 * p->cluster) || lines % p->cluster || lines / p->cluster * l->size % PACK) p->cluster /= 2;
  p->blocks = parts(l->width / l->vector, 4 * WARPS);
  if (p->blocks > BLOCKS_MOST || l->share > SHARE_MOST) return false;
  plan_feed(p, l);
  p->attend_shared = attend_shared(l, p);
  return lines / p->cluster <= THREADS && p->inner <= THREADS - 4 * l->vector &&
         p->attend_shared <= l->d->most_shared && p->feed_shared <= l->d->most_shared;
}

static int launch(const decoder *l, const plan *p, const char *file, const char *entry, int64_t number, int64_t more,
                  int64_t cluster, int64_t clusters, int64_t shared, void *job)
{
  cni_cuda_code code = {.file = file, .entry = entry, .types = {l->dtype}, .number = (int)number, .threads = THREADS,
                        .form = (int)(cluster | more << 4 | p->blocks << 8)};
  cni_cuda_grid grid = {.x = clusters * cluster, .y = 1, .threads = THREADS, .shared = (size_t)shared, .early = true,
                        .carveout = 100, .cluster = (int)cluster};
  return cni_cuda_run(l->d, l->name, &code, grid, job);
}

/* Between the launches: parts of heads and of clusters (float32), and whose turn it is to add those up. */
typedef struct room {
  char *parts, *sums, *turns;
} room;

static int run_attend(const decoder *l, const plan *p, const room *m, int64_t n, const void *x)
{
  attend_job j = {.x = x, .norm = {weight(l, n, NORM), weight(l, n, NORM + 1)}, .q = weight(l, n, Q),
                  .k = weight(l, n, K), .v = weight(l, n, V), .out = weight(l, n, OUT), .q_bias = weight(l, n, Q + 1),
                  .k_bias = weight(l, n, K + 1), .v_bias = weight(l, n, V + 1), .keys = cache_of(l, KEYS, n),
                  .values = cache_of(l, VALUES, n), .position = given(l, POSITION), .cosines = given(l, COSINES),
                  .sines = given(l, SINES), .parts = m->parts, .turns = m->turns, .length = l->length,
                  .width = (int32_t)l->width, .kind = l->norm, .eps = l->eps, .scale = scale_of(l, n),
                  .steady = l->steady, .fault = cni_cuda_slot_for(l->d, l->name)};
  return launch(l, p, "decoder_attend.cu", "decoder_attend", l->head, l->share, p->cluster, l->key_heads,
                p->attend_shared, &j);
}

static int run_feed(const decoder *l, const plan *p, const room *m, int64_t n, const void *x, void *y)
{
  feed_job j = {.x = x, .parts = m->parts, .out_bias = weight(l, n, OUT + 1),
                .norm = {weight(l, n, FEED_NORM), weight(l, n, FEED_NORM + 1)}, .gate = weight(l, n, GATE),
                .up = weight(l, n, UP), .down = weight(l, n, DOWN), .gate_bias = weight(l, n, GATE + 1),
                .up_bias = weight(l, n, UP + 1), .down_bias = weight(l, n, DOWN + 1), .sums = m->sums,
                .turns = m->turns, .y = y, .width = (int32_t)l->width, .inner = (int32_t)l->inner,
                .heads = (int32_t)l->key_heads, .kind = l->norm, .act = l->activation, .eps = l->eps,
                .steady = l->steady};
  return launch(l, p, "decoder_feed.cu", "decoder_feed", p->inner, l->gated, p->feed_cluster, p->clusters,
                p->feed_shared, &j);
}

static int64_t packed(const decoder *l, int64_t n) { return parts(n * l->size, PACK) * PACK; }

/* Where layer n's result goes: `rows` has room for two of them. */
static char *result_of(const decoder *l, char *rows, int64_t n)
{
  return n == l->layers - 1 ? cn_desc_of(l->c->out[OUTPUT])->data : rows + n % 2 * packed(l, l->width);
}

static int run_at_once(const decoder *l, const plan *p)
{
  int64_t heads = 4 * l->key_heads * l->width, clusters = 4 * p->clusters * l->width;
  size_t bytes = (size_t)(heads + clusters + 4 * CLUSTER_MOST + 2 * packed(l, l->width));
  char *memory = cni_cuda_scratch(l->d, l->name, bytes);
  if (!memory) return CN_ERR_MEMORY;
  room m = {.parts = memory, .sums = memory + heads, .turns = memory + heads + clusters};
  const char *x = given(l, INPUT);
  int status = CN_OK;
  for (int64_t n = 0; n < l->layers && !status; n++) {
    char *y = result_of(l, m.turns + 4 * CLUSTER_MOST, n);
    status = run_attend(l, p, &m, n, x);
    if (!status) status = run_feed(l, p, &m, n, x, y);
    x = y;
  }
  cni_cuda_free(l->d, memory, bytes);
  return status;
}

/* ---- by parts ---- */

/* One layer: of a row x into y, with room for what is between. */
typedef struct pieces {
  int64_t n; /* its number */
  const char *x;
  char *y, *lines, *heads, *middle, *inner, *gate;
} pieces;

/* A linear layer of weight `at`, of n results and k columns, from x into y. */
static cni_cuda_linear_job linear_of(const decoder *l, int64_t layer, int at, const void *x, void *y, int64_t n,
                                     int64_t k)
{
  return (cni_cuda_linear_job){.x = x, .w = weight(l, layer, at), .b = weight(l, layer, at + 1), .y = y, .n = n,
                               .ld = k, .k = (int32_t)k, .eps = l->eps, .steady = l->steady};
}

static int run_linear(const decoder *l, cni_cuda_linear_job *j)
{
  return cni_cuda_linear_launch(l->d, l->name, j, l->dtype, 1, true);
}
static int run_normed(const decoder *l, cni_cuda_linear_job *j, int64_t layer, int norm)
{
  j->norm = l->norm, j->nw = weight(l, layer, norm), j->nb = weight(l, layer, norm + 1);
  return run_linear(l, j);
}

/* Does tensor b begin where a, of so many bytes, ends? Or is there neither? */
static bool follows(const char *a, const char *b, int64_t bytes) { return a && b ? b == a + bytes : !a && !b; }

/* Queries, keys and values of n columns each: one launch where their weights are parts of one. */
static int lines_by_parts(const decoder *l, const pieces *p, const int64_t *n)
{
  static const int weights[] = {Q, K, V};
  char *to = p->lines;
  bool one = true;
  for (int i = 0; i < 4; i++) { /* weights, biases */
    int at = weights[i / 2] + i % 2;
    one = one && follows(weight(l, p->n, at), weight(l, p->n, at + 2), n[i / 2] * (i % 2 ? 1 : l->width) * l->size);
  }
  int status = CN_OK;
  for (int i = 0; i < (one ? 1 : 3) && !status; i++) {
    cni_cuda_linear_job j = linear_of(l, p->n, weights[i], p->x, to, one ? n[0] + n[1] + n[2] : n[i], l->width);
    status = run_normed(l, &j, p->n, NORM);
    to += n[i] * l->size;
  }
  return status;
}

static int attend_by_parts(const decoder *l, const pieces *p)
{
  int64_t keys = l->key_heads * l->head, n[] = {l->share * keys, keys, keys};
  int status = lines_by_parts(l, p, n);
  cni_cuda_attend_job j = {.keys = cache_of(l, KEYS, p->n), .values = cache_of(l, VALUES, p->n), .y = p->heads,
                           .q = p->lines, .k = p->lines + n[0] * l->size, .v = p->lines + (n[0] + keys) * l->size,
                           .qb = n[0], .qh = l->head, .kb = keys, .kh = l->head, .vb = keys, .vh = l->head,
                           .position = given(l, POSITION), .cosines = given(l, COSINES), .sines = given(l, SINES),
                           .length = l->length, .heads = (int32_t)(l->key_heads * l->share),
                           .key_heads = (int32_t)l->key_heads, .scale = scale_of(l, p->n), .steady = l->steady,
                           .fault = cni_cuda_slot_for(l->d, l->name)};
  if (!status) status = cni_cuda_attend_launch(l->d, l->name, &j, j.heads, l->dtype, (int)l->head);
  cni_cuda_linear_job out = linear_of(l, p->n, OUT, p->heads, p->middle, l->width, n[0]);
  out.other = p->x, out.join = CNI_CUDA_PLUS;
  return status ? status : run_linear(l, &out);
}

static int feed_by_parts(const decoder *l, const pieces *p)
{
  int status = CN_OK;
  cni_cuda_linear_job up = linear_of(l, p->n, UP, p->middle, p->inner, l->inner, l->width);
  up.act = l->activation;
  if (l->gated) {
    cni_cuda_linear_job gate = linear_of(l, p->n, GATE, p->middle, p->gate, l->inner, l->width);
    gate.act = l->activation;
    status = run_normed(l, &gate, p->n, FEED_NORM);
    up.act = cni_cuda_step_activation("none"), up.other = p->gate, up.join = CNI_CUDA_TIMES;
  }
  if (!status) status = run_normed(l, &up, p->n, FEED_NORM);
  cni_cuda_linear_job down = linear_of(l, p->n, DOWN, p->inner, p->y, l->width, l->inner);
  down.other = p->middle, down.join = CNI_CUDA_PLUS;
  return status ? status : run_linear(l, &down);
}

static int run_by_parts(const decoder *l)
{
  int64_t queries = l->key_heads * l->share * l->head, lines = queries + 2 * l->key_heads * l->head;
  int64_t row = packed(l, l->width), inner = packed(l, l->inner);
  size_t bytes = (size_t)(packed(l, lines) + packed(l, queries) + 3 * row + 2 * inner);
  char *memory = cni_cuda_scratch(l->d, l->name, bytes);
  if (!memory) return CN_ERR_MEMORY;
  pieces p = {.x = given(l, INPUT), .lines = memory, .heads = memory + packed(l, lines)};
  p.middle = p.heads + packed(l, queries);
  p.inner = p.middle + row, p.gate = p.inner + inner;
  int status = CN_OK;
  for (; p.n < l->layers && !status; p.n++, p.x = p.y) {
    p.y = result_of(l, p.gate + inner, p.n);
    status = attend_by_parts(l, &p);
    if (!status) status = feed_by_parts(l, &p);
  }
  cni_cuda_free(l->d, memory, bytes);
  return status;
}

int cni_cuda_decoder_step(cn_call *c)
{
  const char *why = refusal(c);
  if (why) return cni_cuda_refuse(c, why);
  cni_cuda_device *d = cni_cuda_of(c);
  if (!d) return CN_ERR_DEVICE;
  decoder l = decoder_of(c, d);
  plan p;
  int status = CN_OK;
  for (int i = KEYS; i <= VALUES && !status; i++)
    if (cache_of(&l, i, 0) != given(&l, i))
      status = cni_cuda_copy_desc(d, l.name, cn_desc_of(c->out[i]), cn_desc_of(c->in[i]));
  if (status) return status;
  return make_plan(&p, &l) ? run_at_once(&l, &p) : run_by_parts(&l);
}
