/* unicode_forms.c: see unicode_forms.h. A text is taken apart character by character; marks are put in order within
 * their run, and put together again where that is asked for, when the next character begins a run of its own.
 *
 * Invariant: what waits begins with a character of class 0, or is the beginning of the text. */
#include "unicode_forms.h"

#include <string.h>

#include "unicode_forms.gen.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

enum { FIRST = 0xac00, LAST = 0xd7a3, LEADS = 0x1100, VOWELS = 0x1161, ENDS = 0x11a7, NVOWELS = 21, NENDS = 28 };

/* How many of the sorted v[0..n), shifted right, are not above c. */
static size_t not_above(const uint32_t *v, size_t n, unsigned shift, uint32_t c)
{
  size_t low = 0;
  while (n) {
    size_t half = n / 2;
    if (v[low + half] >> shift <= c) low += half + 1, n -= half + 1;
    else n = half;
  }
  return low;
}

unsigned cni_unicode_more(uint32_t c)
{
  return c > 0x10ffff ? 0 : more_classes[not_above(more_classes, LENGTH(more_classes), 8, c) - 1] & 0xff;
}

static unsigned order(uint32_t c)
{
  if (c < 0x300) return 0;
  size_t at = not_above(all_orders, LENGTH(all_orders), 8, c);
  return at && all_orders[at - 1] >> 8 == c ? all_orders[at - 1] & 0xff : 0;
}

/* ---- clusters ---- */

enum { LEAD = 1, VOWEL, END, OPEN, CLOSED }; /* parts of Hangul, and syllables without and with an end */

static int hangul(uint32_t c)
{
  if (c >= FIRST && c <= LAST) return (c - FIRST) % NENDS ? CLOSED : OPEN;
  if ((c >= 0x1100 && c <= 0x115f) || (c >= 0xa960 && c <= 0xa97c)) return LEAD;
  if ((c >= 0x1160 && c <= 0x11a7) || (c >= 0xd7b0 && c <= 0xd7c6)) return VOWEL;
  return (c >= 0x11a8 && c <= 0x11ff) || (c >= 0xd7cb && c <= 0xd7fb) ? END : 0;
}

/* Do two neighbours belong together? joined: a joiner behind a picture is before them. */
static bool together(uint32_t a, uint32_t b, bool joined)
{
  if (a == '\r') return b == '\n';
  unsigned before = cni_unicode_more(a), behind = cni_unicode_more(b);
  if ((before | behind) & CNI_MORE_BREAKS || b == '\r' || b == '\n' || a == '\n') return false;
  if (behind & CNI_MORE_ATTACHES || before & CNI_MORE_PREPENDS || (joined && behind & CNI_MORE_PICTURE)) return true;
  int first = hangul(a), second = hangul(b);
  if (first == LEAD) return second == LEAD || second == VOWEL || second == OPEN || second == CLOSED;
  if (first == VOWEL || first == OPEN) return second == VOWEL || second == END;
  return (first == END || first == CLOSED) && second == END;
}

size_t cni_unicode_cluster(const char *s, const char *end)
{
  enum { JOINER = 0x200d };
  uint32_t a, b;
  size_t n = cn_utf8_read(&a, s, end), size;
  if (n == 1 && (s + 1 == end || ((unsigned char)s[1] < 0x80 && s[1] != '\n'))) return n;
  if (!n) return 1;
  bool picture = cni_unicode_more(a) & CNI_MORE_PICTURE;
  for (; (size = cn_utf8_read(&b, s + n, end)) && together(a, b, picture && a == JOINER); n += size) a = b;
  return n;
}

/* ---- forms ---- */

enum { WAITING = 64 };

typedef struct former {
  cn_text *out;
  bool compatible, compose;
  size_t n;
  uint32_t c[WAITING];
  uint8_t order[WAITING];
} former;

static uint32_t composed(uint32_t a, uint32_t b)
{
  if (a >= LEADS && a < LEADS + 19 && b >= VOWELS && b < VOWELS + NVOWELS)
    return FIRST + ((a - LEADS) * NVOWELS + (b - VOWELS)) * NENDS;
  if (a >= FIRST && a <= LAST && (a - FIRST) % NENDS == 0 && b > ENDS && b < ENDS + NENDS) return a + (b - ENDS);
  size_t low = 0, n = LENGTH(pairs) / 3;
  while (n) {
    size_t half = n / 2;
    const uint32_t *p = &pairs[3 * (low + half)];
    if (p[0] == a && p[1] == b) return p[2];
    if (p[0] < a || (p[0] == a && p[1] < b)) low += half + 1, n -= half + 1;
    else n = half;
  }
  return 0;
}

/* Puts together what waits: each with the first, unless one of its class or a higher one is between them. */
static void put_together(former *f)
{
  if (!f->n || f->order[0]) return;
  size_t kept = 1;
  for (size_t i = 1; i < f->n; i++) {
    bool free = kept == 1 || f->order[kept - 1] < f->order[i];
    uint32_t both = free ? composed(f->c[0], f->c[i]) : 0;
    if (both) f->c[0] = both;
    else f->c[kept] = f->c[i], f->order[kept++] = f->order[i];
  }
  f->n = kept;
}

static void flush(former *f)
{
  char bytes[4 * WAITING];
  size_t used = 0;
  for (size_t i = 0; i < f->n; i++) used += cn_utf8_write(bytes + used, f->c[i]);
  cn_text_put_bytes(f->out, bytes, used);
  f->n = 0;
}

static void add(former *f, uint32_t c)
{
  unsigned class = order(c);
  if (!class && f->n) {
    if (f->compose) put_together(f);
    uint32_t both = f->compose && f->n == 1 ? composed(f->c[0], c) : 0;
    if (both) {
      f->c[0] = both;
      return;
    }
    flush(f);
  }
  if (f->n == WAITING) flush(f);
  size_t at = f->n++;
  for (; class && at && f->order[at - 1] > class; at--) f->c[at] = f->c[at - 1], f->order[at] = f->order[at - 1];
  f->c[at] = c;
  f->order[at] = (uint8_t) class;
}

/* The text that a table has for c: how many characters, and where. */
static size_t mapping(const uint32_t **text, const uint32_t *chars, size_t n, const uint16_t *starts,
                      const uint32_t *pool, uint32_t c)
{
  size_t at = not_above(chars, n, 0, c);
  if (!at || chars[at - 1] != c) return 0;
  *text = pool + starts[at - 1];
  return (size_t)starts[at] - starts[at - 1];
}

static void add_apart(former *f, uint32_t c)
{
  const uint32_t *text;
  size_t n = 0;
  if (c >= FIRST && c <= LAST) {
    uint32_t i = c - FIRST;
    add(f, LEADS + i / (NVOWELS * NENDS));
    add(f, VOWELS + i % (NVOWELS * NENDS) / NENDS);
    if (i % NENDS) add(f, ENDS + i % NENDS);
    return;
  }
  if (f->compatible) n = mapping(&text, compatible, LENGTH(compatible), compatible_starts, compatible_pool, c);
  if (!n) n = mapping(&text, canonical, LENGTH(canonical), canonical_starts, canonical_pool, c);
  for (size_t i = 0; i < n; i++) add(f, text[i]);
  if (!n) add(f, c);
}

void cni_unicode_form(cn_text *out, const char *s, size_t n, bool compat, bool compose)
{
  former f = {.out = out, .compatible = compat, .compose = compose};
  for (const char *end = s + n; s < end;) {
    uint32_t c;
    const char *p = s;
    while (p < end && (unsigned char)*p < 0x80) p++;
    if (p - s > 1) { /* plain text but for the last, which a mark may follow */
      if (compose) put_together(&f);
      flush(&f);
      cn_text_put_bytes(out, s, (size_t)(p - s - 1));
      s = p - 1;
    }
    size_t size = cn_utf8_read(&c, s, end);
    s += size ? size : 1;
    add_apart(&f, size ? c : 0xfffd);
  }
  if (compose) put_together(&f);
  flush(&f);
}
