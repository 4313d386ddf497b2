/* generate.c: text, token by token. See zoo.h.
 *
 * Place in the flow: above cache.c and step.c. Tokens and choices stay on the device of the prompt; this file looks at
 * them only where someone must know: a stop token, a function that is called with each; where a step is one launch, one
 * token late, while the next is being made. Invariant: with the same scores and seed the tokens are the same with and
 * without a cache, on any of these ways, and a sequence of a batch never changes another one when the choice is the
 * likeliest. */
#include "lm.h"

enum { LONGEST = 1 << 30 }; /* tokens of a sequence that no model limits: a batch of them is still a number */

typedef struct generation {
  cni_writing step;
  const cn_generate_opts *o;
  cn_device device;
  int64_t batch, prompt, used, room; /* used: tokens of each row that are there, or queued */
  int64_t stop;                      /* -1: none */
  bool by_step, looks;               /* is a step one launch; does someone look at tokens? */
  uint64_t seed, offset;             /* of this thread's random numbers, at first */
  int64_t seen;                      /* tokens of each row that were looked at */
  int64_t *column, *ended;           /* (batch): the tokens looked at; where a row's stop token is, or room */
  cn_stream *beside;                 /* where they are looked at */
  cn_event *made[2];                 /* the last two tokens */
} generation;

/* ---- beginning and end ---- */

static void close_generation(generation *g)
{
  size_t bytes = (size_t)g->batch * sizeof *g->column;
  cni_step_close(&g->step);
  cn_free(g->column, bytes);
  cn_free(g->ended, bytes);
  for (int i = 0; i < 2; i++) cn_event_free(g->made[i]);
  cn_stream_release(g->beside);
}

static int read_choice(generation *g)
{
  const cn_generate_opts *o = g->o;
  g->stop = o->stop == 0 || o->stop == CN_NONE ? -1 : o->stop == CN_ZERO ? 0 : o->stop;
  g->looks = g->stop >= 0 || o->each;
  g->step.how = (cn_choose_token_opts){
    .size = sizeof g->step.how, .prompt = g->prompt, .temperature = o->temperature, .top_k = o->top_k,
    .top_p = o->top_p, .penalty = o->repetition_penalty, .stop = g->stop ? g->stop : CN_ZERO};
  bool top_p = o->top_p == 0 || (o->top_p > 0 && o->top_p <= 1);
  bool temperature = o->temperature >= 0 || o->temperature == (double)CN_ZERO;
  if (temperature && top_p && o->repetition_penalty >= 0 && o->top_k >= 0) return CN_OK;
  return cn_err_set(CN_ERR_VALUE, "generate: temperature and top_k cannot be negative, top_p is in (0, 1], "
                    "repetition_penalty is positive");
}

static bool draws(const generation *g) { return g->o->temperature != (double)CN_ZERO; }

/* Numbers in [0, 1), from this thread's, for as many choices as there can be. */
static cn_tensor *uniforms(generation *g)
{
  int64_t n = draws(g) ? g->batch * (g->room - g->prompt) : 1;
  double *u = cn_alloc_zero((size_t)n * sizeof *u);
  if (!u) return NULL;
  cn_random_state(&g->seed, &g->offset);
  for (int64_t i = 0; draws(g) && i < n; i++) {
    uint32_t r[4];
    cn_random_block(r, g->seed, 0, g->offset + (uint64_t)i);
    u[i] = (double)((uint64_t)r[0] << 21 ^ r[1] >> 11) * 0x1p-53;
  }
  cn_tensor *t = cn_from_data(u, CN_SHAPE(n), CN_F64);
  cn_free(u, (size_t)n * sizeof *u);
  return t && g->device != CN_CPU ? cn_to_device(t, g->device) : t;
}

/* What choose_token keeps of each row. */
static int make_rows(generation *g, cn_tensor *prompt)
{
  cni_writing *s = &g->step;
  cn_scope *scope = cn_scope_begin();
  cn_tensor *tokens = cn_zeros(CN_SHAPE(g->batch, g->room), .dtype = CN_I64, .device = g->device);
  if (tokens) cn_copy_(cn_slice(tokens, 1, 0, g->prompt), prompt);
  s->tokens = cn_keep(tokens);
  s->current = cn_keep(cn_zeros(CN_SHAPE(g->batch, 1), .dtype = CN_I64, .device = g->device));
  s->position = cn_keep(cn_full(CN_SHAPE(g->batch), (double)(g->prompt - 1), .dtype = CN_I64, .device = g->device));
  s->ended = cn_keep(cn_full(CN_SHAPE(g->batch), (double)g->room, .dtype = CN_I64, .device = g->device));
  s->uniforms = cn_keep(uniforms(g));
  cn_scope_end(scope);
  return cn_err();
}

/* Looking at a token beside the work on the next. */
static int make_lookout(generation *g)
{
  if (!g->looks) return CN_OK;
  size_t bytes = (size_t)g->batch * sizeof *g->column;
  g->column = cn_alloc(bytes);
  g->ended = cn_alloc(bytes);
  if (!g->column || !g->ended) return cn_err();
  for (int64_t b = 0; b < g->batch; b++) g->ended[b] = g->room;
  if (!g->by_step) return CN_OK;
  g->beside = cn_stream_new(g->device, 0);
  for (int i = 0; i < 2; i++) g->made[i] = cn_event_new(g->device, false);
  return cn_err();
}

static int open_generation(generation *g, cn_module *m, cn_tensor *prompt, const cn_generate_opts *o)
{
  const cni_lm_class *lm = cni_lm_of(m);
  cni_lm_shape shape = {0};
  *g = (generation){.o = o, .step = {.m = m}};
  int64_t more = cni_or(o->max_new_tokens, 32);
  if (lm) lm->shape(&shape, m);
  if (cni_check_tokens("generate", prompt, 0, 0)) return cn_err();
  int64_t most = shape.context ? shape.context : LONGEST;
  if (more < 0 || more > most - cn_size(prompt, 1))
    return cn_err_set(CN_ERR_VALUE, "generate: %lld tokens and %lld new ones are more than %s (%lld)",
                      (long long)cn_size(prompt, 1), (long long)more,
                      shape.context ? "the model can see" : "can be asked for", (long long)most);
  g->device = cn_device_of(prompt);
  g->batch = cn_size(prompt, 0);
  g->prompt = g->used = g->seen = cn_size(prompt, 1);
  g->room = g->used + more;
  if (read_choice(g) || make_rows(g, prompt)) return cn_err();
  if (lm && !o->no_cache) g->step.cache = cn_cache_new(m, g->batch, g->room);
  g->by_step = !cn_err() && cni_step_can(&g->step);
  return cn_err() ? cn_err() : make_lookout(g);
}

/* ---- one token ---- */

/* Tokens that the model has to see next, (B, n): what the cache does not have. */
static cn_tensor *unseen(const generation *g)
{
  int64_t from = cn_cache_size(g->step.cache);
  return from && g->used == from + 1 ? g->step.current : cn_slice(g->step.tokens, 1, from, g->used);
}

/* Scores of the next token of each row, (B, vocab), where the tokens are. */
static cn_tensor *next_scores(generation *g)
{
  cn_module *m = g->step.m;
  cn_tensor *tokens = unseen(g), *y;
  if (g->step.cache) y = cni_decode(m, tokens, g->step.cache, true);
  else y = cn_forward(m, tokens);
  if (!y) return NULL;
  if (cn_ndim(y) != 3 || cn_size(y, 0) != g->batch || !cn_numel(y)) {
    cn_err_set(CN_ERR_SHAPE, "generate: %s does not give scores (batch, length, vocab)", m->cls->name);
    return NULL;
  }
  cn_dtype type = cn_dtype_of(y);
  y = cn_select(y, 1, -1);
  if (type != CN_F32 && type != CN_F16 && type != CN_BF16) y = cn_cast(y, CN_F32);
  return y && cn_device_of(y) != g->device ? cn_to_device(y, g->device) : y;
}

static int make_token(generation *g)
{
  int status;
  if (g->by_step && g->used > g->prompt) status = cni_step_run(&g->step);
  else {
    cn_scope *s = cn_scope_begin();
    status = cni_step_choose(&g->step, next_scores(g));
    cn_scope_end(s);
  }
  if (!status && g->beside) status = cn_event_record(g->made[g->used % 2], NULL);
  g->used++;
  return status;
}

/* ---- looking ---- */

static int read_column(generation *g, int64_t at)
{
  size_t bytes = (size_t)g->batch * sizeof *g->column;
  cn_stream *used = cn_stream_keep(cn_stream_current(g->device));
  cn_scope *s = cn_scope_begin();
  if (g->beside && !cn_stream_wait(g->beside, g->made[at % 2])) cn_stream_use(g->device, g->beside);
  cn_to_data(g->column, bytes, cn_slice(g->step.tokens, 1, at, at + 1));
  cn_scope_end(s);
  if (g->beside) cn_stream_use(g->device, used);
  cn_stream_release(used);
  return cn_err();
}

/* The next token of each row. 1: go on, 0: all have ended, negative: an error. */
static int look(generation *g)
{
  bool asked_to_end = false;
  int64_t going = 0, at = g->seen++;
  if (read_column(g, at)) return cn_err();
  for (int64_t b = 0; b < g->batch; b++) {
    bool over = g->ended[b] < g->room;
    if (!over && g->o->each && !g->o->each(g->column[b], g->o->payload)) asked_to_end = true;
    if (!over && g->column[b] == g->stop) g->ended[b] = at;
    going += g->ended[b] == g->room;
  }
  return cn_err() ? cn_err() : going && !asked_to_end;
}

/* ---- all of it ---- */

/* What was made behind the end is cut. */
static int write_text(generation *g)
{
  int going = 1, late = g->by_step ? 1 : 0;
  while (going == 1 && g->used < g->room) {
    if (make_token(g)) return cn_err();
    if (g->looks && g->used - g->seen > late) going = look(g);
  }
  while (going == 1 && g->looks && g->seen < g->used) going = look(g);
  if (g->looks) g->used = g->seen;
  return going < 0 ? going : CN_OK;
}

/* This thread's random numbers go on behind those that choices took: one for each token up to a row's stop. */
static void count_draws(const generation *g)
{
  uint64_t n = 0;
  for (int64_t b = 0; b < g->batch; b++) {
    int64_t last = g->looks && g->ended[b] < g->used ? g->ended[b] : g->used - 1;
    n += (uint64_t)(last + 1 - g->prompt);
  }
  if (draws(g)) cn_random_set_state(g->seed, g->offset + n);
}

static cn_tensor *result(const generation *g)
{
  cn_tensor *all = g->step.tokens;
  if (g->used < g->room) return cn_contiguous(cn_slice(all, 1, 0, g->used));
  return cn_scope_give(cn_keep(all));
}

cn_tensor *cn_generate_with(cn_module *m, cn_tensor *tokens, const cn_generate_opts *opts)
{
  cn_generate_opts room;
  generation g;
  const cn_generate_opts *o = cn_opts_read(&room, sizeof room, opts, "generate");
  if (!o || cn_err()) return NULL;
  if (!m) {
    cn_err_set(CN_ERR_TYPE, "generate: the model is missing (NULL)");
    return NULL;
  }
  bool training = cn_module_training(m);
  if (training && cn_module_train(m, false)) return NULL; /* else dropout would change what a cache holds */
  int saved = cn_inference_begin();
  int status = open_generation(&g, m, tokens, o);
  if (!status) status = write_text(&g);
  cn_inference_end(saved);
  if (!status) count_draws(&g);
  cn_tensor *y = status ? NULL : result(&g);
  close_generation(&g);
  if (training) cn_module_train(m, true);
  return y;
}
