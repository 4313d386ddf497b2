/* system.c: what base offers to the layers above the core by public names. See ext/system.h; files are os_file.c's.
 *
 * Invariant: nothing is decided here; each function hands on to the internal one. */
#include <cairn/ext/system.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "alloc.h"
#include "log.h"
#include "os.h"
#include "parallel.h"
#include "philox.h"

void *cn_alloc(size_t size) { return cni_alloc(size); }
void *cn_alloc_zero(size_t size) { return cni_alloc_zero(size); }
void cn_free(void *memory, size_t size) { cni_free(memory, size); }

int cn_grow(void **array, size_t *capacity, size_t need, size_t element)
{
  return cni_grow(array, capacity, need, element);
}

char *cn_string_copy(const char *s) { return cni_strdup(s); }

char *cn_string_copy_bytes(const char *s, size_t n)
{
  const char *zero = memchr(s, 0, n);
  size_t length = zero ? (size_t)(zero - s) : n;
  char *copy = cni_alloc(length + 1);
  if (!copy) return NULL;
  memcpy(copy, s, length);
  copy[length] = 0;
  return copy;
}

int cn_names_add(cn_names *names, const char *name)
{
  if (cni_grow((void **)&names->v, &names->cap, names->n + 1, sizeof *names->v)) return CN_ERR_MEMORY;
  char *copy = cni_strdup(name);
  if (!copy) return CN_ERR_MEMORY;
  names->v[names->n++] = copy;
  return CN_OK;
}

void cn_names_free(cn_names *names)
{
  for (size_t i = 0; i < names->n; i++) cni_strfree(names->v[i]);
  cni_free(names->v, names->cap * sizeof *names->v);
  *names = (cn_names){0};
}

int cn_home(char *text, size_t size)
{
  const char *own = cni_os_env("CAIRN_HOME"), *xdg = cni_os_env("XDG_DATA_HOME"), *home = cni_os_env("HOME");
  int n = -1;
  if (own) n = snprintf(text, size, "%s", own);
  else if (xdg) n = snprintf(text, size, "%s/cairn", xdg);
  else if (home) n = snprintf(text, size, "%s/.local/share/cairn", home);
  if (n > 0 && (size_t)n < size) return CN_OK;
  return cni_fail(CN_ERR_IO, "there is no folder for downloads: set CAIRN_HOME");
}

const char *cn_env(const char *name) { return cni_os_env(name); }
void *cn_library_open(const char *name) { return cni_os_library(name); }
void *cn_library_symbol(void *library, const char *name) { return cni_os_symbol(library, name); }

static char library_folders[8192];

int cn_library_folders_set(const char *folders)
{
  if (strlen(folders) >= sizeof library_folders)
    return cni_fail(CN_ERR_VALUE, "library folders: more than %zu characters", sizeof library_folders - 1);
  snprintf(library_folders, sizeof library_folders, "%s", folders);
  return CN_OK;
}

const char *cn_library_folders(void) { return library_folders; }

void *cn_plugin_open(const char *name)
{
  static const char here; /* in the file whose folder is meant */
  char file[64], path[1024], folder[900];
  const char *env = cni_os_env("CAIRN_PLUGIN_PATH");
  snprintf(file, sizeof file, "libcairn_%.32s.so", name);
  void *library = NULL;
  if (env) {
    snprintf(path, sizeof path, "%.900s/%s", env, file);
    library = cni_os_library(path);
  }
  static const char *const beside[] = {"", "cairn/"}; /* in a build and a wheel; where it is installed */
  bool found = !library && cni_os_folder_of(&here, folder, sizeof folder);
  for (int i = 0; found && !library && i < 2; i++) {
    snprintf(path, sizeof path, "%s/%s%s", folder, beside[i], file);
    library = cni_os_library(path);
  }
  return library ? library : cni_os_library(file);
}

double cn_clock(void) { return cni_os_now(); }
double cn_wall_clock(void) { return cni_os_wall(); }

void cn_warn(const char *format, ...)
{
  char text[512];
  va_list ap;
  va_start(ap, format);
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  cni_log(CN_LOG_WARNING, CNI_TOPIC_WARNINGS, "%s", text);
}

void cn_parallel_for(int64_t n, int64_t grain, cn_range_fn fn, void *payload)
{
  cni_parallel_for(n, grain, fn, payload);
}

void cn_parallel_alone(bool alone) { cni_parallel_alone(alone); }

void cn_random_block(uint32_t out[4], uint64_t seed, uint64_t stream, uint64_t i)
{
  cni_philox(seed, i, stream, out);
}
