/* sweep.h: runs a piece of work again and again, each time with another allocation failing.
 *
 * The work makes everything it uses, and is repeatable: the same result whenever nothing fails. A program of sweeps is
 * a table:
 *
 *     const struct CMUnitTest tests[] = {SWEEP(traced), SWEEP(compiled), SWEEP_BALANCED(borrowed, lent)};
 *     return cmocka_run_group_tests(tests, NULL, NULL);
 */
#ifndef TESTS_FAULT_SWEEP_H
#define TESTS_FAULT_SWEEP_H

#include <cairn/cairn.h>

#include "test.h"

/* Writes a number that depends on all it computed; 0, or the status of what failed. Leaves nothing behind but what
 * the scope around it owns. */
typedef int (*sweep_fn)(double *result);

typedef struct sweep_case {
  const char *name;
  sweep_fn work;
  const int *balance; /* 0 before and after: what the work lends and gets back. NULL: nothing */
} sweep_case;

/* Fails the test (as an assertion) unless every failure is reported as one of memory, nothing stays allocated after
 * it, and the work's result is the same before, between and after. *state: a sweep_case. */
void sweep_test(void **state);
int sweep_setup(void **state);
int sweep_teardown(void **state);

#define SWEEP_BALANCED(work, counter) \
  {#work, sweep_test, sweep_setup, sweep_teardown, &(sweep_case){#work, work, &(counter)}}
#define SWEEP(work) {#work, sweep_test, sweep_setup, sweep_teardown, &(sweep_case){#work, work, NULL}}

/* Adds up all elements, whatever their type. 0 with an error pending. */
double sweep_sum(cn_tensor *t);

#endif
