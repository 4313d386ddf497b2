/* dnn_graph.c: see dnn.h. Every descriptor is created, given its attributes, finalized; a graph's engines are asked for
 * in mode A.
 *
 * Place in the flow: between those who describe (attention_graph.c, conv_dnn.c) and dnn.c, which makes plans.
 * Invariant: nothing here needs a device, a description of one is enough, so that tests see what cuDNN takes without a
 * GPU. */
#include "dnn.h"

#ifdef CNI_HAVE_CUDNN_H

/* ---- descriptors ---- */

/* The descriptor under a number; NULL for one that failed. */
static cudnnBackendDescriptor_t at(const cni_dnn_graph *g, int i) { return i >= 0 && i < g->n ? g->made[i] : NULL; }

static void set(cni_dnn_graph *g, int i, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,
                const void *value)
{
  if (g->status == CUDNN_STATUS_SUCCESS && at(g, i))
    g->status = cni_cuda_dnn()->cudnnBackendSetAttribute(at(g, i), name, type, n, value);
}

static void set_tensor(cni_dnn_graph *g, int i, cudnnBackendAttributeName_t name, int tensor)
{
  cudnnBackendDescriptor_t d = at(g, tensor);
  if (tensor >= 0) set(g, i, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &d);
}

static int begin(cni_dnn_graph *g, cudnnBackendDescriptorType_t type)
{
  if (g->status == CUDNN_STATUS_SUCCESS && g->n == CNI_DNN_DESCRIPTORS) g->status = CUDNN_STATUS_ALLOC_FAILED;
  if (g->status != CUDNN_STATUS_SUCCESS) return -1;
  g->status = cni_cuda_dnn()->cudnnBackendCreateDescriptor(type, &g->made[g->n]);
  return g->status == CUDNN_STATUS_SUCCESS ? g->n++ : -1;
}

static int finish(cni_dnn_graph *g, int i)
{
  if (g->status == CUDNN_STATUS_SUCCESS) g->status = cni_cuda_dnn()->cudnnBackendFinalize(at(g, i));
  return g->status == CUDNN_STATUS_SUCCESS ? i : -1;
}

static void finish_operation(cni_dnn_graph *g, int i)
{
  if (g->noperations == CNI_DNN_OPERATIONS) g->status = CUDNN_STATUS_ALLOC_FAILED;
  if (finish(g, i) >= 0) g->operations[g->noperations++] = at(g, i);
}

void cni_dnn_drop(cni_dnn_graph *g)
{
  while (g->n) cni_cuda_dnn()->cudnnBackendDestroyDescriptor(g->made[--g->n]);
}

int cni_dnn_tensor(cni_dnn_graph *g, cudnnDataType_t type, int ndim, const int64_t *dims, const int64_t *strides,
                   int64_t uid, cni_dnn_place place)
{
  int64_t alignment = 16;
  bool yes = true;
  int i = begin(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  if (!uid) uid = 1000 + g->next++;
  set(g, i, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  set(g, i, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, ndim, dims);
  set(g, i, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, ndim, strides);
  set(g, i, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
  set(g, i, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
  if (place == CNI_DNN_VIRTUAL) set(g, i, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
  if (place == CNI_DNN_VALUE) set(g, i, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
  return finish(g, i);
}

void cni_dnn_pointwise(cni_dnn_graph *g, cudnnPointwiseMode_t mode, int x, int b, int y, int t, int axis)
{
  bool compares = mode >= CUDNN_POINTWISE_CMP_EQ && mode <= CUDNN_POINTWISE_CMP_LE;
  cudnnDataType_t precision = compares ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT;
  int64_t along = axis;
  int p = begin(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  set(g, p, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  set(g, p, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &precision);
  if (mode == CUDNN_POINTWISE_GEN_INDEX) set(g, p, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &along);
  p = finish(g, p);
  int o = begin(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  set_tensor(g, o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, p);
  set_tensor(g, o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  set_tensor(g, o, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
  set_tensor(g, o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  set_tensor(g, o, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t);
  finish_operation(g, o);
}

void cni_dnn_matmul(cni_dnn_graph *g, int a, int b, int c)
{
  cudnnDataType_t precision = CUDNN_DATA_FLOAT;
  int p = begin(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  set(g, p, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &precision);
  p = finish(g, p);
  int o = begin(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  set_tensor(g, o, CUDNN_ATTR_OPERATION_MATMUL_DESC, p);
  set_tensor(g, o, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
  set_tensor(g, o, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
  set_tensor(g, o, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
  finish_operation(g, o);
}

void cni_dnn_reduce(cni_dnn_graph *g, cudnnReduceTensorOp_t op, int x, int y)
{
  cudnnDataType_t precision = CUDNN_DATA_FLOAT;
  int p = begin(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  set(g, p, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &op);
  set(g, p, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &precision);
  p = finish(g, p);
  int o = begin(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  set_tensor(g, o, CUDNN_ATTR_OPERATION_REDUCTION_DESC, p);
  set_tensor(g, o, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
  set_tensor(g, o, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
  finish_operation(g, o);
}

void cni_dnn_reshape(cni_dnn_graph *g, int x, int y)
{
  int o = begin(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  set_tensor(g, o, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
  set_tensor(g, o, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
  finish_operation(g, o);
}

void cni_dnn_convolution(cni_dnn_graph *g, cudnnBackendDescriptorType_t kind, const int64_t *stride,
                         const int64_t *padding, const int64_t *dilation, int x, int w, int y)
{
  /* conv, alpha, beta, x, w, y of each kind */
  static const cudnnBackendAttributeName_t names[3][6] = {
      {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
  };
  const cudnnBackendAttributeName_t *name = names[kind - CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR];
  cudnnDataType_t precision = CUDNN_DATA_FLOAT;
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  int64_t dims = 2;
  float one = 1, zero = 0;
  int p = begin(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  set(g, p, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &precision);
  set(g, p, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  set(g, p, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &dims);
  set(g, p, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, padding);
  set(g, p, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, padding);
  set(g, p, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilation);
  set(g, p, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, stride);
  p = finish(g, p);
  int o = begin(g, kind);
  set_tensor(g, o, name[0], p);
  set(g, o, name[1], CUDNN_TYPE_FLOAT, 1, &one);
  set(g, o, name[2], CUDNN_TYPE_FLOAT, 1, &zero);
  set_tensor(g, o, name[3], x);
  set_tensor(g, o, name[4], w);
  set_tensor(g, o, name[5], y);
  finish_operation(g, o);
}

/* ---- engines ---- */

/* The second reading of the engines may give fewer than the first one. */
static int read_engines(cni_dnn_graph *g, int heuristic, cudnnBackendDescriptor_t *configs)
{
  const cni_cuda_dnn_table *dnn = cni_cuda_dnn();
  int64_t n = 0, got = 0;
  int made = 0;
  if (g->status == CUDNN_STATUS_SUCCESS)
    g->status = dnn->cudnnBackendGetAttribute(at(g, heuristic), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                              CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &n, NULL);
  if (g->status != CUDNN_STATUS_SUCCESS) return 0;
  while (made < n && made < CNI_DNN_ENGINES &&
         dnn->cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[made]) == CUDNN_STATUS_SUCCESS)
    made++;
  g->status = dnn->cudnnBackendGetAttribute(at(g, heuristic), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                            CUDNN_TYPE_BACKEND_DESCRIPTOR, made, &got, configs);
  if (g->status != CUDNN_STATUS_SUCCESS) got = 0;
  while (made > got) dnn->cudnnBackendDestroyDescriptor(configs[--made]);
  return made;
}

int cni_dnn_engines(cni_dnn_graph *g, cudnnHandle_t handle, cudnnBackendDescriptor_t device,
                    cudnnBackendDescriptor_t *configs)
{
  cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  int graph = begin(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (handle) set(g, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  set(g, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->noperations, g->operations);
  graph = finish(g, graph);
  int heuristic = begin(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  set_tensor(g, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  set(g, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (device) set(g, heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device);
  return read_engines(g, finish(g, heuristic), configs);
}
#endif
