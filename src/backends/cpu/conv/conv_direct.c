/* conv_direct.c: own convolutions without a matrix of patches. Images are copied once with their borders into planes
 * (one per phase of the stride), in which tap (i, j) of every window is the plane moved by a fixed offset; products
 * then read the planes in place (conv_direct_isa.c).
 *
 * Flow, for a few images at a time: fill the planes -> products in parallel -> results cut out of the planes' rows
 * and written with their bias. The gradient of the input is the same product over planes of y, one per phase of x;
 * the gradient of the weight is conv_direct_weight.c. Invariant: the order of every sum is fixed by shapes alone. */
#include "conv_direct.h"

#include <string.h>

#include "backends/cpu/cpu.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "tensor/tensor.h"

enum {
  TILE_VECTORS = 24,        /* columns of one product, in vectors */
  PANELS_BYTES = 384 << 10, /* weights that are used again and again while they are in the cache */
  MANY_BLOCKS = 8,          /* images (or stacks of them) that are worth a thread each ... */
  BLOCK_BYTES = 384 << 10,  /* ... if they and the weights are no larger */
  WIDE_VECTORS = 96,        /* rows of results longer than this are cut */
  ENOUGH_ITEMS = 32,        /* pieces of work; below, rows of weights are split as well */
  GRAIN_WORK = 1 << 19,     /* multiply-adds worth waking a thread for */
  GRAIN_PACK = 1 << 13      /* elements of weights */
};

/* ---- products ---- */

/* results[m][y][x] of every image = sum over depth of weights[m][r] * planes[offset[r] + base + y * pitch + x]. */
typedef struct product {
  const cni_conv_kernels *ker;
  const cni_conv_planes *f;
  int64_t groups, m, depth; /* rows of weights per group */
  int64_t panel;            /* rows of a panel, at most ker->mr */
  char *a;                  /* packed weights: groups x panels x depth x panel */
  const char *prepared;     /* them, from an earlier call; NULL: none */
  int64_t *offset;          /* depth: into the planes */
  int64_t *from;            /* depth: into a row of the weights */
  int64_t base, ny, nx;     /* first window's place; results per image */
  /* weights and results as they lie in memory, strides in elements */
  const char *weight;
  int64_t weight_group, weight_row;
  char *dst;
  int64_t dst_image, dst_row, dst_y, dst_x;
  const cn_desc *bias;
  /* the cut into pieces */
  int64_t tile_rows, tiles_y, tile_cols, tiles_x, panels_each, splits, blocks;
} product;

static void pack_range(int64_t begin, int64_t end, void *payload)
{
  const product *p = payload;
  const int64_t panels = cni_parts(p->m, p->panel), size = (int64_t)p->ker->size;
  for (int64_t item = begin; item < end; item++) {
    int64_t g = item / panels, first = item % panels * p->panel, rows = cni_least(p->panel, p->m - first);
    const char *from = p->weight + (g * p->weight_group + first * p->weight_row) * size;
    char *to = p->a + (g * p->m + first) * p->depth * size;
    for (int64_t r = 0; r < p->depth; r++, to += rows * size) {
      const char *e = from + p->from[r] * size;
      if (size == 4) cni_conv_gather((float *)(void *)to, (const float *)(const void *)e, p->weight_row, rows);
      else
        for (int64_t i = 0; i < rows; i++) memcpy(to + 8 * i, e + 8 * i * p->weight_row, 8);
    }
  }
}

/* Cuts the results of an image into tiles, and the weights into splits where tiles alone are few. */
static void cut(product *p)
{
  const cni_conv_planes *f = p->f;
  int64_t lanes = p->ker->lanes;
  p->tile_rows = p->ny;
  p->tile_cols = p->nx;
  if (f->stack == 1) {
    int64_t tiles = (p->ny * f->pitch + TILE_VECTORS * lanes / 2) / (TILE_VECTORS * lanes); /* the nearest */
    p->tile_rows = cni_parts(p->ny, cni_least(tiles < 1 ? 1 : tiles, p->ny));
    if (p->nx > WIDE_VECTORS * lanes) p->tile_cols = TILE_VECTORS * 2 * lanes;
  }
  if (p->tile_rows > p->ny) p->tile_rows = p->ny;
  p->tiles_y = cni_parts(p->ny, p->tile_rows);
  p->tiles_x = cni_parts(p->nx, p->tile_cols);
  /* Runs of panels that stay in the second-level cache while all tiles pass by; more where tiles are few. */
  int64_t panels = cni_parts(p->m, p->panel), items = f->set * p->groups * p->tiles_y * p->tiles_x;
  int64_t bytes = p->panel * p->depth * (int64_t)p->ker->size;
  p->panels_each = bytes ? PANELS_BYTES / bytes : panels;
  if (items < ENOUGH_ITEMS) p->panels_each = cni_least(p->panels_each, panels * items / ENOUGH_ITEMS);
  if (p->panels_each > panels) p->panels_each = panels;
  if (p->panels_each < 1) p->panels_each = 1;
  p->splits = cni_parts(panels, p->panels_each);
}

static double bias_of(const product *p, int64_t row)
{
  if (!p->bias) return 0;
  const char *at = (const char *)p->bias->data + row * p->bias->strides[0] * (int64_t)p->ker->size;
  float f;
  double d;
  if (p->ker->size == 8) memcpy(&d, at, 8);
  else memcpy(&f, at, 4), d = (double)f;
  return d;
}

/* One tile of one block and group, a run of panels. room: panel x pitch */
static void run_tile(const product *p, int64_t block, int64_t g, int64_t y0, int64_t x0, int64_t split,
                     char *room)
{
  const cni_conv_planes *f = p->f;
  const int64_t size = (int64_t)p->ker->size, first = (f->first + block) * f->stack,
                panels = cni_parts(p->m, p->panel);
  int64_t images = cni_least(f->stack, f->images - first), rows = cni_least(p->tile_rows, p->ny - y0);
  int64_t width = cni_least(p->tile_cols, p->nx - x0);
  int64_t cols = (images - 1) * f->plane + (rows - 1) * f->pitch + width,
          pitch = cni_parts(cols, p->ker->nr) * p->ker->nr;
  const char *x =
      f->data +
      (block * f->block + g * (f->channels / p->groups) * f->channel + p->base + y0 * f->pitch + x0) * size;
  int64_t last = cni_least(panels, (split + 1) * p->panels_each);
  for (int64_t at = split * p->panels_each; at < last; at++) {
    int64_t row = at * p->panel, some = cni_least(p->panel, p->m - row);
    p->ker->panel(room, pitch, p->a + (g * p->m + row) * p->depth * size, (int)some, p->depth, p->offset, x,
                  cols);
    for (int64_t i = 0; i < some; i++) {
      int64_t channel = g * p->m + row + i;
      cni_conv_emit e = {.dst_row = p->dst_y,
                         .dst_col = p->dst_x,
                         .src_row = f->pitch,
                         .rows = rows,
                         .n = width,
                         .bias = bias_of(p, channel)};
      for (int64_t s = 0; s < images; s++) {
        e.dst = p->dst +
                ((first + s) * p->dst_image + channel * p->dst_row + y0 * p->dst_y + x0 * p->dst_x) * size;
        e.src = room + (i * pitch + s * f->plane) * size;
        p->ker->emit(&e);
      }
    }
  }
}

static void product_range(int64_t begin, int64_t end, void *payload)
{
  const product *p = payload;
  int64_t most = (p->f->stack - 1) * p->f->plane + (p->tile_rows - 1) * p->f->pitch + p->tile_cols;
  size_t bytes = (size_t)(p->panel * (cni_parts(most, p->ker->nr) * p->ker->nr)) * p->ker->size;
  char *room = cni_scratch_alloc(bytes);
  if (!room) return; /* the error reaches the caller */
  for (int64_t item = begin; item < end; item++) {
    int64_t rest = item, tx, ty, g, block;
    tx = rest % p->tiles_x, rest /= p->tiles_x;
    ty = rest % p->tiles_y, rest /= p->tiles_y;
    block = rest % p->blocks, rest /= p->blocks;
    g = rest % p->groups, rest /= p->groups;
    run_tile(p, block, g, ty * p->tile_rows, tx * p->tile_cols, rest, room);
  }
  cni_scratch_free(room, bytes);
}

static size_t weight_bytes(const product *p) { return (size_t)(p->groups * p->m * p->depth) * p->ker->size; }

/* Weights and tables of one product; the rest is filled in by the caller. 0 or CN_ERR_MEMORY. */
static int product_begin(product *p)
{
  p->panel = cni_parts(p->m, cni_parts(p->m, p->ker->mr));
  p->a = p->prepared ? (char *)(uintptr_t)p->prepared /* read only */ : cni_scratch_alloc(weight_bytes(p));
  p->offset = cni_scratch_alloc((size_t)p->depth * sizeof *p->offset);
  p->from = cni_scratch_alloc((size_t)p->depth * sizeof *p->from);
  return p->a && p->offset && p->from ? CN_OK : CN_ERR_MEMORY;
}

static void product_end(product *p)
{
  if (!p->prepared) cni_scratch_free(p->a, weight_bytes(p));
  cni_scratch_free(p->offset, (size_t)p->depth * sizeof *p->offset);
  cni_scratch_free(p->from, (size_t)p->depth * sizeof *p->from);
}

/* ---- forward ---- */

/* All products over planes of all images. */
typedef struct whole {
  const cni_conv_planes *f;
  const product *p;
  int64_t count;
} whole;

static int64_t items_of(const product *p)
{
  return p->blocks * p->groups * p->tiles_y * p->tiles_x * p->splits;
}

/* Blocks [begin, end), one by one in planes of this thread's own. */
static void block_range(int64_t begin, int64_t end, void *payload)
{
  const whole *w = payload;
  cni_conv_planes f = *w->f;
  if (cni_conv_planes_alloc(&f, 1)) return; /* the error reaches the caller */
  for (int64_t block = begin; block < end; block++) {
    cni_conv_planes_fill(&f, block);
    for (int64_t i = 0; i < w->count; i++) {
      product p = w->p[i];
      p.f = &f;
      p.blocks = 1;
      product_range(0, items_of(&p), &p);
    }
  }
  cni_conv_planes_free(&f);
}

static int64_t panels_of(const product *p) { return p->groups * cni_parts(p->m, p->panel); }

static void packs_range(int64_t begin, int64_t end, void *payload)
{
  const whole *w = payload;
  for (int64_t item = begin; item < end; item++) {
    product p = w->p[item % w->count];
    int64_t at = item / w->count;
    if (at < panels_of(&p)) pack_range(at, at + 1, &p);
  }
}

/* The weights of all products. */
static void pack(const product *p, int64_t count)
{
  whole w = {NULL, p, count};
  double work = 0;
  int64_t items = 0;
  for (int64_t i = 0; i < count; i++) {
    work += (double)(p[i].groups * p[i].m) * (double)p[i].depth;
    items = items > panels_of(&p[i]) ? items : panels_of(&p[i]);
  }
  items *= count;
  if (work > 0) cni_parallel_for(items, cni_grain(work, items, GRAIN_PACK), packs_range, &w);
}

/* Items of all products: in turns, since products differ in depth and ranges should not. */
static void products_range(int64_t begin, int64_t end, void *payload)
{
  const whole *w = payload;
  for (int64_t item = begin; item < end; item++) {
    int64_t i = item % w->count, at = item / w->count;
    product p = w->p[i];
    if (at < items_of(&p)) product_range(at, at + 1, &p);
  }
}

/* Small images go whole to a thread each; of large ones, a few at a time are shared out. */
static int run_all(cni_conv_planes *f, product *p, int64_t count)
{
  int64_t blocks = cni_parts(f->images, f->stack), weights = 0;
  double work = 0;
  for (int64_t i = 0; i < count; i++) {
    weights += p[i].groups * p[i].m * p[i].depth * (int64_t)f->size;
    work += (double)(f->images * p[i].groups * p[i].m) * (double)p[i].depth * (double)(p[i].ny * p[i].nx);
  }
  if (blocks >= MANY_BLOCKS && f->block * (int64_t)f->size <= BLOCK_BYTES && weights <= BLOCK_BYTES) {
    whole w = {f, p, count};
    cni_parallel_for(blocks, cni_grain(work, blocks, GRAIN_WORK), block_range, &w);
    return cn_err();
  }
  int status = cni_conv_planes_alloc(f, f->set);
  if (status) return status;
  for (int64_t first = 0; first < blocks && !cn_err(); first += f->set) {
    int64_t some = cni_conv_planes_fill(f, first), items = 0;
    for (int64_t i = 0; i < count; i++) {
      p[i].blocks = some;
      items = items > items_of(&p[i]) ? items : items_of(&p[i]);
    }
    items *= count;
    whole w = {f, p, count};
    cni_parallel_for(items, cni_grain(work * (double)some / (double)blocks, items, GRAIN_WORK), products_range, &w);
  }
  cni_conv_planes_free(f);
  return cn_err();
}

/* The product, but for places in planes. */
static product product_of(const cni_conv *v, const cni_conv_kernels *ker)
{
  const int64_t *ws = v->weight.strides, *ys = v->y.strides, kg = v->k / v->groups;
  return (product){.ker = ker,
                   .groups = v->groups,
                   .m = kg,
                   .depth = v->c / v->groups * v->kh * v->kw,
                   .prepared = v->prepared,
                   .ny = v->oh,
                   .nx = v->ow,
                   .weight = v->weight.data,
                   .weight_group = kg * ws[0],
                   .weight_row = ws[0],
                   .dst = v->y.data,
                   .dst_image = ys[0],
                   .dst_row = ys[1],
                   .dst_y = ys[2],
                   .dst_x = ys[3],
                   .bias = v->bias};
}

/* Where the elements of a row of weights lie, and, where there are planes, what they meet. */
static void find_taps(product *p, const cni_conv *v)
{
  const int64_t *ws = v->weight.strides;
  int64_t r = 0;
  for (int64_t c = 0; c < v->c / v->groups; c++)
    for (int64_t i = 0; i < v->kh; i++)
      for (int64_t j = 0; j < v->kw; j++, r++) {
        p->from[r] = c * ws[1] + i * ws[2] + j * ws[3];
        if (p->f) p->offset[r] = c * p->f->channel + cni_conv_tap(p->f, i, j);
      }
}

static int forward(const cni_conv *v, const cni_conv_kernels *ker)
{
  cni_conv_planes f;
  int status = cni_conv_planes_begin(&f, v, &v->x, cni_conv_fit_of(v, ker->lanes));
  if (status) return status;
  product p = product_of(v, ker);
  p.f = &f;
  status = product_begin(&p);
  if (!status) {
    find_taps(&p, v);
    if (!p.prepared) pack(&p, 1);
    cut(&p);
    status = run_all(&f, &p, 1);
  }
  product_end(&p);
  return status;
}

/* ---- gradient of the input ---- */

/* The part of one dim of x that taps i, i + period, ... reach. */
typedef struct part {
  int64_t tap, period, taps;  /* taps: how many */
  int64_t first, count, base; /* coordinates first, first + stride, ...; base: the plane's row of the first */
} part;

static part part_of(const cni_conv *v, int d, int64_t tap)
{
  int64_t stride = v->stride[d], residue = tap * v->dilation[d] % stride, size = v->x.shape[2 + d];
  int64_t behind = v->padding[d] - residue, taps = d ? v->kw : v->kh;
  part q = {.tap = tap, .period = cni_conv_period(v, d)};
  q.taps = cni_parts(taps - tap, q.period);
  q.base = behind > 0 ? cni_parts(behind, stride) : 0;
  q.first = q.base * stride - behind;
  q.count = q.first < size ? (size - 1 - q.first) / stride + 1 : 0;
  return q;
}

/* Fills in the product for one phase of x. */
static int input_product(const cni_conv *v, product *p, part a, part b)
{
  const cni_conv_planes *f = p->f;
  const int64_t *ws = v->weight.strides, *xs = v->x.strides, kg = v->k / v->groups;
  p->groups = v->groups;
  p->m = v->c / v->groups;
  p->depth = kg * a.taps * b.taps;
  p->ny = a.count;
  p->nx = b.count;
  p->base = a.base * f->pitch + (f->tight ? 0 : b.base);
  p->weight = v->weight.data;
  p->weight_group = kg * ws[0];
  p->weight_row = ws[1];
  p->dst = v->x.data + (a.first * xs[2] + b.first * xs[3]) * (int64_t)f->size;
  p->dst_image = xs[0];
  p->dst_row = xs[1];
  p->dst_y = xs[2] * v->stride[0];
  p->dst_x = xs[3] * v->stride[1];
  int status = product_begin(p);
  if (status) return status;
  int64_t r = 0;
  for (int64_t k = 0; k < kg; k++)
    for (int64_t i = a.tap; i < v->kh; i += a.period)
      for (int64_t j = b.tap; j < v->kw; j += b.period, r++) {
        p->offset[r] = k * f->channel + cni_conv_tap(f, i, j);
        p->from[r] = k * ws[0] + i * ws[2] + j * ws[3];
      }
  cut(p);
  return CN_OK;
}

static void clear(const cni_conv_tensor *t, int dtype)
{
  double zero = 0;
  cn_desc to = cni_conv_desc(t, dtype), from = {.data = &zero, .numel = 1, .dtype = dtype, .device = CN_CPU};
  cni_cpu_copy(&to, &from);
}

static int input_gradient(const cni_conv *v, const cni_conv_kernels *ker)
{
  cni_conv_planes f;
  int64_t ny = cni_least(v->kh, cni_conv_period(v, 0)), nx = cni_least(v->kw, cni_conv_period(v, 1)),
          made = 0;
  int status = cni_conv_planes_begin(&f, v, &v->y, cni_conv_fit_of(v, ker->lanes));
  if (status) return status;
  product *p = cni_scratch_alloc_zero((size_t)(ny * nx) * sizeof *p);
  if (!p) status = CN_ERR_MEMORY;
  /* Some coordinates may lie under no tap at all. */
  if (ny < v->stride[0] || nx < v->stride[1]) clear(&v->x, f.size == 8 ? CN_F64 : CN_F32);
  for (int64_t i = 0; i < ny; i++)
    for (int64_t j = 0; j < nx && !status; j++) {
      part a = part_of(v, 0, i), b = part_of(v, 1, j);
      if (!a.count || !b.count) continue;
      p[made].ker = ker;
      p[made].f = &f;
      status = input_product(v, &p[made++], a, b);
    }
  if (!status) {
    pack(p, made);
    status = run_all(&f, p, made);
  }
  for (int64_t i = 0; i < made; i++) product_end(&p[i]);
  cni_scratch_free(p, (size_t)(ny * nx) * sizeof *p);
  return status;
}

/* ---- entry: operands in the compute type ---- */

/* A packed copy of t in the compute type; its memory is *room. */
static int pack_tensor(cni_conv_tensor *t, int dtype, int compute, bool copy, void **room, size_t *bytes)
{
  cn_desc old = cni_conv_desc(t, dtype);
  *bytes = cni_dtype_bytes(compute, old.numel);
  if (!(*room = cni_scratch_alloc(*bytes))) return CN_ERR_MEMORY;
  cn_desc packed = cni_cpu_packed(&old, compute, *room);
  if (copy) cni_cpu_copy(&packed, &old);
  t->data = *room;
  memcpy(t->strides, packed.strides, sizeof t->strides);
  return CN_OK;
}

static int run_kind(const cni_conv *v, const cni_conv_kernels *ker)
{
  if (v->kind == CNI_CONV_WEIGHT) return cni_conv_weight(v, ker);
  return v->kind == CNI_CONV_FORWARD ? forward(v, ker) : input_gradient(v, ker);
}

int cni_conv_direct(const cni_conv *given)
{
  cni_conv v = *given;
  const int compute = v.dtype == CN_F64 ? CN_F64 : CN_F32;
  const cni_conv_kernels *ker = cni_conv_kernels_of(v.dtype);
  void *weight_room = NULL, *out_room = NULL, *bias_room = NULL;
  size_t weight_bytes = 0, out_bytes = 0, bias_bytes = 0;
  cn_desc bias;
  int status = CN_OK;
  /* Planes are filled from any type and layout; weights are read where they are if the type fits, and results written
   * where they belong if the type fits and rows are contiguous. */
  cni_conv_tensor *out = v.kind == CNI_CONV_FORWARD ? &v.y : &v.x, target = *out;
  bool in_place =
      v.kind == CNI_CONV_WEIGHT || (v.dtype == compute && (out->strides[3] == 1 || out->shape[3] == 1));
  if (cni_numel(4, out->shape) == 0 && v.kind != CNI_CONV_WEIGHT) return CN_OK;
  if (v.kind != CNI_CONV_WEIGHT && v.dtype != compute)
    status = pack_tensor(&v.weight, v.dtype, compute, true, &weight_room, &weight_bytes);
  if (!status && !in_place) status = pack_tensor(out, v.dtype, compute, false, &out_room, &out_bytes);
  if (!status && v.bias && v.dtype != compute) {
    bias_bytes = cni_dtype_bytes(compute, v.k);
    bias_room = cni_scratch_alloc(bias_bytes);
    if (!bias_room) status = CN_ERR_MEMORY;
    else {
      bias = cni_cpu_packed(v.bias, compute, bias_room);
      cni_cpu_copy(&bias, v.bias);
      v.bias = &bias;
    }
  }
  if (!status) status = run_kind(&v, ker);
  if (!status && !in_place) {
    cn_desc from = cni_conv_desc(out, compute), to = cni_conv_desc(&target, v.dtype);
    cni_cpu_copy(&to, &from);
  }
  cni_scratch_free(weight_room, weight_bytes);
  cni_scratch_free(out_room, out_bytes);
  cni_scratch_free(bias_room, bias_bytes);
  return status;
}

/* Weights are packed in no time beside products with many pixels. */
int cni_conv_direct_prepare(const cni_conv *v, cn_prepared *made)
{
  enum { MANY_PIXELS = 1024 };
  product p = product_of(v, cni_conv_kernels_of(v->dtype));
  if ((v->dtype != CN_F32 && v->dtype != CN_F64) || v->n * v->oh * v->ow >= MANY_PIXELS) return CN_OK;
  made->bytes = weight_bytes(&p);
  p.prepared = made->memory;
  if (!p.prepared) return CN_OK;
  int status = product_begin(&p);
  if (!status) {
    find_taps(&p, v);
    pack(&p, 1);
  }
  product_end(&p);
  return status;
}
