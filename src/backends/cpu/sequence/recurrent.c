/* recurrent.c: kernels of recurrent_sequence and recurrent_sequence_grad: all steps of one direction of one layer.
 *
 * Flow: the weights are packed once -> each step is cut into tiles of rows by columns of the state: the products of a
 * tile's gates with [input, state], at once used up by the loops of recurrent.h (few rows: the products with the inputs
 * of all steps are made before, in one) -> threads share either the rows, and then
 * never wait for each other, or the columns, and then meet after each step. Backward likewise, last step first: the
 * product with the next step's gradients gives the gradient of a tile of the output, the loops those of its gates.
 * Invariant: an element is the same chain of operations whichever tile it falls into, so no bit depends on the number
 * of threads. */
#include "recurrent.h"

#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/gemm/gemm_isa.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/reduce/moments.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "ops/infer.h"
#include "ops/recurrent.h"
#include "tensor/tensor.h"

enum {
  SCRATCH = 14 * 4 * 128,  /* bytes of a tile's products: rows, gates, bytes of a panel's row */
  GRAIN_WORK = 1 << 20,    /* multiply-adds worth waking a thread for */
  GRAIN_STEP = 1 << 17,    /* ... in every step anew */
  NEAR_BYTES = 2 << 20,    /* packed weights up to this size stay close to every core */
  FEW_ROWS = 6,            /* of a batch: fewer read w_ih too often for what they do with it */
  LEAST_ROWS = 3           /* of a thread */
};

typedef struct plan {
  cni_recurrent mode;
  bool f64, reverse;
  const cni_gemm_kernels *ker;
  const cni_recurrent_loops *loops;
  int64_t size, steps, batch, hidden, gates, kept; /* size: bytes of an element */
  int64_t width, input;                            /* columns of the input, and of it in a row of state: all or none */
  int64_t panels, depth, panel_bytes, pitch;       /* pitch: elements from row to row of state */
  const int64_t *sizes;                            /* of steps; NULL: all rows in each */
  int64_t *first;                                  /* the row of all steps where each begins; one more for the end */
  char *packed, *state[2];
  char *x, *h0, *c0, *output, *h, *c, *saved; /* row-major, as in the op */
  char *given;                                /* products with x of all steps, if made before; (N, gates H) */
  char *bias;                                 /* of each product of a tile, (4, H) */
  char *g_output, *g_h, *g_c, *g_given, *g_hidden, *g_h0, *g_c0;
  void *memory;
  size_t bytes;
  int64_t step; /* where threads share columns: this one */
  int64_t cuts; /* ... in so many parts of the rows */
} plan;

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t parts(int64_t n, int64_t size) { return (n + size - 1) / size; }

/* The step that is done as number s, and its rows; none before the first or after the last. */
static int64_t step_at(const plan *p, int64_t s) { return p->reverse ? p->steps - 1 - s : s; }
static int64_t rows_at(const plan *p, int64_t s)
{
  int64_t t = step_at(p, s);
  return s < 0 || s >= p->steps ? 0 : p->first[t + 1] - p->first[t];
}

/* Rows from `row` on of a matrix of `columns`, at column `col`. */
static cni_groups part_of(const plan *p, char *data, int64_t columns, int64_t row, int64_t col)
{
  return (cni_groups){data ? data + (row * columns + col) * p->size : NULL, columns, p->hidden};
}

/* rows x cols of `state`, from column `from` on, times the same rows of a panel, `depth` of them. */
static void product(const plan *p, const char *state, int64_t row, int64_t rows, int64_t from, int64_t depth,
                    const char *panel, int64_t cols, void *c, int64_t c_row, double beta)
{
  cni_gemm_run r = {.a = state + (row * p->pitch + from) * p->size,
                    .a_row = p->pitch,
                    .a_col = 1,
                    .b = panel + from * p->ker->nr * p->size,
                    .c = c,
                    .c_row = c_row,
                    .c_col = 1,
                    .rows = (int)rows,
                    .cols = cols,
                    .depth = depth,
                    .alpha = 1,
                    .beta = beta};
  p->ker->run(&r);
}

/* ---- a step of some rows and panels of columns ---- */

typedef struct area {
  int64_t row, end, panel, panel_end;
} area;

typedef void (*tile_fn)(const plan *p, int64_t s, int64_t row, int64_t rows, int64_t panel);

/* Tiles of about equal height: rows [row, end) against each panel. */
static void each_tile(const plan *p, int64_t s, area a, tile_fn fn)
{
  if (a.row >= a.end) return;
  int64_t pieces = parts(a.end - a.row, p->ker->mr), rows = parts(a.end - a.row, pieces);
  for (int64_t panel = a.panel; panel < a.panel_end; panel++)
    for (int64_t row = a.row; row < a.end; row += rows) fn(p, s, row, least(rows, a.end - row), panel);
}

/* The products of a tile, gate by gate: (rows, 4, nr). A GRU's last one is apart: state, then input. */
static void forward_products(const plan *p, int64_t s, int64_t row, int64_t rows, int64_t panel, char *scratch)
{
  const int64_t nr = p->ker->nr, col = panel * nr, cols = least(nr, p->hidden - col), pitch = 4 * nr;
  const char *state = p->state[s & 1];
  for (int64_t g = 0; g < p->gates; g++) {
    const char *w = p->packed + (panel * p->gates + g) * p->panel_bytes;
    const bool apart = p->mode == CNI_GRU && g == 2;
    cni_groups to = {scratch + g * nr * p->size, pitch, 0}, x = {scratch + (g + apart) * nr * p->size, pitch, 0};
    if (p->given) {
      cni_groups from =
          part_of(p, p->given, p->gates * p->hidden, p->first[step_at(p, s)] + row, g * p->hidden + col);
      p->loops->put(&x, &from, rows, cols, false);
    } else if (apart) {
      product(p, state, row, rows, 0, p->input, w, cols, x.data, pitch, 0);
    }
    if (apart || p->given) product(p, state, row, rows, p->input, p->hidden, w, cols, to.data, pitch, !apart);
    else product(p, state, row, rows, 0, p->depth, w, cols, to.data, pitch, 0);
  }
}

static void forward_tile(const plan *p, int64_t s, int64_t row, int64_t rows, int64_t panel)
{
  _Alignas(64) char scratch[SCRATCH];
  const int64_t nr = p->ker->nr, col = panel * nr, cols = least(nr, p->hidden - col);
  const int64_t at = p->first[step_at(p, s)] + row, H = p->hidden;
  cni_recurrent_tile t = {.rows = rows,
                          .cols = cols,
                          .product = {scratch, 4 * nr, nr},
                          .bias = part_of(p, p->bias, 0, 0, col),
                          .before = part_of(p, p->state[s & 1], p->pitch, row, p->input + col),
                          .carry = part_of(p, p->c, H, row, col),
                          .out = part_of(p, p->output, H, at, col),
                          .saved = part_of(p, p->saved, p->kept * H, at, col),
                          .state = part_of(p, p->state[~s & 1], p->pitch, row, p->input + col)};
  forward_products(p, s, row, rows, panel, scratch);
  p->loops->forward[p->mode](&t);
}

/* Brings the inputs of a step into the rows of its state. */
static void forward_begin(const plan *p, int64_t s, area a)
{
  const int64_t end = least(a.end, rows_at(p, s)), bytes = p->input * p->size;
  const char *from = p->x + p->first[step_at(p, s)] * bytes;
  for (int64_t i = a.row; bytes && i < end; i++)
    memcpy(p->state[s & 1] + i * p->pitch * p->size, from + i * bytes, (size_t)bytes);
}

static void forward_step(const plan *p, int64_t s, area a)
{
  a.end = least(a.end, rows_at(p, s));
  each_tile(p, s, a, forward_tile);
}

/* Rows that had this step as their last give their output as the last state. */
static void forward_end(const plan *p, int64_t s, area a)
{
  const int64_t row = a.row < rows_at(p, s + 1) ? rows_at(p, s + 1) : a.row, rows = least(a.end, rows_at(p, s)) - row;
  const int64_t col = a.panel * p->ker->nr, cols = least(a.panel_end * p->ker->nr, p->hidden) - col;
  if (rows <= 0) return;
  cni_groups to = part_of(p, p->h, p->hidden, row, col);
  cni_groups from = part_of(p, p->output, p->hidden, p->first[step_at(p, s)] + row, col);
  p->loops->put(&to, &from, rows, cols, false);
}

/* Rows of one kind: all with a step after this one or none, all with one before or none. */
static void backward_tile(const plan *p, int64_t s, int64_t row, int64_t rows, int64_t panel)
{
  _Alignas(64) char scratch[SCRATCH];
  const int64_t nr = p->ker->nr, col = panel * nr, cols = least(nr, p->hidden - col);
  const int64_t at = p->first[step_at(p, s)] + row, H = p->hidden;
  const int64_t earlier = s > 0 ? p->first[step_at(p, s - 1)] + row : 0;
  const bool lstm = p->mode == CNI_LSTM, first = row >= rows_at(p, s - 1);
  cni_groups dh = {scratch, nr, 0}, g_out = part_of(p, p->g_output, H, at, col);
  cni_recurrent_tile t = {.rows = rows,
                          .cols = cols,
                          .product = dh,
                          .carry = part_of(p, p->c, H, row, col),
                          .out = part_of(p, p->output, H, at, col),
                          .saved = part_of(p, p->saved, p->kept * H, at, col),
                          .state = part_of(p, p->state[s & 1], p->pitch, row, col),
                          .g_given = part_of(p, p->g_given, p->gates * H, at, col),
                          .g_hidden = part_of(p, p->g_hidden, p->gates * H, at, col)};
  if (first) t.before = part_of(p, lstm ? p->c0 : p->h0, H, row, col);
  else if (lstm) t.before = part_of(p, p->saved, 5 * H, earlier, 4 * H + col);
  else t.before = part_of(p, p->output, H, earlier, col);
  if (row < rows_at(p, s + 1)) {
    product(p, p->state[~s & 1], row, rows, 0, p->depth, p->packed + panel * p->panel_bytes, cols, scratch, nr, 0);
  } else {
    cni_groups g_h = part_of(p, p->g_h, H, row, col);
    p->loops->put(&dh, &g_h, rows, cols, false);
  }
  p->loops->put(&dh, &g_out, rows, cols, true);
  p->loops->backward[p->mode](&t);
}

static void backward_step(const plan *p, int64_t s, area a)
{
  const int64_t cut[4] = {0, least(rows_at(p, s - 1), rows_at(p, s + 1)),
                          rows_at(p, s - 1) < rows_at(p, s + 1) ? rows_at(p, s + 1) : rows_at(p, s - 1), rows_at(p, s)};
  for (int i = 0; i < 3; i++) {
    area b = a;
    if (b.row < cut[i]) b.row = cut[i];
    b.end = least(least(b.end, cut[i + 1]), cut[3]);
    each_tile(p, s, b, backward_tile);
  }
}

static void first_tile(const plan *p, int64_t s, int64_t row, int64_t rows, int64_t panel)
{
  const int64_t nr = p->ker->nr, col = panel * nr, cols = least(nr, p->hidden - col);
  cni_groups to = part_of(p, p->g_h0, p->hidden, row, col), carry = part_of(p, p->c, p->hidden, row, col);
  if (p->mode == CNI_GRU) p->loops->put(&to, &carry, rows, cols, false);
  product(p, p->state[s & 1], row, rows, 0, p->depth, p->packed + panel * p->panel_bytes, cols, to.data, p->hidden,
          p->mode == CNI_GRU);
}

/* Rows that had this step as their first give the gradient of their first state. */
static void backward_end(const plan *p, int64_t s, area a)
{
  if (a.row < rows_at(p, s - 1)) a.row = rows_at(p, s - 1);
  a.end = least(a.end, rows_at(p, s));
  each_tile(p, s, a, first_tile);
}

/* ---- steps over threads ---- */

/* What happens in each step, and after it with the rows that have no other. */
typedef struct course {
  plan *p;
  void (*begin)(const plan *p, int64_t s, area a); /* before any column of these rows; may be NULL */
  void (*step)(const plan *p, int64_t s, area a);
  void (*end)(const plan *p, int64_t s, area a);
  bool backward;
} course;

static int64_t number(const course *c, int64_t i) { return c->backward ? c->p->steps - 1 - i : i; }

static void rows_range(int64_t begin, int64_t end, void *payload)
{
  const course *c = payload;
  const area a = {begin, end, 0, c->p->panels};
  for (int64_t i = 0; i < c->p->steps; i++) {
    if (c->begin) c->begin(c->p, number(c, i), a);
    c->step(c->p, number(c, i), a);
    c->end(c->p, number(c, i), a);
  }
}

/* Items: panels of columns, of each the parts of the rows. */
static void each_part(const plan *p, int64_t begin, int64_t end, void (*fn)(const plan *p, int64_t s, area a))
{
  const int64_t rows = parts(p->batch, p->cuts);
  for (int64_t item = begin; item < end; item++) {
    int64_t panel = item / p->cuts, row = item % p->cuts * rows;
    fn(p, p->step, (area){row, least(row + rows, p->batch), panel, panel + 1});
  }
}

static void step_range(int64_t begin, int64_t end, void *payload)
{
  const course *c = payload;
  each_part(c->p, begin, end, c->step);
}

static void end_range(int64_t begin, int64_t end, void *payload)
{
  const course *c = payload;
  each_part(c->p, begin, end, c->end);
}

/* In how many parts rows are cut where threads share columns: so that the busiest has least to do. */
static int64_t row_cuts(const plan *p, int64_t threads)
{
  enum { READING = 3 /* a panel of weights costs as much as so many rows */ };
  int64_t best = 1, busiest = INT64_MAX;
  for (int64_t cuts = 1; cuts <= threads && cuts * LEAST_ROWS <= p->batch; cuts++) {
    int64_t cost = parts(p->panels * cuts, threads) * (parts(p->batch, cuts) + READING);
    if (cost < busiest) busiest = cost, best = cuts;
  }
  return best;
}

/* Threads share the rows unless that gives each the whole of large weights to read, or too few rows. */
static void run(course *c)
{
  plan *p = c->p;
  const int64_t threads = cn_num_threads();
  const double work = (double)p->batch * (double)(p->input + p->hidden) * (double)(p->gates * p->hidden);
  const bool near = p->panels * p->panel_bytes * (c->backward ? 1 : p->gates) <= NEAR_BYTES;
  const bool rows = p->batch >= LEAST_ROWS * threads && near;
  if (threads == 1 || rows || work < GRAIN_STEP || p->panels == 1) {
    const double most = work * (double)p->steps / GRAIN_WORK;
    const int64_t pieces = least(most < (double)threads ? (int64_t)most : threads, p->batch / LEAST_ROWS);
    cni_parallel_for(p->batch, pieces > 1 ? parts(p->batch, pieces) : p->batch, rows_range, c);
    return;
  }
  p->cuts = row_cuts(p, threads);
  const int64_t items = p->panels * p->cuts;
  for (int64_t i = 0; i < p->steps; i++) {
    p->step = number(c, i);
    if (c->begin) c->begin(p, p->step, (area){0, p->batch, 0, p->panels});
    cni_parallel_for(items, parts(items, threads), step_range, c);
    int64_t next = c->backward ? p->step - 1 : p->step + 1;
    if (rows_at(p, next) < rows_at(p, p->step)) cni_parallel_for(items, parts(items, threads), end_range, c);
  }
}

/* ---- preparation ---- */

typedef struct pack_job {
  const plan *p;
  const cn_desc *w, *u; /* w_ih: (gates H, n), NULL where it is not packed; w_hh: (gates H, H) */
} pack_job;

/* Columns [j nr, ...) of one gate, (count, depth) by strides, as `depth` rows of a panel. */
static void pack_gate(const plan *p, char *to, const cn_desc *w, int64_t gate, int64_t j, int64_t depth)
{
  const int64_t nr = p->ker->nr, first = gate * p->hidden + j * nr;
  p->ker->pack(to, (const char *)w->data + first * w->strides[0] * p->size, w->strides[0], w->strides[1],
               (int)least(nr, p->hidden - j * nr), (int)nr, depth);
}

/* Items: panels of columns of the state, with those of each gate side by side. */
static void pack_range(int64_t begin, int64_t end, void *payload)
{
  const pack_job *job = payload;
  const plan *p = job->p;
  for (int64_t j = begin; j < end; j++)
    for (int64_t g = 0; g < p->gates; g++) {
      char *to = p->packed + (j * p->gates + g) * p->panel_bytes;
      if (p->input) pack_gate(p, to, job->w, g, j, p->input);
      pack_gate(p, to + p->input * p->ker->nr * p->size, job->u, g, j, p->hidden);
    }
}

/* Backward: all gates are rows of one panel. */
static void pack_back_range(int64_t begin, int64_t end, void *payload)
{
  const pack_job *job = payload;
  const plan *p = job->p;
  const int64_t nr = p->ker->nr, row = job->u->strides[0], col = job->u->strides[1];
  for (int64_t j = begin; j < end; j++)
    p->ker->pack(p->packed + j * p->panel_bytes, (const char *)job->u->data + j * nr * col * p->size, col, row,
                 (int)least(nr, p->hidden - j * nr), (int)nr, p->depth);
}

static void find_steps(plan *p)
{
  p->first[0] = 0;
  for (int64_t t = 0; t < p->steps; t++) p->first[t + 1] = p->first[t] + (p->sizes ? p->sizes[t] : p->batch);
}

/* Memory for packed weights and states, and all that follows from the sizes; w: NULL in backward. A row of state is an
 * odd number of cache lines long, so that rows do not meet in few sets of the cache. */
static int prepare(plan *p, const cn_desc *w, const cn_desc *u)
{
  const cni_gemm_kernels *kernels = CNI_BY_ISA(cni_gemm_kernels);
  const cni_recurrent_loops *loops = CNI_BY_ISA(cni_recurrent_loops);
  p->ker = &kernels[p->f64];
  p->loops = &loops[p->f64];
  p->panels = parts(p->hidden, p->ker->nr);
  p->depth = w ? p->input + p->hidden : p->gates * p->hidden;
  const int64_t line = 64 / p->size;
  p->pitch = (parts(p->depth, line) | 1) * line;
  p->panel_bytes = p->depth * p->ker->nr * p->size;
  size_t packed = (size_t)(p->panel_bytes * p->panels * (w ? p->gates : 1) + 63) / 64 * 64;
  size_t state = (size_t)(p->batch * p->pitch * p->size), bias = (size_t)(4 * p->hidden * p->size);
  p->bytes = packed + 2 * state + (size_t)(p->steps + 1) * sizeof *p->first + bias;
  p->memory = cni_scratch_alloc(p->bytes);
  if (!p->memory) return CN_ERR_MEMORY;
  p->packed = p->memory;
  p->state[0] = p->packed + packed;
  p->state[1] = p->state[0] + state;
  p->first = (int64_t *)(void *)(p->state[1] + state);
  p->bias = (char *)(p->first + p->steps + 1);
  find_steps(p);
  pack_job job = {p, w, u};
  cni_parallel_for(p->panels, 1 + (1 << 16) / (p->gates * p->hidden * p->ker->nr + 1), w ? pack_range : pack_back_range,
                   &job);
  return CN_OK;
}

/* The biases of a tile's products: the sums of both, but of a GRU's last gate each by itself. Biases may be NULL. */
static void join_biases(const plan *p, char *b_ih, char *b_hh)
{
  const int64_t H = p->hidden;
  memset(p->bias, 0, (size_t)(4 * H * p->size));
  for (int64_t g = 0; g < p->gates; g++) {
    const bool apart = p->mode == CNI_GRU && g == 2;
    const int64_t at = g * H * p->size;
    cni_groups of_x = {p->bias + at + (apart ? H * p->size : 0), 0, 0}, of_h = {p->bias + at, 0, 0};
    cni_groups x = {b_ih ? b_ih + at : NULL, 0, 0}, h = {b_hh ? b_hh + at : NULL, 0, 0};
    p->loops->put(&of_x, &x, 1, H, true);
    p->loops->put(&of_h, &h, 1, H, true);
  }
}

/* The products of the inputs of all steps, where rows are too few to read w_ih anew in each step, or w_ih too large.
 * *bytes of memory, which the caller frees. */
static int make_given(plan *p, const cn_desc *w, size_t *bytes)
{
  const int64_t rows = p->first[p->steps], columns = p->gates * p->hidden;
  *bytes = (size_t)(rows * columns * p->size);
  p->given = cni_scratch_alloc(*bytes);
  if (!p->given) return CN_ERR_MEMORY;
  cni_gemm g = {.m = rows,
                .n = columns,
                .k = p->width,
                .alpha = 1,
                .a = p->x,
                .a_row = p->width,
                .a_col = 1,
                .b = w->data,
                .b_row = w->strides[1],
                .b_col = w->strides[0],
                .c = p->given,
                .c_row = columns,
                .c_col = 1};
  return p->f64 ? cni_gemm_f64(&g) : cni_gemm_f32(&g);
}

static plan plan_of(const cn_value *args, const cn_desc *all, const cn_desc *h0, int mode, int sizes)
{
  plan p = {.reverse = cni_arg_bool(args, mode + 1), .f64 = h0->dtype == CN_F64, .size = h0->dtype == CN_F64 ? 8 : 4,
            .batch = h0->shape[0], .hidden = h0->shape[1]};
  for (int i = CNI_RNN_TANH; i <= CNI_GRU; i++)
    if (cni_arg_is(args, mode, cni_recurrent_name((cni_recurrent)i))) p.mode = (cni_recurrent)i;
  p.gates = cni_recurrent_gates(p.mode);
  p.kept = cni_recurrent_saved(p.mode);
  bool packed = !cni_arg_none(args, sizes);
  p.steps = packed ? args[sizes].n : all->shape[0];
  p.sizes = packed ? args[sizes].u.is : NULL;
  return p;
}

static int fits(cn_plan *said, const cn_desc *h0)
{
  said->refusal = "float32 and float64 alone";
  return h0->dtype == CN_F32 || h0->dtype == CN_F64 ? CN_OK : CN_REFUSED;
}
static int can_forward(const cn_call *c, cn_plan *said) { return fits(said, cn_desc_of(c->in[3])); }
static int can_backward(const cn_call *c, cn_plan *said) { return fits(said, cn_desc_of(c->in[1])); }

/* ---- kernels ---- */

enum { MOST = 12 };

/* Operands row-major at list[i].data, as many as given; NULL where absent. */
static int take(cni_operand *list, cn_tensor *const *in, int n)
{
  int status = CN_OK;
  for (int i = 0; i < n && !status; i++)
    if (in[i]) status = cni_operand_take(&list[i], cn_desc_of(in[i]), cn_desc_of(in[i])->dtype, NULL);
  return status;
}

static int room(cni_operand *list, cn_tensor *const *out, int n)
{
  int status = CN_OK;
  for (int i = 0; i < n && !status; i++)
    status = cni_operand_room(&list[i], cn_desc_of(out[i]), cn_desc_of(out[i])->dtype, NULL);
  return status;
}

static void finish(cni_operand *list, int nin, cn_tensor *const *out, int nout, int status)
{
  for (int i = 0; i < nin; i++) cni_operand_drop(&list[i]);
  for (int i = 0; i < nout; i++) cni_operand_put(&list[nin + i], cn_desc_of(out[i]), status);
}

/* Copies states, (B, H), to rows of another distance. */
static void copy_rows(const plan *p, char *to, int64_t to_row, const char *from)
{
  const size_t bytes = (size_t)(p->hidden * p->size);
  for (int64_t i = 0; i < p->batch; i++) memcpy(to + i * to_row * p->size, from + i * p->hidden * p->size, bytes);
}

/* o: operands 0, 3, 4, 5, 6 of the call, row-major, then its results. */
static int run_forward(plan *p, cni_operand *o, const cn_desc *w, bool keep)
{
  size_t bytes = 0;
  p->x = o[0].data, p->h0 = o[3].data, p->c0 = o[6].data;
  p->output = o[7].data, p->h = o[8].data;
  if (p->mode == CNI_LSTM) p->c = o[9].data;
  if (p->kept && keep) p->saved = o[10].data;
  if (p->c) copy_rows(p, p->c, p->hidden, p->c0);
  join_biases(p, o[4].data, o[5].data);
  copy_rows(p, p->state[0] + p->input * p->size, p->pitch, p->h0);
  if (p->sizes && p->reverse) /* rows that begin late */
    copy_rows(p, p->state[1] + p->input * p->size, p->pitch, p->h0);
  int status = p->input == p->width ? CN_OK : make_given(p, w, &bytes);
  if (!status) run(&(course){p, forward_begin, forward_step, forward_end, false});
  cni_scratch_free(p->given, bytes);
  return status;
}

/* recurrent_sequence(input, w_ih, w_hh, h0, b_ih, b_hh, c0, mode, reverse, keep, batch_sizes)
 * -> (output, h, c, saved) */
static int forward_kernel(cn_call *call)
{
  cni_operand o[MOST] = {0};
  const cn_desc *w = cn_desc_of(call->in[1]), *u = cn_desc_of(call->in[2]), *h0 = cn_desc_of(call->in[3]);
  plan p = plan_of(call->args, cn_desc_of(call->in[0]), h0, 7, 10);
  if (p.batch == 0 || p.hidden == 0) return CN_OK;
  p.width = w->shape[1];
  if (p.batch >= FEW_ROWS && (p.width + p.hidden) * p.gates * p.hidden * p.size <= NEAR_BYTES) p.input = p.width;
  cn_tensor *in[7];
  memcpy(in, call->in, sizeof in);
  in[1] = in[2] = NULL; /* weights are packed anyway */
  int status = take(o, in, 7);
  if (!status) status = room(o + 7, call->out, 4);
  if (!status) status = prepare(&p, w, u);
  if (!status) status = run_forward(&p, o, w, cni_arg_bool(call->args, 9));
  cni_scratch_free(p.memory, p.bytes);
  finish(o, 7, call->out, 4, status);
  return status;
}

/* recurrent_sequence_grad(w_hh, h0, output, saved, c0, g_output, g_h, g_c, mode, reverse, batch_sizes)
 * -> (g_given, g_hidden, g_h0, g_c0) */
static int backward_kernel(cn_call *call)
{
  cni_operand o[MOST] = {0};
  const cn_desc *h0 = cn_desc_of(call->in[1]);
  plan p = plan_of(call->args, cn_desc_of(call->in[2]), h0, 8, 10);
  if (p.batch == 0 || p.hidden == 0) return CN_OK;
  cn_tensor *in[8] = {NULL};
  memcpy(in + 1, call->in + 1, 7 * sizeof *in);
  const size_t state = (size_t)(p.batch * p.hidden * p.size);
  int status = take(o, in, 8);
  if (!status) status = room(o + 8, call->out, 4);
  if (!status) status = prepare(&p, NULL, cn_desc_of(call->in[0]));
  char *carry = NULL;
  if (!status && p.mode == CNI_GRU && !(carry = cni_scratch_alloc_zero(state))) status = CN_ERR_MEMORY;
  if (!status) {
    p.h0 = o[1].data, p.output = o[2].data, p.saved = o[3].data, p.c0 = o[4].data;
    p.g_output = o[5].data, p.g_h = o[6].data, p.g_c = o[7].data;
    p.g_given = o[8].data, p.g_h0 = o[10].data;
    if (p.mode == CNI_GRU) p.g_hidden = o[9].data, p.c = carry;
    if (p.mode == CNI_LSTM) {
      p.c = o[11].data;
      if (p.g_c) memcpy(p.c, p.g_c, state);
      else memset(p.c, 0, state);
    }
    run(&(course){&p, NULL, backward_step, backward_end, true});
  }
  cni_scratch_free(carry, state);
  cni_scratch_free(p.memory, p.bytes);
  finish(o, 8, call->out, 4, status);
  return status;
}

const cn_kernel cni_cpu_recurrent_kernels[] = {
    {"recurrent_sequence", "packed weights", forward_kernel, can_forward},
    {"recurrent_sequence_grad", "packed weights", backward_kernel, can_backward},
    {NULL, NULL, NULL},
};
