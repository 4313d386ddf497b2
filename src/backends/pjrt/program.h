/* program.h: compiled programs, and how they are found again. See program.c. */
#ifndef CNI_PJRT_PROGRAM_H
#define CNI_PJRT_PROGRAM_H

#include "plugin.h"

/* Bytes that grow. */
typedef struct pjrt_text {
  char *s;
  size_t n, cap;
  bool failed;
} pjrt_text;
void cni_pjrt_put(pjrt_text *t, const void *bytes, size_t n);
void cni_pjrt_text_free(pjrt_text *t);

/* Makes *array hold `need` elements. 0 or CN_ERR_MEMORY. */
int cni_pjrt_room(void **array, size_t *cap, size_t need, size_t element);

/* The program that was noted under these bytes; NULL: none. */
pjrt_code *cni_pjrt_known(const void *key, size_t size);
int cni_pjrt_note(const void *key, size_t size, pjrt_code *code);

#endif
