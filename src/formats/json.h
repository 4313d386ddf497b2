/* json.h: what other formats use of JSON. Internal; see json.c. */
#ifndef CNI_FORMATS_JSON_H
#define CNI_FORMATS_JSON_H

#include <cairn/ext/system.h>
#include <cairn/tree.h>

void cni_json_put_string(cn_text *out, const char *s, size_t n); /* with its quotes */
/* Like cn_tree_from_json; `unique`: a key that stands twice is an error (else the last one counts, as in Python). */
cn_tree *cni_json_read(const char *text, size_t size, bool unique);

bool cni_is_utf8(const char *s, size_t n); /* well-formed all through? */

#endif
