/* os_cache.h: a folder of files that can be made again: compiled code, plans.
 *
 * Place in the flow: beside os.h, for generated code of any backend. The folder is $CAIRN_CACHE, else
 * $XDG_CACHE_HOME/cairn, else ~/.cache/cairn; CAIRN_CACHE=off keeps nothing. Invariant: a file appears
 * whole or not at all, and no failure here is an error: the caller makes the content again. */
#ifndef CNI_BASE_OS_CACHE_H
#define CNI_BASE_OS_CACHE_H

#include <stddef.h>

/* The content stored under a name (letters, digits, '-', '.'); owned, cni_free(content, *size). NULL: not
 * there. */
void *cni_os_cache_load(const char *name, size_t *size);
void cni_os_cache_store(const char *name, const void *content, size_t size);

#endif
