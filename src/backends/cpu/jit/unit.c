/* unit.c: a unit of programs from its text to code: found on disk, or compiled. See jit.h.
 *
 * A file of the cache is a header and a shared library; its name is a hash of the text, the compiler and the flags.
 * Before it is loaded it is read and checked as a whole, and what is loaded is a copy under a name of its own, gone at
 * once: whatever happens to the cache, now or later, code that runs stays what it is. Invariant: only folders that
 * nobody else can write to are loaded from. */
#include <cairn/ext/hash.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/os.h"
#include "base/os_cache.h"
#include "base/os_program.h"
#include "jit.h"

enum { PATH = 1024, SAID = 2048, WORDS = 40, MEGABYTES = 64, MOST_MEGABYTES = 1 << 30 };

/* ---- the compiler ---- */

typedef struct compiler {
  char path[PATH], version[256];
  uint64_t stamp;
} compiler;

static void say(const char *what, const char *detail)
{
  cni_log(CN_LOG_DEBUG, CNI_TOPIC_COMPILE, "jit: %s%s", what, detail);
}

static bool find_path(char *path, size_t size)
{
  static const char *const usual[] = {"cc", "gcc", "clang"};
  static _Atomic bool warned;
  const char *own = cni_os_env("CAIRN_CC");
  if (own) {
    if (cni_os_program_find(path, size, own)) return true;
    if (!atomic_exchange(&warned, true))
      cni_log(CN_LOG_WARNING, CNI_TOPIC_WARNINGS, "CAIRN_CC=%s is no program that can be run: groups run as they are",
              own);
    return false;
  }
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
    if (cni_os_program_find(path, size, usual[i])) return true;
  return false;
}

/* The one in use now; its version is asked for where it is another than before. NULL: there is none. */
static const compiler *find_compiler(void)
{
  static compiler known; /* of the JIT's thread, of which there is one at a time */
  char path[PATH];
  if (!find_path(path, sizeof path)) {
    say("there is no C compiler: groups run block by block", "");
    return NULL;
  }
  uint64_t stamp = cni_os_file_stamp(path);
  if (known.stamp == stamp && !strcmp(known.path, path)) return &known;
  const char *const arguments[] = {path, "--version", NULL};
  if (cni_os_program_run(path, arguments, "", known.version, sizeof known.version)) {
    known.stamp = 0;
    say("no compiler that answers: ", path);
    return NULL;
  }
  snprintf(known.path, sizeof known.path, "%s", path);
  known.stamp = stamp;
  return &known;
}

/* ---- flags ---- */

/* As the kernels are compiled (cmake/CairnFlags.cmake, CairnLibrary.cmake), which decides the last bits of results. */
static const char common_flags[] =
    "-x c - -std=c11 -O3 -w -pipe -shared -fPIC -nostartfiles -fwrapv -ffp-contract=off "
    "-fno-math-errno -fno-trapping-math -fno-stack-protector";
static const char *const level_flags[] = CNI_JIT_FLAGS;

/* A command line of the words of all these texts, in `room`, which they share. */
static void put_words(const char *words[WORDS], int *n, char *room, size_t size, const char *text)
{
  size_t used = *n ? (size_t)(words[*n - 1] + strlen(words[*n - 1]) + 1 - room) : 0;
  snprintf(room + used, size - used, "%s", text);
  for (char *at = room + used; *at && *n < WORDS - 1;) {
    words[(*n)++] = at;
    at += strcspn(at, " ");
    if (*at) *at++ = 0;
  }
  words[*n] = NULL;
}

/* ---- on disk ---- */

typedef struct header {
  char magic[8];
  uint64_t size, hash; /* of what follows */
} header;

static const char magic[8] = "CNJIT 1";

static void file_name(char *name, size_t size, const compiler *c, const char *text, int level)
{
  uint64_t a = cn_hash(c->path, strlen(c->path) + 1), b = 0x84222325cbf29ce4u;
  a = cn_hash_more(a, c->version, strlen(c->version) + 1);
  a = cn_hash_more(a, &c->stamp, sizeof c->stamp);
  a = cn_hash_more(a, common_flags, sizeof common_flags);
  a = cn_hash_more(a, level_flags[level], strlen(level_flags[level]) + 1);
  a = cn_hash_more(a, text, strlen(text));
  b = cn_hash_more(b ^ a, text, strlen(text));
  snprintf(name, size, "jit-%016llx%016llx", (unsigned long long)a, (unsigned long long)b);
}

/* Is it whole, and what was written? */
static bool is_sound(const header *h, size_t size)
{
  return size > sizeof *h && !memcmp(h->magic, magic, sizeof magic) && h->size == size - sizeof *h &&
         h->hash == cn_hash(h + 1, size - sizeof *h);
}

static uint64_t most_bytes(void)
{
  static _Atomic bool warned;
  const char *text = cni_os_env("CAIRN_JIT_MB");
  char *end = NULL;
  long megabytes = text ? strtol(text, &end, 10) : MEGABYTES;
  if (text && (end == text || *end || megabytes < 0 || megabytes > MOST_MEGABYTES)) {
    if (!atomic_exchange(&warned, true))
      cni_log(CN_LOG_WARNING, CNI_TOPIC_WARNINGS, "CAIRN_JIT_MB=%s is no number of megabytes: it is %d", text,
              MEGABYTES);
    megabytes = MEGABYTES;
  }
  return (uint64_t)megabytes << 20;
}

static void keep(const char *name, const char *library)
{
  size_t size, whole;
  void *content = cni_os_file_load(library, &size);
  header *h = content ? cni_alloc(whole = sizeof *h + size) : NULL;
  if (h) {
    memcpy(h->magic, magic, sizeof magic);
    h->size = size;
    h->hash = cn_hash(content, size);
    memcpy(h + 1, content, size);
    cni_os_cache_store(name, h, whole);
    cni_os_cache_trim("jit-", most_bytes());
    cni_free(h, whole);
  }
  cni_free(content, content ? size : 0);
}

/* Writes the library that the cache has under a name to a file. */
static bool fetch(const char *name, const char *library)
{
  size_t size = 0;
  header *h = cni_os_cache_load(name, &size);
  bool sound = h && is_sound(h, size), done = sound && cni_os_file_store(library, h + 1, size - sizeof *h);
  if (h && !sound) say("a file of the cache is damaged, and made anew: ", name);
  if (done) cni_os_cache_used(name);
  cni_free(h, size);
  return done;
}

/* ---- making ---- */

/* What a unit needs while it is made. */
typedef struct unit {
  const cni_program *const *programs;
  size_t n;
  int level;
  const compiler *compiler;
  bool cached;       /* the cache may be used */
  char name[64];     /* its file in the cache */
  char folder[PATH]; /* for this unit alone */
  char library[PATH + 16];
} unit;

static bool compile(const unit *u, const char *text)
{
  const char *words[WORDS];
  char room[2 * PATH], said[SAID];
  int n = 0;
  double begin = cni_os_now();
  put_words(words, &n, room, sizeof room, "cc");
  put_words(words, &n, room, sizeof room, common_flags);
  put_words(words, &n, room, sizeof room, level_flags[u->level]);
  words[n++] = "-o";
  words[n++] = u->library;
  words[n++] = "-lm";
  words[n] = NULL;
  int status = cni_os_program_run(u->compiler->path, words, text, said, sizeof said);
  if (status)
    cni_log(CN_LOG_DEBUG, CNI_TOPIC_COMPILE, "jit: %s failed (%d): %.900s", u->compiler->path, status, said);
  else if (cni_verbose(CNI_TOPIC_COMPILE))
    cni_log(CN_LOG_DEBUG, CNI_TOPIC_COMPILE, "jit: %zu groups compiled by %s in %d ms", u->n, u->compiler->path,
            (int)((cni_os_now() - begin) * 1e3));
  return !status;
}

/* Loads the library and gives the programs their code: all of them, or none. */
static bool load(const unit *u)
{
  char name[CNI_BLOCK_NAME];
  void *library = cni_os_library(u->library);
  for (size_t i = 0; i < u->n; i++) {
    cni_block_name(name, u->programs[i]);
    if (!cni_os_symbol(library, name)) return false;
  }
  for (size_t i = 0; i < u->n; i++) {
    cni_block_name(name, u->programs[i]);
    atomic_store_explicit(&u->programs[i]->code[u->level], cni_os_symbol(library, name), memory_order_release);
  }
  return true;
}

/* In the folder. */
static bool make_in(unit *u, const char *text)
{
  snprintf(u->library, sizeof u->library, "%s/unit.so", u->folder);
  if (u->cached && fetch(u->name, u->library) && load(u)) {
    say("groups found on disk: ", u->name);
    return true;
  }
  if (!compile(u, text)) return false;
  if (!load(u)) {
    say("what the compiler made cannot be loaded: ", u->library);
    return false;
  }
  if (u->cached) keep(u->name, u->library);
  return true;
}

bool cni_jit_make(const cni_program *const *programs, size_t n, int level)
{
  unit u = {.programs = programs, .n = n, .level = level, .compiler = find_compiler()};
  char cache[PATH];
  size_t size;
  char *text = u.compiler ? cni_blocks_text(programs, n, cni_jit_style(level), &size) : NULL;
  if (!text) return false;
  u.cached = cni_os_cache_is_own(cache, sizeof cache);
  if (!u.cached) say("the cache is off, or its folder is not the user's alone: code is not kept", "");
  file_name(u.name, sizeof u.name, u.compiler, text, level);
  bool made = (u.cached && cni_os_own_folder(u.folder, sizeof u.folder, cache)) ||
              cni_os_own_folder(u.folder, sizeof u.folder, NULL);
  if (!made) say("there is no folder to compile in", "");
  bool done = made && make_in(&u, text);
  if (made) cni_os_remove(u.folder);
  cni_free(text, size);
  return done;
}
