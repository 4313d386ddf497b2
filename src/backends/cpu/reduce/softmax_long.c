/* softmax_long.c: softmax, log_softmax and logsumexp along very long lines.
 *
 * Place in the flow: softmax.c hands them over. A line is cut into pieces, which threads share; each piece's largest
 * element and sum of exponentials are found block by block, in cache, and joined in order; then the pieces are read
 * again for their results. That takes two exponentials an element, but no result is written before it is final.
 * Invariant: pieces depend on the line's length alone. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "backends/cpu/walk/nontemporal.h"
#include "backends/cpu/walk/rows.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "softmax.h"

typedef cni_softmax_job job;

enum {
  BLOCK = 2048, /* elements in the first cache */
  PIECE = 1 << 15,
  FEW = 16 /* lines less than these are shared piece by piece */
};

typedef struct total {
  double max, sum;
} total;

typedef struct work {
  const job *j;
  int64_t pieces; /* of a line */
  total *part;    /* [line][piece] */
} work;

/* m elements from `at` of a line on, in the compute type: in their place, or in room. */
static const char *load(const job *j, const char *x, int64_t at, int64_t m, char *room, char *raw)
{
  const char *from = x + at * j->l.xstep * j->size;
  if (j->l.xstep != 1) {
    char *to = j->load ? raw : room;
    cni_row_gather(to, from, j->l.xstep * j->size, (size_t)j->size, m);
    from = to;
  }
  if (!j->load) return from;
  j->load(room, from, (size_t)m);
  return room;
}

static total reduce_piece(const job *j, const char *x, int64_t begin, int64_t end)
{
  _Alignas(64) char room[BLOCK * 8], raw[BLOCK * 8];
  double most = j->tsize == 4 ? (double)FLT_MAX : DBL_MAX;
  total t = {-most, 0}; /* finite, so that elements of -inf add nothing */
  for (int64_t at = begin; at < end; at += BLOCK) {
    int64_t m = end - at < BLOCK ? end - at : BLOCK;
    const char *block = load(j, x, at, m, room, raw);
    double max = j->s->max_row(block, m);
    if (max > most && j->kind == CNI_LOGSUMEXP) max = most; /* or infinities would cancel */
    if (max > t.max) {
      t.sum *= exp(t.max - max);
      t.max = max;
    }
    t.sum += j->s->exp_row(NULL, block, m, t.max, block == room ? block : block + m * j->tsize);
  }
  return t;
}

static total join(const total *t, int64_t n)
{
  total all = t[0];
  for (int64_t i = 1; i < n; i++)
    if (t[i].max > all.max) all.max = t[i].max;
  all.sum = 0;
  for (int64_t i = 0; i < n; i++) all.sum += t[i].sum * exp(t[i].max - all.max);
  return all;
}

static void store_run(const job *j, char *y, const char *made, char *raw, int64_t m)
{
  if (j->store && j->l.ystep == 1) {
    j->store(y, made, (size_t)m);
    return;
  }
  if (j->store) j->store(raw, made, (size_t)m);
  cni_row_copy(y, j->l.ystep * j->size, j->store ? raw : made, j->size, (size_t)j->size, m);
}

static void write_piece(const job *j, char *y, const char *x, int64_t begin, int64_t end, total t)
{
  _Alignas(64) char room[BLOCK * 8], raw[BLOCK * 8], made[BLOCK * 8];
  bool straight = !j->store && j->l.ystep == 1;
  for (int64_t at = begin; at < end; at += BLOCK) {
    int64_t m = end - at < BLOCK ? end - at : BLOCK;
    const char *block = load(j, x, at, m, room, raw);
    char *to = y + at * j->l.ystep * j->size;
    if (j->kind == CNI_SOFTMAX) {
      j->s->part_row(straight ? to : made, block, m, t.max, 1 / t.sum, straight && j->nontemporal);
    } else {
      j->s->shift_row(straight && !j->nontemporal ? to : made, block, m, t.max, log(t.sum));
      if (straight && j->nontemporal) cni_nontemporal_copy(to, made, (size_t)(m * j->size));
    }
    if (!straight) store_run(j, to, made, raw, m);
  }
  if (j->nontemporal) cni_nontemporal_end();
}

static void write_total(const job *j, char *y, total t)
{
  double value = t.max + log(t.sum);
  float narrow = (float)value;
  const void *made = j->tsize == 4 ? (const void *)&narrow : &value;
  if (j->store) j->store(y, made, 1);
  else memcpy(y, made, (size_t)j->size);
}

static void line(const job *j, int64_t i, const char **x, char **y)
{
  const cni_lines *l = &j->l;
  cni_walk w;
  cni_walk_to(&w, l->nk, l->ksize, l->kin, l->kout, i);
  *x = j->a + w.in * j->size;
  *y = j->y + w.out * j->size;
}

static int64_t piece_end(const job *j, int64_t p) { return (p + 1) * PIECE < j->l.n ? (p + 1) * PIECE : j->l.n; }

static void reduce_pieces(int64_t begin, int64_t end, void *payload)
{
  const work *w = payload;
  for (int64_t u = begin; u < end; u++) {
    const char *x;
    char *y;
    int64_t p = u % w->pieces;
    line(w->j, u / w->pieces, &x, &y);
    w->part[u] = reduce_piece(w->j, x, p * PIECE, piece_end(w->j, p));
  }
}

/* The whole line's total stands in its first piece. */
static void write_pieces(int64_t begin, int64_t end, void *payload)
{
  const work *w = payload;
  for (int64_t u = begin; u < end; u++) {
    const char *x;
    char *y;
    int64_t p = u % w->pieces;
    line(w->j, u / w->pieces, &x, &y);
    write_piece(w->j, y, x, p * PIECE, piece_end(w->j, p), w->part[u - p]);
  }
}

/* Lines [begin, end), each by one thread, which finds part of it in its cache when it comes again. */
static void whole(int64_t begin, int64_t end, void *payload)
{
  const work *w = payload;
  for (int64_t i = begin; i < end; i++) {
    total *part = w->part + i * w->pieces;
    reduce_pieces(i * w->pieces, (i + 1) * w->pieces, payload);
    part[0] = join(part, w->pieces);
    if (w->j->kind != CNI_LOGSUMEXP) write_pieces(i * w->pieces, (i + 1) * w->pieces, payload);
  }
}

void cni_softmax_long(const job *j)
{
  work w = {j, (j->l.n + PIECE - 1) / PIECE, NULL};
  int64_t count = j->l.count;
  size_t size = (size_t)(count * w.pieces) * sizeof *w.part;
  w.part = cni_scratch_alloc(size);
  if (!w.part) return; /* the error is set */
  if (count >= FEW) {
    cni_parallel_for(count, 1, whole, &w);
  } else {
    cni_parallel_for(count * w.pieces, 1, reduce_pieces, &w);
    for (int64_t i = 0; i < count; i++) w.part[i * w.pieces] = join(w.part + i * w.pieces, w.pieces);
    if (j->kind != CNI_LOGSUMEXP) cni_parallel_for(count * w.pieces, 1, write_pieces, &w);
  }
  for (int64_t i = 0; i < count && j->kind == CNI_LOGSUMEXP; i++) {
    const char *x;
    char *y;
    line(j, i, &x, &y);
    write_total(j, y, w.part[i * w.pieces]);
  }
  cni_scratch_free(w.part, size);
}
