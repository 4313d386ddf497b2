/* unicode.h: what tokenizers must know of characters: their classes, small letters, bases without accents.
 *
 * Place in the flow: below text_*.c. The classes are those that the `tokenizers` library sees (tools/make-unicode.py
 * says why): GPT-2's \p{L}, \p{N} and \s, BERT's control characters, accents, punctuation and Chinese characters. */
#ifndef CNI_DATA_UNICODE_H
#define CNI_DATA_UNICODE_H

#include <stddef.h>
#include <stdint.h>

enum {
  CNI_LETTER = 1,
  CNI_NUMBER = 2,
  CNI_SPACE = 4,
  CNI_CONTROL = 8,
  CNI_MARK = 16,    /* an accent, dropped with accents */
  CNI_STARTER = 32, /* of those, one that others are not put in order across */
  CNI_PUNCTUATION = 64,
  CNI_CJK = 128
};
#define CNI_REPLACEMENT 0xfffdu

extern const uint8_t cni_ascii_class[128];
unsigned cni_unicode_class(uint32_t c); /* bits of the above; 0 for anything past the last character */
uint32_t cni_unicode_lower(uint32_t c); /* c itself when it has none. U+0130 is the caller's: its small form is two */
/* What is left of a character without its accents, into out: how many, 0 for an accent. */
enum { CNI_BASE_MOST = 4 };
size_t cni_unicode_base(uint32_t out[CNI_BASE_MOST], uint32_t c);
/* The order of marks that are not dropped: within a run of them lower ones come first; 0 is in no run. */
unsigned cni_unicode_order(uint32_t c);

#endif
