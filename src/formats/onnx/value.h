/* value.h: what names of a model stand for while it runs. See cairn/onnx.h for the kinds. Internal.
 *
 * Values are counted and never change, so that frames, sequences and results share them. An optional is its content, or
 * CN_ONNX_NONE. */
#ifndef CNI_ONNX_VALUE_H
#define CNI_ONNX_VALUE_H

#include <cairn/onnx.h>
#include <stdatomic.h>

enum { CNI_ONNX_SMALL = 1024 }; /* elements of tensors whose numbers are looked after */

struct cn_onnx_value {
  _Atomic int64_t refs;
  cn_onnx_kind kind;
  cn_tensor *t;       /* of strings: their bytes */
  cn_tensor *lengths; /* of strings */
  /* The same numbers, of the host, where they follow from constants and sizes alone and are few: what a graph that is
   * captured can use as arguments. NULL: not known. */
  cn_tensor *known;
  cn_onnx_value **items;
  size_t n;
};

/* Gives a tensor's value its known numbers, and returns it; both are taken over as they are: NULL passes through. */
cn_onnx_value *cni_onnx_value_know(cn_onnx_value *value, cn_tensor *known);

#endif
