/* letters.h: code points of UTF-8, and their letters' case. Internal. */
#ifndef CNI_ONNX_LETTERS_H
#define CNI_ONNX_LETTERS_H

#include <stddef.h>
#include <stdint.h>

/* The code point at *at, which is moved behind it; U+FFFD for a byte that is none. */
uint32_t cni_onnx_char_next(const char **at, const char *end);
/* Writes it; up to 4 bytes. How many. */
size_t cni_onnx_char_put(char *to, uint32_t c);
/* One letter for one, of Latin, Greek, Cyrillic, Armenian and Georgian letters and wide Latin ones; others stay. */
uint32_t cni_onnx_lower(uint32_t c);
uint32_t cni_onnx_upper(uint32_t c);

#endif
