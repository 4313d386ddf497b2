/* random.c: random numbers, with cairn's own generator: a model's seed starts a stream of its own. See call.h. */
#include "formats/onnx/call.h"

/* Draws with the model's seed where there is one, and leaves the thread's numbers as they were then. */
static int draw(cni_onnx_call *c, cn_tensor *like, cn_tensor *(*fill)(cni_onnx_call *c, cn_tensor *like))
{
  uint64_t seed, offset;
  bool own = cni_onnx_attr_of(c, "seed") != NULL;
  double given = cni_onnx_float(c, "seed", 0);
  if (!like || cn_err()) return cn_err();
  if (own && cn_tracing()) return cni_onnx_fail(c, CN_ERR_CAPTURE, "capture: a seed of its own");
  cn_random_state(&seed, &offset);
  if (own) cn_random_set_state((uint64_t)(int64_t)given, 0);
  cn_tensor *t = fill(c, like);
  if (own) cn_random_set_state(seed, offset);
  return cni_onnx_out(c, 0, t);
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

const cni_onnx_op cni_onnx_random_ops[] = {
    ONNX_FRESH("RandomNormal", 1, random_normal),
    ONNX_FRESH("RandomUniform", 1, random_uniform),
    ONNX_FRESH("RandomNormalLike", 1, random_normal_like),
    ONNX_FRESH("RandomUniformLike", 1, random_uniform_like),
    {NULL, NULL, NULL, 0, 0},
};
