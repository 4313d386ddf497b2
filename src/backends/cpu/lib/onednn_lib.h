/* onednn_lib.h: oneDNN's C interface as cairn uses it, the same for its versions 2 and 3.
 *
 * Place in the flow: onednn.c builds primitives with this; nothing else includes it. Declared against the library's
 * own header, loaded at first need, never linked. Invariant: the table is complete, or there is none. */
#ifndef CNI_CPU_ONEDNN_LIB_H
#define CNI_CPU_ONEDNN_LIB_H

#include <dnnl.h>
#include <stdbool.h>
#include <stdint.h>

#define CNI_DNNL_COMMON(X)                                                                                           \
  X(dnnl_version)                                                                                                    \
  X(dnnl_engine_create)                                                                                              \
  X(dnnl_stream_create)                                                                                              \
  X(dnnl_stream_destroy) X(dnnl_stream_wait) X(dnnl_memory_create) X(dnnl_memory_destroy)                            \
      X(dnnl_memory_desc_get_size) X(dnnl_memory_desc_equal) X(dnnl_primitive_create) X(dnnl_primitive_destroy)      \
          X(dnnl_primitive_execute) X(dnnl_primitive_desc_destroy) X(dnnl_primitive_desc_query_md)                   \
              X(dnnl_reorder_primitive_desc_create) X(dnnl_primitive_attr_create) X(dnnl_primitive_attr_destroy)     \
                  X(dnnl_primitive_attr_set_scratchpad_mode)

#if DNNL_VERSION_MAJOR >= 3
#define CNI_DNNL_EACH(X)                                                                                             \
  CNI_DNNL_COMMON(X)                                                                                                 \
  X(dnnl_memory_desc_create_with_strides)                                                                            \
  X(dnnl_memory_desc_create_with_tag)                                                                                \
  X(dnnl_memory_desc_destroy)                                                                                        \
  X(dnnl_convolution_forward_primitive_desc_create) X(dnnl_convolution_backward_data_primitive_desc_create)          \
      X(dnnl_convolution_backward_weights_primitive_desc_create)
typedef const_dnnl_memory_desc_t cni_dnnl_ref;
#else
#define CNI_DNNL_EACH(X)                                                                                             \
  CNI_DNNL_COMMON(X)                                                                                                 \
  X(dnnl_memory_desc_init_by_strides)                                                                                \
  X(dnnl_memory_desc_init_by_tag)                                                                                    \
  X(dnnl_primitive_desc_create)                                                                                      \
  X(dnnl_dilated_convolution_forward_desc_init) X(dnnl_dilated_convolution_backward_data_desc_init)                  \
      X(dnnl_dilated_convolution_backward_weights_desc_init)
typedef const dnnl_memory_desc_t *cni_dnnl_ref;
#endif

#define CNI_DNNL_FIELD(name) __typeof__(&name) name;
typedef struct cni_dnnl {
  CNI_DNNL_EACH(CNI_DNNL_FIELD)
  dnnl_engine_t engine;
  dnnl_primitive_attr_t attr; /* scratch memory comes from us */
  /* OpenMP's, of the calling thread; NULL when the library was built without it */
  int (*get_threads)(void);
  void (*set_threads)(int);
} cni_dnnl;

/* Loads the library at the first call. False when there is none, *why says so. Any thread. */
bool cni_dnnl_load(const char **why);
extern cni_dnnl cni_dnnl_lib; /* to be used after cni_dnnl_load returned true */

/* ---- memory layouts ---- */
typedef struct cni_dnnl_layout {
  dnnl_memory_desc_t desc;
} cni_dnnl_layout;

static inline cni_dnnl_ref cni_dnnl_ref_of(const cni_dnnl_layout *l)
{
#if DNNL_VERSION_MAJOR >= 3
  return l->desc;
#else
  return &l->desc;
#endif
}
/* strides NULL: whichever layout the primitive likes. */
bool cni_dnnl_layout_make(cni_dnnl_layout *l, int ndim, const int64_t *dims, dnnl_data_type_t type,
                          const int64_t *strides);
void cni_dnnl_layout_free(cni_dnnl_layout *l);

/* ---- convolutions ---- */
enum { CNI_DNNL_X, CNI_DNNL_WEIGHT, CNI_DNNL_Y, CNI_DNNL_BIAS };

typedef struct cni_dnnl_conv {
  cni_dnnl_layout wanted[4]; /* by the numbers above; any layout the primitive likes */
  bool bias;
  dnnl_dims_t stride, dilation, before, after;
} cni_dnnl_conv;

/* Descriptions of the primitives; NULL when the library has none. forward is a hint for the other two. */
dnnl_primitive_desc_t cni_dnnl_forward(const cni_dnnl_conv *c, bool training);
dnnl_primitive_desc_t cni_dnnl_input(const cni_dnnl_conv *c, dnnl_primitive_desc_t forward);
dnnl_primitive_desc_t cni_dnnl_weight(const cni_dnnl_conv *c, dnnl_primitive_desc_t forward);

#endif
