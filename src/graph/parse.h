/* parse.h: what the files share that read a graph's text: the reader, and the words it takes.
 *
 * Place in the flow: parse.c reads lines, parse_call.c the calls in them, parse_words.c what those are made of.
 * Invariant: a function that returns false has not failed by itself: whoever knows the line says what is wrong. */
#ifndef CNI_GRAPH_PARSE_H
#define CNI_GRAPH_PARSE_H

#include "ir.h"

enum { CNI_READ_MOST = 4096 }; /* numbers in one list, tensors of one call, results */

typedef struct cni_reader {
  const char *s;
  size_t most; /* values there can be: each takes some characters */
  int line;
  cn_graph *g;
  int64_t *ints;
  double *floats;
  int *ids;
  char *strings; /* room for the strings of one line */
  bool any_absent; /* in the call of a scope any tensor may be unknown */
  cni_gsym *syms; /* of one line */
  int nsyms;
  int *out;       /* results of one line */
  int depth;      /* of the graph that is read: it is held by a node */
} cni_reader;

/* How much of the reader's room the arguments of a call take. */
typedef struct cni_lists {
  int nints, nfloats, nids;
  char *room;
  const char *room_end;
} cni_lists;

/* parse_words.c. Each takes what it names from the text, behind blanks; false: it is not there. */
int cni_read_bad(const cni_reader *r, const char *what); /* fails: this is wrong, here */
void cni_blanks(cni_reader *r);
bool cni_eat(cni_reader *r, const char *word);
bool cni_read_integer(cni_reader *r, int64_t *v);
bool cni_read_number(cni_reader *r, double *v);
bool cni_read_word(cni_reader *r, char *out, size_t size);
bool cni_read_small(cni_reader *r, int *v);
cn_device cni_read_device(cni_reader *r); /* by its name, which ends at a blank, a comma or a quote; 0: there is none */
/* From behind its opening quote; it goes to *room, which moves on. */
bool cni_read_string(cni_reader *r, cn_value *v, char **room, const char *room_end);
bool cni_read_value(cni_reader *r, int *id); /* "%3", or "none": -1 */
/* What follows a "$": the expression, and its value at the traced sizes. */
bool cni_read_sized(cni_reader *r, int32_t *expr, int64_t *integer_value, double *number_value);
/* A number, or an expression for one, which goes to *expr (0: none). */
bool cni_read_sized_integer(cni_reader *r, int64_t *v, int32_t *expr);
bool cni_read_sized_number(cni_reader *r, double *v, int32_t *expr);

/* parse_call.c */
/* "name(arguments) :". The op, and its arguments, which lie in the reader's room; NULL with the error set. */
const cni_opinfo *cni_read_call(cni_reader *r, cn_value *args, cni_lists *l);
int cni_take_syms(const cni_reader *r, cni_gsyms *syms); /* the expressions of the call that was read last */

#endif
