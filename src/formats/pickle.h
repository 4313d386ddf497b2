/* pickle.h: the values of a Python pickle, without executing anything. Internal; torch.c gives them their meaning.
 *
 * A pickle is a program for a stack machine that builds values and calls Python functions by name. Here the building
 * is done, and every call is handed to a function that knows what may be meant; it has no way to run anything. */
#ifndef CNI_FORMATS_PICKLE_H
#define CNI_FORMATS_PICKLE_H

#include "source.h"

typedef enum cni_pickled {
  CNI_PICKLED_NONE,
  CNI_PICKLED_BOOL,
  CNI_PICKLED_INT,
  CNI_PICKLED_BIG, /* a whole number past 64 bits: its bytes, lowest first, or its text */
  CNI_PICKLED_FLOAT,
  CNI_PICKLED_STR, /* text and bytes alike */
  CNI_PICKLED_LIST,
  CNI_PICKLED_TUPLE,
  CNI_PICKLED_DICT,   /* key, value, key, value ... */
  CNI_PICKLED_GLOBAL, /* the name of a function or class: "torch.Size" */
  CNI_PICKLED_OBJECT  /* what the caller made of a call */
} cni_pickled;

typedef struct cni_item {
  cni_pickled kind;
  bool open; /* for whoever walks: is being walked */
  bool ordered; /* of dictionaries: an OrderedDict */
  union {
    bool b;
    int64_t i;
    double f;
    struct {
      const char *s; /* not terminated; in the pickle itself, or in memory of the machine's */
      size_t n;
    } text;
    struct {
      struct cni_item **v;
      size_t n, cap;
    } list;
    struct {
      int type;
      size_t index;
    } object;
  } u;
} cni_item;

typedef struct cni_pickle cni_pickle;
/* What calls and persistent names mean: an item, or NULL with the error set. `args` is a tuple. */
typedef struct cni_pickle_meaning {
  cni_item *(*call)(cni_pickle *p, const cni_item *function, const cni_item *args, void *payload);
  cni_item *(*persistent)(cni_pickle *p, const cni_item *id, void *payload);
  void *payload;
} cni_pickle_meaning;

/* A machine reads one pickle after the other from a source; the items of all live until it is freed. Owned. */
cni_pickle *cni_pickle_new(cni_source *source, const cni_pickle_meaning *meaning);
void cni_pickle_free(cni_pickle *p);
cni_item *cni_pickle_read(cni_pickle *p); /* the next one's value; NULL with the error set */
size_t cni_pickle_at(const cni_pickle *p); /* where in the source it goes on */

cni_item *cni_item_new(cni_pickle *p, cni_pickled kind);
cni_item *cni_item_text(cni_pickle *p, const char *s, size_t n); /* copies it; for short ones */
int cni_item_push(cni_pickle *p, cni_item *list, cni_item *value);
bool cni_item_is(const cni_item *item, const char *text); /* a text or global with these characters */

#endif
