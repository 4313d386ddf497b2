/* copy.c: every copy of elements on the CPU: same or other type, any strides, broadcasting.
 *
 * Place in the flow: the kernel of copy, clone, contiguous_copy, channels_last, cast and reshape, and what other
 * kernels call to bring an operand into a type or layout (cni_cpu_copy). Five ways, fastest first: one flat
 * run; tiles where the two sides run along different dims (transposes); many short rows; rows of equal or zero
 * stride; rows gathered in blocks. Invariant: a value converts as base/convert.h says on every way. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "cast.h"
#include "iter.h"
#include "nontemporal.h"
#include "rows.h"
#include "tensor/tensor.h"
#include "transpose.h"

enum {
  BLOCK = 512,            /* elements converted at a time in rows that must be gathered */
  GRAIN = 32768,          /* elements a thread takes at least */
  TILE_BYTES = 16384,     /* of one tile, so that it and its source stay in L1 */
  TILE_SIDE = 64,
  TILE_LEAST = 4,         /* a dim shorter than this is not worth a tile */
  SHORT_ROW = 8,          /* elements up to which rows are short */
  ROWS = 256              /* of them a thread takes at a time */
};

typedef struct job {
  cni_cast_fn cast; /* a plain copy when the types are the same */
  bool same;        /* types */
  size_t dsize, ssize;
} job;

/* ---- one flat run ---- */

typedef struct flat {
  const job *j;
  char *dst;
  const char *src;
  bool nontemporal;
} flat;

/* The result past the caches: a plain copy at once, a conversion block by block through L1. */
static void nontemporal_range(const flat *f, char *dst, const char *src, int64_t n)
{
  _Alignas(64) char block[BLOCK * 8];
  int64_t dsize = (int64_t)f->j->dsize, ssize = (int64_t)f->j->ssize;
  if (f->j->same) {
    cni_nontemporal_copy(dst, src, (size_t)(n * dsize));
    cni_nontemporal_end();
    return;
  }
  for (int64_t done = 0, m; done < n; done += m) {
    char *to = dst + done * dsize;
    const char *from = src + done * ssize, *ahead = from + BLOCK * ssize;
    m = n - done < BLOCK ? n - done : BLOCK;
    if (done == 0 && m == BLOCK) m -= (int64_t)((uintptr_t)to & (CNI_LINE - 1)) / dsize;
    bool fits = cni_nontemporal_fits(to);
    size_t more = (size_t)((n - done - m < BLOCK ? n - done - m : BLOCK) * dsize);
    f->j->cast(fits ? block : to, from, (size_t)m);
    if (fits) cni_nontemporal_store(to, block, (size_t)(m * dsize), &ahead, &more, 1);
  }
  cni_nontemporal_end();
}

static void flat_range(int64_t begin, int64_t end, void *payload)
{
  const flat *f = payload;
  int64_t dsize = (int64_t)f->j->dsize, ssize = (int64_t)f->j->ssize;
  if (f->nontemporal) nontemporal_range(f, f->dst + begin * dsize, f->src + begin * ssize, end - begin);
  else f->j->cast(f->dst + begin * dsize, f->src + begin * ssize, (size_t)(end - begin));
}

static bool run_flat(const job *j, const cn_desc *dst, const cn_desc *src)
{
  if (!cni_same_layout(dst, src) || !cni_is_dense(dst->ndim, dst->shape, dst->strides)) return false;
  flat f = {j, dst->data, src->data, cni_nontemporal_pays(dst->numel * (int64_t)(j->dsize + j->ssize))};
  cni_parallel_for(dst->numel, GRAIN, flat_range, &f);
  return true;
}

/* ---- rows ---- */

static void copy_row(char *const *ptr, const int64_t *stride, int64_t n, void *payload)
{
  const job *j = payload;
  char *dst = ptr[0];
  const char *src = ptr[1];
  int64_t dsize = (int64_t)j->dsize, ssize = (int64_t)j->ssize;
  _Alignas(64) char raw[BLOCK * 8], cooked[BLOCK * 8];
  if (stride[1] == 0) {
    j->cast(cooked, src, 1);
    cni_row_fill(dst, stride[0], cooked, j->dsize, n);
  } else if (j->same) {
    cni_row_copy(dst, stride[0], src, stride[1], j->dsize, n);
  } else if (stride[0] == dsize && stride[1] == ssize) {
    j->cast(dst, src, (size_t)n);
  } else {
    for (int64_t done = 0; done < n; done += BLOCK) {
      int64_t m = n - done < BLOCK ? n - done : BLOCK;
      const char *from = src + done * stride[1];
      if (stride[1] != ssize) {
        cni_row_gather(raw, from, stride[1], j->ssize, m);
        from = raw;
      }
      void *to = stride[0] == dsize ? dst + done * stride[0] : cooked;
      j->cast(to, from, (size_t)m);
      if (to == cooked) cni_row_scatter(dst + done * stride[0], stride[0], cooked, j->dsize, m);
    }
  }
}

/* ---- short rows: two dims in one loop ---- */

typedef struct short_walk {
  const cni_iter *it;
  size_t elem;
  int64_t per; /* blocks of ROWS rows in the last dim but one */
} short_walk;

#define SHORT_LOOP(size) \
  case size: \
    for (int64_t r = 0; r < rows; r++) \
      for (int64_t k = 0; k < n; k++) memcpy(dst + r * drow + k * dcol, src + r * srow + k * scol, size); \
    break

static void short_range(int64_t begin, int64_t end, void *payload)
{
  const short_walk *s = payload;
  const cni_iter *it = s->it;
  int col = it->ndim - 1, row = col - 1;
  int64_t n = it->shape[col], drow = it->stride[0][row], dcol = it->stride[0][col];
  int64_t srow = it->stride[1][row], scol = it->stride[1][col];
  for (int64_t at = begin; at < end; at++) {
    int64_t first = at % s->per * ROWS, rest = at / s->per;
    int64_t rows = it->shape[row] - first < ROWS ? it->shape[row] - first : ROWS;
    char *dst = it->base[0] + first * drow;
    const char *src = it->base[1] + first * srow;
    for (int i = row - 1; i >= 0; rest /= it->shape[i--]) {
      dst += rest % it->shape[i] * it->stride[0][i];
      src += rest % it->shape[i] * it->stride[1][i];
    }
    switch (s->elem) {
      SHORT_LOOP(1);
      SHORT_LOOP(2);
      SHORT_LOOP(4);
      SHORT_LOOP(8);
    default: break;
    }
  }
}

static bool run_short(const job *j, const cni_iter *it)
{
  int last = it->ndim - 1;
  if (!j->same || last < 1 || it->shape[last] > SHORT_ROW || it->shape[last - 1] < SHORT_ROW) return false;
  short_walk s = {it, j->dsize, (it->shape[last - 1] + ROWS - 1) / ROWS};
  int64_t units = it->numel / (it->shape[last] * it->shape[last - 1]) * s.per;
  cni_parallel_for(units, GRAIN / (ROWS * it->shape[last]) + 1, short_range, &s);
  return true;
}

/* ---- tiles ---- */

/* The walk seen as matrices: dst runs along columns (its last dim), src along rows (dim `row`). */
typedef struct tiling {
  const job *j;
  const cni_iter *it;
  int row, col;
  int64_t nrow, ncol;       /* most elements of a tile along each */
  int64_t row_tiles, col_tiles;
  bool nontemporal; /* dst past the caches */
  int64_t straight; /* not 0: in blocks with such sides, from src to dst without a stop */
} tiling;

/* Asks for what the next tile reads: its runs lie far apart, where the hardware does not look ahead. */
static void fetch_tile(const char *src, int64_t sstep, int64_t bytes, int64_t nc)
{
  for (int64_t c = 0; c < nc; c++)
    for (int64_t k = 0; k < bytes; k += CNI_LINE) __builtin_prefetch(src + c * sstep + k);
}

/* One tile of nr x nc elements: gather and convert src's runs, transpose them, write dst's runs. Packing first
 * keeps the transposition in L1 when rows lie a power of two apart and fall into the same cache lines. next: columns of
 * the tile that follows below, at most nc. */
static void copy_tile(const tiling *t, char *dst, const char *src, int64_t nr, int64_t nc, int64_t next)
{
  _Alignas(64) char packed[TILE_BYTES], transposed[TILE_BYTES];
  const job *j = t->j;
  int64_t dsize = (int64_t)j->dsize, ssize = (int64_t)j->ssize;
  int64_t sstep = t->it->stride[1][t->col], dstep = t->it->stride[0][t->row];
  if (t->straight && nr % t->straight == 0 && nc % t->straight == 0) {
    cni_transposes()->nontemporal[j->dsize](dst, dstep, src, sstep, nr, nc);
    return;
  }
  if (sstep == nr * ssize) j->cast(packed, src, (size_t)(nr * nc));
  else
    for (int64_t c = 0; c < nc; c++) j->cast(packed + c * nr * dsize, src + c * sstep, (size_t)nr);
  if (sstep != nr * ssize) fetch_tile(src + nc * sstep, sstep, nr * ssize, next);
  cni_transposes()->transpose[j->dsize](transposed, nc * dsize, packed, nr * dsize, nr, nc);
  if (dstep == nc * dsize) memcpy(dst, transposed, (size_t)(nr * nc * dsize));
  else if (t->nontemporal)
    for (int64_t r = 0; r < nr; r++)
      cni_nontemporal_copy(dst + r * dstep, transposed + r * nc * dsize, (size_t)(nc * dsize));
  else
    for (int64_t r = 0; r < nr; r++) memcpy(dst + r * dstep, transposed + r * nc * dsize, (size_t)(nc * dsize));
}

/* Tiles [begin, end): columns of tiles fastest, then rows of tiles, then the other dims. */
static void tile_range(int64_t begin, int64_t end, void *payload)
{
  const tiling *t = payload;
  const cni_iter *it = t->it;
  for (int64_t at = begin; at < end; at++) {
    int64_t c = at % t->col_tiles * t->ncol, r = at / t->col_tiles % t->row_tiles * t->nrow;
    int64_t rest = at / t->col_tiles / t->row_tiles;
    int64_t nr = it->shape[t->row] - r, nc = it->shape[t->col] - c, next;
    char *dst = it->base[0] + r * it->stride[0][t->row] + c * it->stride[0][t->col];
    const char *src = it->base[1] + r * it->stride[1][t->row] + c * it->stride[1][t->col];
    for (int i = it->ndim - 1; i >= 0; i--) {
      if (i == t->row || i == t->col) continue;
      int64_t k = rest % it->shape[i];
      rest /= it->shape[i];
      dst += k * it->stride[0][i];
      src += k * it->stride[1][i];
    }
    next = nc - t->ncol < t->ncol ? nc - t->ncol : t->ncol;
    copy_tile(t, dst, src, nr < t->nrow ? nr : t->nrow, nc < t->ncol ? nc : t->ncol, next);
  }
  if (t->nontemporal) cni_nontemporal_end();
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Does dst begin with a line in every row? */
static bool lines_only(const cni_iter *it)
{
  bool whole = cni_nontemporal_fits(it->base[0]);
  for (int i = 0; i < it->ndim - 1; i++) whole &= it->stride[0][i] % CNI_LINE == 0;
  return whole;
}

/* Takes the walk when dst is packed along its last dim and src along another one. */
static bool run_tiles(const job *j, const cni_iter *it)
{
  int col = it->ndim - 1, row = -1;
  if (it->stride[0][col] != (int64_t)j->dsize || it->stride[1][col] == 0) return false;
  if (it->stride[1][col] == (int64_t)j->ssize && it->shape[col] > SHORT_ROW) return false; /* windows: rows of both */
  for (int i = 0; i < col; i++)
    if (it->stride[1][i] == (int64_t)j->ssize && it->shape[i] > 1) row = i;
  if (row < 0 || it->shape[row] * it->shape[col] < TILE_LEAST * TILE_LEAST) return false;
  tiling t = {.j = j, .it = it, .row = row, .col = col};
  int64_t room = TILE_BYTES / (int64_t)(j->dsize > j->ssize ? j->dsize : j->ssize);
  int64_t side = room < TILE_SIDE * TILE_SIDE ? TILE_SIDE / 2 : TILE_SIDE;
  t.ncol = least(side, it->shape[col]); /* a short side leaves room for a longer other one */
  t.nrow = least(room / t.ncol, least(it->shape[row], t.ncol < side ? room : side));
  if (t.nrow < side) t.ncol = least(room / t.nrow, it->shape[col]);
  bool past = cni_nontemporal_pays(it->numel * (int64_t)(j->dsize + j->ssize));
  int64_t block = cni_transposes()->side[j->dsize];
  if (past && j->same && block && lines_only(it) && it->shape[row] >= block && it->shape[col] >= block) {
    t.straight = t.ncol = block; /* one line of dst, and runs of src that the hardware sees coming */
    t.nrow = least(room / block, it->shape[row]);
  }
  t.row_tiles = (it->shape[row] + t.nrow - 1) / t.nrow;
  t.col_tiles = (it->shape[col] + t.ncol - 1) / t.ncol;
  t.nontemporal = t.ncol * (int64_t)j->dsize >= (t.straight ? 1 : 2) * CNI_LINE && past;
  int64_t tiles = it->numel / (it->shape[row] * it->shape[col]) * t.row_tiles * t.col_tiles;
  cni_parallel_for(tiles, GRAIN / (t.nrow * t.ncol) + 1, tile_range, &t);
  return true;
}

/* ---- complex numbers: as real ones of their size where they move as they are, else part after part ---- */

cn_desc cni_cpu_part_of(const cn_desc *d, int part)
{
  static const double zero = 0;
  cn_desc p = *d;
  if (cni_dtype_is_complex(d->dtype)) {
    p.dtype = cni_dtype_part(d->dtype);
    p.data = (char *)d->data + (size_t)part * cni_dtype_size(p.dtype);
    for (int i = 0; i < p.ndim; i++) p.strides[i] *= 2;
  } else if (part) {
    p = (cn_desc){.data = (void *)(uintptr_t)&zero, .numel = 1, .dtype = CN_F64, .device = CN_CPU}; /* only read */
  }
  return p;
}

/* ---- entry ---- */

void cni_cpu_copy(const cn_desc *dst, const cn_desc *src)
{
  if (dst->dtype == CN_C64 && src->dtype == CN_C64) {
    cn_desc to = *dst, from = *src;
    to.dtype = from.dtype = CN_I64;
    cni_cpu_copy(&to, &from);
    return;
  }
  if (cni_dtype_is_complex(dst->dtype)) {
    for (int i = 0; i < 2; i++) {
      cn_desc to = cni_cpu_part_of(dst, i), from = cni_cpu_part_of(src, i);
      cni_cpu_copy(&to, &from);
    }
    return;
  }
  job j = {.cast = cni_cast_find(src->dtype, dst->dtype), .same = src->dtype == dst->dtype,
           .dsize = cni_dtype_size(dst->dtype), .ssize = cni_dtype_size(src->dtype)};
  cni_iter it;
  if (dst->numel == 0) return;
  if (dst->data == src->data && j.same && cni_same_layout(dst, src)) return; /* x.copy_(x) */
  if (run_flat(&j, dst, src)) return;
  cni_iter_begin(&it, dst->ndim, dst->shape);
  cni_iter_add(&it, dst);
  cni_iter_add(&it, src);
  cni_iter_finish(&it);
  if (!run_tiles(&j, &it) && !run_short(&j, &it)) cni_iter_run(&it, GRAIN, copy_row, &j);
}

cn_desc cni_cpu_packed(const cn_desc *d, int dtype, void *data)
{
  cn_desc p = *d;
  p.data = data;
  p.dtype = dtype;
  p.device = CN_CPU;
  p.weak = 0;
  cni_contiguous_strides(d->ndim, d->shape, p.strides);
  return p;
}

/* The source is the last input: copy(input, src) has two, the others one. */
static int copy_kernel(cn_call *c)
{
  cni_cpu_copy(cn_desc_of(c->out[0]), cn_desc_of(c->in[c->nin - 1]));
  return CN_OK;
}

/* In a graph: what cannot be a view is copied, as the input's shape sees the result's memory. */
static int reshape_kernel(cn_call *c)
{
  const cn_desc *from = cn_desc_of(c->in[0]);
  cn_desc to = cni_cpu_packed(from, from->dtype, cn_desc_of(c->out[0])->data);
  cni_cpu_copy(&to, from);
  return CN_OK;
}

const cn_kernel cni_cpu_copy_kernels[] = {
    {"copy", "strided", copy_kernel},
    {"clone", "strided", copy_kernel},
    {"contiguous_copy", "strided", copy_kernel},
    {"contiguous", "strided", copy_kernel},
    {"reshape", "strided", reshape_kernel},
    {"channels_last", "strided", copy_kernel},
    {"cast", "strided", copy_kernel},
    {NULL, NULL, NULL},
};
