/* grid_sample.c: the family of spatial transforms: grid_sample reads images at given positions, affine_grid makes
 * such positions.
 *
 * Place in the flow: grid_sample is pointwise work that makes indices and weights of each position, then one
 * weighted_gather, which backends give a kernel for. Invariant: weighted_gather, weighted_scatter and weighted_dot are
 * linear in both of their tensors and are each other's gradients, so any order of differentiation ends here. Positions
 * are computed per dim, with x (the width) first in a grid and last in an image, in float64: in a large image a
 * float32 has few digits left for the way between two elements. float16 and bfloat16 compute in float32. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>

#include "families.h"
#include "infer.h"
#include "shorthand.h"

enum { MOST_DIMS = 3, CUBIC_TAPS = 4, MOST_TERMS = CUBIC_TAPS * CUBIC_TAPS * CUBIC_TAPS };

/* ---- sums by index and weight ----
 * x: (N, C, S), index and weight: (N, K, P), y: (N, C, P): y[n][c][p] = sum over k of weight[n][k][p] *
 * x[n][c][index[n][k][p]], where a negative index stands for zero. */

/* a: (N, A, ..) and b: (N, B, ..) of one float type, index: (N, K, P) of integers. */
static int check_sums(const cn_call *c, const cn_desc *a, const cn_desc *b, const cn_desc *index)
{
  if (index->dtype != CN_I64) return cn_call_fail(c, CN_ERR_DTYPE, "index must be int64");
  if (a->dtype != b->dtype || (a->dtype != CN_F32 && a->dtype != CN_F64))
    return cn_call_fail(c, CN_ERR_DTYPE, "takes tensors of float32 or of float64, not %s and %s",
                        cn_dtype_name((cn_dtype)a->dtype), cn_dtype_name((cn_dtype)b->dtype));
  if (a->ndim == 3 && b->ndim == 3 && index->ndim == 3 && a->shape[0] == b->shape[0] &&
      a->shape[0] == index->shape[0])
    return CN_OK;
  return cn_call_fail(c, CN_ERR_SHAPE, "takes three tensors of three dims with one batch size");
}

static int differ(const cn_call *c) { return cn_call_fail(c, CN_ERR_SHAPE, "the tensors' sizes do not fit"); }

/* weighted_gather(input, index, weight) */
static int gather_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d, *index = &c->in[1]->d, *w = &c->in[2]->d;
  int status = check_sums(c, x, w, index);
  if (status) return status;
  if (w->shape[1] != index->shape[1] || w->shape[2] != index->shape[2]) return differ(c);
  return cn_call_result(c, 0, x->dtype, 3, (const int64_t[]){x->shape[0], x->shape[1], index->shape[2]});
}

static int gather_vjp(cn_vjp *v)
{
  if (v->need[0]) v->gin[0] = cn_weighted_scatter(v->g[0], v->in[1], v->in[2], v->in_meta[0].shape[2]);
  if (v->need[2]) v->gin[2] = cn_weighted_dot(v->g[0], v->in[0], v->in[1]);
  return cn_err();
}

/* weighted_scatter(grad, index, weight, size) */
static int scatter_infer(cn_call *c)
{
  const cn_desc *y = &c->in[0]->d, *index = &c->in[1]->d, *w = &c->in[2]->d;
  int64_t size = cni_arg_int(c->args, 3);
  int status = check_sums(c, y, w, index);
  if (status) return status;
  if (size < 0) return cn_call_fail(c, CN_ERR_VALUE, "size must not be negative");
  if (w->shape[1] != index->shape[1] || w->shape[2] != index->shape[2] || y->shape[2] != index->shape[2])
    return differ(c);
  return cn_call_result(c, 0, y->dtype, 3, (const int64_t[]){y->shape[0], y->shape[1], size});
}

static int scatter_vjp(cn_vjp *v)
{
  if (v->need[0]) v->gin[0] = cn_weighted_gather(v->g[0], v->in[1], v->in[2]);
  if (v->need[2]) v->gin[2] = cn_weighted_dot(v->in[0], v->g[0], v->in[1]);
  return cn_err();
}

/* weighted_dot(grad, input, index) */
static int dot_infer(cn_call *c)
{
  const cn_desc *y = &c->in[0]->d, *x = &c->in[1]->d, *index = &c->in[2]->d;
  int status = check_sums(c, y, x, index);
  if (status) return status;
  if (y->shape[1] != x->shape[1] || y->shape[2] != index->shape[2]) return differ(c);
  return cn_call_result(c, 0, y->dtype, 3, index->shape);
}

static int dot_vjp(cn_vjp *v)
{
  if (v->need[0]) v->gin[0] = cn_weighted_gather(v->in[1], v->in[2], v->g[0]);
  if (v->need[1]) v->gin[1] = cn_weighted_scatter(v->in[0], v->in[2], v->g[0], v->in_meta[1].shape[2]);
  return cn_err();
}

/* One call of grid_sample. Dims: 0 is the outermost (depth, or height of a flat image). */
typedef struct sampler {
  int n;                   /* spatial dims */
  int64_t size[MOST_DIMS]; /* of the image */
  bool corners, border, reflection;
  int terms; /* elements that make up one of the result, so far: (N, P) each */
  cn_tensor *index[MOST_TERMS], *weight[MOST_TERMS];
} sampler;

static cn_tensor *number(double x) { return cn_num(x); }

/* ---- positions ---- */

/* From [-1, 1] to elements. */
static cn_tensor *in_elements(const sampler *s, cn_tensor *g, int dim)
{
  cn_tensor *up = cn_add(g, number(1));
  if (s->corners) return cn_mul(cn_div(up, number(2)), number((double)(s->size[dim] - 1)));
  return cn_div(cn_sub(cn_mul(up, number((double)s->size[dim])), number(1)), number(2));
}

/* Reflects positions back and forth between the edges. */
static cn_tensor *reflected(const sampler *s, cn_tensor *p, int dim)
{
  double low = s->corners ? 0 : -0.5, span = (double)(s->size[dim] - (s->corners ? 1 : 0));
  if (span == 0) return cn_mul(p, number(0));
  cn_tensor *from = cn_sub(p, number(low));
  cn_tensor *way = cn_where(cn_lt(from, number(0)), cn_neg(from), from);
  cn_tensor *rest = cn_fmod(way, number(span)), *turns = cn_floor(cn_div(way, number(span)));
  cn_tensor *odd = cn_gt(cn_remainder(turns, number(2)), number(0.5));
  return cn_add(cn_where(odd, cn_sub(number(span), rest), rest), number(low));
}

/* Places outside the image by the padding mode. On the edge itself no gradient flows. */
static cn_tensor *padded(const sampler *s, cn_tensor *p, int dim)
{
  if (s->reflection) p = reflected(s, p, dim);
  if (!s->reflection && !s->border) return p;
  cn_tensor *end = number((double)(s->size[dim] - 1));
  cn_tensor *within = cn_logical_and(cn_gt(p, number(0)), cn_lt(p, end));
  cn_tensor *edge = cn_where(cn_ge(p, end), cn_full_like(p, (double)(s->size[dim] - 1)), cn_full_like(p, 0));
  return cn_where(within, p, edge);
}

/* ---- reading ---- */

/* One more term: the element at whole positions, one of shape (N, P) per dim, by its weight (N, P). Those outside of
 * the image count nothing. */
static void add_term(sampler *s, cn_tensor *const *at, cn_tensor *weight)
{
  cn_tensor *inside = NULL, *index = NULL;
  for (int i = 0; i < s->n; i++) {
    cn_tensor *in = cn_logical_and(cn_ge(at[i], number(0)), cn_le(at[i], number((double)(s->size[i] - 1))));
    inside = inside ? cn_logical_and(inside, in) : in;
    index = index ? cn_add(cn_mul(index, number((double)s->size[i])), at[i]) : at[i];
  }
  cn_tensor *kept = cn_where(inside, index, number(-1));
  s->index[s->terms] = kept ? cn_cast(cn_detach(kept), CN_I64) : NULL;
  s->weight[s->terms++] = weight;
}

static void nearest(sampler *s, cn_tensor *const *p)
{
  cn_tensor *at[MOST_DIMS];
  for (int i = 0; i < s->n; i++) at[i] = cn_round(padded(s, p[i], i));
  add_term(s, at, p[0] ? cn_full_like(p[0], 1) : NULL);
}

/* All corners of the cell that a position lies in, each by the volume opposite to it. */
static void linear(sampler *s, cn_tensor *const *p)
{
  cn_tensor *low[MOST_DIMS], *high[MOST_DIMS], *near[MOST_DIMS], *far[MOST_DIMS];
  for (int i = 0; i < s->n; i++) {
    cn_tensor *position = padded(s, p[i], i);
    low[i] = cn_floor(position);
    high[i] = cn_add(low[i], number(1));
    near[i] = cn_sub(high[i], position);
    far[i] = cn_sub(position, low[i]);
  }
  for (int corner = 0; corner < 1 << s->n; corner++) {
    cn_tensor *at[MOST_DIMS], *weight = NULL;
    for (int i = s->n - 1; i >= 0; i--) {
      bool up = corner >> (s->n - 1 - i) & 1;
      at[i] = up ? high[i] : low[i];
      weight = weight ? cn_mul(weight, up ? far[i] : near[i]) : up ? far[i] : near[i];
    }
    add_term(s, at, weight);
  }
}

/* (c3 x + c2) x x + c1 x + c0 in Horner's way */
static cn_tensor *polynomial(cn_tensor *x, double c3, double c2, double c1, double c0)
{
  cn_tensor *y = cn_add(cn_mul(x, number(c3)), number(c2));
  y = cn_add(cn_mul(y, x), number(c1));
  return cn_add(cn_mul(y, x), number(c0));
}

/* Keys' cubic convolution with a = -3/4: the weights of the four elements around a position that lies t behind the
 * second. */
static void cubic_weights(cn_tensor *t, cn_tensor **w)
{
  const double a = -0.75;
  cn_tensor *rest = cn_sub(number(1), t);
  w[0] = polynomial(cn_add(t, number(1)), a, -5 * a, 8 * a, -4 * a);
  w[1] = polynomial(t, a + 2, -(a + 3), 0, 1);
  w[2] = polynomial(rest, a + 2, -(a + 3), 0, 1);
  w[3] = polynomial(cn_add(rest, number(1)), a, -5 * a, 8 * a, -4 * a);
}

/* Four elements along each dim from `dim` on; at and weight: [dim][tap] of shape (N, P); chosen: the positions in the
 * dims before, outer their weights' product. */
static void cubic_from(sampler *s, int dim, cn_tensor *at[][CUBIC_TAPS], cn_tensor *weight[][CUBIC_TAPS],
                       cn_tensor **chosen, cn_tensor *outer)
{
  for (int k = 0; k < CUBIC_TAPS; k++) {
    cn_tensor *product = outer ? cn_mul(outer, weight[dim][k]) : weight[dim][k];
    chosen[dim] = at[dim][k];
    if (dim == s->n - 1) add_term(s, chosen, product);
    else cubic_from(s, dim + 1, at, weight, chosen, product);
  }
}

static void cubic(sampler *s, cn_tensor *const *p)
{
  cn_tensor *weight[MOST_DIMS][CUBIC_TAPS], *at[MOST_DIMS][CUBIC_TAPS], *chosen[MOST_DIMS];
  for (int i = 0; i < s->n; i++) {
    cn_tensor *low = cn_floor(p[i]);
    cubic_weights(cn_sub(p[i], low), weight[i]);
    for (int k = 0; k < CUBIC_TAPS; k++) at[i][k] = padded(s, cn_add(low, number(k - 1)), i);
  }
  cubic_from(s, 0, at, weight, chosen, NULL);
}

/* ---- grid_sample(input, grid, mode, padding_mode, align_corners) ---- */

enum { MODE = 2, PADDING = 3, CORNERS = 4 };

static int check_sample(const cn_call *c)
{
  const cn_desc *x = &c->in[0]->d, *g = &c->in[1]->d;
  char a[CNI_SHAPE_TEXT], b[CNI_SHAPE_TEXT];
  if (!cni_arg_is(c->args, MODE, "bilinear") && !cni_arg_is(c->args, MODE, "nearest") &&
      !cni_arg_is(c->args, MODE, "bicubic"))
    return cn_call_fail(c, CN_ERR_VALUE, "mode must be 'bilinear', 'nearest' or 'bicubic', not '%s'",
                        cni_arg_str(c->args, MODE));
  if (!cni_arg_is(c->args, PADDING, "zeros") && !cni_arg_is(c->args, PADDING, "border") &&
      !cni_arg_is(c->args, PADDING, "reflection"))
    return cn_call_fail(c, CN_ERR_VALUE, "padding_mode must be 'zeros', 'border' or 'reflection', not '%s'",
                        cni_arg_str(c->args, PADDING));
  if (x->dtype != g->dtype || !cni_dtype_is_float(x->dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "input and grid must be floats of one type, but are %s and %s",
                        cn_dtype_name((cn_dtype)x->dtype), cn_dtype_name((cn_dtype)g->dtype));
  bool fits = (x->ndim == 4 || x->ndim == 5) && g->ndim == x->ndim && g->shape[0] == x->shape[0] &&
              g->shape[g->ndim - 1] == x->ndim - 2;
  for (int i = 2; fits && i < x->ndim; i++) fits = x->shape[i] > 0;
  if (!fits)
    return cn_call_fail(c, CN_ERR_SHAPE,
                        "takes images (N, C, H, W) with grids (N, Hout, Wout, 2), or volumes (N, C, D, H, W) with "
                        "grids (N, Dout, Hout, Wout, 3), not %s with %s",
                        cni_shape_text(a, sizeof a, x->ndim, x->shape),
                        cni_shape_text(b, sizeof b, g->ndim, g->shape));
  return CN_OK;
}

static int grid_sample_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0], *g = c->in[1], *p[MOST_DIMS];
  int type = x->d.dtype, status = check_sample(c);
  if (status) return status;
  sampler s = {.n = x->d.ndim - 2,
               .corners = !cni_arg_none(c->args, CORNERS) && cni_arg_bool(c->args, CORNERS),
               .border = cni_arg_is(c->args, PADDING, "border"),
               .reflection = cni_arg_is(c->args, PADDING, "reflection")};
  int64_t shape[5] = {x->d.shape[0], x->d.shape[1]}, cells = 1, points = 1;
  for (int i = 0; i < s.n; i++) {
    s.size[i] = x->d.shape[2 + i];
    cells *= s.size[i];
    shape[2 + i] = g->d.shape[1 + i];
    points *= shape[2 + i];
  }
  bool is_cubic = cni_arg_is(c->args, MODE, "bicubic");
  int wide = is_cubic ? CN_F64 : cni_wide_type(type); /* the terms of a cubic's gradient cancel */
  x = cni_in_type(x, wide);
  g = cn_reshape(cni_in_type(g, CN_F64), CN_SHAPE(shape[0], points, s.n));
  for (int i = 0; i < s.n; i++) p[i] = in_elements(&s, cn_select(g, 2, s.n - 1 - i), i);
  if (is_cubic) cubic(&s, p);
  else if (cni_arg_is(c->args, MODE, "nearest")) nearest(&s, p);
  else linear(&s, p);
  cn_tensor *y = cn_weighted_gather(cn_reshape(x, CN_SHAPE(shape[0], shape[1], cells)),
                                    cn_stack(s.index, (size_t)s.terms, .dim = 1),
                                    cni_in_type(cn_stack(s.weight, (size_t)s.terms, .dim = 1), wide));
  c->out[0] = cni_in_type(cn_reshape(y, shape, (size_t)s.n + 2), type);
  return cn_err();
}

/* ---- affine_grid(theta, size, align_corners) ---- */

/* Places from -1 to 1: the elements' centres, or from corner to corner. */
static cn_tensor *positions(int64_t n, bool corners, cn_dtype dtype, cn_device device)
{
  if (n == 1) return cn_zeros(CN_SHAPE(1), .dtype = dtype, .device = device);
  cn_tensor *line = cn_linspace(-1, 1, n, .dtype = dtype, .device = device);
  return corners ? line : cn_mul(line, number((double)(n - 1) / (double)n));
}

static int affine_grid_decompose(cn_call *c)
{
  cn_tensor *theta = c->in[0], *list[MOST_DIMS + 1];
  const cn_value *size = &c->args[1];
  int type = theta->d.dtype, n = size->n - 2;
  char text[CNI_SHAPE_TEXT];
  bool corners = !cni_arg_none(c->args, 2) && cni_arg_bool(c->args, 2);
  if (n != 2 && n != 3)
    return cn_call_fail(c, CN_ERR_VALUE, "size must be (N, C, H, W) or (N, C, D, H, W), not %d numbers",
                        (int)size->n);
  if (!cni_dtype_is_float(type)) return cn_call_fail(c, CN_ERR_DTYPE, "theta must be a float");
  if (theta->d.ndim != 3 || theta->d.shape[0] != size->u.is[0] || theta->d.shape[1] != n ||
      theta->d.shape[2] != n + 1)
    return cn_call_fail(c, CN_ERR_SHAPE, "theta must have shape (%lld, %d, %d), not %s", (long long)size->u.is[0], n,
                        n + 1, cni_shape_text(text, sizeof text, theta->d.ndim, theta->d.shape));
  int64_t shape[MOST_DIMS + 2], cells = 1;
  for (int i = 0; i < size->n; i++)
    if (size->u.is[i] < 1) return cn_call_fail(c, CN_ERR_VALUE, "size must be positive");
  if (type != CN_F64) theta = cni_in_type(theta, CN_F32);
  if (!theta) return cn_err();
  shape[0] = size->u.is[0];
  for (int i = 0; i < n; i++) shape[1 + i] = size->u.is[2 + i], cells *= shape[1 + i];
  shape[n + 1] = n;
  for (int i = 0; i < n; i++) { /* x first */
    int64_t row[MOST_DIMS] = {1, 1, 1};
    int dim = n - 1 - i;
    row[dim] = shape[1 + dim];
    cn_tensor *line = positions(row[dim], corners, (cn_dtype)theta->d.dtype, theta->d.device);
    list[i] = cn_expand(cn_reshape(line, row, (size_t)n), shape + 1, (size_t)n);
  }
  list[n] = list[0] ? cn_full_like(list[0], 1) : NULL;
  cn_tensor *base = cn_reshape(cn_stack(list, (size_t)n + 1, .dim = -1), CN_SHAPE(cells, n + 1));
  c->out[0] = cni_in_type(cn_reshape(cn_matmul(base, cni_swapped(theta)), shape, (size_t)n + 2), type);
  return cn_err();
}

/* clang-format off */
const cn_op cni_grid_sample_ops[] = {
  {.sig = "grid_sample(Tensor input, Tensor grid, str mode='bilinear', str padding_mode='zeros', "
          "bool? align_corners=None) -> Tensor ; nn amp_f32_host amp_wide_device",
   .doc = "Images read at the positions of a grid. input: (N, C, H, W), grid: (N, Hout, Wout, 2) of positions (x, y) "
          "from -1 to 1, result: (N, C, Hout, Wout); or with one dim more. mode: bilinear, nearest or bicubic (of "
          "volumes too, where they go by three dims). padding_mode: what lies outside is zero, the nearest border, "
          "or a reflection. align_corners: -1 and 1 are the centres of the outer elements, not their outer edges.",
   .flags = CN_OP_COMPOSITE, .decompose = grid_sample_decompose},
  {.sig = "affine_grid(Tensor theta, int[] size, bool? align_corners=None) -> Tensor ; nn",
   .doc = "The grid for grid_sample that an affine map makes. theta: (N, 2, 3) for size (N, C, H, W), result: (N, H, "
          "W, 2); or (N, 3, 4) for (N, C, D, H, W), result: (N, D, H, W, 3).",
   .flags = CN_OP_COMPOSITE, .decompose = affine_grid_decompose},
  {.sig = "weighted_gather(Tensor input, Tensor index, Tensor weight) -> Tensor ; nn internal",
   .doc = "Sums of weighted elements: result[n][c][p] = sum over k of weight[n][k][p] * input[n][c][index[n][k][p]]. "
          "input: (N, C, S), index and weight: (N, K, P), result: (N, C, P). A negative index stands for zero.",
   .infer = gather_infer, .vjp = gather_vjp, .needs = {[0] = CN_IN(1) | CN_IN(2), [2] = CN_IN(0) | CN_IN(1)}},
  {.sig = "weighted_scatter(Tensor grad, Tensor index, Tensor weight, int size) -> Tensor ; nn internal",
   .doc = "The gradient of weighted_gather with respect to its input, which has `size` elements per channel.",
   .infer = scatter_infer, .vjp = scatter_vjp, .needs = {[0] = CN_IN(1) | CN_IN(2), [2] = CN_IN(0) | CN_IN(1)}},
  {.sig = "weighted_dot(Tensor grad, Tensor input, Tensor index) -> Tensor ; nn internal",
   .doc = "The gradient of weighted_gather with respect to its weight.",
   .infer = dot_infer, .vjp = dot_vjp, .needs = {[0] = CN_IN(1) | CN_IN(2), [1] = CN_IN(0) | CN_IN(2)}},
};
/* clang-format on */
CNI_FAMILY(grid_sample);
