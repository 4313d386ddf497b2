/* jpeg.c: JPEG through libjpeg (libjpeg-turbo). See codec.h.
 *
 * libjpeg leaves a failing call by longjmp, from a handler of ours: everything that must be freed lives in a struct
 * that was filled before the jump was set. A file that ends too early is an error, not a half-grey picture, and one
 * with more than a hundred scans is refused, because each of them costs a pass over the whole picture. Invariant:
 * memory is bounded by the size of the file: each block takes a bit or more, and one component at least has a block
 * for every 256 pixels. */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include "codec.h"

enum { PIXELS_PER_BYTE = 8 * 64 * 4, SCANS_MAX = 100, LINES = 16, OUT_SIZE = 1 << 14 };

typedef struct failing { /* the first field is what libjpeg sees */
  struct jpeg_error_mgr base;
  jmp_buf jump;
  char *message; /* of 200 bytes */
} failing;

typedef struct reader {
  struct jpeg_decompress_struct c;
  failing error;
  struct jpeg_source_mgr source;
  struct jpeg_progress_mgr progress;
  cn_codec_read *call;
} reader;

static void on_error(j_common_ptr c)
{
  failing *f = (failing *)(void *)c->err;
  char text[JMSG_LENGTH_MAX];
  c->err->format_message(c, text);
  snprintf(f->message, 200, "%s", text);
  longjmp(f->jump, 1);
}

static void leave(failing *f, const char *why)
{
  if (why) snprintf(f->message, 200, "%s", why);
  longjmp(f->jump, 1);
}

static void no_output(j_common_ptr c) { (void)c; }

static void on_message(j_common_ptr c, int level)
{
  if (level < 0) c->err->num_warnings++;
}

static struct jpeg_error_mgr *handle(failing *f, char *message)
{
  jpeg_std_error(&f->base);
  f->base.error_exit = on_error;
  f->base.output_message = no_output;
  f->base.emit_message = on_message;
  f->message = message;
  message[0] = 0;
  return &f->base;
}

/* ---- reading ---- */

static bool knows_jpeg(const unsigned char *bytes, size_t size)
{
  return size >= 3 && bytes[0] == 0xFF && bytes[1] == 0xD8 && bytes[2] == 0xFF;
}

static void source_begin(j_decompress_ptr c) { (void)c; }

static boolean source_more(j_decompress_ptr c)
{
  leave((failing *)(void *)c->err, "the file ends too early");
  return FALSE;
}

static void source_skip(j_decompress_ptr c, long n)
{
  if (n <= 0) return;
  if ((size_t)n > c->src->bytes_in_buffer) leave((failing *)(void *)c->err, "the file ends too early");
  c->src->next_input_byte += n;
  c->src->bytes_in_buffer -= (size_t)n;
}

static void on_progress(j_common_ptr c)
{
  j_decompress_ptr d = (j_decompress_ptr)c;
  if (d->input_scan_number > SCANS_MAX) leave((failing *)(void *)c->err, "it has too many scans");
}

static void read_head(reader *r)
{
  jpeg_create_decompress(&r->c);
  r->progress.progress_monitor = on_progress;
  r->c.progress = &r->progress;
  r->source = (struct jpeg_source_mgr){.next_input_byte = r->call->bytes,
                                       .bytes_in_buffer = r->call->size,
                                       .init_source = source_begin,
                                       .fill_input_buffer = source_more,
                                       .skip_input_data = source_skip,
                                       .resync_to_restart = jpeg_resync_to_restart,
                                       .term_source = source_begin};
  r->c.src = &r->source;
  jpeg_read_header(&r->c, TRUE);
  if (!codec_size_ok(r->call, r->c.image_width, r->c.image_height, PIXELS_PER_BYTE)) leave(&r->error, NULL);
}

/* Pixels of four inks to colour. Adobe's programs store how much light remains, others how much ink there is. */
static void from_cmyk(unsigned char *to, const unsigned char *from, int64_t n, int channels, bool inverted)
{
  for (int64_t i = 0; i < n; i++, from += 4, to += channels) {
    unsigned v[4], rgb[3];
    for (int k = 0; k < 4; k++) v[k] = inverted ? from[k] : 255u - from[k];
    for (int k = 0; k < 3; k++) {
      unsigned product = v[k] * v[3] + 128;
      rgb[k] = (product + (product >> 8)) >> 8; /* divided by 255, rounded */
    }
    if (channels == 1) to[0] = (unsigned char)((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 32768) >> 16);
    else
      for (int k = 0; k < 3; k++) to[k] = (unsigned char)rgb[k];
    if (channels == 4) to[3] = 255;
  }
}

static void read_cmyk(reader *r, unsigned char *pixels, int channels)
{
  j_decompress_ptr c = &r->c;
  size_t row = (size_t)c->output_width * (size_t)channels;
  JSAMPARRAY line = c->mem->alloc_sarray((j_common_ptr)c, JPOOL_IMAGE, c->output_width * 4, 1);
  while (c->output_scanline < c->output_height) {
    unsigned char *to = pixels + c->output_scanline * row;
    if (jpeg_read_scanlines(c, line, 1)) from_cmyk(to, line[0], c->output_width, channels, c->saw_Adobe_marker);
  }
}

static void read_rows(reader *r, unsigned char *pixels, int channels)
{
  j_decompress_ptr c = &r->c;
  size_t row = (size_t)c->output_width * (size_t)channels;
  JSAMPROW lines[LINES];
  while (c->output_scanline < c->output_height) {
    unsigned n = c->output_height - c->output_scanline;
    if (n > LINES) n = LINES;
    for (unsigned i = 0; i < n; i++) lines[i] = pixels + (c->output_scanline + i) * row;
    jpeg_read_scanlines(c, lines, n);
  }
}

static void read_image(reader *r)
{
  j_decompress_ptr c = &r->c;
  read_head(r);
  bool cmyk = c->jpeg_color_space == JCS_CMYK || c->jpeg_color_space == JCS_YCCK;
  int channels = r->call->channels ? r->call->channels : c->jpeg_color_space == JCS_GRAYSCALE ? 1 : 3;
  c->out_color_space = cmyk ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_EXT_RGBA;
  jpeg_start_decompress(c);
  unsigned char *pixels = r->call->room(r->call->payload, c->output_width, c->output_height, channels);
  if (!pixels) leave(&r->error, NULL);
  if (cmyk) read_cmyk(r, pixels, channels);
  else read_rows(r, pixels, channels);
  jpeg_finish_decompress(c);
}

static bool read_jpeg(cn_codec_read *call)
{
  reader r;
  memset(&r, 0, sizeof r);
  r.call = call;
  r.c.err = handle(&r.error, call->message);
  if (setjmp(r.error.jump)) {
    jpeg_destroy_decompress(&r.c);
    return false;
  }
  read_image(&r);
  jpeg_destroy_decompress(&r.c);
  return true;
}

/* ---- writing ---- */

typedef struct writer {
  struct jpeg_compress_struct c;
  failing error;
  struct jpeg_destination_mgr sink;
  cn_codec_write *call;
  unsigned char buffer[OUT_SIZE];
} writer;

static void put(j_compress_ptr c, size_t n)
{
  writer *w = c->client_data;
  if (n && !w->call->put(w->call->payload, w->buffer, n)) leave(&w->error, "the bytes could not be kept");
  c->dest->next_output_byte = w->buffer;
  c->dest->free_in_buffer = OUT_SIZE;
}

static void sink_begin(j_compress_ptr c) { put(c, 0); }

static boolean sink_full(j_compress_ptr c)
{
  put(c, OUT_SIZE);
  return TRUE;
}

static void sink_end(j_compress_ptr c) { put(c, OUT_SIZE - c->dest->free_in_buffer); }

static void write_image(writer *w)
{
  j_compress_ptr c = &w->c;
  cn_codec_write *call = w->call;
  jpeg_create_compress(c);
  c->client_data = w;
  w->sink = (struct jpeg_destination_mgr){
    .init_destination = sink_begin, .empty_output_buffer = sink_full, .term_destination = sink_end};
  c->dest = &w->sink;
  c->image_width = (JDIMENSION)call->width;
  c->image_height = (JDIMENSION)call->height;
  c->input_components = call->channels;
  c->in_color_space = call->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(c);
  jpeg_set_quality(c, call->quality, TRUE);
  jpeg_start_compress(c, TRUE);
  size_t row = (size_t)call->width * (size_t)call->channels;
  while (c->next_scanline < c->image_height) {
    JSAMPROW line = (JSAMPROW)(uintptr_t)(call->pixels + c->next_scanline * row);
    jpeg_write_scanlines(c, &line, 1);
  }
  jpeg_finish_compress(c);
}

static bool write_jpeg(cn_codec_write *call)
{
  writer w;
  memset(&w, 0, offsetof(writer, buffer));
  w.call = call;
  w.c.err = handle(&w.error, call->message);
  if (call->channels == 4 || call->width > JPEG_MAX_DIMENSION || call->height > JPEG_MAX_DIMENSION) {
    snprintf(call->message, sizeof call->message, "JPEG has no alpha, and at most %ld pixels a side",
             (long)JPEG_MAX_DIMENSION);
    return false;
  }
  if (setjmp(w.error.jump)) {
    jpeg_destroy_compress(&w.c);
    return false;
  }
  write_image(&w);
  jpeg_destroy_compress(&w.c);
  return true;
}

const cn_codec codec_jpeg = {"jpeg", "jpg jpeg", knows_jpeg, read_jpeg, write_jpeg};
