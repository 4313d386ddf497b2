/* os_cache.h: a folder of files that can be made again: compiled code, plans.
 *
 * Place in the flow: beside os.h, for generated code of any backend. The folder is $CAIRN_CACHE, else
 * $XDG_CACHE_HOME/cairn, else ~/.cache/cairn; CAIRN_CACHE=off keeps nothing. Invariant: a file appears
 * whole or not at all, and no failure here is an error: the caller makes the content again. */
#ifndef CNI_BASE_OS_CACHE_H
#define CNI_BASE_OS_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The content stored under a name (letters, digits, '-', '.'); owned, cni_free(content, *size). NULL: not
 * there. */
void *cni_os_cache_load(const char *name, size_t *size);
void cni_os_cache_store(const char *name, const void *content, size_t size);
/* The folder, made if it is not there. False where it is not one that the user owns and nobody else may write to, or
 * where somebody else could put another in its place: code from it is not to be run. */
bool cni_os_cache_is_own(char *path, size_t size);
void cni_os_cache_used(const char *name); /* from now on it counts as new */
/* Of the files whose names begin with `prefix`, and have no '.' in them, the oldest go, until the others have no more
 * than so many bytes. What a process that was ended has left half made goes after an hour. */
void cni_os_cache_trim(const char *prefix, uint64_t most);

#endif
