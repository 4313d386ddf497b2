/* preview.c: operators of ai.onnx.preview. See call.h. */
#include <math.h>

#include "formats/onnx/attention.h"

/* t as the graph of an attribute changes it; without the attribute: t. */
static cn_tensor *changed(cni_onnx_call *c, const char *name, cn_tensor *t)
{
  cn_onnx_value *in, *out[1] = {NULL};
  if (!cni_onnx_attr_of(c, name)) return t;
  const cni_onnx_graph *g = cni_onnx_graph_of(c, name);
  if (!g || !t) return NULL;
  if (g->noutputs != 1) {
    cni_onnx_fail(c, CN_ERR_VALUE, "'%s' gives %zu outputs, not one", name, g->noutputs);
    return NULL;
  }
  if (!(in = cni_onnx_take(t))) return NULL;
  int status = cni_onnx_walk_inside(out, c, g, &in, 1);
  cn_tensor *made = status || out[0]->kind != CN_ONNX_TENSOR ? NULL : cn_scope_give(cn_keep(out[0]->t));
  if (!status && !made) cni_onnx_fail(c, CN_ERR_TYPE, "'%s' gives no tensor", name);
  if (!status) cn_onnx_value_release(out[0]);
  cn_onnx_value_release(in);
  return made;
}

/* Attention whose scores and weights graphs of the model may change. */
static int flex_attention(cni_onnx_call *c)
{
  cni_onnx_attention a = {
      .q = cni_onnx_in(c, 0), .k = cni_onnx_in(c, 1), .v = cni_onnx_in(c, 2), .scale = cni_onnx_float(c, "scale", 0)};
  if (!a.q || !a.k || !a.v) return cn_err();
  cn_dtype own = cn_dtype_of(a.q), wide = cni_onnx_dtype_of(c, "softmax_precision", own == CN_F64 ? CN_F64 : CN_F32);
  if (cn_ndim(a.q) != 4 || cn_ndim(a.k) != 4 || cn_ndim(a.v) != 4)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "Q, K and V must have four dimensions");
  int64_t heads = cn_shape(a.q)[1], groups = cn_shape(a.k)[1];
  if (groups != cn_shape(a.v)[1] || (heads != groups && (groups < 1 || heads % groups)))
    return cni_onnx_fail(c, CN_ERR_SHAPE, "the queries' heads must be a multiple of those of keys and values");
  if (!cni_onnx_attr_of(c, "score_mod") && !cni_onnx_attr_of(c, "prob_mod")) {
    a.precision = wide;
    return cni_onnx_out(c, 0, cni_onnx_attend(&a));
  }
  if (a.scale == 0) a.scale = 1 / sqrt((double)(cn_shape(a.q)[3] ? cn_shape(a.q)[3] : 1));
  cn_tensor *keys = cn_transpose(cni_onnx_spread(a.k, heads), 2, 3);
  cn_tensor *s = cn_cast(cn_matmul(cn_mul(a.q, cn_num(a.scale)), keys), wide);
  cn_tensor *w = changed(c, "prob_mod", cn_softmax(changed(c, "score_mod", s), 3));
  cn_tensor *y = w ? cn_matmul(w, cn_cast(cni_onnx_spread(a.v, heads), cn_dtype_of(w))) : NULL;
  return cni_onnx_out(c, 0, y ? cn_cast(y, own) : NULL);
}

const cni_onnx_op cni_onnx_preview_ops[] = {
    /* sub-graphs: their results are not known numbers */
    ONNX_FRESH("FlexAttention", 1, flex_attention),
    {NULL, NULL, NULL, 0, 0},
};
