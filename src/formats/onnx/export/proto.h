/* proto.h: messages of Protocol Buffers, put together in growing text. Internal. The other direction is wire.h. */
#ifndef CNI_ONNX_EXPORT_PROTO_H
#define CNI_ONNX_EXPORT_PROTO_H

#include <cairn/ext/system.h>

void cni_proto_varint(cn_text *t, uint64_t v);
void cni_proto_int(cn_text *t, uint32_t field, int64_t v);
void cni_proto_float(cn_text *t, uint32_t field, float v);
void cni_proto_bytes(cn_text *t, uint32_t field, const void *bytes, size_t n);
void cni_proto_string(cn_text *t, uint32_t field, const char *s);
/* Only the head of a field of n bytes that the caller puts behind it. */
void cni_proto_head(cn_text *t, uint32_t field, uint64_t n);
size_t cni_proto_head_size(uint32_t field, uint64_t n);
/* Puts part as a message, and empties it for its next use. */
void cni_proto_message(cn_text *t, uint32_t field, cn_text *part);

#endif
