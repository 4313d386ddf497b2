/* digits.c: the hand-written digits inside the library, as a data set. See data.h.
 *
 * Place in the flow: ends in rows.c. Invariant: CN_TRAIN and CN_TEST have no image, and no writer, in common. */
#include "digits.h"

#include "data.h"

enum { SIDE = 8, SIXTEENTHS = 16 };

static unsigned char pixel(const uint64_t *row, unsigned i)
{
  unsigned bit = 5 * i, word = bit / 64, shift = bit % 64;
  uint64_t v = row[word] >> shift;
  if (shift > 59) v |= row[word + 1] << (64 - shift);
  return v & 31;
}

cn_dataset *cn_digits(cn_part part)
{
  int64_t first = part == CN_TEST ? CNI_DIGITS - CNI_DIGITS_TEST : 0;
  int64_t n = (part == CN_TRAIN ? CNI_DIGITS - CNI_DIGITS_TEST : CNI_DIGITS) - first;
  static const char *const names[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_empty(CN_SHAPE(n, 1, SIDE, SIDE), .dtype = CN_U8, .device = CN_CPU);
  cn_tensor *y = cn_empty(CN_SHAPE(n), .dtype = CN_I64, .device = CN_CPU);
  unsigned char *px = x ? cn_data(x) : NULL;
  int64_t *py = y ? cn_data(y) : NULL;
  for (int64_t i = 0; px && py && i < n; i++) {
    for (unsigned k = 0; k < SIDE * SIDE; k++) *px++ = pixel(cni_digits_pixels[first + i], k);
    py[i] = cni_digits_labels[first + i] - '0';
  }
  cn_dataset *set = cni_dataset_rows("digits", (cn_tensor *const[]){x, y}, 2, SIXTEENTHS);
  cn_scope_end(s);
  if (set && !cn_dataset_set_labels(set, names, 10)) return set;
  cn_dataset_release(set);
  return NULL;
}
