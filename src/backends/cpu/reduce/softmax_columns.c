/* softmax_columns.c: softmax and its relatives along lines that lie side by side, so that rows of the memory hold one
 * element of each.
 *
 * Place in the flow: softmax.c hands such jobs over; loops in softmax_isa.c. Short lines are copied into the second
 * cache, many at a time, which reads memory once and takes one exponential an element. Longer ones are read twice, row
 * by row in the order of memory, for narrow strips of rows are slow to read and slower to write: sums are carried from
 * rows to rows, and scaled whenever a larger element comes. Where there are few lines, they are cut into pieces, and
 * rows of few lines are grouped. Invariant: pieces, groups and strips are chosen by the shape alone and joined in
 * order. */
#include <float.h>
#include <string.h>

#include "backends/cpu/walk/nontemporal.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "softmax.h"

typedef cni_softmax_job job;

enum {
  STRIP = 640 << 10,             /* bytes of short lines in the second cache */
  COLUMNS = CNI_SOFTMAX_COLUMNS, /* of them taken together at most */
  NARROW = COLUMNS / 4,          /* and at least, or they are not short */
  NEXT = 16,                     /* rows that are asked for ahead */
  SUMS = 64,                     /* rows summed in a chain */
  WIDE = 16384,                  /* long lines taken together at most */
  ROWS = 32,                     /* rows of them between which sums are scaled, at most */
  BLOCK = 192 << 10,             /* and their bytes, if there are more than FEW */
  FEW = 8,
  SOME = 512,   /* columns gone through at once */
  LIGHT = 2048, /* columns whose sums the first cache holds */
  PAGE = 4096,
  GRADS = 256,  /* columns of gradients */
  GROUP = 512,  /* lines that rows of few are grouped to */
  THIN = 32,    /* lines that are few */
  UNITS = 16,   /* blocks of lines enough to share among threads */
  PIECES = 32,  /* wanted, where there are fewer */
  PIECE = 32768 /* elements of a piece at least */
};

typedef struct block { /* of lines that are worked on together */
  const job *j;
  int64_t width, columns, blocks; /* lines side by side, and how many of them make a block */
  int64_t group;                  /* rows of the input that are taken for one */
  int64_t rows, pieces, piece;    /* rows of a line, pieces, and rows of a piece */
  char *partial;                  /* [outer][block][piece][max, sum][span] */
  int64_t span;
} block;

/* Where block u of lines begins, how many lines it has. */
static int64_t place(const block *s, int64_t u, const char **a, const char **b, char **y)
{
  const job *j = s->j;
  const cni_lines *l = &j->l;
  int last = l->nk - 1;
  int64_t column = u % s->blocks * s->columns, m = s->width - column < s->columns ? s->width - column : s->columns;
  cni_walk w;
  cni_walk_to(&w, last, l->ksize, l->kin, l->kout, u / s->blocks);
  *a = j->a + (w.in + column) * j->size;
  *b = j->b + (w.in + column) * j->size;
  *y = j->y + (w.out + column) * j->size;
  return m;
}

/* An infinite maximum would make NaN of infinities, where their sum is asked for. */
static void cap(const job *j, void *max, int64_t m)
{
  float *f = max;
  double *d = max;
  if (j->tsize == 4)
    for (int64_t k = 0; k < m; k++) f[k] = f[k] > FLT_MAX ? FLT_MAX : f[k];
  else
    for (int64_t k = 0; k < m; k++) d[k] = d[k] > DBL_MAX ? DBL_MAX : d[k];
}

static void add(const job *j, void *sum, const void *other, int64_t m)
{
  float *f = sum;
  const float *g = other;
  double *d = sum;
  const double *e = other;
  if (j->tsize == 4)
    for (int64_t k = 0; k < m; k++) f[k] += g[k];
  else
    for (int64_t k = 0; k < m; k++) d[k] += e[k];
}

/* One row of m results, made in `made`. */
static void store_row(const job *j, char *y, const void *made, int64_t m)
{
  size_t bytes = (size_t)(m * j->size);
  if (j->store) j->store(y, made, (size_t)m);
  else if (j->nontemporal && cni_nontemporal_fits(y)) cni_nontemporal_store(y, made, bytes, NULL, NULL, 0);
  else memcpy(y, made, bytes);
}

/* ---- forward, through a strip in the cache ---- */

/* Copies m lines to `to`, whose rows are `step` elements apart, and finds the largest of each. */
static void take(const job *j, char *to, int64_t step, const char *x, void *max, int64_t m)
{
  int64_t n = j->l.n, in = j->l.xstep * j->size;
  for (int64_t r = 0; r < n; r += NEXT) {
    int64_t rows = n - r < NEXT ? n - r : NEXT;
    char *at = to + r * step * j->tsize;
    for (int64_t k = r + NEXT; k < r + 2 * NEXT && k < n; k++) cni_prefetch(x + k * in, m * j->size);
    if (!j->load) {
      j->s->max_columns(at, step, max, x + r * in, j->l.xstep, rows, m);
      continue;
    }
    for (int64_t k = 0; k < rows; k++) j->load(at + k * step * j->tsize, x + (r + k) * in, (size_t)m);
    j->s->max_columns(NULL, 0, max, at, step, rows, m);
  }
}

/* Row r of the strip, finished: to y, which may be the row itself. */
static void finish_row(const job *j, void *y, const void *row, const void *max, const void *by, int64_t m)
{
  if (j->kind == CNI_SOFTMAX) j->s->scale_columns(y, row, by, m);
  else j->s->shift_columns(y, 0, row, 0, max, by, 1, m);
}

static void run_strip(const block *s, char *strip, char *y, const char *x, int64_t m)
{
  const job *j = s->j;
  _Alignas(64) char max[COLUMNS * 8], sum[COLUMNS * 8], made[COLUMNS * 8];
  int64_t n = j->l.n, step = s->columns, out = j->l.ystep * j->size;
  j->s->start_columns(sum, max, m);
  take(j, strip, step, x, max, m);
  if (j->kind == CNI_LOGSUMEXP) cap(j, max, m);
  for (int64_t r = 0; r < n; r += SUMS) {
    char *at = strip + r * step * j->tsize;
    j->s->exp_columns(j->kind == CNI_SOFTMAX ? at : NULL, step, sum, at, step, max, n - r < SUMS ? n - r : SUMS, m);
  }
  if (j->kind == CNI_SOFTMAX) j->s->invert_columns(sum, m);
  else j->s->log_columns(sum, m);
  if (j->kind == CNI_LOGSUMEXP) {
    j->s->total_columns(made, max, sum, m);
    store_row(j, y, made, m);
  } else {
    bool straight = !j->store && !j->nontemporal;
    for (int64_t r = 0; r < n; r++) {
      void *to = straight ? (void *)(y + r * out) : made;
      finish_row(j, to, strip + r * step * j->tsize, max, sum, m);
      if (!straight) store_row(j, y + r * out, made, m);
    }
  }
}

/* Lines of one element: what is left of it, 1 or 0 unless it is infinite or NaN; or itself. */
static void run_single(const job *j, char *y, const char *x, int64_t m)
{
  _Alignas(64) char room[COLUMNS * 8], zero[COLUMNS * 8], made[COLUMNS * 8];
  const void *row = j->load ? (const void *)room : x;
  void *to = j->store || j->nontemporal ? (void *)made : y;
  if (j->load) j->load(room, x, (size_t)m);
  memset(zero, 0, (size_t)(m * j->tsize));
  j->s->shift_columns(to, 0, row, 0, j->kind == CNI_LOGSUMEXP ? zero : row, zero, 1, m);
  if (j->kind == CNI_SOFTMAX) j->s->exp_row(to, to, m, 0, to);
  if (to == made) store_row(j, y, made, m);
}

static void strips(int64_t begin, int64_t end, void *payload)
{
  const block *s = payload;
  size_t size = (size_t)(s->j->l.n * s->columns * s->j->tsize) + CNI_LINE;
  char *room = cni_scratch_alloc(size);
  if (!room) return; /* the error is set, and reaches the caller */
  for (int64_t u = begin; u < end; u++) {
    const char *a, *b;
    char *y;
    int64_t m = place(s, u, &a, &b, &y);
    if (s->j->l.n == 1) run_single(s->j, y, a, m);
    else run_strip(s, room, y, a, m);
  }
  cni_scratch_free(room, size);
  if (s->j->nontemporal) cni_nontemporal_end();
}

/* ---- forward, long lines ---- */

/* Elements of row r, which are m unless groups end there. */
static int64_t row_length(const block *s, int64_t r, int64_t m)
{
  int64_t rest = s->j->l.n % s->group;
  return rest && r == s->rows - 1 ? rest * s->width : m;
}

/* Row r in the compute type: in its place, or in room. */
static const void *load_row(const block *s, const char *x, int64_t r, int64_t m, void *room)
{
  const char *at = x + r * s->group * s->j->l.xstep * s->j->size;
  if (!s->j->load) return at;
  s->j->load(room, at, (size_t)m);
  return room;
}

/* Takes max and sum of m lines on over a block of rows, `step` bytes apart, while `next`, `bytes` of what will be read
 * then, comes into the cache. top: room for m numbers, as max. */
static void reduce_block(const job *j, char *max, char *sum, char *top, const char *x, int64_t step, int64_t rows,
                         int64_t m, const char *next, int64_t bytes)
{
  int64_t apart = step / j->tsize, share = (bytes / ((m + SOME - 1) / SOME) + CNI_LINE) / CNI_LINE * CNI_LINE;
  for (int64_t c = 0; c < m; c += SOME)
    j->s->max_columns(NULL, 0, top + c * j->tsize, x + c * j->tsize, apart, rows, m - c < SOME ? m - c : SOME);
  if (j->kind == CNI_LOGSUMEXP) cap(j, top, m);
  j->s->lift_columns(sum, max, top, m);
  for (int64_t c = 0; c < m; c += SOME) {
    int64_t at = c * j->tsize, left = bytes < share ? bytes : share;
    cni_prefetch(next, left);
    next += left;
    bytes -= left;
    j->s->exp_columns(NULL, 0, sum + at, x + at, apart, max + at, rows, m - c < SOME ? m - c : SOME);
  }
}

/* max and sum of m lines over rows [begin, end). room: m + ROWS * m numbers. */
static void reduce_rows(const block *s, const char *x, int64_t begin, int64_t end, void *max, void *sum, int64_t m,
                        char *room)
{
  const job *j = s->j;
  char *top = room, *loaded = top + m * j->tsize;
  int64_t in = s->group * j->l.xstep * j->size, most = BLOCK / (m * j->tsize), rows;
  most = most > ROWS ? ROWS : most < FEW ? FEW : most;
  j->s->start_columns(sum, max, m);
  memcpy(top, max, (size_t)(m * j->tsize));
  for (int64_t r = begin; r < end; r += rows) {
    int64_t have = row_length(s, r, m), packed = in == m * j->size;
    rows = end - r < most ? end - r : most;
    if (rows > 1 && row_length(s, r + rows - 1, m) != m) rows--; /* a short one comes alone */
    const char *at = x + r * in, *next = at + rows * in;
    int64_t after = end - r - rows < rows ? end - r - rows : rows;
    for (int64_t k = 0; j->load && k < rows; k++) load_row(s, x, r + k, have, loaded + k * m * j->tsize);
    for (int64_t k = 0; !packed && k < after; k++) cni_prefetch(next + k * in, m * j->size);
    reduce_block(j, max, sum, top, j->load ? loaded : at, j->load ? m * j->tsize : in, rows, have, next,
                 packed && after ? (after - 1) * in : 0);
  }
}

/* Adds (max, sum) of m lines to another. */
static void join(const job *j, char *max, char *sum, char *other_max, char *other_sum, int64_t m)
{
  _Alignas(64) char top[COLUMNS * 8];
  for (int64_t k = 0, some; k < m; k += some) {
    int64_t at = k * j->tsize;
    some = m - k < COLUMNS ? m - k : COLUMNS;
    memcpy(top, max + at, (size_t)(some * j->tsize));
    j->s->max_columns(NULL, 0, top, other_max + at, 0, 1, some);
    j->s->lift_columns(sum + at, max + at, top, some);
    j->s->lift_columns(other_sum + at, other_max + at, top, some);
    add(j, sum + at, other_sum + at, some);
  }
}

/* From max and sum of m lines to what rows are finished with; a group's lines become one, and many again. */
static void close_sums(const block *s, char *max, char *sum, int64_t m)
{
  const job *j = s->j;
  int64_t bytes = m / s->group * j->tsize;
  for (int64_t g = 1; g < s->group; g++) join(j, max, sum, max + g * bytes, sum + g * bytes, m / s->group);
  if (j->kind == CNI_SOFTMAX) j->s->invert_columns(sum, m / s->group);
  else j->s->log_columns(sum, m / s->group);
  for (int64_t g = 1; g < s->group; g++) {
    memcpy(max + g * bytes, max, (size_t)bytes);
    memcpy(sum + g * bytes, sum, (size_t)bytes);
  }
}

/* Results of rows [begin, end); of logsumexp, with the first. room: m + m numbers. */
static void write_rows(const block *s, char *y, const char *x, int64_t begin, int64_t end, const void *max,
                       const void *by, int64_t m, char *room)
{
  const job *j = s->j;
  char *made = room + m * j->tsize;
  int64_t out = s->group * j->l.ystep * j->size;
  if (j->kind == CNI_LOGSUMEXP) {
    if (begin) return;
    j->s->total_columns(made, max, by, m / s->group);
    store_row(j, y, made, m / s->group);
    return;
  }
  int64_t xstep = s->group * j->l.xstep, ystep = s->group * j->l.ystep;
  bool straight = !j->store && !j->nontemporal;
  /* Several rows at once, where max and by would come from the second cache for each; but not where their loads and
   * stores meet at the same places of pages. */
  bool beside = straight && !j->load && m > LIGHT && ystep * j->size % PAGE != 0;
  for (int64_t r = begin, rows; r < end; r += rows) {
    int64_t have = row_length(s, r, m);
    const void *row = load_row(s, x, r, have, room);
    void *to = straight ? (void *)(y + r * out) : made;
    rows = beside && r + 4 <= end && row_length(s, r + 3, m) == m ? 4 : 1;
    if (j->kind == CNI_SOFTMAX) j->s->part_columns(to, ystep, row, xstep, max, by, rows, have);
    else j->s->shift_columns(to, ystep, row, xstep, max, by, rows, have);
    if (!straight) store_row(j, y + r * out, made, have);
  }
  if (j->nontemporal) cni_nontemporal_end();
}

/* Numbers of room that a thread needs: max and sum, and what the above say. */
static size_t room_size(const block *s) { return (size_t)((ROWS + 4) * s->span * s->j->tsize); }

/* Blocks of lines, each whole. */
static void whole(int64_t begin, int64_t end, void *payload)
{
  const block *s = payload;
  size_t size = room_size(s), one = (size_t)(s->span * s->j->tsize);
  char *room = cni_scratch_alloc(size), *sum = room + one, *rest = sum + one;
  if (!room) return; /* the error is set, and reaches the caller */
  for (int64_t u = begin; u < end; u++) {
    const char *a, *b;
    char *y;
    int64_t m = place(s, u, &a, &b, &y) * s->group;
    reduce_rows(s, a, 0, s->rows, room, sum, m, rest);
    close_sums(s, room, sum, m);
    write_rows(s, y, a, 0, s->rows, room, sum, m, rest);
  }
  cni_scratch_free(room, size);
}

static char *partial_of(const block *s, int64_t u) { return s->partial + u * 2 * s->span * s->j->tsize; }

/* Pieces [begin, end): their sums; or with `writes`, their results. The sums of all pieces stand in the first. */
static void some_pieces(const block *s, int64_t begin, int64_t end, bool writes)
{
  size_t size = room_size(s);
  char *room = cni_scratch_alloc(size);
  if (!room) return; /* the error is set, and reaches the caller */
  for (int64_t u = begin; u < end; u++) {
    const char *a, *b;
    char *y, *max = partial_of(s, writes ? u / s->pieces * s->pieces : u), *sum = max + s->span * s->j->tsize;
    int64_t m = place(s, u / s->pieces, &a, &b, &y) * s->group, first = u % s->pieces * s->piece;
    int64_t stop = first + s->piece < s->rows ? first + s->piece : s->rows;
    if (writes) write_rows(s, y, a, first, stop, max, sum, m, room);
    else reduce_rows(s, a, first, stop, max, sum, m, room);
  }
  cni_scratch_free(room, size);
}

static void reduce_pieces(int64_t begin, int64_t end, void *payload) { some_pieces(payload, begin, end, false); }
static void write_pieces(int64_t begin, int64_t end, void *payload) { some_pieces(payload, begin, end, true); }

static void run_pieces(block *s, int64_t units)
{
  const job *j = s->j;
  size_t size = (size_t)(units * s->pieces * 2 * s->span * j->tsize);
  s->partial = cni_scratch_alloc(size);
  if (!s->partial) return; /* the error is set */
  cni_parallel_for(units * s->pieces, 1, reduce_pieces, s);
  for (int64_t u = 0; u < units && !cn_err(); u++) {
    const char *a, *b;
    char *y, *max = partial_of(s, u * s->pieces), *sum = max + s->span * j->tsize;
    int64_t m = place(s, u, &a, &b, &y) * s->group;
    for (int64_t p = 1; p < s->pieces; p++) {
      char *other = partial_of(s, u * s->pieces + p);
      join(j, max, sum, other, other + s->span * j->tsize, m);
    }
    close_sums(s, max, sum, m);
  }
  if (!cn_err()) cni_parallel_for(units * s->pieces, 1, write_pieces, s);
  cni_scratch_free(s->partial, size);
}

/* ---- gradients ---- */

static void grad_blocks(int64_t begin, int64_t end, void *payload)
{
  const block *s = payload;
  const job *j = s->j;
  _Alignas(64) char sum[GRADS * 8];
  int64_t n = j->l.n, in = j->l.xstep * j->size, out = j->l.ystep * j->size;
  for (int64_t u = begin; u < end; u++) {
    const char *a, *b;
    char *y;
    int64_t m = place(s, u, &a, &b, &y);
    memset(sum, 0, (size_t)(m * j->tsize));
    if (j->kind == CNI_SOFTMAX_GRAD) {
      for (int64_t r = 0; r < n; r++) j->s->dot_columns(sum, a + r * in, b + r * in, m);
      for (int64_t r = 0; r < n; r++) j->s->grad_columns(y + r * out, a + r * in, b + r * in, sum, m);
    } else {
      j->sum->columns(sum, a, n, j->l.xstep, m);
      for (int64_t r = 0; r < n; r++) j->s->log_grad_columns(y + r * out, a + r * in, b + r * in, sum, m);
    }
  }
}

/* ---- the choice ---- */

static void each(block *s, int64_t columns, cni_range_fn fn)
{
  s->columns = columns;
  s->blocks = (s->width + columns - 1) / columns;
  int64_t units = s->j->l.count / s->width * s->blocks, work = s->j->l.count * s->j->l.n / units;
  cni_parallel_for(units, work < CNI_SOFTMAX_GRAIN ? CNI_SOFTMAX_GRAIN / (work ? work : 1) : 1, fn, s);
}

/* Lines read twice, in pieces if they are few. */
static void run_long(block *s)
{
  const job *j = s->j;
  s->columns = s->width < WIDE ? s->width : WIDE;
  s->span = (s->columns * s->group + 15) / 16 * 16;
  s->blocks = (s->width + s->columns - 1) / s->columns;
  s->rows = (j->l.n + s->group - 1) / s->group;
  int64_t units = j->l.count / s->width * s->blocks, most = j->l.count * j->l.n / PIECE / units;
  s->pieces = units < UNITS ? PIECES / units : 1;
  if (s->pieces > most) s->pieces = most ? most : 1;
  s->piece = ((s->rows + s->pieces - 1) / s->pieces + FEW - 1) / FEW * FEW;
  s->pieces = (s->rows + s->piece - 1) / s->piece;
  if (s->pieces > 1) run_pieces(s, units);
  else each(s, s->columns, whole);
}

bool cni_softmax_columns(const job *j)
{
  const cni_lines *l = &j->l;
  int last = l->nk - 1;
  bool backward = j->kind == CNI_SOFTMAX_GRAD || j->kind == CNI_LOG_SOFTMAX_GRAD;
  if (l->nk == 0 || l->kin[last] != 1 || l->kout[last] != 1 || l->ksize[last] < 2) return false;
  block s = {.j = j, .width = l->ksize[last], .group = 1};
  bool packed = l->xstep == s.width && (l->ystep == s.width || j->kind == CNI_LOGSUMEXP);
  if (!backward && packed && s.width <= THIN && l->n >= GROUP) {
    s.group = GROUP / s.width;
    run_long(&s);
    return true;
  }
  if (s.width < 4 || (j->load && backward)) return false;
  int64_t columns = COLUMNS, least = s.width < NARROW ? s.width : NARROW;
  while (columns > NARROW && l->n * columns * j->tsize > STRIP) columns /= 2;
  if (backward) each(&s, GRADS, grad_blocks);
  else if (l->n * (columns < s.width ? columns : least) * j->tsize <= STRIP) each(&s, columns, strips);
  else run_long(&s);
  return true;
}
