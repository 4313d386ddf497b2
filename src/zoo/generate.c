/* generate.c: text, token by token. See zoo.h.
 *
 * Place in the flow: above cache.c and sample.c. Invariant: with the same scores and seed the tokens are the same with
 * and without a cache, and a sequence of a batch never changes another one when the choice is the likeliest. */
#include <string.h>

#include "lm.h"

enum { LONGEST = 1 << 30 }; /* tokens of a sequence that no model limits: a batch of them is still a number */

typedef struct generation {
  cn_module *m;
  cn_cache *cache; /* NULL: the whole sequence is computed for each token */
  const cn_generate_opts *o;
  cni_sampler sampler;
  int64_t batch, used, room, stop; /* stop -1: none */
  int64_t *tokens;                 /* (batch, room): `used` of each row are there */
  bool *ended;                     /* (batch) */
  float *scores;                   /* (vocab) */
  int64_t vocab;
  cn_device device; /* of the tokens given */
} generation;

/* ---- room ---- */

static void close_generation(generation *g)
{
  cn_cache_free(g->cache);
  cni_sampler_close(&g->sampler);
  cn_free(g->tokens, (size_t)(g->batch * g->room) * sizeof *g->tokens);
  cn_free(g->ended, (size_t)g->batch * sizeof *g->ended);
  cn_free(g->scores, (size_t)g->vocab * sizeof *g->scores);
}

/* Copies the prompt's rows to the front of those with room for more. */
static int take_prompt(generation *g, cn_tensor *prompt)
{
  size_t n = (size_t)(g->batch * g->used);
  int64_t *rows = cn_alloc(n * sizeof *rows);
  if (!rows) return cn_err();
  int status = cn_to_data(rows, n * sizeof *rows, prompt);
  for (int64_t b = 0; !status && b < g->batch; b++)
    memcpy(g->tokens + b * g->room, rows + b * g->used, (size_t)g->used * sizeof *rows);
  cn_free(rows, n * sizeof *rows);
  return status;
}

static int open_generation(generation *g, cn_module *m, cn_tensor *prompt, const cn_generate_opts *o)
{
  const cni_lm_class *lm = cni_lm_of(m);
  cni_lm_shape shape = {0};
  *g = (generation){.m = m, .o = o};
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
  g->used = cn_size(prompt, 1);
  g->room = g->used + more;
  g->stop = o->stop == 0 || o->stop == CN_NONE ? -1 : o->stop == CN_ZERO ? 0 : o->stop;
  g->tokens = cn_alloc_zero((size_t)(g->batch * g->room) * sizeof *g->tokens);
  g->ended = cn_alloc_zero((size_t)g->batch * sizeof *g->ended);
  if (!g->tokens || !g->ended || take_prompt(g, prompt)) return cn_err();
  if (lm && !o->no_cache) g->cache = cn_cache_new(m, g->batch, g->room);
  return cn_err();
}

/* ---- one token ---- */

/* Tokens that the model has to see next, (B, n): what the cache does not have, in the rows' own memory. */
static cn_tensor *unseen(const generation *g)
{
  int64_t from = cn_cache_size(g->cache);
  const int64_t shape[] = {g->batch, g->used - from}, strides[] = {g->room, 1};
  cn_tensor *t = cn_from_borrowed(g->tokens + from, shape, strides, 2, CN_I64, NULL, NULL);
  return t && g->device != cn_device_of(t) ? cn_to_device(t, g->device) : t;
}

/* Scores of the next token of each row, (B, vocab) float32 on the host. */
static cn_tensor *next_scores(generation *g)
{
  cn_tensor *tokens = unseen(g), *y;
  if (g->cache) y = cni_decode(g->m, tokens, g->cache, true);
  else y = cn_forward(g->m, tokens);
  if (!y) return NULL;
  if (cn_ndim(y) != 3 || cn_size(y, 0) != g->batch || !cn_numel(y)) {
    cn_err_set(CN_ERR_SHAPE, "generate: %s does not give scores (batch, length, vocab)", g->m->cls->name);
    return NULL;
  }
  y = cn_select(y, 1, -1);
  if (cn_dtype_of(y) != CN_F32) y = cn_cast(y, CN_F32);
  return cn_device_of(y) != CN_CPU ? cn_to_device(y, CN_CPU) : y;
}

static int64_t choose(generation *g, cn_tensor *scores, int64_t row)
{
  const int64_t *seen = g->tokens + row * g->room;
  if (!g->scores) {
    g->vocab = cn_size(scores, 1);
    if (cni_sampler_open(&g->sampler, g->o, g->vocab)) return cn_err();
    if (!(g->scores = cn_alloc((size_t)g->vocab * sizeof *g->scores))) return cn_err();
  }
  int status = cn_to_data(g->scores, (size_t)g->vocab * sizeof *g->scores, cn_select(scores, 0, row));
  return status ? status : cni_sampler_choose(&g->sampler, g->scores, seen, g->used);
}

/* Adds a token to each row. 1: go on, 0: all have ended, negative: an error. */
static int advance(generation *g)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *scores = next_scores(g);
  bool asked_to_end = false;
  int64_t going = 0;
  for (int64_t b = 0; !cn_err() && b < g->batch; b++) {
    int64_t token = g->ended[b] ? g->stop : choose(g, scores, b);
    if (cn_err()) break;
    g->tokens[b * g->room + g->used] = token;
    if (g->o->each && !g->ended[b] && !g->o->each(token, g->o->payload)) asked_to_end = true;
    if (token == g->stop) g->ended[b] = true;
    going += !g->ended[b];
  }
  cn_scope_end(s);
  if (cn_err()) return cn_err();
  g->used++;
  return going && !asked_to_end;
}

/* ---- all of it ---- */

static cn_tensor *result(const generation *g)
{
  cn_tensor *all = cn_from_data(g->tokens, CN_SHAPE(g->batch, g->room), CN_I64);
  if (g->used < g->room) all = cn_contiguous(cn_slice(all, 1, 0, g->used));
  return all && g->device != cn_device_of(all) ? cn_to_device(all, g->device) : all;
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
  int saved = cn_inference_begin(), going = 1;
  if (open_generation(&g, m, tokens, o)) going = cn_err();
  while (going == 1 && g.used < g.room) going = advance(&g);
  cn_inference_end(saved);
  cn_tensor *y = going < 0 ? NULL : result(&g);
  close_generation(&g);
  if (training) cn_module_train(m, true);
  return y;
}
