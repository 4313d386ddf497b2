/* recurrent.c: recurrent_sequence and its gradient: one product and one kernel a step, all of it queued by one call.
 *
 * Place in the flow: launches of kernels/recurrent.cu, products by matmul.c. The products of all inputs are one; they
 * are written where the step leaves its gates, so that no other memory is needed. 16-bit floats are products of the
 * Tensor Cores with results in float32, in which cells and gradients go from step to step. Invariant: rows of a step
 * are the first of the batch; of them `before` have a step before and `after` have one after. */
#include <string.h>

#include "plugin.h"

enum { THREADS = 128, MOST_ROWS = 65535 };
typedef enum network { LSTM, GRU, PLAIN_TANH, PLAIN_RELU } network;

/* As in kernels/recurrent.cu. */
typedef struct step_job {
  const void *given, *product, *b_ih, *b_hh, *first;
  void *state, *output, *saved, *last_h, *last_c;
  int64_t rows, hidden, given_row, before, after;
} step_job;
typedef struct back_job {
  const void *saved, *output, *earlier, *first, *g_output, *g_h, *g_c, *product;
  void *state, *g_given, *g_hidden, *g_h0, *g_c0;
  int64_t rows, hidden, earlier_row, before, after;
} back_job;

/* ---- what both directions know ---- */

typedef struct course {
  cni_cuda_device *d;
  const char *name;
  network kind;
  int type, wide;        /* of tensors, of what is computed */
  int64_t gates, kept;   /* columns of H */
  int64_t steps, batch, hidden;
  const int64_t *sizes;  /* rows of each step; NULL: the batch */
  int64_t *starts;       /* where they begin; NULL likewise */
  bool reverse;
  void *product, *state; /* scratch */
  size_t product_bytes, state_bytes;
} course;

/* A step as it is done, by number: its first row among all, how many it has, and of them how many have neighbours. */
typedef struct step {
  int64_t at, rows, before, after;
} step;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t time_of(const course *q, int64_t s) { return q->reverse ? q->steps - 1 - s : s; }
static int64_t rows_of(const course *q, int64_t s)
{
  if (s < 0 || s >= q->steps) return 0;
  return q->sizes ? q->sizes[time_of(q, s)] : q->batch;
}

static step step_of(const course *q, int64_t s)
{
  int64_t t = time_of(q, s), n = rows_of(q, s);
  return (step){q->sizes ? q->starts[t] : t * q->batch, n, least(n, rows_of(q, s - 1)), least(n, rows_of(q, s + 1))};
}

static size_t bytes_of(int type, int64_t n) { return cn_element_bytes(type, n); }
static void *part(const course *q, const void *data, int64_t element)
{
  return data ? (char *)(uintptr_t)data + bytes_of(q->type, element) : NULL;
}

/* mode, reverse and batch_sizes stand at args[mode], mode + 1 and `sizes`. all: a tensor of all steps; h0: (B, H). */
static course course_of(const cn_call *c, int mode, int sizes, const cn_desc *all, const cn_desc *h0)
{
  const char *name = c->args[mode].u.s;
  course q = {.name = cni_cuda_host->op_name(c->op), .type = h0->dtype, .wide = cni_cuda_wide(h0->dtype),
              .batch = h0->shape[0], .hidden = h0->shape[1], .reverse = c->args[mode + 1].u.i != 0};
  bool packed = c->args[sizes].tag != CN_V_NONE;
  q.kind = *name == 'l' ? LSTM : *name == 'g' ? GRU : *name == 't' ? PLAIN_TANH : PLAIN_RELU;
  q.gates = q.kind == LSTM ? 4 : q.kind == GRU ? 3 : 1;
  q.kept = q.kind == LSTM ? 5 : q.kind == GRU ? 4 : 0;
  q.steps = packed ? c->args[sizes].n : all->shape[0];
  q.sizes = packed ? c->args[sizes].u.is : NULL;
  return q;
}

/* The device, and memory. product: columns of a row of products. */
static int begin(course *q, const cn_call *c, int64_t product)
{
  size_t list = (size_t)q->steps * sizeof *q->starts;
  q->d = cni_cuda_of(c);
  if (!q->d) return CN_ERR_DEVICE;
  if (q->sizes && !(q->starts = cni_cuda_host->memory(list))) return CN_ERR_MEMORY;
  for (int64_t t = 0, at = 0; q->sizes && t < q->steps; at += q->sizes[t++]) q->starts[t] = at;
  q->product_bytes = bytes_of(q->wide, q->batch * product);
  q->state_bytes = bytes_of(q->wide, q->batch * q->hidden);
  q->product = cni_cuda_scratch(q->d, q->name, q->product_bytes);
  q->state = q->product ? cni_cuda_scratch(q->d, q->name, q->state_bytes) : NULL;
  return q->state ? CN_OK : CN_ERR_MEMORY;
}

static void end(course *q)
{
  if (q->starts) cni_cuda_host->free_memory(q->starts, (size_t)q->steps * sizeof *q->starts);
  if (q->product) cni_cuda_free(q->d, q->product, q->product_bytes);
  if (q->state) cni_cuda_free(q->d, q->state, q->state_bytes);
}

static int find_code(CUfunction *code, const course *q, const char *entry)
{
  static const char *const names[] = {"lstm", "gru", "plain_tanh", "plain_relu"};
  cni_cuda_code wanted = {.file = "recurrent.cu", .entry = entry, .types = {q->type}, .op = names[q->kind],
                          .threads = THREADS};
  return cni_cuda_kernel(code, q->d, &wanted);
}

static int launch(const course *q, CUfunction code, int64_t rows, void *job)
{
  cni_cuda_grid grid = {(q->hidden + THREADS - 1) / THREADS, least(rows, MOST_ROWS), THREADS, 0};
  return cni_cuda_launch(q->d, q->name, code, grid, job);
}

/* ---- forward: recurrent_sequence(input, w_ih, w_hh, h0, b_ih, b_hh, c0, mode, reverse, keep, batch_sizes)
 * -> (output, h, c, saved) ---- */

enum { INPUT, W_IH, W_HH, H0, B_IH, B_HH, C0, INPUTS, MODE = INPUTS, KEEP = 9, SIZES };
enum { OUTPUT, LAST_H, LAST_C, SAVED, RESULTS };

typedef struct forward {
  course q;
  cni_cuda_operand in[INPUTS], out[RESULTS];
  void *given, *room; /* room: scratch for given, where no result has room for it */
  size_t room_bytes;
  int64_t given_row;
} forward;

/* Products of the inputs of all steps: in what is kept, in the output of a plain network, or in memory of ours. */
static int make_given(forward *f, const cn_desc *x, bool keep)
{
  course *q = &f->q;
  int64_t width = q->gates * q->hidden, n = x->shape[x->ndim - 1], rows = x->numel / n;
  f->given = q->kept ? f->out[SAVED].data : f->out[OUTPUT].data;
  f->given_row = q->kept ? q->kept * q->hidden : q->hidden;
  if (q->kept && !keep) {
    f->given_row = width;
    f->room_bytes = bytes_of(q->type, rows * width);
    f->given = f->room = cni_cuda_scratch(q->d, q->name, f->room_bytes);
    if (!f->room) return CN_ERR_MEMORY;
  }
  cni_cuda_product p = {.a = f->in[INPUT].data, .b = f->in[W_IH].data, .y = f->given, .m = rows, .n = width, .k = n,
                        .a_row = n, .a_col = 1, .b_row = 1, .b_col = n, .y_row = f->given_row, .dtype = q->type,
                        .to = q->type, .times = 1};
  return cni_cuda_multiply(q->d, q->name, &p);
}

/* product[row ...] = `rows` states from h on, times w_hh turned. */
static int multiply_states(const forward *f, const void *h, int64_t row, int64_t rows)
{
  const course *q = &f->q;
  int64_t width = q->gates * q->hidden;
  cni_cuda_product p = {.a = h, .b = f->in[W_HH].data, .y = (char *)q->product + bytes_of(q->wide, row * width),
                        .m = rows, .n = width, .k = q->hidden, .a_row = q->hidden, .a_col = 1, .b_row = 1,
                        .b_col = q->hidden, .y_row = width, .dtype = q->type, .to = q->wide,
                        .times = (double)q->steps};
  return rows > 0 ? cni_cuda_multiply(q->d, q->name, &p) : CN_OK;
}

static int forward_steps(forward *f, bool keep)
{
  course *q = &f->q;
  const int64_t H = q->hidden;
  step_job j = {.product = q->product, .b_ih = f->in[B_IH].data, .b_hh = f->in[B_HH].data, .state = q->state,
                .first = f->in[q->kind == LSTM ? C0 : H0].data, .last_h = f->out[LAST_H].data,
                .last_c = f->out[LAST_C].data, .hidden = H, .given_row = f->given_row};
  const void *h = NULL;
  CUfunction code;
  int status = find_code(&code, q, "recurrent_step");
  for (int64_t s = 0; s < q->steps && !status; s++) {
    step t = step_of(q, s);
    status = multiply_states(f, h, 0, t.before);
    if (!status) status = multiply_states(f, part(q, f->in[H0].data, t.before * H), t.before, t.rows - t.before);
    j.given = part(q, f->given, t.at * f->given_row);
    j.output = part(q, f->out[OUTPUT].data, t.at * H);
    j.saved = keep ? part(q, f->out[SAVED].data, t.at * q->kept * H) : NULL;
    j.rows = t.rows, j.before = t.before, j.after = t.after;
    if (!status) status = launch(q, code, t.rows, &j);
    h = j.output;
  }
  return status;
}

static int forward_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[INPUT]);
  forward f = {.q = course_of(c, MODE, SIZES, x, cn_desc_of(c->in[H0]))};
  course *q = &f.q;
  bool keep = c->args[KEEP].u.i != 0 && q->kept;
  if (q->batch == 0 || q->hidden == 0) return CN_OK;
  if (x->numel == 0) return cni_cuda_refuse(c, "inputs without columns");
  int status = begin(q, c, q->gates * q->hidden);
  for (int i = 0; i < INPUTS && !status; i++)
    if (c->in[i]) status = cni_cuda_take(&f.in[i], q->d, q->name, cn_desc_of(c->in[i]), 0);
  for (int i = 0; i < RESULTS && !status; i++)
    status = cni_cuda_room(&f.out[i], q->d, q->name, cn_desc_of(c->out[i]), 0);
  if (!status) status = make_given(&f, x, keep);
  if (!status) status = forward_steps(&f, keep);
  if (f.room) cni_cuda_free(q->d, f.room, f.room_bytes);
  for (int i = 0; i < INPUTS; i++) cni_cuda_drop(&f.in[i], q->d);
  for (int i = 0; i < RESULTS; i++)
    if (f.out[i].desc) status = cni_cuda_give(&f.out[i], q->d, q->name, status);
  end(q);
  return status;
}

/* ---- backward: recurrent_sequence_grad(w_hh, h0, output, saved, c0, g_output, g_h, g_c, mode, reverse, batch_sizes)
 * -> (g_given, g_hidden, g_h0, g_c0) ---- */

enum { GRAD_W, GRAD_H0, GRAD_Y, GRAD_SAVED, GRAD_C0, GRAD_OUTPUT, GRAD_H, GRAD_C, GRAD_INPUTS };
enum { GIVEN, HIDDEN, FIRST_H, FIRST_C };
enum { GRAD_MODE = 8, GRAD_SIZES = 10 };

typedef struct backward {
  course q;
  cni_cuda_operand in[GRAD_INPUTS], out[RESULTS];
} backward;

/* product = gradients of the gates of `rows` rows, times w_hh. */
static int multiply_gates(const backward *b, const void *gates, int64_t rows)
{
  const course *q = &b->q;
  int64_t width = q->gates * q->hidden;
  cni_cuda_product p = {.a = gates, .b = b->in[GRAD_W].data, .y = q->product, .m = rows, .n = q->hidden, .k = width,
                        .a_row = width, .a_col = 1, .b_row = q->hidden, .b_col = 1, .y_row = q->hidden,
                        .dtype = q->type, .to = q->wide, .times = (double)q->steps};
  return cni_cuda_multiply(q->d, q->name, &p);
}

/* The operands of one step. */
static void aim(back_job *j, const backward *b, int64_t s)
{
  const course *q = &b->q;
  const int64_t H = q->hidden, width = q->gates * H;
  step t = step_of(q, s), earlier = s ? step_of(q, s - 1) : t;
  j->saved = part(q, b->in[GRAD_SAVED].data, t.at * q->kept * H);
  j->output = part(q, b->in[GRAD_Y].data, t.at * H);
  j->earlier = q->kind == LSTM ? part(q, b->in[GRAD_SAVED].data, (earlier.at * q->kept + q->kept - 1) * H)
                               : part(q, b->in[GRAD_Y].data, earlier.at * H);
  j->g_output = part(q, b->in[GRAD_OUTPUT].data, t.at * H);
  j->g_given = part(q, b->out[GIVEN].data, t.at * width);
  j->g_hidden = q->kind == GRU ? part(q, b->out[HIDDEN].data, t.at * width) : NULL;
  j->rows = t.rows, j->before = t.before, j->after = t.after;
}

static int backward_steps(backward *b)
{
  course *q = &b->q;
  back_job j = {.first = b->in[q->kind == LSTM ? GRAD_C0 : GRAD_H0].data, .g_h = b->in[GRAD_H].data,
                .g_c = b->in[GRAD_C].data, .product = q->product, .state = q->state, .g_h0 = b->out[FIRST_H].data,
                .g_c0 = b->out[FIRST_C].data, .hidden = q->hidden,
                .earlier_row = q->kind == LSTM ? q->kept * q->hidden : q->hidden};
  CUfunction code, first;
  int status = find_code(&code, q, "recurrent_back");
  if (!status) status = find_code(&first, q, "recurrent_first");
  for (int64_t s = q->steps - 1; s >= 0 && !status; s--) {
    aim(&j, b, s);
    status = launch(q, code, j.rows, &j);
    if (!status) status = multiply_gates(b, q->kind == GRU ? j.g_hidden : j.g_given, j.rows);
    if (!status && j.before < j.rows) status = launch(q, first, j.rows - j.before, &j);
  }
  return status;
}

static int backward_kernel(cn_call *c)
{
  backward b = {.q = course_of(c, GRAD_MODE, GRAD_SIZES, cn_desc_of(c->in[GRAD_Y]), cn_desc_of(c->in[GRAD_H0]))};
  course *q = &b.q;
  if (q->batch == 0 || q->hidden == 0) return CN_OK;
  int status = begin(q, c, q->hidden);
  for (int i = 0; i < GRAD_INPUTS && !status; i++)
    if (c->in[i]) status = cni_cuda_take(&b.in[i], q->d, q->name, cn_desc_of(c->in[i]), 0);
  for (int i = 0; i < RESULTS && !status; i++)
    status = cni_cuda_room(&b.out[i], q->d, q->name, cn_desc_of(c->out[i]), 0);
  if (!status) status = backward_steps(&b);
  for (int i = 0; i < GRAD_INPUTS; i++) cni_cuda_drop(&b.in[i], q->d);
  for (int i = 0; i < RESULTS; i++)
    if (b.out[i].desc) status = cni_cuda_give(&b.out[i], q->d, q->name, status);
  end(q);
  return status;
}

const cn_kernel cni_cuda_recurrent_kernels[] = {
    {"recurrent_sequence", "recurrent.cu", forward_kernel},
    {"recurrent_sequence_grad", "recurrent.cu", backward_kernel},
    {NULL, NULL, NULL},
};
