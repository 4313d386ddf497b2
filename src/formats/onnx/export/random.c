/* random.c: random numbers, which are the runtime's own: their distribution is cairn's, their values are not. See
 * row.h. */
#include <string.h>

#include "row.h"

/* The sizes of the result: of operand 0 where there is no argument `size`. */
static void sizes_of(const cni_oxcall *c, cni_oxval *sizes)
{
  int arg = cni_oxarg_find(c, "size");
  for (int k = 0; k < c->out[0].ndim; k++) {
    if (!(c->out[0].open >> k & 1)) sizes[k] = cni_ox_whole(c->out[0].shape[k]);
    else sizes[k] = arg >= 0 ? cni_oxarg_size(c, arg, k) : cni_ox_size(c->x, c->in[0], k);
  }
}

/* Uniform or normal numbers of these sizes. */
static cni_oxval drawn(cni_ox *x, const char *op, int dtype, int ndim, const cni_oxval *sizes)
{
  cni_oxval like = cni_ox_expand(x, cni_ox_const(x, cni_ox_num(0), dtype), ndim, sizes);
  return CNI_OX_EMIT(x, op, like);
}

static int drawn_type(int dtype) { return dtype == CN_F64 ? CN_F64 : CN_F32; }

/* rand, randn(size), rand_like, randn_like(input) */
static bool numbers(cni_oxcall *c)
{
  cni_oxval sizes[CN_MAX_DIMS];
  sizes_of(c, sizes);
  cni_ox_give(c, 0, drawn(c->x, c->text, drawn_type(c->out[0].dtype), c->out[0].ndim, sizes));
  return true;
}

/* randint(low, high, size) */
static bool whole_numbers(cni_oxcall *c)
{
  cni_oxval sizes[CN_MAX_DIMS];
  sizes_of(c, sizes);
  cni_oxval u = drawn(c->x, "RandomUniformLike", CN_F64, c->out[0].ndim, sizes);
  cni_oxval low = cni_oxarg_value(c, 0, 0, CN_F64), high = cni_oxarg_value(c, 1, 0, CN_F64);
  cni_ox_give(c, 0, CNI_OX_EXPR(c->x, "Min(Floor(a * (c - b)) + b, c - 1)", CN_F64, u, low, high));
  return true;
}

/* randperm(n): the order of as many random numbers */
static bool permutation(cni_oxcall *c)
{
  cni_ox *x = c->x;
  cni_oxval n = cni_oxarg_size(c, 0, 0), in[2], out[2];
  int64_t one = 1;
  in[0] = drawn(x, "RandomUniformLike", CN_F32, 1, &n);
  in[1] = n.number ? cni_ox_data(x, &n.i, CN_I64, 1, &one) : n;
  out[0] = out[1] = in[0];
  out[1].dtype = CN_I64;
  cni_ox_node(x, "TopK", 2, in, 2, out);
  cni_ox_give(c, 0, out[1]);
  return true;
}

/* bernoulli(input): ones with these probabilities */
static bool bernoulli(cni_oxcall *c)
{
  if (c->x->opset < 15) return false;
  cni_ox_give(c, 0, CNI_OX_EMIT(c->x, "Bernoulli", cni_ox_cast(c->x, c->in[0], drawn_type(c->in[0].dtype))));
  return true;
}

/* normal(mean, std): of the sizes that both broadcast to */
static bool normal(cni_oxcall *c)
{
  cni_ox *x = c->x;
  int type = drawn_type(c->out[0].dtype);
  cni_oxval mean = cni_ox_cast(x, c->in[0], type), std = cni_ox_cast(x, c->in[1], type);
  cni_oxval like = cni_ox_binary(x, "Add", mean, std), draw = CNI_OX_EMIT(x, "RandomNormalLike", like);
  cni_ox_give(c, 0, CNI_OX_EXPR(x, "a * b + c", type, draw, std, mean));
  return true;
}

/* native_dropout(input, p): what is kept, scaled, and where */
static bool dropout(cni_oxcall *c)
{
  cni_ox *x = c->x;
  int type = cni_ox_wide(c->out[0].dtype);
  cni_oxval in[3] = {cni_ox_cast(x, c->in[0], type), cni_oxarg_value(c, 1, 0, CN_F32),
                     cni_ox_const(x, cni_ox_whole(1), CN_BOOL)};
  cni_oxval out[2] = {in[0], in[0]};
  if (cni_oxarg_float(c, 1) >= 1) return false;
  out[1].dtype = CN_BOOL;
  cni_ox_node(x, "Dropout", 3, in, 2, out);
  for (int k = 0; k < 2; k++) cni_ox_give(c, k, out[k]);
  return true;
}

/* multinomial(input, num_samples, replacement): without replacement the largest of log p - log(-log u) */
static bool multinomial(cni_oxcall *c)
{
  cni_ox *x = c->x;
  cni_oxval v = cni_ox_cast(x, c->in[0], CN_F32), n = cni_oxarg_size(c, 1, 0), in[2], out[2];
  int64_t one = 1;
  cni_oxval logits = CNI_OX_EMIT(x, "Log", v);
  if (cni_oxarg_int(c, 2)) {
    if (v.ndim == 1) logits = cni_ox_unsqueeze(x, logits, 0);
    cni_ox_int(x, "sample_size", cni_oxarg_int(c, 1));
    cni_ox_int(x, "dtype", cni_onnx_type_of(CN_I64));
    cni_oxval y = CNI_OX_EMIT(x, "Multinomial", logits);
    y.ndim = 2;
    return cni_ox_give(c, 0, v.ndim == 1 ? cni_ox_squeeze(x, y, 0) : y), true;
  }
  in[0] = CNI_OX_EXPR(x, "a - Log(-Log(Max(b, 1e-38)))", CN_F32, logits, CNI_OX_EMIT(x, "RandomUniformLike", v));
  in[1] = n.number ? cni_ox_data(x, &n.i, CN_I64, 1, &one) : n;
  out[0] = out[1] = v;
  out[1].dtype = CN_I64;
  cni_ox_node(x, "TopK", 2, in, 2, out);
  cni_ox_give(c, 0, out[1]);
  return true;
}

const cni_oxrow cni_ox_random_rows[] = {
    BUILD_AS("rand", 13, numbers, "RandomUniformLike"),
    BUILD_AS("rand_like", 13, numbers, "RandomUniformLike"),
    BUILD_AS("randn", 13, numbers, "RandomNormalLike"),
    BUILD_AS("randn_like", 13, numbers, "RandomNormalLike"),
    BUILD("randint", 13, whole_numbers),
    BUILD("randperm", 13, permutation),
    BUILD("bernoulli", 15, bernoulli),
    BUILD("normal", 13, normal),
    BUILD("native_dropout", 13, dropout),
    BUILD("multinomial", 13, multinomial),
    {NULL, NULL, NULL, 0},
};
