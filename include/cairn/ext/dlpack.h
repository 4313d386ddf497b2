/* ext/dlpack.h: the structs by which libraries hand tensors to each other (DLPack 1.x, the published layout), for
 * those who have no dlpack.h of their own. cn_from_dlpack and cn_to_dlpack (tensor.h) take and give them. */
#ifndef CAIRN_EXT_DLPACK_H
#define CAIRN_EXT_DLPACK_H

#include <stdint.h>

#include "../base.h"

CN_BEGIN_DECLS

enum { CN_DLPACK_MAJOR = 1, CN_DLPACK_MINOR = 1 };

/* Where memory lies. */
enum {
  CN_DLPACK_CPU = 1,
  CN_DLPACK_CUDA = 2,
  CN_DLPACK_CUDA_HOST = 3,
  CN_DLPACK_ROCM_HOST = 11,
  CN_DLPACK_OTHER = 12,
  CN_DLPACK_CUDA_MANAGED = 13
};

/* What a number is, with its bits. */
enum { CN_DLPACK_INT, CN_DLPACK_UINT, CN_DLPACK_FLOAT, CN_DLPACK_BFLOAT = 4, CN_DLPACK_COMPLEX, CN_DLPACK_BOOL };

/* Flags of the versioned form. Padded: types below eight bits take a byte each. */
enum { CN_DLPACK_READ_ONLY = 1, CN_DLPACK_COPIED = 2, CN_DLPACK_PADDED = 4 };

typedef struct cn_dlpack_tensor {
  void *data;
  struct {
    int32_t type, index;
  } device;
  int32_t ndim;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t *shape;
  int64_t *strides; /* in elements; NULL: row-major */
  uint64_t byte_offset;
} cn_dlpack_tensor;

/* DLManagedTensor: the consumer calls the deleter once, when it needs the memory no more. */
typedef struct cn_dlpack {
  cn_dlpack_tensor tensor;
  void *context;
  void (*deleter)(struct cn_dlpack *self);
} cn_dlpack;

/* DLManagedTensorVersioned: the fields up to flags mean the same in every version. */
typedef struct cn_dlpack_versioned {
  struct {
    uint32_t major, minor;
  } version;
  void *context;
  void (*deleter)(struct cn_dlpack_versioned *self);
  uint64_t flags;
  cn_dlpack_tensor tensor;
} cn_dlpack_versioned;

CN_END_DECLS
#endif
