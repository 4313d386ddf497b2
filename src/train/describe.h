/* describe.h: a description file in memory, and what its readers share. See docs/DESCRIPTION_FILES.md.
 *
 * Place in the flow: describe.c reads text into sections of entries; describe_net.c, describe_data.c and
 * describe_solver.c make things of them. */
#ifndef CNI_TRAIN_DESCRIBE_H
#define CNI_TRAIN_DESCRIBE_H

#include <cairn/ext/signature.h>
#include <cairn/ext/system.h>
#include <cairn/train.h>

/* One `key = value`. line 0: it was set by a program. */
typedef struct cni_entry {
  char *key, *raw; /* raw: the value as it was written */
  cn_tree *value;
  int line;
} cni_entry;

typedef struct cni_section {
  char *name;
  int line;
  cni_entry *v;
  size_t n, cap;
} cni_section;

struct cn_description {
  char *file; /* for messages */
  cni_section *v;
  size_t n, cap;
};

/* The i-th name of a list; NULL past the last. */
typedef const char *(*cni_name_at)(size_t i, const void *payload);

/* ---- values (describe_value.c) ---- */
/* What a value's text says: a number, text, true or false, none, or a list of those. Owned; NULL with the error set. */
cn_tree *cni_value_read(const char *text, size_t size);
/* Appends ": the nearest are A, B" for names that look like `name`, or ": there are ..." when there are few. */
void cni_put_nearest(cn_text *out, const char *name, cni_name_at at, const void *payload);

/* Arguments for a signature, gathered by name. */
enum { CNI_LONGEST = 64 }; /* elements of a list */
typedef struct cni_given {
  cn_value v[CN_MAX_ARGS];
  int64_t ints[CN_MAX_ARGS][CNI_LONGEST];
  double floats[CN_MAX_ARGS][CNI_LONGEST];
} cni_given;
/* With the defaults of optional ones, for which nothing means none. NULL with the error set; also for a NULL sig. */
cni_given *cni_given_new(const cn_signature *sig);
void cni_given_free(cni_given *given);
/* Sets argument i from a value. 0 or an error that says what is wanted. */
int cni_given_set(cni_given *given, const cn_signature *sig, int i, const cn_tree *value);

/* ---- sections (describe.c) ---- */
/* May a description be used: is it there, and no error pending? A missing one is an error. */
bool cni_described(const cn_description *d);
cni_section *cni_section_find(const cn_description *d, const char *name);
const cni_entry *cni_entry_find(const cni_section *s, const char *key);
/* The error "FILE:LINE: message". Returns the code. */
int cni_describe_fail(const cn_description *d, int line, const char *format, ...) CN_PRINTF(3, 4);
/* Puts "FILE:LINE: [what]: " before the pending error. Returns its code. */
int cni_describe_blame(const cn_description *d, int line, const char *what);
/* Fails because `name` is none of the names that `at` lists. */
int cni_describe_unknown(const cn_description *d, int line, const char *what, const char *name, cni_name_at at,
                         const void *payload);
/* Is `key` one that [section] itself has? */
bool cni_head_key(const char *section, const char *key);
/* Is it one of [net], [data], [solver], ...: not a layer? */
bool cni_is_head(const char *section);
/* The names of a signature's parameters, for cni_put_nearest. */
const char *cni_parameter_at(size_t i, const void *signature);

/* ---- what the parts ask each other ---- */
/* The shape of one sample, without the batch: what [net] says, or the data. */
typedef struct cni_input {
  int64_t shape[CN_MAX_DIMS];
  size_t ndim;
  cn_dtype dtype;
} cni_input;
int cni_net_input(cni_input *input, const cn_description *d);
int cni_data_input(cni_input *input, const cn_description *d);
bool cni_data_is_text(const cn_description *d);
int64_t cni_data_classes(const cn_description *d); /* how many the data name; 0: unknown, or negative */
int64_t cni_describe_number(const cn_description *d, const char *section, const char *key, int64_t otherwise);
const char *cni_describe_word(const cn_description *d, const char *section, const char *key, const char *otherwise);

/* ---- checks at reading, by the files that know the names ---- */
int cni_check_layers(const cn_description *d);
int cni_check_solver(const cn_description *d);
int cni_check_transforms(const cn_description *d);

#endif
