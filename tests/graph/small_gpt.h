/* small_gpt.h: a network of two transformer blocks for tests of graphs: attention, norms, views that are copies at some
 * sizes and none at others. */
#ifndef SMALL_GPT_H
#define SMALL_GPT_H

#include <cairn/cairn.h>

enum { GPT_WORDS = 11, GPT_WIDTH = 8, GPT_HEADS = 2, GPT_MOST = 16, GPT_OUTPUTS = 4 };

typedef struct gpt {
  cn_tensor *words, *places, *norm, *qkv, *out, *up, *down;
} gpt;

gpt gpt_make(void); /* the same numbers each time */
/* tokens: (B, T) -> (B, T, words), and views of the last values. payload: a gpt */
int gpt_fn(cn_tensor **out, cn_tensor *const *in, void *payload);

#endif
