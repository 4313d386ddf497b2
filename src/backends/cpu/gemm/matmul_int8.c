/* matmul_int8.c: mm_dtype and bmm_dtype of int8 matrices with sums in int32, without wider copies of the operands.
 *
 * Place in the flow: the dispatcher calls it first; other types are refused and go through the decomposition, which
 * casts. Rows go by the plain loops or, where there are several, by tiles: of the numbers as they are where the
 * processor adds up several products at once, else of int16. Invariant: sums of integers are the same in any order, so
 * all ways give the same bits. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "gemm_isa.h"
#include "matmul_int8.h"

enum { GRAIN_WORK = 1 << 18 }; /* multiply-adds worth waking a thread for */

typedef struct job {
  const cni_int8_loops *loops;
  const cn_desc *a, *b, *c; /* (m, k), (k, n), (m, n), each perhaps with a batch in front */
  int64_t m, n, k;
} job;

/* Strides of the batch, 0 without one. */
static int64_t step(const cn_desc *d) { return d->ndim == 3 ? d->strides[0] : 0; }

static void rows_range(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  const int64_t *as = j->a->strides + j->a->ndim - 2, *bs = j->b->strides + j->b->ndim - 2;
  int64_t c_row = j->c->strides[j->c->ndim - 2];
  for (int64_t r = begin; r < end; r++) {
    int64_t batch = r / j->m, i = r % j->m;
    j->loops->row((int32_t *)j->c->data + batch * step(j->c) + i * c_row,
                  (const int8_t *)j->a->data + batch * step(j->a) + i * as[0], as[1],
                  (const int8_t *)j->b->data + batch * step(j->b), bs[0], j->n, j->k);
  }
}

#if CNI_HAS_LEVELS

enum {
  FEW_ROWS = 4,            /* fewer are not worth packing b for */
  CHUNK_BYTES = 512 << 10, /* columns of b that stay in the second-level cache while rows of a pass by */
  GRAIN_PACK = 1 << 16     /* bytes */
};

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t parts(int64_t n, int64_t size) { return (n + size - 1) / size; }

/* One product of a batch. An element is as many int8 along k as the kernels' instruction adds up. */
typedef struct dot_job {
  const cni_int8_loops *loops;
  const cni_gemm_kernels *ker;
  bool tiles; /* a is packed for tiles, depth is a multiple of theirs */
  bool wide;  /* an element's numbers are int16 */
  bool
      unsigned_a; /* a's numbers are read so: 128 is added to them, and what that adds to the sums taken away before */
  const int8_t *a, *b;
  int64_t a_row, a_col, b_row, b_col;
  int32_t *c;
  int64_t c_row;
  int64_t m, n, k, depth; /* depth: elements along k */
  int64_t mr, nc, row_panels, col_panels;
  int8_t *packed_a; /* row panels: (depth, mr) elements, or as cni_tiles_pack says */
  int8_t *packed;   /* column panels of b: (depth, nr) elements */
  int32_t *begin;   /* of each column, with unsigned_a: where its sums begin, -128 times the sum of its numbers */
} dot_job;

static int64_t size_of(const dot_job *q) { return (int64_t)q->ker->size; }
static int64_t terms_of(const dot_job *q) { return q->wide ? size_of(q) / 2 : size_of(q); } /* of an element */

/* A row of k numbers as pairs of int16, `width` of them apart. */
static void put_words(uint32_t *to, int64_t width, const int8_t *from, int64_t k_step, int64_t k)
{
  for (int64_t t = 0; t < k; t += 2, to += width)
    *to = cni_word_pair(from[t * k_step], t + 1 < k ? from[(t + 1) * k_step] : 0);
}

/* `count` rows of k numbers, i_step and k_step apart, as elements to[(t * width + i) * size], filled with 0. */
static void put_panel(const dot_job *q, int8_t *to, int width, const int8_t *from, int64_t i_step, int64_t k_step,
                      int64_t count)
{
  const int64_t size = size_of(q), terms = terms_of(q), apart = width * size;
  if (count < width || q->depth * terms > q->k) memset(to, 0, (size_t)(q->depth * apart));
  for (int64_t i = 0; i < count; i++, from += i_step, to += size) {
    if (q->wide) put_words((uint32_t *)(void *)to, width, from, k_step, q->k);
    for (int64_t k = 0; k < q->k && !q->wide; k += size) {
      int8_t *element = to + k / size * apart;
      for (int64_t t = 0; t < least(size, q->k - k); t++) element[t] = from[(k + t) * k_step];
    }
  }
}

/* The same for quadruples of which those along k lie in one piece. false: they do not. */
static bool put_along(const dot_job *q, int8_t *to, int width, const int8_t *from, int64_t i_step, int64_t k_step,
                      int64_t count)
{
  const cni_gemm_kernels *words = CNI_BY_ISA(cni_gemm_kernels); /* elements of four bytes, whatever they mean */
  const int64_t have = q->k / 4;
  if (q->ker->size != 4 || q->wide || k_step != 1 || q->k % 4 || i_step % 4 || (uintptr_t)from % 4) return false;
  words->pack(to, from, i_step / 4, 1, (int)count, width, have);
  memset(to + have * width * 4, 0, (size_t)((q->depth - have) * width * 4));
  return true;
}

/* The same for quadruples and pairs of b's columns, where rows or columns of b lie in one piece. false: they do not. */
static bool put_quads(const dot_job *q, int8_t *to, const int8_t *from, int count)
{
  const int nr = q->ker->nr;
  const int64_t have = parts(q->k, terms_of(q));
  if (q->ker->size != 4) return false;
  if (q->b_col == 1 && q->wide) q->loops->words((uint32_t *)(void *)to, from, q->b_row, count, nr, q->k);
  else if (q->wide) return false;
  else if (q->b_col == 1) q->loops->quads((uint32_t *)(void *)to, from, q->b_row, count, nr, q->k);
  else return put_along(q, to, nr, from, q->b_col, q->b_row, count);
  memset(to + have * nr * 4, 0, (size_t)((q->depth - have) * nr * 4));
  return true;
}

/* Items: column panels of b. */
static void pack_range(int64_t begin, int64_t end, void *payload)
{
  const dot_job *q = payload;
  const int64_t nr = q->ker->nr;
  for (int64_t p = begin; p < end; p++) {
    int8_t *to = q->packed + p * nr * q->depth * size_of(q);
    const int8_t *from = q->b + p * nr * q->b_col;
    const int64_t count = least(nr, q->n - p * nr);
    if (!put_quads(q, to, from, (int)count)) put_panel(q, to, (int)nr, from, q->b_col, q->b_row, count);
    if (!q->unsigned_a) continue;
    q->loops->add_up(q->begin + p * nr, (const uint32_t *)(const void *)to, (int)nr, q->depth);
    for (int64_t j = p * nr; j < (p + 1) * nr; j++) q->begin[j] *= -128;
  }
}

/* Items: row panels of a. */
static void pack_a_range(int64_t begin, int64_t end, void *payload)
{
  const dot_job *q = payload;
  for (int64_t p = begin; p < end; p++) {
    const int64_t first = p * q->mr, rows = least(q->mr, q->m - first), bytes = q->mr * q->depth * size_of(q);
    int8_t *to = q->packed_a + p * bytes;
    const int8_t *from = q->a + first * q->a_row;
#if defined(__x86_64__)
    if (q->tiles) {
      cni_tiles_pack(to, from, q->a_row, q->a_col, (int)rows, q->k, 1);
      continue;
    }
#endif
    if (!put_along(q, to, (int)q->mr, from, q->a_row, q->a_col, rows))
      put_panel(q, to, (int)q->mr, from, q->a_row, q->a_col, rows);
    if (q->unsigned_a) q->loops->flip((uint32_t *)(void *)to, bytes / 4);
  }
}

/* Where sums begin that will have too much. */
static void start_rows(const dot_job *q, int64_t i, int64_t rows, int64_t j, int64_t cols)
{
  for (int64_t r = i; r < i + rows; r++)
    memcpy(q->c + r * q->c_row + j, q->begin + j, (size_t)cols * sizeof *q->c);
}

/* Items: row panels of a against chunks of b's columns, the chunks changing slowest. */
static void panels_range(int64_t begin, int64_t end, void *payload)
{
  const dot_job *q = payload;
  for (int64_t item = begin; item < end; item++) {
    const int64_t p = item % q->row_panels, first = p * q->mr, rows = least(q->mr, q->m - first);
    const int64_t j = item / q->row_panels * q->nc, cols = least(q->nc, q->n - j);
    if (q->unsigned_a) start_rows(q, first, rows, j, cols);
    cni_gemm_run r = {.a = q->packed_a + p * q->mr * q->depth * size_of(q),
                      .a_row = 1,
                      .a_col = q->mr,
                      .b = q->packed + j * q->depth * size_of(q),
                      .c = q->c + first * q->c_row + j,
                      .c_row = q->c_row,
                      .c_col = 1,
                      .rows = (int)rows,
                      .cols = cols,
                      .depth = q->depth,
                      .alpha = 1,
                      .beta = q->unsigned_a ? 1 : 0};
#if defined(__x86_64__)
    if (q->tiles) r.a_row = CNI_TILE, r.a_col = CNI_TILE * rows;
#endif
    q->ker->run(&r);
  }
}

static void set_operands(dot_job *q, const job *j, int64_t batch)
{
  q->a = (const int8_t *)j->a->data + batch * step(j->a);
  q->b = (const int8_t *)j->b->data + batch * step(j->b);
  q->c = (int32_t *)j->c->data + batch * step(j->c);
}

static dot_job dots_of(const job *j, const cni_gemm_kernels *ker)
{
  const int64_t *as = j->a->strides + j->a->ndim - 2, *bs = j->b->strides + j->b->ndim - 2;
  dot_job q = {.loops = j->loops, .ker = ker, .mr = ker->mr, .m = j->m, .n = j->n, .k = j->k};
  q.a_row = as[0], q.a_col = as[1], q.b_row = bs[0], q.b_col = bs[1];
  q.c_row = j->c->strides[j->c->ndim - 2];
#if defined(__x86_64__)
  q.wide = ker == &cni_gemm_words;
  q.tiles = ker == &cni_gemm_tile_quads;
  q.unsigned_a = !q.tiles && !q.wide;
#endif
  q.depth = parts(j->k, terms_of(&q));
#if defined(__x86_64__)
  if (q.tiles) q.depth = parts(q.depth, CNI_TILE) * CNI_TILE;
#endif
  q.row_panels = parts(q.m, q.mr);
  q.col_panels = parts(q.n, ker->nr);
  q.nc = CHUNK_BYTES / (q.depth * (int64_t)ker->size) / ker->nr * ker->nr;
  q.nc = q.nc < 2 * ker->nr ? 2 * ker->nr : q.nc;
  return q;
}

/* NULL where the machine has no such instruction, or the plain loops are better. kept: b is packed before. */
static const cni_gemm_kernels *dot_kernels(const job *j, bool kept)
{
  const bool worth = (kept || j->m >= FEW_ROWS) && j->k > 0;
  const int terms = worth ? cni_cpu_int8_terms() : 0;
#if defined(__x86_64__)
  if (terms && cni_cpu_multiplies_tiles()) return &cni_gemm_tile_quads;
  if (worth && !terms && cni_cpu_isa() >= CNI_ISA_AVX2) return &cni_gemm_words;
#else
  if (terms == 8) return &cni_gemm_octets;
#endif
  return terms ? &cni_gemm_quads : NULL;
}

/* Of packed b, and where its columns' sums begin behind it: whole lines, as columns of a panel are. */
static size_t columns_bytes(const dot_job *q)
{
  const int64_t columns = q->col_panels * q->ker->nr;
  return (size_t)(columns * q->depth * size_of(q)) + (size_t)columns * sizeof *q->begin;
}

static void place_columns(dot_job *q, int8_t *to)
{
  q->packed = to;
  q->begin = (int32_t *)(void *)(to + q->col_panels * q->ker->nr * q->depth * size_of(q));
}

static void pack_columns(dot_job *q)
{
  const int64_t bytes = q->ker->nr * q->depth * size_of(q);
  cni_parallel_for(q->col_panels, GRAIN_PACK / bytes + 1, pack_range, q);
}

/* prepared: what prepare_int8 made of b, or NULL. */
static int run_dots(const job *j, const cni_gemm_kernels *ker, void *prepared)
{
  dot_job q = dots_of(j, ker);
  const int64_t k = q.depth * size_of(&q), chunks = parts(q.n, q.nc);
  const size_t a_bytes = (size_t)(q.row_panels * q.mr * k), bytes = a_bytes + (prepared ? 0 : columns_bytes(&q));
  int8_t *room = cni_scratch_alloc(bytes);
  if (!room) return CN_ERR_MEMORY;
  q.packed_a = prepared ? room : room + columns_bytes(&q);
  place_columns(&q, prepared ? prepared : room);
  for (int64_t batch = 0; batch < j->c->numel / (j->m * j->n); batch++) {
    set_operands(&q, j, batch);
    if (!prepared) pack_columns(&q);
    cni_parallel_for(q.row_panels, GRAIN_PACK / (q.mr * k) + 1, pack_a_range, &q);
    cni_parallel_for(q.row_panels * chunks, GRAIN_WORK / (q.mr * least(q.nc, q.n) * k / 4 + 1) + 1, panels_range, &q);
  }
  cni_scratch_free(room, bytes);
  return cn_err();
}

#endif

static job job_of(const cn_call *call)
{
  const cn_desc *a = cn_desc_of(call->in[0]), *b = cn_desc_of(call->in[1]), *c = cn_desc_of(call->out[0]);
  const int last = c->ndim - 1;
  return (job){CNI_BY_ISA(cni_int8_loops), a, b, c, c->shape[last - 1], c->shape[last], a->shape[last]};
}

static bool takes(const cn_desc *a, const cn_desc *c)
{
  return a->dtype == CN_I8 && c->dtype == CN_I32 && (c->strides[c->ndim - 1] == 1 || !c->numel);
}

/* A weight packed, and its columns added up. */
static int prepare_int8(const cn_call *call, cn_prepared *made)
{
#if CNI_HAS_LEVELS
  job j = job_of(call);
  const cni_gemm_kernels *ker = takes(j.a, j.c) && j.c->ndim == 2 && j.c->numel ? dot_kernels(&j, true) : NULL;
  if (!ker) return CN_OK;
  dot_job q = dots_of(&j, ker);
  made->bytes = columns_bytes(&q);
  made->of = 1u << 1;
  made->form = ker->size;
  if (!made->memory) return CN_OK;
  set_operands(&q, &j, 0);
  place_columns(&q, made->memory);
  pack_columns(&q);
#else
  (void)call, (void)made;
#endif
  return CN_OK;
}

static int int8_kernel(cn_call *call)
{
  job j = job_of(call);
  const cn_desc *b = j.b, *c = j.c;
  const int last = c->ndim - 1;
  if (!takes(j.a, c)) {
    call->refusal = "only int8 to int32, into rows without gaps";
    return CN_REFUSED;
  }
  if (c->numel == 0) return CN_OK;
#if CNI_HAS_LEVELS
  const cni_gemm_kernels *ker = dot_kernels(&j, call->prepared != NULL);
  if (ker) return run_dots(&j, ker, call->prepared ? call->prepared->memory : NULL);
#endif
  cn_desc packed;
  size_t bytes = cni_dtype_bytes(CN_I8, b->numel);
  void *copy = NULL;
  if (b->strides[last] != 1 && b->numel) { /* a transposed view */
    if (!(copy = cni_scratch_alloc(bytes))) return CN_ERR_MEMORY;
    packed = cni_cpu_packed(b, CN_I8, copy);
    cni_cpu_copy(&packed, b);
    j.b = &packed;
  }
  int64_t work = j.n * (j.k ? j.k : 1);
  cni_parallel_for(c->numel / j.n, GRAIN_WORK / work + 1, rows_range, &j);
  cni_scratch_free(copy, bytes);
  return CN_OK;
}

const cn_kernel cni_cpu_matmul_int8_kernels[] = {
    {"mm_dtype", "int8", int8_kernel, NULL, prepare_int8},
    {"bmm_dtype", "int8", int8_kernel},
    {NULL, NULL, NULL},
};
