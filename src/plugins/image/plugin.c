/* plugin.c: the entry of libcairn_image.so: PNG and JPEG through libpng and libjpeg. See cairn/ext/codec.h.
 *
 * Place in the flow: loaded by src/data/image.c when the first image is read. Invariant: nothing here outlives a
 * call. */
#include <stdio.h>

#include "codec.h"

bool codec_size_ok(cn_codec_read *call, int64_t width, int64_t height, int64_t ratio)
{
  int64_t most = call->size > (size_t)(INT64_MAX / ratio) ? INT64_MAX : (int64_t)call->size * ratio;
  if (width < 1 || height < 1) snprintf(call->message, sizeof call->message, "it has no pixels");
  else if (width > call->pixels / height)
    snprintf(call->message, sizeof call->message, "%lld x %lld pixels are more than the %lld allowed", (long long)width,
             (long long)height, (long long)call->pixels);
  else if (width * height > most)
    snprintf(call->message, sizeof call->message, "%lld x %lld pixels cannot come from %zu bytes", (long long)width,
             (long long)height, call->size);
  else return true;
  return false;
}

static const cn_codec *const codecs[] = {&codec_jpeg, &codec_png};
static const cn_codec_table table = {CN_CODEC_ABI, sizeof codecs / sizeof *codecs, codecs};

__attribute__((visibility("default"))) const cn_codec_table *cn_codec_init(uint32_t abi);

const cn_codec_table *cn_codec_init(uint32_t abi) { return abi == CN_CODEC_ABI ? &table : NULL; }
