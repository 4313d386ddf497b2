/* rewrite.h: a row of cn_rewrite, read: what pattern.c makes of its text, match.c finds in a graph and rewrite.c
 * replaces.
 *
 * Place in the flow: pattern.c fills a pattern from a row's two texts, match.c walks it over nodes, rewrite.c builds
 * the replacement. Invariant: terms stand before those inside of them; all memory is in the structs. */
#ifndef CNI_GRAPH_REWRITE_H
#define CNI_GRAPH_REWRITE_H

#include "ir.h"

enum { CNI_MOST_TERMS = 96, CNI_MOST_NAMES = 16, CNI_MOST_INTS = 64, CNI_MOST_TEXT = 256 };

enum cni_term_kind {
  CNI_TERM_CALL,    /* op(inside...) */
  CNI_TERM_NAME,    /* x: a value; x = ...: one that is made so */
  CNI_TERM_CAPTURE, /* $x: an attribute */
  CNI_TERM_NUMBER,  /* #x: a value that is a number */
  CNI_TERM_EITHER,  /* (inside | ...): the first that fits */
  CNI_TERM_ANY,     /* _ */
  CNI_TERM_LITERAL, /* a number, text, list of integers, none */
  CNI_TERM_LIST     /* {x, y}: tensors */
};

typedef struct cni_term {
  enum cni_term_kind kind;
  const cni_opinfo *op; /* CALL */
  int name;             /* NAME, CAPTURE, NUMBER: which */
  bool maybe;           /* CALL: or its first argument alone */
  bool near;            /* LITERAL: or what is rounded to it */
  cn_value literal;
  int inside, next;     /* the first term inside, the next beside it; -1: none */
} cni_term;

typedef struct cni_pattern {
  cni_term term[CNI_MOST_TERMS];
  char text[CNI_MOST_TEXT]; /* names and strings */
  int64_t ints[CNI_MOST_INTS];
  const char *name[CNI_MOST_NAMES];
  bool captures[CNI_MOST_NAMES]; /* it is a $name */
  bool given[CNI_MOST_NAMES];    /* a $name of the replacement alone: the condition gives it */
  int nterms, nnames, nints, ntext;
  int pattern, replacement; /* their outermost terms */
} cni_pattern;

int cni_pattern_read(cni_pattern *p, const cn_rewrite *row); /* 0, or an error that quotes the row */

/* What the names of a pattern stand for. */
typedef struct cni_bound {
  int value[CNI_MOST_NAMES];                 /* of a name; -2: none yet */
  const cn_value *attribute[CNI_MOST_NAMES]; /* of a $name */
  int node[CNI_MOST_TERMS], nnodes;          /* of calls, and how many; the last one is the outermost call's */
} cni_bound;

struct cn_match {
  const cni_pattern *p;
  cn_graph *g;
  int root; /* the value to be replaced */
  cni_bound bound;
  cn_value given[CNI_MOST_NAMES]; /* by the condition */
  int64_t ints[CNI_MOST_INTS];    /* ... lists of it */
  int nints;
};

bool cni_match(cn_match *m, const cni_pattern *p, cn_graph *g, int value); /* does the pattern end in this value? */
/* Does nobody but the match's nodes read what they make, the value itself apart? */
bool cni_match_is_whole(const cn_match *m);
bool cni_same_value(const cn_value *a, const cn_value *b); /* of two attributes */
/* A number without a node: a scalar that is no expression, or a constant of one element. */
bool cni_value_number(double *number, const cn_graph *g, int value);
/* cn_graph_rewrite; whole: only where nobody else reads what goes. */
int cni_graph_rewrite(cn_graph *g, const cn_rewrite *rows, size_t n, bool whole);

#endif
