/* rows.h: programs with steps along rows on the CPU.
 *
 * Place in the flow: pointwise.c hands them over. */
#ifndef CNI_CPU_POINTWISE_ROWS_H
#define CNI_CPU_POINTWISE_ROWS_H

#include "pointwise.h"

int cni_pw_rows(const cn_call *c, const cni_program *p, const cni_pw_table *table); /* 0 or an error */

#endif
