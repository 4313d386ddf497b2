/* ext/codec.h: what a plugin of image formats gives to cairn.
 *
 * cairn itself links neither libpng nor libjpeg. libcairn_image.so does; it is looked for in CAIRN_PLUGIN_PATH,
 * beside libcairn.so, and where the system looks for libraries, when the first image is read. It needs no symbol of
 * libcairn: memory comes from the caller's functions, and its one entry returns a table. / */
#ifndef CAIRN_EXT_CODEC_H
#define CAIRN_EXT_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CN_CODEC_ABI 1

/* An image to be read. Bytes are hostile until shown otherwise: sizes that the file claims are checked against
 * `pixels` and against what its bytes can hold, before anything is allocated by them. */
typedef struct cn_codec_read {
  const unsigned char *bytes;
  size_t size;
  int channels;   /* 1 grey, 3 colour, 4 with alpha; 0: as in the file */
  int64_t pixels; /* width * height may not pass this */
  /* Called once, when the size is known: memory of height rows of width * channels bytes, pixel by pixel; NULL: give
   * up, the caller knows why. */
  unsigned char *(*room)(void *payload, int64_t width, int64_t height, int channels);
  void *payload;
  char message[200]; /* why it failed */
} cn_codec_read;

/* An image to be written: rows of width * channels bytes, pixel by pixel. */
typedef struct cn_codec_write {
  const unsigned char *pixels;
  int64_t width, height;
  int channels; /* 1, 3, or 4 where the format has alpha */
  int quality;  /* 1 to 100, for formats that lose something */
  /* Takes the next bytes of the file; false: give up. */
  bool (*put)(void *payload, const void *bytes, size_t size);
  void *payload;
  char message[200];
} cn_codec_write;

typedef struct cn_codec {
  const char *name;    /* "png" */
  const char *endings; /* of file names: "jpg jpeg" */
  bool (*knows)(const unsigned char *bytes, size_t size);
  bool (*read)(cn_codec_read *call); /* false: call->message says why, or is empty when room returned NULL */
  bool (*write)(cn_codec_write *call);
} cn_codec;

typedef struct cn_codec_table {
  uint32_t abi;
  size_t n;
  const cn_codec *const *codecs;
} cn_codec_table;

/* The plugin's entry, "cn_codec_init"; NULL when it does not know the caller's abi. */
typedef const cn_codec_table *(*cn_codec_init_fn)(uint32_t abi);

#ifdef __cplusplus
}
#endif
#endif
