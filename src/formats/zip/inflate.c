/* inflate.c: reads DEFLATE (RFC 1951). See inflate.h.
 *
 * Codes of up to FAST bits are looked up in one step, longer ones bit by bit in the canonical order. Invariant: nothing
 * is read behind `end` (missing bits read as zeros and are found out when they are taken), and no table is used that
 * its code lengths do not fill. */
#include "inflate.h"

#include <cairn/ext/system.h>
#include <string.h>

enum { FAST = 10, LONGEST = 15, LITERALS = 288, DISTANCES = 32, LONGEST_MATCH = 258 };

typedef struct bits {
  const unsigned char *p, *end;
  uint64_t held; /* the next bits, lowest first; zeros above n */
  unsigned n;
} bits;

typedef struct code {
  uint16_t fast[1 << FAST]; /* symbol << 4 | length; 0: longer, or none */
  uint16_t count[LONGEST + 1];
  uint16_t symbol[LITERALS]; /* in the order of their codes */
} code;

typedef struct inflater {
  bits in;
  cni_bytes *out;
  size_t start, most; /* bytes of out that were there before; that may be there at the end */
  code literals, distances;
} inflater;

static const char cut[] = "the compressed data is cut short";
static const char broken[] = "the compressed data is damaged";

/* ---- bits ---- */

/* Afterwards at least 56 bits are held, or all there are. */
static void refill(bits *b)
{
  if (b->end - b->p >= 8) { /* eight bytes at once, of which as many count as there was room for */
    uint64_t next;
    memcpy(&next, b->p, sizeof next);
    b->held |= next << b->n;
    b->p += (63 - b->n) >> 3;
    b->n |= 56;
    b->held &= UINT64_MAX >> (64 - b->n);
    return;
  }
  while (b->n <= 56 && b->p < b->end) {
    b->held |= (uint64_t)*b->p++ << b->n;
    b->n += 8;
  }
}

/* Takes k <= 32 bits; false when there are no more. */
static bool take(uint32_t *value, bits *b, unsigned k)
{
  if (b->n < k) refill(b);
  if (b->n < k) return false;
  *value = (uint32_t)(b->held & (((uint64_t)1 << k) - 1));
  b->held >>= k;
  b->n -= k;
  return true;
}

/* ---- codes ---- */

static uint32_t reversed(uint32_t v, unsigned n)
{
  uint32_t r = 0;
  for (; n; n--, v >>= 1) r = r << 1 | (v & 1);
  return r;
}

/* Makes a code of its symbols' lengths. All must be filled, unless one symbol alone has a bit (or none has). */
static bool code_make(code *c, const uint8_t *lengths, size_t n)
{
  uint16_t next[LONGEST + 2] = {0}, at[LONGEST + 2] = {0};
  int left = 1;
  memset(c, 0, sizeof *c);
  for (size_t i = 0; i < n; i++) c->count[lengths[i]]++;
  unsigned used = (unsigned)n - c->count[0];
  c->count[0] = 0;
  for (int k = 1; k <= LONGEST; k++) {
    left = 2 * left - c->count[k];
    if (left < 0) return false;
    next[k + 1] = (uint16_t)((next[k] + c->count[k]) << 1);
    at[k + 1] = (uint16_t)(at[k] + c->count[k]);
  }
  if (left > 0 && !(used == 0 || (used == 1 && c->count[1]))) return false;
  for (size_t i = 0; i < n; i++) {
    unsigned k = lengths[i];
    if (!k) continue;
    c->symbol[at[k]++] = (uint16_t)i;
    uint32_t r = reversed(next[k]++, k);
    for (; k <= FAST && r < 1u << FAST; r += 1u << k) c->fast[r] = (uint16_t)(i << 4 | k);
  }
  return true;
}

/* The next symbol; -1 when the bits are none or there are no more. Needs LONGEST bits held, or all there are. */
static int symbol(bits *b, const code *c)
{
  unsigned entry = c->fast[b->held & ((1 << FAST) - 1)], k = entry & 15;
  if (entry) {
    if (k > b->n) return -1;
    b->held >>= k;
    b->n -= k;
    return (int)(entry >> 4);
  }
  int value = 0, first = 0, index = 0;
  for (k = 1; k <= LONGEST && k <= b->n; k++) {
    value |= (int)(b->held >> (k - 1) & 1);
    if (value - c->count[k] < first) {
      b->held >>= k;
      b->n -= k;
      return c->symbol[index + value - first];
    }
    index += c->count[k];
    first = (first + c->count[k]) << 1;
    value <<= 1;
  }
  return -1;
}

/* ---- blocks ---- */

/* Room for n more bytes of the result. */
static const char *reserve(inflater *f, size_t n)
{
  cni_bytes *out = f->out;
  if (n > f->most - out->n) return "it inflates to more than it says or may";
  if (out->cap - out->n >= n) return NULL;
  return cn_grow((void **)&out->bytes, &out->cap, out->n + n, 1) ? "out of memory" : NULL;
}

static const char *stored_block(inflater *f)
{
  bits *b = &f->in;
  uint32_t rest, size, check;
  if (!take(&rest, b, b->n % 8) || !take(&size, b, 16) || !take(&check, b, 16)) return cut;
  if (size != (check ^ 0xffff)) return broken;
  const char *wrong = reserve(f, size);
  if (wrong) return wrong;
  b->p -= b->n / 8; /* bytes that were held already */
  b->held = b->n = 0;
  if ((size_t)(b->end - b->p) < size) return cut;
  if (size) memcpy(f->out->bytes + f->out->n, b->p, size);
  f->out->n += size;
  b->p += size;
  return NULL;
}

/* Copies what stands `distance` bytes back; the two may overlap, which repeats a pattern. */
static const char *copy_match(inflater *f, size_t length, size_t distance)
{
  if (distance > f->out->n - f->start) return broken;
  const char *wrong = f->out->cap - f->out->n < length || f->most - f->out->n < length ? reserve(f, length) : NULL;
  if (wrong) return wrong;
  unsigned char *to = f->out->bytes + f->out->n;
  const unsigned char *from = to - distance;
  if (distance >= length) memcpy(to, from, length);
  else
    for (size_t i = 0; i < length; i++) to[i] = from[i];
  f->out->n += length;
  return NULL;
}

/* Length symbols from 257 on and distances: the smallest value and the bits that are added to it. */
static const uint16_t length_base[29] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                         31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
static const uint8_t length_bits[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                        2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
static const uint16_t distance_base[30] = {1,    2,    3,    4,    5,    7,    9,    13,    17,    25,
                                           33,   49,   65,   97,   129,  193,  257,  385,   513,   769,
                                           1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
static const uint8_t distance_bits[30] = {0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
                                          6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};

static const char *match(inflater *f, int s)
{
  bits *b = &f->in;
  uint32_t more, length, distance;
  if (s >= 29) return broken;
  if (!take(&more, b, length_bits[s])) return cut;
  length = length_base[s] + more;
  refill(b);
  s = symbol(b, &f->distances);
  if (s < 0) return b->n < LONGEST && b->p == b->end ? cut : broken;
  if (s >= 30) return broken;
  if (!take(&more, b, distance_bits[s])) return cut;
  distance = distance_base[s] + more;
  return copy_match(f, length, distance);
}

static const char *coded_block(inflater *f)
{
  bits *b = &f->in;
  for (;;) {
    refill(b);
    int s = symbol(b, &f->literals);
    if (s < 0) return b->n < LONGEST && b->p == b->end ? cut : broken;
    if (s == 256) return NULL;
    const char *wrong;
    if (s < 256) {
      wrong = f->out->n < f->out->cap && f->out->n < f->most ? NULL : reserve(f, 1);
      if (!wrong) f->out->bytes[f->out->n++] = (unsigned char)s;
    } else wrong = match(f, s - 257);
    if (wrong) return wrong;
  }
}

static void fixed_codes(inflater *f)
{
  uint8_t lengths[LITERALS];
  for (int i = 0; i < LITERALS; i++) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
  code_make(&f->literals, lengths, LITERALS);
  memset(lengths, 5, DISTANCES);
  code_make(&f->distances, lengths, DISTANCES);
}

/* The lengths of n symbols' codes, themselves coded, with runs. */
static const char *read_lengths(uint8_t *lengths, size_t n, inflater *f, const code *c)
{
  for (size_t i = 0; i < n;) {
    refill(&f->in);
    int s = symbol(&f->in, c);
    uint32_t run = 0;
    if (s < 0) return f->in.n < LONGEST && f->in.p == f->in.end ? cut : broken;
    if (s < 16) {
      lengths[i++] = (uint8_t)s;
      continue;
    }
    if (!take(&run, &f->in, s == 16 ? 2 : s == 17 ? 3 : 7)) return cut;
    run += s == 18 ? 11 : 3;
    if (run > n - i || (s == 16 && !i)) return broken;
    memset(lengths + i, s == 16 ? lengths[i - 1] : 0, run);
    i += run;
  }
  return NULL;
}

static const char *own_codes(inflater *f)
{
  static const uint8_t order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  uint8_t lengths[LITERALS + DISTANCES] = {0};
  uint32_t literals, distances, codes, k;
  if (!take(&literals, &f->in, 5) || !take(&distances, &f->in, 5) || !take(&codes, &f->in, 4)) return cut;
  literals += 257, distances += 1, codes += 4;
  if (literals > 286 || distances > 30) return broken;
  for (uint32_t i = 0; i < codes; i++) {
    if (!take(&k, &f->in, 3)) return cut;
    lengths[order[i]] = (uint8_t)k;
  }
  if (!code_make(&f->literals, lengths, 19)) return broken;
  memset(lengths, 0, 19);
  const char *wrong = read_lengths(lengths, literals + distances, f, &f->literals);
  if (wrong) return wrong;
  if (!lengths[256]) return broken; /* the block could not end */
  bool made = code_make(&f->literals, lengths, literals) && code_make(&f->distances, lengths + literals, distances);
  return made ? NULL : broken;
}

const char *cni_inflate(cni_bytes *out, size_t most, const unsigned char *from, size_t size, size_t *used)
{
  inflater *f = cn_alloc(sizeof *f);
  *used = 0;
  if (!f) return "out of memory";
  f->in = (bits){from, from + size, 0, 0};
  f->out = out;
  f->start = out->n;
  f->most = most > SIZE_MAX - out->n ? SIZE_MAX : out->n + most;
  const char *wrong = NULL;
  for (uint32_t last = 0, type = 0; !wrong && !last;) {
    if (!take(&last, &f->in, 1) || !take(&type, &f->in, 2)) wrong = cut;
    else if (type == 0) wrong = stored_block(f);
    else if (type == 3) wrong = broken;
    else {
      if (type == 1) fixed_codes(f);
      else wrong = own_codes(f);
      if (!wrong) wrong = coded_block(f);
    }
  }
  *used = (size_t)(f->in.p - from) - f->in.n / 8;
  cn_free(f, sizeof *f);
  return wrong;
}
