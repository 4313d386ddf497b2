/* decode.c: steps of language models that write: a linear layer of a few rows, attention over a cache, the choice of a
 * token.
 *
 * Place in the flow: launches of kernels/linear_step.cu, attend_step.cu and choose_token.cu; a whole step is recorded
 * by zoo/step.c. Invariant: nothing is read back, and grids depend on shapes alone: what a step depends on besides
 * stands in device memory. */
#include <string.h>

#include "decode.h"

enum { WARP = 32 };

/* The place of a word in a list that ends with NULL. */
static int32_t place_of(const char *word, const char *const *words)
{
  int32_t i = 0;
  while (words[i] && strcmp(words[i], word)) i++;
  return i;
}

int32_t cni_cuda_step_norm(const char *word)
{
  static const char *const norms[] = {"none", "layer", "rms", NULL};
  return place_of(word, norms);
}

int32_t cni_cuda_step_activation(const char *word)
{
  static const char *const words[] = {"none", "gelu", "gelu_tanh", "relu", "silu", NULL};
  return place_of(word, words);
}

static int32_t join_of(const char *word)
{
  static const char *const joins[] = {"none", "add", "mul", NULL};
  return place_of(word, joins);
}

/* ---- linear_step ---- */

enum {
  ROWS_MOST = 2, /* more are a product's */
  KEPT_FEW = 4,  /* packs of a row that a thread has, if more warps can share it */
  KEPT_MOST = 8,
  TEAM_MOST = 4, /* warps */
  LONG_PACKS = 8,
  SLOTS_MOST = 3,
  SLOTS_BYTES = 48 << 10,
  LINEAR_THREADS = 128, /* so that few results, too, are on all units */
  LINEAR_BLOCKS_PER_UNIT = 4
};

/* Of linear_step, or linear, whose first tensors are its own. */
static const char *linear_refusal(const cn_call *c, int64_t rows)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *w = cn_desc_of(c->in[1]);
  int64_t vector = is_short_float(x->dtype) ? PACK / (int64_t)cn_element_size(x->dtype) : 0, k = w->shape[1];
  if (!vector || rows < 1 || rows > ROWS_MOST) return "it takes up to 2 rows of float16, bfloat16 or float32";
  if (!k || k % vector || k > INT32_MAX || (w->shape[0] > 1 && w->strides[0] % vector) || !is_aligned(w->data) ||
      (k > 1 && w->strides[1] != 1))
    return "the weight's rows do not begin with a pack";
  for (int i = 0; i < c->nin; i++)
    if (i != 1 && !is_row(c->in[i])) return "an operand is strided";
  return NULL;
}

/* One row: warps that share a result, results at a time, and how often those fit into shared memory (FORM of
 * kernels/linear_step.cu). false: the row is too long. */
static bool plan_row(cni_cuda_code *code, cni_cuda_grid *grid, const cni_cuda_linear_job *j, int64_t vector,
                     int64_t most)
{
  int64_t packs = parts(j->k / vector, WARP), team = 1;
  while (team < TEAM_MOST && parts(packs, team) > KEPT_FEW) team *= 2;
  int64_t kept = parts(packs, team), teams = LINEAR_THREADS / WARP / team;
  int64_t at_once = parts(j->n, teams) * LINEAR_BLOCKS_PER_UNIT >= 3 * most ? 2 : 1;
  int64_t slot = at_once * kept * LINEAR_THREADS * PACK, blocks = parts(j->n, teams * at_once);
  int64_t slots = least(least(parts(blocks, most), SLOTS_MOST), SLOTS_BYTES / slot);
  if (kept > KEPT_MOST) return false;
  if (slots < 1) slots = 1;
  code->entry = "linear_row";
  code->number = (int)kept;
  code->form = (int)(team | at_once << 3 | slots << 5 | (j->norm != 0) << 8);
  grid->x = least(blocks, most);
  grid->shared = (size_t)(slots * slot);
  grid->carveout = 100;
  return true;
}

int cni_cuda_linear_launch(cni_cuda_device *d, const char *name, cni_cuda_linear_job *j, int dtype, int64_t rows,
                           bool early)
{
  static const char *const rows_words[] = {"0", "1", "2"};
  const int64_t vector = PACK / (int64_t)cn_element_size(dtype), most = (int64_t)d->units * LINEAR_BLOCKS_PER_UNIT;
  cni_cuda_code code = {.file = "linear_step.cu", .entry = "linear_rows", .types = {dtype}, .op = rows_words[rows],
                        .number = LONG_PACKS, .threads = LINEAR_THREADS};
  cni_cuda_grid grid = {.x = least(parts(j->n, LINEAR_THREADS / WARP), most), .y = 1, .threads = LINEAR_THREADS,
                        .early = early};
  if (!j->n) return CN_OK;
  if (rows == 1) plan_row(&code, &grid, j, vector, most);
  return cni_cuda_run(d, name, &code, grid, j);
}

/* What linear_step and linear begin with: input, weight, bias. */
static cni_cuda_linear_job linear_of(const cn_call *c)
{
  const cn_desc *w = cn_desc_of(c->in[1]);
  return (cni_cuda_linear_job){
      .x = data_of(c->in[0]), .w = w->data, .b = data_of(c->in[2]), .y = cn_desc_of(c->out[0])->data, .n = w->shape[0],
      .ld = w->shape[0] > 1 ? w->strides[0] : w->shape[1], .k = (int32_t)w->shape[1]};
}

static int64_t rows_of(const cn_call *c)
{
  int64_t k = cn_desc_of(c->in[1])->shape[1];
  return k ? cn_desc_of(c->in[0])->numel / k : 0;
}

static int linear_step_kernel(cn_call *c)
{
  const char *why = linear_refusal(c, rows_of(c));
  if (why) return cni_cuda_refuse(c, why);
  cni_cuda_device *d = cni_cuda_of(c);
  if (!d) return CN_ERR_DEVICE;
  cni_cuda_linear_job j = linear_of(c);
  j.nw = data_of(c->in[3]), j.nb = data_of(c->in[4]), j.other = data_of(c->in[5]);
  j.norm = cni_cuda_step_norm(c->args[6].u.s), j.act = cni_cuda_step_activation(c->args[8].u.s);
  j.join = join_of(c->args[9].u.s), j.eps = (float)number(&c->args[7]), j.steady = c->args[10].u.i != 0;
  return cni_cuda_linear_launch(d, cni_cuda_host->op_name(c->op), &j, cn_desc_of(c->in[0])->dtype, rows_of(c), true);
}

/* linear(input, weight, bias): cuBLASLt has no kernel that puts a row or two on all units. */
int cni_cuda_linear_few(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *w = cn_desc_of(c->in[1]), *b = c->in[2] ? cn_desc_of(c->in[2]) : NULL;
  bool plain = w->ndim == 2 && w->dtype == x->dtype && cn_desc_of(c->out[0])->dtype == x->dtype &&
               (!b || (b->ndim == 1 && b->dtype == x->dtype && b->numel == w->shape[0] && b->device == x->device));
  const char *why = plain ? linear_refusal(c, rows_of(c)) : "another form";
  if (why) return cni_cuda_refuse(c, why);
  cni_cuda_device *d = cni_cuda_of(c);
  if (!d) return CN_ERR_DEVICE;
  cni_cuda_linear_job j = linear_of(c);
  return cni_cuda_linear_launch(d, cni_cuda_host->op_name(c->op), &j, x->dtype, rows_of(c), false);
}

/* ---- attend_step ---- */

enum {
  ATTEND_THREADS = 512,
  JOIN_THREADS = 64,
  WIDTH_MOST = 256,
  CHUNK_LEAST = 512, /* keys that are worth a block */
  KEYS_AHEAD = 4     /* packs of keys that a thread has asked for, and of values */
};

static const char *attend_refusal(const cn_call *c)
{
  const cn_desc *keys = cn_desc_of(c->in[0]);
  int64_t width = keys->shape[3];
  if (!is_short_float(keys->dtype)) return "it takes float16, bfloat16 or float32";
  if (!width || width % (PACK / (int64_t)cn_element_size(keys->dtype)) || width > WIDTH_MOST || width % 2)
    return "a head is no whole packs, or wider than 256";
  if (keys->shape[2] > INT32_MAX || !keys->numel) return "the cache is empty, or too long";
  for (int i = 0; i < c->nin; i++) {
    const cn_desc *t = c->in[i] ? cn_desc_of(c->in[i]) : NULL;
    if (i >= 3 && i <= 5 ? t->strides[3] != 1 : !is_row(c->in[i])) return "an operand is strided";
  }
  for (int i = 0; i < 3; i++)
    if (!is_row(c->out[i])) return "a result is strided";
  return NULL;
}

/* Chunks so that heads and chunks together are on most units; how many must not depend on the position. */
static void split(cni_cuda_attend_job *j, const cni_cuda_device *d, int64_t rows)
{
  j->chunk = parts(j->length, least(parts(j->length, CHUNK_LEAST), parts(2 * (int64_t)d->units, rows)));
  j->splits = (int32_t)parts(j->length, j->chunk);
}

int cni_cuda_attend_launch(cni_cuda_device *d, const char *name, cni_cuda_attend_job *j, int64_t rows, int dtype,
                           int width)
{
  split(j, d, rows);
  size_t bytes = j->splits > 1 ? (size_t)(rows * j->splits * (width + 2)) * sizeof(float) : 0;
  if (bytes && !(j->parts = cni_cuda_scratch(d, name, bytes))) return CN_ERR_MEMORY;
  cni_cuda_code code = {.file = "attend_step.cu", .entry = "attend_step", .types = {dtype}, .number = width,
                        .threads = ATTEND_THREADS};
  cni_cuda_grid grid = {.x = rows, .y = j->splits, .threads = ATTEND_THREADS, .early = true, .carveout = 100,
                        .shared = (size_t)(2 * KEYS_AHEAD * ATTEND_THREADS * PACK)};
  int status = cni_cuda_run(d, name, &code, grid, j);
  code.entry = "attend_join";
  code.threads = JOIN_THREADS;
  if (!status && bytes) status = cni_cuda_run(d, name, &code, (cni_cuda_grid){rows, 1, JOIN_THREADS, 0, true}, j);
  if (bytes) cni_cuda_free(d, j->parts, bytes);
  return status;
}

static int attend_step_kernel(cn_call *c)
{
  const cn_desc *q = cn_desc_of(c->in[3]), *k = cn_desc_of(c->in[4]), *v = cn_desc_of(c->in[5]);
  const cn_desc *keys = cn_desc_of(c->in[0]);
  const char *name = cni_cuda_host->op_name(c->op), *why = attend_refusal(c);
  if (why) return cni_cuda_refuse(c, why);
  cni_cuda_device *d = cni_cuda_of(c);
  if (!d) return CN_ERR_DEVICE;
  int64_t rows = q->shape[0] * q->shape[1];
  cni_cuda_attend_job j = {.keys = cn_desc_of(c->out[0])->data, .values = cn_desc_of(c->out[1])->data,
                  .y = cn_desc_of(c->out[2])->data, .q = q->data, .k = k->data, .v = v->data,
                  .qb = q->strides[0], .qh = q->strides[1], .kb = k->strides[0], .kh = k->strides[1],
                  .vb = v->strides[0], .vh = v->strides[1], .position = data_of(c->in[6]),
                  .cosines = data_of(c->in[7]), .sines = data_of(c->in[8]), .length = keys->shape[2],
                  .heads = (int32_t)q->shape[1], .key_heads = (int32_t)keys->shape[1],
                  .scale = (float)number(&c->args[9]), .steady = c->args[10].u.i != 0,
                  .fault = cni_cuda_slot_for(d, name)};
  int status = CN_OK;
  for (int i = 0; i < 2 && !status; i++)
    if (cn_desc_of(c->out[i])->data != cn_desc_of(c->in[i])->data)
      status = cni_cuda_copy_desc(d, name, cn_desc_of(c->out[i]), cn_desc_of(c->in[i]));
  return status ? status : cni_cuda_attend_launch(d, name, &j, rows, q->dtype, (int)q->shape[3]);
}

/* ---- choose_token ---- */

enum { CHOOSE_THREADS = 1024, STATES = 4 };

/* As in kernels/choose_token.cu. */
typedef struct choose_job {
  void *tokens, *current, *position, *ended;
  const void *scores, *uniforms;
  void *keys;
  int64_t length, vocab, stride, nuniforms, prompt, top_k, stop;
  double temperature, top_p, penalty;
  int32_t rows, aligned;
  cni_cuda_slot fault;
} choose_job;

static int choose_launch(cni_cuda_device *d, const char *name, choose_job *j, int dtype)
{
  bool narrow = j->temperature != 0 && (j->top_k < j->vocab || j->top_p < 1);
  size_t bytes = narrow ? (size_t)(j->rows * j->vocab) * 4 : 0;
  size_t shared = j->penalty != 1 ? (size_t)(j->vocab + 31) / 32 * 4 : 0;
  if (bytes && !(j->keys = cni_cuda_scratch(d, name, bytes))) return CN_ERR_MEMORY;
  cni_cuda_code code = {.file = "choose_token.cu", .entry = "choose_token", .types = {dtype},
                        .threads = CHOOSE_THREADS};
  int status = cni_cuda_run(d, name, &code, (cni_cuda_grid){j->rows, 1, CHOOSE_THREADS, shared, true}, j);
  if (bytes) cni_cuda_free(d, j->keys, bytes);
  return status;
}

static int choose_token_kernel(cn_call *c)
{
  const cn_desc *scores = cn_desc_of(c->in[4]), *uniforms = cn_desc_of(c->in[5]);
  const cn_value *a = c->args;
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_operand state[STATES], os = {0}, ou = {0};
  if (!d) return CN_ERR_DEVICE;
  memset(state, 0, sizeof state);
  int status = CN_OK;
  for (int i = 0; i < STATES && !status; i++)
    status = cni_cuda_room_of(&state[i], d, name, cn_desc_of(c->out[i]), 0, cn_desc_of(c->in[i]));
  bool rows_apart = scores->strides[1] != 1 && scores->shape[1] > 1;
  if (!status && rows_apart) status = cni_cuda_take(&os, d, name, scores, 0);
  if (!status) status = cni_cuda_take(&ou, d, name, uniforms, 0);
  const cn_desc *read = rows_apart ? &os.dense : scores;
  choose_job j = {.tokens = state[0].data, .current = state[1].data, .position = state[2].data, .ended = state[3].data,
                  .scores = read->data, .uniforms = ou.data, .length = cn_desc_of(c->in[0])->shape[1],
                  .vocab = scores->shape[1], .stride = read->strides[0], .nuniforms = uniforms->numel,
                  .prompt = a[6].u.i, .temperature = number(&a[7]), .top_k = a[8].u.i, .top_p = number(&a[9]),
                  .penalty = number(&a[10]), .stop = a[11].u.i, .rows = (int32_t)scores->shape[0],
                  .fault = cni_cuda_slot_for(d, name)};
  int64_t vector = PACK / (int64_t)cn_element_size(scores->dtype);
  if (j.top_k <= 0 || j.top_k > j.vocab) j.top_k = j.vocab;
  j.aligned = is_aligned(j.scores) && (j.rows == 1 || j.stride % vector == 0);
  if (!status && j.rows) status = choose_launch(d, name, &j, scores->dtype);
  cni_cuda_drop(&os, d);
  cni_cuda_drop(&ou, d);
  for (int i = 0; i < STATES; i++) status = cni_cuda_give(&state[i], d, name, status);
  return status;
}

const cn_kernel cni_cuda_decode_kernels[] = {
    {"linear_step", "linear_step.cu", linear_step_kernel},
    {"attend_step", "attend_step.cu", attend_step_kernel},
    {"decoder_step", "decoder_attend.cu", cni_cuda_decoder_step},
    {"choose_token", "choose_token.cu", choose_token_kernel},
    {NULL, NULL, NULL},
};
