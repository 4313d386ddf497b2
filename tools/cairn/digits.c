/* digits.c: see digits.h. Invariant: the last DIGITS_TEST images are never trained on. */
#include "digits.h"

int digits_pixel(int image, int y, int x) { return digits_rows[image][y * DIGITS_SIDE + x] - 'a'; }

int digits_label(int image) { return digits_rows[image][DIGITS_PIXELS] - '0'; }

cn_tensor *digits_images(int first, int n)
{
  cn_tensor *t = cn_empty(CN_SHAPE(n, 1, DIGITS_SIDE, DIGITS_SIDE), .dtype = CN_F32);
  float *to = t ? cn_data(t) : NULL;
  if (!to) return NULL;
  for (int i = 0; i < n; i++)
    for (int y = 0; y < DIGITS_SIDE; y++)
      for (int x = 0; x < DIGITS_SIDE; x++) *to++ = (float)digits_pixel(first + i, y, x) / 16;
  return t;
}

cn_tensor *digits_labels(int first, int n)
{
  cn_tensor *t = cn_empty(CN_SHAPE(n), .dtype = CN_I64);
  int64_t *to = t ? cn_data(t) : NULL;
  for (int i = 0; to && i < n; i++) to[i] = digits_label(first + i);
  return to ? t : NULL;
}
