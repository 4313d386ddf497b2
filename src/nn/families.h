/* families.h: the files of src/nn that hold classes, one line each. Each defines
 *
 *     const cn_module_class *const cni_nn_NAME_classes[]   ending with NULL
 */
#ifndef CNI_NN_FAMILIES_H
#define CNI_NN_FAMILIES_H

#include <cairn/module.h>

#define CNI_NN_FAMILIES(FAMILY) \
  FAMILY(containers)            \
  FAMILY(linear)                \
  FAMILY(activation)            \
  FAMILY(norm)                  \
  FAMILY(loss)                  \
  FAMILY(conv)                  \
  FAMILY(pool)                  \
  FAMILY(pad)                   \
  FAMILY(dropout)               \
  FAMILY(embedding)             \
  FAMILY(shape)                 \
  FAMILY(distance)              \
  FAMILY(rnn)                   \
  FAMILY(rnn_cell)              \
  FAMILY(attention)             \
  FAMILY(transformer)           \
  FAMILY(adaptive_softmax)

#define CNI_NN_DECLARE(name) extern const cn_module_class *const cni_nn_##name##_classes[];
CNI_NN_FAMILIES(CNI_NN_DECLARE)
#undef CNI_NN_DECLARE

#endif
