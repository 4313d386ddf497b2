/* quantize.c: numbers as small whole numbers, and back: QuantizeLinear and DequantizeLinear. See row.h. */
#include <string.h>

#include "row.h"

/* The opset from which on a type is quantised to; 0: never. */
static int since(int dtype)
{
  if (dtype == CN_U8 || dtype == CN_I8) return 13;
  if (dtype == CN_F8E4M3 || dtype == CN_F8E5M2) return 19;
  return dtype == CN_I16 || dtype == CN_U16 || dtype == CN_I4 || dtype == CN_U4 ? 21 : 0;
}

typedef struct grid {
  cni_oxval scale, zero; /* of float32; of the small type */
  int axis;              /* of vectors */
} grid;

/* A grid's scale and zero point: both numbers, or one for each place of an axis. */
static bool find_grid(cni_oxcall *c, grid *g, int small, int axis)
{
  cni_ox *x = c->x;
  const cni_oxval *scale = &c->in[1], *zero = &c->in[2];
  if (scale->ndim > 1 || since(small) == 0 || since(small) > x->opset) return false;
  g->scale = cni_ox_cast(x, cni_ox_solid(x, *scale, CN_F32), CN_F32);
  g->axis = axis;
  if (cni_ox_there(zero)) {
    g->zero = cni_ox_cast(x, cni_ox_solid(x, *zero, small), small);
    if (g->zero.ndim != scale->ndim) return false;
    return true;
  }
  cni_oxval size = cni_ox_size(x, *scale, 0);
  g->zero = cni_ox_cast(x, cni_ox_expand(x, cni_ox_const(x, cni_ox_whole(0), CN_I32), scale->ndim, &size), small);
  return true;
}

static cni_oxval emit(cni_oxcall *c, const char *op, cni_oxval v, const grid *g, int dtype)
{
  cni_oxval in[3] = {v, g->scale, g->zero}, out = v;
  out.dtype = dtype;
  if (g->scale.ndim) cni_ox_int(c->x, "axis", g->axis);
  cni_ox_node(c->x, op, 3, in, 1, &out);
  return out;
}

/* quantize_linear(input, scale, zero_point, axis, dtype) */
static bool quantize(cni_oxcall *c)
{
  grid g;
  int small = c->out[0].dtype;
  if (c->in[0].dtype == CN_F64 || !find_grid(c, &g, small, (int)cni_oxarg_int(c, 3))) return false;
  cni_oxval v = cni_ox_cast(c->x, c->in[0], CN_F32);
  cni_ox_give(c, 0, emit(c, "QuantizeLinear", v, &g, small));
  return true;
}

/* dequantize_linear(input, scale, zero_point, axis, dtype) */
static bool dequantize(cni_oxcall *c)
{
  grid g;
  if (c->out[0].dtype == CN_F64 || !find_grid(c, &g, c->in[0].dtype, (int)cni_oxarg_int(c, 3))) return false;
  cni_ox_give(c, 0, emit(c, "DequantizeLinear", c->in[0], &g, CN_F32));
  return true;
}

/* fake_quantize_*(input, scale, zero_point, [axis,] quant_min, quant_max): there and back; a range that is no type's
 * own is cut out of one. */
static bool fake(cni_oxcall *c)
{
  static const struct {
    int dtype;
    int64_t least, most;
  } types[] = {{CN_U8, 0, 255}, {CN_I8, -128, 127}, {CN_U16, 0, 65535}, {CN_I16, -32768, 32767}};
  cni_ox *x = c->x;
  grid g;
  int lo = cni_oxarg_find(c, "quant_min"), axis = cni_oxarg_find(c, "axis"), row = -1;
  int64_t least = cni_oxarg_int(c, lo), most = cni_oxarg_int(c, lo + 1);
  for (int i = 3; i >= 0; i--)
    if (least >= types[i].least && most <= types[i].most && since(types[i].dtype) <= x->opset) row = i;
  if (row < 0 || c->out[0].dtype == CN_F64) return false;
  if (!find_grid(c, &g, types[row].dtype, axis < 0 ? 0 : cni_oxarg_dim(c, axis, c->in[0].ndim))) return false;
  cni_oxval v = emit(c, "QuantizeLinear", cni_ox_cast(x, c->in[0], CN_F32), &g, types[row].dtype);
  if (least != types[row].least || most != types[row].most) {
    int kernel = cni_ox_kernel_type(x, "Clip", v.dtype);
    v = CNI_OX_EMIT(x, "Clip", v, cni_ox_const(x, cni_ox_whole(least), kernel),
                    cni_ox_const(x, cni_ox_whole(most), kernel));
  }
  cni_ox_give(c, 0, emit(c, "DequantizeLinear", v, &g, CN_F32));
  return true;
}

const cni_oxrow cni_ox_quantize_rows[] = {
    BUILD("quantize_linear", 13, quantize),
    BUILD("dequantize_linear", 13, dequantize),
    BUILD("fake_quantize_per_tensor_affine", 13, fake),
    BUILD("fake_quantize_per_channel_affine", 13, fake),
    {NULL, NULL, NULL, 0},
};
