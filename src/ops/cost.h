/* cost.h: what calls cost, and the rules that rows name (cn_op.cost). See cost.c. */
#ifndef CNI_OPS_COST_H
#define CNI_OPS_COST_H

#include <cairn/ext/op.h>

/* Of a call whose results are described, or there already. Composite ops, made of others, cost nothing here. */
void cni_cost(cn_cost *cost, const cn_call *c);
static inline void cni_cost_add(cn_cost *sum, const cn_cost *c, double times)
{
  sum->flops += times * c->flops;
  sum->products += times * c->products;
  sum->read += times * c->read;
  sum->written += times * c->written;
}

/* ---- products ---- */
void cni_cost_product(cn_cost *cost, const cn_call *c);  /* (..., m, k) by ...: mm, bmm, linear */
void cni_cost_addmm(cn_cost *cost, const cn_call *c);    /* ... from the second input on */
void cni_cost_conv(cn_cost *cost, const cn_call *c);
void cni_cost_conv_input(cn_cost *cost, const cn_call *c);
void cni_cost_conv_weight(cn_cost *cost, const cn_call *c);
void cni_cost_attention(cn_cost *cost, const cn_call *c);
void cni_cost_attention_backward(cn_cost *cost, const cn_call *c);
void cni_cost_attend_step(cn_cost *cost, const cn_call *c);
void cni_cost_decoder_step(cn_cost *cost, const cn_call *c);
void cni_cost_recurrent(cn_cost *cost, const cn_call *c);
void cni_cost_recurrent_grad(cn_cost *cost, const cn_call *c);
void cni_cost_linear_cross_entropy(cn_cost *cost, const cn_call *c);

/* ---- other arithmetic ---- */
void cni_cost_pointwise(cn_cost *cost, const cn_call *c); /* by the steps of its program */
void cni_cost_reduce(cn_cost *cost, const cn_call *c);    /* one step for each element of the first input */
void cni_cost_moments(cn_cost *cost, const cn_call *c);   /* deviations and their squares, too */
void cni_cost_softmax(cn_cost *cost, const cn_call *c);
void cni_cost_affine(cn_cost *cost, const cn_call *c);    /* scaled and shifted */
void cni_cost_norm(cn_cost *cost, const cn_call *c);
void cni_cost_norm_backward(cn_cost *cost, const cn_call *c);
void cni_cost_window(cn_cost *cost, const cn_call *c);    /* pools: kernel_size is argument 1 */
void cni_cost_window_backward(cn_cost *cost, const cn_call *c); /* ... and argument 2 */
void cni_cost_distance(cn_cost *cost, const cn_call *c);
void cni_cost_fft(cn_cost *cost, const cn_call *c);
void cni_cost_rfft(cn_cost *cost, const cn_call *c);
void cni_cost_irfft(cn_cost *cost, const cn_call *c);

/* ---- linear algebra: of matrices (..., m, n), the first input ---- */
void cni_cost_cholesky(cn_cost *cost, const cn_call *c);
void cni_cost_lu(cn_cost *cost, const cn_call *c);        /* also what determinants take */
void cni_cost_inverse(cn_cost *cost, const cn_call *c);
void cni_cost_solve(cn_cost *cost, const cn_call *c);     /* a decomposition, and then each column of the second */
void cni_cost_triangular(cn_cost *cost, const cn_call *c);
void cni_cost_qr(cn_cost *cost, const cn_call *c);
void cni_cost_eigen(cn_cost *cost, const cn_call *c);     /* with vectors, and singular ones */
void cni_cost_eigenvalues(cn_cost *cost, const cn_call *c);
void cni_cost_matrix_exp(cn_cost *cost, const cn_call *c);

/* ---- what reads a part of its first input alone: as much as it writes ---- */
void cni_cost_gather(cn_cost *cost, const cn_call *c);    /* the first is the table */
void cni_cost_embedding(cn_cost *cost, const cn_call *c); /* the second is */

#endif
