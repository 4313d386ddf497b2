/* os_share.c: memory shared between processes. See os.h.
 *
 * Invariant: the memory has no name that could stay behind: it is gone with its last descriptor and mapping. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os.h"

#ifdef __linux__
static int nameless(void) { return memfd_create("cairn", MFD_CLOEXEC); }
#else
static int nameless(void)
{
  static _Atomic unsigned made;
  char name[64];
  snprintf(name, sizeof name, "/cairn-%ld-%u", (long)getpid(), made++);
  int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
  if (fd >= 0) shm_unlink(name);
  return fd;
}
#endif

/* Takes fd over. */
static const char *map(cni_os_shared *s, int fd, size_t size)
{
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory != MAP_FAILED) {
    *s = (cni_os_shared){memory, size, fd};
    return NULL;
  }
  const char *why = strerror(errno);
  close(fd);
  return why;
}

const char *cni_os_shared_new(cni_os_shared *s, size_t size)
{
  int fd = nameless();
  if (fd < 0) return strerror(errno);
  /* Pages are promised now where the system can: a full memory file system would be a SIGBUS at the first write. */
  int failed = ftruncate(fd, (off_t)size) ? errno : posix_fallocate(fd, 0, (off_t)size);
  if (failed && failed != EOPNOTSUPP && failed != EINVAL) {
    close(fd);
    return strerror(failed);
  }
  return map(s, fd, size);
}

const char *cni_os_shared_open(cni_os_shared *s, int fd, bool keep)
{
  struct stat info;
  int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return strerror(errno);
  int failed = fstat(own, &info) ? errno : info.st_size > 0 ? 0 : ENODATA;
  if (failed) {
    close(own);
    return strerror(failed);
  }
  const char *why = map(s, own, (size_t)info.st_size);
  if (why || keep) return why;
  close(own);
  s->fd = -1;
  return NULL;
}

void cni_os_shared_close(cni_os_shared *s)
{
  munmap(s->memory, s->size);
  if (s->fd >= 0) close(s->fd);
}
