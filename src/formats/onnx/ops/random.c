/* random.c: random numbers, with cairn's own generator: a model's seed starts a stream of its own. See call.h. */
#include <math.h>

#include "formats/onnx/call.h"

/* Draws with the model's seed where there is one, and leaves the thread's numbers as they were then. */
static cn_tensor *drawn(cni_onnx_call *c, cn_tensor *like, cn_tensor *(*fill)(cni_onnx_call *c, cn_tensor *like))
{
  uint64_t seed, offset;
  const cni_onnx_attr *own = cni_onnx_attr_of(c, "seed"); /* a float, or a whole number, as the operator has it */
  if (!like || cn_err()) return NULL;
  if (own && cn_tracing()) {
    cni_onnx_fail(c, CN_ERR_CAPTURE, "capture: a seed of its own");
    return NULL;
  }
  cn_random_state(&seed, &offset);
  double number = own && own->kind != CNI_ATTR_INT && fabs(own->f) < 9e18 ? own->f : 0;
  if (own) cn_random_set_state((uint64_t)(own->kind == CNI_ATTR_INT ? own->i : (int64_t)number), 0);
  cn_tensor *t = fill(c, like);
  if (own) cn_random_set_state(seed, offset);
  return t;
}

static int draw(cni_onnx_call *c, cn_tensor *like, cn_tensor *(*fill)(cni_onnx_call *c, cn_tensor *like))
{
  return cni_onnx_out(c, 0, drawn(c, like, fill));
}

static cn_tensor *normal(cni_onnx_call *c, cn_tensor *like)
{
  cn_tensor *t = cn_randn_like(like);
  return cn_add(cn_mul(t, cn_num(cni_onnx_float(c, "scale", 1))), cn_num(cni_onnx_float(c, "mean", 0)));
}

static cn_tensor *uniform(cni_onnx_call *c, cn_tensor *like)
{
  double low = cni_onnx_float(c, "low", 0), high = cni_onnx_float(c, "high", 1);
  return cn_add(cn_mul(cn_rand_like(like), cn_num(high - low)), cn_num(low));
}

/* In the shape of an attribute, or of the input; dtype: the attribute's, or the input's where that is a float. */
static cn_tensor *like_shape(cni_onnx_call *c)
{
  cni_onnx_ints shape = cni_onnx_ints_of(c, "shape");
  cn_dtype dtype = cni_onnx_dtype_of(c, "dtype", CN_F32);
  return cn_empty(shape.v, shape.n, .dtype = dtype, .device = cni_onnx_device(c));
}
static cn_tensor *like_input(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0);
  cn_dtype own = cn_dtype_is_float(cn_dtype_of(x)) ? cn_dtype_of(x) : CN_F32;
  cn_dtype dtype = cni_onnx_dtype_of(c, "dtype", own);
  return x ? cn_empty_like(x, .dtype = dtype) : NULL;
}

static int random_normal(cni_onnx_call *c) { return draw(c, like_shape(c), normal); }
static int random_uniform(cni_onnx_call *c) { return draw(c, like_shape(c), uniform); }
static int random_normal_like(cni_onnx_call *c) { return draw(c, like_input(c), normal); }
static int random_uniform_like(cni_onnx_call *c) { return draw(c, like_input(c), uniform); }

/* ---- drawn by what the input says ---- */

/* 1 with the input's probability. */
static cn_tensor *coins(cni_onnx_call *c, cn_tensor *like)
{
  cn_dtype dtype = cni_onnx_dtype_of(c, "dtype", cn_dtype_of(like));
  cn_tensor *t = cn_bernoulli(like);
  return t ? cn_cast(t, dtype) : NULL;
}

/* Classes, of logarithms of their probabilities that need not add up to 1. */
static cn_tensor *classes(cni_onnx_call *c, cn_tensor *like)
{
  cn_value args[] = {cn_v_tensor(cn_softmax(like, -1)), cn_v_int(cni_onnx_int(c, "sample_size", 1)), cn_v_bool(true)};
  cn_dtype dtype = cni_onnx_dtype_of(c, "dtype", CN_I32);
  cn_tensor *t = cni_onnx_op1("multinomial", args, 3);
  return t ? cn_cast(t, dtype) : NULL;
}

static int bernoulli(cni_onnx_call *c) { return draw(c, cni_onnx_in(c, 0), coins); }
static int multinomial(cni_onnx_call *c) { return draw(c, cni_onnx_in(c, 0), classes); }

/* ---- dropout ---- */

static cn_tensor *uniform_01(cni_onnx_call *c, cn_tensor *like)
{
  (void)c;
  return cn_rand_like(like, .dtype = CN_F32);
}

/* Nothing is dropped: the input, and a mask of ones. */
static int keep_all(cni_onnx_call *c, cn_tensor *x, cn_dtype mask)
{
  if (!x || cni_onnx_out(c, 0, x)) return cn_err();
  return cni_onnx_wants(c, 1) ? cni_onnx_out(c, 1, cn_ones_like(x, .dtype = mask)) : CN_OK;
}

/* Elements are left with probability 1 - ratio (a tensor of one number), and divided by that. */
static int drop(cni_onnx_call *c, cn_tensor *x, cn_tensor *ratio, cn_dtype mask)
{
  cn_tensor *left = ratio ? cn_ge(drawn(c, x, uniform_01), ratio) : NULL, *by = cn_rsub(ratio, cn_int(1));
  if (!left || !by) return cn_err();
  cn_tensor *y = cn_where(left, cn_div(x, cn_cast(by, cn_dtype_of(x))), cn_int(0));
  if (cni_onnx_out(c, 0, y)) return cn_err();
  return cni_onnx_wants(c, 1) ? cni_onnx_out(c, 1, mask == CN_BOOL ? left : cn_cast(left, mask)) : CN_OK;
}

/* Before opset 7 it drops unless is_test says otherwise, then never, from 12 on where training_mode says so. */
static int dropout(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0);
  cn_dtype mask = c->opset < 10 && x ? cn_dtype_of(x) : CN_BOOL;
  if (c->opset >= 12) {
    bool training = cni_onnx_int_in(c, 2, 0) != 0;
    cn_tensor *given = cni_onnx_maybe(c, 1);
    if (cn_err() || !training) return keep_all(c, x, mask);
    if (given && cn_numel(given) != 1) return cni_onnx_fail(c, CN_ERR_SHAPE, "the ratio must be one number");
    return drop(c, x, given ? cn_cast(cn_reshape(given, CN_SCALAR_SHAPE), CN_F32) : cn_num(0.5), mask);
  }
  double ratio = cni_onnx_float(c, "ratio", 0.5);
  if (c->opset >= 7 || cni_onnx_int(c, "is_test", 0)) return keep_all(c, x, mask);
  return drop(c, x, cn_num(ratio), mask);
}

const cni_onnx_op cni_onnx_random_ops[] = {
    ONNX_FRESH("Bernoulli", 15, bernoulli),
    ONNX_FRESH("Multinomial", 7, multinomial),
    ONNX_FRESH("Dropout", 1, dropout),
    ONNX_FRESH("RandomNormal", 1, random_normal),
    ONNX_FRESH("RandomUniform", 1, random_uniform),
    ONNX_FRESH("RandomNormalLike", 1, random_normal_like),
    ONNX_FRESH("RandomUniformLike", 1, random_uniform_like),
    {NULL, NULL, NULL, 0, 0},
};
