/* conv_gemm.c: convolutions that are a matrix product, or become one by a cheap copy: windows of one pixel, and
 * large weights over few pixels (whose packing for the direct kernels would cost more than the columns here).
 *
 * Flow: operands in place where pixels lie evenly in memory, else copied side by side, all images in one row ->
 * one product, or one per image -> results copied back where they were not written in place. Columns: row (c, i, j)
 * holds what tap (i, j) of every window sees of channel c. Invariant: which of the ways is taken, and so the order of
 * every sum, depends on shapes and strides alone. */
#include <stdatomic.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/gemm/gemm.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "conv_direct.h"
#include "tensor/tensor.h"

enum {
  SHORT_PIXELS = 320,   /* images below lie side by side, so that products fill whole vectors */
  MOST_COLUMNS = 512,   /* pixels of all images up to which columns are worth it */
  CHUNK_PIXELS = 832,   /* of a product of columns and grad */
  WEIGHT_COLUMNS = 32,  /* of a block of a weight's gradient */
  WEIGHT_ROWS = 64,     /* the fewest of one */
  MOST_PIECES = 8,      /* partial sums of a weight's gradient */
  GRAIN_WORK = 1 << 19, /* multiply-adds worth waking a thread for */
  GRAIN_COPY = 1 << 15  /* elements */
};

/* ---- matrices of pixels ---- */

/* (channels, pixels) of every image: element (n, c, p) lies at n * image + c * row + p * col. */
typedef struct pixels {
  char *data;
  int64_t image, row, col;
  cni_conv_tensor t; /* the tensor it shows */
  void *room;        /* own memory; NULL when in place */
  size_t bytes;
} pixels;

/* Whether the pixels of an image lie evenly apart. */
static bool even(const cni_conv_tensor *t)
{
  return t->shape[2] == 1 || t->shape[3] == 1 || t->strides[2] == t->shape[3] * t->strides[3];
}

static void in_place(pixels *m, const cni_conv_tensor *t)
{
  *m = (pixels){.data = t->data, .image = t->strides[0], .row = t->strides[1], .t = *t};
  m->col = t->shape[3] > 1 ? t->strides[3] : t->strides[2];
}

/* The tensor as it lies in own memory: (c, n, h, w). */
static cn_desc beside(const pixels *m, int dtype)
{
  cni_conv_tensor own = m->t;
  own.data = m->room;
  own.strides[3] = 1;
  own.strides[2] = own.shape[3];
  own.strides[0] = own.shape[2] * own.shape[3];
  own.strides[1] = own.shape[0] * own.strides[0];
  return cni_conv_desc(&own, dtype);
}

/* Own memory, filled from t if `fill`. 0 or CN_ERR_MEMORY. */
static int side_by_side(pixels *m, const cni_conv_tensor *t, int dtype, bool fill)
{
  *m = (pixels){.t = *t, .col = 1};
  m->image = t->shape[2] * t->shape[3];
  m->row = t->shape[0] * m->image;
  m->bytes = cni_dtype_bytes(dtype, m->row * t->shape[1]);
  m->room = cni_scratch_alloc(m->bytes);
  m->data = m->room;
  if (!m->room) return CN_ERR_MEMORY;
  if (fill) {
    cn_desc to = beside(m, dtype), from = cni_conv_desc(t, dtype);
    cni_cpu_copy(&to, &from);
  }
  return CN_OK;
}

static void copy_back(const pixels *m, int dtype)
{
  if (!m->room) return;
  cn_desc to = cni_conv_desc(&m->t, dtype), from = beside(m, dtype);
  cni_cpu_copy(&to, &from);
}

static void pixels_free(pixels *m) { cni_scratch_free(m->room, m->bytes); }

/* Whether one image is better multiplied with pixels as rows of tiles and weights as packed columns. Sums are cut
 * otherwise, so this is for programs that may round. */
static bool turns(const cni_conv *v)
{
  return v->fast && v->kind == CNI_CONV_FORWARD && v->n == 1 && v->dtype == CN_F32 &&
         cni_gemm_turns(v->k, v->oh * v->ow, v->c * v->kh * v->kw, false);
}

static int product(const cni_gemm *g, int dtype) { return dtype == CN_F64 ? cni_gemm_f64(g) : cni_gemm_f32(g); }

/* Does the product add the bias, or is it in y before? */
static bool adds_bias(const cni_conv *v)
{
  return v->bias && v->kind == CNI_CONV_FORWARD && (v->bias->strides[0] == 1 || v->k == 1);
}

static void add_bias(cni_gemm *g, const cni_conv *v)
{
  g->limits = v->limited ? &v->limits : NULL;
  if (!adds_bias(v)) return;
  g->bias = v->bias->data;
  g->beta = 0;
}

/* Rows of weights that lie a multiple of a page apart meet in a few lines of the first-level cache: prepared ones, a
 * copy, lie kindly. */
static int64_t apart_row(const cni_conv *v)
{
  const int64_t taps = v->kh * v->kw, depth = v->c * taps;
  bool dense = v->weight.strides[0] == depth && v->weight.strides[1] == taps;
  return dense ? cni_gemm_apart_row(depth, v->dtype == CN_F64) : 0;
}

static void lay_apart(cni_gemm *g, const cni_conv *v)
{
  if (turns(v)) {
    g->packed = v->prepared;
    return;
  }
  g->apart = v->prepared;
  g->apart_row = apart_row(v);
}

/* The bias in every pixel of y. */
static void put_bias(const cni_conv *v)
{
  cn_desc to = cni_conv_desc(&v->y, v->dtype), from = to;
  from.data = v->bias->data;
  memset(from.strides, 0, 4 * sizeof *from.strides);
  from.strides[1] = v->bias->strides[0];
  cni_cpu_copy(&to, &from);
}

/* ---- windows of one pixel ---- */

/* What a window of one pixel sees of x: every stride-th row and column. */
static cni_conv_tensor seen(const cni_conv *v)
{
  cni_conv_tensor t = v->x;
  t.shape[2] = v->oh;
  t.shape[3] = v->ow;
  t.strides[2] *= v->stride[0];
  t.strides[3] *= v->stride[1];
  return t;
}

static cni_gemm one_image(const cni_conv *v, const pixels *x, const pixels *y)
{
  const int64_t *w = v->weight.strides, p = v->oh * v->ow;
  if (v->kind == CNI_CONV_FORWARD) {
    cni_gemm g = {v->k,   p,      v->c,    v->weight.data, w[0],   w[1], x->data,
                  x->row, x->col, y->data, y->row,         y->col, 1,    v->bias ? 1 : 0};
    add_bias(&g, v);
    lay_apart(&g, v);
    return g;
  }
  if (v->kind == CNI_CONV_INPUT)
    return (cni_gemm){v->c,   p,      v->k,    v->weight.data, w[1],   w[0], y->data,
                      y->row, y->col, x->data, x->row,         x->col, 1,    0};
  return (cni_gemm){v->k,   v->c,           p,    y->data, y->row, y->col, x->data, x->col,
                    x->row, v->weight.data, w[0], w[1],    1,      0};
}

/* The gradient of the weight, cut into blocks of its rows and columns. */
typedef struct blocks {
  cni_gemm g;                       /* one image */
  int64_t images, a_image, b_image; /* bytes from image to image */
  int64_t rows, cols, across;       /* of a block; blocks side by side */
  int dtype;
} blocks;

static void weight_range(int64_t begin, int64_t end, void *payload)
{
  const blocks *b = payload;
  const int64_t size = (int64_t)cni_dtype_size(b->dtype);
  for (int64_t block = begin; block < end; block++) {
    cni_gemm g = b->g;
    int64_t row = block / b->across * b->rows, col = block % b->across * b->cols;
    g.m = cni_least(b->rows, g.m - row);
    g.n = cni_least(b->cols, g.n - col);
    g.a = (const char *)g.a + row * g.a_row * size;
    g.b = (const char *)g.b + col * g.b_col * size;
    g.c = (char *)g.c + (row * g.c_row + col * g.c_col) * size;
    for (int64_t n = 0; n < b->images; n++) {
      if (product(&g, b->dtype)) return; /* the error reaches the caller */
      g.a = (const char *)g.a + b->a_image;
      g.b = (const char *)g.b + b->b_image;
      g.beta = 1;
    }
  }
}

static int weight_products(const cni_conv *v, const pixels *x, const pixels *y, bool one)
{
  const int64_t size = (int64_t)cni_dtype_size(v->dtype), p = v->oh * v->ow;
  blocks b = {.g = one_image(v, x, y), .images = one ? 1 : v->n, .dtype = v->dtype, .cols = WEIGHT_COLUMNS};
  if (one) b.g.k = v->n * p;
  b.a_image = y->image * size;
  b.b_image = x->image * size;
  b.across = cni_parts(v->c, b.cols);
  /* Rows are cut only where columns are few: every block of rows packs its columns anew. */
  int64_t down = cni_least(cni_parts(MOST_PIECES, b.across), v->k / WEIGHT_ROWS);
  b.rows = cni_parts(v->k, down < 1 ? 1 : down);
  int64_t items = cni_parts(v->k, b.rows) * b.across;
  cni_parallel_for(items, cni_even_grain(items, cni_grain(cni_conv_work(v), items, GRAIN_WORK)), weight_range, &b);
  return cn_err();
}

/* All images: as one product where their pixels lie evenly, else one each. */
static int pointwise_products(const cni_conv *v, const pixels *x, const pixels *y)
{
  cni_gemm g = one_image(v, x, y);
  const int64_t p = v->oh * v->ow;
  bool one = v->n == 1 || (x->image == p * x->col && y->image == p * y->col);
  if (v->kind == CNI_CONV_WEIGHT) return weight_products(v, x, y, one);
  const pixels *from = v->kind == CNI_CONV_FORWARD ? x : y, *to = v->kind == CNI_CONV_FORWARD ? y : x;
  if (one) g.n = v->n * p;
  if (turns(v)) return cni_gemm_turned(&g, false);
  return one ? product(&g, v->dtype) : cni_gemm_batch((cn_dtype)v->dtype, &g, v->n, 0, from->image, to->image);
}

static int zero(const cni_conv_tensor *t, int dtype)
{
  double nothing = 0;
  cn_desc to = cni_conv_desc(t, dtype), from = {.data = &nothing, .numel = 1, .dtype = dtype, .device = CN_CPU};
  cni_cpu_copy(&to, &from);
  return CN_OK;
}

static int pointwise(const cni_conv *v)
{
  cni_conv_tensor t = seen(v);
  pixels x = {0}, y = {0};
  int status = CN_OK;
  bool strided = v->stride[0] > 1 || v->stride[1] > 1, shorts = v->n > 1 && v->oh * v->ow < SHORT_PIXELS;
  bool x_out = v->kind == CNI_CONV_INPUT, y_out = v->kind == CNI_CONV_FORWARD;
  /* Channels-last images are one row of pixels as they are. */
  bool x_row = even(&t) && (t.strides[1] == 1 || !shorts), y_row = even(&v->y) && (v->y.strides[1] == 1 || !shorts);
  if (x_row && y_row) {
    in_place(&x, &t);
    in_place(&y, &v->y);
  } else { /* both: products over all images want both in one row */
    if (!shorts && even(&v->y)) in_place(&y, &v->y);
    else status = side_by_side(&y, &v->y, v->dtype, !y_out);
    if (!status && !shorts && even(&t)) in_place(&x, &t);
    else if (!status) status = side_by_side(&x, &t, v->dtype, !x_out);
  }
  if (!status && v->bias && !adds_bias(v)) {
    put_bias(v);
    if (y.room) {
      cn_desc to = beside(&y, v->dtype), from = cni_conv_desc(&v->y, v->dtype);
      cni_cpu_copy(&to, &from);
    }
  }
  if (!status && x_out && strided) status = zero(&v->x, v->dtype);
  if (!status) status = pointwise_products(v, &x, &y);
  if (!status) copy_back(x_out ? &x : &y, v->dtype);
  pixels_free(&x);
  pixels_free(&y);
  return status;
}

/* ---- columns ---- */

typedef struct columns {
  const cni_conv *v;
  char *data; /* (c, kh, kw, n, oh, ow) */
  int64_t size, pixels;
} columns;

/* Windows [*first, *last) of one dim whose tap t lies inside the image. */
static void inside(const cni_conv *v, int d, int64_t t, int64_t *first, int64_t *last)
{
  int64_t at = t * v->dilation[d] - v->padding[d], size = d ? v->w : v->h, most = d ? v->ow : v->oh;
  *first = at < 0 ? cni_least(cni_parts(-at, v->stride[d]), most) : 0;
  *last = size > at ? cni_least(cni_parts(size - at, v->stride[d]), most) : 0;
  if (*last < *first) *last = *first;
}

static void take_row(char *to, const char *from, int64_t n, int64_t step, int64_t size)
{
  if (step == 1) memcpy(to, from, (size_t)(n * size));
  else if (size == 4)
    for (int64_t i = 0; i < n; i++) memcpy(to + 4 * i, from + 4 * i * step, 4);
  else
    for (int64_t i = 0; i < n; i++) memcpy(to + 8 * i, from + 8 * i * step, 8);
}

/* Where one tap of the kernel meets x: results [y0, y1) by [x0, x1), and the offset in x, in elements, of the first. */
typedef struct meeting {
  int64_t y0, y1, x0, x1, at;
} meeting;

static meeting meet(const cni_conv *v, int64_t channel, int64_t tap)
{
  int64_t i = tap / v->kw, j = tap % v->kw;
  const int64_t *xs = v->x.strides;
  meeting m;
  inside(v, 0, i, &m.y0, &m.y1);
  inside(v, 1, j, &m.x0, &m.x1);
  m.at = channel * xs[1] + (m.y0 * v->stride[0] + i * v->dilation[0] - v->padding[0]) * xs[2] +
         (m.x0 * v->stride[1] + j * v->dilation[1] - v->padding[1]) * xs[3];
  return m;
}

/* Items are channels of x. */
static void fill_range(int64_t begin, int64_t end, void *payload)
{
  const columns *s = payload;
  const cni_conv *v = s->v;
  const int64_t size = s->size, taps = v->kh * v->kw, *xs = v->x.strides, step = xs[3] * v->stride[1];
  for (int64_t item = begin; item < end; item++)
    for (int64_t tap = 0; tap < taps; tap++) {
      meeting m = meet(v, item, tap);
      char *to = s->data + (item * taps + tap) * s->pixels * size;
      const char *from = v->x.data + m.at * size;
      if (m.y0 > 0 || m.y1 < v->oh || m.x0 > 0 || m.x1 < v->ow) memset(to, 0, (size_t)(s->pixels * size));
      for (int64_t n = 0; n < v->n && m.x0 < m.x1; n++)
        for (int64_t y = m.y0; y < m.y1; y++)
          take_row(to + ((n * v->oh + y) * v->ow + m.x0) * size,
                   from + (n * xs[0] + (y - m.y0) * v->stride[0] * xs[2]) * size, m.x1 - m.x0, step, size);
    }
}

/* The same in vectors. */
static void take_range(int64_t begin, int64_t end, void *payload)
{
  const columns *s = payload;
  cni_conv_im2col_take(s->v, (float *)(void *)s->data, s->pixels, 0, s->pixels, begin, end);
}

/* to[i * step] += from[i] */
static void give_row(char *to, const char *from, int64_t n, int64_t step, int64_t size)
{
  if (size == 4) {
    float *t = (float *)(void *)to;
    const float *f = (const float *)(const void *)from;
    if (step == 1)
      for (int64_t i = 0; i < n; i++) t[i] += f[i];
    else
      for (int64_t i = 0; i < n; i++) t[i * step] += f[i];
  } else {
    double *t = (double *)(void *)to;
    const double *f = (const double *)(const void *)from;
    for (int64_t i = 0; i < n; i++) t[i * step] += f[i];
  }
}

/* Items are channels of x, which is cleared: what each tap brings is added. */
static void give_range(int64_t begin, int64_t end, void *payload)
{
  const columns *s = payload;
  const cni_conv *v = s->v;
  const int64_t size = s->size, taps = v->kh * v->kw, *xs = v->x.strides, step = xs[3] * v->stride[1];
  for (int64_t item = begin; item < end; item++)
    for (int64_t tap = 0; tap < taps; tap++) {
      meeting m = meet(v, item, tap);
      const char *from = s->data + (item * taps + tap) * s->pixels * size;
      char *to = v->x.data + m.at * size;
      for (int64_t n = 0; n < v->n; n++)
        for (int64_t y = m.y0; y < m.y1; y++)
          give_row(to + (n * xs[0] + (y - m.y0) * v->stride[0] * xs[2]) * size,
                   from + ((n * v->oh + y) * v->ow + m.x0) * size, m.x1 - m.x0, step, size);
    }
}

static int by_columns(const cni_conv *v)
{
  columns s = {.v = v, .size = (int64_t)cni_dtype_size(v->dtype), .pixels = v->n * v->oh * v->ow};
  const int64_t depth = v->c * v->kh * v->kw, p = v->oh * v->ow;
  size_t bytes = (size_t)(depth * s.pixels * s.size);
  pixels y = {0};
  int status = CN_OK;
  if (!(s.data = cni_scratch_alloc(bytes))) return CN_ERR_MEMORY;
  const bool before = v->bias && !adds_bias(v);
  if (before) put_bias(v);
  if (v->n == 1 && even(&v->y)) in_place(&y, &v->y);
  else status = side_by_side(&y, &v->y, v->dtype, v->kind != CNI_CONV_FORWARD || before);
  int64_t grain = cni_grain((double)depth * (double)s.pixels, v->c, GRAIN_COPY);
  if (!status && v->kind == CNI_CONV_FORWARD) {
    cni_parallel_for(v->c, grain, cni_conv_im2col_can(v) ? take_range : fill_range, &s);
    cni_gemm g = {v->k,  v->n * p, depth, v->weight.data, v->weight.strides[0], 1, s.data, s.pixels, 1, y.data,
                  y.row, y.col,    1,     v->bias ? 1 : 0};
    add_bias(&g, v);
    lay_apart(&g, v);
    status = turns(v) ? cni_gemm_turned(&g, false) : product(&g, v->dtype);
    if (!status) copy_back(&y, v->dtype);
  } else if (!status) {
    cni_gemm g = {depth,  v->n * p, v->k,  v->weight.data, 1,        v->weight.strides[0],
                  y.data, y.row,    y.col, s.data,         s.pixels, 1,
                  1,      0};
    status = product(&g, v->dtype);
    if (!status) status = zero(&v->x, v->dtype);
    if (!status) cni_parallel_for(v->c, grain, give_range, &s);
  }
  pixels_free(&y);
  cni_scratch_free(s.data, bytes);
  return status;
}

/* ---- the gradient of the weight by columns, for few channels of x ---- */

typedef struct sums {
  const cni_conv *v;
  float *data;                         /* pieces x depth x k */
  int64_t depth, pieces, chunks, each; /* each: pixels of a chunk; chunks of all images */
  _Atomic int failed;
} sums;

/* Items are pieces: runs of chunks, each a product of columns and grad that is added to the piece's sum. */
static void piece_range(int64_t begin, int64_t end, void *payload)
{
  sums *s = payload;
  const cni_conv *v = s->v;
  const int64_t image = v->oh * v->ow, per_image = cni_parts(image, s->each), *ys = v->y.strides;
  size_t bytes = (size_t)(s->depth * s->each) * sizeof(float);
  float *seen_by = cni_scratch_alloc(bytes);
  if (!seen_by) return; /* the error reaches the caller */
  for (int64_t piece = begin; piece < end; piece++) {
    int64_t from = piece * s->chunks / s->pieces, to = (piece + 1) * s->chunks / s->pieces;
    for (int64_t chunk = from; chunk < to && !s->failed; chunk++) {
      int64_t n = chunk / per_image, p = chunk % per_image * s->each, some = cni_least(s->each, image - p);
      cni_conv_im2col_take(v, seen_by, s->each, n * image + p, n * image + p + some, 0, v->c);
      cni_gemm g = {.m = s->depth, .n = v->k, .k = some, .alpha = 1, .beta = chunk > from ? 1 : 0};
      g.a = seen_by;
      g.a_row = s->each;
      g.b = (const float *)(const void *)v->y.data + n * ys[0] + p;
      g.b_col = ys[1];
      g.c = s->data + piece * s->depth * v->k;
      g.c_row = v->k;
      g.a_col = g.b_row = g.c_col = 1;
      if (cni_gemm_f32(&g)) s->failed = 1;
    }
  }
  cni_scratch_free(seen_by, bytes);
}

static int weight_by_columns(const cni_conv *v)
{
  sums s = {.v = v, .depth = v->c * v->kh * v->kw};
  const int64_t image = v->oh * v->ow, size = v->k * s.depth;
  int64_t per_image = cni_parts(image, CHUNK_PIXELS), more = 0;
  while (more < MOST_PIECES && v->n * (per_image + more) % MOST_PIECES) more++; /* pieces of equal length */
  s.each = cni_parts(image, per_image + more);
  s.chunks = v->n * cni_parts(image, s.each);
  s.pieces = cni_least(MOST_PIECES, s.chunks);
  size_t bytes = (size_t)(s.pieces * size) * sizeof(float);
  if (!(s.data = cni_scratch_alloc(bytes))) return CN_ERR_MEMORY;
  cni_parallel_for(s.pieces, cni_grain(cni_conv_work(v), s.pieces, GRAIN_WORK), piece_range, &s);
  if (!cn_err()) {
    for (int64_t piece = 1; piece < s.pieces; piece++)
      for (int64_t i = 0; i < size; i++) s.data[i] += s.data[piece * size + i];
    cn_desc to = cni_conv_desc(&v->weight, CN_F32), from = to;
    from.data = s.data;
    from.strides[0] = 1;
    from.strides[1] = v->kh * v->kw * v->k;
    from.strides[2] = v->kw * v->k;
    from.strides[3] = v->k;
    cni_cpu_copy(&to, &from);
  }
  cni_scratch_free(s.data, bytes);
  return cn_err();
}

static bool worth_weight_columns(const cni_conv *v)
{
  const int64_t *ys = v->y.strides;
  return v->kind == CNI_CONV_WEIGHT && cni_conv_im2col_can(v) && v->c < 16 && v->oh * v->ow >= 256 &&
         v->kh * v->kw > 1 && ys[3] == 1 && ys[2] == v->ow;
}

/* ---- entry ---- */

/* Large weights over few pixels: copying columns costs less than packing weights. */
static bool worth_columns(const cni_conv *v)
{
  const int64_t *w = v->weight.strides, taps = v->kh * v->kw;
  return v->kind != CNI_CONV_WEIGHT && taps > 1 && taps <= 64 && v->n * v->oh * v->ow <= MOST_COLUMNS && v->c >= 32 &&
         v->k >= 32 && w[3] == 1 && w[2] == v->kw && w[1] == taps;
}

static bool one_pixel(const cni_conv *v)
{
  return v->kh * v->kw == 1 && !v->padding[0] && !v->padding[1] && v->k >= 8 && v->c >= 8;
}

const char *cni_conv_gemm_against(const cni_conv *v)
{
  if ((v->dtype != CN_F32 && v->dtype != CN_F64) || v->groups != 1 || !v->n || !v->c)
    return "not one product of float32 or float64";
  return one_pixel(v) || worth_weight_columns(v) || worth_columns(v) ? NULL : "not a matrix product";
}

int cni_conv_gemm(const cni_conv *v)
{
  if (one_pixel(v)) return pointwise(v);
  return worth_weight_columns(v) ? weight_by_columns(v) : by_columns(v);
}

static int prepare_turned(const cni_conv *v, cn_prepared *made)
{
  const int64_t depth = v->c * v->kh * v->kw, *w = v->weight.strides, p = v->oh * v->ow;
  const cni_gemm g = {v->k, p, depth, v->weight.data, w[0], v->kh * v->kw == 1 ? w[1] : 1, .alpha = 1};
  made->bytes = cni_gemm_turned_bytes(&g, false);
  made->form = 1;
  if (made->memory) cni_gemm_turned_pack(&g, false, made->memory);
  return CN_OK;
}

int cni_conv_gemm_prepare(const cni_conv *v, cn_prepared *made)
{
  if (turns(v)) return prepare_turned(v, made);
  const size_t size = cni_dtype_size(v->dtype), depth = (size_t)(v->c * v->kh * v->kw), row = (size_t)apart_row(v);
  made->bytes = (size_t)v->k * row * size;
  for (int64_t k = 0; made->memory && k < v->k; k++)
    memcpy((char *)made->memory + (size_t)k * row * size, v->weight.data + (size_t)k * depth * size, depth * size);
  return CN_OK;
}
