/* os.h: every call of the operating system that cairn makes goes through here, so that a port is one file.
 *
 * Place in the flow: the very bottom. Invariant: nothing here sets the sticky error. */
#ifndef CNI_BASE_OS_H
#define CNI_BASE_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *cni_os_alloc(size_t size); /* 64-byte aligned; large ones ask for huge pages */
void cni_os_free(void *memory, size_t size);
int cni_os_cores(void);         /* usable ones: affinity and cgroup quota respected; at least 1 */
uint64_t cni_os_memory_total(void);
uint64_t cni_os_memory_free(void);
uint64_t cni_os_cache_size(int level); /* data cache of level 1..3; 0 unknown */
enum { CNI_ARM_DOTPROD = 1, CNI_ARM_BF16 = 2, CNI_ARM_I8MM = 4 };
unsigned cni_os_arm_extensions(void); /* which of these a 64-bit ARM processor has; 0 elsewhere */
/* Whether the system lets this process use the tile registers of an x86-64 processor that has them (AMX): asks for it,
 * for all threads and for children. It refuses where a thread's signal stack is too small for them. */
bool cni_os_grants_tiles(void);
void cni_os_cpu_name(char *name, size_t size);
void cni_os_yield(void);        /* lets another thread have this core */
double cni_os_now(void);        /* monotonic seconds */
uint64_t cni_os_thread(void);   /* the system's number of this thread */
double cni_os_wall(void);       /* seconds since 1970 */
uint64_t cni_os_entropy(void);  /* 64 bits that nobody can foretell */

/* Memory that other processes can have as well: children that are forked later, and whoever is given fd. */
typedef struct cni_os_shared {
  void *memory;
  size_t size;
  int fd;
} cni_os_shared;
/* Both return NULL, or what the system says against it (a text that stays). open makes a descriptor of its own, or
 * with keep false none (fd -1). */
const char *cni_os_shared_new(cni_os_shared *s, size_t size);
const char *cni_os_shared_open(cni_os_shared *s, int fd, bool keep);
void cni_os_shared_close(cni_os_shared *s);

void *cni_os_library(const char *name);              /* opens a shared library; NULL when absent */
void *cni_os_symbol(void *library, const char *name);
const char *cni_os_env(const char *name);            /* NULL when unset or empty */
/* Folder of the file that holds `symbol` (libcairn itself, for finding plugins); false when unknown. */
bool cni_os_folder_of(const void *symbol, char *folder, size_t size);
void cni_os_write_stderr(const char *text);
void cni_os_write_stdout(const char *text);

#endif
