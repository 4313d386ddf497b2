/* lm.h: language models: what generation needs of them, and attention with a cache of keys and values.
 *
 * Place in the flow: classes of models (gpt2.c, llama.c, recurrent.c) below, cache.c, step.c, generate.c above.
 * Invariant: a step with a cache computes what the whole sequence without one would have given for the new tokens. */
#ifndef CNI_ZOO_LM_H
#define CNI_ZOO_LM_H

#include <cairn/device.h>
#include <cairn/ext/parts.h>
#include <cairn/recording.h>

#include "zoo.h"

/* What a cache must hold. */
typedef struct cni_lm_shape {
  int64_t layers, heads, width; /* keys and values of a layer: (batch, heads, length, width) */
  int64_t context;              /* the most tokens of a sequence; 0: any number */
  bool recurrent;               /* two states take the place of keys and values, which grow with no length */
} cni_lm_shape;

typedef struct cni_writing cni_writing;

/* The class of a language model: it takes tokens (B, T) int64 and gives scores (B, T, vocab). */
typedef struct cni_lm_class {
  cn_module_class cls; /* first, so that m->cls leads here */
  void (*shape)(cni_lm_shape *shape, const cn_module *m);
  /* What stands before the last layer, (B, T, C). With a cache the tokens follow those it has seen; dropout is left
   * out. NULL: without. */
  cn_tensor *(*hidden)(cn_module *m, cn_tensor *tokens, cn_cache *cache);
  cn_tensor *(*head)(cn_module *m, cn_tensor *hidden); /* the last layer */
  /* Scores (B, 1, vocab) behind the current token, with all that differs from token to token in tensors. NULL: it
   * cannot. */
  cn_tensor *(*step)(cn_module *m, cni_writing *s);
} cni_lm_class;

/* NULL: not a language model of the zoo. */
const cni_lm_class *cni_lm_of(const cn_module *m);
extern const cn_module_class cni_conv1d_class; /* a linear layer whose weight is (in, out) */
extern const cni_lm_class cni_gpt2_class, cni_llama_class, cni_recurrent_class;

struct cn_cache {
  const cn_module_class *cls; /* of the model it is for */
  cni_lm_shape shape;
  int64_t batch, length, used;
  cn_tensor *keys, *values; /* owned: (layers, batch, heads, length, width); NULL: of a recurrent model */
  struct cni_kv {
    cn_tensor *k, *v; /* owned: a layer of them, or its states */
  } layer[];
};

/* Causal attention: q: (B, H, T, d), k and v: (B, Hk, T, d), with Hk a divisor of H. With a cache, keys and values are
 * written behind those of layer `layer` (the caller advances `used`), and all of them are attended to. Gives
 * (B, T, H d). */
cn_tensor *cni_attend(cn_tensor *q, cn_tensor *k, cn_tensor *v, cn_cache *cache, size_t layer, double scale,
                      double dropout);
/* How many tokens came before. */
static inline int64_t cni_cache_at(const cn_cache *cache) { return cache ? cache->used : 0; }

/* Sets the error unless tokens are (B, T) int64 and fit the context behind `at`. */
int cni_check_tokens(const char *who, const cn_tensor *tokens, int64_t at, int64_t context);

/* Scores of the tokens, or of the last one alone, (B, 1, vocab), without recording. */
cn_tensor *cni_decode(cn_module *m, cn_tensor *tokens, cn_cache *cache, bool last_only);

/* ---- one token more, by the device alone (step.c) ---- */

/* A text that is being written. Of each row: its tokens, the last of them, where that is, where its stop token is. */
struct cni_writing {
  cn_module *m;
  cn_cache *cache; /* NULL: the whole sequence is computed for each token */
  cn_choose_token_opts how;
  cn_tensor *tokens, *current, *position, *ended, *uniforms; /* owned; as choose_token has them */
  cn_tensor *cosines, *sines; /* owned: of all positions there is room for; NULL: the model turns nothing, or not yet */
  cn_tensor **packed;         /* owned: weights as one row needs them, in the order of their use */
  size_t npacked, room, next;
  cn_recording *recording; /* owned; NULL: none yet, or the model cannot be recorded */
  int64_t runs;
};
/* Can the model do it, where it is and as it is now? */
bool cni_step_can(const cni_writing *s);
/* Each row's token behind `current`; keys and values go into the cache, whose count of tokens stays. The first run
 * calls ops, the second records them. 0 or an error; nothing is waited for. */
int cni_step_run(cni_writing *s);
/* The choice alone, by scores (B, vocab). */
int cni_step_choose(cni_writing *s, cn_tensor *scores);
void cni_step_close(cni_writing *s);

/* Parts that models make a step of; x: (B, 1, C). A linear layer behind a norm and before an activation (either may be
 * NULL); to its result `other` is added, or it is multiplied by that. */
typedef struct cni_step_layer {
  cn_module *norm, *linear, *activation;
  cn_tensor *other; /* NULL: none */
  bool times;
} cni_step_layer;
cn_tensor *cni_step_linear(cni_writing *s, cn_tensor *x, const cni_step_layer *layer);
/* A decoder's layer: attention behind a norm, added to x, then linear layers behind another norm, added to that. */
typedef struct cni_decoder {
  cn_module *norm, *qkv; /* qkv: queries, keys and values by one layer; NULL: by these: */
  cn_module *q, *k, *v, *out;
  cn_module *feed_norm, *gate, *up, *activation, *down; /* gate NULL: none; else the activation is its */
  int64_t heads, key_heads, width;                      /* width: of a head */
  double scale;
} cni_decoder;
/* All layers of the cache; describe says what one of `blocks` is. */
cn_tensor *cni_step_decoders(cni_writing *s, cn_tensor *x, cn_module *blocks,
                             void (*describe)(cni_decoder *, cn_module *));

#endif
