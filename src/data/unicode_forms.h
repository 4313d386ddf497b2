/* unicode_forms.h: Unicode's normal forms, and classes of characters that the steps of a tokenizer.json need.
 *
 * Place in the flow: beside unicode.h, below tokenizer_normal.c, tokenizer_words.c and tokenizer_charsmap.c. */
#ifndef CNI_DATA_UNICODE_FORMS_H
#define CNI_DATA_UNICODE_FORMS_H

#include <cairn/ext/system.h>

enum {
  CNI_MORE_WORD = 1,      /* \w */
  CNI_MORE_COMBINING = 2, /* of any kind: StripAccents drops it */
  CNI_MORE_NUMERIC = 4,
  CNI_MORE_ATTACHES = 8,  /* belongs to the character before it */
  CNI_MORE_PREPENDS = 16, /* belongs to the character behind it */
  CNI_MORE_BREAKS = 32,   /* stands alone, whatever is beside it */
  CNI_MORE_PICTURE = 64   /* joined to a picture before it */
};
unsigned cni_unicode_more(uint32_t c); /* bits of the above */

/* Bytes of the grapheme cluster at s; of one of 6 bytes and more perhaps its first characters. */
size_t cni_unicode_cluster(const char *s, const char *end);

/* Appends text in a normal form: NFD, with compatible NFKD, with compose NFC and NFKC. s is well-formed UTF-8. */
void cni_unicode_form(cn_text *out, const char *s, size_t n, bool compatible, bool compose);

#endif
