/* ext/system.h: what code above the core needs of the system, so that it calls neither libc's allocator nor the
 * operating system itself: counted memory, growing text, files, shared libraries, loops over threads.
 *
 * Modules, data, formats and the trainer are written with this and the public headers alone; a program's own layers
 * and readers may use it too. Failures set the error unless said otherwise.
 */
#ifndef CAIRN_EXT_SYSTEM_H
#define CAIRN_EXT_SYSTEM_H

#include "../base.h"

CN_BEGIN_DECLS

/* ---- memory ---- */
/* Aligned to 64 bytes; size 0 gives a valid block; NULL when out of memory. */
CN_API CN_MUST_USE void *cn_alloc(size_t size);
CN_API CN_MUST_USE void *cn_alloc_zero(size_t size);
CN_API void cn_free(void *memory, size_t size); /* with the size that was asked for; NULL is fine */
/* Makes *array hold at least `need` elements of `element` bytes, growing by half; 0 or CN_ERR_MEMORY. */
CN_API CN_MUST_USE int cn_grow(void **array, size_t *capacity, size_t need, size_t element);
CN_API CN_MUST_USE char *cn_string_copy(const char *s);                  /* owned: cn_string_free */
CN_API CN_MUST_USE char *cn_string_copy_bytes(const char *s, size_t n);  /* the first n bytes of s and a zero */

/* ---- text ---- */
/* Text that grows. Zero-initialise it. After a failed allocation it stays as it was and `failed` says so. */
typedef struct cn_text {
  char *s; /* zero-terminated once something was put; NULL before */
  size_t n, cap;
  bool failed;
} cn_text;
CN_API void cn_text_put(cn_text *t, const char *s);
CN_API void cn_text_put_bytes(cn_text *t, const char *s, size_t n);
CN_API void cn_text_putf(cn_text *t, const char *format, ...) CN_PRINTF(2, 3); /* no floats: see cn_number_write */
CN_API void cn_text_put_sizes(cn_text *t, const int64_t *sizes, size_t n); /* "(2, 3)" */
CN_API void cn_text_free(cn_text *t);
/* Its text, owned: cn_string_free; frees t. NULL when anything failed. */
CN_API CN_MUST_USE char *cn_text_take(cn_text *t);
CN_API bool cn_string_starts(const char *s, const char *with);
CN_API bool cn_string_ends(const char *s, const char *with);
/* Reads the character at s (s < end) into *c: the bytes it takes, or 0 when there is no well-formed UTF-8. */
CN_API CN_MUST_USE size_t cn_utf8_read(uint32_t *c, const char *s, const char *end);
CN_API size_t cn_utf8_write(char out[4], uint32_t c); /* how many bytes */

/* Numbers as text whatever the program's locale says about decimal points. */
enum { CN_NUMBER_TEXT = 40 }; /* room for any number */
/* Writes v so that it reads back exactly, with a '.' and few digits; returns out. hex: as "0x1.8p+1". */
CN_API const char *cn_number_write(char *out, double v, bool hex);
/* Reads what that wrote, or any C literal, nan and inf. *end: behind it; s itself when there is no number. */
CN_API double cn_number_read(const char *s, const char **end);

/* ---- files ---- */
/* A whole file in memory, paged in as it is touched. Writing to it changes this mapping alone: pages written to are
 * copied, the file never changes. Reading past the new end of a file that something else cuts short meanwhile is a
 * bus error, as with every mapped file; what cn_writer replaces stays whole in the mappings made before. */
typedef struct cn_mapping {
  unsigned char *data; /* NULL for an empty file */
  size_t size;
} cn_mapping;
CN_API int cn_map_open(cn_mapping *mapping, const char *path);
CN_API void cn_map_close(cn_mapping *mapping);

/* Writes a file that appears whole or not at all: bytes go to a temporary name beside `path`; commit syncs it to the
 * disk and renames it. */
typedef struct cn_writer cn_writer;
CN_API CN_MUST_USE cn_writer *cn_writer_open(const char *path); /* owned until commit or abandon; NULL on failure */
/* The same for something else than a file: the sink gets the bytes, in parts, and returns 0 or, with the error set, a
 * negative status. Commit gives it what is left; abandon does not. */
typedef int (*cn_sink)(const void *bytes, size_t size, void *payload);
CN_API CN_MUST_USE cn_writer *cn_writer_to(cn_sink sink, void *payload);
CN_API int cn_writer_put(cn_writer *writer, const void *bytes, size_t size);
CN_API uint64_t cn_writer_at(const cn_writer *writer); /* bytes put so far */
CN_API int cn_writer_commit(cn_writer *writer);        /* also after a failed put: reports that and leaves no file */
CN_API void cn_writer_abandon(cn_writer *writer);      /* NULL is fine */
/* Goes on with `part`, a file that an earlier writer left, or begins it: cn_writer_at says how much is there. Only one
 * writer at a time has it, others wait, in other processes too. Abandoned, it stays; committed, it becomes `path`. */
CN_API CN_MUST_USE cn_writer *cn_writer_resume(const char *path, const char *part);
CN_API int cn_writer_restart(cn_writer *writer); /* of a resumed one: drops what is there */

typedef enum cn_path_kind { CN_PATH_NONE, CN_PATH_FILE, CN_PATH_FOLDER, CN_PATH_OTHER } cn_path_kind;
CN_API cn_path_kind cn_path_kind_of(const char *path); /* sets no error */
/* "folder/name", without a second slash where there is one. Owned: cn_string_free; NULL when out of memory. */
CN_API CN_MUST_USE char *cn_path_join(const char *folder, const char *name);
/* Where a file or folder really is: an absolute path without links. Owned: cn_string_free; NULL with the error set. */
CN_API CN_MUST_USE char *cn_path_real(const char *path);
CN_API int cn_folder_make(const char *path);           /* with those above it; one that exists is fine */
CN_API int cn_file_remove(const char *path);           /* one that is not there is fine */
CN_API int cn_file_rename(const char *from, const char *to);
CN_API int64_t cn_file_size(const char *path);          /* negative: a cn_status */
/* For logs: made if need be. A failure leaves the file as it was. */
CN_API int cn_file_append(const char *path, const void *bytes, size_t size);
/* The names in a folder, sorted, without "." and "..". Owned: cn_names_free. */
typedef struct cn_names {
  char **v;
  size_t n, cap;
} cn_names;
CN_API int cn_folder_list(cn_names *names, const char *path);
CN_API int cn_names_add(cn_names *names, const char *name); /* copies it */
CN_API void cn_names_free(cn_names *names);
/* $CAIRN_HOME, else $XDG_DATA_HOME/cairn, else ~/.local/share/cairn: where downloads and data sets are kept. Writes
 * the path (not the folder) to text; 0 or an error. */
CN_API int cn_home(char *text, size_t size);

/* ---- the rest of the system ---- */
CN_API const char *cn_env(const char *name);           /* a value of the environment; NULL when unset or empty */
CN_API void *cn_library_open(const char *name);         /* a shared library; NULL when absent, sets no error */
CN_API void *cn_library_symbol(void *library, const char *name);
/* Folders ("a:b") where plugins look for libraries of others that the system does not find, each with its lib and those
 * of the folders in it: for a language whose packages bring them. Copied; to be set before a plugin is used. */
CN_API int cn_library_folders_set(const char *folders);
CN_API const char *cn_library_folders(void); /* "": none */
/* libcairn_NAME.so, from CAIRN_PLUGIN_PATH, the folder of libcairn, its folder cairn/, or where the system looks; NULL
 * when absent, sets no error. */
CN_API void *cn_plugin_open(const char *name);
CN_API void cn_host_name(char *name, size_t size);
CN_API int64_t cn_process_id(void);
/* Standard output, for programs that asked for progress to be shown there. */
CN_API bool cn_is_terminal(void);                /* or a file, a pipe */
CN_API int cn_terminal_width(void);              /* columns; 80 when unknown */
CN_API void cn_terminal_write(const char *text); /* at once, in its place among the program's own output */
CN_API double cn_clock(void);     /* seconds that only go forward */
CN_API double cn_wall_clock(void); /* seconds since 1970 */
CN_API void cn_warn(const char *format, ...) CN_PRINTF(1, 2); /* to the log callback */

/* Runs fn over [0, n) in ranges of at least `grain`, on several threads; returns when all is done. Errors that fn sets
 * are handed to the caller. The split depends on n and grain, and what fn computes must not depend on the split. */
typedef void (*cn_range_fn)(int64_t begin, int64_t end, void *payload);
CN_API void cn_parallel_for(int64_t n, int64_t grain, cn_range_fn fn, void *payload);
/* Whether loops of this thread, those of ops too, run on it alone: for threads that work beside the program's own. */
CN_API void cn_parallel_alone(bool alone);

/* The random number generator of all of cairn: the i-th block of four 32-bit numbers of a seed's stream. */
CN_API void cn_random_block(uint32_t out[4], uint64_t seed, uint64_t stream, uint64_t i);

CN_END_DECLS
#endif
