/* wire.h: messages in Protocol Buffers' wire form, read field by field, without copying. Internal.
 *
 * What a message means is said by who walks it (model.c, tensors.c): a loop over cni_wire_next with a switch on the
 * field's number. Fields that nobody knows are skipped, as the format wants it. Any bytes are read or refused. */
#ifndef CNI_ONNX_WIRE_H
#define CNI_ONNX_WIRE_H

#include <cairn/ext/system.h>

/* Bytes inside of the file, as long as it is held. */
typedef struct cni_wire_bytes {
  const unsigned char *p;
  size_t n;
} cni_wire_bytes;

typedef struct cni_wire_walk {
  const unsigned char *at, *end;
  bool bad; /* the bytes are no message; cni_wire_next then says that there is no other field */
} cni_wire_walk;

enum { CNI_WIRE_VARINT = 0, CNI_WIRE_64 = 1, CNI_WIRE_BYTES = 2, CNI_WIRE_32 = 5 };

typedef struct cni_field {
  uint32_t number;
  int type;             /* one of the above */
  uint64_t value;       /* of numbers, as the bits that stand there */
  cni_wire_bytes bytes; /* of texts, messages and packed lists */
} cni_field;

static inline cni_wire_walk cni_wire_of(cni_wire_bytes message)
{
  return (cni_wire_walk){message.p, message.p ? message.p + message.n : NULL, false};
}
/* The next field; false at the end, and where the bytes are none (w->bad). */
bool cni_wire_next(cni_wire_walk *w, cni_field *field);
/* Numbers of a repeated field, packed or not: calls this until it is false. *list begins as the field's bytes, and is
 * used up; of a field that is one number itself (its type is not CNI_WIRE_BYTES), *list is not looked at and *once,
 * false at the beginning, says that it was given. type: how one number is written. */
bool cni_wire_number(uint64_t *value, const cni_field *field, cni_wire_walk *list, bool *once, int type);

static inline float cni_wire_float(uint64_t bits)
{
  union {
    uint32_t u;
    float f;
  } as = {.u = (uint32_t)bits};
  return as.f;
}
static inline double cni_wire_double(uint64_t bits)
{
  union {
    uint64_t u;
    double f;
  } as = {.u = bits};
  return as.f;
}

#endif
