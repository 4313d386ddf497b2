/* digits.h: the hand-written digits of cn_digits, one by one and as tensors. */
#ifndef CAIRN_DIGITS_H
#define CAIRN_DIGITS_H

#include <cairn/cairn.h>

enum { DIGITS_SIDE = 8, DIGITS_PIXELS = 64, DIGITS_COUNT = 1797, DIGITS_TEST = 360,
       DIGITS_TRAIN = DIGITS_COUNT - DIGITS_TEST };

int digits_pixel(int image, int y, int x); /* 0 (white) to 16 (black) */
int digits_label(int image);
/* Images [first, first + n) as (n, 1, 8, 8) float32 in 0..1, in the innermost scope. */
cn_tensor *digits_images(int first, int n);

#endif
