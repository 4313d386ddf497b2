/* conv_small.c: convolutions of few pixels by tiles whose sums clusters of blocks share (kernels/conv_small.cu).
 *
 * Place in the flow: the second implementation of conv2d and conv2d_fused (conv.c), and tried by conv_dnn.c beside
 * cuDNN's engines where their tiles would leave multiprocessors without work. Invariant: which tiles, and how many
 * blocks share one, follows from the sizes and the device alone, so that results repeat. */
#include "conv.h"

#include <stdio.h>

enum { PACK = 8, DEEP = 8, BYTES = 16 /* of a pack */, SIDE = 32, WARP = 32 };
enum { MOST_SPLIT = 8, MOST_STAGES = 6, FEWEST_STAGES = 2, FIXED = 16 /* bytes shared besides */ };
enum { LIBRARY_TILE = 128 }; /* rows and columns of those that cuDNN multiplies fastest */
enum { MEETING = 32 << 10 }; /* bytes that a multiprocessor brings while the blocks of a cluster wait for each other */
static const int64_t FARTHEST = 1 << 29; /* of a tap from an image's edge, in pixels */

/* As in kernels/conv_small.cu. */
typedef struct job {
  const void *x, *w, *b, *z;
  void *y;
  int32_t rows, cols, row_tiles, h, width, packs, oh, ow, r, s, stride[2], padding[2], dilation[2], relu, unused;
} job;

/* ---- what it takes ---- */

/* Do taps stay where 32 bits reach? */
static bool is_near(const cni_cuda_conv *v)
{
  for (int i = 0; i < 2; i++) {
    int64_t over = v->x->shape[v->x->ndim - 2 + i] + v->padding[i];
    if (over > FARTHEST || v->dilation[i] > FARTHEST || v->w->shape[2 + i] * v->dilation[i] > FARTHEST) return false;
  }
  return true;
}

/* Why it does not; NULL: it does. */
static const char *refusal(const cni_cuda_device *d, const cni_cuda_conv *v)
{
  int t = v->x->dtype;
  if ((t != CN_BF16 && t != CN_F16) || v->w->dtype != t || v->y->dtype != t || (v->z && v->z->dtype != t))
    return "not all of one type of 16-bit floats";
  if (d->major < 8) return "no Tensor Cores that take both types";
  if (v->kind != CNI_CUDA_CONV_FORWARD || v->groups != 1) return "groups, or a gradient";
  if (v->w->shape[0] % PACK || v->w->shape[1] % PACK) return "channels that are no packs of 8";
  if (!v->x->numel || !v->w->numel || !v->y->numel) return "an empty tensor";
  if (v->x->numel > INT32_MAX || v->w->numel > INT32_MAX || v->y->numel > INT32_MAX || !is_near(v))
    return "a tensor of more than 2^31 elements, or a tap as far away";
  return NULL;
}

static int64_t parts(int64_t n, int64_t of) { return (n + of - 1) / of; }

bool cni_cuda_conv_competes(const cni_cuda_device *d, const cni_cuda_conv *v)
{
  if (refusal(d, v)) return false;
  int64_t cols = v->w->shape[0], rows = v->y->numel / cols;
  return parts(rows, LIBRARY_TILE) * parts(cols, LIBRARY_TILE) < d->units;
}

/* ---- how it is dealt out ---- */

typedef struct plan {
  int64_t rows, cols, threads; /* of a tile; of a block */
  int64_t tiles, split, stages, shared;
  int64_t cost;
} plan;

/* Bytes that a block has for parts of sums, and for a chunk. */
static int64_t parts_bytes(const plan *p) { return p->threads * SIDE * SIDE / WARP * (int64_t)sizeof(float); }
static int64_t stage_bytes(const plan *p) { return (p->rows + p->cols) * DEEP * BYTES; }

/* What the busiest multiprocessor waits for, in bytes that it brings: few pixels are little work, so that products are
 * done meanwhile. Parts of sums go out and come in. */
static int64_t cost_of(const plan *p, int64_t chunks, int units)
{
  bool meets = p->split > 1 || p->threads * SIDE * SIDE > p->rows * p->cols * WARP;
  int64_t block = parts(chunks, p->split) * stage_bytes(p) + (meets ? 2 * parts_bytes(p) : 0);
  return parts(p->tiles * p->split, units) * block + (p->split > 1 ? MEETING : 0);
}

/* As many stages as let two blocks be on a multiprocessor. */
static void plan_stages(plan *p, const cni_cuda_device *d)
{
  int64_t room = d->most_shared / 2 - parts_bytes(p) - FIXED;
  p->stages = room / stage_bytes(p);
  if (p->stages > MOST_STAGES) p->stages = MOST_STAGES;
  if (p->stages < FEWEST_STAGES) p->stages = FEWEST_STAGES;
  p->shared = p->stages * stage_bytes(p) + parts_bytes(p) + FIXED;
}

static plan make_plan(const cni_cuda_device *d, const job *j)
{
  static const plan tiles[] = {{.rows = 128, .cols = 64, .threads = 256}, {.rows = 64, .cols = 64, .threads = 128},
                               {.rows = 64, .cols = 32, .threads = 128}, {.rows = 32, .cols = 64, .threads = 128},
                               {.rows = 32, .cols = 32, .threads = 128}};
  int64_t chunks = parts((int64_t)j->r * j->s * j->packs, DEEP);
  int64_t most = d->clusters ? MOST_SPLIT : 1;
  plan best = {0};
  for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++)
    for (int64_t split = 1; split <= most && (split <= chunks || split == 1); split *= 2) {
      plan p = tiles[i];
      p.tiles = parts(j->rows, p.rows) * parts(j->cols, p.cols);
      p.split = split;
      p.cost = cost_of(&p, chunks, d->units);
      plan_stages(&p, d);
      if (p.shared <= d->most_shared && (!best.cost || p.cost < best.cost)) best = p;
    }
  return best;
}

/* ---- the launch ---- */

static job describe(const cni_cuda_small_conv *s)
{
  const cni_cuda_conv *v = s->conv;
  const cn_desc *x = &s->sides[0].last, *w = &s->sides[1].last, *y = &s->sides[2].last;
  job j = {.x = x->data, .w = w->data, .b = s->bias, .z = v->z ? s->sides[3].last.data : NULL, .y = y->data,
           .rows = (int32_t)(y->numel / y->shape[1]), .cols = (int32_t)y->shape[1], .h = (int32_t)x->shape[2],
           .width = (int32_t)x->shape[3], .packs = (int32_t)(x->shape[1] / PACK), .oh = (int32_t)y->shape[2],
           .ow = (int32_t)y->shape[3], .r = (int32_t)w->shape[2], .s = (int32_t)w->shape[3], .relu = v->relu};
  for (int i = 0; i < 2; i++) {
    j.stride[i] = (int32_t)v->stride[i];
    j.padding[i] = (int32_t)v->padding[i];
    j.dilation[i] = (int32_t)v->dilation[i];
  }
  return j;
}

int cni_cuda_conv_small_launch(const cni_cuda_small_conv *s)
{
  job j = describe(s);
  plan p = make_plan(s->device, &j);
  j.row_tiles = (int32_t)parts(j.rows, p.rows);
  cni_cuda_code code = {.file = "conv_small.cu", .entry = "conv_small", .types = {s->conv->x->dtype},
                        .number = (int)p.stages, .threads = (int)p.threads,
                        .form = (int)(p.split | p.rows / SIDE << 4 | p.cols / SIDE << 7)};
  cni_cuda_grid grid = {.x = p.tiles * p.split, .y = 1, .threads = (int)p.threads, .shared = (size_t)p.shared,
                        .carveout = 100, .cluster = (int)p.split};
  return cni_cuda_run(s->device, s->name, &code, grid, &j);
}

void cni_cuda_conv_small_say(char *text, size_t size, const cni_cuda_small_conv *s)
{
  job j = describe(s);
  plan p = make_plan(s->device, &j);
  snprintf(text, size, "conv_small.cu, %d pixels of %dx%d taps and %d channels to %d: tiles of %dx%d, %d blocks each",
           j.rows, j.r, j.s, j.packs * PACK, j.cols, (int)p.rows, (int)p.cols, (int)p.split);
}

int cni_cuda_conv_small(cn_call *c, const cni_cuda_conv *v)
{
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_side s[CNI_CUDA_SIDES];
  cni_cuda_operand b = {0};
  if (!d) return CN_ERR_DEVICE;
  const char *why = refusal(d, v), *name = cni_cuda_host->op_name(c->op);
  if (why) return cni_cuda_refuse(c, why);
  cni_cuda_sides_open(s, v);
  int status = v->b ? cni_cuda_take(&b, d, name, v->b, v->x->dtype) : CN_OK;
  if (!status) status = cni_cuda_sides_bring(s, v, d, name);
  cni_cuda_small_conv small = {d, name, v, s, b.data};
  if (!status) status = cni_cuda_conv_small_launch(&small);
  status = cni_cuda_sides_leave(s, v, d, name, status);
  cni_cuda_drop(&b, d);
  return status;
}
