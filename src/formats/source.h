/* source.h: the bytes of a file while it is read and as long as tensors lie in them. Below all formats; internal. */
#ifndef CNI_FORMATS_SOURCE_H
#define CNI_FORMATS_SOURCE_H

#include <cairn/ext/system.h>
#include <cairn/tensor.h>

typedef struct cni_source {
  const unsigned char *data;
  size_t size;
  char *name; /* for messages */
  struct cni_source_owner *owner;
} cni_source;

/* All owned: cni_source_free; NULL with the error set. */
cni_source *cni_source_open(const char *path);                                       /* mapped; tensors share it */
cni_source *cni_source_memory(const void *bytes, size_t size, const char *name);     /* the caller's; tensors copy */
/* `room` bytes of cn_alloc, of which `size` are used; taken over also on failure; tensors share them. */
cni_source *cni_source_take(void *bytes, size_t size, size_t room, const char *name);
/* Bytes inside of another source, which they keep and are shared as. */
cni_source *cni_source_part(const cni_source *whole, size_t offset, size_t size);
void cni_source_free(cni_source *source); /* tensors live on; NULL is fine */

/* A row-major tensor over the bytes from `offset` on, which the caller knows to be inside. Shares them where they may
 * be shared and are aligned; bools that are neither 0 nor 1 become 1. Borrowed from the scope. */
cn_tensor *cni_source_tensor(cni_source *source, size_t offset, const int64_t *shape, size_t ndim, cn_dtype dtype);

/* The product of a shape and an element's bytes; false when a size is negative or the product leaves int64_t. */
bool cni_shape_bytes(uint64_t *bytes, const int64_t *shape, size_t ndim, size_t element);

/* Sets CN_ERR_IO with the source's name and format's in front; returns it. */
int cni_source_bad(const cni_source *source, const char *format, const char *text, ...) CN_PRINTF(3, 4);

static inline uint32_t cni_le16(const unsigned char *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }
static inline uint32_t cni_le32(const unsigned char *p) { return cni_le16(p) | cni_le16(p + 2) << 16; }
static inline uint64_t cni_le64(const unsigned char *p) { return cni_le32(p) | (uint64_t)cni_le32(p + 4) << 32; }

#endif
