/* sweep.h: runs a piece of work again and again, each time with another allocation failing.
 *
 * The work makes everything it uses, and is repeatable: the same result whenever nothing fails. */
#ifndef TESTS_FAULT_SWEEP_H
#define TESTS_FAULT_SWEEP_H

#include <cairn/cairn.h>

/* Writes a number that depends on all it computed; 0, or the status of what failed. Leaves nothing behind but what
 * the scope around it owns. */
typedef int (*sweep_fn)(double *result);

/* Fails the test (as an assertion) unless every failure is reported as one of memory, nothing stays allocated after
 * it, and the work's result is the same before, between and after. */
void sweep(const char *name, sweep_fn work);

/* Adds up all elements, whatever their type. 0 with an error pending. */
double sweep_sum(cn_tensor *t);

#endif
