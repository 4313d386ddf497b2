/* os_cache.c: see os_cache.h. */
#define _XOPEN_SOURCE 700 /* realpath, S_ISVTX */
#include "os_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "alloc.h"
#include "os.h"
#include "os_program.h"

enum { PATH = 1024 };

static bool folder(char *path, size_t size)
{
  const char *own = cni_os_env("CAIRN_CACHE"), *xdg = cni_os_env("XDG_CACHE_HOME"), *home = cni_os_env("HOME");
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

/* The file of a name; false: there is no folder. */
static bool file_of(char *file, size_t size, const char *name)
{
  char path[PATH];
  if (!folder(path, sizeof path)) return false;
  snprintf(file, size, "%s/%.100s", path, name);
  return true;
}

void *cni_os_cache_load(const char *name, size_t *size)
{
  char file[PATH + 128];
  return file_of(file, sizeof file, name) ? cni_os_file_load(file, size) : NULL;
}

void cni_os_cache_store(const char *name, const void *content, size_t size)
{
  char path[PATH], file[PATH + 128], part[PATH + 160];
  if (!folder(path, sizeof path) || !make_folders(path)) return;
  snprintf(file, sizeof file, "%s/%.100s", path, name);
  /* The address of a local tells the threads of a process apart, the number its processes. */
  snprintf(part, sizeof part, "%s.%ld.%zx", file, (long)getpid(), (size_t)&path);
  if (!cni_os_file_store(part, content, size) || rename(part, file) != 0) remove(part);
}

/* Can nobody but the user and root put something else in the place of one of the folders, or links, of a path? */
static bool stays(const char *path)
{
  char part[PATH_MAX];
  for (size_t n = 1;; n++) {
    struct stat info;
    n += strcspn(path + n, "/");
    snprintf(part, sizeof part, "%.*s", (int)n, path);
    if (lstat(part, &info) || (info.st_uid != geteuid() && info.st_uid != 0)) return false;
    bool others = !S_ISLNK(info.st_mode) && info.st_mode & (S_IWGRP | S_IWOTH);
    if (others && !(info.st_mode & S_ISVTX)) return false;
    if (!path[n]) return true;
  }
}

bool cni_os_cache_is_own(char *path, size_t size)
{
  char real[PATH_MAX];
  struct stat info;
  if (!folder(path, size) || !make_folders(path) || !realpath(path, real) || stat(real, &info)) return false;
  bool own = S_ISDIR(info.st_mode) && info.st_uid == geteuid() && !(info.st_mode & (S_IWGRP | S_IWOTH));
  return own && stays(real) && (*path != '/' || stays(path));
}

void cni_os_cache_used(const char *name)
{
  char file[PATH + 128];
  if (file_of(file, sizeof file, name)) utimensat(AT_FDCWD, file, NULL, 0);
}

/* ---- what goes ---- */

enum { HALF_MADE_SECONDS = 3600, OLDEST = 64 };

typedef struct old_file {
  char name[128];
  struct timespec time;
  uint64_t size;
} old_file;

typedef struct ageing {
  const char *path, *prefix;
  uint64_t total;
  old_file oldest[OLDEST]; /* the oldest first */
  size_t n;
} ageing;

static bool is_older(const old_file *a, const old_file *b)
{
  return a->time.tv_sec < b->time.tv_sec || (a->time.tv_sec == b->time.tv_sec && a->time.tv_nsec < b->time.tv_nsec);
}

static void note(ageing *a, const old_file *f)
{
  size_t at = a->n;
  a->total += f->size;
  while (at > 0 && is_older(f, &a->oldest[at - 1])) at--;
  if (at == OLDEST) return;
  if (a->n < OLDEST) a->n++;
  memmove(&a->oldest[at + 1], &a->oldest[at], (a->n - 1 - at) * sizeof *f);
  a->oldest[at] = *f;
}

/* Looks at all files once. What is half made, and has been for long, goes. */
static void look(ageing *a)
{
  char file[PATH + 128];
  DIR *d = opendir(a->path);
  if (!d) return;
  for (struct dirent *e; (e = readdir(d));) {
    struct stat info;
    old_file f = {.size = 0};
    if (strncmp(e->d_name, a->prefix, strlen(a->prefix)) || strlen(e->d_name) >= sizeof f.name) continue;
    snprintf(file, sizeof file, "%s/%s", a->path, e->d_name);
    if (lstat(file, &info)) continue;
    bool half = S_ISDIR(info.st_mode) || strchr(e->d_name, '.');
    if (half && time(NULL) - info.st_mtim.tv_sec > HALF_MADE_SECONDS) cni_os_remove(file);
    if (half) continue;
    memcpy(f.name, e->d_name, strlen(e->d_name) + 1);
    f.time = info.st_mtim;
    f.size = (uint64_t)info.st_size;
    note(a, &f);
  }
  closedir(d);
}

void cni_os_cache_trim(const char *prefix, uint64_t most)
{
  char path[PATH], file[PATH + 160];
  ageing *a = folder(path, sizeof path) ? cni_alloc(sizeof *a) : NULL;
  if (!a) return;
  do { /* as many at a time as there is room to remember */
    a->path = path, a->prefix = prefix, a->total = 0, a->n = 0;
    look(a);
    size_t i = 0;
    for (; i < a->n && a->total > most; i++) {
      snprintf(file, sizeof file, "%s/%s", path, a->oldest[i].name);
      if (remove(file)) break;
      a->total -= a->oldest[i].size;
    }
    if (i < a->n) break;
  } while (a->total > most);
  cni_free(a, sizeof *a);
}
