/* networks.h: what train.c and infer.c share: a small GPT, first values of parameters, labels.
 *
 * Place in the flow: included by both behind side.h. Invariant: parameters start with the numbers of bench_fill, the
 * i-th of a network with seed 100 + i, as in networks.py.
 */
#ifndef BENCH_NETWORKS_H
#define BENCH_NETWORKS_H

#include "side.h"

#include <math.h>

/* ---- a small GPT, pre-norm, with learned positions ---- */

enum { VOCAB = 512, DIM = 256, DEPTH = 4, HEADS = 4, SEQ = 128, HEAD = DIM / HEADS };
enum { NORM1, NORM2, QKV, PROJ, UP, DOWN };

static cn_tensor *keys[DEPTH], *values[DEPTH]; /* (1, heads, seq, head): what generation remembers */
static int64_t at = -1;                        /* tokens in them; -1: the whole sequence at once */

static cn_tensor *attend(int64_t layer, cn_tensor *q, cn_tensor *k, cn_tensor *v)
{
  if (at < 0) return cn_scaled_dot_product_attention(q, k, v, .is_causal = true);
  cn_copy_(cn_slice(keys[layer], 2, at, at + 1), k);
  cn_copy_(cn_slice(values[layer], 2, at, at + 1), v);
  return cn_scaled_dot_product_attention(q, cn_slice(keys[layer], 2, 0, at + 1), cn_slice(values[layer], 2, 0, at + 1));
}

static cn_tensor *block_apply(cn_module *m, cn_tensor *in) /* in: (B, T, C) */
{
  int64_t b = cn_size(in, 0), t = cn_size(in, 1), layer = *(const int64_t *)m->data;
  cn_tensor *qkv = cn_forward(cn_module_child(m, QKV), cn_forward(cn_module_child(m, NORM1), in));
  qkv = cn_permute(cn_reshape(qkv, CN_SHAPE(b, t, 3, HEADS, HEAD)), CN_SHAPE(2, 0, 3, 1, 4));
  cn_tensor *a = attend(layer, cn_select(qkv, 0, 0), cn_select(qkv, 0, 1), cn_select(qkv, 0, 2));
  a = cn_reshape(cn_transpose(a, 1, 2), CN_SHAPE(b, t, DIM));
  cn_tensor *h = cn_add(in, cn_forward(cn_module_child(m, PROJ), a));
  cn_tensor *f = cn_gelu(cn_forward(cn_module_child(m, UP), cn_forward(cn_module_child(m, NORM2), h)));
  return cn_add(h, cn_forward(cn_module_child(m, DOWN), f));
}

static const cn_module_class block_class = {CN_MODULE_CLASS, .name = "Layer", .data_size = sizeof(int64_t),
  .apply = block_apply};

static cn_module *block(int64_t layer)
{
  cn_module *m = cn_module_new(&block_class);
  *(int64_t *)m->data = layer;
  cn_module_add(m, "n1", cn_nn_layer_norm(CN_SHAPE(DIM)));
  cn_module_add(m, "n2", cn_nn_layer_norm(CN_SHAPE(DIM)));
  cn_module_add(m, "qkv", cn_nn_linear(DIM, 3 * DIM));
  cn_module_add(m, "proj", cn_nn_linear(DIM, DIM));
  cn_module_add(m, "up", cn_nn_linear(DIM, 4 * DIM));
  cn_module_add(m, "down", cn_nn_linear(4 * DIM, DIM));
  return m;
}

static cn_tensor *gpt_apply(cn_module *m, cn_tensor *ids) /* (B, T) -> (B T, vocab) */
{
  int64_t from = at < 0 ? 0 : at, t = cn_size(ids, 1);
  cn_tensor *where = cn_slice(cn_module_get(m, "pos.weight"), 0, from, from + t);
  cn_tensor *h = cn_add(cn_forward(cn_module_child(m, 0), ids), where);
  for (size_t i = 2; i < cn_module_nchildren(m); i++) h = cn_forward(cn_module_child(m, i), h);
  return cn_flatten(h, .end_dim = 1);
}

static const cn_module_class gpt_class = {CN_MODULE_CLASS, .name = "GPT", .apply = gpt_apply};

static cn_module *gpt(void)
{
  cn_module *m = cn_module_new(&gpt_class), *layers = cn_nn_sequential_of(NULL, 0);
  cn_module_add(m, "tok", cn_nn_embedding(VOCAB, DIM));
  cn_module_add(m, "pos", cn_nn_embedding(SEQ, DIM));
  for (int64_t i = 0; i < DEPTH; i++) cn_module_add(layers, NULL, block(i));
  cn_module_add(m, "layers", layers);
  cn_module_add(m, "norm", cn_nn_layer_norm(CN_SHAPE(DIM)));
  cn_module_add(m, "head", cn_nn_linear(DIM, VOCAB, .no_bias = true));
  return m;
}

/* ---- first values ---- */

/* Matrices spread by the square root of what meets in one result, scales around 1, the rest around 0. */
static void fill_parameters(cn_module *net)
{
  cn_named_list list;
  int saved = cn_no_grad_begin();
  cn_module_named(&list, net, CN_PARAMETERS);
  for (size_t i = 0; i < list.n; i++) {
    cn_tensor *p = list.v[i].tensor;
    int64_t fan = cn_ndim(p) > 1 ? cn_numel(p) / cn_size(p, 0) : 100;
    const char *dot = strrchr(list.v[i].name, '.');
    bool scale = cn_ndim(p) == 1 && dot && !strcmp(dot, ".weight");
    cn_tensor *v = side_fill(cn_shape(p), (size_t)cn_ndim(p), 100 + i, (float)(1 / sqrt((double)fan)));
    cn_copy_(p, scale ? cn_add(v, cn_num(1)) : v);
  }
  cn_no_grad_end(saved);
  cn_named_free(&list);
}

static cn_tensor *labels(int64_t n, int64_t classes)
{
  cn_tensor *t = cn_empty(CN_SHAPE(n), .dtype = CN_I64);
  int64_t *v = cn_data(t);
  for (int64_t i = 0; v && i < n; i++) v[i] = bench_label(i, classes);
  return t;
}

#endif
