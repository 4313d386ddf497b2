/* png.c: PNG through libpng. See codec.h.
 *
 * libpng leaves a failing call by longjmp: each entry sets its jump once, everything that must be freed lives in a
 * struct that was filled before, and nothing is allocated between the two but by libpng itself. Invariant: memory is
 * bounded by the size of the file (deflate makes at most about a thousand bytes of one). */
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "codec.h"

enum {
  PIXELS_PER_BYTE = 8 * 1040, /* one bit a pixel, deflated as far as it goes */
  CHUNK_MAX = 8 << 20         /* of text and profiles, which nobody here reads */
};

typedef struct reader {
  cn_codec_read *call;
  size_t at;
  png_structp png;
  png_infop info;
  png_uint_32 height;
  int channels, passes;
  unsigned char *pixels;
  size_t row;
} reader;

static bool knows_png(const unsigned char *bytes, size_t size) { return size >= 8 && !png_sig_cmp(bytes, 0, 8); }

static void on_read_error(png_structp png, png_const_charp text)
{
  reader *r = png_get_error_ptr(png);
  snprintf(r->call->message, sizeof r->call->message, "%s", text);
  png_longjmp(png, 1);
}

static void on_write_error(png_structp png, png_const_charp text)
{
  cn_codec_write *call = png_get_error_ptr(png);
  snprintf(call->message, sizeof call->message, "%s", text);
  png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text) { (void)png, (void)text; }

static void read_bytes(png_structp png, png_bytep to, size_t n)
{
  reader *r = png_get_io_ptr(png);
  if (n > r->call->size - r->at) png_error(png, "the file ends too early");
  memcpy(to, r->call->bytes + r->at, n);
  r->at += n;
}

/* Says what the pixels are to become: 8 bits, no palette, as many channels as wanted. */
static void convert(reader *r)
{
  png_structp png = r->png;
  int type = png_get_color_type(png, r->info), depth = png_get_bit_depth(png, r->info), wanted = r->call->channels;
  bool colour = type & PNG_COLOR_MASK_COLOR, alpha = type & PNG_COLOR_MASK_ALPHA;
  bool marked = png_get_valid(png, r->info, PNG_INFO_tRNS);
  if (depth == 16) png_set_scale_16(png);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  else if (!colour && depth < 8) png_set_expand_gray_1_2_4_to_8(png);
  if (marked && (wanted == 4 || wanted == 0)) png_set_tRNS_to_alpha(png), alpha = true;
  if (wanted == 1 && colour) png_set_rgb_to_gray_fixed(png, PNG_ERROR_ACTION_NONE, 29890, 58700);
  if (wanted >= 3 && !colour) png_set_gray_to_rgb(png);
  if ((wanted == 1 || wanted == 3) && (alpha || marked)) png_set_strip_alpha(png);
  if (wanted == 4 && !alpha) png_set_add_alpha(png, 255, PNG_FILLER_AFTER);
  r->passes = png_set_interlace_handling(png);
  png_read_update_info(png, r->info);
  r->channels = png_get_channels(png, r->info);
  r->row = png_get_rowbytes(png, r->info);
}

static void read_image(reader *r)
{
  cn_codec_read *call = r->call;
  png_set_read_fn(r->png, r, read_bytes);
  png_set_user_limits(r->png, 0x7fffffff, 0x7fffffff);
  png_set_chunk_malloc_max(r->png, CHUNK_MAX);
  png_read_info(r->png, r->info);
  png_uint_32 width = png_get_image_width(r->png, r->info);
  r->height = png_get_image_height(r->png, r->info);
  if (!codec_size_ok(call, width, r->height, PIXELS_PER_BYTE)) png_longjmp(r->png, 1);
  convert(r);
  if (r->row != (size_t)width * (size_t)r->channels) png_error(r->png, "rows have an unexpected length");
  r->pixels = call->room(call->payload, width, r->height, r->channels);
  if (!r->pixels) png_longjmp(r->png, 1);
  for (int pass = 0; pass < r->passes; pass++)
    for (png_uint_32 y = 0; y < r->height; y++) png_read_row(r->png, r->pixels + y * r->row, NULL);
  png_read_end(r->png, NULL);
}

static bool read_png(cn_codec_read *call)
{
  reader r = {.call = call};
  call->message[0] = 0;
  r.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, on_read_error, on_warning);
  r.info = r.png ? png_create_info_struct(r.png) : NULL;
  if (!r.info) snprintf(call->message, sizeof call->message, "libpng is out of memory");
  else if (!setjmp(png_jmpbuf(r.png))) {
    read_image(&r);
    png_destroy_read_struct(&r.png, &r.info, NULL);
    return true;
  }
  png_destroy_read_struct(&r.png, &r.info, NULL);
  return false;
}

/* ---- writing ---- */

static void write_bytes(png_structp png, png_bytep from, size_t n)
{
  cn_codec_write *call = png_get_io_ptr(png);
  if (!call->put(call->payload, from, n)) png_error(png, "the bytes could not be kept");
}

static void flush_bytes(png_structp png) { (void)png; }

static void write_image(png_structp png, png_infop info, cn_codec_write *call)
{
  int type = call->channels == 1   ? PNG_COLOR_TYPE_GRAY
             : call->channels == 3 ? PNG_COLOR_TYPE_RGB
                                   : PNG_COLOR_TYPE_RGB_ALPHA;
  png_set_write_fn(png, call, write_bytes, flush_bytes);
  png_set_IHDR(png, info, (png_uint_32)call->width, (png_uint_32)call->height, 8, type, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  size_t row = (size_t)call->width * (size_t)call->channels;
  for (int64_t y = 0; y < call->height; y++) png_write_row(png, call->pixels + (size_t)y * row);
  png_write_end(png, info);
}

static bool write_png(cn_codec_write *call)
{
  call->message[0] = 0;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, call, on_write_error, on_warning);
  png_infop info = png ? png_create_info_struct(png) : NULL;
  bool fits = call->width <= 0x7fffffff && call->height <= 0x7fffffff;
  if (!info || !fits) {
    snprintf(call->message, sizeof call->message, "%s", info ? "it is too large" : "libpng is out of memory");
    png_destroy_write_struct(&png, &info);
    return false;
  }
  if (setjmp(png_jmpbuf(png))) {
    png_destroy_write_struct(&png, &info);
    return false;
  }
  write_image(png, info, call);
  png_destroy_write_struct(&png, &info);
  return true;
}

const cn_codec codec_png = {"png", "png", knows_png, read_png, write_png};
