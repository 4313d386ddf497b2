/* ml.h: what the families of ai.onnx.ml share. Internal. */
#ifndef CNI_ONNX_ML_H
#define CNI_ONNX_ML_H

#include "call.h"

/* The numbers of an attribute, whole ones too, as a vector where the model is; NULL: it is not given, or the error. */
cn_tensor *cni_onnx_ml_vector(const cni_onnx_call *c, const char *name, cn_dtype dtype);
/* A host's numbers as a tensor where the model is, outside of any graph that is captured. */
cn_tensor *cni_onnx_ml_table(const cni_onnx_call *c, const void *data, const int64_t *shape, size_t ndim,
                             cn_dtype dtype);
/* The attribute's strings as a vector. 0, or an error; *n 0: it is not given. */
int cni_onnx_ml_strings(cn_strings *out, size_t *n, const cni_onnx_call *c, const char *name);

/* x as floating-point numbers that are computed with: float64 stays, others become float32. */
cn_tensor *cni_onnx_ml_float(cn_tensor *x);
/* Input i of features as a matrix, a vector as its one row, as floating-point numbers; NULL with the error set. */
cn_tensor *cni_onnx_ml_matrix_in(const cni_onnx_call *c, size_t i);
/* Scores (N, K) by a transform: NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO, PROBIT. */
cn_tensor *cni_onnx_ml_post(const cni_onnx_call *c, cn_tensor *scores, const char *how);
/* ... that the attribute post_transform names. */
cn_tensor *cni_onnx_ml_transformed(const cni_onnx_call *c, cn_tensor *scores);
/* One score a row, for the second of two classes, as (N, 2). like_probability: 1 - s and s; else -s and s. */
cn_tensor *cni_onnx_ml_both(cn_tensor *score, bool like_probability);

/* How many labels classlabels_strings or `ints` have. */
size_t cni_onnx_ml_nlabels(const cni_onnx_call *c, const char *ints);
/* Sets result 0 to labels by their places (N). */
int cni_onnx_ml_out_labels(cni_onnx_call *c, cn_tensor *places, const char *ints);

#endif
