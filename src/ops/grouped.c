/* grouped.c: the family of grouped products: a product for each group of rows, columns or of what is summed, whose ends
 * a tensor says; what mixtures of experts are made of.
 *
 * Place in the flow: grouped_mm is a composite over grouped_product, which backends have kernels for: group g has
 * places [offs[g - 1], offs[g]) of the dimension that is cut. Which one that is follows from the operands' dims, and a
 * gradient is a grouped product, of another form. Invariants: ends rise and lie within the dimension, otherwise
 * kernels fail; rows and columns behind the last end are zeros. */
#include <cairn/kw.h>

#include "cost.h"
#include "families.h"
#include "shorthand.h"

enum { A, B, OFFS, DTYPE }; /* parameters of grouped_product; the first are inputs, too */

/* ---- shapes ---- */

static int cannot_multiply(const cn_call *c, const cn_desc *a, const cn_desc *b)
{
  char left[CNI_SHAPE_TEXT], right[CNI_SHAPE_TEXT];
  return cn_call_fail(c, CN_ERR_SHAPE, "shapes %s and %s cannot be multiplied by groups",
                      cni_shape_text(left, sizeof left, a->ndim, a->shape),
                      cni_shape_text(right, sizeof right, b->ndim, b->shape));
}

static int check_types(const cn_call *c, int to)
{
  int type = c->in[A]->d.dtype;
  if (c->in[B]->d.dtype != type)
    return cn_call_fail(c, CN_ERR_DTYPE, "the operands must have one type, but are %s and %s",
                        cn_dtype_name((cn_dtype)type), cn_dtype_name((cn_dtype)c->in[B]->d.dtype));
  if (!cni_dtype_is_float(type) || !cni_dtype_computes(type))
    return cn_call_fail(c, CN_ERR_DTYPE, "not for %s", cn_dtype_name((cn_dtype)type));
  if (to != type && !(cni_is_half(type) && to == CN_F32))
    return cn_call_fail(c, CN_ERR_DTYPE, "the result of a product of %s can be of that type, or float32 of float16 and "
                        "bfloat16, but not %s", cn_dtype_name((cn_dtype)type), cn_dtype_name((cn_dtype)to));
  return CN_OK;
}

static int check_ends(const cn_call *c, const cn_desc *offs, int64_t groups)
{
  char text[CNI_SHAPE_TEXT];
  if (offs->dtype != CN_I32 && offs->dtype != CN_I64)
    return cn_call_fail(c, CN_ERR_DTYPE, "offs must be int32 or int64, not %s", cn_dtype_name((cn_dtype)offs->dtype));
  if (offs->ndim == 1 && (groups < 0 || offs->shape[0] == groups)) return CN_OK;
  if (groups < 0)
    return cn_call_fail(c, CN_ERR_SHAPE, "offs must be a vector, but has shape %s",
                        cni_shape_text(text, sizeof text, offs->ndim, offs->shape));
  return cn_call_fail(c, CN_ERR_SHAPE, "offs must be a vector of %lld, one end for each matrix, but has shape %s",
                      (long long)groups, cni_shape_text(text, sizeof text, offs->ndim, offs->shape));
}

static int product_type(const cn_call *c)
{
  return cni_arg_none(c->args, DTYPE) ? c->in[A]->d.dtype : (int)cni_arg_int(c->args, DTYPE);
}

/* (m, k) (G, k, n): groups of rows; (G, m, k) (k, n): of columns; (m, k) (k, n): of what is summed, (G, m, n). */
static int product_infer(cn_call *c)
{
  const cn_desc *a = &c->in[A]->d, *b = &c->in[B]->d, *offs = &c->in[OFFS]->d;
  bool fits = (a->ndim == 2 || a->ndim == 3) && (b->ndim == 2 || b->ndim == 3) && a->ndim + b->ndim < 6;
  if (!fits || a->shape[a->ndim - 1] != b->shape[b->ndim - 2]) return cannot_multiply(c, a, b);
  int64_t groups = a->ndim == 3 ? a->shape[0] : b->ndim == 3 ? b->shape[0] : -1;
  int to = product_type(c), status = check_types(c, to);
  if (!status) status = check_ends(c, offs, groups);
  if (status) return status;
  const int64_t shape[3] = {offs->shape[0], a->shape[a->ndim - 2], b->shape[b->ndim - 1]};
  return groups < 0 ? cn_call_result(c, 0, to, 3, shape) : cn_call_result(c, 0, to, 2, shape + 1);
}

static void product_cost(cn_cost *cost, const cn_call *c)
{
  const cn_desc *a = &c->in[A]->d, *b = &c->in[B]->d;
  double n = (double)a->shape[a->ndim - 2] * (double)a->shape[a->ndim - 1] * (double)b->shape[b->ndim - 1];
  cost->products += 2 * n;
  cost->flops += 2 * n;
}

/* ---- by other ops: every group's product of everything, of which its own part is taken ---- */

/* Which places of a dimension of n are group g's, (n). */
static cn_tensor *places_of(const cn_call *c, int64_t g, int64_t n)
{
  cn_tensor *at = cn_arange(0, (double)n, .dtype = CN_I64, .device = c->device);
  cn_tensor *before = cn_lt(at, cn_select(c->in[OFFS], 0, g));
  return g ? cn_logical_and(before, cn_ge(at, cn_select(c->in[OFFS], 0, g - 1))) : before;
}

static cn_tensor *part_of(const cn_call *c, int64_t g, cn_tensor *y)
{
  cn_tensor *a = c->in[A], *b = c->in[B];
  if (b->d.ndim == 3) {
    cn_tensor *mine = cn_unsqueeze(places_of(c, g, a->d.shape[0]), 1);
    return cn_where(mine, cn_mm(a, cn_select(b, 0, g)), y);
  }
  if (a->d.ndim == 3) return cn_where(places_of(c, g, b->d.shape[1]), cn_mm(cn_select(a, 0, g), b), y);
  cn_tensor *mine = places_of(c, g, b->d.shape[0]);
  return cn_mm(cn_where(mine, a, cn_num(0)), cn_where(cn_unsqueeze(mine, 1), b, cn_num(0)));
}

static int product_decompose(cn_call *c)
{
  cn_tensor *a = c->in[A], *b = c->in[B];
  const int64_t groups = c->in[OFFS]->d.shape[0], m = a->d.shape[a->d.ndim - 2], n = b->d.shape[b->d.ndim - 1];
  cn_dtype to = (cn_dtype)product_type(c);
  if (a->d.dtype != (int)to) {
    c->out[0] = cn_grouped_product(cn_cast(a, to), cn_cast(b, to), c->in[OFFS]);
    return cn_err();
  }
  if (a->d.ndim == 3 || b->d.ndim == 3) {
    cn_tensor *y = cn_zeros(CN_SHAPE(m, n), .dtype = to, .device = c->device);
    for (int64_t g = 0; g < groups && y; g++) y = part_of(c, g, y);
    c->out[0] = y;
    return cn_err();
  }
  cn_tensor *y = cn_zeros(CN_SHAPE(groups, m, n), .dtype = to, .device = c->device);
  for (int64_t g = 0; g < groups && y; g++) cn_copy_(cn_select(y, 0, g), part_of(c, g, NULL));
  c->out[0] = y;
  return cn_err();
}

/* ---- gradients ---- */

static int product_vjp(cn_vjp *v)
{
  cn_tensor *g = cni_in_type(v->g[0], v->in_meta[A].dtype);
  if (v->need[A]) v->gin[A] = cn_grouped_product(g, cni_swapped(v->in[B]), v->in[OFFS]);
  if (v->need[B]) v->gin[B] = cn_grouped_product(cni_swapped(v->in[A]), g, v->in[OFFS]);
  return cn_err();
}

/* ---- grouped_mm(mat_a, mat_b, offs, bias, out_dtype) ---- */

static int grouped_mm_decompose(cn_call *c)
{
  enum { BIAS = 3, OUT_DTYPE };
  cn_tensor *a = c->in[A], *b = c->in[B], *offs = c->in[OFFS];
  const int type = cni_arg_none(c->args, OUT_DTYPE) ? a->d.dtype : (int)cni_arg_int(c->args, OUT_DTYPE);
  const bool cut = a->d.ndim != 3 || b->d.ndim != 3;
  if (cut != (offs != NULL))
    return cn_call_fail(c, CN_ERR_VALUE, "%s", cut ? "needs offs: an operand has two dimensions, of which one is cut"
                                                   : "takes no offs where both operands have three dimensions");
  cn_tensor *y = cut ? cn_grouped_product(a, b, offs, .dtype = (cn_dtype)type) : cn_bmm_dtype(a, b, (cn_dtype)type);
  c->out[0] = c->in[BIAS] ? cni_in_type(cn_add(y, c->in[BIAS]), type) : y;
  return cn_err();
}

/* clang-format off */
const cn_op cni_grouped_ops[] = {
  {.sig = "grouped_mm(Tensor mat_a, Tensor mat_b, *, Tensor? offs=None, Tensor? bias=None, dtype? out_dtype=None) "
          "-> Tensor ; nn opt_offs opt_bias alias__grouped_mm grad_fn",
   .doc = "A product for each group: rows of (m, k) by their group's matrix of (G, k, n), each matrix of (G, m, k) by "
          "its group's columns of (k, n), or groups of what is summed in (m, k) by (k, n), (G, m, n). Group g ends "
          "before place offs[g], and begins where the one before it ends; rows and columns behind the last one are "
          "zeros. Two batches are bmm, without offs. bias is added to the result.",
   .flags = CN_OP_COMPOSITE, .decompose = grouped_mm_decompose},
  {.sig = "grouped_product(Tensor input, Tensor mat2, Tensor offs, *, dtype? dtype=None) -> Tensor ; internal",
   .doc = "grouped_mm of operands of which at most one is a batch.",
   .cost = product_cost, .infer = product_infer, .vjp = product_vjp, .decompose = product_decompose,
   .needs = {[A] = CN_IN(B) | CN_IN(OFFS), [B] = CN_IN(A) | CN_IN(OFFS)}},
};
/* clang-format on */
CNI_FAMILY(grouped);
