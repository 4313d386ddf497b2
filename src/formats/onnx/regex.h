/* regex.h: regular expressions as RE2 writes them: whether they match all of a text, and where in it. Internal.
 *
 * A pattern becomes a machine that is in many places at once, so that the time is that of text times pattern, whatever
 * they are. Classes of Unicode (\pL) and \C are refused; letters that differ in case are those of letters.h. */
#ifndef CNI_ONNX_REGEX_H
#define CNI_ONNX_REGEX_H

#include "model.h"

typedef struct cni_regex cni_regex;
/* In the arena; NULL with the error set, which says the place. */
cni_regex *cni_regex_compile(cni_arena *arena, const char *pattern, size_t size);
/* Not by several threads at once: the machine's places are the expression's. */
bool cni_regex_full_match(cni_regex *regex, const char *text, size_t size);
/* The first match in `text` from byte `from` on, and of those that begin there the longest: *at and *end, bytes of the
 * text. As above. */
bool cni_regex_find(cni_regex *regex, const char *text, size_t size, size_t from, size_t *at, size_t *end);

#endif
