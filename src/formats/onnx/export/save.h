/* save.h: a model that is made, on its way to a file. Internal. */
#ifndef CNI_ONNX_EXPORT_SAVE_H
#define CNI_ONNX_EXPORT_SAVE_H

#include <cairn/onnx.h>

#include "emit.h"

typedef struct cni_oxsave {
  cni_ox x;
  const cn_onnx_save_opts *opts;
  int *inputs, *outputs; /* names */
  size_t ninputs, noutputs;
} cni_oxsave;

int cni_ox_make(cni_oxsave *s, const cn_graph *graph); /* 0 or the error; cni_ox_free(&s->x) in any case */

#endif
