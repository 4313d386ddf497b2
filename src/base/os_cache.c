/* os_cache.c: see os_cache.h. */
#define _POSIX_C_SOURCE 200809L
#include "os_cache.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc.h"
#include "os.h"

enum { PATH = 1024, FILE_MOST = 1 << 28 };

static bool folder(char *path, size_t size)
{
  const char *own = cni_os_env("CAIRN_CACHE"), *xdg = cni_os_env("XDG_CACHE_HOME"),
             *home = cni_os_env("HOME");
  int n = -1;
  if (own && !strcmp(own, "off")) return false;
  if (own) n = snprintf(path, size, "%s", own);
  else if (xdg) n = snprintf(path, size, "%s/cairn", xdg);
  else if (home) n = snprintf(path, size, "%s/.cache/cairn", home);
  return n > 0 && (size_t)n < size;
}

/* Makes a folder and those above it. */
static bool make_folders(char *path)
{
  for (char *at = path + 1; *at; at++) {
    if (*at != '/') continue;
    *at = 0;
    mkdir(path, 0700);
    *at = '/';
  }
  return mkdir(path, 0700) == 0 || errno == EEXIST;
}

void *cni_os_cache_load(const char *name, size_t *size)
{
  char path[PATH], file[PATH + 128];
  struct stat info;
  void *content = NULL;
  if (!folder(path, sizeof path)) return NULL;
  snprintf(file, sizeof file, "%s/%.100s", path, name);
  FILE *f = fopen(file, "rb");
  if (!f) return NULL;
  if (fstat(fileno(f), &info) == 0 && info.st_size > 0 && info.st_size < FILE_MOST) {
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

void cni_os_cache_store(const char *name, const void *content, size_t size)
{
  char path[PATH], file[PATH + 128], part[PATH + 160];
  if (!folder(path, sizeof path) || !make_folders(path)) return;
  snprintf(file, sizeof file, "%s/%.100s", path, name);
  /* The address of a local tells the threads of a process apart, the number its processes. */
  snprintf(part, sizeof part, "%s.%ld.%zx", file, (long)getpid(), (size_t)&path);
  FILE *f = fopen(part, "wb");
  if (!f) return;
  bool whole = fwrite(content, 1, size, f) == size;
  if (fclose(f) != 0) whole = false;
  if (!whole || rename(part, file) != 0) remove(part);
}
