/* dnn.h: cuDNN's graphs with few words: tensors and operations are added by number, a graph becomes a plan, plans are
 * kept by what they were made of.
 *
 * Place in the flow: conv_dnn.c and attention_graph.c describe, dnn_graph.c builds, dnn.c keeps and runs, dnn_disk.c
 * keeps for other processes. Invariant: the first thing that fails makes everything after it do nothing, so one
 * question at the end is enough. */
#ifndef CNI_CUDA_DNN_H
#define CNI_CUDA_DNN_H

#include "plugin.h"

#ifdef CNI_HAVE_CUDNN_H
#include <cudnn.h>

/* clang-format off */
#define CNI_CUDA_DNN(X) \
  X(cudnnCreate) X(cudnnDestroy) X(cudnnSetStream) X(cudnnGetVersion) X(cudnnGetErrorString) \
  X(cudnnGetLastErrorString) X(cudnnBackendCreateDescriptor) X(cudnnBackendDestroyDescriptor) \
  X(cudnnBackendFinalize) X(cudnnBackendSetAttribute) X(cudnnBackendGetAttribute) X(cudnnBackendExecute)
/* clang-format on */
typedef struct cni_cuda_dnn_table {
  CNI_CUDA_DNN(CNI_CUDA_FIELD)
} cni_cuda_dnn_table;
const cni_cuda_dnn_table *cni_cuda_dnn(void); /* load.c; NULL, without an error, where it is absent */

enum { CNI_DNN_DESCRIPTORS = 160, CNI_DNN_OPERATIONS = 32, CNI_DNN_ENGINES = 64 };

typedef struct cni_dnn_graph {
  cudnnBackendDescriptor_t made[CNI_DNN_DESCRIPTORS];
  int n;
  cudnnBackendDescriptor_t operations[CNI_DNN_OPERATIONS];
  int noperations;
  int64_t next; /* unique number of the next virtual tensor */
  cudnnStatus_t status;
  bool strict;  /* no engine that rounds its inputs to a smaller type */
  bool repeats; /* none that adds in no fixed order */
  bool as_they_lie; /* none for Tensor Cores that first copies tensors into a form of its own (it has a workspace) */
} cni_dnn_graph;

typedef enum cni_dnn_place { CNI_DNN_REAL, CNI_DNN_VIRTUAL, CNI_DNN_VALUE } cni_dnn_place;

/* All return a number for the other functions; negative: something failed. uid 0: a virtual tensor's own. */
int cni_dnn_tensor(cni_dnn_graph *g, cudnnDataType_t type, int ndim, const int64_t *dims, const int64_t *strides,
                   int64_t uid, cni_dnn_place place);
/* An operand that is not there is -1. t: of a selection. */
void cni_dnn_pointwise(cni_dnn_graph *g, cudnnPointwiseMode_t mode, int x, int b, int y, int t, int axis);
void cni_dnn_matmul(cni_dnn_graph *g, int a, int b, int c);
void cni_dnn_reduce(cni_dnn_graph *g, cudnnReduceTensorOp_t op, int x, int y);
void cni_dnn_reshape(cni_dnn_graph *g, int x, int y);
/* kind: the operation's descriptor type; the three tensors in the order X, W, Y. */
void cni_dnn_convolution(cni_dnn_graph *g, cudnnBackendDescriptorType_t kind, const int64_t *stride,
                         const int64_t *padding, const int64_t *dilation, int x, int w, int y);
/* The engines that cuDNN knows for what was added, best first: their number, and their descriptors (owned). The device
 * is that of a handle, or described. */
int cni_dnn_engines(cni_dnn_graph *g, cudnnHandle_t handle, cudnnBackendDescriptor_t device,
                    cudnnBackendDescriptor_t *configs);
void cni_dnn_drop(cni_dnn_graph *g);

/* A plan under a key; NULL: none yet. */
typedef struct cni_dnn_plan {
  cudnnBackendDescriptor_t plan;
  cudnnBackendDescriptor_t first; /* the one before others were tried; it stays for good: a recording may hold it */
  int64_t workspace;
  bool refused; /* cuDNN knows no way */
  bool settled; /* its engine is the fastest of those that were tried */
  bool beaten;  /* ... but a rival was faster */
} cni_dnn_plan;

/* A way of ours to do what a plan does, on the same operands: run(payload) queues it, or, where this thread looks
 * ahead, looks for its code. 0 or an error. say: what it is, for the log. */
typedef struct cni_dnn_rival {
  int (*run)(void *payload);
  void (*say)(char *text, size_t size, const void *payload);
  void *payload;
} cni_dnn_rival;

/* The real tensors of a run and the values, which are host memory. */
typedef struct cni_dnn_operands {
  int n;
  const int64_t *uids;
  void *const *pointers;
} cni_dnn_operands;

typedef void (*cni_dnn_describe_fn)(cni_dnn_graph *g, const void *key);
/* The plan for a key (compared by hash of its bytes), from memory, from disk, or made of what describe(graph, key)
 * adds, which may be called by another thread with a copy of the key. 0;
 * CN_REFUSED where cuDNN is absent or knows no way, or 16,384 plans are kept already. */
int cni_dnn_find(cni_dnn_plan *plan, cni_cuda_device *d, const void *key, size_t size, cni_dnn_describe_fn describe);
int cni_dnn_run(cni_cuda_device *d, const char *name, const cni_dnn_plan *plan, const cni_dnn_operands *operands);
/* Tries several engines, and the rival (NULL: none), on operands whose results are to be written anyway: the plan under
 * the key becomes the fastest engine's, and beaten if the rival is faster, for this process and on disk. Whether there
 * is a rival is part of the key. Nothing happens where that was done before, or nothing can be tried now; where enough
 * time was spent the rival and the plan's own engine are tried, for this process. 0, or the rival's error. */
int cni_dnn_settle(cni_dnn_plan *plan, cni_cuda_device *d, const void *key, size_t size, cni_dnn_describe_fn describe,
                   const cni_dnn_operands *operands, const cni_dnn_rival *rival);

/* ---- plans on disk (dnn_disk.c); key: the hash of a plan's key ---- */
bool cni_dnn_read_workspace(cni_dnn_plan *p);
bool cni_dnn_read_plan(cni_dnn_plan *p, cudnnHandle_t h, const char *text, size_t size); /* the plan of a text */
/* The text that is kept under a key, and what is known about its plan; owned. NULL, without an error: there is none. */
char *cni_dnn_load(uint64_t key, cni_cuda_device *d, size_t *size, cni_dnn_plan *p);
/* A plan's text, kept on disk, too; owned. NULL, without an error: there is none. */
char *cni_dnn_store(const cni_dnn_plan *p, uint64_t key, cni_cuda_device *d, size_t *size);
/* Whether a rival won, and a text that says how. */
void cni_dnn_store_beaten(uint64_t key, cni_cuda_device *d, bool beaten, const char *how);

#endif
#endif
