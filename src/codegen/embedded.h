/* embedded.h: the texts of the headers that generated code carries along, so that it computes what eager
 * computes.
 *
 * Place in the flow: cmake/CairnEmbed.cmake writes the table at build time from the very files that the CPU
 * kernels include; pointwise_text.c pastes them. Invariant: in the order of the table each text needs only
 * those before it. */
#ifndef CNI_CODEGEN_EMBEDDED_H
#define CNI_CODEGEN_EMBEDDED_H

typedef struct cni_embedded {
  const char *name; /* from src/: "base/maths.h" */
  const char *text; /* without include lines */
} cni_embedded;

#define CNI_EMBEDDED_EXP16 "backends/cpu/pointwise/avx512/exp16.h" /* for texts that ask for it alone */
extern const cni_embedded cni_embedded_texts[]; /* ends with name NULL */

#endif
