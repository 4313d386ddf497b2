/* png.c: pictures as PNG: an own small writer, because the core library links no image library. See io.h.
 *
 * Place in the flow: for logs, and for images where the plugin with libpng is missing. Compression is deflate with the
 * fixed codes and repeats found through one table of recent places: a third of the bytes or less for what is usually
 * logged, in a page of code. */
#include <cairn/io.h>
#include <string.h>

#include "zip/inflate.h"

enum { HASHES = 4096, SHORTEST = 3, LONGEST = 258, FARTHEST = 32768 };

typedef struct picture {
  const unsigned char *pixels; /* height, width, channels */
  size_t height, width, channels;
} picture;

typedef struct bits {
  cn_text *out;
  uint32_t held;
  int n;
} bits;

/* Bits leave the lowest first. */
static void put_bits(bits *b, uint32_t value, int count)
{
  b->held |= value << b->n;
  for (b->n += count; b->n >= 8; b->n -= 8, b->held >>= 8) cn_text_put_bytes(b->out, &(char){(char)b->held}, 1);
}

/* Codes leave the highest bit first. */
static void put_code(bits *b, uint32_t code, int count)
{
  while (count-- > 0) put_bits(b, code >> count & 1, 1);
}

/* A symbol of the fixed code: 0..255 bytes, 256 the end, above it lengths. */
static void put_symbol(bits *b, uint32_t s)
{
  if (s < 144) put_code(b, 0x30 + s, 8);
  else if (s < 256) put_code(b, 0x190 + s - 144, 9);
  else if (s < 280) put_code(b, s - 256, 7);
  else put_code(b, 0xc0 + s - 280, 8);
}

/* Lengths and distances come in groups: the first few alone, then `per` groups to each doubling. The group's number
 * goes to *group; returns how many extra bits it has, whose value goes to *rest. */
static int grouped(uint32_t value, uint32_t per, uint32_t *group, uint32_t *rest)
{
  int extra = 0;
  while (value >> extra >= 2 * per) extra++;
  *group = (uint32_t)extra * per + (value >> extra);
  *rest = value & ((1u << extra) - 1);
  return extra;
}

static void put_repeat(bits *b, size_t length, size_t distance)
{
  uint32_t group, rest;
  int extra = 0;
  if (length == LONGEST) put_symbol(b, 285);
  else {
    extra = grouped((uint32_t)length - SHORTEST, 4, &group, &rest);
    put_symbol(b, 257 + group);
    put_bits(b, rest, extra);
  }
  extra = grouped((uint32_t)distance - 1, 2, &group, &rest);
  put_code(b, group, 5);
  put_bits(b, rest, extra);
}

static size_t hash(const unsigned char *p) { return ((uint32_t)p[0] << 4 ^ (uint32_t)p[1] << 2 ^ p[2]) % HASHES; }

static void deflate(cn_text *out, const unsigned char *p, size_t n)
{
  size_t size = HASHES * sizeof(size_t);
  size_t *last = cn_alloc_zero(size); /* one behind the last place with that hash */
  bits b = {.out = out};
  if (!last) {
    out->failed = true;
    return;
  }
  put_bits(&b, 1, 1); /* the last block */
  put_bits(&b, 1, 2); /* with fixed codes */
  for (size_t i = 0; i < n;) {
    size_t length = 0, from = 0;
    if (i + SHORTEST <= n) {
      size_t *slot = &last[hash(p + i)];
      from = *slot;
      *slot = i + 1;
      if (from-- && i - from <= FARTHEST)
        while (length < LONGEST && i + length < n && p[from + length] == p[i + length]) length++;
    }
    if (length >= SHORTEST) {
      put_repeat(&b, length, i - from);
      i += length;
    } else {
      put_symbol(&b, p[i++]);
    }
  }
  put_symbol(&b, 256);
  put_bits(&b, 0, (8 - b.n) & 7);
  cn_free(last, size);
}

static void put_big(cn_text *out, uint32_t v)
{
  const char bytes[4] = {(char)(v >> 24), (char)(v >> 16), (char)(v >> 8), (char)v};
  cn_text_put_bytes(out, bytes, sizeof bytes);
}

static uint32_t adler32(const unsigned char *p, size_t n)
{
  uint32_t a = 1, b = 0;
  for (size_t i = 0; i < n; i++) {
    a = (a + p[i]) % 65521;
    b = (b + a) % 65521;
  }
  return b << 16 | a;
}

static void put_chunk(cn_text *out, const char *type, const cn_text *data)
{
  put_big(out, (uint32_t)data->n);
  cn_text_put(out, type);
  cn_text_put_bytes(out, data->n ? data->s : "", data->n);
  put_big(out, cni_crc32(cni_crc32(0, type, 4), data->s, data->n));
  out->failed = out->failed || data->failed;
}

static void put_header(cn_text *head, const picture *p)
{
  static const char colour_types[] = {0, 0, 4, 2, 6};
  put_big(head, (uint32_t)p->width);
  put_big(head, (uint32_t)p->height);
  cn_text_put_bytes(head, (const char[]){8, colour_types[p->channels], 0, 0, 0}, 5);
}

/* Every row begins with a byte that names its filter: none. */
static void put_pixels(cn_text *data, const picture *p)
{
  size_t row = p->width * p->channels, size = (row + 1) * p->height;
  unsigned char *rows = cn_alloc(size);
  if (!rows) {
    data->failed = true;
    return;
  }
  for (size_t y = 0; y < p->height; y++) {
    rows[y * (row + 1)] = 0;
    memcpy(rows + y * (row + 1) + 1, p->pixels + y * row, row);
  }
  cn_text_put_bytes(data, "\x78\x01", 2);
  deflate(data, rows, size);
  put_big(data, adler32(rows, size));
  cn_free(rows, size);
}

int cn_png_write(cn_text *out, const unsigned char *pixels, int64_t height, int64_t width, int channels)
{
  const int64_t most = INT32_MAX / 8;
  if (height < 1 || width < 1 || channels < 1 || channels > 4 || width > most / channels ||
      height > most / (width * channels + 1))
    return cn_err_set(CN_ERR_SHAPE, "PNG: %lld x %lld pixels of %d channels cannot be written", (long long)height,
                      (long long)width, channels);
  const picture p = {pixels, (size_t)height, (size_t)width, (size_t)channels};
  cn_text head = {0}, data = {0}, none = {0};
  put_header(&head, &p);
  put_pixels(&data, &p);
  cn_text_put_bytes(out, "\x89PNG\r\n\x1a\n", 8);
  put_chunk(out, "IHDR", &head);
  put_chunk(out, "IDAT", &data);
  put_chunk(out, "IEND", &none);
  cn_text_free(&head);
  cn_text_free(&data);
  return out->failed ? cn_err_set(CN_ERR_MEMORY, "PNG: out of memory") : CN_OK;
}
