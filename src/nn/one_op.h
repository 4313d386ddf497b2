/* one_op.h: classes whose forward is one op: a row says which, and how arguments of the constructor become the op's.
 *
 * Place in the flow: below activations, pooling, padding and the like, which are tables of such rows.
 * Invariant: a row's class comes first in it, so that m->cls of its modules is the row. */
#ifndef CNI_NN_ONE_OP_H
#define CNI_NN_ONE_OP_H

#include "nn.h"

typedef struct cni_one_op {
  cn_module_class cls;
  const char *op;
  /* The op's arguments behind its input: each digit is the number of an argument of the constructor, 't' is whether the
   * module is in training mode. NULL: the op takes its input alone. */
  const char *args;
  /* What is printed between the brackets: names of arguments, each with marks before it: '=' the value alone, without
   * its name; '?' only when it is not its default (numbers); '*' a list of equal numbers as one number; '1' a list of
   * one as that number; '^' kernel_size instead of None. NULL: nothing is printed. */
  const char *text;
} cni_one_op;

/* .apply, and .print, of such classes. An argument `inplace` of the constructor makes the op write into its input. */
cn_tensor *cni_one_op_apply(cn_module *m, cn_tensor *x);
void cni_one_op_print(const cn_module *m, cn_text *t);

/* Reads a description of arguments as `args` above. Returns how many values it wrote. */
int cni_op_args(const cn_module *m, cn_value *values, const char *args);
/* Calls an op by its name. Results are borrowed from the scope; dest (may be NULL) gets the first one in place. */
int cni_call_op(cn_tensor **out, size_t nout, const char *op, const cn_value *args, size_t n, cn_tensor *dest);
void cni_print_named(const cn_module *m, cn_text *t, const char *names);

#endif
