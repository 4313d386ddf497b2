/* array.c: a systolic array, cycle by cycle: every register moves once a cycle, nothing reaches further than its
 * neighbour. See array.h.
 *
 * Weights stay: row r of the grid has row r of a tile's weights. Left factors enter at the left, row r one cycle behind
 * row r - 1; sums go down and leave below. The next tile's weights come in from above meanwhile and wait in each cell;
 * the tile's first left factor, which passes every cell once, puts them in use.
 * Outputs stay: left factors come from the left, right ones from above, and each cell adds up its own result; a
 * finished one goes to a register of its own and down from there, while the next tile begins.
 *
 * Invariant: a cell's new state depends on the old states of itself, its left and its upper neighbour alone. */
#include "array.h"

#include <string.h>

/* What goes in at an edge in a cycle: a step of a tile; tile -1: nothing. */
typedef struct feed {
  int32_t tile, step;
} feed;

typedef struct machine {
  const array_run *run;
  int64_t rows, cols, m, k, n;
  int64_t tiles, high;  /* all of them; those in a column, which follow one another */
  int64_t fetch, group; /* cycles of a fetch, and the tiles that it serves */
  array_cell *now, *then;
  feed *side, *top; /* by cycle, of the last `depth` ones: edges are fed one cycle later a row or column */
  int64_t depth, cycle;
  int64_t begun, loaded;                   /* tiles that have begun to stream, and that have begun to load */
  int64_t fetch_at, ready_at, begun_at, end_at; /* when the next is fetched; its weights wait; the last began, ends */
} machine;

static bool is_bf16(const machine *s) { return s->run->a->type == ARRAY_BF16; }
static bool weights_stay(const machine *s) { return s->run->a->flow == ARRAY_WEIGHTS_STAY; }

/* ---- where a tile lies: weights stay: (row of k, column of n); outputs stay: (row of m, column of n) ---- */

static int64_t tile_row(const machine *s, int32_t tile) { return tile % s->high * s->rows; }
static int64_t tile_col(const machine *s, int32_t tile) { return tile / s->high * s->cols; }

static float left_at(const machine *s, int64_t m, int64_t k)
{
  return m < s->m && k < s->k ? s->run->left[m * s->k + k] : 0;
}
static float right_at(const machine *s, int64_t k, int64_t n)
{
  return k < s->k && n < s->n ? s->run->right[k * s->n + n] : 0;
}

static const feed *fed(const machine *s, const feed *edge, int64_t ago)
{
  static const feed none = {-1, 0};
  return ago > s->cycle ? &none : &edge[(s->cycle - ago) % s->depth];
}

/* ---- what goes in ---- */

/* How many cycles a tile takes from its first factor to its last result. */
static int64_t steps_of(const machine *s) { return weights_stay(s) ? s->m : s->k; }
static int64_t time_through(const machine *s)
{
  return weights_stay(s) ? s->m + s->rows + s->cols - 2 : s->k + 2 * s->rows + s->cols - 2;
}

static bool may_begin(const machine *s)
{
  if (s->begun == s->tiles) return false;
  if (weights_stay(s))
    return s->loaded > s->begun && s->cycle >= s->ready_at && (!s->begun || s->cycle >= s->begun_at + s->m);
  int64_t busy = s->run->a->single ? time_through(s) : s->k > s->rows ? s->k : s->rows;
  bool there = s->begun % s->group || s->cycle >= s->fetch_at;
  return there && (!s->begun || s->cycle >= s->begun_at + busy);
}

static void feed_side(machine *s)
{
  if (may_begin(s)) {
    s->begun_at = s->cycle;
    s->end_at = s->cycle + time_through(s);
    if (!weights_stay(s) && s->begun % s->group == 0) s->fetch_at = s->cycle + s->fetch;
    s->begun++;
  }
  int64_t step = s->cycle - s->begun_at;
  bool streams = s->begun && step < steps_of(s);
  s->side[s->cycle % s->depth] = (feed){streams ? (int32_t)s->begun - 1 : -1, (int32_t)step};
}

/* Weights of the tile that comes next, the lowest row first; with one set of them only when the grid is empty. */
static void feed_weights(machine *s)
{
  bool free = s->run->a->single ? s->begun == s->loaded && (!s->begun || s->cycle >= s->end_at)
                                : s->loaded <= s->begun;
  if (s->loaded < s->tiles && free && s->cycle >= s->fetch_at) {
    s->ready_at = s->cycle + s->rows;
    s->fetch_at = s->cycle + s->fetch;
    s->loaded++;
  }
  int64_t step = s->cycle - (s->ready_at - s->rows);
  bool loads = s->loaded && step < s->rows;
  s->top[s->cycle % s->depth] = (feed){loads ? (int32_t)s->loaded - 1 : -1, (int32_t)step};
}

/* Sums that go out: from when the lowest cell of the first column has its own. */
static void feed_drain(machine *s)
{
  feed out = {-1, 0};
  const feed *last = fed(s, s->side, s->rows); /* it went into the first column so many cycles ago */
  if (last->tile >= 0 && last->step == s->k - 1) out = (feed){last->tile, 0};
  const feed *before = fed(s, s->top, 1);
  if (out.tile < 0 && before->tile >= 0 && before->step + 1 < s->rows) out = (feed){before->tile, before->step + 1};
  s->top[s->cycle % s->depth] = out;
}

/* ---- cells ---- */

static void add_product(const machine *s, array_cell *c, float x, float y, bool below)
{
  if (is_bf16(s)) {
    float product = x * y; /* exact: 8 bits by 8 */
    if (below) c->above += product;
    else c->stay += product;
  } else if (below) c->sum_above += (int32_t)x * (int32_t)y;
  else c->sum_stay += (int32_t)x * (int32_t)y;
}

/* What comes from the left: the neighbour's, or fed. */
static void take_left(const machine *s, array_cell *c, int64_t i, int64_t j)
{
  const array_cell *old = &s->now[i * s->cols + j - 1];
  if (j) {
    c->left = old->left, c->row = old->row, c->tile = old->tile;
    return;
  }
  const feed *f = fed(s, s->side, i);
  c->row = f->tile < 0 ? -1 : f->step;
  c->tile = f->tile;
  c->left = f->tile < 0         ? 0
            : weights_stay(s) ? left_at(s, f->step, tile_row(s, f->tile) + i)
                              : left_at(s, tile_row(s, f->tile) + i, f->step);
}

static void weights_cell(const machine *s, array_cell *c, int64_t i, int64_t j)
{
  const array_cell *over = i ? &s->now[(i - 1) * s->cols + j] : NULL;
  take_left(s, c, i, j);
  if (c->row == 0) c->stay = c->next;
  c->above = over ? over->above : 0;
  c->sum_above = over ? over->sum_above : 0;
  if (c->row >= 0) add_product(s, c, c->left, c->stay, true);
  const feed *f = fed(s, s->top, j);
  if (over) c->pass = over->pass, c->target = over->target < 0 ? -1 : over->target - 1;
  else if (f->tile < 0) c->target = -1;
  else {
    c->target = (int32_t)(s->rows - 1 - f->step);
    c->pass = right_at(s, tile_row(s, f->tile) + c->target, tile_col(s, f->tile) + j);
  }
  if (c->target == 0) c->next = c->pass;
}

static void outputs_cell(const machine *s, array_cell *c, int64_t i, int64_t j)
{
  const array_cell *over = i ? &s->now[(i - 1) * s->cols + j] : NULL;
  take_left(s, c, i, j);
  const feed *f = fed(s, s->side, j), *out = fed(s, s->top, j);
  if (over) c->above = over->above;
  else c->above = f->tile < 0 ? 0 : right_at(s, f->step, tile_col(s, f->tile) + j);
  if (over && out->tile >= 0 && i > out->step)
    c->drain = over->drain, c->sum_drain = over->sum_drain, c->drains = over->drains;
  else if (out->tile >= 0 && i == out->step) c->drains = false;
  if (c->row < 0) return;
  if (c->row == 0) c->stay = 0, c->sum_stay = 0;
  add_product(s, c, c->left, c->above, false);
  if (c->row == s->k - 1) c->drain = c->stay, c->sum_drain = c->sum_stay, c->drains = true;
}

/* ---- what comes out ---- */

static void put_result(const machine *s, int64_t m, int64_t n, float value, int32_t sum)
{
  if (m >= s->m || n >= s->n) return;
  if (is_bf16(s)) s->run->result[m * s->n + n] += value;
  else s->run->sums[m * s->n + n] += sum;
}

/* Weights stay: sums leave the lowest row, and are added to those of other tiles below the grid. */
static void take_results(const machine *s)
{
  for (int64_t j = 0; j < s->cols; j++) {
    const array_cell *c = &s->then[(s->rows - 1) * s->cols + j];
    if (c->row >= 0) put_result(s, c->row, tile_col(s, c->tile) + j, c->above, c->sum_above);
  }
}

static void take_drained(const machine *s)
{
  for (int64_t j = 0; j < s->cols; j++) {
    const feed *out = fed(s, s->top, j);
    const array_cell *c = &s->now[(s->rows - 1) * s->cols + j];
    if (out->tile >= 0)
      put_result(s, tile_row(s, out->tile) + s->rows - 1 - out->step, tile_col(s, out->tile) + j, c->drain,
                 c->sum_drain);
  }
}

static void step(machine *s)
{
  feed_side(s);
  if (weights_stay(s)) feed_weights(s);
  else feed_drain(s);
  for (int64_t i = 0; i < s->rows; i++)
    for (int64_t j = 0; j < s->cols; j++) {
      array_cell *c = &s->then[i * s->cols + j];
      *c = s->now[i * s->cols + j];
      if (weights_stay(s)) weights_cell(s, c, i, j);
      else outputs_cell(s, c, i, j);
    }
  if (weights_stay(s)) take_results(s);
  else take_drained(s);
}

/* ---- the run ---- */

static int make(machine *s, array_run *run)
{
  const array *a = run->a;
  *s = (machine){.run = run, .rows = a->rows, .cols = a->cols, .m = run->p->m, .k = run->p->k, .n = run->p->n};
  s->high = ((a->flow == ARRAY_WEIGHTS_STAY ? s->k : s->m) + s->rows - 1) / s->rows;
  s->tiles = s->high * ((s->n + s->cols - 1) / s->cols);
  s->depth = s->rows + s->cols + 1;
  s->fetch_at = s->fetch = array_fetch_cycles(a, run->p);
  s->group = array_group(a, run->p);
  s->now = cn_alloc_zero((size_t)(s->rows * s->cols) * sizeof *s->now);
  s->then = cn_alloc_zero((size_t)(s->rows * s->cols) * sizeof *s->then);
  s->side = cn_alloc((size_t)s->depth * sizeof *s->side);
  s->top = cn_alloc((size_t)s->depth * sizeof *s->top);
  if (!s->now || !s->then || !s->side || !s->top) return CN_ERR_MEMORY;
  for (int64_t i = 0; i < s->rows * s->cols; i++) s->now[i].row = s->now[i].target = s->now[i].tile = -1;
  return CN_OK;
}

int array_simulate(array_run *run)
{
  machine s;
  size_t results = (size_t)(run->p->m * run->p->n);
  int status = make(&s, run);
  if (run->result) memset(run->result, 0, results * sizeof *run->result);
  if (run->sums) memset(run->sums, 0, results * sizeof *run->sums);
  for (; !status && (s.begun < s.tiles || s.cycle < s.end_at); s.cycle++) {
    step(&s);
    array_cell *old = s.now;
    s.now = s.then;
    s.then = old;
    if (run->each) run->each(run, s.cycle, s.now, run->payload);
  }
  run->cycles = s.cycle;
  cn_free(s.now, (size_t)(s.rows * s.cols) * sizeof *s.now);
  cn_free(s.then, (size_t)(s.rows * s.cols) * sizeof *s.then);
  cn_free(s.side, (size_t)s.depth * sizeof *s.side);
  cn_free(s.top, (size_t)s.depth * sizeof *s.top);
  return status;
}

/* One result, k from first to last; weights stay: a tile's part by itself, then added to the parts before. */
static void one_result(const array_run *run, int64_t i, int64_t j)
{
  int64_t k = run->p->k, n = run->p->n, part = run->a->flow == ARRAY_WEIGHTS_STAY ? run->a->rows : k;
  float total = 0;
  int32_t sum = 0;
  for (int64_t from = 0; from < k; from += part) {
    float inner = 0;
    for (int64_t q = from; q < from + part && q < k; q++) {
      float x = run->left[i * k + q], y = run->right[q * n + j];
      if (run->a->type == ARRAY_BF16) {
        float product = x * y;
        inner += product;
      } else sum += (int32_t)x * (int32_t)y;
    }
    total += inner;
  }
  if (run->result) run->result[i * n + j] = total;
  if (run->sums) run->sums[i * n + j] = sum;
}

void array_reference(const array_run *run)
{
  for (int64_t i = 0; i < run->p->m; i++)
    for (int64_t j = 0; j < run->p->n; j++) one_result(run, i, j);
}
