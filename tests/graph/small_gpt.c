/* small_gpt.c: see small_gpt.h. */
#include "small_gpt.h"

static cn_tensor *attention(const gpt *m, cn_tensor *x)
{
  int64_t b = cn_size(x, 0), t = cn_size(x, 1); /* x: (B, T, C) */
  cn_tensor *qkv = cn_linear(x, m->qkv, NULL), *part[3];
  if (cn_split(part, 3, qkv, GPT_WIDTH, .dim = 2) != 3) return NULL;
  for (int i = 0; i < 3; i++)
    part[i] = cn_transpose(cn_view(part[i], CN_SHAPE(b, t, GPT_HEADS, GPT_WIDTH / GPT_HEADS)), 1, 2);
  cn_tensor *y = cn_scaled_dot_product_attention(part[0], part[1], part[2], NULL, .is_causal = true);
  y = cn_view(cn_contiguous(cn_transpose(y, 1, 2)), CN_SHAPE(b, t, GPT_WIDTH));
  return cn_linear(y, m->out, NULL);
}

int gpt_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  const gpt *m = payload; /* tokens: (B, T) */
  int64_t b = cn_size(in[0], 0), t = cn_size(in[0], 1);
  cn_tensor *x = cn_add(cn_embedding(in[0], m->words, CN_NONE), cn_slice(m->places, 0, 0, t));
  for (int i = 0; i < 2; i++) {
    x = cn_add(x, attention(m, cn_layer_norm(x, CN_SHAPE(GPT_WIDTH), m->norm, NULL)));
    x = cn_add(x, cn_linear(cn_gelu(cn_linear(cn_layer_norm(x, CN_SHAPE(GPT_WIDTH), m->norm, NULL), m->up, NULL)),
                            m->down, NULL));
  }
  out[0] = cn_linear(x, m->words, NULL);                                  /* (B, T, words) */
  out[1] = cn_reshape(cn_transpose(x, 1, 2), CN_SHAPE(b, GPT_WIDTH * t)); /* a copy, unless T is 1 */
  out[2] = cn_reshape(cn_transpose(x, 0, 1), CN_SHAPE(t * b, GPT_WIDTH)); /* a copy, unless B or T is 1 */
  out[3] = cn_repeat(cn_select(x, 1, 0), CN_SHAPE(b, 2));                 /* repeats nothing where B is 1 */
  return cn_err();
}

gpt gpt_make(void)
{
  const int64_t c = GPT_WIDTH;
  cn_seed(5);
  gpt m = {.words = cn_randn(CN_SHAPE(GPT_WORDS, c)), .places = cn_randn(CN_SHAPE(GPT_MOST, c)),
           .norm = cn_randn(CN_SHAPE(c)), .qkv = cn_randn(CN_SHAPE(3 * c, c)), .out = cn_randn(CN_SHAPE(c, c)),
           .up = cn_randn(CN_SHAPE(4 * c, c)), .down = cn_randn(CN_SHAPE(c, 4 * c))};
  return m;
}
