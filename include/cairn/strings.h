/* strings.h: tensors of strings as values that graphs can hold.
 *
 * Strings are two tensors: the bytes (UTF-8) of all of them one after another, and how many bytes each has, in the
 * strings' shape and in row-major order. Bytes may be longer than that: what is behind the last string does not count.
 * So graphs, their files and compiled functions take them as they take tensors: a constant of strings is two constants,
 * and another shape of the lengths is another shape of the strings. Functions here are made of ops, and run where the
 * tensors are, but for those between strings and numbers, which GPUs have no kernels for. No gradient goes through
 * strings.
 *
 * Place in the flow: above the ops, like lists.h. Invariant: bytes has at least as many elements as the lengths say.
 * Results belong to the innermost scope. Functions that return int give 0 or an error; out may be what is read.
 */
#ifndef CAIRN_STRINGS_H
#define CAIRN_STRINGS_H

#include "tensor.h"

CN_BEGIN_DECLS

typedef struct cn_strings {
  cn_tensor *bytes;   /* a vector, uint8 */
  cn_tensor *lengths; /* int64 */
} cn_strings;

/* Copies; as many as the shape says. The room for bytes is a power of two, so that few kinds of calls differ in it. */
CN_API int cn_strings_from(cn_strings *out, const char *const *strings, const int64_t *shape, size_t ndim);
/* String i of the row-major order, with a 0 behind it. Reads values, which a graph that is captured does not have.
 * Owned: cn_string_free; NULL with the error set. */
CN_API CN_MUST_USE char *cn_strings_get(const cn_strings *strings, int64_t i);

/* Shapes of a and b broadcast. */
CN_API cn_tensor *cn_strings_equal(const cn_strings *a, const cn_strings *b); /* bool */
CN_API int cn_strings_concat(cn_strings *out, const cn_strings *a, const cn_strings *b);
CN_API cn_tensor *cn_strings_count(const cn_strings *strings); /* characters (code points) of each, int64 */
/* Those at these places (int64) of the row-major order, in the shape of the indices. */
CN_API int cn_strings_take(cn_strings *out, const cn_strings *strings, cn_tensor *indices);
/* Which of the keys, a vector, each string is: the first that is equal, -1: none. int64 */
CN_API cn_tensor *cn_strings_find(const cn_strings *strings, const cn_strings *keys);
/* values[i] for strings that are key i; other (one element of the same type) for those that are none. */
CN_API cn_tensor *cn_strings_lookup(const cn_strings *strings, const cn_strings *keys, cn_tensor *values,
                                    cn_tensor *other);

/* ---- numbers ---- */
/* Decimal, with as few digits as read back as the same number; "True" and "False". */
CN_API int cn_strings_format(cn_strings *out, cn_tensor *numbers);
CN_API cn_tensor *cn_strings_parse(const cn_strings *strings, cn_dtype dtype); /* what is no number is an error */

CN_END_DECLS
#endif
