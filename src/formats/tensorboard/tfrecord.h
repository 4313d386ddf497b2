/* tfrecord.h: what the files of src/formats/tensorboard share: messages in Protocol Buffers' wire form, and records of
 * them in a file of events. Internal.
 *
 * A message is built in a cn_text, whose `failed` stands for all failed allocations; numbers of fields are those of
 * TensorBoard's .proto files, written at the call with the field's name. */
#ifndef CNI_TENSORBOARD_RECORD_H
#define CNI_TENSORBOARD_RECORD_H

#include <cairn/events.h>
#include <cairn/ext/system.h>

/* ---- messages ---- */
void cni_pb_int(cn_text *m, int field, int64_t value);
void cni_pb_double(cn_text *m, int field, double value);
void cni_pb_float(cn_text *m, int field, float value);
void cni_pb_bytes(cn_text *m, int field, const void *bytes, size_t size);
void cni_pb_str(cn_text *m, int field, const char *s);
void cni_pb_doubles(cn_text *m, int field, const double *v, size_t n); /* packed */
void cni_pb_message(cn_text *m, int field, cn_text *inner);            /* frees inner */

/* ---- events ---- */
struct cn_events {
  char *folder, *path;
  cn_text pending; /* records that are not in the file yet */
  double flushed;  /* when (cn_clock) */
  double time;     /* that events get; 0: the clock's */
};

/* TensorProto.dtype */
enum { CNI_TB_FLOAT = 1, CNI_TB_DOUBLE = 2, CNI_TB_STRING = 7 };

/* The checks that open every public function: 0, or an error that names it. */
int cni_events_check(const cn_events *events, const char *who, const char *tag);
/* Puts an Event with `message` as its field; frees message. */
int cni_events_put(cn_events *events, int64_t step, int field, cn_text *message);
/* Puts a Summary of one value: `value` holds its fields but the tag; frees it. plugin NULL: no metadata. */
int cni_events_put_value(cn_events *events, const char *tag, int64_t step, cn_text *value, const char *plugin,
                         const cn_text *plugin_data);
/* All elements as doubles, row-major: NULL and *n 0 on failure. Owned: cn_free(v, *n * sizeof *v). */
double *cni_events_numbers(cn_tensor *t, size_t *n);

/* ---- pictures ---- */
/* Rows of 8-bit samples: 1 grey, 2 grey and alpha, 3 colours, 4 colours and alpha. */
typedef struct cni_picture {
  unsigned char *pixels; /* height x width x channels; owned */
  size_t height, width, channels;
} cni_picture;
/* Lays (H, W), (C, H, W) or (N, C, H, W) out, the latter as a grid of `columns` (0: as near to a square as can be, of
 * equal sides). 0 or an error; cni_picture_free in any case. */
int cni_picture_of(cni_picture *p, cn_tensor *image, int64_t columns, const char *who);
void cni_picture_free(cni_picture *p);
/* The picture as a PNG file in memory. */
int cni_picture_png(cn_text *out, const cni_picture *p);

#endif
