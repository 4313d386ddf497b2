/* written.h: what drivers write of a sample's tensors into files of cases (stablehlo.c has their form). */
#ifndef TEST_OPS_WRITTEN_H
#define TEST_OPS_WRITTEN_H

#include <cairn/cairn.h>
#include <stdio.h>

void case_describe(FILE *f, const char *what, cn_tensor *t); /* "in float32 1 3", without the end of the line */
bool case_bytes(FILE *f, cn_tensor *t);                      /* row-major; false if they cannot be written */

#endif
