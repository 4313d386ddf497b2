/* attention.c: kernels of sdpa_forward and sdpa_backward: scores are made a block at a time (queries by
 * keys), made into weights and used up at once, so memory is linear in the lengths.
 *
 * Flow: operands as float32 or float64 (16-bit floats are converted first) -> items in parallel, a block of
 * queries of one head (forward), a head or a block of queries or keys (backward) -> per block two to five
 * small products and the loops of attention.h. Invariant: blocks, and the order in which they are added up,
 * depend on the shapes alone, so no bit depends on the number of threads. */
#include "attention.h"

#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/gemm/gemm_isa.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/random/dropout.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "base/state.h"
#include "tensor/tensor.h"

enum {
  QUERIES = CNI_ATTENTION_QUERIES, /* of a block */
  KEYS = 256,
  TRANSPOSE_FROM = 16, /* queries: from here scores lie with the queries in the lanes */
  GRAIN_WORK = 1 << 18, /* multiply-adds worth waking a thread for */
  ROW_COST = 8          /* of them for an element of a row that is read and cleared once */
};

typedef struct attention {
  const cni_attention_loops *loops;
  bool f64, causal;
  bool transposed; /* a block of scores lies as (cols, QUERIES), so that neither keys nor sums over them are packed */
  int64_t size;                 /* bytes of an element */
  int64_t batch, heads, groups; /* groups: query heads per key head */
  int64_t queries, keys, width, value_width;
  int64_t query_blocks, key_blocks;
  double scale;
  cn_desc q, k, v;       /* (B, H, Tq, D), (B, Hk, Tk, D), (B, Hk, Tk, Dv) in the compute type */
  cn_desc out, lse;      /* (B, H, Tq, Dv), (B, H, Tq) */
  cn_desc g, gq, gk, gv; /* backward only */
  const cn_desc *mask;   /* NULL: none */
  cn_desc mask_room;
  const cn_desc *kept; /* (B, H, Tq, Tk), row-major: 0 where dropout takes a weight; NULL: all stay */
  cn_desc kept_room;
  const uint64_t *draws; /* instead of kept: the key and the first counter of the numbers that decide; NULL: none */
  uint64_t draws_room[2];
  double keep;          /* how probably a weight stays */
  char *delta;          /* (B, H, Tq) */
  bool want_q, want_kv; /* what a pass of backward adds to */
} attention;

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t parts(int64_t n, int64_t size) { return (n + size - 1) / size; }

/* Row `row` of head h of batch b. */
static char *row_at(const attention *t, const cn_desc *d, int64_t b, int64_t h, int64_t row)
{
  return (char *)d->data + (b * d->strides[0] + h * d->strides[1] + row * d->strides[2]) * t->size;
}

static int product(const attention *t, const cni_gemm *g)
{
  return t->f64 ? cni_gemm_f64(g) : cni_gemm_f32(g);
}

/* Steps between queries and between keys of a block of scores with `cols` keys. */
static inline int64_t query_step(const attention *t, int64_t cols) { return t->transposed ? 1 : cols; }
static inline int64_t key_step(const attention *t) { return t->transposed ? QUERIES : 1; }

/* One block: queries [i, i + rows) of head h against keys [j, j + cols). */
typedef struct block {
  int64_t b, h, kh, i, j, rows, cols;
} block;

static block block_at(const attention *t, int64_t b, int64_t h, int64_t i, int64_t j)
{
  block x = {.b = b, .h = h, .kh = h / t->groups, .i = i, .j = j};
  x.rows = least(QUERIES, t->queries - i);
  x.cols = least(KEYS, t->keys - j);
  if (t->causal) x.cols = least(x.cols, i + x.rows - j); /* at most 0: nothing to see here */
  return x;
}

/* out: (rows, cols) = alpha * (x's rows) (y's rows)^T, a block of scores. x is indexed by queries, y by keys. */
static int rows_by_rows(const attention *t, const block *x, const cn_desc *left, const cn_desc *right,
                        double alpha, void *out)
{
  cni_gemm g = {.m = x->rows,
                .n = x->cols,
                .k = left->shape[3],
                .alpha = alpha,
                .a = row_at(t, left, x->b, x->h, x->i),
                .a_row = left->strides[2],
                .a_col = left->strides[3],
                .b = row_at(t, right, x->b, x->kh, x->j),
                .b_row = right->strides[3],
                .b_col = right->strides[2],
                .c = out,
                .c_row = query_step(t, x->cols),
                .c_col = key_step(t)};
  return product(t, &g);
}

/* Whether the mask's rows must be transposed before they meet transposed scores. */
static inline bool transposes_mask(const attention *t)
{
  return t->transposed && t->mask && t->mask->strides[2] != 0;
}

/* Elements from the first to the block's, of what lies over (B, H, Tq, Tk). */
static int64_t block_offset(const cn_desc *d, const block *x)
{
  return x->b * d->strides[0] + x->h * d->strides[1] + x->i * d->strides[2] + x->j * d->strides[3];
}

/* A block's numbers, steps of `row` and `col` elements apart, as transposed scores lie. */
static void turn_block(const attention *t, const block *x, const void *numbers, int64_t row, int64_t col, void *room)
{
  const cni_gemm_kernels *by_type = CNI_BY_ISA(cni_gemm_kernels);
  by_type[t->f64].pack(room, numbers, row, col, (int)x->rows, QUERIES, x->cols);
}

/* room: a block, if the mask is transposed. */
static void apply_mask(const attention *t, const block *x, void *s, void *room)
{
  const cn_desc *m = t->mask;
  if (t->causal && x->j + x->cols > x->i + 1) t->loops->causal(s, x->i - x->j, x->rows, x->cols);
  if (!m) return;
  int64_t at = block_offset(m, x);
  if (m->dtype == CN_BOOL)
    t->loops->bool_mask(s, (const uint8_t *)m->data + at, m->strides[2], m->strides[3], x->rows, x->cols);
  else if (transposes_mask(t)) {
    turn_block(t, x, (const char *)m->data + at * t->size, m->strides[2], m->strides[3], room);
    t->loops->add_mask(s, room, 1, QUERIES, x->rows, x->cols);
  } else t->loops->add_mask(s, (const char *)m->data + at * t->size, m->strides[2], m->strides[3], x->rows, x->cols);
}

/* Masked scores of a block: (rows, cols). room: see apply_mask. */
static int scores(const attention *t, const block *x, void *s, void *room)
{
  int status = rows_by_rows(t, x, &t->q, &t->k, t->scale, s);
  if (!status) apply_mask(t, x, s, room);
  return status;
}

/* ---- dropout ---- */

static inline bool drops(const attention *t) { return t->kept || t->draws; }

/* Blocks of memory that choices_of needs: one where choices are drawn, one where they are turned round. */
static int64_t choice_blocks(const attention *t)
{
  return (t->draws != NULL) + (drops(t) && t->transposed);
}

/* A block's choices: 0 where a weight goes. */
typedef struct choices {
  const void *kept;
  int64_t row; /* elements from one query's to the next one's, unless they lie as transposed scores do */
} choices;

/* (rows, KEYS) numbers: what native_dropout with these draws would leave of the block's place among all scores. */
static void draw_block(const attention *t, const block *x, char *room)
{
  int64_t first = ((x->b * t->heads + x->h) * t->queries + x->i) * t->keys + x->j;
  for (int64_t r = 0; r < x->rows; r++, first += t->keys, room += KEYS * t->size)
    cni_dropout_choices(room, t->f64, first, x->cols, t->draws, t->keep);
}

/* room: choice_blocks of memory. */
static choices choices_of(const attention *t, const block *x, char *room)
{
  choices c = {room, KEYS};
  if (!drops(t)) return (choices){NULL, 0};
  if (t->draws) draw_block(t, x, room);
  else c = (choices){(const char *)t->kept->data + block_offset(t->kept, x) * t->size, t->keys};
  if (!t->transposed) return c;
  char *turned = room + (t->draws ? QUERIES * KEYS * t->size : 0);
  turn_block(t, x, c.kept, c.row, 1, turned);
  return (choices){turned, 0};
}

static void thin(const attention *t, const block *x, choices c, void *s)
{
  if (c.kept) t->loops->thin(s, c.kept, c.row, 1 / t->keep, x->rows, x->cols);
}

/* ---- forward ---- */

/* Room of an item: scores, unscaled result, running max and sum, a block of the mask and then dropout's choices. */
static size_t forward_room(const attention *t)
{
  int64_t mask = transposes_mask(t), blocks = 1 + (mask > choice_blocks(t) ? mask : choice_blocks(t));
  return (size_t)((blocks * QUERIES * KEYS + QUERIES * t->value_width + 2 * QUERIES) * t->size);
}

static void start_running(const attention *t, char *max, char *sum)
{
  memset(sum, 0, (size_t)(QUERIES * t->size));
  for (int64_t r = 0; r < QUERIES; r++) {
    if (t->f64) ((double *)(void *)max)[r] = -__builtin_inf();
    else ((float *)(void *)max)[r] = -__builtin_inff();
  }
}

/* Queries [i, i + rows) of one head against all keys. */
static int forward_rows(const attention *t, int64_t b, int64_t h, int64_t i, char *room)
{
  char *s = room, *o = s + QUERIES * KEYS * t->size;
  char *max = o + QUERIES * t->value_width * t->size, *sum = max + QUERIES * t->size;
  block x = block_at(t, b, h, i, 0);
  int64_t rows = x.rows;
  memset(o, 0, (size_t)(rows * t->value_width * t->size));
  start_running(t, max, sum);
  for (int64_t j = 0; j < t->keys; j += KEYS) {
    x = block_at(t, b, h, i, j);
    if (x.cols <= 0) break;
    int status = scores(t, &x, s, sum + QUERIES * t->size);
    if (status) return status;
    t->loops->step(s, x.rows, x.cols, max, sum, o, t->value_width);
    thin(t, &x, choices_of(t, &x, sum + QUERIES * t->size), s);
    cni_gemm g = {.m = x.rows,
                  .n = t->value_width,
                  .k = x.cols,
                  .alpha = 1,
                  .beta = 1,
                  .a = s,
                  .a_row = query_step(t, x.cols),
                  .a_col = key_step(t),
                  .b = row_at(t, &t->v, b, x.kh, j),
                  .b_row = t->v.strides[2],
                  .b_col = t->v.strides[3],
                  .c = o,
                  .c_row = t->value_width,
                  .c_col = 1};
    status = product(t, &g);
    if (status) return status;
  }
  char *lse = (char *)t->lse.data + ((b * t->heads + h) * t->queries + i) * t->size;
  t->loops->finish(row_at(t, &t->out, b, h, i), t->out.strides[2], t->out.strides[3], lse, o, max, sum, rows,
                   t->value_width);
  return CN_OK;
}

static void forward_range(int64_t begin, int64_t end, void *payload)
{
  const attention *t = payload;
  size_t bytes = forward_room(t);
  char *room = t->queries % QUERIES ? cni_scratch_alloc_zero(bytes) : cni_scratch_alloc(bytes); /* all lanes are read */
  for (int64_t item = begin; room && item < end; item++) {
    int64_t i = item % t->query_blocks * QUERIES, head = item / t->query_blocks;
    if (forward_rows(t, head / t->heads, head % t->heads, i, room)) break;
  }
  cni_scratch_free(room, bytes);
}

/* ---- backward ---- */

/* Room of an item: weights, gradients of scores, dropout's choices. */
static size_t backward_room(const attention *t)
{
  return (size_t)((2 + choice_blocks(t)) * QUERIES * KEYS * t->size);
}

/* (rows of `to`) += alpha * s (rows of `from`), where s or its transpose is (to's rows, from's rows). */
static int add_product(const attention *t, const void *s, int64_t s_row, int64_t s_col, int64_t m, int64_t k,
                       double alpha, const cn_desc *from, const char *from_row, const cn_desc *to,
                       char *to_row)
{
  cni_gemm g = {.m = m,
                .n = to->shape[3],
                .k = k,
                .alpha = alpha,
                .beta = 1,
                .a = s,
                .a_row = s_row,
                .a_col = s_col,
                .b = from_row,
                .b_row = from->strides[2],
                .b_col = from->strides[3],
                .c = to_row,
                .c_row = to->strides[2],
                .c_col = to->strides[3]};
  return product(t, &g);
}

/* Adds what one block gives to the gradients of its queries, or of its keys and values, or both. room: see
 * backward_room. */
static int backward_block(const attention *t, const block *x, char *room)
{
  char *s = room, *d = room + QUERIES * KEYS * t->size;
  const int64_t at = ((x->b * t->heads + x->h) * t->queries + x->i) * t->size;
  const int64_t across = query_step(t, x->cols), along = key_step(t);
  int status = scores(t, x, s, d); /* d is not needed yet */
  if (status) return status;
  t->loops->weights(s, (const char *)t->lse.data + at, x->rows, x->cols);
  status = rows_by_rows(t, x, &t->g, &t->v, 1, d);
  if (status) return status;
  choices kept = choices_of(t, x, d + QUERIES * KEYS * t->size);
  thin(t, x, kept, d);
  t->loops->score_grad(d, s, t->delta + at, x->rows, x->cols);
  thin(t, x, kept, s);
  if (t->want_q)
    status = add_product(t, d, across, along, x->rows, x->cols, t->scale, &t->k,
                         row_at(t, &t->k, x->b, x->kh, x->j), &t->gq, row_at(t, &t->gq, x->b, x->h, x->i));
  if (status || !t->want_kv) return status;
  status = add_product(t, d, along, across, x->cols, x->rows, t->scale, &t->q,
                       row_at(t, &t->q, x->b, x->h, x->i), &t->gk, row_at(t, &t->gk, x->b, x->kh, x->j));
  if (status) return status;
  return add_product(t, s, along, across, x->cols, x->rows, 1, &t->g, row_at(t, &t->g, x->b, x->h, x->i), &t->gv,
                     row_at(t, &t->gv, x->b, x->kh, x->j));
}

/* All blocks of one key block, for every query head of its group. */
static int backward_keys(const attention *t, int64_t b, int64_t kh, int64_t j, char *room)
{
  for (int64_t h = kh * t->groups; h < (kh + 1) * t->groups; h++)
    for (int64_t i = 0; i < t->queries; i += QUERIES) {
      block x = block_at(t, b, h, i, j);
      int status = x.cols > 0 ? backward_block(t, &x, room) : CN_OK;
      if (status) return status;
    }
  return CN_OK;
}

/* Items: query blocks, each against its keys in their order. */
static void queries_range(int64_t begin, int64_t end, void *payload)
{
  const attention *t = payload;
  size_t bytes = backward_room(t);
  char *room = t->queries % QUERIES ? cni_scratch_alloc_zero(bytes) : cni_scratch_alloc(bytes);
  for (int64_t item = begin; room && item < end; item++) {
    int64_t i = item % t->query_blocks * QUERIES, head = item / t->query_blocks;
    for (int64_t j = 0; j < t->keys; j += KEYS) {
      block x = block_at(t, head / t->heads, head % t->heads, i, j);
      if (x.cols <= 0 || backward_block(t, &x, room)) break;
    }
  }
  cni_scratch_free(room, bytes);
}

/* Items: key blocks. */
static void keys_range(int64_t begin, int64_t end, void *payload)
{
  const attention *t = payload;
  const int64_t key_heads = t->heads / t->groups;
  size_t bytes = backward_room(t);
  char *room = t->queries % QUERIES ? cni_scratch_alloc_zero(bytes) : cni_scratch_alloc(bytes);
  for (int64_t item = begin; room && item < end; item++) {
    int64_t j = item % t->key_blocks * KEYS, head = item / t->key_blocks;
    if (backward_keys(t, head / key_heads, head % key_heads, j, room)) break;
  }
  cni_scratch_free(room, bytes);
}

/* Items: key heads, whole. */
static void heads_range(int64_t begin, int64_t end, void *payload)
{
  const attention *t = payload;
  keys_range(begin * t->key_blocks, end * t->key_blocks, (void *)(uintptr_t)t);
}

/* Clears as much of a gradient as rows [begin, end) are of all: gradients fill their memory, in whatever order. */
static void clear_part(const attention *t, const cn_desc *d, int64_t begin, int64_t end)
{
  const int64_t rows = t->batch * t->heads * t->queries, each = d->numel / rows, rest = d->numel % rows;
  const int64_t first = each * begin + rest * begin / rows, last = each * end + rest * end / rows;
  memset((char *)d->data + first * t->size, 0, (size_t)((last - first) * t->size));
}

/* Items: rows of the result. The gradients, which blocks are added to, are cleared besides. */
static void delta_range(int64_t begin, int64_t end, void *payload)
{
  const attention *t = payload;
  clear_part(t, &t->gq, begin, end);
  clear_part(t, &t->gk, begin, end);
  clear_part(t, &t->gv, begin, end);
  for (int64_t r = begin; r < end; r++) {
    int64_t i = r % t->queries, head = r / t->queries, b = head / t->heads, h = head % t->heads;
    double sum = t->loops->dot(row_at(t, &t->g, b, h, i), t->g.strides[3], row_at(t, &t->out, b, h, i),
                               t->out.strides[3], t->value_width);
    if (t->f64) ((double *)(void *)t->delta)[r] = sum;
    else ((float *)(void *)t->delta)[r] = (float)sum;
  }
}

static int64_t grain_of(double work)
{
  double grain = GRAIN_WORK / (work < 1 ? 1 : work);
  return grain < 1 ? 1 : (int64_t)grain;
}

/* Every gradient gets its blocks in the same order either way; with few heads the scores are made twice, once
 * for the queries and once for the keys, so that all threads have work. */
static void run_backward(attention *t)
{
  const int64_t key_heads = t->heads / t->groups, rows = t->batch * t->heads * t->queries;
  double unit = (double)least(QUERIES, t->queries) * (double)(t->width + t->value_width);
  if (rows == 0) { /* and no gradient comes to keys */
    memset(t->gk.data, 0, (size_t)(t->gk.numel * t->size));
    memset(t->gv.data, 0, (size_t)(t->gv.numel * t->size));
  }
  cni_parallel_for(rows, grain_of(ROW_COST * (double)t->value_width), delta_range, t);
  t->want_q = t->want_kv = true;
  if (t->batch * key_heads >= cn_num_threads()) {
    cni_parallel_for(t->batch * key_heads, grain_of(unit * (double)t->query_blocks * (double)t->keys),
                     heads_range, t);
    return;
  }
  t->want_kv = false;
  cni_parallel_for(t->batch * t->heads * t->query_blocks, grain_of(unit * (double)t->keys), queries_range, t);
  t->want_q = false;
  t->want_kv = true;
  cni_parallel_for(t->batch * key_heads * t->key_blocks,
                   grain_of(unit * (double)least(KEYS, t->keys) * (double)t->query_blocks), keys_range, t);
}

/* ---- operands ---- */

/* Memory for converted operands and results, given back at the end of the call. */
typedef struct temporaries {
  int n;
  struct {
    void *memory;
    size_t bytes;
  } list[12];
} temporaries;

static void *temporary(temporaries *x, size_t bytes)
{
  void *memory = cni_scratch_alloc(bytes);
  if (!memory) return NULL;
  x->list[x->n].memory = memory;
  x->list[x->n++].bytes = bytes;
  return memory;
}

static void free_temporaries(temporaries *x)
{
  while (x->n--) cni_scratch_free(x->list[x->n].memory, x->list[x->n].bytes);
}

/* to: `given` in type dtype and row-major, converted or copied where it is not. */
static int packed_operand(cn_desc *to, const cn_desc *given, int dtype, temporaries *x)
{
  *to = *given;
  if (given->dtype == dtype && cni_is_contiguous(given->ndim, given->shape, given->strides)) return CN_OK;
  void *memory = temporary(x, cni_dtype_bytes(dtype, given->numel));
  if (!memory) return CN_ERR_MEMORY;
  *to = cni_cpu_packed(given, dtype, memory);
  cni_cpu_copy(to, given);
  return CN_OK;
}
/* ... in any order. */
static int operand(cn_desc *to, const cn_desc *given, int dtype, temporaries *x)
{
  *to = *given;
  return given->dtype == dtype ? CN_OK : packed_operand(to, given, dtype, x);
}

/* to: where a result of the call is computed; result_done brings it home. */
static int result(cn_desc *to, const cn_desc *wanted, int dtype, temporaries *x)
{
  *to = *wanted;
  if (wanted->dtype == dtype && cni_is_dense(wanted->ndim, wanted->shape, wanted->strides)) return CN_OK;
  void *memory = temporary(x, cni_dtype_bytes(dtype, wanted->numel));
  if (!memory) return CN_ERR_MEMORY;
  *to = cni_cpu_packed(wanted, dtype, memory);
  return CN_OK;
}
static void result_done(const cn_desc *computed, const cn_desc *wanted)
{
  if (computed->data != wanted->data) cni_cpu_copy(wanted, computed);
}

/* The mask with strides over (B, H, Tq, Tk). */
static int mask_operand(attention *t, const cn_tensor *mask, int dtype, temporaries *x)
{
  t->mask = NULL;
  if (!mask) return CN_OK;
  const cn_desc *given = cn_desc_of(mask);
  cn_desc m = *given;
  int status = given->dtype == CN_BOOL ? CN_OK : operand(&m, given, dtype, x);
  if (status) return status;
  t->mask_room = m;
  for (int i = 0; i < 4; i++) {
    int k = i - (4 - m.ndim);
    t->mask_room.strides[i] = k >= 0 && m.shape[k] != 1 ? m.strides[k] : 0;
  }
  t->mask = &t->mask_room;
  return CN_OK;
}

/* dropped, draws, dropout_p: of the call. */
static int dropout_operand(attention *t, const cn_tensor *dropped, const cn_tensor *draws, const cn_value *p,
                           temporaries *x)
{
  t->keep = 1 - (p->tag == CN_V_FLOAT ? p->u.f : (double)p->u.i);
  if (draws) {
    const cn_desc *d = cn_desc_of(draws);
    const uint64_t *begin = d->data;
    t->draws_room[0] = begin[0], t->draws_room[1] = begin[d->strides[0]];
    t->draws = t->draws_room;
  }
  if (!dropped) return CN_OK;
  t->kept = &t->kept_room;
  return packed_operand(&t->kept_room, cn_desc_of(dropped), t->f64 ? CN_F64 : CN_F32, x);
}

static const cni_attention_loops *loops_of(bool f64, bool transposed)
{
  const cni_attention_loops *by_type = CNI_BY_ISA(cni_attention_loops);
  return &by_type[f64 + 2 * transposed];
}

/* in: query, key, value. scale: the call's argument. */
static int begin(attention *t, cn_tensor *const *in, const cn_tensor *mask, bool causal,
                 const cn_value *scale, temporaries *x)
{
  const cn_desc *q = cn_desc_of(in[0]), *k = cn_desc_of(in[1]), *v = cn_desc_of(in[2]);
  int dtype = q->dtype == CN_F64 ? CN_F64 : CN_F32;
  *t = (attention){.f64 = dtype == CN_F64,
                   .causal = causal,
                   .size = dtype == CN_F64 ? 8 : 4,
                   .batch = q->shape[0],
                   .heads = q->shape[1],
                   .groups = k->shape[1] ? q->shape[1] / k->shape[1] : 1,
                   .queries = q->shape[2],
                   .keys = k->shape[2],
                   .width = q->shape[3],
                   .value_width = v->shape[3],
                   .query_blocks = parts(q->shape[2], QUERIES),
                   .key_blocks = parts(k->shape[2], KEYS)};
  if (scale->tag == CN_V_NONE) t->scale = 1 / __builtin_sqrt((double)t->width);
  else t->scale = scale->tag == CN_V_FLOAT ? scale->u.f : (double)scale->u.i;
  int status = operand(&t->q, q, dtype, x);
  if (!status) status = operand(&t->k, k, dtype, x);
  if (!status) status = operand(&t->v, v, dtype, x);
  if (!status) status = mask_operand(t, mask, dtype, x);
  /* Rows of numbers can be transposed, other masks are read well along the keys only. */
  t->transposed = t->queries >= TRANSPOSE_FROM &&
                  !(t->mask && t->mask->strides[2] != 0 && (t->mask->dtype == CN_BOOL || t->mask->strides[3] != 1));
  t->loops = loops_of(t->f64, t->transposed);
  return status;
}

/* sdpa_forward(query, key, value, attn_mask, dropped, is_causal, scale, dropout_p, draws) -> (output, lse) */
static int forward_kernel(cn_call *c)
{
  attention t;
  temporaries x = {0};
  const cn_desc *out = cn_desc_of(c->out[0]);
  int status = begin(&t, c->in, c->in[3], c->args[5].u.i != 0, &c->args[6], &x);
  t.lse = *cn_desc_of(c->out[1]);
  if (!status) status = dropout_operand(&t, c->in[4], c->in[5], &c->args[7], &x);
  if (!status) status = result(&t.out, out, t.lse.dtype, &x);
  if (!status) {
    double work = (double)least(QUERIES, t.queries) * (double)t.keys * (double)(t.width + t.value_width);
    cni_parallel_for(t.batch * t.heads * t.query_blocks, grain_of(work), forward_range, &t);
    status = cni_state()->err;
  }
  if (!status) result_done(&t.out, out);
  free_temporaries(&x);
  return status;
}

/* sdpa_backward(grad, query, key, value, output, lse, attn_mask, dropped, is_causal, scale, dropout_p,
 * draws) -> (gq, gk, gv) */
static int backward_kernel(cn_call *c)
{
  attention t;
  temporaries x = {0};
  cn_desc *gradient[3] = {&t.gq, &t.gk, &t.gv};
  int status = begin(&t, c->in + 1, c->in[6], c->args[8].u.i != 0, &c->args[9], &x);
  int dtype = t.f64 ? CN_F64 : CN_F32;
  if (!status) status = dropout_operand(&t, c->in[7], c->in[8], &c->args[10], &x);
  if (!status) status = operand(&t.g, cn_desc_of(c->in[0]), dtype, &x);
  if (!status) status = operand(&t.out, cn_desc_of(c->in[4]), dtype, &x);
  if (!status) status = packed_operand(&t.lse, cn_desc_of(c->in[5]), dtype, &x);
  for (int i = 0; !status && i < 3; i++) status = result(gradient[i], cn_desc_of(c->out[i]), dtype, &x);
  if (!status && !(t.delta = temporary(&x, (size_t)(t.batch * t.heads * t.queries * t.size))))
    status = CN_ERR_MEMORY;
  if (!status) {
    run_backward(&t);
    status = cni_state()->err;
  }
  for (int i = 0; !status && i < 3; i++) result_done(gradient[i], cn_desc_of(c->out[i]));
  free_temporaries(&x);
  return status;
}

const cn_kernel cni_cpu_attention_kernels[] = {
    {"sdpa_forward", "blocks", forward_kernel},
    {"sdpa_backward", "blocks", backward_kernel},
    {NULL, NULL, NULL},
};
