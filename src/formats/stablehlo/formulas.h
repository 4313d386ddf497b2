/* formulas.h: what primitives of pointwise programs, and parts of them, are in the words of expr.c. */
#ifndef CNI_STABLEHLO_FORMULAS_H
#define CNI_STABLEHLO_FORMULAS_H

#include <stdbool.h>

/* Of a primitive or part by its name; of integers, or of floats. NULL: there is none. */
const char *cni_hlo_formula(const char *name, bool integers);

#endif
