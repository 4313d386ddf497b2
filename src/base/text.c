/* text.c: see text.h. */
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"

void cni_text_put_bytes(cni_text *t, const char *s, size_t n)
{
  if (t->failed || cni_grow((void **)&t->s, &t->cap, t->n + n + 1, 1)) {
    t->failed = true;
    return;
  }
  memcpy(t->s + t->n, s, n);
  t->n += n;
  t->s[t->n] = 0;
}

void cni_text_put(cni_text *t, const char *s) { cni_text_put_bytes(t, s, strlen(s)); }

void cni_text_putf(cni_text *t, const char *format, ...)
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

void cni_text_free(cni_text *t) { cni_free(t->s, t->cap); }

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

const char *cni_number_write(char *out, double v, bool hex)
{
  char point[8];
  snprintf(out, CNI_NUMBER_TEXT, hex ? "%a" : "%.17g", v);
  size_t length = decimal_point(point, sizeof point);
  char *at = length ? strstr(out, point) : NULL;
  if (at) {
    *at = '.';
    memmove(at + 1, at + length, strlen(at + length) + 1);
  }
  return out;
}

double cni_number_read(const char *s, const char **end)
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
