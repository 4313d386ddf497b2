/* recurrent.c: recurrent_sequence and its gradient: layers whose weights do not fit on the chip one product and one
 * kernel a step, all of it queued by one call.
 *
 * Place in the flow: recurrent_chip.c is asked first; launches of kernels/recurrent.cu, products by matmul.c; calls
 * like earlier ones repeat what those had recorded (repeat.c). The products of all inputs are one; they are written
 * where the step leaves its gates, so that no other memory is needed. 16-bit floats are products of the Tensor Cores
 * with results in float32, in which cells and gradients go from step to step. Invariants: rows of a step are the first
 * of the batch; of them `before` have a step before and `after` have one after. Steps use memory of their own (rooms)
 * and, by a table that lies there, tensors. */
#include <string.h>

#include "recurrent.h"

enum { THREADS = 128, MOST_ROWS = 65535, FEW_STEPS = 4 /* are launched as fast as repeated */ };
const char *const cni_cuda_network_names[] = {"lstm", "gru", "plain_tanh", "plain_relu"};

/* As in kernels/recurrent.cu. */
typedef struct step_job {
  const void *table;
  cni_cuda_step_places own;
  const void *product;
  void *state, *h;
  int64_t at, rows, after, hidden, given_row;
} step_job;
typedef struct back_job {
  const void *table;
  cni_cuda_back_places own;
  const void *product;
  void *state, *gates;
  int64_t at, rows, before, after, earlier, hidden;
} back_job;
enum { PLACES = 12 };
typedef struct aim_job {
  void *table;
  int64_t count;
  const void *places[PLACES];
} aim_job;

/* ---- what both directions know ---- */

/* Memory of the steps alone, in one block. h: what the next product reads, states or gradients of gates. table and
 * weights: where the steps are repeated. */
typedef struct rooms {
  void *product, *state, *h, *table, *weights, *block;
  size_t bytes;
} rooms;

typedef struct course {
  cni_cuda_device *d;
  const char *name;
  cni_cuda_network kind;
  int type, wide;       /* of tensors, of what is computed */
  int64_t gates, kept;  /* columns of H */
  int64_t steps, batch, hidden;
  const int64_t *sizes; /* rows of each step; NULL: the batch */
  int64_t *starts;      /* where they begin; NULL likewise */
  bool reverse;
  rooms r;
  const void *weights; /* w_hh: (gates H, H) */
  cni_cuda_repeated *repeated;
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

/* mode, reverse and batch_sizes stand at args[mode], mode + 1 and `sizes`. all: a tensor of all steps; h0: (B, H). */
static course course_of(const cn_call *c, int mode, int sizes, const cn_desc *all, const cn_desc *h0)
{
  const char *name = c->args[mode].u.s;
  course q = {.name = cni_cuda_host->op_name(c->op), .type = h0->dtype, .wide = cni_cuda_wide(h0->dtype),
              .batch = h0->shape[0], .hidden = h0->shape[1], .reverse = c->args[mode + 1].u.i != 0};
  bool packed = c->args[sizes].tag != CN_V_NONE;
  q.kind = *name == 'l'   ? CNI_CUDA_LSTM
           : *name == 'g' ? CNI_CUDA_GRU
           : *name == 't' ? CNI_CUDA_PLAIN_TANH
                          : CNI_CUDA_PLAIN_RELU;
  q.gates = q.kind == CNI_CUDA_LSTM ? 4 : q.kind == CNI_CUDA_GRU ? 3 : 1;
  q.kept = q.kind == CNI_CUDA_LSTM ? 5 : q.kind == CNI_CUDA_GRU ? 4 : 0;
  q.steps = packed ? c->args[sizes].n : all->shape[0];
  q.sizes = packed ? c->args[sizes].u.is : NULL;
  return q;
}

static cni_cuda_layer layer_of(const course *q)
{
  return (cni_cuda_layer){q->d, q->name, q->kind, q->type, q->gates, q->steps, q->batch, q->hidden, q->reverse,
                          q->weights};
}

/* What work that can be repeated depends on, besides where tensors lie; compared as bytes. */
typedef struct key {
  char what[8];
  int32_t backward, kind, type, reverse;
  int64_t steps, batch, hidden, given_row;
} key;

/* The next part of a block; aligned as cuBLASLt likes it. block NULL: only counts. */
static void *next_room(rooms *r, size_t bytes)
{
  void *room = r->block ? (char *)r->block + r->bytes : NULL;
  r->bytes += (bytes + 511) / 512 * 512;
  return room;
}

/* product, h: columns of a row of those. */
static void divide(course *q, int64_t product, int64_t h, bool repeats)
{
  rooms *r = &q->r;
  r->bytes = 0;
  r->product = next_room(r, bytes_of(q->wide, q->batch * product));
  r->state = next_room(r, bytes_of(q->wide, q->batch * q->hidden));
  r->h = next_room(r, bytes_of(q->type, q->batch * h));
  if (!repeats) return;
  r->table = next_room(r, PLACES * sizeof(void *));
  r->weights = next_room(r, bytes_of(q->type, q->gates * q->hidden * q->hidden));
}

/* Memory for the steps: that of work to be repeated, or for this call alone. */
static int begin(course *q, int64_t product, int64_t h, int64_t given_row, bool backward)
{
  key k;
  memset(&k, 0, sizeof k);
  memcpy(k.what, "steps", 5);
  k.backward = backward, k.kind = (int32_t)q->kind, k.type = q->type, k.reverse = q->reverse;
  k.steps = q->steps, k.batch = q->batch, k.hidden = q->hidden, k.given_row = given_row;
  divide(q, product, h, true);
  if (!q->sizes && q->steps >= FEW_STEPS) q->repeated = cni_cuda_repeat(q->d, &k, sizeof k, q->r.bytes, &q->r.block);
  if (!q->repeated) {
    q->r.block = NULL;
    divide(q, product, h, false);
    q->r.block = cni_cuda_scratch(q->d, q->name, q->r.bytes);
  }
  if (!q->r.block) return CN_ERR_MEMORY;
  divide(q, product, h, q->repeated != NULL);
  size_t list = (size_t)q->steps * sizeof *q->starts;
  if (q->sizes && !(q->starts = cni_cuda_host->memory(list))) return CN_ERR_MEMORY;
  for (int64_t t = 0, at = 0; q->sizes && t < q->steps; at += q->sizes[t++]) q->starts[t] = at;
  return CN_OK;
}

static void end(course *q)
{
  if (q->starts) cni_cuda_host->free_memory(q->starts, (size_t)q->steps * sizeof *q->starts);
  if (q->r.block && !q->repeated) cni_cuda_free(q->d, q->r.block, q->r.bytes);
}

static int find_code(CUfunction *code, const course *q, const char *entry)
{
  cni_cuda_code wanted = {.file = "recurrent.cu", .entry = entry, .types = {q->type},
                          .op = cni_cuda_network_names[q->kind], .threads = THREADS};
  return cni_cuda_kernel(code, q->d, &wanted);
}

static int launch(const course *q, CUfunction code, int64_t rows, void *job)
{
  cni_cuda_grid grid = {(q->hidden + THREADS - 1) / THREADS, least(rows, MOST_ROWS), THREADS, 0};
  return cni_cuda_launch(q->d, q->name, code, grid, job);
}

/* For work that is repeated: a call's places and weights go where it finds them. */
static int aim(course *q, const void *places, size_t bytes)
{
  aim_job j = {.table = q->r.table, .count = (int64_t)(bytes / sizeof(void *))};
  CUfunction code;
  if (!q->repeated) return CN_OK;
  memcpy(j.places, places, bytes);
  int status = find_code(&code, q, "recurrent_aim");
  if (!status) status = cni_cuda_launch(q->d, q->name, code, (cni_cuda_grid){1, 1, THREADS, 0}, &j);
  CUresult result = CUDA_SUCCESS;
  if (!status)
    result = cni_cuda_driver()->cuMemcpyDtoDAsync((CUdeviceptr)(uintptr_t)q->r.weights,
                                                  (CUdeviceptr)(uintptr_t)q->weights,
                                                  bytes_of(q->type, q->gates * q->hidden * q->hidden),
                                                  cni_cuda_now(q->d)->stream);
  q->weights = q->r.weights;
  return status ? status : cni_cuda_check(result, q->name);
}

static int run_steps(course *q, cni_cuda_steps_fn steps, void *payload, int status)
{
  if (q->repeated) return cni_cuda_repeat_run(q->repeated, q->name, steps, payload, status);
  return status ? status : steps(payload);
}

/* ---- forward: recurrent_sequence(input, w_ih, w_hh, h0, b_ih, b_hh, c0, mode, reverse, keep, batch_sizes)
 * -> (output, h, c, saved) ---- */

enum { INPUT, W_IH, W_HH, H0, B_IH, B_HH, C0, INPUTS, MODE = INPUTS, KEEP = 9, SIZES };
enum { OUTPUT, LAST_H, LAST_C, SAVED, RESULTS };

typedef struct forward {
  course q;
  cni_cuda_operand in[INPUTS], out[RESULTS];
  void *room; /* scratch for `given`, where no result has room for it */
  size_t room_bytes;
  cni_cuda_step_places places;
  int64_t given_row;
} forward;

/* Products of the inputs of all steps: in what is kept, in the output of a plain network, or in memory of ours. */
static int make_given(forward *f, const cn_desc *x, bool keep)
{
  course *q = &f->q;
  int64_t width = q->gates * q->hidden, n = x->shape[x->ndim - 1], rows = x->numel / n;
  void *given = q->kept ? f->out[SAVED].data : f->out[OUTPUT].data;
  if (q->kept && !keep) {
    f->room_bytes = bytes_of(q->type, rows * width);
    given = f->room = cni_cuda_scratch(q->d, q->name, f->room_bytes);
    if (!f->room) return CN_ERR_MEMORY;
  }
  f->places.given = given;
  cni_cuda_product p = {.a = f->in[INPUT].data, .b = f->in[W_IH].data, .y = given, .m = rows, .n = width, .k = n,
                        .a_row = n, .a_col = 1, .b_row = 1, .b_col = n, .y_row = f->given_row, .dtype = q->type,
                        .to = q->type, .times = 1};
  return cni_cuda_multiply(q->d, q->name, &p);
}

/* from, in another type, to memory of ours. */
static int put_states(const course *q, void *to, int type, const cni_cuda_operand *from)
{
  cn_desc d = from->dense;
  d.data = to;
  d.dtype = type;
  return cni_cuda_copy_desc(q->d, q->name, &d, &from->dense);
}

static int forward_steps(void *payload)
{
  forward *f = payload;
  course *q = &f->q;
  int64_t width = q->gates * q->hidden;
  cni_cuda_product p = {.a = q->r.h, .b = q->weights, .y = q->r.product, .n = width, .k = q->hidden,
                        .a_row = q->hidden, .a_col = 1, .b_row = 1, .b_col = q->hidden, .y_row = width,
                        .dtype = q->type, .to = q->wide, .times = (double)q->steps};
  step_job j = {.table = q->r.table, .product = q->r.product, .state = q->r.state, .h = q->r.h, .hidden = q->hidden,
                .given_row = f->given_row};
  CUfunction code;
  int status = find_code(&code, q, "recurrent_step");
  if (!j.table) j.own = f->places;
  for (int64_t s = 0; s < q->steps && !status; s++) {
    step t = step_of(q, s);
    p.m = t.rows;
    j.at = t.at, j.rows = t.rows, j.after = t.after;
    status = cni_cuda_multiply(q->d, q->name, &p);
    if (!status) status = launch(q, code, t.rows, &j);
  }
  return status;
}

static int run_forward(forward *f, const cn_desc *x, bool keep)
{
  course *q = &f->q;
  f->places = (cni_cuda_step_places){
      .b_ih = f->in[B_IH].data, .b_hh = f->in[B_HH].data, .output = f->out[OUTPUT].data,
      .saved = keep ? f->out[SAVED].data : NULL, .last_h = f->out[LAST_H].data, .last_c = f->out[LAST_C].data};
  f->given_row = !q->kept ? q->hidden : keep ? q->kept * q->hidden : q->gates * q->hidden;
  q->weights = f->in[W_HH].data;
  int status = make_given(f, x, keep);
  cni_cuda_layer l = layer_of(q);
  if (!status && !q->sizes) {
    int done = cni_cuda_chip_forward(&l, &f->places, f->in[H0].data, f->in[C0].data, f->given_row);
    if (done != CN_REFUSED) return done;
  }
  if (!status) status = begin(q, q->gates * q->hidden, q->hidden, f->given_row, false);
  if (!status) status = put_states(q, q->r.h, q->type, &f->in[H0]);
  if (!status && q->kept) status = put_states(q, q->r.state, q->wide, &f->in[q->kind == CNI_CUDA_LSTM ? C0 : H0]);
  if (!status) status = aim(q, &f->places, sizeof f->places);
  status = run_steps(q, forward_steps, f, status);
  end(q);
  return status;
}

static int forward_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[INPUT]);
  forward f = {.q = course_of(c, MODE, SIZES, x, cn_desc_of(c->in[H0]))};
  course *q = &f.q;
  if (q->batch == 0 || q->hidden == 0) return CN_OK;
  if (x->numel == 0) return cni_cuda_refuse(c, "inputs without columns");
  if (!(q->d = cni_cuda_of(c))) return CN_ERR_DEVICE;
  int status = CN_OK;
  for (int i = 0; i < INPUTS && !status; i++)
    if (c->in[i]) status = cni_cuda_take(&f.in[i], q->d, q->name, cn_desc_of(c->in[i]), 0);
  for (int i = 0; i < RESULTS && !status; i++)
    status = cni_cuda_room(&f.out[i], q->d, q->name, cn_desc_of(c->out[i]), 0);
  if (!status) status = run_forward(&f, x, c->args[KEEP].u.i != 0 && q->kept);
  if (f.room) cni_cuda_free(q->d, f.room, f.room_bytes);
  for (int i = 0; i < INPUTS; i++) cni_cuda_drop(&f.in[i], q->d);
  for (int i = 0; i < RESULTS; i++)
    if (f.out[i].desc) status = cni_cuda_give(&f.out[i], q->d, q->name, status);
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
  cni_cuda_back_places places;
} backward;

static int backward_steps(void *payload)
{
  backward *b = payload;
  course *q = &b->q;
  int64_t width = q->gates * q->hidden;
  cni_cuda_product p = {.a = q->r.h, .b = q->weights, .y = q->r.product, .n = q->hidden, .k = width, .a_row = width,
                        .a_col = 1, .b_row = q->hidden, .b_col = 1, .y_row = q->hidden, .dtype = q->type,
                        .to = q->wide, .times = (double)q->steps};
  back_job j = {.table = q->r.table, .product = q->r.product, .state = q->r.state, .gates = q->r.h,
                .hidden = q->hidden};
  CUfunction code, first;
  int status = find_code(&code, q, "recurrent_back");
  if (!status) status = find_code(&first, q, "recurrent_first");
  if (!j.table) j.own = b->places;
  for (int64_t s = q->steps - 1; s >= 0 && !status; s--) {
    step t = step_of(q, s);
    p.m = t.rows;
    j.at = t.at, j.rows = t.rows, j.before = t.before, j.after = t.after;
    j.earlier = s ? step_of(q, s - 1).at : 0;
    status = launch(q, code, t.rows, &j);
    if (!status) status = cni_cuda_multiply(q->d, q->name, &p);
    if (!status && t.before < t.rows) status = launch(q, first, t.rows - t.before, &j);
  }
  return status;
}

static int run_backward(backward *b)
{
  course *q = &b->q;
  b->places = (cni_cuda_back_places){
      .saved = b->in[GRAD_SAVED].data, .output = b->in[GRAD_Y].data,
      .first = b->in[q->kind == CNI_CUDA_LSTM ? GRAD_C0 : GRAD_H0].data, .g_output = b->in[GRAD_OUTPUT].data,
      .g_h = b->in[GRAD_H].data, .g_c = b->in[GRAD_C].data, .g_given = b->out[GIVEN].data,
      .g_hidden = b->out[HIDDEN].data, .g_h0 = b->out[FIRST_H].data, .g_c0 = b->out[FIRST_C].data};
  q->weights = b->in[GRAD_W].data;
  cni_cuda_layer l = layer_of(q);
  int status = q->sizes ? CN_REFUSED : cni_cuda_chip_backward(&l, &b->places);
  if (status != CN_REFUSED) return status;
  status = begin(q, q->hidden, q->gates * q->hidden, 0, true);
  if (!status) status = aim(q, &b->places, sizeof b->places);
  status = run_steps(q, backward_steps, b, status);
  end(q);
  return status;
}

static int backward_kernel(cn_call *c)
{
  backward b = {.q = course_of(c, GRAD_MODE, GRAD_SIZES, cn_desc_of(c->in[GRAD_Y]), cn_desc_of(c->in[GRAD_H0]))};
  course *q = &b.q;
  if (q->batch == 0 || q->hidden == 0) return CN_OK;
  if (!(q->d = cni_cuda_of(c))) return CN_ERR_DEVICE;
  int status = CN_OK;
  for (int i = 0; i < GRAD_INPUTS && !status; i++)
    if (c->in[i]) status = cni_cuda_take(&b.in[i], q->d, q->name, cn_desc_of(c->in[i]), 0);
  for (int i = 0; i < RESULTS && !status; i++)
    status = cni_cuda_room(&b.out[i], q->d, q->name, cn_desc_of(c->out[i]), 0);
  if (!status) status = run_backward(&b);
  for (int i = 0; i < GRAD_INPUTS; i++) cni_cuda_drop(&b.in[i], q->d);
  for (int i = 0; i < RESULTS; i++)
    if (b.out[i].desc) status = cni_cuda_give(&b.out[i], q->d, q->name, status);
  return status;
}

const cn_kernel cni_cuda_recurrent_kernels[] = {
    {"recurrent_sequence", "recurrent.cu", forward_kernel},
    {"recurrent_sequence_grad", "recurrent.cu", backward_kernel},
    {NULL, NULL, NULL},
};
