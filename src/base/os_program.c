/* os_program.c: see os_program.h. */
#define _GNU_SOURCE
#include "os_program.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc.h"
#include "os.h"

enum { PATH = 1024, FILE_MOST = 1 << 28 };

extern char **environ;

/* ---- finding ---- */

/* Is it a file that may be run? Links are not followed to their ends: some programs go by the name they are run as. */
static bool is_program(const char *path)
{
  struct stat info;
  return !access(path, X_OK) && !stat(path, &info) && S_ISREG(info.st_mode);
}

bool cni_os_program_find(char *path, size_t size, const char *name)
{
  const char *at = strchr(name, '/') ? NULL : cni_os_env("PATH");
  int n = snprintf(path, size, "%s", name);
  bool found = strchr(name, '/') && n > 0 && (size_t)n < size && is_program(path);
  while (at && !found) {
    size_t length = strcspn(at, ":");
    n = snprintf(path, size, "%.*s/%s", (int)length, at, name);
    /* Not in the folder that a program happens to run in, which an empty part would stand for. */
    found = *at == '/' && n > 0 && (size_t)n < size && is_program(path);
    at = at[length] ? at + length + 1 : NULL;
  }
  return found;
}

uint64_t cni_os_file_stamp(const char *path)
{
  struct stat info;
  if (stat(path, &info)) return 0;
  uint64_t h = (uint64_t)info.st_size * 0x9e3779b97f4a7c15u;
  h = (h ^ (uint64_t)info.st_mtim.tv_sec) * 0x9e3779b97f4a7c15u;
  h = (h ^ (uint64_t)info.st_mtim.tv_nsec) * 0x9e3779b97f4a7c15u;
  return h | 1;
}

/* ---- running ---- */

/* The child's signals are as a new program's: it may be waited for by one that waits for others itself. Interrupts from
 * the keyboard are for the calling program alone. */
static void set_signals(posix_spawnattr_t *attributes)
{
  sigset_t none, plain;
  sigemptyset(&none);
  sigemptyset(&plain);
  static const int usual[] = {SIGCHLD, SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM};
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) sigaddset(&plain, usual[i]);
  posix_spawnattr_setsigmask(attributes, &none);
  posix_spawnattr_setsigdefault(attributes, &plain);
  posix_spawnattr_setpgroup(attributes, 0);
  posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
}

/* Its exit status; 0 where somebody else has waited for it: what it should have made tells then. */
static int wait_for(pid_t child)
{
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return errno == ECHILD ? 0 : -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int spawn(const char *path, const char *const *arguments, int in, int out)
{
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  pid_t child;
  if (posix_spawn_file_actions_init(&files)) return -1;
  if (posix_spawnattr_init(&attributes)) {
    posix_spawn_file_actions_destroy(&files);
    return -1;
  }
  set_signals(&attributes);
  posix_spawn_file_actions_adddup2(&files, in, 0);
  posix_spawn_file_actions_adddup2(&files, out, 1);
  posix_spawn_file_actions_adddup2(&files, out, 2);
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
  posix_spawn_file_actions_addclosefrom_np(&files, 3);
#endif
  char *const *argv = (char *const *)(uintptr_t)arguments; /* they are not written to */
  int failed = posix_spawn(&child, path, &files, &attributes, argv, environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  return failed ? -1 : wait_for(child);
}

int cni_os_program_run(const char *path, const char *const *arguments, const char *input, char *said, size_t size)
{
  cni_os_shared in, out;
  size_t length = strlen(input);
  int status = -1;
  *said = 0;
  /* Files without a name, which cannot block as pipes do, nor stay behind. */
  if (cni_os_shared_new(&in, length ? length : 1)) return -1;
  if (!cni_os_shared_new(&out, size)) {
    memcpy(in.memory, input, length);
    status = spawn(path, arguments, in.fd, out.fd);
    memcpy(said, out.memory, size - 1);
    said[size - 1] = 0;
    cni_os_shared_close(&out);
  }
  cni_os_shared_close(&in);
  return status;
}

/* ---- files ---- */

bool cni_os_own_folder(char *path, size_t size, const char *parent)
{
  const char *temporary = cni_os_env("TMPDIR");
  int n = parent ? snprintf(path, size, "%s/jit-work-XXXXXX", parent)
                 : snprintf(path, size, "%s/cairn-XXXXXX", temporary ? temporary : "/tmp");
  return n > 0 && (size_t)n < size && mkdtemp(path);
}

void cni_os_remove(const char *path)
{
  char file[PATH];
  if (!unlink(path)) return;
  DIR *folder = opendir(path);
  if (!folder) return;
  for (struct dirent *e; (e = readdir(folder));) {
    int n = snprintf(file, sizeof file, "%s/%s", path, e->d_name);
    if (n > 0 && (size_t)n < sizeof file && strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) unlink(file);
  }
  closedir(folder);
  rmdir(path);
}

void *cni_os_file_load(const char *path, size_t *size)
{
  struct stat info;
  void *content = NULL;
  FILE *f = fopen(path, "rbe");
  if (!f) return NULL;
  if (fstat(fileno(f), &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0 && info.st_size < FILE_MOST) {
    *size = (size_t)info.st_size;
    content = cni_alloc(*size);
    if (content && fread(content, 1, *size, f) != *size) {
      cni_free(content, *size);
      content = NULL;
    }
  }
  fclose(f);
  return content;
}

bool cni_os_file_store(const char *path, const void *content, size_t size)
{
  unlink(path);
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "wb");
  if (!f) {
    if (fd >= 0) close(fd);
    return false;
  }
  bool whole = fwrite(content, 1, size, f) == size;
  return !fclose(f) && whole;
}

/* ---- threads ---- */

/* Code that a thread runs must not go away under it. */
static void stay_loaded(void)
{
  static const char here;
  Dl_info info;
  if (dladdr(&here, &info) && info.dli_fname) dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

bool cni_os_start_thread(void *(*fn)(void *), void *payload)
{
  sigset_t all, before;
  pthread_t thread;
  stay_loaded();
  sigfillset(&all);
  if (pthread_sigmask(SIG_SETMASK, &all, &before)) return false;
  bool started = !pthread_create(&thread, NULL, fn, payload);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (started) pthread_detach(thread);
  return started;
}
