/* check.h: a call of a compiled function held against the function itself (check.c).
 *
 * Place in the flow: compile.c, under CAIRN_COMPILE=check, asks cni_check_capture and then cni_check_run in place of a
 * run. Invariant: a check that finds a difference is an error of the call, and leaves everything as it was before. */
#ifndef CNI_COMPILE_CHECK_H
#define CNI_COMPILE_CHECK_H

#include "compile.h"

typedef struct cni_check {
  cn_compile_fn fn;
  const char *name;
  cni_executable *p;
  cn_compile_call *call;
  size_t room;      /* for results: call->noutputs as it was given */
  cni_by_value known;
  int (*run)(void *payload, cn_compile_call *call); /* runs the program */
  void *payload;
} cni_check;

int cni_check_capture(const cni_check *k); /* would the same be captured now? 0, or the error that says what is other */
int cni_check_run(const cni_check *k);     /* runs both; 0, or the error that says where they differ */

#endif
