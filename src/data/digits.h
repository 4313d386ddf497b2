/* digits.h: the hand-written digits that are compiled in, as digits.gen.c writes them. */
#ifndef CNI_DATA_DIGITS_H
#define CNI_DATA_DIGITS_H

#include <stdint.h>

enum { CNI_DIGITS = 1797, CNI_DIGITS_TEST = 360 };
extern const uint64_t cni_digits_pixels[CNI_DIGITS][5]; /* five bits a pixel, 0 to 16 */
extern const char cni_digits_labels[CNI_DIGITS + 1];

#endif
