/* text.c: growing text, small questions about text, and numbers as text: see ext/system.h. */
#include <cairn/ext/system.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"

void cn_text_put_bytes(cn_text *t, const char *s, size_t n)
{
  if (t->failed || cni_grow((void **)&t->s, &t->cap, t->n + n + 1, 1)) {
    t->failed = true;
    return;
  }
  memcpy(t->s + t->n, s, n);
  t->n += n;
  t->s[t->n] = 0;
}

void cn_text_put(cn_text *t, const char *s) { cn_text_put_bytes(t, s, strlen(s)); }

void cn_text_putf(cn_text *t, const char *format, ...)
{
  va_list ap, again;
  va_start(ap, format);
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, format, ap);
  if (n < 0 || t->failed || cni_grow((void **)&t->s, &t->cap, t->n + (size_t)n + 1, 1)) t->failed = true;
  else t->n += (size_t)vsnprintf(t->s + t->n, t->cap - t->n, format, again);
  va_end(again);
  va_end(ap);
}

void cn_text_put_sizes(cn_text *t, const int64_t *sizes, size_t n)
{
  cn_text_put(t, "(");
  for (size_t i = 0; i < n; i++) cn_text_putf(t, "%s%lld", i ? ", " : "", (long long)sizes[i]);
  cn_text_put(t, ")");
}

void cn_text_free(cn_text *t)
{
  cni_free(t->s, t->cap);
  *t = (cn_text){0};
}

char *cn_text_take(cn_text *t)
{
  char *s = t->failed ? NULL : cni_strdup(t->s ? t->s : "");
  cn_text_free(t);
  return s;
}

bool cn_string_starts(const char *s, const char *with) { return !strncmp(s, with, strlen(with)); }

bool cn_string_ends(const char *s, const char *with)
{
  size_t n = strlen(s), k = strlen(with);
  return n >= k && !strcmp(s + n - k, with);
}

size_t cn_utf8_read(uint32_t *c, const char *s, const char *end)
{
  const unsigned char *b = (const unsigned char *)s;
  *c = b[0];
  if (b[0] < 0x80) return 1;
  size_t n = b[0] < 0xc2 ? 0 : b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : b[0] < 0xf5 ? 4 : 0;
  if (!n || (size_t)(end - s) < n) return 0;
  uint32_t v = b[0] & (0x7fu >> n);
  for (size_t i = 1; i < n; i++) {
    if ((b[i] & 0xc0) != 0x80) return 0;
    v = v << 6 | (b[i] & 0x3fu);
  }
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (v < least[n] || v > 0x10ffff || (v >= 0xd800 && v < 0xe000)) return 0;
  *c = v;
  return n;
}

size_t cn_utf8_write(char out[4], uint32_t c)
{
  static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
  size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (size_t i = n; i-- > 1; c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
  out[0] = (char)(lead[n] | c);
  return n;
}

char *cn_path_join(const char *folder, const char *name)
{
  cn_text t = {0};
  cn_text_put(&t, folder);
  if (*folder && !cn_string_ends(folder, "/")) cn_text_put(&t, "/");
  cn_text_put(&t, name);
  return cn_text_take(&t);
}

/* The locale's decimal point, found without asking for it: localeconv is not for threads. */
static size_t decimal_point(char *point, size_t size)
{
  char half[16];
  int n = snprintf(half, sizeof half, "%.1f", 0.5); /* "0.5" */
  size_t length = n > 2 && (size_t)n < sizeof half ? (size_t)n - 2 : 0;
  if (!length || length >= size) return 0;
  memcpy(point, half + 1, length);
  point[length] = 0;
  return length;
}

const char *cn_number_write(char *out, double v, bool hex)
{
  char point[8];
  if (hex) snprintf(out, CN_NUMBER_TEXT, "%a", v);
  for (int digits = 15; !hex && digits <= 17; digits++) { /* 0.1 rather than 0.10000000000000001 */
    snprintf(out, CN_NUMBER_TEXT, "%.*g", digits, v);
    if (strtod(out, NULL) == v) break;
  }
  size_t length = decimal_point(point, sizeof point);
  char *at = length ? strstr(out, point) : NULL;
  if (at) {
    *at = '.';
    memmove(at + 1, at + length, strlen(at + length) + 1);
  }
  return out;
}

double cn_number_read(const char *s, const char **end)
{
  char token[128], point[8], *stop;
  size_t n = strspn(s, "+-.0123456789abcdefABCDEFxXpPinfINFtyTY"), extra = 0;
  size_t length = decimal_point(point, sizeof point);
  const char *dot = memchr(s, '.', n);
  *end = s;
  if (!n || n + sizeof point >= sizeof token) return 0;
  memcpy(token, s, n);
  token[n] = 0;
  if (dot && length && strcmp(point, ".") != 0) {
    char *at = token + (dot - s);
    extra = length - 1;
    memmove(at + length, at + 1, strlen(at + 1) + 1);
    memcpy(at, point, length);
  }
  double v = strtod(token, &stop);
  size_t used = (size_t)(stop - token);
  if (dot && used > (size_t)(dot - s)) used -= extra;
  *end = s + used;
  return v;
}
