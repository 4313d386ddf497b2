/* expr.h: integers that follow from sizes: expression trees over the graph's sizes, kept in one array.
 *
 * Place in the flow: sizes.c finds them (solve.c), text_form.c and parse.c write and read them, plan.c evaluates all of
 * them once for the sizes of a run. Invariants: an expression stands behind its operands; equal expressions are one;
 * none has more than CNI_EXPR_MOST nodes, written as a tree. */
#ifndef CNI_GRAPH_EXPR_H
#define CNI_GRAPH_EXPR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cni_expr_op {
  CNI_EXPR_NONE,  /* expression 0 stands for "none" */
  CNI_EXPR_CONST, /* value */
  CNI_EXPR_SIZE,  /* the graph's size number `value` */
  CNI_EXPR_ADD,
  CNI_EXPR_SUB,
  CNI_EXPR_MUL,
  CNI_EXPR_DIV, /* rounded down */
  CNI_EXPR_MIN,
  CNI_EXPR_MAX,
  CNI_EXPR_RATIO /* a / b as a float: the whole of an expression, where a float is wanted */
};

enum { CNI_EXPR_MOST = 200 }; /* so that walks may recurse */

/* What has no value at some sizes: a division by zero, a result beyond int64_t. */
#define CNI_UNDEFINED INT64_MIN

typedef struct cni_expr {
  uint8_t op;
  uint8_t weight; /* nodes of the tree */
  int32_t a, b;   /* operands */
  int64_t value;
} cni_expr;

typedef struct cni_exprs {
  cni_expr *v;
  size_t n, cap;
  int32_t *slots; /* by hash; 0: empty */
  size_t nslots;
} cni_exprs;

void cni_exprs_free(cni_exprs *x);
/* The number of an expression, made if need be; operands are expressions of x. Negative status: out of memory (with the
 * error set), or CN_ERR_VALUE (without) where it would be too large or is no expression. */
int cni_expr_const(cni_exprs *x, int64_t value);
int cni_expr_size(cni_exprs *x, int size);
int cni_expr_make(cni_exprs *x, enum cni_expr_op op, int a, int b);
int cni_exprs_copy(cni_exprs *x, const cni_exprs *from); /* all, under the same numbers; x is empty */
/* An expression of another array, made here. sizes: what the other's sizes are here, -1: there is no such (then it is
 * CN_ERR_VALUE); NULL: the same. */
int cni_expr_copy(cni_exprs *x, const cni_exprs *from, int expr, const int *sizes);

/* One operation: CNI_UNDEFINED where an operand is, or there is no result. */
int64_t cni_expr_apply(enum cni_expr_op op, int64_t a, int64_t b);
int64_t cni_expr_value(const cni_exprs *x, int expr, const int64_t *sizes);
/* The values of all expressions (x->n of them) at these sizes. */
void cni_exprs_values(const cni_exprs *x, const int64_t *sizes, int64_t *values);
/* A value as a float, ratios too; false where it is undefined. */
bool cni_expr_number(const cni_exprs *x, const int64_t *values, int expr, double *number);

#endif
