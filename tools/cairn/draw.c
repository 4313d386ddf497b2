/* draw.c: see draw.h. Invariant: without UTF-8 only plain text is written. */
#include "draw.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "digits.h"

enum { PER_ROW = 4 };

/* Does the locale write UTF-8? Asked of the environment, so that the command need not set a locale. */
static bool unicode(void)
{
  static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
  for (int i = 0; i < 3; i++) {
    const char *value = getenv(names[i]);
    if (value && *value) return strstr(value, "UTF-8") || strstr(value, "utf8") || strstr(value, "UTF8");
  }
  return false;
}

/* 0..16 in five shades, two characters wide so that pixels come out square. */
static const char *shade(int pixel, bool utf8)
{
  static const char *const blocks[] = {"  ", "\u2591\u2591", "\u2592\u2592", "\u2593\u2593", "\u2588\u2588"};
  static const char *const ascii[] = {"  ", "..", "++", "**", "##"};
  int level = pixel == 0 ? 0 : (pixel + 3) / 4;
  return utf8 ? blocks[level] : ascii[level];
}

static void draw_row(const int *images, const int *guesses, int n)
{
  bool utf8 = unicode();
  for (int y = 0; y < DIGITS_SIDE; y++) {
    for (int i = 0; i < n; i++) {
      printf("  ");
      for (int x = 0; x < DIGITS_SIDE; x++) printf("%s", shade(digits_pixel(images[i], y, x), utf8));
    }
    putchar('\n');
  }
  for (int i = 0; i < n; i++) {
    char text[32];
    bool right = guesses[i] == digits_label(images[i]);
    if (right) snprintf(text, sizeof text, "read as %d", guesses[i]);
    else snprintf(text, sizeof text, "read as %d, is %d", guesses[i], digits_label(images[i]));
    printf("  %-16s", text);
  }
  printf("\n\n");
}

void draw_digits(const int *images, const int *guesses, int n)
{
  for (int i = 0; i < n; i += PER_ROW) draw_row(images + i, guesses + i, n - i < PER_ROW ? n - i : PER_ROW);
}
