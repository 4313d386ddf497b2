/* recurrent.h: what the files of the recurrent family share: the kinds of networks, and pieces whose gradients come
 * back in one piece.
 *
 * Place in the flow: recurrent.c makes networks of cells and layers; recurrent_sequence.c runs one direction of one
 * layer. Invariant: layouts of gates are PyTorch's: i f g o of an LSTM, r z n of a GRU. */
#ifndef CNI_OPS_RECURRENT_H
#define CNI_OPS_RECURRENT_H

#include <cairn/ops.h>

typedef enum cni_recurrent { CNI_RNN_TANH, CNI_RNN_RELU, CNI_LSTM, CNI_GRU } cni_recurrent;

/* Gates of H columns each, and columns of H that a step keeps for its gradient: the gates, then the cell of an LSTM
 * or what a GRU's reset gate multiplies. */
static inline int cni_recurrent_gates(cni_recurrent mode) { return mode == CNI_LSTM ? 4 : mode == CNI_GRU ? 3 : 1; }
static inline int cni_recurrent_saved(cni_recurrent mode) { return mode == CNI_LSTM ? 5 : mode == CNI_GRU ? 4 : 0; }
/* As recurrent_sequence's mode names it. */
const char *cni_recurrent_name(cni_recurrent mode);

/* The `count` (up to 8) equal groups of columns of x (B, count * H). */
void cni_split_columns(cn_tensor **out, cn_tensor *x, int count);
/* x (sum of sizes, ...) cut into n pieces of these sizes, by a tree of parts: no gradient is added into zeros of the
 * whole. */
void cni_split_rows(cn_tensor **out, cn_tensor *x, const int64_t *sizes, int64_t n);

#endif
