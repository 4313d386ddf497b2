/* onednn_lib.c: loads oneDNN and hides what differs between its versions 2 and 3. See onednn_lib.h.
 *
 * Invariant: the table is written once, inside pthread_once, and only read afterwards. */
#if defined(CNI_HAVE_DNNL_H) && !defined(CNI_MINIMAL)
#include "onednn_lib.h"

#include <pthread.h>
#include <string.h>

#include "base/os.h"

cni_dnnl cni_dnnl_lib;
static const char *missing = "oneDNN is not installed";
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Object pointers to function pointers, which C itself does not convert. */
static bool symbol(void *to, void *library, const char *name)
{
  void *found = cni_os_symbol(library, name);
  memcpy(to, &found, sizeof found);
  return found != NULL;
}

static void load(void)
{
#if DNNL_VERSION_MAJOR >= 3
  void *library = cni_os_library("libdnnl.so.3");
#else
  void *library = cni_os_library("libdnnl.so.2");
#endif
  if (!library) return;
#define FIND(name)                                                                                                   \
  if (!symbol(&cni_dnnl_lib.name, library, #name)) return;
  CNI_DNNL_EACH(FIND)
#undef FIND
  if (cni_dnnl_lib.dnnl_version()->major != DNNL_VERSION_MAJOR) {
    missing = "oneDNN is of another version than the one cairn was built for";
    return;
  }
  /* The library itself finds OpenMP in the program first, then among what it was linked to. */
  void *program = cni_os_library(NULL);
  if (!symbol(&cni_dnnl_lib.set_threads, program, "omp_set_num_threads")) program = library;
  if (!symbol(&cni_dnnl_lib.set_threads, program, "omp_set_num_threads") ||
      !symbol(&cni_dnnl_lib.get_threads, program, "omp_get_max_threads"))
    cni_dnnl_lib.set_threads = NULL;
  if (cni_dnnl_lib.dnnl_engine_create(&cni_dnnl_lib.engine, dnnl_cpu, 0) ||
      cni_dnnl_lib.dnnl_primitive_attr_create(&cni_dnnl_lib.attr) ||
      cni_dnnl_lib.dnnl_primitive_attr_set_scratchpad_mode(cni_dnnl_lib.attr, dnnl_scratchpad_mode_user)) {
    missing = "oneDNN does not start";
    return;
  }
  missing = NULL;
}

bool cni_dnnl_load(const char **why)
{
  pthread_once(&once, load);
  if (missing) *why = missing;
  return !missing;
}

/* ---- layouts ---- */

bool cni_dnnl_layout_make(cni_dnnl_layout *l, int ndim, const int64_t *dims, dnnl_data_type_t type,
                          const int64_t *strides)
{
#if DNNL_VERSION_MAJOR >= 3
  return (strides ? cni_dnnl_lib.dnnl_memory_desc_create_with_strides(&l->desc, ndim, dims, type, strides)
                  : cni_dnnl_lib.dnnl_memory_desc_create_with_tag(&l->desc, ndim, dims, type, dnnl_format_tag_any)) ==
         dnnl_success;
#else
  return (strides ? cni_dnnl_lib.dnnl_memory_desc_init_by_strides(&l->desc, ndim, dims, type, strides)
                  : cni_dnnl_lib.dnnl_memory_desc_init_by_tag(&l->desc, ndim, dims, type, dnnl_format_tag_any)) ==
         dnnl_success;
#endif
}

void cni_dnnl_layout_free(cni_dnnl_layout *l)
{
#if DNNL_VERSION_MAJOR >= 3
  if (l->desc) cni_dnnl_lib.dnnl_memory_desc_destroy(l->desc);
  l->desc = NULL;
#else
  (void)l;
#endif
}

/* ---- convolutions ---- */

#define X cni_dnnl_ref_of(&c->wanted[CNI_DNNL_X])
#define WEIGHT cni_dnnl_ref_of(&c->wanted[CNI_DNNL_WEIGHT])
#define Y cni_dnnl_ref_of(&c->wanted[CNI_DNNL_Y])
#define BIAS (c->bias ? cni_dnnl_ref_of(&c->wanted[CNI_DNNL_BIAS]) : NULL)
#define WINDOW c->stride, c->dilation, c->before, c->after

#if DNNL_VERSION_MAJOR >= 3
dnnl_primitive_desc_t cni_dnnl_forward(const cni_dnnl_conv *c, bool training)
{
  dnnl_primitive_desc_t pd = NULL;
  if (cni_dnnl_lib.dnnl_convolution_forward_primitive_desc_create(
          &pd, cni_dnnl_lib.engine, training ? dnnl_forward_training : dnnl_forward_inference,
          dnnl_convolution_direct, X, WEIGHT, BIAS, Y, WINDOW, cni_dnnl_lib.attr))
    return NULL;
  return pd;
}

dnnl_primitive_desc_t cni_dnnl_input(const cni_dnnl_conv *c, dnnl_primitive_desc_t forward)
{
  dnnl_primitive_desc_t pd = NULL;
  if (cni_dnnl_lib.dnnl_convolution_backward_data_primitive_desc_create(
          &pd, cni_dnnl_lib.engine, dnnl_convolution_direct, X, WEIGHT, Y, WINDOW, forward, cni_dnnl_lib.attr))
    return NULL;
  return pd;
}

dnnl_primitive_desc_t cni_dnnl_weight(const cni_dnnl_conv *c, dnnl_primitive_desc_t forward)
{
  dnnl_primitive_desc_t pd = NULL;
  if (cni_dnnl_lib.dnnl_convolution_backward_weights_primitive_desc_create(
          &pd, cni_dnnl_lib.engine, dnnl_convolution_direct, X, WEIGHT, NULL, Y, WINDOW, forward, cni_dnnl_lib.attr))
    return NULL;
  return pd;
}
#else
static dnnl_primitive_desc_t describe(const dnnl_convolution_desc_t *desc, dnnl_primitive_desc_t hint)
{
  dnnl_primitive_desc_t pd = NULL;
  return cni_dnnl_lib.dnnl_primitive_desc_create(&pd, desc, cni_dnnl_lib.attr, cni_dnnl_lib.engine, hint) ? NULL : pd;
}

dnnl_primitive_desc_t cni_dnnl_forward(const cni_dnnl_conv *c, bool training)
{
  dnnl_convolution_desc_t d;
  dnnl_prop_kind_t kind = training ? dnnl_forward_training : dnnl_forward_inference;
  if (cni_dnnl_lib.dnnl_dilated_convolution_forward_desc_init(&d, kind, dnnl_convolution_direct, X, WEIGHT, BIAS, Y,
                                                              WINDOW))
    return NULL;
  return describe(&d, NULL);
}

dnnl_primitive_desc_t cni_dnnl_input(const cni_dnnl_conv *c, dnnl_primitive_desc_t forward)
{
  dnnl_convolution_desc_t d;
  if (cni_dnnl_lib.dnnl_dilated_convolution_backward_data_desc_init(&d, dnnl_convolution_direct, X, WEIGHT, Y,
                                                                    WINDOW))
    return NULL;
  return describe(&d, forward);
}

dnnl_primitive_desc_t cni_dnnl_weight(const cni_dnnl_conv *c, dnnl_primitive_desc_t forward)
{
  dnnl_convolution_desc_t d;
  if (cni_dnnl_lib.dnnl_dilated_convolution_backward_weights_desc_init(&d, dnnl_convolution_direct, X, WEIGHT, NULL,
                                                                       Y, WINDOW))
    return NULL;
  return describe(&d, forward);
}
#endif
#else
typedef int cni_onednn_lib_empty; /* a file must not be empty */
#endif
