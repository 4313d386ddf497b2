/* digits.c: see digits.h. Invariant: the last DIGITS_TEST images are never trained on. */
#include "digits.h"

#include <cairn/data.h>

/* All images, copied out of the library at first use; white where that fails (the error is set). */
static float pixels[DIGITS_COUNT][DIGITS_PIXELS];
static int64_t labels[DIGITS_COUNT];

static void load(void)
{
  static bool loaded;
  cn_batch all;
  if (loaded) return;
  loaded = true;
  cn_loader *loader = cn_loader_new(cn_digits(CN_ALL), .batch = DIGITS_COUNT);
  if (cn_loader_next(&all, loader) == 1) {
    cn_to_data(pixels, sizeof pixels, all.x);
    cn_to_data(labels, sizeof labels, all.y);
  }
  cn_loader_free(loader);
}

int digits_pixel(int image, int y, int x)
{
  load();
  return (int)(pixels[image][y * DIGITS_SIDE + x] * 16);
}

int digits_label(int image)
{
  load();
  return (int)labels[image];
}

cn_tensor *digits_images(int first, int n)
{
  load();
  return cn_from_data(pixels[first], CN_SHAPE(n, 1, DIGITS_SIDE, DIGITS_SIDE), CN_F32);
}
