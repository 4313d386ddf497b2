/* template.h: operators said in words: "leaky_relu(%0, $alpha=0.01)". Internal.
 *
 *     name(arg, ..., word: arg)   a call of cairn's op; a word names the parameter of its signature
 *     name(...)[1]                its second result; without, all results in order where the call is the whole template
 *     %0  %1?                     an input; one that may be left out
 *     %*                          all inputs, as a list
 *     @0                          an input's element type
 *     $name  $name=1              an attribute; what stands for it where it is left out (without: the op's default)
 *     1  0.5  [0, 1]  'text'  true  none  float32
 *
 * An argument is what its parameter wants: where that is a number, a list of them, or a type, inputs are read as such
 * (cni_onnx_ints_in) and attributes turned into such (a type's number into the type). */
#ifndef CNI_ONNX_TEMPLATE_H
#define CNI_ONNX_TEMPLATE_H

#include "call.h"

typedef struct cni_onnx_template cni_onnx_template;
/* In the arena; NULL with an error that shows the place: an op or a parameter that there is not, too. */
const cni_onnx_template *cni_onnx_parse(cni_arena *arena, const char *text);
int cni_onnx_eval(cni_onnx_call *call, const cni_onnx_template *t); /* sets the call's results */

#endif
