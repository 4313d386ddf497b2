/* os_file.c: files: mapped whole for reading, written whole or not at all, folders. See ext/system.h.
 *
 * Invariant: after cn_writer_commit returned 0 the file survives a crash of the process and of the machine; before,
 * `path` is untouched. */
#define _DEFAULT_SOURCE /* POSIX, and MAP_NORESERVE */
#include <cairn/ext/system.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "alloc.h"
#include "os.h"

enum { BUFFER = 1 << 16, NAME_ROOM = 32 };

static int io_failed(const char *what, const char *path)
{
  return cni_fail(CN_ERR_IO, "%s: %s: %s", path, what, strerror(errno));
}

static int no_path(void) { return cni_fail(CN_ERR_TYPE, "file: the path is missing (NULL)"); }

double cni_os_wall(void)
{
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- reading ---- */

int cn_map_open(cn_mapping *mapping, const char *path)
{
  *mapping = (cn_mapping){0};
  if (!path) return no_path();
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return io_failed("cannot be opened", path);
  struct stat info;
  int status = CN_OK;
  if (fstat(fd, &info)) status = io_failed("cannot be read", path);
  else if (!S_ISREG(info.st_mode)) status = cni_fail(CN_ERR_IO, "%s: is not a file", path);
  else if (info.st_size > 0) {
    /* Nothing is reserved for pages that may be written to: a file larger than memory maps as well. */
    void *p = mmap(NULL, (size_t)info.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
    if (p == MAP_FAILED) status = io_failed("cannot be mapped", path);
    else *mapping = (cn_mapping){p, (size_t)info.st_size};
  }
  close(fd);
  return status;
}

void cn_map_close(cn_mapping *mapping)
{
  if (mapping->data) munmap(mapping->data, mapping->size);
  *mapping = (cn_mapping){0};
}

/* ---- writing ---- */

struct cn_writer {
  int fd;
  int failed;   /* errno of the first failure */
  bool resumes; /* `part` is the caller's: it stays when it is abandoned */
  cn_sink sink; /* takes the bytes instead of a file; may be NULL */
  void *payload;
  uint64_t at;
  size_t used, path_size, part_size;
  char *path, *part; /* what it will be called, and is called until then */
  unsigned char buffer[BUFFER];
};

/* Frees the writer alone; a part that nobody shall find again is removed before. */
static void writer_free(cn_writer *w)
{
  if (w->fd >= 0) close(w->fd);
  cni_free(w->path, w->path_size);
  cni_free(w->part, w->part_size);
  cni_free(w, sizeof *w);
}

static cn_writer *writer_new(const char *path, size_t part_size)
{
  cn_writer *w = cni_alloc(sizeof *w);
  if (!w) return NULL;
  memset(w, 0, offsetof(cn_writer, buffer));
  w->fd = -1;
  w->path_size = strlen(path) + 1;
  w->part_size = part_size;
  w->path = cni_alloc(w->path_size);
  w->part = w->path ? cni_alloc(part_size) : NULL;
  if (!w->part) {
    writer_free(w);
    return NULL;
  }
  memcpy(w->path, path, w->path_size);
  return w;
}

cn_writer *cn_writer_open(const char *path)
{
  if (!path) no_path();
  cn_writer *w = path ? writer_new(path, strlen(path) + 1 + NAME_ROOM) : NULL;
  if (!w) return NULL;
  snprintf(w->part, w->part_size, "%s.part-XXXXXX", path);
  w->fd = mkstemp(w->part);
  if (w->fd < 0) {
    io_failed("cannot be written", path);
    writer_free(w);
    return NULL;
  }
  fcntl(w->fd, F_SETFD, FD_CLOEXEC);
  fchmod(w->fd, 0644);
  return w;
}

/* Opens `part` and locks it. Whoever held the lock may have renamed or removed the file meanwhile: then the one that
 * has the name now is meant. */
static int open_locked(const char *part)
{
  for (;;) {
    struct stat mine, named;
    int fd = open(part, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return -1;
    while (flock(fd, LOCK_EX) && errno == EINTR) continue; /* without locks here: as well as it goes */
    bool same = !fstat(fd, &mine) && !stat(part, &named);
    if (same && mine.st_ino == named.st_ino && mine.st_dev == named.st_dev) return fd;
    close(fd);
  }
}

cn_writer *cn_writer_resume(const char *path, const char *part)
{
  cn_writer *w = writer_new(path, strlen(part) + 1);
  if (!w) return NULL;
  memcpy(w->part, part, w->part_size);
  w->resumes = true;
  w->fd = open_locked(part);
  off_t size = w->fd < 0 ? -1 : lseek(w->fd, 0, SEEK_END);
  if (size < 0) {
    io_failed("cannot be written", part);
    writer_free(w);
    return NULL;
  }
  w->at = (uint64_t)size;
  return w;
}

int cn_writer_restart(cn_writer *w)
{
  w->used = 0;
  w->at = 0;
  if (!ftruncate(w->fd, 0) && !lseek(w->fd, 0, SEEK_SET)) return CN_OK;
  w->failed = errno;
  return io_failed("cannot be written", w->path);
}

cn_writer *cn_writer_to(cn_sink sink, void *payload)
{
  cn_writer *w = writer_new("a stream", 1);
  if (!w) return NULL;
  w->part[0] = 0;
  w->sink = sink;
  w->payload = payload;
  return w;
}

static void write_all(cn_writer *w, const unsigned char *bytes, size_t size)
{
  if (w->sink) {
    if (size && !w->failed && w->sink(bytes, size, w->payload)) w->failed = EIO;
    return;
  }
  while (size && !w->failed) {
    ssize_t n = write(w->fd, bytes, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) w->failed = n ? errno : EIO;
    else bytes += n, size -= (size_t)n;
  }
}

static void flush(cn_writer *w)
{
  write_all(w, w->buffer, w->used);
  w->used = 0;
}

int cn_writer_put(cn_writer *w, const void *bytes, size_t size)
{
  bool direct = size > BUFFER / 2;
  w->at += size;
  if (direct || size > BUFFER - w->used) flush(w); /* what came before goes out before */
  if (direct) write_all(w, bytes, size);
  else {
    memcpy(w->buffer + w->used, bytes, size);
    w->used += size;
  }
  if (!w->failed) return CN_OK;
  errno = w->failed;
  return io_failed("cannot be written", w->path);
}

uint64_t cn_writer_at(const cn_writer *w) { return w->at; }

/* The new name is safe only when its folder is on the disk too. */
static void sync_folder(const char *path)
{
  char folder[4096];
  const char *slash = strrchr(path, '/');
  size_t n = slash ? (size_t)(slash - path) : 0;
  if (n >= sizeof folder) return;
  memcpy(folder, path, n);
  folder[n] = 0;
  int fd = open(!slash ? "." : n ? folder : "/", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

int cn_writer_commit(cn_writer *w)
{
  flush(w);
  bool file = !w->sink;
  if (file && !w->failed && fsync(w->fd)) w->failed = errno;
  if (file && !w->failed && rename(w->part, w->path)) w->failed = errno;
  int status = CN_OK;
  if (w->failed) {
    if (file) unlink(w->part);
    errno = w->failed;
    status = io_failed("cannot be written", w->path);
  } else if (file) sync_folder(w->path);
  writer_free(w);
  return status;
}

void cn_writer_abandon(cn_writer *w)
{
  if (!w) return;
  if (w->resumes) flush(w);
  else if (!w->sink) unlink(w->part);
  writer_free(w);
}

/* ---- names ---- */

cn_path_kind cn_path_kind_of(const char *path)
{
  struct stat info;
  if (stat(path, &info)) return CN_PATH_NONE;
  return S_ISREG(info.st_mode) ? CN_PATH_FILE : S_ISDIR(info.st_mode) ? CN_PATH_FOLDER : CN_PATH_OTHER;
}

char *cn_path_real(const char *path)
{
  char real[PATH_MAX];
  if (realpath(path, real)) return cn_string_copy(real);
  io_failed("cannot be found", path);
  return NULL;
}

int64_t cn_file_size(const char *path)
{
  struct stat info;
  if (stat(path, &info)) return io_failed("cannot be read", path);
  return (int64_t)info.st_size;
}

int cn_file_append(const char *path, const void *bytes, size_t size)
{
  const unsigned char *at = bytes;
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644), status = CN_OK;
  if (fd < 0) return io_failed("cannot be written", path);
  off_t before = lseek(fd, 0, SEEK_END);
  while (size && !status) {
    ssize_t n = write(fd, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) status = io_failed("cannot be written", path);
    else at += n, size -= (size_t)n;
  }
  if (status && before >= 0 && ftruncate(fd, before)) status = CN_ERR_IO; /* a part of it remains */
  if (close(fd) && !status) status = io_failed("cannot be written", path);
  return status;
}

int cn_folder_make(const char *path)
{
  char text[4096];
  size_t n = strlen(path);
  if (!n || n >= sizeof text) return cni_fail(CN_ERR_IO, "a folder's name of %zu characters cannot be made", n);
  memcpy(text, path, n + 1);
  for (char *at = text + 1; *at; at++) {
    if (*at != '/') continue;
    *at = 0;
    mkdir(text, 0755);
    *at = '/';
  }
  if (mkdir(text, 0755) == 0 || cn_path_kind_of(text) == CN_PATH_FOLDER) return CN_OK;
  return io_failed("cannot be made", path);
}

int cn_file_remove(const char *path)
{
  return unlink(path) == 0 || errno == ENOENT ? CN_OK : io_failed("cannot be removed", path);
}

int cn_file_rename(const char *from, const char *to)
{
  return rename(from, to) == 0 ? CN_OK : io_failed("cannot be renamed", from);
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

int cn_folder_list(cn_names *names, const char *path)
{
  *names = (cn_names){0};
  if (!path) return no_path();
  DIR *dir = opendir(path);
  if (!dir) return io_failed("cannot be listed", path);
  int status = CN_OK;
  for (struct dirent *e; !status && (e = readdir(dir));)
    if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) status = cn_names_add(names, e->d_name);
  closedir(dir);
  if (status) cn_names_free(names);
  else if (names->n) qsort(names->v, names->n, sizeof *names->v, by_name);
  return status;
}
