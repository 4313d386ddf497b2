/* cost.c: what a call costs: floating-point operations, and bytes read and written.
 *
 * Place in the flow: an op that multiplies or adds up names a rule in its row (cn_op.cost), formulas are counted by the
 * steps of their programs, the others by what they move. Profiles ask for each call, cn_op_cost and cn_graph_costs
 * (graph/cost.c) before anything runs. Invariant: types and sizes alone decide, not the kernel that runs: a convolution
 * counts its products whatever transform saves some of them, as PyTorch's counter has it. */
#include "cost.h"

#include <math.h>

#include "program.h"
#include "tensor/tensor.h"

/* ---- sizes ---- */

static const cn_desc *input(const cn_call *c, int i) { return i < c->nin && c->in[i] ? &c->in[i]->d : NULL; }

static double numel_of(const cn_desc *d) { return d ? (double)d->numel : 0; }

static double size_at(const cn_desc *d, int dim)
{
  if (dim < 0) dim += d ? d->ndim : 0;
  return d && dim >= 0 && dim < d->ndim ? (double)d->shape[dim] : 1;
}

/* Elements of a result; where data decides how many, as many as there are by now. */
static double result(const cn_call *c, int i)
{
  if (i >= c->nout) return 0;
  if (c->out && c->out[i]) return (double)c->out[i]->d.numel;
  return c->spec[i].data_dependent ? 0 : (double)cni_numel(c->spec[i].ndim, c->spec[i].shape);
}

static double bytes_of(int dtype, double n) { return n * (double)cni_dtype_bytes(dtype, 8) / 8; }

static double result_bytes(const cn_call *c, int i)
{
  return bytes_of(c->out && c->out[i] ? c->out[i]->d.dtype : c->spec[i].dtype, result(c, i));
}

/* What is broadcast is read once. */
static double input_bytes(const cn_desc *d)
{
  double n = 1;
  if (!d || d->weak) return 0;
  for (int i = 0; i < d->ndim; i++) n *= d->strides[i] || !d->shape[i] ? (double)d->shape[i] : 1;
  return bytes_of(d->dtype, n);
}

/* ---- products ---- */

static void multiply_adds(cn_cost *cost, double n)
{
  cost->products += 2 * n;
  cost->flops += 2 * n;
}

void cni_cost_product(cn_cost *cost, const cn_call *c) { multiply_adds(cost, result(c, 0) * size_at(input(c, 0), -1)); }
void cni_cost_addmm(cn_cost *cost, const cn_call *c) { multiply_adds(cost, result(c, 0) * size_at(input(c, 1), -1)); }

/* Of one element that a convolution gives: weight (K, C / groups, ...). */
static double per_result(double weights, double channels) { return channels > 0 ? weights / channels : 0; }

void cni_cost_conv(cn_cost *cost, const cn_call *c)
{
  const cn_desc *w = input(c, 1);
  multiply_adds(cost, result(c, 0) * per_result(numel_of(w), size_at(w, 0)));
}

/* (grad, weight) and (grad, input): the convolution's products once more */
void cni_cost_conv_input(cn_cost *cost, const cn_call *c)
{
  const cn_desc *w = input(c, 1);
  multiply_adds(cost, numel_of(input(c, 0)) * per_result(numel_of(w), size_at(w, 0)));
}
void cni_cost_conv_weight(cn_cost *cost, const cn_call *c)
{
  const cn_desc *g = input(c, 0);
  multiply_adds(cost, numel_of(g) * per_result(result(c, 0), size_at(g, -3)));
}

/* Products of queries (..., L, E) with keys (..., S, E), or with values (..., S, Ev); masks save none. */
static double scores(const cn_desc *q, const cn_desc *k) { return numel_of(q) / size_at(q, -1) * size_at(k, -2); }

void cni_cost_attention(cn_cost *cost, const cn_call *c)
{
  const cn_desc *q = input(c, 0), *k = input(c, 1), *v = input(c, 2);
  if (numel_of(q) == 0) return;
  multiply_adds(cost, scores(q, k) * (size_at(q, -1) + size_at(v, -1)));
  cost->flops += 5 * scores(q, k); /* the softmax */
}

/* (grad, query, key, value, ...): scores again, and the gradients of both products */
void cni_cost_attention_backward(cn_cost *cost, const cn_call *c)
{
  const cn_desc *q = input(c, 1), *k = input(c, 2), *v = input(c, 3);
  if (numel_of(q) == 0) return;
  multiply_adds(cost, scores(q, k) * (3 * size_at(q, -1) + 2 * size_at(v, -1)));
  cost->flops += 8 * scores(q, k);
}

/* (keys (B, Hk, L, D), values, output, query (B, H, 1, D), ...): to all of the cache, at most */
void cni_cost_attend_step(cn_cost *cost, const cn_call *c)
{
  multiply_adds(cost, 2 * numel_of(input(c, 3)) * size_at(input(c, 0), 2));
}

/* (keys (layers, B, Hk, L, D), values, output, input (B, 1, C), position, cosines, sines, weights...) */
void cni_cost_decoder_step(cn_cost *cost, const cn_call *c)
{
  const cn_desc *keys = input(c, 0), *x = input(c, 3);
  double rows = size_at(x, 0);
  for (int i = 7; i < c->nin; i++)
    if (c->in[i] && c->in[i]->d.ndim == 2) multiply_adds(cost, rows * numel_of(&c->in[i]->d));
  multiply_adds(cost, 2 * size_at(keys, 0) * numel_of(x) * size_at(keys, 3));
}

/* (input (..., n), w_ih (gates H, n), w_hh (gates H, H), ...) */
void cni_cost_recurrent(cn_cost *cost, const cn_call *c)
{
  const cn_desc *x = input(c, 0), *w = input(c, 1), *h = input(c, 2);
  double rows = numel_of(x) / fmax(size_at(x, -1), 1);
  multiply_adds(cost, rows * (numel_of(w) + numel_of(h)));
  cost->flops += 4 * rows * size_at(h, 0);
}

/* (w_hh, h0, output (..., H), ...) */
void cni_cost_recurrent_grad(cn_cost *cost, const cn_call *c)
{
  const cn_desc *h = input(c, 0), *y = input(c, 2);
  double rows = numel_of(y) / fmax(size_at(y, -1), 1);
  multiply_adds(cost, rows * numel_of(h));
  cost->flops += 8 * rows * size_at(h, 0);
}

/* (input (N, n), linear_weight (V, n), ...): the scores, and a product for each gradient that is made */
void cni_cost_linear_cross_entropy(cn_cost *cost, const cn_call *c)
{
  const cn_desc *x = input(c, 0), *w = input(c, 1);
  double one = numel_of(x) * size_at(w, 0);
  multiply_adds(cost, one * (1 + (result(c, 1) > 0) + (result(c, 2) > 0)));
  cost->flops += 5 * size_at(x, 0) * size_at(w, 0);
}

/* ---- other arithmetic ---- */

void cni_cost_pointwise(cn_cost *cost, const cn_call *c)
{
  const cni_program *p = cni_program_of(c);
  int steps = 0;
  for (int i = 0; p && i < p->nstep; i++) steps += p->steps[i].prim != CNI_PW_convert;
  cost->flops += steps * result(c, 0);
}

static void each(cn_cost *cost, const cn_call *c, double steps) { cost->flops += steps * numel_of(input(c, 0)); }

void cni_cost_reduce(cn_cost *cost, const cn_call *c) { each(cost, c, 1); }
void cni_cost_moments(cn_cost *cost, const cn_call *c) { each(cost, c, 4); }
void cni_cost_softmax(cn_cost *cost, const cn_call *c) { each(cost, c, 5); }
void cni_cost_affine(cn_cost *cost, const cn_call *c) { each(cost, c, 2); }
void cni_cost_norm(cn_cost *cost, const cn_call *c) { each(cost, c, 8); }
void cni_cost_norm_backward(cn_cost *cost, const cn_call *c) { each(cost, c, 12); }

/* Elements of a window, which an int[2] says. */
static double window(const cn_value *v)
{
  double n = 1;
  if (v->tag == CN_V_INT) return (double)v->u.i * (double)v->u.i;
  for (int i = 0; v->tag == CN_V_INTS && i < 2; i++) n *= (double)v->u.is[v->n > 1 ? i : 0];
  return n;
}

void cni_cost_window(cn_cost *cost, const cn_call *c) { cost->flops += result(c, 0) * window(&c->args[1]); }
void cni_cost_window_backward(cn_cost *cost, const cn_call *c) { each(cost, c, window(&c->args[2])); }

/* (..., P, M) and (..., R, M): a difference, its power and the sum */
void cni_cost_distance(cn_cost *cost, const cn_call *c)
{
  cost->flops += 3 * result(c, 0) * size_at(input(c, 0), -1);
}

/* Lines of n points: 5 n log2 n, of real numbers half of that. */
static double transform(double points, double n) { return n > 1 ? 5 * points * log2(n) : 0; }

void cni_cost_fft(cn_cost *cost, const cn_call *c) /* (..., n, 2) */
{
  cost->flops += transform(numel_of(input(c, 0)) / 2, size_at(input(c, 0), -2));
}
void cni_cost_rfft(cn_cost *cost, const cn_call *c) /* (..., n) */
{
  cost->flops += transform(numel_of(input(c, 0)), size_at(input(c, 0), -1)) / 2;
}
void cni_cost_irfft(cn_cost *cost, const cn_call *c) /* to (..., n): argument 1 */
{
  cost->flops += transform(result(c, 0), (double)c->args[1].u.i) / 2;
}

/* ---- linear algebra ---- */

/* How many matrices of how many rows and columns. */
typedef struct matrices {
  double count, m, n, least;
} matrices;

static matrices matrices_of(const cn_desc *d)
{
  matrices a = {0, size_at(d, -2), size_at(d, -1), 0};
  a.least = fmin(a.m, a.n);
  a.count = a.m * a.n > 0 ? numel_of(d) / (a.m * a.n) : 0;
  return a;
}

/* factor n^3 of each square matrix. */
static void cubes(cn_cost *cost, const cn_call *c, double factor)
{
  matrices a = matrices_of(input(c, 0));
  cost->flops += factor * a.count * a.n * a.n * a.n;
}

void cni_cost_cholesky(cn_cost *cost, const cn_call *c) { cubes(cost, c, 1.0 / 3); }
void cni_cost_inverse(cn_cost *cost, const cn_call *c) { cubes(cost, c, 2); }
void cni_cost_matrix_exp(cn_cost *cost, const cn_call *c) { cubes(cost, c, 20); } /* some ten products */

void cni_cost_lu(cn_cost *cost, const cn_call *c)
{
  matrices a = matrices_of(input(c, 0));
  cost->flops += a.count * a.least * a.least * (fmax(a.m, a.n) - a.least / 3);
}

void cni_cost_triangular(cn_cost *cost, const cn_call *c) { cost->flops += result(c, 0) * size_at(input(c, 0), -2); }

void cni_cost_solve(cn_cost *cost, const cn_call *c)
{
  cni_cost_lu(cost, c);
  cost->flops += 2 * result(c, 0) * size_at(input(c, 0), -1);
}

void cni_cost_qr(cn_cost *cost, const cn_call *c)
{
  matrices a = matrices_of(input(c, 0));
  cost->flops += 4 * a.count * a.least * a.least * (fmax(a.m, a.n) - a.least / 3);
}

void cni_cost_eigen(cn_cost *cost, const cn_call *c)
{
  matrices a = matrices_of(input(c, 0));
  cost->flops += a.count * a.least * a.least * (4 * fmax(a.m, a.n) + 9 * a.least);
}
void cni_cost_eigenvalues(cn_cost *cost, const cn_call *c)
{
  matrices a = matrices_of(input(c, 0));
  cost->flops += a.count * a.least * a.least * (4 * fmax(a.m, a.n) - a.least * 4 / 3);
}

/* ---- parts of tables ---- */

static void part_of(cn_cost *cost, const cn_call *c, int table)
{
  double read = 0;
  for (int i = 0; i < c->nin; i++) read += i == table ? result_bytes(c, 0) : input_bytes(input(c, i));
  cost->read = read;
}
void cni_cost_gather(cn_cost *cost, const cn_call *c) { part_of(cost, c, 0); }
void cni_cost_embedding(cn_cost *cost, const cn_call *c) { part_of(cost, c, 1); }

/* ---- a call ---- */

void cni_cost(cn_cost *cost, const cn_call *c)
{
  const cn_op *row = c->op;
  *cost = (cn_cost){.size = sizeof *cost};
  if (row->flags & CN_OP_COMPOSITE || (c->nout && c->spec[0].view_of >= 0)) return;
  for (int i = 0; i < c->nin && !(row->flags & CN_OP_SHAPE_ONLY); i++) cost->read += input_bytes(input(c, i));
  for (int i = 0; i < c->nout; i++) cost->written += result_bytes(c, i);
  if (row->cost) row->cost(cost, c);
  else if (row->pointwise) cni_cost_pointwise(cost, c);
}
