/* bitmap.c: pictures in files without compression: BMP and PNM. See bitmap.h.
 *
 * Invariant: sizes are checked against the file's length before a picture's memory is taken. */
#include "bitmap.h"

#include <cairn/ext/system.h>
#include <string.h>

enum { WIDEST = 1 << 16 };

static cn_tensor *damaged(const char *what)
{
  cn_err_set(CN_ERR_VALUE, "picture: %s", what);
  return NULL;
}

/* A picture whose pixels a function writes. */
static cn_tensor *drawn(int64_t height, int64_t width,
                        void (*pixel)(unsigned char *to, int64_t y, int64_t x, void *of), void *of)
{
  size_t size = (size_t)(height * width * 3);
  unsigned char *all = cn_alloc(size ? size : 1);
  if (!all) return NULL;
  for (int64_t y = 0; y < height; y++)
    for (int64_t x = 0; x < width; x++) pixel(all + (y * width + x) * 3, y, x, of);
  cn_tensor *t = cn_from_data(all, CN_SHAPE(height, width, 3), CN_U8);
  cn_free(all, size ? size : 1);
  return t;
}

/* ---- BMP ---- */

typedef struct bmp {
  const unsigned char *pixels, *palette;
  int64_t width, height, pitch, bits, ncolours;
  bool down; /* the first row is the top one */
} bmp;

static int64_t little(const unsigned char *p, int n)
{
  uint64_t v = 0;
  for (int i = n; i-- > 0;) v = v << 8 | p[i];
  return n == 4 ? (int32_t)v : (int64_t)v;
}

static void bmp_pixel(unsigned char *to, int64_t y, int64_t x, void *of)
{
  const bmp *b = of;
  const unsigned char *p = b->pixels + (b->down ? y : b->height - 1 - y) * b->pitch + x * (b->bits / 8);
  if (b->bits == 8) p = b->palette + 4 * (*p < b->ncolours ? *p : 0);
  for (int i = 0; i < 3; i++) to[i] = p[2 - i];
}

static cn_tensor *read_bmp(const unsigned char *bytes, size_t size)
{
  if (size < 54) return damaged("the BMP is too short");
  int64_t start = little(bytes + 10, 4), head = little(bytes + 14, 4), all = (int64_t)size;
  bmp b = {.width = little(bytes + 18, 4), .height = little(bytes + 22, 4), .bits = little(bytes + 28, 2)};
  if (little(bytes + 30, 4) != 0 || (b.bits != 8 && b.bits != 24 && b.bits != 32))
    return damaged("a BMP that is compressed, or of other than 8, 24 or 32 bits");
  b.down = b.height < 0;
  b.height = b.down ? -b.height : b.height;
  if (b.width < 1 || b.width > WIDEST || b.height < 1 || b.height > WIDEST)
    return damaged("the BMP's sizes are wrong");
  b.pitch = (b.width * b.bits + 31) / 32 * 4;
  b.ncolours = little(bytes + 46, 4);
  if (b.ncolours <= 0 || b.ncolours > 256) b.ncolours = 256;
  bool palette = b.bits != 8 || (head >= 40 && head < all && 14 + head + 4 * b.ncolours <= all);
  if (start < 0 || start > all || b.pitch * b.height > all - start || !palette)
    return damaged("the BMP is too short");
  b.pixels = bytes + start;
  b.palette = b.bits == 8 ? bytes + 14 + head : NULL;
  return drawn(b.height, b.width, bmp_pixel, &b);
}

/* ---- PNM ---- */

typedef struct pnm {
  const unsigned char *at, *end;
  int64_t kind, width, height, most; /* kind: 1 to 6; most: what is white */
} pnm;

static bool blank(unsigned char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* The next number, behind blanks and comments; -1: there is none. */
static int64_t word(pnm *p)
{
  int64_t n = -1;
  while (p->at < p->end && (blank(*p->at) || *p->at == '#')) {
    if (*p->at == '#')
      while (p->at < p->end && *p->at != '\n') p->at++;
    else p->at++;
  }
  for (; p->at < p->end && *p->at >= '0' && *p->at <= '9' && n < WIDEST; p->at++)
    n = (n < 0 ? 0 : n) * 10 + (*p->at - '0');
  return n;
}

/* The next sample as a byte. Those written as text are 0 behind the end. */
static unsigned char sample(pnm *p)
{
  int64_t v;
  if (p->kind == 1) { /* one digit each, blanks or none between them */
    while (p->at < p->end && *p->at != '0' && *p->at != '1') p->at++;
    v = p->at < p->end ? *p->at++ == '0' : 0;
  } else if (p->kind <= 3) v = word(p);
  else if (p->most > 255) v = p->at[0] << 8 | p->at[1], p->at += 2;
  else v = *p->at++;
  v = v < 0 ? 0 : v > p->most ? p->most : v;
  return (unsigned char)(p->most == 255 ? v : (v * 255 + p->most / 2) / p->most);
}

static void pnm_pixel(unsigned char *to, int64_t y, int64_t x, void *of)
{
  pnm *p = of;
  (void)y;
  if (p->kind == 4) { /* bits, each row from a byte of its own on; 1 is black */
    to[0] = p->at[x / 8] >> (7 - x % 8) & 1 ? 0 : 255;
    if (x == p->width - 1) p->at += (p->width + 7) / 8;
  } else to[0] = sample(p);
  bool colours = p->kind % 3 == 0;
  to[1] = colours ? sample(p) : to[0];
  to[2] = colours ? sample(p) : to[0];
}

static cn_tensor *read_pnm(const unsigned char *bytes, size_t size)
{
  pnm p = {.at = bytes + 2, .end = bytes + size, .kind = bytes[1] - '0'};
  p.width = word(&p);
  p.height = word(&p);
  p.most = p.kind % 3 == 1 ? 1 : word(&p);
  if (p.width < 1 || p.width > WIDEST || p.height < 1 || p.height > WIDEST || p.most < 1 || p.most > 65535)
    return damaged("the PNM's sizes are wrong");
  if (p.kind > 3) p.at++; /* one blank */
  int64_t each = p.kind % 3 ? 1 : 3, row = p.kind == 4 ? (p.width + 7) / 8 : p.width * each * (p.most > 255 ? 2 : 1);
  if (p.at > p.end || p.end - p.at < row * p.height) /* of text: at least a character each */
    return damaged("the PNM is too short");
  return drawn(p.height, p.width, pnm_pixel, &p);
}

cn_tensor *cni_onnx_bitmap(const unsigned char *bytes, size_t size)
{
  if (size > 2 && bytes[0] == 'B' && bytes[1] == 'M') return read_bmp(bytes, size);
  if (size > 2 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6') return read_pnm(bytes, size);
  return NULL;
}
