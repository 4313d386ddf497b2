/* plugin.h: what tests can set in the PJRT plugin for tests, and read from it. Tests load the same library and look
 * these functions up by name. */
#ifndef TESTS_PJRT_PLUGIN_H
#define TESTS_PJRT_PLUGIN_H

#include <stddef.h>

/* What is to fail from now on, as one word: "upload", "upload-late", "compile", "execute", "execute-late", "memory"
 * (execution, late, with the code of exhausted memory), "download", "download-late", "load", "abort-options"; "":
 * nothing. */
typedef void (*fake_fail_fn)(const char *what);

typedef struct fake_counts {
  size_t buffers, most_buffers; /* that are there, that there ever were at once */
  size_t events, executables, errors; /* that are there */
  size_t elsewhere, several; /* programs that begin on another device than the first, and for several, so far */
  size_t compiled, loaded, executed, given, kept, uploads, downloads; /* so far */
} fake_counts;
typedef void (*fake_counts_fn)(fake_counts *counts);

#endif
