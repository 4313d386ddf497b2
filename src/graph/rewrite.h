/* rewrite.h: a row of cn_rewrite, read: what pattern.c makes of its text and rewrite.c matches.
 *
 * Place in the flow: pattern.c fills it from a row's two texts, rewrite.c walks it over nodes. Invariant: terms stand
 * before those inside of them; all memory is in the struct. */
#ifndef CNI_GRAPH_REWRITE_H
#define CNI_GRAPH_REWRITE_H

#include "ir.h"

enum { CNI_MOST_TERMS = 64, CNI_MOST_NAMES = 16, CNI_MOST_INTS = 64, CNI_MOST_TEXT = 256 };

enum cni_term_kind {
  CNI_TERM_CALL,    /* op(inside...) */
  CNI_TERM_NAME,    /* x: a value */
  CNI_TERM_CAPTURE, /* $x: an attribute */
  CNI_TERM_ANY,     /* _ */
  CNI_TERM_LITERAL, /* a number, text, list of integers, none */
  CNI_TERM_LIST     /* {x, y}: tensors */
};

typedef struct cni_term {
  enum cni_term_kind kind;
  const cni_opinfo *op; /* CALL */
  int name;             /* NAME, CAPTURE: which */
  cn_value literal;
  int inside, next;     /* the first term inside, the next beside it; -1: none */
} cni_term;

typedef struct cni_pattern {
  cni_term term[CNI_MOST_TERMS];
  char text[CNI_MOST_TEXT]; /* names and strings */
  int64_t ints[CNI_MOST_INTS];
  const char *name[CNI_MOST_NAMES];
  bool captures[CNI_MOST_NAMES]; /* it is a $name */
  int nterms, nnames, nints, ntext;
  int pattern, replacement; /* their outermost terms */
} cni_pattern;

int cni_pattern_read(cni_pattern *p, const cn_rewrite *row); /* 0, or an error that quotes the row */
bool cni_same_value(const cn_value *a, const cn_value *b);   /* of two attributes */

#endif
