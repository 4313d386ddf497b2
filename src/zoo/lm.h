/* lm.h: language models: what generation needs of them, and attention with a cache of keys and values.
 *
 * Place in the flow: classes of models (gpt2.c, llama.c, recurrent.c) below, cache.c and generate.c above. Invariant: a
 * step with a cache computes what the whole sequence without one would have given for the new tokens. */
#ifndef CNI_ZOO_LM_H
#define CNI_ZOO_LM_H

#include "zoo.h"

/* What a cache must hold. */
typedef struct cni_lm_shape {
  int64_t layers, heads, width; /* keys and values of a layer: (batch, heads, length, width) */
  int64_t context;              /* the most tokens of a sequence; 0: any number */
  bool recurrent;               /* two states take the place of keys and values, which grow with no length */
} cni_lm_shape;

/* The class of a language model: it takes tokens (B, T) int64 and gives scores (B, T, vocab). */
typedef struct cni_lm_class {
  cn_module_class cls; /* first, so that m->cls leads here */
  void (*shape)(cni_lm_shape *shape, const cn_module *m);
  /* What stands before the last layer, (B, T, C). With a cache the tokens follow those it has seen; dropout is left
   * out. NULL: without. */
  cn_tensor *(*hidden)(cn_module *m, cn_tensor *tokens, cn_cache *cache);
  cn_tensor *(*head)(cn_module *m, cn_tensor *hidden); /* the last layer */
} cni_lm_class;

/* NULL: not a language model of the zoo. */
const cni_lm_class *cni_lm_of(const cn_module *m);
extern const cni_lm_class cni_gpt2_class, cni_llama_class, cni_recurrent_class;

struct cn_cache {
  const cn_module_class *cls; /* of the model it is for */
  cni_lm_shape shape;
  int64_t batch, length, used;
  struct cni_kv {
    cn_tensor *k, *v; /* owned */
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

/* ---- choosing (sample.c) ---- */
typedef struct cni_sampler {
  double temperature, top_p, penalty;
  int64_t top_k, vocab;
  struct cni_candidate {
    double weight;
    int64_t token;
  } *room; /* vocab of them */
} cni_sampler;
int cni_sampler_open(cni_sampler *s, const cn_generate_opts *o, int64_t vocab);
void cni_sampler_close(cni_sampler *s);
/* The next token by its scores, which are changed; seen: tokens so far, for the penalty. */
int64_t cni_sampler_choose(cni_sampler *s, float *scores, const int64_t *seen, int64_t nseen);

#endif
