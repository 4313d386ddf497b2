/* os_program.h: other programs that the library has do something for it: the system's C compiler.
 *
 * Place in the flow: beside os.h, below backends/cpu/jit. Invariant: no shell is involved, and nothing of the calling
 * program is changed: its signals, its children, its descriptors. Nothing here sets the sticky error. */
#ifndef CNI_BASE_OS_PROGRAM_H
#define CNI_BASE_OS_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where the program of a name is, by PATH unless the name is a path already. False: there is none that may be run. */
bool cni_os_program_find(char *path, size_t size, const char *name);
/* What tells a file from another one that took its place: size and time of change, as a hash. 0: there is none. */
uint64_t cni_os_file_stamp(const char *path);
/* Runs it with these arguments (the first is its name; ends with NULL) and `input` to read, and waits for its end. What
 * it says goes into said, cut to size and ended by 0. Returns its exit status, negative where it could not run. */
int cni_os_program_run(const char *path, const char *const *arguments, const char *input, char *said, size_t size);

/* A folder of this call's own, which nobody else can write to: in `parent`, or where temporary files go (NULL). False:
 * there is none to be had. */
bool cni_os_own_folder(char *path, size_t size, const char *parent);
/* Removes a folder and the files in it, or a file. */
void cni_os_remove(const char *path);
/* A file's bytes, owned: cni_free(content, *size); NULL: it is not there, empty or too large. */
void *cni_os_file_load(const char *path, size_t *size);
/* A new file in place of what was there, a link for instance, which is not followed. Nobody else may write to it. */
bool cni_os_file_store(const char *path, const void *content, size_t size);

/* Starts a thread that takes no signals and that nobody waits for; from then on the library stays loaded. False: there
 * is none to be had. */
bool cni_os_start_thread(void *(*fn)(void *), void *payload);

#endif
