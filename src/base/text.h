/* text.h: text that grows, and numbers as text whatever the program's locale says about decimal points.
 *
 * Invariant: after a failed allocation a text stays as it was and `failed` says so; the error is set. */
#ifndef CNI_BASE_TEXT_H
#define CNI_BASE_TEXT_H

#include <cairn/base.h>

typedef struct cni_text {
  char *s; /* zero-terminated once something was put; NULL before */
  size_t n, cap;
  bool failed;
} cni_text;

void cni_text_put(cni_text *t, const char *s);
void cni_text_put_bytes(cni_text *t, const char *s, size_t n);
void cni_text_putf(cni_text *t, const char *format, ...) CN_PRINTF(2, 3); /* no floats: their point is the locale's */
void cni_text_free(cni_text *t);

enum { CNI_NUMBER_TEXT = 40 }; /* room for any number */
/* Writes v so that it reads back exactly, with a '.'; returns out. hex: as "0x1.8p+1". */
const char *cni_number_write(char *out, double v, bool hex);
/* Reads what that wrote, or any C literal, nan and inf. *end: behind it; s itself when there is no number. */
double cni_number_read(const char *s, const char **end);

#endif
