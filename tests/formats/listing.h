/* listing.h: what a tree holds, as text: one value a line, with checksums of tensors. listing.py writes the same. */
#ifndef TESTS_FORMATS_LISTING_H
#define TESTS_FORMATS_LISTING_H

#include <cairn/cairn.h>

char *listing(const cn_tree *tree); /* owned: cn_string_free */
const char *scratch(const char *name); /* the path of a temporary file of that name; valid until the next call */

#endif
