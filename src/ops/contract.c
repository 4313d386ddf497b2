/* contract.c: the family of products beyond matrices: einsum, tensordot, inner, kron, cross and dot products along a
 * dimension, and the sums of a product and something else.
 *
 * Place in the flow: composites that arrange their operands for mm, bmm and addmm. Invariant: what is summed over is
 * summed by a matrix product wherever both operands have it. */
#include <cairn/kw.h>
#include <ctype.h>
#include <math.h>

#include "families.h"
#include "shorthand.h"

static int misfit(const cn_call *c, const cn_tensor *a, const cn_tensor *b, const char *why)
{
  char left[CNI_SHAPE_TEXT], right[CNI_SHAPE_TEXT];
  return cn_call_fail(c, CN_ERR_SHAPE, "shapes %s and %s: %s", cni_shape_text(left, sizeof left, a->d.ndim, a->d.shape),
                      cni_shape_text(right, sizeof right, b->d.ndim, b->d.shape), why);
}

static int check_one_type(const cn_call *c, const cn_tensor *a, const cn_tensor *b)
{
  if (a->d.dtype == b->d.dtype) return CN_OK;
  return cn_call_fail(c, CN_ERR_DTYPE, "the operands must have one type, but are %s and %s; cast one with cn_cast",
                      cn_dtype_name((cn_dtype)a->d.dtype), cn_dtype_name((cn_dtype)b->d.dtype));
}

/* ---- operands whose dims have labels ---- */

enum { LETTERS = 52, LABELS = LETTERS + CN_MAX_DIMS }; /* the dims of an ellipsis are labels behind the letters */

typedef struct operand {
  cn_tensor *x;
  int label[CN_MAX_DIMS]; /* of each dim of x, all different */
} operand;

static int dim_of(const operand *o, int label)
{
  for (int i = 0; o->x && i < o->x->d.ndim; i++)
    if (o->label[i] == label) return i;
  return -1;
}

/* Sums out (or, of size 1, leaves out) the dims whose label `drop` has set. Sums of small integers are int64. */
static void without(operand *o, const bool *drop)
{
  int64_t dims[CN_MAX_DIMS];
  int n = 0, kept = 0, ndim = o->x ? o->x->d.ndim : 0;
  for (int i = 0; i < ndim; i++) {
    if (drop[o->label[i]]) dims[n++] = i;
    else o->label[kept++] = o->label[i];
  }
  if (n) o->x = cn_sum(o->x, .dim = {dims, (size_t)n});
}

/* o as (first ..., second ..., third ...) reshaped to three sizes; the lists hold labels it has. */
static cn_tensor *in_three(const operand *o, const int *labels, const int *n)
{
  int64_t order[CN_MAX_DIMS], sizes[3] = {1, 1, 1};
  int at = 0;
  if (!o->x) return NULL;
  for (int part = 0; part < 3; part++)
    for (int i = 0; i < n[part]; i++, at++) {
      order[at] = dim_of(o, labels[at]);
      sizes[part] *= o->x->d.shape[order[at]];
    }
  return cn_reshape(cn_permute(o->x, order, (size_t)at), sizes, 3);
}

/* How the labels of two operands fall into groups. */
typedef struct groups {
  int both[LABELS], sum[LABELS], left[LABELS], right[LABELS];
  int nboth, nsum, nleft, nright;
} groups;

static void group(groups *g, const operand *a, const operand *b, const bool *needed)
{
  g->nboth = g->nsum = g->nleft = g->nright = 0;
  for (int i = 0; i < a->x->d.ndim; i++) {
    int l = a->label[i];
    if (dim_of(b, l) < 0) g->left[g->nleft++] = l;
    else if (needed[l]) g->both[g->nboth++] = l;
    else g->sum[g->nsum++] = l;
  }
  for (int i = 0; i < b->x->d.ndim; i++)
    if (dim_of(a, b->label[i]) < 0) g->right[g->nright++] = b->label[i];
}

/* Before two operands meet: labels nobody needs any more go, and a size of 1 that meets a larger one goes as well. */
static void prepare(operand *a, operand *b, const bool *needed)
{
  bool from_a[LABELS] = {false}, from_b[LABELS] = {false};
  for (int l = 0; l < LABELS; l++) {
    int i = dim_of(a, l), k = dim_of(b, l);
    int64_t na = i < 0 ? 0 : a->x->d.shape[i], nb = k < 0 ? 0 : b->x->d.shape[k];
    if (i >= 0 && k >= 0) {
      from_a[l] = na == 1 && nb != 1;
      from_b[l] = nb == 1 && na != 1;
      if (!needed[l] && from_a[l]) from_b[l] = true; /* the larger one is summed on its own */
      else if (!needed[l] && from_b[l]) from_a[l] = true;
    } else if (!needed[l]) {
      from_a[l] = i >= 0;
      from_b[l] = k >= 0;
    }
  }
  without(a, from_a);
  without(b, from_b);
}

static void append(int *to, const int *labels, int n) { memcpy(to, labels, (size_t)n * sizeof *to); }

/* a and b into one: summed over what both have and `needed` does not name. */
static int contract(const cn_call *c, operand *a, operand *b, const bool *needed)
{
  groups g;
  int labels[LABELS], n = 0;
  int64_t shape[CN_MAX_DIMS];
  prepare(a, b, needed);
  if (!a->x || !b->x) return cn_err();
  group(&g, a, b, needed);
  if (g.nboth + g.nleft + g.nright > CN_MAX_DIMS) return cn_call_fail(c, CN_ERR_SHAPE, "too many dimensions");
  for (int i = 0; i < g.nboth; i++) shape[n++] = a->x->d.shape[dim_of(a, g.both[i])];
  for (int i = 0; i < g.nleft; i++) shape[n++] = a->x->d.shape[dim_of(a, g.left[i])];
  for (int i = 0; i < g.nright; i++) shape[n++] = b->x->d.shape[dim_of(b, g.right[i])];
  append(labels, g.both, g.nboth);
  append(labels + g.nboth, g.left, g.nleft);
  append(labels + g.nboth + g.nleft, g.sum, g.nsum);
  cn_tensor *left = in_three(a, labels, (int[]){g.nboth, g.nleft, g.nsum}); /* (B, M, K) */
  append(labels + g.nboth, g.sum, g.nsum);
  append(labels + g.nboth + g.nsum, g.right, g.nright);
  cn_tensor *right = in_three(b, labels, (int[]){g.nboth, g.nsum, g.nright}); /* (B, K, N) */
  if (!left || !right) return cn_err();
  if (g.nsum && left->d.dtype != right->d.dtype && !cni_dtype_is_float(left->d.dtype)) { /* one was summed already */
    left = cni_in_type(left, CN_I64);
    right = cni_in_type(right, CN_I64);
  }
  cn_tensor *y = g.nsum ? cn_bmm(left, right) : cn_mul(left, right); /* or nothing is summed: (B, M, 1) by (B, 1, N) */
  a->x = cn_reshape(y, shape, (size_t)n);
  append(a->label, g.both, g.nboth);
  append(a->label + g.nboth, g.left, g.nleft);
  append(a->label + g.nboth + g.nleft, g.right, g.nright);
  return cn_err();
}

/* ---- einsum(equation, operands) ---- */

typedef struct equation {
  const char *text;             /* what is not read yet */
  int dots;                     /* most dims an ellipsis stands for */
  int count[LABELS];            /* how often a letter occurs in the operands */
  int64_t size[LABELS];         /* of each label, 0 while unknown */
  int out[CN_MAX_DIMS + LETTERS], nout;
} equation;

static int label_of(char letter) { return isupper((unsigned char)letter) ? letter - 'A' : letter - 'a' + 26; }

/* The next term up to , or -> or the end: letters to `labels`, *dots the place of an ellipsis or -1. Returns the number
 * of letters; negative: an error. */
static int read_term(const cn_call *c, equation *e, int *labels, int *dots)
{
  int n = 0;
  *dots = -1;
  for (; *e->text && *e->text != ',' && *e->text != '-'; e->text++) {
    if (*e->text == ' ') continue;
    if (*e->text == '.') {
      if (strncmp(e->text, "...", 3) || *dots >= 0)
        return cn_call_fail(c, CN_ERR_VALUE, "'.' stands for an ellipsis '...' only, once in a term: %s",
                            cni_arg_str(c->args, 0));
      *dots = n;
      e->text += 2;
      continue;
    }
    if (!isalpha((unsigned char)*e->text))
      return cn_call_fail(c, CN_ERR_VALUE, "a subscript must be a letter, not '%c': %s", *e->text,
                          cni_arg_str(c->args, 0));
    if (n == CN_MAX_DIMS) return cn_call_fail(c, CN_ERR_SHAPE, "too many subscripts in a term");
    labels[n++] = label_of(*e->text);
  }
  return n;
}

/* Labels of operand `which`, its repeated ones as diagonals; sizes are noted. */
static int read_operand(const cn_call *c, equation *e, operand *o, int which)
{
  int letters[CN_MAX_DIMS], all[CN_MAX_DIMS], dots, n = read_term(c, e, letters, &dots), total = 0;
  if (n < 0) return n;
  int ndim = c->in[which]->d.ndim, wide = ndim - n;
  if (wide < 0 || (wide > 0 && dots < 0))
    return cn_call_fail(c, CN_ERR_SHAPE, "%d subscripts are given for operand %d of %d dimensions", n, which, ndim);
  if (wide > e->dots) e->dots = wide;
  for (int i = 0; i <= n; i++) {
    for (int k = 0; i == dots && k < wide; k++) all[total++] = LABELS - wide + k; /* aligned at the right */
    if (i < n) all[total++] = letters[i];
  }
  o->x = c->in[which];
  for (int i = 0; i < n; i++) e->count[letters[i]]++;
  for (int i = 0; i < ndim; i++) {
    int64_t *size = &e->size[all[i]], own = c->in[which]->d.shape[i];
    if (*size == 0 || *size == 1) *size = own ? own : -1;
    else if (own != 1 && own != (*size < 0 ? 0 : *size))
      return cn_call_fail(c, CN_ERR_SHAPE, "a subscript of size %lld in operand %d does not broadcast with size %lld",
                          (long long)own, which, (long long)(*size < 0 ? 0 : *size));
  }
  memcpy(o->label, all, (size_t)ndim * sizeof *all);
  return CN_OK;
}

/* Dims of one operand with the same label become their diagonal. */
static int take_diagonals(const cn_call *c, operand *o)
{
  for (int i = 0; o->x && i < o->x->d.ndim; i++)
    for (int k = o->x->d.ndim - 1; k > i; k--) {
      if (o->label[k] != o->label[i]) continue;
      if (o->x->d.shape[i] != o->x->d.shape[k])
        return cn_call_fail(c, CN_ERR_SHAPE, "a subscript is repeated for sizes %lld and %lld",
                            (long long)o->x->d.shape[i], (long long)o->x->d.shape[k]);
      int last = o->x->d.ndim - 2;
      cn_tensor *d = cn_diagonal(o->x, .dim1 = cni_option(i), .dim2 = cni_option(k));
      o->x = cn_movedim(d, CN_SHAPE(last), CN_SHAPE(i));
      if (!o->x) return cn_err();
      for (int m = k; m <= last; m++) o->label[m] = o->label[m + 1];
    }
  return cn_err();
}

static int add_dots(const cn_call *c, equation *e)
{
  if (e->nout + e->dots > CN_MAX_DIMS) return cn_call_fail(c, CN_ERR_SHAPE, "the result has too many dimensions");
  for (int k = 0; k < e->dots; k++) e->out[e->nout++] = LABELS - e->dots + k;
  return CN_OK;
}

/* The labels of the result: as written behind ->, or all that occur once, in alphabetical order. */
static int read_result(const cn_call *c, equation *e)
{
  int letters[CN_MAX_DIMS], dots, status = CN_OK;
  bool seen[LABELS] = {false};
  if (!*e->text) {
    status = add_dots(c, e);
    for (int l = 0; l < LETTERS; l++)
      if (e->count[l] == 1) e->out[e->nout++] = l;
    return status || e->nout <= CN_MAX_DIMS ? status
                                            : cn_call_fail(c, CN_ERR_SHAPE, "the result has too many dimensions");
  }
  e->text += 2;
  int n = read_term(c, e, letters, &dots);
  if (n < 0) return n;
  if (*e->text) return cn_call_fail(c, CN_ERR_VALUE, "text behind the result: %s", cni_arg_str(c->args, 0));
  for (int i = 0; i <= n && !status; i++) {
    if (i == dots) status = add_dots(c, e);
    if (i == n || status) continue;
    if (!e->count[letters[i]] || seen[letters[i]])
      return cn_call_fail(c, CN_ERR_VALUE, "a subscript of the result %s: %s",
                          seen[letters[i]] ? "is repeated" : "occurs in no operand", cni_arg_str(c->args, 0));
    seen[letters[i]] = true;
    if (e->nout == CN_MAX_DIMS) return cn_call_fail(c, CN_ERR_SHAPE, "the result has too many dimensions");
    e->out[e->nout++] = letters[i];
  }
  return status;
}

/* The result's labels in its order; what is not among them is summed. */
static int finish(cn_call *c, const equation *e, operand *o)
{
  bool drop[LABELS];
  int64_t order[CN_MAX_DIMS];
  for (int l = 0; l < LABELS; l++) drop[l] = true;
  for (int i = 0; i < e->nout; i++) drop[e->out[i]] = false;
  without(o, drop);
  if (!o->x) return cn_err();
  for (int i = 0; i < e->nout; i++) order[i] = dim_of(o, e->out[i]);
  c->out[0] = cn_permute(o->x, order, (size_t)e->nout);
  return cn_err();
}

enum { OPERANDS = 32 };

static int einsum_decompose(cn_call *c)
{
  equation e = {.text = cni_arg_str(c->args, 0)};
  operand list[OPERANDS];
  int n = c->nin, status = CN_OK;
  if (n < 1 || n > OPERANDS) return cn_call_fail(c, CN_ERR_VALUE, "takes 1 to %d operands, not %d", OPERANDS, n);
  for (int i = 0; i < n && !status; i++) {
    if (i && *e.text++ != ',')
      return cn_call_fail(c, CN_ERR_VALUE, "fewer terms than operands: %s", cni_arg_str(c->args, 0));
    status = read_operand(c, &e, &list[i], i);
    if (!status) status = take_diagonals(c, &list[i]);
  }
  if (status) return status;
  if (*e.text && strncmp(e.text, "->", 2))
    return cn_call_fail(c, CN_ERR_VALUE, "more terms than operands, or no -> behind '-': %s", cni_arg_str(c->args, 0));
  if ((status = read_result(c, &e))) return status;
  for (int i = 1; i < n && !status; i++) {
    bool needed[LABELS] = {false};
    for (int k = 0; k < e.nout; k++) needed[e.out[k]] = true;
    for (int k = i + 1; k < n; k++)
      for (int d = 0; d < list[k].x->d.ndim; d++) needed[list[k].label[d]] = true;
    status = contract(c, &list[0], &list[i], needed);
  }
  return status ? status : finish(c, &e, &list[0]);
}

/* ---- tensordot, inner, kron ---- */

/* tensordot(input, other, dims_self, dims_other) */
static int tensordot_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0], *y = c->in[1];
  const cn_value *dx = &c->args[2], *dy = &c->args[3];
  operand a = {.x = x}, b = {.x = y};
  bool needed[LABELS];
  if (dx->n != dy->n) return cn_call_fail(c, CN_ERR_VALUE, "the two lists of dims differ in length");
  int status = check_one_type(c, x, y);
  if (status) return status;
  for (int l = 0; l < LABELS; l++) needed[l] = true;
  for (int i = 0; i < x->d.ndim; i++) a.label[i] = i;
  for (int i = 0; i < y->d.ndim; i++) b.label[i] = CN_MAX_DIMS + i;
  for (int i = 0; i < dx->n; i++) {
    int k = cn_call_dim(c, dx->u.is[i], x->d.ndim), l = cn_call_dim(c, dy->u.is[i], y->d.ndim);
    if (k < 0 || l < 0) return cn_err();
    if (!needed[k] || b.label[l] < CN_MAX_DIMS) return cn_call_fail(c, CN_ERR_VALUE, "a dimension appears twice");
    if (x->d.shape[k] != y->d.shape[l] && x->d.shape[k] != 1 && y->d.shape[l] != 1)
      return misfit(c, x, y, "contracted dimensions must have the same size");
    needed[k] = false;
    b.label[l] = k;
  }
  status = contract(c, &a, &b, needed);
  c->out[0] = cni_in_type(a.x, x->d.dtype);
  return status ? status : cn_err();
}

static int inner_decompose(cn_call *c)
{
  cn_tensor *a = c->in[0], *b = c->in[1];
  int64_t last = -1;
  if (a->d.ndim == 0 || b->d.ndim == 0) c->out[0] = cn_mul(a, b);
  else if (a->d.shape[a->d.ndim - 1] != b->d.shape[b->d.ndim - 1])
    return misfit(c, a, b, "the last dimensions must have the same size");
  else c->out[0] = cn_tensordot(a, b, &last, 1, &last, 1);
  return cn_err();
}

/* x: (..., n, 1) or (..., 1, n), its last two dims expanded to (m, n) and made one, as a copy. */
static cn_tensor *spread_last(cn_tensor *x, int64_t m, int64_t n)
{
  int64_t shape[CN_MAX_DIMS];
  if (!x) return NULL;
  int ndim = x->d.ndim;
  memcpy(shape, x->d.shape, (size_t)ndim * sizeof *shape);
  shape[ndim - 2] = m, shape[ndim - 1] = n;
  x = cn_expand(x, shape, (size_t)ndim);
  shape[ndim - 2] = m * n;
  return cn_reshape(x, shape, (size_t)ndim - 1);
}

enum { SHORT_ROW = 128, WORTHWHILE = 4 };

static int kron_decompose(cn_call *c)
{
  cn_tensor *a = c->in[0], *b = c->in[1];
  int n = a->d.ndim > b->d.ndim ? a->d.ndim : b->d.ndim;
  int64_t wide_a[2 * CN_MAX_DIMS] = {0}, wide_b[2 * CN_MAX_DIMS] = {0}, shape[CN_MAX_DIMS];
  if (2 * n > CN_MAX_DIMS) return cn_call_fail(c, CN_ERR_SHAPE, "too many dimensions");
  for (int i = 0; i < n; i++) {
    int ia = i - (n - a->d.ndim), ib = i - (n - b->d.ndim);
    int64_t sa = ia < 0 ? 1 : a->d.shape[ia], sb = ib < 0 ? 1 : b->d.shape[ib];
    wide_a[2 * i] = sa, wide_a[2 * i + 1] = 1;
    wide_b[2 * i] = 1, wide_b[2 * i + 1] = sb;
    if (__builtin_mul_overflow(sa, sb, &shape[i])) return cn_call_fail(c, CN_ERR_SHAPE, "the result is too large");
  }
  cn_tensor *left = cn_reshape(a, wide_a, 2 * (size_t)n), *right = cn_reshape(b, wide_b, 2 * (size_t)n);
  if (n > 1 && b->d.numel && wide_b[2 * n - 1] < SHORT_ROW) { /* longer rows pay where both copies are small */
    int64_t m = wide_a[2 * n - 2], k = wide_b[2 * n - 1];
    if (cni_numel(n, shape) / WORTHWHILE > a->d.numel * k + b->d.numel * m) {
      left = spread_last(left, m, k);
      right = spread_last(right, m, k);
    }
  }
  c->out[0] = cn_reshape(cn_mul(left, right), shape, (size_t)n);
  return cn_err();
}

/* ---- vectors along a dim ---- */

static int vdot_decompose(cn_call *c)
{
  c->out[0] = cn_dot(c->in[0], c->in[1]);
  return cn_err();
}

/* linalg_vecdot(x, y, dim) */
static int vecdot_decompose(cn_call *c)
{
  int64_t shape[CN_MAX_DIMS], dim = cni_arg_int(c->args, 2), last = -1;
  cn_tensor *x = c->in[0], *y = c->in[1];
  int ndim, status = check_one_type(c, x, y);
  if (status || (status = cni_broadcast_inputs(c, c->in, 2, &ndim, shape))) return status;
  int at = cn_call_dim(c, dim, ndim);
  if (at < 0) return at;
  if (ndim == 0) return c->out[0] = cn_mul(x, y), cn_err();
  if (cni_is_half(x->d.dtype) && ndim > 1) { /* the products are stored, as in PyTorch */
    c->out[0] = cn_sum(cn_mul(x, y), .dim = CN_INTS(dim));
    return cn_err();
  }
  x = cn_movedim(cn_expand(x, shape, (size_t)ndim), CN_SHAPE(at), &last, 1);
  y = cn_movedim(cn_expand(y, shape, (size_t)ndim), CN_SHAPE(at), &last, 1);
  cn_tensor *z = cn_matmul(cn_unsqueeze(x, -2), cn_unsqueeze(y, -1));
  c->out[0] = cn_squeeze(z, .dim = CN_INTS(-1, -2));
  return cn_err();
}

/* Element i is a[i+1] b[i+2] - a[i+2] b[i+1], counted around. */
static cn_tensor *cross_along(cn_tensor *a, cn_tensor *b, int64_t dim)
{
  cn_tensor *out[3] = {NULL};
  int dtype = a->d.dtype;
  bool plain = dtype == b->d.dtype && (dtype == CN_F32 || dtype == CN_F64); /* halves round each product */
  for (int i = 0; i < 3; i++) {
    int j = (i + 1) % 3, k = (i + 2) % 3;
    cn_tensor *first = cn_mul(cn_select(a, dim, j), cn_select(b, dim, k));
    cn_tensor *ak = cn_select(a, dim, k), *bj = cn_select(b, dim, j);
    out[i] = plain ? cn_addcmul(first, ak, bj, .value = -1) : cn_sub(first, cn_mul(ak, bj));
  }
  return cn_stack(out, 3, .dim = cni_option(dim));
}

/* linalg_cross(input, other, dim): dims count from the end of the broadcast shape. */
static int linalg_cross_decompose(cn_call *c)
{
  cn_tensor *a = c->in[0], *b = c->in[1];
  if (a->d.ndim != b->d.ndim) return misfit(c, a, b, "they must have the same number of dimensions");
  int dim = cn_call_dim(c, cni_arg_int(c->args, 2), a->d.ndim);
  if (dim < 0) return dim;
  if (a->d.ndim == 0 || a->d.shape[dim] != 3 || b->d.shape[dim] != 3)
    return misfit(c, a, b, "the dimension of the vectors must have size 3");
  c->out[0] = cross_along(a, b, dim);
  return cn_err();
}

/* cross(input, other, dim): without dim the first one of size 3. */
static int cross_decompose(cn_call *c)
{
  int64_t shape[CN_MAX_DIMS], dim = cni_arg_int_or(c->args, 2, 0);
  if (cni_arg_none(c->args, 2)) {
    int ndim, status = cni_broadcast_inputs(c, c->in, 2, &ndim, shape);
    if (status) return status;
    while (dim < ndim && shape[dim] != 3) dim++;
    if (dim == ndim) return misfit(c, c->in[0], c->in[1], "no dimension has size 3");
  }
  c->out[0] = cn_linalg_cross(c->in[0], c->in[1], .dim = cni_option(dim));
  return cn_err();
}

/* ---- a product and something else ---- */

enum { BETA = 3, ALPHA = 4 }; /* parameters */

/* alpha or beta as an option of addmm; integer tensors know whole factors only, and drop the rest of others. */
static double factor_of(const cn_call *c, int param)
{
  double f = cni_arg_float(c->args, param);
  return cni_option_float(cni_dtype_is_inexact(c->in[0]->d.dtype) ? f : trunc(f));
}

static cn_tensor *scaled(cn_tensor *x, double factor)
{
  if (factor == 1) return x;
  return cn_mul(x, cni_is_whole(factor) ? cn_int((int64_t)factor) : cn_num(factor));
}

/* addmv(input, mat (m, k), vec (k), beta, alpha) */
static int addmv_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0], *mat = c->in[1], *vec = c->in[2];
  if (mat->d.ndim != 2 || vec->d.ndim != 1 || mat->d.shape[1] != vec->d.shape[0])
    return misfit(c, mat, vec, "no product of a matrix and a vector");
  if (x->d.ndim > 1 || (x->d.ndim == 1 && x->d.shape[0] != 1 && x->d.shape[0] != mat->d.shape[0]))
    return misfit(c, x, mat, "input does not broadcast to the product");
  cn_tensor *wide = x->d.ndim == 1 ? cn_unsqueeze(x, 1) : x;
  cn_tensor *y = cn_addmm(wide, mat, cn_unsqueeze(vec, 1), .beta = factor_of(c, BETA),
                          .alpha = factor_of(c, ALPHA));
  c->out[0] = cn_squeeze(y, .dim = CN_INTS(1));
  return cn_err();
}

/* addbmm(input, batch1 (B, n, m), batch2 (B, m, p), beta, alpha): one product over B and m. */
static int addbmm_decompose(cn_call *c)
{
  cn_tensor *a = c->in[1], *b = c->in[2];
  if (a->d.ndim != 3 || b->d.ndim != 3 || a->d.shape[0] != b->d.shape[0] || a->d.shape[2] != b->d.shape[1])
    return misfit(c, a, b, "no products of a batch of matrices");
  int64_t batch = a->d.shape[0], n = a->d.shape[1], m = a->d.shape[2], p = b->d.shape[2];
  if (cni_is_half(c->in[0]->d.dtype) && batch) { /* stored after each product, as in PyTorch */
    c->out[0] = c->in[0];
    for (int64_t i = 0; i < batch; i++)
      c->out[0] = cn_addmm(c->out[0], cn_select(a, 0, i), cn_select(b, 0, i),
                           .beta = i ? 1 : factor_of(c, BETA), .alpha = factor_of(c, ALPHA));
    return cn_err();
  }
  cn_tensor *left = cn_reshape(cn_permute(a, CN_SHAPE(1, 0, 2)), CN_SHAPE(n, batch * m));
  c->out[0] = cn_addmm(c->in[0], left, cn_reshape(b, CN_SHAPE(batch * m, p)),
                       .beta = factor_of(c, BETA),
                       .alpha = factor_of(c, ALPHA));
  return cn_err();
}

/* addr(input, vec1 (n), vec2 (m), beta, alpha); with beta 0 input is not looked at. */
static int addr_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0], *a = c->in[1], *b = c->in[2];
  double beta = cni_arg_float(c->args, BETA), alpha = cni_arg_float(c->args, ALPHA);
  if (a->d.ndim != 1 || b->d.ndim != 1) return misfit(c, a, b, "takes two vectors");
  int64_t shape[2] = {a->d.numel, b->d.numel};
  if (!cni_broadcasts_to(x->d.ndim, x->d.shape, 2, shape))
    return misfit(c, x, a, "input does not broadcast to the product");
  int dtype = cni_result_type(c, c->in, 3);
  if (!dtype) return cn_err();
  if (!cni_dtype_is_float(dtype) && !(cni_is_whole(alpha) && cni_is_whole(beta)))
    return cn_call_fail(c, CN_ERR_VALUE, "alpha and beta must be whole numbers for integer tensors");
  if (dtype == CN_BOOL) {
    cn_tensor *y = cn_logical_and(cn_unsqueeze(a, 1), b);
    if (alpha == 0) y = cn_zeros_like(y);
    c->out[0] = beta == 0 ? y : cn_logical_or(x, y);
    return cn_err();
  }
  cn_tensor *y = cn_mul(cn_unsqueeze(scaled(a, cni_stored(alpha, dtype)), 1), b);
  if (beta != 0) y = cn_add(scaled(x, cni_stored(beta, dtype)), y);
  c->out[0] = cni_in_type(y, dtype);
  return cn_err();
}

/* ---- bilinear(input1, input2, weight, bias): y[k] = x1 W[k] x2 + bias[k] ---- */

static int bilinear_check(const cn_call *c)
{
  const cn_desc *a = &c->in[0]->d, *b = &c->in[1]->d, *w = &c->in[2]->d;
  if (a->ndim < 1 || a->ndim != b->ndim)
    return cn_call_fail(c, CN_ERR_SHAPE, "input dimensions do not match: got %d and %d", a->ndim, b->ndim);
  for (int i = 0; i < a->ndim - 1; i++)
    if (a->shape[i] != b->shape[i])
      return cn_call_fail(c, CN_ERR_SHAPE, "input batch dimensions do not match at dim %d: got %lld and %lld", i,
                          (long long)a->shape[i], (long long)b->shape[i]);
  if (w->ndim != 3) return cn_call_fail(c, CN_ERR_SHAPE, "weight must have 3 dims, not %d", w->ndim);
  if (a->shape[a->ndim - 1] != w->shape[1] || b->shape[b->ndim - 1] != w->shape[2])
    return cn_call_fail(c, CN_ERR_SHAPE, "weight takes vectors of %lld and %lld, but the inputs have %lld and %lld",
                        (long long)w->shape[1], (long long)w->shape[2], (long long)a->shape[a->ndim - 1],
                        (long long)b->shape[b->ndim - 1]);
  if (c->in[3] && (c->in[3]->d.ndim != 1 || c->in[3]->d.shape[0] != w->shape[0]))
    return cn_call_fail(c, CN_ERR_SHAPE, "bias must have size %lld", (long long)w->shape[0]);
  return CN_OK;
}
static int bilinear_decompose(cn_call *c)
{
  const cn_desc *a = &c->in[0]->d, *w = &c->in[2]->d;
  int status = bilinear_check(c);
  if (status) return status;
  int64_t k = w->shape[0], i = w->shape[1], j = w->shape[2], n = 1, shape[CN_MAX_DIMS];
  for (int d = 0; d < a->ndim - 1; d++) n *= shape[d] = a->shape[d];
  shape[a->ndim - 1] = k;
  cn_tensor *wide = cn_reshape(cn_permute(c->in[2], CN_SHAPE(1, 0, 2)), CN_SHAPE(i, k * j));
  cn_tensor *left = cn_reshape(cn_mm(cn_reshape(c->in[0], CN_SHAPE(n, i)), wide), CN_SHAPE(n, k, j));
  cn_tensor *y = cn_reshape(cn_bmm(left, cn_reshape(c->in[1], CN_SHAPE(n, j, 1))), shape, (size_t)a->ndim);
  c->out[0] = c->in[3] ? cn_add(y, c->in[3]) : y;
  return cn_err();
}

/* clang-format off */
const cn_op cni_contract_ops[] = {
  {.sig = "einsum(str equation, Tensor[] operands) -> Tensor ; complex",
   .doc = "Sums of products in Einstein's notation, 'bij,bjk->bik': letters name dimensions, what is not behind -> is "
          "summed over, '...' stands for further dimensions, which broadcast. Without -> the result has the letters "
          "that occur once, in alphabetical order. Operands are multiplied from the left.",
   .flags = CN_OP_COMPOSITE, .decompose = einsum_decompose, .copied = 0xffff},
  {.sig = "tensordot(Tensor input, Tensor other, int[] dims_self, int[] dims_other) -> Tensor ; amp_wide_device "
          "complex",
   .doc = "Products summed over dims_self of input and dims_other of other; the result has their other dimensions.",
   .flags = CN_OP_COMPOSITE, .decompose = tensordot_decompose},
  {.sig = "inner(Tensor input, Tensor other) -> Tensor ; method complex",
   .doc = "Products summed over the last dimension of both; numbers multiply.",
   .flags = CN_OP_COMPOSITE, .decompose = inner_decompose},
  {.sig = "kron(Tensor input, Tensor other) -> Tensor ; method complex",
   .doc = "Kronecker product: each element of input times the whole of other.",
   .flags = CN_OP_COMPOSITE, .decompose = kron_decompose, .copied = CN_IN(0) | CN_IN(1)},
  {.sig = "vdot(Tensor input, Tensor other) -> Tensor ; method",
   .doc = "Sum of the products of the elements of two vectors.",
   .flags = CN_OP_COMPOSITE, .decompose = vdot_decompose},
  {.sig = "linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor ; linalg amp_low",
   .doc = "Sums of the products of vectors along a dimension; the others broadcast.",
   .flags = CN_OP_COMPOSITE, .decompose = vecdot_decompose},
  {.sig = "linalg_cross(Tensor input, Tensor other, *, int dim=-1) -> Tensor ; linalg complex",
   .doc = "Cross products of vectors of three elements along a dimension; the others broadcast.",
   .flags = CN_OP_COMPOSITE, .decompose = linalg_cross_decompose},
  {.sig = "cross(Tensor input, Tensor other, int? dim=None) -> Tensor ; method amp_wide_device complex",
   .doc = "Cross products along dim, without it along the first dimension of size 3.",
   .flags = CN_OP_COMPOSITE, .decompose = cross_decompose},
  {.sig = "addmv(Tensor input, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor "
          "; method inplace amp_low_device complex",
   .doc = "beta * input + alpha * (mat x vec); input is broadcast to (m). With beta 0 it is not looked at.",
   .flags = CN_OP_COMPOSITE, .decompose = addmv_decompose},
  {.sig = "addbmm(Tensor input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) "
          "-> Tensor ; method inplace amp_low complex",
   .doc = "beta * input + alpha * the sum of bmm(batch1, batch2) over the batch. With beta 0 input is not looked at.",
   .flags = CN_OP_COMPOSITE, .decompose = addbmm_decompose},
  {.sig = "addr(Tensor input, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor "
          "; method inplace amp_low_device complex",
   .doc = "beta * input + alpha * outer(vec1, vec2). With beta 0 input is not looked at.",
   .flags = CN_OP_COMPOSITE, .decompose = addr_decompose},
  {.sig = "bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor ; nn amp_wide_device "
          "complex",
   .doc = "input1 weight[k] input2 + bias[k] for each k, over vectors in the last dimension.",
   .flags = CN_OP_COMPOSITE, .decompose = bilinear_decompose},
};
/* clang-format on */
CNI_FAMILY(contract);
