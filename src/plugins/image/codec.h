/* codec.h: the formats of this plugin. */
#ifndef CAIRN_IMAGE_CODEC_H
#define CAIRN_IMAGE_CODEC_H

#include <cairn/ext/codec.h>

extern const cn_codec codec_png, codec_jpeg;

/* Whether an image of this size may be read: within the caller's limit, and not more than its bytes can hold.
 * `ratio`: pixels that one byte can stand for at most. Sets the message. */
bool codec_size_ok(cn_codec_read *call, int64_t width, int64_t height, int64_t ratio);

#endif
