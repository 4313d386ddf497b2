/* zoo.h: well-known networks by name, with the parameter names of torchvision and transformers, so that their weights
 * load unchanged.
 *
 *     cn_module *net = cn_zoo("resnet18", .pretrained = "resnet18.safetensors");
 */
#ifndef CAIRN_ZOO_H
#define CAIRN_ZOO_H

#include "data.h"
#include "nn.h"

CN_BEGIN_DECLS

typedef struct cn_zoo_opts {
  size_t size;
  const struct cn_guard *guard;
  int64_t classes;        /* of classifiers; the network's own number (1000) */
  int64_t channels;       /* of input images; 3 (LeNet: 1) */
  int64_t image;          /* side of input images, where the network depends on it */
  int64_t vocab;          /* of language models; the network's own */
  /* Weights: a file that cn_load reads, or a folder as transformers writes it (model.safetensors, whole or in parts);
   * names may have "transformer.", "model.", "bert." in front or lack it. "imagenet" and addresses are downloaded. */
  const char *pretrained;
  /* Settings instead of the name's own, a dictionary. Of networks of transformers: what a config.json holds; with
   * pretrained weights one beside them counts when this is NULL. Of torchvision's: the keywords that its functions take
   * (dropout, stochastic_depth_prob, aux_logits, ...); cn_zoo_takes knows them, and others are an error. */
  const cn_tree *config;
  cn_device device;
  cn_dtype dtype;
} cn_zoo_opts;
/* Owned; NULL with the error set, which names what there is for an unknown name. */
CN_API CN_MUST_USE cn_module *cn_zoo_with(const char *name, const cn_zoo_opts *opts);
CN_API CN_MUST_USE bool cn_zoo_at(size_t i, const char **name, const char **doc); /* false past the last */
/* Whether a network takes one of "classes", "channels", "image", "vocab" and "config", or a setting of torchvision's by
 * its name ("dropout"); false for an unknown name. */
CN_API bool cn_zoo_takes(const char *name, const char *option);

/* ---- language models: GPT-2, LLaMA-like decoders, recurrent ones ---- */
typedef struct cn_generate_opts {
  size_t size;
  const struct cn_guard *guard;
  int64_t max_new_tokens; /* 32 */
  double temperature;     /* 1; CN_ZERO: always the likeliest token */
  int64_t top_k;          /* only among the k likeliest; 0: all */
  double top_p;           /* only among those that make up this probability; 0: all */
  double repetition_penalty; /* 1 */
  int64_t stop;           /* a token that ends a sequence; 0: none; CN_ZERO: token 0 */
  bool (*each)(int64_t token, void *payload); /* called with each new token, row by row; false ends it */
  void *payload;
  bool no_cache;          /* compute the whole sequence for each token: slow, the same tokens */
} cn_generate_opts;
/* Tokens (B, T) int64 and what follows them, with a cache of keys and values; borrowed from the scope. Rows that have
 * come to the stop token are filled up with it. Takes any module that gives scores (B, T, vocab) for tokens (B, T);
 * those that are not of the zoo run without cache. Random choices are drawn from this thread's random numbers
 * (cn_seed). */
CN_API cn_tensor *cn_generate_with(cn_module *model, cn_tensor *tokens, const cn_generate_opts *opts);
/* The cache itself, for loops by hand: room for `length` tokens of a batch. Owned. */
typedef struct cn_cache cn_cache;
CN_API CN_MUST_USE cn_cache *cn_cache_new(cn_module *model, int64_t batch, int64_t length);
CN_API void cn_cache_free(cn_cache *cache);
CN_API int64_t cn_cache_size(const cn_cache *cache);       /* tokens seen */
CN_API int cn_cache_truncate(cn_cache *cache, int64_t n); /* forgets those after the first n; recurrent models: all */
/* Scores (B, T, vocab) of what follows each of these tokens, which come behind those in the cache. Nothing is recorded
 * for gradients, and dropout is left out. */
CN_API cn_tensor *cn_decode_step(cn_module *model, cn_tensor *tokens, cn_cache *cache);

/* ---- sentence embeddings: BERT, MiniLM ---- */
/* Embeddings (n, dim) of texts, mean-pooled and of length 1; borrowed from the scope. Of long texts the beginning
 * counts: as many tokens as the model was made for. */
CN_API cn_tensor *cn_embed(cn_module *model, cn_tokenizer *tokenizer, const char *const *texts, size_t n);
/* The same of tokens (B, T) int64; mask (B, T): 1 for tokens, 0 for padding. Takes any module that gives (B, T, dim)
 * for these two. */
CN_API cn_tensor *cn_embed_tokens(cn_module *model, cn_tensor *tokens, cn_tensor *mask);

CN_END_DECLS

#ifndef __cplusplus
#define cn_zoo(...) cn_zoo_with(CN_HEAD(__VA_ARGS__, ), CN_OPTS(cn_zoo_opts, CN_TAIL(__VA_ARGS__, )))
#define cn_generate(model, ...) \
  cn_generate_with(model, CN_HEAD(__VA_ARGS__, ), CN_OPTS(cn_generate_opts, CN_TAIL(__VA_ARGS__, )))
#endif

#endif
