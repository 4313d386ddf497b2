/* recurrent.h: what the two ways to run the steps of a recurrent layer share.
 *
 * Place in the flow: recurrent.c reads the call and makes the products of all inputs; recurrent_chip.c runs the steps
 * in one launch where the weights of the states fit on the chip, else recurrent.c a product and a kernel a step.
 * Invariant: structs are those of kernels/recurrent.cuh. */
#ifndef CNI_CUDA_RECURRENT_H
#define CNI_CUDA_RECURRENT_H

#include "plugin.h"

typedef enum cni_cuda_network {
  CNI_CUDA_LSTM,
  CNI_CUDA_GRU,
  CNI_CUDA_PLAIN_TANH,
  CNI_CUDA_PLAIN_RELU
} cni_cuda_network;
extern const char *const cni_cuda_network_names[]; /* as kernels call them */

typedef struct cni_cuda_step_places {
  const void *given, *b_ih, *b_hh;
  void *output, *saved, *last_h, *last_c;
} cni_cuda_step_places;
typedef struct cni_cuda_back_places {
  const void *saved, *output, *first, *g_output, *g_h, *g_c;
  void *g_given, *g_hidden, *g_h0, *g_c0;
} cni_cuda_back_places;

/* One direction of a layer whose steps all have the whole batch. */
typedef struct cni_cuda_layer {
  cni_cuda_device *d;
  const char *name; /* of the op */
  cni_cuda_network kind;
  int type;
  int64_t gates, steps, batch, hidden;
  bool reverse;
  const void *weights; /* (gates H, H) */
} cni_cuda_layer;

/* All steps, queued. h0, c0: (B, H); rows of what is given lie given_row apart. CN_REFUSED, without an error: the layer
 * does not fit. */
int cni_cuda_chip_forward(const cni_cuda_layer *l, const cni_cuda_step_places *places, const void *h0, const void *c0,
                          int64_t given_row);
int cni_cuda_chip_backward(const cni_cuda_layer *l, const cni_cuda_back_places *places);

#endif
